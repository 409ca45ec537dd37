/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-runs.c - forecasts published runs, in as many threads as wanted. */
#include "validate-runs-parts.h"
#include <math.h>
#include <string.h>
#include "models/forecast.h"
#include "models/layout.h"
#include "models/memory.h"
#include "models/optimizer.h"
#include "models/sharding.h"
#include "ordered.h"

#define GIB (1024.0 * 1024 * 1024)

static const char *const peak_names[] = {
  [SC_PEAK_ALLOCATED] = "allocated", [SC_PEAK_RESERVED] = "reserved", [SC_PEAK_DEVICE] = "device", [SC_PEAK_UNSPECIFIED] = "unspecified", [SC_PEAK_STATES] = "states",
};
G_STATIC_ASSERT (G_N_ELEMENTS (peak_names) == SC_N_PEAKS);

const char *
sc_peak_name (ScPeak peak)
{
  g_return_val_if_fail ((guint) peak < SC_N_PEAKS, NULL);
  return peak_names[peak];
}

double
sc_run_measured_peak (const ScRow *row, ScPeak peak)
{
  const ScRowMeasured *const m = &row->measured;
  const double peaks[SC_N_PEAKS] = { m->allocated_gib, m->reserved_gib, m->device_gib, m->unspecified_gib, m->model_state_gb * 1e9 / GIB };
  return peaks[peak] > 0 ? peaks[peak] : NAN;
}

double
sc_run_time_error (const ScRunResult *run)
{
  return run->asked_time ? run->step_s / run->row->step_s - 1 : NAN;
}

double
sc_run_peak_error (const ScRunResult *run, ScPeak peak)
{
  return run->asked_memory ? run->peak_gib[peak] / sc_run_measured_peak (run->row, peak) - 1 : NAN;
}

double
sc_run_memory_error (const ScRunResult *run)
{
  for (guint peak = 0; peak < SC_PEAK_STATES; peak++)
    if (isfinite (sc_run_measured_peak (run->row, (ScPeak) peak)))
      return sc_run_peak_error (run, (ScPeak) peak);
  return NAN;
}

/* ---- One row ---- */

static gboolean
has_peak (const ScRow *row)
{
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    if (isfinite (sc_run_measured_peak (row, (ScPeak) peak)))
      return TRUE;
  return row->measured.n_ranks > 0;
}

/* Model states that its authors count for a number of parameters (ZeRO, arXiv 1910.02054, table 1). */
static gboolean
is_states (const ScRow *row)
{
  return row->kind == SC_PUBLISHED_ANALYTIC_MEMORY && row->measured.model_state_gb > 0
         && sc_row_number_at (sc_row_at (row->json->root, "model"), "params_b", 0) > 0;
}

static void
ask (ScRunResult *run)
{
  const ScRow *const row = run->row;
  run->asked_time = row->kind == SC_PUBLISHED_TRAINING && row->complete_time != 0 && row->step_s > 0;
  run->asked_memory = row->kind == SC_PUBLISHED_TRAINING && row->complete_memory != 0 && (has_peak (row) || row->measured.oom >= 0);
  if (is_states (row))
    run->asked_memory = row->complete_memory != 0;
  run->step_s = run->fill = NAN;
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    run->peak_gib[peak] = NAN;
}

/* Why it is not asked. */
static char *
not_asked (ScRunResult *run, gboolean memory)
{
  const ScRow *const row = run->row;
  if (row->kind != SC_PUBLISHED_TRAINING)
    {
      run->out_of_scope = TRUE;
      return row->kind == SC_PUBLISHED_LAYER ? g_strdup ("kind layer: stepcast validate kernels")
                                       : g_strdup_printf ("kind %s is no run of training", sc_published_kind_name (row->kind));
    }
  if (row->missing != NULL && row->missing[0] != NULL)
    {
      g_autofree char *words = g_strjoinv (", ", row->missing);
      return g_strdup_printf ("missing: %s", words);
    }
  return g_strdup (memory ? "no figure of memory that is complete" : "no figure of time or memory that is complete");
}

/* The class whose ranks hold rank @rank: of its pipeline stage, the fullest. */
static const ScClassSummary *
class_of_rank (const ScSummary *s, guint32 rank)
{
  const guint stage = sc_layout_coord (&s->workload->plan, rank).pp;
  const ScClassSummary *found = NULL;
  for (guint i = 0; i < s->n_classes; i++)
    if (s->classes[i].stage == stage && (found == NULL || s->classes[i].peak_allocated_bytes > found->peak_allocated_bytes))
      found = &s->classes[i];
  return found;
}

static void
take_ranks (ScRunResult *run, const ScSummary *s)
{
  const ScRowMeasured *const m = &run->row->measured;
  if (m->n_ranks > s->gpus || m->n_reserved_ranks > s->gpus)
    return;
  run->allocated_gib = g_new0 (double, m->n_ranks + 1);
  run->reserved_gib = g_new0 (double, m->n_reserved_ranks + 1);
  for (guint r = 0; r < m->n_ranks; r++)
    run->allocated_gib[r] = (double) class_of_rank (s, r)->peak_allocated_bytes / GIB;
  for (guint r = 0; r < m->n_reserved_ranks; r++)
    run->reserved_gib[r] = (double) class_of_rank (s, r)->peak_reserved_bytes / GIB;
}

static void
take_memory (ScRunResult *run, const ScSummary *s, const ScRowFramework *framework)
{
  double most[SC_N_PEAKS] = { 0 };
  gboolean no_room = FALSE;
  run->fill = 0;
  for (guint i = 0; i < s->n_classes; i++)
    {
      const ScClassSummary *const c = &s->classes[i];
      no_room |= framework->retries_fail && c->n_early_retries > 0;
      run->fill = MAX (run->fill, (double) c->peak_device_bytes / (double) c->capacity_bytes);
      if (framework->logs_first && c->stage != 0)
        continue;
      most[SC_PEAK_ALLOCATED] = MAX (most[SC_PEAK_ALLOCATED], (double) (framework->allocated_late ? c->late_allocated_bytes : c->peak_allocated_bytes));
      most[SC_PEAK_RESERVED] = MAX (most[SC_PEAK_RESERVED], (double) (framework->last_step ? c->step_reserved_bytes : c->peak_reserved_bytes));
      most[SC_PEAK_DEVICE] = MAX (most[SC_PEAK_DEVICE], (double) c->peak_device_bytes);
    }
  most[SC_PEAK_UNSPECIFIED] = most[SC_PEAK_ALLOCATED];
  for (guint peak = 0; peak < SC_PEAK_STATES; peak++)
    run->peak_gib[peak] = most[peak] / GIB;
  run->oom = run->fill > 1 || no_room;
  take_ranks (run, s);
}

/* Bytes of a parameter's states, times all of them. */
static void
run_states (ScRunResult *run)
{
  const cJSON *const plan = sc_row_at (run->row->json->root, "plan");
  const char *const sharding = sc_row_text_at (plan, "sharding"), *const dtype = sc_row_text_at (plan, "dtype");
  const ScDtype width = g_strcmp0 (dtype, "bf16") == 0 ? SC_DTYPE_BF16 : SC_DTYPE_FP16;
  const double params = 1e9 * sc_row_number_at (sc_row_at (run->row->json->root, "model"), "params_b", 0);
  for (const ScShardingRow *const *s = sc_sharding_all (); *s != NULL; s++)
    if (g_strcmp0 ((*s)->name, sharding) == 0)
      {
        const ScStateBytes b = sc_sharding_states (*s, sc_optimizer_row (SC_OPTIMIZER_ADAM)->state_bytes, width, width, sc_row_count_at (plan, "dp", 1));
        run->peak_gib[SC_PEAK_STATES] = params * (b.weights + b.grads + b.optimizer + b.step) / GIB;
        return;
      }
  run->why = g_strdup (sharding != NULL ? "its sharding is not modelled" : "missing: plan.sharding");
}

/* Rows on the same machines ask for the same: one context for each topology and thread. */
static ScForecastContext *
context_of (GHashTable *contexts, const ScTopology *topology)
{
  ScForecastContext *context = g_hash_table_lookup (contexts, topology);
  union
  {
    const ScTopology *in;
    gpointer out;
  } key = { .in = topology }; /* GLib's tables take no const */
  if (context == NULL)
    g_hash_table_insert (contexts, key.out, context = sc_forecast_context_new (topology));
  return context;
}

static void
run_row (ScRunResult *run, ScRowSystems *systems, GHashTable *contexts)
{
  if (is_states (run->row))
    {
      run_states (run);
      return;
    }
  g_autoptr (ScRowRun) r = sc_row_run_new (systems, run->row, &run->why);
  if (r == NULL)
    return;
  g_autoptr (GError) error = NULL;
  const ScForecastOptions options = { .detail = SC_DETAIL_STAGE, .memory = SC_MEMORY_STAGES, .brief = TRUE, .context = context_of (contexts, r->topology) };
  g_ptr_array_add (r->ignored, NULL);
  run->ignored = g_strdupv ((char **) r->ignored->pdata);
  g_ptr_array_add (r->notes, NULL);
  run->notes = g_strjoinv (", ", (char **) r->notes->pdata);
  run->topology = g_strdup (r->topology_name);
  run->framework = g_strdup_printf ("%s %s", r->framework->name, r->framework->version);
  if (!sc_workload_check_topology (r->workload, r->topology, &error))
    {
      run->why = g_strdup (error->message);
      return;
    }
  g_autoptr (ScSummary) summary = sc_forecast (r->topology, r->workload, &options, &error);
  if (summary == NULL)
    {
      run->why = g_strdup (error->message);
      return;
    }
  run->step_s = sc_time_to_s (summary->step);
  take_memory (run, summary, r->framework);
}

/* ---- All of them ---- */

typedef struct
{
  GPtrArray    *queue; /* ScRunResult, borrowed */
  ScRowSystems *systems;
  const ScRunsOptions *options;
} Shared;

static gpointer
new_contexts (gpointer shared G_GNUC_UNUSED)
{
  return g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) sc_forecast_context_free);
}

static gpointer
run_item (gpointer shared, gpointer contexts, guint64 item)
{
  const Shared *const s = shared;
  run_row (g_ptr_array_index (s->queue, item), s->systems, contexts);
  return NULL;
}

static gboolean
tell_progress (gpointer data, guint64 item, gpointer result G_GNUC_UNUSED)
{
  const Shared *const s = data;
  if (s->options->progress != NULL)
    s->options->progress ((guint) item + 1, s->queue->len, s->options->progress_data);
  return TRUE;
}

/* Rows do not know of each other, so the order in which they run does not matter. */
static void
run_all (GPtrArray *queue, const ScSystems *rules, const ScRunsOptions *options)
{
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  Shared shared = { .queue = queue, .systems = systems, .options = options };
  const ScOrdered how = {
    .n = queue->len, .jobs = options->jobs, .shared = &shared, .start = new_contexts, .finish = (GDestroyNotify) g_hash_table_unref, .work = run_item,
    .take = tell_progress, .data = &shared,
  };
  sc_ordered_run (&how);
}

static void
run_result_free (ScRunResult *run)
{
  g_free (run->why);
  g_free (run->topology);
  g_free (run->framework);
  g_free (run->notes);
  g_strfreev (run->ignored);
  g_free (run->allocated_gib);
  g_free (run->reserved_gib);
  g_free (run);
}

static gboolean
matches (const ScRow *row, const char *filter)
{
  return filter == NULL || strstr (row->id, filter) != NULL || (row->group != NULL && strstr (row->group, filter) != NULL)
         || (row->key != NULL && strstr (row->key, filter) != NULL);
}

ScRunsResult *
sc_validate_runs (const ScRows *rows, const ScSystems *systems, const ScRunsOptions *options)
{
  ScRunsResult *const result = g_new0 (ScRunsResult, 1);
  result->runs = g_ptr_array_new_with_free_func ((GDestroyNotify) run_result_free);
  result->ignored = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) queue = g_ptr_array_new ();
  for (guint i = 0; i < rows->ignored->len; i++)
    g_ptr_array_add (result->ignored, g_strdup (g_ptr_array_index (rows->ignored, i)));
  for (guint i = 0; i < rows->rows->len; i++)
    {
      if (!matches (g_ptr_array_index (rows->rows, i), options->filter))
        continue;
      ScRunResult *const run = g_new0 (ScRunResult, 1);
      run->row = g_ptr_array_index (rows->rows, i);
      g_ptr_array_add (result->runs, run);
      ask (run);
      if (options->memory)
        run->asked_time = FALSE;
      if (run->asked_memory || run->asked_time)
        g_ptr_array_add (queue, run);
      else
        run->why = not_asked (run, options->memory);
    }
  run_all (queue, systems, options);
  for (guint i = 0; i < queue->len; i++)
    for (char **key = ((const ScRunResult *) g_ptr_array_index (queue, i))->ignored; key != NULL && *key != NULL; key++)
      if (!g_ptr_array_find_with_equal_func (result->ignored, *key, g_str_equal, NULL))
        g_ptr_array_add (result->ignored, g_strdup (*key));
  sc_runs_sum_up (result);
  return result;
}
