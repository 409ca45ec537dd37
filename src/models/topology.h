/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topology.h - what hardware, wired how.
 * Layer: models.  Filled by src/topology-json.c, checked, const from then on; models/fabric.h turns it into links
 * and routes. */
#pragma once
#include "models/device.h"

/* One kind of node.  Rates are per direction. */
typedef struct
{
  char           *name;
  const ScDevice *device;      /* owned by ScTopology.devices */
  char           *device_name; /* as written */
  guint           gpus;        /* 1..1024 per node */

  gboolean has_nvlink;               /* else GPUs of a node talk over PCIe */
  ScCited  nvlink_bytes_per_s;       /* payload a GPU can send (and receive) into the NVLink domain: what a large send reaches, not the sum of lanes (FOLDING S1) */
  ScCited  nvlink_latency_s;         /* one ring step between two GPUs of the domain */
  guint    nvlink_domain_nodes;      /* nodes of this type that share one NVLink domain, in order; 1 but for NVL72 and alike */

  ScCited  pcie_bytes_per_s;   /* payload of one GPU's link; 0: not modelled (the NIC is the narrower) */
  ScCited  pcie_latency_s;     /* one ring step through PCIe */
  guint    pcie_gpus_per_switch; /* GPUs behind one PCIe switch or root; 0 = each its own */
  ScCited  pcie_uplink_bytes_per_s; /* from a PCIe switch to the host, shared by its GPUs; 0: as wide as all of them */

  guint    nics;               /* per node, 0..gpus x 4; GPU i uses NIC floor(i * nics / gpus) */
  ScCited  nic_bytes_per_s;    /* payload of one NIC */
  ScCited  nic_latency_s;      /* one ring step that leaves the node, switches apart */
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
  ScCited     collective_launch_s; /* fixed part of a collective's time */
  ScFault    *faults;  /* [n_faults] */
  guint       n_faults;
  GPtrArray  *devices; /* ScDevice, owned */
} ScTopology;

void sc_topology_free (ScTopology *topology);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScTopology, sc_topology_free)

/* GPUs that a job can have: those of first_node and the nodes behind it. */
guint sc_topology_job_gpus (const ScTopology *topology);

/* The node type of @node (0-based). */
const ScNodeType *sc_topology_node_type (const ScTopology *topology, guint node);
