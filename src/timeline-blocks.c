/* SPDX-License-Identifier: GPL-3.0-or-later */
/* timeline-blocks.c - segments become runs of micro-batches. */
#include "timeline-blocks.h"

/* TRUE and the block's identity where @segment is work on a micro-batch. */
static gboolean
segment_block (const ScSummary *summary, const ScSegment *segment, ScBlock *ret_block)
{
  if (segment->waiting || segment->op == SC_NONE || segment->kind > SC_TIME_RECOMPUTE)
    return FALSE;
  const ScOpInfo info = sc_info_unpack (sc_program_find_op (summary->program, segment->op).info);
  if (info.microbatch == SC_INFO_NO_MICROBATCH)
    return FALSE;
  *ret_block = (ScBlock) { .from = segment->from, .to = segment->to, .microbatch = info.microbatch, .chunk = info.chunk,
                           .pass = segment->kind == SC_TIME_FORWARD ? SC_BLOCK_FORWARD : segment->kind == SC_TIME_WEIGHT ? SC_BLOCK_WEIGHT : SC_BLOCK_BACKWARD };
  return TRUE;
}

GArray *
sc_timeline_blocks (const ScSummary *summary, const GArray *segments)
{
  GArray *const blocks = g_array_new (FALSE, FALSE, sizeof (ScBlock));
  for (guint i = 0; i < segments->len; i++)
    {
      ScBlock b;
      if (!segment_block (summary, &g_array_index (segments, ScSegment, i), &b))
        continue;
      ScBlock *const last = blocks->len > 0 ? &g_array_index (blocks, ScBlock, blocks->len - 1) : NULL;
      if (last != NULL && last->microbatch == b.microbatch && last->chunk == b.chunk && last->pass == b.pass)
        last->to = b.to;
      else
        g_array_append_val (blocks, b);
    }
  return blocks;
}

ScTime
sc_timeline_tick (ScTime least)
{
  ScTime tick = 1;
  while (tick < least)
    {
      if (2 * tick >= least)
        return 2 * tick;
      if (5 * tick >= least)
        return 5 * tick;
      tick *= 10;
    }
  return tick;
}
