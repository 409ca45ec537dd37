/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-kinds.c - the kinds of layers in a model, in order of their first layer. */
#include "models/layer-kinds.h"
#include "models/model.h"

static ScLayerKind
kind_of_layer (const ScWorkload *workload, guint layer)
{
  return (ScLayerKind) { .experts = sc_model_layer_has_experts (&workload->model, layer),
                         .window = sc_model_layer_window (&workload->model, layer, workload->seq),
                         .recompute = workload->plan.recompute };
}

static gboolean
same (const ScLayerKind *a, const ScLayerKind *b)
{
  return a->experts == b->experts && a->window == b->window && a->recompute == b->recompute;
}

ScLayerKinds *
sc_layer_kinds_new (const ScWorkload *workload)
{
  const guint layers = workload->model.layers;
  ScLayerKinds *const ret = g_new0 (ScLayerKinds, 1);
  GArray *const kinds = g_array_new (FALSE, FALSE, sizeof (ScLayerKind));
  ret->of_layer = g_new0 (guint8, layers);
  for (guint i = 0; i < layers; i++)
    {
      const ScLayerKind kind = kind_of_layer (workload, i);
      guint k = 0;
      while (k < kinds->len && !same (&g_array_index (kinds, ScLayerKind, k), &kind))
        k++;
      if (k == kinds->len)
        g_array_append_val (kinds, kind);
      ret->of_layer[i] = (guint8) k;
    }
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
  g_free (kinds);
}
