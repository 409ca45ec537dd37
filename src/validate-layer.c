/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-layer.c - a published layer becomes a workload; its times are read off the trace. */
#include "validate-layer.h"
#include "device-json.h"
#include "library.h"
#include "models/forecast.h"
#include "topology-json.h"
#include "workload-json.h"
#include <string.h>

/* Distances between layers do not hang on how many there are; three have one in the middle, with a layer on either side. */
#define N_LAYERS 3

/* GPT models of Megatron-LM were trained with it (arXiv 2205.05198 counts its masks), and rows do not print it. */
#define GPT_DROPOUT 0.1

static const char *
text_at (const cJSON *object, const char *key)
{
  const cJSON *const item = cJSON_GetObjectItemCaseSensitive (object, key);
  return cJSON_IsString (item) ? item->valuestring : NULL;
}

static guint
count_at (const cJSON *object, const char *key, guint otherwise)
{
  const cJSON *const item = cJSON_GetObjectItemCaseSensitive (object, key);
  return cJSON_IsNumber (item) && item->valuedouble >= 1 && item->valuedouble <= 1e6 ? (guint) item->valuedouble : otherwise;
}

/* The first shipped topology of such GPUs, so many to a node.  NULL without an error: there is none. */
static ScTopology *
find_topology (const char *gpu, guint per_node, gboolean nvlink, GError **error)
{
  static char *burst[] = { (char *) (gsize) "device.clocks=burst", NULL };
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_TOPOLOGY)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("topologies/%s.json", row->name);
      g_autoptr (ScTopology) topology = sc_topology_load (path, burst, NULL, error);
      if (topology == NULL)
        return NULL;
      const ScNodeType *const type = &topology->types[0];
      if (topology->n_types == 1 && topology->n_faults == 0 && type->gpus == per_node && type->has_nvlink == nvlink
          && sc_device_is_called (type->device, gpu))
        return g_steal_pointer (&topology);
    }
  return NULL;
}

static void
set_number (cJSON *object, const char *key, double value)
{
  cJSON_DeleteItemFromObjectCaseSensitive (object, key);
  cJSON_AddNumberToObject (object, key, value);
}

/* The row's model and plan as a workload of N_LAYERS layers and one micro-batch. */
static ScWorkload *
build_workload (const ScJson *row, GError **error)
{
  g_autofree char *text = cJSON_PrintUnformatted (row->root);
  g_autoptr (ScJson) copy = sc_json_parse (row->file, text, strlen (text), error);
  if (copy == NULL)
    return NULL;
  cJSON *const model = cJSON_GetObjectItemCaseSensitive (copy->root, "model");
  cJSON *const plan = cJSON_GetObjectItemCaseSensitive (copy->root, "plan");
  static const char *const kept[] = { "model", "plan", "seq", "software", NULL };
  cJSON *next = NULL;
  for (cJSON *item = copy->root->child; item != NULL; item = next)
    {
      next = item->next;
      if (!g_strv_contains (kept, item->string))
        cJSON_Delete (cJSON_DetachItemViaPointer (copy->root, item));
    }
  cJSON_AddStringToObject (copy->root, "name", "layer");
  if (cJSON_IsObject (model))
    {
      set_number (model, "layers", N_LAYERS);
      if (g_strcmp0 (text_at (model, "family"), "gpt") == 0 && !cJSON_HasObjectItem (model, "dropout"))
        set_number (model, "dropout", GPT_DROPOUT);
    }
  if (cJSON_IsObject (plan))
    {
      cJSON_DeleteItemFromObjectCaseSensitive (plan, "extra");
      set_number (plan, "global_batch", count_at (plan, "micro_batch", 1) * count_at (plan, "dp", 1));
      /* all streams in one queue is how sequence parallelism's gathers come to lie under the products (arXiv 2205.05198) */
      if (cJSON_IsTrue (cJSON_GetObjectItemCaseSensitive (plan, "sequence_parallel")) && !cJSON_HasObjectItem (plan, "one_queue"))
        cJSON_AddTrueToObject (plan, "one_queue");
    }
  return sc_workload_from_json (copy, error);
}

/* From the last but one start of the op called @label to the last, of a time of @kind. */
static double
distance_s (const ScSummary *summary, const char *label, ScTimeKind kind)
{
  const ScActor *const actor = &g_array_index (summary->program->actors, ScActor, 0);
  ScTime before = 0, last = 0;
  guint n = 0;
  for (guint32 i = actor->first_op; i < actor->first_op + actor->n_ops; i++)
    {
      const ScOp op = sc_program_op (summary->program, actor, i);
      if (op.kind != SC_OP_WORK || op.tag != kind || op.label >= summary->labels->len
          || g_strcmp0 (g_ptr_array_index (summary->labels, op.label), label) != 0)
        continue;
      before = last;
      last = summary->trace->spans[i].start;
      n++;
    }
  return n >= 2 ? sc_time_to_s (last - before) : 0;
}

gboolean
sc_layer_times (const ScJson *row, ScLayerTimes *ret, char **ret_why)
{
  g_autoptr (GError) error = NULL;
  const cJSON *const cluster = cJSON_GetObjectItemCaseSensitive (row->root, "cluster");
  const cJSON *const measured = cJSON_GetObjectItemCaseSensitive (row->root, "measured");
  const cJSON *const forward = cJSON_GetObjectItemCaseSensitive (measured, "layer_forward_ms");
  const cJSON *const backward = cJSON_GetObjectItemCaseSensitive (measured, "layer_backward_ms");
  const char *const gpu = text_at (cluster, "gpu"), *const intra = text_at (cluster, "intra");
  *ret = (ScLayerTimes) { .measured_forward_s = cJSON_IsNumber (forward) ? forward->valuedouble * 1e-3 : 0,
                          .measured_backward_s = cJSON_IsNumber (backward) ? backward->valuedouble * 1e-3 : 0 };
  if (gpu == NULL || (ret->measured_forward_s <= 0 && ret->measured_backward_s <= 0))
    {
      *ret_why = g_strdup (gpu == NULL ? "the GPU is not stated" : "no time of a layer is stated");
      return FALSE;
    }
  g_autoptr (ScWorkload) workload = build_workload (row, &error);
  g_autoptr (ScTopology) topology = NULL;
  g_autoptr (ScSummary) summary = NULL;
  if (workload != NULL)
    topology = find_topology (gpu, count_at (cluster, "gpus_per_node", 8), g_strcmp0 (intra, "pcie") != 0, &error);
  if (workload != NULL && topology == NULL && error == NULL)
    {
      *ret_why = g_strdup_printf ("no shipped topology has %u %s in a node", count_at (cluster, "gpus_per_node", 8), gpu);
      return FALSE;
    }
  if (topology != NULL)
    summary = sc_forecast (topology, workload, NULL, &error);
  if (summary == NULL)
    {
      *ret_why = g_strdup (error->message);
      return FALSE;
    }
  ret->forward_s = distance_s (summary, "norm 1", SC_TIME_FORWARD);
  ret->backward_s = distance_s (summary, "norm 1 backward", SC_TIME_BACKWARD);
  return TRUE;
}
