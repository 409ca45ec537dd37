/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-collnet.c - the network's switches reduce (SHARP): what a node has summed up inside goes up once and comes
 * down once.  Inside a node each member sums up its part of the data directly from all others. */
#include "models/collective.h"

static gboolean
collnet_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->n_domains < 2)
    *ret_why = "the group does not use the network";
  else if (shape->library.version != NULL && !shape->library.sharp)
    *ret_why = "the switches of the network do not reduce (fabric.sharp)";
  else if (shape->n % shape->n_domains != 0 || shape->n / shape->n_domains != shape->per_domain)
    *ret_why = "the nodes hold different numbers of its ranks";
  else
    return TRUE;
  return FALSE;
}

/* @route without its links from @from on up to @to, kept on the caller's side. */
static void
half_route (const ScRoute *route, guint from, guint to, ScRoute *ret)
{
  *ret = *route;
  ret->in_network = TRUE;
  ret->n = 0;
  for (guint i = from; i < to; i++)
    ret->links[ret->n++] = route->links[i];
}

static void
collnet_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  g_auto (ScDomains) domains = sc_group_domains (fabric, gpus, n);
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL); /* up-links that carry one sum, however many nodes are below */
  for (guint d = 0; d < domains.n; d++)
    {
      const guint first = domains.first[d], end = domains.first[d + 1];
      for (guint i = first; i < end; i++)
        {
          ScRoute route, part;
          for (guint j = first; j < end; j++)
            if (j != i)
              for (guint phase = 0; phase < 2; phase++) /* sum up, spread */
                {
                  sc_fabric_route (fabric, gpus[i], gpus[j], &route);
                  hop (data, 0, i - first, i, &route);
                }
          const guint far = (d + domains.n / 2) % domains.n; /* the route that climbs as high as any */
          const guint32 other = gpus[domains.first[far] + (i - first) % (domains.first[far + 1] - domains.first[far])];
          sc_fabric_route (fabric, gpus[i], other, &route);
          guint up = 0;
          while (up < route.n && fabric->links[route.links[up]].kind != SC_LINK_UP && fabric->links[route.links[up]].kind != SC_LINK_NIC_IN)
            up++;
          half_route (&route, 0, up, &part);
          hop (data, 0, i - first, i, &part);
          for (; up < route.n && fabric->links[route.links[up]].kind == SC_LINK_UP; up++)
            for (guint side = 0; side < 2; side++) /* the down-link is its neighbour */
              if (g_hash_table_add (seen, GUINT_TO_POINTER (route.links[up] + side + 1)))
                {
                  part.n = 1;
                  part.links[0] = route.links[up] + side;
                  hop (data, 0, i - first, i, &part);
                }
          sc_fabric_route (fabric, other, gpus[i], &route);
          guint down = route.n;
          while (down > 0 && fabric->links[route.links[down - 1]].kind != SC_LINK_DOWN && fabric->links[route.links[down - 1]].kind != SC_LINK_NIC_OUT)
            down--;
          half_route (&route, down, route.n, &part);
          hop (data, 0, i - first, i, &part);
        }
    }
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
};
