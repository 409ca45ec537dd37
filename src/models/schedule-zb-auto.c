/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-zb-auto.c - the zero-bubble scheduler that looks at what passes cost: a list scheduler under a memory limit, tried with
 * eight settings (Qi et al., arXiv 2401.10241, section 3.1; MODELLING 7.2). */
#include "models/schedule.h"
#include <math.h>

/* A rank while it is scheduled.  A forward takes one unit of memory, its input gradient gives back all of it but what the weight gradient
 * still needs. */
typedef struct
{
  double forward, input, weight; /* costs */
  guint  n_forward, n_input, n_weight;
  double now, begin, bubble;     /* end of its last pass; begin of its first; idle time between them */
  GArray *slots;
} Rank;

typedef struct
{
  gboolean idle_before_first, prefer_input, greedy;
} Setting;

typedef struct
{
  guint   p, m, limit;
  double  latency, held;
  Setting setting;
  Rank   *ranks;
  double *forward_end, *input_end; /* [p][m] */
} Scheduler;

/* When the input of rank @j's next pass is there. */
static double
arrival (const Scheduler *s, guint j, ScPass pass)
{
  if (pass == SC_PASS_FORWARD)
    return j == 0 ? 0 : s->forward_end[(j - 1) * s->m + s->ranks[j].n_forward] + s->latency;
  return j + 1 == s->p ? 0 : s->input_end[(j + 1) * s->m + s->ranks[j].n_input] + s->latency;
}

static void
put (Scheduler *s, guint j, ScPass pass)
{
  Rank *const r = &s->ranks[j];
  guint *const n = pass == SC_PASS_FORWARD ? &r->n_forward : pass == SC_PASS_INPUT ? &r->n_input : &r->n_weight;
  const double cost = pass == SC_PASS_FORWARD ? r->forward : pass == SC_PASS_INPUT ? r->input : r->weight;
  const double start = pass == SC_PASS_WEIGHT ? r->now : MAX (r->now, arrival (s, j, pass));
  if (r->n_forward > 0)
    r->bubble += start - r->now;
  else
    r->begin = start;
  r->now = start + cost;
  if (pass == SC_PASS_FORWARD)
    s->forward_end[j * s->m + *n] = r->now;
  if (pass == SC_PASS_INPUT)
    s->input_end[j * s->m + *n] = r->now;
  sc_schedule_put (r->slots, pass, (*n)++, 0);
}

static double
worst_bubble (const Scheduler *s)
{
  double worst = 0;
  for (guint j = 0; j < s->p; j++)
    worst = MAX (worst, s->ranks[j].bubble);
  return worst;
}

/* Activations of micro-batches that rank @j would hold with one more forward, above its limit. */
static double
too_much (const Scheduler *s, guint j)
{
  const Rank *const r = &s->ranks[j];
  return r->n_forward + 1.0 - (1 - s->held) * r->n_input - s->held * r->n_weight - s->limit;
}

#define ROUNDING 1e-9 /* of sums of shares */

static gboolean
is_full (const Scheduler *s, guint j)
{
  return too_much (s, j) > ROUNDING;
}

static gboolean
has_weights (const Rank *r)
{
  return r->n_weight < r->n_input;
}

/* Weight gradients into the time until rank @j's next pass can begin: all that fit; one more where the wait would make this rank the
 * worst, or where greed says so. */
static void
fill (Scheduler *s, guint j, ScPass pass)
{
  Rank *const r = &s->ranks[j];
  const double until = arrival (s, j, pass);
  while (has_weights (r) && r->now + r->weight <= until)
    put (s, j, SC_PASS_WEIGHT);
  if (has_weights (r) && r->now < until && (s->setting.greedy || until - r->now > worst_bubble (s) - r->bubble))
    put (s, j, SC_PASS_WEIGHT);
}

/* Forwards before the first input gradient: as memory and the time until that comes allow; a rank no more of them than the one before. */
static void
warm_up (Scheduler *s)
{
  g_autofree guint *more = g_new0 (guint, s->p);
  for (guint j = 0; j < s->p; j++)
    put (s, j, SC_PASS_FORWARD);
  double first_end = 0; /* of the first input gradient of the rank behind */
  for (guint j = s->p; j-- > 0;)
    {
      const Rank *const r = &s->ranks[j];
      double now = r->now;
      const double until = j + 1 == s->p ? 0 : first_end + s->latency;
      while (j + 1 < s->p && 1 + more[j] < MIN (s->m, s->limit)
             && (s->setting.idle_before_first ? now + r->forward <= until : now < until))
        {
          now += r->forward;
          more[j]++;
        }
      first_end = MAX (now, until) + r->input;
    }
  for (guint j = 1; j < s->p; j++) /* fewer than the rank before, whose outputs they take; all m at most */
    while (more[j] > 0 && more[j] >= more[j - 1] && 1 + more[j - 1] < s->m)
      more[j]--;
  for (guint j = 0; j < s->p; j++)
    for (guint i = 0; i < more[j]; i++)
      put (s, j, SC_PASS_FORWARD);
  for (guint j = s->p; j-- > 0;)
    put (s, j, SC_PASS_INPUT);
}

/* Whether rank @j goes on with a forward now, or leaves the time to the input gradient that is about to come. */
static gboolean
wants_forward (const Scheduler *s, guint j)
{
  const Rank *const r = &s->ranks[j];
  if (r->n_forward >= s->m)
    return FALSE;
  if (j + 1 == s->p || !s->setting.prefer_input || r->n_forward < r[1].n_forward + 2)
    return TRUE;
  const double next = r[1].now + r[1].forward + r[1].input + s->latency; /* when the rank behind is through with its next one */
  if (r->now >= next)
    return FALSE;
  const double excess = too_much (s, j);
  const guint must_go = excess > ROUNDING ? (guint) MIN (ceil ((excess - ROUNDING) / s->held), r->n_input - r->n_weight) : 0;
  if (r->now + r->forward + must_go * r->weight <= next)
    return TRUE;
  return next - r->now > worst_bubble (s) - r->bubble;
}

static void
steady (Scheduler *s)
{
  g_autofree gboolean *forward = g_new0 (gboolean, s->p);
  for (guint j = 0; j < s->p; j++)
    forward[j] = wants_forward (s, j);
  for (guint j = s->p - 1; j-- > 0;) /* a forward is of use where the rank behind takes it up */
    forward[j] = forward[j] && forward[j + 1];
  for (guint j = 0; j < s->p; j++)
    {
      if (!forward[j])
        continue;
      while (is_full (s, j) && has_weights (&s->ranks[j]))
        put (s, j, SC_PASS_WEIGHT);
      g_assert (!is_full (s, j));
      if (j > 0)
        fill (s, j, SC_PASS_FORWARD);
      put (s, j, SC_PASS_FORWARD);
    }
  for (guint j = s->p; j-- > 0;)
    {
      if (j + 1 < s->p)
        fill (s, j, SC_PASS_INPUT);
      while (j == 0 && s->ranks[j].n_forward == s->m && has_weights (&s->ranks[j]))
        put (s, j, SC_PASS_WEIGHT);
      put (s, j, SC_PASS_INPUT);
    }
}

/* Longest span of a rank, from its first forward to its last weight gradient. */
static double
schedule (Scheduler *s)
{
  warm_up (s);
  for (guint n = 1; n < s->m; n++)
    steady (s);
  double longest = 0;
  for (guint j = 0; j < s->p; j++)
    {
      while (has_weights (&s->ranks[j]))
        put (s, j, SC_PASS_WEIGHT);
      longest = MAX (longest, s->ranks[j].now - s->ranks[j].begin);
    }
  return longest;
}

static void
orders (const ScScheduleShape *shape, const ScScheduleCosts *costs, guint limit, GArray **out)
{
  const guint p = shape->p, m = shape->m;
  g_autofree Rank *ranks = g_new (Rank, p);
  g_autofree double *forward_end = g_new (double, (gsize) p * m), *input_end = g_new (double, (gsize) p * m);
  double best = -1;
  for (guint i = 0; i < 8; i++)
    {
      Scheduler s = { p, m, limit, costs->latency, costs->held > 0 ? costs->held : 1, { i < 4, i / 2 % 2 == 0, i % 2 == 0 }, ranks, forward_end, input_end };
      for (guint j = 0; j < p; j++)
        ranks[j] = (Rank) { .forward = costs->forward[j], .input = costs->input[j], .weight = costs->weight[j],
                            .slots = g_array_new (FALSE, FALSE, sizeof (ScSlot)) };
      const double span = schedule (&s);
      const gboolean better = best < 0 || span < best;
      for (guint j = 0; j < p; j++)
        {
          if (better)
            {
              g_array_set_size (out[j], 0);
              g_array_append_vals (out[j], ranks[j].slots->data, ranks[j].slots->len);
            }
          g_array_unref (ranks[j].slots);
        }
      best = better ? span : best;
    }
}

static void
orders_1p (const ScScheduleShape *s, const ScScheduleCosts *costs, GArray **ranks)
{
  orders (s, costs, s->p, ranks);
}

static void
orders_2p (const ScScheduleShape *s, const ScScheduleCosts *costs, GArray **ranks)
{
  orders (s, costs, 2 * s->p, ranks);
}

static const char *
refuse_1p (const ScScheduleShape *s)
{
  return s->v > 1 ? "zb-1p has one chunk per rank (zb-v has two)" : NULL;
}

static const char *
refuse_2p (const ScScheduleShape *s)
{
  return s->v > 1 ? "zb-2p has one chunk per rank (zb-v has two)" : NULL;
}

const ScSchedule sc_schedule_zb_1p = {
  .name = "zb-1p",
  .summary = "zero bubble by what passes cost, at most p micro-batches in flight: 1F1B's memory",
  .source = "Qi et al., arXiv 2401.10241, section 3.1; rules as in sail-sg/zero-bubble-pipeline-parallelism, zb.py",
  .refuse = refuse_1p,
  .orders = orders_1p,
};

const ScSchedule sc_schedule_zb_2p = {
  .name = "zb-2p",
  .summary = "zero bubble by what passes cost, at most 2p micro-batches in flight",
  .source = "Qi et al., arXiv 2401.10241, section 3.1; rules as in sail-sg/zero-bubble-pipeline-parallelism, zb.py",
  .refuse = refuse_2p,
  .orders = orders_2p,
};
