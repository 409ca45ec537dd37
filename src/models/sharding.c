/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sharding.c - the table of data-parallel strategies, and the rules that all of them share. */
#include <string.h>
#include "models/sharding.h"

static const ScShardingRow *const rows[] = {
  &sc_sharding_none,      &sc_sharding_ddp,          &sc_sharding_deepspeed, &sc_sharding_zero1, &sc_sharding_zero2, &sc_sharding_zero3, &sc_sharding_distributed_optimizer,
  &sc_sharding_fsdp_full, &sc_sharding_fsdp_grad_op, &sc_sharding_hsdp,  NULL,
};

const ScShardingRow *const *
sc_sharding_all (void)
{
  return rows;
}

const ScShardingRow *
sc_sharding_row (ScSharding sharding)
{
  switch (sharding)
    {
    case SC_SHARDING_NONE: return &sc_sharding_none;
    case SC_SHARDING_ZERO1: return &sc_sharding_zero1;
    case SC_SHARDING_DISTRIBUTED_OPTIMIZER: return &sc_sharding_distributed_optimizer;
    case SC_SHARDING_ZERO2: return &sc_sharding_zero2;
    case SC_SHARDING_ZERO3: return &sc_sharding_zero3;
    case SC_SHARDING_FSDP_FULL: return &sc_sharding_fsdp_full;
    case SC_SHARDING_FSDP_GRAD_OP: return &sc_sharding_fsdp_grad_op;
    case SC_SHARDING_HSDP: return &sc_sharding_hsdp;
    case SC_N_SHARDINGS:
    default: break;
    }
  g_return_val_if_reached (&sc_sharding_none);
}

const ScShardingRow *
sc_sharding_of (ScSharding sharding, const ScFramework *framework)
{
  if (sharding == SC_SHARDING_NONE && framework != NULL && framework->buckets == SC_BUCKETS_TORCH)
    return &sc_sharding_ddp;
  if (sharding == SC_SHARDING_NONE && framework != NULL && framework->buckets == SC_BUCKETS_DEEPSPEED)
    return &sc_sharding_deepspeed;
  return sc_sharding_row (sharding);
}

/* ---- Defaults ---- */

#define DDP_BUCKET_BYTES 26214400 /* 25 MiB: DistributedDataParallel's bucket_cap_mb */
#define DEEPSPEED_BUCKET 500000000 /* elements: reduce_bucket_size and allgather_bucket_size */

guint64
sc_sharding_bucket_params (const ScPlan *plan, const ScFramework *framework)
{
  switch (framework != NULL ? framework->buckets : SC_BUCKETS_MEGATRON)
    {
    case SC_BUCKETS_TORCH: return (guint64) (DDP_BUCKET_BYTES / sc_dtype_bytes (plan->grad_dtype));
    case SC_BUCKETS_DEEPSPEED: return DEEPSPEED_BUCKET;
    case SC_BUCKETS_MEGATRON:
    default: return MAX ((guint64) 40000000, (guint64) 1000000 * plan->dp);
    }
}

void
sc_zero_defaults (ScZero *zero, const ScFramework *framework)
{
  zero->all_reduce = framework != NULL && framework->zero_all_reduces;
  zero->allgather_bucket = DEEPSPEED_BUCKET;
  zero->prefetch_bucket = 50000000;
  zero->max_live = zero->max_reuse_distance = 1000000000;
  zero->persistence_threshold = 100000;
}

ScStateBytes
sc_sharding_states (const ScShardingRow *row, double moments, ScDtype dtype, ScDtype grad_dtype, guint d)
{
  /* Megatron's optimizer copies 16-bit gradients to fp32 for the step, and drops the copies with the next step's first gradients to come
   * (Megatron-LM megatron/core/optimizer: _copy_model_grads_to_main_grads(), zero_grad()); the ZeRO paper counts K = 12 without. */
  const gboolean copies_grads = row == &sc_sharding_none || row == &sc_sharding_distributed_optimizer;
  ScStateBytes states = sc_state_bytes (moments, dtype, grad_dtype, row->fp32_weights, copies_grads);
  const double n = MAX (d, 1);
  states.weights /= row->weights ? n : 1;
  states.grads /= row->grads ? n : 1;
  states.optimizer /= row->optimizer ? n : 1;
  states.step /= row->optimizer ? n : 1;
  return states;
}

/* ---- Rules ---- */

gboolean
sc_sharding_fail (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, message);
  return FALSE;
}

static const char *
sync_word (ScGradSync sync)
{
  return sync == SC_GRAD_SYNC_EVERY ? "every" : "last";
}

/* Groups of @n ranks inside the data-parallel one. */
static gboolean
check_group (const ScPlan *plan, const char *key, guint n, GError **error)
{
  const guint all = plan->dp * plan->cp;
  if (n >= all || all % n != 0)
    return sc_sharding_fail (error, "/plan/%s: found %u, expected a part of the %u data-parallel ranks that divides them", key, n, all);
  if (sc_plan_placement (plan) == SC_PLACE_BOTH)
    return sc_sharding_fail (error, "/plan/%s: found %u with schedule %s, expected none: ranks at both ends of the pipeline share a stage there",
                             key, n, plan->schedule);
  return TRUE;
}

/* A key of one strategy: whether this one reads it, and whether it says anything but its default. */
typedef struct
{
  const char *key;
  gboolean used, changed;
  const char *want; /* what reads it */
} Key;

#define N_KEYS 10

static void
list_keys (const ScWorkload *workload, Key *ret)
{
  const ScPlan *const plan = &workload->plan;
  const ScFramework *const framework = workload->framework;
  const ScShardingRow *const row = sc_sharding_row (plan->sharding);
  const gboolean stage3 = plan->sharding == SC_SHARDING_ZERO3, stages = plan->sharding == SC_SHARDING_ZERO1 || plan->sharding == SC_SHARDING_ZERO2;
  const gboolean pieces = stages && framework->buckets == SC_BUCKETS_DEEPSPEED && !plan->overlap_param;
  const ScZero *const zero = &plan->zero;
  ScZero d;
  sc_zero_defaults (&d, framework);
  const Key keys[N_KEYS] = {
    { "zero/all_reduce", stages, zero->all_reduce != d.all_reduce, "zero1 or zero2" },
    { "zero/allgather_bucket", pieces, zero->allgather_bucket != d.allgather_bucket, "zero1 or zero2 of DeepSpeed without overlap_param" },
    { "zero/prefetch_bucket", stage3, zero->prefetch_bucket != d.prefetch_bucket, "zero3" },
    { "zero/max_live", stage3, zero->max_live != d.max_live, "zero3" },
    { "zero/max_reuse_distance", stage3, zero->max_reuse_distance != d.max_reuse_distance, "zero3" },
    { "zero/persistence_threshold", stage3, zero->persistence_threshold != d.persistence_threshold, "zero3" },
    { "zero/hpz", stage3, zero->hpz > 0, "zero3" },
    { "zero/quantized_weights", stage3, zero->quantized_weights, "zero3" },
    { "zero/quantized_gradients", stage3, zero->quantized_gradients > 0, "zero3" },
    { "bucket_params", !(row->weights && row->fp32_weights), plan->bucket_params != sc_sharding_bucket_params (plan, framework),
      "a strategy with buckets: FSDP reduces unit by unit" },
  };
  memcpy (ret, keys, sizeof keys);
}

static gboolean
fail_unused (const ScWorkload *workload, const Key *key, GError **error)
{
  return sc_sharding_fail (error, "/plan/%s: found with sharding %s, expected %s", key->key, sc_sharding_row (workload->plan.sharding)->name, key->want);
}

/* Keys of other strategies, where they say anything but their default: they would be for nothing. */
static gboolean
check_unused (const ScWorkload *workload, GError **error)
{
  Key keys[N_KEYS];
  list_keys (workload, keys);
  for (guint i = 0; i < N_KEYS; i++)
    if (!keys[i].used && keys[i].changed)
      return fail_unused (workload, &keys[i], error);
  return TRUE;
}

gboolean
sc_sharding_check_given (const ScWorkload *workload, const char *key, GError **error)
{
  Key keys[N_KEYS];
  list_keys (workload, keys);
  for (guint i = 0; i < N_KEYS; i++)
    if (strcmp (keys[i].key, key) == 0 && !keys[i].used)
      return fail_unused (workload, &keys[i], error);
  return TRUE;
}

/* Groups inside nodes and across them, of all ranks of the job (_get_local_all_to_all_group() in deepspeed/utils/groups.py). */
static gboolean
check_quantized_gradients (const ScPlan *plan, GError **error)
{
  const guint n = plan->zero.quantized_gradients;
  if (plan->tp > 1)
    return sc_sharding_fail (error, "/plan/zero/quantized_gradients: found %u with tp %u, expected tp 1: its groups are of all ranks of the job", n, plan->tp);
  if (plan->zero.hpz > 0 && plan->zero.hpz != n)
    return sc_sharding_fail (error, "/plan/zero/hpz: found %u with quantized_gradients %u, expected as many: the ranks of a node", plan->zero.hpz, n);
  return check_group (plan, "zero/quantized_gradients", n, error);
}

/* Keys that only some strategies have. */
static gboolean
check_keys (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const char *const name = sc_sharding_row (plan->sharding)->name;
  if (plan->shard_group > 0 && plan->sharding != SC_SHARDING_HSDP && plan->sharding != SC_SHARDING_DISTRIBUTED_OPTIMIZER
      && plan->shard_group != plan->dp * plan->cp)
    return sc_sharding_fail (error, "/plan/shard_group: found %u with sharding %s, expected hsdp or distributed-optimizer: the others share out over all ranks",
                             plan->shard_group, name);
  if (plan->reshard_after_forward > 0 && plan->sharding != SC_SHARDING_FSDP_FULL)
    return sc_sharding_fail (error, "/plan/reshard_after_forward: found %u with sharding %s, expected fsdp-full", plan->reshard_after_forward, name);
  if (sc_sharding_row (plan->sharding)->weights && plan->recompute == SC_RECOMPUTE_FULL && plan->recompute_method == SC_RECOMPUTE_UNIFORM
      && plan->recompute_layers > 1)
    return sc_sharding_fail (error, "/plan/recompute_layers: found %u with sharding %s, expected 1: a layer is repeated while its weights are gathered, and "
                                    "the next one's are not", plan->recompute_layers, name);
  if (plan->shard_group > 0 && plan->shard_group != plan->dp * plan->cp && !check_group (plan, "shard_group", plan->shard_group, error))
    return FALSE;
  if (plan->reshard_after_forward > 0 && !check_group (plan, "reshard_after_forward", plan->reshard_after_forward, error))
    return FALSE;
  if (plan->zero.hpz > 0 && !check_group (plan, "zero/hpz", plan->zero.hpz, error))
    return FALSE;
  if (plan->zero.quantized_gradients > 0 && !check_quantized_gradients (plan, error))
    return FALSE;
  if (sc_plan_inner_ranks (plan) > 0 && workload->model.experts > 0)
    return sc_sharding_fail (error, "/plan/%s: found with a mixture of experts, expected none: routed experts have data-parallel groups of their own",
                             sc_plan_inner_ranks (plan) == plan->shard_group ? "shard_group" : plan->zero.hpz > 0 ? "zero/hpz" :
                             plan->zero.quantized_gradients > 0 ? "zero/quantized_gradients" : "reshard_after_forward");
  return TRUE;
}

const char *
sc_offload_word (ScOffload offload)
{
  static const char *const words[] = {
    "none", "optimizer", "params", "both", "activations", "optimizer+activations", "params+activations", "optimizer+params+activations",
  };
  G_STATIC_ASSERT (G_N_ELEMENTS (words) == SC_N_OFFLOADS);
  return words[offload];
}

/* Saved tensors on the host, as Transformer Engine does it for Megatron-LM (transformer_config.py says what does not go with it), and as hooks on
 * saved tensors do it in PyTorch (torchtune's OffloadActivations). */
static gboolean
check_activations (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const ScFramework *const fw = workload->framework;
  const char *const word = sc_offload_word (plan->offload);
  if ((plan->offload & SC_OFFLOAD_ACTIVATIONS) == 0)
    return plan->offload_layers == 0
           || sc_sharding_fail (error, "/plan/offload_layers: found %u with offload %s, expected activations", plan->offload_layers, word);
  if (fw->activations == SC_ACTIVATIONS_STAY)
    return sc_sharding_fail (error, "/plan/offload: found %s with %s %s, which cannot, expected another framework (megatron-core, pytorch, torchtitan)", word,
                             fw->name, fw->version);
  if (plan->offload_layers == 0 || plan->offload_layers >= workload->model.layers)
    return sc_sharding_fail (error, "/plan/offload_layers: found %u, expected 1 to %u, all layers but the last: its backward comes at once", plan->offload_layers,
                             workload->model.layers - 1);
  if (fw->activations == SC_ACTIVATIONS_HOOKS && plan->offload_layers != workload->model.layers - 1)
    return sc_sharding_fail (error, "/plan/offload_layers: found %u with %s, expected none: hooks on saved tensors take those of all layers", plan->offload_layers,
                             fw->name);
  if (plan->pp > 1)
    return sc_sharding_fail (error, "/plan/offload: found %s with pp %u, expected pp 1: Megatron-LM refuses pipelines, torchtune has none", word, plan->pp);
  if (strcmp (plan->schedule, "none") != 0 && strcmp (plan->schedule, "1f1b") != 0)
    return sc_sharding_fail (error, "/plan/schedule: found %s with offload %s, expected none: each forward is followed by its backward", plan->schedule, word);
  if (plan->cuda_graphs)
    return sc_sharding_fail (error, "/plan/cuda_graphs: found true with offload %s, expected false: copies to the host are not captured", word);
  if (fw->activations == SC_ACTIVATIONS_LAYERS && plan->recompute != SC_RECOMPUTE_NONE)
    return sc_sharding_fail (error, "/plan/recompute: found with offload %s, expected none: Megatron-LM does one or the other", word);
  if (plan->recompute != SC_RECOMPUTE_NONE && (plan->recompute != SC_RECOMPUTE_FULL || (plan->recompute_method == SC_RECOMPUTE_UNIFORM && plan->recompute_layers > 1)))
    return sc_sharding_fail (error, "/plan/recompute: found with offload %s, expected none or full, layer by layer: what else is kept does not pass the hooks on saved "
                                    "tensors", word);
  return TRUE;
}

static gboolean
check_offload (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const char *const word = sc_offload_word (plan->offload);
  const ScShardingRow *const row = sc_sharding_row (plan->sharding);
  const guint states = plan->offload & SC_OFFLOAD_BOTH;
  if (!check_activations (workload, error))
    return FALSE;
  if (states == SC_OFFLOAD_NONE)
    return TRUE;
  if (!row->optimizer)
    return sc_sharding_fail (error, "/plan/offload: found %s with sharding none, expected a strategy that shares the optimizer out", word);
  if (states != SC_OFFLOAD_OPTIMIZER && !row->weights)
    return sc_sharding_fail (error, "/plan/offload: found %s with sharding %s, expected optimizer: its weights are whole on every GPU", word,
                             row->name);
  if (states != SC_OFFLOAD_BOTH && row->fp32_weights)
    return sc_sharding_fail (error, "/plan/offload: found %s with sharding %s, expected both: FSDP's optimizer updates the weights where they are",
                             word, row->name);
  return TRUE;
}

const char *
sc_sharding_pairs_in_turn (const ScWorkload *workload)
{
  const ScPlan *const plan = &workload->plan;
  const ScShardingRow *const row = sc_sharding_of (plan->sharding, workload->framework);
  if (plan->ep == 1)
    return "with ep 1 there are no exchanges to overlap";
  if (row->weights)
    return "passes that gather weights layer by layer are not overlapped with one another";
  if (row == &sc_sharding_ddp && plan->dtype != SC_DTYPE_FP32)
    return "passes that cast weights layer by layer, as PyTorch's autocast does, are not overlapped with one another";
  return NULL;
}

/* A schedule whose only use is to run one micro-batch's exchanges of tokens under the other's compute. */
static gboolean
check_pairs (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const char *const why = sc_sharding_pairs_in_turn (workload);
  if (strcmp (plan->schedule, "interleaved-a2a") != 0 || why == NULL)
    return TRUE;
  if (plan->ep == 1)
    return sc_sharding_fail (error, "/plan/schedule: found interleaved-a2a with ep 1, expected interleaved or ep > 1: %s", why);
  return sc_sharding_fail (error, "/plan/schedule: found interleaved-a2a with sharding %s, expected interleaved: %s", sc_sharding_row (plan->sharding)->name, why);
}

gboolean
sc_sharding_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const ScShardingRow *const row = sc_sharding_of (plan->sharding, workload->framework);
  if (plan->overlap_param && plan->sharding == SC_SHARDING_NONE)
    return sc_sharding_fail (error, "/plan/overlap_param: found true with sharding none, expected zero1 or distributed-optimizer: "
                                    "without it no parameter is gathered");
  if (!check_unused (workload, error) || !check_keys (workload, error) || !check_offload (workload, error) || !check_pairs (workload, error))
    return FALSE;
  if (row->check != NULL)
    return row->check (workload, error);
  return plan->grad_sync == row->grad_sync
         || sc_sharding_fail (error, "/plan/grad_sync: found %s with sharding %s, expected %s", sync_word (plan->grad_sync), row->name,
                              sync_word (row->grad_sync));
}
