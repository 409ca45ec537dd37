/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fields.h - one table per JSON object drives reading, checking, defaults and documentation.
 * Layer: src.  What is not table-shaped (maps, arrays of objects) has a row too, of kind OTHER, so that its key is
 * known and documented; a small function reads it. */
#pragma once
#include "json-in.h"
#include "models/cited.h"
#include "units.h"

typedef enum
{
  SC_FIELD_BOOL,   /* gboolean */
  SC_FIELD_COUNT,  /* guint: a whole number */
  SC_FIELD_COUNT64, /* guint64 */
  SC_FIELD_NUMBER, /* double */
  SC_FIELD_STRING, /* char *, owned by the struct */
  SC_FIELD_CHOICE, /* an enum: ScChoice.value */
  SC_FIELD_NAME,   /* const char *, static: ScChoice.name */
  SC_FIELD_CITED,  /* ScCited */
  SC_FIELD_CURVE,  /* ScCurve */
  SC_FIELD_OBJECT, /* an object with a table of its own, read into the same struct */
  SC_FIELD_OTHER,  /* read by a function of its own */
  SC_FIELD_LATER,  /* a key of the published vocabulary that is not modelled yet: null, false, and `fallback` pass */
} ScFieldKind;

/* One word of a vocabulary. */
typedef struct
{
  const char *name; /* ends with ':' : any word that starts so */
  int         value;
  gboolean    later; /* known, but not modelled yet */
} ScChoice;

#define SC_FIELD_NOWHERE G_MAXSIZE /* offset of what is checked but not kept */

typedef struct ScFieldTable ScFieldTable;

/* A key with neither `fallback` nor `derived` is required. */
typedef struct
{
  const char         *key;
  ScFieldKind         kind;
  ScUnit              unit;     /* NUMBER, CITED; y of CURVE */
  gboolean            whole;    /* CITED: whole numbers only */
  double              min, max; /* COUNT, COUNT64, NUMBER, CITED; y of CURVE */
  const char         *fallback; /* default, as a file would say it (text without quotes) */
  const char         *derived;  /* or how the default comes about, in words; the member stays as it was */
  const ScChoice     *choices;  /* CHOICE, NAME: NULL-ended; STRING: suggestions for `list fields` only */
  const ScFieldTable *table;    /* OBJECT; OTHER: of its elements, for `list fields` */
  gsize               offset;
  const char         *help;     /* one sentence, no full stop */
} ScField;

struct ScFieldTable
{
  const char    *title;         /* "device", for `list fields` */
  const ScField *fields;        /* ends with a row whose key is NULL */
  gboolean       null_is_absent; /* published tables say null for "not stated" */
  gboolean       plain_cited;   /* CITED may be a plain text or number: grade "assumed", no source */
};

/* Reads every table-shaped member of @object into @base, applies defaults, and refuses unknown keys, missing keys,
 * wrong types, missing units and values out of range. */
gboolean sc_fields_read (const ScFieldTable *table, const ScJson *json, const cJSON *object, gpointer base,
                         GError **error);

/* Member @key, or NULL if it is not there (or null, where that means the same). */
const cJSON *sc_fields_get (const ScFieldTable *table, const cJSON *object, const char *key);

/* Single values of arrays and maps, checked as the row would. */
gboolean sc_fields_check_object (const ScJson *json, const cJSON *item, GError **error);
gboolean sc_fields_check_array (const ScJson *json, const cJSON *item, guint max, GError **error);
gboolean sc_fields_read_value (const ScField *field, const ScFieldTable *table, const ScJson *json, const cJSON *item,
                               gpointer base, GError **error);

/* "key", type with unit, range and default, as `stepcast list fields` prints them.  Caller frees. */
char *sc_field_type_text (const ScField *field);
char *sc_field_range_text (const ScField *field);
char *sc_field_default_text (const ScField *field);
