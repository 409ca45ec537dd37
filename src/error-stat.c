/* SPDX-License-Identifier: GPL-3.0-or-later */
/* error-stat.c - quantiles of errors, sums of logarithms of ratios, medians. */
#include "error-stat.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

ScErrors
sc_errors_of (const ScPrediction *predictions, guint n)
{
  if (n == 0)
    return SC_NO_ERRORS;
  ScErrors e = { .n = n };
  ScErrorStat stat = { 0 };
  g_autofree double *errors = g_new (double, n);
  for (guint i = 0; i < n; i++)
    {
      const double error = predictions[i].predicted / predictions[i].measured - 1;
      errors[i] = fabs (error);
      if (errors[i] > fabs (e.worst))
        e.worst = error;
      sc_error_stat_add (&stat, predictions[i].predicted, predictions[i].measured);
    }
  gsl_sort (errors, 1, n);
  e.median = gsl_stats_median_from_sorted_data (errors, 1, n);
  e.p90 = gsl_stats_quantile_from_sorted_data (errors, 1, n, 0.9);
  e.signed_error = sc_error_stat_signed (&stat);
  return e;
}

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

double
sc_weighted_median (const double *values, const double *weights, guint n)
{
  if (n == 0)
    return NAN;
  g_autofree gsize *order = g_new (gsize, n);
  gsl_sort_index (order, values, 1, n);
  double all = 0, below = 0;
  for (guint i = 0; i < n; i++)
    all += weights[i];
  for (guint i = 0; i < n; i++)
    {
      below += weights[order[i]];
      if (i + 1 < n && fabs (below - all / 2) <= 1e-12 * all)
        return (values[order[i]] + values[order[i + 1]]) / 2;
      if (below > all / 2)
        return values[order[i]];
    }
  return values[order[n - 1]];
}
