/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-log-json.c - the JSON output of nccl-tests (-J FILE, 2.16 and later). */
#include <string.h>
#include "json-in.h"
#include "nccl-run.h"

static const cJSON *
member (const cJSON *object, const char *key)
{
  return cJSON_GetObjectItemCaseSensitive (object, key);
}

static gboolean
fail_expected (const ScJson *json, const cJSON *object, const char *key, const char *expected, GError **error)
{
  g_autofree char *found = sc_json_found (member (object, key));
  sc_json_fail (json, object, key, error, "found %s, expected %s", found, expected);
  return FALSE;
}

static gboolean
get_number (const ScJson *json, const cJSON *object, const char *key, const char *expected, double *ret_value,
            GError **error)
{
  const cJSON *item = member (object, key);
  if (!cJSON_IsNumber (item))
    return fail_expected (json, object, key, expected, error);
  *ret_value = item->valuedouble;
  return TRUE;
}

/* A whole number from 0 to below @limit. */
static gboolean
get_index (const ScJson *json, const cJSON *object, const char *key, guint limit, guint *ret_value, GError **error)
{
  g_autofree char *expected = g_strdup_printf ("a whole number below %u", limit);
  double value;
  if (!get_number (json, object, key, expected, &value, error))
    return FALSE;
  if (!(value >= 0 && value < limit) || value != (guint) value)
    return fail_expected (json, object, key, expected, error);
  *ret_value = (guint) value;
  return TRUE;
}

static gboolean
read_config (const ScJson *json, ScNcclRun *run, GError **error)
{
  const cJSON *config = member (json->root, "config");
  if (!cJSON_IsObject (config))
    return fail_expected (json, json->root, "config", "an object (JSON that nccl-tests -J has written)", error);
  guint threads, gpus;
  if (!get_index (json, config, "nthreads", 1000, &threads, error)
      || !get_index (json, config, "ngpus", 1000, &gpus, error))
    return FALSE;
  run->ranks_per_process = MAX (threads * gpus, 1);
  const cJSON *devices = member (config, "devices");
  if (!cJSON_IsArray (devices))
    return fail_expected (json, config, "devices", "an array", error);
  const cJSON *device;
  cJSON_ArrayForEach (device, devices)
  {
    guint rank, group = 0;
    if (!get_index (json, device, "rank", SC_NCCL_MAX_RANKS, &rank, error)
        || (member (device, "group") != NULL && !get_index (json, device, "group", SC_NCCL_MAX_RANKS, &group, error)))
      return FALSE;
    if (!cJSON_IsString (member (device, "hostname")))
      return fail_expected (json, device, "hostname", "a string", error);
    const cJSON *gpu = member (device, "device_info");
    if (!sc_nccl_run_add_device (run, rank, group, member (device, "hostname")->valuestring,
                                 cJSON_IsString (gpu) ? gpu->valuestring : ""))
      {
        sc_json_fail (json, device, "rank", error, "found %u a second time, expected each rank once", rank);
        return FALSE;
      }
  }
  return TRUE;
}

static gboolean
read_side (const ScJson *json, ScNcclRun *run, const cJSON *result, const char *key, ScNcclHints *hints, GError **error)
{
  const cJSON *side = member (result, key);
  if (side == NULL || cJSON_IsNull (side))
    return TRUE; /* not measured */
  if (!cJSON_IsObject (side))
    return fail_expected (json, result, key, "an object or null", error);
  if (member (side, "cpu_time") != NULL)
    {
      sc_json_fail (json, side, "cpu_time", error, "found the CPU's time, expected \"time\" (a run without -C)");
      return FALSE;
    }
  double size, time, algbw, busbw, wrong = 0;
  if (!get_number (json, result, "size", "a size of 0 bytes or more", &size, error)
      || !get_number (json, side, "time", "a time in us", &time, error)
      || !get_number (json, side, "alg_bw", "a bandwidth in GB/s", &algbw, error)
      || !get_number (json, side, "bus_bw", "a bandwidth in GB/s", &busbw, error))
    return FALSE;
  const ScNcclRow row = { size, time * 1e-6, algbw * 1e9, busbw * 1e9 };
  double found;
  const char *expected = sc_nccl_row_expected (&row, &found);
  if (expected != NULL)
    {
      sc_json_fail (json, side, NULL, error, "found %g, expected %s", found, expected);
      return FALSE;
    }
  const cJSON *nwrong = member (side, "nwrong");
  if (nwrong != NULL && !cJSON_IsNull (nwrong)
      && (!get_number (json, side, "nwrong", "a count or null", &wrong, error) || wrong < 0))
    return wrong < 0 ? fail_expected (json, side, "nwrong", "a count or null", error) : FALSE;
  run->log->wrong += wrong;
  sc_nccl_run_add_row (run, strcmp (key, "in_place") == 0, &row, hints);
  return TRUE;
}

static gboolean
read_results (const ScJson *json, ScNcclRun *run, GError **error)
{
  const cJSON *results = member (json->root, "results");
  if (!cJSON_IsArray (results))
    return fail_expected (json, json->root, "results", "an array", error);
  const cJSON *result;
  cJSON_ArrayForEach (result, results)
  {
    const cJSON *redop = member (result, "redop"), *root = member (result, "root");
    /* Written with six decimals. */
    ScNcclHints hints = { .known = cJSON_IsString (redop) && cJSON_IsString (root),
                          .algbw_error = 0.5e3,
                          .busbw_error = 0.5e3 };
    if (hints.known)
      {
        hints.has_redop = redop->valuestring[0] != '\0' && strcmp (redop->valuestring, "none") != 0;
        hints.has_root = strchr (root->valuestring, '-') == NULL;
      }
    if (!read_side (json, run, result, "out_of_place", &hints, error)
        || !read_side (json, run, result, "in_place", &hints, error))
      return FALSE;
  }
  if (run->log->rows->len == 0 && run->log->in_place->len == 0)
    {
      sc_json_fail (json, results, NULL, error, "found no rows, expected one at least");
      return FALSE;
    }
  return TRUE;
}

/* Program, version, environment, average: what is not there is not known. */
static void
read_facts (const ScJson *json, const cJSON *env, ScNcclLog *log)
{
  const cJSON *program = cJSON_GetArrayItem (member (json->root, "args"), 0);
  g_autofree char *name = cJSON_IsString (program) ? sc_nccl_keep (program->valuestring) : NULL;
  log->program = name == NULL ? NULL : g_path_get_basename (name);
  const cJSON *version = member (json->root, "nccl_version");
  if (cJSON_IsNumber (version) && version->valuedouble >= 0 && version->valuedouble < 1e9)
    log->nccl_version = sc_nccl_version_from_code ((guint64) version->valuedouble);
  const cJSON *setting;
  cJSON_ArrayForEach (setting, env)
  {
    const char *text = cJSON_IsString (setting) ? setting->valuestring : "";
    char **place = g_str_has_prefix (text, "NCCL_ALGO=")    ? &log->algo
                   : g_str_has_prefix (text, "NCCL_PROTO=") ? &log->proto
                                                            : NULL;
    if (place == NULL || *place != NULL)
      continue;
    *place = sc_nccl_keep (strchr (text, '=') + 1);
  }
  const cJSON *average = member (member (json->root, "average_bus_bandwidth"), "bandwidth");
  if (cJSON_IsNumber (average) && average->valuedouble >= 0)
    {
      log->avg_busbw_bytes_per_s = average->valuedouble * 1e9;
      log->complete = TRUE;
    }
}

ScNcclLog *
sc_nccl_log_from_json (const char *file, const char *text, gsize length, GError **error)
{
  g_autoptr (cJSON) root = strlen (text) == length ? sc_json_parse_value (text, NULL) : NULL;
  if (!cJSON_IsObject (root))
    {
      ScJson *refused = sc_json_parse (file, text, length, error); /* says where */
      g_assert (refused == NULL);
      return NULL;
    }
  /* The environment and the command line may hold anything, such as shell functions of many lines: not to be checked. */
  g_autoptr (cJSON) env = cJSON_DetachItemFromObjectCaseSensitive (root, "env");
  g_autoptr (ScJson) json = g_new (ScJson, 1);
  *json = (ScJson){ g_strdup (file), g_steal_pointer (&root), g_ptr_array_new () };
  g_autoptr (ScNcclRun) run = sc_nccl_run_new (1);
  if (!sc_json_check (json, error) || !read_config (json, run, error) || !read_results (json, run, error))
    return NULL;
  read_facts (json, env, run->log);
  return sc_nccl_run_end (g_steal_pointer (&run));
}
