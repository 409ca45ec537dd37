/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fixtures.h - small clusters and plans with round numbers, for tests that compare times exactly.
 * One elementwise "byte" takes 1 ns on the test GPU, so fix_kernel (2e-3) takes 2 ms to the picosecond. */
#pragma once
#include "models/forecast.h"
#include "models/lower.h"
#include "models/summarise.h"

typedef struct
{
  guint  nodes;
  guint  gpus;       /* per node; 0: 8 */
  guint  leaf;       /* nodes below a group of leaves; 0: all nodes on one switch */
  guint  pod;        /* leaf groups below a pod; 0: two tiers only */
  double over;       /* oversubscription of the leaves; 0: 1 */
  double pod_over;
  double launch_s, nvlink_latency_s, nic_latency_s;
  gboolean classic;  /* not rail-optimised */
} FixFabric;

/* NVLink 450 GB/s a GPU, one NIC of 50 GB/s a GPU. */
ScTopology *fix_topology (FixFabric fabric);
void        fix_fault (ScTopology *topology, ScFaultKind kind, guint node, guint index, double factor);
void        fix_tier_fault (ScTopology *topology, guint tier, guint unit, guint rail, double factor);
/* Links between GPUs of each node of the first type, "ab" or "abn", both ways, in place of the switches. */
void        fix_join (ScTopology *topology, const char *links);
#define FIX_CUBE_MESH "01 02 032 042 122 13 152 23 262 372 45 46 472 562 57 67" /* DGX-1 with V100 */
void        fix_background (ScTopology *topology, guint first_node, guint nodes, double bytes_per_s);

typedef struct
{
  guint tp, pp, vpp, dp; /* 0: 1 */
  guint microbatches;
  guint layers;          /* in all */
  gboolean overlap_p2p, overlap_grad, overlap_param, sequence_parallel, one_queue;
  ScSharding  sharding;
  guint64     bucket_params;
  ScRankOrder rank_order;
} FixPlan;

/* A model without embedding, head and optimizer cost; its framework issues everything at once. */
ScWorkload *fix_workload (FixPlan plan);

/* Passes of one kernel per layer, each followed by a TP all-reduce of @tp_bytes (none for 0). */
ScStepItems *fix_items (double forward_s, double backward_s, double tp_bytes, double boundary_bytes);

/* Everything from workload to trace. */
typedef struct
{
  ScFabric *fabric;
  ScLayout *layout;
  ScLoads *loads;
  ScFold *fold;
  ScStageSizes *sizes;
  ScLowerInput input;
  ScLowered *lowered;
  ScTrace *trace;
} FixRun;

/* @blocks: as ScLowerInput.blocks. */
FixRun *fix_run (const ScTopology *topology, const ScWorkload *workload, const ScStepItems *items, gboolean unfolded, guint blocks);
void    fix_run_free (FixRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (FixRun, fix_run_free)

/* End of the last op of a stream of an actor, or 0. */
ScTime fix_stream_end (const FixRun *run, guint32 actor, guint stream);
