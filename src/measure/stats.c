/* SPDX-License-Identifier: MIT */
/* stats.c - order statistics of a few repeats. */
#include "measure/stats.h"
#include <math.h>
#include <stdlib.h>

static int
compare (const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

static double
quantile_sorted (const double *values, size_t n, double fraction)
{
  if (n == 0)
    return NAN;
  const double at = fraction * (double) (n - 1);
  const size_t below = (size_t) at;
  if (below + 1 >= n)
    return values[n - 1];
  return values[below] + (at - (double) below) * (values[below + 1] - values[below]);
}

double
scm_quantile (double *values, size_t n, double fraction)
{
  qsort (values, n, sizeof *values, compare);
  return quantile_sorted (values, n, fraction);
}

void
scm_median_spread (double *values, size_t n, double *ret_median, double *ret_spread)
{
  const double median = scm_quantile (values, n, 0.5);
  const double width = quantile_sorted (values, n, 0.9) - quantile_sorted (values, n, 0.1);
  *ret_median = median;
  *ret_spread = median > 0 ? width / median : 0;
}
