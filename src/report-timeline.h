/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-timeline.h - the pipeline of one step as a drawing, in ASCII or as a picture. */
#pragma once
#include "models/summary.h"

#define SC_TIMELINE_WIDTH     100
#define SC_TIMELINE_WIDTH_MIN 40
#define SC_TIMELINE_WIDTH_MAX 10000

/* Appends one row per pipeline stage (its compute stream, of the class that finishes last), time from left to right
 * over @width columns in all (clamped to the limits above; 0: the default), a time axis and a legend.  @colour: for a terminal. */
void sc_timeline_draw (const ScSummary *summary, GString *out, guint width, gboolean colour);

/* The same as an SVG: blocks with their numbers, what is waited for inside them, the other streams below each row. */
void sc_timeline_svg (const ScSummary *summary, GString *out);
