/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-data.c - data parallelism in a step: buckets of gradients to reduce and of parameters to gather. */
#include "models/lower-parts.h"
#include "models/model.h"

gboolean
sc_lower_is_sharded (const ScPlan *plan)
{
  return plan->sharding != SC_SHARDING_NONE;
}

/* The last stage holds the output matrix: its own, or, where the first stage is elsewhere, a copy of the tied one. */
guint64
sc_lower_head_params (const ScWorkload *workload)
{
  const ScModel *const m = &workload->model;
  return sc_model_head_params_rank (m, workload->plan.tp, !m->tied_embeddings || !sc_plan_ends_meet (&workload->plan));
}

/* Units of a chunk, in forward order: [embedding,] its layers [, head]. */
guint
sc_lower_n_units (const Lower *l, guint chunk)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  return l->in->sizes->layers[j] + (j == 0) + (j == l->in->sizes->n_virtual - 1);
}

static guint64
unit_params (const Lower *l, guint chunk, guint unit)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  const ScWorkload *const w = l->in->workload;
  if (j == 0 && unit == 0)
    return sc_model_embedding_params_rank (&w->model, w->seq, l->plan->tp);
  if (j == l->in->sizes->n_virtual - 1 && unit == sc_lower_n_units (l, chunk) - 1)
    return sc_lower_head_params (w);
  return sc_model_layer_params_rank (&w->model, l->plan->tp);
}

/* Chunks in an order in which all ranks that reduce together agree: where two pipelines run against each other, the same stage is one
 * rank's first chunk and the other one's second. */
guint
sc_lower_nth_chunk (const Lower *l, guint i)
{
  return l->placement == SC_PLACE_BOTH && l->at.pp >= l->plan->pp / 2 ? sc_plan_chunks (l->plan) - 1 - i : i;
}

/* Megatron cuts buckets only on the first pipeline rank and there only in its first chunk: all others have bubbles to
 * hide one reduction in (MODELLING 5.8). */
void
sc_lower_make_buckets (Lower *l)
{
  g_array_set_size (l->buckets, 0);
  if (sc_plan_data_ranks (l->plan) == 1)
    return;
  for (guint i = 0; i < sc_plan_chunks (l->plan); i++)
    {
      const guint chunk = sc_lower_nth_chunk (l, i);
      const gboolean cut = l->plan->overlap_grad && l->at.pp == 0 && chunk == 0 && l->placement != SC_PLACE_BOTH;
      Bucket b = { .chunk = chunk, .gathered = SC_NONE };
      for (guint unit = sc_lower_n_units (l, chunk); unit-- > 0;)
        {
          b.params += unit_params (l, chunk, unit);
          b.first_unit = unit;
          if (unit > 0 && !(cut && b.params >= l->plan->bucket_params))
            continue;
          if (b.params > 0)
            g_array_append_val (l->buckets, b);
          b = (Bucket) { .chunk = chunk, .gathered = SC_NONE };
        }
    }
}

/* Reduction of one bucket beside compute, from here on; once a step. */
void
sc_lower_put_reduce (Lower *l, Bucket *b)
{
  if (b->reduced)
    return;
  b->reduced = TRUE;
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_DP, FALSE);
  const double bytes = (double) b->params * sc_dtype_bytes (l->plan->grad_dtype);
  const ScCollKind kind = sc_lower_is_sharded (l->plan) ? SC_COLL_REDUCE_SCATTER : SC_COLL_ALL_REDUCE;
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_DP);
  sc_lower_put_call (l, SC_STREAM_DP, sc_lower_call_of (l, comm, kind, bytes), sc_lower_label (l, "gradients"), sc_lower_issue_ns (l, SC_TIME_BACKWARD));
  const guint32 done = sc_lower_put_record (l, SC_STREAM_DP);
  g_array_append_val (l->dp_done, done);
}

/* The backward of @unit is done for the last time: reduce what it completes. */
void
sc_lower_put_reduce_after (Lower *l, guint chunk, guint unit)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == chunk && b->first_unit == unit)
        sc_lower_put_reduce (l, b);
    }
}

void
sc_lower_put_reduce_chunk (Lower *l, guint chunk)
{
  for (guint i = 0; i < l->buckets->len; i++)
    if (g_array_index (l->buckets, Bucket, i).chunk == chunk)
      sc_lower_put_reduce (l, &g_array_index (l->buckets, Bucket, i));
}

void
sc_lower_put_gather_call (Lower *l, ScStreamKind stream, const Bucket *b)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_DP, FALSE);
  sc_lower_put_call (l, stream, sc_lower_call_of (l, comm, SC_COLL_ALL_GATHER, (double) b->params * sc_dtype_bytes (l->plan->dtype)),
            sc_lower_label (l, "parameters"), sc_lower_issue_ns (l, SC_TIME_OPTIMIZER));
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
      sc_lower_put_gather_call (l, SC_STREAM_DP_GATHER, b);
      b->gathered = sc_lower_put_record (l, SC_STREAM_DP_GATHER);
      b->issued = TRUE;
      n--;
    }
}

gboolean
sc_lower_gathers_ahead (const Lower *l)
{
  return sc_lower_is_sharded (l->plan) && l->plan->overlap_param && sc_plan_data_ranks (l->plan) > 1;
}

void
sc_lower_wait_gathered (Lower *l, guint chunk, guint unit)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk != chunk || b->first_unit != unit || b->gathered == SC_NONE)
        continue;
      sc_program_wait (l->p, SC_STREAM_COMPUTE, b->gathered);
      b->gathered = SC_NONE;        /* once a step */
      sc_lower_put_gathers (l, chunk, 1);    /* the next bucket when this one is taken (MODELLING 6.2) */
    }
}
