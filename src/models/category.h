/* SPDX-License-Identifier: GPL-3.0-or-later */
/* category.h - the accounting categories of time and memory: what tags mean in a step.
 * Layer: models. */
#pragma once
#include <glib.h>

/* Where a stage's time goes; the parts of a stage add up to the step to the last picosecond. */
typedef enum
{
  SC_TIME_FORWARD,
  SC_TIME_BACKWARD, /* whole, or where it is split its input gradients ... */
  SC_TIME_WEIGHT,   /* ... and its weight gradients */
  SC_TIME_RECOMPUTE,
  SC_TIME_OPTIMIZER,
  SC_TIME_COMM_TP, /* exposed communication, by group kind */
  SC_TIME_COMM_CP,
  SC_TIME_COMM_EP,
  SC_TIME_COMM_PP,
  SC_TIME_COMM_DP,
  SC_TIME_BUBBLE,    /* waiting for a micro-batch that another stage has not produced */
  SC_TIME_LATE_PEER, /* waiting for the other members of a collective */
  SC_TIME_HOST,      /* nothing issued yet */
  SC_N_TIMES
} ScTimeKind;

const char *sc_time_kind_name (ScTimeKind kind);  /* "forward", ..., "exposed_tp", "bubble", "late_peer", "host" */
const char *sc_time_kind_label (ScTimeKind kind); /* for people: "forward", "exposed TP", ... */

/* Of communication the kind of group: "tp", "cp", "ep", "pp", "dp"; NULL for other time. */
const char *sc_time_kind_group (ScTimeKind kind);

/* What memory is for. */
typedef enum
{
  SC_MEM_WEIGHTS,
  SC_MEM_GRADS,
  SC_MEM_OPTIMIZER,
  SC_MEM_ACTIVATIONS,
  SC_MEM_LOGITS,    /* logits and loss */
  SC_MEM_TRANSIENT, /* operator temporaries, gathered inputs, output gradients */
  SC_MEM_COMM,      /* receive buffers, buckets that are not views */
  SC_N_MEMS
} ScMemKind;

const char *sc_mem_kind_name (ScMemKind kind); /* "weights", ... */
