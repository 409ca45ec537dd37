/* SPDX-License-Identifier: GPL-3.0-or-later */
/* segments.h - what the compute stream of a class did at every instant of the step, for drawings and traces.
 *
 * A wait is split at the instant when the peer was ready: before it bubble (pipeline) or late peer (collectives),
 * after it communication; so the segments of a class, summed by kind, are its parts of the step.
 * Layer: models. */
#pragma once
#include "models/category.h"
#include "sim/trace.h"

typedef struct
{
  ScTime     from, to; /* to > from */
  ScTimeKind kind;
  guint32    op;       /* id of the op that was running or waited for; SC_NONE: nothing issued */
  gboolean   waiting;  /* the stream stood in a WAIT (or between ops), it executed nothing */
} ScSegment;

/* Who records an event and what stands before an op on its stream: worked out once per program. */
typedef struct _ScSegments ScSegments;

/* @program: its actors' stream 0 computes, tags of WORK and of calls are ScTimeKind; @step: the end of the step.
 * Borrowed, must outlive the result. */
ScSegments *sc_segments_new (const ScProgram *program, const ScTrace *trace, ScTime step);
void        sc_segments_free (ScSegments *segments);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSegments, sc_segments_free)

/* Segments of class @class_id, ascending, without gap from 0 to the step's end: ScSegment, caller unrefs. */
GArray *sc_segments_of_class (const ScSegments *segments, guint class_id);

/* Their lengths between @begin and @end, added to ret_time[SC_N_TIMES] by kind. */
void sc_segments_sum (const ScSegments *segments, guint class_id, ScTime begin, ScTime end, ScTime *ret_time);
