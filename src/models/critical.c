/* SPDX-License-Identifier: GPL-3.0-or-later */
/* critical.c - back from the end of the step along what each op waited for. */
#include "models/critical.h"

typedef struct
{
  const ScProgram *program;
  const ScTrace   *trace;
  guint32 *previous;    /* [stored ops] the op before it on its stream, or SC_NONE */
  guint32 *recorded_by; /* [n_events] the stored RECORD, or SC_NONE; of events as stored */
  guint32 *host_wait;   /* [stored ops] the HOST_WAIT that was issued last before it, or SC_NONE */
  GArray  *joined;      /* Joined, ascending */
  GArray  *path;        /* ScCriticalSegment, newest first */
} Search;

/* A member that came last to a call, which may be made many times; members that came with it follow. */
typedef struct
{
  guint32 call, id;
  ScTime  ready;
} Joined;

static int
by_call (gconstpointer a, gconstpointer b)
{
  const Joined *const x = a, *const y = b;
  if (x->call != y->call)
    return x->call < y->call ? -1 : 1;
  if (x->ready != y->ready)
    return x->ready < y->ready ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* The member's op that came last to the @call whose members had met at @ready. */
static guint32
last_joined (const GArray *joined, guint32 call, ScTime ready)
{
  const Joined key = { call, 0, ready };
  guint low = 0, high = joined->len;
  while (low < high)
    {
      const guint middle = low + (high - low) / 2;
      if (by_call (&g_array_index (joined, Joined, middle), &key) < 0)
        low = middle + 1;
      else
        high = middle;
    }
  const Joined *const found = &g_array_index (joined, Joined, low);
  g_assert (low < joined->len && found->call == call && found->ready == ready);
  return found->id;
}

/* An op of an actor, where it is stored. */
typedef struct
{
  const ScActor *actor;
  guint32 op; /* SC_NONE: none */
} Place;

static const ScOp *
op_at (const Search *s, Place at)
{
  return &g_array_index (s->program->ops, ScOp, at.op);
}

static const ScSpan *
span_at (const Search *s, Place at)
{
  return &s->trace->spans[at.op + sc_actor_shift (at.actor)];
}

static Place
place_of (const Search *s, guint32 id)
{
  const ScActor *const actor = sc_program_actor_of (s->program, id);
  return (Place) { actor, id - sc_actor_shift (actor) };
}

static gboolean
is_kernel (const ScOp *op)
{
  return op->kind == SC_OP_WORK || op->kind == SC_OP_CALL;
}

static guint32
class_of (const Search *s, const ScActor *actor)
{
  return (guint32) (actor - (const ScActor *) (gconstpointer) s->program->actors->data);
}

static void
put (Search *s, Place at, ScTime from, ScTime to, ScTimeKind kind, gboolean host)
{
  const ScCriticalSegment segment = { from, to, kind, class_of (s, at.actor), host ? SC_NONE : at.op + sc_actor_shift (at.actor) };
  if (to > from)
    g_array_append_val (s->path, segment);
}

static Place
before (const Search *s, Place at)
{
  return (Place) { at.actor, s->previous[at.op] };
}

/* What @event of @actor's own, as its stored ops name it, was recorded by. */
static Place
recorder (const Search *s, const ScActor *actor, guint32 event)
{
  return (Place) { actor, s->recorded_by[event] };
}

/* What the last host wait before @at waited for, where that ended after @since: earlier ones were over when it began.  None: op is SC_NONE. */
static Place
host_wait_before (const Search *s, Place at, ScTime since)
{
  const Place none = { at.actor, SC_NONE };
  const guint32 wait = s->host_wait[at.op];
  if (wait == SC_NONE)
    return none;
  const Place by = recorder (s, at.actor, op_at (s, (Place) { at.actor, wait })->arg);
  return by.op != SC_NONE && span_at (s, by)->end > since ? by : none;
}

/* The kernel that was issued just before @at on another stream, and held the one hardware queue up to @now. */
static Place
queue_before (const Search *s, Place at, ScTime now)
{
  Place ahead = { at.actor, SC_NONE };
  if (!at.actor->one_queue || !is_kernel (op_at (s, at)))
    return ahead;
  for (guint32 i = at.op; i-- > at.actor->first_stored && ahead.op == SC_NONE;)
    if (is_kernel (op_at (s, (Place) { at.actor, i })))
      ahead.op = i;
  if (ahead.op != SC_NONE && (op_at (s, ahead)->stream == op_at (s, at)->stream || span_at (s, ahead)->start != now))
    ahead.op = SC_NONE;
  return ahead;
}

static Place why_started (Search *s, Place at, ScTime now);

/* @at had nothing before it on its stream that ended at *@now: what is to be looked at next; *@now goes back over what its host needed. */
static Place
why_late (Search *s, Place at, Place previous, ScTime *now)
{
  const ScTime since = previous.op != SC_NONE ? span_at (s, previous)->end : 0;
  const Place ahead = queue_before (s, at, *now);
  if (ahead.op != SC_NONE)
    return why_started (s, ahead, *now);
  const Place by = host_wait_before (s, at, since);
  const ScTime from = by.op != SC_NONE ? MIN (span_at (s, by)->end, *now) : since;
  put (s, at, from, *now, SC_TIME_HOST, TRUE);
  *now = from;
  return by.op != SC_NONE ? by : previous;
}

/* The kernel whose start at @now decided that of @at: itself, or one that stood before it in the queue. */
static Place
why_started (Search *s, Place at, ScTime now)
{
  const Place ahead = queue_before (s, at, now);
  const Place previous = before (s, at);
  if (ahead.op == SC_NONE || (previous.op != SC_NONE && span_at (s, previous)->end == now))
    return at;
  return why_started (s, ahead, now);
}

/* The path up to *@now, which is the end of @at: what that hung on, and *@now goes back over @at itself.  op SC_NONE: the begin. */
static Place
step_back (Search *s, Place at, ScTime *now)
{
  const ScOp *const op = op_at (s, at);
  const ScSpan *const span = span_at (s, at);
  if (op->kind == SC_OP_WAIT && span->end > span->start)
    {
      const Place by = recorder (s, at.actor, op->arg);
      g_assert (by.op != SC_NONE);
      return by;
    }
  if (op->kind == SC_OP_WORK)
    {
      put (s, at, span->start, *now, (ScTimeKind) op->tag, FALSE);
      *now = MIN (*now, span->start);
    }
  if (op->kind == SC_OP_CALL && span->start < *now)
    {
      const guint32 id = at.op + sc_actor_shift (at.actor);
      const ScOp named = sc_program_op (s->program, at.actor, id);
      const ScTime ready = sc_trace_ready (s->trace, id, &named);
      put (s, at, ready, *now, (ScTimeKind) g_array_index (s->program->calls, ScCall, named.arg).tag, FALSE);
      *now = MIN (*now, ready);
      at = place_of (s, last_joined (s->joined, named.arg, ready));
    }
  const Place previous = before (s, at);
  if (previous.op != SC_NONE && span_at (s, previous)->end >= *now)
    return previous;
  return why_late (s, at, previous, now);
}

static void
look_up (Search *s)
{
  const ScProgram *const p = s->program;
  for (guint32 i = 0; i < p->ops->len; i++)
    s->previous[i] = SC_NONE;
  for (guint32 i = 0; i < p->n_events; i++)
    s->recorded_by[i] = SC_NONE;
  for (guint32 i = 0; i < p->ops->len; i++)
    {
      const ScOp *const op = &g_array_index (p->ops, ScOp, i);
      if (op->next != SC_NONE)
        s->previous[op->next] = i;
      if (op->kind == SC_OP_RECORD)
        s->recorded_by[op->arg] = i;
    }
  for (guint a = 0; a < p->actors->len; a++)
    {
      const ScActor *const actor = &g_array_index (p->actors, ScActor, a);
      guint32 wait = SC_NONE;
      for (guint32 i = actor->first_stored; actor->model == a && i < actor->first_stored + actor->n_ops; i++)
        {
          s->host_wait[i] = wait;
          wait = g_array_index (p->ops, ScOp, i).kind == SC_OP_HOST_WAIT ? i : wait;
        }
      for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
        {
          const ScOp op = sc_program_op (p, actor, id);
          if (op.kind != SC_OP_CALL)
            continue;
          const Joined member = { op.arg, id, s->trace->spans[id].start };
          if (member.ready == sc_trace_ready (s->trace, id, &op))
            g_array_append_val (s->joined, member);
        }
    }
  g_array_sort (s->joined, by_call);
}

/* The op that ends last; of several the first. */
static Place
last_op (const Search *s)
{
  Place last = { NULL, SC_NONE };
  for (guint a = 0; a < s->program->actors->len; a++)
    {
      const ScActor *const actor = &g_array_index (s->program->actors, ScActor, a);
      for (guint32 i = 0; i < actor->n_ops; i++)
        {
          const Place at = { actor, actor->first_stored + i };
          if (last.op == SC_NONE || span_at (s, at)->end > span_at (s, last)->end)
            last = at;
        }
    }
  return last;
}

GArray *
sc_critical_path (const ScProgram *program, const ScTrace *trace)
{
  Search s = { .program = program, .trace = trace, .path = g_array_new (FALSE, FALSE, sizeof (ScCriticalSegment)) };
  s.previous = g_new (guint32, MAX (program->ops->len, 1));
  s.recorded_by = g_new (guint32, MAX (program->n_events, 1));
  s.host_wait = g_new (guint32, MAX (program->ops->len, 1));
  s.joined = g_array_new (FALSE, FALSE, sizeof (Joined));
  look_up (&s);
  ScTime now = trace->end;
  for (Place at = last_op (&s); at.op != SC_NONE && now > 0;)
    at = step_back (&s, at, &now);
  for (guint i = 0; i < s.path->len / 2; i++)
    {
      ScCriticalSegment *const a = &g_array_index (s.path, ScCriticalSegment, i), *const b = &g_array_index (s.path, ScCriticalSegment, s.path->len - 1 - i);
      const ScCriticalSegment keep = *a;
      *a = *b;
      *b = keep;
    }
  g_free (s.previous);
  g_free (s.recorded_by);
  g_free (s.host_wait);
  g_array_unref (s.joined);
  return s.path;
}
