/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_model.c - parameters, FLOPs and state bytes against published and derived counts, to the last unit. */
#include <check.h>
#include <stdlib.h>
#include "models/model.h"

#define GPT(h, l, a, v)                                                                                                \
  {                                                                                                                    \
    .hidden = (h), .layers = (l), .heads = (a), .kv_heads = (a), .head_dim = (h) / (a), .ffn = 4 * (h), .vocab = (v),  \
    .tied_embeddings = TRUE, .norm = SC_NORM_LAYERNORM, .positions = SC_POSITIONS_LEARNED, .linear_bias = TRUE         \
  }
#define LLAMA(h, l, a, g, d, f, v)                                                                                     \
  {                                                                                                                    \
    .hidden = (h), .layers = (l), .heads = (a), .kv_heads = (g), .head_dim = (d), .ffn = (f), .gated_mlp = TRUE,       \
    .vocab = (v), .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE                                              \
  }

typedef struct
{
  const char *name;
  ScModel model;
  guint seq;
  guint64 total, layer;
} ParamsCase;

/* MODELLING 2 */
static ParamsCase params_cases[] = {
  { "gpt2-124m", GPT (768, 12, 12, 50257), 1024, 124439808, 7087872 },
  { "gpt3-175b", GPT (12288, 96, 96, 51200), 2048, 174615846912, 1812099072 },
  { "bloom-176b", GPT (14336, 70, 112, 250880), 2048, 176247271424, 2466437120 },
  { "llama2-7b", LLAMA (4096, 32, 32, 32, 128, 11008, 32000), 4096, 6738415616, 202383360 },
  { "llama2-13b", LLAMA (5120, 40, 40, 40, 128, 13824, 32000), 4096, 13015864320, 317204480 },
  { "llama2-70b", LLAMA (8192, 80, 64, 8, 128, 28672, 32000), 4096, 68976648192, 855654400 },
  { "llama3-8b", LLAMA (4096, 32, 32, 8, 128, 14336, 128256), 8192, 8030261248, 218112000 },
  { "llama3-70b", LLAMA (8192, 80, 64, 8, 128, 28672, 128256), 8192, 70553706496, 855654400 },
  { "llama3-405b", LLAMA (16384, 126, 128, 8, 128, 53248, 128256), 8192, 405853388800, 3187703808 },
  { "llama3.2-1b", LLAMA (2048, 16, 32, 8, 64, 8192, 128256), 8192, 1235814400, 60821504 },
  { "mistral-7b", LLAMA (4096, 32, 32, 8, 128, 14336, 32000), 8192, 7241732096, 218112000 },
  { "qwen2-7b", LLAMA (3584, 28, 28, 4, 128, 18944, 152064), 8192, 7615616512, 233057792 },
  { "qwen3-8b", LLAMA (4096, 36, 32, 8, 128, 12288, 151936), 8192, 8190735360, 192946432 },
};

static const ScModel *
model_named (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (params_cases); i++)
    if (g_str_equal (params_cases[i].name, name))
      return &params_cases[i].model;
  g_assert_not_reached ();
}

static void
finish_models (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (params_cases); i++)
    {
      ScModel *m = &params_cases[i].model;
      if (g_str_equal (params_cases[i].name, "bloom-176b"))
        {
          m->positions = SC_POSITIONS_ALIBI;
          m->embedding_norm = TRUE;
        }
      m->tied_embeddings |= g_str_equal (params_cases[i].name, "llama3.2-1b");
      m->qkv_bias = g_str_equal (params_cases[i].name, "qwen2-7b");
      m->qk_norm = g_str_equal (params_cases[i].name, "qwen3-8b");
    }
}

START_TEST (parameters_equal_published_counts)
{
  const ParamsCase *c = &params_cases[_i];
  ck_assert_msg (sc_model_params (&c->model, c->seq) == c->total, "%s", c->name);
  ck_assert_msg (sc_model_layer_params (&c->model) == c->layer, "%s", c->name);
  ck_assert (sc_model_layer_params (&c->model) * c->model.layers + sc_model_embedding_params (&c->model, c->seq)
                 + sc_model_head_params (&c->model)
             == c->total);
}
END_TEST

START_TEST (bloom_embedding_is_its_published_count)
{
  ck_assert_uint_eq (sc_model_embedding_params (model_named ("bloom-176b"), 2048) - 2 * 14336, 3596615680);
}
END_TEST

START_TEST (ranks_hold_everything_once_and_what_is_replicated_tp_times)
{
  const ParamsCase *c = &params_cases[_i];
  const ScModel *m = &c->model;
  for (guint tp = 1; tp <= 8; tp *= 2)
    {
      if (m->heads % tp != 0 || m->vocab % tp != 0)
        continue;
      guint64 replicated = 2 * (guint64) m->hidden * (m->linear_bias ? 2 : 1); /* norms */
      if (m->linear_bias)
        replicated += 2 * (guint64) m->hidden; /* biases of projection and FC2 */
      if (m->qk_norm)
        replicated += 2 * (guint64) m->head_dim;
      if (tp > m->kv_heads)
        replicated += 2 * (guint64) (m->hidden + (m->qkv_bias ? 1 : 0)) * m->head_dim * (tp - m->kv_heads) / (tp - 1);
      ck_assert_uint_eq (sc_model_layer_params_rank (m, tp) * tp, c->layer + (tp - 1) * replicated);
      ck_assert_uint_eq (sc_model_head_params_rank (m, tp, TRUE) - sc_model_head_params_rank (m, tp, FALSE),
                         (guint64) m->vocab / tp * m->hidden);
    }
}
END_TEST

START_TEST (a_vocabulary_that_does_not_divide_is_padded)
{
  const ScModel *gpt2 = model_named ("gpt2-124m");
  ck_assert_uint_eq (sc_model_embedding_params_rank (gpt2, 1024, 2), 25129 * 768 + 1024 * 768);
}
END_TEST

START_TEST (bias_free_layernorm_has_a_weight_only)
{
  ScModel m = GPT (768, 12, 12, 50257);
  m.linear_bias = FALSE;
  ck_assert_uint_eq (sc_model_layer_params (&m), 12 * 768 * 768 + 2 * 768);
}
END_TEST

/* MODELLING 1.6, exact */
static const struct
{
  const char *name;
  guint seq;
  guint64 linear, mlp, core_full, logits, train_full, train_half, token_full, token_half, token_6n;
} flops_cases[] = {
  { "gpt3-175b", 2048, 2473901162496, 4947802324992, 206158430208, 2576980377600, 2204555173429248, 2174868359479296,
    1076442955776, 1061947441152, 1047695081472 },
  { "llama3-8b", 8192, 687194767360, 2886218022912, 1099511627776, 8607114461184, 474422087516160, 421645529382912,
    57912852480, 51470401536, 48181567488 },
  { "llama3-70b", 8192, 2473901162496, 11544872091648, 2199023255552, 17214228922368, 3943913849094144,
    3680031058427904, 481434796032, 449222541312, 423322238976 },
  { "llama3-405b", 8192, 9345848836096, 42880953483264, 4398046511104, 34428457844736, 21507478231449600,
    20676247440850944, 2625424588800, 2523955986432, 2435120332800 },
};

START_TEST (flops_equal_worked_values)
{
  const ScModel *m = model_named (flops_cases[_i].name);
  const guint s = flops_cases[_i].seq;
  const double full = (double) s * s;
  ck_assert (sc_model_layer_linear_flops (m, s) == (double) flops_cases[_i].linear);
  ck_assert (sc_model_layer_mlp_flops (m, s) == (double) flops_cases[_i].mlp);
  ck_assert (sc_model_core_attention_flops (m, full) == (double) flops_cases[_i].core_full);
  ck_assert (sc_model_logits_flops (m, s) == (double) flops_cases[_i].logits);
  ck_assert (sc_model_train_flops (m, s, 1, SC_FLOPS_FULL) == (double) flops_cases[_i].train_full);
  ck_assert (sc_model_train_flops (m, s, 1, SC_FLOPS_HALF) == (double) flops_cases[_i].train_half);
  ck_assert (sc_model_train_flops (m, s, 1, SC_FLOPS_FULL) / s == (double) flops_cases[_i].token_full);
  ck_assert (sc_model_train_flops (m, s, 1, SC_FLOPS_HALF) / s == (double) flops_cases[_i].token_half);
  ck_assert (sc_model_train_flops (m, s, 1, SC_FLOPS_6N) / s == (double) flops_cases[_i].token_6n);
}
END_TEST

START_TEST (grouped_and_windowed_pairs_scale_core_attention)
{
  /* MODELLING 1.3, s = 8192, window 4096 */
  const ScModel *m = model_named ("llama3-8b");
  const double full = sc_model_core_attention_flops (m, 67108864);
  ck_assert (sc_model_core_attention_flops (m, 33554432) == full / 2);
  ck_assert (sc_model_core_attention_flops (m, 25167872) == full * 25167872 / 67108864);
}
END_TEST

START_TEST (full_recompute_gives_the_96_formula)
{
  /* MODELLING 1.4: 96 B s L h^2 (1 + s/(6h) + V/(16 L h)) */
  const ScModel *m = model_named ("gpt3-175b");
  ck_assert_double_eq_tol (sc_model_hardware_flops (m, 2048, 1, SC_RECOMPUTE_FULL, SC_FLOPS_FULL), 2936829917528064.0,
                           1);
  ck_assert_double_eq_tol (
      sc_model_hardware_flops (m, 2048, 1536, SC_RECOMPUTE_FULL, SC_FLOPS_FULL) / 4.5109707533231063e18, 1, 1e-12);
}
END_TEST

START_TEST (bloom_reaches_its_logged_tflops)
{
  /* MODELLING 1.5: 104.70 s per step of 2048 sequences on 384 GPUs is logged as 149.77 TFLOP/s */
  const ScModel *m = model_named ("bloom-176b");
  const double flops = sc_model_hardware_flops (m, 2048, 2048, SC_RECOMPUTE_FULL, SC_FLOPS_FULL);
  ck_assert_double_eq_tol (flops / 104.7 / 384 / 1e12, 149.77, 0.03);
}
END_TEST

/* MODELLING 1.5: published MFU, and HFU with the recomputation counted physically */
static const struct
{
  ScModel model;
  guint gpus, batch;
  double step_s, mfu, hfu;
} mfu_cases[] = {
  { GPT (6144, 48, 64, 51200), 8, 4, 1.10, 41.5, 42.37 },
  { GPT (12288, 96, 96, 51200), 64, 64, 13.75, 51.4, 51.85 },
  { GPT (20480, 105, 128, 51200), 280, 280, 37.83, 56.0, 56.35 },
  { GPT (25600, 128, 160, 51200), 512, 512, 71.49, 56.3, 56.51 },
};

START_TEST (mfu_and_hfu_equal_published_ones)
{
  const ScModel *m = &mfu_cases[_i].model;
  const double capacity = mfu_cases[_i].step_s * mfu_cases[_i].gpus * 312e12 / 100;
  ck_assert_double_eq_tol (sc_model_train_flops (m, 2048, mfu_cases[_i].batch, SC_FLOPS_FULL) / capacity,
                           mfu_cases[_i].mfu, 0.2);
  ck_assert_double_eq_tol (sc_model_hardware_flops (m, 2048, mfu_cases[_i].batch, SC_RECOMPUTE_SELECTIVE, SC_FLOPS_FULL)
                               / capacity,
                           mfu_cases[_i].hfu, 0.005);
}
END_TEST

START_TEST (no_recompute_executes_the_model_flops)
{
  const ScModel *m = model_named ("llama3-8b");
  ck_assert (sc_model_hardware_flops (m, 8192, 3, SC_RECOMPUTE_NONE, SC_FLOPS_HALF)
             == sc_model_train_flops (m, 8192, 3, SC_FLOPS_HALF));
}
END_TEST

static double
state_total (ScDtype dtype, ScDtype grad, ScSharding sharding, guint d)
{
  const ScStateBytes s = sc_state_bytes_per_param (dtype, grad, sharding, d);
  return s.weights + s.grads + s.optimizer;
}

START_TEST (distributed_optimizer_bytes_equal_megatrons_table)
{
  /* MODELLING 3.2: 6 + 12/d, 4 + 16/d, 8 + 8/d against 18, 20, 16 */
  static const guint dps[] = { 1, 2, 8, 64, 512 };
  const ScSharding shard = SC_SHARDING_DISTRIBUTED_OPTIMIZER;
  const guint d = dps[_i];
  ck_assert_double_eq (state_total (SC_DTYPE_BF16, SC_DTYPE_FP32, SC_SHARDING_NONE, d), 18);
  ck_assert_double_eq (state_total (SC_DTYPE_BF16, SC_DTYPE_FP32, shard, d), 6 + 12.0 / d);
  ck_assert_double_eq (state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, SC_SHARDING_NONE, d), 20);
  ck_assert_double_eq (state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, shard, d), 4 + 16.0 / d);
  ck_assert_double_eq (state_total (SC_DTYPE_FP32, SC_DTYPE_FP32, SC_SHARDING_NONE, d), 16);
  ck_assert_double_eq (state_total (SC_DTYPE_FP32, SC_DTYPE_FP32, shard, d), 8 + 8.0 / d);
}
END_TEST

START_TEST (zero_paper_needs_120_and_31_4_gb)
{
  /* MODELLING 3.2: 7.5e9 parameters, 64 ranks, K = 12 */
  ck_assert_double_eq (7.5 * state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, SC_SHARDING_ZERO1, 1), 120);
  ck_assert_double_eq (7.5 * state_total (SC_DTYPE_FP16, SC_DTYPE_FP16, SC_SHARDING_ZERO1, 64), 31.40625);
}
END_TEST

static Suite *
model_suite (void)
{
  Suite *suite = suite_create ("model");
  TCase *tc = tcase_create ("counts");
  tcase_add_loop_test (tc, parameters_equal_published_counts, 0, G_N_ELEMENTS (params_cases));
  tcase_add_test (tc, bloom_embedding_is_its_published_count);
  tcase_add_loop_test (tc, ranks_hold_everything_once_and_what_is_replicated_tp_times, 0, G_N_ELEMENTS (params_cases));
  tcase_add_test (tc, a_vocabulary_that_does_not_divide_is_padded);
  tcase_add_test (tc, bias_free_layernorm_has_a_weight_only);
  tcase_add_loop_test (tc, flops_equal_worked_values, 0, G_N_ELEMENTS (flops_cases));
  tcase_add_test (tc, grouped_and_windowed_pairs_scale_core_attention);
  tcase_add_test (tc, full_recompute_gives_the_96_formula);
  tcase_add_test (tc, bloom_reaches_its_logged_tflops);
  tcase_add_loop_test (tc, mfu_and_hfu_equal_published_ones, 0, G_N_ELEMENTS (mfu_cases));
  tcase_add_test (tc, no_recompute_executes_the_model_flops);
  tcase_add_loop_test (tc, distributed_optimizer_bytes_equal_megatrons_table, 0, 5);
  tcase_add_test (tc, zero_paper_needs_120_and_31_4_gb);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  finish_models ();
  SRunner *runner = srunner_create (model_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
