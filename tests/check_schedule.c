/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_schedule.c - orders of pipeline schedules: by hand, and what any of them must keep (MODELLING 7). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/schedule.h"
#include "pace.h"

/* ---- every rank as soon as it can ---- */

/* What passes cost: [p * v][m], by virtual stage and micro-batch; a transfer between two ranks takes @latency and
 * keeps nobody busy. */
typedef struct
{
  double *forward, *input, *weight;
  double  latency;
  double  held; /* by weight gradients, of a micro-batch's activations; 0: all */
} Costs;

typedef struct
{
  ScOrders *orders;
  double **start;   /* [p][slots] */
  double  *busy;    /* [p] */
  double  *first, *last; /* [p] begin of its first slot, end of its last */
  guint   *peak;    /* [p] most (micro-batch, chunk) held at once, up to their weight gradient */
  double   makespan;
  guint    p;
  gboolean deadlock;
} Replay;

/* A whole backward of @backward is half for the input, half for the weights. */
static Costs
costs_new (const ScScheduleShape *s, double forward, double backward, double latency)
{
  const guint n = s->p * s->v * s->m;
  const Costs c = { g_new (double, n), g_new (double, n), g_new (double, n), latency, 0 };
  for (guint i = 0; i < n; i++)
    {
      c.forward[i] = forward;
      c.input[i] = c.weight[i] = backward / 2;
    }
  return c;
}

static void
costs_clear (Costs *c)
{
  g_free (c->forward);
  g_free (c->input);
  g_free (c->weight);
}

static guint64
next_random (guint64 *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

/* Whole numbers from 1 to 9: their sums are exact. */
static Costs
random_costs (const ScScheduleShape *s, guint64 seed, double latency)
{
  const Costs c = costs_new (s, 1, 1, latency);
  guint64 x = 88172645463325252u + seed;
  for (guint i = 0; i < s->p * s->v * s->m; i++)
    {
      c.forward[i] = (double) (1 + next_random (&x) % 9);
      c.input[i] = (double) (1 + next_random (&x) % 9);
      c.weight[i] = (double) (1 + next_random (&x) % 9);
    }
  return c;
}

static double
cost_of (const Costs *c, guint pass, guint i)
{
  return pass == SC_PASS_FORWARD ? c->forward[i]
                                 : (pass != SC_PASS_WEIGHT ? c->input[i] : 0) + (pass != SC_PASS_INPUT ? c->weight[i] : 0);
}

/* Where chunk @chunk of @rank is in the model; written down here once more, as the papers draw it. */
static guint
stage_of (const ScOrders *o, guint rank, guint chunk)
{
  switch (o->placement)
    {
    case SC_PLACE_LOOP: return chunk * o->p + rank;
    case SC_PLACE_V: return chunk == 0 ? rank : 2 * o->p - 1 - rank;
    case SC_PLACE_BOTH: return chunk == 0 ? rank : o->p - 1 - rank;
    default: g_assert_not_reached ();
    }
}

static guint
rank_of (const ScOrders *o, guint stage, guint chunk)
{
  switch (o->placement)
    {
    case SC_PLACE_LOOP: return stage % o->p;
    case SC_PLACE_V: return stage < o->p ? stage : 2 * o->p - 1 - stage;
    case SC_PLACE_BOTH: return chunk == 0 ? stage : o->p - 1 - stage;
    default: g_assert_not_reached ();
    }
}

static Replay *
replay_orders (ScOrders *orders, const Costs *c)
{
  Replay *const r = g_new0 (Replay, 1);
  const guint p = orders->p, m = orders->m, n_virtual = p * orders->v;
  r->orders = orders;
  r->p = p;
  r->start = g_new0 (double *, p);
  r->busy = g_new0 (double, p);
  r->first = g_new0 (double, p);
  r->last = g_new0 (double, p);
  r->peak = g_new0 (guint, p);
  g_autofree guint *at = g_new0 (guint, p);
  g_autofree double *free_at = g_new0 (double, p);
  g_autofree double *f_end = g_new (double, (gsize) n_virtual * m), *b_end = g_new (double, (gsize) n_virtual * m);
  for (guint i = 0; i < n_virtual * m; i++)
    f_end[i] = b_end[i] = -1;
  for (guint rank = 0; rank < p; rank++)
    r->start[rank] = g_new0 (double, MAX (orders->ranks[rank]->len, 1));
  for (gboolean moved = TRUE; moved;)
    {
      moved = FALSE;
      for (guint rank = 0; rank < p; rank++)
        for (guint size; at[rank] < orders->ranks[rank]->len; at[rank] += size)
          {
            double begin = free_at[rank], took = 0;
            const ScSlot *const slots = &g_array_index (orders->ranks[rank], ScSlot, at[rank]);
            for (size = 0; size == 0 || (at[rank] + size < orders->ranks[rank]->len && slots[size].paired); size++)
              {
                const ScSlot *const slot = &slots[size];
                const guint j = stage_of (orders, rank, slot->chunk), i = j * m + slot->microbatch;
                double ready = 0;
                if (slot->pass == SC_PASS_WEIGHT)
                  ready = b_end[i];
                else if (slot->pass == SC_PASS_FORWARD && j > 0)
                  ready = f_end[i - m] < 0 ? -1 : f_end[i - m] + (rank_of (orders, j - 1, slot->chunk) == rank ? 0 : c->latency);
                else if (slot->pass != SC_PASS_FORWARD)
                  {
                    const double after = j + 1 == n_virtual ? 0
                                         : b_end[i + m] < 0 ? -1
                                         : b_end[i + m] + (rank_of (orders, j + 1, slot->chunk) == rank ? 0 : c->latency);
                    ready = f_end[i] < 0 || after < 0 ? -1 : MAX (f_end[i], after);
                  }
                begin = begin < 0 || ready < 0 ? -1 : MAX (begin, ready);
                took += cost_of (c, slot->pass, i);
              }
            if (begin < 0)
              break;
            for (guint k = 0; k < size; k++)
              {
                const guint i = stage_of (orders, rank, slots[k].chunk) * m + slots[k].microbatch;
                r->start[rank][at[rank] + k] = begin;
                if (slots[k].pass != SC_PASS_WEIGHT)
                  *(slots[k].pass == SC_PASS_FORWARD ? &f_end[i] : &b_end[i]) = begin + took;
              }
            free_at[rank] = begin + took;
            r->busy[rank] += took;
            moved = TRUE;
          }
    }
  for (guint rank = 0; rank < p; rank++)
    {
      guint held = 0;
      r->deadlock |= at[rank] < orders->ranks[rank]->len;
      r->first[rank] = r->start[rank][0];
      r->last[rank] = free_at[rank];
      r->makespan = MAX (r->makespan, free_at[rank]);
      for (guint i = 0; i < orders->ranks[rank]->len; i++)
        {
          const guint pass = g_array_index (orders->ranks[rank], ScSlot, i).pass;
          held += pass == SC_PASS_FORWARD ? 1 : pass == SC_PASS_INPUT ? 0 : -1;
          r->peak[rank] = MAX (r->peak[rank], held);
        }
    }
  return r;
}

/* Costs of the first micro-batch, by stage: what a schedule may look at. */
static ScOrders *
orders_for (const ScSchedule *row, const ScScheduleShape *s, const Costs *c)
{
  const guint n = s->p * s->v;
  g_autofree double *by_stage = g_new (double, 3 * n);
  for (guint i = 0; i < n; i++)
    {
      by_stage[i] = c->forward[i * s->m];
      by_stage[n + i] = c->input[i * s->m];
      by_stage[2 * n + i] = c->weight[i * s->m];
    }
  const ScScheduleCosts costs = { .forward = by_stage, .input = by_stage + n, .weight = by_stage + 2 * n, .latency = c->latency, .held = c->held };
  return sc_orders_new (row, s, &costs, NULL);
}

static Replay *
replay_new (const ScSchedule *row, const ScScheduleShape *s, const Costs *c)
{
  return replay_orders (orders_for (row, s, c), c);
}

static void
replay_free (Replay *r)
{
  for (guint i = 0; i < r->p; i++)
    g_free (r->start[i]);
  sc_orders_free (r->orders);
  g_free (r->start);
  g_free (r->busy);
  g_free (r->first);
  g_free (r->last);
  g_free (r->peak);
  g_free (r);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Replay, replay_free)

static double
makespan (const ScSchedule *row, const ScScheduleShape *s, const Costs *c)
{
  g_autoptr (Replay) r = replay_new (row, s, c);
  if (r->deadlock)
    ck_abort_msg ("%s p=%u v=%u m=%u g=%u: deadlock", row->name, s->p, s->v, s->m, s->g);
  return r->makespan;
}

static double
equal_makespan (const ScSchedule *row, guint p, guint v, guint m, double forward, double backward, double latency)
{
  const ScScheduleShape s = { p, v, m, p, 0 };
  ck_assert_ptr_null (row->refuse (&s));
  Costs c = costs_new (&s, forward, backward, latency);
  const double ret = makespan (row, &s, &c);
  costs_clear (&c);
  return ret;
}

/* ---- every row over a grid of shapes ---- */

#define N_ROWS 17 /* rows_are_found_by_name sees to it */

typedef void (*ShapeFunc) (const ScSchedule *row, const ScScheduleShape *shape);

/* Calls @visit for every shape of a grid that @row does not refuse, group sizes included. */
static void
for_each_shape (const ScSchedule *row, ShapeFunc visit)
{
  static const guint sizes[] = { 1, 2, 3, 4, 5, 8 }, batches[] = { 1, 2, 3, 4, 5, 6, 8, 11, 12, 16, 24 };
  if (row->order == NULL && row->orders == NULL) /* its order is a file's */
    return;
  const gboolean all = g_getenv ("STEPCAST_LONG") != NULL; /* else every third */
  guint n = 0;
  for (guint ip = 0; ip < G_N_ELEMENTS (sizes); ip++)
    for (guint v = 1; v <= 4; v++)
      for (guint im = 0; im < G_N_ELEMENTS (batches); im++)
        for (guint g = sizes[ip]; g <= MAX (sizes[ip], batches[im]); g++)
          {
            if (!all && (ip + v + im + g) % 3 != 0)
              continue;
            const ScScheduleShape s = { sizes[ip], v, batches[im], g, 0 };
            const ScScheduleShape any = { s.p, v, s.m, 0, 0 };
            if (row->refuse (&s) != NULL || (g > s.p && row->refuse (&any) == NULL)) /* where the group size means nothing */
              continue;
            visit (row, &s);
            n++;
          }
  ck_assert_uint_ge (n, all ? 11 : 3);
}

/* An assertion of the hot loops: Check notes each of its own in a file. */
#define check_shape(condition) \
  do \
    if (!(condition)) \
      ck_abort_msg ("%s p=%u v=%u m=%u g=%u: " #condition, row->name, s->p, s->v, s->m, s->g); \
  while (0)

/* 7.8, 1 */
static void
check_completeness (const ScSchedule *row, const ScScheduleShape *s)
{
  g_autoptr (ScOrders) o = sc_orders_new (row, s, NULL, NULL);
  const guint n_chunks = sc_placement_chunks (row->placement, s->v);
  for (guint rank = 0; rank < s->p; rank++)
    {
      const GArray *const slots = o->ranks[rank];
      g_autofree guint8 *done = g_new0 (guint8, n_chunks * s->m); /* 1: forward, 2: and input, 3: and weights */
      for (guint i = 0; i < slots->len; i++)
        {
          const ScSlot *const slot = &g_array_index (slots, ScSlot, i);
          check_shape (slot->chunk < n_chunks && slot->microbatch < s->m && sc_orders_runs (o, slot->chunk, slot->microbatch));
          guint8 *const at = &done[slot->chunk * s->m + slot->microbatch];
          check_shape (*at == (slot->pass == SC_PASS_FORWARD ? 0 : slot->pass == SC_PASS_WEIGHT ? 2 : 1));
          *at = slot->pass == SC_PASS_FORWARD ? 1 : slot->pass == SC_PASS_INPUT ? 2 : 3;
          if (slot->joined) /* a step is a forward and then a backward */
            check_shape (i > 0 && slot->pass == SC_PASS_BACKWARD && slot[-1].pass == SC_PASS_FORWARD && !slot[-1].joined);
          if (slot->paired) /* as is a pair, of two chunks or micro-batches */
            check_shape (i > 0 && slot->pass == SC_PASS_BACKWARD && slot[-1].pass == SC_PASS_FORWARD
                         && (slot[-1].chunk != slot->chunk || slot[-1].microbatch != slot->microbatch) && !slot[-1].paired);
        }
      for (guint chunk = 0; chunk < n_chunks; chunk++)
        for (guint k = 0; k < s->m; k++)
          check_shape (done[chunk * s->m + k] == (sc_orders_runs (o, chunk, k) ? 3 : 0));
      for (guint chunk = 0; chunk < n_chunks; chunk++)
        {
          const guint stage = stage_of (o, rank, chunk);
          check_shape (sc_placement_stage (o->placement, s->p, rank, chunk) == stage);
          check_shape (sc_placement_rank (o->placement, s->p, stage, chunk) == rank);
          check_shape (sc_placement_chunk (o->placement, s->p, stage, chunk) == chunk);
        }
    }
}

START_TEST (every_chunk_and_microbatch_has_one_forward_and_then_one_backward_or_its_parts)
{
  for_each_shape (sc_schedule_all ()[_i], check_completeness);
}
END_TEST

/* 7.8, 2, 3, 5 */
static void
check_execution (const ScSchedule *row, const ScScheduleShape *s)
{
  static const double latencies[] = { 0, 0.25, 3, 100 };
  for (guint64 seed = 0; seed < 2; seed++)
    {
      double before = 0;
      for (guint l = 0; l < G_N_ELEMENTS (latencies); l++)
        {
          Costs c = random_costs (s, seed, latencies[l]);
          g_autoptr (Replay) r = replay_new (row, s, &c);
          check_shape (!r->deadlock);
          if (row->orders == NULL) /* a slower wire never helps, unless another order is made for it */
            check_shape (r->makespan >= before);
          before = r->makespan;
          double up = 0, down = 0; /* of micro-batch 0 to reach a rank; of the last backward to leave its first chunk */
          for (guint rank = 0; rank < s->p; rank++)
            {
              const GArray *const slots = r->orders->ranks[rank];
              double busy = 0;
              guint last = 0;
              for (guint chunk = 0; chunk < sc_placement_chunks (row->placement, s->v); chunk++)
                for (guint k = 0; k < s->m; k++)
                  if (sc_orders_runs (r->orders, chunk, k))
                    busy += cost_of (&c, SC_PASS_FORWARD, stage_of (r->orders, rank, chunk) * s->m + k)
                            + cost_of (&c, SC_PASS_BACKWARD, stage_of (r->orders, rank, chunk) * s->m + k);
              check_shape (r->busy[rank] == busy);
              check_shape (r->last[rank] - r->first[rank] >= busy);
              if (row->placement == SC_PLACE_BOTH) /* two pipelines, each with a front of its own */
                continue;
              for (guint i = 0; i < slots->len; i++)
                if (g_array_index (slots, ScSlot, i).pass == SC_PASS_BACKWARD)
                  last = g_array_index (slots, ScSlot, i).microbatch;
              down = 0;
              if (!sc_orders_split (r->orders))
                for (guint j = 0; j < rank; j++)
                  down += cost_of (&c, SC_PASS_BACKWARD, j * s->m + last) + c.latency;
              check_shape (r->first[rank] >= up);
              check_shape (r->makespan >= up + busy + down);
              up += c.forward[rank * s->m] + c.latency;
            }
          const ScScheduleCosts costs = { .forward = c.forward, .input = c.input, .weight = c.weight, .microbatches = s->m, .latency = c.latency };
          check_shape (sc_orders_replay (r->orders, &costs, NULL, NULL) == r->makespan);
          for (guint i = 0; i < s->p * s->v * s->m; i++)
            {
              c.forward[i] *= 4;
              c.input[i] *= 4;
              c.weight[i] *= 4;
            }
          c.latency *= 4;
          check_shape (makespan (row, s, &c) == 4 * r->makespan);
          costs_clear (&c);
        }
    }
}

START_TEST (every_order_executes_under_any_costs_and_latency)
{
  for_each_shape (sc_schedule_all ()[_i], check_execution);
}
END_TEST

/* 7.8, 4 and 3.7 */
static void
check_peak (const ScSchedule *row, const ScScheduleShape *s)
{
  Costs c = costs_new (s, 1, 2, 0);
  g_autoptr (Replay) r = replay_new (row, s, &c);
  for (guint rank = 0; rank < s->p; rank++)
    {
      check_shape (r->peak[rank] == sc_orders_in_flight (r->orders, rank));
      check_shape (row->in_flight == NULL || r->peak[rank] == row->in_flight (s, rank));
    }
  costs_clear (&c);
}

static gboolean
same_slot (const ScSlot *a, const ScSlot *b, guint later)
{
  return a->pass == b->pass && a->chunk == b->chunk && a->joined == b->joined && a->paired == b->paired && a->microbatch + later == b->microbatch;
}

/* @more has @periods periods of @microbatches more than @few, put in again behind the @period of each rank's order. */
static void
check_put_in (const ScOrders *few, const ScOrders *more, guint rank, guint microbatches, guint periods, const ScOrderPeriod *period)
{
  const GArray *const a = few->ranks[rank], *const b = more->ranks[rank];
  const guint put_in = periods * period->length;
  ck_assert_uint_eq (a->len + put_in, b->len);
  for (guint i = 0; i < b->len; i++)
    {
      const guint again = i < period->end ? 0 : MIN ((i - period->end) / period->length + 1, periods);
      ck_assert (same_slot (&g_array_index (a, ScSlot, i - again * period->length), &g_array_index (b, ScSlot, i), again * microbatches));
    }
}

START_TEST (a_period_more_is_the_same_slots_put_in_again)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint p = 1; p <= 8 && row->period != NULL; p++)
    for (guint v = 1; v <= 3; v++)
      for (guint m = p; m <= 9 * p; m++)
        {
          const ScScheduleShape shape = { p, v, m, p + m % 2, 0 };
          if (row->refuse (&shape) != NULL)
            continue;
          const guint microbatches = row->period (&shape), periods = 1 + m % 3;
          const ScScheduleShape longer = { p, v, m + periods * microbatches, shape.g, 0 };
          g_autoptr (ScOrders) few = sc_orders_new (row, &shape, NULL, NULL), more = sc_orders_new (row, &longer, NULL, NULL);
          for (guint rank = 0; rank < p; rank++)
            {
              ScOrderPeriod period;
              if (sc_orders_period (few, rank, microbatches, &period))
                check_put_in (few, more, rank, microbatches, periods, &period);
              else
                ck_assert_uint_lt (m, 5 * p + 2); /* the pipeline was hardly full */
            }
        }
}
END_TEST

START_TEST (as_many_microbatches_are_held_as_the_row_says)
{
  for_each_shape (sc_schedule_all ()[_i], check_peak);
}
END_TEST

/* 7.3: idle (p - 1) (F + B) of a chunk, whatever F and B are */
static void
check_closed_form (const ScSchedule *row, const ScScheduleShape *s)
{
  g_autoptr (ScOrders) o = sc_orders_new (row, s, NULL, NULL);
  const double ideal_bubble = sc_orders_ideal_bubble (o, row, s, FALSE);
  Costs equal = costs_new (s, 1, 2, 0);
  check_shape (fabs (ideal_bubble - makespan (row, s, &equal) / (3 * s->v * s->m) + 1) < 1e-14);
  costs_clear (&equal);
  if (row->ideal_bubble == NULL)
    return;
  static const double costs[][2] = { { 1, 2 }, { 3, 6 }, { 10, 16 }, { 2, 3 }, { 5, 1 } };
  for (guint i = 0; i < G_N_ELEMENTS (costs); i++)
    {
      Costs c = costs_new (s, costs[i][0], costs[i][1], 0);
      const double chunk = costs[i][0] + costs[i][1], ideal = s->m * s->v * chunk;
      check_shape (makespan (row, s, &c) == ideal + (s->p - 1) * chunk);
      check_shape (fabs (ideal_bubble - (s->p - 1) * chunk / ideal) < 1e-15);
      costs_clear (&c);
    }
}

START_TEST (equal_stages_idle_as_the_closed_form_says)
{
  for_each_shape (sc_schedule_all ()[_i], check_closed_form);
}
END_TEST

/* 7.8, 7 and 8 */
START_TEST (one_microbatch_walks_down_and_up_and_one_rank_just_accumulates)
{
  for (guint p = 1; p <= 8; p++)
    {
      const ScScheduleShape s = { p, 1, 1, p, 0 };
      Costs c = random_costs (&s, p, 0.5);
      double sum = 2 * (p - 1) * 0.5;
      for (guint i = 0; i < p; i++)
        sum += cost_of (&c, SC_PASS_FORWARD, i) + cost_of (&c, SC_PASS_BACKWARD, i);
      ck_assert_double_eq (makespan (&sc_schedule_1f1b, &s, &c), sum);
      costs_clear (&c);
    }
  for (guint m = 1; m <= 8; m++)
    for (guint row = 0; row < 2; row++)
      ck_assert_double_eq (equal_makespan (row == 0 ? &sc_schedule_none : &sc_schedule_1f1b, 1, 1, m, 3, 5, 7),
                           m * 8.0);
}
END_TEST

/* 7.8, 6 */
START_TEST (interleaved_with_one_chunk_is_refused_not_taken_for_1f1b)
{
  ck_assert_ptr_nonnull (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 1, 8, 4, 0 }));
  ck_assert_ptr_nonnull (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 1, 2, 8, 1, 0 }));
  ck_assert_ptr_nonnull (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 2, 3, 4, 0 })); /* 7.6: m >= G >= p */
  ck_assert_ptr_nonnull (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 2, 8, 3, 0 }));
  /* a last group of 2 < 4 */
  ck_assert_ptr_nonnull (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 2, 10, 4, 0 }));
  ck_assert_ptr_null (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 2, 10, 6, 0 }));    /* 6 and 4 */
  ck_assert_ptr_null (sc_schedule_interleaved.refuse (&(ScScheduleShape) { 4, 2, 8, 8, 0 }));
  ck_assert_ptr_nonnull (sc_schedule_1f1b.refuse (&(ScScheduleShape) { 4, 2, 8, 4, 0 }));
  ck_assert_ptr_nonnull (sc_schedule_none.refuse (&(ScScheduleShape) { 2, 1, 8, 2, 0 }));
  ck_assert_ptr_null (sc_schedule_none.refuse (&(ScScheduleShape) { 1, 1, 8, 1, 0 }));
}
END_TEST

START_TEST (rows_are_found_by_name)
{
  guint n = 0;
  for (const ScSchedule *const *row = sc_schedule_all (); *row != NULL; row++, n++)
    {
      ck_assert_ptr_eq (sc_schedule_find ((*row)->name), *row);
      ck_assert (strlen ((*row)->summary) > 0 && strlen ((*row)->source) > 0);
    }
  ck_assert_uint_eq (n, N_ROWS);
  ck_assert_ptr_null (sc_schedule_find ("gpipes"));
}
END_TEST

/* ---- by hand: p = 4, m = 8, F = 1, B = 2 (MODELLING 7.4) ---- */

/* Pass, micro-batch and start of every slot; lower case is chunk 1. */
static const char *const table_1f1b[] = {
  "F0@0 F1@1 F2@2 F3@3 B0@10 F4@12 B1@13 F5@15 B2@16 F6@18 B3@19 F7@21 B4@22 B5@25 B6@28 B7@31",
  "F0@1 F1@2 F2@3 B0@8 F3@10 B1@11 F4@13 B2@14 F5@16 B3@17 F6@19 B4@20 F7@22 B5@23 B6@26 B7@29",
  "F0@2 F1@3 B0@6 F2@8 B1@9 F3@11 B2@12 F4@14 B3@15 F5@17 B4@18 F6@20 B5@21 F7@23 B6@24 B7@27",
  "F0@3 B0@4 F1@6 B1@7 F2@9 B2@10 F3@12 B3@13 F4@15 B4@16 F5@18 B5@19 F6@21 B6@22 F7@24 B7@25",
};

static const char *const table_interleaved[] = {
  "F0@0 F1@1 F2@2 F3@3 f0@4 f1@5 f2@6 f3@7 F4@8 F5@9 F6@10 b0@14 F7@16 b1@17 f4@20 b2@21 f5@23 b3@24 f6@26 B0@27 f7@29 "
  "B1@30 B2@32 B3@35 b4@38 b5@41 b6@44 b7@47 B4@49 B5@51 B6@53 B7@55",
  "F0@1 F1@2 F2@3 F3@4 f0@5 f1@6 f2@7 f3@8 F4@9 b0@12 F5@14 b1@15 F6@17 b2@18 F7@20 b3@21 f4@23 B0@24 f5@26 B1@27 "
  "f6@29 B2@30 f7@32 B3@33 b4@36 b5@39 b6@42 b7@45 B4@47 B5@49 B6@51 B7@53",
  "F0@2 F1@3 F2@4 F3@5 f0@6 f1@7 f2@8 b0@10 f3@12 b1@13 F4@15 b2@16 F5@18 b3@19 F6@21 B0@22 F7@24 B1@25 f4@27 B2@28 "
  "f5@30 B3@31 f6@33 b4@34 f7@36 b5@37 b6@40 b7@43 B4@45 B5@47 B6@49 B7@51",
  "F0@3 F1@4 F2@5 F3@6 f0@7 b0@8 f1@10 b1@11 f2@13 b2@14 f3@16 b3@17 F4@19 B0@20 F5@22 B1@23 F6@25 B2@26 F7@28 B3@29 "
  "f4@31 b4@32 f5@34 b5@35 f6@37 b6@38 f7@40 b7@41 B4@43 B5@45 B6@47 B7@49",
};

static const char *const table_gpipe[] = {
  "F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 F7@7 B7@17 B6@19 B5@21 B4@23 B3@25 B2@27 B1@29 B0@31",
  "F0@1 F1@2 F2@3 F3@4 F4@5 F5@6 F6@7 F7@8 B7@15 B6@17 B5@19 B4@21 B3@23 B2@25 B1@27 B0@29",
  "F0@2 F1@3 F2@4 F3@5 F4@6 F5@7 F6@8 F7@9 B7@13 B6@15 B5@17 B4@19 B3@21 B2@23 B1@25 B0@27",
  "F0@3 F1@4 F2@5 F3@6 F4@7 F5@8 F6@9 F7@10 B7@11 B6@13 B5@15 B4@17 B3@19 B2@21 B1@23 B0@25",
};

static const char *const table_bfs[] = {
  "F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 F7@7 f0@8 f1@9 f2@10 f3@11 f4@12 f5@13 f6@14 f7@15 b7@25 b6@27 b5@29 b4@31 "
  "b3@33 b2@35 b1@37 b0@39 B7@41 B6@43 B5@45 B4@47 B3@49 B2@51 B1@53 B0@55",
  "F0@1 F1@2 F2@3 F3@4 F4@5 F5@6 F6@7 F7@8 f0@9 f1@10 f2@11 f3@12 f4@13 f5@14 f6@15 f7@16 b7@23 b6@25 b5@27 "
  "b4@29 b3@31 b2@33 b1@35 b0@37 B7@39 B6@41 B5@43 B4@45 B3@47 B2@49 B1@51 B0@53",
  "F0@2 F1@3 F2@4 F3@5 F4@6 F5@7 F6@8 F7@9 f0@10 f1@11 f2@12 f3@13 f4@14 f5@15 f6@16 f7@17 b7@21 b6@23 b5@25 "
  "b4@27 b3@29 b2@31 b1@33 b0@35 B7@37 B6@39 B5@41 B4@43 B3@45 B2@47 B1@49 B0@51",
  "F0@3 F1@4 F2@5 F3@6 F4@7 F5@8 F6@9 F7@10 f0@11 f1@12 f2@13 f3@14 f4@15 f5@16 f6@17 f7@18 b7@19 b6@21 b5@23 "
  "b4@25 b3@27 b2@29 b1@31 b0@33 B7@35 B6@37 B5@39 B4@41 B3@43 B2@45 B1@47 B0@49",
};

static const char *const table_zbh1[] = {
  "F0@0 F1@1 F2@2 F3@3 I0@7 W0@8 F4@9 I1@10 W1@11 F5@12 I2@13 W2@14 F6@15 I3@16 W3@17 F7@18 I4@19 W4@20 I5@21 "
  "W5@22 I6@23 W6@24 I7@25 W7@26",
  "F0@1 F1@2 F2@3 I0@6 F3@7 I1@8 W0@9 F4@10 I2@11 W1@12 F5@13 I3@14 W2@15 F6@16 I4@17 W3@18 F7@19 I5@20 W4@21 "
  "I6@22 W5@23 I7@24 W6@25 W7@26",
  "F0@2 F1@3 I0@5 F2@6 I1@7 F3@8 I2@9 W0@10 F4@11 I3@12 W1@13 F5@14 I4@15 W2@16 F6@17 I5@18 W3@19 F7@20 I6@21 "
  "W4@22 I7@23 W5@24 W6@25 W7@26",
  "F0@3 I0@4 F1@5 I1@6 F2@7 I2@8 F3@9 I3@10 W0@11 F4@12 I4@13 W1@14 F5@15 I5@16 W2@17 F6@18 I6@19 W3@20 F7@21 "
  "I7@22 W4@23 W5@24 W6@25 W7@26",
};

static const char *const table_zbh2[] = {
  "F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 I0@7 W0@8 F7@9 I1@10 W1@11 I2@12 W2@13 I3@14 W3@15 I4@16 W4@17 I5@18 W5@19 "
  "I6@20 W6@21 I7@22 W7@23",
  "F0@1 F1@2 F2@3 F3@4 F4@5 I0@6 F5@7 I1@8 F6@9 I2@10 W0@11 F7@12 I3@13 W1@14 I4@15 W2@16 I5@17 W3@18 I6@19 "
  "W4@20 I7@21 W5@22 W6@23 W7@24",
  "F0@2 F1@3 F2@4 I0@5 F3@6 I1@7 F4@8 I2@9 F5@10 I3@11 F6@12 I4@13 W0@14 F7@15 I5@16 W1@17 I6@18 W2@19 I7@20 "
  "W3@21 W4@22 W5@23 W6@24 W7@25",
  "F0@3 I0@4 F1@5 I1@6 F2@7 I2@8 F3@9 I3@10 F4@11 I4@12 F5@13 I5@14 F6@15 I6@16 W0@17 F7@18 I7@19 W1@20 W2@21 "
  "W3@22 W4@23 W5@24 W6@25 W7@26",
};

static const char *const table_zbv[] = {
  "F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 f0@7 i0@8 w0@9 f1@10 i1@11 w1@12 f2@13 i2@14 w2@15 f3@16 i3@17 w3@18 F7@19 "
  "I0@20 W0@21 f4@22 i4@23 w4@24 I1@25 W1@26 f5@27 i5@28 w5@29 I2@30 W2@31 f6@32 i6@33 w6@34 I3@35 W3@36 f7@37 "
  "i7@38 w7@39 I4@40 W4@41 I5@42 W5@43 I6@44 W6@45 I7@46 W7@47",
  "F0@1 F1@2 F2@3 F3@4 F4@5 f0@6 F5@7 f1@8 i0@9 w0@10 f2@11 i1@12 w1@13 f3@14 i2@15 w2@16 F6@17 I0@18 W0@19 "
  "f4@20 i3@21 w3@22 F7@23 I1@24 W1@25 f5@26 i4@27 w4@28 I2@29 W2@30 f6@31 i5@32 w5@33 I3@34 W3@35 f7@36 i6@37 "
  "w6@38 I4@39 i7@40 I5@41 W4@42 I6@43 W5@44 I7@45 W6@46 w7@47 W7@48",
  "F0@2 F1@3 F2@4 f0@5 F3@6 f1@7 F4@8 f2@9 i0@10 w0@11 f3@12 i1@13 w1@14 F5@15 I0@16 W0@17 f4@18 i2@19 w2@20 "
  "F6@21 I1@22 W1@23 f5@24 i3@25 w3@26 F7@27 I2@28 W2@29 f6@30 i4@31 w4@32 I3@33 W3@34 f7@35 i5@36 w5@37 I4@38 "
  "i6@39 I5@40 i7@41 I6@42 W4@43 I7@44 W5@45 w6@46 w7@47 W6@48 W7@49",
  "F0@3 f0@4 F1@5 f1@6 F2@7 f2@8 F3@9 f3@10 i0@11 w0@12 F4@13 I0@14 W0@15 f4@16 i1@17 w1@18 F5@19 I1@20 W1@21 "
  "f5@22 i2@23 w2@24 F6@25 I2@26 W2@27 f6@28 i3@29 w3@30 F7@31 I3@32 W3@33 f7@34 i4@35 w4@36 I4@37 i5@38 I5@39 "
  "i6@40 I6@41 i7@42 I7@43 W4@44 w5@45 w6@46 w7@47 W5@48 W6@49 W7@50",
};

static const char *const table_dualpipe[] = {
  "F0@0 F1@1 F2@2 f0@3 i0@4 w0@5 f1@6 F3+b1@7 f2+B0@11 b2@14 f3+B1@17 b3@20 I2@22 W2@23 I3@24 W3@25",
  "F0@1 f0@2 F1@3 f1@4 F2@5 b0@6 f2+B0@8 F3+b1@11 f3+B1@14 b2@17 B2@19 i3@22 I3@23 w3@24 W3@25",
  "f0@1 F0@2 f1@3 F1@4 f2@5 B0@6 F2+b0@8 f3+B1@11 F3+b1@14 B2@17 b2@19 I3@22 i3@23 W3@24 w3@25",
  "f0@0 f1@1 f2@2 F0@3 I0@4 W0@5 F1@6 f3+B1@7 F2+b0@11 B2@14 F3+b1@17 B3@20 i2@22 w2@23 i3@24 w3@25",
};

static const char *const table_dualpipev[] = {
  "F0@0 F1@1 F2@2 F3@3 F4@4 F5@5 F6@6 f0@7 i0@8 w0@9 f1@10 i1@11 w1@12 f2@13 i2@14 w2@15 f3@16 F7+b3@17 f4+B0@23 "
  "b4@26 f5+B1@29 b5@32 f6+B2@35 b6@38 f7+B3@41 b7@44 I4@46 W4@47 I5@48 W5@49 I6@50 W6@51 I7@52 W7@53",
  "F0@1 F1@2 F2@3 F3@4 F4@5 f0@6 F5@7 f1@8 i0@9 w0@10 f2@11 i1@12 w1@13 f3@14 F6+b2@15 f4+B0@20 F7+b3@23 "
  "f5+B1@26 b4@29 f6+B2@32 b5@35 f7+B3@38 b6@41 B4@43 i7@46 I5@47 w7@48 I6@49 W5@50 I7@51 W6@52 W7@53",
  "F0@2 F1@3 F2@4 f0@5 F3@6 f1@7 F4@8 f2@9 i0@10 w0@11 f3@12 F5+b1@13 f4+B0@17 F6+b2@20 f5+B1@23 F7+b3@26 "
  "f6+B2@29 b4@32 f7+B3@35 b5@38 B4@40 b6@43 I5@45 i7@47 I6@48 W5@49 I7@50 w7@51 W6@52 W7@53",
  "F0@3 f0@4 F1@5 f1@6 F2@7 f2@8 F3@9 f3@10 F4@11 b0@12 f4+B0@14 F5+b1@17 f5+B1@20 F6+b2@23 f6+B2@26 F7+b3@29 "
  "f7+B3@32 b4@35 B4@37 b5@40 B5@42 i6@45 I6@46 i7@48 I7@49 w6@50 W6@51 w7@52 W7@53",
};

typedef struct
{
  const ScSchedule *row;
  guint  v;
  const char *const *table;
  double makespan, idle;
  double idle_in_span[4];
  guint  peaks[4];
} Table;

static const Table tables[] = {
  { &sc_schedule_1f1b, 1, table_1f1b, 33, 9, { 9, 6, 3, 0 }, { 4, 3, 2, 1 } },
  { &sc_schedule_interleaved, 2, table_interleaved, 57, 9, { 9, 6, 3, 0 }, { 11, 9, 7, 5 } },
  { &sc_schedule_gpipe, 1, table_gpipe, 33, 9, { 9, 6, 3, 0 }, { 8, 8, 8, 8 } },
  { &sc_schedule_looped_bfs, 2, table_bfs, 57, 9, { 9, 6, 3, 0 }, { 16, 16, 16, 16 } },
  { &sc_schedule_zb_h1, 1, table_zbh1, 27, 3, { 3, 2, 1, 0 }, { 4, 4, 4, 4 } },
  { &sc_schedule_zb_h2, 1, table_zbh2, 27, 3, { 0, 0, 0, 0 }, { 7, 7, 7, 7 } },
  { &sc_schedule_zb_v, 2, table_zbv, 51, 3, { 0, 0, 0, 0 }, { 8, 8, 8, 8 } },
  { &sc_schedule_dualpipe, 1, table_dualpipe, 26, 2, { 2, 1, 1, 2 }, { 5, 5, 5, 5 } },
  { &sc_schedule_dualpipev, 2, table_dualpipev, 54, 6, { 6, 5, 4, 3 }, { 9, 9, 9, 9 } },
};

START_TEST (the_explicit_tables_come_out_slot_by_slot)
{
  const Table *const t = &tables[_i];
  const ScScheduleShape s = { 4, t->v, 8, 4, 0 };
  Costs c = costs_new (&s, 1, 2, 0);
  g_autoptr (Replay) r = replay_new (t->row, &s, &c);
  ck_assert_double_eq (r->makespan, t->makespan);
  for (guint rank = 0; rank < 4; rank++)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      const guint half = r->orders->placement == SC_PLACE_BOTH ? s.m / 2 : 0; /* each pipeline counts its micro-batches from 0 */
      for (guint i = 0; i < r->orders->ranks[rank]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (r->orders->ranks[rank], ScSlot, i);
          const char letter = "FBIWfbiw"[slot->pass + SC_N_PASSES * slot->chunk];
          g_string_append_printf (text, "%s%c%u", i == 0 ? "" : slot->paired ? "+" : " ", letter, slot->microbatch - slot->chunk * half);
          if (i + 1 == r->orders->ranks[rank]->len || !slot[1].paired)
            g_string_append_printf (text, "@%.0f", r->start[rank][i]);
        }
      ck_assert_str_eq (text->str, t->table[rank]);
      ck_assert_double_eq (r->makespan - r->busy[rank], t->idle);
      ck_assert_double_eq (r->last[rank] - r->first[rank] - r->busy[rank], t->idle_in_span[rank]);
      ck_assert_uint_eq (r->peak[rank], t->peaks[rank]);
    }
  costs_clear (&c);
}
END_TEST

/* MODELLING 7.2: the table for 5 micro-batches, 2 chunks and groups of 3, as Megatron's comment shows it. */
START_TEST (megatrons_example_table_comes_out)
{
  static const guint microbatch[] = { 0, 1, 2, 0, 1, 2, 3, 4, 3, 4 }, chunk[] = { 0, 0, 0, 1, 1, 1, 0, 0, 1, 1 };
  const ScScheduleShape s = { 2, 2, 5, 3, 0 };
  ck_assert_ptr_null (sc_schedule_interleaved.refuse (&s));
  for (guint rank = 0; rank < 2; rank++)
    {
      g_autoptr (GArray) slots = g_array_new (FALSE, FALSE, sizeof (ScSlot));
      guint n[2] = { 0, 0 };
      sc_schedule_interleaved.order (&s, rank, slots);
      for (guint i = 0; i < slots->len; i++)
        {
          const ScSlot *const slot = &g_array_index (slots, ScSlot, i);
          const guint k = n[slot->pass]++;
          ck_assert_uint_eq (slot->microbatch, microbatch[k]);
          ck_assert_uint_eq (slot->chunk, slot->pass == SC_PASS_FORWARD ? chunk[k] : 1 - chunk[k]);
        }
    }
}
END_TEST

/* Forwards before the first pair: one more stands before the first backward. */
static guint
warm_up_of (const ScSchedule *row, const ScScheduleShape *s, guint rank)
{
  g_autoptr (GArray) slots = g_array_new (FALSE, FALSE, sizeof (ScSlot));
  row->order (s, rank, slots);
  guint n = 0;
  while (g_array_index (slots, ScSlot, n).pass == SC_PASS_FORWARD)
    n++;
  return n - 1;
}

START_TEST (warm_up_counts_are_megatrons)
{
  static const guint plain[] = { 3, 2, 1, 0 }, interleaved[] = { 10, 8, 6, 4 }; /* MODELLING 7.2; m = 8, G = 4 */
  for (guint rank = 0; rank < 4; rank++)
    {
      ck_assert_uint_eq (warm_up_of (&sc_schedule_1f1b, &(ScScheduleShape) { 4, 1, 8, 4, 0 }, rank), plain[rank]);
      ck_assert_uint_eq (warm_up_of (&sc_schedule_interleaved, &(ScScheduleShape) { 4, 2, 8, 4, 0 }, rank),
                         interleaved[rank]);
    }
}
END_TEST

START_TEST (microbatches_in_flight_on_eight_stages)
{
  static const guint plain[] = { 8, 7, 6, 5, 4, 3, 2, 1 },
                     interleaved[] = { 23, 21, 19, 17, 15, 13, 11, 9 }; /* MODELLING 3.7; m = 32 */
  for (guint rank = 0; rank < 8; rank++)
    {
      ck_assert_uint_eq (sc_schedule_1f1b.in_flight (&(ScScheduleShape) { 8, 1, 32, 8, 0 }, rank), plain[rank]);
      ck_assert_uint_eq (sc_schedule_interleaved.in_flight (&(ScScheduleShape) { 8, 2, 32, 8, 0 }, rank),
                         interleaved[rank]);
    }
}
END_TEST

/* MODELLING 7.3: B = I + W; chunks of the interleaved form cost as much as whole stages of the plain one. */
static const struct
{
  guint  p, m;
  double f, b;
  double plain, interleaved, idle;
  guint  peak, peak_interleaved;
} cost_cases[] = {
  { 4, 8, 1, 2, 33, 57, 9, 4, 11 },       { 4, 8, 3, 6, 99, 171, 27, 4, 11 },
  { 4, 8, 10, 16, 286, 494, 78, 4, 11 },  { 4, 8, 2, 3, 55, 95, 15, 4, 11 },
  { 8, 24, 1, 2, 93, 165, 21, 8, 23 },    { 8, 24, 3, 6, 279, 495, 63, 8, 23 },
  { 8, 24, 10, 16, 806, 1430, 182, 8, 23 }, { 8, 24, 2, 3, 155, 275, 35, 8, 23 },
};

START_TEST (makespan_and_idle_of_the_cost_sets)
{
  for (guint i = 0; i < G_N_ELEMENTS (cost_cases); i++)
    for (guint v = 1; v <= 2; v++)
      {
        const ScScheduleShape s = { cost_cases[i].p, v, cost_cases[i].m, cost_cases[i].p, 0 };
        Costs c = costs_new (&s, cost_cases[i].f, cost_cases[i].b, 0);
        g_autoptr (Replay) r = replay_new (v == 1 ? &sc_schedule_1f1b : &sc_schedule_interleaved, &s, &c);
        ck_assert_double_eq (r->makespan, v == 1 ? cost_cases[i].plain : cost_cases[i].interleaved);
        double idle = 0;
        guint peak = 0;
        for (guint rank = 0; rank < s.p; rank++)
          {
            idle = MAX (idle, r->last[rank] - r->first[rank] - r->busy[rank]);
            peak = MAX (peak, r->peak[rank]);
          }
        ck_assert_double_eq (idle, cost_cases[i].idle);
        ck_assert_uint_eq (peak, v == 1 ? cost_cases[i].peak : cost_cases[i].peak_interleaved);
        costs_clear (&c);
      }
}
END_TEST

/* MODELLING 7.3: transfers of latency x = 0.25 that keep nobody busy add x (2 (p - 1) m / p + 2 (p - 2)) to 1F1B and
 * 2 (p v - 1) x to the interleaved form. */
static const struct { guint p, m; double plain, interleaved; } transfer_cases[] = {
  { 2, 2, 9.5, 16.5 },  { 2, 4, 16, 28.5 },    { 2, 8, 29, 52.5 },  { 4, 4, 23.5, 36.5 },  { 4, 8, 37, 60.5 },
  { 4, 16, 64, 108.5 }, { 8, 8, 51.5, 76.5 },  { 8, 16, 79, 124.5 }, { 8, 32, 134, 220.5 },
};

START_TEST (latency_of_free_transfers_adds_what_was_derived)
{
  for (guint i = 0; i < G_N_ELEMENTS (transfer_cases); i++)
    {
      const guint p = transfer_cases[i].p, m = transfer_cases[i].m;
      const double x = 0.25;
      ck_assert_double_eq (equal_makespan (&sc_schedule_1f1b, p, 1, m, 1, 2, x), transfer_cases[i].plain);
      ck_assert_double_eq (equal_makespan (&sc_schedule_interleaved, p, 2, m, 1, 2, x), transfer_cases[i].interleaved);
      ck_assert_double_eq (transfer_cases[i].plain, 3.0 * (m + p - 1) + x * (2.0 * (p - 1) * m / p + 2.0 * (p - 2)));
      ck_assert_double_eq (transfer_cases[i].interleaved, 3.0 * (2 * m + p - 1) + x * 2 * (2 * p - 1));
    }
}
END_TEST

/* MODELLING 7.6: unequal stages are simulated, not summed: 45 is sum (F + B) + (m - 1) max (F + B). */
START_TEST (unequal_stages)
{
  static const struct { double f[4], makespan, gpipe; } cases[] = {
    { { 1, 1, 1, 1.5 }, 45, 45 }, { { 1.5, 1, 1, 1 }, 40.5, 45 }, { { 1.2, 1, 1, 1.5 }, 45.6, 45.6 },
  };
  const ScScheduleShape s = { 4, 1, 8, 4, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Costs c = costs_new (&s, 0, 0, 0);
      for (guint k = 0; k < 32; k++)
        {
          c.forward[k] = cases[i].f[k / 8];
          c.input[k] = c.weight[k] = cases[i].f[k / 8];
        }
      ck_assert_double_eq_tol (makespan (&sc_schedule_1f1b, &s, &c), cases[i].makespan, 1e-12 * cases[i].makespan);
      ck_assert_double_eq_tol (makespan (&sc_schedule_gpipe, &s, &c), cases[i].gpipe, 1e-12 * cases[i].gpipe);
      costs_clear (&c);
    }
}
END_TEST

/* MODELLING 7.6: GPipe takes the sum over stages and (m - 1) times the slowest, down and up, whatever the stages cost.  1F1B has no such form. */
START_TEST (gpipe_of_unequal_stages_has_a_closed_form)
{
  guint64 x = 88172645463325252u;
  for (guint n = 0; n < 2000; n++)
    {
      const ScScheduleShape s = { 1 + (guint) (next_random (&x) % 8), 1, 1 + (guint) (next_random (&x) % 16), 1, 0 };
      Costs c = costs_new (&s, 0, 0, 0);
      double sum = 0, most_forward = 0, most_backward = 0;
      for (guint j = 0; j < s.p; j++)
        {
          const double f = (double) (1 + next_random (&x) % 9), b = (double) (2 + next_random (&x) % 9);
          sum += f + b;
          most_forward = MAX (most_forward, f);
          most_backward = MAX (most_backward, b);
          for (guint k = 0; k < s.m; k++)
            {
              c.forward[j * s.m + k] = f;
              c.input[j * s.m + k] = b - 1;
              c.weight[j * s.m + k] = 1;
            }
        }
      ck_assert_double_eq (makespan (&sc_schedule_gpipe, &s, &c), sum + (s.m - 1) * (most_forward + most_backward));
      costs_clear (&c);
    }
}
END_TEST

/* 7.8, 5: an order that stays, with transfers that take longer. */
static void
check_latency (const ScSchedule *row, const ScScheduleShape *s)
{
  if ((s->p * 7 + s->v * 3 + s->m) % 3 != 0) /* a third of the grid */
    return;
  Costs c = random_costs (s, s->p + s->m, 0);
  g_autoptr (ScOrders) o = orders_for (row, s, &c);
  double before = 0;
  for (double latency = 0; latency <= 8; latency = 2 * latency + 0.5)
    {
      const ScScheduleCosts costs = { .forward = c.forward, .input = c.input, .weight = c.weight, .microbatches = s->m, .latency = latency };
      const double now = sc_orders_replay (o, &costs, NULL, NULL);
      check_shape (now >= before && now > 0);
      before = now;
    }
  costs_clear (&c);
}

START_TEST (longer_transfers_never_shorten_a_step)
{
  for_each_shape (sc_schedule_all ()[_i], check_latency);
}
END_TEST

/* 7.8, 7: one micro-batch walks through all stages and back; where backwards are split, weights are made beside the way up. */
START_TEST (one_microbatch_takes_the_sum_or_less_where_backwards_are_split)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint p = 1; p <= 6; p++)
    for (guint v = 1; v <= 3; v++)
      {
        const ScScheduleShape s = { p, v, 1, p, 0 };
        if (row->refuse (&s) != NULL)
          continue;
        Costs c = random_costs (&s, p + v, 0.5);
        g_autoptr (Replay) r = replay_new (row, &s, &c);
        double sum = 0;
        for (guint i = 0; i < p * v; i++)
          sum += cost_of (&c, SC_PASS_FORWARD, i) + cost_of (&c, SC_PASS_BACKWARD, i);
        for (guint j = 1; j < p * v; j++)
          sum += rank_of (r->orders, j, 0) != rank_of (r->orders, j - 1, 0) ? 2 * 0.5 : 0;
        if (!sc_orders_split (r->orders))
          ck_assert_double_eq (r->makespan, sum);
        else
          ck_assert_double_le (r->makespan, sum);
        costs_clear (&c);
      }
}
END_TEST

/* MODELLING 7.5: what the public schedulers make of F, I, W: longest span of a rank, most chunks in flight; V schedules: two chunks that
 * cost F, I, W each. */
static const struct
{
  const ScSchedule *row;
  guint  p, m;
  double f, i, w, span;
  guint  peak; /* 0: not told */
} references[] = {
  { &sc_schedule_zb_1p, 4, 8, 1, 1, 1, 27, 4 },   { &sc_schedule_zb_2p, 4, 8, 1, 1, 1, 24, 0 },
  { &sc_schedule_v_half, 4, 8, 1, 1, 1, 53, 6 },  { &sc_schedule_v_min, 4, 8, 1, 1, 1, 59, 4 },
  { &sc_schedule_zb_1p, 4, 12, 1, 1, 1, 39, 4 },  { &sc_schedule_zb_2p, 4, 12, 1, 1, 1, 36, 0 },
  { &sc_schedule_v_half, 4, 12, 1, 1, 1, 77, 6 }, { &sc_schedule_v_min, 4, 12, 1, 1, 1, 83, 4 },
  { &sc_schedule_zb_1p, 6, 18, 1, 1, 1, 59, 6 },  { &sc_schedule_zb_2p, 6, 18, 1, 1, 1, 54, 0 },
  { &sc_schedule_v_half, 6, 18, 1, 1, 1, 119, 8 }, { &sc_schedule_v_min, 6, 18, 1, 1, 1, 125, 6 },
  { &sc_schedule_zb_1p, 8, 24, 1, 1, 1, 79, 8 },  { &sc_schedule_zb_2p, 8, 24, 1, 1, 1, 72, 0 },
  { &sc_schedule_v_half, 8, 24, 1, 1, 1, 161, 10 }, { &sc_schedule_v_min, 8, 24, 1, 1, 1, 171, 8 },
  { &sc_schedule_zb_1p, 4, 8, 10, 9, 7, 244, 0 }, { &sc_schedule_zb_2p, 4, 8, 10, 9, 7, 218, 0 },
  { &sc_schedule_v_half, 4, 8, 10, 9, 7, 482, 0 }, { &sc_schedule_v_min, 4, 8, 10, 9, 7, 571, 0 },
};

static Costs
costs_of (const ScScheduleShape *s, double f, double i, double w)
{
  const Costs c = costs_new (s, f, 0, 0);
  for (guint k = 0; k < s->p * s->v * s->m; k++)
    {
      c.input[k] = i;
      c.weight[k] = w;
    }
  return c;
}

START_TEST (the_public_schedulers_results_come_out)
{
  const guint v = references[_i].row->placement == SC_PLACE_V ? 2 : 1;
  const ScScheduleShape s = { references[_i].p, v, references[_i].m, references[_i].p, 0 };
  Costs c = costs_of (&s, references[_i].f, references[_i].i, references[_i].w);
  g_autoptr (Replay) r = replay_new (references[_i].row, &s, &c);
  double span = 0;
  guint peak = 0;
  for (guint rank = 0; rank < s.p; rank++)
    {
      span = MAX (span, r->last[rank] - r->first[rank]);
      peak = MAX (peak, r->peak[rank]);
    }
  ck_assert_msg (span == references[_i].span, "%s p=%u m=%u: span %g, expected %g", references[_i].row->name, s.p, s.m, span,
                 references[_i].span);
  if (references[_i].peak > 0)
    ck_assert_uint_eq (peak, references[_i].peak);
  costs_clear (&c);
}
END_TEST

/* Most micro-batches' worth of activations on @rank, where input gradients free all but @held of one. */
static double
most_held (const ScOrders *o, guint rank, double held)
{
  double now = 0, most = 0;
  for (guint i = 0; i < o->ranks[rank]->len; i++)
    {
      const guint pass = g_array_index (o->ranks[rank], ScSlot, i).pass;
      now += pass == SC_PASS_FORWARD ? 1 : pass == SC_PASS_INPUT ? held - 1 : -held;
      most = MAX (most, now);
    }
  return most;
}

/* What input gradients free leaves room for more forwards. */
START_TEST (memory_limits_are_kept_by_share)
{
  static const double shares[] = { 1, 0.9, 0.5, 0.43, 0.1 };
  for (guint i = 0; i < G_N_ELEMENTS (shares); i++)
    for (guint p = 2; p <= 8; p += 3)
      for (guint m = 1; m <= 31; m += 6)
        for (guint64 seed = 0; seed < 8; seed++)
          {
            const ScScheduleShape s = { p, 1, m, p, 0 };
            Costs c = random_costs (&s, seed, seed % 2 > 0 ? 1 : 0);
            c.held = shares[i];
            g_autoptr (Replay) one = replay_new (&sc_schedule_zb_1p, &s, &c), two = replay_new (&sc_schedule_zb_2p, &s, &c);
            for (guint rank = 0; rank < p; rank++)
              {
                ck_assert_double_le (most_held (one->orders, rank, shares[i]), p + 1e-6);
                ck_assert_double_le (most_held (two->orders, rank, shares[i]), 2 * p + 1e-6);
              }
            costs_clear (&c);
          }
}
END_TEST

/* The longest span of a rank is what replaying each slot says. */
START_TEST (spans_are_those_of_the_replay)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint p = 2; p <= 6; p += 2)
    for (guint64 seed = 0; seed < 6; seed++)
      {
        const ScScheduleShape s = { p, row->placement == SC_PLACE_V || strcmp (row->name, "interleaved") == 0 || strcmp (row->name, "looped-bfs") == 0 ? 2 : 1, 2 * p, p, 0 };
        if (row->refuse (&s) != NULL || row->placement == SC_PLACE_BOTH)
          continue;
        Costs c = random_costs (&s, seed, (double) (seed % 3));
        g_autoptr (Replay) r = replay_new (row, &s, &c);
        double longest = 0;
        for (guint rank = 0; rank < p; rank++)
          longest = MAX (longest, r->last[rank] - r->first[rank]);
        const ScScheduleCosts costs = { .forward = c.forward, .input = c.input, .weight = c.weight, .microbatches = s.m, .latency = c.latency };
        ck_assert_double_eq (sc_orders_span (r->orders, &costs), longest);
        costs_clear (&c);
      }
}
END_TEST

START_TEST (memory_limits_are_kept)
{
  for (guint p = 2; p <= 8; p += 2)
    for (guint m = 1; m <= 24; m += 5)
      for (guint64 seed = 0; seed < 8; seed++)
        {
          const ScScheduleShape s = { p, 1, m, p, 0 };
          Costs c = random_costs (&s, seed, seed % 2 > 0 ? 1 : 0);
          g_autoptr (Replay) one = replay_new (&sc_schedule_zb_1p, &s, &c), two = replay_new (&sc_schedule_zb_2p, &s, &c);
          for (guint rank = 0; rank < p; rank++)
            {
              ck_assert_uint_le (one->peak[rank], p);
              ck_assert_uint_le (two->peak[rank], 2 * p);
            }
          costs_clear (&c);
        }
}
END_TEST

/* MODELLING 7.3: makespan, most idle time inside a rank's span, most in flight. */
static const struct
{
  const ScSchedule *row;
  guint  p, m;
  double f, i, w, makespan, idle;
  guint  peak;
} split_cases[] = {
  { &sc_schedule_zb_h1, 4, 8, 1, 1, 1, 27, 3, 4 },
  { &sc_schedule_zb_h2, 4, 8, 1, 1, 1, 27, 0, 7 },
  { &sc_schedule_zb_v, 4, 8, 1, 1, 1, 51, 0, 8 },
  { &sc_schedule_dualpipev, 4, 8, 1, 1, 1, 54, 6, 9 },
  { &sc_schedule_zb_h1, 4, 8, 3, 4, 2, 87, 15, 4 },
  { &sc_schedule_zb_h2, 4, 8, 3, 4, 2, 81, 9, 7 },
  { &sc_schedule_zb_v, 4, 8, 3, 4, 2, 156, 12, 8 },
  { &sc_schedule_dualpipev, 4, 8, 3, 4, 2, 168, 24, 9 },
  { &sc_schedule_zb_h1, 4, 8, 10, 9, 7, 244, 36, 4 },
  { &sc_schedule_zb_h2, 4, 8, 10, 9, 7, 238, 15, 7 },
  { &sc_schedule_zb_v, 4, 8, 10, 9, 7, 448, 17, 8 },
  { &sc_schedule_dualpipev, 4, 8, 10, 9, 7, 482, 66, 9 },
  { &sc_schedule_zb_h1, 4, 8, 2, 2, 1, 49, 9, 4 },
  { &sc_schedule_zb_h2, 4, 8, 2, 2, 1, 46, 6, 7 },
  { &sc_schedule_zb_v, 4, 8, 2, 2, 1, 86, 6, 8 },
  { &sc_schedule_dualpipev, 4, 8, 2, 2, 1, 95, 15, 9 },
  { &sc_schedule_zb_h1, 8, 24, 1, 1, 1, 79, 7, 8 },
  { &sc_schedule_zb_h2, 8, 24, 1, 1, 1, 79, 0, 15 },
  { &sc_schedule_zb_v, 8, 24, 1, 1, 1, 151, 0, 16 },
  { &sc_schedule_dualpipev, 8, 24, 1, 1, 1, 158, 14, 17 },
  { &sc_schedule_zb_h1, 8, 24, 3, 4, 2, 251, 35, 8 },
  { &sc_schedule_zb_h2, 8, 24, 3, 4, 2, 237, 21, 15 },
  { &sc_schedule_zb_v, 8, 24, 3, 4, 2, 460, 28, 16 },
  { &sc_schedule_dualpipev, 8, 24, 3, 4, 2, 492, 60, 17 },
  { &sc_schedule_zb_h1, 8, 24, 10, 9, 7, 708, 84, 8 },
  { &sc_schedule_zb_h2, 8, 24, 10, 9, 7, 694, 35, 15 },
  { &sc_schedule_zb_v, 8, 24, 10, 9, 7, 1324, 41, 16 },
  { &sc_schedule_dualpipev, 8, 24, 10, 9, 7, 1402, 154, 17 },
  { &sc_schedule_zb_h1, 8, 24, 2, 2, 1, 141, 21, 8 },
  { &sc_schedule_zb_h2, 8, 24, 2, 2, 1, 134, 14, 15 },
  { &sc_schedule_zb_v, 8, 24, 2, 2, 1, 254, 14, 16 },
  { &sc_schedule_dualpipev, 8, 24, 2, 2, 1, 275, 35, 17 },
};

START_TEST (makespan_and_idle_of_split_schedules)
{
  for (guint n = 0; n < G_N_ELEMENTS (split_cases); n++)
    {
      const guint v = split_cases[n].row->placement == SC_PLACE_V ? 2 : 1;
      const ScScheduleShape s = { split_cases[n].p, v, split_cases[n].m, split_cases[n].p, 0 };
      Costs c = costs_of (&s, split_cases[n].f, split_cases[n].i, split_cases[n].w);
      g_autoptr (Replay) r = replay_new (split_cases[n].row, &s, &c);
      double idle = 0;
      guint peak = 0;
      for (guint rank = 0; rank < s.p; rank++)
        {
          idle = MAX (idle, r->last[rank] - r->first[rank] - r->busy[rank]);
          peak = MAX (peak, r->peak[rank]);
        }
      ck_assert_msg (r->makespan == split_cases[n].makespan && idle == split_cases[n].idle && peak == split_cases[n].peak,
                     "%s p=%u m=%u (%g, %g, %g): %g, %g, %u", split_cases[n].row->name, s.p, s.m, split_cases[n].f, split_cases[n].i,
                     split_cases[n].w, r->makespan, idle, peak);
      costs_clear (&c);
    }
}
END_TEST

START_TEST (llama3_bubble_ratio)
{
  /* MODELLING 7.3; arXiv 2407.21783: (PP - 1) / (V M) over the ideal time */
  ck_assert_double_eq (sc_schedule_interleaved.ideal_bubble (&(ScScheduleShape) { 16, 8, 16, 16, 0 }), 0.1171875);
}
END_TEST

static Suite *
schedule_suite (void)
{
  Suite *const s = suite_create ("schedule");
  TCase *const every = tcase_create ("every row");
  tcase_set_timeout (every, 120);
  tcase_add_loop_test (every, every_chunk_and_microbatch_has_one_forward_and_then_one_backward_or_its_parts, 0, N_ROWS);
  tcase_add_loop_test (heavy (s), every_order_executes_under_any_costs_and_latency, 0, N_ROWS);
  tcase_add_loop_test (every, longer_transfers_never_shorten_a_step, 0, N_ROWS);
  tcase_add_loop_test (every, one_microbatch_takes_the_sum_or_less_where_backwards_are_split, 0, N_ROWS);
  tcase_add_loop_test (every, spans_are_those_of_the_replay, 0, N_ROWS);
  tcase_add_loop_test (every, as_many_microbatches_are_held_as_the_row_says, 0, N_ROWS);
  tcase_add_loop_test (heavy (s), a_period_more_is_the_same_slots_put_in_again, 0, N_ROWS);
  tcase_add_loop_test (every, equal_stages_idle_as_the_closed_form_says, 0, N_ROWS);
  tcase_add_test (every, rows_are_found_by_name);
  suite_add_tcase (s, every);
  TCase *const hand = tcase_create ("by hand");
  tcase_add_test (hand, one_microbatch_walks_down_and_up_and_one_rank_just_accumulates);
  tcase_add_test (hand, interleaved_with_one_chunk_is_refused_not_taken_for_1f1b);
  tcase_add_loop_test (hand, the_explicit_tables_come_out_slot_by_slot, 0, G_N_ELEMENTS (tables));
  tcase_add_test (hand, megatrons_example_table_comes_out);
  tcase_add_test (hand, warm_up_counts_are_megatrons);
  tcase_add_test (hand, microbatches_in_flight_on_eight_stages);
  tcase_add_test (hand, makespan_and_idle_of_the_cost_sets);
  tcase_add_test (hand, latency_of_free_transfers_adds_what_was_derived);
  tcase_add_test (hand, unequal_stages);
  tcase_add_test (hand, gpipe_of_unequal_stages_has_a_closed_form);
  tcase_add_test (hand, llama3_bubble_ratio);
  tcase_add_loop_test (hand, the_public_schedulers_results_come_out, 0, G_N_ELEMENTS (references));
  tcase_add_test (hand, memory_limits_are_kept);
  tcase_add_test (heavy (s), memory_limits_are_kept_by_share);
  tcase_add_test (hand, makespan_and_idle_of_split_schedules);
  suite_add_tcase (s, hand);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (schedule_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
