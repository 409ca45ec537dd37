/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate-tables.c - the tables of measured kernels of a device, and how well the form and they themselves predict. */
#include "calibrate-parts.h"
#include "models/kernel-form.h"
#include "sample-tables.h"
#include <math.h>
#include <string.h>

#define MOST_SHAPES 20000 /* of a table, as its readers have it */

/* Times of fewer launches than that do not tell an efficiency. */
#define LEAST_LAUNCHES 10

/* ---- Making ---- */

/* At the lowest efficiency, much slower still. */
static gboolean
check_not_slow (const Calibrating *w, const ScSampleTable *table)
{
  const ScCited low = { .value = table->efficiency.value, .grade = SC_GRADE_FITTED };
  g_autofree double *ratios = g_new (double, MAX (table->n, 1));
  for (guint i = 0; i < table->n; i++)
    ratios[i] = table->seconds[i] / sc_kernel_form (w->device, &table->kernels[i], &low, 1).seconds;
  const double slower = sc_median (ratios, table->n);
  if (slower <= ABOVE_DATASHEET * 2)
    return TRUE;
  g_autofree char *key = g_strdup_printf ("%s table of %s (%s)", sc_kernel_class_name (table->class), sc_dtype_name (table->dtype), table->stack);
  return sc_calibrate_refuse (w, key, "found times of %.3g times those at %g of the datasheet's rate over %u row%s (are they in microseconds?)",
                              slower, table->efficiency.value, table->n, table->n == 1 ? "" : "s");
}

/* Refuses a table most of whose larger rows are faster than the form at an efficiency of 1.  Where launches are a good part of the
 * time, or memory decides, times say nothing about that. */
static gboolean
check_efficiency (const Calibrating *w, const ScSampleTable *table)
{
  if (table->efficiency.value <= 0 || (table->efficiency.value < 1 && table->efficiency.value > 2 * BELOW_DATASHEET))
    return TRUE;
  if (table->efficiency.value < 1)
    return check_not_slow (w, table);
  const ScCited one = { .value = 1, .grade = SC_GRADE_FITTED }, half = { .value = 0.5, .grade = SC_GRADE_FITTED };
  g_autofree double *ratios = g_new (double, MAX (table->n, 1));
  guint n = 0;
  for (guint i = 0; i < table->n; i++)
    {
      const ScKernel *const k = &table->kernels[i];
      const double s = sc_kernel_form (w->device, k, &one, 1).seconds, slow = sc_kernel_form (w->device, k, &half, 1).seconds;
      if (s >= LEAST_LAUNCHES * w->device->launch_s.value && slow >= 1.5 * s)
        ratios[n++] = s / table->seconds[i];
    }
  g_autofree char *key = g_strdup_printf ("%s table of %s (%s)", sc_kernel_class_name (table->class), sc_dtype_name (table->dtype), table->stack);
  const double over = sc_median (ratios, n);
  if (n > 0 && over > ABOVE_DATASHEET)
    return sc_calibrate_refuse (w, key, "found an efficiency of %.3g over %u row%s, expected at most 1", over, n, n == 1 ? "" : "s");
  g_ptr_array_add (w->c->warnings, g_strdup_printf ("%s: faster than the formula at an efficiency of 1, which it takes", key));
  return TRUE;
}

static const ScKernelRow *
first_row_of (const Calibrating *w, const ScSampleTable *table)
{
  for (guint i = 0; i < w->kept.rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (w->kept.rows, i);
      if (row->kind == SC_ROW_KERNEL && row->kernel.class == table->class && row->kernel.dtype == table->dtype && row->kernel.op == table->op
          && strcmp (row->stack, table->stack) == 0)
        return row;
    }
  g_return_val_if_reached (NULL);
}

static guint
wild_of (const Calibrating *w, const ScSampleTable *table)
{
  guint n = 0;
  for (guint i = 0; i < w->kept.rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (w->kept.rows, i);
      n += row->kind == SC_ROW_KERNEL && row->kernel.class == table->class && row->kernel.dtype == table->dtype
           && row->kernel.op == table->op && strcmp (row->stack, table->stack) == 0 && row->spread > SC_CALIBRATE_SPREAD;
    }
  return n;
}

/* Forecasts rest on the first training table of a kind: it stands for those of the base. */
static gboolean
stands_for (const GPtrArray *tables, const ScSampleTable *other)
{
  for (guint i = 0; i < tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (tables, i);
      if (table->training && table->class == other->class && table->dtype == other->dtype && table->op == other->op)
        return TRUE;
    }
  return FALSE;
}

static void
warn_of_second_tables (const Calibrating *w, const GPtrArray *tables)
{
  for (guint i = 0; i < tables->len; i++)
    {
      const ScSampleTable *const second = g_ptr_array_index (tables, i);
      for (guint j = 0; j < i && second->training; j++)
        {
          const ScSampleTable *const first = g_ptr_array_index (tables, j);
          const gboolean halves = first->dtype <= SC_DTYPE_FP16 && second->dtype <= SC_DTYPE_FP16;
          if (!first->training || first->class != second->class || first->op != second->op || (first->dtype != second->dtype && !halves))
            continue;
          g_ptr_array_add (w->c->warnings,
                           g_strdup_printf ("%s %s of %s and of %s: forecasts take %s; --training names one", sc_kernel_class_name (first->class),
                                            sc_dtype_name (second->dtype), first->stack, second->stack,
                                            first->dtype == second->dtype ? first->stack : "each for its own type"));
          break;
        }
    }
}

/* Tables of the rows, in front of those of the base that forecasts rest on where nothing stands for them. */
gboolean
sc_calibrate_tables (const Calibrating *w)
{
  ScDevice *const d = w->device;
  g_autoptr (GPtrArray) tables = sc_sample_tables_new (d, &w->kept);
  for (guint i = 0; i < tables->len; i++)
    {
      ScSampleTable *const table = g_ptr_array_index (tables, i);
      const ScKernelRow *const row = first_row_of (w, table);
      table->training = sc_calibrate_is_training (w, row);
      if (table->n > MOST_SHAPES)
        return sc_calibrate_refuse (w, sc_kernel_class_name (table->class),
                                    "found %u rows of %s, expected at most %u", table->n, table->stack, MOST_SHAPES);
      if (!check_efficiency (w, table))
        return FALSE;
      if (table->efficiency.value > 0)
        table->efficiency.source = g_strdup ("median of the larger half");
      g_ptr_array_add (w->c->tables, table);
    }
  warn_of_second_tables (w, tables);
  GPtrArray *const base = g_steal_pointer (&d->tables);
  d->tables = g_steal_pointer (&tables);
  for (guint i = 0; base != NULL && i < base->len;)
    if (!((const ScSampleTable *) g_ptr_array_index (base, i))->training || stands_for (w->c->tables, g_ptr_array_index (base, i)))
      i++;
    else
      {
        g_ptr_array_add (d->tables, g_ptr_array_steal_index (base, i));
        w->c->n_kept_tables++;
      }
  if (base != NULL)
    g_ptr_array_unref (base);
  if (d->tables->len == 0)
    g_clear_pointer (&d->tables, g_ptr_array_unref);
  return TRUE;
}

/* ---- Errors ---- */

static ScErrors
table_errors (const ScDevice *device, const ScSampleTable *table, ScHoldOut hold_out)
{
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (table->n, 1));
  guint n = 0;
  for (guint i = 0; i < table->n; i++)
    {
      double distance;
      const double predicted = sc_samples_predict (device, table, &table->kernels[i], hold_out, &distance);
      if (isfinite (distance)) /* else nothing is left to predict from */
        judged[n++] = (ScPrediction) { predicted, table->seconds[i] };
    }
  return sc_errors_of (judged, n);
}

/* What the formula alone says about sample @i.  (Residuals are of places, several samples of a shape have one.) */
static double
form_s (const ScDevice *device, const ScSampleTable *table, guint i)
{
  return sc_kernel_form (device, &table->kernels[i], sc_samples_efficiency (device, table), 1).seconds;
}

static ScErrors
form_errors (const ScDevice *device, const ScSampleTable *table)
{
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (table->n, 1));
  for (guint i = 0; i < table->n; i++)
    judged[i] = (ScPrediction) { form_s (device, table, i), table->seconds[i] };
  return sc_errors_of (judged, table->n);
}

void
sc_calibrate_judge_tables (const Calibrating *w)
{
  for (guint i = 0; i < w->c->tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (w->c->tables, i);
      ScTableFit fit = { .table = table, .raw = first_row_of (w, table)->raw, .n_wild = wild_of (w, table) };
      fit.form = form_errors (w->device, table);
      fit.point = table_errors (w->device, table, SC_HOLD_POINT);
      fit.shape = table->class == SC_KERNEL_GEMM ? table_errors (w->device, table, SC_HOLD_SHAPE) : SC_NO_ERRORS;
      g_array_append_val (w->c->table_fits, fit);
      if (2 * fit.n_wild > table->n)
        {
          g_autofree char *kind = sc_calibrate_kind_name (&table->kernels[0]);
          g_ptr_array_add (w->c->warnings, g_strdup_printf ("%s (%s): %u of %u rows spread over more than %g of their median: measure again",
                                                            kind, table->stack, fit.n_wild, table->n, SC_CALIBRATE_SPREAD));
        }
    }
}

void
sc_calibration_write_points (const ScCalibration *c, GString *out)
{
  g_string_append (out, "class\tdtype\top\tstack\tamount\tmeasured_us\tform_us\theld_out_us\n");
  for (guint t = 0; t < c->tables->len; t++)
    {
      const ScSampleTable *const table = g_ptr_array_index (c->tables, t);
      for (guint i = 0; i < table->n; i++)
        {
          const ScKernel *const k = &table->kernels[i];
          double distance;
          const double held_out = sc_samples_predict (c->device, table, k, SC_HOLD_POINT, &distance);
          g_autofree char *stack = g_strdelimit (g_strdup (table->stack), "\t\n\r", ' ');
          g_string_append_printf (out, "%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\n", sc_kernel_class_name (table->class),
                                  sc_dtype_name (table->dtype), k->flops > 0 ? "-" : sc_op_name (table->op), stack,
                                  k->flops > 0 ? k->flops : k->bytes, table->seconds[i] * 1e6,
                                  form_s (c->device, table, i) * 1e6, held_out * 1e6);
        }
    }
}
