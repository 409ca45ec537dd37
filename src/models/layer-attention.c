/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-attention.c - the attention half of a layer: projections, positions, the core. */
#include "models/layer-pass.h"

static const Linear linear_qkv = {
  "qkv",
  "qkv dgrad",
  "qkv wgrad",
  "qkv gradient add",
  "qkv bias gradient",
  "qkv all-gather",
  "qkv input all-gather",
  "qkv gradient reduce",
};

static const Linear linear_proj = {
  "projection",
  "projection dgrad",
  "projection wgrad",
  "projection gradient add",
  "projection bias gradient",
  "projection gradient all-gather",
  NULL,
  "projection reduce",
};

/* One product per sequence and head of this rank. */
static void
core_gemm (Pass *p, const char *name, guint64 m, guint64 n, guint64 k)
{
  const guint64 batch = (guint64) (p->t / p->shape->seq * p->heads);
  sc_pass_kernel (p, sc_kernel_batched_gemm (name, p->plan->dtype, MAX (batch, 1), m, n, k));
}

static void
rotary (Pass *p)
{
  const double bytes = p->e * (p->q + p->kv) * p->t;
  if (p->fw->fused_rope)
    {
      sc_pass_operation (p, "rotary", SC_OP_ROPE, 2 * bytes, 0);
      return;
    }
  sc_pass_elementwise (p, "rotary halves", 2 * bytes);
  sc_pass_elementwise (p, "rotary cosine", 2 * bytes);
  sc_pass_elementwise (p, "rotary sine", 2 * bytes);
  sc_pass_elementwise (p, "rotary add", 3 * bytes);
}

/* Packed documents are as many of equal length as have their tokens and their pairs: what queries see in the mean is what decides a
 * kernel's rate.  A chunked window makes of each sequence sequences as long as the window, the last perhaps shorter. */
ScAttentionShape
sc_pass_attention_shape (const Pass *p)
{
  ScAttentionShape a = {
    .batch = p->plan->micro_batch,
    .seq = p->shape->seq,
    .heads = p->heads,
    .kv_heads = p->kv_heads,
    .head_dim = p->model->head_dim,
    .v_head_dim = (guint) (p->o / p->heads),
    .causal = TRUE,
    .window = p->shape->kind.window,
  };
  if (p->shape->kind.pairs > 0)
    {
      const double tokens = (double) a.batch * a.seq;
      const double length = CLAMP (2 * p->shape->kind.pairs / tokens, 1, a.seq);
      a.pairs = p->shape->kind.pairs;
      a.seq = (guint) (length + 0.5);
      a.batch = (guint) MAX (tokens / length + 0.5, 1);
      a.window = 0;
    }
  else if (a.window > 0 && p->model->chunked_window)
    {
      const guint blocks = a.seq / a.window, rest = a.seq % a.window;
      a.pairs = a.batch * (blocks * sc_attention_pairs (a.window, TRUE, 0) + sc_attention_pairs (rest, TRUE, 0));
      a.batch *= blocks + (rest > 0 ? 1 : 0);
      a.seq = a.window;
      a.window = 0;
    }
  return a;
}

void
sc_pass_flash (Pass *p, const char *name, ScKernelClass class, const ScAttentionShape *shape)
{
  sc_pass_kernel (p, sc_kernel_attention (name, class, p->plan->dtype, shape));
}

static void
flash_forward (Pass *p)
{
  const ScAttentionShape shape = sc_pass_attention_shape (p);
  if (p->plan->cp > 1)
    sc_pass_context_forward (p);
  else
    sc_pass_flash (p, "attention", SC_KERNEL_FLASH_FORWARD, &shape);
}

static void
flash_backward (Pass *p)
{
  const ScAttentionShape shape = sc_pass_attention_shape (p);
  if (p->plan->cp > 1)
    sc_pass_context_backward (p);
  else
    sc_pass_flash (p, "attention backward", SC_KERNEL_FLASH_BACKWARD, &shape);
}

/* Q, K, V to the attention output.  Births: the core's tensors and PROJ_IN, unless it is @repeated. */
void
sc_pass_core_forward (Pass *p, gboolean repeated)
{
  const guint s = p->shape->seq, d = p->model->head_dim, d_v = (guint) (p->o / p->heads);
  const gboolean dropout = p->model->dropout > 0;
  const double output = p->e * p->o * p->t;
  if (p->ops)
    return; /* the output was kept */
  if (p->plan->attention == SC_ATTENTION_FLASH)
    {
      if (repeated)
        sc_pass_temp (p, output);
      else
        sc_pass_born (p, PROJ_IN);
      sc_pass_born (p, FLASH_LSE);
      flash_forward (p);
      if (repeated)
        sc_pass_temp (p, -output);
      sc_pass_used (p, FLASH_LSE);
      return;
    }

  const double e = p->e * p->scores;
  sc_pass_temp (p, e);
  if (p->model->positions == SC_POSITIONS_ALIBI)
    sc_pass_elementwise (p, "alibi", 2 * e); /* spread into the output, which the product reads back */
  core_gemm (p, "scores", s, s, d);
  if (!p->fw->fused_softmax)
    {
      /* scale, mask, to fp32; softmax in fp32; back */
      sc_pass_temp (p, 4 * p->scores);
      sc_pass_elementwise (p, "scale", 2 * e);
      sc_pass_elementwise (p, "mask", 2 * e);
      sc_pass_operation (p, "scores to fp32", SC_OP_CAST, e + 4 * p->scores, 0);
      sc_pass_operation (p, "softmax", SC_OP_SOFTMAX, 8 * p->scores, s);
      sc_pass_born (p, SOFTMAX_OUT);
      sc_pass_operation (p, "softmax to 16 bits", SC_OP_CAST, e + 4 * p->scores, 0);
      sc_pass_temp (p, -e);
      sc_pass_temp (p, -4 * p->scores);
    }
  else
    {
      sc_pass_born (p, SOFTMAX_OUT);
      sc_pass_operation (p, "scale, mask, softmax", SC_OP_SOFTMAX, 2 * e, s);
      sc_pass_temp (p, -e);
    }
  if (dropout)
    {
      sc_pass_born (p, ATTENTION_MASK);
      sc_pass_born (p, ATTENTION_DROPPED);
      sc_pass_elementwise (p, "attention dropout", 2 * e + p->scores);
    }
  sc_pass_temp (p, output);
  core_gemm (p, "values", s, d_v, s);
  sc_pass_used (p, SOFTMAX_OUT);
  if (dropout)
    {
      sc_pass_used (p, ATTENTION_MASK);
      sc_pass_used (p, ATTENTION_DROPPED);
    }
  if (!repeated)
    sc_pass_born (p, PROJ_IN);
  else
    sc_pass_temp (p, output);
  sc_pass_operation (p, "context transpose", SC_OP_COPY, 2 * output, 0);
  sc_pass_temp (p, -output);
  if (repeated)
    sc_pass_temp (p, -output);
}

#define FLASH_ROWS_APART 128.0 /* of sequences in what flash attention's backward adds up (flash_api.cpp) */

/* d(attention output), a temporary that it frees, to dQ, dK, dV, which are temporaries left behind. */
void
sc_pass_core_backward (Pass *p)
{
  const guint s = p->shape->seq, d = p->model->head_dim, d_v = (guint) (p->o / p->heads);
  const double output = p->e * p->o * p->t;
  const double queries = p->e * p->q * p->t, keys = p->e * p->kv * p->t, values = p->e * p->v * p->t;
  const double sum = 4 * p->q * (p->t + (p->fw->varlen_flash ? FLASH_ROWS_APART * p->plan->micro_batch : 0));
  if (p->plan->attention == SC_ATTENTION_FLASH)
    {
      sc_pass_temp (p, queries);
      sc_pass_temp (p, keys);
      sc_pass_temp (p, values);
      sc_pass_temp (p, sum); /* dQ adds up in fp32 beside the result */
      flash_backward (p);
      sc_pass_temp (p, -sum);
      sc_pass_spent (p, FLASH_LSE);
      sc_pass_spent_on_weights (p, PROJ_IN);
    }
  else
    {
      const double e = p->e * p->scores;
      sc_pass_spent_on_weights (p, PROJ_IN);
      sc_pass_temp (p, e);
      core_gemm (p, "values dgrad", s, s, d_v);
      sc_pass_temp (p, output);
      core_gemm (p, "values wgrad", s, d_v, s);
      if (p->model->dropout > 0)
        {
          sc_pass_spent (p, ATTENTION_DROPPED);
          sc_pass_temp (p, e);
          sc_pass_elementwise (p, "attention dropout backward", 2 * e + p->scores);
          sc_pass_spent (p, ATTENTION_MASK);
          sc_pass_temp (p, -e);
        }
      sc_pass_operation (p, "softmax backward", SC_OP_SOFTMAX_BACKWARD, 3 * e, s); /* in place */
      if (!p->fw->fused_softmax)
        sc_pass_elementwise (p, "scale and mask backward", 4 * e + 8 * p->scores);
      sc_pass_spent (p, SOFTMAX_OUT);
      sc_pass_temp (p, queries);
      core_gemm (p, "scores dgrad", s, d, s);
      sc_pass_temp (p, queries);
      core_gemm (p, "scores wgrad", s, d, s);
      sc_pass_temp (p, -e);
      if (p->kv_heads != p->heads) /* groups of queries add up into fewer keys and values */
        {
          sc_pass_temp (p, keys);
          sc_pass_temp (p, -queries);
          sc_pass_temp (p, values);
          sc_pass_temp (p, -output);
        }
    }
  if (p->model->attention_sinks)
    sc_pass_reduction (p, "attention sinks gradient", 8.0 * p->heads * p->t); /* of each head over its tokens, from what the core leaves in fp32 */
  sc_pass_spent (p, QK);
  sc_pass_spent (p, V);
  sc_pass_temp (p, -output);
}

void
sc_pass_projection_forward (Pass *p)
{
  sc_pass_row_forward (p, &linear_proj, p->o);
  sc_pass_used (p, PROJ_IN);
}

void
sc_pass_projection_backward (Pass *p)
{
  sc_pass_row_backward (p, &linear_proj, p->o);
  sc_pass_residual_done (p);
}

void
sc_pass_projection_weights (Pass *p)
{
  sc_pass_row_weights (p, &linear_proj, p->o, PROJ_IN);
}

/* A norm over all heads sums squares over the ranks that hold them: of Q and of K, in fp32. */
static void
qk_norm_sums (Pass *p, const char *name)
{
  if (p->model->qk_norm_full && p->split)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_REDUCE, name, 2 * 4 * p->t);
}

/* Copies of the product's output with its rows in another order: one of all, of which Q is a view, or, with fewer keys than queries, one of each.  Q is rotated
 * where it is; K and V are put side by side, copied once more, and rotated there. */
static gboolean
copies_qkv (const Pass *p)
{
  return p->fw->copies_qkv && p->plan->attention == SC_ATTENTION_FLASH && p->model->positions == SC_POSITIONS_ROPE && !p->model->qk_norm && !p->ops;
}

static void
copied_forward (Pass *p)
{
  const double all = p->e * (p->q + 2 * p->kv) * p->t, pair = p->e * 2 * p->kv * p->t, apart = p->heads > p->kv_heads ? p->e * p->kv * p->t : 0;
  sc_pass_temp (p, all);
  sc_pass_column_forward (p, &linear_qkv, p->q + 2 * p->kv);
  sc_pass_used (p, NORM1_OUT);
  sc_pass_born (p, QK);
  for (guint i = 0; i < 2; i++)
    sc_pass_temp (p, apart);
  sc_pass_temp (p, pair);
  sc_pass_born (p, V);
  sc_pass_temp (p, -pair);
  if (p->kv_heads > 1 && p->kv_heads < p->heads)
    sc_pass_operation (p, "query copy", SC_OP_COPY, 2 * p->e * p->q * p->t, 0);
  rotary (p);
  for (guint i = 0; i < 2; i++)
    sc_pass_temp (p, -apart);
  sc_pass_core_forward (p, FALSE);
  sc_pass_used (p, QK);
  sc_pass_used (p, V);
  sc_pass_projection_forward (p);
  sc_pass_temp (p, -all);
}

/* The gradients of Q, K and V back into one, a temporary. */
static void
copied_backward (Pass *p)
{
  const double queries = p->e * p->q * p->t, keys = p->e * p->kv * p->t, all = queries + 2 * keys;
  sc_pass_temp (p, 2 * keys);
  sc_pass_temp (p, -keys);
  sc_pass_temp (p, -keys);
  rotary (p);
  sc_pass_temp (p, all);
  sc_pass_operation (p, "qkv gradient concatenate", SC_OP_COPY, 2 * all, 0);
  sc_pass_temp (p, -queries);
  sc_pass_temp (p, -2 * keys);
  if (p->heads > p->kv_heads)
    return;
  sc_pass_temp (p, all); /* in the order of rows again */
  sc_pass_temp (p, -all);
}

void
sc_pass_attention_forward (Pass *p)
{
  const double width = p->q + 2 * p->kv;
  const double parts = p->e * (p->q + p->kv) * p->t;
  /* What stands between the product and the saved Q, K. */
  const gboolean raw = p->model->positions == SC_POSITIONS_ROPE || p->model->qk_norm;
  if (copies_qkv (p))
    {
      copied_forward (p);
      return;
    }
  if (raw)
    {
      if (p->model->qk_norm)
        sc_pass_born (p, QK_NORM_IN);
      else
        sc_pass_temp (p, parts);
    }
  else
    sc_pass_born (p, QK);
  sc_pass_born (p, V);
  sc_pass_column_forward (p, &linear_qkv, p->ops ? p->kv : width); /* every second product again: the keys */
  sc_pass_used (p, NORM1_OUT);
  if (!p->fw->fused_bias && sc_pass_has_qkv_bias (p))
    sc_pass_elementwise (p, "qkv bias", 2 * p->e * width * p->t);
  if (p->kv_heads > 1 && p->kv_heads < p->heads)
    sc_pass_operation (p, "query copy", SC_OP_COPY, 2 * p->e * p->q * p->t, 0); /* Q's heads stand between their keys and values */
  if (p->model->qk_norm)
    {
      if (p->model->positions == SC_POSITIONS_ROPE)
        sc_pass_temp (p, parts);
      else
        sc_pass_born (p, QK);
      qk_norm_sums (p, "qk norm sums");
      sc_pass_reduction (p, "qk norm", 2 * parts);
      sc_pass_used (p, QK_NORM_IN);
    }
  if (p->model->positions == SC_POSITIONS_ROPE)
    {
      sc_pass_born (p, QK);
      rotary (p);
      sc_pass_temp (p, -parts);
    }
  sc_pass_core_forward (p, FALSE);
  sc_pass_used (p, QK);
  sc_pass_used (p, V);
  sc_pass_projection_forward (p);
}

static void
qkv_bias_gradient (Pass *p, double bytes)
{
  if (!p->fw->fused_bias && sc_pass_has_qkv_bias (p))
    sc_pass_reduction (p, linear_qkv.bias_grad, bytes);
}

void
sc_pass_attention_backward (Pass *p)
{
  const double width = p->q + 2 * p->kv;
  const double parts = p->e * width * p->t;
  sc_pass_projection_backward (p);
  if (sc_pass_repeats (p, SC_MODULE_CORE_ATTN))
    {
      p->time = SC_TIME_RECOMPUTE;
      sc_pass_core_forward (p, TRUE);
      p->time = SC_TIME_BACKWARD;
    }
  sc_pass_core_backward (p);
  if (copies_qkv (p))
    copied_backward (p);
  else
    {
      sc_pass_temp (p, parts);
      sc_pass_operation (p, "qkv gradient concatenate", SC_OP_COPY, 2 * parts, 0);
      sc_pass_temp (p, -p->e * p->q * p->t);
      sc_pass_temp (p, -p->e * p->kv * p->t);
      sc_pass_temp (p, -p->e * p->kv * p->t);
      if (p->model->positions == SC_POSITIONS_ROPE)
        rotary (p);
    }
  if (p->model->qk_norm)
    {
      qk_norm_sums (p, "qk norm gradient sums");
      sc_pass_reduction (p, "qk norm backward", 3 * p->e * (p->q + p->kv) * p->t);
      sc_pass_spent (p, QK_NORM_IN);
    }
  if (p->part == PART_WHOLE)
    qkv_bias_gradient (p, parts);
  sc_pass_column_backward (p, &linear_qkv, width);
  sc_pass_temp_of_weights (p, -parts);
  sc_pass_spent_on_weights (p, NORM1_OUT);
}

void
sc_pass_attention_weights (Pass *p)
{
  const double width = p->q + 2 * p->kv;
  sc_pass_projection_weights (p);
  qkv_bias_gradient (p, p->e * width * p->t);
  sc_pass_column_weights (p, &linear_qkv, width);
  sc_pass_temp (p, -p->e * width * p->t);
  sc_pass_spent (p, NORM1_OUT);
}
