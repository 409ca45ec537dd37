/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_schedule_csv.c - orders in PyTorch's form: there and back, and what is wrong with a file. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "schedule-csv.h"

static const ScScheduleShape shapes[] = { { 2, 1, 4, 2, 0 }, { 4, 1, 8, 4, 0 }, { 4, 2, 8, 4, 0 }, { 3, 3, 6, 3, 0 }, { 6, 2, 13, 6, 0 } };

START_TEST (what_is_written_is_read)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      if (row->refuse (&shapes[i]) != NULL)
        continue;
      g_autoptr (ScOrders) o = sc_orders_new (row, &shapes[i], NULL, NULL);
      g_autoptr (GString) text = g_string_new (NULL);
      g_autoptr (GError) error = NULL;
      const gboolean written = sc_schedule_csv_write (o, text, &error);
      ck_assert (written == (row->placement != SC_PLACE_BOTH) && written == (error == NULL));
      if (!written)
        continue;
      g_autoptr (ScOrders) again = sc_schedule_csv_parse (text->str, &error);
      ck_assert_msg (again != NULL, "%s: %s", row->name, error != NULL ? error->message : "");
      ck_assert (again->p == o->p && again->v == o->v && again->m == o->m);
      ck_assert (again->placement == o->placement);
      for (guint rank = 0; rank < o->p; rank++)
        {
          ck_assert_uint_eq (again->ranks[rank]->len, o->ranks[rank]->len);
          for (guint k = 0; k < o->ranks[rank]->len; k++)
            {
              const ScSlot *const a = &g_array_index (o->ranks[rank], ScSlot, k), *const b = &g_array_index (again->ranks[rank], ScSlot, k);
              ck_assert (a->pass == b->pass && a->paired == b->paired && a->chunk == b->chunk && a->microbatch == b->microbatch);
            }
        }
    }
}
END_TEST

/* Cells that line things up, DOS line ends, blanks, an overlapped pair with the backward first. */
START_TEST (loose_forms_are_read)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScOrders) o = sc_schedule_csv_parse ("0F0, 0F1,,,0B0,0B1\r\n,1F0,1B0,1F1 ,1I1,1W1\r\n\r\n", &error);
  ck_assert_ptr_nonnull (o);
  ck_assert_uint_eq (o->p, 2);
  ck_assert_uint_eq (o->m, 2);
  g_autoptr (ScOrders) v = sc_schedule_csv_parse ("0F0,0F1,1F0,(1B0; 0F2)OVERLAP_F_B,1F1,1B1,1F2,1B2,0B0,0B1,0B2\n", &error);
  ck_assert_msg (v != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (v->v, 2);
  ck_assert (g_array_index (v->ranks[0], ScSlot, 4).paired && g_array_index (v->ranks[0], ScSlot, 4).pass == SC_PASS_BACKWARD);
}
END_TEST

static const struct
{
  const char *text, *message;
} wrong[] = {
  { "", "found no passes, expected a row for each pipeline rank" },
  { ",,\n\n", "found no passes, expected a row for each pipeline rank" },
  { "0F0,0X0\n", "row 1, cell 2: found \"0X0\", expected a stage, F, I, W or B, and a micro-batch, as 2F0" },
  { "0F0,0SEND_F0\n", "row 1, cell 2: found \"0SEND_F0\", expected a stage, F, I, W or B, and a micro-batch, as 2F0" },
  { "0F\n", "row 1, cell 1: found \"0F\", expected" },
  { "0F99999999999999999999\n", "row 1, cell 1: found \"0F99999999999999999999\", expected" },
  { "0F0,0B0\n1F0,1B0\n2F0,2B0,3F0,3B0\n", "found 4 stages on 3 ranks, expected as many on each" },
  { "1F0,1B0\n0F0,0B0\n", "row 1, cell 1: found stage 1, expected it on row 2 (stages in turn) or 2 (there and back)" },
  { "0F0,0F0,0B0\n", "row 1, cell 2: found 0F0, but micro-batch 0 has had a forward of stage 0 before" },
  { "0B0,0F0\n", "row 1, cell 1: found 0B0, but micro-batch 0 has had nothing of stage 0 before" },
  { "0F0,0W0,0I0\n", "row 1, cell 2: found 0W0, but micro-batch 0 has had a forward of stage 0 before" },
  { "0F0,0I0\n", "stage 0 gives micro-batch 0 a forward and the gradient of the input, expected forward and backward" },
  { "0F1,0B1\n", "stage 0 gives micro-batch 0 nothing, expected forward and backward" },
  { "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", "row 1, cell 2: 0B0 waits for ever: the ranks wait for each other" },
  { "(0F0;0B0)OVERLAP_F_B\n", "row 1, cell 1: expected a forward and a whole backward of another stage or micro-batch to overlap" },
  { "(0F0;1F0)OVERLAP_F_B\n", "row 1, cell 1: expected a forward and a whole backward of another stage or micro-batch to overlap" },
  { "(0F0;1B0\n", "row 1, cell 1: expected two passes that overlap, as (0F4;3B1)OVERLAP_F_B" },
};

START_TEST (what_is_wrong_is_said_with_its_place)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScOrders) o = sc_schedule_csv_parse (wrong[_i].text, &error);
  ck_assert_ptr_null (o);
  ck_assert_msg (g_str_has_prefix (error->message, wrong[_i].message), "%s", error->message);
}
END_TEST

static Suite *
schedule_csv_suite (void)
{
  guint n_rows = 0;
  while (sc_schedule_all ()[n_rows] != NULL)
    n_rows++;
  Suite *const s = suite_create ("schedule-csv");
  TCase *const all = tcase_create ("all");
  tcase_add_loop_test (all, what_is_written_is_read, 0, (int) n_rows);
  tcase_add_test (all, loose_forms_are_read);
  tcase_add_loop_test (all, what_is_wrong_is_said_with_its_place, 0, G_N_ELEMENTS (wrong));
  suite_add_tcase (s, all);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (schedule_csv_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
