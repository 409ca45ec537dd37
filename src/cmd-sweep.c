/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-sweep.c - stepcast sweep: forecasts every point of a grid. */
#include "cmd.h"
#include "grid-file.h"
#include "grid-json.h"
#include "grid-shard.h"
#include "grid-task.h"
#include "ordered.h"
#include "output.h"
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define MAX_KINDS 1000   /* of refusals that are told apart */
#define SHOWN_KINDS 8    /* of them in the summary */
#define PROGRESS_US 500000
#define LIST_BYTES (1 << 16)
#define DEFAULT_DETAIL "stage"

typedef struct
{
  char **set, **vary;
  char *device, *format, *output, *resume, *shard, *max_time, *detail;
  int jobs;
  gboolean dry_run, list, quiet;
} SweepOptions;

static void
sweep_options_clear (SweepOptions *o)
{
  g_strfreev (o->set);
  g_strfreev (o->vary);
  g_free (o->device);
  g_free (o->format);
  g_free (o->output);
  g_free (o->resume);
  g_free (o->shard);
  g_free (o->max_time);
  g_free (o->detail);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SweepOptions, sweep_options_clear)

/* ---- Options ---- */

/* --format, or the extension of the file where that is a format's name, or the first. */
static const ScGridFormat *
find_format (const SweepOptions *o, GError **error)
{
  const char *const file = o->resume != NULL ? o->resume : o->output;
  const char *const dot = file != NULL ? strrchr (file, '.') : NULL;
  const ScGridFormat *const format = o->format != NULL ? sc_grid_format_find (o->format) : dot != NULL ? sc_grid_format_find (dot + 1) : NULL;
  if (o->format != NULL && format == NULL)
    sc_cmd_fail_usage ("sweep", error, "--format: found \"%s\", expected jsonl or csv", o->format);
  return format != NULL || o->format != NULL ? format : sc_grid_format_all ()[0];
}

/* "90", "90s", "50m", "1.5h", "2d", "1:30:00" as SLURM writes it; microseconds. */
static gboolean
read_duration (const char *text, gint64 *ret_us, GError **error)
{
  static const struct
  {
    const char *unit;
    double seconds;
  } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
  guint hours, minutes, seconds;
  char rest;
  if (sscanf (text, "%u:%2u:%2u%c", &hours, &minutes, &seconds, &rest) == 3 && hours < 100000 && minutes < 60 && seconds < 60)
    {
      *ret_us = ((gint64) hours * 3600 + minutes * 60 + seconds) * G_USEC_PER_SEC;
      return TRUE;
    }
  char *end;
  const double value = g_ascii_strtod (text, &end);
  for (guint i = 0; i < G_N_ELEMENTS (units) && end != text; i++)
    if (strcmp (end, units[i].unit) == 0 && value >= 0 && value * units[i].seconds < 1e9)
      {
        *ret_us = (gint64) (value * units[i].seconds * G_USEC_PER_SEC);
        return TRUE;
      }
  return sc_cmd_fail_usage ("sweep", error, "--max-time: found \"%s\", expected a time such as 90s, 50m, 1.5h or 1:30:00", text);
}

/* What the command line and a sweep file have asked for together. */
typedef struct
{
  ScGridTask *task;
  ScShard shard;
  char   *output, *resume; /* with the shard's numbers; NULL: not given */
  gint64  max_us;          /* 0: no end */
} Plan;

static void
plan_clear (Plan *plan)
{
  g_clear_pointer (&plan->task, sc_grid_task_free);
  g_clear_pointer (&plan->output, g_free);
  g_clear_pointer (&plan->resume, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Plan, plan_clear)

static gboolean
check_options (const SweepOptions *o, int argc, GError **error)
{
  if (argc != 2 && argc != 3)
    return sc_cmd_fail_usage ("sweep", error, "found %d arguments, expected TOPOLOGY and WORKLOAD, or one sweep file", argc - 1);
  if (argc == 3 && o->vary == NULL)
    return sc_cmd_fail_usage ("sweep", error, "nothing varies: expected --vary, such as --vary plan.tp=1,2,4,8");
  if (o->output != NULL && o->resume != NULL)
    return sc_cmd_fail_usage ("sweep", error, "--output and --resume: expected one of them, --resume begins a new file as well");
  if (g_strcmp0 (o->resume, "-") == 0)
    return sc_cmd_fail_usage ("sweep", error, "--resume -: expected a file");
  if (g_strcmp0 (o->device, "-") == 0)
    return sc_cmd_fail_usage ("sweep", error, "--device -: expected a file, which is read for every topology");
  if (o->jobs < 0)
    return sc_cmd_fail_usage ("sweep", error, "--jobs: found %d, expected 0 (one for each processor) or more", o->jobs);
  return TRUE;
}

/* Overrides of the file, then those of the command line; NULL-ended, borrowed. */
static char **
join (char **a, char **b)
{
  GPtrArray *const all = g_ptr_array_new ();
  for (; a != NULL && *a != NULL; a++)
    g_ptr_array_add (all, *a);
  for (; b != NULL && *b != NULL; b++)
    g_ptr_array_add (all, *b);
  g_ptr_array_add (all, NULL);
  return (char **) g_ptr_array_free (all, FALSE);
}

static gboolean
check_file (const char *option, const char *path, int argc, char **argv, const SweepOptions *o, GError **error)
{
  if (path == NULL || strcmp (path, "-") == 0)
    return TRUE;
  for (int i = 1; i < argc; i++)
    if (sc_output_is_same (path, argv[i]))
      return sc_cmd_fail_usage ("sweep", error, "%s %s: would replace an input", option, path);
  if (o->device != NULL && sc_output_is_same (path, o->device))
    return sc_cmd_fail_usage ("sweep", error, "%s %s: would replace an input", option, path);
  return TRUE;
}

static gboolean
make_plan (const SweepOptions *o, int argc, char **argv, Plan *plan, GError **error)
{
  g_auto (ScGridSpec) spec = { .topology = NULL };
  plan->shard = (ScShard) { 0, 1 };
  if (!check_options (o, argc, error) || (o->shard != NULL && !sc_shard_parse (o->shard, g_getenv, &plan->shard, error))
      || (o->max_time != NULL && !read_duration (o->max_time, &plan->max_us, error)))
    return FALSE;
  plan->output = o->output != NULL && o->shard != NULL ? sc_shard_path (&plan->shard, o->output) : g_strdup (o->output);
  plan->resume = o->resume != NULL && o->shard != NULL ? sc_shard_path (&plan->shard, o->resume) : g_strdup (o->resume);
  if (!check_file ("--output", plan->output, argc, argv, o, error) || !check_file ("--resume", plan->resume, argc, argv, o, error))
    return FALSE;
  if (argc == 2 && !sc_grid_spec_load (argv[1], &spec, error))
    return FALSE;
  if (spec.grid == NULL)
    spec.grid = sc_grid_new ();
  for (char **vary = o->vary; vary != NULL && *vary != NULL; vary++)
    if (!sc_grid_add (spec.grid, *vary, error))
      return FALSE;
  ScDetail detail = SC_DETAIL_STAGE;
  const char *const detail_name = o->detail != NULL ? o->detail : spec.detail != NULL ? spec.detail : DEFAULT_DETAIL;
  const ScGridFormat *const format = find_format (o, error);
  if (format == NULL || !sc_cmd_find_detail ("sweep", detail_name, SC_DETAIL_STAGE, &detail, error))
    return FALSE;
  const char *const topology = argc == 3 ? argv[1] : spec.topology, *const workload = argc == 3 ? argv[2] : spec.workload;
  if (strcmp (topology, "-") == 0 && strcmp (workload, "-") == 0)
    return sc_cmd_fail_usage ("sweep", error, "found \"-\" for 2 inputs, expected standard input for one");
  g_autofree char **set = join (spec.set, o->set);
  plan->task = sc_grid_task_new (topology, workload, set, o->device, g_steal_pointer (&spec.grid), detail, format, error);
  return plan->task != NULL;
}

/* ---- Running ---- */

/* What the calling thread keeps while lines come. */
typedef struct
{
  const Plan *plan;
  const SweepOptions *options;
  ScGridFile *file;
  guint64  n, before;     /* points of this shard; of them there already */
  guint64  done;
  guint64  of[SC_N_POINT_STATUSES];
  GHashTable *reasons;    /* char * owned -> Reason * owned */
  double   best_s[SC_POINT_AT_RISK + 1]; /* by status: the shortest step, NAN: none, */
  guint64  best[SC_POINT_AT_RISK + 1];   /* and its point */
  gint64   start, end, shown; /* monotonic; end 0: none */
  sigset_t signals;       /* blocked, so that they wait until asked for */
  int      signal;        /* that ended it; 0: none */
  gboolean late;          /* --max-time did */
  gboolean progress;
  GError  *error;         /* of the output */
} Running;

typedef struct
{
  guint64 n;
  guint64 first; /* point */
} Reason;

static void
running_clear (Running *r)
{
  g_clear_pointer (&r->reasons, g_hash_table_unref);
  g_clear_error (&r->error);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Running, running_clear)

static guint64
point_of (const Running *r, guint64 item)
{
  return sc_shard_point (&r->plan->shard, r->before + item);
}

static void
show_progress (Running *r)
{
  const gint64 now = g_get_monotonic_time ();
  if (!r->progress || now - r->shown < PROGRESS_US)
    return;
  r->shown = now;
  const double spent_s = (double) (now - r->start) / G_USEC_PER_SEC, rate = spent_s > 0 ? (double) r->done / spent_s : 0;
  const guint64 done = r->before + r->done, left = r->n - done;
  const double eta = rate > 0 ? (double) left / rate : INFINITY;
  fprintf (stderr, "\r%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " points, %.1f %%, %.4g/s", done, r->n, 100.0 * (double) done / (double) r->n, rate);
  if (eta < 360000)
    fprintf (stderr, ", %u:%02u:%02u left", (guint) eta / 3600, (guint) eta / 60 % 60, (guint) eta % 60);
  fputs ("\033[K", stderr);
  fflush (stderr);
}

static void
clear_progress (const Running *r)
{
  if (r->progress)
    fputs ("\r\033[K", stderr);
}

static void
count (Running *r, guint64 point, const ScPointResult *result)
{
  r->done++;
  r->of[result->status]++;
  if (result->status <= SC_POINT_AT_RISK && !(result->step_s >= r->best_s[result->status]))
    {
      r->best_s[result->status] = result->step_s;
      r->best[result->status] = point;
    }
  if (result->reason == NULL)
    return;
  const char *const kind = g_hash_table_size (r->reasons) < MAX_KINDS || g_hash_table_contains (r->reasons, result->reason) ? result->reason : "for other reasons";
  Reason *reason = g_hash_table_lookup (r->reasons, kind);
  if (reason == NULL)
    {
      reason = g_new0 (Reason, 1);
      reason->first = point;
      g_hash_table_insert (r->reasons, g_strdup (kind), reason);
    }
  reason->n++;
}

/* Whether to go on. */
static gboolean
tick (gpointer data)
{
  Running *const r = data;
  sigset_t pending;
  if (sigpending (&pending) == 0)
    for (int signal = 1; signal < NSIG && r->signal == 0; signal++)
      if (sigismember (&r->signals, signal) == 1 && sigismember (&pending, signal) == 1)
        r->signal = signal;
  r->late = r->end != 0 && g_get_monotonic_time () >= r->end;
  show_progress (r);
  return r->signal == 0 && !r->late;
}

static gboolean
take (gpointer data, guint64 item, gpointer result)
{
  Running *const r = data;
  ScPointResult *const point = result;
  const gboolean written = sc_grid_file_append (r->file, point->line->str, point->line->len, tick, r, &r->error);
  if (written)
    count (r, point_of (r, item), point);
  sc_point_result_free (point);
  return written;
}

/* What the working threads share, which may outlive the command where a signal ends it. */
typedef struct
{
  ScGridTask *task;
  ScShard shard;
  guint64 before;
} Shared;

static void
shared_clear (gpointer data)
{
  sc_grid_task_free (((Shared *) data)->task);
}

static void
shared_unref (gpointer shared)
{
  g_atomic_rc_box_release_full (shared, shared_clear);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Shared, shared_unref)

static gpointer
start_worker (gpointer shared)
{
  return sc_grid_worker_new (((const Shared *) shared)->task);
}

static void
finish_worker (gpointer worker)
{
  sc_grid_worker_free (worker);
}

static gpointer
forecast (gpointer shared, gpointer worker, guint64 item)
{
  const Shared *const s = shared;
  return sc_grid_worker_forecast (worker, sc_shard_point (&s->shard, s->before + item));
}

static void
drop_result (gpointer result)
{
  sc_point_result_free (result);
}

/* ---- What it came to ---- */

static int
by_number (gconstpointer a, gconstpointer b, gpointer reasons)
{
  const Reason *const x = g_hash_table_lookup (reasons, *(const char *const *) a), *const y = g_hash_table_lookup (reasons, *(const char *const *) b);
  return x->n != y->n ? (x->n > y->n ? -1 : 1) : x->first < y->first ? -1 : x->first > y->first ? 1 : 0;
}

static void
print_reasons (const Running *r)
{
  guint n;
  g_autofree gpointer *keys = g_hash_table_get_keys_as_array (r->reasons, &n);
  g_qsort_with_data (keys, (gint) n, sizeof *keys, by_number, r->reasons);
  for (guint i = 0; i < MIN (n, SHOWN_KINDS); i++)
    {
      const Reason *const reason = g_hash_table_lookup (r->reasons, keys[i]);
      fprintf (stderr, "  %8" G_GUINT64_FORMAT "  %s (point %" G_GUINT64_FORMAT ")\n", reason->n, (const char *) keys[i], reason->first);
    }
  if (n > SHOWN_KINDS)
    fprintf (stderr, "            and %u more reasons\n", n - SHOWN_KINDS);
}

static void
print_best (const Running *r, const ScGridTask *task, ScPointStatus status)
{
  if (!isfinite (r->best_s[status]))
    return;
  g_auto (GStrv) set = sc_grid_set (task->grid, r->best[status]);
  g_autofree char *words = g_strjoinv (" ", set);
  fprintf (stderr, "The fastest that %s%s is point %" G_GUINT64_FORMAT ", %.4g s a step: %s\n", status == SC_POINT_FITS ? "fits" : "is at risk",
           r->before > 0 ? ", of these," : "", r->best[status], r->best_s[status], words);
}

static void
print_summary (const Running *r, const ScGridTask *task)
{
  static const char *const words[] = { "fit", "at risk", "do not fit", "refused", "failed inside stepcast (please report it)" };
  G_STATIC_ASSERT (G_N_ELEMENTS (words) == SC_N_POINT_STATUSES);
  fprintf (stderr, "%" G_GUINT64_FORMAT " point%s", r->done, r->done == 1 ? "" : "s");
  if (r->before > 0)
    fprintf (stderr, " (%" G_GUINT64_FORMAT " were there already)", r->before);
  const char *separator = ": ";
  for (guint i = 0; i < SC_N_POINT_STATUSES; i++)
    if (r->of[i] > 0)
      {
        fprintf (stderr, "%s%" G_GUINT64_FORMAT " %s", separator, r->of[i], words[i]);
        separator = ", ";
      }
  fputc ('\n', stderr);
  print_reasons (r);
  print_best (r, task, SC_POINT_FITS);
  if (!(r->best_s[SC_POINT_AT_RISK] >= r->best_s[SC_POINT_FITS])) /* worth a look where it is faster */
    print_best (r, task, SC_POINT_AT_RISK);
}

static void
print_stop (const Running *r)
{
  const guint64 left = r->n - r->before - r->done;
  const char *const file = r->plan->resume != NULL ? r->plan->resume : r->plan->output;
  fprintf (stderr, "stepcast: sweep: %s with %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " points left",
           r->signal != 0 ? g_strsignal (r->signal) : "--max-time is over", left, r->n);
  if (file != NULL && strcmp (file, "-") != 0)
    fprintf (stderr, "; --resume %s goes on", file);
  fputc ('\n', stderr);
}

/* ---- The output ---- */

/* Which line of the file is to be which point. */
typedef struct
{
  const ScGridTask *task;
  ScShard  shard;
  guint64  n;
  GString *begin;
} Expected;

static gboolean
check_line (gpointer data, guint64 index, const char *line, gsize length, GError **error)
{
  Expected *const e = data;
  if (index >= e->n)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "found more lines than the %" G_GUINT64_FORMAT " points of this sweep", e->n);
      return FALSE;
    }
  const ScGridPoint point = { e->task->grid, e->task->id, sc_shard_point (&e->shard, index) };
  g_string_truncate (e->begin, 0);
  e->task->format->write_begin (&point, e->begin);
  if (length >= e->begin->len && memcmp (line, e->begin->str, e->begin->len) == 0)
    return TRUE;
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE,
               "expected that of point %" G_GUINT64_FORMAT ": this is another sweep's (other inputs, --set, --vary, --detail or version of stepcast), another shard's, or none",
               point.point);
  return FALSE;
}

static ScGridFile *
open_output (const Plan *plan, const ScGridTask *task, guint64 n, guint64 *ret_before, GError **error)
{
  g_autoptr (GString) header = g_string_new (NULL);
  task->format->write_header (task->grid, header);
  *ret_before = 0;
  if (plan->resume == NULL)
    {
      ScGridFile *const file = sc_grid_file_create (plan->output != NULL ? plan->output : "-", error);
      if (file == NULL || sc_grid_file_append (file, header->str, header->len, NULL, NULL, error))
        return file;
      sc_grid_file_close (file, NULL);
      return NULL;
    }
  Expected expected = { task, plan->shard, n, g_string_new (NULL) };
  if (header->len > 0)
    g_string_truncate (header, header->len - 1);
  ScGridFile *const file = sc_grid_file_resume (plan->resume, header->len > 0 ? header->str : NULL, check_line, &expected, ret_before, error);
  g_string_free (expected.begin, TRUE);
  return file;
}

/* SIGTERM and SIGINT wait until tick() asks for them, in all threads that begin from here on. */
static void
block_signals (Running *r)
{
  sigemptyset (&r->signals);
  sigaddset (&r->signals, SIGTERM);
  sigaddset (&r->signals, SIGINT);
  pthread_sigmask (SIG_BLOCK, &r->signals, NULL);
}

/* Forecasts what is left of the shard. */
static gboolean
run_points (Running *r, Shared *shared, GError **error)
{
  const ScOrdered how = {
    .n = r->n - r->before,
    .jobs = (guint) r->options->jobs,
    .shared = g_atomic_rc_box_acquire (shared),
    .shared_free = shared_unref,
    .start = start_worker,
    .finish = finish_worker,
    .work = forecast,
    .drop = drop_result,
    .take = take,
    .tick = tick,
    .data = r,
  };
  sc_ordered_run (&how);
  clear_progress (r);
  g_autoptr (GError) why = NULL;
  const gboolean closed = sc_grid_file_close (g_steal_pointer (&r->file), &why);
  if (r->error == NULL && closed)
    return TRUE;
  g_propagate_error (error, r->error != NULL ? g_steal_pointer (&r->error) : g_steal_pointer (&why));
  return FALSE;
}

static ScStatus
run_plan (const SweepOptions *options, Plan *plan, GError **error)
{
  g_autoptr (Shared) shared = g_atomic_rc_box_new0 (Shared);
  const ScGridTask *const task = shared->task = g_steal_pointer (&plan->task);
  g_auto (Running) r = { .plan = plan, .options = options, .best_s = { NAN, NAN } };
  r.n = sc_shard_n_points (&plan->shard, task->grid->n_points);
  r.reasons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  r.progress = !options->quiet && isatty (STDERR_FILENO);
  block_signals (&r);
  r.file = open_output (plan, task, r.n, &r.before, error);
  if (r.file == NULL)
    return SC_STATUS_CANNOT_CREATE;
  shared->shard = plan->shard;
  shared->before = r.before;
  r.start = g_get_monotonic_time ();
  r.end = options->max_time != NULL ? r.start + plan->max_us : 0;
  if (!run_points (&r, shared, error))
    return SC_STATUS_IO;
  if (!options->quiet)
    print_summary (&r, task);
  if (r.before + r.done == r.n)
    return r.of[SC_POINT_ERROR] > 0 ? SC_STATUS_INTERNAL : SC_STATUS_OK;
  print_stop (&r);
  return r.signal != 0 ? (ScStatus) (SC_STATUS_SIGNAL + r.signal) : SC_STATUS_STOPPED;
}

/* ---- Without running ---- */

static void
write_count (const Plan *plan, GString *out)
{
  const ScGrid *const grid = plan->task->grid;
  g_string_append_printf (out, "%" G_GUINT64_FORMAT " points:", grid->n_points);
  for (guint i = 0; i < grid->axes->len; i++)
    {
      const ScGridAxis *const axis = g_ptr_array_index (grid->axes, i);
      g_autofree char *keys = g_strjoinv (",", axis->keys);
      g_string_append_printf (out, "%s %u of %s", i > 0 ? " x" : "", axis->n_values, keys);
    }
  g_string_append_c (out, '\n');
  if (plan->shard.n > 1)
    g_string_append_printf (out, "%" G_GUINT64_FORMAT " of them in shard %" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT "\n",
                            sc_shard_n_points (&plan->shard, grid->n_points), plan->shard.index, plan->shard.n);
}

static gboolean
list_points (const Plan *plan, GError **error)
{
  const ScGrid *const grid = plan->task->grid;
  ScGridFile *const file = sc_grid_file_create (plan->output != NULL ? plan->output : "-", error);
  g_autoptr (GString) line = g_string_new (NULL);
  const guint64 n = sc_shard_n_points (&plan->shard, grid->n_points);
  gboolean ok = file != NULL;
  for (guint64 k = 0; ok && k < n; k++)
    {
      const guint64 point = sc_shard_point (&plan->shard, k);
      g_auto (GStrv) set = sc_grid_set (grid, point);
      g_autofree char *words = g_strjoinv (" ", set);
      g_string_append_printf (line, "%" G_GUINT64_FORMAT " %s\n", point, words);
      if (line->len >= LIST_BYTES || k + 1 == n)
        {
          ok = sc_grid_file_append (file, line->str, line->len, NULL, NULL, error);
          g_string_truncate (line, 0);
        }
    }
  return file != NULL && sc_grid_file_close (file, ok ? error : NULL) && ok;
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (SweepOptions) options = { .format = NULL };
  g_auto (Plan) plan = { .task = NULL };
  const GOptionEntry entries[] = {
    { "vary", 'V', G_OPTION_FLAG_NONE, G_OPTION_ARG_FILENAME_ARRAY, &options.vary,
      "Let keys take several values (repeatable): plan.tp=1,2,4,8, plan.pp=1:16:x2, plan.tp,plan.pp=1,8/2,4", "KEY=VALUES" },
    { "set", 's', G_OPTION_FLAG_NONE, G_OPTION_ARG_FILENAME_ARRAY, &options.set, "Override one input key of all points (repeatable)", "KEY=VALUE" },
    { "device", 0, G_OPTION_FLAG_NONE, G_OPTION_ARG_FILENAME, &options.device, "Use this device file in place of the topology's GPU", "FILE" },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "jsonl or csv; default: by the extension of the file, else jsonl", "NAME" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "Write to this new file", "FILE" },
    { "resume", 'r', 0, G_OPTION_ARG_FILENAME, &options.resume, "Go on with this file, or begin it", "FILE" },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "Threads; default: one for each processor", "N" },
    { "shard", 0, 0, G_OPTION_ARG_FILENAME, &options.shard, "Do part I, from 0, of N; auto: as SLURM, MPI or Kubernetes have it", "I/N" },
    { "max-time", 0, 0, G_OPTION_ARG_FILENAME, &options.max_time, "Stop after 90s, 50m, 1.5h or 1:30:00, with status 75 where points are left", "TIME" },
    { "detail", 0, 0, G_OPTION_ARG_FILENAME, &options.detail, "kernel, layer or stage; default: stage", "NAME" },
    { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &options.dry_run, "Say how many points, and run none", NULL },
    { "list", 0, 0, G_OPTION_ARG_NONE, &options.list, "List the points, and run none", NULL },
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &options.quiet, "No progress and no summary", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  if (!make_plan (&options, argc, argv, &plan, error))
    return SC_STATUS_USAGE;
  if (options.list)
    return list_points (&plan, error) ? SC_STATUS_OK : SC_STATUS_IO;
  if (!options.dry_run)
    return run_plan (&options, &plan, error);
  write_count (&plan, out);
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_sweep = {
  .name = "sweep",
  .summary = "Forecast every point of a grid of plans and clusters",
  .usage = "TOPOLOGY WORKLOAD --vary KEY=VALUES... | SWEEP.json",
  .help = "TOPOLOGY and WORKLOAD as in stepcast run; a sweep file names both, and what varies (stepcast list fields).\n"
          "\n"
          "--vary takes a list, in which 1:16 counts, 1:16:+3 counts in steps and 1:16:x2 doubles.  Several of them make\n"
          "a grid, the last one fastest.  Keys that vary together are joined by commas, and so are their values; groups\n"
          "are parted by slashes.  Keys are those of --set, so a plan.tp of a workload with plan.gpus changes plan.dp.\n"
          "\n"
          "One line for each point, in the order of the grid whatever --jobs is, written as soon as it is known: status\n"
          "fits, at_risk, does_not_fit or refused (why says why), the step, where its time goes, and memory; doc/sweep.md\n"
          "names the columns.  Nothing that is wrong with a point ends the sweep.  What came of it is summed up on\n"
          "standard error: how many of each, why points were refused, and the fastest that fits.\n"
          "\n"
          "--resume FILE begins FILE, or goes on where a kill left it; the same command line may be repeated until it is\n"
          "complete.  A file of another sweep is refused.  In FILE, %i and %n are index and number of the shard.\n"
          "Shards are put together by stepcast merge.\n"
          "\n"
          "Exit status: 0 all points have their line, 75 --max-time was over before, 130 and 143 SIGINT and SIGTERM were;\n"
          "what is done is in the file then.",
  .run = run,
};
