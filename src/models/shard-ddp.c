/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-ddp.c - nothing is shared out: every rank holds all of its stage, gradients are summed bucket by bucket. */
#include "models/lower-parts.h"

static void
ddp_reduce (Lower *l, const Bucket *b)
{
  sc_lower_data_call (l, SC_STREAM_DP, sc_lower_data_comm (l, b->experts), SC_COLL_ALL_REDUCE,
                      (double) b->params * sc_dtype_bytes (l->plan->grad_dtype), "gradients");
}

/* Where gradients are summed in fp32 by a hook of DistributedDataParallel's, its own buckets are there besides. */
static void
none_begin (Lower *l)
{
  if (!l->in->workload->framework->ddp_buckets || sc_plan_data_ranks (l->plan) == 1)
    return;
  for (guint i = 0; i < l->buckets->len; i++)
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, (double) g_array_index (l->buckets, Bucket, i).params * sc_dtype_bytes (l->plan->dtype), "gradient bucket");
}

static const ScShardingSteps none_steps = {
  .begin = none_begin,
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

/* DeepSpeed's FP16_Optimizer (deepspeed/runtime/fp16/fused_optimizer.py): a step casts each gradient to fp32, then flattens what it has; its
 * own are dropped behind it. */
static double
fp32_bytes (const Lower *l)
{
  const gboolean casts = l->plan->dtype != SC_DTYPE_FP32 && l->plan->grad_dtype != SC_DTYPE_FP32 && !sc_lower_offloads_optimizer (l);
  return casts ? 4 * ((double) l->in->sizes->params[l->at.pp] + (double) l->in->sizes->experts[l->at.pp]) : 0;
}

static void
deepspeed_before_optimizer (Lower *l)
{
  sc_bucket_before_optimizer (l);
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, fp32_bytes (l), "gradients, fp32");
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, fp32_bytes (l), "gradients, fp32 and flat");
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -fp32_bytes (l));
}

static void
deepspeed_after_optimizer (Lower *l)
{
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -fp32_bytes (l));
}

static const ScShardingSteps deepspeed_steps = {
  .by_units = sc_bucket_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = sc_bucket_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = sc_bucket_after_unit,
  .after_slot = sc_bucket_after_slot,
  .before_optimizer = deepspeed_before_optimizer,
  .after_optimizer = deepspeed_after_optimizer,
  .reduce = ddp_reduce,
};

const ScShardingRow sc_sharding_deepspeed = {
  .name = "none",
  .summary = "The same in DeepSpeed, whose step casts 16-bit gradients to fp32 and flattens them",
  .source = "deepspeed/runtime/engine.py (buffered_allreduce_fallback), deepspeed/runtime/fp16/fused_optimizer.py",
  .steps = &deepspeed_steps,
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

/* With autocast the fp32 weights are cast for each forward; the copies live until its backward has used them, and its gradients are cast back. */
static double
cast_params (const Lower *l, const ScSlot *slot, guint unit)
{
  if (l->plan->dtype == SC_DTYPE_FP32)
    return 0;
  return (double) sc_lower_unit_params (l, slot->chunk, unit, FALSE) + (double) sc_lower_unit_params (l, slot->chunk, unit, TRUE);
}

static gboolean
ddp_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  return l->plan->dtype != SC_DTYPE_FP32 || sc_bucket_by_units (l, slot, last);
}

static void
ddp_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  const double params = cast_params (l, slot, unit), bytes = sc_dtype_bytes (l->plan->dtype);
  sc_bucket_before_unit (l, slot, unit, last);
  if (slot->pass != SC_PASS_FORWARD)
    return;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, bytes * params);
  sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_FORWARD, "cast weights", (4 + bytes) * params);
}

static void
ddp_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  const double params = cast_params (l, slot, unit), bytes = sc_dtype_bytes (l->plan->dtype);
  if (slot->pass == SC_PASS_BACKWARD || slot->pass == SC_PASS_WEIGHT)
    {
      sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_BACKWARD, "cast gradients", (bytes + 4) * params);
      sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, -bytes * params);
    }
  sc_bucket_after_unit (l, slot, unit, last);
}

/* Every micro-batch may be reduced, where nobody asked for no_sync(). */
static gboolean
ddp_check (const ScWorkload *workload, GError **error)
{
  (void) workload;
  (void) error;
  return TRUE;
}

static double
ddp_unit_ops (const ScPlan *plan, double products)
{
  (void) plan;
  (void) products;
  return 4;
}

static const ScShardingSteps ddp_steps = {
  .unit_ops = ddp_unit_ops,
  .begin = ddp_begin,
  .by_units = ddp_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = ddp_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = ddp_after_unit,
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
