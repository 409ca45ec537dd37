/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_profile.c - times of passes that a workload gives: every schedule takes as long as its order on paper, memory stays. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/memory.h"
#include "models/profile.h"
#include "pace.h"

#define MS 1e-3

typedef struct
{
  guint p, v, m;
} Pipe;

static const Pipe pipes[] = { { 2, 1, 4 }, { 4, 1, 8 }, { 4, 2, 8 }, { 2, 2, 2 }, { 4, 2, 9 }, { 4, 3, 12 }, { 6, 1, 12 }, { 8, 2, 16 }, { 3, 2, 7 } };

static guint64
next_random (guint64 *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static gboolean
refuses (const ScSchedule *row, const Pipe *pipe)
{
  const ScScheduleShape shape = { pipe->p, pipe->v, pipe->m, pipe->p, 0 };
  return row->refuse (&shape) != NULL;
}

/* GPUs that need no time but for what the profile says, links that need none. */
static ScTopology *
instant_topology (double nic_latency_s)
{
  ScTopology *const t = fix_topology ((FixFabric) { .nodes = 16, .gpus = 1, .nic_latency_s = nic_latency_s });
  ScDevice *const d = g_ptr_array_index (t->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = d->elementwise_bytes_per_s.value = 1e30;
  t->types[0].nic_bytes_per_s.value = 1e30;
  return t;
}

static ScWorkload *
workload_of (const ScSchedule *row, const Pipe *pipe, guint layers)
{
  ScWorkload *const w = fix_workload ((FixPlan) { .pp = pipe->p, .vpp = pipe->v, .layers = pipe->p * pipe->v * layers, .microbatches = pipe->m });
  w->plan.schedule = row->name;
  w->plan.attention = SC_ATTENTION_UNFUSED;
  w->plan.grad_dtype = SC_DTYPE_BF16;
  return w;
}

/* By stage whole milliseconds from 1 to 9, and as costs of the order on paper. */
static double *
give_stage_times (ScWorkload *w, guint64 seed)
{
  ScProfile *const p = &w->plan.profile;
  guint64 x = 88172645463325252u + seed;
  p->n = w->plan.pp * w->plan.vpp;
  p->by_stage = TRUE;
  double *const costs = g_new (double, 3 * p->n);
  static const ScPass passes[] = { SC_PASS_FORWARD, SC_PASS_INPUT, SC_PASS_WEIGHT };
  p->seconds[SC_PASS_BACKWARD] = g_new0 (double, p->n);
  for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
    {
      p->seconds[passes[i]] = g_new (double, p->n);
      for (guint j = 0; j < p->n; j++)
        {
          const double ms = (double) (1 + next_random (&x) % 9);
          costs[i * p->n + j] = ms;
          p->seconds[passes[i]][j] = ms * MS;
          p->seconds[SC_PASS_BACKWARD][j] += i > 0 ? ms * MS : 0;
        }
    }
  return costs;
}

static void
give_number (ScWorkload *w, double forward_s, double input_s, double weight_s)
{
  ScProfile *const p = &w->plan.profile;
  const double seconds[SC_N_PASSES] = { [SC_PASS_FORWARD] = forward_s, [SC_PASS_BACKWARD] = input_s + weight_s, [SC_PASS_INPUT] = input_s,
                                        [SC_PASS_WEIGHT] = weight_s };
  p->n = 1;
  for (guint i = 0; i < SC_N_PASSES; i++)
    {
      p->seconds[i] = g_new (double, 1);
      p->seconds[i][0] = seconds[i];
    }
}

static void
drop_profile (ScWorkload *w)
{
  for (guint i = 0; i < SC_N_PASSES; i++)
    g_clear_pointer (&w->plan.profile.seconds[i], g_free);
  w->plan.profile = (ScProfile) { 0 };
}

static FixRun *
run (const ScTopology *t, const ScWorkload *w, gboolean unfolded)
{
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  return fix_run (t, w, items, unfolded, 0);
}

static void
assert_near (double got, double want, const ScSchedule *row, const Pipe *pipe)
{
  ck_assert_msg (fabs (got - want) <= 1e-6 * want, "%s p=%u v=%u m=%u: %.9f s, expected %.9f", row->name, pipe->p, pipe->v, pipe->m, got, want);
}

START_TEST (times_by_stage_take_as_long_as_the_order_on_paper)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || strcmp (row->name, "none") == 0)
        continue;
      g_autoptr (ScTopology) t = instant_topology (0);
      g_autoptr (ScWorkload) w = workload_of (row, &pipes[i], 2);
      g_autofree double *ms = give_stage_times (w, i + 100u * (guint) _i);
      g_autoptr (FixRun) r = run (t, w, FALSE);
      const guint n = w->plan.profile.n;
      const ScScheduleCosts costs = { .forward = ms, .input = ms + n, .weight = ms + 2 * n };
      /* interleaved passes are exchanged in pairs, which the order on paper does not know */
      const double want = sc_orders_replay (r->lowered->orders, &costs, NULL, NULL) * MS, got = sc_time_to_s (r->trace->end);
      if (!row->exchanges || pipes[i].v == 1)
        assert_near (got, want, row, &pipes[i]);
      else
        ck_assert_double_ge (got, (1 - 1e-6) * want);
    }
}
END_TEST

START_TEST (microbatches_of_unequal_cost_take_as_long_as_the_order_on_paper)
{
  static const double factors[] = { 1, 2, 0.5, 3 };
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || strcmp (row->name, "none") == 0 || (row->exchanges && pipes[i].v > 1))
        continue;
      g_autoptr (ScTopology) t = instant_topology (0);
      g_autoptr (ScWorkload) w = workload_of (row, &pipes[i], 1);
      g_autofree double *ms = give_stage_times (w, 7 + i);
      w->plan.n_microbatch_factors = G_N_ELEMENTS (factors);
      w->plan.microbatch_factors = g_memdup2 (factors, sizeof factors);
      g_autoptr (FixRun) r = run (t, w, FALSE);
      const guint n = w->plan.profile.n, m = pipes[i].m;
      g_autofree double *each = g_new (double, 3 * n * m);
      for (guint k = 0; k < 3 * n * m; k++)
        each[k] = ms[k / m] * factors[k % m % G_N_ELEMENTS (factors)];
      const ScScheduleCosts costs = { .forward = each, .input = each + n * m, .weight = each + 2 * n * m, .microbatches = m };
      assert_near (sc_time_to_s (r->trace->end), sc_orders_replay (r->lowered->orders, &costs, NULL, NULL) * MS, row, &pipes[i]);
    }
}
END_TEST

/* A number is the time of a full rank: ranks with fewer layers take less. */
START_TEST (a_number_is_shared_by_the_layers_of_a_full_rank)
{
  static const guint stage_layers[] = { 2, 3, 3, 1 };
  g_autoptr (ScTopology) t = instant_topology (0);
  g_autoptr (ScWorkload) w = workload_of (&sc_schedule_gpipe, &(Pipe) { 4, 1, 8 }, 1);
  w->model.layers = 9;
  w->plan.stage_layers = g_memdup2 (stage_layers, sizeof stage_layers);
  give_number (w, 6 * MS, 9 * MS, 3 * MS);
  g_autoptr (FixRun) r = run (t, w, FALSE);
  /* GPipe: sum of the stages, and the slowest for all other micro-batches (MODELLING 7.6) */
  const double layer = 6 * MS, sum = 9 * layer, slowest = 3 * layer;
  ck_assert_double_eq_tol (sc_time_to_s (r->trace->end), sum + 7 * slowest, 1e-4 * sum); /* and the head */
}
END_TEST

/* A stage without layers hands on what it is given; embedding and loss may stand alone. */
START_TEST (an_empty_stage_hands_on)
{
  static const guint layouts[][6] = { { 2, 0, 3, 1, 0, 2 }, { 0, 2, 2, 2, 2, 0 }, { 0, 0, 0, 8, 0, 0 } };
  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    for (guint detail = 0; detail < SC_N_DETAILS; detail++)
      {
        g_autoptr (ScTopology) t = instant_topology (0);
        g_autoptr (ScWorkload) w = workload_of (&sc_schedule_gpipe, &(Pipe) { 6, 1, 8 }, 1);
        w->model.layers = 8;
        w->plan.stage_layers = g_memdup2 (layouts[i], sizeof layouts[i]);
        w->plan.pipeline_layout = g_strdup ("as given");
        w->plan.overlap_p2p = TRUE;
        w->plan.post_validation = TRUE;
        give_number (w, 6 * MS, 3 * MS, 3 * MS);
        w->plan.profile.transfer_s = 1 * MS;
        ck_assert (sc_workload_check (w, NULL));
        const ScForecastOptions options = { .detail = (ScDetail) detail };
        g_autoptr (ScSummary) s = sc_forecast (t, w, &options, NULL);
        guint most = 0;
        for (guint k = 0; k < 6; k++)
          most = MAX (most, layouts[i][k]);
        const double layer = 12 * MS / most, end = sc_time_to_s (s->trace->end);
        ck_assert_double_eq_tol (end, 8 * layer + 7 * most * layer + 2 * 5 * 1 * MS, 2e-4);
      }
}
END_TEST

START_TEST (a_transfer_takes_as_long_as_it_says)
{
  static const double latencies_s[] = { 0, 1e-4, 0.02 }; /* below and above what the workload says */
  for (guint i = 0; i < G_N_ELEMENTS (latencies_s); i++)
    {
      g_autoptr (ScTopology) t = instant_topology (latencies_s[i]);
      g_autoptr (ScWorkload) w = workload_of (&sc_schedule_gpipe, &(Pipe) { 4, 1, 8 }, 1);
      w->plan.overlap_p2p = TRUE;
      give_number (w, 3 * MS, 3 * MS, 2 * MS);
      w->plan.profile.transfer_s = 1 * MS;
      w->plan.post_validation = TRUE; /* no all-reduce at the end */
      g_autoptr (FixRun) r = run (t, w, FALSE);
      ck_assert_double_eq_tol (sc_time_to_s (r->trace->end), (8 + 3) * 8 * MS + 2 * 3 * MS, 1e-4); /* MODELLING 7.3: + 2 (p - 1) x */
    }
}
END_TEST

/* Peaks of all kinds of memory hang on what passes allocate, not on how long they take. */
START_TEST (memory_stays)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || strcmp (row->name, "none") == 0 || row->orders != NULL)
        continue;
      g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 16, .gpus = 1 });
      g_autoptr (ScWorkload) w = workload_of (row, &pipes[i], 2);
      g_autoptr (FixRun) ours = run (t, w, FALSE);
      for (guint by_stage = 0; by_stage < 2; by_stage++)
        {
          g_autofree double *ms = NULL;
          if (by_stage)
            ms = give_stage_times (w, 3);
          else
            give_number (w, 2 * MS, 3 * MS, 1 * MS);
          g_autoptr (FixRun) given = run (t, w, FALSE);
          for (guint32 k = 0; k < given->fold->n_classes; k++)
            {
              const ScMemPeak want = sc_memory_peak (ours->lowered->program, ours->trace, k);
              const ScMemPeak got = sc_memory_peak (given->lowered->program, given->trace, k);
              /* buffers of transfers beside compute come and go by time */
              const guint64 comm = want.by_kind[SC_MEM_COMM] + got.by_kind[SC_MEM_COMM];
              ck_assert_uint_le (got.bytes, want.bytes + comm);
              ck_assert_uint_le (want.bytes, got.bytes + comm);
            }
          drop_profile (w);
        }
    }
}
END_TEST

START_TEST (what_a_pass_allocates_has_the_same_peak_and_the_same_sum)
{
  const ScItem items[] = {
    { .kind = SC_ITEM_MEM, .mem = SC_MEM_TRANSIENT, .mem_bytes = 10 },
    { .kind = SC_ITEM_KERNEL, .time = SC_TIME_FORWARD },
    { .kind = SC_ITEM_MEM, .mem = SC_MEM_ACTIVATIONS, .mem_bytes = 5 },
    { .kind = SC_ITEM_COLLECTIVE, .time = SC_TIME_FORWARD },
    { .kind = SC_ITEM_MEM, .mem = SC_MEM_TRANSIENT, .mem_bytes = -10 },
    { .kind = SC_ITEM_MEM, .mem = SC_MEM_LOGITS, .mem_bytes = 3 },
  };
  g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (ScItem));
  g_array_append_vals (list, items, G_N_ELEMENTS (items));
  sc_profile_replace (list, SC_PASS_FORWARD, 0.5);
  gint64 now[SC_N_MEMS] = { 0 };
  guint kernels = 0;
  for (guint i = 0; i < list->len; i++)
    {
      const ScItem *const item = &g_array_index (list, ScItem, i);
      ck_assert_int_ne (item->kind, SC_ITEM_COLLECTIVE);
      if (item->kind == SC_ITEM_MEM)
        now[item->mem] += item->mem_bytes;
      if (item->kind != SC_ITEM_KERNEL)
        continue;
      kernels++;
      ck_assert_double_eq (item->kernel.seconds, 0.5);
      ck_assert_int_eq (now[SC_MEM_TRANSIENT] + now[SC_MEM_ACTIVATIONS] + now[SC_MEM_LOGITS], 15);
    }
  ck_assert_uint_eq (kernels, 1);
  ck_assert_int_eq (now[SC_MEM_TRANSIENT], 0);
  ck_assert_int_eq (now[SC_MEM_ACTIVATIONS], 5);
  ck_assert_int_eq (now[SC_MEM_LOGITS], 3);
}
END_TEST

/* ZB-H2 has no idle in a rank's span where F = I = W (MODELLING 7.3): without a barrier that is the step. */
START_TEST (without_a_barrier_the_longest_rank_is_the_step)
{
  g_autoptr (ScTopology) t = instant_topology (0);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (ScWorkload) w = workload_of (i == 0 ? &sc_schedule_zb_h2 : &sc_schedule_zb_2p, &(Pipe) { 4, 1, 8 }, 1);
      g_autofree double *ms = give_stage_times (w, 1);
      for (guint k = 0; k < 3 * 4; k++)
        w->plan.profile.seconds[k / 4 == 0 ? SC_PASS_FORWARD : k / 4 == 1 ? SC_PASS_INPUT : SC_PASS_WEIGHT][k % 4] = 1 * MS;
      g_autoptr (ScSummary) barrier = sc_forecast (t, w, NULL, NULL);
      ck_assert_double_eq_tol (sc_time_to_s (barrier->step), 27 * MS, 1e-6);
      w->plan.post_validation = TRUE;
      ck_assert (sc_workload_check (w, NULL));
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
      ck_assert_double_eq_tol (sc_time_to_s (s->step), 24 * MS, 1e-6);
      for (guint k = 0; k < s->n_classes; k++)
        {
          ScTime sum = 0;
          for (guint kind = 0; kind < SC_N_TIMES; kind++)
            sum += s->classes[k].time[kind];
          ck_assert_int_eq (sum, s->step);
        }
      ck_assert_double_eq_tol (s->bubble_fraction, 0, 1e-6);
      ck_assert_double_eq_tol (s->bubble_fraction_ideal, 0, 1e-12);
      ck_assert_double_eq_tol (s->grade_share[SC_GRADE_USER], 1, 1e-6);
    }
}
END_TEST

START_TEST (every_schedule_adds_up_without_a_barrier)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || strcmp (row->name, "none") == 0)
        continue;
      g_autoptr (ScTopology) t = instant_topology (1e-4);
      g_autoptr (ScWorkload) w = workload_of (row, &pipes[i], 1);
      g_autofree double *ms = give_stage_times (w, 11 + i);
      g_autoptr (ScSummary) barrier = sc_forecast (t, w, NULL, NULL);
      w->plan.post_validation = TRUE;
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
      ck_assert_int_le (s->step, barrier->step);
      for (guint k = 0; k < s->n_classes; k++)
        {
          ScTime sum = 0;
          for (guint kind = 0; kind < SC_N_TIMES; kind++)
            sum += s->classes[k].time[kind];
          ck_assert_int_eq (sum, s->step);
        }
    }
}
END_TEST

/* MODELLING 7.8 through the engine, on a random grid: each stage is busy for its own passes, nothing idles below zero, transfers that take
 * longer never help, and all times scaled scale the step. */
static void
check_random (const ScSchedule *row, guint64 *x)
{
  const Pipe pipe = { 2 + (guint) (next_random (x) % 5), 1 + (guint) (next_random (x) % 3), 1 + (guint) (next_random (x) % 13) };
  const gboolean overlapped = next_random (x) % 2 == 1, one_queue = next_random (x) % 2 == 1;
  if (refuses (row, &pipe))
    return;
  g_autoptr (ScTopology) t = instant_topology (0);
  g_autoptr (ScWorkload) w = workload_of (row, &pipe, 1 + (guint) (next_random (x) % 2));
  w->plan.overlap_p2p = overlapped && strcmp (row->name, "1f1b") != 0;
  w->plan.one_queue = one_queue;
  w->plan.post_validation = TRUE; /* no all-reduce at the end */
  g_autofree double *ms = give_stage_times (w, next_random (x));
  const guint n = w->plan.profile.n, m = pipe.m;
  const double transfer_s = (double) (next_random (x) % 3) * MS;
  ScTime before = 0;
  for (guint i = 0; i < 3; i++)
    {
      w->plan.profile.transfer_s = transfer_s * i + 1e-7;
      g_autoptr (ScSummary) s = sc_forecast (t, w, NULL, NULL);
      ck_assert_ptr_nonnull (s);
      const ScTime end = s->trace->end;
      ck_assert_msg (end >= before - before / 1000000, "%s p=%u v=%u m=%u: a transfer of %g s shortens the step", row->name, pipe.p, pipe.v, m,
                     w->plan.profile.transfer_s);
      before = end;
      for (guint k = 0; k < s->n_classes; k++)
        {
          double busy = 0;
          for (guint chunk = 0; chunk < sc_plan_chunks (&w->plan); chunk++)
            {
              const guint j = sc_plan_stage (&w->plan, s->classes[k].stage, chunk);
              const guint runs = row->placement == SC_PLACE_BOTH ? m / 2 : m;
              busy += runs * (ms[j] + ms[n + j] + ms[2 * n + j]) * MS;
            }
          const ScTime *const time = s->classes[k].time;
          ck_assert_double_eq_tol (sc_time_to_s (time[SC_TIME_FORWARD] + time[SC_TIME_BACKWARD] + time[SC_TIME_WEIGHT]), busy, 1e-6 * busy);
          ck_assert ((time[SC_TIME_WEIGHT] > 0) == sc_orders_split (s->orders));
          for (guint kind = 0; kind < SC_N_TIMES; kind++)
            ck_assert_int_ge (time[kind], 0);
        }
    }
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    for (guint j = 0; j < n; j++)
      w->plan.profile.seconds[pass][j] *= 4;
  w->plan.profile.transfer_s *= 4;
  g_autoptr (ScSummary) scaled = sc_forecast (t, w, NULL, NULL);
  ck_assert_double_eq_tol ((double) scaled->trace->end, 4.0 * (double) before, 1e-6 * (double) scaled->trace->end);
}

START_TEST (invariants_hold_on_a_random_grid)
{
  guint64 x = 88172645463325252u + (guint64) _i;
  for (guint i = 0; i < 40; i++)
    check_random (sc_schedule_all ()[_i], &x);
}
END_TEST

START_TEST (folded_and_unfolded_agree)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  const Pipe pipe = { 4, row->placement == SC_PLACE_LOOP && strcmp (row->name, "interleaved") != 0 && !sc_schedule_find (row->name)->refuse (&(ScScheduleShape) { 4, 1, 8, 4, 0 }) ? 1 : 2, 8 };
  if (refuses (row, &pipe) || strcmp (row->name, "none") == 0)
    return;
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 16, .gpus = 1, .nic_latency_s = 1e-5 });
  g_autoptr (ScWorkload) w = workload_of (row, &pipe, 2);
  w->plan.dp = 2;
  w->plan.gpus = 8;
  w->plan.global_batch = 16;
  w->plan.microbatch_factors = g_memdup2 ((const double[]) { 1.5, 0.5 }, 2 * sizeof (double));
  w->plan.n_microbatch_factors = 2;
  g_autofree double *ms = give_stage_times (w, 5);
  w->plan.profile.transfer_s = 0.3 * MS;
  g_autoptr (FixRun) folded = run (t, w, FALSE);
  g_autoptr (FixRun) unfolded = run (t, w, TRUE);
  ck_assert_double_eq_tol ((double) unfolded->trace->end, (double) folded->trace->end, 1e-9 * (double) folded->trace->end);
}
END_TEST

/* Merged passes of every micro-batch have their own length. */
START_TEST (every_detail_takes_as_long)
{
  const ScSchedule *const row = sc_schedule_all ()[_i];
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      if (refuses (row, &pipes[i]) || strcmp (row->name, "none") == 0)
        continue;
      g_autoptr (ScTopology) t = instant_topology (1e-4);
      g_autoptr (ScWorkload) w = workload_of (row, &pipes[i], 2);
      g_autofree double *ms = give_stage_times (w, 13 + i);
      w->plan.microbatch_factors = g_memdup2 ((const double[]) { 1.5, 0.5, 1 }, 3 * sizeof (double));
      w->plan.n_microbatch_factors = 3;
      g_autoptr (ScSummary) kernel = sc_forecast (t, w, NULL, NULL);
      for (guint d = SC_DETAIL_KERNEL + 1; d < SC_N_DETAILS; d++)
        {
          const ScForecastOptions options = { .detail = (ScDetail) d };
          g_autoptr (ScSummary) s = sc_forecast (t, w, &options, NULL);
          ck_assert_double_eq_tol (sc_time_to_s (s->step), sc_time_to_s (kernel->step), 1e-6 * sc_time_to_s (kernel->step));
        }
    }
}
END_TEST

static Suite *
profile_suite (void)
{
  guint n_rows = 0;
  while (sc_schedule_all ()[n_rows] != NULL)
    n_rows++;
  Suite *const s = suite_create ("profile");
  TCase *const every = tcase_create ("every row");
  tcase_set_timeout (every, 120);
  tcase_add_loop_test (every, times_by_stage_take_as_long_as_the_order_on_paper, 0, (int) n_rows);
  tcase_add_loop_test (every, microbatches_of_unequal_cost_take_as_long_as_the_order_on_paper, 0, (int) n_rows);
  tcase_add_loop_test (heavy (s), memory_stays, 0, (int) n_rows);
  tcase_add_loop_test (heavy (s), every_schedule_adds_up_without_a_barrier, 0, (int) n_rows);
  tcase_add_loop_test (slow (s), invariants_hold_on_a_random_grid, 0, (int) n_rows);
  tcase_add_loop_test (every, folded_and_unfolded_agree, 0, (int) n_rows);
  tcase_add_loop_test (heavy (s), every_detail_takes_as_long, 0, (int) n_rows);
  suite_add_tcase (s, every);
  TCase *const single = tcase_create ("single");
  tcase_add_test (single, a_number_is_shared_by_the_layers_of_a_full_rank);
  tcase_add_test (single, an_empty_stage_hands_on);
  tcase_add_test (single, a_transfer_takes_as_long_as_it_says);
  tcase_add_test (single, what_a_pass_allocates_has_the_same_peak_and_the_same_sum);
  tcase_add_test (single, without_a_barrier_the_longest_rank_is_the_step);
  suite_add_tcase (s, single);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (profile_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
