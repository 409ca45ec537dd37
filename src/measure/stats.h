/* SPDX-License-Identifier: MIT */
/* stats.h - order statistics of a few repeats. */
#pragma once
#include <stddef.h>

#define SCM_MAX_REPEATS 256

/* Sorts @values; @fraction 0 is the least, 1 the largest, linear between neighbours.  NAN without values. */
double scm_quantile (double *values, size_t n, double fraction);

/* Median and (p90 - p10) / median.  Leaves @values sorted. */
void scm_median_spread (double *values, size_t n, double *ret_median, double *ret_spread);
