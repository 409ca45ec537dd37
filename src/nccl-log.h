/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-log.h - reads what nccl-tests printed: the table of all_reduce_perf and its like, or its JSON output (-J).
 * Layer: src.  Tables of all layouts since nccl-tests 2.0, found in whatever a job prints around them: labels of mpirun,
 * srun and the like, colours, CRLF, messages of NCCL between and inside rows.  Inside a table nothing is guessed: a row
 * that is not as its header says is an error "FILE:LINE: found X, expected Y". */
#pragma once
#include <glib.h>

#define SC_NCCL_LOG_MAX_BYTES (64u << 20)

/* One measured call, as printed. */
typedef struct
{
  double bytes;             /* column "size"; sizes may repeat, and be 0 */
  double time_s;            /* above 0 */
  double algbw_bytes_per_s; /* rounded to 10 MB/s in tables; bytes / time_s says more */
  double busbw_bytes_per_s;
} ScNcclRow;

/* One run of one program. */
typedef struct
{
  guint line;    /* where the run starts in the file; 1 for JSON */
  char *program; /* "all_reduce_perf", or NULL if the log does not say */
  char *
      collective; /* "all-reduce", "send-recv", ...; from the program, else from busbw / algbw, redop and root where only
                       one collective fits; else NULL */
  guint fits;     /* private: see sc_nccl_log_fits() */
  guint ranks;    /* of the communicator; 0 unknown */
  guint groups;   /* communicators that ran at the same time; 0 unknown */
  guint nodes;    /* distinct hosts of all groups; 0 unknown */
  char *gpu;      /* "NVIDIA H100 80GB HBM3"; NULL if unknown or not the same everywhere */
  char *nccl_version;           /* "2.19.3+cuda12.2", or NULL */
  char *algo, *proto;           /* NCCL_ALGO and NCCL_PROTO where the log shows that they were set, else NULL */
  double wrong;                 /* sum of the column "#wrong", 0 where results were not checked */
  double avg_busbw_bytes_per_s; /* as printed below the table; 0 where it is not */
  gboolean complete;            /* the line below the table is there: the run was not cut short */
  GArray *rows;     /* ScNcclRow, out of place, in order of the file; empty where the run was in place only */
  GArray *in_place; /* ScNcclRow */
} ScNcclLog;

void sc_nccl_log_free (ScNcclLog *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScNcclLog, sc_nccl_log_free)

/* Can the columns of @log (busbw / algbw, redop, root) be those of @collective, named as in ScNcclLog?  TRUE also for other
 * names, and where the columns tell nothing. */
gboolean sc_nccl_log_fits (const ScNcclLog *log, const char *collective);

/* The runs in @path (ScNcclLog, owned, each with rows), at least one; runs that failed before their first row are left
 * out.  NULL and SC_LIBRARY_ERROR (the file cannot be read) or SC_INPUT_ERROR (what is in it). */
GPtrArray *sc_nccl_log_read (const char *path, GError **error);

/* The same of @text, NUL-ended at @length; @file is for messages. */
GPtrArray *sc_nccl_log_parse (const char *file, const char *text, gsize length, GError **error);
