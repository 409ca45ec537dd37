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

/* @more: forwards beside those that the first backward needs. */
static guint
warm_up (const ScScheduleShape *s, guint rank, guint more)
{
  return MIN (2 * (s->p - 1 - rank) + (s->v - 1) * s->g + more, s->m * s->v);
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

/* Forwards, pairs of a forward and a backward, backwards.  @joined, @paired: of the second of a pair. */
static void
put_pairs (const ScScheduleShape *s, guint w, gboolean joined, gboolean paired, GArray *slots)
{
  const guint total = s->m * s->v;
  for (guint n = 0; n < w; n++)
    put (s, SC_PASS_FORWARD, n, slots);
  for (guint n = 0; n < total - w; n++)
    {
      put (s, SC_PASS_FORWARD, w + n, slots);
      put (s, SC_PASS_BACKWARD, n, slots);
      g_array_index (slots, ScSlot, slots->len - 1).joined = (guint8) joined;
      g_array_index (slots, ScSlot, slots->len - 1).paired = (guint8) paired;
    }
  for (guint n = total - w; n < total; n++)
    put (s, SC_PASS_BACKWARD, n, slots);
}

static void
order_interleaved (const ScScheduleShape *s, guint rank, GArray *slots)
{
  put_pairs (s, warm_up (s, rank, 0), TRUE, FALSE, slots); /* Megatron exchanges all four tensors of a pair at once */
}

static guint
in_flight_interleaved (const ScScheduleShape *s, guint rank)
{
  return MIN (warm_up (s, rank, 0) + 1, s->m * s->v);
}

static double
ideal_bubble_interleaved (const ScScheduleShape *s)
{
  return (s->p - 1) / ((double) s->m * s->v);
}

static guint
period_interleaved (const ScScheduleShape *s)
{
  return s->g;
}

const ScSchedule sc_schedule_interleaved = {
  .name = "interleaved",
  .summary = "1F1B over v chunks per rank: the bubble shrinks by v, the boundaries grow by v",
  .source = "Narayanan et al., arXiv 2104.04473, section 2.2; order as in NVIDIA/Megatron-LM schedules.py",
  .exchanges = TRUE,
  .refuse = refuse_interleaved,
  .order = order_interleaved,
  .period = period_interleaved,
  .in_flight = in_flight_interleaved,
  .ideal_bubble = ideal_bubble_interleaved,
};

/* ---- PyTorch's: as many rounds as there are times p micro-batches, equal groups ---- */

static ScScheduleShape
in_rounds (const ScScheduleShape *s)
{
  ScScheduleShape with = *s;
  with.g = s->m / MAX (s->m / s->p, 1);
  return with;
}

static const char *
refuse_rounds (const ScScheduleShape *s)
{
  if (s->p < 2 || s->v < 2)
    return "interleaved-rounds needs at least two pipeline ranks and two chunks per rank";
  return s->m % MAX (s->m / s->p, 1) != 0 ? "interleaved-rounds needs micro-batches that divide into micro-batches / pp rounds" : NULL;
}

static void
order_rounds (const ScScheduleShape *s, guint rank, GArray *slots)
{
  const ScScheduleShape with = in_rounds (s);
  put_pairs (&with, warm_up (&with, rank, 0), FALSE, FALSE, slots); /* transfers of their own */
}

static guint
in_flight_rounds (const ScScheduleShape *s, guint rank)
{
  const ScScheduleShape with = in_rounds (s);
  return in_flight_interleaved (&with, rank);
}

const ScSchedule sc_schedule_interleaved_rounds = {
  .name = "interleaved-rounds",
  .summary = "interleaved with groups that divide the micro-batches evenly, and transfers beside compute",
  .source = "PyTorch's ScheduleInterleaved1F1B, torch/distributed/pipelining/schedules.py",
  .refuse = refuse_rounds,
  .order = order_rounds,
  .in_flight = in_flight_rounds,
};

/* ---- Megatron's overlap_moe_expert_parallel_comm: forward and backward of a pair in turns ---- */

static void
order_a2a (const ScScheduleShape *s, guint rank, GArray *slots)
{
  put_pairs (s, warm_up (s, rank, 1), FALSE, TRUE, slots); /* the pair needs a forward that no backward of its own waits for */
}

static guint
in_flight_a2a (const ScScheduleShape *s, guint rank)
{
  return MIN (warm_up (s, rank, 1) + 1, s->m * s->v);
}

const ScSchedule sc_schedule_interleaved_a2a = {
  .name = "interleaved-a2a",
  .summary = "interleaved, forward and backward in turns: all-to-alls of experts hide behind the other's compute",
  .source = "NVIDIA/Megatron-LM core/pipeline_parallel/combined_1f1b.py (overlap_moe_expert_parallel_comm)",
  .refuse = refuse_interleaved,
  .order = order_a2a,
  .in_flight = in_flight_a2a,
};
