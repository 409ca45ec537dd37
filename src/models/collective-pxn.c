/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-pxn.c - all-to-all that crosses no rail: what goes to GPU j of another node goes over NVLink to the own
 * node's GPU j first, and with the node's other messages to that GPU on through its NIC. */
#include "models/collective-messages.h"
#include <string.h>

enum
{
  INSIDE, /* to the GPU of the destination's rail, and to those that are meant themselves */
  ACROSS,
  N_PARTS
};

static guint
pxn_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED)
{
  return N_PARTS;
}

static void
pxn_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  ScRoute route;
  for (guint i = 0; i < n; i++)
    for (guint k = 1; k < each; k++)
      {
        sc_fabric_route (fabric, gpus[i], gpus[i / each * each + (i + k) % each], &route);
        hop (data, INSIDE, 0, i, &route);
      }
  for (guint i = 0; i < n; i++)
    for (guint d = 1; d < domains.n; d++)
      {
        sc_fabric_route (fabric, gpus[i], gpus[(i + d * each) % n], &route);
        hop (data, ACROSS, 0, i, &route);
      }
}

static double
pxn_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  return bytes / shape->n * (part == INSIDE ? shape->n_domains : shape->per_domain);
}

static void
pxn_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED, double *ret_intra, double *ret_inter)
{
  *ret_intra = *ret_inter = 1;
}

/* The two stages follow one another piece by piece: the longer one counts. */
static double
pxn_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const double inside = (shape->per_domain - 1) * pxn_connection_bytes (kind, shape, INSIDE, bytes) / sc_rank_intra_bytes_per_s (shape);
  const double across = (shape->n_domains - 1) * pxn_connection_bytes (kind, shape, ACROSS, bytes) / sc_rank_inter_bytes_per_s (shape);
  return shape->launch_s + shape->intra_latency_s + shape->inter_latency_s + MAX (inside, across);
}

static ScMessages *
pxn_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes, guint blocks,
            ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  const double piece = bytes / n / blocks;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *inside = g_new (guint32, n * each), *across = g_new (guint32, n * domains.n); /* by sender */
  memset (inside, 0xff, n * each * sizeof *inside);
  memset (across, 0xff, n * domains.n * sizeof *across);
  for (guint b = 0; b < blocks; b++)
    {
      for (guint i = 0; i < n; i++)
        for (guint j = 0; j < each; j++)
          if (j != i % each)
            inside[i * each + j] = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[i / each * each + j]),
                                               piece * domains.n, inside[i * each + j]);
      for (guint i = 0; i < n; i++)
        for (guint d = 1; d < domains.n; d++)
          {
            guint32 *const m = &across[i * domains.n + d];
            *m = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[(i + d * each) % n]), piece * each, *m);
            for (guint k = 1; k < each; k++)
              sc_dag_after (dag, *m, inside[(i / each * each + (i + k) % each) * each + i % each]);
          }
    }
  return sc_dag_finish (dag);
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
  .n_parts = pxn_n_parts,
  .walk = pxn_walk,
  .connection_bytes = pxn_connection_bytes,
  .alone_s = pxn_alone_s,
  .path = pxn_path,
  .expand = pxn_expand,
};
