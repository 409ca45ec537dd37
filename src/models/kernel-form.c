/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel-form.c - tiles and waves of products, blocks of attention, ramps of memory-bound kernels. */
#include <math.h>
#include "models/kernel-form.h"

/* Output tiles a matrix library chooses from, with the share of the largest tile's rate that each reaches.  A
 * library picks the fastest for a shape; so do we.  Fitted together on published bf16 sweeps of A100, H100, H200 and
 * B200 (aiconfigurator, m in 256, 1024, 4096, 16384; one set for all): mean error 5.8 %, and 5.3 % on the shapes kept
 * aside (m in 2048, 8192, 32768). */
static const struct
{
  guint m, n;
  guint rows; /* index into ScKernel.row_tiles */
  double efficiency;
} tiles[] = {
  { 256, 128, 0, 1.00 }, { 128, 256, 1, 1.00 }, { 128, 128, 1, 0.99 },
  { 128, 64, 1, 0.96 },  { 64, 128, 2, 0.96 },  { 64, 64, 2, 0.66 },
};
#define LARGEST_TILES 2 /* the first of them, which set the device's tile efficiency */

/* Fill and drain of one wave of tiles (same fit). */
#define WAVE_PROLOGUE_S 0.6e-6

/* Operands that do not fit in L2 are read again in part (same fit). */
#define L2_REREAD 1.15

/* Weight gradients of experts add to fp32: what their output reads and writes runs beside the tiles in part only.  Grouped products on B200, 20 to
 * 128 groups of 256 to 2,460 rows (github:MooreThreads/SimuMax configs/system/b200_bf16_ceperm.json @4dcaae513ba7): this share comes on top, 6 % in the
 * mean. */
#define GROUPED_OUTPUT_APART 0.7

/* Rows that are gathered or scattered: permute forward and backward reach 0.50 and 0.51 of 8 TB/s, elementwise kernels 0.67 (the same file). */
#define PERMUTE_RATE 0.75

/* Tensor cores read 16-byte vectors: 8 elements of 16 bits.  A plain product off that alignment takes about twice as
 * long (vocabulary 50257 against 50304 on A100: a quarter of GPT-2's step; assumed).  A batched one is left to CUDA cores, whose
 * rate is a 16th of A100's tensor cores' (19.5 of 312 TFLOP/s), a 15th of H100's (67 of 989), an 8th of V100's (15.7 of 125): four published BLOOM
 * plans with heads of 108 take 35-40 % longer than the same with heads of 144 and 216. */
#define VECTOR_BYTES 16
#define MISALIGNED_GEMM 2.0
#define MISALIGNED_BATCHED 16.0
#define MISALIGNED_BATCHED_ON_VOLTA 8.0

/* FlashAttention rates are kept for heads of 128; heads of 64 and less reach this share (FlashAttention-3 on H100,
 * causal and not, 2k-16k tokens). */
#define FLASH_HEAD 128.0
#define FLASH_SMALL_HEAD 64.0
#define FLASH_SMALL_FORWARD 0.75
#define FLASH_SMALL_BACKWARD 0.85

/* Attention works in blocks of queries and keys (FlashAttention-2, arXiv 2307.08691, 3.3); each wave of blocks fills and drains. */
#define FLASH_BLOCK 128
#define FLASH_WAVE_S 1e-6
#define FLASH_TAIL 0.25 /* share of the longest row of blocks that ends alone when SMs are many times filled */

static guint64
div_up (guint64 a, guint64 b)
{
  return (a + b - 1) / b;
}

double
sc_form_memory_rate (const ScDevice *device, const ScCited *rate)
{
  return MIN (rate->value, device->memory_bytes_per_s.value);
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

/* Rows in memory must begin at whole vectors: of Y[m, n] = X[m, k] W[n, k] (TN) and of the gradient of X (NN) rows are k and n
 * long, of the gradient of W, X^T[m, k] dY[k, n] (NT), m and n; experts' weights and their gradients are n x k. */
gboolean
sc_form_aligned (const ScKernel *kernel)
{
  const guint64 vector = kernel->dtype == SC_DTYPE_FP4 ? 2 * VECTOR_BYTES : VECTOR_BYTES / (guint64) sc_dtype_bytes (kernel->dtype);
  const gboolean by_m = kernel->layout == SC_GEMM_NT && kernel->class != SC_KERNEL_GROUPED_GEMM;
  return (by_m ? kernel->m : kernel->k) % vector == 0 && kernel->n % vector == 0;
}

/* A product's output and contraction as the tiles see them: a weight gradient of experts is n x k over the rows. */
typedef struct
{
  guint64 m, n, k;
  gboolean by_rows; /* tiles of rows are counted in row_tiles */
} Shape;

static Shape
tiled_shape (const ScKernel *kernel)
{
  if (kernel->class != SC_KERNEL_GROUPED_GEMM)
    return (Shape) { kernel->m, kernel->n, kernel->k, FALSE };
  switch (kernel->layout)
    {
    case SC_GEMM_TN: return (Shape) { kernel->m, kernel->n, kernel->k, TRUE };
    case SC_GEMM_NN: return (Shape) { kernel->m, kernel->k, kernel->n, TRUE };
    case SC_GEMM_NT: return (Shape) { kernel->n, kernel->k, MAX (kernel->m, 1), FALSE };
    case SC_N_GEMM_LAYOUTS:
    default: g_return_val_if_reached (((Shape) { kernel->m, kernel->n, kernel->k, FALSE }));
    }
}

static ScForm
gemm_form (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency, double sustained)
{
  const guint sms = (guint) device->sms.value;
  const Shape shape = tiled_shape (kernel);
  const double batch = (double) MAX (kernel->batch, 1);
  const double rate = device->peak_flops[kernel->dtype].value / sms * MIN (efficiency->value, 1);
  const double e = sc_dtype_bytes (kernel->dtype);
  const double mk = (double) kernel->m * (double) kernel->k, mn = (double) kernel->m * (double) kernel->n, nk = (double) kernel->n * (double) kernel->k;
  const gboolean grouped = kernel->class == SC_KERNEL_GROUPED_GEMM; /* m rows, n x k weights, whichever of them is the output */
  const double operands = batch * e * (grouped && kernel->layout == SC_GEMM_NN ? mn + nk : grouped && kernel->layout == SC_GEMM_NT ? mn + mk : mk + nk);
  const double c = batch * (double) shape.m * (double) shape.n;
  const double bandwidth = sc_form_memory_rate (device, &device->elementwise_bytes_per_s);
  const double reread = operands > device->l2_bytes.value ? (L2_REREAD - 1) * operands : 0;
  const double memory_s = (kernel->bytes + reread + MAX (device->half_bytes.value, 0)) / bandwidth;
  double slow = 1 / MIN (sustained, 1);
  const double apart_s = grouped && kernel->accumulate ? GROUPED_OUTPUT_APART * 8 * (double) MAX (kernel->batch, 1) * nk / bandwidth : 0;
  if (kernel->accumulate)
    slow *= MAX (device->gemm_accumulate.value, 1);
  if (!sc_form_aligned (kernel))
    slow *= MISALIGNED_GEMM;

  double best_s = G_MAXDOUBLE;
  gboolean plain = TRUE, by_memory = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      const guint64 rows = shape.by_rows ? kernel->row_tiles[tiles[i].rows] : div_up (shape.m, tiles[i].m) * (guint64) batch;
      const guint64 n_tiles = rows * div_up (shape.n, tiles[i].n);
      for (guint split = 1; split <= 8; split *= 2)
        {
          if (split > 1 && n_tiles >= sms)
            break; /* splitting k only helps where tiles leave SMs idle */
          const guint64 waves = div_up (n_tiles * split, sms);
          const double tile_flops = 2.0 * tiles[i].m * tiles[i].n * (double) div_up (shape.k, split);
          const double math_s = (double) waves * (tile_flops / (rate * tiles[i].efficiency) + WAVE_PROLOGUE_S) * slow;
          const double reduce_s = split > 1 ? 8 * c * split / bandwidth : 0; /* fp32 partial sums out and in */
          const double s = MAX (math_s + apart_s, memory_s) + reduce_s;
          if (s >= best_s)
            continue;
          best_s = s;
          plain = i < LARGEST_TILES && split == 1;
          by_memory = memory_s > math_s;
        }
    }

  ScGrade grade = SC_GRADE_DATASHEET;
  if (by_memory)
    grade = sc_grade_weaker (grade, device->elementwise_bytes_per_s.grade);
  else
    {
      grade = sc_grade_weaker (device->peak_flops[kernel->dtype].grade, efficiency->grade);
      if (sustained < 1)
        grade = sc_grade_weaker (grade, device->gemm_sustained.grade);
      if (kernel->accumulate)
        grade = sc_grade_weaker (grade, device->gemm_accumulate.grade);
      if (!plain)
        grade = sc_grade_weaker (grade, SC_GRADE_FITTED);
      if (!sc_form_aligned (kernel))
        grade = SC_GRADE_ASSUMED;
    }
  return (ScForm) { best_s + device->launch_s.value, grade };
}

/* Small matrices in large numbers: neither arithmetic nor memory saturates alone, so they add as a root of squares. */
static ScForm
batched_form (const ScDevice *device, const ScKernel *kernel)
{
  const double peak = device->peak_flops[kernel->dtype].value * MIN (device->batched_gemm_efficiency.value, 1);
  const double misaligned = g_strcmp0 (device->family, "volta") == 0 ? MISALIGNED_BATCHED_ON_VOLTA : MISALIGNED_BATCHED;
  const double math_s = kernel->flops / peak * (sc_form_aligned (kernel) ? 1 : misaligned);
  const double memory_s = kernel->bytes / sc_form_memory_rate (device, &device->elementwise_bytes_per_s);
  ScGrade grade = sc_grade_weaker (device->batched_gemm_efficiency.grade, device->elementwise_bytes_per_s.grade);
  if (!sc_form_aligned (kernel))
    grade = SC_GRADE_ASSUMED;
  return (ScForm) { hypot (math_s, memory_s) + device->launch_s.value, grade };
}

/* Length of causal sequences whose queries see as many keys in the mean as this kernel's: what curves are kept by. */
static double
causal_length (const ScKernel *kernel)
{
  if (kernel->causal && kernel->window == 0)
    return kernel->seq;
  const double d = (double) kernel->k, v = kernel->v_head_dim > 0 ? kernel->v_head_dim : d;
  const double per_pair = 2 * (kernel->class == SC_KERNEL_FLASH_FORWARD ? d + v : 3 * d + 2 * v) * kernel->heads;
  const double queries = (double) MAX (kernel->batch, 1) * (kernel->queries > 0 ? kernel->queries : kernel->seq);
  return per_pair > 0 ? 2 * kernel->flops / per_pair / queries : kernel->seq;
}

/* At the rate that the device's curve has for this length. */
static double
curve_math_s (const ScDevice *device, const ScKernel *kernel, ScGrade *grade)
{
  const gboolean forward = kernel->class == SC_KERNEL_FLASH_FORWARD;
  const ScCurve *const curve = forward ? &device->flash_forward : &device->flash_backward;
  double rate = sc_curve_at (curve, causal_length (kernel));
  *grade = sc_grade_weaker (curve->grade, SC_GRADE_MEASURED);
  const double head = (double) kernel->k;
  if (head > 0 && head < FLASH_HEAD)
    {
      /* share at 64, straight in log (head size) up to 1 at 128 */
      const double small = forward ? FLASH_SMALL_FORWARD : FLASH_SMALL_BACKWARD;
      const double above = log2 (MAX (head, FLASH_SMALL_HEAD) / FLASH_SMALL_HEAD);
      rate *= small + (1 - small) * above;
      *grade = sc_grade_weaker (*grade, SC_GRADE_FITTED);
    }
  return kernel->flops / MIN (rate, device->peak_flops[kernel->dtype].value);
}

/* Rows of blocks spread over the SMs; the last row of a causal matrix is the longest. */
static double
block_math_s (const ScDevice *device, const ScKernel *kernel, double efficiency)
{
  const double sms = device->sms.value, s = kernel->seq, queries = kernel->queries > 0 ? kernel->queries : s;
  const double rate = device->peak_flops[kernel->dtype].value * MIN (efficiency, 1);
  const double rows = ceil (queries / FLASH_BLOCK), columns = ceil (s / FLASH_BLOCK);
  const double padded = rows * FLASH_BLOCK / queries * columns * FLASH_BLOCK / s;
  const gboolean triangle = kernel->causal && kernel->window == 0;
  /* blocks that are crossed by the diagonal, or by an end of the window, are worked on in full */
  const double crossed = kernel->window > 0 ? 1 + (double) FLASH_BLOCK / kernel->window : triangle ? (columns + 1) / columns : 1;
  const double math_s = kernel->flops * padded * crossed / rate;
  const double n_rows = (double) MAX (kernel->batch, 1) * kernel->heads * rows;
  const double mean_row_s = math_s * sms / n_rows; /* on one SM */
  const double longest_s = mean_row_s * (triangle ? 2 * columns / (columns + 1) : 1);
  const double waves = ceil (n_rows / sms);
  const double filled_s = n_rows <= sms ? longest_s : MAX (math_s + FLASH_TAIL * longest_s, longest_s);
  return filled_s + FLASH_WAVE_S * waves;
}

/* Blocks of 128 queries over the SMs, or the curve. */
static ScForm
attention_form (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency)
{
  ScGrade grade;
  double math_s, ramp_bytes = 0;
  if (efficiency != NULL && kernel->heads > 0)
    {
      math_s = block_math_s (device, kernel, efficiency->value);
      grade = efficiency->grade;
      ramp_bytes = MAX (device->half_bytes.value, 0);
    }
  else
    math_s = curve_math_s (device, kernel, &grade);
  const double memory_s = (kernel->bytes + ramp_bytes) / sc_form_memory_rate (device, &device->elementwise_bytes_per_s);
  if (memory_s > math_s)
    return (ScForm) { memory_s + device->launch_s.value, device->elementwise_bytes_per_s.grade };
  return (ScForm) { math_s + device->launch_s.value, grade };
}

static ScForm
memory_form (const ScDevice *device, const ScKernel *kernel)
{
  const ScCited *const rate = kernel->class == SC_KERNEL_REDUCTION   ? &device->reduction_bytes_per_s
                              : kernel->class == SC_KERNEL_OPTIMIZER ? &device->optimizer_bytes_per_s
                                                                     : &device->elementwise_bytes_per_s;
  const double half = MAX (device->half_bytes.value, 0);
  ScGrade grade = rate->grade;
  if (half > kernel->bytes)
    grade = sc_grade_weaker (grade, device->half_bytes.grade);
  const double share = kernel->op == SC_OP_PERMUTE ? PERMUTE_RATE : 1;
  return (ScForm) { (kernel->bytes + half) / (share * sc_form_memory_rate (device, rate)) + device->launch_s.value, grade };
}

/* Alone on its link: launch and bytes over the rate. */
static ScForm
host_copy_form (const ScDevice *device, const ScKernel *kernel)
{
  const ScCited *const rate = kernel->op == SC_OP_DEVICE_TO_HOST ? &device->d2h_bytes_per_s : &device->h2d_bytes_per_s;
  return (ScForm) { kernel->bytes / rate->value + device->launch_s.value, rate->grade };
}

ScForm
sc_kernel_form (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency, double sustained)
{
  switch (kernel->class)
    {
    case SC_KERNEL_GEMM:
    case SC_KERNEL_GROUPED_GEMM: return gemm_form (device, kernel, efficiency != NULL ? efficiency : &device->gemm_tile_efficiency, sustained);
    case SC_KERNEL_BATCHED_GEMM: return batched_form (device, kernel);
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD: return attention_form (device, kernel, efficiency);
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER: return memory_form (device, kernel);
    case SC_KERNEL_HOST_COPY: return host_copy_form (device, kernel);
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (((ScForm) { 0, SC_GRADE_ASSUMED }));
    }
}
