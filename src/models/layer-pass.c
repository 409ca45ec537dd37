/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-pass.c - the sizes of a pass, what it saves, and the items that it writes. */
#include <math.h>
#include "models/layer-pass.h"
#include "models/experts.h"

Pass
sc_pass_new (const ScLayerShape *shape, GArray *items, ScTimeKind time)
{
  const ScModel *model = shape->model;
  const ScPlan *plan = shape->plan;
  const guint heads = model->heads / plan->tp;
  const guint kv_heads = MAX (model->kv_heads / plan->tp, 1); /* replicated where tp exceeds them */
  const guint v_dim = model->mla.kv_lora_rank > 0 ? model->mla.v_head_dim : model->head_dim;
  Pass p = {
    .shape = shape,
    .model = model,
    .plan = plan,
    .fw = shape->framework,
    .items = items,
    .time = time,
    .precision = plan->precision,
    .e = shape->act_bytes,
    .h = model->hidden,
    .t = shape->tokens,
    .t_sp = shape->tokens_sp,
    .q = (double) heads * model->head_dim,
    .kv = (double) kv_heads * model->head_dim,
    .v = (double) kv_heads * v_dim,
    .o = (double) heads * v_dim,
    .f = (double) (shape->kind.experts ? model->shared_experts * model->expert_ffn : model->ffn) / plan->tp,
    .scores = shape->tokens * shape->seq * heads,
    .grad = sc_dtype_bytes (plan->grad_dtype),
    .heads = heads,
    .kv_heads = kv_heads,
    .split = plan->tp > 1,
    .sp = plan->tp > 1 && plan->sequence_parallel,
    .buffers = plan->tp > 1 && plan->sequence_parallel && plan->tp_overlap,
    .keeps_gathered = plan->tp > 1 && plan->sequence_parallel && shape->framework->gather_buffers,
  };
  if (shape->kind.experts)
    {
      g_autoptr (ScExpertRows) routing = sc_expert_rows_new (model, plan, (guint64) shape->tokens_sp, shape->kind.routing);
      p.f_e = (double) model->expert_ffn / plan->etp;
      p.sent = (double) routing->sent;
      p.arrived = (double) routing->arrived;
      p.rows = (double) routing->total;
    }
  return p;
}

/* Outputs of products one, five and (where a third matrix makes it the seventh) the last, Q, one FFN branch and the down
 * projection, of V apart; and of the reduce-scatters behind attention and MLP (torchtitan's list of operators to save). */
static double
ops_kept_bytes (const Pass *p, Tensor tensor)
{
  if (!p->shape->kind.recompute.ops)
    return 0;
  const double down = p->model->gated_mlp ? p->e * p->h * p->t : 0;
  return tensor == OPS_QUERIES ? p->e * p->q * p->t : tensor == OPS_BRANCH ? p->e * p->f * p->t : down + (p->sp ? 2 * p->e * p->h * p->t_sp : 0);
}

/* By columns, in the type of the product. */
double
sc_pass_kept_bytes (const Pass *p)
{
  return p->fw->fp8_keeps_wide ? p->e : sc_pass_operand_bytes (p);
}

/* Bytes of an element that is kept cast beside what it was cast from. */
static double
narrow_copy (const Pass *p)
{
  return p->precision != NULL && !p->fw->fp8_keeps_wide ? p->precision->cast_bytes : 0;
}

/* Latents come from two linear layers, each of which casts the norm's output and keeps its own. */
static gboolean
two_of_norm1 (const Pass *p)
{
  return p->model->mla.kv_lora_rank > 0 && narrow_copy (p) > 0;
}

const char *
sc_tensor_name (guint8 tensor)
{
  static const char *const names[] = {
    "",
    [NORM1_IN + 1] = "layer input",
    [NORM1_STATS + 1] = "norm 1 statistics",
    [NORM1_OUT + 1] = "norm 1 output",
    [Q_LATENT + 1] = "query latent",
    [Q_LATENT_OUT + 1] = "query latent, normed",
    [KV_LATENT + 1] = "key-value latent",
    [KV_LATENT_OUT + 1] = "key-value latent, normed",
    [QK_NORM_IN + 1] = "Q, K before their norm",
    [QK + 1] = "Q, K",
    [V + 1] = "V",
    [SOFTMAX_OUT + 1] = "attention probabilities",
    [ATTENTION_MASK + 1] = "attention dropout mask",
    [ATTENTION_DROPPED + 1] = "attention probabilities, dropped",
    [FLASH_LSE + 1] = "attention log-sum-exp",
    [PROJ_IN + 1] = "attention output",
    [HEADS_OUT + 1] = "attention output before its all-to-all",
    [PROJ_NARROW + 1] = "attention output, cast",
    [PROJ_MASK + 1] = "projection dropout mask",
    [POST1_IN + 1] = "input of the norm behind attention",
    [POST1_STATS + 1] = "statistics of the norm behind attention",
    [NORM2_IN + 1] = "norm 2 input",
    [NORM2_STATS + 1] = "norm 2 statistics",
    [NORM2_OUT + 1] = "norm 2 output",
    [ROUTER_OUT + 1] = "router output",
    [MOE_IN + 1] = "rows of experts",
    [MOE_FC1_OUT + 1] = "fc1 output of experts",
    [MOE_FC2_IN + 1] = "fc2 input of experts",
    [FC1_OUT + 1] = "fc1 output",
    [GATE_OUT + 1] = "gate, activated",
    [FC2_IN + 1] = "fc2 input",
    [SHARED_OUT + 1] = "output of shared experts",
    [MLP_MASK + 1] = "mlp dropout mask",
    [POST2_IN + 1] = "input of the norm behind the mlp",
    [POST2_STATS + 1] = "statistics of the norm behind the mlp",
    [OPS_QUERIES + 1] = "kept output of the query product",
    [OPS_BRANCH + 1] = "kept output of a branch of fc1",
    [OPS_REST + 1] = "kept outputs of other operators",
    [TOKEN_IDS + 1] = "token ids",
    [WAY_IN + 1] = "embedding rows",
    [EMBEDDING_NORM_IN + 1] = "embedding norm input",
    [EMBEDDING_MASK + 1] = "embedding dropout mask",
    [FINAL_NORM_IN + 1] = "final norm input",
    [FINAL_NORM_STATS + 1] = "final norm statistics",
    [WAY_OUT_IN + 1] = "final norm output",
    [LOGITS_IN + 1] = "input of the logits",
    [MTP_IN + 1] = "inputs of further prediction",
    [MTP_STATS + 1] = "norm statistics of further prediction",
    [MTP_NORMED + 1] = "inputs of further prediction, normed",
    [LOGITS + 1] = "logits",
    [LOGITS_FP32 + 1] = "logits in fp32, then their softmax",
    [LOG_SOFTMAX + 1] = "log-softmax of the logits",
    [LOGITS_GRADIENT + 1] = "gradient of the logits",
    [LOGITS_CHOICE + 1] = "gradient of the loss's choice",
    [LOGITS_GRADIENT_FP32 + 1] = "gradient of the logits in fp32",
  };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == N_NAMES + 1);
  g_return_val_if_fail (tensor < G_N_ELEMENTS (names), "");
  return names[tensor];
}

static gboolean
pairs_keys (const Pass *p)
{
  return p->fw->copies_qkv && p->model->mla.kv_lora_rank == 0;
}

/* Rows of several sequences side by side are copied for the projection, and kept so where autograd does; the group's own function keeps them as they are. */
static gboolean
copies_rows (const Pass *p)
{
  return p->fw->copies_qkv && !p->split && p->plan->micro_batch > 1 && p->plan->attention == SC_ATTENTION_FLASH;
}

double
sc_pass_tensor_bytes (const Pass *p, Tensor tensor)
{
  const ScMla *const mla = &p->model->mla;
  const gboolean dropout = p->model->dropout > 0;
  const gboolean unfused = p->plan->attention == SC_ATTENTION_UNFUSED, post_norms = p->model->layer_norms > 2;
  /* reciprocal deviation in fp32; the GPT table of MODELLING 3.4 leaves LayerNorm's 8 bytes a token out */
  const double stats = p->model->norm == SC_NORM_RMSNORM ? 4 * p->t_sp : 0;
  switch (tensor)
    {
    case NORM1_IN:
      return sc_pass_rows_bytes (p);
    case NORM1_OUT: /* a norm that both halves share has its output until both are done */
      return p->model->layer_norms == 1 ? 0 : sc_pass_kept_bytes (p) * (two_of_norm1 (p) ? 2 : 1) * p->h * p->t_sp;
    case NORM2_IN:
      return p->model->parallel_attention ? 0 : sc_pass_rows_bytes (p);
    case NORM2_OUT: /* which a router reads as it is */
      return (p->shape->kind.experts ? p->e + (p->model->shared_experts > 0 ? narrow_copy (p) : 0) : sc_pass_kept_bytes (p)) * p->h * p->t_sp;
    case POST1_IN:
    case POST2_IN:
      return post_norms ? sc_pass_rows_bytes (p) : 0;
    case NORM1_STATS:
      return stats;
    case NORM2_STATS:
      return p->model->layer_norms == 1 ? 0 : stats;
    case POST1_STATS:
    case POST2_STATS:
      return post_norms ? stats : 0;
    case Q_LATENT: /* MODELLING 3.5, and what the fused norm and product keeps between the two (its ln_out) */
      return p->e * mla->q_lora_rank * p->t_sp;
    case Q_LATENT_OUT:
      return sc_pass_kept_bytes (p) * mla->q_lora_rank * p->t_sp;
    case KV_LATENT:
      return mla->kv_lora_rank > 0 ? p->e * (mla->kv_lora_rank + mla->qk_rope_head_dim) * p->t_sp : 0;
    case KV_LATENT_OUT:
      return sc_pass_kept_bytes (p) * mla->kv_lora_rank * p->t_sp;
    case QK_NORM_IN:
      return p->model->qk_norm ? p->e * (p->q + p->kv) * p->t : 0;
    case QK: /* or Q alone, or the copy of all that it is a view of, where ... */
      return p->e * (p->q + (!pairs_keys (p) ? p->kv : p->heads == p->kv_heads ? 2 * p->kv : 0)) * p->t;
    case V: /* ... K and V are one */
      return p->e * (p->v + (pairs_keys (p) ? p->kv : 0)) * p->t;
    case SOFTMAX_OUT:
      return unfused ? p->e * p->scores : 0;
    case ATTENTION_MASK:
      return unfused && dropout ? p->scores : 0;
    case ATTENTION_DROPPED:
      return unfused && dropout ? p->e * p->scores : 0;
    case FLASH_LSE:
      return unfused ? 0 : 4.0 * p->heads * p->t;
    case PROJ_IN:
      return p->e * (copies_rows (p) ? 2 : 1) * p->o * p->t;
    case HEADS_OUT:
      return p->plan->cp > 1 && p->plan->cp_comm == SC_CP_A2A && p->fw->a2a_keeps_output ? p->e * p->o * p->t : 0;
    case PROJ_NARROW:
      return p->precision != NULL && p->precision->keeps_projection ? narrow_copy (p) * p->o * p->t : 0;
    case PROJ_MASK:
    case MLP_MASK:
      return dropout ? p->h * p->t_sp : 0;
    case ROUTER_OUT: /* MODELLING 3.5: logits and probabilities in fp32, of the chosen ones probability and number */
      return p->shape->kind.experts ? (4.0 * p->model->experts + 8.0 * p->model->top_k) * p->t_sp : 0;
    case MOE_IN:
      return sc_pass_kept_bytes (p) * p->h * p->rows;
    case MOE_FC1_OUT:
      return (p->model->gated_mlp ? 2 : 1) * p->e * p->f_e * p->rows;
    case MOE_FC2_IN:
      return sc_pass_kept_bytes (p) * p->f_e * p->rows;
    case SHARED_OUT:
      return p->shape->kind.experts && p->model->shared_gate && p->model->shared_experts > 0 ? sc_pass_rows_bytes (p) : 0;
    case FC1_OUT:
      return (p->model->gated_mlp ? 2 : 1) * p->e * p->f * p->t;
    case GATE_OUT:
      return p->fw->keeps_silu && p->model->gated_mlp ? p->e * p->f * p->t : 0;
    case FC2_IN:
      return sc_pass_kept_bytes (p) * p->f * p->t;
    case OPS_QUERIES:
    case OPS_BRANCH:
    case OPS_REST:
      return ops_kept_bytes (p, tensor);
    case N_TENSORS:
      break;
    }
  g_return_val_if_reached (0);
}

#define BIT(tensor) (G_GUINT64_CONSTANT (1) << (tensor))
G_STATIC_ASSERT (N_TENSORS <= 64);

#define SHARED_BITS (BIT (FC1_OUT) | BIT (GATE_OUT) | BIT (FC2_IN) | BIT (SHARED_OUT))

/* What backward need not find where it repeats a part of the layer, with experts or without. */
static const guint64 dropped_by[SC_N_MODULES][2] = {
#define ALWAYS(bits) { (bits), (bits) }
  [SC_MODULE_CORE_ATTN] = ALWAYS (BIT (SOFTMAX_OUT) | BIT (ATTENTION_MASK) | BIT (ATTENTION_DROPPED) | BIT (FLASH_LSE) | BIT (HEADS_OUT)),
  [SC_MODULE_LAYERNORM] = ALWAYS (BIT (NORM1_OUT) | BIT (NORM1_STATS) | BIT (NORM2_OUT) | BIT (NORM2_STATS)),
  [SC_MODULE_MLP_ACT] = { BIT (GATE_OUT) | BIT (FC2_IN), 0 },
  [SC_MODULE_MLP] = { BIT (FC1_OUT) | BIT (GATE_OUT) | BIT (FC2_IN), 0 },
  [SC_MODULE_MOE_ACT] = { 0, BIT (MOE_FC2_IN) },
  [SC_MODULE_SHARED_EXPERTS] = { 0, SHARED_BITS },
  [SC_MODULE_MOE] = { 0, BIT (ROUTER_OUT) | BIT (MOE_IN) | BIT (MOE_FC1_OUT) | BIT (MOE_FC2_IN) | SHARED_BITS },
  [SC_MODULE_MLA_UP_PROJ] = ALWAYS (BIT (QK) | BIT (V) | BIT (Q_LATENT_OUT) | BIT (KV_LATENT_OUT)),
};

/* Operator by operator: the layer's input, outputs of fused attention and of every second product, of which V is one. */
static const guint64 kept_of_ops = BIT (NORM1_IN) | BIT (V) | BIT (FLASH_LSE) | BIT (PROJ_IN) | BIT (OPS_QUERIES) | BIT (OPS_BRANCH) | BIT (OPS_REST);

gboolean
sc_pass_tensor_saved (Tensor tensor, const ScLayerKind *kind)
{
  const ScLayerRecompute *const recompute = &kind->recompute;
  if (recompute->full)
    return tensor == NORM1_IN && recompute->first;
  if (recompute->ops)
    return (kept_of_ops & BIT (tensor)) != 0;
  for (guint i = 0; i < SC_N_MODULES; i++)
    if ((recompute->modules & 1u << i) != 0 && (dropped_by[i][kind->experts] & BIT (tensor)) != 0)
      return FALSE;
  return TRUE;
}

gboolean
sc_pass_repeats (const Pass *p, ScModule module)
{
  return (p->shape->kind.recompute.modules & 1u << module) != 0;
}

static void
put_tensor (Pass *p, ScMemKind kind, double bytes, guint8 tensor)
{
  const gint64 n = (gint64) llround (bytes);
  const ScItem item = { .kind = SC_ITEM_MEM, .time = p->time, .mem = kind, .mem_bytes = n, .tensor = tensor };
  if (n != 0)
    g_array_append_val (p->items, item);
}

void
sc_pass_mem (Pass *p, ScMemKind kind, double bytes)
{
  put_tensor (p, kind, bytes, 0);
}

void
sc_pass_end_tensor (Pass *p, EndTensor tensor, double bytes)
{
  put_tensor (p, tensor >= LOGITS ? SC_MEM_LOGITS : SC_MEM_ACTIVATIONS, bytes, (guint8) (tensor + 1));
}

void
sc_pass_temp (Pass *p, double bytes)
{
  sc_pass_mem (p, SC_MEM_TRANSIENT, bytes);
}

void
sc_pass_temp_sent (Pass *p, double bytes)
{
  const guint before = p->items->len;
  sc_pass_temp (p, -bytes);
  if (p->items->len > before)
    g_array_index (p->items, ScItem, before).sent = TRUE;
}

/* A tensor is born before the kernel that writes it.  What this pass does not keep is a temporary. */
void
sc_pass_born (Pass *p, Tensor tensor)
{
  if (!p->known[tensor])
    put_tensor (p, p->keeps[tensor] ? SC_MEM_ACTIVATIONS : SC_MEM_TRANSIENT, sc_pass_tensor_bytes (p, tensor), (guint8) (tensor + 1));
}

/* Forward has no more use for it. */
void
sc_pass_used (Pass *p, Tensor tensor)
{
  if (!p->keeps[tensor])
    put_tensor (p, SC_MEM_TRANSIENT, -sc_pass_tensor_bytes (p, tensor), (guint8) (tensor + 1));
}

/* Backward has no more use for it. */
void
sc_pass_spent (Pass *p, Tensor tensor)
{
  put_tensor (p, SC_MEM_ACTIVATIONS, -sc_pass_tensor_bytes (p, tensor), (guint8) (tensor + 1));
}

/* Only the weight gradient has a use for it: it stays where that comes later. */
void
sc_pass_spent_on_weights (Pass *p, Tensor tensor)
{
  if (p->part != PART_INPUT)
    sc_pass_spent (p, tensor);
}

void
sc_pass_temp_of_weights (Pass *p, double bytes)
{
  if (p->part != PART_INPUT)
    sc_pass_temp (p, bytes);
}

void
sc_pass_kernel (Pass *p, ScKernel k)
{
  const ScItem item = { .kind = SC_ITEM_KERNEL, .time = p->time, .kernel = k };
  g_array_append_val (p->items, item);
}

static void
memory_kernel (Pass *p, ScKernel k)
{
  k.dtype = p->plan->dtype;
  sc_pass_kernel (p, k);
}

void
sc_pass_elementwise (Pass *p, const char *name, double bytes)
{
  memory_kernel (p, sc_kernel_memory (name, SC_KERNEL_ELEMENTWISE, bytes));
}

void
sc_pass_reduction (Pass *p, const char *name, double bytes)
{
  memory_kernel (p, sc_kernel_memory (name, SC_KERNEL_REDUCTION, bytes));
}

/* A memory-bound kernel that may have been measured as such; @row: elements that one norm or softmax covers, else 0. */
void
sc_pass_operation (Pass *p, const char *name, ScMemoryOp op, double bytes, guint row)
{
  ScKernel k = sc_kernel_op (name, op, bytes);
  k.row = row;
  memory_kernel (p, k);
}

ScDtype
sc_pass_gemm_dtype (const Pass *p)
{
  return p->precision != NULL ? p->precision->gemm : p->plan->dtype;
}

double
sc_pass_operand_bytes (const Pass *p)
{
  return p->precision != NULL ? p->precision->cast_bytes : p->e;
}

void
sc_pass_linear_kernel (Pass *p, ScKernel k)
{
  if (p->precision != NULL)
    k.slow = 1 / p->precision->gemm_rate;
  sc_pass_kernel (p, k);
}

void
sc_pass_cast (Pass *p, const char *name, double elements)
{
  if (p->precision != NULL)
    sc_pass_operation (p, name, SC_OP_QUANTISE, sc_precision_cast_traffic (p->precision, p->e) * elements, 0);
}

const ScPrecision *
sc_pass_wide (Pass *p)
{
  const ScPrecision *const before = p->precision;
  p->precision = NULL;
  return before;
}

void
sc_pass_gemm (Pass *p, const char *name, ScGemmLayout layout, double m, double n, double k)
{
  ScKernel product = sc_kernel_gemm (name, sc_pass_gemm_dtype (p), (guint64) m, (guint64) n, (guint64) k);
  product.layout = layout;
  sc_pass_linear_kernel (p, product);
}

void
sc_pass_collective (Pass *p, ScItemKind kind, ScCommKind comm, ScCollKind coll, const char *name, double bytes)
{
  const ScItem item = { .kind = kind, .time = p->time, .comm = comm, .coll = coll, .name = name, .bytes = bytes };
  g_array_append_val (p->items, item);
}

void
sc_pass_wait (Pass *p, ScCommKind comm)
{
  const ScItem item = { .kind = SC_ITEM_COLLECTIVE_WAIT, .time = p->time, .comm = comm };
  g_array_append_val (p->items, item);
}

void
sc_pass_host (Pass *p, ScItemKind kind)
{
  const ScItem item = { .kind = kind, .time = p->time };
  g_array_append_val (p->items, item);
}

/* Bytes of a hidden-wide tensor over all tokens, and of this rank's rows of it. */
double
sc_pass_full_bytes (const Pass *p)
{
  return p->e * p->h * p->t;
}

double
sc_pass_rows_bytes (const Pass *p)
{
  return p->e * p->h * p->t_sp;
}
