/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_eventq.c - events leave in the order of their times, and of one time in the order in which they came. */
#include <check.h>
#include <stdlib.h>
#include "pace.h"
#include "sim/eventq.h"

START_TEST (events_leave_in_order_of_time)
{
  static const ScTime times[] = { 5, 3, 9, 1, 7, 0, 8, 2, 6, 4 };
  ScEventQueue queue;
  sc_eventq_init (&queue);
  ck_assert (sc_eventq_is_empty (&queue));
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    sc_eventq_push (&queue, times[i], i, 100 + i);
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      ck_assert_int_eq (sc_eventq_next_time (&queue), i);
      const ScEvent event = sc_eventq_pop (&queue);
      ck_assert_int_eq (event.time, i);
      ck_assert_int_eq (times[event.id], i);
      ck_assert_uint_eq (event.what, 100 + event.id);
    }
  ck_assert (sc_eventq_is_empty (&queue));
  sc_eventq_clear (&queue);
}
END_TEST

START_TEST (events_of_one_time_leave_in_the_order_in_which_they_came)
{
  ScEventQueue queue;
  sc_eventq_init (&queue);
  sc_eventq_push (&queue, 2, 1000, 0);
  for (guint i = 0; i < 500; i++)
    sc_eventq_push (&queue, 1, i, 0);
  for (guint i = 0; i < 250; i++)
    ck_assert_uint_eq (sc_eventq_pop (&queue).id, i);
  for (guint i = 500; i < 600; i++)
    sc_eventq_push (&queue, 1, i, 0);
  for (guint i = 250; i < 600; i++)
    ck_assert_uint_eq (sc_eventq_pop (&queue).id, i);
  ck_assert_uint_eq (sc_eventq_pop (&queue).id, 1000);
  ck_assert (sc_eventq_is_empty (&queue));
  sc_eventq_clear (&queue);
}
END_TEST

START_TEST (the_last_time_there_is_sorts_last)
{
  ScEventQueue queue;
  sc_eventq_init (&queue);
  sc_eventq_push (&queue, G_MAXINT64, 0, 0);
  sc_eventq_push (&queue, 0, 1, 0);
  sc_eventq_push (&queue, G_MAXINT64 - 1, 2, 0);
  ck_assert_uint_eq (sc_eventq_pop (&queue).id, 1);
  ck_assert_uint_eq (sc_eventq_pop (&queue).id, 2);
  ck_assert_uint_eq (sc_eventq_pop (&queue).id, 0);
  sc_eventq_clear (&queue);
}
END_TEST

/* Each row: how many distinct times random events are drawn from; few make many ties. */
static const gint32 n_times[] = { 1, 2, 10, 1000, G_MAXINT32 };

static gint
compare_events (gconstpointer a, gconstpointer b)
{
  const ScEvent *const x = a, *const y = b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  return x->seq < y->seq ? -1 : x->seq > y->seq;
}

START_TEST (random_pushes_and_pops_agree_with_a_sorted_list)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1 + _i);
  g_autoptr (GArray) reference = g_array_new (FALSE, FALSE, sizeof (ScEvent)); /* sorted */
  ScEventQueue queue;
  sc_eventq_init (&queue);
  guint32 n_pushed = 0;
  for (guint step = 0; step < 4000; step++)
    {
      const gboolean growing = step < 2000;
      if (reference->len == 0 || g_rand_int_range (rand, 0, 10) < (growing ? 7 : 3))
        {
          const ScEvent event = { g_rand_int_range (rand, 0, n_times[_i]), n_pushed, n_pushed, step };
          n_pushed++;
          sc_eventq_push (&queue, event.time, event.id, event.what);
          guint at = reference->len;
          while (at > 0 && compare_events (&g_array_index (reference, ScEvent, at - 1), &event) > 0)
            at--;
          g_array_insert_val (reference, at, event);
        }
      else
        {
          const ScEvent expected = g_array_index (reference, ScEvent, 0);
          ck_assert_int_eq (sc_eventq_next_time (&queue), expected.time);
          const ScEvent event = sc_eventq_pop (&queue);
          ck_assert_int_eq (event.time, expected.time);
          ck_assert_uint_eq (event.id, expected.id);
          ck_assert_uint_eq (event.what, expected.what);
          g_array_remove_index (reference, 0);
        }
      ck_assert_uint_eq (queue.n - (gsize) queue.hole, reference->len);
    }
  sc_eventq_clear (&queue);
}
END_TEST

START_TEST (a_large_queue_empties_in_order)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  ScEventQueue queue;
  sc_eventq_init (&queue);
  for (guint32 i = 0; i < 50000; i++)
    sc_eventq_push (&queue, g_rand_int_range (rand, 0, 20000), i, 0);
  ScEvent before = sc_eventq_pop (&queue);
  while (!sc_eventq_is_empty (&queue))
    {
      const ScEvent event = sc_eventq_pop (&queue);
      ck_assert_int_lt (compare_events (&before, &event), 0);
      before = event;
    }
  sc_eventq_clear (&queue);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("eventq");
  TCase *tcase = tcase_create ("order");
  tcase_add_test (tcase, events_leave_in_order_of_time);
  tcase_add_test (tcase, events_of_one_time_leave_in_the_order_in_which_they_came);
  tcase_add_test (tcase, the_last_time_there_is_sorts_last);
  tcase_add_loop_test (heavy (suite), random_pushes_and_pops_agree_with_a_sorted_list, 0, G_N_ELEMENTS (n_times));
  tcase_add_test (tcase, a_large_queue_empties_in_order);
  suite_add_tcase (suite, tcase);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
