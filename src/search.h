/* SPDX-License-Identifier: GPL-3.0-or-later */
/* search.h - the fastest plans that fit, of all that a model can be trained by on so many GPUs.
 * Layer: src.
 *
 * Every plan of the space is checked and bounded (models/bounds.h); those that cannot fit are out.  The others are simulated at stage detail, the most promising
 * first, until the bound of the next one is worse than the last of the best found: what was not looked at cannot be among them.  Those are simulated again
 * kernel by kernel, which decides their order. */
#pragma once
#include "models/bounds.h"
#include "models/forecast.h"

/* A point of the space: what of a plan is searched.  All else is as the workload has it. */
typedef struct
{
  guint32 micro_batch;
  guint16 tp, pp, vpp, cp, ep;
  guint8  sharding;  /* ScSharding */
  guint8  recompute; /* index of sc_search_recomputes */
  guint8  sequence_parallel;
  guint8  schedule;  /* 0: the one that the framework runs where none is named; else of ScSearchInput.schedules, counted from 1 */
} ScSearchPlan;

#define SC_SEARCH_MOST_SCHEDULES 32

extern const char *const sc_search_recomputes[]; /* "none", "selective", "full", NULL */

typedef struct
{
  const ScTopology *topology;
  const ScWorkload *workload;  /* as given: model, batch and what is not searched */
  const char *workload_file, *workload_text;
  gsize  workload_length;
  char **set;                  /* --set, NULL-ended, or NULL */
  guint  gpus, global_batch;
  const char *const *schedules; /* of pipelines, that are tried besides: NULL-ended, of sc_schedule_all(), at most SC_SEARCH_MOST_SCHEDULES; or NULL */
  guint  top;                  /* plans wanted, at least 1 */
  guint  jobs;
  gboolean at_risk;            /* counts as fitting */
  gboolean exhaustive;         /* bounds prune nothing: for tests */
  guint64 most;                /* plans that are simulated at most; 0: no end */
  const char *const *forgotten; /* keys of its plan that give way to defaults where sizes change; sc_search() finds them */
  void (*progress) (const char *what, guint64 done, guint64 all, gpointer data); /* may be NULL */
  gpointer progress_data;
} ScSearchInput;

/* A plan that was simulated. */
typedef struct
{
  ScSearchPlan plan;
  guint64   number;      /* in the space */
  char    **set;         /* overrides of the workload, NULL-ended */
  double    bound_s;
  double    step_s;      /* at stage detail */
  double    confirmed_s; /* kernel by kernel; NAN: not asked */
  double    mfu, bubble;
  double    time_s[SC_N_TIMES]; /* means over stages */
  guint64   device_bytes, capacity_bytes;
  guint     dp, microbatches;
  ScVerdict verdict;
  char     *schedule;
} ScSearchFound;

typedef struct
{
  guint64 n_plans;      /* of the space */
  guint64 n_refused;    /* of them: cannot be */
  guint64 n_memory;     /* their bound on memory is beyond the GPU's */
  guint64 n_time;       /* their bound on time is beyond the step of the last of the best */
  guint64 n_simulated;  /* at stage detail */
  guint64 n_unfit;      /* of them do not fit */
  guint64 n_confirmed;  /* kernel by kernel */
  gboolean stopped;     /* by ScSearchInput.most: the best may be among those left, which n_time counts */
  GPtrArray *best;      /* ScSearchFound, owned: fastest first */
  GPtrArray *front;     /* ScSearchFound, owned: of those simulated, no other is both faster and leaner; fastest first */
  ScSearchFound *thumb; /* by the rule of thumb; NULL: it finds none that fits */
  ScSearchFound *given; /* the workload's own plan, where it has as many GPUs and that batch; else NULL */
} ScSearch;

/* NULL and an error where the model cannot be forecast at all. */
ScSearch *sc_search (const ScSearchInput *input, GError **error);
void      sc_search_free (ScSearch *search);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSearch, sc_search_free)

void sc_search_write_text (const ScSearch *search, const ScSearchInput *input, GString *out);
/* With the workload of the best plan, as a file has it. */
gboolean sc_search_write_json (const ScSearch *search, const ScSearchInput *input, GString *out, GError **error);
/* The workload of @found as JSON; yours. */
char *sc_search_workload (const ScSearchInput *input, const ScSearchFound *found, GError **error);
