/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ordered.h - work in threads, results in order: what comes out does not hang on how many threads there are.
 * Layer: src.  Results wait for those before them in a window of fixed size, so memory does not grow with the number of items. */
#pragma once
#include <glib.h>

typedef struct
{
  guint64 n;    /* items, 0..n-1 */
  guint   jobs; /* threads that work; 0: one for each processor */

  gpointer shared;              /* for start and work, in all threads */
  GDestroyNotify shared_free;   /* NULL: it stays with the caller, who then must not set tick.  Else when the last thread has gone, perhaps after sc_ordered_run() */
  gpointer (*start) (gpointer shared); /* a thread's own context; NULL: none */
  GDestroyNotify finish;        /* of it */

  /* In any thread.  NULL is a result like any other. */
  gpointer (*work) (gpointer shared, gpointer own, guint64 item);
  GDestroyNotify drop; /* of results that nobody takes; NULL: nothing to free */

  /* In the calling thread, in the order of items; @result is yours.  FALSE: stop.  NULL: all results are. */
  gboolean (*take) (gpointer data, guint64 item, gpointer result);
  /* In the calling thread, some ten times a second; NULL: nothing to ask.  FALSE: stop now; work in progress is left alone with @shared. */
  gboolean (*tick) (gpointer data);
  gpointer data;
} ScOrdered;

/* Most threads, whatever is wanted. */
#define SC_ORDERED_MAX_JOBS 1024

/* How many items were taken: n, unless something stopped it. */
guint64 sc_ordered_run (const ScOrdered *how);
