/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-send-receive.c - every rank sends its whole buffer to the next in rank order, and the last to the first. */
#include "models/collective-messages.h"

static void
send_receive_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  for (guint i = 0; i < n; i++)
    {
      ScRoute route;
      sc_fabric_route (fabric, gpus[i], gpus[(i + 1) % n], &route);
      hop (data, 0, 0, i, &route);
    }
}

static double
send_receive_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED,
                               guint part G_GNUC_UNUSED, double bytes)
{
  return bytes;
}

/* One rank of a domain sends to the next domain, by its own NIC. */
static double
send_receive_alone_s (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double bytes)
{
  const gboolean inter = shape->n_domains > 1;
  return shape->launch_s + (inter ? shape->inter_latency_s : shape->intra_latency_s)
         + bytes / (inter ? shape->inter_bytes_per_s : shape->intra_bytes_per_s);
}

static ScMessages *
send_receive_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes,
                     guint blocks G_GNUC_UNUSED, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  for (guint i = 0; i < n; i++)
    sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[(i + 1) % n]), bytes, SC_NONE);
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_send_receive = {
  .name = "send-receive",
  .summary = "every rank sends its buffer to the next in rank order, all at once",
  .source = "latency + bytes / bandwidth (Hockney, Parallel Computing 20(3), 1994); pattern of nccl-tests' sendrecv_perf",
  .kinds = 1u << SC_COLL_SEND_RECEIVE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .at_once = TRUE,
  .walk = send_receive_walk,
  .connection_bytes = send_receive_connection_bytes,
  .alone_s = send_receive_alone_s,
  .path = sc_pairs_path,
  .expand = send_receive_expand,
};
