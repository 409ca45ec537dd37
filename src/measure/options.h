/* SPDX-License-Identifier: MIT */
/* options.h - the command line, and the statuses that the program ends with (those of stepcast). */
#pragma once
#include "measure/json.h"

enum
{
  SCM_STATUS_OK = 0,
  SCM_STATUS_USAGE = 2,
  SCM_STATUS_DATA = 65,
  SCM_STATUS_UNAVAILABLE = 69,
  SCM_STATUS_CANNOT_CREATE = 73,
  SCM_STATUS_IO = 74,
  SCM_STATUS_SIGNAL = 128,
};

#define SCM_MAX_AVOIDED 64

typedef struct
{
  bool help, version, list, verbose;
  const char *output; /* borrowed from argv, as are the keys */
  double budget_s;    /* 0: no limit */
  unsigned classes;   /* bit per class */
  int gpu;
  const char *avoided[SCM_MAX_AVOIDED]; /* --avoid KEY, which the program gives itself when it starts again */
  int n_avoided;
  double deadline_s; /* --deadline, likewise: when the budget is spent, on the monotonic clock; 0: it begins now */
} ScmOptions;

/* FALSE with one line in @message (without program name and line end). */
bool scm_options_read (ScmOptions *options, int argc, char **argv, ScmText *message);

/* "90", "90s", "5m", "1.5h" in seconds; FALSE unless that is a positive time. */
bool scm_duration_read (const char *text, double *ret_seconds);

/* When the budget is spent if the program began at @started_s; INFINITY without one. */
double scm_budget_end (const ScmOptions *options, double started_s);

void scm_help_write (ScmText *text);
