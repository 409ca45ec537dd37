/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid.c - axes from the command line and from files, and the arithmetic of their points. */
#include "grid.h"
#include "cmd.h"
#include "override.h"
#include <math.h>
#include <string.h>

#define MAX_TEXT 1000000 /* bytes of one --vary */

static void
axis_free (gpointer data)
{
  ScGridAxis *const axis = data;
  for (guint i = 0; i < axis->n_keys * axis->n_values; i++)
    {
      g_free (axis->texts[i]);
      g_free (axis->json[i]);
      g_free (axis->plain[i]);
    }
  g_free (axis->texts);
  g_free (axis->json);
  g_free (axis->plain);
  g_strfreev (axis->keys);
  g_free (axis);
}

ScGrid *
sc_grid_new (void)
{
  ScGrid *const grid = g_new0 (ScGrid, 1);
  grid->axes = g_ptr_array_new_with_free_func (axis_free);
  grid->n_points = 1;
  return grid;
}

void
sc_grid_free (ScGrid *grid)
{
  if (grid == NULL)
    return;
  g_ptr_array_unref (grid->axes);
  g_free (grid);
}

/* ---- Words ---- */

static gboolean G_GNUC_PRINTF (3, 4)
fail (const char *text, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "--vary %s: %s", text, message);
  return FALSE;
}

/* First @separator of @text that is neither in brackets nor in double quotes, or the end. */
static const char *
find_end (const char *text, char separator)
{
  guint depth = 0;
  gboolean quoted = FALSE;
  for (; *text != '\0'; text++)
    if (quoted)
      {
        if (*text == '\\' && text[1] != '\0')
          text++;
        else if (*text == '"')
          quoted = FALSE;
      }
    else if (*text == '"')
      quoted = TRUE;
    else if (*text == '[' || *text == '{')
      depth++;
    else if ((*text == ']' || *text == '}') && depth > 0)
      depth--;
    else if (*text == separator && depth == 0)
      return text;
  return text;
}

/* Parts of @text between @separator: char *, owned. */
static GPtrArray *
split (const char *text, char separator)
{
  GPtrArray *const parts = g_ptr_array_new_with_free_func (g_free);
  for (;;)
    {
      const char *const end = find_end (text, separator);
      g_ptr_array_add (parts, g_strndup (text, (gsize) (end - text)));
      if (*end == '\0')
        return parts;
      text = end + 1;
    }
}

/* ---- Ranges ---- */

static gboolean
read_number (const char *text, double *ret)
{
  char *end;
  *ret = g_ascii_strtod (text, &end);
  return end != text && *end == '\0' && isfinite (*ret) && !g_ascii_isspace (*text);
}

static char *
print_number (double value)
{
  char text[64];
  g_ascii_formatd (text, sizeof text, "%.15g", value);
  return g_strdup (text);
}

/* "a:b", "a:b:+s", "a:b:xk": appends its numbers to @values.  FALSE without an error: it is none. */
static gboolean
add_range (const char *text, const char *word, GPtrArray *values, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (word, ":", 4);
  const guint n = g_strv_length (parts);
  double from, to, by = 1;
  if (n < 2 || n > 3 || !read_number (parts[0], &from) || !read_number (parts[1], &to))
    return FALSE;
  const char kind = n == 3 ? parts[2][0] : '+';
  if (n == 3 && ((kind != '+' && kind != 'x') || !read_number (parts[2] + 1, &by)))
    return fail (text, error, "found \"%s\", expected FROM:TO, FROM:TO:+STEP or FROM:TO:xFACTOR", word);
  if (kind == '+' ? !(by > 0) : !(by > 1 && from > 0))
    return fail (text, error, "found \"%s\", expected a %s", word, kind == '+' ? "step above 0" : "factor above 1 and a start above 0");
  if (from > to)
    return fail (text, error, "found \"%s\", which has no values", word);
  double value = from;
  for (guint i = 0; value <= to * (1 + 1e-12) + (kind == '+' ? by * 1e-9 : 0); i++)
    {
      if (values->len >= SC_GRID_MAX_VALUES)
        return fail (text, error, "found \"%s\" with more than %u values, expected at most that many", word, SC_GRID_MAX_VALUES);
      g_ptr_array_add (values, print_number (value));
      value = kind == '+' ? from + by * (i + 1) : from * pow (by, i + 1);
    }
  return TRUE;
}

/* ---- Axes ---- */

static char *
print_json (const cJSON *value)
{
  char *const printed = cJSON_PrintUnformatted (value);
  char *const copy = g_strdup (printed);
  cJSON_free (printed);
  return copy;
}

/* What is no JSON is a text, as for --set. */
static void
set_text (ScGridAxis *axis, guint i, const char *text)
{
  g_autoptr (cJSON) value = sc_json_parse_value (text, NULL);
  if (value == NULL)
    value = cJSON_CreateString (text);
  axis->json[i] = print_json (value);
  axis->plain[i] = g_strdup (cJSON_IsString (value) ? value->valuestring : axis->json[i]);
  g_autoptr (cJSON) again = sc_json_parse_value (axis->plain[i], NULL);
  axis->texts[i] = g_strdup (again == NULL ? axis->plain[i] : text); /* without quotes where it stays a text */
}

static gboolean
check_keys (const ScGrid *grid, char **keys, const char *text, GError **error)
{
  for (char **key = keys; *key != NULL; key++)
    {
      if (**key == '\0' || strpbrk (*key, "= \t\n\r\"") != NULL)
        return fail (text, error, "found \"%s\" for a key, expected one such as plan.tp", *key);
      for (char **other = keys; other < key; other++)
        if (strcmp (*key, *other) == 0)
          return fail (text, error, "found %s twice, expected once", *key);
      for (guint i = 0; i < grid->axes->len; i++)
        if (g_strv_contains ((const char *const *) ((const ScGridAxis *) g_ptr_array_index (grid->axes, i))->keys, *key))
          return fail (text, error, "found %s in two of them, expected once", *key);
    }
  return TRUE;
}

/* Two alike values would be two points that are one. */
static gboolean
check_distinct (const ScGridAxis *axis, const char *text, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < axis->n_values; i++)
    {
      g_autoptr (GString) all = g_string_new (NULL);
      for (guint k = 0; k < axis->n_keys; k++)
        g_string_append_printf (all, "%s%s", k > 0 ? "," : "", axis->json[i * axis->n_keys + k]);
      if (g_hash_table_contains (seen, all->str))
        return fail (text, error, "found %s twice, expected it once", all->str);
      g_hash_table_add (seen, g_strdup (all->str));
    }
  return TRUE;
}

/* @values: n_keys for each value, in order; its texts are taken. */
static gboolean
add_axis (ScGrid *grid, char **keys, GPtrArray *values, const char *text, GError **error)
{
  ScGridAxis *const axis = g_new0 (ScGridAxis, 1);
  axis->keys = g_strdupv (keys);
  axis->n_keys = g_strv_length (keys);
  axis->n_values = values->len / axis->n_keys;
  axis->texts = g_new0 (char *, values->len);
  axis->json = g_new0 (char *, values->len);
  axis->plain = g_new0 (char *, values->len);
  for (guint i = 0; i < values->len; i++)
    set_text (axis, i, g_ptr_array_index (values, i));
  for (char **key = keys; *key != NULL; key++)
    {
      g_autofree char *as_set = g_strconcat (*key, "=", NULL);
      axis->topology |= sc_override_is_topology (as_set);
    }
  if (!check_distinct (axis, text, error))
    {
      axis_free (axis);
      return FALSE;
    }
  g_ptr_array_add (grid->axes, axis);
  if ((double) grid->n_points * axis->n_values > SC_GRID_MAX_POINTS)
    return fail (text, error, "found a grid of more than %g points, expected at most that many", SC_GRID_MAX_POINTS);
  grid->n_points *= axis->n_values;
  return TRUE;
}

static gboolean
add_words (const char *words, guint n_keys, GPtrArray *values, const char *text, GError **error)
{
  g_autoptr (GPtrArray) list = split (words, ',');
  if (n_keys > 1 && list->len != n_keys)
    return fail (text, error, "found %u values in \"%s\", expected one for each of %u keys", list->len, words, n_keys);
  for (guint i = 0; i < list->len; i++)
    {
      const char *const word = g_ptr_array_index (list, i);
      g_autoptr (GError) why = NULL;
      if (*word == '\0')
        return fail (text, error, "found an empty value");
      if (n_keys == 1 && add_range (text, word, values, &why))
        continue;
      if (why != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&why));
          return FALSE;
        }
      if (values->len >= SC_GRID_MAX_VALUES * n_keys)
        return fail (text, error, "found more than %u values, expected at most that many", SC_GRID_MAX_VALUES);
      g_ptr_array_add (values, g_strdup (word));
    }
  return TRUE;
}

/* @keys and @words as --vary has them before and after "=". */
static gboolean
add_text (ScGrid *grid, const char *keys, const char *words, const char *text, GError **error)
{
  g_auto (GStrv) names = g_strsplit (keys, ",", -1);
  const guint n_keys = g_strv_length (names);
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  if (grid->axes->len == SC_GRID_MAX_AXES)
    return fail (text, error, "found more than %u axes, expected at most that many", SC_GRID_MAX_AXES);
  if (!check_keys (grid, names, text, error))
    return FALSE;
  g_autoptr (GPtrArray) groups = n_keys > 1 ? split (words, '/') : NULL;
  for (guint i = 0; i < (groups != NULL ? groups->len : 1); i++)
    if (!add_words (groups != NULL ? g_ptr_array_index (groups, i) : words, n_keys, values, text, error))
      return FALSE;
  return add_axis (grid, names, values, text, error);
}

gboolean
sc_grid_add (ScGrid *grid, const char *text, GError **error)
{
  if (strlen (text) > MAX_TEXT)
    return fail ("...", error, "found more than %u bytes, expected at most that many", MAX_TEXT);
  if (!g_utf8_validate (text, -1, NULL))
    return fail (text, error, "found invalid UTF-8, expected KEY=VALUE,VALUE,...");
  const char *const equals = strchr (text, '=');
  if (equals == NULL || equals == text || equals[1] == '\0')
    return fail (text, error, "expected KEY=VALUE,VALUE,..., such as plan.tp=1,2,4 or plan.pp=1:16:x2");
  g_autofree char *keys = g_strndup (text, (gsize) (equals - text));
  return add_text (grid, keys, equals + 1, text, error);
}

/* ---- Files ---- */

static gboolean
add_json_values (ScGrid *grid, const ScJson *json, const cJSON *array, GError **error)
{
  g_auto (GStrv) keys = g_strsplit (array->string, ",", -1);
  const int n_keys = (int) g_strv_length (keys);
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  if (cJSON_GetArraySize (array) == 0 || (guint) cJSON_GetArraySize (array) > SC_GRID_MAX_VALUES)
    {
      sc_json_fail (json, array, NULL, error, "found %d values, expected 1 to %u", cJSON_GetArraySize (array), SC_GRID_MAX_VALUES);
      return FALSE;
    }
  for (const cJSON *value = array->child; value != NULL; value = value->next)
    {
      if (n_keys > 1 && (!cJSON_IsArray (value) || cJSON_GetArraySize (value) != n_keys))
        {
          g_autofree char *found = sc_json_found (value);
          sc_json_fail (json, value, NULL, error, "found %s, expected an array of %d values, one for each key", found, n_keys);
          return FALSE;
        }
      for (const cJSON *one = n_keys > 1 ? value->child : value; one != NULL; one = n_keys > 1 ? one->next : NULL)
        g_ptr_array_add (values, print_json (one));
    }
  return check_keys (grid, keys, array->string, error) && add_axis (grid, keys, values, array->string, error);
}

gboolean
sc_grid_add_json (ScGrid *grid, const ScJson *json, const cJSON *array, GError **error)
{
  if (!cJSON_IsArray (array) || cJSON_GetArraySize (array) > SC_GRID_MAX_AXES)
    {
      g_autofree char *found = sc_json_found (array);
      sc_json_fail (json, array, NULL, error, "found %s, expected an array of at most %u objects such as {\"plan.tp\": [1, 2]}", found, SC_GRID_MAX_AXES);
      return FALSE;
    }
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    {
      const cJSON *const member = cJSON_IsObject (item) ? item->child : NULL;
      if (member == NULL || member->next != NULL || !(cJSON_IsArray (member) || cJSON_IsString (member)))
        {
          g_autofree char *found = sc_json_found (item);
          sc_json_fail (json, item, NULL, error, "found %s, expected an object of one KEY: [VALUES] or KEY: \"VALUES\"", found);
          return FALSE;
        }
      g_autofree char *text = cJSON_IsString (member) ? g_strdup_printf ("%s=%s", member->string, member->valuestring) : NULL;
      g_autoptr (GError) why = NULL;
      if (text != NULL ? sc_grid_add (grid, text, &why) : add_json_values (grid, json, member, &why))
        continue;
      if (why->domain == SC_CMD_ERROR)
        sc_json_fail (json, item, NULL, error, "%s", why->message + strlen ("--vary "));
      else
        g_propagate_error (error, g_steal_pointer (&why));
      return FALSE;
    }
  return TRUE;
}

/* ---- Points ---- */

static const ScGridAxis *
axis_at (const ScGrid *grid, guint i)
{
  return g_ptr_array_index (grid->axes, i);
}

void
sc_grid_choose (const ScGrid *grid, guint64 point, guint *ret_value)
{
  g_return_if_fail (point < grid->n_points);
  for (guint i = grid->axes->len; i-- > 0;)
    {
      const guint n = axis_at (grid, i)->n_values;
      ret_value[i] = (guint) (point % n);
      point /= n;
    }
}

char **
sc_grid_set (const ScGrid *grid, guint64 point)
{
  guint value[SC_GRID_MAX_AXES];
  sc_grid_choose (grid, point, value);
  g_autoptr (GPtrArray) set = g_ptr_array_new ();
  for (guint i = 0; i < grid->axes->len; i++)
    {
      const ScGridAxis *const axis = axis_at (grid, i);
      for (guint k = 0; k < axis->n_keys; k++)
        g_ptr_array_add (set, g_strconcat (axis->keys[k], "=", axis->texts[value[i] * axis->n_keys + k], NULL));
    }
  g_ptr_array_add (set, NULL);
  return (char **) g_ptr_array_free (g_steal_pointer (&set), FALSE);
}

guint64
sc_grid_topology (const ScGrid *grid, guint64 point)
{
  guint value[SC_GRID_MAX_AXES];
  guint64 number = 0;
  sc_grid_choose (grid, point, value);
  for (guint i = 0; i < grid->axes->len; i++)
    if (axis_at (grid, i)->topology)
      number = number * axis_at (grid, i)->n_values + value[i];
  return number;
}
