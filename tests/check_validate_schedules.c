/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_validate_schedules.c - published runs of pipeline schedules: read in both forms, judged, in order. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "pace.h"
#include "validate-schedules.h"

static ScSchedulesResult *
validate (const char *text, const char *filter)
{
  g_autoptr (GRegex) regex = filter != NULL ? g_regex_new (filter, (GRegexCompileFlags) 0, (GRegexMatchFlags) 0, NULL) : NULL;
  return sc_validate_schedules ("rows", text, strlen (text), regex, NULL);
}

#define MODEL                                                                                                                   \
  "'model': {'name': 'small', 'hidden': 1024, 'layers': 14, 'heads': 16, 'vocab': 32000, 'norm': 'layernorm', 'positions': 'learned'}," \
  "'seq': 1024, 'cluster': {'gpu': 'a100-sxm-80gb', 'gpus': 8, 'gpus_per_node': 8, 'intra': 'nvswitch'}, 'software': {'framework': 'megatron-lm'}"

static char *
json_of (const char *text)
{
  char *const json = g_strdup (text);
  g_strdelimit (json, "'", '"');
  return json;
}

START_TEST (both_forms_of_a_row_say_the_same)
{
  g_autofree char *text = json_of (
      "{'id': 'ours', 'group': 'a', " MODEL ", 'plan': {'dp': 1, 'pp': 8, 'schedule': 'zb-1p', 'micro_batch': 2, 'global_batch': 32, 'attention': 'flash',"
      " 'account_for_embedding': true, 'account_for_loss': true, 'post_validation': true,"
      " 'profiled_ms': {'forward': 4, 'input': 4, 'weight': 3, 'transfer': 0.2}}, 'measured': {'samples_per_s_per_gpu': 40}}\n"
      "\n"
      "{'id': 'theirs', 'group': 'a', " MODEL ", 'plan': {'dp': 1, 'pp': 8, 'schedule': 'zb-1p', 'micro_batch': 2, 'global_batch': 32, 'attention': 'flash',"
      " 'etp': null, 'extra': {'overlap_text': 'optimizer post-validation on for ZB', 'stage_layers': 'first and last stage hold one layer fewer',"
      " 'profiled_ms': {'T_F': 4, 'T_B': 4, 'T_W': 3, 'T_comm': 0.2}}}, 'measured': {}, 'derived': {'step_s': 0.1}}\n");
  g_autoptr (ScSchedulesResult) r = validate (text, NULL);
  ck_assert_uint_eq (r->runs->len, 2);
  ck_assert_uint_eq (r->n_judged, 2);
  const ScScheduleRun *const ours = g_ptr_array_index (r->runs, 0), *const theirs = g_ptr_array_index (r->runs, 1);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    ck_assert_double_eq (ours->predicted[kind], theirs->predicted[kind]);
  ck_assert_double_eq_tol (theirs->measured, 40, 1e-12);
  ck_assert_double_lt (ours->predicted[SC_RUN_SLOWEST], ours->predicted[SC_RUN_PROFILED]);
}
END_TEST

START_TEST (runs_of_a_line_share_what_they_do_not_say)
{
  g_autofree char *text = json_of (
      "{'id': 'x', " MODEL ", 'plan': {'dp': 1, 'pp': 8, 'micro_batch': 2, 'global_batch': 32, 'account_for_embedding': true, 'account_for_loss': true,"
      " 'profiled_ms': {'forward': 4, 'input': 4, 'weight': 4}}, 'runs': ["
      "{'plan': {'schedule': '1f1b'}, 'measured': {'samples_per_s_per_gpu': 10, 'bubble_fraction': 0.3043}},"
      "{'plan': {'schedule': 'zb-h1'}, 'measured': {'samples_per_s_per_gpu': 11}}, {'plan': {'schedule': 'zb-v', 'vpp': 2}, 'measured': {}}]}");
  g_autoptr (ScSchedulesResult) r = validate (text, NULL);
  ck_assert_uint_eq (r->runs->len, 3);
  ck_assert_uint_eq (r->n_judged, 2);
  ck_assert_uint_eq (r->n_skipped, 1);
  ck_assert_uint_eq (r->n_pairs, 1);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    ck_assert_uint_eq (r->swapped[kind]->len, 0);
  /* (p - 1) / (m + p - 1) */
  ck_assert_double_eq_tol (((const ScScheduleRun *) g_ptr_array_index (r->runs, 0))->bubble, 7.0 / 23, 1e-12);
  ck_assert (!r->passes); /* such small passes are not that slow */
}
END_TEST

START_TEST (what_cannot_be_forecast_is_skipped_with_its_reason)
{
  static const struct
  {
    const char *text, *why;
  } cases[] = {
    { "{" MODEL ", 'plan': {'dp': 1, 'pp': 8, 'micro_batch': 2, 'global_batch': 32}, 'measured': {'samples_per_s_per_gpu': 10}}", "no times of passes" },
    { "{" MODEL ", 'plan': {'dp': 1, 'pp': 8, 'micro_batch': 2, 'global_batch': 32, 'profiled_ms': {'forward': 1, 'backward': 2}}, 'measured': {}}", "no samples per second" },
    { "{" MODEL ", 'plan': {'dp': 1, 'pp': 3, 'micro_batch': 2, 'global_batch': 31, 'profiled_ms': {'forward': 1, 'backward': 2}}, 'measured': {'step_s': 1}}", "/plan/global_batch" },
    { "{" MODEL ", 'topology': 'nowhere', 'plan': {'dp': 1, 'pp': 2, 'micro_batch': 2, 'global_batch': 32, 'profiled_ms': {'forward': 1, 'backward': 2}}, 'measured': {'step_s': 1}}", "nowhere" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = json_of (cases[i].text);
      g_autoptr (ScSchedulesResult) r = validate (text, NULL);
      ck_assert_uint_eq (r->n_skipped, 1);
      ck_assert_ptr_nonnull (strstr (((const ScScheduleRun *) g_ptr_array_index (r->runs, 0))->why, cases[i].why));
      ck_assert (!r->passes);
    }
}
END_TEST

START_TEST (what_is_no_row_is_refused)
{
  static const char *const cases[] = { "", "\n", "[]", "{", "{\"runs\": 3}", "{\"runs\": [3]}" };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      ck_assert_ptr_null (sc_validate_schedules ("rows", cases[i], strlen (cases[i]), NULL, &error));
      ck_assert_ptr_nonnull (error);
    }
}
END_TEST

/* The bubbles of 2401.10241 to the digit (interleaved: to 0.4 points), each run within 5.5 % with its own times, and no pair turned round
 * that differs by more than 2.3 %. */
static void
check_published (const char *text, const char *filter, guint n_judged)
{
  g_autoptr (ScSchedulesResult) r = validate (text, filter);
  ck_assert_ptr_nonnull (r);
  ck_assert_uint_eq (r->n_judged, n_judged);
  ck_assert_double_le (fabs (r->errors[SC_RUN_SLOWEST].worst), 0.055);
  ck_assert_double_le (r->errors[SC_RUN_SLOWEST].mean_abs, 0.035);
  ck_assert_double_le (fabs (r->errors[SC_RUN_PROFILED].worst), 0.085);
  ck_assert_double_le (fabs (r->errors[SC_RUN_OWN].worst), 0.20);
  ck_assert_uint_ge (24 * r->errors[SC_RUN_SLOWEST].n_within, 23 * n_judged);
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScScheduleRun *const run = g_ptr_array_index (r->runs, i);
      if (run->why == NULL && !isnan (run->bubble_measured))
        ck_assert_msg (fabs (run->bubble - run->bubble_measured) <= (strcmp (run->schedule, "interleaved") == 0 ? 4e-3 : 1.01e-4),
                       "%s %s: bubble %.4f, published %.4f", run->id, run->schedule, run->bubble, run->bubble_measured);
    }
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    for (guint i = 0; i < r->swapped[kind]->len; i++)
      {
        const ScSwapped *const s = &g_array_index (r->swapped[kind], ScSwapped, i);
        ck_assert_double_le (s->faster->measured, 1.023 * s->slower->measured);
      }
}

START_TEST (the_shipped_runs_come_out)
{
  gsize length;
  check_published (sc_library_find (SC_KIND_MEASUREMENTS, "schedules", &length), NULL, 48);
}
END_TEST

/* The same rows as the collection has them, where it is. */
START_TEST (the_published_rows_come_out)
{
  g_autofree char *path = g_build_filename (g_getenv ("abs_srcdir"), "..", "shared", "published", "rows.jsonl", NULL);
  g_autofree char *text = NULL;
  if (!g_file_get_contents (path, &text, NULL, NULL))
    return;
  g_autoptr (GString) zb = g_string_new (NULL);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (strstr (lines[i], "\"profiled_ms\"") != NULL)
      g_string_append_printf (zb, "%s\n", lines[i]);
  if (zb->len > 0)
    check_published (zb->str, "^zb-", 48);
}
END_TEST

START_TEST (every_format_has_every_run)
{
  gsize length;
  g_autoptr (ScSchedulesResult) r = validate (sc_library_find (SC_KIND_MEASUREMENTS, "schedules", &length), "zb-1.5b-144");
  for (const ScSchedulesFormat *f = sc_schedules_formats (); f->name != NULL; f++)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      f->write (r, out);
      static const char *const words[] = { "1f1b", "interleaved", "zb-1p", "zb-2p", "zb-h1", "zb-h2" };
      for (guint i = 0; i < G_N_ELEMENTS (words); i++)
        ck_assert_ptr_nonnull (strstr (out->str, words[i]));
    }
}
END_TEST

static Suite *
validate_suite (void)
{
  Suite *const s = suite_create ("validate schedules");
  TCase *const t = tcase_create ("all");
  tcase_set_timeout (t, 300);
  tcase_add_test (heavy (s), both_forms_of_a_row_say_the_same);
  tcase_add_test (heavy (s), runs_of_a_line_share_what_they_do_not_say);
  tcase_add_test (t, what_cannot_be_forecast_is_skipped_with_its_reason);
  tcase_add_test (t, what_is_no_row_is_refused);
  tcase_add_test (slow (s), the_shipped_runs_come_out);
  tcase_add_test (t, the_published_rows_come_out);
  tcase_add_test (t, every_format_has_every_run);
  suite_add_tcase (s, t);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (validate_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
