/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-vocab.c - the passes over a vocabulary that the ranks of a pipeline share out (arXiv 2411.05288, section 4): kernels and tensors as in
 * sail-sg/VocabularyParallelism megatron/core/tensor_parallel/vocab_output.py, vocab_input.py.  What is broadcast before a pass, and summed behind
 * it, is lower-vocab.c's. */
#include <math.h>
#include "models/layer-pass.h"

static const Linear linear_logits = { "logits", "logits dgrad", "logits wgrad", "logits gradient add", NULL, NULL, NULL, NULL };

static Pass
vocab_pass (const ScLayerShape *shape, GArray *items, ScTimeKind time)
{
  Pass p = sc_pass_new (shape, items, time);
  sc_pass_wide (&p);
  p.buffers = FALSE;
  return p;
}

/* This rank's rows of a table. */
static double
rows_of (const Pass *p)
{
  return ceil ((double) p->model->vocab / p->plan->pp);
}

static void
sum (Pass *p, const char *name, double bytes)
{
  if (p->plan->vocab_parallel == SC_VOCAB_INTERLACED)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_VOCAB_SYNC, SC_COLL_ALL_REDUCE, name, bytes);
}

/* Rows of this rank, zeroes for tokens of others; copied twice, and the last copy stays until it has been summed. */
static void
table (const ScLayerShape *shape, GArray *items)
{
  Pass p = vocab_pass (shape, items, SC_TIME_FORWARD);
  const double bytes = sc_pass_full_bytes (&p);
  sc_pass_end_tensor (&p, TOKEN_IDS, 8 * p.t);
  sc_pass_temp (&p, bytes);
  sc_pass_operation (&p, "embedding", SC_OP_EMBEDDING, 2 * bytes, 0);
  sc_pass_elementwise (&p, "embedding mask", bytes);
  sc_pass_temp (&p, bytes);
  sc_pass_elementwise (&p, "embedding copy", 2 * bytes);
  sc_pass_temp (&p, -bytes);
  sc_pass_mem (&p, SC_MEM_COMM, bytes);
  sc_pass_elementwise (&p, "embedding copy", 2 * bytes);
  sc_pass_temp (&p, -bytes);
}

static void
table_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = vocab_pass (shape, items, SC_TIME_BACKWARD);
  const double n = rows_of (&p) * p.h;
  sc_pass_gradient (&p, p.e * n);
  sc_pass_elementwise (&p, "embedding gradient zero", p.e * n);
  sc_pass_operation (&p, "embedding gradient", SC_OP_EMBEDDING_BACKWARD, sc_pass_full_bytes (&p) + 8 * p.h * p.t / p.plan->pp, 0);
  if (sc_pass_adds_gradients (&p))
    sc_pass_elementwise (&p, "embedding gradient add", (p.e + 2 * p.grad) * n);
  sc_pass_gradient (&p, -p.e * n);
  sc_pass_end_tensor (&p, TOKEN_IDS, -8 * p.t);
}

/* From the input, which is broadcast in fp32, to a softmax over this rank's part, in fp32 and kept. */
static void
logits_forward (Pass *p, double n)
{
  const double bytes = sc_pass_full_bytes (p);
  const gboolean interlaced = p->plan->vocab_parallel == SC_VOCAB_INTERLACED;
  sc_pass_end_tensor (p, LOGITS_IN, bytes);
  if (interlaced)
    sc_pass_collective (p, SC_ITEM_COLLECTIVE, SC_COMM_VOCAB_SYNC, SC_COLL_BROADCAST, "logits input", bytes);
  else
    {
      sc_pass_temp (p, 4 * p->h * p->t);
      sc_pass_elementwise (p, "logits input copy", 8 * p->h * p->t);
      sc_pass_operation (p, "logits input to 16 bits", SC_OP_CAST, (4 + p->e) * p->h * p->t, 0);
      sc_pass_temp (p, -4 * p->h * p->t);
    }
  sc_pass_end_tensor (p, LOGITS, p->e * n);
  sc_pass_gemm (p, linear_logits.fprop, SC_GEMM_TN, p->t, rows_of (p), p->h);
  sc_pass_end_tensor (p, LOGITS_FP32, 4 * n);
  sc_pass_operation (p, "loss: to fp32", SC_OP_CAST, (p->e + 4) * n, 0);
  sc_pass_end_tensor (p, LOGITS, -p->e * n);
  sc_pass_reduction (p, "loss: maximum", 4 * n);
  sum (p, "loss maximum", 4 * p->t);
  sc_pass_elementwise (p, "loss: subtract", 8 * n);
  sum (p, "loss targets", 4 * p->t);
  sc_pass_elementwise (p, "loss: exponentials", 8 * n);
  sc_pass_reduction (p, "loss: sum", 4 * n);
  sum (p, "loss sum", 4 * p->t);
  sc_pass_elementwise (p, "loss: softmax", 8 * n);
}

/* The softmax in 16 bits, as products read it. */
static void
narrow (Pass *p, double n, int sign)
{
  sc_pass_end_tensor (p, LOGITS_GRADIENT, sign * p->e * n);
  if (sign > 0)
    sc_pass_operation (p, "loss: gradient to 16 bits", SC_OP_CAST, (4 + p->e) * n, 0);
}

static void
input_gradient (Pass *p)
{
  sc_pass_mem (p, SC_MEM_COMM, sc_pass_full_bytes (p));
  sc_pass_gemm (p, linear_logits.dgrad, SC_GEMM_NN, p->t, p->h, rows_of (p));
}

static void
spend (Pass *p, double n)
{
  narrow (p, n, -1);
  sc_pass_end_tensor (p, LOGITS_FP32, -4 * n);
  sc_pass_end_tensor (p, LOGITS_IN, -sc_pass_full_bytes (p));
}

/* All of it at once, between sums that everybody waits for. */
static void
interlaced_backward (Pass *p, double n)
{
  p->time = SC_TIME_BACKWARD;
  sc_pass_elementwise (p, "loss backward", 8 * n);
  narrow (p, n, 1);
  input_gradient (p);
  sc_pass_collective (p, SC_ITEM_COLLECTIVE_START, SC_COMM_VOCAB_SYNC, SC_COLL_ALL_REDUCE, "gradient of the logits' input", sc_pass_full_bytes (p));
  sc_pass_weight_gradient_over (p, &linear_logits, rows_of (p), p->h, p->t);
  sc_pass_wait (p, SC_COMM_VOCAB_SYNC);
  spend (p, n);
  sc_pass_mem (p, SC_MEM_COMM, -sc_pass_full_bytes (p));
}

static void
logits (const ScLayerShape *shape, GArray *items)
{
  Pass p = vocab_pass (shape, items, SC_TIME_FORWARD);
  const double n = p.t * rows_of (&p);
  logits_forward (&p, n);
  if (p.plan->vocab_parallel == SC_VOCAB_INTERLACED)
    interlaced_backward (&p, n);
  if (p.plan->vocab_parallel != SC_VOCAB_2)
    return;
  /* both parts of the gradient of the input, which differ by numbers that are not known yet: softmax and targets times the weights */
  p.time = SC_TIME_BACKWARD;
  narrow (&p, n, 1);
  input_gradient (&p);
  sc_pass_mem (&p, SC_MEM_COMM, sc_pass_full_bytes (&p));
  sc_pass_operation (&p, "rows of the targets", SC_OP_EMBEDDING, 2 * sc_pass_full_bytes (&p), 0);
  narrow (&p, n, -1);
}

static void
logits_weight (const ScLayerShape *shape, GArray *items)
{
  Pass p = vocab_pass (shape, items, SC_TIME_BACKWARD);
  const double n = p.t * rows_of (&p), bytes = sc_pass_full_bytes (&p);
  const gboolean first = p.plan->vocab_parallel == SC_VOCAB_1;
  if (!first) /* what autograd hands on and nobody reads */
    {
      sc_pass_temp (&p, bytes);
      sc_pass_elementwise (&p, "gradient of the logits' input, zeroes", bytes);
    }
  sc_pass_elementwise (&p, "loss: softmax of all", 8 * n);
  sc_pass_elementwise (&p, "loss backward", 8 * n);
  narrow (&p, n, 1);
  if (first)
    input_gradient (&p);
  sc_pass_weight_gradient_over (&p, &linear_logits, rows_of (&p), p.h, p.t);
  spend (&p, n);
  if (!first)
    sc_pass_temp (&p, -bytes);
}

void
sc_vocab_list (const ScLayerShape *shape, ScPass pass, GArray *items)
{
  static void (*const listers[]) (const ScLayerShape *shape, GArray *items) = { table, logits, logits_weight, table_weight }; /* in the order of ScPass */
  G_STATIC_ASSERT (G_N_ELEMENTS (listers) == SC_N_SLOT_PASSES - SC_N_PASSES);
  g_return_if_fail (sc_pass_of_vocabulary (pass));
  listers[pass - SC_N_PASSES](shape, items);
}
