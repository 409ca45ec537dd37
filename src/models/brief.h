/* SPDX-License-Identifier: GPL-3.0-or-later */
/* brief.h - a step of many micro-batches from a step of few.
 * Layer: models.
 *
 * A pipeline is full after some micro-batches and does the same with each that follows, or with each group of them.  So a step of fewer, by whole
 * periods of its schedule, is simulated; where that turns out steady (sim/steady.h), the step itself is this one with
 * the period a known number of times more.  It is exact: nothing is said of a step that is not steady. */
#pragma once
#include "models/lower.h"
#include "sim/steady.h"

/* What a class leaves out. */
typedef struct
{
  ScTime at, period; /* it does nothing in [at .. at + times periods), but what it does in the period before that */
  ScTime issue;      /* host time of it, of one period */
  ScSlotMark begin, end; /* where the last block before that stands in its ops */
} ScLeftOut;

/* What of a step comes @times more. */
typedef struct
{
  guint times;
  guint microbatches; /* each time */
  guint n_classes;
  ScLeftOut *classes; /* [n_classes] */
} ScRepeat;

void sc_repeat_free (ScRepeat *repeat);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScRepeat, sc_repeat_free)

/* Micro-batches to simulate of a step of @workload, after @tried were not steady (0: none was tried yet); as many as it has where fewer will not do. */
guint sc_brief_microbatches (const ScWorkload *workload, guint tried);

/* As few as make all calls that more make. */
guint sc_brief_least (const ScWorkload *workload);

/* @workload with so many, for sc_lower(): it borrows all that @workload owns. */
ScWorkload sc_brief_workload (const ScWorkload *workload, guint microbatches);

/* What of the step of @workload comes again, as a step of fewer shows it, lowered with marks.  NULL: that is not steady. */
ScRepeat *sc_brief_find (const ScWorkload *workload, const ScLowered *lowered, const ScTrace *trace);

/* The trace of that step without it. */
ScTrace *sc_brief_run (const ScLowered *lowered, const ScRepeat *repeat, GError **error);
