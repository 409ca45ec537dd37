/* SPDX-License-Identifier: GPL-3.0-or-later */
/* main.c - finds the command, prints what it says, and is the only place that prints errors and picks the status. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "cmd.h"
#include "json-in.h"
#include <errno.h>
#include <fcntl.h>
#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "(unconfigured)"
#endif

static const ScCommand *
find_command (const char *name)
{
  for (const ScCommand *const *command = sc_command_all (); *command != NULL; command++)
    if (strcmp ((*command)->name, name) == 0)
      return *command;
  return NULL;
}

static void
append_help (GString *out)
{
  g_string_append (out, "Usage:\n"
                        "  stepcast COMMAND [OPTION...] [ARGUMENT...]\n"
                        "  stepcast help [COMMAND]\n"
                        "\n"
                        "Forecasts one training step of a large language model on a GPU cluster: how long it takes,\n"
                        "where the time goes, and how much memory each GPU needs.\n"
                        "\n"
                        "Commands:\n");
  for (const ScCommand *const *command = sc_command_all (); *command != NULL; command++)
    g_string_append_printf (out, "  %-22s %s\n", (*command)->name, (*command)->summary);
  g_string_append (out, "\n"
                        "Options:\n"
                        "  -h, --help             Print this help\n"
                        "  --version              Print the version\n"
                        "\n"
                        "Exit status:\n");
  guint n;
  const ScStatusRow *rows = sc_status_all (&n);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (out, "  %-22d %s\n", (int) rows[i].status, rows[i].text);
  g_string_append (out, "\n"
                        "Examples:\n"
                        "  stepcast run\n"
                        "  stepcast run dgx-h100-superpod llama3-405b --timeline -\n"
                        "  stepcast run topology.json workload.json --set plan.tp=4 --format json\n"
                        "  stepcast comm all-reduce dgx-h100-superpod --ranks 64\n"
                        "  stepcast list fields\n");
}

static ScStatus
fail_command (const char *what, const char *name, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  for (const ScCommand *const *command = sc_command_all (); *command != NULL; command++)
    g_ptr_array_add (known, (gpointer) (gsize) (*command)->name);
  g_ptr_array_add (known, (gpointer) (gsize) "help");
  g_ptr_array_add (known, NULL);
  const char *nearest = sc_nearest (name, (const char *const *) known->pdata);
  if (nearest != NULL)
    g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "unknown %s \"%s\", did you mean \"%s\"?", what, name,
                 nearest);
  else
    g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "unknown %s \"%s\" (see stepcast --help)", what, name);
  return SC_STATUS_USAGE;
}

/* stepcast help [COMMAND] */
static ScStatus
run_help (int argc, char **argv, GString *out, GError **error)
{
  if (argc > 2)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "help: found %d arguments, expected at most one", argc - 1);
      return SC_STATUS_USAGE;
    }
  const ScCommand *command = argc == 2 ? find_command (argv[1]) : NULL;
  if (argc == 2 && command == NULL)
    return fail_command ("command", argv[1], error);
  if (command == NULL)
    {
      append_help (out);
      return SC_STATUS_OK;
    }
  char option[] = "--help";
  char *help_argv[] = { argv[1], option, NULL };
  return command->run (command, 2, help_argv, out, error);
}

static ScStatus
dispatch (int argc, char **argv, GString *out, GError **error)
{
  if (argc < 2)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "missing command (try stepcast run, or stepcast --help)");
      return SC_STATUS_USAGE;
    }
  const char *name = argv[1];
  if (strcmp (name, "--version") == 0)
    {
      g_string_append (out, "stepcast " PACKAGE_VERSION "\n"
                            "License GPL-3.0-or-later: GNU GPL version 3 or later <https://gnu.org/licenses/gpl.html>\n"
                            "This is free software: you are free to change and redistribute it.\n"
                            "There is NO WARRANTY, to the extent permitted by law.\n");
      return SC_STATUS_OK;
    }
  if (strcmp (name, "--help") == 0 || strcmp (name, "-h") == 0)
    {
      append_help (out);
      return SC_STATUS_OK;
    }
  if (strcmp (name, "help") == 0)
    return run_help (argc - 1, argv + 1, out, error);
  const ScCommand *command = find_command (name);
  if (command == NULL)
    return fail_command (*name == '-' ? "option" : "command", name, error);
  return command->run (command, argc - 1, argv + 1, out, error);
}

/* One line on stderr, whatever file names and values contain. */
static void
print_error (const char *message)
{
  g_autofree char *valid = g_utf8_make_valid (message, -1);
  g_autoptr (GString) line = g_string_new ("stepcast: ");
  for (const char *p = valid; *p != '\0'; p += g_utf8_skip[(guchar) *p])
    {
      const gunichar c = g_utf8_get_char (p);
      if (g_unichar_iscntrl (c))
        g_string_append_printf (line, "\\u%04x", c);
      else
        g_string_append_unichar (line, c);
    }
  g_string_append_c (line, '\n');
  fputs (line->str, stderr);
}

/* A closed descriptor 0, 1 or 2 must not become that of a file that we open.  Reading and writing it still fail. */
static void
occupy_standard_descriptors (void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl (fd, F_GETFD) < 0 && open ("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
      _exit (SC_STATUS_IO);
}

int
main (int argc, char **argv)
{
  occupy_standard_descriptors ();
  gsl_set_error_handler_off ();
  g_set_prgname ("stepcast");

  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ScStatus status = dispatch (argc, argv, out, &error);
  if (error != NULL && !g_error_matches (error, SC_CMD_ERROR, SC_CMD_ERROR_CONDITION))
    {
      print_error (error->message);
      return (int) sc_status_of_error (error);
    }
  const gboolean written = fwrite (out->str, 1, out->len, stdout) == out->len && fflush (stdout) == 0;
  const int why = errno;
  if (fclose (stdout) != 0 || !written)
    {
      g_autofree char *message =
          g_strdup_printf ("standard output: cannot write: %s", g_strerror (written ? errno : why));
      print_error (message);
      return SC_STATUS_IO;
    }
  if (error != NULL)
    {
      print_error (error->message);
      status = sc_status_of_error (error);
    }
  return (int) status;
}
