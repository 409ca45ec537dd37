/* SPDX-License-Identifier: GPL-3.0-or-later */
/* row-plan.h - a published run as topology and workload, or what it lacks.
 * Layer: src.  The row's model and plan are keys of workload files already; what it says in words, under "extra" and by leaving out is
 * settled here, then the strict reader of workloads has them.  The machines follow from GPU, links and network by the rules of
 * validation/systems.json. */
#pragma once
#include "models/topology.h"
#include "models/workload.h"
#include "row-frameworks.h"
#include "rows-json.h"
#include "systems-json.h"

/* Topologies by what rows say of their machines, each built once.  For several threads. */
typedef struct _ScRowSystems ScRowSystems;

ScRowSystems *sc_row_systems_new (const ScSystems *rules); /* which must outlive it */
void          sc_row_systems_free (ScRowSystems *systems);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRowSystems, sc_row_systems_free)

typedef struct
{
  ScWorkload       *workload;      /* owned */
  const ScTopology *topology;      /* of the systems */
  const char       *topology_name; /* as shipped; of the systems */
  const ScRowFramework *framework; /* static */
  GPtrArray *notes;   /* char *, owned: "plan.one_queue = true", what was filled in */
  GPtrArray *ignored; /* char *, owned: keys of plan.extra that say nothing we know */
} ScRowRun;

void sc_row_run_free (ScRowRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRowRun, sc_row_run_free)

/* NULL: *ret_why, which is yours, says what is missing or not modelled. */
ScRowRun *sc_row_run_new (ScRowSystems *systems, const ScRow *row, char **ret_why);

/* Year of the software by what is said of it and its source: 2021 of "v2021.3", "arXiv 2104.04473", "README 2020"; 0: no word. */
guint sc_row_year (const ScRow *row);

/* Takes "extra" out of @row's plan, and what it says becomes keys of plan and model.  @row: an object with both.
 * Returns NULL, or what is in it that is not modelled, which is yours.  @ignored (may be NULL): keys that say nothing we know. */
char *sc_row_settle_extra (cJSON *row, GPtrArray *ignored);
