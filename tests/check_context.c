/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_context.c - attention over parts of sequences, and what runs beside it: context parallelism, windows, tensor-parallel overlap. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/layer.h"
#include "models/model.h"
#include "models/segments.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

/* Llama-3-405B as its last phase trained it: 131,072 tokens over 16 context-parallel ranks of 8. */
static ScWorkload
llama_405b (void)
{
  return (ScWorkload){
    .model = { .hidden = 16384, .layers = 126, .heads = 128, .kv_heads = 8, .head_dim = 128, .ffn = 53248, .gated_mlp = TRUE,
               .vocab = 128256, .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE },
    .seq = 131072,
    .plan = { .tp = 8, .pp = 1, .vpp = 1, .dp = 1, .cp = 16, .ep = 1, .etp = 8, .micro_batch = 1, .sequence_parallel = TRUE,
              .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32, .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

static const struct
{
  ScCpComm comm;
  guint tp, cp, a2a;
  guint kv_heads, micro_batch;
} rows[] = {
  { SC_CP_RING, 8, 16, 0, 8, 1 },        { SC_CP_RING, 1, 2, 0, 8, 2 },         { SC_CP_RING, 16, 4, 0, 8, 1 },
  { SC_CP_ALL_GATHER, 8, 16, 0, 8, 1 },  { SC_CP_ALL_GATHER, 2, 4, 0, 4, 3 },   { SC_CP_A2A, 1, 8, 0, 8, 1 },
  { SC_CP_A2A, 8, 16, 0, 8, 1 },         { SC_CP_A2A, 2, 4, 0, 128, 2 },        { SC_CP_HIERARCHICAL, 8, 16, 2, 8, 1 },
  { SC_CP_HIERARCHICAL, 1, 16, 8, 8, 1 }, { SC_CP_HIERARCHICAL, 4, 4, 2, 16, 2 },
};

static ScWorkload
row (guint i)
{
  ScWorkload w = llama_405b ();
  w.model.kv_heads = rows[i].kv_heads;
  w.plan.cp_comm = rows[i].comm;
  w.plan.tp = rows[i].tp;
  w.plan.cp = rows[i].cp;
  w.plan.cp_a2a = rows[i].a2a;
  w.plan.sequence_parallel = rows[i].tp > 1;
  w.plan.micro_batch = rows[i].micro_batch;
  return w;
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

static gboolean
is_context (const ScItem *item)
{
  return (item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START)
         && (item->comm == SC_COMM_CP || item->comm == SC_COMM_CP_A2A || item->comm == SC_COMM_CP_RING);
}

/* Of collectives over CP groups: how many, and their bytes. */
static guint
exchanged (const GArray *items, ScCollKind coll, double *ret_bytes)
{
  guint n = 0;
  *ret_bytes = 0;
  for (guint i = 0; i < items->len; i++)
    if (is_context (item_at (items, i)) && item_at (items, i)->coll == coll)
      {
        n++;
        *ret_bytes += item_at (items, i)->bytes;
      }
  return n;
}

static double
attention_flops (const GArray *items, ScKernelClass class)
{
  double sum = 0;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_KERNEL && item_at (items, i)->kernel.class == class)
      sum += item_at (items, i)->kernel.flops;
  return sum;
}

/* ---- context parallelism ---- */

/* MODELLING 5.8, examples.json comm.cp.l405 */
START_TEST (a_ring_moves_the_worked_bytes)
{
  ScWorkload w = llama_405b ();
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  double bytes;
  ck_assert_uint_eq (exchanged (forward, SC_COLL_SEND_RECEIVE, &bytes), 15);
  ck_assert_double_eq (bytes, 62914560);
  ck_assert_uint_eq (exchanged (backward, SC_COLL_SEND_RECEIVE, &bytes), 16);
  ck_assert_double_eq (bytes, 125829120);
  guint n = 0;
  for (guint i = 0; i < backward->len; i++)
    if (is_context (item_at (backward, i)))
      {
        ck_assert_double_eq (item_at (backward, i)->bytes, n == 0 || n == 15 ? 4194304 : 2 * 4194304); /* keys; both; gradients */
        ck_assert_int_eq (item_at (backward, i)->kind, SC_ITEM_COLLECTIVE_START);
        n++;
      }
  /* where tp exceeds the KV heads each is passed round by all that hold it */
  w.plan.tp = 16;
  g_autoptr (GArray) replicated = list (&w, sc_layer_forward);
  exchanged (replicated, SC_COLL_SEND_RECEIVE, &bytes);
  ck_assert_double_eq (bytes, 62914560);
}
END_TEST

START_TEST (a_gather_moves_all_keys_and_values)
{
  ScWorkload w = llama_405b ();
  w.plan.cp_comm = SC_CP_ALL_GATHER;
  const double all = 2 * 2.0 * w.seq * 8 * 128 / 8;
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  double bytes;
  ck_assert_uint_eq (exchanged (forward, SC_COLL_ALL_GATHER, &bytes), 2);
  ck_assert_double_eq (bytes, all);
  ck_assert_uint_eq (exchanged (backward, SC_COLL_ALL_GATHER, &bytes), 2);
  ck_assert_double_eq (bytes, all);
  ck_assert_uint_eq (exchanged (backward, SC_COLL_REDUCE_SCATTER, &bytes), 2);
  ck_assert_double_eq (bytes, all);
}
END_TEST

/* 2 T (2 a + 2 g) d / t: queries and output, keys and values; backward the gradients of all four, and the output again */
START_TEST (exchanged_heads_move_all_four_tensors)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      if (rows[i].comm != SC_CP_A2A && rows[i].comm != SC_CP_HIERARCHICAL)
        continue;
      const ScWorkload w = row (i);
      const guint ranks = rows[i].comm == SC_CP_A2A ? rows[i].cp : rows[i].a2a;
      const double t = (double) w.seq * w.plan.micro_batch / w.plan.cp;
      const double kv = MAX (rows[i].kv_heads / rows[i].tp, ranks); /* repeated where there are fewer than ranks */
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, sc_layer_backward);
      double bytes;
      for (guint pass = 0; pass < 2; pass++)
        {
          ck_assert_uint_eq (exchanged (pass == 0 ? forward : backward, SC_COLL_ALL_TO_ALL, &bytes), 4 + pass);
          ck_assert_double_eq (bytes, 2 * t * ((2 + pass) * 128.0 / rows[i].tp + 2 * kv) * 128);
        }
      if (rows[i].comm == SC_CP_A2A)
        continue;
      const guint n = rows[i].cp / rows[i].a2a; /* of the ring; a step moves what it would without the exchange */
      ck_assert_uint_eq (exchanged (forward, SC_COLL_SEND_RECEIVE, &bytes), n - 1);
      ck_assert_double_eq (bytes, (n - 1) * 2 * 2 * t * kv * 128);
      ck_assert_uint_eq (exchanged (backward, SC_COLL_SEND_RECEIVE, &bytes), n);
      ck_assert_double_eq (bytes, 2 * (n - 1) * 2 * 2 * t * kv * 128);
    }
}
END_TEST

/* Zig-zag: the ranks' pairs are those of the sequence, whoever computes them. */
START_TEST (context_parallel_ranks_share_out_the_causal_pairs)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScWorkload w = row (i);
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, sc_layer_backward);
      const double all = w.plan.micro_batch * sc_model_core_attention_flops (&w.model, (double) w.seq * w.seq / 2);
      const double ranks = (double) w.plan.cp * w.plan.tp;
      ck_assert_double_eq_tol (attention_flops (forward, SC_KERNEL_FLASH_FORWARD) * ranks / all, 1, 1e-12);
      ck_assert_double_eq_tol (attention_flops (backward, SC_KERNEL_FLASH_BACKWARD) * ranks / all, 2.5, 1e-12);
    }
}
END_TEST

/* Step 0 is a causal block, the others are halves of one: as many queries on half of the keys. */
START_TEST (a_ring_has_a_causal_block_and_halves)
{
  const ScWorkload w = llama_405b ();
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  guint n = 0;
  for (guint i = 0; i < forward->len; i++)
    {
      const ScKernel *const k = &item_at (forward, i)->kernel;
      if (item_at (forward, i)->kind != SC_ITEM_KERNEL || k->class != SC_KERNEL_FLASH_FORWARD)
        continue;
      ck_assert_int_eq (k->causal, n == 0);
      ck_assert_uint_eq (k->seq, n == 0 ? 8192 : 4096);
      ck_assert_uint_eq (k->queries, n == 0 ? 0 : 8192);
      ck_assert_double_eq (k->flops, 4.0 * 8192 * 8192 / 2 * 16 * 128);
      n++;
    }
  ck_assert_uint_eq (n, 16);
}
END_TEST

static void
add_memory (const GArray *items, gint64 live[SC_N_MEMS], gint64 *most)
{
  for (guint i = 0; i < items->len; i++)
    {
      if (item_at (items, i)->kind != SC_ITEM_MEM)
        continue;
      live[item_at (items, i)->mem] += item_at (items, i)->mem_bytes;
      ck_assert_int_ge (live[item_at (items, i)->mem], 0);
      if (most != NULL)
        *most = MAX (*most, live[SC_MEM_TRANSIENT] + live[SC_MEM_COMM]);
    }
}

START_TEST (what_context_parallelism_allocates_it_frees)
{
  static const ScRecompute modes[] = { SC_RECOMPUTE_NONE, SC_RECOMPUTE_SELECTIVE, SC_RECOMPUTE_FULL };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint m = 0; m < G_N_ELEMENTS (modes); m++)
      for (guint split = 0; split < 2; split++)
        {
          ScWorkload w = row (i);
          w.plan.recompute = modes[m];
          const ScLayerShape shape = sc_layer_shape (&w, NULL);
          gint64 live[SC_N_MEMS] = { 0 };
          g_autoptr (GArray) forward = list (&w, sc_layer_forward);
          add_memory (forward, live, NULL);
          ck_assert_int_eq (live[SC_MEM_TRANSIENT] + live[SC_MEM_COMM], 0);
          ck_assert_double_eq ((double) live[SC_MEM_ACTIVATIONS], sc_layer_saved_bytes (&shape));
          g_autoptr (GArray) backward = list (&w, split ? sc_layer_backward_input : sc_layer_backward);
          add_memory (backward, live, NULL);
          g_autoptr (GArray) weight = list (&w, sc_layer_backward_weight);
          if (split)
            add_memory (weight, live, NULL);
          for (guint k = 0; k < SC_N_MEMS; k++)
            ck_assert_msg (live[k] == 0, "row %u, recompute %u, split %u: %" G_GINT64_FORMAT " of kind %u", i, m, split, live[k], k);
        }
}
END_TEST

/* MODELLING 3.12: rings have two buffers, gathers all keys and values. */
START_TEST (a_gather_needs_more_than_a_ring)
{
  gint64 most[2] = { 0, 0 };
  for (guint i = 0; i < 2; i++)
    {
      ScWorkload w = llama_405b ();
      w.plan.cp_comm = i == 0 ? SC_CP_RING : SC_CP_ALL_GATHER;
      gint64 live[SC_N_MEMS] = { 0 };
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      for (guint k = 0; k < forward->len; k++)
        {
          const ScItem *const item = item_at (forward, k);
          if (item->kind == SC_ITEM_MEM)
            live[item->mem] += item->mem_bytes;
          else if (item->kind == SC_ITEM_KERNEL && item->kernel.class == SC_KERNEL_FLASH_FORWARD)
            most[i] = MAX (most[i], live[SC_MEM_COMM] + live[SC_MEM_TRANSIENT]);
        }
    }
  const gint64 step = 4194304, outputs = 2 * 2048 * 8192 + 4 * 16 * 8192;
  ck_assert_int_eq (most[0], 2 * step + outputs);
  ck_assert_int_eq (most[1], 16 * step);
}
END_TEST

START_TEST (every_exchange_is_waited_for_before_its_keys_are_read)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint pass = 0; pass < 2; pass++)
      {
        const ScWorkload w = row (i);
        g_autoptr (GArray) items = list (&w, pass == 0 ? sc_layer_forward : sc_layer_backward);
        guint started = 0, waited = 0;
        for (guint k = 0; k < items->len; k++)
          {
            const ScItem *const item = item_at (items, k);
            if (item->comm != SC_COMM_CP && item->comm != SC_COMM_CP_RING)
              continue;
            started += item->kind == SC_ITEM_COLLECTIVE_START;
            waited += item->kind == SC_ITEM_COLLECTIVE_WAIT;
            ck_assert_uint_le (waited, started);
            ck_assert_uint_le (started - waited, 1); /* one at a time: two buffers */
          }
        ck_assert_uint_eq (started, waited);
      }
}
END_TEST

/* ---- on a cluster ---- */

static gboolean
is_of (const char *name, const char *kernels)
{
  g_autofree char *step = g_strconcat (kernels, " step", NULL);
  return g_str_equal (name, kernels) || g_str_equal (name, step);
}

/* Of a layer's pass the kernels called @kernels, or steps of those, which then take @kernel_s each, and the collectives called @collective over
 * @comm, of @bytes each, with the waits for them. */
static GArray *
cut (const ScWorkload *w, Lister lister, const char *kernels, double kernel_s, ScCommKind comm, const char *collective, double bytes)
{
  g_autoptr (GArray) all = list (w, lister);
  GArray *items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  guint started = 0;
  for (guint i = 0; i < all->len; i++)
    {
      ScItem item = *item_at (all, i);
      const gboolean waits = item.kind == SC_ITEM_COLLECTIVE_WAIT && item.comm == comm && started > 0;
      if (item.kind == SC_ITEM_KERNEL && is_of (item.kernel.name, kernels))
        item.kernel = sc_kernel_memory (item.kernel.name, SC_KERNEL_ELEMENTWISE, kernel_s * 1e9);
      else if (!waits && (item.kind == SC_ITEM_MEM || item.kind == SC_ITEM_KERNEL || item.kind == SC_ITEM_COLLECTIVE_WAIT || item.comm != comm
                          || !g_str_has_prefix (item.name, collective)))
        continue;
      started += item.kind == SC_ITEM_COLLECTIVE_START;
      started -= waits;
      item.bytes = bytes;
      g_array_append_val (items, item);
    }
  return items;
}

/* One micro-batch of one layer whose forward is @items, which are taken; nothing else takes time. */
static ScTime
forward_alone (ScWorkload *w, GArray *items, ScTime *ret_exposed)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1 });
  ScDevice *const d = g_ptr_array_index (t->devices, 0);
  d->sms.value = 1e15; /* collectives take no share of them worth mentioning */
  t->types[0].host_factor.value = 0;
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = 1e30;
  g_autoptr (ScStepItems) step = fix_items (0, 0, 0, 0);
  g_array_unref (step->layers->pass[SC_PASS_FORWARD]);
  step->layers->pass[SC_PASS_FORWARD] = items;
  w->plan.gpus = w->plan.tp * w->plan.cp;
  w->plan.schedule = "none";
  w->plan.global_batch = 1;
  w->plan.bucket_params = 1000000000;
  w->model.layers = 1;
  g_autoptr (FixRun) r = fix_run (t, w, step, FALSE, 0);
  *ret_exposed = 0;
  ScTime end = 0;
  g_autoptr (ScSegments) segments = sc_segments_new (r->lowered->program, r->trace, r->trace->end);
  g_autoptr (GArray) parts = sc_segments_of_class (segments, 0);
  for (guint i = 0; i < parts->len; i++)
    {
      const ScSegment *const s = &g_array_index (parts, ScSegment, i);
      if (s->kind == SC_TIME_COMM_CP || s->kind == SC_TIME_COMM_TP)
        *ret_exposed += s->to - s->from;
      if (s->kind == SC_TIME_FORWARD)
        end = s->to;
    }
  return end;
}

/* n steps of 1 ms, n - 1 exchanges of x ms: n where they hide, else 1 + (n - 1) x. */
START_TEST (exchanges_hide_under_the_step_before)
{
  static const double exchange_ms[] = { 0.25, 1, 2 };
  for (guint i = 0; i < G_N_ELEMENTS (exchange_ms); i++)
    {
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .layers = 1 });
      w->plan.cp = 8;
      w->seq = 1024;
      GArray *const items = cut (w, sc_layer_forward, "attention", 1e-3, SC_COMM_CP, "KV exchange", exchange_ms[i] * 1e-3 * 450e9);
      ScTime exposed;
      const ScTime end = forward_alone (w, items, &exposed);
      const double want = 1 + 7 * MAX (exchange_ms[i], 1);
      ck_assert_int_eq (end, (ScTime) llround (want * MS));
      ck_assert_int_eq (exposed, (ScTime) llround ((want - 8) * MS));
    }
}
END_TEST

/* ---- tensor-parallel overlap ---- */

static ScWorkload
overlapped (void)
{
  ScWorkload w = llama_405b ();
  w.seq = 8192;
  w.plan.cp = 1;
  w.plan.tp_overlap = TRUE;
  return w;
}

/* MODELLING 6.5 (d), examples.json overlap.tp: a gather of 7 ms beside a product of 8 ms in 8 chunks takes 8; a product of 8 ms in 4
 * chunks with sums of 4 ms takes 9. */
START_TEST (overlapped_products_take_the_worked_times)
{
  static const struct
  {
    const char *kernels, *collective;
    double kernel_ms, bytes;
    double ms, exposed_ms;
  } cases[] = {
    { "qkv", "qkv all-gather", 1, 1e-3 * 450e9, 8, 0 },
    { "fc1", "fc1 all-gather", 1, 1e-3 * 450e9, 8, 0 },
    { "projection", "projection reduce", 2, 1e-3 * 450e9 * 8 / 7, 8, 1 }, /* the last sum stands alone */
    { "fc2", "fc2 reduce", 2, 1e-3 * 450e9 * 8 / 7, 8, 1 },
    { "qkv", "qkv all-gather", 1, 2e-3 * 450e9, 15, 7 },                 /* bound by the exchange: 1 + 7 x 2 */
    { "projection", "projection reduce", 1, 2e-3 * 450e9 * 8 / 7, 4, 5 }, /* ... by the sums: 1 + 4 x 2 */
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .layers = 1, .tp = 8, .sequence_parallel = TRUE });
      w->plan.tp_overlap = TRUE;
      GArray *const items = cut (w, sc_layer_forward, cases[i].kernels, cases[i].kernel_ms * 1e-3, SC_COMM_TP, cases[i].collective, cases[i].bytes);
      ScTime exposed;
      const ScTime end = forward_alone (w, items, &exposed);
      ck_assert_msg (ABS (end - (ScTime) llround (cases[i].ms * MS)) < 100, "%s: %.9f ms", cases[i].kernels, (double) end / MS);
      ck_assert_msg (ABS (exposed - (ScTime) llround (cases[i].exposed_ms * MS)) < 100, "%s: %.9f ms", cases[i].kernels, (double) exposed / MS);
    }
}
END_TEST

/* Chunks add up to the product, and to what the collective would have moved. */
START_TEST (chunks_are_the_whole)
{
  ScWorkload with = overlapped (), without = overlapped ();
  without.plan.tp_overlap = FALSE;
  static const Lister passes[] = { sc_layer_forward, sc_layer_backward, sc_layer_backward_input, sc_layer_backward_weight };
  for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
    {
      double moved[2] = { 0, 0 }, flops[2] = { 0, 0 };
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (GArray) items = list (k == 0 ? &with : &without, passes[i]);
          for (guint n = 0; n < items->len; n++)
            {
              const ScItem *const item = item_at (items, n);
              flops[k] += item->kind == SC_ITEM_KERNEL ? item->kernel.flops : 0;
              if (item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START) /* bytes that one rank sends */
                moved[k] += item->bytes * (item->coll == SC_COLL_SEND_RECEIVE ? 1 : 7.0 / 8);
            }
        }
      ck_assert_double_eq_tol (flops[0] / MAX (flops[1], 1), 1, 1e-12);
      ck_assert_double_eq_tol (moved[0] / moved[1], 1, 1e-12);
    }
}
END_TEST

/* Ring exchange for what is gathered, four chunks for what is summed, bulk beside dgrad and wgrad. */
START_TEST (each_product_overlaps_its_way)
{
  const ScWorkload w = overlapped ();
  static const struct
  {
    const char *name;
    gboolean backward;
    guint chunks, rows;
  } products[] = {
    { "qkv", FALSE, 8, 1024 },       { "fc1", FALSE, 8, 1024 },       { "projection", FALSE, 4, 2048 }, { "fc2", FALSE, 4, 2048 },
    { "projection dgrad", TRUE, 8, 1024 }, { "fc2 dgrad", TRUE, 8, 1024 }, { "qkv dgrad", TRUE, 1, 8192 },    { "fc1 dgrad", TRUE, 1, 8192 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (products); i++)
    {
      g_autoptr (GArray) items = list (&w, products[i].backward ? sc_layer_backward : sc_layer_forward);
      guint n = 0;
      for (guint k = 0; k < items->len; k++)
        if (item_at (items, k)->kind == SC_ITEM_KERNEL && g_str_equal (item_at (items, k)->kernel.name, products[i].name))
          {
            ck_assert_uint_eq (item_at (items, k)->kernel.m, products[i].rows);
            ck_assert_int_eq (item_at (items, k)->together, n > 0); /* one call of the library */
            n++;
          }
      ck_assert_uint_eq (n, products[i].chunks);
      for (guint k = 0; k < items->len; k++)
        ck_assert_int_ne (item_at (items, k)->kind, SC_ITEM_COLLECTIVE); /* none stands alone */
    }
}
END_TEST

START_TEST (user_buffers_take_the_place_of_gathered_rows)
{
  ScWorkload w = overlapped ();
  for (guint split = 0; split < 2; split++)
    {
      const ScLayerShape shape = sc_layer_shape (&w, NULL);
      gint64 live[SC_N_MEMS] = { 0 }, most = 0, most_without = 0;
      ck_assert_double_eq (sc_user_buffer_bytes (&shape), 10 * 2.0 * 8192 * 16384);
      g_autoptr (GArray) forward = list (&w, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, split ? sc_layer_backward_input : sc_layer_backward);
      g_autoptr (GArray) weight = list (&w, sc_layer_backward_weight);
      add_memory (forward, live, &most);
      add_memory (backward, live, &most);
      if (split)
        add_memory (weight, live, &most);
      for (guint k = 0; k < SC_N_MEMS; k++)
        ck_assert_int_eq (live[k], 0);
      ScWorkload without = overlapped ();
      without.plan.tp_overlap = FALSE;
      g_autoptr (GArray) plain_forward = list (&without, sc_layer_forward);
      g_autoptr (GArray) plain_backward = list (&without, sc_layer_backward);
      add_memory (plain_forward, live, &most_without);
      add_memory (plain_backward, live, &most_without);
      if (!split)
        ck_assert_int_lt (most, most_without);
      const ScLayerShape plain = sc_layer_shape (&without, NULL);
      ck_assert_double_eq (sc_user_buffer_bytes (&plain), 0);
    }
}
END_TEST

static double
hold_of (const FixRun *r, const char *label)
{
  const ScProgram *const p = r->lowered->program;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind == SC_OP_CALL && g_str_equal (g_ptr_array_index (r->lowered->labels, op->label), label))
        return g_array_index (p->calls, ScCall, op->arg).hold[0];
    }
  ck_abort_msg ("no %s", label);
}

/* Of the embedding and the logits NCCL takes what it always does. */
START_TEST (only_user_buffers_take_their_sms)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 4 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .layers = 1, .tp = 4, .sequence_parallel = TRUE });
  w->plan.attention = SC_ATTENTION_UNFUSED;
  double hold[2][4];
  for (guint overlap = 0; overlap < 2; overlap++)
    {
      w->plan.tp_overlap = overlap;
      g_autoptr (ScStepItems) items = sc_step_items_new (w);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      static const char *const labels[] = { "logits all-gather", "embedding reduce", "qkv all-gather", "projection reduce" };
      for (guint i = 0; i < 4; i++)
        hold[overlap][i] = hold_of (r, labels[i]);
    }
  ck_assert_double_eq (hold[1][0], hold[0][0]);
  ck_assert_double_eq (hold[1][1], hold[0][1]);
  ck_assert_double_eq_tol (hold[1][3], 16 * hold[1][2], 1e-12);
}
END_TEST

/* ---- more ranks than KV heads ---- */

START_TEST (ranks_that_hold_one_kv_head_add_up_its_gradient)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 4 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 8, .pp = 2, .layers = 6, .microbatches = 4 });
  w->model.kv_heads = 2; /* four ranks each */
  w->model.qkv_bias = TRUE;
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  for (guint32 rank = 0; rank < 16; rank++)
    {
      const ScComm *const comm = &r->layout->comms[sc_layout_comm_of (r->layout, rank, SC_COMM_KV, FALSE)];
      ck_assert_uint_eq (comm->n, 4);
      for (guint m = 0; m < 4; m++)
        ck_assert_uint_eq (r->layout->members[comm->first + m], rank / 4 * 4 + m);
    }
  const ScProgram *const p = r->lowered->program;
  guint n = 0;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL || !g_str_equal (g_ptr_array_index (r->lowered->labels, op->label), "KV gradients"))
        continue;
      n++;
      ck_assert_uint_eq (op->tag, SC_TIME_COMM_TP);
    }
  ck_assert_uint_eq (n, r->fold->n_classes); /* once a step */
  ck_assert_uint_eq (sc_model_kv_params (&w->model, 1), 2 * 8 * 64 + 2 * 8);
  /* each rank holds one KV head whole, and an eighth of all else */
  ck_assert_uint_eq (sc_model_layer_params_rank (&w->model, 8) - sc_model_kv_params (&w->model, 1) - 2 * 64,
                     64 * 8 + 8 + 8 * 64 + 2 * 64 * 256 / 8);
}
END_TEST

/* ---- windows ---- */

START_TEST (windows_leave_out_pairs_layer_by_layer)
{
  ScWorkload w = llama_405b ();
  w.seq = 8192;
  w.plan.cp = 1;
  w.plan.tp = 1;
  w.plan.sequence_parallel = FALSE;
  w.model.window = 4096;
  w.model.global_every = 3;
  for (guint chunked = 0; chunked < 2; chunked++)
    {
      w.model.chunked_window = chunked > 0;
      g_autoptr (ScLayerKinds) kinds = sc_layer_kinds_new (&w);
      ck_assert_uint_eq (kinds->n, 2);
      double sum = 0;
      for (guint layer = 0; layer < w.model.layers; layer++)
        {
          const ScLayerKind *const kind = &kinds->kinds[kinds->of_layer[layer]];
          ck_assert_uint_eq (kind->window, layer % 3 == 2 ? 0 : 4096);
          const ScLayerShape shape = sc_layer_shape (&w, kind);
          g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
          sc_layer_forward (&shape, items);
          sum += attention_flops (items, SC_KERNEL_FLASH_FORWARD);
        }
      /* MODELLING 1.3, halves: w (s - w / 2), or s w / 2 in blocks */
      const double s = 8192, window = 4096, pairs = chunked > 0 ? s * window / 2 : window * (s - window / 2);
      ck_assert_double_eq (sum, 42 * sc_model_core_attention_flops (&w.model, s * s / 2) + 84 * sc_model_core_attention_flops (&w.model, pairs));
      /* ... which is what reports count */
      const double linear = 126 * (sc_model_layer_linear_flops (&w.model, w.seq) + sc_model_layer_mlp_flops (&w.model, w.seq)) + sc_model_logits_flops (&w.model, w.seq);
      ck_assert_double_eq_tol (sc_model_train_flops (&w.model, w.seq, 1, SC_FLOPS_HALF) / (3 * (linear + sum)), 1, 1e-12);
    }
}
END_TEST

START_TEST (blocks_of_a_window_are_short_sequences)
{
  ScWorkload w = llama_405b ();
  w.seq = 10240; /* 2 blocks and a half */
  w.plan.cp = 1;
  w.model.window = 4096;
  w.model.chunked_window = TRUE;
  g_autoptr (GArray) items = list (&w, sc_layer_forward);
  for (guint i = 0; i < items->len; i++)
    {
      const ScKernel *const k = &item_at (items, i)->kernel;
      if (item_at (items, i)->kind != SC_ITEM_KERNEL || k->class != SC_KERNEL_FLASH_FORWARD)
        continue;
      ck_assert_uint_eq (k->batch, 3);
      ck_assert_uint_eq (k->seq, 4096);
      ck_assert_uint_eq (k->window, 0);
      ck_assert_double_eq (k->flops, 4.0 * 128 * 16 * (2 * 4096.0 * 4096 / 2 + 2048.0 * 2048 / 2));
    }
}
END_TEST

/* Masks do not spare unfused attention anything. */
START_TEST (unfused_attention_has_no_windows)
{
  ScWorkload w = llama_405b ();
  w.seq = 8192;
  w.plan.cp = 1;
  w.plan.attention = SC_ATTENTION_UNFUSED;
  g_autoptr (GArray) without = list (&w, sc_layer_forward);
  w.model.window = 1024;
  g_autoptr (GArray) with = list (&w, sc_layer_forward);
  ck_assert_double_gt (attention_flops (with, SC_KERNEL_BATCHED_GEMM), 0);
  ck_assert_double_eq (attention_flops (with, SC_KERNEL_BATCHED_GEMM), attention_flops (without, SC_KERNEL_BATCHED_GEMM));
}
END_TEST

static Suite *
context_suite (void)
{
  Suite *s = suite_create ("context");
  TCase *context = tcase_create ("context parallelism");
  tcase_add_test (context, a_ring_moves_the_worked_bytes);
  tcase_add_test (context, a_gather_moves_all_keys_and_values);
  tcase_add_test (context, exchanged_heads_move_all_four_tensors);
  tcase_add_test (context, context_parallel_ranks_share_out_the_causal_pairs);
  tcase_add_test (context, a_ring_has_a_causal_block_and_halves);
  tcase_add_test (context, what_context_parallelism_allocates_it_frees);
  tcase_add_test (context, a_gather_needs_more_than_a_ring);
  tcase_add_test (context, every_exchange_is_waited_for_before_its_keys_are_read);
  tcase_add_test (context, exchanges_hide_under_the_step_before);
  suite_add_tcase (s, context);
  TCase *overlap = tcase_create ("tensor-parallel overlap");
  tcase_add_test (overlap, overlapped_products_take_the_worked_times);
  tcase_add_test (overlap, chunks_are_the_whole);
  tcase_add_test (overlap, each_product_overlaps_its_way);
  tcase_add_test (overlap, only_user_buffers_take_their_sms);
  tcase_add_test (overlap, user_buffers_take_the_place_of_gathered_rows);
  suite_add_tcase (s, overlap);
  TCase *replicas = tcase_create ("replicas");
  tcase_add_test (replicas, ranks_that_hold_one_kv_head_add_up_its_gradient);
  suite_add_tcase (s, replicas);
  TCase *windows = tcase_create ("windows");
  tcase_add_test (windows, windows_leave_out_pairs_layer_by_layer);
  tcase_add_test (windows, blocks_of_a_window_are_short_sequences);
  tcase_add_test (windows, unfused_attention_has_no_windows);
  suite_add_tcase (s, windows);
  return s;
}

int
main (void)
{
  SRunner *runner = srunner_create (context_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
