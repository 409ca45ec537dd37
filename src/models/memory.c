/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory.c - the curve's peak and the layers around it. */
#include "models/memory.h"
#include <stdlib.h>

typedef struct
{
  ScTime  time;
  gint64  bytes;
  guint32 op;
} Change;

/* By time; at one instant frees before allocations, then program order. */
static int
compare_changes (gconstpointer a, gconstpointer b)
{
  const Change *const x = a, *const y = b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if ((x->bytes < 0) != (y->bytes < 0))
    return x->bytes < 0 ? -1 : 1;
  return (x->op > y->op) - (x->op < y->op);
}

/* The changes of one stream are in order of time already: the streams are merged two by two. */
static GArray *
merge (GArray *a, GArray *b)
{
  GArray *const out = g_array_sized_new (FALSE, FALSE, sizeof (Change), a->len + b->len);
  guint i = 0, j = 0;
  while (i < a->len || j < b->len)
    {
      const gboolean first = j == b->len
                             || (i < a->len && compare_changes (&g_array_index (a, Change, i), &g_array_index (b, Change, j)) < 0);
      const Change next = first ? g_array_index (a, Change, i++) : g_array_index (b, Change, j++);
      g_array_append_val (out, next);
    }
  g_array_unref (a);
  g_array_unref (b);
  return out;
}

/* Changes of one stream.  Those of one instant stand in program order: put frees first there. */
static GArray *
stream_changes (const ScProgram *program, const ScTrace *trace, guint32 stream)
{
  const ScOp *const ops = (const ScOp *) (gconstpointer) program->ops->data;
  GArray *const out = g_array_new (FALSE, FALSE, sizeof (Change));
  guint instant = 0; /* first change of the current instant */
  for (guint32 i = g_array_index (program->stream_first, guint32, stream); i != SC_NONE; i = ops[i].next)
    {
      if (ops[i].kind != SC_OP_MEM)
        continue;
      const Change c = { trace->spans[i].start, ops[i].value, i };
      if (out->len > 0 && g_array_index (out, Change, out->len - 1).time != c.time)
        {
          if (out->len - instant > 1)
            qsort (&g_array_index (out, Change, instant), out->len - instant, sizeof (Change), compare_changes);
          instant = out->len;
        }
      g_array_append_val (out, c);
    }
  if (out->len - instant > 1)
    qsort (&g_array_index (out, Change, instant), out->len - instant, sizeof (Change), compare_changes);
  return out;
}

ScMemPeak
sc_memory_peak (const ScProgram *program, const ScTrace *trace, guint32 actor)
{
  const ScActor *const a = &g_array_index (program->actors, ScActor, actor);
  const ScOp *const ops = (const ScOp *) (gconstpointer) program->ops->data;
  g_autoptr (GArray) changes = stream_changes (program, trace, a->first_stream);
  for (guint32 s = 1; s < a->n_streams; s++)
    {
      GArray *const more = stream_changes (program, trace, a->first_stream + s);
      if (more->len > 0)
        changes = merge (changes, more);
      else
        g_array_unref (more);
    }

  ScMemPeak peak = { .op = SC_NONE };
  gint64 now = 0, by_kind[SC_N_MEMS] = { 0 };
  guint at = 0; /* changes up to here make the peak */
  for (guint i = 0; i < changes->len; i++)
    {
      now += g_array_index (changes, Change, i).bytes;
      if (now <= (gint64) peak.bytes)
        continue;
      peak.bytes = (guint64) now;
      at = i + 1;
    }
  for (guint i = 0; i < at; i++)
    {
      const Change *const c = &g_array_index (changes, Change, i);
      by_kind[ops[c->op].tag] += c->bytes;
      peak.time = c->time;
      peak.op = c->op;
    }
  for (guint k = 0; k < SC_N_MEMS; k++)
    peak.by_kind[k] = (guint64) MAX (by_kind[k], 0);
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

guint64
sc_memory_nccl (const ScLayout *layout, const ScFabric *fabric, guint32 rank)
{
  guint64 channels = 0;
  for (guint32 i = layout->rank_first[rank]; i < layout->rank_first[rank + 1]; i++)
    {
      const ScComm *const c = &layout->comms[layout->of_rank[i]];
      const guint32 *const m = layout->members + c->first;
      const gboolean inside = fabric->domain[fabric->gpus[m[0]].node] == fabric->domain[fabric->gpus[m[c->n - 1]].node];
      channels += c->n == 2 && c->kind != SC_COMM_DP && c->kind != SC_COMM_TP ? NCCL_CHANNELS_P2P
                  : inside                                                     ? NCCL_CHANNELS_NVLINK
                                                                                : NCCL_CHANNELS_NET;
    }
  return channels * NCCL_CHANNEL_BYTES;
}

ScVerdict
sc_memory_verdict (guint64 device_bytes, guint64 capacity, double margin)
{
  if (device_bytes > capacity)
    return SC_VERDICT_DOES_NOT_FIT;
  return (double) device_bytes > (double) capacity * (1 - margin) ? SC_VERDICT_AT_RISK : SC_VERDICT_FITS;
}
