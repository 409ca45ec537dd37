/* SPDX-License-Identifier: GPL-3.0-or-later */
/* profile.h - times of passes that the user measured, in place of our own (plan.profiled_ms).
 * Layer: models. */
#pragma once
#include "models/layer.h"

/* Seconds of @pass of one micro-batch over one layer of virtual stage @stage; @layers: [pp * vpp] of each stage.
 * A number is the time of the layers of the pipeline rank that holds most of them, shared out evenly; embedding, head and loss
 * come on top.  By stage it is the time of all that the stage does: its layers, embedding and head each take an equal part. */
double sc_profile_part_s (const ScPlan *plan, const guint *layers, guint stage, ScPass pass);

/* @items, those of one pass, become one kernel of @seconds, or none for 0.  What the pass allocates and frees stays: it comes
 * in two instants, before and behind the kernel, with the same peak and the same sum.  Collectives are part of what was measured. */
void sc_profile_replace (GArray *items, ScPass pass, double seconds);
