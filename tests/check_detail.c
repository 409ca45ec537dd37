/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_detail.c - passes merged into few ops take as long and as much memory as their kernels (DESIGN 3.4). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/schedule.h"
#include "pace.h"

/* Step times of levels of detail agree within this. */
#define AGREE 0.005

typedef struct
{
  guint p, v, m, tp, dp;
  gboolean sp, overlap;
  double host_s; /* to issue an op */
} Row;

static const Row rows[] = {
  { 1, 1, 3, 1, 4, FALSE, FALSE, 0 },   { 1, 1, 4, 2, 2, TRUE, TRUE, 4e-6 },   { 2, 1, 4, 1, 2, FALSE, TRUE, 30e-6 },
  { 4, 1, 8, 2, 1, TRUE, FALSE, 4e-6 }, { 4, 2, 16, 2, 1, TRUE, TRUE, 0 },     { 4, 2, 8, 1, 2, FALSE, TRUE, 200e-6 },
  { 2, 2, 8, 2, 2, FALSE, FALSE, 4e-6 }, { 4, 1, 16, 1, 1, FALSE, FALSE, 1e-3 },
};

static ScSummary *
forecast (const Row *row, const ScSchedule *schedule, double tp_nic, ScDetail detail)
{
  const guint gpus = tp_nic > 0 ? 1 : 2; /* of a node: one, and tensor parallelism crosses nodes */
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = row->p * row->dp * row->tp, .gpus = gpus, .nic_latency_s = 1e-6, .launch_s = 1e-6 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = row->p, .vpp = row->v, .tp = row->tp, .dp = row->dp, .layers = 2 * row->p * row->v,
      .microbatches = row->m, .sequence_parallel = row->sp, .overlap_grad = row->overlap, .overlap_param = row->overlap,
      .sharding = row->overlap ? SC_SHARDING_DISTRIBUTED_OPTIMIZER : SC_SHARDING_NONE });
  ScFramework fw = *w->framework;
  fw.host_forward_s = row->host_s;
  fw.host_backward_s = row->host_s / 2;
  fw.async_tp_backward = TRUE;
  w->framework = &fw;
  w->plan.schedule = schedule->name;
  w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
  w->plan.recompute = row->m == 8 ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE;
  const ScForecastOptions options = { .detail = detail };
  g_autoptr (GError) error = NULL;
  ScSummary *const s = sc_forecast (t, w, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  for (guint k = 0; k < s->n_classes; k++) /* the parts make the step at every level */
    {
      ScTime sum = 0;
      for (guint i = 0; i < SC_N_TIMES; i++)
        sum += s->classes[k].time[i];
      ck_assert_int_eq (sum, s->step);
    }
  s->workload = NULL; /* both end here */
  s->topology = NULL;
  return s;
}

static gboolean
runs (const ScSchedule *schedule, const Row *row)
{
  const ScScheduleShape shape = { row->p, row->v, row->m, row->p, 0 };
  if (strcmp (schedule->name, "csv") == 0 || (schedule->exchanges && (row->v > 1) != (strcmp (schedule->name, "interleaved") == 0)))
    return FALSE;
  if (strcmp (schedule->name, "none") == 0 && row->p > 1)
    return FALSE;
  if (schedule->placement == SC_PLACE_BOTH && row->m % 2 != 0)
    return FALSE;
  return schedule->refuse == NULL || schedule->refuse (&shape) == NULL;
}

START_TEST (levels_agree_for_every_schedule)
{
  const ScSchedule *const schedule = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      if (!runs (schedule, &rows[i]))
        continue;
      g_autoptr (ScSummary) kernel = forecast (&rows[i], schedule, 0, SC_DETAIL_KERNEL);
      for (guint detail = SC_DETAIL_LAYER; detail < SC_N_DETAILS; detail++)
        {
          g_autoptr (ScSummary) s = forecast (&rows[i], schedule, 0, (ScDetail) detail);
          const double error = (double) s->step / (double) kernel->step - 1;
          ck_assert_msg (fabs (error) <= AGREE, "%s, row %u, %s: %+.3f %%", schedule->name, i, sc_detail_name ((ScDetail) detail), 100 * error);
          ck_assert_uint_eq (s->n_classes, kernel->n_classes);
          for (guint k = 0; k < s->n_classes; k++)
            {
              /* but for send buffers, which are freed in the middle of a pass */
              const double peak = (double) s->classes[k].peak_allocated_bytes / (double) kernel->classes[k].peak_allocated_bytes - 1;
              ck_assert_msg (fabs (peak) <= 2 * AGREE, "%s, row %u, %s, class %u: peak %+.3f %%", schedule->name, i,
                             sc_detail_name ((ScDetail) detail), k, 100 * peak);
            }
        }
    }
}
END_TEST

START_TEST (collectives_that_share_links_stay_calls)
{
  const Row row = { 4, 1, 8, 2, 2, TRUE, TRUE, 4e-6 };
  g_autoptr (ScSummary) kernel = forecast (&row, &sc_schedule_1f1b, 1, SC_DETAIL_KERNEL);
  for (guint detail = SC_DETAIL_LAYER; detail < SC_N_DETAILS; detail++)
    {
      g_autoptr (ScSummary) s = forecast (&row, &sc_schedule_1f1b, 1, (ScDetail) detail);
      gboolean tp = FALSE;
      for (guint32 i = 0; i < s->program->calls->len; i++)
        {
          const ScCall *const c = &g_array_index (s->program->calls, ScCall, i);
          tp |= c->tag == SC_TIME_COMM_TP && c->n_parts > 0;
        }
      ck_assert (tp);
      ck_assert_double_lt (fabs ((double) s->step / (double) kernel->step - 1), 0.02); /* two-rank rings through one NIC with everything else */
    }
}
END_TEST

START_TEST (a_stage_takes_few_ops)
{
  const Row row = { 4, 1, 16, 2, 1, TRUE, FALSE, 4e-6 };
  guint last = G_MAXUINT;
  for (guint detail = 0; detail < SC_N_DETAILS; detail++)
    {
      g_autoptr (ScSummary) s = forecast (&row, &sc_schedule_1f1b, 0, (ScDetail) detail);
      ck_assert_uint_lt (s->program->n_ops, last);
      last = s->program->n_ops;
    }
  ck_assert_uint_lt (last, 4 * 16 * 2 * 20); /* ranks, micro-batches, passes: a handful each, and their transfers */
}
END_TEST

int
main (void)
{
  guint n_rows = 0;
  while (sc_schedule_all ()[n_rows] != NULL)
    n_rows++;
  Suite *suite = suite_create ("detail");
  TCase *const every = tcase_create ("every schedule");
  tcase_set_timeout (every, 60);
  tcase_add_loop_test (heavy (suite), levels_agree_for_every_schedule, 0, (int) n_rows);
  suite_add_tcase (suite, every);
  TCase *const merged = tcase_create ("merged");
  tcase_add_test (merged, collectives_that_share_links_stay_calls);
  tcase_add_test (merged, a_stage_takes_few_ops);
  suite_add_tcase (suite, merged);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
