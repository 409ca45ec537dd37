/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-mla.c - the attention half with latents (DeepSeek-V2, arXiv 2405.04434 section 2.1): queries, keys and values through narrow
 * waists, a part of queries and keys with positions (MODELLING 3.5, 4.6; NVIDIA/Megatron-LM core/transformer/multi_latent_attention.py).
 * In training nothing is absorbed: keys and values are made in full.
 *
 * The ways down are the same on every rank of the TP group, of its own rows; the ways up are column-parallel, and gather the latents. */
#include "models/layer-pass.h"

static const Linear linear_q_down = { "q down", "q down dgrad", "q down wgrad", "q down gradient add", "q down bias gradient", NULL, NULL, NULL };
static const Linear linear_kv_down = { "kv down", "kv down dgrad", "kv down wgrad", "kv down gradient add", "kv down bias gradient", NULL, NULL, NULL };
static const Linear linear_q_up = { "q up", "q up dgrad", "q up wgrad", "q up gradient add", NULL, "q latent all-gather", "q latent all-gather again",
                                    "q latent gradient reduce" };
static const Linear linear_kv_up = { "kv up", "kv up dgrad", "kv up wgrad", "kv up gradient add", NULL, "kv latent all-gather",
                                     "kv latent all-gather again", "kv latent gradient reduce" };
static const Linear linear_q = { "q", "q dgrad", "q wgrad", "q gradient add", NULL, "q all-gather", "q input all-gather", "q gradient reduce" };

static double
q_rank (const Pass *p)
{
  return p->model->mla.q_lora_rank;
}

static double
kv_rank (const Pass *p)
{
  return p->model->mla.kv_lora_rank;
}

/* Of the part with positions, which all heads' keys share. */
static double
rope (const Pass *p)
{
  return p->model->mla.qk_rope_head_dim;
}

/* What the way up makes on this rank: keys without positions, and values. */
static double
kv_up_width (const Pass *p)
{
  return (double) p->heads * ((double) p->model->mla.qk_nope_head_dim + p->model->mla.v_head_dim);
}

static double
full (const Pass *p, double width)
{
  return p->e * width * p->t;
}

static double
rows (const Pass *p, double width)
{
  return p->e * width * p->t_sp;
}

static void
latent_norm (Pass *p, const char *name, double width)
{
  sc_pass_operation (p, name, SC_OP_RMSNORM, 2 * rows (p, width), (guint) width);
}

static void
latent_norm_backward (Pass *p, const char *name, double width)
{
  sc_pass_operation (p, name, SC_OP_RMSNORM_BACKWARD, 3 * rows (p, width), (guint) width);
}

/* For a way down, which has a linear layer of its own. */
static void
cast_down (Pass *p, double n_out)
{
  sc_pass_cast_input (p, FALSE, p->h * p->t_sp);
  sc_pass_cast_weight (p, p->h * n_out);
}

static void
cast_down_backward (Pass *p, double n_out)
{
  sc_pass_cast (p, "cast of gradient", n_out * p->t_sp);
  sc_pass_cast_weight (p, p->h * n_out);
}

/* The ways down have biases where the projection has one; the ways up have none (transformers' DeepseekV3Attention). */
static gboolean
has_bias (const Pass *p)
{
  return !p->fw->fused_bias && (p->model->linear_bias || p->model->attention_bias);
}

static void
down_weights (Pass *p, const Linear *l, double n_out)
{
  if (has_bias (p))
    sc_pass_reduction (p, l->bias_grad, rows (p, n_out));
  sc_pass_cast_kept (p, FALSE, p->h * p->t_sp);
  sc_pass_weight_gradient_over (p, l, n_out, p->h, p->t_sp);
}

static void
down_forward (Pass *p)
{
  if (q_rank (p) > 0)
    {
      sc_pass_born (p, Q_LATENT);
      cast_down (p, q_rank (p));
      sc_pass_gemm (p, linear_q_down.fprop, SC_GEMM_TN, p->t_sp, q_rank (p), p->h);
      if (has_bias (p))
        sc_pass_elementwise (p, "q down bias", 2 * rows (p, q_rank (p)));
    }
  sc_pass_born (p, KV_LATENT);
  cast_down (p, kv_rank (p) + rope (p));
  sc_pass_gemm (p, linear_kv_down.fprop, SC_GEMM_TN, p->t_sp, kv_rank (p) + rope (p), p->h);
  if (has_bias (p))
    sc_pass_elementwise (p, "kv down bias", 2 * rows (p, kv_rank (p) + rope (p)));
}

/* Queries: the part with positions is turned in place. */
static void
queries_forward (Pass *p)
{
  sc_pass_born (p, QK);
  if (q_rank (p) > 0)
    {
      sc_pass_born (p, Q_LATENT_OUT);
      latent_norm (p, "q latent norm", q_rank (p));
      sc_pass_used (p, Q_LATENT);
      sc_pass_column_forward_from (p, &linear_q_up, q_rank (p), p->q);
      sc_pass_used (p, Q_LATENT_OUT);
    }
  else
    sc_pass_column_forward (p, &linear_q, p->q);
}

static void
keys_forward (Pass *p)
{
  sc_pass_born (p, KV_LATENT_OUT);
  latent_norm (p, "kv latent norm", kv_rank (p));
  if (p->sp)
    {
      sc_pass_temp (p, full (p, rope (p)));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, "rotary keys all-gather", full (p, rope (p)));
    }
  sc_pass_temp (p, full (p, kv_up_width (p)));
  sc_pass_column_forward_from (p, &linear_kv_up, kv_rank (p), kv_up_width (p));
  sc_pass_used (p, KV_LATENT_OUT);
}

static double
turned_bytes (const Pass *p)
{
  return 2 * full (p, p->heads * rope (p));
}

/* Keys of two parts, the second the same for all heads, and values, each by themselves. */
static double
assembly_bytes (const Pass *p)
{
  return full (p, kv_up_width (p) + rope (p) + p->kv + p->v);
}

static void
up_forward (Pass *p)
{
  queries_forward (p);
  keys_forward (p);
  sc_pass_operation (p, "rotary", SC_OP_ROPE, turned_bytes (p), 0);
  if (!p->fw->fused_rope)
    sc_pass_operation (p, "query concatenate", SC_OP_COPY, 2 * full (p, p->q), 0);
  sc_pass_born (p, V);
  sc_pass_operation (p, "keys and values", SC_OP_ROPE, assembly_bytes (p), 0);
  sc_pass_temp (p, -full (p, kv_up_width (p)));
  if (p->sp)
    sc_pass_temp (p, -full (p, rope (p)));
  sc_pass_used (p, KV_LATENT);
}

void
sc_pass_mla_forward (Pass *p)
{
  const gboolean buffers = p->buffers;
  p->buffers = FALSE; /* none is called as these are */
  down_forward (p);
  if (q_rank (p) > 0)
    sc_pass_used (p, NORM1_OUT);
  up_forward (p);
  if (q_rank (p) == 0)
    sc_pass_used (p, NORM1_OUT);
  sc_pass_core_forward (p, FALSE);
  sc_pass_used (p, QK);
  sc_pass_used (p, V);
  p->buffers = buffers;
  sc_pass_projection_forward (p);
}

/* From the gradients of Q, K and V, temporaries, to those of what the ways up made. */
static void
assembly_backward (Pass *p)
{
  sc_pass_temp (p, full (p, kv_up_width (p)));
  sc_pass_temp (p, full (p, rope (p)));
  sc_pass_operation (p, "keys and values backward", SC_OP_ROPE, assembly_bytes (p), 0);
  sc_pass_temp (p, -full (p, p->kv));
  sc_pass_temp (p, -full (p, p->v));
  sc_pass_operation (p, "rotary", SC_OP_ROPE, turned_bytes (p), 0);
  if (!p->fw->fused_rope)
    sc_pass_operation (p, "query concatenate", SC_OP_COPY, 2 * full (p, p->q), 0);
}

/* To the gradient of the norm's output, by the queries: a temporary. */
static void
queries_backward (Pass *p)
{
  if (q_rank (p) == 0)
    {
      sc_pass_column_backward (p, &linear_q, p->q);
      sc_pass_temp_of_weights (p, -full (p, p->q));
      return;
    }
  sc_pass_column_backward_from (p, &linear_q_up, q_rank (p), p->q);
  sc_pass_temp_of_weights (p, -full (p, p->q));
  sc_pass_spent_on_weights (p, Q_LATENT_OUT);
  sc_pass_temp (p, rows (p, q_rank (p)));
  latent_norm_backward (p, "q latent norm backward", q_rank (p));
  sc_pass_temp (p, -rows (p, q_rank (p)));
  sc_pass_spent (p, Q_LATENT);
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  cast_down_backward (p, q_rank (p));
  sc_pass_gemm (p, linear_q_down.dgrad, SC_GEMM_NN, p->t_sp, p->h, q_rank (p));
  if (p->part == PART_WHOLE)
    down_weights (p, &linear_q_down, q_rank (p));
  sc_pass_temp_of_weights (p, -rows (p, q_rank (p)));
}

/* The gradient of the keys' part with positions is summed over the ranks, which have heads of their own. */
static void
rotary_keys_backward (Pass *p)
{
  if (!p->split)
    return;
  if (p->sp)
    sc_pass_temp (p, rows (p, rope (p)));
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, "rotary keys gradient reduce",
                      full (p, rope (p)));
  if (p->sp)
    sc_pass_temp (p, -full (p, rope (p)));
}

static void
keys_backward (Pass *p)
{
  const double width = kv_rank (p) + rope (p);
  sc_pass_column_backward_from (p, &linear_kv_up, kv_rank (p), kv_up_width (p));
  sc_pass_temp_of_weights (p, -full (p, kv_up_width (p)));
  sc_pass_spent_on_weights (p, KV_LATENT_OUT);
  rotary_keys_backward (p);
  sc_pass_temp (p, rows (p, width));
  latent_norm_backward (p, "kv latent norm backward", kv_rank (p));
  sc_pass_temp (p, -rows (p, kv_rank (p)));
  sc_pass_temp (p, -rows (p, rope (p)));
  sc_pass_spent (p, KV_LATENT);
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  cast_down_backward (p, width);
  sc_pass_gemm (p, linear_kv_down.dgrad, SC_GEMM_NN, p->t_sp, p->h, width);
  if (p->part == PART_WHOLE)
    down_weights (p, &linear_kv_down, width);
  sc_pass_temp_of_weights (p, -rows (p, width));
}

void
sc_pass_mla_backward (Pass *p)
{
  const gboolean buffers = p->buffers;
  sc_pass_projection_backward (p);
  p->buffers = FALSE;
  p->time = SC_TIME_RECOMPUTE;
  if (sc_pass_repeats (p, SC_MODULE_MLA_UP_PROJ))
    up_forward (p);
  if (sc_pass_repeats (p, SC_MODULE_CORE_ATTN))
    sc_pass_core_forward (p, TRUE);
  p->time = SC_TIME_BACKWARD;
  sc_pass_core_backward (p);
  assembly_backward (p);
  queries_backward (p);
  keys_backward (p);
  p->buffers = buffers;
  sc_pass_operation (p, "latent gradients add", SC_OP_ADD, 3 * sc_pass_rows_bytes (p), 0);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
  sc_pass_spent_on_weights (p, NORM1_OUT);
}

void
sc_pass_mla_weights (Pass *p)
{
  const double width = kv_rank (p) + rope (p);
  sc_pass_projection_weights (p);
  if (q_rank (p) > 0)
    {
      sc_pass_column_weights_from (p, &linear_q_up, q_rank (p), p->q);
      sc_pass_temp (p, -full (p, p->q));
      sc_pass_spent (p, Q_LATENT_OUT);
      down_weights (p, &linear_q_down, q_rank (p));
      sc_pass_temp (p, -rows (p, q_rank (p)));
    }
  else
    {
      sc_pass_column_weights (p, &linear_q, p->q);
      sc_pass_temp (p, -full (p, p->q));
    }
  sc_pass_column_weights_from (p, &linear_kv_up, kv_rank (p), kv_up_width (p));
  sc_pass_temp (p, -full (p, kv_up_width (p)));
  sc_pass_spent (p, KV_LATENT_OUT);
  down_weights (p, &linear_kv_down, width);
  sc_pass_temp (p, -rows (p, width));
  sc_pass_spent (p, NORM1_OUT);
}
