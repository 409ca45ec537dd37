/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine-parts.h - what the files of the engine share: its state.  Nobody else includes it.
 * Layer: sim. */
#pragma once
#include "sim/engine.h"
#include "sim/eventq.h"
#include "sim/flow.h"
#include "sim/usage.h"

#define HOLD_ONE 1000000u /* shares of an actor are counted in millionths: they add and subtract exactly */
#define HOLD_MAX  900000u /* however many calls run, a tenth of the actor's rate is left */

typedef enum
{
  STREAM_READY,   /* in the ready list */
  STREAM_RUNNING, /* a run of work; its end is in the queue */
  STREAM_EVENT,   /* waits for an event */
  STREAM_JOINED,  /* in a call */
  STREAM_ISSUE,   /* its op will be issued at a known time; that is in the queue */
  STREAM_HOST,    /* its op is behind a host wait that is not over */
  STREAM_QUEUE,   /* its op is not at the head of the one hardware queue */
  STREAM_DONE,
} StreamState;

typedef struct
{
  guint32 op;      /* next op, as stored (program.h), or SC_NONE */
  guint32 shift;   /* from there to its id */
  guint32 actor;
  guint32 chain;   /* next stream of the same event or the same call */
  guint32 version; /* of the event in the queue that ends its run; VERSION_MASK */
  guint32 state;   /* StreamState */
  /* the run: ops from `op` up to `run_end`, as it stood at `since` */
  guint32 run_end;
  ScTime  since;
  ScTime  left[SC_N_HOLDS]; /* ps of work */
  ScTime  op_done;  /* ps of work of `op` that are done */
  ScTime  op_start; /* when `op` began; also of a wait */
  ScTime  skipped, skipped_to; /* times of the run before skipped_to were so much earlier: it jumped */
  double  rate[SC_N_HOLDS];
} Stream;

typedef struct
{
  guint32 n_members, n_joined;
  guint32 call;
  guint32 joined;   /* chain of streams */
  guint32 n_active; /* parts or messages left */
  guint8 *before;   /* messages: what each still waits for; NULL between calls */
} Group;

typedef struct
{
  guint32 hold[SC_N_HOLDS]; /* sums of what running calls take, in millionths */
  guint32 n_running;  /* streams in a run */
  guint32 next_sync;  /* stored op of the next host wait, or SC_NONE */
  ScTime  late;       /* issue time of an op before next_sync = prefix + late */
  guint32 queue_head; /* one_queue: first stored op that has not started */
  guint32 shift;      /* from where its ops are stored to their ids */
  guint32 event_shift; /* from the events they name to its own */
  const guint32 *call_ids; /* of the calls they name; NULL: they name ids */
  guint32 chain;      /* next actor whose host waits for the same event */
  guint32 first_ready; /* as ScActor has it ... */
  gboolean one_queue;  /* ... which is far away */
  gboolean has_host;
} Actor;

/* What a running call takes of its members' rates. */
typedef struct
{
  guint32  of[SC_N_HOLDS]; /* of each kind of work, in millionths */
  gboolean any;
} Hold;

typedef struct
{
  ScTime  fired; /* or SC_TIME_NONE */
  guint32 chain; /* waiting streams */
  guint32 hosts; /* actors whose hosts wait */
} Event;

enum { EVENT_RUN_END, EVENT_FLOW_END, EVENT_WAKE, EVENT_CALL_START, EVENT_CALL_END, EVENT_DELIVERED };
#define WHAT_BITS 3 /* ScEvent.what = kind | rest << 3: version, or group of a delivered message */
#define VERSION_MASK (G_MAXUINT32 >> WHAT_BITS)

typedef struct
{
  const ScProgram *program;
  const ScOp    *ops;
  const ScCall  *calls;
  Hold    *holds;   /* [n_calls] */
  const ScActor *actors;
  Stream  *streams; /* [n_streams] */
  Actor   *states;  /* [n_actors] */
  Group   *groups;  /* [n_groups] */
  Event   *events;  /* [n_events] */
  ScTime  *prefix;  /* [stored ops] issue time of each op if no host ever waited; NULL: nothing costs issue time */
  guint8  *started; /* [n_ops], by id; one_queue actors: an op, or a run that holds it, has started; NULL: no such actor */
  guint32 *ready;   /* [n_streams] ring of streams to advance now, each at most once */
  guint32  ready_first, n_ready;
  ScFlows *flows;
  ScMeter *meter;   /* NULL: nobody asked */
  ScEventQueue queue;
  ScTrace *trace;
  ScTime   now;
  ScTime   limit;   /* no event may come later */
  const ScJump *jumps; /* [n_actors] or NULL */
  ScTime   next_jump;
} Engine;

/* The event that @o of @actor names. */
static inline guint32
event_of (const Engine *e, guint32 actor, const ScOp *o)
{
  return o->arg + e->states[actor].event_shift;
}

/* The call that @o of @actor names. */
static inline guint32
call_of (const Engine *e, guint32 actor, const ScOp *o)
{
  const guint32 *const ids = e->states[actor].call_ids;
  return ids != NULL ? ids[o->arg] : o->arg;
}

static inline guint32
ops_end (const ScActor *def)
{
  return def->first_stored + def->n_ops;
}

static inline gboolean
enters_queue (const Engine *e, guint32 op)
{
  return e->ops[op].kind == SC_OP_WORK || e->ops[op].kind == SC_OP_CALL;
}

/* The first op from @op on that enters the queue of @def, in program order, or the end of its ops. */
static inline guint32
queue_seek (const Engine *e, const ScActor *def, guint32 op)
{
  while (op < ops_end (def) && !enters_queue (e, op))
    op++;
  return op;
}

static inline guint
event_kind (const ScEvent *event)
{
  return event->what & ((1u << WHAT_BITS) - 1);
}

static inline guint32
event_rest (const ScEvent *event)
{
  return event->what >> WHAT_BITS;
}

/* The end that it announces has been moved since. */
static inline gboolean
sc_engine_is_stale (const Engine *e, const ScEvent *event)
{
  switch (event_kind (event))
    {
    case EVENT_RUN_END:
      return e->streams[event->id].version != event_rest (event);
    case EVENT_FLOW_END:
      return (sc_flows_version (e->flows, event->id) & VERSION_MASK) != event_rest (event);
    default:
      return FALSE;
    }
}

/* engine-setup.c */
void sc_engine_init (Engine *engine, const ScProgram *program, const ScJump *jumps);
void sc_engine_clear (Engine *engine);

/* engine-jump.c */
ScTime sc_engine_jump_after (const Engine *engine, ScTime time); /* when the next actors jump; G_MAXINT64: none does */
void   sc_engine_jump (Engine *engine); /* at next_jump: all before it is done */
