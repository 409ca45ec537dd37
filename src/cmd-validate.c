/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-validate.c - stepcast validate: parts of the model against published measurements. */
#include "cmd.h"
#include "json-in.h"
#include "library.h"
#include "validate-collectives.h"
#include "validate-kernels.h"
#include "validate-runs.h"
#include "validate-schedules.h"
#include <stdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef struct
{
  char **rows; /* NULL-ended, or NULL */
  char *filter, *format, *hold_out;
  gint jobs;
  gboolean check;
} ValidateOptions;

static void
validate_options_clear (ValidateOptions *options)
{
  g_strfreev (options->rows);
  g_free (options->filter);
  g_free (options->format);
  g_free (options->hold_out);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ValidateOptions, validate_options_clear)

/* The only --rows there is, @otherwise without one; NULL: there are several. */
static const char *
only_rows (const ValidateOptions *options, const char *otherwise, GError **error)
{
  if (options->rows == NULL)
    return otherwise;
  if (options->rows[1] == NULL)
    return options->rows[0];
  sc_cmd_fail_usage ("validate", error, "--rows: found %u files, expected one: several are for runs and memory", g_strv_length (options->rows));
  return NULL;
}

/* ---- Collectives ---- */

/* What --filter looks at: all that tells sweeps apart. */
static gboolean
sweep_matches (GRegex *filter, const ScSweep *s)
{
  g_autofree char *text = g_strdup_printf ("%s %s %s %u GPUs, %u nodes, %s %s %s %s %s", s->id, s->collective, s->gpu, s->gpus, s->nodes,
                                           s->fabric != NULL ? s->fabric : "", s->nccl != NULL ? s->nccl : "",
                                           s->algo != NULL ? s->algo : "", s->note != NULL ? s->note : "",
                                           s->source != NULL ? s->source : "");
  return g_regex_match (filter, text, (GRegexMatchFlags) 0, NULL);
}

static GRegex *
filter_new (const char *pattern, GError **error)
{
  g_autoptr (GError) why = NULL;
  GRegex *const filter = g_regex_new (pattern, G_REGEX_CASELESS, (GRegexMatchFlags) 0, &why);
  if (filter == NULL)
    sc_cmd_fail_usage ("validate", error, "--filter: %s", why->message);
  return filter;
}

static gboolean
keep_matching (GPtrArray *sweeps, const char *pattern, GError **error)
{
  g_autoptr (GRegex) filter = filter_new (pattern, error);
  if (filter == NULL)
    return FALSE;
  for (guint i = sweeps->len; i-- > 0;)
    if (!sweep_matches (filter, g_ptr_array_index (sweeps, i)))
      g_ptr_array_remove_index (sweeps, i);
  return sweeps->len > 0 ? TRUE : sc_cmd_fail_usage ("validate", error, "--filter: \"%s\" leaves no sweep", pattern);
}

static gboolean
validate_collectives (const ValidateOptions *options, GString *out, GError **error)
{
  if (options->hold_out != NULL)
    return sc_cmd_fail_usage ("validate", error, "--hold-out is for kernels");
  const ScCollectivesFormat *format = sc_collectives_formats ();
  while (options->format != NULL && format->name != NULL && strcmp (format->name, options->format) != 0)
    format++;
  if (format->name == NULL)
    return sc_cmd_fail_usage ("validate", error, "--format: found \"%s\", expected text, csv, json or markdown", options->format);
  if (options->jobs < 0)
    return sc_cmd_fail_usage ("validate", error, "--jobs: found %d, expected 0 (one for each processor) or more", options->jobs);
  g_auto (GStrv) ignored = NULL;
  const char *const file = only_rows (options, "collectives", error);
  g_autoptr (GPtrArray) sweeps = file != NULL ? sc_sweeps_load (file, &ignored, error) : NULL;
  if (sweeps == NULL || (options->filter != NULL && !keep_matching (sweeps, options->filter, error)))
    return FALSE;
  g_autoptr (ScSystems) systems = sc_systems_load ("systems", error);
  if (systems == NULL)
    return FALSE;
  g_autoptr (ScCollectivesResult) result = sc_validate_collectives (systems, sweeps, (guint) options->jobs);
  format->write (result, out);
  if (ignored[0] != NULL && strcmp (format->name, "text") == 0)
    {
      g_autofree char *keys = g_strjoinv (", ", ignored);
      g_string_append_printf (out, "\nkeys that were not read: %s\n", keys);
    }
  if (!options->check || result->passes)
    return TRUE;
  if (result->errors.all.n == 0)
    {
      const ScSweepResult *const first = g_ptr_array_index (result->sweeps, 0);
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: no row of %u sweep%s could be judged; %s: %s", result->sweeps->len,
                   result->sweeps->len == 1 ? "" : "s", first->sweep->id, first->skipped);
      return FALSE;
    }
  GString *missed = g_string_new (NULL);
  for (guint f = 0; f < SC_N_FAMILIES; f++)
    if (!result->families[f].passes)
      g_string_append_printf (missed, "%s%s", missed->len > 0 ? ", " : "", sc_family_name ((ScFamily) f));
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: %s: the error is above the target", missed->str);
  g_string_free (missed, TRUE);
  return FALSE;
}

/* ---- Kernels ---- */

static gboolean
row_matches (GRegex *filter, const ScKernelRow *r)
{
  const gboolean kernel = r->kind == SC_ROW_KERNEL;
  g_autofree char *layer = r->json != NULL ? cJSON_PrintUnformatted (r->json->root) : NULL;
  g_autofree char *text = g_strdup_printf ("%s %s %s %s %s %s %s", r->gpu != NULL ? r->gpu : "", kernel ? sc_kernel_class_name (r->kernel.class) : "",
                                           kernel && r->kernel.class >= SC_KERNEL_ELEMENTWISE ? sc_op_name (r->kernel.op) : "",
                                           kernel ? sc_dtype_name (r->kernel.dtype) : "", r->stack != NULL ? r->stack : "",
                                           r->source != NULL ? r->source : "", layer != NULL ? layer : "");
  return g_regex_match (filter, text, (GRegexMatchFlags) 0, NULL);
}

static gboolean
keep_matching_rows (ScKernelRows *rows, const char *pattern, GError **error)
{
  g_autoptr (GRegex) filter = filter_new (pattern, error);
  if (filter == NULL)
    return FALSE;
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_kernel_row_free);
  for (guint i = 0; i < rows->rows->len; i++)
    if (row_matches (filter, g_ptr_array_index (rows->rows, i)))
      {
        g_ptr_array_add (kept, g_ptr_array_index (rows->rows, i));
        rows->rows->pdata[i] = NULL; /* moved */
      }
  g_ptr_array_unref (rows->rows);
  rows->rows = g_steal_pointer (&kept);
  return rows->rows->len > 0 ? TRUE : sc_cmd_fail_usage ("validate", error, "--filter: \"%s\" leaves no row", pattern);
}

static gboolean
validate_kernels (const ValidateOptions *options, GString *out, GError **error)
{
  const ScKernelsFormat *format = sc_kernels_formats ();
  while (options->format != NULL && format->name != NULL && strcmp (format->name, options->format) != 0)
    format++;
  if (format->name == NULL)
    return sc_cmd_fail_usage ("validate", error, "--format: found \"%s\", expected text, csv, json or markdown", options->format);
  guint rule = 0;
  while (options->hold_out != NULL && g_strcmp0 (sc_hold_out_name ((ScHoldOutRule) rule), options->hold_out) != 0
         && sc_hold_out_name ((ScHoldOutRule) rule) != NULL)
    rule++;
  if (sc_hold_out_name ((ScHoldOutRule) rule) == NULL)
    return sc_cmd_fail_usage ("validate", error, "--hold-out: found \"%s\", expected point, shape, software, gpu or none", options->hold_out);
  if (options->jobs != 0)
    return sc_cmd_fail_usage ("validate", error, "--jobs is for collectives: kernels take a second");
  const char *const file = only_rows (options, "", error);
  g_autoptr (ScKernelRows) rows = file == NULL ? NULL : *file != '\0' ? sc_kernel_rows_load (file, error) : sc_kernel_rows_shipped (error);
  if (rows == NULL || (options->filter != NULL && !keep_matching_rows (rows, options->filter, error)))
    return FALSE;
  g_autoptr (ScKernelsResult) result = sc_validate_kernels (rows, (ScHoldOutRule) rule, error);
  if (result == NULL)
    return FALSE;
  format->write (result, out);
  if (!options->check || result->passes)
    return TRUE;
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: %s",
               result->all.n == 0 ? "no row could be judged" : "the error of a class is above its target");
  return FALSE;
}

/* ---- Schedules ---- */

static gboolean
validate_schedules (const ValidateOptions *options, GString *out, GError **error)
{
  const ScSchedulesFormat *format = sc_schedules_formats ();
  while (options->format != NULL && format->name != NULL && strcmp (format->name, options->format) != 0)
    format++;
  if (format->name == NULL)
    return sc_cmd_fail_usage ("validate", error, "--format: found \"%s\", expected text, csv, json or markdown", options->format);
  if (options->hold_out != NULL)
    return sc_cmd_fail_usage ("validate", error, "--hold-out is for kernels");
  if (options->jobs != 0)
    return sc_cmd_fail_usage ("validate", error, "--jobs is for collectives: schedules run one after the other");
  g_autoptr (GRegex) filter = options->filter != NULL ? filter_new (options->filter, error) : NULL;
  if (options->filter != NULL && filter == NULL)
    return FALSE;
  g_autofree char *file = NULL;
  gsize length = 0;
  const char *const rows = only_rows (options, "schedules", error);
  g_autofree char *text = rows != NULL ? sc_library_load (SC_KIND_MEASUREMENTS, rows, &file, &length, error) : NULL;
  if (text == NULL)
    return FALSE;
  g_autoptr (ScSchedulesResult) result = sc_validate_schedules (file, text, length, filter, error);
  if (result == NULL)
    return FALSE;
  if (result->runs->len == 0)
    return sc_cmd_fail_usage ("validate", error, "--filter: \"%s\" leaves no run", options->filter);
  format->write (result, out);
  if (!options->check || result->passes)
    return TRUE;
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: %s",
               result->n_judged == 0 ? "no run could be judged" : "a run is above the target, or turned round");
  return FALSE;
}

/* ---- Runs and memory ---- */

static void
show_progress (guint done, guint all, gpointer data G_GNUC_UNUSED)
{
  if (done == all)
    fprintf (stderr, "\r%*s\r", 40, "");
  else if (done % 16 == 0)
    fprintf (stderr, "\r%u of %u rows", done, all);
}

static gboolean
validate_rows (const ValidateOptions *options, gboolean memory, GString *out, GError **error)
{
  const ScRunsFormat *format = sc_runs_formats ();
  while (options->format != NULL && format->name != NULL && strcmp (format->name, options->format) != 0)
    format++;
  if (format->name == NULL)
    return sc_cmd_fail_usage ("validate", error, "--format: found \"%s\", expected text, csv, json or markdown", options->format);
  if (options->hold_out != NULL)
    return sc_cmd_fail_usage ("validate", error, "--hold-out is for kernels");
  if (options->jobs < 0)
    return sc_cmd_fail_usage ("validate", error, "--jobs: found %d, expected 0 (one for each processor) or more", options->jobs);
  const char *const shipped[] = { "runs", NULL };
  g_autoptr (ScRows) rows = sc_rows_new ();
  for (const char *const *file = options->rows != NULL ? (const char *const *) options->rows : shipped; *file != NULL; file++)
    if (!sc_rows_load (rows, *file, error))
      return FALSE;
  g_autoptr (ScSystems) systems = sc_systems_load ("systems", error);
  if (systems == NULL)
    return FALSE;
  const ScRunsOptions how = { .filter = options->filter, .jobs = (guint) options->jobs, .memory = memory,
                              .progress = isatty (STDERR_FILENO) ? show_progress : NULL };
  g_autoptr (ScRunsResult) result = sc_validate_runs (rows, systems, &how);
  if (result->runs->len == 0)
    return sc_cmd_fail_usage ("validate", error, "--filter: \"%s\" leaves no row", options->filter);
  format->write (result, memory, out);
  const double value = sc_runs_mean_error (result, memory), target = memory ? SC_MEMORY_TARGET : SC_TIME_TARGET;
  if (!options->check || value <= target)
    return TRUE;
  if (isnan (value))
    g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: no row could be judged");
  else
    g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--check: the mean error of %s is %.1f %%, above the target, %.0f %%", memory ? "memory" : "time", 100 * value, 100 * target);
  return FALSE;
}

static gboolean
validate_runs (const ValidateOptions *options, GString *out, GError **error)
{
  return validate_rows (options, FALSE, out, error);
}

static gboolean
validate_memory (const ValidateOptions *options, GString *out, GError **error)
{
  return validate_rows (options, TRUE, out, error);
}

/* ---- The command ---- */

/* One row for each part of the model that measurements are held against. */
static const struct
{
  const char *name;
  gboolean (*validate) (const ValidateOptions *options, GString *out, GError **error);
} subjects[] = { { "collectives", validate_collectives }, { "kernels", validate_kernels }, { "schedules", validate_schedules },
               { "runs", validate_runs },               { "memory", validate_memory } };

/* All subjects one after the other, of the shipped rows. */
static ScStatus
validate_all (const ValidateOptions *options, GString *out, GError **error)
{
  if (options->rows != NULL || options->filter != NULL || options->hold_out != NULL || options->check || options->jobs != 0
      || (options->format != NULL && strcmp (options->format, "text") != 0 && strcmp (options->format, "markdown") != 0))
    {
      sc_cmd_fail_usage ("validate", error, "found options without a subject, expected one, or --format text or markdown");
      return SC_STATUS_USAGE;
    }
  const gboolean markdown = options->format != NULL && strcmp (options->format, "markdown") == 0;
  for (guint i = 0; i < G_N_ELEMENTS (subjects); i++)
    {
      g_string_append_printf (out, markdown ? "%s# %s\n\n" : "%s---- %s ----\n\n", i > 0 ? "\n" : "", subjects[i].name);
      if (!subjects[i].validate (options, out, error))
        return SC_STATUS_DATA;
    }
  return SC_STATUS_OK;
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (ValidateOptions) options = { .rows = NULL };
  const GOptionEntry entries[] = {
    { "rows", 'r', 0, G_OPTION_ARG_FILENAME_ARRAY, &options.rows, "Measurements in place of the shipped ones; - for standard input; runs, memory: repeatable", "FILE" },
    { "filter", 0, 0, G_OPTION_ARG_FILENAME, &options.filter,
      "Only those whose GPU, software, source, id, collective, fabric, version or note matches; runs, memory: whose id, group or source holds this text",
      "REGEX" },
    { "hold-out", 0, 0, G_OPTION_ARG_FILENAME, &options.hold_out,
      "kernels: what a prediction must not see: point (the default), shape, software, gpu or none", "WHAT" },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default), csv, json or markdown", "NAME" },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "Threads; 0, the default: one for each processor", "N" },
    { "check", 0, 0, G_OPTION_ARG_NONE, &options.check, "Exit with status 1 where a target is missed, or nothing is judged", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  const char *known[G_N_ELEMENTS (subjects) + 1] = { NULL };
  for (guint i = 0; i < G_N_ELEMENTS (subjects); i++)
    known[i] = subjects[i].name;
  if (argc == 1)
    return validate_all (&options, out, error);
  if (argc != 2)
    {
      g_autoptr (GString) names = g_string_new (NULL);
      for (guint i = 0; i < G_N_ELEMENTS (subjects); i++)
        g_string_append_printf (names, "%s%s", i > 0 ? " or " : "", known[i]);
      sc_cmd_fail_usage ("validate", error, "found %d arguments, expected what to validate: %s", argc - 1, names->str);
      return SC_STATUS_USAGE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (subjects); i++)
    if (strcmp (argv[1], subjects[i].name) == 0)
      return subjects[i].validate (&options, out, error) ? SC_STATUS_OK : SC_STATUS_DATA;
  const char *nearest = sc_nearest (argv[1], known);
  if (nearest != NULL)
    sc_cmd_fail_usage ("validate", error, "unknown subject \"%s\", did you mean \"%s\"?", argv[1], nearest);
  else
    sc_cmd_fail_usage ("validate", error, "unknown subject \"%s\" (see stepcast validate --help)", argv[1]);
  return SC_STATUS_USAGE;
}

const ScCommand sc_cmd_validate = {
  .name = "validate",
  .summary = "Hold parts of the model against published measurements",
  .usage = "[collectives | kernels | schedules | runs | memory]",
  .help = "Without a word what there is of all five.\n"
          "\n"
          "collectives: sweeps of nccl-tests and alike.  Each line of FILE is a JSON object with collective, gpu, gpus, nodes,\n"
          "gpus_per_node, fabric (in words), nccl, algo (what was forced) and rows, [[bytes, microseconds], ...]; keys of\n"
          "others are ignored.  The system follows from the words for GPU and fabric and the number of nodes, unless the\n"
          "object names it: topology, and set, an object of overrides.  Without a version of NCCL, Blackwell stands for 2.29\n"
          "and other GPUs for 2.23.  launch_us is the least time that the measuring program needs for a call; without it,\n"
          "it is estimated from the rows up to 4 KiB where those take 1.25 times the model or more, and they are not judged.\n"
          "kernels: measured products (gpu, dtype, m, n, k), attention (kind, seqlen, heads, ...), memory-bound kernels (op,\n"
          "bytes), raw samples of stepcast-measure, and layers (kind \"layer\": model, plan, measured).  Without --rows: what the\n"
          "shipped devices were measured at.  A row is predicted from measurements of its own software on its GPU, without its\n"
          "own shape; --hold-out leaves out more: the layer's whole shape, its software, or all that was measured on its GPU.\n"
          "schedules: runs of one model and batch by several pipeline schedules, each a JSON object with model, seq, software, cluster,\n"
          "plan (with profiled_ms, or extra.profiled_ms as published tables have it) and measured (samples_per_s_per_gpu or step_s,\n"
          "bubble_fraction), or several with \"runs\", an array of what differs.  Each is forecast with its own times of passes and with ours.\n"
          "runs: published runs of training, each a JSON object with model, seq, software, cluster, plan and measured (step_s or tokens a second,\n"
          "peaks of memory in GiB, oom); null is what the source does not say.  Each is forecast on the machines that its words stand for, and\n"
          "what was skipped is listed with the reason.  memory: the same rows by their peaks, kind by kind and rank by rank.\n"
          "--check asks for a mean error over sources of 8 % of time, of 5 % of memory.",
  .run = run,
};
