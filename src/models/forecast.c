/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast.c - the flow of DESIGN 2 in one function: place, fold, lower, simulate, summarise. */
#include "models/forecast.h"
#include "models/memory.h"
#include "models/precision.h"
#include "models/summarise.h"
#include "sim/engine.h"

G_DEFINE_QUARK (sc-forecast-error-quark, sc_forecast_error)

/* Ranks with different programs get different colours: stage, node type (GPU, host), speed. */
static guint32 *
program_colours (const ScWorkload *workload, const ScFabric *fabric)
{
  typedef struct
  {
    const ScNodeType *type;
    float speed;
  } Kind;
  g_autoptr (GArray) kinds = g_array_new (FALSE, FALSE, sizeof (Kind));
  guint32 *const colour = g_new (guint32, fabric->n_gpus);
  guint last = 0;
  for (guint32 r = 0; r < fabric->n_gpus; r++)
    {
      const Kind kind = { sc_fabric_node_type (fabric, r), fabric->gpus[r].speed };
      guint k = last; /* neighbours are alike more often than not */
      if (k >= kinds->len || g_array_index (kinds, Kind, k).type != kind.type || g_array_index (kinds, Kind, k).speed != kind.speed)
        for (k = 0; k < kinds->len; k++)
          if (g_array_index (kinds, Kind, k).type == kind.type && g_array_index (kinds, Kind, k).speed == kind.speed)
            break;
      if (k == kinds->len)
        g_array_append_val (kinds, kind);
      last = k;
      colour[r] = sc_layout_coord (&workload->plan, r).pp + workload->plan.pp * k;
    }
  return colour;
}

/* @from: why it cannot be; the message becomes "ROLE: ...". */
static void
set_mismatch (GError **error, const char *role, const GError *from)
{
  g_set_error (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_MISMATCH, "%s: %s", role, from->message);
}

static gboolean
check_devices (const ScWorkload *workload, const ScFabric *fabric, GError **error)
{
  for (guint node = 0; node < fabric->n_nodes; node++)
    {
      const ScDevice *const d = sc_topology_node_type (fabric->topology, fabric->first_node + node)->device;
      if (d->peak_flops[workload->plan.dtype].value > 0 && d->peak_flops[sc_plan_gemm_dtype (&workload->plan)].value > 0)
        continue;
      g_set_error (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_MISMATCH, "/plan/dtype: found %s, but %s has no such matrix rate",
                   sc_plan_dtype_name (&workload->plan), d->name);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_size (const ScLowerInput *input, GError **error)
{
  const double ops = sc_lower_estimate (input);
  if (ops <= SC_FORECAST_MAX_OPS)
    return TRUE;
  g_set_error (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_TOO_LARGE,
               "about %.0f million operations (%u micro-batches, %u layers, ranks in %u classes), at most %.0f million can be simulated%s:"
               " fewer micro-batches, layers or different faults",
               ops / 1e6, sc_workload_microbatches (input->workload), input->workload->model.layers, input->fold->n_classes,
               SC_FORECAST_MAX_OPS / 1e6, input->detail == SC_DETAIL_KERNEL ? " kernel by kernel" : "");
  return FALSE;
}

/* All that comes before the simulation. */
typedef struct
{
  ScForecastContext *own, *context; /* context: the caller's, or own */
  const ScFabric *fabric;
  ScLayout *layout;
  guint32 *colour;
  ScStepItems *items;
  ScStageSizes *sizes;
  GArray *needs; /* ScNeed: walks that calls turned out to take */
  ScWorkload simulated; /* the workload, or with fewer micro-batches */
  ScLowered *lowered;
  ScLowerInput input;
} Plan;

static void
plan_clear (Plan *p)
{
  g_clear_pointer (&p->lowered, sc_lowered_free);
  g_clear_pointer (&p->needs, g_array_unref);
  g_clear_pointer (&p->sizes, sc_stage_sizes_free);
  g_clear_pointer (&p->items, sc_step_items_free);
  g_clear_pointer (&p->colour, g_free);
  g_clear_pointer (&p->layout, sc_layout_free);
  g_clear_pointer (&p->own, sc_forecast_context_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Plan, plan_clear)

static gboolean
place (Plan *p, const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, GError **error)
{
  g_autoptr (GError) inner = NULL;
  p->own = options->context == NULL ? sc_forecast_context_new (topology) : NULL;
  p->context = p->own != NULL ? p->own : options->context;
  g_assert (sc_forecast_context_topology (p->context) == topology);
  p->fabric = sc_forecast_context_fabric (p->context, workload->plan.gpus, &inner);
  if (p->fabric == NULL)
    {
      set_mismatch (error, "topology", inner);
      return FALSE;
    }
  if (!sc_workload_check_modelled (workload, &inner))
    {
      set_mismatch (error, "workload", inner);
      return FALSE;
    }
  if (!check_devices (workload, p->fabric, error))
    return FALSE;
  p->layout = sc_layout_new (workload);
  p->colour = program_colours (workload, p->fabric);
  p->items = sc_step_items_new (workload);
  p->sizes = sc_stage_sizes_new (workload);
  p->needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  p->simulated = *workload;
  return TRUE;
}

/* Do walks of collectives matter to the order of passes, and so to memory? */
static gboolean
order_needs_costs (const ScWorkload *workload)
{
  return sc_schedule_find (workload->plan.schedule)->orders != NULL;
}

/* Lowers with the walks that are known, and notes which others calls take.  @marks, @tapes_only: ScLowerInput. */
static gboolean
lower_once (Plan *p, const ScForecastOptions *options, ScDetail detail, gboolean marks, gboolean tapes_only, GError **error)
{
  g_clear_pointer (&p->lowered, sc_lowered_free);
  const ScFolded folded = sc_forecast_context_fold (p->context, p->fabric, p->layout, p->needs, p->colour, options->class_budget, options->unfolded);
  p->input = (ScLowerInput) { .workload = &p->simulated, .fabric = p->fabric, .layout = p->layout, .loads = folded.loads, .fold = folded.fold,
                              .items = p->items, .sizes = p->sizes, .detail = detail, .metered = options->links, .costs = sc_forecast_context_costs (p->context),
                              .apart = options->apart, .marks = marks, .tapes_only = tapes_only };
  if (!check_size (&p->input, error))
    return FALSE;
  p->lowered = sc_lower (&p->input);
  g_array_append_vals (p->needs, p->lowered->needs->data, p->lowered->needs->len);
  sc_needs_sort (p->needs);
  return TRUE;
}

static gboolean
lower (Plan *p, const ScForecastOptions *options, gboolean marks, gboolean tapes_only, GError **error)
{
  const ScDetail detail = tapes_only ? SC_DETAIL_STAGE : options->detail;
  do /* which algorithms the calls take is known once they are made; their links are walked then */
    if (!lower_once (p, options, detail, marks, tapes_only, error))
      return FALSE;
  while (p->lowered->needs->len > 0 && (!tapes_only || order_needs_costs (&p->simulated)));
  return TRUE;
}

/* Lowers and runs what p->simulated says. */
static ScTrace *
simulate (Plan *p, const ScForecastOptions *options, gboolean marks, GError **error)
{
  g_autoptr (GError) inner = NULL;
  if (!lower (p, options, marks, FALSE, error))
    return NULL;
  ScTrace *const trace = options->links ? sc_engine_run_metered (p->lowered->program, &inner) : sc_engine_run (p->lowered->program, &inner);
  if (trace == NULL && g_error_matches (inner, SC_ENGINE_ERROR, SC_ENGINE_ERROR_TOO_LONG))
    set_mismatch (error, "workload", inner);
  else if (trace == NULL)
    g_set_error (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_INTERNAL, "the simulation stopped: %s", inner->message);
  return trace;
}

/* The same of as few micro-batches as show what the others do; *ret_repeat: that, or NULL, if it took them all. */
static ScTrace *
simulate_brief (Plan *p, const ScWorkload *workload, const ScForecastOptions *options, ScRepeat **ret_repeat, GError **error)
{
  const guint all = sc_workload_microbatches (workload);
  const guint first = sc_brief_microbatches (workload, 0);
  p->simulated = sc_brief_workload (workload, sc_brief_least (workload));
  if (first < all && !lower_once (p, options, SC_DETAIL_STAGE, FALSE, FALSE, error)) /* for the calls */
    return NULL;
  for (guint n = first; n < all; n = sc_brief_microbatches (workload, n))
    {
      p->simulated = sc_brief_workload (workload, n);
      g_autoptr (ScTrace) trace = simulate (p, options, TRUE, error);
      if (trace == NULL)
        return NULL;
      *ret_repeat = sc_brief_find (workload, p->lowered, trace);
      if (*ret_repeat != NULL)
        return sc_brief_run (p->lowered, *ret_repeat, error);
    }
  p->simulated = *workload;
  return simulate (p, options, FALSE, error);
}

static double
margin_of (const ScForecastOptions *options)
{
  return options->memory_margin > 0 ? options->memory_margin : SC_MEMORY_DEFAULT_MARGIN;
}

ScSummary *
sc_forecast (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, GError **error)
{
  const ScForecastOptions defaults = { 0 };
  g_auto (Plan) p = { 0 };
  if (options == NULL)
    options = &defaults;
  if (!place (&p, topology, workload, options, error))
    return NULL;
  g_autoptr (ScRepeat) repeat = NULL;
  ScTrace *const trace = options->brief && !options->links ? simulate_brief (&p, workload, options, &repeat, error) : simulate (&p, options, FALSE, error);
  if (trace == NULL)
    return NULL;
  p.input.workload = workload;
  return sc_summarise (&p.input, p.lowered, trace, repeat, margin_of (options), options->memory);
}

ScSummary *
sc_forecast_memory (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, GError **error)
{
  const ScForecastOptions defaults = { 0 };
  g_auto (Plan) p = { 0 };
  if (options == NULL)
    options = &defaults;
  if (!place (&p, topology, workload, options, error) || !lower (&p, options, FALSE, TRUE, error))
    return NULL;
  p.input.workload = workload;
  return sc_summarise_space (&p.input, p.lowered, margin_of (options), options->memory);
}

/* Do passes take the same in each micro-batch, in an order that is known before, and does the step last as long as they do? */
static gboolean
is_even (const ScWorkload *workload)
{
  const ScPlan *const p = &workload->plan;
  const ScSchedule *const row = sc_schedule_find (p->schedule);
  return p->profile.n == 0 && p->n_microbatch_factors == 0 && workload->documents == NULL && p->partial_microbatches == 0 && row->orders == NULL
         && row->placement != SC_PLACE_BOTH && p->vocab_parallel == SC_VOCAB_ENDS && !p->post_validation;
}

/* Are all-to-alls of experts run beside the pass that a slot is paired with, so that two passes take less than both? */
static gboolean
overlaps_pairs (const ScOrders *orders, const ScPlan *plan)
{
  for (guint rank = 0; rank < orders->p && plan->ep > 1; rank++)
    for (guint i = 0; i < orders->ranks[rank]->len; i++)
      if (g_array_index (orders->ranks[rank], ScSlot, i).paired)
        return TRUE;
  return FALSE;
}

static double
replay_least (Plan *p, const ScForecastOptions *options)
{
  const guint n = p->sizes->n_virtual;
  g_autofree double *passes = g_new (double, SC_N_PASSES * n);
  double *const whole = passes + SC_PASS_BACKWARD * n, *const input = passes + SC_PASS_INPUT * n, *const weight = passes + SC_PASS_WEIGHT * n;
  ScStageTimes times = { passes, 0 };
  for (guint missing = 1; missing > 0;)
    {
      const ScFolded folded = sc_forecast_context_fold (p->context, p->fabric, p->layout, p->needs, p->colour, options->class_budget, options->unfolded);
      p->input = (ScLowerInput) { .workload = &p->simulated, .fabric = p->fabric, .layout = p->layout, .loads = folded.loads, .fold = folded.fold,
                                  .items = p->items, .sizes = p->sizes, .detail = SC_DETAIL_STAGE, .costs = sc_forecast_context_costs (p->context) };
      g_autoptr (GArray) needs = sc_lower_least_times (&p->input, &times);
      missing = needs->len;
      g_array_append_vals (p->needs, needs->data, needs->len);
      sc_needs_sort (p->needs);
    }
  const ScScheduleShape shape = sc_workload_schedule_shape (&p->simulated);
  g_autoptr (ScOrders) orders = sc_orders_new (sc_schedule_find (p->simulated.plan.schedule), &shape, NULL, p->simulated.plan.schedule_table);
  if (overlaps_pairs (orders, &p->simulated.plan))
    return 0;
  const gboolean split = sc_orders_split (orders);
  for (guint i = 0; i < n; i++) /* a replay takes the sum for a whole one: orders that have both must not be charged too much for it */
    {
      input[i] = split ? MIN (input[i], whole[i]) : whole[i];
      weight[i] = split ? MIN (weight[i], whole[i] - input[i]) : 0;
    }
  const ScScheduleCosts costs = { .forward = passes + SC_PASS_FORWARD * n, .input = input, .weight = weight, .latency = times.transfer_ps };
  return MAX (sc_orders_replay (orders, &costs, NULL, NULL), 0) * 1e-12;
}

gboolean
sc_forecast_least (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, double *ret_step_s, GError **error)
{
  const ScForecastOptions defaults = { 0 };
  g_auto (Plan) p = { 0 };
  if (options == NULL)
    options = &defaults;
  if (!place (&p, topology, workload, options, error))
    return FALSE;
  *ret_step_s = is_even (workload) ? replay_least (&p, options) : 0;
  return TRUE;
}
