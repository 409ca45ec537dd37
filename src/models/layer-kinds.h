/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer-kinds.h - which layers of a model are alike: a step prices and lists each kind once.
 * Layer: models. */
#pragma once
#include "models/recompute.h"

typedef struct
{
  gboolean experts; /* a mixture of experts in place of the MLP */
  guint    routing; /* line of the recorded routing */
  guint    window;  /* tokens that a query attends; 0: all */
  ScLayerRecompute recompute; /* what its backward computes again */
  double   pairs;   /* query-key pairs of one head over a micro-batch of packed documents; 0: of whole sequences */
  guint    stage;   /* virtual stage, where passes are as long as the user says by stage; else 0 */
} ScLayerKind;

typedef struct
{
  ScLayerKind *kinds;    /* [n] */
  guint  n;
  guint    n_packed;     /* kinds of micro-batches by the documents in them; 0 and 1: all alike */
  const guint8 *of_microbatch; /* [microbatches] which of those, of the workload's packing; NULL: alike */
  guint16 *of_layer;     /* [n_packed * layers, of the first ones first] index into kinds */
  guint16 *partial;      /* the same for micro-batches that plan.partial_microbatches spares; NULL: none are */
} ScLayerKinds;

ScLayerKinds *sc_layer_kinds_new (const ScWorkload *workload);
void          sc_layer_kinds_free (ScLayerKinds *kinds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLayerKinds, sc_layer_kinds_free)
