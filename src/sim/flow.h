/* SPDX-License-Identifier: GPL-3.0-or-later */
/* flow.h - links shared by flows, max-min fairly, re-solved only where something changed.
 * Layer: sim.
 *
 * A flow is a set of n_l connections over each link l that advance in lockstep; phi_f bytes/s is the rate of one of
 * them.  Feasible: for each link, sum_f n_fl phi_f <= C_l, and phi_f <= cap_f.  The solution is the max-min fair one
 * (progressive filling): all phi rise together from 0; a flow freezes when one of its links is full or its cap is
 * reached.  In terms of payload this is the *weighted* max-min of FOLDING.md S3 with weights 1/stripe.
 *
 *   Example: links A = 10, B = 4; f1 over A, f2 over A and B, f3 over B.  phi rises to 2: B is full, f2 and f3 freeze;
 *   f1 goes on to 8.
 *
 * sc_flows_solve() gathers the flows that are connected, through links which could hold somebody back, to those that
 * have come or gone, and solves that component only. */
#pragma once
#include "sim/program.h"

typedef struct _ScFlows ScFlows;

/* @capacity: [n_links], borrowed. */
ScFlows *sc_flows_new (const double *capacity, guint32 n_links);
void     sc_flows_free (ScFlows *flows);

/* Starts a flow of @bytes per connection at @now.  @uses: borrowed while the flow lives.  It has no rate until
 * the next sc_flows_solve().  @owner, @detail: the caller's.  Returns its id, which is reused after it has ended. */
guint32 sc_flows_start (ScFlows *flows, ScTime now, const ScUse *uses, guint32 n_uses, double bytes, double cap,
                        guint32 owner, guint32 detail);

/* Ends flow @id (its end time has come). */
void sc_flows_end (ScFlows *flows, guint32 id);

/* Flows go on later by what @by says of their owner, as if nothing had been in between. */
void sc_flows_move (ScFlows *flows, ScTime (*by) (gpointer data, guint32 owner), gpointer data);

gboolean sc_flows_dirty (const ScFlows *flows);

/* Called for each flow whose end time is new: the flow ends at @end unless it is called again. */
typedef void (*ScFlowMoved) (gpointer data, guint32 id, guint32 version, ScTime end);

/* Re-solves what changed since the last call. */
void sc_flows_solve (ScFlows *flows, ScTime now, ScFlowMoved moved, gpointer data);

guint32 sc_flows_version (const ScFlows *flows, guint32 id); /* of the last end time given out */
guint32 sc_flows_owner (const ScFlows *flows, guint32 id);
guint32 sc_flows_detail (const ScFlows *flows, guint32 id);
double  sc_flows_rate (const ScFlows *flows, guint32 id);    /* bytes/s of one connection; 0 before the first solve */
guint64 sc_flows_n_solves (const ScFlows *flows);            /* components solved; a flow at its limit is none */
const double *sc_flows_link_bytes (const ScFlows *flows);    /* [n_links] bytes of ended flows */
