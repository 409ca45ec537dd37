/* SPDX-License-Identifier: GPL-3.0-or-later */
/* units.h - "25 GB/s", "1.5 us", "80 GiB" to numbers and back; the only place where bits, GB and GiB exist.
 * Layer: src.  Inside the program everything is bytes, seconds, FLOP/s. */
#pragma once
#include <glib.h>

typedef enum
{
  SC_UNIT_NONE, /* a plain number */
  SC_UNIT_BYTES,
  SC_UNIT_BYTES_PER_S,
  SC_UNIT_SECONDS,
  SC_UNIT_FLOPS, /* FLOP/s */
  SC_N_UNITS
} ScUnit;

#define SC_UNIT_ERROR (sc_unit_error_quark ())
GQuark sc_unit_error_quark (void);
typedef enum
{
  SC_UNIT_ERROR_INVALID, /* the message says what was found and what to write: found "450", expected ... */
} ScUnitError;

const char *sc_unit_expected (ScUnit unit); /* "a bandwidth with a unit" */
const char *sc_unit_example (ScUnit unit);  /* "25 GB/s" */

/* Reads @text, which must carry a unit of this kind; *ret_value in bytes, bytes/s, seconds or FLOP/s. */
gboolean sc_unit_parse (const char *text, ScUnit unit, double *ret_value, GError **error);

/* Complains about a number without a unit and shows how to write it. */
void sc_unit_set_bare_error (const char *number, ScUnit unit, GError **error);

/* Shortest text that sc_unit_parse() reads back as @value: "48.5 GB/s", "5 us", "80 GiB". */
char *sc_unit_format (double value, ScUnit unit);

/* For people: four significant digits and a unit.  Caller frees. */
char *sc_format_bytes (double bytes);            /* binary: "79.65 GiB" */
char *sc_format_rate (double bytes_per_s);       /* decimal: "48.50 GB/s" */
char *sc_format_seconds (double seconds);        /* "13.75 s", "1.420 ms" */
char *sc_format_flops (double flop_per_s);       /* "312.0 TFLOP/s" */
char *sc_format_count (double n);                /* "70.55 B" (billions), "131.1 k", "64" */

/* Appends @text as one field of CSV (RFC 4180); NULL: an empty one. */
void sc_append_csv (GString *out, const char *text);
