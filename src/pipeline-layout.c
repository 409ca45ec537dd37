/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pipeline-layout.c - layout strings, repeated parts written out and then read from left to right. */
#include "pipeline-layout.h"
#include <string.h>
#include "json-in.h"

#define MAX_SYMBOLS 200000u /* written out */
#define MAX_DEPTH 8

/* A symbol where it stands in the text. */
typedef struct
{
  char  symbol;
  guint column;
} Symbol;

typedef struct
{
  const char *text;
  guint at;
} Reader;

void
sc_pipeline_layout_free (ScPipelineLayout *layout)
{
  if (layout == NULL)
    return;
  g_free (layout->layers);
  g_free (layout->mtp);
  g_free (layout);
}

static gboolean G_GNUC_PRINTF (3, 4) fail (GError **error, guint at, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "column %u: %s", at + 1, message);
  return FALSE;
}

/* What stands there, for messages. */
static char *
found_at (const Reader *r)
{
  const gunichar c = g_utf8_get_char_validated (r->text + r->at, -1);
  if (c == 0)
    return g_strdup ("the end");
  char utf8[7] = { 0 };
  if (c == (gunichar) -1 || c == (gunichar) -2 || !g_unichar_isprint (c))
    return g_strdup_printf ("byte %u", (guchar) r->text[r->at]);
  utf8[g_unichar_to_utf8 (c, utf8)] = '\0';
  return g_strdup_printf ("\"%s\"", utf8);
}

static void
skip_blanks (Reader *r)
{
  while (r->text[r->at] == ' ' || r->text[r->at] == ',')
    r->at++;
}

/* The count behind a '*', if there is one: else 1. */
static gboolean
read_count (Reader *r, guint *ret, GError **error)
{
  *ret = 1;
  skip_blanks (r);
  if (r->text[r->at] != '*')
    return TRUE;
  r->at++;
  skip_blanks (r);
  const guint begin = r->at;
  guint64 n = 0;
  for (; g_ascii_isdigit (r->text[r->at]); r->at++)
    n = MIN (10 * n + (guint64) (r->text[r->at] - '0'), MAX_SYMBOLS + 1);
  if (r->at == begin)
    {
      g_autofree char *found = found_at (r);
      return fail (error, begin, "found %s, expected a count behind *", found);
    }
  if (n == 0 || n > MAX_SYMBOLS)
    return fail (error, begin, "found a count of %s, expected 1 to %u", n == 0 ? "0" : "more than that", MAX_SYMBOLS);
  *ret = (guint) n;
  return TRUE;
}

/* @out from @first on, @n times in all. */
static gboolean
repeat (GArray *out, guint first, guint n, guint at, GError **error)
{
  const guint length = out->len - first;
  if ((guint64) length * n + first > MAX_SYMBOLS)
    return fail (error, at, "more than %u symbols, written out", MAX_SYMBOLS);
  for (guint i = 1; i < n; i++)
    {
      g_autofree Symbol *copy = length > 0 ? g_memdup2 (&g_array_index (out, Symbol, first), length * sizeof (Symbol)) : NULL;
      g_array_append_vals (out, copy, length);
    }
  return TRUE;
}

/* Up to the end, or to the bracket that closes @depth. */
static gboolean
read_symbols (Reader *r, guint depth, GArray *out, GError **error)
{
  for (skip_blanks (r); r->text[r->at] != '\0' && r->text[r->at] != ')'; skip_blanks (r))
    {
      const guint first = out->len, at = r->at;
      const Symbol symbol = { r->text[at], at };
      guint n;
      if (symbol.symbol == '(')
        {
          if (depth == MAX_DEPTH)
            return fail (error, at, "found more than %u brackets inside one another", MAX_DEPTH);
          r->at++;
          if (!read_symbols (r, depth + 1, out, error))
            return FALSE;
          if (r->text[r->at] != ')')
            return fail (error, at, "this bracket is not closed");
          r->at++;
          skip_blanks (r);
          if (r->text[r->at] != '*')
            {
              g_autofree char *found = found_at (r);
              return fail (error, r->at, "found %s behind a bracket, expected * and a count", found);
            }
        }
      else if (strchr ("EtmL|", symbol.symbol) != NULL)
        {
          r->at++;
          g_array_append_val (out, symbol);
        }
      else
        {
          g_autofree char *found = found_at (r);
          return fail (error, at, "found %s, expected E (embedding), t (layer), m (MTP), L (loss), | or a bracket", found);
        }
      if (!read_count (r, &n, error) || !repeat (out, first, n, at, error))
        return FALSE;
    }
  return depth > 0 || r->text[r->at] == '\0' || fail (error, r->at, "this bracket was not opened");
}

/* Embedding, layers, MTP, loss: each in its turn. */
static gboolean
check_order (const GArray *symbols, guint end, GError **error)
{
  static const char turn[] = "EtmL";
  char last = '\0';
  for (guint i = 0; i < symbols->len; i++)
    {
      const Symbol *const s = &g_array_index (symbols, Symbol, i);
      if (s->symbol == '|')
        continue;
      if (last == '\0' && s->symbol != 'E')
        return fail (error, s->column, "found %c first, expected E: the model begins with the embedding", s->symbol);
      if (last != '\0' && strchr (turn, s->symbol) < strchr (turn, last))
        return fail (error, s->column, "found %c behind %c, expected E, then t, then m, then L", s->symbol, last);
      if (s->symbol == last && (last == 'E' || last == 'L'))
        return fail (error, s->column, "found a second %c, expected one", last);
      last = s->symbol;
    }
  if (last != 'L')
    return fail (error, end, last == '\0' ? "found nothing, expected E, layers and L" : "found no L, expected the loss at the end of the model");
  return TRUE;
}

ScPipelineLayout *
sc_pipeline_layout_parse (const char *text, GError **error)
{
  Reader r = { text, 0 };
  g_autoptr (GArray) symbols = g_array_new (FALSE, FALSE, sizeof (Symbol));
  if (!read_symbols (&r, 0, symbols, error) || !check_order (symbols, r.at, error))
    return NULL;
  guint n = 1;
  for (guint i = 0; i < symbols->len; i++)
    n += g_array_index (symbols, Symbol, i).symbol == '|' ? 1 : 0;
  if (n > SC_PIPELINE_LAYOUT_MAX_STAGES)
    {
      fail (error, r.at, "found %u stages, expected at most %u", n, SC_PIPELINE_LAYOUT_MAX_STAGES);
      return NULL;
    }
  const Symbol *const first = &g_array_index (symbols, Symbol, 0), *const last = &g_array_index (symbols, Symbol, symbols->len - 1);
  if (first->symbol == '|' || last->symbol == '|')
    {
      fail (error, first->symbol == '|' ? first->column : last->column, "found a stage without %s, expected %s there",
            first->symbol == '|' ? "the embedding" : "the loss", first->symbol == '|' ? "E" : "L");
      return NULL;
    }
  ScPipelineLayout *const layout = g_new0 (ScPipelineLayout, 1);
  layout->n = n;
  layout->layers = g_new0 (guint, n);
  layout->mtp = g_new0 (guint, n);
  guint stage = 0;
  for (guint i = 0; i < symbols->len; i++)
    switch (g_array_index (symbols, Symbol, i).symbol)
      {
      case '|': stage++; break;
      case 't': layout->layers[stage]++; break;
      case 'm': layout->mtp[stage]++; break;
      default: break;
      }
  return layout;
}
