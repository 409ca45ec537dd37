/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fields.c - one table per JSON object drives reading, checking, defaults and documentation. */
#include "fields.h"
#include <math.h>
#include <string.h>

#define MAX_TEXT_LENGTH 4000
#define MAX_CURVE_POINTS 1000
#define MAX_CURVE_X 1e12

/* "comment" may stand in any object, for people. */
#define COMMENT_KEY "comment"

static const ScChoice grade_choices[] = {
  { "measured", SC_GRADE_MEASURED, FALSE },
  { "datasheet", SC_GRADE_DATASHEET, FALSE },
  { "fitted", SC_GRADE_FITTED, FALSE },
  { "assumed", SC_GRADE_ASSUMED, FALSE },
  { NULL, 0, FALSE },
};

/* ---- Keys ---- */

const cJSON *
sc_fields_get (const ScFieldTable *table, const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive (object, key);
  return item != NULL && table->null_is_absent && cJSON_IsNull (item) ? NULL : item;
}

/* FALSE and an error if @object has a key that is neither in @known (NULL-ended) nor a comment. */
static gboolean
check_keys (const ScJson *json, const cJSON *object, const char *const *known, GError **error)
{
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    {
      if (g_strv_contains (known, item->string) || strcmp (item->string, COMMENT_KEY) == 0)
        continue;
      sc_json_fail_key (json, object, item->string, known, error);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_table_keys (const ScFieldTable *table, const ScJson *json, const cJSON *object, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  for (const ScField *field = table->fields; field->key != NULL; field++)
    g_ptr_array_add (known, (gpointer) (gsize) field->key);
  g_ptr_array_add (known, NULL);
  return check_keys (json, object, (const char *const *) known->pdata, error);
}

gboolean
sc_fields_check_object (const ScJson *json, const cJSON *item, GError **error)
{
  if (cJSON_IsObject (item))
    return TRUE;
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (json, item, NULL, error, "found %s, expected an object", found);
  return FALSE;
}

gboolean
sc_fields_check_array (const ScJson *json, const cJSON *item, guint max, GError **error)
{
  if (!cJSON_IsArray (item))
    {
      g_autofree char *found = sc_json_found (item);
      sc_json_fail (json, item, NULL, error, "found %s, expected an array", found);
      return FALSE;
    }
  const int n = cJSON_GetArraySize (item);
  if (n > (int) max)
    {
      sc_json_fail (json, item, NULL, error, "found %d elements, expected at most %u", n, max);
      return FALSE;
    }
  return TRUE;
}

/* ---- Values ---- */

static gboolean
fail_found (const ScJson *json, const cJSON *item, GError **error, const char *expected)
{
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (json, item, NULL, error, "found %s, expected %s", found, expected);
  return FALSE;
}

char *
sc_field_range_text (const ScField *field)
{
  switch (field->kind)
    {
    case SC_FIELD_COUNT:
    case SC_FIELD_COUNT64:
    case SC_FIELD_NUMBER:
    case SC_FIELD_CITED:
    case SC_FIELD_CURVE:
      break;
    case SC_FIELD_BOOL:
    case SC_FIELD_STRING:
    case SC_FIELD_CHOICE:
    case SC_FIELD_NAME:
    case SC_FIELD_OBJECT:
    case SC_FIELD_OTHER:
    case SC_FIELD_LATER:
    default:
      return g_strdup ("");
    }
  if (field->kind == SC_FIELD_COUNT || field->kind == SC_FIELD_COUNT64)
    return g_strdup_printf ("%.0f to %.0f", field->min, field->max);
  g_autofree char *min = sc_unit_format (field->min, field->unit);
  g_autofree char *max = sc_unit_format (field->max, field->unit);
  return g_strdup_printf ("%s to %s", min, max);
}

/* A number in the row's unit and range. */
static gboolean
read_number (const ScField *field, const ScJson *json, const cJSON *item, double *ret_value, GError **error)
{
  double value = 0;
  if (field->unit == SC_UNIT_NONE)
    {
      const gboolean whole = field->whole || field->kind == SC_FIELD_COUNT || field->kind == SC_FIELD_COUNT64;
      const char *expected = whole ? "a whole number" : "a number";
      if (cJSON_IsString (item))
        {
          char *end;
          const double inside = g_ascii_strtod (item->valuestring, &end);
          if (end != item->valuestring && *end == '%')
            {
              g_autofree char *text = g_strdup_printf ("%s (percent are not accepted: try %g)", expected, inside / 100);
              return fail_found (json, item, error, text);
            }
          if (end != item->valuestring && *end == '\0' && isfinite (inside))
            {
              g_autofree char *text = g_strdup_printf ("%s without quotes", expected);
              return fail_found (json, item, error, text);
            }
        }
      if (!cJSON_IsNumber (item))
        return fail_found (json, item, error, expected);
      value = item->valuedouble;
      if (whole && value != floor (value))
        return fail_found (json, item, error, expected);
    }
  else if (cJSON_IsString (item))
    {
      g_autoptr (GError) why = NULL;
      if (!sc_unit_parse (item->valuestring, field->unit, &value, &why))
        {
          sc_json_fail (json, item, NULL, error, "%s", why->message);
          return FALSE;
        }
    }
  else if (cJSON_IsNumber (item))
    {
      g_autofree char *found = sc_json_found (item);
      g_autoptr (GError) why = NULL;
      sc_unit_set_bare_error (found, field->unit, &why);
      sc_json_fail (json, item, NULL, error, "%s", why->message);
      return FALSE;
    }
  else
    {
      g_autofree char *expected =
          g_strdup_printf ("%s such as \"%s\"", sc_unit_expected (field->unit), sc_unit_example (field->unit));
      return fail_found (json, item, error, expected);
    }
  if (!(value >= field->min && value <= field->max))
    {
      g_autofree char *range = sc_field_range_text (field);
      return fail_found (json, item, error, range);
    }
  *ret_value = value;
  return TRUE;
}

static gboolean
read_text (const ScJson *json, const cJSON *item, char **ret_text, GError **error)
{
  if (!cJSON_IsString (item))
    return fail_found (json, item, error, "a text in double quotes");
  const gsize length = strlen (item->valuestring);
  if (length == 0 || length > MAX_TEXT_LENGTH)
    {
      sc_json_fail (json, item, NULL, error, "found a text of %" G_GSIZE_FORMAT " bytes, expected 1 to %u", length,
                    MAX_TEXT_LENGTH);
      return FALSE;
    }
  g_free (*ret_text);
  *ret_text = g_strdup (item->valuestring);
  return TRUE;
}

/* Row of @choices that @word names, or NULL. */
static const ScChoice *
find_choice (const ScChoice *choices, const char *word)
{
  for (; choices->name != NULL; choices++)
    if (g_str_has_suffix (choices->name, ":") ? g_str_has_prefix (word, choices->name)
                                              : strcmp (word, choices->name) == 0)
      return choices;
  return NULL;
}

/* "bf16, fp16 or fp32": what can be chosen today. */
static char *
choices_text (const ScChoice *choices)
{
  guint n = 0;
  for (const ScChoice *c = choices; c->name != NULL; c++)
    n += c->later ? 0 : 1;
  GString *text = g_string_new (NULL);
  guint i = 0;
  for (const ScChoice *c = choices; c->name != NULL; c++)
    if (!c->later)
      {
        g_string_append_printf (text, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", c->name);
        i++;
      }
  return g_string_free (text, FALSE);
}

static const ScChoice *
read_choice (const ScChoice *choices, const ScJson *json, const cJSON *item, GError **error)
{
  g_autofree char *all = choices_text (choices);
  const ScChoice *choice = cJSON_IsString (item) ? find_choice (choices, item->valuestring) : NULL;
  if (choice != NULL && !choice->later)
    return choice;
  g_autofree char *found = sc_json_found (item);
  if (choice != NULL)
    {
      sc_json_fail (json, item, NULL, error, "found %s, which is not modelled yet, expected %s", found, all);
      return NULL;
    }
  const char *nearest = NULL;
  if (cJSON_IsString (item))
    {
      g_autoptr (GPtrArray) known = g_ptr_array_new ();
      for (const ScChoice *c = choices; c->name != NULL; c++)
        if (!c->later)
          g_ptr_array_add (known, (gpointer) (gsize) c->name);
      g_ptr_array_add (known, NULL);
      nearest = sc_nearest (item->valuestring, (const char *const *) known->pdata);
    }
  if (nearest != NULL)
    sc_json_fail (json, item, NULL, error, "found %s, expected %s (did you mean \"%s\"?)", found, all, nearest);
  else
    sc_json_fail (json, item, NULL, error, "found %s, expected %s", found, all);
  return NULL;
}

/* "grade" and "source" of a cited object; @required: device files must say both. */
static gboolean
read_citation (const ScJson *json, const cJSON *object, gboolean required, ScGrade *ret_grade, char **ret_source,
               GError **error)
{
  const cJSON *grade = cJSON_GetObjectItemCaseSensitive (object, "grade");
  const cJSON *source = cJSON_GetObjectItemCaseSensitive (object, "source");
  if (required && (grade == NULL || source == NULL))
    {
      if (grade == NULL)
        sc_json_fail (json, object, "grade", error,
                      "missing, expected how well it is known: measured, datasheet, fitted or assumed");
      else
        sc_json_fail (json, object, "source", error, "missing, expected where the number is from");
      return FALSE;
    }
  *ret_grade = SC_GRADE_ASSUMED;
  if (grade != NULL)
    {
      const ScChoice *choice = read_choice (grade_choices, json, grade, error);
      if (choice == NULL)
        return FALSE;
      *ret_grade = (ScGrade) choice->value;
    }
  return source == NULL || read_text (json, source, ret_source, error);
}

static gboolean
read_cited (const ScField *field, const ScFieldTable *table, const ScJson *json, const cJSON *item, ScCited *cited,
            GError **error)
{
  static const char *const keys[] = { "value", "grade", "source", NULL };

  if (!cJSON_IsObject (item))
    {
      if (!table->plain_cited)
        return fail_found (json, item, error, "an object with \"value\", \"grade\" and \"source\"");
      cited->grade = SC_GRADE_ASSUMED;
      return read_number (field, json, item, &cited->value, error);
    }
  if (!check_keys (json, item, keys, error))
    return FALSE;
  const cJSON *value = cJSON_GetObjectItemCaseSensitive (item, "value");
  if (value == NULL)
    {
      sc_json_fail (json, item, "value", error, "missing, expected %s", sc_unit_expected (field->unit));
      return FALSE;
    }
  return read_number (field, json, value, &cited->value, error)
         && read_citation (json, item, !table->plain_cited, &cited->grade, &cited->source, error);
}

static gboolean
read_curve (const ScField *field, const ScFieldTable *table, const ScJson *json, const cJSON *item, ScCurve *curve,
            GError **error)
{
  static const char *const keys[] = { "points", "grade", "source", NULL };
  static const ScField x_field = { .kind = SC_FIELD_NUMBER, .min = 1, .max = MAX_CURVE_X };

  if (!cJSON_IsObject (item))
    return fail_found (json, item, error, "an object with \"points\", \"grade\" and \"source\"");
  if (!check_keys (json, item, keys, error))
    return FALSE;
  const cJSON *points = cJSON_GetObjectItemCaseSensitive (item, "points");
  if (points == NULL)
    {
      sc_json_fail (json, item, "points", error, "missing, expected an array of [x, \"%s\"]",
                    sc_unit_example (field->unit));
      return FALSE;
    }
  if (!sc_fields_check_array (json, points, MAX_CURVE_POINTS, error))
    return FALSE;
  const guint n = (guint) cJSON_GetArraySize (points);
  if (n == 0)
    return fail_found (json, points, error, "at least one point");
  curve->x = g_new0 (double, n);
  curve->y = g_new0 (double, n);
  curve->n = n;
  guint i = 0;
  for (const cJSON *point = points->child; point != NULL; point = point->next, i++)
    {
      if (!cJSON_IsArray (point) || cJSON_GetArraySize (point) != 2)
        {
          g_autofree char *expected = g_strdup_printf ("a pair [x, \"%s\"]", sc_unit_example (field->unit));
          return fail_found (json, point, error, expected);
        }
      if (!read_number (&x_field, json, point->child, &curve->x[i], error)
          || !read_number (field, json, point->child->next, &curve->y[i], error))
        return FALSE;
      if (i > 0 && curve->x[i] <= curve->x[i - 1])
        return fail_found (json, point->child, error, "more than in the point before");
    }
  return read_citation (json, item, !table->plain_cited, &curve->grade, &curve->source, error);
}

static gboolean
check_later (const ScField *field, const ScJson *json, const cJSON *item, GError **error)
{
  if (cJSON_IsNull (item) || cJSON_IsFalse (item))
    return TRUE;
  g_autofree char *found = sc_json_found (item);
  if ((field->fallback != NULL && strcmp (field->fallback, found) == 0)
      || (cJSON_IsObject (item) && item->child == NULL))
    return TRUE;
  sc_json_fail (json, item, NULL, error, "found %s, but this key is not modelled yet (leave it out)", found);
  return FALSE;
}

gboolean
sc_fields_read_value (const ScField *field, const ScFieldTable *table, const ScJson *json, const cJSON *item,
                      gpointer base, GError **error)
{
  union
  {
    guint count;
    guint64 count64;
    int choice;
    gboolean boolean;
    double number;
    const char *name;
  } unused;
  gpointer member = field->offset == SC_FIELD_NOWHERE ? (gpointer) &unused : (gpointer) ((char *) base + field->offset);
  double number = 0;

  switch (field->kind)
    {
    case SC_FIELD_BOOL:
      if (!cJSON_IsBool (item))
        return fail_found (json, item, error, "true or false");
      *(gboolean *) member = cJSON_IsTrue (item);
      return TRUE;
    case SC_FIELD_COUNT:
      if (!read_number (field, json, item, &number, error))
        return FALSE;
      *(guint *) member = (guint) number;
      return TRUE;
    case SC_FIELD_COUNT64:
      if (!read_number (field, json, item, &number, error))
        return FALSE;
      *(guint64 *) member = (guint64) number;
      return TRUE;
    case SC_FIELD_NUMBER:
      return read_number (field, json, item, member, error);
    case SC_FIELD_STRING:
      {
        g_autofree char *text = NULL;
        if (!read_text (json, item, &text, error))
          return FALSE;
        if (field->offset != SC_FIELD_NOWHERE)
          {
            g_free (*(char **) member);
            *(char **) member = g_steal_pointer (&text);
          }
        return TRUE;
      }
    case SC_FIELD_CHOICE:
    case SC_FIELD_NAME:
      {
        const ScChoice *choice = read_choice (field->choices, json, item, error);
        if (choice == NULL)
          return FALSE;
        if (field->kind == SC_FIELD_CHOICE)
          *(int *) member = choice->value;
        else
          *(const char **) member = choice->name;
        return TRUE;
      }
    case SC_FIELD_CITED:
      return read_cited (field, table, json, item, member, error);
    case SC_FIELD_CURVE:
      return read_curve (field, table, json, item, member, error);
    case SC_FIELD_OBJECT:
      return sc_fields_check_object (json, item, error) && sc_fields_read (field->table, json, item, base, error);
    case SC_FIELD_OTHER:
      return TRUE;
    case SC_FIELD_LATER:
      return check_later (field, json, item, error);
    default:
      g_return_val_if_reached (FALSE);
    }
}

/* The row's default, read by the same code as a file's value. */
static gboolean
apply_fallback (const ScField *field, const ScJson *json, gpointer base, GError **error)
{
  static const ScFieldTable plain = { .plain_cited = TRUE };
  const gboolean bare =
      field->kind == SC_FIELD_BOOL || field->kind == SC_FIELD_COUNT || field->kind == SC_FIELD_COUNT64
      || ((field->kind == SC_FIELD_NUMBER || field->kind == SC_FIELD_CITED) && field->unit == SC_UNIT_NONE);
  g_autoptr (cJSON) item = bare ? cJSON_Parse (field->fallback) : cJSON_CreateString (field->fallback);
  return sc_fields_read_value (field, &plain, json, item, base, error);
}

/* What the message about a missing key asks for. */
static char *
expected_text (const ScField *field)
{
  switch (field->kind)
    {
    case SC_FIELD_BOOL:
      return g_strdup ("true or false");
    case SC_FIELD_COUNT:
    case SC_FIELD_COUNT64:
      return g_strdup ("a whole number");
    case SC_FIELD_STRING:
      return g_strdup ("a text");
    case SC_FIELD_CHOICE:
    case SC_FIELD_NAME:
      return choices_text (field->choices);
    case SC_FIELD_OBJECT:
      return g_strdup ("an object");
    case SC_FIELD_NUMBER:
    case SC_FIELD_CITED:
      return g_strdup (sc_unit_expected (field->unit));
    case SC_FIELD_CURVE:
      return g_strdup ("a curve");
    case SC_FIELD_OTHER:
    case SC_FIELD_LATER:
    default:
      return g_strdup (field->help);
    }
}

gboolean
sc_fields_read (const ScFieldTable *table, const ScJson *json, const cJSON *object, gpointer base, GError **error)
{
  if (!check_table_keys (table, json, object, error))
    return FALSE;
  for (const ScField *field = table->fields; field->key != NULL; field++)
    {
      const cJSON *item = sc_fields_get (table, object, field->key);
      if (item != NULL)
        {
          if (!sc_fields_read_value (field, table, json, item, base, error))
            return FALSE;
        }
      else if (field->kind == SC_FIELD_LATER || field->derived != NULL)
        continue;
      else if (field->fallback != NULL)
        {
          if (field->offset != SC_FIELD_NOWHERE && !apply_fallback (field, json, base, error))
            return FALSE;
        }
      else
        {
          g_autofree char *expected = expected_text (field);
          sc_json_fail (json, object, field->key, error, "missing, expected %s", expected);
          return FALSE;
        }
    }
  return TRUE;
}

/* ---- Documentation ---- */

char *
sc_field_type_text (const ScField *field)
{
  switch (field->kind)
    {
    case SC_FIELD_BOOL:
      return g_strdup ("true or false");
    case SC_FIELD_COUNT:
    case SC_FIELD_COUNT64:
      return g_strdup ("whole number");
    case SC_FIELD_STRING:
      return g_strdup ("text");
    case SC_FIELD_CHOICE:
    case SC_FIELD_NAME:
      return choices_text (field->choices);
    case SC_FIELD_NUMBER:
    case SC_FIELD_CITED:
    case SC_FIELD_CURVE:
      {
        const char *kind = field->kind == SC_FIELD_CITED ? "cited " : field->kind == SC_FIELD_CURVE ? "curve of " : "";
        if (field->unit == SC_UNIT_NONE)
          return g_strdup_printf ("%s%s", kind, field->whole ? "whole number" : "number");
        return g_strdup_printf ("%s\"%s\"", kind, sc_unit_example (field->unit));
      }
    case SC_FIELD_OBJECT:
      return g_strdup ("object");
    case SC_FIELD_OTHER:
      return g_strdup ("see below");
    case SC_FIELD_LATER:
    default:
      return g_strdup ("not modelled yet");
    }
}

char *
sc_field_default_text (const ScField *field)
{
  if (field->kind == SC_FIELD_LATER)
    return g_strdup ("left out");
  if (field->derived != NULL)
    return g_strdup (field->derived);
  return g_strdup (field->fallback != NULL ? field->fallback : "required");
}
