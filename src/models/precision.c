/* SPDX-License-Identifier: GPL-3.0-or-later */
/* precision.c - the recipes, row by row. */
#include <string.h>
#include "models/model.h"
#include "models/precision.h"
#include "models/sharding.h"

/* Efforts and rates from the benchmark of linear layers in NVIDIA/TransformerEngine docs/examples/gemm_profiling (hidden 4096, MLP
 * 16384, 15,872 tokens, 12 products a layer, 2.48e9 elements cast; ms per layer with and without casts).  H200 NVL at 4.1 TB/s: per
 * tensor 16.79, current 20.29 (5.8 bytes an element), delayed 18.98 (3.6), by block 22.88.  B300 at 7.2 TB/s: per tensor 6.81, current
 * 9.15 (6.8), delayed 7.80 (2.9); MXFP8 7.16 and 8.98 (5.3); NVFP4 3.76 and 6.45 (7.8). */
#define TE "NVIDIA/TransformerEngine common/recipe and docs/examples/gemm_profiling (H200, B300)"

static const ScPrecision fp8_delayed = {
  .dtype = "fp8",
  .recipe = "delayed",
  .summary = "one scale per tensor, from the steps before",
  .source = TE,
  .gemm = SC_DTYPE_FP8,
  .gemm_rate = 1,
  .reads = 1,
  .cast_bytes = 1,
  .layouts = 2,
  .transposes = TRUE,
  .effort = 1,
  .fused = TRUE,
  .keeps_projection = TRUE,
};

static const ScPrecision fp8_tensorwise = {
  .dtype = "fp8",
  .recipe = "tensorwise",
  .also = "current current-scaling",
  .summary = "one scale per tensor, from the tensor itself, which is read twice",
  .source = TE,
  .gemm = SC_DTYPE_FP8,
  .gemm_rate = 1,
  .reads = 2,
  .cast_bytes = 1,
  .layouts = 2,
  .transposes = TRUE,
  .effort = 1,
};

static const ScPrecision fp8_rowwise = {
  .dtype = "fp8",
  .recipe = "rowwise",
  .summary = "one scale per row; rows and columns are cast one after the other",
  .source = "pytorch/ao float8 (rowwise recipe); effort as current scaling, assumed",
  .gemm = SC_DTYPE_FP8,
  .gemm_rate = 1,
  .reads = 2,
  .cast_bytes = 1,
  .layouts = 2,
  .effort = 1,
};

/* The product's rate: what is left of 22.88 ms behind casts of 4.06 bytes an element, over 16.79. */
static const ScPrecision fp8_blockwise = {
  .dtype = "fp8",
  .recipe = "blockwise",
  .also = "block subchannel",
  .summary = "a scale for 128 elements of activations and for 128 x 128 of weights (DeepSeek-V3)",
  .source = "DeepSeek-V3, arXiv 2412.19437, 3.3; " TE,
  .gemm = SC_DTYPE_FP8,
  .gemm_rate = 0.82,
  .reads = 1,
  .cast_bytes = 1 + 4.0 / 128,
  .layouts = 2,
  .effort = 1,
};

static const ScPrecision mxfp8 = {
  .dtype = "mxfp8",
  .recipe = "mxfp8",
  .summary = "a scale of 8 bits for 32 elements (OCP MX), of rows and of columns",
  .source = "OCP Microscaling Formats 1.0; " TE,
  .gemm = SC_DTYPE_FP8,
  .gemm_rate = 0.95,
  .reads = 1,
  .cast_bytes = 1 + 1.0 / 32,
  .layouts = 2,
  .effort = 1.3,
};

static const ScPrecision nvfp4 = {
  .dtype = "nvfp4",
  .recipe = "nvfp4",
  .summary = "4 bits with a scale of 8 for 16 elements and one per tensor; Hadamard transforms before weight gradients",
  .source = "arXiv 2509.25149; " TE,
  .gemm = SC_DTYPE_FP4,
  .gemm_rate = 1,
  .reads = 2,
  .cast_bytes = 0.5 + 1.0 / 16,
  .layouts = 2,
  .effort = 1.5,
};

static const ScPrecision *const rows[] = { &fp8_delayed, &fp8_tensorwise, &fp8_rowwise, &fp8_blockwise, &mxfp8, &nvfp4, NULL };

const ScPrecision *const *
sc_precision_all (void)
{
  return rows;
}

static gboolean
is_called (const ScPrecision *row, const char *recipe)
{
  g_auto (GStrv) also = g_strsplit (row->also != NULL ? row->also : "", " ", -1);
  return strcmp (row->recipe, recipe) == 0 || g_strv_contains ((const char *const *) also, recipe);
}

const ScPrecision *
sc_precision_find (const char *dtype, const char *recipe)
{
  for (const ScPrecision *const *row = rows; *row != NULL; row++)
    if (strcmp ((*row)->dtype, dtype) == 0 && (recipe == NULL || is_called (*row, recipe)))
      return *row;
  return NULL;
}

double
sc_precision_cast_traffic (const ScPrecision *precision, double bytes)
{
  return precision->effort * (precision->reads * bytes + precision->layouts * precision->cast_bytes);
}

double
sc_precision_weight_bytes (const ScPrecision *precision)
{
  return precision->layouts * precision->cast_bytes;
}

ScDtype
sc_plan_gemm_dtype (const ScPlan *plan)
{
  return plan->precision != NULL ? plan->precision->gemm : plan->dtype;
}

const char *
sc_plan_dtype_name (const ScPlan *plan)
{
  return plan->precision != NULL ? plan->precision->dtype : sc_dtype_name (plan->dtype);
}

static gboolean
fail (GError **error, char *message)
{
  g_set_error_literal (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, message);
  g_free (message);
  return FALSE;
}

guint
sc_precision_unit (const ScPrecision *precision)
{
  return precision->gemm == SC_DTYPE_FP4 || strcmp (precision->recipe, "mxfp8") == 0 ? 32 : 16;
}

/* Whose weights are gathered in 8 bits: torchao's linear layers under FSDP2, with one scale per tensor (torchao/float8/fsdp_utils.py). */
static gboolean
check_gather (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const ScShardingRow *const row = sc_sharding_row (plan->sharding);
  if (plan->precision == NULL || strcmp (plan->precision->recipe, "tensorwise") != 0)
    return fail (error, g_strdup_printf ("/plan/fp8_param_gather: found true with dtype %s%s%s, expected fp8 with fp8_recipe tensorwise: torchao gathers weights "
                                         "that have one scale", sc_plan_dtype_name (plan), plan->precision != NULL ? " " : "",
                                         plan->precision != NULL ? plan->precision->recipe : ""));
  if (!row->weights || !row->fp32_weights)
    return fail (error, g_strdup_printf ("/plan/fp8_param_gather: found true with sharding %s, expected FSDP: weights that Megatron keeps in 8 bits are not modelled yet",
                                         row->name));
  if (!workload->framework->fp8_keeps_wide || workload->framework->fsdp != 2)
    return fail (error, g_strdup_printf ("/plan/fp8_param_gather: found true with %s, expected torchtitan: it is torchao's linear layers under FSDP2 that do so",
                                         workload->framework->name));
  if (workload->model.experts > 0)
    return fail (error, g_strdup ("/plan/fp8_param_gather: found true with experts, expected false: torchao gathers those of linear layers only"));
  return TRUE;
}

gboolean
sc_precision_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const plan = &workload->plan;
  const ScModel *const m = &workload->model;
  if (plan->moe_fp8_dispatch && plan->precision == NULL)
    return fail (error, g_strdup_printf ("/plan/moe_fp8_dispatch: found true with dtype %s, expected fp8, mxfp8 or nvfp4", sc_dtype_name (plan->dtype)));
  if (plan->moe_fp8_dispatch && m->experts == 0)
    return fail (error, g_strdup ("/plan/moe_fp8_dispatch: found true, but the model has no experts"));
  if (plan->fp8_param_gather && !check_gather (workload, error))
    return FALSE;
  if (plan->precision == NULL)
    return TRUE;
  const guint unit = sc_precision_unit (plan->precision);
  const struct
  {
    guint64 width;
    const char *of;
  } widths[] = {
    { m->hidden, "hidden" },
    { (guint64) m->heads / plan->tp * m->head_dim, "heads x head_dim / tp" },
    { (guint64) MAX (m->kv_heads / plan->tp, 1) * m->head_dim, "kv_heads x head_dim / tp" },
    { sc_model_moe_layers (m) < m->layers ? m->ffn / plan->tp : 0, "ffn / tp" },
    { m->experts > 0 ? m->expert_ffn / MAX (plan->etp, 1) : 0, "expert_ffn / etp" },
    { (guint64) m->shared_experts * m->expert_ffn / plan->tp, "shared_experts x expert_ffn / tp" },
    { m->mla.q_lora_rank, "q_lora_rank" },
    { m->mla.kv_lora_rank, "kv_lora_rank" },
    { (guint64) m->mla.kv_lora_rank + m->mla.qk_rope_head_dim, "kv_lora_rank + qk_rope_head_dim" },
    { (guint64) workload->seq * plan->micro_batch / plan->cp, "seq x micro_batch / cp" },
    /* weight gradients of ways down to latents add up a rank's own rows */
    { m->mla.kv_lora_rank > 0 && plan->sequence_parallel ? (guint64) workload->seq * plan->micro_batch / plan->cp / plan->tp : 0,
      "seq x micro_batch / cp / tp" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    if (widths[i].width % unit != 0)
      return fail (error, g_strdup_printf ("/plan/dtype: found %s, but %s = %" G_GUINT64_FORMAT " is not a multiple of %u, as its products need",
                                           plan->precision->dtype, widths[i].of, widths[i].width, unit));
  return TRUE;
}
