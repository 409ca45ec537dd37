/* SPDX-License-Identifier: GPL-3.0-or-later */
/* trace.c - frees traces; the engine fills them. */
#include "sim/trace.h"

void
sc_trace_free (ScTrace *trace)
{
  if (trace == NULL)
    return;
  g_free (trace->spans);
  g_free (trace->ready);
  g_free (trace->link_bytes);
  sc_usage_free (trace->usage);
  g_free (trace);
}
