/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-layer.h - one transformer layer as a published row describes it: its forward and backward time.
 * Layer: src. */
#pragma once
#include "json-in.h"

typedef struct
{
  double forward_s, backward_s; /* backward with whatever it repeats */
  double measured_forward_s, measured_backward_s; /* of the row; 0: not stated */
} ScLayerTimes;

/* Simulates three such layers, as a step of one micro-batch at burst clocks, on the shipped topology that has the row's GPUs, and
 * takes the distance from one layer to the next.  FALSE: *ret_why, which is yours, says what the row lacks. */
gboolean sc_layer_times (const ScJson *row, ScLayerTimes *ret, char **ret_why);
