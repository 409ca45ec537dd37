/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine.c - the loop: take the next event, let its stream go on as far as it can, share the links anew.
 *
 * A stream that meets WORK takes the whole run of consecutive WORK (and MEM) ops as one piece: nothing but a change of
 * its actor's rate can touch it, and then the run is settled up to now and its end moved.  So a run costs one event,
 * however many tasks it holds. */
#include "sim/engine-parts.h"
#include <string.h>
#include "sim/messages.h"

G_DEFINE_QUARK (sc-engine-error-quark, sc_engine_error)

/* Of stored op @op of @s. */
static inline ScSpan *
span (Engine *e, const Stream *s, guint32 op)
{
  return &e->trace->spans[op + s->shift];
}

static inline void
push (Engine *e, ScTime time, guint32 id, guint kind, guint32 rest)
{
  sc_eventq_push (&e->queue, time, id, kind | rest << WHAT_BITS);
}

static void
make_ready (Engine *e, guint32 stream)
{
  e->streams[stream].state = STREAM_READY;
  guint32 at = e->ready_first + e->n_ready++;
  if (at >= e->program->n_streams)
    at -= e->program->n_streams;
  e->ready[at] = stream;
}

static guint32
take_ready (Engine *e)
{
  const guint32 stream = e->ready[e->ready_first];
  e->n_ready--;
  if (++e->ready_first == e->program->n_streams)
    e->ready_first = 0;
  return stream;
}

/* ---- the host: when is an op issued? ---- */

/* Lets the host of @actor pass every wait whose event has fired. */
static void
host_advance (Engine *e, guint32 actor)
{
  Actor *const a = &e->states[actor];
  const ScActor *const def = &e->actors[actor];
  while (a->next_sync != SC_NONE)
    {
      const guint32 op = a->next_sync;
      Event *const event = &e->events[event_of (e, actor, &e->ops[op])];
      const ScTime arrival = e->prefix[op] + a->late;
      if (event->fired == SC_TIME_NONE)
        {
          a->chain = event->hosts;
          event->hosts = actor;
          return;
        }
      const ScTime passed = MAX (arrival, event->fired);
      e->trace->spans[op + a->shift] = (ScSpan) { arrival, passed };
      e->trace->n_tasks++;
      e->trace->end = MAX (e->trace->end, passed); /* a host may pass later than the last event */
      a->late += passed - arrival;
      a->next_sync = SC_NONE;
      for (guint32 next = op + 1; next < ops_end (def); next++)
        if (e->ops[next].kind == SC_OP_HOST_WAIT)
          {
            a->next_sync = next;
            break;
          }
      for (guint32 s = 0; s < def->n_streams; s++)
        if (e->streams[def->first_stream + s].state == STREAM_HOST)
          make_ready (e, def->first_stream + s);
    }
}

/* Issue time of @op, or SC_TIME_NONE while a host wait before it is not over. */
static inline ScTime
issue_time (const Engine *e, guint32 actor, guint32 op)
{
  const Actor *const a = &e->states[actor];
  if (!a->has_host)
    return 0;
  return op < a->next_sync ? e->prefix[op] + a->late : SC_TIME_NONE;
}

/* ---- the one hardware queue ---- */

/* Moves the head of the queue behind what has started; the stream whose op is there now may have waited for it. */
static void
queue_advance (Engine *e, guint32 actor)
{
  const ScActor *const def = &e->actors[actor];
  Actor *const a = &e->states[actor];
  const guint32 end = ops_end (def);
  while (a->queue_head < end && e->started[a->queue_head + a->shift])
    a->queue_head = queue_seek (e, def, a->queue_head + 1);
  if (a->queue_head == end)
    return;
  const guint32 s = def->first_stream + e->ops[a->queue_head].stream;
  if (e->streams[s].state == STREAM_QUEUE && e->streams[s].op == a->queue_head)
    make_ready (e, s);
}

/* May a run go on from WORK @op to WORK @next of the same stream without looking up?  Yes, if nothing entered the queue
 * between them, and what entered it behind @next, and so waits for its start, is of this stream too. */
static gboolean
queue_lets_run (const Engine *e, const ScActor *def, guint32 op, guint32 next)
{
  if (queue_seek (e, def, op + 1) != next)
    return FALSE;
  const guint32 behind = queue_seek (e, def, next + 1);
  return behind == ops_end (def) || e->ops[behind].stream == e->ops[next].stream;
}

/* ---- runs of work ---- */

static inline double
actor_rate (const Engine *e, guint32 actor, guint held)
{
  return 1 - MIN (e->states[actor].hold[held], HOLD_MAX) / (double) HOLD_ONE;
}

static inline ScTime
sum_of (const ScTime work[SC_N_HOLDS])
{
  ScTime sum = 0;
  for (guint i = 0; i < SC_N_HOLDS; i++)
    sum += work[i];
  return sum;
}

/* Time of work of all kinds at their rates. */
static inline double
exact_time (const ScTime work[SC_N_HOLDS], const double rate[SC_N_HOLDS])
{
  double time = 0;
  for (guint i = 0; i < SC_N_HOLDS; i++)
    time += (double) work[i] / rate[i];
  return time;
}

static inline gboolean
full_rate (const double rate[SC_N_HOLDS])
{
  for (guint i = 0; i < SC_N_HOLDS; i++)
    if (rate[i] != 1)
      return FALSE;
  return TRUE;
}

/* The same, cut to the longest time there may be, so that it adds up.  @full: all rates are 1. */
static inline ScTime
time_of_work (const Engine *e, const ScTime work[SC_N_HOLDS], const double rate[SC_N_HOLDS], gboolean full)
{
  return full ? MIN (sum_of (work), e->limit) : (ScTime) llround (fmin (exact_time (work, rate), (double) e->limit));
}

/* Brings the run of @s up to now; @whole: to its end.  What has ended by then gets its times. */
static void
run_settle (Engine *e, Stream *s, gboolean whole)
{
  ScTime done[SC_N_HOLDS] = { 0 }, before = s->op_done; /* since `since`, by what has ended; of `op` before that */
  const gboolean full = full_rate (s->rate);
  guint32 op = s->op;
  while (op != s->run_end)
    {
      const ScOp *const o = &e->ops[op];
      ScTime end = s->op_start;
      if (o->kind == SC_OP_WORK)
        {
          done[o->held] += o->value - before;
          end = s->since + time_of_work (e, done, s->rate, full);
          if (!whole && end > e->now)
            {
              done[o->held] -= o->value - before;
              break;
            }
          end = MIN (end, e->now);
          before = 0;
        }
      if (o->kind == SC_OP_WORK && end < s->skipped_to) /* it was over when its actor jumped */
        end -= s->skipped;
      *span (e, s, op) = (ScSpan) { s->op_start, end };
      s->op_start = end;
      op = o->next;
    }
  for (guint i = 0; i < SC_N_HOLDS; i++)
    s->left[i] -= done[i];
  s->op_done = 0;
  if (op != s->run_end) /* in the middle of it */
    {
      const ScOp *const o = &e->ops[op];
      const ScTime part = (ScTime) llround (((double) (e->now - s->since) - exact_time (done, s->rate)) * s->rate[o->held]);
      const ScTime now = CLAMP (part, 0, o->value - before);
      s->op_done = before + now;
      s->left[o->held] -= now;
    }
  s->op = op;
  s->since = e->now;
}

static void
run_schedule (Engine *e, guint32 stream)
{
  Stream *const s = &e->streams[stream];
  s->version = (s->version + 1) & VERSION_MASK;
  push (e, e->now + time_of_work (e, s->left, s->rate, full_rate (s->rate)), stream, EVENT_RUN_END, s->version);
}

static void
take_rates (const Engine *e, Stream *s)
{
  for (guint i = 0; i < SC_N_HOLDS; i++)
    s->rate[i] = actor_rate (e, s->actor, i);
}

/* A call begins (@begins) or ends on @actor, whose rates change: its running streams go on at the new ones. */
static void
actor_hold (Engine *e, guint32 actor, const Hold *hold, gboolean begins)
{
  Actor *const a = &e->states[actor];
  gboolean changes = FALSE;
  for (guint i = 0; i < SC_N_HOLDS; i++)
    {
      const guint32 before = a->hold[i];
      a->hold[i] = begins ? before + hold->of[i] : before - hold->of[i];
      changes |= MIN (a->hold[i], HOLD_MAX) != MIN (before, HOLD_MAX); /* else its rate stays */
    }
  if (a->n_running == 0)
    return;
  const ScActor *const def = &e->actors[actor];
  for (guint i = 0; i < def->n_streams && changes; i++)
    {
      Stream *const s = &e->streams[def->first_stream + i];
      if (s->state != STREAM_RUNNING)
        continue;
      run_settle (e, s, FALSE);
      take_rates (e, s);
      run_schedule (e, def->first_stream + i);
    }
}

/* Starts the longest run of WORK and MEM ops at the head of @stream that nothing but the rate can touch.
 * FALSE: it took no time and is over. */
static gboolean
run_start (Engine *e, guint32 stream)
{
  Stream *const s = &e->streams[stream];
  const ScActor *const def = &e->actors[s->actor];
  ScTime work = 0, kinds[SC_N_HOLDS] = { 0 };
  guint32 op = s->op, last_work = SC_NONE;
  while (op != SC_NONE)
    {
      const ScOp *const o = &e->ops[op];
      if (o->kind != SC_OP_WORK && o->kind != SC_OP_MEM)
        break;
      if (op != s->op) /* the first is known to be issued and at the head of the queue */
        {
          const ScTime issued = issue_time (e, s->actor, op);
          if (issued == SC_TIME_NONE || issued > e->now + work)
            break;
          if (def->one_queue && o->kind == SC_OP_WORK
              && (last_work == SC_NONE || !queue_lets_run (e, def, last_work, op)))
            break;
        }
      if (o->kind == SC_OP_WORK)
        {
          work += o->value;
          kinds[o->held] += o->value;
          last_work = op;
          if (def->one_queue)
            e->started[op + s->shift] = TRUE;
        }
      e->trace->n_tasks++;
      op = o->next;
      if (work > e->limit)
        break;
    }
  if (def->one_queue)
    queue_advance (e, s->actor);
  s->run_end = op;
  memcpy (s->left, kinds, sizeof kinds);
  s->op_done = 0;
  s->op_start = s->since = e->now;
  s->skipped_to = 0;
  take_rates (e, s);
  if (work == 0)
    {
      run_settle (e, s, TRUE);
      return FALSE;
    }
  s->state = STREAM_RUNNING;
  e->states[s->actor].n_running++;
  run_schedule (e, stream);
  return TRUE;
}

/* ---- calls ---- */

static void call_end (Engine *e, guint32 group);

static void
flow_start (Engine *e, guint32 group, guint32 detail, const ScUse *uses, guint32 n_uses, double bytes, double cap)
{
  const guint32 id = sc_flows_start (e->flows, e->now, uses, n_uses, bytes, cap, group, detail);
  if (e->meter != NULL)
    sc_meter_flow_starts (e->meter, id, uses, n_uses, bytes, e->calls[e->groups[group].call].tag);
}

static void
message_start (Engine *e, guint32 group, guint32 id)
{
  const ScMessages *const script = e->calls[e->groups[group].call].messages;
  ScMessage message;
  script->describe (script, id, &message);
  e->trace->n_tasks++;
  flow_start (e, group, id, message.uses, message.n_uses, message.bytes, script->cap);
}

static void
messages_release (Engine *e, guint32 group, const guint32 *next, guint n)
{
  for (guint i = 0; i < n; i++)
    if (--e->groups[group].before[next[i]] == 0)
      message_start (e, group, next[i]);
}

static void
call_part_done (Engine *e, guint32 group)
{
  Group *const g = &e->groups[group];
  if (--g->n_active > 0)
    return;
  g_clear_pointer (&g->before, g_free);
  const ScTime tail = e->calls[g->call].tail;
  if (tail > 0)
    push (e, e->now + tail, group, EVENT_CALL_END, 0);
  else
    call_end (e, group);
}

static void
message_delivered (Engine *e, guint32 group, guint32 id)
{
  const ScMessages *const script = e->calls[e->groups[group].call].messages;
  guint32 next[SC_MESSAGES_MAX_NEXT];
  messages_release (e, group, next, script->after_delivery (script, id, next));
  call_part_done (e, group);
}

static void
message_drained (Engine *e, guint32 group, guint32 id)
{
  const ScMessages *const script = e->calls[e->groups[group].call].messages;
  guint32 next[SC_MESSAGES_MAX_NEXT];
  messages_release (e, group, next, script->after_drain (script, id, next));
  if (script->latency > 0)
    push (e, e->now + script->latency, id, EVENT_DELIVERED, group);
  else
    message_delivered (e, group, id);
}

/* All members are here and the delay is over: put the call on the links. */
static void
call_start (Engine *e, guint32 group)
{
  Group *const g = &e->groups[group];
  const ScCall *const call = &e->calls[g->call];
  const Hold *const hold = &e->holds[g->call];
  for (guint32 s = hold->any ? g->joined : SC_NONE; s != SC_NONE; s = e->streams[s].chain)
    actor_hold (e, e->streams[s].actor, hold, TRUE);

  if (call->messages != NULL)
    {
      const ScMessages *const script = call->messages;
      g->n_active = script->n;
      g->before = g_new (guint8, MAX (script->n, 1));
      for (guint32 i = 0; i < script->n; i++)
        g->before[i] = script->n_before (script, i);
      for (guint32 i = 0; i < script->n; i++)
        if (g->before[i] == 0)
          message_start (e, group, i);
    }
  else
    {
      const ScPart *const parts = &g_array_index (e->program->parts, ScPart, call->first_part);
      const ScUse *const uses = (const ScUse *) (gconstpointer) e->program->uses->data;
      g->n_active = call->n_parts;
      for (guint32 i = 0; i < call->n_parts; i++)
        flow_start (e, group, SC_NONE, uses + parts[i].first_use, parts[i].n_uses, parts[i].bytes, parts[i].cap);
    }
  if (g->n_active == 0) /* nothing to carry: the delay and the tail are all there is */
    {
      g->n_active = 1;
      call_part_done (e, group);
    }
}

static void
call_end (Engine *e, guint32 group)
{
  Group *const g = &e->groups[group];
  const Hold *const hold = &e->holds[g->call];
  guint32 next = g->joined;
  g->joined = SC_NONE;
  g->n_joined = 0;
  while (next != SC_NONE)
    {
      const guint32 stream = next;
      Stream *const s = &e->streams[stream];
      next = s->chain;
      if (hold->any)
        actor_hold (e, s->actor, hold, FALSE);
      span (e, s, s->op)->end = e->now;
      s->op = e->ops[s->op].next;
      make_ready (e, stream);
    }
}

/* @stream has reached a CALL. */
static void
call_join (Engine *e, guint32 stream)
{
  Stream *const s = &e->streams[stream];
  const guint32 id = call_of (e, s->actor, &e->ops[s->op]);
  const ScCall *const call = &e->calls[id];
  Group *const g = &e->groups[call->group];
  span (e, s, s->op)->start = e->now;
  e->trace->n_tasks++;
  s->state = STREAM_JOINED;
  s->chain = g->joined;
  g->joined = stream;
  if (e->states[s->actor].one_queue)
    {
      e->started[s->op + s->shift] = TRUE;
      queue_advance (e, s->actor);
    }
  g_assert (g->n_joined == 0 || g->call == id); /* members of a group make the same calls in the same order */
  g->call = id;
  if (++g->n_joined < g->n_members)
    return;
  for (guint32 m = g->joined; m != SC_NONE; m = e->streams[m].chain)
    {
      const Stream *const member = &e->streams[m];
      e->trace->ready[e->states[member->actor].first_ready + e->ops[member->op].value] = e->now;
    }
  if (call->delay > 0)
    push (e, e->now + call->delay, call->group, EVENT_CALL_START, 0);
  else
    call_start (e, call->group);
}

/* ---- streams ---- */

/* The wait or record at the head of @s, begun at @start, ends now; the stream stands before its next op. */
static void
op_passed (Engine *e, Stream *s, ScTime start)
{
  *span (e, s, s->op) = (ScSpan) { start, e->now };
  e->trace->n_tasks++;
  s->op = e->ops[s->op].next;
}

static void
event_fire (Engine *e, guint32 id)
{
  Event *const event = &e->events[id];
  event->fired = e->now;
  guint32 next = event->chain;
  event->chain = SC_NONE;
  while (next != SC_NONE)
    {
      const guint32 stream = next;
      Stream *const s = &e->streams[stream];
      next = s->chain;
      op_passed (e, s, s->op_start);
      make_ready (e, stream);
    }
  guint32 actor = event->hosts;
  event->hosts = SC_NONE;
  while (actor != SC_NONE)
    {
      const guint32 next_actor = e->states[actor].chain;
      host_advance (e, actor);
      actor = next_actor;
    }
}

/* Does @event hold @stream, which has reached a wait for it?  If so, the stream is in its chain. */
static gboolean
event_holds (Engine *e, guint32 stream, Event *event)
{
  Stream *const s = &e->streams[stream];
  if (event->fired != SC_TIME_NONE)
    return FALSE;
  s->state = STREAM_EVENT;
  s->op_start = e->now;
  s->chain = event->chain;
  event->chain = stream;
  return TRUE;
}

/* Lets @stream go on until it has to wait for something. */
static void
stream_advance (Engine *e, guint32 stream)
{
  Stream *const s = &e->streams[stream];
  while (s->op != SC_NONE)
    {
      const ScOp *const o = &e->ops[s->op];
      if (e->states[s->actor].has_host)
        {
          const ScTime issued = issue_time (e, s->actor, s->op);
          if (issued == SC_TIME_NONE)
            {
              s->state = STREAM_HOST;
              return;
            }
          if (issued > e->now)
            {
              s->state = STREAM_ISSUE;
              push (e, issued, stream, EVENT_WAKE, 0);
              return;
            }
        }
      switch ((ScOpKind) o->kind)
        {
        case SC_OP_RECORD:
          op_passed (e, s, e->now);
          event_fire (e, event_of (e, s->actor, o));
          break;
        case SC_OP_WAIT:
          if (event_holds (e, stream, &e->events[event_of (e, s->actor, o)]))
            return;
          op_passed (e, s, e->now);
          break;
        case SC_OP_WORK:
        case SC_OP_CALL:
          if (e->states[s->actor].one_queue && e->states[s->actor].queue_head != s->op)
            {
              s->state = STREAM_QUEUE;
              return;
            }
          if (o->kind == SC_OP_CALL)
            {
              call_join (e, stream);
              return;
            }
          if (run_start (e, stream))
            return;
          break;
        case SC_OP_MEM:
          if (run_start (e, stream))
            return;
          break;
        case SC_OP_HOST_WAIT: /* never on a stream */
        default:
          g_assert_not_reached ();
        }
    }
  s->state = STREAM_DONE;
}

static void
on_flow_moved (gpointer data, guint32 id, guint32 version, ScTime end)
{
  Engine *const e = data;
  if (e->meter != NULL)
    sc_meter_flow_moves (e->meter, id, sc_flows_rate (e->flows, id), e->now);
  push (e, end, id, EVENT_FLOW_END, version & VERSION_MASK);
}

static void
handle (Engine *e, const ScEvent *event)
{
  switch (event_kind (event))
    {
    case EVENT_RUN_END:
      {
        Stream *const s = &e->streams[event->id];
        run_settle (e, s, TRUE);
        e->states[s->actor].n_running--;
        make_ready (e, event->id);
        break;
      }
    case EVENT_FLOW_END:
      {
        const guint32 group = sc_flows_owner (e->flows, event->id), detail = sc_flows_detail (e->flows, event->id);
        if (e->meter != NULL)
          sc_meter_flow_ends (e->meter, event->id, e->now);
        sc_flows_end (e->flows, event->id);
        if (detail == SC_NONE)
          call_part_done (e, group);
        else
          message_drained (e, group, detail);
        break;
      }
    case EVENT_WAKE:
      make_ready (e, event->id);
      break;
    case EVENT_CALL_START:
      call_start (e, event->id);
      break;
    case EVENT_CALL_END:
      call_end (e, event->id);
      break;
    case EVENT_DELIVERED:
      message_delivered (e, event_rest (event), event->id);
      break;
    default:
      g_assert_not_reached ();
    }
  e->trace->n_events++;
}

/* ---- the loop ---- */

/* Finds the first stream or host that waits for another one; those that stand behind it are not to blame. */
static gboolean
check_all_done (const Engine *e, GError **error)
{
  for (guint32 i = 0; i < e->program->n_streams; i++)
    {
      const Stream *const s = &e->streams[i];
      if (s->state != STREAM_EVENT && s->state != STREAM_JOINED)
        continue;
      g_set_error (error, SC_ENGINE_ERROR, SC_ENGINE_ERROR_DEADLOCK,
                   "deadlock: stream %u of actor %u can never pass its op %u, a %s %u",
                   i - e->actors[s->actor].first_stream, s->actor, s->op + s->shift,
                   s->state == STREAM_EVENT ? "wait for event" : "call of group",
                   s->state == STREAM_EVENT ? event_of (e, s->actor, &e->ops[s->op]) : e->calls[call_of (e, s->actor, &e->ops[s->op])].group);
      return FALSE;
    }
  for (guint32 a = 0; a < e->program->actors->len; a++)
    {
      const guint32 op = e->states[a].next_sync;
      if (op == SC_NONE)
        continue;
      g_set_error (error, SC_ENGINE_ERROR, SC_ENGINE_ERROR_DEADLOCK,
                   "deadlock: the host of actor %u can never pass its op %u, a wait for event %u", a,
                   op + e->states[a].shift, event_of (e, a, &e->ops[op]));
      return FALSE;
    }
  return TRUE;
}

static ScTrace *
run (const ScProgram *program, gboolean metered, const ScJump *jumps, GError **error)
{
  Engine e;
  sc_engine_init (&e, program, jumps);
  if (metered)
    e.meter = sc_meter_new (program);
  for (guint32 i = 0; i < program->n_streams; i++)
    make_ready (&e, i);
  for (guint32 a = 0; a < program->actors->len; a++)
    if (e.states[a].has_host)
      host_advance (&e, a);

  gboolean too_long = FALSE;
  for (;;)
    {
      while (e.n_ready > 0)
        stream_advance (&e, take_ready (&e));

      /* Everything of this instant is done before the links are shared anew. */
      if (sc_eventq_is_empty (&e.queue) || sc_eventq_next_time (&e.queue) > e.now)
        if (sc_flows_dirty (e.flows))
          sc_flows_solve (e.flows, e.now, on_flow_moved, &e);
      if (sc_eventq_is_empty (&e.queue))
        break;
      if (sc_eventq_next_time (&e.queue) >= e.next_jump)
        {
          sc_engine_jump (&e);
          continue;
        }
      const ScEvent event = sc_eventq_pop (&e.queue);
      if (sc_engine_is_stale (&e, &event))
        continue;
      if (event.time >= e.limit)
        {
          too_long = TRUE;
          break;
        }
      e.now = event.time;
      handle (&e, &event);
    }

  ScTrace *ret = NULL;
  if (too_long)
    g_set_error (error, SC_ENGINE_ERROR, SC_ENGINE_ERROR_TOO_LONG,
                 "the step would take longer than %.0f days of simulated time", SC_TIME_MAX_S / 86400);
  else if (check_all_done (&e, error))
    {
      ret = g_steal_pointer (&e.trace);
      ret->n_solves = sc_flows_n_solves (e.flows);
      ret->link_bytes = g_memdup2 (sc_flows_link_bytes (e.flows), program->links->len * sizeof (double));
      ret->end = MAX (ret->end, e.now);
      if (metered)
        ret->usage = sc_meter_finish (g_steal_pointer (&e.meter), ret->end);
    }
  sc_engine_clear (&e);
  return ret;
}

ScTrace *
sc_engine_run (const ScProgram *program, GError **error)
{
  return run (program, FALSE, NULL, error);
}

ScTrace *
sc_engine_run_metered (const ScProgram *program, GError **error)
{
  return run (program, TRUE, NULL, error);
}

ScTrace *
sc_engine_run_jumping (const ScProgram *program, const ScJump *jumps, GError **error)
{
  return run (program, FALSE, jumps, error);
}
