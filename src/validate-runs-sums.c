/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-runs-sums.c - errors by source, order inside sweeps, averages that count each source once. */
#include "validate-runs-parts.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>
#include "error-stat.h"

/* Sources whose own publishers call their figures smoke tests, or good to 40 %: shown, but not in the average over sources. */
static const char *const left_out[] = { "golden", "jz", NULL };

/* Sources with runs that were disturbed, many times slower than any plan explains: by their median. */
static const char *const by_median[] = { "nsweep", NULL };

static const ScRowErrors no_errors = { 0, NAN, NAN, NAN, NAN, NAN, NAN };

ScRowErrors
sc_row_errors_of (double *errors, guint n)
{
  if (n == 0)
    return no_errors;
  ScRowErrors e = { .n = n };
  gsl_sort (errors, 1, n);
  e.signed_mean = gsl_stats_mean (errors, 1, n);
  e.signed_median = gsl_stats_median_from_sorted_data (errors, 1, n);
  e.worst = fabs (errors[0]) > fabs (errors[n - 1]) ? errors[0] : errors[n - 1];
  for (guint i = 0; i < n; i++)
    errors[i] = fabs (errors[i]);
  gsl_sort (errors, 1, n);
  e.mean_abs = gsl_stats_mean (errors, 1, n);
  e.median_abs = gsl_stats_median_from_sorted_data (errors, 1, n);
  e.p90_abs = gsl_stats_quantile_from_sorted_data (errors, 1, n, 0.9);
  return e;
}

/* ---- Sources ---- */

static const char *
key_of (const ScRow *row)
{
  return row->key != NULL ? row->key : "(no source)";
}

typedef double (*ErrorOf) (const ScRunResult *run, guint which);

static double
time_error (const ScRunResult *run, guint which G_GNUC_UNUSED)
{
  return sc_run_time_error (run);
}

static double
memory_error (const ScRunResult *run, guint which G_GNUC_UNUSED)
{
  return sc_run_memory_error (run);
}

static double
peak_error (const ScRunResult *run, guint which)
{
  return sc_run_peak_error (run, (ScPeak) which);
}

static ScRowErrors
errors_by (GPtrArray *runs, ErrorOf error_of, guint which)
{
  g_autofree double *errors = g_new (double, runs->len + 1);
  guint n = 0;
  for (guint i = 0; i < runs->len; i++)
    {
      const double error = error_of (g_ptr_array_index (runs, i), which);
      if (isfinite (error))
        errors[n++] = error;
    }
  return sc_row_errors_of (errors, n);
}

/* Each rank that was printed by itself. */
static ScRowErrors
errors_of_ranks (GPtrArray *runs, gboolean reserved)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint i = 0; i < runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (runs, i);
      const ScRowMeasured *const m = &run->row->measured;
      const double *const measured = reserved ? m->reserved_by_rank_gib : m->allocated_by_rank_gib;
      const double *const predicted = reserved ? run->reserved_gib : run->allocated_gib;
      for (guint r = 0; run->asked_memory && predicted != NULL && r < (reserved ? m->n_reserved_ranks : m->n_ranks); r++)
        if (measured[r] > 0)
          {
            const double error = predicted[r] / measured[r] - 1;
            g_array_append_val (errors, error);
          }
    }
  return sc_row_errors_of ((double *) (gpointer) errors->data, errors->len);
}

static void
count_oom (GPtrArray *runs, ScOomCounts *counts)
{
  for (guint i = 0; i < runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (runs, i);
      const int measured = run->row->measured.oom;
      if (measured < 0 || !run->asked_memory || !isfinite (run->fill))
        continue;
      counts->n[measured != 0][run->oom]++;
      if (fabs (run->fill - 1) > 0.1)
        continue;
      counts->near_n++;
      counts->near_right += (measured != 0) == run->oom;
    }
}

static void
sum_up_source (ScSourceResult *s, GPtrArray *runs)
{
  for (guint i = 0; i < runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (runs, i);
      const gboolean asked = run->asked_time || run->asked_memory;
      s->rows++;
      s->asked += asked;
      s->out_of_scope += run->out_of_scope;
      s->incomplete += !asked && !run->out_of_scope;
      s->skipped += asked && run->why != NULL;
    }
  s->time = errors_by (runs, time_error, 0);
  s->memory = errors_by (runs, memory_error, 0);
  for (guint peak = 0; peak < SC_N_PEAKS; peak++)
    s->peaks[peak] = errors_by (runs, peak_error, peak);
  s->ranks[0] = errors_of_ranks (runs, FALSE);
  s->ranks[1] = errors_of_ranks (runs, TRUE);
  count_oom (runs, &s->oom);
}

/* Runs by what @name_of says of their rows: GPtrArray of GPtrArray, and their names in the same order. */
static GPtrArray *
split (GPtrArray *runs, const char *(*name_of) (const ScRow *row), GPtrArray *names)
{
  GPtrArray *const parts = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  g_autoptr (GHashTable) by_name = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < runs->len; i++)
    {
      const char *const name = name_of (((const ScRunResult *) g_ptr_array_index (runs, i))->row);
      if (name == NULL)
        continue;
      GPtrArray *part = g_hash_table_lookup (by_name, name);
      if (part == NULL)
        {
          part = g_ptr_array_new ();
          g_ptr_array_add (parts, part);
          g_ptr_array_add (names, (gpointer) (gsize) name);
          g_hash_table_insert (by_name, (gpointer) (gsize) name, part);
        }
      g_ptr_array_add (part, g_ptr_array_index (runs, i));
    }
  return parts;
}

/* ---- Groups ---- */

static const char *
group_of (const ScRow *row)
{
  return row->group;
}

/* Seconds of a token, whole job. */
static double
cost_of (const ScRunResult *run, double step_s)
{
  const cJSON *const root = run->row->json->root;
  return step_s / MAX (1, sc_row_number_at (sc_row_at (root, "plan"), "global_batch", 1) * sc_row_number_at (root, "seq", 1));
}

static ScGroupResult *
group_new (const char *name, GPtrArray *runs)
{
  g_autoptr (GPtrArray) judged = g_ptr_array_new ();
  for (guint i = 0; i < runs->len; i++)
    if (isfinite (sc_run_time_error (g_ptr_array_index (runs, i))))
      g_ptr_array_add (judged, g_ptr_array_index (runs, i));
  if (judged->len < SC_GROUP_LEAST)
    return NULL;
  ScGroupResult *const g = g_new0 (ScGroupResult, 1);
  g->name = name;
  g->n = judged->len;
  double order = 0;
  const ScRunResult *best = g_ptr_array_index (judged, 0);
  for (guint i = 0; i < judged->len; i++)
    {
      const ScRunResult *const a = g_ptr_array_index (judged, i);
      if (cost_of (a, a->row->step_s) < cost_of (best, best->row->step_s))
        best = a;
      for (guint j = i + 1; j < judged->len; j++)
        {
          const ScRunResult *const b = g_ptr_array_index (judged, j);
          const double measured = a->row->step_s - b->row->step_s, predicted = a->step_s - b->step_s;
          if (MAX (a->row->step_s, b->row->step_s) <= (1 + SC_GROUP_DIFFERENCE) * MIN (a->row->step_s, b->row->step_s))
            continue;
          g->n_pairs++;
          order += predicted * measured > 0 ? 1 : predicted * measured < 0 ? -1 : 0;
        }
    }
  g->tau = g->n_pairs > 0 ? order / g->n_pairs : NAN;
  guint before = 0;
  for (guint i = 0; i < judged->len; i++)
    {
      const ScRunResult *const a = g_ptr_array_index (judged, i);
      before += cost_of (a, a->step_s) < cost_of (best, best->step_s);
    }
  g->best_found = before < 3;
  return g;
}

static void
sum_up_groups (ScRunsResult *r)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GPtrArray) parts = split (r->runs, group_of, names);
  g_autoptr (GArray) taus = g_array_new (FALSE, FALSE, sizeof (double));
  r->groups = g_ptr_array_new_with_free_func (g_free);
  r->tau_worst = NAN;
  for (guint i = 0; i < parts->len; i++)
    {
      ScGroupResult *const g = group_new (g_ptr_array_index (names, i), g_ptr_array_index (parts, i));
      if (g == NULL)
        continue;
      g_ptr_array_add (r->groups, g);
      r->n_best_found += g->best_found;
      if (!isfinite (g->tau))
        continue;
      g_array_append_val (taus, g->tau);
      r->tau_worst = fmin (r->tau_worst, g->tau);
    }
  r->tau_median = sc_median ((double *) (gpointer) taus->data, taus->len);
}

/* ---- Averages ---- */

typedef struct
{
  guint n;
  double mean, median, signed_mean;
} Average;

static void
average_add (Average *a, const char *key, const ScRowErrors *e)
{
  if (e->n < SC_SOURCE_LEAST || g_strv_contains (left_out, key))
    return;
  const gboolean median = g_strv_contains (by_median, key);
  a->n++;
  a->mean += median ? e->median_abs : e->mean_abs;
  a->median += e->median_abs;
  a->signed_mean += median ? e->signed_median : e->signed_mean;
}

static void
sum_up_averages (ScRunsResult *r)
{
  Average time = { 0 }, memory = { 0 };
  for (guint i = 0; i < r->sources->len; i++)
    {
      const ScSourceResult *const s = g_ptr_array_index (r->sources, i);
      average_add (&time, s->key, &s->time);
      average_add (&memory, s->key, &s->memory);
    }
  r->n_time_sources = time.n;
  r->time_source_mean = time.mean / time.n;
  r->time_source_median = time.median / time.n;
  r->time_source_signed = time.signed_mean / time.n;
  r->n_memory_sources = memory.n;
  r->memory_source_mean = memory.mean / memory.n;
  r->memory_source_median = memory.median / memory.n;
  r->memory_source_signed = memory.signed_mean / memory.n;
}

void
sc_runs_sum_up (ScRunsResult *r)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GPtrArray) parts = split (r->runs, key_of, names);
  r->sources = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < parts->len; i++)
    {
      ScSourceResult *const s = g_new0 (ScSourceResult, 1);
      s->key = g_ptr_array_index (names, i);
      sum_up_source (s, g_ptr_array_index (parts, i));
      g_ptr_array_add (r->sources, s);
    }
  r->all.key = "all";
  sum_up_source (&r->all, r->runs);
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (r->runs, i);
      r->asked_time += run->asked_time;
      r->asked_memory += run->asked_memory;
      r->skipped_time += run->asked_time && run->why != NULL;
      r->skipped_memory += run->asked_memory && run->why != NULL;
    }
  sum_up_groups (r);
  sum_up_averages (r);
}

void
sc_runs_result_free (ScRunsResult *r)
{
  if (r == NULL)
    return;
  g_ptr_array_unref (r->runs);
  g_ptr_array_unref (r->sources);
  g_ptr_array_unref (r->groups);
  g_ptr_array_unref (r->ignored);
  g_free (r);
}

/* ---- Reasons ---- */

static int
by_number (gconstpointer a, gconstpointer b)
{
  const ScSkipReason *const x = a, *const y = b;
  return x->n != y->n ? (x->n > y->n ? -1 : 1) : strcmp (x->why, y->why);
}

GArray *
sc_runs_skip_reasons (const ScRunsResult *r)
{
  GArray *const reasons = g_array_new (FALSE, FALSE, sizeof (ScSkipReason));
  g_autoptr (GHashTable) found = g_hash_table_new (g_str_hash, g_str_equal); /* -> index + 1 */
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (r->runs, i);
      if (run->why == NULL || !(run->asked_time || run->asked_memory))
        continue;
      const guint index = GPOINTER_TO_UINT (g_hash_table_lookup (found, run->why));
      if (index > 0)
        {
          g_array_index (reasons, ScSkipReason, index - 1).n++;
          continue;
        }
      const ScSkipReason reason = { run->why, 1, run->row->id };
      g_array_append_val (reasons, reason);
      g_hash_table_insert (found, run->why, GUINT_TO_POINTER (reasons->len));
    }
  g_array_sort (reasons, by_number);
  return reasons;
}

double
sc_runs_mean_error (const ScRunsResult *r, gboolean memory)
{
  const guint n = memory ? r->n_memory_sources : r->n_time_sources;
  const ScRowErrors *const all = memory ? &r->all.memory : &r->all.time;
  return n > 0 ? (memory ? r->memory_source_mean : r->time_source_mean) : all->n > 0 ? all->mean_abs : NAN;
}
