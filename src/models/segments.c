/* SPDX-License-Identifier: GPL-3.0-or-later */
/* segments.c - what the compute stream of a class did at every instant of the step. */
#include "models/segments.h"

#define SEGMENTS_COMPUTE 0 /* the stream that is told of */

struct _ScSegments
{
  const ScProgram *program;
  const ScTrace   *trace;
  ScTime           step;
  guint32         *previous;    /* [stored ops] the op before it on its stream, or SC_NONE */
  guint32         *recorded_by; /* [n_events] the stored RECORD op, or SC_NONE */
  GArray          *stack;       /* guint32: ops of streams that stand behind one another */
};

/* Where segments go: into a list, or, by kind, into sums of what of them lies between two times. */
typedef struct
{
  GArray *list; /* ScSegment; or NULL: */
  ScTime *time; /* [SC_N_TIMES] */
  ScTime  begin, end;
} Sink;

/* An op is looked at where it is stored (program.h); `actor` says whose it is this time. */
static const ScOp *
segments_op (const ScSegments *s, guint32 op)
{
  return &g_array_index (s->program->ops, ScOp, op);
}

static const ScSpan *
segments_span (const ScSegments *s, const ScActor *actor, guint32 op)
{
  return &s->trace->spans[op + sc_actor_shift (actor)];
}

ScSegments *
sc_segments_new (const ScProgram *p, const ScTrace *trace, ScTime step)
{
  ScSegments *s = g_new0 (ScSegments, 1);
  s->program = p;
  s->trace = trace;
  s->step = step;
  s->previous = g_new (guint32, MAX (p->ops->len, 1));
  s->recorded_by = g_new (guint32, MAX (p->n_events, 1));
  s->stack = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint32 i = 0; i < p->ops->len; i++)
    s->previous[i] = SC_NONE;
  for (guint32 i = 0; i < p->n_events; i++)
    s->recorded_by[i] = SC_NONE;
  for (guint32 i = 0; i < p->ops->len; i++)
    {
      const ScOp *op = segments_op (s, i);
      if (op->next != SC_NONE)
        s->previous[op->next] = i;
      if (op->kind == SC_OP_RECORD)
        s->recorded_by[op->arg] = i;
    }
  return s;
}

void
sc_segments_free (ScSegments *s)
{
  if (s == NULL)
    return;
  g_free (s->previous);
  g_free (s->recorded_by);
  g_array_unref (s->stack);
  g_free (s);
}

/* Appends [from, to) and joins it to the segment before where nothing differs. */
static void
list_add (GArray *list, ScTime from, ScTime to, ScTimeKind kind, guint32 op, gboolean waiting)
{
  if (list->len > 0)
    {
      ScSegment *last = &g_array_index (list, ScSegment, list->len - 1);
      if (last->to == from && last->kind == kind && last->waiting && waiting)
        {
          last->to = to;
          return;
        }
    }
  const ScSegment segment = { .from = from, .to = to, .kind = kind, .op = op, .waiting = waiting };
  g_array_append_val (list, segment);
}

static void
segments_add (const Sink *out, ScTime from, ScTime to, ScTimeKind kind, guint32 op, gboolean waiting)
{
  if (to <= from)
    return;
  if (out->list != NULL)
    list_add (out->list, from, to, kind, op, waiting);
  else
    out->time[kind] += MAX (MIN (to, out->end) - MAX (from, out->begin), 0);
}

/* Waiting for the members of a call: a pipeline transfer waits for the stage that has not produced yet. */
static ScTimeKind
segments_wait_kind (const ScCall *call)
{
  if (call->wait_tag != call->tag)
    return (ScTimeKind) call->wait_tag;
  return call->tag == SC_TIME_COMM_PP ? SC_TIME_BUBBLE : SC_TIME_LATE_PEER;
}

/* The call @op, cut to [from, to). */
static void
segments_add_call (const ScSegments *s, const Sink *out, const ScActor *actor, guint32 op, ScTime from, ScTime to, gboolean waiting)
{
  const guint32 id = op + sc_actor_shift (actor);
  const ScOp named = sc_program_op (s->program, actor, id);
  const ScCall *call = &g_array_index (s->program->calls, ScCall, named.arg);
  const ScTime ready = CLAMP (sc_trace_ready (s->trace, id, &named), from, to);
  segments_add (out, from, ready, segments_wait_kind (call), id, waiting);
  segments_add (out, ready, to, (ScTimeKind) call->tag, id, waiting);
}

static gboolean
is_kernel (const ScOp *op)
{
  return op->kind == SC_OP_WORK || op->kind == SC_OP_CALL;
}

static void segments_add_stream (const ScSegments *s, const Sink *out, const ScActor *actor, guint32 op, guint32 next, ScTime from,
                                 ScTime to, guint depth);

#define MAX_DEPTH 8 /* streams that stand behind one another */

/* Nothing ran on @op's stream before it between @from and @to: it was not issued yet, or it stood in the one hardware
 * queue behind an op of another stream that had to wait for its own. */
static void
segments_add_gap (const ScSegments *s, const Sink *out, const ScActor *actor, guint32 op, ScTime from, ScTime to, guint depth)
{
  if (to <= from)
    return;
  guint32 ahead = SC_NONE; /* what was issued just before it */
  if (depth < MAX_DEPTH && actor->one_queue && is_kernel (segments_op (s, op)))
    for (guint32 i = op; i-- > actor->first_stored && ahead == SC_NONE;)
      if (is_kernel (segments_op (s, i)))
        ahead = i;
  if (ahead != SC_NONE && segments_op (s, ahead)->stream != segments_op (s, op)->stream && segments_span (s, actor, ahead)->start > from)
    {
      const ScTime until = MIN (segments_span (s, actor, ahead)->start, to);
      segments_add_stream (s, out, actor, s->previous[ahead], ahead, from, until, depth + 1);
      from = until;
    }
  segments_add (out, from, to, SC_TIME_HOST, SC_NONE, TRUE);
}

/* What another stream did between @from and @to, up to its @op, seen from one that stood behind it: its calls and copies, and why
 * they did not come sooner.  @next: its next kernel, which began at @to, or SC_NONE. */
static void
segments_add_stream (const ScSegments *s, const Sink *out, const ScActor *actor, guint32 op, guint32 next, ScTime from, ScTime to,
                     guint depth)
{
  GArray *const calls = s->stack; /* newest first */
  const guint bottom = calls->len;
  for (; op != SC_NONE; op = s->previous[op])
    {
      if (!is_kernel (segments_op (s, op)))
        continue;
      if (segments_span (s, actor, op)->end <= from)
        break;
      g_array_append_val (calls, op);
      if (segments_span (s, actor, op)->start <= from)
        break;
    }
  ScTime now = from;
  for (guint i = calls->len; i-- > bottom && now < to;)
    {
      const guint32 call = g_array_index (calls, guint32, i);
      const ScTime start = CLAMP (segments_span (s, actor, call)->start, now, to);
      const ScTime end = CLAMP (segments_span (s, actor, call)->end, start, to);
      segments_add_gap (s, out, actor, call, now, start, depth);
      if (segments_op (s, call)->kind == SC_OP_CALL)
        segments_add_call (s, out, actor, call, start, end, TRUE);
      else
        segments_add (out, start, end, (ScTimeKind) segments_op (s, call)->tag, call + sc_actor_shift (actor), TRUE);
      now = end;
    }
  g_array_set_size (calls, bottom);
  if (next != SC_NONE)
    segments_add_gap (s, out, actor, next, now, to, depth);
  else
    segments_add (out, now, to, SC_TIME_HOST, SC_NONE, TRUE);
}

static void
segments_add_class (const ScSegments *s, const Sink *out, guint class_id)
{
  const ScProgram *p = s->program;
  const ScActor *actor = &g_array_index (p->actors, ScActor, class_id);
  ScTime now = 0;
  for (guint32 op = g_array_index (p->stream_first, guint32, actor->first_stream + SEGMENTS_COMPUTE); op != SC_NONE;
       op = segments_op (s, op)->next)
    {
      const ScSpan *span = segments_span (s, actor, op);
      const ScOp *o = segments_op (s, op);
      const guint32 id = op + sc_actor_shift (actor);
      if (span->start == SC_TIME_NONE || span->end <= now)
        continue;
      segments_add_gap (s, out, actor, op, now, span->start, 0);
      const ScTime from = MAX (now, span->start);
      switch ((ScOpKind) o->kind)
        {
        case SC_OP_WORK: segments_add (out, from, span->end, (ScTimeKind) o->tag, id, FALSE); break;
        case SC_OP_CALL: segments_add_call (s, out, actor, op, from, span->end, FALSE); break;
        case SC_OP_WAIT: segments_add_stream (s, out, actor, s->recorded_by[o->arg], SC_NONE, from, span->end, 0); break;
        case SC_OP_RECORD:
        case SC_OP_MEM:
        case SC_OP_HOST_WAIT: segments_add (out, from, span->end, SC_TIME_HOST, SC_NONE, TRUE); break;
        default: g_assert_not_reached ();
        }
      now = MAX (now, span->end);
    }
  /* Behind its last op a class waits for the others: the next step begins for all at once. */
  segments_add (out, now, s->step, SC_TIME_BUBBLE, SC_NONE, TRUE);
}

GArray *
sc_segments_of_class (const ScSegments *s, guint class_id)
{
  const Sink out = { .list = g_array_new (FALSE, FALSE, sizeof (ScSegment)) };
  segments_add_class (s, &out, class_id);
  return out.list;
}

void
sc_segments_sum (const ScSegments *s, guint class_id, ScTime begin, ScTime end, ScTime *ret_time)
{
  const Sink out = { .time = ret_time, .begin = begin, .end = end };
  segments_add_class (s, &out, class_id);
}
