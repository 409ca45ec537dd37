/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-merge.c - stepcast merge: the shards of a sweep become one file. */
#include "cmd.h"
#include "grid-merge.h"
#include "output.h"
#include <string.h>

#define SHOWN 20 /* ranges of points in messages */

typedef struct
{
  char *output;
  gboolean partial;
} MergeOptions;

static void
merge_options_clear (MergeOptions *o)
{
  g_free (o->output);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MergeOptions, merge_options_clear)

static gboolean
put (gpointer file, const char *text, gsize length)
{
  return fwrite (text, 1, length, file) == length; /* closing the output says why */
}

static gboolean
write_all (const ScMerge *merge, const char *path, GError **error)
{
  ScOutput *const output = sc_output_open (path, error);
  if (output == NULL)
    return FALSE;
  sc_merge_write (merge, put, sc_output_file (output));
  return sc_output_close (output, TRUE, error);
}

static gboolean
check_files (const char *output, int argc, char **argv, GError **error)
{
  if (argc < 2)
    return sc_cmd_fail_usage ("merge", error, "found no files, expected those that stepcast sweep has written");
  for (int i = 1; i < argc && output != NULL && strcmp (output, "-") != 0; i++)
    if (sc_output_is_same (output, argv[i]))
      return sc_cmd_fail_usage ("merge", error, "--output %s: would replace an input", output);
  return TRUE;
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (MergeOptions) options = { .output = NULL };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output, "Write to this file", "FILE" },
    { "partial", 0, 0, G_OPTION_ARG_NONE, &options.partial, "Write what there is where points are missing, with status 0", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  if (!check_files (options.output, argc, argv, error))
    return SC_STATUS_USAGE;
  g_autoptr (ScMerge) merge = sc_merge_new ();
  for (int i = 1; i < argc; i++)
    if (!sc_merge_add (merge, argv[i], error))
      return SC_STATUS_DATA;
  if (!sc_merge_settle (merge, error))
    return SC_STATUS_DATA;

  if (sc_merge_n_duplicates (merge) > 0)
    {
      g_autofree char *points = sc_merge_list (merge, TRUE, SHOWN);
      fprintf (stderr, "stepcast: merge: %" G_GUINT64_FORMAT " of the points came several times, all alike, and are taken once: %s\n", sc_merge_n_duplicates (merge), points);
    }
  const guint64 missing = sc_merge_n_points (merge) - sc_merge_n_lines (merge);
  if (missing > 0)
    {
      g_autofree char *points = sc_merge_list (merge, FALSE, SHOWN);
      g_autofree char *torn = g_strdup_printf ("; %" G_GUINT64_FORMAT " of the files end in the middle of a line", sc_merge_n_torn (merge));
      g_autofree char *message = g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " points are missing%s: %s", missing, sc_merge_n_points (merge),
                                                  sc_merge_n_torn (merge) > 0 ? torn : "", points);
      if (!options.partial)
        {
          g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION, "merge: %s (--partial writes the others)", message);
          return SC_STATUS_CONDITION;
        }
      fprintf (stderr, "stepcast: merge: %s\n", message);
    }
  return write_all (merge, options.output != NULL ? options.output : "-", error) ? SC_STATUS_OK : SC_STATUS_IO;
}

const ScCommand sc_cmd_merge = {
  .name = "merge",
  .summary = "Put the shards of a sweep together, and say what is missing",
  .usage = "FILE...",
  .help = "FILEs are what stepcast sweep --shard wrote, all of them jsonl or all csv, in any order.  The result is what one\n"
          "sweep would have written, byte by byte.  Files of different sweeps are refused, and so are two lines of one point\n"
          "that differ; lines that are alike are taken once, and named.\n"
          "\n"
          "Exit status: 0 all points are there, 1 some are missing: they are named, and nothing is written without --partial.",
  .run = run,
};
