/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sort.h - sorts whole numbers by their digits.
 * Layer: models.  Walks of 100,000 ranks leave millions of pairs of link numbers, and comparing them one by one is what takes
 * longest; a pass over them for each digit that differs is several times faster. */
#pragma once
#include <glib.h>

/* Ascending. */
void sc_sort_u64 (guint64 *values, gsize n);
