/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model.c - parameter and FLOP counts of a transformer. */
#include "models/model.h"

guint64
sc_model_norm_params (const ScModel *model)
{
  const gboolean with_bias = model->norm == SC_NORM_LAYERNORM && model->linear_bias;
  return (with_bias ? 2 : 1) * (guint64) model->hidden;
}

/* Rows of the table that one of @tp ranks holds. */
static guint64
vocab_rank (const ScModel *model, guint tp)
{
  return ((guint64) model->vocab + tp - 1) / tp;
}

guint64
sc_model_layer_params_rank (const ScModel *model, guint tp)
{
  const guint64 h = model->hidden;
  const guint64 q = (guint64) model->heads / tp * model->head_dim;              /* width of this rank's queries */
  const guint64 kv = (guint64) MAX (model->kv_heads / tp, 1) * model->head_dim; /* ... of its keys */
  const guint64 f = model->ffn / tp;
  const guint64 branches = model->gated_mlp ? 2 : 1;

  guint64 params = h * q + 2 * h * kv + q * h; /* attention */
  params += branches * h * f + f * h;          /* MLP */
  params += 2 * sc_model_norm_params (model);
  if (model->linear_bias || model->qkv_bias)
    params += q + 2 * kv;
  if (model->linear_bias)
    params += h + branches * f + h; /* projection, FC1, FC2: what is row-parallel is replicated */
  if (model->qk_norm)
    params += 2 * (guint64) model->head_dim;
  return params;
}

guint64
sc_model_layer_params (const ScModel *model)
{
  return sc_model_layer_params_rank (model, 1);
}

guint64
sc_model_embedding_params_rank (const ScModel *model, guint seq, guint tp)
{
  guint64 params = vocab_rank (model, tp) * model->hidden;
  if (model->positions == SC_POSITIONS_LEARNED)
    params += (guint64) (model->max_positions > 0 ? model->max_positions : seq) * model->hidden;
  if (model->embedding_norm)
    params += sc_model_norm_params (model);
  return params;
}

guint64
sc_model_embedding_params (const ScModel *model, guint seq)
{
  return sc_model_embedding_params_rank (model, seq, 1);
}

guint64
sc_model_head_params_rank (const ScModel *model, guint tp, gboolean with_table)
{
  return sc_model_norm_params (model) + (with_table ? vocab_rank (model, tp) * model->hidden : 0);
}

guint64
sc_model_head_params (const ScModel *model)
{
  return sc_model_head_params_rank (model, 1, !model->tied_embeddings);
}

guint64
sc_model_params (const ScModel *model, guint seq)
{
  return model->layers * sc_model_layer_params (model) + sc_model_embedding_params (model, seq)
         + sc_model_head_params (model);
}

double
sc_model_layer_linear_flops (const ScModel *model, guint seq)
{
  const double h = model->hidden, q = (double) model->heads * model->head_dim;
  const double kv = (double) model->kv_heads * model->head_dim;
  return 2.0 * seq * (2 * h * q + 2 * h * kv);
}

double
sc_model_layer_mlp_flops (const ScModel *model, guint seq)
{
  return (model->gated_mlp ? 6.0 : 4.0) * seq * model->hidden * model->ffn;
}

double
sc_model_core_attention_flops (const ScModel *model, double pairs)
{
  return 4.0 * model->heads * model->head_dim * pairs;
}

double
sc_model_logits_flops (const ScModel *model, guint seq)
{
  return 2.0 * seq * model->hidden * model->vocab;
}

/* Pairs of (query, key) that one sequence attends. */
static double
attended_pairs (guint seq, ScFlopsConvention convention)
{
  return (double) seq * seq / (convention == SC_FLOPS_HALF ? 2 : 1);
}

double
sc_model_train_flops (const ScModel *model, guint seq, double sequences, ScFlopsConvention convention)
{
  if (convention == SC_FLOPS_6N)
    return 6.0 * (double) sc_model_params (model, seq) * seq * sequences;
  const double layer = sc_model_layer_linear_flops (model, seq) + sc_model_layer_mlp_flops (model, seq)
                       + sc_model_core_attention_flops (model, attended_pairs (seq, convention));
  /* The backward of a product is two products of its size. */
  return 3.0 * (model->layers * layer + sc_model_logits_flops (model, seq)) * sequences;
}

double
sc_model_hardware_flops (const ScModel *model, guint seq, double sequences, ScRecompute recompute,
                         ScFlopsConvention convention)
{
  g_return_val_if_fail (convention != SC_FLOPS_6N, 0); /* 6N has no attention term that could be repeated */
  const double core = sc_model_core_attention_flops (model, attended_pairs (seq, convention));
  double repeated = 0; /* of one layer and sequence */
  switch (recompute)
    {
    case SC_RECOMPUTE_NONE:
      break;
    case SC_RECOMPUTE_SELECTIVE:
      repeated = core;
      break;
    case SC_RECOMPUTE_FULL:
      repeated = sc_model_layer_linear_flops (model, seq) + sc_model_layer_mlp_flops (model, seq) + core;
      break;
    }
  return sc_model_train_flops (model, seq, sequences, convention) + model->layers * repeated * sequences;
}

ScStateBytes
sc_state_bytes_per_param (ScDtype dtype, ScDtype grad_dtype, ScSharding sharding, guint d)
{
  ScStateBytes states = { .weights = sc_dtype_bytes (dtype), .grads = sc_dtype_bytes (grad_dtype) };
  states.optimizer = 8; /* Adam's two moments in fp32 */
  if (dtype != SC_DTYPE_FP32)
    states.optimizer += 4; /* fp32 master weights */
  /* Megatron's optimizer copies 16-bit gradients to fp32 for the step; the ZeRO paper counts K = 12 without. */
  if (grad_dtype != SC_DTYPE_FP32 && sharding != SC_SHARDING_ZERO1)
    states.optimizer += 4;
  if (sharding != SC_SHARDING_NONE)
    states.optimizer /= MAX (d, 1);
  return states;
}
