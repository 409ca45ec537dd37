/* SPDX-License-Identifier: GPL-3.0-or-later */
/* trace.h - what happened: start and end of every op, and when the members of a call had met.
 * Layer: sim. */
#pragma once
#include "sim/usage.h"

/* Times of one op.  WORK: start and end of the work.  CALL: `start` = joined, `ready` = the last member joined,
 * `end` = done.  WAIT: from reaching it to passing it.  RECORD, MEM: start == end.
 * Between the end of an op and the start of the next one on its stream the stream had nothing issued (host) or stood
 * in the one hardware queue. */
typedef struct
{
  ScTime start, end;
} ScSpan;

typedef struct
{
  ScSpan  *spans;  /* [n_ops], by id; every op has one: what deadlocks leaves no trace */
  ScTime  *ready;  /* [n_call_ops], by ScActor.first_ready: of CALLs; what is none is ready as it starts */
  guint32  n_ops, n_call_ops;
  ScTime   end;    /* of the last op */
  guint64  n_events;   /* heap events processed */
  guint64  n_tasks;    /* ops and messages executed */
  guint64  n_solves;   /* max-min solutions computed (components) */
  double  *link_bytes; /* [n_links] streams x bytes that crossed each link */
  ScUsage *usage;      /* of the links over time; NULL unless asked for */
} ScTrace;

/* When op @id, which is @op as sc_program_op() says, had all it needed: see ScSpan. */
static inline ScTime
sc_trace_ready (const ScTrace *trace, guint32 id, const ScOp *op)
{
  return op->kind == SC_OP_CALL ? trace->ready[op->value] : trace->spans[id].start;
}

void sc_trace_free (ScTrace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScTrace, sc_trace_free)
