/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-estimate.c - how many ops a step will be, before there are any. */
#include "models/lower-parts.h"

/* Ops of one pass over @items.  Most allocations hang on kernels; some stand before collectives. */
static double
estimate_pass (const GArray *items)
{
  double ops = 0;
  for (guint i = 0; i < items->len; i++)
    switch (g_array_index (items, ScItem, i).kind)
      {
      case SC_ITEM_KERNEL:
      case SC_ITEM_COLLECTIVE_WAIT:
      case SC_ITEM_HOST_MARK:
        ops += 1;
        break;
      case SC_ITEM_COLLECTIVE:
      case SC_ITEM_HOST_WAIT:
        ops += 2;
        break;
      case SC_ITEM_COLLECTIVE_START:
        ops += 5;
        break;
      case SC_ITEM_MEM:
        break;
      default:
        g_assert_not_reached ();
      }
  return ops;
}

static double
estimate_passes (const ScPassItems *items)
{
  return estimate_pass (items->pass[SC_PASS_FORWARD]) + estimate_pass (items->pass[SC_PASS_BACKWARD])
         + (items->rebuild != NULL ? estimate_pass (items->rebuild) : 0);
}

/* Calls behind DeepSpeed's optimizer, in pieces of plan.zero.allgather_bucket elements. */
static double
estimate_gathers (const ScLowerInput *in, guint rank)
{
  const ScPlan *const p = &in->workload->plan;
  const gboolean pieces = (p->sharding == SC_SHARDING_ZERO1 || p->sharding == SC_SHARDING_ZERO2) && !p->overlap_param
                          && in->workload->framework->buckets == SC_BUCKETS_DEEPSPEED;
  return pieces ? ((double) in->sizes->params[rank] + (double) in->sizes->experts[rank]) / (double) p->zero.allgather_bucket : 0;
}

static double
count_products (const GArray *items)
{
  double n = 0;
  for (guint i = 0; i < items->len; i++)
    n += g_array_index (items, ScItem, i).kind == SC_ITEM_KERNEL && g_array_index (items, ScItem, i).kernel.class == SC_KERNEL_GEMM;
  return n;
}

/* Are buckets that end inside units reduced in every micro-batch? */
static gboolean
cuts_backwards (const ScLowerInput *in)
{
  const ScPlan *const p = &in->workload->plan;
  return sc_sharding_of (p->sharding, in->workload->framework)->steps->reduce != NULL && p->grad_sync == SC_GRAD_SYNC_EVERY && p->overlap_grad
         && in->workload->framework->buckets != SC_BUCKETS_MEGATRON;
}

/* Do units stand apart at every level of detail, since something happens between them? */
static gboolean
stand_apart (const ScLowerInput *in)
{
  const ScPlan *const p = &in->workload->plan;
  return sc_sharding_of (p->sharding, in->workload->framework)->steps->unit_ops != NULL || sc_lower_offloads_activations (p);
}

/* Ops of a unit in one micro-batch, with what the strategy does between its parts. */
static double
estimate_unit (const ScLowerInput *in, const ScPassItems *items)
{
  const ScShardingSteps *const steps = sc_sharding_of (in->workload->plan.sharding, in->workload->framework)->steps;
  const double few = in->detail == SC_DETAIL_LAYER || stand_apart (in) ? 6 : 0; /* a merged pass */
  const gboolean kernels = in->detail == SC_DETAIL_KERNEL || steps->inside;
  const double forward = kernels ? estimate_pass (items->pass[SC_PASS_FORWARD]) : few;
  const double backward = kernels || cuts_backwards (in) ? estimate_passes (items) - estimate_pass (items->pass[SC_PASS_FORWARD]) : few;
  const double added = steps->unit_ops != NULL ? steps->unit_ops (&in->workload->plan, count_products (items->pass[SC_PASS_FORWARD])) : 0;
  const double copies = sc_lower_offloads_activations (&in->workload->plan) ? 15 : 0; /* out and in */
  return forward + backward + added + copies;
}

/* Buckets of one rank in a step. */
static double
estimate_buckets (const ScLowerInput *in, guint rank)
{
  const double params = (double) in->sizes->params[rank] + (double) in->sizes->experts[rank];
  return cuts_backwards (in) ? 8 * params / (double) in->workload->plan.bucket_params * sc_workload_microbatches (in->workload) : 0;
}

double
sc_lower_estimate (const ScLowerInput *in)
{
  const ScStepItems *const s = in->items;
  const ScPlan *const p = &in->workload->plan;
  const double whole = in->detail == SC_DETAIL_STAGE && !stand_apart (in) ? 12 : 0; /* two merged passes */
  const double embedding = estimate_unit (in, &s->embedding), head = estimate_unit (in, &s->head);
  g_autofree double *layer = g_new (double, s->kinds->n);
  for (guint k = 0; k < s->kinds->n; k++)
    layer[k] = estimate_unit (in, &s->layers[k]);
  const double boundary = p->pp > 1 ? 26 : 0; /* two sends, two receives, with their events and buffers */
  double vocabulary = 0; /* of one micro-batch on each rank */
  for (guint i = 0; i < G_N_ELEMENTS (s->vocab); i++)
    vocabulary += s->vocab[i] != NULL ? estimate_pass (s->vocab[i]) + 12 : 0;
  double ops = 0;
  for (guint32 k = 0; k < in->fold->n_classes; k++)
    {
      const guint rank = sc_layout_coord (p, in->fold->representative[k]).pp;
      double each = 0;
      for (guint chunk = 0; chunk < sc_plan_chunks (p); chunk++)
        {
          const guint stage = sc_plan_stage (p, rank, chunk);
          const guint first = sc_stage_first_layer (in->sizes, stage);
          for (guint i = first; i < first + in->sizes->layers[stage]; i++)
            each += layer[s->kinds->of_layer[i]];
          each += whole + boundary + (stage == 0 ? embedding : 0) + (stage == in->sizes->n_virtual - 1 ? head : 0);
        }
      ops += (each * p->vpp / sc_plan_chunks (p) + vocabulary) * sc_workload_microbatches (in->workload) + estimate_gathers (in, rank) + estimate_buckets (in, rank);
    }
  return ops;
}
