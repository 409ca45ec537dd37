/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-trace.h - the run as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing. */
#pragma once
#include "models/summary.h"

#define SC_TRACE_MAX_CLASSES 32

/* Writes @path event by event, "-" to standard output; a file appears whole or not at all.  At most
 * SC_TRACE_MAX_CLASSES classes, one of each stage first; "otherData" in the file says how many were left out.
 * Errors are of SC_CMD_ERROR. */
gboolean sc_trace_write (const ScSummary *summary, const char *path, GError **error);
