/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text-table.c - columns as wide as their cells. */
#include "text-table.h"
#include <math.h>

char *
sc_text_percent (double fraction, gboolean sign)
{
  if (isnan (fraction))
    return g_strdup ("-");
  return g_strdup_printf (sign ? "%+.1f %%" : "%.1f %%", 100 * fraction);
}

ScTextTable
sc_text_table_new (const char *const *titles, guint n_left)
{
  ScTextTable t = { g_ptr_array_new_with_free_func (g_free), 0, n_left };
  for (; *titles != NULL; titles++, t.n_columns++)
    g_ptr_array_add (t.cells, g_strdup (*titles));
  return t;
}

void
sc_text_table_cell (ScTextTable *t, char *taken)
{
  g_ptr_array_add (t->cells, taken);
}

void
sc_text_table_words (ScTextTable *t, const char *text)
{
  sc_text_table_cell (t, g_strdup (text));
}

void
sc_text_table_end (ScTextTable *t, gboolean markdown, GString *out)
{
  const guint n = t->n_columns, rows = t->cells->len / n;
  g_autofree int *width = g_new0 (int, n);
  for (guint i = 0; i < t->cells->len; i++)
    width[i % n] = MAX (width[i % n], (int) g_utf8_strlen (g_ptr_array_index (t->cells, i), -1));
  for (guint r = 0; r < rows; r++)
    {
      for (guint c = 0; c < n; c++)
        {
          const char *text = g_ptr_array_index (t->cells, r * n + c);
          const int pad = width[c] - (int) g_utf8_strlen (text, -1);
          g_string_append (out, markdown ? c == 0 ? "| " : " | " : c == 0 ? "" : "  ");
          if (c >= t->n_left)
            g_string_append_printf (out, "%*s%s", pad, "", text);
          else
            g_string_append_printf (out, "%s%*s", text, markdown || c + 1 < n ? pad : 0, "");
        }
      g_string_append (out, markdown ? " |\n" : "\n");
      for (guint c = 0; r == 0 && markdown && c < n; c++)
        g_string_append_printf (out, "%s%s", c < t->n_left ? "|---" : "|--:", c + 1 < n ? "" : "|\n");
    }
  g_ptr_array_unref (t->cells);
}
