/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_pair.c - forward and backward in turns: all-to-alls of one pass under compute of the other. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/schedule.h"
#include "models/segments.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

static void
add_kernel (GArray *items, double seconds, ScTimeKind time)
{
  const ScItem item = { .kind = SC_ITEM_KERNEL, .time = time, .kernel = sc_kernel_memory ("kernel", SC_KERNEL_ELEMENTWISE, seconds * 1e9) };
  g_array_append_val (items, item);
}

static void
add_exchange (GArray *items, double bytes, ScTimeKind time)
{
  const ScItem item = { .kind = SC_ITEM_COLLECTIVE, .time = time, .comm = SC_COMM_EP, .coll = SC_COLL_ALL_TO_ALL, .name = "exchange", .bytes = bytes };
  g_array_append_val (items, item);
}

/* Attention, dispatch, experts, combine, and back: @forward_s and twice that of compute, four all-to-alls. */
static ScStepItems *
expert_items (double forward_s, double bytes)
{
  ScStepItems *const s = fix_items (0, 0, 0, 1e6);
  for (guint pass = 0; pass < 2; pass++)
    {
      const ScTimeKind time = pass == 0 ? SC_TIME_FORWARD : SC_TIME_BACKWARD;
      for (guint half = 0; half < 2; half++)
        {
          add_kernel (s->layers->pass[pass], forward_s * (pass + 1) / 2, time);
          add_exchange (s->layers->pass[pass], bytes, time);
        }
    }
  return s;
}

static double
exposed_ms (const FixRun *r, guint32 class_id)
{
  ScTime sum = 0;
  g_autoptr (ScSegments) segments = sc_segments_new (r->lowered->program, r->trace, r->trace->end);
  g_autoptr (GArray) parts = sc_segments_of_class (segments, class_id);
  for (guint i = 0; i < parts->len; i++)
    {
      const ScSegment *const s = &g_array_index (parts, ScSegment, i);
      sum += s->kind == SC_TIME_COMM_EP ? s->to - s->from : 0;
    }
  return (double) sum / MS;
}

/* Of the last class of each of four ranks. */
typedef struct
{
  double exposed_ms[4];
  ScTime end;
} Outcome;

static Outcome
run (const char *schedule, double bytes, guint layers)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 4 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .vpp = 2, .dp = 4, .layers = 8 * layers, .microbatches = 16, .overlap_p2p = TRUE });
  w->model.experts = 4;
  w->model.top_k = 2;
  w->model.expert_ffn = w->model.ffn;
  w->plan.ep = 4;
  w->plan.schedule = schedule;
  g_autoptr (ScStepItems) items = expert_items (2e-3, bytes);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  Outcome ret = { .end = r->trace->end };
  for (guint32 k = 0; k < r->fold->n_classes; k++)
    ret.exposed_ms[sc_layout_coord (&w->plan, r->fold->representative[k]).pp] = exposed_ms (r, k);
  return ret;
}

/* Four NVLink GPUs exchange 3/4 of 600 MB at 450 GB/s each: 1 ms, as long as half a forward. */
#define BYTES 600e6

START_TEST (pairs_hide_what_the_other_pass_computes_beside)
{
  const Outcome plain = run ("interleaved", BYTES, 2), pairs = run ("interleaved-a2a", BYTES, 2), none = run ("interleaved-a2a", 0, 2);
  for (guint rank = 0; rank < 4; rank++)
    {
      /* 16 micro-batches, 2 chunks, 2 layers, 4 all-to-alls of 1 ms */
      ck_assert_double_eq_tol (plain.exposed_ms[rank], 16 * 2 * 2 * 4 * 1.0, 0.5);
      /* warm-up and cool-down are exposed: w = 2 (3 - rank) + 4 + 1 forwards and as many backwards, of 2 all-to-alls in each of 2 layers; of a
       * pair the last one of the backward is, as nothing is left to run under it */
      const double w = 2 * (3 - rank) + 5;
      ck_assert_double_eq_tol (pairs.exposed_ms[rank], 2 * w * 4 + (32 - w) * 1, 1.0);
      ck_assert_double_lt (none.exposed_ms[rank], 0.5);
    }
  ck_assert_int_lt (pairs.end, plain.end);
}
END_TEST

START_TEST (pairs_without_experts_to_exchange_run_one_after_the_other)
{
  for (guint dual = 0; dual < 2; dual++)
    {
      ScTime end[2];
      for (guint ep = 0; ep < 2; ep++)
        {
          g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 2 });
          ScDevice *const d = g_ptr_array_index (t->devices, 0);
          d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = 1e30; /* an optimizer without cost */
          g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .vpp = dual > 0 ? 1 : 2, .dp = 2, .layers = 8, .microbatches = 16, .overlap_p2p = TRUE });
          ScFramework fw = *w->framework;
          fw.fp32_main_grads = FALSE;
          w->framework = &fw;
          w->plan.schedule = dual > 0 ? "dualpipe" : "interleaved-a2a";
          w->model.experts = 2;
          w->plan.ep = ep > 0 ? 2 : 1;
          g_autoptr (ScStepItems) items = expert_items (2e-3, 0);
          for (guint pass = 0; pass < SC_N_PASSES; pass++) /* no exchange at all */
            for (guint i = items->layers->pass[pass]->len; i-- > 0;)
              if (g_array_index (items->layers->pass[pass], ScItem, i).kind == SC_ITEM_COLLECTIVE)
                g_array_remove_index (items->layers->pass[pass], i);
          w->model.expert_ffn = 1; /* their gradients take no time */
          g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
          end[ep] = r->trace->end;
        }
      ck_assert_double_eq_tol ((double) end[0] / (double) end[1], 1, 2e-3);
    }
}
END_TEST

/* Of a schedule whose pairs cannot overlap, the report says so, and why. */
START_TEST (pairs_that_run_in_turn_are_said_to)
{
  static const struct
  {
    guint ep;
    ScSharding sharding;
    const char *schedule, *want;
  } rows[] = {
    { 1, SC_SHARDING_NONE, "dualpipe", "pairs of passes of dualpipe run one after the other: with ep 1 there are no exchanges to overlap" },
    { 2, SC_SHARDING_NONE, "dualpipe", NULL },
    { 2, SC_SHARDING_NONE, "dualpipev", NULL },
    { 2, SC_SHARDING_FSDP_FULL, "dualpipev", "pairs of passes of dualpipev run one after the other: passes that gather weights layer by layer" },
    { 1, SC_SHARDING_NONE, "1f1b", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const gboolean v = strcmp (rows[i].schedule, "dualpipev") == 0;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 2 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .vpp = v ? 2 : 1, .dp = 2, .layers = 8, .microbatches = 16, .sharding = rows[i].sharding });
      w->plan.schedule = rows[i].schedule;
      w->plan.attention = SC_ATTENTION_UNFUSED;
      w->model.experts = 2;
      w->model.top_k = 1;
      w->model.expert_ffn = 64;
      w->plan.ep = rows[i].ep;
      g_autoptr (GError) error = NULL;
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, &error);
      ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
      const char *found = NULL;
      for (guint k = 0; k < s->assumptions->len; k++)
        if (g_str_has_prefix (g_ptr_array_index (s->assumptions, k), "pairs of passes"))
          found = g_ptr_array_index (s->assumptions, k);
      ck_assert_msg (rows[i].want == NULL ? found == NULL : found != NULL && g_str_has_prefix (found, rows[i].want), "row %u: %s", i,
                     found != NULL ? found : "nothing said");
    }
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("pair");
  TCase *const all = tcase_create ("pairs");
  tcase_add_test (all, pairs_hide_what_the_other_pass_computes_beside);
  tcase_add_test (all, pairs_without_experts_to_exchange_run_one_after_the_other);
  tcase_add_test (all, pairs_that_run_in_turn_are_said_to);
  suite_add_tcase (suite, all);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
