/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topology-json.c - topology files: what hardware, wired how. */
#include "topology-json.h"
#include "device-json.h"
#include "library.h"
#include "models/mesh.h"
#include "override.h"
#include <math.h>
#include <string.h>

#define MAX_NODE_TYPES 100
#define MAX_RUNS 1000
#define MAX_NODES 1000000
#define MAX_GPUS 8000000
#define MAX_TIERS 8
#define MAX_FAULTS 100000
#define MAX_BACKGROUNDS 100
#define MAX_LANES 64   /* between two GPUs */
#define MAX_SOCKETS 16 /* of a node */
#define MAX_PATHS 1024
#define MIN_FAULT_FACTOR 1e-6 /* slower is dead */

/* ---- Tables ---- */

#define CITED(member) SC_FIELD_CITED, .offset = offsetof (ScNodeType, member)
#define SPEED .unit = SC_UNIT_BYTES_PER_S, .min = 1e6, .max = 1e15
#define LATENCY .unit = SC_UNIT_SECONDS, .min = 0, .max = 1

static const ScField nvlink_fields[] = {
  { "bandwidth", CITED (nvlink_bytes_per_s), SPEED,
    .help = "Payload per direction that a GPU reaches in large transfers into its domain; with links: of one link" },
  { "latency", CITED (nvlink_latency_s), LATENCY, .help = "One small step of a ring inside the domain" },
  { "domain_nodes", SC_FIELD_COUNT, .min = 1, .max = 1024, .fallback = "1",
    .offset = offsetof (ScNodeType, nvlink_domain_nodes),
    .help = "Nodes of this type, in order, that share one NVLink domain" },
  { "links", SC_FIELD_OTHER, .derived = "none: an NVSwitch joins all GPUs of the domain",
    .help = "Direct links between GPUs of the node in place of switches, an array of [GPU, GPU] or [GPU, GPU, number of "
            "parallel links]; \"all\": one link between every two" },
  { "nvls", SC_FIELD_BOOL, .fallback = "false", .offset = offsetof (ScNodeType, nvls),
    .help = "The NVSwitches reduce and multicast (NVLink SHARP)" },
  { .key = NULL },
};

static const ScField pcie_fields[] = {
  { "bandwidth", CITED (pcie_bytes_per_s), SPEED, .help = "Payload per direction of one GPU's link" },
  { "latency", CITED (pcie_latency_s), LATENCY, .help = "One ring step between two GPUs through PCIe" },
  { "gpus_per_switch", SC_FIELD_COUNT, .min = 0, .max = 1024, .fallback = "0",
    .offset = offsetof (ScNodeType, pcie_gpus_per_switch),
    .help = "GPUs behind one PCIe switch or root; 0: each has its own" },
  { "uplink_bandwidth", CITED (pcie_uplink_bytes_per_s), SPEED, .derived = "as wide as its GPUs",
    .help = "Per direction from a PCIe switch to the host, shared by its GPUs" },
  { "switches_per_socket", SC_FIELD_COUNT, .min = 0, .max = 1024, .fallback = "0",
    .offset = offsetof (ScNodeType, pcie_switches_per_socket),
    .help = "PCIe switches on one socket of the host; 0: all on one" },
  { "socket_bandwidth", CITED (pcie_socket_bytes_per_s), SPEED, .derived = "none: one socket",
    .help = "Per direction from one socket to another, shared by all that crosses" },
  { "socket_pair_bandwidth", CITED (pcie_socket_pair_bytes_per_s), SPEED, .derived = "as wide as the link",
    .help = "What one pair of GPUs reaches across sockets, however idle the link" },
  { "peer_to_peer", SC_FIELD_BOOL, .fallback = "true", .offset = SC_FIELD_NOWHERE,
    .help = "GPUs and NICs read each other; else every copy climbs to the host, even below one switch" },
  { .key = NULL },
};

static const ScChoice transports[] = {
  { "infiniband", SC_TRANSPORT_INFINIBAND, FALSE }, { "roce", SC_TRANSPORT_ROCE, FALSE },
  { "efa", SC_TRANSPORT_EFA, FALSE },               { "slingshot", SC_TRANSPORT_SLINGSHOT, FALSE },
  { "tcpx", SC_TRANSPORT_TCPX, FALSE },             { "tcp", SC_TRANSPORT_TCP, FALSE },
  { .name = NULL },
};

static const ScField nics_fields[] = {
  { "count", SC_FIELD_COUNT, .min = 1, .max = 4096, .offset = offsetof (ScNodeType, nics),
    .help = "Per node, at most four per GPU; GPU i uses NIC floor(i x count / gpus)" },
  { "bandwidth", CITED (nic_bytes_per_s), SPEED, .help = "Payload per direction of one NIC" },
  { "latency", CITED (nic_latency_s), LATENCY, .help = "One small message between GPUs of two nodes, switches apart" },
  { "transport", SC_FIELD_CHOICE, .choices = transports, .fallback = "infiniband",
    .offset = offsetof (ScNodeType, transport), .help = "How the collective library talks through the NIC" },
  { .key = NULL },
};

#define PLAIN .plain_cited = TRUE
const ScFieldTable sc_nvlink_table = { .title = "topology: nvlink", .fields = nvlink_fields, PLAIN };
const ScFieldTable sc_pcie_table = { .title = "topology: pcie", .fields = pcie_fields, PLAIN };
const ScFieldTable sc_nics_table = { .title = "topology: nics", .fields = nics_fields, PLAIN };

static const ScField node_type_fields[] = {
  { "gpu", SC_FIELD_STRING, .derived = "the name in device", .offset = offsetof (ScNodeType, device_name),
    .help = "GPU, by the name or an alias of a shipped device" },
  { "device", SC_FIELD_OTHER, .derived = "the shipped device",
    .help = "Device file in place of the shipped one, relative to the topology file" },
  { "gpus", SC_FIELD_COUNT, .min = 1, .max = 1024, .offset = offsetof (ScNodeType, gpus), .help = "GPUs per node" },
  { "nvlink", SC_FIELD_OBJECT, .table = &sc_nvlink_table, .derived = "no NVLink: GPUs of a node talk over PCIe",
    .help = "The NVLink domain" },
  { "pcie", SC_FIELD_OBJECT, .table = &sc_pcie_table, .derived = "not modelled: the NIC is the narrower",
    .help = "PCIe of the node" },
  { "nics", SC_FIELD_OBJECT, .table = &sc_nics_table, .derived = "no network: one node only", .help = "Network ports" },
  { "host_memory_bandwidth", CITED (host_memory_bytes_per_s), SPEED, .derived = "not known",
    .help = "Bandwidth of the host's memory, all sockets; for what is offloaded" },
  { "host_factor", CITED (host_factor), .min = 0.01, .max = 100, .fallback = "1",
    .help = "This host's time to issue a kernel, relative to the framework's figure" },
  { .key = NULL },
};
const ScFieldTable sc_node_type_table = { .title = "topology: node_types.NAME", .fields = node_type_fields, PLAIN };

/* "type" is the name as written until node types are known. */
typedef struct
{
  char *type;
  guint count;
} Run;

static const ScField run_fields[] = {
  { "type", SC_FIELD_STRING, .offset = offsetof (Run, type), .help = "A key of node_types" },
  { "count", SC_FIELD_COUNT, .min = 1, .max = MAX_NODES, .fallback = "1", .offset = offsetof (Run, count),
    .help = "Nodes of this type" },
  { .key = NULL },
};
const ScFieldTable sc_node_run_table = { .title = "topology: nodes[]", .fields = run_fields };

static const ScField tier_fields[] = {
  { "radix", SC_FIELD_COUNT, .min = 2, .max = 65536, .derived = "not given", .offset = offsetof (ScTier, radix),
    .help = "Ports of one switch" },
  { "children", SC_FIELD_COUNT, .min = 1, .max = MAX_NODES,
    .derived = "radix x o / (1 + o), for a classic leaf divided by NICs per node",
    .offset = offsetof (ScTier, children),
    .help = "First tier: nodes below one leaf (rail-optimised: one group of leaves); higher: units of the tier below" },
  { "oversubscription", SC_FIELD_NUMBER, .min = 1, .max = 1000, .fallback = "1",
    .offset = offsetof (ScTier, oversubscription), .help = "Capacity down over capacity up, o" },
  { "paths", SC_FIELD_COUNT, .min = 1, .max = MAX_PATHS, .derived = "radix / (1 + o), of a leaf at most its ports down / o",
    .offset = offsetof (ScTier, paths),
    .help = "Equal up-links of a switch, among which ECMP chooses; needed for it where no radix is given" },
  { "latency", SC_FIELD_CITED, LATENCY, .fallback = "0 us", .offset = offsetof (ScTier, latency_s),
    .help = "Added to each hop that turns above this tier" },
  { .key = NULL },
};
const ScFieldTable sc_tier_table = { .title = "topology: fabric.tiers[]", .fields = tier_fields, PLAIN };

static const ScChoice routings[] = {
  { "ideal", SC_ROUTING_IDEAL, FALSE },
  { "adaptive", SC_ROUTING_ADAPTIVE, FALSE },
  { "ecmp", SC_ROUTING_ECMP, FALSE },
  { .name = NULL },
};

static const ScField fabric_fields[] = {
  { "rail_optimised", SC_FIELD_BOOL, .fallback = "false", .offset = offsetof (ScTopology, rail_optimised),
    .help = "NIC r of every node hangs on leaf r of its group; else all NICs of a node on one leaf" },
  { "tiers", SC_FIELD_OTHER, .table = &sc_tier_table, .derived = "none: one non-blocking switch",
    .help = "Tiers of the fat tree from the nodes up, below a non-blocking core" },
  { "routing", SC_FIELD_CHOICE, .choices = routings, .fallback = "ideal", .offset = offsetof (ScTopology, routing),
    .help = "How traffic spreads over parallel up-links: perfectly, adaptively (times efficiency), or each flow hashed to "
            "one of them" },
  { "efficiency", SC_FIELD_NUMBER, .min = 1e-3, .max = 1, .fallback = "1",
    .offset = offsetof (ScTopology, routing_efficiency),
    .help = "What adaptive routing reaches of parallel up-links; other routing ignores it" },
  { "flows_per_connection", SC_FIELD_COUNT, .min = 1, .max = 64, .fallback = "1",
    .offset = offsetof (ScTopology, flows_per_connection),
    .help = "Queue pairs that a connection is spread over; only ECMP minds" },
  { "sharp", SC_FIELD_BOOL, .fallback = "false", .offset = offsetof (ScTopology, sharp),
    .help = "The network's switches reduce (SHARP)" },
  { .key = NULL },
};
const ScFieldTable sc_fabric_table = { .title = "topology: fabric", .fields = fabric_fields };

/* One of the two, until it is known which. */
typedef struct
{
  ScFault fault;
  ScTierFault tier_fault;
  double factor;
} Fault;

static const ScField place_fields[] = {
  { "node", SC_FIELD_COUNT, .min = 0, .max = MAX_NODES - 1, .offset = offsetof (Fault, fault.node),
    .help = "Number of the node, from 0" },
  { "index", SC_FIELD_COUNT, .min = 0, .max = 4095, .offset = offsetof (Fault, fault.index),
    .help = "Number of the GPU (of its NVLink) or the NIC in its node, from 0" },
  { .key = NULL },
};
const ScFieldTable sc_fault_place_table = { .title = "topology: faults[].gpu, .nic, .nvlink", .fields = place_fields };

static const ScField uplink_fields[] = {
  { "tier", SC_FIELD_COUNT, .min = 0, .max = MAX_TIERS - 1, .fallback = "0", .offset = offsetof (Fault, tier_fault.tier),
    .help = "Index in fabric.tiers, from 0, the leaves" },
  { "unit", SC_FIELD_COUNT, .min = 0, .max = MAX_NODES - 1, .offset = offsetof (Fault, tier_fault.unit),
    .help = "Number of the leaf (rail-optimised: of the group of leaves) or unit of the tier, from 0" },
  { "rail", SC_FIELD_COUNT, .min = 0, .max = 4095, .fallback = "0", .offset = offsetof (Fault, tier_fault.rail),
    .help = "Number of the leaf in a rail-optimised group, from 0" },
  { .key = NULL },
};
const ScFieldTable sc_uplink_table = { .title = "topology: faults[].uplink", .fields = uplink_fields };

static const ScField fault_fields[] = {
  { "gpu", SC_FIELD_OBJECT, .table = &sc_fault_place_table, .derived = "none", .help = "A slow GPU, or" },
  { "nic", SC_FIELD_OBJECT, .table = &sc_fault_place_table, .derived = "none", .help = "A slow or dead NIC, or" },
  { "nvlink", SC_FIELD_OBJECT, .table = &sc_fault_place_table, .derived = "none", .help = "A slow NVLink of a GPU, or" },
  { "uplink", SC_FIELD_OBJECT, .table = &sc_uplink_table, .derived = "none",
    .help = "Slow links from a switch up, and back down" },
  { "factor", SC_FIELD_NUMBER, .min = 0, .max = 1, .offset = offsetof (Fault, factor),
    .help = "Of its rate; 0: dead, else at least 1e-6" },
  { .key = NULL },
};
const ScFieldTable sc_fault_table = { .title = "topology: faults[]", .fields = fault_fields };

static const ScField background_fields[] = {
  { "first_node", SC_FIELD_COUNT, .min = 0, .max = MAX_NODES - 1, .offset = offsetof (ScBackground, first_node),
    .help = "First node of the range" },
  { "nodes", SC_FIELD_COUNT, .min = 2, .max = MAX_NODES, .offset = offsetof (ScBackground, nodes),
    .help = "Nodes of the range" },
  { "bandwidth", SC_FIELD_CITED, SPEED, .offset = offsetof (ScBackground, bytes_per_s),
    .help = "What each NIC of each node sends to the same NIC of the next node of the range, of the last to the first" },
  { .key = NULL },
};
const ScFieldTable sc_background_table = { .title = "topology: background[]", .fields = background_fields, PLAIN };

static const ScChoice libraries[] = {
  { "textbook", SC_TEXTBOOK, FALSE }, { "nccl-2.29", 2029, FALSE }, { "nccl-2.28", 2028, FALSE }, { "nccl-2.25", 2025, FALSE }, { "nccl-2.23", 2023, FALSE }, { "nccl-2.19", 2019, FALSE },
  { "nccl-2.18", 2018, FALSE },       { "nccl-2.14", 2014, FALSE }, { "nccl-2.8", 2008, FALSE },  { "nccl-2.5", 2005, FALSE },  { .name = NULL },
};

#define FACTOR(member) SC_FIELD_NUMBER, .min = 1e-3, .max = 1e3, .fallback = "1", .offset = offsetof (ScTopology, what_if.member)
static const ScField what_if_fields[] = {
  { "matrix", FACTOR (matrix), .help = "On the rate of the GPUs' matrix units: 2 is twice as fast" },
  { "hbm", FACTOR (hbm), .help = "On the bandwidth of the GPUs' memory" },
  { "nvlink", FACTOR (nvlink), .help = "On the bandwidth of NVLink" },
  { "pcie", FACTOR (pcie), .help = "On the bandwidth of PCIe and of copies between GPU and host" },
  { "nic", FACTOR (nic), .help = "On the bandwidth of NICs and of the network above them" },
  { "latency", FACTOR (latency), .help = "On the latency of links and switches and the launch of collectives; not on what NCCL's kernels take themselves: 0.5 is half" },
  { "launch", FACTOR (launch), .help = "On the time to start a kernel, and of the host to issue it" },
  { .key = NULL },
};
const ScFieldTable sc_what_if_table = { .title = "topology: device.scale", .fields = what_if_fields };

static const ScChoice clocks[] = { { "sustained", FALSE, FALSE }, { "burst", TRUE, FALSE }, { .name = NULL } };

static const ScField device_fields[] = {
  { "scale", SC_FIELD_OBJECT, .table = &sc_what_if_table, .derived = "as they are",
    .help = "What-if: factors on numbers of the GPUs, measured and of the datasheet, and of the links" },
  { "clocks", SC_FIELD_CHOICE, .choices = clocks, .fallback = "sustained", .offset = offsetof (ScTopology, burst),
    .help = "Matrix products run at the rate that power allows for hours, or as in a short measurement" },
  { .key = NULL },
};
const ScFieldTable sc_topology_device_table = { .title = "topology: device", .fields = device_fields };

static const ScField topology_fields[] = {
  { "name", SC_FIELD_STRING, .offset = offsetof (ScTopology, name), .help = "Name" },
  { "summary", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScTopology, summary),
    .help = "One line for people" },
  { "source", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScTopology, source),
    .help = "Where it is described" },
  { "node_types", SC_FIELD_OTHER, .table = &sc_node_type_table, .help = "an object of node types by name" },
  { "nodes", SC_FIELD_OTHER, .table = &sc_node_run_table,
    .help = "an array of runs of nodes, in the order of their numbers" },
  { "first_node", SC_FIELD_COUNT, .min = 0, .max = MAX_NODES - 1, .fallback = "0",
    .offset = offsetof (ScTopology, first_node), .help = "A job takes GPUs in order from this node on" },
  { "fabric", SC_FIELD_OBJECT, .table = &sc_fabric_table, .derived = "one non-blocking switch",
    .help = "The network between nodes" },
  { "collective_launch", SC_FIELD_CITED, LATENCY, .offset = offsetof (ScTopology, collective_launch_s),
    .help = "Fixed part of the time of a small collective" },
  { "collectives", SC_FIELD_CHOICE, .choices = libraries, .fallback = "nccl-2.29",
    .offset = offsetof (ScTopology, collectives),
    .help = "What executes collectives: a version of NCCL, or textbook: closed forms over the links" },
  { "device", SC_FIELD_OBJECT, .table = &sc_topology_device_table, .derived = "as it is",
    .help = "How the GPUs run, whichever they are: --set device.KEY" },
  { "faults", SC_FIELD_OTHER, .table = &sc_fault_table, .derived = "none",
    .help = "What is slower than its type says" },
  { "background", SC_FIELD_OTHER, .table = &sc_background_table, .derived = "none",
    .help = "Constant traffic of others, taken off the capacity of every link on its way" },
  { .key = NULL },
};
const ScFieldTable sc_topology_table = { .title = "topology", .fields = topology_fields, PLAIN };

/* ---- Devices ---- */

/* What reading one topology needs to know. */
typedef struct
{
  const ScJson *json;
  const char *folder;
  ScTopology *topology;
  GHashTable *devices;   /* what was asked for -> ScDevice, which the topology owns */
  ScDevice *replacement; /* --device, owned by the topology; or NULL */
} Reader;

static ScDevice *
keep_device (Reader *reader, const char *asked, ScDevice *device)
{
  g_ptr_array_add (reader->topology->devices, device);
  g_hash_table_insert (reader->devices, g_strdup (asked), device);
  return device;
}

/* The device of a node type that has a "device" key. */
static ScDevice *
read_device_file (Reader *reader, const cJSON *item, GError **error)
{
  static const ScField field = { .key = "device", .kind = SC_FIELD_STRING };

  g_autofree char *name = NULL;
  if (!sc_fields_read_value (&field, &sc_node_type_table, reader->json, item, &name, error))
    return NULL;
  g_autofree char *path = reader->folder != NULL && strcmp (reader->folder, ".") != 0 && !g_path_is_absolute (name)
                              ? g_build_filename (reader->folder, name, NULL)
                              : g_strdup (name);
  ScDevice *device = g_hash_table_lookup (reader->devices, path);
  if (device != NULL)
    return device;
  device = sc_device_load (path, error);
  if (device == NULL)
    {
      g_autofree char *pointer = sc_json_pointer (reader->json, item, NULL);
      g_prefix_error (error, "%s: %s: ", reader->json->file, pointer);
      return NULL;
    }
  if (reader->topology->files == NULL)
    reader->topology->files = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (reader->topology->files, g_strdup (path));
  return keep_device (reader, path, device);
}

/* The shipped device that a node type names. */
static ScDevice *
read_shipped_device (Reader *reader, const cJSON *object, const char *name, GError **error)
{
  ScDevice *device = g_hash_table_lookup (reader->devices, name);
  if (device != NULL)
    return device;
  g_autoptr (GError) why = NULL;
  device = sc_device_find (name, &why);
  if (device != NULL)
    return keep_device (reader, name, device);
  if (why != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&why));
      return NULL;
    }
  g_autofree char *nearest = sc_device_nearest (name);
  if (nearest != NULL)
    sc_json_fail (reader->json, object, "gpu", error, "no shipped device is called \"%s\", did you mean \"%s\"?", name,
                  nearest);
  else
    sc_json_fail (reader->json, object, "gpu", error,
                  "no shipped device is called \"%s\" (see stepcast list devices, or give a file as \"device\")", name);
  return NULL;
}

static gboolean
read_device (Reader *reader, const cJSON *object, ScNodeType *type, GError **error)
{
  const cJSON *file = sc_fields_get (&sc_node_type_table, object, "device");
  if (file == NULL && type->device_name == NULL)
    {
      sc_json_fail (reader->json, object, "gpu", error,
                    "missing, expected the name of a GPU (see stepcast list devices)");
      return FALSE;
    }
  if (file == NULL && reader->replacement != NULL && sc_device_is_called (reader->replacement, type->device_name))
    type->device = reader->replacement; /* a name that only the user's file knows is fine */
  else
    type->device = file != NULL ? read_device_file (reader, file, error)
                                : read_shipped_device (reader, object, type->device_name, error);
  if (type->device == NULL)
    return FALSE;
  if (type->device_name == NULL)
    type->device_name = g_strdup (type->device->name);
  return TRUE;
}

/* --device: for the node types that name it, or for all if none does. */
static void
replace_devices (Reader *reader)
{
  ScTopology *topology = reader->topology;
  if (reader->replacement == NULL)
    return;
  gboolean named = FALSE;
  for (guint i = 0; i < topology->n_types; i++)
    named |= sc_device_is_called (reader->replacement, topology->types[i].device_name)
             || sc_device_is_called (reader->replacement, topology->types[i].device->name);
  for (guint i = 0; i < topology->n_types; i++)
    {
      ScNodeType *type = &topology->types[i];
      if (!named || sc_device_is_called (reader->replacement, type->device_name)
          || sc_device_is_called (reader->replacement, type->device->name))
        type->device = reader->replacement;
    }
}

/* ---- Nodes ---- */

/* One [a, b] or [a, b, n] of the links of a mesh. */
static gboolean
read_link (Reader *reader, const cJSON *item, ScNodeType *type, GError **error)
{
  const ScField fields[] = {
    { "gpu", SC_FIELD_COUNT, .min = 0, .max = type->gpus - 1, .offset = 0 },
    { "gpu", SC_FIELD_COUNT, .min = 0, .max = type->gpus - 1, .offset = sizeof (guint) },
    { "number", SC_FIELD_COUNT, .min = 1, .max = MAX_LANES, .offset = 2 * sizeof (guint) },
  };
  guint link[3] = { 0, 0, 1 };
  const int n = cJSON_IsArray (item) ? cJSON_GetArraySize (item) : 0;
  if (n < 2 || n > 3)
    {
      g_autofree char *found = sc_json_found (item);
      sc_json_fail (reader->json, item, NULL, error, "found %s, expected [GPU, GPU] or [GPU, GPU, number of links]",
                    cJSON_IsArray (item) ? "an array of another length" : found);
      return FALSE;
    }
  const cJSON *value = item->child;
  for (int i = 0; i < n; i++, value = value->next)
    if (!sc_fields_read_value (&fields[i], &sc_nvlink_table, reader->json, value, link, error))
      return FALSE;
  guint8 *there = &type->nvlink_lanes[link[0] * type->gpus + link[1]];
  if (link[0] == link[1] || *there != 0)
    {
      sc_json_fail (reader->json, item, NULL, error,
                    link[0] == link[1] ? "found GPU %u joined to GPU %u, expected two GPUs"
                                       : "found GPUs %u and %u a second time, expected the number of links as third element",
                    link[0], link[1]);
      return FALSE;
    }
  *there = type->nvlink_lanes[link[1] * type->gpus + link[0]] = (guint8) link[2];
  return TRUE;
}

/* The links of a mesh: no NVSwitch. */
static gboolean
read_links (Reader *reader, const cJSON *nvlink, const cJSON *links, ScNodeType *type, GError **error)
{
  const ScJson *json = reader->json;
  const guint k = type->gpus;
  if (type->nvlink_domain_nodes > 1)
    {
      sc_json_fail (json, nvlink, "domain_nodes", error, "found %u, expected 1, as direct links end at the node",
                    type->nvlink_domain_nodes);
      return FALSE;
    }
  if (type->nvls)
    {
      sc_json_fail (json, nvlink, "nvls", error, "found true, but GPUs with links have no NVSwitch that reduces");
      return FALSE;
    }
  if (k < 2 || k > SC_MESH_MAX_GPUS)
    {
      sc_json_fail (json, links, NULL, error, "found links in a node of %u GPU%s, expected 2 to %u", k, k == 1 ? "" : "s",
                    SC_MESH_MAX_GPUS);
      return FALSE;
    }
  type->nvlink_lanes = g_new0 (guint8, (gsize) k * k);
  if (cJSON_IsString (links) && strcmp (links->valuestring, "all") == 0)
    {
      for (guint i = 0; i < k * k; i++)
        type->nvlink_lanes[i] = i / k != i % k;
      return TRUE;
    }
  if (!cJSON_IsArray (links))
    {
      g_autofree char *found = sc_json_found (links);
      sc_json_fail (json, links, NULL, error, "found %s, expected an array of [GPU, GPU] or \"all\"", found);
      return FALSE;
    }
  if (!sc_fields_check_array (json, links, k * (k - 1) / 2, error))
    return FALSE;
  for (const cJSON *item = links->child; item != NULL; item = item->next)
    if (!read_link (reader, item, type, error))
      return FALSE;
  guint a, b;
  if (type->pcie_bytes_per_s.value <= 0 && !sc_mesh_joins_all (type->nvlink_lanes, k, &a, &b))
    {
      sc_json_fail (json, links, NULL, error,
                    "GPU %u cannot reach GPU %u: no link, no GPU that is joined to both, and no pcie", a, b);
      return FALSE;
    }
  return TRUE;
}

/* How the host joins the PCIe switches. */
static gboolean
check_sockets (Reader *reader, const cJSON *pcie, const ScNodeType *type, GError **error)
{
  const guint per = type->pcie_switches_per_socket;
  if (per == 0 && type->pcie_socket_bytes_per_s.value > 0)
    {
      sc_json_fail (reader->json, pcie, "switches_per_socket", error,
                    "missing, expected the number of PCIe switches on a socket, as there is socket_bandwidth");
      return FALSE;
    }
  if (type->pcie_socket_pair_bytes_per_s.value > 0 && type->pcie_socket_bytes_per_s.value <= 0)
    {
      sc_json_fail (reader->json, pcie, "socket_bandwidth", error, "missing, expected the rate between sockets, as there is socket_pair_bandwidth");
      return FALSE;
    }
  if (per == 0)
    return TRUE;
  if (type->pcie_gpus_per_switch == 0)
    {
      sc_json_fail (reader->json, pcie, "gpus_per_switch", error, "missing, expected at least 1, as there is switches_per_socket");
      return FALSE;
    }
  const guint switches = type->gpus / type->pcie_gpus_per_switch;
  if (switches % per != 0 || switches / per > MAX_SOCKETS)
    {
      sc_json_fail (reader->json, pcie, "switches_per_socket", error,
                    switches % per != 0 ? "%u does not divide %u PCIe switches"
                                        : "%u of %u PCIe switches on each are too many sockets, expected at most " G_STRINGIFY (MAX_SOCKETS),
                    per, switches);
      return FALSE;
    }
  if (switches > per && type->pcie_socket_bytes_per_s.value <= 0)
    {
      sc_json_fail (reader->json, pcie, "socket_bandwidth", error, "missing, expected the rate between the %u sockets",
                    switches / per);
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_node_type (Reader *reader, const cJSON *object, ScNodeType *type, GError **error)
{
  const ScJson *json = reader->json;
  type->name = g_strdup (object->string);
  type->nvlink_domain_nodes = 1;
  if (!sc_fields_check_object (json, object, error) || !sc_fields_read (&sc_node_type_table, json, object, type, error)
      || !read_device (reader, object, type, error))
    return FALSE;
  const cJSON *nvlink = sc_fields_get (&sc_node_type_table, object, "nvlink");
  const cJSON *pcie = sc_fields_get (&sc_node_type_table, object, "pcie");
  type->has_nvlink = nvlink != NULL;
  if (!type->has_nvlink && type->gpus > 1 && pcie == NULL)
    {
      sc_json_fail (json, object, "nvlink", error, "missing, expected nvlink or pcie: how do %u GPUs of a node talk?",
                    type->gpus);
      return FALSE;
    }
  if (type->pcie_gpus_per_switch > 0 && type->gpus % type->pcie_gpus_per_switch != 0)
    {
      sc_json_fail (json, pcie, "gpus_per_switch", error, "%u does not divide %u GPUs", type->pcie_gpus_per_switch,
                    type->gpus);
      return FALSE;
    }
  if (pcie != NULL)
    {
      type->pcie_through_host = cJSON_IsFalse (sc_fields_get (&sc_pcie_table, pcie, "peer_to_peer"));
      if (!check_sockets (reader, pcie, type, error))
        return FALSE;
    }
  const cJSON *links = nvlink != NULL ? sc_fields_get (&sc_nvlink_table, nvlink, "links") : NULL;
  if (links != NULL && !read_links (reader, nvlink, links, type, error))
    return FALSE;
  if (type->nics > 4 * type->gpus)
    {
      sc_json_fail (json, sc_fields_get (&sc_node_type_table, object, "nics"), "count", error,
                    "found %u, expected at most four for each of %u GPUs", type->nics, type->gpus);
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_node_types (Reader *reader, const cJSON *map, GError **error)
{
  ScTopology *topology = reader->topology;
  if (!sc_fields_check_object (reader->json, map, error))
    return FALSE;
  const int n = cJSON_GetArraySize (map);
  if (n == 0 || n > MAX_NODE_TYPES)
    {
      sc_json_fail (reader->json, map, NULL, error, "found %d node types, expected 1 to %u", n, MAX_NODE_TYPES);
      return FALSE;
    }
  topology->types = g_new0 (ScNodeType, (gsize) n);
  for (const cJSON *object = map->child; object != NULL; object = object->next)
    if (!read_node_type (reader, object, &topology->types[topology->n_types++], error))
      return FALSE;
  replace_devices (reader);
  return TRUE;
}

/* Index of the node type @name, or n_types. */
static guint
find_type (const ScTopology *topology, const char *name)
{
  guint i = 0;
  while (i < topology->n_types && strcmp (topology->types[i].name, name) != 0)
    i++;
  return i;
}

static gboolean
fail_type (const Reader *reader, const cJSON *object, const char *name, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  for (guint i = 0; i < reader->topology->n_types; i++)
    g_ptr_array_add (known, reader->topology->types[i].name);
  g_ptr_array_add (known, NULL);
  const char *nearest = sc_nearest (name, (const char *const *) known->pdata);
  sc_json_fail (reader->json, object, "type", error, "found \"%s\", expected a key of node_types such as \"%s\"", name,
                nearest != NULL ? nearest : reader->topology->types[0].name);
  return FALSE;
}

static gboolean
read_nodes (Reader *reader, const cJSON *array, GError **error)
{
  ScTopology *topology = reader->topology;
  if (!sc_fields_check_array (reader->json, array, MAX_RUNS, error))
    return FALSE;
  if (array->child == NULL)
    {
      sc_json_fail (reader->json, array, NULL, error, "found no nodes, expected at least one");
      return FALSE;
    }
  topology->runs = g_new0 (ScNodeRun, (gsize) cJSON_GetArraySize (array));
  guint64 nodes = 0, gpus = 0;
  for (const cJSON *object = array->child; object != NULL; object = object->next)
    {
      Run run = { NULL, 0 };
      const gboolean read = sc_fields_check_object (reader->json, object, error)
                            && sc_fields_read (&sc_node_run_table, reader->json, object, &run, error);
      g_autofree char *name = run.type;
      if (!read)
        return FALSE;
      const guint type = find_type (topology, name);
      if (type == topology->n_types)
        return fail_type (reader, object, name, error);
      topology->runs[topology->n_runs++] = (ScNodeRun){ type, run.count };
      nodes += run.count;
      gpus += (guint64) run.count * topology->types[type].gpus;
    }
  if (nodes > MAX_NODES || gpus > MAX_GPUS)
    {
      sc_json_fail (reader->json, array, NULL, error,
                    "found %" G_GUINT64_FORMAT " nodes with %" G_GUINT64_FORMAT " GPUs, expected at most %u and %u",
                    nodes, gpus, MAX_NODES, MAX_GPUS);
      return FALSE;
    }
  topology->n_nodes = (guint) nodes;
  topology->n_gpus = (guint) gpus;
  if (topology->first_node >= topology->n_nodes)
    {
      sc_json_fail (reader->json, reader->json->root, "first_node", error, "found %u, expected at most %u, the last node",
                    topology->first_node, topology->n_nodes - 1);
      return FALSE;
    }
  for (guint i = 0; nodes > 1 && i < topology->n_runs; i++)
    {
      const ScNodeType *type = &topology->types[topology->runs[i].type];
      if (type->nics > 0 || nodes <= type->nvlink_domain_nodes)
        continue;
      const cJSON *map = sc_fields_get (&sc_topology_table, reader->json->root, "node_types");
      sc_json_fail (reader->json, cJSON_GetObjectItemCaseSensitive (map, type->name), "nics", error,
                    "missing, expected network ports, as there are %" G_GUINT64_FORMAT " nodes", nodes);
      return FALSE;
    }
  return TRUE;
}

/* ---- Fabric ---- */

/* Down-link ports that one child takes on a switch of the tier: a classic leaf carries all NICs of its nodes, a leaf
 * of a rail-optimised group one NIC of each, a higher switch one link of each unit below. */
static guint
ports_per_child (const ScTopology *topology, guint tier)
{
  guint nics = 1;
  for (guint i = 0; tier == 0 && !topology->rail_optimised && i < topology->n_runs; i++)
    nics = MAX (nics, topology->types[topology->runs[i].type].nics);
  return nics;
}

/* Paths up, which share the switch's ports with what hangs below. */
static gboolean
read_paths (Reader *reader, const cJSON *object, ScTier *tier, guint index, guint ports, GError **error)
{
  if (tier->paths == 0 && tier->radix > 0)
    {
      /* A leaf with ports to spare has no more up-links than its nodes need: none is narrower than a NIC. */
      double paths = tier->radix / (1 + tier->oversubscription);
      if (index == 0)
        paths = MIN (paths, (double) tier->children * ports / tier->oversubscription);
      tier->paths = (guint) CLAMP (paths + 1e-9, 1, MAX_PATHS);
      return TRUE;
    }
  if (tier->paths == 0 && reader->topology->routing == SC_ROUTING_ECMP)
    {
      sc_json_fail (reader->json, object, "paths", error, "missing, expected paths or radix, as routing is ecmp");
      return FALSE;
    }
  const guint64 needed = (guint64) tier->children * ports + tier->paths;
  if (tier->radix > 0 && needed > tier->radix)
    {
      sc_json_fail (reader->json, object, "paths", error,
                    "%u children of %u port(s) and %u paths up need %" G_GUINT64_FORMAT " ports, the switch has %u",
                    tier->children, ports, tier->paths, needed, tier->radix);
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_tier (Reader *reader, const cJSON *object, guint index, GError **error)
{
  ScTier *tier = &reader->topology->tiers[index];
  if (!sc_fields_check_object (reader->json, object, error)
      || !sc_fields_read (&sc_tier_table, reader->json, object, tier, error))
    return FALSE;
  const guint ports = ports_per_child (reader->topology, index);
  const double o = tier->oversubscription;
  if (tier->radix == 0 && tier->children == 0)
    {
      sc_json_fail (reader->json, object, "children", error, "missing, expected radix or children");
      return FALSE;
    }
  if (tier->children == 0)
    {
      /* radix = down + up and down = o x up */
      const double children = tier->radix * o / (1 + o) / ports, nearest = rint (children);
      if (fabs (children - nearest) > 1e-9 * nearest || nearest < 1)
        {
          sc_json_fail (reader->json, object, "radix", error,
                        "%u ports at oversubscription %g make %.4g children of %u port(s), expected a whole number (or "
                        "give children)",
                        tier->radix, o, children, ports);
          return FALSE;
        }
      tier->children = (guint) nearest;
      return read_paths (reader, object, tier, index, ports, error);
    }
  const double needed = (double) tier->children * ports * (1 + 1 / o);
  if (tier->radix > 0 && tier->paths == 0 && needed > tier->radix * (1 + 1e-9))
    {
      sc_json_fail (reader->json, object, "children", error,
                    "%u children of %u port(s) need %.4g ports with those up, the switch has %u", tier->children, ports,
                    needed, tier->radix);
      return FALSE;
    }
  return read_paths (reader, object, tier, index, ports, error);
}

static gboolean
read_tiers (Reader *reader, const cJSON *array, GError **error)
{
  if (!sc_fields_check_array (reader->json, array, MAX_TIERS, error))
    return FALSE;
  reader->topology->tiers = g_new0 (ScTier, (gsize) cJSON_GetArraySize (array) + 1);
  for (const cJSON *object = array->child; object != NULL; object = object->next)
    if (!read_tier (reader, object, reader->topology->n_tiers++, error))
      return FALSE;
  return TRUE;
}

/* ---- Faults ---- */

/* Node and index of a GPU, NIC or NVLink at @place. */
static gboolean
check_fault_place (Reader *reader, const cJSON *place, const ScFault *fault, GError **error)
{
  if (fault->node >= reader->topology->n_nodes)
    {
      sc_json_fail (reader->json, place, "node", error, "found %u, expected less than %u nodes", fault->node,
                    reader->topology->n_nodes);
      return FALSE;
    }
  const ScNodeType *type = sc_topology_node_type (reader->topology, fault->node);
  const guint n = fault->kind == SC_FAULT_NIC ? type->nics : type->gpus;
  if (fault->kind == SC_FAULT_NVLINK && !type->has_nvlink)
    {
      sc_json_fail (reader->json, place, "node", error, "node %u has no NVLink", fault->node);
      return FALSE;
    }
  if (fault->index >= n)
    {
      sc_json_fail (reader->json, place, "index", error, "found %u, expected less than %u %s of node %u", fault->index,
                    n, fault->kind == SC_FAULT_NIC ? "NICs" : "GPUs", fault->node);
      return FALSE;
    }
  return TRUE;
}

/* Tier, unit and rail of up-links at @place. */
static gboolean
check_uplink (Reader *reader, const cJSON *place, const ScTierFault *fault, GError **error)
{
  const ScTopology *topology = reader->topology;
  if (fault->tier >= topology->n_tiers)
    {
      sc_json_fail (reader->json, place, "tier", error, "found %u, expected less than %u tiers", fault->tier,
                    topology->n_tiers);
      return FALSE;
    }
  guint units = topology->n_nodes, rails = 1;
  for (guint i = 0; i <= fault->tier; i++)
    units = (units - 1) / topology->tiers[i].children + 1;
  if (fault->unit >= units)
    {
      sc_json_fail (reader->json, place, "unit", error, "found %u, expected less than %u units of tier %u", fault->unit,
                    units, fault->tier);
      return FALSE;
    }
  for (guint i = 0; fault->tier == 0 && topology->rail_optimised && i < topology->n_types; i++)
    rails = MAX (rails, topology->types[i].nics);
  if (fault->rail >= rails)
    {
      sc_json_fail (reader->json, place, "rail", error, "found %u, expected less than %u rail(s) of tier %u", fault->rail,
                    rails, fault->tier);
      return FALSE;
    }
  return TRUE;
}

/* Reads into the next of faults or tier_faults. */
static gboolean
read_fault (Reader *reader, const cJSON *object, GHashTable *seen, GError **error)
{
  enum { UPLINK = SC_FAULT_NVLINK + 1 };
  static const struct
  {
    const char *key;
    int kind;
  } kinds[] = { { "gpu", SC_FAULT_GPU }, { "nic", SC_FAULT_NIC }, { "nvlink", SC_FAULT_NVLINK }, { "uplink", UPLINK } };

  ScTopology *topology = reader->topology;
  Fault fault = { .factor = 1 };
  if (!sc_fields_check_object (reader->json, object, error)
      || !sc_fields_read (&sc_fault_table, reader->json, object, &fault, error))
    return FALSE;
  const cJSON *place = NULL;
  guint n_places = 0;
  int kind = 0;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      const cJSON *item = sc_fields_get (&sc_fault_table, object, kinds[i].key);
      if (item == NULL)
        continue;
      place = item;
      n_places++;
      kind = kinds[i].kind;
    }
  if (fault.factor > 0 && fault.factor < MIN_FAULT_FACTOR)
    {
      sc_json_fail (reader->json, object, "factor", error, "found %g, expected 0 (dead) or %g to 1", fault.factor,
                    MIN_FAULT_FACTOR);
      return FALSE;
    }
  if (n_places != 1)
    {
      sc_json_fail (reader->json, object, NULL, error, "found %u of gpu, nic, nvlink and uplink, expected one", n_places);
      return FALSE;
    }
  gint64 key;
  if (kind == UPLINK)
    {
      if (!check_uplink (reader, place, &fault.tier_fault, error))
        return FALSE;
      fault.tier_fault.factor = fault.factor;
      topology->tier_faults[topology->n_tier_faults++] = fault.tier_fault;
      key = (((gint64) kind * MAX_NODES + fault.tier_fault.unit) * 4096 + fault.tier_fault.rail) * MAX_TIERS + fault.tier_fault.tier;
    }
  else
    {
      fault.fault.kind = (ScFaultKind) kind;
      fault.fault.factor = fault.factor;
      if (!check_fault_place (reader, place, &fault.fault, error))
        return FALSE;
      topology->faults[topology->n_faults++] = fault.fault;
      key = (((gint64) kind * MAX_NODES + fault.fault.node) * 4096 + fault.fault.index) * MAX_TIERS;
    }
  if (!g_hash_table_add (seen, g_memdup2 (&key, sizeof key)))
    {
      sc_json_fail (reader->json, object, NULL, error, "found a second fault of the same part, expected one");
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_faults (Reader *reader, const cJSON *array, GError **error)
{
  ScTopology *topology = reader->topology;
  if (!sc_fields_check_array (reader->json, array, MAX_FAULTS, error))
    return FALSE;
  topology->faults = g_new0 (ScFault, (gsize) cJSON_GetArraySize (array) + 1);
  topology->tier_faults = g_new0 (ScTierFault, (gsize) cJSON_GetArraySize (array) + 1);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  for (const cJSON *object = array->child; object != NULL; object = object->next)
    if (!read_fault (reader, object, seen, error))
      return FALSE;
  return TRUE;
}

/* ---- Traffic of others ---- */

static gboolean
read_backgrounds (Reader *reader, const cJSON *array, GError **error)
{
  ScTopology *topology = reader->topology;
  if (!sc_fields_check_array (reader->json, array, MAX_BACKGROUNDS, error))
    return FALSE;
  topology->backgrounds = g_new0 (ScBackground, (gsize) cJSON_GetArraySize (array) + 1);
  guint64 nodes = 0;
  for (const cJSON *object = array->child; object != NULL; object = object->next)
    {
      ScBackground *others = &topology->backgrounds[topology->n_backgrounds++];
      if (!sc_fields_check_object (reader->json, object, error)
          || !sc_fields_read (&sc_background_table, reader->json, object, others, error))
        return FALSE;
      const guint64 end = (guint64) others->first_node + others->nodes;
      if (end > topology->n_nodes)
        {
          sc_json_fail (reader->json, object, "nodes", error, "found %u from node %u on, expected no more than the %u nodes",
                        others->nodes, others->first_node, topology->n_nodes);
          return FALSE;
        }
      nodes += others->nodes;
      if (nodes > MAX_NODES)
        {
          sc_json_fail (reader->json, array, NULL, error, "found ranges of %" G_GUINT64_FORMAT " nodes in all, expected at most %u",
                        nodes, MAX_NODES);
          return FALSE;
        }
      guint64 first = 0; /* node of the run */
      for (guint i = 0; i < topology->n_runs; i++)
        {
          const ScNodeType *type = &topology->types[topology->runs[i].type];
          if (type->nics == 0 && first < end && first + topology->runs[i].count > others->first_node)
            {
              sc_json_fail (reader->json, object, "first_node", error, "node %" G_GUINT64_FORMAT " of the range has no NICs",
                            MAX (first, others->first_node));
              return FALSE;
            }
          first += topology->runs[i].count;
        }
    }
  return TRUE;
}

/* ---- The whole ---- */

ScTopology *
sc_topology_from_json (const ScJson *json, const char *folder, const char *device_file, GError **error)
{
  g_autoptr (ScTopology) topology = g_new0 (ScTopology, 1);
  topology->devices = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_device_free);
  topology->what_if = (ScWhatIf) { 1, 1, 1, 1, 1, 1, 1 };
  g_autoptr (GHashTable) devices = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Reader reader = { .json = json, .folder = folder, .topology = topology, .devices = devices };
  if (device_file != NULL)
    {
      reader.replacement = sc_device_load (device_file, error);
      if (reader.replacement == NULL)
        return NULL;
      g_ptr_array_add (topology->devices, reader.replacement);
    }

  const ScFieldTable *table = &sc_topology_table;
  if (!sc_fields_read (table, json, json->root, topology, error)
      || !read_node_types (&reader, sc_fields_get (table, json->root, "node_types"), error)
      || !read_nodes (&reader, sc_fields_get (table, json->root, "nodes"), error))
    return NULL;
  const cJSON *fabric = sc_fields_get (table, json->root, "fabric");
  const cJSON *tiers = fabric != NULL ? sc_fields_get (&sc_fabric_table, fabric, "tiers") : NULL;
  const cJSON *faults = sc_fields_get (table, json->root, "faults");
  const cJSON *background = sc_fields_get (table, json->root, "background");
  if ((tiers != NULL && !read_tiers (&reader, tiers, error))
      || (faults != NULL && !read_faults (&reader, faults, error))
      || (background != NULL && !read_backgrounds (&reader, background, error)))
    return NULL;
  sc_topology_what_if (topology);
  return g_steal_pointer (&topology);
}

ScTopology *
sc_topology_from_text (const char *file, const char *text, gsize length, char **set, const char *device_file, GError **error)
{
  g_autoptr (ScJson) json = sc_json_parse (file, text, length, error);
  if (json == NULL || !sc_override_apply (json, SC_OVERRIDE_TOPOLOGY, set, error))
    return NULL;
  g_autofree char *folder = g_path_get_dirname (json->file);
  return sc_topology_from_json (json, folder, device_file, error);
}

ScTopology *
sc_topology_load (const char *argument, char **set, const char *device_file, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_TOPOLOGY, argument, &file, &length, error);
  return text != NULL ? sc_topology_from_text (file, text, length, set, device_file, error) : NULL;
}
