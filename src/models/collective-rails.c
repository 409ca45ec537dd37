/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-rails.c - what all-to-alls share that keep to their rails: inside a domain between all its ranks, across domains between
 * ranks of one rail only. */
#include "models/collective-messages.h"
#include <string.h>

guint
sc_rails_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED)
{
  return SC_RAILS_N_PARTS;
}

void
sc_rails_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  ScRoute route;
  for (guint i = 0; i < n; i++)
    for (guint k = 1; k < each; k++)
      {
        sc_fabric_route (fabric, gpus[i], gpus[i / each * each + (i + k) % each], &route);
        hop (data, SC_RAILS_INSIDE, 0, i, &route);
      }
  for (guint i = 0; i < n; i++)
    for (guint d = 1; d < domains.n; d++)
      {
        sc_fabric_route (fabric, gpus[i], gpus[(i + d * each) % n], &route);
        hop (data, SC_RAILS_ACROSS, 0, i, &route);
      }
}

void
sc_rails_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED, double *ret_intra, double *ret_inter)
{
  *ret_intra = *ret_inter = 1;
}

/* The two stages follow one another piece by piece: the longer one counts. */
double
sc_rails_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes, double (*connection_bytes) (ScCollKind, const ScGroupShape *, guint, double))
{
  const double inside = (shape->per_domain - 1) * connection_bytes (kind, shape, SC_RAILS_INSIDE, bytes) / sc_rank_intra_bytes_per_s (shape);
  const double across = (shape->n_domains - 1) * connection_bytes (kind, shape, SC_RAILS_ACROSS, bytes) / sc_rank_inter_bytes_per_s (shape);
  return shape->launch_s + shape->intra_latency_s + shape->inter_latency_s + MAX (inside, across);
}

ScMessages *
sc_rails_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes, guint blocks,
            ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  const double piece = bytes / n / blocks;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *inside = g_new (guint32, n * each), *across = g_new (guint32, n * domains.n); /* by sender */
  memset (inside, 0xff, n * each * sizeof *inside);
  memset (across, 0xff, n * domains.n * sizeof *across);
  for (guint b = 0; b < blocks; b++)
    {
      for (guint i = 0; i < n; i++)
        for (guint j = 0; j < each; j++)
          if (j != i % each)
            inside[i * each + j] = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[i / each * each + j]),
                                               piece * domains.n, inside[i * each + j]);
      for (guint i = 0; i < n; i++)
        for (guint d = 1; d < domains.n; d++)
          {
            guint32 *const m = &across[i * domains.n + d];
            *m = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[(i + d * each) % n]), piece * each, *m);
            for (guint k = 1; k < each; k++)
              sc_dag_after (dag, *m, inside[(i / each * each + (i + k) % each) * each + i % each]);
          }
    }
  return sc_dag_finish (dag);
}
