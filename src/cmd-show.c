/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-show.c - stepcast show: draw a topology, a plan on it, or the numbers of a device or a model. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "cmd.h"
#include "override.h"
#include "device-json.h"
#include "draw.h"
#include "show-model.h"
#include "topology-json.h"

static ScStatus
show_device (const ScInputs *inputs, int argc, char **argv, GString *out, GError **error)
{
  if (argc != 3 || inputs->set != NULL || inputs->device != NULL)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "show: expected \"device\" and one NAME or FILE, no options");
      return SC_STATUS_USAGE;
    }
  /* A file, or a shipped device by name or alias; the loader has the words for neither. */
  g_autoptr (GError) ignored = NULL;
  g_autoptr (ScDevice) device = g_file_test (argv[2], G_FILE_TEST_EXISTS) ? NULL : sc_device_find (argv[2], &ignored);
  if (device == NULL)
    device = sc_device_load (argv[2], error);
  if (device == NULL || !sc_device_read_reference (device, error))
    return SC_STATUS_DATA;
  sc_draw_device (device, out);
  return SC_STATUS_OK;
}

static ScStatus
show_model (const ScInputs *inputs, int argc, char **argv, GString *out, GError **error)
{
  if (argc != 3 || inputs->device != NULL)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "show: expected \"model\" and one WORKLOAD or config.json, no --device");
      return SC_STATUS_USAGE;
    }
  return sc_show_model (argv[2], inputs->set, out, error) ? SC_STATUS_OK : SC_STATUS_DATA;
}

/* Without a workload, what would change one has no effect, so it is refused. */
static gboolean
read_topology (ScInputs *inputs, const char *argument, GError **error)
{
  for (char **set = inputs->set; set != NULL && *set != NULL; set++)
    if (!sc_override_is_topology (*set))
      {
        g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE,
                     "show: --set %s is for a workload, found none (expected TOPOLOGY and WORKLOAD)", *set);
        return FALSE;
      }
  inputs->topology = sc_topology_load (argument, inputs->set, inputs->device, error);
  return inputs->topology != NULL;
}

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
  if (argc > 1 && strcmp (argv[1], "device") == 0)
    return show_device (&inputs, argc, argv, out, error);
  if (argc > 1 && strcmp (argv[1], "model") == 0)
    return show_model (&inputs, argc, argv, out, error);
  if (!(argc == 2 ? read_topology (&inputs, argv[1], error) : sc_inputs_read (&inputs, argc, argv, error)))
    return SC_STATUS_DATA;
  if (!sc_draw_topology (inputs.topology, out, error))
    return SC_STATUS_DATA;
  if (inputs.workload != NULL)
    {
      g_string_append_c (out, '\n');
      sc_draw_plan (inputs.topology, inputs.workload, out);
    }
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_show = {
  .name = "show",
  .summary = "Draw a topology and a plan on it, or print the numbers of a device or a model",
  .usage = "[TOPOLOGY [WORKLOAD]] | device NAME | model FILE",
  .help = "With a topology: the network from the core down to the nodes, and each kind of node.\n"
          "With a workload as well: which ranks form which groups, on which nodes, and the layers of each stage.\n"
          "device NAME (or a device file): each number of that GPU with its grade and source.\n"
          "model FILE (a workload, or config.json of a published model): each field with the key that it is from,\n"
          "the parameters, and what is only counted so far.\n"
          "Without arguments: the built-in example.",
  .run = run,
};
