/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer.c - kernels, collectives and allocations of one layer. */
#include "models/layer-pass.h"
#include <string.h>

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
    if (sc_pass_tensor_saved ((Tensor) i, &shape->kind))
      bytes += sc_pass_tensor_bytes (&p, (Tensor) i);
  return bytes;
}

double
sc_boundary_bytes (const ScLayerShape *shape)
{
  const double rows = shape->plan->scatter_gather ? shape->tokens / shape->plan->tp : shape->tokens_sp;
  return shape->act_bytes * rows * shape->model->hidden;
}

static gboolean
has_latents (const Pass *p)
{
  return p->model->mla.kv_lora_rank > 0;
}

static void
first_norm (Pass *p)
{
  sc_pass_born (p, NORM1_OUT);
  if (p->model->layer_norms == 1)
    sc_pass_born (p, NORM2_OUT); /* one output for both halves */
  sc_pass_born (p, NORM1_STATS);
  sc_pass_norm_forward (p, "norm 1");
  sc_pass_used (p, NORM1_STATS);
}

static void
second_norm (Pass *p)
{
  sc_pass_born (p, NORM2_OUT);
  sc_pass_born (p, NORM2_STATS);
  sc_pass_norm_forward (p, "norm 2");
  sc_pass_used (p, NORM2_STATS);
}

static void
forward_half (Pass *p, Half half, gboolean to_end)
{
  p->half = half;
  if (half == ATTENTION_HALF && has_latents (p))
    sc_pass_mla_forward (p);
  else if (half == ATTENTION_HALF)
    sc_pass_attention_forward (p);
  else if (p->shape->kind.experts)
    sc_pass_moe_forward (p, to_end);
  else
    sc_pass_mlp_forward (p, to_end);
}

/* All of a layer's forward.  @to_end FALSE: only as far as the last tensor that backward needs. */
static void
sequential_body (Pass *p, gboolean to_end)
{
  first_norm (p);
  forward_half (p, ATTENTION_HALF, TRUE);
  sc_pass_born (p, NORM2_IN);
  sc_pass_residual_forward (p);
  sc_pass_used (p, NORM1_IN);
  if (!p->fw->names_output)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));

  second_norm (p);
  if (p->ops)
    {
      sc_pass_spent (p, OPS_QUERIES);
      sc_pass_spent (p, OPS_BRANCH); /* is half of what comes */
    }
  forward_half (p, MLP_HALF, to_end);
  if (to_end)
    {
      sc_pass_temp (p, sc_pass_rows_bytes (p)); /* the layer's output */
      sc_pass_residual_forward (p);
      sc_pass_temp (p, -sc_pass_rows_bytes (p));
    }
  sc_pass_used (p, NORM2_IN);
  if (to_end)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
  if (p->fw->names_output)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

/* Attention and MLP of one input, side by side: two residuals add up. */
static void
parallel_body (Pass *p, gboolean to_end)
{
  first_norm (p);
  if (p->model->layer_norms != 1)
    second_norm (p);
  forward_half (p, ATTENTION_HALF, TRUE);
  forward_half (p, MLP_HALF, to_end);
  if (to_end)
    {
      sc_pass_temp (p, sc_pass_rows_bytes (p));
      p->half = ATTENTION_HALF;
      sc_pass_residual_forward (p);
      p->half = MLP_HALF;
      sc_pass_residual_forward (p);
      sc_pass_temp (p, -sc_pass_rows_bytes (p)); /* the MLP's, ... */
      sc_pass_temp (p, -sc_pass_rows_bytes (p)); /* ... and the sum, which is handed on */
    }
  sc_pass_used (p, NORM1_IN);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

static void
layer_body (Pass *p, gboolean to_end)
{
  if (p->model->parallel_attention)
    parallel_body (p, to_end);
  else
    sequential_body (p, to_end);
}

void
sc_layer_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_FORWARD);
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = sc_pass_tensor_saved ((Tensor) i, &shape->kind);
  sc_pass_born (&p, NORM1_IN);
  for (Tensor kept = OPS_QUERIES; kept <= OPS_REST; kept++)
    sc_pass_born (&p, kept);
  layer_body (&p, TRUE);
}

/* The forward once more, which leaves all that backward needs.  PyTorch's non-reentrant checkpoint, which selects operators, too,
 * stops where nothing else is needed. */
static void
layer_again (Pass *p, gboolean to_end)
{
  const ScLayerRecompute *const r = &p->shape->kind.recompute;
  p->time = SC_TIME_RECOMPUTE;
  p->ops = r->ops;
  for (guint i = 0; i < N_TENSORS; i++)
    p->known[i] = sc_pass_tensor_saved ((Tensor) i, &p->shape->kind);
  sc_pass_born (p, NORM1_IN);
  layer_body (p, to_end);
  if (r->ops)
    sc_pass_spent (p, OPS_REST);
  memset (p->known, 0, sizeof p->known);
  p->ops = FALSE;
  p->time = SC_TIME_BACKWARD;
}

static Pass
backward_pass (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = TRUE; /* what is repeated here is spent here */
  return p;
}

void
sc_layer_rebuild (const ScLayerShape *shape, GArray *items)
{
  if (!shape->kind.recompute.full || shape->kind.recompute.last)
    return;
  Pass p = backward_pass (shape, PART_WHOLE, items);
  sc_pass_temp (&p, sc_pass_rows_bytes (&p)); /* the gradient of the last one's output waits */
  layer_again (&p, TRUE);
  sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
}

/* What output-discarding recomputation brings back as soon as the gradient of a half's output is there; a recomputed MLP goes
 * through its whole forward again. */
static void
repeat_before (Pass *p, Half half)
{
  const gboolean shared = p->model->layer_norms == 1; /* one norm: before the half that comes first */
  p->time = SC_TIME_RECOMPUTE;
  if (sc_pass_repeats (p, SC_MODULE_LAYERNORM) && half == ATTENTION_HALF)
    {
      first_norm (p);
      sc_pass_cast_again (p, TRUE, (has_latents (p) && p->model->mla.q_lora_rank > 0 ? 2 : 1) * p->h * p->t_sp);
    }
  else if (sc_pass_repeats (p, SC_MODULE_LAYERNORM) && !shared)
    {
      second_norm (p);
      if (!p->shape->kind.experts || p->model->shared_experts > 0)
        sc_pass_cast_again (p, !p->shape->kind.experts, p->h * p->t_sp);
    }
  const gboolean experts = p->shape->kind.experts, to_end = !p->fw->recompute_stops_early;
  if (half == MLP_HALF && sc_pass_repeats (p, experts ? SC_MODULE_MOE : SC_MODULE_MLP))
    {
      if (experts)
        sc_pass_moe_forward (p, to_end);
      else
        sc_pass_mlp_forward (p, to_end);
      if (to_end)
        sc_pass_temp (p, -sc_pass_rows_bytes (p));
    }
  else if (half == MLP_HALF && experts && sc_pass_repeats (p, SC_MODULE_SHARED_EXPERTS))
    sc_pass_shared_again (p, to_end);
  p->time = SC_TIME_BACKWARD;
}

/* From the gradient of the layer's output to that of the norm's in front of the half. */
static void
backward_half (Pass *p, Half half)
{
  p->half = half;
  sc_pass_residual_backward (p);
  repeat_before (p, half);
  if (half == ATTENTION_HALF && has_latents (p))
    sc_pass_mla_backward (p);
  else if (half == ATTENTION_HALF)
    sc_pass_attention_backward (p);
  else if (p->shape->kind.experts)
    sc_pass_moe_backward (p);
  else
    sc_pass_mlp_backward (p);
}

/* From there to that of the half's input. */
static void
backward_norm (Pass *p, Half half)
{
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  sc_pass_norm_backward (p, half == ATTENTION_HALF ? "norm 1 backward" : "norm 2 backward");
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
  sc_pass_spent (p, half == ATTENTION_HALF ? NORM1_IN : NORM2_IN);
  sc_pass_spent (p, half == ATTENTION_HALF ? NORM1_STATS : NORM2_STATS);
}

static void
add_residual (Pass *p, Half half)
{
  p->half = half;
  sc_pass_operation (p, half == ATTENTION_HALF ? "attention residual gradient" : "mlp residual gradient", SC_OP_ADD, 3 * sc_pass_rows_bytes (p), 0);
  sc_pass_residual_summed (p);
}

/* Both halves of one output gradient, which weights of both may wait for: then it is counted once for each. */
static void
parallel_backward (Pass *p)
{
  const gboolean shared = p->model->layer_norms == 1;
  backward_half (p, shared ? ATTENTION_HALF : MLP_HALF); /* the shared norm's output is spent by the MLP */
  if (!shared)
    backward_norm (p, MLP_HALF);
  backward_half (p, shared ? MLP_HALF : ATTENTION_HALF);
  if (shared)
    sc_pass_operation (p, "norm gradients add", SC_OP_ADD, 3 * sc_pass_rows_bytes (p), 0);
  backward_norm (p, ATTENTION_HALF);
  add_residual (p, ATTENTION_HALF);
  p->half = MLP_HALF;
  if (shared)
    sc_pass_residual_summed (p); /* what the sum of the norm's gradients took the place of */
  else
    add_residual (p, MLP_HALF);
}

static void
layer_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = backward_pass (shape, part, items);
  const ScLayerRecompute *const r = &shape->kind.recompute;
  const gboolean needs_end = p.model->dropout > 0 || p.model->layer_norms == 4;
  sc_pass_temp (&p, sc_pass_rows_bytes (&p)); /* the gradient of the output: taken over */
  if (r->ops || (r->full && r->last))
    layer_again (&p, needs_end || !(r->ops || shape->framework->recompute_stops_early));

  if (p.model->parallel_attention)
    parallel_backward (&p);
  else
    {
      backward_half (&p, MLP_HALF);
      backward_norm (&p, MLP_HALF);
      add_residual (&p, MLP_HALF);
      backward_half (&p, ATTENTION_HALF);
      backward_norm (&p, ATTENTION_HALF);
      add_residual (&p, ATTENTION_HALF);
    }
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
  Pass p = sc_pass_new (shape, items, SC_TIME_WEIGHT);
  p.part = PART_WEIGHT;
  static const Half order[2][2] = { { MLP_HALF, ATTENTION_HALF }, { ATTENTION_HALF, MLP_HALF } };
  const gboolean shared = p.model->parallel_attention && p.model->layer_norms == 1;
  for (guint i = 0; i < 2; i++)
    {
      p.half = order[shared][i];
      if (p.half == ATTENTION_HALF && has_latents (&p))
        sc_pass_mla_weights (&p);
      else if (p.half == ATTENTION_HALF)
        sc_pass_attention_weights (&p);
      else if (p.shape->kind.experts)
        sc_pass_moe_weights (&p);
      else
        sc_pass_mlp_weights (&p);
    }
}
