/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_collective.c - every row's closed form against its simulation as a load and as single messages. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/comm.h"
#include "pace.h"
#include "sim/engine.h"

/* ---- groups ---- */

/* A group of `per_node` GPUs, `stride` apart, on each of the first `group_nodes` nodes. */
typedef struct
{
  const char *name;
  FixFabric fabric;
  guint  group_nodes, per_node, stride;
  guint  nics;                  /* 0: one a GPU */
  double nic_bytes_per_s;       /* 0: 50 GB/s */
  double pcie_bytes_per_s;      /* 0: none; else instead of NVLink */
  guint  pcie_gpus_per_switch;
  guint  domain_nodes;          /* 0: 1 */
  const char *lanes;            /* of a mesh: fix_join() */
  guint  channels;              /* what must come out */
  gboolean uniform;             /* all hops alike */
} Shape;

static const Shape shapes[] = {
  { "a node of 8", { .nodes = 1 }, 1, 8, 1, .channels = 1, .uniform = TRUE },
  { "half a node", { .nodes = 1 }, 1, 4, 1, .channels = 1, .uniform = TRUE },
  { "a pair of a node", { .nodes = 1 }, 1, 2, 1, .channels = 1, .uniform = TRUE },
  { "one rail of 8 nodes", { .nodes = 8, .leaf = 8 }, 8, 1, 1, .channels = 1, .uniform = TRUE },
  { "one rail of 6 nodes over 2 leaves of 4, over 4", { .nodes = 8, .leaf = 4, .over = 4 }, 6, 1, 1, .channels = 1 },
  { "two nodes of 8", { .nodes = 2 }, 2, 8, 1, .channels = 8 },
  { "four nodes of 8 in leaves of 3", { .nodes = 4, .leaf = 3, .over = 2 }, 4, 8, 1, .channels = 8 },
  { "the same, classic leaves", { .nodes = 4, .leaf = 3, .over = 2, .classic = TRUE }, 4, 8, 1, .channels = 8 },
  { "half of each of 4 nodes", { .nodes = 4, .leaf = 2 }, 4, 4, 1, .channels = 4 },
  { "every second GPU of 4 nodes", { .nodes = 4, .leaf = 2 }, 4, 4, 2, .channels = 4 },
  { "8 nodes of one GPU each", { .nodes = 8, .gpus = 1 }, 8, 1, 1, .channels = 1, .uniform = TRUE },
  { "three tiers", { .nodes = 8, .leaf = 2, .over = 2, .pod = 2, .pod_over = 2 }, 8, 8, 1, .channels = 8 },
  { "PCIe, all behind the host", { .nodes = 1 }, 1, 8, 1, .nics = 1, .nic_bytes_per_s = 3e9, .pcie_bytes_per_s = 12e9,
    .channels = 1, .uniform = TRUE },
  { "PCIe switches of 4", { .nodes = 1 }, 1, 8, 1, .nics = 1, .nic_bytes_per_s = 3e9, .pcie_bytes_per_s = 12e9,
    .pcie_gpus_per_switch = 4, .channels = 1, .uniform = TRUE },
  { "PCIe boxes on one slow NIC each", { .nodes = 4 }, 4, 8, 1, .nics = 1, .nic_bytes_per_s = 3e9,
    .pcie_bytes_per_s = 12e9, .pcie_gpus_per_switch = 4, .channels = 1 },
  { "4 NICs for 8 GPUs", { .nodes = 2 }, 2, 8, 1, .nics = 4, .nic_bytes_per_s = 25e9, .channels = 4 },
  { "4 NICs for 8 GPUs, one rail", { .nodes = 4 }, 4, 1, 1, .nics = 4, .nic_bytes_per_s = 25e9, .channels = 1,
    .uniform = TRUE },
  { "an NVLink domain of two nodes", { .nodes = 2, .gpus = 4 }, 2, 4, 1, .domain_nodes = 2, .channels = 1,
    .uniform = TRUE },
  { "two such domains", { .nodes = 4, .gpus = 4 }, 4, 4, 1, .domain_nodes = 2, .channels = 8 },
  { "a cube mesh", { .nodes = 1 }, 1, 8, 1, .lanes = FIX_CUBE_MESH, .channels = 6 },
  { "half a cube mesh", { .nodes = 1 }, 1, 4, 1, .lanes = FIX_CUBE_MESH, .channels = 4 },
  { "three cube meshes", { .nodes = 3, .leaf = 2 }, 3, 8, 1, .nics = 4, .lanes = FIX_CUBE_MESH, .channels = 12 },
};

static const FixFabric latencies = { .launch_s = 4e-6, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 };

/* One group and nothing else, from topology to fold. */
typedef struct
{
  ScTopology *topology;
  ScFabric *fabric;
  ScLayout *layout;
  ScLoads  *loads;
  ScFold   *fold;
  guint32  *gpus;
  guint     n;
  const ScGroupShape *shape;
} Group;

static ScLayout *
layout_of_one_group (guint n_ranks, ScCommKind kind, const guint32 *gpus, guint n)
{
  ScLayout *const l = g_new0 (ScLayout, 1);
  l->n_ranks = n_ranks;
  l->n_comms = 1;
  l->comms = g_new (ScComm, 1);
  l->comms[0] = (ScComm) { .kind = kind, .n = n };
  l->n_members = n;
  l->members = g_memdup2 (gpus, n * sizeof *gpus);
  l->rank_first = g_new0 (guint32, n_ranks + 1);
  l->of_rank = g_new0 (guint32, n);
  for (guint i = 0; i < n; i++)
    l->rank_first[gpus[i] + 1] = 1;
  for (guint r = 0; r < n_ranks; r++)
    l->rank_first[r + 1] += l->rank_first[r];
  return l;
}

/* Rows that the group can run; those that need switches between GPUs only where there are some. */
static gboolean
can_run (const Shape *s, const ScCollective *row, ScCollKind kind, const ScGroupShape *shape)
{
  const gboolean switched = s->pcie_bytes_per_s == 0 && s->lanes == NULL;
  return sc_collective_possible (row, kind, shape, 1, NULL)
         && (switched || (row != &sc_collective_nvls && row != &sc_collective_nvls_tree));
}

static Group *
group_new (const Shape *s, ScCommKind kind, gboolean with_latencies)
{
  Group *const g = g_new0 (Group, 1);
  FixFabric f = s->fabric;
  if (with_latencies)
    {
      f.launch_s = latencies.launch_s;
      f.nvlink_latency_s = latencies.nvlink_latency_s;
      f.nic_latency_s = latencies.nic_latency_s;
    }
  g->topology = fix_topology (f);
  ScNodeType *const type = &g->topology->types[0];
  if (s->nics > 0)
    type->nics = s->nics;
  if (s->nic_bytes_per_s > 0)
    type->nic_bytes_per_s.value = s->nic_bytes_per_s;
  if (s->domain_nodes > 0)
    type->nvlink_domain_nodes = s->domain_nodes;
  if (s->lanes != NULL)
    {
      fix_join (g->topology, s->lanes);
      type->nvlink_bytes_per_s.value = 22e9; /* one link */
    }
  if (s->pcie_bytes_per_s > 0)
    {
      type->has_nvlink = FALSE;
      type->pcie_bytes_per_s.value = s->pcie_bytes_per_s;
      type->pcie_gpus_per_switch = s->pcie_gpus_per_switch;
      type->pcie_latency_s.value = f.nvlink_latency_s;
    }
  g->fabric = sc_fabric_new (g->topology, g->topology->n_gpus, NULL);
  ck_assert_ptr_nonnull (g->fabric);
  g->gpus = g_new (guint32, s->group_nodes * s->per_node);
  for (guint node = 0; node < s->group_nodes; node++)
    for (guint i = 0; i < s->per_node; i++)
      g->gpus[g->n++] = node * type->gpus + i * s->stride;
  if (kind == SC_COMM_PP_FORWARD) /* a send goes from the first to the last */
    {
      g->gpus[1] = g->gpus[g->n - 1];
      g->n = 2;
    }
  g->layout = layout_of_one_group (g->topology->n_gpus, kind, g->gpus, g->n);
  /* Walked by every row that can run here, so that each has its bound and its place in the fold. */
  g_autoptr (ScLoads) plain = sc_loads_new (g->layout, g->fabric, NULL, 0);
  g_autoptr (GArray) needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    for (guint k = 0; k < SC_N_COLLS; k++)
      {
        const ScNeed need = { 0, sc_collective_index (*row), k };
        if ((*row)->walk != NULL && (k == SC_COLL_SEND) == (kind == SC_COMM_PP_FORWARD) && *row != plain->walks[0].row
            && can_run (s, *row, (ScCollKind) k, &plain->shapes[0]))
          g_array_append_val (needs, need);
      }
  sc_needs_sort (needs);
  g->loads = sc_loads_new (g->layout, g->fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
  g->shape = &g->loads->shapes[0];
  g_autofree guint32 *colour = g_new0 (guint32, g->topology->n_gpus);
  g->fold = sc_fold_new (g->layout, g->fabric, g->loads, colour, 0, FALSE);
  return g;
}

static void
group_free (Group *g)
{
  sc_fold_free (g->fold);
  sc_loads_free (g->loads);
  sc_layout_free (g->layout);
  sc_fabric_free (g->fabric);
  sc_topology_free (g->topology);
  g_free (g->gpus);
  g_free (g);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Group, group_free)

/* ---- three ways to simulate a call ---- */

static ScProgram *
program_new (guint n_members)
{
  ScProgram *const p = sc_program_new ();
  sc_program_add_group (p, n_members);
  return p;
}

static void
add_members (ScProgram *p, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      sc_program_add_actor (p, 1, FALSE);
      sc_program_call (p, 0, 0);
    }
}

static ScTrace *
run (ScProgram *p)
{
  ScTrace *const t = sc_engine_run (p, NULL);
  ck_assert_ptr_nonnull (t);
  return t;
}

/* How the call runs alone, and as what it enters the simulation. */
static ScCallForm
form_of (const Group *g, const ScCollective *row, ScCollKind kind, double bytes, double *ret_alone_s)
{
  ScCollChoice choice;
  ck_assert (sc_collective_choose (kind, g->shape, bytes, row, SC_N_PROTOS, &choice, NULL));
  const ScWalk *const walk = row->walk != NULL ? sc_loads_walk (g->loads, 0, row, kind) : NULL;
  const ScBound bound = walk != NULL ? sc_walk_bound (walk, kind, g->shape) : (ScBound) { 0, 0, SC_NONE, SC_NONE };
  sc_collective_time (&choice, kind, g->shape, bytes, &bound);
  ScCallForm form;
  sc_collective_form (&choice, kind, g->shape, bytes, &form);
  if (ret_alone_s != NULL)
    *ret_alone_s = choice.alone_s;
  return form;
}

static double
alone_s (const Group *g, const ScCollective *row, ScCollKind kind, double bytes)
{
  double ret;
  form_of (g, row, kind, bytes, &ret);
  return ret;
}

/* As a load on all links of the fabric, each as wide as it is. */
static ScTrace *
simulate_load (const Group *g, const ScCollective *row, ScCollKind kind, double bytes)
{
  const ScCallForm form = form_of (g, row, kind, bytes, NULL);
  const ScWalk *const walk = row->walk != NULL ? sc_loads_walk (g->loads, 0, row, kind) : NULL;
  g_autoptr (ScProgram) p = program_new (g->n);
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (ScUse));
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    sc_program_add_link (p, g->fabric->links[l].capacity);
  sc_program_add_call (p, 0, 0, sc_time_from_s (form.delay_s), 0, 0);
  for (guint part = 0; part < form.n_parts; part++)
    {
      const guint32 *const first = &g->loads->part_first[walk->first_part + part];
      g_array_set_size (uses, 0);
      for (guint32 i = first[0]; i < first[1]; i++)
        {
          const ScUse use = { g->loads->loads[i].count, g->loads->loads[i].link };
          g_array_append_val (uses, use);
        }
      sc_program_add_part (p, form.parts[part].bytes, form.parts[part].cap, (const ScUse *) (gconstpointer) uses->data, uses->len);
    }
  add_members (p, g->n);
  return run (p);
}

/* As the folded family that lowering makes of it. */
static ScTime
simulate_folded (const Group *g, const ScCollective *row, ScCollKind kind, double bytes)
{
  const ScCallForm form = form_of (g, row, kind, bytes, NULL);
  const ScWalk *const walk = row->walk != NULL ? sc_loads_walk (g->loads, 0, row, kind) : NULL;
  g_autoptr (ScProgram) p = program_new (g->fold->family_members[0]);
  for (guint32 i = 0; i < g->fold->n_link_classes; i++)
    sc_program_add_link (p, 1);
  sc_program_add_call (p, 0, 0, sc_time_from_s (form.delay_s), 0, 0);
  for (guint part = 0; part < form.n_parts; part++)
    {
      guint32 n;
      const guint32 first = sc_fold_uses (g->fold, g->loads, 0, walk, part, &n);
      sc_program_add_part (p, form.parts[part].bytes, form.parts[part].cap, g->fold->uses + first, n);
    }
  add_members (p, g->fold->family_members[0]);
  g_autoptr (ScTrace) t = run (p);
  return t->end;
}

/* As single messages. */
static ScTime
simulate_messages (const Group *g, const ScCollective *row, ScCollKind kind, double bytes, guint blocks)
{
  g_autoptr (ScProgram) p = program_new (g->n);
  g_autofree guint32 *map = g_new (guint32, g->fabric->n_links);
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    map[l] = sc_program_add_link (p, g->fabric->links[l].capacity);
  const double alpha = g->shape->hops_inter > 0 ? g->shape->inter_latency_s : g->shape->intra_latency_s;
  ScMessages *const m = row->expand (g->fabric, g->gpus, g->n, kind, bytes, blocks, sc_time_from_s (alpha), map, FALSE);
  sc_program_add_call (p, 0, 0, sc_time_from_s (g->shape->launch_s), 0, 0);
  g_array_index (p->calls, ScCall, 0).messages = m;
  add_members (p, g->n);
  g_autoptr (ScTrace) t = run (p);
  sc_collective_messages_free (m);
  return t->end;
}

#define assert_time(got, want_s, tolerance_ps, ...) \
  do \
    { \
      const double off_ps = (double) (got) - (want_s) * SC_PS_PER_S; \
      g_autofree char *what = g_strdup_printf (__VA_ARGS__); \
      ck_assert_msg (fabs (off_ps) <= (tolerance_ps), "%s: %.3f ps off %.3f s", what, off_ps, (want_s)); \
    } \
  while (0)

/* Calls @visit for every row and kind that can run on @shape. */
typedef void (*CallFunc) (const Shape *shape, const Group *group, const ScCollective *row, ScCollKind kind, gboolean with_latencies);

static void
for_each_call (const Shape *shape, CallFunc visit)
{
  guint n = 0;
  for (guint send = 0; send < 2; send++)
    for (guint latency = 0; latency < 2; latency++)
      {
        g_autoptr (Group) g = group_new (shape, send > 0 ? SC_COMM_PP_FORWARD : SC_COMM_DP, latency > 0);
        for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
          for (guint kind = 0; kind < SC_N_COLLS; kind++)
            if ((kind == SC_COLL_SEND) == (send > 0) && can_run (shape, *row, (ScCollKind) kind, g->shape))
              {
                visit (shape, g, *row, (ScCollKind) kind, latency > 0);
                n++;
              }
      }
  ck_assert_uint_ge (n, 30);
}

static const double sizes[] = { 1, 1000, 4096, 1e6, 64e6, 1073741824, 25e9 };

/* ---- alone ---- */

static void
check_alone (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies G_GNUC_UNUSED)
{
  if (kind != SC_COLL_SEND)
    ck_assert_uint_eq (g->shape->n_channels, s->channels);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      if (sizes[i] > row->max_bytes)
        continue;
      const double alone = alone_s (g, row, kind, sizes[i]);
      if (!row->at_once) /* else links alone say */
        ck_assert_double_ge (alone, row->alone_s (kind, g->shape, sizes[i]));
      g_autoptr (ScTrace) t = simulate_load (g, row, kind, sizes[i]);
      assert_time (t->end, alone, 2, "%s, %s %s of %g bytes", s->name, row->name, sc_coll_kind_name (kind), sizes[i]);
      assert_time (simulate_folded (g, row, kind, sizes[i]), alone, 2, "%s, folded %s %s of %g bytes", s->name, row->name,
                   sc_coll_kind_name (kind), sizes[i]);
      /* No link carries more than it can in that time. */
      for (guint32 l = 0; l < g->fabric->n_links; l++)
        if (t->link_bytes[l] > alone * g->fabric->links[l].capacity * (1 + 1e-12) + 1)
          ck_abort_msg ("%s, %s %s: too much on link %u", s->name, row->name, sc_coll_kind_name (kind), l);
    }
}

START_TEST (alone_a_call_lasts_its_closed_form_and_beats_no_link)
{
  for_each_call (&shapes[_i], check_alone);
}
END_TEST

static double
rounds_share (ScCollKind kind, guint n)
{
  return (kind == SC_COLL_ALL_REDUCE ? 2 : 1) * (n - 1.0) / n;
}

/* Bytes that leave GPUs: by NVLink or NIC where there is NVLink, by PCIe else. */
static gboolean
is_way_out (const Shape *s, const ScLink *link)
{
  if (s->pcie_bytes_per_s > 0)
    return link->kind == SC_LINK_PCIE_OUT;
  return link->kind == SC_LINK_NVLINK_OUT || link->kind == SC_LINK_NIC_OUT;
}

static gboolean
is_way_in (const Shape *s, const ScLink *link)
{
  if (s->pcie_bytes_per_s > 0)
    return link->kind == SC_LINK_PCIE_IN;
  return link->kind == SC_LINK_NVLINK_IN || link->kind == SC_LINK_NIC_IN;
}

/* Bytes over all connections of the call, per byte of its buffer, by what the algorithm has to move (MODELLING 5.2).
 * In-network reduction: into the switches here, and as much out of them. */
static double
moved_share (const ScCollective *row, ScCollKind kind, double n, double domains)
{
  const double g = n / domains;
  if (row == &sc_collective_nvls) /* all data of each to the switches, and each owner's result */
    return n + 1;
  if (row == &sc_collective_nvls_tree) /* the same in each domain; two trees between them */
    return domains * (g + 1) + 2 * (domains - 1);
  if (row == &sc_collective_collnet) /* to the owner in each domain and back to all; once up the network from each domain */
    return 2 * (n - domains) + domains;
  if (row == &sc_collective_pxn || row == &sc_collective_deepep) /* gathered by rail first: all but what is of that rail already */
    return domains * (g - 1) + g * (domains - 1);
  switch (kind)
    {
    case SC_COLL_ALL_REDUCE: /* whoever adds up needs all of each other's, and each all of the sum: no algorithm less */
      return row == &sc_collective_direct ? n * (n - 1) : 2 * (n - 1);
    case SC_COLL_SEND_RECEIVE:
      return n;
    case SC_COLL_SEND:
      return 1;
    case SC_COLL_REDUCE_SCATTER:
    case SC_COLL_ALL_GATHER:
    case SC_COLL_BROADCAST:
    case SC_COLL_REDUCE:
    case SC_COLL_ALL_TO_ALL:
    case SC_N_COLLS:
    default:
      return n - 1;
    }
}

static void
check_bytes (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies)
{
  if (row->walk == NULL || with_latencies || s->lanes != NULL) /* in a mesh some pass on what others sent */
    return;
  const double bytes = 1024.0 * 1024 * 840; /* divides by every group here */
  g_autoptr (ScTrace) t = simulate_load (g, row, kind, bytes);
  g_autofree double *of_node = g_new0 (double, g->fabric->n_nodes);
  double out = 0, in = 0, up = 0, down = 0;
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    {
      const ScLink *const link = &g->fabric->links[l];
      if (is_way_out (s, link))
        {
          out += t->link_bytes[l];
          of_node[link->kind == SC_LINK_NIC_OUT ? link->owner : g->fabric->gpus[link->owner].node] += t->link_bytes[l];
        }
      if (is_way_in (s, link))
        in += t->link_bytes[l];
      if (link->kind == SC_LINK_UP)
        up += t->link_bytes[l];
      if (link->kind == SC_LINK_DOWN)
        down += t->link_bytes[l];
    }
  const double expected = bytes * moved_share (row, kind, g->n, g->shape->n_domains);
  ck_assert_msg (fabs (out - expected) <= 1e-12 * expected, "%s, %s %s: %.0f bytes leave GPUs, expected %.0f", s->name,
                 row->name, sc_coll_kind_name (kind), out, expected);
  ck_assert_double_eq_tol (in, out, 1e-12 * expected);
  ck_assert_double_eq_tol (up, down, 1e-12 * expected);
  /* rings take as much of every rank */
  for (guint node = 0; row == &sc_collective_ring && node < s->group_nodes; node++)
    ck_assert_double_eq_tol (of_node[node], s->per_node * rounds_share (kind, g->n) * bytes, 1e-12 * expected);
}

START_TEST (bytes_are_conserved_on_every_kind_of_link)
{
  for_each_call (&shapes[_i], check_bytes);
}
END_TEST

START_TEST (a_group_that_spans_nodes_uses_all_of_its_nics_alike)
{
  const Shape *const s = &shapes[_i];
  if (s->group_nodes == 1 || s->domain_nodes == s->group_nodes)
    return;
  g_autoptr (Group) g = group_new (s, SC_COMM_DP, FALSE);
  const double bytes = 840e6;
  g_autoptr (ScTrace) t = simulate_load (g, &sc_collective_ring, SC_COLL_REDUCE_SCATTER, bytes);
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    {
      const ScLink *const link = &g->fabric->links[l];
      /* one ring enters and leaves by each, or in meshes as many by one as by another */
      const double each = rounds_share (SC_COLL_REDUCE_SCATTER, g->n) * bytes / g->shape->rails;
      if ((link->kind == SC_LINK_NIC_OUT || link->kind == SC_LINK_NIC_IN) && t->link_bytes[l] > 0)
        ck_assert_double_eq_tol (t->link_bytes[l], each, 1e-9 * each);
    }
}
END_TEST

START_TEST (all_reduce_costs_what_reduce_scatter_and_all_gather_cost)
{
  g_autoptr (Group) g = group_new (&shapes[_i], SC_COMM_DP, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      const double ar = sc_collective_ring.alone_s (SC_COLL_ALL_REDUCE, g->shape, sizes[i]);
      const double rs = sc_collective_ring.alone_s (SC_COLL_REDUCE_SCATTER, g->shape, sizes[i]);
      const double ag = sc_collective_ring.alone_s (SC_COLL_ALL_GATHER, g->shape, sizes[i]);
      ck_assert_double_eq_tol (ar, rs + ag, 1e-14 * ar);
      /* and without latency that is the busiest link's time */
      g_autoptr (ScTrace) t = simulate_load (g, &sc_collective_ring, SC_COLL_ALL_REDUCE, sizes[i]);
      double busiest = 0;
      for (guint32 l = 0; l < g->fabric->n_links; l++)
        busiest = MAX (busiest, t->link_bytes[l] / g->fabric->links[l].capacity);
      ck_assert_double_eq_tol (ar, busiest, 1e-12 * ar);
    }
}
END_TEST

static void
check_longer (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies G_GNUC_UNUSED)
{
  double before = 0;
  for (double bytes = 1; bytes <= MIN (row->max_bytes, 1e12); bytes *= 1.7)
    {
      const double now = alone_s (g, row, kind, bytes);
      if (!(now >= before && isfinite (now)))
        ck_abort_msg ("%s, %s of %g bytes: %g s after %g s", s->name, row->name, bytes, now, before);
      before = now;
    }
}

START_TEST (longer_calls_take_longer)
{
  for_each_call (&shapes[_i], check_longer);
}
END_TEST

START_TEST (larger_groups_take_longer)
{
  for (guint latency = 0; latency < 2; latency++)
    for (guint inside = 0; inside < 2; inside++)
      {
        double before[SC_N_COLLS] = { 0 };
        for (guint n = 2; n <= 8; n++) /* GPUs of a node, or nodes of a rail-optimised leaf */
          {
            const Shape s = inside ? (Shape) { "", { .nodes = 1 }, 1, n, 1, .channels = 1 }
                                   : (Shape) { "", { .nodes = n, .leaf = 8 }, n, 8, 1, .channels = 8 };
            g_autoptr (Group) g = group_new (&s, SC_COMM_DP, latency > 0);
            for (guint kind = 0; kind < SC_COLL_SEND; kind++)
              {
                const ScCollective *const row = kind == SC_COLL_BROADCAST ? &sc_collective_chain : &sc_collective_ring;
                const double alone = row->alone_s ((ScCollKind) kind, g->shape, 1e8);
                ck_assert_double_ge (alone, before[kind] * (1 - 1e-14));
                before[kind] = alone;
              }
            const double scalar = sc_collective_scalar.alone_s (SC_COLL_ALL_REDUCE, g->shape, 4);
            ck_assert_double_ge (scalar, before[SC_COLL_SEND]);
            before[SC_COLL_SEND] = scalar; /* the free place */
          }
      }
}
END_TEST

static void
check_choice (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies G_GNUC_UNUSED)
{
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      ScCollChoice choice;
      ck_assert (sc_collective_choose (kind, g->shape, sizes[i], NULL, SC_N_PROTOS, &choice, NULL));
      ck_assert (choice.row->kinds & 1u << kind && sizes[i] <= choice.row->max_bytes && !choice.row->on_request);
      const double best = choice.row->alone_s (kind, g->shape, sizes[i]);
      if (!row->on_request && sizes[i] <= row->max_bytes && best > row->alone_s (kind, g->shape, sizes[i]))
        ck_abort_msg ("%s, %s of %g bytes: %s is slower than %s", s->name, sc_coll_kind_name (kind), sizes[i], choice.row->name,
                      row->name);
    }
}

START_TEST (the_fastest_row_is_chosen)
{
  for_each_call (&shapes[_i], check_choice);
}
END_TEST

/* ---- single messages ---- */

/* How close a call's load comes to its single messages, without latency: the most that they differ by, as a part of the
 * closed form, on shapes whose hops are all alike and on others.  Measured, then rounded up. */
typedef struct
{
  const ScCollective *row;
  gboolean pipe;         /* blocks take time to fill it: extrapolated from 16 and 64 of them to infinitely many */
  double uniform, other; /* 0: to the picosecond that every message is rounded to, also in one block */
} Tolerance;

static const Tolerance tolerances[] = {
  /* Rings, and rows that send all at once: exact (FOLDING 5). */
  { &sc_collective_ring, FALSE, 0, 1e-6 },
  { &sc_collective_send, FALSE, 0, 0 },
  { &sc_collective_send_receive, FALSE, 0, 0 },
  { &sc_collective_direct, FALSE, 0, 1e-6 },
  { &sc_collective_all_to_all, FALSE, 0, 1e-6 },
  /* Exact where all rounds are alike.  The load spreads them over the call; one after the other, those that cross narrow
   * up-links leave these idle during all others (0.57 on leaves over 4), and in a mesh some have two lanes (-0.29). */
  { &sc_collective_halving_doubling, FALSE, 0, 0.6 },
  /* Rounds wait for the slowest one before: 0.15 where a group leaves three nodes below one leaf and one below another,
   * 0.05 in meshes, 0.02 elsewhere. */
  { &sc_collective_pat, FALSE, 0, 0.16 },
  { &sc_collective_chain, TRUE, 1e-3, 1e-2 },
  { &sc_collective_nvls, TRUE, 1e-3, 1e-3 },
  { &sc_collective_hierarchical, TRUE, 1e-3, 1e-2 },
  { &sc_collective_pxn, TRUE, 1e-3, 1e-3 },
  { &sc_collective_deepep, TRUE, 1e-3, 1e-3 },
  { &sc_collective_nvls_tree, TRUE, 1e-2, 1e-2 }, /* the root's links carry less at first */
  /* Closed forms know a ring's links.  Groups of several meshes have more lanes for SHARP (-0.14) and for trees, whose
   * both ways do not share one (-0.5). */
  { &sc_collective_collnet, TRUE, 1e-3, 0.15 },
  { &sc_collective_tree, TRUE, 1e-2, 0.5 },
};

static void
check_messages (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies)
{
  if (row->walk == NULL || with_latencies)
    return;
  const Tolerance *t = tolerances;
  while (t->row != row)
    t++; /* every row that loads links has one */
  const double bytes = t->pipe ? 840e9 : 840e6; /* beside which a chunk of the closed form is nothing */
  const double alone = alone_s (g, row, kind, bytes) * SC_PS_PER_S, part = s->uniform ? t->uniform : t->other;
  double took[2]; /* in few blocks, in many */
  for (guint i = 0; i < 2; i++)
    took[i] = (double) simulate_messages (g, row, kind, bytes, t->pipe ? 16u << 2 * i : 1u << 4 * i);
  if (t->pipe)
    took[1] += (took[1] - took[0]) / 3;
  const double tolerance = MAX (part * alone, 32.0 * g->n);
  for (guint i = part == 0 && !t->pipe ? 0 : 1; i < 2; i++)
    if (fabs (took[i] - alone) > tolerance)
      ck_abort_msg ("%s, %s %s: %.0f ps, closed form %.0f, %+.7f", s->name, row->name, sc_coll_kind_name (kind), took[i], alone,
                    took[i] / alone - 1);
}

START_TEST (single_messages_take_the_closed_form_without_latency)
{
  for_each_call (&shapes[_i], check_messages);
}
END_TEST

/* Slices of chunks round a ring of @n hops, event by event: a hop sends
 * one slice after another, each when it has arrived. */
static double
ring_by_slices (guint n, guint steps, double chunk, guint slices, const double *rate, const double *alpha)
{
  g_autofree double *arrived = g_new0 (double, n * slices), *next = g_new0 (double, n * slices),
                    *left = g_new0 (double, n);
  double end = 0;
  for (guint step = 0; step < steps; step++)
    {
      for (guint hop = 0; hop < n; hop++)
        for (guint x = 0; x < slices; x++)
          {
            left[hop] = MAX (left[hop], arrived[hop * slices + x]) + chunk / slices / rate[hop];
            next[(hop + 1) % n * slices + x] = left[hop] + alpha[hop];
            end = MAX (end, left[hop] + alpha[hop]);
          }
      memcpy (arrived, next, n * slices * sizeof *next);
    }
  return end;
}

static double
shape_ring_time (guint n, guint hops_inter, const double *rate, const double *alpha, guint steps, double chunk)
{
  const ScGroupShape shape = { .n = n, .n_domains = MAX (hops_inter, 1), .n_channels = 1, .hops_inter = hops_inter,
                               .inter_bytes_per_s = rate[0], .intra_bytes_per_s = rate[1], .inter_latency_s = alpha[0],
                               .intra_latency_s = alpha[1] };
  return sc_ring_time_s (&shape, steps, chunk);
}

/* FOLDING 6: with two slices a chunk the closed form of a uniform ring is what its slices take. */
START_TEST (a_uniform_ring_takes_what_its_slices_take)
{
  static const guint members[] = { 2, 3, 4, 8, 16, 64 };
  static const double chunks[] = { 1e2, 1e4, 1e5, 3e5, 1e6, 1e8 };
  for (guint i = 0; i < G_N_ELEMENTS (members); i++)
    for (guint c = 0; c < G_N_ELEMENTS (chunks); c++)
      for (guint rounds = 1; rounds <= 2; rounds++)
        {
          const guint n = members[i], steps = rounds * (n - 1);
          const double rates[2] = { 50e9, 50e9 }, alphas[2] = { 5e-6, 5e-6 };
          g_autofree double *rate = g_new (double, n), *alpha = g_new (double, n);
          for (guint hop = 0; hop < n; hop++)
            {
              rate[hop] = rates[0];
              alpha[hop] = alphas[0];
            }
          const double want = ring_by_slices (n, steps, chunks[c], 2, rate, alpha);
          for (guint inter = 0; inter <= n; inter += n)
            {
              const double got = shape_ring_time (n, inter, rates, alphas, steps, chunks[c]);
              ck_assert_double_eq_tol (got, want, 1e-12 * want);
            }
          /* between the wire's time and the textbook's steps (latency + chunk / bandwidth) */
          ck_assert_double_ge (want, steps * chunks[c] / rates[0]);
          ck_assert_double_le (want, steps * (alphas[0] + chunks[c] / rates[0]) * (1 + 1e-12));
        }
}
END_TEST

START_TEST (a_ring_over_nvlink_and_nics_takes_about_what_its_slices_take)
{
  static const guint nodes[] = { 2, 3, 4, 8 }, per_node[] = { 2, 4, 8 };
  static const double chunks[] = { 1e2, 1e4, 1e5, 3e5, 1e6, 1e7 };
  const double rates[2] = { 50e9, 300e9 }, alphas[2] = { 10e-6, 1e-6 };
  double least = 0, most = 0;
  for (guint i = 0; i < G_N_ELEMENTS (nodes); i++)
    for (guint k = 0; k < G_N_ELEMENTS (per_node); k++)
      for (guint c = 0; c < G_N_ELEMENTS (chunks); c++)
        for (guint rounds = 1; rounds <= 2; rounds++)
          {
            const guint n = nodes[i] * per_node[k], steps = rounds * (n - 1);
            g_autofree double *rate = g_new (double, n), *alpha = g_new (double, n);
            for (guint hop = 0; hop < n; hop++)
              {
                const guint inside = hop % per_node[k] != per_node[k] - 1;
                rate[hop] = rates[inside];
                alpha[hop] = alphas[inside];
              }
            const double want = ring_by_slices (n, steps, chunks[c], 2, rate, alpha);
            const double got = shape_ring_time (n, nodes[i], rates, alphas, steps, chunks[c]);
            least = MIN (least, got / want - 1);
            most = MAX (most, got / want - 1);
            if (c <= 1 || c >= 4) /* away from the knee between latency and bandwidth it is exact */
              ck_assert_double_eq_tol (got, want, 1e-3 * want);
          }
  /* at the knee a slice that waits behind another one on a slow hop is not counted: never too long, up to 9 % short */
  ck_assert_msg (least >= -0.09 && most <= 1e-9, "%.4f .. %.4f", least, most);
}
END_TEST

/* Limits: nothing but latency, nothing but bandwidth. */
START_TEST (small_rings_are_all_latency_and_large_ones_all_bandwidth)
{
  const double rates[2] = { 50e9, 450e9 }, alphas[2] = { 5e-6, 1e-6 };
  for (guint n = 2; n <= 64; n *= 2)
    {
      ck_assert_double_eq_tol (shape_ring_time (n, 0, rates, alphas, 2 * (n - 1), 0), 2 * (n - 1) * 1e-6, 1e-18);
      ck_assert_double_eq_tol (shape_ring_time (n, n, rates, alphas, n - 1, 0), (n - 1) * 5e-6, 1e-18);
      const double long_s = (n - 1) * 1e12 / 50e9;
      ck_assert_double_eq_tol (shape_ring_time (n, n / 2, rates, alphas, n - 1, 1e12), long_s, 1e-6 * long_s);
      ck_assert_double_eq (shape_ring_time (n, n, rates, alphas, 0, 1e9), 0);
    }
}
END_TEST

START_TEST (messages_with_latency_bracket_the_closed_form)
{
  /* One block has one slice a chunk: the textbook sum, that slices undercut by at most half (FOLDING 6: up to 46 %). */
  for (guint i = 0; i < 4; i++)
    for (double bytes = 1e5; bytes < 1e10; bytes *= 10)
      {
        g_autoptr (Group) g = group_new (&shapes[i], SC_COMM_DP, TRUE);
        const guint steps = 2 * (g->n - 1);
        const double alpha = g->shape->hops_inter > 0 ? 5e-6 : 1e-6, rate = g->shape->hops_inter > 0 ? 50e9 : 450e9;
        const double textbook = 4e-6 + steps * (alpha + bytes / g->n / rate);
        const double closed = sc_collective_ring.alone_s (SC_COLL_ALL_REDUCE, g->shape, bytes);
        const ScTime messages = simulate_messages (g, &sc_collective_ring, SC_COLL_ALL_REDUCE, bytes, 1);
        assert_time (messages, textbook, steps, "%s, %g bytes", shapes[i].name, bytes);
        ck_assert_double_le (closed, textbook * (1 + 1e-12));
        ck_assert_double_ge (closed, textbook / 1.5);
      }
}
END_TEST

START_TEST (a_chain_of_messages_takes_its_closed_form)
{
  const double chunk = 524288;
  for (guint i = 0; i < 4; i++) /* uniform chains */
    for (guint blocks = 1; blocks <= 64; blocks *= 4)
      for (guint latency = 0; latency < 2; latency++)
        {
          g_autoptr (Group) g = group_new (&shapes[i], SC_COMM_DP, latency > 0);
          const double alone = sc_collective_chain.alone_s (SC_COLL_BROADCAST, g->shape, blocks * chunk);
          assert_time (simulate_messages (g, &sc_collective_chain, SC_COLL_BROADCAST, blocks * chunk, blocks), alone,
                       blocks + g->n, "%s, %u blocks", shapes[i].name, blocks);
        }
}
END_TEST

/* MODELLING 5.6: 1 MiB in pieces of 64 KiB over three hops of 50 GB/s and 2 us: stored and forwarded 29.59 us. */
START_TEST (store_and_forward_by_hand)
{
  const Shape s = { "four of a node", { .nodes = 1 }, 1, 4, 1, .channels = 1 };
  g_autoptr (Group) g = group_new (&s, SC_COMM_DP, FALSE);
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    g->fabric->links[l].capacity = 50e9;
  g->loads->shapes[0].intra_latency_s = 2e-6;
  assert_time (simulate_messages (g, &sc_collective_chain, SC_COLL_BROADCAST, 1048576, 16), 2.959296e-05, 20,
               "16 blocks");
}
END_TEST

START_TEST (a_send_in_messages_is_one_message)
{
  for (guint latency = 0; latency < 2; latency++)
    {
      g_autoptr (Group) g = group_new (&shapes[_i], SC_COMM_PP_FORWARD, latency > 0);
      const double alone = sc_collective_send.alone_s (SC_COLL_SEND, g->shape, 30e6);
      for (guint blocks = 1; blocks <= 16; blocks += 15)
        assert_time (simulate_messages (g, &sc_collective_send, SC_COLL_SEND, 30e6, blocks), alone, 2, "%s",
                     shapes[_i].name);
    }
}
END_TEST

/* ---- examples (MODELLING 5) ---- */

static double
most_bytes_of (const Group *g, const ScTrace *t, ScLinkKind kind)
{
  double most = 0;
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    if (g->fabric->links[l].kind == kind)
      most = MAX (most, t->link_bytes[l]);
  return most;
}

START_TEST (one_gib_over_eight_gpus)
{
  g_autoptr (Group) g = group_new (&shapes[0], SC_COMM_DP, FALSE); /* 5.2: 450 GB/s, no latency */
  const double alone = sc_collective_ring.alone_s (SC_COLL_ALL_REDUCE, g->shape, 1073741824);
  ck_assert_double_eq_tol (alone, 0.004175662648888889, 1e-12 * alone);
}
END_TEST

START_TEST (wire_bytes_of_llama3_70b_tensor_parallelism)
{
  g_autoptr (Group) g = group_new (&shapes[0], SC_COMM_TP, FALSE); /* 5.8: T = h = 8192, tp 8 */
  g_autoptr (ScTrace) ag = simulate_load (g, &sc_collective_ring, SC_COLL_ALL_GATHER, 134217728);
  g_autoptr (ScTrace) rs = simulate_load (g, &sc_collective_ring, SC_COLL_REDUCE_SCATTER, 134217728);
  g_autoptr (ScTrace) ar = simulate_load (g, &sc_collective_ring, SC_COLL_ALL_REDUCE, 134217728);
  ck_assert_double_eq (most_bytes_of (g, ag, SC_LINK_NVLINK_OUT), 117440512);
  ck_assert_double_eq (most_bytes_of (g, rs, SC_LINK_NVLINK_IN), 117440512);
  ck_assert_double_eq (most_bytes_of (g, ar, SC_LINK_NVLINK_OUT), 2 * 117440512);
  /* sequence parallel: 6 gathers and 4 scatters a layer; without: 4 all-reduces */
  ck_assert_double_eq ((6 * ag->link_bytes[0] + 4 * rs->link_bytes[0]) / (4 * ar->link_bytes[0]), 1.25);
}
END_TEST

/* A map of links that renames none. */
static guint32 *
every_link_itself (const ScFabric *fabric)
{
  guint32 *const map = g_new (guint32, fabric->n_links);
  for (guint32 l = 0; l < fabric->n_links; l++)
    map[l] = l;
  return map;
}

START_TEST (messages_of_a_ring_of_eight)
{
  g_autoptr (Group) g = group_new (&shapes[0], SC_COMM_DP, FALSE); /* 5.9: 8 MiB */
  g_autofree guint32 *map = every_link_itself (g->fabric);
  ScMessages *const m =
      sc_collective_ring.expand (g->fabric, g->gpus, 8, SC_COLL_ALL_REDUCE, 8388608, 1, 0, map, FALSE);
  ck_assert_uint_eq (m->n, 112);
  double total = 0;
  for (guint32 i = 0; i < m->n; i++)
    {
      ScMessage message;
      m->describe (m, i, &message);
      ck_assert_double_eq (message.bytes, 1048576);
      total += message.bytes;
    }
  ck_assert_double_eq (total, 117440512);
  sc_collective_messages_free (m);
}
END_TEST

/* Every message waits for as many as point to it. */
static void
check_dependencies (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies)
{
  if (row->expand == NULL || with_latencies)
    return;
  g_autofree guint32 *map = every_link_itself (g->fabric);
  for (guint blocks = 1; blocks <= 4; blocks += 3)
    {
      ScMessages *const m = row->expand (g->fabric, g->gpus, g->n, kind, 1e6, blocks, 0, map, FALSE);
      g_autofree guint *before = g_new0 (guint, m->n);
      guint32 next[SC_MESSAGES_MAX_NEXT];
      for (guint32 i = 0; i < m->n; i++)
        {
          for (guint n = m->after_delivery (m, i, next); n-- > 0;)
            before[next[n]]++;
          for (guint n = m->after_drain (m, i, next); n-- > 0;)
            before[next[n]]++;
        }
      for (guint32 i = 0; i < m->n; i++)
        if (before[i] != m->n_before (m, i))
          ck_abort_msg ("%s, %s: message %u waits for %u, %u point to it", s->name, row->name, i, m->n_before (m, i), before[i]);
      sc_collective_messages_free (m);
    }
}

START_TEST (messages_depend_on_each_other_consistently)
{
  for_each_call (&shapes[_i], check_dependencies);
}
END_TEST

/* The messages' bytes are the walk's, link by link. */
static void
check_message_bytes (const Shape *s, const Group *g, const ScCollective *row, ScCollKind kind, gboolean with_latencies)
{
  if (row->expand == NULL || with_latencies)
    return;
  g_autofree guint32 *map = every_link_itself (g->fabric);
  g_autofree double *bytes = g_new0 (double, g->fabric->n_links);
  ScMessages *const m = row->expand (g->fabric, g->gpus, g->n, kind, 840e6, 3, 0, map, FALSE);
  for (guint32 i = 0; i < m->n; i++)
    {
      ScMessage message;
      m->describe (m, i, &message);
      for (guint32 k = 0; k < message.n_uses; k++)
        bytes[message.uses[k].link] += message.bytes;
    }
  sc_collective_messages_free (m);
  g_autoptr (ScTrace) t = simulate_load (g, row, kind, 840e6);
  for (guint32 l = 0; l < g->fabric->n_links; l++)
    if (fabs (bytes[l] - t->link_bytes[l]) > 1e-9 * 840e6)
      ck_abort_msg ("%s, %s %s: %.0f bytes in messages over link %u, %.0f as a load", s->name, row->name, sc_coll_kind_name (kind),
                    bytes[l], l, t->link_bytes[l]);
}

START_TEST (messages_put_as_much_on_every_link_as_the_load)
{
  for_each_call (&shapes[_i], check_message_bytes);
}
END_TEST

/* ---- folded and unfolded ---- */

/* One rail of 4 nodes: an all-to-all of 1 GB, and a send of 0.5 GB from the first to the second; no latency. */
static void
run_beside_a_send (FixFabric fabric, const char *row, double want_s, double want_send_s)
{
  static const guint32 rail[] = { 0, 8, 16, 24 };
  g_autoptr (ScTopology) t = fix_topology (fabric);
  g_autoptr (ScComms) comms = sc_comms_new (t, t->n_gpus, FALSE, NULL);
  const ScCommGroup groups[2] = {
    { .kind = SC_COLL_ALL_TO_ALL, .gpus = rail, .n = 4, .bytes = 1e9, .row = sc_collective_find (row), .protocol = SC_N_PROTOS },
    { .kind = SC_COLL_SEND, .gpus = rail, .n = 2, .bytes = 0.5e9, .protocol = SC_N_PROTOS },
  };
  ScCommResult ret[2];
  ck_assert (sc_comms_run (comms, groups, 2, ret, NULL, NULL));
  ck_assert_double_eq_tol (ret[0].seconds, want_s, 1e-11);
  ck_assert_double_eq_tol (ret[1].seconds, want_send_s, 1e-11);
}

/* FOLDING U4: three messages of 0.25 GB and the send share a NIC of 50 GB/s, 12.5 each, for 20 ms; then the send has it alone. */
START_TEST (u4_all_to_all_shares_by_connections)
{
  run_beside_a_send ((FixFabric) { .nodes = 4 }, "all-to-all", 20e-3, 25e-3);
}
END_TEST

/* U6: two leaves of two nodes, up-link 25 GB/s for four messages: 40 ms.  The message to the neighbour and the send have
 * 37.5 GB/s of the NIC, so the one is over in 13.3 ms and the other in 20. */
START_TEST (u6_what_stays_below_the_leaf_does_not_wait_for_what_crosses)
{
  run_beside_a_send ((FixFabric) { .nodes = 4, .leaf = 2, .over = 4 }, "all-to-all", 40e-3, 20e-3);
}
END_TEST

/* ---- meshes ---- */

START_TEST (rings_of_a_mesh_share_no_link)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 });
  fix_join (t, FIX_CUBE_MESH);
  g_autoptr (ScFabric) f = sc_fabric_new (t, t->n_gpus, NULL);
  const guint32 whole[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, same[] = { 8, 9, 10, 11, 12, 13, 14, 15 }, square[] = { 0, 1, 2, 3 };
  ck_assert_uint_eq (sc_ring_channels (f, whole, 8), 6); /* as many as a GPU has links */
  ck_assert_uint_eq (sc_ring_channels (f, square, 4), 4);
  for (guint group = 0; group < 2; group++)
    {
      const guint32 *const gpus = group == 0 ? whole : square;
      const guint n = group == 0 ? 8 : 4, channels = sc_ring_channels (f, gpus, n);
      g_autofree guint *used = g_new0 (guint, 64);
      for (guint c = 0; c < channels; c++)
        {
          guint32 order[8];
          guint seen = 0;
          sc_ring_order (f, gpus, n, c, order);
          for (guint i = 0; i < n; i++)
            {
              used[order[i] * 8 + order[(i + 1) % n]]++;
              seen |= 1u << order[i];
            }
          ck_assert_uint_eq (seen, (1u << n) - 1);
        }
      for (guint a = 0; a < n; a++)
        for (guint b = 0; b < n; b++)
          ck_assert_uint_le (used[a * 8 + b], sc_fabric_lanes (f, gpus[a], gpus[b]));
    }
  /* A group alike is not searched for again. */
  const guint known = g_hash_table_size (f->mesh_rings);
  ck_assert_uint_eq (sc_ring_channels (f, same, 8), 6);
  ck_assert_uint_eq (g_hash_table_size (f->mesh_rings), known);
}
END_TEST

START_TEST (rings_over_several_meshes_follow_links_inside)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 });
  t->types[0].nics = 4;
  fix_join (t, FIX_CUBE_MESH);
  g_autoptr (ScFabric) f = sc_fabric_new (t, t->n_gpus, NULL);
  guint32 gpus[16], order[16];
  for (guint i = 0; i < 16; i++)
    gpus[i] = i;
  const guint channels = sc_ring_channels (f, gpus, 16);
  ck_assert_uint_ge (channels, 4);
  for (guint c = 0; c < channels; c++)
    {
      sc_ring_order (f, gpus, 16, c, order);
      for (guint i = 0; i + 1 < 16; i++)
        if (order[i] / 8 == order[i + 1] / 8)
          ck_assert_uint_gt (sc_fabric_lanes (f, order[i], order[i + 1]), 0);
    }
}
END_TEST

/* A cluster to run several groups on. */
typedef struct
{
  const char *name;
  FixFabric fabric;
  guint  domain_nodes;
  gboolean pcie, ecmp, slow_nic;
  const char *lanes;
  guint  library; /* SC_TEXTBOOK, or NCCL's number */
} Cluster;

#define LATE .launch_s = 4e-6, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6

static const Cluster clusters[] = {
  { .name = "rails, over 2", .fabric = { .nodes = 6, .leaf = 4, .over = 2, LATE } },
  { .name = "rails, over 2, NCCL", .fabric = { .nodes = 6, .leaf = 4, .over = 2, LATE }, .library = 2029 },
  { .name = "classic leaves", .fabric = { .nodes = 4, .leaf = 3, .over = 2, .classic = TRUE, LATE } },
  { .name = "three tiers, over 2 x 2", .fabric = { .nodes = 8, .leaf = 2, .over = 2, .pod = 2, .pod_over = 2, LATE } },
  { .name = "NVLink domains of two nodes", .fabric = { .nodes = 6, .gpus = 4, .leaf = 2, .over = 2, LATE }, .domain_nodes = 2 },
  { .name = "PCIe boxes", .fabric = { .nodes = 4, .leaf = 2, LATE }, .pcie = TRUE },
  { .name = "PCIe boxes, NCCL", .fabric = { .nodes = 4, .leaf = 2, LATE }, .pcie = TRUE, .library = 2029 },
  { .name = "cube meshes", .fabric = { .nodes = 3, .leaf = 2, LATE }, .lanes = FIX_CUBE_MESH },
  { .name = "hashed paths", .fabric = { .nodes = 4, .gpus = 4, .leaf = 2, LATE }, .ecmp = TRUE },
  { .name = "one slow NIC", .fabric = { .nodes = 4, .leaf = 2, .over = 2, LATE }, .slow_nic = TRUE },
};

static ScTopology *
cluster_topology (const Cluster *c)
{
  ScTopology *const t = fix_topology (c->fabric);
  ScNodeType *const type = &t->types[0];
  if (c->domain_nodes > 0)
    type->nvlink_domain_nodes = c->domain_nodes;
  if (c->pcie)
    {
      type->has_nvlink = FALSE;
      type->pcie_bytes_per_s.value = 12e9;
      type->pcie_gpus_per_switch = 4;
      type->pcie_latency_s.value = 3e-6;
      type->nics = 2;
    }
  if (c->lanes != NULL)
    {
      fix_join (t, c->lanes);
      type->nvlink_bytes_per_s.value = 22e9;
    }
  if (c->ecmp)
    {
      t->routing = SC_ROUTING_ECMP;
      t->flows_per_connection = 2;
      t->tiers[0].paths = 3;
    }
  if (c->slow_nic)
    fix_fault (t, SC_FAULT_NIC, 1, 2, 0.5);
  t->collectives = c->library;
  return t;
}

/* All groups end when they end with every rank and link on its own, or none can run. */
static guint
compare_runs (ScComms *folded, ScComms *unfolded, const ScCommGroup *groups, guint n, const char *cluster, const char *what)
{
  g_autofree ScCommResult *a = g_new0 (ScCommResult, n), *b = g_new0 (ScCommResult, n);
  g_autoptr (GError) no = NULL, neither = NULL;
  if (!sc_comms_run (folded, groups, n, a, NULL, &no))
    {
      ck_assert (g_error_matches (no, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE));
      ck_assert (!sc_comms_run (unfolded, groups, n, b, NULL, &neither));
      return 0;
    }
  ck_assert (sc_comms_run (unfolded, groups, n, b, NULL, &neither));
  for (guint i = 0; i < n; i++)
    {
      if (fabs (a[i].seconds - b[i].seconds) > 1e-9 * b[i].seconds + 3e-12)
        ck_abort_msg ("%s, %s, %s %s, group %u: folded %.12g s, unfolded %.12g s", cluster, what, b[i].choice.row->name,
                      sc_coll_kind_name (groups[i].kind), i, a[i].seconds, b[i].seconds);
      if (b[i].seconds < b[i].bound_s * (1 - 1e-9) || b[i].seconds < b[i].choice.alone_s * (1 - 1e-9) - 3e-12)
        ck_abort_msg ("%s, %s, %s %s, group %u: %.12g s, alone %.12g s, its narrowest link %.12g s", cluster, what,
                      b[i].choice.row->name, sc_coll_kind_name (groups[i].kind), i, b[i].seconds, b[i].choice.alone_s, b[i].bound_s);
    }
  return 1;
}

START_TEST (groups_take_folded_what_they_take_unfolded)
{
  const Cluster *const c = &clusters[_i];
  g_autoptr (ScTopology) t = cluster_topology (c);
  g_autoptr (ScComms) folded = sc_comms_new (t, t->n_gpus, FALSE, NULL), unfolded = sc_comms_new (t, t->n_gpus, TRUE, NULL);
  ck_assert (folded != NULL && unfolded != NULL);
  const guint n = t->n_gpus, each = t->types[0].gpus, nodes = t->n_nodes;
  g_autofree guint32 *all = g_new (guint32, n), *rails = g_new (guint32, n);
  for (guint i = 0; i < n; i++)
    {
      all[i] = i;
      rails[i] = i % nodes * each + i / nodes; /* rail by rail */
    }
  guint ran[3] = { 0 };
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    for (guint kind = 0; kind < SC_COLL_SEND; kind++)
      {
        if (((*row)->kinds & 1u << kind) == 0)
          continue;
        const double bytes = MIN ((*row)->max_bytes, 64e6);
        const ScCommGroup group = { .kind = (ScCollKind) kind, .gpus = all, .n = n, .bytes = bytes, .row = *row,
                                    .protocol = SC_N_PROTOS };
        ran[0] += compare_runs (folded, unfolded, &group, 1, c->name, "all");
        g_autofree ScCommGroup *several = g_new (ScCommGroup, each);
        for (guint i = 0; i < each; i++)
          {
            several[i] = group;
            several[i].gpus = rails + i * nodes;
            several[i].n = nodes;
          }
        ran[1] += compare_runs (folded, unfolded, several, each, c->name, "rails together");
        /* all but the last node, and sends: into the group, out of it, beside it */
        const guint32 pairs[3][2] = { { n - 1, 0 }, { 1, n - 2 }, { n - 3, n - 4 } };
        ScCommGroup mixed[4] = { group };
        mixed[0].n = n - each;
        for (guint i = 0; i < 3; i++)
          mixed[1 + i] = (ScCommGroup) { .kind = SC_COLL_SEND, .gpus = pairs[i], .n = 2, .bytes = 30e6, .protocol = SC_N_PROTOS };
        ran[2] += compare_runs (folded, unfolded, mixed, 4, c->name, "with sends");
      }
  for (guint i = 0; i < G_N_ELEMENTS (ran); i++)
    ck_assert_uint_ge (ran[i], 10);
}
END_TEST

START_TEST (a_group_of_one_is_no_group)
{
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .layers = 4, .microbatches = 2 });
  g_autoptr (ScLayout) layout = sc_layout_new (w);
  ck_assert_uint_eq (layout->n_comms, 0);
  g_autoptr (ScWorkload) pair = fix_workload ((FixPlan) { .layers = 4, .microbatches = 2, .dp = 2 });
  g_autoptr (ScLayout) two = sc_layout_new (pair);
  ck_assert_uint_eq (two->n_comms, 2); /* data parallel, and all ranks for scalars */
  for (guint i = 0; i < two->n_comms; i++)
    ck_assert_uint_eq (two->comms[i].n, 2);
}
END_TEST

START_TEST (rows_and_kinds_are_found_by_name)
{
  guint kinds = 0;
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    {
      ck_assert_ptr_eq (sc_collective_find ((*row)->name), *row);
      ck_assert (strlen ((*row)->summary) > 0 && strlen ((*row)->source) > 0);
      ck_assert ((*row)->walk == NULL || (*row)->connection_bytes != NULL);
      kinds |= (*row)->kinds;
    }
  ck_assert_uint_eq (kinds, (1u << SC_N_COLLS) - 1);
  ck_assert_ptr_null (sc_collective_find ("pigeon"));
  ck_assert_str_eq (sc_coll_kind_name (SC_COLL_REDUCE_SCATTER), "reduce-scatter");
}
END_TEST

START_TEST (latency_grows_with_the_ring_up_to_millions_of_ranks)
{
  double before = 0, chain_before = 0;
  for (guint n = 8; n <= 8000000; n = n * 5 / 4)
    {
      const ScGroupShape shape = { .n = n, .n_domains = n / 8, .n_channels = 8, .hops_inter = n / 8, .inter_bytes_per_s = 50e9,
                                   .intra_bytes_per_s = 400e9, .inter_latency_s = 10e-6, .intra_latency_s = 1e-6 };
      const double now = sc_ring_time_s (&shape, n - 1, 8);
      ck_assert_msg (now > before, "%u ranks: %g s, fewer took %g s", n, now, before);
      before = now;
      const double chain = sc_collective_chain.alone_s (SC_COLL_BROADCAST, &shape, 8);
      ck_assert_msg (chain > chain_before, "chain of %u ranks: %g s, fewer took %g s", n, chain, chain_before);
      chain_before = chain;
    }
}
END_TEST

/* The group begins and ends in node 0: its ring is in two nodes, but its ranks in order are in three runs. */
START_TEST (a_group_that_comes_back_to_its_first_node_is_uneven)
{
  static const guint32 gpus[] = { 1, 8, 9, 0 };
  const Cluster cluster = { .name = "comes back", .fabric = { .nodes = 2, LATE } };
  g_autoptr (ScTopology) t = cluster_topology (&cluster);
  g_autoptr (ScComms) folded = sc_comms_new (t, 16, FALSE, NULL), unfolded = sc_comms_new (t, 16, TRUE, NULL);
  static const ScCollective *const even_only[] = { &sc_collective_collnet, &sc_collective_hierarchical, &sc_collective_pxn, &sc_collective_deepep,
                                                   &sc_collective_nvls_tree };
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    for (guint kind = 0; kind < SC_COLL_SEND; kind++)
      {
        if (((*row)->kinds & 1u << kind) == 0)
          continue;
        const ScCommGroup group = { (ScCollKind) kind, gpus, G_N_ELEMENTS (gpus), MIN ((*row)->max_bytes, 64e6), *row, SC_N_PROTOS };
        const guint ran = compare_runs (folded, unfolded, &group, 1, cluster.name, "alone");
        for (guint i = 0; i < G_N_ELEMENTS (even_only); i++)
          ck_assert (*row != even_only[i] || ran == 0);
      }
}
END_TEST

START_TEST (switches_reduce_only_for_gpus_that_reach_them)
{
  static const guint32 gpus[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  const Cluster cluster = { .name = "dead NVLink", .fabric = { .nodes = 1, LATE }, .library = 2029 };
  for (guint dead = 0; dead < 2; dead++)
    {
      g_autoptr (ScTopology) t = cluster_topology (&cluster);
      t->types[0].nvls = TRUE;
      t->types[0].pcie_bytes_per_s.value = 25e9;
      if (dead > 0)
        fix_fault (t, SC_FAULT_NVLINK, 0, 3, 0);
      g_autoptr (ScComms) comms = sc_comms_new (t, 8, FALSE, NULL);
      const ScCommGroup group = { SC_COLL_ALL_REDUCE, gpus, 8, 256e6, NULL, SC_N_PROTOS };
      ScCommResult result;
      ck_assert (sc_comms_run (comms, &group, 1, &result, NULL, NULL));
      ck_assert_msg ((result.choice.row == &sc_collective_nvls) == (dead == 0), "%u dead: %s", dead, result.choice.row->name);
    }
}
END_TEST

/* What flags a protocol adds cross the links too, whatever the row. */
START_TEST (alone_a_call_of_a_forced_protocol_lasts_what_it_says)
{
  static const guint32 gpus[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
  const Cluster cluster = { .name = "protocols", .fabric = { .nodes = 2, LATE }, .library = 2029 };
  g_autoptr (ScTopology) t = cluster_topology (&cluster);
  g_autoptr (ScComms) comms = sc_comms_new (t, 16, FALSE, NULL);
  guint ran = 0;
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    for (guint call = 0; call < SC_N_COLLS * SC_N_PROTOS * 2; call++)
      {
        const ScCollKind kind = (ScCollKind) (call / 2 / SC_N_PROTOS);
        const guint n = kind == SC_COLL_SEND ? 2 : call % 2 > 0 ? 16 : 8;
        const ScCommGroup group = { kind, gpus, n, MIN ((*row)->max_bytes, 64e6), *row, (ScProtocol) (call / 2 % SC_N_PROTOS) };
        ScCommResult result;
        if (((*row)->kinds & 1u << kind) == 0 || !sc_comms_run (comms, &group, 1, &result, NULL, NULL))
          continue;
        ran++;
        assert_time (sc_time_from_s (result.seconds), result.choice.alone_s, 3, "%s %s %s over %u", (*row)->name,
                     sc_protocol_name (group.protocol), sc_coll_kind_name (kind), n);
      }
  ck_assert_uint_ge (ran, 60);
}
END_TEST

START_TEST (a_send_between_nodes_costs_what_a_send_receive_of_two_costs)
{
  static const guint32 gpus[] = { 0, 8 };
  const Cluster cluster = { .name = "send", .fabric = { .nodes = 2, LATE }, .library = 2029 };
  g_autoptr (ScTopology) t = cluster_topology (&cluster);
  g_autoptr (ScComms) comms = sc_comms_new (t, 16, FALSE, NULL);
  double latency[2];
  for (guint i = 0; i < 2; i++)
    {
      const ScCommGroup group = { i == 0 ? SC_COLL_SEND : SC_COLL_SEND_RECEIVE, gpus, 2, 8, NULL, SC_N_PROTOS };
      ScCommResult result;
      ck_assert (sc_comms_run (comms, &group, 1, &result, NULL, NULL));
      latency[i] = result.choice.latency_s;
    }
  ck_assert_double_eq_tol (latency[0], latency[1], 1e-12);
}
END_TEST

static Suite *
collective_suite (void)
{
  Suite *const s = suite_create ("collective");
  TCase *const alone = tcase_create ("alone");
  tcase_set_timeout (alone, 120);
  tcase_add_test (alone, latency_grows_with_the_ring_up_to_millions_of_ranks);
  tcase_add_loop_test (heavy (s), alone_a_call_lasts_its_closed_form_and_beats_no_link, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (alone, bytes_are_conserved_on_every_kind_of_link, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (alone, a_group_that_spans_nodes_uses_all_of_its_nics_alike, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (alone, all_reduce_costs_what_reduce_scatter_and_all_gather_cost, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (heavy (s), longer_calls_take_longer, 0, G_N_ELEMENTS (shapes));
  tcase_add_test (alone, larger_groups_take_longer);
  tcase_add_test (alone, a_group_that_comes_back_to_its_first_node_is_uneven);
  tcase_add_test (alone, switches_reduce_only_for_gpus_that_reach_them);
  tcase_add_test (alone, alone_a_call_of_a_forced_protocol_lasts_what_it_says);
  tcase_add_test (alone, a_send_between_nodes_costs_what_a_send_receive_of_two_costs);
  tcase_add_loop_test (alone, the_fastest_row_is_chosen, 0, G_N_ELEMENTS (shapes));
  suite_add_tcase (s, alone);
  TCase *const messages = tcase_create ("messages");
  tcase_set_timeout (messages, 120);
  tcase_add_loop_test (slow (s), single_messages_take_the_closed_form_without_latency, 0, G_N_ELEMENTS (shapes));
  tcase_add_test (messages, a_uniform_ring_takes_what_its_slices_take);
  tcase_add_test (messages, a_ring_over_nvlink_and_nics_takes_about_what_its_slices_take);
  tcase_add_test (messages, small_rings_are_all_latency_and_large_ones_all_bandwidth);
  tcase_add_test (messages, messages_with_latency_bracket_the_closed_form);
  tcase_add_test (messages, a_chain_of_messages_takes_its_closed_form);
  tcase_add_test (messages, store_and_forward_by_hand);
  tcase_add_loop_test (messages, a_send_in_messages_is_one_message, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (heavy (s), messages_depend_on_each_other_consistently, 0, G_N_ELEMENTS (shapes));
  tcase_add_loop_test (messages, messages_put_as_much_on_every_link_as_the_load, 0, G_N_ELEMENTS (shapes));
  suite_add_tcase (s, messages);
  TCase *const mesh = tcase_create ("meshes");
  tcase_add_test (mesh, rings_of_a_mesh_share_no_link);
  tcase_add_test (mesh, rings_over_several_meshes_follow_links_inside);
  suite_add_tcase (s, mesh);
  TCase *const fold = tcase_create ("folded");
  tcase_add_test (fold, u4_all_to_all_shares_by_connections);
  tcase_add_test (fold, u6_what_stays_below_the_leaf_does_not_wait_for_what_crosses);
  tcase_set_timeout (fold, 300);
  tcase_add_loop_test (heavy (s), groups_take_folded_what_they_take_unfolded, 0, G_N_ELEMENTS (clusters));
  suite_add_tcase (s, fold);
  TCase *const examples = tcase_create ("examples");
  tcase_add_test (examples, one_gib_over_eight_gpus);
  tcase_add_test (examples, wire_bytes_of_llama3_70b_tensor_parallelism);
  tcase_add_test (examples, messages_of_a_ring_of_eight);
  tcase_add_test (examples, a_group_of_one_is_no_group);
  tcase_add_test (examples, rows_and_kinds_are_found_by_name);
  suite_add_tcase (s, examples);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (collective_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
