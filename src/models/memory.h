/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory.h - peaks of a simulated allocation curve, and what lies around it on the device.
 * Layer: models. */
#pragma once
#include "models/fabric.h"
#include "models/layout.h"
#include "models/summary.h"

typedef struct
{
  ScTime    time;
  gint64    bytes;
  ScMemKind kind;
  guint32   op;    /* that brought it: MEM, or WORK with a memory set */
} ScMemChange;

/* All changes of one actor in order of time, frees before allocations at one instant: ScMemChange, caller unrefs. */
GArray *sc_memory_changes (const ScProgram *program, const ScTrace *trace, guint32 actor);

/* Highest point of one actor's curve. */
typedef struct
{
  guint64 bytes;
  guint64 by_kind[SC_N_MEMS];
  ScTime  time;
  guint32 op;   /* that reached it, or SC_NONE if nothing was allocated */
} ScMemPeak;

ScMemPeak sc_memory_peak (const ScProgram *program, const ScTrace *trace, guint32 actor);

/* What a caching allocator holds for a peak of @allocated bytes (MODELLING 3.10: static shapes, rounded to its 2 MiB
 * segments). */
guint64 sc_memory_reserved (guint64 allocated);

/* Buffers that NCCL holds on @rank for the communicators it is a member of (MODELLING 3.9): an estimate. */
guint64 sc_memory_nccl (const ScLayout *layout, const ScFabric *fabric, guint32 rank);

/* The same for communicators that no call of the step runs on, of frameworks that make some. */
guint64 sc_memory_nccl_grid (const ScWorkload *workload, const ScFabric *fabric, guint32 rank);

#define SC_MEMORY_DEFAULT_MARGIN 0.05 /* share of the capacity below which free memory is a risk */
ScVerdict sc_memory_verdict (guint64 device_bytes, guint64 capacity, double margin);
