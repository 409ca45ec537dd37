/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-send.c - point to point: the first of two GPUs sends to the second. */
#include "models/collective-messages.h"

static void
send_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_return_if_fail (n == 2);
  ScRoute route;
  sc_fabric_route (fabric, gpus[0], gpus[1], &route);
  hop (data, 0, 0, 0, &route);
}

static double
send_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape G_GNUC_UNUSED, guint part G_GNUC_UNUSED,
                       double bytes)
{
  return bytes;
}

static double
send_alone_s (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double bytes)
{
  const gboolean inter = shape->hops_inter > 0;
  return shape->launch_s + (inter ? shape->inter_latency_s : shape->intra_latency_s)
         + bytes / (inter ? shape->inter_bytes_per_s : shape->intra_bytes_per_s);
}

static void
send_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_inter = shape->hops_inter > 0;
  *ret_intra = 1 - *ret_inter;
}

/* One message, however many blocks: it is one flow. */
static ScMessages *
send_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes,
             guint blocks G_GNUC_UNUSED, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  const ScHopMap map = { send_walk, fabric, gpus, n, kind, link_map, unit_links };
  return sc_messages_chain (&map, 1, 1, 1, bytes, latency);
}

const ScCollective sc_collective_send = {
  .name = "send",
  .summary = "one message from the first of two ranks to the second",
  .source = "latency + bytes / bandwidth (Hockney, Parallel Computing 20(3), 1994)",
  .kinds = 1u << SC_COLL_SEND,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .at_once = TRUE,
  .walk = send_walk,
  .connection_bytes = send_connection_bytes,
  .alone_s = send_alone_s,
  .path = send_path,
  .expand = send_expand,
};
