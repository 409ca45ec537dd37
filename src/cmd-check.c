/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-check.c - stepcast check: are both inputs valid, and do they go together? */
#include "cmd.h"
#include "describe.h"
#include "models/fabric.h"
#include "models/model.h"
#include "units.h"

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (ScInputs) inputs = { .set = NULL };
  const GOptionEntry entries[] = {
    SC_INPUT_OPTIONS (&inputs),
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  if (!sc_inputs_read (&inputs, argc, argv, error))
    return SC_STATUS_DATA;

  const ScWorkload *workload = inputs.workload;
  g_autoptr (ScFabric) fabric = sc_fabric_new (inputs.topology, workload->plan.gpus, error);
  if (fabric == NULL)
    {
      g_prefix_error (error, "topology: ");
      return SC_STATUS_DATA;
    }
  g_autofree char *params = sc_format_count ((double) sc_model_params (&workload->model, workload->seq));
  g_string_append_printf (out, "ok: %s, %s parameters", workload->name, params);
  if (workload->model.experts > 0)
    {
      g_autofree char *active = sc_format_count ((double) sc_model_active_params (&workload->model, workload->seq));
      g_string_append_printf (out, " (%s active)", active);
    }
  g_string_append_printf (out, ", on %u of %u GPUs of %s: ", workload->plan.gpus, inputs.topology->n_gpus,
                          inputs.topology->name);
  sc_describe_plan (workload, out);
  g_autoptr (GError) later = NULL;
  if (!sc_workload_check_modelled (workload, &later))
    g_string_append_printf (out, "; it cannot be run yet: %s", later->message);
  g_string_append_c (out, '\n');
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_check = {
  .name = "check",
  .summary = "Check a topology and a workload without simulating",
  .usage = "[TOPOLOGY WORKLOAD]",
  .help = "Says in one line what they are, or what is wrong and where.",
  .run = run,
};
