/* SPDX-License-Identifier: GPL-3.0-or-later */
/* links.c - a link of the program stands for a class of fabric links that carry the same at the same time (fold.h).
 * Its capacity is 1 and its uses count connections per byte/s, so its usage is a share already; bytes are multiplied by the
 * capacity again. */
#include <stdlib.h>
#include "models/links.h"

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  const ScLinkSummary *const x = a, *const y = b;
  if (x->mean != y->mean)
    return x->mean > y->mean ? -1 : 1;
  return (x->link > y->link) - (x->link < y->link);
}

static void
fill_row (ScLinkSummary *row, const ScFabric *fabric, const ScUsage *usage, guint32 class)
{
  row->name = sc_fabric_link_name (fabric, row->link);
  row->capacity_bytes_per_s = fabric->links[row->link].capacity;
  row->mean = usage->end > 0 ? usage->busy[class] / (double) usage->end : 0;
  row->peak = usage->peak[class];
  row->full = usage->full[class];
  for (guint t = 0; t < MIN (usage->n_tags, SC_N_TIMES); t++)
    row->bytes[t] = usage->bytes[(gsize) class * usage->n_tags + t] * row->capacity_bytes_per_s;
  row->utilisation = g_memdup2 (usage->shares + (gsize) class * usage->n_bins, usage->n_bins * sizeof (double));
}

ScLinksSummary *
sc_links_summarise (const ScLowerInput *in, const ScUsage *usage)
{
  const ScFold *const fold = in->fold;
  g_assert (usage->n_links == fold->n_link_classes && usage->n_tags <= SC_N_TIMES);
  ScLinksSummary *const s = g_new0 (ScLinksSummary, 1);
  s->n_rows = fold->n_link_classes;
  s->rows = g_new0 (ScLinkSummary, MAX (s->n_rows, 1));
  s->bin = usage->bin;
  s->n_bins = usage->n_bins;
  guint listed = 0;
  for (guint32 l = 0; l < in->fabric->n_links; l++)
    {
      if (fold->link_class_of[l] != SC_NONE)
        {
          ScLinkSummary *const row = &s->rows[fold->link_class_of[l]];
          if (row->n_links++ == 0)
            row->link = l;
          row->of_kind[in->fabric->links[l].kind]++;
          listed++;
        }
      if (fold->link_bound_of[l] != SC_NONE)
        s->rows[fold->link_bound_of[l]].n_below++;
    }
  s->n_left_out = fold->n_used_links - listed;
  for (guint32 i = 0; i < s->n_rows; i++)
    fill_row (&s->rows[i], in->fabric, usage, i);
  if (s->n_rows > 0)
    qsort (s->rows, s->n_rows, sizeof *s->rows, compare_rows);
  return s;
}
