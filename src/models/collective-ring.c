/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-ring.c - bandwidth-optimal rings, one per rail where a group spans nodes. */
#include "models/collective-messages.h"

/* Rounds in which every rank sends one chunk to its right neighbour. */
static guint
ring_steps (ScCollKind kind, guint n)
{
  return (kind == SC_COLL_ALL_REDUCE ? 2 : 1) * (n - 1);
}

static double
ring_connection_bytes (ScCollKind kind, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return ring_steps (kind, shape->n) * bytes / shape->n / shape->n_channels;
}

static double
ring_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  return shape->launch_s + sc_ring_time_s (shape, ring_steps (kind, shape->n), bytes / shape->n / shape->n_channels);
}

/* Every step is a hop; across nodes each ring leaves a domain hops_inter times a turn. */
static void
ring_path (ScCollKind kind, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_inter = shape->hops_inter > 0 ? (kind == SC_COLL_ALL_REDUCE ? 2.0 : 1.0) * (shape->hops_inter - 1) : 0;
  *ret_intra = ring_steps (kind, shape->n) - *ret_inter;
}

static void
ring_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  sc_ring_walk (fabric, gpus, n, hop, data);
}

static ScMessages *
ring_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks, ScTime latency,
             const guint32 *link_map, gboolean unit_links)
{
  const ScHopMap map = { ring_walk, fabric, gpus, n, kind, link_map, unit_links };
  const guint channels = sc_ring_channels (fabric, gpus, n);
  return sc_messages_rounds (&map, channels, n, ring_steps (kind, n), blocks, bytes / n / channels / blocks, latency);
}

const ScCollective sc_collective_ring = {
  .name = "ring",
  .summary = "n-1 rounds over neighbours (2(n-1) for all-reduce); across nodes one ring per rail",
  .source = "Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009; pipelining of slices: derived, equal to single messages",
  .kinds = 1u << SC_COLL_ALL_REDUCE | 1u << SC_COLL_REDUCE_SCATTER | 1u << SC_COLL_ALL_GATHER,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .walk = ring_walk,
  .connection_bytes = ring_connection_bytes,
  .alone_s = ring_alone_s,
  .path = ring_path,
  .expand = ring_expand,
};
