/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd.h - commands as rows of one table, and the one table of exit statuses.
 * Layer: src.  A command parses its options, appends what it has to say to @out and returns a status, or sets an
 * error; main.c alone writes stdout (but for the lines of a sweep, which go out as they come), prints errors and turns them into a status. */
#pragma once
#include "models/lower.h"
#include "models/topology.h"
#include "models/workload.h"

typedef enum
{
  SC_STATUS_OK = 0,
  SC_STATUS_CONDITION = 1,
  SC_STATUS_USAGE = 2,
  SC_STATUS_DATA = 65, /* numbers from here on as in sysexits.h */
  SC_STATUS_NO_INPUT = 66,
  SC_STATUS_UNAVAILABLE = 69,
  SC_STATUS_INTERNAL = 70,
  SC_STATUS_CANNOT_CREATE = 73,
  SC_STATUS_IO = 74,
  SC_STATUS_STOPPED = 75,
  SC_STATUS_SIGNAL = 128, /* + number of the signal */
} ScStatus;

typedef struct
{
  ScStatus    status;
  const char *text; /* one line for people */
} ScStatusRow;

const ScStatusRow *sc_status_all (guint *ret_n);
ScStatus           sc_status_of_error (const GError *error);

#define SC_CMD_ERROR (sc_cmd_error_quark ())
GQuark sc_cmd_error_quark (void);
typedef enum
{
  SC_CMD_ERROR_USAGE,         /* status 2 */
  SC_CMD_ERROR_NO_INPUT,      /* status 66 */
  SC_CMD_ERROR_UNAVAILABLE,   /* status 69: this build or machine cannot do that */
  SC_CMD_ERROR_CANNOT_CREATE, /* status 73 */
  SC_CMD_ERROR_IO,            /* status 74 */
  SC_CMD_ERROR_CONDITION,     /* status 1: a requested condition failed; what the command has to say is printed all the same */
} ScCmdError;

typedef struct ScCommand ScCommand;
struct ScCommand
{
  const char *name;
  const char *summary; /* one sentence, no full stop */
  const char *usage;   /* what follows the name: "[TOPOLOGY WORKLOAD]" */
  const char *help;    /* a paragraph below the options, or NULL */
  /* @argv[0] is the name.  Status of a run without error; what it returns beside an error is ignored. */
  ScStatus (*run) (const ScCommand *command, int argc, char **argv, GString *out, GError **error);
};

extern const ScCommand sc_cmd_run;
extern const ScCommand sc_cmd_fit;
extern const ScCommand sc_cmd_explain;
extern const ScCommand sc_cmd_compare;
extern const ScCommand sc_cmd_search;
extern const ScCommand sc_cmd_sweep;
extern const ScCommand sc_cmd_merge;
extern const ScCommand sc_cmd_check;
extern const ScCommand sc_cmd_list;
extern const ScCommand sc_cmd_show;
extern const ScCommand sc_cmd_comm;
extern const ScCommand sc_cmd_validate;
extern const ScCommand sc_cmd_calibrate;

const ScCommand *const *sc_command_all (void); /* NULL-ended */

/* Parses @argv by @entries (NULL-ended; give text arguments the type FILENAME: no charset conversion) and leaves the
 * positional arguments in @argv[1..].  --help appends the help to @out and sets *ret_done: return SC_STATUS_OK then. */
gboolean sc_cmd_parse (const ScCommand *command, const GOptionEntry *entries, int *argc, char ***argv, GString *out,
                       gboolean *ret_done, GError **error);

/* Sets a usage error that begins with the command's name; FALSE, to be returned. */
gboolean sc_cmd_fail_usage (const char *command, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* What --format says to a command that writes text or JSON: NULL is text. */
gboolean sc_cmd_find_json (const char *command, const char *format, gboolean *ret_json, GError **error);

/* What --detail says; NULL: @otherwise. */
gboolean sc_cmd_find_detail (const char *command, const char *name, ScDetail otherwise, ScDetail *ret_detail, GError **error);

/* The two inputs that run, check and show share. */
typedef struct
{
  char      **set;    /* --set, NULL-ended */
  char       *device; /* --device */
  ScTopology *topology;
  ScWorkload *workload;
  char       *topology_file, *workload_file; /* as messages call them, */
  char       *topology_text, *workload_text; /* what is in them, */
  gsize       topology_length, workload_length;
} ScInputs;

void sc_inputs_clear (ScInputs *inputs);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ScInputs, sc_inputs_clear)

/* Rows for a command's GOptionEntry table. */
#define SC_INPUT_OPTIONS(inputs)                                                                                       \
  { "set", 's', G_OPTION_FLAG_NONE, G_OPTION_ARG_FILENAME_ARRAY, &(inputs)->set,                                       \
    "Override one input key (repeatable): plan.tp=4, model.layers=80, seq=4096, topology.nodes=16", "KEY=VALUE" },     \
  { "device", 0, G_OPTION_FLAG_NONE, G_OPTION_ARG_FILENAME, &(inputs)->device,                                         \
    "Use this device file in place of the topology's GPU", "FILE" }

/* Reads and checks @argv[1] = TOPOLOGY and @argv[2] = WORKLOAD, paths or names of shipped ones; without arguments the
 * built-in example.  Checks also that the two go together. */
gboolean sc_inputs_read (ScInputs *inputs, int argc, char **argv, GError **error);

/* The same without that last check: the plan, or its size, is not what counts. */
gboolean sc_inputs_read_apart (ScInputs *inputs, int argc, char **argv, GError **error);

/* The workload once more, with @more (NULL-ended, as --set writes it) on top of what --set says; checked as the first time. */
ScWorkload *sc_inputs_read_changed (const ScInputs *inputs, char **more, GError **error);

/* The topology once more, likewise. */
ScTopology *sc_inputs_read_changed_topology (const ScInputs *inputs, char **more, GError **error);

/* Replaces @path by @text in one step (temporary file, rename); devices and pipes are written to as they are. */
gboolean sc_write_file (const char *path, const char *text, gsize length, GError **error);
