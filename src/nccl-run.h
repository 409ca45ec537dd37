/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-run.h - one run of nccl-tests while it is read, whatever it is read from.
 * Layer: src.  Private to nccl-log*.c: collects devices and rows, then says how many ranks there were and which collective
 * the rows fit. */
#pragma once
#include "nccl-log.h"

/* Any device further up is not believed. */
#define SC_NCCL_MAX_RANKS 10000000u

typedef struct
{
  ScNcclLog *log;
  GHashTable *ranks;       /* rank + 1, as pointers */
  GHashTable *hosts;       /* name, owned */
  GHashTable *group_sizes; /* group + 1 -> ranks listed, as pointers */
  guint first_group;
  guint max_rank;
  guint ranks_per_process; /* threads times GPUs, 1 where unknown */
  gboolean gpus_differ;
  gboolean program_is_guess; /* seen on a command line, not said by the run itself */
  guint fits;                /* one bit per row of the table of collectives: all rows so far fit */
} ScNcclRun;

/* What a row says beside its numbers. */
typedef struct
{
  gboolean known;                  /* FALSE: the row came in pieces, nothing follows from it */
  gboolean has_redop;              /* a reduction is named, other than "none" */
  gboolean has_root;               /* a root is named, other than -1 */
  double algbw_error, busbw_error; /* by rounding, bytes/s */
} ScNcclHints;

ScNcclRun *sc_nccl_run_new (guint line);
void sc_nccl_run_free (ScNcclRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScNcclRun, sc_nccl_run_free)

/* FALSE if @rank is there already: what was read is not one run. */
gboolean sc_nccl_run_add_device (ScNcclRun *run, guint rank, guint group, const char *host, const char *gpu);
void sc_nccl_run_add_row (ScNcclRun *run, gboolean is_in_place, const ScNcclRow *row, const ScNcclHints *hints);

/* What was read, or NULL if it has no rows.  Frees @run. */
ScNcclLog *sc_nccl_run_end (ScNcclRun *run);

/* Is this (a path of) a program of nccl-tests whose collective we know? */
gboolean sc_nccl_program_is_known (const char *program);

/* Version from NCCL's number: 22807 is "2.28.7", 2804 is "2.8.4"; NULL for other numbers. */
char *sc_nccl_version_from_code (guint64 code);

/* @text as it may be kept: cut, valid UTF-8, no control characters; NULL if nothing is left. */
char *sc_nccl_keep (const char *text);

/* NULL, or what @row should have had: "a time above 0 us". */
const char *sc_nccl_row_expected (const ScNcclRow *row, double *ret_found);

/* The run in the JSON output (-J) @text. */
ScNcclLog *sc_nccl_log_from_json (const char *file, const char *text, gsize length, GError **error);
