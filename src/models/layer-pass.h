/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-pass.h - what the files that write a layer's items share; nobody else includes it.
 * Layer: models.  A Pass appends to one list; each function below appends what one part of a layer executes. */
#pragma once
#include "models/layer.h"
#include "models/precision.h"

/* Tensors that one layer saves from forward to backward (MODELLING 3.4, 3.5), in order of birth. */
typedef enum
{
  NORM1_IN, /* the layer's input: taken over from whoever produced it */
  NORM1_STATS,
  NORM1_OUT,
  Q_LATENT, /* of latent attention: before and behind their norms */
  Q_LATENT_OUT,
  KV_LATENT, /* ... with the part of the keys that has positions */
  KV_LATENT_OUT,
  QK_NORM_IN,
  QK, /* Q and K after rotation */
  V,
  SOFTMAX_OUT,    /* unfused attention */
  ATTENTION_MASK, /* ... with dropout */
  ATTENTION_DROPPED,
  FLASH_LSE, /* flash attention: log-sum-exp */
  PROJ_IN,   /* attention output */
  HEADS_OUT,   /* ... of a part of the heads for all of the sequence, before they are exchanged for tokens */
  PROJ_NARROW, /* the same cast for the projection, where that is kept as well */
  PROJ_MASK,
  POST1_IN, /* attention's output, where a norm stands behind it too */
  POST1_STATS,
  NORM2_IN,
  NORM2_STATS,
  NORM2_OUT,
  ROUTER_OUT, /* logits, probabilities, the experts of each token */
  MOE_IN,     /* rows of the experts of this rank */
  MOE_FC1_OUT,
  MOE_FC2_IN,
  FC1_OUT, /* input of GELU, or of SwiGLU: both branches; of the MLP, or of the shared experts */
  GATE_OUT, /* SwiGLU's first branch behind its SiLU, where the product saves it */
  FC2_IN,
  SHARED_OUT, /* of shared experts, where a gate multiplies it */
  MLP_MASK,
  POST2_IN, /* the MLP's */
  POST2_STATS,
  OPS_QUERIES, /* recompute by operator: outputs that are kept of what is else computed again: of Q's product, */
  OPS_BRANCH,  /* of one branch's, */
  OPS_REST,    /* and of what backward does not read */
  N_TENSORS
} Tensor;

/* Tensors of what stands before and behind the layers, named by themselves. */
typedef enum
{
  TOKEN_IDS = N_TENSORS,
  WAY_IN, /* rows of a table of another width */
  EMBEDDING_NORM_IN,
  EMBEDDING_MASK,
  FINAL_NORM_IN,
  FINAL_NORM_STATS,
  WAY_OUT_IN,
  LOGITS_IN,
  MTP_IN,     /* of a module that predicts further tokens: both inputs, ... */
  MTP_STATS,
  MTP_NORMED, /* ... normed */
  LOGITS,      /* in the data type of activations */
  LOGITS_FP32, /* or their softmax, in its place */
  LOG_SOFTMAX,
  LOGITS_GRADIENT,
  LOGITS_CHOICE, /* gradient of the choice of the target */
  LOGITS_GRADIENT_FP32,
  N_NAMES
} EndTensor;

/* The halves of a layer, each with its residual: what stands behind a half hangs on which of them it is. */
typedef enum
{
  ATTENTION_HALF,
  MLP_HALF,
} Half;

/* How much of a backward pass: all of it, or one of the parts that zero-bubble schedules move apart (Qi et al., arXiv
 * 2401.10241, section 2): what hands a gradient on to the layer before, or what makes gradients of weights. */
typedef enum
{
  PART_WHOLE,
  PART_INPUT,
  PART_WEIGHT,
} Part;

/* A linear layer and how its parts are called in traces. */
typedef struct
{
  const char *fprop, *dgrad, *wgrad, *add, *bias_grad;
  const char *gather;   /* all-gather of the input (column) or of the output gradient (row) */
  const char *regather; /* column: the saved input once more, for wgrad */
  const char *reduce;   /* of the output (row) or of the input gradient (column) */
} Linear;

/* A pass that writes items, with the sizes that its formulas use. */
typedef struct
{
  const ScLayerShape *shape;
  const ScModel *model;
  const ScPlan *plan;
  const ScFramework *fw;
  GArray *items;
  ScTimeKind time;
  Part part;
  Half half; /* that is being written */
  gboolean keeps[N_TENSORS]; /* what this pass leaves for a backward */
  gboolean known[N_TENSORS]; /* a repeated forward: what the first one left, which is not born again */
  gboolean ops;              /* ... and of operators only those whose output was not kept */

  const ScPrecision *precision; /* of the linear layers; NULL: as everything else */
  double e;      /* bytes of an element */
  double h;      /* hidden */
  double t;      /* T: tokens of the micro-batch */
  double t_sp;   /* rows of the norms: T, or T / tp */
  double q, kv;  /* widths of this rank's Q and of its K ... */
  double v, o;   /* ... of its V and of the attention output */
  double f;      /* width of this rank's FFN branch: of the MLP, or of the shared experts */
  double f_e;    /* ... of an expert's */
  double sent;   /* rows that this rank hands to the dispatch, */
  double arrived; /* that the dispatch brings it, */
  double rows;   /* and that its experts work on: of its whole ETP group */
  double scores; /* elements of this rank's score matrices */
  double grad;   /* bytes of an element of the gradient buffer */
  guint heads;   /* of this rank */
  guint kv_heads;
  double held[3]; /* bytes of rows that a layer with experts has a name for ... */
  guint n_held;   /* ... until its forward ends */
  gboolean split; /* tp > 1 */
  gboolean sp;    /* ... and sequence parallel */
  gboolean keeps_gathered; /* ... and what is gathered lies in a buffer that is always there (lower-kept.c) */
  gboolean buffers; /* ... and what follows has its collectives in user buffers (plan.tp_overlap) */
} Pass;

/* layer-pass.c: sizes, saved tensors, writing items */
Pass     sc_pass_new (const ScLayerShape *shape, GArray *items, ScTimeKind time);
double   sc_pass_tensor_bytes (const Pass *p, Tensor tensor);
gboolean sc_pass_tensor_saved (Tensor tensor, const ScLayerKind *kind);
gboolean sc_pass_repeats (const Pass *p, ScModule module); /* does backward compute that part of the layer again? */
double   sc_pass_full_bytes (const Pass *p); /* of a hidden-wide tensor over all tokens ... */
double   sc_pass_rows_bytes (const Pass *p); /* ... and of this rank's rows of it */

void sc_pass_mem (Pass *p, ScMemKind kind, double bytes); /* allocates (> 0) or frees (< 0) */
void sc_pass_temp (Pass *p, double bytes);
void sc_pass_temp_sent (Pass *p, double bytes); /* frees what a collective that the host does not wait for has read */
void sc_pass_end_tensor (Pass *p, EndTensor tensor, double bytes); /* born, or gone: < 0 */
void sc_pass_born (Pass *p, Tensor tensor);  /* before the kernel that writes it; what the pass does not keep is a temporary */
void sc_pass_used (Pass *p, Tensor tensor);  /* forward has no more use for it */
void sc_pass_spent (Pass *p, Tensor tensor); /* backward has no more use for it */
void sc_pass_spent_on_weights (Pass *p, Tensor tensor); /* only the weight gradient has a use for it: it stays where that comes later */
void sc_pass_temp_of_weights (Pass *p, double bytes);

void sc_pass_kernel (Pass *p, ScKernel k);
void sc_pass_elementwise (Pass *p, const char *name, double bytes);
void sc_pass_reduction (Pass *p, const char *name, double bytes);
void sc_pass_operation (Pass *p, const char *name, ScMemoryOp op, double bytes, guint row); /* one that may have been measured as such; @row: elements that one norm or softmax covers, else 0 */
ScDtype sc_pass_gemm_dtype (const Pass *p);                         /* of a linear layer's products ... */
double  sc_pass_operand_bytes (const Pass *p);                       /* ... and bytes of an element of what they read */
void sc_pass_linear_kernel (Pass *p, ScKernel k);                    /* one of those products */
void sc_pass_cast (Pass *p, const char *name, double elements);      /* to that type, in all layouts; nothing where it is no other */
double  sc_pass_copies (const Pass *p, double elements);             /* bytes of a gradient cast for the products, 0 where they read it as it is */
double  sc_pass_kept_bytes (const Pass *p); /* of an element of a linear layer's input that waits for its weight gradient */
void sc_pass_transpose (Pass *p, const char *name, double elements); /* of what was gathered by rows, for products that read it by columns */
void sc_pass_cast_input (Pass *p, gboolean fused, double elements); /* of a linear layer, unless what wrote it did that (@fused) */
void sc_pass_cast_again (Pass *p, gboolean fused, double elements); /* the same of a repeated input that backward alone reads */
void sc_pass_cast_weight (Pass *p, double elements);                /* before a product, where no copy is at hand */
void sc_pass_cast_kept (Pass *p, gboolean wide, double elements);   /* an input before its weight gradient, where (@wide: here) it was not kept cast */
const ScPrecision *sc_pass_wide (Pass *p);                          /* what follows is in plan.dtype, until p->precision is what this returned */
void sc_pass_gemm (Pass *p, const char *name, ScGemmLayout layout, double m, double n, double k);
void sc_pass_collective (Pass *p, ScItemKind kind, ScCommKind comm, ScCollKind coll, const char *name, double bytes);
void sc_pass_wait (Pass *p, ScCommKind comm);
void sc_pass_host (Pass *p, ScItemKind kind); /* SC_ITEM_HOST_* */

/* layer-linear.c: linear layers split over the TP group, norms, what stands behind a row-parallel layer */
/* Column-parallel: of the norm's output, hidden wide, or, with _from, of something @n_in wide that is split along the sequence the same way. */
void sc_pass_column_forward (Pass *p, const Linear *l, double n_out);
void sc_pass_column_backward (Pass *p, const Linear *l, double n_out);
void sc_pass_column_weights (Pass *p, const Linear *l, double n_out);
void sc_pass_column_forward_from (Pass *p, const Linear *l, double n_in, double n_out);
void sc_pass_column_backward_from (Pass *p, const Linear *l, double n_in, double n_out);
void sc_pass_column_weights_from (Pass *p, const Linear *l, double n_in, double n_out);
void sc_pass_row_forward (Pass *p, const Linear *l, double n_in);
void sc_pass_row_backward (Pass *p, const Linear *l, double n_in);
void sc_pass_row_weights (Pass *p, const Linear *l, double n_in, Tensor input);
gboolean sc_pass_adds_gradients (const Pass *p);
void sc_pass_gradient (Pass *p, double bytes); /* one that is added to the buffer's, born or added */
void sc_pass_weight_gradient (Pass *p, const Linear *l, double n_out, double n_in);
void sc_pass_weight_gradient_over (Pass *p, const Linear *l, double n_out, double n_in, double rows); /* of @rows tokens, not of all */
void sc_pass_norm_forward (Pass *p, const char *name);
void sc_pass_norm_backward (Pass *p, const char *name);
void sc_pass_residual_forward (Pass *p);
void sc_pass_residual_backward (Pass *p);
void sc_pass_residual_done (Pass *p);
void sc_pass_residual_summed (Pass *p);

/* Biases, by what the model says of all linear layers or of parts. */
gboolean sc_pass_has_qkv_bias (const Pass *p);
gboolean sc_pass_has_row_bias (const Pass *p); /* of the row-parallel product at the end of the half */
gboolean sc_pass_has_mlp_bias (const Pass *p);

/* layer-overlap.c: products in chunks beside their collectives, with plan.tp_overlap and sequence parallelism.  What is gathered, or is to be
 * summed, lies in user buffers then.  @width: of the rows that are gathered. */
gboolean sc_pass_overlaps (const Pass *p);
void sc_pass_in_buffers (Pass *p); /* the collective that was written last */
void sc_pass_gathered_gemm (Pass *p, const char *gather, const char *name, ScGemmLayout layout, double n, double k, double width);
void sc_pass_reduced_gemm (Pass *p, const char *reduce, const char *name, ScGemmLayout layout, double n, double k);

/* layer-attention.c: the core's kernel, of this rank's heads over whole sequences, or of @shape */
ScAttentionShape sc_pass_attention_shape (const Pass *p);
void sc_pass_flash (Pass *p, const char *name, ScKernelClass class, const ScAttentionShape *shape);

/* layer-context.c: the core of ranks that have parts of each sequence: what stands between Q, K, V and the output, or between its gradient
 * and theirs; tensors are the caller's. */
void sc_pass_context_forward (Pass *p);
void sc_pass_context_backward (Pass *p);

/* layer-attention.c, layer-mlp.c: the two halves of a layer, between norm and residual.
 * Forward takes the norm's output (a tensor of the pass) to a temporary of sc_pass_rows_bytes(), the sum over the TP group.
 * Backward takes the gradient of that, which sc_pass_residual_backward() left, to the gradient of the norm's output, a temporary
 * of sc_pass_rows_bytes(); its own weight gradients are in it unless the pass is PART_INPUT: then sc_pass_*_weights() brings
 * them, and spends what was left for them. */
void sc_pass_attention_forward (Pass *p);
void sc_pass_attention_backward (Pass *p);
void sc_pass_attention_weights (Pass *p);
/* The core, Q, K and V to the attention output: backward spends a temporary, the gradient of that output, and leaves those of Q, K and V. */
void sc_pass_core_forward (Pass *p, gboolean repeated); /* @repeated: the output is there already */
void sc_pass_core_backward (Pass *p);
void sc_pass_projection_forward (Pass *p); /* the core's output to the sum over the TP group ... */
void sc_pass_projection_backward (Pass *p); /* ... and its gradient back, a temporary */
void sc_pass_projection_weights (Pass *p);

/* layer-mla.c: the attention half with latents, under the same contract. */
void sc_pass_mla_forward (Pass *p);
void sc_pass_mla_backward (Pass *p);
void sc_pass_mla_weights (Pass *p);
void sc_pass_mlp_forward (Pass *p, gboolean to_end); /* @to_end FALSE: only as far as the last tensor that backward needs; nothing is left */
void sc_pass_mlp_backward (Pass *p);
void sc_pass_mlp_weights (Pass *p);

/* The same, cut where the activation's input or output is: of shared experts, which run beside the exchanges of routed ones. */
void sc_pass_mlp_up_forward (Pass *p);    /* norm's output to FC2_IN */
void sc_pass_mlp_down_forward (Pass *p);  /* FC2_IN to the sum */
void sc_pass_mlp_down_backward (Pass *p); /* the output gradient to that of FC1_OUT, a temporary */
void sc_pass_mlp_up_backward (Pass *p);   /* that one to the gradient of the norm's output; the norm's output is not spent */

/* layer-moe.c: the MLP half of a layer with experts, under the same contract. */
void sc_pass_moe_forward (Pass *p, gboolean to_end);
void sc_pass_moe_backward (Pass *p);
void sc_pass_moe_weights (Pass *p);
void sc_pass_shared_again (Pass *p, gboolean to_end); /* the shared experts alone, repeated; nothing is left */
