/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-zero.c - ZeRO stages 1 and 2 (arXiv 1910.02054): weights on every rank, optimizer states (and gradients) shared out. */
#include "models/lower-parts.h"

/* DeepSpeed means a reduce-scatter and, since bucketing over ranks is its default (use_multi_rank_bucket_allreduce), sums whole buckets
 * on every rank; so does its bf16 optimizer under pipelines. */
static gboolean
deepspeed (const Lower *l)
{
  return l->in->workload->framework->buckets == SC_BUCKETS_DEEPSPEED;
}

/* Tensors are flattened into the bucket and, where all of it comes back, copied out of it. */
static void
zero_reduce (Lower *l, const Bucket *b)
{
  const double bytes = (double) b->params * sc_dtype_bytes (l->plan->grad_dtype);
  if (deepspeed (l))
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "bucket copy-in", 2 * bytes);
  sc_lower_data_call (l, SC_STREAM_DP, sc_lower_data_comm (l, b->experts),
                      l->plan->zero.all_reduce ? SC_COLL_ALL_REDUCE : SC_COLL_REDUCE_SCATTER, bytes, "gradients");
  if (deepspeed (l) && l->plan->zero.all_reduce)
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "bucket copy-out", 2 * bytes);
}

static void
zero_gather (Lower *l, ScStreamKind stream, const Bucket *b)
{
  sc_lower_data_call (l, stream, sc_lower_data_comm (l, b->experts), SC_COLL_ALL_GATHER, (double) b->params * sc_dtype_bytes (l->plan->dtype),
                      "parameters");
}

static double
params_of (const Lower *l)
{
  return (double) l->in->sizes->params[l->at.pp] + (double) l->in->sizes->experts[l->at.pp];
}

static gboolean
keeps_narrow (const Lower *l)
{
  return sc_sharding_keeps_narrow (l->sharding, l->plan, l->in->workload->framework);
}

/* Elements of the largest tensor of a stage: its table of tokens, or a matrix of its MLPs. */
static double
largest_params (const Lower *l)
{
  const ScModel *const m = &l->in->workload->model;
  const double table = l->at.pp == 0 || l->at.pp == l->plan->pp - 1 ? m->vocab : 0, ffn = (double) m->ffn * (m->gated_mlp ? 2 : 1);
  return MAX (table, ffn) * m->hidden / l->plan->tp;
}

/* Behind each backward every gradient is cast before it is added (update_hp_grads()). */
static void
zero1_after_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  if (keeps_narrow (l) && slot->pass != SC_PASS_FORWARD)
    {
      sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, 4 * largest_params (l), "gradient, cast");
      sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -4 * largest_params (l));
    }
  sc_bucket_after_slot (l, slot, last);
}

/* Stage 1 before it became a case of stage 2 (deepspeed/runtime/zero/stage1.py): all gradients are laid out flat by their owners, then scattered
 * in pieces, which torch.distributed.reduce_scatter() copies once more into one. */
static gboolean
lays_out (const Lower *l)
{
  return l->in->workload->framework->zero1_lays_out && !l->sharding->grads;
}

/* Gradients wait in a buffer of the bucket's size, whatever there is (ipg_buffer), or in two that take turns beside compute; a larger tensor
 * goes without.  Those of bf16 are flattened as they are. */
static double
buffer_bytes (const Lower *l)
{
  guint64 most = 0;
  for (guint i = 0; i < l->buckets->len; i++)
    most = MAX (most, g_array_index (l->buckets, Bucket, i).params);
  const double element = sc_dtype_bytes (l->plan->grad_dtype), bucket = (double) l->plan->bucket_params;
  if (lays_out (l))
    return element * (params_of (l) + MIN (params_of (l), bucket));
  return (keeps_narrow (l) ? MIN ((double) most, bucket) : bucket) * element * (l->plan->overlap_grad ? 2 : 1);
}

/* This rank's part of the gradients, @bytes each. */
static double
part_bytes (const Lower *l, double bytes)
{
  if (l->plan->grad_dtype == SC_DTYPE_FP32 || sc_lower_offloads_optimizer (l))
    return 0;
  return bytes
         * ((double) l->in->sizes->params[l->at.pp] / sc_plan_data_ranks (l->plan)
            + (double) l->in->sizes->experts[l->at.pp] / sc_plan_expert_data_ranks (l->plan));
}

/* The step is taken on fp32 gradients: a copy of this rank's part. */
static double
copy_bytes (const Lower *l)
{
  return part_bytes (l, 4);
}

/* Is anything reduced before the last backward is done? */
static gboolean
reduces_early (const Lower *l)
{
  return l->plan->overlap_grad || l->plan->grad_sync == SC_GRAD_SYNC_EVERY;
}

static void
zero_begin (Lower *l)
{
  if (keeps_narrow (l))
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, sc_dtype_bytes (l->plan->dtype) * params_of (l), "gradients, 16-bit");
  if (deepspeed (l) && reduces_early (l))
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, buffer_bytes (l), "bucket of gradients");
}

static void
zero_before_optimizer (Lower *l)
{
  if (deepspeed (l) && !reduces_early (l))
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, buffer_bytes (l), "bucket of gradients");
  sc_bucket_before_optimizer (l);
  if (!deepspeed (l))
    return;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -buffer_bytes (l));
  const double flat = part_bytes (l, sc_dtype_bytes (l->plan->grad_dtype));
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, flat, "gradients, flat");
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, copy_bytes (l), "gradients, fp32");
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -flat);
}

/* nanotron flattens what this rank owns, makes a tensor for what each rank of the group owns, and has them gathered into a list, for which PyTorch's
 * process group takes one tensor in a row before it copies them out. */
static void
put_gather_copies (Lower *l, int sign)
{
  const double params = (double) l->in->sizes->params[l->at.pp] + (double) l->in->sizes->experts[l->at.pp], bytes = params * sc_dtype_bytes (l->plan->dtype);
  const guint ranks = sc_plan_data_ranks (l->plan);
  if (!l->in->workload->framework->zero_gather_copies || ranks == 1)
    return;
  for (guint i = 0; i < ranks + 1; i++)
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, sign * floor (bytes / ranks), i == 0 ? "owned weights" : "gathered weights");
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, sign * floor (bytes), "gathered weights in a row");
}

/* All weights in pieces of allgather_bucket, behind the optimizer, before anything else. */
static void
zero_after_optimizer (Lower *l)
{
  if (deepspeed (l))
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -copy_bytes (l));
  if (!deepspeed (l) || l->plan->overlap_param)
    {
      put_gather_copies (l, 1);
      sc_bucket_after_optimizer (l);
      put_gather_copies (l, -1);
      return;
    }
  for (guint experts = 0; experts < 2; experts++)
    {
      const double params = (double) (experts ? l->in->sizes->experts : l->in->sizes->params)[l->at.pp];
      const double n = MAX (floor (params / (double) l->plan->zero.allgather_bucket), 1); /* all_gather_dp_groups() */
      for (guint i = 0; i < n; i++)
        sc_lower_data_call (l, SC_STREAM_COMPUTE, sc_lower_data_comm (l, experts > 0), SC_COLL_ALL_GATHER, params / n * sc_dtype_bytes (l->plan->dtype),
                            "parameters");
    }
}

static const ScShardingSteps zero1_steps = {
  .begin = zero_begin,
  .by_units = sc_bucket_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = sc_bucket_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = sc_bucket_after_unit,
  .after_slot = zero1_after_slot,
  .before_optimizer = zero_before_optimizer,
  .after_optimizer = zero_after_optimizer,
  .reduce = zero_reduce,
  .gather = zero_gather,
};

const ScShardingRow sc_sharding_zero1 = {
  .name = "zero1",
  .summary = "ZeRO stage 1: optimizer states shared out; gradients are reduced at the end of the step, updated weights gathered",
  .source = "arXiv 1910.02054; deepspeed/runtime/zero/stage_1_and_2.py and, for bf16 in pipelines, deepspeed/runtime/bf16_optimizer.py",
  .optimizer = TRUE,
  .steps = &zero1_steps,
};

/* A unit's gradients live until they are in the buffer. */
static double
unit_grad_bytes (const Lower *l, const ScSlot *slot, guint unit)
{
  if (slot->pass != SC_PASS_BACKWARD && slot->pass != SC_PASS_WEIGHT)
    return 0;
  return sc_dtype_bytes (l->plan->grad_dtype)
         * ((double) sc_lower_unit_params (l, slot->chunk, unit, FALSE) + (double) sc_lower_unit_params (l, slot->chunk, unit, TRUE));
}

static gboolean
zero2_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  return slot->pass != SC_PASS_FORWARD || sc_bucket_by_units (l, slot, last);
}

static void
zero2_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  sc_bucket_before_unit (l, slot, unit, last);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, unit_grad_bytes (l, slot, unit));
}

static void
zero2_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  sc_bucket_after_unit (l, slot, unit, last);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -unit_grad_bytes (l, slot, unit));
}

static gboolean
zero2_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  if (plan->pp > 1)
    return sc_sharding_fail (error, "/plan/sharding: found zero2 with pp %u, expected zero1: DeepSpeed's pipelines sum gradients of all micro-batches, "
                                    "which stages 2 and 3 do not keep", plan->pp);
  if (plan->grad_sync != SC_GRAD_SYNC_EVERY)
    return sc_sharding_fail (error, "/plan/grad_sync: found last with sharding zero2, expected every: no rank keeps gradients that are not its own");
  return TRUE;
}

static double
zero2_unit_ops (const ScPlan *plan, double products)
{
  (void) plan;
  (void) products;
  return 3;
}

static const ScShardingSteps zero2_steps = {
  .unit_ops = zero2_unit_ops,
  .begin = zero_begin,
  .by_units = zero2_by_units,
  .by_products = sc_bucket_by_products,
  .before_unit = zero2_before_unit,
  .before_product = sc_bucket_before_product,
  .after_unit = zero2_after_unit,
  .after_slot = sc_bucket_after_slot,
  .before_optimizer = zero_before_optimizer,
  .after_optimizer = zero_after_optimizer,
  .reduce = zero_reduce,
  .gather = zero_gather,
};

const ScShardingRow sc_sharding_zero2 = {
  .name = "zero2",
  .summary = "ZeRO stage 2: gradients shared out as well, so that every micro-batch reduces them",
  .source = "arXiv 1910.02054; deepspeed/runtime/zero/stage_1_and_2.py",
  .grads = TRUE,
  .optimizer = TRUE,
  .grad_sync = SC_GRAD_SYNC_EVERY,
  .check = zero2_check,
  .steps = &zero2_steps,
};
