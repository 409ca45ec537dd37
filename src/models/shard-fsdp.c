/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard-fsdp.c - PyTorch's fully sharded data parallelism: weights are shared out, too, and gathered unit by unit for use.
 *
 * A unit is a layer; embedding, final norm and head are one more, the root, which stays gathered from its first use to the end of
 * backward.  Gathers and reduce-scatters go over one communicator, so they run in the order in which they are issued, whatever streams
 * FSDP makes them wait on: one stream of ours.  Generation 2 gathers into a buffer and copies from there, generation 1 in place. */
#include "models/lower-parts.h"

typedef enum
{
  UNIT_SHARED, /* each rank has its part */
  UNIT_ASKED,  /* its gather is issued */
  UNIT_WHOLE,
  UNIT_PARTLY, /* shared out again, over smaller groups */
} UnitState;

typedef struct
{
  double    dense, experts; /* parameters of this rank's copy ... */
  double    narrow;         /* ... and those of the dense ones that are gathered in 8 bits */
  guint     n_narrow;       /* tensors */
  UnitState state;
  guint32   gathered;       /* ASKED: event behind the gather */
  double    kept;           /* PARTLY: bytes of this rank's part, until the whole is there again */
  gboolean  summed;         /* gradients of earlier micro-batches are held whole */
  double    part[2];        /* elements whose gradients are made at once: of the root those of the head, and those of the embedding */
} Unit;

typedef struct
{
  Unit   *units;            /* [chunks * per_chunk] of each chunk the root, then its layers */
  guint   per_chunk;
  guint32 copied;           /* event behind the last copy-out of forward, or SC_NONE ... */
  double  copied_bytes;     /* ... and the buffer that it came from */
  guint32 reduced;          /* event behind the last reduce-scatter, or SC_NONE ... */
  double  reduced_bytes;    /* ... and its input */
  guint32 summed;           /* event behind the last sum over replicas, or SC_NONE */
  guint32 freed[2];         /* generation 1: events behind the last uses of units that were freed, oldest first; SC_NONE: none */
} Fsdp;

static gboolean
is_layer (const Lower *l, guint chunk, guint unit)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  return !(j == 0 && unit == 0) && !(j == l->in->sizes->n_virtual - 1 && unit == sc_lower_n_units (l, chunk) - 1);
}

/* Index of its FSDP unit in the chunk: 0 is the root. */
static guint
unit_index (const Lower *l, guint chunk, guint unit)
{
  return is_layer (l, chunk, unit) ? unit + (sc_plan_stage (l->plan, l->at.pp, chunk) != 0) : 0;
}

static Unit *
unit_at (const Lower *l, guint chunk, guint index)
{
  const Fsdp *const f = l->shard;
  return &f->units[chunk * f->per_chunk + index];
}

static gboolean
second (const Lower *l)
{
  return l->in->workload->framework->fsdp != 1;
}

static double
elements (const Unit *u)
{
  return u->dense + u->experts;
}

/* Elements of a unit that this rank owns. */
static double
own_elements (const Lower *l, const Unit *u)
{
  return u->dense / sc_plan_shard_ranks (l->plan) + u->experts / sc_plan_expert_data_ranks (l->plan);
}

static double
use_bytes (const Lower *l)
{
  return sc_dtype_bytes (l->plan->dtype);
}

static double
reduce_bytes (const Lower *l)
{
  return sc_dtype_bytes (l->plan->grad_dtype);
}

/* As it is gathered, and as this rank casts its part for that. */
static double
gathered_bytes (const Lower *l, const Unit *u)
{
  return use_bytes (l) * elements (u) - (use_bytes (l) - 1) * u->narrow;
}

static double
own_gathered_bytes (const Lower *l, const Unit *u)
{
  return use_bytes (l) * own_elements (l, u) - (use_bytes (l) - 1) * u->narrow / sc_plan_shard_ranks (l->plan);
}

/* Weights of a layer's products, where they are gathered in 8 bits. */
static void
count_narrow (const Lower *l, guint chunk, guint unit, Unit *u)
{
  const Priced *const priced = sc_lower_unit_price (l, chunk, unit, SC_PASS_FORWARD);
  if (!l->plan->fp8_param_gather || !is_layer (l, chunk, unit))
    return;
  for (guint i = 0; i < priced->n; i++)
    if (priced->items[i].kind == SC_ITEM_KERNEL && priced->items[i].weights > 0)
      {
        u->narrow += priced->items[i].weights;
        u->n_narrow++;
      }
  u->narrow = MIN (u->narrow, u->dense);
}

static guint32
shard_comm (const Lower *l, gboolean experts)
{
  return !experts && l->plan->sharding == SC_SHARDING_HSDP ? sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_SHARD, FALSE)
                                                           : sc_lower_data_comm (l, experts);
}

static void
fsdp_begin (Lower *l)
{
  Fsdp *const f = g_new0 (Fsdp, 1);
  const guint n_chunks = sc_plan_chunks (l->plan);
  l->shard = f;
  f->per_chunk = l->in->workload->model.layers + 1;
  f->units = g_new0 (Unit, n_chunks * f->per_chunk);
  f->copied = f->reduced = f->summed = f->freed[0] = f->freed[1] = SC_NONE;
  for (guint chunk = 0; chunk < n_chunks; chunk++)
    for (guint unit = 0; unit < sc_lower_n_units (l, chunk); unit++)
      {
        Unit *const u = unit_at (l, chunk, unit_index (l, chunk, unit));
        u->dense += (double) sc_lower_unit_params (l, chunk, unit, FALSE);
        u->experts += (double) sc_lower_unit_params (l, chunk, unit, TRUE);
        u->part[u->part[0] > 0] = elements (u) - u->part[0];
        count_narrow (l, chunk, unit, u);
      }
}

static void
fsdp_end (Lower *l)
{
  Fsdp *const f = l->shard;
  g_free (f->units);
  g_free (f);
  l->shard = NULL;
}

/* ---- gathers ---- */

/* Generation 1 lets the host run no further ahead than two gathered units (limit_all_gathers). */
static void
limit_gathers (Lower *l)
{
  Fsdp *const f = l->shard;
  if (f->freed[0] == SC_NONE || f->freed[1] == SC_NONE)
    return;
  sc_lower_host_wait (l, f->freed[0]);
  f->freed[0] = f->freed[1];
  f->freed[1] = SC_NONE;
}

static void
ask (Lower *l, Unit *u, gboolean backward)
{
  if ((u->state != UNIT_SHARED && u->state != UNIT_PARTLY) || elements (u) == 0)
    return;
  const double bytes = gathered_bytes (l, u);
  const gboolean partly = u->state == UNIT_PARTLY && backward;
  if (!second (l))
    limit_gathers (l);
  if (!l->plan->overlap_param)
    sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
  const guint32 comm = partly ? sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_SHARD, FALSE) : shard_comm (l, FALSE);
  g_assert (!partly || comm != SC_NONE);
  const gboolean from_host = !partly && sc_lower_offloads_params (l);
  if (from_host)
    {
      sc_lower_put_mem (l, SC_STREAM_COPY_IN, SC_MEM_COMM, floor (4 * own_elements (l, u)));
      sc_lower_put_host_copy (l, TRUE, "shard to the GPU", 4 * own_elements (l, u));
      sc_lower_put_order (l, SC_STREAM_COPY_IN, SC_STREAM_DP);
    }
  sc_lower_put_tensor (l, SC_STREAM_DP, second (l) ? SC_MEM_COMM : SC_MEM_WEIGHTS, bytes, "gathered parameters");
  if (!partly) /* from fp32 to what is gathered */
    sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "all-gather copy-in", 4 * own_elements (l, u) + own_gathered_bytes (l, u));
  sc_lower_data_call (l, SC_STREAM_DP, comm, SC_COLL_ALL_GATHER, bytes - use_bytes (l) * u->experts, "parameters");
  sc_lower_data_call (l, SC_STREAM_DP, shard_comm (l, TRUE), SC_COLL_ALL_GATHER, use_bytes (l) * u->experts, "expert parameters");
  if (from_host)
    sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, -floor (4 * own_elements (l, u)));
  u->gathered = sc_lower_put_record (l, SC_STREAM_DP);
  u->state = UNIT_ASKED;
}

static void
free_copied (Lower *l)
{
  Fsdp *const f = l->shard;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -f->copied_bytes);
  f->copied_bytes = 0;
  f->copied = SC_NONE;
}

static void
let_gathers_wait (Lower *l, guint32 event)
{
  sc_program_wait (l->p, SC_STREAM_DP, event);
  if (sc_lower_offloads_params (l))
    sc_program_wait (l->p, SC_STREAM_COPY_IN, event);
}

/* Compute waits for the gather.  The buffer that generation 2 copies from is kept, in forward, until the next unit's copy is issued, and gathers
 * issued from then on wait for the copy before that one; in backward it is freed at once, and they wait for this copy (wait_for_unshard()
 * in _fsdp_param_group.py). */
static void
take (Lower *l, Unit *u, gboolean backward)
{
  if (u->state != UNIT_ASKED)
    return;
  Fsdp *const f = l->shard;
  const double bytes = gathered_bytes (l, u);
  u->state = UNIT_WHOLE;
  sc_program_wait (l->p, SC_STREAM_COMPUTE, u->gathered);
  if (!second (l))
    return;
  if (!backward && f->copied != SC_NONE)
    let_gathers_wait (l, f->copied);
  free_copied (l);
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, bytes - u->kept, "gathered parameters");
  u->kept = 0;
  sc_lower_put_copy (l, SC_STREAM_COMPUTE, backward ? SC_TIME_BACKWARD : SC_TIME_FORWARD, "all-gather copy-out", 2 * bytes);
  f->copied = sc_lower_put_record (l, SC_STREAM_COMPUTE);
  f->copied_bytes = bytes;
  if (!backward)
    return;
  let_gathers_wait (l, f->copied);
  free_copied (l);
}

/* The whole copy is freed; @groups > 0: but for the part of this rank in such a group. */
static void
reshard (Lower *l, Unit *u, guint groups)
{
  Fsdp *const f = l->shard;
  if (u->state != UNIT_WHOLE)
    return;
  const double bytes = gathered_bytes (l, u);
  u->kept = groups > 0 ? floor (bytes / groups) : 0;
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, u->kept - bytes);
  u->state = groups > 0 ? UNIT_PARTLY : UNIT_SHARED;
  if (second (l))
    return;
  f->freed[f->freed[0] == SC_NONE ? 0 : 1] = sc_lower_put_record (l, SC_STREAM_COMPUTE);
}

/* ---- reductions ---- */

static void
wait_reduced (Lower *l)
{
  Fsdp *const f = l->shard;
  if (f->reduced == SC_NONE)
    return;
  sc_program_wait (l->p, SC_STREAM_COMPUTE, f->reduced);
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -f->reduced_bytes);
  f->reduced = SC_NONE;
}

/* The unit's gradients are born, @each bytes an element, or, negative, gone. */
static void
put_gradients (Lower *l, ScStreamKind stream, const Unit *u, double each)
{
  for (guint i = 0; i < G_N_ELEMENTS (u->part); i++)
    sc_lower_put_tensor (l, stream, SC_MEM_GRADS, each * u->part[i], "gradients");
}

/* A micro-batch that is not reduced: its gradients are added to those before it, in the data type of the reduction. */
static void
sum_gradients (Lower *l, Unit *u)
{
  const double w = use_bytes (l) * elements (u), r = reduce_bytes (l) * elements (u);
  if (!u->summed && w == r)
    {
      u->summed = TRUE;
      return;
    }
  if (!u->summed)
    put_gradients (l, SC_STREAM_COMPUTE, u, reduce_bytes (l));
  sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_BACKWARD, "gradient accumulation", w + (u->summed ? 2 : 1) * r);
  put_gradients (l, SC_STREAM_COMPUTE, u, -use_bytes (l));
  u->summed = TRUE;
}

/* Scatter, then, of replicas, the sum over them beside whatever comes next; the result becomes part of the fp32 gradient. */
static void
put_reduce_scatter (Lower *l, const Unit *u)
{
  Fsdp *const f = l->shard;
  const double r = reduce_bytes (l);
  const guint32 replica = l->plan->sharding == SC_SHARDING_HSDP ? sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_REPLICA, FALSE) : SC_NONE;
  const double kept = replica != SC_NONE ? floor (r * own_elements (l, u)) : 0; /* what the sum over replicas reads */
  sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, kept);
  sc_lower_data_call (l, SC_STREAM_DP, shard_comm (l, FALSE), SC_COLL_REDUCE_SCATTER, r * u->dense, "gradients");
  sc_lower_data_call (l, SC_STREAM_DP, shard_comm (l, TRUE), SC_COLL_REDUCE_SCATTER, r * u->experts, "expert gradients");
  f->reduced = sc_lower_put_record (l, SC_STREAM_DP);
  const ScStreamKind rest = replica != SC_NONE ? SC_STREAM_DP_REPLICA : SC_STREAM_DP;
  if (replica != SC_NONE)
    {
      sc_program_wait (l->p, SC_STREAM_DP_REPLICA, f->reduced);
      sc_lower_data_call (l, SC_STREAM_DP_REPLICA, replica, SC_COLL_ALL_REDUCE, r * own_elements (l, u), "gradients of replicas");
    }
  sc_lower_put_copy (l, rest, SC_TIME_COMM_DP, "reduce-scatter copy-out", (r + 4) * own_elements (l, u));
  sc_lower_put_mem (l, rest, SC_MEM_COMM, -kept);
  f->summed = sc_lower_put_record (l, rest);
  if (sc_lower_offloads_optimizer (l))
    sc_lower_put_out (l, rest, "gradients to the host", 4 * own_elements (l, u));
}

static void
reduce (Lower *l, Unit *u)
{
  Fsdp *const f = l->shard;
  const double n = elements (u), w = use_bytes (l) * n, r = reduce_bytes (l) * n;
  if (n == 0)
    return;
  if (u->summed)
    sum_gradients (l, u);
  const double held = u->summed ? r : w;
  u->summed = FALSE;
  if (second (l)) /* only one input of a reduction is alive beside this one */
    {
      wait_reduced (l);
      sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, r, "input of a reduce-scatter");
      sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_BACKWARD, "reduce-scatter copy-in", held + r);
      put_gradients (l, SC_STREAM_COMPUTE, u, -held / n);
      f->reduced_bytes = r;
      sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
      put_reduce_scatter (l, u);
    }
  else /* the gradients of its views are put together; casting and dividing is the reduction's stream's */
    {
      sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_BACKWARD, "flat gradient", 2 * w);
      sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
      sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, r);
      sc_lower_put_copy (l, SC_STREAM_DP, SC_TIME_COMM_DP, "gradient cast", held + 3 * r);
      put_reduce_scatter (l, u);
      sc_lower_put_mem (l, SC_STREAM_DP, SC_MEM_COMM, -r);
      put_gradients (l, SC_STREAM_DP, u, -held / n);
      f->reduced_bytes = 0;
    }
  if (!l->plan->overlap_grad)
    wait_reduced (l);
}

/* ---- steps ---- */

/* Between stages nothing is gathered twice in a step where forward keeps what it has, and gradients are reduced behind the last backward. */
static gboolean
staged (const Lower *l)
{
  return l->plan->pp > 1;
}

static gboolean
keeps (const Lower *l)
{
  return l->plan->sharding == SC_SHARDING_FSDP_GRAD_OP;
}

static gboolean
makes_gradients (const ScSlot *slot)
{
  return slot->pass == SC_PASS_BACKWARD || slot->pass == SC_PASS_WEIGHT;
}

static gboolean
syncs (const Lower *l, gboolean last)
{
  return last || l->plan->grad_sync == SC_GRAD_SYNC_EVERY;
}

/* Behind a unit's backward: its gradients are added up or reduced, its weights freed. */
static void
post_backward (Lower *l, Unit *u, gboolean last)
{
  if (!syncs (l, last))
    sum_gradients (l, u);
  if (last || !(staged (l) && keeps (l)))
    reshard (l, u, 0);
  if (syncs (l, last))
    reduce (l, u);
}

static void
fsdp_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  Unit *const u = unit_at (l, slot->chunk, unit_index (l, slot->chunk, unit)), *const root = unit_at (l, slot->chunk, 0);
  (void) last;
  if (makes_gradients (slot)) /* of this part of the root, or of the layer */
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS,
                      use_bytes (l) * (double) (sc_lower_unit_params (l, slot->chunk, unit, FALSE) + sc_lower_unit_params (l, slot->chunk, unit, TRUE)), "gradients");
  if (slot->pass == SC_PASS_WEIGHT)
    return;
  const gboolean backward = slot->pass != SC_PASS_FORWARD;
  if (unit == 0 && !backward)
    {
      ask (l, root, FALSE);
      take (l, root, FALSE);
    }
  ask (l, u, backward);
  take (l, u, backward);
  if (!backward)
    return;
  if (unit > 0 && is_layer (l, slot->chunk, unit - 1)) /* what backward uses next */
    ask (l, unit_at (l, slot->chunk, unit_index (l, slot->chunk, unit - 1)), TRUE);
}

static void
fsdp_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  Unit *const u = unit_at (l, slot->chunk, unit_index (l, slot->chunk, unit));
  if (!is_layer (l, slot->chunk, unit))
    return;
  const gboolean end = unit + 1 == sc_lower_n_units (l, slot->chunk) || !is_layer (l, slot->chunk, unit + 1);
  if (slot->pass == SC_PASS_FORWARD)
    {
      if (!keeps (l) && !(end && l->in->workload->framework->fsdp_keeps_last))
        reshard (l, u, l->plan->reshard_after_forward);
    }
  else if (slot->pass == SC_PASS_INPUT)
    {
      if (!keeps (l))
        reshard (l, u, 0);
    }
  else if (!staged (l) || !syncs (l, last))
    post_backward (l, u, last);
  else if (!keeps (l))
    reshard (l, u, 0);
}

/* A backward ends when its reductions have, those over replicas, too (_root_post_backward_final_callback() and finalize_backward() in FSDP2,
 * _post_backward_final_callback() in FSDP1); nothing of them stays alive. */
static void
end_backward (Lower *l)
{
  Fsdp *const f = l->shard;
  wait_reduced (l);
  if (f->summed != SC_NONE)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, f->summed);
  f->summed = SC_NONE;
}

static void
fsdp_after_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  const guint n = sc_lower_n_units (l, slot->chunk);
  if (slot->pass == SC_PASS_FORWARD)
    free_copied (l);
  if (!makes_gradients (slot))
    return;
  for (guint unit = n; staged (l) && syncs (l, last) && unit-- > 0;)
    if (is_layer (l, slot->chunk, unit))
      post_backward (l, unit_at (l, slot->chunk, unit_index (l, slot->chunk, unit)), last);
  post_backward (l, unit_at (l, slot->chunk, 0), last);
  if (syncs (l, last))
    end_backward (l);
}

static void
fsdp_before_optimizer (Lower *l)
{
  end_backward (l);
}

/* Scales of all weights that are gathered in 8 bits, for the next step (precompute_float8_dynamic_scale_for_fsdp() in torchao/float8/fsdp_utils.py):
 * the largest element of each, over all ranks at once. */
static void
fsdp_after_optimizer (Lower *l)
{
  const Fsdp *const f = l->shard;
  double narrow = 0, tensors = 0;
  for (guint i = 0; i < sc_plan_chunks (l->plan) * f->per_chunk; i++)
    {
      narrow += f->units[i].narrow;
      tensors += f->units[i].n_narrow;
    }
  if (narrow == 0)
    return;
  sc_lower_put_copy (l, SC_STREAM_COMPUTE, SC_TIME_OPTIMIZER, "largest weights", 4 * narrow / sc_plan_shard_ranks (l->plan));
  sc_lower_data_call (l, SC_STREAM_COMPUTE, shard_comm (l, FALSE), SC_COLL_ALL_REDUCE, 4 * tensors, "largest weights");
}

static gboolean
fsdp_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  (void) l;
  (void) slot;
  (void) last;
  return TRUE;
}

static double
fsdp_unit_ops (const ScPlan *plan, double products)
{
  const gboolean offload = (plan->offload & SC_OFFLOAD_BOTH) != 0;
  const double gather = offload ? 17 : 12, reduction = (offload ? 19 : 14) + (plan->sharding == SC_SHARDING_HSDP ? 5 : 0), sum = 3;
  const guint gathers = plan->sharding != SC_SHARDING_FSDP_GRAD_OP ? 2 : plan->pp > 1 ? 0 : 1;
  (void) products;
  return gathers * gather + (plan->grad_sync == SC_GRAD_SYNC_EVERY ? reduction : sum);
}

static const ScShardingSteps fsdp_steps = {
  .unit_ops = fsdp_unit_ops,
  .begin = fsdp_begin,
  .end = fsdp_end,
  .by_units = fsdp_by_units,
  .before_unit = fsdp_before_unit,
  .after_unit = fsdp_after_unit,
  .after_slot = fsdp_after_slot,
  .before_optimizer = fsdp_before_optimizer,
  .after_optimizer = fsdp_after_optimizer,
};

static gboolean
fsdp_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  if (sc_plan_placement (plan) == SC_PLACE_BOTH)
    return sc_sharding_fail (error, "/plan/sharding: found %s with schedule %s, expected another: its ranks at both ends of the pipeline hold the same stages, "
                                    "but use them in different orders, and would gather them in different orders", sc_sharding_row (plan->sharding)->name,
                             plan->schedule);
  if (plan->reshard_after_forward > 0 && workload->framework->fsdp == 1)
    return sc_sharding_fail (error, "/plan/reshard_after_forward: found %u with %s, expected none: only FSDP2 shares out what it gathered over smaller groups",
                             plan->reshard_after_forward, workload->framework->name);
  return TRUE;
}

static gboolean
hsdp_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  if (sc_plan_inner_ranks (plan) < 2)
    return sc_sharding_fail (error, "/plan/shard_group: found %u with sharding hsdp, expected a part of the %u data-parallel ranks: those that share one copy",
                             plan->shard_group, plan->dp * plan->cp);
  return fsdp_check (workload, error);
}

#define FSDP_ROW                                                                                                                  \
  .source = "arXiv 2304.11277; torch/distributed/fsdp/_fully_shard (FSDP2), torch/distributed/fsdp/_runtime_utils.py (FSDP1)",   \
  .weights = TRUE, .grads = TRUE, .optimizer = TRUE, .fp32_weights = TRUE, .overlap_grad = TRUE, .overlap_param = TRUE,           \
  .grad_sync = SC_GRAD_SYNC_EVERY, .steps = &fsdp_steps

const ScShardingRow sc_sharding_fsdp_full = {
  .name = "fsdp-full",
  .summary = "FSDP: weights, gradients and optimizer states shared out; each layer is gathered for forward and again for backward, the next "
             "one meanwhile",
  .check = fsdp_check,
  FSDP_ROW,
};

const ScShardingRow sc_sharding_fsdp_grad_op = {
  .name = "fsdp-grad-op",
  .summary = "FSDP that keeps what forward gathered until backward has used it (SHARD_GRAD_OP, reshard_after_forward=False); in a "
             "pipeline until the last micro-batch has",
  .check = fsdp_check,
  FSDP_ROW,
};

const ScShardingRow sc_sharding_hsdp = {
  .name = "hsdp",
  .summary = "FSDP in groups of shard_group ranks, gradients summed over the groups",
  .check = hsdp_check,
  FSDP_ROW,
};
