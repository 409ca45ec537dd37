/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower.c - plan + fold -> program: streams, events, calls. */
#include "models/lower.h"
#include "models/model.h"
#include "models/schedule.h"
#include <string.h>

/* ---- the passes and the stages ---- */

static GArray *
item_list (void)
{
  return g_array_new (FALSE, FALSE, sizeof (ScItem));
}

ScStepItems *
sc_step_items_new (const ScWorkload *workload)
{
  const ScLayerShape shape = sc_layer_shape (workload);
  ScStepItems *const s = g_new0 (ScStepItems, 1);
  sc_layer_forward (&shape, s->layer_forward = item_list ());
  sc_layer_backward (&shape, s->layer_backward = item_list ());
  sc_embedding_forward (&shape, s->embedding_forward = item_list ());
  sc_embedding_backward (&shape, s->embedding_backward = item_list ());
  sc_head_forward (&shape, s->head_forward = item_list ());
  sc_head_backward (&shape, s->head_backward = item_list ());
  s->boundary_bytes = sc_boundary_bytes (&shape);
  s->tensor_bytes = shape.act_bytes * shape.tokens_sp * shape.model->hidden;
  return s;
}

void
sc_step_items_free (ScStepItems *s)
{
  if (s == NULL)
    return;
  GArray *const lists[] = { s->layer_forward, s->layer_backward, s->embedding_forward, s->embedding_backward, s->head_forward,
                            s->head_backward };
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    g_array_unref (lists[i]);
  g_free (s);
}

/* The last stage holds the output matrix: its own, or, where the first stage is elsewhere, a copy of the tied one. */
static guint64
head_params (const ScWorkload *workload)
{
  const ScModel *const m = &workload->model;
  return sc_model_head_params_rank (m, workload->plan.tp, !m->tied_embeddings || workload->plan.pp > 1);
}

ScStageSizes *
sc_stage_sizes_new (const ScWorkload *workload)
{
  const ScPlan *const p = &workload->plan;
  ScStageSizes *const s = g_new0 (ScStageSizes, 1);
  s->n_virtual = p->pp * p->vpp;
  s->layers = sc_workload_stage_layers (workload);
  s->params = g_new0 (guint64, p->pp);
  for (guint j = 0; j < s->n_virtual; j++)
    s->params[j % p->pp] += s->layers[j] * sc_model_layer_params_rank (&workload->model, p->tp);
  s->params[0] += sc_model_embedding_params_rank (&workload->model, workload->seq, p->tp);
  s->params[p->pp - 1] += head_params (workload);
  return s;
}

void
sc_stage_sizes_free (ScStageSizes *s)
{
  if (s == NULL)
    return;
  g_free (s->layers);
  g_free (s->params);
  g_free (s);
}

/* ---- prices ---- */

/* One op of a pass, or two: what is the same each time the pass runs. */
typedef struct
{
  guint8  kind;        /* ScItemKind */
  guint8  time;        /* ScTimeKind; MEM: ScMemKind */
  guint8  coll;        /* ScCollKind */
  guint32 label;
  guint32 issue_ns;
  guint32 memory;      /* KERNEL: what it allocates and frees as it starts: memory set, or SC_NONE */
  gint64  value;       /* KERNEL: ps; MEM: bytes */
  double  bytes;       /* collectives */
} PricedItem;

/* An item list priced on one kind of rank. */
typedef struct
{
  PricedItem *items;
  guint    n;
  double   grade_s[SC_N_GRADES]; /* of one pass */
} Priced;

typedef struct
{
  const ScDevice *device;
  double  speed, host_factor;
  Priced  layer_forward, layer_backward, embedding_forward, embedding_backward, head_forward, head_backward;
} Prices;

typedef struct
{
  ScCollKind kind;
  double  bytes;
  guint32 call;
} KnownCall;

/* Parameters that are reduced (and gathered) together: units of one chunk, from the last one back. */
typedef struct
{
  guint   chunk, first_unit; /* lowest unit of the bucket: when its backward is done, the bucket is full */
  guint64 params;
  guint32 gathered;          /* event, or SC_NONE */
  gboolean issued;           /* its gather, in this step */
  gboolean reduced;          /* issued, in this step */
} Bucket;

typedef struct
{
  const ScLowerInput *in;
  const ScPlan  *plan;
  ScProgram     *p;
  GPtrArray     *labels;
  GHashTable    *label_ids; /* text -> id + 1 */
  GArray        *prices;    /* Prices */
  GArray       **known;     /* [n_families] KnownCall */
  GPtrArray     *messages;
  double         hold;      /* share of compute that a collective beside it takes */

  /* the class that is being lowered */
  guint32  rank, class_id;
  ScCoord  at;
  const Prices *price;
  double  *grade_s;         /* [SC_N_GRADES] */
  GQueue   started;         /* events of async TP collectives, as pointers */
  GArray  *buckets;         /* Bucket */
  GArray  *dp_done;         /* guint32 events */
  ScOpInfo info;
} Lower;

static guint32
label (Lower *l, const char *text)
{
  const guint known = GPOINTER_TO_UINT (g_hash_table_lookup (l->label_ids, text));
  if (known > 0)
    return known - 1;
  char *const copy = g_strdup (text);
  g_ptr_array_add (l->labels, copy);
  g_hash_table_insert (l->label_ids, copy, GUINT_TO_POINTER (l->labels->len));
  return l->labels->len - 1;
}

static guint32
to_ns (double s)
{
  return (guint32) MIN (llround (s * 1e9), (long long) G_MAXUINT32);
}

/* Host time to issue one op of a pass of this kind. */
static double
host_s (const Lower *l, ScTimeKind time, double host_factor)
{
  const ScFramework *const fw = l->in->workload->framework;
  const gboolean python = time == SC_TIME_FORWARD || time == SC_TIME_RECOMPUTE;
  return (python ? fw->host_forward_s : fw->host_backward_s) * host_factor;
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

static Priced
price_list (Lower *l, const GArray *items, const ScDevice *device, double speed, double host_factor)
{
  Priced ret = { 0 };
  gint64 sum[SC_N_MEMS] = { 0 };
  GArray *const out = g_array_new (FALSE, FALSE, sizeof (PricedItem));
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind == SC_ITEM_MEM)
        {
          sum[item->mem] += item->mem_bytes;
          continue;
        }
      if (item->kind != SC_ITEM_KERNEL)
        flush_memory (out, sum);
      PricedItem p = { .kind = (guint8) item->kind, .time = (guint8) item->time, .coll = (guint8) item->coll, .bytes = item->bytes,
                       .issue_ns = to_ns (host_s (l, item->time, host_factor)) };
      if (item->kind == SC_ITEM_KERNEL)
        {
          const ScCost cost = sc_kernel_cost (device, &item->kernel, speed);
          p.value = sc_time_from_s (cost.seconds);
          p.memory = memory_set (l, sum);
          p.label = label (l, item->kernel.name);
          ret.grade_s[cost.grade] += cost.seconds;
        }
      else if (item->kind != SC_ITEM_COLLECTIVE_WAIT)
        p.label = label (l, item->name);
      g_array_append_val (out, p);
    }
  flush_memory (out, sum);
  ret.n = out->len;
  ret.items = (PricedItem *) (gpointer) g_array_free (out, FALSE);
  return ret;
}

static guint
price_index (Lower *l, const ScDevice *device, double speed, double host_factor)
{
  for (guint i = 0; i < l->prices->len; i++)
    {
      const Prices *const p = &g_array_index (l->prices, Prices, i);
      if (p->device == device && p->speed == speed && p->host_factor == host_factor)
        return i;
    }
  const ScStepItems *const s = l->in->items;
  const Prices p = { .device = device, .speed = speed, .host_factor = host_factor,
                     .layer_forward = price_list (l, s->layer_forward, device, speed, host_factor),
                     .layer_backward = price_list (l, s->layer_backward, device, speed, host_factor),
                     .embedding_forward = price_list (l, s->embedding_forward, device, speed, host_factor),
                     .embedding_backward = price_list (l, s->embedding_backward, device, speed, host_factor),
                     .head_forward = price_list (l, s->head_forward, device, speed, host_factor),
                     .head_backward = price_list (l, s->head_backward, device, speed, host_factor) };
  g_array_append_val (l->prices, p);
  return l->prices->len - 1;
}

static void
prices_clear (gpointer data)
{
  Prices *const p = data;
  g_free (p->layer_forward.items);
  g_free (p->layer_backward.items);
  g_free (p->embedding_forward.items);
  g_free (p->embedding_backward.items);
  g_free (p->head_forward.items);
  g_free (p->head_backward.items);
}

/* ---- calls ---- */

static ScTimeKind
comm_time_kind (ScCommKind kind)
{
  switch (kind)
    {
    case SC_COMM_TP:
      return SC_TIME_COMM_TP;
    case SC_COMM_PP_FORWARD:
    case SC_COMM_PP_BACKWARD:
      return SC_TIME_COMM_PP;
    case SC_COMM_DP:
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

/* The program's call for @bytes of @kind over @comm: made once per family, kind and size. */
static guint32
call_of (Lower *l, guint32 comm_id, ScCollKind kind, double bytes)
{
  const ScLowerInput *const in = l->in;
  const guint32 family = in->fold->family_of[comm_id];
  if (l->known[family] == NULL)
    l->known[family] = g_array_new (FALSE, FALSE, sizeof (KnownCall));
  for (guint i = 0; i < l->known[family]->len; i++)
    {
      const KnownCall *const k = &g_array_index (l->known[family], KnownCall, i);
      if (k->kind == kind && k->bytes == bytes)
        return k->call;
    }
  const guint32 first_comm = in->fold->family_comm[family];
  const ScComm *const comm = &in->layout->comms[first_comm];
  const ScGroupShape *const shape = &in->loads->shapes[first_comm];
  const ScCollective *const row = sc_collective_choose (kind, shape, bytes);
  const ScCallForm form = sc_collective_form (row, kind, shape, bytes);
  const double hold = kind == SC_COLL_SEND || row->walk == NULL ? 0 : l->hold;
  const ScTimeKind tag = comm_time_kind (comm->kind);
  const KnownCall known = { kind, bytes, l->p->calls->len };
  const gboolean across = l->plan->pp > 1 && (comm->kind == SC_COMM_WORLD || comm->kind == SC_COMM_EMBEDDING);
  if (in->blocks > 0 && row->walk != NULL)
    {
      const ScTime launch = sc_time_from_s (kind == SC_COLL_SEND ? 0 : shape->launch_s);
      sc_program_add_call (l->p, family, (guint16) tag, launch, 0, hold);
      g_array_index (l->p->calls, ScCall, known.call).messages = expand_call (l, row, comm, kind, shape, bytes);
    }
  else
    {
      sc_program_add_call (l->p, family, (guint16) tag, sc_time_from_s (form.delay_s), 0, hold);
      if (row->walk != NULL && form.connection_bytes > 0)
        sc_program_share_part (l->p, form.connection_bytes, form.cap, in->fold->uses_first[family],
                               in->fold->uses_first[family + 1] - in->fold->uses_first[family]);
    }
  if (across) /* its members are stages: who waits there waits for the pipeline to drain */
    g_array_index (l->p->calls, ScCall, known.call).wait_tag = SC_TIME_BUBBLE;
  g_array_append_val (l->known[family], known);
  return known.call;
}

/* ---- ops ---- */

static void
put_work (Lower *l, const PricedItem *item)
{
  ScOp *const op = sc_program_work (l->p, SC_STREAM_COMPUTE, item->time, item->value);
  op->arg = item->memory;
  op->issue_ns = item->issue_ns;
  op->label = item->label;
  op->info = sc_info_pack (l->info);
}

static void
put_call (Lower *l, ScStreamKind stream, guint32 call, guint32 text, guint32 issue_ns)
{
  ScOp *const op = sc_program_call (l->p, (guint8) stream, call);
  op->tag = g_array_index (l->p->calls, ScCall, call).tag;
  op->issue_ns = issue_ns;
  op->label = text;
  op->info = sc_info_pack (l->info);
}

/* What is on @stream from here on waits until what is on @after up to here is done. */
static void
put_order (Lower *l, ScStreamKind after, ScStreamKind stream)
{
  const guint32 event = sc_program_add_event (l->p);
  sc_program_record (l->p, (guint8) after, event);
  sc_program_wait (l->p, (guint8) stream, event);
}

static guint32
put_record (Lower *l, ScStreamKind stream)
{
  const guint32 event = sc_program_add_event (l->p);
  sc_program_record (l->p, (guint8) stream, event);
  return event;
}

static void
put_mem (Lower *l, ScStreamKind stream, ScMemKind kind, double bytes)
{
  if (bytes != 0)
    sc_program_mem (l->p, (guint8) stream, (guint16) kind, (gint64) llround (bytes))->info = sc_info_pack (l->info);
}

/* Host time of an op outside of the passes. */
static guint32
issue_ns (const Lower *l, ScTimeKind time)
{
  return to_ns (host_s (l, time, l->price->host_factor));
}

/* One pass over one list: kernels on the compute stream, collectives there or beside it. */
static void
put_pass (Lower *l, const Priced *priced, guint phase)
{
  const guint32 tp = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_TP, FALSE);
  const guint outer = l->info.phase;
  for (guint i = 0; i < priced->n; i++)
    {
      const PricedItem *const item = &priced->items[i];
      if (item->kind != SC_ITEM_MEM)
        l->info.phase = item->time == SC_TIME_RECOMPUTE ? 2 : phase;
      switch ((ScItemKind) item->kind)
        {
        case SC_ITEM_KERNEL:
          put_work (l, item);
          break;
        case SC_ITEM_COLLECTIVE:
          put_call (l, SC_STREAM_COMPUTE, call_of (l, tp, (ScCollKind) item->coll, item->bytes), item->label, item->issue_ns);
          break;
        case SC_ITEM_COLLECTIVE_START:
          put_order (l, SC_STREAM_COMPUTE, SC_STREAM_TP);
          put_call (l, SC_STREAM_TP, call_of (l, tp, (ScCollKind) item->coll, item->bytes), item->label, item->issue_ns);
          g_queue_push_tail (&l->started, GUINT_TO_POINTER (put_record (l, SC_STREAM_TP)));
          break;
        case SC_ITEM_COLLECTIVE_WAIT:
          g_assert (!g_queue_is_empty (&l->started));
          sc_program_wait (l->p, SC_STREAM_COMPUTE, GPOINTER_TO_UINT (g_queue_pop_head (&l->started)));
          break;
        case SC_ITEM_MEM:
          put_mem (l, SC_STREAM_COMPUTE, (ScMemKind) item->time, (double) item->value);
          break;
        default:
          g_assert_not_reached ();
        }
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_s[g] += priced->grade_s[g];
  l->info.phase = outer;
}

/* ---- gradient and parameter buckets ---- */

static gboolean
is_sharded (const ScPlan *plan)
{
  return plan->sharding != SC_SHARDING_NONE;
}

static guint
n_data_ranks (const ScPlan *plan)
{
  return plan->dp * plan->cp;
}

/* Units of a chunk, in forward order: [embedding,] its layers [, head]. */
static guint
n_units (const Lower *l, guint chunk)
{
  const guint j = chunk * l->plan->pp + l->at.pp;
  return l->in->sizes->layers[j] + (j == 0) + (j == l->in->sizes->n_virtual - 1);
}

static guint64
unit_params (const Lower *l, guint chunk, guint unit)
{
  const guint j = chunk * l->plan->pp + l->at.pp;
  const ScWorkload *const w = l->in->workload;
  if (j == 0 && unit == 0)
    return sc_model_embedding_params_rank (&w->model, w->seq, l->plan->tp);
  if (j == l->in->sizes->n_virtual - 1 && unit == n_units (l, chunk) - 1)
    return head_params (w);
  return sc_model_layer_params_rank (&w->model, l->plan->tp);
}

/* Megatron cuts buckets only on the first pipeline rank and there only in its first chunk: all others have bubbles to
 * hide one reduction in (MODELLING 5.8). */
static void
make_buckets (Lower *l)
{
  g_array_set_size (l->buckets, 0);
  if (n_data_ranks (l->plan) == 1)
    return;
  for (guint chunk = 0; chunk < l->plan->vpp; chunk++)
    {
      const gboolean cut = l->plan->overlap_grad && l->at.pp == 0 && chunk == 0;
      Bucket b = { .chunk = chunk, .gathered = SC_NONE };
      for (guint unit = n_units (l, chunk); unit-- > 0;)
        {
          b.params += unit_params (l, chunk, unit);
          b.first_unit = unit;
          if (unit > 0 && !(cut && b.params >= l->plan->bucket_params))
            continue;
          if (b.params > 0)
            g_array_append_val (l->buckets, b);
          b = (Bucket) { .chunk = chunk, .gathered = SC_NONE };
        }
    }
}

/* Reduction of one bucket beside compute, from here on; once a step. */
static void
put_reduce (Lower *l, Bucket *b)
{
  if (b->reduced)
    return;
  b->reduced = TRUE;
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_DP, FALSE);
  const double bytes = (double) b->params * sc_dtype_bytes (l->plan->grad_dtype);
  const ScCollKind kind = is_sharded (l->plan) ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE;
  put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
  put_call (l, SC_STREAM_DP, call_of (l, comm, kind, bytes), label (l, "gradients"), issue_ns (l, SC_TIME_BACKWARD));
  const guint32 done = put_record (l, SC_STREAM_DP);
  g_array_append_val (l->dp_done, done);
}

/* The backward of @unit is done for the last time: reduce what it completes. */
static void
put_reduce_after (Lower *l, guint chunk, guint unit)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == chunk && b->first_unit == unit)
        put_reduce (l, b);
    }
}

static void
put_reduce_chunk (Lower *l, guint chunk)
{
  for (guint i = 0; i < l->buckets->len; i++)
    if (g_array_index (l->buckets, Bucket, i).chunk == chunk)
      put_reduce (l, &g_array_index (l->buckets, Bucket, i));
}

static void
put_gather_call (Lower *l, ScStreamKind stream, const Bucket *b)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_DP, FALSE);
  put_call (l, stream, call_of (l, comm, SC_COLL_ALL_GATHER, (double) b->params * sc_dtype_bytes (l->plan->dtype)),
            label (l, "parameters"), issue_ns (l, SC_TIME_OPTIMIZER));
}

/* Issues the gathers of @chunk, in the order of use (buckets run backwards through a chunk); @n: at most so many, those
 * that were issued before not counted. */
static void
put_gathers (Lower *l, guint chunk, guint n)
{
  for (guint i = l->buckets->len; i-- > 0 && n > 0;)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk != chunk || b->issued)
        continue;
      put_gather_call (l, SC_STREAM_DP_GATHER, b);
      b->gathered = put_record (l, SC_STREAM_DP_GATHER);
      b->issued = TRUE;
      n--;
    }
}

static gboolean
gathers_ahead (const Lower *l)
{
  return is_sharded (l->plan) && l->plan->overlap_param && n_data_ranks (l->plan) > 1;
}

static void
wait_gathered (Lower *l, guint chunk, guint unit)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk != chunk || b->first_unit != unit || b->gathered == SC_NONE)
        continue;
      sc_program_wait (l->p, SC_STREAM_COMPUTE, b->gathered);
      b->gathered = SC_NONE;        /* once a step */
      put_gathers (l, chunk, 1);    /* the next bucket when this one is taken (MODELLING 6.2) */
    }
}

/* ---- slots ---- */

static void
put_forward (Lower *l, const ScSlot *slot)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint j = slot->chunk * l->plan->pp + l->at.pp;
  guint layer = 0, unit = 0;
  for (guint i = 0; i < j; i++)
    layer += sizes->layers[i];
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, 0 };
  if (j == 0)
    {
      wait_gathered (l, slot->chunk, unit++);
      put_pass (l, &l->price->embedding_forward, 0);
    }
  for (guint i = 0; i < sizes->layers[j]; i++)
    {
      wait_gathered (l, slot->chunk, unit++);
      l->info.layer = layer + i;
      put_pass (l, &l->price->layer_forward, 0);
    }
  l->info.layer = SC_INFO_NO_LAYER;
  if (j == sizes->n_virtual - 1)
    {
      wait_gathered (l, slot->chunk, unit++);
      put_pass (l, &l->price->head_forward, 0);
    }
}

static void
put_backward (Lower *l, const ScSlot *slot, gboolean last)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint j = slot->chunk * l->plan->pp + l->at.pp;
  const gboolean reduce = last && l->plan->overlap_grad && l->plan->vpp == 1; /* chunks: see put_aligned() */
  guint layer = 0, unit = n_units (l, slot->chunk);
  for (guint i = 0; i < j; i++)
    layer += sizes->layers[i];
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, 1 };
  if (j == sizes->n_virtual - 1)
    {
      put_pass (l, &l->price->head_backward, 1);
      unit--;
      if (reduce)
        put_reduce_after (l, slot->chunk, unit);
    }
  for (guint i = sizes->layers[j]; i-- > 0;)
    {
      l->info.layer = layer + i;
      put_pass (l, &l->price->layer_backward, 1);
      unit--;
      if (reduce)
        put_reduce_after (l, slot->chunk, unit);
    }
  l->info.layer = SC_INFO_NO_LAYER;
  if (j == 0)
    {
      put_pass (l, &l->price->embedding_backward, 1);
      if (reduce)
        put_reduce_after (l, slot->chunk, 0);
    }
}

/* Does @slot take its input from, or send its output to, another stage? */
static gboolean
receives (const Lower *l, const ScSlot *slot)
{
  const guint j = slot->chunk * l->plan->pp + l->at.pp;
  return l->plan->pp > 1 && (slot->pass == SC_PASS_FORWARD ? j > 0 : j < l->in->sizes->n_virtual - 1);
}

static gboolean
sends (const Lower *l, const ScSlot *slot)
{
  const guint j = slot->chunk * l->plan->pp + l->at.pp;
  return l->plan->pp > 1 && (slot->pass == SC_PASS_FORWARD ? j < l->in->sizes->n_virtual - 1 : j > 0);
}

static guint32
put_transfer (Lower *l, const ScSlot *slot, gboolean send, gboolean posted_here, guint32 host)
{
  const gboolean forward = slot->pass == SC_PASS_FORWARD;
  const ScStreamKind stream = send ? (forward ? SC_STREAM_PP_SEND_F : SC_STREAM_PP_SEND_B)
                                   : (forward ? SC_STREAM_PP_RECV_F : SC_STREAM_PP_RECV_B);
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, forward ? SC_COMM_PP_FORWARD : SC_COMM_PP_BACKWARD, send);
  l->info = (ScOpInfo) { slot->microbatch, slot->chunk, SC_INFO_NO_LAYER, forward ? 0 : 1 };
  if (posted_here)
    put_order (l, SC_STREAM_COMPUTE, stream);
  put_call (l, stream, call_of (l, comm, SC_COLL_SEND, l->in->items->boundary_bytes),
            label (l, send ? (forward ? "send activations" : "send gradients") : (forward ? "receive activations" : "receive gradients")),
            host);
  const guint32 done = put_record (l, stream);
  put_mem (l, send ? stream : SC_STREAM_COMPUTE, SC_MEM_COMM, send ? -l->in->items->tensor_bytes : l->in->items->tensor_bytes);
  return done;
}

static void
host_wait (Lower *l, guint32 event)
{
  sc_program_add_op (l->p, SC_OP_HOST_WAIT, 0, 0, event, 0);
}

/* A boundary tensor that was sent in tp pieces is put together again. */
static void
put_boundary_gather (Lower *l, guint n)
{
  if (!l->plan->scatter_gather || l->plan->sequence_parallel || l->plan->tp == 1)
    return;
  const guint32 tp = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_TP, FALSE);
  for (guint i = 0; i < n; i++)
    put_call (l, SC_STREAM_COMPUTE, call_of (l, tp, SC_COLL_ALL_GATHER, l->in->items->boundary_bytes * l->plan->tp),
              label (l, "gather boundary"), issue_ns (l, SC_TIME_BACKWARD));
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
  if (!gathers_ahead (l) || l->plan->vpp == 1 || at >= a->n)
    return;
  const ScSlot *const then = a->forward[at];
  if (then->microbatch == 0 && then->chunk > 0 && then->chunk + 1u < l->plan->vpp)
    put_gathers (l, then->chunk + 1u, G_MAXUINT);
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
    put_reduce_chunk (l, chunk);
}

/* Runs @slot, between its receive buffer, which it takes over as its input, and its send buffer, which lives until it has
 * left. */
static void
put_slot (Lower *l, Aligned *aligned, const ScSlot *slot, gboolean last_backward)
{
  put_aligned_gather (l, aligned, slot);
  if (receives (l, slot))
    put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -l->in->items->tensor_bytes);
  if (slot->pass == SC_PASS_FORWARD)
    put_forward (l, slot);
  else
    put_backward (l, slot, last_backward);
  if (sends (l, slot))
    put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, l->in->items->tensor_bytes);
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
 * exchange, posted together; compute and, where the framework synchronises, the host wait for all of it. */
static void
put_exchange (Lower *l, const Aligned *aligned, Slots before, Slots after)
{
  const ScFramework *const fw = l->in->workload->framework;
  guint32 host = to_ns (fw->host_p2p_s * l->price->host_factor); /* once per exchange */
  guint32 event[4]; /* a step has at most a forward and a backward */
  guint n = 0, n_received = 0;
  g_assert (before.n <= 2 && after.n <= 2);
  for (guint i = 0; i < before.n; i++)
    if (sends (l, &before.slots[i]))
      {
        event[n++] = put_transfer (l, &before.slots[i], TRUE, TRUE, host);
        host = 0;
      }
  for (guint i = 0; i < after.n; i++)
    {
      ScSlot slot;
      if (!arrives (l, aligned, &after.slots[i], &slot))
        continue;
      event[n++] = put_transfer (l, &slot, FALSE, TRUE, host);
      host = 0;
      n_received++;
    }
  for (guint i = 0; i < n; i++)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, event[i]);
  for (guint i = 0; i < n && fw->host_p2p_s > 0; i++)
    host_wait (l, event[i]);
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
        put_slot (l, aligned, &step.slots[i], n + i == last[step.slots[i].chunk]);
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
  const guint32 host = to_ns (l->in->workload->framework->host_p2p_s * l->price->host_factor);
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
      put_slot (l, aligned, now, n - 1 == last[now->chunk]);
    }
  if (sends (l, &slots[n_slots - 1]))
    put_transfer (l, &slots[n_slots - 1], TRUE, TRUE, host);
}

static void
put_slots (Lower *l)
{
  const ScPlan *const p = l->plan;
  const ScSchedule *const schedule = sc_schedule_find (p->schedule);
  const ScScheduleShape shape = { p->pp, p->vpp, sc_workload_microbatches (l->in->workload), MAX (p->microbatch_group, 1) };
  g_autoptr (GArray) slots = g_array_new (FALSE, FALSE, sizeof (ScSlot));
  schedule->order (&shape, l->at.pp, slots);
  const ScSlot *const all = (const ScSlot *) (gconstpointer) slots->data;
  g_autofree guint *last = g_new0 (guint, p->vpp), *last_backward = g_new0 (guint, p->vpp);
  g_autofree const ScSlot **forward = g_new (const ScSlot *, slots->len), **backward = g_new (const ScSlot *, slots->len);
  Aligned aligned = { .forward = forward, .backward = backward, .last_backward = last_backward };
  guint n_forward = 0, n_backward = 0;
  for (guint n = 0; n < slots->len; n++)
    if (all[n].pass == SC_PASS_FORWARD)
      forward[n_forward++] = &all[n];
    else
      {
        last[all[n].chunk] = n;
        last_backward[all[n].chunk] = n_backward;
        backward[n_backward++] = &all[n];
      }
  aligned.n = n_forward;
  if (gathers_ahead (l)) /* the first bucket, or, of chunks, the first two */
    {
      put_gathers (l, 0, p->vpp > 1 ? G_MAXUINT : 1);
      if (p->vpp > 1)
        put_gathers (l, 1, G_MAXUINT);
    }
  if (p->overlap_p2p)
    put_overlapped_slots (l, &aligned, all, slots->len, last);
  else
    put_blocking_slots (l, &aligned, all, slots->len, last);
  l->info = (ScOpInfo) { SC_INFO_NO_MICROBATCH, 0, SC_INFO_NO_LAYER, 3 };
}

/* ---- the end of the step ---- */

/* Gradients that every tensor-parallel rank holds a partial sum of: norms (and biases behind row-parallel products) under
 * sequence parallelism (MODELLING 5.8). */
static double
replicated_grad_bytes (const Lower *l)
{
  const ScModel *const m = &l->in->workload->model;
  guint layers = 0;
  for (guint chunk = 0; chunk < l->plan->vpp; chunk++)
    layers += l->in->sizes->layers[chunk * l->plan->pp + l->at.pp];
  const double norm = (double) sc_model_norm_params (m), biases = m->linear_bias ? 2.0 * m->hidden : 0;
  const double final_norm = l->at.pp == l->plan->pp - 1 ? norm : 0;
  return (layers * (2 * norm + biases) + final_norm) * sc_dtype_bytes (l->plan->grad_dtype);
}

static void
put_finish (Lower *l)
{
  const ScWorkload *const w = l->in->workload;
  const ScLayout *const layout = l->in->layout;
  const guint32 host = issue_ns (l, SC_TIME_OPTIMIZER);
  for (guint i = 0; i < l->buckets->len; i++) /* what no backward has launched */
    put_reduce (l, &g_array_index (l->buckets, Bucket, i));
  for (guint i = 0; i < l->dp_done->len; i++)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, g_array_index (l->dp_done, guint32, i));
  const guint32 tp = sc_layout_comm_of (layout, l->rank, SC_COMM_TP, FALSE);
  if (l->plan->sequence_parallel && tp != SC_NONE && replicated_grad_bytes (l) > 0)
    put_call (l, SC_STREAM_COMPUTE, call_of (l, tp, SC_COLL_ALL_REDUCE, replicated_grad_bytes (l)), label (l, "norm gradients"), host);
  const guint32 embedding = sc_layout_comm_of (layout, l->rank, SC_COMM_EMBEDDING, FALSE);
  if (embedding != SC_NONE)
    put_call (l, SC_STREAM_COMPUTE,
              call_of (l, embedding, SC_COLL_ALL_REDUCE,
                       (double) w->model.vocab / l->plan->tp * w->model.hidden * sc_dtype_bytes (l->plan->grad_dtype)),
              label (l, "tied embedding gradients"), host);

  const double held = (double) l->in->sizes->params[l->at.pp];
  const double owned = is_sharded (l->plan) ? held / n_data_ranks (l->plan) : held;
  const ScLayerShape shape = sc_layer_shape (w);
  g_autoptr (GArray) items = item_list ();
  sc_optimizer_step (&shape, held, owned, items);
  Priced priced = price_list (l, items, l->price->device, l->price->speed, l->price->host_factor);
  const guint32 world = sc_layout_comm_of (layout, l->rank, SC_COMM_WORLD, FALSE);
  gboolean norm_known = world == SC_NONE;
  for (guint i = 0; i < priced.n; i++)
    {
      const PricedItem *const item = &priced.items[i];
      if (item->kind == SC_ITEM_MEM)
        put_mem (l, SC_STREAM_COMPUTE, (ScMemKind) item->time, (double) item->value);
      if (item->kind != SC_ITEM_KERNEL)
        continue;
      put_work (l, item);
      if (norm_known)
        continue;
      /* behind the first kernel, which sums this rank's gradients: the norm over all ranks, which the host reads */
      put_call (l, SC_STREAM_COMPUTE, call_of (l, world, SC_COLL_ALL_REDUCE, 4), label (l, "gradient norm"), host);
      if (w->framework->host_backward_s > 0)
        host_wait (l, put_record (l, SC_STREAM_COMPUTE));
      norm_known = TRUE;
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_s[g] += priced.grade_s[g];
  g_free (priced.items);
  if (is_sharded (l->plan) && !l->plan->overlap_param)
    for (guint i = l->buckets->len; i-- > 0;)
      put_gather_call (l, SC_STREAM_COMPUTE, &g_array_index (l->buckets, Bucket, i));
}

static void
put_states (Lower *l)
{
  const double held = (double) l->in->sizes->params[l->at.pp];
  const ScStateBytes each = sc_state_bytes_per_param (l->plan->dtype, l->plan->grad_dtype, l->plan->sharding, n_data_ranks (l->plan));
  put_mem (l, SC_STREAM_COMPUTE, SC_MEM_WEIGHTS, held * each.weights);
  put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, held * each.grads);
  put_mem (l, SC_STREAM_COMPUTE, SC_MEM_OPTIMIZER, held * each.optimizer);
}

static void
lower_class (Lower *l, guint32 class_id)
{
  const ScLowerInput *const in = l->in;
  l->class_id = class_id;
  l->rank = in->fold->representative[class_id];
  l->at = sc_layout_coord (l->plan, l->rank);
  const ScNodeType *const type = sc_fabric_node_type (in->fabric, l->rank);
  const guint index = price_index (l, type->device, in->fabric->gpus[l->rank].speed, type->host_factor.value);
  l->price = &g_array_index (l->prices, Prices, index);
  l->grade_s += class_id > 0 ? SC_N_GRADES : 0;
  l->hold = 1 - 1 / MAX (type->device->hidden_slowdown.value, 1);
  l->info = (ScOpInfo) { SC_INFO_NO_MICROBATCH, 0, SC_INFO_NO_LAYER, 3 };
  g_array_set_size (l->dp_done, 0);
  g_queue_clear (&l->started);

  sc_program_add_actor (l->p, SC_N_STREAMS, l->plan->one_queue);
  make_buckets (l);
  put_states (l);
  put_slots (l);
  put_finish (l);
}

double
sc_lower_estimate (const ScLowerInput *in)
{
  const ScStepItems *const s = in->items;
  const ScPlan *const p = &in->workload->plan;
  /* A start of a collective is four ops, most allocations hang on kernels; a boundary costs a dozen. */
  const double layer = s->layer_forward->len + s->layer_backward->len, boundary = 24;
  const double ends = s->embedding_forward->len + s->embedding_backward->len + s->head_forward->len + s->head_backward->len;
  double ops = 0;
  for (guint32 k = 0; k < in->fold->n_classes; k++)
    {
      const guint stage = sc_layout_coord (p, in->fold->representative[k]).pp;
      double each = (stage == 0 || stage == p->pp - 1) * ends;
      for (guint chunk = 0; chunk < p->vpp; chunk++)
        each += in->sizes->layers[chunk * p->pp + stage] * layer + boundary;
      ops += each * sc_workload_microbatches (in->workload);
    }
  return ops;
}

ScLowered *
sc_lower (const ScLowerInput *in)
{
  ScLowered *const ret = g_new0 (ScLowered, 1);
  const guint32 n_classes = in->fold->n_classes, n_families = in->fold->n_families;
  ret->program = sc_program_new ();
  ret->labels = g_ptr_array_new_with_free_func (g_free);
  ret->grade_s = g_new0 (double, n_classes * SC_N_GRADES);
  ret->messages = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_collective_messages_free);
  Lower l = { .in = in, .plan = &in->workload->plan, .p = ret->program, .labels = ret->labels,
              .label_ids = g_hash_table_new (g_str_hash, g_str_equal),
              .prices = g_array_new (FALSE, FALSE, sizeof (Prices)), .known = g_new0 (GArray *, MAX (n_families, 1)),
              .messages = ret->messages, .grade_s = ret->grade_s,
              .buckets = g_array_new (FALSE, FALSE, sizeof (Bucket)), .dp_done = g_array_new (FALSE, FALSE, sizeof (guint32)) };
  g_array_set_clear_func (l.prices, prices_clear);
  g_queue_init (&l.started);
  label (&l, ""); /* label 0: ops without a name */

  for (guint32 i = 0; i < in->fold->n_link_classes; i++)
    sc_program_add_link (l.p, 1);
  for (guint32 i = 0; i < n_families; i++)
    sc_program_add_group (l.p, MAX (in->fold->family_members[i], 1));
  g_array_append_vals (l.p->uses, in->fold->uses, in->fold->uses_first[n_families]);
  for (guint32 c = 0; c < n_classes; c++)
    {
      lower_class (&l, c);
      if (c == 0) /* the others are about as long */
        sc_program_reserve (l.p, (guint32) MIN ((guint64) l.p->ops->len * n_classes * 21 / 20, SC_NONE / 2));
    }

  for (guint32 i = 0; i < n_families; i++)
    g_clear_pointer (&l.known[i], g_array_unref);
  g_free (l.known);
  g_array_unref (l.prices);
  g_array_unref (l.buckets);
  g_array_unref (l.dp_done);
  g_queue_clear (&l.started);
  g_hash_table_unref (l.label_ids);
  return ret;
}

void
sc_lowered_free (ScLowered *l)
{
  if (l == NULL)
    return;
  sc_program_free (l->program);
  g_clear_pointer (&l->labels, g_ptr_array_unref);
  g_free (l->grade_s);
  g_ptr_array_unref (l->messages);
  g_free (l);
}
