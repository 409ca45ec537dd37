/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-linear.c - linear layers split over the tensor-parallel group, norms, residuals. */
#include "models/layer-pass.h"

/* Y[T, n_out] = X W: with sequence parallelism the rows of X are gathered first.  The output is the caller's. */
void
sc_pass_column_forward (Pass *p, const Linear *l, double n_out)
{
  if (p->sp)
    {
      sc_pass_temp (p, sc_pass_full_bytes (p));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->gather, sc_pass_full_bytes (p));
    }
  sc_pass_gemm (p, l->fprop, SC_GEMM_TN, p->t, n_out, p->h);
  if (p->sp)
    sc_pass_temp (p, -sc_pass_full_bytes (p));
}

/* Y[T, h] = X[T, n_in] W, summed over the ranks; leaves a temporary of rows_bytes(). */
void
sc_pass_row_forward (Pass *p, const Linear *l, double n_in)
{
  sc_pass_temp (p, sc_pass_full_bytes (p));
  sc_pass_gemm (p, l->fprop, SC_GEMM_TN, p->t, p->h, n_in);
  if (!p->split)
    return;
  if (!p->sp)
    {
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_REDUCE, l->reduce, sc_pass_full_bytes (p));
      return;
    }
  sc_pass_temp (p, sc_pass_rows_bytes (p));
  sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_REDUCE_SCATTER, l->reduce, sc_pass_full_bytes (p));
  sc_pass_temp (p, -sc_pass_full_bytes (p));
}

void
sc_pass_weight_gradient (Pass *p, const Linear *l, double n_out, double n_in)
{
  const guint64 m = (guint64) n_out, n = (guint64) n_in, k = (guint64) p->t;
  if (p->fw->fused_wgrad)
    {
      sc_pass_kernel (p, sc_kernel_gemm_accumulate (l->wgrad, p->plan->dtype, p->plan->grad_dtype, m, n, k));
      return;
    }
  sc_pass_temp (p, p->e * n_out * n_in);
  sc_pass_gemm (p, l->wgrad, SC_GEMM_NT, n_out, n_in, p->t);
  sc_pass_elementwise (p, l->add, (p->e + 2 * p->grad) * n_out * n_in);
  sc_pass_temp (p, -p->e * n_out * n_in);
}

/* From dY[T, n_out], which is the caller's, to dX: leaves a temporary of rows_bytes(). */
void
sc_pass_column_backward (Pass *p, const Linear *l, double n_out)
{
  const gboolean async = p->split && p->fw->async_tp_backward;
  const ScItemKind kind = async ? SC_ITEM_COLLECTIVE_START : SC_ITEM_COLLECTIVE;
  if (p->part == PART_INPUT) /* nothing is left that its collective could run beside */
    {
      sc_pass_temp (p, sc_pass_full_bytes (p));
      sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, p->h, n_out);
      if (p->sp)
        sc_pass_temp (p, sc_pass_rows_bytes (p));
      if (p->split)
        sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, sc_pass_full_bytes (p));
      if (p->sp)
        sc_pass_temp (p, -sc_pass_full_bytes (p));
      return;
    }
  if (p->sp)
    {
      sc_pass_temp (p, sc_pass_full_bytes (p)); /* the input's rows, gathered again for the weight gradient */
      sc_pass_collective (p, kind, SC_COMM_TP, SC_COLL_ALL_GATHER, l->regather, sc_pass_full_bytes (p));
    }
  sc_pass_temp (p, sc_pass_full_bytes (p));
  sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, p->h, n_out);
  if (p->sp && async)
    sc_pass_wait (p, SC_COMM_TP);
  if (p->sp)
    sc_pass_temp (p, sc_pass_rows_bytes (p));
  if (async)
    sc_pass_collective (p, kind, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, sc_pass_full_bytes (p));
  sc_pass_weight_gradient (p, l, n_out, p->h);
  if (async)
    sc_pass_wait (p, SC_COMM_TP);
  else if (p->split)
    sc_pass_collective (p, kind, SC_COMM_TP, p->sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, l->reduce, sc_pass_full_bytes (p));
  if (p->sp)
    sc_pass_temp (p, -2 * sc_pass_full_bytes (p));
}

/* The weight gradient alone, of a saved input whose rows are gathered now. */
void
sc_pass_column_weights (Pass *p, const Linear *l, double n_out)
{
  if (p->sp)
    {
      sc_pass_temp (p, sc_pass_full_bytes (p));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->regather, sc_pass_full_bytes (p));
    }
  sc_pass_weight_gradient (p, l, n_out, p->h);
  if (p->sp)
    sc_pass_temp (p, -sc_pass_full_bytes (p));
}

/* From dY's rows, which are the caller's, to dX[T, n_in]: leaves a temporary of that size.  Without the weight gradient
 * it leaves the gathered dY, too. */
void
sc_pass_row_backward (Pass *p, const Linear *l, double n_in)
{
  if (p->sp)
    {
      sc_pass_temp (p, sc_pass_full_bytes (p));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, l->gather, sc_pass_full_bytes (p));
    }
  sc_pass_temp (p, p->e * n_in * p->t);
  sc_pass_gemm (p, l->dgrad, SC_GEMM_NN, p->t, n_in, p->h);
  if (p->part == PART_INPUT)
    return;
  sc_pass_weight_gradient (p, l, p->h, n_in);
  if (p->sp)
    sc_pass_temp (p, -sc_pass_full_bytes (p));
}

void
sc_pass_norm_forward (Pass *p, const char *name)
{
  sc_pass_operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM : SC_OP_LAYERNORM, 2 * sc_pass_rows_bytes (p), p->model->hidden);
}

void
sc_pass_norm_backward (Pass *p, const char *name)
{
  sc_pass_operation (p, name, p->model->norm == SC_NORM_RMSNORM ? SC_OP_RMSNORM_BACKWARD : SC_OP_LAYERNORM_BACKWARD, 3 * sc_pass_rows_bytes (p),
             p->model->hidden);
}

/* bias, dropout and residual behind a row-parallel layer */
void
sc_pass_residual_forward (Pass *p, const char *fused, const char *bias, const char *dropout, const char *add)
{
  const double elements = p->h * p->t_sp;
  const double mask = p->model->dropout > 0 ? 1 : 0;
  if (p->fw->fused_dropout_add)
    {
      sc_pass_operation (p, fused, SC_OP_DROPOUT_ADD, (3 * p->e + mask) * elements, 0);
      return;
    }
  if (p->model->linear_bias)
    sc_pass_elementwise (p, bias, 2 * p->e * elements);
  if (mask > 0)
    sc_pass_elementwise (p, dropout, (2 * p->e + mask) * elements);
  sc_pass_operation (p, add, SC_OP_ADD, 3 * p->e * elements, 0);
}

/* Leaves a temporary of rows_bytes() if there is dropout; else the residual's gradient serves as it is. */
void
sc_pass_residual_backward (Pass *p, const char *dropout, const char *bias_grad, Tensor mask)
{
  if (p->model->dropout > 0)
    {
      sc_pass_temp (p, sc_pass_rows_bytes (p));
      sc_pass_elementwise (p, dropout, (2 * p->e + 1) * p->h * p->t_sp);
      sc_pass_spent (p, mask);
    }
  if (p->model->linear_bias && p->part == PART_WHOLE)
    sc_pass_reduction (p, bias_grad, sc_pass_rows_bytes (p));
}

/* The temporary that residual_backward() left, now spent, unless it is the output gradient that the weights wait for. */
void
sc_pass_residual_done (Pass *p)
{
  if (p->model->dropout > 0 && (p->part == PART_WHOLE || p->sp))
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

/* The residual's gradient behind the sum that takes its place.  Without dropout and gathered copies it is the output
 * gradient itself that the weights wait for. */
void
sc_pass_residual_summed (Pass *p)
{
  if (p->model->dropout > 0 || p->part == PART_WHOLE || p->sp)
    sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

/* The weight gradient of a row-parallel layer alone: of the dY over all tokens that was left for it. */
void
sc_pass_row_weights (Pass *p, const Linear *l, double n_in, Tensor input)
{
  if (p->model->linear_bias)
    sc_pass_reduction (p, l->bias_grad, sc_pass_rows_bytes (p));
  sc_pass_weight_gradient (p, l, p->h, n_in);
  sc_pass_spent (p, input);
  sc_pass_temp (p, -sc_pass_full_bytes (p));
}
