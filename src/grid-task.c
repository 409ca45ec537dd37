/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-task.c - one point: its overrides on both inputs, checked and forecast like any others. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "grid-task.h"
#include "cmd.h"
#include "library.h"
#include "topology-json.h"
#include "workload-json.h"
#include <math.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "(unconfigured)"
#endif

#define KEPT 16 /* topologies that a worker remembers */
#define RENEWED 4096 /* forecasts after which a context begins anew, so that memory does not grow with the grid */

/* ---- Workers ---- */

/* A topology of the grid, and what forecasts on it share. */
typedef struct
{
  gboolean     used;
  guint64      number; /* sc_grid_topology() */
  guint64      last;   /* use of the worker */
  ScTopology  *topology; /* NULL: refused */
  ScForecastContext *context;
  guint        n_forecasts; /* with it */
  GError      *why;
} Kept;

struct _ScGridWorker
{
  const ScGridTask *task; /* borrowed */
  Kept    kept[KEPT];
  guint64 n_uses;
};

static void
kept_clear (Kept *kept)
{
  g_clear_pointer (&kept->context, sc_forecast_context_free);
  g_clear_pointer (&kept->topology, sc_topology_free);
  g_clear_error (&kept->why);
  kept->used = FALSE;
}

ScGridWorker *
sc_grid_worker_new (const ScGridTask *task)
{
  ScGridWorker *const worker = g_new0 (ScGridWorker, 1);
  worker->task = task;
  return worker;
}

void
sc_grid_worker_free (ScGridWorker *worker)
{
  if (worker == NULL)
    return;
  for (guint i = 0; i < KEPT; i++)
    kept_clear (&worker->kept[i]);
  g_free (worker);
}

/* --set, then what the grid has for @point: NULL-ended, borrowed from the task and from @own. */
static char **
all_overrides (const ScGridTask *task, char **own)
{
  GPtrArray *const set = g_ptr_array_new ();
  for (char **one = task->set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (set, *one);
  for (char **one = own; *one != NULL; one++)
    g_ptr_array_add (set, *one);
  g_ptr_array_add (set, NULL);
  return (char **) g_ptr_array_free (set, FALSE);
}

static Kept *
topology_of (ScGridWorker *worker, guint64 point, char **set)
{
  const ScGridTask *const task = worker->task;
  const guint64 number = sc_grid_topology (task->grid, point);
  Kept *oldest = &worker->kept[0];
  worker->n_uses++;
  for (guint i = 0; i < KEPT; i++)
    {
      Kept *const kept = &worker->kept[i];
      if (kept->used && kept->number == number)
        {
          kept->last = worker->n_uses;
          return kept;
        }
      if (!kept->used || (oldest->used && kept->last < oldest->last))
        oldest = kept;
    }
  kept_clear (oldest);
  *oldest = (Kept) { .used = TRUE, .number = number, .last = worker->n_uses };
  oldest->topology = sc_topology_from_text (task->topology_file, task->topology_text, task->topology_length, set, task->device, &oldest->why);
  return oldest;
}

/* The point's inputs; *ret_workload is yours, the topology the worker's.  FALSE: they cannot be. */
static gboolean
read_point (ScGridWorker *worker, guint64 point, Kept **ret_kept, ScWorkload **ret_workload, GError **error)
{
  const ScGridTask *const task = worker->task;
  g_auto (GStrv) own = sc_grid_set (task->grid, point);
  g_autofree char **set = all_overrides (task, own);
  Kept *const kept = topology_of (worker, point, set);
  if (kept->topology == NULL)
    {
      g_propagate_error (error, g_error_copy (kept->why));
      return FALSE;
    }
  g_autoptr (ScWorkload) workload = sc_workload_from_text (task->workload_file, task->workload_text, task->workload_length, set, error);
  if (workload == NULL || !sc_workload_check_topology (workload, kept->topology, error) || !sc_workload_check_modelled (workload, error))
    return FALSE;
  *ret_kept = kept;
  *ret_workload = g_steal_pointer (&workload);
  return TRUE;
}

/* "/plan/tp: ...", without the file and the --set before it: the same wherever the files lie. */
static const char *
reason_of (const GError *error)
{
  const char *const pointer = strstr (error->message, ": /");
  return pointer != NULL ? pointer + 2 : error->message;
}

static ScForecastContext *
context_of (Kept *kept)
{
  if (kept->n_forecasts++ % RENEWED == 0)
    {
      sc_forecast_context_free (kept->context);
      kept->context = sc_forecast_context_new (kept->topology);
    }
  return kept->context;
}

static char *
without_numbers (const char *text)
{
  GString *const kind = g_string_new (NULL);
  for (const char *p = text; *p != '\0';)
    if (g_ascii_isdigit (*p))
      {
        g_string_append_c (kind, 'N');
        while (g_ascii_isdigit (*p) || (*p == '.' && g_ascii_isdigit (p[1])))
          p++;
      }
    else
      g_string_append_c (kind, *p++);
  return g_string_free (kind, FALSE);
}

static ScPointStatus
status_of_error (const GError *error)
{
  const ScStatus status = sc_status_of_error (error);
  const gboolean refused = status == SC_STATUS_USAGE || status == SC_STATUS_DATA || status == SC_STATUS_NO_INPUT || status == SC_STATUS_UNAVAILABLE;
  return refused ? SC_POINT_REFUSED : SC_POINT_ERROR;
}

static ScPointStatus
status_of_verdict (ScVerdict verdict)
{
  return verdict == SC_VERDICT_FITS ? SC_POINT_FITS : verdict == SC_VERDICT_AT_RISK ? SC_POINT_AT_RISK : SC_POINT_DOES_NOT_FIT;
}

ScPointResult *
sc_grid_worker_forecast (ScGridWorker *worker, guint64 point)
{
  const ScGridTask *const task = worker->task;
  const ScGridPoint where = { task->grid, task->id, point };
  ScPointResult *const result = g_new0 (ScPointResult, 1);
  Kept *kept = NULL;
  g_autoptr (ScWorkload) workload = NULL;
  g_autoptr (ScSummary) summary = NULL;
  g_autoptr (GError) error = NULL;
  result->step_s = NAN;
  result->line = g_string_new (NULL);
  if (read_point (worker, point, &kept, &workload, &error))
    {
      const ScForecastOptions how = { .detail = task->detail, .brief = TRUE, .context = context_of (kept) };
      summary = sc_forecast (kept->topology, workload, &how, &error);
    }
  if (summary != NULL)
    {
      result->status = status_of_verdict (summary->verdict);
      result->step_s = sc_time_to_s (summary->step);
    }
  else
    {
      result->status = status_of_error (error);
      result->reason = without_numbers (reason_of (error));
    }
  task->format->write (&where, result->status, summary, summary == NULL ? reason_of (error) : NULL, result->line);
  return result;
}

void
sc_point_result_free (ScPointResult *result)
{
  if (result == NULL)
    return;
  g_string_free (result->line, TRUE);
  g_free (result->reason);
  g_free (result);
}

/* ---- The task ---- */

void
sc_grid_task_free (ScGridTask *task)
{
  if (task == NULL)
    return;
  g_free (task->topology_file);
  g_free (task->topology_text);
  g_free (task->workload_file);
  g_free (task->workload_text);
  g_free (task->device);
  g_strfreev (task->set);
  g_clear_pointer (&task->grid, sc_grid_free);
  g_free (task);
}

/* Lengths keep "ab", "c" and "a", "bc" apart. */
static void
add_to_sum (GChecksum *sum, const char *bytes, gsize length)
{
  char header[32];
  g_snprintf (header, sizeof header, "%" G_GSIZE_FORMAT ":", length);
  g_checksum_update (sum, (const guchar *) header, -1);
  g_checksum_update (sum, (const guchar *) bytes, (gssize) length);
}

static void
add_text_to_sum (GChecksum *sum, const char *text)
{
  add_to_sum (sum, text != NULL ? text : "", text != NULL ? strlen (text) : 0);
}

/* What other files the inputs name, at the first point. */
static void
add_files_to_sum (GChecksum *sum, const GPtrArray *files)
{
  for (guint i = 0; files != NULL && i < files->len; i++)
    {
      g_autofree char *text = NULL;
      gsize length = 0;
      if (g_file_get_contents (g_ptr_array_index (files, i), &text, &length, NULL))
        add_to_sum (sum, text, length);
    }
}

static void
make_id (ScGridTask *task, const ScTopology *topology, const ScWorkload *workload)
{
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  add_text_to_sum (sum, "stepcast sweep " PACKAGE_VERSION);
  add_to_sum (sum, task->topology_text, task->topology_length);
  add_to_sum (sum, task->workload_text, task->workload_length);
  g_autofree char *device = NULL;
  gsize length = 0;
  if (task->device != NULL && g_file_get_contents (task->device, &device, &length, NULL))
    add_to_sum (sum, device, length);
  else
    add_text_to_sum (sum, task->device);
  for (char **one = task->set; one != NULL && *one != NULL; one++)
    add_text_to_sum (sum, *one);
  add_files_to_sum (sum, topology != NULL ? topology->files : NULL);
  add_files_to_sum (sum, workload != NULL ? workload->files : NULL);
  add_text_to_sum (sum, sc_detail_name (task->detail));
  for (guint i = 0; i < task->grid->axes->len; i++)
    {
      const ScGridAxis *const axis = g_ptr_array_index (task->grid->axes, i);
      for (guint k = 0; k < axis->n_keys; k++)
        add_text_to_sum (sum, axis->keys[k]);
      for (guint k = 0; k < axis->n_keys * axis->n_values; k++)
        add_text_to_sum (sum, axis->json[k]);
    }
  g_strlcpy (task->id, g_checksum_get_string (sum), sizeof task->id);
}

/* Whether @error would be the same at every point: what is wrong is a file, or a key of the command line. */
static gboolean
is_of_all_points (const GError *error)
{
  if (g_error_matches (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT))
    return strstr (error->message, ": unknown key \"") != NULL;
  return g_error_matches (error, SC_INPUT_ERROR, SC_INPUT_ERROR_SYNTAX) || g_error_matches (error, SC_INPUT_ERROR, SC_INPUT_ERROR_OVERRIDE)
         || error->domain == SC_LIBRARY_ERROR;
}

/* What came from --vary is to be found there. */
static void
rename_option (const ScGrid *grid, GError *error)
{
  for (guint i = 0; i < grid->axes->len && g_str_has_prefix (error->message, "--set "); i++)
    for (char **key = ((const ScGridAxis *) g_ptr_array_index (grid->axes, i))->keys; *key != NULL; key++)
      {
        g_autofree char *begin = g_strconcat ("--set ", *key, "=", NULL);
        if (!g_str_has_prefix (error->message, begin))
          continue;
        char *const message = g_strconcat ("--vary ", error->message + strlen ("--set "), NULL);
        g_free (error->message);
        error->message = message;
        return;
      }
}

/* Asks the first point, and names the sweep. */
static gboolean
check_inputs (ScGridTask *task, GError **error)
{
  g_auto (GStrv) own = sc_grid_set (task->grid, 0);
  g_autofree char **set = all_overrides (task, own);
  GError *why[2] = { NULL, NULL };
  g_autoptr (ScTopology) topology =
      sc_topology_from_text (task->topology_file, task->topology_text, task->topology_length, set, task->device, &why[0]);
  g_autoptr (ScWorkload) workload = sc_workload_from_text (task->workload_file, task->workload_text, task->workload_length, set, &why[1]);
  GError *first = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (why); i++)
    if (why[i] != NULL && first == NULL && is_of_all_points (why[i]))
      first = why[i];
    else
      g_clear_error (&why[i]);
  if (first != NULL)
    {
      rename_option (task->grid, first);
      g_propagate_error (error, first);
    }
  else
    make_id (task, topology, workload);
  return first == NULL;
}

ScGridTask *
sc_grid_task_new (const char *topology, const char *workload, char **set, const char *device, ScGrid *grid, ScDetail detail,
                  const ScGridFormat *format, GError **error)
{
  g_autoptr (ScGridTask) task = g_new0 (ScGridTask, 1);
  task->grid = grid;
  task->set = g_strdupv (set);
  task->device = g_strdup (device);
  task->detail = detail;
  task->format = format;
  task->topology_text = sc_library_load (SC_KIND_TOPOLOGY, topology, &task->topology_file, &task->topology_length, error);
  if (task->topology_text == NULL)
    return NULL;
  task->workload_text = sc_library_load (SC_KIND_WORKLOAD, workload, &task->workload_file, &task->workload_length, error);
  return task->workload_text != NULL && check_inputs (task, error) ? g_steal_pointer (&task) : NULL;
}
