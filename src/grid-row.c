/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-row.c - the columns of a sweep, as JSON lines and as CSV. */
#include "grid-row.h"
#include <math.h>
#include <string.h>

static const char *const status_names[] = {
  [SC_POINT_FITS] = "fits", [SC_POINT_AT_RISK] = "at_risk", [SC_POINT_DOES_NOT_FIT] = "does_not_fit", [SC_POINT_REFUSED] = "refused", [SC_POINT_ERROR] = "error",
};
G_STATIC_ASSERT (G_N_ELEMENTS (status_names) == SC_N_POINT_STATUSES);

const char *
sc_point_status_name (ScPointStatus status)
{
  g_return_val_if_fail ((guint) status < SC_N_POINT_STATUSES, NULL);
  return status_names[status];
}

/* ---- Columns ---- */

#define NUMBER(name, expression)                                                                                       \
  static double name (const ScSummary *s)                                                                              \
  {                                                                                                                    \
    return (double) (expression);                                                                                      \
  }
#define FULLEST s->classes[s->memory_class]
NUMBER (step_time_s, sc_time_to_s (s->step))
NUMBER (tokens_per_s, s->tokens_per_s)
NUMBER (tokens_per_s_per_gpu, s->tokens_per_s_per_gpu)
NUMBER (model_tflops_per_gpu, s->model_tflops_per_gpu)
NUMBER (mfu_half_causal, s->mfu_half_causal)
NUMBER (mfu_full, s->mfu_full)
NUMBER (hfu, s->hfu)
NUMBER (bubble_fraction, s->bubble_fraction)
NUMBER (peak_device_bytes, FULLEST.peak_device_bytes)
NUMBER (peak_reserved_bytes, FULLEST.peak_reserved_bytes)
NUMBER (peak_allocated_bytes, FULLEST.peak_allocated_bytes)
NUMBER (capacity_bytes, FULLEST.capacity_bytes)
NUMBER (peak_stage, FULLEST.stage)
NUMBER (gpus, s->gpus)
NUMBER (nodes, s->nodes)
NUMBER (tp, s->workload->plan.tp)
NUMBER (pp, s->workload->plan.pp)
NUMBER (vpp, s->workload->plan.vpp)
NUMBER (dp, s->workload->plan.dp)
NUMBER (cp, s->workload->plan.cp)
NUMBER (ep, s->workload->plan.ep)
NUMBER (micro_batch, s->workload->plan.micro_batch)
NUMBER (global_batch, s->workload->plan.global_batch)
NUMBER (microbatches, s->microbatches)
#undef FULLEST
#undef NUMBER

static const ScGridColumn columns[] = {
  { "step_time_s", FALSE, step_time_s, "time of one training step" },
  { "tokens_per_s", FALSE, tokens_per_s, "tokens of a step over its time" },
  { "tokens_per_s_per_gpu", FALSE, tokens_per_s_per_gpu, "the same per GPU of the job" },
  { "model_tflops_per_gpu", FALSE, model_tflops_per_gpu, "model FLOPs per second and GPU in 10^12, causal attention counted half" },
  { "mfu_half_causal", FALSE, mfu_half_causal, "model FLOPs utilisation, causal attention counted half" },
  { "mfu_full", FALSE, mfu_full, "the same, attention counted in full" },
  { "hfu", FALSE, hfu, "hardware FLOPs utilisation: recompute counted" },
  { "bubble_fraction", FALSE, bubble_fraction, "pipeline bubble over step, mean over stages" },
  { "peak_device_bytes", TRUE, peak_device_bytes, "memory of the fullest GPU at its peak, all that nvidia-smi would show" },
  { "peak_reserved_bytes", TRUE, peak_reserved_bytes, "of that what the caching allocator holds" },
  { "peak_allocated_bytes", TRUE, peak_allocated_bytes, "of that tensors" },
  { "capacity_bytes", TRUE, capacity_bytes, "memory of that GPU" },
  { "peak_stage", TRUE, peak_stage, "its pipeline stage" },
  { "gpus", TRUE, gpus, "GPUs of the job" },
  { "nodes", TRUE, nodes, "nodes that they are in" },
  { "tp", TRUE, tp, "the plan as simulated: tensor-parallel size" },
  { "pp", TRUE, pp, "pipeline stages" },
  { "vpp", TRUE, vpp, "chunks of a stage" },
  { "dp", TRUE, dp, "data-parallel size" },
  { "cp", TRUE, cp, "context-parallel size" },
  { "ep", TRUE, ep, "expert-parallel size" },
  { "micro_batch", TRUE, micro_batch, "sequences of a micro-batch" },
  { "global_batch", TRUE, global_batch, "sequences of a step" },
  { "microbatches", TRUE, microbatches, "micro-batches of a step and pipeline" },
};
#define TIMES_AFTER 8 /* columns */

const ScGridColumn *
sc_grid_columns (guint *ret_n)
{
  *ret_n = G_N_ELEMENTS (columns);
  return columns;
}

guint
sc_grid_times_after (void)
{
  return TIMES_AFTER;
}

/* Calls @one for every column of a summary in order; @summary NULL: with NAN. */
static void
for_columns (const ScSummary *summary, void (*one) (GString *out, const char *name, gboolean whole, double value), GString *out)
{
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    {
      for (guint kind = 0; i == TIMES_AFTER && kind < SC_N_TIMES; kind++)
        {
          char name[64];
          double sum = 0;
          for (guint s = 0; summary != NULL && s < summary->n_stages; s++)
            sum += sc_time_to_s (summary->stages[s].time[kind]);
          g_snprintf (name, sizeof name, "%s_s", sc_time_kind_name ((ScTimeKind) kind));
          one (out, name, FALSE, summary != NULL ? sum / summary->n_stages : NAN);
        }
      one (out, columns[i].name, columns[i].whole, summary != NULL ? columns[i].get (summary) : NAN);
    }
}

static void
append_number (GString *out, gboolean whole, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append (out, g_ascii_formatd (text, sizeof text, whole ? "%.0f" : "%.12g", value));
}

/* ---- JSON lines ---- */

static void
jsonl_header (const ScGrid *grid G_GNUC_UNUSED, GString *out G_GNUC_UNUSED)
{
}

static void
jsonl_begin (const ScGridPoint *p, GString *out)
{
  g_string_append_printf (out, "{\"sweep\":\"%s\",\"points\":%" G_GUINT64_FORMAT ",\"point\":%" G_GUINT64_FORMAT ",", p->id, p->grid->n_points, p->point);
}

static void
jsonl_text (GString *out, const char *text)
{
  g_autoptr (cJSON) item = cJSON_CreateString (text);
  char *const printed = cJSON_PrintUnformatted (item);
  g_string_append (out, printed);
  cJSON_free (printed);
}

static void
jsonl_number (GString *out, const char *name, gboolean whole, double value)
{
  g_string_append_printf (out, ",\"%s\":", name);
  if (isfinite (value))
    append_number (out, whole, value);
  else
    g_string_append (out, "null");
}

static void
jsonl_write (const ScGridPoint *p, ScPointStatus status, const ScSummary *summary, const char *why, GString *out)
{
  guint value[SC_GRID_MAX_AXES];
  sc_grid_choose (p->grid, p->point, value);
  jsonl_begin (p, out);
  for (guint i = 0; i < p->grid->axes->len; i++)
    {
      const ScGridAxis *const axis = g_ptr_array_index (p->grid->axes, i);
      for (guint k = 0; k < axis->n_keys; k++)
        {
          jsonl_text (out, axis->keys[k]);
          g_string_append_printf (out, ":%s,", axis->json[value[i] * axis->n_keys + k]);
        }
    }
  g_string_append_printf (out, "\"status\":\"%s\"", sc_point_status_name (status));
  if (summary != NULL)
    for_columns (summary, jsonl_number, out);
  else
    {
      g_string_append (out, ",\"why\":");
      jsonl_text (out, why);
    }
  g_string_append (out, "}\n");
}

static const ScGridFormat jsonl = { .name = "jsonl", .write_header = jsonl_header, .write_begin = jsonl_begin, .write = jsonl_write };

/* ---- CSV, RFC 4180 ---- */

static void
csv_text (GString *out, const char *text)
{
  if (strpbrk (text, ",\"\n\r") == NULL)
    {
      g_string_append (out, text);
      return;
    }
  g_string_append_c (out, '"');
  for (; *text != '\0'; text++)
    g_string_append_printf (out, "%s%c", *text == '"' ? "\"" : "", *text == '\n' || *text == '\r' ? ' ' : *text); /* a line is a point */
  g_string_append_c (out, '"');
}

static void
csv_name (GString *out, const char *name, gboolean whole G_GNUC_UNUSED, double value G_GNUC_UNUSED)
{
  g_string_append_printf (out, ",%s", name);
}

static void
csv_number (GString *out, const char *name G_GNUC_UNUSED, gboolean whole, double value)
{
  g_string_append_c (out, ',');
  if (isfinite (value))
    append_number (out, whole, value);
}

static void
csv_header (const ScGrid *grid, GString *out)
{
  g_string_append (out, "sweep,points,point");
  for (guint i = 0; i < grid->axes->len; i++)
    for (char **key = ((const ScGridAxis *) g_ptr_array_index (grid->axes, i))->keys; *key != NULL; key++)
      {
        g_string_append_c (out, ',');
        csv_text (out, *key);
      }
  g_string_append (out, ",status");
  for_columns (NULL, csv_name, out);
  g_string_append (out, ",why\n");
}

static void
csv_begin (const ScGridPoint *p, GString *out)
{
  g_string_append_printf (out, "%s,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",", p->id, p->grid->n_points, p->point);
}

static void
csv_write (const ScGridPoint *p, ScPointStatus status, const ScSummary *summary, const char *why, GString *out)
{
  guint value[SC_GRID_MAX_AXES];
  sc_grid_choose (p->grid, p->point, value);
  csv_begin (p, out);
  for (guint i = 0; i < p->grid->axes->len; i++)
    {
      const ScGridAxis *const axis = g_ptr_array_index (p->grid->axes, i);
      for (guint k = 0; k < axis->n_keys; k++)
        {
          csv_text (out, axis->plain[value[i] * axis->n_keys + k]);
          g_string_append_c (out, ',');
        }
    }
  g_string_append (out, sc_point_status_name (status));
  for_columns (summary, csv_number, out);
  g_string_append_c (out, ',');
  if (why != NULL)
    csv_text (out, why);
  g_string_append_c (out, '\n');
}

static const ScGridFormat csv = { .name = "csv", .header = "column names", .write_header = csv_header, .write_begin = csv_begin, .write = csv_write };

/* ---- The table ---- */

const ScGridFormat *const *
sc_grid_format_all (void)
{
  static const ScGridFormat *const all[] = { &jsonl, &csv, NULL };
  return all;
}

const ScGridFormat *
sc_grid_format_find (const char *name)
{
  for (const ScGridFormat *const *format = sc_grid_format_all (); *format != NULL; format++)
    if (strcmp ((*format)->name, name) == 0)
      return *format;
  return NULL;
}
