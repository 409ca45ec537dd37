/* SPDX-License-Identifier: GPL-3.0-or-later */
/* documents-json.c - a histogram of lengths, or a text file with one in each line. */
#include "documents-json.h"
#include "library.h"
#include "workload-json.h"
#include <string.h>

#define MAX_BYTES (64u << 20)
#define MAX_ROWS 100000
#define MAX_COUNT 1e12

static ScDocuments *
read_histogram (const ScJson *json, const cJSON *array, guint seq, GError **error)
{
  static const ScField length = { .key = "length", .kind = SC_FIELD_COUNT, .min = 1, .max = 10000000 };
  static const ScField count = { .key = "count", .kind = SC_FIELD_COUNT64, .min = 1, .max = MAX_COUNT };

  if (!sc_fields_check_array (json, array, MAX_ROWS, error))
    return NULL;
  g_autoptr (ScDocuments) d = g_new0 (ScDocuments, 1);
  d->n = (guint) cJSON_GetArraySize (array);
  if (d->n == 0)
    {
      sc_json_fail (json, array, NULL, error, "found an empty array, expected at least one [length, count]");
      return NULL;
    }
  d->lengths = g_new0 (guint, d->n);
  d->counts = g_new0 (guint64, d->n);
  guint i = 0;
  for (const cJSON *row = array->child; row != NULL; row = row->next, i++)
    {
      if (!cJSON_IsArray (row) || cJSON_GetArraySize (row) != 2)
        {
          g_autofree char *found = sc_json_found (row);
          sc_json_fail (json, row, NULL, error, "found %s, expected [length, count]", found);
          return NULL;
        }
      if (!sc_fields_read_value (&length, &sc_workload_table, json, row->child, &d->lengths[i], error)
          || !sc_fields_read_value (&count, &sc_workload_table, json, row->child->next, &d->counts[i], error))
        return NULL;
      if (d->lengths[i] > seq)
        {
          sc_json_fail (json, row->child, NULL, error, "found %u, expected at most seq %u: cut longer documents first", d->lengths[i], seq);
          return NULL;
        }
    }
  return g_steal_pointer (&d);
}

/* One line; *ret 0: none. */
static gboolean
read_line (const char *line, guint number, guint seq, guint *ret, GError **error)
{
  *ret = 0;
  if (line[0] == '\0' || line[0] == '#')
    return TRUE;
  guint64 length;
  if (g_ascii_string_to_unsigned (line, 10, 1, G_MAXUINT, &length, NULL) && length <= seq)
    {
      *ret = (guint) length;
      return TRUE;
    }
  g_autofree char *shown = g_strndup (line, 40);
  g_autofree char *printable = g_strescape (shown, NULL);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "line %u: found \"%s\", expected a length of 1 to seq %u tokens", number, printable, seq);
  return FALSE;
}

ScDocuments *
sc_documents_parse (const char *text, guint seq, GError **error)
{
  GArray *const lengths = g_array_new (FALSE, FALSE, sizeof (guint));
  gboolean good = TRUE;
  guint number = 0;
  for (const char *at = text; good && *at != '\0';)
    {
      const gsize n = strcspn (at, "\n");
      g_autofree char *line = g_strstrip (g_strndup (at, n));
      guint length;
      good = read_line (line, ++number, seq, &length, error);
      if (good && length > 0)
        g_array_append_val (lengths, length);
      at += n + (at[n] == '\n' ? 1 : 0);
    }
  if (good && lengths->len == 0)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "found no length, expected one in each line");
      good = FALSE;
    }
  if (!good)
    {
      g_array_unref (lengths);
      return NULL;
    }
  ScDocuments *const d = g_new0 (ScDocuments, 1);
  d->n = lengths->len;
  d->lengths = (guint *) (gpointer) g_array_free (lengths, FALSE);
  return d;
}

static ScDocuments *
read_file (const char *path, guint seq, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "lengths of documents", MAX_BYTES, &length, error);
  if (text == NULL)
    return NULL;
  ScDocuments *d = NULL;
  if (strlen (text) != length)
    g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "found a NUL byte, expected text");
  else
    d = sc_documents_parse (text, seq, error);
  if (d == NULL)
    g_prefix_error (error, "%s: ", path);
  return d;
}

ScDocuments *
sc_documents_read (const ScJson *json, const cJSON *item, guint seq, gboolean here, GPtrArray *files, GError **error)
{
  static const ScField path_field = { .key = "seq_lengths", .kind = SC_FIELD_STRING };

  if (cJSON_IsArray (item))
    return read_histogram (json, item, seq, error);
  if (!cJSON_IsString (item))
    {
      g_autofree char *found = sc_json_found (item);
      sc_json_fail (json, item, NULL, error, "found %s, expected an array of [length, count] or the path of a file", found);
      return NULL;
    }
  g_autofree char *path = NULL;
  if (!sc_fields_read_value (&path_field, &sc_workload_table, json, item, &path, error))
    return NULL;
  g_autofree char *folder = g_path_get_dirname (json->file);
  const gboolean plain = here || g_path_is_absolute (path) || strcmp (folder, ".") == 0;
  g_autofree char *full = plain ? g_strdup (path) : g_build_filename (folder, path, NULL);
  ScDocuments *const d = read_file (full, seq, error);
  g_ptr_array_add (files, g_steal_pointer (&full));
  if (d == NULL)
    g_prefix_error (error, "%s: /seq_lengths: ", json->file);
  return d;
}
