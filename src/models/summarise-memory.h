/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summarise-memory.h - the memory of each class of ranks: peaks of its stage's tape, what the allocator holds for them, what else is on the device.
 * Layer: models. */
#pragma once
#include "models/brief.h"
#include "models/summary.h"

typedef enum
{
  SC_MEMORY_FULLEST, /* the allocator is played for the fullest stage, and for any that comes near its capacity; others are estimated alike */
  SC_MEMORY_ALL,     /* ... for all stages, with their curves and what lives at their peaks */
  SC_MEMORY_STAGES,  /* for all stages, without those */
  SC_MEMORY_NONE,    /* ... for none: sc_memory_reserved() */
} ScMemoryDepth;

/* When each entry of the tape of @stage is reached, never before the one in front of it: the beginning of what its first rank's host issues
 * next.  [entries] ScTime, caller frees. */
ScTime *sc_memory_times (const ScSummary *summary, guint stage);

/* The first class of ranks of @stage: whose program its tape goes with. */
guint sc_memory_class_of (const ScSummary *summary, guint stage);

/* Fills the memory of @summary's classes, whose stages, and summary->tapes, are there.  @repeat: what the tapes lack of the step, or NULL; those that
 * are played are then completed. */
void sc_summarise_memory (ScSummary *summary, const ScLowerInput *input, const ScRepeat *repeat, ScMemoryDepth depth);
