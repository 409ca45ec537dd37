/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summary.c - names and the end of summaries. */
#include "models/summary.h"

const char *
sc_verdict_name (ScVerdict verdict)
{
  static const char *const names[] = { "fits", "at risk", "does not fit" };
  return names[verdict];
}

const char *
sc_stream_name (ScStreamKind stream)
{
  static const char *const names[] = { "compute", "tp", "dp", "dp-gather", "pp-send-f", "pp-recv-f", "pp-send-b", "pp-recv-b",
                                        "cp", "ep", "copy-out", "copy-in", "dp-replica", "vocab" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_STREAMS);
  return names[stream];
}

void
sc_links_summary_free (ScLinksSummary *links)
{
  if (links == NULL)
    return;
  for (guint i = 0; i < links->n_rows; i++)
    {
      g_free (links->rows[i].name);
      g_free (links->rows[i].utilisation);
    }
  g_free (links->rows);
  g_free (links);
}

void
sc_summary_free (ScSummary *s)
{
  if (s == NULL)
    return;
  for (guint i = 0; i < s->n_classes; i++)
    g_free (s->classes[i].peak_op);
  g_free (s->classes);
  g_free (s->ranks);
  g_free (s->stages);
  g_free (s->fold_note);
  g_clear_pointer (&s->assumptions, g_ptr_array_unref);
  g_clear_pointer (&s->labels, g_ptr_array_unref);
  g_clear_pointer (&s->tapes, g_ptr_array_unref);
  g_clear_pointer (&s->plays, g_ptr_array_unref);
  sc_links_summary_free (s->links);
  sc_orders_free (s->orders);
  sc_program_free (s->program);
  sc_trace_free (s->trace);
  g_free (s);
}
