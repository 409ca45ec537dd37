/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_units.c - quantities are read with their unit or refused in words, and what is written reads back. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "units.h"

static const struct
{
  const char *text;
  ScUnit unit;
  double value;
} good[] = {
  { "25 GB/s", SC_UNIT_BYTES_PER_S, 25e9 },
  { "400 Gb/s", SC_UNIT_BYTES_PER_S, 50e9 }, /* bits */
  { "8 b/s", SC_UNIT_BYTES_PER_S, 1 },
  { "48.5GB/s", SC_UNIT_BYTES_PER_S, 48.5e9 }, /* blanks do not matter */
  { "2.04   TB/s", SC_UNIT_BYTES_PER_S, 2.04e12 },
  { "1 KiB/s", SC_UNIT_BYTES_PER_S, 1024 },
  { "1.5 us", SC_UNIT_SECONDS, 1.5e-6 },
  { "1.5 \302\265s", SC_UNIT_SECONDS, 1.5e-6 },
  { "1.5 \316\274s", SC_UNIT_SECONDS, 1.5e-6 },
  { "82 ns", SC_UNIT_SECONDS, 82e-9 },
  { "-1 ms", SC_UNIT_SECONDS, -1e-3 }, /* ranges are the reader's */
  { "80 GiB", SC_UNIT_BYTES, 85899345920.0 },
  { "80 GB", SC_UNIT_BYTES, 80e9 },
  { "0 B", SC_UNIT_BYTES, 0 },
  { "312 TFLOP/s", SC_UNIT_FLOPS, 312e12 },
  { "1e3 GFLOP/s", SC_UNIT_FLOPS, 1e12 },
  { ".5 PFLOP/s", SC_UNIT_FLOPS, 0.5e15 },
};

START_TEST (a_quantity_with_its_unit_is_read)
{
  double value = -7;
  ck_assert (sc_unit_parse (good[_i].text, good[_i].unit, &value, NULL));
  /* One multiplication and one division: the same double as the literal. */
  ck_assert_double_eq (value, good[_i].value);
}
END_TEST

static const struct
{
  const char *text;
  ScUnit unit;
  const char *hint; /* the message has this */
} bad[] = {
  { "450", SC_UNIT_BYTES_PER_S, "(try \"450 GB/s\")" },
  { "", SC_UNIT_BYTES_PER_S, "found \"\", expected a bandwidth with a unit" },
  { "fast", SC_UNIT_BYTES_PER_S, "such as \"25 GB/s\"" },
  { "450 gb/s", SC_UNIT_BYTES_PER_S, "did you mean \"450 GB/s\" or \"450 Gb/s\"" }, /* bytes or bits? */
  { "450 GBps", SC_UNIT_BYTES_PER_S, "units: B/s kB/s" },
  { "450 GB", SC_UNIT_BYTES_PER_S, "GB is not the unit of such a quantity" },
  { "85%", SC_UNIT_BYTES_PER_S, "percent are not accepted" },
  { "nan GB/s", SC_UNIT_BYTES_PER_S, "found \"nan GB/s\"" },
  { "inf GB/s", SC_UNIT_BYTES_PER_S, "found \"inf GB/s\"" },
  { "0x10 GB/s", SC_UNIT_BYTES_PER_S, "units:" },
  { "1e400 GB/s", SC_UNIT_BYTES_PER_S, "that a computer can hold" },
  { "1e308 GB/s", SC_UNIT_BYTES_PER_S, "that a computer can hold" },
  { "1,000 GB/s", SC_UNIT_BYTES_PER_S, "units:" },
  { "80 Gib", SC_UNIT_BYTES, "did you mean \"80 GiB\"" },
  { "5 Us", SC_UNIT_SECONDS, "did you mean \"5 us\"" },
  { "5 us ", SC_UNIT_SECONDS, "units:" },
  { "312 TFLOPS", SC_UNIT_FLOPS, "units: FLOP/s" },
  { " 5 us", SC_UNIT_SECONDS, "such as \"1.5 us\"" },
};

START_TEST (anything_else_is_refused_in_words)
{
  double value = -7;
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_unit_parse (bad[_i].text, bad[_i].unit, &value, &error));
  ck_assert (g_error_matches (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID));
  ck_assert_msg (strstr (error->message, bad[_i].hint) != NULL, "%s", error->message);
  ck_assert_double_eq (value, -7);
}
END_TEST

START_TEST (a_long_text_is_cut_in_messages)
{
  char text[200];
  memset (text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  double value;
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_unit_parse (text, SC_UNIT_BYTES, &value, &error));
  ck_assert_uint_lt (strlen (error->message), 140);
}
END_TEST

START_TEST (a_bare_number_is_shown_with_a_unit)
{
  g_autoptr (GError) error = NULL;
  sc_unit_set_bare_error ("450", SC_UNIT_BYTES_PER_S, &error);
  ck_assert_str_eq (error->message, "found 450, expected a bandwidth with a unit (try \"450 GB/s\")");
}
END_TEST

static const struct
{
  double value;
  ScUnit unit;
  const char *text;
} written[] = {
  { 48.5e9, SC_UNIT_BYTES_PER_S, "48.5 GB/s" },
  { 2.04e12, SC_UNIT_BYTES_PER_S, "2.04 TB/s" },
  { 85899345920.0, SC_UNIT_BYTES, "80 GiB" },
  { 80e9, SC_UNIT_BYTES, "80 GB" },
  { 5e-6, SC_UNIT_SECONDS, "5 us" },
  { 0, SC_UNIT_SECONDS, "0 ps" },
  { 312e12, SC_UNIT_FLOPS, "312 TFLOP/s" },
  { 0.85, SC_UNIT_NONE, "0.85" },
};

START_TEST (a_quantity_is_written_shortest)
{
  g_autofree char *text = sc_unit_format (written[_i].value, written[_i].unit);
  ck_assert_str_eq (text, written[_i].text);
}
END_TEST

START_TEST (what_is_written_reads_back)
{
  for (ScUnit unit = SC_UNIT_BYTES; unit < SC_N_UNITS; unit++)
    for (double value = 1e-13; value < 1e19; value *= 7.3)
      {
        g_autofree char *text = sc_unit_format (value, unit);
        double back = 0;
        ck_assert (sc_unit_parse (text, unit, &back, NULL));
        /* Scaling may cost the last digits: two roundings each way. */
        ck_assert_double_eq_tol (back, value, 4e-16 * value);
      }
}
END_TEST

static const struct
{
  char *(*format) (double value);
  double value;
  const char *text;
} people[] = {
  { sc_format_bytes, 0, "0 B" },
  { sc_format_bytes, 1023, "1023 B" },
  { sc_format_bytes, 512, "512 B" },
  { sc_format_bytes, 1536, "1.500 KiB" },
  { sc_format_bytes, 85520809984.0, "79.65 GiB" },
  { sc_format_bytes, -1536, "-1.500 KiB" },
  { sc_format_rate, 48.5e9, "48.50 GB/s" },
  { sc_format_rate, 999.99e9, "1.000 TB/s" },
  { sc_format_seconds, 0, "0 s" },
  { sc_format_seconds, 13.754, "13.75 s" },
  { sc_format_seconds, 1.42e-3, "1.420 ms" },
  { sc_format_seconds, 9.9996e-3, "10.00 ms" },
  { sc_format_seconds, 1234.5, "1234 s" }, /* the half goes to even */
  { sc_format_flops, 312e12, "312.0 TFLOP/s" },
  { sc_format_flops, 1.6384e19, "16.38 EFLOP/s" },
  { sc_format_count, 70.553706496e9, "70.55 B" },
  { sc_format_count, 64, "64" },
  { sc_format_count, 131072, "131.1 k" },
};

START_TEST (people_get_four_digits)
{
  g_autofree char *text = people[_i].format (people[_i].value);
  ck_assert_str_eq (text, people[_i].text);
}
END_TEST

static Suite *
units_suite (void)
{
  Suite *suite = suite_create ("units");
  TCase *tc = tcase_create ("units");
  tcase_add_loop_test (tc, a_quantity_with_its_unit_is_read, 0, G_N_ELEMENTS (good));
  tcase_add_loop_test (tc, anything_else_is_refused_in_words, 0, G_N_ELEMENTS (bad));
  tcase_add_test (tc, a_long_text_is_cut_in_messages);
  tcase_add_test (tc, a_bare_number_is_shown_with_a_unit);
  tcase_add_loop_test (tc, a_quantity_is_written_shortest, 0, G_N_ELEMENTS (written));
  tcase_add_test (tc, what_is_written_reads_back);
  tcase_add_loop_test (tc, people_get_four_digits, 0, G_N_ELEMENTS (people));
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (units_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
