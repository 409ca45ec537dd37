/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-scalar.c - all-reduce of a few bytes: up and down a tree of nodes, a chain inside each node.
 * Gradient norm and loss scale: such a call is all latency, so its bytes are not put on links. */
#include "models/collective.h"

#define SCALAR_MAX_BYTES 4096.0

static void
scalar_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  const double chain = ceil (shape->n / (double) MAX (shape->n_domains, 1)) - 1;
  *ret_intra = 2 * chain;
  *ret_inter = shape->n_domains > 1 ? 2 * ceil (log2 (shape->n_domains)) : 0;
}

/* Latency of NCCL's tree: up and down, log2 of the nodes by network, the chain of a node by NVLink (MODELLING 5.5). */
static double
scalar_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes G_GNUC_UNUSED)
{
  double intra, inter;
  scalar_path (kind, shape, &intra, &inter);
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s;
}

const ScCollective sc_collective_scalar = {
  .name = "scalar",
  .summary = "all-reduce of at most 4 KiB: latency of a tree over nodes and a chain inside them; no load on links",
  .source = "NVIDIA/nccl src/graph/tuning.cc, tree latency",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = SCALAR_MAX_BYTES,
  .min_ranks = 2,
  .alone_s = scalar_alone_s,
  .path = scalar_path,
};
