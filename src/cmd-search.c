/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-search.c - stepcast search: the best plans for a model on so many GPUs. */
#include "cmd.h"
#include "search.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_TOP 1000

typedef struct
{
  ScInputs inputs;
  char *format, **schedules;
  int gpus, global_batch, top, jobs;
  gint64 most;
  gboolean at_risk;
} SearchOptions;

static void
search_options_clear (SearchOptions *o)
{
  sc_inputs_clear (&o->inputs);
  g_free (o->format);
  g_strfreev (o->schedules);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SearchOptions, search_options_clear)

static void
show_progress (const char *what, guint64 done, guint64 all, gpointer data G_GNUC_UNUSED)
{
  fprintf (stderr, "\r%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " plans %s\033[K", done, all, what);
}

static gboolean
check_options (const SearchOptions *o, GError **error)
{
  gboolean json;
  if (!sc_cmd_find_json ("search", o->format, &json, error))
    return FALSE;
  if (o->gpus < 0 || o->global_batch < 0 || o->jobs < 0 || o->most < 0)
    return sc_cmd_fail_usage ("search", error, "found a negative number, expected 0 (the default) or more");
  if (o->schedules != NULL && g_strv_length (o->schedules) > SC_SEARCH_MOST_SCHEDULES)
    return sc_cmd_fail_usage ("search", error, "--schedule: found %u, expected at most %d", g_strv_length (o->schedules), SC_SEARCH_MOST_SCHEDULES);
  for (char **name = o->schedules; name != NULL && *name != NULL; name++)
    if (sc_schedule_find (*name) == NULL || strcmp (*name, "csv") == 0)
      return sc_cmd_fail_usage ("search", error, "--schedule: found \"%s\", expected one that stepcast list schedules has, but csv", *name);
  for (char **name = o->schedules; name != NULL && *name != NULL; name++)
    for (char **before = o->schedules; before < name; before++)
      if (strcmp (*before, *name) == 0)
        return sc_cmd_fail_usage ("search", error, "--schedule: found %s twice", *name);
  if (o->top < 1 || o->top > MOST_TOP)
    return sc_cmd_fail_usage ("search", error, "--top: found %d, expected 1 to %d", o->top, MOST_TOP);
  return TRUE;
}

static gboolean
check_size (const ScSearchInput *in, GError **error)
{
  if (in->gpus <= sc_topology_job_gpus (in->topology))
    return TRUE;
  g_set_error (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, "search: %u GPUs are wanted, %s has %u", in->gpus,
               in->topology->name != NULL ? in->topology->name : "the topology", sc_topology_job_gpus (in->topology));
  return FALSE;
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (SearchOptions) options = { .top = 10 };
  const GOptionEntry entries[] = {
    SC_INPUT_OPTIONS (&options.inputs),
    { "gpus", 'g', 0, G_OPTION_ARG_INT, &options.gpus, "GPUs of the job; default: the workload's", "N" },
    { "global-batch", 'b', 0, G_OPTION_ARG_INT, &options.global_batch, "Sequences of a step; default: the workload's", "N" },
    { "schedule", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options.schedules, "Also try this one of pipelines (repeatable): zb-h1, zb-v, v-half, dualpipev; stepcast list schedules", "NAME" },
    { "top", 't', 0, G_OPTION_ARG_INT, &options.top, "How many plans; default: 10", "N" },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default) or json, with the workload of the best plan", "NAME" },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options.jobs, "Threads; default: one for each processor", "N" },
    { "max-plans", 0, 0, G_OPTION_ARG_INT64, &options.most, "Simulate at most about so many, the most promising; default: no end", "N" },
    { "at-risk", 0, 0, G_OPTION_ARG_NONE, &options.at_risk, "Less than 5 % of the GPU free counts as fitting", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  if (!check_options (&options, error) || !sc_inputs_read_apart (&options.inputs, argc, argv, error))
    return SC_STATUS_USAGE;
  const gboolean tty = isatty (STDERR_FILENO);
  const ScInputs *const i = &options.inputs;
  const ScSearchInput in = {
    .topology = i->topology,
    .workload = i->workload,
    .workload_file = i->workload_file,
    .workload_text = i->workload_text,
    .workload_length = i->workload_length,
    .set = i->set,
    .gpus = options.gpus > 0 ? (guint) options.gpus : i->workload->plan.gpus,
    .global_batch = options.global_batch > 0 ? (guint) options.global_batch : i->workload->plan.global_batch,
    .schedules = (const char *const *) options.schedules,
    .top = (guint) options.top,
    .jobs = (guint) options.jobs,
    .at_risk = options.at_risk,
    .most = (guint64) options.most,
    .progress = tty ? show_progress : NULL,
  };
  if (!check_size (&in, error))
    return SC_STATUS_DATA;
  g_autoptr (ScSearch) search = sc_search (&in, error);
  if (tty)
    fputs ("\r\033[K", stderr);
  if (search == NULL)
    return SC_STATUS_DATA;
  if (g_strcmp0 (options.format, "json") != 0)
    sc_search_write_text (search, &in, out);
  else if (!sc_search_write_json (search, &in, out, error))
    return SC_STATUS_INTERNAL;
  return search->best->len > 0 ? SC_STATUS_OK : SC_STATUS_CONDITION;
}

const ScCommand sc_cmd_search = {
  .name = "search",
  .summary = "Find the fastest plans that fit",
  .usage = "[TOPOLOGY WORKLOAD]",
  .help = "TOPOLOGY and WORKLOAD as in stepcast run; of the workload's plan only what is not searched counts, such as data type,\n"
          "optimizer, attention and what overlaps.  Searched are tensor, pipeline (with chunks), context, expert and data\n"
          "parallelism, sequence parallelism, sharding, recompute and the micro-batch, for --gpus and --global-batch; and\n"
          "the schedules of --schedule beside 1F1B and interleaved 1F1B.\n"
          "\n"
          "Plans whose weights, optimizer states, gradients and activations cannot fit are out, and so are those that could\n"
          "not be faster than the last one shown if each pass and message of their schedule had GPUs and links for itself;\n"
          "all others are simulated at stage detail.  What is shown was simulated kernel by kernel as well.  So none that\n"
          "was left out is better than the last one shown, unless --max-plans ended the search.\n"
          "\n"
          "Beside it: what the usual rule of thumb leads to, the workload's own plan, and plans that are slower but leaner.\n"
          "\n"
          "Exit status: 0, or 1 where no plan fits.",
  .run = run,
};
