/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-memory.h - memory over the step: what run --memory adds.
 * Layer: src.  Both want a summary whose stages were all played (SC_MEMORY_ALL). */
#pragma once
#include "models/summary.h"

/* Curve, peak and largest tensors of the fullest stage, for people. */
void sc_report_memory_text (const ScSummary *summary, GString *out);

/* The first, the fullest and the last stage as an SVG picture, stacked by kind. */
void sc_report_memory_svg (const ScSummary *summary, GString *out);
