/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-pat.c - parallel aggregated trees: all-gather and reduce-scatter in log2 n rounds, one rank per node.
 * In round k every rank passes what it has gathered on to the rank 2^k further; the rounds of successive chunks overlap. */
#include "models/collective-messages.h"
#include <string.h>
#include "sim/types.h"

static gboolean
pat_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->library.version != NULL && shape->per_domain > 1)
    {
      *ret_why = "it takes one rank per node";
      return FALSE;
    }
  return TRUE;
}

static guint
pat_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape)
{
  return g_bit_storage (shape->n - 1);
}

/* Blocks of the buffer that a rank passes on in round @k of @n ranks. */
static guint
pat_blocks (guint n, guint k)
{
  return MIN (1u << k, n - (1u << k));
}

static void
pat_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data)
{
  for (guint k = 0; k < g_bit_storage (n - 1); k++)
    for (guint i = 0; i < n; i++)
      {
        const guint j = (i + (1u << k)) % n;
        ScRoute route;
        if (kind == SC_COLL_REDUCE_SCATTER) /* the same trees the other way */
          sc_fabric_route (fabric, gpus[j], gpus[i], &route);
        else
          sc_fabric_route (fabric, gpus[i], gpus[j], &route);
        hop (data, k, 0, i, &route);
      }
}

static double
pat_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  return bytes * pat_blocks (shape->n, part) / shape->n;
}

static void
pat_path (ScCollKind kind, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  const double rounds = pat_n_parts (kind, shape);
  *ret_inter = shape->n_domains > 1 ? rounds : 0;
  *ret_intra = rounds - *ret_inter;
}

/* As many bytes leave a domain as if every rank sent to every other; rounds that leave it for some ranks only cost more. */
static double
pat_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  pat_path (kind, shape, &intra, &inter);
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s
         + sc_pairs_wire_s (shape, bytes / shape->n);
}

/* Block by block: a rank passes on in round k what it got in all rounds before; a reduce-scatter is that backwards. */
static ScMessages *
pat_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks, ScTime latency,
            const guint32 *link_map, gboolean unit_links)
{
  const guint rounds = g_bit_storage (n - 1);
  const gboolean backwards = kind == SC_COLL_REDUCE_SCATTER;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *last = g_new (guint32, rounds * n); /* of each round, by the walk's rank i */
  memset (last, 0xff, rounds * n * sizeof *last);
  for (guint b = 0; b < blocks; b++)
    {
      for (guint k = 0; k < rounds; k++)
        for (guint i = 0; i < n; i++)
          {
            const guint32 near = gpus[i], far = gpus[(i + (1u << k)) % n];
            const guint32 route = backwards ? sc_dag_between (dag, far, near) : sc_dag_between (dag, near, far);
            last[k * n + i] = sc_dag_add (dag, route, bytes * pat_blocks (n, k) / n / blocks, last[k * n + i]);
          }
      for (guint k = 0; k < rounds; k++)
        for (guint before = 0; before < k; before++)
          for (guint i = 0; i < n; i++)
            {
              const guint32 near = last[before * n + (i + n - (1u << before)) % n], far = last[k * n + i];
              sc_dag_after (dag, backwards ? near : far, backwards ? far : near);
            }
    }
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_pat = {
  .name = "pat",
  .summary = "all-gather and reduce-scatter in log2 n rounds of growing distance (parallel aggregated trees)",
  .source = "Jeaugey, PAT, arXiv 2506.20252; rounds as Bruck et al., IEEE TPDS 8(11), 1997",
  .kinds = 1u << SC_COLL_ALL_GATHER | 1u << SC_COLL_REDUCE_SCATTER,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .possible = pat_possible,
  .n_parts = pat_n_parts,
  .walk = pat_walk,
  .connection_bytes = pat_connection_bytes,
  .alone_s = pat_alone_s,
  .path = pat_path,
  .expand = pat_expand,
};
