/* SPDX-License-Identifier: GPL-3.0-or-later */
/* error-stat.h - how far predictions are from measurements.
 * Layer: src.  All times here are above 0 and finite. */
#pragma once
#include <glib.h>
#include <math.h>

typedef struct
{
  double predicted, measured;
} ScPrediction;

/* Errors of many: |predicted / measured - 1|, as fractions.  Of kernels, lines and layers. */
typedef struct
{
  guint  n;            /* 0: nothing was judged, and the others are NAN */
  double median, p90;
  double signed_error; /* exp (mean ln (predicted / measured)) - 1: above 0, predictions are long */
  double worst;        /* predicted / measured - 1 of the farthest */
} ScErrors;

#define SC_NO_ERRORS ((ScErrors) { 0, NAN, NAN, NAN, NAN })

ScErrors sc_errors_of (const ScPrediction *predictions, guint n);

/* Sums over any number, as ratios: twice too long and half as long are equally far.  Of sweeps of collectives.  All zero is empty. */
typedef struct
{
  guint  n;
  double sum_ln;     /* of ln (predicted / measured) */
  double sum_abs_ln;
  double worst_ln;   /* the one farthest from 0 */
} ScErrorStat;

void sc_error_stat_add (ScErrorStat *stat, double predicted, double measured);
void sc_error_stat_merge (ScErrorStat *stat, const ScErrorStat *other);

/* Fractions; NAN where nothing was added. */
double sc_error_stat_geomean (const ScErrorStat *stat); /* exp (mean |ln|) - 1 */
double sc_error_stat_signed (const ScErrorStat *stat);  /* exp (mean ln) - 1 */
double sc_error_stat_worst (const ScErrorStat *stat);   /* predicted / measured - 1 of the farthest */

/* Median of [n] values, which are put in order; NAN for none. */
double sc_median (double *values, guint n);

/* Value at which half of the weight lies on either side; NAN for none. */
double sc_weighted_median (const double *values, const double *weights, guint n);
