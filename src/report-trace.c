/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-trace.c - the run as a Chrome trace.
 *
 * One process per class of ranks, one thread per stream.  What runs on the compute stream of the program but is not
 * compute (exposed collectives, waits) stands on threads of its own, so that a viewer shows communication as a
 * profiler's trace does.  Events are printed as they are made: a large run has millions of them. */
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
#include "models/memory.h"
#include "models/segments.h"
#include "output.h"
#include "report-trace.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

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

typedef struct
{
  FILE            *file;
  const ScSummary *summary;
  ScSegments      *segments;
  guint           *classes; /* [n_classes] that are written, by stage */
  guint            n_classes;
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

/* Ends the event that put_slice() began. */
static void
end_slice (Trace *t, const ScOpInfo *info)
{
  const char *separator = ",\"args\":{";
  if (info != NULL && info->microbatch != SC_INFO_NO_MICROBATCH)
    {
      fprintf (t->file, "%s\"microbatch\":%u,\"chunk\":%u", separator, info->microbatch, info->chunk);
      separator = ",";
    }
  if (info != NULL && info->layer != SC_INFO_NO_LAYER)
    {
      fprintf (t->file, "%s\"layer\":%u", separator, info->layer);
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

static gboolean
is_shown_wait (const ScSegment *segment)
{
  return segment->waiting && segment->kind != SC_TIME_HOST;
}

static void
put_class_names (Trace *t, guint order, guint class_id, const GArray *segments)
{
  const ScClassSummary *c = &t->summary->classes[class_id];
  const ScActor *actor = class_actor (t, class_id);
  gboolean used[N_TIDS] = { FALSE };
  for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
    {
      const ScOp o = sc_program_op (t->summary->program, actor, id);
      if (!op_is_shown (t, id, &o))
        continue;
      used[op_tid (t, &o)] = TRUE;
      if (o.kind == SC_OP_WORK && sc_info_unpack (o.info).microbatch != SC_INFO_NO_MICROBATCH)
        used[TID_BLOCKS] = TRUE;
    }
  for (guint i = 0; i < segments->len; i++)
    if (is_shown_wait (&g_array_index (segments, ScSegment, i)))
      used[TID_WAITS] = TRUE;

  g_autofree char *name = g_strdup_printf ("stage %u, rank %u%s node%03u/gpu%u", c->stage, c->representative,
                                           c->n_ranks > 1 ? " and alike," : ",", c->node, c->gpu);
  g_autofree char *label = g_strdup_printf ("%u rank%s%s%s", c->n_ranks, c->n_ranks == 1 ? "" : "s",
                                            c->device != NULL ? " of " : "", c->device != NULL ? c->device->name : "");
  put_meta (t, "process_name", c->representative, -1, "name", name, 0);
  put_meta (t, "process_labels", c->representative, -1, "labels", label, 0);
  put_meta (t, "process_sort_index", c->representative, -1, "sort_index", NULL, order);
  for (guint tid = 0; tid < N_TIDS; tid++)
    if (used[tid])
      {
        g_autofree char *thread = tid_name (tid);
        put_meta (t, "thread_name", c->representative, (int) tid, "name", thread, 0);
        put_meta (t, "thread_sort_index", c->representative, (int) tid, "sort_index", NULL, tid);
      }
}

static void
put_class_ops (Trace *t, guint class_id)
{
  const guint pid = t->summary->classes[class_id].representative;
  const ScActor *actor = class_actor (t, class_id);
  for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
    {
      const ScOp op = sc_program_op (t->summary->program, actor, id), *const o = &op;
      if (!op_is_shown (t, id, o))
        continue;
      const ScSpan *span = &t->summary->trace->spans[id];
      const ScTimeKind kind = op_kind (t, o);
      const ScOpInfo info = sc_info_unpack (o->info);
      const guint tid = op_tid (t, o);
      if (o->kind == SC_OP_WORK)
        {
          put_slice (t, op_name (t, o, kind), sc_time_kind_name (kind), pid, tid, span->start, span->end);
          end_slice (t, &info);
          continue;
        }
      const ScTime ready = CLAMP (sc_trace_ready (t->summary->trace, id, o), span->start, span->end);
      if (ready > span->start)
        {
          put_slice (t, "waits for peers", "wait", pid, tid, span->start, ready);
          end_slice (t, &info);
        }
      if (span->end > ready)
        {
          put_slice (t, op_name (t, o, kind), comm_category (kind), pid, tid, ready, span->end);
          end_slice (t, &info);
        }
    }
}

/* One slice per run of a micro-batch in one direction, and what the compute stream waits for. */
static void
put_class_blocks (Trace *t, guint class_id, const GArray *segments)
{
  const guint pid = t->summary->classes[class_id].representative;
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
          put_slice (t, block.phase == 0 ? "F" : block.phase == 3 ? "W" : "B", "block", pid, TID_BLOCKS, from, to);
          end_slice (t, &block);
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
      put_slice (t, sc_time_kind_label (s->kind), sc_time_kind_name (s->kind), pid, TID_WAITS, s->from, s->to);
      end_slice (t, NULL);
    }
}

static void
put_mib (FILE *file, gint64 bytes)
{
  const gint64 thousandths = (gint64) ((double) bytes / (1 << 20) * 1000 + (bytes < 0 ? -0.5 : 0.5));
  fprintf (file, "%s%" G_GINT64_FORMAT ".%03d", thousandths < 0 ? "-" : "", ABS (thousandths) / 1000,
           (int) (ABS (thousandths) % 1000));
}

/* Counters at each instant at which memory changes, by kind and in sum (viewers do not stack them). */
static void
put_class_memory (Trace *t, guint class_id)
{
  const guint pid = t->summary->classes[class_id].representative;
  g_autoptr (GArray) changes = sc_memory_changes (t->summary->program, t->summary->trace, class_id);
  gboolean used[SC_N_MEMS] = { FALSE };
  for (guint i = 0; i < changes->len; i++)
    used[g_array_index (changes, ScMemChange, i).kind] = TRUE;
  gint64 now[SC_N_MEMS] = { 0 };
  for (guint i = 0; i < changes->len; i++)
    {
      const ScMemChange *change = &g_array_index (changes, ScMemChange, i);
      now[change->kind] += change->bytes;
      if (i + 1 < changes->len && to_ns (g_array_index (changes, ScMemChange, i + 1).time) == to_ns (change->time))
        continue;
      begin_event (t);
      fprintf (t->file, "{\"name\":\"memory (MiB)\",\"ph\":\"C\",\"pid\":%u,\"ts\":", pid);
      put_us (t->file, to_ns (change->time));
      fputs (",\"args\":{\"total\":", t->file);
      gint64 total = 0;
      for (ScMemKind k = 0; k < SC_N_MEMS; k++)
        total += now[k];
      put_mib (t->file, total);
      for (ScMemKind k = 0; k < SC_N_MEMS; k++)
        if (used[k])
          {
            fprintf (t->file, ",\"%s\":", sc_mem_kind_name (k));
            put_mib (t->file, now[k]);
          }
      fputs ("}}", t->file);
    }
}

/* ---- Arrows from sends to receives ---- */

/* One end of a transfer.  A call may stand for many transfers: members meet in the order in which each makes them, so a
 * transfer is the call and how often the class had made it before. */
typedef struct
{
  guint32 call, turn, op;
  guint   class_id;
} FlowEnd;

static int
compare_flow_ends (gconstpointer a, gconstpointer b)
{
  const FlowEnd *x = a, *y = b;
  if (x->call != y->call)
    return x->call < y->call ? -1 : 1;
  return x->turn < y->turn ? -1 : x->turn > y->turn;
}

/* The ends of all transfers, sorted. */
static void
collect_flow_ends (const Trace *t, GArray *sends, GArray *receives)
{
  const ScProgram *p = t->summary->program;
  typedef struct { guint class_order, n; } Turn;
  g_autofree Turn *turns = g_new0 (Turn, MAX (p->calls->len, 1)); /* of the class that made the call last */
  for (guint i = 0; i < t->n_classes; i++)
    {
      const ScActor *actor = class_actor (t, t->classes[i]);
      for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
        {
          const ScOp op = sc_program_op (p, actor, id), *const o = &op;
          const gboolean sends_it = o->stream == SC_STREAM_PP_SEND_F || o->stream == SC_STREAM_PP_SEND_B;
          const gboolean receives_it = o->stream == SC_STREAM_PP_RECV_F || o->stream == SC_STREAM_PP_RECV_B;
          if (o->kind != SC_OP_CALL || !(sends_it || receives_it))
            continue;
          Turn *const turn = &turns[o->arg];
          if (turn->class_order != i + 1)
            *turn = (Turn) { i + 1, 0 };
          const FlowEnd end = { o->arg, turn->n++, id, t->classes[i] };
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
           *phase == 'f' ? ",\"bp\":\"e\"" : "", id, t->summary->classes[end->class_id].representative,
           op_tid (t, op));
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
      const ScOp from = sc_program_op (t->summary->program, class_actor (t, send->class_id), send->op);
      const ScOp to = sc_program_op (t->summary->program, class_actor (t, receive->class_id), receive->op);
      const ScTime ready = sc_trace_ready (trace, receive->op, &to);
      put_flow_end (t, "s", id, send, &from, sc_trace_ready (trace, send->op, &from));
      put_flow_end (t, "f", id++, receive, &to, ready + (trace->spans[receive->op].end - ready) / 2);
    }
}

/* ---- The file ---- */

/* One class of each stage first (the one that finishes last; of more stages than fit, evenly spread with both ends),
 * then the others in order, as many as fit. */
static void
choose_classes (Trace *t)
{
  const ScSummary *s = t->summary;
  g_autofree gboolean *chosen = g_new0 (gboolean, MAX (s->n_classes, 1));
  guint left = MIN (s->n_classes, SC_TRACE_MAX_CLASSES);
  t->n_classes = left;
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
  t->classes = g_new (guint, MAX (t->n_classes, 1));
  guint n = 0, last_stage = 0;
  for (guint i = 0; i < s->n_classes; i++)
    last_stage = MAX (last_stage, s->classes[i].stage);
  for (guint stage = 0; stage <= last_stage; stage++)
    for (guint i = 0; i < s->n_classes; i++)
      if (chosen[i] && s->classes[i].stage == stage)
        t->classes[n++] = i;
}

static void
put_all (Trace *t)
{
  const ScSummary *s = t->summary;
  fputs ("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"stepcast " PACKAGE_VERSION "\"", t->file);
  if (s->workload != NULL && s->topology != NULL)
    {
      fputs (",\"workload\":", t->file);
      put_string (t->file, s->workload->name);
      fputs (",\"topology\":", t->file);
      put_string (t->file, s->topology->name);
    }
  fprintf (t->file, ",\"classes\":%u,\"classes_written\":%u", s->n_classes, t->n_classes);
  if (t->n_classes < s->n_classes)
    fprintf (t->file, ",\"note\":\"%u of %u classes of ranks: one of each stage first\"", t->n_classes, s->n_classes);
  fputs ("},\"traceEvents\":[", t->file);
  g_autoptr (GPtrArray) segments = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  for (guint i = 0; i < t->n_classes; i++)
    {
      g_ptr_array_add (segments, sc_segments_of_class (t->segments, t->classes[i]));
      put_class_names (t, i, t->classes[i], g_ptr_array_index (segments, i));
    }
  for (guint i = 0; i < t->n_classes; i++)
    {
      put_class_blocks (t, t->classes[i], g_ptr_array_index (segments, i));
      put_class_ops (t, t->classes[i]);
      put_class_memory (t, t->classes[i]);
    }
  put_flows (t);
  fputs ("\n]}\n", t->file);
}

gboolean
sc_trace_write (const ScSummary *summary, const char *path, GError **error)
{
  ScOutput *const output = sc_output_open (path, error);
  if (output == NULL)
    return FALSE;
  g_autoptr (ScSegments) segments = sc_segments_new (summary->program, summary->trace, summary->trace->end);
  Trace t = { .file = sc_output_file (output), .summary = summary, .segments = segments, .first = TRUE };
  choose_classes (&t);
  put_all (&t);
  g_free (t.classes);
  return sc_output_close (output, TRUE, error);
}
