/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows-json.h - published runs of training, one JSON object a line: what was trained on what, by which plan, and what was measured.
 * Layer: src.  Everything has a type and a range; null is what the source does not state.  Model and plan stay JSON: they are in the
 * vocabulary of workload files, and row-plan.h hands them on.  Keys of others are left out, and listed. */
#pragma once
#include "fields.h"

typedef enum
{
  SC_PUBLISHED_TRAINING,
  SC_PUBLISHED_LAYER,           /* one transformer layer: stepcast validate kernels */
  SC_PUBLISHED_ATTENTION,       /* kind "kernel" */
  SC_PUBLISHED_ANALYTIC_MEMORY, /* worked out by its authors */
  SC_N_PUBLISHED_KINDS
} ScPublishedKind;
const char *sc_published_kind_name (ScPublishedKind kind); /* as in the files */

typedef enum { SC_INTRA_UNSAID, SC_INTRA_NVSWITCH, SC_INTRA_NVLINK_MESH, SC_INTRA_PCIE, SC_INTRA_NVL72, SC_INTRA_XGMI } ScIntra;

typedef struct
{
  char   *gpu;            /* NULL: not stated; likewise all texts */
  guint   gpus;           /* 0: not stated; likewise all counts */
  guint   gpus_per_node;
  ScIntra intra;
  double  nic_gbit_per_s; /* of each GPU, one direction */
  char   *fabric;         /* "ib", "roce", "efa", "opa", ... */
} ScRowCluster;

/* NAN: not printed. */
typedef struct
{
  double   step_s;
  double   tokens_per_s_per_gpu;
  double   samples_per_s, samples_per_s_per_gpu;
  double   allocated_gib, reserved_gib, device_gib, unspecified_gib; /* peaks */
  double  *allocated_by_rank_gib, *reserved_by_rank_gib;            /* [n_ranks], owned, or NULL */
  guint    n_ranks, n_reserved_ranks;
  int      oom;                                                      /* 1: ran out of memory, 0: did not, -1: not said */
  double   model_state_gb, param_and_optimizer_gib, activation_gib;  /* of analytic-memory rows */
} ScRowMeasured;

typedef struct
{
  char     *id;          /* as written, or "line N" */
  char     *group;       /* NULL: alone */
  ScPublishedKind kind;
  char     *key, *title, *ref; /* of the source; key NULL: none */
  char     *framework, *version;
  ScRowCluster cluster;
  ScRowMeasured measured;
  double    step_s;      /* canonical step time: derived.step_s, else what measured says; NAN: none */
  int       complete_time, complete_memory; /* as the row says; -1: it does not, and what it needs is looked for */
  char    **missing;     /* NULL-ended, owned; or NULL */
  ScJson   *json;        /* owned: the whole line, "model", "plan", "seq" among it */
  guint     line;
} ScRow;

void sc_row_free (ScRow *row);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRow, sc_row_free)

extern const ScFieldTable sc_row_table, sc_row_source_table, sc_row_cluster_table, sc_row_measured_table;

typedef struct
{
  GPtrArray *rows;    /* ScRow, in the order of the files */
  GPtrArray *ignored; /* char *, owned: keys that were not read, "measured.hfu", each once, in order of their first */
} ScRows;

void sc_rows_free (ScRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRows, sc_rows_free)

ScRows *sc_rows_new (void);

/* Adds the lines of @argument: a file, "-", or a shipped set of that name. */
gboolean sc_rows_load (ScRows *rows, const char *argument, GError **error);
gboolean sc_rows_parse (ScRows *rows, const char *file, const char *text, gsize length, GError **error);

/* Member @key of @object, NULL where there is none, or null. */
const cJSON *sc_row_at (const cJSON *object, const char *key);
const char  *sc_row_text_at (const cJSON *object, const char *key);
double       sc_row_number_at (const cJSON *object, const char *key, double otherwise);
guint        sc_row_count_at (const cJSON *object, const char *key, guint otherwise); /* a whole number from 1 on */
