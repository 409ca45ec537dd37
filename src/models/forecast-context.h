/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast-context.h - what forecasts on one topology find out once, however many they are.
 * Layer: models.
 *
 * Links and routes hang on the topology and the width of the job; walks and classes on the groups as well; costs of kernels on the GPU.  A context
 * keeps what was asked for before, so that the next point of a sweep costs what differs.  It is for one thread and one topology, and
 * a forecast with it says what one without it says, to the last bit. */
#pragma once
#include "models/fold.h"
#include "models/kernel.h"

typedef struct _ScForecastContext ScForecastContext;

/* @topology: borrowed; it must outlive the context and not change. */
ScForecastContext *sc_forecast_context_new (const ScTopology *topology);
void               sc_forecast_context_free (ScForecastContext *context);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScForecastContext, sc_forecast_context_free)

/* ---- for forecast.c; all that is returned is the context's, and lives until the next call of the same function ---- */

const ScTopology *sc_forecast_context_topology (const ScForecastContext *context);
ScCostCache      *sc_forecast_context_costs (ScForecastContext *context);

/* NULL and SC_FABRIC_ERROR: the topology has no such job. */
const ScFabric *sc_forecast_context_fabric (ScForecastContext *context, guint n_gpus, GError **error);

/* Walks of a layout's groups, and what is alike. */
typedef struct
{
  const ScLoads *loads;
  const ScFold  *fold;
} ScFolded;

/* @fabric: the context's, of the layout's ranks.  The others as sc_loads_new() and sc_fold_new() have them. */
ScFolded sc_forecast_context_fold (ScForecastContext *context, const ScFabric *fabric, const ScLayout *layout, const GArray *needs,
                                   const guint32 *colour, guint32 budget, gboolean unfolded);
