/* SPDX-License-Identifier: GPL-3.0-or-later */
/* override.c - --set KEY=VALUE: changes in the JSON tree before it is read. */
#include "override.h"
#include "workload-json.h"
#include <string.h>

#define TOPOLOGY_PREFIX "topology."
#define DEVICE_PREFIX "device." /* a key of the topology, but short to write */
#define MAX_OVERRIDE_LENGTH 100000

static gboolean G_GNUC_PRINTF (3, 4) fail (const char *text, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_OVERRIDE, "--set %s: %s", text, message);
  return FALSE;
}

static gboolean
check_text (const char *text, GError **error)
{
  if (strlen (text) > MAX_OVERRIDE_LENGTH)
    return fail ("...", error, "found more than %u bytes, expected at most that many", MAX_OVERRIDE_LENGTH);
  if (!g_utf8_validate (text, -1, NULL))
    return fail (text, error, "found invalid UTF-8, expected KEY=VALUE");
  const char *equals = strchr (text, '=');
  if (equals == NULL || equals == text)
    return fail (text, error, "expected KEY=VALUE, such as plan.tp=4");
  return TRUE;
}

/* The first name of @text must be one that somebody reads. */
static gboolean
check_first_name (const char *text, GError **error)
{
  const gsize length = strcspn (text, ".=");
  g_autofree char *name = g_strndup (text, length);
  g_autoptr (GPtrArray) known = g_ptr_array_new ();
  for (const ScField *field = sc_workload_table.fields; field->key != NULL; field++)
    g_ptr_array_add (known, (gpointer) (gsize) field->key);
  g_ptr_array_add (known, (gpointer) (gsize) "topology");
  g_ptr_array_add (known, (gpointer) (gsize) "device");
  g_ptr_array_add (known, NULL);
  if (strcmp (name, "topology") == 0)
    return text[length] == '.' ? TRUE : fail (text, error, "expected a key of the topology, such as topology.nodes");
  if (strcmp (name, "device") == 0)
    return text[length] == '.' ? TRUE : fail (text, error, "expected device.clocks or a what-if, such as device.scale.hbm=2");
  if (g_strv_contains ((const char *const *) known->pdata, name))
    return TRUE;
  const char *nearest = sc_nearest (name, (const char *const *) known->pdata);
  if (nearest != NULL)
    return fail (text, error, "unknown key \"%s\", did you mean \"%s\"?", name, nearest);
  return fail (text, error, "unknown key \"%s\", expected seq, plan.KEY, model.KEY, software.KEY, topology.KEY or device.KEY",
               name);
}

/* Member of @object that @path begins with; the longest, as names may contain dots. */
static cJSON *
find_member (const cJSON *object, const char *path)
{
  cJSON *best = NULL;
  gsize best_length = 0;
  for (cJSON *item = object->child; item != NULL; item = item->next)
    {
      const gsize length = strlen (item->string);
      if (strncmp (path, item->string, length) == 0 && (path[length] == '\0' || path[length] == '.')
          && (best == NULL || length > best_length))
        {
          best = item;
          best_length = length;
        }
    }
  return best;
}

static void
note (ScJson *json, const cJSON *item, const char *text)
{
  g_autofree char *pointer = sc_json_pointer (json, item, NULL);
  sc_json_note_override (json, pointer, text);
}

/* The element of @array that @path begins with. */
static cJSON *
find_element (const ScJson *json, const cJSON *array, const char *path, gsize length, const char *text, GError **error)
{
  g_autofree char *digits = g_strndup (path, length);
  guint64 index = 0;
  const int n = cJSON_GetArraySize (array);
  if (g_ascii_string_to_unsigned (digits, 10, 0, G_MAXINT, &index, NULL) && index < (guint64) n)
    return cJSON_GetArrayItem (array, (int) index);
  g_autofree char *pointer = sc_json_pointer (json, array, NULL);
  fail (text, error, "%s: %s has %d elements, expected an index from 0 in place of \"%s\"", json->file, pointer, n,
        digits);
  return NULL;
}

/* Puts @value (taken) at @path below the root, making objects on the way. */
static gboolean
set_value (ScJson *json, const char *path, cJSON *value, const char *text, GError **error)
{
  g_autoptr (cJSON) owned = value;
  cJSON *at = json->root;
  for (guint depth = 0; depth < SC_JSON_MAX_DEPTH; depth++)
    {
      cJSON *next = NULL;
      gsize length = strcspn (path, ".");
      if (length == 0)
        return fail (text, error, "found an empty name, expected names joined by single dots");
      if (cJSON_IsObject (at))
        {
          next = find_member (at, path);
          length = next != NULL ? strlen (next->string) : length;
        }
      else if (cJSON_IsArray (at))
        {
          next = find_element (json, at, path, length, text, error);
          if (next == NULL)
            return FALSE;
        }
      else
        {
          g_autofree char *pointer = sc_json_pointer (json, at, NULL);
          g_autofree char *found = sc_json_found (at);
          return fail (text, error, "%s: %s is %s and has no keys", json->file, pointer, found);
        }

      const gboolean last = path[length] == '\0';
      if (next == NULL)
        {
          g_autofree char *name = g_strndup (path, length);
          next = last ? g_steal_pointer (&owned) : cJSON_CreateObject ();
          cJSON_AddItemToObject (at, name, next);
          note (json, next, text);
        }
      else if (last)
        {
          cJSON *item = g_steal_pointer (&owned);
          if (cJSON_IsObject (at))
            {
              g_autofree char *name = g_strdup (next->string); /* dies with the item that it names */
              cJSON_ReplaceItemInObjectCaseSensitive (at, name, item);
            }
          else
            cJSON_ReplaceItemViaPointer (at, next, item);
          note (json, item, text);
        }
      if (last)
        return TRUE;
      at = next;
      path += length + 1;
    }
  return fail (text, error, "found more than %u names, expected at most that many", SC_JSON_MAX_DEPTH);
}

/* topology.nodes=16: the count of the only run. */
static gboolean
set_nodes (ScJson *json, cJSON *value, const char *text, GError **error)
{
  const cJSON *nodes = cJSON_GetObjectItemCaseSensitive (json->root, "nodes");
  const int n = cJSON_IsArray (nodes) ? cJSON_GetArraySize (nodes) : 0;
  if (n == 1)
    return set_value (json, "nodes.0.count", value, text, error);
  cJSON_Delete (value);
  return fail (text, error, "%s: /nodes has %d runs of nodes, expected one (try topology.nodes.0.count)", json->file,
               n);
}

static gboolean
apply_one (ScJson *json, const char *text, GError **error)
{
  const char *equals = strchr (text, '=');
  g_autofree char *path = g_strndup (text, (gsize) (equals - text));
  const char *below = g_str_has_prefix (path, TOPOLOGY_PREFIX) ? path + strlen (TOPOLOGY_PREFIX) : path;
  cJSON *value = sc_json_parse_value (equals + 1, NULL);
  if (value == NULL)
    value = cJSON_CreateString (equals + 1);
  if (below != path && strcmp (below, "nodes") == 0 && cJSON_IsNumber (value))
    return set_nodes (json, value, text, error);
  return set_value (json, below, value, text, error);
}

gboolean
sc_override_is_topology (const char *text)
{
  return g_str_has_prefix (text, TOPOLOGY_PREFIX) || g_str_has_prefix (text, DEVICE_PREFIX);
}

gboolean
sc_override_apply (ScJson *json, ScOverrideTarget target, char **set, GError **error)
{
  gboolean changed = FALSE;
  for (; set != NULL && *set != NULL; set++)
    {
      if (!check_text (*set, error) || !check_first_name (*set, error))
        return FALSE;
      const gboolean topology = sc_override_is_topology (*set);
      if (topology != (target == SC_OVERRIDE_TOPOLOGY))
        continue;
      if (!apply_one (json, *set, error))
        return FALSE;
      changed = TRUE;
    }
  return !changed || sc_json_check (json, error);
}
