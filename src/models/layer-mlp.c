/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-mlp.c - the dense half of a layer: two or three matrices and what stands between them. */
#include "models/layer-pass.h"

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

/* Of shared experts. */
static const Linear linear_shared_fc1 = {
  "shared fc1",
  "shared fc1 dgrad",
  "shared fc1 wgrad",
  "shared fc1 gradient add",
  "shared fc1 bias gradient",
  "shared fc1 all-gather",
  "shared fc1 input all-gather",
  "shared fc1 gradient reduce",
};

static const Linear linear_shared_fc2 = {
  "shared fc2", "shared fc2 dgrad", "shared fc2 wgrad", "shared fc2 gradient add", "shared fc2 bias gradient", "shared fc2 gradient all-gather",
  NULL, "shared fc2 reduce",
};

static const Linear *
fc1 (const Pass *p)
{
  return p->shape->kind.experts ? &linear_shared_fc1 : &linear_fc1;
}

static const Linear *
fc2 (const Pass *p)
{
  return p->shape->kind.experts ? &linear_shared_fc2 : &linear_fc2;
}

static void
activation_forward (Pass *p)
{
  const double b = p->e * p->f * p->t;
  const double in = p->model->gated_mlp ? 2 : 1;
  if (p->fw->fused_gelu)
    {
      sc_pass_operation (p, p->model->gated_mlp ? "swiglu" : "gelu", p->model->gated_mlp ? SC_OP_SWIGLU : SC_OP_GELU, (in + 1) * b, 0);
      return;
    }
  if (sc_pass_has_mlp_bias (p) && !p->fw->fused_bias)
    sc_pass_elementwise (p, "fc1 bias", 2 * in * b);
  sc_pass_elementwise (p, p->model->gated_mlp ? "silu" : "gelu", 2 * b);
  if (p->model->gated_mlp)
    sc_pass_elementwise (p, "gate", 3 * b);
}

static void
fc1_bias_gradient (Pass *p, double bytes)
{
  if (sc_pass_has_mlp_bias (p) && !p->fw->fused_bias)
    sc_pass_reduction (p, fc1 (p)->bias_grad, bytes);
}

static void
activation_backward (Pass *p)
{
  const double b = p->e * p->f * p->t;
  const double in = p->model->gated_mlp ? 2 : 1;
  if (p->fw->fused_gelu || !p->model->gated_mlp)
    sc_pass_operation (p, p->model->gated_mlp ? "swiglu backward" : "gelu backward", p->model->gated_mlp ? SC_OP_SWIGLU_BACKWARD : SC_OP_GELU_BACKWARD,
               (1 + 2 * in) * b, 0);
  else
    {
      sc_pass_elementwise (p, "gate backward", 5 * b);
      sc_pass_elementwise (p, "silu backward", 3 * b);
    }
  if (p->part == PART_WHOLE)
    fc1_bias_gradient (p, in * b);
}

/* Width of what the first product makes. */
static double
fc1_width (const Pass *p)
{
  return (p->model->gated_mlp ? 2 : 1) * p->f;
}

void
sc_pass_mlp_up_forward (Pass *p)
{
  sc_pass_born (p, FC1_OUT);
  if (!p->ops)
    sc_pass_column_forward (p, fc1 (p), fc1_width (p));
  else if (p->model->gated_mlp)
    sc_pass_column_forward (p, fc1 (p), p->f); /* every second product again: one branch */
  if (!p->shape->kind.experts)
    sc_pass_used (p, NORM2_OUT);
  sc_pass_born (p, GATE_OUT);
  sc_pass_born (p, FC2_IN);
  activation_forward (p);
  sc_pass_used (p, FC1_OUT);
  sc_pass_used (p, GATE_OUT);
}

void
sc_pass_mlp_down_forward (Pass *p)
{
  if (p->ops) /* the output was kept */
    {
      sc_pass_temp (p, sc_pass_rows_bytes (p));
      return;
    }
  sc_pass_row_forward (p, fc2 (p), p->f);
  sc_pass_used (p, FC2_IN);
}

void
sc_pass_mlp_forward (Pass *p, gboolean to_end)
{
  sc_pass_mlp_up_forward (p);
  if (to_end)
    sc_pass_mlp_down_forward (p);
}

/* Each operation makes a gradient of its own: the product two, SiLU one, and both branches are put side by side. */
static void
written_out_backward (Pass *p)
{
  const double branch = p->e * p->f * p->t;
  sc_pass_temp (p, branch);
  sc_pass_temp (p, branch);
  activation_backward (p);
  sc_pass_temp (p, -branch); /* the output's */
  sc_pass_spent (p, GATE_OUT);
  sc_pass_temp (p, branch);
  sc_pass_temp (p, -branch);
  sc_pass_spent (p, FC1_OUT);
  sc_pass_temp (p, 2 * branch);
  sc_pass_temp (p, -branch);
  sc_pass_temp (p, -branch);
}

void
sc_pass_mlp_down_backward (Pass *p)
{
  if (!p->shape->kind.experts && sc_pass_repeats (p, SC_MODULE_MLP_ACT) && !sc_pass_repeats (p, SC_MODULE_MLP))
    {
      p->time = SC_TIME_RECOMPUTE;
      sc_pass_born (p, GATE_OUT);
      sc_pass_born (p, FC2_IN);
      activation_forward (p);
      sc_pass_cast_again (p, TRUE, p->f * p->t);
      p->time = SC_TIME_BACKWARD;
    }
  sc_pass_row_backward (p, fc2 (p), p->f);
  sc_pass_residual_done (p);
  sc_pass_spent_on_weights (p, FC2_IN);
  if (p->fw->keeps_silu && p->model->gated_mlp)
    {
      written_out_backward (p);
      return;
    }
  sc_pass_temp (p, p->e * fc1_width (p) * p->t);
  activation_backward (p);
  sc_pass_temp (p, -p->e * p->f * p->t);
  sc_pass_spent (p, FC1_OUT);
}

void
sc_pass_mlp_up_backward (Pass *p)
{
  sc_pass_column_backward (p, fc1 (p), fc1_width (p));
  sc_pass_temp_of_weights (p, -p->e * fc1_width (p) * p->t);
}

void
sc_pass_mlp_backward (Pass *p)
{
  sc_pass_mlp_down_backward (p);
  sc_pass_mlp_up_backward (p);
  sc_pass_spent_on_weights (p, NORM2_OUT);
}

void
sc_pass_mlp_weights (Pass *p)
{
  sc_pass_row_weights (p, fc2 (p), p->f, FC2_IN);
  fc1_bias_gradient (p, p->e * fc1_width (p) * p->t);
  sc_pass_column_weights (p, fc1 (p), fc1_width (p));
  sc_pass_temp (p, -p->e * fc1_width (p) * p->t);
  sc_pass_spent (p, NORM2_OUT);
}
