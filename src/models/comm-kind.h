/* SPDX-License-Identifier: GPL-3.0-or-later */
/* comm-kind.h - what a communicator is for.
 * Layer: models. */
#pragma once
#include <glib.h>

typedef enum
{
  SC_COMM_TP,
  SC_COMM_DP,          /* dense gradients and parameters: over dp and cp */
  SC_COMM_PP_FORWARD,  /* from stage z to stage z + 1 (mod pp): activations */
  SC_COMM_PP_BACKWARD, /* from stage z to stage z - 1 (mod pp): gradients */
  SC_COMM_EMBEDDING,   /* first and last stage: the tied table's gradient */
  SC_COMM_WORLD,       /* all ranks: scalars */
  SC_COMM_CP,          /* parts of one sequence */
  SC_COMM_EP,          /* experts of one layer */
  SC_COMM_ETP,         /* parts of one expert */
  SC_COMM_EXPERT_DP,   /* gradients and parameters of the same experts */
  SC_COMM_SHARD,       /* inside DP: ranks that share one sharded copy */
  SC_COMM_REPLICA,     /* inside DP: ranks that hold the same shard */
  SC_COMM_CP_A2A,      /* inside CP: neighbours that share out the heads ... */
  SC_COMM_CP_RING,     /* ... and ranks with the same heads, in a ring */
  SC_COMM_KV,          /* inside TP: ranks that hold the same KV heads */
  SC_COMM_VOCAB,       /* ranks of one pipeline, which share out the vocabulary */
  SC_COMM_VOCAB_SYNC,  /* the same ranks, for what all of them wait for on the spot */
  SC_N_COMMS
} ScCommKind;

const char *sc_comm_kind_name (ScCommKind kind);
