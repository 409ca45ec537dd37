/* SPDX-License-Identifier: GPL-3.0-or-later */
/* errors-stat.h - how far predictions are from measurements, as ratios: twice too long and half as long are equally far.
 * Layer: src. */
#pragma once
#include <glib.h>

/* All zero is empty. */
typedef struct
{
  guint  n;
  double sum_ln;     /* of ln (predicted / measured) */
  double sum_abs_ln;
  double worst_ln;   /* the one farthest from 0 */
} ScErrorStat;

/* Both above 0 and finite. */
void sc_error_stat_add (ScErrorStat *stat, double predicted, double measured);
void sc_error_stat_merge (ScErrorStat *stat, const ScErrorStat *other);

/* Fractions; NAN where nothing was added. */
double sc_error_stat_geomean (const ScErrorStat *stat); /* exp (mean |ln|) - 1 */
double sc_error_stat_signed (const ScErrorStat *stat);  /* exp (mean ln) - 1: above 0, predictions are long */
double sc_error_stat_worst (const ScErrorStat *stat);   /* predicted / measured - 1 of the farthest */

/* Median of [n] values, which are put in order; NAN for none. */
double sc_median (double *values, guint n);
