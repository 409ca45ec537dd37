/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep-json.c - reads measured sweeps, a line each. */
#include "sweep-json.h"
#include "library.h"
#include <math.h>
#include <string.h>

#define MAX_SWEEPS 20000
#define MAX_ROWS 20000
#define MAX_GPUS 1000000
#define MAX_BYTES 1e15
#define MIN_TIME_US 1e-3
#define MAX_TIME_US 1e12
#define MAX_OVERRIDES 64

void
sc_sweep_free (ScSweep *s)
{
  if (s == NULL)
    return;
  g_free (s->id);
  g_free (s->source);
  g_free (s->collective);
  g_free (s->gpu);
  g_free (s->fabric);
  g_free (s->nccl);
  g_free (s->algo);
  g_free (s->note);
  g_free (s->topology);
  g_strfreev (s->set);
  g_free (s->rows);
  g_free (s);
}

static const ScChoice uses[] = {
  { "unsaid", SC_USE_UNSAID, FALSE }, { "fit", SC_USE_FIT, FALSE }, { "check", SC_USE_CHECK, FALSE }, { .name = NULL },
};

#define TEXT(member) SC_FIELD_STRING, .offset = offsetof (ScSweep, member)
static const ScField sweep_fields[] = {
  { "id", TEXT (id), .derived = "the line", .help = "Unique name" },
  { "source", TEXT (source), .derived = "not stated", .help = "Where it was published" },
  { "collective", TEXT (collective), .help = "Name as of nccl-tests: all_reduce, all_gather, alltoall, ..." },
  { "gpu", TEXT (gpu), .help = "GPU, in words" },
  { "gpus", SC_FIELD_COUNT, .min = 1, .max = MAX_GPUS, .offset = offsetof (ScSweep, gpus), .help = "Ranks, one GPU each" },
  { "nodes", SC_FIELD_COUNT, .min = 1, .max = MAX_GPUS, .fallback = "1", .offset = offsetof (ScSweep, nodes),
    .help = "Nodes that they are spread over" },
  { "gpus_per_node", SC_FIELD_COUNT, .min = 1, .max = MAX_GPUS, .derived = "gpus / nodes",
    .offset = offsetof (ScSweep, gpus_per_node), .help = "Of them in each node" },
  { "fabric", TEXT (fabric), .derived = "not stated", .help = "Links, switches and NICs, in words" },
  { "nccl", TEXT (nccl), .derived = "by GPU", .help = "Version of NCCL" },
  { "algo", TEXT (algo), .derived = "the library's choice", .help = "Algorithm or protocol that was forced" },
  { "note", TEXT (note), .derived = "none", .help = "What else matters" },
  { "launch_us", SC_FIELD_NUMBER, .min = 0, .max = 1e6, .fallback = "0", .offset = offsetof (ScSweep, launch_us),
    .help = "Microseconds that the measuring program needs for the shortest call; 0: estimated from the smallest rows" },
  { "use", SC_FIELD_CHOICE, .choices = uses, .fallback = "unsaid", .offset = offsetof (ScSweep, use),
    .help = "Whether constants of the model were fitted to it" },
  { "topology", TEXT (topology), .derived = "by the words of gpu and fabric", .help = "Topology, by name or path" },
  { "set", SC_FIELD_OTHER, .derived = "none", .help = "Overrides of the topology, an object of KEY: VALUE" },
  { "rows", SC_FIELD_OTHER, .help = "an array of [bytes, microseconds] or [bytes, microseconds, algbw, busbw]" },
  { .key = NULL },
};
const ScFieldTable sc_sweep_table = { .title = "sweep: a line", .fields = sweep_fields, .null_is_absent = TRUE };

/* Keys of the published form that say nothing we need. */
static const char *const known_ignored[] = { "dtype", "quality", "max_busbw", "comment", NULL };

/* Takes out of @object what is not for us: keys of others, null, and texts that say nothing. */
static void
prune (cJSON *object, GPtrArray *ignored)
{
  cJSON *next = NULL;
  for (cJSON *item = object->child; item != NULL; item = next)
    {
      next = item->next;
      const ScField *field = sweep_fields;
      while (field->key != NULL && strcmp (field->key, item->string) != 0)
        field++;
      const gboolean known = field->key != NULL || g_strv_contains (known_ignored, item->string);
      if (!known && !g_ptr_array_find_with_equal_func (ignored, item->string, g_str_equal, NULL))
        g_ptr_array_add (ignored, g_strdup (item->string));
      if (field->key == NULL || cJSON_IsNull (item) || (cJSON_IsString (item) && item->valuestring[0] == '\0'))
        cJSON_Delete (cJSON_DetachItemViaPointer (object, item));
    }
}

char **
sc_overrides_from_json (const ScJson *json, const cJSON *item, GError **error)
{
  if (!sc_fields_check_object (json, item, error))
    return NULL;
  if (cJSON_GetArraySize (item) > MAX_OVERRIDES)
    {
      sc_json_fail (json, item, NULL, error, "found %d overrides, expected at most %u", cJSON_GetArraySize (item), MAX_OVERRIDES);
      return NULL;
    }
  g_autoptr (GPtrArray) set = g_ptr_array_new_with_free_func (g_free);
  for (const cJSON *value = item->child; value != NULL; value = value->next)
    {
      if (value->string[0] == '\0')
        {
          sc_json_fail (json, value, NULL, error, "found an empty key, expected one of the topology, such as nodes");
          return NULL;
        }
      char *text = cJSON_PrintUnformatted (value);
      g_assert (text != NULL);
      g_ptr_array_add (set, g_strdup_printf ("topology.%s=%s", value->string, text));
      cJSON_free (text);
    }
  g_ptr_array_add (set, NULL);
  return (char **) g_ptr_array_free (g_steal_pointer (&set), FALSE);
}

/* A size, or with @min a time: 0 and null mean that it is not stated. */
static gboolean
read_figure (const ScJson *json, const cJSON *item, double min, double max, double *ret, GError **error)
{
  const double value = cJSON_IsNumber (item) ? item->valuedouble : min > 0 && cJSON_IsNull (item) ? 0 : NAN;
  if (value == 0 || (value >= min && value <= max))
    {
      *ret = value;
      return TRUE;
    }
  g_autofree char *found = sc_json_found (item);
  if (min > 0)
    sc_json_fail (json, item, NULL, error, "found %s, expected 0 or a number from %g to %g", found, min, max);
  else
    sc_json_fail (json, item, NULL, error, "found %s, expected a number from 0 to %g", found, max);
  return FALSE;
}

static gboolean
read_rows (const ScJson *json, const cJSON *array, ScSweep *sweep, GError **error)
{
  if (array == NULL)
    {
      sc_json_fail (json, json->root, "rows", error, "missing, expected an array of [bytes, microseconds]");
      return FALSE;
    }
  if (!sc_fields_check_array (json, array, MAX_ROWS, error))
    return FALSE;
  sweep->rows = g_new0 (ScSweepRow, (gsize) cJSON_GetArraySize (array) + 1);
  for (const cJSON *row = array->child; row != NULL; row = row->next)
    {
      const int n = cJSON_IsArray (row) ? cJSON_GetArraySize (row) : 0;
      if (n < 2 || n > 4)
        {
          g_autofree char *found = sc_json_found (row);
          sc_json_fail (json, row, NULL, error, "found %s%s, expected [bytes, microseconds, algbw, busbw], the last two or none",
                        found, n > 0 ? " of another length" : "");
          return FALSE;
        }
      ScSweepRow *const to = &sweep->rows[sweep->n_rows++];
      if (!read_figure (json, row->child, 0, MAX_BYTES, &to->bytes, error)
          || !read_figure (json, row->child->next, MIN_TIME_US, MAX_TIME_US, &to->time_s, error))
        return FALSE;
      to->time_s *= 1e-6;
    }
  return TRUE;
}

static ScSweep *
read_sweep (const char *file, guint line, const char *text, gsize length, GPtrArray *ignored, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u", file, line);
  g_autoptr (ScJson) json = sc_json_parse (where, text, length, error);
  if (json == NULL)
    return NULL;
  prune (json->root, ignored);
  g_autoptr (ScSweep) sweep = g_new0 (ScSweep, 1);
  if (!sc_fields_read (&sc_sweep_table, json, json->root, sweep, error)
      || !read_rows (json, sc_fields_get (&sc_sweep_table, json->root, "rows"), sweep, error))
    return NULL;
  const cJSON *set = sc_fields_get (&sc_sweep_table, json->root, "set");
  if (set != NULL && (sweep->set = sc_overrides_from_json (json, set, error)) == NULL)
    return NULL;
  if (sweep->id == NULL)
    sweep->id = g_strdup_printf ("line %u", line);
  if (sweep->gpus_per_node == 0)
    sweep->gpus_per_node = (sweep->gpus - 1) / sweep->nodes + 1;
  return g_steal_pointer (&sweep);
}

GPtrArray *
sc_sweeps_parse (const char *file, const char *text, gsize length, char ***ret_ignored, GError **error)
{
  g_autoptr (GPtrArray) sweeps = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sweep_free);
  g_autoptr (GPtrArray) ignored = g_ptr_array_new_with_free_func (g_free);
  guint line = 1;
  for (const char *p = text, *const stop = text + length; p < stop; line++)
    {
      const char *newline = memchr (p, '\n', (gsize) (stop - p));
      const char *const end = newline != NULL ? newline : stop;
      const char *first = p;
      while (first < end && (*first == ' ' || *first == '\t' || *first == '\r'))
        first++;
      p = newline != NULL ? newline + 1 : stop;
      if (first == end)
        continue;
      if (sweeps->len == MAX_SWEEPS)
        {
          g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: found more than %u sweeps, expected at most that many",
                       file, line, MAX_SWEEPS);
          return NULL;
        }
      ScSweep *sweep = read_sweep (file, line, first, (gsize) (end - first), ignored, error);
      if (sweep == NULL)
        return NULL;
      g_ptr_array_add (sweeps, sweep);
    }
  if (sweeps->len == 0)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: found no sweeps, expected one JSON object a line", file);
      return NULL;
    }
  if (ret_ignored != NULL)
    {
      g_ptr_array_add (ignored, NULL);
      *ret_ignored = (char **) g_ptr_array_free (g_steal_pointer (&ignored), FALSE);
    }
  return g_steal_pointer (&sweeps);
}

GPtrArray *
sc_sweeps_load (const char *argument, char ***ret_ignored, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_MEASUREMENTS, argument, &file, &length, error);
  return text != NULL ? sc_sweeps_parse (file, text, length, ret_ignored, error) : NULL;
}
