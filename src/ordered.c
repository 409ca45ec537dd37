/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ordered.c - threads take the next item from a counter; the caller takes results from a ring. */
#include "ordered.h"

#define TICK_US 100000
#define WINDOW 64 /* items for each thread that may be done or under way before the first of them is taken */

typedef struct
{
  gpointer result;
  gboolean done;
} Slot;

/* What the threads share.  Each holds a reference, since the caller may leave before them. */
typedef struct
{
  ScOrdered how;
  GMutex  lock;
  GCond   room;  /* an item may be begun */
  GCond   ready; /* an item is done, or a thread has gone */
  Slot   *ring;  /* [window] item i lies in i mod window */
  guint64 window;
  guint64 next;  /* to be begun */
  guint64 taken;
  gboolean stop;
} Ring;

static void
ring_clear (gpointer data)
{
  Ring *const r = data;
  for (guint64 i = r->taken; i < r->next; i++)
    {
      Slot *const slot = &r->ring[i % r->window];
      if (slot->done && r->how.drop != NULL && slot->result != NULL)
        r->how.drop (slot->result);
    }
  if (r->how.shared_free != NULL)
    r->how.shared_free (r->how.shared);
  g_free (r->ring);
  g_mutex_clear (&r->lock);
  g_cond_clear (&r->room);
  g_cond_clear (&r->ready);
}

static void
ring_unref (Ring *ring)
{
  g_atomic_rc_box_release_full (ring, ring_clear);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Ring, ring_unref)

/* The next item, once there is room for its result; FALSE: there is none. */
static gboolean
begin_item (Ring *r, guint64 *ret_item)
{
  g_mutex_lock (&r->lock);
  while (!r->stop && r->next < r->how.n && r->next - r->taken >= r->window)
    g_cond_wait (&r->room, &r->lock);
  const gboolean any = !r->stop && r->next < r->how.n;
  if (any)
    {
      *ret_item = r->next++;
      r->ring[*ret_item % r->window].done = FALSE;
    }
  g_mutex_unlock (&r->lock);
  return any;
}

static void
end_item (Ring *r, guint64 item, gpointer result)
{
  g_mutex_lock (&r->lock);
  r->ring[item % r->window] = (Slot) { result, TRUE };
  if (item == r->taken)
    g_cond_signal (&r->ready);
  g_mutex_unlock (&r->lock);
}

static gpointer
work (gpointer data)
{
  g_autoptr (Ring) r = data;
  const ScOrdered *const how = &r->how;
  const gpointer own = how->start != NULL ? how->start (how->shared) : NULL;
  guint64 item;
  while (begin_item (r, &item))
    end_item (r, item, how->work (how->shared, own, item));
  if (how->finish != NULL)
    how->finish (own);
  return NULL;
}

/* Waits for the first result that was not taken; FALSE: told to stop. */
static gboolean
wait_for (Ring *r, gpointer *ret_result)
{
  Slot *const slot = &r->ring[r->taken % r->window];
  for (;;)
    {
      g_mutex_lock (&r->lock);
      const gint64 until = g_get_monotonic_time () + TICK_US;
      gboolean late = FALSE;
      while (!slot->done && !late)
        if (r->how.tick != NULL)
          late = !g_cond_wait_until (&r->ready, &r->lock, until);
        else
          g_cond_wait (&r->ready, &r->lock);
      if (!late)
        {
          *ret_result = slot->result;
          slot->done = FALSE;
          r->taken++;
          g_cond_signal (&r->room);
        }
      g_mutex_unlock (&r->lock);
      if (!late)
        return TRUE;
      if (!r->how.tick (r->how.data))
        return FALSE;
    }
}

static void
stop (Ring *r)
{
  g_mutex_lock (&r->lock);
  r->stop = TRUE;
  g_cond_broadcast (&r->room);
  g_mutex_unlock (&r->lock);
}

/* Alone and with nobody to ask in between, the calling thread does it all. */
static guint64
run_alone (const ScOrdered *how)
{
  const gpointer own = how->start != NULL && how->n > 0 ? how->start (how->shared) : NULL;
  guint64 i = 0;
  while (i < how->n)
    {
      const gpointer result = how->work (how->shared, own, i);
      i++;
      if (how->take != NULL && !how->take (how->data, i - 1, result))
        break;
    }
  if (how->finish != NULL && own != NULL)
    how->finish (own);
  if (how->shared_free != NULL)
    how->shared_free (how->shared);
  return i;
}

guint64
sc_ordered_run (const ScOrdered *how)
{
  g_return_val_if_fail (how->work != NULL && (how->tick == NULL || how->shared_free != NULL), 0);
  const guint wanted = how->jobs != 0 ? how->jobs : g_get_num_processors ();
  const guint jobs = (guint) MIN (MIN ((guint64) wanted, MAX (how->n, 1)), SC_ORDERED_MAX_JOBS);
  if (jobs == 1 && how->tick == NULL)
    return run_alone (how);

  g_autoptr (Ring) r = g_atomic_rc_box_new0 (Ring);
  r->how = *how;
  r->window = (guint64) jobs * WINDOW;
  r->ring = g_new0 (Slot, r->window);
  g_mutex_init (&r->lock);
  g_cond_init (&r->room);
  g_cond_init (&r->ready);
  g_autofree GThread **threads = g_new0 (GThread *, jobs);
  for (guint i = 0; i < jobs; i++)
    threads[i] = g_thread_new ("work", work, g_atomic_rc_box_acquire (r));

  gboolean told = how->tick != NULL && !how->tick (how->data); /* to stop at once */
  for (gpointer result; !told && r->taken < how->n;)
    {
      told = !wait_for (r, &result);
      if (told || (how->take != NULL && !how->take (how->data, r->taken - 1, result)))
        break;
      told = how->tick != NULL && !how->tick (how->data);
    }
  const guint64 taken = r->taken;
  stop (r);
  for (guint i = 0; i < jobs; i++)
    if (told)
      g_thread_unref (threads[i]);
    else
      g_thread_join (threads[i]);
  return taken;
}
