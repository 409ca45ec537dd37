/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_links.c - what is said of the fabric's links: bytes that add up, capacities that hold, folded as unfolded. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/links.h"
#include "pace.h"
#include "sim/engine.h"
#include "topology-json.h"
#include "workload-json.h"

/* ---- small plans, whose fold and program are at hand ---- */

typedef struct
{
  const char *name;
  FixFabric fabric;
  FixPlan   plan;
  struct { ScFaultKind kind; guint node, index; double factor; } fault; /* factor 0: none */
} Case;

#define STEP(...) { .microbatches = 4, .overlap_grad = TRUE, .bucket_params = 1, __VA_ARGS__ }

static const Case cases[] = {
  { .name = "symmetric", .fabric = { .nodes = 4, .leaf = 2 }, .plan = STEP (.tp = 8, .dp = 2, .pp = 2, .layers = 4) },
  { .name = "over 4", .fabric = { .nodes = 8, .leaf = 2, .over = 4 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4) },
  { .name = "half of the hops on NVLink", .fabric = { .nodes = 4, .leaf = 1, .over = 2 }, .plan = STEP (.tp = 4, .dp = 4, .pp = 2, .layers = 4) },
  { .name = "groups that straddle leaves", .fabric = { .nodes = 12, .leaf = 4, .over = 4 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 4, .layers = 8) },
  { .name = "one slow NIC", .fabric = { .nodes = 8, .leaf = 2, .over = 2 }, .plan = STEP (.tp = 8, .dp = 4, .pp = 2, .layers = 4), .fault = { SC_FAULT_NIC, 0, 3, 0.5 } },
  { .name = "three tiers", .fabric = { .nodes = 12, .leaf = 2, .over = 2, .pod = 2, .pod_over = 2 }, .plan = STEP (.tp = 8, .dp = 6, .pp = 2, .layers = 4) },
  { .name = "interleaved, overlapped, with latencies", .fabric = { .nodes = 6, .leaf = 4, .over = 3, .launch_s = 4e-6, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 }, .plan = STEP (.tp = 8, .dp = 3, .pp = 2, .vpp = 2, .layers = 8, .overlap_p2p = TRUE) },
  { .name = "tensor parallel across nodes", .fabric = { .nodes = 4, .leaf = 3, .over = 2 }, .plan = STEP (.tp = 16, .dp = 2, .pp = 1, .layers = 2) },
  { .name = "a single node, only data parallel", .fabric = { .nodes = 1 }, .plan = STEP (.dp = 8, .layers = 3) },
};

typedef struct
{
  ScTopology  *topology;
  ScWorkload  *workload;
  ScStepItems *items;
  FixRun  *run;
  ScTrace *trace;        /* metered */
  ScLinksSummary *links;
} Metered;

static Metered
metered (const Case *c, gboolean unfolded)
{
  Metered m = { fix_topology (c->fabric), fix_workload (c->plan), NULL, NULL, NULL, NULL };
  if (c->fault.factor > 0)
    fix_fault (m.topology, c->fault.kind, c->fault.node, c->fault.index, c->fault.factor);
  m.workload->model.hidden = 2048; /* layers of some 16 M parameters: buckets that matter beside 30 MB boundaries */
  m.workload->model.ffn = 8192;
  m.items = fix_items (1e-3, 2e-3, c->plan.tp > 1 ? 0.1e9 : 0, 30e6);
  m.run = fix_run (m.topology, m.workload, m.items, unfolded, 0);
  m.trace = sc_engine_run_metered (m.run->lowered->program, NULL);
  ck_assert_ptr_nonnull (m.trace);
  m.links = sc_links_summarise (&m.run->input, m.trace->usage);
  return m;
}

static void
metered_clear (Metered *m)
{
  sc_links_summary_free (m->links);
  sc_trace_free (m->trace);
  fix_run_free (m->run);
  sc_step_items_free (m->items);
  sc_workload_free (m->workload);
  sc_topology_free (m->topology);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Metered, metered_clear)

/* What holds of every summary of links, whatever the numbers are. */
static void
check_links (const ScLinksSummary *links, ScTime step, guint n_used, const char *name)
{
  guint listed = 0, below = 0;
  ck_assert_int_ge (links->n_bins * links->bin, step);
  for (guint i = 0; i < links->n_rows; i++)
    {
      const ScLinkSummary *const row = &links->rows[i];
      double bytes = 0, mean = 0, highest = 0;
      for (guint k = 0; k < SC_N_TIMES; k++)
        {
          ck_assert (row->bytes[k] == 0 || sc_time_kind_group ((ScTimeKind) k) != NULL);
          bytes += row->bytes[k];
        }
      for (guint k = 0; k < links->n_bins; k++)
        {
          ck_assert_double_ge (row->utilisation[k], 0);
          highest = MAX (highest, row->utilisation[k]);
          mean += row->utilisation[k] * (double) MIN (links->bin, step - (ScTime) k * links->bin) / (double) step;
        }
      ck_assert_msg (highest <= 1 + 1e-9, "%s, %s: %.12f of the capacity", name, row->name, highest);
      ck_assert_double_le (row->peak, 1 + 1e-9);
      ck_assert_double_le (highest, row->peak * (1 + 1e-9));
      ck_assert_double_eq_tol (mean, row->mean, 1e-9);
      /* each end of a flow is rounded to a picosecond */
      const double carried = row->mean * sc_time_to_s (step) * row->capacity_bytes_per_s;
      ck_assert_msg (fabs (carried - bytes) <= 1e-6 * bytes + 1, "%s, %s: %.1f bytes, %.1f by utilisation", name, row->name, bytes, carried);
      ck_assert_int_ge (row->full, 0);
      ck_assert_double_le ((double) row->full * SC_USAGE_FULL, row->mean * (double) step * (1 + 1e-9) + 1);
      ck_assert (i == 0 || row->mean <= links->rows[i - 1].mean);
      guint of_kind = 0;
      for (guint k = 0; k < SC_N_LINK_KINDS; k++)
        of_kind += row->of_kind[k];
      ck_assert_uint_eq (of_kind, row->n_links);
      listed += row->n_links;
      below += row->n_below;
    }
  ck_assert_uint_eq (listed + links->n_left_out, n_used);
  ck_assert_uint_le (below, links->n_left_out);
}

/* Bytes of all calls of family @family, of one connection, by kind: from the ops, not from the run. */
static void
calls_of_family (const FixRun *r, guint32 family, double bytes[SC_N_TIMES])
{
  const ScProgram *const p = r->lowered->program;
  memset (bytes, 0, SC_N_TIMES * sizeof *bytes);
  for (guint i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL)
        continue;
      const ScCall *const call = &g_array_index (p->calls, ScCall, op->arg);
      if (call->group != family)
        continue;
      for (guint k = call->first_part; k < call->first_part + call->n_parts; k++)
        bytes[call->tag] += g_array_index (p->parts, ScPart, k).bytes / g_array_index (p->groups, guint32, family);
    }
}

/* Over the first link of each class: connections of every group that cross it x what a connection carries. */
START_TEST (bytes_of_a_link_are_those_of_the_calls_that_cross_it)
{
  const Case *const c = &cases[_i];
  g_auto (Metered) m = metered (c, FALSE);
  const FixRun *const r = m.run;
  check_links (m.links, m.trace->end, r->loads->n_used, c->name);
  g_autofree double *bytes = g_new (double, r->fold->n_families * SC_N_TIMES);
  for (guint32 k = 0; k < r->fold->n_families; k++)
    calls_of_family (r, k, bytes + k * SC_N_TIMES);
  double all = 0;
  for (guint i = 0; i < m.links->n_rows; i++)
    {
      const ScLinkSummary *const row = &m.links->rows[i];
      double want[SC_N_TIMES] = { 0 };
      for (guint32 comm = 0; comm < r->layout->n_comms; comm++)
        for (guint32 w = r->loads->walk_first[comm]; w < r->loads->walk_first[comm + 1]; w++)
          {
            const guint32 part = r->loads->walks[w].first_part; /* rings and sends: one part */
            for (guint32 l = r->loads->part_first[part]; l < r->loads->part_first[part + 1]; l++)
              if (r->loads->loads[l].link == row->link)
                for (guint k = 0; k < SC_N_TIMES; k++)
                  want[k] += r->loads->loads[l].count * bytes[r->fold->family_of[comm] * SC_N_TIMES + k];
          }
      for (guint k = 0; k < SC_N_TIMES; k++)
        {
          ck_assert_msg (fabs (row->bytes[k] - want[k]) <= 1e-9 * want[k], "%s, %s: %.3f bytes of %s, expected %.3f", c->name,
                         row->name, row->bytes[k], sc_time_kind_name ((ScTimeKind) k), want[k]);
          all += want[k];
        }
    }
  ck_assert_double_gt (all, 0);
}
END_TEST

START_TEST (folded_links_are_as_full_as_unfolded_ones)
{
  const Case *const c = &cases[_i];
  g_auto (Metered) folded = metered (c, FALSE);
  g_auto (Metered) every = metered (c, TRUE);
  const double step = (double) every.trace->end;
  ck_assert_uint_eq (every.links->n_left_out, 0);
  check_links (every.links, every.trace->end, every.run->loads->n_used, c->name);
  g_autofree const ScLinkSummary **of_link = g_new0 (const ScLinkSummary *, every.run->fabric->n_links);
  for (guint i = 0; i < every.links->n_rows; i++)
    of_link[every.links->rows[i].link] = &every.links->rows[i];
  g_autofree const ScLinkSummary **of_class = g_new0 (const ScLinkSummary *, folded.links->n_rows);
  for (guint i = 0; i < folded.links->n_rows; i++)
    of_class[folded.run->fold->link_class_of[folded.links->rows[i].link]] = &folded.links->rows[i];
  ck_assert_int_eq (folded.links->bin, every.links->bin);
  ck_assert_uint_eq (folded.links->n_bins, every.links->n_bins);
  for (guint32 l = 0; l < every.run->fabric->n_links; l++)
    {
      const guint32 class = folded.run->fold->link_class_of[l], bound = folded.run->fold->link_bound_of[l];
      ck_assert (class == SC_NONE || bound == SC_NONE);
      if (class != SC_NONE) /* every link of a class, not the first one only */
        {
          const ScLinkSummary *const a = of_class[class], *const b = of_link[l];
          ck_assert_msg (fabs (a->mean - b->mean) <= 1e-8 && fabs (a->peak - b->peak) <= 1e-6, "%s, %s: mean %.9f peak %.9f, unfolded %.9f %.9f",
                         c->name, b->name, a->mean, a->peak, b->mean, b->peak);
          ck_assert_double_eq_tol ((double) a->full, (double) b->full, 1e-8 * step);
          for (guint k = 0; k < SC_N_TIMES; k++)
            ck_assert_double_le (fabs (a->bytes[k] - b->bytes[k]), 1e-9 * b->bytes[k]);
          for (guint k = 0; k < folded.links->n_bins; k++)
            ck_assert_double_eq_tol (a->utilisation[k], b->utilisation[k], 1e-5);
        }
      if (bound != SC_NONE) /* what was dropped is never fuller than what implies it */
        for (guint k = 0; k < folded.links->n_bins; k++)
          ck_assert_double_le (of_link[l]->utilisation[k], of_class[bound]->utilisation[k] + 1e-5);
    }
  /* nor is any link that is left out fuller than the hottest */
  for (guint i = 0; i < every.links->n_rows; i++)
    ck_assert_double_le (every.links->rows[i].mean, folded.links->rows[0].mean + 1e-8);
}
END_TEST

START_TEST (metering_changes_nothing_in_the_trace)
{
  g_auto (Metered) m = metered (&cases[_i], FALSE);
  ck_assert_int_eq (m.trace->end, m.run->trace->end);
  ck_assert_uint_eq (m.trace->n_events, m.run->trace->n_events);
  ck_assert_mem_eq (m.trace->spans, m.run->trace->spans, m.trace->n_ops * sizeof (ScSpan));
  ck_assert_ptr_null (m.run->trace->usage);
}
END_TEST

/* The same bytes over every link, whatever form the calls take; but the gradient norm, 4 bytes, is on links as messages only. */
START_TEST (single_messages_carry_the_same_bytes)
{
  const Case *const c = &cases[_i];
  if (c->fabric.launch_s > 0 || c->fabric.nodes > 8)
    return; /* as in check_fold.c */
  g_auto (Metered) m = metered (c, TRUE);
  g_autoptr (FixRun) run = fix_run (m.topology, m.workload, m.items, TRUE, 4);
  g_autoptr (ScTrace) trace = sc_engine_run_metered (run->lowered->program, NULL);
  g_autoptr (ScLinksSummary) links = sc_links_summarise (&run->input, trace->usage);
  check_links (links, trace->end, run->loads->n_used, c->name);
  g_autofree const ScLinkSummary **of_link = g_new0 (const ScLinkSummary *, run->fabric->n_links);
  for (guint i = 0; i < links->n_rows; i++)
    of_link[links->rows[i].link] = &links->rows[i];
  for (guint i = 0; i < m.links->n_rows; i++)
    for (guint k = 0; k < SC_N_TIMES; k++)
      ck_assert_double_le (fabs (of_link[m.links->rows[i].link]->bytes[k] - m.links->rows[i].bytes[k]), 1e-9 * m.links->rows[i].bytes[k] + 8);
}
END_TEST

/* ---- shipped ones ---- */

static const struct
{
  const char *topology, *workload, *set[3];
} shipped[] = {
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=16" } },
  { "dgx-h100-8", "llama3-8b", { "plan.tp=4", "plan.gpus=32", "plan.global_batch=16" } },
  { "dgx-h100-8", "llama3-8b", { "plan.tp=16", "plan.gpus=32", "plan.global_batch=4" } },
  { "dgx-h100-superpod", "llama3-405b", { "plan.gpus=2048", "plan.global_batch=256" } },
  { "dgx-a100-superpod", "megatron-530b-full", { "plan.global_batch=70" } },
  { "dgx-a100-superpod", "megatron-22b-full", { NULL } },
  { "pcie-25gbe", "sc21-1.7b", { "plan.gpus=32", "plan.micro_batch=2", "plan.global_batch=64" } },
  { "dgx1-v100", "gpt-7.5b-zero", { "plan.gpus=16", "plan.global_batch=64" } },
  { "jean-zay-a100", "bloom-176b", { "plan.global_batch=64" } },
};

START_TEST (links_of_shipped_workloads_add_up)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) topology = sc_topology_load (shipped[_i].topology, NULL, NULL, &error);
  ck_assert_msg (topology != NULL, "%s", error != NULL ? error->message : "");
  g_auto (GStrv) set = g_new0 (char *, G_N_ELEMENTS (shipped[0].set) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (shipped[0].set); i++)
    set[i] = g_strdup (shipped[_i].set[i]);
  g_autoptr (ScWorkload) workload = sc_workload_load (shipped[_i].workload, set, &error);
  ck_assert_msg (workload != NULL, "%s", error != NULL ? error->message : "");
  const ScForecastOptions with_links = { .links = TRUE };
  g_autoptr (ScSummary) plain = sc_forecast (topology, workload, NULL, &error);
  g_autoptr (ScSummary) s = sc_forecast (topology, workload, &with_links, &error);
  ck_assert_msg (plain != NULL && s != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_ptr_null (plain->links);
  ck_assert_ptr_nonnull (s->links);
  ck_assert_int_eq (s->step, plain->step);
  ck_assert_uint_eq (s->links->n_rows, s->n_link_classes);
  check_links (s->links, s->step, s->n_links, workload->name);
  ck_assert_double_gt (s->links->rows[0].mean, 0);
  ck_assert_uint_gt (s->links->n_bins, SC_USAGE_BINS / 2);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("links");
  TCase *small = tcase_create ("small plans");
  tcase_set_timeout (small, 300);
  tcase_add_loop_test (small, bytes_of_a_link_are_those_of_the_calls_that_cross_it, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (slow (suite), folded_links_are_as_full_as_unfolded_ones, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (small, metering_changes_nothing_in_the_trace, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (suite), single_messages_carry_the_same_bytes, 0, G_N_ELEMENTS (cases));
  suite_add_tcase (suite, small);
  TCase *whole = tcase_create ("shipped workloads");
  tcase_set_timeout (whole, 300);
  tcase_add_loop_test (heavy (suite), links_of_shipped_workloads_add_up, 0, G_N_ELEMENTS (shipped));
  suite_add_tcase (suite, whole);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
