/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sort.c - radix sort, least digit first. */
#include "models/sort.h"
#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define N_DIGITS   6 /* 66 bits */
#define N_VALUES   (1u << DIGIT_BITS)
#define FEW        1024 /* below, counting digits costs more than comparing */

static int
compare (gconstpointer a, gconstpointer b)
{
  const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;
  return (x > y) - (x < y);
}

static inline guint
digit_of (guint64 value, guint digit)
{
  return (guint) (value >> digit * DIGIT_BITS) & (N_VALUES - 1);
}

/* One pass: @from to @to by @digit, of whose values there are @counts. */
static void
distribute (const guint64 *from, guint64 *to, gsize n, guint digit, gsize *counts)
{
  gsize at = 0;
  for (guint v = 0; v < N_VALUES; v++)
    {
      const gsize here = counts[v];
      counts[v] = at;
      at += here;
    }
  for (gsize i = 0; i < n; i++)
    to[counts[digit_of (from[i], digit)]++] = from[i];
}

void
sc_sort_u64 (guint64 *values, gsize n)
{
  if (n < FEW)
    {
      if (n > 1)
        qsort (values, n, sizeof *values, compare);
      return;
    }
  g_autofree gsize *counts = g_new0 (gsize, N_DIGITS * N_VALUES);
  gboolean sorted = TRUE;
  for (gsize i = 0; i < n; i++)
    {
      sorted &= i == 0 || values[i - 1] <= values[i];
      for (guint d = 0; d < N_DIGITS; d++)
        counts[d * N_VALUES + digit_of (values[i], d)]++;
    }
  if (sorted)
    return;
  g_autofree guint64 *room = g_new (guint64, n);
  guint64 *from = values, *to = room;
  for (guint d = 0; d < N_DIGITS; d++)
    {
      gsize *const count = counts + d * N_VALUES;
      if (count[digit_of (from[0], d)] == n) /* all alike */
        continue;
      distribute (from, to, n, d, count);
      guint64 *const swap = from;
      from = to;
      to = swap;
    }
  if (from != values)
    memcpy (values, from, n * sizeof *values);
}
