/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-deepep.c - tokens to experts: over the network once to each node, to the GPU of the own rail, and on by NVLink, once to each
 * rank (MODELLING 5.8, 5.9).  Counted as an all-to-all of one copy for each expert of a token; what is left of that between nodes and
 * to ranks, the group's shape says. */
#include "models/collective.h"

static double
deepep_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  const double share = part == SC_RAILS_INSIDE ? shape->rank_share : shape->node_share;
  return (share > 0 ? share : 1) * bytes / (part == SC_RAILS_INSIDE ? shape->per_domain : shape->n_domains);
}

static double
deepep_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  return sc_rails_alone_s (kind, shape, bytes, deepep_connection_bytes);
}

/* On one node, too. */
static gboolean
deepep_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (!sc_shape_is_even (shape))
    *ret_why = "the nodes hold different numbers of its ranks";
  return sc_shape_is_even (shape);
}

const ScCollective sc_collective_deepep = {
  .name = "deepep",
  .summary = "all-to-all of tokens: over the network once to each node, along the own rail, on by NVLink once to each rank",
  .source = "arXiv 2412.19437 section 3.2.2; github:deepseek-ai/DeepEP, which reaches 51 to 58 GB/s of a 400 Gb/s port and 153 of 160 GB/s NVLink on H800: links pace it",
  .kinds = 1u << SC_COLL_ALL_TO_ALL,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .own_kernels = TRUE,
  .possible = deepep_possible,
  .n_parts = sc_rails_n_parts,
  .walk = sc_rails_walk,
  .connection_bytes = deepep_connection_bytes,
  .alone_s = deepep_alone_s,
  .path = sc_rails_path,
  .expand = sc_rails_expand,
};
