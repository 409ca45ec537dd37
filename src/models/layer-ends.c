/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-ends.c - what stands before the first layer and behind the last one: embedding, head and loss. */
#include <math.h>
#include "models/layer-pass.h"

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
    bytes += sc_pass_rows_bytes (p);
  if (p->model->dropout > 0)
    bytes += p->h * p->t_sp;
  return bytes;
}

void
sc_embedding_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_FORWARD);
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, embedding_saved (&p));
  sc_pass_temp (&p, sc_pass_full_bytes (&p));
  sc_pass_operation (&p, "embedding", SC_OP_EMBEDDING, 2 * sc_pass_full_bytes (&p), 0);
  if (p.split)
    {
      sc_pass_elementwise (&p, "embedding mask", sc_pass_full_bytes (&p)); /* zeroes the rows of other ranks' tokens */
      if (p.sp)
        sc_pass_temp (&p, sc_pass_rows_bytes (&p));
      sc_pass_collective (&p, SC_ITEM_COLLECTIVE, SC_COMM_TP, p.sp ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE, "embedding reduce",
                  sc_pass_full_bytes (&p));
      if (p.sp)
        sc_pass_temp (&p, -sc_pass_full_bytes (&p));
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
  const double table = vocab_rank (p) * p->h;
  if (p->model->positions == SC_POSITIONS_LEARNED)
    sc_pass_reduction (p, "positions gradient", sc_pass_rows_bytes (p));
  if (p->sp)
    {
      sc_pass_temp (p, sc_pass_full_bytes (p));
      sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_GATHER, "embedding gradient all-gather", sc_pass_full_bytes (p));
    }
  /* autograd makes a dense gradient of the table: zeroed, then one row added per token, then added to the buffer */
  sc_pass_temp (p, p->e * table);
  sc_pass_elementwise (p, "embedding gradient zero", p->e * table);
  sc_pass_operation (p, "embedding gradient", SC_OP_EMBEDDING_BACKWARD, sc_pass_full_bytes (p) + 8 * p->h * p->t, 0);
  sc_pass_elementwise (p, "embedding gradient add", (p->e + 2 * p->grad) * table);
  sc_pass_temp (p, -p->e * table);
  if (p->sp)
    sc_pass_temp (p, -sc_pass_full_bytes (p));
  sc_pass_temp (p, -sc_pass_rows_bytes (p));
}

void
sc_embedding_backward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  embedding_weights (&p);
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, -embedding_saved (&p));
}

void
sc_embedding_backward_input (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_input (&p);
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, 8 * p.t - embedding_saved (&p)); /* but for the ids */
}

void
sc_embedding_backward_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  embedding_weights (&p);
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, -8 * p.t);
}

static double
head_saved (const Pass *p)
{
  return 2 * sc_pass_rows_bytes (p) + sc_pass_tensor_bytes (p, NORM1_STATS); /* input and output of the final norm */
}

static void
loss_reduce (Pass *p, const char *name)
{
  if (p->split)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_TP, SC_COLL_ALL_REDUCE, name, 4 * p->t);
}

void
sc_head_forward (const ScLayerShape *shape, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_FORWARD);
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, head_saved (&p));
  sc_pass_norm_forward (&p, "final norm");
  sc_pass_mem (&p, SC_MEM_LOGITS, p.e * n);
  sc_pass_column_forward (&p, &linear_head, width);

  /* Cross entropy over a split vocabulary works on an fp32 copy, which becomes the softmax that backward needs. */
  sc_pass_mem (&p, SC_MEM_LOGITS, 4 * n);
  if (p.fw->fused_loss)
    {
      sc_pass_reduction (&p, "loss: to fp32, maximum", (p.e + 4) * n);
      sc_pass_mem (&p, SC_MEM_LOGITS, -p.e * n);
      loss_reduce (&p, "loss maximum");
      sc_pass_reduction (&p, "loss: exponentials, sum", 8 * n);
      loss_reduce (&p, "loss sums");
      sc_pass_elementwise (&p, "loss: softmax", 8 * n);
      return;
    }
  sc_pass_operation (&p, "loss: to fp32", SC_OP_CAST, (p.e + 4) * n, 0);
  sc_pass_mem (&p, SC_MEM_LOGITS, -p.e * n);
  sc_pass_reduction (&p, "loss: maximum", 4 * n);
  loss_reduce (&p, "loss maximum");
  sc_pass_elementwise (&p, "loss: subtract", 8 * n);
  loss_reduce (&p, "loss targets");
  sc_pass_elementwise (&p, "loss: exponentials", 8 * n);
  sc_pass_reduction (&p, "loss: sum", 4 * n);
  loss_reduce (&p, "loss sum");
  sc_pass_elementwise (&p, "loss: softmax", 8 * n);
}

static void
head_backward (const ScLayerShape *shape, Part part, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = part;
  const double width = vocab_rank (&p);
  const double n = p.t * width;
  sc_pass_mem (&p, SC_MEM_LOGITS, p.e * n);
  if (p.fw->fused_loss)
    sc_pass_elementwise (&p, "loss backward", (4 + p.e) * n);
  else
    {
      sc_pass_elementwise (&p, "loss backward", 8 * n); /* in place: times the gradient of the loss */
      sc_pass_operation (&p, "loss: gradient to 16 bits", SC_OP_CAST, (4 + p.e) * n, 0);
    }
  sc_pass_mem (&p, SC_MEM_LOGITS, -4 * n);
  sc_pass_column_backward (&p, &linear_head, width);
  if (part == PART_WHOLE)
    sc_pass_mem (&p, SC_MEM_LOGITS, -p.e * n);
  sc_pass_temp (&p, sc_pass_rows_bytes (&p));
  sc_pass_norm_backward (&p, "final norm backward");
  sc_pass_temp (&p, -2 * sc_pass_rows_bytes (&p)); /* the norm's output gradient; its input gradient is handed on */
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, (part == PART_WHOLE ? 0 : sc_pass_rows_bytes (&p)) - head_saved (&p)); /* the output of the norm stays */
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
  Pass p = sc_pass_new (shape, items, SC_TIME_BACKWARD);
  p.part = PART_WEIGHT;
  const double width = vocab_rank (&p);
  sc_pass_column_weights (&p, &linear_head, width);
  sc_pass_mem (&p, SC_MEM_LOGITS, -p.e * p.t * width);
  sc_pass_mem (&p, SC_MEM_ACTIVATIONS, -sc_pass_rows_bytes (&p));
}
