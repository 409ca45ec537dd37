/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fabric.c - numbers the links of a topology and finds routes by arithmetic, never by search. */
#include "models/fabric.h"
#include "models/mesh.h"
#include "sim/types.h"
#include <math.h>

#define MAX_TIER_LINKS 16000000 /* 400 MB of them */
#define LEAST_LEFT 0.01         /* of a link's capacity, that others may leave to the job */

G_DEFINE_QUARK (sc-fabric-error-quark, sc_fabric_error)

G_STATIC_ASSERT (G_N_ELEMENTS (((ScFabric *) 0)->tier_up) == 8);

static guint32
add_link (GArray *links, ScLinkKind kind, guint32 owner, guint rail, guint tier, double capacity)
{
  const ScLink link = { .kind = kind, .tier = (guint8) tier, .rail = (guint16) rail, .owner = owner, .capacity = capacity };
  g_array_append_val (links, link);
  return links->len - 1;
}

static gboolean
fail (GError **error, ScFabricError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
fail (GError **error, ScFabricError code, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autoptr (GError) why = g_error_new_valist (SC_FABRIC_ERROR, (int) code, format, arguments);
  va_end (arguments);
  g_propagate_error (error, g_steal_pointer (&why));
  return FALSE;
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

static guint
n_sockets (const ScNodeType *type)
{
  const guint per = type->pcie_switches_per_socket;
  return per > 0 ? MAX ((n_switches (type) + per - 1) / per, 1) : 1;
}

/* Where the lanes of each pair of GPUs come, for one type of node: by the higher GPU first, so that a node of which the
 * job takes the first few GPUs has the first few links. */
static guint32 *
lane_places (const ScNodeType *type)
{
  const guint k = type->gpus;
  guint32 *const places = g_new (guint32, (gsize) k * k);
  guint32 n = 0;
  for (guint j = 0; j < k; j++)
    for (guint i = 0; i < j; i++)
      {
        places[i * k + j] = n;
        n += type->nvlink_lanes[i * k + j] > 0 ? 2 : 0;
      }
  return places;
}

/* The direct links among the first @n_here GPUs of @node.  A dead GPU's keep their capacity: no route uses them. */
static gboolean
build_mesh (ScFabric *f, const Faults *faults, GArray *links, guint node, guint32 n_here, GError **error)
{
  const ScNodeType *const type = sc_topology_node_type (f->topology, node);
  const guint32 base = f->gpu_base[node], first = links->len;
  const guint k = type->gpus;
  double alive[SC_MESH_MAX_GPUS];
  g_autofree guint8 *lanes = g_new0 (guint8, (gsize) n_here * n_here); /* that work */
  g_assert (k <= SC_MESH_MAX_GPUS);
  for (guint i = 0; i < n_here; i++)
    {
      alive[i] = fault_factor (faults, SC_FAULT_NVLINK, node, i);
      f->lanes[base + i] = alive[i] > 0 ? first : SC_NONE;
    }
  for (guint j = 0; j < n_here; j++)
    for (guint i = 0; i < j; i++)
      {
        const guint8 n = type->nvlink_lanes[i * k + j];
        const double factor = MIN (alive[i], alive[j]);
        if (n == 0)
          continue;
        const double capacity = n * type->nvlink_bytes_per_s.value * (factor > 0 ? factor : 1);
        add_link (links, SC_LINK_LANES, base + i, j, 0, capacity);
        add_link (links, SC_LINK_LANES, base + j, i, 0, capacity);
        lanes[i * n_here + j] = lanes[j * n_here + i] = factor > 0 ? n : 0;
      }
  guint a, b;
  if (type->pcie_bytes_per_s.value <= 0 && !sc_mesh_joins_all (lanes, n_here, &a, &b))
    return fail (error, SC_FABRIC_ERROR_UNREACHABLE,
                 "/node_types/%s: GPU %u of node %u cannot reach GPU %u: they share no NVLink, no GPU of the job is joined to "
                 "both, and there is no PCIe",
                 type->name, a, node, b);
  return TRUE;
}

/* Links from each PCIe switch to the host, and among the sockets of the host. */
static void
build_host (ScFabric *f, GArray *links, guint node)
{
  const ScNodeType *const type = sc_topology_node_type (f->topology, node);
  if (type->pcie_bytes_per_s.value <= 0 || n_switches (type) <= (type->pcie_through_host ? 0u : 1u))
    return;
  const double uplink = type->pcie_uplink_bytes_per_s.value > 0 ? type->pcie_uplink_bytes_per_s.value
                                                                : type->pcie_bytes_per_s.value * type->pcie_gpus_per_switch;
  f->switch_up[node] = links->len;
  for (guint i = 0; i < n_switches (type); i++)
    add_pair (links, SC_LINK_SWITCH_UP, SC_LINK_SWITCH_DOWN, node, i, 0, uplink);
  if (n_sockets (type) < 2)
    return;
  f->socket[node] = links->len;
  for (guint j = 0; j < n_sockets (type); j++)
    for (guint i = 0; i < j; i++)
      {
        add_link (links, SC_LINK_SOCKET, node, i << 8 | j, 0, type->pcie_socket_bytes_per_s.value);
        add_link (links, SC_LINK_SOCKET, node, j << 8 | i, 0, type->pcie_socket_bytes_per_s.value);
      }
}

/* Links inside and at the edge of @node; its first GPU is @base. */
static gboolean
build_node (ScFabric *f, const Faults *faults, GArray *links, guint node, guint32 base, GError **error)
{
  const ScTopology *const topology = f->topology;
  const ScNodeType *const type = sc_topology_node_type (topology, node);
  const gboolean mesh = type->has_nvlink && type->nvlink_lanes != NULL;
  const guint32 n_here = MIN (type->gpus, f->n_gpus - base);
  f->gpu_base[node] = base;
  f->nic_out[node] = f->switch_up[node] = f->socket[node] = SC_NONE;
  for (guint i = 0; i < n_here; i++)
    {
      const guint32 gpu = base + i;
      const double speed = fault_factor (faults, SC_FAULT_GPU, node, i);
      const double nvlink = fault_factor (faults, SC_FAULT_NVLINK, node, i);
      if (speed <= 0)
        return fail (error, SC_FABRIC_ERROR_UNREACHABLE,
                     "/faults: GPU %u of node %u is dead, but the job takes it (use fewer GPUs, or take it out of the nodes)",
                     i, node);
      f->gpus[gpu] = (ScGpu) { .node = node, .index = (guint16) i, .speed = (float) speed,
                               .nic = type->nics > 0 ? living_nic (faults, type, node, i) : SC_NO_NIC };
      f->lanes[gpu] = SC_NONE;
      f->nvlink_out[gpu] = type->has_nvlink && !mesh && nvlink > 0
                             ? add_pair (links, SC_LINK_NVLINK_OUT, SC_LINK_NVLINK_IN, gpu, 0, 0,
                                         type->nvlink_bytes_per_s.value * nvlink)
                             : SC_NONE;
      f->pcie_out[gpu] = type->pcie_bytes_per_s.value > 0
                           ? add_pair (links, SC_LINK_PCIE_OUT, SC_LINK_PCIE_IN, gpu, 0, 0, type->pcie_bytes_per_s.value)
                           : SC_NONE;
      if (!mesh && f->nvlink_out[gpu] == SC_NONE && f->pcie_out[gpu] == SC_NONE && n_here > 1)
        return fail (error, SC_FABRIC_ERROR_UNREACHABLE,
                     "/node_types/%s: GPU %u of node %u has neither NVLink nor PCIe to reach the others of its node by",
                     type->name, i, node);
    }
  if (mesh && !build_mesh (f, faults, links, node, n_here, error))
    return FALSE;
  build_host (f, links, node);
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

/* First up-link of the bundle that rail @rail of @unit of tier @t has. */
static inline guint32
bundle (const ScFabric *f, guint t, guint unit, guint rail)
{
  return f->tier_up[t][unit] + 2 * (f->n_rails[t] > 1 ? rail : 0) * f->n_paths[t];
}

/* Up- and down-link bundles of every tier: what hangs below, over the oversubscription. */
static gboolean
build_tiers (ScFabric *f, GArray *links, GError **error)
{
  const ScTopology *const topology = f->topology;
  const double efficiency = topology->routing == SC_ROUTING_ADAPTIVE ? topology->routing_efficiency : 1;
  guint64 n_links = 0;
  guint max_nics = 1;
  for (guint i = 0; i < topology->n_types; i++)
    max_nics = MAX (max_nics, topology->types[i].nics);
  for (guint t = 0; t < topology->n_tiers; t++)
    {
      const guint n_units = unit_of (topology, f->first_node + f->n_nodes - 1, t) + 1;
      const guint rails = t == 0 && topology->rail_optimised ? max_nics : 1;
      const guint paths = topology->routing == SC_ROUTING_ECMP ? MAX (topology->tiers[t].paths, 1) : 1;
      n_links += (guint64) n_units * rails * paths * 2;
      if (n_links > MAX_TIER_LINKS)
        return fail (error, SC_FABRIC_ERROR_TOO_LARGE,
                     "/fabric/tiers/%u: %u units with %u rails of %u paths are too many links (at most %u in all)", t, n_units,
                     rails, paths, MAX_TIER_LINKS);
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
      f->n_units[t] = n_units;
      f->n_rails[t] = rails;
      f->n_paths[t] = paths;
      f->tier_up[t] = g_new (guint32, n_units);
      for (guint unit = 0; unit < n_units; unit++)
        {
          f->tier_up[t][unit] = links->len;
          for (guint rail = 0; rail < rails; rail++)
            {
              const double up = below[(gsize) unit * rails + rail] / topology->tiers[t].oversubscription * efficiency;
              for (guint path = 0; path < paths; path++)
                {
                  /* A rail that no node below has carries nothing. */
                  const guint32 link = add_pair (links, SC_LINK_UP, SC_LINK_DOWN, unit, rail, t, up > 0 ? up / paths : 1);
                  g_array_index (links, ScLink, link).path = g_array_index (links, ScLink, link + 1).path = (guint16) path;
                }
            }
        }
    }
  return TRUE;
}

/* Slow and dead up-links.  @by_nic: traffic takes them at all. */
static gboolean
apply_tier_faults (ScFabric *f, gboolean by_nic, GError **error)
{
  const ScTopology *const topology = f->topology;
  const guint first_node = f->first_node, last_node = f->first_node + f->n_nodes - 1;
  for (guint i = 0; i < topology->n_tier_faults; i++)
    {
      const ScTierFault *const fault = &topology->tier_faults[i];
      const guint t = fault->tier, unit = fault->unit;
      g_assert (t < topology->n_tiers && fault->rail < MAX (f->n_rails[t], 1));
      if (unit >= f->n_units[t])
        continue; /* behind the job */
      const guint32 link = bundle (f, t, unit, fault->rail);
      if (fault->factor > 0)
        {
          for (guint k = 0; k < 2 * f->n_paths[t]; k++)
            f->links[link + k].capacity *= fault->factor;
          continue;
        }
      /* Routes do not go round a dead bundle.  Whoever has nodes below and elsewhere needs it; two nodes below a
       * rail-optimised leaf need it to change rails. */
      const guint lowest = unit_of (topology, first_node, t), highest = unit_of (topology, last_node, t);
      guint inside = 0;
      for (guint node = first_node; node <= last_node && inside < 2; node++)
        inside += unit_of (topology, node, t) == unit;
      if (by_nic && unit >= lowest && unit <= highest
          && (lowest < highest || (f->n_rails[t] > 1 && inside > 1)))
        {
          g_autofree char *name = sc_fabric_link_name (f, link);
          return fail (error, SC_FABRIC_ERROR_UNREACHABLE,
                       "/faults: %s are dead, but they are the only way %s", name,
                       lowest < highest ? "from the nodes below them to others of the job"
                                        : "to other rails for the nodes below them");
        }
    }
  return TRUE;
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014): one more word into a hash. */
static guint64
mix (guint64 hash, guint64 word)
{
  guint64 z = (hash ^ word) + G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* One end of a path between nodes. */
typedef struct
{
  guint node;
  guint16 index; /* GPU in the node */
  guint16 nic;
} End;

static guint64
end_word (End end)
{
  return (guint64) end.node << 32 | (guint64) end.index << 16 | end.nic;
}

/* The path that a flow takes in tier @t. */
static guint
path_of (const ScFabric *f, guint t, End a, End b, guint flow)
{
  if (f->n_paths[t] <= 1)
    return 0;
  const guint64 hash = mix (mix (mix (0, end_word (a)), end_word (b)), (guint64) flow << 8 | t);
  return (guint) (hash % f->n_paths[t]);
}

/* How many tiers' up-links the way from @a to @b takes. */
static guint
tiers_climbed (const ScFabric *f, End a, End b)
{
  const ScTopology *const topology = f->topology;
  guint climb = 0;
  while (climb < topology->n_tiers
         && (unit_of (topology, a.node, climb) != unit_of (topology, b.node, climb)
             || (climb == 0 && f->n_rails[0] > 1 && a.nic != b.nic)))
    climb++;
  return climb;
}

/* The up-link of tier @t that a flow from @a to @b takes (@down: 0), or the down-link (1); SC_NONE behind the job. */
static guint32
tier_link (const ScFabric *f, guint t, End a, End b, guint flow, guint down)
{
  const End side = down ? b : a;
  const guint unit = unit_of (f->topology, side.node, t);
  return unit < f->n_units[t] ? bundle (f, t, unit, side.nic) + 2 * path_of (f, t, a, b, flow) + down : SC_NONE;
}

static void
take (ScFabric *f, guint32 link, double bytes_per_s)
{
  if (link != SC_NONE)
    f->links[link].capacity -= bytes_per_s;
}

/* A NIC link of a node of the job; SC_NONE for other nodes. */
static guint32
nic_link (const ScFabric *f, End end, guint in)
{
  if (end.node < f->first_node || end.node >= f->first_node + f->n_nodes || f->nic_out[end.node] == SC_NONE)
    return SC_NONE;
  return f->nic_out[end.node] + 2 * end.nic + in;
}

/* The traffic of others off every link on its way. */
static gboolean
take_background (ScFabric *f, const Faults *faults, guint32 end_node, GError **error)
{
  const ScTopology *const topology = f->topology;
  if (topology->n_backgrounds == 0)
    return TRUE;
  g_autofree double *whole = g_new (double, MAX (f->n_links, 1));
  for (guint32 l = 0; l < f->n_links; l++)
    whole[l] = f->links[l].capacity;
  for (guint i = 0; i < topology->n_backgrounds; i++)
    {
      const ScBackground *const others = &topology->backgrounds[i];
      const double each = others->bytes_per_s.value / f->flows;
      for (guint k = 0; k < others->nodes; k++)
        {
          const guint from = others->first_node + k, to = others->first_node + (k + 1) % others->nodes;
          const ScNodeType *const type = sc_topology_node_type (topology, from), *const type_to = sc_topology_node_type (topology, to);
          for (guint16 nic = 0; nic < MIN (type->nics, type_to->nics); nic++)
            {
              if ((from < end_node && fault_factor (faults, SC_FAULT_NIC, from, nic) <= 0)
                  || (to < end_node && fault_factor (faults, SC_FAULT_NIC, to, nic) <= 0))
                continue;
              const End a = { from, (guint16) ((nic * type->gpus + type->nics - 1) / type->nics), nic };
              const End b = { to, (guint16) ((nic * type_to->gpus + type_to->nics - 1) / type_to->nics), nic };
              const guint climb = tiers_climbed (f, a, b);
              take (f, nic_link (f, a, 0), others->bytes_per_s.value);
              take (f, nic_link (f, b, 1), others->bytes_per_s.value);
              for (guint t = 0; t < climb; t++)
                for (guint flow = 0; flow < f->flows; flow++)
                  {
                    take (f, tier_link (f, t, a, b, flow, 0), each);
                    take (f, tier_link (f, t, a, b, flow, 1), each);
                  }
            }
        }
    }
  for (guint32 l = 0; l < f->n_links; l++)
    if (f->links[l].capacity <= LEAST_LEFT * whole[l])
      {
        g_autofree char *name = sc_fabric_link_name (f, l);
        return fail (error, SC_FABRIC_ERROR_CAPACITY,
                     "/background: others take %.4g %% of what %s can carry, expected less than %g %%",
                     100 * (1 - f->links[l].capacity / whole[l]), name, 100 * (1 - LEAST_LEFT));
      }
  return TRUE;
}

static gboolean
check_capacities (const ScFabric *f, GError **error)
{
  for (guint32 l = 0; l < f->n_links; l++)
    if (!(f->links[l].capacity > 0 && isfinite (f->links[l].capacity)))
      {
        g_autofree char *name = sc_fabric_link_name (f, l);
        return fail (error, SC_FABRIC_ERROR_CAPACITY, "%s: a capacity of %g bytes/s", name, f->links[l].capacity);
      }
  return TRUE;
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
  f->flows = topology->routing == SC_ROUTING_ECMP ? MAX (topology->flows_per_connection, 1) : 1;
  f->nvlink_out = g_new (guint32, n_gpus);
  f->lanes = g_new (guint32, n_gpus);
  f->lane_of = g_new0 (guint32 *, topology->n_types);
  f->mesh_rings = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, (GDestroyNotify) g_array_unref);
  for (guint i = 0; i < topology->n_types; i++)
    if (topology->types[i].nvlink_lanes != NULL)
      f->lane_of[i] = lane_places (&topology->types[i]);
  f->pcie_out = g_new (guint32, n_gpus);
  f->gpu_base = g_new0 (guint32, end_node);
  f->domain = g_new0 (guint32, end_node);
  f->nic_out = g_new0 (guint32, end_node);
  f->switch_up = g_new0 (guint32, end_node);
  f->socket = g_new0 (guint32, end_node);

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
  const gboolean built = build_tiers (f, links, error);
  f->n_links = links->len;
  f->links = (ScLink *) (gpointer) g_array_free (g_steal_pointer (&links), FALSE);
  if (!built || !apply_tier_faults (f, by_nic, error) || !check_capacities (f, error)
      || !take_background (f, &faults, end_node, error))
    return NULL;
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
  g_free (f->socket);
  g_free (f->lanes);
  for (guint i = 0; f->lane_of != NULL && i < f->topology->n_types; i++)
    g_free (f->lane_of[i]);
  g_free (f->lane_of);
  g_clear_pointer (&f->mesh_rings, g_hash_table_unref);
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

/* First GPU of the node that NIC @nic serves, and the last. */
static guint
nic_first_gpu (const ScNodeType *type, guint nic)
{
  return (nic * type->gpus + type->nics - 1) / type->nics;
}

static guint
nic_last_gpu (const ScNodeType *type, guint nic)
{
  return MAX (nic_first_gpu (type, nic), ((nic + 1) * type->gpus + type->nics - 1) / type->nics - 1);
}

/* The PCIe switch that NIC @nic hangs on, or SC_NONE: at the host, since it serves GPUs of several switches. */
static guint32
nic_switch (const ScNodeType *type, guint nic)
{
  const guint per = type->pcie_gpus_per_switch;
  return per > 0 && nic_first_gpu (type, nic) / per == nic_last_gpu (type, nic) / per ? nic_first_gpu (type, nic) / per : SC_NONE;
}

/* From PCIe switch @from up to the host, over to the socket of switch @near, and down to switch @to unless that is
 * SC_NONE. */
static void
put_host (const ScFabric *f, ScRoute *route, guint node, guint from, guint near, guint32 to)
{
  const ScNodeType *const type = sc_topology_node_type (f->topology, node);
  put (route, f->switch_up[node] + 2 * from);
  if (f->socket[node] != SC_NONE)
    {
      const guint i = from / type->pcie_switches_per_socket, j = near / type->pcie_switches_per_socket;
      if (i != j)
        put (route, f->socket[node] + (i < j ? j * (j - 1) + 2 * i : i * (i - 1) + 2 * j + 1));
    }
  if (to != SC_NONE)
    put (route, f->switch_up[node] + 2 * to + 1);
}

/* Between a GPU and a NIC of its node, in either direction (@in: 1 towards the GPU). */
static void
put_to_nic (const ScFabric *f, ScRoute *route, guint32 gpu, guint16 nic, guint in)
{
  if (f->pcie_out[gpu] == SC_NONE)
    return;
  const ScGpu *const g = &f->gpus[gpu];
  const ScNodeType *const type = sc_fabric_node_type (f, gpu);
  ScRoute out = { .n = 0 };
  put (&out, f->pcie_out[gpu]);
  if (f->switch_up[g->node] != SC_NONE)
    {
      const guint32 own = g->index / type->pcie_gpus_per_switch, other = nic_switch (type, nic);
      if (own != other || type->pcie_through_host)
        put_host (f, &out, g->node, own, nic_first_gpu (type, nic) / type->pcie_gpus_per_switch, other);
    }
  for (guint i = 0; i < out.n; i++)
    put (route, in ? out.links[out.n - 1 - i] ^ 1 : out.links[i]);
}

/* The links from @a to @b, which share some. */
static guint32
lanes_link (const ScFabric *f, guint32 a, guint32 b)
{
  const ScNodeType *const type = sc_fabric_node_type (f, a);
  const guint32 *const places = f->lane_of[type - f->topology->types];
  const guint i = f->gpus[a].index, j = f->gpus[b].index;
  return f->lanes[a] + (i < j ? places[i * type->gpus + j] : places[j * type->gpus + i] + 1);
}

/* Over direct links, if there are any. */
static gboolean
route_mesh (const ScFabric *f, guint32 a, guint32 b, ScRoute *ret)
{
  const ScNodeType *const type = sc_fabric_node_type (f, a);
  if (f->gpus[a].node != f->gpus[b].node || f->lanes[a] == SC_NONE || f->lanes[b] == SC_NONE)
    return FALSE;
  ret->latency_s = type->nvlink_latency_s.value;
  if (sc_fabric_lanes (f, a, b) > 0)
    {
      put (ret, lanes_link (f, a, b));
      return TRUE;
    }
  const guint32 base = f->gpu_base[f->gpus[a].node], end = MIN (base + type->gpus, f->n_gpus);
  guint32 between = SC_NONE;
  double widest = 0;
  for (guint32 c = base; c < end; c++)
    {
      if (sc_fabric_lanes (f, a, c) == 0 || sc_fabric_lanes (f, c, b) == 0)
        continue;
      const double width = MIN (f->links[lanes_link (f, a, c)].capacity, f->links[lanes_link (f, c, b)].capacity);
      if (width > widest)
        {
          between = c;
          widest = width;
        }
    }
  if (between == SC_NONE)
    return FALSE;
  put (ret, lanes_link (f, a, between));
  put (ret, lanes_link (f, between, b));
  ret->latency_s *= 2;
  return TRUE;
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
      if (sa != sb || type->pcie_through_host)
        put_host (f, ret, ga->node, sa, sb, sb);
    }
  put (ret, f->pcie_out[b] + 1);
}

void
sc_fabric_route_flow (const ScFabric *f, guint32 a, guint16 nic_a, guint32 b, guint16 nic_b, guint flow, ScRoute *ret)
{
  const ScTopology *const topology = f->topology;
  const ScGpu *const ga = &f->gpus[a], *const gb = &f->gpus[b];
  ret->n = 0;
  ret->crosses_nic = ret->in_network = FALSE;
  if (f->domain[ga->node] == f->domain[gb->node] && f->nvlink_out[a] != SC_NONE && f->nvlink_out[b] != SC_NONE)
    {
      ret->latency_s = sc_fabric_node_type (f, a)->nvlink_latency_s.value;
      put (ret, f->nvlink_out[a]);
      put (ret, f->nvlink_out[b] + 1);
      return;
    }
  if (route_mesh (f, a, b, ret))
    return;
  if (ga->node == gb->node && f->pcie_out[a] != SC_NONE && f->pcie_out[b] != SC_NONE)
    {
      route_inside (f, a, b, ret);
      return;
    }
  const End from = { ga->node, ga->index, nic_a }, to = { gb->node, gb->index, nic_b };
  ret->crosses_nic = TRUE;
  ret->latency_s = MAX (sc_fabric_node_type (f, a)->nic_latency_s.value, sc_fabric_node_type (f, b)->nic_latency_s.value);
  put_to_nic (f, ret, a, nic_a, 0);
  put (ret, f->nic_out[ga->node] + 2 * nic_a);
  const guint climb = tiers_climbed (f, from, to);
  for (guint t = 0; t < climb; t++)
    {
      put (ret, tier_link (f, t, from, to, flow, 0));
      ret->latency_s += topology->tiers[t].latency_s.value;
    }
  for (guint t = climb; t-- > 0;)
    put (ret, tier_link (f, t, from, to, flow, 1));
  put (ret, f->nic_out[gb->node] + 2 * nic_b + 1);
  put_to_nic (f, ret, b, nic_b, 1);
}

void
sc_fabric_route_via (const ScFabric *f, guint32 a, guint16 nic_a, guint32 b, guint16 nic_b, ScRoute *ret)
{
  sc_fabric_route_flow (f, a, nic_a, b, nic_b, f->flow, ret);
}

void
sc_fabric_route (const ScFabric *f, guint32 a, guint32 b, ScRoute *ret)
{
  sc_fabric_route_flow (f, a, f->gpus[a].nic, b, f->gpus[b].nic, f->flow, ret);
}

gboolean
sc_fabric_is_mesh (const ScFabric *f, guint32 gpu)
{
  const ScNodeType *const type = sc_fabric_node_type (f, gpu);
  return type->has_nvlink && type->nvlink_lanes != NULL;
}

guint
sc_fabric_lanes (const ScFabric *f, guint32 a, guint32 b)
{
  if (a == b || f->gpus[a].node != f->gpus[b].node || f->lanes[a] == SC_NONE || f->lanes[b] == SC_NONE)
    return 0;
  const ScNodeType *const type = sc_fabric_node_type (f, a);
  return type->nvlink_lanes[f->gpus[a].index * type->gpus + f->gpus[b].index];
}

/* "leaf 4 up-links, rail 2", "fabric.tiers.1 unit 3 down-links, path 5". */
static char *
tier_link_name (const ScFabric *f, const ScLink *l)
{
  const char *const way = l->kind == SC_LINK_UP ? "up" : "down";
  GString *const name = g_string_new (NULL);
  if (l->tier == 0)
    g_string_append_printf (name, "leaf %u %s-links", l->owner, way);
  else
    g_string_append_printf (name, "fabric.tiers.%u unit %u %s-links", l->tier, l->owner, way);
  if (f->n_rails[l->tier] > 1)
    g_string_append_printf (name, ", rail %u", l->rail);
  if (f->n_paths[l->tier] > 1)
    g_string_append_printf (name, ", path %u", l->path);
  return g_string_free (name, FALSE);
}

const char *
sc_link_kind_name (ScLinkKind kind)
{
  static const char *const names[] = {
    [SC_LINK_NVLINK_OUT] = "nvlink_out", [SC_LINK_NVLINK_IN] = "nvlink_in", [SC_LINK_LANES] = "nvlink_lanes",
    [SC_LINK_PCIE_OUT] = "pcie_out", [SC_LINK_PCIE_IN] = "pcie_in", [SC_LINK_SOCKET] = "socket", [SC_LINK_SWITCH_UP] = "switch_up", [SC_LINK_SWITCH_DOWN] = "switch_down",
    [SC_LINK_NIC_OUT] = "nic_out", [SC_LINK_NIC_IN] = "nic_in", [SC_LINK_UP] = "tier_up", [SC_LINK_DOWN] = "tier_down",
  };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_LINK_KINDS);
  return names[kind];
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
    case SC_LINK_LANES:
      return g_strdup_printf ("NVLink lanes GPU %u to GPU %u", l->owner, f->gpu_base[f->gpus[l->owner].node] + l->rail);
    case SC_LINK_PCIE_OUT:
    case SC_LINK_PCIE_IN:
      return g_strdup_printf ("PCIe %s of GPU %u", l->kind == SC_LINK_PCIE_OUT ? "out" : "in", l->owner);
    case SC_LINK_SWITCH_UP:
    case SC_LINK_SWITCH_DOWN:
      return g_strdup_printf ("PCIe switch %u %s of node %u", l->rail, l->kind == SC_LINK_SWITCH_UP ? "up" : "down", l->owner);
    case SC_LINK_SOCKET:
      return g_strdup_printf ("socket link %u to %u of node %u", l->rail >> 8, l->rail & 255u, l->owner);
    case SC_LINK_NIC_OUT:
    case SC_LINK_NIC_IN:
      return g_strdup_printf ("NIC %u %s of node %u", l->rail, l->kind == SC_LINK_NIC_OUT ? "out" : "in", l->owner);
    case SC_LINK_UP:
    case SC_LINK_DOWN:
    default:
      return tier_link_name (f, l);
    }
}
