/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-fit.c - stepcast fit: does it fit, and if not, what is the cheapest way to make it. */
#include "cmd.h"
#include "fit.h"
#include <string.h>

typedef struct
{
  ScInputs inputs;
  char *format;
  gboolean strict, quick, verbose;
} FitOptions;

static void
fit_options_clear (FitOptions *options)
{
  sc_inputs_clear (&options->inputs);
  g_free (options->format);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FitOptions, fit_options_clear)

static ScWorkload *
read_changed (gpointer inputs, char **set, GError **error)
{
  return sc_inputs_read_changed (inputs, set, error);
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (FitOptions) options = { .format = NULL };
  const GOptionEntry entries[] = {
    SC_INPUT_OPTIONS (&options.inputs),
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default) or json", "NAME" },
    { "strict", 0, 0, G_OPTION_ARG_NONE, &options.strict, "At risk does not count as fitting", NULL },
    { "quick", 'q', 0, G_OPTION_ARG_NONE, &options.quick, "The verdict alone, without changes and limits", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &options.verbose, "Changes that do not do, or cannot be, as well", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  gboolean json;
  if (!sc_cmd_find_json (command->name, options.format, &json, error))
    return SC_STATUS_USAGE;
  if (!sc_inputs_read (&options.inputs, argc, argv, error))
    return SC_STATUS_USAGE;
  if (!sc_workload_check_modelled (options.inputs.workload, error))
    {
      g_prefix_error (error, "%s: ", argc == 3 ? argv[2] : "workload");
      return SC_STATUS_DATA;
    }
  const ScFitInput how = {
    .topology = options.inputs.topology,
    .workload = options.inputs.workload,
    .read = read_changed,
    .data = &options.inputs,
    .worst = options.strict ? SC_VERDICT_FITS : SC_VERDICT_AT_RISK,
    .quick = options.quick,
  };
  g_autoptr (ScFit) fit = sc_fit (&how, error);
  if (fit == NULL)
    return SC_STATUS_INTERNAL;
  if (json)
    sc_fit_write_json (fit, out);
  else
    sc_fit_write_text (fit, options.verbose, out);
  return fit->fits ? SC_STATUS_OK : SC_STATUS_CONDITION;
}

const ScCommand sc_cmd_fit = {
  .name = "fit",
  .summary = "Say whether a plan fits in memory, and what makes it fit at which cost",
  .usage = "[TOPOLOGY WORKLOAD]",
  .help = "TOPOLOGY and WORKLOAD as in stepcast run.  The verdict needs no simulation of time: what is allocated hangs\n"
          "on the order of the program.\n"
          "\n"
          "Where the plan does not fit: the changes that make it fit, cheapest first, with the step time that they\n"
          "lead to (stepcast run --detail stage) and the keys for --set; of each kind the cheapest one.  Where no one\n"
          "change does, two at once.  GPUs and global batch stay.  What is tried: stepcast list changes.\n"
          "\n"
          "Then how far it goes: the largest micro-batch, the longest sequence, the fewest GPUs (fewer data-parallel\n"
          "replicas), each with all else as it is, and what the next one would need.\n"
          "\n"
          "Exit status: 0 it fits, 1 it does not.  At risk (5 % of the GPU free, or less) counts as fitting, but with\n"
          "--strict.",
  .run = run,
};
