/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-data.c - data parallelism in a step: where its strategy is called, and the buckets that most of them have. */
#include "models/lower-parts.h"
#include "models/model.h"

guint64
sc_lower_embedding_params (const ScWorkload *workload)
{
  const ScModel *const m = &workload->model;
  const guint64 params = sc_model_embedding_params_rank (m, workload->seq, workload->plan.tp);
  return workload->plan.vocab_parallel == SC_VOCAB_ENDS ? params : params - (guint64) m->vocab * m->hidden; /* positions */
}

/* The last stage holds the output matrix: its own, or, where the first stage is elsewhere, a copy of the tied one. */
guint64
sc_lower_head_params (const ScWorkload *workload)
{
  const ScModel *const m = &workload->model;
  const gboolean apart = !sc_plan_ends_meet (&workload->plan);
  guint64 params = sc_model_head_params_rank (m, workload->plan.tp, workload->plan.vocab_parallel == SC_VOCAB_ENDS && (!m->tied_embeddings || apart));
  if (m->mtp_layers > 0 && apart && !m->tied_embeddings) /* a copy of the embedding's table */
    params += sc_model_embedding_params_rank (m, workload->seq, workload->plan.tp);
  return params + sc_model_mtp_params_rank (m, workload->plan.tp);
}

guint64
sc_lower_head_experts (const ScWorkload *workload)
{
  const ScModel *const m = &workload->model;
  return m->experts > 0 ? m->mtp_layers * sc_model_experts_params_rank (m, workload->plan.ep, workload->plan.etp) : 0;
}

/* Units of a chunk, in forward order: [embedding,] its layers [, head]. */
guint
sc_lower_n_units (const Lower *l, guint chunk)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  return l->in->sizes->layers[j] + (j == 0) + (j == l->in->sizes->n_virtual - 1);
}

guint64
sc_lower_layer_params (const ScWorkload *workload, guint layer)
{
  const ScModel *const m = &workload->model;
  const guint tp = workload->plan.tp;
  return sc_model_layer_has_experts (m, layer) ? sc_model_moe_layer_params_rank (m, tp) : sc_model_layer_params_rank (m, tp);
}

guint64
sc_lower_layer_experts (const ScWorkload *workload, guint layer)
{
  const ScModel *const m = &workload->model;
  return sc_model_layer_has_experts (m, layer) ? sc_model_experts_params_rank (m, workload->plan.ep, workload->plan.etp) : 0;
}

/* The layer that @unit is: TRUE; or FALSE: the embedding (*ret_layer 0) or the head (1). */
static gboolean
unit_layer (const Lower *l, guint chunk, guint unit, guint *ret_layer)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  const gboolean embedding = j == 0 && unit == 0;
  const gboolean head = !embedding && j == l->in->sizes->n_virtual - 1 && unit == sc_lower_n_units (l, chunk) - 1;
  *ret_layer = embedding ? 0 : head ? 1 : sc_stage_first_layer (l->in->sizes, j) + unit - (j == 0);
  return !embedding && !head;
}

guint64
sc_lower_unit_params (const Lower *l, guint chunk, guint unit, gboolean experts)
{
  const ScWorkload *const w = l->in->workload;
  const guint64 shared = chunk == 0 && unit == 0 && !experts ? sc_lower_vocab_params (w) : 0; /* with the unit whose gradients come last */
  guint layer;
  if (unit_layer (l, chunk, unit, &layer))
    return shared + (experts ? sc_lower_layer_experts (w, layer) : sc_lower_layer_params (w, layer));
  if (layer == 0)
    return shared + (experts ? 0 : sc_lower_embedding_params (w));
  return shared + (experts ? sc_lower_head_experts (w) : sc_lower_head_params (w));
}

const Priced *
sc_lower_unit_price (const Lower *l, guint chunk, guint unit, ScPass pass)
{
  guint layer;
  if (unit_layer (l, chunk, unit, &layer))
    return sc_lower_layer_price (l, layer, pass);
  return layer == 0 ? &l->price->embedding[pass] : &l->price->head[pass];
}

/* Chunks in an order in which all ranks that reduce together agree: where two pipelines run against each other, the same stage is one
 * rank's first chunk and the other one's second. */
guint
sc_lower_nth_chunk (const Lower *l, guint i)
{
  return l->placement == SC_PLACE_BOTH && l->at.pp >= l->plan->pp / 2 ? sc_plan_chunks (l->plan) - 1 - i : i;
}

/* ---- where the strategy is called ---- */

static gboolean
makes_gradients (const ScSlot *slot)
{
  return slot->pass == SC_PASS_BACKWARD || slot->pass == SC_PASS_WEIGHT;
}

/* Gradients that live from the unit's first backward until the optimizer has had them; those before it are born first. */
static guint8 *
unborn (const Lower *l, const ScSlot *slot, guint unit)
{
  if (l->sharding->grads || l->in->workload->framework->fp32_main_grads || !makes_gradients (slot))
    return NULL;
  guint8 *const born = &g_array_index (l->born, guint8, slot->chunk * (l->in->workload->model.layers + 2) + unit);
  return *born ? NULL : born;
}

static void
bear_gradients (Lower *l, const ScSlot *slot, guint unit)
{
  guint8 *const born = unborn (l, slot, unit);
  if (born == NULL)
    return;
  *born = TRUE;
  const double each = sc_sharding_states (l->sharding, 0, l->plan->dtype, l->plan->grad_dtype, 1).grads;
  const double bytes = each * ((double) sc_lower_unit_params (l, slot->chunk, unit, FALSE) + (double) sc_lower_unit_params (l, slot->chunk, unit, TRUE));
  sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, bytes, "gradients");
  l->born_bytes += bytes; /* whole bytes: each has so many of them */
}

static void make_buckets (Lower *l);

void
sc_lower_data_begin (Lower *l)
{
  g_array_set_size (l->dp_done, 0);
  g_array_set_size (l->born, 0);
  g_array_set_size (l->born, sc_plan_chunks (l->plan) * (l->in->workload->model.layers + 2));
  l->born_bytes = 0;
  g_ptr_array_set_size (l->waiting, 0);
  g_ptr_array_set_size (l->waiting, (int) (sc_plan_chunks (l->plan) * SC_N_PASSES));
  l->copied_out = SC_NONE;
  g_array_set_size (l->buckets, 0);
  if (l->sharding->steps->reduce != NULL)
    make_buckets (l);
  if (l->sharding->steps->begin != NULL)
    l->sharding->steps->begin (l);
}

void
sc_lower_data_end (Lower *l)
{
  if (l->sharding->steps->end != NULL)
    l->sharding->steps->end (l);
}

gboolean
sc_lower_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  return unborn (l, slot, 0) != NULL || sc_lower_offloads_activations (l->plan) || (l->sharding->steps->by_units != NULL && l->sharding->steps->by_units (l, slot, last));
}

gboolean
sc_lower_by_products (const Lower *l)
{
  return l->sharding->steps->by_products != NULL && l->sharding->steps->by_products (l);
}

void
sc_lower_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  l->chunk = slot->chunk;
  l->unit = unit;
  l->pass = (ScPass) slot->pass;
  l->products = 0;
  bear_gradients (l, slot, unit);
  if (l->sharding->steps->before_unit != NULL)
    l->sharding->steps->before_unit (l, slot, unit, last);
}

void
sc_lower_before_product (Lower *l, const PricedItem *item)
{
  if (l->sharding->steps->before_product != NULL)
    l->sharding->steps->before_product (l, item);
}

void
sc_lower_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  if (l->sharding->steps->after_unit != NULL)
    l->sharding->steps->after_unit (l, slot, unit, last);
}

static void
list_waiting (const Priced *priced, GArray *items)
{
  for (guint i = 0; priced->from != NULL && i < priced->from->len; i++)
    {
      ScItem item = g_array_index (priced->from, ScItem, i);
      item.mem_bytes = -item.mem_bytes;
      if (item.kind == SC_ITEM_MEM && item.mem == SC_MEM_GRADS)
        g_array_append_val (items, item);
    }
}

/* All gradients of the pass are there, and are added. */
static void
put_waiting (Lower *l, const ScSlot *slot)
{
  if (!l->in->workload->framework->waiting_grads || slot->pass == SC_PASS_FORWARD)
    return;
  gpointer *const items = &l->waiting->pdata[slot->chunk * SC_N_PASSES + slot->pass];
  if (*items == NULL)
    {
      *items = sc_item_list_new ();
      for (guint unit = 0; unit < sc_lower_n_units (l, slot->chunk); unit++)
        list_waiting (sc_lower_unit_price (l, slot->chunk, unit, (ScPass) slot->pass), *items);
    }
  double bytes = 0;
  const GArray *const all = *items;
  for (guint i = 0; i < all->len; i++)
    bytes += (double) g_array_index (all, ScItem, i).mem_bytes;
  sc_lower_put_listed (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, *items, bytes);
}

void
sc_lower_after_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  put_waiting (l, slot);
  if (l->sharding->steps->after_slot != NULL)
    l->sharding->steps->after_slot (l, slot, last);
}

void
sc_lower_before_optimizer (Lower *l)
{
  if (l->sharding->steps->before_optimizer != NULL)
    l->sharding->steps->before_optimizer (l);
  if (l->copied_out != SC_NONE)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, l->copied_out);
}

void
sc_lower_after_optimizer (Lower *l)
{
  sc_lower_put_mem (l, SC_STREAM_COMPUTE, SC_MEM_GRADS, -l->born_bytes);
  if (l->sharding->steps->after_optimizer != NULL)
    l->sharding->steps->after_optimizer (l);
}

/* ---- buckets ---- */

/* Gradients that are made at once: those of a product, or what else a unit has. */
typedef struct
{
  double params;
  guint  unit, nth;
} Piece;

/* Of one unit, in the order in which its backward makes them. */
static void
list_pieces (const Lower *l, guint chunk, guint unit, gboolean experts, GArray *pieces)
{
  const double all = (double) sc_lower_unit_params (l, chunk, unit, experts);
  const Priced *const priced = sc_lower_unit_price (l, chunk, unit, SC_PASS_BACKWARD);
  const guint first = pieces->len;
  double sum = 0;
  guint nth = 0;
  for (guint i = 0; i < priced->n; i++)
    {
      const PricedItem *const item = &priced->items[i];
      if (item->kind != SC_ITEM_KERNEL || item->weights >= 0)
        continue;
      const guint this = nth++;
      if (item->experts != experts)
        continue;
      const Piece piece = { -item->weights, unit, this };
      g_array_append_val (pieces, piece);
      sum -= item->weights;
    }
  if (sum > all) /* some products share their weights */
    {
      g_array_set_size (pieces, first);
      sum = 0;
    }
  const Piece rest = { all - sum, unit, LOWER_UNIT_END };
  if (rest.params > 0)
    g_array_append_val (pieces, rest);
}

/* Buckets that end inside units. */
static gboolean
cuts_tensors (const Lower *l)
{
  return l->in->workload->framework->buckets != SC_BUCKETS_MEGATRON || l->sharding->grads;
}

#define SMALL_VECTORS 16 /* of hidden size: norms and biases of a unit */

/* Tensor by tensor.  PyTorch closes a bucket with the tensor that fills it, DeepSpeed before one that no longer fits. */
static void
cut_tensors (Lower *l, guint chunk, gboolean experts)
{
  const gboolean torch = l->in->workload->framework->buckets == SC_BUCKETS_TORCH;
  double most = torch ? SC_DDP_FIRST_BUCKET_BYTES / sc_dtype_bytes (l->plan->grad_dtype) : (double) l->plan->bucket_params;
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  for (guint unit = sc_lower_n_units (l, chunk); unit-- > 0;)
    list_pieces (l, chunk, unit, experts, pieces);
  double sum = 0, matrix_params = 0;
  guint matrices = 0;
  for (guint i = 0; i < pieces->len; i++)
    {
      const Piece *const piece = &g_array_index (pieces, Piece, i);
      const Piece *const next = i + 1 < pieces->len ? piece + 1 : NULL;
      sum += piece->params;
      if (piece->params > SMALL_VECTORS * (double) l->in->workload->model.hidden)
        {
          matrices++;
          matrix_params += piece->params;
        }
      if (next != NULL && (torch ? sum < most : sum + next->params <= most))
        continue;
      const Bucket b = { .chunk = chunk, .first_unit = piece->unit, .nth = piece->nth, .params = (guint64) llround (sum), .matrices = matrices,
                         .matrix_params = matrix_params, .experts = experts };
      g_array_append_val (l->buckets, b);
      most = (double) l->plan->bucket_params;
      sum = matrix_params = 0;
      matrices = 0;
    }
}

/* Megatron cuts buckets only on the first pipeline rank and there only in its first chunk: all others have bubbles to
 * hide one reduction in (MODELLING 5.8). */
static void
cut_layers (Lower *l, guint chunk, gboolean experts)
{
  const gboolean cut = l->plan->overlap_grad && l->at.pp == 0 && chunk == 0 && l->placement != SC_PLACE_BOTH;
  Bucket b = { .chunk = chunk, .nth = LOWER_UNIT_END, .experts = experts };
  for (guint unit = sc_lower_n_units (l, chunk); unit-- > 0;)
    {
      b.params += sc_lower_unit_params (l, chunk, unit, experts);
      b.first_unit = unit;
      if (unit > 0 && !(cut && b.params >= l->plan->bucket_params))
        continue;
      if (b.params > 0)
        g_array_append_val (l->buckets, b);
      b = (Bucket) { .chunk = chunk, .nth = LOWER_UNIT_END, .experts = experts };
    }
}

static void
make_buckets (Lower *l)
{
  void (*const cut) (Lower *, guint, gboolean) = cuts_tensors (l) ? cut_tensors : cut_layers;
  for (guint i = 0; i < sc_plan_chunks (l->plan); i++)
    {
      const guint chunk = sc_lower_nth_chunk (l, i);
      if (sc_plan_data_ranks (l->plan) > 1)
        cut (l, chunk, FALSE);
      if (l->in->workload->model.experts > 0 && sc_plan_expert_data_ranks (l->plan) > 1)
        cut (l, chunk, TRUE);
    }
}

guint32
sc_lower_data_comm (const Lower *l, gboolean experts)
{
  return sc_layout_comm_of (l->in->layout, l->rank, experts ? SC_COMM_EXPERT_DP : SC_COMM_DP, FALSE);
}

void
sc_lower_data_call (Lower *l, ScStreamKind stream, guint32 comm, ScCollKind kind, double bytes, const char *name)
{
  if (comm == SC_NONE || bytes <= 0)
    return;
  const ScTimeKind time = kind == SC_COLL_ALL_GATHER ? SC_TIME_OPTIMIZER : SC_TIME_BACKWARD;
  sc_lower_put_call (l, stream, sc_lower_call_of (l, comm, kind, bytes), sc_lower_label (l, name), sc_lower_issue_ns (l, time));
}

/* Reduction of one bucket beside compute, from here on; once a step, or in each micro-batch. */
static void
put_reduce (Lower *l, Bucket *b)
{
  if (b->reduced)
    return;
  b->reduced = TRUE;
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
  l->sharding->steps->reduce (l, b);
  const guint32 done = sc_lower_put_record (l, SC_STREAM_DP);
  g_array_append_val (l->dp_done, done);
  if (sc_lower_offloads_optimizer (l))
    sc_lower_put_out (l, SC_STREAM_DP, "gradients to the host",
                      (double) b->params * sc_dtype_bytes (l->plan->grad_dtype) / (b->experts ? sc_plan_expert_data_ranks (l->plan) : sc_plan_shard_ranks (l->plan)));
}

/* Those that the last @made gradients of @unit complete, or its end. */
static void
put_reduce_after (Lower *l, guint chunk, guint unit, guint made)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == chunk && b->first_unit == unit && (b->nth < made || made == LOWER_UNIT_END))
        put_reduce (l, b);
    }
}

void
sc_lower_put_reduce_chunk (Lower *l, guint chunk)
{
  for (guint i = 0; i < l->buckets->len; i++)
    if (g_array_index (l->buckets, Bucket, i).chunk == chunk)
      put_reduce (l, &g_array_index (l->buckets, Bucket, i));
}

static void
wait_reduced (Lower *l)
{
  for (guint i = 0; i < l->dp_done->len; i++)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, g_array_index (l->dp_done, guint32, i));
  g_array_set_size (l->dp_done, 0);
}

static void
put_gather (Lower *l, Bucket *b)
{
  l->sharding->steps->gather (l, SC_STREAM_DP_GATHER, b);
  b->gathered = sc_lower_put_record (l, SC_STREAM_DP_GATHER);
  b->issued = TRUE;
}

/* Issues the gathers of @chunk, in the order of use (buckets run backwards through a chunk); @n: at most so many, those
 * that were issued before not counted. */
void
sc_lower_put_gathers (Lower *l, guint chunk, guint n)
{
  for (guint i = l->buckets->len; i-- > 0 && n > 0;)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk != chunk || b->issued)
        continue;
      put_gather (l, b);
      n--;
    }
}

gboolean
sc_lower_gathers_ahead (const Lower *l)
{
  return l->sharding->steps->gather != NULL && l->plan->overlap_param && sc_plan_data_ranks (l->plan) > 1;
}

static void
wait_gathered (Lower *l, guint chunk, guint unit)
{
  for (guint i = l->buckets->len; i-- > 0 && sc_lower_gathers_ahead (l);)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk != chunk || b->first_unit != unit || b->taken)
        continue;
      if (!b->issued)
        put_gather (l, b);
      sc_program_wait (l->p, SC_STREAM_COMPUTE, b->gathered);
      b->taken = TRUE;                    /* once a step */
      sc_lower_put_gathers (l, chunk, 1); /* the next bucket when this one is taken (MODELLING 6.2) */
    }
}

/* ---- steps of strategies with buckets ---- */

/* Buckets go out under the backward: not where two pipelines share a stage, which reduce at the end, in one order on all ranks, and
 * not in chunks of an interleaved schedule, whose reductions are aligned over the pipeline. */
static gboolean
reduces_inside (const Lower *l)
{
  const gboolean aligned = l->actions == NULL && l->plan->vpp > 1;
  return l->plan->overlap_grad && l->placement != SC_PLACE_BOTH && !aligned;
}

static gboolean
reduces_under (const Lower *l, const ScSlot *slot, gboolean last)
{
  return makes_gradients (slot) && (last || l->plan->grad_sync == SC_GRAD_SYNC_EVERY) && reduces_inside (l);
}

gboolean
sc_bucket_by_units (const Lower *l, const ScSlot *slot, gboolean last)
{
  const gboolean gathers = slot->pass == SC_PASS_FORWARD && sc_lower_gathers_ahead (l), reduces = reduces_under (l, slot, last);
  for (guint i = 0; i < l->buckets->len; i++)
    {
      const Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == slot->chunk && ((gathers && !b->taken) || (reduces && !b->reduced)))
        return TRUE;
    }
  return FALSE;
}

gboolean
sc_bucket_by_products (const Lower *l)
{
  return l->reducing && cuts_tensors (l);
}

void
sc_bucket_before_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  if (slot->pass == SC_PASS_FORWARD)
    wait_gathered (l, slot->chunk, unit);
  l->reducing = reduces_under (l, slot, last);
}

/* A gradient is ready for its bucket when the next product begins: what adds it to others stands between. */
void
sc_bucket_before_product (Lower *l, const PricedItem *item)
{
  if (!l->reducing)
    return;
  if (l->products > 0)
    put_reduce_after (l, l->chunk, l->unit, l->products);
  if (item->weights < 0)
    l->products++;
}

void
sc_bucket_after_unit (Lower *l, const ScSlot *slot, guint unit, gboolean last)
{
  (void) last;
  if (l->reducing)
    put_reduce_after (l, slot->chunk, unit, LOWER_UNIT_END);
}

/* Whatever overlaps, a backward ends when its reductions have: finalize_backward() in reducer.cpp waits for every bucket, the epilogues of
 * DeepSpeed's stages synchronise the host. */
static void
end_backward (Lower *l)
{
  const ScFramework *const framework = l->in->workload->framework;
  for (guint i = 0; i < l->dp_done->len && framework->buckets == SC_BUCKETS_DEEPSPEED && framework->host_backward_s > 0; i++)
    sc_lower_host_wait (l, g_array_index (l->dp_done, guint32, i));
  wait_reduced (l);
}

void
sc_bucket_after_slot (Lower *l, const ScSlot *slot, gboolean last)
{
  if (last || !makes_gradients (slot) || l->plan->grad_sync != SC_GRAD_SYNC_EVERY)
    return;
  sc_lower_put_reduce_chunk (l, slot->chunk);
  end_backward (l);
  for (guint i = 0; i < l->buckets->len; i++)
    if (g_array_index (l->buckets, Bucket, i).chunk == slot->chunk) /* they are filled once more */
      g_array_index (l->buckets, Bucket, i).reduced = FALSE;
}

void
sc_bucket_before_optimizer (Lower *l)
{
  for (guint i = 0; i < l->buckets->len; i++) /* what no backward has launched */
    put_reduce (l, &g_array_index (l->buckets, Bucket, i));
  wait_reduced (l);
}

void
sc_bucket_after_optimizer (Lower *l)
{
  for (guint i = l->buckets->len; i-- > 0 && l->sharding->steps->gather != NULL && !l->plan->overlap_param;)
    l->sharding->steps->gather (l, SC_STREAM_COMPUTE, &g_array_index (l->buckets, Bucket, i));
}
