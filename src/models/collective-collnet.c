/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-collnet.c - the network's switches reduce (SHARP): what a node has summed up inside goes up once and comes
 * down once.  Inside a node each member sums up its part of the data directly from all others. */
#include "models/collective-messages.h"
#include <string.h>

static gboolean
collnet_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->n_domains < 2)
    *ret_why = "the group does not use the network";
  else if (shape->library.version != NULL && !shape->library.sharp)
    *ret_why = "the switches of the network do not reduce (fabric.sharp)";
  else if (!sc_shape_is_even (shape))
    *ret_why = "the nodes hold different numbers of its ranks";
  else
    return TRUE;
  return FALSE;
}

/* @route's links from @from on up to @to, kept on the caller's side. */
static void
part_of_route (const ScRoute *route, guint from, guint to, ScRoute *ret)
{
  *ret = *route;
  ret->in_network = TRUE;
  ret->n = 0;
  for (guint i = from; i < to; i++)
    ret->links[ret->n++] = route->links[i];
}

static gboolean
is_kind (const ScFabric *fabric, guint32 link, ScLinkKind a, ScLinkKind b)
{
  return fabric->links[link].kind == a || fabric->links[link].kind == b;
}

/* Where member @i's sum leaves domain @d and comes back: its route to the first switch, the up-links above, the way back.
 * The route to a domain half-way round the group climbs as high as any. */
static void
network_routes (const ScFabric *fabric, const guint32 *gpus, const ScDomains *domains, guint d, guint i, ScRoute *ret_out,
                ScRoute *ret_up, ScRoute *ret_in)
{
  const guint far = (d + domains->n / 2) % domains->n;
  const guint32 other = gpus[domains->first[far] + (i - domains->first[d])];
  ScRoute route;
  sc_fabric_route (fabric, gpus[i], other, &route);
  guint up = 0, down = 0;
  while (up < route.n && !is_kind (fabric, route.links[up], SC_LINK_UP, SC_LINK_NIC_IN))
    up++;
  part_of_route (&route, 0, up, ret_out);
  for (down = up; down < route.n && fabric->links[route.links[down]].kind == SC_LINK_UP;)
    down++;
  part_of_route (&route, up, down, ret_up);
  sc_fabric_route (fabric, other, gpus[i], &route);
  for (down = route.n; down > 0 && !is_kind (fabric, route.links[down - 1], SC_LINK_DOWN, SC_LINK_NIC_OUT);)
    down--;
  part_of_route (&route, down, route.n, ret_in);
}

/* Adds @link for the @part-th sum to @seen; FALSE: it carries that sum already, for another node below it. */
static gboolean
is_new (GHashTable *seen, guint32 link, guint part)
{
  gint64 *const key = g_new (gint64, 1);
  *key = (gint64) ((guint64) part << 32 | link);
  return g_hash_table_add (seen, key);
}

static void
collnet_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  for (guint d = 0; d < domains.n; d++)
    {
      const guint first = domains.first[d], end = domains.first[d + 1];
      for (guint i = first; i < end; i++)
        {
          ScRoute route, up, in;
          for (guint j = first; j < end; j++)
            if (j != i)
              for (guint phase = 0; phase < 2; phase++) /* sum up, spread */
                {
                  sc_fabric_route (fabric, gpus[i], gpus[j], &route);
                  hop (data, 0, i - first, i, &route);
                }
          network_routes (fabric, gpus, &domains, d, i, &route, &up, &in);
          hop (data, 0, i - first, i, &route);
          hop (data, 0, i - first, i, &in);
          for (guint k = 0; k < up.n; k++)
            for (guint side = 0; side < 2; side++) /* the down-link is its neighbour */
              if (is_new (seen, up.links[k] + side, i - first))
                {
                  part_of_route (&up, k, k + 1, &route);
                  route.links[0] += side;
                  hop (data, 0, i - first, i, &route);
                }
        }
    }
}

/* Block by block: members sum up in each domain, send up, get the network's sum when all have sent, and spread it. */
static ScMessages *
collnet_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes, guint blocks,
                ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  const guint each = domains.least;
  const double piece = bytes / each / blocks;
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GArray) ups = g_array_new (FALSE, FALSE, sizeof (guint32)); /* per up- or down-link and part: part, route, last */
  g_autofree guint32 *route = g_new (guint32, 2 * n), *last = g_new (guint32, n * (2 * each + 2)), *met = g_new (guint32, each);
  guint32 *const given = last, *const spread = given + n * each, *const out = spread + n * each, *const in = out + n;
  memset (last, 0xff, n * (2 * each + 2) * sizeof *last);
  for (guint i = 0; i < n; i++)
    {
      ScRoute there, up, back;
      network_routes (fabric, gpus, &domains, i / each, i, &there, &up, &back);
      route[2 * i] = sc_dag_route (dag, &there);
      route[2 * i + 1] = sc_dag_route (dag, &back);
      for (guint k = 0; k < 2 * up.n; k++)
        if (is_new (seen, up.links[k / 2] + k % 2, i % each))
          {
            part_of_route (&up, k / 2, k / 2 + 1, &there);
            there.links[0] += k % 2;
            const guint32 entry[3] = { i % each, sc_dag_route (dag, &there), SC_NONE };
            g_array_append_vals (ups, entry, 3);
          }
    }
  for (guint b = 0; b < blocks; b++)
    {
      for (guint part = 0; part < each; part++)
        met[part] = sc_dag_add (dag, SC_DAG_NOWHERE, 0, SC_NONE);
      for (guint i = 0; i < n; i++)
        {
          out[i] = sc_dag_add (dag, route[2 * i], piece, out[i]);
          in[i] = sc_dag_add (dag, route[2 * i + 1], piece, in[i]);
          sc_dag_after (dag, met[i % each], out[i]);
          sc_dag_after (dag, in[i], met[i % each]);
          for (guint k = 0; k < each; k++)
            if (k != i % each)
              {
                const guint32 other = gpus[i / each * each + k];
                guint32 *const g = &given[i * each + k], *const s = &spread[i * each + k];
                *g = sc_dag_add (dag, sc_dag_between (dag, other, gpus[i]), piece, *g);
                sc_dag_after (dag, out[i], *g);
                *s = sc_dag_add (dag, sc_dag_between (dag, gpus[i], other), piece, *s);
                sc_dag_after (dag, *s, in[i]);
              }
        }
      for (guint k = 0; k < ups->len; k += 3) /* switches pass on as it comes: beside the ways out and in, not between them */
        {
          guint32 *const up = &g_array_index (ups, guint32, k);
          up[2] = sc_dag_add (dag, up[1], piece, up[2]);
          sc_dag_after (dag, up[2], met[up[0]]);
        }
    }
  return sc_dag_finish (dag);
}

static double
collnet_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part G_GNUC_UNUSED, double bytes)
{
  return bytes / shape->per_domain;
}

static void
collnet_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  *ret_intra = shape->per_domain > 1 ? 2 : 0;
  *ret_inter = 1;
}

static double
collnet_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  collnet_path (kind, shape, &intra, &inter);
  const double g = shape->per_domain;
  const double nvlink = g > 1 ? 2 * (g - 1) / g * bytes / (shape->intra_bytes_per_s * shape->n_channels) : 0;
  const double network = bytes / (shape->inter_bytes_per_s * shape->n_channels);
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s + MAX (nvlink, network);
}

const ScCollective sc_collective_collnet = {
  .name = "collnet",
  .summary = "all-reduce in the network's switches (SHARP); inside nodes every member sums up its part directly",
  .source = "Graham et al., SHARP, COMHPC 2016; NCCL's CollNetDirect",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .possible = collnet_possible,
  .walk = collnet_walk,
  .connection_bytes = collnet_connection_bytes,
  .alone_s = collnet_alone_s,
  .path = collnet_path,
  .expand = collnet_expand,
};
