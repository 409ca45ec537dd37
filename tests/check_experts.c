/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_experts.c - rows of experts and copies of tokens, recorded routing, and what layers with experts or latents save and send. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/collective.h"
#include "models/experts.h"
#include "models/layer.h"
#include "models/memory.h"
#include "models/model.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/sharding.h"
#include "pace.h"
#include "routing-csv.h"

#define BLOCK(h, l, a, g, d, f, v)                                                                                                                     \
  .hidden = (h), .layers = (l), .heads = (a), .kv_heads = (g), .head_dim = (d), .ffn = (f), .gated_mlp = TRUE, .vocab = (v),                           \
  .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE
#define PLAN(...)                                                                                                                                      \
  .plan = { .vpp = 1, .micro_batch = 1, .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32, .attention = SC_ATTENTION_FLASH, __VA_ARGS__ }

static ScWorkload
mixtral (void)
{
  ScWorkload w = { .model = { BLOCK (4096, 32, 32, 8, 128, 14336, 32000), .experts = 8, .top_k = 2, .expert_ffn = 14336 },
                   .seq = 4096,
                   PLAN (.tp = 1, .etp = 1, .pp = 4, .dp = 8, .cp = 1, .ep = 8, .global_batch = 64) };
  w.framework = sc_framework_find ("megatron-core", NULL);
  return w;
}

static ScWorkload
deepseek_v3 (void)
{
  ScWorkload w = { .model = { BLOCK (7168, 61, 128, 128, 192, 18432, 129280), .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_experts = 1,
                              .dense_layers = 3, .router_bias = TRUE, .mla = { 1536, 512, 128, 64, 128 } },
                   .seq = 4096,
                   PLAN (.tp = 1, .etp = 1, .pp = 16, .dp = 64, .cp = 1, .ep = 64, .global_batch = 1024) };
  w.framework = sc_framework_find ("megatron-core", NULL);
  return w;
}

static ScExpertRows *
rows_of (const ScWorkload *w, guint64 tokens, guint line)
{
  return sc_expert_rows_new (&w->model, &w->plan, tokens, line);
}

static guint64
sum_of (const ScExpertRows *r)
{
  guint64 sum = 0;
  for (guint i = 0; i < r->n; i++)
    sum += r->rows[i];
  return sum;
}

/* ---- rows ---- */

START_TEST (balanced_rows_are_shared_out_to_the_last_one)
{
  for (guint ep = 1; ep <= 8; ep *= 2)
    for (guint etp = 1; etp <= 4; etp *= 2)
      for (guint64 tokens = 4090; tokens < 4100; tokens++)
        {
          ScWorkload w = mixtral ();
          w.plan.ep = ep;
          w.plan.etp = etp;
          g_autoptr (ScExpertRows) r = rows_of (&w, tokens, 0);
          ck_assert_uint_eq (r->n, 8 / ep);
          ck_assert_uint_eq (r->sent, 2 * tokens);
          ck_assert_uint_eq (r->total, 2 * tokens * etp); /* MODELLING 3.5: a rank gets as many rows as it sends */
          ck_assert_uint_eq (r->arrived, 2 * tokens);
          ck_assert_uint_eq (sum_of (r), r->total);
          for (guint i = 0; i < r->n; i++)
            ck_assert (r->rows[i] == r->total / r->n || r->rows[i] == r->total / r->n + 1);
        }
}
END_TEST

START_TEST (an_imbalance_is_that_of_the_most_loaded_rank)
{
  ScWorkload w = mixtral ();
  w.plan.ep = 4;
  w.plan.moe_imbalance = 1.5;
  g_autoptr (ScExpertRows) r = rows_of (&w, 4096, 0);
  ck_assert_uint_eq (r->sent, 8192);
  ck_assert_uint_eq (r->total, 12288);
  ck_assert_uint_eq (r->arrived, 12288);
}
END_TEST

START_TEST (recorded_tokens_make_the_rank_of_the_most_rows)
{
  ScWorkload w = mixtral ();
  double tokens[16] = { 1, 1, 1, 1, 3, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 };
  w.plan.moe_tokens = tokens;
  w.plan.moe_lines = 2;
  w.plan.ep = 4;
  g_autoptr (ScExpertRows) first = rows_of (&w, 4096, 0);
  ck_assert_uint_eq (first->n, 2);
  ck_assert_uint_eq (first->rows[0], 3 * 4096); /* of 8 x 4096 rows of the group */
  ck_assert_uint_eq (first->rows[1], 4096);
  ck_assert_uint_eq (first->arrived, 4 * 4096);
  g_autoptr (ScExpertRows) second = rows_of (&w, 4096, 1);
  ck_assert_uint_eq (second->total, 2 * 4096);
  w.plan.etp = 2; /* twice the senders, and half of each product */
  g_autoptr (ScExpertRows) wide = rows_of (&w, 4096, 0);
  ck_assert_uint_eq (wide->total, 2 * first->total);
  ck_assert_uint_eq (wide->arrived, first->arrived);
}
END_TEST

START_TEST (a_capacity_pads_or_drops)
{
  /* SimuMax's DeepSeek-V2 on 8 ranks: 4096 x 6 / 160 = 153.6 rows of each expert from each rank, rounded up */
  ScWorkload w = deepseek_v3 ();
  w.model.experts = 160;
  w.model.top_k = 6;
  w.plan.ep = 8;
  w.plan.moe_capacity_factor = 1;
  w.plan.moe_pad_to_capacity = TRUE;
  g_autoptr (ScExpertRows) padded = rows_of (&w, 4096, 0);
  ck_assert_uint_eq (padded->sent, 154 * 160);
  ck_assert_uint_eq (padded->total, 8 * 154 * 20);
  ck_assert_uint_eq (padded->rows[7], 8 * 154);
  w.plan.moe_pad_to_capacity = FALSE;
  g_autoptr (ScExpertRows) balanced = rows_of (&w, 4096, 0); /* nobody gets that much */
  ck_assert_uint_eq (balanced->total, 6 * 4096);
  w.plan.moe_imbalance = 2;
  g_autoptr (ScExpertRows) dropped = rows_of (&w, 4096, 0);
  ck_assert_uint_eq (dropped->total, 8 * 154 * 20);
}
END_TEST

START_TEST (layers_take_their_lines)
{
  ScWorkload w = deepseek_v3 ();
  w.plan.moe_lines = 1;
  ck_assert_uint_eq (sc_experts_line (&w.model, &w.plan, 60), 0);
  w.plan.moe_lines = 58;
  ck_assert_uint_eq (sc_experts_line (&w.model, &w.plan, 3), 0);
  ck_assert_uint_eq (sc_experts_line (&w.model, &w.plan, 60), 57);
}
END_TEST

/* ---- copies ---- */

START_TEST (tokens_go_to_the_expected_number_of_nodes)
{
  /* MODELLING 5.8 */
  ScWorkload w = deepseek_v3 ();
  ck_assert_double_eq_tol (sc_experts_distinct (&w.model, 8), 5.294652000382479, 1e-12);
  ck_assert_double_eq_tol (sc_experts_distinct (&w.model, 1), 1, 1e-12);
  ck_assert_double_eq_tol (sc_experts_distinct (&w.model, 256), 8, 1e-12); /* each expert a node: as many as experts */
  ck_assert_double_eq (sc_experts_node_share (&w.model, &w.plan, 8), 1); /* NCCL knows no nodes */
  w.plan.moe_dispatcher = SC_DISPATCHER_DEEPEP;
  ck_assert_double_eq_tol (sc_experts_node_share (&w.model, &w.plan, 8), 5.294652000382479 / 8, 1e-12);
  w.plan.moe_node_limit = 4;
  ck_assert_double_eq (sc_experts_node_share (&w.model, &w.plan, 8), 0.5);
  ck_assert_double_eq (sc_experts_rank_share (&w.model, &w.plan, 256), 1);
  ck_assert_double_lt (sc_experts_rank_share (&w.model, &w.plan, 64), 1);
}
END_TEST

START_TEST (a_node_limit_halves_what_crosses_nodes)
{
  /* MODELLING 5.9: NIC bytes T min (k, limit) h, NVLink bytes T k h */
  const ScGroupShape all = { .n = 64, .n_domains = 8, .per_domain = 8, .n_channels = 8, .inter_bytes_per_s = 50e9, .intra_bytes_per_s = 25e9 };
  ScGroupShape limited = all;
  limited.node_share = 0.5;
  limited.rank_share = 1;
  const double bytes = 469762048;
  const double inside = sc_collective_deepep.connection_bytes (SC_COLL_ALL_TO_ALL, &limited, SC_RAILS_INSIDE, bytes);
  const double across = sc_collective_deepep.connection_bytes (SC_COLL_ALL_TO_ALL, &limited, SC_RAILS_ACROSS, bytes);
  ck_assert_double_eq (8 * inside, bytes);
  ck_assert_double_eq (8 * across, 4096.0 * 4 * 7168 * 2);
  ck_assert_double_eq (sc_collective_pxn.connection_bytes (SC_COLL_ALL_TO_ALL, &all, SC_RAILS_ACROSS, bytes), 2 * across);
  ck_assert_double_eq (sc_collective_pxn.connection_bytes (SC_COLL_ALL_TO_ALL, &all, SC_RAILS_INSIDE, bytes), inside);
  ck_assert_double_lt (sc_collective_deepep.alone_s (SC_COLL_ALL_TO_ALL, &limited, bytes),
                       sc_collective_pxn.alone_s (SC_COLL_ALL_TO_ALL, &all, bytes));
}
END_TEST

/* ---- layers ---- */

typedef void (*Lister) (const ScLayerShape *shape, GArray *items);

static GArray *
list (const ScWorkload *w, guint layer, Lister lister)
{
  g_autoptr (ScLayerKinds) kinds = sc_layer_kinds_new (w);
  const ScLayerShape shape = sc_layer_shape (w, &kinds->kinds[kinds->of_layer[layer]]);
  GArray *items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  lister (&shape, items);
  return items;
}

static double
saved (const ScWorkload *w, guint layer)
{
  g_autoptr (ScLayerKinds) kinds = sc_layer_kinds_new (w);
  const ScLayerShape shape = sc_layer_shape (w, &kinds->kinds[kinds->of_layer[layer]]);
  return sc_layer_saved_bytes (&shape);
}

static const ScItem *
collective_named (const GArray *items, const char *name)
{
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *item = &g_array_index (items, ScItem, i);
      if ((item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START) && g_str_equal (item->name, name))
        return item;
    }
  return NULL;
}

static const ScKernel *
kernel_named (const GArray *items, const char *name)
{
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *item = &g_array_index (items, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, name))
        return &item->kernel;
    }
  return NULL;
}

START_TEST (experts_save_the_table)
{
  /* MODELLING 3.5, bytes of a token: 8h + 8 + 4ad + 4gd + 4a, of the router 4E and 8k, of k experts 2h and 6f */
  const ScWorkload w = mixtral ();
  const double h = 4096, f = 14336, attention = 4 * 4096 + 4 * 8 * 128 + 4 * 32;
  ck_assert_double_eq (saved (&w, 0) / 4096, 8 * h + 8 + attention + 4 * 8 + 8 * 2 + 2 * (2 * h + 6 * f));
}
END_TEST

START_TEST (latents_save_the_table)
{
  /* MODELLING 3.5: latents 2 r, 2 (r + rope), and their norms' outputs; q and k 2a (nope + rope), v and output 2a v, 4a */
  const ScWorkload w = deepseek_v3 ();
  const double a = 128, h = 7168, attention = 2 * 2 * 1536 + 2 * (512 + 64) + 2 * 512 + 2 * 2 * a * 192 + 2 * 2 * a * 128 + 4 * a;
  ck_assert_double_eq (saved (&w, 0) / 4096, 8 * h + 8 + attention + 6 * 18432);
  ck_assert_double_eq (saved (&w, 3) / 4096, 8 * h + 8 + attention + 4 * 256 + 8 * 8 + 8 * (2 * h + 6 * 2048) + 6 * 2048);
}
END_TEST

START_TEST (rows_are_exchanged_as_the_worked_values_say)
{
  /* MODELLING 5.8: DeepSeek-V3, EP 64, 4096 tokens; of what a rank sends 1 / 64 stays */
  const ScWorkload w = deepseek_v3 ();
  static const Lister passes[] = { sc_layer_forward, sc_layer_backward };
  static const char *const names[][2] = { { "dispatch", "combine" }, { "combine backward", "dispatch backward" } };
  double sum = 0;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GArray) items = list (&w, 3, passes[i]);
      for (guint k = 0; k < 2; k++)
        {
          const ScItem *item = collective_named (items, names[i][k]);
          ck_assert (item->comm == SC_COMM_EP && item->coll == SC_COLL_ALL_TO_ALL);
          ck_assert_double_eq (item->bytes, 469762048);
          sum += item->bytes;
        }
    }
  ck_assert_double_eq (sum, 1879048192);
  ck_assert_double_eq (469762048 * sc_coll_bus_factor (SC_COLL_ALL_TO_ALL, 64), 462422016);
  g_autoptr (GArray) dense = list (&w, 0, sc_layer_forward);
  ck_assert_ptr_null (collective_named (dense, "dispatch"));
}
END_TEST

START_TEST (experts_of_several_ranks_gather_their_rows)
{
  ScWorkload w = mixtral ();
  w.plan.tp = w.plan.etp = 2;
  w.plan.ep = 4;
  w.plan.sequence_parallel = TRUE;
  g_autoptr (GArray) forward = list (&w, 0, sc_layer_forward);
  const ScItem *gather = collective_named (forward, "expert rows all-gather"), *reduce = collective_named (forward, "expert rows reduce");
  ck_assert (gather->comm == SC_COMM_ETP && gather->coll == SC_COLL_ALL_GATHER);
  ck_assert (reduce->comm == SC_COMM_ETP && reduce->coll == SC_COLL_REDUCE_SCATTER);
  ck_assert_double_eq (gather->bytes, 2.0 * 4096 * 2 * 4096); /* top 2 of the tokens of two ranks */
  ck_assert_double_eq (collective_named (forward, "dispatch")->bytes, gather->bytes / 2);
  const ScKernel *fc1 = kernel_named (forward, "experts fc1");
  ck_assert (fc1->class == SC_KERNEL_GROUPED_GEMM && fc1->batch == 2 && fc1->m == 4096 && fc1->n == 14336 && fc1->k == 4096);
}
END_TEST

static const struct
{
  ScDispatcher dispatcher;
  double capacity;
  gboolean pads;
  guint ep, etp;
  gboolean varies, waits_first; /* the host waits, before it issues the permutation (or the exchange of tokens) */
} counted[] = {
  { SC_DISPATCHER_ALL_TO_ALL, 0, TRUE, 8, 1, TRUE, FALSE },  { SC_DISPATCHER_ALL_TO_ALL, 0, TRUE, 1, 1, TRUE, FALSE },
  { SC_DISPATCHER_ALL_TO_ALL, 0, TRUE, 4, 2, TRUE, FALSE },  { SC_DISPATCHER_ALL_TO_ALL, 1, FALSE, 8, 1, TRUE, TRUE },
  { SC_DISPATCHER_ALL_TO_ALL, 1, TRUE, 8, 1, FALSE, FALSE }, { SC_DISPATCHER_DEEPEP, 0, TRUE, 8, 1, TRUE, TRUE },
};

/* Counts of all experts from every rank that shares them out, and the host has them before it issues the exchange.  Backward knows them;
 * a repeated forward asks again. */
START_TEST (the_host_waits_for_numbers_of_rows_that_vary)
{
  ScWorkload w = mixtral ();
  w.plan.moe_dispatcher = counted[_i].dispatcher;
  w.plan.moe_capacity_factor = counted[_i].capacity;
  w.plan.moe_pad_to_capacity = counted[_i].pads;
  w.plan.ep = counted[_i].ep;
  w.plan.tp = w.plan.etp = counted[_i].etp;
  w.plan.sequence_parallel = counted[_i].etp > 1;
  for (guint pass = 0; pass < 4; pass++)
    {
      w.plan.recompute = pass >= 2 ? SC_RECOMPUTE_MODULES : SC_RECOMPUTE_NONE;
      w.plan.recompute_modules = pass == 2 ? 1u << SC_MODULE_MOE : pass == 3 ? 1u << SC_MODULE_MOE_ACT : 0;
      g_autoptr (GArray) items = list (&w, 0, pass == 0 ? sc_layer_forward : sc_layer_backward);
      guint marks = 0, waits = 0;
      double gathered = 0;
      for (guint k = 0; k < items->len; k++)
        {
          const ScItem *const item = &g_array_index (items, ScItem, k);
          marks += item->kind == SC_ITEM_HOST_MARK;
          waits += item->kind == SC_ITEM_HOST_WAIT;
          ck_assert_uint_le (waits, marks);
          if (item->kind == SC_ITEM_COLLECTIVE && g_str_equal (item->name, "rows per expert all-gather"))
            gathered = MAX (gathered, item->bytes);
          if (item->kind == SC_ITEM_COLLECTIVE && item->time != SC_TIME_BACKWARD && g_str_equal (item->name, "dispatch"))
            ck_assert_uint_eq (waits, counted[_i].varies);
          if (item->kind == SC_ITEM_KERNEL && item->time != SC_TIME_BACKWARD && g_str_equal (item->kernel.name, "permute"))
            ck_assert_uint_eq (waits, counted[_i].waits_first);
        }
      const gboolean asks = counted[_i].varies && (pass == 0 || pass == 2);
      ck_assert_uint_eq (marks, asks);
      ck_assert_uint_eq (waits, asks);
      const guint ranks = counted[_i].ep * counted[_i].etp;
      ck_assert_double_eq (gathered, asks && ranks > 1 ? 8.0 * 8 * ranks : 0);
    }
}
END_TEST

START_TEST (uneven_rows_reach_the_grouped_products)
{
  ScWorkload w = mixtral ();
  double tokens[8] = { 4, 1, 1, 1, 1, 0, 0, 0 };
  w.plan.ep = 4;
  w.plan.moe_tokens = tokens;
  w.plan.moe_lines = 1;
  g_autoptr (GArray) uneven = list (&w, 0, sc_layer_forward);
  const ScKernel *k = kernel_named (uneven, "experts fc1");
  ck_assert_uint_eq (k->largest, 4 * 4096);
  ck_assert_double_eq (k->flops, 2.0 * 5 * 4096 * 2 * 14336 * 4096);
  ck_assert_double_eq (collective_named (uneven, "dispatch")->bytes, 5.0 * 4096 * 4096 * 2); /* what the busiest rank receives */
  const double more = saved (&w, 0);
  w.plan.moe_tokens = NULL;
  ck_assert_double_gt (more, saved (&w, 0));
}
END_TEST

START_TEST (shared_experts_run_beside_the_exchanges)
{
  ScWorkload w = deepseek_v3 ();
  w.plan.moe_shared_overlap = TRUE;
  static const Lister passes[] = { sc_layer_forward, sc_layer_backward };
  static const char *const beside[][2] = { { "shared fc1", "shared fc2" }, { "shared fc2 dgrad", "shared fc1 dgrad" } };
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GArray) items = list (&w, 3, passes[i]);
      guint flying = 0, found = 0;
      for (guint k = 0; k < items->len; k++)
        {
          const ScItem *item = &g_array_index (items, ScItem, k);
          if (item->kind == SC_ITEM_COLLECTIVE_START && item->comm == SC_COMM_EP)
            flying++;
          if (item->kind == SC_ITEM_COLLECTIVE_WAIT && item->comm == SC_COMM_EP)
            flying--;
          if (item->kind != SC_ITEM_KERNEL || found == 2 || !g_str_equal (item->kernel.name, beside[i][found]))
            continue;
          ck_assert_uint_eq (flying, 1);
          found++;
        }
      ck_assert_uint_eq (found, 2);
      ck_assert_uint_eq (flying, 0);
    }
}
END_TEST

/* ---- whole models ---- */

/* FLOPs of the forward products of all ranks for one micro-batch of each, but for the routers'. */
static double
forward_flops (const ScWorkload *w, gboolean grouped)
{
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  double sum = 0;
  for (guint i = 0; i < w->model.layers; i++)
    {
      const GArray *pass = items->layers[items->kinds->of_layer[i]].pass[SC_PASS_FORWARD];
      for (guint k = 0; k < pass->len; k++)
        {
          const ScItem *item = &g_array_index (pass, ScItem, k);
          if (item->kind == SC_ITEM_KERNEL && (item->kernel.class == SC_KERNEL_GEMM || item->kernel.class == SC_KERNEL_GROUPED_GEMM)
              && (!grouped || item->kernel.class == SC_KERNEL_GROUPED_GEMM) && !g_str_equal (item->kernel.name, "router"))
            sum += item->kernel.flops;
        }
    }
  return sum * w->plan.tp * w->plan.cp * w->plan.dp;
}

/* MODELLING 1.6, one sequence per layer: linear layers, experts. */
START_TEST (executed_products_are_the_worked_values)
{
  static const struct
  {
    ScWorkload (*workload) (void);
    double linear, experts, dense;
    guint n_dense, n_experts;
  } rows[] = { { mixtral, 343597383680.0, 2886218022912.0, 0, 0, 32 }, { deepseek_v3, 1532766453760.0, 3246995275776.0, 3246995275776.0, 3, 58 } };
  static const struct
  {
    guint tp, etp, ep, cp;
  } plans[] = { { 1, 1, 8, 1 }, { 2, 2, 4, 1 }, { 2, 1, 8, 1 }, { 8, 1, 1, 1 }, { 1, 1, 2, 2 }, { 4, 2, 8, 2 } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint k = 0; k < G_N_ELEMENTS (plans); k++)
      {
        ScWorkload w = rows[i].workload ();
        w.plan.tp = plans[k].tp;
        w.plan.etp = plans[k].etp;
        w.plan.ep = plans[k].ep;
        w.plan.cp = plans[k].cp;
        w.plan.dp = 8;
        w.plan.global_batch = 64;
        w.plan.sequence_parallel = w.plan.tp > 1;
        sc_zero_defaults (&w.plan.zero, w.framework);
        const double layers = rows[i].n_dense + rows[i].n_experts;
        const double want = layers * rows[i].linear + rows[i].n_dense * rows[i].dense + rows[i].n_experts * rows[i].experts;
        ck_assert_msg (sc_workload_complete (&w, NULL) && sc_workload_check (&w, NULL), "%u %u", i, k);
        ck_assert_double_eq_tol (forward_flops (&w, FALSE) / 8, want, 1e-9 * want);
      }
}
END_TEST

/* MODELLING 1.2: one more layer, a matrix of 2h x h, logits. */
START_TEST (prediction_of_more_tokens_executes_what_the_model_counts)
{
  ScWorkload w = deepseek_v3 ();
  const double without = sc_model_train_flops (&w.model, w.seq, 1, SC_FLOPS_HALF);
  w.model.mtp_layers = 1;
  const double with = sc_model_train_flops (&w.model, w.seq, 1, SC_FLOPS_HALF);
  ck_assert_double_eq (with - without, 41700374347776.0);
  g_autoptr (GArray) forward = list (&w, 60, sc_mtp_forward);
  g_autoptr (GArray) backward = list (&w, 60, sc_mtp_backward);
  const ScKernel *join = kernel_named (forward, "mtp projection");
  ck_assert (join->m == 4096 && join->n == 7168 && join->k == 2 * 7168);
  double flops = 0, core = 0;
  for (guint i = 0; i < forward->len; i++)
    {
      const ScItem *item = &g_array_index (forward, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL && !g_str_equal (item->kernel.name, "router"))
        flops += item->kernel.flops;
    }
  ck_assert_double_eq (flops, (with - without) / 3);
  for (guint i = 0; i < backward->len; i++)
    {
      const ScItem *item = &g_array_index (backward, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL && item->kernel.class == SC_KERNEL_FLASH_BACKWARD)
        core += item->kernel.flops;
    }
  ck_assert_double_gt (core, 0);
  ck_assert_ptr_nonnull (kernel_named (backward, "mtp projection wgrad"));
  /* and one more head in the step */
  g_autoptr (ScStepItems) items = sc_step_items_new (&w);
  guint heads = 0;
  for (guint i = 0; i < items->head.pass[SC_PASS_FORWARD]->len; i++)
    {
      const ScItem *item = &g_array_index (items->head.pass[SC_PASS_FORWARD], ScItem, i);
      heads += item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, "logits");
    }
  ck_assert_uint_eq (heads, 2);
}
END_TEST

START_TEST (modules_that_predict_repeat_what_the_last_layer_does)
{
  static const guint modules[] = { 0, 1u << SC_MODULE_MLA_UP_PROJ, 1u << SC_MODULE_MOE, 1u << SC_MODULE_SHARED_EXPERTS | 1u << SC_MODULE_CORE_ATTN };
  for (guint i = 0; i < G_N_ELEMENTS (modules); i++)
    {
      ScWorkload w = deepseek_v3 ();
      w.plan.recompute = modules[i] == 0 ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_MODULES;
      w.plan.recompute_modules = modules[i];
      ck_assert (sc_workload_complete (&w, NULL));
      const double without = sc_recompute_flops (&w, SC_FLOPS_HALF, FALSE);
      w.model.mtp_layers = 1;
      const double module = sc_recompute_flops (&w, SC_FLOPS_HALF, FALSE) - without;
      g_autoptr (GArray) backward = list (&w, 60, sc_mtp_backward);
      double flops = 0;
      for (guint k = 0; k < backward->len; k++)
        {
          const ScItem *item = &g_array_index (backward, ScItem, k);
          if (item->kind == SC_ITEM_KERNEL && item->time == SC_TIME_RECOMPUTE && !g_str_equal (item->kernel.name, "router"))
            flops += item->kernel.flops;
        }
      ck_assert_double_eq_tol (flops, module, 1e-9 * module);
    }
}
END_TEST

/* Ranks of a pipeline hold each parameter once, but for what every rank of the TP group has. */
START_TEST (ranks_hold_all_parameters)
{
  static const struct
  {
    ScWorkload (*workload) (void);
    guint mtp;
    guint64 total;
  } rows[] = { { mixtral, 0, 46702792704 }, { deepseek_v3, 0, 671026419200 }, { deepseek_v3, 1, 671026419200 + 11610068224 } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint tp = 1; tp <= 4; tp *= 2)
      for (guint etp = 1; etp <= tp; etp *= 2)
        {
          ScWorkload w = rows[i].workload ();
          w.plan.tp = tp;
          w.plan.etp = etp;
          w.plan.ep = 8;
          w.model.mtp_layers = rows[i].mtp;
          w.plan.sequence_parallel = tp > 1;
          sc_zero_defaults (&w.plan.zero, w.framework);
          ck_assert (sc_workload_complete (&w, NULL) && sc_workload_check (&w, NULL));
          g_autoptr (ScStageSizes) sizes = sc_stage_sizes_new (&w);
          guint64 sum = 0, replicated = sc_model_norm_params (&w.model); /* the last one */
          for (guint p = 0; p < w.plan.pp; p++)
            sum += sizes->params[p] * tp + sizes->experts[p] * w.plan.ep * etp;
          for (guint l = 0; l < w.model.layers; l++)
            replicated += sc_model_layer_replicated_params (&w.model, sc_model_layer_has_experts (&w.model, l));
          replicated += rows[i].mtp * (sc_model_layer_replicated_params (&w.model, TRUE) + 3 * sc_model_norm_params (&w.model));
          sum -= rows[i].mtp * sc_model_embedding_params (&w.model, w.seq); /* the last stage's copy */
          ck_assert_uint_eq (sum - (tp - 1) * replicated, rows[i].total);
        }
}
END_TEST

/* Rows that are dropped, exchanged in 8 bits, or not exchanged at all: a layer's passes free what they allocate. */
START_TEST (passes_free_what_they_take)
{
  static double tokens[8] = { 8, 1, 1, 1, 1, 1, 2, 1 };
  for (guint mask = 0; mask < 1 << 7; mask++)
    for (guint ep = 1; ep <= 8; ep *= 2)
      for (guint etp = 1; etp <= 2; etp++)
        {
          ScWorkload w = mixtral ();
          w.plan.ep = ep;
          w.plan.tp = w.plan.etp = etp;
          w.plan.sequence_parallel = etp > 1;
          w.plan.moe_tokens = mask & 1 ? tokens : NULL;
          w.plan.moe_lines = 1;
          w.plan.moe_capacity_factor = mask & 2 ? 1 : 0;
          w.plan.moe_dispatcher = mask & 4 ? SC_DISPATCHER_DEEPEP : SC_DISPATCHER_ALL_TO_ALL;
          w.model.shared_experts = mask & 8 ? 1 : 0;
          w.model.shared_gate = mask & 16 && mask & 8;
          w.plan.precision = mask & 32 ? sc_precision_find ("fp8", "blockwise") : NULL;
          w.plan.moe_fp8_dispatch = mask & 64 && mask & 32;
          static const Lister passes[2][3] = { { sc_layer_forward, sc_layer_backward, NULL },
                                               { sc_layer_forward, sc_layer_backward_input, sc_layer_backward_weight } };
          for (guint split = 0; split < 2; split++)
            {
              gint64 live[SC_N_MEMS] = { 0 };
              for (guint i = 0; i < 3 && passes[split][i] != NULL; i++)
                {
                  g_autoptr (GArray) items = list (&w, 0, passes[split][i]);
                  for (guint k = 0; k < items->len; k++)
                    if (g_array_index (items, ScItem, k).kind == SC_ITEM_MEM)
                      live[g_array_index (items, ScItem, k).mem] += g_array_index (items, ScItem, k).mem_bytes;
                }
              for (guint k = 0; k < SC_N_MEMS; k++)
                ck_assert_msg (ABS (live[k]) <= 8, "case %u ep %u etp %u split %u: %" G_GINT64_FORMAT, mask, ep, etp, split, live[k]);
            }
        }
}
END_TEST

/* DeepEP takes tokens, and brings each once, however many of the rank's experts it is for. */
START_TEST (a_dispatcher_of_tokens_permutes_where_they_arrive)
{
  ScWorkload w = deepseek_v3 ();
  w.plan.ep = 8;
  w.plan.moe_dispatcher = SC_DISPATCHER_DEEPEP;
  const double once = 8 * (1 - exp (lgamma (225) - lgamma (217) + lgamma (249) - lgamma (257))) / 8; /* of 8 copies: C(224, 8) / C(256, 8) miss a rank */
  ck_assert_double_eq_tol (sc_experts_rank_share (&w.model, &w.plan, 8), once, 1e-9);
  static const struct
  {
    Lister pass;
    const char *before, *behind, *to, *from;
  } passes[] = { { sc_layer_forward, "dispatch", "combine", "permute", "unpermute" },
                 { sc_layer_backward, "combine backward", "dispatch backward", "unpermute backward", "permute backward" } };
  for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
    {
      g_autoptr (GArray) items = list (&w, 3, passes[i].pass);
      const char *const order[] = { passes[i].before, passes[i].to, passes[i].from, passes[i].behind };
      guint next = 0;
      for (guint k = 0; k < items->len && next < 4; k++)
        {
          const ScItem *item = &g_array_index (items, ScItem, k);
          const char *const name = item->kind == SC_ITEM_KERNEL ? item->kernel.name : item->name;
          next += item->kind != SC_ITEM_MEM && name != NULL && g_str_equal (name, order[next]);
        }
      ck_assert_uint_eq (next, 4);
      ck_assert_double_eq_tol (kernel_named (items, passes[i].to)->bytes, 2.0 * 7168 * 4096 * 8 * (1 + once), 1);
      ck_assert_ptr_null (kernel_named (items, "sort by expert"));
    }
}
END_TEST

START_TEST (rows_that_go_out_cast_are_narrow_all_the_way)
{
  ScWorkload w = deepseek_v3 ();
  w.plan.precision = sc_precision_find ("fp8", "blockwise");
  w.plan.moe_fp8_dispatch = TRUE;
  g_autoptr (GArray) forward = list (&w, 3, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, 3, sc_layer_backward);
  const double cast = 1 + 4.0 / 128, rows = 7168.0 * 4096 * 8;
  ck_assert_double_eq_tol (kernel_named (forward, "permute")->bytes, cast * rows * 9 / 8, 1);
  ck_assert_double_eq_tol (kernel_named (forward, "sort by expert")->bytes, cast * rows * 2, 1);
  ck_assert_double_eq_tol (kernel_named (backward, "unpermute backward")->bytes, cast * rows * 9 / 8, 1);
  ck_assert_double_eq_tol (kernel_named (backward, "permute backward")->bytes, 2 * rows * 9 / 8, 1); /* gradients come back as they are */
}
END_TEST

START_TEST (rows_of_narrow_experts_are_filled_up_to_whole_scales)
{
  static double tokens[8] = { 3, 1, 1, 1, 1, 1, 1, 1 };
  static const struct
  {
    const char *dtype;
    guint64 rows;
  } rows[] = { { NULL, 19661 }, { "fp8", 19664 }, { "mxfp8", 19680 } }; /* 0.3 x 65536, by 16, by 32 */
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      ScWorkload w = mixtral ();
      w.plan.moe_tokens = tokens;
      w.plan.moe_lines = 1;
      w.plan.precision = rows[i].dtype != NULL ? sc_precision_find (rows[i].dtype, NULL) : NULL;
      g_autoptr (GArray) items = list (&w, 0, sc_layer_forward);
      ck_assert_uint_eq (kernel_named (items, "experts fc1")->largest, rows[i].rows);
    }
}
END_TEST

/* Bytes that are there for a while when a kernel runs. */
static gint64
temporary_at (const ScWorkload *w, Lister lister, const char *name)
{
  g_autoptr (GArray) items = list (w, 0, lister);
  gint64 now = 0;
  for (guint k = 0; k < items->len; k++)
    {
      const ScItem *item = &g_array_index (items, ScItem, k);
      now += item->kind == SC_ITEM_MEM && item->mem == SC_MEM_TRANSIENT ? item->mem_bytes : 0;
      if (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, name))
        return now;
    }
  ck_abort_msg ("no %s", name);
}

/* Wide rows stand beside what is cast of them, by rows and by columns. */
START_TEST (casts_of_rows_and_of_their_gradients_take_memory)
{
  const ScWorkload wide = mixtral ();
  ScWorkload narrow = mixtral ();
  narrow.plan.precision = sc_precision_find ("mxfp8", NULL);
  const double rows = 8192, cast = narrow.plan.precision->cast_bytes;
  const gint64 arrived = temporary_at (&narrow, sc_layer_forward, "cast of rows") - temporary_at (&wide, sc_layer_forward, "experts fc1");
  const gint64 dgrad = temporary_at (&narrow, sc_layer_backward, "experts fc2 dgrad") - temporary_at (&wide, sc_layer_backward, "experts fc2 dgrad");
  ck_assert_int_eq (arrived, (gint64) (2 * rows * 4096));
  ck_assert_int_eq (dgrad, (gint64) (2 * cast * rows * 4096));
}
END_TEST

/* The library has buffers for four products, of which a layer with latents and experts has the projection alone. */
START_TEST (user_buffers_are_of_the_products_that_have_them)
{
  ScWorkload w = deepseek_v3 ();
  w.plan.tp = 4;
  w.plan.sequence_parallel = w.plan.tp_overlap = TRUE;
  static const Lister passes[] = { sc_layer_forward, sc_layer_backward, sc_head_forward, sc_head_backward };
  for (guint overlap = 0; overlap < 2; overlap++)
    for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
      {
        w.plan.moe_shared_overlap = overlap;
        g_autoptr (GArray) items = list (&w, 3, passes[i]);
        for (guint k = 0; k < items->len; k++)
          {
            const ScItem *item = &g_array_index (items, ScItem, k);
            if (item->kind != SC_ITEM_COLLECTIVE && item->kind != SC_ITEM_COLLECTIVE_START)
              continue;
            const gboolean has = g_str_has_prefix (item->name, "projection") || (!overlap && g_str_has_prefix (item->name, "shared fc"));
            ck_assert_msg (item->buffers == has && (item->coll == SC_COLL_SEND_RECEIVE) <= has, "%s", item->name);
          }
      }
}
END_TEST

START_TEST (a_single_gradient_of_experts_is_added_to_nothing)
{
  ScFramework fw = *sc_framework_find ("megatron-core", NULL);
  fw.fused_wgrad = fw.fp32_main_grads = FALSE;
  ScWorkload w = mixtral ();
  w.framework = &fw;
  for (guint n = 1; n <= 2; n++)
    {
      w.plan.global_batch = 8 * n;
      g_autoptr (GArray) items = list (&w, 0, sc_layer_backward);
      ck_assert_int_eq (kernel_named (items, "experts fc1 gradient add") != NULL, n > 1);
      ck_assert_int_eq (kernel_named (items, "qkv gradient add") != NULL, n > 1);
    }
}
END_TEST

/* Queries come from a latent, or from hidden. */
/* Where the framework's products do not add them; the ways up have none. */
START_TEST (ways_down_have_biases_of_their_own)
{
  ScFramework fw = *sc_framework_find ("megatron-core", NULL);
  ScWorkload w = deepseek_v3 ();
  w.framework = &fw;
  for (guint mask = 0; mask < 8; mask++)
    {
      fw.fused_bias = mask & 1;
      w.model.attention_bias = mask & 2;
      w.model.mla.q_lora_rank = mask & 4 ? 0 : 1536;
      g_autoptr (GArray) forward = list (&w, 0, sc_layer_forward);
      g_autoptr (GArray) backward = list (&w, 0, sc_layer_backward);
      g_autoptr (GArray) weight = list (&w, 0, sc_layer_backward_weight);
      const gboolean has = !(mask & 1) && mask & 2, queries = has && !(mask & 4);
      ck_assert_int_eq (kernel_named (forward, "kv down bias") != NULL, has);
      ck_assert_int_eq (kernel_named (forward, "q down bias") != NULL, queries);
      GArray *const passes[] = { backward, weight };
      for (guint i = 0; i < 2; i++)
        {
          ck_assert_int_eq (kernel_named (passes[i], "kv down bias gradient") != NULL, has);
          ck_assert_int_eq (kernel_named (passes[i], "q down bias gradient") != NULL, queries);
        }
      if (queries)
        {
          ck_assert_double_eq (kernel_named (forward, "q down bias")->bytes, 2 * 2.0 * 1536 * 4096);
          ck_assert_double_eq (kernel_named (backward, "kv down bias gradient")->bytes, 2.0 * (512 + 64) * 4096);
        }
    }
}
END_TEST

START_TEST (repeated_ways_up_have_the_flops_that_are_reported)
{
  for (guint rank = 0; rank <= 1536; rank += 1536)
    {
      ScWorkload w = deepseek_v3 ();
      w.model.layers = w.model.dense_layers = 1;
      w.model.mla.q_lora_rank = rank;
      w.plan.pp = 1;
      w.plan.recompute = SC_RECOMPUTE_MODULES;
      w.plan.recompute_modules = 1u << SC_MODULE_MLA_UP_PROJ;
      g_autoptr (GArray) items = list (&w, 0, sc_layer_backward);
      double flops = 0;
      for (guint k = 0; k < items->len; k++)
        if (g_array_index (items, ScItem, k).kind == SC_ITEM_KERNEL && g_array_index (items, ScItem, k).time == SC_TIME_RECOMPUTE)
          flops += g_array_index (items, ScItem, k).kernel.flops;
      ck_assert_double_eq_tol (flops, sc_recompute_flops (&w, SC_FLOPS_HALF, FALSE), 1e-9 * flops);
    }
}
END_TEST

/* The output gradient is the routed experts', too: what goes into the shared ones is another tensor. */
START_TEST (a_gate_of_shared_experts_has_a_gradient_of_its_own)
{
  gint64 most[2] = { 0, 0 };
  for (guint gate = 0; gate < 2; gate++)
    {
      ScWorkload w = mixtral ();
      w.model.shared_experts = 4; /* the largest of the layer */
      w.model.shared_gate = gate;
      g_autoptr (GArray) items = list (&w, 0, sc_layer_backward);
      gint64 now = 0;
      for (guint k = 0; k < items->len; k++)
        {
          const ScItem *item = &g_array_index (items, ScItem, k);
          now += item->kind == SC_ITEM_MEM && item->mem == SC_MEM_TRANSIENT ? item->mem_bytes : 0;
          if (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, "shared fc2 dgrad"))
            most[gate] = now;
        }
      ck_assert_int_eq (kernel_named (items, "shared gate wgrad") != NULL, gate);
    }
  ck_assert_int_eq (most[1] - most[0], 2 * 4096 * 4096);
}
END_TEST

START_TEST (activations_that_are_not_fused_are_several_kernels)
{
  ScFramework fw = *sc_framework_find ("megatron-core", NULL);
  fw.fused_gelu = FALSE;
  ScWorkload w = mixtral ();
  w.framework = &fw;
  g_autoptr (GArray) forward = list (&w, 0, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, 0, sc_layer_backward);
  ck_assert_ptr_null (kernel_named (forward, "experts activation"));
  ck_assert_double_eq (kernel_named (forward, "experts gate")->bytes, 3.0 * 2 * 14336 * 8192);
  ck_assert_ptr_nonnull (kernel_named (backward, "experts silu backward"));
}
END_TEST

/* ---- steps ---- */

/* A small model with experts, latents and a module that predicts further tokens, on nodes of four GPUs. */
static ScWorkload *
small_step (guint tp, guint etp, guint ep, guint pp, const char *schedule)
{
  ScWorkload *const w = fix_workload ((FixPlan) { .tp = tp, .pp = pp, .dp = 8 / tp, .layers = 2 * pp, .microbatches = 2 * pp, .overlap_grad = TRUE,
                                                  .sharding = SC_SHARDING_DISTRIBUTED_OPTIMIZER, .sequence_parallel = tp > 1 });
  w->model.experts = 8;
  w->model.top_k = 2;
  w->model.expert_ffn = 64;
  w->model.shared_experts = 1;
  w->model.dense_layers = 1;
  w->model.mtp_layers = 1;
  w->model.mla = (ScMla){ 32, 16, 8, 8, 8 };
  w->model.head_dim = 16;
  w->plan.etp = etp;
  w->plan.ep = ep;
  w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
  if (schedule != NULL)
    w->plan.schedule = schedule;
  return w;
}

static const struct
{
  guint tp, etp, ep, pp;
  const char *schedule;
} steps[] = { { 1, 1, 8, 1, NULL }, { 2, 2, 4, 1, NULL }, { 2, 1, 8, 2, NULL },   { 1, 2, 2, 2, NULL },
              { 4, 1, 4, 2, NULL }, { 1, 1, 4, 4, "zb-h1" }, { 2, 1, 4, 4, "dualpipe" }, { 1, 1, 1, 2, "gpipe" } };

START_TEST (steps_fold_and_free_what_they_take)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 * steps[_i].pp, .gpus = 4, .nic_latency_s = 1e-6 });
  for (guint deepep = 0; deepep < 2; deepep++)
    {
      g_autoptr (ScWorkload) w = small_step (steps[_i].tp, steps[_i].etp, steps[_i].ep, steps[_i].pp, steps[_i].schedule);
      w->plan.moe_dispatcher = deepep ? SC_DISPATCHER_DEEPEP : SC_DISPATCHER_ALL_TO_ALL;
      w->plan.moe_shared_overlap = deepep && w->plan.ep > 1;
      g_autoptr (GError) error = NULL;
      if (deepep && w->plan.etp > 1) /* one group of ep x etp, which there is not */
        {
          ck_assert (!sc_workload_check (w, &error) && g_str_has_prefix (error->message, "/plan/etp: "));
          continue;
        }
      ck_assert (sc_workload_check (w, NULL));
      const ScForecastOptions options[2] = { { 0 }, { .unfolded = TRUE } };
      g_autoptr (ScSummary) folded = sc_forecast (t, w, &options[0], &error);
      ck_assert_msg (folded != NULL, "%s", error != NULL ? error->message : "");
      g_autoptr (ScSummary) unfolded = sc_forecast (t, w, &options[1], NULL);
      ck_assert_double_eq_tol ((double) folded->step, (double) unfolded->step, 1e-9 * (double) folded->step);
      gint64 exposed = 0;
      for (guint32 k = 0; k < folded->n_classes; k++)
        {
          g_autoptr (GArray) changes = sc_memory_changes (folded->program, folded->trace, k);
          gint64 now[SC_N_MEMS] = { 0 };
          for (guint i = 0; i < changes->len; i++)
            now[g_array_index (changes, ScMemChange, i).kind] += g_array_index (changes, ScMemChange, i).bytes;
          ck_assert (now[SC_MEM_ACTIVATIONS] == 0 && now[SC_MEM_LOGITS] == 0 && now[SC_MEM_TRANSIENT] == 0);
          exposed += folded->classes[k].time[SC_TIME_COMM_EP];
        }
      ck_assert (w->plan.moe_shared_overlap || (exposed > 0) == (w->plan.ep * w->plan.etp > 1));
    }
}
END_TEST

/* Where the GPU has little to do, the host's time counts, from where it could read the numbers of rows on; without a wait it is hidden.  All
 * levels of detail say the same. */
START_TEST (a_host_that_reads_rows_cannot_run_ahead)
{
  static const ScDetail details[] = { SC_DETAIL_KERNEL, SC_DETAIL_LAYER, SC_DETAIL_STAGE };
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 4, .nic_latency_s = 1e-6 });
  for (guint schedule = 0; schedule < 3; schedule++)
    {
      const char *const names[] = { "1f1b", "zb-h1", "dualpipe" };
      ScTime step[2][G_N_ELEMENTS (details)];
      for (guint waits = 0; waits < 2; waits++)
        for (guint d = 0; d < G_N_ELEMENTS (details); d++)
          {
            g_autoptr (ScWorkload) w = small_step (1, 1, 4, 2, names[schedule]);
            ScFramework fw = *sc_framework_find ("megatron-core", NULL);
            w->framework = &fw;
            w->seq *= 16;
            w->model.expert_ffn = 2048;
            w->plan.moe_capacity_factor = 1; /* as many rows as there are */
            w->plan.moe_pad_to_capacity = !waits;
            g_autoptr (GError) error = NULL;
            const ScForecastOptions options = { .detail = details[d] };
            g_autoptr (ScSummary) s = sc_forecast (t, w, &options, &error);
            ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
            step[waits][d] = s->step;
          }
      for (guint d = 0; d < G_N_ELEMENTS (details); d++)
        {
          ck_assert_int_gt (step[1][d], step[0][d]);
          for (guint waits = 0; waits < 2; waits++)
            ck_assert_msg (fabs ((double) step[waits][d] / (double) step[waits][0] - 1) < 0.005, "%s, detail %u, waits %u: %g of %g s", names[schedule], d,
                           waits, 1e-12 * (double) step[waits][d], 1e-12 * (double) step[waits][0]);
        }
    }
}
END_TEST

static ScTime
step_of (const ScTopology *t, const ScWorkload *w)
{
  g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
  ck_assert_ptr_nonnull (s);
  return s->step;
}

START_TEST (the_most_loaded_rank_sets_the_step)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2, .gpus = 4, .nic_latency_s = 1e-6 });
  g_autoptr (ScWorkload) w = small_step (1, 1, 4, 1, NULL);
  ScTime before = step_of (t, w);
  const ScTime balanced = before;
  for (guint i = 1; i <= 4; i++) /* of two experts each a rank gets at most every token twice */
    {
      w->plan.moe_imbalance = 1 + 0.25 * i;
      const ScTime step = step_of (t, w);
      ck_assert_int_gt (step, before);
      before = step;
    }
  w->plan.moe_imbalance = 0;
  double tokens[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
  w->plan.moe_tokens = g_memdup2 (tokens, sizeof tokens);
  w->plan.moe_lines = 1;
  ck_assert_int_eq (step_of (t, w), balanced);
  w->plan.moe_tokens[5] = 2;
  ck_assert_int_gt (step_of (t, w), balanced);
}
END_TEST

/* ---- recorded routing ---- */

START_TEST (routing_files_are_read)
{
  guint lines, experts;
  g_autoptr (GError) error = NULL;
  g_autofree double *one = sc_routing_csv_parse ("0.25,0.25,0.5\n", &lines, &experts, &error);
  ck_assert (one != NULL && lines == 1 && experts == 3 && one[2] == 0.5);
  g_autofree double *two = sc_routing_csv_parse ("# of a run\nexpert 0,expert 1\r\n\r\n 10, 20 \r\n1e3,0\n", &lines, &experts, &error);
  ck_assert (two != NULL && lines == 2 && experts == 2 && two[0] == 10 && two[2] == 1000 && two[3] == 0);
}
END_TEST

START_TEST (routing_files_that_are_wrong_say_where)
{
  static const struct
  {
    const char *text, *message;
  } wrong[] = {
    { "", "found no numbers" },
    { "a,b\n", "found no numbers" },
    { "1,2\n3\n", "line 2: found 1 numbers, expected 2" },
    { "1,2\n3,x\n", "line 2, cell 2: found \"x\"" },
    { "1,-2\n", "line 1, cell 2: found \"-2\"" },
    { "1,\n", "line 1, cell 2: found \"\"" },
    { "1,nan\n", "line 1, cell 2: found \"nan\"" },
    { "1,1e16\n", "line 1, cell 2: found \"1e16\"" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      guint lines, experts;
      g_autoptr (GError) error = NULL;
      ck_assert_ptr_null (sc_routing_csv_parse (wrong[i].text, &lines, &experts, &error));
      ck_assert_msg (g_str_has_prefix (error->message, wrong[i].message), "%s", error->message);
    }
}
END_TEST

static Suite *
experts_suite (void)
{
  Suite *suite = suite_create ("experts");
  TCase *tc = tcase_create ("rows");
  tcase_add_test (tc, balanced_rows_are_shared_out_to_the_last_one);
  tcase_add_test (tc, an_imbalance_is_that_of_the_most_loaded_rank);
  tcase_add_test (tc, recorded_tokens_make_the_rank_of_the_most_rows);
  tcase_add_test (tc, a_capacity_pads_or_drops);
  tcase_add_test (tc, layers_take_their_lines);
  tcase_add_test (tc, tokens_go_to_the_expected_number_of_nodes);
  tcase_add_test (tc, a_node_limit_halves_what_crosses_nodes);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("layers");
  tcase_set_timeout (tc, 60);
  tcase_add_test (tc, experts_save_the_table);
  tcase_add_test (tc, latents_save_the_table);
  tcase_add_test (tc, rows_are_exchanged_as_the_worked_values_say);
  tcase_add_test (tc, experts_of_several_ranks_gather_their_rows);
  tcase_add_loop_test (tc, the_host_waits_for_numbers_of_rows_that_vary, 0, G_N_ELEMENTS (counted));
  tcase_add_test (tc, uneven_rows_reach_the_grouped_products);
  tcase_add_test (tc, shared_experts_run_beside_the_exchanges);
  tcase_add_test (tc, executed_products_are_the_worked_values);
  tcase_add_test (tc, prediction_of_more_tokens_executes_what_the_model_counts);
  tcase_add_test (tc, modules_that_predict_repeat_what_the_last_layer_does);
  tcase_add_test (tc, ranks_hold_all_parameters);
  tcase_add_test (tc, passes_free_what_they_take);
  tcase_add_test (tc, a_dispatcher_of_tokens_permutes_where_they_arrive);
  tcase_add_test (tc, rows_that_go_out_cast_are_narrow_all_the_way);
  tcase_add_test (tc, rows_of_narrow_experts_are_filled_up_to_whole_scales);
  tcase_add_test (tc, casts_of_rows_and_of_their_gradients_take_memory);
  tcase_add_test (tc, user_buffers_are_of_the_products_that_have_them);
  tcase_add_test (tc, a_single_gradient_of_experts_is_added_to_nothing);
  tcase_add_test (tc, ways_down_have_biases_of_their_own);
  tcase_add_test (tc, repeated_ways_up_have_the_flops_that_are_reported);
  tcase_add_test (tc, a_gate_of_shared_experts_has_a_gradient_of_its_own);
  tcase_add_test (tc, activations_that_are_not_fused_are_several_kernels);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("steps");
  tcase_set_timeout (tc, 60);
  tcase_add_loop_test (heavy (suite), steps_fold_and_free_what_they_take, 0, G_N_ELEMENTS (steps));
  tcase_add_test (tc, a_host_that_reads_rows_cannot_run_ahead);
  tcase_add_test (tc, the_most_loaded_rank_sets_the_step);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("recorded");
  tcase_add_test (tc, routing_files_are_read);
  tcase_add_test (tc, routing_files_that_are_wrong_say_where);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (experts_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
