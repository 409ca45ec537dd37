/* SPDX-License-Identifier: GPL-3.0-or-later */
/* recompute.c - parts, layers and micro-batches that are computed again, and their FLOPs. */
#include <string.h>
#include "models/packing.h"
#include "models/recompute.h"

#define MEGATRON "NVIDIA/Megatron-LM core/transformer/transformer_config.py (recompute_modules)"

static const ScModuleRow rows[] = {
  [SC_MODULE_CORE_ATTN] = { "core_attn", NULL, "softmax and scores, or the log-sum-exp of fused attention", "arXiv 2205.05198, section 5; " MEGATRON },
  [SC_MODULE_LAYERNORM] = { "layernorm", "norm rmsnorm", "both norms; their outputs are dropped, too", MEGATRON },
  [SC_MODULE_MLP_ACT] = { "mlp_act", "gelu", "the activation of the MLP; its output is dropped, too", "karpathy/llm.c train_gpt2.cu (recompute 1)" },
  [SC_MODULE_MLP] = { "mlp", NULL, "the MLP of layers without experts, from its input", MEGATRON },
  [SC_MODULE_MOE_ACT] = { "moe_act", "act", "the activation of the experts; its output is dropped, too", MEGATRON },
  [SC_MODULE_SHARED_EXPERTS] = { "shared_experts", NULL, "the shared experts, from their input", MEGATRON },
  [SC_MODULE_MOE] = { "moe", NULL, "router, dispatch, experts and combine, from their input", MEGATRON },
  [SC_MODULE_MLA_UP_PROJ] = { "mla_up_proj", NULL, "MLA's ways up and positions; queries, keys and values are dropped, too",
                              MEGATRON "; DeepSeek-V3, arXiv 2412.19437, 3.2.3" },
};
G_STATIC_ASSERT (G_N_ELEMENTS (rows) == SC_N_MODULES);

const ScModuleRow *
sc_module_row (ScModule module)
{
  g_return_val_if_fail ((guint) module < SC_N_MODULES, NULL);
  return &rows[module];
}

gboolean
sc_module_find (const char *name, ScModule *ret_module)
{
  for (guint i = 0; i < SC_N_MODULES; i++)
    {
      g_auto (GStrv) also = g_strsplit (rows[i].also != NULL ? rows[i].also : "", " ", -1);
      if (strcmp (rows[i].name, name) != 0 && !g_strv_contains ((const char *const *) also, name))
        continue;
      *ret_module = (ScModule) i;
      return TRUE;
    }
  return FALSE;
}

/* ---- layers ---- */

gboolean
sc_layer_recompute_equal (const ScLayerRecompute *a, const ScLayerRecompute *b)
{
  return a->modules == b->modules && a->full == b->full && a->first == b->first && a->last == b->last && a->ops == b->ops;
}

/* Is the layer one of those that the plan names, and, recomputed in full, which of its group? */
static gboolean
is_chosen (const ScPlan *plan, guint index, guint n, gboolean partial, gboolean *ret_first, gboolean *ret_last)
{
  const guint layers = plan->recompute_layers;
  *ret_first = *ret_last = TRUE;
  if (plan->partial_microbatches > 0)
    return !partial || index < layers;
  switch (plan->recompute_method)
    {
    case SC_RECOMPUTE_BLOCK: return index < layers;
    case SC_RECOMPUTE_EVERY: return (index + 1) % MAX (layers, 1) == 0;
    case SC_RECOMPUTE_UNIFORM:
    default: break;
    }
  if (plan->recompute != SC_RECOMPUTE_FULL)
    return TRUE;
  *ret_first = index % MAX (layers, 1) == 0;
  *ret_last = (index + 1) % MAX (layers, 1) == 0 || index + 1 == n;
  return TRUE;
}

ScLayerRecompute
sc_recompute_of_layer (const ScPlan *plan, guint index, guint n, gboolean partial)
{
  ScLayerRecompute ret = { 0 };
  gboolean first, last;
  if (!is_chosen (plan, index, n, partial, &first, &last))
    return ret;
  switch (plan->recompute)
    {
    case SC_RECOMPUTE_SELECTIVE:
      ret.modules = 1u << SC_MODULE_CORE_ATTN;
      break;
    case SC_RECOMPUTE_MODULES:
      ret.modules = plan->recompute_modules;
      break;
    case SC_RECOMPUTE_OPS:
      ret.ops = TRUE;
      break;
    case SC_RECOMPUTE_FULL:
      ret.full = TRUE;
      ret.first = first;
      ret.last = last;
      break;
    case SC_RECOMPUTE_NONE:
    default:
      break;
    }
  return ret;
}

/* ---- micro-batches ---- */

guint8 *
sc_recompute_spared (const ScPlan *plan, const ScOrders *orders, guint rank)
{
  if (plan->partial_microbatches == 0)
    return NULL;
  const GArray *const slots = orders->ranks[rank];
  const guint window = sc_orders_in_flight (orders, rank);
  guint8 *const spared = g_new0 (guint8, sc_placement_chunks (orders->placement, orders->v) * orders->m);
  guint n = 0;
  for (guint i = 0; i < slots->len; i++)
    {
      const ScSlot *const slot = &g_array_index (slots, ScSlot, i);
      if (slot->pass == SC_PASS_FORWARD)
        spared[slot->chunk * orders->m + slot->microbatch] = n++ % MAX (window, 1) < plan->partial_microbatches;
    }
  return spared;
}

double
sc_recompute_spared_share (const ScPlan *plan, const ScOrders *orders)
{
  double n = 0, spared = 0;
  for (guint rank = 0; rank < orders->p && plan->partial_microbatches > 0; rank++)
    {
      g_autofree guint8 *of_rank = sc_recompute_spared (plan, orders, rank);
      for (guint i = 0; i < orders->ranks[rank]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (orders->ranks[rank], ScSlot, i);
          if (slot->pass != SC_PASS_FORWARD)
            continue;
          n++;
          spared += of_rank[slot->chunk * orders->m + slot->microbatch];
        }
    }
  return n > 0 ? spared / n : 0;
}

/* ---- checks ---- */

static gboolean G_GNUC_PRINTF (2, 3) fail (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, message);
  return FALSE;
}

/* What a layer must have for the part to be there. */
static const char *
missing_for (const ScModel *model, ScModule module)
{
  switch (module)
    {
    case SC_MODULE_MLP:
    case SC_MODULE_MLP_ACT:
      return sc_model_moe_layers (model) == model->layers ? "a layer with an MLP" : NULL;
    case SC_MODULE_MOE:
    case SC_MODULE_MOE_ACT:
      return model->experts == 0 ? "experts" : NULL;
    case SC_MODULE_SHARED_EXPERTS:
      return model->shared_experts == 0 ? "shared experts" : NULL;
    case SC_MODULE_MLA_UP_PROJ:
      return model->mla.kv_lora_rank == 0 ? "multi-head latent attention" : NULL;
    case SC_MODULE_CORE_ATTN:
    case SC_MODULE_LAYERNORM:
    case SC_N_MODULES:
    default:
      return NULL;
    }
}

static gboolean
check_modules (const ScWorkload *workload, GError **error)
{
  for (guint i = 0; i < SC_N_MODULES; i++)
    {
      if ((workload->plan.recompute_modules & 1u << i) == 0)
        continue;
      const char *missing = missing_for (&workload->model, (ScModule) i);
      if (missing != NULL)
        return fail (error, "/plan/recompute: found module %s, but the model has no %s", rows[i].name, missing + (g_str_has_prefix (missing, "a ") ? 2 : 0));
    }
  return TRUE;
}

static gboolean
check_partial (const ScPlan *plan, GError **error)
{
  if (plan->partial_microbatches == 0)
    return TRUE;
  if (plan->recompute == SC_RECOMPUTE_NONE)
    return fail (error, "/plan/partial_microbatches: found %u with recompute none, expected a mode that some micro-batches are spared", plan->partial_microbatches);
  if (plan->pp == 1)
    return fail (error, "/plan/partial_microbatches: found %u with pp 1, expected 0: one micro-batch at a time is in flight", plan->partial_microbatches);
  if (plan->recompute_method == SC_RECOMPUTE_EVERY || (plan->recompute == SC_RECOMPUTE_FULL && plan->recompute_method != SC_RECOMPUTE_BLOCK))
    return fail (error, "/plan/recompute_method: found %s with partial_microbatches, expected block: a spared micro-batch recomputes "
                        "the first recompute_layers layers of a stage, the others all",
                 plan->recompute_method == SC_RECOMPUTE_EVERY ? "every:N" : "uniform");
  return TRUE;
}

/* Layers whose operators we know in order. */
static gboolean
has_llama_form (const ScModel *m)
{
  return m->experts == 0 && m->mla.kv_lora_rank == 0 && !m->parallel_attention && (m->layer_norms == 0 || m->layer_norms == 2);
}

gboolean
sc_recompute_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const gboolean full = plan->recompute == SC_RECOMPUTE_FULL, partial = plan->partial_microbatches > 0;
  if (!full && plan->recompute_method != SC_RECOMPUTE_UNIFORM)
    return fail (error, "/plan/recompute_method: found block, expected recompute full with it: the other modes take all layers");
  if (full && plan->recompute_method == SC_RECOMPUTE_BLOCK && plan->recompute_layers == 0 && !partial)
    return fail (error, "/plan/recompute_layers: missing, expected with recompute_method block: layers of each stage to recompute");
  if (!full && plan->recompute_layers > 0 && !partial)
    return fail (error, "/plan/recompute_layers: found %u, expected recompute full (or partial_microbatches) with it", plan->recompute_layers);
  if (plan->recompute == SC_RECOMPUTE_OPS && plan->attention == SC_ATTENTION_UNFUSED)
    return fail (error, "/plan/recompute: found selective-op with attention unfused, expected flash: it keeps the output of fused attention");
  if (plan->recompute == SC_RECOMPUTE_OPS && !has_llama_form (&workload->model))
    return fail (error, "/plan/recompute: selective-op is modelled for layers with two norms, attention, then an MLP only, expected none, full or modules:...");
  return check_modules (workload, error) && check_partial (plan, error);
}

/* ---- FLOPs ---- */

/* Of one sequence: operators that selective-op computes again, of the products every second one (PyTorch order: q, k, v,
 * projection, then gate, up, down; the last one's output is of no use to backward). */
static double
ops_flops (const ScModel *m, guint seq)
{
  const double h = m->hidden, k = (double) m->kv_heads * m->head_dim, q = (double) m->heads * m->head_dim;
  return 2.0 * seq * (h * k + q * h) + (m->gated_mlp ? sc_model_layer_mlp_flops (m, seq) / 3 : 0);
}

/* Of one sequence in a layer whose parts are chosen. */
static double
modules_flops (const ScWorkload *workload, guint layer, ScFlopsConvention convention, guint modules)
{
  const ScModel *const m = &workload->model;
  const guint seq = workload->seq;
  const gboolean experts = sc_model_layer_has_experts (m, layer);
  const double all = experts ? sc_model_layer_experts_flops (m, seq) : 0;
  const double shared = experts ? all * m->shared_experts / ((double) m->top_k + m->shared_experts) : 0;
  double flops = 0;
  if (modules & 1u << SC_MODULE_CORE_ATTN)
    flops += sc_packed_core_flops (workload, layer, convention);
  if (modules & 1u << SC_MODULE_MLP)
    flops += experts ? 0 : sc_model_layer_mlp_flops (m, seq);
  if (modules & 1u << SC_MODULE_MOE)
    flops += all;
  else if (modules & 1u << SC_MODULE_SHARED_EXPERTS)
    flops += shared;
  if (modules & 1u << SC_MODULE_MLA_UP_PROJ)
    flops += 2.0 * seq * m->heads
             * ((double) (m->mla.q_lora_rank > 0 ? m->mla.q_lora_rank : m->hidden) * m->head_dim + m->mla.kv_lora_rank * ((double) m->mla.qk_nope_head_dim + m->mla.v_head_dim));
  return flops;
}

/* Of one sequence in a layer that repeats @r. */
static double
layer_flops (const ScWorkload *workload, guint layer, ScFlopsConvention convention, const ScLayerRecompute *r)
{
  const ScModel *const m = &workload->model;
  const guint seq = workload->seq;
  if (!r->full)
    return r->ops ? ops_flops (m, seq) : modules_flops (workload, layer, convention, r->modules);
  return sc_model_layer_linear_flops (m, seq) + sc_packed_core_flops (workload, layer, convention)
         + (sc_model_layer_has_experts (m, layer) ? sc_model_layer_experts_flops (m, seq) : sc_model_layer_mlp_flops (m, seq));
}

double
sc_recompute_flops (const ScWorkload *workload, ScFlopsConvention convention, gboolean partial)
{
  g_return_val_if_fail (convention != SC_FLOPS_6N, 0); /* 6N has no attention term that could be repeated */
  const guint n_stages = workload->plan.pp * workload->plan.vpp;
  g_autofree guint *stages = sc_workload_stage_layers (workload);
  ScLayerRecompute r = { 0 };
  double flops = 0;
  guint layer = 0;
  for (guint j = 0; j < n_stages; j++)
    for (guint i = 0; i < stages[j]; i++, layer++)
      {
        r = sc_recompute_of_layer (&workload->plan, i, stages[j], partial);
        flops += layer_flops (workload, layer, convention, &r);
      }
  return flops + workload->model.mtp_layers * layer_flops (workload, layer - 1, convention, &r); /* modules are like the last layer */
}

double
sc_recompute_hardware_flops (const ScWorkload *workload, ScFlopsConvention convention, double partial)
{
  const double sequences = workload->plan.global_batch;
  const double all = sc_recompute_flops (workload, convention, FALSE);
  const double spared = partial > 0 ? sc_recompute_flops (workload, convention, TRUE) : 0;
  return sc_packed_train_flops (workload, sequences, convention) + sequences * ((1 - partial) * all + partial * spared);
}
