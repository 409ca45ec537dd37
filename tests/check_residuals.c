/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_residuals.c - interpolated residuals: through their points, as closed forms say, and never astray. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/residuals.h"

#define MAX_POINTS 64
#define NEAREST 24                           /* points that take part */
#define NUGGET (0.05 * 0.05 / (0.3 * 0.3)) /* noise of a measurement over the variance of residuals */

/* Points on the stack; the struct borrows them. */
typedef struct
{
  double      x[MAX_POINTS * SC_RESIDUALS_MAX_DIMS], y[MAX_POINTS];
  ScResiduals r;
} Cloud;

static void
begin (Cloud *c, guint n_dims)
{
  c->r = (ScResiduals) { .n = 0, .n_dims = n_dims, .x = c->x, .y = c->y };
}

static void
add (Cloud *c, double y, const double *x)
{
  g_assert (c->r.n < MAX_POINTS);
  memcpy (c->x + (gsize) c->r.n * c->r.n_dims, x, c->r.n_dims * sizeof *x);
  c->y[c->r.n++] = y;
}

static double
at (const Cloud *c, const double *x)
{
  return sc_residuals_at (&c->r, x, SC_HOLD_NOTHING).y;
}

/* The same numbers on every machine, in [0, 1). */
static double
random_next (guint32 *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) / (double) (1u << 24);
}

static void
scatter (Cloud *c, guint n, guint n_dims, guint32 seed)
{
  begin (c, n_dims);
  for (guint i = 0; i < n; i++)
    {
      double x[SC_RESIDUALS_MAX_DIMS] = { 0 };
      for (guint d = 0; d < n_dims; d++)
        x[d] = 3 * random_next (&seed);
      add (c, random_next (&seed) - 0.5, x);
    }
}

static const guint counts[] = { 1, 2, 3, 23, 24, 25, 60 };

START_TEST (nothing_is_known_without_points)
{
  const double x[] = { 1, 2 };
  for (ScHoldOut hold = SC_HOLD_NOTHING; hold <= SC_HOLD_SHAPE; hold++)
    {
      const ScResiduals none = { .n = 0, .n_dims = 2 };
      const ScResidual r = sc_residuals_at (&none, x, hold);
      ck_assert_double_eq (r.y, 0);
      ck_assert (isinf (r.distance) && r.distance > 0);
    }
}
END_TEST

START_TEST (residuals_pass_through_their_points)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint dims = 1; dims <= SC_RESIDUALS_MAX_DIMS; dims++)
      {
        Cloud c;
        scatter (&c, counts[i], dims, 7 + i);
        for (guint p = 0; p < c.r.n; p++)
          {
            const ScResidual r = sc_residuals_at (&c.r, c.x + (gsize) p * dims, SC_HOLD_NOTHING);
            ck_assert_double_eq (r.y, c.y[p]);
            ck_assert_double_eq (r.distance, 0);
          }
      }
}
END_TEST

START_TEST (a_place_measured_again_has_the_mean)
{
  Cloud c;
  begin (&c, 2);
  const double here[] = { 1, 2 }, near[] = { 1, 2.1 };
  const double times[] = { 0.1, 0.4, -0.2 };
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      add (&c, times[i], here);
      add (&c, 3, near);
    }
  ck_assert_double_eq_tol (at (&c, here), 0.1, 1e-15);
  ck_assert_double_eq (at (&c, near), 3);
}
END_TEST

START_TEST (one_point_says_the_same_everywhere)
{
  Cloud c;
  begin (&c, 3);
  add (&c, -0.25, (const double[]) { 1, 1, 1 });
  for (double step = 0; step < 1e6; step = 10 * step + 0.1)
    {
      const ScResidual r = sc_residuals_at (&c.r, (const double[]) { 1 + step, 1, 1 }, SC_HOLD_NOTHING);
      ck_assert_double_eq_tol (r.y, -0.25, 1e-15);
      ck_assert_double_eq_tol (r.distance, step, 1e-9 * step + 1e-12);
    }
}
END_TEST

START_TEST (a_constant_field_stays_constant)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint dims = 1; dims <= SC_RESIDUALS_MAX_DIMS; dims++)
      {
        Cloud c;
        scatter (&c, counts[i], dims, 100 + i);
        for (guint p = 0; p < c.r.n; p++)
          c.y[p] = 0.7;
        guint32 seed = 5;
        for (guint q = 0; q < 20; q++)
          {
            double x[SC_RESIDUALS_MAX_DIMS];
            for (guint d = 0; d < dims; d++)
              x[d] = 8 * random_next (&seed) - 2;
            ck_assert_double_eq_tol (at (&c, x), 0.7, 1e-12);
          }
      }
}
END_TEST

START_TEST (two_points_follow_the_closed_form)
{
  /* C = [1 + g, e; e, 1 + g], e = exp (-d).  C and the vector of ones share an eigenvector, so the mean is that of y1 and y2, and
   * deviations +-(y1 - y2) / 2 are multiplied by C's other inverse eigenvalue: y = mean + (k1 - k2) (y1 - y2) / 2 / (1 + g - e). */
  static const double distances[] = { 1e-3, 0.1, 1, 3, 30 };
  const double y1 = 0.3, y2 = -0.1;
  for (guint i = 0; i < G_N_ELEMENTS (distances); i++)
    {
      const double d = distances[i];
      Cloud c;
      begin (&c, 2);
      add (&c, y1, (const double[]) { 0, 0 });
      add (&c, y2, (const double[]) { d, 0 });
      for (guint q = 0; q < 25; q++)
        {
          const double x = d * (q % 5 * 0.6 - 0.7), up = q / 5 * 0.4 - 0.7;
          const double k1 = exp (-hypot (x, up)), k2 = exp (-hypot (x - d, up));
          const double expected = (y1 + y2) / 2 + (k1 - k2) * (y1 - y2) / 2 / (1 + NUGGET - exp (-d));
          const ScResidual r = sc_residuals_at (&c.r, (const double[]) { x, up }, SC_HOLD_NOTHING);
          ck_assert_double_eq_tol (r.y, expected, 1e-11);
          ck_assert_double_eq_tol (r.distance, MIN (hypot (x, up), hypot (x - d, up)), 1e-12);
        }
    }
}
END_TEST

START_TEST (between_two_points_lies_their_mean)
{
  Cloud c;
  begin (&c, 1);
  add (&c, 0.5, (const double[]) { 0 });
  add (&c, 0.1, (const double[]) { 2 });
  ck_assert_double_eq_tol (at (&c, (const double[]) { 1 }), 0.3, 1e-12);
  double last = 0.5; /* and on the way it never turns */
  for (double x = 0.01; x < 2; x += 0.01)
    {
      ck_assert (at (&c, &x) <= last + 1e-12);
      last = at (&c, &x);
    }
}
END_TEST

START_TEST (far_away_the_mean_is_left)
{
  /* points so far apart that none knows of another: the mean is the plain one */
  Cloud c;
  begin (&c, 1);
  double sum = 0;
  for (guint i = 0; i < 10; i++)
    {
      add (&c, i * 0.1, (const double[]) { 100.0 * i });
      sum += i * 0.1;
    }
  ck_assert_double_eq_tol (at (&c, (const double[]) { 1e5 }), sum / 10, 1e-12);
  ck_assert_double_eq_tol (at (&c, (const double[]) { 50 }), sum / 10, 1e-12);

  /* of more than take part, those that are far away in vain */
  for (guint i = 10; i < MAX_POINTS; i++)
    add (&c, i < NEAREST ? i * 0.1 : 99, (const double[]) { 100.0 * i });
  double nearest = 0;
  for (guint i = 0; i < NEAREST; i++)
    nearest += i * 0.1 / NEAREST;
  ck_assert_double_eq_tol (at (&c, (const double[]) { -1e5 }), nearest, 1e-12);
}
END_TEST

START_TEST (predictions_stay_within_what_was_measured)
{
  /* no theorem of kriging, but here: a cliff between two plateaus is no reason to overshoot by more than noise */
  Cloud c;
  begin (&c, 1);
  for (guint i = 0; i < 20; i++)
    add (&c, i < 10 ? 0 : 1, (const double[]) { i * 0.1 });
  for (double x = -2; x < 4; x += 0.013)
    ck_assert (at (&c, &x) > -0.1 && at (&c, &x) < 1.1);
}
END_TEST

START_TEST (odd_clouds_give_finite_numbers)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint shape = 0; shape < 5; shape++)
      {
        Cloud c;
        begin (&c, 3);
        for (guint p = 0; p < counts[i]; p++)
          {
            const double t = p;
            const double line[] = { t, 2 * t, -t }, place[] = { 1, 1, 1 }, pair[] = { p % 2, 0, 0 }, close[] = { 1e-8 * t, 0, 0 },
                         wide[] = { 1e6 * t, 0, 0 };
            const double *const shapes[] = { line, place, pair, close, wide };
            add (&c, (p % 3 - 1.0) / 2, shapes[shape]);
          }
        for (guint q = 0; q < 12; q++)
          for (ScHoldOut hold = SC_HOLD_NOTHING; hold <= SC_HOLD_SHAPE; hold++)
            {
              const double x[] = { q * 0.5, q % 3, 0 };
              const ScResidual r = sc_residuals_at (&c.r, x, hold);
              ck_assert_msg (isfinite (r.y) && fabs (r.y) < 3, "%u points, shape %u: %g", counts[i], shape, r.y);
              ck_assert (r.distance >= 0);
              ck_assert (isfinite (r.distance) || r.y == 0);
            }
      }
}
END_TEST

/* *@copy: @c without the points that are at @x in all coordinates from @first on. */
static void
without (const Cloud *c, const double *x, guint first, Cloud *copy)
{
  begin (copy, c->r.n_dims);
  for (guint p = 0; p < c->r.n; p++)
    {
      const double *const point = c->x + (gsize) p * c->r.n_dims;
      if (memcmp (point + first, x + first, (c->r.n_dims - first) * sizeof *x) != 0)
        add (copy, c->y[p], point);
    }
}

START_TEST (a_point_held_out_is_as_if_it_had_never_been)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint dims = 1; dims <= SC_RESIDUALS_MAX_DIMS; dims++)
      {
        Cloud c;
        scatter (&c, counts[i], dims, 40 + i);
        if (c.r.n > 1) /* measured twice */
          memcpy (c.x, c.x + dims, dims * sizeof *c.x);
        for (guint p = 0; p < c.r.n; p++)
          {
            const double *const x = c.x + (gsize) p * dims;
            Cloud copy;
            without (&c, x, 0, &copy);
            const ScResidual held = sc_residuals_at (&c.r, x, SC_HOLD_POINT), expected = sc_residuals_at (&copy.r, x, SC_HOLD_NOTHING);
            ck_assert_double_eq (held.y, expected.y);
            ck_assert (held.distance == expected.distance && held.distance > 0);
          }
      }
}
END_TEST

START_TEST (a_shape_held_out_goes_at_any_number_of_rows)
{
  for (guint dims = 2; dims <= SC_RESIDUALS_MAX_DIMS; dims++)
    {
      Cloud c;
      scatter (&c, 60, dims, 11);
      for (guint p = 0; p < c.r.n; p++) /* twelve shapes at five numbers of rows */
        memcpy (c.x + (gsize) p * dims + 1, c.x + (gsize) (p % 12) * dims + 1, (dims - 1) * sizeof *c.x);
      for (guint p = 0; p < c.r.n; p++)
        {
          const double *const x = c.x + (gsize) p * dims;
          Cloud copy;
          without (&c, x, 1, &copy);
          ck_assert_uint_eq (copy.r.n, 55);
          const ScResidual held = sc_residuals_at (&c.r, x, SC_HOLD_SHAPE), expected = sc_residuals_at (&copy.r, x, SC_HOLD_NOTHING);
          ck_assert_double_eq (held.y, expected.y);
          ck_assert_double_eq (held.distance, expected.distance);
        }
    }
}
END_TEST

START_TEST (of_one_coordinate_the_shape_is_the_point)
{
  Cloud c;
  scatter (&c, 25, 1, 3);
  for (guint p = 0; p < c.r.n; p++)
    ck_assert_double_eq (sc_residuals_at (&c.r, c.x + p, SC_HOLD_SHAPE).y, sc_residuals_at (&c.r, c.x + p, SC_HOLD_POINT).y);
}
END_TEST

START_TEST (the_order_of_points_does_not_matter)
{
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint dims = 1; dims <= SC_RESIDUALS_MAX_DIMS; dims++)
      {
        Cloud c, back;
        scatter (&c, counts[i], dims, 70 + i);
        begin (&back, dims);
        for (guint p = c.r.n; p-- > 0;)
          add (&back, c.y[p], c.x + (gsize) p * dims);
        guint32 seed = 17;
        for (guint q = 0; q < 20; q++)
          {
            double x[SC_RESIDUALS_MAX_DIMS];
            for (guint d = 0; d < dims; d++)
              x[d] = 3 * random_next (&seed);
            ck_assert_double_eq_tol (at (&c, x), at (&back, x), 1e-9);
          }
      }
}
END_TEST

START_TEST (of_places_equally_far_the_earlier_counts)
{
  Cloud c;
  begin (&c, 2);
  for (guint i = 0; i < MAX_POINTS; i++) /* on a circle, to the bit: four corners, repeated */
    add (&c, i < NEAREST ? 1 : -1, (const double[]) { i % 2 == 0 ? 1 : -1, i / 2 % 2 == 0 ? 1 : -1 });
  ck_assert_double_eq_tol (at (&c, (const double[]) { 0, 0 }), 1, 1e-12);
}
END_TEST

START_TEST (residuals_scale_and_shift_with_their_values)
{
  Cloud c, scaled, shifted;
  scatter (&c, 60, 3, 23);
  scatter (&scaled, 60, 3, 23);
  scatter (&shifted, 60, 3, 23);
  for (guint p = 0; p < c.r.n; p++)
    {
      scaled.y[p] *= 3;
      shifted.y[p] += 10;
    }
  guint32 seed = 29;
  for (guint q = 0; q < 50; q++)
    {
      double x[3];
      for (guint d = 0; d < 3; d++)
        x[d] = 5 * random_next (&seed) - 1;
      ck_assert_double_eq_tol (at (&scaled, x), 3 * at (&c, x), 1e-12);
      ck_assert_double_eq_tol (at (&shifted, x), 10 + at (&c, x), 1e-10);
    }
}
END_TEST

START_TEST (moving_all_points_moves_the_field)
{
  Cloud c, moved;
  scatter (&c, 60, 4, 31);
  scatter (&moved, 60, 4, 31);
  for (guint i = 0; i < 60 * 4; i++)
    moved.x[i] += 8; /* a power of two: only the last bits of differences change */
  guint32 seed = 37;
  for (guint q = 0; q < 50; q++)
    {
      double x[4], y[4];
      for (guint d = 0; d < 4; d++)
        y[d] = 8 + (x[d] = 3 * random_next (&seed));
      ck_assert_double_eq_tol (at (&moved, y), at (&c, x), 1e-9);
    }
}
END_TEST

START_TEST (residuals_are_cleared_once_and_again)
{
  ScResiduals r = { .n = 1, .n_dims = 1, .x = g_new0 (double, 1), .y = g_new0 (double, 1) };
  sc_residuals_clear (&r);
  ck_assert_uint_eq (r.n, 0);
  ck_assert (r.x == NULL && r.y == NULL);
  sc_residuals_clear (&r);
}
END_TEST

static Suite *
residuals_suite (void)
{
  Suite *suite = suite_create ("residuals");
  TCase *tc = tcase_create ("values");
  tcase_add_test (tc, nothing_is_known_without_points);
  tcase_add_test (tc, residuals_pass_through_their_points);
  tcase_add_test (tc, a_place_measured_again_has_the_mean);
  tcase_add_test (tc, one_point_says_the_same_everywhere);
  tcase_add_test (tc, a_constant_field_stays_constant);
  tcase_add_test (tc, two_points_follow_the_closed_form);
  tcase_add_test (tc, between_two_points_lies_their_mean);
  tcase_add_test (tc, far_away_the_mean_is_left);
  tcase_add_test (tc, predictions_stay_within_what_was_measured);
  tcase_add_test (tc, odd_clouds_give_finite_numbers);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("hold-out");
  tcase_add_test (tc, a_point_held_out_is_as_if_it_had_never_been);
  tcase_add_test (tc, a_shape_held_out_goes_at_any_number_of_rows);
  tcase_add_test (tc, of_one_coordinate_the_shape_is_the_point);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("invariants");
  tcase_add_test (tc, the_order_of_points_does_not_matter);
  tcase_add_test (tc, of_places_equally_far_the_earlier_counts);
  tcase_add_test (tc, residuals_scale_and_shift_with_their_values);
  tcase_add_test (tc, moving_all_points_moves_the_field);
  tcase_add_test (tc, residuals_are_cleared_once_and_again);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (residuals_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
