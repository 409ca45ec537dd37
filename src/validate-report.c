/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-report.c - what stepcast validate collectives says: text, csv, json, markdown. */
#include "json-out.h"
#include "text-table.h"
#include "validate-collectives.h"
#include <math.h>
#include <string.h>

static const char *const use_names[] = { "unsaid", "fit", "check" };
static const char *const state_names[SC_N_POINT_STATES] = { "judged", "launch", "no figure", "impossible" };

#define HOW_TEXT                                                                                                       \
  "An error is exp (mean |ln (predicted / measured)|) - 1 over rows; signed without the bars: + is too long.  Small is\n" \
  "below 1 MB, large from there on.  Worst is predicted / measured - 1 of the farthest row.\n"

/* ---- Cells ---- */

static char *
error_cell (const ScErrorStat *stat)
{
  return sc_text_percent (sc_error_stat_geomean (stat), FALSE);
}

static char *
signed_cell (const ScErrorStat *stat)
{
  return sc_text_percent (sc_error_stat_signed (stat), TRUE);
}

static char *
target_cell (double target)
{
  return isfinite (target) ? g_strdup_printf ("%.0f %%", 100 * target) : g_strdup ("-");
}

static char *
size_text (double bytes)
{
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
  guint u = 0;
  while (bytes >= 1024 && u + 1 < G_N_ELEMENTS (units))
    {
      bytes /= 1024;
      u++;
    }
  return g_strdup_printf ("%.4g %s", bytes, units[u]);
}

/* ---- Text and Markdown ---- */

static void
add_error_row (ScTextTable *t, const ScSweepErrors *e, double target_large, double target_small)
{
  sc_text_table_cell (t, error_cell (&e->large));
  sc_text_table_cell (t, target_cell (target_large));
  sc_text_table_cell (t, signed_cell (&e->large));
  sc_text_table_cell (t, error_cell (&e->small));
  sc_text_table_cell (t, target_cell (target_small));
  sc_text_table_cell (t, signed_cell (&e->small));
  sc_text_table_cell (t, sc_text_percent (sc_error_stat_worst (&e->all), TRUE));
}

static void
write_families (const ScCollectivesResult *all, gboolean markdown, GString *out)
{
  static const char *const titles[] = { "family", "verdict", "sweeps", "rows", "large", "target", "signed", "small", "target", "signed", "worst", NULL };
  ScTextTable t = sc_text_table_new (titles, 2);
  for (guint f = 0; f < SC_N_FAMILIES; f++)
    {
      const ScFamilyResult *const family = &all->families[f];
      if (family->errors.all.n == 0)
        continue;
      sc_text_table_words (&t, sc_family_name (family->family));
      sc_text_table_words (&t, !isfinite (family->target_large) ? "-" : family->passes ? "pass" : "miss");
      sc_text_table_cell (&t, g_strdup_printf ("%u", family->n_sweeps - family->n_skipped));
      sc_text_table_cell (&t, g_strdup_printf ("%u", family->errors.all.n));
      add_error_row (&t, &family->errors, family->target_large, family->target_small);
      for (guint u = SC_USE_FIT; u <= SC_USE_CHECK; u++)
        if (family->of_use[u].all.n > 0)
          {
            sc_text_table_cell (&t, g_strdup_printf ("  %s", use_names[u]));
            sc_text_table_words (&t, "");
            sc_text_table_words (&t, "");
            sc_text_table_cell (&t, g_strdup_printf ("%u", family->of_use[u].all.n));
            add_error_row (&t, &family->of_use[u], INFINITY, INFINITY);
          }
    }
  sc_text_table_words (&t, "all");
  sc_text_table_words (&t, all->errors.all.n == 0 ? "-" : all->passes ? "pass" : "miss");
  sc_text_table_cell (&t, g_strdup_printf ("%u", all->sweeps->len - all->n_sweeps_skipped));
  sc_text_table_cell (&t, g_strdup_printf ("%u", all->errors.all.n));
  add_error_row (&t, &all->errors, INFINITY, INFINITY);
  sc_text_table_end (&t, markdown, out);
}

static void
write_bands (const ScCollectivesResult *all, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "family", sc_band_name (0), "signed", sc_band_name (1), "signed", sc_band_name (2), "signed",
                                               sc_band_name (3), "signed", sc_band_name (4), "signed", NULL },
                       1);
  for (guint f = 0; f <= SC_N_FAMILIES; f++)
    {
      const ScSweepErrors *const e = f < SC_N_FAMILIES ? &all->families[f].errors : &all->errors;
      if (f < SC_N_FAMILIES && e->all.n == 0)
        continue;
      sc_text_table_words (&t, f < SC_N_FAMILIES ? sc_family_name ((ScFamily) f) : "all");
      for (guint b = 0; b < SC_N_BANDS; b++)
        {
          sc_text_table_cell (&t, error_cell (&e->bands[b]));
          sc_text_table_cell (&t, signed_cell (&e->bands[b]));
        }
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_sweeps (const ScCollectivesResult *all, gboolean markdown, GString *out)
{
  static const char *const titles[] = { "sweep", "collective", "GPU", "system", "NCCL", "use", "nodes", "GPUs", "rows", "large", "signed",
                                        "small", "signed", "worst", "at", "launch", NULL };
  ScTextTable t = sc_text_table_new (titles, 6);
  for (guint i = 0; i < all->sweeps->len; i++)
    {
      const ScSweepResult *const r = g_ptr_array_index (all->sweeps, i);
      if (r->skipped != NULL)
        continue;
      sc_text_table_words (&t, r->sweep->id);
      sc_text_table_words (&t, r->sweep->collective);
      sc_text_table_words (&t, r->sweep->gpu);
      sc_text_table_words (&t, r->topology);
      sc_text_table_words (&t, r->nccl);
      sc_text_table_words (&t, r->sweep->use == SC_USE_UNSAID ? "-" : use_names[r->sweep->use]);
      sc_text_table_cell (&t, g_strdup_printf ("%u", r->sweep->nodes));
      sc_text_table_cell (&t, g_strdup_printf ("%u", r->sweep->gpus));
      sc_text_table_cell (&t, g_strdup_printf ("%u", r->errors.all.n));
      sc_text_table_cell (&t, error_cell (&r->errors.large));
      sc_text_table_cell (&t, signed_cell (&r->errors.large));
      sc_text_table_cell (&t, error_cell (&r->errors.small));
      sc_text_table_cell (&t, signed_cell (&r->errors.small));
      sc_text_table_cell (&t, sc_text_percent (sc_error_stat_worst (&r->errors.all), TRUE));
      sc_text_table_cell (&t, size_text (r->worst_bytes));
      sc_text_table_cell (&t, r->launch_s <= 0 ? g_strdup ("-") : g_strdup_printf ("%.1f us%s", r->launch_s * 1e6, r->launch_estimated ? " *" : ""));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_skipped (const ScCollectivesResult *all, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "sweep", "why", NULL }, 2);
  for (guint i = 0; i < all->sweeps->len; i++)
    {
      const ScSweepResult *const r = g_ptr_array_index (all->sweeps, i);
      if (r->skipped == NULL)
        continue;
      sc_text_table_words (&t, r->sweep->id);
      sc_text_table_words (&t, r->skipped);
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_counts (const ScCollectivesResult *all, GString *out)
{
  guint n_launch = 0;
  for (guint i = 0; i < all->sweeps->len; i++)
    n_launch += ((const ScSweepResult *) g_ptr_array_index (all->sweeps, i))->launch_estimated ? 1 : 0;
  g_string_append_printf (out, "%u sweeps of %u rows: %u sweeps with %u rows judged, %u with %u rows skipped", all->sweeps->len, all->n_rows,
                          all->sweeps->len - all->n_sweeps_skipped, all->errors.all.n, all->n_sweeps_skipped, all->n_rows_skipped);
  if (all->n_states[SC_POINT_NO_FIGURE] > 0)
    g_string_append_printf (out, ", %u rows without a figure", all->n_states[SC_POINT_NO_FIGURE]);
  if (all->n_states[SC_POINT_IMPOSSIBLE] > 0)
    g_string_append_printf (out, ", %u rows that the forced algorithm cannot do", all->n_states[SC_POINT_IMPOSSIBLE]);
  g_string_append (out, ".\n");
  if (n_launch > 0)
    g_string_append_printf (out, "%u rows of %u sweeps were used for the launch estimate and are not judged: where the rows up to 4 KiB take 1.25\n"
                            "times the model or more, their median (or what a larger row took, if much less) is the least time that the measuring\n"
                            "program needs for a call.\n",
                            all->n_states[SC_POINT_LAUNCH], n_launch);
}

static void
write_text (const ScCollectivesResult *all, GString *out)
{
  write_counts (all, out);
  g_string_append (out, HOW_TEXT "\n");
  write_families (all, FALSE, out);
  g_string_append (out, "\nby size\n");
  write_bands (all, FALSE, out);
  g_string_append (out, "\nby sweep; launch: the program's, with * as estimated from the sweep\n");
  write_sweeps (all, FALSE, out);
  if (all->n_sweeps_skipped == 0)
    return;
  g_string_append (out, "\nskipped\n");
  write_skipped (all, FALSE, out);
}

static void
write_markdown (const ScCollectivesResult *all, GString *out)
{
  g_string_append (out, "# Collectives against published sweeps\n\n"
                        "Written by `make validation` (`stepcast validate collectives --format markdown`): do not edit.\n\n");
  write_counts (all, out);
  g_string_append (out, "\n" HOW_TEXT "\n");
  write_families (all, TRUE, out);
  g_string_append (out, "\n");
  for (guint f = 0; f < SC_N_FAMILIES; f++)
    if (all->families[f].errors.all.n > 0)
      g_string_append_printf (out, "* %s: %s\n", sc_family_name ((ScFamily) f), sc_family_summary ((ScFamily) f));
  g_string_append (out, "\nfit: constants of the model were fitted to these sweeps or to others of their table; check: they were not.\n\n"
                        "## By size\n\n");
  write_bands (all, TRUE, out);
  g_string_append (out, "\n## By sweep\n\nLaunch is the program's, with * as estimated from the sweep. Sources: validation/collectives.jsonl.\n\n");
  write_sweeps (all, TRUE, out);
  if (all->n_sweeps_skipped == 0)
    return;
  g_string_append (out, "\n## Skipped\n\n");
  write_skipped (all, TRUE, out);
}

/* ---- CSV: a line for each row ---- */

static void
write_csv (const ScCollectivesResult *all, GString *out)
{
  g_string_append (out, "sweep,family,topology,nccl,use,collective,gpu,nodes,gpus,bytes,measured_us,model_us,predicted_us,ratio,algorithm,protocol,state\n");
  for (guint i = 0; i < all->sweeps->len; i++)
    {
      const ScSweepResult *const r = g_ptr_array_index (all->sweeps, i);
      for (guint k = 0; r->points != NULL && k < r->sweep->n_rows; k++)
        {
          const ScSweepPoint *const p = &r->points[k];
          sc_append_csv (out, r->sweep->id);
          g_string_append_printf (out, ",%s,", sc_family_name (r->family));
          sc_append_csv (out, r->topology);
          g_string_append_printf (out, ",%s,%s,", r->nccl, use_names[r->sweep->use]);
          sc_append_csv (out, r->sweep->collective);
          g_string_append_c (out, ',');
          sc_append_csv (out, r->sweep->gpu);
          g_string_append_printf (out, ",%u,%u,%.17g,%.6g,", r->sweep->nodes, r->sweep->gpus, p->bytes, p->measured_s * 1e6);
          if (p->model_s > 0)
            g_string_append_printf (out, "%.6g,%.6g,%.4f,%s,%s", p->model_s * 1e6, p->predicted_s * 1e6, p->predicted_s / p->measured_s, p->algorithm,
                                    p->protocol);
          else
            g_string_append (out, ",,,,");
          g_string_append_printf (out, ",%s\n", state_names[p->state]);
        }
    }
}

/* ---- JSON ---- */

static void
add_errors (cJSON *o, const ScSweepErrors *e)
{
  sc_json_add_number (o, "geomean_error", sc_error_stat_geomean (&e->all));
  sc_json_add_number (o, "geomean_error_large", sc_error_stat_geomean (&e->large));
  sc_json_add_number (o, "geomean_error_small", sc_error_stat_geomean (&e->small));
  sc_json_add_number (o, "signed_error", sc_error_stat_signed (&e->all));
  sc_json_add_number (o, "signed_error_large", sc_error_stat_signed (&e->large));
  sc_json_add_number (o, "signed_error_small", sc_error_stat_signed (&e->small));
  sc_json_add_number (o, "worst_error", sc_error_stat_worst (&e->all));
  sc_json_add_number (o, "judged_large", e->large.n);
  sc_json_add_number (o, "judged_small", e->small.n);
}

static void
add_uses_and_bands (cJSON *o, const ScSweepErrors *errors, const ScSweepErrors *of_use)
{
  cJSON *bands = cJSON_AddArrayToObject (o, "bands");
  for (guint b = 0; b < SC_N_BANDS; b++)
    {
      cJSON *band = cJSON_CreateObject ();
      cJSON_AddItemToArray (bands, band);
      sc_json_add_text (band, "band", sc_band_name (b));
      sc_json_add_number (band, "judged", errors->bands[b].n);
      sc_json_add_number (band, "geomean_error", sc_error_stat_geomean (&errors->bands[b]));
      sc_json_add_number (band, "signed_error", sc_error_stat_signed (&errors->bands[b]));
    }
  for (guint u = SC_USE_FIT; u <= SC_USE_CHECK; u++)
    if (of_use[u].all.n > 0)
      add_errors (cJSON_AddObjectToObject (o, use_names[u]), &of_use[u]);
}

static void
add_sweep (cJSON *array, const ScSweepResult *r)
{
  cJSON *o = cJSON_CreateObject ();
  cJSON_AddItemToArray (array, o);
  sc_json_add_text (o, "id", r->sweep->id);
  sc_json_add_text (o, "source", r->sweep->source);
  sc_json_add_text (o, "collective", r->sweep->collective);
  sc_json_add_text (o, "gpu", r->sweep->gpu);
  sc_json_add_number (o, "gpus", r->sweep->gpus);
  sc_json_add_number (o, "nodes", r->sweep->nodes);
  sc_json_add_text (o, "use", use_names[r->sweep->use]);
  sc_json_add_text (o, "family", sc_family_name (r->family));
  sc_json_add_text (o, "topology", r->topology);
  cJSON *set = cJSON_AddArrayToObject (o, "set");
  for (char **text = r->set; text != NULL && *text != NULL; text++)
    cJSON_AddItemToArray (set, cJSON_CreateString (*text));
  sc_json_add_text (o, "nccl", r->nccl);
  sc_json_add_text (o, "skipped", r->skipped);
  sc_json_add_number (o, "rows", r->sweep->n_rows);
  if (r->skipped != NULL)
    return;
  sc_json_add_number (o, "rows_for_launch", r->n_states[SC_POINT_LAUNCH]);
  sc_json_add_number (o, "launch_us", r->launch_s * 1e6);
  cJSON_AddBoolToObject (o, "launch_estimated", r->launch_estimated);
  add_errors (o, &r->errors);
  cJSON *points = cJSON_AddArrayToObject (o, "points"); /* [bytes, measured_us, predicted_us, state] */
  for (guint k = 0; k < r->sweep->n_rows; k++)
    {
      const ScSweepPoint *const p = &r->points[k];
      cJSON *point = cJSON_CreateArray ();
      cJSON_AddItemToArray (points, point);
      cJSON_AddItemToArray (point, cJSON_CreateNumber (p->bytes));
      cJSON_AddItemToArray (point, cJSON_CreateNumber (p->measured_s * 1e6));
      cJSON_AddItemToArray (point, p->model_s > 0 ? cJSON_CreateNumber (p->predicted_s * 1e6) : cJSON_CreateNull ());
      cJSON_AddItemToArray (point, cJSON_CreateString (state_names[p->state]));
    }
}

static void
write_json (const ScCollectivesResult *all, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", 1);
  cJSON *summary = cJSON_AddObjectToObject (root, "summary");
  sc_json_add_number (summary, "sweeps", all->sweeps->len);
  sc_json_add_number (summary, "sweeps_skipped", all->n_sweeps_skipped);
  sc_json_add_number (summary, "rows", all->n_rows);
  sc_json_add_number (summary, "skipped", all->n_rows_skipped + all->n_states[SC_POINT_NO_FIGURE] + all->n_states[SC_POINT_IMPOSSIBLE]);
  sc_json_add_number (summary, "judged", all->errors.all.n);
  sc_json_add_number (summary, "used_for_launch", all->n_states[SC_POINT_LAUNCH]);
  add_errors (summary, &all->errors);
  add_uses_and_bands (summary, &all->errors, all->of_use);
  cJSON_AddBoolToObject (summary, "passes", all->passes);
  cJSON *families = cJSON_AddArrayToObject (root, "families");
  for (guint f = 0; f < SC_N_FAMILIES; f++)
    {
      const ScFamilyResult *const family = &all->families[f];
      if (family->n_sweeps == 0)
        continue;
      cJSON *o = cJSON_CreateObject ();
      cJSON_AddItemToArray (families, o);
      sc_json_add_text (o, "family", sc_family_name (family->family));
      sc_json_add_number (o, "sweeps", family->n_sweeps);
      sc_json_add_number (o, "sweeps_skipped", family->n_skipped);
      sc_json_add_number (o, "rows", family->n_rows);
      sc_json_add_number (o, "skipped", family->n_rows_skipped);
      sc_json_add_number (o, "judged", family->errors.all.n);
      add_errors (o, &family->errors);
      sc_json_add_number (o, "target_large", family->target_large);
      sc_json_add_number (o, "target_small", family->target_small);
      cJSON_AddBoolToObject (o, "passes", family->passes);
      add_uses_and_bands (o, &family->errors, family->of_use);
    }
  cJSON *sweeps = cJSON_AddArrayToObject (root, "sweeps");
  for (guint i = 0; i < all->sweeps->len; i++)
    add_sweep (sweeps, g_ptr_array_index (all->sweeps, i));
  sc_json_print (root, out);
}

const ScCollectivesFormat *
sc_collectives_formats (void)
{
  static const ScCollectivesFormat formats[] = {
    { "text", write_text }, { "csv", write_csv }, { "json", write_json }, { "markdown", write_markdown }, { NULL, NULL },
  };
  return formats;
}
