/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_layer.c - what a layer, the embedding, the head and the optimizer issue, save and free. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/layer.h"
#include "models/optimizer.h"
#include "models/recompute.h"
#include "models/sharding.h"
#include "pace.h"

#define GIB (1024.0 * 1024 * 1024)

static ScWorkload
gpt (guint hidden, guint heads, guint layers)
{
  return (ScWorkload){
    .model = { .hidden = hidden,
               .layers = layers,
               .heads = heads,
               .kv_heads = heads,
               .head_dim = hidden / heads,
               .ffn = 4 * hidden,
               .vocab = 51200,
               .tied_embeddings = TRUE,
               .norm = SC_NORM_LAYERNORM,
               .positions = SC_POSITIONS_LEARNED,
               .linear_bias = TRUE,
               .dropout = 0.1 },
    .seq = 2048,
    .plan = { .tp = 8,
              .pp = 1,
              .vpp = 1,
              .dp = 1,
              .cp = 1,
              .ep = 1,
              .micro_batch = 1,
              .dtype = SC_DTYPE_FP16,
              .grad_dtype = SC_DTYPE_FP32,
              .attention = SC_ATTENTION_UNFUSED },
    .framework = sc_framework_find ("megatron-lm", "2022"),
  };
}

static ScWorkload
llama (guint hidden, guint heads, guint ffn, guint layers)
{
  return (ScWorkload){
    .model = { .hidden = hidden,
               .layers = layers,
               .heads = heads,
               .kv_heads = 8,
               .head_dim = hidden / heads,
               .ffn = ffn,
               .gated_mlp = TRUE,
               .vocab = 128256,
               .norm = SC_NORM_RMSNORM,
               .positions = SC_POSITIONS_ROPE },
    .seq = 8192,
    .plan = { .tp = 8,
              .pp = 1,
              .vpp = 1,
              .dp = 1,
              .cp = 1,
              .ep = 1,
              .micro_batch = 1,
              .sequence_parallel = TRUE,
              .dtype = SC_DTYPE_BF16,
              .grad_dtype = SC_DTYPE_FP32,
              .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

typedef void (*Lister) (const ScLayerShape *shape, GArray *items);

static GArray *
list (const ScWorkload *workload, Lister lister)
{
  const ScLayerShape shape = sc_layer_shape (workload, NULL);
  GArray *items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  lister (&shape, items);
  return items;
}

#define item_at(items, i) (&g_array_index ((items), ScItem, (i)))

static double
saved (const ScWorkload *workload)
{
  const ScLayerShape shape = sc_layer_shape (workload, NULL);
  return sc_layer_saved_bytes (&shape);
}

/* Items of @kind of collectives, or kernels called @name, in a list. */
static guint
count (const GArray *items, int kind, int coll, const char *name)
{
  guint n = 0;
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *item = item_at (items, i);
      n += (kind < 0 || (int) item->kind == kind) && (coll < 0 || (int) item->coll == coll)
           && (name == NULL || (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, name)));
    }
  return n;
}

static guint
started (const GArray *items, ScCollKind coll)
{
  return count (items, SC_ITEM_COLLECTIVE_START, (int) coll, NULL);
}

static guint
waited_for (const GArray *items, ScCollKind coll)
{
  return count (items, SC_ITEM_COLLECTIVE, (int) coll, NULL);
}

static double
flops (const GArray *items, int class)
{
  double sum = 0;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_KERNEL && (class < 0 || (int) item_at (items, i)->kernel.class == class))
      sum += item_at (items, i)->kernel.flops;
  return sum;
}

static const ScKernel *
kernel_named (const GArray *items, const char *name)
{
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_KERNEL && g_str_equal (item_at (items, i)->kernel.name, name))
      return &item_at (items, i)->kernel;
  return NULL;
}

/* --- saved bytes --- */

/* MODELLING 3.5: bytes per token, of a layer at 8192 tokens, TP 1; TP 8 with SP; TP 8 without */
static const struct
{
  guint hidden, heads, ffn;
  double token, tp1, tp8_sp, tp8;
} llama_cases[] = {
  { 4096, 32, 14336, 139400, 1141964800, 142745600, 377683968 },
  { 8192, 64, 28672, 274696, 2250309632, 281288704, 751108096 },
  { 16384, 128, 53248, 520712, 4265672704, 533209088, 1472790528 },
};

START_TEST (llama_layers_save_the_table)
{
  ScWorkload w = llama (llama_cases[_i].hidden, llama_cases[_i].heads, llama_cases[_i].ffn, 1);
  ck_assert_double_eq (saved (&w), llama_cases[_i].tp8_sp);
  w.plan.sequence_parallel = FALSE;
  ck_assert_double_eq (saved (&w), llama_cases[_i].tp8);
  w.plan.tp = 1;
  ck_assert_double_eq (saved (&w), llama_cases[_i].tp1);
  ck_assert_double_eq (saved (&w) / 8192, llama_cases[_i].token);
}
END_TEST

/* MODELLING 3.4: activations of the first stage and model states in GiB, and percent of TP alone; arXiv 2205.05198
 * figures 1 and 7 */
static const struct
{
  guint hidden, heads, layers, micro_batch, pp, vpp;
  double tp_only, sp_selective, states;
  double pct_sp, pct_selective, pct_sp_selective, pct_full;
} gpt_cases[] = {
  { 6144, 64, 48, 4, 1, 1, 59.25, 9.5625, 45.5625, 66.84, 49.42, 16.18, 7.64 },
  { 12288, 96, 96, 1, 8, 3, 66.84375, 12.3515625, 45.5625, 62.04, 56.53, 18.49, 8.71 },
  { 20480, 128, 105, 1, 35, 3, 114.0234375, 23.076171875, 31.640625, 58.31, 62.04, 20.27, 9.42 },
  { 25600, 160, 128, 1, 64, 1, 131.25, 26.5625, 32.958984375, 58.31, 62.04, 20.27, 9.42 },
};

START_TEST (gpt_layers_save_the_published_gibibytes)
{
  ScWorkload w = gpt (gpt_cases[_i].hidden, gpt_cases[_i].heads, gpt_cases[_i].layers);
  const double p = gpt_cases[_i].pp, v = gpt_cases[_i].vpp, h = gpt_cases[_i].hidden, l = gpt_cases[_i].layers;
  const double layers = l * (1 + (v > 1 ? (p - 1) / (p * v) : 0)); /* in flight on the first stage */
  w.plan.micro_batch = gpt_cases[_i].micro_batch;
  const double tp_only = saved (&w);
  ck_assert_double_eq_tol (tp_only * layers / GIB, gpt_cases[_i].tp_only, 1e-9);
  w.plan.sequence_parallel = TRUE;
  ck_assert_double_eq_tol (100 * saved (&w) / tp_only, gpt_cases[_i].pct_sp, 0.25);
  w.plan.recompute = SC_RECOMPUTE_SELECTIVE;
  ck_assert_double_eq_tol (saved (&w) * layers / GIB, gpt_cases[_i].sp_selective, 1e-9);
  ck_assert_double_eq_tol (100 * saved (&w) / tp_only, gpt_cases[_i].pct_sp_selective, 0.25);
  w.plan.sequence_parallel = FALSE;
  ck_assert_double_eq_tol (100 * saved (&w) / tp_only, gpt_cases[_i].pct_selective, 0.25);
  w.plan.recompute = SC_RECOMPUTE_FULL;
  ck_assert_double_eq_tol (100 * saved (&w) / tp_only, gpt_cases[_i].pct_full, 0.25);

  const ScStateBytes s = sc_sharding_states (sc_sharding_row (SC_SHARDING_NONE), 8, SC_DTYPE_BF16, SC_DTYPE_FP32, 1);
  ck_assert_double_eq_tol ((s.weights + s.grads + s.optimizer) * 12 * l * h * h / (8 * p) / GIB, gpt_cases[_i].states,
                           1e-9);
}
END_TEST

START_TEST (gpt_layers_save_the_formulas)
{
  ScWorkload w = gpt (12288, 96, 96);
  const double sbh = 2048.0 * 2 * 12288, scores = 5.0 * 96 * 2048 / 12288;
  w.plan.micro_batch = 2;
  for (guint t = 1; t <= 8; t *= 2)
    for (guint sp = 0; sp < 2; sp++)
      {
        w.plan.tp = t;
        w.plan.sequence_parallel = sp > 0;
        const double base = sp > 0 ? 34.0 / t : 10 + 24.0 / t;
        w.plan.recompute = SC_RECOMPUTE_NONE;
        ck_assert_double_eq_tol (saved (&w) / sbh, base + scores / t, 1e-9);
        w.plan.recompute = SC_RECOMPUTE_SELECTIVE;
        ck_assert_double_eq_tol (saved (&w) / sbh, base, 1e-9);
        w.plan.recompute = SC_RECOMPUTE_FULL;
        ck_assert_double_eq_tol (saved (&w) / sbh, sp > 0 ? 2.0 / t : 2, 1e-9);
      }
}
END_TEST

#define VARIANTS (3 * 2 * 2 * 2 * 2 * 3)
#define N_FLAVOURS 10
#define FLAVOUR_STEP 13 /* of flavours only every so many variants, which share no divisor with it */

/* Every combination of what the lists branch on. */
static guint
n_variants (void)
{
  guint n = 0;
  while (sc_framework_all ()[n] != NULL)
    n++;
  return n * VARIANTS + n * VARIANTS * (N_FLAVOURS - 1) / FLAVOUR_STEP;
}

static void
add_experts (ScWorkload *w, guint experts, guint top_k, guint shared, guint ep, guint etp)
{
  w->model.experts = experts;
  w->model.top_k = top_k;
  w->model.expert_ffn = 1024;
  w->model.shared_experts = shared;
  w->plan.dp = 16;
  w->plan.ep = ep;
  w->plan.etp = etp;
}

static void
add_latents (ScModel *m, guint q_lora_rank)
{
  m->mla = (ScMla){ q_lora_rank, 512, 128, 64, 128 };
  m->head_dim = 192;
  m->qk_norm = FALSE;
  m->kv_heads = m->heads;
}

/* What published models have beside the plain block.  Experts with tensor parallelism want sequence parallelism, too. */
static void
add_flavour (ScWorkload *w, guint flavour)
{
  ScModel *const m = &w->model;
  switch (flavour)
    {
    case 1: /* one norm for attention and MLP side by side (Phi) */
      m->parallel_attention = m->head_bias = TRUE;
      m->layer_norms = 1;
      m->mtp_layers = 2; /* of no such model, but it might */
      break;
    case 2: /* the same with two (GPT-NeoX) */
      m->parallel_attention = TRUE;
      break;
    case 3: /* norms behind both halves as well (Gemma 2) */
      m->layer_norms = 4;
      break;
    case 4: /* tables of another width (OPT-350m) */
      m->embedding_dim = m->hidden / 2;
      m->no_final_norm = TRUE;
      break;
    case 5: /* biases by part, a norm over all heads, sinks (OLMo 2, gpt-oss) */
      m->linear_bias = FALSE;
      m->attention_bias = m->attention_sinks = m->qk_norm = m->qk_norm_full = TRUE;
      break;
    case 6: /* Mixtral */
      add_experts (w, 8, 2, 0, 4, w->plan.tp);
      break;
    case 7: /* Qwen2-MoE, shared experts beside the exchange */
      add_experts (w, 16, 4, 2, 8, 1);
      m->shared_gate = w->plan.moe_shared_overlap = TRUE;
      break;
    case 8: /* DeepSeek-V3, all experts on one rank */
      add_latents (m, 1536);
      add_experts (w, 4, 2, 1, 1, w->plan.tp);
      m->mlp_bias = TRUE;
      m->mtp_layers = 1;
      break;
    case 9: /* DeepSeek-V2-Lite's attention */
      add_latents (m, 0);
      break;
    default:
      break;
    }
}

static ScWorkload
variant (guint i, ScFramework *scratch)
{
  guint n_frameworks = 0;
  while (sc_framework_all ()[n_frameworks] != NULL)
    n_frameworks++;
  if (i >= n_frameworks * VARIANTS)
    i = n_frameworks * VARIANTS + (i - n_frameworks * VARIANTS) * FLAVOUR_STEP;
  *scratch = *sc_framework_all ()[i % n_frameworks];
  i /= n_frameworks;
  const guint recompute = i % 3, sp = i / 3 % 2, flash = i / 6 % 2, family = i / 12 % 2, dropout = i / 24 % 2;
  const guint tp = (const guint[]){ 1, 4, 16 }[i / 48 % 3], flavour = i / VARIANTS;
  ScWorkload w = family ? llama (4096, 32, 14336, 32) : gpt (6144, 64, 48);
  w.model.dropout = dropout ? 0.1 : 0;
  w.model.qk_norm = family && dropout;
  w.model.embedding_norm = !family && dropout;
  if (!family && flash)
    w.model.positions = SC_POSITIONS_ALIBI;
  w.plan.tp = w.plan.etp = tp;
  add_flavour (&w, flavour);
  w.plan.sequence_parallel = sp > 0 || (w.model.experts > 0 && tp > 1);
  w.plan.recompute = (ScRecompute) recompute;
  if (w.plan.recompute == SC_RECOMPUTE_SELECTIVE && flavour >= 6) /* the core, or parts that only such layers have */
    {
      static const guint parts[] = { 1u << SC_MODULE_MOE_ACT | 1u << SC_MODULE_LAYERNORM, 1u << SC_MODULE_SHARED_EXPERTS | 1u << SC_MODULE_MOE_ACT,
                                     1u << SC_MODULE_MOE | 1u << SC_MODULE_MLA_UP_PROJ, 1u << SC_MODULE_MLA_UP_PROJ | 1u << SC_MODULE_CORE_ATTN };
      w.plan.recompute = SC_RECOMPUTE_MODULES;
      w.plan.recompute_modules = parts[flavour - 6];
    }
  w.plan.attention = flash ? SC_ATTENTION_FLASH : SC_ATTENTION_UNFUSED;
  if (sp && dropout) /* what no row has: everything apart, recompute that stops early */
    {
      scratch->fused_gelu = scratch->fused_dropout_add = scratch->fused_softmax = scratch->fused_rope = FALSE;
      scratch->recompute_stops_early = TRUE;
    }
  w.framework = scratch;
  return w;
}

/* Adds @items to the running sum of each kind; no kind may ever be negative. */
static void
add_memory (const GArray *items, gint64 live[SC_N_MEMS])
{
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_MEM)
      {
        live[item_at (items, i)->mem] += item_at (items, i)->mem_bytes;
        ck_assert (item_at (items, i)->mem_bytes != 0);
        ck_assert (live[item_at (items, i)->mem] >= 0);
      }
}

static gint64
total (const gint64 live[SC_N_MEMS])
{
  gint64 sum = 0;
  for (guint i = 0; i < SC_N_MEMS; i++)
    sum += live[i];
  return sum;
}

/* Gradients that @items leave to whoever adds them when the whole backward has ended. */
static gint64
waiting (const ScFramework *fw, const GArray *items)
{
  gint64 sum = 0;
  for (guint i = 0; i < items->len && fw->waiting_grads; i++)
    sum += item_at (items, i)->kind == SC_ITEM_MEM && item_at (items, i)->mem == SC_MEM_GRADS ? item_at (items, i)->mem_bytes : 0;
  return sum;
}

START_TEST (forward_leaves_what_is_saved_and_backward_nothing)
{
  static const struct
  {
    Lister forward, backward;
  } pairs[] = {
    { sc_layer_forward, sc_layer_backward },
    { sc_embedding_forward, sc_embedding_backward },
    { sc_head_forward, sc_head_backward },
    { sc_mtp_forward, sc_mtp_backward },
  };
  for (guint i = 0; i < n_variants (); i++)
    for (guint j = 0; j < G_N_ELEMENTS (pairs); j++)
      {
        ScFramework fw;
        const ScWorkload w = variant (i, &fw);
        g_autoptr (GArray) forward = list (&w, pairs[j].forward);
        g_autoptr (GArray) backward = list (&w, pairs[j].backward);
        gint64 live[SC_N_MEMS] = { 0 };
        add_memory (forward, live);
        ck_assert_int_eq (live[SC_MEM_TRANSIENT], 0);
        if (j == 0)
          {
            ck_assert_double_eq ((double) live[SC_MEM_ACTIVATIONS], saved (&w));
            ck_assert_int_eq (total (live), live[SC_MEM_ACTIVATIONS]);
          }
        add_memory (backward, live);
        for (guint k = 0; k < SC_N_MEMS; k++)
          ck_assert_int_eq (live[k], k == SC_MEM_GRADS ? waiting (&fw, backward) : 0);
      }
}
END_TEST

typedef struct
{
  const char *name;
  double flops, bytes;
} Named;

static int
compare_named (gconstpointer a, gconstpointer b)
{
  const Named *x = a, *y = b;
  const int by_name = strcmp (x->name, y->name);
  return by_name != 0 ? by_name : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Kernels and collectives of @items but for their order. */
static GArray *
names (const GArray *items)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Named));
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *item = item_at (items, i);
      const gboolean kernel = item->kind == SC_ITEM_KERNEL;
      const Named named = kernel ? (Named) { item->kernel.name, item->kernel.flops, item->kernel.bytes }
                                 : (Named) { item->name, 0, item->bytes };
      if (kernel || item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START)
        g_array_append_val (all, named);
    }
  g_array_sort (all, compare_named);
  return all;
}

/* Zero bubble: the parts of a backward pass issue what the whole does. */
START_TEST (a_split_backward_issues_the_same_and_frees_all)
{
  static const struct
  {
    Lister forward, whole, input, weight;
  } rows[] = {
    { sc_layer_forward, sc_layer_backward, sc_layer_backward_input, sc_layer_backward_weight },
    { sc_embedding_forward, sc_embedding_backward, sc_embedding_backward_input, sc_embedding_backward_weight },
    { sc_head_forward, sc_head_backward, sc_head_backward_input, sc_head_backward_weight },
    { sc_mtp_forward, sc_mtp_backward, sc_mtp_backward_input, sc_mtp_backward_weight },
  };
  for (guint i = 0; i < n_variants (); i++)
    for (guint j = 0; j < G_N_ELEMENTS (rows); j++)
      {
        ScFramework fw;
        const ScWorkload w = variant (i, &fw);
        const ScLayerShape shape = sc_layer_shape (&w, NULL);
        g_autoptr (GArray) forward = list (&w, rows[j].forward);
        g_autoptr (GArray) whole = list (&w, rows[j].whole);
        g_autoptr (GArray) input = list (&w, rows[j].input);
        g_autoptr (GArray) weight = list (&w, rows[j].weight);
        gint64 live[SC_N_MEMS] = { 0 };
        add_memory (forward, live);
        const gint64 saved_bytes = total (live);
        add_memory (input, live);
        const gint64 waits = waiting (&fw, input) + waiting (&fw, weight);
        ck_assert (total (live) > 0 || forward->len == 0); /* what the weights wait for */
        if (j == 0 && w.plan.recompute == SC_RECOMPUTE_NONE && w.model.dropout > 0)
          ck_assert_int_lt (live[SC_MEM_ACTIVATIONS], saved_bytes);
        add_memory (weight, live);
        for (guint k = 0; k < SC_N_MEMS; k++)
          ck_assert_int_eq (live[k], k == SC_MEM_GRADS ? waits : 0);
        for (guint k = 0; k < weight->len; k++)
          ck_assert_int_ne (item_at (weight, k)->kind, SC_ITEM_COLLECTIVE_START);
        rows[j].weight (&shape, input);
        g_autoptr (GArray) once = names (whole);
        g_autoptr (GArray) parts = names (input);
        ck_assert_uint_eq (once->len, parts->len);
        for (guint k = 0; k < once->len; k++)
          {
            const Named *a = &g_array_index (once, Named, k), *b = &g_array_index (parts, Named, k);
            ck_assert_str_eq (a->name, b->name);
            ck_assert (a->flops == b->flops && a->bytes == b->bytes);
          }
      }
}
END_TEST

/* MODELLING 3.7: of GPT's 34 sbh (and scores) 32 stay for the weights: inputs of products 14, output gradients 18. */
START_TEST (gpt_weights_wait_for_32_sbh)
{
  ScWorkload w = gpt (12288, 96, 96);
  w.plan.tp = 1;
  const double sbh = 2048.0 * 12288;
  for (guint dropout = 0; dropout < 2; dropout++)
    {
      w.model.dropout = dropout * 0.1;
      g_autoptr (GArray) items = list (&w, sc_layer_forward);
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      sc_layer_backward_input (&shape, items);
      gint64 live[SC_N_MEMS] = { 0 };
      add_memory (items, live);
      ck_assert_double_eq ((double) live[SC_MEM_ACTIVATIONS] / sbh, 14);
      ck_assert_double_eq ((double) live[SC_MEM_TRANSIENT] / sbh, 18);
    }
}
END_TEST

START_TEST (every_started_collective_is_waited_for_and_none_runs_alone)
{
  for (guint i = 0; i < n_variants (); i++)
    {
      ScFramework fw;
      const ScWorkload w = variant (i, &fw);
      g_autoptr (GArray) items = list (&w, sc_layer_forward);
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      sc_layer_backward (&shape, items);
      sc_embedding_forward (&shape, items);
      sc_embedding_backward (&shape, items);
      sc_head_forward (&shape, items);
      sc_head_backward (&shape, items);
      guint flying = 0, collectives = 0;
      for (guint j = 0; j < items->len; j++)
        {
          const ScItem *item = item_at (items, j);
          flying += item->kind == SC_ITEM_COLLECTIVE_START;
          collectives += item->kind == SC_ITEM_COLLECTIVE_START || item->kind == SC_ITEM_COLLECTIVE;
          if (item->kind == SC_ITEM_COLLECTIVE_WAIT)
            {
              ck_assert_uint_gt (flying, 0);
              flying--;
            }
          if (item->kind == SC_ITEM_KERNEL)
            ck_assert (item->kernel.name != NULL && item->kernel.bytes > 0 && item->kernel.dtype == w.plan.dtype);
          if (item->kind == SC_ITEM_COLLECTIVE_START || item->kind == SC_ITEM_COLLECTIVE)
            ck_assert (item->name != NULL && item->bytes > 0);
        }
      ck_assert_uint_eq (flying, 0);
      ck_assert ((collectives == 0) == (w.plan.tp == 1 && w.plan.ep == 1));
    }
}
END_TEST

/* --- collectives --- */

START_TEST (sequence_parallel_layers_gather_and_scatter)
{
  /* MODELLING 4.6, 5.8: forward 2 + 2, backward 4 + 2, of which two gathers and the scatters run beside products */
  const ScWorkload w = llama (8192, 64, 28672, 80);
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  ck_assert_uint_eq (waited_for (forward, SC_COLL_ALL_GATHER), 2);
  ck_assert_uint_eq (waited_for (forward, SC_COLL_REDUCE_SCATTER), 2);
  ck_assert_uint_eq (waited_for (backward, SC_COLL_ALL_GATHER), 2);
  ck_assert_uint_eq (started (backward, SC_COLL_ALL_GATHER), 2);
  ck_assert_uint_eq (started (backward, SC_COLL_REDUCE_SCATTER), 2);
  ck_assert_uint_eq (waited_for (backward, SC_COLL_REDUCE_SCATTER), 0);
  for (guint i = 0; i < forward->len; i++)
    if (item_at (forward, i)->kind == SC_ITEM_COLLECTIVE)
      ck_assert_double_eq (item_at (forward, i)->bytes, 134217728);
}
END_TEST

START_TEST (tensor_parallel_layers_all_reduce)
{
  ScWorkload w = gpt (6144, 64, 48);
  static const struct
  {
    const char *version;
    guint beside;
  } rows[] = { { "2021", 0 }, { "2022", 2 } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      w.framework = sc_framework_find ("megatron-lm", rows[i].version);
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, sc_layer_backward);
      ck_assert_uint_eq (waited_for (forward, SC_COLL_ALL_REDUCE), 2);
      ck_assert_uint_eq (started (backward, SC_COLL_ALL_REDUCE), rows[i].beside);
      ck_assert_uint_eq (waited_for (backward, SC_COLL_ALL_REDUCE), 2 - rows[i].beside);
    }
}
END_TEST

START_TEST (full_recompute_repeats_the_forward_and_its_collectives)
{
  for (guint i = 0; i < n_variants (); i++)
    {
      ScFramework fw;
      ScWorkload w = variant (i, &fw);
      if (fw.recompute_stops_early)
        continue;
      w.plan.recompute = SC_RECOMPUTE_NONE;
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, sc_layer_backward);
      w.plan.recompute = SC_RECOMPUTE_FULL;
      g_autoptr (GArray) again = list (&w, sc_layer_backward);
      ck_assert_double_eq (flops (again, -1), flops (forward, -1) + flops (backward, -1));
      guint repeated = 0, once = 0;
      for (guint j = 0; j < again->len; j++)
        repeated += item_at (again, j)->time == SC_TIME_RECOMPUTE && item_at (again, j)->kind != SC_ITEM_MEM;
      for (guint j = 0; j < forward->len; j++)
        once += item_at (forward, j)->kind != SC_ITEM_MEM;
      ck_assert_uint_eq (repeated, once);
    }
}
END_TEST

START_TEST (recompute_that_stops_early_skips_the_down_projection)
{
  ScFramework early = *sc_framework_find ("megatron-core", NULL);
  early.recompute_stops_early = TRUE;
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.plan.recompute = SC_RECOMPUTE_FULL;
  w.framework = &early;
  g_autoptr (GArray) without_dropout = list (&w, sc_layer_backward);
  ck_assert_ptr_null (kernel_named (without_dropout, "fc2"));
  ck_assert_ptr_nonnull (kernel_named (without_dropout, "fc1"));
  w.model.dropout = 0.1; /* its mask is needed */
  g_autoptr (GArray) with_dropout = list (&w, sc_layer_backward);
  ck_assert_ptr_nonnull (kernel_named (with_dropout, "fc2"));
}
END_TEST

START_TEST (selective_recompute_repeats_the_attention_core)
{
  /* MODELLING 3.4: 4 s^2 h per layer and sequence */
  ScWorkload w = gpt (6144, 64, 48);
  g_autoptr (GArray) plain = list (&w, sc_layer_backward);
  w.plan.recompute = SC_RECOMPUTE_SELECTIVE;
  g_autoptr (GArray) selective = list (&w, sc_layer_backward);
  ck_assert_double_eq (flops (selective, -1) - flops (plain, -1), 4 * 2048.0 * 2048 * 6144 / 8);
  for (guint i = 0; i < selective->len; i++)
    if (item_at (selective, i)->time == SC_TIME_RECOMPUTE)
      ck_assert (item_at (selective, i)->kind == SC_ITEM_KERNEL || item_at (selective, i)->kind == SC_ITEM_MEM);
}
END_TEST

/* --- kernels --- */

START_TEST (products_of_llama3_70b_on_tp8_are_the_worked_ones)
{
  /* MODELLING 4.6 */
  static const struct
  {
    const char *name;
    guint64 m, n, k;
  } fprop[] = {
    { "qkv", 8192, 1280, 8192 }, { "projection", 8192, 8192, 1024 }, { "fc1", 8192, 7168, 8192 },
    { "fc2", 8192, 8192, 3584 },
  }, others[] = {
    { "qkv dgrad", 8192, 8192, 1280 }, { "projection dgrad", 8192, 1024, 8192 }, { "fc1 dgrad", 8192, 8192, 7168 },
    { "fc2 dgrad", 8192, 3584, 8192 }, { "qkv wgrad", 1280, 8192, 8192 }, { "projection wgrad", 8192, 1024, 8192 },
    { "fc1 wgrad", 7168, 8192, 8192 }, { "fc2 wgrad", 8192, 3584, 8192 },
  };
  const ScWorkload w = llama (8192, 64, 28672, 80);
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  for (guint i = 0; i < G_N_ELEMENTS (fprop); i++)
    {
      const ScKernel *k = kernel_named (forward, fprop[i].name);
      ck_assert (k->m == fprop[i].m && k->n == fprop[i].n && k->k == fprop[i].k && !k->accumulate);
    }
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      const ScKernel *k = kernel_named (backward, others[i].name);
      ck_assert (k->m == others[i].m && k->n == others[i].n && k->k == others[i].k);
      ck_assert (k->accumulate == g_str_has_suffix (others[i].name, "wgrad"));
    }
  ck_assert_double_eq (flops (forward, SC_KERNEL_GEMM), 1752346656768);
  ck_assert_double_eq (flops (backward, SC_KERNEL_GEMM), 3504693313536);
}
END_TEST

START_TEST (executed_flops_are_the_models)
{
  for (guint i = 0; i < n_variants (); i++)
    {
      ScFramework fw;
      const ScWorkload w = variant (i, &fw);
      if (w.plan.tp > w.model.kv_heads || (w.model.mla.kv_lora_rank > 0 && w.plan.tp > 1 && !w.plan.sequence_parallel))
        continue; /* replicated keys, and ways down, cost more */
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      const gboolean flash = w.plan.attention == SC_ATTENTION_FLASH;
      const double pairs = (double) w.seq * w.seq / (flash ? 2 : 1);
      const gboolean experts = w.model.experts > 0;
      const double router = 2.0 * w.seq * w.model.hidden * w.model.experts; /* counted by nobody */
      const double model = sc_model_layer_linear_flops (&w.model, w.seq) + sc_model_core_attention_flops (&w.model, pairs)
                           + (experts ? sc_model_layer_experts_flops (&w.model, w.seq) + router : sc_model_layer_mlp_flops (&w.model, w.seq));
      ck_assert_double_eq_tol (flops (forward, -1) * w.plan.tp / model, 1, 1e-12);
    }
}
END_TEST

START_TEST (flash_attention_counts_causal_halves)
{
  /* MODELLING 4.3: Llama-3-8B at 8192 tokens; backward 2.5 x */
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.plan.tp = 1;
  w.plan.sequence_parallel = FALSE;
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  ck_assert_double_eq (kernel_named (forward, "attention")->flops, 549755813888);
  ck_assert_double_eq (kernel_named (backward, "attention backward")->flops, 1374389534720);
  ck_assert_uint_eq (kernel_named (forward, "attention")->seq, 8192);
  ck_assert_uint_eq (kernel_named (forward, "attention")->k, 128);
}
END_TEST

/* The bytes that a kernel called @name moves, all of them in a list. */
static double
bytes_named (const GArray *items, const char *name)
{
  double sum = 0;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_KERNEL && g_str_equal (item_at (items, i)->kernel.name, name))
      sum += item_at (items, i)->kernel.bytes;
  return sum;
}

START_TEST (halves_side_by_side_share_a_norm_or_have_their_own)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  const double rows = 2 * 4096.0 * 8192 / 8;
  const double sequential = saved (&w);
  w.model.parallel_attention = TRUE;
  ck_assert_double_eq (sequential - saved (&w), rows); /* one input */
  w.model.layer_norms = 1;
  ck_assert_double_eq (sequential - saved (&w), 2 * rows + 4 * 8192.0 / 8); /* one output and deviation */
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  ck_assert_uint_eq (count (forward, -1, -1, "norm 1"), 1);
  ck_assert_uint_eq (count (forward, -1, -1, "norm 2"), 0);
  ck_assert_uint_eq (count (backward, -1, -1, "norm 1 backward"), 1);
  ck_assert_uint_eq (count (backward, -1, -1, "norm 2 backward"), 0);
  ck_assert_uint_eq (count (backward, -1, -1, "norm gradients add"), 1);
}
END_TEST

START_TEST (norms_behind_the_halves_save_what_they_norm)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  const double two = saved (&w);
  w.model.layer_norms = 4;
  ck_assert_double_eq (saved (&w) - two, 2 * (2 * 4096 + 4) * 8192.0 / 8);
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  ck_assert_double_eq (bytes_named (forward, "norm behind mlp"), bytes_named (forward, "norm 2"));
  ck_assert_double_eq (bytes_named (backward, "norm behind attention backward"), bytes_named (backward, "norm 1 backward"));
}
END_TEST

START_TEST (tables_of_another_width_are_led_to_hidden_and_back)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.model.embedding_dim = 512;
  w.model.no_final_norm = w.model.head_bias = TRUE;
  w.framework = sc_framework_find ("megatron-lm", "2022"); /* biases in kernels of their own */
  g_autoptr (GArray) embedding = list (&w, sc_embedding_forward);
  g_autoptr (GArray) head = list (&w, sc_head_forward);
  g_autoptr (GArray) backward = list (&w, sc_head_backward);
  const ScKernel *in = kernel_named (embedding, "embedding in"), *out = kernel_named (head, "embedding out");
  ck_assert (in->m == 1024 && in->n == 4096 && in->k == 512);
  ck_assert (out->m == 1024 && out->n == 512 && out->k == 4096);
  ck_assert_uint_eq (kernel_named (head, "logits")->k, 512);
  ck_assert_ptr_null (kernel_named (head, "final norm"));
  ck_assert_double_eq (kernel_named (backward, "logits bias gradient")->bytes, 2 * 8192.0 * 128256 / 8);
}
END_TEST

START_TEST (biases_by_part_have_their_own_kernels)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.framework = sc_framework_find ("megatron-lm", "2022");
  static const struct
  {
    gboolean qkv, attention, mlp;
  } rows[] = { { FALSE, FALSE, FALSE }, { TRUE, FALSE, FALSE }, { FALSE, TRUE, FALSE }, { FALSE, FALSE, TRUE } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      w.model.qkv_bias = rows[i].qkv;
      w.model.attention_bias = rows[i].attention;
      w.model.mlp_bias = rows[i].mlp;
      g_autoptr (GArray) backward = list (&w, sc_layer_backward);
      ck_assert_uint_eq (count (backward, -1, -1, "qkv bias gradient"), rows[i].qkv || rows[i].attention);
      ck_assert_uint_eq (count (backward, -1, -1, "projection bias gradient"), rows[i].attention);
      ck_assert_uint_eq (count (backward, -1, -1, "fc1 bias gradient"), rows[i].mlp);
      ck_assert_uint_eq (count (backward, -1, -1, "fc2 bias gradient"), rows[i].mlp);
    }
}
END_TEST

START_TEST (a_norm_over_all_heads_sums_over_the_ranks)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.model.qk_norm = TRUE;
  g_autoptr (GArray) each = list (&w, sc_layer_forward);
  w.model.qk_norm_full = TRUE;
  g_autoptr (GArray) all = list (&w, sc_layer_forward);
  ck_assert_uint_eq (waited_for (each, SC_COLL_ALL_REDUCE), 0);
  ck_assert_uint_eq (waited_for (all, SC_COLL_ALL_REDUCE), 1);
}
END_TEST

START_TEST (dropout_brings_its_kernels)
{
  ScWorkload w = gpt (6144, 64, 48);
  g_autoptr (GArray) with = list (&w, sc_layer_forward);
  w.model.dropout = 0;
  g_autoptr (GArray) without = list (&w, sc_layer_forward);
  g_autoptr (GArray) without_backward = list (&w, sc_layer_backward);
  ck_assert_uint_eq (count (with, SC_ITEM_KERNEL, -1, "attention dropout"), 1);
  ck_assert_uint_eq (count (without, SC_ITEM_KERNEL, -1, "attention dropout"), 0);
  for (guint i = 0; i < without_backward->len; i++)
    ck_assert (item_at (without_backward, i)->kind != SC_ITEM_KERNEL
               || strstr (item_at (without_backward, i)->kernel.name, "dropout") == NULL);
}
END_TEST

START_TEST (unfused_weight_gradients_are_added_by_a_kernel_of_their_own)
{
  /* 6 bytes a parameter with 16-bit buffers, 10 with fp32 */
  ScWorkload w = gpt (6144, 64, 48);
  w.framework = sc_framework_find ("megatron-lm", "2021");
  const double params = 4 * 6144.0 * 6144 / 8;
  g_autoptr (GArray) fp32 = list (&w, sc_layer_backward);
  ck_assert_double_eq (kernel_named (fp32, "fc1 gradient add")->bytes, 10 * params);
  ck_assert (!kernel_named (fp32, "fc1 wgrad")->accumulate);
  w.plan.grad_dtype = SC_DTYPE_FP16;
  g_autoptr (GArray) fp16 = list (&w, sc_layer_backward);
  ck_assert_double_eq (kernel_named (fp16, "fc1 gradient add")->bytes, 6 * params);
  w.framework = sc_framework_find ("megatron-lm", "2022");
  g_autoptr (GArray) fused = list (&w, sc_layer_backward);
  ck_assert_ptr_null (kernel_named (fused, "fc1 gradient add"));
}
END_TEST

START_TEST (replicated_keys_are_computed_on_every_rank)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.plan.tp = 16;
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  ck_assert_uint_eq (kernel_named (forward, "qkv")->n, 2 * 128 + 2 * 128);
}
END_TEST

START_TEST (a_host_bound_layer_pass_takes_the_measured_floor)
{
  ScWorkload w = gpt (1024, 16, 24);
  w.framework = sc_framework_find ("megatron-deepspeed", NULL);
  w.plan.recompute = SC_RECOMPUTE_FULL;
  w.plan.tp = 2;
  g_autoptr (GArray) items = list (&w, sc_layer_forward);
  const ScLayerShape shape = sc_layer_shape (&w, NULL);
  sc_layer_backward (&shape, items);
  double host = 0;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind != SC_ITEM_MEM && item_at (items, i)->kind != SC_ITEM_COLLECTIVE_WAIT)
      host += item_at (items, i)->time == SC_TIME_BACKWARD ? w.framework->host_backward_s : w.framework->host_forward_s;
  ck_assert_double_eq_tol (host, 3.3e-3, 1e-9);
}
END_TEST

/* --- embedding, head, optimizer, boundary --- */

START_TEST (logits_peak_at_six_bytes_and_keep_four)
{
  /* MODELLING 3.8: Llama-3-8B, 8192 tokens, TP 1 */
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.plan.tp = 1;
  w.plan.sequence_parallel = FALSE;
  g_autoptr (GArray) items = list (&w, sc_head_forward);
  const guint n_forward = items->len;
  const ScLayerShape shape = sc_layer_shape (&w, NULL);
  sc_head_backward (&shape, items);
  gint64 live = 0, peak[2] = { 0, 0 }, kept = 0;
  for (guint i = 0; i < items->len; i++)
    {
      if (i == n_forward)
        kept = live;
      if (item_at (items, i)->kind == SC_ITEM_MEM && item_at (items, i)->mem == SC_MEM_LOGITS)
        live += item_at (items, i)->mem_bytes;
      peak[i >= n_forward] = MAX (peak[i >= n_forward], live);
    }
  ck_assert_int_eq (kept, 4202692608);
  ck_assert_int_eq (peak[0], 6304038912);
  ck_assert_int_eq (peak[1], 6304038912);
}
END_TEST

/* Bytes for a logit: PyTorch in tensor operations, over a split vocabulary with a tensor for each of them (torch/distributed/tensor/parallel/loss.py),
 * and where the loss is compiled: logits, and beside them their gradient. */
START_TEST (losses_of_pytorch_hold_what_their_operations_leave)
{
  static const struct
  {
    const char *version;
    guint tp;
    double forward, backward;
  } rows[] = { { "eager", 1, 10, 12 }, { "eager", 8, 14, 16 }, { "compiled", 1, 10, 12 }, { "compiled", 8, 14, 16 }, { "compiled-2025", 1, 2, 4 }, { "compiled-2025", 8, 2, 4 } };
  for (guint k = 0; k < G_N_ELEMENTS (rows); k++)
    {
      ScWorkload w = llama (4096, 32, 14336, 32);
      w.framework = sc_framework_find ("torchtitan", rows[k].version);
      w.plan.tp = rows[k].tp;
      w.plan.sequence_parallel = w.plan.tp > 1;
      const double logits = 8192.0 * 128256 / w.plan.tp;
      g_autoptr (GArray) items = list (&w, sc_head_forward);
      const guint n_forward = items->len;
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      sc_head_backward (&shape, items);
      gint64 live = 0, peak[2] = { 0 };
      for (guint i = 0; i < items->len; i++)
        {
          const ScItem *const item = item_at (items, i);
          live += item->kind == SC_ITEM_MEM && (item->mem == SC_MEM_LOGITS || item->mem == SC_MEM_TRANSIENT) ? item->mem_bytes : 0;
          if (item->kind != SC_ITEM_KERNEL || item->kernel.class != SC_KERNEL_GEMM) /* its operands are no part of the loss */
            peak[i >= n_forward] = MAX (peak[i >= n_forward], live);
        }
      const double others = w.plan.tp > 1 || rows[k].backward < 12 ? 0.5e9 : 0; /* what products bring */
      ck_assert_double_ge ((double) peak[0], rows[k].forward * logits);
      ck_assert_double_ge ((double) peak[1], rows[k].backward * logits);
      ck_assert_double_le ((double) peak[0], rows[k].forward * logits + others);
      ck_assert_double_le ((double) peak[1], rows[k].backward * logits + 2 * others);
    }
}
END_TEST

START_TEST (head_and_embedding_communicate_as_the_table_says)
{
  ScWorkload w = llama (8192, 64, 28672, 80);
  for (guint sp = 0; sp < 2; sp++)
    {
      w.plan.sequence_parallel = sp > 0;
      w.framework = sc_framework_find ("megatron-lm", "2022");
      g_autoptr (GArray) head = list (&w, sc_head_forward);
      g_autoptr (GArray) head_back = list (&w, sc_head_backward);
      g_autoptr (GArray) embedding = list (&w, sc_embedding_forward);
      g_autoptr (GArray) embedding_back = list (&w, sc_embedding_backward);
      ck_assert_uint_eq (waited_for (head, SC_COLL_ALL_REDUCE), 3);
      ck_assert_uint_eq (waited_for (head, SC_COLL_ALL_GATHER), sp);
      ck_assert_uint_eq (started (head_back, sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE), 1);
      ck_assert_uint_eq (started (head_back, SC_COLL_ALL_GATHER), sp);
      ck_assert_uint_eq (waited_for (embedding, sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE), 1);
      ck_assert_uint_eq (waited_for (embedding_back, SC_COLL_ALL_GATHER), sp);
      for (guint i = 0; i < head->len; i++)
        if (item_at (head, i)->kind == SC_ITEM_COLLECTIVE && item_at (head, i)->coll == SC_COLL_ALL_REDUCE)
          ck_assert_double_eq (item_at (head, i)->bytes, 4 * 8192);
      w.framework = sc_framework_find ("megatron-core", NULL);
      g_autoptr (GArray) fused = list (&w, sc_head_forward);
      ck_assert_uint_eq (waited_for (fused, SC_COLL_ALL_REDUCE), 2);
    }
}
END_TEST

START_TEST (boundary_tensors_are_the_worked_ones)
{
  /* MODELLING 5.8: Llama-3-405B, TP 8 with SP */
  ScWorkload w = llama (16384, 128, 53248, 126);
  ScLayerShape shape = sc_layer_shape (&w, NULL);
  ck_assert_double_eq (sc_boundary_bytes (&shape), 33554432);
  w.plan.sequence_parallel = FALSE;
  shape = sc_layer_shape (&w, NULL);
  ck_assert_double_eq (sc_boundary_bytes (&shape), 8 * 33554432.0);
  w.plan.scatter_gather = TRUE;
  ck_assert_double_eq (sc_boundary_bytes (&shape), 33554432);
}
END_TEST

START_TEST (the_optimizer_moves_the_bytes_of_its_framework)
{
  for (const ScFramework *const *row = sc_framework_all (); *row != NULL; row++)
    {
      ScWorkload w = llama (4096, 32, 14336, 32);
      w.framework = *row;
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
      sc_optimizer_step (&shape, 8e9, 1e9, NULL, items);
      double bytes = 0;
      for (guint i = 0; i < items->len; i++)
        {
          ck_assert (item_at (items, i)->time == SC_TIME_OPTIMIZER);
          if (item_at (items, i)->kernel.class == SC_KERNEL_OPTIMIZER)
            bytes += item_at (items, i)->kernel.bytes;
        }
      ck_assert_double_eq (bytes, (*row)->optimizer_bytes_per_param * 1e9);
      ck_assert_str_eq (item_at (items, 0)->kernel.name, "gradient norm");
      const gboolean fp32 = sc_sharding_of (SC_SHARDING_NONE, *row)->fp32_weights; /* there is no 16-bit copy to write */
      ck_assert_double_eq (kernel_named (items, "adam")->bytes, fp32 ? 28e9 : 30e9); /* MODELLING 4.5: 16 read, 14 written */
      if ((*row)->fp32_main_grads)
        ck_assert_double_eq (kernel_named (items, "zero gradients")->bytes, 4 * 8e9);
    }
}
END_TEST

/* Sum of what is allocated of one kind at the worst time of a list that begins with @held. */
static double
most_of (const GArray *items, ScMemKind kind, double held)
{
  double now = held, most = held;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_MEM && item_at (items, i)->mem == kind)
      {
        now += (double) item_at (items, i)->mem_bytes;
        most = MAX (most, now);
      }
  return most;
}

/* Of a logit: 2 + 4 + 4 bytes forward, of which the softmax stays; with its two gradients 12 backward (MODELLING 3.8). */
START_TEST (pytorchs_loss_is_in_fp32_thrice)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  w.framework = sc_framework_find ("pytorch", NULL);
  const ScLayerShape shape = sc_layer_shape (&w, NULL);
  const double logits = shape.tokens * w.model.vocab / w.plan.tp;
  g_autoptr (GArray) forward = g_array_new (FALSE, FALSE, sizeof (ScItem)), backward = g_array_new (FALSE, FALSE, sizeof (ScItem));
  sc_head_forward (&shape, forward);
  sc_head_backward (&shape, backward);
  ck_assert_double_eq (most_of (forward, SC_MEM_LOGITS, 0), 10 * logits);
  ck_assert_double_eq (most_of (backward, SC_MEM_LOGITS, 4 * logits), 12 * logits);
}
END_TEST

START_TEST (eager_modules_write_norms_out)
{
  ScWorkload w = llama (4096, 32, 14336, 32);
  const char *const versions[] = { "eager", "compiled" };
  const double bytes[][2] = { { 36, 72 }, { 4, 6 } }; /* of an element, forward and backward */
  for (guint i = 0; i < G_N_ELEMENTS (versions); i++)
    {
      w.framework = sc_framework_find ("torchtitan", versions[i]);
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      g_autoptr (GArray) forward = g_array_new (FALSE, FALSE, sizeof (ScItem)), backward = g_array_new (FALSE, FALSE, sizeof (ScItem));
      sc_layer_forward (&shape, forward);
      sc_layer_backward (&shape, backward);
      ck_assert_double_eq (kernel_named (forward, "norm 1")->bytes, bytes[i][0] * shape.tokens_sp * 4096);
      ck_assert_double_eq (kernel_named (backward, "norm 1 backward")->bytes, bytes[i][1] * shape.tokens_sp * 4096);
    }
}
END_TEST

START_TEST (older_flash_attention_is_slower_where_there_is_better)
{
  ck_assert_double_eq (sc_flash_rate (SC_FLASH_DEVICE, TRUE, FALSE), 1);
  ck_assert_double_eq (sc_flash_rate (SC_FLASH_2, FALSE, TRUE), 1);
  for (guint backward = 0; backward < 2; backward++)
    {
      ck_assert_double_lt (sc_flash_rate (SC_FLASH_2, TRUE, backward), 1);
      ck_assert_double_lt (sc_flash_rate (SC_FLASH_TRITON, TRUE, backward), sc_flash_rate (SC_FLASH_2, TRUE, backward));
      ck_assert_double_lt (sc_flash_rate (SC_FLASH_TRITON, FALSE, backward), 1);
    }
}
END_TEST

START_TEST (categories_have_names)
{
  for (guint i = 0; i < SC_N_TIMES; i++)
    ck_assert (sc_time_kind_name ((ScTimeKind) i) != NULL && sc_time_kind_label ((ScTimeKind) i) != NULL);
  for (guint i = 0; i < SC_N_MEMS; i++)
    ck_assert (sc_mem_kind_name ((ScMemKind) i) != NULL);
  ck_assert_str_eq (sc_time_kind_name (SC_TIME_COMM_TP), "exposed_tp");
  ck_assert_str_eq (sc_time_kind_label (SC_TIME_COMM_TP), "exposed TP");
  ck_assert_str_eq (sc_mem_kind_name (SC_MEM_LOGITS), "logits");
}
END_TEST

static Suite *
layer_suite (void)
{
  Suite *suite = suite_create ("layer");
  TCase *tc = tcase_create ("memory");
  tcase_set_timeout (tc, 60);
  tcase_add_loop_test (tc, llama_layers_save_the_table, 0, G_N_ELEMENTS (llama_cases));
  tcase_add_loop_test (tc, gpt_layers_save_the_published_gibibytes, 0, G_N_ELEMENTS (gpt_cases));
  tcase_add_test (tc, gpt_layers_save_the_formulas);
  tcase_add_test (slow (suite), forward_leaves_what_is_saved_and_backward_nothing);
  tcase_add_test (slow (suite), a_split_backward_issues_the_same_and_frees_all);
  tcase_add_test (tc, gpt_weights_wait_for_32_sbh);
  tcase_add_test (tc, logits_peak_at_six_bytes_and_keep_four);
  tcase_add_test (tc, losses_of_pytorch_hold_what_their_operations_leave);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("collectives");
  tcase_set_timeout (tc, 60);
  tcase_add_test (heavy (suite), every_started_collective_is_waited_for_and_none_runs_alone);
  tcase_add_test (tc, sequence_parallel_layers_gather_and_scatter);
  tcase_add_test (tc, tensor_parallel_layers_all_reduce);
  tcase_add_test (tc, head_and_embedding_communicate_as_the_table_says);
  tcase_add_test (tc, boundary_tensors_are_the_worked_ones);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("kernels");
  tcase_set_timeout (tc, 60);
  tcase_add_test (tc, full_recompute_repeats_the_forward_and_its_collectives);
  tcase_add_test (tc, recompute_that_stops_early_skips_the_down_projection);
  tcase_add_test (tc, selective_recompute_repeats_the_attention_core);
  tcase_add_test (tc, products_of_llama3_70b_on_tp8_are_the_worked_ones);
  tcase_add_test (tc, executed_flops_are_the_models);
  tcase_add_test (tc, flash_attention_counts_causal_halves);
  tcase_add_test (tc, halves_side_by_side_share_a_norm_or_have_their_own);
  tcase_add_test (tc, norms_behind_the_halves_save_what_they_norm);
  tcase_add_test (tc, tables_of_another_width_are_led_to_hidden_and_back);
  tcase_add_test (tc, biases_by_part_have_their_own_kernels);
  tcase_add_test (tc, a_norm_over_all_heads_sums_over_the_ranks);
  tcase_add_test (tc, dropout_brings_its_kernels);
  tcase_add_test (tc, unfused_weight_gradients_are_added_by_a_kernel_of_their_own);
  tcase_add_test (tc, replicated_keys_are_computed_on_every_rank);
  tcase_add_test (tc, a_host_bound_layer_pass_takes_the_measured_floor);
  tcase_add_test (tc, the_optimizer_moves_the_bytes_of_its_framework);
  tcase_add_test (tc, pytorchs_loss_is_in_fp32_thrice);
  tcase_add_test (tc, eager_modules_write_norms_out);
  tcase_add_test (tc, older_flash_attention_is_slower_where_there_is_better);
  tcase_add_test (tc, categories_have_names);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (layer_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
