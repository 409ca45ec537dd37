/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-ddp.c - nothing is shared out: every rank holds all of its stage, gradients are summed bucket by bucket. */
#include "models/lower-parts.h"

static void
ddp_reduce (Lower *l, const Bucket *b)
{
  sc_lower_data_call (l, SC_STREAM_DP, sc_lower_data_comm (l, b->experts), SC_COLL_ALL_REDUCE,
                      (double) b->params * sc_dtype_bytes (l->plan->grad_dtype), "gradients");
}

static const ScShardingSteps none_steps = {
  .by_units = sc_bucket_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = sc_bucket_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = sc_bucket_after_unit,
  .after_slot = sc_bucket_after_slot,
  .before_optimizer = sc_bucket_before_optimizer,
  .reduce = ddp_reduce,
};

const ScShardingRow sc_sharding_none = {
  .name = "none",
  .summary = "Every data-parallel rank holds all weights, gradients and optimizer states; buckets of gradients are all-reduced",
  .source = "NVIDIA/Megatron-LM megatron/core/distributed; deepspeed/runtime/engine.py (buffered_allreduce_fallback)",
  .steps = &none_steps,
};

/* DistributedDataParallel copies gradients into buckets of its own, which live as long as it does (gradient_as_bucket_view is off). */
static void
ddp_begin (Lower *l)
{
  double params = 0;
  for (guint i = 0; i < l->buckets->len; i++)
    params += (double) g_array_index (l->buckets, Bucket, i).params;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, params * sc_dtype_bytes (l->plan->grad_dtype));
}

/* Every micro-batch may be reduced, where nobody asked for no_sync(). */
static gboolean
ddp_check (const ScWorkload *workload, GError **error)
{
  (void) workload;
  (void) error;
  return TRUE;
}

static const ScShardingSteps ddp_steps = {
  .begin = ddp_begin,
  .by_units = sc_bucket_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = sc_bucket_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = sc_bucket_after_unit,
  .after_slot = sc_bucket_after_slot,
  .before_optimizer = sc_bucket_before_optimizer,
  .reduce = ddp_reduce,
};

const ScShardingRow sc_sharding_ddp = {
  .name = "none",
  .summary = "The same in PyTorch (DistributedDataParallel): fp32 weights, buckets of 25 MiB filled as gradients come, the first of 1 MiB",
  .source = "torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp",
  .fp32_weights = TRUE,
  .overlap_grad = TRUE,
  .check = ddp_check,
  .steps = &ddp_steps,
};
