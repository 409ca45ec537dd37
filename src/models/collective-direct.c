/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-direct.c - one step: every rank sends every other what it needs, all at once.
 * All-gather and reduce-scatter move no more than a ring; the one-shot all-reduce sends whole buffers, for the sake of latency. */
#include "models/collective.h"

static double
direct_message_bytes (ScCollKind kind, guint n, double bytes)
{
  return kind == SC_COLL_ALL_REDUCE ? bytes : bytes / n;
}

static double
direct_connection_bytes (ScCollKind kind, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return direct_message_bytes (kind, shape->n, bytes);
}

static double
direct_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  return sc_pairs_alone_s (shape, direct_message_bytes (kind, shape->n, bytes));
}

static ScMessages *
direct_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks G_GNUC_UNUSED,
               ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  return sc_pairs_expand (fabric, gpus, n, direct_message_bytes (kind, n, bytes), latency, link_map, unit_links);
}

const ScCollective sc_collective_direct = {
  .name = "direct",
  .summary = "one step: every rank sends every other its part (all-reduce: its whole buffer), all at once",
  .source = "one-step exchange: Chan et al., Concurrency and Computation 19(13), 2007, sec. 3; latency + (n - 1) messages / bandwidth",
  .kinds = 1u << SC_COLL_ALL_REDUCE | 1u << SC_COLL_REDUCE_SCATTER | 1u << SC_COLL_ALL_GATHER,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .at_once = TRUE,
  .n_parts = sc_pairs_n_parts,
  .walk = sc_pairs_walk,
  .connection_bytes = direct_connection_bytes,
  .alone_s = direct_alone_s,
  .part_share = sc_pairs_part_share,
  .path = sc_pairs_path,
  .expand = direct_expand,
};
