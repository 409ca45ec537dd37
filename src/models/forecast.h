/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast.h - the one door: topology + workload -> summary.
 * Layer: models. */
#pragma once
#include "models/forecast-context.h"
#include "models/lower.h"
#include "models/summarise-memory.h"
#include "models/summary.h"

typedef struct
{
  gboolean unfolded;   /* every rank its own class: slow, exact, for tests */
  guint    class_budget; /* FOLDING S7; 0: the default, 4096 */
  double   memory_margin; /* 0: the default */
  gboolean links;      /* fill ScSummary.links */
  ScDetail detail;     /* how finely */
  gboolean brief;      /* micro-batches that do what the one before did are not simulated, where that is exact: the numbers are the same, but program, trace,
                        * orders, tapes and plays of the summary are of a shorter step.  Links are then as without it; for those who want no curves */
  gboolean apart;      /* classes that do the same have ops of their own each: more memory and nothing else, for tests */
  ScMemoryDepth memory; /* for which stages the allocator is played */
  ScForecastContext *context; /* what many forecasts on the same topology share, in one thread; NULL: nothing.  The answer is the same */
} ScForecastOptions;

#define SC_FORECAST_ERROR (sc_forecast_error_quark ())
GQuark sc_forecast_error_quark (void);
typedef enum
{
  SC_FORECAST_ERROR_MISMATCH, /* topology and workload do not go together: too few GPUs, a dead GPU in the job; message starts with the file role: "topology: ..." or a workload pointer */
  SC_FORECAST_ERROR_TOO_LARGE, /* more operations than SC_FORECAST_MAX_OPS */
  SC_FORECAST_ERROR_INTERNAL,
} ScForecastError;

/* Most operations of all classes together: some 2 GB and half a minute, where classes of a stage share their ops. */
#define SC_FORECAST_MAX_OPS 60e6

/* Simulates one step in steady state.  @options may be NULL.  Both inputs must outlive the summary. */
ScSummary *sc_forecast (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options,
                        GError **error);

/* Whether the step fits, as sc_forecast() would say, without simulating it: what is allocated hangs on the order of the programs alone.
 * The summary has sizes, stages with their layers, classes and their memory; all of time is 0, and program and trace are NULL.  Of
 * @options unfolded, class_budget, memory_margin, memory and context count. */
ScSummary *sc_forecast_memory (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options,
                               GError **error);

/* Seconds that the step lasts at least: the plan's schedule, replayed (sc_orders_replay()) with kernels at full rate, collectives inside passes and messages alone on
 * their links, and nothing else.  Sharing of links and GPUs, hosts, data parallelism and the optimizer only add to it, so it is a bound, and a near one, at
 * a thousandth of the cost of a simulation.  0: no bound is known, since times differ between micro-batches, are not ours, or make the order, since steps are staggered
 * (plan.post_validation), or since two passes are run beside one another.  Of @options
 * unfolded, class_budget and context count. */
gboolean sc_forecast_least (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, double *ret_step_s,
                            GError **error);
