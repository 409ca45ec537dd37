/* SPDX-License-Identifier: GPL-3.0-or-later */
/* costs.c - what it takes to price one kernel: by the form alone, with measured samples, and when it was asked before. */
#include <stdio.h>
#include "bench.h"
#include "device-json.h"
#include "models/kernel.h"

#define N_SHAPES 4096
#define N_CALLS  2000000

/* Products of layers: widths of 1024 to 32768, 512 to 8192 rows. */
static ScKernel
shape (guint i)
{
  const guint64 m = 512 * (1 + i % 16), n = 1024 * (1 + i / 16 % 16), k = 1024 * (1 + i / 256 % 16);
  return sc_kernel_gemm ("x", SC_DTYPE_BF16, m, n, k);
}

static void
report (const char *what, const ScBench *bench, double n, double sum)
{
  const ScBenchTaken taken = sc_bench_end (*bench);
  g_autofree char *instructions = sc_bench_instructions (taken, n);
  printf ("%-44s %8.1f ns each, %s instructions each (%.3f s of kernels)\n", what, 1e9 * taken.seconds / n, instructions, sum);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDevice) measured = sc_device_load ("h100-sxm-80gb", &error);
  g_autoptr (ScDevice) plain = sc_device_load_numbers ("h100-sxm-80gb", &error);
  if (measured == NULL || plain == NULL)
    g_error ("%s", error != NULL ? error->message : "no device");
  g_autofree ScKernel *kernels = g_new (ScKernel, N_SHAPES);
  for (guint i = 0; i < N_SHAPES; i++)
    kernels[i] = shape (i);

  double sum = 0;
  ScBench bench = sc_bench_begin ();
  for (guint i = 0; i < N_SHAPES; i++)
    sum += sc_kernel_cost (plain, &kernels[i], 1).seconds;
  report ("form alone", &bench, N_SHAPES, sum);

  sum = 0;
  bench = sc_bench_begin ();
  for (guint i = 0; i < N_SHAPES; i++)
    sum += sc_kernel_cost (measured, &kernels[i], 1).seconds;
  report ("with 494 measured products", &bench, N_SHAPES, sum);

  /* a sweep asks some dozens of shapes for each plan, and few that no plan had before */
  g_autoptr (ScCostCache) cache = sc_cost_cache_new ();
  sum = 0;
  bench = sc_bench_begin ();
  for (guint i = 0; i < N_CALLS; i++)
    sum += sc_cost_cache_get (cache, measured, &kernels[i % 97 * 31 % N_SHAPES], 1).seconds;
  report ("of 97 shapes, asked again and again", &bench, N_CALLS, sum);

  g_autoptr (ScCostCache) large = sc_cost_cache_new ();
  sum = 0;
  bench = sc_bench_begin ();
  for (guint i = 0; i < N_CALLS; i++)
    sum += sc_cost_cache_get (large, measured, &kernels[i % N_SHAPES], 1).seconds;
  report ("of 4096 shapes, first time included", &bench, N_CALLS, sum);
  return 0;
}
