/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_sort.c - numbers come out in order, few or many, whatever their digits. */
#include <check.h>
#include <stdlib.h>
#include "models/sort.h"
#include "pace.h"

/* splitmix64 */
static guint64
next (guint64 *state)
{
  guint64 z = *state += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ z >> 31;
}

static int
compare (gconstpointer a, gconstpointer b)
{
  const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;
  return (x > y) - (x < y);
}

START_TEST (numbers_come_out_as_from_qsort)
{
  static const guint64 masks[] = { 0, 1, 0x7ff, G_GUINT64_CONSTANT (0x000fffff000fffff), G_GUINT64_CONSTANT (0xff00000000000000), G_MAXUINT64 };
  static const gsize sizes[] = { 0, 1, 2, 3, 1023, 1024, 1025, 50000 };
  guint64 state = 1;
  for (guint m = 0; m < G_N_ELEMENTS (masks); m++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint form = 0; form < 3; form++) /* any order, ascending, descending */
        {
          const gsize n = sizes[s];
          g_autofree guint64 *got = g_new (guint64, n + 1);
          g_autofree guint64 *want = g_new (guint64, n + 1);
          for (gsize i = 0; i < n; i++)
            got[i] = next (&state) & masks[m];
          if (form > 0)
            qsort (got, n, sizeof *got, compare);
          for (gsize i = 0; form == 2 && i < n / 2; i++)
            {
              const guint64 swap = got[i];
              got[i] = got[n - 1 - i];
              got[n - 1 - i] = swap;
            }
          for (gsize i = 0; i < n; i++)
            want[i] = got[i];
          qsort (want, n, sizeof *want, compare);
          sc_sort_u64 (got, n);
          for (gsize i = 0; i < n; i++)
            ck_assert_uint_eq (got[i], want[i]);
        }
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("sort");
  TCase *const t = tcase_create ("radix");
  tcase_add_test (slow (suite), numbers_come_out_as_from_qsort);
  suite_add_tcase (suite, t);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
