/* SPDX-License-Identifier: GPL-3.0-or-later */
/* timeline-blocks.h - what drawings of a pipeline are made of: the runs of each micro-batch on a stage.
 * Layer: src. */
#pragma once
#include "models/segments.h"
#include "models/summary.h"

typedef enum { SC_BLOCK_FORWARD, SC_BLOCK_BACKWARD, SC_BLOCK_WEIGHT } ScBlockPass;

/* A run of one micro-batch in one direction on one chunk, with what is waited for inside; gradients of weights that come later are a run
 * of their own. */
typedef struct
{
  ScTime from, to;
  guint  microbatch, chunk;
  ScBlockPass pass;
} ScBlock;

/* @segments: of one class, sc_segments_of_class().  ScBlock, ascending; caller unrefs. */
GArray *sc_timeline_blocks (const ScSummary *summary, const GArray *segments);

/* A round time of 1, 2 or 5 times a power of ten, at least @least. */
ScTime sc_timeline_tick (ScTime least);
