/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-ends.c - what stands before the first layer and behind the last one: embedding, head and loss. */
#include <math.h>
#include "models/layer-pass.h"

static const Linear linear_head = {
  "logits",
  "logits dgrad",
  "logits wgrad",
  "logits gradient add",
  "logits bias gradient",
  "logits all-gather",
  "logits input all-gather",
  "logits gradient reduce",
};

/* Matrices between tables of another width and the layers (OPT-350m), which every rank of the TP group holds. */
static const Linear linear_way_in = { "embedding in", "embedding in dgrad", "embedding in wgrad", "embedding in gradient add", NULL, NULL, NULL, NULL };
static const Linear linear_way_out = { "embedding out", "embedding out dgrad", "embedding out wgrad", "embedding out gradient add", NULL, NULL, NULL, NULL };

/* Width of the tables. */
static double
table_width (const Pass *p)
{
  return p->model->embedding_dim > 0 ? p->model->embedding_dim : p->h;
}

static gboolean
has_ways (const Pass *p)
{
  return table_width (p) != p->h;
}

/* Of this rank's rows of a tensor as wide as the tables, and of all of it. */
static double
table_rows_bytes (const Pass *p)
{
  return p->e * table_width (p) * p->t_sp;
}

static double
table_full_bytes (const Pass *p)
{
  return p->e * table_width (p) * p->t;
}

/* Whatever the layers' products read, these stay in plan.dtype; and they have no user buffers. */
static Pass
ends_pass (const ScLayerShape *shape, GArray *items, ScTimeKind time)
{
  Pass p = sc_pass_new (shape, items, time);
  sc_pass_wide (&p);
  p.buffers = FALSE;
  p.keeps_gathered = p.sp && (p.fw->keeps_gathered || p.fw->gather_buffers);
  return p;
}

/* Is the logits' gradient made where they are? */
static gboolean
loss_in_place (const Pass *p)
{
  return p->fw->fused_loss && (p->fw->torch_loss || p->fw->loss_in_place);
}

/* Are tables and loss elsewhere, shared out over the pipeline (layer-vocab.c)? */
static gboolean
shares_vocabulary (const Pass *p)
{
  return p->plan->vocab_parallel != SC_VOCAB_ENDS;
}

static double
vocab_rank (const Pass *p)
{
  return ceil ((double) p->model->vocab / p->plan->tp);
}

/* What the embedding saves, born or, with @sign -1, gone: token ids (8 bytes) and what leads in from a table of another width, for the
 * weights ... */
static void
embedding_saved_for_weights (Pass *p, int sign)
{
  sc_pass_end_tensor (p, TOKEN_IDS, sign * 8 * p->t);
  if (has_ways (p))
    sc_pass_end_tensor (p, WAY_IN, sign * table_rows_bytes (p));
}

/* ... the norm's input, the dropout mask. */
static void
embedding_saved (Pass *p, int sign)
{
  if (shares_vocabulary (p)) /* what was summed is a leaf of autograd's graph, which holds it */
    sc_pass_end_tensor (p, WAY_IN, sign * sc_pass_rows_bytes (p));
  if (p->model->embedding_norm)
    sc_pass_end_tensor (p, EMBEDDING_NORM_IN, sign * sc_pass_rows_bytes (p));
  if (p->model->dropout > 0)
    sc_pass_end_tensor (p, EMBEDDING_MASK, sign * p->h * p->t_sp);
}

void
sc_embedding_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_FORWARD);
  if (!shares_vocabulary (&p))
    embedding_saved_for_weights (&p, 1);
  embedding_saved (&p, 1);
  sc_pass_temp (&p, table_full_bytes (&p));
  if (!shares_vocabulary (&p))
    sc_pass_operation (&p, "embedding", SC_OP_EMBEDDING, 2 * table_full_bytes (&p), 0);
  if (p.split)
    {
      sc_pass_elementwise (&p, "embedding mask", table_full_bytes (&p)); /* zeroes the rows of other ranks' tokens */
      if (p.sp)
        sc_pass_temp (&p, table_rows_bytes (&p));
      sc_pass_collective (&p, SC_ITEM_COLLECTIVE, SC_COMM_TP, p.sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, "embedding reduce",
                  table_full_bytes (&p));
      if (p.sp)
        sc_pass_temp (&p, -table_full_bytes (&p));
    }
  if (has_ways (&p))
    {
      sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      sc_pass_gemm (&p, linear_way_in.fprop, SC_GEMM_TN, p.t_sp, p.h, table_width (&p));
      sc_pass_temp (&p, -table_rows_bytes (&p));
    }
  if (p.model->positions == SC_POSITIONS_LEARNED)
    sc_pass_elementwise (&p, "positions", 3 * sc_pass_rows_bytes (&p));
  if (p.model->embedding_norm)
    sc_pass_norm_forward (&p, "embedding norm");
  if (p.model->dropout > 0)
    sc_pass_elementwise (&p, "embedding dropout", (2 * p.e + 1) * p.h * p.t_sp);
  sc_pass_temp (&p, -sc_pass_rows_bytes (&p)); /* the first layer takes it over */
}

/* From the gradient of the output, taken over, to that of the looked up rows: a temporary of rows_bytes(). */
static void
embedding_input (Pass *p)
{
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  if (p->model->dropout > 0)
    sc_pass_elementwise (p, "embedding dropout backward", (2 * p->e + 1) * p->h * p->t_sp);
  if (p->model->embedding_norm)
    sc_pass_norm_backward (p, "embedding norm backward");
}

/* From there to the gradients of the tables. */
static void
embedding_weights (Pass *p)
{
  const double table = vocab_rank (p) * table_width (p);
  if (p->model->positions == SC_POSITIONS_LEARNED)
    sc_pass_reduction (p, "positions gradient", sc_pass_rows_bytes (p));
  if (shares_vocabulary (p))
    {
      sc_pass_temp (p, -sc_pass_rows_bytes (p)); /* handed to all */
      return;
    }
  if (has_ways (p))
    {
      sc_pass_temp (p, table_rows_bytes (p));
      sc_pass_gemm (p, linear_way_in.dgrad, SC_GEMM_NN, p->t_sp, table_width (p), p->h);
      sc_pass_weight_gradient_over (p, &linear_way_in, p->h, table_width (p), p->t_sp);
      sc_pass_temp (p, -sc_pass_rows_bytes (p));
    }
  if (p->sp)
    {
      sc_pass_temp (p, table_full_bytes (p));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, "embedding gradient all-gather", table_full_bytes (p));
    }
  /* autograd makes a dense gradient of the table: zeroed, then one row added per token, then added to the buffer */
  sc_pass_gradient (p, p->e * table);
  sc_pass_elementwise (p, "embedding gradient zero", p->e * table);
  sc_pass_operation (p, "embedding gradient", SC_OP_EMBEDDING_BACKWARD, table_full_bytes (p) + 8 * table_width (p) * p->t, 0);
  if (sc_pass_adds_gradients (p))
    sc_pass_elementwise (p, "embedding gradient add", (p->e + 2 * p->grad) * table);
  sc_pass_gradient (p, -p->e * table);
  if (p->sp)
    sc_pass_temp (p, -table_full_bytes (p));
  sc_pass_temp (p, -table_rows_bytes (p));
}

void
sc_embedding_backward (const ScLayerShape *shape, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  embedding_weights (&p);
  if (!shares_vocabulary (&p))
    embedding_saved_for_weights (&p, -1);
  embedding_saved (&p, -1);
}

void
sc_embedding_backward_input (const ScLayerShape *shape, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  embedding_saved (&p, -1);
}

void
sc_embedding_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_WEIGHT);
  embedding_weights (&p);
  if (!shares_vocabulary (&p))
    embedding_saved_for_weights (&p, -1);
}

/* The input of the logits is saved for the weights; for the gradient that is handed on, with @sign 1 or gone with -1, the input of the
 * final norm, and its output where that is not the logits' input. */
static void
head_saved (Pass *p, int sign)
{
  if (!p->model->no_final_norm)
    {
      sc_pass_end_tensor (p, FINAL_NORM_IN, sign * sc_pass_rows_bytes (p));
      sc_pass_end_tensor (p, FINAL_NORM_STATS, sign * sc_pass_tensor_bytes (p, NORM1_STATS));
    }
  if (has_ways (p))
    sc_pass_end_tensor (p, WAY_OUT_IN, sign * sc_pass_rows_bytes (p));
}

static void
logits_bias_gradient (Pass *p, double n)
{
  if (p->model->head_bias && !p->fw->fused_bias)
    sc_pass_reduction (p, linear_head.bias_grad, p->e * n);
}

static void
loss_reduce (Pass *p, const char *name)
{
  if (p->split)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_REDUCE, name, 4 * p->t);
}

/* Over a split vocabulary (torch/distributed/tensor/parallel/loss.py) in tensor operations, each result a tensor of its own: what is shifted by its
 * maximum, its exponentials, and their logarithm subtracted. */
static void
split_loss_forward (Pass *p, double n)
{
  sc_pass_reduction (p, "loss: maximum", 4 * n);
  loss_reduce (p, "loss maximum");
  sc_pass_temp (p, 4 * n);
  sc_pass_elementwise (p, "loss: subtract", 8 * n);
  sc_pass_temp (p, 4 * n);
  sc_pass_elementwise (p, "loss: exponentials", 8 * n);
  sc_pass_reduction (p, "loss: sum", 4 * n);
  sc_pass_temp (p, -4 * n);
  loss_reduce (p, "loss sum");
  sc_pass_end_tensor (p, LOG_SOFTMAX, 4 * n);
  sc_pass_elementwise (p, "loss: log-softmax", 8 * n);
  sc_pass_temp (p, -4 * n);
}

/* (choice + exponentials of the log-softmax) x gradient of the loss. */
static void
split_loss_backward (Pass *p, double n)
{
  sc_pass_temp (p, 4 * n);
  sc_pass_elementwise (p, "loss: exponentials backward", 8 * n);
  sc_pass_temp (p, 4 * n);
  sc_pass_elementwise (p, "loss: choice and exponentials", 12 * n);
  sc_pass_temp (p, -4 * n);
  sc_pass_end_tensor (p, LOGITS_GRADIENT_FP32, 4 * n);
  sc_pass_elementwise (p, "loss: times the gradient", 8 * n);
  sc_pass_temp (p, -4 * n);
}

/* Eager: a copy in fp32 and its logarithmic softmax, which is kept.  Fused: twice over the logits, which are kept. */
static void
torch_loss_forward (Pass *p, double n)
{
  if (loss_in_place (p))
    {
      sc_pass_operation (p, "cross entropy", SC_OP_CROSS_ENTROPY, 2 * p->e * n, 0);
      loss_reduce (p, "loss sums");
      return;
    }
  sc_pass_end_tensor (p, LOGITS_FP32, 4 * n);
  sc_pass_operation (p, "loss: to fp32", SC_OP_CAST, (p->e + 4) * n, 0);
  if (p->split)
    split_loss_forward (p, n);
  else
    {
      sc_pass_end_tensor (p, LOG_SOFTMAX, 4 * n);
      sc_pass_operation (p, "loss: log-softmax", SC_OP_SOFTMAX, 8 * n, 0);
    }
  sc_pass_end_tensor (p, LOGITS_FP32, -4 * n);
  sc_pass_end_tensor (p, LOGITS, -p->e * n);
}

/* To the gradient of the logits in 16 bits. */
static void
torch_loss_backward (Pass *p, double n)
{
  if (loss_in_place (p))
    {
      if (p->fw->loss_apart)
        sc_pass_end_tensor (p, LOGITS_GRADIENT, p->e * n);
      sc_pass_elementwise (p, "cross entropy backward", 2 * p->e * n);
      if (p->fw->loss_apart)
        sc_pass_end_tensor (p, LOGITS, -p->e * n);
      return;
    }
  sc_pass_end_tensor (p, LOGITS_CHOICE, 4 * n);
  sc_pass_elementwise (p, "loss: gradient of the choice", 4 * n);
  if (p->split)
    split_loss_backward (p, n);
  else
    {
      sc_pass_end_tensor (p, LOGITS_GRADIENT_FP32, 4 * n);
      sc_pass_operation (p, "loss: log-softmax backward", SC_OP_SOFTMAX_BACKWARD, 12 * n, 0);
    }
  sc_pass_end_tensor (p, LOGITS_CHOICE, -4 * n);
  sc_pass_end_tensor (p, LOG_SOFTMAX, -4 * n);
  sc_pass_end_tensor (p, LOGITS_GRADIENT, p->e * n);
  sc_pass_operation (p, "loss: gradient to 16 bits", SC_OP_CAST, (4 + p->e) * n, 0);
  sc_pass_end_tensor (p, LOGITS_GRADIENT_FP32, -4 * n);
}

void
sc_head_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_FORWARD);
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  head_saved (&p, 1);
  if (shares_vocabulary (&p))
    {
      sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      if (!p.model->no_final_norm)
        sc_pass_norm_forward (&p, "final norm");
      sc_pass_temp (&p, -sc_pass_rows_bytes (&p)); /* handed to all */
      return;
    }
  sc_pass_end_tensor (&p, LOGITS_IN, table_rows_bytes (&p));
  if (!p.model->no_final_norm)
    sc_pass_norm_forward (&p, "final norm");
  if (has_ways (&p))
    sc_pass_gemm (&p, linear_way_out.fprop, SC_GEMM_TN, p.t_sp, table_width (&p), p.h);
  sc_pass_end_tensor (&p, LOGITS, p.e * n);
  sc_pass_column_forward_from (&p, &linear_head, table_width (&p), width);
  if (p.model->head_bias && !p.fw->fused_bias)
    sc_pass_elementwise (&p, "logits bias", 2 * p.e * n);

  if (p.fw->torch_loss || p.fw->loss_in_place)
    {
      torch_loss_forward (&p, n);
      return;
    }
  /* Cross entropy over a split vocabulary works on an fp32 copy, which becomes the softmax that backward needs. */
  sc_pass_end_tensor (&p, LOGITS_FP32, 4 * n);
  if (p.fw->fused_loss)
    {
      sc_pass_reduction (&p, "loss: to fp32, maximum", (p.e + 4) * n);
      sc_pass_end_tensor (&p, LOGITS, -p.e * n);
      loss_reduce (&p, "loss maximum");
      sc_pass_reduction (&p, "loss: exponentials, sum", 8 * n);
      loss_reduce (&p, "loss sums");
      sc_pass_elementwise (&p, "loss: softmax", 8 * n);
      return;
    }
  sc_pass_operation (&p, "loss: to fp32", SC_OP_CAST, (p.e + 4) * n, 0);
  sc_pass_end_tensor (&p, LOGITS, -p.e * n);
  sc_pass_reduction (&p, "loss: maximum", 4 * n);
  loss_reduce (&p, "loss maximum");
  if (p.fw->copies_logits)
    sc_pass_end_tensor (&p, LOG_SOFTMAX, 4 * n);
  sc_pass_elementwise (&p, "loss: subtract", 8 * n);
  loss_reduce (&p, "loss targets");
  sc_pass_elementwise (&p, "loss: exponentials", 8 * n);
  sc_pass_reduction (&p, "loss: sum", 4 * n);
  loss_reduce (&p, "loss sum");
  sc_pass_elementwise (&p, "loss: softmax", 8 * n);
  if (p.fw->copies_logits)
    sc_pass_end_tensor (&p, LOG_SOFTMAX, -4 * n);
}

static void
loss_backward (Pass *p, double n)
{
  sc_pass_end_tensor (p, LOGITS_GRADIENT, p->e * n);
  if (p->fw->fused_loss)
    sc_pass_elementwise (p, "loss backward", (4 + p->e) * n);
  else
    {
      sc_pass_elementwise (p, "loss backward", 8 * n); /* in place: times the gradient of the loss */
      sc_pass_operation (p, "loss: gradient to 16 bits", SC_OP_CAST, (4 + p->e) * n, 0);
    }
  sc_pass_end_tensor (p, LOGITS_FP32, -4 * n);
}

/* What the weights multiply: where the loss works in place, the logits' gradient is in their place. */
static EndTensor
logits_gradient (const Pass *p)
{
  return loss_in_place (p) && !p->fw->loss_apart ? LOGITS : LOGITS_GRADIENT;
}

static void
head_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = ends_pass (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  if (shares_vocabulary (&p))
    {
      sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      sc_pass_elementwise (&p, "times the gradient of the loss", 2 * sc_pass_rows_bytes (&p));
    }
  else
    {
      if (p.fw->torch_loss || p.fw->loss_in_place)
        torch_loss_backward (&p, n);
      else
        loss_backward (&p, n);
      if (part == PART_WHOLE)
        logits_bias_gradient (&p, n);
      sc_pass_column_backward_from (&p, &linear_head, table_width (&p), width);
      if (part == PART_WHOLE)
        sc_pass_end_tensor (&p, logits_gradient (&p), -p.e * n);
    }
  if (has_ways (&p))
    {
      sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      sc_pass_gemm (&p, linear_way_out.dgrad, SC_GEMM_NN, p.t_sp, p.h, table_width (&p));
      sc_pass_weight_gradient_over (&p, &linear_way_out, table_width (&p), p.h, p.t_sp);
      sc_pass_temp (&p, -table_rows_bytes (&p));
    }
  if (!p.model->no_final_norm)
    {
      sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      sc_pass_norm_backward (&p, "final norm backward");
      sc_pass_temp (&p, -sc_pass_rows_bytes (&p)); /* the norm's output gradient */
    }
  sc_pass_temp (&p, -sc_pass_rows_bytes (&p)); /* the gradient of the input: handed on */
  head_saved (&p, -1);
  if (part == PART_WHOLE && !shares_vocabulary (&p))
    sc_pass_end_tensor (&p, LOGITS_IN, -table_rows_bytes (&p));
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
  Pass p = ends_pass (shape, items, SC_TIME_WEIGHT);
  p.part = PART_WEIGHT;
  const double width = vocab_rank (&p);
  if (shares_vocabulary (&p))
    return;
  logits_bias_gradient (&p, p.t * width);
  sc_pass_column_weights_from (&p, &linear_head, table_width (&p), width);
  sc_pass_end_tensor (&p, logits_gradient (&p), -p.e * p.t * width);
  sc_pass_end_tensor (&p, LOGITS_IN, -table_rows_bytes (&p));
}
