/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-moe.c - the half of a layer that has experts: router, dispatch, grouped products, combine; shared experts beside them
 * (MODELLING 1.2, 3.5, 4.6, 5.8; NVIDIA/Megatron-LM core/transformer/moe: TopKRouter, MoEAlltoAllTokenDispatcher, TEGroupedMLP,
 * SharedExpertMLP). */
#include "models/layer-pass.h"
#include "models/experts.h"

/* A grouped product and how its parts are called. */
typedef struct
{
  const char *fprop, *dgrad, *wgrad, *add, *bias, *bias_grad;
} Grouped;

static const Grouped grouped_fc1 = { "experts fc1", "experts fc1 dgrad", "experts fc1 wgrad", "experts fc1 gradient add", "experts fc1 bias",
                                     "experts fc1 bias gradient" };
static const Grouped grouped_fc2 = { "experts fc2", "experts fc2 dgrad", "experts fc2 wgrad", "experts fc2 gradient add", "experts fc2 bias",
                                     "experts fc2 bias gradient" };
static const Linear linear_router = { "router", "router dgrad", "router wgrad", "router gradient add", NULL, NULL, NULL, NULL };

/* One way of the rows: to the experts or back. */
typedef struct
{
  const char *exchange, *gather, *scatter, *sort, *permute;
  gboolean to_experts;
} Way;

static const Way dispatch = { "dispatch", "expert rows all-gather", NULL, "sort by expert", "permute", TRUE };
static const Way combine = { "combine", NULL, "expert rows reduce", "unsort", "unpermute", FALSE };
static const Way dispatch_back = { "dispatch backward", NULL, "expert rows gradient reduce", "unsort backward", "permute backward", FALSE };
static const Way combine_back = { "combine backward", "expert rows gradient all-gather", NULL, "sort backward", "unpermute backward", TRUE };

static gboolean
has_shared (const Pass *p)
{
  return p->model->shared_experts > 0;
}

/* Shared experts that run while rows are on their way. */
static gboolean
overlaps_shared (const Pass *p)
{
  return has_shared (p) && p->plan->moe_shared_overlap && p->plan->ep > 1;
}

static double
row_bytes (const Pass *p, double rows)
{
  return p->e * p->h * rows;
}

static double
fc1_width (const Pass *p)
{
  return (p->model->gated_mlp ? 2 : 1) * p->f_e;
}

/* DeepEP hands out each token once to a rank, however many of its experts are there: the receiver makes rows of tokens, and the combine
 * adds up what comes back (deepseek-ai/DeepEP; Megatron-LM's flex dispatcher).  Ranks that share experts gather rows as ever. */
static gboolean
hands_out_tokens (const Pass *p)
{
  return p->plan->moe_dispatcher == SC_DISPATCHER_DEEPEP && p->plan->ep > 1 && p->plan->etp == 1;
}

/* What the exchange brings: rows, or tokens. */
static double
brought (const Pass *p)
{
  return p->arrived * (hands_out_tokens (p) ? sc_experts_rank_share (p->model, p->plan, p->plan->ep) : 1);
}

/* Rows that go to the experts may be cast. */
static double
way_bytes (const Pass *p, const Way *way, double rows)
{
  return (way->to_experts ? sc_experts_dispatch_bytes (p->plan) : p->e) * p->h * rows;
}

/* Rows arrive by sender; experts that are not alone on their rank want them by expert. */
static gboolean
sorts (const Pass *p)
{
  return hands_out_tokens (p) || (p->plan->ep * p->plan->etp > 1 && p->model->experts > p->plan->ep);
}

/* ---- grouped products ---- */

/* Of the layer's weights n_out x n_in. */
static ScKernel
grouped_kernel (const Pass *p, const char *name, ScGemmLayout layout, double n_out, double n_in)
{
  g_autoptr (ScExpertRows) r = sc_expert_rows_new (p->model, p->plan, (guint64) p->t_sp, p->shape->kind.routing);
  for (guint i = 0; i < r->n && p->precision != NULL; i++) /* filled up to whole scales */
    r->rows[i] = (r->rows[i] + sc_precision_unit (p->precision) - 1) / sc_precision_unit (p->precision) * sc_precision_unit (p->precision);
  return sc_kernel_grouped_gemm (name, sc_pass_gemm_dtype (p), layout, r->rows, r->n, (guint64) n_out, (guint64) n_in);
}

static void
grouped (Pass *p, const char *name, ScGemmLayout layout, double n_out, double n_in)
{
  if (p->rows > 0)
    sc_pass_linear_kernel (p, grouped_kernel (p, name, layout, n_out, n_in));
}

static void
grouped_bias (Pass *p, const char *name, double width)
{
  if (sc_pass_has_mlp_bias (p) && !p->fw->fused_bias && p->rows > 0)
    sc_pass_elementwise (p, name, 2 * p->e * width * p->rows);
}

static void
grouped_weight_gradient (Pass *p, const Grouped *g, double n_out, double n_in)
{
  const double weights = n_out * n_in * (p->model->experts / p->plan->ep);
  if (p->rows == 0)
    return;
  sc_pass_cast_kept (p, FALSE, n_in * p->rows);
  if (sc_pass_has_mlp_bias (p))
    sc_pass_reduction (p, g->bias_grad, p->e * n_out * p->rows);
  ScKernel k = grouped_kernel (p, g->wgrad, SC_GEMM_NT, n_out, n_in);
  const double in_use = n_out * n_in * (double) k.batch; /* of experts that have rows: read and written in fp32 */
  if (p->fw->fused_wgrad)
    {
      k.accumulate = p->plan->grad_dtype == SC_DTYPE_FP32 && p->plan->dtype != SC_DTYPE_FP32;
      k.bytes += in_use * (2 * p->grad - 8);
      sc_pass_linear_kernel (p, k);
      return;
    }
  k.accumulate = FALSE;
  k.bytes += in_use * (p->e - 8);
  if (!sc_pass_adds_gradients (p)) /* what the product makes is the gradient */
    {
      sc_pass_linear_kernel (p, k);
      return;
    }
  sc_pass_temp (p, p->e * weights);
  sc_pass_linear_kernel (p, k);
  sc_pass_elementwise (p, g->add, (p->e + 2 * p->grad) * weights);
  sc_pass_temp (p, -p->e * weights);
}

/* ---- casts (DeepSeek-V3, arXiv 2412.19437, 3.3) ---- */

/* Rows that go to the experts cast, by rows: this rank's own, before they are handed out. */
static void
cast_before_exchange (Pass *p)
{
  if (p->plan->moe_fp8_dispatch && p->precision != NULL)
    sc_pass_operation (p, "cast of rows", SC_OP_QUANTISE, p->precision->effort * (p->precision->reads * p->e + p->precision->cast_bytes) * p->h * p->t_sp, 0);
}

/* Rows that arrive in plan.dtype and are kept cast. */
static gboolean
casts_on_arrival (const Pass *p)
{
  return p->precision != NULL && !p->plan->moe_fp8_dispatch && !p->fw->fp8_keeps_wide;
}

/* What the experts' products read of it there: rows that came cast are cast by columns for the weight gradient only. */
static void
cast_at_experts (Pass *p)
{
  if (p->precision == NULL || p->rows == 0)
    return;
  if (p->plan->moe_fp8_dispatch)
    sc_pass_operation (p, "cast by columns", SC_OP_QUANTISE, 2 * p->precision->cast_bytes * p->h * p->rows, 0);
  else
    sc_pass_cast (p, "cast of rows", p->h * p->rows);
}

static void
cast_experts_weights (Pass *p, double n_out, double n_in)
{
  sc_pass_cast_weight (p, n_out * n_in * (p->model->experts / p->plan->ep));
}

/* ---- the ways of the rows ---- */

/* Rows of an expert are as many as tokens chose it, unless each is filled up to a capacity. */
static gboolean
sizes_vary (const Pass *p)
{
  return !(p->plan->moe_capacity_factor > 0 && p->plan->moe_pad_to_capacity);
}

/* How many rows go from whom to which expert: counted, told to all ranks that share out the experts, and read by the host, which sizes buffers
 * and calls by it (Megatron-LM's MoEAlltoAllTokenDispatcher.preprocess(), int64 for each expert, gathered; DeepEP's get_dispatch_layout() and
 * notify_dispatch(), which take one way of a small message, too).  Ranks that share experts are one group with the others in Megatron, one
 * gather behind the other here.  Backward knows. */
static void
count_rows (Pass *p)
{
  const double counts = 8.0 * p->model->experts;
  if (!sizes_vary (p))
    return;
  sc_pass_reduction (p, "rows per expert", (double) p->model->experts * p->t_sp + counts);
  if (p->plan->ep > 1)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_EP, SC_COLL_ALL_GATHER, "rows per expert all-gather", counts * p->plan->ep);
  if (p->plan->etp > 1)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_ETP, SC_COLL_ALL_GATHER, "rows per expert all-gather", counts * p->plan->ep * p->plan->etp);
  sc_pass_host (p, SC_ITEM_HOST_MARK);
}

/* What is dropped is known before the first permutation, else that is issued before the host waits. */
static gboolean
waits_to_permute (const Pass *p)
{
  return p->plan->moe_capacity_factor > 0 || hands_out_tokens (p);
}

static void
host_reads_rows (Pass *p)
{
  if (sizes_vary (p))
    sc_pass_host (p, SC_ITEM_HOST_WAIT);
}

/* The exchange of rows over the EP group, of which each rank hands out @sent and gets @arrived.  The whole buffer of a call is what the
 * busiest rank moves. */
static double
exchange_bytes (const Pass *p, const Way *way)
{
  return way_bytes (p, way, MAX (p->sent, p->arrived));
}

static void
start_exchange (Pass *p, const Way *way, ScItemKind kind)
{
  if (p->plan->ep > 1)
    sc_pass_collective (p, kind, SC_COMM_EP, SC_COLL_ALL_TO_ALL, way->exchange, exchange_bytes (p, way));
}

static void
sort_rows (Pass *p, const Way *way)
{
  if (hands_out_tokens (p))
    sc_pass_operation (p, way->permute, SC_OP_PERMUTE, way_bytes (p, way, p->rows + brought (p)), 0);
  else
    sc_pass_operation (p, way->sort, SC_OP_PERMUTE, 2 * way_bytes (p, way, p->rows), 0);
}

/* Nobody reads these rows any more: they are freed, unless the forward of the layer still has a name for them. */
static void
let_go (Pass *p, gboolean named, double bytes)
{
  if (!named || !p->fw->moe_holds_rows || p->time == SC_TIME_BACKWARD || hands_out_tokens (p))
    {
      sc_pass_temp (p, -bytes);
      return;
    }
  g_assert (p->n_held < G_N_ELEMENTS (p->held));
  p->held[p->n_held++] = bytes;
}

static void
forget_names (Pass *p)
{
  while (p->n_held > 0)
    sc_pass_temp (p, -p->held[--p->n_held]);
}

/* From tokens to the rows that the dispatch takes, a temporary, if it takes rows. */
static void
permute (Pass *p, const Way *way)
{
  if (hands_out_tokens (p))
    return;
  sc_pass_temp (p, way_bytes (p, way, p->sent));
  sc_pass_operation (p, way->permute, SC_OP_PERMUTE, way_bytes (p, way, p->t_sp + p->sent), 0);
}

/* From the rows that the combine brought back to tokens: a temporary. */
static void
unpermute (Pass *p, const Way *way)
{
  if (hands_out_tokens (p))
    return;
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  sc_pass_operation (p, way->permute, SC_OP_PERMUTE, way_bytes (p, way, p->t_sp + p->sent), 0);
  sc_pass_temp (p, -way_bytes (p, way, p->sent));
}

/* From the rows that this rank has to hand out, a temporary that is spent, to those that its experts work on: a temporary, or @last,
 * which is born.  @beside: what runs while they are exchanged. */
static void
rows_to_experts (Pass *p, const Way *way, const Tensor *last, void (*beside) (Pass *p))
{
  const gboolean exchanged = p->plan->ep > 1, gathered = p->plan->etp > 1, sorted = sorts (p);
  double now = hands_out_tokens (p) ? 0 : way_bytes (p, way, p->sent);
  const guint n = exchanged + gathered + sorted;
  gboolean named = TRUE; /* what was permuted, and what the exchange brought */
  for (guint i = 0, left = n; i < 3; i++)
    {
      const gboolean here = i == 0 ? exchanged : i == 1 ? gathered : sorted;
      if (!here)
        continue;
      const double next = way_bytes (p, way, i == 0 ? brought (p) : p->rows);
      left--;
      if (left == 0 && last != NULL)
        sc_pass_born (p, *last);
      else
        sc_pass_temp (p, next);
      if (i == 0)
        {
          start_exchange (p, way, beside != NULL ? SC_ITEM_COLLECTIVE_START : SC_ITEM_COLLECTIVE);
          if (beside != NULL)
            {
              beside (p);
              sc_pass_wait (p, SC_COMM_EP);
            }
        }
      else if (i == 1)
        sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_ETP, SC_COLL_ALL_GATHER, way->gather, next);
      else
        sort_rows (p, way);
      let_go (p, named, now);
      named = i == 0;
      now = next;
    }
  if (n == 0 && last != NULL) /* what was permuted is what the experts take */
    {
      sc_pass_born (p, *last);
      sc_pass_temp (p, -now);
    }
}

/* Back again: from a temporary of the experts' rows to one of those that this rank handed out. */
static void
rows_from_experts (Pass *p, const Way *way, void (*beside) (Pass *p))
{
  if (sorts (p))
    {
      sc_pass_temp (p, row_bytes (p, hands_out_tokens (p) ? brought (p) : p->rows));
      sort_rows (p, way);
      sc_pass_temp (p, -row_bytes (p, p->rows));
    }
  if (p->plan->etp > 1)
    {
      sc_pass_temp (p, row_bytes (p, p->arrived));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_ETP, SC_COLL_REDUCE_SCATTER, way->scatter, row_bytes (p, p->rows));
      sc_pass_temp (p, -row_bytes (p, p->rows));
    }
  if (p->plan->ep == 1)
    return;
  sc_pass_temp (p, hands_out_tokens (p) ? sc_pass_rows_bytes (p) : row_bytes (p, p->sent));
  start_exchange (p, way, beside != NULL ? SC_ITEM_COLLECTIVE_START : SC_ITEM_COLLECTIVE);
  if (beside != NULL)
    {
      beside (p);
      sc_pass_wait (p, SC_COMM_EP);
    }
  let_go (p, TRUE, row_bytes (p, brought (p)));
}

/* ---- the router ---- */

/* Scores in fp32, the largest of them, their probabilities, and which expert has which tokens. */
static void
router_forward (Pass *p)
{
  const double scores = (double) p->model->experts * p->t_sp;
  const ScPrecision *const narrow = sc_pass_wide (p);
  sc_pass_born (p, ROUTER_OUT);
  sc_pass_gemm (p, linear_router.fprop, SC_GEMM_TN, p->t_sp, p->model->experts, p->h);
  sc_pass_reduction (p, "router choice", (p->e + 16) * scores + 8.0 * p->model->top_k * p->t_sp);
  p->precision = narrow;
}

/* From the gradients of the probabilities to that of the norm's output: a temporary.  The small weight gradient is not
 * put off. */
static void
router_backward (Pass *p)
{
  const double scores = (double) p->model->experts * p->t_sp;
  const ScPrecision *const narrow = sc_pass_wide (p);
  sc_pass_temp (p, p->e * scores);
  sc_pass_reduction (p, "router choice backward", (p->e + 12) * scores);
  sc_pass_spent (p, ROUTER_OUT);
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  sc_pass_gemm (p, linear_router.dgrad, SC_GEMM_NN, p->t_sp, p->h, p->model->experts);
  sc_pass_weight_gradient_over (p, &linear_router, p->model->experts, p->h, p->t_sp);
  sc_pass_temp (p, -p->e * scores);
  p->precision = narrow;
}

/* ---- the experts ---- */

/* Times the probabilities, one for each row. */
static void
activation_forward (Pass *p)
{
  const double in = p->model->gated_mlp ? 2 : 1, b = p->e * p->f_e * p->rows;
  sc_pass_born (p, MOE_FC2_IN);
  if (!p->fw->fused_gelu)
    {
      sc_pass_elementwise (p, p->model->gated_mlp ? "experts silu" : "experts gelu", 2 * b);
      if (p->model->gated_mlp)
        sc_pass_elementwise (p, "experts gate", 3 * b);
      sc_pass_elementwise (p, "experts probabilities", 2 * b + 4 * p->rows);
      return;
    }
  sc_pass_operation (p, "experts activation", p->model->gated_mlp ? SC_OP_SWIGLU : SC_OP_GELU, (in + 1) * b + 4 * p->rows, 0);
}

static void
activation_backward (Pass *p)
{
  const double in = p->model->gated_mlp ? 2 : 1, b = p->e * p->f_e * p->rows;
  if (!p->fw->fused_gelu)
    sc_pass_elementwise (p, "experts probabilities backward", 3 * b + 8 * p->rows);
  if (p->fw->fused_gelu || !p->model->gated_mlp)
    {
      sc_pass_operation (p, "experts activation backward", p->model->gated_mlp ? SC_OP_SWIGLU_BACKWARD : SC_OP_GELU_BACKWARD,
                         (1 + 2 * in) * b + (p->fw->fused_gelu ? 8 * p->rows : 0), 0);
      return;
    }
  sc_pass_elementwise (p, "experts gate backward", 5 * b);
  sc_pass_elementwise (p, "experts silu backward", 3 * b);
}

static void
experts_up_forward (Pass *p)
{
  if (casts_on_arrival (p))
    sc_pass_born (p, MOE_IN);
  cast_at_experts (p);
  if (casts_on_arrival (p))
    sc_pass_temp (p, -row_bytes (p, p->rows));
  cast_experts_weights (p, fc1_width (p), p->h);
  sc_pass_born (p, MOE_FC1_OUT);
  grouped (p, grouped_fc1.fprop, SC_GEMM_TN, fc1_width (p), p->h);
  sc_pass_used (p, MOE_IN);
  grouped_bias (p, grouped_fc1.bias, fc1_width (p));
  activation_forward (p);
  sc_pass_used (p, MOE_FC1_OUT);
}

/* Leaves the rows of the experts, a temporary. */
static void
experts_down_forward (Pass *p)
{
  sc_pass_cast_input (p, TRUE, p->f_e * p->rows);
  cast_experts_weights (p, p->h, p->f_e);
  sc_pass_temp (p, row_bytes (p, p->rows));
  grouped (p, grouped_fc2.fprop, SC_GEMM_TN, p->h, p->f_e);
  sc_pass_used (p, MOE_FC2_IN);
  grouped_bias (p, grouped_fc2.bias, p->h);
}

/* From the gradient of the experts' rows, a temporary that is spent on weights, to that of what they took: a temporary. */
static void
experts_backward (Pass *p)
{
  const double in = p->model->gated_mlp ? 2 : 1, b = p->e * p->f_e * p->rows;
  const gboolean whole = p->part == PART_WHOLE;
  if (sc_pass_repeats (p, SC_MODULE_MOE_ACT) && !sc_pass_repeats (p, SC_MODULE_MOE))
    {
      p->time = SC_TIME_RECOMPUTE;
      activation_forward (p);
      sc_pass_cast_again (p, TRUE, p->f_e * p->rows);
      p->time = SC_TIME_BACKWARD;
    }
  /* by rows and by columns, of which the first may have come so */
  const double copies = sc_pass_copies (p, p->h * p->rows) - (p->plan->moe_fp8_dispatch ? sc_pass_operand_bytes (p) * p->h * p->rows : 0);
  sc_pass_temp (p, copies);
  cast_at_experts (p);
  cast_experts_weights (p, p->h, p->f_e);
  sc_pass_temp (p, b);
  grouped (p, grouped_fc2.dgrad, SC_GEMM_NN, p->h, p->f_e);
  if (whole)
    grouped_weight_gradient (p, &grouped_fc2, p->h, p->f_e);
  sc_pass_temp (p, -copies);
  sc_pass_temp_of_weights (p, -way_bytes (p, &combine_back, p->rows));
  sc_pass_spent_on_weights (p, MOE_FC2_IN);
  sc_pass_temp (p, in * b);
  activation_backward (p);
  sc_pass_temp (p, -b);
  sc_pass_spent (p, MOE_FC1_OUT);
  sc_pass_temp (p, sc_pass_copies (p, fc1_width (p) * p->rows));
  sc_pass_cast (p, "cast of gradient", fc1_width (p) * p->rows);
  cast_experts_weights (p, fc1_width (p), p->h);
  sc_pass_temp (p, row_bytes (p, p->rows));
  grouped (p, grouped_fc1.dgrad, SC_GEMM_NN, fc1_width (p), p->h);
  if (whole)
    grouped_weight_gradient (p, &grouped_fc1, fc1_width (p), p->h);
  sc_pass_temp (p, -sc_pass_copies (p, fc1_width (p) * p->rows));
  sc_pass_temp_of_weights (p, -in * b);
  sc_pass_spent_on_weights (p, MOE_IN);
}

/* ---- the half ---- */

/* A number for each token that what the shared experts say is taken times of (Qwen2-MoE). */
static void
gate_shared (Pass *p)
{
  if (!p->model->shared_gate)
    return;
  sc_pass_born (p, SHARED_OUT);
  sc_pass_reduction (p, "shared gate score", sc_pass_rows_bytes (p)); /* a row of weights times each token */
  sc_pass_elementwise (p, "shared gate", 2 * sc_pass_rows_bytes (p));
  sc_pass_used (p, SHARED_OUT);
}

/* Beside the exchanges Megatron's SharedExpertMLP gathers and sums by itself. */
static gboolean
shared_without_buffers (Pass *p)
{
  const gboolean before = p->buffers;
  p->buffers = before && !p->plan->moe_shared_overlap;
  return before;
}

static void
shared_up_forward (Pass *p)
{
  const gboolean buffers = shared_without_buffers (p);
  sc_pass_mlp_up_forward (p);
  p->buffers = buffers;
}

static void
shared_down_forward (Pass *p)
{
  const gboolean buffers = shared_without_buffers (p);
  sc_pass_mlp_down_forward (p);
  p->buffers = buffers;
  gate_shared (p);
}

/* Leaves what goes into the shared experts, a temporary: the output gradient itself is the routed ones' and the residual's, too.
 * Autograd multiplies it once by the gate and once by the output, of which it takes sums by token; these times the gate's weights are
 * added to the input's gradient, times the input they are the weights' gradient. */
static void
shared_gate_backward (Pass *p)
{
  const double b = sc_pass_rows_bytes (p);
  sc_pass_temp (p, b);
  sc_pass_elementwise (p, "shared gate backward", 5 * b);
  sc_pass_reduction (p, "shared gate score backward", b);
  sc_pass_elementwise (p, "shared gate dgrad", 3 * b);
  sc_pass_reduction (p, "shared gate wgrad", b);
}

static void
shared_down_backward (Pass *p)
{
  if (p->model->shared_gate)
    shared_gate_backward (p);
  sc_pass_spent (p, SHARED_OUT);
  const gboolean buffers = shared_without_buffers (p);
  sc_pass_mlp_down_backward (p);
  p->buffers = buffers;
  if (p->model->shared_gate)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

static void
shared_up_backward (Pass *p)
{
  const gboolean buffers = shared_without_buffers (p);
  sc_pass_mlp_up_backward (p);
  p->buffers = buffers;
}

static void
add_shared (Pass *p, const char *name)
{
  sc_pass_operation (p, name, SC_OP_ADD, 3 * sc_pass_rows_bytes (p), 0);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

void
sc_pass_shared_again (Pass *p, gboolean to_end)
{
  shared_up_forward (p);
  if (!to_end && !p->model->shared_gate) /* whose backward needs what it multiplied */
    return;
  shared_down_forward (p);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

void
sc_pass_moe_forward (Pass *p, gboolean to_end)
{
  static const Tensor moe_in = MOE_IN;
  const gboolean beside = overlaps_shared (p), before = has_shared (p) && !beside, gate = has_shared (p) && p->model->shared_gate;
  if (before)
    shared_up_forward (p);
  if (before && (to_end || gate))
    shared_down_forward (p);
  router_forward (p);
  count_rows (p);
  if (waits_to_permute (p))
    host_reads_rows (p);
  cast_before_exchange (p);
  permute (p, &dispatch);
  if (!waits_to_permute (p))
    host_reads_rows (p);
  rows_to_experts (p, &dispatch, casts_on_arrival (p) ? NULL : &moe_in, beside ? shared_up_forward : NULL);
  sc_pass_used (p, NORM2_OUT);
  experts_up_forward (p);
  if (!to_end && !gate)
    {
      forget_names (p);
      return;
    }
  experts_down_forward (p);
  rows_from_experts (p, &combine, beside ? shared_down_forward : NULL);
  unpermute (p, &combine);
  sc_pass_used (p, ROUTER_OUT);
  if (has_shared (p))
    add_shared (p, "shared experts add");
  forget_names (p);
  if (!to_end)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

void
sc_pass_moe_backward (Pass *p)
{
  const gboolean beside = overlaps_shared (p), after = has_shared (p) && !beside;
  cast_before_exchange (p);
  permute (p, &combine_back);
  if (!has_shared (p) && !hands_out_tokens (p))
    sc_pass_residual_done (p);
  rows_to_experts (p, &combine_back, NULL, beside ? shared_down_backward : NULL);
  if (!has_shared (p) && hands_out_tokens (p))
    sc_pass_residual_done (p);
  experts_backward (p);
  rows_from_experts (p, &dispatch_back, beside ? shared_up_backward : NULL);
  unpermute (p, &dispatch_back);
  router_backward (p);
  sc_pass_operation (p, "expert gradients add", SC_OP_ADD, 3 * sc_pass_rows_bytes (p), 0);
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
  if (after)
    {
      shared_down_backward (p);
      shared_up_backward (p);
    }
  if (has_shared (p))
    {
      add_shared (p, "shared experts gradient add");
      sc_pass_spent_on_weights (p, NORM2_OUT);
    }
  else
    sc_pass_spent (p, NORM2_OUT);
}

void
sc_pass_moe_weights (Pass *p)
{
  grouped_weight_gradient (p, &grouped_fc2, p->h, p->f_e);
  sc_pass_temp (p, -way_bytes (p, &combine_back, p->rows));
  sc_pass_spent (p, MOE_FC2_IN);
  grouped_weight_gradient (p, &grouped_fc1, fc1_width (p), p->h);
  sc_pass_temp (p, -p->e * fc1_width (p) * p->rows);
  sc_pass_spent (p, MOE_IN);
  const gboolean buffers = shared_without_buffers (p);
  if (has_shared (p))
    sc_pass_mlp_weights (p);
  p->buffers = buffers;
}
