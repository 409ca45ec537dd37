/* SPDX-License-Identifier: GPL-3.0-or-later */
/* loads.c - walks every group once over the real routes: which links, how many connections; and which links can never
 * bind (FOLDING S2, S5 a). */
#include <stdlib.h>
#include <string.h>
#include "models/fold.h"

typedef struct
{
  const ScFabric *fabric;
  guint32 *count;    /* [n_links] of the comm being walked */
  guint8  *inter;    /* [n_links] touched by a hop that leaves its domain */
  guint8  *intra;
  GArray  *touched;  /* guint32 */
  GArray  *follows;  /* guint64: link << 32 | the next link of some route */
  guint    hops_inter;
  double   inter_latency_s, intra_latency_s;
} Walk;

static void
on_hop (gpointer data, guint channel, guint position G_GNUC_UNUSED, const ScRoute *route)
{
  Walk *const w = data;
  for (guint i = 0; i < route->n; i++)
    {
      const guint32 l = route->links[i];
      if (w->count[l]++ == 0)
        g_array_append_val (w->touched, l);
      (route->crosses_nic ? w->inter : w->intra)[l] = TRUE;
      if (i > 0)
        {
          const guint64 pair = (guint64) route->links[i - 1] << 32 | l;
          g_array_append_val (w->follows, pair);
        }
    }
  if (route->crosses_nic)
    {
      w->inter_latency_s = MAX (w->inter_latency_s, route->latency_s);
      w->hops_inter += channel == 0;
    }
  else
    w->intra_latency_s = MAX (w->intra_latency_s, route->latency_s);
}

/* Shape of a group that puts nothing on links: one hop of each kind is enough to know the latencies. */
static ScGroupShape
shape_of_scalars (const ScFabric *f, const guint32 *gpus, guint n)
{
  ScGroupShape s = { .n = n, .n_domains = 1, .n_channels = 1, .inter_bytes_per_s = INFINITY, .intra_bytes_per_s = INFINITY };
  ScRoute route;
  for (guint i = 1; i < n; i++)
    {
      const gboolean leaves = f->domain[f->gpus[gpus[i]].node] != f->domain[f->gpus[gpus[i - 1]].node];
      s.n_domains += leaves;
      if ((leaves ? s.hops_inter : (guint) (s.intra_latency_s > 0)) > 0)
        continue;
      sc_fabric_route (f, gpus[i - 1], gpus[i], &route);
      if (leaves)
        s.hops_inter = 1;
      else
        s.intra_latency_s = route.latency_s;
    }
  if (n > 1 && s.n_domains > 1)
    {
      s.hops_inter = s.n_domains; /* of a ring, should one be faster than the tree */
      sc_fabric_route (f, gpus[0], gpus[n - 1], &route); /* the farthest pair */
      s.inter_latency_s = route.latency_s;
    }
  s.launch_s = f->topology->collective_launch_s.value;
  return s;
}

static int
compare_pairs (gconstpointer a, gconstpointer b)
{
  const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;
  return (x > y) - (x < y);
}

static int
compare_links (gconstpointer a, gconstpointer b)
{
  const guint32 x = *(const guint32 *) a, y = *(const guint32 *) b;
  return (x > y) - (x < y);
}

static void
sort_unique (GArray *pairs)
{
  if (pairs->len == 0)
    return;
  qsort (pairs->data, pairs->len, sizeof (guint64), compare_pairs);
  guint n = 1;
  for (guint i = 1; i < pairs->len; i++)
    if (g_array_index (pairs, guint64, i) != g_array_index (pairs, guint64, n - 1))
      g_array_index (pairs, guint64, n++) = g_array_index (pairs, guint64, i);
  g_array_set_size (pairs, n);
}

typedef struct
{
  guint32 link;
  guint   level;
} Ordered;

static int
compare_levels (gconstpointer a, gconstpointer b)
{
  const Ordered *const x = a, *const y = b;
  return x->level != y->level ? (x->level > y->level) - (x->level < y->level) : (x->link > y->link) - (x->link < y->link);
}

/* One pass of the elimination: @pairs are (link, one that feeds it), sorted; @order from sources on (or back). */
static void
imply_pass (const ScFabric *f, const GArray *pairs, const Ordered *order, guint n, gboolean reverse, guint8 *implied)
{
  g_autofree double *width = g_new (double, MAX (f->n_links, 1));
  for (guint32 l = 0; l < f->n_links; l++) /* a feeder that comes later in the order counts in full */
    width[l] = implied[l] ? INFINITY : f->links[l].capacity;
  g_autofree guint32 *first = g_new0 (guint32, f->n_links + 1);
  for (guint i = 0; i < pairs->len; i++)
    first[(g_array_index (pairs, guint64, i) >> 32) + 1]++;
  for (guint32 l = 0; l < f->n_links; l++)
    first[l + 1] += first[l];
  for (guint k = 0; k < n; k++)
    {
      const guint32 l = order[reverse ? n - 1 - k : k].link;
      const double capacity = implied[l] ? INFINITY : f->links[l].capacity;
      double fed = first[l] == first[l + 1] ? INFINITY : 0;
      for (guint32 i = first[l]; i < first[l + 1]; i++)
        fed += width[(guint32) g_array_index (pairs, guint64, i)];
      if (!implied[l] && !sc_link_is_end (&f->links[l]) && fed <= capacity * (1 + 1e-12))
        implied[l] = TRUE;
      width[l] = MIN (capacity, fed);
    }
}

/* Links at least as wide as all that feeds them, then as all that they feed; one at a time, so that no link is
 * dropped on the strength of itself (FOLDING S5 a, 9). */
static void
find_implied (const ScFabric *f, GArray *follows, guint8 *implied)
{
  sort_unique (follows);
  g_autoptr (GArray) feeders = g_array_sized_new (FALSE, FALSE, sizeof (guint64), follows->len); /* (link, before) */
  g_autofree guint8 *seen = g_new0 (guint8, MAX (f->n_links, 1));
  g_autoptr (GArray) order = g_array_new (FALSE, FALSE, sizeof (Ordered));
  for (guint i = 0; i < follows->len; i++)
    {
      const guint64 pair = g_array_index (follows, guint64, i);
      const guint64 turned = pair << 32 | pair >> 32;
      g_array_append_val (feeders, turned);
      for (guint side = 0; side < 2; side++)
        {
          const guint32 l = side == 0 ? (guint32) (pair >> 32) : (guint32) pair;
          if (seen[l])
            continue;
          seen[l] = TRUE;
          const Ordered o = { l, sc_link_level (&f->links[l]) };
          g_array_append_val (order, o);
        }
    }
  if (order->len == 0)
    return;
  qsort (feeders->data, feeders->len, sizeof (guint64), compare_pairs);
  qsort (order->data, order->len, sizeof (Ordered), compare_levels);
  const Ordered *const links = (const Ordered *) (gconstpointer) order->data;
  imply_pass (f, feeders, links, order->len, FALSE, implied);
  imply_pass (f, follows, links, order->len, TRUE, implied);
}

ScLoads *
sc_loads_new (const ScLayout *layout, const ScFabric *fabric)
{
  ScLoads *const ret = g_new0 (ScLoads, 1);
  ret->row = g_new0 (const ScCollective *, MAX (layout->n_comms, 1));
  ret->shapes = g_new0 (ScGroupShape, MAX (layout->n_comms, 1));
  ret->first = g_new0 (guint32, layout->n_comms + 1);
  ret->implied = g_new0 (guint8, MAX (fabric->n_links, 1));

  g_autofree guint32 *count = g_new0 (guint32, MAX (fabric->n_links, 1));
  g_autofree guint8 *inter = g_new0 (guint8, MAX (fabric->n_links, 1)), *intra = g_new0 (guint8, MAX (fabric->n_links, 1));
  g_autofree guint8 *used = g_new0 (guint8, MAX (fabric->n_links, 1));
  g_autoptr (GArray) touched = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GArray) follows = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GArray) loads = g_array_new (FALSE, FALSE, sizeof (ScLoad));
  Walk w = { .fabric = fabric, .count = count, .inter = inter, .intra = intra, .touched = touched, .follows = follows };

  guint room = 1000000; /* pairs before they are made unique */
  for (guint32 c = 0; c < layout->n_comms; c++)
    {
      const ScComm *const comm = &layout->comms[c];
      const guint32 *const gpus = layout->members + comm->first; /* rank r sits on GPU r */
      ret->first[c] = loads->len;
      if (comm->kind == SC_COMM_WORLD)
        {
          ret->shapes[c] = shape_of_scalars (fabric, gpus, comm->n);
          continue;
        }
      const gboolean send = comm->kind == SC_COMM_PP_FORWARD || comm->kind == SC_COMM_PP_BACKWARD;
      const ScCollective *const row = send ? &sc_collective_send : &sc_collective_ring;
      ret->row[c] = row;
      w.hops_inter = 0;
      w.inter_latency_s = w.intra_latency_s = 0;
      row->walk (fabric, gpus, comm->n, on_hop, &w);

      ScGroupShape s = { .n = comm->n, .n_channels = send ? 1 : sc_ring_channels (fabric, gpus, comm->n),
                         .hops_inter = w.hops_inter, .n_domains = MAX (w.hops_inter, 1),
                         .inter_bytes_per_s = INFINITY, .intra_bytes_per_s = INFINITY,
                         .inter_latency_s = w.inter_latency_s, .intra_latency_s = w.intra_latency_s,
                         .launch_s = fabric->topology->collective_launch_s.value };
      qsort (touched->data, touched->len, sizeof (guint32), compare_links);
      for (guint i = 0; i < touched->len; i++)
        {
          const guint32 l = g_array_index (touched, guint32, i);
          const ScLoad load = { l, count[l] };
          const double each = fabric->links[l].capacity / count[l];
          if (inter[l])
            s.inter_bytes_per_s = MIN (s.inter_bytes_per_s, each);
          if (intra[l])
            s.intra_bytes_per_s = MIN (s.intra_bytes_per_s, each);
          g_array_append_val (loads, load);
          ret->n_used += !used[l];
          used[l] = TRUE;
          count[l] = 0;
          inter[l] = intra[l] = FALSE;
        }
      g_array_set_size (touched, 0);
      ret->shapes[c] = s;
      if (follows->len > room) /* keeps memory in bounds, at the cost of a few sorts in all */
        {
          sort_unique (follows);
          room = MAX (room, 2 * follows->len);
        }
    }
  ret->first[layout->n_comms] = loads->len;
  find_implied (fabric, follows, ret->implied);
  ret->loads = (ScLoad *) (gpointer) g_array_free (g_steal_pointer (&loads), FALSE);
  return ret;
}

void
sc_loads_free (ScLoads *loads)
{
  if (loads == NULL)
    return;
  g_free (loads->row);
  g_free (loads->shapes);
  g_free (loads->first);
  g_free (loads->loads);
  g_free (loads->implied);
  g_free (loads);
}
