/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-tree.c - all-reduce up and down two binary trees of domains at once, a chain inside each domain.
 * Half of the data takes each tree; a node that is a leaf in one is an inner node of the other. */
#include "models/collective-messages.h"

#define TREES 2
#define TREE_CHUNK_BYTES 524288.0

/* Both directions of the edge from @child to @parent, members of the group. */
static void
tree_edge (const ScFabric *fabric, const guint32 *gpus, guint child, guint parent, guint channel, ScHopFunc hop, gpointer data)
{
  ScRoute route;
  sc_fabric_route (fabric, gpus[child], gpus[parent], &route);
  hop (data, 0, channel, child, &route);
  sc_fabric_route (fabric, gpus[parent], gpus[child], &route);
  hop (data, 0, channel, parent, &route);
}

static void
tree_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint channels = sc_ring_channels (fabric, gpus, n);
  for (guint c = 0; c < channels; c++)
    for (guint tree = 0; tree < TREES; tree++)
      for (guint d = 0; d < domains.n; d++)
        {
          const guint first = domains.first[d], size = domains.first[d + 1] - first;
          const guint head = sc_group_head (fabric, gpus, &domains, d, c);
          for (guint i = 0; i + 1 < size; i++)
            tree_edge (fabric, gpus, first + (head - first + i + 1) % size, first + (head - first + i) % size, c, hop, data);
          const guint32 parent = sc_tree_parent (domains.n, d, tree);
          if (parent != SC_NONE)
            tree_edge (fabric, gpus, head, sc_group_head (fabric, gpus, &domains, parent, c), c, hop, data);
        }
}

static double
tree_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / TREES / shape->n_channels;
}

static void
tree_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_intra = 2.0 * (shape->per_domain - 1);
  *ret_inter = shape->n_domains > 1 ? 2 * log2 (shape->n_domains) : 0;
}

/* What one byte of one tree costs the narrowest link: an inner node of three neighbours sends and receives three times its
 * tree's half and, as a leaf of the other tree, once; a chain passes everything up and down. */
static double
tree_rate (const ScGroupShape *s)
{
  const double inter = s->n_domains <= 1 ? INFINITY : s->inter_bytes_per_s * s->n_channels / (s->n_domains == 2 ? 1 : 2);
  const double intra = s->per_domain <= 1 ? INFINITY : s->intra_bytes_per_s * s->n_channels / (s->per_domain == 2 ? 1 : 2);
  return MIN (inter, intra);
}

/* FOLDING 6: S / B + 2 d alpha + (2 d - 1) chunks of fill. */
static double
tree_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  tree_path (kind, shape, &intra, &inter);
  const double each = tree_connection_bytes (kind, shape, 0, bytes), chunk = MIN (each, TREE_CHUNK_BYTES);
  const double rate = tree_rate (shape);
  return shape->launch_s + bytes / rate + intra * shape->intra_latency_s + inter * shape->inter_latency_s
         + MAX (intra + inter - 1, 0) * chunk * TREES * shape->n_channels / rate;
}

const ScCollective sc_collective_tree = {
  .name = "tree",
  .summary = "all-reduce up and down two binary trees of nodes at once, a chain inside each node",
  .source = "Sanders, Speck & Traff, Parallel Computing 35(12), 2009 (two trees); shape as NVIDIA/nccl src/graph/trees.cc",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .walk = tree_walk,
  .connection_bytes = tree_connection_bytes,
  .alone_s = tree_alone_s,
  .path = tree_path,
};
