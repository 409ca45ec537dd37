/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule.h - in which order a pipeline rank runs its forward and backward passes.
 * Layer: models.  One schedule is one file and one const row. */
#pragma once
#include <glib.h>
#include "models/vocab.h"

/* A backward pass is run at once, or as its two parts at different times: the gradient of the input, on which the stage before
 * waits, and those of the weights, on which nobody does. */
typedef enum
{
  SC_PASS_FORWARD,
  SC_PASS_BACKWARD,
  SC_PASS_INPUT,
  SC_PASS_WEIGHT,
  SC_N_PASSES,

  /* Of vocabulary layers that all ranks share out (models/vocab.h), run by each of them whatever its chunks are. */
  SC_PASS_TABLE = SC_N_PASSES, /* rows of the table, summed over the ranks for the first stage */
  SC_PASS_LOGITS,              /* logits and loss of what the last stage hands to all */
  SC_PASS_LOGITS_WEIGHT,       /* gradients that need the loss of all ranks: of the weights, and, vocab-1, of the input */
  SC_PASS_TABLE_WEIGHT,        /* the table's gradient, from what the first stage hands to all */
  SC_N_SLOT_PASSES
} ScPass;

static inline gboolean
sc_pass_of_vocabulary (guint pass)
{
  return pass >= SC_N_PASSES;
}

typedef struct
{
  guint8  pass;   /* ScPass */
  guint8  joined; /* TRUE: one step with the slot before it; blocking transfers are exchanged between steps, not inside */
  guint8  paired; /* TRUE: overlapped with the slot before it (DualPipe): both begin when both have their input, both end together */
  guint16 chunk;  /* local model chunk, from 0 */
  guint32 microbatch;
} ScSlot;

/* Where the stages of the model live. */
typedef enum
{
  SC_PLACE_LOOP, /* chunk c of rank r is stage c p + r: from the last rank on to the first */
  SC_PLACE_V,    /* there and back: stages r and 2p - 1 - r, then there again */
  SC_PLACE_BOTH, /* two pipelines against each other: chunk 0 is stage r, chunk 1 stage p - 1 - r; each stage lives twice */
} ScPlacement;

static inline gboolean
sc_placement_turns (ScPlacement placement, guint chunk)
{
  return placement != SC_PLACE_LOOP && chunk % 2 == 1;
}

/* Stage that chunk @chunk of rank @rank of @p is. */
static inline guint
sc_placement_stage (ScPlacement placement, guint p, guint rank, guint chunk)
{
  const guint first = placement == SC_PLACE_BOTH ? 0 : chunk * p;
  return first + (sc_placement_turns (placement, chunk) ? p - 1 - rank : rank);
}

/* Where stage @stage lives, on the path that chunk @chunk is part of. */
static inline guint
sc_placement_chunk (ScPlacement placement, guint p, guint stage, guint chunk)
{
  return placement == SC_PLACE_BOTH ? chunk : stage / p;
}

static inline guint
sc_placement_rank (ScPlacement placement, guint p, guint stage, guint chunk)
{
  return sc_placement_turns (placement, sc_placement_chunk (placement, p, stage, chunk)) ? p - 1 - stage % p : stage % p;
}

/* Local chunks of a rank that holds @v chunks of each pipeline it is part of. */
static inline guint
sc_placement_chunks (ScPlacement placement, guint v)
{
  return placement == SC_PLACE_BOTH ? 2 * v : v;
}

/* Does the output of @slot's pass go to the next rank (or, from the last, on to the first), not to the one before?  Its input
 * comes the same way. */
static inline gboolean
sc_placement_ahead (ScPlacement placement, const ScSlot *slot)
{
  return (slot->pass == SC_PASS_FORWARD) != sc_placement_turns (placement, slot->chunk);
}

typedef struct
{
  guint p; /* pipeline ranks */
  guint v; /* chunks per rank */
  guint m; /* micro-batches */
  guint g; /* interleaved: micro-batches of one chunk in a row (group size); p is Megatron's default */
  guint ahead; /* 1f1b, v-half: micro-batches that are in flight beyond the schedule's own */
} ScScheduleShape;

/* What passes cost, in any unit: [stages * microbatches], or [stages] where all micro-batches are alike. */
typedef struct
{
  const double *forward, *input, *weight; /* a whole backward costs input + weight */
  guint  microbatches; /* stride; 0: all alike */
  double latency;      /* of a transfer, which keeps nobody busy */
  double held;         /* share of a micro-batch's activations that input gradients leave to the weight gradients; 0: all */
} ScScheduleCosts;

/* What every rank does. */
typedef struct
{
  ScPlacement placement;
  guint p, v, m; /* as in the shape */
  guint8 vocab;  /* ScVocab */
  GArray **ranks; /* [p] ScSlot, in order */
} ScOrders;

typedef struct
{
  const char *name;    /* as plan.schedule says it */
  const char *summary; /* one line for people */
  const char *source;  /* paper or code the order is from */
  ScPlacement placement;
  gboolean exchanges;  /* TRUE: transfers as Megatron's 1F1B schedules make them, blocking or, interleaved, one slot ahead (MODELLING 6.2);
                          else sends run beside compute, and receives do so with plan.overlap_p2p */

  /* NULL, or why the schedule cannot run this shape (static text). */
  const char *(*refuse) (const ScScheduleShape *shape);

  /* Appends ScSlot to @slots: everything that pipeline rank @rank does, in order. */
  void (*order) (const ScScheduleShape *shape, guint rank, GArray *slots);

  /* Or, where it takes a view of the whole pipeline: to @ranks, [p] of them.  @costs by stage. */
  void (*orders) (const ScScheduleShape *shape, const ScScheduleCosts *costs, GArray **ranks);

  /* Micro-batches after which the orders of all ranks repeat, once the pipeline is full: a step of so many more is this one with the same slots
   * put in again, of later micro-batches (sc_orders_period()).  NULL: that is not known. */
  guint (*period) (const ScScheduleShape *shape);

  /* Most (micro-batch, chunk) activations that @rank holds at once, up to the end of their whole backward or of their weight
   * gradient (MODELLING 3.7); NULL: as the order has it. */
  guint (*in_flight) (const ScScheduleShape *shape, guint rank);

  /* Idle time over ideal time for equal stages without communication (MODELLING 7.3), where it is the same for all costs; NULL: as
   * the order has it where F = I = W. */
  double (*ideal_bubble) (const ScScheduleShape *shape);
} ScSchedule;

extern const ScSchedule sc_schedule_none, sc_schedule_1f1b, sc_schedule_interleaved, sc_schedule_interleaved_rounds, sc_schedule_interleaved_a2a,
    sc_schedule_gpipe, sc_schedule_looped_bfs, sc_schedule_zb_h1, sc_schedule_zb_h2, sc_schedule_zb_1p, sc_schedule_zb_2p,
    sc_schedule_zb_v, sc_schedule_v_half, sc_schedule_v_min, sc_schedule_dualpipe, sc_schedule_dualpipev, sc_schedule_csv;

const ScSchedule *const *sc_schedule_all (void);              /* NULL-ended */
const ScSchedule        *sc_schedule_find (const char *name); /* or NULL */

static inline void
sc_schedule_put (GArray *slots, ScPass pass, guint microbatch, guint chunk)
{
  const ScSlot slot = { .pass = (guint8) pass, .chunk = (guint16) chunk, .microbatch = microbatch };
  g_array_append_val (slots, slot);
}

/* ---- all ranks at once (orders.c) ---- */

/* What @row has the ranks do.  @costs: NULL where F = I = W.  @table: of the row csv, copied; else NULL. */
ScOrders *sc_orders_new (const ScSchedule *row, const ScScheduleShape *shape, const ScScheduleCosts *costs, const ScOrders *table);
ScOrders *sc_orders_empty (ScPlacement placement, guint p, guint v, guint m);
ScOrders *sc_orders_copy (const ScOrders *orders);
void      sc_orders_free (ScOrders *orders);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScOrders, sc_orders_free)

guint    sc_orders_stages (const ScOrders *orders); /* of one pipeline: p v */
gboolean sc_orders_split (const ScOrders *orders);  /* is any backward run in parts? */
guint    sc_orders_in_flight (const ScOrders *orders, guint rank);

/* Whether @microbatch goes through chunk @chunk: where two pipelines run against each other, one half through each. */
gboolean sc_orders_runs (const ScOrders *orders, guint chunk, guint microbatch);

/* Slots of a rank's order that come again: [first .. end), each the one @length later but for the micro-batch. */
typedef struct
{
  guint first, end, length;
} ScOrderPeriod;

/* The longest stretch of @rank's order that repeats every @microbatches of them, around its middle.  FALSE: shorter than two periods. */
gboolean sc_orders_period (const ScOrders *orders, guint rank, guint microbatches, ScOrderPeriod *ret);

/* Each rank as soon as it can (MODELLING 7.1).  @costs: NULL: F = I = W = 1 without latency.
 * Returns the makespan, or, where the ranks wait for each other for ever, a negative number, and in *ret_rank (may be NULL) the lowest
 * of them and in *ret_slot (may be NULL) the slot that it cannot begin. */
double sc_orders_replay (const ScOrders *orders, const ScScheduleCosts *costs, guint *ret_rank, guint *ret_slot);

/* The same, and when each slot begins: [p] arrays of double, in the order of the slots; the caller frees.  NULL: the ranks wait for each other. */
double **sc_orders_begins (const ScOrders *orders, const ScScheduleCosts *costs);

/* The longest time of a rank from its first slot's begin to its last one's end; of orders that replay. */
double sc_orders_span (const ScOrders *orders, const ScScheduleCosts *costs);

/* What a rank issues where it sends and receives beside compute. */
typedef enum
{
  SC_ACTION_RUN,     /* slots [slot .. slot + n) of its order, overlapped with one another if more than one */
  SC_ACTION_SEND,    /* the output of its slot */
  SC_ACTION_RECEIVE, /* the input of its slot */
  SC_ACTION_BROADCAST, /* from one rank to all: the input of its slot */
  SC_ACTION_SUM,     /* over all ranks: the output of its slot */
} ScActionKind;

typedef struct
{
  guint8 kind;
  guint32 slot, n;
} ScAction;

/* What each rank issues, [p] arrays of ScAction: as PyTorch's pipeline runtime does, it posts a receive when the sender gets to send.
 * All ranks' actions have one order in time, by @costs (NULL: F = I = W), so that nobody waits for ever whatever waits for what
 * on the way to the wire.  The orders must replay. */
GArray **sc_orders_actions (const ScOrders *orders, const ScScheduleCosts *costs);

/* Puts the passes over the vocabulary between those of orders that have none (vocab.c).  FALSE: the ranks wait for each other. */
gboolean sc_orders_add_vocabulary (ScOrders *orders, ScVocab vocab);

/* Passes of the vocabulary whose sum others wait for. */
gboolean sc_orders_sums (const ScOrders *orders, guint pass);

/* Does @slot of @rank take its input from another stage (@output FALSE) or hand one on?  *ret_rank: where that stage is. */
gboolean sc_orders_hands_on (const ScOrders *orders, guint rank, const ScSlot *slot, gboolean output, guint *ret_rank);

/* Idle over ideal time of @row for equal stages (see ScSchedule.ideal_bubble); @staggered: in the longest span of a rank, where steps follow
 * one another without a barrier. */
double sc_orders_ideal_bubble (const ScOrders *orders, const ScSchedule *row, const ScScheduleShape *shape, gboolean staggered);
