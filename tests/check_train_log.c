/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_train_log.c - what is read of the logs of training runs. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include "train-log.h"

#define STEP "iteration %d/ 100 | elapsed time per iteration (ms): %g | global batch size: 64 |\n"

START_TEST (the_median_leaves_the_first_tenth_out)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (int i = 0; i < 30; i++)
    g_string_append_printf (text, STEP, i, i < 3 ? 90000.0 : 1000.0 + i);
  ScTrainLog log;
  ck_assert (sc_train_log_parse ("log", text->str, &log, NULL));
  ck_assert_str_eq (log.framework, "Megatron");
  ck_assert_uint_eq (log.steps, 30);
  ck_assert_uint_eq (log.first, 3);
  ck_assert_double_eq_tol (log.step_s, 1.016, 1e-9); /* of 1003 to 1029 ms */
  ck_assert_uint_eq (log.global_batch, 64);
}
END_TEST

START_TEST (a_single_step_counts)
{
  ScTrainLog log;
  ck_assert (sc_train_log_parse ("log", "iteration 1/1 | elapsed time per iteration (ms): 250.5 |", &log, NULL));
  ck_assert_double_eq_tol (log.step_s, 0.2505, 1e-12);
  ck_assert (isnan (log.max_allocated_bytes));
  ck_assert_uint_eq (log.global_batch, 0);
}
END_TEST

START_TEST (memory_is_that_of_the_lowest_rank)
{
  ScTrainLog log;
  ck_assert (sc_train_log_parse ("log",
                                 "[Rank 8] (after 1 iterations) memory (MB) | allocated: 1 | max allocated: 900.5 | reserved: 3 | max reserved: 1000\n"
                                 "[Rank 2] (after 1 iterations) memory (MB) | allocated: 1 | max allocated: 700.5 | reserved: 3 | max reserved: 800\n"
                                 "iteration 1/1 | elapsed time per iteration (ms): 10 |\n",
                                 &log, NULL));
  ck_assert_uint_eq (log.rank, 2);
  ck_assert_double_eq_tol (log.max_allocated_bytes, 700.5 * 1048576, 1);
  ck_assert_double_eq_tol (log.max_reserved_bytes, 800 * 1048576.0, 1);
}
END_TEST

START_TEST (torchtitan_prints_colours_and_commas)
{
  ScTrainLog log;
  ck_assert (sc_train_log_parse ("log", "\x1b[31mstep:  1  \x1b[33mmemory: 12.50GiB(15%)  \x1b[34mtps: 100  tflops: 1\x1b[39m\r\nstep: 10 loss: 2 memory: 13.50GiB(16%) tps: 12,345  tflops: 300.5 mfu: 30%\r\n", &log, NULL));
  ck_assert_str_eq (log.framework, "torchtitan");
  ck_assert_double_eq_tol (log.tokens_per_s_per_gpu, 12345, 1e-9);
  ck_assert_double_eq_tol (log.max_reserved_bytes, 13.5 * 1073741824, 1);
  ck_assert_double_eq_tol (log.tflops_per_gpu, 300.5, 1e-9);
}
END_TEST

START_TEST (other_files_are_refused)
{
  static const char *const texts[] = { "", "hello\n", "elapsed time per iteration (ms): nan", "step: tps:", "iteration elapsed time per iteration (ms): 0 |" };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      ScTrainLog log;
      g_autoptr (GError) error = NULL;
      ck_assert (!sc_train_log_parse ("log", texts[i], &log, &error));
      ck_assert (g_str_has_prefix (error->message, "log: found no step"));
    }
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("train log");
  TCase *const all = tcase_create ("logs");
  tcase_add_test (all, the_median_leaves_the_first_tenth_out);
  tcase_add_test (all, a_single_step_counts);
  tcase_add_test (all, memory_is_that_of_the_lowest_rank);
  tcase_add_test (all, torchtitan_prints_colours_and_commas);
  tcase_add_test (all, other_files_are_refused);
  suite_add_tcase (suite, all);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
