/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-schedules.h - published comparisons of pipeline schedules against forecasts, run by run.
 * Layer: src.
 *
 * Each run is forecast three times: with the times of its own passes that its source measured (plan.profiled_ms); so, but with one GPU
 * slower than the profile, as the slowest of so many is; with our own costs. */
#pragma once
#include <glib.h>
#include <math.h>

/* Greatest error of a run's samples/s with its own times. */
#define SC_SCHEDULES_TARGET 0.05

typedef enum
{
  SC_RUN_SLOWEST,  /* profiled, and one GPU as slow as the slowest: what is judged */
  SC_RUN_PROFILED, /* profiled */
  SC_RUN_OWN,      /* our own costs */
  SC_N_RUNS
} ScRunKind;
const char *sc_run_kind_name (ScRunKind kind); /* "slowest", "profiled", "own" */

typedef struct
{
  char  *id, *group;      /* runs of one group differ in their schedule alone */
  char  *schedule;        /* of the row, not NULL */
  char  *topology;        /* of the forecast, or NULL */
  guint  gpus, microbatches;
  char  *why;             /* skipped; NULL: judged */
  double measured;        /* samples/s of a GPU; 0: none */
  double predicted[SC_N_RUNS];
  double bubble_measured; /* share of the longest rank's span, as the source worked it out of its times; NAN: none */
  double bubble;          /* the same of our order */
} ScScheduleRun;

typedef struct
{
  guint  n, n_within;            /* judged; of them within the target */
  double mean, mean_abs, worst; /* predicted / measured - 1 of samples/s: above 0, forecasts are fast; NAN: none */
} ScRunErrors;

/* Two runs of a group whose order the forecast turns round. */
typedef struct
{
  const ScScheduleRun *faster, *slower; /* as measured */
} ScSwapped;

typedef struct
{
  GPtrArray *runs;         /* ScScheduleRun, in the order of the input */
  guint  n_judged, n_skipped;
  ScRunErrors errors[SC_N_RUNS];
  GPtrArray *schedules;    /* char *, owned: in the order of first runs ... */
  ScRunErrors *of_schedule; /* [schedules][SC_N_RUNS] */
  guint  n_pairs;          /* of runs of a group that were measured to differ */
  GArray *swapped[SC_N_RUNS]; /* ScSwapped */
  guint  n_bubbles;
  double bubble_worst;     /* largest difference */
  gboolean passes;         /* some were judged, none misses the target, and no pair that differs by more than that is swapped */
} ScSchedulesResult;

void sc_schedules_result_free (ScSchedulesResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSchedulesResult, sc_schedules_result_free)

/* Lines of JSON: a run each, as published tables say it (model, seq, cluster, plan with extra.profiled_ms, measured), or with
 * "runs", an array of what differs. @filter: NULL, or only runs whose id, group, model or schedule match. */
ScSchedulesResult *sc_validate_schedules (const char *file, const char *text, gsize length, GRegex *filter, GError **error);

/* One row of the table of formats. */
typedef struct
{
  const char *name;
  void (*write) (const ScSchedulesResult *result, GString *out);
} ScSchedulesFormat;
const ScSchedulesFormat *sc_schedules_formats (void); /* the first is the default; ends with a row whose name is NULL */
