/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory.c - the curve's peak and the layers around it. */
#include "models/memory.h"
#include "models/nccl.h"
#include <stdlib.h>

/* By time; at one instant frees before allocations, then program order. */
static int
compare_changes (gconstpointer a, gconstpointer b)
{
  const ScMemChange *const x = a, *const y = b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if ((x->bytes < 0) != (y->bytes < 0))
    return x->bytes < 0 ? -1 : 1;
  return x->op != y->op ? (x->op < y->op ? -1 : 1) : (int) x->kind - (int) y->kind;
}

/* Sorts the changes from @instant on, which are all of one time. */
static void
sort_instant (GArray *changes, guint instant)
{
  if (changes->len - instant > 1)
    qsort (&g_array_index (changes, ScMemChange, instant), changes->len - instant, sizeof (ScMemChange), compare_changes);
}

/* The changes of one stream stand in order of time already; within an instant frees go first. */
static GArray *
stream_changes (const ScProgram *program, const ScTrace *trace, const ScActor *actor, guint32 stream)
{
  const guint32 shift = sc_actor_shift (actor);
  const ScOp *const ops = (const ScOp *) (gconstpointer) program->ops->data;
  GArray *const out = g_array_new (FALSE, FALSE, sizeof (ScMemChange));
  guint instant = 0; /* first change of the current instant */
  for (guint32 i = g_array_index (program->stream_first, guint32, stream); i != SC_NONE; i = ops[i].next)
    {
      const gboolean set = ops[i].kind == SC_OP_WORK && ops[i].arg != SC_NONE;
      if (!set && ops[i].kind != SC_OP_MEM)
        continue;
      const ScTime time = trace->spans[i + shift].start;
      if (out->len > 0 && g_array_index (out, ScMemChange, out->len - 1).time != time)
        {
          sort_instant (out, instant);
          instant = out->len;
        }
      const guint32 first = set ? g_array_index (program->mem_sets, guint32, ops[i].arg) : 0;
      const guint32 end = set ? g_array_index (program->mem_sets, guint32, ops[i].arg + 1) : 1;
      for (guint32 k = first; k < end; k++)
        {
          const ScMemDelta *const d = &g_array_index (program->mem_deltas, ScMemDelta, k);
          const ScMemChange c = set ? (ScMemChange) { time, d->bytes, (ScMemKind) d->tag, i + shift }
                                    : (ScMemChange) { time, ops[i].value, (ScMemKind) ops[i].tag, i + shift };
          g_array_append_val (out, c);
        }
    }
  sort_instant (out, instant);
  return out;
}

static GArray *
merge (GArray *a, GArray *b)
{
  GArray *const out = g_array_sized_new (FALSE, FALSE, sizeof (ScMemChange), a->len + b->len);
  guint i = 0, j = 0;
  while (i < a->len || j < b->len)
    {
      const gboolean first = j == b->len
                             || (i < a->len
                                 && compare_changes (&g_array_index (a, ScMemChange, i), &g_array_index (b, ScMemChange, j)) < 0);
      const ScMemChange next = first ? g_array_index (a, ScMemChange, i++) : g_array_index (b, ScMemChange, j++);
      g_array_append_val (out, next);
    }
  g_array_unref (a);
  g_array_unref (b);
  return out;
}

GArray *
sc_memory_changes (const ScProgram *program, const ScTrace *trace, guint32 actor)
{
  const ScActor *const a = &g_array_index (program->actors, ScActor, actor);
  GArray *changes = stream_changes (program, trace, a, a->first_stream);
  for (guint32 s = 1; s < a->n_streams; s++)
    {
      GArray *const more = stream_changes (program, trace, a, a->first_stream + s);
      if (more->len > 0)
        changes = merge (changes, more);
      else
        g_array_unref (more);
    }
  return changes;
}

/* ---- the peak: instant by instant, without a list ---- */

/* The next op of a stream that changes memory. */
typedef struct
{
  guint32 op;   /* as stored, or SC_NONE */
  ScTime  time;
} Cursor;

static inline gboolean
changes_memory (const ScOp *op)
{
  return op->kind == SC_OP_MEM || (op->kind == SC_OP_WORK && op->arg != SC_NONE);
}

/* Moves @c on to the first such op from @op on. */
static void
cursor_seek (Cursor *c, const ScOp *ops, const ScSpan *spans, guint32 op)
{
  while (op != SC_NONE && !changes_memory (&ops[op]))
    op = ops[op].next;
  c->op = op;
  c->time = op != SC_NONE ? spans[op].start : 0;
}

typedef struct
{
  gint64  now, by_kind[SC_N_MEMS];
  guint32 last; /* of the ops that allocate in this instant, the last in program order */
} Level;

static void
level_change (Level *level, gint64 bytes, guint kind, guint32 op)
{
  level->now += bytes;
  level->by_kind[kind] += bytes;
  if (bytes > 0 && (level->last == SC_NONE || op > level->last))
    level->last = op;
}

static void
level_apply (Level *level, const ScProgram *p, guint32 op)
{
  const ScOp *const o = &g_array_index (p->ops, ScOp, op);
  if (o->kind == SC_OP_MEM)
    {
      level_change (level, o->value, o->tag, op);
      return;
    }
  const guint32 end = g_array_index (p->mem_sets, guint32, o->arg + 1);
  for (guint32 k = g_array_index (p->mem_sets, guint32, o->arg); k < end; k++)
    {
      const ScMemDelta *const d = &g_array_index (p->mem_deltas, ScMemDelta, k);
      level_change (level, d->bytes, d->tag, op);
    }
}

/* Within an instant frees go first, so that its highest point is its end, which the last allocation reaches. */
ScMemPeak
sc_memory_peak (const ScProgram *program, const ScTrace *trace, guint32 actor)
{
  const ScActor *const a = &g_array_index (program->actors, ScActor, actor);
  const ScOp *const ops = (const ScOp *) (gconstpointer) program->ops->data;
  const guint32 shift = sc_actor_shift (a);
  const ScSpan *const spans = trace->spans + shift; /* of stored ops: none of them stands behind its id */
  Cursor cursors[G_MAXUINT8];
  guint n = 0;
  for (guint32 s = 0; s < a->n_streams; s++)
    {
      cursor_seek (&cursors[n], ops, spans, g_array_index (program->stream_first, guint32, a->first_stream + s));
      n += cursors[n].op != SC_NONE;
    }
  ScMemPeak peak = { .op = SC_NONE };
  Level level = { 0 };
  while (n > 0)
    {
      ScTime now = cursors[0].time;
      for (guint i = 1; i < n; i++)
        now = MIN (now, cursors[i].time);
      level.last = SC_NONE;
      for (guint i = n; i-- > 0;)
        {
          Cursor *const c = &cursors[i];
          for (; c->op != SC_NONE && c->time == now; cursor_seek (c, ops, spans, ops[c->op].next))
            level_apply (&level, program, c->op);
          if (c->op == SC_NONE)
            *c = cursors[--n];
        }
      if (level.now <= (gint64) peak.bytes)
        continue;
      peak = (ScMemPeak) { .bytes = (guint64) level.now, .time = now, .op = level.last + shift };
      for (guint k = 0; k < SC_N_MEMS; k++)
        peak.by_kind[k] = (guint64) MAX (level.by_kind[k], 0);
    }
  return peak;
}

#define ALLOCATOR_SLACK   0.03 /* free pieces inside segments, static shapes: 2 to 5 % (MODELLING 3.10) */
#define ALLOCATOR_SEGMENT (G_GUINT64_CONSTANT (2) << 20)

guint64
sc_memory_reserved (guint64 allocated)
{
  const guint64 held = allocated + (guint64) ((double) allocated * ALLOCATOR_SLACK);
  return (held + ALLOCATOR_SEGMENT - 1) / ALLOCATOR_SEGMENT * ALLOCATOR_SEGMENT;
}

/* Buffers of one channel to one peer: LL 0.5 MiB + LL128 4.69 MiB + Simple 4 MiB (NVIDIA/nccl src/include/device.h). */
#define NCCL_CHANNEL_BYTES (G_GUINT64_CONSTANT (524288) + 4915200 + 4194304)
#define NCCL_CHANNELS_NVLINK 16 /* of a communicator inside a node: 12 to 24 by GPU, assumed */
#define NCCL_CHANNELS_NET     4 /* of one that crosses nodes, per GPU, assumed */
#define NCCL_CHANNELS_P2P     2 /* of a pair */

/* Up to release 2.21 a communicator connects for every algorithm when it is made, in all of its channels; since then as calls need it
 * (NCCL_RUNTIME_CONNECT, release notes of 2.22).  Inside a node the tree is the ring without its end, used both ways: two peers to receive from.  To
 * others a ring sends and receives, and so does a tree with, in the mean, two peers; either way the network needs a buffer. */
#define NCCL_CONNECTS_LATE  2022
#define NCCL_PEERS_INSIDE   2u
#define NCCL_BUFFERS_ACROSS (2 + 2 * 2)

/* How many times the buffers of one channel to one peer. */
static guint64
nccl_buffers (const ScComm *c, gboolean inside, const ScLibrary *library)
{
  const gboolean early = library->version != NULL && sc_nccl_version_number (library->version) < NCCL_CONNECTS_LATE;
  if (c->n == 2 && c->kind != SC_COMM_DP && c->kind != SC_COMM_TP)
    return NCCL_CHANNELS_P2P;
  if (!early)
    return inside ? NCCL_CHANNELS_NVLINK : NCCL_CHANNELS_NET;
  return inside ? (guint64) sc_nccl_channels (library) * MIN (c->n - 1, NCCL_PEERS_INSIDE) : NCCL_CHANNELS_NET * NCCL_BUFFERS_ACROSS;
}

guint64
sc_memory_nccl (const ScLayout *layout, const ScFabric *fabric, guint32 rank)
{
  const ScLibrary library = sc_nccl_library (fabric, rank);
  guint64 buffers = 0;
  for (guint32 i = layout->rank_first[rank]; i < layout->rank_first[rank + 1]; i++)
    {
      const ScComm *const c = &layout->comms[layout->of_rank[i]];
      const guint32 *const m = layout->members + c->first;
      const gboolean inside = fabric->domain[fabric->gpus[m[0]].node] == fabric->domain[fabric->gpus[m[c->n - 1]].node];
      buffers += nccl_buffers (c, inside, &library);
    }
  return buffers * NCCL_CHANNEL_BYTES;
}

/* nanotron's ParallelContext makes groups of all ranks, on which it waits and broadcasts, and of a model's (src/nanotron/parallel/context.py), over which norms are summed. */
static guint64
nccl_model_groups (const ScPlan *p, const ScFabric *fabric, guint32 rank, const ScLibrary *library)
{
  const guint32 node = fabric->gpus[rank].node, ranks[] = { p->gpus, p->tp * p->pp };
  guint32 inside = 0; /* ranks of this node's domain */
  for (guint32 i = 0; i < fabric->n_gpus; i++)
    inside += fabric->domain[fabric->gpus[i].node] == fabric->domain[node] ? 1 : 0;
  guint64 buffers = 0;
  for (guint i = 0; i < G_N_ELEMENTS (ranks); i++)
    {
      const ScComm group = { .kind = SC_COMM_DP, .n = ranks[i] };
      buffers += ranks[i] > 1 ? nccl_buffers (&group, ranks[i] <= inside, library) : 0;
    }
  return buffers;
}

/* PipelineParallelGrid (deepspeed/runtime/pipe/topology.py) makes groups of its own: of the tensor-parallel ranks ("slice", to part boundary
 * tensors), of a pipeline's, and of a model's, which agree on overflows and norms. */
guint64
sc_memory_nccl_grid (const ScWorkload *workload, const ScFabric *fabric, guint32 rank)
{
  const ScPlan *const p = &workload->plan;
  const ScLibrary library = sc_nccl_library (fabric, rank);
  const ScComm groups[] = { { .kind = SC_COMM_TP, .n = p->tp }, { .kind = SC_COMM_DP, .n = p->pp }, { .kind = SC_COMM_DP, .n = p->tp * p->pp } };
  guint64 buffers = 0;
  for (guint i = 0; i < (workload->framework->pipeline_engine && p->pp > 1 ? G_N_ELEMENTS (groups) : 0); i++)
    buffers += groups[i].n > 1 ? nccl_buffers (&groups[i], groups[i].kind == SC_COMM_TP, &library) : 0;
  buffers += workload->framework->model_groups ? nccl_model_groups (p, fabric, rank, &library) : 0;
  return buffers * NCCL_CHANNEL_BYTES;
}

ScVerdict
sc_memory_verdict (guint64 device_bytes, guint64 capacity, double margin)
{
  if (device_bytes > capacity)
    return SC_VERDICT_DOES_NOT_FIT;
  return (double) device_bytes > (double) capacity * (1 - margin) ? SC_VERDICT_AT_RISK : SC_VERDICT_FITS;
}
