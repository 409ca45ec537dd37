/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-pairs.c - what rows share that send a message from every rank to every other, all at once. */
#include "models/collective-messages.h"

#define MOST_TIERS 2 /* told apart: one tier climbed, more */

guint
sc_pairs_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape)
{
  return shape->n_domains <= 1 ? 1 : 2 + MOST_TIERS;
}

/* Inside a domain; across, by how many tiers of up-links the route climbs. */
static guint
part_of (const ScFabric *fabric, guint32 a, guint32 b, const ScRoute *route)
{
  if (fabric->domain[fabric->gpus[a].node] == fabric->domain[fabric->gpus[b].node])
    return 0;
  guint up = 0;
  for (guint i = 0; i < route->n; i++)
    up += fabric->links[route->links[i]].kind == SC_LINK_UP;
  return 1 + MIN (up, MOST_TIERS);
}

void
sc_pairs_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  for (guint i = 0; i < n; i++)
    for (guint k = 1; k < n; k++)
      {
        const guint j = i + k < n ? i + k : i + k - n;
        ScRoute route;
        sc_fabric_route (fabric, gpus[i], gpus[j], &route);
        hop (data, part_of (fabric, gpus[i], gpus[j], &route), 0, i, &route);
      }
}

void
sc_pairs_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_inter = shape->n_domains > 1;
  *ret_intra = 1 - *ret_inter;
}

/* What the messages inside domains and those between them take, each kind alone. */
static void
pair_times (const ScGroupShape *s, double *ret_inside, double *ret_across)
{
  *ret_inside = s->per_domain > 1 ? (s->per_domain - 1) / sc_rank_intra_bytes_per_s (s) : 0;
  *ret_across = s->n_domains > 1 ? (s->n - s->per_domain) / sc_rank_inter_bytes_per_s (s) : 0;
}

double
sc_pairs_part_share (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part)
{
  double inside, across;
  pair_times (shape, &inside, &across);
  const double own = part == 0 ? inside : across;
  return own > 0 ? own / MAX (inside, across) : 1;
}

double
sc_pairs_wire_s (const ScGroupShape *shape, double bytes)
{
  double inside, across;
  pair_times (shape, &inside, &across);
  return bytes * MAX (inside, across);
}

double
sc_pairs_alone_s (const ScGroupShape *shape, double bytes)
{
  return shape->launch_s + (shape->n_domains > 1 ? shape->inter_latency_s : shape->intra_latency_s) + sc_pairs_wire_s (shape, bytes);
}

ScMessages *
sc_pairs_expand (const ScFabric *fabric, const guint32 *gpus, guint n, double bytes, ScTime latency, const guint32 *link_map,
                 gboolean unit_links)
{
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  for (guint i = 0; i < n; i++)
    for (guint k = 1; k < n; k++)
      sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[(i + k) % n]), bytes, SC_NONE);
  return sc_dag_finish (dag);
}
