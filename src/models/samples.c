/* SPDX-License-Identifier: GPL-3.0-or-later */
/* samples.c - where measured kernels lie, and what they say about others. */
#include <math.h>
#include <string.h>
#include "models/kernel-form.h"
#include "models/samples.h"

/* Lengths, in powers of two, over which residuals stay alike.  Products: what a tile choice costs depends on m and n, and hardly
 * on k; chosen among nine on seven GPUs' bf16 sweeps, each shape left out in turn (errors at the median and the 90th percentile:
 * 3.2 and 11.6 %; with 4, 4, 4: 3.6 and 13.0 %). */
#define M_LENGTH 4
#define N_LENGTH 2
#define K_LENGTH 8
#define BATCH_LENGTH 4

/* Attention: errors move by 0.1 points among the choices tried. */
#define SEQ_LENGTH 4
#define ROWS_LENGTH 4   /* sequences x heads */
#define GROUP_LENGTH 8  /* heads of a KV head */
#define HEAD_LENGTH 0.5 /* head size: other kernels */

#define BYTES_LENGTH 2
#define ROW_LENGTH 2

/* Between other kernels altogether: layouts, causal and full. */
#define APART 2.0

/* No measured kernel was farther from its form; a wild sample must not run away with its neighbourhood. */
#define MOST_LN 2.5

void
sc_sample_table_free (ScSampleTable *table)
{
  if (table == NULL)
    return;
  g_free (table->stack);
  g_free (table->source);
  sc_cited_clear (&table->efficiency);
  g_free (table->kernels);
  g_free (table->seconds);
  sc_residuals_clear (&table->residuals);
  g_free (table);
}

static double
log2_of (double x)
{
  return log2 (MAX (x, 1));
}

/* Where @k lies among the samples of @table: the number of coordinates. */
static guint
coordinates (const ScSampleTable *table, const ScKernel *k, double *x)
{
  switch (table->class)
    {
    case SC_KERNEL_GEMM:
      x[0] = log2_of ((double) k->m) / M_LENGTH;
      x[1] = log2_of ((double) k->n) / N_LENGTH;
      x[2] = log2_of ((double) k->k) / K_LENGTH;
      x[3] = table->by_layout ? k->layout / APART : 0;
      return 4;
    case SC_KERNEL_BATCHED_GEMM:
    case SC_KERNEL_GROUPED_GEMM:
      x[0] = log2_of ((double) k->m) / M_LENGTH;
      x[1] = log2_of ((double) k->n) / N_LENGTH;
      x[2] = log2_of ((double) k->k) / K_LENGTH;
      x[3] = table->by_layout ? k->layout * APART : 0;
      x[4] = log2_of ((double) k->batch) / BATCH_LENGTH;
      return 5;
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD:
      x[0] = log2_of (k->seq) / SEQ_LENGTH;
      x[1] = log2_of ((double) MAX (k->batch, 1) * k->heads) / ROWS_LENGTH;
      x[2] = log2_of ((double) k->heads / MAX (k->kv_heads, 1)) / GROUP_LENGTH;
      x[3] = log2_of (((double) k->k + k->v_head_dim) / 2) / HEAD_LENGTH;
      x[4] = k->causal ? APART : 0;
      return 5;
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER:
    case SC_KERNEL_HOST_COPY:
      x[0] = log2_of (k->bytes) / BYTES_LENGTH;
      x[1] = log2_of (k->row) / ROW_LENGTH;
      return 2;
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (0);
    }
}

static const ScCited *
efficiency_of (const ScDevice *device, const ScSampleTable *table)
{
  return table->efficiency.value > 0 ? &table->efficiency : &device->gemm_tile_efficiency;
}

static double
form_s (const ScDevice *device, const ScSampleTable *table, const ScKernel *kernel)
{
  switch (table->class)
    {
    case SC_KERNEL_GEMM:
    case SC_KERNEL_GROUPED_GEMM: return sc_form_gemm (device, kernel, efficiency_of (device, table), 1).seconds;
    case SC_KERNEL_BATCHED_GEMM: return sc_form_batched (device, kernel).seconds;
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD: return sc_form_attention (device, kernel, efficiency_of (device, table)).seconds;
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER: return sc_form_memory (device, kernel).seconds;
    case SC_KERNEL_HOST_COPY: return sc_form_host_copy (device, kernel).seconds;
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (0);
    }
}

static void
take_residuals (const ScDevice *device, ScSampleTable *table)
{
  ScResiduals *const r = &table->residuals;
  sc_residuals_clear (r);
  double x[SC_RESIDUALS_MAX_DIMS];
  r->n = table->n;
  r->n_dims = table->n > 0 ? coordinates (table, &table->kernels[0], x) : 0;
  r->x = g_new (double, (gsize) r->n * MAX (r->n_dims, 1));
  r->y = g_new (double, MAX (r->n, 1));
  for (guint i = 0; i < table->n; i++)
    {
      coordinates (table, &table->kernels[i], r->x + (gsize) i * r->n_dims);
      r->y[i] = CLAMP (log (table->seconds[i] / form_s (device, table, &table->kernels[i])), -MOST_LN, MOST_LN);
    }
}

void
sc_device_prepare (ScDevice *device)
{
  for (guint i = 0; device->tables != NULL && i < device->tables->len; i++)
    take_residuals (device, g_ptr_array_index (device->tables, i));
}

/* --- choosing --- */

static gboolean
sixteen_bits (ScDtype dtype)
{
  return dtype == SC_DTYPE_BF16 || dtype == SC_DTYPE_FP16;
}

/* How well @table fits: 0 not at all, 2 in its own data type, 1 in another that does. */
static guint
fit_of (const ScSampleTable *table, const ScKernel *kernel)
{
  if (!table->training || table->class != kernel->class || table->n == 0)
    return 0;
  const gboolean memory = kernel->class >= SC_KERNEL_ELEMENTWISE;
  if (memory && (table->op != kernel->op || kernel->op == SC_OP_ANY))
    return 0;
  if (table->dtype == kernel->dtype)
    return 2;
  return memory || (sixteen_bits (table->dtype) && sixteen_bits (kernel->dtype)) ? 1 : 0;
}

static const ScSampleTable *
best_table (const ScDevice *device, const ScKernel *kernel)
{
  const ScSampleTable *best = NULL;
  guint best_fit = 0;
  for (guint i = 0; device->tables != NULL && i < device->tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (device->tables, i);
      const guint fit = fit_of (table, kernel);
      if (fit > best_fit)
        {
          best = table;
          best_fit = fit;
        }
    }
  return best;
}

const ScSampleTable *
sc_device_samples (const ScDevice *device, const ScKernel *kernel, gboolean *ret_relative)
{
  *ret_relative = FALSE;
  const ScSampleTable *table = best_table (device, kernel);
  if (table == NULL && device->relative != NULL)
    {
      table = best_table (device->relative, kernel);
      *ret_relative = table != NULL;
    }
  return table;
}

double
sc_samples_predict (const ScDevice *device, const ScSampleTable *table, const ScKernel *kernel, ScHoldOut hold_out, double *ret_distance)
{
  double x[SC_RESIDUALS_MAX_DIMS];
  coordinates (table, kernel, x);
  const ScResidual residual = sc_residuals_at (&table->residuals, x, hold_out);
  *ret_distance = residual.distance;
  return form_s (device, table, kernel) * exp (residual.y);
}
