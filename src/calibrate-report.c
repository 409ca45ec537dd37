/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate-report.c - the report of stepcast calibrate, for people, scripts and plots. */
#include "calibrate-report.h"
#include "json-out.h"
#include <math.h>
#include <string.h>

static char *
format_value (double value, ScUnit unit)
{
  if (isnan (value))
    return g_strdup ("-");
  switch (unit)
    {
    case SC_UNIT_BYTES: return sc_format_bytes (value);
    case SC_UNIT_BYTES_PER_S: return sc_format_rate (value);
    case SC_UNIT_SECONDS: return sc_format_seconds (value);
    case SC_UNIT_FLOPS: return sc_format_flops (value);
    case SC_UNIT_NONE:
    case SC_N_UNITS:
    default: return g_strdup_printf ("%.4g", value);
    }
}

static char *
percent (double fraction)
{
  return isnan (fraction) ? g_strdup ("-") : g_strdup_printf ("%.1f", 100 * fraction);
}

/* ---- Text ---- */

static void
write_fits (const ScCalibration *c, GString *out)
{
  if (c->samples_only)
    return;
  if (c->n_numbers == 0)
    {
      g_string_append (out, "\nNumbers: the base's stay, no row is one that forecasts rest on (--training)\n");
      return;
    }
  g_string_append_printf (out, "\n%-24s%14s%14s%6s   %s\n", "Numbers", "base", "now", "rows", "error, %");
  for (guint i = 0; i < c->fits->len; i++)
    {
      const ScFit *const fit = &g_array_index (c->fits, ScFit, i);
      g_autofree char *base = format_value (fit->base, fit->unit), *value = format_value (fit->value, fit->unit);
      g_autofree char *error = percent (fit->errors.median);
      g_string_append_printf (out, "  %-22s%14s%14s%6u   %8s", fit->key, base, fit->fitted ? value : "", fit->n, error);
      if (fit->note != NULL)
        g_string_append_printf (out, "   %s%s", fit->fitted ? "" : "the base's stays: ", fit->note);
      g_string_append_c (out, '\n');
    }
}

static void
append_errors (GString *out, const ScErrors *errors, gboolean bias)
{
  g_autofree char *median = percent (errors->median), *p90 = percent (errors->p90);
  g_string_append_printf (out, " %6s %6s", median, p90);
  if (!bias)
    return;
  if (isnan (errors->signed_error))
    g_string_append_printf (out, " %6s", "-");
  else
    g_string_append_printf (out, " %+6.1f", 100 * errors->signed_error);
}

static void
write_tables (const ScCalibration *c, GString *out)
{
  if (c->table_fits->len == 0)
    return;
  gsize stack = strlen ("software");
  for (guint i = 0; i < c->table_fits->len; i++)
    stack = MAX (stack, strlen (g_array_index (c->table_fits, ScTableFit, i).table->stack));
  const int wide = (int) MIN (stack, 40);
  g_string_append_printf (out, "\n%-21s%-5s %-18s %-*s%7s%7s  %-13s  %-20s  %s\n", "Tables: errors in %", "type", "operation", wide, "software",
                          "points", "effic.", "    the form", "   a shape held out", " an (n, k) held out");
  g_string_append_printf (out, "%*s  %6s %6s  %6s %6s %6s  %6s %6s\n", 21 + 6 + 19 + wide + 14, "", "median", "90 %", "median", "90 %", "bias",
                          "median", "90 %");
  for (guint i = 0; i < c->table_fits->len; i++)
    {
      const ScTableFit *const fit = &g_array_index (c->table_fits, ScTableFit, i);
      const ScSampleTable *const t = fit->table;
      const gboolean memory = t->class >= SC_KERNEL_ELEMENTWISE;
      g_autofree char *efficiency = t->efficiency.value > 0 ? g_strdup_printf ("%.3f", t->efficiency.value) : g_strdup ("-");
      g_string_append_printf (out, "%c %-18s %-5s %-18s %-*.*s%7u%7s ", t->training ? ' ' : '*', sc_kernel_class_name (t->class),
                              sc_dtype_name (t->dtype), memory ? sc_op_name (t->op) : "-", wide, wide, t->stack, t->n, efficiency);
      append_errors (out, &fit->form, FALSE);
      g_string_append_c (out, ' ');
      append_errors (out, &fit->point, TRUE);
      if (fit->shape.n > 0)
        {
          g_string_append_c (out, ' ');
          append_errors (out, &fit->shape, FALSE);
        }
      g_string_append_c (out, '\n');
    }
  for (guint i = 0; i < c->table_fits->len; i++)
    if (!g_array_index (c->table_fits, ScTableFit, i).table->training)
      {
        g_string_append (out, "  * only judges measurements of its own software; --training NAME lets forecasts rest on it\n");
        break;
      }
}

static void
write_list (GString *out, const char *title, const GPtrArray *texts)
{
  if (texts->len == 0)
    return;
  g_string_append_printf (out, "\n%s\n", title);
  for (guint i = 0; i < texts->len; i++)
    g_string_append_printf (out, "  - %s\n", (const char *) g_ptr_array_index (texts, i));
}

static void
write_text (const ScCalibration *c, GString *out)
{
  g_string_append_printf (out, "%s%s from %u row%s on the numbers of %s\n  %s\n", c->samples_only ? "samples of " : "", c->device->name, c->n_rows,
                          c->n_rows == 1 ? "" : "s", c->base, c->provenance);
  if (c->n_wild > 0)
    g_string_append_printf (out, "  %u row%s of a spread above %g count%s less in fits\n", c->n_wild, c->n_wild == 1 ? "" : "s",
                            SC_CALIBRATE_SPREAD, c->n_wild == 1 ? "s" : "");
  if (c->n_kept_tables > 0 && !c->samples_only)
    g_string_append_printf (out, "  %u table%s of the base stay%s: nothing here stands for %s\n", c->n_kept_tables,
                            c->n_kept_tables == 1 ? "" : "s", c->n_kept_tables == 1 ? "s" : "", c->n_kept_tables == 1 ? "it" : "them");
  write_fits (c, out);
  write_tables (c, out);
  if (c->reported->len > 0)
    g_string_append (out, "\nMeasured, but no number of a device file\n");
  for (guint i = 0; i < c->reported->len; i++)
    {
      const ScReported *const r = &g_array_index (c->reported, ScReported, i);
      g_autofree char *value = format_value (r->value, r->unit);
      g_string_append_printf (out, "  %-30s%14s%6u\n", r->what, value, r->n);
    }
  write_list (out, "Warnings", c->warnings);
  write_list (out, "Left out", c->skipped);
}

/* ---- JSON ---- */

/* Errors of errors are larger; further digits differ from one machine to the next. */
static double
six_digits (double value)
{
  char text[32];
  g_snprintf (text, sizeof text, "%.6g", value);
  return g_ascii_strtod (text, NULL);
}

static void
add_errors (cJSON *object, const char *key, const ScErrors *errors)
{
  if (errors->n == 0)
    {
      cJSON_AddNullToObject (object, key);
      return;
    }
  cJSON *const e = cJSON_AddObjectToObject (object, key);
  cJSON_AddNumberToObject (e, "points", errors->n);
  sc_json_add_number (e, "median", six_digits (errors->median));
  sc_json_add_number (e, "p90", six_digits (errors->p90));
  sc_json_add_number (e, "bias", six_digits (errors->signed_error));
}

static void
add_texts (cJSON *object, const char *key, const GPtrArray *texts)
{
  cJSON *const array = cJSON_AddArrayToObject (object, key);
  for (guint i = 0; i < texts->len; i++)
    cJSON_AddItemToArray (array, cJSON_CreateString (g_ptr_array_index (texts, i)));
}

/* Units stand in the keys of values, as in other reports. */
static const char *
unit_word (ScUnit unit)
{
  switch (unit)
    {
    case SC_UNIT_BYTES: return "bytes";
    case SC_UNIT_BYTES_PER_S: return "bytes_per_s";
    case SC_UNIT_SECONDS: return "s";
    case SC_UNIT_FLOPS: return "flop_per_s";
    case SC_UNIT_NONE:
    case SC_N_UNITS:
    default: return "1";
    }
}

static void
write_json (const ScCalibration *c, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  sc_json_add_text (root, "device", c->device->name);
  sc_json_add_text (root, "base", c->base);
  sc_json_add_text (root, "source", c->provenance);
  cJSON_AddNumberToObject (root, "rows", c->n_rows);
  cJSON_AddNumberToObject (root, "rows_of_wide_spread", c->n_wild);
  cJSON_AddNumberToObject (root, "tables_of_base", c->n_kept_tables);
  cJSON *const fits = cJSON_AddArrayToObject (root, "fits");
  for (guint i = 0; i < c->fits->len; i++)
    {
      const ScFit *const fit = &g_array_index (c->fits, ScFit, i);
      cJSON *const object = cJSON_CreateObject ();
      cJSON_AddItemToArray (fits, object);
      sc_json_add_text (object, "key", fit->key);
      sc_json_add_text (object, "unit", unit_word (fit->unit));
      sc_json_add_number (object, "base", fit->base);
      sc_json_add_number (object, "value", fit->fitted ? fit->value : NAN);
      cJSON_AddNumberToObject (object, "rows", fit->n);
      cJSON_AddNumberToObject (object, "rows_of_wide_spread", fit->n_wild);
      cJSON_AddNumberToObject (object, "rows_left_out", fit->n_left_out);
      add_errors (object, "cross_validated", &fit->errors);
      sc_json_add_text (object, "note", fit->note);
    }
  cJSON *const tables = cJSON_AddArrayToObject (root, "tables");
  for (guint i = 0; i < c->table_fits->len; i++)
    {
      const ScTableFit *const fit = &g_array_index (c->table_fits, ScTableFit, i);
      const ScSampleTable *const t = fit->table;
      cJSON *const object = cJSON_CreateObject ();
      cJSON_AddItemToArray (tables, object);
      sc_json_add_text (object, "class", sc_kernel_class_name (t->class));
      sc_json_add_text (object, "dtype", sc_dtype_name (t->dtype));
      sc_json_add_text (object, "op", t->class >= SC_KERNEL_ELEMENTWISE ? sc_op_name (t->op) : NULL);
      sc_json_add_text (object, "stack", t->stack);
      cJSON_AddBoolToObject (object, "training", t->training);
      cJSON_AddBoolToObject (object, "raw", fit->raw);
      cJSON_AddNumberToObject (object, "points", t->n);
      cJSON_AddNumberToObject (object, "rows_of_wide_spread", fit->n_wild);
      sc_json_add_number (object, "efficiency", t->efficiency.value > 0 ? t->efficiency.value : NAN);
      add_errors (object, "form", &fit->form);
      add_errors (object, "point_held_out", &fit->point);
      add_errors (object, "shape_held_out", &fit->shape);
    }
  cJSON *const reported = cJSON_AddArrayToObject (root, "reported");
  for (guint i = 0; i < c->reported->len; i++)
    {
      const ScReported *const r = &g_array_index (c->reported, ScReported, i);
      cJSON *const object = cJSON_CreateObject ();
      cJSON_AddItemToArray (reported, object);
      sc_json_add_text (object, "what", r->what);
      sc_json_add_text (object, "unit", unit_word (r->unit));
      sc_json_add_number (object, "value", r->value);
      cJSON_AddNumberToObject (object, "rows", r->n);
    }
  add_texts (root, "warnings", c->warnings);
  add_texts (root, "left_out", c->skipped);
  sc_json_print (root, out);
}

const ScCalibrateFormat *
sc_calibrate_formats (void)
{
  static const ScCalibrateFormat formats[] = {
    { "text", write_text }, { "json", write_json }, { "tsv", sc_calibration_write_points }, { NULL, NULL }
  };
  return formats;
}
