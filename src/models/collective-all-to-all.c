/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-all-to-all.c - every rank sends every other its part, all at once. */
#include "models/collective.h"

static double
all_to_all_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / shape->n;
}

static double
all_to_all_alone_s (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double bytes)
{
  return sc_pairs_alone_s (shape, bytes / shape->n);
}

/* Messages wait for nothing, so blocks would change nothing. */
static ScMessages *
all_to_all_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes,
                   guint blocks G_GNUC_UNUSED, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  return sc_pairs_expand (fabric, gpus, n, bytes / n, latency, link_map, unit_links);
}

const ScCollective sc_collective_all_to_all = {
  .name = "all-to-all",
  .summary = "every rank sends every other one its part, all at once",
  .source = "Hockney's latency + bytes / bandwidth over the busiest link; as NCCL's grouped sends and receives",
  .kinds = 1u << SC_COLL_ALL_TO_ALL,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .at_once = TRUE,
  .n_parts = sc_pairs_n_parts,
  .walk = sc_pairs_walk,
  .connection_bytes = all_to_all_connection_bytes,
  .alone_s = all_to_all_alone_s,
  .part_share = sc_pairs_part_share,
  .path = sc_pairs_path,
  .expand = all_to_all_expand,
};
