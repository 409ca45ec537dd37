/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-schedules.c - published runs become workloads, with the times that their sources measured and without. */
#include "validate-schedules.h"
#include <gsl/gsl_cdf.h>
#include <string.h>
#include "device-json.h"
#include "library.h"
#include "models/forecast.h"
#include "models/lower.h"
#include "row-plan.h"
#include "topology-json.h"
#include "workload-json.h"

#define MAX_RUNS 20000

/* What GPUs of one node differ by: "5% and higher differences on an 8-gpu node" (github:stas00/ml-engineering
 * compute/accelerator/README.md); 8 % on average over clusters (Sinha et al., arXiv 2208.11035).  A pipeline goes at the pace of the
 * slowest. */
#define SPREAD 0.05
#define SPREAD_GPUS 8

static const char *const kind_names[] = { [SC_RUN_SLOWEST] = "slowest", [SC_RUN_PROFILED] = "profiled", [SC_RUN_OWN] = "own" };
G_STATIC_ASSERT (G_N_ELEMENTS (kind_names) == SC_N_RUNS);

const char *
sc_run_kind_name (ScRunKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_RUNS, NULL);
  return kind_names[kind];
}

/* Of @n GPUs the slowest one's time over the median's; normal scatter, Blom's approximation of its largest value. */
static double
slowest_of (guint n)
{
  const double sigma = SPREAD / (2 * gsl_cdf_ugaussian_Pinv ((SPREAD_GPUS - 0.375) / (SPREAD_GPUS + 0.25)));
  return 1 + sigma * gsl_cdf_ugaussian_Pinv ((n - 0.375) / (n + 0.25));
}

/* ---- a row of a table ---- */

/* Model, sequence, software and plan of @row as a workload. */
static ScWorkload *
workload_of (const char *file, const cJSON *row, gboolean own, GError **error)
{
  static const char *const kept[] = { "model", "seq", "software", "plan", NULL };
  g_autoptr (ScJson) json = g_new0 (ScJson, 1);
  json->file = g_strdup (file);
  json->overrides = g_ptr_array_new ();
  json->root = cJSON_CreateObject ();
  cJSON_AddStringToObject (json->root, "name", "run");
  for (guint i = 0; kept[i] != NULL; i++)
    if (sc_row_at (row, kept[i]) != NULL)
      cJSON_AddItemToObject (json->root, kept[i], cJSON_Duplicate (sc_row_at (row, kept[i]), TRUE));
  cJSON *const plan = cJSON_GetObjectItemCaseSensitive (json->root, "plan");
  if (own && plan != NULL)
    cJSON_DeleteItemFromObjectCaseSensitive (plan, "profiled_ms");
  return sc_workload_from_json (json, error);
}

/* The shipped topology that the row names, or the first one of such GPUs that is large enough.  NULL without an error: none is. */
static ScTopology *
topology_of (const cJSON *row, guint gpus, char **set, char **ret_name, GError **error)
{
  const char *const name = sc_row_text_at (row, "topology");
  if (name != NULL)
    {
      *ret_name = g_strdup (name);
      return sc_topology_load (name, set, NULL, error);
    }
  const cJSON *const cluster = sc_row_at (row, "cluster");
  const char *const gpu = sc_row_text_at (cluster, "gpu");
  const gboolean nvlink = g_strcmp0 (sc_row_text_at (cluster, "intra"), "pcie") != 0;
  const ScLibraryRow *library = NULL;
  while (gpu != NULL && (library = sc_library_next (library, SC_KIND_TOPOLOGY)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("topologies/%s.json", library->name);
      g_autoptr (ScTopology) topology = sc_topology_load (path, NULL, NULL, error);
      if (topology == NULL)
        return NULL;
      const ScNodeType *const type = &topology->types[0];
      if (topology->n_types != 1 || topology->n_faults > 0 || topology->n_gpus < gpus || type->gpus != sc_row_count_at (cluster, "gpus_per_node", 1)
          || type->has_nvlink != nvlink || !sc_device_is_called (type->device, gpu))
        continue;
      *ret_name = g_strdup (library->name);
      return sc_topology_load (path, set, NULL, error);
    }
  return NULL;
}

/* ---- one run ---- */

/* Its step in seconds; 0: why not is in *ret_why. */
static double
forecast (const char *file, const cJSON *row, ScRunKind kind, ScScheduleRun *run)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) topology = NULL;
  g_autoptr (ScSummary) summary = NULL;
  g_autofree char *name = NULL;
  g_autoptr (ScWorkload) workload = workload_of (file, row, kind == SC_RUN_OWN, &error);
  if (workload != NULL)
    {
      run->gpus = workload->plan.gpus;
      run->microbatches = sc_workload_microbatches (workload);
      const guint per_node = sc_row_count_at (sc_row_at (row, "cluster"), "gpus_per_node", 1), slow = run->gpus / 2; /* of a stage in the middle */
      g_autofree char *fault = g_strdup_printf ("topology.faults=[{\"gpu\": {\"node\": %u, \"index\": %u}, \"factor\": %.9g}]", slow / per_node,
                                                slow % per_node, 1 / slowest_of (run->gpus));
      char *set[] = { kind == SC_RUN_SLOWEST ? fault : NULL, NULL };
      topology = topology_of (row, workload->plan.gpus, set, &name, &error);
    }
  if (topology != NULL)
    {
      const ScForecastOptions options = { .detail = SC_DETAIL_STAGE };
      summary = sc_forecast (topology, workload, &options, &error);
    }
  if (run->topology == NULL)
    run->topology = g_steal_pointer (&name);
  if (summary != NULL)
    return sc_time_to_s (summary->step);
  run->why = error != NULL ? g_strdup (error->message) : g_strdup_printf ("no shipped topology has %u such GPUs", run->gpus);
  return 0;
}

/* How much of the longest rank's span the order leaves idle: equal stages, nothing but the times of the row. */
static double
bubble_of (const ScWorkload *workload, const cJSON *plan, const ScScheduleRun *run)
{
  const cJSON *const profile = sc_row_at (plan, "profiled_ms");
  const ScSchedule *const schedule = sc_schedule_find (run->schedule);
  const guint p = sc_row_count_at (plan, "pp", 1), v = sc_row_count_at (plan, "vpp", 1), n = p * v;
  const ScScheduleShape shape = { p, v, run->microbatches, p, 0 };
  if (schedule == NULL || cJSON_IsArray (sc_row_at (profile, "forward")) || (schedule->refuse != NULL && schedule->refuse (&shape) != NULL))
    return NAN;
  const double times[] = { sc_row_number_at (profile, "forward", 0), sc_row_number_at (profile, "input", sc_row_number_at (profile, "backward", 0)),
                           sc_row_number_at (profile, "weight", 0) };
  g_autofree double *each = g_new (double, 3 * n);
  for (guint i = 0; i < 3 * n; i++)
    each[i] = times[i / n] / v;
  g_autoptr (ScStepItems) items = sc_step_items_new (workload);
  const ScScheduleCosts costs = { .forward = each, .input = each + n, .weight = each + 2 * n, .latency = sc_row_number_at (profile, "transfer", 0),
                                  .held = sc_step_items_held (items, 0) };
  g_autoptr (ScOrders) orders = sc_orders_new (schedule, &shape, &costs, NULL);
  return 1 - run->microbatches * (times[0] + times[1] + times[2]) / sc_orders_span (orders, &costs);
}

static void
run_free (ScScheduleRun *run)
{
  g_free (run->id);
  g_free (run->group);
  g_free (run->schedule);
  g_free (run->topology);
  g_free (run->why);
  g_free (run);
}

static ScScheduleRun *
run_new (const cJSON *row, guint line)
{
  ScScheduleRun *const run = g_new0 (ScScheduleRun, 1);
  const cJSON *const plan = sc_row_at (row, "plan"), *const measured = sc_row_at (row, "measured");
  run->schedule = g_strdup (sc_row_text_at (plan, "schedule") != NULL ? sc_row_text_at (plan, "schedule") : "none");
  run->id = sc_row_text_at (row, "id") != NULL ? g_strdup (sc_row_text_at (row, "id")) : g_strdup_printf ("line %u", line);
  g_autofree char *label = g_strdup (sc_row_text_at (row, "group") != NULL ? sc_row_text_at (row, "group") : run->id);
  run->group = g_strdup_printf ("%s, %u sequences in micro-batches of %u", label, sc_row_count_at (plan, "global_batch", 1), sc_row_count_at (plan, "micro_batch", 1));
  run->bubble_measured = sc_row_number_at (measured, "bubble_fraction", NAN);
  run->bubble = NAN;
  run->measured = sc_row_number_at (measured, "samples_per_s_per_gpu", 0);
  const double step_s = sc_row_number_at (measured, "step_s", sc_row_number_at (sc_row_at (row, "derived"), "step_s", 0));
  const guint gpus = sc_row_count_at (sc_row_at (row, "cluster"), "gpus", 1);
  if (run->measured <= 0 && step_s > 0)
    run->measured = sc_row_count_at (plan, "global_batch", 1) / step_s / gpus;
  return run;
}

static void
judge_run (ScScheduleRun *run, const char *file, const cJSON *row)
{
  const cJSON *const plan = sc_row_at (row, "plan");
  if (sc_row_at (plan, "profiled_ms") == NULL)
    run->why = g_strdup ("no times of passes");
  else if (run->measured <= 0 && isnan (run->bubble_measured))
    run->why = g_strdup ("no samples per second and no bubble");
  for (guint kind = 0; kind < SC_N_RUNS && run->why == NULL; kind++)
    {
      const double step_s = forecast (file, row, (ScRunKind) kind, run);
      run->predicted[kind] = step_s > 0 ? sc_row_count_at (plan, "global_batch", 1) / step_s / run->gpus : 0;
    }
  if (run->why != NULL || isnan (run->bubble_measured))
    return;
  g_autoptr (ScWorkload) workload = workload_of (file, row, FALSE, NULL); /* it was one before */
  run->bubble = bubble_of (workload, plan, run);
}

/* ---- all of them ---- */

void
sc_schedules_result_free (ScSchedulesResult *r)
{
  if (r == NULL)
    return;
  g_ptr_array_unref (r->runs);
  g_ptr_array_unref (r->schedules);
  g_free (r->of_schedule);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    g_array_unref (r->swapped[kind]);
  g_free (r);
}

static double
error_of (const ScScheduleRun *run, guint kind)
{
  return run->predicted[kind] / run->measured - 1;
}

static gboolean
is_judged (const ScScheduleRun *run)
{
  return run->why == NULL && run->measured > 0;
}

/* Over the judged runs of @schedule, NULL: of all. */
static ScRunErrors
errors_of (const GPtrArray *runs, const char *schedule, guint kind)
{
  ScRunErrors e = { 0, 0, 0, 0, 0 };
  for (guint i = 0; i < runs->len; i++)
    {
      const ScScheduleRun *const run = g_ptr_array_index (runs, i);
      if (!is_judged (run) || (schedule != NULL && strcmp (schedule, run->schedule) != 0))
        continue;
      const double error = error_of (run, kind);
      e.n++;
      e.n_within += fabs (error) <= SC_SCHEDULES_TARGET ? 1 : 0;
      e.mean += error;
      e.mean_abs += fabs (error);
      if (fabs (error) > fabs (e.worst))
        e.worst = error;
    }
  e.mean = e.n > 0 ? e.mean / e.n : NAN;
  e.mean_abs = e.n > 0 ? e.mean_abs / e.n : NAN;
  e.worst = e.n > 0 ? e.worst : NAN;
  return e;
}

static void
compare_pairs (ScSchedulesResult *r)
{
  for (guint i = 0; i < r->runs->len; i++)
    for (guint k = 0; k < r->runs->len; k++)
      {
        const ScScheduleRun *const a = g_ptr_array_index (r->runs, i), *const b = g_ptr_array_index (r->runs, k);
        if (!is_judged (a) || !is_judged (b) || a->measured <= b->measured || strcmp (a->group, b->group) != 0)
          continue;
        r->n_pairs++;
        for (guint kind = 0; kind < SC_N_RUNS; kind++)
          if (a->predicted[kind] <= b->predicted[kind])
            {
              const ScSwapped swapped = { a, b };
              g_array_append_val (r->swapped[kind], swapped);
            }
      }
}

static void
sum_up (ScSchedulesResult *r)
{
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScScheduleRun *const run = g_ptr_array_index (r->runs, i);
      r->n_skipped += run->why != NULL ? 1 : 0;
      r->n_judged += is_judged (run) ? 1 : 0;
      if (is_judged (run) && !g_ptr_array_find_with_equal_func (r->schedules, run->schedule, g_str_equal, NULL))
        g_ptr_array_add (r->schedules, g_strdup (run->schedule));
      if (isnan (run->bubble))
        continue;
      r->n_bubbles++;
      r->bubble_worst = MAX (r->bubble_worst, fabs (run->bubble - run->bubble_measured));
    }
  r->of_schedule = g_new (ScRunErrors, r->schedules->len * SC_N_RUNS + 1);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    {
      r->errors[kind] = errors_of (r->runs, NULL, kind);
      for (guint i = 0; i < r->schedules->len; i++)
        r->of_schedule[i * SC_N_RUNS + kind] = errors_of (r->runs, g_ptr_array_index (r->schedules, i), kind);
    }
  compare_pairs (r);
  r->passes = r->n_judged > 0 && r->errors[SC_RUN_SLOWEST].n_within == r->n_judged;
  for (guint i = 0; i < r->swapped[SC_RUN_SLOWEST]->len; i++)
    {
      const ScSwapped *const s = &g_array_index (r->swapped[SC_RUN_SLOWEST], ScSwapped, i);
      r->passes &= s->faster->measured <= (1 + SC_SCHEDULES_TARGET) * s->slower->measured;
    }
}

static gboolean
matches (GRegex *filter, const ScScheduleRun *run, const cJSON *row)
{
  g_autofree char *text = g_strdup_printf ("%s %s %s %s", run->id, run->group, run->schedule, sc_row_text_at (sc_row_at (row, "model"), "name") != NULL ? sc_row_text_at (sc_row_at (row, "model"), "name") : "");
  return filter == NULL || g_regex_match (filter, text, (GRegexMatchFlags) 0, NULL);
}

static void
add_run (ScSchedulesResult *r, const char *file, guint line, cJSON *row, GRegex *filter)
{
  cJSON *const plan = cJSON_GetObjectItemCaseSensitive (row, "plan");
  if (cJSON_IsObject (plan))
    g_free (sc_row_settle_extra (row, NULL)); /* what is not modelled of it stands beside the profile */
  ScScheduleRun *const run = run_new (row, line);
  if (!matches (filter, run, row))
    {
      run_free (run);
      return;
    }
  judge_run (run, file, row);
  g_ptr_array_add (r->runs, run);
}

/* @row with what @run says in place of its own. */
static cJSON *
overlay (const cJSON *row, const cJSON *run)
{
  cJSON *const copy = cJSON_Duplicate (row, TRUE);
  cJSON_DeleteItemFromObjectCaseSensitive (copy, "runs");
  for (const cJSON *part = run->child; part != NULL; part = part->next)
    {
      cJSON *const into = cJSON_GetObjectItemCaseSensitive (copy, part->string);
      if (!cJSON_IsObject (part) || !cJSON_IsObject (into))
        {
          cJSON_DeleteItemFromObjectCaseSensitive (copy, part->string);
          cJSON_AddItemToObject (copy, part->string, cJSON_Duplicate (part, TRUE));
          continue;
        }
      for (const cJSON *item = part->child; item != NULL; item = item->next)
        {
          cJSON_DeleteItemFromObjectCaseSensitive (into, item->string);
          cJSON_AddItemToObject (into, item->string, cJSON_Duplicate (item, TRUE));
        }
    }
  return copy;
}

static gboolean
add_line (ScSchedulesResult *r, const char *file, guint line, const char *text, gsize length, GRegex *filter, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u", file, line);
  g_autoptr (ScJson) json = sc_json_parse (where, text, length, error);
  if (json == NULL || !sc_fields_check_object (json, json->root, error))
    return FALSE;
  const cJSON *const runs = sc_row_at (json->root, "runs");
  if (runs == NULL)
    {
      add_run (r, where, line, json->root, filter);
      return TRUE;
    }
  if (!sc_fields_check_array (json, runs, MAX_RUNS, error))
    return FALSE;
  for (const cJSON *run = runs->child; run != NULL; run = run->next)
    {
      if (!sc_fields_check_object (json, run, error))
        return FALSE;
      g_autoptr (cJSON) row = overlay (json->root, run);
      add_run (r, where, line, row, filter);
    }
  return TRUE;
}

ScSchedulesResult *
sc_validate_schedules (const char *file, const char *text, gsize length, GRegex *filter, GError **error)
{
  g_autoptr (ScSchedulesResult) r = g_new0 (ScSchedulesResult, 1);
  r->runs = g_ptr_array_new_with_free_func ((GDestroyNotify) run_free);
  r->schedules = g_ptr_array_new_with_free_func (g_free);
  for (guint kind = 0; kind < SC_N_RUNS; kind++)
    r->swapped[kind] = g_array_new (FALSE, FALSE, sizeof (ScSwapped));
  guint line = 1;
  for (const char *p = text, *const stop = text + length; p < stop; line++)
    {
      const char *const newline = memchr (p, '\n', (gsize) (stop - p)), *const end = newline != NULL ? newline : stop;
      const char *first = p;
      while (first < end && g_ascii_isspace (*first))
        first++;
      p = newline != NULL ? newline + 1 : stop;
      if (first == end)
        continue;
      if (r->runs->len > MAX_RUNS)
        {
          g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: found more than %u runs, expected at most that many", file, line, MAX_RUNS);
          return NULL;
        }
      if (!add_line (r, file, line, first, (gsize) (end - first), filter, error))
        return NULL;
    }
  if (r->runs->len == 0 && filter == NULL)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: found no runs, expected one JSON object a line", file);
      return NULL;
    }
  sum_up (r);
  return g_steal_pointer (&r);
}
