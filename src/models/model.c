/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model.c - parameter and FLOP counts of a transformer. */
#include "models/model.h"

/* ---- What a model has where ---- */

static gboolean
has_mla (const ScModel *model)
{
  return model->mla.kv_lora_rank > 0;
}

static guint64
matrices (const ScModel *model)
{
  return model->gated_mlp ? 3 : 2;
}

/* Width of the values of one head. */
static guint
value_dim (const ScModel *model)
{
  return has_mla (model) ? model->mla.v_head_dim : model->head_dim;
}

gboolean
sc_model_layer_has_experts (const ScModel *model, guint layer)
{
  return model->experts > 0 && layer >= model->dense_layers && (layer + 1) % MAX (model->moe_every, 1) == 0;
}

guint
sc_model_layer_window (const ScModel *model, guint layer, guint seq)
{
  if (model->window >= seq || (model->global_every > 0 && (layer + 1) % model->global_every == 0))
    return 0;
  return model->window;
}

guint
sc_model_moe_layers (const ScModel *model)
{
  guint n = 0;
  for (guint i = 0; i < model->layers; i++)
    n += sc_model_layer_has_experts (model, i);
  return n;
}

guint
sc_model_window_layers (const ScModel *model)
{
  if (model->window == 0)
    return 0;
  return model->layers - (model->global_every > 0 ? model->layers / model->global_every : 0);
}

/* ---- Parameters ---- */

guint64
sc_model_norm_params (const ScModel *model)
{
  const gboolean with_bias = model->norm == SC_NORM_LAYERNORM && (model->linear_bias || model->norm_bias);
  return (with_bias ? 2 : 1) * (guint64) model->hidden;
}

/* Rows of the table that one of @tp ranks holds. */
static guint64
vocab_rank (const ScModel *model, guint tp)
{
  return ((guint64) model->vocab + tp - 1) / tp;
}

guint64
sc_model_kv_params (const ScModel *model, guint heads)
{
  const guint64 width = 2 * (guint64) heads * model->head_dim;
  return width * model->hidden + (model->linear_bias || model->qkv_bias || model->attention_bias ? width : 0);
}

/* Queries, keys, values, projection and their norms. */
static guint64
attention_params_rank (const ScModel *model, guint tp)
{
  const guint64 h = model->hidden;
  const guint64 q = (guint64) model->heads / tp * model->head_dim;              /* width of this rank's queries */
  const guint64 kv = (guint64) MAX (model->kv_heads / tp, 1) * model->head_dim; /* ... of its keys */

  guint64 params = h * q + 2 * h * kv + q * h;
  if (model->linear_bias || model->qkv_bias || model->attention_bias)
    params += q + 2 * kv;
  if (model->linear_bias || model->attention_bias)
    params += h; /* what is row-parallel is replicated */
  if (model->qk_norm)
    params += model->qk_norm_full ? q + kv : 2 * (guint64) model->head_dim;
  if (model->attention_sinks)
    params += model->heads / tp;
  return params;
}

/* The same where keys and values, and mostly queries, go through a narrow waist (MODELLING 2): the ways down and
 * their norms are replicated. */
static guint64
mla_params_rank (const ScModel *model, guint tp)
{
  const ScMla *mla = &model->mla;
  const guint64 h = model->hidden, r = mla->kv_lora_rank, a = model->heads / tp;
  const guint64 q = a * model->head_dim; /* nope and rope */
  const guint64 kv = a * ((guint64) mla->qk_nope_head_dim + mla->v_head_dim);

  guint64 params = h * (r + mla->qk_rope_head_dim) + r + r * kv + a * mla->v_head_dim * h;
  params += mla->q_lora_rank > 0 ? h * mla->q_lora_rank + mla->q_lora_rank + mla->q_lora_rank * q : h * q;
  if (model->linear_bias || model->attention_bias) /* on the ways down and the projection */
    params += mla->q_lora_rank + r + mla->qk_rope_head_dim + h;
  return params;
}

/* Queries from the waist, one key for all heads with a LayerNorm, and a weight per head: replicated. */
static guint64
indexer_params (const ScModel *model)
{
  const ScIndexer *x = &model->indexer;
  if (x->heads == 0)
    return 0;
  return (guint64) model->mla.q_lora_rank * x->heads * x->head_dim
         + (guint64) model->hidden * ((guint64) x->head_dim + x->heads) + 2 * (guint64) x->head_dim;
}

/* Everything of a layer but its MLP or experts. */
static guint64
layer_rest_params_rank (const ScModel *model, guint tp)
{
  return (has_mla (model) ? mla_params_rank (model, tp) : attention_params_rank (model, tp)) + indexer_params (model)
         + (model->layer_norms > 0 ? model->layer_norms : 2) * sc_model_norm_params (model);
}

/* A pair or trio of matrices @width wide, of which a rank may hold a part. */
static guint64
mlp_params (const ScModel *model, guint64 width)
{
  guint64 params = matrices (model) * model->hidden * width;
  if (model->linear_bias || model->mlp_bias)
    params += (matrices (model) - 1) * width + model->hidden;
  return params;
}

guint64
sc_model_layer_params_rank (const ScModel *model, guint tp)
{
  return layer_rest_params_rank (model, tp) + mlp_params (model, model->ffn / tp);
}

guint64
sc_model_moe_layer_params_rank (const ScModel *model, guint tp)
{
  guint64 params = layer_rest_params_rank (model, tp);
  if (model->shared_experts > 0)
    params += mlp_params (model, (guint64) model->shared_experts * model->expert_ffn / tp);
  if (model->shared_gate)
    params += model->hidden;
  params += (guint64) model->experts * model->hidden; /* router */
  return params + (model->router_bias ? model->experts : 0);
}

guint64
sc_model_experts_params_rank (const ScModel *model, guint ep, guint etp)
{
  return (guint64) model->experts / ep * mlp_params (model, model->expert_ffn / etp);
}

guint64
sc_model_layer_replicated_params (const ScModel *model, gboolean experts)
{
  const ScMla *mla = &model->mla;
  const guint64 h = model->hidden, r = mla->kv_lora_rank;
  guint64 params = (model->layer_norms > 0 ? model->layer_norms : 2) * sc_model_norm_params (model) + indexer_params (model);
  if (model->linear_bias || model->attention_bias)
    params += h;
  if (model->qk_norm && !model->qk_norm_full)
    params += 2 * (guint64) model->head_dim;
  if (has_mla (model))
    {
      params += h * (r + mla->qk_rope_head_dim) + r + (h + 1) * mla->q_lora_rank;
      if (model->linear_bias || model->attention_bias)
        params += mla->q_lora_rank + r + mla->qk_rope_head_dim;
    }
  if (!experts)
    return params + (model->linear_bias || model->mlp_bias ? h : 0);
  params += (guint64) model->experts * h + (model->router_bias ? model->experts : 0) + (model->shared_gate ? h : 0);
  return params + (model->shared_experts > 0 && (model->linear_bias || model->mlp_bias) ? h : 0);
}

/* A layer of which @routed experts count. */
static guint64
moe_layer_params (const ScModel *model, guint64 routed)
{
  return sc_model_moe_layer_params_rank (model, 1) + routed * mlp_params (model, model->expert_ffn);
}

guint64
sc_model_moe_layer_params (const ScModel *model)
{
  return moe_layer_params (model, model->experts);
}

guint64
sc_model_layer_params (const ScModel *model)
{
  return sc_model_layer_params_rank (model, 1);
}

static guint64
embedding_dim (const ScModel *model)
{
  return model->embedding_dim > 0 ? model->embedding_dim : model->hidden;
}

/* From the width of the table to that of the layers, or back. */
static guint64
embedding_way_params (const ScModel *model)
{
  return embedding_dim (model) == model->hidden ? 0 : embedding_dim (model) * model->hidden;
}

guint64
sc_model_embedding_params_rank (const ScModel *model, guint seq, guint tp)
{
  guint64 params = vocab_rank (model, tp) * embedding_dim (model) + embedding_way_params (model);
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
  guint64 params = (model->no_final_norm ? 0 : sc_model_norm_params (model)) + embedding_way_params (model);
  if (model->head_bias)
    params += vocab_rank (model, tp);
  return params + (with_table ? vocab_rank (model, tp) * embedding_dim (model) : 0);
}

guint64
sc_model_head_params (const ScModel *model)
{
  return sc_model_head_params_rank (model, 1, !model->tied_embeddings);
}

/* With @routed experts in each layer that has any. */
static guint64
model_params (const ScModel *model, guint seq, guint64 routed)
{
  const guint moe = sc_model_moe_layers (model);
  return (model->layers - moe) * sc_model_layer_params (model) + moe * moe_layer_params (model, routed)
         + sc_model_embedding_params (model, seq) + sc_model_head_params (model);
}

guint64
sc_model_params (const ScModel *model, guint seq)
{
  return model_params (model, seq, model->experts);
}

guint64
sc_model_active_params (const ScModel *model, guint seq)
{
  return model_params (model, seq, model->top_k);
}

guint64
sc_model_mtp_params_rank (const ScModel *model, guint tp)
{
  const guint64 h = model->hidden;
  const guint64 layer = model->experts > 0 ? sc_model_moe_layer_params_rank (model, tp) : sc_model_layer_params_rank (model, tp);
  return model->mtp_layers * (layer + 2 * h * h / tp + 3 * sc_model_norm_params (model));
}

guint64
sc_model_mtp_params (const ScModel *model)
{
  const guint64 h = model->hidden;
  const guint64 layer = model->experts > 0 ? sc_model_moe_layer_params (model) : sc_model_layer_params (model);
  return model->mtp_layers * (layer + 2 * h * h + 3 * sc_model_norm_params (model));
}

/* ---- FLOPs ---- */

double
sc_model_layer_linear_flops (const ScModel *model, guint seq)
{
  const double h = model->hidden, q = (double) model->heads * model->head_dim;
  const double kv = (double) model->kv_heads * model->head_dim;
  if (has_mla (model))
    {
      const ScMla *mla = &model->mla;
      const double a = model->heads, r = mla->kv_lora_rank;
      const double queries = mla->q_lora_rank > 0 ? mla->q_lora_rank * (h + q) : h * q;
      return 2.0 * seq
             * (queries + h * (r + mla->qk_rope_head_dim) + r * a * ((double) mla->qk_nope_head_dim + mla->v_head_dim)
                + a * mla->v_head_dim * h);
    }
  return 2.0 * seq * (2 * h * q + 2 * h * kv);
}

double
sc_model_layer_mlp_flops (const ScModel *model, guint seq)
{
  return (model->gated_mlp ? 6.0 : 4.0) * seq * model->hidden * model->ffn;
}

double
sc_model_layer_experts_flops (const ScModel *model, guint seq)
{
  return (model->gated_mlp ? 6.0 : 4.0) * seq * model->hidden * model->expert_ffn
         * ((double) model->top_k + model->shared_experts);
}

double
sc_model_core_attention_flops (const ScModel *model, double pairs)
{
  return 2.0 * model->heads * ((double) model->head_dim + value_dim (model)) * pairs;
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

/* The same in a layer with a window: as if what lies outside it were cut off the square (or its half). */
static double
window_pairs (const ScModel *model, guint seq, ScFlopsConvention convention)
{
  if (model->window >= seq)
    return attended_pairs (seq, convention);
  const double s = seq, w = model->window, half = convention == SC_FLOPS_HALF ? 2 : 1;
  return model->chunked_window ? s * w / half : (s * s - (s - w) * (s - w)) / half;
}

double
sc_model_layer_core_flops (const ScModel *model, guint layer, guint seq, ScFlopsConvention convention)
{
  const gboolean window = sc_model_layer_window (model, layer, seq) > 0;
  return sc_model_core_attention_flops (model, window ? window_pairs (model, seq, convention) : attended_pairs (seq, convention));
}

/* Forward FLOPs in all layers' attention cores. */
static double
core_flops (const ScModel *model, guint seq, ScFlopsConvention convention)
{
  const double full = sc_model_core_attention_flops (model, attended_pairs (seq, convention));
  const guint windows = sc_model_window_layers (model);
  if (windows == 0)
    return model->layers * full;
  return (model->layers - windows) * full
         + windows * sc_model_core_attention_flops (model, window_pairs (model, seq, convention));
}

/* Forward FLOPs in all layers' products. */
static double
linear_flops (const ScModel *model, guint seq)
{
  const guint moe = sc_model_moe_layers (model);
  return model->layers * sc_model_layer_linear_flops (model, seq)
         + (model->layers - moe) * sc_model_layer_mlp_flops (model, seq)
         + moe * sc_model_layer_experts_flops (model, seq);
}

/* Forward FLOPs of the modules that predict further tokens: a layer, a matrix, logits each. */
static double
mtp_flops (const ScModel *model, guint seq, ScFlopsConvention convention)
{
  const double h = model->hidden;
  const double mlp =
      model->experts > 0 ? sc_model_layer_experts_flops (model, seq) : sc_model_layer_mlp_flops (model, seq);
  return model->mtp_layers
         * (sc_model_layer_linear_flops (model, seq) + mlp
            + sc_model_core_attention_flops (model, attended_pairs (seq, convention)) + 4.0 * seq * h * h
            + sc_model_logits_flops (model, seq));
}

double
sc_model_train_flops (const ScModel *model, guint seq, double sequences, ScFlopsConvention convention)
{
  if (convention == SC_FLOPS_6N)
    return 6.0 * (double) sc_model_active_params (model, seq) * seq * sequences;
  /* The backward of a product is two products of its size. */
  return 3.0
         * (linear_flops (model, seq) + core_flops (model, seq, convention) + sc_model_logits_flops (model, seq)
            + mtp_flops (model, seq, convention))
         * sequences;
}

/* ---- Model states ---- */

ScStateBytes
sc_state_bytes (double moments, ScDtype dtype, ScDtype grad_dtype, gboolean fp32_weights, gboolean copies_grads)
{
  if (fp32_weights)
    dtype = grad_dtype = SC_DTYPE_FP32;
  ScStateBytes states = { .weights = sc_dtype_bytes (dtype), .grads = sc_dtype_bytes (grad_dtype) };
  states.optimizer = moments;
  if (dtype != SC_DTYPE_FP32)
    states.optimizer += 4; /* fp32 master weights */
  if (grad_dtype != SC_DTYPE_FP32 && copies_grads)
    states.step = 4;
  return states;
}
