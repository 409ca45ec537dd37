/* SPDX-License-Identifier: GPL-3.0-or-later */
/* line-fit.h - times over bytes as straight lines: weighted by 1/t^2 and robust (gsl_fit_wlinear, then gsl_multifit_robust), and how
 * well they predict points that they have not seen.
 * Layer: src. */
#pragma once
#include "error-stat.h"

/* Fewer points are no fit, of a line or of anything else. */
#define SC_FIT_LEAST_POINTS 3

/* t = intercept + slope x bytes. */
typedef struct
{
  double intercept_s, slope_s, intercept_error_s; /* the last: one standard error */
} ScLine;

typedef struct
{
  double bytes, seconds;
  double weight; /* above 0, to 1 */
} ScLinePoint;

/* Whether there are points enough, and far enough apart. */
gboolean sc_line_has_range (const ScLinePoint *points, guint n);

/* FALSE: they have no range, or no line goes through them. */
gboolean sc_line_fit (const ScLinePoint *points, guint n, ScLine *ret);

/* Error of the line at points it has not seen: each of up to 20 parts of them in turn. */
ScErrors sc_line_cross_validate (const ScLinePoint *points, guint n);
