/* SPDX-License-Identifier: GPL-3.0-or-later */
/* line-fit.c - a weighted line, then robust ones on the errors that it leaves. */
#include "line-fit.h"
#include <gsl/gsl_fit.h>
#include <gsl/gsl_multifit.h>
#include <math.h>

/* Sizes of a line lie at least this far apart. */
#define LEAST_RANGE 2.0

#define N_FOLDS 20
#define ROBUST_ITERATIONS 200

gboolean
sc_line_has_range (const ScLinePoint *points, guint n)
{
  double least = G_MAXDOUBLE, most = 0;
  for (guint i = 0; i < n; i++)
    {
      least = MIN (least, points[i].bytes);
      most = MAX (most, points[i].bytes);
    }
  return n >= SC_FIT_LEAST_POINTS && most >= LEAST_RANGE * least;
}

/* Relative errors count: each equation over the time that @line, the last fit, gives it.  (Over the measured time the left sides
 * would all be 1, by whose spread GSL scales its robust weights.) */
static gboolean
fit_robust (const ScLinePoint *points, guint n, double bytes, double seconds, ScLine *line)
{
  gsl_matrix *const x = gsl_matrix_alloc (n, 2), *const covariance = gsl_matrix_alloc (2, 2);
  gsl_vector *const y = gsl_vector_alloc (n), *const c = gsl_vector_alloc (2);
  gsl_multifit_robust_workspace *const work = gsl_multifit_robust_alloc (gsl_multifit_robust_bisquare, n, 2);
  gsl_multifit_robust_maxiter (ROBUST_ITERATIONS, work);
  for (guint i = 0; i < n; i++)
    {
      const double predicted = MAX (line->intercept_s + line->slope_s * points[i].bytes, points[i].seconds / 4);
      const double scale = seconds * sqrt (points[i].weight) / predicted;
      gsl_matrix_set (x, i, 0, scale);
      gsl_matrix_set (x, i, 1, scale * points[i].bytes / bytes);
      gsl_vector_set (y, i, scale * points[i].seconds / seconds);
    }
  const gboolean done = gsl_multifit_robust (x, y, c, covariance, work) == GSL_SUCCESS && isfinite (gsl_vector_get (c, 0))
                        && isfinite (gsl_vector_get (c, 1)) && isfinite (gsl_matrix_get (covariance, 0, 0));
  if (done)
    *line = (ScLine) { .intercept_s = gsl_vector_get (c, 0) * seconds,
                       .slope_s = gsl_vector_get (c, 1) * seconds / bytes,
                       .intercept_error_s = sqrt (MAX (gsl_matrix_get (covariance, 0, 0), 0)) * seconds };
  gsl_multifit_robust_free (work);
  gsl_matrix_free (x);
  gsl_matrix_free (covariance);
  gsl_vector_free (y);
  gsl_vector_free (c);
  return done;
}

gboolean
sc_line_fit (const ScLinePoint *points, guint n, ScLine *ret)
{
  if (!sc_line_has_range (points, n))
    return FALSE;
  g_autofree double *x = g_new (double, 3 * (gsize) n);
  double *const y = x + n, *const w = y + n;
  double bytes = 0, seconds = 0; /* units in which both are about 1 */
  for (guint i = 0; i < n; i++)
    {
      bytes += points[i].bytes / n;
      seconds += points[i].seconds / n;
    }
  for (guint i = 0; i < n; i++)
    {
      x[i] = points[i].bytes / bytes;
      y[i] = points[i].seconds / seconds;
      w[i] = points[i].weight / (y[i] * y[i]);
    }
  double c0, c1, c00, c01, c11, chi2;
  if (gsl_fit_wlinear (x, 1, w, 1, y, 1, n, &c0, &c1, &c00, &c01, &c11, &chi2) != GSL_SUCCESS || !isfinite (c0) || !isfinite (c1))
    return FALSE;
  ScLine line = { .intercept_s = c0 * seconds,
                  .slope_s = c1 * seconds / bytes,
                  .intercept_error_s = sqrt (MAX (c00 * chi2 / MAX (n - 2, 1), 0)) * seconds };
  for (guint pass = 0; pass < 2; pass++)
    if (!fit_robust (points, n, bytes, seconds, &line))
      break; /* the weighted line then stands */
  *ret = line;
  return TRUE;
}

ScErrors
sc_line_cross_validate (const ScLinePoint *points, guint n)
{
  g_autofree ScLinePoint *seen = g_new (ScLinePoint, MAX (n, 1));
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (n, 1));
  const guint n_folds = MIN (n, N_FOLDS);
  guint n_judged = 0;
  for (guint fold = 0; fold < n_folds; fold++)
    {
      guint n_seen = 0;
      for (guint i = 0; i < n; i++)
        if (i % n_folds != fold)
          seen[n_seen++] = points[i];
      ScLine line;
      if (!sc_line_fit (seen, n_seen, &line))
        continue;
      for (guint i = fold; i < n; i += n_folds)
        {
          const double predicted = line.intercept_s + line.slope_s * points[i].bytes;
          if (predicted > 0)
            judged[n_judged++] = (ScPrediction) { predicted, points[i].seconds };
        }
    }
  return sc_errors_of (judged, n_judged);
}
