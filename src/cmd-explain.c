/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-explain.c - stepcast explain: why a step takes as long as it does. */
#include "cmd.h"
#include "explain.h"
#include <string.h>

typedef struct
{
  ScInputs inputs;
  char *format, *detail;
} ExplainOptions;

static void
explain_options_clear (ExplainOptions *options)
{
  sc_inputs_clear (&options->inputs);
  g_free (options->format);
  g_free (options->detail);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ExplainOptions, explain_options_clear)

static ScWorkload *
read_workload (gpointer inputs, char **set, GError **error)
{
  return sc_inputs_read_changed (inputs, set, error);
}

static ScTopology *
read_topology (gpointer inputs, char **set, GError **error)
{
  return sc_inputs_read_changed_topology (inputs, set, error);
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (ExplainOptions) options = { .format = NULL };
  const GOptionEntry entries[] = {
    SC_INPUT_OPTIONS (&options.inputs),
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default) or json", "NAME" },
    { "detail", 0, 0, G_OPTION_ARG_FILENAME, &options.detail, "How finely: every kernel, passes over layers, or over stages; default: kernel", "NAME" },
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
  ScDetail detail;
  if (!sc_cmd_find_detail (command->name, options.detail, SC_DETAIL_KERNEL, &detail, error))
    return SC_STATUS_USAGE;
  if (!sc_inputs_read (&options.inputs, argc, argv, error))
    return SC_STATUS_USAGE;
  if (!sc_workload_check_modelled (options.inputs.workload, error))
    {
      g_prefix_error (error, "%s: ", argc == 3 ? argv[2] : "workload");
      return SC_STATUS_DATA;
    }
  const ScExplainInput how = {
    .topology = options.inputs.topology,
    .workload = options.inputs.workload,
    .read_topology = read_topology,
    .read_workload = read_workload,
    .data = &options.inputs,
    .detail = detail,
  };
  g_autoptr (ScExplain) explain = sc_explain (&how, error);
  if (explain == NULL)
    return SC_STATUS_INTERNAL;
  if (json)
    sc_explain_write_json (explain, out);
  else
    sc_explain_write_text (explain, out);
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_explain = {
  .name = "explain",
  .summary = "Say why a step takes as long as it does, and what would make it shorter",
  .usage = "[TOPOLOGY WORKLOAD]",
  .help = "TOPOLOGY and WORKLOAD as in stepcast run.\n"
          "\n"
          "The critical path is the chain of work, communication and issue that the end of the step waited for, from\n"
          "its begin on; its parts add up to the step (where ranks begin one after another, plan.post_validation, to the time from\n"
          "the first begin to the last end).  What each resource is worth comes from forecasts with it twice\n"
          "as good, and changes of the plan from forecasts with those keys: stepcast run --set says the same.  Changes\n"
          "keep model, global batch and GPUs, and are simulated with --detail stage.",
  .run = run,
};
