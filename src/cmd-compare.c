/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-compare.c - stepcast compare: two reports, or a report and the log of a run, side by side. */
#include "cmd.h"
#include "compare.h"
#include <string.h>

typedef struct
{
  char *format, *log;
} CompareOptions;

static void
compare_options_clear (CompareOptions *options)
{
  g_free (options->format);
  g_free (options->log);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CompareOptions, compare_options_clear)

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (CompareOptions) options = { .format = NULL };
  const GOptionEntry entries[] = {
    { "log", 'l', 0, G_OPTION_ARG_FILENAME, &options.log, "What a training run printed, by Megatron or torchtitan, beside report A", "FILE" },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &options.format, "text (the default) or json", "NAME" },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  gboolean json;
  const int wanted = options.log != NULL ? 2 : 3;
  if (!sc_cmd_find_json (command->name, options.format, &json, error))
    return SC_STATUS_USAGE;
  if (argc != wanted)
    {
      sc_cmd_fail_usage ("compare", error, "found %d report%s, expected %s", argc - 1, argc == 2 ? "" : "s", wanted == 2 ? "one beside --log" : "two (or --log and one)");
      return SC_STATUS_USAGE;
    }
  ScTrainLog log;
  if (options.log != NULL && !sc_train_log_read (options.log, &log, error))
    return SC_STATUS_DATA;
  g_autoptr (ScReportRead) a = sc_report_read (argv[1], error);
  g_autoptr (ScReportRead) b = a != NULL && options.log == NULL ? sc_report_read (argv[2], error) : NULL;
  if (a == NULL || (b == NULL && options.log == NULL))
    return SC_STATUS_DATA;
  if (options.log != NULL)
    (json ? sc_compare_log_write_json : sc_compare_log_write_text) (a, options.log, &log, out);
  else
    (json ? sc_compare_write_json : sc_compare_write_text) (a, b, out);
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_compare = {
  .name = "compare",
  .summary = "Set two reports side by side, or a report beside the log of a real run",
  .usage = "A [B]",
  .help = "A and B are reports that stepcast run --format json wrote.  Settings that differ are listed, and the difference\n"
          "of the steps is the sum of the differences of their parts.\n"
          "\n"
          "With --log: the median step of the log (without the first tenth of its steps) and its peaks of memory beside\n"
          "those of report A.",
  .run = run,
};
