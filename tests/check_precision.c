/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_precision.c - linear layers in 8 and 4 bits: products, casts, what is kept, and what a step gains. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "device-json.h"
#include "models/forecast.h"
#include "models/layer.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"

static ScWorkload
llama (const ScPrecision *precision)
{
  return (ScWorkload){
    .model = { .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .gated_mlp = TRUE, .vocab = 128256,
               .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE },
    .seq = 8192,
    .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .cp = 1, .ep = 1, .micro_batch = 1, .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32,
              .precision = precision, .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

/* DeepSeek-V3's layer with experts on one of 8 expert-parallel ranks. */
static ScWorkload
deepseek (const ScPrecision *precision)
{
  return (ScWorkload){
    .model = { .hidden = 7168, .layers = 4, .heads = 128, .kv_heads = 128, .head_dim = 192, .ffn = 18432, .gated_mlp = TRUE, .vocab = 129280,
               .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE, .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_experts = 1,
               .moe_every = 1, .mla = { 1536, 512, 128, 64, 128 } },
    .seq = 4096,
    .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = 8, .cp = 1, .ep = 8, .etp = 1, .micro_batch = 1, .dtype = SC_DTYPE_BF16, .grad_dtype = SC_DTYPE_FP32,
              .precision = precision, .attention = SC_ATTENTION_FLASH },
    .framework = sc_framework_find ("megatron-core", NULL),
  };
}

typedef void (*Lister) (const ScLayerShape *shape, GArray *items);

static GArray *
list (const ScWorkload *w, Lister lister)
{
  const ScLayerShape shape = sc_layer_shape (w, NULL);
  GArray *items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  lister (&shape, items);
  return items;
}

static guint
n_rows (void)
{
  guint n = 0;
  while (sc_precision_all ()[n] != NULL)
    n++;
  return n;
}

#define item_at(items, i) (&g_array_index ((items), ScItem, (i)))

/* HBM bytes of casts. */
static double
cast_bytes (const GArray *items)
{
  double sum = 0;
  for (guint i = 0; i < items->len; i++)
    if (item_at (items, i)->kind == SC_ITEM_KERNEL && item_at (items, i)->kernel.op == SC_OP_QUANTISE)
      sum += item_at (items, i)->kernel.bytes;
  return sum;
}

START_TEST (products_of_linear_layers_alone_are_narrow)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  const ScWorkload w = llama (row);
  static const Lister linear[] = { sc_layer_forward, sc_layer_backward }, others[] = { sc_head_forward, sc_head_backward, sc_embedding_forward, sc_embedding_backward };
  for (guint k = 0; k < G_N_ELEMENTS (linear); k++)
    {
      g_autoptr (GArray) items = list (&w, linear[k]);
      guint products = 0;
      for (guint i = 0; i < items->len; i++)
        {
          const ScKernel *const kernel = &item_at (items, i)->kernel;
          if (item_at (items, i)->kind != SC_ITEM_KERNEL)
            continue;
          ck_assert_int_eq (kernel->dtype, kernel->class == SC_KERNEL_GEMM ? row->gemm : SC_DTYPE_BF16);
          if (kernel->class == SC_KERNEL_GEMM)
            ck_assert_double_eq (kernel->slow, 1 / row->gemm_rate);
          products += kernel->class == SC_KERNEL_GEMM;
        }
      ck_assert_uint_eq (products, k == 0 ? 4 : 8);
    }
  for (guint k = 0; k < G_N_ELEMENTS (others); k++)
    {
      g_autoptr (GArray) items = list (&w, others[k]);
      ck_assert_double_eq (cast_bytes (items), 0);
      for (guint i = 0; i < items->len; i++)
        if (item_at (items, i)->kind == SC_ITEM_KERNEL)
          ck_assert_int_eq (item_at (items, i)->kernel.dtype, SC_DTYPE_BF16);
    }
}
END_TEST

/* Inputs of QKV, projection, FC1 and FC2 in forward, gradients of their outputs in backward, per token. */
START_TEST (casts_move_the_bytes_of_their_recipe)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  const ScWorkload w = llama (row);
  const double each = sc_precision_cast_traffic (row, 2), t = 8192;
  const double norms = 2 * 4096, attention = 4096, activation = 14336, gradients = 4096 + 2048 + 4096 + 2 * 14336 + 4096;
  g_autoptr (GArray) forward = list (&w, sc_layer_forward);
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  ck_assert_double_eq_tol (cast_bytes (forward) / t, each * (attention + (row->fused ? 0 : norms + activation)), 1e-6);
  ck_assert_double_eq_tol (cast_bytes (backward) / t, each * (gradients + (row->keeps_projection ? 0 : attention)), 1e-6);
}
END_TEST

/* What is repeated is cast once more, but where it is written narrow. */
START_TEST (repeated_inputs_are_cast_again)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  ScWorkload w = llama (row);
  g_autoptr (GArray) kept = list (&w, sc_layer_backward);
  w.plan.recompute = SC_RECOMPUTE_MODULES;
  w.plan.recompute_modules = 1u << SC_MODULE_LAYERNORM | 1u << SC_MODULE_MLP_ACT;
  g_autoptr (GArray) repeated = list (&w, sc_layer_backward);
  const double more = row->fused ? 0 : sc_precision_cast_traffic (row, 2) * 8192 * (2 * 4096 + 14336);
  ck_assert_double_eq_tol (cast_bytes (repeated) - cast_bytes (kept), more, 1);
}
END_TEST

/* The same of experts' activations and of what the ways up make of latents. */
START_TEST (repeated_inputs_of_experts_and_latents_are_cast_again)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  static const struct
  {
    ScModule module;
    double elements;
  } modules[] = { { SC_MODULE_MOE_ACT, 4096.0 * 8 * 2048 }, { SC_MODULE_MLA_UP_PROJ, 4096.0 * (1536 + 512) } };
  for (guint k = 0; k < G_N_ELEMENTS (modules); k++)
    {
      ScWorkload w = deepseek (row);
      g_autoptr (GArray) kept = list (&w, sc_layer_backward);
      w.plan.recompute = SC_RECOMPUTE_MODULES;
      w.plan.recompute_modules = 1u << modules[k].module;
      g_autoptr (GArray) repeated = list (&w, sc_layer_backward);
      const double more = row->fused ? 0 : sc_precision_cast_traffic (row, 2) * modules[k].elements;
      ck_assert_double_eq_tol (cast_bytes (repeated) - cast_bytes (kept), more, 1);
    }
}
END_TEST

START_TEST (inputs_are_kept_narrow)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  const ScWorkload wide = llama (NULL), narrow = llama (row);
  const ScLayerShape a = sc_layer_shape (&wide, NULL), b = sc_layer_shape (&narrow, NULL);
  ck_assert_double_eq (sc_layer_saved_bytes (&a) / 8192, 139400); /* MODELLING 3.5 */
  const double saved = (2 - row->cast_bytes) * (2 * 4096 + 14336) - (row->keeps_projection ? row->cast_bytes * 4096 : 0);
  ck_assert_double_eq_tol (sc_layer_saved_bytes (&b) / 8192, 139400 - saved, 1e-6);
}
END_TEST

START_TEST (a_library_that_keeps_inputs_wide_casts_them_again)
{
  ScFramework fw = *sc_framework_find ("megatron-core", NULL);
  fw.fp8_keeps_wide = TRUE;
  for (guint i = 0; i < n_rows (); i++)
    {
      const ScPrecision *const row = sc_precision_all ()[i];
      const ScWorkload once = llama (row);
      ScWorkload again = once;
      again.framework = &fw;
      g_autoptr (GArray) a = list (&once, sc_layer_backward);
      g_autoptr (GArray) b = list (&again, sc_layer_backward);
      const double inputs = 8192.0 * (2 * 4096 + 14336 + (row->keeps_projection ? 4096 : 0));
      const double weights = 4096.0 * (4096 + 2048 + 4096 + 3 * 14336);
      ck_assert_double_eq_tol ((cast_bytes (b) - cast_bytes (a)) / (sc_precision_cast_traffic (row, 2) * (inputs + weights)), 1, 1e-9);
      const ScLayerShape shape = sc_layer_shape (&again, NULL);
      ck_assert_double_eq (sc_layer_saved_bytes (&shape) / 8192, 139400);
    }
}
END_TEST

/* With sequence parallelism inputs and output gradients travel as the products read them, sums as they are. */
START_TEST (gathers_carry_what_the_products_read)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  ScWorkload w = llama (row);
  w.plan.tp = 4;
  w.plan.sequence_parallel = TRUE;
  static const Lister listers[] = { sc_layer_forward, sc_layer_backward };
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (GArray) items = list (&w, listers[k]);
      for (guint i = 0; i < items->len; i++)
        if (item_at (items, i)->kind == SC_ITEM_COLLECTIVE || item_at (items, i)->kind == SC_ITEM_COLLECTIVE_START)
          {
            const gboolean both = !row->transposes && g_str_has_suffix (item_at (items, i)->name, "gradient all-gather");
            const double bytes = item_at (items, i)->coll == SC_COLL_ALL_GATHER ? (both ? 2 : 1) * row->cast_bytes : 2;
            ck_assert_double_eq (item_at (items, i)->bytes, 8192.0 * 4096 * bytes);
          }
    }
}
END_TEST

/* Of a gathered output gradient both layouts are there, of a gathered input the one by columns, and where that is made of rows, those, too. */
START_TEST (gathered_rows_are_there_as_the_products_read_them)
{
  static const Lister whole[] = { sc_layer_backward }, split[] = { sc_layer_backward_input, sc_layer_backward_weight };
  const ScPrecision *const row = sc_precision_all ()[_i];
  for (guint parts = 1; parts <= 2; parts++)
    for (guint overlap = 0; overlap < 2; overlap++)
      {
        ScWorkload w = llama (row);
        w.plan.tp = 4;
        w.plan.sequence_parallel = TRUE;
        w.plan.tp_overlap = overlap > 0;
        guint inputs = 0, gradients = 0;
        for (guint k = 0; k < parts; k++)
          {
            g_autoptr (GArray) items = list (&w, (parts == 1 ? whole : split)[k]);
            for (guint i = 0; i < items->len; i++)
              if (item_at (items, i)->kind == SC_ITEM_KERNEL && item_at (items, i)->kernel.op == SC_OP_TRANSPOSE)
                {
                  const gboolean input = g_str_equal (item_at (items, i)->kernel.name, "transpose of input");
                  *(input ? &inputs : &gradients) += 1;
                  ck_assert_double_eq (item_at (items, i)->kernel.bytes, 2 * 8192.0 * 4096);
                }
          }
        ck_assert_uint_eq (inputs, row->transposes ? 2 : 0); /* of QKV and FC1 */
        ck_assert_uint_eq (gradients, row->transposes ? 2 : 0); /* of projection and FC2 */
      }
  ScWorkload w = llama (row);
  w.plan.tp = 4;
  w.plan.sequence_parallel = TRUE;
  g_autoptr (GArray) backward = list (&w, sc_layer_backward);
  double now = 0, at[2] = { 0, 0 };
  for (guint i = 0; i < backward->len; i++)
    {
      const ScItem *const item = item_at (backward, i);
      now += item->kind == SC_ITEM_MEM && item->mem == SC_MEM_TRANSIENT ? (double) item->mem_bytes : 0;
      if (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, "fc2 dgrad"))
        at[0] = now;
      if (item->kind == SC_ITEM_KERNEL && g_str_equal (item->kernel.name, "fc1 wgrad"))
        at[1] = now;
    }
  const double gradient = 2 * row->cast_bytes * 4096, input = (row->transposes ? 2 : 1) * row->cast_bytes * 4096;
  const double outputs = 2.0 * 14336 / 4, fc1 = 2 * outputs + 2 * row->cast_bytes * 2 * 14336 / 4, dx = 2 * 4096.0, rows = dx / 4;
  ck_assert_double_eq_tol (at[0] / 8192, rows + gradient + outputs, 1);
  ck_assert_double_eq_tol (at[1] / 8192, rows + fc1 + input + dx + rows, 1);
}
END_TEST

/* Six of the buffers hold what is gathered, four what is summed. */
START_TEST (user_buffers_hold_what_the_products_read)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  ScWorkload w = llama (row);
  w.plan.tp = 4;
  w.plan.sequence_parallel = w.plan.tp_overlap = TRUE;
  const ScLayerShape shape = sc_layer_shape (&w, NULL);
  ck_assert_double_eq_tol (sc_user_buffer_bytes (&shape), 8192.0 * 4096 * (6 * row->cast_bytes + 4 * 2), 1);
}
END_TEST

/* Rows go to the experts cast and come back wide; the router's products are wide, all others of the layer narrow. */
START_TEST (experts_get_narrow_rows_and_give_wide_ones)
{
  const ScPrecision *const row = sc_precision_all ()[_i];
  static const Lister listers[] = { sc_layer_forward, sc_layer_backward };
  const double rows = 4096.0 * 8 * 7168;
  for (guint narrow = 0; narrow < 2; narrow++)
    for (guint k = 0; k < 2; k++)
      {
        ScWorkload w = deepseek (row);
        w.plan.moe_fp8_dispatch = narrow > 0;
        g_autoptr (GArray) items = list (&w, listers[k]);
        guint exchanges = 0, wide = 0;
        for (guint i = 0; i < items->len; i++)
          {
            const ScItem *const item = item_at (items, i);
            if (item->kind == SC_ITEM_COLLECTIVE && item->comm == SC_COMM_EP && item->coll == SC_COLL_ALL_TO_ALL)
              ck_assert_double_eq (item->bytes, rows * (exchanges++ == 0 && narrow ? row->cast_bytes : 2));
            if (item->kind == SC_ITEM_KERNEL && (item->kernel.class == SC_KERNEL_GEMM || item->kernel.class == SC_KERNEL_GROUPED_GEMM))
              {
                const gboolean router = g_str_has_prefix (item->kernel.name, "router");
                ck_assert_int_eq (item->kernel.dtype, router ? SC_DTYPE_BF16 : row->gemm);
                wide += router;
              }
          }
        ck_assert_uint_eq (exchanges, 2);
        ck_assert_uint_eq (wide, k == 0 ? 1 : 2);
      }
}
END_TEST

static double
live_after (const ScWorkload *w, const Lister *listers, guint n)
{
  gint64 live[SC_N_MEMS] = { 0 };
  for (guint k = 0; k < n; k++)
    {
      g_autoptr (GArray) items = list (w, listers[k]);
      for (guint i = 0; i < items->len; i++)
        if (item_at (items, i)->kind == SC_ITEM_MEM)
          {
            live[item_at (items, i)->mem] += item_at (items, i)->mem_bytes;
            ck_assert (live[item_at (items, i)->mem] >= 0);
          }
    }
  double sum = 0;
  for (guint i = 0; i < SC_N_MEMS; i++)
    sum += (double) live[i];
  return sum;
}

START_TEST (every_recipe_frees_what_it_takes)
{
  static const Lister whole[] = { sc_layer_forward, sc_layer_backward }, split[] = { sc_layer_forward, sc_layer_backward_input, sc_layer_backward_weight };
  for (guint i = 0; i < n_rows (); i++)
    for (guint variant = 0; variant < 128; variant++)
      {
        ScFramework fw = *sc_framework_find ("megatron-core", NULL);
        fw.fp8_keeps_wide = variant % 2;
        ScWorkload w = variant & 32 ? deepseek (sc_precision_all ()[i]) : llama (sc_precision_all ()[i]);
        w.framework = &fw;
        w.plan.moe_fp8_dispatch = variant & 32 && variant & 64;
        w.plan.tp = variant & 2 ? 4 : 1;
        w.plan.sequence_parallel = (variant & 6) == 6;
        w.model.dropout = variant & 8 ? 0.1 : 0;
        w.plan.recompute = variant & 16 ? SC_RECOMPUTE_MODULES : variant & 8 ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE;
        w.plan.recompute_modules = variant & 16 ? 1u << SC_MODULE_LAYERNORM | 1u << SC_MODULE_MLP_ACT : 0;
        if (w.plan.recompute == SC_RECOMPUTE_MODULES && variant & 32)
          w.plan.recompute_modules = 1u << SC_MODULE_LAYERNORM | 1u << SC_MODULE_MOE_ACT | 1u << SC_MODULE_MLA_UP_PROJ;
        ck_assert (sc_recompute_check (&w, NULL));
        ck_assert_double_eq (live_after (&w, whole, 2), 0);
        ck_assert_double_eq (live_after (&w, split, 3), 0);
        g_autoptr (GArray) one = list (&w, sc_layer_backward);
        g_autoptr (GArray) input = list (&w, sc_layer_backward_input);
        g_autoptr (GArray) weight = list (&w, sc_layer_backward_weight);
        ck_assert_double_eq_tol (cast_bytes (one), cast_bytes (input) + cast_bytes (weight), 1);
      }
}
END_TEST

/* NVIDIA/TransformerEngine docs/examples/gemm_profiling: 12 products a layer of 15,872 x 4096 x (12288, 4096, 16384, 16384), each operand
 * cast before each product: ms of the casts, and of all over those of bf16 (0: on a GPU whose narrow products nobody measured).
 * B300's delayed casts take 0.99 ms, a third less than ours: its products read either layout, so it writes one only. */
static const struct
{
  const char *device, *dtype, *recipe;
  double casts_ms, speedup;
} measured[] = {
  { "h200-sxm", "fp8", "tensorwise", 20.285 - 16.785, 32.014 / 20.285 },
  { "h200-sxm", "fp8", "delayed", 18.978 - 16.785, 32.014 / 18.978 },
  { "h200-sxm", "fp8", "blockwise", 0, 32.014 / 22.882 },
  { "b300", "fp8", "tensorwise", 9.147 - 6.812, 0 },
  { "b300", "mxfp8", NULL, 8.984 - 7.161, 0 },
  { "b300", "nvfp4", NULL, 6.453 - 3.764, 0 },
};

static double
layer_s (const ScDevice *device, const ScPrecision *row, double *ret_casts_s)
{
  static const guint64 widths[][2] = { { 4096, 12288 }, { 4096, 4096 }, { 4096, 16384 }, { 16384, 4096 } };
  const guint64 t = 15872;
  double s = 0;
  *ret_casts_s = 0;
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    for (guint which = 0; which < 3; which++)
      {
        const guint64 in = widths[i][0], out = widths[i][1];
        const guint64 m = which == 2 ? out : t, n = which == 0 ? out : in, k = which == 0 ? in : which == 1 ? out : t;
        ScKernel product = sc_kernel_gemm ("product", row != NULL ? row->gemm : SC_DTYPE_BF16, m, n, k);
        product.slow = row != NULL ? 1 / row->gemm_rate : 0;
        s += sc_kernel_cost (device, &product, 1).seconds;
        if (row == NULL)
          continue;
        const ScKernel cast = sc_kernel_op ("cast", SC_OP_QUANTISE, sc_precision_cast_traffic (row, 2) * (double) (m * k + n * k));
        *ret_casts_s += sc_kernel_cost (device, &cast, 1).seconds;
      }
  return s + *ret_casts_s;
}

START_TEST (layers_speed_up_as_measured)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDevice) device = sc_device_load (measured[_i].device, &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  device->burst = TRUE;
  const ScPrecision *const row = sc_precision_find (measured[_i].dtype, measured[_i].recipe);
  double casts, none;
  const double narrow = layer_s (device, row, &casts), wide = layer_s (device, NULL, &none);
  if (measured[_i].speedup > 0)
    ck_assert_msg (fabs (wide / narrow / measured[_i].speedup - 1) < 0.1, "%s %s: %.3f, measured %.3f", measured[_i].device, row->recipe,
                   wide / narrow, measured[_i].speedup);
  if (measured[_i].casts_ms > 0)
    ck_assert_msg (fabs (1e3 * casts / measured[_i].casts_ms - 1) < 0.2, "%s %s: casts %.3f ms, measured %.3f", measured[_i].device, row->recipe,
                   1e3 * casts, measured[_i].casts_ms);
}
END_TEST

/* Products of later GPUs than Hopper read gathered rows by columns, too. */
START_TEST (only_hoppers_products_need_transposes)
{
  static const struct
  {
    const char *topology;
    gboolean transposes;
  } gpus[] = { { "dgx-h100-8", TRUE }, { "dgx-b200", FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (gpus); i++)
    {
      char dtype[] = "plan.dtype=fp8", tp[] = "plan.tp=4", rows[] = "plan.sequence_parallel=true", dp[] = "plan.dp=1", batch[] = "plan.global_batch=2",
           layers[] = "model.layers=4";
      char *set[] = { dtype, tp, rows, dp, batch, layers, NULL };
      g_autoptr (ScWorkload) w = sc_workload_load ("llama3-8b", set, NULL);
      g_autoptr (ScTopology) t = sc_topology_load (gpus[i].topology, NULL, NULL, NULL);
      const ScForecastOptions options = { .detail = SC_DETAIL_KERNEL };
      g_autoptr (ScSummary) s = sc_forecast (t, w, &options, NULL);
      ck_assert_ptr_nonnull (s);
      gboolean found = FALSE;
      for (guint k = 0; k < s->labels->len; k++)
        found |= g_str_has_prefix (g_ptr_array_index (s->labels, k), "transpose of");
      ck_assert_int_eq (found, gpus[i].transposes);
    }
}
END_TEST

static ScSummary *
forecast (const char *dtype, const char *recipe, const char *topology_name, GError **error)
{
  g_autofree char *set_dtype = g_strdup_printf ("plan.dtype=%s", dtype);
  g_autofree char *set_recipe = recipe != NULL ? g_strdup_printf ("plan.fp8_recipe=%s", recipe) : NULL;
  char dp[] = "plan.dp=1", batch[] = "plan.global_batch=2", layers[] = "model.layers=4";
  char *set[] = { set_dtype, dp, batch, layers, set_recipe, NULL };
  g_autoptr (ScWorkload) w = sc_workload_load ("llama3-8b", set, error);
  g_autoptr (ScTopology) t = w != NULL ? sc_topology_load (topology_name, NULL, NULL, error) : NULL;
  return t != NULL ? sc_forecast (t, w, NULL, error) : NULL;
}

/* MODELLING 4.2.4: 1.2 to 1.5 times as fast from end to end, the casts of the recipes in this order. */
START_TEST (steps_speed_up_by_a_fifth_to_a_half)
{
  static const char *const recipes[] = { "delayed", "tensorwise", "blockwise" };
  g_autoptr (ScSummary) wide = forecast ("bf16", NULL, "dgx-h100-8", NULL);
  ck_assert_ptr_nonnull (wide);
  double before = 0;
  for (guint i = 0; i < G_N_ELEMENTS (recipes); i++)
    {
      g_autoptr (ScSummary) s = forecast ("fp8", recipes[i], "dgx-h100-8", NULL);
      ck_assert_ptr_nonnull (s);
      const double speedup = (double) wide->step / (double) s->step;
      ck_assert_msg (speedup > 1.05 && speedup < 1.5, "%s: %.3f", recipes[i], speedup);
      ck_assert_double_gt ((double) s->step, before);
      before = (double) s->step;
      ck_assert_double_eq (s->peak_flops_per_gpu, 1979e12);
      ck_assert_double_eq (s->model_flops_half, wide->model_flops_half);
    }
}
END_TEST

START_TEST (gpus_without_the_rate_are_refused)
{
  static const struct
  {
    const char *dtype, *topology;
  } bad[] = { { "fp8", "dgx-a100" }, { "mxfp8", "dgx-a100" }, { "nvfp4", "dgx-h100-8" } };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (ScSummary) s = forecast (bad[i].dtype, NULL, bad[i].topology, &error);
      ck_assert_ptr_null (s);
      ck_assert_msg (strstr (error->message, "/plan/dtype") != NULL, "%s", error->message);
    }
}
END_TEST

START_TEST (sizes_that_narrow_products_cannot_have_are_refused)
{
  ScWorkload w = llama (sc_precision_find ("fp8", NULL));
  ck_assert (sc_precision_check (&w, NULL));
  w.model.ffn = 14344;
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_precision_check (&w, &error));
  ck_assert_msg (g_str_has_prefix (error->message, "/plan/dtype: found fp8, but ffn / tp = 14344"), "%s", error->message);
  w.plan.precision = NULL;
  ck_assert (sc_precision_check (&w, NULL));
}
END_TEST

START_TEST (recipes_are_found_by_all_their_names)
{
  ck_assert_str_eq (sc_precision_find ("fp8", NULL)->recipe, "delayed");
  ck_assert_str_eq (sc_precision_find ("fp8", "current-scaling")->recipe, "tensorwise");
  ck_assert_str_eq (sc_precision_find ("mxfp8", NULL)->recipe, "mxfp8");
  ck_assert_ptr_null (sc_precision_find ("bf16", NULL));
  ck_assert_ptr_null (sc_precision_find ("mxfp8", "delayed"));
  for (guint i = 0; i < n_rows (); i++)
    {
      const ScPrecision *const row = sc_precision_all ()[i];
      ck_assert_ptr_eq (sc_precision_find (row->dtype, row->recipe), row);
      ck_assert (row->source != NULL && row->summary != NULL && row->gemm_rate > 0 && row->gemm_rate <= 1 && row->effort >= 1);
    }
}
END_TEST

static Suite *
precision_suite (void)
{
  Suite *const suite = suite_create ("precision");
  TCase *const tc = tcase_create ("all");
  const int n = (int) n_rows ();
  tcase_set_timeout (tc, 120);
  tcase_add_loop_test (tc, products_of_linear_layers_alone_are_narrow, 0, n);
  tcase_add_loop_test (tc, casts_move_the_bytes_of_their_recipe, 0, n);
  tcase_add_loop_test (tc, repeated_inputs_are_cast_again, 0, n);
  tcase_add_loop_test (tc, repeated_inputs_of_experts_and_latents_are_cast_again, 0, n);
  tcase_add_loop_test (tc, inputs_are_kept_narrow, 0, n);
  tcase_add_test (tc, a_library_that_keeps_inputs_wide_casts_them_again);
  tcase_add_loop_test (tc, gathers_carry_what_the_products_read, 0, n);
  tcase_add_loop_test (tc, gathered_rows_are_there_as_the_products_read_them, 0, n);
  tcase_add_loop_test (tc, user_buffers_hold_what_the_products_read, 0, n);
  tcase_add_loop_test (tc, experts_get_narrow_rows_and_give_wide_ones, 0, n);
  tcase_add_test (heavy (suite), every_recipe_frees_what_it_takes);
  tcase_add_loop_test (tc, layers_speed_up_as_measured, 0, G_N_ELEMENTS (measured));
  tcase_add_test (tc, only_hoppers_products_need_transposes);
  tcase_add_test (tc, steps_speed_up_by_a_fifth_to_a_half);
  tcase_add_test (tc, gpus_without_the_rate_are_refused);
  tcase_add_test (tc, sizes_that_narrow_products_cannot_have_are_refused);
  tcase_add_test (tc, recipes_are_found_by_all_their_names);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *const runner = srunner_create (precision_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
