/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sample-tables.c - groups rows into tables and finds the efficiency under each. */
#include "sample-tables.h"
#include "device-json.h"
#include "error-stat.h"
#include "models/kernel-form.h"
#include <math.h>
#include <string.h>

#define LEAST_EFFICIENCY 0.02
#define MOST_EFFICIENCY 1.0
#define N_HALVINGS 40

static gboolean
same_table (const ScSampleTable *table, const ScKernelRow *row)
{
  return table->class == row->kernel.class && table->dtype == row->kernel.dtype && table->op == row->kernel.op
         && strcmp (table->stack, row->stack) == 0;
}

static int
compare_flops (gconstpointer a, gconstpointer b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return x < y ? -1 : x > y;
}

/* Median of ln (measured / form) over products of @least_flops and more. */
static double
median_ln (const ScDevice *device, const ScSampleTable *table, double efficiency, double least_flops)
{
  const ScCited cited = { .value = efficiency, .grade = SC_GRADE_FITTED };
  g_autofree double *ln = g_new (double, table->n);
  guint n = 0;
  for (guint i = 0; i < table->n; i++)
    {
      const ScKernel *const k = &table->kernels[i];
      if (k->flops < least_flops)
        continue;
      ln[n++] = log (table->seconds[i] / sc_kernel_form (device, k, &cited, 1).seconds);
    }
  return sc_median (ln, n);
}

double
sc_sample_table_efficiency (const ScDevice *device, const ScSampleTable *table)
{
  if (table->n == 0 || table->class == SC_KERNEL_BATCHED_GEMM || table->class >= SC_KERNEL_ELEMENTWISE
      || device->peak_flops[table->dtype].value <= 0)
    return 0;
  g_autofree double *flops = g_new (double, table->n);
  for (guint i = 0; i < table->n; i++)
    flops[i] = table->kernels[i].flops;
  qsort (flops, table->n, sizeof flops[0], compare_flops);
  const double least = flops[table->n / 2];
  double low = LEAST_EFFICIENCY, high = MOST_EFFICIENCY; /* the form falls as the efficiency rises */
  for (guint i = 0; i < N_HALVINGS; i++)
    {
      const double middle = sqrt (low * high);
      if (median_ln (device, table, middle, least) > 0)
        high = middle;
      else
        low = middle;
    }
  return round (high * 1e4) / 1e4;
}

GPtrArray *
sc_sample_tables_new (const ScDevice *device, const ScKernelRows *rows)
{
  GPtrArray *const tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
  g_autoptr (GPtrArray) members = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref); /* of each table: its rows */
  const ScSampleTable *last = NULL;
  guint last_index = 0;
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind != SC_ROW_KERNEL || row->gpu == NULL || !sc_device_is_called (device, row->gpu))
        continue;
      if (last == NULL || !same_table (last, row))
        {
          for (last_index = 0; last_index < tables->len && !same_table (g_ptr_array_index (tables, last_index), row);)
            last_index++;
          if (last_index == tables->len)
            {
              ScSampleTable *const table = g_new0 (ScSampleTable, 1);
              table->class = row->kernel.class;
              table->dtype = row->kernel.dtype;
              table->op = row->kernel.op;
              table->stack = g_strdup (row->stack);
              table->source = g_strdup (row->source != NULL ? row->source : row->stack);
              table->training = TRUE;
              g_ptr_array_add (tables, table);
              g_ptr_array_add (members, g_ptr_array_new ());
            }
          last = g_ptr_array_index (tables, last_index);
        }
      g_ptr_array_add (g_ptr_array_index (members, last_index), (gpointer) (gsize) row);
    }
  for (guint t = 0; t < tables->len; t++)
    {
      ScSampleTable *const table = g_ptr_array_index (tables, t);
      const GPtrArray *const of = g_ptr_array_index (members, t);
      table->n = of->len;
      table->kernels = g_new (ScKernel, of->len);
      table->seconds = g_new (double, of->len);
      if (table->class == SC_KERNEL_GROUPED_GEMM)
        {
          table->rows = g_new0 (guint64 *, of->len);
          table->n_rows = g_new0 (guint, of->len);
        }
      for (guint i = 0; i < of->len; i++)
        {
          const ScKernelRow *const row = g_ptr_array_index (of, i);
          table->kernels[i] = row->kernel;
          table->seconds[i] = row->seconds;
          if (table->rows != NULL)
            {
              table->rows[i] = g_memdup2 (row->rows, row->n_rows * sizeof row->rows[0]);
              table->n_rows[i] = row->n_rows;
            }
          table->by_layout |= row->kernel.layout != SC_GEMM_TN || row->kernel.accumulate;
        }
      table->efficiency = (ScCited) { .value = sc_sample_table_efficiency (device, table), .grade = SC_GRADE_FITTED };
    }
  return tables;
}
