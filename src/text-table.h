/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text-table.h - a table for people, as plain columns or as Markdown: cells are added row by row.
 * Layer: src. */
#pragma once
#include <glib.h>

typedef struct
{
  GPtrArray *cells; /* owned */
  guint      n_columns, n_left; /* the first n_left are words */
} ScTextTable;

/* @titles: NULL-ended. */
ScTextTable sc_text_table_new (const char *const *titles, guint n_left);
void        sc_text_table_cell (ScTextTable *table, char *taken);
void        sc_text_table_words (ScTextTable *table, const char *text); /* a copy */

/* Writes and frees. */
void sc_text_table_end (ScTextTable *table, gboolean markdown, GString *out);

/* "12.3 %", "+4.0 %" with @sign, "-" for NAN.  Caller frees. */
char *sc_text_percent (double fraction, gboolean sign);
