/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-trace.h - the run as a Chrome trace, for Perfetto (ui.perfetto.dev), chrome://tracing, and tools that read PyTorch's profiler. */
#pragma once
#include "models/summary.h"

#define SC_TRACE_MAX_CLASSES 32
#define SC_TRACE_MAX_RANKS 1024
#define SC_TRACE_RANK "%r"

typedef struct
{
  const guint32 *ranks; /* [n_ranks] that are written, below the job's; 0 of them: the first of each class */
  guint    n_ranks;
  gboolean passes;      /* of what GPUs run only micro-batches and what goes between ranks beside them: for large runs */
} ScTraceOptions;

/* Writes @path event by event, "-" to standard output; a file appears whole or not at all, and compressed where its name ends in .gz.  Where the name has
 * SC_TRACE_RANK, each rank gets a file, with its number there.  In one file at most SC_TRACE_MAX_CLASSES classes stand, one of each stage first;
 * "otherData" in the file says how many were left out.  @options may be NULL.  Errors are of SC_CMD_ERROR. */
gboolean sc_trace_write (const ScSummary *summary, const char *path, const ScTraceOptions *options, GError **error);
