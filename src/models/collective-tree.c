/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-tree.c - all-reduce of scalars: up and down a tree of nodes, a chain inside each node.
 * Only for a few bytes (gradient norm, loss scale): such a call is all latency, so its bytes are not put on links. */
#include "models/collective.h"

#define TREE_MAX_BYTES 4096.0

/* Latency of NCCL's tree: up and down, log2 of the nodes by network, the chain of a node by NVLink (MODELLING 5.5). */
static double
tree_alone_s (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double bytes G_GNUC_UNUSED)
{
  const double depth = shape->n_domains > 1 ? ceil (log2 (shape->n_domains)) : 0;
  const double chain = ceil (shape->n / (double) MAX (shape->n_domains, 1)) - 1;
  return shape->launch_s + 2 * (chain * shape->intra_latency_s + depth * shape->inter_latency_s);
}

const ScCollective sc_collective_tree = {
  .name = "tree",
  .summary = "all-reduce of at most 4 KiB: latency of a tree over nodes and a chain inside them; no load on links",
  .source = "NVIDIA/nccl src/graph/tuning.cc, tree latency",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = TREE_MAX_BYTES,
  .min_ranks = 2,
  .alone_s = tree_alone_s,
};
