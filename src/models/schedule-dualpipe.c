/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-dualpipe.c - two pipelines against each other, and the same folded into a V (MODELLING 7.2). */
#include "models/schedule.h"

/* What the two forms share: a rank far from where its phases meet runs more of phase 0 ahead. */
typedef struct
{
  const ScScheduleShape *s;
  GArray *slots;
  guint   chunk[2], first[2];      /* of each phase: its chunk and its first micro-batch */
  guint   n_forward[2], n_input[2]; /* so far */
  GQueue  weights;                 /* ScSlot that wait, owned */
} Writer;

static ScSlot
slot_of (const Writer *w, ScPass pass, guint phase, guint n)
{
  return (ScSlot) { .pass = (guint8) pass, .chunk = (guint16) w->chunk[phase], .microbatch = w->first[phase] + n };
}

static void
forward (Writer *w, guint phase)
{
  const ScSlot slot = slot_of (w, SC_PASS_FORWARD, phase, w->n_forward[phase]++);
  g_array_append_val (w->slots, slot);
}

/* @split: the weight gradient waits for its turn. */
static void
backward (Writer *w, guint phase, gboolean split)
{
  const guint n = w->n_input[phase]++;
  const ScSlot slot = slot_of (w, split ? SC_PASS_INPUT : SC_PASS_BACKWARD, phase, n), weight = slot_of (w, SC_PASS_WEIGHT, phase, n);
  g_array_append_val (w->slots, slot);
  if (split)
    g_queue_push_tail (&w->weights, g_memdup2 (&weight, sizeof weight));
}

/* The weight gradient that waits longest. */
static void
weights (Writer *w)
{
  g_autofree ScSlot *slot = g_queue_pop_head (&w->weights);
  g_array_append_val (w->slots, *slot);
}

static void
pair (Writer *w, guint forward_phase, guint backward_phase)
{
  forward (w, forward_phase);
  backward (w, backward_phase, FALSE);
  g_array_index (w->slots, ScSlot, w->slots->len - 1).paired = TRUE;
}

/* @near: ranks between this one and where it enters; @half: ranks of a half; @n_pairs: of the steady state. */
static void
order (Writer *w, guint near, guint half, guint n_pairs)
{
  const guint far = half - near - 1;
  for (guint i = 0; i < 2 * far; i++)
    forward (w, 0);
  for (guint i = 0; i < near + 1; i++)
    {
      forward (w, 0);
      forward (w, 1);
    }
  for (guint i = 0; i < far; i++)
    {
      backward (w, 1, TRUE);
      weights (w);
      forward (w, 1);
    }
  for (guint i = 0; i < n_pairs; i++)
    {
      if (i == 0 && far == 0) /* here the two phases meet: nothing to overlap with yet */
        {
          forward (w, 0);
          backward (w, 1, FALSE);
        }
      else
        pair (w, 0, 1);
      pair (w, 1, 0);
    }
  for (guint i = 0; i < far; i++)
    {
      backward (w, 1, FALSE);
      pair (w, 1, 0);
    }
  gboolean split = FALSE; /* from the middle of what is left on */
  for (guint i = 0; i < near + 1; i++)
    {
      split |= i == (near + 1) / 2 && near % 2 == 1;
      backward (w, 1, split);
      split |= i == (near + 1) / 2;
      backward (w, 0, split);
    }
  for (guint i = 0; i < far; i++)
    {
      weights (w);
      backward (w, 0, TRUE);
    }
  while (!g_queue_is_empty (&w->weights))
    weights (w);
}

static const char *
refuse_dualpipe (const ScScheduleShape *s)
{
  if (s->p < 2 || s->p % 2 != 0 || s->v != 1)
    return "dualpipe needs an even number of pipeline ranks and vpp 1 (each rank holds a stage of either direction)";
  return s->m % 2 != 0 || s->m < 2 * s->p ? "dualpipe needs an even number of micro-batches, 2 pp or more" : NULL;
}

static void
order_dualpipe (const ScScheduleShape *s, guint rank, GArray *slots)
{
  const guint near = MIN (rank, s->p - 1 - rank), own = rank < s->p / 2 ? 0 : 1; /* the direction that enters on this side */
  Writer w = { .s = s, .slots = slots, .chunk = { own, 1 - own }, .first = { own * s->m / 2, (1 - own) * s->m / 2 } };
  g_queue_init (&w.weights);
  order (&w, near, s->p / 2, s->m / 2 - s->p + near + 1);
}

static guint
in_flight_dualpipe (const ScScheduleShape *s, guint rank)
{
  (void) rank;
  return s->p + 1;
}

static const char *
refuse_dualpipev (const ScScheduleShape *s)
{
  if (s->p < 2 || s->v != 2)
    return "dualpipev needs at least two pipeline ranks and two chunks per rank (vpp 2)";
  return s->m < 2 * s->p ? "dualpipev needs 2 pp micro-batches or more" : NULL;
}

static void
order_dualpipev (const ScScheduleShape *s, guint rank, GArray *slots)
{
  Writer w = { .s = s, .slots = slots, .chunk = { 0, 1 } };
  g_queue_init (&w.weights);
  order (&w, rank, s->p, s->m - 2 * s->p + rank + 1);
}

static guint
in_flight_dualpipev (const ScScheduleShape *s, guint rank)
{
  (void) rank;
  return 2 * s->p + 1;
}

const ScSchedule sc_schedule_dualpipe = {
  .name = "dualpipe",
  .summary = "two pipelines against each other: a forward of the one with a backward of the other; parameters twice",
  .source = "DeepSeek-AI, arXiv 2412.19437, section 3.2.1; order as in deepseek-ai/DualPipe",
  .placement = SC_PLACE_BOTH,
  .refuse = refuse_dualpipe,
  .order = order_dualpipe,
  .in_flight = in_flight_dualpipe,
};

const ScSchedule sc_schedule_dualpipev = {
  .name = "dualpipev",
  .summary = "DualPipe cut in half: two chunks that go there and back, parameters once",
  .source = "deepseek-ai/DualPipe, dualpipev.py; PyTorch's ScheduleDualPipeV",
  .placement = SC_PLACE_V,
  .refuse = refuse_dualpipev,
  .order = order_dualpipev,
  .in_flight = in_flight_dualpipev,
};
