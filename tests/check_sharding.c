/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_sharding.c - data-parallel strategies through the whole of lowering: what is exchanged, when, and what it takes of memory. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/memory.h"
#include "models/model.h"
#include "models/precision.h"
#include "models/sharding.h"
#include "pace.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

static const ScFramework fsdp1 = { .name = "fsdp1", .version = "test", .buckets = SC_BUCKETS_TORCH, .fsdp = 1 };
static const ScFramework fsdp2 = { .name = "fsdp2", .version = "test", .buckets = SC_BUCKETS_TORCH, .fsdp = 2 };
static const ScFramework deepspeed = { .name = "deepspeed", .version = "test", .buckets = SC_BUCKETS_DEEPSPEED };
static const ScFramework megatron = { .name = "megatron", .version = "test", .fp32_main_grads = TRUE };

/* ---- worked examples (MODELLING 6.5) ---- */

/* @layers units without a root, alone on two GPUs: a gather takes @gather_s and a reduction twice as long; nothing but passes and
 * collectives takes time. */
static FixRun *
run_units (guint layers, double forward_s, double backward_s, double gather_s, const ScFramework *framework, ScTopology **ret_t,
           ScWorkload **ret_w, ScStepItems **ret_items)
{
  *ret_t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  ScDevice *const d = g_ptr_array_index ((*ret_t)->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->elementwise_bytes_per_s.value = 1e30;
  *ret_w = fix_workload ((FixPlan) { .dp = 2, .layers = layers, .microbatches = 1, .sharding = SC_SHARDING_FSDP_FULL, .overlap_grad = TRUE,
                                     .overlap_param = TRUE });
  (*ret_w)->framework = framework;
  ScModel *const m = &(*ret_w)->model;
  m->vocab = 0;
  m->no_final_norm = TRUE;
  m->ffn = 1 << 20;
  (*ret_t)->types[0].nvlink_bytes_per_s.value = 0.5 * 2 * (double) sc_model_layer_params_rank (m, 1) / gather_s;
  *ret_items = fix_items (forward_s, backward_s, 0, 0);
  for (guint pass = 0; pass < SC_N_PASSES; pass++) /* the copies around collectives are elementwise */
    for (guint i = 0; i < (*ret_items)->layers->pass[pass]->len; i++)
      g_array_index ((*ret_items)->layers->pass[pass], ScItem, i).kernel.class = SC_KERNEL_REDUCTION;
  return fix_run (*ret_t, *ret_w, *ret_items, FALSE, 0);
}

static const char *
label_of (const FixRun *r, const ScOp *op)
{
  return g_ptr_array_index (r->lowered->labels, op->label);
}

static const char *
label_at (const FixRun *r, guint32 id)
{
  const ScOp op = sc_program_find_op (r->lowered->program, id);
  return label_of (r, &op);
}

/* Start of the @n-th op of that name, or its end. */
static ScTime
when (const FixRun *r, const char *label, guint n, gboolean end)
{
  const ScProgram *const p = r->lowered->program;
  for (guint32 i = 0; i < p->n_ops; i++)
    if (strcmp (label_at (r, i), label) == 0 && n-- == 0)
      return end ? r->trace->spans[i].end : r->trace->spans[i].start;
  ck_abort_msg ("no %s", label);
}

static void
check_when (const FixRun *r, const char *label, guint n, ScTime want)
{
  const ScTime got = when (r, label, n, FALSE);
  ck_assert_msg (ABS (got - want) <= 100, "%s %u: %.9f ms, expected %.9f", label, n, (double) got / MS, (double) want / MS);
}

START_TEST (forward_hides_gathers_but_the_first)
{
  static const struct { double gather_ms, end_ms; } cases[] = { { 1, 7 }, { 3, 11 } };
  static const ScFramework *const frameworks[] = { &fsdp1, &fsdp2 };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint f = 0; f < G_N_ELEMENTS (frameworks); f++)
      {
        g_autoptr (ScTopology) t = NULL;
        g_autoptr (ScWorkload) w = NULL;
        g_autoptr (ScStepItems) items = NULL;
        g_autoptr (FixRun) r = run_units (3, 2e-3, 0, cases[i].gather_ms * 1e-3, frameworks[f], &t, &w, &items);
        const ScTime end = when (r, "layer", 2, TRUE);
        ck_assert_msg (ABS (end - (ScTime) (cases[i].end_ms * MS)) <= 100, "FSDP%u, gathers of %g ms: %.9f ms, expected %g", frameworks[f]->fsdp,
                       cases[i].gather_ms, (double) end / MS, cases[i].end_ms);
      }
}
END_TEST

/* Gathers and reductions share one communicator; forward takes no time but its three gathers. */
START_TEST (backward_gathers_one_unit_ahead_and_waits_for_the_reduction_before)
{
  static const double gathers[] = { 0, 1, 7 }, backwards[] = { 1, 5, 9 }, reductions[] = { 5, 9, 13 };
  g_autoptr (ScTopology) t = NULL;
  g_autoptr (ScWorkload) w = NULL;
  g_autoptr (ScStepItems) items = NULL;
  g_autoptr (FixRun) r = run_units (3, 0, 4e-3, 1e-3, &fsdp2, &t, &w, &items);
  const ScTime begin = 3 * MS;
  for (guint i = 0; i < 3; i++)
    {
      check_when (r, "parameters", 3 + i, begin + (ScTime) (gathers[i] * MS));
      check_when (r, "layer backward", i, begin + (ScTime) (backwards[i] * MS));
      check_when (r, "gradients", i, begin + (ScTime) (reductions[i] * MS));
    }
  ck_assert_int_le (ABS (r->trace->end - begin - 15 * MS), 100);
}
END_TEST

/* The same where the reductions are the longer: B = 1, AG = 1, RS = 2.  Compute waits for the reduction before the last. */
START_TEST (long_reductions_hold_compute)
{
  g_autoptr (ScTopology) t = NULL;
  g_autoptr (ScWorkload) w = NULL;
  g_autoptr (ScStepItems) items = NULL;
  g_autoptr (FixRun) r = run_units (4, 0, 1e-3, 1e-3, &fsdp2, &t, &w, &items);
  /* gathers 0-1, 1-2, 4-5, 7-8: each behind the reduction that was issued before it */
  static const double backwards[] = { 1, 2, 5, 8 }, reductions[] = { 2, 5, 8, 10 };
  for (guint i = 0; i < 4; i++)
    {
      check_when (r, "layer backward", i, 4 * MS + (ScTime) (backwards[i] * MS));
      check_when (r, "gradients", i, 4 * MS + (ScTime) (reductions[i] * MS));
    }
  ck_assert_int_le (ABS (r->trace->end - 16 * MS), 100);
}
END_TEST

/* ---- every strategy ---- */

/* A strategy as frameworks run it, over @dp ranks. */
typedef struct
{
  ScSharding sharding;
  const ScFramework *framework;
  guint pp, microbatches, group;
  ScGradSync sync;
  gboolean all_reduce, plain; /* plain: no overlap */
  guint hpz, reshard, qgz;
  ScRecompute recompute;
  ScOffload offload;
  const char *rounds; /* schedule with two chunks on a rank */
} Case;

#define DP 4
#define LAYERS 6
#define EVERY .sync = SC_GRAD_SYNC_EVERY
static const Case cases[] = {
  { SC_SHARDING_NONE, &megatron, .microbatches = 3 },
  { SC_SHARDING_NONE, &megatron, .pp = 2, .microbatches = 3 },
  { SC_SHARDING_NONE, &fsdp2, .microbatches = 2 },
  { SC_SHARDING_NONE, &fsdp2, .microbatches = 2, EVERY },
  { SC_SHARDING_NONE, &fsdp2, .pp = 2, .microbatches = 2 },
  { SC_SHARDING_NONE, &fsdp2, .pp = 2, .microbatches = 4, EVERY, .rounds = "interleaved-rounds" },
  { SC_SHARDING_NONE, &deepspeed, .microbatches = 2, .plain = TRUE },
  { SC_SHARDING_DISTRIBUTED_OPTIMIZER, &megatron, .microbatches = 2 },
  { SC_SHARDING_DISTRIBUTED_OPTIMIZER, &megatron, .pp = 2, .microbatches = 2, .group = 2 },
  { SC_SHARDING_DISTRIBUTED_OPTIMIZER, &megatron, .microbatches = 2, .group = 2, .plain = TRUE },
  { SC_SHARDING_ZERO1, &deepspeed, .microbatches = 2, .plain = TRUE },
  { SC_SHARDING_ZERO1, &deepspeed, .pp = 2, .microbatches = 2, .plain = TRUE, .all_reduce = TRUE },
  { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 3, EVERY, .plain = TRUE },
  { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 3, EVERY, .all_reduce = TRUE },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 1, EVERY },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 3, EVERY },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .plain = TRUE },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .hpz = 2 },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .recompute = SC_RECOMPUTE_FULL },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .qgz = 2 },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .hpz = 2, .qgz = 2 },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 1, EVERY },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 3, EVERY },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 3 },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY, .plain = TRUE },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY, .reshard = 2 },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY, .reshard = 2, .group = DP },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .pp = 2, .microbatches = 3 },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .pp = 2, .microbatches = 3, EVERY, .recompute = SC_RECOMPUTE_FULL },
  { SC_SHARDING_FSDP_FULL, &fsdp1, .microbatches = 3, EVERY },
  { SC_SHARDING_FSDP_FULL, &fsdp1, .microbatches = 3 },
  { SC_SHARDING_FSDP_GRAD_OP, &fsdp2, .microbatches = 3, EVERY },
  { SC_SHARDING_FSDP_GRAD_OP, &fsdp1, .microbatches = 3 },
  { SC_SHARDING_FSDP_GRAD_OP, &fsdp2, .pp = 2, .microbatches = 4 },
  { SC_SHARDING_HSDP, &fsdp2, .microbatches = 2, EVERY, .group = 2 },
  { SC_SHARDING_HSDP, &fsdp1, .microbatches = 2, .group = 2 },
  { SC_SHARDING_HSDP, &fsdp2, .pp = 2, .microbatches = 3, .group = 2 },
  { SC_SHARDING_ZERO1, &deepspeed, .microbatches = 2, .plain = TRUE, .offload = SC_OFFLOAD_OPTIMIZER },
  { SC_SHARDING_DISTRIBUTED_OPTIMIZER, &megatron, .pp = 2, .microbatches = 2, .offload = SC_OFFLOAD_OPTIMIZER },
  { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_OPTIMIZER },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_OPTIMIZER },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_PARAMS },
  { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_BOTH, .hpz = 2 },
  { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 3, EVERY, .offload = SC_OFFLOAD_BOTH },
  { SC_SHARDING_HSDP, &fsdp1, .microbatches = 2, .group = 2, .offload = SC_OFFLOAD_BOTH },
};


static ScWorkload *
case_workload (const Case *c, guint dp)
{
  ScWorkload *const w = fix_workload ((FixPlan) { .dp = dp, .pp = c->pp, .vpp = c->rounds != NULL ? 2 : 1, .layers = LAYERS, .microbatches = c->microbatches, .sharding = c->sharding,
                                                  .overlap_grad = !c->plain, .overlap_param = !c->plain && c->sharding != SC_SHARDING_NONE,
                                                  .bucket_params = 30000 });
  w->framework = c->framework;
  if (c->rounds != NULL)
    w->plan.schedule = c->rounds;
  w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
  w->plan.grad_sync = c->sync;
  w->plan.shard_group = c->group;
  w->plan.reshard_after_forward = c->reshard;
  w->plan.recompute = c->recompute;
  w->plan.offload = c->offload;
  ScZero *const z = &w->plan.zero;
  z->all_reduce = c->all_reduce;
  z->hpz = c->hpz;
  z->quantized_gradients = c->qgz;
  z->allgather_bucket = 40000;
  z->prefetch_bucket = 10000;
  z->max_live = 60000;
  z->max_reuse_distance = 0;
  z->persistence_threshold = 100;
  return w;
}

/* Parameters of a rank of @stage that stay gathered between forward and backward of FSDP: embedding and head. */
static double
root_params (const ScWorkload *w, guint stage)
{
  return (stage == 0 ? (double) sc_model_embedding_params_rank (&w->model, w->seq, 1) : 0)
         + (stage == w->plan.pp - 1 ? (double) sc_model_head_params_rank (&w->model, 1, TRUE) : 0);
}

/* Bytes that a rank of @stage sends in a step (MODELLING 5.8): an all-reduce 2 (n - 1) / n, the others (n - 1) / n of the data; bf16
 * parameters, fp32 gradients. */
static double
sent_bytes (const Case *c, const ScWorkload *w, double params, guint stage)
{
  const guint d = sc_plan_shard_ranks (&w->plan), m = c->microbatches;
  const double share = (d - 1.0) / d, weights = 2 * params * share, vectors = (2 * LAYERS + 1) * 64;
  double gradients = 4 * params * share;
  const guint reductions = c->sync == SC_GRAD_SYNC_EVERY ? m : 1;
  const double copies = DP / d, replicas = copies > 1 ? 2 * (copies - 1) / copies * 4 * params / d : 0; /* of one reduction */
  const double root = root_params (w, stage) * 2 * share;
  switch (c->sharding)
    {
    case SC_SHARDING_NONE: return 2 * gradients * reductions;
    case SC_SHARDING_DISTRIBUTED_OPTIMIZER: return gradients + replicas + weights;
    case SC_SHARDING_ZERO1:
    case SC_SHARDING_ZERO2: return (c->all_reduce ? 2 : 1) * gradients * reductions + weights;
    case SC_SHARDING_ZERO3:
      /* the small tensors, two norms of a layer and the last one, stay and are gathered once a step */
      {
        const double small = 2 * (2 * LAYERS + 1) * 64 * share;
        const double again = c->hpz > 0 ? (c->hpz - 1.0) / c->hpz / share : 1; /* all gathers of a module but the first */
        if (c->qgz > 0) /* matrices in half a byte and a scale for each 64, over the node, then a part of them across */
          gradients = 4 * vectors * share + (params - vectors) * (0.5 + 4 / 64.0) * ((c->qgz - 1.0) + (d / c->qgz - 1.0) / (d / c->qgz)) / c->qgz;
        return (weights - small) * (1 + (2 * m - 1) * again) + small + gradients * m;
      }
    case SC_SHARDING_FSDP_FULL:
      {
        const double again = c->reshard > 0 ? (c->reshard - 1.0) / c->reshard / share : 1;
        return m * (weights + (weights - root) * again) + gradients * reductions;
      }
    case SC_SHARDING_HSDP: return m * (2 * weights - root) + (gradients + replicas) * reductions;
    case SC_SHARDING_FSDP_GRAD_OP: return (w->plan.pp > 1 ? 1 : m) * weights + gradients * reductions;
    case SC_N_SHARDINGS:
    default: break;
    }
  return -1;
}

START_TEST (every_strategy_sends_what_it_must)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
  g_autoptr (ScWorkload) w = case_workload (c, DP);
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  items->boundary_bytes = 0; /* only data parallelism uses the network */
  w->plan.zero.prefetch_bucket = c->recompute == SC_RECOMPUTE_FULL ? 10000 : 0; /* who looks ahead keeps what is there */
  g_autoptr (FixRun) r = fix_run (t, w, items, TRUE, 0);
  double out = 0, want = 0;
  for (guint32 l = 0; l < r->fabric->n_links; l++)
    if (r->fabric->links[l].kind == SC_LINK_NIC_OUT && r->fold->link_class_of[l] != SC_NONE)
      out += r->trace->link_bytes[r->fold->link_class_of[l]] * r->fabric->links[l].capacity;
  for (guint32 rank = 0; rank < w->plan.gpus; rank++)
    {
      const guint stage = sc_layout_coord (&w->plan, rank).pp;
      want += sent_bytes (c, w, (double) r->sizes->params[stage], stage);
    }
  if (c->sharding == SC_SHARDING_ZERO3 && c->recompute == SC_RECOMPUTE_FULL) /* layers three times, but for what stays between */
    ck_assert_msg (out > want && out < 1.5 * want, "case %d: %.1f bytes, expected up to half more than %.1f", _i, out, want);
  else
    ck_assert_msg (fabs (out - want) <= 1e-9 * want, "case %d, %s: %.1f bytes, expected %.1f", _i, sc_sharding_row (c->sharding)->name, out, want);
}
END_TEST

/* Sum of the changes of @kind; never below zero on the way. */
static gint64
level_of (const FixRun *r, guint32 class_id, ScMemKind kind)
{
  g_autoptr (GArray) changes = sc_memory_changes (r->lowered->program, r->trace, class_id);
  gint64 now = 0, least = 0;
  ScTime at = 0;
  for (guint i = 0; i < changes->len; i++)
    {
      const ScMemChange *const change = &g_array_index (changes, ScMemChange, i);
      if (change->kind != kind)
        continue;
      if (change->time > at) /* at one instant frees stand first */
        least = MIN (least, now);
      at = change->time;
      now += change->bytes;
    }
  ck_assert_int_ge (least, 0);
  return now;
}

START_TEST (a_step_leaves_memory_as_it_was)
{
  const Case *const c = &cases[_i];
  for (guint dp = 1; dp <= DP; dp += DP - 1)
    {
      if (dp == 1 && (c->group > 0 || c->hpz > 0 || c->reshard > 0 || c->qgz > 0))
        continue;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1, .nic_latency_s = 5e-6 });
      g_autoptr (ScWorkload) w = case_workload (c, dp);
      g_autoptr (ScStepItems) items = sc_step_items_new (w);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      for (guint32 k = 0; k < r->fold->n_classes; k++)
        {
          const guint stage = sc_layout_coord (&w->plan, r->fold->representative[k]).pp;
          const double params = (double) r->sizes->params[stage];
          const ScShardingRow *const row = sc_sharding_of (c->sharding, c->framework);
          const ScStateBytes s = sc_sharding_states (row, 8, SC_DTYPE_BF16, SC_DTYPE_FP32, sc_plan_shard_ranks (&w->plan));
          const double small = c->sharding == SC_SHARDING_ZERO3 ? 2 * (2 * LAYERS + 1) * 64 : 0;
          const double buckets = row == &sc_sharding_ddp && dp > 1 ? 4 * params : 0;
          const gboolean no_params = c->offload == SC_OFFLOAD_PARAMS || c->offload == SC_OFFLOAD_BOTH;
          const gboolean no_optimizer = c->offload == SC_OFFLOAD_OPTIMIZER || c->offload == SC_OFFLOAD_BOTH;
          const gboolean held = (row->grads && !no_optimizer) || c->framework->fp32_main_grads;
          const double narrow = sc_sharding_keeps_narrow (row, &w->plan, c->framework) ? 2 * params : 0;
          const gboolean logits = sc_sharding_has_pipeline_engine (row, c->framework) && stage == w->plan.pp - 1;
          ck_assert_int_eq (level_of (r, k, SC_MEM_WEIGHTS), (no_params ? 0 : llround (s.weights * params)) + llround (small));
          ck_assert_int_eq (level_of (r, k, SC_MEM_GRADS), (held ? llround (s.grads * params) : 0) + llround (narrow));
          ck_assert_int_eq (level_of (r, k, SC_MEM_OPTIMIZER), no_optimizer ? 0 : llround (s.optimizer * params));
          ck_assert_int_eq (level_of (r, k, SC_MEM_COMM), llround (buckets));
          ck_assert_int_eq (level_of (r, k, SC_MEM_ACTIVATIONS), 0);
          ck_assert_int_eq (level_of (r, k, SC_MEM_LOGITS), logits ? (gint64) (2u * w->plan.micro_batch * w->seq * w->model.vocab / w->plan.tp) : 0);
          ck_assert_int_eq (level_of (r, k, SC_MEM_TRANSIENT), 0);
        }
    }
}
END_TEST

/* How large a forecast is, is known before it is made, at every level of detail: buckets and the end of the step are left out. */
START_TEST (the_size_is_known_before)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
  g_autoptr (ScWorkload) w = case_workload (c, DP);
  w->model.layers = 48;
  w->plan.global_batch *= 4;
  w->plan.bucket_params = 1000000;
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  for (guint detail = 0; detail < SC_N_DETAILS; detail++)
    {
      ScLowerInput input = r->input;
      input.detail = detail;
      g_autoptr (ScLowered) lowered = sc_lower (&input);
      const double ops = lowered->program->n_ops, ratio = sc_lower_estimate (&input) / ops;
      /* passes of this test are merged into fewer ops than those of most workloads */
      const gboolean kernels = detail == SC_DETAIL_KERNEL, apart = c->sharding >= SC_SHARDING_ZERO3;
      const double least = kernels || apart ? 0.9 : 0.25, most = kernels ? 1.25 : apart ? 1.7 : 3;
      ck_assert_msg (ratio > least && ratio < most, "case %d, %s: %.0f ops, estimated %.3f of them", _i, sc_detail_name (detail), ops, ratio);
    }
}
END_TEST

/* Bytes of calls over groups of @kind that one class of ranks makes. */
static double
bytes_over (const FixRun *r, guint32 class_id, ScCommKind kind)
{
  const ScProgram *const p = r->lowered->program;
  const ScActor *const a = &g_array_index (p->actors, ScActor, class_id);
  double sum = 0;
  for (guint32 i = a->first_op; i < a->first_op + a->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL)
        continue;
      const ScCall *const call = &g_array_index (p->calls, ScCall, op->arg);
      if (call->group < r->fold->n_families && r->layout->comms[r->fold->family_comm[call->group]].kind == kind)
        for (guint part = 0; part < call->n_parts; part++)
          sum += g_array_index (p->parts, ScPart, call->first_part + part).bytes;
    }
  return sum;
}

/* hpZ: whatever looks ahead, a module crosses the whole group once a step; second copies are those of what was freed, and go with the step. */
START_TEST (second_copies_are_used_as_soon_as_they_are_there)
{
  static const Case hpz = { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY, .hpz = 2 };
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
  g_autoptr (ScWorkload) w = case_workload (&hpz, DP);
  w->plan.zero.prefetch_bucket = 40000;
  w->plan.zero.persistence_threshold = 0;
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  const double params = (double) r->sizes->params[0];
  double gathered = 0;
  const ScProgram *const p = r->lowered->program;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL || strcmp (label_of (r, op), "parameters") != 0)
        continue;
      const ScCall *const call = &g_array_index (p->calls, ScCall, op->arg);
      if (r->layout->comms[r->fold->family_comm[call->group]].kind == SC_COMM_DP)
        gathered += g_array_index (p->parts, ScPart, call->first_part).bytes;
    }
  ck_assert_double_eq_tol (gathered, 0.75 * 2 * params, 10); /* three of four parts */
  ck_assert_int_eq (level_of (r, 0, SC_MEM_WEIGHTS), llround (2 * params / DP));
}
END_TEST

/* FSDP2 with linear layers in 8 bits: they are gathered as such, all else in 16; nothing is cast behind the gather. */
START_TEST (weights_in_8_bits_are_gathered_in_half_the_bytes)
{
  static const ScFramework titan = { .name = "torchtitan", .version = "test", .buckets = SC_BUCKETS_TORCH, .fsdp = 2, .fp8_keeps_wide = TRUE };
  static const Case units[] = { { SC_SHARDING_FSDP_FULL, &titan, .microbatches = 2, EVERY }, { SC_SHARDING_HSDP, &titan, .microbatches = 2, EVERY, .group = 2 } };
  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    {
      double gathered[2] = { 0 };
      ScTime end[2];
      for (guint narrow = 0; narrow < 2; narrow++)
        {
          g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
          ScDevice *const d = g_ptr_array_index (t->devices, 0);
          d->peak_flops[SC_DTYPE_FP8] = d->peak_flops[SC_DTYPE_BF16];
          g_autoptr (ScWorkload) w = case_workload (&units[i], DP);
          w->plan.precision = sc_precision_find ("fp8", "tensorwise");
          w->plan.fp8_param_gather = narrow;
          g_autoptr (ScStepItems) items = sc_step_items_new (w);
          g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
          const ScProgram *const p = r->lowered->program;
          guint casts = 0, scales = 0;
          for (guint32 op = 0; op < p->n_ops; op++)
            {
              const ScOp found = sc_program_find_op (p, op), *const o = &found;
              casts += strcmp (label_of (r, o), "cast of weight") == 0;
              scales += o->kind == SC_OP_CALL && strcmp (label_of (r, o), "largest weights") == 0;
              if (o->kind == SC_OP_CALL && strcmp (label_of (r, o), "parameters") == 0)
                gathered[narrow] += g_array_index (p->parts, ScPart, g_array_index (p->calls, ScCall, o->arg).first_part).bytes;
            }
          ck_assert_int_eq (casts > 0, !narrow);
          ck_assert_uint_eq (scales, narrow);
          ck_assert_int_eq (level_of (r, 0, SC_MEM_WEIGHTS), llround (4.0 * (double) r->sizes->params[0] / sc_plan_shard_ranks (&w->plan)));
          ck_assert_int_eq (level_of (r, 0, SC_MEM_COMM), 0);
          end[narrow] = r->trace->end;
        }
      /* forward and backward of two micro-batches; a rank sends all parts but one */
      const double linear = LAYERS * 64.0 * (192 + 64 + 256 + 256), share = units[i].group > 0 ? 0.5 : 0.75;
      ck_assert_double_eq_tol (gathered[0] - gathered[1], 4 * linear * share, 10);
      ck_assert_int_lt (end[1], end[0]);
    }
}
END_TEST

/* Two groups of two ranks share four experts out; each expert is on two ranks, dense weights are on four.  What one rank of two sends: an
 * all-reduce once its bytes, the others half of them. */
START_TEST (experts_are_shared_out_over_their_own_group)
{
  static const struct { Case c; double sent; } experts[] = { /* bytes an expert parameter, of one micro-batch and of the step */
    { { SC_SHARDING_NONE, &megatron, .microbatches = 2 }, 4 },
    { { SC_SHARDING_NONE, &fsdp2, .microbatches = 2 }, 4 },
    { { SC_SHARDING_DISTRIBUTED_OPTIMIZER, &megatron, .microbatches = 2 }, (4 + 2) * 0.5 },
    { { SC_SHARDING_ZERO1, &deepspeed, .microbatches = 2, .plain = TRUE }, (4 + 2) * 0.5 },
    { { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY }, (2 * 4 + 2) * 0.5 },
    { { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY }, 2 * (2 + 2 + 4) * 0.5 },
    { { SC_SHARDING_FSDP_GRAD_OP, &fsdp1, .microbatches = 2, EVERY }, 2 * (2 + 4) * 0.5 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (experts); i++)
    {
      const Case *const c = &experts[i].c;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
      g_autoptr (ScWorkload) w = case_workload (c, DP);
      w->model.experts = 4;
      w->model.top_k = 2;
      w->model.expert_ffn = 128;
      w->plan.ep = 2;
      g_autoptr (ScStepItems) items = sc_step_items_new (w);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      const double params = (double) r->sizes->experts[0];
      ck_assert_double_gt (params, 0);
      ck_assert_double_eq_tol (bytes_over (r, 0, SC_COMM_EXPERT_DP), experts[i].sent * params, 1e-6 * params);
      const ScShardingRow *const row = sc_sharding_of (c->sharding, c->framework);
      const ScStateBytes dense = sc_sharding_states (row, 8, SC_DTYPE_BF16, SC_DTYPE_FP32, DP), expert = sc_sharding_states (row, 8, SC_DTYPE_BF16, SC_DTYPE_FP32, 2);
      ck_assert_int_eq (level_of (r, 0, SC_MEM_WEIGHTS), llround (dense.weights * (double) r->sizes->params[0] + expert.weights * params));
      ck_assert_int_eq (level_of (r, 0, SC_MEM_OPTIMIZER), llround (dense.optimizer * (double) r->sizes->params[0] + expert.optimizer * params));
      ck_assert_int_eq (level_of (r, 0, SC_MEM_TRANSIENT), 0);
    }
}
END_TEST

/* What is shared out takes no more memory than what is not, at any time. */
static guint64
peak_of (const Case *c)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
  g_autoptr (ScWorkload) w = case_workload (c, DP);
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  return sc_memory_peak (r->lowered->program, r->trace, 0).bytes;
}

START_TEST (higher_stages_take_less)
{
  static const Case stages[] = {
    { SC_SHARDING_NONE, &deepspeed, .microbatches = 2 },
    { SC_SHARDING_ZERO1, &deepspeed, .microbatches = 2 },
    { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY },
    { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY },
  };
  static const Case units[] = {
    { SC_SHARDING_NONE, &fsdp2, .microbatches = 2 },
    { SC_SHARDING_HSDP, &fsdp2, .microbatches = 2, EVERY, .group = 2 },
    { SC_SHARDING_FSDP_GRAD_OP, &fsdp2, .microbatches = 2, EVERY },
    { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY },
  };
  for (guint i = 1; i < G_N_ELEMENTS (stages); i++)
    ck_assert_uint_lt (peak_of (&stages[i]), peak_of (&stages[i - 1]));
  for (guint i = 1; i < G_N_ELEMENTS (units); i++)
    ck_assert_uint_lt (peak_of (&units[i]), peak_of (&units[i - 1]));
}
END_TEST

/* Two nodes of one GPU each, host memory of 400 GB/s: gradients leave at 50 GB/s, Adam moves 30 bytes of each owned parameter at 0.8 of the
 * memory's rate, weights come back. */
/* What stands behind a micro-batch's backward: its reductions, however much they overlap. */
START_TEST (a_backward_ends_when_its_reductions_have)
{
  static const struct { Case c; const char *label; } every[] = {
    { { SC_SHARDING_NONE, &fsdp2, .microbatches = 2, EVERY }, "gradients" },
    { { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY }, "gradients" },
    { { SC_SHARDING_ZERO3, &deepspeed, .microbatches = 2, EVERY }, "gradients" },
    { { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 2, EVERY }, "gradients" },
    { { SC_SHARDING_HSDP, &fsdp1, .microbatches = 2, EVERY, .group = 2 }, "gradients of replicas" },
    { { SC_SHARDING_HSDP, &fsdp2, .microbatches = 2, EVERY, .group = 2 }, "gradients of replicas" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (every); i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
      g_autoptr (ScWorkload) w = case_workload (&every[i].c, DP);
      g_autoptr (ScStepItems) items = fix_items (1e-6, 1e-6, 0, 0);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      const ScProgram *const p = r->lowered->program;
      ck_assert_uint_eq (r->fold->n_classes, 1);
      guint n = 0;
      for (guint32 op = 0; op < p->n_ops; op++)
        n += strcmp (label_at (r, op), every[i].label) == 0;
      ck_assert_uint_gt (n, 0);
      ck_assert_msg (when (r, "layer", LAYERS, FALSE) >= when (r, every[i].label, n / 2 - 1, TRUE), "row %u: the next forward begins before", i);
    }
}
END_TEST

/* Nothing of one micro-batch's reductions is left when the next one begins. */
START_TEST (more_micro_batches_take_no_more_memory)
{
  static const Case one[] = {
    { SC_SHARDING_FSDP_FULL, &fsdp2, .microbatches = 1, EVERY }, { SC_SHARDING_FSDP_FULL, &fsdp1, .microbatches = 1, EVERY },
    { SC_SHARDING_FSDP_GRAD_OP, &fsdp2, .microbatches = 1, EVERY }, { SC_SHARDING_HSDP, &fsdp2, .microbatches = 1, EVERY, .group = 2 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (one); i++)
    {
      Case two = one[i];
      two.microbatches = 2;
      ck_assert_uint_eq (peak_of (&two), peak_of (&one[i]));
    }
}
END_TEST

START_TEST (an_offloaded_optimizer_steps_at_the_hosts_pace)
{
  static const Case c = { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_OPTIMIZER };
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
  g_autoptr (ScWorkload) w = case_workload (&c, DP);
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  const double owned = (double) r->sizes->params[0] / DP;
  const ScTime step = when (r, "adam on the host", 0, TRUE) - when (r, "adam on the host", 0, FALSE);
  ck_assert_int_le (ABS (step - sc_time_from_s (30 * owned / (0.8 * 400e9))), 1);
  const ScTime back = when (r, "weights to the GPU", 0, TRUE) - when (r, "weights to the GPU", 0, FALSE);
  ck_assert_int_le (ABS (back - sc_time_from_s (2 * owned / 50e9)), 1);
  double out = 0; /* seconds of copies, each micro-batch's gradients once */
  const ScProgram *const p = r->lowered->program;
  for (guint32 i = 0; i < p->n_ops; i++)
    if (strcmp (label_at (r, i), "gradients to the host") == 0)
      out += sc_time_to_s (sc_program_find_op (p, i).value);
  ck_assert_double_eq_tol (out, 2 * 4 * owned / 50e9, 1e-10);
  ck_assert_int_ge (when (r, "adam on the host", 0, FALSE), when (r, "gradients to the host", 0, TRUE));
}
END_TEST

/* Of a node only what the job has there shares the host: DP ranks of eight GPUs. */
START_TEST (gpus_that_the_job_leaves_out_take_nothing_of_the_host)
{
  static const Case c = { SC_SHARDING_ZERO2, &deepspeed, .microbatches = 2, EVERY, .offload = SC_OFFLOAD_OPTIMIZER };
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 8 });
  g_autoptr (ScWorkload) w = case_workload (&c, DP);
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  const double owned = (double) r->sizes->params[0] / DP;
  const ScTime step = when (r, "adam on the host", 0, TRUE) - when (r, "adam on the host", 0, FALSE);
  ck_assert_int_le (ABS (step - sc_time_from_s (30 * owned * DP / (0.8 * 400e9))), 1);
}
END_TEST

/* ---- closed forms ---- */

static double
state_total (ScDtype dtype, ScDtype grad, ScSharding sharding, guint d)
{
  const ScStateBytes s = sc_sharding_states (sc_sharding_row (sharding), 8, dtype, grad, d);
  return s.weights + s.grads + s.optimizer;
}

/* MODELLING 3.2: 7.5e9 parameters, 64 ranks, K = 12. */
START_TEST (figure_1_of_zero_is_whole)
{
  static const struct { ScSharding sharding; double gb; } bars[] = {
    { SC_SHARDING_ZERO1, 31.40625 }, { SC_SHARDING_ZERO2, 16.640625 }, { SC_SHARDING_ZERO3, 1.875 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (bars); i++)
    {
      ck_assert_double_eq (7.5 * state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, bars[i].sharding, 1), 120);
      ck_assert_double_eq (7.5 * state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, bars[i].sharding, 64), bars[i].gb);
    }
}
END_TEST

/* DeepSpeed's estimates without offload (`mem.deepspeed.z3`) count the fp32 copy of the gradients that the step is taken on, and for stage 3
 * the largest layer's weights and gradients in place of the 16-bit gradients. */
START_TEST (estimates_of_deepspeed_are_states_and_a_copy)
{
  const double n = 8030261248, largest = 525336576, copy = 4 * n / 8;
  ck_assert_double_eq (n * state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, SC_SHARDING_ZERO2, 8) + copy, 34128610304);
  ck_assert_double_eq (n * (state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, SC_SHARDING_ZERO3, 8) - 2.0 / 8) + copy + 4 * largest, 20169434112);
}
END_TEST

START_TEST (fsdp_holds_sixteen_bytes_over_its_ranks)
{
  ck_assert_double_eq (state_total (SC_DTYPE_BF16, SC_DTYPE_FP32, SC_SHARDING_FSDP_FULL, 8), 2);
  ck_assert_double_eq (state_total (SC_DTYPE_BF16, SC_DTYPE_BF16, SC_SHARDING_HSDP, 8), 2);
  ck_assert_double_eq (state_total (SC_DTYPE_FP32, SC_DTYPE_FP32, SC_SHARDING_FSDP_GRAD_OP, 4), 4);
}
END_TEST

/* `comm.dp.zero3`: what a rank of 64 sends for Llama 3 8B with gradients of two bytes. */
START_TEST (stage_3_sends_half_as_much_again)
{
  static const struct { ScSharding sharding; double bytes; } rows[] = {
    { SC_SHARDING_NONE, 31619153664 }, { SC_SHARDING_ZERO1, 31619153664 }, { SC_SHARDING_ZERO3, 47428730496 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 64, .gpus = 1 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .dp = 64, .layers = 32, .microbatches = 1, .sharding = rows[i].sharding });
      w->framework = &deepspeed;
      ScModel *const m = &w->model;
      m->hidden = 4096;
      m->heads = 32;
      m->kv_heads = 8;
      m->head_dim = 128;
      m->ffn = 14336;
      m->gated_mlp = TRUE;
      m->vocab = 128256;
      w->plan.grad_dtype = SC_DTYPE_BF16;
      w->plan.bucket_params = 500000000;
      w->plan.zero = (ScZero) { .allgather_bucket = 500000000, .max_live = 1000000000 };
      g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      ck_assert_uint_eq (r->sizes->params[0], 8030261248);
      for (guint32 l = 0; l < r->fabric->n_links; l++)
        if (r->fabric->links[l].kind == SC_LINK_NIC_OUT && r->fold->link_class_of[l] != SC_NONE)
          ck_assert_double_eq_tol (r->trace->link_bytes[r->fold->link_class_of[l]] * r->fabric->links[l].capacity, rows[i].bytes, 10);
    }
}
END_TEST

/* ---- buckets ---- */

/* Bytes of the gradients' calls, in order. */
static GArray *
gradient_calls (const FixRun *r)
{
  GArray *const out = g_array_new (FALSE, FALSE, sizeof (double));
  const ScProgram *const p = r->lowered->program;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL || strcmp (label_of (r, op), "gradients") != 0)
        continue;
      const double bytes = g_array_index (p->parts, ScPart, g_array_index (p->calls, ScCall, op->arg).first_part).bytes;
      g_array_append_val (out, bytes);
    }
  return out;
}

/* Four products of 64 x 192, 64 x 64, 64 x 256 twice; two norms of 64; embedding and head of 64 x 64, and a norm. */
static void
check_buckets (const ScFramework *framework, guint64 bucket_params, const double *want, guint n)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .dp = 2, .layers = 1, .microbatches = 1, .overlap_grad = TRUE, .bucket_params = bucket_params });
  w->framework = framework;
  w->plan.attention = SC_ATTENTION_UNFUSED;
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  g_autoptr (GArray) calls = gradient_calls (r);
  ck_assert_uint_eq (calls->len, n);
  for (guint i = 0; i < n; i++)
    ck_assert_double_eq (g_array_index (calls, double, i), 4 * want[i]);
}

START_TEST (deepspeed_closes_a_bucket_before_what_no_longer_fits)
{
  /* head 4096 + norm 64, fc2 16384, | fc1 16384, proj 4096, | qkv 12288, norms 128, embedding 4096 */
  static const double buckets[] = { 4096 + 64 + 16384, 16384 + 4096, 12288 + 128 + 4096 };
  check_buckets (&deepspeed, 22000, buckets, 3);
}
END_TEST

START_TEST (pytorch_closes_a_bucket_with_what_fills_it)
{
  /* all below the first bucket's 1 MiB */
  static const double one[] = { 4096 + 64 + 16384 + 16384 + 4096 + 12288 + 128 + 4096 };
  check_buckets (&fsdp2, 20000, one, 1);
}
END_TEST

/* A layer of 64 x 65536 twice: the first bucket is full with the first tensor behind 1 MiB, the others hold 25 MiB or one tensor. */
START_TEST (the_first_bucket_of_pytorch_is_small)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .dp = 2, .layers = 3, .microbatches = 1, .overlap_grad = TRUE });
  w->framework = &fsdp2;
  w->plan.attention = SC_ATTENTION_UNFUSED;
  w->model.ffn = 65536;
  w->plan.bucket_params = sc_sharding_bucket_params (&w->plan, w->framework);
  ck_assert_uint_eq (w->plan.bucket_params, 25 << 18);
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  g_autoptr (GArray) calls = gradient_calls (r);
  const double fc = 64 * 65536, rest = 4096 + 12288 + 128;
  const double want[] = { 4096 + 64 + fc, fc + rest + fc, fc + rest + fc, fc + rest + 4096 };
  ck_assert_uint_eq (calls->len, G_N_ELEMENTS (want));
  for (guint i = 0; i < G_N_ELEMENTS (want); i++)
    ck_assert_double_eq (g_array_index (calls, double, i), 4 * want[i]);
}
END_TEST

/* Experts' gradients fill buckets of their own; the dense ones end where they always do. */
START_TEST (buckets_of_experts_and_of_the_rest_are_cut_apart)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .dp = 2, .layers = 1, .microbatches = 1, .overlap_grad = TRUE, .bucket_params = 12000 });
  w->framework = &deepspeed;
  w->plan.attention = SC_ATTENTION_UNFUSED;
  w->model.experts = 2;
  w->model.top_k = 1;
  w->model.expert_ffn = 256;
  w->plan.etp = 1;
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  g_autoptr (GArray) calls = gradient_calls (r);
  /* fc2 and fc1 of two experts; head 4096 + norm 64, router 2 x 64, proj 4096, | qkv 12288, | norms 128, embedding 4096 */
  static const double want[] = { 2 * 16384, 2 * 16384, 4096 + 64 + 128 + 4096, 12288, 128 + 4096 };
  ck_assert_uint_eq (calls->len, G_N_ELEMENTS (want));
  for (guint i = 0; i < G_N_ELEMENTS (want); i++)
    {
      guint found = 0;
      for (guint k = 0; k < calls->len; k++)
        found += g_array_index (calls, double, k) == 4 * want[i];
      ck_assert_msg (found == (i < 2 ? 2 : 1), "%g: %u", want[i], found);
    }
}
END_TEST

/* Each rank of the TP group has gradients of the same norm of its own heads. */
START_TEST (norms_of_split_heads_are_summed_without_sequence_parallelism)
{
  for (guint norm = 0; norm < 2; norm++)
    {
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
      g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 2, .layers = 3, .microbatches = 1 });
      w->model.qk_norm = norm;
      g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      guint n = 0;
      for (guint32 i = 0; i < r->lowered->program->n_ops; i++)
        {
          const ScOp op_i = sc_program_find_op (r->lowered->program, i), *const op = &op_i;
          n += op->kind == SC_OP_CALL && strcmp (label_of (r, op), "norm gradients") == 0;
        }
      ck_assert_uint_eq (n > 0, norm);
    }
}
END_TEST

/* ---- ZeRO 3 ---- */

/* Gathers of a step of @layers layers, each one module of 64 x 1024 x 2 and more in one piece. */
static double
gathered_elements (guint64 max_live, guint64 prefetch, guint64 reuse, guint *ret_calls, ScTime *ret_end)
{
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  ScDevice *const d = g_ptr_array_index (t->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->elementwise_bytes_per_s.value = 1e30;
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .dp = 2, .layers = 8, .microbatches = 1, .sharding = SC_SHARDING_ZERO3, .overlap_grad = TRUE,
                                                       .overlap_param = TRUE });
  w->framework = &deepspeed;
  w->model.vocab = 0;
  w->model.no_final_norm = TRUE;
  const double layer = (double) sc_model_layer_params_rank (&w->model, 1);
  t->types[0].nvlink_bytes_per_s.value = 0.5 * 2 * layer / 1e-3; /* a gather takes 1 ms */
  w->plan.zero = (ScZero) { .max_live = max_live * (guint64) layer, .prefetch_bucket = prefetch * (guint64) layer,
                            .max_reuse_distance = reuse * (guint64) layer };
  g_autoptr (ScStepItems) items = fix_items (2e-3, 4e-3, 0, 0);
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    g_array_index (items->layers->pass[pass], ScItem, 0).kernel.class = SC_KERNEL_REDUCTION;
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  const ScProgram *const p = r->lowered->program;
  double bytes = 0;
  *ret_calls = 0;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL || strcmp (label_of (r, op), "parameters") != 0)
        continue;
      bytes += g_array_index (p->parts, ScPart, g_array_index (p->calls, ScCall, op->arg).first_part).bytes;
      ++*ret_calls;
    }
  *ret_end = when (r, "layer", 7, TRUE);
  return bytes / layer; /* half of the bytes of two ranks: 2 bytes an element over 2 */
}

START_TEST (stage_3_gathers_ahead_within_its_limits)
{
  guint calls;
  ScTime end;
  /* each layer for forward and for backward, but the last, which is still there */
  ck_assert_double_eq (gathered_elements (100, 1, 0, &calls, &end), 15);
  ck_assert_int_eq (end, 17 * MS); /* only the first gather shows */
  /* no looking ahead: every gather shows */
  ck_assert_double_eq (gathered_elements (100, 0, 0, &calls, &end), 16);
  ck_assert_uint_eq (calls, 16);
  ck_assert_int_eq (end, 24 * MS);
  /* no more than one layer at a time: as good as none */
  gathered_elements (1, 1, 0, &calls, &end);
  ck_assert_int_eq (end, 24 * MS);
  /* the last four are used again before eight layers have passed */
  ck_assert_double_eq (gathered_elements (100, 1, 8, &calls, &end), 16 - 4);
  /* a step that fits is gathered once */
  ck_assert_double_eq (gathered_elements (100, 1, 100, &calls, &end), 8);
}
END_TEST

/* Most of one kind at a time, in the order of the program; of kinds that no layer's list has. */
static gint64
most_of (const FixRun *r, ScMemKind kind)
{
  const ScTape *const tape = g_ptr_array_index (r->lowered->tapes, 0);
  gint64 now = 0, most = 0;
  for (guint i = 0; i < tape->entries->len; i++)
    {
      const ScTapeEntry *const e = &g_array_index (tape->entries, ScTapeEntry, i);
      now += e->kind != SC_TAPE_LIST && e->mem == kind ? e->bytes : 0;
      most = MAX (most, now);
    }
  return most;
}

/* Bytes per parameter at the optimizer (deepspeed/runtime): stage 1 flattens a rank's part in 16 bits, then casts it; without ZeRO all
 * is cast, then flattened; before release 0.5 stage 1 laid out all gradients; the bf16 optimizer keeps 16-bit ones beside fp32 ones, and casts one
 * at a time. */
START_TEST (deepspeed_copies_gradients_for_its_step)
{
  static const struct
  {
    const char *version;
    ScSharding sharding;
    ScDtype grad;
    guint dp;
    double grads, largest, comm;
  } rows[] = {
    { "2022", SC_SHARDING_ZERO1, SC_DTYPE_BF16, 1, 2 + 2 + 4, 0, 0 },
    { "2022", SC_SHARDING_ZERO1, SC_DTYPE_BF16, 4, 2 + (2 + 4) / 4.0, 0, 0 },
    { "2022", SC_SHARDING_NONE, SC_DTYPE_BF16, 1, 2 + 4 + 4, 0, 0 },
    { "2022", SC_SHARDING_NONE, SC_DTYPE_BF16, 4, 2 + 4 + 4, 0, 0 },
    { "2021", SC_SHARDING_ZERO1, SC_DTYPE_BF16, 4, 2 + (2 + 4) / 4.0, 0, 2 },
    { "2022", SC_SHARDING_ZERO1, SC_DTYPE_FP32, 4, 4 + 2, 4, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const Case c = { .framework = sc_framework_find ("megatron-deepspeed", rows[i].version), .sharding = rows[i].sharding, .pp = 1, .microbatches = 2, .plain = TRUE };
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1, .nic_latency_s = 5e-6 });
      g_autoptr (ScWorkload) w = case_workload (&c, rows[i].dp);
      w->plan.grad_dtype = rows[i].grad;
      g_autoptr (ScStepItems) items = sc_step_items_new (w);
      g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
      const double params = (double) r->sizes->params[0], bucket = (double) w->plan.bucket_params;
      const double largest = (double) MAX (w->model.vocab, w->model.ffn) * w->model.hidden;
      ck_assert_double_eq_tol ((double) most_of (r, SC_MEM_GRADS), rows[i].grads * params + rows[i].largest * largest, 8);
      if (rows[i].comm > 0)
        ck_assert_double_eq_tol ((double) most_of (r, SC_MEM_COMM), rows[i].comm * (params + MIN (params, bucket)), 8);
    }
}
END_TEST

/* ---- the table ---- */

START_TEST (every_row_says_what_it_is)
{
  guint n = 0;
  for (const ScShardingRow *const *row = sc_sharding_all (); *row != NULL; row++, n++)
    {
      ck_assert_ptr_nonnull ((*row)->name);
      ck_assert_ptr_nonnull ((*row)->summary);
      ck_assert_ptr_nonnull ((*row)->source);
      ck_assert_ptr_nonnull ((*row)->steps);
      ck_assert (!(*row)->grads || (*row)->optimizer);
      ck_assert (!(*row)->weights || (*row)->grads);
    }
  ck_assert_uint_eq (n, SC_N_SHARDINGS + 2); /* and DDP, and DeepSpeed without ZeRO */
  for (guint i = 0; i < SC_N_SHARDINGS; i++)
    for (guint k = 0; k < i; k++)
      ck_assert_str_ne (sc_sharding_row ((ScSharding) i)->name, sc_sharding_row ((ScSharding) k)->name);
}
END_TEST

static Suite *
sharding_suite (void)
{
  Suite *const suite = suite_create ("sharding");
  TCase *tc = tcase_create ("worked examples");
  tcase_add_test (tc, forward_hides_gathers_but_the_first);
  tcase_add_test (tc, backward_gathers_one_unit_ahead_and_waits_for_the_reduction_before);
  tcase_add_test (tc, long_reductions_hold_compute);
  tcase_add_test (tc, figure_1_of_zero_is_whole);
  tcase_add_test (tc, estimates_of_deepspeed_are_states_and_a_copy);
  tcase_add_test (tc, fsdp_holds_sixteen_bytes_over_its_ranks);
  tcase_add_test (tc, stage_3_sends_half_as_much_again);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("every strategy");
  tcase_add_loop_test (tc, every_strategy_sends_what_it_must, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (suite), the_size_is_known_before, 0, G_N_ELEMENTS (cases));
  tcase_add_test (tc, weights_in_8_bits_are_gathered_in_half_the_bytes);
  tcase_add_test (tc, second_copies_are_used_as_soon_as_they_are_there);
  tcase_add_loop_test (tc, a_step_leaves_memory_as_it_was, 0, G_N_ELEMENTS (cases));
  tcase_add_test (tc, experts_are_shared_out_over_their_own_group);
  tcase_add_test (tc, higher_stages_take_less);
  tcase_add_test (tc, a_backward_ends_when_its_reductions_have);
  tcase_add_test (tc, more_micro_batches_take_no_more_memory);
  tcase_add_test (tc, an_offloaded_optimizer_steps_at_the_hosts_pace);
  tcase_add_test (tc, gpus_that_the_job_leaves_out_take_nothing_of_the_host);
  tcase_add_test (tc, deepspeed_copies_gradients_for_its_step);
  tcase_add_test (tc, every_row_says_what_it_is);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("buckets and limits");
  tcase_add_test (tc, deepspeed_closes_a_bucket_before_what_no_longer_fits);
  tcase_add_test (tc, pytorch_closes_a_bucket_with_what_fills_it);
  tcase_add_test (tc, the_first_bucket_of_pytorch_is_small);
  tcase_add_test (tc, buckets_of_experts_and_of_the_rest_are_cut_apart);
  tcase_add_test (tc, norms_of_split_heads_are_summed_without_sequence_parallelism);
  tcase_add_test (tc, stage_3_gathers_ahead_within_its_limits);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *const runner = srunner_create (sharding_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
