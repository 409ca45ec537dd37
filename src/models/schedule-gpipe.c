/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-gpipe.c - all forwards, then all backwards: with one chunk per rank GPipe, with several breadth-first. */
#include "models/schedule.h"

static const char *
refuse_gpipe (const ScScheduleShape *s)
{
  return s->v > 1 ? "gpipe has one chunk per rank (use looped-bfs)" : NULL;
}

static const char *
refuse_looped_bfs (const ScScheduleShape *s)
{
  return s->p < 2 || s->v < 2 ? "looped-bfs needs at least two pipeline ranks and two chunks per rank (use gpipe)" : NULL;
}

/* The forwards of a chunk, then those of the next; backwards from the last chunk on, last micro-batch first, as its
 * activations are there first (MODELLING 7.2). */
static void
order (const ScScheduleShape *s, guint rank, GArray *slots)
{
  (void) rank;
  for (guint chunk = 0; chunk < s->v; chunk++)
    for (guint k = 0; k < s->m; k++)
      sc_schedule_put (slots, SC_PASS_FORWARD, k, chunk);
  for (guint chunk = s->v; chunk-- > 0;)
    for (guint k = s->m; k-- > 0;)
      sc_schedule_put (slots, SC_PASS_BACKWARD, k, chunk);
}

static guint
in_flight (const ScScheduleShape *s, guint rank)
{
  (void) rank;
  return s->m * s->v;
}

static double
ideal_bubble (const ScScheduleShape *s)
{
  return (s->p - 1) / (double) s->m;
}

const ScSchedule sc_schedule_gpipe = {
  .name = "gpipe",
  .summary = "all forwards, then all backwards: as idle as 1F1B, with every micro-batch in flight",
  .source = "Huang et al., arXiv 1811.06965, section 2.3",
  .refuse = refuse_gpipe,
  .order = order,
  .in_flight = in_flight,
  .ideal_bubble = ideal_bubble,
};

const ScSchedule sc_schedule_looped_bfs = {
  .name = "looped-bfs",
  .summary = "breadth-first over v chunks per rank: every micro-batch through one chunk before the next",
  .source = "Lamy-Poirier, arXiv 2211.05953, section 4; order as in PyTorch's ScheduleLoopedBFS",
  .refuse = refuse_looped_bfs,
  .order = order,
  .in_flight = in_flight,
};
