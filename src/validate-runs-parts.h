/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-runs-parts.h - private to validate-runs*.c.
 * Layer: src. */
#pragma once
#include "validate-runs.h"

/* Fills all but runs and ignored. */
void sc_runs_sum_up (ScRunsResult *result);
