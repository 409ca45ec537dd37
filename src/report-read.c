/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-read.c - reads what stepcast run --format json wrote. */
#include "compare.h"
#include <math.h>
#include <string.h>
#include "json-in.h"
#include "library.h"

#define SCHEMA_VERSION 1
#define MOST 1e18 /* no report has larger numbers */

void
sc_report_read_free (ScReportRead *r)
{
  if (r == NULL)
    return;
  g_free (r->file);
  g_free (r->name);
  g_free (r->verdict);
  g_clear_pointer (&r->settings, g_ptr_array_unref);
  g_free (r);
}

/* Member @key of @object with that type, or an error. */
static const cJSON *
member (const ScJson *json, const cJSON *object, const char *key, gboolean (*is) (const cJSON *item), const char *what, GError **error)
{
  const cJSON *const item = cJSON_GetObjectItemCaseSensitive (object, key);
  if (item != NULL && is (item))
    return item;
  g_autofree char *found = item != NULL ? sc_json_found (item) : g_strdup ("nothing");
  sc_json_fail (json, item != NULL ? item : object, item != NULL ? NULL : key, error, "found %s, expected %s of a report of stepcast run --format json", found, what);
  return NULL;
}

static gboolean
is_object (const cJSON *item)
{
  return cJSON_IsObject (item) != 0;
}

static gboolean
is_array (const cJSON *item)
{
  return cJSON_IsArray (item) != 0;
}

static gboolean
is_text (const cJSON *item)
{
  return cJSON_IsString (item) != 0;
}

static gboolean
is_amount (const cJSON *item)
{
  return cJSON_IsNumber (item) != 0 && item->valuedouble >= 0 && item->valuedouble <= MOST;
}

static gboolean
number (const ScJson *json, const cJSON *object, const char *key, double *ret, GError **error)
{
  const cJSON *const item = member (json, object, key, is_amount, "a number from 0 to 1e18", error);
  if (item != NULL)
    *ret = item->valuedouble;
  return item != NULL;
}

static void
setting_free (gpointer data)
{
  ScReportSetting *const s = data;
  g_free (s->key);
  cJSON_free (s->value);
  g_free (s);
}

/* Leaves of @item. */
static void
add_settings (GPtrArray *out, const char *path, const cJSON *item)
{
  if (cJSON_IsObject (item))
    {
      for (const cJSON *child = item->child; child != NULL; child = child->next)
        {
          g_autofree char *inner = path[0] != '\0' ? g_strdup_printf ("%s.%s", path, child->string) : g_strdup (child->string);
          add_settings (out, inner, child);
        }
      return;
    }
  ScReportSetting *const s = g_new (ScReportSetting, 1);
  *s = (ScReportSetting) { g_strdup (path), cJSON_PrintUnformatted (item) };
  g_ptr_array_add (out, s);
}

static gboolean
read_times (ScReportRead *r, const ScJson *json, GError **error)
{
  const cJSON *const stages = member (json, json->root, "stages", is_array, "the stages", error);
  if (stages == NULL)
    return FALSE;
  const int n = cJSON_GetArraySize (stages);
  double sum = 0;
  for (const cJSON *stage = stages->child; stage != NULL; stage = stage->next)
    {
      const cJSON *const time = member (json, stage, "time_s", is_object, "parts of the step", error);
      if (time == NULL)
        return FALSE;
      for (guint k = 0; k < SC_N_TIMES; k++)
        {
          double seconds;
          if (!number (json, time, sc_time_kind_name ((ScTimeKind) k), &seconds, error))
            return FALSE;
          r->time_s[k] += seconds / n;
          sum += seconds / n;
        }
    }
  if (fabs (sum - r->step_s) <= 1e-6 * r->step_s)
    return TRUE;
  sc_json_fail (json, stages, NULL, error, "found parts that add up to %g s, expected step_time_s, %g s", sum, r->step_s);
  return FALSE;
}

static gboolean
read_memory (ScReportRead *r, const ScJson *json, GError **error)
{
  const cJSON *const memory = member (json, json->root, "memory", is_object, "the memory", error);
  const cJSON *const at_peak = memory != NULL ? member (json, memory, "at_peak_bytes", is_object, "bytes by kind", error) : NULL;
  const cJSON *const verdict = at_peak != NULL ? member (json, memory, "verdict", is_text, "the verdict", error) : NULL;
  if (verdict == NULL || !number (json, memory, "peak_allocated_bytes", &r->allocated_bytes, error)
      || !number (json, memory, "peak_reserved_bytes", &r->reserved_bytes, error) || !number (json, memory, "peak_device_bytes", &r->device_bytes, error)
      || !number (json, memory, "capacity_bytes", &r->capacity_bytes, error))
    return FALSE;
  r->verdict = g_strdup (verdict->valuestring);
  for (guint k = 0; k < SC_N_MEMS; k++)
    if (!number (json, at_peak, sc_mem_kind_name ((ScMemKind) k), &r->bytes[k], error))
      return FALSE;
  return TRUE;
}

/* Of the class whose lowest rank is 0. */
static gboolean
read_first_rank (ScReportRead *r, const ScJson *json, GError **error)
{
  const cJSON *const classes = member (json, json->root, "classes", is_array, "the classes", error);
  for (const cJSON *c = classes != NULL ? classes->child : NULL; c != NULL; c = c->next)
    {
      double rank;
      if (!number (json, c, "representative_rank", &rank, error))
        return FALSE;
      if (rank > 0)
        continue;
      const cJSON *const memory = member (json, c, "memory", is_object, "the memory", error);
      return memory != NULL && number (json, memory, "peak_allocated_bytes", &r->rank0_allocated_bytes, error)
             && number (json, memory, "peak_reserved_bytes", &r->rank0_reserved_bytes, error);
    }
  return classes != NULL;
}

static gboolean
read_report (ScReportRead *r, const ScJson *json, GError **error)
{
  const cJSON *const root = json->root;
  double version, gpus, batch;
  if (!cJSON_IsObject (root))
    {
      sc_json_fail (json, root, NULL, error, "found no object, expected a report of stepcast run --format json");
      return FALSE;
    }
  if (!number (json, root, "schema_version", &version, error))
    return FALSE;
  if (version != SCHEMA_VERSION)
    {
      sc_json_fail (json, root, "schema_version", error, "found %g, expected %d", version, SCHEMA_VERSION);
      return FALSE;
    }
  const cJSON *const topology = member (json, root, "topology", is_object, "the topology", error);
  const cJSON *const workload = topology != NULL ? member (json, root, "workload", is_object, "the workload", error) : NULL;
  const cJSON *const plan = workload != NULL ? member (json, workload, "plan", is_object, "the plan", error) : NULL;
  const cJSON *const where = plan != NULL ? member (json, topology, "name", is_text, "a name", error) : NULL;
  const cJSON *const what = where != NULL ? member (json, workload, "name", is_text, "a name", error) : NULL;
  if (what == NULL || !number (json, root, "step_time_s", &r->step_s, error) || !number (json, root, "tokens_per_step", &r->tokens_per_step, error)
      || !number (json, root, "tokens_per_s_per_gpu", &r->tokens_per_s_per_gpu, error) || !number (json, root, "mfu_half_causal", &r->mfu, error)
      || !number (json, root, "model_tflops_per_gpu", &r->tflops_per_gpu, error) || !number (json, topology, "gpus_used", &gpus, error)
      || !number (json, plan, "global_batch", &batch, error))
    return FALSE;
  r->gpus = (guint) CLAMP (gpus, 0, 1e9);
  r->global_batch = (guint) CLAMP (batch, 0, 1e9);
  r->name = g_strdup_printf ("%s on %u GPUs of %s", what->valuestring, r->gpus, where->valuestring);
  r->settings = g_ptr_array_new_with_free_func (setting_free);
  add_settings (r->settings, "topology", topology);
  add_settings (r->settings, "", workload);
  return read_times (r, json, error) && read_memory (r, json, error) && read_first_rank (r, json, error);
}

ScReportRead *
sc_report_read (const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "a report", SC_LIBRARY_MAX_BYTES, &length, error);
  g_autoptr (ScJson) json = text != NULL ? sc_json_parse (path, text, length, error) : NULL;
  g_autoptr (ScReportRead) r = g_new0 (ScReportRead, 1);
  r->file = g_strdup (path);
  r->rank0_allocated_bytes = r->rank0_reserved_bytes = NAN;
  if (json == NULL || !read_report (r, json, error))
    return NULL;
  return g_steal_pointer (&r);
}
