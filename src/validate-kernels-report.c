/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-kernels-report.c - what stepcast validate kernels says: text, csv, json, markdown. */
#include "json-out.h"
#include "text-table.h"
#include "units.h"
#include "validate-kernels.h"
#include <math.h>
#include <string.h>

#define HOW_TEXT                                                                                                       \
  "An error is |predicted / measured - 1|; signed is exp (mean ln (predicted / measured)) - 1: + is too long.\n"

/* ---- Text and Markdown ---- */

/* What predictions did not see. */
static const char *
rule_text (ScHoldOutRule rule)
{
  switch (rule)
    {
    case SC_KEEP_POINT: return "A row's own shape is left out of the measurements it is predicted from.";
    case SC_KEEP_SHAPE: return "A row's own n and k (of attention: heads and head size) are left out of the measurements it is predicted from, at any m\n"
                               "(length).";
    case SC_KEEP_STACK: return "All of a row's software is left out: it is predicted from other software on its GPU, or as a forecast would.";
    case SC_KEEP_GPU: return "All that was measured on a row's GPU is left out: a relative's measurements and efficiencies stand in, on its own datasheet.";
    case SC_KEEP_NONE: return "Nothing is left out: a row that was measured predicts itself.";
    default: g_return_val_if_reached ("");
    }
}

static char *
target_text (double target)
{
  return isnan (target) ? g_strdup ("-") : g_strdup_printf ("%.0f %%", 100 * target);
}

static void
add_errors (ScTextTable *t, const ScErrors *e)
{
  sc_text_table_cell (t, sc_text_percent (e->median, FALSE));
  sc_text_table_cell (t, sc_text_percent (e->p90, FALSE));
  sc_text_table_cell (t, sc_text_percent (e->signed_error, TRUE));
  sc_text_table_cell (t, sc_text_percent (e->worst, TRUE));
}

static gboolean
meets (double value, double target)
{
  return isnan (target) || value <= target;
}

static void
write_groups (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  static const char *const titles[] = { "class", "verdict", "rows", "skipped", "median", "target", "90th", "target", "signed", "worst", NULL };
  ScTextTable t = sc_text_table_new (titles, 2);
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      const ScErrors *const e = &r->groups[g];
      if (e->n + r->skipped[g] == 0)
        continue;
      double median, p90;
      sc_kernel_group_targets ((ScKernelGroup) g, &median, &p90);
      sc_text_table_words (&t, sc_kernel_group_name ((ScKernelGroup) g));
      sc_text_table_words (&t, e->n == 0 || (isnan (median) && isnan (p90)) ? "-" : meets (e->median, median) && meets (e->p90, p90) ? "pass" : "miss");
      sc_text_table_cell (&t, g_strdup_printf ("%u", e->n));
      sc_text_table_cell (&t, g_strdup_printf ("%u", r->skipped[g]));
      sc_text_table_cell (&t, sc_text_percent (e->median, FALSE));
      sc_text_table_cell (&t, target_text (median));
      sc_text_table_cell (&t, sc_text_percent (e->p90, FALSE));
      sc_text_table_cell (&t, target_text (p90));
      sc_text_table_cell (&t, sc_text_percent (e->signed_error, TRUE));
      sc_text_table_cell (&t, sc_text_percent (e->worst, TRUE));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_bands (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "class", sc_time_band_name (0), "signed", sc_time_band_name (1), "signed",
                                                             sc_time_band_name (2), "signed", sc_time_band_name (3), "signed",
                                                             sc_time_band_name (4), "signed", NULL },
                                     1);
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      if (r->groups[g].n == 0)
        continue;
      sc_text_table_words (&t, sc_kernel_group_name ((ScKernelGroup) g));
      for (guint b = 0; b < SC_N_TIME_BANDS; b++)
        {
          sc_text_table_cell (&t, sc_text_percent (r->bands[g][b].median, FALSE));
          sc_text_table_cell (&t, sc_text_percent (r->bands[g][b].signed_error, TRUE));
        }
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_sets (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  static const char *const titles[] = { "class", "GPU", "type", "software", "predicted from", "rows", "median", "90th", "signed", "worst", NULL };
  ScTextTable t = sc_text_table_new (titles, 5);
  for (guint s = 0; s < r->sets->len; s++)
    {
      const ScKernelSet *const set = &g_array_index (r->sets, ScKernelSet, s);
      sc_text_table_words (&t, sc_kernel_group_name (set->group));
      sc_text_table_words (&t, set->gpu != NULL ? set->gpu : "-");
      sc_text_table_words (&t, set->dtype);
      sc_text_table_words (&t, set->stack != NULL ? set->stack : "-");
      sc_text_table_words (&t, set->group == SC_GROUP_LAYER ? "a forecast" : sc_basis_name (set->basis));
      sc_text_table_cell (&t, g_strdup_printf ("%u", set->errors.n));
      add_errors (&t, &set->errors);
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_layers (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "layer", "measured", "predicted", "error", NULL }, 1);
  for (guint i = 0; i < r->judged->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (r->judged, i);
      if (j->group != SC_GROUP_LAYER || j->why != NULL)
        continue;
      sc_text_table_words (&t, j->name);
      sc_text_table_cell (&t, sc_format_seconds (j->measured_s));
      sc_text_table_cell (&t, sc_format_seconds (j->predicted_s));
      sc_text_table_cell (&t, sc_text_percent (j->predicted_s / j->measured_s - 1, TRUE));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
count_reason (GHashTable *counts, GPtrArray *reasons, const char *why)
{
  const guint n = GPOINTER_TO_UINT (g_hash_table_lookup (counts, why));
  if (n == 0)
    g_ptr_array_add (reasons, (gpointer) (gsize) why);
  g_hash_table_insert (counts, (gpointer) (gsize) why, GUINT_TO_POINTER (n + 1));
}

/* Each reason once, with how many rows it took, in the order of the rows. */
static void
write_skipped (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) reasons = g_ptr_array_new ();
  for (guint i = 0; i < r->judged->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (r->judged, i);
      if (j->why != NULL)
        count_reason (counts, reasons, j->why);
    }
  ScTextTable t = sc_text_table_new ((const char *const[]) { "why", "rows", NULL }, 1);
  for (guint i = 0; i < reasons->len; i++)
    {
      sc_text_table_words (&t, g_ptr_array_index (reasons, i));
      sc_text_table_cell (&t, g_strdup_printf ("%u", GPOINTER_TO_UINT (g_hash_table_lookup (counts, g_ptr_array_index (reasons, i)))));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_body (const ScKernelsResult *r, gboolean markdown, GString *out)
{
  const char *const head = markdown ? "\n## " : "\n", *const gap = markdown ? "\n" : "";
  g_string_append_printf (out, "%u row%s, %u figure%s judged, %u row%s skipped.\n" HOW_TEXT "%s\n\n", r->n_rows, r->n_rows == 1 ? "" : "s", r->all.n,
                          r->all.n == 1 ? "" : "s", r->n_skipped, r->n_skipped == 1 ? "" : "s", rule_text (r->rule));
  write_groups (r, markdown, out);
  if (r->all.n > 0)
    {
      g_string_append_printf (out, "%s%s\n%s", head, "by measured time: median and signed error", gap);
      write_bands (r, markdown, out);
    }
  if (r->groups[SC_GROUP_LAYER].n > 0)
    {
      g_string_append_printf (out, "%s%s\n%s", head, "layers", gap);
      write_layers (r, markdown, out);
    }
  if (r->sets->len > 0)
    {
      g_string_append_printf (out, "%s%s\n%s", head, "by GPU and software", gap);
      write_sets (r, markdown, out);
    }
  if (r->n_skipped > 0)
    {
      g_string_append_printf (out, "%s%s\n%s", head, "skipped", gap);
      write_skipped (r, markdown, out);
    }
}

static void
write_text (const ScKernelsResult *result, GString *out)
{
  write_body (result, FALSE, out);
}

static void
write_markdown (const ScKernelsResult *result, GString *out)
{
  g_string_append (out, "# Kernels against published measurements\n\n"
                        "Written by `make validation` (`stepcast validate kernels --format markdown`): do not edit.\n\n");
  write_body (result, TRUE, out);
}

/* ---- CSV ---- */

static void
write_csv (const ScKernelsResult *r, GString *out)
{
  g_string_append (out, "line,class,gpu,software,kernel,predicted_from,measured_us,predicted_us,ratio,skipped\n");
  for (guint i = 0; i < r->judged->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (r->judged, i);
      g_string_append_printf (out, "%u,%s,%s,", j->line, sc_kernel_group_name (j->group), j->gpu != NULL ? j->gpu : "");
      sc_append_csv (out, j->stack != NULL ? j->stack : "");
      g_string_append_c (out, ',');
      sc_append_csv (out, j->name != NULL ? j->name : "");
      if (j->why == NULL)
        g_string_append_printf (out, ",%s,%.6g,%.6g,%.4f,", j->group == SC_GROUP_LAYER ? "a forecast" : sc_basis_name (j->basis),
                                j->measured_s * 1e6, j->predicted_s * 1e6, j->predicted_s / j->measured_s);
      else
        {
          g_string_append (out, ",,,,,");
          sc_append_csv (out, j->why);
        }
      g_string_append_c (out, '\n');
    }
}

/* ---- JSON ---- */

static void
add_error_numbers (cJSON *o, const ScErrors *e)
{
  sc_json_add_number (o, "median_error", e->median);
  sc_json_add_number (o, "p90_error", e->p90);
  sc_json_add_number (o, "signed_error", e->signed_error);
  sc_json_add_number (o, "worst_error", e->worst);
}

/* rows: of the input; judged of them. */
static void
add_counts (cJSON *o, const ScErrors *e, guint skipped)
{
  sc_json_add_number (o, "rows", e->n + skipped);
  sc_json_add_number (o, "skipped", skipped);
  sc_json_add_number (o, "judged", e->n);
  add_error_numbers (o, e);
}

static void
add_group (cJSON *summary, const ScKernelsResult *r, ScKernelGroup group)
{
  const ScErrors *const e = &r->groups[group];
  if (e->n + r->skipped[group] == 0)
    return;
  double median, p90;
  sc_kernel_group_targets (group, &median, &p90);
  cJSON *const o = cJSON_AddObjectToObject (summary, sc_kernel_group_name (group));
  add_counts (o, e, r->skipped[group]);
  sc_json_add_number (o, "target_median", median);
  sc_json_add_number (o, "target_p90", p90);
  cJSON_AddBoolToObject (o, "passes", e->n > 0 && meets (e->median, median) && meets (e->p90, p90));
  cJSON *const list = cJSON_AddArrayToObject (o, "bands");
  for (guint b = 0; b < SC_N_TIME_BANDS; b++)
    {
      cJSON *const band = cJSON_CreateObject ();
      cJSON_AddItemToArray (list, band);
      sc_json_add_text (band, "band", sc_time_band_name (b));
      sc_json_add_number (band, "judged", r->bands[group][b].n);
      add_error_numbers (band, &r->bands[group][b]);
    }
}

static void
write_json (const ScKernelsResult *r, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", 1);
  sc_json_add_text (root, "hold_out", sc_hold_out_name (r->rule));
  cJSON_AddBoolToObject (root, "passes", r->passes);
  cJSON *const summary = cJSON_AddObjectToObject (root, "summary");
  for (guint g = 0; g < SC_N_GROUPS; g++)
    add_group (summary, r, (ScKernelGroup) g);
  add_counts (cJSON_AddObjectToObject (summary, "all"), &r->all, r->n_skipped);
  cJSON *const sets = cJSON_AddArrayToObject (root, "sets");
  for (guint s = 0; s < r->sets->len; s++)
    {
      const ScKernelSet *const set = &g_array_index (r->sets, ScKernelSet, s);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (sets, o);
      sc_json_add_text (o, "class", sc_kernel_group_name (set->group));
      sc_json_add_text (o, "gpu", set->gpu);
      sc_json_add_text (o, "dtype", set->dtype);
      sc_json_add_text (o, "software", set->stack);
      sc_json_add_text (o, "predicted_from", set->group == SC_GROUP_LAYER ? "a forecast" : sc_basis_name (set->basis));
      sc_json_add_number (o, "judged", set->errors.n);
      add_error_numbers (o, &set->errors);
    }
  cJSON *const rows = cJSON_AddArrayToObject (root, "rows");
  for (guint i = 0; i < r->judged->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (r->judged, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (rows, o);
      sc_json_add_number (o, "line", j->line);
      sc_json_add_text (o, "class", sc_kernel_group_name (j->group));
      sc_json_add_text (o, "gpu", j->gpu);
      sc_json_add_text (o, "software", j->stack);
      sc_json_add_text (o, "kernel", j->name);
      sc_json_add_text (o, "skipped", j->why);
      if (j->why != NULL)
        continue;
      sc_json_add_text (o, "predicted_from", j->group == SC_GROUP_LAYER ? "a forecast" : sc_basis_name (j->basis));
      sc_json_add_number (o, "measured_us", j->measured_s * 1e6);
      sc_json_add_number (o, "predicted_us", j->predicted_s * 1e6);
    }
  sc_json_print (root, out);
}

const ScKernelsFormat *
sc_kernels_formats (void)
{
  static const ScKernelsFormat formats[] = {
    { "text", write_text }, { "csv", write_csv }, { "json", write_json }, { "markdown", write_markdown }, { NULL, NULL },
  };
  return formats;
}
