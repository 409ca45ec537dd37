/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-ops.c - item lists are priced once per kind of GPU and become ops; collectives become calls, once per family. */
#include "models/lower-parts.h"
#include "models/contention.h"
#include <math.h>
#include <string.h>

/* Host time of a launch inside one call of a library (MODELLING 4.5: 2.5 to 4 us, assumed). */
#define LIBRARY_LAUNCH_S 4e-6

/* A kernel of a captured pass, which its GPU takes from the graph by itself (MODELLING 4.5, assumed). */
#define GRAPH_KERNEL_S 1e-6

/* From an event's end to the next launch, where the host has waited for numbers on the GPU: the wake-up, and a few copies of some bytes to the
 * host, 2 to 5 us each (assumed). */
#define HOST_READ_S 20e-6

G_STATIC_ASSERT (SC_N_WORKS == SC_N_HOLDS);

guint32
sc_lower_label (Lower *l, const char *text)
{
  const guint known = GPOINTER_TO_UINT (g_hash_table_lookup (l->label_ids, text));
  if (known > 0)
    return known - 1;
  char *const copy = g_strdup (text);
  g_ptr_array_add (l->labels, copy);
  g_hash_table_insert (l->label_ids, copy, GUINT_TO_POINTER (l->labels->len));
  return l->labels->len - 1;
}

guint32
sc_lower_to_ns (double s)
{
  return (guint32) MIN (llround (s * 1e9), (long long) G_MAXUINT32);
}

/* Host time to issue one op of a pass of this kind. */
static double
host_s (const Lower *l, ScTimeKind time, double host_factor)
{
  const ScFramework *const fw = l->in->workload->framework;
  const gboolean python = time == SC_TIME_FORWARD || time == SC_TIME_RECOMPUTE;
  if (l->plan->cuda_graphs && (python || time == SC_TIME_BACKWARD || time == SC_TIME_WEIGHT))
    return MIN (GRAPH_KERNEL_S, fw->host_backward_s * host_factor);
  const double wide = l->plan->tp > SC_NARROW_TP && fw->host_wide_tp > 0 ? fw->host_wide_tp : 1;
  return (python ? fw->host_forward_s : fw->host_backward_s) * wide * host_factor;
}

/* What the host needs beyond that for a collective of a tensor-parallel group. */
static double
tp_call_s (const Lower *l)
{
  const ScFramework *const fw = l->in->workload->framework;
  const guint nodes = l->in->fabric->n_nodes, tp = l->plan->tp;
  if (nodes < 2 || tp < 2)
    return 0;
  return tp * ((tp > l->plan->gpus / nodes ? fw->host_tp_over_nodes_s : 0) + (l->plan->pp > 1 ? fw->host_tp_pipelined_s : 0));
}

static gboolean
is_tp_call (const ScItem *item)
{
  return item->comm == SC_COMM_TP && (item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START);
}

/* Allocations and frees between two kernels happen at one instant, so only their sums by kind can be seen.  They hang
 * on the kernel that follows; before anything else they are ops of their own. */
static guint32
memory_set (Lower *l, gint64 *sum)
{
  ScMemDelta deltas[SC_N_MEMS];
  guint n = 0;
  for (guint k = 0; k < SC_N_MEMS; k++)
    {
      if (sum[k] != 0)
        deltas[n++] = (ScMemDelta) { sum[k], (guint16) k };
      sum[k] = 0;
    }
  return n > 0 ? sc_program_add_mem_set (l->p, deltas, n) : SC_NONE;
}

static void
flush_memory (GArray *out, gint64 *sum)
{
  for (guint k = 0; k < SC_N_MEMS; k++)
    {
      const PricedItem item = { .kind = SC_ITEM_MEM, .time = (guint8) k, .value = sum[k], .memory = SC_NONE };
      if (sum[k] != 0)
        g_array_append_val (out, item);
      sum[k] = 0;
    }
}

/* Elements of the weights that a product reads, or, negative, makes the gradient of. */
static double
product_weights (const ScKernel *k)
{
  if (k->class != SC_KERNEL_GEMM && k->class != SC_KERNEL_GROUPED_GEMM)
    return 0;
  const double groups = k->class == SC_KERNEL_GROUPED_GEMM ? (double) k->batch : 1;
  if (k->layout != SC_GEMM_NT)
    return groups * (double) k->n * (double) k->k;
  return k->class == SC_KERNEL_GROUPED_GEMM ? -groups * (double) k->n * (double) k->k : -(double) k->m * (double) k->n; /* of groups m are the rows */
}

/* Of the framework's own kernel relative to what is priced. */
static double
kernel_rate (const ScFramework *fw, const ScDevice *device, const ScKernel *k)
{
  const gboolean backward = k->class == SC_KERNEL_FLASH_BACKWARD;
  if (k->class == SC_KERNEL_GEMM && fw->torch_products)
    return sc_torch_product_rate (g_strcmp0 (device->family, "hopper") == 0);
  if (k->class != SC_KERNEL_FLASH_FORWARD && !backward)
    return 1;
  return sc_flash_rate (fw->flash, g_strcmp0 (device->family, "hopper") == 0 || g_strcmp0 (device->family, "blackwell") == 0, backward);
}

/* Products of GPUs later than Hopper read either layout of 8 bits. */
static gboolean
is_needless (const ScDevice *device, const ScItem *item)
{
  return item->kind == SC_ITEM_KERNEL && item->kernel.op == SC_OP_TRANSPOSE && g_strcmp0 (device->family, "blackwell") == 0;
}

/* From a kernel's end to the host's next call, where it waits for each (CUDA_LAUNCH_BLOCKING=1): a blocking synchronisation returns within some 10 us (assumed). */
#define BLOCKING_S 10e-6

/* What the host needs between two kernels: nothing can hide it then. */
static ScTime
blocking_time (const Lower *l, const PricedItem *item)
{
  return l->plan->launch_blocking ? sc_time_from_s (1e-9 * item->issue_ns + BLOCKING_S) : 0;
}

Priced
sc_lower_price_list (Lower *l, GArray *items, const ScDevice *device, double speed, double host_factor, double factor)
{
  Priced ret = { .from = items };
  gint64 sum[SC_N_MEMS] = { 0 };
  GArray *const out = g_array_new (FALSE, FALSE, sizeof (PricedItem));
  ScTime calls = 0; /* the host's part of collectives, which the next kernel has */
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind == SC_ITEM_MEM)
        {
          sum[item->mem] += item->mem_bytes;
          continue;
        }
      if (is_needless (device, item))
        continue;
      if (item->kind != SC_ITEM_KERNEL)
        flush_memory (out, sum);
      PricedItem p = { .kind = (guint8) item->kind, .time = (guint8) item->time, .coll = (guint8) item->coll, .comm = (guint8) item->comm, .buffers = item->buffers != FALSE, .bytes = item->bytes,
                       .issue_ns = sc_lower_to_ns (item->together && !l->plan->cuda_graphs ? LIBRARY_LAUNCH_S * host_factor : host_s (l, item->time, host_factor)) };
      if (is_tp_call (item) && !l->plan->cuda_graphs)
        p.issue_ns += sc_lower_to_ns (tp_call_s (l) * host_factor);
      if (item->kind == SC_ITEM_KERNEL)
        {
          ScCostCache *const costs = l->in->costs;
          const ScCost cost = costs != NULL ? sc_cost_cache_get (costs, device, &item->kernel, speed) : sc_kernel_cost (device, &item->kernel, speed);
          const double seconds = cost.seconds * factor / kernel_rate (l->in->workload->framework, device, &item->kernel);
          p.value = sc_time_from_s (seconds) + blocking_time (l, &p) + calls;
          calls = 0;
          p.work = (guint8) sc_kernel_class_work (item->kernel.class);
          p.memory = memory_set (l, sum);
          p.weights = product_weights (&item->kernel);
          p.experts = item->kernel.class == SC_KERNEL_GROUPED_GEMM;
          p.label = sc_lower_label (l, item->kernel.name);
          ret.grade_ps[cost.grade] += p.value;
        }
      else if (item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START)
        {
          p.label = sc_lower_label (l, item->name);
          calls += blocking_time (l, &p);
        }
      g_array_append_val (out, p);
    }
  flush_memory (out, sum);
  ret.n = out->len;
  ret.items = (PricedItem *) (gpointer) g_array_free (out, FALSE);
  return ret;
}

guint
sc_lower_price_index (Lower *l, const ScDevice *device, double speed, double host_factor, double factor)
{
  for (guint i = 0; i < l->prices->len; i++)
    {
      const Prices *const p = &g_array_index (l->prices, Prices, i);
      if (p->device == device && p->speed == speed && p->host_factor == host_factor && p->factor == factor)
        return i;
    }
  const ScStepItems *const s = l->in->items;
  Prices p = { .device = device, .speed = speed, .host_factor = host_factor, .factor = factor, .n_layers = s->kinds->n * SC_N_PASSES };
  p.layers = g_new0 (Priced, p.n_layers);
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    {
      for (guint k = 0; k < s->kinds->n; k++)
        p.layers[k * SC_N_PASSES + pass] = sc_lower_price_list (l, s->layers[k].pass[pass], device, speed, host_factor, factor);
      p.embedding[pass] = sc_lower_price_list (l, s->embedding.pass[pass], device, speed, host_factor, factor);
      p.head[pass] = sc_lower_price_list (l, s->head.pass[pass], device, speed, host_factor, factor);
    }
  for (guint i = 0; i < G_N_ELEMENTS (p.vocab); i++)
    if (s->vocab[i] != NULL)
      p.vocab[i] = sc_lower_price_list (l, s->vocab[i], device, speed, host_factor, factor);
  p.rebuild = g_new0 (Priced, s->kinds->n);
  for (guint k = 0; k < s->kinds->n; k++)
    if (s->layers[k].rebuild != NULL)
      p.rebuild[k] = sc_lower_price_list (l, s->layers[k].rebuild, device, speed, host_factor, factor);
  g_array_append_val (l->prices, p);
  return l->prices->len - 1;
}

void
sc_lower_enter_microbatch (Lower *l, guint microbatch)
{
  const ScLayerKinds *const kinds = l->in->items->kinds;
  l->packed = kinds->of_microbatch != NULL ? kinds->of_microbatch[microbatch] : 0;
  l->factor = microbatch % MAX (l->plan->n_microbatch_factors, 1) * MAX (kinds->n_packed, 1) + l->packed;
  l->price = &g_array_index (l->prices, Prices, l->price_of[l->factor]);
}

void
sc_lower_enter_slot (Lower *l, const ScSlot *slot)
{
  sc_lower_enter_microbatch (l, slot->microbatch);
  l->partial = l->spared != NULL && l->spared[slot->chunk * l->orders->m + slot->microbatch];
}

void
sc_lower_prices_clear (gpointer data)
{
  Prices *const p = data;
  for (guint i = 0; i < p->n_layers; i++)
    g_free (p->layers[i].items);
  for (guint k = 0; k < p->n_layers / SC_N_PASSES; k++)
    g_free (p->rebuild[k].items);
  g_free (p->layers);
  g_free (p->rebuild);
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    {
      g_free (p->embedding[pass].items);
      g_free (p->head[pass].items);
    }
  for (guint i = 0; i < G_N_ELEMENTS (p->vocab); i++)
    g_free (p->vocab[i].items);
}

guint
sc_lower_layer_kind (const Lower *l, guint layer)
{
  const ScLayerKinds *const kinds = l->in->items->kinds;
  const guint16 *const of_layer = l->partial && kinds->partial != NULL ? kinds->partial : kinds->of_layer;
  return of_layer[l->packed * l->in->workload->model.layers + layer];
}

const Priced *
sc_lower_layer_price (const Lower *l, guint layer, ScPass pass)
{
  return &l->price->layers[sc_lower_layer_kind (l, layer) * SC_N_PASSES + pass];
}

const Priced *
sc_lower_layer_rebuild (const Lower *l, guint layer)
{
  return &l->price->rebuild[sc_lower_layer_kind (l, layer)];
}

guint
sc_lower_rebuilt_from (const Lower *l, guint layer)
{
  const ScLayerKind *const kinds = l->in->items->kinds->kinds;
  const ScLayerRecompute *r = &kinds[sc_lower_layer_kind (l, layer)].recompute;
  if (!r->full || !r->last)
    return layer;
  while (!kinds[sc_lower_layer_kind (l, layer)].recompute.first)
    layer--;
  return layer;
}

/* ---- calls ---- */

ScTimeKind
sc_lower_comm_time (ScCommKind kind)
{
  switch (kind)
    {
    case SC_COMM_TP:
    case SC_COMM_KV:
      return SC_TIME_COMM_TP;
    case SC_COMM_CP:
    case SC_COMM_CP_A2A:
    case SC_COMM_CP_RING:
      return SC_TIME_COMM_CP;
    case SC_COMM_EP:
    case SC_COMM_ETP:
      return SC_TIME_COMM_EP;
    case SC_COMM_PP_FORWARD:
    case SC_COMM_PP_BACKWARD:
    case SC_COMM_VOCAB:
    case SC_COMM_VOCAB_SYNC:
      return SC_TIME_COMM_PP;
    case SC_COMM_DP:
    case SC_COMM_EXPERT_DP:
    case SC_COMM_SHARD:
    case SC_COMM_REPLICA:
    case SC_COMM_EMBEDDING:
    case SC_COMM_WORLD:
    case SC_N_COMMS:
    default:
      return SC_TIME_COMM_DP;
    }
}

/* The single messages of a call, over the links that the fold kept; unfolded programs only. */
static const ScMessages *
expand_call (Lower *l, const ScCollective *row, const ScComm *comm, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  const ScLowerInput *const in = l->in;
  const double alpha = shape->hops_inter > 0 ? shape->inter_latency_s : shape->intra_latency_s;
  ScMessages *const m = row->expand (in->fabric, in->layout->members + comm->first, comm->n, kind, bytes, in->blocks,
                                     sc_time_from_s (alpha), in->fold->link_class_of, TRUE);
  g_ptr_array_add (l->messages, m);
  return m;
}

/* A row that a call takes and that its comm has not been walked by: all comms of the family need it. */
static void
note_need (Lower *l, guint32 family, const ScCollective *row, ScCollKind kind)
{
  const guint32 first = l->in->fold->family_comm[family];
  for (guint i = 0; i < l->needs->len; i++)
    {
      const ScNeed *const known = &g_array_index (l->needs, ScNeed, i);
      if (known->comm == first && known->row == sc_collective_index (row) && known->kind == kind)
        return;
    }
  for (guint32 c = 0; c < l->in->layout->n_comms; c++)
    if (l->in->fold->family_of[c] == family)
      {
        const ScNeed need = { c, sc_collective_index (row), kind };
        g_array_append_val (l->needs, need);
      }
}

/* Makes a message last @seconds where it has its links for itself, or as long as its bytes need on them, if that is longer. */
static void
stretch (ScCallForm *form, const ScCollChoice *choice, double seconds)
{
  const double wire_s = form->n_parts > 0 ? choice->alone_s - choice->latency_s : 0;
  form->delay_s = MAX (seconds - wire_s, 0);
  for (guint p = 0; p < form->n_parts && wire_s > seconds; p++)
    form->parts[p].cap *= wire_s / seconds;
}

/* What a call takes from the kernels beside it. */
static void
set_holds (Lower *l, gboolean buffers, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  if (choice->row->walk == NULL) /* some bytes */
    return;
  const ScContention c = buffers ? sc_contention_user_buffers (l->price->device, choice, kind, shape, bytes) : sc_contention (l->price->device, choice, kind, shape, bytes);
  sc_program_set_holds (l->p, c.hold);
}

/* The row that a call takes whatever the library would choose; NULL: none. */
static const ScCollective *
forced_row (const Lower *l, const ScComm *comm, ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  if (comm->kind == SC_COMM_WORLD)
    return &sc_collective_scalar;
  if (comm->kind == SC_COMM_EP && kind == SC_COLL_ALL_TO_ALL && l->plan->moe_dispatcher == SC_DISPATCHER_DEEPEP
      && sc_collective_possible (&sc_collective_deepep, kind, shape, bytes, NULL))
    return &sc_collective_deepep;
  return NULL;
}

/* The program's call for @bytes of @kind over @comm: made once per family, kind, size and kind of buffers. */
static guint32
call_of (Lower *l, guint32 comm_id, ScCollKind kind, double bytes, gboolean buffers)
{
  const ScLowerInput *const in = l->in;
  const guint32 family = in->fold->family_of[comm_id];
  if (l->known[family] == NULL)
    l->known[family] = g_array_new (FALSE, FALSE, sizeof (KnownCall));
  for (guint i = 0; i < l->known[family]->len; i++)
    {
      const KnownCall *const k = &g_array_index (l->known[family], KnownCall, i);
      if (k->kind == kind && k->bytes == bytes && k->buffers == buffers)
        return k->call;
    }
  const guint32 first_comm = in->fold->family_comm[family];
  const ScComm *const comm = &in->layout->comms[first_comm];
  const ScGroupShape *const shape = &in->loads->shapes[first_comm];
  ScCollChoice choice;
  if (!sc_collective_choose (kind, shape, bytes, forced_row (l, comm, kind, shape, bytes), SC_N_PROTOS, &choice, NULL))
    g_assert_not_reached ();
  const ScWalk *const walk = choice.row->walk != NULL ? sc_loads_walk (in->loads, first_comm, choice.row, kind) : NULL;
  if (choice.row->walk != NULL && walk == NULL)
    note_need (l, family, choice.row, kind);
  const ScBound bound = walk != NULL ? sc_walk_bound (walk, kind, shape) : (ScBound) { 0, 0, SC_NONE, SC_NONE };
  sc_collective_time (&choice, kind, shape, bytes, &bound);
  const ScTimeKind tag = sc_lower_comm_time (comm->kind);
  const KnownCall known = { kind, buffers, bytes, l->p->calls->len };
  const gboolean across = l->plan->pp > 1 && (comm->kind == SC_COMM_WORLD || comm->kind == SC_COMM_EMBEDDING || comm->kind == SC_COMM_VOCAB || comm->kind == SC_COMM_VOCAB_SYNC);
  if (in->blocks > 0 && walk != NULL)
    {
      const ScTime launch = sc_time_from_s (kind == SC_COLL_SEND ? 0 : shape->launch_s);
      sc_program_add_call (l->p, family, (guint16) tag, launch, 0, 0);
      g_array_index (l->p->calls, ScCall, known.call).messages = expand_call (l, choice.row, comm, kind, shape, bytes);
    }
  else
    {
      ScCallForm form;
      sc_collective_form (&choice, kind, shape, bytes, &form);
      if (tag == SC_TIME_COMM_PP && l->plan->profile.transfer_s > 0)
        stretch (&form, &choice, l->plan->profile.transfer_s);
      sc_program_add_call (l->p, family, (guint16) tag, sc_time_from_s (form.delay_s), 0, 0);
      for (guint p = 0; p < form.n_parts && walk != NULL; p++)
        {
          guint32 n_uses;
          const guint32 first = sc_fold_uses (in->fold, in->loads, family, walk, p, &n_uses);
          if (form.parts[p].bytes > 0)
            sc_program_share_part (l->p, form.parts[p].bytes, form.parts[p].cap, first, n_uses);
        }
    }
  set_holds (l, buffers, &choice, kind, shape, bytes);
  if (across) /* its members are stages: who waits there waits for the pipeline to drain */
    g_array_index (l->p->calls, ScCall, known.call).wait_tag = SC_TIME_BUBBLE;
  g_array_append_val (l->known[family], known);
  return known.call;
}

guint32
sc_lower_call_of (Lower *l, guint32 comm_id, ScCollKind kind, double bytes)
{
  return call_of (l, comm_id, kind, bytes, FALSE);
}

/* Picoseconds of a call that has its links for itself. */
double
sc_lower_alone_ps (const Lower *l, guint32 call)
{
  const ScCall *const c = &g_array_index (l->p->calls, ScCall, call);
  double longest = 0;
  for (guint i = 0; i < c->n_parts; i++)
    {
      const ScPart *const part = &g_array_index (l->p->parts, ScPart, c->first_part + i);
      if (part->cap < INFINITY)
        longest = MAX (longest, (double) sc_time_from_s (part->bytes / part->cap));
    }
  return (double) (c->delay + c->tail) + longest;
}

/* Can a call over this rank's group of @kind last longer than alone? */
gboolean
sc_lower_may_wait (const Lower *l, ScCommKind kind)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, kind, FALSE);
  return l->in->metered || (l->quiet ? l->may_wait_quiet : l->may_wait)[l->in->fold->family_of[comm]];
}

/* Of a collective of a pass, over the group of its kind that this rank is in. */
guint32
sc_lower_item_call (Lower *l, const PricedItem *item)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, (ScCommKind) item->comm, FALSE);
  return call_of (l, comm, (ScCollKind) item->coll, item->bytes, item->buffers);
}

/* Where collectives over @comm run that compute does not wait for at once. */
ScStreamKind
sc_lower_stream_beside (ScCommKind comm)
{
  if (comm == SC_COMM_VOCAB)
    return SC_STREAM_VOCAB;
  const gboolean context = comm == SC_COMM_CP || comm == SC_COMM_CP_A2A || comm == SC_COMM_CP_RING;
  return context ? SC_STREAM_CP : comm == SC_COMM_EP || comm == SC_COMM_ETP ? SC_STREAM_EP : SC_STREAM_TP;
}

/* ---- ops ---- */

void
sc_lower_put_work (Lower *l, const PricedItem *item)
{
  ScOp *const op = sc_program_work (l->p, SC_STREAM_COMPUTE, item->time, item->value);
  op->held = (guint) item->work & 15u;
  op->arg = item->memory;
  op->issue_ns = item->issue_ns;
  op->label = item->label;
  op->info = sc_info_pack (l->info);
}

void
sc_lower_put_copy (Lower *l, ScStreamKind stream, ScTimeKind time, const char *name, double bytes)
{
  if (bytes <= 0)
    return;
  const ScKernel kernel = sc_kernel_memory (name, SC_KERNEL_ELEMENTWISE, bytes);
  ScCostCache *const costs = l->in->costs;
  const double speed = l->price->speed;
  const ScCost cost = costs != NULL ? sc_cost_cache_get (costs, l->price->device, &kernel, speed) : sc_kernel_cost (l->price->device, &kernel, speed);
  const ScTime took = sc_time_from_s (cost.seconds);
  ScOp *const op = sc_program_work (l->p, (guint8) stream, (guint16) time, took);
  op->held = SC_WORK_MEMORY;
  op->arg = SC_NONE;
  op->issue_ns = sc_lower_issue_ns (l, stream == SC_STREAM_COMPUTE ? time : SC_TIME_OPTIMIZER);
  op->label = sc_lower_label (l, name);
  op->info = sc_info_pack (l->info);
  if (stream == SC_STREAM_COMPUTE)
    l->grade_ps[cost.grade] += took;
}

void
sc_lower_put_call (Lower *l, ScStreamKind stream, guint32 call, guint32 text, guint32 issue_ns)
{
  ScOp *const op = sc_program_call (l->p, (guint8) stream, call);
  op->tag = g_array_index (l->p->calls, ScCall, call).tag;
  op->issue_ns = issue_ns;
  op->label = text;
  op->info = sc_info_pack (l->info);
}

/* What is on @stream from here on waits until what is on @after up to here is done. */
void
sc_lower_put_order (Lower *l, ScStreamKind after, ScStreamKind stream)
{
  const guint32 event = sc_program_add_event (l->p);
  sc_program_record (l->p, (guint8) after, event);
  sc_program_wait (l->p, (guint8) stream, event);
}

guint32
sc_lower_put_record (Lower *l, ScStreamKind stream)
{
  const guint32 event = sc_program_add_event (l->p);
  sc_program_record (l->p, (guint8) stream, event);
  return event;
}

static void
put_mem_op (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes)
{
  if (bytes != 0)
    sc_program_mem (l->p, (guint8) stream, (guint16) kind, (gint64) llround (bytes))->info = sc_info_pack (l->info);
}

/* Ops of the actor so far. */
static guint32
n_ops (const Lower *l)
{
  return l->p->ops->len - g_array_index (l->p->actors, ScActor, l->p->actors->len - 1).first_stored;
}

static void
tape_tensor (Lower *l, ScTapeKind when, ScStreamKind stream, ScMemKind kind, double bytes, const char *name)
{
  if (l->tape == NULL || llround (bytes) == 0)
    return;
  sc_tape_put (l->tape, (ScTapeEntry) { .kind = (guint8) when, .mem = (guint8) kind, .stream = (guint8) stream, .bytes = llround (bytes), .name = name,
                                        .info = sc_info_pack (l->info), .op = n_ops (l) });
}

void
sc_lower_put_tensor (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes, const char *name)
{
  tape_tensor (l, SC_TAPE_CHANGE, stream, kind, bytes, name);
  put_mem_op (l, stream, kind, bytes);
}

void
sc_lower_put_listed (Lower *l, ScStreamKind stream, ScMemKind kind, GArray *items, double bytes)
{
  if (l->tape != NULL && items != NULL) /* lists of passes may be made by hand */
    sc_tape_put_list (l->tape, items, 0, G_MAXUINT32, sc_info_pack (l->info), n_ops (l));
  put_mem_op (l, stream, kind, bytes);
}

void
sc_lower_put_mem (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes)
{
  sc_lower_put_tensor (l, stream, kind, bytes, NULL);
}

void
sc_lower_put_state (Lower *l, ScTapeKind when, ScMemKind kind, double bytes, const char *name)
{
  tape_tensor (l, when, SC_STREAM_COMPUTE, kind, bytes, name);
  put_mem_op (l, SC_STREAM_COMPUTE, kind, bytes);
}

void
sc_lower_put_state_parts (Lower *l, ScTapeKind when, ScMemKind kind, const GArray *parts, double sign, const char *name)
{
  double sum = 0;
  for (guint i = 0; i < parts->len; i++)
    {
      const double bytes = sign * g_array_index (parts, double, i);
      tape_tensor (l, when, SC_STREAM_COMPUTE, kind, bytes, name);
      sum += (double) llround (bytes);
    }
  put_mem_op (l, SC_STREAM_COMPUTE, kind, sum);
}

void
sc_lower_tape_list (Lower *l, const Priced *priced, guint from, guint to)
{
  if (l->tape != NULL)
    sc_tape_put_list (l->tape, priced->from, from, to, sc_info_pack (l->info), n_ops (l));
}

void
sc_lower_tape_mark (Lower *l, ScTapeKind kind)
{
  if (l->tape != NULL)
    sc_tape_put (l->tape, (ScTapeEntry) { .kind = (guint8) kind, .info = sc_info_pack (l->info), .op = n_ops (l) });
}

/* Host time of an op outside of the passes. */
guint32
sc_lower_issue_ns (const Lower *l, ScTimeKind time)
{
  return sc_lower_to_ns (host_s (l, time, l->price->host_factor));
}

/* An item of a pass: kernels on the compute stream, collectives there or beside it. */
void
sc_lower_put_item (Lower *l, const PricedItem *item, guint phase)
{
  const guint outer = l->info.phase;
  GQueue *const started = &l->started[item->comm];
  if (item->kind != SC_ITEM_MEM)
    l->info.phase = item->time == SC_TIME_RECOMPUTE ? 2 : phase;
  switch ((ScItemKind) item->kind)
    {
    case SC_ITEM_KERNEL:
      sc_lower_put_work (l, item);
      break;
    case SC_ITEM_COLLECTIVE:
      sc_lower_put_call (l, SC_STREAM_COMPUTE, sc_lower_item_call (l, item), item->label, item->issue_ns);
      break;
    case SC_ITEM_COLLECTIVE_START:
      {
        const ScStreamKind stream = sc_lower_stream_beside ((ScCommKind) item->comm);
        sc_lower_put_order (l, SC_STREAM_COMPUTE, stream);
        sc_lower_put_call (l, stream, sc_lower_item_call (l, item), item->label, item->issue_ns);
        g_queue_push_tail (started, GUINT_TO_POINTER (sc_lower_put_record (l, stream)));
      }
      break;
    case SC_ITEM_COLLECTIVE_WAIT:
      g_assert (!g_queue_is_empty (started));
      sc_program_wait (l->p, SC_STREAM_COMPUTE, GPOINTER_TO_UINT (g_queue_pop_head (started)));
      break;
    case SC_ITEM_MEM:
      put_mem_op (l, SC_STREAM_COMPUTE, (ScMemKind) item->time, (double) item->value);
      break;
    case SC_ITEM_HOST_MARK:
      if (sc_lower_has_host (l))
        l->host_mark = sc_lower_put_record (l, SC_STREAM_COMPUTE);
      break;
    case SC_ITEM_HOST_WAIT:
      if (!sc_lower_has_host (l))
        break;
      sc_lower_host_wait (l, l->host_mark);
      sc_lower_host_busy (l, sc_lower_read_ns (l));
      break;
    default:
      g_assert_not_reached ();
    }
  l->info.phase = outer;
}

void
sc_lower_put_pass (Lower *l, const Priced *priced, guint phase)
{
  sc_lower_tape_list (l, priced, 0, G_MAXUINT);
  for (guint i = 0; i < priced->n; i++)
    {
      if (priced->items[i].kind == SC_ITEM_KERNEL && priced->items[i].weights != 0)
        sc_lower_before_product (l, &priced->items[i]);
      sc_lower_put_item (l, &priced->items[i], phase);
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_ps[g] += priced->grade_ps[g];
}

void
sc_lower_host_wait (Lower *l, guint32 event)
{
  sc_program_add_op (l->p, SC_OP_HOST_WAIT, 0, 0, event, 0);
}

gboolean
sc_lower_has_host (const Lower *l)
{
  return l->in->workload->framework->host_backward_s > 0;
}

guint32
sc_lower_read_ns (const Lower *l)
{
  return sc_lower_to_ns (HOST_READ_S * l->price->host_factor);
}

/* The host is busy for @issue_ns before it issues what follows. */
void
sc_lower_host_busy (Lower *l, guint32 issue_ns)
{
  sc_program_record (l->p, SC_STREAM_COMPUTE, sc_program_add_event (l->p))->issue_ns = issue_ns;
}
