/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-trace.c - the run as a Chrome trace, in the words of PyTorch's profiler.
 *
 * One process per rank (of each class of ranks the first, unless ranks are chosen), one thread per stream.  What runs on the compute stream of the
 * program but is not compute (exposed collectives, waits) stands on threads of its own, so that a viewer shows communication as a
 * profiler's trace does.  What a GPU runs is of category "kernel" and has device, stream and correlation, as Kineto writes them; collectives begin with
 * NCCL's name for its kernels, by which tools tell them.  Events are printed as they are made: a large run has millions of them. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd.h"
#include "gzip.h"
#include "models/layout.h"
#include "models/segments.h"
#include "models/summarise-memory.h"
#include "models/tape-play.h"
#include "output.h"
#include "report-trace.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define NCCL_KERNEL "ncclDevKernel: " /* what tools look for */

/* Threads of a process, in the order in which viewers show them. */
enum
{
  TID_BLOCKS, /* one slice per micro-batch and direction */
  TID_COMPUTE,
  TID_WAITS,
  TID_EXPOSED,                          /* + ScTimeKind */
  TID_STREAM = TID_EXPOSED + SC_N_TIMES, /* + ScStreamKind */
  N_TIDS = TID_STREAM + SC_N_STREAMS
};

/* A process. */
typedef struct
{
  guint   class_id, rank, node, gpu;
  guint   column; /* the same for all ranks of one pipeline */
  GArray *segments; /* ScSegment */
} Shown;

typedef struct
{
  FILE            *file;
  const ScSummary *summary;
  const ScTraceOptions *options;
  ScSegments      *segments;
  Shown           *shown;   /* [n] by stage, or as chosen */
  guint            n;
  gboolean         first;   /* no event yet */
} Trace;

static const ScActor *
class_actor (const Trace *t, guint class_id)
{
  return &g_array_index (t->summary->program->actors, ScActor, class_id);
}

/* ---- JSON, printed ---- */

static void
put_string (FILE *file, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  putc ('"', file);
  for (const char *c = valid; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      fprintf (file, "\\%c", *c);
    else if ((guchar) *c < 0x20)
      fprintf (file, "\\u%04x", (guint) (guchar) *c);
    else
      putc (*c, file);
  putc ('"', file);
}

/* Nanoseconds: both ends of an event are rounded by themselves, so that neighbours still touch and slices nest. */
static gint64
to_ns (ScTime t)
{
  return (t + 500) / 1000;
}

/* Microseconds with three decimals, whatever the locale. */
static void
put_us (FILE *file, gint64 ns)
{
  fprintf (file, "%" G_GINT64_FORMAT ".%03d", ns / 1000, (int) (ns % 1000));
}

static void
begin_event (Trace *t)
{
  fputs (t->first ? "\n" : ",\n", t->file);
  t->first = FALSE;
}

static void
put_meta (Trace *t, const char *name, guint pid, int tid, const char *key, const char *value, guint number)
{
  begin_event (t);
  fprintf (t->file, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%u,", name, pid);
  if (tid >= 0)
    fprintf (t->file, "\"tid\":%d,", tid);
  fprintf (t->file, "\"args\":{\"%s\":", key);
  if (value != NULL)
    put_string (t->file, value);
  else
    fprintf (t->file, "%u", number);
  fputs ("}}", t->file);
}

static void
put_slice (Trace *t, const char *name, const char *category, guint pid, guint tid, ScTime from, ScTime to)
{
  begin_event (t);
  fputs ("{\"name\":", t->file);
  put_string (t->file, name);
  fprintf (t->file, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":", category, pid, tid);
  put_us (t->file, to_ns (from));
  fputs (",\"dur\":", t->file);
  put_us (t->file, to_ns (to) - to_ns (from));
}

/* What else an event says of itself: of what GPUs run, where; @category: of time, or NULL. */
typedef struct
{
  const ScOpInfo *info;
  const char *category;
  gboolean on_gpu;
  guint device, stream;
  guint32 correlation;
} Details;

/* Ends the event that put_slice() began. */
static void
end_slice (Trace *t, const Details *d)
{
  const char *separator = ",\"args\":{";
  if (d->on_gpu)
    {
      fprintf (t->file, "%s\"device\":%u,\"stream\":%u,\"correlation\":%u", separator, d->device, d->stream, d->correlation);
      separator = ",";
    }
  if (d->category != NULL)
    {
      fprintf (t->file, "%s\"category\":\"%s\"", separator, d->category);
      separator = ",";
    }
  if (d->info != NULL && d->info->microbatch != SC_INFO_NO_MICROBATCH)
    {
      fprintf (t->file, "%s\"microbatch\":%u,\"chunk\":%u", separator, d->info->microbatch, d->info->chunk);
      separator = ",";
    }
  if (d->info != NULL && d->info->layer != SC_INFO_NO_LAYER)
    {
      fprintf (t->file, "%s\"layer\":%u", separator, d->info->layer);
      separator = ",";
    }
  fputs (*separator == ',' && separator[1] == '\0' ? "}}" : "}", t->file);
}

/* ---- Names ---- */

static const char *
comm_category (ScTimeKind kind)
{
  static const char *const categories[SC_N_TIMES] = {
    [SC_TIME_COMM_TP] = "tp", [SC_TIME_COMM_CP] = "cp", [SC_TIME_COMM_EP] = "ep",
    [SC_TIME_COMM_PP] = "pp", [SC_TIME_COMM_DP] = "dp",
  };
  return kind < SC_N_TIMES && categories[kind] != NULL ? categories[kind] : "comm";
}

static const char *
op_name (const Trace *t, const ScOp *op, ScTimeKind kind)
{
  const GPtrArray *labels = t->summary->labels;
  if (labels != NULL && op->label < labels->len && g_ptr_array_index (labels, op->label) != NULL)
    return g_ptr_array_index (labels, op->label);
  return sc_time_kind_label (kind);
}

/* The time category of @op: of its work, or of its call. */
static ScTimeKind
op_kind (const Trace *t, const ScOp *op)
{
  const guint tag = op->kind == SC_OP_CALL ? g_array_index (t->summary->program->calls, ScCall, op->arg).tag : op->tag;
  return tag < SC_N_TIMES ? (ScTimeKind) tag : SC_TIME_HOST;
}

static guint
op_tid (const Trace *t, const ScOp *op)
{
  if (op->stream != SC_STREAM_COMPUTE)
    return TID_STREAM + op->stream;
  return op->kind == SC_OP_CALL ? TID_EXPOSED + op_kind (t, op) : TID_COMPUTE;
}

static char *
tid_name (guint tid)
{
  if (tid == TID_BLOCKS)
    return g_strdup ("micro-batches");
  if (tid == TID_COMPUTE)
    return g_strdup ("compute");
  if (tid == TID_WAITS)
    return g_strdup ("compute waits for");
  if (tid < TID_STREAM)
    return g_strdup (sc_time_kind_label ((ScTimeKind) (tid - TID_EXPOSED)));
  return g_strdup (sc_stream_name ((ScStreamKind) (tid - TID_STREAM)));
}

/* ---- One class ---- */

/* TRUE if the op has a slice. */
static gboolean
op_is_shown (const Trace *t, guint32 id, const ScOp *o)
{
  const ScSpan *span = &t->summary->trace->spans[id];
  return (o->kind == SC_OP_WORK || o->kind == SC_OP_CALL) && o->stream < SC_N_STREAMS
         && span->start != SC_TIME_NONE && span->end > span->start;
}

/* Of passes only, what goes between ranks beside them. */
static gboolean
op_is_wanted (const Trace *t, const ScOp *o)
{
  return !t->options->passes || o->stream != SC_STREAM_COMPUTE;
}

static gboolean
is_shown_wait (const ScSegment *segment)
{
  return segment->waiting && segment->kind != SC_TIME_HOST;
}

static void
put_names (Trace *t, guint order)
{
  const Shown *const shown = &t->shown[order];
  const ScClassSummary *c = &t->summary->classes[shown->class_id];
  const ScActor *actor = class_actor (t, shown->class_id);
  gboolean used[N_TIDS] = { FALSE };
  for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
    {
      const ScOp o = sc_program_op (t->summary->program, actor, id);
      if (!op_is_shown (t, id, &o))
        continue;
      used[op_tid (t, &o)] |= op_is_wanted (t, &o);
      if (o.kind == SC_OP_WORK && sc_info_unpack (o.info).microbatch != SC_INFO_NO_MICROBATCH)
        used[TID_BLOCKS] = TRUE;
    }
  for (guint i = 0; i < shown->segments->len; i++)
    if (is_shown_wait (&g_array_index (shown->segments, ScSegment, i)))
      used[TID_WAITS] = TRUE;

  const gboolean alike = c->n_ranks > 1 && t->options->n_ranks == 0;
  g_autofree char *name = g_strdup_printf ("stage %u, rank %u%s node%03u/gpu%u", c->stage, shown->rank, alike ? " and alike," : ",", shown->node, shown->gpu);
  g_autofree char *label = g_strdup_printf ("%u rank%s%s%s", c->n_ranks, c->n_ranks == 1 ? "" : "s",
                                            c->device != NULL ? " of " : "", c->device != NULL ? c->device->name : "");
  put_meta (t, "process_name", shown->rank, -1, "name", name, 0);
  put_meta (t, "process_labels", shown->rank, -1, "labels", label, 0);
  put_meta (t, "process_sort_index", shown->rank, -1, "sort_index", NULL, order);
  for (guint tid = 0; tid < N_TIDS; tid++)
    if (used[tid])
      {
        g_autofree char *thread = tid_name (tid);
        put_meta (t, "thread_name", shown->rank, (int) tid, "name", thread, 0);
        put_meta (t, "thread_sort_index", shown->rank, (int) tid, "sort_index", NULL, tid);
      }
}

static void
put_ops (Trace *t, const Shown *shown)
{
  const ScActor *actor = class_actor (t, shown->class_id);
  for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
    {
      const ScOp op = sc_program_op (t->summary->program, actor, id), *const o = &op;
      if (!op_is_shown (t, id, o) || !op_is_wanted (t, o))
        continue;
      const ScSpan *span = &t->summary->trace->spans[id];
      const ScTimeKind kind = op_kind (t, o);
      const ScOpInfo info = sc_info_unpack (o->info);
      const guint tid = op_tid (t, o);
      Details details = { &info, sc_time_kind_name (kind), TRUE, shown->gpu, tid, id - actor->first_op + 1 };
      if (o->kind == SC_OP_WORK)
        {
          put_slice (t, op_name (t, o, kind), "kernel", shown->rank, tid, span->start, span->end);
          end_slice (t, &details);
          continue;
        }
      const ScTime ready = CLAMP (sc_trace_ready (t->summary->trace, id, o), span->start, span->end);
      if (ready > span->start)
        {
          put_slice (t, "waits for peers", "wait", shown->rank, tid, span->start, ready);
          end_slice (t, &(Details) { .info = &info });
        }
      if (span->end > ready)
        {
          g_autofree char *name = g_strconcat (NCCL_KERNEL, op_name (t, o, kind), NULL);
          details.category = comm_category (kind);
          put_slice (t, name, "kernel", shown->rank, tid, ready, span->end);
          end_slice (t, &details);
        }
    }
}

/* One slice per run of a micro-batch in one direction, and what the compute stream waits for. */
static void
put_blocks (Trace *t, const Shown *shown)
{
  const guint class_id = shown->class_id, pid = shown->rank;
  const GArray *const segments = shown->segments;
  ScTime from = 0, to = 0;
  ScOpInfo block = { .microbatch = SC_INFO_NO_MICROBATCH };
  for (guint i = 0; i <= segments->len; i++)
    {
      const ScSegment *s = i < segments->len ? &g_array_index (segments, ScSegment, i) : NULL;
      ScOpInfo info = { .microbatch = SC_INFO_NO_MICROBATCH };
      if (s != NULL)
        {
          if (s->waiting || s->op == SC_NONE)
            continue;
          const ScOp op = sc_program_op (t->summary->program, class_actor (t, class_id), s->op);
          if (op.kind != SC_OP_WORK)
            continue;
          info = sc_info_unpack (op.info);
          info.layer = SC_INFO_NO_LAYER;
          info.phase = s->kind == SC_TIME_FORWARD ? 0 : info.phase == 3 ? 3 : 1;
        }
      if (block.microbatch != SC_INFO_NO_MICROBATCH
          && (info.microbatch != block.microbatch || info.chunk != block.chunk || info.phase != block.phase))
        {
          put_slice (t, block.phase == 0 ? "F" : block.phase == 3 ? "W" : "B", "user_annotation", pid, TID_BLOCKS, from, to);
          end_slice (t, &(Details) { .info = &block });
          block.microbatch = SC_INFO_NO_MICROBATCH;
        }
      if (s == NULL || info.microbatch == SC_INFO_NO_MICROBATCH)
        continue;
      if (block.microbatch == SC_INFO_NO_MICROBATCH)
        from = s->from;
      block = info;
      to = s->to;
    }
  for (guint i = 0; i < segments->len; i++)
    {
      const ScSegment *s = &g_array_index (segments, ScSegment, i);
      if (!is_shown_wait (s))
        continue;
      put_slice (t, sc_time_kind_label (s->kind), "wait", pid, TID_WAITS, s->from, s->to);
      end_slice (t, &(Details) { .category = sc_time_kind_name (s->kind) });
    }
}

static void
put_mib (FILE *file, guint64 bytes)
{
  const guint64 thousandths = (guint64) ((double) bytes / (1 << 20) * 1000 + 0.5);
  fprintf (file, "%" G_GUINT64_FORMAT ".%03u", thousandths / 1000, (guint) (thousandths % 1000));
}

static void
put_level (Trace *t, guint pid, ScTime time, const ScTapePoint *point, const gboolean *used)
{
  begin_event (t);
  fprintf (t->file, "{\"name\":\"memory (MiB)\",\"ph\":\"C\",\"pid\":%u,\"ts\":", pid);
  put_us (t->file, to_ns (time));
  guint64 total = 0;
  for (guint k = 0; k < SC_N_MEMS; k++)
    total += point->highest[k];
  fputs (",\"args\":{\"allocated\":", t->file);
  put_mib (t->file, total);
  fputs (",\"reserved\":", t->file);
  put_mib (t->file, point->reserved);
  for (guint k = 0; k < SC_N_MEMS; k++)
    if (used[k])
      {
        fprintf (t->file, ",\"%s\":", sc_mem_kind_name ((ScMemKind) k));
        put_mib (t->file, point->highest[k]);
      }
  fputs ("}}", t->file);
}

static guint64
sum_of (const guint64 *by_kind)
{
  guint64 sum = 0;
  for (guint k = 0; k < SC_N_MEMS; k++)
    sum += by_kind[k];
  return sum;
}

/* Counters of what its stage's tape, played on the allocator, holds: at each instant the highest point up to the next one, by kind, and what is reserved (viewers do
 * not stack them). */
static void
put_memory (Trace *t, const Shown *shown)
{
  const ScSummary *const s = t->summary;
  const guint stage = s->classes[shown->class_id].stage;
  const ScTapePlay *const play = s->plays != NULL ? g_ptr_array_index (s->plays, stage) : NULL;
  if (play == NULL || play->curve == NULL || play->curve->len == 0)
    return;
  g_autofree ScTime *times = sc_memory_times (s, stage);
  gboolean used[SC_N_MEMS] = { FALSE };
  for (guint i = 0; i < play->curve->len; i++)
    for (guint k = 0; k < SC_N_MEMS; k++)
      used[k] |= g_array_index (play->curve, ScTapePoint, i).highest[k] > 0;
  ScTapePoint high = g_array_index (play->curve, ScTapePoint, 0);
  for (guint i = 0; i < play->curve->len; i++)
    {
      const ScTapePoint *const point = &g_array_index (play->curve, ScTapePoint, i);
      if (sum_of (point->highest) > sum_of (high.highest))
        memcpy (high.highest, point->highest, sizeof high.highest);
      high.reserved = MAX (high.reserved, point->reserved);
      const gboolean last = i + 1 == play->curve->len;
      if (!last && to_ns (times[g_array_index (play->curve, ScTapePoint, i + 1).entry]) == to_ns (times[point->entry]))
        continue;
      put_level (t, shown->rank, times[point->entry], &high, used);
      if (!last)
        high = g_array_index (play->curve, ScTapePoint, i + 1);
    }
}

/* ---- Arrows from sends to receives ---- */

/* One end of a transfer.  A call may stand for many transfers: members meet in the order in which each makes them, so a
 * transfer is the call, how often the class had made it before, and the pipeline. */
typedef struct
{
  guint32 call, turn, column, op;
  const Shown *shown;
} FlowEnd;

static int
compare_flow_ends (gconstpointer a, gconstpointer b)
{
  const FlowEnd *x = a, *y = b;
  if (x->call != y->call)
    return x->call < y->call ? -1 : 1;
  if (x->turn != y->turn)
    return x->turn < y->turn ? -1 : 1;
  return x->column < y->column ? -1 : x->column > y->column;
}

/* The ends of all transfers, sorted. */
static void
collect_flow_ends (const Trace *t, GArray *sends, GArray *receives)
{
  const ScProgram *p = t->summary->program;
  typedef struct { guint order, n; } Turn;
  g_autofree Turn *turns = g_new0 (Turn, MAX (p->calls->len, 1)); /* of the one that made the call last */
  for (guint i = 0; i < t->n; i++)
    {
      const Shown *const shown = &t->shown[i];
      const ScActor *actor = class_actor (t, shown->class_id);
      for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
        {
          const ScOp op = sc_program_op (p, actor, id), *const o = &op;
          const gboolean sends_it = o->stream == SC_STREAM_PP_SEND_F || o->stream == SC_STREAM_PP_SEND_B;
          const gboolean receives_it = o->stream == SC_STREAM_PP_RECV_F || o->stream == SC_STREAM_PP_RECV_B;
          if (o->kind != SC_OP_CALL || !(sends_it || receives_it))
            continue;
          Turn *const turn = &turns[o->arg];
          if (turn->order != i + 1)
            *turn = (Turn) { i + 1, 0 };
          const FlowEnd end = { o->arg, turn->n++, shown->column, id, shown };
          if (op_is_shown (t, id, o) && sc_trace_ready (t->summary->trace, id, o) < t->summary->trace->spans[id].end)
            g_array_append_val (sends_it ? sends : receives, end);
        }
    }
  g_array_sort (sends, compare_flow_ends);
  g_array_sort (receives, compare_flow_ends);
}

static void
put_flow_end (Trace *t, const char *phase, guint id, const FlowEnd *end, const ScOp *op, ScTime at)
{
  begin_event (t);
  fprintf (t->file, "{\"name\":\"send\",\"cat\":\"pp\",\"ph\":\"%s\"%s,\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":", phase,
           *phase == 'f' ? ",\"bp\":\"e\"" : "", id, end->shown->rank, op_tid (t, op));
  put_us (t->file, to_ns (at));
  fputs ("}", t->file);
}

static void
put_flows (Trace *t)
{
  const ScTrace *trace = t->summary->trace;
  g_autoptr (GArray) sends = g_array_new (FALSE, FALSE, sizeof (FlowEnd));
  g_autoptr (GArray) receives = g_array_new (FALSE, FALSE, sizeof (FlowEnd));
  collect_flow_ends (t, sends, receives);
  for (guint s = 0, r = 0, id = 0; s < sends->len && r < receives->len;)
    {
      const FlowEnd *send = &g_array_index (sends, FlowEnd, s), *receive = &g_array_index (receives, FlowEnd, r);
      const int order = compare_flow_ends (send, receive);
      s += order <= 0;
      r += order >= 0;
      if (order != 0)
        continue;
      /* Inside of both slices, as viewers ask for. */
      const ScOp from = sc_program_op (t->summary->program, class_actor (t, send->shown->class_id), send->op);
      const ScOp to = sc_program_op (t->summary->program, class_actor (t, receive->shown->class_id), receive->op);
      const ScTime ready = sc_trace_ready (trace, receive->op, &to);
      put_flow_end (t, "s", id, send, &from, sc_trace_ready (trace, send->op, &from));
      put_flow_end (t, "f", id++, receive, &to, ready + (trace->spans[receive->op].end - ready) / 2);
    }
}

/* ---- The file ---- */

static Shown
shown_class (const ScSummary *s, guint class_id)
{
  const ScClassSummary *const c = &s->classes[class_id];
  return (Shown) { .class_id = class_id, .rank = c->representative, .node = c->node, .gpu = c->gpu };
}

/* One class of each stage first (the one that finishes last; of more stages than fit, evenly spread with both ends),
 * then the others in order, as many as fit. */
static void
choose_classes (Trace *t)
{
  const ScSummary *s = t->summary;
  g_autofree gboolean *chosen = g_new0 (gboolean, MAX (s->n_classes, 1));
  guint left = MIN (s->n_classes, SC_TRACE_MAX_CLASSES), last_stage = 0;
  t->shown = g_new0 (Shown, MAX (left, 1));
  const guint stages = MIN (s->n_stages, left);
  for (guint i = 0; i < stages; i++)
    {
      const guint stage = stages > 1 ? (guint) ((guint64) i * (s->n_stages - 1) / (stages - 1)) : 0;
      left -= !chosen[s->stages[stage].class_id];
      chosen[s->stages[stage].class_id] = TRUE;
    }
  for (guint i = 0; i < s->n_classes && left > 0; i++)
    {
      left -= !chosen[i];
      chosen[i] = TRUE;
    }
  for (guint i = 0; i < s->n_classes; i++)
    last_stage = MAX (last_stage, s->classes[i].stage);
  for (guint stage = 0; stage <= last_stage; stage++)
    for (guint i = 0; i < s->n_classes; i++)
      if (chosen[i] && s->classes[i].stage == stage)
        t->shown[t->n++] = shown_class (s, i);
}

/* The first rank of the pipeline that @rank is part of. */
static guint
column_of (const ScSummary *s, guint rank)
{
  ScCoord at = sc_layout_coord (&s->workload->plan, rank);
  at.pp = 0;
  return sc_layout_rank (&s->workload->plan, at);
}

static void
choose_ranks (Trace *t)
{
  t->shown = g_new0 (Shown, t->options->n_ranks);
  for (; t->n < t->options->n_ranks; t->n++)
    {
      const guint rank = t->options->ranks[t->n];
      const ScRankPlace *const place = &t->summary->ranks[rank];
      t->shown[t->n] = (Shown) { .class_id = place->class_id, .rank = rank, .node = place->node, .gpu = place->gpu, .column = column_of (t->summary, rank) };
    }
}

/* What Kineto says of the machine and the job: tools that look at many ranks take one file of each. */
static void
put_machine (Trace *t)
{
  const ScSummary *const s = t->summary;
  const ScDevice *const device = s->classes[t->shown[0].class_id].device;
  fputs ("\"schemaVersion\":1,\"deviceProperties\":[", t->file);
  if (device != NULL)
    {
      fprintf (t->file, "{\"id\":%u,\"name\":", t->shown[0].gpu);
      put_string (t->file, device->name);
      fprintf (t->file, ",\"totalGlobalMem\":%.0f,\"numSms\":%.0f}", device->memory_bytes.value, device->sms.value);
    }
  fputs ("],", t->file);
  if (t->n == 1)
    fprintf (t->file, "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%u,\"world_size\":%u},", t->shown[0].rank, s->gpus);
}

static void
put_all (Trace *t)
{
  const ScSummary *s = t->summary;
  fputc ('{', t->file);
  put_machine (t);
  fputs ("\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"stepcast " PACKAGE_VERSION "\"", t->file);
  if (s->workload != NULL && s->topology != NULL)
    {
      fputs (",\"workload\":", t->file);
      put_string (t->file, s->workload->name);
      fputs (",\"topology\":", t->file);
      put_string (t->file, s->topology->name);
    }
  if (t->options->n_ranks == 0)
    fprintf (t->file, ",\"classes\":%u,\"classes_written\":%u", s->n_classes, t->n);
  if (t->options->n_ranks == 0 && t->n < s->n_classes)
    fprintf (t->file, ",\"note\":\"%u of %u classes of ranks: one of each stage first\"", t->n, s->n_classes);
  fputs ("},\"traceEvents\":[", t->file);
  for (guint i = 0; i < t->n; i++)
    {
      t->shown[i].segments = sc_segments_of_class (t->segments, t->shown[i].class_id);
      put_names (t, i);
    }
  for (guint i = 0; i < t->n; i++)
    {
      put_blocks (t, &t->shown[i]);
      put_ops (t, &t->shown[i]);
      put_memory (t, &t->shown[i]);
    }
  put_flows (t);
  fputs ("\n]}\n", t->file);
  for (guint i = 0; i < t->n; i++)
    g_array_unref (t->shown[i].segments);
}

/* To @to, compressed if @path says so; what is wrong with @to shows when it is closed. */
static gboolean
put_file (Trace *t, const char *path, FILE *to, GError **error)
{
  const gboolean compressed = g_str_has_suffix (path, ".gz");
  t->file = compressed ? sc_gzip_open (to) : to;
  if (t->file == NULL)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_IO, "%s: cannot write: %s", path, g_strerror (errno));
      return FALSE;
    }
  put_all (t);
  if (compressed && fclose (t->file) != 0 && ferror (to) == 0)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_IO, "%s: cannot compress: %s", path, g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

static gboolean
write_one (const ScSummary *summary, ScSegments *segments, const char *path, const ScTraceOptions *options, GError **error)
{
  ScOutput *const output = sc_output_open (path, error);
  if (output == NULL)
    return FALSE;
  Trace t = { .summary = summary, .options = options, .segments = segments, .first = TRUE };
  if (options->n_ranks > 0)
    choose_ranks (&t);
  else
    choose_classes (&t);
  const gboolean whole = put_file (&t, path, sc_output_file (output), error);
  g_free (t.shown);
  return sc_output_close (output, whole, whole ? error : NULL) && whole;
}

/* A file of each rank: those that were chosen, or the first of each class. */
static gboolean
write_each (const ScSummary *summary, ScSegments *segments, const char *path, const char *place, const ScTraceOptions *options, GError **error)
{
  const guint n = options->n_ranks > 0 ? options->n_ranks : summary->n_classes;
  for (guint i = 0; i < n; i++)
    {
      const guint32 rank = options->n_ranks > 0 ? options->ranks[i] : summary->classes[i].representative;
      const ScTraceOptions one = { .ranks = &rank, .n_ranks = 1, .passes = options->passes };
      g_autofree char *file = g_strdup_printf ("%.*s%u%s", (int) (place - path), path, rank, place + strlen (SC_TRACE_RANK));
      if (!write_one (summary, segments, file, &one, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sc_trace_write (const ScSummary *summary, const char *path, const ScTraceOptions *options, GError **error)
{
  static const ScTraceOptions defaults = { .n_ranks = 0 };
  g_autoptr (ScSegments) segments = sc_segments_new (summary->program, summary->trace, summary->trace->end);
  const char *const place = strstr (path, SC_TRACE_RANK);
  options = options != NULL ? options : &defaults;
  return place != NULL ? write_each (summary, segments, path, place, options, error) : write_one (summary, segments, path, options, error);
}
