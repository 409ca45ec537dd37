/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_ordered.c - work in threads comes out in order, each item once, whoever stops it. */
#include "ordered.h"
#include "pace.h"
#include <check.h>
#include <stdlib.h>

/* What the callbacks see. */
typedef struct
{
  guint64 next;    /* to be taken */
  guint64 stop_at; /* take() says no there */
  gint ticks, most_ticks; /* tick() says no after so many; 0: never */
  gint made, started, finished, freed;
} Seen;

typedef struct
{
  Seen *seen;
} Shared;

static void
shared_free (gpointer data)
{
  Shared *const s = data;
  g_atomic_int_inc (&s->seen->freed);
  g_free (s);
}

static gpointer
start (gpointer shared)
{
  g_atomic_int_inc (&((Shared *) shared)->seen->started);
  return shared;
}

static void
finish (gpointer own)
{
  g_atomic_int_inc (&((Shared *) own)->seen->finished);
}

static gpointer
work (gpointer shared, gpointer own, guint64 item)
{
  ck_assert_ptr_eq (shared, own);
  g_atomic_int_inc (&((Shared *) shared)->seen->made);
  if (item % 7 == 0)
    g_usleep (100); /* out of order */
  guint64 *const result = g_new (guint64, 1);
  *result = item * item;
  return result;
}

/* Counted by the thread that is last to go, which has the ring: dropped results have no Seen. */
static gint n_dropped;

static void
drop (gpointer result)
{
  g_atomic_int_inc (&n_dropped);
  g_free (result);
}

static gboolean
take (gpointer data, guint64 item, gpointer result)
{
  Seen *const seen = data;
  ck_assert_uint_eq (item, seen->next);
  ck_assert_uint_eq (*(guint64 *) result, item * item);
  seen->next++;
  g_free (result);
  return seen->next != seen->stop_at;
}

static gboolean
tick (gpointer data)
{
  Seen *const seen = data;
  return ++seen->ticks != seen->most_ticks;
}

static ScOrdered
ordered (Seen *seen, guint64 n, guint jobs)
{
  Shared *const shared = g_new0 (Shared, 1);
  shared->seen = seen;
  return (ScOrdered) {
    .n = n, .jobs = jobs, .shared = shared, .shared_free = shared_free, .start = start, .finish = finish, .work = work, .drop = drop, .take = take, .data = seen,
  };
}

static const guint n_jobs[] = { 1, 2, 3, 8 };

START_TEST (results_come_in_order_and_each_once)
{
  static const guint64 sizes[] = { 0, 1, 2, 63, 64, 65, 1000 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint with_tick = 0; with_tick < 2; with_tick++)
      {
        Seen seen = { .next = 0 };
        ScOrdered how = ordered (&seen, sizes[i], n_jobs[_i]);
        how.tick = with_tick != 0 ? tick : NULL;
        ck_assert_uint_eq (sc_ordered_run (&how), sizes[i]);
        ck_assert_uint_eq (seen.next, sizes[i]);
        ck_assert_int_eq (seen.made, (gint) sizes[i]);
        ck_assert_int_eq (seen.started, seen.finished);
        ck_assert_int_le (seen.started, (gint) n_jobs[_i]);
        ck_assert_int_eq (seen.freed, 1);
      }
}
END_TEST

START_TEST (who_takes_can_stop_it_and_no_result_is_lost)
{
  Seen seen = { .stop_at = 10 };
  n_dropped = 0;
  const ScOrdered how = ordered (&seen, 100000, n_jobs[_i]);
  ck_assert_uint_eq (sc_ordered_run (&how), 10);
  ck_assert_uint_eq (seen.next, 10);
  ck_assert_int_eq (seen.made, 10 + n_dropped);
  ck_assert_int_le (seen.made, 10 + 64 * (gint) n_jobs[_i]); /* the window: memory does not grow with the items */
  ck_assert_int_eq (seen.freed, 1);
}
END_TEST

START_TEST (a_tick_ends_it_at_once)
{
  static Seen seen; /* outlives this function, as the threads do */
  seen = (Seen) { .most_ticks = 3 };
  ScOrdered how = ordered (&seen, G_MAXUINT64, n_jobs[_i]);
  how.tick = tick;
  ck_assert_uint_le (sc_ordered_run (&how), 3);
  for (guint i = 0; i < 5000 && g_atomic_int_get (&seen.freed) == 0; i++)
    g_usleep (1000);
  ck_assert_int_eq (g_atomic_int_get (&seen.freed), 1); /* by the last thread */
  ck_assert_int_eq (seen.started, seen.finished);
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("ordered");
  TCase *const tcase = tcase_create ("ordered");
  tcase_add_loop_test (heavy (suite), results_come_in_order_and_each_once, 0, G_N_ELEMENTS (n_jobs));
  tcase_add_loop_test (tcase, who_takes_can_stop_it_and_no_result_is_lost, 0, G_N_ELEMENTS (n_jobs));
  tcase_add_loop_test (tcase, a_tick_ends_it_at_once, 0, G_N_ELEMENTS (n_jobs));
  suite_add_tcase (suite, tcase);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
