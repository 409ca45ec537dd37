/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_recompute.c - what backward computes again: bytes that are kept, kernels that are repeated, and whole steps. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/memory.h"
#include "pace.h"

static ScWorkload
gpt (void)
{
  return (ScWorkload){
    .model = { .hidden = 12288, .layers = 96, .heads = 96, .kv_heads = 96, .head_dim = 128, .ffn = 4 * 12288, .vocab = 51200, .tied_embeddings = TRUE,
               .norm = SC_NORM_LAYERNORM, .positions = SC_POSITIONS_LEARNED, .linear_bias = TRUE, .dropout = 0.1 },
    .seq = 2048,
    .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .cp = 1, .ep = 1, .micro_batch = 1, .dtype = SC_DTYPE_FP16, .grad_dtype = SC_DTYPE_FP32,
              .attention = SC_ATTENTION_UNFUSED },
    .framework = sc_framework_find ("megatron-lm", "2022"),
  };
}

static ScWorkload
llama (void)
{
  return (ScWorkload){
    .model = { .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .gated_mlp = TRUE, .vocab = 128256,
               .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE },
    .seq = 8192,
    .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .cp = 1, .ep = 1, .micro_batch = 1, .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32,
              .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

static void
set_modules (ScWorkload *w, guint modules)
{
  w->plan.recompute = SC_RECOMPUTE_MODULES;
  w->plan.recompute_modules = modules;
}

static double
saved (const ScWorkload *w)
{
  const ScLayerShape shape = sc_layer_shape (w, NULL);
  return sc_layer_saved_bytes (&shape);
}

/* --- bytes --- */

/* What each part's repetition saves, bytes per token: MODELLING 3.5 (Llama-3-8B: 139,400 in all), and 3.4 in units of h. */
static const struct
{
  ScModule module;
  double llama, gpt;
} parts[] = {
  { SC_MODULE_CORE_ATTN, 4 * 32, 5.0 * 96 * 2048 / 12288 }, /* log-sum-exp; 5 a s / h */
  { SC_MODULE_LAYERNORM, 4 * 4096 + 8, 4 },
  { SC_MODULE_MLP_ACT, 2 * 14336, 8 },
  { SC_MODULE_MLP, 6 * 14336, 16 },
};

START_TEST (parts_drop_their_tensors)
{
  ScWorkload l = llama (), g = gpt ();
  const double whole_l = saved (&l), whole_g = saved (&g);
  ck_assert_double_eq (whole_l / 8192, 139400);
  set_modules (&l, 1u << parts[_i].module);
  set_modules (&g, 1u << parts[_i].module);
  ck_assert_double_eq ((whole_l - saved (&l)) / 8192, parts[_i].llama);
  ck_assert_double_eq_tol ((whole_g - saved (&g)) / 2048 / 12288, parts[_i].gpt, 1e-9);
}
END_TEST

START_TEST (selective_is_the_attention_core)
{
  ScWorkload a = gpt (), b = gpt ();
  a.plan.recompute = SC_RECOMPUTE_SELECTIVE;
  set_modules (&b, 1u << SC_MODULE_CORE_ATTN);
  ck_assert_double_eq (saved (&a), saved (&b));
  const ScLayerRecompute x = sc_recompute_of_layer (&a.plan, 0, 1, FALSE), y = sc_recompute_of_layer (&b.plan, 0, 1, FALSE);
  ck_assert (sc_layer_recompute_equal (&x, &y));
}
END_TEST

START_TEST (operators_keep_every_second_product_and_attention)
{
  /* input, Q, V, attention output and its log-sum-exp, one branch, the last product */
  ScWorkload w = llama ();
  w.plan.recompute = SC_RECOMPUTE_OPS;
  ck_assert_double_eq (saved (&w) / 8192, 2 * 4096 + 2 * 4096 + 2 * 1024 + 2 * 4096 + 4 * 32 + 2 * 14336 + 2 * 4096);
}
END_TEST

/* --- layers --- */

START_TEST (methods_choose_layers)
{
  ScPlan plan = { .recompute = SC_RECOMPUTE_FULL, .recompute_layers = 3 };
  for (guint n = 1; n < 9; n++)
    for (guint i = 0; i < n; i++)
      {
        plan.recompute_method = SC_RECOMPUTE_UNIFORM;
        ScLayerRecompute r = sc_recompute_of_layer (&plan, i, n, FALSE);
        ck_assert (r.full && r.first == (i % 3 == 0) && r.last == (i % 3 == 2 || i + 1 == n));
        plan.recompute_method = SC_RECOMPUTE_BLOCK;
        r = sc_recompute_of_layer (&plan, i, n, FALSE);
        ck_assert (r.full == (i < 3) && r.first == r.full && r.last == r.full);
        plan.recompute_method = SC_RECOMPUTE_EVERY;
        r = sc_recompute_of_layer (&plan, i, n, FALSE);
        ck_assert (r.full == (i % 3 == 2) && r.first == r.full && r.last == r.full);
      }
}
END_TEST

START_TEST (kinds_follow_the_place_in_the_stage)
{
  ScWorkload w = llama ();
  w.plan.pp = 2;
  w.plan.vpp = 2;
  w.plan.recompute = SC_RECOMPUTE_FULL;
  w.plan.recompute_method = SC_RECOMPUTE_BLOCK;
  w.plan.recompute_layers = 2;
  g_autoptr (ScLayerKinds) kinds = sc_layer_kinds_new (&w);
  ck_assert_uint_eq (kinds->n, 2);
  ck_assert_ptr_null (kinds->partial);
  for (guint i = 0; i < 32; i++)
    ck_assert (kinds->kinds[kinds->of_layer[i]].recompute.full == (i % 8 < 2));
  w.plan.partial_microbatches = 1;
  g_autoptr (ScLayerKinds) partial = sc_layer_kinds_new (&w);
  for (guint i = 0; i < 32; i++)
    {
      ck_assert (partial->kinds[partial->of_layer[i]].recompute.full);
      ck_assert (partial->kinds[partial->partial[i]].recompute.full == (i % 8 < 2));
    }
}
END_TEST

/* --- passes --- */

/* Every mode that a layer may be in, over what the lists branch on. */
#define N_MODES (3 + (1 << 4) - 1)

static void
set_mode (ScWorkload *w, guint mode)
{
  w->plan.recompute = mode == 0 ? SC_RECOMPUTE_NONE : mode == 1 ? SC_RECOMPUTE_FULL : mode == 2 ? SC_RECOMPUTE_OPS : SC_RECOMPUTE_MODULES;
  w->plan.recompute_modules = 0;
  for (guint i = 0; i < 4 && mode > 2; i++)
    if ((mode - 2) & 1u << i)
      w->plan.recompute_modules |= 1u << parts[i].module;
}

/* A model and plan of random sizes; FALSE: the mode cannot be with it. */
static gboolean
random_case (GRand *rand, guint mode, ScWorkload *ret, ScFramework *scratch)
{
  const ScFramework *const *all = sc_framework_all ();
  guint n = 0;
  while (all[n] != NULL)
    n++;
  *ret = g_rand_boolean (rand) ? llama () : gpt ();
  ScModel *const m = &ret->model;
  m->kv_heads = 4u << g_rand_int_range (rand, 0, 2);
  m->heads = m->kv_heads << g_rand_int_range (rand, 0, 3);
  m->head_dim = 32u * (guint) g_rand_int_range (rand, 1, 5);
  m->hidden = 64u * (guint) g_rand_int_range (rand, 1, 40);
  m->ffn = 64u * (guint) g_rand_int_range (rand, 1, 90);
  m->gated_mlp = g_rand_boolean (rand);
  m->dropout = g_rand_boolean (rand) ? 0.1 : 0;
  m->qk_norm = g_rand_boolean (rand);
  m->parallel_attention = g_rand_int_range (rand, 0, 3) == 0;
  m->layer_norms = m->parallel_attention ? (guint) g_rand_int_range (rand, 1, 3) : g_rand_int_range (rand, 0, 3) == 0 ? 4 : 2;
  ret->seq = 64u * (guint) g_rand_int_range (rand, 1, 20);
  ret->plan.tp = 1u << g_rand_int_range (rand, 0, 4);
  ret->plan.sequence_parallel = ret->plan.tp > 1 && g_rand_boolean (rand);
  ret->plan.micro_batch = (guint) g_rand_int_range (rand, 1, 4);
  ret->plan.attention = g_rand_boolean (rand) ? SC_ATTENTION_FLASH : SC_ATTENTION_UNFUSED;
  *scratch = *all[g_rand_int_range (rand, 0, (gint32) n)];
  scratch->recompute_stops_early = g_rand_boolean (rand);
  ret->framework = scratch;
  set_mode (ret, mode);
  return sc_recompute_check (ret, NULL);
}

static void
add_memory (const GArray *items, gint64 live[SC_N_MEMS])
{
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind != SC_ITEM_MEM)
        continue;
      live[item->mem] += item->mem_bytes;
      ck_assert (live[item->mem] >= 0);
    }
}

typedef void (*Lister) (const ScLayerShape *shape, GArray *items);

static void
append (const ScLayerShape *shape, Lister lister, gint64 live[SC_N_MEMS])
{
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  lister (shape, items);
  add_memory (items, live);
}

START_TEST (every_mode_frees_what_it_takes)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  for (guint round = 0; round < 60; round++)
    for (guint mode = 0; mode < N_MODES; mode++)
      {
        ScWorkload w;
        ScFramework fw;
        if (!random_case (rand, mode, &w, &fw))
          continue;
        const ScLayerShape shape = sc_layer_shape (&w, NULL);
        for (guint split = 0; split < 2; split++)
          {
            gint64 live[SC_N_MEMS] = { 0 };
            append (&shape, sc_layer_forward, live);
            ck_assert_double_eq_tol ((double) live[SC_MEM_ACTIVATIONS], saved (&w), 32); /* each tensor is rounded */
            append (&shape, split ? sc_layer_backward_input : sc_layer_backward, live);
            if (split)
              append (&shape, sc_layer_backward_weight, live);
            for (guint k = 0; k < SC_N_MEMS; k++)
              ck_assert (live[k] == 0 || (k == SC_MEM_GRADS && fw.waiting_grads)); /* those go when a whole backward has ended */
          }
      }
}
END_TEST

START_TEST (groups_keep_one_input_and_free_all)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (12);
  for (guint n = 1; n <= 5; n++)
    for (guint round = 0; round < 10; round++)
      {
        ScWorkload w;
        ScFramework fw;
        random_case (rand, 1, &w, &fw);
        w.plan.recompute_layers = n;
        w.model.layers = n;
        g_autoptr (ScStepItems) items = sc_step_items_new (&w);
        gint64 live[SC_N_MEMS] = { 0 };
        for (guint i = 0; i < n; i++)
          add_memory (items->layers[items->kinds->of_layer[i]].pass[SC_PASS_FORWARD], live);
        const ScLayerShape shape = sc_layer_shape (&w, NULL);
        ck_assert_double_eq_tol ((double) live[SC_MEM_ACTIVATIONS], sc_boundary_bytes (&shape), 1);
        for (guint i = 0; i + 1 < n; i++)
          add_memory (items->layers[items->kinds->of_layer[i]].rebuild, live);
        for (guint i = n; i-- > 0;)
          {
            add_memory (items->layers[items->kinds->of_layer[i]].pass[SC_PASS_INPUT], live);
            add_memory (items->layers[items->kinds->of_layer[i]].pass[SC_PASS_WEIGHT], live);
          }
        for (guint k = 0; k < SC_N_MEMS; k++)
          ck_assert (live[k] == 0 || (k == SC_MEM_GRADS && fw.waiting_grads));
      }
}
END_TEST

START_TEST (whoever_repeats_more_keeps_less)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);
  for (guint round = 0; round < 200; round++)
    {
      ScWorkload w;
      ScFramework fw;
      random_case (rand, 0, &w, &fw);
      const double none = saved (&w);
      set_mode (&w, 1);
      const double full = saved (&w);
      double by_mask[1 << 4];
      for (guint mask = 0; mask < 1 << 4; mask++)
        {
          set_mode (&w, mask == 0 ? 0 : 2 + mask);
          by_mask[mask] = saved (&w);
          ck_assert (full <= by_mask[mask] && by_mask[mask] <= none);
          for (guint i = 0; i < 4; i++)
            ck_assert (by_mask[mask] <= by_mask[mask & ~(1u << i)]);
        }
      set_mode (&w, 2);
      if (sc_recompute_check (&w, NULL))
        ck_assert (full < saved (&w));
    }
}
END_TEST

static double
flops_of (const GArray *items, gboolean again)
{
  double sum = 0;
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL && (item->time == SC_TIME_RECOMPUTE) == again)
        sum += item->kernel.flops;
    }
  return sum;
}

/* Hardware FLOPs are those of the kernels that carry the name, but for a last product that nothing needs. */
START_TEST (repeated_kernels_have_the_flops_that_are_reported)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (14);
  for (guint round = 0; round < 60; round++)
    for (guint mode = 0; mode < N_MODES; mode++)
      {
        ScWorkload w;
        ScFramework fw;
        if (!random_case (rand, mode, &w, &fw) || w.plan.tp > w.model.kv_heads)
          continue;
        if (mode != 2)
          fw.recompute_stops_early = FALSE;
        w.model.layers = 1;
        const ScLayerShape shape = sc_layer_shape (&w, NULL);
        g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
        sc_layer_backward (&shape, items);
        const double want = sc_recompute_flops (&w, w.plan.attention == SC_ATTENTION_FLASH ? SC_FLOPS_HALF : SC_FLOPS_FULL, FALSE);
        ck_assert_double_eq_tol (flops_of (items, TRUE) * w.plan.tp, want * w.plan.micro_batch, 1e-9 * want * w.plan.micro_batch + 1);
        ck_assert_double_gt (flops_of (items, FALSE), 0);
      }
}
END_TEST

START_TEST (full_recompute_by_groups_repeats_each_layer_once)
{
  ScWorkload w = llama ();
  w.plan.recompute = SC_RECOMPUTE_FULL;
  double want = -1;
  for (guint n = 1; n <= 32; n *= 2)
    {
      w.plan.recompute_layers = n;
      const double flops = sc_recompute_flops (&w, SC_FLOPS_HALF, FALSE);
      if (want < 0)
        want = flops;
      ck_assert_double_eq (flops, want);
      g_autoptr (ScStepItems) items = sc_step_items_new (&w);
      double sum = 0;
      for (guint i = 0; i < 32; i++)
        {
          const ScPassItems *const p = &items->layers[items->kinds->of_layer[i]];
          sum += flops_of (p->pass[SC_PASS_BACKWARD], TRUE) + (p->rebuild != NULL ? flops_of (p->rebuild, TRUE) : 0);
        }
      ck_assert_double_eq_tol (sum, flops, 1e-9 * flops);
    }
}
END_TEST

/* --- steps --- */

START_TEST (spared_microbatches_are_the_first_of_each_window)
{
  const ScScheduleShape shape = { 4, 1, 8, 4, 0 };
  g_autoptr (ScOrders) orders = sc_orders_new (&sc_schedule_1f1b, &shape, NULL, NULL);
  const ScPlan plan = { .partial_microbatches = 2 };
  for (guint rank = 0; rank < 4; rank++)
    {
      g_autofree guint8 *spared = sc_recompute_spared (&plan, orders, rank);
      for (guint i = 0; i < 8; i++)
        ck_assert_uint_eq (spared[i], i % (4 - rank) < 2);
    }
  /* windows of 4, 3, 2, 1: 4, 6, 8 and 8 of 8 */
  ck_assert_double_eq (sc_recompute_spared_share (&plan, orders), 26 / 32.0);
  const ScPlan none = { .partial_microbatches = 0 };
  ck_assert_ptr_null (sc_recompute_spared (&none, orders, 0));
  ck_assert_double_eq (sc_recompute_spared_share (&none, orders), 0);
}
END_TEST

static const struct
{
  ScRecompute mode;
  guint modules;
  ScRecomputeMethod method;
  guint layers, partial;
} modes[] = {
  { SC_RECOMPUTE_NONE, 0, 0, 0, 0 },
  { SC_RECOMPUTE_SELECTIVE, 0, 0, 0, 0 },
  { SC_RECOMPUTE_SELECTIVE, 0, 0, 0, 1 },
  { SC_RECOMPUTE_MODULES, 1u << SC_MODULE_LAYERNORM | 1u << SC_MODULE_MLP, 0, 0, 0 },
  { SC_RECOMPUTE_MODULES, 1u << SC_MODULE_MLP_ACT, 0, 0, 2 },
  { SC_RECOMPUTE_FULL, 0, SC_RECOMPUTE_UNIFORM, 1, 0 },
  { SC_RECOMPUTE_FULL, 0, SC_RECOMPUTE_UNIFORM, 2, 0 },
  { SC_RECOMPUTE_FULL, 0, SC_RECOMPUTE_BLOCK, 1, 0 },
  { SC_RECOMPUTE_FULL, 0, SC_RECOMPUTE_BLOCK, 0, 1 },
  { SC_RECOMPUTE_FULL, 0, SC_RECOMPUTE_EVERY, 2, 0 },
};

/* Sum of the changes of @kind of a class; *ret_most: the most it ever was. */
static gint64
level_of (const FixRun *r, guint32 class_id, ScMemKind kind, gint64 *ret_most)
{
  g_autoptr (GArray) changes = sc_memory_changes (r->lowered->program, r->trace, class_id);
  gint64 now = 0;
  *ret_most = 0;
  for (guint i = 0; i < changes->len; i++)
    if (g_array_index (changes, ScMemChange, i).kind == kind)
      {
        now += g_array_index (changes, ScMemChange, i).bytes;
        *ret_most = MAX (*ret_most, now);
      }
  return now;
}

START_TEST (every_mode_runs_with_every_schedule)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  const guint v = row->placement == SC_PLACE_V || strstr (row->name, "interleaved") != NULL || strstr (row->name, "looped") != NULL ? 2 : 1;
  const ScScheduleShape shape = { 4, v, 8, 4, 0 };
  if (row == &sc_schedule_csv || row == &sc_schedule_none || row->refuse (&shape) != NULL)
    return;
  gint64 kept_by_none = 0;
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .vpp = v, .layers = 4 * v * 4, .microbatches = 8 });
      w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
      w->plan.schedule = row->name;
      w->plan.recompute = modes[i].mode;
      w->plan.recompute_modules = modes[i].modules;
      w->plan.recompute_method = modes[i].method;
      w->plan.recompute_layers = modes[i].layers;
      w->plan.partial_microbatches = modes[i].partial;
      g_autoptr (GError) error = NULL;
      ck_assert_msg (sc_recompute_check (w, &error), "%s: %s", row->name, error != NULL ? error->message : "");
      g_autoptr (ScStepItems) items = sc_step_items_new (w);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      gint64 kept = 0;
      for (guint32 k = 0; k < r->fold->n_classes; k++)
        {
          gint64 most;
          ck_assert_int_eq (level_of (r, k, SC_MEM_TRANSIENT, &most), 0);
          ck_assert_int_eq (level_of (r, k, SC_MEM_ACTIVATIONS, &most), 0);
          kept = MAX (kept, most);
        }
      if (i == 0)
        kept_by_none = kept;
      ck_assert_int_le (kept, kept_by_none);
    }
}
END_TEST

START_TEST (sparing_microbatches_lies_between_all_and_none)
{
  ScTime step[3];
  double hardware[3];
  guint64 peak[3];
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .layers = 16, .microbatches = 8 });
      w->plan.attention = SC_ATTENTION_UNFUSED;
      w->plan.recompute = i < 2 ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE;
      w->plan.recompute_method = i == 1 ? SC_RECOMPUTE_BLOCK : SC_RECOMPUTE_UNIFORM;
      w->plan.partial_microbatches = i == 1 ? 2 : 0;
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
      step[i] = s->step;
      hardware[i] = s->hardware_flops;
      peak[i] = 0;
      for (guint k = 0; k < s->n_classes; k++)
        {
          peak[i] = MAX (peak[i], s->classes[k].peak_allocated_bytes);
          ck_assert (i < 2 ? s->classes[k].time[SC_TIME_RECOMPUTE] >= 0 : s->classes[k].time[SC_TIME_RECOMPUTE] == 0);
        }
    }
  ck_assert (step[0] > step[1] && step[1] > step[2]);
  ck_assert (hardware[0] > hardware[1] && hardware[1] > hardware[2]);
  ck_assert (peak[0] < peak[1] && peak[1] <= peak[2]);
}
END_TEST

/* --- what cannot be --- */

START_TEST (combinations_that_cannot_be_are_refused_with_the_key)
{
  static const struct
  {
    ScPlan plan;
    const char *key;
  } bad[] = {
    { { .pp = 1, .recompute = SC_RECOMPUTE_SELECTIVE, .recompute_method = SC_RECOMPUTE_BLOCK, .recompute_layers = 1 }, "/plan/recompute_method" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_FULL, .recompute_method = SC_RECOMPUTE_BLOCK }, "/plan/recompute_layers" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_NONE, .recompute_layers = 2 }, "/plan/recompute_layers" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_OPS, .attention = SC_ATTENTION_UNFUSED }, "/plan/recompute" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_MODULES, .recompute_modules = 1u << SC_MODULE_MOE }, "/plan/recompute" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_MODULES, .recompute_modules = 1u << SC_MODULE_MLA_UP_PROJ }, "/plan/recompute" },
    { { .pp = 4, .recompute = SC_RECOMPUTE_NONE, .partial_microbatches = 1 }, "/plan/partial_microbatches" },
    { { .pp = 1, .recompute = SC_RECOMPUTE_SELECTIVE, .partial_microbatches = 1 }, "/plan/partial_microbatches" },
    { { .pp = 4, .recompute = SC_RECOMPUTE_FULL, .partial_microbatches = 1 }, "/plan/recompute_method" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      ScWorkload w = llama ();
      w.plan = bad[i].plan;
      g_autoptr (GError) error = NULL;
      ck_assert (!sc_recompute_check (&w, &error));
      g_autofree char *start = g_strconcat (bad[i].key, ": ", NULL);
      ck_assert_msg (g_str_has_prefix (error->message, start), "%s", error->message);
    }
}
END_TEST

START_TEST (parts_are_found_by_all_their_names)
{
  static const struct
  {
    const char *name;
    ScModule module;
  } names[] = { { "core_attn", SC_MODULE_CORE_ATTN }, { "rmsnorm", SC_MODULE_LAYERNORM }, { "norm", SC_MODULE_LAYERNORM },
                { "gelu", SC_MODULE_MLP_ACT },        { "act", SC_MODULE_MOE_ACT },       { "mla_up_proj", SC_MODULE_MLA_UP_PROJ } };
  ScModule found;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      ck_assert (sc_module_find (names[i].name, &found));
      ck_assert_uint_eq (found, names[i].module);
    }
  for (guint i = 0; i < SC_N_MODULES; i++)
    {
      ck_assert (sc_module_find (sc_module_row ((ScModule) i)->name, &found) && found == i);
      ck_assert (sc_module_row ((ScModule) i)->summary != NULL && sc_module_row ((ScModule) i)->source != NULL);
    }
  ck_assert (!sc_module_find ("attention", &found));
  ck_assert (!sc_module_find ("", &found));
}
END_TEST

static Suite *
recompute_suite (void)
{
  guint n_rows = 0;
  while (sc_schedule_all ()[n_rows] != NULL)
    n_rows++;
  Suite *const suite = suite_create ("recompute");
  TCase *const tc = tcase_create ("all");
  tcase_set_timeout (tc, 120);
  tcase_add_loop_test (tc, parts_drop_their_tensors, 0, G_N_ELEMENTS (parts));
  tcase_add_test (tc, selective_is_the_attention_core);
  tcase_add_test (tc, operators_keep_every_second_product_and_attention);
  tcase_add_test (tc, methods_choose_layers);
  tcase_add_test (tc, kinds_follow_the_place_in_the_stage);
  tcase_add_test (heavy (suite), every_mode_frees_what_it_takes);
  tcase_add_test (tc, groups_keep_one_input_and_free_all);
  tcase_add_test (tc, whoever_repeats_more_keeps_less);
  tcase_add_test (tc, repeated_kernels_have_the_flops_that_are_reported);
  tcase_add_test (tc, full_recompute_by_groups_repeats_each_layer_once);
  tcase_add_test (tc, spared_microbatches_are_the_first_of_each_window);
  tcase_add_loop_test (heavy (suite), every_mode_runs_with_every_schedule, 0, (int) n_rows);
  tcase_add_test (tc, sparing_microbatches_lies_between_all_and_none);
  tcase_add_test (tc, combinations_that_cannot_be_are_refused_with_the_key);
  tcase_add_test (tc, parts_are_found_by_all_their_names);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *const runner = srunner_create (recompute_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
