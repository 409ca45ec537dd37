/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tape.h - what the ranks of a stage allocate and free in a step, in program order.
 * Layer: models.
 *
 * A framework allocates and frees as its host issues work, not as the GPU runs it (MODELLING 3.1), so memory hangs on the order
 * of a program alone: a tape is written beside the ops, at any level of detail, and read without a simulation.  What a pass over a unit (a
 * layer, the embedding, the head) does is the same each time, so an entry is a pass over a list of items, or a single change. */
#pragma once
#include "models/category.h"
#include <glib.h>

#define SC_TAPE_OUTSIDE G_MAXUINT32

typedef enum
{
  SC_TAPE_LIST,   /* the memory items of a list */
  SC_TAPE_CHANGE, /* one tensor */
  SC_TAPE_STATE,  /* ... that is there before the step begins */
  SC_TAPE_LAZY,   /* ... but which the first step makes only where its optimizer runs */
  SC_TAPE_LATE,   /* ... or where its first backward begins */
  SC_TAPE_OPTIMIZER, /* here it runs */
  SC_TAPE_MARK,   /* nothing: here the step begins, or a slot of its schedule; changes before the first one are states, too */
} ScTapeKind;

typedef struct
{
  gint64  bytes;    /* of a tensor: allocated (> 0) or freed (< 0) */
  const char *name; /* of a tensor: static */
  guint32 list;     /* LIST: index ... */
  guint32 from, to; /* ... and items of it */
  guint32 info;     /* which pass it is: sc_info_pack() */
  guint32 op;       /* ops of the actor issued before it */
  guint8  kind;     /* ScTapeKind */
  guint8  mem;      /* of a tensor: ScMemKind */
  guint8  stream;   /* ... in whose pool it lies: ScStreamKind */
} ScTapeEntry;

typedef struct
{
  GArray    *entries; /* ScTapeEntry */
  GPtrArray *lists;   /* GArray of ScItem, referenced */
  GArray    *shapes;  /* what a list does as a whole; tape.c knows */
  GPtrArray *inside;  /* guint32 [items] of each list: of a free the item that allocated its tensor, of an allocation the item that frees it,
                         in the same list; SC_TAPE_OUTSIDE: it lives beyond it */
  GHashTable *known;  /* list -> index + 1 */
  gboolean    begun;  /* behind the first mark */
  guint       ahead;  /* ops that the host is ahead of the GPU in what follows, at most */
} ScTape;

ScTape *sc_tape_new (void);
void    sc_tape_free (ScTape *tape);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScTape, sc_tape_free)

/* A pass over items [from .. to) of @items, which must not change any more; @to G_MAXUINT32: to the end. */
void sc_tape_put_list (ScTape *tape, GArray *items, guint32 from, guint32 to, guint32 info, guint32 op);
void sc_tape_put (ScTape *tape, ScTapeEntry entry);

/* What is between entries @first and @end comes @times more behind them, each time of micro-batches @shift later; what stands behind is of as many later ones. */
void sc_tape_repeat (ScTape *tape, guint32 first, guint32 end, guint times, guint shift);

/* The item at which a pass over @items holds most: how many come before it, and itself. */
guint32 sc_tape_fullest_item (const GArray *items);

/* Highest point of the curve in a step that is not the first. */
typedef struct
{
  guint64 bytes;
  guint64 by_kind[SC_N_MEMS]; /* sum == bytes */
  guint32 entry; /* of the tape, or G_MAXUINT32: nothing was allocated */
} ScTapePeak;

ScTapePeak sc_tape_peak (const ScTape *tape);

/* The same from the end of the step's last pass on: what is there then, gradients that waited for it added and gone, and what the optimizer brings. */
ScTapePeak sc_tape_late_peak (const ScTape *tape);

/* A stretch of entries [first .. end) in which each is the same as the one @length later, but for the micro-batch, which is @shift
 * later: the steady state of a pipeline, or of gradient accumulation. */
typedef struct
{
  guint32 first, end, length;
  guint   shift;
} ScTapePeriod;

gboolean sc_tape_period (const ScTape *tape, ScTapePeriod *ret); /* FALSE: there is none worth the name */

/* What is left at the end, by kind, of all that is no state: 0 unless a plan's changes do not balance. */
void sc_tape_rest (const ScTape *tape, gint64 *ret_by_kind);
