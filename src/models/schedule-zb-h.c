/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-zb-h.c - 1F1B whose weight gradients wait for where the pipeline would idle (MODELLING 7.2). */
#include "models/schedule.h"

/* @warm_up forwards, then pairs; weight gradients run @delay behind the input gradients. */
static void
order_delayed (const ScScheduleShape *s, guint warm_up, guint delay, GArray *slots)
{
  guint n_forward = 0, n_weight = 0;
  for (; n_forward < warm_up; n_forward++)
    sc_schedule_put (slots, SC_PASS_FORWARD, n_forward, 0);
  for (guint n = 0; n < s->m; n++)
    {
      if (n_forward < s->m)
        sc_schedule_put (slots, SC_PASS_FORWARD, n_forward++, 0);
      sc_schedule_put (slots, SC_PASS_INPUT, n, 0);
      if (n >= delay)
        sc_schedule_put (slots, SC_PASS_WEIGHT, n_weight++, 0);
    }
  while (n_weight < s->m)
    sc_schedule_put (slots, SC_PASS_WEIGHT, n_weight++, 0);
}

static const char *
refuse_h1 (const ScScheduleShape *s)
{
  return s->v > 1 ? "zb-h1 has one chunk per rank (zb-v has two)" : NULL;
}

static const char *
refuse_h2 (const ScScheduleShape *s)
{
  return s->v > 1 ? "zb-h2 has one chunk per rank (zb-v has two)" : NULL;
}

static void
order_h1 (const ScScheduleShape *s, guint rank, GArray *slots)
{
  order_delayed (s, MIN (s->p - 1 - rank, s->m), rank, slots);
}

static void
order_h2 (const ScScheduleShape *s, guint rank, GArray *slots)
{
  order_delayed (s, MIN (2 * (s->p - 1 - rank), s->m), 2 * rank, slots);
}

static guint
in_flight_h1 (const ScScheduleShape *s, guint rank)
{
  (void) rank;
  return MIN (s->p, s->m);
}

static guint
in_flight_h2 (const ScScheduleShape *s, guint rank)
{
  (void) rank;
  return MIN (2 * s->p - 1, s->m);
}

const ScSchedule sc_schedule_zb_h1 = {
  .name = "zb-h1",
  .summary = "1F1B with weight gradients later: a third of its bubble where F = I = W, p micro-batches on every rank",
  .source = "Qi et al., arXiv 2401.10241, section 2.1; order as in PyTorch's ScheduleInterleavedZeroBubble",
  .refuse = refuse_h1,
  .order = order_h1,
  .in_flight = in_flight_h1,
};

const ScSchedule sc_schedule_zb_h2 = {
  .name = "zb-h2",
  .summary = "more forwards ahead: no bubble inside a rank's span where F = I = W, 2p - 1 micro-batches in flight",
  .source = "Qi et al., arXiv 2401.10241, section 2.2",
  .refuse = refuse_h2,
  .order = order_h2,
  .in_flight = in_flight_h2,
};
