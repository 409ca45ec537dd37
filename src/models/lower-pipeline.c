/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-pipeline.c - the slots of a rank's schedule, and the transfers between them, blocking or overlapped. */
#include "models/lower-parts.h"
#include "models/recompute.h"
#include "models/schedule.h"

/* One pass over one unit. */
static void
put_unit (Lower *l, const ScSlot *slot, guint unit, const Priced *priced, gboolean last)
{
  const guint phase = slot->pass == SC_PASS_FORWARD ? 0 : slot->pass == SC_PASS_WEIGHT ? 3 : 1;
  sc_lower_before_unit (l, slot, unit, last);
  sc_lower_activations_before_unit (l, slot, unit);
  if (sc_lower_by_products (l))
    sc_lower_put_pass (l, priced, phase);
  else
    sc_lower_put_unit (l, priced, phase);
  sc_lower_activations_after_unit (l, slot, unit);
  sc_lower_after_unit (l, slot, unit, last);
}

static void
put_forward (Lower *l, const ScSlot *slot)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint j = sc_plan_stage (l->plan, l->at.pp, slot->chunk);
  const guint layer = sc_stage_first_layer (sizes, j);
  guint unit = 0;
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, 0 };
  if (!sc_lower_by_units (l, slot, FALSE) && sc_lower_put_whole (l, slot->chunk, SC_PASS_FORWARD, 0))
    {
      sc_lower_after_slot (l, slot, FALSE);
      return;
    }
  if (j == 0)
    put_unit (l, slot, unit++, &l->price->embedding[SC_PASS_FORWARD], FALSE);
  for (guint i = 0; i < sizes->layers[j]; i++)
    {
      l->info.layer = layer + i;
      put_unit (l, slot, unit++, sc_lower_layer_price (l, layer + i, SC_PASS_FORWARD), FALSE);
    }
  l->info.layer = SC_INFO_NO_LAYER;
  if (j == sizes->n_virtual - 1)
    put_unit (l, slot, unit++, &l->price->head[SC_PASS_FORWARD], FALSE);
  sc_lower_after_slot (l, slot, FALSE);
}

/* The layers that are recomputed together with @layer, but for itself. */
static void
put_rebuilt (Lower *l, guint layer, guint phase)
{
  for (guint i = sc_lower_rebuilt_from (l, layer); i < layer; i++)
    {
      l->info.layer = i;
      sc_lower_put_unit (l, sc_lower_layer_rebuild (l, i), phase);
    }
}

/* A backward, or one of its parts.  @last: the chunk's last one. */
static void
put_backward (Lower *l, const ScSlot *slot, gboolean last)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint j = sc_plan_stage (l->plan, l->at.pp, slot->chunk);
  const guint layer = sc_stage_first_layer (sizes, j);
  guint unit = sc_lower_n_units (l, slot->chunk);
  const guint phase = slot->pass == SC_PASS_WEIGHT ? 3 : 1;
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, phase };
  if (!sc_lower_by_units (l, slot, last) && sc_lower_put_whole (l, slot->chunk, (ScPass) slot->pass, phase))
    {
      sc_lower_after_slot (l, slot, last);
      return;
    }
  if (j == sizes->n_virtual - 1)
    put_unit (l, slot, --unit, &l->price->head[slot->pass], last);
  for (guint i = sizes->layers[j]; i-- > 0;)
    {
      if (slot->pass != SC_PASS_WEIGHT)
        put_rebuilt (l, layer + i, phase);
      l->info.layer = layer + i;
      put_unit (l, slot, --unit, sc_lower_layer_price (l, layer + i, slot->pass), last);
    }
  l->info.layer = SC_INFO_NO_LAYER;
  if (j == 0)
    put_unit (l, slot, --unit, &l->price->embedding[slot->pass], last);
  sc_lower_after_slot (l, slot, last);
}

/* Does @slot take its input from, or send its output to, another rank? */
static gboolean
receives (const Lower *l, const ScSlot *slot)
{
  guint rank;
  return sc_orders_hands_on (l->orders, l->at.pp, slot, FALSE, &rank) && rank != l->at.pp;
}

static gboolean
sends (const Lower *l, const ScSlot *slot)
{
  guint rank;
  return sc_orders_hands_on (l->orders, l->at.pp, slot, TRUE, &rank) && rank != l->at.pp;
}

static guint32
transfer_label (Lower *l, gboolean send, gboolean forward)
{
  static const char *const texts[2][2] = { { "receive gradients", "receive activations" }, { "send gradients", "send activations" } };
  guint32 *const label = &l->transfers[send ? 1 : 0][forward ? 1 : 0];
  if (*label == 0)
    *label = sc_lower_label (l, texts[send ? 1 : 0][forward ? 1 : 0]);
  return *label;
}

static guint32
put_transfer (Lower *l, const ScSlot *slot, gboolean send, gboolean posted_here, guint32 host)
{
  const gboolean forward = slot->pass == SC_PASS_FORWARD;
  const gboolean ahead = sc_placement_ahead (l->placement, slot); /* one communicator to each neighbour, whatever it carries */
  const ScStreamKind stream = send ? (ahead ? SC_STREAM_PP_SEND_F : SC_STREAM_PP_SEND_B)
                                   : (ahead ? SC_STREAM_PP_RECV_F : SC_STREAM_PP_RECV_B);
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, ahead ? SC_COMM_PP_FORWARD : SC_COMM_PP_BACKWARD, send);
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, forward ? 0 : 1 };
  if (posted_here)
    sc_lower_put_order (l, SC_STREAM_COMPUTE, stream);
  sc_lower_put_call (l, stream, sc_lower_call_of (l, comm, SC_COLL_SEND, l->in->items->boundary_bytes),
            transfer_label (l, send, forward), host);
  const guint32 done = sc_lower_put_record (l, stream);
  sc_lower_put_mem (l, send ? stream : SC_STREAM_COMPUTE, SC_MEM_COMM, send ? -l->in->items->tensor_bytes : l->in->items->tensor_bytes);
  return done;
}

/* A boundary tensor that was sent in tp pieces is put together again. */
static void
put_boundary_gather (Lower *l, guint n)
{
  if (!l->plan->scatter_gather || l->plan->sequence_parallel || l->plan->tp == 1)
    return;
  const guint32 tp = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_TP, FALSE);
  for (guint i = 0; i < n; i++)
    sc_lower_put_call (l, SC_STREAM_COMPUTE, sc_lower_call_of (l, tp, SC_COLL_ALL_GATHER, l->in->items->boundary_bytes * l->plan->tp),
              sc_lower_label (l, "gather boundary"), sc_lower_issue_ns (l, SC_TIME_BACKWARD));
}

/* Interleaved schedules launch the gathers and reductions of a chunk so that all pipeline ranks do so at about one time
 * (MODELLING 6.2, Megatron's align_param_gather and align_grad_reduce): a gather for the chunk behind the one that the slot
 * `rank` forwards on begins, a reduction `rank` backwards after the chunk's last one. */
typedef struct
{
  guint n_forward, n_backward;   /* slots of each pass so far */
  const ScSlot **forward, **backward; /* in order */
  guint n;                       /* of each */
  const guint *last_backward;    /* [vpp] index among the backwards of each chunk's last one */
} Aligned;

static void
put_aligned_gather (Lower *l, Aligned *a, const ScSlot *slot)
{
  if (slot->pass != SC_PASS_FORWARD)
    return;
  const guint at = a->n_forward++ + l->at.pp;
  if (!sc_lower_gathers_ahead (l) || l->plan->vpp == 1 || at >= a->n)
    return;
  const ScSlot *const then = a->forward[at];
  if (then->microbatch == 0 && then->chunk > 0 && then->chunk + 1u < l->plan->vpp)
    sc_lower_put_gathers (l, then->chunk + 1u, G_MAXUINT);
}

static void
put_aligned_reduce (Lower *l, Aligned *a, const ScSlot *slot)
{
  if (slot->pass != SC_PASS_BACKWARD)
    return;
  const guint n = a->n_backward++;
  if (!l->plan->overlap_grad || l->plan->vpp == 1 || n < l->at.pp)
    return;
  const guint chunk = a->backward[n - l->at.pp]->chunk;
  if (a->last_backward[chunk] == n - l->at.pp)
    sc_lower_put_reduce_chunk (l, chunk);
}

static void
put_mark (Lower *l)
{
  const ScActor *const actor = &g_array_index (l->p->actors, ScActor, l->class_id);
  ScSlotMark mark = { .op = actor->n_ops, .entry = l->tape != NULL ? l->tape->entries->len : 0 };
  memcpy (mark.grade_ps, l->grade_ps, sizeof mark.grade_ps);
  g_array_append_val (l->marks, mark);
}

/* Runs @slot, between its receive buffer, which it takes over as its input, and its send buffer, which lives until it has
 * left; a tensor for the next stage on this very rank lives until that takes it over. */
static void
put_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  guint rank;
  if (l->marks != NULL)
    put_mark (l);
  if (sc_pass_of_vocabulary (slot->pass))
    {
      sc_lower_put_vocab_slot (l, slot);
      return;
    }
  const guint n = (guint) (slot - l->slots);
  sc_lower_enter_slot (l, slot);
  l->quiet = n > l->quiet_from && n < l->quiet_to;
  sc_lower_tape_mark (l, SC_TAPE_MARK);
  sc_lower_vocab_before (l, slot);
  if (sc_orders_hands_on (l->orders, l->at.pp, slot, FALSE, &rank))
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -l->in->items->tensor_bytes);
  if (slot->pass == SC_PASS_FORWARD)
    put_forward (l, slot);
  else
    put_backward (l, slot, last);
  if (sc_orders_hands_on (l->orders, l->at.pp, slot, TRUE, &rank))
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, l->in->items->tensor_bytes);
  l->quiet = FALSE;
}

/* @last: the chunk's last backward. */
static void
put_aligned_slot (Lower *l, Aligned *aligned, const ScSlot *slot, gboolean last)
{
  put_aligned_gather (l, aligned, slot);
  put_slot (l, slot, last);
  put_aligned_reduce (l, aligned, slot);
}

/* Slots that run without an exchange between them. */
typedef struct
{
  const ScSlot *slots;
  guint n;
} Slots;

/* What the exchange before @slot brings: its input.  Where chunks wrap round it is what the rank across, pp slots behind,
 * hands on in that very exchange: in groups larger than pp a later slot needs it (Megatron receives in this order too). */
static gboolean
arrives (const Lower *l, const Aligned *a, const ScSlot *slot, ScSlot *ret)
{
  const guint pp = l->plan->pp, vpp = l->plan->vpp;
  const gboolean forward = slot->pass == SC_PASS_FORWARD;
  *ret = *slot;
  if (vpp == 1 || l->at.pp != (forward ? 0 : pp - 1))
    return receives (l, slot);
  const guint at = forward ? a->n_forward : a->n_backward;
  if (at < pp)
    return FALSE;
  *ret = *(forward ? a->forward : a->backward)[at - pp];
  if (ret->chunk == (forward ? vpp - 1 : 0))
    return FALSE;
  ret->chunk = (guint16) (forward ? ret->chunk + 1 : ret->chunk - 1);
  return TRUE;
}

/* Blocking transfers between two steps: what @before hands on and what arrives for @after (either may be empty) is one
 * exchange, posted together; compute and, where the framework synchronises, the host wait for all of it.  The host comes back
 * with nothing issued: its part (Megatron-LM's p2p_communication.py synchronises the device behind the batch) shows in full. */
static void
put_exchange (Lower *l, const Aligned *aligned, Slots before, Slots after)
{
  const ScFramework *const fw = l->in->workload->framework;
  const guint32 host = sc_lower_to_ns (fw->host_p2p_s * l->price->host_factor);
  guint32 event[4]; /* a step has at most a forward and a backward */
  guint n = 0, n_received = 0;
  g_assert (before.n <= 2 && after.n <= 2);
  for (guint i = 0; i < before.n; i++)
    if (sends (l, &before.slots[i]))
      event[n++] = put_transfer (l, &before.slots[i], TRUE, TRUE, 0);
  for (guint i = 0; i < after.n; i++)
    {
      ScSlot slot;
      if (!arrives (l, aligned, &after.slots[i], &slot))
        continue;
      event[n++] = put_transfer (l, &slot, FALSE, TRUE, 0);
      n_received++;
    }
  for (guint i = 0; i < n; i++)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, event[i]);
  for (guint i = 0; i < n && host > 0; i++)
    sc_lower_host_wait (l, event[i]);
  if (n > 0 && host > 0)
    sc_lower_host_busy (l, host);
  put_boundary_gather (l, n_received);
}

static void
put_blocking_slots (Lower *l, Aligned *aligned, const ScSlot *slots, guint n_slots, const guint *last)
{
  Slots before = { 0 };
  for (guint n = 0; n < n_slots; n += before.n)
    {
      Slots step = { &slots[n], 1 };
      while (n + step.n < n_slots && step.slots[step.n].joined)
        step.n++;
      put_exchange (l, aligned, before, step);
      for (guint i = 0; i < step.n; i++)
        put_aligned_slot (l, aligned, &step.slots[i], n + i == last[step.slots[i].chunk]);
      before = step;
    }
  put_exchange (l, aligned, before, (Slots) { 0 });
}


static gboolean
arrives_at (const Lower *l, const Aligned *a, const ScSlot *slot, guint at, ScSlot *ret)
{
  Aligned then = *a;
  then.n_forward = then.n_backward = at;
  return arrives (l, &then, slot, ret);
}

static void
put_overlapped_slots (Lower *l, Aligned *aligned, const ScSlot *slots, guint n_slots, const guint *last)
{
  const guint32 host = sc_lower_to_ns (l->in->workload->framework->host_p2p_s * l->price->host_factor);
  const guint m = sc_workload_microbatches (l->in->workload), v = l->plan->vpp;
  g_autofree guint32 *ready = g_new (guint32, 2 * m * v);
  guint seen[2] = { 0, 0 };
  for (guint n = 0; n <= n_slots; n++)
    {
      if (n > 1 && sends (l, &slots[n - 2]))
        put_transfer (l, &slots[n - 2], TRUE, TRUE, host);
      ScSlot in;
      if (n < n_slots && arrives_at (l, aligned, &slots[n], seen[slots[n].pass]++, &in))
        ready[(in.pass * v + in.chunk) * m + in.microbatch] = put_transfer (l, &in, FALSE, FALSE, host);
      if (n == 0)
        continue;
      const ScSlot *const now = &slots[n - 1];
      if (receives (l, now))
        {
          sc_program_wait (l->p, SC_STREAM_COMPUTE, ready[(now->pass * v + now->chunk) * m + now->microbatch]);
          put_boundary_gather (l, 1);
        }
      put_aligned_slot (l, aligned, now, n - 1 == last[now->chunk]);
    }
  if (sends (l, &slots[n_slots - 1]))
    put_transfer (l, &slots[n_slots - 1], TRUE, TRUE, host);
}

/* ---- transfers of all other schedules ---- */

/* Slots [at .. at + n) of the order, overlapped with one another if more than one.  @last: of each chunk, its last one that makes gradients. */
static void
put_group (Lower *l, const ScSlot *group, guint n, guint at, const guint *last)
{
  guint rank;
  gboolean hooks = FALSE; /* between layers */
  for (guint i = 0; i < n && !sc_pass_of_vocabulary (group->pass); i++)
    hooks |= sc_lower_by_units (l, &group[i], at + i == last[group[i].chunk]);
  if (n != 2 || hooks || l->plan->ep == 1)
    {
      for (guint i = 0; i < n; i++)
        put_slot (l, &group[i], at + i == last[group[i].chunk]);
      return;
    }
  for (guint i = 0; i < n; i++)
    if (sc_orders_hands_on (l->orders, l->at.pp, &group[i], FALSE, &rank))
      sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -l->in->items->tensor_bytes);
  sc_lower_put_pair (l, &group[0], &group[1]);
  for (guint i = 0; i < n; i++)
    {
      sc_lower_after_slot (l, &group[i], at + i == last[group[i].chunk]);
      if (sc_orders_hands_on (l->orders, l->at.pp, &group[i], TRUE, &rank))
        sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, l->in->items->tensor_bytes);
    }
}

/* Sends run beside compute from the end of their slot on, receives from when they are posted on: with plan.overlap_p2p from when the sender
 * has something, without it behind the compute that was issued before, as PyTorch's process groups have it.  Gradients of a
 * chunk are reduced under its last backward or weight gradient. */
static void
put_actions (Lower *l, const GArray *slots, const guint *last)
{
  const GArray *const actions = l->actions[l->at.pp];
  const guint32 host = sc_lower_to_ns (l->in->workload->framework->host_p2p_s * l->price->host_factor);
  const guint n_chunks = sc_plan_chunks (l->plan);
  guint gathered = 2; /* chunks whose parameters were asked for */
  g_autofree guint32 *ready = g_new0 (guint32, slots->len); /* events behind the receives */
  for (guint a = 0; a < actions->len; a++)
    {
      const ScAction *const action = &g_array_index (actions, ScAction, a);
      const ScSlot *const group = &g_array_index (slots, ScSlot, action->slot);
      switch ((ScActionKind) action->kind)
        {
        case SC_ACTION_SEND:
          put_transfer (l, group, TRUE, TRUE, host);
          break;
        case SC_ACTION_RECEIVE:
          ready[action->slot] = put_transfer (l, group, FALSE, !l->plan->overlap_p2p, host);
          break;
        case SC_ACTION_BROADCAST:
          sc_lower_put_broadcast (l, group);
          break;
        case SC_ACTION_SUM:
          sc_lower_put_sum (l, group);
          break;
        case SC_ACTION_RUN:
          for (guint i = 0; i < action->n; i++)
            if (receives (l, &group[i]))
              {
                sc_program_wait (l->p, SC_STREAM_COMPUTE, ready[action->slot + i]);
                put_boundary_gather (l, 1);
              }
          for (guint i = 0; i < action->n; i++)
            for (; sc_lower_gathers_ahead (l) && group[i].pass == SC_PASS_FORWARD && gathered <= group[i].chunk + 1u && gathered < n_chunks;
                 gathered++)
              sc_lower_put_gathers (l, gathered, G_MAXUINT);
          put_group (l, group, action->n, action->slot, last);
          break;
        default:
          g_assert_not_reached ();
        }
    }
}

/* Where data parallelism rests: behind the first forward of each chunk, which waited for all parameters that were gathered, and before the first of the passes behind which
 * gradients of a chunk are reduced.  Strategies that exchange in every micro-batch have no such slots.  @last: [chunks]. */
static void
find_quiet (Lower *l, const ScSlot *slots, guint n_slots, const guint *last)
{
  const ScShardingSteps *const steps = l->sharding->steps;
  const guint n_chunks = sc_plan_chunks (l->plan);
  l->slots = slots;
  l->quiet_from = l->quiet_to = 0;
  if (l->plan->grad_sync == SC_GRAD_SYNC_EVERY || steps->unit_ops != NULL || steps->inside || l->plan->offload != SC_OFFLOAD_NONE || l->plan->vocab_parallel != SC_VOCAB_ENDS)
    return;
  guint8 *const seen = g_new0 (guint8, n_chunks);
  for (guint n = 0, left = n_chunks; n < n_slots && left > 0; n++)
    if (slots[n].pass == SC_PASS_FORWARD && !seen[slots[n].chunk])
      {
        seen[slots[n].chunk] = TRUE;
        left--;
        l->quiet_from = n;
      }
  g_free (seen);
  l->quiet_to = n_slots;
  for (guint c = 0; c < n_chunks; c++)
    l->quiet_to = MIN (l->quiet_to, last[c]);
}

void
sc_lower_put_slots (Lower *l)
{
  const ScPlan *const p = l->plan;
  const GArray *const slots = l->orders->ranks[l->at.pp];
  const guint n_chunks = sc_plan_chunks (p);
  const ScSlot *const all = (const ScSlot *) (gconstpointer) slots->data;
  g_autofree guint *last = g_new0 (guint, n_chunks), *last_backward = g_new0 (guint, n_chunks);
  g_autofree const ScSlot **forward = g_new (const ScSlot *, slots->len), **backward = g_new (const ScSlot *, slots->len);
  Aligned aligned = { .forward = forward, .backward = backward, .last_backward = last_backward };
  guint n_forward = 0, n_backward = 0;
  for (guint n = 0; n < slots->len; n++)
    if (all[n].pass == SC_PASS_FORWARD)
      forward[n_forward++] = &all[n];
    else if (!sc_pass_of_vocabulary (all[n].pass))
      {
        last[all[n].chunk] = n;
        last_backward[all[n].chunk] = n_backward;
        backward[n_backward++] = &all[n];
      }
  aligned.n = n_forward;
  find_quiet (l, all, slots->len, last);
  l->spared = sc_recompute_spared (p, l->orders, l->at.pp);
  if (sc_lower_gathers_ahead (l)) /* the first bucket, or, of chunks, the first two */
    for (guint i = 0; i < MIN (n_chunks, 2); i++)
      sc_lower_put_gathers (l, sc_lower_nth_chunk (l, i), n_chunks > 1 ? G_MAXUINT : 1);
  if (l->actions != NULL)
    put_actions (l, slots, last);
  else if (p->overlap_p2p)
    put_overlapped_slots (l, &aligned, all, slots->len, last);
  else
    put_blocking_slots (l, &aligned, all, slots->len, last);
  l->info = (ScOpInfo) { SC_INFO_NO_MICROBATCH, 0, SC_INFO_NO_LAYER, 3 };
  l->partial = FALSE;
  g_clear_pointer (&l->spared, g_free);
}
