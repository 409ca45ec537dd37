/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-validate.c - stepcast validate: parts of the model against published measurements. */
#include "cmd.h"
#include "json-in.h"
#include "library.h"
#include "validate-collectives.h"
#include <string.h>

typedef struct
{
  char *rows, *filter, *format;
  gint jobs;
  gboolean check;
} ValidateOptions;

static void
validate_options_clear (ValidateOptions *options)
{
  g_free (options->rows);
  g_free (options->filter);
  g_free (options->format);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ValidateOptions, validate_options_clear)

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

static gboolean
keep_matching (GPtrArray *sweeps, const char *pattern, GError **error)
{
  g_autoptr (GError) why = NULL;
  g_autoptr (GRegex) filter = g_regex_new (pattern, G_REGEX_CASELESS, (GRegexMatchFlags) 0, &why);
  if (filter == NULL)
    return sc_cmd_fail_usage ("validate", error, "--filter: %s", why->message);
  for (guint i = sweeps->len; i-- > 0;)
    if (!sweep_matches (filter, g_ptr_array_index (sweeps, i)))
      g_ptr_array_remove_index (sweeps, i);
  return sweeps->len > 0 ? TRUE : sc_cmd_fail_usage ("validate", error, "--filter: \"%s\" leaves no sweep", pattern);
}

static gboolean
validate_collectives (const ValidateOptions *options, GString *out, GError **error)
{
  const ScCollectivesFormat *format = sc_collectives_formats ();
  while (options->format != NULL && format->name != NULL && strcmp (format->name, options->format) != 0)
    format++;
  if (format->name == NULL)
    return sc_cmd_fail_usage ("validate", error, "--format: found \"%s\", expected text, csv, json or markdown", options->format);
  if (options->jobs < 0)
    return sc_cmd_fail_usage ("validate", error, "--jobs: found %d, expected 0 (one for each processor) or more", options->jobs);
  g_auto (GStrv) ignored = NULL;
  g_autoptr (GPtrArray) sweeps = sc_sweeps_load (options->rows != NULL ? options->rows : "collectives", &ignored, error);
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

/* ---- The command ---- */

/* One row for each part of the model that measurements are held against. */
static const struct
{
  const char *name;
  gboolean (*validate) (const ValidateOptions *options, GString *out, GError **error);
} subjects[] = { { "collectives", validate_collectives } };

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (ValidateOptions) options = { .rows = NULL };
  const GOptionEntry entries[] = {
    { "rows", 'r', 0, G_OPTION_ARG_FILENAME, &options.rows, "Measurements in place of the shipped ones; - for standard input", "FILE" },
    { "filter", 0, 0, G_OPTION_ARG_FILENAME, &options.filter,
      "Only those whose id, collective, GPU, fabric, version, note or source matches", "REGEX" },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default), csv, json or markdown", "NAME" },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "Threads; 0, the default: one for each processor", "N" },
    { "check", 0, 0, G_OPTION_ARG_NONE, &options.check, "Exit with status 1 where a family of systems misses its target, or nothing is judged", NULL },
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
  .usage = "collectives",
  .help = "collectives: sweeps of nccl-tests and alike.  Each line of FILE is a JSON object with collective, gpu, gpus, nodes,\n"
          "gpus_per_node, fabric (in words), nccl, algo (what was forced) and rows, [[bytes, microseconds], ...]; keys of\n"
          "others are ignored.  The system follows from the words for GPU and fabric and the number of nodes, unless the\n"
          "object names it: topology, and set, an object of overrides.  Without a version of NCCL, Blackwell stands for 2.29\n"
          "and other GPUs for 2.23.  launch_us is the least time that the measuring program needs for a call; without it,\n"
          "it is estimated from the rows up to 4 KiB where those take 1.25 times the model or more, and they are not judged.",
  .run = run,
};
