/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-runs.h - published runs of training against forecasts, row by row: time of a step, peaks of memory, out or not out of memory.
 * Layer: src.
 *
 * Nothing is fitted here: a row becomes a topology and a workload (row-plan.h), and is forecast as any other.  Errors are
 * predicted / measured - 1. */
#pragma once
#include "row-plan.h"

/* What a row prints of memory; the first of them that it prints is the row's own in sums over all. */
typedef enum
{
  SC_PEAK_ALLOCATED,
  SC_PEAK_RESERVED,
  SC_PEAK_DEVICE,
  SC_PEAK_UNSPECIFIED, /* held against what is allocated */
  SC_PEAK_STATES,      /* no peak: weights, gradients and optimizer states, of rows that count them for a number of parameters */
  SC_N_PEAKS
} ScPeak;
const char *sc_peak_name (ScPeak peak);

typedef struct
{
  guint  n;                          /* 0: nothing was judged, and the others are NAN */
  double mean_abs, median_abs, p90_abs;
  double signed_mean, signed_median;
  double worst;                      /* the largest, with its sign */
} ScRowErrors;

/* Of [n] errors, which are put in order. */
ScRowErrors sc_row_errors_of (double *errors, guint n);

typedef struct
{
  const ScRow *row;
  gboolean asked_time, asked_memory; /* the row is complete for it, and says how long or how much */
  char    *why;              /* skipped; NULL: forecast */
  gboolean out_of_scope;     /* ... since it is no run of training */
  char    *topology, *framework; /* as forecast, "megatron-core core"; NULL: not */
  char    *notes;            /* what was filled in; "" */
  char   **ignored;          /* keys of plan.extra that nobody reads, NULL-ended; or NULL */
  double   step_s;           /* predicted, else NAN */
  double   peak_gib[SC_N_PEAKS]; /* predicted, on the ranks whose memory is printed; NAN: not forecast */
  double   fill;             /* bytes of the device over its capacity, the fullest rank */
  gboolean oom;              /* does not fit */
  double  *allocated_gib, *reserved_gib; /* [measured.n_ranks, measured.n_reserved_ranks] predicted, owned; or NULL */
} ScRunResult;

double sc_run_time_error (const ScRunResult *run);              /* NAN: not judged */
double sc_run_peak_error (const ScRunResult *run, ScPeak peak); /* likewise */
double sc_run_memory_error (const ScRunResult *run);            /* of the first peak that is printed */
double sc_run_measured_peak (const ScRow *row, ScPeak peak);    /* GiB; NAN: not printed */

typedef struct
{
  guint n[2][2];      /* [out of memory as measured][as predicted] */
  guint near_n, near_right; /* of those whose forecast is within a tenth of the capacity */
} ScOomCounts;

typedef struct
{
  const char *key;    /* borrowed */
  guint rows, incomplete, out_of_scope, asked, skipped; /* skipped: of those asked */
  ScRowErrors time, memory, peaks[SC_N_PEAKS];
  ScRowErrors ranks[2]; /* allocated and reserved, each printed rank by itself */
  ScOomCounts oom;
} ScSourceResult;

typedef struct
{
  const char *name;   /* borrowed */
  guint  n, n_pairs;  /* judged rows; pairs that differ by more than SC_GROUP_DIFFERENCE */
  double tau;         /* of those pairs; NAN: none */
  gboolean best_found; /* the most tokens a second, as measured, are among the three that are predicted to be fastest */
} ScGroupResult;

#define SC_GROUP_LEAST 8
#define SC_GROUP_DIFFERENCE 0.10
#define SC_SOURCE_LEAST 8

typedef struct
{
  GPtrArray *runs;     /* ScRunResult, in the order of the input */
  GPtrArray *sources;  /* ScSourceResult, in order of first rows */
  GPtrArray *groups;   /* ScGroupResult, of SC_GROUP_LEAST judged rows or more, in order of first rows */
  ScSourceResult all;
  guint  asked_time, asked_memory, skipped_time, skipped_memory;
  double time_source_mean, time_source_median, time_source_signed; /* over sources of SC_SOURCE_LEAST rows, each once */
  double memory_source_mean, memory_source_median, memory_source_signed;
  guint  n_time_sources, n_memory_sources;
  double tau_median, tau_worst; /* over groups; NAN: none */
  guint  n_best_found;
  GPtrArray *ignored;  /* char *, owned: keys that nobody read */
} ScRunsResult;

void sc_runs_result_free (ScRunsResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRunsResult, sc_runs_result_free)

/* Called from any of the threads, one at a time. */
typedef void (*ScRunsProgress) (guint done, guint all, gpointer data);

typedef struct
{
  const char *filter;   /* only rows whose id, group or source holds this text; NULL: all */
  guint       jobs;     /* threads; 0: one for each processor.  The result does not depend on it */
  gboolean    memory;   /* rows that say something of memory, rather than of time, are run; else those with either */
  ScRunsProgress progress; /* or NULL */
  gpointer    progress_data;
} ScRunsOptions;

/* @rows must outlive the result.  Its runs are empty where the filter leaves none. */
ScRunsResult *sc_validate_runs (const ScRows *rows, const ScSystems *systems, const ScRunsOptions *options);

/* What --check asks: of the mean over sources of SC_SOURCE_LEAST rows or more, each once; of all rows where there is no such source. */
#define SC_TIME_TARGET   0.08
#define SC_MEMORY_TARGET 0.05
double sc_runs_mean_error (const ScRunsResult *result, gboolean memory); /* NAN: nothing was judged */

/* Why a row was skipped, and how often: "char * -> GUINT", reasons in order of frequency. */
typedef struct
{
  const char *why; /* borrowed */
  guint n;
  const char *example; /* id of the first */
} ScSkipReason;
GArray *sc_runs_skip_reasons (const ScRunsResult *result); /* ScSkipReason, caller unrefs */

/* One row of the table of formats. */
typedef struct
{
  const char *name;
  void (*write) (const ScRunsResult *result, gboolean memory, GString *out);
} ScRunsFormat;
const ScRunsFormat *sc_runs_formats (void); /* the first is the default; ends with a row whose name is NULL */
