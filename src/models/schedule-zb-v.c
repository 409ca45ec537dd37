/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-zb-v.c - zero bubble over two chunks that go there and back (MODELLING 7.2). */
#include "models/schedule.h"

typedef struct
{
  const ScScheduleShape *s;
  GArray *slots;
  guint n[SC_N_PASSES][2]; /* passes so far, by chunk */
} Writer;

/* The next micro-batch; the order is made for at least 2p - 1 of them, and what is not there is left out. */
static void
put (Writer *w, ScPass pass, guint chunk)
{
  const guint microbatch = w->n[pass][chunk]++;
  if (microbatch < w->s->m)
    sc_schedule_put (w->slots, pass, microbatch, chunk);
}

static const char *
refuse_zb_v (const ScScheduleShape *s)
{
  return s->p < 2 || s->v != 2 ? "zb-v needs at least two pipeline ranks and two chunks per rank (vpp 2)" : NULL;
}

static void
order_zb_v (const ScScheduleShape *s, guint rank, GArray *slots)
{
  Writer w = { .s = s, .slots = slots };
  const guint m = MAX (2 * s->p - 1, s->m);
  for (guint i = 0; i < 2 * (s->p - rank) - 1; i++)
    put (&w, SC_PASS_FORWARD, 0);
  for (guint i = 0; i < rank; i++)
    {
      put (&w, SC_PASS_FORWARD, 1);
      put (&w, SC_PASS_FORWARD, 0);
    }
  for (guint i = 0; i < s->p - rank; i++)
    {
      put (&w, SC_PASS_FORWARD, 1);
      put (&w, SC_PASS_INPUT, 1);
      put (&w, SC_PASS_WEIGHT, 1);
    }
  while (w.n[SC_PASS_FORWARD][1] < w.n[SC_PASS_FORWARD][0] || w.n[SC_PASS_FORWARD][0] < m)
    {
      if (w.n[SC_PASS_FORWARD][0] < m)
        put (&w, SC_PASS_FORWARD, 0);
      put (&w, SC_PASS_INPUT, 0);
      put (&w, SC_PASS_WEIGHT, 0);
      put (&w, SC_PASS_FORWARD, 1);
      put (&w, SC_PASS_INPUT, 1);
      put (&w, SC_PASS_WEIGHT, 1);
    }
  for (guint i = 0; i < rank; i++)
    {
      put (&w, SC_PASS_INPUT, 0);
      put (&w, SC_PASS_INPUT, 1);
    }
  for (guint i = 0; i < s->p - rank; i++)
    {
      put (&w, SC_PASS_INPUT, 0);
      put (&w, SC_PASS_WEIGHT, 0);
    }
  for (guint chunk = 2; chunk-- > 0;)
    while (w.n[SC_PASS_WEIGHT][chunk] < w.n[SC_PASS_INPUT][chunk])
      put (&w, SC_PASS_WEIGHT, chunk);
}

const ScSchedule sc_schedule_zb_v = {
  .name = "zb-v",
  .summary = "zero bubble over two chunks that go there and back: no bubble where F = I = W, memory of 1F1B",
  .source = "Qi et al., arXiv 2405.15362, section 4; order as in PyTorch's ScheduleZBVZeroBubble",
  .placement = SC_PLACE_V,
  .refuse = refuse_zb_v,
  .order = order_zb_v,
};
