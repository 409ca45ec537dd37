/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bounds.c - lower bounds from the same lists and sizes that a step is lowered from. */
#include "models/bounds.h"
#include "models/lower.h"
#include "models/optimizer.h"
#include "models/schedule.h"
#include "models/sharding.h"
#include <string.h>

/* A plan in parts. */
typedef struct
{
  const ScWorkload *workload;
  const ScDevice   *device;
  ScCostCache      *costs;
  ScStepItems      *items;
  ScStageSizes     *sizes;
  ScPlacement       placement;
  const ScOrders   *orders; /* of some micro-batches, where no formula says how many are in flight; else NULL */
} Parts;

static double
kernels_s (const Parts *p, const GArray *list)
{
  double sum = 0;
  for (guint i = 0; list != NULL && i < list->len; i++)
    {
      const ScItem *const item = &g_array_index (list, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL)
        sum += p->costs != NULL ? sc_cost_cache_get (p->costs, p->device, &item->kernel, 1).seconds : sc_kernel_cost (p->device, &item->kernel, 1).seconds;
    }
  return sum;
}

static double
pass_s (const Parts *p, const ScPassItems *of, ScPass pass)
{
  return kernels_s (p, of->pass[pass]) + (pass == SC_PASS_BACKWARD ? kernels_s (p, of->rebuild) : 0);
}

/* ---- Time ---- */

static gboolean
is_of_one_device (const ScTopology *topology)
{
  for (guint i = 1; i < topology->n_types; i++)
    if (topology->types[i].device != topology->types[0].device)
      return FALSE;
  return TRUE;
}

/* Times are ours, and those of every micro-batch. */
static gboolean
is_even (const ScWorkload *workload)
{
  return workload->plan.profile.n == 0 && workload->plan.n_microbatch_factors == 0 && workload->documents == NULL && workload->plan.partial_microbatches == 0;
}

/* Seconds of both passes of one micro-batch over each virtual stage: [n_virtual]. */
static void
stage_times (const Parts *p, double *ret_forward, double *ret_backward)
{
  const guint n_kinds = p->items->kinds->n, layers = p->workload->model.layers;
  g_autofree double *forward = g_new (double, n_kinds), *backward = g_new (double, n_kinds);
  for (guint k = 0; k < n_kinds; k++)
    {
      forward[k] = pass_s (p, &p->items->layers[k], SC_PASS_FORWARD);
      backward[k] = pass_s (p, &p->items->layers[k], SC_PASS_BACKWARD);
    }
  for (guint s = 0; s < p->sizes->n_virtual; s++)
    {
      const guint first = sc_stage_first_layer (p->sizes, s);
      ret_forward[s] = ret_backward[s] = 0;
      for (guint l = first; l < first + p->sizes->layers[s] && l < layers; l++)
        {
          ret_forward[s] += forward[p->items->kinds->of_layer[l]];
          ret_backward[s] += backward[p->items->kinds->of_layer[l]];
        }
    }
  ret_forward[0] += pass_s (p, &p->items->embedding, SC_PASS_FORWARD);
  ret_backward[0] += pass_s (p, &p->items->embedding, SC_PASS_BACKWARD);
  if (p->workload->plan.stage_mtp != NULL) /* modules that predict further tokens may lie apart from the head */
    return;
  ret_forward[p->sizes->n_virtual - 1] += pass_s (p, &p->items->head, SC_PASS_FORWARD);
  ret_backward[p->sizes->n_virtual - 1] += pass_s (p, &p->items->head, SC_PASS_BACKWARD);
}

/* A rank works for all micro-batches.  Its first pass needs those of one micro-batch over the stages before it; behind its last one, where that is
 * a whole backward, the same stages follow. */
static double
bound_step (const Parts *p, gboolean whole)
{
  const ScPlan *const plan = &p->workload->plan;
  const double m = sc_workload_microbatches (p->workload);
  g_autofree double *forward = g_new (double, p->sizes->n_virtual), *backward = g_new (double, p->sizes->n_virtual);
  const gboolean staggered = plan->post_validation; /* the next step's ranks begin as they have done this one's */
  double most = 0, before = 0, behind = 0;
  stage_times (p, forward, backward);
  if (p->placement == SC_PLACE_BOTH) /* each stage lives twice, for half of the micro-batches: the mean is a bound */
    {
      for (guint s = 0; s < p->sizes->n_virtual; s++)
        most += m * (forward[s] + backward[s]) / plan->pp;
      return most;
    }
  for (guint r = 0; r < plan->pp; r++)
    {
      double own = 0;
      for (guint c = 0; c < plan->vpp; c++)
        {
          const guint s = sc_placement_stage (p->placement, plan->pp, r, c);
          own += m * (forward[s] + backward[s]);
        }
      most = MAX (most, own + (staggered ? 0 : before + behind));
      before += forward[r];
      behind += whole ? backward[r] : 0;
    }
  return most;
}

/* ---- Memory ---- */

static double
saved_bytes (const Parts *p, guint stage)
{
  const guint first = sc_stage_first_layer (p->sizes, stage);
  double sum = 0;
  for (guint l = first; l < first + p->sizes->layers[stage]; l++)
    sum += sc_step_items_saved (p->items, p->items->kinds->of_layer[l]);
  return sum;
}

/* Of the chunk of @rank that saves least, for each that is in flight at most: all of it, or what input gradients leave to weight gradients. */
static double
activations (const Parts *p, const ScSchedule *row, guint rank)
{
  const ScPlan *const plan = &p->workload->plan;
  const ScScheduleShape shape = sc_workload_schedule_shape (p->workload);
  const gboolean whole = row == &sc_schedule_1f1b || row == &sc_schedule_interleaved || row == &sc_schedule_none || row == &sc_schedule_gpipe;
  const guint n = p->orders != NULL ? sc_orders_in_flight (p->orders, rank) : row->in_flight != NULL && row->placement != SC_PLACE_BOTH ? row->in_flight (&shape, rank) : 1;
  double held = 1;
  for (guint k = 0; k < p->items->kinds->n && !whole; k++)
    held = MIN (held, sc_step_items_held (p->items, k));
  double least = saved_bytes (p, sc_placement_stage (p->placement, plan->pp, rank, 0));
  for (guint c = 1; c < plan->vpp; c++)
    least = MIN (least, saved_bytes (p, sc_placement_stage (p->placement, plan->pp, rank, c)));
  return MAX (n * held, 1) * least;
}

static double
bound_rank (const Parts *p, const ScSchedule *row, guint rank)
{
  const ScPlan *const plan = &p->workload->plan;
  const ScShardingRow *const sharding = sc_sharding_of (plan->sharding, p->workload->framework);
  const double dense = (double) p->sizes->params[rank], experts = (double) p->sizes->experts[rank];
  const double moments = sc_optimizer_row (plan->optimizer)->state_bytes;
  const ScStateBytes each = sc_sharding_states (sharding, moments, plan->dtype, plan->grad_dtype, sc_plan_shard_ranks (plan));
  const ScStateBytes expert = sc_sharding_states (sharding, moments, plan->dtype, plan->grad_dtype, sc_plan_expert_data_ranks (plan));
  const double kept = dense * (each.weights + each.optimizer) + experts * (expert.weights + expert.optimizer);
  const double grads = dense * each.grads + experts * expert.grads, saved = activations (p, row, rank);
  const gboolean always = sharding->grads || p->workload->framework->fp32_main_grads; /* else gradients come with the first backward */
  return kept + (always ? grads + saved : MAX (grads, saved));
}

static double
bound_memory (const Parts *p, const ScSchedule *row)
{
  double most = 0;
  for (guint r = 0; r < p->workload->plan.pp; r++)
    most = MAX (most, bound_rank (p, row, r));
  return most;
}

/* Of so many micro-batches as fill the pipeline: more hold no less.  NULL: there is a formula, or the order follows from costs. */
static ScOrders *
few_orders (const ScWorkload *workload, const ScSchedule *row)
{
  ScScheduleShape shape = sc_workload_schedule_shape (workload);
  shape.m = MIN (shape.m, 4 * shape.p);
  const gboolean known = row->in_flight != NULL || row->order == NULL || row->placement == SC_PLACE_BOTH || workload->plan.schedule_table != NULL;
  return known || (row->refuse != NULL && row->refuse (&shape) != NULL) ? NULL : sc_orders_new (row, &shape, NULL, NULL);
}

ScBounds
sc_bounds (const ScTopology *topology, const ScWorkload *workload, ScCostCache *costs)
{
  const ScSchedule *const row = sc_schedule_find (workload->plan.schedule);
  g_autoptr (ScStepItems) items = sc_step_items_new (workload);
  g_autoptr (ScStageSizes) sizes = sc_stage_sizes_new (workload);
  const ScDevice *const device = sc_topology_node_type (topology, topology->first_node)->device;
  g_autoptr (ScOrders) orders = few_orders (workload, row);
  const Parts parts = { workload, device, costs, items, sizes, row->placement, orders };
  const gboolean whole = row == &sc_schedule_1f1b || row == &sc_schedule_interleaved || row == &sc_schedule_none || row == &sc_schedule_gpipe;
  ScBounds bounds = { .capacity_bytes = device->memory_bytes.value };
  if (!is_of_one_device (topology))
    return bounds;
  if (is_even (workload))
    bounds.step_s = bound_step (&parts, whole);
  if (workload->plan.offload == SC_OFFLOAD_NONE)
    bounds.device_bytes = device->context_bytes.value + bound_memory (&parts, row);
  return bounds;
}
