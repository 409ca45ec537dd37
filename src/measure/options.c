/* SPDX-License-Identifier: MIT */
/* options.c - the command line. */
#include "measure/options.h"
#include "measure/item.h"
#include "measure/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum
{
  NAME_HELP,
  NAME_VERSION,
  NAME_LIST,
  NAME_VERBOSE,
  NAME_OUTPUT,
  NAME_BUDGET,
  NAME_ONLY,
  NAME_GPU,
  NAME_AVOID,
  NAME_DEADLINE,
} Name;

static const struct
{
  const char *name;
  char letter;
  const char *value; /* what it takes, or NULL */
  const char *help;  /* NULL: not shown */
} rows[] = {
  [NAME_OUTPUT] = { "output", 'o', "FILE", "Append the samples to FILE (default: raw.jsonl)" },
  [NAME_BUDGET] = { "budget", 'b', "TIME", "Stop after that long: 90s, 5m, 1h; what is worth most comes first" },
  [NAME_ONLY] = { "only", 0, "CLASS[,CLASS...]", "Measure these classes only" },
  [NAME_GPU] = { "gpu", 'g', "N", "Measure GPU N (default: 0)" },
  [NAME_LIST] = { "list", 'l', NULL, "Print what would be measured, best first; needs no GPU" },
  [NAME_VERBOSE] = { "verbose", 'v', NULL, "A line for every sample on standard error" },
  [NAME_HELP] = { "help", 'h', NULL, "Print this help" },
  [NAME_VERSION] = { "version", 0, NULL, "Print the version" },
  [NAME_AVOID] = { "avoid", 0, "KEY", NULL },
  [NAME_DEADLINE] = { "deadline", 0, "SECONDS", NULL },
};

#define N_ROWS ((int) (sizeof rows / sizeof *rows))

bool
scm_duration_read (const char *text, double *ret_seconds)
{
  char *end;
  if (*text < '0' || *text > '9')
    return false;
  const double number = strtod (text, &end);
  const double unit = strcmp (end, "") == 0 || strcmp (end, "s") == 0 ? 1
                      : strcmp (end, "m") == 0                        ? 60
                      : strcmp (end, "h") == 0                        ? 3600
                                                                      : 0;
  const double seconds = number * unit;
  if (!isfinite (seconds) || seconds <= 0 || strspn (text, "0123456789.") != (size_t) (end - text))
    return false;
  *ret_seconds = seconds;
  return true;
}

double
scm_budget_end (const ScmOptions *options, double started_s)
{
  return options->budget_s <= 0     ? INFINITY
         : options->deadline_s > 0 ? options->deadline_s
                                   : started_s + options->budget_s;
}

static bool
read_classes (const char *list, unsigned *ret_classes, ScmText *message)
{
  unsigned classes = 0;
  for (const char *p = list;; p++)
    {
      char name[32];
      const size_t length = strcspn (p, ",");
      if (length < sizeof name)
        {
          memcpy (name, p, length);
          name[length] = '\0';
        }
      const ScmClass class_id = length < sizeof name ? scm_class_find (name) : SCM_N_CLASSES;
      if (class_id == SCM_N_CLASSES)
        {
          scm_text_add (message, "--only: unknown class \"%.*s\"; classes:", (int) (length > 40 ? 40 : length), p);
          for (int i = 0; i < SCM_N_CLASSES; i++)
            scm_text_add (message, " %s", scm_classes[i].name);
          return false;
        }
      classes |= 1u << class_id;
      p += length;
      if (*p == '\0')
        break;
    }
  *ret_classes = classes;
  return true;
}

static bool
apply (ScmOptions *options, Name name, const char *value, ScmText *message)
{
  switch (name)
    {
    case NAME_HELP:
      options->help = true;
      return true;
    case NAME_VERSION:
      options->version = true;
      return true;
    case NAME_LIST:
      options->list = true;
      return true;
    case NAME_VERBOSE:
      options->verbose = true;
      return true;
    case NAME_OUTPUT:
      options->output = value;
      if (*value == '\0')
        scm_text_add (message, "--output: found no name of a file");
      return *value != '\0';
    case NAME_BUDGET:
      if (scm_duration_read (value, &options->budget_s))
        return true;
      scm_text_add (message, "--budget: found \"%.40s\", expected a time such as 90s, 5m or 1h", value);
      return false;
    case NAME_ONLY:
      return read_classes (value, &options->classes, message);
    case NAME_GPU:
      if (*value != '\0' && strlen (value) < 5 && strspn (value, "0123456789") == strlen (value))
        {
          options->gpu = atoi (value);
          return true;
        }
      scm_text_add (message, "--gpu: found \"%.40s\", expected the number of a GPU, from 0", value);
      return false;
    case NAME_DEADLINE:
      if (scm_duration_read (value, &options->deadline_s))
        return true;
      scm_text_add (message, "--deadline: found \"%.40s\", expected seconds", value);
      return false;
    case NAME_AVOID:
    default:
      if (options->n_avoided < SCM_MAX_AVOIDED)
        options->avoided[options->n_avoided++] = value;
      return true;
    }
}

static int
find_long (const char *name, size_t length)
{
  int i = 0;
  while (i < N_ROWS && (strlen (rows[i].name) != length || strncmp (rows[i].name, name, length) != 0))
    i++;
  return i;
}

static int
find_letter (char letter)
{
  int i = 0;
  while (i < N_ROWS && (rows[i].letter == 0 || rows[i].letter != letter))
    i++;
  return i;
}

bool
scm_options_read (ScmOptions *options, int argc, char **argv, ScmText *message)
{
  *options = (ScmOptions){ .output = "raw.jsonl", .classes = (1u << SCM_N_CLASSES) - 1 };
  for (int i = 1; i < argc; i++)
    {
      const char *argument = argv[i], *value = NULL;
      int row;
      if (strncmp (argument, "--", 2) == 0 && argument[2] != '\0')
        {
          const size_t length = strcspn (argument + 2, "=");
          row = find_long (argument + 2, length);
          if (argument[2 + length] == '=')
            value = argument + 2 + length + 1;
        }
      else if (argument[0] == '-' && argument[1] != '\0' && argument[1] != '-')
        {
          row = find_letter (argument[1]);
          if (argument[2] != '\0')
            value = argument + 2;
        }
      else
        {
          scm_text_add (message, "found \"%.60s\", expected only options (see stepcast-measure --help)", argument);
          return false;
        }
      if (row == N_ROWS)
        {
          scm_text_add (message, "unknown option \"%.60s\" (see stepcast-measure --help)", argument);
          return false;
        }
      if (rows[row].value == NULL && value != NULL)
        {
          scm_text_add (message, "--%s takes no value", rows[row].name);
          return false;
        }
      if (rows[row].value != NULL && value == NULL)
        {
          if (i + 1 == argc)
            {
              scm_text_add (message, "--%s: its %s is missing", rows[row].name, rows[row].value);
              return false;
            }
          value = argv[++i];
        }
      if (!apply (options, (Name) row, value, message))
        return false;
    }
  return true;
}

void
scm_help_write (ScmText *text)
{
  scm_text_add (text, "Usage:\n"
                      "  stepcast-measure [OPTION...]\n"
                      "\n"
                      "Measures the GPU of this node by microbenchmarks and appends every sample to a file as one line of\n"
                      "JSON, from which \"stepcast calibrate\" makes a device file.  Run again with the same file, it goes on\n"
                      "where it stopped; Ctrl-C loses nothing.\n"
                      "\n"
                      "Options:\n");
  for (int i = 0; i < N_ROWS; i++)
    {
      static const int order[] = { NAME_OUTPUT, NAME_BUDGET, NAME_ONLY, NAME_GPU, NAME_LIST, NAME_VERBOSE, NAME_HELP,
                                   NAME_VERSION };
      if (i == (int) (sizeof order / sizeof *order))
        break;
      const int row = order[i];
      char name[64] = "";
      ScmText flags = { 0 };
      if (rows[row].letter != 0)
        scm_text_add (&flags, "-%c, ", rows[row].letter);
      scm_text_add (&flags, "--%s%s%s", rows[row].name, rows[row].value != NULL ? "=" : "",
                    rows[row].value != NULL ? rows[row].value : "");
      strncat (name, flags.bytes, sizeof name - 1);
      scm_text_clear (&flags);
      scm_text_add (text, "  %-24s %s\n", name, rows[row].help);
    }
  scm_text_add (text, "\nClasses:\n");
  for (int i = 0; i < SCM_N_CLASSES; i++)
    scm_text_add (text, "  %-14s %s\n", scm_classes[i].name, scm_classes[i].summary);
  scm_text_add (text, "\n"
                      "cuBLASLt, cuDNN, NCCL and NVML are looked for in the folders of STEPCAST_LIBRARY_PATH (separated by colons),\n"
                      "then where the loader looks, then in CUDA's folders.  What needs a missing one is left out.\n"
                      "\n"
                      "Exit status:\n"
                      "  0    everything was measured, or the budget is spent\n"
                      "  2    the command line is wrong\n"
                      "  65   the output file holds something else\n"
                      "  69   there is no usable GPU\n"
                      "  73   the output file cannot be created or opened\n"
                      "  74   reading or writing failed\n"
                      "  128+N  stopped by signal N\n"
                      "\n"
                      "Examples:\n"
                      "  stepcast-measure --budget 5m -o h200.jsonl\n"
                      "  stepcast-measure --only gemm,attention -o h200.jsonl\n"
                      "  stepcast calibrate h200.jsonl -o h200.json\n");
}
