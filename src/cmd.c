/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd.c - commands as rows of one table, the one table of exit statuses, and what commands share. */
#include "cmd.h"
#include "comm-spec.h"
#include "json-in.h"
#include "library.h"
#include "models/comm.h"
#include "models/fabric.h"
#include "models/forecast.h"
#include "output.h"
#include "topology-json.h"
#include "units.h"
#include "workload-json.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXAMPLE_TOPOLOGY "dgx-h100-8"
#define EXAMPLE_WORKLOAD "llama3-70b"

G_DEFINE_QUARK (sc - cmd - error - quark, sc_cmd_error)

const ScCommand *const *
sc_command_all (void)
{
  static const ScCommand *const commands[] = { &sc_cmd_run, &sc_cmd_fit, &sc_cmd_explain, &sc_cmd_compare, &sc_cmd_search, &sc_cmd_sweep, &sc_cmd_merge, &sc_cmd_comm, &sc_cmd_check, &sc_cmd_show, &sc_cmd_list,
                                               &sc_cmd_validate, &sc_cmd_calibrate, NULL };
  return commands;
}

/* ---- Statuses ---- */

const ScStatusRow *
sc_status_all (guint *ret_n)
{
  static const ScStatusRow rows[] = {
    { SC_STATUS_OK, "all went well" },
    { SC_STATUS_CONDITION, "a requested condition failed (fit, search, --require-fit, --check, merge)" },
    { SC_STATUS_USAGE, "wrong usage: unknown command or option, or a --set that cannot be" },
    { SC_STATUS_DATA, "bad data: an input that is not valid, or two that do not go together" },
    { SC_STATUS_NO_INPUT, "no such input" },
    { SC_STATUS_UNAVAILABLE, "unavailable: this build or machine cannot do that" },
    { SC_STATUS_INTERNAL, "internal error: please report it" },
    { SC_STATUS_CANNOT_CREATE, "an output file cannot be created" },
    { SC_STATUS_IO, "input or output error" },
    { SC_STATUS_STOPPED, "stopped before the end by --max-time; --resume goes on" },
    { SC_STATUS_SIGNAL, "128 + n: ended by signal n" },
  };
  *ret_n = G_N_ELEMENTS (rows);
  return rows;
}

ScStatus
sc_status_of_error (const GError *error)
{
  static const ScStatus library[] = {
    [SC_LIBRARY_ERROR_NOT_FOUND] = SC_STATUS_NO_INPUT,
    [SC_LIBRARY_ERROR_NOT_A_FILE] = SC_STATUS_DATA,
    [SC_LIBRARY_ERROR_TOO_LARGE] = SC_STATUS_DATA,
    [SC_LIBRARY_ERROR_IO] = SC_STATUS_IO,
  };
  static const ScStatus cmd[] = {
    [SC_CMD_ERROR_USAGE] = SC_STATUS_USAGE,
    [SC_CMD_ERROR_NO_INPUT] = SC_STATUS_NO_INPUT,
    [SC_CMD_ERROR_UNAVAILABLE] = SC_STATUS_UNAVAILABLE,
    [SC_CMD_ERROR_CANNOT_CREATE] = SC_STATUS_CANNOT_CREATE,
    [SC_CMD_ERROR_IO] = SC_STATUS_IO,
    [SC_CMD_ERROR_CONDITION] = SC_STATUS_CONDITION,
  };

  if (error->domain == G_OPTION_ERROR)
    return SC_STATUS_USAGE;
  if (g_error_matches (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_TOO_LARGE))
    return SC_STATUS_UNAVAILABLE;
  if (error->domain == SC_INPUT_ERROR)
    return error->code == SC_INPUT_ERROR_OVERRIDE ? SC_STATUS_USAGE : SC_STATUS_DATA;
  if (error->domain == SC_WORKLOAD_ERROR || error->domain == SC_UNIT_ERROR || error->domain == SC_FABRIC_ERROR
      || g_error_matches (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_MISMATCH))
    return SC_STATUS_DATA;
  if (error->domain == SC_COMM_SPEC_ERROR)
    return error->code == SC_COMM_SPEC_ERROR_SYNTAX ? SC_STATUS_USAGE : SC_STATUS_DATA;
  if (g_error_matches (error, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE))
    return SC_STATUS_DATA;
  if (g_error_matches (error, SC_COMM_ERROR, SC_COMM_ERROR_TOO_LARGE))
    return SC_STATUS_UNAVAILABLE;
  if (error->domain == SC_LIBRARY_ERROR && (guint) error->code < G_N_ELEMENTS (library))
    return library[error->code];
  if (error->domain == SC_CMD_ERROR && (guint) error->code < G_N_ELEMENTS (cmd))
    return cmd[error->code];
  return SC_STATUS_INTERNAL;
}

/* ---- Options ---- */

gboolean
sc_cmd_fail_usage (const char *command, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "%s: %s", command, message);
  return FALSE;
}

/* GLib takes "--flag=no" for "--flag". */
static gboolean
check_flags (const char *command, const GOptionEntry *entries, int argc, char **argv, GError **error)
{
  for (int i = 1; i < argc && strcmp (argv[i], "--") != 0; i++)
    {
      const char *const value = g_str_has_prefix (argv[i], "--") ? strchr (argv[i], '=') : NULL;
      for (const GOptionEntry *e = entries; value != NULL && e != NULL && e->long_name != NULL; e++)
        if (e->arg == G_OPTION_ARG_NONE && strlen (e->long_name) == (gsize) (value - argv[i]) - 2
            && g_str_has_prefix (argv[i] + 2, e->long_name))
          return sc_cmd_fail_usage (command, error, "--%s: found \"%s\", expected no value", e->long_name, value + 1);
    }
  return TRUE;
}

gboolean
sc_cmd_parse (const ScCommand *command, const GOptionEntry *entries, int *argc, char ***argv, GString *out,
              gboolean *ret_done, GError **error)
{
  gboolean help = FALSE;
  const GOptionEntry common[] = {
    { "help", 'h', G_OPTION_FLAG_NONE, G_OPTION_ARG_NONE, &help, "Print this help", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autofree char *program = g_strdup_printf ("stepcast %s", command->name);
  g_autofree char *summary = g_strdup_printf ("%s.", command->summary);
  g_autoptr (GOptionContext) context = g_option_context_new (command->usage);
  g_set_prgname (program);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_summary (context, summary);
  if (command->help != NULL)
    g_option_context_set_description (context, command->help);
  if (entries != NULL)
    g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_main_entries (context, common, NULL);

  *ret_done = FALSE;
  if (!check_flags (command->name, entries, *argc, *argv, error) || !check_flags (command->name, common, *argc, *argv, error))
    return FALSE;
  if (!g_option_context_parse (context, argc, argv, error))
    {
      g_prefix_error (error, "%s: ", command->name);
      return FALSE;
    }
  if (*argc > 1
      && strcmp ((*argv)[1], "--") == 0) /* GLib leaves it where something follows that looks like an option */
    {
      memmove (&(*argv)[1], &(*argv)[2], (gsize) (*argc - 1) * sizeof **argv);
      (*argc)--;
    }
  if (help)
    {
      g_autofree char *text = g_option_context_get_help (context, TRUE, NULL);
      g_string_append (out, text);
      *ret_done = TRUE;
    }
  return TRUE;
}

gboolean
sc_cmd_find_json (const char *command, const char *format, gboolean *ret_json, GError **error)
{
  *ret_json = g_strcmp0 (format, "json") == 0;
  return format == NULL || *ret_json || strcmp (format, "text") == 0
         || sc_cmd_fail_usage (command, error, "--format: found \"%s\", expected text or json", format);
}

gboolean
sc_cmd_find_detail (const char *command, const char *name, ScDetail otherwise, ScDetail *ret_detail, GError **error)
{
  *ret_detail = otherwise;
  if (name == NULL)
    return TRUE;
  for (guint detail = 0; detail < SC_N_DETAILS; detail++)
    if (strcmp (name, sc_detail_name ((ScDetail) detail)) == 0)
      {
        *ret_detail = (ScDetail) detail;
        return TRUE;
      }
  return sc_cmd_fail_usage (command, error, "--detail: found \"%s\", expected kernel or layer or stage", name);
}

/* ---- Inputs ---- */

void
sc_inputs_clear (ScInputs *inputs)
{
  g_clear_pointer (&inputs->set, g_strfreev);
  g_clear_pointer (&inputs->device, g_free);
  g_clear_pointer (&inputs->topology, sc_topology_free);
  g_clear_pointer (&inputs->workload, sc_workload_free);
  g_clear_pointer (&inputs->topology_file, g_free);
  g_clear_pointer (&inputs->topology_text, g_free);
  g_clear_pointer (&inputs->workload_file, g_free);
  g_clear_pointer (&inputs->workload_text, g_free);
}

gboolean
sc_inputs_read_apart (ScInputs *inputs, int argc, char **argv, GError **error)
{
  if (argc != 1 && argc != 3)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE,
                   "%s: found %d argument%s, expected TOPOLOGY and WORKLOAD (or none for the built-in example)",
                   argv[0], argc - 1, argc == 2 ? "" : "s");
      return FALSE;
    }
  const char *topology = argc == 3 ? argv[1] : EXAMPLE_TOPOLOGY;
  const char *workload = argc == 3 ? argv[2] : EXAMPLE_WORKLOAD;
  const guint n_stdin = (strcmp (topology, "-") == 0 ? 1 : 0) + (strcmp (workload, "-") == 0 ? 1 : 0)
                        + (g_strcmp0 (inputs->device, "-") == 0 ? 1 : 0);
  if (n_stdin > 1)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE,
                   "%s: found \"-\" for %u inputs, expected standard input for one", argv[0], n_stdin);
      return FALSE;
    }
  inputs->topology_text = sc_library_load (SC_KIND_TOPOLOGY, topology, &inputs->topology_file, &inputs->topology_length, error);
  if (inputs->topology_text == NULL)
    return FALSE;
  inputs->topology =
      sc_topology_from_text (inputs->topology_file, inputs->topology_text, inputs->topology_length, inputs->set, inputs->device, error);
  if (inputs->topology == NULL)
    return FALSE;
  inputs->workload_text = sc_library_load (SC_KIND_WORKLOAD, workload, &inputs->workload_file, &inputs->workload_length, error);
  if (inputs->workload_text == NULL)
    return FALSE;
  inputs->workload = sc_workload_from_text (inputs->workload_file, inputs->workload_text, inputs->workload_length, inputs->set, error);
  if (inputs->workload == NULL)
    return FALSE;
  return TRUE;
}

gboolean
sc_inputs_read (ScInputs *inputs, int argc, char **argv, GError **error)
{
  if (!sc_inputs_read_apart (inputs, argc, argv, error))
    return FALSE;
  if (!sc_workload_check_topology (inputs->workload, inputs->topology, error))
    {
      g_prefix_error (error, "%s: ", argc == 3 ? argv[2] : EXAMPLE_WORKLOAD);
      return FALSE;
    }
  return TRUE;
}

/* What --set says, and @more on top: NULL-ended, borrowed. */
static GPtrArray *
with_more (const ScInputs *inputs, char **more)
{
  GPtrArray *const set = g_ptr_array_new ();
  for (char **one = inputs->set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (set, *one);
  for (char **one = more; one != NULL && *one != NULL; one++)
    g_ptr_array_add (set, *one);
  g_ptr_array_add (set, NULL);
  return set;
}

ScTopology *
sc_inputs_read_changed_topology (const ScInputs *inputs, char **more, GError **error)
{
  g_autoptr (GPtrArray) set = with_more (inputs, more);
  return sc_topology_from_text (inputs->topology_file, inputs->topology_text, inputs->topology_length, (char **) set->pdata, inputs->device, error);
}

ScWorkload *
sc_inputs_read_changed (const ScInputs *inputs, char **more, GError **error)
{
  g_autoptr (GPtrArray) set = with_more (inputs, more);
  g_autoptr (ScWorkload) workload =
      sc_workload_from_text (inputs->workload_file, inputs->workload_text, inputs->workload_length, (char **) set->pdata, error);
  if (workload == NULL || !sc_workload_check_topology (workload, inputs->topology, error))
    return NULL;
  return g_steal_pointer (&workload);
}

/* ---- Output ---- */

gboolean
sc_write_file (const char *path, const char *text, gsize length, GError **error)
{
  ScOutput *const output = sc_output_open (path, error);
  if (output == NULL)
    return FALSE;
  (void) !fwrite (text, 1, length, sc_output_file (output)); /* close sees a failure */
  return sc_output_close (output, TRUE, error);
}
