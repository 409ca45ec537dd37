/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel.c - what one GPU kernel costs: the roofline with waves of tiles, curves and launch gaps. */
#include <math.h>
#include "models/kernel.h"

/* Output tiles a matrix library chooses from, with the share of the largest tile's rate that each reaches.  A
 * library picks the fastest for a shape; so do we.  Fitted together on published bf16 sweeps of A100, H100, H200 and
 * B200 (aiconfigurator, m in 256, 1024, 4096, 16384; one set for all): mean error 5.8 %, and 5.3 % on the shapes kept
 * aside (m in 2048, 8192, 32768). */
static const struct
{
  guint m, n;
  double efficiency;
} tiles[] = {
  { 256, 128, 1.00 }, { 128, 256, 1.00 }, { 128, 128, 0.99 }, { 128, 64, 0.96 }, { 64, 128, 0.96 }, { 64, 64, 0.66 },
};
#define LARGEST_TILES 2 /* the first of them, which set the device's tile efficiency */

/* Fill and drain of one wave of tiles (same fit). */
#define WAVE_PROLOGUE_S 0.6e-6

/* Operands that do not fit in L2 are read again in part (same fit). */
#define L2_REREAD 1.15

/* Tensor cores read 16-byte vectors: 8 elements of 16 bits.  A plain product off that alignment takes about twice as
 * long (vocabulary 50257 against 50304 on A100: a quarter of GPT-2's step); a batched one several times as long
 * (published BLOOM plans with heads of 108 run 25-30 % slower as a whole).  Both assumed. */
#define VECTOR_BYTES 16
#define MISALIGNED_GEMM 2.0
#define MISALIGNED_BATCHED 4.0

/* FlashAttention rates are kept for heads of 128; heads of 64 and less reach this share (FlashAttention-3 on H100,
 * causal and not, 2k-16k tokens). */
#define FLASH_HEAD 128.0
#define FLASH_SMALL_HEAD 64.0
#define FLASH_SMALL_FORWARD 0.75
#define FLASH_SMALL_BACKWARD 0.85

static guint64
div_up (guint64 a, guint64 b)
{
  return (a + b - 1) / b;
}

ScKernel
sc_kernel_gemm (const char *name, ScDtype dtype, guint64 m, guint64 n, guint64 k)
{
  ScKernel kernel = sc_kernel_batched_gemm (name, dtype, 1, m, n, k);
  kernel.class = SC_KERNEL_GEMM;
  return kernel;
}

ScKernel
sc_kernel_gemm_accumulate (const char *name, ScDtype dtype, ScDtype accumulator, guint64 m, guint64 n, guint64 k)
{
  ScKernel kernel = sc_kernel_gemm (name, dtype, m, n, k);
  const double c = (double) m * (double) n;
  kernel.accumulate = accumulator == SC_DTYPE_FP32 && dtype != SC_DTYPE_FP32;
  kernel.bytes += c * (2 * sc_dtype_bytes (accumulator) - sc_dtype_bytes (dtype));
  return kernel;
}

ScKernel
sc_kernel_batched_gemm (const char *name, ScDtype dtype, guint64 batch, guint64 m, guint64 n, guint64 k)
{
  const double dm = (double) m, dn = (double) n, dk = (double) k, db = (double) batch;
  return (ScKernel){
    .name = name,
    .class = SC_KERNEL_BATCHED_GEMM,
    .dtype = dtype,
    .m = m,
    .n = n,
    .k = k,
    .batch = batch,
    .flops = 2 * db * dm * dn * dk,
    .bytes = sc_dtype_bytes (dtype) * db * (dm * dk + dk * dn + dm * dn),
  };
}

ScKernel
sc_kernel_flash (const char *name, ScKernelClass class, ScDtype dtype, guint seq, guint head_dim, double flops,
                 double bytes)
{
  return (ScKernel){
    .name = name, .class = class, .dtype = dtype, .k = head_dim, .batch = 1, .flops = flops, .bytes = bytes, .seq = seq
  };
}

ScKernel
sc_kernel_memory (const char *name, ScKernelClass class, double bytes)
{
  return (ScKernel){ .name = name, .class = class, .batch = 1, .bytes = bytes };
}

guint64
sc_gemm_waves (guint64 m, guint64 n, guint tile_m, guint tile_n, guint sms, double *ret_efficiency)
{
  const guint64 n_tiles = div_up (m, tile_m) * div_up (n, tile_n);
  const guint64 waves = div_up (n_tiles, sms);
  if (ret_efficiency != NULL)
    *ret_efficiency = (double) n_tiles / (double) (waves * sms);
  return waves;
}

static gboolean
aligned (const ScKernel *kernel)
{
  const guint64 vector = VECTOR_BYTES / (guint64) sc_dtype_bytes (kernel->dtype);
  return kernel->m % vector == 0 && kernel->n % vector == 0 && kernel->k % vector == 0;
}

static ScGrade
weaker (ScGrade a, ScGrade b)
{
  return MAX (a, b); /* the enum goes from the strongest to the weakest */
}

/* A rate cannot beat the datasheet, whatever was measured in a cache. */
static double
memory_rate (const ScDevice *device, const ScCited *rate)
{
  return MIN (rate->value, device->memory_bytes_per_s.value);
}

static ScCost
gemm_cost (const ScDevice *device, const ScKernel *kernel)
{
  const guint sms = (guint) device->sms.value;
  const double rate = device->peak_flops[kernel->dtype].value / sms * MIN (device->gemm_tile_efficiency.value, 1);
  const double e = sc_dtype_bytes (kernel->dtype);
  const double operands = e * ((double) kernel->m * (double) kernel->k + (double) kernel->k * (double) kernel->n);
  const double c = (double) kernel->m * (double) kernel->n;
  const double bandwidth = memory_rate (device, &device->elementwise_bytes_per_s);
  const double reread = operands > device->l2_bytes.value ? (L2_REREAD - 1) * operands : 0;
  const double memory_s = (kernel->bytes + reread) / bandwidth;
  double slow = 1 / MIN (device->gemm_sustained.value, 1);
  if (kernel->accumulate)
    slow *= MAX (device->gemm_accumulate.value, 1);
  if (!aligned (kernel))
    slow *= MISALIGNED_GEMM;

  double best_s = G_MAXDOUBLE;
  gboolean plain = TRUE, by_memory = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      const guint64 n_tiles = div_up (kernel->m, tiles[i].m) * div_up (kernel->n, tiles[i].n);
      for (guint split = 1; split <= 8; split *= 2)
        {
          if (split > 1 && n_tiles >= sms)
            break; /* splitting k only helps where tiles leave SMs idle */
          const guint64 waves = div_up (n_tiles * split, sms);
          const double tile_flops = 2.0 * tiles[i].m * tiles[i].n * (double) div_up (kernel->k, split);
          const double math_s = (double) waves * (tile_flops / (rate * tiles[i].efficiency) + WAVE_PROLOGUE_S) * slow;
          const double reduce_s = split > 1 ? 8 * c * split / bandwidth : 0; /* fp32 partial sums out and in */
          const double s = MAX (math_s, memory_s) + reduce_s;
          if (s >= best_s)
            continue;
          best_s = s;
          plain = i < LARGEST_TILES && split == 1;
          by_memory = memory_s > math_s;
        }
    }

  ScGrade grade = SC_GRADE_DATASHEET;
  if (by_memory)
    grade = weaker (grade, device->elementwise_bytes_per_s.grade);
  else
    {
      grade = weaker (device->peak_flops[kernel->dtype].grade, device->gemm_tile_efficiency.grade);
      grade = weaker (grade, device->gemm_sustained.grade);
      if (kernel->accumulate)
        grade = weaker (grade, device->gemm_accumulate.grade);
      if (!plain)
        grade = weaker (grade, SC_GRADE_FITTED);
      if (!aligned (kernel))
        grade = SC_GRADE_ASSUMED;
    }
  return (ScCost){ best_s, grade };
}

/* Small matrices in large numbers: neither arithmetic nor memory saturates alone, so they add as a root of squares. */
static ScCost
batched_cost (const ScDevice *device, const ScKernel *kernel)
{
  const double peak = device->peak_flops[kernel->dtype].value * MIN (device->batched_gemm_efficiency.value, 1);
  const double math_s = kernel->flops / peak * (aligned (kernel) ? 1 : MISALIGNED_BATCHED);
  const double memory_s = kernel->bytes / memory_rate (device, &device->elementwise_bytes_per_s);
  ScGrade grade = weaker (device->batched_gemm_efficiency.grade, device->elementwise_bytes_per_s.grade);
  if (!aligned (kernel))
    grade = SC_GRADE_ASSUMED;
  return (ScCost){ hypot (math_s, memory_s), grade };
}

static ScCost
flash_cost (const ScDevice *device, const ScKernel *kernel)
{
  const gboolean forward = kernel->class == SC_KERNEL_FLASH_FORWARD;
  const ScCurve *curve = forward ? &device->flash_forward : &device->flash_backward;
  double rate = sc_curve_at (curve, kernel->seq);
  ScGrade grade = weaker (curve->grade, SC_GRADE_MEASURED);
  const double head = (double) kernel->k;
  if (head > 0 && head < FLASH_HEAD)
    {
      /* share at 64, straight in log (head size) up to 1 at 128 */
      const double small = forward ? FLASH_SMALL_FORWARD : FLASH_SMALL_BACKWARD;
      const double above = log2 (MAX (head, FLASH_SMALL_HEAD) / FLASH_SMALL_HEAD);
      rate *= small + (1 - small) * above;
      grade = weaker (grade, SC_GRADE_FITTED);
    }
  rate = MIN (rate, device->peak_flops[kernel->dtype].value);
  const double math_s = kernel->flops / rate;
  const double memory_s = kernel->bytes / memory_rate (device, &device->elementwise_bytes_per_s);
  if (memory_s > math_s)
    return (ScCost){ memory_s, device->elementwise_bytes_per_s.grade };
  return (ScCost){ math_s, grade };
}

static ScCost
memory_cost (const ScDevice *device, const ScKernel *kernel, const ScCited *rate)
{
  const double half = MAX (device->half_bytes.value, 0);
  ScGrade grade = rate->grade;
  if (half > kernel->bytes)
    grade = weaker (grade, device->half_bytes.grade);
  return (ScCost){ (kernel->bytes + half) / memory_rate (device, rate), grade };
}

ScCost
sc_kernel_cost (const ScDevice *device, const ScKernel *kernel, double speed)
{
  g_return_val_if_fail (speed > 0, ((ScCost){ 0, SC_GRADE_ASSUMED }));
  ScCost cost = { 0, SC_GRADE_ASSUMED };
  switch (kernel->class)
    {
    case SC_KERNEL_GEMM:
      cost = gemm_cost (device, kernel);
      break;
    case SC_KERNEL_BATCHED_GEMM:
      cost = batched_cost (device, kernel);
      break;
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD:
      cost = flash_cost (device, kernel);
      break;
    case SC_KERNEL_ELEMENTWISE:
      cost = memory_cost (device, kernel, &device->elementwise_bytes_per_s);
      break;
    case SC_KERNEL_REDUCTION:
      cost = memory_cost (device, kernel, &device->reduction_bytes_per_s);
      break;
    case SC_KERNEL_OPTIMIZER:
      cost = memory_cost (device, kernel, &device->optimizer_bytes_per_s);
      break;
    case SC_N_KERNEL_CLASSES:
      g_return_val_if_reached (cost);
    }
  cost.seconds /= speed;
  if (device->launch_s.value > cost.seconds) /* then the launch is most of it */
    cost.grade = weaker (device->launch_s.grade, SC_GRADE_MEASURED);
  cost.seconds += device->launch_s.value;
  return cost;
}
