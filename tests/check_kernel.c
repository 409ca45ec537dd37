/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_kernel.c - kernel costs: waves, roofs, limits, monotony, grades; and the lookups of a device. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include "models/framework.h"
#include "models/kernel.h"

static double curve_x[] = { 1024, 2048, 4096, 8192 };
static double curve_y[] = { 400e12, 460e12, 490e12, 500e12 };

/* A round GPU near an H100. */
static ScDevice
round_device (void)
{
  ScDevice d = { .name = NULL };
  d.sms = (ScCited){ .value = 132, .grade = SC_GRADE_DATASHEET };
  d.peak_flops[SC_DTYPE_BF16] = (ScCited){ .value = 1000e12, .grade = SC_GRADE_DATASHEET };
  d.peak_flops[SC_DTYPE_FP16] = d.peak_flops[SC_DTYPE_BF16];
  d.peak_flops[SC_DTYPE_FP32] = (ScCited){ .value = 500e12, .grade = SC_GRADE_DATASHEET };
  d.memory_bytes_per_s = (ScCited){ .value = 3e12, .grade = SC_GRADE_DATASHEET };
  d.l2_bytes = (ScCited){ .value = 50e6, .grade = SC_GRADE_DATASHEET };
  d.gemm_tile_efficiency = (ScCited){ .value = 0.8, .grade = SC_GRADE_MEASURED };
  d.gemm_sustained = (ScCited){ .value = 1, .grade = SC_GRADE_MEASURED };
  d.gemm_accumulate = (ScCited){ .value = 1.04, .grade = SC_GRADE_ASSUMED };
  d.batched_gemm_efficiency = (ScCited){ .value = 0.62, .grade = SC_GRADE_ASSUMED };
  d.elementwise_bytes_per_s = (ScCited){ .value = 2.5e12, .grade = SC_GRADE_MEASURED };
  d.reduction_bytes_per_s = (ScCited){ .value = 2e12, .grade = SC_GRADE_FITTED };
  d.optimizer_bytes_per_s = (ScCited){ .value = 2.5e12, .grade = SC_GRADE_MEASURED };
  d.half_bytes = (ScCited){ .value = 4e6, .grade = SC_GRADE_ASSUMED };
  d.flash_forward = (ScCurve){ .n = 4, .x = curve_x, .y = curve_y, .grade = SC_GRADE_MEASURED };
  d.flash_backward = d.flash_forward;
  d.launch_s = (ScCited){ .value = 2e-6, .grade = SC_GRADE_MEASURED };
  return d;
}

static double
seconds (const ScDevice *device, ScKernel kernel)
{
  return sc_kernel_cost (device, &kernel, 1).seconds;
}

/* Attention of so many FLOPs and bytes, of a number of heads that is not said. */
static ScKernel
flash_kernel (const char *name, ScKernelClass class, ScDtype dtype, guint seq, guint head_dim, double flops, double bytes)
{
  return (ScKernel){ .name = name, .class = class, .dtype = dtype, .k = head_dim, .batch = 1, .flops = flops, .bytes = bytes, .seq = seq };
}

/* MODELLING 4.1: Llama-3-70B, TP 8, 8192 tokens, 132 SMs, tile 128 x 256; and the cliff at 1792 on 108 SMs */
static const struct
{
  guint64 m, n, k;
  guint tile_m, tile_n, sms;
  guint64 n_tiles, waves;
  double efficiency, flops, bytes;
} wave_cases[] = {
  { 8192, 1280, 8192, 128, 256, 132, 320, 3, 0.8080808080808081, 171798691840, 176160768 },
  { 8192, 8192, 1024, 128, 256, 132, 2048, 16, 0.9696969696969697, 137438953472, 167772160 },
  { 8192, 7168, 8192, 128, 256, 132, 1792, 14, 0.9696969696969697, 962072674304, 369098752 },
  { 8192, 8192, 3584, 128, 256, 132, 2048, 16, 0.9696969696969697, 481036337152, 251658240 },
  { 1792, 1792, 1792, 256, 128, 108, 98, 1, 98.0 / 108, 2 * 1792.0 * 1792 * 1792, 6 * 1792.0 * 1792 },
  { 1793, 1793, 1793, 256, 128, 108, 120, 2, 120.0 / 216, 2 * 1793.0 * 1793 * 1793, 6 * 1793.0 * 1793 },
};

START_TEST (waves_equal_worked_values)
{
  double efficiency = 0;
  const guint64 waves = sc_gemm_waves (wave_cases[_i].m, wave_cases[_i].n, wave_cases[_i].tile_m, wave_cases[_i].tile_n,
                                       wave_cases[_i].sms, &efficiency);
  const ScKernel k = sc_kernel_gemm ("x", SC_DTYPE_BF16, wave_cases[_i].m, wave_cases[_i].n, wave_cases[_i].k);
  ck_assert_uint_eq (waves, wave_cases[_i].waves);
  ck_assert_double_eq_tol (efficiency, wave_cases[_i].efficiency, 1e-9);
  ck_assert_uint_eq ((guint64) llround (efficiency * (double) waves * wave_cases[_i].sms), wave_cases[_i].n_tiles);
  ck_assert_double_eq (k.flops, wave_cases[_i].flops);
  ck_assert_double_eq (k.bytes, wave_cases[_i].bytes);
}
END_TEST

START_TEST (a_full_wave_of_large_tiles_costs_its_flops_at_the_tile_rate)
{
  const ScDevice d = round_device ();
  /* 132 x 256 rows, 10 x 128 columns: ten full waves */
  const double expected = 2.0 * 33792 * 1280 * 8192 / 800e12 + 10 * 0.6e-6 + 2e-6;
  ck_assert_double_eq_tol (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 33792, 1280, 8192)), expected, 1e-9);
}
END_TEST

static const guint64 sizes[] = { 8, 64, 256, 512, 1000, 1024, 2048, 3072, 4096, 5120, 8192, 12288, 28672 };

START_TEST (no_product_beats_the_roofs)
{
  const ScDevice d = round_device ();
  for (guint m = 0; m < G_N_ELEMENTS (sizes); m++)
    for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        {
          const ScKernel kernels[] = {
            sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], sizes[n], sizes[k]),
            sc_kernel_gemm_accumulate ("x", SC_DTYPE_BF16, SC_DTYPE_FP32, sizes[m], sizes[n], sizes[k]),
            sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 12, sizes[m], sizes[n], sizes[k]),
          };
          for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
            {
              const ScCost cost = sc_kernel_cost (&d, &kernels[i], 1);
              ck_assert (cost.seconds >= kernels[i].flops / d.peak_flops[SC_DTYPE_BF16].value + d.launch_s.value);
              ck_assert (cost.seconds >= kernels[i].bytes / d.memory_bytes_per_s.value + d.launch_s.value);
            }
        }
}
END_TEST

START_TEST (a_larger_product_is_never_much_faster)
{
  const ScDevice d = round_device ();
  for (guint a = 0; a + 1 < G_N_ELEMENTS (sizes); a++)
    for (guint m = 0; m < G_N_ELEMENTS (sizes); m++)
      for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
        {
          const double least = 0.999; /* k: split-K steps; m, n: none */
          const guint64 x = sizes[a], y = sizes[a + 1];
          ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, y, sizes[m], sizes[n]))
                     >= least * seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, x, sizes[m], sizes[n])));
          ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], y, sizes[n]))
                     >= least * seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], x, sizes[n])));
          ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], sizes[n], y))
                     >= least * seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], sizes[n], x)));
        }
}
END_TEST

START_TEST (one_row_more_can_cost_a_wave)
{
  const ScDevice d = round_device ();
  const double fits = seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 11 * 256, 12 * 128, 8192));
  const double spills = seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 11 * 256 + 8, 12 * 128, 8192));
  ck_assert (spills > 1.2 * fits);
}
END_TEST

START_TEST (splitting_k_fills_idle_sms)
{
  const ScDevice d = round_device ();
  /* Eight tiles of the largest kind: on their SMs alone they would take 8 x as long as the whole GPU needs. */
  const double alone = 2.0 * 256 * 128 * 65536 / (800e12 / 132);
  ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 512, 512, 65536)) < alone / 4);
}
END_TEST

START_TEST (sustained_and_accumulate_factors_multiply_the_arithmetic)
{
  ScDevice d = round_device ();
  const ScKernel plain = sc_kernel_gemm ("x", SC_DTYPE_BF16, 8192, 7168, 8192);
  const ScKernel wgrad = sc_kernel_gemm_accumulate ("x", SC_DTYPE_BF16, SC_DTYPE_FP32, 8192, 7168, 8192);
  const double burst = seconds (&d, plain) - d.launch_s.value;
  ck_assert (!plain.accumulate && wgrad.accumulate);
  ck_assert_double_eq (wgrad.bytes - plain.bytes, 6.0 * 8192 * 7168);
  ck_assert_double_eq_tol (seconds (&d, wgrad) - d.launch_s.value, 1.04 * burst, 1e-12);
  d.gemm_sustained.value = 0.8;
  ck_assert_double_eq_tol (seconds (&d, plain) - d.launch_s.value, burst / 0.8, 1e-12);
}
END_TEST

START_TEST (sixteen_bit_accumulators_only_cost_their_bytes)
{
  const ScKernel wgrad = sc_kernel_gemm_accumulate ("x", SC_DTYPE_FP16, SC_DTYPE_FP16, 64, 64, 64);
  ck_assert (!wgrad.accumulate);
  ck_assert_double_eq (wgrad.bytes, 2 * (4 * 64.0 * 64));
}
END_TEST

START_TEST (odd_sizes_leave_the_tensor_cores)
{
  const ScDevice d = round_device ();
  const double aligned = seconds (&d, sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 64, 2048, 2048, 112));
  const double odd = seconds (&d, sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 64, 2048, 2048, 108));
  ck_assert (odd > 1.5 * aligned);
  ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 8192, 50257, 768))
             > 1.5 * seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 8192, 50304, 768)));
}
END_TEST

START_TEST (batched_products_add_arithmetic_and_bytes_as_a_root_of_squares)
{
  const ScDevice d = round_device ();
  const ScKernel k = sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 64, 2048, 2048, 128);
  ck_assert_double_eq_tol (seconds (&d, k), hypot (k.flops / 620e12, k.bytes / 2.5e12) + 2e-6, 1e-15);
}
END_TEST

START_TEST (flash_attention_runs_at_its_curve)
{
  /* MODELLING 4.3: Llama-3-8B, 8192 tokens, causal, 500 TFLOP/s */
  const ScDevice d = round_device ();
  const ScKernel k = flash_kernel ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 8192, 128, 549755813888, 1e8);
  ck_assert_double_eq_tol (seconds (&d, k) - d.launch_s.value, 0.001099511627776, 1e-15);
  const ScKernel small_heads =
      flash_kernel ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 8192, 64, 549755813888, 1e8);
  ck_assert_double_eq_tol (seconds (&d, small_heads) - d.launch_s.value, 0.001099511627776 / 0.75, 1e-15);
  const ScKernel many_bytes = flash_kernel ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 8192, 128, 1, 2.5e9);
  ck_assert_double_eq_tol (seconds (&d, many_bytes), 1e-3 + 2e-6, 1e-12);
}
END_TEST

START_TEST (memory_kernels_ramp_up_with_their_bytes)
{
  const ScDevice d = round_device ();
  static const struct
  {
    ScKernelClass class;
    double rate;
  } rows[] = {
    { SC_KERNEL_ELEMENTWISE, 2.5e12 },
    { SC_KERNEL_REDUCTION, 2e12 },
    { SC_KERNEL_OPTIMIZER, 2.5e12 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      ck_assert_double_eq_tol (seconds (&d, sc_kernel_memory ("x", rows[i].class, 4e6)) - 2e-6, 2 * 4e6 / rows[i].rate,
                               1e-15);
      ck_assert_double_eq_tol (seconds (&d, sc_kernel_memory ("x", rows[i].class, 4e9)) - 2e-6,
                               1.001 * 4e9 / rows[i].rate, 1e-12);
    }
}
END_TEST

START_TEST (measured_rates_above_the_datasheet_are_cut)
{
  ScDevice d = round_device ();
  d.elementwise_bytes_per_s.value = 100e12;
  d.flash_forward.y = (double[]){ 9e15, 9e15, 9e15, 9e15 };
  d.gemm_tile_efficiency.value = 2;
  ck_assert (seconds (&d, sc_kernel_memory ("x", SC_KERNEL_ELEMENTWISE, 3e9)) >= 1e-3);
  ck_assert (seconds (&d, flash_kernel ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 4096, 128, 1e12, 1)) >= 1e-3);
  ck_assert (seconds (&d, sc_kernel_gemm ("x", SC_DTYPE_BF16, 8192, 8192, 8192)) >= 2.0 * 8192 * 8192 * 8192 / 1e15);
}
END_TEST

START_TEST (a_slow_gpu_takes_longer_but_launches_as_fast)
{
  const ScDevice d = round_device ();
  const ScKernel kernels[] = {
    sc_kernel_gemm ("x", SC_DTYPE_BF16, 4096, 4096, 4096),
    sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 8, 1024, 1024, 64),
    flash_kernel ("x", SC_KERNEL_FLASH_BACKWARD, SC_DTYPE_BF16, 4096, 128, 1e12, 1e8),
    sc_kernel_memory ("x", SC_KERNEL_REDUCTION, 1e8),
  };
  for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
    {
      const double full = sc_kernel_cost (&d, &kernels[i], 1).seconds - d.launch_s.value;
      const double half = sc_kernel_cost (&d, &kernels[i], 0.5).seconds - d.launch_s.value;
      ck_assert_double_eq_tol (half, 2 * full, 1e-12);
    }
}
END_TEST

START_TEST (grades_are_those_of_the_numbers_that_decide)
{
  const ScDevice d = round_device ();
  const struct
  {
    ScKernel kernel;
    ScGrade grade;
  } rows[] = {
    { sc_kernel_gemm ("large", SC_DTYPE_BF16, 33792, 12800, 8192), SC_GRADE_DATASHEET },
    { sc_kernel_gemm ("small tiles", SC_DTYPE_BF16, 1024, 1024, 8192), SC_GRADE_FITTED },
    { sc_kernel_gemm_accumulate ("wgrad", SC_DTYPE_BF16, SC_DTYPE_FP32, 33792, 12800, 8192), SC_GRADE_ASSUMED },
    { sc_kernel_gemm ("by memory", SC_DTYPE_BF16, 8, 8192, 8192), SC_GRADE_DATASHEET },
    { sc_kernel_gemm ("odd", SC_DTYPE_BF16, 33792, 12801, 8192), SC_GRADE_ASSUMED },
    { sc_kernel_batched_gemm ("batched", SC_DTYPE_BF16, 64, 2048, 2048, 128), SC_GRADE_ASSUMED },
    { flash_kernel ("flash", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 8192, 128, 1e12, 1e8), SC_GRADE_MEASURED },
    { flash_kernel ("small heads", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, 8192, 96, 1e12, 1e8), SC_GRADE_FITTED },
    { sc_kernel_memory ("norm", SC_KERNEL_REDUCTION, 1e9), SC_GRADE_FITTED },
    { sc_kernel_memory ("copy", SC_KERNEL_ELEMENTWISE, 1e9), SC_GRADE_MEASURED },
    { sc_kernel_memory ("ramp", SC_KERNEL_ELEMENTWISE, 3e6), SC_GRADE_ASSUMED },
    { sc_kernel_memory ("launch", SC_KERNEL_ELEMENTWISE, 1e3), SC_GRADE_MEASURED },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    ck_assert_msg (sc_kernel_cost (&d, &rows[i].kernel, 1).grade == rows[i].grade, "%s", rows[i].kernel.name);
}
END_TEST

START_TEST (curves_pass_through_points_and_clamp)
{
  const ScCurve curve = { .n = 4, .x = curve_x, .y = curve_y };
  for (guint i = 0; i < 4; i++)
    ck_assert_double_eq_tol (sc_curve_at (&curve, curve_x[i]) / curve_y[i], 1, 1e-12);
  ck_assert_double_eq (sc_curve_at (&curve, 1), 400e12);
  ck_assert_double_eq (sc_curve_at (&curve, 1e6), 500e12);
  double last = 0;
  for (double x = 900; x < 9000; x *= 1.01)
    {
      ck_assert (sc_curve_at (&curve, x) >= last);
      last = sc_curve_at (&curve, x);
    }
  const ScCurve point = { .n = 1, .x = curve_x, .y = curve_y };
  ck_assert_double_eq (sc_curve_at (&point, 77), 400e12);
  const ScCurve line = { .n = 2, .x = curve_x, .y = curve_y };
  ck_assert_double_eq_tol (sc_curve_at (&line, 1024 * sqrt (2)), 430e12, 1);
}
END_TEST

START_TEST (names_and_bytes_of_types)
{
  ck_assert_str_eq (sc_dtype_name (SC_DTYPE_BF16), "bf16");
  ck_assert_str_eq (sc_dtype_name (SC_DTYPE_FP16), "fp16");
  ck_assert_str_eq (sc_dtype_name (SC_DTYPE_FP32), "fp32");
  ck_assert_double_eq (sc_dtype_bytes (SC_DTYPE_FP16), 2);
  ck_assert_double_eq (sc_dtype_bytes (SC_DTYPE_FP32), 4);
  ck_assert_str_eq (sc_grade_name (SC_GRADE_ASSUMED), "assumed");
}
END_TEST

START_TEST (a_device_frees_all_it_owns)
{
  ScDevice *d = g_new0 (ScDevice, 1);
  d->name = g_strdup ("x");
  d->aliases = g_strsplit ("a b", " ", -1);
  d->launch_s.source = g_strdup ("s");
  d->peak_flops[SC_DTYPE_FP32].source = g_strdup ("s");
  d->flash_backward = (ScCurve){ .n = 1, .x = g_new0 (double, 1), .y = g_new0 (double, 1), .source = g_strdup ("s") };
  sc_device_free (d);
  sc_device_free (NULL);
}
END_TEST

START_TEST (frameworks_are_found_by_name_and_version)
{
  for (const ScFramework *const *row = sc_framework_all (); *row != NULL; row++)
    {
      ck_assert_ptr_eq (sc_framework_find ((*row)->name, (*row)->version), *row);
      ck_assert ((*row)->source != NULL && (*row)->summary != NULL);
      ck_assert ((*row)->optimizer_bytes_per_param >= 30);
      ck_assert ((*row)->host_forward_s > 0 && (*row)->host_backward_s > 0 && (*row)->host_p2p_s > 0);
    }
  ck_assert_str_eq (sc_framework_find ("megatron-lm", NULL)->version, "2022");
  ck_assert_str_eq (sc_framework_find ("megatron-core", NULL)->version, "core");
  ck_assert_ptr_null (sc_framework_find ("megatron-lm", "1999"));
  ck_assert_ptr_null (sc_framework_find ("megatron", NULL));
}
END_TEST

static Suite *
kernel_suite (void)
{
  Suite *suite = suite_create ("kernel");
  TCase *tc = tcase_create ("matrix");
  tcase_add_loop_test (tc, waves_equal_worked_values, 0, G_N_ELEMENTS (wave_cases));
  tcase_add_test (tc, a_full_wave_of_large_tiles_costs_its_flops_at_the_tile_rate);
  tcase_add_test (tc, no_product_beats_the_roofs);
  tcase_add_test (tc, a_larger_product_is_never_much_faster);
  tcase_add_test (tc, one_row_more_can_cost_a_wave);
  tcase_add_test (tc, splitting_k_fills_idle_sms);
  tcase_add_test (tc, sustained_and_accumulate_factors_multiply_the_arithmetic);
  tcase_add_test (tc, sixteen_bit_accumulators_only_cost_their_bytes);
  tcase_add_test (tc, odd_sizes_leave_the_tensor_cores);
  tcase_add_test (tc, batched_products_add_arithmetic_and_bytes_as_a_root_of_squares);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("other");
  tcase_add_test (tc, flash_attention_runs_at_its_curve);
  tcase_add_test (tc, memory_kernels_ramp_up_with_their_bytes);
  tcase_add_test (tc, measured_rates_above_the_datasheet_are_cut);
  tcase_add_test (tc, a_slow_gpu_takes_longer_but_launches_as_fast);
  tcase_add_test (tc, grades_are_those_of_the_numbers_that_decide);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("tables");
  tcase_add_test (tc, curves_pass_through_points_and_clamp);
  tcase_add_test (tc, names_and_bytes_of_types);
  tcase_add_test (tc, a_device_frees_all_it_owns);
  tcase_add_test (tc, frameworks_are_found_by_name_and_version);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (kernel_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
