/* SPDX-License-Identifier: GPL-3.0-or-later */
/* optimizer.h - what an optimizer keeps and moves for each parameter, and what Muon multiplies (MODELLING 3.2, 4.5).
 * Layer: models.  Over how many ranks states are shared out is models/sharding.h. */
#pragma once
#include "models/layer.h"

typedef struct
{
  const char *name;    /* in plan.optimizer, and of its kernel */
  const char *summary; /* one line for people */
  const char *source;
  double   state_bytes;    /* kept per parameter, besides fp32 weights */
  double   step_bytes;     /* HBM traffic of the fused step per parameter that it updates, 16-bit weights beside fp32 ones */
  guint    newton_schulz;  /* iterations over each matrix; 0: none */
} ScOptimizerRow;

const ScOptimizerRow *sc_optimizer_row (ScOptimizer optimizer);

/* A weight of a linear layer as one rank holds it. */
typedef struct
{
  guint64  rows, columns;
  gboolean expert; /* routed: shared out over the expert-data-parallel ranks */
} ScMatrix;

/* Appends those of one layer. */
void sc_optimizer_matrices (const ScLayerShape *shape, GArray *matrices);

/* Parameters in @matrices, of routed experts or of all else. */
double sc_matrices_params (const GArray *matrices, gboolean expert);

/* Leaves what the busiest of the ranks has where whole matrices are dealt out, the largest first, over @ranks, and experts' over
 * @expert_ranks. */
void sc_matrices_deal (GArray *matrices, guint ranks, guint expert_ranks);

/* Bytes of state per parameter of a rank that holds @params, @matrix of them in matrices: under Muon all others are Adam's. */
double sc_optimizer_state_bytes (ScOptimizer optimizer, double params, double matrix);

/* Optimizer step over @owned parameters of a rank that holds gradients of @held: gradient norm (the first item: the norm's all-reduce
 * comes behind it), unscale and clip, the step, zeroing the gradient buffer.  @matrices: ScMatrix, of @owned, that this rank
 * orthogonalises; NULL: none. */
void sc_optimizer_step (const ScLayerShape *shape, double held, double owned, const GArray *matrices, GArray *items);

/* What does not go with the optimizer.  Messages start with the pointer of the key. */
gboolean sc_optimizer_check (const ScWorkload *workload, GError **error);
