/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower.h - the plan becomes one program per class of ranks.
 * Layer: models.
 *
 * What a rank does in a step, in the order in which its framework issues it: the slots of its schedule, each a pass
 * over the layers of one chunk; between two slots the sends and receives of their boundary; gradient buckets behind the last
 * backward that fills them; then gradient norm, optimizer, parameter gather.  Overlap is never typed: it is what comes out when
 * these run on their streams. */
#pragma once
#include "models/fold.h"
#include "models/layer.h"
#include "models/summary.h"
#include "models/tape.h"

/* What the passes over one part of the model consist of: GArray of ScItem, by ScPass. */
typedef struct
{
  GArray *pass[SC_N_PASSES];
  GArray *rebuild; /* of layers that are recomputed before the backward of a later one; else NULL */
  GArray *away[2]; /* of layers whose saved tensors may be in host memory between forward and backward: they leave, and come back; else NULL */
} ScPassItems;

typedef struct
{
  ScLayerKinds *kinds;
  ScPassItems  *layers;  /* [kinds->n] */
  ScPassItems   embedding, head;
  GArray *vocab[SC_N_SLOT_PASSES - SC_N_PASSES]; /* of a vocabulary that the pipeline's ranks share out; else NULL */
  double  boundary_bytes; /* that one rank sends for one stage boundary tensor */
  double  tensor_bytes;   /* of that tensor in one rank's memory */
} ScStepItems;

ScStepItems *sc_step_items_new (const ScWorkload *workload);

/* Share of a micro-batch's activations that input gradients leave to the weight gradients, in layers of this kind. */
double       sc_step_items_held (const ScStepItems *items, guint kind);
/* Bytes that a layer of this kind saves for its backward. */
double       sc_step_items_saved (const ScStepItems *items, guint kind);
void         sc_step_items_free (ScStepItems *items);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScStepItems, sc_step_items_free)

/* Layers of the stages, and parameters that a rank of each pipeline rank holds, all its chunks. */
typedef struct
{
  guint   *layers;     /* [pp * vpp] layers of each virtual stage */
  guint    n_virtual;
  guint64 *params;     /* [pp] parameters of one rank of each stage, but routed experts ... */
  guint64 *experts;    /* [pp] ... and those */
} ScStageSizes;

ScStageSizes *sc_stage_sizes_new (const ScWorkload *workload);
guint         sc_stage_first_layer (const ScStageSizes *sizes, guint stage); /* of virtual stage @stage, in the model */
void          sc_stage_sizes_free (ScStageSizes *sizes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScStageSizes, sc_stage_sizes_free)

/* How finely a step is simulated (DESIGN 3.4). */
typedef enum
{
  SC_DETAIL_KERNEL, /* every kernel and collective */
  SC_DETAIL_LAYER,  /* a pass over a layer is few ops */
  SC_DETAIL_STAGE,  /* ... over a chunk */
  SC_N_DETAILS
} ScDetail;
const char *sc_detail_name (ScDetail detail); /* "kernel", "layer", "stage" */

typedef struct
{
  const ScWorkload   *workload;
  const ScFabric     *fabric;
  const ScLayout     *layout;
  const ScLoads      *loads;
  const ScFold       *fold;
  const ScStepItems  *items;
  const ScStageSizes *sizes;
  guint  blocks; /* 0: collectives as loads; else (unfolded only) as single messages in this many blocks */
  ScDetail detail;
  gboolean metered;   /* links are: no call is merged into the pass that waits for it */
  ScCostCache *costs; /* of kernels asked before; NULL: none is kept */
  gboolean apart;     /* every class has ops of its own (sc_program_share_ops()): more memory, nothing else; for tests */
  gboolean marks;     /* fill ScLowered.marks */
  gboolean tapes_only; /* one class of each stage is lowered: all tapes are there, the program is not whole */
} ScLowerInput;

/* Where a slot of its order begins, of a class: what there is before it. */
typedef struct
{
  guint32 op;                    /* ops of the class ... */
  guint32 entry;                 /* ... entries of its stage's tape, where this class writes it ... */
  ScTime  grade_ps[SC_N_GRADES]; /* ... and time of kernels by grade */
} ScSlotMark;

typedef struct
{
  ScProgram *program;
  GPtrArray *labels;    /* char *, text of ScOp.label */
  ScTime    *grade_ps;  /* [n_classes * SC_N_GRADES] time of kernels by grade */
  GPtrArray *messages;  /* ScMessages, owned; empty unless blocks > 0 */
  ScOrders  *orders;    /* of the pipeline's ranks */
  guint     *ranks;     /* [n_classes] which of them each class is */
  GPtrArray *tapes;     /* ScTape, owned: [pp] what the ranks of each stage allocate */
  GArray    *marks;     /* ScSlotMark, class by class, as many each; NULL unless asked for */
  GArray    *needs;     /* ScNeed: walks that calls take and the loads lack; not empty: lower again with them, the program is not whole */
} ScLowered;

/* About how many ops sc_lower() will make, before it makes any. */
double sc_lower_estimate (const ScLowerInput *input);

ScLowered *sc_lower (const ScLowerInput *input);
void       sc_lowered_free (ScLowered *lowered);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLowered, sc_lowered_free)

/* What passes over the virtual stages take at least, each on the fastest class that it lives on, and a message between two: kernels at full rate and the
 * collectives that they wait for, alone on their links. */
typedef struct
{
  double *pass_ps; /* [SC_N_PASSES * n_virtual] by pass; yours */
  double  transfer_ps;
} ScStageTimes;

/* Fills @ret without lowering a step.  Returns ScNeed as ScLowered.needs, yours: not empty, ask again with them. */
GArray *sc_lower_least_times (const ScLowerInput *input, ScStageTimes *ret);
