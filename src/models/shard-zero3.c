/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-zero3.c - ZeRO stage 3 as DeepSpeed runs it once it has traced a step: modules are gathered ahead of use, within limits, and freed
 * unless they are used again soon (partitioned_param_coordinator.py).
 *
 * A module is a product's weights, or a unit that has no product (the embedding).  Its use: issue the gather of what is missing; let
 * compute wait for all gathers issued so far; then issue the next ones, up to prefetch_bucket elements as long as no more than max_live are gathered.
 * The host is taken to be where the GPU is: whatever is issued at a use starts with it, not before. */
#include "models/lower-parts.h"

typedef struct
{
  double  params;
  gboolean stays;     /* below the persistence threshold: on every rank, always */
  gboolean gathered;  /* or on its way */
  gboolean second;    /* hpZ: a group of ranks shares a copy of it, from its first release in a step until the optimizer has changed it */
  gint    skipped_to; /* last use that looking ahead has passed over since it was there already; -1: none */
} Module;

typedef struct
{
  GArray *modules;      /* Module */
  guint  *first;        /* [n_units + 1] index of a unit's first module */
  gboolean *leads;      /* [n_units] its first module is used as the unit begins */
  GArray *trace;        /* guint: modules in the order of use, forward and backward of a micro-batch */
  guint   step;         /* uses so far */
  guint   ahead;        /* use up to which was looked ahead */
  double  available;    /* elements gathered or on their way */
  double  always;       /* elements that stay */
  double  second_bytes; /* of this rank's part of second copies */
  guint   current;      /* module in use, or SC_NONE */
  gboolean backward;
  guint   forwards, inputs; /* products of the unit so far: forward ones, input gradients */
  guint32 asked;        /* event behind the last gather, or SC_NONE */
  guint32 reduced[2];   /* events behind the last reductions */
} Zero3;

static double
use_bytes (const Lower *l)
{
  return sc_dtype_bytes (l->plan->dtype);
}

static Module *
module_at (const Zero3 *z, guint i)
{
  return &g_array_index (z->modules, Module, i);
}

/* ---- the trace ---- */

static void
add_module (const Lower *l, Zero3 *z, double params)
{
  const Module m = { .params = params, .stays = params < (double) l->plan->zero.persistence_threshold, .skipped_to = -1 };
  g_array_append_val (z->modules, m);
}

#define SMALL_TENSORS 16 /* of a unit: norms and biases */

/* Modules of one unit: those of its forward products, and before them what is left, unless that are norms and biases only. */
static void
list_modules (const Lower *l, Zero3 *z, guint unit)
{
  const double all = (double) sc_lower_unit_params (l, 0, unit, FALSE) + (double) sc_lower_unit_params (l, 0, unit, TRUE);
  const Priced *const priced = sc_lower_unit_price (l, 0, unit, SC_PASS_FORWARD);
  double products = 0;
  for (guint i = 0; i < priced->n; i++)
    if (priced->items[i].kind == SC_ITEM_KERNEL)
      products += MAX (priced->items[i].weights, 0);
  const gboolean whole = products > all; /* some share their weights */
  const double rest = whole ? all : all - products;
  z->leads[unit] = whole || products == 0 || rest >= SMALL_TENSORS * (double) l->plan->zero.persistence_threshold;
  if (z->leads[unit])
    add_module (l, z, rest);
  else
    z->always += rest;
  for (guint i = 0; i < priced->n && !whole; i++)
    if (priced->items[i].kind == SC_ITEM_KERNEL && priced->items[i].weights > 0)
      add_module (l, z, priced->items[i].weights);
}

/* The module that the next product with weights uses, or SC_NONE. */
static guint
next_module (Zero3 *z, guint unit, gboolean forward)
{
  const guint first = z->first[unit] + (z->leads[unit] ? 1 : 0), n = z->first[unit + 1] - first;
  const guint i = forward ? z->forwards++ : z->inputs++;
  if (n == 0)
    return SC_NONE;
  return forward ? first + i % n : first + (n - 1 - i % n);
}

static void
enter_unit (Zero3 *z, gboolean backward)
{
  z->forwards = z->inputs = 0;
  z->backward = backward;
}

static gboolean
is_forward (const Zero3 *z, const PricedItem *item)
{
  return !z->backward || item->time == SC_TIME_RECOMPUTE;
}

static void
trace_unit (const Lower *l, Zero3 *z, guint unit, gboolean backward)
{
  const Priced *const priced = sc_lower_unit_price (l, 0, unit, backward ? SC_PASS_BACKWARD : SC_PASS_FORWARD);
  enter_unit (z, backward);
  if (z->leads[unit])
    g_array_append_val (z->trace, z->first[unit]);
  for (guint i = 0; i < priced->n; i++)
    {
      if (priced->items[i].kind != SC_ITEM_KERNEL || priced->items[i].weights <= 0)
        continue;
      const guint m = next_module (z, unit, is_forward (z, &priced->items[i]));
      if (m != SC_NONE)
        g_array_append_val (z->trace, m);
    }
}

static double buffer_bytes (const Lower *l);

static void
zero3_begin (Lower *l)
{
  Zero3 *const z = g_new0 (Zero3, 1);
  const guint n = sc_lower_n_units (l, 0);
  l->shard = z;
  z->modules = g_array_new (FALSE, FALSE, sizeof (Module));
  z->trace = g_array_new (FALSE, FALSE, sizeof (guint));
  z->first = g_new0 (guint, n + 1);
  z->leads = g_new0 (gboolean, n);
  z->current = SC_NONE;
  z->asked = z->reduced[0] = z->reduced[1] = SC_NONE;
  for (guint unit = 0; unit < n; unit++)
    {
      list_modules (l, z, unit);
      z->first[unit + 1] = z->modules->len;
    }
  for (guint unit = 0; unit < n; unit++)
    trace_unit (l, z, unit, FALSE);
  for (guint unit = n; unit-- > 0;)
    trace_unit (l, z, unit, TRUE);
  for (guint i = 0; i < z->modules->len; i++)
    z->always += module_at (z, i)->stays ? module_at (z, i)->params : 0;
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, use_bytes (l) * z->always, "parameters that are never partitioned");
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, buffer_bytes (l));
}

static void
zero3_end (Lower *l)
{
  Zero3 *const z = l->shard;
  g_array_unref (z->modules);
  g_array_unref (z->trace);
  g_free (z->first);
  g_free (z->leads);
  g_free (z);
  l->shard = NULL;
}

/* ---- memory beside the gathered weights ---- */

/* hpZ: a module that is freed leaves a copy behind that a group of ranks shares, and that whatever gathers it again in this step is made of
 * (arXiv 2306.10209, section 3.2; _partition_param_sec() in partition_parameters.py, invalidate_secondary_tensor() in stage3.py).  It is where
 * the weights themselves are: in host memory, where they are offloaded. */
static void
keep_second (Lower *l, Module *m, gboolean beside)
{
  Zero3 *const z = l->shard;
  const double bytes = floor (use_bytes (l) * m->params / MAX (l->plan->zero.hpz, 1));
  if (l->plan->zero.hpz == 0 || m->second)
    return;
  m->second = TRUE;
  if (sc_lower_offloads_params (l))
    {
      sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_COPY_OUT);
      sc_lower_put_host_copy (l, FALSE, "second copy", bytes);
      sc_lower_put_order (l, SC_STREAM_COPY_OUT, SC_STREAM_COMPUTE);
      return;
    }
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, bytes);
  z->second_bytes += bytes;
  if (beside)
    sc_lower_put_copy (l, SC_STREAM_COMPUTE, z->backward ? SC_TIME_BACKWARD : SC_TIME_FORWARD, "second copy", 2 * bytes);
}

static double
buffer_bytes (const Lower *l)
{
  guint64 most = 0;
  for (guint i = 0; i < l->buckets->len; i++)
    most = MAX (most, g_array_index (l->buckets, Bucket, i).params);
  return (double) MIN (most, l->plan->bucket_params) * sc_dtype_bytes (l->plan->grad_dtype);
}

static double
unit_grad_bytes (const Lower *l, const ScSlot *slot, guint unit)
{
  const double params = (double) sc_lower_unit_params (l, 0, unit, FALSE) + (double) sc_lower_unit_params (l, 0, unit, TRUE);
  return slot->pass == SC_PASS_BACKWARD ? params * sc_dtype_bytes (l->plan->grad_dtype) : 0;
}

/* The step is taken on fp32 gradients: a copy of this rank's part. */
static double
copy_bytes (const Lower *l)
{
  if (l->plan->grad_dtype == SC_DTYPE_FP32 || sc_lower_offloads_optimizer (l))
    return 0;
  return floor (4.0
                * ((double) l->in->sizes->params[l->at.pp] / sc_plan_data_ranks (l->plan)
                   + (double) l->in->sizes->experts[l->at.pp] / sc_plan_expert_data_ranks (l->plan)));
}

/* ---- gathers ---- */

/* DeepSpeed before its gathers took one buffer: the host waits for the GPU, then lists the pieces of all ranks (framework.h). */
static gboolean
by_pieces (const Lower *l)
{
  return l->in->workload->framework->zero3_piece_s > 0 && sc_lower_has_host (l);
}

static double
list_pieces (Lower *l, guint ranks)
{
  const double s = ranks * l->in->workload->framework->zero3_piece_s;
  sc_lower_host_wait (l, sc_lower_put_record (l, SC_STREAM_COMPUTE));
  sc_lower_host_busy (l, sc_lower_to_ns (s * l->price->host_factor));
  return s;
}

/* One gather of @n modules with so many elements each; of several the pieces are put together tensor by tensor.  @inner: of their second copies. */
static void
put_gather (Lower *l, const double *modules, guint n, gboolean inner)
{
  Zero3 *const z = l->shard;
  double params = 0;
  if (n == 0)
    return;
  for (guint i = 0; i < n; i++)
    params += modules[i];
  const guint32 comm = inner ? sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_SHARD, FALSE) : sc_lower_data_comm (l, FALSE);
  g_assert (!inner || comm != SC_NONE);
  const guint ranks = inner ? l->plan->zero.hpz : sc_plan_data_ranks (l->plan);
  const double bytes = use_bytes (l), carried = l->plan->zero.quantized_weights ? 1 : bytes;
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
  const double pieces = by_pieces (l) ? list_pieces (l, ranks) : 0;
  const gboolean from_host = sc_lower_offloads_params (l);
  if (from_host)
    {
      sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_COPY_IN);
      sc_lower_put_mem (l, SC_STREAM_COPY_IN, SC_MEM_COMM, floor (bytes * params / ranks));
      sc_lower_put_host_copy (l, TRUE, "shard to the GPU", bytes * params / ranks);
      sc_lower_put_order (l, SC_STREAM_COPY_IN, SC_STREAM_DP);
    }
  for (guint i = 0; i < n; i++)
    sc_lower_put_tensor (l, SC_STREAM_DP, SC_MEM_WEIGHTS, bytes * modules[i], "gathered parameters");
  if (l->plan->zero.quantized_weights)
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "quantize", (bytes + carried) * params / ranks);
  if (pieces > 0)
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "all-gather buffer zeroed", bytes * params);
  sc_lower_data_call (l, SC_STREAM_DP, comm, SC_COLL_ALL_GATHER, carried * params, "parameters");
  if (pieces > 0) /* for a line of a debug log (pull request 1188) */
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "norm of parameters", bytes * params);
  if (l->plan->zero.quantized_weights || n > 1 || pieces > 0)
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, l->plan->zero.quantized_weights ? "dequantize" : "all-gather copy-out", (bytes + carried) * params);
  if (from_host)
    sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, -floor (bytes * params / ranks));
  z->asked = sc_lower_put_record (l, SC_STREAM_DP);
  if (!l->plan->overlap_param || pieces > 0)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, z->asked);
}

/* The module in use is done: freed, unless somebody looked ahead and passed over its next use, or that is near. */
static void
release (Lower *l)
{
  Zero3 *const z = l->shard;
  if (z->current == SC_NONE)
    return;
  Module *const m = module_at (z, z->current);
  gboolean keep = m->stays || m->skipped_to > (gint) z->step;
  double passed = 0;
  for (guint i = z->step; i < z->trace->len && passed < (double) l->plan->zero.max_reuse_distance && !keep; i++)
    {
      const guint next = g_array_index (z->trace, guint, i);
      keep = next == z->current;
      passed += module_at (z, next)->params;
    }
  z->current = SC_NONE;
  if (keep || !m->gathered)
    return;
  m->gathered = FALSE;
  z->available -= m->params;
  keep_second (l, m, TRUE);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, -use_bytes (l) * m->params);
}

static void
prefetch (Lower *l)
{
  Zero3 *const z = l->shard;
  const double most = MIN ((double) l->plan->zero.max_live - z->available, (double) l->plan->zero.prefetch_bucket);
  g_autoptr (GArray) first = g_array_new (FALSE, FALSE, sizeof (double)); /* elements of modules without a second copy ... */
  g_autoptr (GArray) second = g_array_new (FALSE, FALSE, sizeof (double)); /* ... and with one */
  double params = 0;
  for (z->ahead = MAX (z->ahead, z->step + 1); z->ahead < z->trace->len && params < most; z->ahead++)
    {
      Module *const m = module_at (z, g_array_index (z->trace, guint, z->ahead));
      m->skipped_to = MAX (m->skipped_to, (gint) z->ahead);
      if (m->gathered || m->stays)
        continue;
      m->gathered = TRUE;
      z->available += m->params;
      params += m->params;
      g_array_append_val (m->second ? second : first, m->params);
    }
  put_gather (l, (const double *) (gconstpointer) second->data, second->len, TRUE);
  put_gather (l, (const double *) (gconstpointer) first->data, first->len, FALSE);
}

static void
use (Lower *l, guint module)
{
  Zero3 *const z = l->shard;
  Module *const m = module_at (z, module);
  release (l);
  if (!m->gathered && !m->stays)
    {
      m->gathered = TRUE;
      z->available += m->params;
      put_gather (l, &m->params, 1, m->second);
    }
  if (z->asked != SC_NONE) /* wait_stream(): all that was issued there */
    sc_program_wait (l->p, SC_STREAM_COMPUTE, z->asked);
  if (!by_pieces (l))
    prefetch (l);
  z->current = module;
  z->step++;
}

/* ---- steps ---- */

static void
zero3_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  Zero3 *const z = l->shard;
  sc_bucket_before_unit (l, slot, unit, last);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, unit_grad_bytes (l, slot, unit));
  enter_unit (z, slot->pass != SC_PASS_FORWARD);
  if (z->leads[unit])
    use (l, z->first[unit]);
}

static void
zero3_before_product (Lower *l, const PricedItem *item)
{
  Zero3 *const z = l->shard;
  sc_bucket_before_product (l, item);
  if (item->weights <= 0)
    return;
  const guint module = next_module (z, l->unit, is_forward (z, item));
  if (module != SC_NONE)
    use (l, module);
}

static void
zero3_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  release (l);
  sc_bucket_after_unit (l, slot, unit, last);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -unit_grad_bytes (l, slot, unit));
}

static void
zero3_after_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  Zero3 *const z = l->shard;
  sc_bucket_after_slot (l, slot, last);
  if (slot->pass == SC_PASS_FORWARD)
    return;
  z->step = z->ahead = 0;
  for (guint i = 0; i < z->modules->len; i++)
    module_at (z, i)->skipped_to = -1;
}

static void
zero3_before_optimizer (Lower *l)
{
  Zero3 *const z = l->shard;
  sc_bucket_before_optimizer (l);
  for (guint i = 0; i < z->modules->len; i++)
    if (module_at (z, i)->gathered)
      {
        keep_second (l, module_at (z, i), FALSE);
        sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, -use_bytes (l) * module_at (z, i)->params);
      }
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -buffer_bytes (l));
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, copy_bytes (l));
}

static void
zero3_after_optimizer (Lower *l)
{
  const Zero3 *const z = l->shard;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -copy_bytes (l));
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, -z->second_bytes);
  sc_lower_data_call (l, SC_STREAM_COMPUTE, sc_lower_data_comm (l, FALSE), SC_COLL_ALL_GATHER, use_bytes (l) * z->always, "small parameters");
}

/* qgZ (arXiv 2306.10209, section 3.3; all_to_all_quant_reduce() in deepspeed/runtime/comm/coalesced_collectives.py): each matrix goes in 4 bits
 * to its owners in the node, their sum in 4 bits to those across nodes, and the sum of that is the gradient.  About a row has a scale, in fp32,
 * which goes by itself. */
static void
reduce_quantized (Lower *l, double params)
{
  const double r = sc_dtype_bytes (l->plan->grad_dtype), n = l->plan->zero.quantized_gradients, nodes = sc_plan_data_ranks (l->plan) / n;
  const double scales = 4 * ceil (params / l->in->workload->model.hidden), narrow = params / 2;
  const guint32 node = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_SHARD, FALSE);
  const guint32 across = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_REPLICA, FALSE);
  g_assert (node != SC_NONE && across != SC_NONE);
  const double buffers = 2 * floor (narrow + scales);
  sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, buffers);
  sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "quantize gradients", r * params + narrow + scales);
  sc_lower_data_call (l, SC_STREAM_DP, node, SC_COLL_ALL_TO_ALL, narrow, "gradients in the node");
  sc_lower_data_call (l, SC_STREAM_DP, node, SC_COLL_ALL_TO_ALL, scales, "scales in the node");
  sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "sum of quantized gradients", (narrow + scales) * (1 + 1 / n));
  sc_lower_data_call (l, SC_STREAM_DP, across, SC_COLL_ALL_TO_ALL, narrow / n, "gradients across nodes");
  sc_lower_data_call (l, SC_STREAM_DP, across, SC_COLL_ALL_TO_ALL, scales / n, "scales across nodes");
  sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "dequantize gradients", (narrow + scales + r * params) / n);
  sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "sum over nodes", r * params / n / nodes * (3 * nodes + 2)); /* chunk by chunk, and the mean */
  sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, -buffers);
}

/* No more than two reductions are on their way: then the host waits for the oldest (max_param_reduce_events in stage3.py). */
static void
zero3_reduce (Lower *l, const Bucket *b)
{
  Zero3 *const z = l->shard;
  if (z->reduced[0] != SC_NONE && l->in->workload->framework->host_backward_s > 0)
    sc_lower_host_wait (l, z->reduced[0]);
  const double bytes = (double) b->params * sc_dtype_bytes (l->plan->grad_dtype);
  if (by_pieces (l))
    sc_lower_host_busy (l, sc_lower_to_ns (MAX (b->matrices, 1) * sc_plan_data_ranks (l->plan) * l->in->workload->framework->zero3_piece_s * l->price->host_factor));
  sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "bucket copy-in", 2 * bytes);
  const guint quantized = l->plan->zero.quantized_gradients > 0 ? b->matrices : 0;
  for (guint i = 0; i < quantized; i++)
    reduce_quantized (l, b->matrix_params / quantized);
  const double rest = quantized > 0 ? ((double) b->params - b->matrix_params) * sc_dtype_bytes (l->plan->grad_dtype) : bytes;
  sc_lower_data_call (l, SC_STREAM_DP, sc_lower_data_comm (l, b->experts), SC_COLL_REDUCE_SCATTER, rest, "gradients");
  z->reduced[0] = z->reduced[1];
  z->reduced[1] = sc_lower_put_record (l, SC_STREAM_DP);
}

static gboolean
zero3_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  if (plan->pp > 1)
    return sc_sharding_fail (error, "/plan/sharding: found zero3 with pp %u, expected zero1: DeepSpeed's pipelines sum gradients of all micro-batches, "
                                    "which stages 2 and 3 do not keep", plan->pp);
  if (plan->ep > 1)
    return sc_sharding_fail (error, "/plan/sharding: found zero3 with ep %u, expected zero2: DeepSpeed's experts go with stages up to 2", plan->ep);
  if (workload->model.experts > 0 && plan->etp != plan->tp)
    return sc_sharding_fail (error, "/plan/etp: found %u with sharding zero3, expected tp %u: all weights are gathered over one group", plan->etp, plan->tp);
  if (strcmp (plan->schedule, "none") != 0 && strcmp (plan->schedule, "1f1b") != 0)
    return sc_sharding_fail (error, "/plan/schedule: found %s with sharding zero3, expected none: modules are gathered ahead in the order of one forward and "
                                    "its backward", plan->schedule);
  if (plan->grad_sync != SC_GRAD_SYNC_EVERY)
    return sc_sharding_fail (error, "/plan/grad_sync: found last with sharding zero3, expected every: no rank keeps gradients that are not its own");
  return TRUE;
}

static gboolean
zero3_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  (void) l;
  (void) slot;
  (void) last;
  return TRUE;
}

static gboolean
zero3_by_products (const Lower *l)
{
  (void) l;
  return TRUE;
}

static double
zero3_unit_ops (const ScPlan *plan, double products)
{
  const gboolean from_host = (plan->offload & SC_OFFLOAD_PARAMS) != 0;
  const double reduction = plan->zero.quantized_gradients > 0 ? 14 : 4;
  return 6 + ((from_host ? 24 : 12) + reduction) * products; /* a gather for forward and one for backward */
}

static const ScShardingSteps zero3_steps = {
  .unit_ops = zero3_unit_ops,
  .inside = TRUE,
  .begin = zero3_begin,
  .end = zero3_end,
  .by_units = zero3_by_units,
  .by_products = zero3_by_products,
  .before_unit = zero3_before_unit,
  .before_product = zero3_before_product,
  .after_unit = zero3_after_unit,
  .after_slot = zero3_after_slot,
  .before_optimizer = zero3_before_optimizer,
  .after_optimizer = zero3_after_optimizer,
  .reduce = zero3_reduce,
};

const ScShardingRow sc_sharding_zero3 = {
  .name = "zero3",
  .summary = "ZeRO stage 3: weights shared out as well; modules are gathered ahead of use within DeepSpeed's limits (plan.zero)",
  .source = "arXiv 1910.02054; deepspeed/runtime/zero/partitioned_param_coordinator.py, stage3.py",
  .weights = TRUE,
  .grads = TRUE,
  .optimizer = TRUE,
  .overlap_grad = TRUE,
  .overlap_param = TRUE,
  .grad_sync = SC_GRAD_SYNC_EVERY,
  .check = zero3_check,
  .steps = &zero3_steps,
};
