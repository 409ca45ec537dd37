/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-nvls-tree.c - NVLink switches reduce inside each domain, two binary trees over the network between them.
 * Member j of every domain owns the j-th part of the data and sits in the trees of its rail. */
#include "models/collective-messages.h"
#include <string.h>

#define TREES 2

static gboolean
nvls_tree_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->n_domains < 2)
    *ret_why = "the group sits in one NVLink domain";
  else if (!sc_shape_is_even (shape))
    *ret_why = "the nodes hold different numbers of its ranks";
  else if (shape->library.version != NULL && !shape->library.nvls)
    *ret_why = "the NVLink switches do not reduce";
  else if (shape->library.version != NULL && shape->per_domain < 4)
    *ret_why = "a node has too few of its ranks";
  else
    return TRUE;
  return FALSE;
}

static void
nvls_tree_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  ScRoute route;
  for (guint d = 0; d < domains.n; d++)
    {
      const guint first = domains.first[d], size = domains.first[d + 1] - first;
      for (guint j = 0; j < size; j++)
        {
          const guint32 gpu = gpus[first + j];
          if (fabric->nvlink_out[gpu] == SC_NONE)
            continue;
          route = (ScRoute) { .n = 1, .latency_s = sc_fabric_node_type (fabric, gpu)->nvlink_latency_s.value, .in_network = TRUE };
          for (guint side = 0; side < 2; side++)
            {
              route.links[0] = fabric->nvlink_out[gpu] + side;
              for (guint i = 0; i < TREES * (size + 1); i++) /* connections are halves of a member's part */
                hop (data, 0, j, first + j, &route);
            }
          for (guint tree = 0; tree < TREES; tree++)
            {
              const guint32 parent = sc_tree_parent (domains.n, d, tree);
              if (parent == SC_NONE)
                continue;
              const guint parent_size = domains.first[parent + 1] - domains.first[parent];
              const guint32 other = gpus[domains.first[parent] + j % parent_size];
              sc_fabric_route (fabric, gpu, other, &route);
              hop (data, 0, j, first + j, &route);
              sc_fabric_route (fabric, other, gpu, &route);
              hop (data, 0, j, domains.first[parent] + j % parent_size, &route);
            }
        }
    }
}

static double
nvls_tree_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / shape->per_domain / TREES;
}

static void
nvls_tree_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_intra = 2;
  *ret_inter = 2 * log2 (shape->n_domains);
}

static double
nvls_tree_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  nvls_tree_path (kind, shape, &intra, &inter);
  const double g = shape->per_domain, most = shape->n_domains == 2 ? 1 : 2;
  const double nvlink = (g + 1) / g * bytes / (shape->intra_bytes_per_s * shape->n_channels);
  const double network = most * bytes / (shape->inter_bytes_per_s * shape->n_channels);
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s + MAX (nvlink, network);
}

/* What has been sent last for the part of one member in one tree; all by member. */
typedef struct
{
  guint32 *sum, *result; /* between the member and its switches */
  guint32 *up, *down;    /* to the parent, from it */
  guint32 *given, *copy; /* [each] between another member of its domain and the switches, for it */
} Sent;

/* One block of one tree: sums to the owners, up and down their trees, results to the switches and to all. */
static void
add_block (ScDag *dag, const guint32 *gpus, const guint32 *route, guint n, guint each, guint tree, double piece, const Sent *s)
{
  for (guint o = 0; o < n; o++)
    {
      const guint domain = o / each, first = domain * each;
      const guint32 parent = sc_tree_parent (n / each, domain, tree);
      s->sum[o] = sc_dag_add (dag, route[2 * o + 1], piece, s->sum[o]);
      s->result[o] = sc_dag_add (dag, route[2 * o], piece, s->result[o]);
      for (guint k = 0; k < each; k++)
        {
          guint32 *const given = &s->given[o * each + k], *const copy = &s->copy[o * each + k];
          *given = sc_dag_add (dag, route[2 * (first + k)], piece, *given);
          sc_dag_after (dag, s->sum[o], *given);
          *copy = sc_dag_add (dag, route[2 * (first + k) + 1], piece, *copy);
          sc_dag_after (dag, *copy, s->result[o]);
        }
      if (parent == SC_NONE)
        continue;
      const guint32 other = parent * each + o % each;
      s->up[o] = sc_dag_add (dag, sc_dag_between (dag, gpus[o], gpus[other]), piece, s->up[o]);
      s->down[o] = sc_dag_add (dag, sc_dag_between (dag, gpus[other], gpus[o]), piece, s->down[o]);
      sc_dag_after (dag, s->up[o], s->sum[o]);
      sc_dag_after (dag, s->result[o], s->down[o]);
    }
  for (guint o = 0; o < n; o++)
    {
      const guint32 parent = sc_tree_parent (n / each, o / each, tree);
      if (parent == SC_NONE)
        {
          sc_dag_after (dag, s->result[o], s->sum[o]);
          continue;
        }
      const guint other = parent * each + o % each;
      if (sc_tree_parent (n / each, parent, tree) != SC_NONE)
        {
          sc_dag_after (dag, s->up[other], s->up[o]);
          sc_dag_after (dag, s->down[o], s->down[other]);
          continue;
        }
      sc_dag_after (dag, s->result[other], s->up[o]);
      sc_dag_after (dag, s->down[o], s->sum[other]);
      for (guint d = 0; d < n / each; d++) /* the root turns round what all its children sent */
        if (sc_tree_parent (n / each, d, tree) == parent)
          sc_dag_after (dag, s->down[o], s->up[d * each + o % each]);
    }
}

static ScMessages *
nvls_tree_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes, guint blocks,
                  ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *route = g_new (guint32, 2 * n), *last = g_new (guint32, n * (2 * each + 4));
  for (guint i = 0; i < 2 * n; i++)
    {
      const guint32 out = fabric->nvlink_out[gpus[i / 2]];
      route[i] = sc_dag_route (dag, &(ScRoute) { .links = { out + i % 2 }, .n = out != SC_NONE });
    }
  const Sent sent = { last, last + n, last + 2 * n, last + 3 * n, last + 4 * n, last + (4 + each) * n };
  for (guint tree = 0; tree < TREES; tree++)
    {
      memset (last, 0xff, n * (2 * each + 4) * sizeof *last);
      for (guint b = 0; b < blocks; b++)
        add_block (dag, gpus, route, n, each, tree, bytes / each / TREES / blocks, &sent);
    }
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_nvls_tree = {
  .name = "nvls-tree",
  .summary = "all-reduce: NVLink switches reduce inside nodes, two binary trees per rail between them",
  .source = "NVIDIA/nccl src/graph/tuning.cc and trees.cc (NVLSTree); bytes per link: derived",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 4,
  .on_request = TRUE,
  .possible = nvls_tree_possible,
  .walk = nvls_tree_walk,
  .connection_bytes = nvls_tree_connection_bytes,
  .alone_s = nvls_tree_alone_s,
  .path = nvls_tree_path,
  .expand = nvls_tree_expand,
};
