/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep-json.h - measured sweeps of collectives: one JSON object a line, as validation/collectives.jsonl.
 * Layer: src.  Keys of others (dtype, quality and any further) are ignored: the files are other people's. */
#pragma once
#include "fields.h"

typedef enum
{
  SC_USE_UNSAID,
  SC_USE_FIT,   /* constants of the model were fitted to it, or to others of its table */
  SC_USE_CHECK, /* never looked at for them */
} ScSweepUse;

typedef struct
{
  double bytes;  /* as nccl-tests counts */
  double time_s; /* 0: not stated */
} ScSweepRow;

typedef struct
{
  char   *id;         /* as written, or "line N" */
  char   *source;     /* NULL: not stated; likewise below */
  char   *collective; /* "all_reduce" */
  char   *gpu;
  char   *fabric;     /* words */
  char   *nccl;
  char   *algo;       /* what was forced */
  char   *note;
  guint   gpus, nodes, gpus_per_node;
  double  launch_us;  /* least time that the measuring program needs for a call; 0: not stated */
  ScSweepUse use;
  char   *topology;   /* names the system, in place of the rules */
  char  **set;        /* [NULL-ended] "topology.KEY=VALUE", or NULL */
  ScSweepRow *rows;   /* [n_rows] */
  guint   n_rows;
} ScSweep;

void sc_sweep_free (ScSweep *sweep);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSweep, sc_sweep_free)

extern const ScFieldTable sc_sweep_table;

/* All sweeps of the file @argument, "-", or the shipped set of that name: ScSweep, owned.
 * *ret_ignored (may be NULL): keys that were not read, each once and in order; NULL-ended, yours. */
GPtrArray *sc_sweeps_load (const char *argument, char ***ret_ignored, GError **error);
GPtrArray *sc_sweeps_parse (const char *file, const char *text, gsize length, char ***ret_ignored, GError **error);

/* An object of overrides, {"nodes": 4}, as --set has them: "topology.nodes=4".  NULL-ended; NULL and error where @item is no
 * object. */
char **sc_overrides_from_json (const ScJson *json, const cJSON *item, GError **error);
