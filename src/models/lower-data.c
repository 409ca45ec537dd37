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

static guint64
unit_params (const Lower *l, guint chunk, guint unit, gboolean experts)
{
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
  const ScWorkload *const w = l->in->workload;
  if (j == 0 && unit == 0)
    return experts ? 0 : sc_model_embedding_params_rank (&w->model, w->seq, l->plan->tp);
  if (j == l->in->sizes->n_virtual - 1 && unit == sc_lower_n_units (l, chunk) - 1)
    return experts ? 0 : sc_lower_head_params (w);
  const guint layer = sc_stage_first_layer (l->in->sizes, j) + unit - (j == 0);
  return experts ? sc_lower_layer_experts (w, layer) : sc_lower_layer_params (w, layer);
}

/* Chunks in an order in which all ranks that reduce together agree: where two pipelines run against each other, the same stage is one
 * rank's first chunk and the other one's second. */
guint
sc_lower_nth_chunk (const Lower *l, guint i)
{
  return l->placement == SC_PLACE_BOTH && l->at.pp >= l->plan->pp / 2 ? sc_plan_chunks (l->plan) - 1 - i : i;
}

/* The buckets of one chunk, of dense parameters or of routed experts, which have buffers of their own. */
static void
cut_chunk (Lower *l, guint chunk, gboolean experts)
{
  const gboolean cut = l->plan->overlap_grad && l->at.pp == 0 && chunk == 0 && l->placement != SC_PLACE_BOTH;
  Bucket b = { .chunk = chunk, .experts = experts, .gathered = SC_NONE };
  for (guint unit = sc_lower_n_units (l, chunk); unit-- > 0;)
    {
      b.params += unit_params (l, chunk, unit, experts);
      b.first_unit = unit;
      if (unit > 0 && !(cut && b.params >= l->plan->bucket_params))
        continue;
      if (b.params > 0)
        g_array_append_val (l->buckets, b);
      b = (Bucket) { .chunk = chunk, .experts = experts, .gathered = SC_NONE };
    }
}

/* Megatron cuts buckets only on the first pipeline rank and there only in its first chunk: all others have bubbles to
 * hide one reduction in (MODELLING 5.8). */
void
sc_lower_make_buckets (Lower *l)
{
  g_array_set_size (l->buckets, 0);
  for (guint i = 0; i < sc_plan_chunks (l->plan); i++)
    {
      const guint chunk = sc_lower_nth_chunk (l, i);
      if (sc_plan_data_ranks (l->plan) > 1)
        cut_chunk (l, chunk, FALSE);
      if (l->in->workload->model.experts > 0 && sc_plan_expert_data_ranks (l->plan) > 1)
        cut_chunk (l, chunk, TRUE);
    }
}

static guint32
bucket_comm (const Lower *l, const Bucket *b)
{
  return sc_layout_comm_of (l->in->layout, l->rank, b->experts ? SC_COMM_EXPERT_DP : SC_COMM_DP, FALSE);
}

/* Reduction of one bucket beside compute, from here on; once a step. */
void
sc_lower_put_reduce (Lower *l, Bucket *b)
{
  if (b->reduced)
    return;
  b->reduced = TRUE;
  const guint32 comm = bucket_comm (l, b);
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
  const guint32 comm = bucket_comm (l, b);
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

/* Does a forward over @chunk, now, wait for parameters behind its first unit? */
gboolean
sc_lower_waits_in (const Lower *l, guint chunk)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      const Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == chunk && b->gathered != SC_NONE)
        return TRUE;
    }
  return FALSE;
}

/* Does a backward over @chunk that reduces what it fills have buckets to reduce? */
gboolean
sc_lower_reduces_in (const Lower *l, guint chunk)
{
  for (guint i = 0; i < l->buckets->len; i++)
    {
      const Bucket *const b = &g_array_index (l->buckets, Bucket, i);
      if (b->chunk == chunk && !b->reduced)
        return TRUE;
    }
  return FALSE;
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
