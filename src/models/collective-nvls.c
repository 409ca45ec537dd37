/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-nvls.c - reduction and multicast inside NVLink switches (NVLink SHARP).
 * Each rank owns 1/n of the data: it reads the sum of its part through the switches, and multicasts it back.  So every
 * rank's link carries all of the data once, and the rank's own part once more. */
#include "models/collective-messages.h"
#include <string.h>

#define NVLS_MIN_RANKS 5 /* NCCL keeps rings for fewer: 363 GB/s bus bandwidth over 4 H200, 414 over 5 (MODELLING 5.4) */

static gboolean
nvls_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->n_domains > 1)
    *ret_why = "the group spans several NVLink domains";
  else if (shape->library.version != NULL && !shape->library.nvls)
    *ret_why = "the NVLink switches do not reduce";
  else if (shape->library.version != NULL && shape->n < NVLS_MIN_RANKS)
    *ret_why = "the group has too few ranks";
  else
    return TRUE;
  return FALSE;
}

/* @out and @in connections of one GPU to and from the switches. */
static void
nvls_links (const ScFabric *fabric, guint32 gpu, guint position, guint out, guint in, ScHopFunc hop, gpointer data)
{
  if (fabric->nvlink_out[gpu] == SC_NONE)
    return;
  ScRoute route = { .n = 1, .latency_s = sc_fabric_node_type (fabric, gpu)->nvlink_latency_s.value, .in_network = TRUE };
  for (guint side = 0; side < 2; side++)
    {
      route.links[0] = fabric->nvlink_out[gpu] + side;
      for (guint i = 0; i < (side == 0 ? out : in); i++)
        hop (data, 0, 0, position, &route);
    }
}

static void
nvls_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data)
{
  const gboolean reduces = kind != SC_COLL_ALL_GATHER, gathers = kind != SC_COLL_REDUCE_SCATTER;
  for (guint i = 0; i < n; i++)
    nvls_links (fabric, gpus[i], i, (reduces ? n : 0) + (gathers ? 1 : 0), (reduces ? 1 : 0) + (gathers ? n : 0), hop, data);
}

static double
nvls_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / shape->n;
}

static void
nvls_path (ScCollKind kind, const ScGroupShape *shape G_GNUC_UNUSED, double *ret_intra, double *ret_inter)
{
  *ret_intra = kind == SC_COLL_ALL_REDUCE ? 2 : 1;
  *ret_inter = 0;
}

static double
nvls_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  nvls_path (kind, shape, &intra, &inter);
  const double crossings = shape->n + (kind == SC_COLL_ALL_REDUCE ? 1 : 0);
  return shape->launch_s + intra * shape->intra_latency_s + crossings / shape->n * bytes / shape->intra_bytes_per_s;
}

/* Block by block, for each owner of a part: all members' data to the switches, their sum to the owner; its result to the
 * switches, copies to all members. */
static ScMessages *
nvls_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks, ScTime latency,
             const guint32 *link_map, gboolean unit_links)
{
  const gboolean reduces = kind != SC_COLL_ALL_GATHER, gathers = kind != SC_COLL_REDUCE_SCATTER;
  const double piece = bytes / n / blocks;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autofree guint32 *route = g_new (guint32, 2 * n), *last = g_new (guint32, n * (2 * n + 2));
  guint32 *const given = last, *const copy = last + n * n, *const sum = copy + n * n, *const result = sum + n;
  memset (last, 0xff, n * (2 * n + 2) * sizeof *last);
  for (guint i = 0; i < 2 * n; i++)
    {
      const guint32 out = fabric->nvlink_out[gpus[i / 2]];
      route[i] = sc_dag_route (dag, &(ScRoute) { .links = { out + i % 2 }, .n = out != SC_NONE });
    }
  for (guint b = 0; b < blocks; b++)
    for (guint owner = 0; owner < n; owner++)
      {
        if (reduces)
          {
            sum[owner] = sc_dag_add (dag, route[2 * owner + 1], piece, sum[owner]);
            for (guint i = 0; i < n; i++)
              {
                given[owner * n + i] = sc_dag_add (dag, route[2 * i], piece, given[owner * n + i]);
                sc_dag_after (dag, sum[owner], given[owner * n + i]);
              }
          }
        if (!gathers)
          continue;
        result[owner] = sc_dag_add (dag, route[2 * owner], piece, result[owner]);
        if (reduces)
          sc_dag_after (dag, result[owner], sum[owner]);
        for (guint i = 0; i < n; i++)
          {
            copy[owner * n + i] = sc_dag_add (dag, route[2 * i + 1], piece, copy[owner * n + i]);
            sc_dag_after (dag, copy[owner * n + i], result[owner]);
          }
      }
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_nvls = {
  .name = "nvls",
  .summary = "reduction and multicast in the NVLink switches: every byte crosses a GPU's link once",
  .source = "NVLink SHARP: Ishii & Wells, Hot Chips 34, 2022; bytes (n + 1) / n per direction: derived",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .possible = nvls_possible,
  .walk = nvls_walk,
  .connection_bytes = nvls_connection_bytes,
  .alone_s = nvls_alone_s,
  .path = nvls_path,
  .expand = nvls_expand,
};
