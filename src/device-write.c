/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device-write.c - writes device files by the table that reads them. */
#include "device-write.h"
#include "device-json.h"
#include "samples-json.h"
#include <string.h>

#define BETWEEN_POINTS 3 /* on a line of a curve */

static void
append_text (GString *out, const char *text)
{
  g_autoptr (cJSON) item = cJSON_CreateString (text);
  char *const quoted = cJSON_PrintUnformatted (item);
  g_string_append (out, quoted);
  cJSON_free (quoted);
}

/* A plain number, or a text with its unit. */
static void
append_value (GString *out, double value, ScUnit unit)
{
  g_autofree char *text = sc_unit_format (value, unit);
  if (unit == SC_UNIT_NONE)
    g_string_append (out, text);
  else
    append_text (out, text);
}

static void
append_provenance (GString *out, ScGrade grade, const char *source, const char *indent)
{
  g_string_append_printf (out, "\"grade\": \"%s\"", sc_grade_name (grade));
  if (source == NULL)
    return;
  g_string_append_printf (out, ",\n%s\"source\": ", indent);
  append_text (out, source);
}

static void
append_curve (GString *out, const ScCurve *curve, ScUnit unit, const char *indent)
{
  g_string_append_printf (out, "{\n%s\"points\": [", indent);
  for (guint i = 0; i < curve->n; i++)
    {
      if (i % BETWEEN_POINTS == 0)
        g_string_append_printf (out, "%s\n%s  ", i > 0 ? "," : "", indent);
      else
        g_string_append (out, ", ");
      g_string_append_c (out, '[');
      append_value (out, curve->x[i], SC_UNIT_NONE);
      g_string_append (out, ", ");
      append_value (out, curve->y[i], unit);
      g_string_append_c (out, ']');
    }
  g_string_append_printf (out, "\n%s],\n%s", indent, indent);
  append_provenance (out, curve->grade, curve->source, indent);
  g_string_append_printf (out, "\n%.*s}", (int) strlen (indent) - 2, indent);
}

static void
append_aliases (GString *out, char **aliases)
{
  g_string_append_c (out, '[');
  for (guint i = 0; aliases[i] != NULL; i++)
    {
      g_string_append (out, i > 0 ? ", " : "");
      append_text (out, aliases[i]);
    }
  g_string_append_c (out, ']');
}

static void
append_tables (GString *out, const GPtrArray *tables)
{
  g_string_append_c (out, '[');
  for (guint i = 0; i < tables->len; i++)
    {
      g_string_append (out, i > 0 ? ",\n" : "\n");
      sc_samples_write (g_ptr_array_index (tables, i), out);
    }
  g_string_append (out, "\n]");
}

/* What stands behind the key of @field, which begins at @indent; FALSE and nothing where the device has no such thing. */
static gboolean
append_field (GString *out, const ScField *field, const ScDevice *device, const char *indent);

static void
append_object (GString *out, const ScFieldTable *table, const ScDevice *device, const char *indent)
{ /* @indent: of its keys */
  gboolean first = TRUE;
  g_string_append_c (out, '{');
  for (const ScField *field = table->fields; field->key != NULL; field++)
    {
      g_autoptr (GString) value = g_string_new (NULL);
      if (!append_field (value, field, device, indent))
        continue;
      g_string_append_printf (out, "%s\n%s\"%s\": %s", first ? "" : ",", indent, field->key, value->str);
      first = FALSE;
    }
  g_string_append_printf (out, "\n%.*s}", (int) strlen (indent) - 2, indent);
}

static gboolean
append_field (GString *out, const ScField *field, const ScDevice *device, const char *indent)
{
  const void *const member = (const char *) device + field->offset;
  g_autofree char *deeper = g_strdup_printf ("%s  ", indent);
  switch (field->kind)
    {
    case SC_FIELD_STRING:
      {
        const char *const text = *(char *const *) member;
        if (text == NULL)
          return FALSE;
        append_text (out, text);
        return TRUE;
      }
    case SC_FIELD_CITED:
      {
        const ScCited *const cited = member;
        if (field->derived != NULL && cited->value <= 0)
          return FALSE;
        g_string_append (out, "{ \"value\": ");
        append_value (out, cited->value, field->unit);
        g_string_append (out, ", ");
        append_provenance (out, cited->grade, cited->source, deeper);
        g_string_append (out, " }");
        return TRUE;
      }
    case SC_FIELD_CURVE:
      {
        const ScCurve *const curve = member;
        if (curve->n == 0)
          return FALSE;
        append_curve (out, curve, field->unit, deeper);
        return TRUE;
      }
    case SC_FIELD_OBJECT: append_object (out, field->table, device, deeper); return TRUE;
    case SC_FIELD_OTHER:
      if (strcmp (field->key, "aliases") == 0 && device->aliases != NULL && device->aliases[0] != NULL)
        append_aliases (out, device->aliases);
      else if (strcmp (field->key, "samples") == 0 && device->tables != NULL && device->tables->len > 0)
        append_tables (out, device->tables);
      else
        return FALSE;
      return TRUE;
    case SC_FIELD_BOOL:
    case SC_FIELD_COUNT:
    case SC_FIELD_COUNT64:
    case SC_FIELD_NUMBER:
    case SC_FIELD_CHOICE:
    case SC_FIELD_NAME:
    case SC_FIELD_LATER:
    default: g_return_val_if_reached (FALSE); /* devices have none of these */
    }
}

static void
append_comment (GString *out, const char *comment)
{
  if (comment == NULL)
    return;
  g_string_append (out, "  \"comment\": ");
  append_text (out, comment);
  g_string_append (out, ",\n");
}

void
sc_device_write (const ScDevice *device, const char *comment, GString *out)
{
  g_autoptr (GString) object = g_string_new (NULL);
  append_object (object, &sc_device_table, device, "  ");
  g_string_append (out, "{\n");
  append_comment (out, comment);
  g_string_append (out, object->str + strlen ("{\n"));
  g_string_append_c (out, '\n');
}

void
sc_device_write_samples (const GPtrArray *tables, const char *comment, GString *out)
{
  g_string_append (out, "{\n");
  append_comment (out, comment);
  g_string_append (out, "  \"samples\": ");
  append_tables (out, tables);
  g_string_append (out, "\n}\n");
}
