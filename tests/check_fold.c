/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_fold.c - folded equals unfolded, on every stream of every rank (FOLDING S5-S7). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include "fixtures.h"
#include "pace.h"
#include "sim/engine.h"
#include "sim/flow.h"

/* Step of 4 layers a stage, TP all-reduce 0.1 GB a layer, boundaries 30 MB, gradients by what the small model holds. */
typedef struct
{
  const char *name;
  FixFabric fabric;
  FixPlan   plan;
  struct { ScFaultKind kind; guint node, index; double factor; } fault; /* factor 0: none */
  gboolean  last_node_half; /* all NICs of the last node at half speed */
  guint     most_classes;   /* the fold must find symmetry: 0 = do not care */
} Case;

#define STEP(...) { .microbatches = 4, .overlap_grad = TRUE, .bucket_params = 1, __VA_ARGS__ }

static const Case cases[] = {
  { .name = "tp8 dp2 pp2, symmetric", .fabric = { .nodes = 4, .leaf = 2 }, .plan = STEP (.tp = 8, .dp = 2, .pp = 2, .layers = 4), .most_classes = 2 },
  { .name = "dp4 over 4", .fabric = { .nodes = 8, .leaf = 2, .over = 4 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .most_classes = 2 },
  { .name = "tp4: half of the ring's hops on NVLink", .fabric = { .nodes = 4, .leaf = 1, .over = 2 }, .plan = STEP (.tp = 4, .dp = 4, .pp = 2, .layers = 4), .most_classes = 16 },
  { .name = "leaves of 4 that dp3 straddles, over 4", .fabric = { .nodes = 12, .leaf = 4, .over = 4 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 4, .layers = 8), .most_classes = 12 },
  { .name = "the same, 1:1", .fabric = { .nodes = 12, .leaf = 4 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 4, .layers = 8), .most_classes = 4 },
  { .name = "classic tree, over 2", .fabric = { .nodes = 8, .leaf = 3, .over = 2, .classic = TRUE }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4) },
  { .name = "one slow GPU", .fabric = { .nodes = 8, .leaf = 2, .over = 2 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .fault = { SC_FAULT_GPU, 0, 3, 1 / 1.2 }, .most_classes = 12 },
  { .name = "one half-speed NIC", .fabric = { .nodes = 8, .leaf = 2, .over = 2 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .fault = { SC_FAULT_NIC, 0, 3, 0.5 }, .most_classes = 12 },
  { .name = "one slow NVLink port", .fabric = { .nodes = 4, .leaf = 2 }, .plan = STEP (.tp = 8, .dp = 2, .pp = 2, .layers = 4), .fault = { SC_FAULT_NVLINK, 1, 2, 0.3 } },
  { .name = "unequal last node", .fabric = { .nodes = 8, .leaf = 2, .over = 2 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .last_node_half = TRUE, .most_classes = 6 },
  { .name = "three tiers, over 2 x 2", .fabric = { .nodes = 16, .leaf = 2, .over = 2, .pod = 2, .pod_over = 2 }, .plan = STEP (.tp = 8, .dp = 8, .pp = 2, .layers = 4), .most_classes = 2 },
  { .name = "three tiers, misaligned dp6", .fabric = { .nodes = 12, .leaf = 2, .over = 2, .pod = 2, .pod_over = 2 }, .plan = STEP (.tp = 8, .dp = 6, .pp = 2, .layers = 4) },
  { .name = "sharded, gathers under the forward", .fabric = { .nodes = 6, .leaf = 2, .over = 2 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 2, .layers = 4, .sharding = SC_SHARDING_DISTRIBUTED_OPTIMIZER, .overlap_param = TRUE) },
  { .name = "interleaved, overlapped transfers", .fabric = { .nodes = 6, .leaf = 4, .over = 3 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 2, .vpp = 2, .layers = 8, .overlap_p2p = TRUE) },
  { .name = "interleaved, blocking transfers", .fabric = { .nodes = 8, .leaf = 3, .over = 3 }, .plan = STEP (.tp = 8, .dp = 2, .pp = 4, .vpp = 2, .layers = 8) },
  { .name = "pipeline inside data parallel", .fabric = { .nodes = 6, .leaf = 4, .over = 4 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 2, .layers = 4, .rank_order = SC_ORDER_TP_CP_EP_PP_DP) },
  { .name = "tensor parallel across nodes", .fabric = { .nodes = 4, .leaf = 3, .over = 2 }, .plan = STEP (.tp = 16, .dp = 2, .pp = 1, .layers = 2) },
  { .name = "one hardware queue", .fabric = { .nodes = 4, .leaf = 3, .over = 2 }, .plan = STEP (.tp = 8, .dp = 2, .pp = 2, .layers = 4, .one_queue = TRUE) },
  { .name = "weights gathered layer by layer", .fabric = { .nodes = 4, .leaf = 3, .over = 3 }, .plan = STEP (.tp = 2, .dp = 16, .layers = 4, .sharding = SC_SHARDING_FSDP_FULL, .overlap_param = TRUE) },
  { .name = "the same between stages, one slow NIC", .fabric = { .nodes = 4, .leaf = 3, .over = 2 }, .plan = STEP (.tp = 4, .dp = 4, .pp = 2, .layers = 4, .sharding = SC_SHARDING_FSDP_GRAD_OP, .overlap_param = TRUE), .fault = { SC_FAULT_NIC, 0, 3, 0.5 } },
  { .name = "weights gathered ahead", .fabric = { .nodes = 3, .leaf = 2, .over = 2 }, .plan = STEP (.dp = 24, .layers = 4, .sharding = SC_SHARDING_ZERO3, .overlap_param = TRUE), .fault = { SC_FAULT_GPU, 0, 3, 1 / 1.2 } },
  { .name = "no pipeline, no tensor parallel", .fabric = { .nodes = 3, .leaf = 2, .over = 4 }, .plan = STEP (.dp = 24, .layers = 3) },
  { .name = "with latencies", .fabric = { .nodes = 12, .leaf = 4, .over = 4, .launch_s = 4e-6, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 4, .layers = 8) },
  { .name = "with latencies and one slow NIC", .fabric = { .nodes = 8, .leaf = 3, .over = 2, .launch_s = 4e-6, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .fault = { SC_FAULT_NIC, 5, 1, 0.25 } },
};

static ScTopology *
case_topology (const Case *c)
{
  ScTopology *const t = fix_topology (c->fabric);
  if (c->fault.factor > 0)
    fix_fault (t, c->fault.kind, c->fault.node, c->fault.index, c->fault.factor);
  for (guint i = 0; c->last_node_half && i < 8; i++)
    fix_fault (t, SC_FAULT_NIC, c->fabric.nodes - 1, i, 0.5);
  return t;
}

START_TEST (folded_equals_unfolded_on_every_stream)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = case_topology (c);
  g_autoptr (ScWorkload) w = fix_workload (c->plan);
  w->model.hidden = 2048; /* layers of some 16 M parameters: buckets that matter beside 30 MB boundaries */
  w->model.ffn = 8192;
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, c->plan.tp > 1 ? 0.1e9 : 0, 30e6);
  g_autoptr (FixRun) a = fix_run (t, w, items, TRUE, 0);
  g_autoptr (FixRun) b = fix_run (t, w, items, FALSE, 0);
  ck_assert (!b->fold->approximate);
  const double step = (double) a->trace->end;
  ck_assert_double_gt (step, 0);
  for (guint32 r = 0; r < a->layout->n_ranks; r++)
    for (guint s = 0; s < SC_N_STREAMS; s++)
      {
        const double ea = (double) fix_stream_end (a, r, s), eb = (double) fix_stream_end (b, b->fold->class_of[r], s);
        if (fabs (ea - eb) > 1e-9 * step)
          ck_abort_msg ("%s: rank %u, stream %u: unfolded %.0f ps, folded %.0f ps (%u classes, %u families, %u link classes)", c->name,
                        r, s, ea, eb, b->fold->n_classes, b->fold->n_families, b->fold->n_link_classes);
      }
  if (c->most_classes > 0)
    ck_assert_msg (b->fold->n_classes <= c->most_classes, "%s: %u classes", c->name, b->fold->n_classes);
  ck_assert_uint_lt (b->fold->n_classes, a->layout->n_ranks);
}
END_TEST

/* FOLDING 5: symmetric plans of rings and sends without latency agree to 0.01 %, others with 16 blocks to 2 %. */
START_TEST (loads_agree_with_single_messages)
{
  const Case *const c = &cases[_i];
  if (c->fabric.launch_s > 0 || c->fabric.nodes > 8)
    return; /* messages know one latency a call; large cases take long */
  const gboolean symmetric = _i < 2;
  g_autoptr (ScTopology) t = case_topology (c);
  g_autoptr (ScWorkload) w = fix_workload (c->plan);
  w->model.hidden = 2048;
  w->model.ffn = 8192;
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, c->plan.tp > 1 ? 0.1e9 : 0, 30e6);
  g_autoptr (FixRun) loads = fix_run (t, w, items, TRUE, 0);
  g_autoptr (FixRun) messages = fix_run (t, w, items, TRUE, 16);
  const double ratio = (double) loads->trace->end / (double) messages->trace->end;
  ck_assert_msg (fabs (ratio - 1) <= (symmetric ? 1e-4 : 0.02), "%s: loads / messages %.6f", c->name, ratio);
}
END_TEST

static void
ignore_moved (gpointer data G_GNUC_UNUSED, guint32 id G_GNUC_UNUSED, guint32 version G_GNUC_UNUSED, ScTime end G_GNUC_UNUSED)
{
}

static gboolean
has_walk (const ScLoads *loads, guint32 comm)
{
  return loads->walk_first[comm] < loads->walk_first[comm + 1];
}

/* Rates of the families when some of them are active: on the kept link classes, and on all links of all groups. */
static void
check_subset (const FixRun *run, guint64 subset)
{
  const ScFold *const f = run->fold;
  const ScLoads *const loads = run->loads;
  g_autofree double *one = g_new (double, MAX (f->n_link_classes, 1)), *capacity = g_new (double, run->fabric->n_links);
  for (guint32 i = 0; i < f->n_link_classes; i++)
    one[i] = 1;
  for (guint32 i = 0; i < run->fabric->n_links; i++)
    capacity[i] = run->fabric->links[i].capacity;
  ScFlows *const folded = sc_flows_new (one, f->n_link_classes), *const plain = sc_flows_new (capacity, run->fabric->n_links);
  g_autofree guint32 *family_flow = g_new (guint32, f->n_families), *comm_flow = g_new (guint32, run->layout->n_comms);
  g_autofree ScUse *uses = g_new (ScUse, MAX (loads->part_first[loads->n_parts], 1)); /* borrowed while flows live */
  for (guint32 i = 0; i < loads->part_first[loads->n_parts]; i++)
    uses[i] = (ScUse) { loads->loads[i].count, loads->loads[i].link };
  for (guint32 k = 0; k < f->n_families; k++)
    if ((subset >> k & 1) && has_walk (loads, f->family_comm[k]))
      {
        guint32 n_uses;
        const guint32 first = sc_fold_uses (f, loads, k, &loads->walks[loads->walk_first[f->family_comm[k]]], 0, &n_uses);
        family_flow[k] = sc_flows_start (folded, 0, f->uses + first, n_uses, 1e15, INFINITY, 0, 0);
      }
  for (guint32 c = 0; c < run->layout->n_comms; c++)
    if (has_walk (loads, c) && (subset >> f->family_of[c] & 1))
      {
        const guint32 part = loads->walks[loads->walk_first[c]].first_part;
        comm_flow[c] = sc_flows_start (plain, 0, uses + loads->part_first[part],
                                       loads->part_first[part + 1] - loads->part_first[part], 1e15, INFINITY, 0, 0);
      }
  sc_flows_solve (folded, 0, ignore_moved, NULL);
  sc_flows_solve (plain, 0, ignore_moved, NULL);
  for (guint32 c = 0; c < run->layout->n_comms; c++)
    if (has_walk (loads, c) && (subset >> f->family_of[c] & 1))
      {
        const double a = sc_flows_rate (plain, comm_flow[c]), b = sc_flows_rate (folded, family_flow[f->family_of[c]]);
        ck_assert_msg (fabs (a - b) <= 1e-9 * a, "subset %" G_GINT64_MODIFIER "x, comm %u: %g against %g", subset, c, a, b);
      }
  sc_flows_free (folded);
  sc_flows_free (plain);
}

START_TEST (dropping_links_changes_no_rate_for_any_subset_of_families)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = case_topology (c);
  g_autoptr (ScWorkload) w = fix_workload (c->plan);
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, c->plan.tp > 1 ? 0.1e9 : 0, 30e6);
  g_autoptr (FixRun) run = fix_run (t, w, items, FALSE, 0);
  if (run->fold->n_families <= 10) /* all subsets, else a spread of them */
    for (guint64 subset = 1; subset < G_GUINT64_CONSTANT (1) << run->fold->n_families; subset++)
      check_subset (run, subset);
  else
    {
      guint64 x = 88172645463325252u;
      for (guint i = 0; i < 200; i++)
        {
          x ^= x << 13;
          x ^= x >> 7;
          x ^= x << 17;
          const guint64 mask = run->fold->n_families >= 64 ? G_MAXUINT64 : (G_GUINT64_CONSTANT (1) << run->fold->n_families) - 1;
          check_subset (run, x & mask);
        }
    }
}
END_TEST

/* The same groups in another order. */
START_TEST (renumbering_groups_changes_nothing)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = case_topology (c);
  g_autoptr (ScWorkload) w = fix_workload (c->plan);
  g_autoptr (ScFabric) fabric = sc_fabric_new (t, w->plan.gpus, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (w), turned = sc_layout_new (w);
  for (guint32 i = 0; i < layout->n_comms; i++)
    turned->comms[i] = layout->comms[layout->n_comms - 1 - i];
  for (guint32 i = 0; i < layout->n_members; i++)
    turned->of_rank[i] = layout->n_comms - 1 - layout->of_rank[i];
  g_autofree guint32 *colour = g_new (guint32, layout->n_ranks);
  for (guint32 r = 0; r < layout->n_ranks; r++)
    colour[r] = sc_layout_coord (&w->plan, r).pp * 1000 + (guint32) (fabric->gpus[r].speed * 100);
  g_autoptr (ScLoads) la = sc_loads_new (layout, fabric, NULL, 0), lb = sc_loads_new (turned, fabric, NULL, 0);
  g_autoptr (ScFold) a = sc_fold_new (layout, fabric, la, colour, 0, FALSE), b = sc_fold_new (turned, fabric, lb, colour, 0, FALSE);
  ck_assert_uint_eq (a->n_classes, b->n_classes);
  ck_assert_uint_eq (a->n_families, b->n_families);
  ck_assert_uint_eq (a->n_link_classes, b->n_link_classes);
  for (guint32 r = 0; r < layout->n_ranks; r++) /* classes are numbered by first rank */
    ck_assert_uint_eq (a->class_of[r], b->class_of[r]);
}
END_TEST

START_TEST (one_slow_rank_costs_few_classes_at_any_width)
{
  static const guint widths[] = { 4, 8, 16, 64 };
  guint before = 0;
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 * widths[i], .leaf = 2, .over = 2 });
      fix_fault (t, SC_FAULT_GPU, 0, 3, 0.8);
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) STEP (.tp = 8, .dp = widths[i], .pp = 2, .layers = 2));
      g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0.1e9, 30e6);
      g_autoptr (FixRun) run = fix_run (t, w, items, FALSE, 0);
      ck_assert_uint_le (run->fold->n_classes, 12); /* 6 a stage */
      if (i > 1)
        ck_assert_uint_eq (run->fold->n_classes, before);
      before = run->fold->n_classes;
    }
}
END_TEST

START_TEST (the_class_budget_stops_the_refinement_and_says_so)
{
  const Case *const c = &cases[3];
  g_autoptr (ScTopology) t = case_topology (c);
  g_autoptr (ScWorkload) w = fix_workload (c->plan);
  g_autoptr (ScFabric) fabric = sc_fabric_new (t, w->plan.gpus, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (w);
  g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, NULL, 0);
  g_autofree guint32 *colour = g_new (guint32, layout->n_ranks);
  for (guint32 r = 0; r < layout->n_ranks; r++)
    colour[r] = sc_layout_coord (&w->plan, r).pp;
  g_autoptr (ScFold) fold = sc_fold_new (layout, fabric, loads, colour, 6, FALSE);
  ck_assert (fold->approximate);
  ck_assert_uint_le (fold->n_classes, 6);
  /* and what it returns still runs to its end */
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0.1e9, 30e6);
  g_autoptr (ScStageSizes) sizes = sc_stage_sizes_new (w);
  const ScLowerInput input = {
    .workload = w, .fabric = fabric, .layout = layout, .loads = loads, .fold = fold, .items = items, .sizes = sizes,
  };
  g_autoptr (ScLowered) lowered = sc_lower (&input);
  g_autoptr (ScTrace) trace = sc_engine_run (lowered->program, NULL);
  ck_assert_ptr_nonnull (trace);
}
END_TEST

/* U9: groups of nodes {0, 2} and {1, 3}, leaf of 3 nodes, up-link 25 GB/s: the first stays below its leaf (0.1 GB at
 * 50 GB/s: 2 ms), the second crosses (0.1 / 25: 4 ms). */
START_TEST (u9_misaligned_groups_get_their_own_classes)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .leaf = 3, .over = 6 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 8, .dp = 4, .layers = 1 });
  g_autoptr (ScFabric) fabric = sc_fabric_new (t, 32, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (w);
  layout->n_comms = 0;
  guint32 member = 0;
  for (guint rail = 0; rail < 8; rail++)
    for (guint first = 0; first < 2; first++)
      {
        layout->comms[layout->n_comms] = (ScComm) { SC_COMM_DP, 0, member, 2 };
        for (guint i = 0; i < 2; i++)
          {
            const guint32 rank = rail + 8 * (first + 2 * i);
            layout->members[member++] = rank;
            layout->of_rank[rank] = layout->n_comms;
          }
        layout->n_comms++;
      }
  for (guint32 r = 0; r <= 32; r++)
    layout->rank_first[r] = r;
  g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, NULL, 0);
  guint32 colour[32] = { 0 };
  g_autoptr (ScFold) fold = sc_fold_new (layout, fabric, loads, colour, 0, FALSE);
  ck_assert_uint_eq (fold->n_classes, 2);
  ck_assert_uint_eq (fold->n_families, 2);

  g_autoptr (ScProgram) p = sc_program_new ();
  for (guint32 i = 0; i < fold->n_link_classes; i++)
    sc_program_add_link (p, 1);
  for (guint32 k = 0; k < 2; k++)
    {
      const guint32 call = sc_program_add_call (p, sc_program_add_group (p, fold->family_members[k]), 0, 0, 0, 0);
      ck_assert_uint_eq (call, k);
      sc_program_add_part (p, 0.1e9, INFINITY, fold->uses + fold->uses_first[k], fold->uses_first[k + 1] - fold->uses_first[k]);
    }
  for (guint32 k = 0; k < 2; k++)
    {
      sc_program_add_actor (p, 1, FALSE);
      sc_program_call (p, 0, fold->family_of[layout->of_rank[fold->representative[k]]]);
    }
  g_autoptr (ScTrace) trace = sc_engine_run (p, NULL);
  ck_assert_int_eq (MIN (trace->spans[0].end, trace->spans[1].end), 2000000000);
  ck_assert_int_eq (MAX (trace->spans[0].end, trace->spans[1].end), 4000000000);
}
END_TEST

/* U11: two leaves, each with up- and down-links that feed one another: never both may go. */
START_TEST (u11_no_link_is_dropped_on_the_strength_of_itself)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .leaf = 2, .over = 4 }); /* narrower than a NIC */
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 8, .dp = 4, .layers = 1 });
  g_autoptr (ScFabric) fabric = sc_fabric_new (t, 32, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (w);
  g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, NULL, 0);
  for (guint rail = 0; rail < 8; rail++)
    for (guint leaf = 0; leaf < 2; leaf++)
      {
        const guint32 up = fabric->tier_up[0][leaf] + 2 * rail, down_other = fabric->tier_up[0][1 - leaf] + 2 * rail + 1;
        ck_assert (!loads->implied[up] && loads->implied[down_other]);
      }
}
END_TEST

static Suite *
fold_suite (void)
{
  Suite *const s = suite_create ("fold");
  TCase *const t = tcase_create ("refinement");
  tcase_set_timeout (t, 300);
  tcase_add_loop_test (t, folded_equals_unfolded_on_every_stream, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (slow (s), loads_agree_with_single_messages, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (s), dropping_links_changes_no_rate_for_any_subset_of_families, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (t, renumbering_groups_changes_nothing, 0, G_N_ELEMENTS (cases));
  tcase_add_test (t, one_slow_rank_costs_few_classes_at_any_width);
  tcase_add_test (t, the_class_budget_stops_the_refinement_and_says_so);
  tcase_add_test (t, u9_misaligned_groups_get_their_own_classes);
  tcase_add_test (t, u11_no_link_is_dropped_on_the_strength_of_itself);
  suite_add_tcase (s, t);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (fold_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
