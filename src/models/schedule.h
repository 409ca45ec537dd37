/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule.h - in which order a pipeline rank runs its forward and backward passes.
 * Layer: models.  One schedule is one file and one const row. */
#pragma once
#include <glib.h>

typedef enum { SC_PASS_FORWARD, SC_PASS_BACKWARD } ScPass;

typedef struct
{
  guint8  pass;   /* ScPass */
  guint8  joined; /* TRUE: one step with the slot before it; blocking transfers are exchanged between steps, not inside */
  guint16 chunk; /* local model chunk, 0 .. v - 1; virtual stage = chunk * p + rank */
  guint32 microbatch;
} ScSlot;

typedef struct
{
  guint p; /* pipeline ranks */
  guint v; /* chunks per rank */
  guint m; /* micro-batches */
  guint g; /* interleaved: micro-batches of one chunk in a row (group size); p is Megatron's default */
} ScScheduleShape;

typedef struct
{
  const char *name;    /* as plan.schedule says it */
  const char *summary; /* one line for people */
  const char *source;  /* paper or code the order is from */

  /* NULL, or why the schedule cannot run this shape (static text). */
  const char *(*refuse) (const ScScheduleShape *shape);

  /* Appends ScSlot to @slots: everything that pipeline rank @rank does, in order. */
  void (*order) (const ScScheduleShape *shape, guint rank, GArray *slots);

  /* Most (micro-batch, chunk) activations that @rank holds at once (MODELLING 3.7). */
  guint (*in_flight) (const ScScheduleShape *shape, guint rank);

  /* Idle time over ideal time for equal stages without communication (MODELLING 7.3). */
  double (*ideal_bubble) (const ScScheduleShape *shape);
} ScSchedule;

extern const ScSchedule sc_schedule_none, sc_schedule_1f1b, sc_schedule_interleaved;

const ScSchedule *const *sc_schedule_all (void);              /* NULL-ended */
const ScSchedule        *sc_schedule_find (const char *name); /* or NULL */

static inline void
sc_schedule_put (GArray *slots, ScPass pass, guint microbatch, guint chunk)
{
  const ScSlot slot = { (guint8) pass, FALSE, (guint16) chunk, microbatch };
  g_array_append_val (slots, slot);
}
