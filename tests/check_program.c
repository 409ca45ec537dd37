/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_program.c - builders append: ops are chained per stream, parts belong to the last call, uses can be shared. */
#include <check.h>
#include <stdlib.h>
#include "sim/program.h"

START_TEST (ops_of_a_stream_are_chained_in_program_order)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 1); /* op 0, of another actor */
  sc_program_add_actor (p, 3, TRUE);
  const guint32 event = sc_program_add_event (p);
  sc_program_work (p, 0, 7, 10);        /* 1 */
  sc_program_record (p, 0, event);      /* 2 */
  sc_program_wait (p, 1, event);        /* 3 */
  sc_program_add_op (p, SC_OP_HOST_WAIT, 0, 0, event, 0); /* 4, on no stream */
  sc_program_mem (p, 0, 3, -5);         /* 5 */
  sc_program_work (p, 1, 0, 20);        /* 6 */
  static const guint32 next[] = { SC_NONE, 2, 5, 6, SC_NONE, SC_NONE, SC_NONE };
  ck_assert_uint_eq (p->ops->len, G_N_ELEMENTS (next));
  for (guint i = 0; i < G_N_ELEMENTS (next); i++)
    ck_assert_uint_eq (g_array_index (p->ops, ScOp, i).next, next[i]);
  static const guint32 first[] = { 0, 1, 3, SC_NONE };
  ck_assert_uint_eq (p->n_streams, G_N_ELEMENTS (first));
  for (guint i = 0; i < G_N_ELEMENTS (first); i++)
    ck_assert_uint_eq (g_array_index (p->stream_first, guint32, i), first[i]);
  const ScActor *const actor = &g_array_index (p->actors, ScActor, 1);
  ck_assert_uint_eq (actor->first_op, 1);
  ck_assert_uint_eq (actor->n_ops, 6);
  ck_assert_uint_eq (actor->first_stream, 1);
  ck_assert (actor->one_queue);
  const ScOp *const mem = &g_array_index (p->ops, ScOp, 5);
  ck_assert_int_eq (mem->value, -5);
  ck_assert_uint_eq (mem->tag, 3);
  ck_assert_uint_eq (mem->kind, SC_OP_MEM);
}
END_TEST

START_TEST (parts_belong_to_the_call_added_last_and_can_share_uses)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 a = sc_program_add_link (p, 10), b = sc_program_add_link (p, 20), group = sc_program_add_group (p, 2);
  const ScUse uses[] = { { 1, a }, { 2, b } };
  const guint32 first = sc_program_add_call (p, group, 5, 1, 2, 0.25);
  sc_program_add_part (p, 100, INFINITY, uses, 2);
  sc_program_add_part (p, 50, 3, NULL, 0);
  const guint32 second = sc_program_add_call (p, group, 6, 0, 0, 0);
  sc_program_share_part (p, 200, INFINITY, 0, 2);
  ck_assert_uint_eq (p->uses->len, 2);
  const ScCall *const call = &g_array_index (p->calls, ScCall, first);
  ck_assert_uint_eq (call->n_parts, 2);
  ck_assert_uint_eq (call->tag, 5);
  ck_assert_int_eq (call->delay, 1);
  ck_assert_int_eq (call->tail, 2);
  const ScCall *const other = &g_array_index (p->calls, ScCall, second);
  ck_assert_uint_eq (other->n_parts, 1);
  const ScPart *const part = &g_array_index (p->parts, ScPart, other->first_part);
  ck_assert_double_eq (part->bytes, 200);
  ck_assert_uint_eq (part->first_use, g_array_index (p->parts, ScPart, call->first_part).first_use);
  ck_assert_uint_eq (g_array_index (p->uses, ScUse, part->first_use + 1).link, b);
}
END_TEST

/* An actor that works for @work ps, tells an event of its own, waits for it on its other stream, and makes @calls, the second one
 * twice: 8 ops. */
static gboolean
add_alike (ScProgram *p, ScTime work, const guint32 calls[2])
{
  sc_program_add_actor (p, 2, FALSE);
  const guint32 event = sc_program_add_event (p), other = sc_program_add_event (p);
  sc_program_work (p, 0, 3, work)->label = 9;
  sc_program_call (p, 0, calls[0]);
  sc_program_record (p, 0, event);
  sc_program_wait (p, 1, event);
  sc_program_call (p, 1, calls[1]);
  sc_program_record (p, 1, other);
  sc_program_add_op (p, SC_OP_HOST_WAIT, 0, 0, other, 0);
  sc_program_call (p, 1, calls[1]);
  return sc_program_share_ops (p);
}

START_TEST (actors_that_do_the_same_share_their_ops_and_keep_their_own_calls_and_events)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  static const guint32 calls[][2] = { { 0, 1 }, { 2, 3 }, { 4, 4 }, { 1, 0 } };
  static const ScTime work[] = { 10, 10, 10, 10, 11 };
  static const gboolean shares[] = { FALSE, TRUE, FALSE, TRUE, FALSE }; /* the third makes one call where the others make two */
  guint32 group = sc_program_add_group (p, 1);
  for (guint i = 0; i < 5; i++)
    sc_program_add_call (p, group, 0, 0, 0, 0);
  for (guint i = 0; i < G_N_ELEMENTS (shares); i++)
    ck_assert (add_alike (p, work[i], calls[i % 4]) == shares[i]);
  ck_assert_uint_eq (p->n_ops, 5 * 8);
  ck_assert_uint_eq (p->ops->len, 3 * 8);
  ck_assert_uint_eq (p->n_call_ops, 5 * 3);
  for (guint32 a = 0; a < G_N_ELEMENTS (shares); a++)
    {
      const ScActor *const actor = &g_array_index (p->actors, ScActor, a);
      const guint32 id = 8 * a, *const mine = calls[a % 4];
      const ScOp ops[] = { sc_program_op (p, actor, id), sc_program_find_op (p, id + 1), sc_program_find_op (p, id + 2), sc_program_find_op (p, id + 3),
                           sc_program_find_op (p, id + 4), sc_program_find_op (p, id + 5), sc_program_find_op (p, id + 6), sc_program_find_op (p, id + 7) };
      const guint32 arg[] = { SC_NONE, mine[0], 2 * a, 2 * a, mine[1], 2 * a + 1, 2 * a + 1, mine[1] };
      const guint32 next[] = { id + 1, id + 2, SC_NONE, id + 4, id + 5, id + 7, SC_NONE, SC_NONE };
      const gint64 value[] = { work[a], 3 * a, 0, 0, 3 * a + 1, 0, 0, 3 * a + 2 };
      for (guint i = 0; i < 8; i++)
        {
          ck_assert_uint_eq (ops[i].arg, arg[i]);
          ck_assert_uint_eq (ops[i].next, next[i]);
          ck_assert_int_eq (ops[i].value, value[i]);
        }
      ck_assert_uint_eq (ops[0].label, 9);
      ck_assert_ptr_eq (sc_program_actor_of (p, id + 7), actor);
    }
}
END_TEST

START_TEST (nothing_is_freed_without_complaint)
{
  sc_program_free (NULL);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("program");
  TCase *tcase = tcase_create ("builders");
  tcase_add_test (tcase, ops_of_a_stream_are_chained_in_program_order);
  tcase_add_test (tcase, parts_belong_to_the_call_added_last_and_can_share_uses);
  tcase_add_test (tcase, actors_that_do_the_same_share_their_ops_and_keep_their_own_calls_and_events);
  tcase_add_test (tcase, nothing_is_freed_without_complaint);
  suite_add_tcase (suite, tcase);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
