/* SPDX-License-Identifier: GPL-3.0-or-later */
/* critical.h - the critical path of a step: the chain of work, communication and issue that its end waited for.
 * Layer: models.
 *
 * From the op that ends last one goes back to what it could not start without, and so on to time 0: the op before it on its stream, the
 * event it waited for, the member that came last to its call, what stood before it in the one hardware queue, or the host that had not issued
 * it.  Where several things ended at that very time, the nearest one (its own stream's) is taken.  Segments lie end to end, so that
 * they add up to the end of the trace (the step, but for plan.post_validation) to the last picosecond; to save a second of one of them saves at most a second of the step. */
#pragma once
#include "models/category.h"
#include "sim/trace.h"

typedef struct
{
  ScTime     from, to; /* to > from */
  ScTimeKind kind;     /* never bubble or late peer: the path is with whom one waits for */
  guint32    class_id; /* whose */
  guint32    op;       /* id of the op that ran; SC_NONE: the host issued, or nothing was to be done yet */
} ScCriticalSegment;

/* @program: tags of WORK and of calls are ScTimeKind.  Ascending, without gap from 0 to trace->end; caller unrefs. */
GArray *sc_critical_path (const ScProgram *program, const ScTrace *trace);
