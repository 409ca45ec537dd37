/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sharding.h - what data-parallel ranks share out, and how they exchange it in a step.
 * Layer: models.  One strategy is one file and one const row. */
#pragma once
#include "models/model.h"

typedef struct ScShardingSteps ScShardingSteps; /* lower-parts.h: what lowering calls, where */

typedef struct
{
  const char *name;    /* in JSON and in `stepcast list` */
  const char *summary; /* one line for people */
  const char *source;
  gboolean weights, grads, optimizer; /* shared out between steps, each rank holding its part */
  gboolean fp32_weights;   /* the weights between steps are the fp32 ones that the optimizer updates; 16-bit ones are made for use */
  gboolean overlap_grad, overlap_param; /* defaults of the plan's keys */
  ScGradSync grad_sync;    /* default of the plan's key */

  /* Whether the rest of the plan goes with it; messages as of sc_workload_check(). */
  gboolean (*check) (const ScWorkload *workload, GError **error);

  const ScShardingSteps *steps;
} ScShardingRow;

extern const ScShardingRow sc_sharding_none, sc_sharding_ddp, sc_sharding_deepspeed, sc_sharding_zero1, sc_sharding_zero2, sc_sharding_zero3,
    sc_sharding_distributed_optimizer, sc_sharding_fsdp_full, sc_sharding_fsdp_grad_op, sc_sharding_hsdp;

const ScShardingRow *const *sc_sharding_all (void); /* NULL-ended */
const ScShardingRow *sc_sharding_row (ScSharding sharding);

/* As @framework runs it: what is not sharded is PyTorch's DistributedDataParallel in some, DeepSpeed's own in others.  NULL: no framework is known. */
const ScShardingRow *sc_sharding_of (ScSharding sharding, const ScFramework *framework);

/* Does DeepSpeed's pipeline engine run the step, be it in one stage?  It refuses stages 2 and 3 of ZeRO. */
static inline gboolean
sc_sharding_has_pipeline_engine (const ScShardingRow *row, const ScFramework *framework)
{
  return framework->pipeline_engine && !row->grads;
}

/* DeepSpeed's bf16 optimizer (deepspeed/runtime/bf16_optimizer.py): gradients of every micro-batch are added to fp32 ones, and stay, zeroed, for the
 * next. */
static inline gboolean
sc_sharding_keeps_narrow (const ScShardingRow *row, const ScPlan *plan, const ScFramework *framework)
{
  return framework->buckets == SC_BUCKETS_DEEPSPEED && row == &sc_sharding_zero1 && plan->grad_dtype == SC_DTYPE_FP32 && plan->dtype != SC_DTYPE_FP32;
}

/* Parameters of a gradient bucket, unless the plan says so: 25 MiB of gradients in PyTorch, 5e8 in DeepSpeed, max(40e6, 1e6 dp) in Megatron. */
guint64 sc_sharding_bucket_params (const ScPlan *plan, const ScFramework *framework);
#define SC_DDP_FIRST_BUCKET_BYTES 1048576 /* PyTorch's first bucket, so that something is on its way early */

const char *sc_offload_word (ScOffload offload); /* "none", "optimizer", "params", "both", "activations", ... */

/* DeepSpeed's defaults (deepspeed/runtime/zero/config.py). */
void sc_zero_defaults (ScZero *zero, const ScFramework *framework);

/* Rules of the plan's data-parallel keys. */
gboolean sc_sharding_check (const ScWorkload *workload, GError **error);

/* Whether @key ("bucket_params", "zero/max_live"), which somebody gave, is read by the plan's strategy, whatever it says. */
gboolean sc_sharding_check_given (const ScWorkload *workload, const char *key, GError **error);

/* Why two passes that a schedule overlaps run one behind the other in this plan; NULL: they do overlap. */
const char *sc_sharding_pairs_in_turn (const ScWorkload *workload);

/* Sets SC_WORKLOAD_ERROR_INVALID; FALSE, for rows' checks. */
gboolean sc_sharding_fail (GError **error, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* Bytes per parameter of one rank's model states, shared out over @d ranks (MODELLING 3.2): what sc_state_bytes() says, divided. */
ScStateBytes sc_sharding_states (const ScShardingRow *row, double moments, ScDtype dtype, ScDtype grad_dtype, guint d);
