/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl.c - NCCL's choice by its own constants, and the time of what it chose by measurements. */
#include "models/nccl.h"
#include <stdlib.h>
#include <string.h>

#define US 1e-6

/* Generations in the tuner's tables. */
typedef enum { VOLTA, AMPERE, HOPPER, BLACKWELL, N_GENERATIONS } Generation;

/* Kinds of hop in the tuner's tables. */
typedef enum { NVLINK, PCIE, NETWORK, N_HOPS } Hop;

/* ---- what NCCL chooses: constants of its tuner, by version ---- */

struct _ScNcclVersion
{
  const char *name, *source;
  guint  number;                                  /* first release it stands for: 2 x 1000 + minor */
  double base_us[SC_N_ALGOS][SC_N_PROTOS];
  double hop_us[N_HOPS][SC_N_ALGOS][SC_N_PROTOS];
  double ll_max[N_GENERATIONS][3];                /* GB/s of LL on 1, 2, more nodes */
  double ring_ll128[N_GENERATIONS];               /* GB/s of a channel */
  double tree_ll128[N_GENERATIONS][3];
  double tree_max[N_GENERATIONS][3];
  double nvls_tree_max[N_GENERATIONS][3];
  double ll_inside;                               /* factor of LL's hops inside a node, on several nodes, in place of the cost of a post; 0: a post */
  double blackwell_channels;                      /* of the search on a Blackwell node: 8 of 90 GB/s or 16 of 45 */
  gboolean nvls, nvls_tree, pat;
};

#define SOURCE "github:NVIDIA/nccl src/graph/tuning.cc, tag "

/* On one node by GPU; on more by the hosts' CPU, here of the generation's usual ones: AMD beside A100, else Intel. */
#define LL_MAX { { 39, 39, 20.4 }, { 87.7, 22.5, 19 }, { 141, 39, 20.4 }, { 282, 39, 20.4 } }
#define TREE_MAX { { 26.5, 18.5, 10 }, { 24, 23.6, 17.8 }, { 38.7, 41.4, 36 }, { 70, 42.8, 24 } }
#define NVLS_TREE_MAX { { 0 }, { 0 }, { 0, 57.7, 45.5 }, { 0, 96, 80 } }
#define TREE_LL128 { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 29 }, { 55.6, 31.67, 20 } }
#define TREE_LL128_OLD { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 29 }, { 73.4, 73.4, 58 } }

static const ScNcclVersion v2_29 = {
  "nccl-2.29", SOURCE "v2.29.2-1 and v2.30.7-1", 2029,
  .base_us = { { 6.8, 14, 8.4 }, { 6.6, 14, 8.4 }, { 0 }, { 0 }, { 0 }, { 8, 8, 8 } },
  .hop_us = { { { .6, 1.25, 4 }, { .6, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0, 0, 25 }, { 0, 0, 25 }, { 0, 0, 4 } },
              { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 4 } },
              { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 20.9 }, { 0, 0, 14 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 40 }, .tree_ll128 = TREE_LL128, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 8, .nvls = TRUE, .nvls_tree = TRUE, .pat = TRUE,
};

static const ScNcclVersion v2_28 = {
  "nccl-2.28", SOURCE "v2.28.3-1 and v2.28.9-1", 2028,
  .base_us = { { 6.8, 14, 8.4 }, { 6.6, 14, 8.4 }, { 0 }, { 0 }, { 0 }, { 8, 8, 8 } },
  .hop_us = { { { .6, 1.25, 4 }, { .6, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0, 0, 25 }, { 0, 0, 25 }, { 0, 0, 4 } },
              { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 4 } },
              { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 20.9 }, { 0, 0, 14 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 73.4 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16, .nvls = TRUE, .nvls_tree = TRUE, .pat = TRUE,
};

static const ScNcclVersion v2_25 = {
  "nccl-2.25", SOURCE "v2.25.1-1 to v2.27.7-1", 2025,
  .base_us = { { 6.8, 14, 8.4 }, { 6.6, 14, 8.4 }, { 0 }, { 0 }, { 0 }, { 8, 8, 8 } },
  .hop_us = { { { .6, 1.25, 4 }, { .6, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0, 0, 25 }, { 0, 0, 25 }, { 0, 0, 4 } },
              { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 4 } },
              { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 14 }, { 0, 0, 14 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 73.4 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16, .nvls = TRUE, .nvls_tree = TRUE, .pat = TRUE,
};

static const ScNcclVersion v2_23 = {
  "nccl-2.23", SOURCE "v2.23.4-1 and v2.24.3-1", 2023,
  .base_us = { { 6.8, 14, 8.4 }, { 6.6, 14, 8.4 }, { 0 }, { 0 }, { 0 }, { 8, 8, 8 } },
  .hop_us = { { { .6, 1.25, 4 }, { .6, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0, 0, 25 }, { 0, 0, 25 }, { 0, 0, 4 } },
              { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 4 } },
              { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 14 }, { 0, 0, 14 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16, .nvls = TRUE, .nvls_tree = TRUE, .pat = TRUE,
};

static const ScNcclVersion v2_19 = {
  "nccl-2.19", SOURCE "v2.19.1-1 to v2.22.3-1", 2019,
  .base_us = { { 6.8, 14, 0 }, { 6.6, 14, 8.4 }, { 0 }, { 0 }, { 0 }, { 0 } },
  .hop_us = { { { .6, 1.25, 28 }, { .6, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0, 0, 23 }, { 0, 0, 23 }, { 0 } },
              { { 1, 1.9, 28 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0 } },
              { { 5, 8.5, 28 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 14 }, { 0 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16, .nvls = TRUE, .nvls_tree = TRUE,
};

static const ScNcclVersion v2_18 = {
  "nccl-2.18", SOURCE "v2.18.1-1", 2018,
  .base_us = { { 6.8, 14, 0 }, { 6.6, 14, 8.4 }, { 0 }, { 0, 0, 23 }, { 0, 0, 23 }, { 0 } },
  .hop_us = { { { .6, 1.25, 4 }, { .6, 1.9, 3.4 }, { 0, 0, 2.7 }, { 0 }, { 0 }, { 0 } },
              { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 2.7 }, { 0 }, { 0 }, { 0 } },
              { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 31 }, { 0, 0, 18 }, { 0, 0, 14 }, { 0 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16, .nvls = TRUE, .nvls_tree = TRUE,
};

static const ScNcclVersion v2_14 = {
  "nccl-2.14", SOURCE "v2.14.3-1 to v2.17.1-1", 2014,
  .base_us = { { 4.4, 4.4, 0 }, { 3.6, 10, 8.4 }, { 0 }, { 0 }, { 0 }, { 0 } },
  .hop_us = { { { .52, 1.25, 28 }, { .47, 1.9, 3.4 }, { 0, 0, 3.7 }, { 0 }, { 0 }, { 0 } },
              { { 1, 1.9, 28 }, { 1, 2.5, 5.7 }, { 0, 0, 3.7 }, { 0 }, { 0 }, { 0 } },
              { { 5, 7.5, 50 }, { 2.7, 4, 9.6 }, { 0, 0, 31 }, { 0 }, { 0 }, { 0 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .ll_inside = 1.8, .blackwell_channels = 16,
};

static const ScNcclVersion v2_8 = {
  "nccl-2.8", SOURCE "v2.8.4-1 to v2.11.4-1; caps of trees and LL as of v2.12", 2008,
  .base_us = { { 4.4, 4.4, 0 }, { 3.6, 10, 8.4 }, { 0 }, { 0 }, { 0 }, { 0 } },
  .hop_us = { { { .52, 1.25, 28 }, { .47, 1.9, 3.4 }, { 0, 0, 4 }, { 0 }, { 0 }, { 0 } },
              { { 1, 1.9, 28 }, { 1, 2.5, 5.7 }, { 0, 0, 4 }, { 0 }, { 0 }, { 0 } },
              { { 5, 7.5, 50 }, { 2.7, 4, 9.6 }, { 0, 0, 31 }, { 0 }, { 0 }, { 0 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .ll_inside = 1.8, .blackwell_channels = 16,
};

static const ScNcclVersion v2_5 = {
  "nccl-2.5", SOURCE "v2.5.7-1 to v2.7.8-1; caps of trees and LL as of v2.12", 2005,
  .base_us = { { 4.4, 4.4, 0 }, { 3.6, 3.6, 8.4 }, { 0 }, { 0 }, { 0 }, { 0 } },
  .hop_us = { { { .5, 1.9, 28 }, { .4, 2.5, 5.7 }, { 0, 0, 4 }, { 0 }, { 0 }, { 0 } },
              { { 1, 1.9, 28 }, { 1, 2.5, 5.7 }, { 0, 0, 4 }, { 0 }, { 0 }, { 0 } },
              { { 5, 7.5, 50 }, { .9, 2.5, 6.6 }, { 0, 0, 31 }, { 0 }, { 0 }, { 0 } } },
  .ll_max = LL_MAX, .ring_ll128 = { 20, 20, 36.7, 36.7 }, .tree_ll128 = TREE_LL128_OLD, .tree_max = TREE_MAX,
  .nvls_tree_max = NVLS_TREE_MAX, .blackwell_channels = 16,
};

static const ScNcclVersion *const versions[] = { &v2_29, &v2_28, &v2_25, &v2_23, &v2_19, &v2_18, &v2_14, &v2_8, &v2_5, NULL };

/* Size-dependent correction of the tree's bandwidth: entry i is for 2^(6 + i) bytes. */
static const double tree_correction[SC_N_PROTOS][24] = {
  { 1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1 },
  { 1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1 },
  { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9 },
};

const ScNcclVersion *const *
sc_nccl_versions (void)
{
  return versions;
}

const ScNcclVersion *
sc_nccl_version_of_number (guint number)
{
  guint i = 0;
  while (versions[i + 1] != NULL && versions[i]->number > number)
    i++;
  return versions[i];
}

const ScNcclVersion *
sc_nccl_version_of (const char *release)
{
  for (const char *p = release; p != NULL && *p != '\0'; p++)
    {
      /* the first number of a release: not the 2 of CUDA 12.2.1, but that of libnccl.so.2.18.5 */
      const char *const before = p > release && p[-1] == '.' ? p - 1 : p;
      if (p[0] == '2' && p[1] == '.' && g_ascii_isdigit (p[2]) && (before == release || !g_ascii_isdigit (before[-1])))
        return sc_nccl_version_of_number (2000 + (guint) MIN (strtoul (p + 2, NULL, 10), 999));
    }
  return NULL;
}

const char *
sc_nccl_version_name (const ScNcclVersion *version)
{
  return version->name;
}

guint
sc_nccl_version_number (const ScNcclVersion *version)
{
  return version->number;
}

const char *
sc_nccl_version_source (const ScNcclVersion *version)
{
  return version->source;
}

/* ---- what GPUs and networks make of it: measured ---- */

struct _ScNcclGpu
{
  const char *family; /* of the device, NVLink between GPUs */
  const char *source;
  Generation generation;
  double channels, channel_bytes_per_s; /* of the search on a whole node */
  double kernels;                       /* channels that a communicator opens: thread blocks */
  double link_bytes_per_s, link_latency_s; /* of the node these numbers are from */
  double base_us[SC_N_PROTOS];          /* LL's is the topology's launch; the others' difference to it counts */
  double step_us[SC_N_PROTOS];          /* one intra hop */
  double share[SC_N_PROTOS];            /* of the narrowest link */
  double extra[SC_N_PROTOS];            /* rank's chunks copied besides those sent: own data, last store */
  double fill_us, fill_bytes;           /* Simple: per step, saturating with the bytes of a step */
  double nvls_base_us, nvls_share, nvls_fill_us, nvls_fill_bytes;
  double pair_base_us, pair_peer_us, pair_share, pair_extra, pair_fill_us, pair_fill_bytes; /* all-to-all, send */
};

struct _ScNcclNet
{
  ScTransport transport;
  const char *source;
  double tree_hop[SC_N_PROTOS], ring_hop[SC_N_PROTOS]; /* one hop over the network's latency */
  double share[SC_N_PROTOS];            /* of the narrowest link */
  double many_rails;                    /* of eight NICs and more, which the default channels do not fill */
  gboolean ll128;                       /* NCCL trusts its 128-byte stores here */
  double large_bytes, large_hop;        /* messages from here on (no longer sent eagerly) pay this much more per hop */
  double ring_fill_us;                  /* Simple: per step */
  double tree_fill_us, tree_fill_bytes; /* Simple: per level of the tree, saturating with the message */
  double tree_store_us_per_mb;          /* LL128: per level, as long as a channel holds its part as one chunk */
  double nvls_tree_base_us, nvls_tree_hop;
  double pair_base_us, pair_peer_us, pair_share;
};

#include "models/nccl-measured.h"

static const ScNcclGpu *
gpu_of (const ScNodeType *type)
{
  if (!type->has_nvlink)
    return &measured_pcie;
  for (guint i = 0; i < G_N_ELEMENTS (measured_gpus); i++)
    if (g_strcmp0 (measured_gpus[i].family, type->device->family) == 0)
      return &measured_gpus[i];
  return &measured_gpus[G_N_ELEMENTS (measured_gpus) - 1];
}

static const ScNcclNet *
net_of (const ScNodeType *type)
{
  for (guint i = 0; i < G_N_ELEMENTS (measured_nets); i++)
    if (measured_nets[i].transport == type->transport)
      return &measured_nets[i];
  return &measured_nets[0];
}

ScLibrary
sc_nccl_library (const ScFabric *fabric, guint32 gpu)
{
  const ScTopology *const topology = fabric->topology;
  if (topology->collectives == SC_TEXTBOOK)
    return (ScLibrary) { 0 };
  const ScNodeType *const type = sc_fabric_node_type (fabric, gpu);
  return (ScLibrary) { .version = sc_nccl_version_of_number (topology->collectives), .gpu = gpu_of (type), .net = net_of (type),
                       .nvls = type->nvls, .sharp = topology->sharp };
}

double
sc_nccl_channels (const ScLibrary *library)
{
  return library->gpu != NULL ? library->gpu->kernels : 0;
}

/* ---- its choice ---- */

#define NVLS_HEADS 8 /* channels of the NVLS graph */

/* NCCL's name of a row, or SC_N_ALGOS. */
static ScAlgo
algo_of (const ScCollective *row)
{
  static const struct
  {
    const ScCollective *row;
    ScAlgo algo;
  } algos[] = { { &sc_collective_ring, SC_ALGO_RING }, { &sc_collective_chain, SC_ALGO_RING }, { &sc_collective_tree, SC_ALGO_TREE }, { &sc_collective_nvls, SC_ALGO_NVLS },
                { &sc_collective_nvls_tree, SC_ALGO_NVLS_TREE }, { &sc_collective_pat, SC_ALGO_PAT },
                { &sc_collective_collnet, SC_ALGO_COLLNET } };
  for (guint i = 0; i < G_N_ELEMENTS (algos); i++)
    if (algos[i].row == row)
      return algos[i].algo;
  return SC_N_ALGOS;
}

/* Channels and GB/s of one that the topology search finds: on a node by generation, scaled to this node's links; across
 * nodes one channel per NIC, two for a single one. */
static void
search_graph (const ScGroupShape *shape, double *ret_channels, double *ret_each)
{
  const ScNcclGpu *const g = shape->library.gpu;
  const double ring = sc_ring_bytes_per_s (shape);
  if (shape->n_domains <= 1)
    {
      const gboolean blackwell = g->generation == BLACKWELL && shape->n_channels == 1;
      const double channels = blackwell ? shape->library.version->blackwell_channels : g->channels;
      const double bus = g->channels * g->channel_bytes_per_s * MIN (ring / g->link_bytes_per_s, 4);
      *ret_channels = channels;
      *ret_each = bus / channels / 1e9;
      return;
    }
  const double rails = shape->rails;
  const double most = shape->per_domain > 1 ? g->channels * g->channel_bytes_per_s : INFINITY;
  *ret_channels = rails < 2 ? 2 : MIN (rails, 16);
  *ret_each = MIN (MIN (shape->n_channels * shape->inter_bytes_per_s, ring), most) / *ret_channels / 1e9;
}

static gboolean
protocol_possible (ScAlgo algo, ScProtocol protocol, const ScGroupShape *shape)
{
  if (protocol == SC_PROTO_LL128 && shape->n_domains > 1 && !shape->library.net->ll128)
    return FALSE;
  return algo == SC_ALGO_RING || algo == SC_ALGO_TREE || protocol == SC_PROTO_SIMPLE;
}

/* The tuner's estimate, us (MODELLING 5.5). */
static double
estimate_us (ScAlgo algo, ScProtocol p, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const ScNcclVersion *const v = shape->library.version;
  const Generation gen = shape->library.gpu->generation;
  const double n = shape->n, nodes = shape->n_domains, per = shape->per_domain;
  const guint size = nodes <= 1 ? 0 : nodes <= 2 ? 1 : 2;
  const Hop inside = shape->library.gpu == &measured_pcie ? PCIE : NVLINK;
  const gboolean chain = kind == SC_COLL_BROADCAST || kind == SC_COLL_REDUCE;
  const double steps = kind == SC_COLL_ALL_REDUCE ? 2 * (n - 1) : chain ? n : n - 1;
  const double hop_inside = v->hop_us[inside][algo][p] * (nodes > 1 && p == SC_PROTO_LL && v->ll_inside > 0 ? v->ll_inside : 1);
  double channels, each;
  search_graph (shape, &channels, &each);
  const double bus = channels * each, levels = nodes > 1 ? log2 (nodes) : 0;
  double latency = v->base_us[algo][p], rate = bus; /* GB/s */
  switch (algo)
    {
    case SC_ALGO_RING:
      {
        const double across = nodes > 1 ? (kind == SC_COLL_ALL_REDUCE ? 2 : 1) * (nodes - 1) : 0;
        const double hop = v->hop_us[NETWORK][per > 1 ? SC_ALGO_RING : SC_ALGO_TREE][p];
        const double post = nodes <= 1 || v->ll_inside > 0 ? 0 : p == SC_PROTO_SIMPLE ? 3 : 1;
        if (chain) /* counted once, as every channel runs the same way */
          latency += nodes > 1 ? hop : hop_inside;
        else
          latency += (steps - across) * MAX (hop_inside, post) + across * hop;
        if (p == SC_PROTO_LL)
          rate = MIN (v->ll_max[gen][size], bus / 2);
        else if (p == SC_PROTO_LL128)
          rate = MIN (.92 * bus, channels * v->ring_ll128[gen]);
        else if (nodes > 1 && kind == SC_COLL_ALL_REDUCE && bytes / (channels * n) >= 64)
          latency *= gen >= AMPERE ? 1.4 : 1.9;
        return latency + bytes / (1e3 * rate * n / steps);
      }
    case SC_ALGO_TREE:
      {
        /* on two nodes every NIC carries the data once, not twice: the node's links are the limit */
        const double node = per > 1 ? shape->library.gpu->channels * shape->library.gpu->channel_bytes_per_s / 1e9 : INFINITY;
        rate = MIN (.92 * (size == 1 ? MIN (2 * bus, node) : bus), channels * v->tree_max[gen][size]);
        if (p == SC_PROTO_LL)
          rate = MIN (rate / 3.8, v->ll_max[gen][size]);
        else if (p == SC_PROTO_LL128)
          rate = MIN (rate * (nodes <= 1 ? 7.0 / 9 : 120.0 / 128), channels * v->tree_ll128[gen][size]);
        latency += 2 * ((per - 1) * hop_inside + levels * v->hop_us[NETWORK][algo][p]);
        const double power = bytes >= 64 ? floor (log2 (bytes / 64)) : -1;
        const double correction = power >= 0 && power < 24 ? tree_correction[p][(guint) power] : 1;
        return latency + bytes / (1e3 * rate / 2 * correction);
      }
    case SC_ALGO_NVLS:
    case SC_ALGO_NVLS_TREE:
      {
        const double efficiency = gen == BLACKWELL ? .74 : .85, heads = NVLS_HEADS;
        const double one = 40.0 * (gen == BLACKWELL ? 2 : 1);
        double inner = one * efficiency * (heads - 1) / heads * (kind == SC_COLL_ALL_REDUCE ? 2 : (per - 1) / per);
        latency += v->hop_us[NVLINK][algo][p];
        if (algo == SC_ALGO_NVLS_TREE)
          {
            latency += 2 * levels * v->hop_us[NETWORK][algo][p];
            inner = MIN (inner, MIN (each * channels / heads * (nodes <= 2 ? 2 : 1), v->nvls_tree_max[gen][size]));
          }
        return latency + bytes / (1e3 * heads * inner * n / steps);
      }
    case SC_ALGO_PAT:
      latency += levels * v->hop_us[NETWORK][algo][p] / 3.5 + 2.8 * n;
      return latency + bytes / (1e3 * .75 * bus);
    case SC_ALGO_COLLNET:
      latency += 2 * (MIN (1, per - 1) * v->hop_us[NVLINK][algo][p] + .4 * (per - 1)) + v->hop_us[NETWORK][algo][p];
      {
        const double ranks = MAX (per / channels, 1), share = ranks - (ranks - 1) / 2;
        return latency + bytes / (1e3 * bus / share * (gen >= HOPPER ? .85 : 1) / 2);
      }
    case SC_N_ALGOS:
    default:
      g_return_val_if_reached (INFINITY);
    }
}

static gboolean
version_has (const ScNcclVersion *v, ScAlgo algo)
{
  return algo == SC_ALGO_NVLS ? v->nvls : algo == SC_ALGO_NVLS_TREE ? v->nvls_tree : algo == SC_ALGO_PAT ? v->pat : TRUE;
}

double
sc_nccl_estimate_s (const ScCollective *row, ScProtocol protocol, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const ScAlgo algo = algo_of (row);
  if (algo == SC_N_ALGOS || (row->kinds & 1u << kind) == 0 || !version_has (shape->library.version, algo)
      || !protocol_possible (algo, protocol, shape))
    return INFINITY;
  return estimate_us (algo, protocol, kind, shape, bytes) * US;
}

gboolean
sc_nccl_choose (ScCollKind kind, const ScGroupShape *shape, double bytes, const ScCollective *row, ScProtocol protocol,
                ScCollChoice *ret, const char **ret_why)
{
  double best = INFINITY;
  const char *why = NULL;
  gboolean tuned = FALSE;
  ScCollChoice choice = { 0 };
  for (const ScCollective *const *r = sc_collective_all (); *r != NULL; r++)
    {
      const ScAlgo algo = algo_of (*r);
      if (algo == SC_N_ALGOS || (row != NULL && *r != row) || ((*r)->kinds & 1u << kind) == 0)
        continue;
      tuned = TRUE;
      if (!sc_collective_possible (*r, kind, shape, bytes, row != NULL ? &why : NULL))
        continue;
      if (!version_has (shape->library.version, algo))
        {
          why = "this version of NCCL does not have it";
          continue;
        }
      for (guint p = 0; p < SC_N_PROTOS; p++)
        {
          if (protocol != SC_N_PROTOS && p != protocol)
            continue;
          if (!protocol_possible (algo, (ScProtocol) p, shape))
            {
              why = "it does not use this protocol here";
              continue;
            }
          const double us = estimate_us (algo, (ScProtocol) p, kind, shape, bytes);
          if (us < best)
            {
              best = us;
              choice = (ScCollChoice) { .row = *r, .protocol = (ScProtocol) p, .channels = (guint) shape->library.gpu->kernels };
            }
        }
    }
  if (!tuned)
    return FALSE;
  if (best == INFINITY)
    {
      if (ret_why != NULL)
        *ret_why = why != NULL ? why : "no algorithm is left";
      return FALSE;
    }
  *ret = choice;
  return TRUE;
}

/* ---- how long it lasts ---- */

#define TREE_STORE_BYTES 16e6 /* 24 channels with a chunk of LL128 in each of two trees */

/* One channel of a send-receive between nodes, both ways at once: github:xxrjun/nccl-tests-cluster benchmarks @455de4f8dee2. */
#define PAIR_CHANNEL_BYTES_PER_S 13.2e9

/* Channels that a message of one node is spread over: each thread wants some bytes. */
static double
channels_used (const ScNcclGpu *g, ScProtocol p, const ScGroupShape *shape, double bytes)
{
  const double each = p == SC_PROTO_LL ? 512 * 8.0 * shape->n : p == SC_PROTO_LL128 ? 640 * 8.0 : 512 * 64.0;
  return CLAMP (bytes / each, 1, g->kernels);
}

static double
saturating (double x, double scale)
{
  return 1 - exp (-x / scale);
}

void
sc_nccl_time (ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, const ScBound *bound)
{
  const ScNcclGpu *const g = shape->library.gpu;
  const ScNcclNet *const net = shape->library.net;
  const ScProtocol p = choice->protocol;
  const ScAlgo algo = algo_of (choice->row);
  const gboolean across = shape->n_domains > 1;
  const double chunk = bytes / shape->n, levels = across ? log2 (shape->n_domains) : 0;
  const double step_scale = shape->intra_latency_s > 0 ? shape->intra_latency_s / g->link_latency_s : 1;
  const double base = shape->launch_s + (g->base_us[p] - g->base_us[SC_PROTO_LL]) * US;
  const double rails = across && shape->rails >= 8 ? net->many_rails : 1;
  double intra, inter, latency, fill = 0;
  choice->row->path (kind, shape, &intra, &inter);
  const double step = g->step_us[p] * US * step_scale;
  double gpu_share = g->share[p], net_share = net->share[p] * rails, extra = g->extra[p], most_bytes_per_s = INFINITY;
  if (kind == SC_COLL_ALL_TO_ALL || kind == SC_COLL_SEND || kind == SC_COLL_SEND_RECEIVE)
    {
      const double peers = kind == SC_COLL_ALL_TO_ALL ? shape->n - 1 : 1;
      latency = shape->launch_s + (across ? net->pair_base_us + peers * net->pair_peer_us : g->pair_base_us - g->base_us[SC_PROTO_LL] + peers * g->pair_peer_us) * US
                + inter * shape->inter_latency_s;
      gpu_share = g->pair_share / sc_protocol_wire (p); /* measured with Simple */
      net_share = net->pair_share / sc_protocol_wire (p);
      if (kind == SC_COLL_SEND_RECEIVE && across) /* fewer channels a peer in larger communicators */
        most_bytes_per_s = PAIR_CHANNEL_BYTES_PER_S * (shape->n <= 2 ? 4 : shape->n <= 64 ? 2 : 1) / sc_protocol_wire (p);
      extra = kind == SC_COLL_ALL_TO_ALL ? g->pair_extra : 0;
      if (!across)
        fill = peers * g->pair_fill_us * US * saturating (chunk, g->pair_fill_bytes);
    }
  else if (algo == SC_ALGO_NVLS || algo == SC_ALGO_NVLS_TREE)
    {
      latency = shape->launch_s + (g->nvls_base_us - g->base_us[SC_PROTO_LL]) * US;
      gpu_share = g->nvls_share;
      extra = 0;
      /* measured on 8 GPUs; each is the head of a part of the data, so a wider domain has more parts under way */
      const double heads = shape->per_domain / 8.0;
      const double wide = MAX (heads - (algo == SC_ALGO_NVLS_TREE ? 1 : 0), 0);
      fill = wide * g->nvls_fill_us * US * saturating (bytes, heads * g->nvls_fill_bytes);
      if (algo == SC_ALGO_NVLS_TREE)
        {
          latency = net->nvls_tree_base_us * US + inter * net->nvls_tree_hop * shape->inter_latency_s;
          fill += levels * net->tree_fill_us * US * saturating (bytes, net->tree_fill_bytes);
        }
    }
  else
    {
      const double *const hop = algo == SC_ALGO_RING && shape->per_domain > 1 ? net->ring_hop : net->tree_hop;
      const double large = p != SC_PROTO_SIMPLE && net->large_bytes > 0 && bytes >= net->large_bytes ? 1 + net->large_hop : 1;
      latency = base + intra * step + inter * hop[p] * large * shape->inter_latency_s;
      if (p == SC_PROTO_SIMPLE && algo == SC_ALGO_RING)
        fill = (intra * g->fill_us + (across ? (intra + inter) * net->ring_fill_us : 0)) * US * saturating (chunk, g->fill_bytes);
      else if (p == SC_PROTO_LL128 && algo == SC_ALGO_TREE)
        fill = levels * net->tree_store_us_per_mb * US * MIN (bytes, TREE_STORE_BYTES) / 1e6;
      else if (p == SC_PROTO_SIMPLE && across)
        fill = levels * net->tree_fill_us * US * saturating (bytes, net->tree_fill_bytes);
    }
  /* LL and LL128 open channels as the message grows; a rank's own chunks are copied at the pace of its GPU, not of the link. */
  const double open = !across && p != SC_PROTO_SIMPLE && algo != SC_N_ALGOS ? channels_used (g, p, shape, bytes) / g->kernels : 1;
  const double copies = algo == SC_ALGO_RING || kind == SC_COLL_ALL_TO_ALL ? extra * chunk / g->link_bytes_per_s : 0;
  double wire = bytes * MAX (bound->intra_s_per_byte / gpu_share / open, bound->inter_s_per_byte / net_share) + copies / gpu_share / open;
  wire = MAX (wire, bytes / most_bytes_per_s);
  if (algo == SC_ALGO_NVLS_TREE) /* what a channel moves at most */
    {
      const double most = NVLS_HEADS * shape->library.version->nvls_tree_max[g->generation][shape->n_domains > 2 ? 2 : 1] * 1e9;
      wire = most > 0 ? MAX (wire, bytes * 2 * (shape->n - 1) / shape->n / most) : wire;
    }
  if (shape->pair_bytes_per_s > 0 && choice->row->connection_bytes != NULL)
    wire = MAX (wire, choice->row->connection_bytes (kind, shape, 0, bytes) / gpu_share / shape->pair_bytes_per_s);
  /* shares of pairs are Simple's: flags of a forced protocol cross the same links */
  wire = MAX (wire, sc_protocol_wire (p) * bytes * MAX (bound->intra_s_per_byte, bound->inter_s_per_byte));
  choice->latency_s = latency;
  choice->alone_s = latency + fill + wire;
}

/* ---- how many SMs it takes ---- */

/* src/graph/connect.cc, src/init.cc, src/enqueue.cc @5067397c2676. */
#define PAIR_BLOCKS_ACROSS 2    /* channels of a peer over the network ... */
#define MOST_PAIR_BLOCKS 32     /* ... and of all peers */
#define NVLS_BLOCKS 16          /* Hopper */
#define NVLS_BLOCKS_BLACKWELL 24

static gboolean
has_nvlink (const ScGroupShape *shape)
{
  return shape->library.gpu != &measured_pcie;
}

/* Channels of a communicator: twice those of the search. */
static double
ring_blocks (const ScGroupShape *shape)
{
  double channels, each;
  if (shape->n_domains == 1 && has_nvlink (shape))
    return shape->library.gpu->kernels;
  search_graph (shape, &channels, &each);
  return MIN (2 * channels, MOST_PAIR_BLOCKS);
}

static double
nvls_blocks (const ScGroupShape *shape)
{
  if (shape->library.gpu->generation != BLACKWELL)
    return NVLS_BLOCKS;
  return shape->n_domains > 1 ? MOST_PAIR_BLOCKS : NVLS_BLOCKS_BLACKWELL;
}

double
sc_nccl_blocks (const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  if (shape->library.version == NULL)
    return 0;
  const ScAlgo algo = algo_of (choice->row);
  if (kind == SC_COLL_ALL_TO_ALL || kind == SC_COLL_SEND || kind == SC_COLL_SEND_RECEIVE)
    {
      const double peers = kind == SC_COLL_ALL_TO_ALL ? shape->n - 1 : 1;
      const double each = shape->n_domains > 1 || !has_nvlink (shape) ? PAIR_BLOCKS_ACROSS : shape->library.gpu->kernels;
      return MIN (each * peers, MOST_PAIR_BLOCKS);
    }
  if (algo == SC_ALGO_NVLS || algo == SC_ALGO_NVLS_TREE)
    return nvls_blocks (shape);
  const ScProtocol p = choice->protocol;
  const double each = p == SC_PROTO_LL ? 512 * 8.0 * shape->n : p == SC_PROTO_LL128 ? 640 * 8.0 : 512 * 64.0;
  return CLAMP (ceil (bytes / each), 1, ring_blocks (shape));
}

double
sc_nccl_most_blocks (const ScGroupShape *shape)
{
  if (shape->library.version == NULL)
    return 0;
  return shape->library.nvls && shape->n_domains == 1 ? nvls_blocks (shape) : has_nvlink (shape) ? shape->library.gpu->kernels : ring_blocks (shape);
}
