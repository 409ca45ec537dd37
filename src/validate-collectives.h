/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-collectives.h - published sweeps of collectives against the model, sweep by sweep.
 * Layer: src.
 *
 * A row's prediction is the simulated time of the call alone on its system, or, where that is shorter, the launch of the
 * measuring program: a property of the sweep, not of the fabric.  Where the sweep does not state it, it is estimated from
 * its smallest rows, and those are not judged; where another row of the sweep was much faster, the estimate is that one's. */
#pragma once
#include "error-stat.h"
#include "models/collective.h"
#include "systems-json.h"

typedef enum
{
  SC_POINT_JUDGED,
  SC_POINT_LAUNCH, /* used to estimate the launch */
  SC_POINT_NO_FIGURE, /* no size or no time */
  SC_POINT_IMPOSSIBLE, /* the forced algorithm cannot do this size */
  SC_N_POINT_STATES
} ScPointState;

typedef struct
{
  double bytes, measured_s;
  double model_s;     /* simulated; 0: not */
  double predicted_s; /* no less than the launch */
  ScPointState state;
  const char *algorithm, *protocol; /* static; NULL: not simulated */
} ScSweepPoint;

/* Small: below 10^6 bytes; large: from there on. */
#define SC_LARGE_BYTES 1e6
#define SC_N_BANDS 5
const char *sc_band_name (guint band); /* "< 16 KiB", ..., "> 64 MiB" */
guint       sc_band_of (double bytes);

typedef struct
{
  ScErrorStat all, small, large, bands[SC_N_BANDS];
} ScSweepErrors;

typedef struct
{
  const ScSweep *sweep; /* borrowed */
  char     *skipped;    /* why; NULL: it was judged */
  ScFamily  family;
  char     *topology;   /* of its system, or NULL */
  char    **set;        /* overrides, or NULL */
  const char *nccl;     /* version that stands for it; static, or NULL */
  ScSweepPoint *points; /* [sweep->n_rows], or NULL */
  double    launch_s;   /* 0: none */
  gboolean  launch_estimated;
  guint     n_states[SC_N_POINT_STATES];
  ScSweepErrors  errors;
  double    worst_bytes; /* size of the worst row */
} ScSweepResult;

typedef struct
{
  ScFamily family;
  double   target_large, target_small; /* greatest mean error; INFINITY: none */
  guint    n_sweeps, n_skipped, n_rows;
  guint    n_rows_skipped;             /* of sweeps that were skipped, and those without a figure or impossible */
  ScSweepErrors errors, of_use[3];          /* by ScSweepUse */
  gboolean passes;
} ScFamilyResult;

typedef struct
{
  GPtrArray *sweeps;                  /* ScSweepResult, in the order of the input */
  ScFamilyResult families[SC_N_FAMILIES];
  ScSweepErrors   errors, of_use[3];
  guint      n_rows, n_rows_skipped;  /* in sweeps that were skipped */
  guint      n_states[SC_N_POINT_STATES];
  guint      n_sweeps_skipped;
  gboolean   passes;                  /* some rows were judged, and every family meets its targets */
} ScCollectivesResult;

void sc_collectives_result_free (ScCollectivesResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScCollectivesResult, sc_collectives_result_free)

/* @sweeps: ScSweep, borrowed as long as the result lives.  @jobs: threads, 0: one for each processor; the result is the same. */
ScCollectivesResult *sc_validate_collectives (const ScSystems *systems, GPtrArray *sweeps, guint jobs);

/* What forced @algo ("proto LL", "algo Ring", "Tree"): *ret_row NULL and SC_N_PROTOS where it leaves them free.  FALSE: it says
 * something else. */
gboolean sc_forced_algo (const char *algo, const ScCollective **ret_row, ScProtocol *ret_protocol);

/* One row of the table of formats. */
typedef struct
{
  const char *name;
  void (*write) (const ScCollectivesResult *result, GString *out);
} ScCollectivesFormat;
const ScCollectivesFormat *sc_collectives_formats (void); /* the first is the default; ends with a row whose name is NULL */
