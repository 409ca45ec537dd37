/* SPDX-License-Identifier: GPL-3.0-or-later */
/* types.h - time and identifiers shared by the simulator.
 * Layer: sim.  Time is integer picoseconds (ScTime): 2^63 ps are 106 days, and the order of events never hangs on
 * the last digit of a double.  Seconds become picoseconds in exactly one place, sc_time_from_s(). */
#pragma once
#include <glib.h>
#include <math.h>

typedef gint64 ScTime; /* picoseconds */

#define SC_TIME_NONE   (-1)
#define SC_PS_PER_S    1e12
#define SC_TIME_MAX_S  4e6 /* 46 days: no simulated step may last longer, so two such times still add up in 64 bits */
#define SC_NONE        G_MAXUINT32

/* Nearest picosecond of @s >= 0; what is longer than SC_TIME_MAX_S is cut to it, and the engine refuses to run past
 * that time. */
static inline ScTime
sc_time_from_s (double s)
{
  return (ScTime) llround (fmin (s, SC_TIME_MAX_S) * SC_PS_PER_S);
}

static inline double
sc_time_to_s (ScTime t)
{
  return (double) t / SC_PS_PER_S;
}
