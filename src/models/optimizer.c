/* SPDX-License-Identifier: GPL-3.0-or-later */
/* optimizer.c - optimizers, row by row, and the step of one rank. */
#include "models/optimizer.h"
#include "models/layer-pass.h"
#include "models/sharding.h"

/* Of a fused step that reads gradient and weight in fp32, and writes the weight in fp32 and in 16 bits (MODELLING 4.5); states are read
 * and written besides. */
#define WEIGHT_BYTES 14
#define COPY_BYTES   2
#define STEP_BYTES(state) (WEIGHT_BYTES + 2 * (state))

#define ADAM_BYTES 8 /* two moments in fp32 */
#define QUANTISED_BYTES (2 + 2 * 4 / 256.0) /* two moments in 8 bits, an fp32 scale for each 256 */

static const ScOptimizerRow rows[SC_N_OPTIMIZERS] = {
  [SC_OPTIMIZER_ADAM] = {
    .name = "adam",
    .summary = "Adam or AdamW with two moments in fp32",
    .source = "arXiv 1910.02054, 3.1",
    .state_bytes = ADAM_BYTES,
    .step_bytes = STEP_BYTES (ADAM_BYTES),
  },
  [SC_OPTIMIZER_ADAM_8BIT] = {
    .name = "adam-8bit",
    .summary = "Adam with moments in 8 bits and a scale for each 256 of them, fused",
    .source = "arXiv 2110.02861; block size of bitsandbytes and torchao",
    .state_bytes = QUANTISED_BYTES,
    .step_bytes = STEP_BYTES (QUANTISED_BYTES),
  },
  [SC_OPTIMIZER_SGD_MOMENTUM] = {
    .name = "sgd-momentum",
    .summary = "Gradient descent with one momentum in fp32",
    .source = "torch.optim.SGD",
    .state_bytes = 4,
    .step_bytes = STEP_BYTES (4),
  },
  [SC_OPTIMIZER_LION] = {
    .name = "lion",
    .summary = "Signs of a momentum, which is kept in fp32",
    .source = "arXiv 2302.06675",
    .state_bytes = 4,
    .step_bytes = STEP_BYTES (4),
  },
  [SC_OPTIMIZER_MUON] = {
    .name = "muon",
    .summary = "Momentum of each matrix, orthogonalised by five Newton-Schulz iterations in bf16; Adam for embeddings, head and vectors. Shared "
               "out in whole matrices; a tensor-parallel rank's part is a matrix of its own",
    .source = "arXiv 2502.16982; NVIDIA/Megatron-LM megatron/core/optimizer (layer-wise distributed optimizer, muon_tp_mode blockwise)",
    .state_bytes = 4,
    .step_bytes = STEP_BYTES (4) + 2 + 2, /* what goes into the products, and what comes out */
    .newton_schulz = 5,
  },
};

const ScOptimizerRow *
sc_optimizer_row (ScOptimizer optimizer)
{
  return &rows[optimizer];
}

/* ---- Matrices ---- */

void
sc_optimizer_matrices (const ScLayerShape *shape, GArray *matrices)
{
  g_autoptr (GArray) items = sc_item_list_new ();
  ScPlan plan = *shape->plan;
  ScLayerShape whole = *shape;
  plan.tp_overlap = FALSE; /* products in one piece */
  whole.plan = &plan;
  sc_layer_forward (&whole, items);
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      const ScKernel *const k = &item->kernel;
      if (item->kind != SC_ITEM_KERNEL || (k->class != SC_KERNEL_GEMM && k->class != SC_KERNEL_GROUPED_GEMM))
        continue;
      const ScMatrix matrix = { k->n, k->k, k->class == SC_KERNEL_GROUPED_GEMM };
      for (guint64 g = 0; g < (matrix.expert ? k->batch : 1); g++)
        g_array_append_val (matrices, matrix);
    }
}

double
sc_matrices_params (const GArray *matrices, gboolean expert)
{
  double params = 0;
  for (guint i = 0; i < matrices->len; i++)
    {
      const ScMatrix *const m = &g_array_index (matrices, ScMatrix, i);
      params += m->expert == expert ? (double) m->rows * (double) m->columns : 0;
    }
  return params;
}

/* Experts' behind all others; the largest first. */
static int
compare_matrices (gconstpointer a, gconstpointer b)
{
  const ScMatrix *const x = a, *const y = b;
  const guint64 of_x = x->rows * x->columns, of_y = y->rows * y->columns;
  return x->expert != y->expert ? x->expert - y->expert : of_x != of_y ? (of_x < of_y) - (of_x > of_y) : (x->rows < y->rows) - (x->rows > y->rows);
}

void
sc_matrices_deal (GArray *matrices, guint ranks, guint expert_ranks)
{
  guint n = 0, seen[2] = { 0 };
  g_array_sort (matrices, compare_matrices);
  for (guint i = 0; i < matrices->len; i++)
    {
      const ScMatrix m = g_array_index (matrices, ScMatrix, i);
      if (seen[m.expert != FALSE]++ % (m.expert ? expert_ranks : ranks) == 0)
        g_array_index (matrices, ScMatrix, n++) = m;
    }
  g_array_set_size (matrices, n);
}

double
sc_optimizer_state_bytes (ScOptimizer optimizer, double params, double matrix)
{
  const ScOptimizerRow *const row = sc_optimizer_row (optimizer);
  if (row->newton_schulz == 0 || !(params > 0))
    return row->state_bytes;
  return (row->state_bytes * MIN (matrix, params) + ADAM_BYTES * MAX (params - matrix, 0)) / params;
}

/* ---- The step ---- */

/* X <- a X + (b A + c A A) X with A = X X^T, of m x n with m <= n. */
static void
newton_schulz (Pass *p, const ScMatrix *matrix, guint iterations)
{
  const guint64 m = MIN (matrix->rows, matrix->columns), n = MAX (matrix->rows, matrix->columns);
  for (guint i = 0; i < iterations; i++)
    {
      sc_pass_kernel (p, sc_kernel_gemm ("newton-schulz", SC_DTYPE_BF16, m, m, n));
      sc_pass_kernel (p, sc_kernel_gemm ("newton-schulz", SC_DTYPE_BF16, m, m, m));
      sc_pass_kernel (p, sc_kernel_gemm ("newton-schulz", SC_DTYPE_BF16, m, n, m));
    }
}

/* One kernel that works through arrays as Adam does. */
static void
put_step (Pass *p, const ScOptimizerRow *row, double params)
{
  const gboolean no_copy = p->plan->dtype == SC_DTYPE_FP32 || sc_sharding_of (p->plan->sharding, p->fw)->fp32_weights;
  if (params > 0)
    sc_pass_operation (p, row->name, SC_OP_ADAM, (row->step_bytes - (no_copy ? COPY_BYTES : 0)) * params, 0);
}

/* What the framework moves besides norm and fused Adam.  Of other optimizers what is not fused of theirs is less as their arrays are
 * fewer (assumed). */
static double
rest_bytes (const Pass *p, double norm)
{
  const ScOptimizerRow *const adam = sc_optimizer_row (SC_OPTIMIZER_ADAM), *const row = sc_optimizer_row (p->plan->optimizer);
  const gboolean no_copy = p->plan->dtype == SC_DTYPE_FP32 || sc_sharding_of (p->plan->sharding, p->fw)->fp32_weights;
  const double rest = p->fw->optimizer_bytes_per_param - norm - adam->step_bytes + (no_copy ? COPY_BYTES : 0);
  const double unscale = p->plan->dtype == SC_DTYPE_FP16 && !p->fw->optimizer_unscales ? 4 + 4 : 0;
  return MAX (rest, 0) * row->step_bytes / adam->step_bytes + unscale;
}

static void
put_rest (Pass *p, double bytes)
{
  if (!(bytes > 0))
    return;
  ScKernel k = sc_kernel_memory ("unscale and clip", SC_KERNEL_OPTIMIZER, bytes);
  k.dtype = p->plan->dtype;
  sc_pass_kernel (p, k);
}

void
sc_optimizer_step (const ScLayerShape *shape, double held, double owned, const GArray *matrices, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_OPTIMIZER);
  const ScOptimizerRow *const row = sc_optimizer_row (p.plan->optimizer);
  const double norm = 4;
  sc_pass_operation (&p, "gradient norm", SC_OP_GRADIENT_NORM, norm * owned, 0);
  if ((p.plan->offload & SC_OFFLOAD_OPTIMIZER) == 0) /* not on the host */
    {
      put_rest (&p, rest_bytes (&p, norm) * owned);
      const double matrix = matrices != NULL ? sc_matrices_params (matrices, FALSE) + sc_matrices_params (matrices, TRUE) : 0;
      for (guint i = 0; matrices != NULL && i < matrices->len; i++)
        newton_schulz (&p, &g_array_index (matrices, ScMatrix, i), row->newton_schulz);
      put_step (&p, row, row->newton_schulz > 0 ? matrix : owned);
      if (row->newton_schulz > 0)
        put_step (&p, sc_optimizer_row (SC_OPTIMIZER_ADAM), owned - matrix);
    }
  if (p.fw->fp32_main_grads)
    sc_pass_elementwise (&p, "zero gradients", p.grad * held);
}

void
sc_weights_cast (const ScLayerShape *shape, double params, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_OPTIMIZER);
  sc_pass_cast (&p, "cast of weights", params);
}

gboolean
sc_optimizer_check (const ScWorkload *workload, GError **error)
{
  const ScPlan *const p = &workload->plan;
  const ScOptimizerRow *const row = sc_optimizer_row (p->optimizer);
  if (p->optimizer != SC_OPTIMIZER_ADAM && (p->offload & SC_OFFLOAD_OPTIMIZER) != 0)
    return sc_sharding_fail (error, "/plan/optimizer: found %s with offload %s, expected adam: the host's step is Adam's", row->name, sc_offload_word (p->offload));
  if (row->newton_schulz == 0)
    return TRUE;
  if (p->sharding != SC_SHARDING_NONE && p->sharding != SC_SHARDING_DISTRIBUTED_OPTIMIZER)
    return sc_sharding_fail (error, "/plan/optimizer: found %s with sharding %s, expected none or distributed-optimizer, which may share out whole matrices",
                             row->name, sc_sharding_row (p->sharding)->name);
  if (p->dtype != SC_DTYPE_BF16)
    return sc_sharding_fail (error, "/plan/optimizer: found %s with dtype %s, expected bf16", row->name, sc_dtype_name (p->dtype));
  return TRUE;
}
