/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare-report.c - what stepcast compare says: text for people, json for programs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "compare.h"
#include "describe.h"
#include "json-out.h"
#include "text-table.h"
#include "units.h"
#include <math.h>
#include <string.h>

#define WIDTH 100
#define SCHEMA_VERSION 1

/* ---- What differs ---- */

/* Settings by their keys, borrowed. */
static GHashTable *
by_key (const ScReportRead *r)
{
  GHashTable *const table = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < r->settings->len; i++)
    {
      const ScReportSetting *const s = g_ptr_array_index (r->settings, i);
      g_hash_table_insert (table, s->key, s->value);
    }
  return table;
}

/* "plan.tp: 8 -> 16", caller frees. */
static GPtrArray *
differing_settings (const ScReportRead *a, const ScReportRead *b)
{
  GPtrArray *const out = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) in_a = by_key (a), in_b = by_key (b);
  for (guint i = 0; i < a->settings->len; i++)
    {
      const ScReportSetting *const x = g_ptr_array_index (a->settings, i);
      const char *const y = g_hash_table_lookup (in_b, x->key);
      if (y == NULL || strcmp (x->value, y) != 0)
        g_ptr_array_add (out, g_strdup_printf ("%s: %s -> %s", x->key, x->value, y != NULL ? y : "none"));
    }
  for (guint i = 0; i < b->settings->len; i++)
    {
      const ScReportSetting *const y = g_ptr_array_index (b->settings, i);
      if (!g_hash_table_contains (in_a, y->key))
        g_ptr_array_add (out, g_strdup_printf ("%s: none -> %s", y->key, y->value));
    }
  return out;
}

/* ---- Text ---- */

static void
add_row (ScTextTable *t, const char *name, double a, double b, char *(*format) (double))
{
  g_autofree char *size = format (fabs (b - a));
  sc_text_table_cell (t, g_strdup_printf ("  %s", name));
  sc_text_table_cell (t, format (a));
  sc_text_table_cell (t, format (b));
  sc_text_table_cell (t, g_strdup_printf ("%s%s", b < a ? "-" : "+", size));
  sc_text_table_cell (t, a > 0 ? sc_text_percent (b / a - 1, TRUE) : g_strdup ("-"));
}

/* The parts that make most of the difference: those that are a tenth of it or more, the largest first. */
static void
write_reason (const ScReportRead *a, const ScReportRead *b, GString *out)
{
  const double all = b->step_s - a->step_s;
  g_autoptr (GString) text = g_string_new (NULL);
  gboolean said[SC_N_TIMES] = { FALSE };
  for (;;)
    {
      guint most = SC_N_TIMES;
      for (guint k = 0; k < SC_N_TIMES; k++)
        if (!said[k] && fabs (b->time_s[k] - a->time_s[k]) >= 0.1 * fabs (all) && b->time_s[k] != a->time_s[k]
            && (most == SC_N_TIMES || fabs (b->time_s[k] - a->time_s[k]) > fabs (b->time_s[most] - a->time_s[most])))
          most = k;
      if (most == SC_N_TIMES)
        break;
      said[most] = TRUE;
      const double part = b->time_s[most] - a->time_s[most];
      g_autofree char *size = sc_format_seconds (fabs (part));
      g_string_append_printf (text, "%s%s%s %s", text->len > 0 ? ", " : "", part < 0 ? "-" : "+", size, sc_time_kind_label ((ScTimeKind) most));
    }
  g_autofree char *size = sc_format_seconds (fabs (all));
  g_autoptr (GString) line = g_string_new (NULL);
  if (text->len == 0)
    g_string_assign (line, "Both take the same time.");
  else
    g_string_append_printf (line, "B takes %s %s than A: %s.", size, all < 0 ? "less" : "more", text->str);
  g_string_append (out, "\n  ");
  sc_append_wrapped (out, line->str, 2, 2, WIDTH);
  g_string_append_c (out, '\n');
}

void
sc_compare_write_text (const ScReportRead *a, const ScReportRead *b, GString *out)
{
  static const char *const titles[] = { "", "A", "B", "B - A", "", NULL };
  g_string_append_printf (out, "A  %s: %s\nB  %s: %s\n", a->file, a->name, b->file, b->name);
  g_autoptr (GPtrArray) differences = differing_settings (a, b);
  if (differences->len > 0)
    g_string_append (out, "\nWhat differs\n");
  for (guint i = 0; i < differences->len; i++)
    {
      g_string_append (out, "  ");
      sc_append_wrapped (out, g_ptr_array_index (differences, i), 2, 6, WIDTH);
      g_string_append_c (out, '\n');
    }
  g_string_append (out, "\nTime: parts of the step, mean over the stages\n");
  ScTextTable t = sc_text_table_new (titles, 1);
  for (guint k = 0; k < SC_N_TIMES; k++)
    if (a->time_s[k] > 0 || b->time_s[k] > 0)
      add_row (&t, sc_time_kind_label ((ScTimeKind) k), a->time_s[k], b->time_s[k], sc_format_seconds);
  add_row (&t, "step", a->step_s, b->step_s, sc_format_seconds);
  add_row (&t, "tokens/s per GPU", a->tokens_per_s_per_gpu, b->tokens_per_s_per_gpu, sc_format_count);
  sc_text_table_end (&t, FALSE, out);
  write_reason (a, b, out);
  g_string_append (out, "\nMemory: the fullest GPU at its peak\n");
  t = sc_text_table_new (titles, 1);
  for (guint k = 0; k < SC_N_MEMS; k++)
    if (a->bytes[k] > 0 || b->bytes[k] > 0)
      add_row (&t, sc_mem_kind_name ((ScMemKind) k), a->bytes[k], b->bytes[k], sc_format_bytes);
  add_row (&t, "allocated", a->allocated_bytes, b->allocated_bytes, sc_format_bytes);
  add_row (&t, "reserved", a->reserved_bytes, b->reserved_bytes, sc_format_bytes);
  add_row (&t, "device", a->device_bytes, b->device_bytes, sc_format_bytes);
  sc_text_table_end (&t, FALSE, out);
  g_string_append_printf (out, "  A %s, B %s\n", a->verdict, b->verdict);
}

static double
measured_step (const ScReportRead *r, const ScTrainLog *log)
{
  return isfinite (log->step_s) ? log->step_s : r->tokens_per_step / log->tokens_per_s_per_gpu / MAX (r->gpus, 1);
}

static void
add_measured (ScTextTable *t, const char *name, double measured, double forecast, char *(*format) (double))
{
  if (!isfinite (measured) || !isfinite (forecast))
    return;
  sc_text_table_cell (t, g_strdup_printf ("  %s", name));
  sc_text_table_cell (t, format (measured));
  sc_text_table_cell (t, format (forecast));
  sc_text_table_cell (t, sc_text_percent (forecast / measured - 1, TRUE));
}

void
sc_compare_log_write_text (const ScReportRead *r, const char *file, const ScTrainLog *log, GString *out)
{
  static const char *const titles[] = { "", "measured", "forecast", "forecast / measured - 1", NULL };
  g_string_append_printf (out, "Measured  %s: %s, median of steps %u to %u of %u\nForecast  %s: %s\n\n", file, log->framework, log->first + 1, log->steps, log->steps, r->file, r->name);
  const double step = measured_step (r, log);
  ScTextTable t = sc_text_table_new (titles, 1);
  add_measured (&t, "step", step, r->step_s, sc_format_seconds);
  add_measured (&t, "tokens/s per GPU", r->tokens_per_step / step / MAX (r->gpus, 1), r->tokens_per_s_per_gpu, sc_format_count);
  g_autofree char *allocated = g_strdup_printf ("allocated, rank %u", log->rank), *reserved = g_strdup_printf ("reserved, rank %u", log->rank);
  add_measured (&t, allocated, log->max_allocated_bytes, log->rank == 0 ? r->rank0_allocated_bytes : r->allocated_bytes, sc_format_bytes);
  add_measured (&t, reserved, log->max_reserved_bytes, log->rank == 0 ? r->rank0_reserved_bytes : r->reserved_bytes, sc_format_bytes);
  sc_text_table_end (&t, FALSE, out);
  if (log->rank != 0 && isfinite (log->max_allocated_bytes))
    g_string_append_printf (out, "  Memory of rank %u is held against the fullest GPU's.\n", log->rank);
  if (log->global_batch > 0 && log->global_batch != r->global_batch)
    g_string_append_printf (out, "  The batches differ: %u sequences in the log, %u in the report.\n", log->global_batch, r->global_batch);
  if (isfinite (log->tflops_per_gpu))
    g_string_append_printf (out, "  The log counts %.1f TFLOP/s per GPU by its own rule; the report %.1f, causal attention counted half.\n", log->tflops_per_gpu, r->tflops_per_gpu);
}

/* ---- JSON ---- */

static cJSON *
add_pair (cJSON *object, const char *key, double a, double b)
{
  cJSON *const o = cJSON_AddObjectToObject (object, key);
  sc_json_add_number (o, "a", a);
  sc_json_add_number (o, "b", b);
  sc_json_add_number (o, "difference", b - a);
  return o;
}

static cJSON *
begin (void)
{
  cJSON *const root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", SCHEMA_VERSION);
  sc_json_add_text (root, "stepcast_version", PACKAGE_VERSION);
  return root;
}

void
sc_compare_write_json (const ScReportRead *a, const ScReportRead *b, GString *out)
{
  g_autoptr (cJSON) root = begin ();
  sc_json_add_text (root, "a", a->file);
  sc_json_add_text (root, "b", b->file);
  g_autoptr (GPtrArray) differences = differing_settings (a, b);
  cJSON *const list = cJSON_AddArrayToObject (root, "settings");
  for (guint i = 0; i < differences->len; i++)
    cJSON_AddItemToArray (list, cJSON_CreateString (g_ptr_array_index (differences, i)));
  add_pair (root, "step_time_s", a->step_s, b->step_s);
  add_pair (root, "tokens_per_s_per_gpu", a->tokens_per_s_per_gpu, b->tokens_per_s_per_gpu);
  cJSON *const time = cJSON_AddObjectToObject (root, "time_s");
  for (guint k = 0; k < SC_N_TIMES; k++)
    add_pair (time, sc_time_kind_name ((ScTimeKind) k), a->time_s[k], b->time_s[k]);
  cJSON *const memory = cJSON_AddObjectToObject (root, "at_peak_bytes");
  for (guint k = 0; k < SC_N_MEMS; k++)
    add_pair (memory, sc_mem_kind_name ((ScMemKind) k), a->bytes[k], b->bytes[k]);
  add_pair (root, "peak_allocated_bytes", a->allocated_bytes, b->allocated_bytes);
  add_pair (root, "peak_reserved_bytes", a->reserved_bytes, b->reserved_bytes);
  add_pair (root, "peak_device_bytes", a->device_bytes, b->device_bytes);
  sc_json_print (root, out);
}

static void
add_measured_key (cJSON *root, const char *key, double measured, double forecast)
{
  cJSON *const o = cJSON_AddObjectToObject (root, key);
  sc_json_add_number (o, "measured", measured);
  sc_json_add_number (o, "forecast", forecast);
  sc_json_add_number (o, "error", forecast / measured - 1);
}

void
sc_compare_log_write_json (const ScReportRead *r, const char *file, const ScTrainLog *log, GString *out)
{
  g_autoptr (cJSON) root = begin ();
  sc_json_add_text (root, "log", file);
  sc_json_add_text (root, "report", r->file);
  sc_json_add_text (root, "framework", log->framework);
  cJSON_AddNumberToObject (root, "steps", log->steps);
  cJSON_AddNumberToObject (root, "first_step", log->first + 1);
  sc_json_add_number (root, "log_global_batch", log->global_batch > 0 ? (double) log->global_batch : (double) NAN);
  cJSON_AddNumberToObject (root, "report_global_batch", r->global_batch);
  add_measured_key (root, "step_time_s", measured_step (r, log), r->step_s);
  cJSON_AddNumberToObject (root, "memory_rank", log->rank);
  add_measured_key (root, "peak_allocated_bytes", log->max_allocated_bytes, log->rank == 0 ? r->rank0_allocated_bytes : r->allocated_bytes);
  add_measured_key (root, "peak_reserved_bytes", log->max_reserved_bytes, log->rank == 0 ? r->rank0_reserved_bytes : r->reserved_bytes);
  sc_json_print (root, out);
}
