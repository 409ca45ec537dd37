/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-run.c - stepcast run: simulate one step and report it. */
#include "cmd.h"
#include "models/forecast.h"
#include "output.h"
#include "report-html.h"
#include "report-memory.h"
#include "report-timeline.h"
#include "report-trace.h"
#include "report.h"
#include "schedule-csv.h"
#include "units.h"
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef struct
{
  ScInputs inputs;
  GArray *ranks; /* guint32, of --trace-ranks; NULL: none were chosen */
  gboolean trace_passes;
  char *format, *output, *timeline, *trace, *trace_ranks, *schedule_csv, *memory_svg, *html, *detail;
  gboolean require_fit, links, memory;
} RunOptions;

static void
run_options_clear (RunOptions *options)
{
  sc_inputs_clear (&options->inputs);
  g_free (options->format);
  g_free (options->output);
  g_free (options->timeline);
  g_free (options->trace);
  g_free (options->trace_ranks);
  g_clear_pointer (&options->ranks, g_array_unref);
  g_free (options->schedule_csv);
  g_free (options->memory_svg);
  g_free (options->html);
  g_free (options->detail);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RunOptions, run_options_clear)

/* Is anything asked for that shows each micro-batch? */
static gboolean
shows_steps (const RunOptions *o)
{
  return o->timeline != NULL || o->trace != NULL || o->schedule_csv != NULL || o->memory_svg != NULL || o->html != NULL || o->memory || o->links;
}

static gboolean
is_stdout (const char *path)
{
  return path != NULL && strcmp (path, "-") == 0;
}

/* --format, or the extension of --output where that is a format's name, or the first. */
static const ScReport *
find_report (const RunOptions *options, GError **error)
{
  const ScReport *const *all = sc_report_all ();
  if (options->format != NULL)
    {
      const ScReport *report = sc_report_find (options->format);
      if (report == NULL)
        {
          g_autoptr (GString) names = g_string_new (NULL);
          for (; *all != NULL; all++)
            g_string_append_printf (names, "%s%s", names->len > 0 ? " or " : "", (*all)->name);
          sc_cmd_fail_usage ("run", error, "--format: found \"%s\", expected %s", options->format, names->str);
        }
      return report;
    }
  const char *dot = options->output != NULL ? strrchr (options->output, '.') : NULL;
  const ScReport *report = dot != NULL ? sc_report_find (dot + 1) : NULL;
  return report != NULL ? report : all[0];
}

static gboolean
check_options (const RunOptions *options, const ScReport *report, GError **error)
{
  const gboolean report_on_stdout = options->output == NULL || is_stdout (options->output);
  if (report_on_stdout && is_stdout (options->timeline) && report != &sc_report_text)
    return sc_cmd_fail_usage ("run", error, "--timeline - would mix with the %s report, give one of them a file", report->name);
  if (is_stdout (options->schedule_csv) && (report_on_stdout || is_stdout (options->timeline) || is_stdout (options->trace)))
    return sc_cmd_fail_usage ("run", error, "--schedule-csv - would mix with other output, give one of them a file");
  if (is_stdout (options->memory_svg) && (report_on_stdout || is_stdout (options->timeline) || is_stdout (options->trace) || is_stdout (options->schedule_csv)))
    return sc_cmd_fail_usage ("run", error, "--memory-svg - would mix with other output, give one of them a file");
  if (is_stdout (options->html) && (report_on_stdout || is_stdout (options->timeline) || is_stdout (options->trace) || is_stdout (options->schedule_csv) || is_stdout (options->memory_svg)))
    return sc_cmd_fail_usage ("run", error, "--html - would mix with other output, give one of them a file");
  if (is_stdout (options->trace) && (report_on_stdout || is_stdout (options->timeline)))
    return sc_cmd_fail_usage ("run", error, "--trace - would mix with the report, give one of them a file");
  return TRUE;
}

/* Two outputs in one file, or an output over an input: one of them would be lost. */
static gboolean
check_files (const RunOptions *options, int argc, char **argv, GError **error)
{
  const struct
  {
    const char *name, *path;
  } outputs[] = { { "--output", options->output }, { "--timeline", options->timeline }, { "--trace", options->trace },
                { "--schedule-csv", options->schedule_csv }, { "--memory-svg", options->memory_svg }, { "--html", options->html } };
  for (guint i = 0; i < G_N_ELEMENTS (outputs); i++)
    {
      const char *path = outputs[i].path;
      if (path == NULL || is_stdout (path))
        continue;
      for (guint k = 0; k < i; k++)
        if (outputs[k].path != NULL && !is_stdout (outputs[k].path) && g_strcmp0 (path, "/dev/null") != 0
            && sc_output_is_same (path, outputs[k].path))
          return sc_cmd_fail_usage ("run", error, "%s and %s: found one file, %s, expected two", outputs[k].name, outputs[i].name, path);
      for (int a = 1; a < argc; a++)
        if (sc_output_is_same (path, argv[a]))
          return sc_cmd_fail_usage ("run", error, "%s %s: would replace an input", outputs[i].name, path);
      if (options->inputs.device != NULL && sc_output_is_same (path, options->inputs.device))
        return sc_cmd_fail_usage ("run", error, "%s %s: would replace an input", outputs[i].name, path);
    }
  return TRUE;
}

/* The same about files that the inputs name, which are known once those are read. */
static gboolean
check_named_files (const RunOptions *options, const GPtrArray *files, GError **error)
{
  const char *const outputs[] = { options->output, options->timeline, options->trace, options->schedule_csv, options->memory_svg, options->html };
  for (guint i = 0; files != NULL && i < files->len; i++)
    for (guint k = 0; k < G_N_ELEMENTS (outputs); k++)
      if (outputs[k] != NULL && !is_stdout (outputs[k]) && sc_output_is_same (outputs[k], g_ptr_array_index (files, i)))
        return sc_cmd_fail_usage ("run", error, "%s: would replace a file that an input names", outputs[k]);
  return TRUE;
}

/* "0-15,64": options->ranks, each once, in that order. */
static gboolean
read_ranks (RunOptions *options, guint gpus, GError **error)
{
  if (options->trace_ranks == NULL)
    return TRUE;
  if (options->trace == NULL)
    return sc_cmd_fail_usage ("run", error, "--trace-ranks: found no --trace, expected a file for them");
  options->ranks = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_auto (GStrv) parts = g_strsplit (options->trace_ranks, ",", -1);
  for (char **part = parts; *part != NULL; part++)
    {
      char *end = *part;
      gboolean read = g_ascii_isdigit (**part);
      guint64 from, to;
      from = to = read ? g_ascii_strtoull (*part, &end, 10) : 0;
      if (read && *end == '-')
        {
          read = g_ascii_isdigit (end[1]);
          to = read ? g_ascii_strtoull (end + 1, &end, 10) : 0;
        }
      if (!read || *end != '\0' || to < from || to >= gpus)
        return sc_cmd_fail_usage ("run", error, "--trace-ranks: found \"%s\", expected ranks from 0 to %u, as 0-7,64", *part, gpus - 1);
      for (guint64 rank = from; rank <= to; rank++)
        {
          const guint32 one = (guint32) rank;
          gboolean known = FALSE;
          for (guint i = 0; i < options->ranks->len && !known; i++)
            known = g_array_index (options->ranks, guint32, i) == one;
          if (known)
            continue;
          if (options->ranks->len == SC_TRACE_MAX_RANKS)
            return sc_cmd_fail_usage ("run", error, "--trace-ranks: found more than %d ranks", SC_TRACE_MAX_RANKS);
          g_array_append_val (options->ranks, one);
        }
    }
  return options->ranks->len > 0 || sc_cmd_fail_usage ("run", error, "--trace-ranks: found none, expected ranks from 0 to %u, as 0-7,64", gpus - 1);
}

static gboolean
put (const char *path, const GString *text, GString *out, GError **error)
{
  if (path == NULL || is_stdout (path))
    {
      g_string_append_len (out, text->str, (gssize) text->len);
      return TRUE;
    }
  return sc_write_file (path, text->str, text->len, error);
}

/* Columns of the terminal: what COLUMNS says, or the terminal itself; 0: neither does. */
static guint
terminal_width (void)
{
  const char *const columns = g_getenv ("COLUMNS");
  guint64 n = 0;
  struct winsize size;
  if (columns != NULL && g_ascii_string_to_unsigned (columns, 10, 1, G_MAXUINT, &n, NULL))
    return (guint) n;
  return ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* NO_COLOR (no-color.org) and TERM=dumb say no. */
static gboolean
wants_colour (void)
{
  const char *const no = g_getenv ("NO_COLOR"), *const term = g_getenv ("TERM");
  return (no == NULL || *no == '\0') && term != NULL && strcmp (term, "dumb") != 0;
}

static gboolean
write_outputs (const RunOptions *options, const ScReport *report, const ScSummary *summary, GString *out,
               GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) timeline = g_string_new (NULL);
  g_autoptr (GString) order = g_string_new (NULL);
  g_autoptr (GString) picture = g_string_new (NULL);
  g_autoptr (GString) page = g_string_new (NULL);
  if (!report->write (summary, text, error))
    return FALSE;
  if (options->memory && report == &sc_report_text)
    sc_report_memory_text (summary, text);
  if (options->memory_svg != NULL)
    sc_report_memory_svg (summary, picture);
  if (options->html != NULL)
    sc_report_html (summary, options->inputs.topology_text, options->inputs.workload_text, options->inputs.set, page);
  if (options->schedule_csv != NULL && !sc_schedule_csv_write (summary->orders, order, error))
    return FALSE;
  if (options->timeline != NULL && g_str_has_suffix (options->timeline, ".svg"))
    sc_timeline_svg (summary, timeline);
  else if (options->timeline != NULL)
    {
      const gboolean terminal = is_stdout (options->timeline) && isatty (STDOUT_FILENO);
      sc_timeline_draw (summary, timeline, terminal ? terminal_width () : SC_TIMELINE_WIDTH, terminal && wants_colour ());
    }
  const ScTraceOptions how = { .ranks = options->ranks != NULL ? &g_array_index (options->ranks, guint32, 0) : NULL,
                               .n_ranks = options->ranks != NULL ? options->ranks->len : 0, .passes = options->trace_passes };
  if (options->trace != NULL && !sc_trace_write (summary, options->trace, &how, error))
    return FALSE;
  if (!put (options->output, text, out, error))
    return FALSE;
  if (options->schedule_csv != NULL && !put (options->schedule_csv, order, out, error))
    return FALSE;
  if (options->memory_svg != NULL && !put (options->memory_svg, picture, out, error))
    return FALSE;
  if (options->html != NULL && !put (options->html, page, out, error))
    return FALSE;
  if (options->timeline == NULL)
    return TRUE;
  if (is_stdout (options->timeline) && out->len > 0)
    g_string_append_c (out, '\n');
  return put (options->timeline, timeline, out, error);
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (RunOptions) options = { .format = NULL };
  const GOptionEntry entries[] = {
    SC_INPUT_OPTIONS (&options.inputs),
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format,
      "text or json; default: by the extension of --output, else text", "NAME" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "Write the report to this file", "FILE" },
    { "timeline", 0, 0, G_OPTION_ARG_FILENAME, &options.timeline, "Draw the pipeline in ASCII, or as a picture where FILE ends in .svg; - for standard output, in a terminal of its width and in colour (NO_COLOR: not)",
      "FILE" },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &options.trace, "Write a Chrome trace, for Perfetto; .gz is compressed; where the name has %r, a file for each rank", "FILE" },
    { "trace-ranks", 0, 0, G_OPTION_ARG_STRING, &options.trace_ranks, "Ranks that the trace has: 0-15,64; default: the first of each class of ranks", "LIST" },
    { "trace-passes", 0, 0, G_OPTION_ARG_NONE, &options.trace_passes, "Leave kernels out of the trace: micro-batches, waits, transfers", NULL },
    { "schedule-csv", 0, 0, G_OPTION_ARG_FILENAME, &options.schedule_csv,
      "Write the order of passes as PyTorch's schedules do; plan.schedule_csv reads it", "FILE" },
    { "memory", 0, 0, G_OPTION_ARG_NONE, &options.memory,
      "Add to the report the memory of the fullest stage over the step, and its largest tensors", NULL },
    { "memory-svg", 0, 0, G_OPTION_ARG_FILENAME, &options.memory_svg, "Draw memory over the step, of the first, the fullest and the last stage", "FILE" },
    { "html", 0, 0, G_OPTION_ARG_FILENAME, &options.html, "Write one page with all of it: timeline to zoom, time, memory, links, inputs", "FILE" },
    { "links", 0, 0, G_OPTION_ARG_NONE, &options.links,
      "Add to the report how full the links were, and who used them", NULL },
    { "require-fit", 0, 0, G_OPTION_ARG_NONE, &options.require_fit, "Exit with status 1 where memory does not fit",
      NULL },
    { "detail", 0, 0, G_OPTION_ARG_FILENAME, &options.detail,
      "How finely: every kernel, passes over layers, or over stages; default: kernel", "NAME" },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  ScDetail detail;
  const ScReport *report = find_report (&options, error);
  if (report == NULL || !sc_cmd_find_detail (command->name, options.detail, SC_DETAIL_KERNEL, &detail, error) || !check_options (&options, report, error) || !check_files (&options, argc, argv, error)
      || !sc_inputs_read (&options.inputs, argc, argv, error)
      || !check_named_files (&options, options.inputs.topology->files, error)
      || !check_named_files (&options, options.inputs.workload->files, error)
      || !read_ranks (&options, options.inputs.workload->plan.gpus, error))
    return SC_STATUS_USAGE;

  if (!sc_workload_check_modelled (options.inputs.workload, error))
    {
      g_prefix_error (error, "%s: ", argc == 3 ? argv[2] : "workload");
      return SC_STATUS_DATA;
    }

  const ScForecastOptions how = { .links = options.links || options.html != NULL, .detail = detail, .brief = !shows_steps (&options),
                                  .memory = options.memory || options.memory_svg != NULL || options.html != NULL || options.trace != NULL ? SC_MEMORY_ALL : SC_MEMORY_FULLEST };
  g_autoptr (ScSummary) summary = sc_forecast (options.inputs.topology, options.inputs.workload, &how, error);
  if (summary == NULL || !write_outputs (&options, report, summary, out, error))
    return SC_STATUS_INTERNAL;
  if (!options.require_fit || summary->verdict != SC_VERDICT_DOES_NOT_FIT)
    return SC_STATUS_OK;
  const ScClassSummary *fullest = &summary->classes[summary->memory_class];
  g_autofree char *needs = sc_format_bytes ((double) fullest->peak_device_bytes);
  g_autofree char *has = sc_format_bytes ((double) fullest->capacity_bytes);
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "--require-fit: rank %u (stage %u) needs %s, its GPU has %s",
               fullest->representative, fullest->stage, needs, has);
  return SC_STATUS_CONDITION;
}

const ScCommand sc_cmd_run = {
  .name = "run",
  .summary = "Simulate one training step and report time and memory",
  .usage = "[TOPOLOGY WORKLOAD]",
  .help = "TOPOLOGY and WORKLOAD are JSON files, names of shipped ones (see stepcast list), or - for standard\n"
          "input; without them the built-in example runs.  Their keys: stepcast list fields.\n"
          "\n"
          "--set changes one key before the file is read: topology.KEY goes to the topology, everything else\n"
          "to the workload.  KEY is a path of names and array indices (topology.fabric.tiers.0.radix=64), VALUE\n"
          "is JSON or a plain text.  topology.nodes=16 resizes a topology of one run of nodes.  Where plan.dp or\n"
          "plan.gpus is set, the other one of the file gives way; where tp, pp or cp is and the file has both,\n"
          "its gpus stay and dp follows.\n"
          "\n"
          "--detail layer and stage merge what nothing can come between: far faster, step times agree within 0.5 %.\n"
          "\n"
          "--memory plays the allocator for all stages: the curve of the fullest, what lives at its peak, by name, the first\n"
          "step against later ones; of all stages in JSON.\n"
          "\n"
          "--trace writes what PyTorch's profiler would: kernels with device, stream and correlation, collectives by NCCL's name, memory by kind\n"
          "as counters, arrows from sends to receives.  Tools that compare ranks want a file of each: --trace step-%r.json.gz --trace-ranks 0-7.\n"
          "\n"
          "--links tells how full the links of the fabric were, and with which kind of communication: the hottest\n"
          "ten in text, all of them over time in JSON.\n"
          "\n"
          "--device FILE stands in for the GPU of those node types that name it, or of all if none does.",
  .run = run,
};
