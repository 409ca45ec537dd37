/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit-report.c - what stepcast fit says: text for people, json for programs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "describe.h"
#include "fit.h"
#include "json-out.h"
#include "text-table.h"
#include "units.h"
#include <math.h>
#include <string.h>

#define WIDTH    100
#define MAX_ROWS 8
#define GIB      (1024.0 * 1024 * 1024)
#define SCHEMA_VERSION 1

/* The class of stages @first to @last that fills its GPU most. */
static const ScClassSummary *
fullest_of (const ScSummary *s, guint first, guint last)
{
  const ScClassSummary *best = NULL;
  for (guint i = 0; i < s->n_classes; i++)
    {
      const ScClassSummary *const c = &s->classes[i];
      if (c->stage >= first && c->stage <= last
          && (best == NULL || (double) c->peak_device_bytes * (double) best->capacity_bytes > (double) best->peak_device_bytes * (double) c->capacity_bytes))
        best = c;
    }
  return best;
}

/* ---- Text ---- */

static void
write_verdict (const ScFit *fit, GString *out)
{
  const ScSummary *const s = fit->memory;
  const ScClassSummary *const c = &s->classes[s->memory_class];
  const double device = (double) c->peak_device_bytes, capacity = (double) c->capacity_bytes;
  g_autofree char *need = sc_format_bytes (device), *have = sc_format_bytes (capacity), *rest = sc_format_bytes (fabs (capacity - device));
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (text, "%s: rank %u (stage %u) needs %s of %s, %s %s", sc_verdict_name (s->verdict), c->representative, c->stage, need, have, rest,
                          device <= capacity ? "free" : "too much");
  if (s->verdict == SC_VERDICT_AT_RISK)
    g_string_append_printf (text, "; with less than %.0f %% free, or where the allocator has to give segments back, a run can still fail", 100 * s->memory_margin);
  g_string_append_printf (text, ". Its peak is in %s.", c->peak_op != NULL ? c->peak_op : "no micro-batch");
  text->str[0] = g_ascii_toupper (text->str[0]);
  sc_append_wrapped (out, text->str, 0, 2, WIDTH);
  g_string_append_c (out, '\n');
}

static char *
gib (double bytes)
{
  return g_strdup_printf ("%.2f", bytes / GIB);
}

static void
write_stages (const ScSummary *s, GString *out)
{
  static const char *const titles[] = { "  stage", "layers", "weight", "grads", "optim", "activ", "other", "alloc", "reserved", "device", "free", "verdict", NULL };
  const guint n = MIN (s->n_stages, MAX_ROWS);
  g_string_append_printf (out, "\nThe fullest GPU of each stage%s at its peak, in GiB\n", s->n_stages > MAX_ROWS ? ", or of several," : "");
  ScTextTable t = sc_text_table_new (titles, 1);
  for (guint r = 0; r < n; r++)
    {
      const guint first = s->n_stages * r / n, last = s->n_stages * (r + 1) / n - 1;
      const ScClassSummary *const c = fullest_of (s, first, last);
      const double known = (double) (c->at_peak[SC_MEM_WEIGHTS] + c->at_peak[SC_MEM_GRADS] + c->at_peak[SC_MEM_OPTIMIZER] + c->at_peak[SC_MEM_ACTIVATIONS]);
      sc_text_table_cell (&t, first == last ? g_strdup_printf ("  %u", first) : g_strdup_printf ("  %u-%u", first, last));
      sc_text_table_cell (&t, g_strdup_printf ("%u", s->stages[c->stage].layers));
      sc_text_table_cell (&t, gib ((double) c->at_peak[SC_MEM_WEIGHTS]));
      sc_text_table_cell (&t, gib ((double) c->at_peak[SC_MEM_GRADS]));
      sc_text_table_cell (&t, gib ((double) c->at_peak[SC_MEM_OPTIMIZER]));
      sc_text_table_cell (&t, gib ((double) c->at_peak[SC_MEM_ACTIVATIONS]));
      sc_text_table_cell (&t, gib ((double) c->peak_allocated_bytes - known));
      sc_text_table_cell (&t, gib ((double) c->peak_allocated_bytes));
      sc_text_table_cell (&t, gib ((double) c->peak_reserved_bytes));
      sc_text_table_cell (&t, gib ((double) c->peak_device_bytes));
      sc_text_table_cell (&t, gib ((double) c->capacity_bytes - (double) c->peak_device_bytes));
      sc_text_table_words (&t, sc_verdict_name (c->verdict));
    }
  sc_text_table_end (&t, FALSE, out);
}

/* No blanks before the ends of lines from @start on. */
static void
trim_lines (GString *out, gsize start)
{
  for (gsize i = start; i < out->len; i++)
    while (out->str[i] == '\n' && i > start && out->str[i - 1] == ' ')
      g_string_erase (out, (gssize) --i, 1);
}

static void
write_rows (const GPtrArray *changes, gboolean steps, gboolean all, GString *out)
{
  static const char *const priced[] = { "  change", "--set", "step", "cost", "device", "free", "", NULL }, *const plain[] = { "  change", "--set", "device", "free", "", NULL };
  ScTextTable t = sc_text_table_new (steps ? priced : plain, 2);
  for (guint i = 0; i < changes->len; i++)
    {
      const ScFitChange *const c = g_ptr_array_index (changes, i);
      if (!c->best && !all)
        continue;
      g_autofree char *keys = g_strjoinv (" ", c->set);
      sc_text_table_cell (&t, g_strdup_printf ("  %s", c->text));
      sc_text_table_words (&t, keys);
      if (steps)
        {
          sc_text_table_cell (&t, isnan (c->step_s) ? g_strdup ("-") : sc_format_seconds (c->step_s));
          sc_text_table_cell (&t, sc_text_percent (c->cost, TRUE));
        }
      sc_text_table_cell (&t, sc_format_bytes ((double) c->device_bytes));
      sc_text_table_cell (&t, sc_text_percent (1 - (double) c->device_bytes / (double) c->capacity_bytes, FALSE));
      sc_text_table_words (&t, c->verdict == SC_VERDICT_AT_RISK ? sc_verdict_name (c->verdict) : "");
    }
  const gsize start = out->len;
  sc_text_table_end (&t, FALSE, out);
  trim_lines (out, start);
}

static void
write_changes (const ScFit *fit, gboolean verbose, GString *out)
{
  if (fit->fits)
    return;
  if (fit->changes->len == 0)
    g_string_append (out, "\nNo one change makes it fit, and no two together.\n");
  else
    {
      g_autofree char *step = sc_format_seconds (fit->step_s);
      const gboolean pairs = ((const ScFitChange *) g_ptr_array_index (fit->changes, 0))->other != NULL;
      g_string_append_printf (out, "\n%s make it fit, by what they cost in step time (%s as it is)\n", pairs ? "No one change does. Two that" : "Changes that",
                              isnan (fit->step_s) ? "too large to simulate" : step);
      write_rows (fit->changes, TRUE, verbose, out);
    }
  if (verbose && fit->short_of->len > 0)
    {
      g_string_append (out, "\nChanges that do not do by themselves\n");
      write_rows (fit->short_of, FALSE, TRUE, out);
    }
  if (verbose && fit->refused->len > 0)
    g_string_append (out, "\nChanges that cannot be\n");
  for (guint i = 0; verbose && i < fit->refused->len; i++)
    g_string_append_printf (out, "  %s\n", (const char *) g_ptr_array_index (fit->refused, i));
}

static void
append_beyond (const ScFitLimit *l, guint64 beyond, const char *what, GString *out)
{
  g_autofree char *bytes = sc_format_bytes ((double) l->beyond_bytes);
  if (l->beyond == 0)
    return;
  g_string_append_printf (out, "; %" G_GUINT64_FORMAT "%s ", beyond, what);
  if (l->why == NULL)
    g_string_append_printf (out, "would need %s", bytes);
  else
    g_string_append_printf (out, "cannot be: %s", l->why);
}

/* "Largest micro-batch   2 (DEVICE, 12.3 % free); 4 would need BYTES" */
static void
write_limit (const ScFitLimit *l, const char *name, const char *what, const char *none, const char *rest, GString *out)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (out, "  %-20s ", name);
  if (l->found)
    {
      g_autofree char *bytes = sc_format_bytes ((double) l->device_bytes);
      g_string_append_printf (text, "%" G_GUINT64_FORMAT "%s: %s, %.1f %% free", l->value, what, bytes,
                              100 * (1 - (double) l->device_bytes / (double) l->capacity_bytes));
      append_beyond (l, l->beyond, "", text);
      g_string_append (text, l->beyond == 0 ? rest : "");
    }
  else
    {
      g_string_append (text, none);
      append_beyond (l, l->beyond, what, text);
    }
  sc_append_wrapped (out, text->str, 23, 23, WIDTH);
  g_string_append_c (out, '\n');
}

static void
write_limits (const ScFit *fit, GString *out)
{
  g_autoptr (GString) no_gpus = g_string_new ("none, with");
  if (fit->least_gpus == fit->most_gpus)
    g_string_append_printf (no_gpus, " no other number of replicas than on %u GPUs", fit->least_gpus);
  else
    g_string_append_printf (no_gpus, " any number of replicas on %u to %u GPUs", fit->least_gpus, fit->most_gpus);
  g_string_append (out, "\nAll else as it is\n");
  write_limit (&fit->micro_batch, "largest micro-batch", "", "none", ", all sequences of a replica at once", out);
  write_limit (&fit->seq, "longest sequence", " tokens", "none", ", the longest that is tried", out);
  write_limit (&fit->gpus, "fewest GPUs", " GPUs", fit->least_gpus > 0 ? no_gpus->str : "none",
               fit->gpus.value == fit->replica_gpus ? ", one replica of the model" : ", with fewer replicas there is no such plan", out);
}

void
sc_fit_write_text (const ScFit *fit, gboolean verbose, GString *out)
{
  sc_describe_job (fit->memory, WIDTH, out);
  g_string_append (out, "\n\n");
  write_verdict (fit, out);
  write_stages (fit->memory, out);
  write_changes (fit, verbose, out);
  if (fit->micro_batch.found || fit->micro_batch.beyond > 0)
    write_limits (fit, out);
}

/* ---- JSON ---- */

static void
add_unsigned (cJSON *object, const char *key, guint64 value)
{
  char text[24];
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  cJSON_AddRawToObject (object, key, text);
}

static void
add_keys (cJSON *object, char **set)
{
  if (set == NULL)
    cJSON_AddNullToObject (object, "set");
  else
    cJSON_AddItemToObject (object, "set", cJSON_CreateStringArray ((const char *const *) set, (int) g_strv_length (set)));
}

static void
add_memory (const ScClassSummary *c, cJSON *o)
{
  add_unsigned (o, "peak_allocated_bytes", c->peak_allocated_bytes);
  add_unsigned (o, "peak_reserved_bytes", c->peak_reserved_bytes);
  cJSON_AddBoolToObject (o, "reserved_played", c->reserved_played);
  add_unsigned (o, "peak_device_bytes", c->peak_device_bytes);
  add_unsigned (o, "capacity_bytes", c->capacity_bytes);
  cJSON_AddNumberToObject (o, "free_share", 1 - (double) c->peak_device_bytes / (double) c->capacity_bytes);
  sc_json_add_text (o, "verdict", sc_verdict_name (c->verdict));
  cJSON *const kinds = cJSON_AddObjectToObject (o, "at_peak_bytes");
  for (ScMemKind k = 0; k < SC_N_MEMS; k++)
    add_unsigned (kinds, sc_mem_kind_name (k), c->at_peak[k]);
  sc_json_add_text (o, "peak_op", c->peak_op);
}

static void
add_stages (const ScSummary *s, cJSON *root)
{
  cJSON *const array = cJSON_AddArrayToObject (root, "stages");
  for (guint i = 0; i < s->n_stages; i++)
    {
      const ScClassSummary *const c = fullest_of (s, i, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, o);
      add_unsigned (o, "stage", i);
      add_unsigned (o, "layers", s->stages[i].layers);
      add_unsigned (o, "rank", c->representative);
      sc_json_add_text (o, "device", c->device->name);
      add_memory (c, o);
    }
}

static void
add_changes (const GPtrArray *changes, const char *key, cJSON *root)
{
  cJSON *const array = cJSON_AddArrayToObject (root, key);
  for (guint i = 0; i < changes->len; i++)
    {
      const ScFitChange *const c = g_ptr_array_index (changes, i);
      const char *const kinds[] = { c->row, c->other };
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, o);
      sc_json_add_text (o, "change", c->text);
      cJSON_AddItemToObject (o, "kinds", cJSON_CreateStringArray (kinds, c->other != NULL ? 2 : 1));
      add_keys (o, c->set);
      cJSON_AddBoolToObject (o, "best_of_kind", c->best);
      sc_json_add_number (o, "step_time_s", c->step_s);
      sc_json_add_number (o, "cost_share", c->cost);
      add_unsigned (o, "stage", c->stage);
      add_unsigned (o, "peak_device_bytes", c->device_bytes);
      add_unsigned (o, "capacity_bytes", c->capacity_bytes);
      sc_json_add_text (o, "verdict", sc_verdict_name (c->verdict));
    }
}

static void
add_limit (const ScFitLimit *l, const char *key, cJSON *root)
{
  if (!l->found && l->beyond == 0)
    {
      cJSON_AddNullToObject (root, key);
      return;
    }
  cJSON *const o = cJSON_AddObjectToObject (root, key);
  sc_json_add_number (o, "fits", l->found ? (double) l->value : NAN);
  sc_json_add_number (o, "peak_device_bytes", l->found ? (double) l->device_bytes : NAN);
  sc_json_add_number (o, "does_not_fit", l->beyond > 0 ? (double) l->beyond : NAN);
  sc_json_add_number (o, "needed_bytes", l->beyond > 0 && l->why == NULL ? (double) l->beyond_bytes : NAN);
  sc_json_add_text (o, "refused", l->why);
  add_keys (o, l->set);
}

void
sc_fit_write_json (const ScFit *fit, GString *out)
{
  const ScSummary *const s = fit->memory;
  const ScClassSummary *const c = &s->classes[s->memory_class];
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", SCHEMA_VERSION);
  sc_json_add_text (root, "stepcast_version", PACKAGE_VERSION);
  sc_json_add_text (root, "topology", s->topology->name);
  sc_json_add_text (root, "workload", s->workload->name);
  add_unsigned (root, "gpus", s->gpus);
  cJSON_AddBoolToObject (root, "fits", fit->fits);
  cJSON_AddNumberToObject (root, "margin", s->memory_margin);
  cJSON *const o = cJSON_AddObjectToObject (root, "memory");
  add_unsigned (o, "stage", c->stage);
  add_unsigned (o, "rank", c->representative);
  add_memory (c, o);
  add_stages (s, root);
  sc_json_add_number (root, "step_time_s", fit->step_s);
  add_changes (fit->changes, "changes", root);
  add_changes (fit->short_of, "not_enough", root);
  cJSON *const refused = cJSON_AddArrayToObject (root, "refused");
  for (guint i = 0; i < fit->refused->len; i++)
    cJSON_AddItemToArray (refused, cJSON_CreateString (g_ptr_array_index (fit->refused, i)));
  add_limit (&fit->micro_batch, "micro_batch", root);
  add_limit (&fit->seq, "seq", root);
  add_limit (&fit->gpus, "fewest_gpus", root);
  sc_json_print (root, out);
}
