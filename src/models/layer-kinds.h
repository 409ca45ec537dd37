/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-kinds.h - which layers of a model are alike: a step prices and lists each kind once.
 * Layer: models. */
#pragma once
#include "models/recompute.h"

typedef struct
{
  gboolean experts; /* a mixture of experts in place of the MLP */
  guint    window;  /* tokens that a query attends; 0: all */
  ScLayerRecompute recompute; /* what its backward computes again */
  guint    stage;   /* virtual stage, where passes are as long as the user says by stage; else 0 */
} ScLayerKind;

typedef struct
{
  ScLayerKind *kinds;    /* [n] */
  guint  n;
  guint16 *of_layer;     /* [layers] index into kinds */
  guint16 *partial;      /* the same for micro-batches that plan.partial_microbatches spares; NULL: none are */
} ScLayerKinds;

ScLayerKinds *sc_layer_kinds_new (const ScWorkload *workload);
void          sc_layer_kinds_free (ScLayerKinds *kinds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLayerKinds, sc_layer_kinds_free)
