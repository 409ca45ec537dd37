/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topology.h - what hardware, wired how.
 * Layer: models.  Filled by src/topology-json.c, checked, const from then on; models/fabric.h turns it into links
 * and routes. */
#pragma once
#include "models/device.h"

/* How a collective library talks through a NIC. */
typedef enum
{
  SC_TRANSPORT_INFINIBAND,
  SC_TRANSPORT_ROCE,
  SC_TRANSPORT_EFA,
  SC_TRANSPORT_SLINGSHOT,
  SC_TRANSPORT_TCPX, /* TCP that reads and writes GPU memory */
  SC_TRANSPORT_TCP,
  SC_N_TRANSPORTS
} ScTransport;

/* One kind of node.  Rates are per direction. */
typedef struct
{
  char           *name;
  const ScDevice *device;      /* owned by ScTopology.devices */
  char           *device_name; /* as written */
  guint           gpus;        /* 1..1024 per node */

  gboolean has_nvlink;               /* else GPUs of a node talk over PCIe */
  ScCited  nvlink_bytes_per_s;       /* payload a GPU can send (and receive) into the NVLink domain: what a large send reaches, not the sum of lanes (FOLDING S1); with nvlink_lanes: payload of one link */
  ScCited  nvlink_latency_s;         /* one ring step between two GPUs of the domain */
  guint    nvlink_domain_nodes;      /* nodes of this type that share one NVLink domain, in order; 1 but for NVL72 and alike */
  guint8  *nvlink_lanes;             /* [gpus x gpus] parallel links between two GPUs of the node, symmetric; NULL: an NVSwitch joins all (mesh.h) */
  gboolean nvls;                     /* the NVSwitches reduce and multicast */

  ScCited  pcie_bytes_per_s;   /* payload of one GPU's link; 0: not modelled (the NIC is the narrower) */
  ScCited  pcie_latency_s;     /* one ring step through PCIe */
  guint    pcie_gpus_per_switch; /* GPUs behind one PCIe switch or root; 0 = each its own */
  ScCited  pcie_uplink_bytes_per_s; /* from a PCIe switch to the host, shared by its GPUs; 0: as wide as all of them */
  guint    pcie_switches_per_socket; /* 0: all on one socket */
  ScCited  pcie_socket_bytes_per_s; /* from one socket to another, shared by all that crosses */
  ScCited  pcie_socket_pair_bytes_per_s; /* that one pair of GPUs reaches across sockets; 0: all of it */
  gboolean pcie_through_host;  /* GPUs cannot read each other: every copy climbs to the host */

  guint    nics;               /* per node, 0..gpus x 4; GPU i uses NIC floor(i * nics / gpus) */
  ScCited  nic_bytes_per_s;    /* payload of one NIC */
  ScCited  nic_latency_s;      /* one ring step that leaves the node, switches apart */
  ScTransport transport;
  ScCited  host_memory_bytes_per_s; /* of all its sockets; 0: not known */
  ScCited  host_factor;        /* this host's issue time relative to the framework's figure (1) */
} ScNodeType;

typedef struct
{
  guint type;  /* index in ScTopology.types */
  guint count;
} ScNodeRun;

/* One tier of a fat tree, from the nodes up.  The tier above the last one is a non-blocking core. */
typedef struct
{
  guint  radix;             /* ports of one switch; 0 = not given */
  guint  children;          /* rail-optimised leaf: nodes below one group of leaves; classic leaf: nodes below a leaf; higher tiers: units of the tier below */
  double oversubscription;  /* down-link capacity over up-link capacity, >= 1 */
  guint  paths;             /* equal up-links of one bundle, for ECMP; 0 = not known */
  ScCited latency_s;        /* added to each hop that turns above this tier */
} ScTier;

typedef enum { SC_FAULT_GPU, SC_FAULT_NIC, SC_FAULT_NVLINK } ScFaultKind;

/* Something slower than its type says. */
typedef struct
{
  ScFaultKind kind;
  guint  node, index; /* index: GPU or NIC of that node */
  double factor;      /* of its rate; 0 = dead (a dead GPU cannot be part of a job; a dead NIC's GPUs use the node's next living one) */
} ScFault;

/* Up-links of a leaf or of a unit of a higher tier, slower than built, in both directions. */
typedef struct
{
  guint  tier, unit, rail; /* rail: 0 but for leaves of a rail-optimised fabric */
  double factor;           /* 0 = dead */
} ScTierFault;

/* Constant traffic of others: each NIC of each node sends to the same NIC of the next node of the range, the last
 * node's to the first's. */
typedef struct
{
  guint   first_node, nodes;
  ScCited bytes_per_s; /* of each NIC */
} ScBackground;

/* How traffic spreads over the up-links of a bundle. */
typedef enum
{
  SC_ROUTING_IDEAL,    /* perfectly */
  SC_ROUTING_ADAPTIVE, /* over all, and reaches routing_efficiency of their sum */
  SC_ROUTING_ECMP,     /* each flow keeps to one of them, by hash */
} ScRouting;

/* What-if: factors on the numbers themselves, so that rates above 1 are faster and times below 1 shorter. */
typedef struct
{
  double matrix;  /* rate of the GPUs' matrix units */
  double hbm;     /* bandwidth of their memory */
  double launch;  /* time from one kernel to the next, and of the host to issue one */
  double nvlink;  /* bandwidth of NVLink */
  double nic;     /* bandwidth of NICs, and of the tree above them */
  double latency; /* of each step over links and switches, and the fixed part of collectives */
  double pcie;    /* bandwidth of PCIe, and of copies between GPU and host */
} ScWhatIf;

#define SC_TEXTBOOK 0 /* closed forms over the links are the times of collectives */

typedef struct
{
  char       *name;
  char       *summary;
  char       *source;
  ScNodeType *types;   /* [n_types] */
  guint       n_types;
  ScNodeRun  *runs;    /* [n_runs] nodes in order */
  guint       n_runs;
  guint       n_nodes; /* sum */
  guint       n_gpus;  /* sum over nodes */
  guint       first_node; /* a job takes GPUs in order from this node on */
  gboolean    rail_optimised; /* NIC r of every node hangs on leaf r of its group */
  ScTier     *tiers;   /* [n_tiers]; 0 tiers with more than one node: one non-blocking switch */
  guint       n_tiers;
  ScRouting   routing;
  double      routing_efficiency;   /* in (0, 1]; ADAPTIVE */
  guint       flows_per_connection; /* 1..64 queue pairs that a connection is spread over; ECMP */
  gboolean    sharp;                /* the switches reduce */
  ScCited     collective_launch_s; /* fixed part of a collective's time */
  guint       collectives; /* what executes them: SC_TEXTBOOK, or a release of NCCL as 2 x 1000 + minor (models/nccl.h) */
  ScFault    *faults;  /* [n_faults] */
  guint       n_faults;
  ScTierFault *tier_faults; /* [n_tier_faults] */
  guint       n_tier_faults;
  ScBackground *backgrounds; /* [n_backgrounds] */
  guint       n_backgrounds;
  ScWhatIf    what_if; /* applied by sc_topology_what_if() */
  gboolean    burst;   /* GPUs run at burst rates */
  GPtrArray  *devices; /* ScDevice, owned */
  GPtrArray  *files;   /* char *, owned: device files that it names; NULL: none */
} ScTopology;

void sc_topology_free (ScTopology *topology);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScTopology, sc_topology_free)

/* Applies what_if and burst to the devices and node types.  Once, when all is read. */
void sc_topology_what_if (ScTopology *topology);

/* GPUs that a job can have: those of first_node and the nodes behind it. */
guint sc_topology_job_gpus (const ScTopology *topology);

/* The node type of @node (0-based). */
const ScNodeType *sc_topology_node_type (const ScTopology *topology, guint node);
