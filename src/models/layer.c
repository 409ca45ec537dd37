/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer.c - kernels, collectives and allocations of one layer. */
#include "models/layer-pass.h"

ScLayerShape
sc_layer_shape (const ScWorkload *workload, const ScLayerKind *kind)
{
  const ScPlan *plan = &workload->plan;
  const double tokens = (double) plan->micro_batch * workload->seq / plan->cp;
  g_autoptr (ScLayerKinds) kinds = kind == NULL ? sc_layer_kinds_new (workload) : NULL;
  return (ScLayerShape){
    .model = &workload->model,
    .plan = plan,
    .framework = workload->framework,
    .kind = kind != NULL ? *kind : kinds->kinds[0],
    .seq = workload->seq,
    .tokens = tokens,
    .tokens_sp = plan->sequence_parallel ? tokens / plan->tp : tokens,
    .act_bytes = sc_dtype_bytes (plan->dtype),
  };
}

double
sc_layer_saved_bytes (const ScLayerShape *shape)
{
  const Pass p = sc_pass_new (shape, NULL, SC_TIME_FORWARD);
  double bytes = 0;
  for (guint i = 0; i < N_TENSORS; i++)
    if (sc_pass_tensor_saved ((Tensor) i, shape->kind.recompute))
      bytes += sc_pass_tensor_bytes (&p, (Tensor) i);
  return bytes;
}

double
sc_boundary_bytes (const ScLayerShape *shape)
{
  const double rows = shape->plan->scatter_gather ? shape->tokens / shape->plan->tp : shape->tokens_sp;
  return shape->act_bytes * rows * shape->model->hidden;
}

/* All of a layer's forward.  @to_end FALSE: only as far as the last tensor that backward needs. */
static void
layer_body (Pass *p, gboolean to_end)
{
  sc_pass_born (p, NORM1_OUT);
  sc_pass_born (p, NORM1_STATS);
  sc_pass_norm_forward (p, "norm 1");
  sc_pass_used (p, NORM1_STATS);
  sc_pass_attention_forward (p);
  sc_pass_born (p, NORM2_IN);
  sc_pass_born (p, PROJ_MASK);
  sc_pass_residual_forward (p, "attention residual", "projection bias", "projection dropout", "attention residual");
  sc_pass_used (p, PROJ_MASK);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));

  sc_pass_born (p, NORM2_OUT);
  sc_pass_born (p, NORM2_STATS);
  sc_pass_norm_forward (p, "norm 2");
  sc_pass_used (p, NORM2_STATS);
  sc_pass_mlp_forward (p, to_end);
  if (to_end)
    {
      sc_pass_born (p, MLP_MASK);
      sc_pass_temp (p, sc_pass_rows_bytes (p)); /* the layer's output */
      sc_pass_residual_forward (p, "mlp residual", "fc2 bias", "mlp dropout", "mlp residual");
      sc_pass_used (p, MLP_MASK);
      sc_pass_temp (p, -sc_pass_rows_bytes (p));
    }
  sc_pass_used (p, NORM2_IN);
  if (to_end)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

void
sc_layer_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_FORWARD);
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = sc_pass_tensor_saved ((Tensor) i, shape->kind.recompute);
  sc_pass_born (&p, NORM1_IN);
  layer_body (&p, TRUE);
}

static void
layer_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = TRUE; /* what is repeated here is spent here */

  sc_pass_temp (&p, sc_pass_rows_bytes (&p)); /* the gradient of the output: taken over */
  if (shape->kind.recompute == SC_RECOMPUTE_FULL)
    {
      p.time = SC_TIME_RECOMPUTE;
      layer_body (&p, !shape->framework->recompute_stops_early || p.model->dropout > 0);
      p.time = SC_TIME_BACKWARD;
    }

  sc_pass_residual_backward (&p, "mlp dropout backward", "fc2 bias gradient", MLP_MASK);
  sc_pass_mlp_backward (&p);
  sc_pass_temp (&p, sc_pass_rows_bytes (&p));
  sc_pass_norm_backward (&p, "norm 2 backward");
  sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
  sc_pass_spent (&p, NORM2_IN);
  sc_pass_spent (&p, NORM2_STATS);
  sc_pass_operation (&p, "mlp residual gradient", SC_OP_ADD, 3 * sc_pass_rows_bytes (&p), 0);
  sc_pass_residual_summed (&p);

  sc_pass_residual_backward (&p, "projection dropout backward", "projection bias gradient", PROJ_MASK);
  sc_pass_attention_backward (&p);
  sc_pass_temp (&p, sc_pass_rows_bytes (&p));
  sc_pass_norm_backward (&p, "norm 1 backward");
  sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
  sc_pass_spent (&p, NORM1_IN);
  sc_pass_spent (&p, NORM1_STATS);
  sc_pass_operation (&p, "attention residual gradient", SC_OP_ADD, 3 * sc_pass_rows_bytes (&p), 0);
  sc_pass_residual_summed (&p);

  sc_pass_temp (&p, -sc_pass_rows_bytes (&p)); /* the gradient of the input: handed on */
}

void
sc_layer_backward (const ScLayerShape *shape, GArray *items)
{
  layer_backward (shape, PART_WHOLE, items);
}

void
sc_layer_backward_input (const ScLayerShape *shape, GArray *items)
{
  layer_backward (shape, PART_INPUT, items);
}

/* What layer_backward() left, in the order in which it left it. */
void
sc_layer_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = PART_WEIGHT;
  sc_pass_mlp_weights (&p);
  sc_pass_attention_weights (&p);
}
