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
