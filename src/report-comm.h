/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-comm.h - what collectives on their own took: a table like nccl-tests', CSV, JSON.
 * Layer: src. */
#pragma once
#include "comm-spec.h"
#include "models/comm.h"

/* One call of one group. */
typedef struct
{
  guint  group; /* in ScCommRun.groups */
  double bytes;
  ScCommResult result;
  double measured_s; /* 0: was not */
} ScCommRow;

/* Groups that ran together, at each size. */
typedef struct
{
  guint         line;     /* of the log; 0: without one */
  char         *measured_with; /* "2.28.7+cuda13.0", as the log says; NULL: it does not, or there is none */
  guint         library;  /* ScTopology.collectives while it ran */
  ScCollKind    kind;     /* of groups that say no other */
  ScCommPlaces *places;
  GPtrArray    *groups;   /* ScCommSpec */
  ScComms      *comms;
  GArray       *rows;     /* ScCommRow: by size, then by group */
  ScCommStats   stats;
} ScCommRun;

void sc_comm_run_free (ScCommRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScCommRun, sc_comm_run_free)

typedef struct
{
  const ScTopology *topology;
  const char *log;   /* path, or NULL: nothing was measured */
  GPtrArray  *runs;  /* ScCommRun; one, unless there is a log */
} ScCommReport;

/* How far simulated times are from measured ones. */
typedef struct
{
  guint  n;
  double ratio; /* geometric mean of simulated / measured */
  double error; /* geometric mean of the larger over the smaller, less 1: 0.05 is 5 % */
} ScCommAccuracy;

#define SC_COMM_SMALL_BYTES 1048576.0 /* below, latency decides; reports keep the two apart */

/* Of the rows of all runs with sizes in [min, max). */
ScCommAccuracy sc_comm_accuracy (const ScCommReport *report, double min, double max);

/* One format. */
typedef struct
{
  const char *name; /* of --format */
  void (*write) (const ScCommReport *report, GString *out);
} ScCommFormat;

const ScCommFormat *sc_comm_format_all (guint *ret_n); /* the default first */

/* Appends to @out.  FALSE and SC_REPORT_ERROR: a time is no positive number. */
gboolean sc_comm_report_write (const ScCommReport *report, const ScCommFormat *format, GString *out, GError **error);
