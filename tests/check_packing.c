/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_packing.c - documents of varying length in sequences: what is packed where, and what attention then costs. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "documents-json.h"
#include "models/layer.h"
#include "models/packing.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"
#include "models/forecast.h"

/* Eight layers of width 64, of which a test gives the rest. */
static ScWorkload
small (guint seq, guint dp, guint micro_batch, guint microbatches, ScDocuments *documents)
{
  return (ScWorkload){
    .model = { .hidden = 64, .layers = 8, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 128, .vocab = 128, .norm = SC_NORM_RMSNORM,
               .positions = SC_POSITIONS_ROPE },
    .seq = seq,
    .documents = documents,
    .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = dp, .cp = 1, .ep = 1, .etp = 1, .micro_batch = micro_batch, .schedule = "none",
              .global_batch = dp * micro_batch * microbatches, .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32, .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

/* Pairs that all micro-batches of the simulated rank have, without or with the window. */
static double
rank_pairs (const ScPacking *p, guint window)
{
  double sum = 0;
  for (guint k = 0; k < p->microbatches; k++)
    sum += p->pairs[p->of_microbatch[k]][window];
  return sum;
}

/* ---- first fit ---- */

/* 6 into the first of two sequences of 10, 5 into the second, 4 and 5 beside them. */
START_TEST (documents_go_into_the_first_sequence_with_room)
{
  guint lengths[] = { 6, 5, 4, 5 };
  ScDocuments d = { lengths, NULL, G_N_ELEMENTS (lengths) };
  const ScWorkload w = small (10, 1, 1, 2, &d);
  g_autoptr (ScPacking) p = sc_packing_new (&w);
  ck_assert_uint_eq (p->documents, 4);
  ck_assert_double_eq (p->fill, 1);
  ck_assert_double_eq (p->mean_length, 5);
  ck_assert_uint_eq (p->n_kinds, 2); /* fewest pairs first */
  ck_assert_uint_eq (p->of_microbatch[0], 1);
  ck_assert_uint_eq (p->of_microbatch[1], 0);
  ck_assert_double_eq (p->pairs[1][0], 6 * 6 / 2.0 + 4 * 4 / 2.0);
  ck_assert_double_eq (p->pairs[0][0], 2 * 5 * 5 / 2.0);
  ck_assert_double_eq_tol (p->share[0], (26 + 25) / 100.0, 1e-15);
  ck_assert_double_eq_tol (p->most, 26 / 25.5, 1e-15);
}
END_TEST

/* 7 fits nowhere any more and is left; what comes after it, round and round, still may. */
START_TEST (what_fits_nowhere_is_left)
{
  guint lengths[] = { 7, 3 };
  ScDocuments d = { lengths, NULL, G_N_ELEMENTS (lengths) };
  const ScWorkload w = small (15, 1, 1, 1, &d);
  g_autoptr (ScPacking) p = sc_packing_new (&w);
  ck_assert_uint_eq (p->documents, 3); /* 7, 3, no second 7 but 3 */
  ck_assert_double_eq (p->fill, 13 / 15.0);
  ck_assert_double_eq (p->pairs[0][0], 7 * 7 / 2.0 + 2 * 3 * 3 / 2.0);
}
END_TEST

START_TEST (documents_that_fill_a_sequence_change_nothing)
{
  guint lengths[] = { 64 };
  guint64 counts[] = { 17 };
  ScDocuments d = { lengths, counts, 1 };
  for (guint l = 1; l <= 64; l *= 2)
    {
      lengths[0] = l;
      const ScWorkload w = small (64, 2, 3, 5, &d);
      g_autoptr (ScPacking) p = sc_packing_new (&w);
      ck_assert_uint_eq (p->documents, 30 * 64 / l);
      ck_assert_double_eq (p->fill, 1);
      ck_assert_uint_eq (p->n_kinds, 1);
      ck_assert_uint_eq (p->ranks, 2);
      ck_assert_double_eq (p->rank, 1);
      ck_assert_double_eq (p->share[0], l / 64.0); /* tokens x l / 2 */
      ck_assert_double_eq (p->pairs[0][0], 3 * 64 * l / 2.0);
    }
}
END_TEST

/* ---- any documents ---- */

static guint64
next_random (guint64 *state)
{
  *state = *state * G_GUINT64_CONSTANT (6364136223846793005) + G_GUINT64_CONSTANT (1442695040888963407);
  return *state >> 33;
}

START_TEST (whatever_is_packed_adds_up)
{
  guint64 state = (guint64) _i + 1;
  const guint seq = 64 << next_random (&state) % 5, n = 1 + (guint) (next_random (&state) % 40);
  g_autofree guint *lengths = g_new (guint, n);
  g_autofree guint64 *counts = g_new (guint64, n);
  for (guint i = 0; i < n; i++)
    {
      lengths[i] = 1 + (guint) (next_random (&state) % seq);
      counts[i] = 1 + next_random (&state) % 1000;
    }
  ScDocuments d = { lengths, _i % 2 > 0 ? counts : NULL, n };
  ScWorkload w = small (seq, 1 + (guint) (next_random (&state) % 4), 1 + (guint) (next_random (&state) % 3), 1 + (guint) (next_random (&state) % 30), &d);
  w.model.window = 1 + (guint) (next_random (&state) % seq);
  w.model.global_every = _i % 3;
  w.model.chunked_window = _i % 5 == 0;
  g_autoptr (ScPacking) p = sc_packing_new (&w), again = sc_packing_new (&w);

  ck_assert (p->fill > 0.3 && p->fill <= 1);
  ck_assert_uint_le (p->n_kinds, SC_PACKING_MAX_KINDS);
  ck_assert (p->least <= 1 + 1e-12 || p->rank > 1);
  ck_assert_double_ge (p->rank, 1 - 1e-12);
  ck_assert_double_le (p->least, p->most);
  const double tokens = (double) p->documents * p->mean_length, sequences = (double) p->microbatches * w.plan.micro_batch * p->ranks;
  ck_assert_double_eq_tol (tokens / (sequences * seq), p->fill, 1e-12);
  for (guint window = 0; window < 2; window++)
    {
      ck_assert (p->share[window] > 0 && p->share[window] <= 1 + 1e-12);
      if (w.plan.dp == 1) /* the rank that is simulated is all there is: kinds lose nothing */
        ck_assert_double_eq_tol (rank_pairs (p, window) / (p->share[window] * sequences * (window == 0 || w.model.window >= seq ? seq * (double) seq / 2
                                 : w.model.chunked_window ? seq / w.model.window * sc_attention_pairs (w.model.window, TRUE, 0) + sc_attention_pairs (seq % w.model.window, TRUE, 0)
                                                          : sc_attention_pairs (seq, TRUE, w.model.window))), 1, 1e-9);
    }
  /* the same input, the same step */
  ck_assert_uint_eq (p->n_kinds, again->n_kinds);
  ck_assert_mem_eq (p->pairs, again->pairs, sizeof p->pairs);
  ck_assert_mem_eq (p->of_microbatch, again->of_microbatch, p->microbatches);
}
END_TEST

/* Kernels of a step, all micro-batches and layers, have the FLOPs that reports count. */
START_TEST (executed_flops_are_the_models)
{
  guint lengths[] = { 512, 100, 1500, 40, 2048, 700 };
  for (guint i = 0; i < 6; i++)
    {
      ScDocuments d = { lengths, NULL, G_N_ELEMENTS (lengths) };
      ScWorkload w = small (2048, 1, 2, 12, &d);
      w.model.window = i % 3 == 0 ? 0 : 256;
      w.model.global_every = 2;
      w.model.chunked_window = i % 3 == 2;
      w.plan.cp = i < 3 ? 1 : 4;
      if (i >= 3)
        w.model.window = 0;
      g_autoptr (ScPacking) p = sc_packing_new (&w);
      w.packing = p;
      g_autoptr (ScLayerKinds) kinds = sc_layer_kinds_new (&w);
      ck_assert_uint_eq (kinds->n_packed, p->n_kinds);
      double flops = 0;
      for (guint mb = 0; mb < 12; mb++)
        for (guint layer = 0; layer < 8; layer++)
          {
            const ScLayerKind *const kind = &kinds->kinds[kinds->of_layer[p->of_microbatch[mb] * 8 + layer]];
            const ScLayerShape shape = sc_layer_shape (&w, kind);
            g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
            sc_layer_forward (&shape, items);
            for (guint n = 0; n < items->len; n++)
              {
                const ScItem *const item = &g_array_index (items, ScItem, n);
                if (item->kind == SC_ITEM_KERNEL)
                  flops += item->kernel.flops;
              }
          }
      double core = 0;
      for (guint layer = 0; layer < 8; layer++)
        core += sc_packed_core_flops (&w, layer, SC_FLOPS_HALF);
      const double linear = 8 * (sc_model_layer_linear_flops (&w.model, w.seq) + sc_model_layer_mlp_flops (&w.model, w.seq));
      ck_assert_double_eq_tol (flops * w.plan.cp / (24 * (linear + core)), 1, 1e-9);
      const double train = sc_packed_train_flops (&w, 24, SC_FLOPS_HALF);
      ck_assert_double_eq_tol (train / (3 * 24 * (linear + core + sc_model_logits_flops (&w.model, w.seq))), 1, 1e-12);
    }
}
END_TEST

/* ---- files ---- */

START_TEST (lengths_come_from_lines)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDocuments) d = sc_documents_parse ("# of a corpus\n12\n\n  7 \r\n12\n100", 100, &error);
  ck_assert_ptr_nonnull (d);
  ck_assert_uint_eq (d->n, 4);
  ck_assert_ptr_null (d->counts);
  ck_assert (d->lengths[0] == 12 && d->lengths[1] == 7 && d->lengths[2] == 12 && d->lengths[3] == 100);
  ck_assert_double_eq (sc_documents_mean_length (d), 131 / 4.0);
}
END_TEST

START_TEST (lines_that_are_no_lengths_are_refused)
{
  static const struct
  {
    const char *text, *message;
  } cases[] = {
    { "12\n0\n", "line 2: found \"0\", expected a length of 1 to seq 100 tokens" },
    { "101", "line 1: found \"101\"" },
    { "12 13", "line 1: found \"12 13\"" },
    { "-3", "line 1: found \"-3\"" },
    { "99999999999999999999", "line 1: found" },
    { "# none\n\n", "found no length, expected one in each line" },
    { "", "found no length" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (ScDocuments) d = sc_documents_parse (cases[i].text, 100, &error);
      ck_assert_ptr_null (d);
      ck_assert_msg (g_str_has_prefix (error->message, cases[i].message), "%s", error->message);
    }
}
END_TEST

/* ---- steps ---- */

static ScSummary *
forecast (const char *lengths, ScDetail detail, ScWorkload **ret)
{
  char *set[] = { g_strdup ("plan.global_batch=32"), lengths != NULL ? g_strdup_printf ("seq_lengths=%s", lengths) : NULL, NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = sc_topology_load ("dgx-h100-8", NULL, NULL, &error);
  *ret = sc_workload_load ("llama3-70b", set, &error);
  ck_assert_msg (*ret != NULL, "%s", error != NULL ? error->message : "");
  const ScForecastOptions options = { .detail = detail };
  ScSummary *const s = sc_forecast (t, *ret, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  s->topology = NULL;
  g_free (set[0]);
  g_free (set[1]);
  return s;
}

START_TEST (shorter_documents_take_less_and_whole_ones_as_long)
{
  static const char *const lengths[] = { NULL, "[[8192,3]]", "[[4096,1]]", "[[512,9],[8192,1]]", "[[512,1]]" };
  ScTime last = G_MAXINT64;
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      g_autoptr (ScWorkload) w = NULL;
      g_autoptr (ScSummary) s = forecast (lengths[i], SC_DETAIL_KERNEL, &w);
      ck_assert (i == 1 ? s->step == last : i == 3 || s->step < last);
      last = s->step;
      for (guint detail = SC_DETAIL_LAYER; detail < SC_N_DETAILS; detail++)
        {
          g_autoptr (ScWorkload) w2 = NULL;
          g_autoptr (ScSummary) merged = forecast (lengths[i], (ScDetail) detail, &w2);
          ck_assert_double_eq_tol ((double) merged->step / (double) s->step, 1, 0.005);
        }
    }
}
END_TEST

static Suite *
packing_suite (void)
{
  Suite *s = suite_create ("packing");
  TCase *tc = tcase_create ("packing");
  tcase_add_test (tc, documents_go_into_the_first_sequence_with_room);
  tcase_add_test (tc, what_fits_nowhere_is_left);
  tcase_add_test (tc, documents_that_fill_a_sequence_change_nothing);
  tcase_add_loop_test (tc, whatever_is_packed_adds_up, 0, 60);
  tcase_add_test (tc, executed_flops_are_the_models);
  tcase_add_test (tc, lengths_come_from_lines);
  tcase_add_test (tc, lines_that_are_no_lengths_are_refused);
  tcase_add_test (heavy (s), shorter_documents_take_less_and_whole_ones_as_long);
  suite_add_tcase (s, tc);
  return s;
}

int
main (void)
{
  SRunner *runner = srunner_create (packing_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
