/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-1f1b.c - one forward, one backward; with one pipeline rank, plain gradient accumulation. */
#include "models/schedule.h"

static guint
warm_up (const ScScheduleShape *s, guint rank)
{
  return MIN (s->p - 1 - rank + s->ahead, s->m);
}

static const char *
refuse_1f1b (const ScScheduleShape *s)
{
  return s->v > 1 ? "1f1b has one chunk per rank (use interleaved)" : NULL;
}

static void
order_1f1b (const ScScheduleShape *s, guint rank, GArray *slots)
{
  const guint w = warm_up (s, rank);
  for (guint k = 0; k < w; k++)
    sc_schedule_put (slots, SC_PASS_FORWARD, k, 0);
  for (guint k = 0; k < s->m - w; k++)
    {
      sc_schedule_put (slots, SC_PASS_FORWARD, w + k, 0);
      sc_schedule_put (slots, SC_PASS_BACKWARD, k, 0);
    }
  for (guint k = s->m - w; k < s->m; k++)
    sc_schedule_put (slots, SC_PASS_BACKWARD, k, 0);
}

static guint
in_flight_1f1b (const ScScheduleShape *s, guint rank)
{
  return MIN (s->p - rank + s->ahead, s->m);
}

static double
ideal_bubble_1f1b (const ScScheduleShape *s)
{
  return (s->p - 1) / (double) s->m;
}

static guint
period_1f1b (const ScScheduleShape *s)
{
  (void) s;
  return 1;
}

const ScSchedule sc_schedule_1f1b = {
  .name = "1f1b",
  .summary = "one forward, one backward: at most p micro-batches in flight",
  .source = "Narayanan et al., arXiv 2104.04473, section 2.2",
  .exchanges = TRUE,
  .refuse = refuse_1f1b,
  .order = order_1f1b,
  .period = period_1f1b,
  .in_flight = in_flight_1f1b,
  .ideal_bubble = ideal_bubble_1f1b,
};

static const char *
refuse_none (const ScScheduleShape *s)
{
  return s->p > 1 || s->v > 1 ? "a pipeline needs a schedule (1f1b or interleaved)" : NULL;
}

const ScSchedule sc_schedule_none = {
  .name = "none",
  .summary = "no pipeline: forward and backward of one micro-batch after another",
  .source = "gradient accumulation",
  .exchanges = TRUE,
  .refuse = refuse_none,
  .order = order_1f1b, /* p = 1: no warm-up */
  .period = period_1f1b,
  .in_flight = in_flight_1f1b,
  .ideal_bubble = ideal_bubble_1f1b,
};
