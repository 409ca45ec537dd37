/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain.h - why a step takes as long as it does: its critical path, what each resource is worth, what of the plan to change.
 * Layer: src.  Nothing is scaled or guessed: each what-if and each change is a forecast of its own, the one that stepcast run makes
 * with the same --set. */
#pragma once
#include "models/critical.h"
#include "models/forecast.h"

/* The path, as long as it stays in one pipeline stage. */
typedef struct
{
  guint  stage;
  ScTime from, to;
  ScTime time[SC_N_TIMES];  /* sum == to - from */
  guint  first_microbatch, last_microbatch; /* that were worked on; first > last: none */
} ScExplainRun;

/* A resource: one row of the table in explain.c. */
typedef struct
{
  const char *name;   /* "NIC bandwidth" */
  const char *set;    /* the key for --set, "device.scale.nic=2" */
  const char *times;  /* "x 2", "half" */
} ScResourceRow;

const ScResourceRow *sc_resource_rows (void); /* the last one has no name */

typedef struct
{
  const ScResourceRow *row;
  double step_s; /* re-simulated */
  double gain;   /* 1 - step_s over the step as it is */
} ScResourceWorth;

/* A kind of change: one row of explain-changes.c. */
typedef struct ScChangeRow ScChangeRow;
typedef struct
{
  char  *text;   /* "micro-batch 2" */
  char **set;    /* NULL-ended keys for --set */
  double step_s; /* at --detail stage; NAN: the plan cannot be */
  double gain;   /* 1 - step_s over that of the plan as given */
  guint64 device_bytes, capacity_bytes; /* of the fullest GPU */
  ScVerdict verdict;
} ScPlanChange;

struct ScChangeRow
{
  const char *name, *summary;
  void (*propose) (const ScWorkload *workload, const ScTopology *topology, GPtrArray *changes); /* appends ScPlanChange * */
};

const ScChangeRow *const *sc_change_rows (void); /* NULL-ended */
void sc_plan_change_free (ScPlanChange *change);

typedef struct
{
  ScWorkload *(*read_workload) (gpointer data, char **set, GError **error); /* as given, with @set on top */
  ScTopology *(*read_topology) (gpointer data, char **set, GError **error);
  gpointer data;
  const ScTopology *topology;
  const ScWorkload *workload;
  ScDetail detail;
} ScExplainInput;

typedef struct
{
  ScSummary *summary;  /* of the plan as given, with links */
  GArray    *path;     /* ScCriticalSegment */
  ScTime     time[SC_N_TIMES]; /* of the path; sum == trace->end */
  GArray    *runs;     /* ScExplainRun */
  ScResourceWorth  *what_ifs; /* [n_what_ifs] in the order of the table */
  guint      n_what_ifs;
  double     stage_step_s; /* of the plan as given, at --detail stage, which changes are held against */
  GPtrArray *changes;  /* ScPlanChange, owned: all that can be, by what they save */
  GPtrArray *findings; /* char *, owned: sentences, the most important first */
} ScExplain;

/* NULL and an error where the plan as given cannot be forecast. */
ScExplain *sc_explain (const ScExplainInput *input, GError **error);
void       sc_explain_free (ScExplain *explain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScExplain, sc_explain_free)

/* explain-findings.c: what the numbers say, in sentences. */
GPtrArray *sc_explain_findings (const ScExplain *explain);

void sc_explain_write_text (const ScExplain *explain, GString *out);
void sc_explain_write_json (const ScExplain *explain, GString *out);
