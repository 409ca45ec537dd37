/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-v.c - V-Half and V-Min: a building block of two chunks that go there and back, repeated, its ends squeezed together without
 * more memory (Qi et al., arXiv 2405.15362, sections 3 and 4; MODELLING 7.2). */
#include "models/schedule.h"
#include <stdlib.h>
#include <string.h>

/* Passes of a rank in a block, in order of dependence; weight gradients last, of both chunks or of chunk 1 and chunk 0. */
typedef enum
{
  F0,
  F1,
  I1,
  I0,
  W,
  W_OTHER,
  N_KINDS
} Kind;

#define PERIOD 6 /* slots of a block: two forwards, two input and two weight gradients */

/* Slots, from 0, at which a rank begins its passes: [kind] gint, ascending, by micro-batch (W of both chunks: in order). */
typedef struct
{
  GArray *at[N_KINDS];
} Times;

static gint
time_at (const Times *t, guint kind, guint n)
{
  return g_array_index (t->at[kind], gint, n);
}

static gint
last_of (const Times *t)
{
  gint last = 0;
  for (guint kind = 0; kind < N_KINDS; kind++)
    if (t->at[kind]->len > 0)
      last = MAX (last, time_at (t, kind, t->at[kind]->len - 1));
  return last;
}

/* A pass of the whole pipeline, for walks in order of time. */
typedef struct
{
  gint  time;
  guint rank, kind, n;
} Event;

static int
compare_events (gconstpointer a, gconstpointer b)
{
  const Event *const x = a, *const y = b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if (x->rank != y->rank)
    return x->rank < y->rank ? -1 : 1;
  return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : (x->n > y->n) - (x->n < y->n);
}

static GArray *
events_of (const Times *times, guint first, guint n_ranks)
{
  GArray *const events = g_array_new (FALSE, FALSE, sizeof (Event));
  for (guint rank = first; rank < first + n_ranks; rank++)
    for (guint kind = 0; kind < N_KINDS; kind++)
      for (guint n = 0; n < times[rank].at[kind]->len; n++)
        {
          const Event e = { time_at (&times[rank], kind, n), rank, kind, n };
          g_array_append_val (events, e);
        }
  g_array_sort (events, compare_events);
  return events;
}

/* Weight gradients into the slots that are free, first come first served; @apart: chunk 1's before chunk 0's. */
static void
put_weights (Times *t, gboolean apart)
{
  guint waiting[2] = { 0, 0 }, next[W] = { 0, 0, 0, 0 };
  const gint last = last_of (t);
  gint slot;
  for (slot = 0; slot <= last; slot++)
    {
      gboolean taken = FALSE;
      for (guint kind = 0; kind < W && !taken; kind++)
        if (next[kind] < t->at[kind]->len && time_at (t, kind, next[kind]) == slot)
          {
            next[kind]++;
            waiting[apart && kind == I0 ? 1 : 0] += kind == I1 || kind == I0 ? 1 : 0;
            taken = TRUE;
          }
      for (guint i = 0; i < 2 && !taken; i++)
        if (waiting[i] > 0)
          {
            g_array_append_val (t->at[W + i], slot);
            waiting[i]--;
            taken = TRUE;
          }
    }
  for (guint i = 0; i < 2; i++)
    for (; waiting[i] > 0; waiting[i]--, slot++)
      g_array_append_val (t->at[W + i], slot);
}

static void
drop_weights (Times *t)
{
  g_array_set_size (t->at[W], 0);
  g_array_set_size (t->at[W_OTHER], 0);
}

/* Most activations that a rank holds; where the weight gradients have no slots, they take the first free ones. */
static guint
memory_of (const Times *t)
{
  const gboolean has_weights = t->at[W]->len > 0;
  guint next[W_OTHER] = { 0, 0, 0, 0, 0 }, waiting = 0, held = 0, most = 0;
  const gint last = last_of (t);
  for (gint slot = 0; slot <= last; slot++)
    {
      gboolean taken = FALSE;
      for (guint kind = 0; kind < W_OTHER && !taken; kind++)
        if (next[kind] < t->at[kind]->len && time_at (t, kind, next[kind]) == slot)
          {
            next[kind]++;
            held = kind == F0 || kind == F1 ? held + 1 : kind == W ? held - 1 : held;
            waiting += kind == I1 || kind == I0 ? 1 : 0;
            taken = TRUE;
          }
      if (!taken && !has_weights && waiting > 0)
        {
          held--;
          waiting--;
        }
      most = MAX (most, held);
    }
  return most;
}

/* Slot before which @e cannot begin: behind what it depends on, one slot each. */
static gint
earliest (const Times *times, guint p, const Event *e)
{
  const Times *const t = &times[e->rank];
  gint after = -1;
  if ((e->kind == F0 || e->kind == I1) && e->rank > 0)
    after = MAX (after, time_at (&times[e->rank - 1], e->kind, e->n));
  if ((e->kind == F1 || e->kind == I0) && e->rank + 1 < p)
    after = MAX (after, time_at (&times[e->rank + 1], e->kind, e->n));
  if (e->kind > F0 && e->kind < W)
    after = MAX (after, time_at (t, e->kind - 1, e->n));
  if (e->kind == W) /* the n-th of either chunk */
    {
      guint i = 0, k = 0;
      gint input = 0;
      for (guint n = 0; n <= e->n; n++)
        input = k == t->at[I0]->len || (i < t->at[I1]->len && time_at (t, I1, i) < time_at (t, I0, k)) ? time_at (t, I1, i++)
                                                                                                       : time_at (t, I0, k++);
      after = MAX (after, input);
    }
  if (e->n > 0)
    after = MAX (after, time_at (t, e->kind, e->n - 1));
  return after + 1;
}

/* Every pass as early as its dependences and the order of its rank allow. */
static void
close_up (Times *times, guint p)
{
  g_autoptr (GArray) events = events_of (times, 0, p);
  g_autofree gint *next = g_new0 (gint, p);
  for (guint i = 0; i < events->len; i++)
    {
      const Event *const e = &g_array_index (events, Event, i);
      gint at = next[e->rank];
      if (e->kind < W)
        at = MAX (at, earliest (times, p, e));
      g_array_index (times[e->rank].at[e->kind], gint, e->n) = at;
      next[e->rank] = at + 1;
    }
}

/* Moves the passes of the first and the last blocks to earlier free slots where no rank then holds more than now. */
static void
squeeze (Times *times, guint p, guint m, gboolean with_weights)
{
  guint limit = 0;
  gint last = 0;
  for (guint rank = 0; rank < p; rank++)
    {
      if (with_weights)
        put_weights (&times[rank], FALSE);
      limit = MAX (limit, memory_of (&times[rank]));
      last = MAX (last, last_of (&times[rank]));
    }
  g_autoptr (GArray) events = events_of (times, 0, p);
  const gsize width = (gsize) last + 1;
  g_autofree gboolean *taken = g_new0 (gboolean, width * p);
  enum { WARM_UP, STEADY, COOL_DOWN } phase = WARM_UP;
  for (guint i = 0; i < events->len; i++)
    {
      const Event *const e = &g_array_index (events, Event, i);
      gint *const at = &g_array_index (times[e->rank].at[e->kind], gint, e->n);
      if (e->kind == I0 && e->rank == 0 && phase == WARM_UP)
        phase = STEADY;
      const gboolean stays = phase == STEADY || (phase == WARM_UP && !with_weights);
      if (phase == STEADY && e->kind == F0 && e->n == m - 1)
        phase = COOL_DOWN;
      if (!stays)
        {
          gboolean moved = FALSE;
          for (gint slot = earliest (times, p, e); slot < e->time && !moved; slot++)
            if (!taken[e->rank * width + slot])
              {
                *at = slot;
                moved = memory_of (&times[e->rank]) <= limit;
              }
          if (!moved)
            *at = e->time;
        }
      taken[e->rank * width + *at] = TRUE;
    }
  for (guint rank = 0; rank < p && !with_weights; rank++)
    put_weights (&times[rank], FALSE);
  close_up (times, p);
}

/* @block: the slots of rank r's F0, F1, I1, I0. */
static void
orders (const ScScheduleShape *s, void (*block) (guint p, guint rank, gint at[W]), GArray **ranks)
{
  const gint later = PERIOD * (gint) s->ahead; /* behind the last stage's forward: a block for each micro-batch more that is in flight */
  g_autofree Times *times = g_new (Times, s->p);
  for (guint rank = 0; rank < s->p; rank++)
    {
      gint at[W];
      block (s->p, rank, at);
      at[I1] += later;
      at[I0] += later;
      for (guint kind = 0; kind < N_KINDS; kind++)
        {
          times[rank].at[kind] = g_array_new (FALSE, FALSE, sizeof (gint));
          for (guint n = 0; kind < W && n < s->m; n++)
            {
              const gint slot = at[kind] + PERIOD * (gint) n;
              g_array_append_val (times[rank].at[kind], slot);
            }
        }
    }
  for (guint round = 0; round < 2; round++)
    {
      squeeze (times, s->p, s->m, round == 0);
      for (guint rank = 0; rank < s->p; rank++)
        drop_weights (&times[rank]);
    }
  static const ScPass passes[N_KINDS] = { SC_PASS_FORWARD, SC_PASS_FORWARD, SC_PASS_INPUT, SC_PASS_INPUT, SC_PASS_WEIGHT, SC_PASS_WEIGHT };
  static const guint chunks[N_KINDS] = { 0, 1, 1, 0, 1, 0 };
  for (guint rank = 0; rank < s->p; rank++)
    {
      put_weights (&times[rank], TRUE);
      g_autoptr (GArray) events = events_of (times, rank, 1);
      for (guint i = 0; i < events->len; i++)
        {
          const Event *const e = &g_array_index (events, Event, i);
          sc_schedule_put (ranks[rank], passes[e->kind], e->n, chunks[e->kind]);
        }
      for (guint kind = 0; kind < N_KINDS; kind++)
        g_array_unref (times[rank].at[kind]);
    }
}

static void
block_half (guint p, guint rank, gint at[W])
{
  const gint n = (gint) p, i = (gint) rank, gap = n % 2 == 0 ? 3 : 0;
  at[F0] = 2 * i;
  at[F1] = 3 * n - 2 - i;
  at[I1] = 3 * n - 1 + gap + 2 * i;
  at[I0] = 6 * n - 2 + gap - i;
}

static void
block_min (guint p, guint rank, gint at[W])
{
  const gint n = (gint) p, i = (gint) rank, gap = n % 3 == 0 ? 2 : 0;
  at[F0] = i;
  at[F1] = 2 * n - 1 - i;
  at[I1] = 2 * n + gap + i;
  at[I0] = 4 * n - 1 + gap - i;
}

static void
orders_half (const ScScheduleShape *s, const ScScheduleCosts *costs, GArray **ranks)
{
  (void) costs;
  orders (s, block_half, ranks);
}

static void
orders_min (const ScScheduleShape *s, const ScScheduleCosts *costs, GArray **ranks)
{
  (void) costs;
  orders (s, block_min, ranks);
}

static const char *
refuse_half (const ScScheduleShape *s)
{
  return s->p < 2 || s->v != 2 ? "v-half needs at least two pipeline ranks and two chunks per rank (vpp 2)" : NULL;
}

static const char *
refuse_min (const ScScheduleShape *s)
{
  return s->p < 2 || s->v != 2 ? "v-min needs at least two pipeline ranks and two chunks per rank (vpp 2)" : NULL;
}

const ScSchedule sc_schedule_v_half = {
  .name = "v-half",
  .summary = "two chunks there and back: about half of 1F1B's activations, about half of its bubble",
  .source = "Qi et al., arXiv 2405.15362, sections 3 and 4; squeezed as in sail-sg/zero-bubble-pipeline-parallelism, zbv_greedy.py",
  .placement = SC_PLACE_V,
  .refuse = refuse_half,
  .orders = orders_half,
};

const ScSchedule sc_schedule_v_min = {
  .name = "v-min",
  .summary = "two chunks there and back: about a third of 1F1B's activations, about two thirds of its bubble",
  .source = "Qi et al., arXiv 2405.15362, sections 3 and 4; squeezed as in sail-sg/zero-bubble-pipeline-parallelism, zbv_greedy.py",
  .placement = SC_PLACE_V,
  .refuse = refuse_min,
  .orders = orders_min,
};
