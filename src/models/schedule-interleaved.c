/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-interleaved.c - 1F1B over v chunks per rank, in Megatron's order (MODELLING 7.2). */
#include "models/schedule.h"

/* The n-th forward of every rank: groups of g micro-batches go through chunk 0, then chunk 1, ...; the last group may
 * be smaller.  The n-th backward is the same with the chunks turned round. */
static ScSlot
table_at (const ScScheduleShape *s, guint n)
{
  const guint group = n / (s->g * s->v); /* full groups before this one */
  const guint first = group * s->g, size = MIN (s->g, s->m - first), rest = n - group * s->g * s->v;
  return (ScSlot) { .pass = SC_PASS_FORWARD, .chunk = (guint16) (rest / size), .microbatch = first + rest % size };
}

static void
put (const ScScheduleShape *s, ScPass pass, guint n, GArray *slots)
{
  const ScSlot at = table_at (s, n);
  sc_schedule_put (slots, pass, at.microbatch, pass == SC_PASS_FORWARD ? at.chunk : s->v - 1 - at.chunk);
}

static guint
warm_up (const ScScheduleShape *s, guint rank)
{
  return MIN (2 * (s->p - 1 - rank) + (s->v - 1) * s->g, s->m * s->v);
}

static const char *
refuse_interleaved (const ScScheduleShape *s)
{
  if (s->p < 2 || s->v < 2)
    return "interleaved needs at least two pipeline ranks and two chunks per rank";
  if (s->g < s->p || s->g > s->m)
    return "the micro-batch group must hold at least pp and at most all micro-batches (global_batch / dp / micro_batch)";
  if (s->m % s->g != 0 && s->m % s->g < s->p)
    return "the last micro-batch group must be empty or hold at least pp micro-batches";
  return NULL;
}

static void
order_interleaved (const ScScheduleShape *s, guint rank, GArray *slots)
{
  const guint total = s->m * s->v, w = warm_up (s, rank);
  for (guint n = 0; n < w; n++)
    put (s, SC_PASS_FORWARD, n, slots);
  for (guint n = 0; n < total - w; n++)
    {
      put (s, SC_PASS_FORWARD, w + n, slots);
      put (s, SC_PASS_BACKWARD, n, slots);
      g_array_index (slots, ScSlot, slots->len - 1).joined = TRUE; /* Megatron exchanges all four tensors of a pair at once */
    }
  for (guint n = total - w; n < total; n++)
    put (s, SC_PASS_BACKWARD, n, slots);
}

static guint
in_flight_interleaved (const ScScheduleShape *s, guint rank)
{
  return MIN (warm_up (s, rank) + 1, s->m * s->v);
}

static double
ideal_bubble_interleaved (const ScScheduleShape *s)
{
  return (s->p - 1) / ((double) s->m * s->v);
}

const ScSchedule sc_schedule_interleaved = {
  .name = "interleaved",
  .summary = "1F1B over v chunks per rank: the bubble shrinks by v, the boundaries grow by v",
  .source = "Narayanan et al., arXiv 2104.04473, section 2.2; order as in NVIDIA/Megatron-LM schedules.py",
  .exchanges = TRUE,
  .refuse = refuse_interleaved,
  .order = order_interleaved,
  .in_flight = in_flight_interleaved,
  .ideal_bubble = ideal_bubble_interleaved,
};
