/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_pipeline.c - every schedule through the engine: as on paper, and with real layers. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/forecast.h"
#include "models/memory.h"
#include "models/schedule.h"
#include "pace.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

static const ScFramework bare = { .name = "bare", .version = "test", .fused_wgrad = TRUE };

typedef struct
{
  guint p, v, m, dp;
} Pipe;

static const Pipe pipes[] = { { 2, 1, 4, 1 }, { 4, 1, 8, 1 }, { 4, 2, 8, 1 }, { 2, 2, 2, 1 }, { 4, 2, 9, 1 }, { 4, 3, 12, 1 }, { 6, 1, 12, 1 },
                              { 8, 2, 16, 1 }, { 3, 2, 7, 1 }, { 2, 2, 4, 2 }, { 4, 1, 8, 2 } };

static gboolean
refuses (const ScSchedule *row, const Pipe *pipe)
{
  const ScScheduleShape shape = { pipe->p, pipe->v, pipe->m, pipe->p, 0 };
  return pipe->p == 1 || row->refuse (&shape) != NULL;
}

static FixPlan
plan_of (const Pipe *pipe, guint layers)
{
  return (FixPlan) { .pp = pipe->p, .vpp = pipe->v, .dp = pipe->dp, .layers = pipe->p * pipe->v * layers, .microbatches = pipe->m,
                     .overlap_grad = TRUE, .sharding = pipe->dp > 1 ? SC_SHARDING_DISTRIBUTED_OPTIMIZER : SC_SHARDING_NONE,
                     .overlap_param = pipe->dp > 1 };
}

/* F = I = W = 1 ms, transfers without time: the makespan of the paper, and nothing lost on the way. */
static void
check_pipe (const ScSchedule *row, const Pipe *pipe, gboolean overlapped, gboolean one_queue)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 16, .gpus = 1 });
  ScDevice *const d = g_ptr_array_index (t->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = 1e30;
  FixPlan plan = plan_of (pipe, 1);
  plan.overlap_p2p = overlapped;
  plan.one_queue = one_queue;
  plan.overlap_grad = plan.overlap_param = FALSE;
  plan.sharding = SC_SHARDING_NONE;
  plan.dp = 1;
  g_autoptr (ScWorkload) w = fix_workload (plan);
  w->framework = &bare;
  w->plan.schedule = row->name;
  if (row->placement == SC_PLACE_BOTH) /* both copies of a stage reduce their gradients */
    w->plan.grad_dtype = SC_DTYPE_BF16;
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0); /* stops the test on a deadlock */
  const double want = sc_orders_replay (r->lowered->orders, NULL, NULL, NULL) * MS;
  const double slack = row->placement == SC_PLACE_BOTH ? 1e-3 * want : 0;
  ck_assert_msg (fabs ((double) r->trace->end - want) <= slack, "%s p=%u v=%u m=%u%s%s: %.6f ms, expected %.6f", row->name, pipe->p,
                 pipe->v, pipe->m, overlapped ? " overlapped" : "", one_queue ? " one queue" : "", (double) r->trace->end / MS, want / MS);
}

START_TEST (the_engine_takes_as_long_as_the_order_on_paper)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    for (guint how = i % 2; how < 4; how += 2)
      if (!refuses (row, &pipes[i]) && !(how % 2 == 1 && strcmp (row->name, "1f1b") == 0))
        check_pipe (row, &pipes[i], how % 2 == 1, how / 2 == 1);
}
END_TEST

/* Of the class: the kernels' time. */
static double
compute_of (const FixRun *r)
{
  double sum = 0;
  for (guint32 k = 0; k < r->fold->n_classes; k++)
    {
      const ScActor *const a = &g_array_index (r->lowered->program->actors, ScActor, k);
      for (guint32 i = a->first_op; i < a->first_op + a->n_ops; i++)
        {
          const ScOp op_i = sc_program_find_op (r->lowered->program, i), *const op = &op_i;
          if (op->kind == SC_OP_WORK && op->tag != SC_TIME_OPTIMIZER)
            sum += (double) op->value * r->fold->class_size[k];
        }
    }
  return sum;
}

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

/* Real layers, transfers, data parallelism: the same work as 1F1B's or the interleaved form's, and memory that comes back. */
START_TEST (real_steps_do_the_same_work_and_free_what_they_take)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    for (guint how = (i + (guint) _i) % 8; how < 8; how += 8) /* overlapped or not, sequence parallel or not, one queue or not: each with some pipe */
      {
        const gboolean overlapped = how % 2 == 1;
        if (refuses (row, &pipes[i]) || (overlapped && strcmp (row->name, "1f1b") == 0))
          continue;
        g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 * pipes[i].p * pipes[i].dp, .gpus = 2, .nic_latency_s = 1e-6 });
        FixPlan plan = plan_of (&pipes[i], 2);
        plan.overlap_p2p = overlapped;
        plan.tp = 2;
        plan.sequence_parallel = how / 2 % 2 == 1;
        plan.one_queue = how / 4 == 1;
        g_autoptr (ScWorkload) w = fix_workload (plan);
        w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
        w->model.tied_embeddings = i % 2 == 1;
        w->plan.rank_order = i % 3 == 0 ? SC_ORDER_TP_CP_EP_PP_DP : SC_ORDER_TP_CP_EP_DP_PP;
        double compute[2];
        for (guint other = 0; other < 2; other++)
          {
            w->plan.schedule = other == 0 ? row->name : "gpipe";
            if (other == 1 && pipes[i].v > 1)
              w->plan.schedule = "looped-bfs";
            g_autoptr (ScStepItems) items = sc_step_items_new (w);
            g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
            compute[other] = compute_of (r);
            if (other > 0)
              continue;
            if (pipes[i].dp > 1 || pipes[i].p < 4)
              {
                g_autoptr (FixRun) unfolded = fix_run (t, w, items, TRUE, 0);
                ck_assert_double_eq_tol ((double) unfolded->trace->end, (double) r->trace->end, 1e-9 * (double) r->trace->end);
              }
            const ScLayerShape shape = sc_layer_shape (w, NULL);
            for (guint32 k = 0; k < r->fold->n_classes; k++)
              {
                static const ScMemKind passing[] = { SC_MEM_ACTIVATIONS, SC_MEM_LOGITS, SC_MEM_TRANSIENT, SC_MEM_COMM };
                gint64 most;
                for (guint q = 0; q < G_N_ELEMENTS (passing); q++)
                  ck_assert_int_eq (level_of (r, k, passing[q], &most), 0);
                const guint rank = sc_layout_coord (&w->plan, r->fold->representative[k]).pp;
                const guint in_flight = sc_orders_in_flight (r->lowered->orders, rank);
                const double chunk = 2 * sc_layer_saved_bytes (&shape);
                level_of (r, k, SC_MEM_ACTIVATIONS, &most);
                ck_assert_int_gt (most, 0);
                if (!sc_orders_split (r->lowered->orders) && rank > 0 && rank + 1 < pipes[i].p)
                  ck_assert_int_eq (most, llround (in_flight * chunk));
                if (rank > 0 && rank + 1 < pipes[i].p)
                  ck_assert_int_le (most, llround (in_flight * chunk));
              }
          }
        /* each picosecond of a kernel is in both; the parts of the backward are the same kernels */
        ck_assert_double_eq (compute[0], compute[1]);
      }
}
END_TEST

/* An order from a table is what its schedule is, but for how Megatron's schedules exchange tensors. */
START_TEST (an_order_from_a_table_runs_like_its_schedule)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || row->exchanges || row->placement == SC_PLACE_BOTH)
        continue;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 16, .gpus = 1, .nic_latency_s = 1e-5 });
      g_autoptr (ScWorkload) w = fix_workload (plan_of (&pipes[i], 1));
      g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 1e6);
      w->plan.schedule = row->name;
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      w->plan.schedule = "csv";
      w->plan.schedule_table = sc_orders_copy (r->lowered->orders);
      ck_assert (sc_workload_check (w, NULL));
      g_autoptr (FixRun) again = fix_run (t, w, items, FALSE, 0);
      ck_assert_int_eq (again->trace->end, r->trace->end);
    }
}
END_TEST

/* What the schedules are for: MODELLING 7.3, where I and W are alike. */
START_TEST (zero_bubble_schedules_beat_1f1b)
{
  static const char *const names[] = { "zb-h2", "zb-h1", "1f1b" };
  ScTime before = 0;
  double bubble = 0;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .layers = 16, .microbatches = 8 });
      w->plan.attention = SC_ATTENTION_UNFUSED;
      w->plan.schedule = names[i];
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
      ck_assert_ptr_nonnull (s);
      ck_assert_int_ge (s->step, before);
      if (i > 1)
        ck_assert_int_gt (s->step, before);
      before = s->step;
      ck_assert_double_ge (s->bubble_fraction, bubble);
      bubble = s->bubble_fraction;
    }
}
END_TEST

static Suite *
pipeline_suite (void)
{
  guint n_rows = 0;
  while (sc_schedule_all ()[n_rows] != NULL)
    n_rows++;
  Suite *const s = suite_create ("pipeline");
  TCase *const every = tcase_create ("every row");
  tcase_set_timeout (every, 120);
  tcase_add_loop_test (every, the_engine_takes_as_long_as_the_order_on_paper, 0, (int) n_rows);
  tcase_add_loop_test (heavy (s), real_steps_do_the_same_work_and_free_what_they_take, 0, (int) n_rows);
  tcase_add_loop_test (every, an_order_from_a_table_runs_like_its_schedule, 0, (int) n_rows);
  tcase_add_test (every, zero_bubble_schedules_beat_1f1b);
  suite_add_tcase (s, every);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (pipeline_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
