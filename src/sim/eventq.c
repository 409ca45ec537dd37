/* SPDX-License-Identifier: GPL-3.0-or-later */
/* eventq.c - a 4-ary heap: shallower than a binary one, and its four children share a cache line or two. */
#include "sim/eventq.h"

#define PREFETCH_FROM 16384 /* events: what a level-2 cache holds */

void
sc_eventq_init (ScEventQueue *queue)
{
  *queue = (ScEventQueue) { 0 };
}

void
sc_eventq_clear (ScEventQueue *queue)
{
  g_free (queue->heap);
  sc_eventq_init (queue);
}

__extension__ typedef unsigned __int128 Key;

/* Time, then sequence number, as one number: a branch on a random time is what a heap mostly costs, and one wide
 * comparison has none. */
static inline Key
event_key (const ScEvent *event)
{
  return (Key) (guint64) event->time << 64 | event->seq;
}

static inline gboolean
event_before (const ScEvent *a, const ScEvent *b)
{
  return event_key (a) < event_key (b);
}

/* Puts @event into the vacant place @i and lets it sink. */
static inline void
sink_from (ScEventQueue *queue, gsize i, ScEvent event)
{
  ScEvent *const heap = queue->heap;
  const gsize n = queue->n;
  for (;;)
    {
      const gsize child = 4 * i + 1;
      if (child >= n)
        break;
      if (n > PREFETCH_FROM) /* the grandchildren are on their way while the children are compared */
        for (gsize k = 0; k < 16 * sizeof (ScEvent); k += 64)
          __builtin_prefetch ((const char *) (heap + 4 * child + 1) + k);
      gsize least = child;
      if (child + 4 <= n) /* all four: a knock-out, whose first two comparisons do not wait for each other */
        {
          const gsize left = child + event_before (&heap[child + 1], &heap[child]);
          const gsize right = child + 2 + event_before (&heap[child + 3], &heap[child + 2]);
          least = event_before (&heap[right], &heap[left]) ? right : left;
        }
      else
        for (gsize c = child + 1; c < n; c++)
          least = event_before (&heap[c], &heap[least]) ? c : least;
      if (!event_before (&heap[least], &event))
        break;
      heap[i] = heap[least];
      i = least;
    }
  heap[i] = event;
}

static void
sink (ScEventQueue *queue, ScEvent event)
{
  sink_from (queue, 0, event);
}

void
sc_eventq_fill_hole (ScEventQueue *queue)
{
  queue->hole = FALSE;
  if (--queue->n > 0)
    sink (queue, queue->heap[queue->n]);
}

void
sc_eventq_push (ScEventQueue *queue, ScTime time, guint32 id, guint32 what)
{
  const ScEvent event = { time, queue->seq++, id, what };
  if (queue->hole)
    {
      queue->hole = FALSE;
      sink (queue, event);
      return;
    }
  if (queue->n == queue->allocated)
    {
      queue->allocated = MAX (64, queue->allocated * 2);
      queue->heap = g_renew (ScEvent, queue->heap, queue->allocated);
    }
  gsize i = queue->n++;
  while (i > 0)
    {
      const gsize parent = (i - 1) / 4;
      if (!event_before (&event, &queue->heap[parent]))
        break;
      queue->heap[i] = queue->heap[parent];
      i = parent;
    }
  queue->heap[i] = event;
}

ScEvent
sc_eventq_pop (ScEventQueue *queue)
{
  if (queue->hole)
    sc_eventq_fill_hole (queue);
  queue->hole = TRUE;
  return queue->heap[0];
}

void
sc_eventq_move (ScEventQueue *queue, ScTime (*time_of) (gpointer data, const ScEvent *event), gpointer data)
{
  if (queue->hole)
    sc_eventq_fill_hole (queue);
  for (gsize i = 0; i < queue->n; i++)
    queue->heap[i].time = time_of (data, &queue->heap[i]);
  for (gsize i = queue->n; i-- > 0;)
    sink_from (queue, i, queue->heap[i]);
}
