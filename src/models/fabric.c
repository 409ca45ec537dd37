/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fabric.c - numbers the links of a topology and finds routes by arithmetic, never by search. */
#include "models/fabric.h"
#include "sim/types.h"

G_DEFINE_QUARK (sc-fabric-error-quark, sc_fabric_error)

G_STATIC_ASSERT (G_N_ELEMENTS (((ScFabric *) 0)->tier_up) == 8);

static guint32
add_link (GArray *links, ScLinkKind kind, guint32 owner, guint rail, guint tier, double capacity)
{
  const ScLink link = { .kind = kind, .tier = (guint8) tier, .rail = (guint16) rail, .owner = owner, .capacity = capacity };
  g_array_append_val (links, link);
  return links->len - 1;
}

/* Both directions of one port; returns the first, which leaves. */
static guint32
add_pair (GArray *links, ScLinkKind out, ScLinkKind in, guint32 owner, guint rail, guint tier, double capacity)
{
  const guint32 first = add_link (links, out, owner, rail, tier, capacity);
  add_link (links, in, owner, rail, tier, capacity);
  return first;
}

/* The faults of each node: index[first[node] .. first[node + 1]). */
typedef struct
{
  const ScFault *all;
  guint32 *first;
  guint32 *index;
} Faults;

static Faults
faults_new (const ScTopology *topology, guint32 n_nodes)
{
  Faults f = { topology->faults, g_new0 (guint32, n_nodes + 1), g_new (guint32, MAX (topology->n_faults, 1)) };
  for (guint i = 0; i < topology->n_faults; i++)
    if (f.all[i].node < n_nodes)
      f.first[f.all[i].node + 1]++;
  for (guint32 node = 0; node < n_nodes; node++)
    f.first[node + 1] += f.first[node];
  g_autofree guint32 *at = g_memdup2 (f.first, (n_nodes + 1) * sizeof *at);
  for (guint i = 0; i < topology->n_faults; i++)
    if (f.all[i].node < n_nodes)
      f.index[at[f.all[i].node]++] = i;
  return f;
}

static void
faults_clear (Faults *f)
{
  g_free (f->first);
  g_free (f->index);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Faults, faults_clear)

static double
fault_factor (const Faults *faults, ScFaultKind kind, guint node, guint index)
{
  double factor = 1;
  for (guint32 i = faults->first[node]; i < faults->first[node + 1]; i++)
    {
      const ScFault *const f = &faults->all[faults->index[i]];
      if (f->kind == kind && f->index == index)
        factor *= f->factor;
    }
  return factor;
}

static guint
n_switches (const ScNodeType *type)
{
  return type->pcie_gpus_per_switch > 0 ? (type->gpus + type->pcie_gpus_per_switch - 1) / type->pcie_gpus_per_switch : 0;
}

/* The NIC that GPU @index uses: its own, or the next living one of the node. */
static guint16
living_nic (const Faults *faults, const ScNodeType *type, guint node, guint index)
{
  const guint own = index * type->nics / type->gpus;
  for (guint i = 0; i < type->nics; i++)
    {
      const guint nic = (own + i) % type->nics;
      if (fault_factor (faults, SC_FAULT_NIC, node, nic) > 0)
        return (guint16) nic;
    }
  return SC_NO_NIC;
}

/* Links inside and at the edge of @node; its first GPU is @base. */
static gboolean
build_node (ScFabric *f, const Faults *faults, GArray *links, guint node, guint32 base, GError **error)
{
  const ScTopology *const topology = f->topology;
  const ScNodeType *const type = sc_topology_node_type (topology, node);
  const guint32 n_here = MIN (type->gpus, f->n_gpus - base);
  f->gpu_base[node] = base;
  f->nic_out[node] = f->switch_up[node] = SC_NONE;
  for (guint i = 0; i < n_here; i++)
    {
      const guint32 gpu = base + i;
      const double speed = fault_factor (faults, SC_FAULT_GPU, node, i);
      const double nvlink = fault_factor (faults, SC_FAULT_NVLINK, node, i);
      if (speed <= 0)
        {
          g_set_error (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_UNREACHABLE,
                       "/faults: GPU %u of node %u is dead, but the job takes it (use fewer GPUs, or take it out of the nodes)",
                       i, node);
          return FALSE;
        }
      f->gpus[gpu] = (ScGpu) { .node = node, .index = (guint16) i, .speed = (float) speed,
                               .nic = type->nics > 0 ? living_nic (faults, type, node, i) : SC_NO_NIC };
      f->nvlink_out[gpu] = type->has_nvlink && nvlink > 0
                             ? add_pair (links, SC_LINK_NVLINK_OUT, SC_LINK_NVLINK_IN, gpu, 0, 0,
                                         type->nvlink_bytes_per_s.value * nvlink)
                             : SC_NONE;
      f->pcie_out[gpu] = type->pcie_bytes_per_s.value > 0
                           ? add_pair (links, SC_LINK_PCIE_OUT, SC_LINK_PCIE_IN, gpu, 0, 0, type->pcie_bytes_per_s.value)
                           : SC_NONE;
      if (f->nvlink_out[gpu] == SC_NONE && f->pcie_out[gpu] == SC_NONE && n_here > 1)
        {
          g_set_error (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_UNREACHABLE,
                       "/node_types/%s: GPU %u of node %u has neither NVLink nor PCIe to reach the others of its node by",
                       type->name, i, node);
          return FALSE;
        }
    }
  if (type->pcie_bytes_per_s.value > 0 && n_switches (type) > 1)
    for (guint i = 0; i < n_switches (type); i++)
      {
        const double uplink = type->pcie_uplink_bytes_per_s.value > 0
                                ? type->pcie_uplink_bytes_per_s.value
                                : type->pcie_bytes_per_s.value * type->pcie_gpus_per_switch;
        const guint32 link = add_pair (links, SC_LINK_SWITCH_UP, SC_LINK_SWITCH_DOWN, node, i, 0, uplink);
        if (i == 0)
          f->switch_up[node] = link;
      }
  for (guint i = 0; i < type->nics; i++)
    {
      const double factor = fault_factor (faults, SC_FAULT_NIC, node, i);
      const guint32 link = add_pair (links, SC_LINK_NIC_OUT, SC_LINK_NIC_IN, node, i, 0,
                                     type->nic_bytes_per_s.value * (factor > 0 ? factor : 1)); /* no route uses a dead one */
      if (i == 0)
        f->nic_out[node] = link;
    }
  return TRUE;
}

/* Units of tier @t that hold @node. */
static guint
unit_of (const ScTopology *topology, guint node, guint t)
{
  guint unit = node;
  for (guint i = 0; i <= t; i++)
    unit /= topology->tiers[i].children;
  return unit;
}

/* Up- and down-link bundles of every tier: what hangs below, over the oversubscription. */
static void
build_tiers (ScFabric *f, GArray *links)
{
  const ScTopology *const topology = f->topology;
  guint max_nics = 1;
  for (guint i = 0; i < topology->n_types; i++)
    max_nics = MAX (max_nics, topology->types[i].nics);
  for (guint t = 0; t < topology->n_tiers; t++)
    {
      const guint n_units = unit_of (topology, f->first_node + f->n_nodes - 1, t) + 1;
      const guint rails = t == 0 && topology->rail_optimised ? max_nics : 1;
      g_autofree double *below = g_new0 (double, (gsize) n_units * rails); /* capacity that enters from below */
      double factor = 1; /* what the tiers below let through */
      for (guint i = 0; i < t; i++)
        factor /= topology->tiers[i].oversubscription;
      for (guint unit = 0; unit < n_units; unit++)
        {
          guint64 span = 1; /* nodes below a full unit */
          for (guint i = 0; i <= t; i++)
            span = MIN (span * topology->tiers[i].children, topology->n_nodes);
          const guint first = (guint) (unit * span), end = (guint) MIN (first + span, topology->n_nodes);
          for (guint node = first; node < end; node++)
            {
              const ScNodeType *const type = sc_topology_node_type (topology, node);
              for (guint nic = 0; nic < type->nics; nic++)
                below[(gsize) unit * rails + (rails > 1 ? nic : 0)] += type->nic_bytes_per_s.value * factor;
            }
          /* The last unit may have free ports: its switches are as wide as the others'. */
          for (guint rail = 0; rail < rails; rail++)
            below[(gsize) unit * rails + rail] *= (double) span / (end - first);
        }
      f->n_rails[t] = rails;
      f->tier_up[t] = g_new (guint32, n_units);
      for (guint unit = 0; unit < n_units; unit++)
        for (guint rail = 0; rail < rails; rail++)
          {
            const double up = below[(gsize) unit * rails + rail] / topology->tiers[t].oversubscription;
            const guint32 link = add_pair (links, SC_LINK_UP, SC_LINK_DOWN, unit, rail, t, up > 0 ? up : 1);
            if (rail == 0)
              f->tier_up[t][unit] = link;
          }
    }
}

ScFabric *
sc_fabric_new (const ScTopology *topology, guint n_gpus, GError **error)
{
  g_return_val_if_fail (n_gpus > 0, NULL);
  if (n_gpus > sc_topology_job_gpus (topology))
    {
      g_set_error (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_TOO_SMALL, "the plan needs %u GPUs, the topology has %u",
                   n_gpus, sc_topology_job_gpus (topology));
      return NULL;
    }
  g_assert (topology->n_tiers <= 8);
  g_autoptr (ScFabric) f = g_new0 (ScFabric, 1);
  f->topology = topology;
  f->n_gpus = n_gpus;
  f->first_node = topology->first_node;
  for (guint32 covered = 0; covered < n_gpus; f->n_nodes++)
    covered += sc_topology_node_type (topology, f->first_node + f->n_nodes)->gpus;
  const guint32 end_node = f->first_node + f->n_nodes;
  f->gpus = g_new0 (ScGpu, n_gpus);
  f->nvlink_out = g_new (guint32, n_gpus);
  f->pcie_out = g_new (guint32, n_gpus);
  f->gpu_base = g_new0 (guint32, end_node);
  f->domain = g_new0 (guint32, end_node);
  f->nic_out = g_new0 (guint32, end_node);
  f->switch_up = g_new0 (guint32, end_node);

  g_autoptr (GArray) links = g_array_new (FALSE, FALSE, sizeof (ScLink));
  g_auto (Faults) faults = faults_new (topology, end_node);
  guint32 base = 0, domain = 0;
  guint in_domain = 0;
  for (guint node = 0; node < end_node; node++) /* domains are counted from node 0, wherever the job begins */
    {
      const ScNodeType *const type = sc_topology_node_type (topology, node);
      const gboolean same = node > 0 && type == sc_topology_node_type (topology, node - 1) && type->has_nvlink
                            && in_domain < type->nvlink_domain_nodes;
      if (!same)
        {
          domain += node > 0;
          in_domain = 0;
        }
      in_domain++;
      f->domain[node] = domain;
      if (node < f->first_node)
        continue;
      if (!build_node (f, &faults, links, node, base, error))
        return NULL;
      base += type->gpus;
    }
  /* Between domains, and to and from a GPU without NVLink inside one, traffic takes NICs. */
  gboolean by_nic = f->domain[end_node - 1] != f->domain[f->first_node];
  for (guint32 gpu = 0; gpu < n_gpus && f->n_nodes > 1 && !by_nic; gpu++)
    by_nic = f->nvlink_out[gpu] == SC_NONE;
  for (guint node = f->first_node; node < end_node; node++)
    if (by_nic && f->gpus[f->gpu_base[node]].nic == SC_NO_NIC)
      {
        g_set_error (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_UNREACHABLE,
                     "/node_types/%s: node %u has no living NIC, so the other nodes cannot reach it",
                     sc_topology_node_type (topology, node)->name, node);
        return NULL;
      }
  build_tiers (f, links);
  f->n_links = links->len;
  f->links = (ScLink *) (gpointer) g_array_free (g_steal_pointer (&links), FALSE);
  return g_steal_pointer (&f);
}

void
sc_fabric_free (ScFabric *f)
{
  if (f == NULL)
    return;
  g_free (f->links);
  g_free (f->gpus);
  g_free (f->gpu_base);
  g_free (f->domain);
  g_free (f->nvlink_out);
  g_free (f->pcie_out);
  g_free (f->nic_out);
  g_free (f->switch_up);
  for (guint t = 0; t < G_N_ELEMENTS (f->tier_up); t++)
    g_free (f->tier_up[t]);
  g_free (f);
}

const ScNodeType *
sc_fabric_node_type (const ScFabric *f, guint32 gpu)
{
  return sc_topology_node_type (f->topology, f->gpus[gpu].node);
}

static inline void
put (ScRoute *route, guint32 link)
{
  g_assert (route->n < SC_MAX_ROUTE);
  route->links[route->n++] = link;
}

/* The PCIe switch that NIC @nic hangs on, or SC_NONE: at the host, since it serves GPUs of several switches. */
static guint32
nic_switch (const ScNodeType *type, guint nic)
{
  const guint per = type->pcie_gpus_per_switch;
  const guint first = (nic * type->gpus + type->nics - 1) / type->nics;
  const guint last = MAX (first, ((nic + 1) * type->gpus + type->nics - 1) / type->nics - 1);
  return per > 0 && first / per == last / per ? first / per : SC_NONE;
}

/* Between a GPU and a NIC of its node, in either direction (@in: 1 towards the GPU). */
static void
put_to_nic (const ScFabric *f, ScRoute *route, guint32 gpu, guint16 nic, guint in)
{
  if (f->pcie_out[gpu] == SC_NONE)
    return;
  const ScGpu *const g = &f->gpus[gpu];
  const ScNodeType *const type = sc_fabric_node_type (f, gpu);
  guint32 up = SC_NONE, down = SC_NONE;
  if (f->switch_up[g->node] != SC_NONE)
    {
      const guint32 own = g->index / type->pcie_gpus_per_switch, other = nic_switch (type, nic);
      if (own != other)
        {
          up = f->switch_up[g->node] + 2 * own + in;
          if (other != SC_NONE)
            down = f->switch_up[g->node] + 2 * other + !in;
        }
    }
  if (!in)
    put (route, f->pcie_out[gpu]);
  if (!in && up != SC_NONE)
    put (route, up);
  if (down != SC_NONE)
    put (route, down);
  if (in && up != SC_NONE)
    put (route, up);
  if (in)
    put (route, f->pcie_out[gpu] + 1);
}

static void
route_inside (const ScFabric *f, guint32 a, guint32 b, ScRoute *ret)
{
  const ScNodeType *const type = sc_fabric_node_type (f, a);
  const ScGpu *const ga = &f->gpus[a], *const gb = &f->gpus[b];
  ret->latency_s = type->pcie_latency_s.value;
  put (ret, f->pcie_out[a]);
  if (f->switch_up[ga->node] != SC_NONE)
    {
      const guint sa = ga->index / type->pcie_gpus_per_switch, sb = gb->index / type->pcie_gpus_per_switch;
      if (sa != sb)
        {
          put (ret, f->switch_up[ga->node] + 2 * sa);
          put (ret, f->switch_up[ga->node] + 2 * sb + 1);
        }
    }
  put (ret, f->pcie_out[b] + 1);
}

void
sc_fabric_route_via (const ScFabric *f, guint32 a, guint16 nic_a, guint32 b, guint16 nic_b, ScRoute *ret)
{
  const ScTopology *const topology = f->topology;
  const ScGpu *const ga = &f->gpus[a], *const gb = &f->gpus[b];
  ret->n = 0;
  ret->crosses_nic = FALSE;
  if (f->domain[ga->node] == f->domain[gb->node] && f->nvlink_out[a] != SC_NONE && f->nvlink_out[b] != SC_NONE)
    {
      ret->latency_s = sc_fabric_node_type (f, a)->nvlink_latency_s.value;
      put (ret, f->nvlink_out[a]);
      put (ret, f->nvlink_out[b] + 1);
      return;
    }
  if (ga->node == gb->node && f->pcie_out[a] != SC_NONE && f->pcie_out[b] != SC_NONE)
    {
      route_inside (f, a, b, ret);
      return;
    }
  ret->crosses_nic = TRUE;
  ret->latency_s = MAX (sc_fabric_node_type (f, a)->nic_latency_s.value, sc_fabric_node_type (f, b)->nic_latency_s.value);
  put_to_nic (f, ret, a, nic_a, 0);
  put (ret, f->nic_out[ga->node] + 2 * nic_a);
  guint climb = 0; /* tiers whose up-links the path takes */
  while (climb < topology->n_tiers
         && (unit_of (topology, ga->node, climb) != unit_of (topology, gb->node, climb)
             || (climb == 0 && f->n_rails[0] > 1 && nic_a != nic_b)))
    climb++;
  for (guint t = 0; t < climb; t++)
    {
      put (ret, f->tier_up[t][unit_of (topology, ga->node, t)] + 2 * (f->n_rails[t] > 1 ? nic_a : 0));
      ret->latency_s += topology->tiers[t].latency_s.value;
    }
  for (guint t = climb; t-- > 0;)
    put (ret, f->tier_up[t][unit_of (topology, gb->node, t)] + 2 * (f->n_rails[t] > 1 ? nic_b : 0) + 1);
  put (ret, f->nic_out[gb->node] + 2 * nic_b + 1);
  put_to_nic (f, ret, b, nic_b, 1);
}

void
sc_fabric_route (const ScFabric *f, guint32 a, guint32 b, ScRoute *ret)
{
  sc_fabric_route_via (f, a, f->gpus[a].nic, b, f->gpus[b].nic, ret);
}

char *
sc_fabric_link_name (const ScFabric *f, guint32 link)
{
  const ScLink *const l = &f->links[link];
  switch (l->kind)
    {
    case SC_LINK_NVLINK_OUT:
    case SC_LINK_NVLINK_IN:
      return g_strdup_printf ("NVLink %s of GPU %u", l->kind == SC_LINK_NVLINK_OUT ? "out" : "in", l->owner);
    case SC_LINK_PCIE_OUT:
    case SC_LINK_PCIE_IN:
      return g_strdup_printf ("PCIe %s of GPU %u", l->kind == SC_LINK_PCIE_OUT ? "out" : "in", l->owner);
    case SC_LINK_SWITCH_UP:
    case SC_LINK_SWITCH_DOWN:
      return g_strdup_printf ("PCIe switch %u %s of node %u", l->rail, l->kind == SC_LINK_SWITCH_UP ? "up" : "down", l->owner);
    case SC_LINK_NIC_OUT:
    case SC_LINK_NIC_IN:
      return g_strdup_printf ("NIC %u %s of node %u", l->rail, l->kind == SC_LINK_NIC_OUT ? "out" : "in", l->owner);
    case SC_LINK_UP:
    case SC_LINK_DOWN:
    default:
      return g_strdup_printf ("tier %u %s-links of unit %u, rail %u", l->tier, l->kind == SC_LINK_UP ? "up" : "down", l->owner,
                              l->rail);
    }
}
