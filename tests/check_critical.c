/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_critical.c - the critical path: end to end from 0 to the end, along what was waited for. */
#include <check.h>
#include <stdlib.h>
#include "fixtures.h"
#include "models/critical.h"
#include "models/schedule.h"
#include "sim/engine.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

/* Ascending, without gap, and never a wait. */
static void
check_path (const GArray *path, ScTime end)
{
  ScTime now = 0;
  for (guint i = 0; i < path->len; i++)
    {
      const ScCriticalSegment *const s = &g_array_index (path, ScCriticalSegment, i);
      ck_assert_int_eq (s->from, now);
      ck_assert_int_gt (s->to, s->from);
      ck_assert_int_ne (s->kind, SC_TIME_BUBBLE);
      ck_assert_int_ne (s->kind, SC_TIME_LATE_PEER);
      now = s->to;
    }
  ck_assert_int_eq (now, end);
}

static void
check_segment (const GArray *path, guint i, guint32 class_id, ScTimeKind kind, ScTime length)
{
  ck_assert_uint_lt (i, path->len);
  const ScCriticalSegment *const s = &g_array_index (path, ScCriticalSegment, i);
  ck_assert_uint_eq (s->class_id, class_id);
  ck_assert_int_eq (s->kind, kind);
  ck_assert_int_eq (s->to - s->from, length);
}

START_TEST (a_call_leads_to_the_member_that_came_last)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 group = sc_program_add_group (p, 2);
  const guint32 call = sc_program_add_call (p, group, SC_TIME_COMM_TP, 2 * MS, 0, 0);
  /* both make the same call twice: first the second actor is late, then the first one */
  for (guint actor = 0; actor < 2; actor++)
    {
      sc_program_add_actor (p, 1, FALSE);
      sc_program_work (p, 0, SC_TIME_FORWARD, actor == 0 ? 1 * MS : 5 * MS);
      sc_program_call (p, 0, call);
      sc_program_work (p, 0, SC_TIME_BACKWARD, actor == 0 ? 7 * MS : 3 * MS);
      sc_program_call (p, 0, call);
    }
  g_autoptr (ScTrace) trace = sc_engine_run (p, NULL);
  g_autoptr (GArray) path = sc_critical_path (p, trace);
  check_path (path, 16 * MS);
  ck_assert_uint_eq (path->len, 4);
  check_segment (path, 0, 1, SC_TIME_FORWARD, 5 * MS);
  check_segment (path, 2, 0, SC_TIME_BACKWARD, 7 * MS);
}
END_TEST

START_TEST (an_event_leads_to_the_stream_that_recorded_it)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, FALSE);
  const guint32 event = sc_program_add_event (p);
  sc_program_work (p, 1, SC_TIME_COMM_DP, 4 * MS);
  sc_program_record (p, 1, event);
  sc_program_work (p, 0, SC_TIME_FORWARD, 1 * MS);
  sc_program_wait (p, 0, event);
  sc_program_work (p, 0, SC_TIME_OPTIMIZER, 2 * MS);
  g_autoptr (ScTrace) trace = sc_engine_run (p, NULL);
  g_autoptr (GArray) path = sc_critical_path (p, trace);
  check_path (path, 6 * MS);
  check_segment (path, 0, 0, SC_TIME_COMM_DP, 4 * MS);
  check_segment (path, 1, 0, SC_TIME_OPTIMIZER, 2 * MS);
}
END_TEST

START_TEST (what_the_host_has_not_issued_is_its_time)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, SC_TIME_FORWARD, 1 * MS)->issue_ns = 3000000;
  sc_program_work (p, 0, SC_TIME_BACKWARD, 1 * MS)->issue_ns = 3000000;
  g_autoptr (ScTrace) trace = sc_engine_run (p, NULL);
  g_autoptr (GArray) path = sc_critical_path (p, trace);
  check_path (path, 7 * MS);
  check_segment (path, 0, 0, SC_TIME_HOST, 3 * MS);
  check_segment (path, 2, 0, SC_TIME_HOST, 2 * MS);
}
END_TEST

/* 1F1B with equal stages: p - 1 forwards on the way in, p - 1 backwards on the way out, m of both in between. */
START_TEST (the_path_through_1f1b_is_its_closed_form)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .pp = 4, .layers = 4, .microbatches = 8, .overlap_p2p = TRUE });
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  g_autoptr (GArray) path = sc_critical_path (r->lowered->program, r->trace);
  check_path (path, r->trace->end);
  ScTime time[SC_N_TIMES] = { 0 };
  for (guint i = 0; i < path->len; i++)
    {
      const ScCriticalSegment *const s = &g_array_index (path, ScCriticalSegment, i);
      time[s->kind] += s->to - s->from;
    }
  ck_assert_int_eq (time[SC_TIME_FORWARD], (3 + 8) * 1 * MS);
  ck_assert_int_eq (time[SC_TIME_BACKWARD], (3 + 8) * 2 * MS);
}
END_TEST

START_TEST (parts_add_up_for_every_schedule)
{
  const ScSchedule *const *const rows = sc_schedule_all ();
  for (guint i = 0; rows[i] != NULL; i++)
    for (guint k = 0; k < 2; k++)
      {
        g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 4, .launch_s = 5e-6 });
        fix_fault (t, SC_FAULT_GPU, 1, 0, 0.8);
        for (guint vpp = 1; vpp <= 2; vpp++)
          {
            g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 2, .pp = 4, .vpp = vpp, .dp = 2, .layers = 8, .microbatches = 8, .overlap_p2p = k == 1, .overlap_grad = k == 1, .one_queue = k == 1, .sharding = SC_SHARDING_DISTRIBUTED_OPTIMIZER });
            w->plan.schedule = rows[i]->name;
            if (!sc_workload_check (w, NULL))
              continue;
            g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 1e6, 30e6);
            g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
            g_autoptr (GArray) path = sc_critical_path (r->lowered->program, r->trace);
            check_path (path, r->trace->end);
          }
      }
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("critical");
  TCase *const all = tcase_create ("critical path");
  tcase_add_test (all, a_call_leads_to_the_member_that_came_last);
  tcase_add_test (all, an_event_leads_to_the_stream_that_recorded_it);
  tcase_add_test (all, what_the_host_has_not_issued_is_its_time);
  tcase_add_test (all, the_path_through_1f1b_is_its_closed_form);
  tcase_add_test (all, parts_add_up_for_every_schedule);
  tcase_set_timeout (all, 120);
  suite_add_tcase (suite, all);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
