/* SPDX-License-Identifier: GPL-3.0-or-later */
/* routing-csv.c - tokens of each expert, line by line. */
#include "routing-csv.h"
#include "json-in.h"
#include "library.h"
#include <string.h>

#define MAX_BYTES (16u << 20)
#define MAX_TOKENS 1e15

static gboolean
fail (GError **error, guint line, guint cell, const char *format, ...) G_GNUC_PRINTF (4, 5);

static gboolean
fail (GError **error, guint line, guint cell, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_autofree char *where = cell > 0 ? g_strdup_printf ("line %u, cell %u: ", line, cell) : line > 0 ? g_strdup_printf ("line %u: ", line) : g_strdup ("");
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s%s", where, message);
  return FALSE;
}

static gboolean
read_number (const char *text, double *ret)
{
  char *end = NULL;
  *ret = g_ascii_strtod (text, &end);
  return end != text && *end == '\0';
}

/* Appends the line's numbers to @tokens; FALSE and no error: it is a line of names. */
static gboolean
read_line (const char *text, guint line, gboolean may_be_names, GArray *tokens, GError **error)
{
  g_auto (GStrv) cells = g_strsplit (text, ",", -1);
  double n;
  if (may_be_names && !read_number (g_strstrip (cells[0]), &n))
    return FALSE;
  for (guint c = 0; cells[c] != NULL; c++)
    {
      g_autofree char *shown = g_strndup (g_strstrip (cells[c]), 40);
      g_autofree char *printable = g_strescape (shown, NULL);
      if (!read_number (cells[c], &n) || !(n >= 0) || n > MAX_TOKENS)
        return fail (error, line, c + 1, "found \"%s\", expected the number of tokens of an expert", printable);
      g_array_append_val (tokens, n);
    }
  return TRUE;
}

double *
sc_routing_csv_parse (const char *text, guint *ret_lines, guint *ret_experts, GError **error)
{
  g_autoptr (GArray) tokens = g_array_new (FALSE, FALSE, sizeof (double));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint n = 0, experts = 0;
  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *const line = g_strstrip (lines[i]);
      const guint before = tokens->len;
      g_autoptr (GError) inner = NULL;
      if (*line == '\0' || *line == '#')
        continue;
      if (!read_line (line, i + 1, n == 0, tokens, &inner))
        {
          if (inner == NULL)
            continue;
          g_propagate_error (error, g_steal_pointer (&inner));
          return NULL;
        }
      if (n++ == 0)
        experts = tokens->len;
      else if (tokens->len - before != experts)
        {
          fail (error, i + 1, 0, "found %u numbers, expected %u as in the first line", tokens->len - before, experts);
          return NULL;
        }
    }
  if (n == 0)
    {
      fail (error, 0, 0, "found no numbers, expected a line for each layer with experts, or one for all");
      return NULL;
    }
  *ret_lines = n;
  *ret_experts = experts;
  return (double *) (gpointer) g_array_free (g_steal_pointer (&tokens), FALSE);
}

double *
sc_routing_csv_load (const char *path, guint *ret_lines, guint *ret_experts, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "a CSV of tokens", MAX_BYTES, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen (text) != length)
    {
      fail (error, 0, 0, "%s: found a NUL byte, expected text", path);
      return NULL;
    }
  double *const tokens = sc_routing_csv_parse (text, ret_lines, ret_experts, error);
  if (tokens == NULL)
    g_prefix_error (error, "%s: ", path);
  return tokens;
}
