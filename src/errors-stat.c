/* SPDX-License-Identifier: GPL-3.0-or-later */
/* errors-stat.c - sums of logarithms of ratios. */
#include "errors-stat.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

void
sc_error_stat_add (ScErrorStat *stat, double predicted, double measured)
{
  g_return_if_fail (predicted > 0 && measured > 0 && isfinite (predicted) && isfinite (measured));
  const double ln = log (predicted) - log (measured); /* the quotient could overflow */
  stat->n++;
  stat->sum_ln += ln;
  stat->sum_abs_ln += fabs (ln);
  if (fabs (ln) > fabs (stat->worst_ln))
    stat->worst_ln = ln;
}

void
sc_error_stat_merge (ScErrorStat *stat, const ScErrorStat *other)
{
  stat->n += other->n;
  stat->sum_ln += other->sum_ln;
  stat->sum_abs_ln += other->sum_abs_ln;
  if (fabs (other->worst_ln) > fabs (stat->worst_ln))
    stat->worst_ln = other->worst_ln;
}

double
sc_error_stat_geomean (const ScErrorStat *stat)
{
  return stat->n == 0 ? NAN : expm1 (stat->sum_abs_ln / stat->n);
}

double
sc_error_stat_signed (const ScErrorStat *stat)
{
  return stat->n == 0 ? NAN : expm1 (stat->sum_ln / stat->n);
}

double
sc_error_stat_worst (const ScErrorStat *stat)
{
  return stat->n == 0 ? NAN : expm1 (stat->worst_ln);
}

double
sc_median (double *values, guint n)
{
  if (n == 0)
    return NAN;
  gsl_sort (values, 1, n);
  return gsl_stats_median_from_sorted_data (values, 1, n);
}
