/* SPDX-License-Identifier: GPL-3.0-or-later */
/* steady.c - blocks are compared op by op; who meets whom; the stretch of time in which nothing but steady blocks is at work. */
#include "sim/steady.h"

typedef struct
{
  const ScProgram *program;
  const ScTrace   *trace;
} Run;

/* One actor, and its blocks [first .. last] that follow one another at its period. */
typedef struct
{
  const ScActor  *actor;
  const ScBlocks *blocks;
  guint32 first, last;
  ScTime  period;
  ScTime  begin, end; /* of the stretch, of its circle ... */
  ScTime  longest;    /* ... and op in its blocks */
  guint   circle;     /* an actor of its circle, or itself */
} Actor;

static ScOp
op_of (const Run *r, const ScActor *actor, guint32 i)
{
  return sc_program_op (r->program, actor, actor->first_op + i);
}

/* The same, with ids that are not its actor's own. */
static const ScOp *
stored_op (const Run *r, const ScActor *actor, guint32 i)
{
  return &g_array_index (r->program->ops, ScOp, actor->first_stored + i);
}

static const ScSpan *
span_of (const Run *r, const ScActor *actor, guint32 i)
{
  return &r->trace->spans[actor->first_op + i];
}

/* ---- blocks ---- */

static gboolean
names_event (const ScOp *op)
{
  return op->kind == SC_OP_RECORD || op->kind == SC_OP_WAIT || op->kind == SC_OP_HOST_WAIT;
}

/* The same op, of the next block: but for the event, which is @events further on, and what it is called. */
static gboolean
same_op (const ScOp *a, const ScOp *b, guint32 events)
{
  return a->kind == b->kind && a->stream == b->stream && a->held == b->held && a->tag == b->tag && a->issue_ns == b->issue_ns
         && a->arg + (names_event (a) ? events : 0) == b->arg && (a->kind == SC_OP_CALL || a->value == b->value);
}

/* From the events of block @i to those of the next one. */
static guint32
events_between (const Run *r, const ScActor *actor, const ScBlocks *b, guint32 i)
{
  for (guint32 k = b->start[i]; k < b->start[i + 1]; k++)
    {
      const ScOp op = op_of (r, actor, k);
      if (names_event (&op))
        return op_of (r, actor, k - b->start[i] + b->start[i + 1]).arg - op.arg;
    }
  return 0;
}

static gboolean
same_times (const Run *r, const ScActor *actor, guint32 i, guint32 k, const ScOp *a, const ScOp *b, ScTime period)
{
  const ScSpan *const x = span_of (r, actor, i), *const y = span_of (r, actor, k);
  return x->start + period == y->start && x->end + period == y->end
         && sc_trace_ready (r->trace, actor->first_op + i, a) + period == sc_trace_ready (r->trace, actor->first_op + k, b);
}

/* Is block @i + 1 as block @i, one period later? */
static gboolean
follows (const Run *r, const ScActor *actor, const ScBlocks *b, guint32 i, ScTime period)
{
  const guint32 n = b->start[i + 1] - b->start[i];
  if (n == 0 || b->start[i + 2] - b->start[i + 1] != n)
    return FALSE;
  const guint32 events = events_between (r, actor, b, i);
  for (guint32 k = b->start[i]; k < b->start[i + 1]; k++)
    {
      const ScOp before = op_of (r, actor, k), after = op_of (r, actor, k + n);
      if (!same_op (&before, &after, events) || !same_times (r, actor, k, k + n, &before, &after, period))
        return FALSE;
    }
  return TRUE;
}

/* The distance of blocks @i and @i + 1. */
static ScTime
distance (const Run *r, const ScActor *actor, const ScBlocks *b, guint32 i)
{
  return span_of (r, actor, b->start[i + 1])->end - span_of (r, actor, b->start[i])->end;
}

/* The last blocks of @a that follow one another at one distance.  FALSE: there are none. */
static gboolean
find_blocks (const Run *r, Actor *a)
{
  const ScBlocks *const b = a->blocks;
  guint32 i = b->n >= 2 ? b->n - 1 : 0; /* the pair of i - 1 and i */
  while (i > 0 && !follows (r, a->actor, b, i - 1, distance (r, a->actor, b, i - 1)))
    i--;
  if (i == 0)
    return FALSE;
  a->last = i;
  a->period = distance (r, a->actor, b, i - 1);
  while (i > 0 && follows (r, a->actor, b, i - 1, a->period))
    i--;
  a->first = i;
  return a->period > 0;
}

/* ---- circles ---- */

static guint
circle_of (Actor *actors, guint i)
{
  while (actors[i].circle != i)
    i = actors[i].circle = actors[actors[i].circle].circle;
  return i;
}

static void
join (Actor *actors, guint a, guint b)
{
  actors[circle_of (actors, a)].circle = circle_of (actors, b);
}

/* An op of @actor in a call. */
typedef struct
{
  guint32 call, actor;
} Caller;

static int
compare_callers (gconstpointer a, gconstpointer b)
{
  const Caller *const x = a, *const y = b;
  return x->call != y->call ? (x->call > y->call) - (x->call < y->call) : (x->actor > y->actor) - (x->actor < y->actor);
}

/* Who calls what: once for each actor and call, in order, in the steady blocks or (@outside) but there. */
static GArray *
list_callers (const Run *r, const Actor *actors, guint n, gboolean outside)
{
  GArray *const callers = g_array_new (FALSE, FALSE, sizeof (Caller));
  for (guint a = 0; a < n; a++)
    {
      const guint32 *const start = actors[a].blocks->start;
      const guint32 from = start[actors[a].last], to = start[actors[a].last + 1]; /* blocks are alike: one will do */
      for (guint32 i = outside ? 0 : from; i < (outside ? actors[a].actor->n_ops : to); i++)
        {
          if (stored_op (r, actors[a].actor, i)->kind != SC_OP_CALL || (outside && i >= start[actors[a].first] && i < to))
            continue;
          const Caller caller = { op_of (r, actors[a].actor, i).arg, a };
          g_array_append_val (callers, caller);
        }
    }
  g_array_sort (callers, compare_callers);
  return callers;
}

/* Does one of @callers belong to the circle of @a? */
static gboolean
is_among (Actor *actors, guint a, const Caller *callers, guint n)
{
  for (guint i = 0; i < n; i++)
    if (circle_of (actors, callers[i].actor) == circle_of (actors, a))
      return TRUE;
  return FALSE;
}

/* @callers of one call use its links: who else uses them in its blocks (@user, by link) is of their circle, unless they wait for it.  @in_blocks: so
 * do they, and are then the link's users. */
static void
join_by_links (const Run *r, Actor *actors, const Caller *callers, guint n, gboolean in_blocks, guint *user)
{
  const ScProgram *const p = r->program;
  const ScCall *const call = &g_array_index (p->calls, ScCall, callers->call);
  for (guint32 i = call->first_part; i < call->first_part + call->n_parts; i++)
    {
      const ScPart *const part = &g_array_index (p->parts, ScPart, i);
      for (guint32 u = part->first_use; u < part->first_use + part->n_uses; u++)
        {
          guint *const before = &user[g_array_index (p->uses, ScUse, u).link];
          if (*before != G_MAXUINT && !is_among (actors, *before, callers, n))
            join (actors, *before, callers->actor);
          if (in_blocks)
            *before = callers->actor;
        }
    }
}

static void
join_callers (const Run *r, Actor *actors, guint n_actors, gboolean in_blocks, guint *user)
{
  g_autoptr (GArray) list = list_callers (r, actors, n_actors, !in_blocks);
  for (guint i = 0, n; i < list->len; i += n)
    {
      const Caller *const callers = &g_array_index (list, Caller, i);
      for (n = 1; i + n < list->len && callers[n].call == callers->call; n++)
        if (in_blocks)
          join (actors, callers->actor, callers[n].actor);
      join_by_links (r, actors, callers, n, in_blocks, user);
    }
}

/* FALSE: the periods of one differ. */
static gboolean
find_circles (const Run *r, Actor *actors, guint n)
{
  g_autofree guint *user = g_new (guint, MAX (r->program->links->len, 1));
  for (guint32 l = 0; l < r->program->links->len; l++)
    user[l] = G_MAXUINT;
  join_callers (r, actors, n, TRUE, user);
  join_callers (r, actors, n, FALSE, user);
  for (guint a = 0; a < n; a++)
    if (actors[a].period != actors[circle_of (actors, a)].period)
      return FALSE;
  return TRUE;
}

/* ---- the stretch of time ---- */

/* From when on @op, the @i-th of @actor, does something; SC_TIME_NONE: it only orders others. */
static ScTime
works_from (const Run *r, const ScActor *actor, guint32 i)
{
  const ScOp *const op = stored_op (r, actor, i);
  if (op->kind == SC_OP_WORK)
    return span_of (r, actor, i)->start;
  return op->kind == SC_OP_CALL ? r->trace->ready[op->value + actor->first_ready] : SC_TIME_NONE;
}

/* Cuts the stretch of @circle to where none but the steady blocks of @a work, and no block more would. */
static void
cut (const Run *r, const Actor *a, Actor *circle)
{
  const guint32 *const start = a->blocks->start;
  for (guint32 i = 0; i < a->actor->n_ops; i++)
    {
      const ScTime from = works_from (r, a->actor, i);
      if (from == SC_TIME_NONE)
        continue;
      if (i < start[a->first])
        circle->begin = MAX (circle->begin, span_of (r, a->actor, i)->end);
      else if (i >= start[a->last + 1])
        circle->end = MIN (circle->end, from);
      else
        circle->longest = MAX (circle->longest, span_of (r, a->actor, i)->end - from);
      if (i >= start[a->last] && i < start[a->last + 1])
        circle->end = MIN (circle->end, from + a->period);
    }
}

/* ---- the host ---- */

/* Whether nobody waits for the host of @a but where it waits itself in every block, neither from @by on nor, with more blocks, later.  *ret_issue: ScSteady. */
static gboolean
host_keeps_up (const Run *r, const Actor *a, ScTime by, ScTime *ret_issue)
{
  const guint32 first = a->blocks->start[a->last], end = a->blocks->start[a->last + 1];
  ScTime issued = 0;
  gboolean waits = FALSE;
  *ret_issue = 0;
  for (guint32 i = 0; i < end; i++)
    {
      const ScOp *const op = stored_op (r, a->actor, i);
      issued += (ScTime) op->issue_ns * 1000;
      *ret_issue += i >= first ? (ScTime) op->issue_ns * 1000 : 0;
      if (op->kind != SC_OP_HOST_WAIT)
        continue;
      waits |= i >= first;
      issued = span_of (r, a->actor, i)->end;
    }
  if (waits)
    *ret_issue = a->period;
  return *ret_issue == a->period || (*ret_issue < a->period && issued <= by);
}

static gboolean
find (const Run *r, Actor *actors, guint n, ScSteady *ret)
{
  for (guint i = 0; i < n; i++)
    if (!find_blocks (r, &actors[i]))
      return FALSE;
  if (!find_circles (r, actors, n))
    return FALSE;
  for (guint i = 0; i < n; i++)
    cut (r, &actors[i], &actors[circle_of (actors, i)]);
  for (guint i = 0; i < n; i++)
    {
      const Actor *const circle = &actors[circle_of (actors, i)];
      ret[i] = (ScSteady) { .at = circle->end, .period = circle->period, .last = actors[i].last };
      if (circle->end - circle->begin < circle->period + circle->longest || !host_keeps_up (r, &actors[i], circle->end - circle->period, &ret[i].issue))
        return FALSE;
    }
  return TRUE;
}

gboolean
sc_steady_find (const ScProgram *program, const ScTrace *trace, const ScBlocks *blocks, ScSteady *ret)
{
  const Run r = { program, trace };
  const guint n = program->actors->len;
  g_autofree Actor *actors = g_new0 (Actor, n);
  for (guint i = 0; i < n; i++)
    actors[i] = (Actor) { .actor = &g_array_index (program->actors, ScActor, i), .blocks = &blocks[i], .end = trace->end, .circle = i };
  return find (&r, actors, n, ret);
}
