/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-chain.c - broadcast down a pipelined chain, the ring without its last hop. */
#include "models/collective-messages.h"

#define CHAIN_CHUNK_BYTES 524288.0 /* NCCL's Simple slice: a 4 MiB buffer in 8 slots */

typedef struct
{
  ScHopFunc hop;
  gpointer  data;
  guint     n;
} ChainWalk;

static void
chain_hop (gpointer data, guint part, guint channel, guint position, const ScRoute *route)
{
  const ChainWalk *const w = data;
  if (position + 1 < w->n)
    w->hop (w->data, part, channel, position, route);
}

static void
chain_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  sc_ring_walk (fabric, gpus, n, chain_hop, &(ChainWalk) { hop, data, n });
}

static double
chain_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / shape->n_channels;
}

static void
chain_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_inter = shape->hops_inter > 0 ? shape->hops_inter - 1 : 0;
  *ret_intra = shape->n - 1 - *ret_inter;
}

/* S/c chunks through the slowest hop, the first one through all others too, and every hop's latency once (MODELLING 5.3). */
static double
chain_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const double each = chain_connection_bytes (kind, shape, 0, bytes), chunk = MIN (each, CHAIN_CHUNK_BYTES);
  const double hops = shape->n - 1.0; /* a product of counts passes 32 bits above 65,536 ranks */
  const double inter = hops * shape->hops_inter / shape->n, intra = hops - inter;
  const double slow = MIN (shape->inter_bytes_per_s, shape->intra_bytes_per_s);
  return shape->launch_s + (each - chunk) / slow + inter * chunk / shape->inter_bytes_per_s
         + intra * chunk / shape->intra_bytes_per_s + inter * shape->inter_latency_s + intra * shape->intra_latency_s;
}

static ScMessages *
chain_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks,
              ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  const ScHopMap map = { chain_walk, fabric, gpus, n, kind, link_map, unit_links };
  const guint channels = sc_ring_channels (fabric, gpus, n);
  return sc_messages_chain (&map, channels, n - 1, blocks, bytes / channels / blocks, latency);
}

const ScCollective sc_collective_chain = {
  .name = "chain",
  .summary = "broadcast (or reduce, the other way) through the ring's hops but the last, in chunks",
  .source = "pipelined chain, e.g. Barnett et al., J. Parallel Distrib. Comput. 24(1), 1995; chunk as in NCCL's Simple protocol",
  .kinds = 1u << SC_COLL_BROADCAST | 1u << SC_COLL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .walk = chain_walk,
  .connection_bytes = chain_connection_bytes,
  .alone_s = chain_alone_s,
  .path = chain_path,
  .expand = chain_expand,
};
