/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-mtp.c - modules that predict further tokens (DeepSeek-V3, arXiv 2412.19437 section 2.2; NVIDIA/Megatron-LM
 * core/transformer/multi_token_prediction.py): the embedding of the next token and the hidden state, each normed, a matrix from both to hidden,
 * a layer, the head.  They stand on the last stage, in front of the head, whose table they share; the embedding's is a copy
 * unless the first stage is on the same rank. */
#include "models/layer-pass.h"

static const Linear linear_mtp = { "mtp projection", "mtp projection dgrad", "mtp projection wgrad", "mtp projection gradient add", NULL,
                                   "mtp all-gather", "mtp input all-gather", "mtp gradient reduce" };

/* Alike the model's last layers; it is repeated by itself. */
static ScLayerShape
module_shape (const ScLayerShape *shape)
{
  ScLayerShape s = *shape;
  s.kind.experts = s.model->experts > 0;
  s.kind.recompute.first = s.kind.recompute.last = s.kind.recompute.full;
  return s;
}

static double
width (const Pass *p)
{
  return p->h / p->plan->tp;
}

/* What the norms need, born or, with @sign -1, gone: both inputs, which the module takes over, deviations ... */
static void
saved (Pass *p, int sign)
{
  sc_pass_end_tensor (p, MTP_IN, sign * 2 * sc_pass_rows_bytes (p));
  sc_pass_end_tensor (p, MTP_STATS, sign * 2 * sc_pass_tensor_bytes (p, NORM1_STATS));
}

/* ... and the matrix: both normed. */
static void
saved_for_weights (Pass *p, int sign)
{
  sc_pass_end_tensor (p, MTP_NORMED, sign * 2 * sc_pass_rows_bytes (p));
}

static void
join_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_FORWARD);
  p.buffers = FALSE; /* none of its name */
  saved (&p, 1);
  saved_for_weights (&p, 1);
  sc_pass_norm_forward (&p, "mtp embedding norm");
  sc_pass_norm_forward (&p, "mtp hidden norm");
  sc_pass_operation (&p, "mtp concatenate", SC_OP_COPY, 4 * sc_pass_rows_bytes (&p), 0);
  sc_pass_temp (&p, p.e * width (&p) * p.t);
  sc_pass_column_forward_from (&p, &linear_mtp, 2 * p.h, width (&p));
  if (p.split) /* the layer wants all of hidden */
    {
      sc_pass_temp (&p, sc_pass_full_bytes (&p));
      sc_pass_collective (&p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, "mtp projection all-gather", sc_pass_full_bytes (&p));
      sc_pass_temp (&p, -p.e * width (&p) * p.t);
      sc_pass_temp (&p, -sc_pass_full_bytes (&p));
    }
  else
    sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
}

/* From the gradient of the layer's input, taken over, to that of the embedding's rows, handed on; that of the hidden state is added to what
 * the head left. */
static void
join_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.buffers = FALSE; /* none of its name */
  p.part = part;
  sc_pass_temp (&p, sc_pass_rows_bytes (&p));
  if (p.split)
    {
      sc_pass_temp (&p, p.e * width (&p) * p.t);
      if (p.sp)
        sc_pass_collective (&p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, "mtp projection gradient all-gather", sc_pass_full_bytes (&p));
      sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
    }
  sc_pass_column_backward_from (&p, &linear_mtp, 2 * p.h, width (&p));
  sc_pass_temp_of_weights (&p, -p.e * width (&p) * p.t);
  for (guint i = 0; i < 2; i++)
    sc_pass_temp (&p, sc_pass_rows_bytes (&p));
  sc_pass_norm_backward (&p, "mtp embedding norm backward");
  sc_pass_norm_backward (&p, "mtp hidden norm backward");
  sc_pass_temp (&p, -2 * sc_pass_rows_bytes (&p));
  sc_pass_operation (&p, "mtp hidden gradient add", SC_OP_ADD, 3 * sc_pass_rows_bytes (&p), 0);
  for (guint i = 0; i < 2; i++)
    sc_pass_temp (&p, -sc_pass_rows_bytes (&p));
  saved (&p, -1);
  if (part == PART_WHOLE)
    saved_for_weights (&p, -1);
}

static void
join_weights (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.buffers = FALSE; /* none of its name */
  p.part = PART_WEIGHT;
  sc_pass_column_weights_from (&p, &linear_mtp, 2 * p.h, width (&p));
  sc_pass_temp (&p, -p.e * width (&p) * p.t);
  saved_for_weights (&p, -1);
}

/* The gradient of the hidden state waits beside the modules. */
static void
waiting (const ScLayerShape *shape, gboolean begins, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  sc_pass_temp (&p, begins ? sc_pass_rows_bytes (&p) : -sc_pass_rows_bytes (&p));
}

void
sc_mtp_forward (const ScLayerShape *shape, GArray *items)
{
  const ScLayerShape module = module_shape (shape);
  for (guint i = 0; i < shape->model->mtp_layers; i++)
    {
      sc_embedding_forward (&module, items);
      join_forward (&module, items);
      sc_layer_forward (&module, items);
      sc_head_forward (&module, items);
    }
}

void
sc_mtp_backward (const ScLayerShape *shape, GArray *items)
{
  const ScLayerShape module = module_shape (shape);
  for (guint i = 0; i < shape->model->mtp_layers; i++)
    {
      waiting (&module, TRUE, items);
      sc_head_backward (&module, items);
      sc_layer_backward (&module, items);
      join_backward (&module, PART_WHOLE, items);
      sc_embedding_backward (&module, items);
      waiting (&module, FALSE, items);
    }
}

void
sc_mtp_backward_input (const ScLayerShape *shape, GArray *items)
{
  const ScLayerShape module = module_shape (shape);
  for (guint i = 0; i < shape->model->mtp_layers; i++)
    {
      waiting (&module, TRUE, items);
      sc_head_backward_input (&module, items);
      sc_layer_backward_input (&module, items);
      join_backward (&module, PART_INPUT, items);
      sc_embedding_backward_input (&module, items);
      waiting (&module, FALSE, items);
    }
}

void
sc_mtp_backward_weight (const ScLayerShape *shape, GArray *items)
{
  const ScLayerShape module = module_shape (shape);
  for (guint i = 0; i < shape->model->mtp_layers; i++)
    {
      sc_head_backward_weight (&module, items);
      sc_layer_backward_weight (&module, items);
      join_weights (&module, items);
      sc_embedding_backward_weight (&module, items);
    }
}
