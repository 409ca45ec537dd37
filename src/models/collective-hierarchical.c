/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-hierarchical.c - all-reduce in three phases: reduce-scatter inside each domain, a ring per rail between the
 * domains on what each member then holds, all-gather inside.  The data goes through them in chunks, one after another. */
#include "models/collective-messages.h"
#include <string.h>

#define HIERARCHICAL_CHUNK_BYTES 4194304.0

enum
{
  SCATTER,
  RAIL,
  GATHER,
  N_PARTS
};

static guint
hierarchical_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED)
{
  return N_PARTS;
}

/* The rank after @i on the ring of @part; domains hold @each ranks. */
static guint
next_of (guint part, guint i, guint n, guint each)
{
  return part == RAIL ? (i + each) % n : i / each * each + (i + 1) % each;
}

static void
hierarchical_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  for (guint part = 0; part < N_PARTS; part++)
    for (guint i = 0; i < n; i++)
      {
        ScRoute route;
        sc_fabric_route (fabric, gpus[i], gpus[next_of (part, i, n, domains.least)], &route);
        hop (data, part, 0, i, &route);
      }
}

static double
hierarchical_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  const double g = shape->per_domain, domains = shape->n_domains;
  return part == RAIL ? 2 * (domains - 1) / domains * bytes / g : (g - 1) / g * bytes;
}

static void
hierarchical_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_intra = 2 * (shape->per_domain - 1);
  *ret_inter = 2 * (shape->n_domains - 1);
}

/* The longer of what NVLink and NICs have to do, and one chunk's time in the other (FOLDING 6). */
static double
hierarchical_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  hierarchical_path (kind, shape, &intra, &inter);
  const double inside = 2 * hierarchical_connection_bytes (kind, shape, SCATTER, 1) / sc_rank_intra_bytes_per_s (shape);
  const double rail = hierarchical_connection_bytes (kind, shape, RAIL, 1) / sc_rank_inter_bytes_per_s (shape);
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s + bytes * MAX (inside, rail)
         + MIN (bytes, HIERARCHICAL_CHUNK_BYTES) * MIN (inside, rail);
}

static ScMessages *
hierarchical_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes,
                     guint blocks, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  const guint steps[N_PARTS] = { each - 1, 2 * (domains.n - 1), each - 1 };
  const double piece[N_PARTS] = { bytes / each / blocks, bytes / each / domains.n / blocks, bytes / each / blocks };
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *last = g_new (guint32, N_PARTS * n); /* that each rank has sent in each phase */
  g_autofree guint32 *held = g_new (guint32, n), *next = g_new (guint32, n); /* delivered to each rank last, in this block */
  memset (last, 0xff, N_PARTS * n * sizeof *last);
  for (guint b = 0; b < blocks; b++)
    {
      memset (held, 0xff, n * sizeof *held);
      for (guint part = 0; part < N_PARTS; part++)
        for (guint step = 0; step < steps[part]; step++)
          {
            for (guint i = 0; i < n; i++)
              {
                guint32 *const sent = &last[part * n + i];
                const guint to = next_of (part, i, n, each);
                *sent = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[to]), piece[part], *sent);
                if (held[i] != SC_NONE)
                  sc_dag_after (dag, *sent, held[i]);
                next[to] = *sent;
              }
            memcpy (held, next, n * sizeof *held);
          }
    }
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_hierarchical = {
  .name = "hierarchical",
  .summary = "all-reduce: reduce-scatter inside nodes, a ring per rail between them, all-gather inside",
  .source = "Jia et al., arXiv 1807.11205, sec. 3.3 (hierarchical all-reduce); pipelined in chunks: derived",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 4,
  .on_request = TRUE,
  .possible = sc_rails_possible,
  .n_parts = hierarchical_n_parts,
  .walk = hierarchical_walk,
  .connection_bytes = hierarchical_connection_bytes,
  .alone_s = hierarchical_alone_s,
  .path = hierarchical_path,
  .expand = hierarchical_expand,
};
