/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_kernel.c - kernel costs: waves, roofs, limits, monotony, grades, what was measured; and the lookups of a device. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/framework.h"
#include "models/kernel-form.h"
#include "models/samples.h"
#include "models/topology.h"

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
  d.h2d_bytes_per_s = (ScCited){ .value = 50e9, .grade = SC_GRADE_MEASURED };
  d.d2h_bytes_per_s = (ScCited){ .value = 40e9, .grade = SC_GRADE_ASSUMED };
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

/* ---- Attention ---- */

START_TEST (attention_pairs_equal_counts)
{
  static const struct
  {
    guint seq, window;
    gboolean causal;
    double pairs;
  } rows[] = {
    /* MODELLING 1.3; a causal window of w counts w (s - w/2), half a diagonal less than one by one */
    { 8192, 0, FALSE, 67108864 },
    { 8192, 0, TRUE, 33554432 },
    { 8192, 4096, TRUE, 25165824 },
    { 8192, 8192, TRUE, 33554432 },
    { 8192, 9000, TRUE, 33554432 },
    { 8192, 8192, FALSE, 67108864 },
    { 4, 1, FALSE, 7 }, /* both neighbours: 2 + 3 + 3 + 2 of them would be 10; 2 w s - w^2 counts 7 */
    { 1, 0, FALSE, 1 },
    { 1, 1, TRUE, 0.5 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    ck_assert_double_eq (sc_attention_pairs (rows[i].seq, rows[i].causal, rows[i].window), rows[i].pairs);
}
END_TEST

START_TEST (a_wider_window_is_never_less_work)
{
  for (guint causal = 0; causal < 2; causal++)
    {
      double last = 0;
      for (guint window = 1; window <= 1100; window++)
        {
          const double pairs = sc_attention_pairs (1000, causal > 0, window);
          ck_assert (pairs >= last && pairs <= sc_attention_pairs (1000, causal > 0, 0));
          last = pairs;
        }
      ck_assert_double_eq (last, sc_attention_pairs (1000, causal > 0, 0));
    }
}
END_TEST

START_TEST (attention_flops_equal_worked_values)
{
  /* MODELLING 1.6, the core of one layer, not causal; DeepSeek-V3's keys are of 192, its values of 128 */
  static const struct
  {
    const char *model;
    ScAttentionShape shape;
    double flops;
  } rows[] = {
    { "GPT-3 175B", { .batch = 1, .seq = 2048, .heads = 96, .kv_heads = 96, .head_dim = 128 }, 206158430208 },
    { "Llama-3 8B", { .batch = 1, .seq = 8192, .heads = 32, .kv_heads = 8, .head_dim = 128 }, 1099511627776 },
    { "Llama-3 70B", { .batch = 1, .seq = 8192, .heads = 64, .kv_heads = 8, .head_dim = 128 }, 2199023255552 },
    { "Llama-3 405B", { .batch = 1, .seq = 8192, .heads = 128, .kv_heads = 8, .head_dim = 128 }, 4398046511104 },
    { "Mixtral 8x7B", { .batch = 1, .seq = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128 }, 274877906944 },
    { "DeepSeek-V3", { .batch = 1, .seq = 4096, .heads = 128, .kv_heads = 128, .head_dim = 192, .v_head_dim = 128 }, 1374389534720 },
    { "packed", { .batch = 1, .seq = 8192, .heads = 1, .kv_heads = 1, .head_dim = 128, .pairs = 25165824 }, 512 * 25165824.0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      ScAttentionShape shape = rows[i].shape;
      const ScKernel forward = sc_kernel_attention ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape);
      const ScKernel backward = sc_kernel_attention ("x", SC_KERNEL_FLASH_BACKWARD, SC_DTYPE_BF16, &shape);
      ck_assert_msg (forward.flops == rows[i].flops, "%s: %.0f", rows[i].model, forward.flops);
      /* 4.3: five products for two; of three widths of Q and K, two of V */
      const double d_qk = shape.head_dim, d_v = shape.v_head_dim > 0 ? shape.v_head_dim : shape.head_dim;
      ck_assert_double_eq_tol (backward.flops / rows[i].flops, (3 * d_qk + 2 * d_v) / (d_qk + d_v), 1e-12);
      ck_assert_uint_eq (forward.v_head_dim, shape.v_head_dim > 0 ? shape.v_head_dim : shape.head_dim);
      if (shape.pairs > 0)
        continue;
      shape.causal = TRUE;
      const ScKernel causal = sc_kernel_attention ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape);
      ck_assert_double_eq (causal.flops, rows[i].flops / 2);
      ck_assert (causal.causal && !forward.causal);
      ck_assert_double_eq (causal.bytes, forward.bytes);
      shape.window = shape.seq / 2; /* then the matrix is a band, no triangle */
      const ScKernel band = sc_kernel_attention ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape);
      ck_assert_double_eq (band.flops, rows[i].flops * 3 / 8);
      ck_assert (band.causal && band.window == shape.window);
      shape.window = shape.seq;
      ck_assert_double_eq (sc_kernel_attention ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape).flops, causal.flops);
    }
}
END_TEST

START_TEST (attention_moves_its_tensors_and_no_scores)
{
  const ScAttentionShape shape = { .batch = 2, .seq = 4096, .heads = 32, .kv_heads = 8, .head_dim = 192, .v_head_dim = 128 };
  const ScKernel forward = sc_kernel_attention ("x", SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape);
  const ScKernel backward = sc_kernel_attention ("x", SC_KERNEL_FLASH_BACKWARD, SC_DTYPE_BF16, &shape);
  const double q = 8192 * 32 * 192.0 * 2, k = 8192 * 8 * 192.0 * 2, v = 8192 * 8 * 128.0 * 2, o = 8192 * 32 * 128.0 * 2, lse = 8192 * 32 * 4.0;
  ck_assert_double_eq (forward.bytes, q + k + v + o + lse);
  ck_assert_double_eq (backward.bytes, 2 * (q + k + v + o) + lse + 4 * q); /* dQ is added up in fp32: written and read, 4 x 2 bytes */
}
END_TEST

/* ---- Experts ---- */

START_TEST (tiles_of_groups_are_counted_by_hand)
{
  static const struct
  {
    guint n_groups;
    guint64 rows[8];
    guint64 tiles[3], mean;
  } cases[] = {
    { 8, { 512, 512, 512, 512, 512, 512, 512, 512 }, { 16, 32, 64 }, 512 },
    { 3, { 300, 300, 300 }, { 6, 9, 15 }, 300 },
    { 3, { 1, 128, 257 }, { 1 + 1 + 2, 1 + 1 + 3, 1 + 2 + 5 }, 129 },
    { 1, { 256 }, { 1, 2, 4 }, 256 },
    { 4, { 0, 64, 0, 64 }, { 2, 2, 2 }, 64 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (ScGemmLayout layout = SC_GEMM_TN; layout < SC_N_GEMM_LAYOUTS; layout++)
      {
        const ScKernel k = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, cases[i].rows, cases[i].n_groups, 2048, 1024);
        double total = 0, busy = 0;
        for (guint g = 0; g < cases[i].n_groups; g++)
          {
            total += (double) cases[i].rows[g];
            busy += cases[i].rows[g] > 0;
          }
        for (guint t = 0; t < 3; t++)
          ck_assert_uint_eq (k.row_tiles[t], cases[i].tiles[t]);
        ck_assert_uint_eq (k.m, cases[i].mean);
        ck_assert_double_eq (k.flops, 2 * total * 2048 * 1024);
        ck_assert_double_eq (k.bytes, layout == SC_GEMM_NT ? 2 * total * 3072 + 8 * busy * 2048 * 1024
                                                           : 2 * total * 3072 + 2 * busy * 2048 * 1024);
        ck_assert_int_eq (k.accumulate, layout == SC_GEMM_NT);
      }
}
END_TEST

START_TEST (even_groups_in_full_waves_cost_what_one_product_does)
{
  const ScDevice d = round_device ();
  /* 4 x 33 x 256 rows: forward 10 tiles across, input gradient 10 of the other side, ten full waves of 132 tiles each */
  const guint64 rows[] = { 8448, 8448, 8448, 8448 };
  const double expected = 2.0 * 33792 * 1280 * 8192 / 800e12 + 10 * 0.6e-6 + 2e-6;
  ck_assert_double_eq_tol (seconds (&d, sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_TN, rows, 4, 1280, 8192)), expected, 1e-9);
  ck_assert_double_eq_tol (seconds (&d, sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_NN, rows, 4, 8192, 1280)), expected, 1e-9);
  /* weight gradient: 4 groups of 33 x 10 tiles of 256 x 128 over 8192 rows each, 4 % longer for adding up in fp32, of whose traffic (8 bytes for each
   * element, 2.5 TB/s) 0.7 comes on top */
  const guint64 same[] = { 8192, 8192, 8192, 8192 };
  const double math = 2.0 * 4 * 8448 * 1280 * 8192 / 800e12 + 10 * 0.6e-6, output = 0.7 * 8 * 4 * 8448 * 1280 / 2.5e12;
  ck_assert_double_eq_tol (seconds (&d, sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_NT, same, 4, 8448, 1280)), 1.04 * math + output + 2e-6, 1e-9);
}
END_TEST

START_TEST (one_group_is_a_plain_product)
{
  const ScDevice d = round_device ();
  for (guint m = 0; m < G_N_ELEMENTS (sizes); m++)
    for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
      {
        const guint64 rows[] = { sizes[m] };
        const ScKernel one = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_TN, rows, 1, sizes[n], 4096);
        const ScKernel plain = sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], sizes[n], 4096);
        ck_assert_double_eq (one.flops, plain.flops);
        ck_assert_double_eq (one.bytes, plain.bytes);
        ck_assert_double_eq_tol (seconds (&d, one), seconds (&d, plain), 1e-15);
      }
}
END_TEST

/* Rows that move from one of two groups to the other, 256 at a time: even ones fill their tiles. */
START_TEST (uneven_groups_are_never_cheaper_than_even_ones)
{
  const ScDevice d = round_device ();
  static const guint64 moved[] = { 1, 64, 100, 255, 300, 512, 1000, 1023 };
  for (ScGemmLayout layout = SC_GEMM_TN; layout < SC_N_GEMM_LAYOUTS; layout++)
    for (guint i = 0; i < G_N_ELEMENTS (moved); i++)
      for (guint n_groups = 2; n_groups <= 64; n_groups *= 2)
        {
          guint64 even[64], uneven[64];
          for (guint g = 0; g < n_groups; g++)
            {
              even[g] = 1024;
              uneven[g] = g % 2 == 0 ? 1024 - moved[i] : 1024 + moved[i];
            }
          const ScKernel a = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, even, n_groups, 4096, 2048);
          const ScKernel b = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, uneven, n_groups, 4096, 2048);
          ck_assert_double_eq (a.flops, b.flops);
          ck_assert_double_eq (a.bytes, b.bytes);
          ck_assert_msg (seconds (&d, b) >= seconds (&d, a) * (1 - 1e-12), "%s, %u groups", sc_gemm_layout_name (layout), n_groups);
        }
}
END_TEST

START_TEST (empty_groups_cost_nothing)
{
  const ScDevice d = round_device ();
  static const guint64 few[] = { 24, 4096, 512 }, with_empty[] = { 0, 24, 0, 0, 4096, 512, 0 };
  for (ScGemmLayout layout = SC_GEMM_TN; layout < SC_N_GEMM_LAYOUTS; layout++)
    for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        for (guint n_groups = 1; n_groups <= G_N_ELEMENTS (few); n_groups++)
          {
            const guint n_with = n_groups == 1 ? 4 : n_groups == 2 ? 5 : 7;
            const ScKernel a = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, few, n_groups, sizes[n], sizes[k]);
            const ScKernel b = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, with_empty, n_with, sizes[n], sizes[k]);
            ck_assert_double_eq (a.flops, b.flops);
            ck_assert_double_eq (a.bytes, b.bytes);
            ck_assert_double_eq_tol (seconds (&d, a), seconds (&d, b), 1e-12);
          }
}
END_TEST

START_TEST (no_rows_are_no_work)
{
  const ScDevice d = round_device ();
  const guint64 none[] = { 0, 0 };
  for (ScGemmLayout layout = SC_GEMM_TN; layout < SC_N_GEMM_LAYOUTS; layout++)
    for (guint n_groups = 0; n_groups <= 2; n_groups++)
      {
        const ScKernel k = sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, layout, none, n_groups, 1024, 1024);
        ck_assert_double_eq (k.flops, 0);
        ck_assert_double_eq (k.bytes, 0);
        const double s = seconds (&d, k);
        ck_assert (isfinite (s) && s >= d.launch_s.value && s < 2e-5);
      }
}
END_TEST

START_TEST (narrow_operands_leave_sixteen_bits)
{
  const ScKernel fp8 = sc_kernel_gemm ("x", SC_DTYPE_FP8, 1024, 2048, 4096), fp4 = sc_kernel_gemm ("x", SC_DTYPE_FP4, 1024, 2048, 4096);
  const double operands = (1024.0 + 2048) * 4096, c = 1024.0 * 2048;
  ck_assert_double_eq (fp8.bytes, operands + 2 * c);
  ck_assert_double_eq (fp4.bytes, operands * 9 / 16 + 2 * c);
  ck_assert_double_eq (sc_kernel_gemm_accumulate ("x", SC_DTYPE_FP8, SC_DTYPE_FP32, 1024, 2048, 4096).bytes, operands + 8 * c);
}
END_TEST

/* ---- Measured kernels ---- */

typedef struct
{
  ScKernel kernel;
  double seconds;
} Sample;

/* Class, data type and operation are those of the first sample. */
static ScSampleTable *
add_table (ScDevice *device, const Sample *samples, guint n)
{
  ScSampleTable *const table = g_new0 (ScSampleTable, 1);
  table->class = samples[0].kernel.class;
  table->dtype = samples[0].kernel.dtype;
  table->op = samples[0].kernel.op;
  table->training = TRUE;
  table->n = n;
  table->kernels = g_new (ScKernel, n);
  table->seconds = g_new (double, n);
  for (guint i = 0; i < n; i++)
    {
      table->kernels[i] = samples[i].kernel;
      table->seconds[i] = samples[i].seconds;
    }
  if (device->tables == NULL)
    device->tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
  g_ptr_array_add (device->tables, table);
  return table;
}

#define N_SHAPES 4

/* Shapes of @class, far apart; every one of some hundred microseconds and more. */
static ScKernel
shape_of (ScKernelClass class, guint i)
{
  const guint64 m = (guint64) 2048 << i;
  const guint64 rows[] = { m, 2 * m, 256, m };
  const ScAttentionShape attention = { .batch = 1 + i, .seq = 2048u << i, .heads = 32, .kv_heads = 8, .head_dim = 128, .causal = TRUE };
  switch (class)
    {
    case SC_KERNEL_GEMM: return sc_kernel_gemm ("x", SC_DTYPE_BF16, m, 4096, 8192);
    case SC_KERNEL_BATCHED_GEMM: return sc_kernel_batched_gemm ("x", SC_DTYPE_BF16, 64, m, 2048, 128);
    case SC_KERNEL_GROUPED_GEMM: return sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_TN, rows, 4, 4096, 4096);
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD: return sc_kernel_attention ("x", class, SC_DTYPE_BF16, &attention);
    case SC_KERNEL_ELEMENTWISE: return sc_kernel_op ("x", SC_OP_GELU, 2e8 * (i + 1));
    case SC_KERNEL_REDUCTION:
      {
        ScKernel norm = sc_kernel_op ("x", SC_OP_RMSNORM, 2e8 * (i + 1));
        norm.row = 1024 << i;
        return norm;
      }
    case SC_KERNEL_OPTIMIZER: return sc_kernel_op ("x", SC_OP_ADAM, 2e8 * (i + 1));
    case SC_KERNEL_HOST_COPY: return sc_kernel_op ("x", SC_OP_DEVICE_TO_HOST, 2e6 * (i + 1));
    case SC_N_KERNEL_CLASSES:
    default: g_assert_not_reached ();
    }
}

static const ScCited table_efficiency = { .value = 0.7, .grade = SC_GRADE_FITTED };

/* What a table's residuals lie on. */
static ScForm
form_of (const ScDevice *device, const ScKernel *kernel, double sustained)
{
  return sc_kernel_form (device, kernel, &table_efficiency, sustained);
}

/* The round GPU with a table of each class, times above the form by a share that differs by shape. */
static ScDevice
measured_device (void)
{
  ScDevice d = round_device ();
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    {
      Sample samples[N_SHAPES];
      for (guint i = 0; i < N_SHAPES; i++)
        {
          const ScKernel k = shape_of ((ScKernelClass) c, i);
          samples[i] = (Sample) { k, form_of (&d, &k, 1).seconds * (1.1 + 0.1 * i) };
        }
      add_table (&d, samples, N_SHAPES)->efficiency = table_efficiency;
    }
  sc_device_prepare (&d);
  return d;
}

static double
measured_s (const ScDevice *device, ScKernelClass class, guint i)
{
  return ((const ScSampleTable *) g_ptr_array_index (device->tables, class))->seconds[i];
}

START_TEST (a_measured_shape_takes_its_measured_time)
{
  ScDevice d = measured_device ();
  d.burst = TRUE;
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    for (guint i = 0; i < N_SHAPES; i++)
      {
        const ScKernel k = shape_of ((ScKernelClass) c, i);
        const ScCost cost = sc_kernel_cost (&d, &k, 1);
        const double expected = measured_s (&d, (ScKernelClass) c, i);
        ck_assert_msg (fabs (cost.seconds / expected - 1) < 1e-12, "%s %u: %g s, measured %g", sc_kernel_class_name ((ScKernelClass) c), i,
                       cost.seconds, expected);
        ck_assert_int_eq (cost.grade, SC_GRADE_MEASURED);
      }
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (between_shapes_it_is_interpolated_and_far_away_fitted)
{
  ScDevice d = measured_device ();
  d.burst = TRUE;
  const struct
  {
    ScKernel kernel;
    ScGrade grade;
  } rows[] = {
    { sc_kernel_gemm ("near", SC_DTYPE_BF16, 3072, 4096, 8192), SC_GRADE_INTERPOLATED },
    { sc_kernel_gemm ("other type", SC_DTYPE_FP16, 3072, 4096, 8192), SC_GRADE_INTERPOLATED },
    { sc_kernel_gemm ("far", SC_DTYPE_BF16, 4096, 65536, 8192), SC_GRADE_FITTED },
    { sc_kernel_op ("near", SC_OP_RMSNORM, 3e8), SC_GRADE_INTERPOLATED },
    { sc_kernel_op ("far", SC_OP_RMSNORM, 4e9), SC_GRADE_FITTED },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const ScCost cost = sc_kernel_cost (&d, &rows[i].kernel, 1);
      ck_assert_msg (cost.grade == rows[i].grade, "%s: %s", rows[i].kernel.name, sc_grade_name (cost.grade));
      const double ratio = cost.seconds / form_of (&d, &rows[i].kernel, 1).seconds;
      ck_assert_msg (ratio > 1.05 && ratio < 1.45, "%s: %g", rows[i].kernel.name, ratio);
    }
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (a_relative_lends_its_residuals_not_its_grade)
{
  ScDevice other = measured_device (), d = round_device ();
  d.relative = &other;
  d.burst = TRUE;
  for (guint i = 0; i < SC_N_DTYPES; i++)
    d.peak_flops[i].value *= 2;
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    for (guint i = 0; i < N_SHAPES; i++)
      {
        const ScKernel k = shape_of ((ScKernelClass) c, i);
        const ScCost cost = sc_kernel_cost (&d, &k, 1);
        ck_assert_int_eq (cost.grade, SC_GRADE_FITTED);
        ck_assert_double_eq_tol (cost.seconds / (form_of (&d, &k, 1).seconds * (1.1 + 0.1 * i)), 1, 1e-12);
      }
  /* where there are measurements of its own, they count, and the relative only for the other classes */
  const ScKernel own = sc_kernel_gemm ("x", SC_DTYPE_BF16, 4096, 4096, 4096), lent = shape_of (SC_KERNEL_GROUPED_GEMM, 0);
  add_table (&d, &(Sample) { own, 1e-3 }, 1);
  sc_device_prepare (&d);
  ck_assert_double_eq_tol (seconds (&d, own), 1e-3, 1e-12);
  ck_assert_int_eq (sc_kernel_cost (&d, &own, 1).grade, SC_GRADE_MEASURED);
  ck_assert_int_eq (sc_kernel_cost (&d, &lent, 1).grade, SC_GRADE_FITTED);
  g_ptr_array_unref (d.tables);
  g_ptr_array_unref (other.tables);
}
END_TEST

START_TEST (tables_stand_in_for_what_they_are_like)
{
  const ScKernel bf16 = sc_kernel_gemm ("x", SC_DTYPE_BF16, 4096, 4096, 4096), fp16 = sc_kernel_gemm ("x", SC_DTYPE_FP16, 4096, 4096, 4096),
                 fp8 = sc_kernel_gemm ("x", SC_DTYPE_FP8, 4096, 4096, 4096), fp32 = sc_kernel_gemm ("x", SC_DTYPE_FP32, 4096, 4096, 4096),
                 norm = sc_kernel_op ("x", SC_OP_RMSNORM, 1e8), softmax = sc_kernel_op ("x", SC_OP_SOFTMAX, 1e8),
                 any = sc_kernel_memory ("x", SC_KERNEL_REDUCTION, 1e8);
  ScKernel norm32 = norm;
  norm32.dtype = SC_DTYPE_FP32;
  ScDevice d = round_device ();
  ScSampleTable *const products = add_table (&d, &(Sample) { bf16, 1e-3 }, 1), *const norms = add_table (&d, &(Sample) { norm32, 1e-3 }, 1);
  sc_device_prepare (&d);
  gboolean relative = TRUE;
  ck_assert_ptr_eq (sc_device_samples (&d, &bf16, &relative), products);
  ck_assert (!relative);
  ck_assert_ptr_eq (sc_device_samples (&d, &fp16, &relative), products);
  ck_assert_ptr_null (sc_device_samples (&d, &fp8, &relative));
  ck_assert_ptr_null (sc_device_samples (&d, &fp32, &relative));
  ck_assert_ptr_eq (sc_device_samples (&d, &norm, &relative), norms);
  ck_assert_ptr_null (sc_device_samples (&d, &softmax, &relative));
  ck_assert_ptr_null (sc_device_samples (&d, &any, &relative));
  ScSampleTable *const exact = add_table (&d, &(Sample) { fp16, 2e-3 }, 1);
  ck_assert_ptr_eq (sc_device_samples (&d, &fp16, &relative), exact);
  ck_assert_ptr_eq (sc_device_samples (&d, &bf16, &relative), products);
  products->training = FALSE; /* then it only judges */
  ck_assert_ptr_eq (sc_device_samples (&d, &bf16, &relative), exact);
  exact->n = 0;
  ck_assert_ptr_null (sc_device_samples (&d, &bf16, &relative));
  exact->n = 1;
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (only_products_have_a_sustained_rate)
{
  ScDevice d = measured_device ();
  d.gemm_sustained.value = 0.8;
  for (guint tables = 0; tables < 2; tables++)
    {
      GPtrArray *const kept = d.tables;
      if (tables == 0)
        d.tables = NULL;
      for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
        for (guint i = 0; i < N_SHAPES; i++)
          {
            const ScKernel k = shape_of ((ScKernelClass) c, i);
            d.burst = TRUE;
            const double burst = seconds (&d, k);
            d.burst = FALSE;
            const double sustained = seconds (&d, k);
            if (c == SC_KERNEL_GEMM || c == SC_KERNEL_GROUPED_GEMM)
              {
                const ScCited *const efficiency = tables > 0 ? &table_efficiency : &d.gemm_tile_efficiency;
                const ScForm slow = sc_kernel_form (&d, &k, efficiency, 0.8), fast = sc_kernel_form (&d, &k, efficiency, 1);
                ck_assert (sustained > burst);
                ck_assert_double_eq_tol (sustained / burst, slow.seconds / fast.seconds, 1e-12);
              }
            else
              ck_assert_double_eq (sustained, burst);
          }
      d.tables = kept;
    }
  /* bound by memory, there is no heat to fear */
  const ScKernel thin = sc_kernel_gemm ("x", SC_DTYPE_BF16, 8, 8192, 8192);
  const double sustained = seconds (&d, thin);
  d.burst = TRUE;
  ck_assert_double_eq (sustained, seconds (&d, thin));
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (sustained_is_never_shorter_than_burst)
{
  ScDevice d = measured_device ();
  d.gemm_sustained.value = 0.75;
  for (guint m = 0; m < G_N_ELEMENTS (sizes); m++)
    for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
      {
        const guint64 rows[] = { sizes[m], 2 * sizes[m] };
        const ScKernel kernels[] = {
          sc_kernel_gemm ("x", SC_DTYPE_BF16, sizes[m], sizes[n], 4096),
          sc_kernel_gemm_accumulate ("x", SC_DTYPE_BF16, SC_DTYPE_FP32, sizes[m], sizes[n], 4096),
          sc_kernel_grouped_gemm ("x", SC_DTYPE_BF16, SC_GEMM_NN, rows, 2, sizes[n], 4096),
        };
        for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
          {
            d.burst = TRUE;
            const double burst = seconds (&d, kernels[i]);
            d.burst = FALSE;
            ck_assert (seconds (&d, kernels[i]) >= burst);
          }
      }
  g_ptr_array_unref (d.tables);
}
END_TEST

static const ScDeviceScale scales[] = { { 2, 1, 1, 1 }, { 1, 2, 1, 1 }, { 1, 1, 0.5, 1 }, { 0.5, 1, 1, 1 }, { 1, 0.5, 1, 1 }, { 3, 2, 0.25, 1 } };

START_TEST (a_what_if_moves_measured_kernels_as_their_forms)
{
  ScDevice d = measured_device (), before = measured_device ();
  d.burst = before.burst = TRUE;
  double y[4]; /* the curve is shared */
  d.flash_forward.y = d.flash_backward.y = memcpy (y, curve_y, sizeof y);
  d.flash_backward.n = 0;
  sc_device_scale (&d, &scales[_i]);
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    for (guint i = 0; i < N_SHAPES; i++)
      {
        const ScKernel k = shape_of ((ScKernelClass) c, i);
        const double ratio = form_of (&d, &k, 1).seconds / form_of (&before, &k, 1).seconds;
        ck_assert_double_eq_tol (seconds (&d, k) / seconds (&before, k), ratio, 1e-12);
        ck_assert_double_eq_tol (seconds (&before, k), measured_s (&before, (ScKernelClass) c, i), 1e-12);
        if (scales[_i].matrix == 1 && scales[_i].hbm == 1)
          ck_assert (ratio < 1 && ratio > 0.9);
        if (c >= SC_KERNEL_ELEMENTWISE && c != SC_KERNEL_HOST_COPY)
          {
            const double expected = (shape_of ((ScKernelClass) c, i).bytes / scales[_i].hbm + 4e6) / (c == SC_KERNEL_REDUCTION ? 2e12 : 2.5e12)
                                    + 2e-6 * scales[_i].launch;
            ck_assert_double_eq_tol (form_of (&d, &k, 1).seconds, expected, 1e-15);
          }
        if (c == SC_KERNEL_GEMM && scales[_i].hbm != 1 && scales[_i].matrix == 1 && scales[_i].hbm > 1)
          ck_assert_double_eq (ratio, 1); /* arithmetic decides */
      }
  for (guint i = 0; i < 4; i++)
    ck_assert_double_eq (d.flash_forward.y[i], curve_y[i] * scales[_i].matrix);
  ck_assert_double_eq (d.half_bytes.value / d.elementwise_bytes_per_s.value, before.half_bytes.value / before.elementwise_bytes_per_s.value);
  g_ptr_array_unref (d.tables);
  g_ptr_array_unref (before.tables);
}
END_TEST

START_TEST (twice_the_bandwidth_halves_what_is_neither_launch_nor_ramp)
{
  /* as measured: the form to the bit, launch 2 us, and a ramp that is a time, not bytes */
  for (guint ramp = 0; ramp < 2; ramp++)
    {
      ScDevice d = round_device ();
      d.flash_forward.n = d.flash_backward.n = 0;
      d.half_bytes.value = ramp > 0 ? 4e6 : 0;
      const ScKernel k = sc_kernel_op ("x", SC_OP_ADD, 5e8);
      const double t = sc_kernel_form (&d, &k, NULL, 1).seconds, fixed = 2e-6 + d.half_bytes.value / 2.5e12;
      add_table (&d, &(Sample) { k, t }, 1);
      sc_device_prepare (&d);
      sc_device_scale (&d, &(ScDeviceScale) { 1, 2, 1, 1 });
      ck_assert_double_eq_tol (seconds (&d, k), (t - fixed) / 2 + fixed, 1e-15);
      g_ptr_array_unref (d.tables);
    }
}
END_TEST

START_TEST (a_what_if_reaches_everything_once)
{
  ScDevice d = round_device ();
  double y[4], y2[4];
  d.flash_forward.y = memcpy (y, curve_y, sizeof y);
  d.flash_backward.y = memcpy (y2, curve_y, sizeof y2);
  ScNodeType types[2] = { { .device = &d }, { .device = &d } };
  for (guint i = 0; i < 2; i++)
    {
      ScCited *const all[] = { &types[i].nvlink_bytes_per_s, &types[i].nic_bytes_per_s, &types[i].nvlink_latency_s, &types[i].pcie_latency_s,
                               &types[i].nic_latency_s, &types[i].host_factor, &types[i].pcie_bytes_per_s };
      for (guint a = 0; a < G_N_ELEMENTS (all); a++)
        all[a]->value = 1;
    }
  ScTier tiers[] = { { .latency_s = { .value = 1 } } };
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();
  g_ptr_array_add (devices, &d);
  ScTopology t = { .types = types, .n_types = 2, .tiers = tiers, .n_tiers = 1, .collective_launch_s = { .value = 1 }, .devices = devices,
                   .burst = TRUE, .what_if = { .matrix = 2, .hbm = 3, .launch = 5, .nvlink = 7, .nic = 11, .latency = 13, .pcie = 17 } };
  sc_topology_what_if (&t);
  const ScDevice plain = round_device ();
  ck_assert (d.burst);
  for (guint i = 0; i < SC_N_DTYPES; i++)
    ck_assert_double_eq (d.peak_flops[i].value, 2 * plain.peak_flops[i].value);
  for (guint i = 0; i < 4; i++)
    ck_assert (y[i] == 2 * curve_y[i] && y2[i] == y[i]);
  ck_assert_double_eq (d.memory_bytes_per_s.value, 3 * plain.memory_bytes_per_s.value);
  ck_assert_double_eq (d.elementwise_bytes_per_s.value, 3 * plain.elementwise_bytes_per_s.value);
  ck_assert_double_eq (d.reduction_bytes_per_s.value, 3 * plain.reduction_bytes_per_s.value);
  ck_assert_double_eq (d.optimizer_bytes_per_s.value, 3 * plain.optimizer_bytes_per_s.value);
  ck_assert_double_eq (d.half_bytes.value, 3 * plain.half_bytes.value);
  ck_assert_double_eq (d.launch_s.value, 5 * plain.launch_s.value);
  ck_assert_double_eq (d.l2_bytes.value, plain.l2_bytes.value);
  ck_assert_double_eq (d.gemm_tile_efficiency.value, plain.gemm_tile_efficiency.value);
  for (guint i = 0; i < 2; i++)
    {
      ck_assert_double_eq (types[i].nvlink_bytes_per_s.value, 7);
      ck_assert_double_eq (types[i].nic_bytes_per_s.value, 11);
      ck_assert_double_eq (types[i].nvlink_latency_s.value, 13);
      ck_assert_double_eq (types[i].pcie_latency_s.value, 13);
      ck_assert_double_eq (types[i].nic_latency_s.value, 13);
      ck_assert_double_eq (types[i].host_factor.value, 5);
      ck_assert_double_eq (types[i].pcie_bytes_per_s.value, 17);
    }
  ck_assert_double_eq (tiers[0].latency_s.value, 13);
  ck_assert_double_eq (t.collective_launch_s.value, 13);
}
END_TEST

START_TEST (no_lucky_sample_beats_the_roof)
{
  ScDevice d = round_device ();
  d.burst = TRUE;
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    {
      Sample samples[N_SHAPES];
      for (guint i = 0; i < N_SHAPES; i++)
        samples[i] = (Sample) { shape_of ((ScKernelClass) c, i), 1e-9 };
      add_table (&d, samples, N_SHAPES);
    }
  sc_device_prepare (&d);
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    for (guint i = 0; i < N_SHAPES; i++)
      for (guint speed = 1; speed <= 2; speed++)
        {
          const ScKernel k = shape_of ((ScKernelClass) c, i);
          const double s = sc_kernel_cost (&d, &k, 1.0 / speed).seconds;
          ck_assert (s > 0 && isfinite (s));
          ck_assert (s >= speed * k.flops / d.peak_flops[k.dtype].value);
        }
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (wild_samples_do_not_run_away)
{
  for (guint wild = 0; wild < 2; wild++)
    {
      ScDevice d = round_device ();
      d.burst = TRUE;
      const ScKernel k = sc_kernel_op ("x", SC_OP_ADD, 1e9);
      add_table (&d, &(Sample) { k, wild == 0 ? 1e3 : 1e-300 }, 1);
      sc_device_prepare (&d);
      const double ratio = seconds (&d, k) / sc_kernel_form (&d, &k, NULL, 1).seconds;
      ck_assert_double_eq_tol (log (ratio), wild == 0 ? 2.5 : -2.5, 1e-9);
      g_ptr_array_unref (d.tables);
    }
}
END_TEST

/* ---- What was asked before ---- */

START_TEST (the_cache_answers_as_the_model_does)
{
  ScDevice d = measured_device ();
  g_autoptr (ScCostCache) cache = sc_cost_cache_new ();
  for (guint round = 0; round < 2; round++)
    for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
      for (guint i = 0; i < N_SHAPES; i++)
        for (guint speed = 1; speed <= 2; speed++)
          {
            const ScKernel k = shape_of ((ScKernelClass) c, i);
            const ScCost kept = sc_cost_cache_get (cache, &d, &k, 1.0 / speed), fresh = sc_kernel_cost (&d, &k, 1.0 / speed);
            ck_assert_double_eq (kept.seconds, fresh.seconds);
            ck_assert_int_eq (kept.grade, fresh.grade);
          }
  sc_cost_cache_free (NULL);
  g_ptr_array_unref (d.tables);
}
END_TEST

/* Each pair differs in one member, which the cost hangs on. */
START_TEST (the_cache_tells_apart_what_differs_in_one_member)
{
  ScDevice d = measured_device (), half = round_device ();
  half.memory_bytes_per_s.value /= 2;
  const ScKernel gemm = sc_kernel_gemm ("x", SC_DTYPE_BF16, 2048, 2048, 2048), attention = shape_of (SC_KERNEL_FLASH_FORWARD, 1);
  ScKernel grouped = shape_of (SC_KERNEL_GROUPED_GEMM, 0), norm = sc_kernel_op ("x", SC_OP_RMSNORM, 1e8);
  for (guint i = 0; i < 3; i++)
    grouped.row_tiles[i] = 1000;
  ScKernel pairs[32][2];
  guint n = 0;
#define PAIR(base, member, other) \
  do \
    { \
      pairs[n][0] = pairs[n][1] = (base); \
      pairs[n++][1].member = (other); \
    } \
  while (0)
  PAIR (gemm, class, SC_KERNEL_BATCHED_GEMM);
  PAIR (gemm, dtype, SC_DTYPE_FP32);
  PAIR (gemm, m, 3000);
  PAIR (gemm, n, 3000);
  PAIR (gemm, k, 3000);
  PAIR (gemm, batch, 3);
  PAIR (gemm, accumulate, TRUE);
  PAIR (grouped, layout, SC_GEMM_NT);
  for (guint i = 0; i < 3; i++)
    PAIR (grouped, row_tiles[i], 1);
  PAIR (attention, flops, attention.flops * 2);
  PAIR (norm, bytes, 3e8);
  PAIR (attention, seq, 5000);
  PAIR (attention, heads, 40);
  PAIR (attention, kv_heads, 32);
  PAIR (attention, v_head_dim, 64);
  PAIR (attention, causal, FALSE);
  PAIR (norm, op, SC_OP_SOFTMAX);
  PAIR (norm, row, 8192);
  PAIR (attention, window, 512);
  PAIR (attention, queries, attention.seq / 2);
  PAIR (grouped, largest, 100000);
#undef PAIR
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (ScCostCache) cache = sc_cost_cache_new ();
      const double a = sc_kernel_cost (&d, &pairs[i][0], 1).seconds, b = sc_kernel_cost (&d, &pairs[i][1], 1).seconds;
      ck_assert_msg (a != b, "pair %u costs the same", i); /* else it shows nothing */
      ck_assert_double_eq (sc_cost_cache_get (cache, &d, &pairs[i][0], 1).seconds, a);
      ck_assert_msg (sc_cost_cache_get (cache, &d, &pairs[i][1], 1).seconds == b, "pair %u", i);
      ck_assert_double_eq (sc_cost_cache_get (cache, &d, &pairs[i][0], 1).seconds, a);
      ck_assert_double_eq (sc_cost_cache_get (cache, &half, &norm, 1).seconds, seconds (&half, norm));
      ck_assert_double_eq (sc_cost_cache_get (cache, &d, &norm, 1).seconds, seconds (&d, norm));
    }
  g_ptr_array_unref (d.tables);
}
END_TEST

START_TEST (classes_operations_and_layouts_have_names_of_their_own)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < SC_N_KERNEL_CLASSES; i++)
    ck_assert (g_hash_table_add (names, (gpointer) (gsize) sc_kernel_class_name ((ScKernelClass) i)));
  g_hash_table_remove_all (names);
  for (guint i = 0; i < SC_N_OPS; i++)
    {
      ck_assert (g_hash_table_add (names, (gpointer) (gsize) sc_op_name ((ScMemoryOp) i)));
      const ScKernelClass class = sc_op_class ((ScMemoryOp) i);
      ck_assert (class == SC_KERNEL_ELEMENTWISE || class == SC_KERNEL_REDUCTION || class == SC_KERNEL_OPTIMIZER
                 || class == SC_KERNEL_HOST_COPY);
      const ScKernel k = sc_kernel_op ("x", (ScMemoryOp) i, 7);
      ck_assert (k.class == class && k.op == (ScMemoryOp) i && k.bytes == 7 && k.flops == 0);
    }
  ck_assert_str_eq (sc_kernel_class_name (SC_KERNEL_GROUPED_GEMM), "grouped-gemm");
  ck_assert_str_eq (sc_op_name (SC_OP_SWIGLU_BACKWARD), "swiglu-backward");
  ck_assert_int_eq (sc_op_class (SC_OP_CROSS_ENTROPY), SC_KERNEL_REDUCTION);
  ck_assert_int_eq (sc_op_class (SC_OP_ADAM), SC_KERNEL_OPTIMIZER);
  ck_assert_str_eq (sc_gemm_layout_name (SC_GEMM_TN), "TN");
  ck_assert_str_eq (sc_gemm_layout_name (SC_GEMM_NN), "NN");
  ck_assert_str_eq (sc_gemm_layout_name (SC_GEMM_NT), "NT");
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
  tc = tcase_create ("attention");
  tcase_add_test (tc, attention_pairs_equal_counts);
  tcase_add_test (tc, a_wider_window_is_never_less_work);
  tcase_add_test (tc, attention_flops_equal_worked_values);
  tcase_add_test (tc, attention_moves_its_tensors_and_no_scores);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("experts");
  tcase_add_test (tc, tiles_of_groups_are_counted_by_hand);
  tcase_add_test (tc, even_groups_in_full_waves_cost_what_one_product_does);
  tcase_add_test (tc, one_group_is_a_plain_product);
  tcase_add_test (tc, uneven_groups_are_never_cheaper_than_even_ones);
  tcase_add_test (tc, empty_groups_cost_nothing);
  tcase_add_test (tc, no_rows_are_no_work);
  tcase_add_test (tc, narrow_operands_leave_sixteen_bits);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("measured");
  tcase_add_test (tc, a_measured_shape_takes_its_measured_time);
  tcase_add_test (tc, between_shapes_it_is_interpolated_and_far_away_fitted);
  tcase_add_test (tc, a_relative_lends_its_residuals_not_its_grade);
  tcase_add_test (tc, tables_stand_in_for_what_they_are_like);
  tcase_add_test (tc, only_products_have_a_sustained_rate);
  tcase_add_test (tc, sustained_is_never_shorter_than_burst);
  tcase_add_loop_test (tc, a_what_if_moves_measured_kernels_as_their_forms, 0, G_N_ELEMENTS (scales));
  tcase_add_test (tc, twice_the_bandwidth_halves_what_is_neither_launch_nor_ramp);
  tcase_add_test (tc, a_what_if_reaches_everything_once);
  tcase_add_test (tc, no_lucky_sample_beats_the_roof);
  tcase_add_test (tc, wild_samples_do_not_run_away);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("cache");
  tcase_add_test (tc, the_cache_answers_as_the_model_does);
  tcase_add_test (tc, the_cache_tells_apart_what_differs_in_one_member);
  tcase_add_test (tc, classes_operations_and_layouts_have_names_of_their_own);
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
