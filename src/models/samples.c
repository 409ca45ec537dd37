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

/* Distance of layouts, and of sums into fp32 from plain ones: other kernels of one family, alike in what a shape costs. */
#define LAYOUT 0.5
#define ACCUMULATED 0.5
#define IMBALANCE_LENGTH 1 /* of experts: largest over mean */

/* Between other kernels altogether: causal and full attention, with a window and without. */
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
  for (guint i = 0; table->rows != NULL && i < table->n; i++)
    g_free (table->rows[i]);
  g_free (table->rows);
  g_free (table->n_rows);
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
    case SC_KERNEL_BATCHED_GEMM:
    case SC_KERNEL_GROUPED_GEMM:
      x[0] = log2_of ((double) k->m) / M_LENGTH;
      x[1] = log2_of ((double) k->n) / N_LENGTH;
      x[2] = log2_of ((double) k->k) / K_LENGTH;
      x[3] = (table->by_layout ? k->layout * LAYOUT : 0) + (table->accumulates && k->accumulate ? ACCUMULATED : 0);
      if (table->class == SC_KERNEL_GEMM)
        return 4;
      x[4] = log2_of ((double) k->batch) / BATCH_LENGTH;
      if (table->class == SC_KERNEL_BATCHED_GEMM)
        return 5;
      x[5] = log2_of ((double) k->largest / (double) MAX (k->m, 1)) / IMBALANCE_LENGTH;
      return 6;
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD:
      {
        const double queries = k->queries > 0 ? k->queries : k->seq;
        x[0] = log2_of (k->seq) / SEQ_LENGTH;
        x[1] = log2_of ((double) MAX (k->batch, 1) * k->heads * (queries / MAX (k->seq, 1))) / ROWS_LENGTH;
        x[2] = log2_of ((double) k->heads / MAX (k->kv_heads, 1)) / GROUP_LENGTH;
        x[3] = log2_of (((double) k->k + k->v_head_dim) / 2) / HEAD_LENGTH;
        x[4] = k->causal ? APART : 0;
        x[5] = k->window > 0 ? APART + log2_of (k->window) / SEQ_LENGTH : 0;
        return 6;
      }
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER:
    case SC_KERNEL_HOST_COPY:
      x[0] = log2_of (k->bytes) / BYTES_LENGTH;
      x[1] = table->usual_row > 0 ? log2_of (k->row > 0 ? k->row : table->usual_row) / ROW_LENGTH : 0;
      return 2;
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (0);
    }
}

const ScCited *
sc_samples_efficiency (const ScDevice *device, const ScSampleTable *table)
{
  return table->efficiency.value > 0 ? &table->efficiency : &device->gemm_tile_efficiency;
}

static double
form_s (const ScDevice *device, const ScSampleTable *table, const ScKernel *kernel)
{
  return sc_kernel_form (device, kernel, sc_samples_efficiency (device, table), 1).seconds;
}

/* What coordinates depend on beside the kernel. */
static void
look_over (ScSampleTable *table)
{
  double sum_ln = 0;
  guint n = 0;
  table->accumulates = FALSE;
  for (guint i = 0; i < table->n; i++)
    {
      table->accumulates |= table->kernels[i].accumulate;
      if (table->kernels[i].row > 0)
        {
          sum_ln += log (table->kernels[i].row);
          n++;
        }
    }
  table->usual_row = n > 0 ? exp (sum_ln / n) : 0;
}

typedef struct
{
  double x[SC_RESIDUALS_MAX_DIMS];
} Place;

static guint
place_hash (gconstpointer data)
{
  const Place *const place = data;
  guint64 h = 0;
  for (guint d = 0; d < SC_RESIDUALS_MAX_DIMS; d++)
    {
      guint64 word;
      memcpy (&word, &place->x[d], sizeof word);
      h = (h ^ word) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + (h >> 29);
    }
  return (guint) (h >> 32);
}

static gboolean
place_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (Place)) == 0;
}

/* One residual for each place, in the order in which the samples first come to it. */
static void
take_residuals (const ScDevice *device, ScSampleTable *table)
{
  ScResiduals *const r = &table->residuals;
  sc_residuals_clear (r);
  look_over (table);
  g_autofree Place *places = g_new0 (Place, MAX (table->n, 1));
  g_autoptr (GHashTable) known = g_hash_table_new (place_hash, place_equal); /* place -> index + 1 */
  r->y = g_new0 (double, MAX (table->n, 1));
  r->repeats = g_new0 (double, MAX (table->n, 1));
  for (guint i = 0; i < table->n; i++)
    {
      Place *const place = &places[r->n];
      *place = (Place) { { 0 } };
      r->n_dims = coordinates (table, &table->kernels[i], place->x);
      guint at = GPOINTER_TO_UINT (g_hash_table_lookup (known, place));
      if (at == 0)
        {
          at = ++r->n;
          g_hash_table_insert (known, place, GUINT_TO_POINTER (at));
        }
      const double y = CLAMP (log (table->seconds[i] / form_s (device, table, &table->kernels[i])), -MOST_LN, MOST_LN);
      r->repeats[at - 1]++;
      r->y[at - 1] += (y - r->y[at - 1]) / r->repeats[at - 1];
    }
  r->x = g_new (double, (gsize) MAX (r->n, 1) * MAX (r->n_dims, 1));
  for (guint i = 0; i < r->n; i++)
    memcpy (r->x + (gsize) i * r->n_dims, places[i].x, r->n_dims * sizeof (double));
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
