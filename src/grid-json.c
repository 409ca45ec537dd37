/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-json.c - reads sweep files. */
#include "grid-json.h"
#include "library.h"

#define MAX_OVERRIDES 256

static const ScField fields[] = {
  { "name", SC_FIELD_STRING, .derived = "none", .offset = SC_FIELD_NOWHERE, .help = "What it is for, for people" },
  { "topology", SC_FIELD_STRING, .offset = offsetof (ScGridSpec, topology), .help = "Topology: a file, beside this one or by its path, or a shipped one's name" },
  { "workload", SC_FIELD_STRING, .offset = offsetof (ScGridSpec, workload), .help = "Workload, likewise" },
  { "set", SC_FIELD_OTHER, .derived = "none", .help = "an object of overrides of all points, KEY: VALUE as for --set" },
  { "vary", SC_FIELD_OTHER, .help = "an array of axes, the last one fastest: {KEY: [VALUE, ...]}, {KEY: \"1:16:x2\"} or {\"KEY,KEY\": [[VALUE, VALUE], ...]}" },
  { "detail", SC_FIELD_STRING, .derived = "stage", .offset = offsetof (ScGridSpec, detail), .help = "How finely points are simulated: kernel, layer or stage" },
  { .key = NULL },
};
const ScFieldTable sc_grid_table = { .title = "sweep file", .fields = fields };

void
sc_grid_spec_clear (ScGridSpec *spec)
{
  g_clear_pointer (&spec->topology, g_free);
  g_clear_pointer (&spec->workload, g_free);
  g_clear_pointer (&spec->detail, g_free);
  g_clear_pointer (&spec->set, g_strfreev);
  g_clear_pointer (&spec->grid, sc_grid_free);
}

static gboolean
read_set (const ScJson *json, const cJSON *object, char ***ret, GError **error)
{
  if (object == NULL)
    return TRUE;
  if (!sc_fields_check_object (json, object, error))
    return FALSE;
  if (cJSON_GetArraySize (object) > MAX_OVERRIDES)
    {
      sc_json_fail (json, object, NULL, error, "found %d overrides, expected at most %u", cJSON_GetArraySize (object), MAX_OVERRIDES);
      return FALSE;
    }
  g_autoptr (GPtrArray) set = g_ptr_array_new_with_free_func (g_free);
  for (const cJSON *value = object->child; value != NULL; value = value->next)
    {
      char *const text = cJSON_PrintUnformatted (value);
      g_ptr_array_add (set, g_strdup_printf ("%s=%s", value->string, text));
      cJSON_free (text);
    }
  g_ptr_array_add (set, NULL);
  *ret = (char **) g_ptr_array_free (g_steal_pointer (&set), FALSE);
  return TRUE;
}

/* What lies beside the file is meant; anything else is a path or a name as on the command line. */
static void
find_beside (const ScJson *json, char **name)
{
  g_autofree char *folder = g_path_get_dirname (json->file);
  g_autofree char *beside = g_build_filename (folder, *name, NULL);
  if (!g_path_is_absolute (*name) && strcmp (folder, ".") != 0 && g_file_test (beside, G_FILE_TEST_EXISTS))
    {
      g_free (*name);
      *name = g_steal_pointer (&beside);
    }
}

gboolean
sc_grid_spec_load (const char *argument, ScGridSpec *ret, GError **error)
{
  gsize length = 0;
  g_autofree char *text = sc_library_read_file (argument, "a sweep file", SC_LIBRARY_MAX_BYTES, &length, error);
  g_autoptr (ScJson) json = text != NULL ? sc_json_parse (argument, text, length, error) : NULL;
  g_auto (ScGridSpec) spec = { .grid = sc_grid_new () };
  if (json == NULL || !sc_fields_read (&sc_grid_table, json, json->root, &spec, error)
      || !read_set (json, sc_fields_get (&sc_grid_table, json->root, "set"), &spec.set, error))
    return FALSE;
  const cJSON *const vary = sc_fields_get (&sc_grid_table, json->root, "vary");
  if (vary == NULL)
    {
      sc_json_fail (json, json->root, "vary", error, "missing, expected an array of objects such as {\"plan.tp\": [1, 2]}");
      return FALSE;
    }
  if (!sc_grid_add_json (spec.grid, json, vary, error))
    return FALSE;
  find_beside (json, &spec.topology);
  find_beside (json, &spec.workload);
  *ret = spec;
  spec = (ScGridSpec) { .topology = NULL };
  return TRUE;
}
