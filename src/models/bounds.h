/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bounds.h - what a plan needs at least, without simulating it: a search need not look at plans whose bounds are worse than what it has.
 * Layer: models. */
#pragma once
#include "models/kernel.h"
#include "models/topology.h"
#include "models/workload.h"

typedef struct
{
  /* Of the step: the busiest pipeline rank's kernels one after the other, each alone on the GPU, and before and behind them the passes of one micro-batch over the
   * stages before it, which it waits for (MODELLING 7.1).  Sharing links and GPUs with collectives, waiting and hosts only add to it.  0 where times are not ours
   * (plan.profiled_ms), differ between micro-batches, or GPUs are of several kinds. */
  double  step_s;
  /* Of the fullest GPU: CUDA's context, weights and optimizer states with the activations of the micro-batches in flight and with gradients, or, where these are not
   * always there, with the larger of both.  0 with plan.offload. */
  double  device_bytes;
  double  capacity_bytes;
} ScBounds;

/* @workload was checked, also against @topology.  @costs may be NULL. */
ScBounds sc_bounds (const ScTopology *topology, const ScWorkload *workload, ScCostCache *costs);
