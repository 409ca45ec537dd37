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

ScSummary *
sc_forecast (const ScTopology *topology, const ScWorkload *workload, const ScForecastOptions *options, GError **error)
{
  const ScForecastOptions defaults = { 0 };
  if (options == NULL)
    options = &defaults;
  g_autoptr (GError) inner = NULL;
  g_autoptr (ScFabric) fabric = sc_fabric_new (topology, workload->plan.gpus, &inner);
  if (fabric == NULL)
    {
      set_mismatch (error, "topology", inner);
      return NULL;
    }
  if (!sc_workload_check_modelled (workload, &inner))
    {
      set_mismatch (error, "workload", inner);
      return NULL;
    }
  if (!check_devices (workload, fabric, error))
    return NULL;
  g_autoptr (ScLayout) layout = sc_layout_new (workload);
  g_autofree guint32 *colour = program_colours (workload, fabric);
  g_autoptr (ScStepItems) items = sc_step_items_new (workload);
  g_autoptr (ScStageSizes) sizes = sc_stage_sizes_new (workload);
  g_autoptr (GArray) needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  g_autoptr (ScCostCache) own_costs = options->costs == NULL ? sc_cost_cache_new () : NULL;
  g_autoptr (ScLoads) loads = NULL;
  g_autoptr (ScFold) fold = NULL;
  g_autoptr (ScLowered) lowered = NULL;
  ScLowerInput input;
  do /* which algorithms the calls take is known once they are made; their links are walked then */
    {
      g_clear_pointer (&lowered, sc_lowered_free);
      g_clear_pointer (&fold, sc_fold_free);
      g_clear_pointer (&loads, sc_loads_free);
      loads = sc_loads_new (layout, fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
      fold = sc_fold_new (layout, fabric, loads, colour, options->class_budget, options->unfolded);
      input = (ScLowerInput) { workload, fabric, layout, loads, fold, items, sizes, 0, options->detail, options->costs != NULL ? options->costs : own_costs, options->apart };
      if (!check_size (&input, error))
        return NULL;
      lowered = sc_lower (&input);
      g_array_append_vals (needs, lowered->needs->data, lowered->needs->len);
      sc_needs_sort (needs);
    }
  while (lowered->needs->len > 0);
  ScTrace *const trace = options->links ? sc_engine_run_metered (lowered->program, &inner)
                                         : sc_engine_run (lowered->program, &inner);
  if (trace == NULL)
    {
      if (g_error_matches (inner, SC_ENGINE_ERROR, SC_ENGINE_ERROR_TOO_LONG))
        set_mismatch (error, "workload", inner);
      else
        g_set_error (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_INTERNAL, "the simulation stopped: %s", inner->message);
      return NULL;
    }
  return sc_summarise (&input, lowered, trace, options->memory_margin > 0 ? options->memory_margin : SC_MEMORY_DEFAULT_MARGIN, options->memory);
}
