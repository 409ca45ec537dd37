/* SPDX-License-Identifier: GPL-3.0-or-later */
/* recompute.h - what backward computes again instead of keeping it: which parts of a layer, which layers of a stage, for which
 * micro-batches (MODELLING 3.11).
 * Layer: models.  Which tensors a part's repetition stands for is known to the files of the layer only (layer-pass.c). */
#pragma once
#include "models/model.h"

/* Parts of a layer that backward can repeat one by one. */
typedef enum
{
  SC_MODULE_CORE_ATTN,
  SC_MODULE_LAYERNORM,
  SC_MODULE_MLP_ACT,
  SC_MODULE_MLP,
  SC_MODULE_MOE_ACT,
  SC_MODULE_SHARED_EXPERTS,
  SC_MODULE_MOE,
  SC_MODULE_MLA_UP_PROJ,
  SC_N_MODULES
} ScModule;

typedef struct
{
  const char *name;    /* in "modules:NAME,NAME"; Megatron-LM's --recompute-modules where it has the part */
  const char *also;    /* what else it is called, or NULL */
  const char *summary; /* one line for people */
  const char *source;
} ScModuleRow;

const ScModuleRow *sc_module_row (ScModule module);
gboolean           sc_module_find (const char *name, ScModule *ret_module);

/* What the backward of one layer repeats.  All fields zero: nothing. */
typedef struct
{
  guint    modules;     /* bits 1 << ScModule */
  gboolean full;        /* the layer, as one of a group of neighbours that keeps one input ... */
  gboolean first, last; /* ... which is the first one's; all of them are rebuilt in a row before the last one's backward */
  gboolean ops;         /* operators that their outputs were not kept of: torchtitan's selective checkpointing by operator */
} ScLayerRecompute;

gboolean sc_layer_recompute_equal (const ScLayerRecompute *a, const ScLayerRecompute *b);

/* Of the @index-th of @n layers of a virtual stage.  @partial: for micro-batches that plan.partial_microbatches spares. */
ScLayerRecompute sc_recompute_of_layer (const ScPlan *plan, guint index, guint n, gboolean partial);

/* Micro-batches that rank @rank of the pipeline spares by plan.partial_microbatches: of each window of as many forwards as are in
 * flight at most, the first ones (Megatron-LM's num_microbatches_with_partial_activation_checkpoints).
 * [chunks * m], index chunk * m + micro-batch; caller frees.  NULL where the plan spares none. */
guint8 *sc_recompute_spared (const ScPlan *plan, const ScOrders *orders, guint rank);
double  sc_recompute_spared_share (const ScPlan *plan, const ScOrders *orders); /* of all ranks' forwards */

/* Whether mode and keys, model and plan go together.  Messages start with the pointer of the key. */
gboolean sc_recompute_check (const ScWorkload *workload, GError **error);

/* Forward FLOPs of what all layers repeat for one sequence, counted physically (MODELLING 1.5). */
double sc_recompute_flops (const ScWorkload *workload, ScFlopsConvention convention, gboolean partial);

/* Hardware FLOPs of a step: model FLOPs plus what is repeated.  @partial: share of the micro-batches that are spared.
 * @convention: HALF or FULL for the attention term. */
double sc_recompute_hardware_flops (const ScWorkload *workload, ScFlopsConvention convention, double partial);
