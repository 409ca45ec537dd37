/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_model.c - parameters, FLOPs and state bytes against published and derived counts, to the last unit. */
#include <check.h>
#include <stdlib.h>
#include "models/recompute.h"
#include "models/sharding.h"

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

/* ---- Models with more than the plain block ---- */

#define BLOCK(h, l, a, g, d, f, v)                                                                                     \
  .hidden = (h), .layers = (l), .heads = (a), .kv_heads = (g), .head_dim = (d), .ffn = (f), .gated_mlp = TRUE,         \
  .vocab = (v), .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE
#define EXPERTS(e, k, f) .experts = (e), .top_k = (k), .expert_ffn = (f)
#define DEEPSEEK_MLA(q) .mla = { (q), 512, 128, 64, 128 }

/* Totals as published, but for two that only the formula gives. */
static const struct
{
  const char *name;
  ScModel model;
  guint64 total, active;
} wide_cases[] = {
  { "mixtral-8x7b", { BLOCK (4096, 32, 32, 8, 128, 14336, 32000), EXPERTS (8, 2, 14336) }, 46702792704, 12879925248 },
  { "mixtral-8x22b", { BLOCK (6144, 56, 48, 8, 128, 16384, 32000), EXPERTS (8, 2, 16384) }, 140620634112, 39152031744 },
  { "qwen3-30b-a3b", { BLOCK (2048, 48, 32, 4, 128, 6144, 151936), EXPERTS (128, 8, 768), .qk_norm = TRUE }, 30532122624, 3353032704 },
  { "qwen1.5-moe-a2.7b",
    { BLOCK (2048, 24, 16, 16, 128, 5632, 151936), EXPERTS (60, 4, 1408), .shared_experts = 4, .shared_gate = TRUE, .qkv_bias = TRUE },
    14315784192, 2689173504 },
  { "deepseek-v3",
    { BLOCK (7168, 61, 128, 128, 192, 18432, 129280), EXPERTS (256, 8, 2048), .shared_experts = 1, .dense_layers = 3, .router_bias = TRUE,
      DEEPSEEK_MLA (1536), .mtp_layers = 1 },
    671026419200, 37552297472 },
  { "deepseek-v3.2",
    { BLOCK (7168, 61, 128, 128, 192, 18432, 129280), EXPERTS (256, 8, 2048), .shared_experts = 1, .dense_layers = 3, .router_bias = TRUE,
      DEEPSEEK_MLA (1536), .indexer = { 64, 128, 2048 } },
    671877944064, 38403822336 }, /* computed only */
  { "deepseek-v2-lite",
    { BLOCK (2048, 27, 16, 16, 192, 10944, 102400), EXPERTS (64, 6, 1408), .shared_experts = 2, .dense_layers = 1, DEEPSEEK_MLA (0) },
    15706484224, 2661150208 },
  { "gpt-oss-20b",
    { BLOCK (2880, 24, 64, 8, 64, 2880, 201088), EXPERTS (32, 4, 2880), .router_bias = TRUE, .attention_bias = TRUE, .mlp_bias = TRUE,
      .attention_sinks = TRUE, .window = 128, .global_every = 2 },
    20914757184, 4187440704 },
  { "llama-4-maverick", { BLOCK (5120, 48, 40, 8, 128, 16384, 202048), EXPERTS (128, 1, 8192), .shared_experts = 1, .moe_every = 2 },
    400711848960, 17184691200 }, /* computed only */
  { "gemma-2-2b", { BLOCK (2304, 26, 8, 4, 256, 9216, 256000), .tied_embeddings = TRUE, .layer_norms = 4 }, 2614341888, 2614341888 },
  { "olmo-2-7b", { BLOCK (4096, 32, 32, 32, 128, 11008, 100352), .qk_norm = TRUE, .qk_norm_full = TRUE }, 7298617344, 7298617344 },
  { "phi-2",
    { .hidden = 2560, .layers = 32, .heads = 32, .kv_heads = 32, .head_dim = 80, .ffn = 10240, .vocab = 51200,
      .positions = SC_POSITIONS_ROPE, .linear_bias = TRUE,
      .layer_norms = 1, .parallel_attention = TRUE, .head_bias = TRUE },
    2779683840, 2779683840 },
  { "opt-350m",
    { .hidden = 1024, .layers = 24, .heads = 16, .kv_heads = 16, .head_dim = 64, .ffn = 4096, .vocab = 50272, .tied_embeddings = TRUE,
      .linear_bias = TRUE, .max_positions = 2050, .embedding_dim = 512, .no_final_norm = TRUE },
    331196416, 331196416 },
};

START_TEST (wide_models_equal_published_counts)
{
  const ScModel *m = &wide_cases[_i].model;
  ck_assert_msg (sc_model_params (m, 2048) == wide_cases[_i].total, "%s: %" G_GUINT64_FORMAT, wide_cases[_i].name,
                 sc_model_params (m, 2048));
  ck_assert_msg (sc_model_active_params (m, 2048) == wide_cases[_i].active, "%s: %" G_GUINT64_FORMAT, wide_cases[_i].name,
                 sc_model_active_params (m, 2048));
}
END_TEST

static const ScModel *
wide_named (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (wide_cases); i++)
    if (g_str_equal (wide_cases[i].name, name))
      return &wide_cases[i].model;
  g_assert_not_reached ();
}

START_TEST (prediction_of_more_tokens_is_counted_beside_the_model)
{
  /* MODELLING 2: DeepSeek-V3's module has 11,610,068,224 */
  ck_assert_uint_eq (sc_model_mtp_params (wide_named ("deepseek-v3")), 11610068224);
  ck_assert_uint_eq (sc_model_mtp_params (wide_named ("deepseek-v3.2")), 0);
}
END_TEST

START_TEST (layers_with_experts_and_with_windows_are_counted)
{
  ck_assert_uint_eq (sc_model_moe_layers (wide_named ("deepseek-v3")), 58);
  ck_assert_uint_eq (sc_model_moe_layers (wide_named ("llama-4-maverick")), 24);
  ck_assert_uint_eq (sc_model_moe_layers (wide_named ("gemma-2-2b")), 0);
  ck_assert_uint_eq (sc_model_window_layers (wide_named ("gpt-oss-20b")), 12);
  ck_assert_uint_eq (sc_model_window_layers (wide_named ("mixtral-8x7b")), 0);
  ScModel m = *wide_named ("gemma-2-2b");
  m.window = 512;
  ck_assert_uint_eq (sc_model_window_layers (&m), 26);
  m.global_every = 6;
  ck_assert_uint_eq (sc_model_window_layers (&m), 22);
  m.moe_every = 3;
  m.dense_layers = 4;
  m.experts = 2;
  ck_assert_uint_eq (sc_model_moe_layers (&m), 7); /* 5, 8, ... 23 */
}
END_TEST

START_TEST (experts_and_latent_attention_cost_their_worked_values)
{
  /* MODELLING 1.6, s = 4096 */
  const guint s = 4096;
  const double pairs = (double) s * s;
  const ScModel *mixtral = wide_named ("mixtral-8x7b");
  ScModel v3 = *wide_named ("deepseek-v3");
  ck_assert (sc_model_layer_linear_flops (mixtral, s) == 343597383680.0);
  ck_assert (sc_model_layer_experts_flops (mixtral, s) == 2886218022912.0);
  ck_assert (sc_model_core_attention_flops (mixtral, pairs) == 274877906944.0);
  ck_assert (sc_model_train_flops (mixtral, s, 1, SC_FLOPS_FULL) == 339671783571456.0);
  ck_assert (sc_model_train_flops (mixtral, s, 1, SC_FLOPS_HALF) == 326477644038144.0);
  ck_assert (sc_model_layer_linear_flops (&v3, s) == 1532766453760.0);
  ck_assert (sc_model_layer_experts_flops (&v3, s) == 3246995275776.0);
  ck_assert (sc_model_core_attention_flops (&v3, pairs) == 1374389534720.0);
  ck_assert (sc_model_logits_flops (&v3, s) == 7591354695680.0);
  const double with_mtp = sc_model_train_flops (&v3, s, 1, SC_FLOPS_HALF);
  v3.mtp_layers = 0;
  ck_assert (sc_model_train_flops (&v3, s, 1, SC_FLOPS_HALF) == 1023227103019008.0);
  ck_assert (sc_model_train_flops (&v3, s, 1, SC_FLOPS_FULL) == 1148983745445888.0);
  ck_assert (with_mtp - sc_model_train_flops (&v3, s, 1, SC_FLOPS_HALF) == 41700374347776.0);
}
END_TEST

START_TEST (a_window_leaves_out_pairs)
{
  ScModel m = *model_named ("llama3-8b");
  const double full = sc_model_train_flops (&m, 8192, 1, SC_FLOPS_HALF);
  const double core = 3 * 32 * sc_model_core_attention_flops (&m, 8192.0 * 8192 / 2);
  m.window = 8192;
  ck_assert (sc_model_train_flops (&m, 8192, 1, SC_FLOPS_HALF) == full);
  m.window = 4096; /* three quarters of the triangle */
  ck_assert (sc_model_train_flops (&m, 8192, 1, SC_FLOPS_HALF) == full - core / 4);
  m.global_every = 2;
  ck_assert (sc_model_train_flops (&m, 8192, 1, SC_FLOPS_HALF) == full - core / 8);
  m.chunked_window = TRUE; /* two triangles of half the size: half */
  ck_assert (sc_model_train_flops (&m, 8192, 1, SC_FLOPS_HALF) == full - core / 4);
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

/* Hardware FLOPs of @sequences with @m and @recompute. */
static double
hardware (const ScModel *m, guint seq, guint sequences, ScRecompute recompute, ScFlopsConvention convention)
{
  const ScWorkload w = { .model = *m, .seq = seq, .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .cp = 1, .ep = 1, .micro_batch = 1,
                                                            .global_batch = sequences, .recompute = recompute } };
  return sc_recompute_hardware_flops (&w, convention, 0);
}

START_TEST (full_recompute_gives_the_96_formula)
{
  /* MODELLING 1.4: 96 B s L h^2 (1 + s/(6h) + V/(16 L h)) */
  const ScModel *m = model_named ("gpt3-175b");
  ck_assert_double_eq_tol (hardware (m, 2048, 1, SC_RECOMPUTE_FULL, SC_FLOPS_FULL), 2936829917528064.0,
                           1);
  ck_assert_double_eq_tol (
      hardware (m, 2048, 1536, SC_RECOMPUTE_FULL, SC_FLOPS_FULL) / 4.5109707533231063e18, 1, 1e-12);
}
END_TEST

START_TEST (bloom_reaches_its_logged_tflops)
{
  /* MODELLING 1.5: 104.70 s per step of 2048 sequences on 384 GPUs is logged as 149.77 TFLOP/s */
  const ScModel *m = model_named ("bloom-176b");
  const double flops = hardware (m, 2048, 2048, SC_RECOMPUTE_FULL, SC_FLOPS_FULL);
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
  ck_assert_double_eq_tol (hardware (m, 2048, mfu_cases[_i].batch, SC_RECOMPUTE_SELECTIVE, SC_FLOPS_FULL)
                               / capacity,
                           mfu_cases[_i].hfu, 0.005);
}
END_TEST

START_TEST (no_recompute_executes_the_model_flops)
{
  const ScModel *m = model_named ("llama3-8b");
  ck_assert (hardware (m, 8192, 3, SC_RECOMPUTE_NONE, SC_FLOPS_HALF)
             == sc_model_train_flops (m, 8192, 3, SC_FLOPS_HALF));
}
END_TEST

static double
state_total (ScDtype dtype, ScDtype grad, ScSharding sharding, guint d)
{
  const ScStateBytes s = sc_sharding_states (sc_sharding_row (sharding), 8, dtype, grad, d);
  return s.weights + s.grads + s.optimizer + s.step;
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
  tcase_add_loop_test (tc, wide_models_equal_published_counts, 0, G_N_ELEMENTS (wide_cases));
  tcase_add_test (tc, prediction_of_more_tokens_is_counted_beside_the_model);
  tcase_add_test (tc, layers_with_experts_and_with_windows_are_counted);
  tcase_add_test (tc, experts_and_latent_attention_cost_their_worked_values);
  tcase_add_test (tc, a_window_leaves_out_pairs);
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
