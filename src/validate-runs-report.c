/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-runs-report.c - what stepcast validate runs and memory say: text, csv, json, markdown. */
#include "validate-runs.h"
#include <math.h>
#include <string.h>
#include "json-out.h"
#include "text-table.h"

#define SCHEMA_VERSION 1
#define WORST 20        /* rows in the list of the worst */
#define REASONS 40
#define SHORT_REASON 110 /* characters of one, in tables for people */

#define HOW_TIME                                                                                                                              \
  "Errors are predicted / measured - 1 of the time of a step: + is too slow.  Only rows that say all that the time hangs on are judged; skipped are\n" \
  "those of them that ask for what is not modelled.\n"
#define HOW_MEMORY                                                                                                                            \
  "Errors are predicted / measured - 1 of the peak: + is too much.  unspecified: the source does not say of what; held against what is allocated.\n"  \
  "states: no peak, but what authors count for a number of parameters.  by rank: each printed rank by itself.\n"

static char *
count_cell (guint n)
{
  return n > 0 ? g_strdup_printf ("%u", n) : g_strdup ("-");
}

/* ---- Text and Markdown ---- */

static void
add_errors (ScTextTable *t, const ScRowErrors *e)
{
  sc_text_table_cell (t, count_cell (e->n));
  sc_text_table_cell (t, sc_text_percent (e->mean_abs, FALSE));
  sc_text_table_cell (t, sc_text_percent (e->median_abs, FALSE));
  sc_text_table_cell (t, sc_text_percent (e->p90_abs, FALSE));
  sc_text_table_cell (t, sc_text_percent (e->signed_mean, TRUE));
  sc_text_table_cell (t, sc_text_percent (e->worst, TRUE));
}

static void
add_time (ScTextTable *t, const ScSourceResult *s)
{
  sc_text_table_words (t, s->key);
  sc_text_table_cell (t, g_strdup_printf ("%u", s->rows));
  sc_text_table_cell (t, count_cell (s->skipped));
  add_errors (t, &s->time);
  add_errors (t, &s->memory);
}

static void
write_sources (const ScRunsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "source", "rows", "skipped", "time", "mean", "median", "p90", "signed", "worst", "memory",
                                                             "mean", "median", "p90", "signed", "worst", NULL }, 1);
  for (guint i = 0; i < r->sources->len; i++)
    {
      const ScSourceResult *const s = g_ptr_array_index (r->sources, i);
      if (s->asked > 0)
        add_time (&t, s);
    }
  add_time (&t, &r->all);
  sc_text_table_end (&t, markdown, out);
}

static void
add_peaks (ScTextTable *t, const ScSourceResult *s)
{
  const ScRowErrors *const kinds[] = { &s->peaks[SC_PEAK_ALLOCATED], &s->peaks[SC_PEAK_RESERVED], &s->peaks[SC_PEAK_DEVICE], &s->peaks[SC_PEAK_UNSPECIFIED],
                                       &s->peaks[SC_PEAK_STATES], &s->ranks[0], &s->ranks[1] };
  static const char *const words[] = { "allocated", "reserved", "device", "unspecified", "states", "allocated by rank", "reserved by rank" };
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      if (kinds[i]->n == 0)
        continue;
      sc_text_table_words (t, s->key);
      sc_text_table_words (t, words[i]);
      sc_text_table_cell (t, g_strdup_printf ("%u", s->rows));
      sc_text_table_cell (t, count_cell (s->skipped));
      add_errors (t, kinds[i]);
    }
}

static void
write_peaks (const ScRunsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t =
      sc_text_table_new ((const char *const[]) { "source", "peak", "rows", "skipped", "judged", "mean", "median", "p90", "signed", "worst", NULL }, 2);
  for (guint i = 0; i < r->sources->len; i++)
    add_peaks (&t, g_ptr_array_index (r->sources, i));
  add_peaks (&t, &r->all);
  sc_text_table_end (&t, markdown, out);
}

static void
write_oom (const ScRunsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "source", "labels", "fit, said so", "fit, said not", "not, said fit", "not, said so", "right",
                                                             "within a tenth", "right", NULL }, 1);
  for (guint i = 0; i <= r->sources->len; i++)
    {
      const ScSourceResult *const s = i < r->sources->len ? g_ptr_array_index (r->sources, i) : &r->all;
      const ScOomCounts *const c = &s->oom;
      const guint n = c->n[0][0] + c->n[0][1] + c->n[1][0] + c->n[1][1];
      if (n == 0)
        continue;
      sc_text_table_words (&t, s->key);
      sc_text_table_cell (&t, g_strdup_printf ("%u", n));
      for (guint k = 0; k < 4; k++)
        sc_text_table_cell (&t, g_strdup_printf ("%u", c->n[k / 2][k % 2]));
      sc_text_table_cell (&t, sc_text_percent ((double) (c->n[0][0] + c->n[1][1]) / n, FALSE));
      sc_text_table_cell (&t, count_cell (c->near_n));
      sc_text_table_cell (&t, sc_text_percent ((double) c->near_right / c->near_n, FALSE));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_groups (const ScRunsResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "group", "rows", "pairs", "tau", "best of measured among three", NULL }, 1);
  for (guint i = 0; i < r->groups->len; i++)
    {
      const ScGroupResult *const g = g_ptr_array_index (r->groups, i);
      sc_text_table_words (&t, g->name);
      sc_text_table_cell (&t, g_strdup_printf ("%u", g->n));
      sc_text_table_cell (&t, g_strdup_printf ("%u", g->n_pairs));
      sc_text_table_cell (&t, isfinite (g->tau) ? g_strdup_printf ("%.3f", g->tau) : g_strdup ("-"));
      sc_text_table_cell (&t, g_strdup (g->best_found ? "yes" : "no"));
    }
  sc_text_table_end (&t, markdown, out);
}

static char *
shortened (const char *text)
{
  return g_utf8_strlen (text, -1) <= SHORT_REASON ? g_strdup (text) : g_strdup_printf ("%.*s...", SHORT_REASON, text);
}

static void
write_skipped (const ScRunsResult *r, gboolean markdown, GString *out)
{
  g_autoptr (GArray) reasons = sc_runs_skip_reasons (r);
  ScTextTable t = sc_text_table_new ((const char *const[]) { "why", "such as", "rows", NULL }, 2);
  guint others = 0;
  for (guint i = 0; i < reasons->len; i++)
    {
      const ScSkipReason *const reason = &g_array_index (reasons, ScSkipReason, i);
      if (i >= REASONS)
        {
          others += reason->n;
          continue;
        }
      sc_text_table_cell (&t, shortened (reason->why));
      sc_text_table_words (&t, reason->example);
      sc_text_table_cell (&t, g_strdup_printf ("%u", reason->n));
    }
  if (others > 0)
    {
      sc_text_table_cell (&t, g_strdup_printf ("%u other reasons", reasons->len - REASONS));
      sc_text_table_words (&t, "");
      sc_text_table_cell (&t, g_strdup_printf ("%u", others));
    }
  sc_text_table_end (&t, markdown, out);
}

static double
error_of (const ScRunResult *run, gboolean memory)
{
  return memory ? sc_run_memory_error (run) : sc_run_time_error (run);
}

static int
by_error (gconstpointer a, gconstpointer b, gpointer data)
{
  const ScRunResult *const x = *(const ScRunResult *const *) a, *const y = *(const ScRunResult *const *) b;
  const gboolean memory = GPOINTER_TO_INT (data);
  const double ex = fabs (error_of (x, memory)), ey = fabs (error_of (y, memory));
  return ex != ey ? (ex > ey ? -1 : 1) : strcmp (x->row->id, y->row->id);
}

static char *
figure (double value, const char *unit)
{
  return isfinite (value) ? g_strdup_printf ("%.4g %s", value, unit) : g_strdup ("-");
}

static void
add_figures (ScTextTable *t, const ScRunResult *run, gboolean memory)
{
  guint peak = 0;
  while (peak + 1 < SC_N_PEAKS && !isfinite (sc_run_measured_peak (run->row, (ScPeak) peak)))
    peak++;
  sc_text_table_cell (t, memory ? figure (sc_run_measured_peak (run->row, (ScPeak) peak), "GiB") : figure (run->row->step_s, "s"));
  sc_text_table_cell (t, memory ? figure (run->peak_gib[peak], "GiB") : figure (run->step_s, "s"));
}

static void
write_worst (const ScRunsResult *r, gboolean memory, gboolean markdown, GString *out)
{
  g_autoptr (GPtrArray) judged = g_ptr_array_new ();
  for (guint i = 0; i < r->runs->len; i++)
    if (isfinite (error_of (g_ptr_array_index (r->runs, i), memory)))
      g_ptr_array_add (judged, g_ptr_array_index (r->runs, i));
  g_ptr_array_sort_with_data (judged, by_error, GINT_TO_POINTER (memory));
  ScTextTable t = sc_text_table_new ((const char *const[]) { "row", "forecast as", "on", "measured", "predicted", "error", NULL }, 3);
  for (guint i = 0; i < MIN (judged->len, WORST); i++)
    {
      const ScRunResult *const run = g_ptr_array_index (judged, i);
      sc_text_table_words (&t, run->row->id);
      sc_text_table_words (&t, run->framework != NULL ? run->framework : "-");
      sc_text_table_words (&t, run->topology != NULL ? run->topology : "-");
      add_figures (&t, run, memory);
      sc_text_table_cell (&t, sc_text_percent (error_of (run, memory), TRUE));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_average (const char *what, guint n, double mean, double median, double signed_mean, GString *out)
{
  if (n == 0)
    return;
  g_autofree char *a = sc_text_percent (mean, FALSE), *b = sc_text_percent (median, FALSE), *c = sc_text_percent (signed_mean, TRUE);
  g_string_append_printf (out,
                          "%s, over %u sources of %u rows or more, each once (without golden and jz, nsweep by its median): mean %s, median %s, signed %s.\n",
                          what, n, SC_SOURCE_LEAST, a, b, c);
}

static void
write_counts (const ScRunsResult *r, gboolean memory, GString *out)
{
  g_string_append_printf (out, "%u rows: %u are complete", r->all.rows, r->all.asked);
  if (!memory)
    g_string_append_printf (out, " (time %u, memory %u)", r->asked_time, r->asked_memory);
  g_string_append_printf (out, ", of which %u are skipped; %u are not complete, %u are no runs of training.\n", r->all.skipped, r->all.incomplete,
                          r->all.out_of_scope);
}

static void
write_body (const ScRunsResult *r, gboolean memory, gboolean markdown, GString *out)
{
  const char *const head = markdown ? "\n## " : "\n", *const gap = markdown ? "\n" : "";
  write_counts (r, memory, out);
  g_string_append_printf (out, "%s%s\n", memory ? "" : HOW_TIME, HOW_MEMORY);
  if (memory)
    write_peaks (r, markdown, out);
  else
    write_sources (r, markdown, out);
  g_string_append_c (out, '\n');
  write_average ("Time", r->n_time_sources, r->time_source_mean, r->time_source_median, r->time_source_signed, out);
  write_average ("Memory", r->n_memory_sources, r->memory_source_mean, r->memory_source_median, r->memory_source_signed, out);
  if (r->groups->len > 0)
    {
      g_string_append_printf (out, "%sOrder inside %u groups of %u rows or more, of pairs that differ by over %.0f %%: tau %.3f in the median, %.3f at worst; the best as "
                                   "measured is among the three best as predicted in %u.\n",
                              gap, r->groups->len, SC_GROUP_LEAST, 100 * SC_GROUP_DIFFERENCE, r->tau_median, r->tau_worst, r->n_best_found);
    }
  g_string_append_printf (out, "%sout of memory or not\n%s", head, gap);
  write_oom (r, markdown, out);
  g_string_append_printf (out, "%sfarthest off%s\n%s", head, memory ? "" : " in time", gap);
  write_worst (r, memory, markdown, out);
  if (!memory)
    {
      g_string_append_printf (out, "%sfarthest off in memory\n%s", head, gap);
      write_worst (r, TRUE, markdown, out);
    }
  if (r->groups->len > 0)
    {
      g_string_append_printf (out, "%sorder inside groups\n%s", head, gap);
      write_groups (r, markdown, out);
    }
  g_string_append_printf (out, "%sskipped\n%s", head, gap);
  write_skipped (r, markdown, out);
}

static void
write_text (const ScRunsResult *r, gboolean memory, GString *out)
{
  write_body (r, memory, FALSE, out);
  if (r->ignored->len == 0)
    return;
  g_string_append (out, "\nkeys that were not read: ");
  for (guint i = 0; i < r->ignored->len; i++)
    g_string_append_printf (out, "%s%s", i > 0 ? ", " : "", (const char *) g_ptr_array_index (r->ignored, i));
  g_string_append_c (out, '\n');
}

static void
write_markdown (const ScRunsResult *r, gboolean memory, GString *out)
{
  g_string_append_printf (out, "# %s of published runs\n\n", memory ? "Memory" : "Time and memory");
  write_body (r, memory, TRUE, out);
}

/* ---- CSV ---- */

static void
csv_number (GString *out, double value)
{
  g_string_append_c (out, ',');
  if (isfinite (value))
    g_string_append_printf (out, "%.6g", value);
}

/* What a row says of its run, in its own words: errors are sorted by these.  Nothing where it does not. */
static const struct
{
  const char *object, *key;
} axes[] = {
  { "cluster", "gpu" },   { "cluster", "gpus" },    { "model", "hidden" },    { "model", "layers" },      { "model", "experts" },
  { NULL, "seq" },        { "plan", "tp" },         { "plan", "pp" },         { "plan", "vpp" },          { "plan", "dp" },
  { "plan", "cp" },       { "plan", "ep" },         { "plan", "sharding" },   { "plan", "schedule" },     { "plan", "recompute" },
  { "plan", "dtype" },    { "plan", "attention" },  { "plan", "micro_batch" }, { "plan", "global_batch" },
};

static void
csv_axis (GString *out, const cJSON *value)
{
  g_string_append_c (out, ',');
  if (cJSON_IsString (value))
    sc_append_csv (out, value->valuestring);
  else if (cJSON_IsNumber (value))
    g_string_append_printf (out, "%.12g", value->valuedouble);
}

static void
csv_row (const ScRunResult *run, GString *out)
{
  sc_append_csv (out, run->row->key);
  const char *const texts[] = { run->row->id, run->row->group, run->topology, run->framework };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_string_append_c (out, ',');
      sc_append_csv (out, texts[i]);
    }
  csv_number (out, run->asked_time ? run->row->step_s : NAN);
  csv_number (out, run->step_s);
  csv_number (out, sc_run_time_error (run));
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    {
      csv_number (out, run->asked_memory ? sc_run_measured_peak (run->row, (ScPeak) peak) : NAN);
      csv_number (out, run->peak_gib[peak]);
    }
  csv_number (out, sc_run_memory_error (run));
  csv_number (out, run->row->measured.oom >= 0 ? (double) run->row->measured.oom : NAN);
  csv_number (out, isfinite (run->fill) ? (double) run->oom : NAN);
  csv_number (out, run->fill);
  g_string_append_c (out, ',');
  sc_append_csv (out, run->why);
  g_string_append_c (out, ',');
  sc_append_csv (out, run->notes);
  for (guint i = 0; i < G_N_ELEMENTS (axes); i++)
    {
      const cJSON *const object = axes[i].object != NULL ? sc_row_at (run->row->json->root, axes[i].object) : run->row->json->root;
      csv_axis (out, object != NULL ? sc_row_at (object, axes[i].key) : NULL);
    }
  g_string_append_c (out, '\n');
}

static void
write_csv (const ScRunsResult *r, gboolean memory G_GNUC_UNUSED, GString *out)
{
  g_string_append (out, "source,id,group,topology,framework,measured_step_s,predicted_step_s,time_error");
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    g_string_append_printf (out, ",measured_%s_gib,predicted_%s_gib", sc_peak_name ((ScPeak) peak), sc_peak_name ((ScPeak) peak));
  g_string_append (out, ",memory_error,measured_oom,predicted_oom,device_share,why_skipped,filled_in");
  for (guint i = 0; i < G_N_ELEMENTS (axes); i++)
    g_string_append_printf (out, ",%s", axes[i].key);
  g_string_append_c (out, '\n');
  for (guint i = 0; i < r->runs->len; i++)
    csv_row (g_ptr_array_index (r->runs, i), out);
}

/* ---- JSON ---- */

static void
add_error_keys (cJSON *o, const char *prefix, const ScRowErrors *e)
{
  const struct
  {
    const char *key;
    double value;
  } values[] = {
    { "mean_abs_error", e->mean_abs },   { "median_abs_error", e->median_abs },       { "p90_abs_error", e->p90_abs },
    { "signed_error", e->signed_mean }, { "signed_median_error", e->signed_median }, { "worst_error", e->worst },
  };
  g_autofree char *count = g_strdup_printf ("%s_rows", prefix);
  cJSON_AddNumberToObject (o, count, e->n);
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autofree char *key = g_strdup_printf ("%s_%s", prefix, values[i].key);
      sc_json_add_number (o, key, values[i].value);
    }
}

static void
add_oom (cJSON *o, const ScOomCounts *c)
{
  cJSON *const oom = cJSON_AddObjectToObject (o, "oom");
  const guint n = c->n[0][0] + c->n[0][1] + c->n[1][0] + c->n[1][1];
  cJSON_AddNumberToObject (oom, "fits_predicted_fits", c->n[0][0]);
  cJSON_AddNumberToObject (oom, "fits_predicted_oom", c->n[0][1]);
  cJSON_AddNumberToObject (oom, "oom_predicted_fits", c->n[1][0]);
  cJSON_AddNumberToObject (oom, "oom_predicted_oom", c->n[1][1]);
  sc_json_add_number (oom, "right", n > 0 ? (double) (c->n[0][0] + c->n[1][1]) / n : NAN);
  cJSON_AddNumberToObject (oom, "near_capacity", c->near_n);
  sc_json_add_number (oom, "near_capacity_right", c->near_n > 0 ? (double) c->near_right / c->near_n : NAN);
}

static void
add_source (cJSON *o, const ScSourceResult *s)
{
  cJSON_AddNumberToObject (o, "rows", s->rows);
  cJSON_AddNumberToObject (o, "complete", s->asked);
  cJSON_AddNumberToObject (o, "skipped", s->skipped);
  cJSON_AddNumberToObject (o, "incomplete", s->incomplete);
  cJSON_AddNumberToObject (o, "out_of_scope", s->out_of_scope);
  add_error_keys (o, "time", &s->time);
  add_error_keys (o, "memory", &s->memory);
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    add_error_keys (o, sc_peak_name ((ScPeak) peak), &s->peaks[peak]);
  add_error_keys (o, "allocated_by_rank", &s->ranks[0]);
  add_error_keys (o, "reserved_by_rank", &s->ranks[1]);
  add_oom (o, &s->oom);
}

static void
add_numbers (cJSON *o, const char *key, const double *values, guint n)
{
  if (values == NULL || n == 0)
    return;
  cJSON *const array = cJSON_AddArrayToObject (o, key);
  for (guint i = 0; i < n; i++)
    cJSON_AddItemToArray (array, cJSON_CreateNumber (values[i]));
}

static void
add_run (cJSON *array, const ScRunResult *run)
{
  cJSON *const o = cJSON_CreateObject ();
  cJSON_AddItemToArray (array, o);
  sc_json_add_text (o, "id", run->row->id);
  sc_json_add_text (o, "source", run->row->key);
  sc_json_add_text (o, "group", run->row->group);
  sc_json_add_text (o, "topology", run->topology);
  sc_json_add_text (o, "framework", run->framework);
  sc_json_add_text (o, "filled_in", run->notes);
  sc_json_add_number (o, "measured_step_s", run->asked_time ? run->row->step_s : NAN);
  sc_json_add_number (o, "predicted_step_s", run->step_s);
  sc_json_add_number (o, "time_error", sc_run_time_error (run));
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    {
      g_autofree char *measured = g_strdup_printf ("measured_%s_gib", sc_peak_name ((ScPeak) peak));
      g_autofree char *predicted = g_strdup_printf ("predicted_%s_gib", sc_peak_name ((ScPeak) peak));
      sc_json_add_number (o, measured, run->asked_memory ? sc_run_measured_peak (run->row, (ScPeak) peak) : NAN);
      sc_json_add_number (o, predicted, run->peak_gib[peak]);
    }
  sc_json_add_number (o, "memory_error", sc_run_memory_error (run));
  add_numbers (o, "predicted_allocated_by_rank_gib", run->allocated_gib, run->row->measured.n_ranks);
  add_numbers (o, "predicted_reserved_by_rank_gib", run->reserved_gib, run->row->measured.n_reserved_ranks);
  if (run->row->measured.oom >= 0)
    cJSON_AddBoolToObject (o, "measured_oom", run->row->measured.oom);
  if (isfinite (run->fill))
    cJSON_AddBoolToObject (o, "predicted_oom", run->oom);
  sc_json_add_number (o, "device_share", run->fill);
  sc_json_add_text (o, "why_skipped", run->why);
}

static void
add_summary (cJSON *root, const ScRunsResult *r)
{
  cJSON *const o = cJSON_AddObjectToObject (root, "summary");
  add_source (o, &r->all);
  cJSON_AddNumberToObject (o, "complete_time", r->asked_time);
  cJSON_AddNumberToObject (o, "skipped_time", r->skipped_time);
  cJSON_AddNumberToObject (o, "complete_memory", r->asked_memory);
  cJSON_AddNumberToObject (o, "skipped_memory", r->skipped_memory);
  cJSON_AddNumberToObject (o, "time_sources", r->n_time_sources);
  sc_json_add_number (o, "time_source_mean", r->time_source_mean);
  sc_json_add_number (o, "time_source_median", r->time_source_median);
  sc_json_add_number (o, "time_source_signed", r->time_source_signed);
  cJSON_AddNumberToObject (o, "memory_sources", r->n_memory_sources);
  sc_json_add_number (o, "memory_source_mean", r->memory_source_mean);
  sc_json_add_number (o, "memory_source_median", r->memory_source_median);
  sc_json_add_number (o, "memory_source_signed", r->memory_source_signed);
  cJSON_AddNumberToObject (o, "groups", r->groups->len);
  sc_json_add_number (o, "tau_median", r->tau_median);
  sc_json_add_number (o, "tau_worst", r->tau_worst);
  cJSON_AddNumberToObject (o, "groups_best_found", r->n_best_found);
}

static void
write_json (const ScRunsResult *r, gboolean memory, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", SCHEMA_VERSION);
  cJSON_AddStringToObject (root, "subject", memory ? "memory" : "runs");
  add_summary (root, r);
  cJSON *const sources = cJSON_AddArrayToObject (root, "sources");
  for (guint i = 0; i < r->sources->len; i++)
    {
      const ScSourceResult *const s = g_ptr_array_index (r->sources, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (sources, o);
      sc_json_add_text (o, "source", s->key);
      add_source (o, s);
    }
  cJSON *const groups = cJSON_AddArrayToObject (root, "groups");
  for (guint i = 0; i < r->groups->len; i++)
    {
      const ScGroupResult *const g = g_ptr_array_index (r->groups, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (groups, o);
      sc_json_add_text (o, "group", g->name);
      cJSON_AddNumberToObject (o, "rows", g->n);
      cJSON_AddNumberToObject (o, "pairs", g->n_pairs);
      sc_json_add_number (o, "tau", g->tau);
      cJSON_AddBoolToObject (o, "best_found", g->best_found);
    }
  cJSON *const skipped = cJSON_AddArrayToObject (root, "skipped");
  g_autoptr (GArray) reasons = sc_runs_skip_reasons (r);
  for (guint i = 0; i < reasons->len; i++)
    {
      const ScSkipReason *const reason = &g_array_index (reasons, ScSkipReason, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (skipped, o);
      sc_json_add_text (o, "why", reason->why);
      cJSON_AddNumberToObject (o, "rows", reason->n);
      sc_json_add_text (o, "example", reason->example);
    }
  cJSON *const rows = cJSON_AddArrayToObject (root, "rows");
  for (guint i = 0; i < r->runs->len; i++)
    add_run (rows, g_ptr_array_index (r->runs, i));
  cJSON *const ignored = cJSON_AddArrayToObject (root, "keys_not_read");
  for (guint i = 0; i < r->ignored->len; i++)
    cJSON_AddItemToArray (ignored, cJSON_CreateString (g_ptr_array_index (r->ignored, i)));
  sc_json_print (root, out);
}

/* ---- Formats ---- */

static const ScRunsFormat formats[] = {
  { "text", write_text }, { "csv", write_csv }, { "json", write_json }, { "markdown", write_markdown }, { NULL, NULL },
};

const ScRunsFormat *
sc_runs_formats (void)
{
  return formats;
}
