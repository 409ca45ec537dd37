/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer.c - kernels, collectives and allocations of one layer, of embedding, head and optimizer. */
#include <math.h>
#include "models/layer.h"
#include "models/model.h"

/* Tensors that one layer saves from forward to backward (MODELLING 3.4, 3.5), in order of birth. */
typedef enum
{
  NORM1_IN, /* the layer's input: taken over from whoever produced it */
  NORM1_STATS,
  NORM1_OUT,
  QK_NORM_IN,
  QK, /* Q and K after rotation */
  V,
  SOFTMAX_OUT,    /* unfused attention */
  ATTENTION_MASK, /* ... with dropout */
  ATTENTION_DROPPED,
  FLASH_LSE, /* flash attention: log-sum-exp */
  PROJ_IN,   /* attention output */
  PROJ_MASK,
  NORM2_IN,
  NORM2_STATS,
  NORM2_OUT,
  FC1_OUT, /* input of GELU, or of SwiGLU: both branches */
  FC2_IN,
  MLP_MASK,
  N_TENSORS
} Tensor;

/* A linear layer and how its parts are called in traces. */
typedef struct
{
  const char *fprop, *dgrad, *wgrad, *add, *bias_grad;
  const char *gather;   /* all-gather of the input (column) or of the output gradient (row) */
  const char *regather; /* column: the saved input once more, for wgrad */
  const char *reduce;   /* of the output (row) or of the input gradient (column) */
} Linear;

static const Linear linear_qkv = {
  "qkv",
  "qkv dgrad",
  "qkv wgrad",
  "qkv gradient add",
  "qkv bias gradient",
  "qkv all-gather",
  "qkv input all-gather",
  "qkv gradient reduce",
};
static const Linear linear_proj = {
  "projection",
  "projection dgrad",
  "projection wgrad",
  "projection gradient add",
  "projection bias gradient",
  "projection gradient all-gather",
  NULL,
  "projection reduce",
};
static const Linear linear_fc1 = {
  "fc1",
  "fc1 dgrad",
  "fc1 wgrad",
  "fc1 gradient add",
  "fc1 bias gradient",
  "fc1 all-gather",
  "fc1 input all-gather",
  "fc1 gradient reduce",
};
static const Linear linear_fc2 = {
  "fc2", "fc2 dgrad",  "fc2 wgrad", "fc2 gradient add", "fc2 bias gradient", "fc2 gradient all-gather",
  NULL,  "fc2 reduce",
};
static const Linear linear_head = {
  "logits",
  "logits dgrad",
  "logits wgrad",
  "logits gradient add",
  NULL,
  "logits all-gather",
  "logits input all-gather",
  "logits gradient reduce",
};

/* How much of a backward pass: all of it, or one of the parts that zero-bubble schedules move apart (Qi et al., arXiv
 * 2401.10241, section 2): what hands a gradient on to the layer before, or what makes gradients of weights. */
typedef enum
{
  PART_WHOLE,
  PART_INPUT,
  PART_WEIGHT,
} Part;

/* A pass that writes items, with the sizes that its formulas use. */
typedef struct
{
  const ScLayerShape *shape;
  const ScModel *model;
  const ScPlan *plan;
  const ScFramework *fw;
  GArray *items;
  guint first; /* item of this pass */
  ScTimeKind time;
  Part part;
  gboolean keeps[N_TENSORS]; /* what this pass leaves for a backward */

  double e;      /* bytes of an element */
  double h;      /* hidden */
  double t;      /* T: tokens of the micro-batch */
  double t_sp;   /* rows of the norms: T, or T / tp */
  double q, kv;  /* widths of this rank's Q, and of its K (or V) */
  double f;      /* width of this rank's FFN branch */
  double scores; /* elements of this rank's score matrices */
  double grad;   /* bytes of an element of the gradient buffer */
  guint heads;   /* of this rank */
  guint kv_heads;
  gboolean split; /* tp > 1 */
  gboolean sp;    /* ... and sequence parallel */
} Pass;

ScLayerShape
sc_layer_shape (const ScWorkload *workload)
{
  const ScPlan *plan = &workload->plan;
  const double tokens = (double) plan->micro_batch * workload->seq / plan->cp;
  return (ScLayerShape){
    .model = &workload->model,
    .plan = plan,
    .framework = workload->framework,
    .seq = workload->seq,
    .tokens = tokens,
    .tokens_sp = plan->sequence_parallel ? tokens / plan->tp : tokens,
    .act_bytes = sc_dtype_bytes (plan->dtype),
  };
}

static Pass
pass_new (const ScLayerShape *shape, GArray *items, ScTimeKind time)
{
  const ScModel *model = shape->model;
  const ScPlan *plan = shape->plan;
  const guint heads = model->heads / plan->tp;
  const guint kv_heads = MAX (model->kv_heads / plan->tp, 1); /* replicated where tp exceeds them */
  return (Pass){
    .shape = shape,
    .model = model,
    .plan = plan,
    .fw = shape->framework,
    .items = items,
    .first = items != NULL ? items->len : 0,
    .time = time,
    .e = shape->act_bytes,
    .h = model->hidden,
    .t = shape->tokens,
    .t_sp = shape->tokens_sp,
    .q = (double) heads * model->head_dim,
    .kv = (double) kv_heads * model->head_dim,
    .f = (double) model->ffn / plan->tp,
    .scores = shape->tokens * shape->seq * heads,
    .grad = sc_dtype_bytes (plan->grad_dtype),
    .heads = heads,
    .kv_heads = kv_heads,
    .split = plan->tp > 1,
    .sp = plan->tp > 1 && plan->sequence_parallel,
  };
}

/* --- saved tensors --- */

static double
tensor_bytes (const Pass *p, Tensor tensor)
{
  const gboolean dropout = p->model->dropout > 0;
  const gboolean unfused = p->plan->attention == SC_ATTENTION_UNFUSED;
  switch (tensor)
    {
    case NORM1_IN:
    case NORM1_OUT:
    case NORM2_IN:
    case NORM2_OUT:
      return p->e * p->h * p->t_sp;
    case NORM1_STATS:
    case NORM2_STATS:
      /* reciprocal deviation in fp32; the GPT table of MODELLING 3.4 leaves LayerNorm's 8 bytes a token out */
      return p->model->norm == SC_NORM_RMSNORM ? 4 * p->t_sp : 0;
    case QK_NORM_IN:
      return p->model->qk_norm ? p->e * (p->q + p->kv) * p->t : 0;
    case QK:
      return p->e * (p->q + p->kv) * p->t;
    case V:
      return p->e * p->kv * p->t;
    case SOFTMAX_OUT:
      return unfused ? p->e * p->scores : 0;
    case ATTENTION_MASK:
      return unfused && dropout ? p->scores : 0;
    case ATTENTION_DROPPED:
      return unfused && dropout ? p->e * p->scores : 0;
    case FLASH_LSE:
      return unfused ? 0 : 4.0 * p->heads * p->t;
    case PROJ_IN:
      return p->e * p->q * p->t;
    case PROJ_MASK:
    case MLP_MASK:
      return dropout ? p->h * p->t_sp : 0;
    case FC1_OUT:
      return (p->model->gated_mlp ? 2 : 1) * p->e * p->f * p->t;
    case FC2_IN:
      return p->e * p->f * p->t;
    case N_TENSORS:
      break;
    }
  g_return_val_if_reached (0);
}

/* Inside the attention core, which selective recompute repeats. */
static gboolean
tensor_in_core (Tensor tensor)
{
  return tensor == SOFTMAX_OUT || tensor == ATTENTION_MASK || tensor == ATTENTION_DROPPED || tensor == FLASH_LSE;
}

static gboolean
tensor_saved (Tensor tensor, ScRecompute recompute)
{
  switch (recompute)
    {
    case SC_RECOMPUTE_NONE:
      return TRUE;
    case SC_RECOMPUTE_SELECTIVE:
      return !tensor_in_core (tensor);
    case SC_RECOMPUTE_FULL:
      return tensor == NORM1_IN;
    }
  g_return_val_if_reached (TRUE);
}

double
sc_layer_saved_bytes (const ScLayerShape *shape)
{
  const Pass p = pass_new (shape, NULL, SC_TIME_FORWARD);
  double bytes = 0;
  for (guint i = 0; i < N_TENSORS; i++)
    if (tensor_saved ((Tensor) i, shape->plan->recompute))
      bytes += tensor_bytes (&p, (Tensor) i);
  return bytes;
}

double
sc_boundary_bytes (const ScLayerShape *shape)
{
  const double rows = shape->plan->scatter_gather ? shape->tokens / shape->plan->tp : shape->tokens_sp;
  return shape->act_bytes * rows * shape->model->hidden;
}

/* --- writing items --- */

/* Allocates (> 0) or frees (< 0).  Neighbours of one kind and direction become one item. */
static void
mem (Pass *p, ScMemKind kind, double bytes)
{
  const gint64 n = (gint64) llround (bytes);
  if (n == 0)
    return;
  if (p->items->len > p->first)
    {
      ScItem *last = &g_array_index (p->items, ScItem, p->items->len - 1);
      if (last->kind == SC_ITEM_MEM && last->mem == kind && (last->mem_bytes > 0) == (n > 0))
        {
          last->mem_bytes += n;
          return;
        }
    }
  const ScItem item = { .kind = SC_ITEM_MEM, .time = p->time, .mem = kind, .mem_bytes = n };
  g_array_append_val (p->items, item);
}

static void
temp (Pass *p, double bytes)
{
  mem (p, SC_MEM_TRANSIENT, bytes);
}

/* A tensor is born before the kernel that writes it.  What this pass does not keep is a temporary. */
static void
born (Pass *p, Tensor tensor)
{
  mem (p, p->keeps[tensor] ? SC_MEM_ACTIVATIONS : SC_MEM_TRANSIENT, tensor_bytes (p, tensor));
}

/* Forward has no more use for it. */
static void
used (Pass *p, Tensor tensor)
{
  if (!p->keeps[tensor])
    mem (p, SC_MEM_TRANSIENT, -tensor_bytes (p, tensor));
}

/* Backward has no more use for it. */
static void
spent (Pass *p, Tensor tensor)
{
  mem (p, SC_MEM_ACTIVATIONS, -tensor_bytes (p, tensor));
}

/* Only the weight gradient has a use for it: it stays where that comes later. */
static void
spent_on_weights (Pass *p, Tensor tensor)
{
  if (p->part != PART_INPUT)
    spent (p, tensor);
}

static void
temp_of_weights (Pass *p, double bytes)
{
  if (p->part != PART_INPUT)
    temp (p, bytes);
}

static void
kernel (Pass *p, ScKernel k)
{
  k.dtype = p->plan->dtype;
  const ScItem item = { .kind = SC_ITEM_KERNEL, .time = p->time, .kernel = k };
  g_array_append_val (p->items, item);
}

static void
elementwise (Pass *p, const char *name, double bytes)
{
  kernel (p, sc_kernel_memory (name, SC_KERNEL_ELEMENTWISE, bytes));
}

static void
reduction (Pass *p, const char *name, double bytes)
{
  kernel (p, sc_kernel_memory (name, SC_KERNEL_REDUCTION, bytes));
}

/* A memory-bound kernel that may have been measured as such; @row: elements that one norm or softmax covers, else 0. */
static void
operation (Pass *p, const char *name, ScMemoryOp op, double bytes, guint row)
{
  ScKernel k = sc_kernel_op (name, op, bytes);
  k.row = row;
  kernel (p, k);
}

static void
gemm (Pass *p, const char *name, ScGemmLayout layout, double m, double n, double k)
{
  ScKernel product = sc_kernel_gemm (name, p->plan->dtype, (guint64) m, (guint64) n, (guint64) k);
  product.layout = layout;
  kernel (p, product);
}

/* One product per sequence and head of this rank. */
static void
core_gemm (Pass *p, const char *name, guint64 m, guint64 n, guint64 k)
{
  const guint64 batch = (guint64) (p->t / p->shape->seq * p->heads);
  kernel (p, sc_kernel_batched_gemm (name, p->plan->dtype, MAX (batch, 1), m, n, k));
}

static void
collective (Pass *p, ScItemKind kind, ScCollKind coll, const char *name, double bytes)
{
  const ScItem item = { .kind = kind, .time = p->time, .coll = coll, .name = name, .bytes = bytes };
  g_array_append_val (p->items, item);
}

static void
wait (Pass *p)
{
  const ScItem item = { .kind = SC_ITEM_COLLECTIVE_WAIT, .time = p->time };
  g_array_append_val (p->items, item);
}

/* Bytes of a hidden-wide tensor over all tokens, and of this rank's rows of it. */
static double
full_bytes (const Pass *p)
{
  return p->e * p->h * p->t;
}

static double
rows_bytes (const Pass *p)
{
  return p->e * p->h * p->t_sp;
}

/* --- linear layers --- */

/* Y[T, n_out] = X W: with sequence parallelism the rows of X are gathered first.  The output is the caller's. */
static void
column_forward (Pass *p, const Linear *l, double n_out)
{
  if (p->sp)
    {
      temp (p, full_bytes (p));
      collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_GATHER, l->gather, full_bytes (p));
    }
  gemm (p, l->fprop, SC_GEMM_TN, p->t, n_out, p->h);
  if (p->sp)
    temp (p, -full_bytes (p));
}

/* Y[T, h] = X[T, n_in] W, summed over the ranks; leaves a temporary of rows_bytes(). */
static void
row_forward (Pass *p, const Linear *l, double n_in)
{
  temp (p, full_bytes (p));
  gemm (p, l->fprop, SC_GEMM_TN, p->t, p->h, n_in);
  if (!p->split)
    return;
  if (!p->sp)
    {
      collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_REDUCE, l->reduce, full_bytes (p));
      return;
    }
  temp (p, rows_bytes (p));
  collective (p, SC_ITEM_COLLECTIVE, SC_COLL_REDUCE_SCATTER, l->reduce, full_bytes (p));
  temp (p, -full_bytes (p));
}

static void
weight_gradient (Pass *p, const Linear *l, double n_out, double n_in)
{
  const guint64 m = (guint64) n_out, n = (guint64) n_in, k = (guint64) p->t;
  if (p->fw->fused_wgrad)
    {
      kernel (p, sc_kernel_gemm_accumulate (l->wgrad, p->plan->dtype, p->plan->grad_dtype, m, n, k));
      return;
    }
  temp (p, p->e * n_out * n_in);
  gemm (p, l->wgrad, SC_GEMM_NT, n_out, n_in, p->t);
  elementwise (p, l->add, (p->e + 2 * p->grad) * n_out * n_in);
  temp (p, -p->e * n_out * n_in);
}

/* From dY[T, n_out], which is the caller's, to dX: leaves a temporary of rows_bytes(). */
static void
column_backward (Pass *p, const Linear *l, double n_out)
{
  const gboolean async = p->split && p->fw->async_tp_backward;
  const ScItemKind kind = async ? SC_ITEM_COLLECTIVE_START : SC_ITEM_COLLECTIVE;
  if (p->part == PART_INPUT) /* nothing is left that its collective could run beside */
    {
      temp (p, full_bytes (p));
      gemm (p, l->dgrad, SC_GEMM_NN, p->t, p->h, n_out);
      if (p->sp)
        temp (p, rows_bytes (p));
      if (p->split)
        collective (p, SC_ITEM_COLLECTIVE, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full_bytes (p));
      if (p->sp)
        temp (p, -full_bytes (p));
      return;
    }
  if (p->sp)
    {
      temp (p, full_bytes (p)); /* the input's rows, gathered again for the weight gradient */
      collective (p, kind, SC_COLL_ALL_GATHER, l->regather, full_bytes (p));
    }
  temp (p, full_bytes (p));
  gemm (p, l->dgrad, SC_GEMM_NN, p->t, p->h, n_out);
  if (p->sp && async)
    wait (p);
  if (p->sp)
    temp (p, rows_bytes (p));
  if (async)
    collective (p, kind, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full_bytes (p));
  weight_gradient (p, l, n_out, p->h);
  if (async)
    wait (p);
  else if (p->split)
    collective (p, kind, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full_bytes (p));
  if (p->sp)
    temp (p, -2 * full_bytes (p));
}

/* The weight gradient alone, of a saved input whose rows are gathered now. */
static void
column_weights (Pass *p, const Linear *l, double n_out)
{
  if (p->sp)
    {
      temp (p, full_bytes (p));
      collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_GATHER, l->regather, full_bytes (p));
    }
  weight_gradient (p, l, n_out, p->h);
  if (p->sp)
    temp (p, -full_bytes (p));
}

/* From dY's rows, which are the caller's, to dX[T, n_in]: leaves a temporary of that size.  Without the weight gradient
 * it leaves the gathered dY, too. */
static void
row_backward (Pass *p, const Linear *l, double n_in)
{
  if (p->sp)
    {
      temp (p, full_bytes (p));
      collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_GATHER, l->gather, full_bytes (p));
    }
  temp (p, p->e * n_in * p->t);
  gemm (p, l->dgrad, SC_GEMM_NN, p->t, n_in, p->h);
  if (p->part == PART_INPUT)
    return;
  weight_gradient (p, l, p->h, n_in);
  if (p->sp)
    temp (p, -full_bytes (p));
}

/* --- norms, residuals, dropout --- */

static void
norm_forward (Pass *p, const char *name)
{
  operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM : SC_OP_LAYERNORM, 2 * rows_bytes (p), p->model->hidden);
}

static void
norm_backward (Pass *p, const char *name)
{
  operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM_BACKWARD : SC_OP_LAYERNORM_BACKWARD, 3 * rows_bytes (p),
             p->model->hidden);
}

/* bias, dropout and residual behind a row-parallel layer */
static void
residual_forward (Pass *p, const char *fused, const char *bias, const char *dropout, const char *add)
{
  const double elements = p->h * p->t_sp;
  const double mask = p->model->dropout > 0 ? 1 : 0;
  if (p->fw->fused_dropout_add)
    {
      operation (p, fused, SC_OP_DROPOUT_ADD, (3 * p->e + mask) * elements, 0);
      return;
    }
  if (p->model->linear_bias)
    elementwise (p, bias, 2 * p->e * elements);
  if (mask > 0)
    elementwise (p, dropout, (2 * p->e + mask) * elements);
  operation (p, add, SC_OP_ADD, 3 * p->e * elements, 0);
}

/* Leaves a temporary of rows_bytes() if there is dropout; else the residual's gradient serves as it is. */
static void
residual_backward (Pass *p, const char *dropout, const char *bias_grad, Tensor mask)
{
  if (p->model->dropout > 0)
    {
      temp (p, rows_bytes (p));
      elementwise (p, dropout, (2 * p->e + 1) * p->h * p->t_sp);
      spent (p, mask);
    }
  if (p->model->linear_bias && p->part == PART_WHOLE)
    reduction (p, bias_grad, rows_bytes (p));
}

/* The temporary that residual_backward() left, now spent, unless it is the output gradient that the weights wait for. */
static void
residual_done (Pass *p)
{
  if (p->model->dropout > 0 && (p->part == PART_WHOLE || p->sp))
    temp (p, -rows_bytes (p));
}

/* The residual's gradient behind the sum that takes its place.  Without dropout and gathered copies it is the output
 * gradient itself that the weights wait for. */
static void
residual_summed (Pass *p)
{
  if (p->model->dropout > 0 || p->part == PART_WHOLE || p->sp)
    temp (p, -rows_bytes (p));
}

/* The weight gradient of a row-parallel layer alone: of the dY over all tokens that was left for it. */
static void
row_weights (Pass *p, const Linear *l, double n_in, Tensor input)
{
  if (p->model->linear_bias)
    reduction (p, l->bias_grad, rows_bytes (p));
  weight_gradient (p, l, p->h, n_in);
  spent (p, input);
  temp (p, -full_bytes (p));
}

/* --- attention --- */

static void
rotary (Pass *p)
{
  const double bytes = p->e * (p->q + p->kv) * p->t;
  if (p->fw->fused_rope)
    {
      operation (p, "rotary", SC_OP_ROPE, 2 * bytes, 0);
      return;
    }
  elementwise (p, "rotary halves", 2 * bytes);
  elementwise (p, "rotary cosine", 2 * bytes);
  elementwise (p, "rotary sine", 2 * bytes);
  elementwise (p, "rotary add", 3 * bytes);
}

/* Of this rank's heads and tokens; a context-parallel rank sees its tokens against the whole sequence. */
static void
flash (Pass *p, const char *name, ScKernelClass class)
{
  const ScAttentionShape shape = {
    .batch = p->plan->micro_batch,
    .seq = p->shape->seq,
    .heads = p->heads,
    .kv_heads = p->kv_heads,
    .head_dim = p->model->head_dim,
    .queries = p->shape->seq / p->plan->cp,
    .causal = TRUE,
  };
  kernel (p, sc_kernel_attention (name, class, p->plan->dtype, &shape));
}

/* Q, K, V to the attention output.  Births: the core's tensors and PROJ_IN, unless it is @repeated. */
static void
core_forward (Pass *p, gboolean repeated)
{
  const guint s = p->shape->seq, d = p->model->head_dim;
  const gboolean dropout = p->model->dropout > 0;
  const double output = tensor_bytes (p, PROJ_IN);
  if (p->plan->attention == SC_ATTENTION_FLASH)
    {
      if (repeated)
        temp (p, output);
      else
        born (p, PROJ_IN);
      born (p, FLASH_LSE);
      flash (p, "attention", SC_KERNEL_FLASH_FORWARD);
      if (repeated)
        temp (p, -output);
      used (p, FLASH_LSE);
      return;
    }

  const double e = p->e * p->scores;
  temp (p, e);
  if (p->model->positions == SC_POSITIONS_ALIBI)
    elementwise (p, "alibi", 2 * e); /* spread into the output, which the product reads back */
  core_gemm (p, "scores", s, s, d);
  if (!p->fw->fused_softmax)
    {
      /* scale, mask, to fp32; softmax in fp32; back */
      temp (p, 4 * p->scores);
      elementwise (p, "scale", 2 * e);
      elementwise (p, "mask", 2 * e);
      operation (p, "scores to fp32", SC_OP_CAST, e + 4 * p->scores, 0);
      operation (p, "softmax", SC_OP_SOFTMAX, 8 * p->scores, s);
      born (p, SOFTMAX_OUT);
      operation (p, "softmax to 16 bits", SC_OP_CAST, e + 4 * p->scores, 0);
      temp (p, -e - 4 * p->scores);
    }
  else
    {
      born (p, SOFTMAX_OUT);
      operation (p, "scale, mask, softmax", SC_OP_SOFTMAX, 2 * e, s);
      temp (p, -e);
    }
  if (dropout)
    {
      born (p, ATTENTION_MASK);
      born (p, ATTENTION_DROPPED);
      elementwise (p, "attention dropout", 2 * e + p->scores);
    }
  temp (p, output);
  core_gemm (p, "values", s, d, s);
  used (p, SOFTMAX_OUT);
  if (dropout)
    {
      used (p, ATTENTION_MASK);
      used (p, ATTENTION_DROPPED);
    }
  if (!repeated)
    born (p, PROJ_IN);
  else
    temp (p, output);
  operation (p, "context transpose", SC_OP_COPY, 2 * output, 0);
  temp (p, repeated ? -2 * output : -output);
}

/* d(attention output), a temporary that it frees, to dQ, dK, dV in one tensor, which is a temporary left behind. */
static void
core_backward (Pass *p)
{
  const guint s = p->shape->seq, d = p->model->head_dim;
  const double output = tensor_bytes (p, PROJ_IN);
  const double parts = p->e * (p->q + 2 * p->kv) * p->t;
  if (p->plan->attention == SC_ATTENTION_FLASH)
    {
      /* dQ adds up in fp32 beside the result */
      temp (p, parts + 4 * p->q * p->t);
      flash (p, "attention backward", SC_KERNEL_FLASH_BACKWARD);
      temp (p, -4 * p->q * p->t);
      spent (p, FLASH_LSE);
      spent_on_weights (p, PROJ_IN);
    }
  else
    {
      const double e = p->e * p->scores;
      spent_on_weights (p, PROJ_IN);
      temp (p, e);
      core_gemm (p, "values dgrad", s, s, d);
      temp (p, p->e * p->q * p->t);
      core_gemm (p, "values wgrad", s, d, s);
      if (p->model->dropout > 0)
        {
          spent (p, ATTENTION_DROPPED);
          temp (p, e);
          elementwise (p, "attention dropout backward", 2 * e + p->scores);
          spent (p, ATTENTION_MASK);
          temp (p, -e);
        }
      operation (p, "softmax backward", SC_OP_SOFTMAX_BACKWARD, 3 * e, s); /* in place */
      if (!p->fw->fused_softmax)
        elementwise (p, "scale and mask backward", 4 * e + 8 * p->scores);
      spent (p, SOFTMAX_OUT);
      temp (p, 2 * p->e * p->q * p->t);
      core_gemm (p, "scores dgrad", s, d, s);
      core_gemm (p, "scores wgrad", s, d, s);
      temp (p, -e);
      temp (p, parts - 3 * p->e * p->q * p->t); /* groups of queries add up into fewer keys and values */
    }
  spent (p, QK);
  spent (p, V);
  temp (p, -output);

  temp (p, parts);
  operation (p, "qkv gradient concatenate", SC_OP_COPY, 2 * parts, 0);
  temp (p, -parts);
}

static void
attention_forward (Pass *p)
{
  const double width = p->q + 2 * p->kv;
  const double parts = p->e * (p->q + p->kv) * p->t;
  /* What stands between the product and the saved Q, K. */
  const gboolean raw = p->model->positions == SC_POSITIONS_ROPE || p->model->qk_norm;
  if (raw)
    {
      if (p->model->qk_norm)
        born (p, QK_NORM_IN);
      else
        temp (p, parts);
    }
  else
    born (p, QK);
  born (p, V);
  column_forward (p, &linear_qkv, width);
  used (p, NORM1_OUT);
  if (!p->fw->fused_bias && (p->model->linear_bias || p->model->qkv_bias))
    elementwise (p, "qkv bias", 2 * p->e * width * p->t);
  if (p->kv_heads > 1 && p->kv_heads < p->heads)
    operation (p, "query copy", SC_OP_COPY, 2 * p->e * p->q * p->t, 0); /* Q's heads stand between their keys and values */
  if (p->model->qk_norm)
    {
      if (p->model->positions == SC_POSITIONS_ROPE)
        temp (p, parts);
      else
        born (p, QK);
      reduction (p, "qk norm", 2 * parts);
      used (p, QK_NORM_IN);
    }
  if (p->model->positions == SC_POSITIONS_ROPE)
    {
      born (p, QK);
      rotary (p);
      temp (p, -parts);
    }
  core_forward (p, FALSE);
  used (p, QK);
  used (p, V);
}

static void
qkv_bias_gradient (Pass *p, double bytes)
{
  if (!p->fw->fused_bias && (p->model->linear_bias || p->model->qkv_bias))
    reduction (p, linear_qkv.bias_grad, bytes);
}

/* From the gradient of the attention output, a temporary that it frees, to that of norm 1's output, left behind. */
static void
attention_backward (Pass *p)
{
  const double width = p->q + 2 * p->kv;
  const double parts = p->e * width * p->t;
  if (p->plan->recompute == SC_RECOMPUTE_SELECTIVE)
    {
      p->time = SC_TIME_RECOMPUTE;
      core_forward (p, TRUE);
      p->time = SC_TIME_BACKWARD;
    }
  core_backward (p);
  if (p->model->positions == SC_POSITIONS_ROPE)
    rotary (p);
  if (p->model->qk_norm)
    {
      reduction (p, "qk norm backward", 3 * p->e * (p->q + p->kv) * p->t);
      spent (p, QK_NORM_IN);
    }
  if (p->part == PART_WHOLE)
    qkv_bias_gradient (p, parts);
  column_backward (p, &linear_qkv, width);
  temp_of_weights (p, -parts);
  spent_on_weights (p, NORM1_OUT);
}

/* --- MLP --- */

static void
activation_forward (Pass *p)
{
  const double b = p->e * p->f * p->t;
  const double in = p->model->gated_mlp ? 2 : 1;
  if (p->fw->fused_gelu)
    {
      operation (p, p->model->gated_mlp ? "swiglu" : "gelu", p->model->gated_mlp ? SC_OP_SWIGLU : SC_OP_GELU, (in + 1) * b, 0);
      return;
    }
  if (p->model->linear_bias && !p->fw->fused_bias)
    elementwise (p, "fc1 bias", 2 * in * b);
  elementwise (p, p->model->gated_mlp ? "silu" : "gelu", 2 * b);
  if (p->model->gated_mlp)
    elementwise (p, "gate", 3 * b);
}

static void
fc1_bias_gradient (Pass *p, double bytes)
{
  if (p->model->linear_bias && !p->fw->fused_bias)
    reduction (p, linear_fc1.bias_grad, bytes);
}

static void
activation_backward (Pass *p)
{
  const double b = p->e * p->f * p->t;
  const double in = p->model->gated_mlp ? 2 : 1;
  if (p->fw->fused_gelu || !p->model->gated_mlp)
    operation (p, p->model->gated_mlp ? "swiglu backward" : "gelu backward", p->model->gated_mlp ? SC_OP_SWIGLU_BACKWARD : SC_OP_GELU_BACKWARD,
               (1 + 2 * in) * b, 0);
  else
    {
      elementwise (p, "gate backward", 5 * b);
      elementwise (p, "silu backward", 3 * b);
    }
  if (p->part == PART_WHOLE)
    fc1_bias_gradient (p, in * b);
}

/* --- one layer --- */

/* All of a layer's forward.  @to_end FALSE: only as far as the last tensor that backward needs. */
static void
layer_body (Pass *p, gboolean to_end)
{
  born (p, NORM1_OUT);
  born (p, NORM1_STATS);
  norm_forward (p, "norm 1");
  used (p, NORM1_STATS);
  attention_forward (p);
  row_forward (p, &linear_proj, p->q);
  used (p, PROJ_IN);
  born (p, NORM2_IN);
  born (p, PROJ_MASK);
  residual_forward (p, "attention residual", "projection bias", "projection dropout", "attention residual");
  used (p, PROJ_MASK);
  temp (p, -rows_bytes (p));

  born (p, NORM2_OUT);
  born (p, NORM2_STATS);
  norm_forward (p, "norm 2");
  used (p, NORM2_STATS);
  born (p, FC1_OUT);
  column_forward (p, &linear_fc1, (p->model->gated_mlp ? 2 : 1) * p->f);
  used (p, NORM2_OUT);
  born (p, FC2_IN);
  activation_forward (p);
  used (p, FC1_OUT);
  if (to_end)
    {
      row_forward (p, &linear_fc2, p->f);
      used (p, FC2_IN);
      born (p, MLP_MASK);
      temp (p, rows_bytes (p)); /* the layer's output */
      residual_forward (p, "mlp residual", "fc2 bias", "mlp dropout", "mlp residual");
      used (p, MLP_MASK);
      temp (p, -rows_bytes (p));
    }
  used (p, NORM2_IN);
  if (to_end)
    temp (p, -rows_bytes (p));
}

void
sc_layer_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_FORWARD);
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = tensor_saved ((Tensor) i, shape->plan->recompute);
  born (&p, NORM1_IN);
  layer_body (&p, TRUE);
}

static void
layer_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  for (guint i = 0; i < N_TENSORS; i++)
    p.keeps[i] = TRUE; /* what is repeated here is spent here */

  temp (&p, rows_bytes (&p)); /* the gradient of the output: taken over */
  if (shape->plan->recompute == SC_RECOMPUTE_FULL)
    {
      p.time = SC_TIME_RECOMPUTE;
      layer_body (&p, !shape->framework->recompute_stops_early || p.model->dropout > 0);
      p.time = SC_TIME_BACKWARD;
    }

  const double fc1_width = (p.model->gated_mlp ? 2 : 1) * p.f;
  residual_backward (&p, "mlp dropout backward", linear_fc2.bias_grad, MLP_MASK);
  row_backward (&p, &linear_fc2, p.f);
  residual_done (&p);
  spent_on_weights (&p, FC2_IN);
  temp (&p, p.e * fc1_width * p.t);
  activation_backward (&p);
  temp (&p, -p.e * p.f * p.t);
  spent (&p, FC1_OUT);
  column_backward (&p, &linear_fc1, fc1_width);
  temp_of_weights (&p, -p.e * fc1_width * p.t);
  spent_on_weights (&p, NORM2_OUT);
  temp (&p, rows_bytes (&p));
  norm_backward (&p, "norm 2 backward");
  temp (&p, -rows_bytes (&p));
  spent (&p, NORM2_IN);
  spent (&p, NORM2_STATS);
  operation (&p, "mlp residual gradient", SC_OP_ADD, 3 * rows_bytes (&p), 0);
  residual_summed (&p);

  residual_backward (&p, "projection dropout backward", linear_proj.bias_grad, PROJ_MASK);
  row_backward (&p, &linear_proj, p.q);
  residual_done (&p);
  attention_backward (&p);
  temp (&p, rows_bytes (&p));
  norm_backward (&p, "norm 1 backward");
  temp (&p, -rows_bytes (&p));
  spent (&p, NORM1_IN);
  spent (&p, NORM1_STATS);
  operation (&p, "attention residual gradient", SC_OP_ADD, 3 * rows_bytes (&p), 0);
  residual_summed (&p);

  temp (&p, -rows_bytes (&p)); /* the gradient of the input: handed on */
}

void
sc_layer_backward (const ScLayerShape *shape, GArray *items)
{
  layer_backward (shape, PART_WHOLE, items);
}

void
sc_layer_backward_input (const ScLayerShape *shape, GArray *items)
{
  layer_backward (shape, PART_INPUT, items);
}

/* What layer_backward() left, in the order in which it left it. */
void
sc_layer_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = PART_WEIGHT;
  const double fc1_width = (p.model->gated_mlp ? 2 : 1) * p.f, qkv_width = p.q + 2 * p.kv;

  row_weights (&p, &linear_fc2, p.f, FC2_IN);
  fc1_bias_gradient (&p, p.e * fc1_width * p.t);
  column_weights (&p, &linear_fc1, fc1_width);
  temp (&p, -p.e * fc1_width * p.t);
  spent (&p, NORM2_OUT);

  row_weights (&p, &linear_proj, p.q, PROJ_IN);
  qkv_bias_gradient (&p, p.e * qkv_width * p.t);
  column_weights (&p, &linear_qkv, qkv_width);
  temp (&p, -p.e * qkv_width * p.t);
  spent (&p, NORM1_OUT);
}

/* --- embedding --- */

static double
vocab_rank (const Pass *p)
{
  return ceil ((double) p->model->vocab / p->plan->tp);
}

/* What the embedding saves: token ids (8 bytes), the norm's input, the dropout mask. */
static double
embedding_saved (const Pass *p)
{
  double bytes = 8 * p->t;
  if (p->model->embedding_norm)
    bytes += rows_bytes (p);
  if (p->model->dropout > 0)
    bytes += p->h * p->t_sp;
  return bytes;
}

void
sc_embedding_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_FORWARD);
  mem (&p, SC_MEM_ACTIVATIONS, embedding_saved (&p));
  temp (&p, full_bytes (&p));
  operation (&p, "embedding", SC_OP_EMBEDDING, 2 * full_bytes (&p), 0);
  if (p.split)
    {
      elementwise (&p, "embedding mask", full_bytes (&p)); /* zeroes the rows of other ranks' tokens */
      if (p.sp)
        temp (&p, rows_bytes (&p));
      collective (&p, SC_ITEM_COLLECTIVE, p.sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, "embedding reduce",
                  full_bytes (&p));
      if (p.sp)
        temp (&p, -full_bytes (&p));
    }
  if (p.model->positions == SC_POSITIONS_LEARNED)
    elementwise (&p, "positions", 3 * rows_bytes (&p));
  if (p.model->embedding_norm)
    norm_forward (&p, "embedding norm");
  if (p.model->dropout > 0)
    elementwise (&p, "embedding dropout", (2 * p.e + 1) * p.h * p.t_sp);
  temp (&p, -rows_bytes (&p)); /* the first layer takes it over */
}

/* From the gradient of the output, taken over, to that of the looked up rows: a temporary of rows_bytes(). */
static void
embedding_input (Pass *p)
{
  temp (p, rows_bytes (p));
  if (p->model->dropout > 0)
    elementwise (p, "embedding dropout backward", (2 * p->e + 1) * p->h * p->t_sp);
  if (p->model->embedding_norm)
    norm_backward (p, "embedding norm backward");
}

/* From there to the gradients of the tables. */
static void
embedding_weights (Pass *p)
{
  const double table = vocab_rank (p) * p->h;
  if (p->model->positions == SC_POSITIONS_LEARNED)
    reduction (p, "positions gradient", rows_bytes (p));
  if (p->sp)
    {
      temp (p, full_bytes (p));
      collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_GATHER, "embedding gradient all-gather", full_bytes (p));
    }
  /* autograd makes a dense gradient of the table: zeroed, then one row added per token, then added to the buffer */
  temp (p, p->e * table);
  elementwise (p, "embedding gradient zero", p->e * table);
  operation (p, "embedding gradient", SC_OP_EMBEDDING_BACKWARD, full_bytes (p) + 8 * p->h * p->t, 0);
  elementwise (p, "embedding gradient add", (p->e + 2 * p->grad) * table);
  temp (p, -p->e * table);
  if (p->sp)
    temp (p, -full_bytes (p));
  temp (p, -rows_bytes (p));
}

void
sc_embedding_backward (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  embedding_weights (&p);
  mem (&p, SC_MEM_ACTIVATIONS, -embedding_saved (&p));
}

void
sc_embedding_backward_input (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  mem (&p, SC_MEM_ACTIVATIONS, 8 * p.t - embedding_saved (&p)); /* but for the ids */
}

void
sc_embedding_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_weights (&p);
  mem (&p, SC_MEM_ACTIVATIONS, -8 * p.t);
}

/* --- head --- */

static double
head_saved (const Pass *p)
{
  return 2 * rows_bytes (p) + tensor_bytes (p, NORM1_STATS); /* input and output of the final norm */
}

static void
loss_reduce (Pass *p, const char *name)
{
  if (p->split)
    collective (p, SC_ITEM_COLLECTIVE, SC_COLL_ALL_REDUCE, name, 4 * p->t);
}

void
sc_head_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_FORWARD);
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  mem (&p, SC_MEM_ACTIVATIONS, head_saved (&p));
  norm_forward (&p, "final norm");
  mem (&p, SC_MEM_LOGITS, p.e * n);
  column_forward (&p, &linear_head, width);

  /* Cross entropy over a split vocabulary works on an fp32 copy, which becomes the softmax that backward needs. */
  mem (&p, SC_MEM_LOGITS, 4 * n);
  if (p.fw->fused_loss)
    {
      reduction (&p, "loss: to fp32, maximum", (p.e + 4) * n);
      mem (&p, SC_MEM_LOGITS, -p.e * n);
      loss_reduce (&p, "loss maximum");
      reduction (&p, "loss: exponentials, sum", 8 * n);
      loss_reduce (&p, "loss sums");
      elementwise (&p, "loss: softmax", 8 * n);
      return;
    }
  operation (&p, "loss: to fp32", SC_OP_CAST, (p.e + 4) * n, 0);
  mem (&p, SC_MEM_LOGITS, -p.e * n);
  reduction (&p, "loss: maximum", 4 * n);
  loss_reduce (&p, "loss maximum");
  elementwise (&p, "loss: subtract", 8 * n);
  loss_reduce (&p, "loss targets");
  elementwise (&p, "loss: exponentials", 8 * n);
  reduction (&p, "loss: sum", 4 * n);
  loss_reduce (&p, "loss sum");
  elementwise (&p, "loss: softmax", 8 * n);
}

static void
head_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  mem (&p, SC_MEM_LOGITS, p.e * n);
  if (p.fw->fused_loss)
    elementwise (&p, "loss backward", (4 + p.e) * n);
  else
    {
      elementwise (&p, "loss backward", 8 * n); /* in place: times the gradient of the loss */
      operation (&p, "loss: gradient to 16 bits", SC_OP_CAST, (4 + p.e) * n, 0);
    }
  mem (&p, SC_MEM_LOGITS, -4 * n);
  column_backward (&p, &linear_head, width);
  if (part == PART_WHOLE)
    mem (&p, SC_MEM_LOGITS, -p.e * n);
  temp (&p, rows_bytes (&p));
  norm_backward (&p, "final norm backward");
  temp (&p, -2 * rows_bytes (&p)); /* the norm's output gradient; its input gradient is handed on */
  mem (&p, SC_MEM_ACTIVATIONS, (part == PART_WHOLE ? 0 : rows_bytes (&p)) - head_saved (&p)); /* the output of the norm stays */
}

void
sc_head_backward (const ScLayerShape *shape, GArray *items)
{
  head_backward (shape, PART_WHOLE, items);
}

void
sc_head_backward_input (const ScLayerShape *shape, GArray *items)
{
  head_backward (shape, PART_INPUT, items);
}

void
sc_head_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = PART_WEIGHT;
  const double width = vocab_rank (&p);
  column_weights (&p, &linear_head, width);
  mem (&p, SC_MEM_LOGITS, -p.e * p.t * width);
  mem (&p, SC_MEM_ACTIVATIONS, -rows_bytes (&p));
}

/* --- optimizer --- */

/* Adam, fused: reads gradient, master weight and two moments in fp32, writes the three and the 16-bit weight
 * (MODELLING 4.5); of fp32 weights there is no copy. */
static double
adam_bytes (ScDtype dtype)
{
  return dtype == SC_DTYPE_FP32 ? 28 : 30;
}

void
sc_optimizer_step (const ScLayerShape *shape, double held, double owned, GArray *items)
{
  Pass p = pass_new (shape, items, SC_TIME_OPTIMIZER);
  const double norm = 4, adam = adam_bytes (p.plan->dtype);
  const double rest = p.fw->optimizer_bytes_per_param - norm - adam;
  operation (&p, "gradient norm", SC_OP_GRADIENT_NORM, norm * owned, 0);
  if (rest > 0)
    kernel (&p, sc_kernel_memory ("unscale and clip", SC_KERNEL_OPTIMIZER, rest * owned));
  operation (&p, "adam", SC_OP_ADAM, adam * owned, 0);
  if (p.fw->fp32_main_grads)
    elementwise (&p, "zero gradients", p.grad * held);
}
