/* SPDX-License-Identifier: GPL-3.0-or-later */
/* units.c - "25 GB/s", "1.5 us", "80 GiB" to numbers and back. */
#include "units.h"
#include <math.h>
#include <string.h>

G_DEFINE_QUARK (sc - unit - error - quark, sc_unit_error)

/* Value in base units = number x times / over; both factors are exact doubles, so "1.5 us" is the double 1.5e-6. */
typedef struct
{
  const char *symbol;
  ScUnit unit;
  double times, over;
  gboolean output; /* sc_unit_format() may choose it */
} UnitRow;

static const UnitRow unit_rows[] = {
  { "B", SC_UNIT_BYTES, 1, 1, TRUE },
  { "kB", SC_UNIT_BYTES, 1e3, 1, TRUE },
  { "MB", SC_UNIT_BYTES, 1e6, 1, TRUE },
  { "GB", SC_UNIT_BYTES, 1e9, 1, TRUE },
  { "TB", SC_UNIT_BYTES, 1e12, 1, TRUE },
  { "KiB", SC_UNIT_BYTES, 0x1p10, 1, TRUE },
  { "MiB", SC_UNIT_BYTES, 0x1p20, 1, TRUE },
  { "GiB", SC_UNIT_BYTES, 0x1p30, 1, TRUE },
  { "TiB", SC_UNIT_BYTES, 0x1p40, 1, TRUE },

  { "B/s", SC_UNIT_BYTES_PER_S, 1, 1, TRUE },
  { "kB/s", SC_UNIT_BYTES_PER_S, 1e3, 1, TRUE },
  { "MB/s", SC_UNIT_BYTES_PER_S, 1e6, 1, TRUE },
  { "GB/s", SC_UNIT_BYTES_PER_S, 1e9, 1, TRUE },
  { "TB/s", SC_UNIT_BYTES_PER_S, 1e12, 1, TRUE },
  { "KiB/s", SC_UNIT_BYTES_PER_S, 0x1p10, 1, FALSE },
  { "MiB/s", SC_UNIT_BYTES_PER_S, 0x1p20, 1, FALSE },
  { "GiB/s", SC_UNIT_BYTES_PER_S, 0x1p30, 1, FALSE },
  { "TiB/s", SC_UNIT_BYTES_PER_S, 0x1p40, 1, FALSE },
  { "b/s", SC_UNIT_BYTES_PER_S, 1, 8, FALSE }, /* bits */
  { "kb/s", SC_UNIT_BYTES_PER_S, 1e3, 8, FALSE },
  { "Mb/s", SC_UNIT_BYTES_PER_S, 1e6, 8, FALSE },
  { "Gb/s", SC_UNIT_BYTES_PER_S, 1e9, 8, FALSE },
  { "Tb/s", SC_UNIT_BYTES_PER_S, 1e12, 8, FALSE },

  { "ps", SC_UNIT_SECONDS, 1, 1e12, TRUE },
  { "ns", SC_UNIT_SECONDS, 1, 1e9, TRUE },
  { "us", SC_UNIT_SECONDS, 1, 1e6, TRUE },
  { "\302\265s", SC_UNIT_SECONDS, 1, 1e6, FALSE }, /* micro sign */
  { "\316\274s", SC_UNIT_SECONDS, 1, 1e6, FALSE }, /* Greek mu */
  { "ms", SC_UNIT_SECONDS, 1, 1e3, TRUE },
  { "s", SC_UNIT_SECONDS, 1, 1, TRUE },

  { "FLOP/s", SC_UNIT_FLOPS, 1, 1, TRUE },
  { "MFLOP/s", SC_UNIT_FLOPS, 1e6, 1, TRUE },
  { "GFLOP/s", SC_UNIT_FLOPS, 1e9, 1, TRUE },
  { "TFLOP/s", SC_UNIT_FLOPS, 1e12, 1, TRUE },
  { "PFLOP/s", SC_UNIT_FLOPS, 1e15, 1, TRUE },
};

typedef struct
{
  const char *expected; /* what messages ask for */
  const char *usual;    /* symbol they suggest */
  const char *example;
} UnitKind;

static const UnitKind unit_kinds[SC_N_UNITS] = {
  [SC_UNIT_NONE] = { "a number", "", "0.85" },
  [SC_UNIT_BYTES] = { "a size with a unit", "GiB", "80 GiB" },
  [SC_UNIT_BYTES_PER_S] = { "a bandwidth with a unit", "GB/s", "25 GB/s" },
  [SC_UNIT_SECONDS] = { "a time with a unit", "us", "1.5 us" },
  [SC_UNIT_FLOPS] = { "a compute rate with a unit", "TFLOP/s", "312 TFLOP/s" },
};

const char *
sc_unit_expected (ScUnit unit)
{
  return unit_kinds[unit].expected;
}

const char *
sc_unit_example (ScUnit unit)
{
  return unit_kinds[unit].example;
}

/* Length of the decimal number at the start of @text, 0 if there is none; hexadecimal, "inf" and "nan" are none. */
static gsize
number_length (const char *text)
{
  const char *p = text;
  if (*p == '-')
    p++;
  const gsize whole = strspn (p, "0123456789");
  p += whole;
  gsize fraction = 0;
  if (*p == '.')
    {
      fraction = strspn (p + 1, "0123456789");
      p += 1 + fraction;
    }
  if (whole + fraction == 0)
    return 0;
  if (*p == 'e' || *p == 'E')
    {
      const char *exponent = p + 1;
      if (*exponent == '+' || *exponent == '-')
        exponent++;
      const gsize digits = strspn (exponent, "0123456789");
      if (digits > 0)
        p = exponent + digits;
    }
  return (gsize) (p - text);
}

/* The user's text, short enough for one line. */
static char *
quote (const char *text)
{
  if (g_utf8_strlen (text, -1) <= 60)
    return g_strdup_printf ("\"%s\"", text);
  g_autofree char *head = g_utf8_substring (text, 0, 57);
  return g_strdup_printf ("\"%s...\"", head);
}

/* How to write @number, which has no unit: 900e12 is in base units, 450 in the usual one. */
static char *
suggest (const char *number, int length, ScUnit unit)
{
  const double value = g_ascii_strtod (number, NULL);
  const gboolean base = unit == SC_UNIT_SECONDS ? fabs (value) > 0 && fabs (value) < 1e-2 : fabs (value) >= 1e6;
  if (base && isfinite (value))
    return sc_unit_format (value, unit);
  return g_strdup_printf ("%.*s %s", length, number, unit_kinds[unit].usual);
}

void
sc_unit_set_bare_error (const char *number, ScUnit unit, GError **error)
{
  g_autofree char *hint = suggest (number, (int) strlen (number), unit);
  g_set_error (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID, "found %s, expected %s (try \"%s\")", number,
               sc_unit_expected (unit), hint);
}

/* "450 gb/s" may mean two things: name every unit that differs in case only; else list the kind's units. */
static void
set_unknown_unit_error (const char *text, int number_len, const char *symbol, ScUnit unit, GError **error)
{
  g_autofree char *quoted = quote (text);
  g_autoptr (GString) hint = g_string_new (NULL);
  if (g_str_has_prefix (symbol, "%"))
    g_string_append (hint, "percent are not accepted");
  for (gsize i = 0; hint->len == 0 && i < G_N_ELEMENTS (unit_rows); i++)
    if (strcmp (unit_rows[i].symbol, symbol) == 0)
      g_string_append_printf (hint, "%s is not the unit of such a quantity", symbol);
  if (hint->len == 0)
    for (gsize i = 0; i < G_N_ELEMENTS (unit_rows); i++)
      if (unit_rows[i].unit == unit && g_ascii_strcasecmp (unit_rows[i].symbol, symbol) == 0)
        g_string_append_printf (hint, "%s\"%.*s %s\"", hint->len == 0 ? "did you mean " : " or ", number_len, text,
                                unit_rows[i].symbol);
  if (hint->len == 0)
    {
      g_string_append (hint, "units:");
      for (gsize i = 0; i < G_N_ELEMENTS (unit_rows); i++)
        if (unit_rows[i].unit == unit && g_str_is_ascii (unit_rows[i].symbol))
          g_string_append_printf (hint, " %s", unit_rows[i].symbol);
    }
  g_set_error (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID, "found %s, expected %s such as \"%s\" (%s)", quoted,
               sc_unit_expected (unit), sc_unit_example (unit), hint->str);
}

gboolean
sc_unit_parse (const char *text, ScUnit unit, double *ret_value, GError **error)
{
  g_return_val_if_fail (unit > SC_UNIT_NONE && unit < SC_N_UNITS, FALSE);

  const gsize number_len = number_length (text);
  g_autofree char *quoted = quote (text);
  if (number_len == 0 || number_len > 60)
    {
      g_set_error (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID, "found %s, expected %s such as \"%s\"", quoted,
                   sc_unit_expected (unit), sc_unit_example (unit));
      return FALSE;
    }
  const double number = g_ascii_strtod (text, NULL);
  const char *symbol = text + number_len;
  while (*symbol == ' ')
    symbol++;
  if (*symbol == '\0')
    {
      g_autofree char *hint = suggest (text, (int) number_len, unit);
      g_set_error (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID, "found %s, expected %s (try \"%s\")", quoted,
                   sc_unit_expected (unit), hint);
      return FALSE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (unit_rows); i++)
    {
      const UnitRow *row = &unit_rows[i];
      if (row->unit != unit || strcmp (row->symbol, symbol) != 0)
        continue;
      const double value = number * row->times / row->over;
      if (!isfinite (value))
        {
          g_set_error (error, SC_UNIT_ERROR, SC_UNIT_ERROR_INVALID, "found %s, expected %s that a computer can hold",
                       quoted, sc_unit_expected (unit));
          return FALSE;
        }
      *ret_value = value;
      return TRUE;
    }
  set_unknown_unit_error (text, (int) number_len, symbol, unit, error);
  return FALSE;
}

/* Shortest text of @number that is read back as @value = number x times / over. */
static char *
shortest_text (double number, double times, double over, double value)
{
  char buffer[32];
  for (int digits = 6; digits <= 17; digits++)
    {
      g_snprintf (buffer, sizeof buffer, "%.*g", digits, number);
      if (g_ascii_strtod (buffer, NULL) * times / over == value)
        break;
    }
  return g_strdup (buffer);
}

char *
sc_unit_format (double value, ScUnit unit)
{
  if (unit == SC_UNIT_NONE)
    return shortest_text (value, 1, 1, value);

  /* Of all units that give a number of at least 1 take the one with the shortest text; larger units win ties. */
  g_autofree char *best = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (unit_rows); i++)
    {
      const UnitRow *row = &unit_rows[i];
      if (row->unit != unit || !row->output)
        continue;
      const double number = value * row->over / row->times;
      if (best != NULL && fabs (number) < 1)
        continue;
      g_autofree char *digits = shortest_text (number, row->times, row->over, value);
      g_autofree char *text = g_strdup_printf ("%s %s", digits, row->symbol);
      if (best == NULL || strlen (digits) <= strcspn (best, " "))
        {
          g_free (best);
          best = g_steal_pointer (&text);
        }
    }
  return g_steal_pointer (&best);
}

typedef struct
{
  double scale;
  const char *suffix;
} Step;

/* Four significant digits of @value in the largest step in which they show a number of at least 1. */
static char *
format_steps (double value, const Step *steps, gsize n_steps)
{
  if (!isfinite (value))
    return g_strdup (isnan (value) ? "nan" : value > 0 ? "inf" : "-inf");
  gsize i = 0; /* steps fall */
  while (i + 1 < n_steps && fabs (value) / steps[i].scale < 0.99995)
    i++;
  const double number = value / steps[i].scale;
  if (number == 0 || (fabs (number) < 999.95 && number == rint (number) && steps[i].scale == 1))
    return g_strdup_printf ("%.0f%s", number, steps[i].suffix);
  const int whole = fabs (number) < 9.9995 ? 1 : fabs (number) < 99.995 ? 2 : fabs (number) < 999.95 ? 3 : 4;
  return g_strdup_printf ("%.*f%s", 4 - whole, number, steps[i].suffix);
}

char *
sc_format_bytes (double bytes)
{
  static const Step steps[] = {
    { 0x1p40, " TiB" }, { 0x1p30, " GiB" }, { 0x1p20, " MiB" }, { 0x1p10, " KiB" }, { 1, " B" }
  };
  return format_steps (bytes, steps, G_N_ELEMENTS (steps));
}

char *
sc_format_rate (double bytes_per_s)
{
  static const Step steps[] = {
    { 1e12, " TB/s" }, { 1e9, " GB/s" }, { 1e6, " MB/s" }, { 1e3, " kB/s" }, { 1, " B/s" }
  };
  return format_steps (bytes_per_s, steps, G_N_ELEMENTS (steps));
}

char *
sc_format_seconds (double seconds)
{
  static const Step steps[] = { { 1, " s" }, { 1e-3, " ms" }, { 1e-6, " us" }, { 1e-9, " ns" }, { 1e-12, " ps" } };
  if (seconds == 0)
    return g_strdup ("0 s");
  return format_steps (seconds, steps, G_N_ELEMENTS (steps));
}

char *
sc_format_flops (double flop_per_s)
{
  static const Step steps[] = { { 1e18, " EFLOP/s" }, { 1e15, " PFLOP/s" }, { 1e12, " TFLOP/s" },
                                { 1e9, " GFLOP/s" },  { 1e6, " MFLOP/s" },  { 1, " FLOP/s" } };
  return format_steps (flop_per_s, steps, G_N_ELEMENTS (steps));
}

char *
sc_format_count (double n)
{
  static const Step steps[] = { { 1e12, " T" }, { 1e9, " B" }, { 1e6, " M" }, { 1e3, " k" }, { 1, "" } };
  return format_steps (n, steps, G_N_ELEMENTS (steps));
}

void
sc_append_csv (GString *out, const char *text)
{
  if (text == NULL)
    return;
  if (strpbrk (text, ",\"\r\n") == NULL)
    {
      g_string_append (out, text);
      return;
    }
  g_string_append_c (out, '"');
  for (const char *p = text; *p != '\0'; p++)
    {
      if (*p == '"')
        g_string_append_c (out, '"');
      g_string_append_c (out, *p);
    }
  g_string_append_c (out, '"');
}
