/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-schedules-report.c - what stepcast validate schedules says: text, csv, json, markdown. */
#include "json-out.h"
#include "text-table.h"
#include "units.h"
#include "validate-schedules.h"
#include <string.h>

#define HOW_TEXT                                                                                                                 \
  "Errors are of samples/s, predicted / measured - 1: + is too fast.  profiled: passes take what the source measured, a median over\n" \
  "stages; slowest, which is judged: and one GPU is slower, as the slowest of so many is where a node's differ by 5 %; own: our own\n"  \
  "costs.  Optimizer, the host's part in transfers, embedding, head and loss are ours in all three.\n"

static gboolean
is_judged (const ScScheduleRun *run)
{
  return run->why == NULL && run->measured > 0;
}

static char *
error_cell (const ScScheduleRun *run, guint kind)
{
  return is_judged (run) ? sc_text_percent (run->predicted[kind] / run->measured - 1, TRUE) : g_strdup ("-");
}

static char *
bubble_cell (double bubble)
{
  return isnan (bubble) ? g_strdup ("-") : g_strdup_printf ("%.2f %%", 100 * bubble);
}

/* ---- Text and Markdown ---- */

static void
add_errors (ScTextTable *t, const ScRunErrors *e)
{
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    {
      sc_text_table_cell (t, sc_text_percent (e[kind].mean_abs, FALSE));
      sc_text_table_cell (t, sc_text_percent (e[kind].mean, TRUE));
      sc_text_table_cell (t, sc_text_percent (e[kind].worst, TRUE));
    }
}

static void
write_schedules (const ScSchedulesResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "schedule", "runs", "slowest", "signed", "worst", "profiled", "signed", "worst",
                                                             "own", "signed", "worst", NULL }, 1);
  for (guint i = 0; i < r->schedules->len; i++)
    {
      sc_text_table_words (&t, g_ptr_array_index (r->schedules, i));
      sc_text_table_cell (&t, g_strdup_printf ("%u", r->of_schedule[i * SC_N_RUNS].n));
      add_errors (&t, &r->of_schedule[i * SC_N_RUNS]);
    }
  sc_text_table_words (&t, "all");
  sc_text_table_cell (&t, g_strdup_printf ("%u", r->n_judged));
  add_errors (&t, r->errors);
  sc_text_table_end (&t, markdown, out);
}

static void
write_runs (const ScSchedulesResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "run", "schedule", "GPUs", "micro-batches", "samples/s", "slowest", "profiled", "own",
                                                             "bubble", "ours", NULL }, 2);
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScScheduleRun *const run = g_ptr_array_index (r->runs, i);
      if (run->why != NULL)
        continue;
      sc_text_table_words (&t, run->id);
      sc_text_table_words (&t, run->schedule);
      sc_text_table_cell (&t, g_strdup_printf ("%u", run->gpus));
      sc_text_table_cell (&t, g_strdup_printf ("%u", run->microbatches));
      sc_text_table_cell (&t, run->measured > 0 ? g_strdup_printf ("%.4g", run->measured) : g_strdup ("-"));
      for (guint kind = 0; kind < SC_N_RUNS; kind++)
        sc_text_table_cell (&t, error_cell (run, kind));
      sc_text_table_cell (&t, bubble_cell (run->bubble_measured));
      sc_text_table_cell (&t, bubble_cell (run->bubble));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_order (const ScSchedulesResult *r, GString *out)
{
  g_string_append_printf (out, "%u pairs of runs of one model and batch were measured to differ; in that order come", r->n_pairs);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    g_string_append_printf (out, "%s %u (%s)", kind > 0 ? "," : "", r->n_pairs - r->swapped[kind]->len, sc_run_kind_name ((ScRunKind) kind));
  g_string_append (out, ".\n");
}

static void
write_swapped (const ScSchedulesResult *r, gboolean markdown, GString *out)
{
  ScTextTable t = sc_text_table_new ((const char *const[]) { "runs", "faster", "slower", "forecast", "measured", "predicted", NULL }, 4);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    for (guint i = 0; i < r->swapped[kind]->len; i++)
      {
        const ScSwapped *const s = &g_array_index (r->swapped[kind], ScSwapped, i);
        sc_text_table_words (&t, s->faster->group);
        sc_text_table_words (&t, s->faster->schedule);
        sc_text_table_words (&t, s->slower->schedule);
        sc_text_table_words (&t, sc_run_kind_name ((ScRunKind) kind));
        sc_text_table_cell (&t, sc_text_percent (s->faster->measured / s->slower->measured - 1, TRUE));
        sc_text_table_cell (&t, sc_text_percent (s->faster->predicted[kind] / s->slower->predicted[kind] - 1, TRUE));
      }
  sc_text_table_end (&t, markdown, out);
}

static void
write_skipped (const ScSchedulesResult *r, gboolean markdown, GString *out)
{
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) reasons = g_ptr_array_new ();
  for (guint i = 0; i < r->runs->len; i++)
    {
      char *const why = ((const ScScheduleRun *) g_ptr_array_index (r->runs, i))->why;
      if (why == NULL)
        continue;
      const guint n = GPOINTER_TO_UINT (g_hash_table_lookup (counts, why));
      if (n == 0)
        g_ptr_array_add (reasons, why);
      g_hash_table_insert (counts, why, GUINT_TO_POINTER (n + 1));
    }
  ScTextTable t = sc_text_table_new ((const char *const[]) { "why", "runs", NULL }, 1);
  for (guint i = 0; i < reasons->len; i++)
    {
      sc_text_table_words (&t, g_ptr_array_index (reasons, i));
      sc_text_table_cell (&t, g_strdup_printf ("%u", GPOINTER_TO_UINT (g_hash_table_lookup (counts, g_ptr_array_index (reasons, i)))));
    }
  sc_text_table_end (&t, markdown, out);
}

static void
write_body (const ScSchedulesResult *r, gboolean markdown, GString *out)
{
  const char *const head = markdown ? "\n## " : "\n", *const gap = markdown ? "\n" : "";
  g_string_append_printf (out, "%u runs: %u judged by samples/s, %u by the share of the bubble, %u skipped.\nWithin the target of %.0f %%: %u of %u (%s).\n",
                          r->runs->len, r->n_judged, r->n_bubbles, r->n_skipped, 100 * SC_SCHEDULES_TARGET, r->errors[SC_RUN_SLOWEST].n_within,
                          r->n_judged, r->passes ? "pass" : "miss");
  g_string_append (out, HOW_TEXT "\n");
  write_schedules (r, markdown, out);
  g_string_append_c (out, '\n');
  write_order (r, out);
  if (r->n_bubbles > 0)
    g_string_append_printf (out, "%sBubbles that the source worked out of its times and those of our orders on paper are at most %.2f points apart.\n", gap,
                            100 * r->bubble_worst);
  g_string_append_printf (out, "%sby run; bubble: of the longest rank's span, as its source works it out, and of our order on paper\n%s", head, gap);
  write_runs (r, markdown, out);
  if (r->swapped[SC_RUN_SLOWEST]->len + r->swapped[SC_RUN_PROFILED]->len + r->swapped[SC_RUN_OWN]->len > 0)
    {
      g_string_append_printf (out, "%sturned round\n%s", head, gap);
      write_swapped (r, markdown, out);
    }
  if (r->n_skipped == 0)
    return;
  g_string_append_printf (out, "%sskipped\n%s", head, gap);
  write_skipped (r, markdown, out);
}

static void
write_text (const ScSchedulesResult *r, GString *out)
{
  write_body (r, FALSE, out);
}

static void
write_markdown (const ScSchedulesResult *r, GString *out)
{
  g_string_append (out, "# Pipeline schedules against published runs\n\n"
                        "Written by `make validation` (`stepcast validate schedules --format markdown`): do not edit.\n\n");
  write_body (r, TRUE, out);
}

/* ---- CSV ---- */

static void
write_csv (const ScSchedulesResult *r, GString *out)
{
  g_string_append (out, "run,group,schedule,topology,gpus,microbatches,measured,slowest,profiled,own,bubble_measured,bubble,skipped\n");
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScScheduleRun *const run = g_ptr_array_index (r->runs, i);
      const char *const words[] = { run->id, run->group, run->schedule, run->topology != NULL ? run->topology : "" };
      for (guint k = 0; k < G_N_ELEMENTS (words); k++)
        {
          sc_append_csv (out, words[k]);
          g_string_append_c (out, ',');
        }
      const double numbers[] = { run->measured > 0 ? run->measured : NAN, run->why == NULL ? run->predicted[SC_RUN_SLOWEST] : NAN,
                                 run->why == NULL ? run->predicted[SC_RUN_PROFILED] : NAN, run->why == NULL ? run->predicted[SC_RUN_OWN] : NAN,
                                 run->bubble_measured, run->bubble };
      g_string_append_printf (out, "%u,%u", run->gpus, run->microbatches);
      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        {
          g_string_append_c (out, ',');
          if (!isnan (numbers[k]))
            g_string_append_printf (out, "%.5g", numbers[k]);
        }
      g_string_append_c (out, ',');
      sc_append_csv (out, run->why != NULL ? run->why : "");
      g_string_append_c (out, '\n');
    }
}

/* ---- JSON ---- */

static void
add_json_errors (cJSON *object, const ScRunErrors *errors)
{
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    {
      cJSON *const o = cJSON_AddObjectToObject (object, sc_run_kind_name ((ScRunKind) kind));
      sc_json_add_number (o, "judged", errors[kind].n);
      sc_json_add_number (o, "within_target", errors[kind].n_within);
      sc_json_add_number (o, "mean_error", errors[kind].mean_abs);
      sc_json_add_number (o, "signed_error", errors[kind].mean);
      sc_json_add_number (o, "worst_error", errors[kind].worst);
    }
}

static void
add_json_run (cJSON *array, const ScScheduleRun *run)
{
  cJSON *const o = cJSON_CreateObject ();
  cJSON_AddItemToArray (array, o);
  sc_json_add_text (o, "id", run->id);
  sc_json_add_text (o, "group", run->group);
  sc_json_add_text (o, "schedule", run->schedule);
  sc_json_add_text (o, "topology", run->topology);
  sc_json_add_text (o, "skipped", run->why);
  sc_json_add_number (o, "gpus", run->gpus);
  sc_json_add_number (o, "microbatches", run->microbatches);
  sc_json_add_number (o, "measured", run->measured > 0 ? run->measured : NAN);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    sc_json_add_number (o, sc_run_kind_name ((ScRunKind) kind), run->why == NULL ? run->predicted[kind] : NAN);
  sc_json_add_number (o, "bubble_measured", run->bubble_measured);
  sc_json_add_number (o, "bubble", run->bubble);
}

static void
write_json (const ScSchedulesResult *r, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", 1);
  cJSON_AddNumberToObject (root, "target", SC_SCHEDULES_TARGET);
  cJSON_AddBoolToObject (root, "passes", r->passes);
  cJSON *const summary = cJSON_AddObjectToObject (root, "summary");
  sc_json_add_number (summary, "runs", r->runs->len);
  sc_json_add_number (summary, "judged", r->n_judged);
  sc_json_add_number (summary, "skipped", r->n_skipped);
  add_json_errors (summary, r->errors);
  sc_json_add_number (summary, "pairs", r->n_pairs);
  cJSON *const order = cJSON_AddObjectToObject (summary, "in_order");
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    sc_json_add_number (order, sc_run_kind_name ((ScRunKind) kind), r->n_pairs - r->swapped[kind]->len);
  sc_json_add_number (summary, "bubbles", r->n_bubbles);
  sc_json_add_number (summary, "bubble_worst_difference", r->n_bubbles > 0 ? r->bubble_worst : NAN);
  cJSON *const schedules = cJSON_AddArrayToObject (root, "schedules");
  for (guint i = 0; i < r->schedules->len; i++)
    {
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (schedules, o);
      sc_json_add_text (o, "schedule", g_ptr_array_index (r->schedules, i));
      add_json_errors (o, &r->of_schedule[i * SC_N_RUNS]);
    }
  cJSON *const runs = cJSON_AddArrayToObject (root, "rows");
  for (guint i = 0; i < r->runs->len; i++)
    add_json_run (runs, g_ptr_array_index (r->runs, i));
  sc_json_print (root, out);
}

const ScSchedulesFormat *
sc_schedules_formats (void)
{
  static const ScSchedulesFormat formats[] = {
    { "text", write_text }, { "csv", write_csv }, { "json", write_json }, { "markdown", write_markdown }, { NULL, NULL },
  };
  return formats;
}
