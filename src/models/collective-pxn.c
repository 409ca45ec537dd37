/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-pxn.c - all-to-all that crosses no rail: what goes to GPU j of another node goes over NVLink to the own
 * node's GPU j first, and with the node's other messages to that GPU on through its NIC. */
#include "models/collective.h"

static double
pxn_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  return bytes / shape->n * (part == SC_RAILS_INSIDE ? shape->n_domains : shape->per_domain);
}

static double
pxn_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  return sc_rails_alone_s (kind, shape, bytes, pxn_connection_bytes);
}

const ScCollective sc_collective_pxn = {
  .name = "pxn",
  .summary = "all-to-all that keeps to its rails: over NVLink to the GPU of the destination's rail, on by that one's NIC",
  .source = "NVIDIA, Doubling all2all performance with NCCL 2.12, 2022 (PXN); bytes: derived",
  .kinds = 1u << SC_COLL_ALL_TO_ALL,
  .max_bytes = INFINITY,
  .min_ranks = 4,
  .on_request = TRUE,
  .possible = sc_rails_possible,
  .n_parts = sc_rails_n_parts,
  .walk = sc_rails_walk,
  .connection_bytes = pxn_connection_bytes,
  .alone_s = pxn_alone_s,
  .path = sc_rails_path,
  .expand = sc_rails_expand,
};
