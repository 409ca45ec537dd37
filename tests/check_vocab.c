/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_vocab.c - vocabulary layers on all ranks of a pipeline: where their passes stand, what they hold, and that nobody waits for ever. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/forecast.h"
#include "models/tape.h"
#include "pace.h"
#include "schedule-csv.h"
#include "topology-json.h"
#include "workload-json.h"

#define GIB (1024.0 * 1024 * 1024)

/* ---- orders ---- */

static const struct
{
  const ScSchedule *row;
  ScVocab vocab;
  guint v;
} methods[] = {
  { &sc_schedule_1f1b, SC_VOCAB_1, 1 },
  { &sc_schedule_1f1b, SC_VOCAB_2, 1 },
  { &sc_schedule_1f1b, SC_VOCAB_INTERLACED, 1 },
  { &sc_schedule_v_half, SC_VOCAB_1, 2 },
  { &sc_schedule_v_half, SC_VOCAB_2, 2 },
};

static ScOrders *
orders_of (guint method, guint p, guint m)
{
  const ScVocab vocab = methods[method].vocab;
  const ScScheduleShape shape = { p, methods[method].v, m, p, sc_vocab_ahead (vocab, p) };
  if (methods[method].row->refuse (&shape) != NULL)
    return NULL;
  ScOrders *const o = sc_orders_new (methods[method].row, &shape, NULL, NULL);
  ck_assert (sc_orders_add_vocabulary (o, vocab));
  return o;
}

static void
check_counts (const ScOrders *o, guint rank)
{
  g_autofree guint *seen = g_new0 (guint, SC_N_SLOT_PASSES * o->m);
  for (guint i = 0; i < o->ranks[rank]->len; i++)
    {
      const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
      seen[slot->pass * o->m + slot->microbatch]++;
    }
  for (guint pass = SC_N_PASSES; pass < SC_N_SLOT_PASSES; pass++)
    for (guint k = 0; k < o->m; k++)
      ck_assert_uint_eq (seen[pass * o->m + k], pass == SC_PASS_LOGITS_WEIGHT && o->vocab == SC_VOCAB_INTERLACED ? 0 : 1);
}

/* Each rank runs the logits of its micro-batches in their order, and their weights' gradients behind. */
static void
check_order (const ScOrders *o, guint rank)
{
  guint next[SC_N_SLOT_PASSES] = { 0 };
  for (guint i = 0; i < o->ranks[rank]->len; i++)
    {
      const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
      if (!sc_pass_of_vocabulary (slot->pass))
        continue;
      ck_assert_uint_eq (slot->microbatch, next[slot->pass]++);
      ck_assert (slot->pass != SC_PASS_LOGITS_WEIGHT || next[SC_PASS_LOGITS] > slot->microbatch);
    }
}

START_TEST (every_rank_runs_each_pass_over_the_vocabulary_once_and_nobody_waits_for_ever)
{
  static const guint sizes[] = { 2, 3, 4, 5, 8, 16 }, batches[] = { 1, 2, 3, 5, 8, 20, 33 };
  guint n = 0;
  for (guint ip = 0; ip < G_N_ELEMENTS (sizes); ip++)
    for (guint im = 0; im < G_N_ELEMENTS (batches); im++)
      {
        g_autoptr (ScOrders) o = orders_of (_i, sizes[ip], batches[im]);
        if (o == NULL)
          continue;
        n++;
        ck_assert_double_gt (sc_orders_replay (o, NULL, NULL, NULL), 0);
        GArray **const actions = sc_orders_actions (o, NULL); /* which everybody gets to the end of */
        guint shared[2] = { 0, 0 };
        for (guint rank = 0; rank < o->p; rank++)
          {
            check_counts (o, rank);
            check_order (o, rank);
            guint of_rank = 0;
            for (guint a = 0; a < actions[rank]->len; a++)
              of_rank += g_array_index (actions[rank], ScAction, a).kind >= SC_ACTION_BROADCAST;
            shared[rank == 0 ? 0 : 1] = of_rank;
            ck_assert_uint_eq (shared[0], of_rank); /* all take part in all */
            g_array_unref (actions[rank]);
          }
        g_free (actions);
        /* two broadcasts and the sum of the rows; sums of the logits, and, vocab-1, of the gradient of their input */
        const guint each = o->vocab == SC_VOCAB_INTERLACED ? 2 : o->vocab == SC_VOCAB_2 ? 4 : 5;
        ck_assert_uint_eq (shared[0], each * o->m);
      }
  ck_assert_uint_gt (n, 20);
}
END_TEST

/* arXiv 2411.05288, section 5: p + 2 and p + 1 micro-batches on the first rank; 1.5 p where all ranks stop for the logits. */
START_TEST (so_many_micro_batches_are_in_flight_as_the_paper_says)
{
  static const guint ps[] = { 4, 8, 16, 32 };
  const guint p = ps[_i];
  for (guint method = 0; method < 3; method++)
    {
      g_autoptr (ScOrders) o = orders_of (method, p, 4 * p);
      ck_assert_uint_eq (sc_orders_in_flight (o, 0), p + sc_vocab_ahead (methods[method].vocab, p));
      for (guint rank = 1; rank < p; rank++)
        ck_assert_uint_le (sc_orders_in_flight (o, rank), sc_orders_in_flight (o, rank - 1));
    }
  g_autoptr (ScOrders) half = orders_of (3, p, 4 * p);
  const ScScheduleShape shape = { p, 2, 4 * p, p, 0 };
  g_autoptr (ScOrders) plain = sc_orders_new (&sc_schedule_v_half, &shape, NULL, NULL);
  ck_assert_uint_le (sc_orders_in_flight (half, 0), sc_orders_in_flight (plain, 0) + 4); /* two micro-batches of two chunks */
}
END_TEST

/* The last stage's backward stands behind the logits, with two barriers behind their gradients as well: so many micro-batches are in flight that there is time for that. */
START_TEST (logits_stand_between_forward_and_backward_of_the_last_stage)
{
  g_autoptr (ScOrders) o = orders_of (_i, 4, 12);
  const guint last = methods[_i].v == 2 ? 0 : 3, chunk = methods[_i].v - 1;
  for (guint k = 0; k < o->m; k++)
    {
      guint at[SC_N_SLOT_PASSES] = { 0 };
      for (guint i = 0; i < o->ranks[last]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (o->ranks[last], ScSlot, i);
          if (slot->microbatch == k && (sc_pass_of_vocabulary (slot->pass) || slot->chunk == chunk))
            at[slot->pass] = i;
        }
      const guint backward = MAX (at[SC_PASS_BACKWARD], at[SC_PASS_INPUT]);
      ck_assert_uint_lt (at[SC_PASS_FORWARD], at[SC_PASS_LOGITS]);
      ck_assert_uint_lt (at[SC_PASS_LOGITS], backward);
      ck_assert (o->vocab != SC_VOCAB_1 || at[SC_PASS_LOGITS_WEIGHT] < backward);
    }
}
END_TEST

START_TEST (orders_with_passes_over_the_vocabulary_have_no_csv)
{
  g_autoptr (ScOrders) o = orders_of (_i, 4, 8);
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_schedule_csv_write (o, out, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "vocab_parallel"));
}
END_TEST

/* ---- whole steps ---- */

/* A forecast, and what it is of. */
typedef struct
{
  ScTopology *topology;
  ScWorkload *workload;
  ScSummary  *summary;
} Run;

static void
run_clear (Run *run)
{
  sc_summary_free (run->summary);
  sc_workload_free (run->workload);
  sc_topology_free (run->topology);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static Run
forecast (const char *const *set, ScDetail detail)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  for (guint i = 0; set[i] != NULL; i++)
    g_strv_builder_add (builder, set[i]);
  g_auto (GStrv) copy = g_strv_builder_end (builder);
  Run run = { .topology = sc_topology_load ("dgx-a100-superpod", NULL, NULL, &error) };
  run.workload = run.topology != NULL ? sc_workload_load ("vocab-4b", copy, &error) : NULL;
  ck_assert_msg (run.workload != NULL, "%s", error != NULL ? error->message : "");
  const ScForecastOptions options = { .detail = detail };
  run.summary = sc_forecast (run.topology, run.workload, &options, &error);
  ck_assert_msg (run.summary != NULL, "%s", error != NULL ? error->message : "");
  return run;
}

static double
fullest_gib (const Run *run)
{
  const ScSummary *const s = run->summary;
  guint64 most = 0;
  for (guint k = 0; k < s->n_classes; k++)
    most = MAX (most, s->classes[k].peak_allocated_bytes);
  return (double) most / GIB;
}

/* Table 5 of the paper: 4B, 8 A100, vocabularies of 32k and 256k. */
static const struct
{
  const char *method, *vocab;
  double gib;
} table_5[] = {
  { "none", "32000", 21.39 },    { "none", "256000", 31.64 },    { "vocab-1", "32000", 24.04 },    { "vocab-1", "256000", 27.34 },
  { "vocab-2", "32000", 22.44 }, { "vocab-2", "256000", 25.73 }, { "interlaced", "32000", 27.20 }, { "interlaced", "256000", 30.53 },
};

START_TEST (peaks_are_those_of_the_paper)
{
  g_autofree char *method = g_strdup_printf ("plan.vocab_parallel=%s", table_5[_i].method), *vocab = g_strdup_printf ("model.vocab=%s", table_5[_i].vocab);
  const char *const set[] = { method, vocab, "plan.global_batch=32", NULL };
  g_auto (Run) run = forecast (set, SC_DETAIL_STAGE);
  ck_assert_double_eq_tol (fullest_gib (&run), table_5[_i].gib, 0.03 * table_5[_i].gib);
}
END_TEST

/* At any level of detail the same bytes, and about the same time; every rank holds as much of the tables. */
START_TEST (tables_are_shared_out_and_steps_last_as_long_at_any_detail)
{
  static const char *const sets[][5] = {
    { "plan.vocab_parallel=vocab-1", "plan.global_batch=16", NULL },
    { "plan.vocab_parallel=vocab-2", "plan.global_batch=16", NULL },
    { "plan.vocab_parallel=interlaced", "plan.global_batch=16", NULL },
    { "plan.schedule=v-half", "plan.vpp=2", "plan.global_batch=16", NULL },
    { "plan.dp=2", "plan.sharding=distributed-optimizer", "plan.global_batch=32", NULL },
  };
  g_auto (Run) kernels = forecast (sets[_i], SC_DETAIL_KERNEL), stages = forecast (sets[_i], SC_DETAIL_STAGE);
  const ScSummary *const kernel = kernels.summary;
  ck_assert_double_eq_tol ((double) kernel->step, (double) stages.summary->step, 0.005 * (double) kernel->step);
  ck_assert_double_eq (fullest_gib (&kernels), fullest_gib (&stages));
  guint64 least = G_MAXUINT64, most = 0;
  for (guint k = 0; k < kernel->n_classes; k++)
    {
      const ScClassSummary *const c = &kernel->classes[k];
      const guint64 ends = c->stage == 0 || c->stage == kernel->workload->plan.pp - 1 ? 4096 * 3072 + 4 * 3072 : 0; /* positions, final norm */
      least = MIN (least, c->params);
      most = MAX (most, c->params - MIN (ends, c->params));
    }
  ck_assert_uint_le (most, least);
  for (guint i = 0; i < kernel->n_stages; i++)
    {
      gint64 rest[SC_N_MEMS];
      sc_tape_rest (g_ptr_array_index (kernel->tapes, i), rest);
      for (guint kind = 0; kind < SC_N_MEMS; kind++)
        ck_assert_int_eq (rest[kind], 0);
    }
}
END_TEST

/* The paper's claim: a large vocabulary makes the ends of the pipeline wait for nobody, so a step is faster than with layers at the ends. */
START_TEST (a_large_vocabulary_shared_out_makes_a_step_faster)
{
  static const char *const ends[] = { "plan.vocab_parallel=none", "plan.global_batch=64", NULL }, *const two[] = { "plan.vocab_parallel=vocab-2", "plan.global_batch=64", NULL };
  g_auto (Run) plain = forecast (ends, SC_DETAIL_STAGE), shared = forecast (two, SC_DETAIL_STAGE);
  ck_assert_double_lt ((double) shared.summary->step, 0.75 * (double) plain.summary->step); /* 26.75 % against 50.40 % of the peak rate */
}
END_TEST

static Suite *
vocab_suite (void)
{
  Suite *const suite = suite_create ("vocab");
  TCase *const orders = tcase_create ("orders");
  tcase_add_loop_test (heavy (suite), every_rank_runs_each_pass_over_the_vocabulary_once_and_nobody_waits_for_ever, 0, G_N_ELEMENTS (methods));
  tcase_add_loop_test (heavy (suite), so_many_micro_batches_are_in_flight_as_the_paper_says, 0, 4);
  tcase_add_loop_test (orders, logits_stand_between_forward_and_backward_of_the_last_stage, 0, G_N_ELEMENTS (methods));
  tcase_add_loop_test (orders, orders_with_passes_over_the_vocabulary_have_no_csv, 0, G_N_ELEMENTS (methods));
  suite_add_tcase (suite, orders);
  TCase *const steps = tcase_create ("steps");
  tcase_set_timeout (steps, 60);
  tcase_add_loop_test (heavy (suite), peaks_are_those_of_the_paper, 0, G_N_ELEMENTS (table_5));
  tcase_add_loop_test (heavy (suite), tables_are_shared_out_and_steps_last_as_long_at_any_detail, 0, 5);
  tcase_add_test (steps, a_large_vocabulary_shared_out_makes_a_step_faster);
  suite_add_tcase (suite, steps);
  return suite;
}

int
main (void)
{
  SRunner *const runner = srunner_create (vocab_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
