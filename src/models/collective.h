/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective.h - a collective is a load on links and a time alone (FOLDING S2-S4).
 * Layer: models.  One algorithm is one file and one const row: where its connections run, what one of them carries,
 * how long it takes on an idle network, and, for tests, its single messages. */
#pragma once
#include "models/fabric.h"
#include "models/layer.h"
#include "sim/messages.h"

/* What a closed form needs to know of one group of ranks. */
typedef struct
{
  guint  n;               /* ranks */
  guint  n_domains;       /* NVLink domains (nodes, where there is no NVLink) they sit in */
  guint  n_channels;      /* rings that run side by side, each on its own rail; 1 inside a domain */
  guint  hops_inter;      /* hops of one ring that leave a domain */
  double inter_bytes_per_s, intra_bytes_per_s; /* one connection's share of its narrowest link, this group alone; INFINITY: no such hop */
  double inter_latency_s, intra_latency_s;     /* one ring step */
  double launch_s;        /* fixed part */
} ScGroupShape;

/* One connection of a group: @route is borrowed for the call. */
typedef void (*ScHopFunc) (gpointer data, guint channel, guint position, const ScRoute *route);

typedef struct _ScCollective ScCollective;
struct _ScCollective
{
  const char *name;    /* in reports and in `stepcast list` */
  const char *summary; /* one line for people */
  const char *source;  /* paper and section the closed form is from */
  guint       kinds;   /* 1 << ScCollKind of what it can do */
  double      max_bytes; /* only up to this size; INFINITY */
  guint       min_ranks;

  /* Calls @hop for each connection of the group @gpus: [n] global GPU ids in rank order; every connection of a row
   * advances in lockstep with the others (one part).  NULL: puts nothing on links. */
  void (*walk) (const ScFabric *fabric, const guint32 *gpus, guint n, ScHopFunc hop, gpointer data);

  /* Bytes that one connection carries in a call of @bytes (whole buffer): stripe x payload. */
  double (*connection_bytes) (ScCollKind kind, const ScGroupShape *shape, double bytes);

  /* Seconds on an idle network, latency and fill included. */
  double (*alone_s) (ScCollKind kind, const ScGroupShape *shape, double bytes);

  /* The same call as single messages in @blocks blocks; NULL: this row has no such form.  @link_map: [n_links of the
   * fabric] link ids of the program, SC_NONE for links that are left out; @unit_links: the program's links have capacity 1,
   * so a connection counts 1 / capacity.  Free with sc_collective_messages_free(). */
  ScMessages *(*expand) (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind, double bytes, guint blocks,
                         ScTime latency, const guint32 *link_map, gboolean unit_links);
};

extern const ScCollective sc_collective_ring, sc_collective_chain, sc_collective_tree, sc_collective_send;

const ScCollective *const *sc_collective_all (void);              /* NULL-ended */
const ScCollective        *sc_collective_find (const char *name); /* or NULL */

/* The row that is fastest alone for this call. */
const ScCollective *sc_collective_choose (ScCollKind kind, const ScGroupShape *shape, double bytes);

/* How a call of @row enters the simulation: rate cap for calls of many rounds, delay for single messages (S4). */
typedef struct
{
  double connection_bytes;
  double cap;     /* bytes/s of one connection */
  double delay_s; /* before the flow */
} ScCallForm;
ScCallForm sc_collective_form (const ScCollective *row, ScCollKind kind, const ScGroupShape *shape, double bytes);

/* Channels of a ring over @gpus and the members' order on each: position i of channel c is member
 * ret_order[c * n + i]; hop i goes from position i to position i + 1 (mod n).  Members of one domain are visited in
 * turn; channel c leaves and enters every domain by the c-th NIC that its members use. */
guint sc_ring_channels (const ScFabric *fabric, const guint32 *gpus, guint n);
void  sc_ring_order (const ScFabric *fabric, const guint32 *gpus, guint n, guint channel, guint32 *ret_order);
void  sc_ring_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScHopFunc hop, gpointer data);
void  sc_ring_hop (const ScFabric *fabric, const guint32 *gpus, guint n, guint channel, const guint32 *order, guint position,
                   ScRoute *ret);

/* Time of @steps ring steps of @chunk bytes over a ring with the shape's hops (FOLDING 6), without the launch. */
double sc_ring_time_s (const ScGroupShape *shape, guint steps, double chunk);

void sc_collective_messages_free (ScMessages *messages);
