/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine-setup.c - the state of an engine before its first event, and its end. */
#include "sim/engine-parts.h"
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define HUGE_PAGE ((gsize) 2 << 20)
#define HUGE_FROM (16 * HUGE_PAGE) /* smaller ones gain nothing */

/* Room for @n elements, for g_free().  Tables of a large run are filled in hundreds of places at once, each actor at its own: with pages of
 * 4 KiB every other access waits for the address of its page.  Asking for large ones is free to fail. */
static gpointer
table_new (gsize n, gsize size)
{
  gpointer table = NULL;
#if defined (__linux__) && defined (MADV_HUGEPAGE)
  if (n >= HUGE_FROM / size && posix_memalign (&table, HUGE_PAGE, n * size) == 0)
    {
      (void) madvise (table, n * size, MADV_HUGEPAGE);
      return table;
    }
#endif
  return g_malloc_n (MAX (n, 1), size);
}

static Hold *
holds_new (const ScProgram *p)
{
  Hold *const holds = g_new0 (Hold, MAX (p->calls->len, 1));
  for (guint32 c = 0; c < p->calls->len; c++)
    for (guint i = 0; i < SC_N_HOLDS; i++)
      {
        const double share = g_array_index (p->calls, ScCall, c).hold[i];
        holds[c].of[i] = (guint32) lround (share * HOLD_ONE);
        holds[c].any |= share > 0;
      }
  return holds;
}

/* What the ops of @actor say about its host: found once for all that share them. */
static void
host_init (Engine *e, guint32 actor)
{
  const ScActor *const def = &e->actors[actor];
  Actor *const state = &e->states[actor];
  state->next_sync = SC_NONE;
  if (def->model != actor) /* an earlier one */
    {
      state->has_host = e->states[def->model].has_host;
      state->next_sync = e->states[def->model].next_sync;
      return;
    }
  for (guint32 i = def->first_stored; i < ops_end (def); i++)
    {
      state->has_host |= e->ops[i].issue_ns > 0 || e->ops[i].kind == SC_OP_HOST_WAIT;
      if (e->ops[i].kind == SC_OP_HOST_WAIT && state->next_sync == SC_NONE)
        state->next_sync = i;
    }
}

static void
actor_init (Engine *e, guint32 actor)
{
  const ScProgram *const p = e->program;
  const ScActor *const def = &e->actors[actor];
  Actor *const state = &e->states[actor];
  state->shift = sc_actor_shift (def);
  state->event_shift = def->event_shift;
  state->first_ready = def->first_ready;
  state->one_queue = def->one_queue;
  state->call_ids = def->first_call != SC_NONE ? &g_array_index (p->call_ids, guint32, def->first_call) : NULL;
  state->queue_head = queue_seek (e, def, def->first_stored);
  host_init (e, actor);
  for (guint32 s = 0; s < def->n_streams; s++)
    {
      Stream *const stream = &e->streams[def->first_stream + s];
      stream->actor = actor;
      stream->shift = state->shift;
      stream->op = g_array_index (p->stream_first, guint32, def->first_stream + s);
    }
}

/* Issue times of all stored ops. */
static void
prefix_init (Engine *e)
{
  e->prefix = table_new (e->program->ops->len, sizeof (ScTime));
  for (guint32 a = 0; a < e->program->actors->len; a++)
    {
      const ScActor *const def = &e->actors[a];
      ScTime issued = 0;
      for (guint32 i = def->first_stored; i < ops_end (def) && def->model == a; i++)
        {
          issued = MIN (issued + (ScTime) e->ops[i].issue_ns * 1000, e->limit);
          e->prefix[i] = issued;
        }
    }
}

void
sc_engine_init (Engine *e, const ScProgram *p, const ScJump *jumps)
{
  *e = (Engine) { .program = p, .ops = (const ScOp *) (gconstpointer) p->ops->data,
                  .calls = (const ScCall *) (gconstpointer) p->calls->data,
                  .actors = (const ScActor *) (gconstpointer) p->actors->data,
                  .jumps = jumps };
  e->streams = g_new0 (Stream, MAX (p->n_streams, 1));
  e->states = g_new0 (Actor, MAX (p->actors->len, 1));
  e->groups = g_new0 (Group, MAX (p->groups->len, 1));
  e->events = table_new (p->n_events, sizeof (Event));
  e->ready = g_new (guint32, MAX (p->n_streams, 1));
  e->holds = holds_new (p);
  e->limit = sc_time_from_s (SC_TIME_MAX_S);
  e->flows = sc_flows_new ((const double *) (gconstpointer) p->links->data, p->links->len);
  sc_eventq_init (&e->queue);
  e->trace = g_new0 (ScTrace, 1);
  e->trace->n_ops = p->n_ops;
  e->trace->n_call_ops = p->n_call_ops;
  e->trace->spans = table_new (p->n_ops, sizeof (ScSpan));
  e->trace->ready = table_new (p->n_call_ops, sizeof (ScTime));
  for (guint32 i = 0; i < p->n_events; i++)
    e->events[i] = (Event) { SC_TIME_NONE, SC_NONE, SC_NONE };
  for (guint32 i = 0; i < p->groups->len; i++)
    e->groups[i] = (Group) { .n_members = g_array_index (p->groups, guint32, i), .joined = SC_NONE };

  gboolean any_host = FALSE, any_queue = FALSE;
  for (guint32 a = 0; a < p->actors->len; a++)
    {
      actor_init (e, a);
      any_queue |= e->actors[a].one_queue;
      any_host |= e->states[a].has_host;
    }
  if (any_host)
    prefix_init (e);
  if (any_queue)
    e->started = g_new0 (guint8, p->n_ops);
  e->next_jump = sc_engine_jump_after (e, -1);
}

void
sc_engine_clear (Engine *e)
{
  for (guint32 i = 0; i < e->program->groups->len; i++)
    g_free (e->groups[i].before);
  g_free (e->streams);
  g_free (e->states);
  g_free (e->groups);
  g_free (e->events);
  g_free (e->holds);
  g_free (e->prefix);
  g_free (e->started);
  g_free (e->ready);
  sc_flows_free (e->flows);
  sc_meter_free (e->meter);
  sc_eventq_clear (&e->queue);
  sc_trace_free (e->trace);
}
