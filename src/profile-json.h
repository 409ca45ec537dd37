/* SPDX-License-Identifier: GPL-3.0-or-later */
/* profile-json.h - what the user measured of passes and micro-batches: plan.profiled_ms, plan.microbatch_factors.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "models/workload.h"

extern const ScFieldTable sc_profile_table;

/* @object: of plan.profiled_ms; @plan has its pp and vpp. */
gboolean sc_profile_read (ScPlan *plan, const ScJson *json, const cJSON *object, GError **error);

gboolean sc_microbatch_factors_read (ScPlan *plan, const ScJson *json, const cJSON *array, GError **error);
