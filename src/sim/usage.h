/* SPDX-License-Identifier: GPL-3.0-or-later */
/* usage.h - how full each link is over time, and for what: recorded on request while an engine runs.
 * Layer: sim.
 *
 * Time is cut in equal bins; when a run outgrows them, their width doubles and neighbours become one, so that a run of
 * any length has between SC_USAGE_BINS / 2 and SC_USAGE_BINS of them (fewer only if it is very short) and its end need not be
 * known.  A change of a flow's rate costs one visit of each of its links, whatever else is there. */
#pragma once
#include "sim/program.h"

#define SC_USAGE_BINS 200    /* most bins of a run; even */
#define SC_USAGE_FULL 0.999  /* from this share of its capacity on a link is full */

typedef struct
{
  guint32  n_links;
  guint    n_tags;
  ScTime   end;    /* of the run */
  guint    n_bins; /* that cover it; the last one may end after it */
  ScTime   bin;    /* width of one */
  double  *busy;   /* [n_links] integral of the share in use over time, in ps */
  ScTime  *full;   /* [n_links] time at SC_USAGE_FULL or more */
  double  *peak;   /* [n_links] largest share in use at any time, 0..1 */
  double  *bytes;  /* [n_links * n_tags] streams x bytes, by tag of the call */
  double  *shares; /* [n_links * n_bins] mean share in use over each bin, over its part before the end for the last one */
} ScUsage;

void sc_usage_free (ScUsage *usage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScUsage, sc_usage_free)

/* What the engine tells while it runs.  Flows by their ids in ScFlows, which are reused after the end. */
typedef struct _ScMeter ScMeter;

ScMeter *sc_meter_new (const ScProgram *program); /* borrowed */
void     sc_meter_free (ScMeter *meter);
void     sc_meter_flow_starts (ScMeter *meter, guint32 flow, const ScUse *uses, guint32 n_uses, double bytes, guint16 tag);
void     sc_meter_flow_moves (ScMeter *meter, guint32 flow, double rate, ScTime now); /* @rate: of one connection, bytes/s */
void     sc_meter_flow_ends (ScMeter *meter, guint32 flow, ScTime now);

/* The record of a run that has ended at @end; the meter is spent. */
ScUsage *sc_meter_finish (ScMeter *meter, ScTime end);
