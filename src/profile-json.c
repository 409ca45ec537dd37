/* SPDX-License-Identifier: GPL-3.0-or-later */
/* profile-json.c - measured times of passes: numbers, or arrays by virtual stage. */
#include "profile-json.h"
#include <string.h>

#define MAX_STAGES 64000
#define MAX_FACTORS 1024 /* each has prices of its own */
#define MAX_MS 1e7

static const ScField profile_fields[] = {
  { "forward", SC_FIELD_OTHER,
    .help = "a number, ms that a micro-batch's forward takes over the layers of a full pipeline rank, or an array, over all that each virtual stage holds" },
  { "backward", SC_FIELD_OTHER, .derived = "input + weight", .help = "of its whole backward, alike" },
  { "input", SC_FIELD_OTHER, .derived = "from backward", .help = "of the gradients of the inputs, alike; with weight, in place of backward" },
  { "weight", SC_FIELD_OTHER, .derived = "from backward", .help = "of the gradients of the weights, alike" },
  { "transfer", SC_FIELD_NUMBER, .min = 0, .max = MAX_MS, .derived = "ours", .offset = offsetof (ScProfile, transfer_s),
    .help = "ms of a boundary tensor's way to a neighbour, with nothing beside it; 0: ours" },
  { .key = NULL },
};

const ScFieldTable sc_profile_table = { .title = "workload: plan: profiled_ms", .fields = profile_fields, .null_is_absent = TRUE };

/* One key of the object, to seconds: [profile->n]. */
static double *
read_times (const ScProfile *profile, const ScJson *json, const cJSON *object, const char *key, GError **error)
{
  static const ScField ms = { .key = "ms", .kind = SC_FIELD_NUMBER, .min = 0, .max = MAX_MS };
  const cJSON *const item = sc_fields_get (&sc_profile_table, object, key);
  if (cJSON_IsArray (item) != profile->by_stage)
    {
      sc_json_fail (json, object, key, error, "found %s, expected %s as forward is", cJSON_IsArray (item) ? "an array" : "no array",
                    profile->by_stage ? "an array" : "a number");
      return NULL;
    }
  if (profile->by_stage && (guint) cJSON_GetArraySize (item) != profile->n)
    {
      sc_json_fail (json, object, key, error, "found %d elements, expected one for each of pp x vpp = %u stages", cJSON_GetArraySize (item),
                    profile->n);
      return NULL;
    }
  g_autofree double *seconds = g_new0 (double, profile->n);
  guint i = 0;
  for (const cJSON *value = profile->by_stage ? item->child : item; i < profile->n; value = value->next, i++)
    {
      if (!sc_fields_read_value (&ms, &sc_profile_table, json, value, &seconds[i], error))
        return NULL;
      seconds[i] *= 1e-3;
    }
  return g_steal_pointer (&seconds);
}

static gboolean
has (const cJSON *object, const char *key)
{
  return sc_fields_get (&sc_profile_table, object, key) != NULL;
}

gboolean
sc_profile_read (ScPlan *plan, const ScJson *json, const cJSON *object, GError **error)
{
  ScProfile *const p = &plan->profile;
  if (!sc_fields_check_object (json, object, error) || !sc_fields_read (&sc_profile_table, json, object, p, error))
    return FALSE;
  p->transfer_s *= 1e-3;
  p->whole = has (object, "backward");
  if (p->whole && (has (object, "input") || has (object, "weight")))
    {
      sc_json_fail (json, object, "backward", error, "found beside %s, expected backward, or input and weight",
                    has (object, "input") ? "input" : "weight");
      return FALSE;
    }
  if (!p->whole && !(has (object, "input") && has (object, "weight")))
    {
      sc_json_fail (json, object, has (object, "input") ? "weight" : "input", error, "missing, expected backward, or input and weight");
      return FALSE;
    }
  p->by_stage = cJSON_IsArray (sc_fields_get (&sc_profile_table, object, "forward"));
  p->n = p->by_stage ? plan->pp * plan->vpp : 1;
  p->seconds[SC_PASS_FORWARD] = read_times (p, json, object, "forward", error);
  if (p->seconds[SC_PASS_FORWARD] != NULL)
    p->seconds[SC_PASS_INPUT] = read_times (p, json, object, p->whole ? "backward" : "input", error);
  if (p->seconds[SC_PASS_INPUT] != NULL)
    p->seconds[SC_PASS_WEIGHT] = p->whole ? g_new0 (double, p->n) : read_times (p, json, object, "weight", error);
  if (p->seconds[SC_PASS_WEIGHT] == NULL)
    return FALSE;
  p->seconds[SC_PASS_BACKWARD] = g_new (double, p->n);
  for (guint i = 0; i < p->n; i++)
    p->seconds[SC_PASS_BACKWARD][i] = p->seconds[SC_PASS_INPUT][i] + p->seconds[SC_PASS_WEIGHT][i];
  return TRUE;
}

gboolean
sc_microbatch_factors_read (ScPlan *plan, const ScJson *json, const cJSON *array, GError **error)
{
  static const ScField factor = { .key = "factor", .kind = SC_FIELD_NUMBER, .min = 1e-3, .max = 1e3 };
  if (!sc_fields_check_array (json, array, MAX_FACTORS, error))
    return FALSE;
  if (cJSON_GetArraySize (array) == 0)
    {
      sc_json_fail (json, array, NULL, error, "found no elements, expected at least one factor");
      return FALSE;
    }
  plan->microbatch_factors = g_new0 (double, (gsize) cJSON_GetArraySize (array));
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    if (!sc_fields_read_value (&factor, &sc_profile_table, json, item, &plan->microbatch_factors[plan->n_microbatch_factors++], error))
      return FALSE;
  return TRUE;
}
