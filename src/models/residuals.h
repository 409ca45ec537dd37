/* SPDX-License-Identifier: GPL-3.0-or-later */
/* residuals.h - what measurements say on top of a formula: ln (measured / formula) at scattered points, interpolated.
 * Layer: models.
 *
 * Ordinary kriging (Matheron 1963; Cressie, Statistics for Spatial Data, 3.2) with an exponential covariance over the nearest
 * points: in a cloud of samples it follows them, far away it returns to their local mean, and it never overshoots a cliff the
 * way polynomials do.  Points are kept in coordinates that were divided by the length over which residuals stay alike, so
 * that a distance of 1 means "still related". */
#pragma once
#include <glib.h>

#define SC_RESIDUALS_MAX_DIMS 6

typedef struct
{
  guint   n, n_dims;
  double *x; /* [n * n_dims] owned */
  double *y; /* [n] owned: ln (measured / formula); of a place measured several times their mean */
  double *repeats; /* [n] owned: measurements of each place; NULL: one of each */
} ScResiduals;

/* Points that a prediction must not see, so that it can be judged. */
typedef enum
{
  SC_HOLD_NOTHING,
  SC_HOLD_POINT, /* those at the very place asked for: leave one out, with all its repetitions */
  SC_HOLD_SHAPE, /* those equal to it in all but the first coordinate: a whole layer shape, at any number of rows */
} ScHoldOut;

typedef struct
{
  double y;        /* ln of the factor on the formula; 0 where nothing is known */
  double distance; /* to the nearest point used; 0: this very shape was measured; INFINITY: no point */
} ScResidual;

void sc_residuals_clear (ScResiduals *residuals); /* frees; may be called again */

/* At @x[n_dims].  The same on every machine: ties go to the earlier point. */
ScResidual sc_residuals_at (const ScResiduals *residuals, const double *x, ScHoldOut hold_out);
