/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-json.c - a summary for programs: stable keys, SI units in the key names, fractions instead of percent.
 * doc/report-json.md describes every key; a key may be added, but what is there stays until schema_version changes. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <math.h>
#include "describe.h"
#include "json-out.h"
#include "models/packing.h"
#include "models/optimizer.h"
#include "models/precision.h"
#include "models/sharding.h"
#include "memory-groups.h"
#include "models/summarise-memory.h"
#include "report.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define SCHEMA_VERSION 1

/* JSON has no NaN and no infinity, and cJSON would print null: the first number of that kind fails the report. */
typedef struct
{
  const char *not_finite; /* its key, static */
} Writer;

static void
add_number (Writer *w, cJSON *object, const char *key, double value)
{
  if (!isfinite (value) && w->not_finite == NULL)
    w->not_finite = key;
  cJSON_AddNumberToObject (object, key, value);
}

/* Integers beyond 2^53 keep every digit: a double would not. */
static void
add_integer (cJSON *object, const char *key, gint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, value);
  cJSON_AddRawToObject (object, key, text);
}

static void
add_unsigned (cJSON *object, const char *key, guint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, value);
  cJSON_AddRawToObject (object, key, text);
}

static void
add_bool (cJSON *object, const char *key, gboolean value)
{
  cJSON_AddBoolToObject (object, key, value);
}

static void
add_topology (const ScSummary *s, cJSON *root)
{
  cJSON *o = cJSON_AddObjectToObject (root, "topology");
  sc_json_add_text (o, "name", s->topology->name);
  add_unsigned (o, "nodes", s->topology->n_nodes);
  add_unsigned (o, "gpus", s->topology->n_gpus);
  add_unsigned (o, "nodes_used", s->nodes);
  add_unsigned (o, "gpus_used", s->gpus);
  cJSON *devices = cJSON_AddArrayToObject (o, "devices");
  for (guint i = 0; i < s->n_classes; i++)
    {
      const ScDevice *device = s->classes[i].device;
      gboolean seen = device == NULL;
      for (guint k = 0; k < i; k++)
        seen |= s->classes[k].device == device;
      if (!seen)
        cJSON_AddItemToArray (devices, cJSON_CreateString (device->name));
    }
}

static void
add_model (const ScSummary *s, cJSON *workload)
{
  const ScModel *m = &s->workload->model;
  cJSON *o = cJSON_AddObjectToObject (workload, "model");
  sc_json_add_text (o, "name", m->name);
  add_unsigned (o, "params", s->params);
  add_unsigned (o, "hidden", m->hidden);
  add_unsigned (o, "layers", m->layers);
  add_unsigned (o, "heads", m->heads);
  add_unsigned (o, "kv_heads", m->kv_heads);
  add_unsigned (o, "head_dim", m->head_dim);
  add_unsigned (o, "ffn", m->ffn);
  add_bool (o, "gated_mlp", m->gated_mlp);
  add_unsigned (o, "vocab", m->vocab);
  add_bool (o, "tied_embeddings", m->tied_embeddings);
}

static void
add_profile (const ScProfile *p, cJSON *plan)
{
  static const struct
  {
    const char *key;
    ScPass pass;
  } parts[] = { { "forward", SC_PASS_FORWARD }, { "backward", SC_PASS_BACKWARD }, { "input", SC_PASS_INPUT }, { "weight", SC_PASS_WEIGHT } };
  if (p->n == 0)
    {
      cJSON_AddNullToObject (plan, "profiled_ms");
      return;
    }
  cJSON *o = cJSON_AddObjectToObject (plan, "profiled_ms");
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      if (p->whole ? i > 1 : i == 1)
        continue;
      const double *const seconds = p->seconds[parts[i].pass];
      cJSON *const array = p->by_stage ? cJSON_AddArrayToObject (o, parts[i].key) : NULL;
      if (array == NULL)
        cJSON_AddNumberToObject (o, parts[i].key, seconds[0] * 1e3);
      for (guint j = 0; array != NULL && j < p->n; j++)
        cJSON_AddItemToArray (array, cJSON_CreateNumber (seconds[j] * 1e3));
    }
  if (p->transfer_s > 0)
    cJSON_AddNumberToObject (o, "transfer", p->transfer_s * 1e3);
}

static void
add_plan (const ScSummary *s, cJSON *workload)
{
  const ScPlan *p = &s->workload->plan;
  cJSON *o = cJSON_AddObjectToObject (workload, "plan");
  add_unsigned (o, "tp", p->tp);
  add_unsigned (o, "pp", p->pp);
  add_unsigned (o, "vpp", p->vpp);
  add_unsigned (o, "dp", p->dp);
  add_unsigned (o, "cp", p->cp);
  if (p->cp > 1)
    sc_json_add_text (o, "cp_comm", sc_cp_comm_word (p->cp_comm));
  if (p->cp_a2a > 0)
    add_unsigned (o, "cp_a2a", p->cp_a2a);
  add_unsigned (o, "ep", p->ep);
  add_unsigned (o, "gpus", p->gpus);
  add_bool (o, "sequence_parallel", p->sequence_parallel);
  sc_json_add_text (o, "sharding", sc_sharding_word (p->sharding));
  add_unsigned (o, "shard_group", p->sharding == SC_SHARDING_NONE ? 1 : sc_plan_shard_ranks (p));
  sc_json_add_text (o, "grad_sync", p->grad_sync == SC_GRAD_SYNC_EVERY ? "every" : "last");
  sc_json_add_text (o, "schedule", p->schedule);
  add_unsigned (o, "microbatch_group", p->microbatch_group);
  if (p->vocab_parallel != SC_VOCAB_ENDS)
    cJSON_AddStringToObject (o, "vocab_parallel", sc_vocab_name (p->vocab_parallel));
  g_autofree guint *layers = sc_workload_stage_layers (s->workload);
  cJSON *stage_layers = cJSON_AddArrayToObject (o, "stage_layers");
  for (guint i = 0; i < p->pp * p->vpp; i++)
    cJSON_AddItemToArray (stage_layers, cJSON_CreateNumber (layers[i]));
  g_autofree char *recompute = sc_recompute_text (p);
  sc_json_add_text (o, "pipeline_layout", p->pipeline_layout);
  sc_json_add_text (o, "recompute", recompute);
  add_unsigned (o, "micro_batch", p->micro_batch);
  add_unsigned (o, "global_batch", p->global_batch);
  sc_json_add_text (o, "dtype", sc_plan_dtype_name (p));
  sc_json_add_text (o, "fp8_recipe", p->precision != NULL ? p->precision->recipe : NULL);
  sc_json_add_text (o, "grad_dtype", sc_dtype_name (p->grad_dtype));
  sc_json_add_text (o, "optimizer", sc_optimizer_row (p->optimizer)->name);
  sc_json_add_text (o, "attention", sc_attention_word (p->attention));
  add_bool (o, "overlap_grad", p->overlap_grad);
  add_bool (o, "overlap_param", p->overlap_param);
  add_bool (o, "overlap_p2p", p->overlap_p2p);
  add_bool (o, "tp_overlap", p->tp_overlap);
  add_bool (o, "scatter_gather", p->scatter_gather);
  add_unsigned (o, "bucket_params", p->bucket_params);
  sc_json_add_text (o, "rank_order", sc_rank_order_word (p->rank_order));
  add_bool (o, "one_queue", p->one_queue);
  add_bool (o, "launch_blocking", p->launch_blocking);
  if (p->offload != SC_OFFLOAD_NONE)
    sc_json_add_text (o, "offload", sc_offload_word (p->offload));
  if (p->offload_layers > 0)
    add_unsigned (o, "offload_layers", p->offload_layers);
  if (p->cuda_graphs)
    add_bool (o, "cuda_graphs", TRUE);
  add_bool (o, "post_validation", p->post_validation);
  add_profile (&p->profile, o);
  if (p->n_microbatch_factors == 0)
    cJSON_AddNullToObject (o, "microbatch_factors");
  else
    cJSON_AddItemToObject (o, "microbatch_factors", cJSON_CreateDoubleArray (p->microbatch_factors, (int) p->n_microbatch_factors));
}

static void
add_documents (const ScPacking *p, cJSON *workload)
{
  if (p == NULL)
    return;
  cJSON *o = cJSON_AddObjectToObject (workload, "documents");
  cJSON_AddNumberToObject (o, "packed", (double) p->documents);
  cJSON_AddNumberToObject (o, "mean_length", p->mean_length);
  cJSON_AddNumberToObject (o, "fill", p->fill);
  cJSON_AddNumberToObject (o, "attention_share", p->share[0]);
  add_unsigned (o, "kinds", p->n_kinds);
  cJSON_AddNumberToObject (o, "least_microbatch", p->least);
  cJSON_AddNumberToObject (o, "most_microbatch", p->most);
  add_unsigned (o, "ranks", p->ranks);
  cJSON_AddNumberToObject (o, "busiest_rank", p->rank);
}

static void
add_workload (const ScSummary *s, cJSON *root)
{
  const ScWorkload *w = s->workload;
  cJSON *o = cJSON_AddObjectToObject (root, "workload");
  sc_json_add_text (o, "name", w->name);
  add_unsigned (o, "seq", w->seq);
  add_unsigned (o, "microbatches", s->microbatches);
  sc_json_add_text (o, "framework", w->framework != NULL ? w->framework->name : NULL);
  sc_json_add_text (o, "framework_version", w->framework != NULL ? w->framework->version : NULL);
  add_model (s, o);
  add_plan (s, o);
  add_documents (w->packing, o);
}

/* The parts of the step, twice: in seconds to read, in picoseconds to add up. */
static void
add_times (Writer *w, cJSON *object, const ScTime time[SC_N_TIMES])
{
  cJSON *seconds = cJSON_AddObjectToObject (object, "time_s");
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    add_number (w, seconds, sc_time_kind_name (k), sc_time_to_s (time[k]));
  cJSON *exact = cJSON_AddObjectToObject (object, "time_ps");
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    add_integer (exact, sc_time_kind_name (k), time[k]);
}

static void
add_step (Writer *w, const ScSummary *s, cJSON *object)
{
  add_number (w, object, "step_time_s", sc_time_to_s (s->step));
  add_integer (object, "step_time_ps", s->step);
}

static void
add_stages (Writer *w, const ScSummary *s, cJSON *root)
{
  cJSON *array = cJSON_AddArrayToObject (root, "stages");
  for (guint i = 0; i < s->n_stages; i++)
    {
      const ScStageSummary *stage = &s->stages[i];
      cJSON *o = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, o);
      add_unsigned (o, "stage", stage->stage);
      add_unsigned (o, "class", stage->class_id);
      add_unsigned (o, "layers", stage->layers);
      add_times (w, o, stage->time);
      add_step (w, s, o);
    }
}

static void
add_memory_of_class (Writer *w, const ScClassSummary *c, cJSON *o)
{
  add_unsigned (o, "peak_allocated_bytes", c->peak_allocated_bytes);
  add_unsigned (o, "peak_reserved_bytes", c->peak_reserved_bytes);
  add_unsigned (o, "peak_device_bytes", c->peak_device_bytes);
  add_bool (o, "reserved_played", c->reserved_played);
  add_unsigned (o, "capacity_bytes", c->capacity_bytes);
  sc_json_add_text (o, "verdict", sc_verdict_name (c->verdict));
  cJSON *kinds = cJSON_AddObjectToObject (o, "at_peak_bytes");
  for (ScMemKind k = 0; k < SC_N_MEMS; k++)
    add_unsigned (kinds, sc_mem_kind_name (k), c->at_peak[k]);
  add_unsigned (o, "context_bytes", c->context_bytes);
  add_unsigned (o, "nccl_bytes", c->nccl_bytes);
  add_unsigned (o, "workspace_bytes", c->workspace_bytes);
  add_number (w, o, "peak_time_s", sc_time_to_s (c->peak_time));
  sc_json_add_text (o, "peak_op", c->peak_op);
}

static void
add_classes (Writer *w, const ScSummary *s, cJSON *root)
{
  cJSON *array = cJSON_AddArrayToObject (root, "classes");
  for (guint i = 0; i < s->n_classes; i++)
    {
      const ScClassSummary *c = &s->classes[i];
      cJSON *o = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, o);
      add_unsigned (o, "class", i);
      add_unsigned (o, "stage", c->stage);
      add_unsigned (o, "representative_rank", c->representative);
      add_unsigned (o, "ranks", c->n_ranks);
      add_unsigned (o, "node", c->node);
      add_unsigned (o, "gpu", c->gpu);
      sc_json_add_text (o, "device", c->device != NULL ? c->device->name : NULL);
      add_unsigned (o, "params", c->params);
      add_number (w, o, "end_s", sc_time_to_s (c->end));
      add_times (w, o, c->time);
      cJSON *memory = cJSON_AddObjectToObject (o, "memory");
      add_memory_of_class (w, c, memory);
    }
}

static void
add_memory (Writer *w, const ScSummary *s, cJSON *root)
{
  cJSON *o = cJSON_AddObjectToObject (root, "memory");
  add_unsigned (o, "class", s->memory_class);
  add_unsigned (o, "stage", s->classes[s->memory_class].stage);
  add_number (w, o, "margin", s->memory_margin);
  add_memory_of_class (w, &s->classes[s->memory_class], o);
}

/* ---- memory over the step ---- */

#define MAX_TENSORS 40
#define N_COLUMNS   200

static void
add_tensors (const ScTapePlay *play, cJSON *o)
{
  g_autoptr (GArray) groups = sc_memory_groups (play);
  cJSON *array = cJSON_AddArrayToObject (o, "tensors");
  for (guint i = 0; i < MIN (groups->len, MAX_TENSORS); i++)
    {
      const ScMemoryGroup *const g = &g_array_index (groups, ScMemoryGroup, i);
      g_autofree char *name = sc_memory_group_name (&g->tensor);
      cJSON *t = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, t);
      sc_json_add_text (t, "name", name);
      sc_json_add_text (t, "kind", sc_mem_kind_name ((ScMemKind) g->tensor.mem));
      add_unsigned (t, "n", g->n);
      add_unsigned (t, "bytes_each", (guint64) g->tensor.bytes);
      add_unsigned (t, "bytes", g->bytes);
    }
}

/* @kind SC_N_MEMS: what is reserved. */
static void
add_column_bytes (cJSON *o, const char *key, const ScMemoryColumn *columns, ScMemKind kind)
{
  cJSON *array = cJSON_AddArrayToObject (o, key);
  for (guint i = 0; i < N_COLUMNS; i++)
    cJSON_AddItemToArray (array, cJSON_CreateNumber ((double) (kind < SC_N_MEMS ? columns[i].by_kind[kind] : columns[i].reserved)));
}

/* Of equal parts of the step, the highest instant of each. */
static void
add_curve (Writer *w, const ScSummary *s, guint stage, cJSON *o)
{
  g_autofree ScMemoryColumn *columns = sc_memory_columns (s, stage, N_COLUMNS);
  cJSON *curve = cJSON_AddObjectToObject (o, "curve");
  add_number (w, curve, "bin_s", sc_time_to_s (s->trace->end) / N_COLUMNS);
  for (ScMemKind k = 0; k < SC_N_MEMS; k++)
    add_column_bytes (curve, sc_mem_kind_name (k), columns, k);
  add_column_bytes (curve, "reserved", columns, SC_N_MEMS);
}

static void
add_memory_stages (Writer *w, const ScSummary *s, cJSON *root)
{
  cJSON *array = NULL;
  for (guint i = 0; s->plays != NULL && i < s->plays->len; i++)
    {
      const ScTapePlay *const play = g_ptr_array_index (s->plays, i);
      if (play == NULL || play->curve == NULL)
        continue;
      array = array != NULL ? array : cJSON_AddArrayToObject (root, "memory_stages");
      cJSON *o = cJSON_CreateObject ();
      cJSON_AddItemToArray (array, o);
      add_unsigned (o, "stage", i);
      add_unsigned (o, "class", sc_memory_class_of (s, i));
      add_unsigned (o, "allocated_bytes", play->allocated[1]);
      add_unsigned (o, "reserved_bytes", play->reserved[1]);
      add_unsigned (o, "reserved_at_peak_bytes", play->reserved_at_peak);
      add_unsigned (o, "first_step_allocated_bytes", play->allocated[0]);
      add_unsigned (o, "first_step_reserved_bytes", play->reserved[0]);
      add_unsigned (o, "retries", play->n_retries);
      add_bool (o, "out_of_memory", play->out_of_memory);
      add_tensors (play, o);
      add_curve (w, s, i, o);
    }
  if (array == NULL)
    cJSON_AddNullToObject (root, "memory_stages");
}

static void
add_fold (const ScSummary *s, cJSON *root)
{
  cJSON *o = cJSON_AddObjectToObject (root, "fold");
  add_unsigned (o, "rank_classes", s->n_rank_classes);
  add_unsigned (o, "groups", s->n_groups);
  add_unsigned (o, "families", s->n_families);
  add_unsigned (o, "links", s->n_links);
  add_unsigned (o, "link_classes", s->n_link_classes);
  add_bool (o, "approximate", s->fold_approximate);
  sc_json_add_text (o, "note", s->fold_note);
}

/* One array on one line, to a millionth: what is finer says nothing of a mean over a bin. */
static void
add_shares (Writer *w, cJSON *object, const char *key, const double *shares, guint n)
{
  cJSON *array = cJSON_AddArrayToObject (object, key);
  for (guint i = 0; i < n; i++)
    {
      if (!isfinite (shares[i]) && w->not_finite == NULL)
        w->not_finite = key;
      cJSON_AddItemToArray (array, cJSON_CreateNumber (rint (shares[i] * 1e6) / 1e6));
    }
}

static void
add_link_class (Writer *w, const ScLinksSummary *links, const ScLinkSummary *row, cJSON *array)
{
  cJSON *o = cJSON_CreateObject ();
  cJSON_AddItemToArray (array, o);
  sc_json_add_text (o, "link", row->name);
  add_unsigned (o, "links", row->n_links);
  cJSON *kinds = cJSON_AddObjectToObject (o, "kinds");
  for (ScLinkKind k = 0; k < SC_N_LINK_KINDS; k++)
    if (row->of_kind[k] > 0)
      add_unsigned (kinds, sc_link_kind_name (k), row->of_kind[k]);
  add_unsigned (o, "links_below", row->n_below);
  add_number (w, o, "capacity_bytes_per_s", row->capacity_bytes_per_s);
  add_number (w, o, "mean", row->mean);
  add_number (w, o, "peak", row->peak);
  add_number (w, o, "full_s", sc_time_to_s (row->full));
  cJSON *bytes = cJSON_AddObjectToObject (o, "bytes");
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    if (sc_time_kind_group (k) != NULL)
      add_number (w, bytes, sc_time_kind_group (k), rint (row->bytes[k]));
  add_shares (w, o, "utilisation", row->utilisation, links->n_bins);
}

static void
add_links (Writer *w, const ScSummary *s, cJSON *root)
{
  if (s->links == NULL)
    {
      cJSON_AddNullToObject (root, "links");
      return;
    }
  cJSON *o = cJSON_AddObjectToObject (root, "links");
  add_number (w, o, "bin_s", sc_time_to_s (s->links->bin));
  add_unsigned (o, "left_out", s->links->n_left_out);
  cJSON *array = cJSON_AddArrayToObject (o, "classes");
  for (guint i = 0; i < s->links->n_rows; i++)
    add_link_class (w, s->links, &s->links->rows[i], array);
}

static gboolean
json_write (const ScSummary *s, GString *out, GError **error)
{
  Writer w = { NULL };
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", SCHEMA_VERSION);
  sc_json_add_text (root, "stepcast_version", PACKAGE_VERSION);
  add_topology (s, root);
  add_workload (s, root);
  add_step (&w, s, root);
  add_number (&w, root, "tokens_per_step", s->tokens_per_step);
  add_number (&w, root, "tokens_per_s", s->tokens_per_s);
  add_number (&w, root, "tokens_per_s_per_gpu", s->tokens_per_s_per_gpu);
  add_number (&w, root, "model_tflops_per_gpu", s->model_tflops_per_gpu);
  add_number (&w, root, "mfu_half_causal", s->mfu_half_causal);
  add_number (&w, root, "mfu_full", s->mfu_full);
  add_number (&w, root, "mfu_6n", s->mfu_6n);
  add_number (&w, root, "hfu", s->hfu);
  add_number (&w, root, "model_flops_half", s->model_flops_half);
  add_number (&w, root, "model_flops_full", s->model_flops_full);
  add_number (&w, root, "model_flops_6n", s->model_flops_6n);
  add_number (&w, root, "hardware_flops", s->hardware_flops);
  add_number (&w, root, "peak_flops_per_s_per_gpu", s->peak_flops_per_gpu);
  add_number (&w, root, "bubble_fraction", s->bubble_fraction);
  add_number (&w, root, "bubble_over_ideal", s->bubble_over_ideal);
  add_number (&w, root, "bubble_fraction_ideal", s->bubble_fraction_ideal);
  add_number (&w, root, "bubble_over_ideal_ideal", s->bubble_over_ideal_ideal);
  add_memory (&w, s, root);
  add_memory_stages (&w, s, root);
  add_stages (&w, s, root);
  add_classes (&w, s, root);
  add_fold (s, root);
  add_links (&w, s, root);
  cJSON *evidence = cJSON_AddObjectToObject (root, "evidence");
  for (ScGrade g = 0; g < SC_N_GRADES; g++)
    add_number (&w, evidence, sc_grade_name (g), s->grade_share[g]);
  cJSON *assumptions = cJSON_AddArrayToObject (root, "assumptions");
  for (guint i = 0; s->assumptions != NULL && i < s->assumptions->len; i++)
    {
      g_autofree char *valid = g_utf8_make_valid (g_ptr_array_index (s->assumptions, i), -1);
      cJSON_AddItemToArray (assumptions, cJSON_CreateString (valid));
    }
  if (w.not_finite != NULL)
    {
      g_set_error (error, SC_REPORT_ERROR, SC_REPORT_ERROR_NOT_FINITE, "report: %s is not a finite number", w.not_finite);
      return FALSE;
    }
  sc_json_print (root, out);
  return TRUE;
}

const ScReport sc_report_json = { .name = "json", .summary = "for programs: stable keys, SI units", .write = json_write };
