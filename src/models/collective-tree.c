/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-tree.c - all-reduce up and down two binary trees of domains at once, a chain inside each domain.
 * Half of the data takes each tree; a node that is a leaf in one is an inner node of the other. */
#include "models/collective-messages.h"
#include <string.h>

#define TREES 2
#define TREE_CHUNK_BYTES 524288.0

/* Parent of each member, or SC_NONE for the root: from head to head between domains, down a chain inside each, which is the
 * ring's way through it turned round; its head is where the ring leaves. */
static void
tree_parents (const ScDomains *domains, const guint32 *order, guint tree, guint32 *ret_parent)
{
  for (guint d = 0; d < domains->n; d++)
    {
      const guint last = domains->first[d + 1] - 1;
      for (guint i = domains->first[d]; i < last; i++)
        ret_parent[order[i]] = order[i + 1];
      const guint32 up = sc_tree_parent (domains->n, d, tree);
      ret_parent[order[last]] = up == SC_NONE ? SC_NONE : order[domains->first[up + 1] - 1];
    }
}

static void
tree_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  g_autofree guint32 *order = g_new (guint32, n), *parent = g_new (guint32, n);
  const guint channels = sc_ring_channels (fabric, gpus, n);
  for (guint c = 0; c < channels; c++)
    {
      sc_ring_order (fabric, gpus, n, c, order);
      for (guint tree = 0; tree < TREES; tree++)
        {
          tree_parents (&domains, order, tree, parent);
          for (guint i = 0; i < n; i++)
            if (parent[i] != SC_NONE)
              {
                ScRoute route;
                sc_fabric_route (fabric, gpus[i], gpus[parent[i]], &route);
                hop (data, 0, c, i, &route);
                sc_fabric_route (fabric, gpus[parent[i]], gpus[i], &route);
                hop (data, 0, c, parent[i], &route);
              }
        }
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

/* The bytes through the narrowest link, every hop's latency, and the time in which the first chunk fills the pipe: once up
 * and down at each hop's own pace, as the links are idle yet. */
static double
tree_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  tree_path (kind, shape, &intra, &inter);
  const double each = tree_connection_bytes (kind, shape, 0, bytes), chunk = TREES * MIN (each, TREE_CHUNK_BYTES);
  const double rate = tree_rate (shape);
  const double fill = intra * chunk / sc_pair_intra_bytes_per_s (shape) + inter * chunk / shape->inter_bytes_per_s
                      - chunk * shape->n_channels / rate;
  return shape->launch_s + bytes / rate + intra * shape->intra_latency_s + inter * shape->inter_latency_s + MAX (fill, 0);
}

/* One block of one tree; @up, @down: what each member and its parent have sent each other last. */
static void
add_block (ScDag *dag, const guint32 *gpus, guint n, const guint32 *parent, double piece, guint32 *up, guint32 *down)
{
  for (guint i = 0; i < n; i++)
    if (parent[i] != SC_NONE)
      {
        up[i] = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[parent[i]]), piece, up[i]);
        down[i] = sc_dag_add (dag, sc_dag_between (dag, gpus[parent[i]], gpus[i]), piece, down[i]);
      }
  for (guint i = 0; i < n; i++)
    {
      if (parent[i] == SC_NONE)
        continue;
      if (parent[parent[i]] != SC_NONE)
        {
          sc_dag_after (dag, up[parent[i]], up[i]);
          sc_dag_after (dag, down[i], down[parent[i]]);
          continue;
        }
      for (guint j = 0; j < n; j++) /* the root turns round what all its children sent */
        if (parent[j] == parent[i])
          sc_dag_after (dag, down[i], up[j]);
    }
}

/* Block by block: sums go up once the children's are in, results come down once the parent has them. */
static ScMessages *
tree_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes, guint blocks,
             ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint channels = sc_ring_channels (fabric, gpus, n);
  const double piece = bytes / TREES / channels / blocks;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *order = g_new (guint32, n), *parent = g_new (guint32, n), *up = g_new (guint32, n), *down = g_new (guint32, n);
  for (guint c = 0; c < channels; c++)
    {
      sc_ring_order (fabric, gpus, n, c, order);
      for (guint tree = 0; tree < TREES; tree++)
        {
          tree_parents (&domains, order, tree, parent);
          memset (up, 0xff, n * sizeof *up);
          memset (down, 0xff, n * sizeof *down);
          for (guint b = 0; b < blocks; b++)
            add_block (dag, gpus, n, parent, piece, up, down);
        }
    }
  return sc_dag_finish (dag);
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
  .expand = tree_expand,
};
