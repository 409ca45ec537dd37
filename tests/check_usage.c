/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_usage.c - what the meters on links read, on programs small enough to work out by hand. */
#include <check.h>
#include <stdlib.h>
#include "sim/engine.h"

#define US G_GINT64_CONSTANT (1000000) /* ps */

enum { TAG_A = 1, TAG_B = 3 };

/* An actor alone: starts at @start, then carries @bytes by a call of @tag over @uses. */
static void
add_call (ScProgram *p, guint16 tag, ScTime start, double bytes, const ScUse *uses, guint n_uses)
{
  const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), tag, 0, 0, 0);
  sc_program_add_part (p, bytes, INFINITY, uses, n_uses);
  sc_program_add_actor (p, 1, FALSE);
  if (start > 0)
    sc_program_work (p, 0, 0, start);
  sc_program_call (p, 0, call);
}

static ScTrace *
run (const ScProgram *p)
{
  g_autoptr (GError) error = NULL;
  ScTrace *const trace = sc_engine_run_metered (p, &error);
  ck_assert_msg (trace != NULL, "%s", error != NULL ? error->message : "");
  return trace;
}

static double
mean_of_bins (const ScUsage *u, guint32 link)
{
  double sum = 0;
  for (guint i = 0; i < u->n_bins; i++)
    sum += u->shares[(gsize) link * u->n_bins + i] * (double) MIN (u->bin, u->end - (ScTime) i * u->bin);
  return sum / (double) u->end;
}

/* Link 0: 1 GB/s; link 1: 4 GB/s.  A: 20 kB over both from 0; B: 20 kB over link 0, two connections, from 10 us.
 * A alone at 1 GB/s for 10 us; then both at 1/3 GB/s: A has 10 kB left, 30 us; B then has 10 kB left, at 1/2 GB/s 20 us. */
START_TEST (shares_peaks_and_bytes_are_those_worked_out_by_hand)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_link (p, 1e9);
  sc_program_add_link (p, 4e9);
  const ScUse a[] = { { 1, 0 }, { 1, 1 } }, b[] = { { 2, 0 } };
  add_call (p, TAG_A, 0, 20e3, a, 2);
  add_call (p, TAG_B, 10 * US, 20e3, b, 1);
  g_autoptr (ScTrace) trace = run (p);
  const ScUsage *const u = trace->usage;
  ck_assert_int_eq (trace->end, 60 * US);
  ck_assert_int_eq (u->end, trace->end);
  ck_assert_uint_eq (u->n_links, 2);
  ck_assert_uint_eq (u->n_tags, TAG_B + 1);
  ck_assert_int_eq (u->bin, US);
  ck_assert_uint_eq (u->n_bins, 60);
  ck_assert_double_eq_tol (u->busy[0], 60 * US, 60);
  ck_assert_double_eq_tol (u->busy[1], 20e3 / 4e9 * SC_PS_PER_S, 60);
  ck_assert_int_eq (u->full[0], 60 * US);
  ck_assert_int_eq (u->full[1], 0);
  ck_assert_double_eq_tol (u->peak[0], 1, 1e-9);
  ck_assert_double_eq_tol (u->peak[1], 0.25, 1e-9);
  for (guint t = 0; t < u->n_tags; t++)
    {
      ck_assert_double_eq (u->bytes[t], t == TAG_A ? 20e3 : t == TAG_B ? 40e3 : 0);
      ck_assert_double_eq (u->bytes[u->n_tags + t], t == TAG_A ? 20e3 : 0);
    }
  for (guint i = 0; i < u->n_bins; i++)
    {
      ck_assert_double_eq_tol (u->shares[i], 1, 1e-6);
      ck_assert_double_eq_tol (u->shares[u->n_bins + i], i < 10 ? 0.25 : i < 40 ? 0.25 / 3 : 0, 1e-6);
    }
}
END_TEST

/* A flow in the middle of runs of all lengths: bins cover the run, none is empty of meaning, their mean is the mean. */
START_TEST (bins_widen_with_the_run_and_lose_nothing)
{
  static const ScTime ends[] = { 1, 999999, US, US + 1, 199 * US, 200 * US, 200 * US + 1, 201 * US, 12345678901, 777 * US * 1000000,
                                 3000000 * US * 1000000 };
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      g_autoptr (ScProgram) p = sc_program_new ();
      sc_program_add_link (p, 1e9);
      const ScUse use = { 1, 0 };
      add_call (p, 0, ends[i] / 3, sc_time_to_s (ends[i] / 3) * 1e9, &use, 1);
      sc_program_add_actor (p, 1, FALSE);
      sc_program_work (p, 0, 0, ends[i]);
      g_autoptr (ScTrace) trace = run (p);
      const ScUsage *const u = trace->usage;
      ck_assert_int_eq (u->end, ends[i]);
      ck_assert_uint_le (u->n_bins, SC_USAGE_BINS);
      ck_assert (u->n_bins > SC_USAGE_BINS / 2 || u->bin == US);
      ck_assert_int_ge (u->n_bins * u->bin, u->end);
      ck_assert_int_lt ((u->n_bins - 1) * u->bin, u->end);
      ck_assert_double_eq_tol (u->busy[0], (double) (ends[i] / 3), 1);
      ck_assert_double_eq_tol (mean_of_bins (u, 0), u->busy[0] / (double) u->end, 1e-9);
      for (guint k = 0; k < u->n_bins; k++)
        ck_assert_double_le (u->shares[k], 1 + 1e-9);
    }
}
END_TEST

START_TEST (runs_without_links_or_time_have_a_record_too)
{
  g_autoptr (ScProgram) nothing = sc_program_new ();
  g_autoptr (ScTrace) empty = run (nothing);
  ck_assert_uint_eq (empty->usage->n_links, 0);
  ck_assert_uint_eq (empty->usage->n_bins, 0);
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_link (p, 1);
  const ScUse use = { 1, 0 };
  add_call (p, 0, 0, 0, &use, 1); /* no bytes */
  g_autoptr (ScTrace) trace = run (p);
  ck_assert_int_eq (trace->usage->end, 0);
  ck_assert_double_eq (trace->usage->busy[0], 0);
}
END_TEST

START_TEST (nobody_pays_for_meters_that_nobody_asked_for)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_link (p, 1e9);
  const ScUse use = { 1, 0 };
  add_call (p, 0, 0, 1e6, &use, 1);
  g_autoptr (ScTrace) trace = sc_engine_run (p, NULL);
  ck_assert_ptr_null (trace->usage);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("usage");
  TCase *t = tcase_create ("meters");
  tcase_add_test (t, shares_peaks_and_bytes_are_those_worked_out_by_hand);
  tcase_add_test (t, bins_widen_with_the_run_and_lose_nothing);
  tcase_add_test (t, runs_without_links_or_time_have_a_record_too);
  tcase_add_test (t, nobody_pays_for_meters_that_nobody_asked_for);
  suite_add_tcase (suite, t);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
