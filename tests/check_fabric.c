/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_fabric.c - links, routes, and who sits where. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"

/* An assertion of the hot loops: Check notes each of its own in a file. */
#define must(condition) \
  do \
    if (!(condition)) \
      ck_abort_msg ("%s", #condition); \
  while (0)

/* ---- clusters ---- */

static ScTopology *
plain_nodes (void)
{
  return fix_topology ((FixFabric) { .nodes = 4, .leaf = 2, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 });
}

static ScTopology *
three_tiers (void)
{
  ScTopology *const t =
      fix_topology ((FixFabric) { .nodes = 12, .leaf = 2, .over = 2, .pod = 2, .pod_over = 3, .nic_latency_s = 5e-6 });
  t->tiers[0].latency_s.value = 1e-6;
  t->tiers[1].latency_s.value = 2e-6;
  return t;
}

static ScTopology *
classic_leaves (void)
{
  return fix_topology ((FixFabric) { .nodes = 7, .leaf = 3, .over = 2, .classic = TRUE });
}

/* No NVLink. */
static ScTopology *
pcie_boxes (guint nics, guint per_switch)
{
  ScTopology *const t =
      fix_topology ((FixFabric) { .nodes = 3, .leaf = 2, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 });
  ScNodeType *const n = &t->types[0];
  n->has_nvlink = FALSE;
  n->pcie_bytes_per_s.value = 12e9;
  n->pcie_latency_s.value = 3e-6;
  n->pcie_gpus_per_switch = per_switch;
  n->nics = nics;
  return t;
}

static ScTopology *
two_switches (void)
{
  return pcie_boxes (2, 4);
}

static ScTopology *
one_nic_at_the_host (void)
{
  return pcie_boxes (1, 2);
}

static ScTopology *
nvlink_and_pcie (void)
{
  ScTopology *const t = pcie_boxes (8, 4);
  t->types[0].has_nvlink = TRUE;
  t->types[0].nvlink_domain_nodes = 1;
  return t;
}

static ScTopology *
rack_domains (void)
{
  ScTopology *const t = fix_topology ((FixFabric) { .nodes = 6, .gpus = 4, .leaf = 2 });
  t->types[0].nvlink_domain_nodes = 2;
  return t;
}

/* Two nodes of 8 GPUs and 8 NICs, then three of 4 GPUs and 2 slower NICs. */
static ScTopology *
unequal_nodes (void)
{
  ScTopology *const t = fix_topology ((FixFabric) { .nodes = 2, .leaf = 2 });
  t->types = g_renew (ScNodeType, t->types, 2);
  t->types[1] = t->types[0];
  t->types[1].name = g_strdup ("small");
  t->types[1].gpus = 4;
  t->types[1].nics = 2;
  t->types[1].nic_bytes_per_s.value = 25e9;
  t->runs = g_renew (ScNodeRun, t->runs, 2);
  t->runs[1] = (ScNodeRun) { .type = 1, .count = 3 };
  t->n_types = t->n_runs = 2;
  t->n_nodes = 5;
  t->n_gpus = 28;
  return t;
}

static ScTopology *
broken_parts (void)
{
  ScTopology *const t = plain_nodes ();
  fix_fault (t, SC_FAULT_NIC, 1, 3, 0);
  fix_fault (t, SC_FAULT_NIC, 1, 4, 0);
  fix_fault (t, SC_FAULT_NIC, 2, 7, 0);
  fix_fault (t, SC_FAULT_NIC, 0, 0, 0.5);
  fix_fault (t, SC_FAULT_NVLINK, 0, 5, 0.25);
  fix_fault (t, SC_FAULT_GPU, 3, 2, 0.9);
  return t;
}

/* DGX-1 with V100. */
static ScTopology *
cube_mesh (void)
{
  ScTopology *const t = fix_topology ((FixFabric) { .nodes = 3, .leaf = 2, .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 });
  t->types[0].nvlink_bytes_per_s.value = 22e9;
  fix_join (t, FIX_CUBE_MESH);
  return t;
}

/* Bridges between pairs of GPUs, the rest by PCIe. */
static ScTopology *
bridged_pairs (void)
{
  ScTopology *const t = pcie_boxes (8, 4);
  t->types[0].has_nvlink = TRUE;
  t->types[0].nvlink_domain_nodes = 1;
  fix_join (t, "014 234 454 674");
  return t;
}

/* 16 GPUs on 8 switches on 4 sockets, a NIC a switch. */
static ScTopology *
four_sockets (void)
{
  ScTopology *const t = fix_topology ((FixFabric) { .nodes = 2, .gpus = 16 });
  ScNodeType *const n = &t->types[0];
  n->has_nvlink = FALSE;
  n->pcie_bytes_per_s.value = 12e9;
  n->pcie_gpus_per_switch = 2;
  n->pcie_switches_per_socket = 2;
  n->pcie_socket_bytes_per_s.value = 9e9;
  n->nics = 8;
  return t;
}

static ScTopology *
through_the_host (void)
{
  ScTopology *const t = pcie_boxes (2, 4);
  t->types[0].pcie_through_host = TRUE;
  return t;
}

static ScTopology *
half_as_efficient (void)
{
  ScTopology *const t = three_tiers ();
  t->routing = SC_ROUTING_ADAPTIVE;
  t->routing_efficiency = 0.5;
  return t;
}

static ScTopology *
slow_uplinks (void)
{
  ScTopology *const t = three_tiers ();
  fix_tier_fault (t, 0, 1, 3, 0.25);
  fix_tier_fault (t, 1, 0, 0, 0.5);
  return t;
}

static ScTopology *
busy_neighbours (void)
{
  ScTopology *const t = three_tiers ();
  fix_background (t, 0, 5, 10e9);
  return t;
}

static ScTopology *(*const clusters[]) (void) = { plain_nodes,  three_tiers,         classic_leaves,
                                                  two_switches, one_nic_at_the_host, nvlink_and_pcie,
                                                  rack_domains, unequal_nodes,       broken_parts,
                                                  cube_mesh,    bridged_pairs,       four_sockets,
                                                  through_the_host, half_as_efficient, slow_uplinks,
                                                  busy_neighbours };

static ScFabric *
fabric_of (const ScTopology *t)
{
  ScFabric *const f = sc_fabric_new (t, t->n_gpus, NULL);
  ck_assert_ptr_nonnull (f);
  return f;
}

/* ---- what holds on every cluster ---- */

/* The other direction of a link's port. */
static ScLinkKind
opposite (ScLinkKind kind)
{
  switch (kind)
    {
    case SC_LINK_NVLINK_OUT: return SC_LINK_NVLINK_IN;
    case SC_LINK_NVLINK_IN: return SC_LINK_NVLINK_OUT;
    case SC_LINK_LANES: return SC_LINK_LANES;
    case SC_LINK_SOCKET: return SC_LINK_SOCKET;
    case SC_LINK_PCIE_OUT: return SC_LINK_PCIE_IN;
    case SC_LINK_PCIE_IN: return SC_LINK_PCIE_OUT;
    case SC_LINK_SWITCH_UP: return SC_LINK_SWITCH_DOWN;
    case SC_LINK_SWITCH_DOWN: return SC_LINK_SWITCH_UP;
    case SC_LINK_NIC_OUT: return SC_LINK_NIC_IN;
    case SC_LINK_NIC_IN: return SC_LINK_NIC_OUT;
    case SC_LINK_UP: return SC_LINK_DOWN;
    case SC_LINK_DOWN:
    default: return SC_LINK_UP;
    }
}

START_TEST (every_link_has_its_twin_in_the_other_direction)
{
  g_autoptr (ScTopology) t = clusters[_i] ();
  g_autoptr (ScFabric) f = fabric_of (t);
  ck_assert_uint_eq (f->n_links % 2, 0);
  for (guint32 l = 0; l < f->n_links; l += 2)
    {
      const ScLink *const a = &f->links[l], *const b = &f->links[l + 1];
      ck_assert_int_eq (b->kind, opposite (a->kind));
      if (a->kind == SC_LINK_LANES)
        ck_assert (f->gpus[a->owner].index == b->rail && f->gpus[b->owner].index == a->rail);
      else if (a->kind == SC_LINK_SOCKET)
        ck_assert (a->owner == b->owner && a->rail >> 8 == (b->rail & 255) && b->rail >> 8 == (a->rail & 255));
      else
        ck_assert (a->owner == b->owner && a->rail == b->rail);
      ck_assert (a->tier == b->tier && a->path == b->path);
      ck_assert_double_gt (a->capacity, 0);
      if (t->n_backgrounds == 0) /* others send round a ring: not the same both ways */
        ck_assert_double_eq (a->capacity, b->capacity);
      g_autofree char *name_a = sc_fabric_link_name (f, l), *name_b = sc_fabric_link_name (f, l + 1);
      ck_assert_str_ne (name_a, name_b);
    }
}
END_TEST

/* First link of a route: a port of @a; last: one of @b. */
static void
check_ends (const ScFabric *f, guint32 a, guint32 b, const ScRoute *r)
{
  const ScLink *const first = &f->links[r->links[0]], *const last = &f->links[r->links[r->n - 1]];
  if (first->kind == SC_LINK_NIC_OUT)
    must (first->owner == f->gpus[a].node && first->rail == f->gpus[a].nic);
  else
    must ((first->kind == SC_LINK_NVLINK_OUT || first->kind == SC_LINK_PCIE_OUT || first->kind == SC_LINK_LANES) && first->owner == a);
  if (last->kind == SC_LINK_NIC_IN)
    must (last->owner == f->gpus[b].node && last->rail == f->gpus[b].nic);
  else if (last->kind == SC_LINK_LANES)
    must (f->gpu_base[f->gpus[last->owner].node] + last->rail == b);
  else
    must ((last->kind == SC_LINK_NVLINK_IN || last->kind == SC_LINK_PCIE_IN) && last->owner == b);
}

START_TEST (every_route_leads_from_port_to_port_and_up_before_down)
{
  g_autoptr (ScTopology) t = clusters[_i] ();
  g_autoptr (ScFabric) f = fabric_of (t);
  for (guint32 a = 0; a < f->n_gpus; a++)
    for (guint32 b = 0; b < f->n_gpus; b++)
      {
        if (a == b)
          continue;
        ScRoute there, back;
        sc_fabric_route (f, a, b, &there);
        sc_fabric_route (f, b, a, &back);
        must (there.n >= 2 || (there.n == 1 && sc_fabric_lanes (f, a, b) > 0));
        check_ends (f, a, b, &there);
        for (guint i = 1; i < there.n; i++)
          must (sc_link_level (&f->links[there.links[i - 1]]) < sc_link_level (&f->links[there.links[i]])
                || (there.n == 2 && f->links[there.links[0]].kind == SC_LINK_LANES) /* over a GPU between */
                || t->types[0].pcie_through_host);                                  /* down to a NIC: FOLDING counts it in full */
        /* the way back is the same ports, turned round */
        must (back.n == there.n);
        must (back.latency_s == there.latency_s);
        must (back.crosses_nic == there.crosses_nic);
        for (guint i = 0; i < there.n; i++)
          must (back.links[there.n - 1 - i] == (there.links[i] ^ 1));
        must (there.crosses_nic == (f->domain[f->gpus[a].node] != f->domain[f->gpus[b].node]));
        guint nic_links = 0, up = 0, down = 0;
        for (guint i = 0; i < there.n; i++)
          {
            const ScLinkKind kind = f->links[there.links[i]].kind;
            nic_links += kind == SC_LINK_NIC_OUT || kind == SC_LINK_NIC_IN;
            up += kind == SC_LINK_UP;
            down += kind == SC_LINK_DOWN;
          }
        must (nic_links == (there.crosses_nic ? 2 : 0));
        must (up == down);
      }
}
END_TEST

START_TEST (a_smaller_job_builds_only_the_nodes_it_takes)
{
  g_autoptr (ScTopology) t = clusters[_i] ();
  g_autoptr (ScFabric) whole = fabric_of (t);
  for (guint n = 1; n <= t->n_gpus; n += 7)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (ScFabric) f = sc_fabric_new (t, n, &error);
      ck_assert_msg (f != NULL, "%u GPUs: %s", n, error != NULL ? error->message : "");
      must (f->n_gpus == n);
      must (f->n_nodes == whole->gpus[n - 1].node + 1);
      for (guint32 g = 0; g < n; g++)
        {
          must (f->gpus[g].node == whole->gpus[g].node && f->gpus[g].index == whole->gpus[g].index);
          must (f->gpus[g].nic == whole->gpus[g].nic);
          must (f->gpu_base[f->gpus[g].node] + f->gpus[g].index == g);
        }
      for (guint32 a = 0; a < n; a++)
        for (guint32 b = 0; b < n; b++)
          {
            ScRoute small, large;
            if (a == b || sc_fabric_is_mesh (f, a)) /* a GPU that the job leaves out passes nothing on */
              continue;
            sc_fabric_route (f, a, b, &small);
            sc_fabric_route (whole, a, b, &large);
            must (small.n == large.n);
            for (guint i = 0; i < small.n; i++) /* as wide as in the whole: free ports of a leaf count */
              must (fabs (f->links[small.links[i]].capacity - whole->links[large.links[i]].capacity) < 1);
          }
    }
}
END_TEST

/* ---- routes by hand ---- */

/* "nvlink-out nvlink-in", ... */
static char *
kinds_of (const ScFabric *f, guint32 a, guint32 b)
{
  static const char *const names[] = { "nvl>", "lanes", "pcie>", "sw^",  "skt",   "nic>",
                                       "up",   "down",  ">nic",  "swv", ">pcie", ">nvl" };
  ScRoute r;
  sc_fabric_route (f, a, b, &r);
  GString *const s = g_string_new (NULL);
  for (guint i = 0; i < r.n; i++)
    {
      const ScLink *const l = &f->links[r.links[i]];
      g_string_append_printf (s, "%s%s", i > 0 ? " " : "", names[l->kind]);
      if (l->kind == SC_LINK_UP || l->kind == SC_LINK_DOWN)
        g_string_append_printf (s, "%u", l->tier);
    }
  return g_string_free (s, FALSE);
}

#define assert_route(f, a, b, want) \
  do \
    { \
      g_autofree char *got = kinds_of (f, a, b); \
      ck_assert_str_eq (got, want); \
    } \
  while (0)

static void
assert_refused (const ScTopology *t, guint n_gpus, ScFabricError code, const char *part, const char *other_part)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScFabric) f = sc_fabric_new (t, n_gpus, &error);
  ck_assert_ptr_null (f);
  ck_assert (g_error_matches (error, SC_FABRIC_ERROR, (int) code));
  ck_assert_msg (strstr (error->message, part) != NULL && strstr (error->message, other_part) != NULL, "%s",
                 error->message);
}

START_TEST (inside_a_node_a_leaf_and_across)
{
  g_autoptr (ScTopology) t = plain_nodes (); /* 8 GPUs a node, two nodes a group of leaves */
  g_autoptr (ScFabric) f = fabric_of (t);
  assert_route (f, 0, 5, "nvl> >nvl");
  assert_route (f, 3, 11, "nic> >nic");           /* same rail, same leaf: no up-link */
  assert_route (f, 3, 12, "nic> up0 down0 >nic"); /* another rail: over the spine */
  assert_route (f, 3, 19, "nic> up0 down0 >nic"); /* same rail, another leaf */
  ScRoute r;
  sc_fabric_route (f, 0, 5, &r);
  ck_assert_double_eq (r.latency_s, 1e-6);
  sc_fabric_route (f, 3, 11, &r);
  ck_assert_double_eq (r.latency_s, 5e-6);
  sc_fabric_route (f, 3, 12, &r); /* each rail has its own leaf: up by the sender's, down by the receiver's */
  ck_assert_uint_eq (f->links[r.links[1]].rail, 3);
  ck_assert_uint_eq (f->links[r.links[2]].rail, 4);
  ck_assert (f->links[r.links[1]].owner == 0 && f->links[r.links[2]].owner == 0);
  sc_fabric_route (f, 3, 19, &r);
  ck_assert (f->links[r.links[1]].owner == 0 && f->links[r.links[2]].owner == 1);
  ck_assert (f->links[r.links[1]].rail == 3 && f->links[r.links[2]].rail == 3);
}
END_TEST

START_TEST (three_tiers_climb_no_higher_than_they_must)
{
  g_autoptr (ScTopology) t = three_tiers (); /* leaves of 2 nodes, pods of 2 leaves, 3 pods */
  g_autoptr (ScFabric) f = fabric_of (t);
  ScRoute r;
  assert_route (f, 0, 8, "nic> >nic");
  assert_route (f, 0, 16, "nic> up0 down0 >nic");
  assert_route (f, 0, 32, "nic> up0 up1 down1 down0 >nic");
  sc_fabric_route (f, 0, 8, &r);
  ck_assert_double_eq_tol (r.latency_s, 5e-6, 1e-18);
  sc_fabric_route (f, 0, 16, &r);
  ck_assert_double_eq_tol (r.latency_s, 6e-6, 1e-18);
  sc_fabric_route (f, 0, 32, &r);
  ck_assert_double_eq_tol (r.latency_s, 8e-6, 1e-18);
  /* 2 nodes of one 50 GB/s NIC a rail over 2: 50 GB/s; a pod gets 8 rails x 2 leaves of that, over 3 */
  ck_assert_double_eq_tol (f->links[r.links[1]].capacity, 50e9, 1);
  ck_assert_double_eq_tol (f->links[r.links[2]].capacity, 16 * 50e9 / 3, 1);
}
END_TEST

START_TEST (oversubscription_narrows_the_up_links)
{
  ScRoute r;
  for (guint over = 1; over <= 4; over++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .leaf = 4, .over = over });
      g_autoptr (ScFabric) f = fabric_of (t);
      sc_fabric_route (f, 2, 34, &r);
      ck_assert_double_eq_tol (f->links[r.links[1]].capacity, 4 * 50e9 / over, 1); /* one rail of 4 nodes */
      g_autoptr (ScTopology) c = fix_topology ((FixFabric) { .nodes = 8, .leaf = 4, .over = over, .classic = TRUE });
      g_autoptr (ScFabric) g = fabric_of (c);
      sc_fabric_route (g, 2, 34, &r);
      ck_assert_double_eq_tol (g->links[r.links[1]].capacity, 4 * 8 * 50e9 / over, 1); /* all NICs of 4 nodes */
      assert_route (g, 2, 13, "nic> >nic"); /* all rails on one leaf */
    }
}
END_TEST

START_TEST (pcie_switches_and_nics_behind_them)
{
  g_autoptr (ScTopology) t = two_switches (); /* GPUs 0-3 and NIC 0 on one switch, 4-7 and NIC 1 on the other */
  g_autoptr (ScFabric) f = fabric_of (t);
  ScRoute r;
  assert_route (f, 0, 3, "pcie> >pcie");
  assert_route (f, 0, 4, "pcie> sw^ swv >pcie");
  ck_assert (f->gpus[3].nic == 0 && f->gpus[4].nic == 1);
  assert_route (f, 3, 8, "pcie> nic> >nic >pcie");
  sc_fabric_route (f, 0, 4, &r);
  ck_assert_double_eq (r.latency_s, 3e-6);
  ck_assert_double_eq (f->links[r.links[1]].capacity, 4 * 12e9); /* as wide as its GPUs, where nothing is said */
  ck_assert (f->links[r.links[1]].rail == 0 && f->links[r.links[2]].rail == 1);

  fix_fault (t, SC_FAULT_NIC, 0, 0, 0); /* the NIC of the first switch dies: its GPUs go by the other switch */
  g_autoptr (ScFabric) g = fabric_of (t);
  ck_assert_uint_eq (g->gpus[0].nic, 1);
  assert_route (g, 0, 12, "pcie> sw^ swv nic> >nic >pcie");
  assert_route (g, 4, 12, "pcie> nic> >nic >pcie");
  assert_route (g, 12, 0, "pcie> nic> >nic sw^ swv >pcie");
}
END_TEST

START_TEST (a_nic_that_serves_several_switches_hangs_at_the_host)
{
  g_autoptr (ScTopology) t = one_nic_at_the_host ();
  t->types[0].pcie_uplink_bytes_per_s.value = 20e9;
  g_autoptr (ScFabric) f = fabric_of (t);
  ScRoute r;
  assert_route (f, 0, 9, "pcie> sw^ nic> >nic swv >pcie");
  sc_fabric_route (f, 0, 9, &r);
  ck_assert_double_eq (f->links[r.links[1]].capacity, 20e9);
}
END_TEST

START_TEST (nvlink_domains_over_several_nodes)
{
  g_autoptr (ScTopology) t = rack_domains (); /* pairs of nodes of 4 GPUs */
  g_autoptr (ScFabric) f = fabric_of (t);
  for (guint node = 0; node < 6; node++)
    ck_assert_uint_eq (f->domain[node], node / 2);
  assert_route (f, 0, 7, "nvl> >nvl"); /* another node of the domain */
  assert_route (f, 0, 8, "nic> up0 down0 >nic");
  assert_route (f, 4, 12, "nic> up0 down0 >nic");
  /* an odd number of nodes leaves the last domain half full */
  g_autoptr (ScFabric) five = sc_fabric_new (t, 20, NULL);
  ck_assert_uint_eq (five->domain[4], 2);
}
END_TEST

START_TEST (nodes_of_two_types)
{
  g_autoptr (ScTopology) t = unequal_nodes ();
  g_autoptr (ScFabric) f = fabric_of (t);
  ck_assert_uint_eq (f->n_nodes, 5);
  ck_assert_uint_eq (f->gpu_base[2], 16);
  ck_assert_uint_eq (f->gpu_base[4], 24);
  ck_assert_str_eq (sc_fabric_node_type (f, 15)->name, "node");
  ck_assert_str_eq (sc_fabric_node_type (f, 16)->name, "small");
  ck_assert (f->gpus[16].nic == 0 && f->gpus[17].nic == 0 && f->gpus[18].nic == 1); /* two GPUs a NIC */
  ck_assert_uint_ne (f->domain[1], f->domain[2]);
  ScRoute r;
  sc_fabric_route (f, 0, 16, &r);
  ck_assert_double_eq (f->links[r.links[0]].capacity, 50e9);
  ck_assert_double_eq (f->links[r.links[r.n - 1]].capacity, 25e9);
  assert_route (f, 16, 20, "nic> >nic"); /* nodes 2 and 3: one leaf */
}
END_TEST

START_TEST (a_job_may_begin_at_a_later_node)
{
  g_autoptr (ScTopology) t = plain_nodes (); /* leaves of nodes 0, 1 and 2, 3 */
  fix_fault (t, SC_FAULT_NIC, 1, 4, 0.5);
  fix_fault (t, SC_FAULT_GPU, 0, 0, 0); /* before the job */
  t->first_node = 1;
  ck_assert_uint_eq (sc_topology_job_gpus (t), 24);
  g_autoptr (ScFabric) f = sc_fabric_new (t, 24, NULL);
  ck_assert_ptr_nonnull (f);
  ck_assert (f->n_nodes == 3 && f->first_node == 1);
  ck_assert (f->gpus[0].node == 1 && f->gpus[8].node == 2 && f->gpus[23].node == 3);
  ScRoute r;
  assert_route (f, 0, 8, "nic> up0 down0 >nic"); /* nodes 1 and 2 */
  assert_route (f, 8, 16, "nic> >nic");          /* nodes 2 and 3 */
  sc_fabric_route (f, 4, 12, &r);
  ck_assert_double_eq (f->links[r.links[0]].capacity, 25e9);
  ck_assert_double_eq_tol (f->links[r.links[1]].capacity, 100e9, 1); /* the leaf is as wide as if node 0 were in use */
  assert_refused (t, 25, SC_FABRIC_ERROR_TOO_SMALL, "25", "24");
}
END_TEST

/* ---- faults ---- */

START_TEST (a_dead_nic_hands_its_gpus_to_the_next_living_one)
{
  g_autoptr (ScTopology) t = broken_parts ();
  g_autoptr (ScFabric) f = fabric_of (t);
  ck_assert_uint_eq (f->gpus[8 + 3].nic, 5); /* 3 and 4 are dead */
  ck_assert_uint_eq (f->gpus[8 + 4].nic, 5);
  ck_assert_uint_eq (f->gpus[8 + 5].nic, 5);
  ck_assert_uint_eq (f->gpus[16 + 7].nic, 0); /* after the last comes the first */
  ScRoute r;
  sc_fabric_route (f, 0, 8, &r);
  ck_assert_double_eq (f->links[r.links[0]].capacity, 25e9); /* at half speed, both ways */
  sc_fabric_route (f, 8, 0, &r);
  ck_assert_double_eq (f->links[r.links[r.n - 1]].capacity, 25e9);
  sc_fabric_route (f, 5, 0, &r);
  ck_assert_double_eq (f->links[r.links[0]].capacity, 450e9 * 0.25);
  ck_assert_double_eq_tol (f->gpus[26].speed, 0.9, 1e-6);
  ck_assert_double_eq (f->gpus[25].speed, 1);
  /* no route uses a dead NIC */
  for (guint32 a = 0; a < f->n_gpus; a++)
    for (guint32 b = 0; b < f->n_gpus; b++)
      if (a != b)
        {
          sc_fabric_route (f, a, b, &r);
          for (guint i = 0; i < r.n; i++)
            {
              const ScLink *const l = &f->links[r.links[i]];
              if (l->kind == SC_LINK_NIC_OUT || l->kind == SC_LINK_NIC_IN)
                ck_assert (!(l->owner == 1 && (l->rail == 3 || l->rail == 4)) && !(l->owner == 2 && l->rail == 7));
            }
        }
}
END_TEST

START_TEST (what_cannot_be_reached_is_refused)
{
  g_autoptr (ScTopology) small = plain_nodes ();
  assert_refused (small, 33, SC_FABRIC_ERROR_TOO_SMALL, "33", "32");

  g_autoptr (ScTopology) dead = plain_nodes ();
  fix_fault (dead, SC_FAULT_GPU, 1, 6, 0);
  assert_refused (dead, 32, SC_FABRIC_ERROR_UNREACHABLE, "GPU 6 of node 1", "dead");
  assert_refused (dead, 15, SC_FABRIC_ERROR_UNREACHABLE, "GPU 6 of node 1", "dead");
  g_autoptr (ScFabric) before_it = sc_fabric_new (dead, 14, NULL);
  ck_assert_ptr_nonnull (before_it);

  g_autoptr (ScTopology) alone = plain_nodes ();
  alone->types[0].has_nvlink = FALSE;
  assert_refused (alone, 32, SC_FABRIC_ERROR_UNREACHABLE, "neither NVLink nor PCIe", "node 0");

  g_autoptr (ScTopology) unplugged = plain_nodes ();
  fix_fault (unplugged, SC_FAULT_NVLINK, 2, 1, 0);
  assert_refused (unplugged, 32, SC_FABRIC_ERROR_UNREACHABLE, "GPU 1 of node 2", "NVLink");

  g_autoptr (ScTopology) offline = plain_nodes ();
  for (guint i = 0; i < 8; i++)
    fix_fault (offline, SC_FAULT_NIC, 1, i, 0);
  assert_refused (offline, 32, SC_FABRIC_ERROR_UNREACHABLE, "node 1", "no living NIC");
  g_autoptr (ScFabric) one_node = sc_fabric_new (offline, 8, NULL);
  ck_assert_ptr_nonnull (one_node);

  g_autoptr (ScTopology) no_nics = plain_nodes ();
  no_nics->types[0].nics = 0;
  assert_refused (no_nics, 9, SC_FABRIC_ERROR_UNREACHABLE, "node 0", "NIC");
  g_autoptr (ScFabric) inside = sc_fabric_new (no_nics, 8, NULL);
  ck_assert_ptr_nonnull (inside);
}
END_TEST

START_TEST (a_gpu_that_lost_nvlink_goes_by_pcie)
{
  g_autoptr (ScTopology) t = nvlink_and_pcie ();
  fix_fault (t, SC_FAULT_NVLINK, 0, 2, 0);
  g_autoptr (ScFabric) f = fabric_of (t);
  assert_route (f, 0, 1, "nvl> >nvl");
  assert_route (f, 0, 2, "pcie> >pcie");
  assert_route (f, 2, 5, "pcie> sw^ swv >pcie");
}
END_TEST

/* ---- layout ---- */

static const FixPlan plans[] = {
  { .tp = 8, .pp = 2, .dp = 4, .layers = 4 },
  { .tp = 4, .pp = 4, .vpp = 2, .dp = 3, .layers = 8, .microbatches = 4 },
  { .tp = 1, .pp = 3, .dp = 5, .layers = 3 },
  { .tp = 2, .pp = 1, .dp = 1, .layers = 1 },
  { .tp = 1, .pp = 2, .vpp = 3, .dp = 2, .layers = 6, .microbatches = 2 },
  { .tp = 1, .pp = 1, .dp = 7, .layers = 2 },
};

START_TEST (ranks_and_coordinates_map_one_to_one)
{
  for (guint order = 0; order < 2; order++)
    for (guint cp = 1; cp <= 2; cp++)
      {
        FixPlan plan = plans[_i];
        plan.rank_order = order == 0 ? SC_ORDER_TP_CP_EP_DP_PP : SC_ORDER_TP_CP_EP_PP_DP;
        g_autoptr (ScWorkload) w = fix_workload (plan);
        w->plan.cp = cp;
        const ScPlan *const p = &w->plan;
        const guint32 n = p->tp * p->cp * p->dp * p->pp;
        g_autofree guint8 *seen = g_new0 (guint8, n);
        for (guint32 r = 0; r < n; r++)
          {
            const ScCoord c = sc_layout_coord (p, r);
            ck_assert (c.tp < p->tp && c.cp < p->cp && c.dp < p->dp && c.pp < p->pp);
            ck_assert_uint_eq (sc_layout_rank (p, c), r);
            const guint k = c.tp + p->tp * (c.cp + p->cp * (c.dp + p->dp * c.pp));
            ck_assert_uint_eq (seen[k]++, 0);
            if (r > 0 && p->tp > 1 && r % p->tp > 0) /* tensor parallel is innermost in both orders */
              ck_assert_uint_eq (c.tp, sc_layout_coord (p, r - 1).tp + 1);
          }
        const ScCoord second = sc_layout_coord (p, p->tp * p->cp % n); /* what comes next differs */
        if (p->dp > 1 && p->pp > 1)
          ck_assert (order == 0 ? second.dp == 1 && second.pp == 0 : second.dp == 0 && second.pp == 1);
      }
}
END_TEST

START_TEST (groups_are_as_many_and_as_large_as_the_plan_says)
{
  for (guint order = 0; order < 2; order++)
    for (guint tied = 0; tied < 2; tied++)
      {
        FixPlan plan = plans[_i];
        plan.rank_order = order == 0 ? SC_ORDER_TP_CP_EP_DP_PP : SC_ORDER_TP_CP_EP_PP_DP;
        g_autoptr (ScWorkload) w = fix_workload (plan);
        w->model.tied_embeddings = tied > 0;
        g_autoptr (ScLayout) l = sc_layout_new (w);
        const ScPlan *const p = &w->plan;
        guint count[SC_N_COMMS] = { 0 };
        for (guint32 c = 0; c < l->n_comms; c++)
          {
            const ScComm *const comm = &l->comms[c];
            const guint32 *const m = l->members + comm->first;
            count[comm->kind]++;
            ck_assert_uint_ge (comm->n, 2);
            if (c > 0) /* kind by kind */
              ck_assert_uint_ge (comm->kind, l->comms[c - 1].kind);
            const ScCoord a = sc_layout_coord (p, m[0]), b = sc_layout_coord (p, m[comm->n - 1]);
            for (guint i = 1; i < comm->n && comm->kind < SC_COMM_PP_FORWARD; i++)
              ck_assert_uint_lt (m[i - 1], m[i]);
            switch (comm->kind)
              {
              case SC_COMM_TP:
                ck_assert (comm->n == p->tp && a.dp == b.dp && a.pp == b.pp && comm->stage == a.pp);
                break;
              case SC_COMM_DP:
                ck_assert (comm->n == p->dp && a.tp == b.tp && a.pp == b.pp && comm->stage == a.pp);
                break;
              case SC_COMM_PP_FORWARD:
                ck_assert (a.tp == b.tp && a.dp == b.dp && b.pp == (a.pp + 1) % p->pp && comm->stage == a.pp);
                break;
              case SC_COMM_PP_BACKWARD:
                ck_assert (a.tp == b.tp && a.dp == b.dp && a.pp == (b.pp + 1) % p->pp && comm->stage == a.pp);
                break;
              case SC_COMM_EMBEDDING: ck_assert (a.tp == b.tp && a.dp == b.dp && a.pp == 0 && b.pp == p->pp - 1); break;
              case SC_COMM_WORLD: ck_assert_uint_eq (comm->n, l->n_ranks); break;
              case SC_COMM_CP: /* see context_and_expert_groups_cut_a_stage_into_equal_parts() */
              case SC_COMM_EP:
              case SC_COMM_ETP:
              case SC_COMM_EXPERT_DP:
              case SC_COMM_SHARD:
              case SC_COMM_REPLICA:
              case SC_COMM_CP_A2A:
              case SC_COMM_CP_RING:
              case SC_COMM_KV:
              case SC_COMM_VOCAB:
              case SC_COMM_VOCAB_SYNC:
              case SC_N_COMMS:
              default: ck_abort ();
              }
          }
        const guint wraps = p->vpp > 1 ? p->pp : p->pp - 1; /* only chunks send from the last stage to the first */
        ck_assert_uint_eq (count[SC_COMM_TP], p->tp > 1 ? p->pp * p->dp : 0);
        ck_assert_uint_eq (count[SC_COMM_DP], p->dp > 1 ? p->pp * p->tp : 0);
        ck_assert_uint_eq (count[SC_COMM_PP_FORWARD], p->pp > 1 ? wraps * p->tp * p->dp : 0);
        ck_assert_uint_eq (count[SC_COMM_PP_BACKWARD], p->pp > 1 ? wraps * p->tp * p->dp : 0);
        ck_assert_uint_eq (count[SC_COMM_EMBEDDING], tied > 0 && p->pp > 1 ? p->tp * p->dp : 0);
        ck_assert_uint_eq (count[SC_COMM_WORLD], 1);
        /* and every rank finds its own */
        for (guint32 r = 0; r < l->n_ranks; r++)
          for (guint kind = 0; kind < SC_N_COMMS; kind++)
            for (guint sender = 0; sender < 2; sender++)
              {
                const guint32 c = sc_layout_comm_of (l, r, (ScCommKind) kind, sender > 0);
                const ScCoord at = sc_layout_coord (p, r);
                if (c == SC_NONE)
                  {
                    const gboolean end = kind == SC_COMM_PP_FORWARD ? at.pp == (sender ? p->pp - 1 : 0)
                                                                    : at.pp == (sender ? 0 : p->pp - 1);
                    ck_assert (count[kind] == 0 || (kind == SC_COMM_EMBEDDING && at.pp > 0 && at.pp < p->pp - 1)
                               || ((kind == SC_COMM_PP_FORWARD || kind == SC_COMM_PP_BACKWARD) && end && p->vpp == 1));
                    continue;
                  }
                ck_assert_uint_eq (l->comms[c].kind, kind);
                guint found = 0;
                for (guint i = 0; i < l->comms[c].n; i++)
                  found += l->members[l->comms[c].first + i] == r;
                ck_assert_uint_eq (found, 1);
                if (kind == SC_COMM_PP_FORWARD || kind == SC_COMM_PP_BACKWARD)
                  ck_assert_int_eq (l->members[l->comms[c].first] == r, sender > 0);
              }
      }
}
END_TEST

START_TEST (context_and_expert_groups_cut_a_stage_into_equal_parts)
{
  static const struct
  {
    guint tp, cp, dp, pp, ep, etp, shard, cp_a2a;
  } rows[] = {
    { 1, 1, 8, 1, 8, 1, 4, 0 }, { 2, 2, 4, 2, 4, 2, 4, 0 }, { 4, 1, 4, 2, 8, 1, 2, 0 }, { 2, 4, 2, 1, 4, 4, 2, 0 },
    { 1, 2, 4, 3, 1, 1, 8, 0 }, { 8, 1, 2, 2, 2, 8, 0, 0 }, { 2, 4, 2, 2, 1, 2, 0, 2 }, { 1, 8, 1, 1, 1, 1, 0, 2 }, { 1, 8, 2, 1, 1, 1, 0, 4 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint order = 0; order < 2; order++)
      {
        g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = rows[i].tp, .dp = rows[i].dp, .pp = rows[i].pp, .microbatches = 4, .layers = 6 });
        ScPlan *const p = &w->plan;
        p->cp = rows[i].cp;
        p->ep = rows[i].ep;
        p->etp = rows[i].etp;
        p->shard_group = rows[i].shard;
        p->cp_a2a = rows[i].cp_a2a;
        p->cp_comm = p->cp_a2a > 0 ? SC_CP_HIERARCHICAL : SC_CP_RING;
        p->rank_order = order == 0 ? SC_ORDER_TP_CP_EP_DP_PP : SC_ORDER_TP_CP_EP_PP_DP;
        w->model.experts = 8;
        w->model.top_k = 2;
        const guint stage = p->tp * p->cp * p->dp, data = p->cp * p->dp;
        const gboolean hybrid = p->shard_group > 0 && p->shard_group < data;
        const guint sizes[SC_N_COMMS] = { [SC_COMM_TP] = p->tp, [SC_COMM_DP] = data, [SC_COMM_CP] = p->cp, [SC_COMM_EP] = p->ep,
                                          [SC_COMM_ETP] = p->etp, [SC_COMM_EXPERT_DP] = stage / (p->ep * p->etp),
                                          [SC_COMM_SHARD] = hybrid ? p->shard_group : 0, [SC_COMM_REPLICA] = hybrid ? data / p->shard_group : 0,
                                          [SC_COMM_CP_A2A] = p->cp_a2a, [SC_COMM_CP_RING] = p->cp_a2a > 0 ? p->cp / p->cp_a2a : 0 };
        g_autoptr (ScLayout) l = sc_layout_new (w);
        for (guint kind = 0; kind < SC_N_COMMS; kind++)
          for (guint32 r = 0; r < l->n_ranks && sizes[kind] > 1; r++)
            {
              const guint32 c = sc_layout_comm_of (l, r, (ScCommKind) kind, FALSE);
              ck_assert_msg (c != SC_NONE, "row %u: rank %u has no %s group", i, r, sc_comm_kind_name ((ScCommKind) kind));
              ck_assert_uint_eq (l->comms[c].n, sizes[kind]);
              for (guint m = 0; m < l->comms[c].n; m++)
                {
                  const guint32 other = l->members[l->comms[c].first + m];
                  ck_assert_uint_eq (sc_layout_coord (p, other).pp, sc_layout_coord (p, r).pp);
                  ck_assert_uint_eq (sc_layout_comm_of (l, other, (ScCommKind) kind, FALSE), c); /* nobody is in two */
                }
            }
        /* two ranks that hold the same experts share no expert group: their data-parallel group and it meet in one rank */
        for (guint32 r = 0; r < l->n_ranks && p->ep > 1 && sizes[SC_COMM_EXPERT_DP] > 1; r++)
          {
            const ScComm *const dp = &l->comms[sc_layout_comm_of (l, r, SC_COMM_EXPERT_DP, FALSE)];
            const guint32 ep = sc_layout_comm_of (l, r, SC_COMM_EP, FALSE);
            guint both = 0;
            for (guint m = 0; m < dp->n; m++)
              both += sc_layout_comm_of (l, l->members[dp->first + m], SC_COMM_EP, FALSE) == ep;
            ck_assert_uint_eq (both, 1);
          }
      }
}
END_TEST

START_TEST (nvlink_domains_are_counted_from_node_0_wherever_the_job_begins)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 4 });
  t->types[0].nvlink_domain_nodes = 4;
  t->first_node = 2; /* nodes 2 and 3 end the first domain */
  g_autoptr (ScFabric) f = sc_fabric_new (t, 16, NULL);
  ck_assert_ptr_nonnull (f);
  ck_assert_uint_eq (f->domain[2], f->domain[3]);
  ck_assert_uint_ne (f->domain[3], f->domain[4]);
  ck_assert_uint_eq (f->domain[4], f->domain[5]);
}
END_TEST

START_TEST (a_gpu_without_nvlink_needs_a_nic_to_leave_its_node_inside_a_domain)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2, .gpus = 4 });
  t->types[0].nvlink_domain_nodes = 2;
  t->types[0].nics = 0;
  t->types[0].pcie_bytes_per_s.value = 20e9;
  g_autoptr (ScFabric) sound = sc_fabric_new (t, 8, NULL);
  ck_assert_ptr_nonnull (sound);
  fix_fault (t, SC_FAULT_NVLINK, 1, 2, 0);
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_fabric_new (t, 8, &error));
  ck_assert (g_error_matches (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_UNREACHABLE));
}
END_TEST

/* ---- meshes ---- */

START_TEST (direct_links_are_as_wide_as_their_number)
{
  g_autoptr (ScTopology) t = cube_mesh ();
  g_autoptr (ScFabric) f = fabric_of (t);
  ScRoute r;
  assert_route (f, 0, 1, "lanes");
  assert_route (f, 0, 5, "lanes lanes"); /* over 1 or 4, both no wider than one link: the lower */
  assert_route (f, 0, 8, "nic> >nic");
  ck_assert (sc_fabric_is_mesh (f, 0));
  ck_assert (sc_fabric_lanes (f, 0, 1) == 1 && sc_fabric_lanes (f, 3, 0) == 2 && sc_fabric_lanes (f, 0, 5) == 0);
  ck_assert (sc_fabric_lanes (f, 0, 8) == 0 && sc_fabric_lanes (f, 9, 8) == 1 && sc_fabric_lanes (f, 4, 4) == 0);
  sc_fabric_route (f, 0, 3, &r);
  ck_assert_double_eq (f->links[r.links[0]].capacity, 44e9);
  ck_assert_double_eq (r.latency_s, 1e-6);
  sc_fabric_route (f, 8, 13, &r);
  ck_assert_double_eq (r.latency_s, 2e-6);
  g_autofree char *first = sc_fabric_link_name (f, r.links[0]), *second = sc_fabric_link_name (f, r.links[1]);
  ck_assert_str_eq (first, "NVLink lanes GPU 8 to GPU 9");
  ck_assert_str_eq (second, "NVLink lanes GPU 9 to GPU 13");
  sc_fabric_route (f, 0, 7, &r); /* 3 and 4 have two links on both sides */
  ck_assert_uint_eq (f->links[r.links[0]].rail, 3);
}
END_TEST

START_TEST (a_mesh_passes_on_by_gpus_of_the_job_alone)
{
  g_autoptr (ScTopology) t = cube_mesh ();
  g_autoptr (ScFabric) six = sc_fabric_new (t, 6, NULL);
  assert_route (six, 0, 5, "lanes lanes");
  fix_fault (t, SC_FAULT_NVLINK, 0, 1, 0.5); /* 0-1 and 1-5 at half: over 4 now */
  g_autoptr (ScFabric) slow = sc_fabric_new (t, 6, NULL);
  ScRoute r;
  sc_fabric_route (slow, 0, 5, &r);
  ck_assert_uint_eq (slow->links[r.links[0]].rail, 4);
  sc_fabric_route (slow, 0, 1, &r);
  ck_assert_double_eq (slow->links[r.links[0]].capacity, 11e9);
  fix_fault (t, SC_FAULT_NVLINK, 0, 4, 0);
  assert_refused (t, 6, SC_FABRIC_ERROR_UNREACHABLE, "GPU 0 of node 0 cannot reach GPU 4", "no PCIe");
  t->types[0].pcie_bytes_per_s.value = 12e9;
  g_autoptr (ScFabric) dead = sc_fabric_new (t, 6, NULL);
  assert_route (dead, 0, 4, "pcie> >pcie");
  assert_route (dead, 0, 5, "lanes lanes");
  ck_assert_uint_eq (sc_fabric_lanes (dead, 0, 4), 0);
}
END_TEST

START_TEST (pairs_with_a_bridge_reach_the_others_by_pcie)
{
  g_autoptr (ScTopology) t = bridged_pairs ();
  g_autoptr (ScFabric) f = fabric_of (t);
  assert_route (f, 0, 1, "lanes");
  assert_route (f, 0, 2, "pcie> >pcie");
  assert_route (f, 7, 0, "pcie> sw^ swv >pcie");
  t->types[0].pcie_bytes_per_s.value = 0;
  assert_refused (t, 8, SC_FABRIC_ERROR_UNREACHABLE, "GPU 0 of node 0 cannot reach GPU 2", "no PCIe");
}
END_TEST

/* ---- hosts ---- */

START_TEST (what_crosses_sockets_takes_the_link_between_them)
{
  g_autoptr (ScTopology) t = four_sockets (); /* GPUs 0-3 on socket 0, 4-7 on 1, ... */
  g_autoptr (ScFabric) f = fabric_of (t);
  ScRoute r;
  assert_route (f, 0, 1, "pcie> >pcie");
  assert_route (f, 0, 2, "pcie> sw^ swv >pcie");
  for (guint a = 0; a < 16; a++)
    for (guint b = 0; b < 16; b++)
      if (a / 4 != b / 4)
        {
          assert_route (f, a, b, "pcie> sw^ skt swv >pcie");
          sc_fabric_route (f, a, b, &r);
          ck_assert_uint_eq (f->links[r.links[2]].rail, (a / 4) << 8 | b / 4);
          ck_assert_double_eq (f->links[r.links[2]].capacity, 9e9);
        }
  assert_route (f, 0, 16, "pcie> nic> >nic >pcie");
  sc_fabric_route (f, 13, 2, &r);
  g_autofree char *name = sc_fabric_link_name (f, r.links[2]);
  ck_assert_str_eq (name, "socket link 3 to 0 of node 0");

  fix_fault (t, SC_FAULT_NIC, 0, 1, 0); /* of switch 1: its GPUs take NIC 2 of switch 2, on the next socket */
  g_autoptr (ScFabric) g = fabric_of (t);
  assert_route (g, 2, 16, "pcie> sw^ skt swv nic> >nic >pcie");
  assert_route (g, 16, 2, "pcie> nic> >nic sw^ skt swv >pcie");

  t->n_faults = 0;
  t->types[0].nics = 1; /* serves all: at the host, on the socket of its first GPU */
  g_autoptr (ScFabric) h = fabric_of (t);
  assert_route (h, 1, 17, "pcie> sw^ nic> >nic swv >pcie");
  assert_route (h, 5, 17, "pcie> sw^ skt nic> >nic swv >pcie");
}
END_TEST

START_TEST (without_peer_to_peer_every_copy_climbs_to_the_host)
{
  g_autoptr (ScTopology) t = through_the_host ();
  g_autoptr (ScFabric) f = fabric_of (t);
  assert_route (f, 0, 1, "pcie> sw^ swv >pcie");
  assert_route (f, 0, 4, "pcie> sw^ swv >pcie");
  assert_route (f, 0, 8, "pcie> sw^ swv nic> >nic sw^ swv >pcie");
  t->types[0].pcie_gpus_per_switch = 8; /* a single switch has a way up, too */
  g_autoptr (ScFabric) one = fabric_of (t);
  assert_route (one, 0, 7, "pcie> sw^ swv >pcie");
}
END_TEST

/* ---- routing ---- */

START_TEST (adaptive_routing_reaches_part_of_a_bundle)
{
  g_autoptr (ScTopology) t = three_tiers (), half = half_as_efficient ();
  g_autoptr (ScFabric) f = fabric_of (t), g = fabric_of (half);
  ck_assert_uint_eq (f->n_links, g->n_links);
  for (guint32 l = 0; l < f->n_links; l++)
    {
      const gboolean tier = f->links[l].kind == SC_LINK_UP || f->links[l].kind == SC_LINK_DOWN;
      ck_assert_double_eq (g->links[l].capacity, f->links[l].capacity * (tier ? 0.5 : 1));
    }
  t->routing_efficiency = 0.5; /* of no concern to ideal routing */
  g_autoptr (ScFabric) h = fabric_of (t);
  ck_assert_double_eq (h->links[h->tier_up[0][0]].capacity, f->links[f->tier_up[0][0]].capacity);
}
END_TEST

static ScTopology *
hashed (guint flows)
{
  ScTopology *const t = three_tiers ();
  t->routing = SC_ROUTING_ECMP;
  t->flows_per_connection = flows;
  t->tiers[0].paths = 4;
  t->tiers[1].paths = 16;
  return t;
}

START_TEST (a_flow_keeps_to_one_path_of_each_bundle)
{
  g_autoptr (ScTopology) t = hashed (8), ideal = three_tiers ();
  g_autoptr (ScFabric) f = fabric_of (t), whole = fabric_of (ideal);
  ck_assert (f->flows == 8 && whole->flows == 1 && f->n_paths[0] == 4 && f->n_paths[1] == 16 && whole->n_paths[1] == 1);
  guint counts[2][16] = { { 0 } };
  for (guint32 a = 0; a < f->n_gpus; a++)
    for (guint32 b = 0; b < f->n_gpus; b++)
      for (guint flow = 0; flow < (a == b ? 0 : f->flows); flow++)
        {
          ScRoute r, again, wide;
          sc_fabric_route_flow (f, a, f->gpus[a].nic, b, f->gpus[b].nic, flow, &r);
          sc_fabric_route_flow (f, a, f->gpus[a].nic, b, f->gpus[b].nic, flow, &again);
          sc_fabric_route (whole, a, b, &wide);
          must (r.n == wide.n && r.n == again.n && r.latency_s == wide.latency_s);
          for (guint i = 0; i < r.n; i++)
            {
              const ScLink *const l = &f->links[r.links[i]], *const w = &whole->links[wide.links[i]];
              must (r.links[i] == again.links[i]);
              must (l->kind == w->kind && l->owner == w->owner && l->rail == w->rail && l->tier == w->tier);
              const gboolean tier = l->kind == SC_LINK_UP || l->kind == SC_LINK_DOWN;
              must (fabs (l->capacity * (tier ? f->n_paths[l->tier] : 1) - w->capacity) < 1);
              must (f->links[r.links[r.n - 1 - i]].path == l->path); /* down by the spine that it went up to */
              if (l->kind == SC_LINK_UP)
                counts[l->tier][l->path]++;
            }
        }
  for (guint tier = 0; tier < 2; tier++) /* all paths alike, but for the luck of the draw: 5 sigma */
    {
      double sum = 0;
      for (guint p = 0; p < t->tiers[tier].paths; p++)
        sum += counts[tier][p];
      const double mean = sum / t->tiers[tier].paths;
      ck_assert_double_gt (mean, 1000);
      for (guint p = 0; p < t->tiers[tier].paths; p++)
        ck_assert_double_lt (fabs (counts[tier][p] - mean), 5 * sqrt (mean));
    }
}
END_TEST

/* Worked out apart from this program: another machine, or another day, must give the same. */
START_TEST (paths_are_the_same_everywhere)
{
  static const guint8 noted[] = { 3, 0, 3, 6, 3, 7, 1, 0, 1, 1, 0, 6, 0, 6, 0, 15, 1, 9, 0, 11, 3, 5, 2, 0 };
  g_autoptr (ScTopology) t = hashed (4);
  g_autoptr (ScFabric) f = fabric_of (t);
  guint n = 0;
  for (guint32 a = 0; a < 3; a++)
    for (guint flow = 0; flow < 4; flow++)
      {
        ScRoute r;
        sc_fabric_route_flow (f, a, f->gpus[a].nic, 40 + a, f->gpus[40 + a].nic, flow, &r);
        ck_assert_uint_eq (f->links[r.links[1]].path, noted[n]);
        ck_assert_uint_eq (f->links[r.links[2]].path, noted[n + 1]);
        n += 2;
      }
  ck_assert_uint_eq (n, G_N_ELEMENTS (noted));
  /* and where the job begins does not matter */
  t->first_node = 1;
  g_autoptr (ScFabric) g = sc_fabric_new (t, 80, NULL);
  for (guint32 a = 8; a < 20; a++)
    {
      ScRoute r, s;
      sc_fabric_route (f, a, a + 32, &r);
      sc_fabric_route (g, a - 8, a + 24, &s);
      ck_assert_uint_eq (f->links[r.links[1]].path, g->links[s.links[1]].path);
    }
}
END_TEST

/* Expected load of the fullest of n paths that n flows choose among, by the thousand draws: 2.597 for 8, 3.078 for 16
 * (balls into bins; exact values of the multinomial). */
START_TEST (flows_collide_as_often_as_chance_has_it)
{
  static const struct { guint n; double most; } rows[] = { { 8, 2.597 }, { 16, 3.078 } };
  for (guint row = 0; row < G_N_ELEMENTS (rows); row++)
    {
      const guint n = rows[row].n;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 512, .leaf = n, .classic = TRUE });
      t->types[0].gpus = t->types[0].nics = 1;
      t->n_gpus = 512;
      t->routing = SC_ROUTING_ECMP;
      t->tiers[0].paths = n;
      g_autoptr (ScFabric) f = fabric_of (t);
      double sum = 0;
      guint draws = 0;
      for (guint32 from = 0; from < 512; from += n)
        for (guint32 to = 0; to < 512; to += n)
          {
            if (from == to)
              continue;
            guint load[16] = { 0 }, most = 0;
            for (guint i = 0; i < n; i++)
              {
                ScRoute r;
                sc_fabric_route (f, from + i, to + i, &r);
                const guint here = ++load[f->links[r.links[1]].path];
                most = MAX (most, here);
              }
            sum += most;
            draws++;
          }
      ck_assert_double_eq_tol (sum / draws, rows[row].most, 5 * 0.75 / sqrt (draws)); /* 5 standard errors */
    }
}
END_TEST

START_TEST (link_names_say_where)
{
  g_autoptr (ScTopology) t = hashed (1);
  g_autoptr (ScFabric) f = fabric_of (t);
  static const struct { guint tier, unit, offset; const char *name; } rows[] = {
    { 0, 4, 2 * 2 * 4, "leaf 4 up-links, rail 2, path 0" },
    { 0, 4, 2 * 2 * 4 + 7, "leaf 4 down-links, rail 2, path 3" },
    { 1, 2, 2 * 11, "fabric.tiers.1 unit 2 up-links, path 11" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = sc_fabric_link_name (f, f->tier_up[rows[i].tier][rows[i].unit] + rows[i].offset);
      ck_assert_str_eq (name, rows[i].name);
    }
  g_autoptr (ScTopology) classic = classic_leaves ();
  g_autoptr (ScFabric) g = fabric_of (classic);
  g_autofree char *plain = sc_fabric_link_name (g, g->tier_up[0][1] + 1);
  ck_assert_str_eq (plain, "leaf 1 down-links");
  for (guint k = 0; k < SC_N_LINK_KINDS; k++)
    ck_assert_msg (sc_link_kind_name ((ScLinkKind) k) != NULL, "kind %u has no name", k);
}
END_TEST

/* ---- up-links that are slow, dead, or taken ---- */

START_TEST (a_slow_bundle_is_slow_both_ways)
{
  g_autoptr (ScTopology) t = slow_uplinks (), sound = three_tiers ();
  g_autoptr (ScFabric) f = fabric_of (t), whole = fabric_of (sound);
  for (guint32 l = 0; l < f->n_links; l++)
    {
      const ScLink *const k = &f->links[l];
      const gboolean tier = k->kind == SC_LINK_UP || k->kind == SC_LINK_DOWN;
      const double factor = tier && k->tier == 0 && k->owner == 1 && k->rail == 3 ? 0.25 : tier && k->tier == 1 && k->owner == 0 ? 0.5 : 1;
      ck_assert_double_eq (k->capacity, whole->links[l].capacity * factor);
    }
  t->routing = SC_ROUTING_ECMP;
  t->tiers[0].paths = 4;
  g_autoptr (ScFabric) hash = fabric_of (t);
  for (guint p = 0; p < 8; p++)
    ck_assert_double_eq (hash->links[hash->tier_up[0][1] + 2 * 3 * 4 + p].capacity, 50e9 / 4 * 0.25);
}
END_TEST

START_TEST (dead_uplinks_are_refused_where_a_job_needs_them)
{
  g_autoptr (ScTopology) t = three_tiers (); /* leaves of 2 nodes, pods of 4 */
  fix_tier_fault (t, 0, 1, 3, 0);            /* below it nodes 2 and 3 */
  assert_refused (t, 96, SC_FABRIC_ERROR_UNREACHABLE, "leaf 1 up-links, rail 3 are dead", "only way from the nodes below");
  assert_refused (t, 17, SC_FABRIC_ERROR_UNREACHABLE, "leaf 1", "only way");
  g_autoptr (ScFabric) before = sc_fabric_new (t, 16, NULL);
  ck_assert_ptr_nonnull (before);
  t->first_node = 2;
  assert_refused (t, 16, SC_FABRIC_ERROR_UNREACHABLE, "leaf 1", "only way to other rails");
  g_autoptr (ScFabric) one_node = sc_fabric_new (t, 8, NULL);
  ck_assert_ptr_nonnull (one_node);
  t->first_node = 4;
  g_autoptr (ScFabric) behind = sc_fabric_new (t, 64, NULL);
  ck_assert_ptr_nonnull (behind);

  g_autoptr (ScTopology) pod = three_tiers ();
  fix_tier_fault (pod, 1, 0, 0, 0);
  g_autoptr (ScFabric) inside = sc_fabric_new (pod, 32, NULL); /* nothing leaves the pod */
  ck_assert_ptr_nonnull (inside);
  assert_refused (pod, 33, SC_FABRIC_ERROR_UNREACHABLE, "fabric.tiers.1 unit 0 up-links are dead", "only way");
}
END_TEST

START_TEST (others_take_their_share_of_every_link_on_their_way)
{
  g_autoptr (ScTopology) t = busy_neighbours (), idle = three_tiers (); /* nodes 0 to 4, 10 GB/s a NIC: 0>1>2>3>4>0 */
  g_autoptr (ScFabric) f = fabric_of (t), whole = fabric_of (idle);
  for (guint32 l = 0; l < f->n_links; l++)
    {
      const ScLink *const k = &f->links[l];
      double taken = 0;
      if (k->kind == SC_LINK_NIC_OUT || k->kind == SC_LINK_NIC_IN)
        taken = k->owner < 5 ? 10e9 : 0;
      else if ((k->kind == SC_LINK_UP || k->kind == SC_LINK_DOWN) && k->tier == 0)
        taken = k->owner < 3 ? 10e9 : 0; /* 1>2, 3>4 and 4>0 leave a leaf, each rail on its own */
      else if (k->kind == SC_LINK_UP || k->kind == SC_LINK_DOWN)
        taken = k->owner < 2 ? 8 * 10e9 : 0; /* 3>4 and 4>0 leave a pod */
      ck_assert_double_eq_tol (k->capacity, whole->links[l].capacity - taken, 1);
    }
  /* those outside a job share its up-links, but not its NICs */
  t->first_node = 5;
  t->backgrounds[0].first_node = 4;
  t->backgrounds[0].nodes = 3; /* 4>5>6>4 */
  g_autoptr (ScFabric) job = sc_fabric_new (t, 8, NULL);
  ck_assert_ptr_nonnull (job);
  ck_assert_double_eq_tol (job->links[job->nic_out[5]].capacity, 40e9, 1);
  ck_assert_double_eq_tol (job->links[job->tier_up[0][2]].capacity, 40e9, 1); /* 5>6 up */
  ck_assert_double_eq_tol (job->links[job->tier_up[0][2] + 1].capacity, 40e9, 1); /* 6>4 down */

  /* hashed, the sum over the paths is the same */
  g_autoptr (ScTopology) h = hashed (8);
  fix_background (h, 0, 5, 1e9);
  g_autoptr (ScFabric) g = fabric_of (h);
  double sum = 0;
  for (guint p = 0; p < 4; p++)
    sum += g->links[g->tier_up[0][0] + 2 * p].capacity;
  ck_assert_double_eq_tol (sum, 50e9 - 1e9, 1);
}
END_TEST

START_TEST (others_must_leave_something)
{
  g_autoptr (ScTopology) t = three_tiers ();
  fix_background (t, 0, 2, 49e9);
  g_autoptr (ScFabric) f = fabric_of (t);
  ck_assert_double_eq_tol (f->links[f->nic_out[0]].capacity, 1e9, 1);
  fix_background (t, 1, 2, 0.6e9);
  assert_refused (t, 96, SC_FABRIC_ERROR_CAPACITY, "99.2 % of what NIC 0 out of node 1 can carry", "less than 99 %");
  g_autoptr (ScFabric) elsewhere = sc_fabric_new (t, 8, NULL); /* node 0 alone */
  ck_assert_ptr_nonnull (elsewhere);
  fix_fault (t, SC_FAULT_NIC, 1, 0, 0); /* a dead NIC takes no traffic, so the next one is named */
  assert_refused (t, 96, SC_FABRIC_ERROR_CAPACITY, "NIC 1 out of node 1", "less than 99 %");
}
END_TEST

START_TEST (a_link_without_capacity_and_too_many_links_are_refused)
{
  g_autoptr (ScTopology) t = plain_nodes ();
  t->types[0].nic_bytes_per_s.value = 0;
  assert_refused (t, 32, SC_FABRIC_ERROR_CAPACITY, "NIC 0 out of node 0", "capacity of 0");
  g_autoptr (ScTopology) many = fix_topology ((FixFabric) { .nodes = 2000, .leaf = 1 });
  many->routing = SC_ROUTING_ECMP;
  many->tiers[0].paths = 1024;
  assert_refused (many, many->n_gpus, SC_FABRIC_ERROR_TOO_LARGE, "/fabric/tiers/0", "1024 paths");
}
END_TEST

static Suite *
fabric_suite (void)
{
  Suite *const s = suite_create ("fabric");
  TCase *const every = tcase_create ("every cluster");
  tcase_set_timeout (every, 120);
  tcase_add_test (every, a_gpu_without_nvlink_needs_a_nic_to_leave_its_node_inside_a_domain);
  tcase_add_test (every, nvlink_domains_are_counted_from_node_0_wherever_the_job_begins);
  tcase_add_loop_test (every, every_link_has_its_twin_in_the_other_direction, 0, G_N_ELEMENTS (clusters));
  tcase_add_loop_test (every, every_route_leads_from_port_to_port_and_up_before_down, 0, G_N_ELEMENTS (clusters));
  tcase_add_loop_test (every, a_smaller_job_builds_only_the_nodes_it_takes, 0, G_N_ELEMENTS (clusters));
  suite_add_tcase (s, every);
  TCase *const routes = tcase_create ("routes");
  tcase_add_test (routes, inside_a_node_a_leaf_and_across);
  tcase_add_test (routes, three_tiers_climb_no_higher_than_they_must);
  tcase_add_test (routes, oversubscription_narrows_the_up_links);
  tcase_add_test (routes, pcie_switches_and_nics_behind_them);
  tcase_add_test (routes, a_nic_that_serves_several_switches_hangs_at_the_host);
  tcase_add_test (routes, nvlink_domains_over_several_nodes);
  tcase_add_test (routes, nodes_of_two_types);
  tcase_add_test (routes, a_job_may_begin_at_a_later_node);
  suite_add_tcase (s, routes);
  tcase_add_test (routes, link_names_say_where);
  TCase *const mesh = tcase_create ("meshes");
  tcase_add_test (mesh, direct_links_are_as_wide_as_their_number);
  tcase_add_test (mesh, a_mesh_passes_on_by_gpus_of_the_job_alone);
  tcase_add_test (mesh, pairs_with_a_bridge_reach_the_others_by_pcie);
  suite_add_tcase (s, mesh);
  TCase *const hosts = tcase_create ("hosts");
  tcase_add_test (hosts, what_crosses_sockets_takes_the_link_between_them);
  tcase_add_test (hosts, without_peer_to_peer_every_copy_climbs_to_the_host);
  suite_add_tcase (s, hosts);
  TCase *const routing = tcase_create ("routing");
  tcase_add_test (routing, adaptive_routing_reaches_part_of_a_bundle);
  tcase_add_test (routing, a_flow_keeps_to_one_path_of_each_bundle);
  tcase_add_test (routing, paths_are_the_same_everywhere);
  tcase_add_test (routing, flows_collide_as_often_as_chance_has_it);
  suite_add_tcase (s, routing);
  TCase *const taken = tcase_create ("slow, dead or taken");
  tcase_add_test (taken, a_slow_bundle_is_slow_both_ways);
  tcase_add_test (taken, dead_uplinks_are_refused_where_a_job_needs_them);
  tcase_add_test (taken, others_take_their_share_of_every_link_on_their_way);
  tcase_add_test (taken, others_must_leave_something);
  tcase_add_test (taken, a_link_without_capacity_and_too_many_links_are_refused);
  suite_add_tcase (s, taken);
  TCase *const faults = tcase_create ("faults");
  tcase_add_test (faults, a_dead_nic_hands_its_gpus_to_the_next_living_one);
  tcase_add_test (faults, what_cannot_be_reached_is_refused);
  tcase_add_test (faults, a_gpu_that_lost_nvlink_goes_by_pcie);
  suite_add_tcase (s, faults);
  TCase *const layout = tcase_create ("layout");
  tcase_add_loop_test (layout, ranks_and_coordinates_map_one_to_one, 0, G_N_ELEMENTS (plans));
  tcase_add_loop_test (layout, groups_are_as_many_and_as_large_as_the_plan_says, 0, G_N_ELEMENTS (plans));
  tcase_add_test (layout, context_and_expert_groups_cut_a_stage_into_equal_parts);
  suite_add_tcase (s, layout);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (fabric_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
