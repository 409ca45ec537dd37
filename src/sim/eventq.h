/* SPDX-License-Identifier: GPL-3.0-or-later */
/* eventq.h - the event queue: a 4-ary heap of small values in a total order, (time, sequence number).
 * Layer: sim.  Two events of one time leave in the order in which they entered, so ties are decided by us and not by
 * the heap.  There is no cancel: the owner bumps a version and drops stale events when they come out. */
#pragma once
#include "sim/types.h"

typedef struct
{
  ScTime  time;
  guint64 seq;  /* filled by push */
  guint32 id;   /* meaning is the owner's */
  guint32 what; /* meaning is the owner's */
} ScEvent;
G_STATIC_ASSERT (sizeof (ScEvent) == 24);

typedef struct
{
  ScEvent *heap;  /* [n] */
  gsize    n, allocated;
  guint64  seq;
  gboolean hole;  /* the root has been taken, and its place is kept for what is pushed next: one way through the heap
                     instead of two, and most events are followed by another of the same stream */
} ScEventQueue;

void sc_eventq_init (ScEventQueue *queue);
void sc_eventq_clear (ScEventQueue *queue); /* frees its storage */
void sc_eventq_push (ScEventQueue *queue, ScTime time, guint32 id, guint32 what);

/* Gives each event its new time; those of one new time stay in the order in which they entered. */
void sc_eventq_move (ScEventQueue *queue, ScTime (*time_of) (gpointer data, const ScEvent *event), gpointer data);

/* Takes the earliest event; the queue must not be empty. */
ScEvent sc_eventq_pop (ScEventQueue *queue);

static inline gboolean
sc_eventq_is_empty (const ScEventQueue *queue)
{
  return queue->n == (gsize) queue->hole;
}

void sc_eventq_fill_hole (ScEventQueue *queue); /* the queue's own */

/* Time of the earliest event; the queue must not be empty. */
static inline ScTime
sc_eventq_next_time (ScEventQueue *queue)
{
  if (queue->hole)
    sc_eventq_fill_hole (queue);
  return queue->heap[0].time;
}
