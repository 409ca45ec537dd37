/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_kernel_rows.c - published and raw measurements of kernels are read as they were meant, and become tables that can be written. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "device-json.h"
#include "kernel-rows.h"
#include "models/kernel-form.h"
#include "sample-tables.h"
#include "samples-json.h"

static ScKernelRows *
parse (const char *text, GError **error)
{
  return sc_kernel_rows_parse ("k.jsonl", text, strlen (text), error);
}

static ScKernelRows *
parse_well (const char *text)
{
  g_autoptr (GError) error = NULL;
  ScKernelRows *const rows = parse (text, &error);
  ck_assert_msg (rows != NULL, "%s: %s", text, error != NULL ? error->message : "");
  return rows;
}

static const ScKernelRow *
row_at (const ScKernelRows *rows, guint i)
{
  ck_assert_uint_lt (i, rows->rows->len);
  return g_ptr_array_index (rows->rows, i);
}

#define SESSION \
  "{\"class\":\"session\",\"gpu\":\"NVIDIA H100 80GB HBM3\",\"sms\":132,\"driver\":\"570.86\",\"cuda\":\"12.8\",\"cublaslt\":\"12.8.4\"," \
  "\"cudnn\":\"9.7\",\"nccl\":null,\"memory_bytes\":85520809984,\"l2_bytes\":52428800,\"power_limit_w\":700,\"program\":\"x 1\"}\n"
#define GPU "\"gpu\":\"H100\","

/* ---- Products ---- */

typedef struct
{
  const char *text;
  ScKernelClass class;
  ScDtype dtype;
  guint64 m, n, k, batch;
  ScGemmLayout layout;
  gboolean accumulate, has_layout;
  double seconds;
} Product;

static const Product products[] = {
  /* as published: a time, a rate, both (the time counts), words for types and passes */
  { "{" GPU "\"dtype\":\"bfloat16\",\"m\":256,\"n\":5120,\"k\":4096,\"time_us\":14.5,\"tflops\":1}", SC_KERNEL_GEMM, SC_DTYPE_BF16, 256, 5120,
    4096, 1, SC_GEMM_TN, FALSE, FALSE, 14.5e-6 },
  { "{" GPU "\"dtype\":\"float16\",\"m\":1000,\"n\":1000,\"k\":1000,\"time_us\":null,\"tflops\":100}", SC_KERNEL_GEMM, SC_DTYPE_FP16, 1000, 1000,
    1000, 1, SC_GEMM_TN, FALSE, FALSE, 2e9 / 100e12 },
  { "{" GPU "\"dtype\":\"tf32\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":null,\"grouped\":null}", SC_KERNEL_GEMM, SC_DTYPE_FP32, 8, 16,
    32, 1, SC_GEMM_TN, FALSE, FALSE, 1e-6 },
  { "{" GPU "\"dtype\":\"fp8_block\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":\"TN\"}", SC_KERNEL_GEMM, SC_DTYPE_FP8, 8, 16, 32, 1,
    SC_GEMM_TN, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"nvfp4\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":\"NN\"}", SC_KERNEL_GEMM, SC_DTYPE_FP4, 8, 16, 32, 1,
    SC_GEMM_NN, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":\"NT\",\"accumulate\":true}", SC_KERNEL_GEMM, SC_DTYPE_BF16,
    8, 16, 32, 1, SC_GEMM_NT, TRUE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":\"NT\",\"accumulate\":\"True\"}", SC_KERNEL_GEMM, SC_DTYPE_BF16,
    8, 16, 32, 1, SC_GEMM_NT, TRUE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"layout\":\"NT\",\"accumulate\":\"False\"}", SC_KERNEL_GEMM, SC_DTYPE_BF16,
    8, 16, 32, 1, SC_GEMM_NT, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"stage\":\"fwd\"}", SC_KERNEL_GEMM, SC_DTYPE_BF16, 8, 16, 32, 1,
    SC_GEMM_TN, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"stage\":\"bwd_grad_act\"}", SC_KERNEL_GEMM, SC_DTYPE_BF16, 8, 16, 32, 1,
    SC_GEMM_NN, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":16,\"k\":32,\"time_us\":1,\"stage\":\"bwd_grad_w\"}", SC_KERNEL_GEMM, SC_DTYPE_BF16, 8, 16, 32, 1,
    SC_GEMM_NT, FALSE, TRUE, 1e-6 },
  { "{" GPU "\"dtype\":\"half\",\"m\":8,\"n\":16,\"k\":32,\"batch\":6,\"time_us\":1}", SC_KERNEL_BATCHED_GEMM, SC_DTYPE_FP16, 8, 16, 32, 6,
    SC_GEMM_TN, FALSE, FALSE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":512,\"n\":16,\"k\":32,\"grouped\":4,\"time_us\":1}", SC_KERNEL_GROUPED_GEMM, SC_DTYPE_BF16, 512, 16, 32, 4,
    SC_GEMM_TN, FALSE, FALSE, 1e-6 },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":512,\"n\":1000,\"k\":1000,\"grouped\":4,\"tflops\":50,\"stage\":\"bwd_grad_act\"}", SC_KERNEL_GROUPED_GEMM,
    SC_DTYPE_BF16, 512, 1000, 1000, 4, SC_GEMM_NN, FALSE, TRUE, 2 * 2048e6 / 50e12 },
  /* raw */
  { "{\"class\":\"gemm\"," GPU "\"key\":\"x\",\"dtype\":\"bf16\",\"layout\":\"NT\",\"m\":8,\"n\":16,\"k\":32,\"batch\":1,\"out_dtype\":\"fp32\","
    "\"accumulate\":true,\"time_us\":2.5,\"spread\":0.01,\"repeats\":20}",
    SC_KERNEL_GEMM, SC_DTYPE_BF16, 8, 16, 32, 1, SC_GEMM_NT, TRUE, TRUE, 2.5e-6 },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"layout\":\"NN\",\"rows\":[100,0,300,200],\"n\":16,\"k\":32,\"how\":\"loop\","
    "\"time_us\":3}",
    SC_KERNEL_GROUPED_GEMM, SC_DTYPE_BF16, 200, 16, 32, 3, SC_GEMM_NN, FALSE, TRUE, 3e-6 },
};

START_TEST (a_product_is_read)
{
  const Product *const e = &products[_i];
  g_autoptr (ScKernelRows) rows = parse_well (e->text);
  const ScKernelRow *const row = row_at (rows, 0);
  ck_assert_msg (row->kind == SC_ROW_KERNEL, "%s: %s", e->text, row->why);
  const ScKernel *const k = &row->kernel;
  ck_assert_int_eq (k->class, e->class);
  ck_assert_int_eq (k->dtype, e->dtype);
  ck_assert_uint_eq (k->m, e->m);
  ck_assert_uint_eq (k->n, e->n);
  ck_assert_uint_eq (k->k, e->k);
  ck_assert_uint_eq (k->batch, e->batch);
  ck_assert_int_eq (k->layout, e->layout);
  ck_assert_int_eq (k->accumulate, e->accumulate);
  ck_assert_int_eq (row->has_layout, e->has_layout);
  ck_assert_double_eq_tol (row->seconds / e->seconds, 1, 1e-12);
  ck_assert_double_eq (k->flops, 2.0 * (double) (e->m * e->n * e->k * e->batch));
  ck_assert_str_eq (row->gpu, "H100");
  ck_assert_uint_eq (row->line, 1);
  ck_assert_ptr_null (row->why);
}
END_TEST

/* ---- Attention ---- */

#define ATTENTION "{" GPU "\"dtype\":\"bfloat16\",\"batch\":2,\"seqlen\":1024,\"heads\":8,\"head_dim\":64,"

static const struct
{
  const char *text;
  ScKernelClass class;
  guint kv_heads, v_head_dim;
  gboolean causal;
  double flops, seconds;
} attentions[] = {
  { ATTENTION "\"kv_heads\":2,\"kind\":\"fwd\",\"causal\":false,\"time_us\":50}", SC_KERNEL_FLASH_FORWARD, 2, 64, FALSE, 4.0 * 2 * 1024 * 1024 * 512,
    50e-6 },
  { ATTENTION "\"kind\":\"bwd\",\"causal\":true,\"time_us\":50}", SC_KERNEL_FLASH_BACKWARD, 8, 64, TRUE, 5.0 * 2 * 1024 * 1024 * 512, 50e-6 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"v_head_dim\":32,\"time_us\":50}", SC_KERNEL_FLASH_FORWARD, 8, 32, TRUE,
    2.0 * 2 * 1024 * 512 * 8 * 96, 50e-6 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"window\":512,\"time_us\":50}", SC_KERNEL_FLASH_FORWARD, 8, 64, TRUE,
    4.0 * 2 * 512 * 768 * 512, 50e-6 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"window\":1024,\"time_us\":50}", SC_KERNEL_FLASH_FORWARD, 8, 64, TRUE,
    2.0 * 2 * 1024 * 1024 * 512, 50e-6 },
  /* rates count causal work as half, unless the row says that it is counted in full */
  { ATTENTION "\"kind\":\"fwd\",\"causal\":false,\"tflops\":100}", SC_KERNEL_FLASH_FORWARD, 8, 64, FALSE, 4.0 * 2 * 1024 * 1024 * 512,
    4.0 * 2 * 1024 * 1024 * 512 / 100e12 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"tflops\":100}", SC_KERNEL_FLASH_FORWARD, 8, 64, TRUE, 2.0 * 2 * 1024 * 1024 * 512,
    2.0 * 2 * 1024 * 1024 * 512 / 100e12 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"tflops\":100,\"quality\":\"measured (causal FLOPs counted in full)\"}", SC_KERNEL_FLASH_FORWARD, 8,
    64, TRUE, 2.0 * 2 * 1024 * 1024 * 512, 4.0 * 2 * 1024 * 1024 * 512 / 100e12 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":false,\"tflops\":100,\"quality\":\"counted in full\"}", SC_KERNEL_FLASH_FORWARD, 8, 64, FALSE,
    4.0 * 2 * 1024 * 1024 * 512, 4.0 * 2 * 1024 * 1024 * 512 / 100e12 },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"time_us\":50,\"quality\":\"counted in full\"}", SC_KERNEL_FLASH_FORWARD, 8, 64, TRUE,
    2.0 * 2 * 1024 * 1024 * 512, 50e-6 },
  { "{\"class\":\"attention\"," GPU "\"kind\":\"bwd\",\"impl\":\"cudnn\",\"dtype\":\"bf16\",\"causal\":true,\"batch\":2,\"seqlen\":1024,"
    "\"heads\":8,\"kv_heads\":2,\"head_dim\":64,\"time_us\":7}",
    SC_KERNEL_FLASH_BACKWARD, 2, 64, TRUE, 5.0 * 2 * 1024 * 1024 * 512, 7e-6 },
};

START_TEST (attention_is_read)
{
  g_autoptr (ScKernelRows) rows = parse_well (attentions[_i].text);
  const ScKernelRow *const row = row_at (rows, 0);
  ck_assert_msg (row->kind == SC_ROW_KERNEL, "%s", row->why);
  const ScKernel *const k = &row->kernel;
  ck_assert_int_eq (k->class, attentions[_i].class);
  ck_assert_uint_eq (k->batch, 2);
  ck_assert_uint_eq (k->seq, 1024);
  ck_assert_uint_eq (k->heads, 8);
  ck_assert_uint_eq (k->k, 64);
  ck_assert_uint_eq (k->kv_heads, attentions[_i].kv_heads);
  ck_assert_uint_eq (k->v_head_dim, attentions[_i].v_head_dim);
  ck_assert_int_eq (k->causal, attentions[_i].causal);
  ck_assert_double_eq_tol (k->flops / attentions[_i].flops, 1, 1e-12);
  ck_assert_double_eq_tol (row->seconds / attentions[_i].seconds, 1, 1e-12);
}
END_TEST

/* ---- Memory-bound kernels ---- */

static const struct
{
  const char *text;
  ScMemoryOp op;
  ScDtype dtype;
  guint row;
  double bytes, seconds;
} memories[] = {
  { "{" GPU "\"op\":\"silu*mul\",\"dtype\":\"float16\",\"shape\":[256,8192],\"bytes\":44040192,\"time_us\":22,\"gbps\":2001.8}", SC_OP_SWIGLU,
    SC_DTYPE_FP16, 0, 44040192, 22e-6 },
  { "{" GPU "\"op\":\"softmax\",\"dtype\":\"float32\",\"shape\":[16384,2048],\"bytes\":1000000,\"gbps\":500}", SC_OP_SOFTMAX, SC_DTYPE_FP32, 2048,
    1e6, 2e-6 },
  { "{" GPU "\"op\":\"rmsnorm fwd\",\"shape\":null,\"bytes\":1000000,\"time_us\":3}", SC_OP_RMSNORM, SC_DTYPE_BF16, 0, 1e6, 3e-6 },
  { "{" GPU "\"op\":\"layernorm\",\"shape\":[],\"bytes\":1000000,\"time_us\":3}", SC_OP_LAYERNORM, SC_DTYPE_BF16, 0, 1e6, 3e-6 },
  { "{" GPU "\"op\":\"layernorm\",\"shape\":[8,\"many\"],\"bytes\":1000000,\"time_us\":3}", SC_OP_LAYERNORM, SC_DTYPE_BF16, 0, 1e6, 3e-6 },
  { "{" GPU "\"op\":\"bf16->fp8 scale/cast\",\"dtype\":\"fp8\",\"bytes\":1000000,\"time_us\":3}", SC_OP_QUANTISE, SC_DTYPE_FP8, 0, 1e6, 3e-6 },
  { "{" GPU "\"op\":\"read, working set\",\"dtype\":\"float64\",\"bytes\":1000000,\"time_us\":3}", SC_OP_READ, SC_DTYPE_BF16, 0, 1e6, 3e-6 },
  { "{\"class\":\"memory\"," GPU "\"op\":\"swiglu_bwd\",\"dtype\":\"bf16\",\"shape\":[4096,28672],\"bytes\":1000000,\"time_us\":3}",
    SC_OP_SWIGLU_BACKWARD, SC_DTYPE_BF16, 0, 1e6, 3e-6 },
  { "{\"class\":\"memory\"," GPU "\"op\":\"cross_entropy\",\"dtype\":\"bf16\",\"shape\":[4096,128256],\"bytes\":1000000,\"time_us\":3}",
    SC_OP_CROSS_ENTROPY, SC_DTYPE_BF16, 128256, 1e6, 3e-6 },
  { "{\"class\":\"memory\"," GPU "\"op\":\"grad_norm\",\"dtype\":\"fp32\",\"shape\":[4096],\"bytes\":1000000,\"time_us\":3}", SC_OP_GRADIENT_NORM,
    SC_DTYPE_FP32, 0, 1e6, 3e-6 },
};

START_TEST (a_memory_bound_kernel_is_read)
{
  g_autoptr (ScKernelRows) rows = parse_well (memories[_i].text);
  const ScKernelRow *const row = row_at (rows, 0);
  ck_assert_msg (row->kind == SC_ROW_KERNEL, "%s", row->why);
  ck_assert_int_eq (row->kernel.op, memories[_i].op);
  ck_assert_int_eq (row->kernel.class, sc_op_class (memories[_i].op));
  ck_assert_int_eq (row->kernel.dtype, memories[_i].dtype);
  ck_assert_uint_eq (row->kernel.row, memories[_i].row);
  ck_assert_double_eq (row->kernel.bytes, memories[_i].bytes);
  ck_assert_double_eq (row->kernel.flops, 0);
  ck_assert_double_eq_tol (row->seconds / memories[_i].seconds, 1, 1e-12);
}
END_TEST

/* What the measuring program calls its operations. */
static const char *const raw_ops[] = {
  "copy", "add", "gelu_fwd", "gelu_bwd", "residual_dropout", "cast", "fp8_quantise", "adam", "grad_norm", "swiglu_fwd", "swiglu_bwd", "rmsnorm_fwd",
  "rmsnorm_bwd", "layernorm_fwd", "layernorm_bwd", "rope", "softmax_fwd", "softmax_bwd", "cross_entropy", "embedding_fwd", "embedding_bwd", "permute",
};

START_TEST (every_raw_operation_is_one_of_ours)
{
  g_autofree gboolean *seen = g_new0 (gboolean, SC_N_OPS);
  for (guint i = 0; i < G_N_ELEMENTS (raw_ops); i++)
    {
      g_autofree char *text = g_strdup_printf ("{\"class\":\"memory\"," GPU "\"op\":\"%s\",\"dtype\":\"bf16\",\"bytes\":64,\"time_us\":3}", raw_ops[i]);
      g_autoptr (ScKernelRows) rows = parse_well (text);
      ck_assert_msg (row_at (rows, 0)->kind == SC_ROW_KERNEL, "%s", raw_ops[i]);
      const ScMemoryOp op = row_at (rows, 0)->kernel.op;
      ck_assert_msg (!seen[op], "%s is %s once more", raw_ops[i], sc_op_name (op));
      seen[op] = TRUE;
    }
  seen[SC_OP_TRANSPOSE] = TRUE; /* nobody has measured it by itself */
  for (guint op = 0; op < SC_N_OPS; op++) /* reads are published only, copies to and from the host are a class of their own */
    ck_assert_msg (seen[op] || op == SC_OP_ANY || op == SC_OP_READ || sc_op_class ((ScMemoryOp) op) == SC_KERNEL_HOST_COPY, "%s", sc_op_name ((ScMemoryOp) op));
}
END_TEST

/* ---- Raw files ---- */

START_TEST (a_raw_file_is_read_with_all_it_says)
{
  g_autoptr (ScKernelRows) rows =
      parse_well (SESSION "{\"class\":\"launch\",\"session\":\"a\"," GPU "\"op\":\"graph\",\"time_us\":1.25,\"spread\":0.5}\n"
                          "{\"class\":\"copy\"," GPU "\"op\":\"h2d\",\"bytes\":1048576,\"time_us\":40}\n"
                          "{\"class\":\"collective\"," GPU "\"collective\":\"all_reduce\",\"op\":\"x\",\"bytes\":8,\"time_us\":20,\"gpus\":8}\n"
                          "{\"class\":\"slowdown\"," GPU "\"victim\":\"gemm\",\"beside\":\"held_sms\",\"factor\":1.2,\"alone_us\":5,\"time_us\":6}\n"
                          "{\"class\":\"power\"," GPU "\"op\":\"sustained\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"tflops\":600.5}\n"
                          "{\"class\":\"gemm\"," GPU "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":2}\n"
                          "{\"class\":\"from the future\"," GPU "\"op\":\"x\"}\n"
                          "{\"class\":\"launch\"," GPU "\"time_us\":1.25}\n");
  ck_assert (rows->raw);
  ck_assert_str_eq (rows->session.gpu, "NVIDIA H100 80GB HBM3");
  ck_assert_str_eq (rows->session.driver, "570.86");
  ck_assert_str_eq (rows->session.cublaslt, "12.8.4");
  ck_assert_ptr_null (rows->session.nccl);
  ck_assert_double_eq (rows->session.sms, 132);
  ck_assert_double_eq (rows->session.memory_bytes, 85520809984);
  ck_assert_double_eq (rows->session.power_limit_w, 700);
  ck_assert_double_eq (rows->session.clock_sm_max_mhz, 0);
  ck_assert (row_at (rows, 0)->is_session);
  static const struct
  {
    ScRowKind kind;
    const char *op, *beside;
    double seconds, bytes, factor, flops_per_s, spread;
  } expected[] = {
    { SC_ROW_LAUNCH, "graph", NULL, 1.25e-6, 0, 0, 0, 0.5 },
    { SC_ROW_COPY, "h2d", NULL, 40e-6, 1048576, 0, 0, 0 },
    { SC_ROW_COLLECTIVE, "all_reduce", NULL, 20e-6, 8, 0, 0, 0 },
    { SC_ROW_SLOWDOWN, "gemm", "held_sms", 6e-6, 0, 1.2, 0, 0 },
    { SC_ROW_POWER, "sustained", NULL, 0, 0, 0, 600.5e12, 0 },
    { SC_ROW_KERNEL, NULL, NULL, 2e-6, 0, 0, 0, 0 },
    { SC_ROW_SKIPPED, NULL, NULL, 0, 0, 0, 0, 0 },
    { SC_ROW_SKIPPED, NULL, NULL, 1.25e-6, 0, 0, 0, 0 },
  };
  ck_assert_uint_eq (rows->rows->len, 1 + G_N_ELEMENTS (expected));
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      const ScKernelRow *const row = row_at (rows, i + 1);
      ck_assert_uint_eq (row->line, i + 2);
      ck_assert_int_eq (row->kind, expected[i].kind);
      ck_assert_pstr_eq (row->op, expected[i].op);
      ck_assert_pstr_eq (row->beside, expected[i].beside);
      ck_assert_double_eq_tol (row->seconds, expected[i].seconds, 1e-18);
      ck_assert_double_eq (row->bytes, expected[i].bytes);
      ck_assert_double_eq (row->factor, expected[i].factor);
      ck_assert_double_eq_tol (row->flops_per_s, expected[i].flops_per_s, 1);
      ck_assert_double_eq (row->spread, expected[i].spread);
      ck_assert (!row->is_session);
    }
}
END_TEST

START_TEST (the_last_session_counts)
{
  g_autoptr (ScKernelRows) rows = parse_well (SESSION "{\"class\":\"session\",\"gpu\":\"B200\",\"sms\":148,\"cublaslt\":\"13.0\"}");
  ck_assert_str_eq (rows->session.gpu, "B200");
  ck_assert_str_eq (rows->session.cublaslt, "13.0");
  ck_assert_ptr_null (rows->session.driver);
  ck_assert_double_eq (rows->session.sms, 148);
}
END_TEST

START_TEST (a_cut_line_is_no_loss_of_a_raw_file_and_an_error_elsewhere)
{
  static const char whole[] = "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":2}";
  for (gsize length = 1; length < sizeof whole - 1; length++)
    {
      g_autofree char *cut = g_strdup_printf ("%s\n%.*s", whole, (int) length, whole);
      g_autoptr (GError) error = NULL;
      g_autoptr (ScKernelRows) published = parse (cut, &error);
      ck_assert_ptr_null (published);
      ck_assert_msg (g_str_has_prefix (error->message, "k.jsonl:2"), "%s", error->message);
      ck_assert_ptr_null (strchr (error->message, '\n'));

      g_autofree char *raw = g_strconcat (SESSION, cut, NULL);
      g_autoptr (ScKernelRows) rows = parse_well (raw);
      ck_assert_uint_eq (rows->rows->len, 3);
      ck_assert_int_eq (row_at (rows, 1)->kind, SC_ROW_KERNEL);
      ck_assert_int_eq (row_at (rows, 2)->kind, SC_ROW_SKIPPED);
      ck_assert_str_eq (row_at (rows, 2)->why, "cut off");

      g_autofree char *inside = g_strconcat (raw, "\n", NULL); /* whole lines follow a cut one: not the end of a run */
      g_autoptr (GError) inside_error = NULL;
      ck_assert_ptr_null (parse (inside, &inside_error));
      ck_assert_ptr_nonnull (inside_error);
    }
}
END_TEST

/* ---- Software ---- */

static const struct
{
  const char *keys, *stack;
  gboolean after_session;
} stacks[] = {
  { "\"dtype\":\"bf16\",\"source\":\"github:ai-dynamo/aiconfigurator a/b/systems/data/h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.parquet @095f58\"",
    "trtllm 1.3.0rc20", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"github:microsoft/vidur data/profiling/compute/h100/mlp.csv @7d47513\"", "vidur", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"github:someone\"", "github:someone", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"FlashAttention-3, arXiv 2407.08608\"", "FlashAttention-3", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"A report (2024)\"", "A report", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"\"", "not stated", FALSE },
  { "\"dtype\":\"bf16\",\"source\":\"(unpublished)\"", "not stated", FALSE },
  { "\"dtype\":\"bf16\"", "not stated", FALSE },
  { "\"dtype\":\"bf16\",\"impl\":\"FA3\",\"source\":\"github:a/b c\"", "FA3", FALSE },
  { "\"dtype\":\"bf16\",\"class\":\"gemm\"", "cuBLASLt 12.8.4", TRUE },
  { "\"dtype\":\"bf16\",\"class\":\"gemm\"", "cuBLASLt", FALSE },
  { "\"dtype\":\"bf16\",\"class\":\"grouped_gemm\"", "cuBLASLt 12.8.4", TRUE },
  { "\"dtype\":\"bf16\",\"class\":\"attention\"", "cuDNN 9.7", TRUE },
  { "\"dtype\":\"bf16\",\"class\":\"attention\",\"impl\":\"unfused\"", "unfused 9.7", TRUE },
  { "\"op\":\"add\",\"class\":\"memory\"", "stepcast-measure", TRUE },
  { "\"dtype\":\"bf16\",\"class\":\"gemm\",\"source\":\"github:a/b c\"", "b", TRUE },
};

START_TEST (software_has_a_short_name)
{
  g_autofree char *text = g_strdup_printf ("%s{" GPU "\"m\":8,\"n\":8,\"k\":8,\"time_us\":2,%s}", stacks[_i].after_session ? SESSION : "",
                                           stacks[_i].keys);
  g_autoptr (ScKernelRows) rows = parse_well (text);
  ck_assert_str_eq (row_at (rows, rows->rows->len - 1)->stack, stacks[_i].stack);
}
END_TEST

/* ---- What is skipped ---- */

#define PRODUCT "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,"

static const struct
{
  const char *text, *why;
} skipped[] = {
  { "{\"class\":\"session\"}", "a session" },
  { "{\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "the GPU is not stated" },
  { "{\"gpu\":\"\",\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "the GPU is not stated" },
  { "{\"gpu\":7,\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "the GPU is not stated" },
  { "{" GPU "\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "the data type is not stated" },
  { "{" GPU "\"dtype\":3,\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "the data type is not stated" },
  { "{" GPU "\"dtype\":\"int8\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "no model of products and attention in \"int8\"" },
  { "{" GPU "\"dtype\":\"%s%n\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1}", "no model of products and attention in \"%s%n\"" },
  { PRODUCT "\"layout\":\"TT\",\"time_us\":1}", "no model of layout \"TT\"" },
  { PRODUCT "\"stage\":\"sideways\",\"time_us\":1}", "no model of layout \"sideways\"" },
  { "{" GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"time_us\":1}", "m, n or k is not stated" },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":null,\"time_us\":1}", "m, n or k is not stated" },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":8,\"n\":0,\"k\":8,\"time_us\":1}", "m, n or k is not stated" },
  { "{" GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"grouped\":4,\"time_us\":1}", "the rows of the groups are not stated" },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[],\"time_us\":1}", "the rows of the groups are not stated" },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[0,0],\"time_us\":1}", "the rows of the groups are not stated" },
  { PRODUCT "\"time_us\":null}", "neither a time nor a rate is stated" },
  { PRODUCT "\"time_us\":0,\"tflops\":0}", "neither a time nor a rate is stated" },
  { ATTENTION "\"causal\":true,\"time_us\":1}", "whether it is forward or backward is not stated" },
  { ATTENTION "\"kind\":\"both\",\"causal\":true,\"time_us\":1}", "whether it is forward or backward is not stated" },
  { ATTENTION "\"kind\":\"fwd\",\"time_us\":1}", "whether it is causal is not stated" },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":null,\"time_us\":1}", "whether it is causal is not stated" },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true}", "neither a time nor a rate is stated" },
  { "{" GPU "\"dtype\":\"bf16\",\"seqlen\":1024,\"kind\":\"fwd\",\"causal\":true,\"time_us\":1}", "batch, length, heads or head size is not stated" },
  { "{" GPU "\"head_dim\":64,\"kind\":\"fwd\",\"causal\":true,\"time_us\":1}", "the data type is not stated" },
  { "{" GPU "\"op\":\"stream triad\",\"bytes\":8,\"time_us\":1}", "no kernel of a training step: stream triad" },
  { "{" GPU "\"op\":[1],\"bytes\":8,\"time_us\":1}", "no kernel of a training step: no op" },
  { "{" GPU "\"op\":\"add\",\"time_us\":1}", "bytes or time is not stated" },
  { "{" GPU "\"op\":\"add\",\"bytes\":8}", "bytes or time is not stated" },
  { "{" GPU "\"colour\":\"red\"}", "neither a product (m, n, k), nor attention (seqlen), nor a memory-bound kernel (op)" },
  { "{}", "the GPU is not stated" },
  { "{\"class\":\"astrology\"}", "class \"astrology\" is not known" },
  { "{\"class\":\"copy\",\"bytes\":8,\"time_us\":1}", "what was measured is not stated" },
  { "{\"class\":\"slowdown\",\"op\":\"gemm\",\"time_us\":1}", "what was measured is not stated" },
  { "{\"kind\":\"training\",\"model\":{}}", "of kind \"training\", expected \"layer\": whole runs are for validate runs" },
};

START_TEST (what_a_row_lacks_is_said)
{
  g_autoptr (ScKernelRows) rows = parse_well (skipped[_i].text);
  const ScKernelRow *const row = row_at (rows, 0);
  ck_assert_int_eq (row->kind, SC_ROW_SKIPPED);
  ck_assert_str_eq (row->why, skipped[_i].why);
  ck_assert_ptr_null (row->json);
  ck_assert_int_eq (row->is_session, _i == 0);
}
END_TEST

START_TEST (a_layer_keeps_its_row)
{
  g_autoptr (ScKernelRows) rows = parse_well ("\n{\"kind\":\"layer\",\"id\":\"a\",\"model\":{\"hidden\":6144}}\r\n");
  const ScKernelRow *const row = row_at (rows, 0);
  ck_assert_int_eq (row->kind, SC_ROW_LAYER);
  ck_assert_uint_eq (row->line, 2);
  ck_assert_ptr_nonnull (row->json);
  ck_assert_str_eq (row->json->file, "k.jsonl:2");
}
END_TEST

/* ---- What cannot be ---- */

static const struct
{
  const char *text, *message; /* NULL: any, in one line */
} refused[] = {
  { "", "k.jsonl: found no rows, expected one JSON object a line" },
  { "\n \t\r\n", "k.jsonl: found no rows, expected one JSON object a line" },
  { "[1]", "k.jsonl:1: /: found an array, expected an object" },
  { "{}\n7", "k.jsonl:2: /: found 7, expected an object" },
  { "null", "k.jsonl:1: /: found null, expected an object" },
  { "\"x\"", "k.jsonl:1: /: found \"x\", expected an object" },
  { "{", NULL },
  { "{}{}", NULL },
  { "{\"a\":1,\"a\":2}", NULL },
  { "{\"gpu\":\"\\u0000\"}", NULL },
  { "{\"gpu\":\"\377\376\"}", NULL },
  { PRODUCT "\"time_us\":NaN}", NULL },
  { PRODUCT "\"time_us\":Infinity}", NULL },
  { PRODUCT "\"time_us\":1e999}", NULL },
  { PRODUCT "\"time_us\":-1}", "k.jsonl:1: /time_us: found -1, expected a number from 0 to 1e+12" },
  { PRODUCT "\"time_us\":1e300}", "k.jsonl:1: /time_us: found 1e+300, expected a number from 0 to 1e+12" },
  { PRODUCT "\"time_us\":\"12\"}", "k.jsonl:1: /time_us: found \"12\", expected a number from 0 to 1e+12" },
  { PRODUCT "\"time_us\":[12]}", NULL },
  { PRODUCT "\"tflops\":{}}", NULL },
  { PRODUCT "\"time_us\":1,\"spread\":-1}", NULL },
  { PRODUCT "\"time_us\":1,\"batch\":1.5}", "k.jsonl:1: /batch: found 1.5, expected a whole number from 0 to 1e+09" },
  { PRODUCT "\"time_us\":1,\"grouped\":5000}", "k.jsonl:1: /grouped: found 5000, expected a whole number from 0 to 4096" },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":-8,\"n\":8,\"k\":8}", "k.jsonl:1: /m: found -8, expected a whole number from 0 to 1e+09" },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":1e30,\"n\":8,\"k\":8}", NULL },
  { "{" GPU "\"dtype\":\"bf16\",\"m\":true,\"n\":8,\"k\":8}", NULL },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[8,-1]}", "k.jsonl:1: /rows/1: found -1, expected a whole number of rows of a group, from 0 to 1e+09" },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[\"8\"]}", NULL },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[[8]]}", NULL },
  { "{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"rows\":[1.5]}", NULL },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"kv_heads\":-2}", NULL },
  { ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"window\":[]}", NULL },
  { "{" GPU "\"op\":\"add\",\"bytes\":0.5}", NULL },
  { "{" GPU "\"op\":\"add\",\"bytes\":1e18}", NULL },
  { "{" GPU "\"op\":\"add\",\"bytes\":8,\"gbps\":-1}", NULL },
  { "{\"class\":\"session\",\"sms\":-1}", NULL },
  { "{\"class\":\"session\",\"sms\":\"many\"}", NULL },
  { "{\"class\":\"launch\",\"op\":\"graph\",\"time_us\":-1}", NULL },
  { "{\"class\":\"slowdown\",\"victim\":\"gemm\",\"factor\":1e99}", NULL },
};

static void
assert_one_line (const GError *error)
{
  ck_assert_ptr_nonnull (error);
  ck_assert_msg (g_str_has_prefix (error->message, "k.jsonl:"), "%s", error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
}

START_TEST (what_cannot_be_is_refused_in_one_line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScKernelRows) rows = parse (refused[_i].text, &error);
  ck_assert_msg (rows == NULL, "%s", refused[_i].text);
  assert_one_line (error);
  if (refused[_i].message != NULL)
    ck_assert_str_eq (error->message, refused[_i].message);
}
END_TEST

START_TEST (zero_bytes_and_depth_are_refused)
{
  static const char zeros[] = "{\"gpu\":\"H\0\"}\n\0\0\0";
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_kernel_rows_parse ("k.jsonl", zeros, sizeof zeros - 1, &error));
  assert_one_line (error);
  g_clear_error (&error);
  ck_assert_ptr_null (sc_kernel_rows_parse ("k.jsonl", "\0", 1, &error));
  assert_one_line (error);
  g_clear_error (&error);

  g_autoptr (GString) deep = g_string_new ("{" GPU "\"rows\":");
  for (guint i = 0; i < 100000; i++)
    g_string_append_c (deep, '[');
  ck_assert_ptr_null (parse (deep->str, &error));
  assert_one_line (error);
  for (guint i = 0; i < 100000; i++)
    g_string_append_c (deep, ']');
  g_string_append (deep, "}\n");
  g_clear_error (&error);
  ck_assert_ptr_null (parse (deep->str, &error));
  assert_one_line (error);
}
END_TEST

START_TEST (more_groups_than_can_be_are_refused)
{
  for (guint n = 4096; n <= 4097; n++)
    {
      g_autoptr (GString) text = g_string_new ("{\"class\":\"grouped_gemm\"," GPU "\"dtype\":\"bf16\",\"n\":8,\"k\":8,\"time_us\":1,\"rows\":[");
      for (guint i = 0; i < n; i++)
        g_string_append (text, i > 0 ? ",8" : "8");
      g_string_append (text, "]}");
      g_autoptr (GError) error = NULL;
      g_autoptr (ScKernelRows) rows = parse (text->str, &error);
      ck_assert_int_eq (rows != NULL, n == 4096);
      if (rows == NULL)
        assert_one_line (error);
    }
}
END_TEST

/* Every value of every line above in turn replaced by every one of these. */
static const char *const values[] = { "null", "true", "false", "0", "-1", "1", "1e9", "1e308", "0.5", "\"\"", "\"x\"", "\"True\"", "[]", "[1]",
                                      "[-1]", "[[[]]]", "{}", "{\"a\":{}}" };

static void
try_values (const char *line)
{
  g_autoptr (cJSON) root = cJSON_Parse (line);
  ck_assert_msg (root != NULL, "%s", line);
  const int n = cJSON_GetArraySize (root);
  for (int i = 0; i < n; i++)
    for (guint v = 0; v < G_N_ELEMENTS (values); v++)
      {
        g_autoptr (cJSON) copy = cJSON_Duplicate (root, TRUE);
        cJSON *const old = cJSON_GetArrayItem (copy, i);
        g_autofree char *name = g_strdup (old->string);
        cJSON_ReplaceItemInObjectCaseSensitive (copy, name, cJSON_Parse (values[v]));
        char *const text = cJSON_PrintUnformatted (copy);
        g_autoptr (GError) error = NULL;
        g_autoptr (ScKernelRows) rows = parse (text, &error);
        if (rows == NULL)
          assert_one_line (error);
        for (guint r = 0; rows != NULL && r < rows->rows->len; r++)
          {
            const ScKernelRow *const row = row_at (rows, r);
            ck_assert_msg ((row->kind == SC_ROW_SKIPPED) == (row->why != NULL), "%s", text);
            if (row->kind != SC_ROW_KERNEL)
              continue;
            ck_assert_msg (row->seconds > 0 && isfinite (row->seconds), "%s", text);
            ck_assert_msg (isfinite (row->kernel.flops) && isfinite (row->kernel.bytes) && row->kernel.bytes > 0, "%s", text);
            ck_assert (row->stack != NULL);
          }
        cJSON_free (text);
      }
}

START_TEST (any_value_at_any_key_is_read_skipped_or_refused)
{
  for (guint i = 0; i < G_N_ELEMENTS (products); i++)
    try_values (products[i].text);
  for (guint i = 0; i < G_N_ELEMENTS (attentions); i++)
    try_values (attentions[i].text);
  for (guint i = 0; i < G_N_ELEMENTS (memories); i++)
    try_values (memories[i].text);
  try_values (SESSION);
  try_values ("{\"class\":\"slowdown\",\"victim\":\"gemm\",\"beside\":\"copy\",\"factor\":1.5,\"time_us\":3,\"bytes\":4,\"spread\":0}");
  try_values ("{\"kind\":\"layer\",\"model\":{},\"plan\":{},\"gpu\":\"x\",\"source\":\"y\"}");
}
END_TEST

/* ---- Tables ---- */

static ScDevice *
h100 (void)
{
  g_autoptr (GError) error = NULL;
  ScDevice *const device = sc_device_load_numbers ("h100-sxm-80gb", &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  return device;
}

START_TEST (rows_are_grouped_by_kind_type_operation_and_software)
{
  g_autoptr (ScDevice) device = h100 ();
  g_autoptr (ScKernelRows) rows = parse_well (PRODUCT "\"time_us\":1,\"impl\":\"a\",\"source\":\"first\"}\n"            /* 0 */
                                              PRODUCT "\"time_us\":1,\"impl\":\"b\"}\n"                               /* 1 */
                                              PRODUCT "\"time_us\":2,\"impl\":\"a\",\"source\":\"second\",\"layout\":\"NN\"}\n" /* 0 */
                                              "{\"gpu\":\"A100\",\"dtype\":\"bf16\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1,\"impl\":\"a\"}\n"
                                              "{\"gpu\":\"h100_sxm 80gb\",\"dtype\":\"fp8\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":1,\"impl\":\"a\"}\n" /* 2 */
                                              "{" GPU "\"op\":\"add\",\"bytes\":8,\"time_us\":1,\"impl\":\"a\"}\n"     /* 3 */
                                              "{" GPU "\"op\":\"gelu\",\"bytes\":8,\"time_us\":1,\"impl\":\"a\"}\n"    /* 4 */
                                              PRODUCT "\"time_us\":3,\"impl\":\"a\"}\n"                               /* 0 */
                                              PRODUCT "\"impl\":\"a\"}\n"                                             /* no time */
                                              ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"time_us\":3,\"impl\":\"a\"}\n"  /* 5 */
                                              ATTENTION "\"kind\":\"bwd\",\"causal\":true,\"time_us\":3,\"impl\":\"a\"}\n" /* 6 */);
  g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
  static const struct
  {
    ScKernelClass class;
    ScDtype dtype;
    ScMemoryOp op;
    const char *stack, *source;
    guint n;
    gboolean by_layout;
  } expected[] = {
    { SC_KERNEL_GEMM, SC_DTYPE_BF16, SC_OP_ANY, "a", "first", 3, TRUE },
    { SC_KERNEL_GEMM, SC_DTYPE_BF16, SC_OP_ANY, "b", "b", 1, FALSE },
    { SC_KERNEL_GEMM, SC_DTYPE_FP8, SC_OP_ANY, "a", "a", 1, FALSE },
    { SC_KERNEL_ELEMENTWISE, SC_DTYPE_BF16, SC_OP_ADD, "a", "a", 1, FALSE },
    { SC_KERNEL_ELEMENTWISE, SC_DTYPE_BF16, SC_OP_GELU, "a", "a", 1, FALSE },
    { SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, SC_OP_ANY, "a", "a", 1, FALSE },
    { SC_KERNEL_FLASH_BACKWARD, SC_DTYPE_BF16, SC_OP_ANY, "a", "a", 1, FALSE },
  };
  ck_assert_uint_eq (tables->len, G_N_ELEMENTS (expected));
  for (guint i = 0; i < tables->len; i++)
    {
      const ScSampleTable *const t = g_ptr_array_index (tables, i);
      ck_assert_int_eq (t->class, expected[i].class);
      ck_assert_int_eq (t->dtype, expected[i].dtype);
      ck_assert_int_eq (t->op, expected[i].op);
      ck_assert_str_eq (t->stack, expected[i].stack);
      ck_assert_str_eq (t->source, expected[i].source);
      ck_assert_uint_eq (t->n, expected[i].n);
      ck_assert_int_eq (t->by_layout, expected[i].by_layout);
      ck_assert (t->training);
    }
  const ScSampleTable *const first = g_ptr_array_index (tables, 0);
  ck_assert_double_eq_tol (first->seconds[1], 2e-6, 1e-18);
  ck_assert_double_eq_tol (first->seconds[2], 3e-6, 1e-18);
}
END_TEST

/* # stands for a size. */
static const char *const shaped_rows[SC_N_KERNEL_CLASSES] = {
  [SC_KERNEL_GEMM] = "{" GPU "\"dtype\":\"bf16\",\"m\":#,\"n\":#,\"k\":4096,\"time_us\":1}\n",
  [SC_KERNEL_BATCHED_GEMM] = "{" GPU "\"dtype\":\"bf16\",\"m\":#,\"n\":#,\"k\":128,\"batch\":32,\"time_us\":1}\n",
  [SC_KERNEL_GROUPED_GEMM] = "{" GPU "\"dtype\":\"bf16\",\"m\":#,\"n\":#,\"k\":4096,\"grouped\":8,\"time_us\":1}\n",
  [SC_KERNEL_FLASH_FORWARD] =
      "{" GPU "\"dtype\":\"bf16\",\"kind\":\"fwd\",\"causal\":true,\"seqlen\":#,\"heads\":#,\"kv_heads\":8,\"batch\":2,\"head_dim\":128,"
      "\"time_us\":1}\n",
  [SC_KERNEL_FLASH_BACKWARD] =
      "{" GPU "\"dtype\":\"bf16\",\"kind\":\"bwd\",\"causal\":false,\"seqlen\":#,\"heads\":#,\"kv_heads\":8,\"batch\":2,\"head_dim\":192,"
      "\"v_head_dim\":128,\"time_us\":1}\n",
  [SC_KERNEL_ELEMENTWISE] = "{" GPU "\"op\":\"swiglu_fwd\",\"dtype\":\"bf16\",\"bytes\":##,\"time_us\":1}\n",
  [SC_KERNEL_REDUCTION] = "{" GPU "\"op\":\"layernorm_bwd\",\"dtype\":\"float16\",\"shape\":[4096,#],\"bytes\":#000,\"time_us\":1}\n",
  [SC_KERNEL_OPTIMIZER] = "{" GPU "\"op\":\"adam\",\"dtype\":\"fp32\",\"bytes\":##,\"time_us\":1}\n",
  [SC_KERNEL_HOST_COPY] = "{" GPU "\"op\":\"h2d\",\"dtype\":\"bf16\",\"bytes\":##,\"time_us\":1}\n",
};

/* Rows of one class at sizes all over. */
static ScKernelRows *
rows_of (ScKernelClass class)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint a = 512; a <= 16384; a *= 2)
    for (guint b = 1024; b <= 8192; b *= 2)
      {
        const guint second = class == SC_KERNEL_FLASH_FORWARD || class == SC_KERNEL_FLASH_BACKWARD ? b / 128 : b;
        g_auto (GStrv) parts = g_strsplit (shaped_rows[class], "#", 3);
        g_string_append_printf (text, "%s%u%s%u%s", parts[0], a, parts[1], second, parts[2]);
      }
  return parse_well (text->str);
}

START_TEST (the_efficiency_of_made_up_times_is_found_again)
{
  g_autoptr (ScDevice) device = h100 ();
  static const double efficiencies[] = { 0.25, 0.55, 0.83 };
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    for (guint e = 0; e < G_N_ELEMENTS (efficiencies); e++)
      {
        g_autoptr (ScKernelRows) rows = rows_of ((ScKernelClass) c);
        const ScCited efficiency = { .value = efficiencies[e] };
        const gboolean none = c == SC_KERNEL_BATCHED_GEMM || c >= SC_KERNEL_ELEMENTWISE;
        for (guint i = 0; i < rows->rows->len; i++)
          {
            ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
            if (!none)
              row->seconds = sc_kernel_form (device, &row->kernel, &efficiency, 1).seconds;
          }
        g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
        ck_assert_uint_eq (tables->len, 1);
        const ScSampleTable *const table = g_ptr_array_index (tables, 0);
        ck_assert_uint_eq (table->n, rows->rows->len);
        if (none)
          ck_assert_double_eq (table->efficiency.value, 0);
        else
          ck_assert_msg (fabs (table->efficiency.value / efficiencies[e] - 1) < 0.01, "%s: %g, not %g", sc_kernel_class_name ((ScKernelClass) c),
                         table->efficiency.value, efficiencies[e]);
      }
}
END_TEST

START_TEST (the_efficiency_has_bounds)
{
  g_autoptr (ScDevice) device = h100 ();
  for (guint fast = 0; fast < 2; fast++)
    {
      g_autoptr (ScKernelRows) rows = rows_of (SC_KERNEL_GEMM);
      for (guint i = 0; i < rows->rows->len; i++)
        ((ScKernelRow *) g_ptr_array_index (rows->rows, i))->seconds = fast > 0 ? 1e-9 : 1e3;
      g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
      ck_assert_double_eq (((const ScSampleTable *) g_ptr_array_index (tables, 0))->efficiency.value, fast > 0 ? 1 : 0.02);
    }
  g_autoptr (ScKernelRows) rows = rows_of (SC_KERNEL_GEMM);
  device->peak_flops[SC_DTYPE_BF16].value = 0; /* no such rate: nothing to be a share of */
  g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
  ck_assert_double_eq (((const ScSampleTable *) g_ptr_array_index (tables, 0))->efficiency.value, 0);
}
END_TEST

static void
assert_same_kernel (const ScKernel *a, const ScKernel *b)
{
  ck_assert_int_eq (a->class, b->class);
  ck_assert_int_eq (a->dtype, b->dtype);
  ck_assert_uint_eq (a->m, b->m);
  ck_assert_uint_eq (a->n, b->n);
  ck_assert_uint_eq (a->k, b->k);
  ck_assert_uint_eq (a->batch, b->batch);
  ck_assert_int_eq (a->layout, b->layout);
  ck_assert_int_eq (a->accumulate, b->accumulate);
  for (guint i = 0; i < G_N_ELEMENTS (a->row_tiles); i++)
    ck_assert_uint_eq (a->row_tiles[i], b->row_tiles[i]);
  ck_assert_double_eq (a->flops, b->flops);
  ck_assert_double_eq (a->bytes, b->bytes);
  ck_assert_uint_eq (a->seq, b->seq);
  ck_assert_uint_eq (a->heads, b->heads);
  ck_assert_uint_eq (a->kv_heads, b->kv_heads);
  ck_assert_uint_eq (a->v_head_dim, b->v_head_dim);
  ck_assert_int_eq (a->causal, b->causal);
  ck_assert_int_eq (a->op, b->op);
  ck_assert_uint_eq (a->row, b->row);
}

/* What is written of @tables and read again is the same, and so is what is written of that. */
static void
assert_comes_back (const GPtrArray *tables)
{
  for (guint t = 0; t < tables->len; t++)
    {
      const ScSampleTable *const table = g_ptr_array_index (tables, t);
      g_autoptr (GString) text = g_string_new ("{\"samples\":[");
      sc_samples_write (table, text);
      g_string_append (text, "]}");
      g_autoptr (GError) error = NULL;
      g_autoptr (ScJson) json = sc_json_parse ("s.json", text->str, text->len, &error);
      g_autoptr (GPtrArray) again = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
      ck_assert_msg (json != NULL && sc_samples_read (json, json->root->child, again, &error), "%s: %s", error != NULL ? error->message : "", text->str);
      ck_assert_uint_eq (again->len, 1);
      const ScSampleTable *const back = g_ptr_array_index (again, 0);
      ck_assert_int_eq (back->class, table->class);
      ck_assert_int_eq (back->dtype, table->dtype);
      ck_assert_int_eq (back->op, table->op);
      ck_assert_pstr_eq (back->stack, table->stack);
      ck_assert_str_eq (back->source, table->source);
      ck_assert_int_eq (back->training, table->training);
      ck_assert_int_eq (back->by_layout, table->by_layout);
      ck_assert_double_eq_tol (back->efficiency.value, table->efficiency.value, 1e-4);
      ck_assert_uint_eq (back->n, table->n);
      for (guint i = 0; i < table->n; i++)
        {
          assert_same_kernel (&back->kernels[i], &table->kernels[i]);
          ck_assert_double_eq_tol (back->seconds[i] / table->seconds[i], 1, 1e-5);
        }
      g_autoptr (GString) twice = g_string_new ("{\"samples\":[");
      sc_samples_write (back, twice);
      g_string_append (twice, "]}");
      ck_assert_str_eq (twice->str, text->str);
    }
}

START_TEST (a_table_that_is_written_reads_the_same)
{
  g_autoptr (ScDevice) device = h100 ();
  for (guint c = 0; c < SC_N_KERNEL_CLASSES; c++)
    {
      g_autoptr (ScKernelRows) rows = rows_of ((ScKernelClass) c);
      for (guint i = 0; i < rows->rows->len; i++)
        ((ScKernelRow *) g_ptr_array_index (rows->rows, i))->seconds = 1e-6 * pow (1.37, i);
      g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
      ck_assert_uint_eq (tables->len, 1);
      ScSampleTable *const table = g_ptr_array_index (tables, 0);
      assert_comes_back (tables);
      table->training = FALSE;
      g_free (table->source);
      table->source = g_strdup ("a \"quoted\" \\ source");
      g_clear_pointer (&table->stack, g_free);
      table->efficiency.source = g_strdup ("median");
      assert_comes_back (tables);
    }
}
END_TEST

START_TEST (layouts_accumulation_and_shapes_come_back_too)
{
  g_autoptr (ScDevice) device = h100 ();
  g_autoptr (ScKernelRows) rows = parse_well (PRODUCT "\"layout\":\"TN\",\"time_us\":1}\n" PRODUCT "\"layout\":\"NT\",\"accumulate\":true,\"time_us\":1}\n"
                                              PRODUCT "\"layout\":\"NT\",\"time_us\":1}\n" PRODUCT "\"layout\":\"NN\",\"time_us\":1}\n"
                                              /* fp8 has TN only, also where it accumulates */
                                              "{" GPU "\"dtype\":\"fp8\",\"m\":64,\"n\":64,\"k\":64,\"layout\":\"TN\",\"time_us\":1}\n"
                                              "{" GPU "\"dtype\":\"fp8\",\"m\":64,\"n\":64,\"k\":64,\"layout\":\"TN\",\"accumulate\":true,\"time_us\":1}\n"
                                              PRODUCT "\"batch\":4,\"layout\":\"NN\",\"time_us\":1}\n" PRODUCT "\"batch\":4,\"layout\":\"NT\",\"time_us\":1}\n"
                                              PRODUCT "\"grouped\":4,\"layout\":\"NN\",\"time_us\":1}\n" PRODUCT "\"grouped\":4,\"layout\":\"NT\",\"time_us\":1}\n"
                                              ATTENTION "\"kind\":\"fwd\",\"causal\":true,\"time_us\":3}\n"
                                              ATTENTION "\"kind\":\"fwd\",\"causal\":false,\"v_head_dim\":32,\"time_us\":3}\n");
  g_autoptr (GPtrArray) tables = sc_sample_tables_new (device, rows);
  ck_assert_uint_eq (tables->len, 5);
  assert_comes_back (tables);
}
END_TEST

START_TEST (words_of_classes_types_and_operations_are_known)
{
  for (guint i = SC_OP_ANY + 1; i < SC_N_OPS; i++)
    ck_assert_uint_eq (sc_samples_op (sc_op_name ((ScMemoryOp) i)), i);
  for (guint i = 0; i < SC_N_DTYPES; i++)
    ck_assert_uint_eq (sc_samples_dtype (sc_dtype_name ((ScDtype) i)), i);
  for (guint i = 0; i < SC_KERNEL_ELEMENTWISE; i++)
    ck_assert_uint_eq (sc_samples_class (sc_kernel_class_name ((ScKernelClass) i)), i);
  ck_assert_uint_eq (sc_samples_class ("memory"), SC_KERNEL_ELEMENTWISE);
  ck_assert_uint_eq (sc_samples_op ("any"), G_MAXUINT);
  ck_assert_uint_eq (sc_samples_class ("optimizer"), G_MAXUINT);
  ck_assert_uint_eq (sc_samples_dtype (""), G_MAXUINT);
}
END_TEST

START_TEST (every_shipped_table_comes_back)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDevice) device = sc_device_load ("a100-pcie-40gb", &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  ck_assert (sc_device_read_reference (device, &error));
  ck_assert_ptr_nonnull (device->tables);
  assert_comes_back (device->tables);
}
END_TEST

static Suite *
kernel_rows_suite (void)
{
  Suite *suite = suite_create ("kernel rows");
  TCase *tc = tcase_create ("reading");
  tcase_add_loop_test (tc, a_product_is_read, 0, G_N_ELEMENTS (products));
  tcase_add_loop_test (tc, attention_is_read, 0, G_N_ELEMENTS (attentions));
  tcase_add_loop_test (tc, a_memory_bound_kernel_is_read, 0, G_N_ELEMENTS (memories));
  tcase_add_test (tc, every_raw_operation_is_one_of_ours);
  tcase_add_test (tc, a_raw_file_is_read_with_all_it_says);
  tcase_add_test (tc, the_last_session_counts);
  tcase_add_test (tc, a_cut_line_is_no_loss_of_a_raw_file_and_an_error_elsewhere);
  tcase_add_loop_test (tc, software_has_a_short_name, 0, G_N_ELEMENTS (stacks));
  tcase_add_loop_test (tc, what_a_row_lacks_is_said, 0, G_N_ELEMENTS (skipped));
  tcase_add_test (tc, a_layer_keeps_its_row);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("hostile");
  tcase_add_loop_test (tc, what_cannot_be_is_refused_in_one_line, 0, G_N_ELEMENTS (refused));
  tcase_add_test (tc, zero_bytes_and_depth_are_refused);
  tcase_add_test (tc, more_groups_than_can_be_are_refused);
  tcase_add_test (tc, any_value_at_any_key_is_read_skipped_or_refused);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("tables");
  tcase_add_test (tc, rows_are_grouped_by_kind_type_operation_and_software);
  tcase_add_test (tc, the_efficiency_of_made_up_times_is_found_again);
  tcase_add_test (tc, the_efficiency_has_bounds);
  tcase_add_test (tc, a_table_that_is_written_reads_the_same);
  tcase_add_test (tc, layouts_accumulation_and_shapes_come_back_too);
  tcase_add_test (tc, words_of_classes_types_and_operations_are_known);
  tcase_add_test (tc, every_shipped_table_comes_back);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (kernel_rows_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
