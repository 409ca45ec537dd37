/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective.c - the table of algorithms, the choice among them, and what rings share. */
#include "models/collective.h"
#include <string.h>

static const ScCollective *const rows[] = { &sc_collective_ring, &sc_collective_chain, &sc_collective_tree,
                                            &sc_collective_send, NULL };

const ScCollective *const *
sc_collective_all (void)
{
  return rows;
}

const ScCollective *
sc_collective_find (const char *name)
{
  for (guint i = 0; rows[i] != NULL; i++)
    if (strcmp (rows[i]->name, name) == 0)
      return rows[i];
  return NULL;
}

const char *
sc_coll_kind_name (ScCollKind kind)
{
  static const char *const names[] = { "all-reduce", "reduce-scatter", "all-gather", "broadcast", "send" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_COLLS);
  return names[kind];
}

const ScCollective *
sc_collective_choose (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const ScCollective *best = NULL;
  double best_s = INFINITY;
  for (guint i = 0; rows[i] != NULL; i++)
    {
      if ((rows[i]->kinds & 1u << kind) == 0 || bytes > rows[i]->max_bytes || shape->n < rows[i]->min_ranks)
        continue;
      const double s = rows[i]->alone_s (kind, shape, bytes);
      if (s < best_s)
        {
          best = rows[i];
          best_s = s;
        }
    }
  g_assert (best != NULL);
  return best;
}

ScCallForm
sc_collective_form (const ScCollective *row, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const double alone = row->alone_s (kind, shape, bytes);
  if (row->walk == NULL)
    return (ScCallForm) { 0, INFINITY, alone };
  const double each = row->connection_bytes (kind, shape, bytes);
  if (kind == SC_COLL_SEND) /* a single message: its latency first, then its bytes */
    return (ScCallForm) { each, INFINITY, shape->launch_s + MAX (shape->inter_latency_s, shape->intra_latency_s) };
  return (ScCallForm) { each, each > 0 ? each / alone : INFINITY, each > 0 ? 0 : alone };
}

/* ---- rings ---- */

/* First member after @i that sits in another domain. */
static guint
domain_end (const ScFabric *f, const guint32 *gpus, guint n, guint i)
{
  const guint32 domain = f->domain[f->gpus[gpus[i]].node];
  while (i < n && f->domain[f->gpus[gpus[i]].node] == domain)
    i++;
  return i;
}

/* Key of the NIC that @gpu uses; distinct NICs of one domain have distinct keys. */
static guint64
nic_key (const ScFabric *f, guint32 gpu)
{
  return (guint64) f->gpus[gpu].node << 16 | f->gpus[gpu].nic;
}

/* The @channel-th distinct NIC among members [first, end): index of the first member that uses it, or @end. */
static guint
member_of_channel (const ScFabric *f, const guint32 *gpus, guint first, guint end, guint channel)
{
  guint distinct = 0;
  for (guint i = first; i < end; i++)
    {
      gboolean seen = FALSE;
      for (guint j = first; j < i && !seen; j++)
        seen = nic_key (f, gpus[j]) == nic_key (f, gpus[i]);
      if (!seen && distinct++ == channel)
        return i;
    }
  return end;
}

guint
sc_ring_channels (const ScFabric *f, const guint32 *gpus, guint n)
{
  if (domain_end (f, gpus, n, 0) == n)
    return 1;
  guint channels = G_MAXUINT;
  for (guint i = 0; i < n;)
    {
      const guint end = domain_end (f, gpus, n, i);
      guint here = 0;
      while (here < channels && member_of_channel (f, gpus, i, end, here) < end)
        here++;
      channels = MIN (channels, here);
      i = end;
    }
  return MAX (channels, 1);
}

void
sc_ring_order (const ScFabric *f, const guint32 *gpus, guint n, guint channel, guint32 *ret_order)
{
  guint at = 0;
  for (guint i = 0; i < n;)
    {
      const guint end = domain_end (f, gpus, n, i);
      guint exit = end == n && i == 0 ? end - 1 : member_of_channel (f, gpus, i, end, channel);
      if (exit == end)
        exit = end - 1;
      for (guint j = 0; j < end - i; j++) /* the exit comes last */
        ret_order[at++] = i + (exit + 1 - i + j) % (end - i);
      i = end;
    }
}

void
sc_ring_hop (const ScFabric *f, const guint32 *gpus, guint n, guint channel, const guint32 *order, guint position, ScRoute *ret)
{
  const guint32 a = gpus[order[position]], b = gpus[order[(position + 1) % n]];
  if (f->domain[f->gpus[a].node] == f->domain[f->gpus[b].node])
    {
      sc_fabric_route (f, a, b, ret);
      return;
    }
  /* Into the next domain by the NIC of the same channel: its exit member uses that NIC. */
  guint first = order[(position + 1) % n];
  while (first > 0 && f->domain[f->gpus[gpus[first - 1]].node] == f->domain[f->gpus[b].node])
    first--;
  const guint end = domain_end (f, gpus, n, first);
  guint entry = member_of_channel (f, gpus, first, end, channel);
  if (entry == end)
    entry = end - 1;
  /* Inside an NVLink domain of several nodes the NIC belongs to the entry member's node: route to that node. */
  if (f->gpus[gpus[entry]].node == f->gpus[b].node)
    sc_fabric_route_via (f, a, f->gpus[a].nic, b, f->gpus[gpus[entry]].nic, ret);
  else
    sc_fabric_route (f, a, gpus[entry], ret);
}

void
sc_ring_walk (const ScFabric *f, const guint32 *gpus, guint n, ScHopFunc hop, gpointer data)
{
  const guint channels = sc_ring_channels (f, gpus, n);
  g_autofree guint32 *order = g_new (guint32, n);
  for (guint c = 0; c < channels; c++)
    {
      sc_ring_order (f, gpus, n, c, order);
      for (guint i = 0; i < n; i++)
        {
          ScRoute route;
          sc_ring_hop (f, gpus, n, c, order, i, &route);
          hop (data, c, i, &route);
        }
    }
}

/* Chunks are cut in slices that follow one another, as NCCL does: two a chunk (MICRO: slice = 2 of the chunk's 4 slots). */
#define RING_SLICES 2

/* Hops that leave a domain on the slowest walk of @steps hops round a ring, of which they are every (n / hops_inter)-th. */
static guint
hops_inter_of_walk (const ScGroupShape *s, guint steps, gboolean most)
{
  const guint turns = steps / s->n;
  const guint64 rest = (guint64) (steps % s->n) * s->hops_inter; /* passes 32 bits above 65,536 ranks */
  return turns * s->hops_inter + (guint) (most ? (rest + s->n - 1) / s->n : rest / s->n);
}

double
sc_ring_time_s (const ScGroupShape *s, guint steps, double chunk)
{
  if (steps == 0)
    return 0;
  const double slice = chunk / RING_SLICES;
  const double inter_step = s->hops_inter > 0 ? s->inter_latency_s + slice / s->inter_bytes_per_s : 0;
  const double intra_step = s->hops_inter < s->n ? s->intra_latency_s + slice / s->intra_bytes_per_s : 0;
  const gboolean inter_slow = s->hops_inter > 0 && s->inter_bytes_per_s <= s->intra_bytes_per_s;
  const double slow = inter_slow ? s->inter_bytes_per_s : s->intra_bytes_per_s;
  const double alpha_slow = inter_slow ? s->inter_latency_s : s->intra_latency_s;
  const guint inter_hops = hops_inter_of_walk (s, steps, inter_step > intra_step);
  /* Either the slowest hop is busy all the time, or one slice walks round the ring and the rest of the last chunk follows. */
  const double busy = steps * chunk / slow + alpha_slow;
  const double walk = inter_hops * inter_step + (steps - inter_hops) * intra_step + (chunk - slice) / slow;
  return MAX (busy, walk);
}
