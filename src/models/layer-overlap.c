/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-overlap.c - products in chunks, beside the exchange of the rows that come next or the sum of those that went before:
 * tensor-parallel overlap with user buffers (NVIDIA/TransformerEngine pytorch/module/base.py, initialize_ub(); MODELLING 6.2).
 *
 * Of n chunks, with G the product's time and C that of its collective:
 *   ring exchange (gather, then product)   G / n + (n - 1) max (G / n, C / (n - 1)), n = tp
 *   pipelined     (product, then sum)      G / n + (n - 1) max (G / n, C / n) + C / n, n = 4
 * Transformer Engine knows buffers of four names, qkv, proj, fc1 and fc2; other products gather and sum as ever (Megatron-LM
 * core/extensions/transformer_engine.py).
 *
 * A chunk is a product of its own rows, so what splitting costs in waves is in its price.  Gradients of inputs and weights have
 * their collectives beside them whole (bulk): sc_pass_column_backward(). */
#include "models/layer-pass.h"

#define PIPELINE_CHUNKS 4 /* num_splits of initialize_ub() */

/* Buffers that collectives read and write in place live for the whole run: one for each of qkv, projection, fc1 and fc2 and of forward,
 * input and weight gradients that has a collective, all but the weight gradients of projection and fc2.  What is gathered lies in them
 * as the products read it: inputs of qkv and fc1, again with their weight gradients, output gradients of projection and fc2. */
#define BUFFERS_GATHERED 6
#define BUFFERS_SUMMED 4

gboolean
sc_pass_overlaps (const Pass *p)
{
  return p->buffers;
}

void
sc_pass_in_buffers (Pass *p)
{
  g_array_index (p->items, ScItem, p->items->len - 1).buffers = p->buffers;
}

/* Issued by the library in one call with what stands before it. */
static void
together (Pass *p)
{
  g_array_index (p->items, ScItem, p->items->len - 1).together = TRUE;
}

/* X[T / tp, k] of each rank times W: its own first, while those of the rank before arrive. */
void
sc_pass_gathered_gemm (Pass *p, const char *gather, const char *name, ScGemmLayout layout, double n, double k, double width)
{
  const guint chunks = p->plan->tp;
  const double bytes = sc_pass_operand_bytes (p) * width * p->t / chunks;
  for (guint i = 0; i < chunks; i++)
    {
      if (i > 0)
        sc_pass_wait (p, SC_COMM_TP);
      if (i + 1 < chunks)
        {
          sc_pass_collective (p, SC_ITEM_COLLECTIVE_START, SC_COMM_TP, SC_COLL_SEND_RECEIVE, gather, bytes);
          sc_pass_in_buffers (p);
          together (p);
        }
      sc_pass_gemm (p, name, layout, p->t / chunks, n, k);
      if (i > 0)
        together (p);
    }
}

/* Y[T, n] of which each chunk of rows is summed and scattered while the next is computed. */
void
sc_pass_reduced_gemm (Pass *p, const char *reduce, const char *name, ScGemmLayout layout, double n, double k)
{
  for (guint i = 0; i < PIPELINE_CHUNKS; i++)
    {
      sc_pass_gemm (p, name, layout, p->t / PIPELINE_CHUNKS, n, k);
      if (i > 0)
        together (p);
      sc_pass_collective (p, SC_ITEM_COLLECTIVE_START, SC_COMM_TP, SC_COLL_REDUCE_SCATTER, reduce, p->e * n * p->t / PIPELINE_CHUNKS);
      sc_pass_in_buffers (p);
      together (p);
    }
  for (guint i = 0; i < PIPELINE_CHUNKS; i++)
    sc_pass_wait (p, SC_COMM_TP);
}

double
sc_user_buffer_bytes (const ScLayerShape *shape)
{
  const Pass p = sc_pass_new (shape, NULL, SC_TIME_FORWARD);
  const double elements = p.h * p.t;
  return sc_pass_overlaps (&p) ? (BUFFERS_GATHERED * sc_pass_operand_bytes (&p) + BUFFERS_SUMMED * p.e) * elements : 0;
}
