/* SPDX-License-Identifier: GPL-3.0-or-later */
/* loads.c - walks every group once over the real routes: which links, how many connections; and which links can never
 * bind (FOLDING S2, S5 a). */
#include <stdlib.h>
#include <string.h>
#include "models/experts.h"
#include "models/loads.h"
#include "models/nccl.h"
#include "models/sort.h"

#define RECENT_BITS 14
#define N_RECENT    (1u << RECENT_BITS)

/* Connections of one part; parts come in any order. */
typedef struct
{
  guint32 *count;   /* [n_links], or NULL: none yet */
  GArray  *touched; /* guint32: links whose count is not 0 */
} PartCount;

typedef struct
{
  const ScFabric *fabric;
  PartCount parts[SC_MAX_PARTS];
  guint8  *inter;    /* [n_links] touched by a hop that leaves its domain */
  guint8  *intra;
  guint8  *used;
  GArray  *follows;  /* guint64: link << 32 | the next link of some route */
  guint8  *kept;     /* [n_links] crossed by in-network reduction or multicast: never implied */
  GArray  *loads;    /* ScLoad */
  GArray  *part_first;
  guint    n_used;
  guint    room;     /* for follows, before they are made unique */
  guint    hops_inter;
  double   inter_latency_s, intra_latency_s;
  guint64 *recent;   /* [N_RECENT] pairs, each where its hash says: most come again soon */
  double   pair_bytes_per_s; /* least of the hops between sockets; 0: none */
} Walk;

static int
compare_links (gconstpointer a, gconstpointer b)
{
  const guint32 x = *(const guint32 *) a, y = *(const guint32 *) b;
  return (x > y) - (x < y);
}

/* Its counts become loads, links ascending. */
static void
end_part (Walk *w, guint part)
{
  PartCount *const p = &w->parts[part];
  if (p->count != NULL)
    {
      qsort (p->touched->data, p->touched->len, sizeof (guint32), compare_links);
      for (guint i = 0; i < p->touched->len; i++)
        {
          const guint32 l = g_array_index (p->touched, guint32, i);
          const ScLoad load = { l, p->count[l] };
          g_array_append_val (w->loads, load);
          w->n_used += !w->used[l];
          w->used[l] = TRUE;
          p->count[l] = 0;
        }
      g_array_set_size (p->touched, 0);
    }
  const guint32 end = w->loads->len;
  g_array_append_val (w->part_first, end);
}

static void
count_crossing (Walk *w, guint part, guint32 link)
{
  g_assert (part < SC_MAX_PARTS);
  PartCount *const p = &w->parts[part];
  if (p->count == NULL)
    {
      p->count = g_new0 (guint32, w->fabric->n_links);
      p->touched = g_array_new (FALSE, FALSE, sizeof (guint32));
    }
  if (p->count[link]++ == 0)
    g_array_append_val (p->touched, link);
}

static void
note_pair (Walk *w, guint32 link)
{
  const ScNodeType *const type = sc_topology_node_type (w->fabric->topology, w->fabric->links[link].owner);
  const double pair = type->pcie_socket_pair_bytes_per_s.value;
  if (pair > 0 && (w->pair_bytes_per_s <= 0 || pair < w->pair_bytes_per_s))
    w->pair_bytes_per_s = pair;
}

static void
sort_unique (GArray *pairs)
{
  if (pairs->len == 0)
    return;
  sc_sort_u64 ((guint64 *) (gpointer) pairs->data, pairs->len);
  guint n = 1;
  for (guint i = 1; i < pairs->len; i++)
    if (g_array_index (pairs, guint64, i) != g_array_index (pairs, guint64, n - 1))
      g_array_index (pairs, guint64, n++) = g_array_index (pairs, guint64, i);
  g_array_set_size (pairs, n);
}

/* Memory stays in bounds, at the cost of a few sorts in all. */
static void
add_follow (Walk *w, guint64 pair)
{
  guint64 *const recent = &w->recent[pair * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) >> (64 - RECENT_BITS)];
  if (*recent == pair)
    return;
  *recent = pair;
  g_array_append_val (w->follows, pair);
  if (w->follows->len < w->room)
    return;
  sort_unique (w->follows);
  w->room = MAX (w->room, 2 * w->follows->len);
}

static void
on_hop (gpointer data, guint part, guint channel, guint position G_GNUC_UNUSED, const ScRoute *route)
{
  Walk *const w = data;
  for (guint i = 0; i < route->n; i++)
    {
      const guint32 l = route->links[i];
      count_crossing (w, part, l);
      (route->crosses_nic ? w->inter : w->intra)[l] = TRUE;
      if (w->fabric->links[l].kind == SC_LINK_SOCKET && !route->crosses_nic)
        note_pair (w, l);
      if (route->in_network)
        w->kept[l] = TRUE;
      else if (i > 0 && w->fabric->links[route->links[i - 1]].kind != SC_LINK_NVLINK_OUT) /* which leads to no tier */
        {
          const guint64 pair = (guint64) route->links[i - 1] << 32 | l;
          add_follow (w, pair);
        }
    }
  if (route->crosses_nic)
    {
      w->inter_latency_s = MAX (w->inter_latency_s, route->latency_s);
      w->hops_inter += channel == 0 && w->fabric->flow == 0;
    }
  else
    w->intra_latency_s = MAX (w->intra_latency_s, route->latency_s);
}

/* Most members of one domain, which are neighbours in rank order. */
static guint
most_per_domain (const ScFabric *f, const guint32 *gpus, guint n)
{
  guint most = 0;
  for (guint i = 0, run = 0; i < n; i++)
    {
      run = i > 0 && f->domain[f->gpus[gpus[i]].node] == f->domain[f->gpus[gpus[i - 1]].node] ? run + 1 : 1;
      most = MAX (most, run);
    }
  return most;
}

/* A group that begins and ends in one domain has more runs in rank order than its ring has domains. */
static gboolean
is_ragged (const ScFabric *f, const guint32 *gpus, const ScGroupShape *s)
{
  g_auto (ScDomains) domains = sc_group_domains (f, gpus, s->n);
  return domains.n != s->n_domains || domains.least != s->per_domain;
}

/* Its first member's; switches reduce only what all members can send them. */
static ScLibrary
library_of (const ScFabric *f, const guint32 *gpus, guint n)
{
  ScLibrary library = sc_nccl_library (f, gpus[0]);
  for (guint i = 0; i < n && library.nvls; i++)
    library.nvls = f->nvlink_out[gpus[i]] != SC_NONE && sc_fabric_node_type (f, gpus[i])->nvls;
  return library;
}

/* Shape of a group that puts nothing on links: one hop of each kind is enough to know the latencies. */
static ScGroupShape
shape_of_scalars (const ScFabric *f, const guint32 *gpus, guint n)
{
  ScGroupShape s = { .n = n, .n_domains = 1, .flows = 1, .per_domain = most_per_domain (f, gpus, n), .n_channels = 1, .rails = 1, .inter_bytes_per_s = INFINITY, .intra_bytes_per_s = INFINITY };
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
imply_pass (const ScFabric *f, const GArray *pairs, const Ordered *order, guint n, gboolean reverse, const guint8 *kept,
            guint8 *implied)
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
      if (!implied[l] && !kept[l] && !sc_link_is_end (&f->links[l]) && fed <= capacity * (1 + 1e-12))
        implied[l] = TRUE;
      width[l] = MIN (capacity, fed);
    }
}

/* Links at least as wide as all that feeds them, then as all that they feed; one at a time, so that no link is
 * dropped on the strength of itself (FOLDING S5 a, 9). */
static void
find_implied (const ScFabric *f, GArray *follows, const guint8 *kept, guint8 *implied)
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
  sc_sort_u64 ((guint64 *) (gpointer) feeders->data, feeders->len);
  qsort (order->data, order->len, sizeof (Ordered), compare_levels);
  const Ordered *const links = (const Ordered *) (gconstpointer) order->data;
  imply_pass (f, feeders, links, order->len, FALSE, kept, implied);
  imply_pass (f, follows, links, order->len, TRUE, kept, implied);
}

static void
keep_widest (double seconds, guint32 link, double *most, guint32 *most_link)
{
  if (seconds > *most * (1 + 1e-12))
    {
      *most = seconds;
      *most_link = link;
    }
}

/* Seconds per byte of the buffer that the narrowest links need: a link carries the sum of all parts' connections.
 * @sum: [n_links] zeros, and so left behind. */
static void
find_bound (Walk *w, const ScGroupShape *shape, ScWalk *walk, double *sum)
{
  ScBound *const bound = &walk->bound;
  bound->intra_link = bound->inter_link = SC_NONE;
  for (guint pass = 0; pass < 2; pass++) /* add up, then read off and clear */
    for (guint32 p = 0; p < walk->n_parts; p++)
      {
        const double each = walk->row->connection_bytes (walk->kind, shape, p, 1) / shape->flows;
        const guint32 first = g_array_index (w->part_first, guint32, walk->first_part + p);
        const guint32 end = g_array_index (w->part_first, guint32, walk->first_part + p + 1);
        for (guint32 i = first; i < end; i++)
          {
            const ScLoad *const load = &g_array_index (w->loads, ScLoad, i);
            if (pass == 0)
              {
                sum[load->link] += each * load->count;
                continue;
              }
            const double s = sum[load->link] / w->fabric->links[load->link].capacity;
            if (w->intra[load->link])
              keep_widest (s, load->link, &bound->intra_s_per_byte, &bound->intra_link);
            if (w->inter[load->link])
              keep_widest (s, load->link, &bound->inter_s_per_byte, &bound->inter_link);
            sum[load->link] = 0;
          }
      }
}

/* What every link of the walk leaves to one connection. */
static void
find_rates (Walk *w, guint32 first_load, ScGroupShape *s)
{
  for (guint32 i = first_load; i < w->loads->len; i++)
    {
      const ScLoad *const load = &g_array_index (w->loads, ScLoad, i);
      const double each = w->fabric->links[load->link].capacity / load->count * s->flows;
      if (w->inter[load->link])
        s->inter_bytes_per_s = MIN (s->inter_bytes_per_s, each);
      if (w->intra[load->link])
        s->intra_bytes_per_s = MIN (s->intra_bytes_per_s, each);
    }
}

static void
forget_kinds (Walk *w, guint32 first_load)
{
  for (guint32 i = first_load; i < w->loads->len; i++)
    w->inter[g_array_index (w->loads, ScLoad, i).link] = w->intra[g_array_index (w->loads, ScLoad, i).link] = FALSE;
}

/* Walks @row over every flow of its connections, and closes its @n_parts parts. */
static void
walk_row (Walk *w, const ScCollective *row, const guint32 *gpus, guint n, ScCollKind kind, guint n_parts)
{
  ScFabric view = *w->fabric; /* the same arrays; routes are asked for one flow */
  const ScFabric *const fabric = w->fabric;
  w->fabric = &view;
  for (view.flow = 0; view.flow < fabric->flows; view.flow++)
    row->walk (&view, gpus, n, kind, on_hop, w);
  w->fabric = fabric;
  for (guint p = 0; p < SC_MAX_PARTS; p++)
    if (p < n_parts)
      end_part (w, p);
    else
      g_assert (w->parts[p].count == NULL || w->parts[p].touched->len == 0);
}

static void
add_walk (Walk *w, GArray *walks, const ScGroupShape *shape, const ScCollective *row, ScCollKind kind, const guint32 *gpus,
          double *sum)
{
  ScWalk walk = { .row = row, .kind = kind, .first_part = w->part_first->len - 1, .n_parts = sc_collective_n_parts (row, kind, shape) };
  const guint32 first_load = w->loads->len;
  walk_row (w, row, gpus, shape->n, kind, walk.n_parts);
  find_bound (w, shape, &walk, sum);
  forget_kinds (w, first_load);
  g_array_append_val (walks, walk);
}

ScLoads *
sc_loads_new (const ScLayout *layout, const ScFabric *fabric, const ScNeed *needs, guint n_needs)
{
  ScLoads *const ret = g_new0 (ScLoads, 1);
  ret->shapes = g_new0 (ScGroupShape, MAX (layout->n_comms, 1));
  ret->walk_first = g_new0 (guint32, layout->n_comms + 1);
  ret->implied = g_new0 (guint8, MAX (fabric->n_links, 1));

  const gsize n_links = MAX (fabric->n_links, 1);
  g_autofree guint8 *flags = g_new0 (guint8, 4 * n_links);
  g_autofree double *sum = g_new0 (double, n_links);
  g_autoptr (GArray) follows = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GArray) loads = g_array_new (FALSE, FALSE, sizeof (ScLoad));
  g_autoptr (GArray) part_first = g_array_new (FALSE, TRUE, sizeof (guint32));
  g_autoptr (GArray) walks = g_array_new (FALSE, FALSE, sizeof (ScWalk));
  g_array_set_size (part_first, 1);
  g_autofree guint64 *recent = g_new0 (guint64, N_RECENT); /* no link follows itself: 0 is no pair */
  Walk w = { .fabric = fabric, .inter = flags, .intra = flags + n_links, .used = flags + 2 * n_links, .kept = flags + 3 * n_links,
             .follows = follows, .loads = loads, .part_first = part_first, .recent = recent, .room = 1000000 };

  guint at = 0;         /* in needs */
  for (guint32 c = 0; c < layout->n_comms; c++)
    {
      const ScComm *const comm = &layout->comms[c];
      const guint32 *const gpus = layout->members + comm->first; /* rank r sits on GPU r */
      ret->walk_first[c] = walks->len;
      ScGroupShape *const s = &ret->shapes[c];
      if (comm->kind == SC_COMM_WORLD)
        {
          *s = shape_of_scalars (fabric, gpus, comm->n);
          s->library = library_of (fabric, gpus, comm->n);
          continue;
        }
      const gboolean send = comm->kind == SC_COMM_PP_FORWARD || comm->kind == SC_COMM_PP_BACKWARD;
      const ScCollective *const row = send ? &sc_collective_send : &sc_collective_ring;
      ScWalk walk = { .row = row, .kind = send ? SC_COLL_SEND : SC_COLL_ALL_REDUCE, .first_part = part_first->len - 1, .n_parts = 1 };
      w.hops_inter = 0;
      w.inter_latency_s = w.intra_latency_s = w.pair_bytes_per_s = 0;
      const guint32 first_load = loads->len;
      walk_row (&w, row, gpus, comm->n, walk.kind, 1);
      *s = (ScGroupShape) { .n = comm->n, .n_channels = send ? 1 : sc_ring_channels (fabric, gpus, comm->n),
                            .rails = send ? 1 : sc_ring_rails (fabric, gpus, comm->n), .hops_inter = w.hops_inter,
                            .flows = fabric->flows, .n_domains = send ? 1 + w.hops_inter : MAX (w.hops_inter, 1),
                            .per_domain = most_per_domain (fabric, gpus, comm->n),
                            .inter_bytes_per_s = INFINITY, .intra_bytes_per_s = INFINITY,
                            .inter_latency_s = w.inter_latency_s, .intra_latency_s = w.intra_latency_s, .pair_bytes_per_s = w.pair_bytes_per_s,
                            .launch_s = fabric->topology->collective_launch_s.value, .library = library_of (fabric, gpus, comm->n) };
      s->ragged = is_ragged (fabric, gpus, s);
      if (comm->kind == SC_COMM_EP && layout->workload != NULL)
        {
          s->node_share = sc_experts_node_share (&layout->workload->model, &layout->workload->plan, s->n_domains);
          s->rank_share = sc_experts_rank_share (&layout->workload->model, &layout->workload->plan, s->n);
        }
      find_rates (&w, first_load, s);
      find_bound (&w, s, &walk, sum);
      forget_kinds (&w, first_load);
      g_array_append_val (walks, walk);
      for (; at < n_needs && needs[at].comm <= c; at++)
        if (needs[at].comm == c)
          add_walk (&w, walks, s, sc_collective_all ()[needs[at].row], (ScCollKind) needs[at].kind, gpus, sum);
    }
  ret->walk_first[layout->n_comms] = walks->len;
  for (guint p = 0; p < SC_MAX_PARTS; p++)
    {
      g_free (w.parts[p].count);
      g_clear_pointer (&w.parts[p].touched, g_array_unref);
    }
  ret->n_parts = part_first->len - 1;
  ret->n_used = w.n_used;
  find_implied (fabric, follows, w.kept, ret->implied);
  ret->loads = (ScLoad *) (gpointer) g_array_free (g_steal_pointer (&loads), FALSE);
  ret->part_first = (guint32 *) (gpointer) g_array_free (g_steal_pointer (&part_first), FALSE);
  ret->walks = (ScWalk *) (gpointer) g_array_free (g_steal_pointer (&walks), FALSE);
  return ret;
}

void
sc_loads_free (ScLoads *loads)
{
  if (loads == NULL)
    return;
  g_free (loads->shapes);
  g_free (loads->walk_first);
  g_free (loads->walks);
  g_free (loads->part_first);
  g_free (loads->loads);
  g_free (loads->implied);
  g_free (loads);
}

const ScWalk *
sc_loads_walk (const ScLoads *loads, guint32 comm, const ScCollective *row, ScCollKind kind)
{
  for (guint32 i = loads->walk_first[comm]; i < loads->walk_first[comm + 1]; i++)
    if (loads->walks[i].row == row && (i == loads->walk_first[comm] || loads->walks[i].kind == kind))
      return &loads->walks[i];
  return NULL;
}

static int
compare_needs (gconstpointer a, gconstpointer b)
{
  const ScNeed *const x = a, *const y = b;
  if (x->comm != y->comm)
    return x->comm < y->comm ? -1 : 1;
  if (x->row != y->row)
    return x->row < y->row ? -1 : 1;
  return (x->kind > y->kind) - (x->kind < y->kind);
}

void
sc_needs_sort (GArray *needs)
{
  if (needs->len == 0)
    return;
  g_array_sort (needs, compare_needs);
  guint n = 1;
  for (guint i = 1; i < needs->len; i++)
    if (compare_needs (&g_array_index (needs, ScNeed, i), &g_array_index (needs, ScNeed, n - 1)) != 0)
      g_array_index (needs, ScNeed, n++) = g_array_index (needs, ScNeed, i);
  g_array_set_size (needs, n);
}
