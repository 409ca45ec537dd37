/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_engine.c - programs of a few ops with times worked out by hand, and random ones held to rules and to a second,
 * simpler reckoning. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "sim/engine.h"
#include "sim/messages.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */
#define BYTE_A_PS 1e12 /* bytes/s: a byte takes a picosecond */

/* ---- helpers ---- */

static ScTrace *
run (const ScProgram *p)
{
  g_autoptr (GError) error = NULL;
  ScTrace *trace = sc_engine_run (p, &error);
  ck_assert_msg (trace != NULL, "%s", error != NULL ? error->message : "no trace, no error");
  ck_assert_uint_eq (trace->n_ops, p->ops->len);
  return trace;
}

static ScTime
ready_of (const ScProgram *p, const ScTrace *trace, guint32 op)
{
  const ScOp found = sc_program_find_op (p, op);
  return sc_trace_ready (trace, op, &found);
}

static void
expect (const ScTrace *trace, guint32 op, ScTime start, ScTime end)
{
  ck_assert_msg (trace->spans[op].start == start && trace->spans[op].end == end,
                 "op %u: %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT
                 " to %" G_GINT64_FORMAT, op, trace->spans[op].start, trace->spans[op].end, start, end);
}

static guint32
last_op (const ScProgram *p)
{
  return p->ops->len - 1;
}

/* A call of a new group over a new link of its own, on which it lasts @duration. */
static guint32
add_call (ScProgram *p, guint32 n_members, ScTime duration, double hold)
{
  const ScUse use = { 1, sc_program_add_link (p, BYTE_A_PS) };
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, n_members), 0, 0, 0, hold);
  sc_program_add_part (p, (double) duration, INFINITY, &use, 1);
  return call;
}

static guint32
add_host_wait (ScProgram *p, guint32 event)
{
  sc_program_add_op (p, SC_OP_HOST_WAIT, 0, 0, event, 0);
  return last_op (p);
}

/* ---- streams and events ---- */

START_TEST (an_empty_program_takes_no_time)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  g_autoptr (ScTrace) none = run (p);
  ck_assert_int_eq (none->end, 0);
  sc_program_add_actor (p, 3, TRUE);
  g_autoptr (ScTrace) idle = run (p);
  ck_assert_int_eq (idle->end, 0);
}
END_TEST

START_TEST (a_stream_runs_its_ops_one_by_one_and_streams_run_side_by_side)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 100);
  sc_program_work (p, 1, 0, 70);
  sc_program_work (p, 0, 0, 0);
  sc_program_work (p, 0, 0, 50);
  sc_program_work (p, 1, 0, 20);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 100);
  expect (trace, 1, 0, 70);
  expect (trace, 2, 100, 100);
  expect (trace, 3, 100, 150);
  expect (trace, 4, 70, 90);
  ck_assert_int_eq (trace->end, 150);
  ck_assert_uint_eq (trace->n_tasks, 5);
  ck_assert_uint_eq (trace->n_events, 2); /* a run is one event, however many ops it holds */
}
END_TEST

START_TEST (a_stream_waits_for_an_event_of_another)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, FALSE);
  const guint32 event = sc_program_add_event (p);
  sc_program_work (p, 0, 0, 100);
  sc_program_record (p, 0, event);
  sc_program_work (p, 0, 0, 50);
  sc_program_wait (p, 1, event);
  sc_program_work (p, 1, 0, 30);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 100);
  expect (trace, 1, 100, 100);
  expect (trace, 2, 100, 150);
  expect (trace, 3, 0, 100);
  expect (trace, 4, 100, 130);
}
END_TEST

START_TEST (an_event_that_has_fired_holds_nobody)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  const guint32 event = sc_program_add_event (p);
  sc_program_work (p, 0, 0, 10);
  sc_program_record (p, 0, event);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 40);
  sc_program_wait (p, 0, event);
  sc_program_work (p, 0, 0, 5);
  sc_program_wait (p, 1, event); /* two may wait for one */
  sc_program_work (p, 1, 0, 5);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 3, 40, 40);
  expect (trace, 4, 40, 45);
  expect (trace, 5, 0, 10);
  expect (trace, 6, 10, 15);
}
END_TEST

START_TEST (memory_changes_at_the_end_of_the_op_before_it)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 1, 100, 0.5);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_mem (p, 0, 1, 1000);
  sc_program_work (p, 0, 0, 100);
  sc_program_mem (p, 0, 1, 500);
  sc_program_mem (p, 0, 1, -200);
  sc_program_work (p, 0, 0, 50);
  sc_program_mem (p, 0, 1, -1300);
  sc_program_work (p, 1, 0, 80);
  sc_program_call (p, 1, call); /* from 80 to 180 at half rate */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 0);
  expect (trace, 1, 0, 120);
  expect (trace, 2, 120, 120);
  expect (trace, 3, 120, 120);
  expect (trace, 4, 120, 200); /* 30 by 180, 20 more */
  expect (trace, 5, 200, 200);
  ck_assert_int_eq (ready_of (p, trace, 5), 200);
}
END_TEST

/* ---- calls ---- */

START_TEST (a_call_starts_when_the_last_member_has_joined_and_ends_for_all_at_once)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 3, 100, 0);
  for (guint a = 0; a < 3; a++)
    {
      sc_program_add_actor (p, 1, FALSE);
      sc_program_work (p, 0, 0, 10 * (a + 1));
      sc_program_call (p, 0, call);
      sc_program_work (p, 0, 0, 7);
    }
  g_autoptr (ScTrace) trace = run (p);
  for (guint32 a = 0; a < 3; a++)
    {
      expect (trace, 3 * a + 1, 10 * (a + 1), 130);
      ck_assert_int_eq (ready_of (p, trace, 3 * a + 1), 30);
      expect (trace, 3 * a + 2, 130, 137);
    }
  ck_assert_double_eq (trace->link_bytes[0], 100);
}
END_TEST

/* Each row: a call of one member that has worked for 10 ps, and when it ends. */
static const struct
{
  ScTime  delay, tail;
  guint32 n_parts;
  ScTime  parts[3];
  ScTime  end;
} call_shapes[] = {
  { 0, 0, 1, { 100 }, 110 },
  { 5, 0, 1, { 100 }, 115 },
  { 0, 7, 1, { 100 }, 117 },
  { 5, 7, 1, { 100 }, 122 },
  { 5, 7, 3, { 40, 100, 60 }, 122 }, /* the last part, plus the tail */
  { 0, 0, 2, { 0, 0 }, 10 },         /* nothing to carry */
  { 0, 0, 0, { 0 }, 10 },            /* no part at all */
  { 5, 0, 0, { 0 }, 15 },
  { 0, 7, 0, { 0 }, 17 },
  { 5, 7, 0, { 0 }, 22 },
};

START_TEST (a_call_lasts_its_delay_its_longest_part_and_its_tail)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, call_shapes[_i].delay,
                                            call_shapes[_i].tail, 0);
  for (guint i = 0; i < call_shapes[_i].n_parts; i++)
    {
      const ScUse use = { 1, sc_program_add_link (p, BYTE_A_PS) };
      sc_program_add_part (p, (double) call_shapes[_i].parts[i], INFINITY, &use, 1);
    }
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 10);
  sc_program_call (p, 0, call);
  sc_program_call (p, 0, call); /* the same again */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 1, 10, call_shapes[_i].end);
  expect (trace, 2, call_shapes[_i].end, 2 * call_shapes[_i].end - 10);
}
END_TEST

START_TEST (a_part_over_no_link_keeps_to_its_cap)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 100, BYTE_A_PS / 2, NULL, 0);
  const guint32 free_call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 100, INFINITY, NULL, 0);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, call);
  sc_program_call (p, 0, free_call);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 200);
  expect (trace, 1, 200, 200);
}
END_TEST

/* ---- holds: work beside a call is slower ---- */

START_TEST (work_beside_a_call_slows_down_while_the_call_runs)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 1, 400, 0.5);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 300);
  sc_program_work (p, 0, 0, 600);
  sc_program_work (p, 0, 0, 50);
  sc_program_work (p, 1, 0, 200);
  sc_program_call (p, 1, call); /* 200 to 600 */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 400);    /* 200 at full rate, 100 at half */
  expect (trace, 1, 400, 1100); /* 100 by 600, 500 more at full rate */
  expect (trace, 2, 1100, 1150);
}
END_TEST

START_TEST (overlapping_calls_hold_together)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 a = add_call (p, 1, 400, 0.5), b = add_call (p, 1, 400, 0.25);
  sc_program_add_actor (p, 3, FALSE);
  sc_program_work (p, 0, 0, 1000);
  sc_program_work (p, 1, 0, 100);
  sc_program_call (p, 1, a); /* 100 to 500 */
  sc_program_work (p, 2, 0, 300);
  sc_program_call (p, 2, b); /* 300 to 700 */
  sc_program_work (p, 1, 0, 75); /* begins at 500, at rate 3/4 */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 1300); /* 100 + 200/2 + 200/4 + 200*3/4 = 400 by 700 (rate 1), 600 more */
  expect (trace, 5, 500, 600);
}
END_TEST

START_TEST (a_call_holds_all_of_its_members_but_nobody_else)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 2, 100, 0.5);
  for (guint a = 0; a < 3; a++)
    {
      sc_program_add_actor (p, 2, FALSE);
      sc_program_work (p, 0, 0, 200);
      if (a < 2)
        sc_program_call (p, 1, call);
    }
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 250);
  expect (trace, 2, 0, 250);
  expect (trace, 4, 0, 200);
}
END_TEST

START_TEST (a_call_holds_from_the_end_of_its_delay_to_the_end_of_its_tail)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 40, 60, 0.5);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 200);
  sc_program_call (p, 1, call); /* holds 40 to 100 */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 230);
}
END_TEST

START_TEST (a_call_slows_each_kind_of_work_by_a_share_of_its_own)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 1, 500, 0);
  sc_program_set_holds (p, (const double[SC_N_HOLDS]) { 0.5, 0.2, 0 });
  sc_program_add_actor (p, 3, FALSE);
  sc_program_work (p, 0, 0, 100);
  sc_program_work (p, 0, 0, 160)->held = 1;
  sc_program_work (p, 0, 0, 100);
  sc_program_work (p, 1, 0, 300)->held = 2;
  sc_program_call (p, 2, call);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 200);
  expect (trace, 1, 200, 400);
  expect (trace, 2, 400, 550); /* 50 by 500 */
  expect (trace, 3, 0, 300);
}
END_TEST

START_TEST (work_of_several_kinds_in_one_run_is_cut_where_a_call_begins)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 1, 100, 0);
  sc_program_set_holds (p, (const double[SC_N_HOLDS]) { 0.5, 0.75, 0 });
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 50);
  sc_program_work (p, 0, 0, 50)->held = 1;
  sc_program_work (p, 0, 0, 50);
  sc_program_work (p, 1, 0, 80)->held = 2;
  sc_program_call (p, 1, call); /* 80 to 180 */
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 50);
  expect (trace, 1, 50, 160);  /* 30 by 80, 20 at a quarter */
  expect (trace, 2, 160, 220); /* 10 by 180, 40 */
}
END_TEST

START_TEST (a_tenth_of_the_rate_is_always_left)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 a = add_call (p, 1, 1000, 0.75), b = add_call (p, 1, 1000, 0.75);
  sc_program_add_actor (p, 3, FALSE);
  sc_program_work (p, 0, 0, 150);
  sc_program_call (p, 1, a);
  sc_program_call (p, 2, b);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 1050);
}
END_TEST

/* ---- the host ---- */

START_TEST (a_stream_whose_ops_are_short_goes_at_the_pace_of_the_host)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  for (guint i = 0; i < 3; i++)
    sc_program_work (p, 0, 0, 4000)->issue_ns = 10;
  g_autoptr (ScTrace) trace = run (p);
  for (guint i = 0; i < 3; i++)
    expect (trace, i, 10000 * (i + 1), 10000 * (i + 1) + 4000);
}
END_TEST

START_TEST (the_host_runs_ahead_of_a_stream_whose_ops_are_long)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, FALSE);
  for (guint i = 0; i < 3; i++)
    sc_program_work (p, 0, 0, 10000)->issue_ns = 1;
  sc_program_work (p, 1, 0, 500)->issue_ns = 2; /* issued at 5 ns, after the three */
  g_autoptr (ScTrace) trace = run (p);
  for (guint i = 0; i < 3; i++)
    expect (trace, i, 1000 + 10000 * i, 11000 + 10000 * i);
  expect (trace, 3, 5000, 5500);
  ck_assert_uint_eq (trace->n_events, 4); /* the three are one run; each stream slept until its first op was issued */
}
END_TEST

START_TEST (a_host_that_waits_issues_nothing)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, FALSE);
  const guint32 event = sc_program_add_event (p);
  sc_program_work (p, 0, 0, 100000)->issue_ns = 1;  /* 1 to 101 ns */
  sc_program_record (p, 0, event)->issue_ns = 1;
  const guint32 wait = add_host_wait (p, event);    /* host there at 2, goes on at 101 */
  sc_program_work (p, 1, 0, 5000)->issue_ns = 3;
  sc_program_work (p, 0, 0, 5000)->issue_ns = 3;
  const guint32 again = add_host_wait (p, event);   /* fired long ago */
  sc_program_work (p, 1, 0, 5000)->issue_ns = 1;
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, wait, 2000, 101000);
  expect (trace, 3, 104000, 109000);
  expect (trace, 4, 107000, 112000);
  expect (trace, again, 107000, 107000);
  expect (trace, 6, 109000, 114000);
}
END_TEST

START_TEST (two_hosts_may_wait_for_one_event)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 event = sc_program_add_event (p);
  for (guint a = 0; a < 2; a++)
    {
      sc_program_add_actor (p, 1, FALSE);
      add_host_wait (p, event);
      sc_program_work (p, 0, 0, 10);
    }
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 100);
  sc_program_record (p, 0, event);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 1, 100, 110);
  expect (trace, 3, 100, 110);
}
END_TEST

/* ---- one hardware queue ---- */

/* k0 100 and k1 10 on stream 0, k2 5 on stream 1, k3 7 on stream 0. */
static ScProgram *
queue_program (gboolean one_queue)
{
  ScProgram *p = sc_program_new ();
  sc_program_add_actor (p, 2, one_queue);
  sc_program_work (p, 0, 0, 100);
  sc_program_work (p, 0, 0, 10);
  sc_program_work (p, 1, 0, 5);
  sc_program_work (p, 0, 0, 7);
  return p;
}

START_TEST (in_one_queue_no_op_starts_before_those_issued_before_it)
{
  g_autoptr (ScProgram) many = queue_program (FALSE);
  g_autoptr (ScTrace) free_trace = run (many);
  expect (free_trace, 2, 0, 5);
  expect (free_trace, 3, 110, 117);
  g_autoptr (ScProgram) one = queue_program (TRUE);
  g_autoptr (ScTrace) trace = run (one);
  expect (trace, 0, 0, 100);
  expect (trace, 1, 100, 110);
  expect (trace, 2, 100, 105); /* as soon as k1 has started */
  expect (trace, 3, 110, 117);
}
END_TEST

START_TEST (in_one_queue_ops_of_one_stream_in_a_row_are_one_run)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 2, TRUE);
  for (guint i = 0; i < 10; i++)
    {
      sc_program_work (p, 0, 0, 10);
      sc_program_mem (p, 1, 0, 1); /* enters no queue */
    }
  sc_program_work (p, 1, 0, 5); /* behind all of them */
  sc_program_work (p, 0, 0, 10);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 18, 90, 100);
  expect (trace, 20, 90, 95);
  expect (trace, 21, 100, 110);
  ck_assert_uint_eq (trace->n_events, 4); /* nine ops, the tenth, and the two behind it */
}
END_TEST

START_TEST (in_one_queue_a_call_has_started_when_it_is_joined)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 2, 50, 0), event = sc_program_add_event (p);
  sc_program_add_actor (p, 2, TRUE);
  sc_program_work (p, 0, 0, 20);
  sc_program_record (p, 0, event);
  sc_program_wait (p, 1, event);
  sc_program_call (p, 1, call);    /* joined at 20, its peer comes at 300 */
  sc_program_work (p, 0, 0, 10);   /* behind the call in the queue */
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 300);
  sc_program_call (p, 0, call);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 3, 20, 350);
  expect (trace, 4, 20, 30);
}
END_TEST

START_TEST (in_one_queue_an_op_that_waits_stops_all_behind_it)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 event = sc_program_add_event (p);
  sc_program_add_actor (p, 2, TRUE);
  sc_program_wait (p, 0, event);
  sc_program_work (p, 0, 0, 10);
  sc_program_work (p, 1, 0, 10);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 70);
  sc_program_record (p, 0, event);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 1, 70, 80);
  expect (trace, 2, 70, 80);
}
END_TEST

/* ---- what cannot be run ---- */

static void
expect_error (const ScProgram *p, ScEngineError code, const char *what)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTrace) trace = sc_engine_run (p, &error);
  ck_assert_ptr_null (trace);
  ck_assert (g_error_matches (error, SC_ENGINE_ERROR, (gint) code));
  ck_assert_msg (strstr (error->message, what) != NULL, "\"%s\" does not say \"%s\"", error->message, what);
}

START_TEST (a_deadlock_is_an_error_that_names_the_stream)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 event = sc_program_add_event (p);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 0, 0, 10);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_work (p, 1, 0, 10);
  sc_program_wait (p, 1, event);
  expect_error (p, SC_ENGINE_ERROR_DEADLOCK, "stream 1 of actor 1 can never pass its op 2, a wait for event 0");
}
END_TEST

START_TEST (a_call_that_a_member_never_joins_is_a_deadlock)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 call = add_call (p, 2, 10, 0);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, call);
  expect_error (p, SC_ENGINE_ERROR_DEADLOCK, "stream 0 of actor 0 can never pass its op 0, a call of group 0");
}
END_TEST

START_TEST (of_a_deadlock_the_one_is_named_that_the_others_stand_behind)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 event = sc_program_add_event (p);
  sc_program_add_actor (p, 2, TRUE);
  sc_program_wait (p, 1, event);
  sc_program_work (p, 1, 0, 10);
  sc_program_work (p, 0, 0, 10); /* stream 0 only stands in the queue */
  expect_error (p, SC_ENGINE_ERROR_DEADLOCK, "stream 1 of actor 0");
}
END_TEST

START_TEST (a_host_that_waits_for_ever_is_a_deadlock)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 event = sc_program_add_event (p);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 10);
  add_host_wait (p, event);
  expect_error (p, SC_ENGINE_ERROR_DEADLOCK, "the host of actor 0 can never pass its op 1, a wait for event 0");
  sc_program_work (p, 0, 0, 10);
  expect_error (p, SC_ENGINE_ERROR_DEADLOCK, "the host of actor 0");
}
END_TEST

START_TEST (a_time_too_long_to_count_is_an_error)
{
  const ScTime longest = sc_time_from_s (INFINITY);
  for (guint n = 1; n < 6; n++) /* several of them would not even add up in 64 bits */
    {
      g_autoptr (ScProgram) p = sc_program_new ();
      sc_program_add_actor (p, 1, FALSE);
      for (guint i = 0; i < n; i++)
        sc_program_work (p, 0, 0, longest);
      expect_error (p, SC_ENGINE_ERROR_TOO_LONG, "days");
    }
  g_autoptr (ScProgram) slow = sc_program_new ();
  const guint32 call = add_call (slow, 1, 1000, 0.9);
  sc_program_add_actor (slow, 2, FALSE);
  sc_program_work (slow, 0, 0, longest / 2);
  sc_program_call (slow, 1, call);
  g_autoptr (ScTrace) trace = run (slow); /* a tenth of the rate for a moment: would overflow if it stayed so */
  expect (trace, 0, 0, longest / 2 + 900);

  g_autoptr (ScProgram) flow = sc_program_new ();
  const guint32 endless = sc_program_add_call (flow, sc_program_add_group (flow, 1), 0, 0, longest, 0);
  sc_program_add_part (flow, 1e30, 1, NULL, 0);
  sc_program_add_actor (flow, 1, FALSE);
  sc_program_call (flow, 0, endless);
  expect_error (flow, SC_ENGINE_ERROR_TOO_LONG, "days");
}
END_TEST

START_TEST (forty_days_are_not_too_long)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  for (guint i = 0; i < 40; i++)
    sc_program_work (p, 0, 0, sc_time_from_s (86400));
  g_autoptr (ScTrace) trace = run (p);
  ck_assert_int_eq (trace->end, 40 * sc_time_from_s (86400));
}
END_TEST

/* ---- shared links: the unit cases of FOLDING.md, section 8 ----
 * Four nodes, a NIC of 50 GB/s out and in each; node n's links are 2n (out) and 2n + 1 (in).  A collective of 1 GB over
 * the four nodes in one call, a send from node 0 to node 5 in another. */

#define NIC_BYTES_S 50e9

typedef struct
{
  double bytes, streams, cap;   /* of the collective: per connection, connections on each NIC */
  double send_bytes;
  ScTime end, send_end;
} ShareCase;

static const ShareCase share_cases[] = {
  { .75e9, 1, INFINITY, 1e9, 30 * MS, 35 * MS },            /* U1 reduce-scatter: .75/25; + .25/50 */
  { 1.5e9, 1, INFINITY, 1e9, 50 * MS, 40 * MS },            /* U2 all-reduce: send 1/25; ring + .5/50 */
  { .375e9, 2, INFINITY, .5e9, 22500000000, 25 * MS },      /* U3 two channels: .375/(50/3); + .125/50 */
  { .25e9, 3, INFINITY, .5e9, 20 * MS, 25 * MS },           /* U4 all-to-all at once: .25/12.5; + .25/50 */
  { .75e9, 1, INFINITY, .5e9, 25 * MS, 20 * MS },           /* U4b in rounds: send .5/25; + .25/50 */
  { .75e9, 1, 20e9, 1e9, 37500000000, 33333333333 },        /* U5 a cap of 20: .75/20; send 1/30 */
};

START_TEST (a_collective_and_a_send_share_a_nic_by_connections)
{
  const ShareCase *const row = &share_cases[_i];
  g_autoptr (ScProgram) p = sc_program_new ();
  for (guint n = 0; n < 12; n++)
    sc_program_add_link (p, NIC_BYTES_S);
  ScUse uses[8];
  for (guint32 l = 0; l < 8; l++)
    uses[l] = (ScUse) { row->streams, l };
  const guint32 ring = sc_program_add_call (p, sc_program_add_group (p, 4), 0, 0, 0, 0);
  sc_program_add_part (p, row->bytes, row->cap, uses, 8);
  const ScUse route[] = { { 1, 0 }, { 1, 11 } };
  const guint32 send = sc_program_add_call (p, sc_program_add_group (p, 2), 0, 0, 0, 0);
  sc_program_add_part (p, row->send_bytes, INFINITY, route, 2);
  for (guint n = 0; n < 4; n++)
    {
      sc_program_add_actor (p, 2, FALSE);
      sc_program_call (p, 0, ring);
    }
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, send);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, send);
  g_autoptr (ScTrace) trace = run (p);
  for (guint32 n = 0; n < 4; n++)
    expect (trace, n, 0, row->end);
  expect (trace, 4, 0, row->send_end);
  expect (trace, 5, 0, row->send_end);
  ck_assert_double_eq (trace->link_bytes[0], row->bytes * row->streams + row->send_bytes);
  ck_assert_double_eq (trace->link_bytes[1], row->bytes * row->streams);
}
END_TEST

/* U7: two nodes on leaves of their own, one up-link of 100 for the 8 NICs of a node; eight rings of two, reduce-scatter
 * of 0.5 GB, and one send of 0.2 GB from NIC 0: nine on the up-link at 11.11, the send ends after 18 ms, 0.05 GB left
 * at 12.5. */
START_TEST (eight_rings_and_a_send_share_an_up_link_nine_to_one)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  guint32 out[2][8], in[2][8], up[2], down[2];
  for (guint n = 0; n < 2; n++)
    {
      for (guint i = 0; i < 8; i++)
        {
          out[n][i] = sc_program_add_link (p, NIC_BYTES_S);
          in[n][i] = sc_program_add_link (p, NIC_BYTES_S);
        }
      up[n] = sc_program_add_link (p, 100e9);
      down[n] = sc_program_add_link (p, 100e9);
    }
  for (guint i = 0; i < 9; i++)
    {
      const guint nic = i % 8;
      const ScUse uses[] = { { 1, out[0][nic] }, { 1, up[0] }, { 1, down[1] }, { 1, in[1][nic] },
                             { 1, out[1][nic] }, { 1, up[1] }, { 1, down[0] }, { 1, in[0][nic] } };
      const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
      sc_program_add_part (p, i < 8 ? .25e9 : .2e9, INFINITY, uses, i < 8 ? 8 : 4);
      sc_program_add_actor (p, 1, FALSE);
      sc_program_call (p, 0, call);
    }
  g_autoptr (ScTrace) trace = run (p);
  for (guint32 i = 0; i < 8; i++)
    expect (trace, i, 0, 22 * MS);
  expect (trace, 8, 0, 18 * MS);
}
END_TEST

/* U6: all-to-all of 1 GB over 4 nodes in 2 leaves, up-links of 25 GB/s, and a send of 0.5 GB inside the first leaf.  The
 * all-to-all is one part per kind of route: at first its local connection and the send share the NIC with two connections
 * that the up-link holds at 6.25 each: 18.75 each, 0.25 GB in 13.33 ms; then the send has 37.5: 20 ms.  Across: 40 ms. */
START_TEST (an_all_to_all_over_leaves_is_one_part_per_kind_of_route)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  guint32 out[4], in[4], up[2], down[2];
  for (guint n = 0; n < 4; n++)
    {
      out[n] = sc_program_add_link (p, NIC_BYTES_S);
      in[n] = sc_program_add_link (p, NIC_BYTES_S);
    }
  for (guint n = 0; n < 2; n++)
    {
      up[n] = sc_program_add_link (p, 25e9);
      down[n] = sc_program_add_link (p, 25e9);
    }
  ScUse local[8], across[12];
  for (guint n = 0; n < 4; n++)
    {
      local[2 * n] = (ScUse) { 1, out[n] };
      local[2 * n + 1] = (ScUse) { 1, in[n] };
      across[2 * n] = (ScUse) { 2, out[n] };
      across[2 * n + 1] = (ScUse) { 2, in[n] };
    }
  for (guint n = 0; n < 2; n++)
    {
      across[8 + 2 * n] = (ScUse) { 4, up[n] };
      across[9 + 2 * n] = (ScUse) { 4, down[n] };
    }
  const guint32 all = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 0.25e9, INFINITY, local, 8);
  sc_program_add_part (p, 0.25e9, INFINITY, across, 12);
  const ScUse route[] = { { 1, out[0] }, { 1, in[1] } };
  const guint32 send = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 0.5e9, INFINITY, route, 2);
  sc_program_add_actor (p, 2, FALSE);
  sc_program_call (p, 0, all);
  sc_program_call (p, 1, send);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 40000000000);
  expect (trace, 1, 0, 20000000000);
}
END_TEST

/* U8: a whole step.  4 nodes of 8 GPUs, tp8 dp2 pp2, 4 micro-batches of 1F1B, 2 layers a stage; forward 1 ms, backward 2 ms
 * and a TP all-reduce of 0.1 GB (0.388889 ms at 450 GB/s) a layer; boundaries 0.03 GB (0.6 ms), gradients 0.2 GB a
 * layer reduce-scattered under the last backward (2 ms), optimizer 1 ms, gather of 0.4 GB (4 ms).  F = 2.777778, B = 4.777778;
 * stage 1's last backward ends at 34.8, its send shares the NIC with the last bucket: 1.2 instead of 0.6;
 * 34.8 + 1.2 + 4.777778 + 2 + 1 + 4 = 47.777778. */
enum { WHOLE_COMPUTE, WHOLE_SEND_F, WHOLE_RECV_F, WHOLE_SEND_B, WHOLE_RECV_B, WHOLE_DATA, WHOLE_STREAMS };

typedef struct
{
  ScProgram *p;
  guint32 tp[2], forward, backward, reduce[2], gather[2];
} WholeStep;

static void
whole_order (WholeStep *s, guint8 after, guint8 stream)
{
  const guint32 event = sc_program_add_event (s->p);
  sc_program_record (s->p, after, event);
  sc_program_wait (s->p, stream, event);
}

static void
whole_receive (WholeStep *s, guint8 stream, guint32 call)
{
  sc_program_call (s->p, stream, call);
  whole_order (s, stream, WHOLE_COMPUTE);
}

static void
whole_pass (WholeStep *s, guint stage, gboolean backward, gboolean last)
{
  if (backward && stage == 0)
    whole_receive (s, WHOLE_RECV_B, s->backward);
  if (!backward && stage == 1)
    whole_receive (s, WHOLE_RECV_F, s->forward);
  for (guint layer = 0; layer < 2; layer++)
    {
      sc_program_work (s->p, WHOLE_COMPUTE, 0, (backward ? 2 : 1) * 1000000000LL);
      sc_program_call (s->p, WHOLE_COMPUTE, s->tp[stage]);
      if (!last)
        continue;
      whole_order (s, WHOLE_COMPUTE, WHOLE_DATA);
      sc_program_call (s->p, WHOLE_DATA, s->reduce[stage]);
    }
  if (backward && stage == 1)
    {
      whole_order (s, WHOLE_COMPUTE, WHOLE_SEND_B);
      sc_program_call (s->p, WHOLE_SEND_B, s->backward);
    }
  if (!backward && stage == 0)
    {
      whole_order (s, WHOLE_COMPUTE, WHOLE_SEND_F);
      sc_program_call (s->p, WHOLE_SEND_F, s->forward);
    }
}

START_TEST (a_whole_step_takes_the_time_that_was_reckoned_by_hand)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  WholeStep s = { .p = p };
  guint32 nvlink[2], out[2], in[2];
  for (guint z = 0; z < 2; z++)
    {
      nvlink[z] = sc_program_add_link (p, 450e9);
      out[z] = sc_program_add_link (p, NIC_BYTES_S);
      in[z] = sc_program_add_link (p, NIC_BYTES_S);
    }
  for (guint z = 0; z < 2; z++)
    {
      const guint32 tp = sc_program_add_group (p, 1), dp = sc_program_add_group (p, 1);
      const ScUse ring[] = { { 1, nvlink[z] } }, rail[] = { { 1, out[z] }, { 1, in[z] } };
      s.tp[z] = sc_program_add_call (p, tp, 0, 0, 0, 0);
      sc_program_add_part (p, 2 * 7 / 8.0 * 0.1e9, INFINITY, ring, 1);
      s.reduce[z] = sc_program_add_call (p, dp, 0, 0, 0, 0);
      sc_program_add_part (p, 0.5 * 0.2e9, INFINITY, rail, 2);
      s.gather[z] = sc_program_add_call (p, dp, 0, 0, 0, 0);
      sc_program_add_part (p, 0.5 * 0.4e9, INFINITY, rail, 2);
    }
  const ScUse there[] = { { 1, out[0] }, { 1, in[1] } }, back[] = { { 1, out[1] }, { 1, in[0] } };
  s.forward = sc_program_add_call (p, sc_program_add_group (p, 2), 0, 0, 0, 0);
  sc_program_add_part (p, 0.03e9, INFINITY, there, 2);
  s.backward = sc_program_add_call (p, sc_program_add_group (p, 2), 0, 0, 0, 0);
  sc_program_add_part (p, 0.03e9, INFINITY, back, 2);
  for (guint z = 0; z < 2; z++)
    {
      sc_program_add_actor (p, WHOLE_STREAMS, FALSE);
      if (z == 0)
        whole_pass (&s, z, FALSE, FALSE);
      for (guint n = 0; n < 4 - (z == 0); n++)
        {
          whole_pass (&s, z, FALSE, FALSE);
          whole_pass (&s, z, TRUE, z == 1 && n == 3);
        }
      if (z == 0)
        whole_pass (&s, z, TRUE, TRUE);
      whole_order (&s, WHOLE_DATA, WHOLE_COMPUTE);
      sc_program_work (p, WHOLE_COMPUTE, 0, 1000000000);
      sc_program_call (p, WHOLE_COMPUTE, s.gather[z]);
    }
  g_autoptr (ScTrace) trace = run (p);
  ck_assert_int_le (ABS (trace->end - 47777777778), 20); /* some twenty roundings of a third of a picosecond */
}
END_TEST

/* U10: ring all-reduce of 2^-10 GB over 4 nodes, 10 us a round: T_alone = 6 (10 us + 2^-12 GB / 50 GB/s) as a cap. */
START_TEST (latency_as_a_cap_makes_a_lone_collective_last_its_closed_form)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const double payload = 1e9 / 1024, alone_s = 6 * (10e-6 + payload / 4 / NIC_BYTES_S);
  ScUse uses[8];
  for (guint l = 0; l < 8; l++)
    uses[l] = (ScUse) { 1, sc_program_add_link (p, NIC_BYTES_S) };
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 1.5 * payload, 1.5 * payload / alone_s, uses, 8);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, call);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, sc_time_from_s (alone_s));
  ck_assert_int_eq ((trace->end + 500000) / 1000000, 89); /* 0.089297 ms */
}
END_TEST

/* ---- messages ---- */

/* A ring in which each of n nodes sends a chunk to its right in each of n_steps steps. */
typedef struct
{
  ScMessages script;
  guint32 n, n_steps;
  double  bytes;
  ScUse   uses[16][2];
} Ring;

static void
ring_describe (const ScMessages *script, guint32 id, ScMessage *ret)
{
  const Ring *const ring = (const Ring *) script;
  *ret = (ScMessage) { ring->bytes, ring->uses[id % ring->n], 2 };
}

static guint8
ring_n_before (const ScMessages *script, guint32 id)
{
  return id < ((const Ring *) script)->n ? 0 : 2;
}

static guint
ring_after_delivery (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT])
{
  const Ring *const ring = (const Ring *) script;
  if (id / ring->n + 1 == ring->n_steps)
    return 0;
  ret_next[0] = (id / ring->n + 1) * ring->n + (id + 1) % ring->n;
  return 1;
}

static guint
ring_after_drain (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT])
{
  const Ring *const ring = (const Ring *) script;
  if (id / ring->n + 1 == ring->n_steps)
    return 0;
  ret_next[0] = id + ring->n;
  return 1;
}

static void
ring_init (Ring *ring, ScProgram *p, guint32 n, guint32 n_steps, double bytes, ScTime latency, double cap)
{
  *ring = (Ring) { .script = { .n = n * n_steps, .latency = latency, .cap = cap, .describe = ring_describe,
                               .n_before = ring_n_before, .after_delivery = ring_after_delivery,
                               .after_drain = ring_after_drain },
                   .n = n, .n_steps = n_steps, .bytes = bytes };
  const guint32 first = p->links->len;
  for (guint i = 0; i < 2 * n; i++)
    sc_program_add_link (p, BYTE_A_PS);
  for (guint32 i = 0; i < n; i++)
    {
      ring->uses[i][0] = (ScUse) { 1, first + 2 * i };
      ring->uses[i][1] = (ScUse) { 1, first + 2 * ((i + 1) % n) + 1 };
    }
}

/* Each row: a ring, and what one step of it takes. */
static const struct
{
  guint32 n, n_steps;
  double  bytes, cap;
  ScTime  latency, step;
} rings[] = {
  { 2, 2, 1000, INFINITY, 0, 1000 },
  { 4, 6, 1000, INFINITY, 0, 1000 },
  { 4, 6, 1000, INFINITY, 300, 1300 },
  { 4, 6, 1000, BYTE_A_PS / 2, 300, 2300 },
  { 16, 30, 1000, BYTE_A_PS / 4, 0, 4000 },
  { 8, 14, 0, INFINITY, 50, 50 },
  { 4, 6, 0, INFINITY, 0, 0 },
  { 1, 0, 1000, INFINITY, 50, 0 }, /* no message at all */
};

START_TEST (a_ring_of_messages_takes_its_closed_form)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  Ring ring;
  ring_init (&ring, p, rings[_i].n, rings[_i].n_steps, rings[_i].bytes, rings[_i].latency, rings[_i].cap);
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 2), 0, 5, 7, 0);
  g_array_index (p->calls, ScCall, call).messages = &ring.script;
  for (guint a = 0; a < 2; a++)
    {
      sc_program_add_actor (p, 1, FALSE);
      sc_program_work (p, 0, 0, 10 * (a + 1));
      sc_program_call (p, 0, call);
      sc_program_call (p, 0, call); /* a script may run again */
    }
  g_autoptr (ScTrace) trace = run (p);
  const ScTime once = 5 + rings[_i].n_steps * rings[_i].step + 7;
  for (guint32 a = 0; a < 2; a++)
    {
      expect (trace, 3 * a + 1, 10 * (a + 1), 20 + once);
      expect (trace, 3 * a + 2, 20 + once, 20 + 2 * once);
    }
  ck_assert_uint_eq (trace->n_tasks, 6 + 2 * ring.script.n);
  for (guint i = 0; i < p->links->len; i++)
    ck_assert_double_eq (trace->link_bytes[i], 2 * rings[_i].n_steps * rings[_i].bytes);
}
END_TEST

/* Two rings of messages at once on the same links: every link is shared by two, so each takes twice its time. */
START_TEST (messages_of_two_calls_share_links_as_two_flows_do)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  Ring ring;
  ring_init (&ring, p, 4, 6, 1000, 0, INFINITY);
  for (guint i = 0; i < 2; i++)
    {
      const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
      g_array_index (p->calls, ScCall, call).messages = &ring.script;
      sc_program_add_actor (p, 1, FALSE);
      sc_program_call (p, 0, call);
    }
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 12000);
  expect (trace, 1, 0, 12000);
}
END_TEST

/* U1 as messages: three steps of .25 GB between four nodes, and a send from node 0: 30 and 35 ms as well. */
START_TEST (a_ring_of_messages_and_a_send_share_a_nic)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  Ring ring;
  ring_init (&ring, p, 4, 3, .25e9, 0, INFINITY);
  for (guint i = 0; i < p->links->len; i++)
    g_array_index (p->links, double, i) = NIC_BYTES_S;
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  g_array_index (p->calls, ScCall, call).messages = &ring.script;
  const guint32 send = sc_program_add_call (p, sc_program_add_group (p, 1), 0, 0, 0, 0);
  sc_program_add_part (p, 1e9, INFINITY, ring.uses[0], 1);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, call);
  sc_program_add_actor (p, 1, FALSE);
  sc_program_call (p, 0, send);
  g_autoptr (ScTrace) trace = run (p);
  expect (trace, 0, 0, 30 * MS);
  expect (trace, 1, 0, 35 * MS);
}
END_TEST

/* ---- random programs ----
 * Steps are drawn in one global order; a step waits only for what earlier steps do, so no program can deadlock. */

#define N_ACTORS  4
#define N_STREAMS 3
#define N_GROUPS  3
#define N_LINKS   2 /* that all calls share, where they share */

typedef struct
{
  guint8  kind, stream;
  guint32 actor, arg; /* CALL: arg is the group, and all of its members make it */
  gint64  value;
  guint32 issue_ns;
  guint32 op[N_ACTORS]; /* in the program built last */
} Step;

typedef struct
{
  gboolean host, one_queue;
  gboolean shared;      /* calls share links; else each group has one of its own */
  double   holds[N_GROUPS];
} Style;

typedef struct
{
  Style    style;
  Step     steps[200];
  guint    n_steps;
  guint32  n_events;
  gboolean member[N_GROUPS][N_ACTORS];
  ScTime   delay[N_GROUPS], tail[N_GROUPS];
  double   bytes[N_GROUPS];
} Plan;

static void
draw_plan (Plan *plan, const Style *style, guint32 seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  *plan = (Plan) { .style = *style, .n_steps = G_N_ELEMENTS (plan->steps) };
  for (guint g = 0; g < N_GROUPS; g++)
    {
      for (guint a = 0; a < N_ACTORS; a++)
        plan->member[g][a] = g_rand_boolean (rand);
      plan->member[g][g_rand_int_range (rand, 0, N_ACTORS)] = TRUE;
      plan->delay[g] = g_rand_boolean (rand) ? 0 : g_rand_int_range (rand, 1, 500);
      plan->tail[g] = g_rand_boolean (rand) ? 0 : g_rand_int_range (rand, 1, 500);
      plan->bytes[g] = g_rand_int_range (rand, 0, 4000);
    }
  for (guint i = 0; i < plan->n_steps; i++)
    {
      Step *const step = &plan->steps[i];
      *step = (Step) { .stream = (guint8) g_rand_int_range (rand, 0, N_STREAMS),
                       .actor = g_rand_int_range (rand, 0, N_ACTORS) };
      if (style->host)
        step->issue_ns = g_rand_boolean (rand) ? 0 : g_rand_int_range (rand, 0, 2);
      switch (g_rand_int_range (rand, 0, 12))
        {
        case 0:
          step->kind = SC_OP_RECORD;
          step->arg = plan->n_events++;
          break;
        case 1:
        case 2:
          step->kind = style->host && g_rand_int_range (rand, 0, 4) == 0 ? SC_OP_HOST_WAIT : SC_OP_WAIT;
          if (plan->n_events == 0)
            step->kind = SC_OP_MEM;
          else
            step->arg = (guint32) g_rand_int_range (rand, 0, (gint32) plan->n_events);
          break;
        case 3:
          step->kind = SC_OP_MEM;
          step->value = g_rand_int_range (rand, -100, 100);
          break;
        case 4:
          step->kind = SC_OP_CALL;
          step->arg = g_rand_int_range (rand, 0, N_GROUPS);
          step->stream = (guint8) (step->arg % N_STREAMS);
          break;
        default:
          step->kind = SC_OP_WORK;
          step->value = g_rand_int_range (rand, 0, 6) == 0 ? 0 : g_rand_int_range (rand, 1, 1000);
        }
    }
}

/* @split: a record of an event of its own after each WORK, which ends every run there. */
static ScProgram *
build_plan (Plan *plan, gboolean split)
{
  ScProgram *p = sc_program_new ();
  p->n_events = plan->n_events;
  ScUse shared[N_LINKS];
  for (guint l = 0; l < N_LINKS; l++)
    shared[l] = (ScUse) { 1 + l, sc_program_add_link (p, BYTE_A_PS * (1 + l)) };
  for (guint g = 0; g < N_GROUPS; g++)
    {
      guint32 n_members = 0;
      for (guint a = 0; a < N_ACTORS; a++)
        n_members += plan->member[g][a];
      const guint32 group = sc_program_add_group (p, n_members);
      sc_program_add_call (p, group, 0, plan->delay[g], plan->tail[g], 0);
      sc_program_set_holds (p, (const double[SC_N_HOLDS]) { plan->style.holds[g], plan->style.holds[g] > 0.5 ? 0.5 : 0, 0 });
      const ScUse own = { 1, sc_program_add_link (p, BYTE_A_PS) };
      if (plan->style.shared)
        sc_program_add_part (p, plan->bytes[g], g == 0 ? BYTE_A_PS / 3 : INFINITY, shared, N_LINKS);
      else
        sc_program_add_part (p, plan->bytes[g], INFINITY, &own, 1);
    }
  for (guint32 a = 0; a < N_ACTORS; a++)
    {
      sc_program_add_actor (p, N_STREAMS, plan->style.one_queue);
      for (guint i = 0; i < plan->n_steps; i++)
        {
          Step *const step = &plan->steps[i];
          if (step->kind == SC_OP_CALL ? !plan->member[step->arg][a] : step->actor != a)
            continue;
          ScOp *const op = sc_program_add_op (p, (ScOpKind) step->kind, step->stream, 0, step->arg, step->value);
          op->issue_ns = step->issue_ns;
          op->held = i % SC_N_HOLDS & 15u;
          step->op[a] = last_op (p);
          if (split && step->kind == SC_OP_WORK)
            sc_program_record (p, step->stream, sc_program_add_event (p));
        }
    }
  return p;
}

static gboolean
is_in (const Plan *plan, const Step *step, guint32 actor)
{
  return step->kind == SC_OP_CALL ? plan->member[step->arg][actor] : step->actor == actor;
}

/* Each row: what random programs are made of. */
static const Style alone_styles[] = {
  { FALSE, FALSE, FALSE, { 0 } },
  { TRUE, FALSE, FALSE, { 0 } },
  { FALSE, TRUE, FALSE, { 0 } },
  { TRUE, TRUE, FALSE, { 0 } },
};

/* Without holds and sharing, every time is the longest path to it: a second reckoning, step by step in global order. */
START_TEST (without_sharing_every_time_is_that_of_the_longest_path)
{
  for (guint32 seed = 0; seed < 60; seed++)
    {
      Plan plan;
      draw_plan (&plan, &alone_styles[_i], seed);
      g_autoptr (ScProgram) p = build_plan (&plan, FALSE);
      g_autoptr (ScTrace) trace = run (p);
      ScTime free_at[N_ACTORS][N_STREAMS] = { { 0 } }, host[N_ACTORS] = { 0 }, started[N_ACTORS] = { 0 };
      ScTime fired[G_N_ELEMENTS (plan.steps)] = { 0 };
      gboolean ok = TRUE;
      for (guint i = 0; i < plan.n_steps; i++)
        {
          const Step *const step = &plan.steps[i];
          ScTime ready = 0, begin[N_ACTORS] = { 0 };
          for (guint32 a = 0; a < N_ACTORS; a++)
            {
              if (!is_in (&plan, step, a))
                continue;
              host[a] += step->issue_ns * 1000;
              begin[a] = step->kind == SC_OP_HOST_WAIT ? host[a] : MAX (free_at[a][step->stream], host[a]);
              if (step->kind == SC_OP_WORK || step->kind == SC_OP_CALL)
                {
                  if (plan.style.one_queue)
                    begin[a] = MAX (begin[a], started[a]);
                  started[a] = begin[a];
                }
              ready = MAX (ready, begin[a]);
            }
          for (guint32 a = 0; a < N_ACTORS; a++)
            {
              if (!is_in (&plan, step, a))
                continue;
              ScTime done = ready;
              if (step->kind == SC_OP_WORK)
                done += step->value;
              else if (step->kind == SC_OP_CALL)
                done += plan.delay[step->arg] + (ScTime) plan.bytes[step->arg] + plan.tail[step->arg];
              else if (step->kind == SC_OP_RECORD)
                fired[step->arg] = done;
              else if (step->kind == SC_OP_WAIT || step->kind == SC_OP_HOST_WAIT)
                done = MAX (done, fired[step->arg]);
              if (step->kind == SC_OP_HOST_WAIT)
                host[a] = done;
              else
                free_at[a][step->stream] = done;
              const ScSpan *const span = &trace->spans[step->op[a]];
              ok &= span->start == begin[a] && span->end == done && ready_of (p, trace, step->op[a]) == ready;
            }
          ck_assert_msg (ok, "seed %u, step %u, a %u", seed, i, step->kind);
        }
    }
}
END_TEST

/* Rates of 1, 1/2 and 1/4, in which no time is rounded: at most two calls run beside each other on an actor. */
static const Style exact_styles[] = {
  { FALSE, FALSE, FALSE, { 0.5, 0, 0 } },
  { TRUE, FALSE, FALSE, { 0.5, 0, 0 } },
  { TRUE, FALSE, TRUE, { 0.75, 0, 0 } },
  { FALSE, FALSE, TRUE, { 0, 0.5, 0 } },
  { TRUE, TRUE, TRUE, { 0, 0, 0.75 } },
};

START_TEST (a_run_in_one_piece_takes_the_times_of_its_ops_one_by_one)
{
  for (guint32 seed = 0; seed < 60; seed++)
    {
      Plan plan;
      draw_plan (&plan, &exact_styles[_i], seed);
      g_autoptr (ScProgram) whole = build_plan (&plan, FALSE);
      g_autoptr (ScTrace) trace = run (whole);
      const Plan as_built = plan;
      g_autoptr (ScProgram) split = build_plan (&plan, TRUE);
      g_autoptr (ScTrace) one_by_one = run (split);
      gboolean ok = TRUE;
      for (guint i = 0; i < plan.n_steps; i++)
        for (guint32 a = 0; a < N_ACTORS; a++)
          if (is_in (&plan, &plan.steps[i], a))
            {
              const guint32 op = as_built.steps[i].op[a], other = plan.steps[i].op[a];
              ok &= trace->spans[op].start == one_by_one->spans[other].start
                    && trace->spans[op].end == one_by_one->spans[other].end
                    && ready_of (whole, trace, op) == ready_of (split, one_by_one, other);
            }
      ck_assert_msg (ok, "seed %u", seed);
      ck_assert_int_eq (trace->end, one_by_one->end);
      ck_assert_uint_le (trace->n_events, one_by_one->n_events);
    }
}
END_TEST

static const Style full_styles[] = {
  { FALSE, FALSE, TRUE, { 0.1, 0.3, 0.7 } },
  { TRUE, FALSE, TRUE, { 0.05, 0.62, 0.41 } },
  { TRUE, TRUE, TRUE, { 0.3, 0.3, 0.3 } },
  { FALSE, TRUE, FALSE, { 0.99, 0.01, 0.5 } },
};

START_TEST (under_random_holds_runs_in_one_piece_are_a_rounding_away)
{
  for (guint32 seed = 0; seed < 60; seed++)
    {
      Plan plan;
      draw_plan (&plan, &full_styles[_i], seed);
      g_autoptr (ScProgram) whole = build_plan (&plan, FALSE);
      g_autoptr (ScTrace) trace = run (whole);
      g_autoptr (ScProgram) split = build_plan (&plan, TRUE);
      g_autoptr (ScTrace) one_by_one = run (split);
      /* Half a picosecond an op, and of its peers. */
      ck_assert_int_le (ABS (trace->end - one_by_one->end), plan.n_steps);
    }
}
END_TEST

START_TEST (time_never_goes_back_and_calls_end_together)
{
  for (guint32 seed = 0; seed < 60; seed++)
    {
      Plan plan;
      draw_plan (&plan, &full_styles[_i], seed);
      g_autoptr (ScProgram) p = build_plan (&plan, FALSE);
      g_autoptr (ScTrace) trace = run (p);
      ScTime free_at[N_ACTORS][N_STREAMS] = { { 0 } }, latest = 0;
      double crossed = 0;
      gboolean ok = TRUE;
      for (guint i = 0; i < plan.n_steps; i++)
        {
          const Step *const step = &plan.steps[i];
          ScTime call_end = SC_TIME_NONE;
          if (step->kind == SC_OP_CALL)
            crossed += plan.bytes[step->arg];
          for (guint32 a = 0; a < N_ACTORS; a++)
            {
              if (!is_in (&plan, step, a))
                continue;
              const ScSpan span = trace->spans[step->op[a]];
              latest = MAX (latest, span.end);
              ok &= 0 <= span.start && span.start <= span.end && span.start <= ready_of (p, trace, step->op[a])
                    && ready_of (p, trace, step->op[a]) <= span.end;
              if (step->kind == SC_OP_HOST_WAIT)
                continue;
              ok &= span.start >= free_at[a][step->stream];
              free_at[a][step->stream] = span.end;
              if (step->kind == SC_OP_WORK)
                ok &= span.end - span.start >= step->value - 1 && span.end - span.start <= 10 * step->value + 10;
              if (step->kind == SC_OP_RECORD || step->kind == SC_OP_MEM)
                ok &= span.start == span.end;
              if (step->kind == SC_OP_CALL)
                {
                  ok &= call_end == SC_TIME_NONE || call_end == span.end;
                  call_end = span.end;
                  ok &= span.end - ready_of (p, trace, step->op[a])
                        >= plan.delay[step->arg] + (ScTime) plan.bytes[step->arg] + plan.tail[step->arg];
                }
            }
          ck_assert_msg (ok, "seed %u, step %u, a %u", seed, i, step->kind);
        }
      ck_assert_int_eq (trace->end, latest);
      if (plan.style.shared)
        for (guint l = 0; l < N_LINKS; l++)
          ck_assert_double_eq_tol (trace->link_bytes[l], crossed * (1 + l), 1e-9 * crossed);
    }
}
END_TEST

START_TEST (the_same_program_gives_the_same_bytes)
{
  Plan plan;
  draw_plan (&plan, &full_styles[_i], 4711);
  g_autoptr (ScProgram) p = build_plan (&plan, FALSE);
  g_autoptr (ScTrace) first = run (p);
  g_autoptr (ScTrace) second = run (p);
  ck_assert_int_eq (memcmp (first->spans, second->spans, first->n_ops * sizeof *first->spans), 0);
  ck_assert_int_eq (memcmp (first->ready, second->ready, first->n_call_ops * sizeof *first->ready), 0);
  ck_assert_int_eq (memcmp (first->link_bytes, second->link_bytes, p->links->len * sizeof *first->link_bytes), 0);
  ck_assert_uint_eq (first->n_events, second->n_events);
  ck_assert_uint_eq (first->n_tasks, second->n_tasks);
  ck_assert_uint_eq (first->n_solves, second->n_solves);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("engine");
  TCase *streams = tcase_create ("streams");
  tcase_add_test (streams, an_empty_program_takes_no_time);
  tcase_add_test (streams, a_stream_runs_its_ops_one_by_one_and_streams_run_side_by_side);
  tcase_add_test (streams, a_stream_waits_for_an_event_of_another);
  tcase_add_test (streams, an_event_that_has_fired_holds_nobody);
  tcase_add_test (streams, memory_changes_at_the_end_of_the_op_before_it);
  suite_add_tcase (suite, streams);
  TCase *calls = tcase_create ("calls");
  tcase_add_test (calls, a_call_starts_when_the_last_member_has_joined_and_ends_for_all_at_once);
  tcase_add_loop_test (calls, a_call_lasts_its_delay_its_longest_part_and_its_tail, 0, G_N_ELEMENTS (call_shapes));
  tcase_add_test (calls, a_part_over_no_link_keeps_to_its_cap);
  tcase_add_test (calls, work_beside_a_call_slows_down_while_the_call_runs);
  tcase_add_test (calls, overlapping_calls_hold_together);
  tcase_add_test (calls, a_call_holds_all_of_its_members_but_nobody_else);
  tcase_add_test (calls, a_call_slows_each_kind_of_work_by_a_share_of_its_own);
  tcase_add_test (calls, work_of_several_kinds_in_one_run_is_cut_where_a_call_begins);
  tcase_add_test (calls, a_call_holds_from_the_end_of_its_delay_to_the_end_of_its_tail);
  tcase_add_test (calls, a_tenth_of_the_rate_is_always_left);
  suite_add_tcase (suite, calls);
  TCase *host = tcase_create ("host and queue");
  tcase_add_test (host, a_stream_whose_ops_are_short_goes_at_the_pace_of_the_host);
  tcase_add_test (host, the_host_runs_ahead_of_a_stream_whose_ops_are_long);
  tcase_add_test (host, a_host_that_waits_issues_nothing);
  tcase_add_test (host, two_hosts_may_wait_for_one_event);
  tcase_add_test (host, in_one_queue_no_op_starts_before_those_issued_before_it);
  tcase_add_test (host, in_one_queue_ops_of_one_stream_in_a_row_are_one_run);
  tcase_add_test (host, in_one_queue_a_call_has_started_when_it_is_joined);
  tcase_add_test (host, in_one_queue_an_op_that_waits_stops_all_behind_it);
  suite_add_tcase (suite, host);
  TCase *errors = tcase_create ("errors");
  tcase_add_test (errors, a_deadlock_is_an_error_that_names_the_stream);
  tcase_add_test (errors, a_call_that_a_member_never_joins_is_a_deadlock);
  tcase_add_test (errors, of_a_deadlock_the_one_is_named_that_the_others_stand_behind);
  tcase_add_test (errors, a_host_that_waits_for_ever_is_a_deadlock);
  tcase_add_test (errors, a_time_too_long_to_count_is_an_error);
  tcase_add_test (errors, forty_days_are_not_too_long);
  suite_add_tcase (suite, errors);
  TCase *sharing = tcase_create ("sharing");
  tcase_add_loop_test (sharing, a_collective_and_a_send_share_a_nic_by_connections, 0, G_N_ELEMENTS (share_cases));
  tcase_add_test (sharing, eight_rings_and_a_send_share_an_up_link_nine_to_one);
  tcase_add_test (sharing, an_all_to_all_over_leaves_is_one_part_per_kind_of_route);
  tcase_add_test (sharing, a_whole_step_takes_the_time_that_was_reckoned_by_hand);
  tcase_add_test (sharing, latency_as_a_cap_makes_a_lone_collective_last_its_closed_form);
  tcase_add_loop_test (sharing, a_ring_of_messages_takes_its_closed_form, 0, G_N_ELEMENTS (rings));
  tcase_add_test (sharing, messages_of_two_calls_share_links_as_two_flows_do);
  tcase_add_test (sharing, a_ring_of_messages_and_a_send_share_a_nic);
  suite_add_tcase (suite, sharing);
  TCase *random = tcase_create ("random programs");
  tcase_add_loop_test (random, without_sharing_every_time_is_that_of_the_longest_path, 0, G_N_ELEMENTS (alone_styles));
  tcase_add_loop_test (random, a_run_in_one_piece_takes_the_times_of_its_ops_one_by_one, 0,
                       G_N_ELEMENTS (exact_styles));
  tcase_add_loop_test (random, under_random_holds_runs_in_one_piece_are_a_rounding_away, 0, G_N_ELEMENTS (full_styles));
  tcase_add_loop_test (random, time_never_goes_back_and_calls_end_together, 0, G_N_ELEMENTS (full_styles));
  tcase_add_loop_test (random, the_same_program_gives_the_same_bytes, 0, G_N_ELEMENTS (full_styles));
  tcase_set_timeout (random, 120); /* under valgrind */
  suite_add_tcase (suite, random);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
