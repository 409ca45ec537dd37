/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-kinds.c - the kinds of layers in a model, in order of their first layer. */
#include "models/layer-kinds.h"
#include "models/experts.h"
#include "models/packing.h"

static gboolean
same (const ScLayerKind *a, const ScLayerKind *b)
{
  return a->experts == b->experts && a->routing == b->routing && a->window == b->window && sc_layer_recompute_equal (&a->recompute, &b->recompute)
         && a->stage == b->stage && a->pairs == b->pairs;
}

/* Index of @kind among those known, to which it is added. */
static guint16
index_of (GArray *kinds, const ScLayerKind *kind)
{
  guint k = 0;
  while (k < kinds->len && !same (&g_array_index (kinds, ScLayerKind, k), kind))
    k++;
  if (k == kinds->len)
    g_array_append_val (kinds, *kind);
  return (guint16) k;
}

static double
packed_pairs (const ScPacking *packing, guint kind, guint window)
{
  return packing == NULL ? 0 : MAX (packing->pairs[kind][window > 0 ? 1 : 0], 1);
}

/* What backward repeats hangs on a layer's place in its virtual stage. */
static guint16 *
number_layers (const ScWorkload *workload, const guint *stages, gboolean partial, GArray *kinds)
{
  const ScPlan *const plan = &workload->plan;
  const guint layers = workload->model.layers, n_packed = workload->packing != NULL ? workload->packing->n_kinds : 1;
  guint16 *const of_layer = g_new0 (guint16, n_packed * layers);
  for (guint packed = 0; packed < n_packed; packed++)
    {
      guint layer = 0;
      for (guint j = 0; j < plan->pp * plan->vpp; j++)
        for (guint i = 0; i < stages[j]; i++, layer++)
          {
            const gboolean experts = sc_model_layer_has_experts (&workload->model, layer);
            ScLayerKind kind = { .experts = experts,
                                 .routing = experts ? sc_experts_line (&workload->model, plan, layer) : 0,
                                 .window = sc_model_layer_window (&workload->model, layer, workload->seq),
                                 .recompute = sc_recompute_of_layer (plan, i, stages[j], partial),
                                 .stage = plan->profile.by_stage ? j : 0 };
            kind.pairs = packed_pairs (workload->packing, packed, kind.window);
            of_layer[packed * layers + layer] = index_of (kinds, &kind);
          }
    }
  return of_layer;
}

ScLayerKinds *
sc_layer_kinds_new (const ScWorkload *workload)
{
  ScLayerKinds *const ret = g_new0 (ScLayerKinds, 1);
  GArray *const kinds = g_array_new (FALSE, FALSE, sizeof (ScLayerKind));
  g_autofree guint *stages = sc_workload_stage_layers (workload);
  ret->of_layer = number_layers (workload, stages, FALSE, kinds);
  if (workload->plan.partial_microbatches > 0)
    ret->partial = number_layers (workload, stages, TRUE, kinds);
  ret->n_packed = workload->packing != NULL ? workload->packing->n_kinds : 1;
  ret->of_microbatch = workload->packing != NULL ? workload->packing->of_microbatch : NULL;
  ret->n = kinds->len;
  ret->kinds = (ScLayerKind *) (gpointer) g_array_free (kinds, FALSE);
  return ret;
}

void
sc_layer_kinds_free (ScLayerKinds *kinds)
{
  if (kinds == NULL)
    return;
  g_free (kinds->kinds);
  g_free (kinds->of_layer);
  g_free (kinds->partial);
  g_free (kinds);
}
