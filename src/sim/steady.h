/* SPDX-License-Identifier: GPL-3.0-or-later */
/* steady.h - where a run repeats itself: what would happen if its actors did the same some more times is then known without running it.
 * Layer: sim.
 *
 * Actors that work on one thing after another do so in blocks of ops that are alike.  Actors that meet in their blocks, or whose calls
 * could share a link, are a *circle*.  A circle is steady over a stretch of time where each op of its blocks begins and ends exactly
 * one period, in whole picoseconds, after the same op of the block before, and where it does nothing else.  What comes next follows from what is
 * under way.  So, at the end of a stretch of a period and its longest op, all is as it was one period before, and with more
 * such blocks it would be so again and again: a program with k blocks more is this one, where each circle jumps there by k of its
 * periods (ScJump).
 *
 * Nothing is predicted where costs differ, where waiting times still change, or where hosts fall behind. */
#pragma once
#include "sim/program.h"
#include "sim/trace.h"

/* Blocks of an actor: ops [start[i] .. start[i + 1]), counted from its first one. */
typedef struct
{
  guint32 *start; /* [n + 1] */
  guint32  n;
} ScBlocks;

/* What is found of an actor. */
typedef struct
{
  ScTime  at, period; /* what it does in [at - period .. at) would come again */
  ScTime  issue;      /* host time of a block; with a host that waits in each block, the period */
  guint32 last;       /* the last block that is as the one before it: more would stand behind it */
} ScSteady;

/* @blocks: [n_actors].  @ret: [n_actors], filled where TRUE.  FALSE: the run is not steady, or not for long enough to tell. */
gboolean sc_steady_find (const ScProgram *program, const ScTrace *trace, const ScBlocks *blocks, ScSteady *ret);
