/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layer.h - what a rank executes for one layer: kernels, collectives and allocations in the order in which the
 * framework issues them (MODELLING 4.6, 5.8, 6.2, 3.4, 3.5, 3.8, 3.14).
 * Layer: models.  Knows nothing of streams, events or time: lowering maps items to those. */
#pragma once
#include "models/category.h"
#include "models/comm-kind.h"
#include "models/kernel.h"
#include "models/layer-kinds.h"
#include "models/workload.h"

typedef enum
{
  SC_COLL_ALL_REDUCE,
  SC_COLL_REDUCE_SCATTER,
  SC_COLL_ALL_GATHER,
  SC_COLL_BROADCAST,
  SC_COLL_REDUCE,
  SC_COLL_ALL_TO_ALL,
  SC_COLL_SEND_RECEIVE, /* every rank sends to the next one and receives from the one before, as sendrecv_perf */
  SC_COLL_SEND,
  SC_N_COLLS
} ScCollKind;
const char *sc_coll_kind_name (ScCollKind kind); /* "all-reduce", ... */

typedef enum
{
  SC_ITEM_KERNEL,
  SC_ITEM_COLLECTIVE,       /* compute waits for it */
  SC_ITEM_COLLECTIVE_START, /* beside what follows: it may begin when the items before it are done */
  SC_ITEM_COLLECTIVE_WAIT,  /* compute waits for the oldest started one over its group that was not waited for */
  SC_ITEM_MEM,              /* allocate (> 0) or free (< 0) */
  SC_ITEM_HOST_MARK,        /* what the host is going to read is there when compute has come here */
  SC_ITEM_HOST_WAIT,        /* the host issues nothing that follows before it has read what was marked last */
} ScItemKind;

typedef struct
{
  ScItemKind  kind;
  ScTimeKind  time;      /* forward, backward, recompute, optimizer: what the item belongs to */
  ScKernel    kernel;    /* KERNEL */
  ScCommKind  comm;      /* COLLECTIVE*: the group it is over */
  ScCollKind  coll;      /* COLLECTIVE, COLLECTIVE_START */
  const char *name;      /* collectives: static, for traces: "qkv all-gather" */
  gboolean    together;  /* KERNEL, COLLECTIVE_START: issued by its library with the item before, not by the framework's own code */
  gboolean    buffers;   /* collectives: in user buffers of the framework's library, which say how many SMs they take */
  double      bytes;     /* collectives: whole buffer of one rank's call as nccl-tests counts it (the gathered one for AG and RS) */
  ScMemKind   mem;       /* MEM */
  gint64      mem_bytes; /* MEM */
  gboolean    sent;      /* MEM, freed: another stream may still read it when the host frees it */
  guint8      tensor;    /* MEM: one that a layer has a name for (sc_tensor_name()); 0: none, and a free takes the latest of its kind and size */
} ScItem;

static inline GArray *
sc_item_list_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (ScItem));
}

/* "qkv", ...; of @tensor 0 "". */
const char *sc_tensor_name (guint8 tensor);

/* Everything the lists depend on, worked out once per workload and kind of layer. */
typedef struct
{
  const ScModel     *model;
  const ScPlan      *plan;
  const ScFramework *framework;
  ScLayerKind kind;    /* of the layer; embedding and head do not ask */
  guint   seq;
  double  tokens;      /* T = b * seq / cp: of one micro-batch seen by a TP group */
  double  tokens_sp;   /* T / tp with sequence parallelism, else T: rows of the norms and residuals */
  double  act_bytes;   /* of one activation element */
} ScLayerShape;

ScLayerShape sc_layer_shape (const ScWorkload *workload, const ScLayerKind *kind); /* @kind NULL: the first layer's */

/* Each appends ScItem to @items.  MEM items balance: what forward saves, backward frees.
 * A tensor that passes from one list to the next belongs to the receiver: forward allocates its input as its first item
 * and frees its output as its last, backward does so with the gradients.  Whoever received the tensor from elsewhere (a
 * stage boundary) frees the receive buffer just before, and allocates a send buffer just after.
 * Time of items with SC_TIME_RECOMPUTE is issued at the pace of forward. */
void sc_layer_forward (const ScLayerShape *shape, GArray *items);
/* What the kind's recompute says is repeated in it (items that carry SC_TIME_RECOMPUTE): the whole forward first, parts just before
 * their own backward. */
void sc_layer_backward (const ScLayerShape *shape, GArray *items);
/* Of a layer recomputed in full that is not the last of its group: its forward again, before the backward of the last. */
void sc_layer_rebuild (const ScLayerShape *shape, GArray *items);

/* The two parts of a backward pass, for schedules that split it (zero bubble, arXiv 2401.10241): the gradient of the input, then, at any later
 * time, those of the weights.  Together they issue the same kernels; what only the weights need (inputs of linear layers,
 * output gradients) lives until they have had it (MODELLING 3.7).  Collectives as in NVIDIA/Megatron-LM with
 * sail-sg/zero-bubble-pipeline-parallelism's tensor_parallel/layers.py: the input gradient is reduced with nothing beside it, the
 * saved input is gathered again with the weights; the gathered output gradient of a row-parallel layer is kept. */
void sc_layer_backward_input (const ScLayerShape *shape, GArray *items);
void sc_layer_backward_weight (const ScLayerShape *shape, GArray *items);
void sc_embedding_backward_input (const ScLayerShape *shape, GArray *items);
void sc_embedding_backward_weight (const ScLayerShape *shape, GArray *items);
void sc_head_backward_input (const ScLayerShape *shape, GArray *items);
void sc_head_backward_weight (const ScLayerShape *shape, GArray *items);

void sc_embedding_forward (const ScLayerShape *shape, GArray *items);
void sc_embedding_backward (const ScLayerShape *shape, GArray *items);
/* Final norm, logits, vocabulary-parallel cross entropy. */
void sc_head_forward (const ScLayerShape *shape, GArray *items);
void sc_head_backward (const ScLayerShape *shape, GArray *items);

/* Modules that predict further tokens, model.mtp_layers of them, between the last layer and the head.  @shape: of the last layer. */
void sc_mtp_forward (const ScLayerShape *shape, GArray *items);
void sc_mtp_backward (const ScLayerShape *shape, GArray *items);
void sc_mtp_backward_input (const ScLayerShape *shape, GArray *items);
void sc_mtp_backward_weight (const ScLayerShape *shape, GArray *items);

/* A pass over this rank's part of a vocabulary that the ranks of a pipeline share out: SC_PASS_TABLE ... */
void sc_vocab_list (const ScLayerShape *shape, ScPass pass, GArray *items);

/* Casts of @params weights of linear layers, once a step. */
void sc_weights_cast (const ScLayerShape *shape, double params, GArray *items);

/* Bytes that one rank sends over a stage boundary (MODELLING 5.8); with plan.scatter_gather its 1 / tp of the tensor. */
double sc_boundary_bytes (const ScLayerShape *shape);

/* Bytes of the user buffers of a rank with plan.tp_overlap, else 0. */
double sc_user_buffer_bytes (const ScLayerShape *shape);

/* Bytes one layer keeps from forward to backward on one rank, sum of the saved-tensor table (MODELLING 3.4, 3.5). */
double sc_layer_saved_bytes (const ScLayerShape *shape);
