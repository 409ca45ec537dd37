/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-task.h - forecasts the points of a grid, each alone, in as many threads as wanted.
 * Layer: src.  A task is const once it is made; what repeated forecasts share lives in a worker, one for each thread. */
#pragma once
#include "grid-row.h"
#include "models/forecast.h"

/* What all points have in common. */
typedef struct
{
  char  *topology_file, *topology_text; /* as messages call it; what is in it */
  gsize  topology_length;
  char  *workload_file, *workload_text;
  gsize  workload_length;
  char  *device; /* --device, or NULL */
  char **set;    /* --set, NULL-ended, or NULL; those of the grid come after it */
  ScGrid *grid;
  ScDetail detail;
  const ScGridFormat *format;
  char   id[17]; /* of the sweep: version, inputs, grid and detail in 16 hexadecimal digits */
} ScGridTask;

/* @grid is taken.  Reads both inputs; refuses what is wrong at all points: a file that is no JSON, an unknown key of it or of --vary. */
ScGridTask *sc_grid_task_new (const char *topology, const char *workload, char **set, const char *device, ScGrid *grid, ScDetail detail,
                              const ScGridFormat *format, GError **error);
void        sc_grid_task_free (ScGridTask *task);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScGridTask, sc_grid_task_free)

typedef struct
{
  ScPointStatus status;
  GString *line;   /* owned: as the format has it */
  char    *reason; /* of refusals and errors: why, with N for every number; else NULL */
  double   step_s; /* NAN: none */
} ScPointResult;

void sc_point_result_free (ScPointResult *result);

typedef struct _ScGridWorker ScGridWorker;
ScGridWorker *sc_grid_worker_new (const ScGridTask *task);
void          sc_grid_worker_free (ScGridWorker *worker);

/* Forecasts one point.  What the worker saw before makes it faster, and changes nothing else. */
ScPointResult *sc_grid_worker_forecast (ScGridWorker *worker, guint64 point);
