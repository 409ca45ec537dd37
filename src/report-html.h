/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-html.h - one page with all of a step: summary, timeline to zoom, where the time goes, memory, links, inputs.
 * Layer: src.  Self-contained: no network, nothing beside it. */
#pragma once
#include "models/summary.h"

/* @summary: with links, and all stages played (SC_MEMORY_ALL).  The inputs as text, as they were read. */
void sc_report_html (const ScSummary *summary, const char *topology_text, const char *workload_text, char **set, GString *out);
