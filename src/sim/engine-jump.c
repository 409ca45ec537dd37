/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine-jump.c - actors leave out what they would only repeat: all that they have under way ends so much later. */
#include "sim/engine-parts.h"

/* The actor whose event it is: a group has joined members as long as it has events, and they jump together. */
static guint32
actor_of (const Engine *e, const ScEvent *event)
{
  switch (event_kind (event))
    {
    case EVENT_RUN_END:
    case EVENT_WAKE:
      return e->streams[event->id].actor;
    case EVENT_FLOW_END:
      return e->streams[e->groups[sc_flows_owner (e->flows, event->id)].joined].actor;
    case EVENT_DELIVERED:
      return e->streams[e->groups[event_rest (event)].joined].actor;
    default:
      return e->streams[e->groups[event->id].joined].actor;
    }
}

/* When @event comes, now that its actor has jumped.  A host that had issued far ahead has gained on the others meanwhile. */
static ScTime
time_after (gpointer data, const ScEvent *event)
{
  const Engine *const e = data;
  if (sc_engine_is_stale (e, event))
    return event->time;
  const ScJump *const jump = &e->jumps[actor_of (e, event)];
  if (jump->at != e->next_jump)
    return event->time;
  return event_kind (event) == EVENT_WAKE ? MAX (event->time + jump->issue, jump->at + jump->by) : event->time + jump->by;
}

static void
jump_actor (Engine *e, guint32 actor)
{
  const ScJump *const jump = &e->jumps[actor];
  const ScActor *const def = &e->actors[actor];
  e->states[actor].late += jump->issue;
  for (guint32 i = def->first_stream; i < def->first_stream + def->n_streams; i++)
    {
      Stream *const s = &e->streams[i];
      if (s->state != STREAM_RUNNING)
        continue;
      s->since += jump->by;
      s->skipped = jump->by;
      s->skipped_to = jump->at + jump->by;
    }
}

static ScTime
flow_by (gpointer data, guint32 group)
{
  const Engine *const e = data;
  const ScJump *const jump = &e->jumps[e->streams[e->groups[group].joined].actor];
  return jump->at == e->next_jump ? jump->by : 0;
}

ScTime
sc_engine_jump_after (const Engine *e, ScTime time)
{
  ScTime next = G_MAXINT64;
  for (guint32 a = 0; a < e->program->actors->len && e->jumps != NULL; a++)
    if (e->jumps[a].by > 0 && e->jumps[a].at > time)
      next = MIN (next, e->jumps[a].at);
  return next;
}

void
sc_engine_jump (Engine *e)
{
  sc_eventq_move (&e->queue, time_after, e);
  sc_flows_move (e->flows, flow_by, e);
  for (guint32 a = 0; a < e->program->actors->len; a++)
    if (e->jumps[a].at == e->next_jump)
      jump_actor (e, a);
  e->next_jump = sc_engine_jump_after (e, e->next_jump);
}
