/* SPDX-License-Identifier: GPL-3.0-or-later */
/* program.h - what the simulator executes: programs on streams, groups that meet, links that are shared.
 * Layer: sim.  Knows no GPU and no transformer: an *actor* is anything with serial streams, a *call* anything that
 * several actors do together over shared links.
 *
 * An actor has one list of ops in *program order*: the order in which its host issues them.  Each op belongs to one
 * stream; a stream executes its ops strictly in order, one at a time.  Ops of different streams are ordered by events
 * (RECORD, WAIT) only, and, where the actor asks for it, by the one hardware queue they enter (`one_queue`: no op may
 * start before every op issued before it, on any stream, has started).
 *
 * A CALL is joined by one op of each member of its group.  When the last member has joined, the call's parts start as
 * flows over links; when the last part has ended (plus the tail), every member's op ends.  Calls of one group are
 * matched in the order in which each member makes them, as NCCL matches them per communicator.
 *
 * A part is a set of connections ("streams" in FOLDING.md S2) that advance in lockstep: `bytes` is what one connection carries,
 * a use says how many connections of the part cross a link.  Links are shared max-min over the rate of one connection
 * (S3), so a part needs no other weight.
 *
 * The program is built once by the functions below, then sealed and only read: any number of engines may run it. */
#pragma once
#include "sim/types.h"

typedef enum
{
  SC_OP_WORK,      /* value: duration in ps at full rate; arg: memory set applied when it starts, or SC_NONE */
  SC_OP_CALL,      /* arg: call id; value: which of the actor's CALL ops it is, set by sc_program_add_op() */
  SC_OP_RECORD,    /* arg: event id; fires the event */
  SC_OP_WAIT,      /* arg: event id; holds the stream until the event has fired */
  SC_OP_MEM,       /* value: bytes, signed; tag: memory tag; instantaneous */
  SC_OP_HOST_WAIT, /* arg: event id; holds the *host* (issue of later ops) until the event has fired */
} ScOpKind;

/* Kinds of work that a running call may slow differently. */
#define SC_N_HOLDS 3

/* 32 bytes; a large step at kernel detail has 400,000 of them, the largest that is shipped 27 million. */
typedef struct
{
  gint64  value; /* see ScOpKind */
  guint32 arg;   /* see ScOpKind */
  guint32 next;  /* next op of the same stream (global op index), or SC_NONE */
  guint32 issue_ns; /* host time to issue this op, ns (up to 4.29 s) */
  guint32 label; /* what it is, for traces; meaning is the builder's */
  guint32 info;  /* which one it is (micro-batch, chunk, layer), for traces; meaning is the builder's */
  guint16 tag;   /* accounting category (WORK) or memory tag (MEM); meaning is the builder's */
  guint8  kind : 4; /* ScOpKind */
  guint8  held : 4; /* WORK: which of a call's holds slows it, below SC_N_HOLDS */
  guint8  stream;
} ScOp;
G_STATIC_ASSERT (sizeof (ScOp) == 32);

typedef struct
{
  guint32  first_op, n_ops; /* range of op ids, in program order: ScTrace.spans has them by id */
  guint32  first_stored;    /* where its ops stand in ScProgram.ops: its own, or those of @model */
  guint32  model;           /* an actor that does the same, whose ops it shares, or itself */
  guint32  n_streams;
  guint32  first_stream; /* global id of its stream 0 */
  guint32  first_event;  /* events added since the actor was */
  guint32  event_shift;  /* added to the event ids in the stored ops; wraps */
  guint32  first_call;   /* sc_program_share_ops(): its calls are ScProgram.call_ids[first_call + arg]; else SC_NONE: arg is the id */
  guint32  first_ready, n_calls; /* range in ScTrace.ready: one of each CALL op */
  gboolean one_queue;
} ScActor;

/* Several memory changes of one instant that many WORK ops share. */
typedef struct
{
  gint64  bytes;
  guint16 tag;
} ScMemDelta;

/* How many connections of a part cross a link. */
typedef struct
{
  double  streams; /* > 0, may be fractional */
  guint32 link;
} ScUse;

typedef struct
{
  guint32 first_use, n_uses; /* range in ScProgram.uses; n_uses == 0: crosses nothing, only its cap counts */
  double  bytes;             /* that one connection carries */
  double  cap;               /* bytes/s of one connection, or INFINITY */
} ScPart;

typedef struct _ScMessages ScMessages; /* messages.h: the same call as single messages */

typedef struct
{
  guint32 group;
  guint32 first_part, n_parts;
  ScTime  delay; /* from the last join to the start of the parts (a single message's latency, S4) */
  ScTime  tail;  /* from the end of the last part to the end of the call */
  double  hold[SC_N_HOLDS]; /* share of each member actor's rate of either kind of work that the running call takes, 0..1 */
  guint16 tag;      /* accounting category of the running call; meaning is the builder's */
  guint16 wait_tag; /* ... of waiting for its members; as @tag unless the builder says otherwise */
  const ScMessages *messages; /* NULL: run the parts; else run these messages (borrowed, must outlive the program) */
} ScCall;

typedef struct
{
  GArray  *actors;  /* ScActor */
  GArray  *ops;     /* ScOp, as stored: read them by sc_program_op() */
  GArray  *call_ids; /* guint32, by ScActor.first_call */
  GArray  *call_guess; /* guint32 [calls] while building: see program.c */
  GArray  *calls;   /* ScCall */
  GArray  *parts;   /* ScPart */
  GArray  *uses;    /* ScUse */
  GArray  *groups;  /* guint32: number of members */
  GArray  *links;   /* double: capacity, in units of `streams` x bytes/s */
  GArray  *mem_deltas; /* ScMemDelta */
  GArray  *mem_sets;   /* guint32 [sets + 1]: set i is mem_deltas[mem_sets[i] .. mem_sets[i + 1]) */
  guint32  n_events;
  guint32  n_streams;
  guint32  room;           /* for ops, that has been made */
  guint32  n_ops;          /* ids of ops: more than are stored, where actors share them */
  guint32  n_call_ops;     /* of them, CALL */
  GArray  *last_on_stream; /* guint32 [n_streams]: last stored op of each stream, or SC_NONE */
  GArray  *stream_first;   /* guint32 [n_streams]: first stored op of each stream, or SC_NONE */
} ScProgram;

ScProgram *sc_program_new (void);
void       sc_program_free (ScProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScProgram, sc_program_free)

guint32 sc_program_add_link (ScProgram *p, double capacity);
guint32 sc_program_add_group (ScProgram *p, guint32 n_members);

/* Adds a call of @group; parts follow with sc_program_add_part().  @hold: of all kinds of work alike.  Returns its id. */
guint32 sc_program_add_call (ScProgram *p, guint32 group, guint16 tag, ScTime delay, ScTime tail, double hold);

/* What the call added last takes of each kind of work. */
void sc_program_set_holds (ScProgram *p, const double hold[SC_N_HOLDS]);

/* Adds a part to the call added last. @uses: [n_uses], borrowed, copied. */
void sc_program_add_part (ScProgram *p, double bytes, double cap, const ScUse *uses, guint32 n_uses);

/* The same, over uses that another part has brought: calls that differ in bytes only share them. */
void sc_program_share_part (ScProgram *p, double bytes, double cap, guint32 first_use, guint32 n_uses);

/* Returns the id of a new memory set. */
guint32 sc_program_add_mem_set (ScProgram *p, const ScMemDelta *deltas, guint n);

/* Begins an actor; ops follow until the next one begins. */
guint32 sc_program_add_actor (ScProgram *p, guint32 n_streams, gboolean one_queue);
guint32 sc_program_add_event (ScProgram *p);

/* Appends an op to the actor added last, in program order.  Returns the op, to fill label, info and issue time in;
 * the pointer dies at the next append. */
ScOp *sc_program_add_op (ScProgram *p, ScOpKind kind, guint8 stream, guint16 tag, guint32 arg, gint64 value);

/* The actor added last is complete.  If an earlier complete one does the same, which is to have equal ops but for *which* calls and
 * events they name, it keeps that one's ops and gives its own up: ranks of one pipeline stage differ in little else.  Their ids, and
 * all that readers see of them, stay as they were.  No op may wait for an event of another actor.  TRUE if it shares. */
gboolean sc_program_share_ops (ScProgram *p);

/* Forgets the ops of the actor that was added last: for those who want what is written beside them.  The program cannot be run. */
void sc_program_drop_ops (ScProgram *program);

/* From the place where an op of @actor is stored to its id; wraps. */
static inline guint32
sc_actor_shift (const ScActor *actor)
{
  return actor->first_op - actor->first_stored;
}

/* Op @id of @actor with all ids in it resolved: `next`, calls and events; `value` of a CALL: its place in ScTrace.ready. */
ScOp sc_program_op (const ScProgram *p, const ScActor *actor, guint32 id);

/* The actor of op @id.  A search: who knows the actor asks sc_program_op() at once. */
const ScActor *sc_program_actor_of (const ScProgram *p, guint32 id);

static inline ScOp
sc_program_find_op (const ScProgram *p, guint32 id)
{
  return sc_program_op (p, sc_program_actor_of (p, id), id);
}

/* Makes room for @n_ops ops in all, so that adding them moves nothing. */
void sc_program_reserve (ScProgram *p, guint32 n_ops);

static inline ScOp *
sc_program_work (ScProgram *p, guint8 stream, guint16 tag, ScTime duration)
{
  return sc_program_add_op (p, SC_OP_WORK, stream, tag, SC_NONE, duration);
}

static inline ScOp *
sc_program_call (ScProgram *p, guint8 stream, guint32 call)
{
  return sc_program_add_op (p, SC_OP_CALL, stream, 0, call, 0);
}

static inline ScOp *
sc_program_record (ScProgram *p, guint8 stream, guint32 event)
{
  return sc_program_add_op (p, SC_OP_RECORD, stream, 0, event, 0);
}

static inline ScOp *
sc_program_wait (ScProgram *p, guint8 stream, guint32 event)
{
  return sc_program_add_op (p, SC_OP_WAIT, stream, 0, event, 0);
}

static inline ScOp *
sc_program_mem (ScProgram *p, guint8 stream, guint16 tag, gint64 bytes)
{
  return sc_program_add_op (p, SC_OP_MEM, stream, tag, SC_NONE, bytes);
}
