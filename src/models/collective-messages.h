/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-messages.h - scripts of single messages for the rows' expanded form (sim/messages.h).
 * Layer: models. */
#pragma once
#include "models/collective.h"

/* Where a row's hops run, and what its links are called in the program. */
typedef struct
{
  void (*walk) (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, ScHopFunc hop, gpointer data);
  const ScFabric *fabric;
  const guint32  *gpus;
  guint           n;
  ScCollKind      kind;
  const guint32  *link_map;   /* [n_links of the fabric], SC_NONE: left out */
  gboolean        unit_links; /* a connection counts 1 / capacity */
} ScHopMap;

/* Ring: in each of @steps steps of each block every one of @n positions passes a message on to the next one; it needs the
 * previous step's from the one before, and its own previous message must have left.  @bytes of one message. */
ScMessages *sc_messages_rounds (const ScHopMap *map, guint channels, guint n, guint steps, guint blocks, double bytes,
                                ScTime latency);

/* Chain of @hops: every block travels down all hops; a hop takes one block after another. */
ScMessages *sc_messages_chain (const ScHopMap *map, guint channels, guint hops, guint blocks, double bytes, ScTime latency);

/* A script of any shape for small groups: messages and what they wait for, all stored. */
typedef struct _ScDag ScDag;

ScDag *sc_dag_new (const ScFabric *fabric, ScTime latency, const guint32 *link_map, gboolean unit_links);

/* Routes by number: one that the caller has made, and the one between two GPUs through their own NICs. */
guint32 sc_dag_route (ScDag *dag, const ScRoute *route);
guint32 sc_dag_between (ScDag *dag, guint32 a, guint32 b);
#define SC_DAG_NOWHERE SC_NONE /* a message that crosses no link: where others meet */

/* A message of @bytes once @previous of the same connection (SC_NONE: none) has left; returns its number. */
guint32 sc_dag_add (ScDag *dag, guint32 route, double bytes, guint32 previous);

/* @message also waits until @before has been delivered.  Either may have at most 255 of the other. */
void sc_dag_after (ScDag *dag, guint32 message, guint32 before);

/* The finished script, which takes @dag over: free with sc_collective_messages_free(). */
ScMessages *sc_dag_finish (ScDag *dag);
