/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective.c - the table of algorithms, the choice among them, and what rings share. */
#include "models/mesh.h"
#include "models/nccl.h"
#include <string.h>

static const ScCollective *const rows[] = { &sc_collective_ring, &sc_collective_chain, &sc_collective_scalar,
                                            &sc_collective_send, &sc_collective_tree, &sc_collective_nvls,
                                            &sc_collective_nvls_tree, &sc_collective_collnet, &sc_collective_pat,
                                            &sc_collective_halving_doubling, &sc_collective_direct, &sc_collective_all_to_all,
                                            &sc_collective_pxn, &sc_collective_deepep, &sc_collective_hierarchical, &sc_collective_send_receive, NULL };

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

guint
sc_collective_index (const ScCollective *row)
{
  guint i = 0;
  while (rows[i] != row)
    i++;
  return i;
}

static const char *const kind_names[] = { "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all",
                                          "send-receive", "send" };
G_STATIC_ASSERT (G_N_ELEMENTS (kind_names) == SC_N_COLLS);

const char *
sc_coll_kind_name (ScCollKind kind)
{
  return kind_names[kind];
}

/* Letters only, in lower case, without a benchmark's "_perf". */
static char *
bare_name (const char *name)
{
  g_autoptr (GString) s = g_string_new (NULL);
  for (const char *p = name; *p != '\0'; p++)
    if (g_ascii_isalpha (*p))
      g_string_append_c (s, g_ascii_tolower (*p));
  if (g_str_has_suffix (s->str, "perf"))
    g_string_truncate (s, s->len - 4);
  return g_strdup (s->str);
}

gboolean
sc_coll_kind_find (const char *name, ScCollKind *ret)
{
  g_autofree char *want = bare_name (name);
  for (guint k = 0; k < SC_N_COLLS; k++)
    {
      g_autofree char *have = bare_name (kind_names[k]);
      if (strcmp (have, want) == 0 || (k == SC_COLL_SEND_RECEIVE && strcmp (want, "sendrecv") == 0))
        {
          *ret = (ScCollKind) k;
          return TRUE;
        }
    }
  return FALSE;
}

double
sc_coll_bus_factor (ScCollKind kind, guint n)
{
  switch (kind)
    {
    case SC_COLL_ALL_REDUCE:
      return 2.0 * (n - 1) / n;
    case SC_COLL_REDUCE_SCATTER:
    case SC_COLL_ALL_GATHER:
    case SC_COLL_ALL_TO_ALL:
      return (n - 1.0) / n;
    case SC_COLL_BROADCAST:
    case SC_COLL_REDUCE:
    case SC_COLL_SEND_RECEIVE:
    case SC_COLL_SEND:
    case SC_N_COLLS:
    default:
      return 1;
    }
}

static const char *const protocol_names[] = { "LL", "LL128", "Simple" };
G_STATIC_ASSERT (G_N_ELEMENTS (protocol_names) == SC_N_PROTOS);

const char *
sc_protocol_name (ScProtocol protocol)
{
  return protocol_names[protocol];
}

gboolean
sc_protocol_find (const char *name, ScProtocol *ret)
{
  for (guint p = 0; p < SC_N_PROTOS; p++)
    if (g_ascii_strcasecmp (name, protocol_names[p]) == 0)
      {
        *ret = (ScProtocol) p;
        return TRUE;
      }
  return FALSE;
}

double
sc_protocol_wire (ScProtocol protocol)
{
  return protocol == SC_PROTO_LL ? 2 : protocol == SC_PROTO_LL128 ? 128.0 / 120 : 1;
}

/* ---- which row, how fast ---- */

gboolean
sc_collective_possible (const ScCollective *row, ScCollKind kind, const ScGroupShape *shape, double bytes, const char **ret_why)
{
  const char *why = NULL;
  if ((row->kinds & 1u << kind) == 0)
    why = "it is no algorithm for this collective";
  else if (bytes > row->max_bytes)
    why = "the message is larger than it can take";
  else if (shape->n < row->min_ranks)
    why = "the group has too few ranks";
  else if (row->possible == NULL || row->possible (kind, shape, &why))
    return TRUE;
  if (ret_why != NULL)
    *ret_why = why;
  return FALSE;
}

gboolean
sc_collective_choose (ScCollKind kind, const ScGroupShape *shape, double bytes, const ScCollective *row, ScProtocol protocol,
                      ScCollChoice *ret, const char **ret_why)
{
  if (row != NULL && !sc_collective_possible (row, kind, shape, bytes, ret_why))
    return FALSE;
  if (shape->library.version != NULL && sc_nccl_choose (kind, shape, bytes, row, protocol, ret, ret_why))
    return TRUE;
  if (shape->library.version != NULL && ret_why != NULL && *ret_why != NULL)
    return FALSE;
  ScCollChoice best = { .alone_s = INFINITY, .protocol = protocol < SC_N_PROTOS ? protocol : SC_PROTO_SIMPLE };
  for (guint i = 0; rows[i] != NULL; i++)
    {
      if (row != NULL ? rows[i] != row : rows[i]->on_request || !sc_collective_possible (rows[i], kind, shape, bytes, NULL))
        continue;
      const double s = rows[i]->alone_s (kind, shape, bytes);
      if (s < best.alone_s)
        {
          best.row = rows[i];
          best.alone_s = s;
        }
    }
  if (best.row == NULL)
    {
      if (ret_why != NULL)
        *ret_why = "no algorithm does this collective";
      return FALSE;
    }
  *ret = best;
  return TRUE;
}

void
sc_collective_time (ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, const ScBound *bound)
{
  if (shape->library.version != NULL && !choice->row->own_kernels)
    {
      sc_nccl_time (choice, kind, shape, bytes, bound);
      return;
    }
  choice->alone_s = choice->row->alone_s (kind, shape, bytes);
  double intra, inter;
  choice->row->path (kind, shape, &intra, &inter);
  choice->latency_s = MIN (choice->alone_s, shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s);
  /* The closed form knows a ring's links; where the row's own need more, they win, and what is sent at once they pace alone. */
  const double wire = sc_protocol_wire (choice->protocol) * bytes * MAX (bound->intra_s_per_byte, bound->inter_s_per_byte);
  if (choice->row->at_once && wire > 0)
    choice->alone_s = choice->latency_s + wire;
  else
    choice->alone_s = MAX (choice->alone_s, shape->launch_s + wire);
}

void
sc_collective_form (const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, ScCallForm *ret)
{
  const ScCollective *const row = choice->row;
  ret->n_parts = bytes > 0 ? sc_collective_n_parts (row, kind, shape) : 0;
  g_assert (ret->n_parts <= SC_MAX_PARTS);
  ret->delay_s = ret->n_parts == 0 ? choice->alone_s : 0;
  const double wire = sc_protocol_wire (choice->protocol);
  for (guint p = 0; p < ret->n_parts; p++)
    {
      const double share = row->part_share != NULL ? row->part_share (kind, shape, p) : 1;
      ret->parts[p].bytes = wire * row->connection_bytes (kind, shape, p, bytes) / MAX (shape->flows, 1);
      ret->parts[p].cap = ret->parts[p].bytes / choice->alone_s / share;
      if (row->at_once) /* the latency first, then the bytes */
        {
          ret->delay_s = choice->latency_s;
          ret->parts[p].cap = shape->library.version != NULL && choice->alone_s > choice->latency_s
                                ? ret->parts[p].bytes / (choice->alone_s - choice->latency_s) / share : INFINITY;
        }
    }
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

gboolean
sc_rails_possible (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, const char **ret_why)
{
  if (shape->n_domains < 2)
    *ret_why = "the group does not use the network";
  else if (shape->per_domain < 2)
    *ret_why = "a node has one of its ranks only";
  else if (!sc_shape_is_even (shape))
    *ret_why = "the nodes hold different numbers of its ranks";
  else
    return TRUE;
  return FALSE;
}

ScDomains
sc_group_domains (const ScFabric *f, const guint32 *gpus, guint n)
{
  g_autoptr (GArray) first = g_array_new (FALSE, FALSE, sizeof (guint));
  guint least = n;
  for (guint i = 0; i < n;)
    {
      const guint end = domain_end (f, gpus, n, i);
      g_array_append_val (first, i);
      least = MIN (least, end - i);
      i = end;
    }
  g_array_append_val (first, n);
  const guint count = first->len - 1;
  return (ScDomains) { count, (guint *) (gpointer) g_array_free (g_steal_pointer (&first), FALSE), least };
}

void
sc_group_domains_clear (ScDomains *domains)
{
  g_clear_pointer (&domains->first, g_free);
}

/* In the first tree the lowest set bit of a node says its level, and the node two levels' bits up is its parent. */
static guint32
first_tree_parent (guint n, guint node)
{
  if (node == 0)
    return SC_NONE;
  const guint bit = node & -node;
  const guint up = (node ^ bit) | bit << 1;
  return up >= n ? node ^ bit : up;
}

guint32
sc_tree_parent (guint n, guint node, guint tree)
{
  if (tree == 0)
    return first_tree_parent (n, node);
  if (n % 2 == 0) /* mirrored */
    {
      const guint32 parent = first_tree_parent (n, n - 1 - node);
      return parent == SC_NONE ? SC_NONE : n - 1 - parent;
    }
  const guint32 parent = first_tree_parent (n, (node + n - 1) % n); /* shifted by one */
  return parent == SC_NONE ? SC_NONE : (parent + 1) % n;
}

/* ---- rings inside a mesh ---- */

#define MESH_MAX_RINGS 32 /* channels of NCCL */
#define MAX_CHANNELS 64  /* the same, most */
#define MESH_MAX_STEPS 100000

/* Lengthens the path that ends in @path[from] to the front, over members not @seen yet. */
static gboolean
seek_path (const guint8 *lanes, guint k, guint32 *path, guint from, guint seen, guint *steps)
{
  if (from == 0)
    return TRUE;
  for (guint i = 1; i < k; i++)
    {
      const guint before = (path[from] + k - i) % k; /* rank order, where the links allow it */
      if ((seen & 1u << before) != 0 || lanes[before * k + path[from]] == 0 || *steps == 0)
        continue;
      --*steps;
      path[from - 1] = before;
      if (seek_path (lanes, k, path, from - 1, seen | 1u << before, steps))
        return TRUE;
    }
  return FALSE;
}

/* Orders of members [first, first + k), which sit in one mesh: rings, or for @exit < k one path over links that ends
 * there.  GArray of guint32, k for each; empty: there are none, or this is no mesh.  Borrowed. */
static const GArray *
mesh_orders (const ScFabric *f, const guint32 *gpus, guint first, guint k, guint exit)
{
  if (k < 2 || k > SC_MESH_MAX_MEMBERS || !sc_fabric_is_mesh (f, gpus[first]))
    return NULL;
  guint8 lanes[SC_MESH_MAX_MEMBERS * SC_MESH_MAX_MEMBERS + 1];
  for (guint i = 0; i < k; i++)
    for (guint j = 0; j < k; j++)
      lanes[i * k + j] = (guint8) sc_fabric_lanes (f, gpus[first + i], gpus[first + j]);
  lanes[k * k] = (guint8) exit;
  g_autoptr (GBytes) key = g_bytes_new (lanes, k * k + 1);
  GArray *orders = g_hash_table_lookup (f->mesh_rings, key);
  if (orders != NULL)
    return orders;
  guint32 found[MESH_MAX_RINGS * SC_MESH_MAX_MEMBERS];
  guint n = 0, steps = MESH_MAX_STEPS;
  found[k - 1] = exit;
  if (exit == k)
    n = sc_mesh_rings (lanes, k, MESH_MAX_RINGS, found);
  else if (seek_path (lanes, k, found, k - 1, 1u << exit, &steps))
    n = 1;
  orders = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_vals (orders, found, n * k);
  g_hash_table_insert (f->mesh_rings, g_bytes_ref (key), orders);
  return orders;
}

static guint
n_orders (const GArray *orders, guint k)
{
  return orders == NULL ? 0 : orders->len / k;
}

/* NICs of every domain that members use, at least: channels across domains have one each. */
static guint
n_rails (const ScFabric *f, const guint32 *gpus, guint n)
{
  guint rails = G_MAXUINT;
  for (guint i = 0; i < n;)
    {
      const guint end = domain_end (f, gpus, n, i);
      guint here = 0;
      while (here < rails && member_of_channel (f, gpus, i, end, here) < end)
        here++;
      rails = MIN (rails, here);
      i = end;
    }
  return MAX (rails, 1);
}

/* The NIC of each domain that @channel takes: meshes have more channels than NICs. */
static guint
rail_of (const ScFabric *f, const guint32 *gpus, guint n, guint channel)
{
  return sc_fabric_is_mesh (f, gpus[0]) ? channel % n_rails (f, gpus, n) : channel;
}

guint
sc_ring_rails (const ScFabric *f, const guint32 *gpus, guint n)
{
  return domain_end (f, gpus, n, 0) == n ? 1 : n_rails (f, gpus, n);
}

static guint
greatest_divisor (guint a, guint b)
{
  return b == 0 ? a : greatest_divisor (b, a % b);
}

guint
sc_ring_channels (const ScFabric *f, const guint32 *gpus, guint n)
{
  const guint k = domain_end (f, gpus, n, 0), rings = n_orders (mesh_orders (f, gpus, 0, k, k), k);
  if (k == n)
    return MAX (rings, 1);
  const guint rails = n_rails (f, gpus, n);
  if (rings == 0)
    return rails;
  /* every NIC with every ring of the mesh, so that its links are loaded alike */
  const guint all = rails / greatest_divisor (rails, rings) * rings;
  return all <= MAX_CHANNELS ? all : rails;
}

void
sc_ring_order (const ScFabric *f, const guint32 *gpus, guint n, guint channel, guint32 *ret_order)
{
  const guint rail = rail_of (f, gpus, n, channel);
  guint at = 0;
  for (guint i = 0; i < n;)
    {
      const guint end = domain_end (f, gpus, n, i), k = end - i;
      const gboolean all = k == n;
      guint exit = all ? end - 1 : member_of_channel (f, gpus, i, end, rail);
      if (exit == end)
        exit = end - 1;
      /* a mesh: channels follow different rings over its links, each opened behind its exit; else some path to the exit */
      const GArray *orders = mesh_orders (f, gpus, i, k, k);
      const gboolean rings = n_orders (orders, k) > 0;
      if (!rings && !all)
        orders = mesh_orders (f, gpus, i, k, exit - i);
      const guint n_found = n_orders (orders, k), which = n_found == 0 ? 0 : channel % n_found;
      guint start = 0;
      while (rings && !all && g_array_index (orders, guint32, which * k + (start + k - 1) % k) != exit - i)
        start++;
      for (guint j = 0; j < k; j++) /* the exit comes last */
        ret_order[at++] = i + (n_found > 0 ? g_array_index (orders, guint32, which * k + (start + j) % k) : (exit + 1 - i + j) % k);
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
  guint entry = member_of_channel (f, gpus, first, end, rail_of (f, gpus, n, channel));
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
          hop (data, 0, c, i, &route);
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

double
sc_rank_inter_bytes_per_s (const ScGroupShape *shape)
{
  return shape->n_channels * shape->inter_bytes_per_s / shape->per_domain;
}

double
sc_rank_intra_bytes_per_s (const ScGroupShape *shape)
{
  return shape->n_channels * shape->intra_bytes_per_s;
}

double
sc_pair_intra_bytes_per_s (const ScGroupShape *shape)
{
  return shape->n_domains <= 1 ? shape->intra_bytes_per_s : sc_rank_intra_bytes_per_s (shape);
}

double
sc_ring_bytes_per_s (const ScGroupShape *s)
{
  return s->n_channels * MIN (s->inter_bytes_per_s, s->intra_bytes_per_s);
}
