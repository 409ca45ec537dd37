/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-linear.c - linear layers split over the tensor-parallel group, norms, residuals. */
#include "models/layer-pass.h"
#include "models/sharding.h"

/* Bytes of a tensor @width wide over all tokens, and of this rank's rows of it. */
static double
full_bytes_of (const Pass *p, double width)
{
  return p->e * width * p->t;
}

static double
rows_bytes_of (const Pass *p, double width)
{
  return p->e * width * p->t_sp;
}

/* The same of a product's operand. */
static double
gathered_bytes_of (const Pass *p, double width)
{
  return sc_pass_operand_bytes (p) * width * p->t;
}

/* What is gathered of it: an output gradient by rows for the input's gradient and by columns for the weights'.  With one scale for a
 * tensor, columns are made of gathered rows (NVIDIA/TransformerEngine pytorch/distributed.py, gather_along_first_dim()). */
static guint
gathered_layouts (const Pass *p)
{
  return p->precision != NULL && !p->precision->transposes ? p->precision->layouts : 1;
}

/* Copies that are made of what was gathered: an input is read by columns only. */
static double
transposed_bytes_of (const Pass *p, double width)
{
  return p->sp && p->precision != NULL && p->precision->transposes ? gathered_bytes_of (p, width) : 0;
}

/* What a rank has of a gathered output gradient beyond the first of its layouts. */
static double
other_layouts_of (const Pass *p, double width)
{
  return p->sp ? transposed_bytes_of (p, width) + (gathered_layouts (p) - 1) * gathered_bytes_of (p, width) : 0;
}

/* Of rows that are gathered: by columns, too, unless that is made of what was gathered. */
static void
cast_to_gather (Pass *p, const char *name, double elements)
{
  if (p->sp && p->precision != NULL && p->precision->transposes)
    sc_pass_operation (p, name, SC_OP_QUANTISE, p->precision->effort * (p->precision->reads * p->e + p->precision->cast_bytes) * elements, 0);
  else
    sc_pass_cast (p, name, elements);
}

void
sc_pass_transpose (Pass *p, const char *name, double elements)
{
  if (p->sp && p->precision != NULL && p->precision->transposes)
    sc_pass_operation (p, name, SC_OP_TRANSPOSE, 2 * p->precision->cast_bytes * elements, 0);
}

/* Is the row-parallel layer's input attention's output, which attention's backward needs as it is? */
static gboolean
of_attention (const Pass *p)
{
  return p->half == ATTENTION_HALF;
}

void
sc_pass_cast_input (Pass *p, gboolean fused, double elements)
{
  if (p->precision != NULL && !(fused && p->precision->fused))
    sc_pass_cast (p, "cast of input", elements);
}

/* Weights that are kept wide, or that come and go, are cast at every product; else once a step (sc_weights_cast()).  What was gathered cast is turned
 * for the product of backward, whose operands must lie the other way (preprocess_addmm() in torchao/float8/float8_ops.py). */
void
sc_pass_cast_weight (Pass *p, double elements)
{
  if (p->plan->fp8_param_gather && p->precision != NULL)
    {
      if (p->time == SC_TIME_BACKWARD)
        sc_pass_elementwise (p, "transpose of weight", 2 * elements);
      return;
    }
  if (p->fw->fp8_keeps_wide || sc_sharding_row (p->plan->sharding)->weights)
    sc_pass_cast (p, "cast of weight", elements);
}

void
sc_pass_cast_kept (Pass *p, gboolean wide, double elements)
{
  if (wide || p->fw->fp8_keeps_wide)
    sc_pass_cast (p, "cast of input", elements);
}

/* What is kept narrow, from its repeated origin; else its weight gradient casts it. */
void
sc_pass_cast_again (Pass *p, gboolean fused, double elements)
{
  if (!p->fw->fp8_keeps_wide)
    sc_pass_cast_input (p, fused, elements);
}

double
sc_pass_copies (const Pass *p, double elements)
{
  return p->precision != NULL ? p->precision->layouts * p->precision->cast_bytes * elements : 0;
}

/* Y[T, n_out] = X W: with sequence parallelism the rows of X are gathered first, cast.  The output is the caller's. */
void
sc_pass_column_forward_from (Pass *p, const Linear *l, double n_in, double n_out)
{
  const double full = gathered_bytes_of (p, n_in);
  if (p->precision != NULL && !(p->precision->fused && !(p->half == MLP_HALF && p->shape->kind.experts)))
    cast_to_gather (p, "cast of input", n_in * p->t_sp);
  sc_pass_cast_weight (p, n_in * n_out);
  if (sc_pass_overlaps (p))
    {
      sc_pass_gathered_gemm (p, l->gather, l->fprop, SC_GEMM_TN, n_out, n_in, n_in);
      return;
    }
  const double held = p->sp && !p->keeps_gathered ? full : 0;
  sc_pass_temp (p, held);
  if (p->sp)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->gather, full);
  sc_pass_gemm (p, l->fprop, SC_GEMM_TN, p->t, n_out, n_in);
  sc_pass_temp (p, -held);
}

void
sc_pass_column_forward (Pass *p, const Linear *l, double n_out)
{
  sc_pass_column_forward_from (p, l, p->h, n_out);
}

/* Y[T, h] = X[T, n_in] W, summed over the ranks; leaves a temporary of rows_bytes(). */
void
sc_pass_row_forward (Pass *p, const Linear *l, double n_in)
{
  if (of_attention (p))
    sc_pass_born (p, PROJ_NARROW);
  sc_pass_cast_input (p, !of_attention (p), n_in * p->t);
  sc_pass_cast_weight (p, n_in * p->h);
  if (sc_pass_overlaps (p) && !p->ops)
    {
      sc_pass_temp (p, sc_pass_rows_bytes (p));
      sc_pass_reduced_gemm (p, l->reduce, l->fprop, SC_GEMM_TN, p->h, n_in);
      if (of_attention (p))
        sc_pass_used (p, PROJ_NARROW);
      return;
    }
  sc_pass_temp (p, sc_pass_full_bytes (p));
  sc_pass_gemm (p, l->fprop, SC_GEMM_TN, p->t, p->h, n_in);
  if (of_attention (p))
    sc_pass_used (p, PROJ_NARROW);
  if (!p->split)
    return;
  if (!p->sp)
    {
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_REDUCE, l->reduce, sc_pass_full_bytes (p));
      return;
    }
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  if (!p->ops) /* else its output was kept */
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_REDUCE_SCATTER, l->reduce, sc_pass_full_bytes (p));
  sc_pass_temp_sent (p, sc_pass_full_bytes (p));
}

/* Are gradients added to those of other micro-batches, or into a buffer that is always there? */
gboolean
sc_pass_adds_gradients (const Pass *p)
{
  if (sc_sharding_row (p->plan->sharding)->grads) /* no rank keeps them */
    return FALSE;
  return p->fw->fp32_main_grads || p->plan->global_batch / p->plan->dp > p->plan->micro_batch;
}

/* What is added to gradients: gone when that is done, or, where it waits, when the pass over all layers is (sc_waiting_gradients()). */
void
sc_pass_gradient (Pass *p, double bytes)
{
  if (!p->fw->waiting_grads)
    sc_pass_temp (p, bytes);
  else if (bytes > 0)
    sc_pass_mem (p, SC_MEM_GRADS, bytes);
}

void
sc_pass_weight_gradient_over (Pass *p, const Linear *l, double n_out, double n_in, double rows)
{
  const guint64 m = (guint64) n_out, n = (guint64) n_in, k = (guint64) rows;
  if (p->fw->fused_wgrad)
    {
      sc_pass_linear_kernel (p, sc_kernel_gemm_accumulate (l->wgrad, sc_pass_gemm_dtype (p), p->plan->grad_dtype, m, n, k));
      return;
    }
  if (!sc_pass_adds_gradients (p)) /* what the product makes is the gradient */
    {
      sc_pass_gemm (p, l->wgrad, SC_GEMM_NT, n_out, n_in, rows);
      return;
    }
  sc_pass_gradient (p, p->e * n_out * n_in);
  sc_pass_gemm (p, l->wgrad, SC_GEMM_NT, n_out, n_in, rows);
  sc_pass_elementwise (p, l->add, (p->e + 2 * p->grad) * n_out * n_in);
  sc_pass_gradient (p, -p->e * n_out * n_in);
}

void
sc_pass_weight_gradient (Pass *p, const Linear *l, double n_out, double n_in)
{
  sc_pass_weight_gradient_over (p, l, n_out, n_in, p->t);
}

/* From dY[T, n_out], which is the caller's, to dX: leaves a temporary of rows_bytes(). */
void
sc_pass_column_backward_from (Pass *p, const Linear *l, double n_in, double n_out)
{
  const double full = full_bytes_of (p, n_in), own = rows_bytes_of (p, n_in), input = gathered_bytes_of (p, n_in);
  const double copies = sc_pass_copies (p, n_out * p->t);
  const gboolean async = p->split && (p->fw->async_tp_backward || sc_pass_overlaps (p));
  const double held = sc_pass_overlaps (p) ? 0 : full; /* else in user buffers */
  const double gathered = (sc_pass_overlaps (p) || p->keeps_gathered ? 0 : input) + transposed_bytes_of (p, n_in);
  const ScItemKind kind = async ? SC_ITEM_COLLECTIVE_START : SC_ITEM_COLLECTIVE;
  sc_pass_temp (p, copies);
  sc_pass_cast (p, "cast of gradient", n_out * p->t);
  sc_pass_cast_weight (p, n_in * n_out);
  if (p->part == PART_INPUT) /* nothing is left that its collective could run beside */
    {
      sc_pass_temp (p, full);
      sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, n_in, n_out);
      if (p->sp)
        sc_pass_temp (p, own);
      if (p->split)
        sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full);
      if (p->sp)
        sc_pass_temp (p, -full);
      sc_pass_temp (p, -copies);
      return;
    }
  sc_pass_cast_kept (p, FALSE, n_in * p->t_sp);
  if (p->sp)
    {
      sc_pass_temp (p, gathered); /* the input's rows, gathered again for the weight gradient */
      sc_pass_collective (p, kind, SC_COMM_TP, SC_COLL_ALL_GATHER, l->regather, input);
      sc_pass_in_buffers (p);
    }
  sc_pass_temp (p, held);
  sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, n_in, n_out);
  if (p->sp && async)
    sc_pass_wait (p, SC_COMM_TP);
  if (p->sp)
    sc_pass_temp (p, own);
  if (async)
    {
      sc_pass_collective (p, kind, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full);
      sc_pass_in_buffers (p);
    }
  sc_pass_transpose (p, "transpose of input", n_in * p->t);
  sc_pass_weight_gradient (p, l, n_out, n_in);
  if (async)
    sc_pass_wait (p, SC_COMM_TP);
  else if (p->split)
    sc_pass_collective (p, kind, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, full);
  if (p->sp)
    {
      sc_pass_temp_sent (p, held);
      sc_pass_temp (p, -gathered);
    }
  sc_pass_temp (p, -copies);
}

void
sc_pass_column_backward (Pass *p, const Linear *l, double n_out)
{
  sc_pass_column_backward_from (p, l, p->h, n_out);
}

/* The weight gradient alone, of a saved input whose rows are gathered now.  The output gradient is cast already. */
void
sc_pass_column_weights_from (Pass *p, const Linear *l, double n_in, double n_out)
{
  const double input = gathered_bytes_of (p, n_in), gathered = (p->keeps_gathered ? 0 : input) + transposed_bytes_of (p, n_in);
  sc_pass_cast_kept (p, FALSE, n_in * p->t_sp);
  if (p->sp)
    {
      sc_pass_temp (p, gathered);
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->regather, input);
    }
  sc_pass_transpose (p, "transpose of input", n_in * p->t);
  sc_pass_weight_gradient (p, l, n_out, n_in);
  if (p->sp)
    sc_pass_temp (p, -gathered);
}

void
sc_pass_column_weights (Pass *p, const Linear *l, double n_out)
{
  sc_pass_column_weights_from (p, l, p->h, n_out);
}

/* Does the projection's input have to be cast once more for its weight gradient? */
static gboolean
keeps_wide_only (const Pass *p)
{
  return of_attention (p) && p->precision != NULL && !p->precision->keeps_projection;
}

/* From dY's rows, which are the caller's, to dX[T, n_in]: leaves a temporary of that size.  Without the weight gradient
 * it leaves the gathered dY, too. */
void
sc_pass_row_backward (Pass *p, const Linear *l, double n_in)
{
  const gboolean chunks = sc_pass_overlaps (p), kept = p->part == PART_INPUT;
  const double input = gathered_bytes_of (p, p->h), copies = p->sp ? 0 : sc_pass_copies (p, p->h * p->t);
  const double gathered = (!p->sp || (chunks && !kept) || p->fw->gather_buffers ? 0 : input) + other_layouts_of (p, p->h); /* user buffers do not wait for the weights */
  const guint layouts = gathered_layouts (p);
  sc_pass_temp (p, copies);
  cast_to_gather (p, "cast of gradient", p->h * p->t_sp);
  sc_pass_cast_weight (p, n_in * p->h);
  sc_pass_temp (p, gathered);
  if (p->sp && !chunks)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->gather, layouts * input);
  sc_pass_temp (p, p->e * n_in * p->t);
  if (chunks)
    sc_pass_gathered_gemm (p, l->gather, l->dgrad, SC_GEMM_NN, n_in, p->h, p->h);
  else
    sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, n_in, p->h);
  if (chunks && layouts > 1) /* its chunks came by rows */
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->gather, (layouts - 1) * input);
  sc_pass_transpose (p, "transpose of gradient", p->h * p->t);
  if (!kept)
    {
      sc_pass_cast_kept (p, keeps_wide_only (p), n_in * p->t);
      sc_pass_weight_gradient (p, l, p->h, n_in);
      if (of_attention (p))
        sc_pass_spent (p, PROJ_NARROW);
    }
  sc_pass_temp (p, -copies);
  if (!kept)
    sc_pass_temp (p, -gathered);
}

/* Bytes of an RMSNorm that is written out, for each element (transformers' LlamaRMSNorm): to fp32 6, square 8, mean 4, scale 8, to 16 bits 6,
 * weight 4; backward: weight and its gradient 8, to fp32 6, scale and its gradient 20, square and mean 20, sum 12, to 16 bits 6. */
#define EAGER_RMSNORM_BYTES 36
#define EAGER_RMSNORM_BACKWARD_BYTES 72

static gboolean
norm_is_written_out (const Pass *p)
{
  return p->fw->eager_norm && p->model->norm == SC_NORM_RMSNORM;
}

void
sc_pass_norm_forward (Pass *p, const char *name)
{
  if (norm_is_written_out (p))
    {
      sc_pass_elementwise (p, name, EAGER_RMSNORM_BYTES / p->e * sc_pass_rows_bytes (p));
      return;
    }
  sc_pass_operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM : SC_OP_LAYERNORM, 2 * sc_pass_rows_bytes (p), p->model->hidden);
}

void
sc_pass_norm_backward (Pass *p, const char *name)
{
  if (norm_is_written_out (p))
    {
      sc_pass_elementwise (p, name, EAGER_RMSNORM_BACKWARD_BYTES / p->e * sc_pass_rows_bytes (p));
      return;
    }
  sc_pass_operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM_BACKWARD : SC_OP_LAYERNORM_BACKWARD, 3 * sc_pass_rows_bytes (p),
             p->model->hidden);
}

/* How a half's end is called in traces, and the tensors of it. */
static const struct
{
  const char *fused, *bias, *dropout, *add, *dropout_backward, *bias_grad, *norm, *norm_backward;
  Tensor mask, norm_in, norm_stats;
} halves[] = {
  [ATTENTION_HALF] = { "attention residual", "projection bias", "projection dropout", "attention residual", "projection dropout backward",
                       "projection bias gradient", "norm behind attention", "norm behind attention backward", PROJ_MASK, POST1_IN, POST1_STATS },
  [MLP_HALF] = { "mlp residual", "fc2 bias", "mlp dropout", "mlp residual", "mlp dropout backward", "fc2 bias gradient", "norm behind mlp",
                 "norm behind mlp backward", MLP_MASK, POST2_IN, POST2_STATS },
};

/* Does a row-parallel product stand at the end of the half, whose weights wait for the output gradient? */
static gboolean
ends_in_product (const Pass *p)
{
  return p->half == ATTENTION_HALF || !p->shape->kind.experts || p->model->shared_experts > 0;
}

gboolean
sc_pass_has_qkv_bias (const Pass *p)
{
  return p->model->linear_bias || p->model->qkv_bias || p->model->attention_bias;
}

gboolean
sc_pass_has_mlp_bias (const Pass *p)
{
  return p->model->linear_bias || p->model->mlp_bias;
}

gboolean
sc_pass_has_row_bias (const Pass *p)
{
  if (p->half == ATTENTION_HALF)
    return p->model->linear_bias || p->model->attention_bias;
  return sc_pass_has_mlp_bias (p) && ends_in_product (p);
}

static gboolean
has_post_norm (const Pass *p)
{
  return p->model->layer_norms > 2;
}

/* Is the half's output gradient a tensor of its own, not the residual's? */
static gboolean
own_gradient (const Pass *p)
{
  return p->model->dropout > 0 || has_post_norm (p);
}

/* Behind a half, whose output is the caller's: a norm, where there is one, bias, dropout and residual.  The norm's output takes the
 * place of the half's. */
void
sc_pass_residual_forward (Pass *p)
{
  const double elements = p->h * p->t_sp;
  const double mask = p->model->dropout > 0 ? 1 : 0;
  if (has_post_norm (p))
    {
      sc_pass_born (p, halves[p->half].norm_in);
      sc_pass_born (p, halves[p->half].norm_stats);
      sc_pass_norm_forward (p, halves[p->half].norm);
      sc_pass_used (p, halves[p->half].norm_in);
      sc_pass_used (p, halves[p->half].norm_stats);
    }
  sc_pass_born (p, halves[p->half].mask);
  if (p->fw->fused_dropout_add)
    sc_pass_operation (p, halves[p->half].fused, SC_OP_DROPOUT_ADD, (3 * p->e + mask) * elements, 0);
  else
    {
      if (sc_pass_has_row_bias (p))
        sc_pass_elementwise (p, halves[p->half].bias, 2 * p->e * elements);
      if (mask > 0)
        sc_pass_elementwise (p, halves[p->half].dropout, (2 * p->e + mask) * elements);
      sc_pass_operation (p, halves[p->half].add, SC_OP_ADD, 3 * p->e * elements, 0);
    }
  sc_pass_used (p, halves[p->half].mask);
}

/* Leaves a temporary of rows_bytes() if there is dropout or a norm behind the half; else the residual's gradient serves as it is. */
void
sc_pass_residual_backward (Pass *p)
{
  if (own_gradient (p))
    sc_pass_temp (p, sc_pass_rows_bytes (p));
  if (p->model->dropout > 0)
    {
      sc_pass_elementwise (p, halves[p->half].dropout_backward, (2 * p->e + 1) * p->h * p->t_sp);
      sc_pass_spent (p, halves[p->half].mask);
    }
  if (has_post_norm (p)) /* in place */
    {
      sc_pass_norm_backward (p, halves[p->half].norm_backward);
      sc_pass_spent (p, halves[p->half].norm_in);
      sc_pass_spent (p, halves[p->half].norm_stats);
    }
  if (sc_pass_has_row_bias (p) && p->part == PART_WHOLE)
    sc_pass_reduction (p, halves[p->half].bias_grad, sc_pass_rows_bytes (p));
}

/* The temporary that residual_backward() left, now spent, unless it is the output gradient that the weights wait for. */
void
sc_pass_residual_done (Pass *p)
{
  if (own_gradient (p) && (p->part == PART_WHOLE || p->sp || !ends_in_product (p)))
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

/* The residual's gradient behind the sum that takes its place.  Without dropout and gathered copies it is the output
 * gradient itself that the weights wait for. */
void
sc_pass_residual_summed (Pass *p)
{
  if (own_gradient (p) || p->part == PART_WHOLE || p->sp || !ends_in_product (p))
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

/* The weight gradient of a row-parallel layer alone: of the dY over all tokens that was left for it. */
void
sc_pass_row_weights (Pass *p, const Linear *l, double n_in, Tensor input)
{
  if (sc_pass_has_row_bias (p))
    sc_pass_reduction (p, halves[p->half].bias_grad, sc_pass_rows_bytes (p));
  sc_pass_cast_kept (p, keeps_wide_only (p), n_in * p->t);
  sc_pass_weight_gradient (p, l, p->h, n_in);
  sc_pass_spent (p, input);
  if (of_attention (p))
    sc_pass_spent (p, PROJ_NARROW);
  sc_pass_temp (p, !p->sp ? -sc_pass_full_bytes (p) : -(p->fw->gather_buffers ? 0 : gathered_bytes_of (p, p->h)) - other_layouts_of (p, p->h));
}
