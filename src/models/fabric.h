/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fabric.h - a topology as directed links and routes over them.
 * Layer: models.  Only the nodes that a job uses are built.
 *
 * A route is the list of links that one send crosses, from the source GPU to the destination GPU:
 *   same NVLink domain   nvlink-out(a), nvlink-in(b)
 *   same node, mesh      lanes(a, b), or over the GPU c between lanes(a, c), lanes(c, b) (mesh.h)
 *   same node, PCIe      pcie-out(a) [, switch-up [, socket], switch-down], pcie-in(b)
 *   across nodes         [pcie-out(a) [, switch-up [, socket]],] nic-out, [up-links of the tiers that the path climbs, down-links,] nic-in [, ...]
 * Every link has its twin in the other direction next to it: link ^ 1.
 *
 * The up-links of one leaf (and of one unit of a higher tier) are one bundle, over which traffic spreads ideally; adaptive
 * routing makes it as narrow as routing_efficiency says.  With ECMP a bundle is `paths` links of equal width, and a flow keeps
 * to one of them in each tier that it climbs, up and down alike.  Which one is a hash of source (node, GPU, NIC),
 * destination, flow and tier (splitmix64's finaliser over these), the same on every machine: as in a real fabric, flows of
 * a lucky pattern share nothing and others collide.
 *
 * What others send (ScTopology.backgrounds) is taken off the capacity of the links on its way once and for all. */
#pragma once
#include "models/topology.h"

typedef enum
{
  SC_LINK_NVLINK_OUT,
  SC_LINK_LANES,     /* of a mesh: all links from one GPU to another */
  SC_LINK_PCIE_OUT,
  SC_LINK_SWITCH_UP, /* PCIe switch to the host */
  SC_LINK_SOCKET,    /* from one socket of a host to another */
  SC_LINK_NIC_OUT,
  SC_LINK_UP,        /* a tier's up-link bundle */
  SC_LINK_DOWN,
  SC_LINK_NIC_IN,
  SC_LINK_SWITCH_DOWN,
  SC_LINK_PCIE_IN,
  SC_LINK_NVLINK_IN,
} ScLinkKind;
#define SC_N_LINK_KINDS (SC_LINK_NVLINK_IN + 1)

typedef struct
{
  ScLinkKind kind;
  guint8  tier;     /* UP, DOWN */
  guint16 rail;     /* UP, DOWN of a rail-optimised leaf; NIC, PCIe switch: its index in the node; LANES: index of the GPU at
                     * the other end; SOCKET: from x 256 + to */
  guint16 path;     /* UP, DOWN: of the bundle (ECMP) */
  guint32 owner;    /* GPU (LANES: that sends), node (switch, socket, NIC) or unit of the tier */
  double  capacity; /* payload bytes/s */
} ScLink;

typedef struct
{
  guint32 node;
  guint16 index;  /* in the node */
  guint16 nic;    /* of the node, or SC_NO_NIC */
  float   speed;  /* 1, or the factor of a fault */
} ScGpu;

#define SC_NO_NIC G_MAXUINT16
#define SC_MAX_ROUTE 32

typedef struct
{
  guint32 links[SC_MAX_ROUTE];
  guint   n;
  double  latency_s;    /* one ring step over this route */
  gboolean crosses_nic;
  gboolean in_network;  /* a switch reduces or multicasts: loads do not pass on along the route */
} ScRoute;

typedef struct
{
  const ScTopology *topology; /* borrowed */
  ScLink  *links;    /* [n_links] */
  guint32  n_links;
  ScGpu   *gpus;     /* [n_gpus] */
  guint32  n_gpus;
  guint32  first_node, n_nodes; /* that hold them; arrays by node have first_node + n_nodes entries */
  guint32 *gpu_base; /* [nodes] first GPU of each node */
  guint32 *domain;   /* [nodes] NVLink domain of each node; nodes without NVLink each their own */
  /* first link of each kind, by node or GPU; see fabric.c */
  guint32 *nvlink_out, *pcie_out;         /* [n_gpus] or SC_NONE; the `in` link is the next one */
  guint32 *lanes;                         /* [n_gpus] of a mesh: first link of its node, or SC_NONE: no mesh, or dead */
  guint32 **lane_of;                      /* [topology->n_types] of a mesh: [gpus x gpus] place of lanes i to j, i < j, behind that */
  guint32 *nic_out;                       /* [nodes] NIC i: out = base + 2 i, in = base + 2 i + 1 */
  guint32 *switch_up;                     /* [nodes] PCIe switch i: up = base + 2 i, down = base + 2 i + 1; or SC_NONE */
  guint32 *socket;                        /* [nodes] sockets i < j: i to j = base + 2 (j (j - 1) / 2 + i), back the next; or SC_NONE */
  guint32 *tier_up[8];                    /* [n_units] rail r, path p: up = base + 2 (r n_paths + p), down the next */
  guint    n_units[8];                    /* of each tier, from node 0 to the job's last */
  guint    n_rails[8];                    /* bundles per unit of each tier */
  guint    n_paths[8];                    /* links per bundle: 1 but for ECMP */
  GHashTable *mesh_rings;                 /* what collective.c has found for groups inside a mesh, by their lanes: a search is done once.  Filled as
                                           * groups are walked, so one fabric is for one thread */
  guint    flows;                         /* of a connection: flows_per_connection with ECMP, else 1 */
  guint    flow;                          /* the one that routes are asked for where no other is named: 0, but for the views of loads.c */
} ScFabric;

#define SC_FABRIC_ERROR (sc_fabric_error_quark ())
GQuark sc_fabric_error_quark (void);
typedef enum
{
  SC_FABRIC_ERROR_TOO_SMALL,   /* the topology has fewer GPUs than asked for */
  SC_FABRIC_ERROR_UNREACHABLE, /* a GPU that another cannot reach, or a dead one in the job */
  SC_FABRIC_ERROR_CAPACITY,    /* a link that is left without capacity */
  SC_FABRIC_ERROR_TOO_LARGE,   /* more links than can be held */
} ScFabricError;

/* Links of the nodes that hold the job's @n_gpus GPUs: GPU 0 of the fabric is the first one of topology->first_node. */
ScFabric *sc_fabric_new (const ScTopology *topology, guint n_gpus, GError **error);
void      sc_fabric_free (ScFabric *fabric);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScFabric, sc_fabric_free)

/* Route of flow @flow < flows of a connection from GPU @a through NIC @nic_a of its node to GPU @b through NIC @nic_b; the NICs matter only when
 * the route leaves the node, the flow only where ECMP chooses paths.  @a != @b. */
void sc_fabric_route_flow (const ScFabric *fabric, guint32 a, guint16 nic_a, guint32 b, guint16 nic_b, guint flow,
                           ScRoute *ret);

/* The same of flow fabric->flow. */
void sc_fabric_route_via (const ScFabric *fabric, guint32 a, guint16 nic_a, guint32 b, guint16 nic_b, ScRoute *ret);

/* The same through each GPU's own NIC. */
void sc_fabric_route (const ScFabric *fabric, guint32 a, guint32 b, ScRoute *ret);

const ScNodeType *sc_fabric_node_type (const ScFabric *fabric, guint32 gpu);

const char *sc_link_kind_name (ScLinkKind kind); /* "nvlink_out", ..., "nic_in" */

/* TRUE if the GPUs of this one's node are joined by direct links, not by switches. */
gboolean sc_fabric_is_mesh (const ScFabric *fabric, guint32 gpu);

/* Parallel direct links from @a to @b; 0: none, another node, no mesh, or dead. */
guint sc_fabric_lanes (const ScFabric *fabric, guint32 a, guint32 b);

/* "NIC 3 out of node 12", "leaf 4 up-links, rail 2", "NVLink lanes GPU 0 to GPU 3": caller frees. */
char *sc_fabric_link_name (const ScFabric *fabric, guint32 link);

/* TRUE for links that only one GPU's or NIC's traffic enters or leaves by: never implied by others (FOLDING S5). */
static inline gboolean
sc_link_is_end (const ScLink *link)
{
  return link->kind != SC_LINK_UP && link->kind != SC_LINK_DOWN;
}

/* Order of links along every route: sources first. */
static inline guint
sc_link_level (const ScLink *link)
{
  if (link->kind == SC_LINK_UP)
    return 8u + link->tier;
  if (link->kind == SC_LINK_DOWN)
    return 32u - link->tier;
  return link->kind < SC_LINK_UP ? (guint) link->kind : 40u + (guint) link->kind;
}
