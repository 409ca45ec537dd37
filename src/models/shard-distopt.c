/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-distopt.c - Megatron's distributed optimizer: each rank updates its part of every bucket, over all data-parallel ranks or, as one
 * of several instances, over some of them. */
#include "models/lower-parts.h"

static guint32
distopt_comm (const Lower *l, gboolean experts)
{
  return !experts && sc_plan_inner_ranks (l->plan) > 0 ? sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_SHARD, FALSE) : sc_lower_data_comm (l, experts);
}

/* Of several instances each scatters over its own ranks; ranks that hold the same part then sum it, on the same stream (start_grad_sync in
 * param_and_grad_buffer.py: neither is asynchronous there). */
static void
distopt_reduce (Lower *l, const Bucket *b)
{
  const double bytes = (double) b->params * sc_dtype_bytes (l->plan->grad_dtype);
  sc_lower_data_call (l, SC_STREAM_DP, distopt_comm (l, b->experts), SC_COLL_REDUCE_SCATTER, bytes, "gradients");
  if (!b->experts && sc_plan_inner_ranks (l->plan) > 0)
    sc_lower_data_call (l, SC_STREAM_DP, sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_REPLICA, FALSE), SC_COLL_ALL_REDUCE,
                        bytes / sc_plan_inner_ranks (l->plan), "gradients of instances");
}

static void
distopt_gather (Lower *l, ScStreamKind stream, const Bucket *b)
{
  sc_lower_data_call (l, stream, distopt_comm (l, b->experts), SC_COLL_ALL_GATHER, (double) b->params * sc_dtype_bytes (l->plan->dtype), "parameters");
}

static const ScShardingSteps distopt_steps = {
  .by_units = sc_bucket_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = sc_bucket_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = sc_bucket_after_unit,
  .after_slot = sc_bucket_after_slot,
  .before_optimizer = sc_bucket_before_optimizer,
  .after_optimizer = sc_bucket_after_optimizer,
  .reduce = distopt_reduce,
  .gather = distopt_gather,
};

const ScShardingRow sc_sharding_distributed_optimizer = {
  .name = "distributed-optimizer",
  .summary = "Megatron's: optimizer states shared out; gradients are reduce-scattered, updated weights gathered, bucket by bucket; "
             "shard_group: instances of so many ranks",
  .source = "NVIDIA/Megatron-LM docs/source/api-guide/dist_optimizer.md, megatron/core/distributed/param_and_grad_buffer.py",
  .optimizer = TRUE,
  .steps = &distopt_steps,
};
