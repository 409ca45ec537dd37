/* SPDX-License-Identifier: GPL-3.0-or-later */
/* messages.h - a call as its single messages: the slow, exact form that holds the load form to account.
 * Layer: sim.  Messages are numbered, never stored: a script says on demand what message i is and which messages wait
 * for it, so half a million of them cost half a megabyte of counters. */
#pragma once
#include "sim/program.h"

#define SC_MESSAGES_MAX_NEXT 255

typedef struct
{
  double       bytes;
  const ScUse *uses; /* [n_uses] one connection's route; borrowed from the script */
  guint32      n_uses;
} ScMessage;

struct _ScMessages
{
  guint32 n;       /* messages of one call */
  ScTime  latency; /* from drained (the last byte has left) to delivered */
  double  cap;     /* bytes/s of one connection, or INFINITY */

  void    (*describe) (const ScMessages *script, guint32 id, ScMessage *ret);
  guint8  (*n_before) (const ScMessages *script, guint32 id); /* deliveries and drains it waits for */
  guint   (*after_delivery) (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT]);
  guint   (*after_drain) (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT]);
};
