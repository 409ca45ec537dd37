/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-vocab.c - passes over a vocabulary that the ranks of a pipeline share out: what one rank has goes to all of them, what they make of it is summed,
 * beside compute, on a communicator and a stream of their own. */
#include "models/lower-parts.h"
#include "models/model.h"

/* What passes wait for, and buffers that stay until the next micro-batch's take their place. */
struct _LowerVocab
{
  guint32 *done;  /* [passes of the vocabulary * m] event behind the pass ... */
  guint32 *there; /* ... and behind the collective before or behind it, or SC_NONE */
  double received, summed; /* bytes of the buffers that stay */
};

static gsize
index_of (const Lower *l, guint pass, guint microbatch)
{
  return (pass - SC_N_PASSES) * (gsize) l->orders->m + microbatch;
}

void
sc_lower_vocab_begin (Lower *l)
{
  if (l->orders->vocab == SC_VOCAB_ENDS)
    return;
  const gsize n = (SC_N_SLOT_PASSES - SC_N_PASSES) * (gsize) l->orders->m;
  LowerVocab *const v = l->vocab = g_new0 (LowerVocab, 1);
  v->done = g_new (guint32, n);
  v->there = g_new (guint32, n);
  for (gsize i = 0; i < n; i++)
    v->done[i] = v->there[i] = SC_NONE;
}

static void
set_buffer (Lower *l, double *buffer, double bytes)
{
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -*buffer, NULL);
  *buffer = bytes;
}

void
sc_lower_vocab_end (Lower *l)
{
  LowerVocab *const v = l->vocab;
  if (v == NULL)
    return;
  set_buffer (l, &v->received, 0);
  set_buffer (l, &v->summed, 0);
  g_free (v->done);
  g_free (v->there);
  g_clear_pointer (&l->vocab, g_free);
}

static double
full_bytes (const Lower *l)
{
  const ScLayerShape shape = sc_layer_shape (l->in->workload, NULL);
  return shape.act_bytes * shape.tokens * shape.model->hidden;
}

/* Of hidden states in fp32 with a column for the gradient of the loss (sail-sg/VocabularyParallelism, broadcast_lm_head_input()); or, to the table,
 * of a gradient as it is. */
static double
broadcast_bytes (const Lower *l, guint pass)
{
  const ScLayerShape shape = sc_layer_shape (l->in->workload, NULL);
  return pass == SC_PASS_LOGITS ? 4 * shape.tokens * (shape.model->hidden + 1.0) : full_bytes (l);
}

static guint32
vocab_comm (const Lower *l)
{
  return sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_VOCAB, FALSE);
}

static void
call (Lower *l, ScCollKind kind, double bytes, const char *name)
{
  sc_lower_put_call (l, SC_STREAM_VOCAB, sc_lower_call_of (l, vocab_comm (l), kind, bytes), sc_lower_label (l, name), sc_lower_issue_ns (l, SC_TIME_BACKWARD));
}

/* All ranks get the input of @slot, from behind what is on compute so far. */
void
sc_lower_put_broadcast (Lower *l, const ScSlot *slot)
{
  LowerVocab *const v = l->vocab;
  const double bytes = broadcast_bytes (l, slot->pass);
  const gboolean input = slot->pass == SC_PASS_LOGITS;
  l->info = (ScOpInfo) { slot->microbatch, 0, SC_INFO_NO_LAYER, input ? 0 : 1 };
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_COMM, bytes, input ? "broadcast input of the logits" : "broadcast gradient of the embedding");
  if (input)
    set_buffer (l, &v->received, bytes);
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_VOCAB);
  call (l, SC_COLL_BROADCAST, bytes, input ? "logits input" : "embedding gradient");
  v->there[index_of (l, slot->pass, slot->microbatch)] = sc_lower_put_record (l, SC_STREAM_VOCAB);
}

/* What @slot left is summed over all ranks: of logits three numbers a token, which the second algorithm's gradients are then scaled by. */
void
sc_lower_put_sum (Lower *l, const ScSlot *slot)
{
  LowerVocab *const v = l->vocab;
  const gsize i = index_of (l, slot->pass, slot->microbatch);
  const ScLayerShape shape = sc_layer_shape (l->in->workload, NULL);
  const double bytes = full_bytes (l);
  const gboolean first_stage = l->at.pp == 0; /* of both placements that have room for these passes */
  l->info = (ScOpInfo) { slot->microbatch, 0, SC_INFO_NO_LAYER, slot->pass == SC_PASS_LOGITS_WEIGHT ? 1 : 0 };
  sc_program_wait (l->p, SC_STREAM_VOCAB, v->done[i]);
  if (slot->pass == SC_PASS_LOGITS)
    {
      static const char *const names[] = { "loss maximum", "loss targets", "loss sum" };
      for (guint k = 0; k < G_N_ELEMENTS (names); k++)
        call (l, SC_COLL_ALL_REDUCE, 4 * shape.tokens, names[k]);
      if (l->plan->vocab_parallel == SC_VOCAB_2)
        sc_lower_put_copy (l, SC_STREAM_VOCAB, SC_TIME_COMM_PP, "gradient of the logits' input, scaled", 5 * bytes);
    }
  if (slot->pass == SC_PASS_TABLE)
    call (l, SC_COLL_ALL_REDUCE, bytes, "embedding");
  else if (slot->pass == SC_PASS_LOGITS_WEIGHT || l->plan->vocab_parallel == SC_VOCAB_2)
    {
      call (l, SC_COLL_ALL_REDUCE, bytes, "gradient of the logits' input");
      set_buffer (l, &v->summed, bytes);
    }
  if (slot->pass == SC_PASS_LOGITS && l->plan->vocab_parallel == SC_VOCAB_2) /* the targets' part is in the other */
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -bytes);
  if (slot->pass == SC_PASS_TABLE && !first_stage)
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -bytes);
  v->there[i] = sc_lower_put_record (l, SC_STREAM_VOCAB);
}

static void
wait_for (Lower *l, guint pass, guint microbatch)
{
  const guint32 event = l->vocab->there[index_of (l, pass, microbatch)];
  if (event != SC_NONE)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, event);
}

void
sc_lower_put_vocab_slot (Lower *l, const ScSlot *slot)
{
  const guint phase = slot->pass == SC_PASS_TABLE || slot->pass == SC_PASS_LOGITS ? 0 : 1;
  sc_lower_enter_slot (l, slot);
  sc_lower_tape_mark (l, SC_TAPE_MARK);
  l->info = (ScOpInfo) { slot->microbatch, 0, SC_INFO_NO_LAYER, phase };
  wait_for (l, slot->pass == SC_PASS_LOGITS_WEIGHT ? SC_PASS_LOGITS : slot->pass, slot->microbatch);
  sc_lower_put_unit (l, &l->price->vocab[slot->pass - SC_N_PASSES], phase);
  l->vocab->done[index_of (l, slot->pass, slot->microbatch)] = sc_lower_put_record (l, SC_STREAM_COMPUTE);
  if (slot->pass == SC_PASS_TABLE_WEIGHT)
    sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -full_bytes (l));
}

/* Before a pass over a chunk: at an end of the pipeline it takes what was summed. */
void
sc_lower_vocab_before (Lower *l, const ScSlot *slot)
{
  if (l->vocab == NULL || slot->pass == SC_PASS_WEIGHT)
    return;
  const guint j = sc_plan_stage (l->plan, l->at.pp, slot->chunk);
  if (slot->pass == SC_PASS_FORWARD && j == 0)
    {
      wait_for (l, SC_PASS_TABLE, slot->microbatch);
      sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_COMM, -full_bytes (l));
    }
  if (slot->pass != SC_PASS_FORWARD && j == l->in->sizes->n_virtual - 1)
    wait_for (l, l->plan->vocab_parallel == SC_VOCAB_1 ? SC_PASS_LOGITS_WEIGHT : SC_PASS_LOGITS, slot->microbatch);
}

guint64
sc_lower_vocab_params (const ScWorkload *workload)
{
  const ScPlan *const p = &workload->plan;
  const ScModel *const m = &workload->model;
  return p->vocab_parallel == SC_VOCAB_ENDS ? 0 : ((guint64) m->vocab + p->pp - 1) / p->pp * m->hidden * (m->tied_embeddings ? 1 : 2);
}
