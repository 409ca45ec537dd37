/* SPDX-License-Identifier: GPL-3.0-or-later */
/* workload.c - whether model and plan can be, and how layers fall on stages. */
#include <string.h>
#include "models/packing.h"
#include "models/optimizer.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/sharding.h"

G_DEFINE_QUARK (sc - workload - error - quark, sc_workload_error)

/* What ScOpInfo can number. */
#define MAX_MICROBATCHES 16383

/* Packed for one rank and step. */
#define MOST_DOCUMENTS 1e8

/* Above these, byte counts would leave 64 bits. */
#define MAX_PARAMS 1e15
#define MAX_ACTIVATION_BYTES 0x1p62

void
sc_documents_free (ScDocuments *documents)
{
  if (documents == NULL)
    return;
  g_free (documents->lengths);
  g_free (documents->counts);
  g_free (documents);
}

void
sc_workload_free (ScWorkload *workload)
{
  if (workload == NULL)
    return;
  g_free (workload->name);
  g_free (workload->source);
  sc_documents_free (workload->documents);
  sc_packing_free (workload->packing);
  g_free (workload->model.name);
  g_free (workload->plan.stage_layers);
  g_free (workload->plan.pipeline_layout);
  g_free (workload->plan.stage_mtp);
  g_free (workload->plan.microbatch_factors);
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    g_free (workload->plan.profile.seconds[pass]);
  g_free (workload->plan.schedule_csv);
  g_free (workload->plan.moe_routing);
  g_free (workload->plan.moe_tokens);
  sc_orders_free (workload->plan.schedule_table);
  g_clear_pointer (&workload->files, g_ptr_array_unref);
  g_free (workload);
}

static gboolean G_GNUC_PRINTF (2, 3) fail (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, message);
  return FALSE;
}

/* " (try 4 or 8)": the divisors of @n next to @wrong. */
static char *
try_divisors (guint n, guint wrong)
{
  guint below = 0, above = 0;
  for (guint d = MIN (wrong, n); d > 0 && below == 0; d--)
    if (n % d == 0)
      below = d;
  for (guint d = wrong; d <= n && above == 0; d++)
    if (n % d == 0)
      above = d;
  if (below > 0 && above > 0)
    return g_strdup_printf (" (try %u or %u)", below, above);
  return g_strdup_printf (" (try %u)", MAX (below, above));
}

/* " (try 48 or 56)": the multiples of @unit next to @wrong. */
static char *
try_multiples (guint64 unit, guint64 wrong)
{
  const guint64 below = wrong / unit * unit;
  if (below > 0)
    return g_strdup_printf (" (try %" G_GUINT64_FORMAT " or %" G_GUINT64_FORMAT ")", below, below + unit);
  return g_strdup_printf (" (try %" G_GUINT64_FORMAT ")", below + unit);
}

/* ---- What follows from other keys ---- */

gboolean
sc_model_complete (ScModel *model, guint seq, GError **error)
{
  if (model->mla.kv_lora_rank > 0)
    {
      const guint width = model->mla.qk_nope_head_dim + model->mla.qk_rope_head_dim;
      if (model->head_dim == 0)
        model->head_dim = width;
      if (model->head_dim != width)
        return fail (error, "/model/head_dim: found %u, but with MLA it is qk_nope_head_dim + qk_rope_head_dim = %u",
                     model->head_dim, width);
      model->kv_heads = model->heads;
    }
  if (model->kv_heads == 0)
    model->kv_heads = model->heads;
  if (model->head_dim == 0)
    {
      if (model->hidden % model->heads != 0)
        {
          g_autofree char *hint = try_divisors (model->hidden, model->heads);
          return fail (error, "/model/heads: %u does not divide hidden %u%s, or give head_dim", model->heads,
                       model->hidden, hint);
        }
      model->head_dim = model->hidden / model->heads;
    }
  if (model->ffn == 0)
    model->ffn = 4 * model->hidden;
  if (model->expert_ffn == 0 && model->experts > 0)
    model->expert_ffn = model->ffn;
  if (model->max_positions == 0)
    model->max_positions = seq;
  /* Biases by part that are there everywhere. */
  model->linear_bias |=
      model->attention_bias && model->mlp_bias && (model->norm != SC_NORM_LAYERNORM || model->norm_bias);
  return TRUE;
}

static gboolean
complete_world (ScPlan *plan, GError **error)
{
  const guint64 replica = (guint64) plan->tp * plan->pp * plan->cp;
  if (plan->dp == 0 && plan->gpus == 0)
    return fail (error, "/plan/dp: missing, expected dp or gpus");
  if (plan->dp == 0)
    {
      if (plan->gpus % replica != 0)
        {
          g_autofree char *hint = try_multiples (replica, plan->gpus);
          return fail (error, "/plan/gpus: %u is not a multiple of tp %u x pp %u x cp %u = %" G_GUINT64_FORMAT "%s",
                       plan->gpus, plan->tp, plan->pp, plan->cp, replica, hint);
        }
      plan->dp = (guint) (plan->gpus / replica);
      return TRUE;
    }
  if (replica * plan->dp > 8000000) /* the product of two guint below 8e6 each and 1e6 fits in 64 bits */
    return fail (error,
                 "/plan/dp: tp %u x pp %u x cp %u x dp %u are %" G_GUINT64_FORMAT " GPUs, expected at most 8000000",
                 plan->tp, plan->pp, plan->cp, plan->dp, replica * plan->dp);
  if (plan->gpus != 0 && plan->gpus != replica * plan->dp)
    return fail (error,
                 "/plan/gpus: found %u, but tp %u x pp %u x cp %u x dp %u = %" G_GUINT64_FORMAT
                 " (give dp or gpus, the other follows)",
                 plan->gpus, plan->tp, plan->pp, plan->cp, plan->dp, replica * plan->dp);
  plan->gpus = (guint) (replica * plan->dp);
  return TRUE;
}

gboolean
sc_workload_complete (ScWorkload *workload, GError **error)
{
  ScPlan *plan = &workload->plan;
  if (!sc_model_complete (&workload->model, workload->seq, error) || !complete_world (plan, error))
    return FALSE;
  if (plan->schedule == NULL)
    plan->schedule = plan->pp == 1 ? "none" : plan->vpp == 1 ? "1f1b" : "interleaved";
  if (plan->etp == 0)
    plan->etp = plan->tp;
  if (plan->microbatch_group == 0)
    plan->microbatch_group = plan->pp;
  if (plan->grad_dtype == SC_N_DTYPES)
    plan->grad_dtype = plan->dtype == SC_DTYPE_FP16 ? SC_DTYPE_FP16 : SC_DTYPE_FP32;
  if ((plan->offload & SC_OFFLOAD_ACTIVATIONS) != 0 && plan->offload_layers == 0)
    plan->offload_layers = workload->model.layers - 1;
  if (plan->bucket_params == 0)
    plan->bucket_params = sc_sharding_bucket_params (plan, workload->framework);
  return TRUE;
}

/* ---- Rules ---- */

/* About how many parameters one layer has, in a type that holds whatever single keys allow. */
static double
about_layer_params (const ScModel *model)
{
  const ScMla *mla = &model->mla;
  const double h = model->hidden, a = model->heads, matrices = model->gated_mlp ? 3 : 2;
  const double attention = mla->kv_lora_rank > 0
                               ? ((double) mla->q_lora_rank + mla->kv_lora_rank) * (h + a * ((double) model->head_dim + mla->v_head_dim))
                                     + h * a * (mla->v_head_dim + (mla->q_lora_rank > 0 ? 0.0 : model->head_dim))
                               : 4 * h * a * model->head_dim;
  const double indexer = (double) model->indexer.heads * model->indexer.head_dim * MAX (h, mla->q_lora_rank);
  return attention + indexer + h * matrices * model->ffn
         + h * matrices * ((double) model->experts + model->shared_experts) * model->expert_ffn;
}

gboolean
sc_model_check (const ScModel *model, GError **error)
{
  if (model->heads % model->kv_heads != 0)
    {
      g_autofree char *hint = try_divisors (model->heads, model->kv_heads);
      return fail (error, "/model/kv_heads: %u does not divide %u heads%s", model->kv_heads, model->heads, hint);
    }
  if (model->experts > 0 && (model->top_k == 0 || model->top_k > model->experts))
    return fail (error, "/model/top_k: found %u, expected 1 to %u (experts)", model->top_k, model->experts);
  if (model->experts == 0 && (model->top_k > 0 || model->shared_experts > 0))
    return fail (error, "/model/experts: found 0 with %s, expected both or none",
                 model->top_k > 0 ? "top_k" : "shared_experts");
  if (model->layer_norms == 3)
    return fail (error, "/model/layer_norms: found 3, expected 1, 2 or 4: a norm stands behind both halves of a layer or behind none");
  if (model->layer_norms == 1 && !model->parallel_attention)
    return fail (error, "/model/layer_norms: found 1, expected 2 or 4: only attention and MLP side by side (parallel_attention) share a norm");
  if (model->qk_norm && model->mla.kv_lora_rank > 0)
    return fail (error, "/model/qk_norm: found with mla, whose latents have norms of their own");
  if (model->indexer.heads > 0 && model->mla.q_lora_rank == 0)
    return fail (error, "/model/indexer: found without mla/q_lora_rank, whose queries it reads");

  const double params = ((double) model->layers + model->mtp_layers) * about_layer_params (model)
                        + 2.0 * model->vocab * model->hidden;
  if (params > MAX_PARAMS)
    return fail (error, "/model: found about %.3g parameters, expected at most %.0e", params, MAX_PARAMS);
  return TRUE;
}

static gboolean
check_model (const ScWorkload *workload, GError **error)
{
  const ScModel *model = &workload->model;
  if (!sc_model_check (model, error))
    return FALSE;
  if (model->positions == SC_POSITIONS_LEARNED && model->max_positions < workload->seq)
    return fail (error, "/model/max_positions: found %u, expected at least seq %u", model->max_positions,
                 workload->seq);
  return TRUE;
}

gboolean
sc_workload_check_modelled (const ScWorkload *workload, GError **error)
{
  const ScModel *m = &workload->model;
  const struct
  {
    gboolean found;
    const char *key, *what;
  } later[] = {
    { m->indexer.heads > 0, "indexer", "attention to keys that an indexer chooses (DeepSeek Sparse Attention)" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (later); i++)
    if (later[i].found)
      return fail (error, "/model/%s: found with a model to run, expected none: %s is not modelled yet, its parameters are counted (stepcast show model)",
                   later[i].key, later[i].what);
  return TRUE;
}

static gboolean
check_tensor_parallel (const ScWorkload *workload, GError **error)
{
  const ScModel *model = &workload->model;
  const ScPlan *plan = &workload->plan;
  const guint tp = plan->tp;
  if (model->heads % tp != 0)
    {
      g_autofree char *hint = try_divisors (model->heads, tp);
      return fail (error, "/plan/tp: %u does not divide %u heads%s", tp, model->heads, hint);
    }
  /* More ranks than KV heads: each head is held by tp / kv_heads ranks. */
  if (model->kv_heads % tp != 0 && tp % model->kv_heads != 0)
    {
      g_autofree char *hint = try_divisors (model->kv_heads, tp);
      return fail (error, "/plan/tp: %u neither divides %u KV heads nor is a multiple of them%s", tp, model->kv_heads,
                   hint);
    }
  if (model->ffn % tp != 0)
    {
      g_autofree char *hint = try_divisors (model->ffn, tp);
      return fail (error, "/plan/tp: %u does not divide ffn %u%s", tp, model->ffn, hint);
    }
  if (model->shared_experts > 0 && (guint64) model->shared_experts * model->expert_ffn % tp != 0)
    {
      g_autofree char *hint = try_divisors (model->shared_experts * model->expert_ffn, tp);
      return fail (error, "/plan/tp: %u does not divide the width of the shared experts, %u x expert_ffn %u%s", tp, model->shared_experts,
                   model->expert_ffn, hint);
    }
  if (model->vocab % tp != 0)
    {
      const guint unit = 128 * tp; /* Megatron's --make-vocab-size-divisible-by 128 */
      return fail (error,
                   "/model/vocab: %u is not a multiple of tp %u; give it padded as the run pads it (try %u, the "
                   "next multiple of 128 x tp)",
                   model->vocab, tp, (model->vocab + unit - 1) / unit * unit);
    }
  if (plan->sequence_parallel && tp == 1)
    return fail (error, "/plan/sequence_parallel: found true with tp 1, expected tp > 1");
  if (plan->sequence_parallel && workload->seq % tp != 0)
    {
      g_autofree char *hint = try_multiples (tp, workload->seq);
      return fail (error, "/seq: %u is not a multiple of tp %u, as sequence parallelism needs%s", workload->seq, tp,
                   hint);
    }
  if (plan->tp_overlap && !plan->sequence_parallel)
    return fail (error, "/plan/tp_overlap: found true without sequence_parallel, expected both: what is cut into chunks are the rows of a gather or "
                        "a reduce-scatter");
  if (plan->tp_overlap && (guint64) plan->micro_batch * workload->seq / plan->cp % 4 != 0)
    return fail (error, "/plan/tp_overlap: found true with %" G_GUINT64_FORMAT " tokens of a micro-batch, expected a multiple of the 4 chunks of a product",
                 (guint64) plan->micro_batch * workload->seq / plan->cp);
  if (plan->scatter_gather && plan->sequence_parallel)
    return fail (error, "/plan/scatter_gather: found true with sequence_parallel, expected false: the tensor between "
                        "stages is split already");
  if (plan->scatter_gather && tp == 1)
    return fail (error, "/plan/scatter_gather: found true with tp 1, expected tp > 1");
  return TRUE;
}

/* Ranks that exchange heads for tokens, all of the CP group or a part of it. */
static gboolean
check_head_exchange (const ScWorkload *workload, guint ranks, const char *key, GError **error)
{
  const ScModel *model = &workload->model;
  const ScPlan *plan = &workload->plan;
  const guint heads = model->heads / plan->tp, kv = MAX (model->kv_heads / plan->tp, 1);
  if (heads % ranks != 0)
    {
      g_autofree char *hint = try_divisors (heads, ranks);
      return fail (error, "/plan/%s: %u does not divide the %u heads of a tensor-parallel rank, which cp_comm %s exchanges%s", key, ranks, heads,
                   plan->cp_comm == SC_CP_A2A ? "a2a" : "a2a+p2p", hint);
    }
  if (kv % ranks != 0 && ranks % kv != 0) /* else each is repeated */
    return fail (error, "/plan/%s: %u neither divides the %u KV heads of a tensor-parallel rank nor is a multiple of them", key, ranks, kv);
  if (kv % ranks != 0 && workload->framework->a2a_whole_heads)
    return fail (error, "/plan/%s: found %u ranks that exchange heads with %u KV heads of a tensor-parallel rank, expected at most so many ranks: %s "
                        "attends with Transformer Engine, which repeats no head (DeepSpeed does; cp_comm p2p and all-gather need none)",
                 key, ranks, kv, workload->framework->name);
  return TRUE;
}

static gboolean
check_context_parallel (const ScWorkload *workload, GError **error)
{
  const ScModel *model = &workload->model;
  const ScPlan *plan = &workload->plan;
  const guint rows = plan->sequence_parallel ? plan->tp : 1;
  const guint64 unit = (guint64) plan->cp * (rows % 2 == 0 ? rows : 2 * rows); /* two chunks, and whole rows for each of tp */
  const gboolean rings = plan->cp_comm == SC_CP_RING || plan->cp_comm == SC_CP_HIERARCHICAL;
  if (plan->cp_a2a != 0 && plan->cp_comm != SC_CP_HIERARCHICAL)
    return fail (error, "/plan/cp_a2a: found %u with another cp_comm than a2a+p2p", plan->cp_a2a);
  if (plan->cp == 1)
    return plan->cp_comm == SC_CP_RING || fail (error, "/plan/cp_comm: found with cp 1, expected cp > 1");
  if (plan->attention != SC_ATTENTION_FLASH)
    return fail (error, "/plan/attention: found unfused with cp %u, expected flash: parts of a softmax are merged by the sums that flash "
                        "attention leaves", plan->cp);
  if (workload->seq % unit != 0)
    {
      g_autofree char *hint = try_multiples (unit, workload->seq);
      return fail (error, "/seq: %u is not a multiple of %" G_GUINT64_FORMAT ", as two chunks for each of cp %u%s need%s", workload->seq, unit,
                   plan->cp, rows > 1 ? " and their rows for each of tp" : "", hint);
    }
  if (rings && model->window > 0 && model->window < workload->seq && model->global_every != 1)
    return fail (error, "/plan/cp_comm: found a ring for layers with a window of %u tokens, expected all-gather or a2a: Transformer Engine's "
                        "rings have none", model->window);
  if (plan->cp_comm == SC_CP_A2A)
    return check_head_exchange (workload, plan->cp, "cp", error);
  if (plan->cp_comm != SC_CP_HIERARCHICAL)
    return TRUE;
  if (plan->cp_a2a < 2 || plan->cp_a2a >= plan->cp || plan->cp % plan->cp_a2a != 0)
    return fail (error, "/plan/cp_a2a: found %u, expected a divisor of cp %u between 1 and that: so many ranks exchange heads, the rest is a ring",
                 plan->cp_a2a, plan->cp);
  return check_head_exchange (workload, plan->cp_a2a, "cp_a2a", error);
}

/* Keys that only experts have a use for, of a plan without any. */
static gboolean
check_no_experts (const ScPlan *plan, GError **error)
{
  const struct
  {
    gboolean found;
    const char *key;
  } keys[] = {
    { plan->ep != 1, "ep" },
    { plan->etp != plan->tp && plan->etp != 1, "etp" },
    { plan->moe_dispatcher != SC_DISPATCHER_ALL_TO_ALL, "moe_dispatcher" },
    { plan->moe_node_limit > 0, "moe_node_limit" },
    { plan->moe_shared_overlap, "moe_shared_overlap" },
    { plan->moe_capacity_factor > 0, "moe_capacity_factor" },
    { plan->moe_imbalance > 0, "moe_imbalance" },
    { plan->moe_tokens != NULL, plan->moe_routing != NULL ? "moe_routing" : "moe_histogram" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (keys[i].found)
      return fail (error, "/plan/%s: found with a model that has no experts", keys[i].key);
  return TRUE;
}

/* What one line of recorded tokens can be: each token goes to top_k different experts. */
static gboolean
check_recorded (const ScModel *model, const ScPlan *plan, GError **error)
{
  const char *const key = plan->moe_routing != NULL ? "moe_routing" : "moe_histogram";
  guint moe_layers = 0;
  for (guint i = 0; i < model->layers; i++)
    moe_layers += sc_model_layer_has_experts (model, i);
  if (plan->moe_lines > 1 && plan->moe_lines != moe_layers)
    return fail (error, "/plan/%s: found %u lines, expected one, or one for each of the %u layers with experts", key, plan->moe_lines, moe_layers);
  for (guint line = 0; line < plan->moe_lines; line++)
    {
      double sum = 0, most = 0;
      for (guint i = 0; i < model->experts; i++)
        {
          const double tokens = plan->moe_tokens[(gsize) line * model->experts + i];
          sum += tokens;
          most = MAX (most, tokens);
        }
      if (sum <= 0)
        return fail (error, "/plan/%s: line %u has no tokens", key, line + 1);
      if (most > sum / model->top_k * (1 + 1e-9))
        return fail (error, "/plan/%s: line %u gives one expert %.4g of %.4g, more than every token once (top_k is %u)", key, line + 1, most, sum,
                     model->top_k);
    }
  return TRUE;
}

static gboolean
check_experts (const ScWorkload *workload, GError **error)
{
  const ScModel *model = &workload->model;
  const ScPlan *plan = &workload->plan;
  const guint64 stage_ranks = (guint64) plan->tp * plan->cp * plan->dp, held = (guint64) plan->ep * plan->etp;
  if (model->experts == 0)
    return check_no_experts (plan, error);
  if (model->experts % plan->ep != 0)
    {
      g_autofree char *hint = try_divisors (model->experts, plan->ep);
      return fail (error, "/plan/ep: %u does not divide %u experts%s", plan->ep, model->experts, hint);
    }
  if (model->expert_ffn % plan->etp != 0)
    {
      g_autofree char *hint = try_divisors (model->expert_ffn, plan->etp);
      return fail (error, "/plan/etp: %u does not divide expert_ffn %u%s", plan->etp, model->expert_ffn, hint);
    }
  if (stage_ranks % held != 0)
    return fail (error, "/plan/ep: ep %u x etp %u = %" G_GUINT64_FORMAT " ranks share out the experts, which does not divide the %" G_GUINT64_FORMAT
                        " ranks of a stage (tp %u x cp %u x dp %u)",
                 plan->ep, plan->etp, held, stage_ranks, plan->tp, plan->cp, plan->dp);
  if (plan->tp > 1 && !plan->sequence_parallel)
    return fail (error, "/plan/sequence_parallel: found false with experts and tp %u, expected true: else every rank of the TP group would send "
                        "the same tokens (Megatron refuses it as well)",
                 plan->tp);
  if (plan->moe_node_limit > 0 && plan->moe_dispatcher != SC_DISPATCHER_DEEPEP)
    return fail (error, "/plan/moe_node_limit: found %u with moe_dispatcher all-to-all, expected deepep, which sends a token to a node once",
                 plan->moe_node_limit);
  if (plan->moe_dispatcher == SC_DISPATCHER_DEEPEP && plan->etp > 1)
    return fail (error, "/plan/etp: found %u with moe_dispatcher deepep, expected 1: Megatron's flex dispatcher then sends each token to all etp ranks of "
                        "an expert over one group of ep x etp, which is not modelled", plan->etp);
  if (plan->moe_dispatcher == SC_DISPATCHER_DEEPEP && plan->moe_capacity_factor > 0 && plan->moe_pad_to_capacity)
    return fail (error, "/plan/moe_pad_to_capacity: found true with moe_dispatcher deepep, expected false: it sends the tokens that there are "
                        "(Megatron's flex dispatcher refuses it as well)");
  if (plan->moe_shared_overlap && model->shared_experts == 0)
    return fail (error, "/plan/moe_shared_overlap: found true with a model that has no shared experts");
  if (plan->moe_shared_overlap && plan->ep == 1)
    return fail (error, "/plan/moe_shared_overlap: found true with ep 1, expected ep > 1: there is no exchange to run beside");
  if (plan->moe_imbalance > 0 && plan->moe_tokens != NULL)
    return fail (error, "/plan/moe_imbalance: found with recorded tokens, expected one or the other");
  /* the most loaded rank gets at most every token for each of its experts, and no more than top_k times */
  const double most = (double) plan->ep * MIN (model->top_k, model->experts / plan->ep) / model->top_k;
  if (plan->moe_imbalance > most)
    return fail (error, "/plan/moe_imbalance: found %g, expected at most %g: each of %u ranks has %u experts, of which a token takes %u at most",
                 plan->moe_imbalance, most, plan->ep, model->experts / plan->ep, MIN (model->top_k, model->experts / plan->ep));
  return plan->moe_tokens == NULL || check_recorded (model, plan, error);
}

static gboolean
check_documents (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  if (workload->documents == NULL)
    return TRUE;
  if (plan->attention != SC_ATTENTION_FLASH)
    return fail (error, "/seq_lengths: found with attention unfused, expected flash: it computes all scores of a sequence, whatever documents are in it");
  const double each = (double) sc_workload_microbatches (workload) * plan->micro_batch;
  const double documents = each * workload->seq / sc_documents_mean_length (workload->documents);
  return documents <= MOST_DOCUMENTS
         || fail (error, "/seq_lengths: found about %.3g documents for each data-parallel rank, expected at most %.3g", documents, MOST_DOCUMENTS);
}

static gboolean
check_graphs (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  return !plan->cuda_graphs || workload->model.experts == 0 || (plan->moe_capacity_factor > 0 && plan->moe_pad_to_capacity)
         || fail (error, "/plan/cuda_graphs: found true with experts, expected false: how many rows each of them has is not known when passes are "
                         "captured, unless they are padded to a capacity (moe_capacity_factor)");
}

static gboolean
check_batch (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  const guint64 unit = (guint64) plan->dp * plan->micro_batch;
  if (plan->global_batch % unit != 0)
    {
      g_autofree char *hint = try_multiples (unit, plan->global_batch);
      return fail (error,
                   "/plan/global_batch: %u is not a multiple of dp %u x micro_batch %u = %" G_GUINT64_FORMAT "%s",
                   plan->global_batch, plan->dp, plan->micro_batch, unit, hint);
    }
  const guint64 m = plan->global_batch / unit;
  if (m > MAX_MICROBATCHES)
    return fail (error, "/plan/global_batch: found %" G_GUINT64_FORMAT " micro-batches per step, expected at most %u",
                 m, MAX_MICROBATCHES);

  const ScModel *model = &workload->model;
  const double experts = model->top_k * MAX (plan->moe_capacity_factor, MAX (plan->moe_imbalance, plan->moe_tokens != NULL ? plan->ep : 1))
                         * ((double) model->hidden + model->expert_ffn);
  const double widest = MAX (MAX ((double) model->hidden, model->ffn), (double) model->heads * model->head_dim) + experts;
  const double scores = plan->attention == SC_ATTENTION_UNFUSED ? 5.0 * model->heads * workload->seq : 0;
  const double bytes =
      ((34 * widest + scores) * model->layers + 8.0 * model->vocab) * workload->seq * plan->micro_batch * (double) m;
  if (bytes > MAX_ACTIVATION_BYTES)
    return fail (error, "/plan/global_batch: found about %.3g bytes of activations per step, expected at most %.3g",
                 bytes, MAX_ACTIVATION_BYTES);
  return TRUE;
}

/* Schedules that say themselves what they cannot do. */
static gboolean
check_row (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  const ScScheduleShape shape = sc_workload_schedule_shape (workload);
  const ScOrders *table = plan->schedule_table;
  if (table != NULL && table->p != shape.p)
    return fail (error, "/plan/schedule_csv: the order has %u ranks, the plan pp %u", table->p, shape.p);
  if (table != NULL && table->v != shape.v)
    return fail (error, "/plan/schedule_csv: the order has %u stages per rank, the plan vpp %u", table->v, shape.v);
  if (table != NULL && table->m != shape.m)
    return fail (error, "/plan/schedule_csv: the order has %u micro-batches, the plan %u per step (global_batch / dp / micro_batch)",
                 table->m, shape.m);
  if (table != NULL)
    return TRUE;
  const char *why = sc_schedule_find (plan->schedule)->refuse (&shape);
  return why == NULL || fail (error, "/plan/schedule: %s; found pp %u, vpp %u, %u micro-batches per step", why, shape.p, shape.v, shape.m);
}

/* A whole backward of known length says nothing about its parts. */
static gboolean
check_profile (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  if (plan->profile.n == 0 || !plan->profile.whole)
    return TRUE;
  const ScScheduleShape shape = sc_workload_schedule_shape (workload);
  g_autoptr (ScOrders) orders = sc_orders_new (sc_schedule_find (plan->schedule), &shape, NULL, plan->schedule_table);
  return !sc_orders_split (orders)
         || fail (error, "/plan/profiled_ms/backward: schedule %s runs input and weight gradients apart, expected input and weight",
                  plan->schedule);
}

/* Micro-batches that take turns with the chunks. */
static gboolean
check_groups (const ScPlan *plan, GError **error)
{
  return strcmp (plan->schedule, "interleaved") == 0 || strcmp (plan->schedule, "interleaved-a2a") == 0
         || fail (error, "/plan/microbatch_group: found %u with schedule %s, expected interleaved or interleaved-a2a: the others have no groups, or "
                         "make their own", plan->microbatch_group, plan->schedule);
}

static gboolean
check_schedule (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  const guint p = plan->pp, g = plan->microbatch_group, m = sc_workload_microbatches (workload);
  const gboolean interleaved = strcmp (plan->schedule, "interleaved") == 0;
  if (strcmp (plan->schedule, "none") == 0 && p != 1)
    return fail (error, "/plan/schedule: found none with pp %u, expected 1f1b or interleaved", p);
  if (g != p && !check_groups (plan, error))
    return FALSE;
  if (plan->post_validation && p == 1)
    return fail (error, "/plan/post_validation: found true with pp 1, expected pp > 1: no stage waits for another");
  if (plan->vpp > 1 && p == 1)
    return fail (error, "/plan/vpp: found %u with pp 1, expected 1", plan->vpp);
  if (!sc_schedule_find (plan->schedule)->exchanges)
    return check_row (workload, error);
  if (plan->vpp > 1 && !interleaved)
    return fail (error, "/plan/schedule: found %s with vpp %u, expected interleaved", plan->schedule, plan->vpp);
  if (interleaved && plan->vpp == 1)
    return fail (error, "/plan/schedule: found interleaved with vpp 1, expected vpp > 1 (or 1f1b)");
  if (plan->overlap_p2p && !interleaved)
    return fail (error, "/plan/overlap_p2p: found true with schedule %s, expected interleaved", plan->schedule);
  if (!interleaved)
    return TRUE;

  /* Megatron's rule (MODELLING 7.2). */
  if (m < p)
    return fail (error,
                 "/plan/global_batch: found %u micro-batches per step, expected at least pp %u, as the interleaved "
                 "schedule needs",
                 m, p);
  if (g < p || g > m)
    return fail (error, "/plan/microbatch_group: found %u, expected %u (pp) to %u (micro-batches per step)", g, p, m);
  if (m % g != 0 && m % g < p)
    return fail (error,
                 "/plan/microbatch_group: %u leaves a last group of %u micro-batches (of %u), expected none or at "
                 "least pp %u",
                 g, m % g, m, p);
  return TRUE;
}

/* Vocabulary layers on all ranks of the pipeline: what the code that has them can do (sail-sg/VocabularyParallelism), and what of it is modelled. */
static gboolean
check_vocabulary (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const ScModel *const model = &workload->model;
  const char *const name = sc_vocab_name (plan->vocab_parallel);
  const gboolean folded = strcmp (plan->schedule, "v-half") == 0;
  if (plan->vocab_parallel == SC_VOCAB_ENDS)
    return TRUE;
  if (plan->pp == 1)
    return fail (error, "/plan/vocab_parallel: found %s with pp 1, expected pp > 1: the ranks of a pipeline share out the vocabulary", name);
  if (strcmp (plan->schedule, "1f1b") != 0 && (!folded || plan->vocab_parallel == SC_VOCAB_INTERLACED))
    return fail (error, "/plan/vocab_parallel: found %s with schedule %s, expected 1f1b%s, whose orders have room for its passes", name, plan->schedule,
                 plan->vocab_parallel == SC_VOCAB_INTERLACED ? "" : " or v-half");
  const struct
  {
    gboolean found;
    const char *key, *what;
  } apart[] = {
    { plan->tp > 1, "tp", "expected 1: tables split over both groups are not modelled" },
    { plan->cp > 1, "cp", "expected 1: a loss over parts of sequences is not modelled" },
    { plan->profile.n > 0, "profiled_ms", "expected none: nothing is known of the times of its passes" },
    { plan->partial_microbatches > 0, "partial_microbatches", "expected 0: which micro-batches are in flight hangs on its passes" },
    { plan->sharding != SC_SHARDING_NONE && plan->sharding != SC_SHARDING_DISTRIBUTED_OPTIMIZER, "sharding", "expected none or distributed-optimizer, as Megatron-LM has it" },
    { plan->dp > 1 && (plan->overlap_grad || plan->overlap_param), plan->overlap_grad ? "overlap_grad" : "overlap_param",
      "expected false: gradients of the tables come behind those of all layers" },
    { !workload->framework->fp32_main_grads, "vocab_parallel", "expected a framework that keeps a buffer of gradients, as Megatron-LM, whose branch has it" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (apart); i++)
    if (apart[i].found)
      return fail (error, "/plan/%s: found with vocab_parallel %s, %s", apart[i].key, name, apart[i].what);
  if (model->mtp_layers > 0 || model->embedding_dim > 0 || model->head_bias || model->embedding_norm)
    return fail (error, "/plan/vocab_parallel: found %s with a model that has %s, which is not modelled", name,
                 model->mtp_layers > 0 ? "multi-token prediction" : model->embedding_dim > 0 ? "tables of another width than its layers" : model->head_bias ? "a bias on the logits" : "a norm behind its embedding");
  return TRUE;
}

static gboolean
check_stages (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  const guint layers = workload->model.layers, n = plan->pp * plan->vpp;
  if (plan->stage_layers == NULL)
    {
      const guint slots = layers + (plan->account_for_embedding ? 1 : 0) + (plan->account_for_loss ? 1 : 0);
      if (slots < n)
        return fail (error, "/plan/pp: pp %u x vpp %u = %u stages, but the model has %u layers%s", plan->pp, plan->vpp,
                     n, layers, slots > layers ? " beside the slots of embedding and loss" : "");
      return TRUE;
    }
  const char *key = plan->pipeline_layout != NULL ? "pipeline_layout" : "stage_layers";
  if (plan->account_for_embedding || plan->account_for_loss)
    return fail (error, "/plan/%s: found with account_for_embedding or account_for_loss, expected one or the other", key);
  guint64 sum = 0, mtp = 0;
  for (guint i = 0; i < n; i++)
    {
      sum += plan->stage_layers[i];
      mtp += plan->stage_mtp != NULL ? plan->stage_mtp[i] : 0;
      if (plan->stage_layers[i] == 0 && i > 0 && i + 1 < n && plan->pipeline_layout == NULL) /* a layout says || on purpose */
        return fail (error, "/plan/stage_layers/%u: found 0, expected at least 1 but on the first and the last stage",
                     i);
    }
  if (sum != layers)
    return fail (error, "/plan/%s: the stages have %" G_GUINT64_FORMAT " layers, the model %u", key, sum, layers);
  if (plan->pipeline_layout != NULL && mtp != workload->model.mtp_layers)
    return fail (error, "/plan/pipeline_layout: found %" G_GUINT64_FORMAT " m, but the model has %u modules that predict further tokens (mtp_layers)",
                 mtp, workload->model.mtp_layers);
  for (guint i = 0; mtp > 0 && plan->stage_mtp != NULL && i + 1 < n; i++)
    if (plan->stage_mtp[i] > 0)
      return fail (error, "/plan/pipeline_layout: found m on stage %u, expected it with L on stage %u, where it is simulated", i, n - 1);
  return TRUE;
}

static gboolean
check_data_parallel (const ScWorkload *workload, GError **error)
{
  const ScPlan *plan = &workload->plan;
  if (!sc_sharding_check (workload, error))
    return FALSE;
  if (plan->dtype != plan->grad_dtype && plan->grad_dtype != SC_DTYPE_FP32)
    return fail (error, "/plan/grad_dtype: found %s with dtype %s, expected %s%s", sc_dtype_name (plan->grad_dtype),
                 sc_dtype_name (plan->dtype), plan->dtype == SC_DTYPE_FP32 ? "" : "fp32 or ",
                 sc_dtype_name (plan->dtype));
  return TRUE;
}

gboolean
sc_workload_check (const ScWorkload *workload, GError **error)
{
  return check_model (workload, error)
         && check_tensor_parallel (workload, error) && check_context_parallel (workload, error) && check_experts (workload, error) && check_graphs (workload, error) && check_batch (workload, error) && check_schedule (workload, error)
         && check_profile (workload, error) && check_documents (workload, error) && check_stages (workload, error) && check_vocabulary (workload, error) && sc_recompute_check (workload, error) && sc_precision_check (workload, error) && check_data_parallel (workload, error) && sc_optimizer_check (workload, error);
}

gboolean
sc_workload_check_given (const ScWorkload *workload, const char *key, GError **error)
{
  if (strcmp (key, "microbatch_group") == 0)
    return check_groups (&workload->plan, error);
  return sc_sharding_check_given (workload, key, error);
}

/* ---- Workload on topology ---- */

gboolean
sc_workload_check_topology (const ScWorkload *workload, const ScTopology *topology, GError **error)
{
  const ScPlan *plan = &workload->plan;
  if (plan->gpus > sc_topology_job_gpus (topology))
    return topology->first_node == 0
             ? fail (error, "/plan/gpus: the plan needs %u GPUs (tp %u x pp %u x dp %u), %s has %u", plan->gpus, plan->tp,
                     plan->pp, plan->dp, topology->name, topology->n_gpus)
             : fail (error, "/plan/gpus: the plan needs %u GPUs (tp %u x pp %u x dp %u), %s has %u from node %u on", plan->gpus,
                     plan->tp, plan->pp, plan->dp, topology->name, sc_topology_job_gpus (topology), topology->first_node);

  /* The job takes GPUs in node order. */
  guint64 first = 0;
  guint node = 0;
  for (guint r = 0; r < topology->n_runs && first < plan->gpus; r++)
    {
      const ScNodeRun *run = &topology->runs[r];
      const ScNodeType *type = &topology->types[run->type];
      const ScDevice *device = type->device;
      if (node + run->count <= topology->first_node)
        {
          node += run->count;
          continue;
        }
      const guint from = MAX (node, topology->first_node), here = node + run->count - from; /* nodes of the run that count */
      if (device->peak_flops[plan->dtype].value <= 0)
        return fail (error, "/plan/dtype: found %s, which the %s cannot do", sc_dtype_name (plan->dtype), device->name);
      if (device->peak_flops[sc_plan_gemm_dtype (plan)].value <= 0)
        return fail (error, "/plan/dtype: found %s, but the %s has no rate for products in %s", sc_plan_dtype_name (plan), device->name,
                     sc_dtype_name (sc_plan_gemm_dtype (plan)));
      if (plan->attention == SC_ATTENTION_FLASH && (device->flash_forward.n == 0 || device->flash_backward.n == 0))
        return fail (error, "/plan/attention: found flash, but the %s has no flash attention (try \"unfused\")",
                     device->name);
      if (plan->offload != SC_OFFLOAD_NONE && (device->h2d_bytes_per_s.value <= 0 || device->d2h_bytes_per_s.value <= 0))
        return fail (error, "/plan/offload: the file of the %s says neither h2d_bandwidth nor d2h_bandwidth", device->name);
      if ((plan->offload & SC_OFFLOAD_OPTIMIZER) != 0 && type->host_memory_bytes_per_s.value <= 0)
        return fail (error, "/plan/offload: node type %s of %s has no host_memory_bandwidth", type->name, topology->name);
      if (plan->zero.quantized_gradients > 0 && plan->zero.quantized_gradients != type->gpus)
        return fail (error, "/plan/zero/quantized_gradients: found %u, expected the %u GPUs of node type %s of %s: DeepSpeed reduces over whole nodes first",
                     plan->zero.quantized_gradients, type->gpus, type->name, topology->name);
      for (guint f = 0; f < topology->n_faults; f++)
        {
          const ScFault *fault = &topology->faults[f];
          if (fault->kind != SC_FAULT_GPU || fault->factor > 0 || fault->node < from || fault->node >= from + here)
            continue;
          if (first + (guint64) (fault->node - from) * type->gpus + fault->index < plan->gpus)
            return fail (error, "/plan/gpus: the job takes %u GPUs from node %u on, but GPU %u of node %u is dead",
                         plan->gpus, topology->first_node, fault->index, fault->node);
        }
      first += (guint64) here * type->gpus;
      node += run->count;
    }
  return TRUE;
}

/* ---- Derived numbers ---- */

ScScheduleShape
sc_workload_schedule_shape (const ScWorkload *workload)
{
  const ScPlan *p = &workload->plan;
  return (ScScheduleShape) { p->pp, p->vpp, sc_workload_microbatches (workload), MAX (p->microbatch_group, 1), sc_vocab_ahead (p->vocab_parallel, p->pp) };
}

ScPlacement
sc_plan_placement (const ScPlan *plan)
{
  return plan->schedule_table != NULL ? plan->schedule_table->placement : sc_schedule_find (plan->schedule)->placement;
}

guint
sc_plan_chunks (const ScPlan *plan)
{
  return sc_placement_chunks (sc_plan_placement (plan), plan->vpp);
}

gboolean
sc_plan_ends_meet (const ScPlan *plan)
{
  gboolean first = FALSE, last = FALSE;
  for (guint chunk = 0; chunk < sc_plan_chunks (plan); chunk++)
    {
      const guint stage = sc_plan_stage (plan, 0, chunk);
      first |= stage == 0;
      last |= stage == plan->pp * plan->vpp - 1;
    }
  return first && last;
}

guint
sc_plan_data_ranks (const ScPlan *plan)
{
  return plan->dp * plan->cp * (sc_plan_placement (plan) == SC_PLACE_BOTH ? 2 : 1);
}

guint
sc_plan_inner_ranks (const ScPlan *plan)
{
  const guint all = plan->dp * plan->cp;
  const guint n = plan->shard_group > 0 && plan->shard_group < all ? plan->shard_group : /* of all ranks: no group of its own */
                  plan->zero.hpz > 0 ? plan->zero.hpz :
                  plan->zero.quantized_gradients > 0 ? plan->zero.quantized_gradients : plan->reshard_after_forward;
  return n < all ? n : 0;
}

guint
sc_plan_shard_ranks (const ScPlan *plan)
{
  return plan->shard_group > 0 && plan->shard_group < plan->dp * plan->cp ? plan->shard_group : sc_plan_data_ranks (plan);
}

guint
sc_plan_expert_data_ranks (const ScPlan *plan)
{
  return (guint) ((guint64) plan->tp * plan->cp * plan->dp / ((guint64) plan->ep * plan->etp)) * (sc_plan_placement (plan) == SC_PLACE_BOTH ? 2 : 1);
}

guint
sc_workload_microbatches (const ScWorkload *workload)
{
  const ScPlan *plan = &workload->plan;
  return (guint) (plan->global_batch / ((guint64) plan->dp * plan->micro_batch));
}

guint *
sc_workload_stage_layers (const ScWorkload *workload)
{
  const ScPlan *plan = &workload->plan;
  const guint n = plan->pp * plan->vpp;
  guint *layers = g_new (guint, n);
  if (plan->stage_layers != NULL)
    {
      memcpy (layers, plan->stage_layers, n * sizeof *layers);
      return layers;
    }
  const guint slots = workload->model.layers + (plan->account_for_embedding ? 1 : 0) + (plan->account_for_loss ? 1 : 0);
  const guint more = slots % n, first_more = (n - more) / 2;
  for (guint i = 0; i < n; i++)
    layers[i] = slots / n + (i >= first_more && i < first_more + more ? 1 : 0);
  if (plan->account_for_embedding)
    layers[0]--;
  if (plan->account_for_loss)
    layers[n - 1]--;
  return layers;
}
