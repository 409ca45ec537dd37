/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows-json.c - reads published runs, a line each. */
#include "rows-json.h"
#include "library.h"
#include <math.h>
#include <string.h>

#define MAX_ROWS 100000
#define MAX_GPUS 1000000
#define MAX_RANKS 65536
#define MAX_MISSING 256
#define MAX_GIB 1e6
#define MAX_SECONDS 1e9

static const char *const kind_names[] = {
  [SC_PUBLISHED_TRAINING] = "training", [SC_PUBLISHED_LAYER] = "layer", [SC_PUBLISHED_ATTENTION] = "kernel", [SC_PUBLISHED_ANALYTIC_MEMORY] = "analytic-memory",
};
G_STATIC_ASSERT (G_N_ELEMENTS (kind_names) == SC_N_PUBLISHED_KINDS);

const char *
sc_published_kind_name (ScPublishedKind kind)
{
  g_return_val_if_fail ((guint) kind < SC_N_PUBLISHED_KINDS, NULL);
  return kind_names[kind];
}

void
sc_row_free (ScRow *row)
{
  if (row == NULL)
    return;
  g_free (row->id);
  g_free (row->group);
  g_free (row->key);
  g_free (row->title);
  g_free (row->ref);
  g_free (row->framework);
  g_free (row->version);
  g_free (row->cluster.gpu);
  g_free (row->cluster.fabric);
  g_free (row->measured.allocated_by_rank_gib);
  g_free (row->measured.reserved_by_rank_gib);
  g_strfreev (row->missing);
  sc_json_free (row->json);
  g_free (row);
}

ScRows *
sc_rows_new (void)
{
  ScRows *const rows = g_new0 (ScRows, 1);
  rows->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_row_free);
  rows->ignored = g_ptr_array_new_with_free_func (g_free);
  return rows;
}

void
sc_rows_free (ScRows *rows)
{
  if (rows == NULL)
    return;
  g_ptr_array_unref (rows->rows);
  g_ptr_array_unref (rows->ignored);
  g_free (rows);
}

/* ---- Members ---- */

const cJSON *
sc_row_at (const cJSON *object, const char *key)
{
  const cJSON *const item = cJSON_IsObject (object) ? cJSON_GetObjectItemCaseSensitive (object, key) : NULL;
  return cJSON_IsNull (item) ? NULL : item;
}

const char *
sc_row_text_at (const cJSON *object, const char *key)
{
  const cJSON *const item = sc_row_at (object, key);
  return cJSON_IsString (item) ? item->valuestring : NULL;
}

double
sc_row_number_at (const cJSON *object, const char *key, double otherwise)
{
  const cJSON *const item = sc_row_at (object, key);
  return cJSON_IsNumber (item) ? item->valuedouble : otherwise;
}

guint
sc_row_count_at (const cJSON *object, const char *key, guint otherwise)
{
  const double value = sc_row_number_at (object, key, 0);
  return value >= 1 && value <= 1e9 ? (guint) value : otherwise;
}

/* ---- Tables ---- */

static const ScChoice kinds[] = {
  { "training", SC_PUBLISHED_TRAINING, FALSE }, { "layer", SC_PUBLISHED_LAYER, FALSE },
  { "kernel", SC_PUBLISHED_ATTENTION, FALSE },  { "analytic-memory", SC_PUBLISHED_ANALYTIC_MEMORY, FALSE },
  { .name = NULL },
};

static const ScChoice intras[] = {
  { "nvswitch", SC_INTRA_NVSWITCH, FALSE }, { "nvlink-mesh", SC_INTRA_NVLINK_MESH, FALSE }, { "pcie", SC_INTRA_PCIE, FALSE },
  { "nvl72", SC_INTRA_NVL72, FALSE },       { "xgmi", SC_INTRA_XGMI, FALSE },               { .name = NULL },
};

#define ROW(member) .offset = offsetof (ScRow, member)
#define TEXT(member) SC_FIELD_STRING, ROW (member), .derived = "not stated"
#define FIGURE(member, most) SC_FIELD_NUMBER, .min = 0, .max = most, ROW (member), .derived = "not printed"
#define NULLABLE .null_is_absent = TRUE

static const ScField source_fields[] = {
  { "key", TEXT (key), .help = "Short name; errors are summed up for each" },
  { "title", TEXT (title), .help = "Title, for people" },
  { "ref", TEXT (ref), .help = "Where exactly: paper and table, or repository, commit and file" },
  { .key = NULL },
};
const ScFieldTable sc_row_source_table = { .title = "row: source", .fields = source_fields, NULLABLE };

static const ScField software_fields[] = {
  { "framework", TEXT (framework), .help = "Framework, in words" },
  { "version", TEXT (version), .help = "Its version, in words" },
  { .key = NULL },
};
static const ScFieldTable software_table = { .title = "row: software", .fields = software_fields, NULLABLE };

static const ScField cluster_fields[] = {
  { "gpu", TEXT (cluster.gpu), .help = "GPU, by the name of a device" },
  { "gpus", SC_FIELD_COUNT, .min = 1, .max = MAX_GPUS, ROW (cluster.gpus), .derived = "not stated", .help = "GPUs of the run" },
  { "gpus_per_node", SC_FIELD_COUNT, .min = 1, .max = 1024, ROW (cluster.gpus_per_node), .derived = "not stated", .help = "Of a node" },
  { "intra", SC_FIELD_CHOICE, .choices = intras, ROW (cluster.intra), .derived = "not stated", .help = "What joins the GPUs of a node" },
  { "nic_gbps_per_gpu", FIGURE (cluster.nic_gbit_per_s, 1e5), .help = "Line rate of the network for each GPU, one direction, in Gb/s" },
  { "fabric", TEXT (cluster.fabric), .help = "Kind of network: ib, roce, efa, opa, ..." },
  { .key = NULL },
};
const ScFieldTable sc_row_cluster_table = { .title = "row: cluster", .fields = cluster_fields, NULLABLE };

static const ScField measured_fields[] = {
  { "step_s", FIGURE (measured.step_s, MAX_SECONDS), .help = "Time of a step" },
  { "tokens_per_s_per_gpu", FIGURE (measured.tokens_per_s_per_gpu, 1e12), .help = "Tokens a second and GPU" },
  { "samples_per_s", FIGURE (measured.samples_per_s, 1e12), .help = "Sequences a second, whole job" },
  { "samples_per_s_per_gpu", FIGURE (measured.samples_per_s_per_gpu, 1e12), .help = "Sequences a second and GPU" },
  { "peak_allocated_gib", FIGURE (measured.allocated_gib, MAX_GIB), .help = "Peak of what the framework's allocator handed out" },
  { "peak_reserved_gib", FIGURE (measured.reserved_gib, MAX_GIB), .help = "Peak of what it holds" },
  { "peak_device_gib", FIGURE (measured.device_gib, MAX_GIB), .help = "Peak as the driver counts, context and NCCL included" },
  { "peak_unspecified_gib", FIGURE (measured.unspecified_gib, MAX_GIB), .help = "A peak of which the source does not say what it is of" },
  { "peak_allocated_by_rank_gib", SC_FIELD_OTHER, .derived = "not printed", .help = "an array, of ranks 0, 1, ..." },
  { "peak_reserved_by_rank_gib", SC_FIELD_OTHER, .derived = "not printed", .help = "an array, of ranks 0, 1, ..." },
  { "oom", SC_FIELD_BOOL, ROW (measured.oom), .derived = "not known", .help = "Whether the run was out of memory" },
  { "model_state_gb", FIGURE (measured.model_state_gb, MAX_GIB), .help = "Weights, gradients and optimizer states, decimal GB" },
  { "param_and_optimizer_gib", FIGURE (measured.param_and_optimizer_gib, MAX_GIB), .help = "The same in GiB" },
  { "activation_gib", FIGURE (measured.activation_gib, MAX_GIB), .help = "Activations, as worked out by a formula" },
  { .key = NULL },
};
const ScFieldTable sc_row_measured_table = { .title = "row: measured", .fields = measured_fields, NULLABLE };

static const ScField derived_fields[] = {
  { "step_s", FIGURE (step_s, MAX_SECONDS), .help = "Canonical time of a step" },
  { .key = NULL },
};
static const ScFieldTable derived_table = { .title = "row: derived", .fields = derived_fields, NULLABLE };

static const ScField complete_fields[] = {
  { "time", SC_FIELD_BOOL, ROW (complete_time), .derived = "looked for", .help = "All is known that the time of a step hangs on" },
  { "memory", SC_FIELD_BOOL, ROW (complete_memory), .derived = "looked for", .help = "All is known that memory hangs on" },
  { .key = NULL },
};
static const ScFieldTable complete_table = { .title = "row: complete", .fields = complete_fields, NULLABLE };

#define PART(of) SC_FIELD_OTHER, .table = &of, .derived = "nothing stated"
static const ScField row_fields[] = {
  { "id", TEXT (id), .help = "Unique name" },
  { "like", SC_FIELD_OTHER, .derived = "nothing", .help = "id of an earlier row: what this one leaves out is as there, but for what was measured" },
  { "group", TEXT (group), .help = "Name of the table or sweep, whose rows differ in few things" },
  { "kind", SC_FIELD_CHOICE, .choices = kinds, .fallback = "training", ROW (kind), .help = "What was measured" },
  { "source", PART (sc_row_source_table), .help = "an object, where it was published" },
  { "software", PART (software_table), .help = "an object, the framework in words" },
  { "model", SC_FIELD_OTHER, .help = "an object, keys of a workload's model" },
  { "seq", SC_FIELD_OTHER, .derived = "not stated", .help = "a whole number, tokens per sequence" },
  { "cluster", PART (sc_row_cluster_table), .help = "an object, the machines" },
  { "plan", SC_FIELD_OTHER, .help = "an object, keys of a workload's plan" },
  { "measured", PART (sc_row_measured_table), .help = "an object, what was printed" },
  { "derived", PART (derived_table), .help = "an object, what follows from it" },
  { "complete", PART (complete_table), .help = "an object, whether enough is known" },
  { "missing", SC_FIELD_OTHER, .derived = "nothing", .help = "an array of words, what is not known" },
  { "notes", SC_FIELD_OTHER, .derived = "nothing", .help = "a text, in which rules for software may look for words" },
  { .key = NULL },
};
const ScFieldTable sc_row_table = { .title = "row: a line", .fields = row_fields, NULLABLE };

/* The objects among them. */
static const struct
{
  const char *key;
  const ScFieldTable *table;
} parts[] = {
  { "source", &sc_row_source_table },     { "software", &software_table }, { "cluster", &sc_row_cluster_table },
  { "measured", &sc_row_measured_table }, { "derived", &derived_table },   { "complete", &complete_table },
};

/* ---- Reading ---- */

/* Keys of the published form that change nothing here. */
static const char *const silent[] = { "quality", "flops_convention", "tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "from", "mfu_causal_estimate",
                                      "assumed", NULL };

static gboolean
is_in (const ScFieldTable *table, const char *key)
{
  for (const ScField *field = table->fields; field->key != NULL; field++)
    if (strcmp (field->key, key) == 0)
      return TRUE;
  return FALSE;
}

/* Takes out of @object what @table does not know, and texts that say nothing. */
static void
prune (cJSON *object, const ScFieldTable *table, const char *where, GPtrArray *ignored)
{
  cJSON *next = NULL;
  for (cJSON *item = cJSON_IsObject (object) ? object->child : NULL; item != NULL; item = next)
    {
      next = item->next;
      const gboolean empty = cJSON_IsString (item) && item->valuestring[0] == '\0';
      if (is_in (table, item->string) && !empty)
        continue;
      g_autofree char *name = g_strdup_printf ("%s%s", where, item->string);
      if (!empty && !g_strv_contains (silent, item->string) && !g_ptr_array_find_with_equal_func (ignored, name, g_str_equal, NULL))
        g_ptr_array_add (ignored, g_steal_pointer (&name));
      cJSON_Delete (cJSON_DetachItemViaPointer (object, item));
    }
}

/* Members of @from that @to has not are @to's, too, objects in objects. */
static void
inherit (cJSON *to, const cJSON *from)
{
  for (const cJSON *item = from->child; item != NULL; item = item->next)
    {
      cJSON *const own = cJSON_GetObjectItemCaseSensitive (to, item->string);
      if (own == NULL)
        cJSON_AddItemToObject (to, item->string, cJSON_Duplicate (item, TRUE));
      else if (cJSON_IsObject (own) && cJSON_IsObject (item))
        inherit (own, item);
    }
}

/* Takes over what row "like" has. */
static gboolean
read_like (const ScRows *rows, ScJson *json, GError **error)
{
  static const char *const own[] = { "id", "measured", "derived", "missing", "notes", NULL };
  const cJSON *const like = sc_row_at (json->root, "like");
  if (like == NULL)
    return TRUE;
  const ScRow *found = NULL;
  for (guint i = rows->rows->len; cJSON_IsString (like) && found == NULL && i-- > 0;)
    if (strcmp (((const ScRow *) g_ptr_array_index (rows->rows, i))->id, like->valuestring) == 0)
      found = g_ptr_array_index (rows->rows, i);
  if (found == NULL)
    {
      g_autofree char *what = sc_json_found (like);
      sc_json_fail (json, like, NULL, error, "found %s, expected the id of an earlier row", what);
      return FALSE;
    }
  for (const cJSON *item = found->json->root->child; item != NULL; item = item->next)
    {
      cJSON *const mine = cJSON_GetObjectItemCaseSensitive (json->root, item->string);
      if (g_strv_contains (own, item->string))
        continue;
      if (mine == NULL)
        cJSON_AddItemToObject (json->root, item->string, cJSON_Duplicate (item, TRUE));
      else if (cJSON_IsObject (mine) && cJSON_IsObject (item))
        inherit (mine, item);
    }
  return TRUE;
}

static gboolean
read_ranks (const ScJson *json, const cJSON *measured, const char *key, double **ret, guint *ret_n, GError **error)
{
  static const ScField peak = { .key = "peak", .kind = SC_FIELD_NUMBER, .min = 0, .max = MAX_GIB };
  const cJSON *const array = sc_row_at (measured, key);
  if (array == NULL)
    return TRUE;
  if (!sc_fields_check_array (json, array, MAX_RANKS, error))
    return FALSE;
  *ret_n = (guint) cJSON_GetArraySize (array);
  *ret = g_new0 (double, *ret_n + 1);
  guint i = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    if (!sc_fields_read_value (&peak, &sc_row_measured_table, json, item, &(*ret)[i++], error))
      return FALSE;
  return TRUE;
}

static gboolean
read_missing (const ScJson *json, ScRow *row, GError **error)
{
  const cJSON *const array = sc_row_at (json->root, "missing");
  if (array == NULL)
    return TRUE;
  if (!sc_fields_check_array (json, array, MAX_MISSING, error))
    return FALSE;
  g_autoptr (GStrvBuilder) words = g_strv_builder_new ();
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    {
      if (!cJSON_IsString (item))
        {
          g_autofree char *found = sc_json_found (item);
          sc_json_fail (json, item, NULL, error, "found %s, expected a text", found);
          return FALSE;
        }
      g_strv_builder_add (words, item->valuestring);
    }
  row->missing = g_strv_builder_end (words);
  return TRUE;
}

/* Sequences of a step of all GPUs; 0: not known. */
static double
sequences (const ScRow *row)
{
  return sc_row_number_at (sc_row_at (row->json->root, "plan"), "global_batch", 0);
}

/* The time of a step by whatever the source prints: README of the published rows, "How step_s was derived". */
static double
measured_step_s (const ScRow *row)
{
  const ScRowMeasured *const m = &row->measured;
  const double b = sequences (row), tokens = b * sc_row_number_at (row->json->root, "seq", 0), gpus = row->cluster.gpus;
  if (m->step_s > 0)
    return m->step_s;
  if (m->tokens_per_s_per_gpu > 0 && tokens > 0 && gpus > 0)
    return tokens / (m->tokens_per_s_per_gpu * gpus);
  if (m->samples_per_s_per_gpu > 0 && b > 0 && gpus > 0)
    return b / (m->samples_per_s_per_gpu * gpus);
  return m->samples_per_s > 0 && b > 0 ? b / m->samples_per_s : NAN;
}

static void
nothing_is_known (ScRow *row)
{
  ScRowMeasured *const m = &row->measured;
  row->step_s = NAN;
  row->complete_time = row->complete_memory = m->oom = -1;
  m->step_s = m->tokens_per_s_per_gpu = m->samples_per_s = m->samples_per_s_per_gpu = NAN;
  m->allocated_gib = m->reserved_gib = m->device_gib = m->unspecified_gib = NAN;
  m->model_state_gb = m->param_and_optimizer_gib = m->activation_gib = NAN;
}

static ScRow *
read_row (const ScRows *rows, const char *file, guint line, const char *text, gsize length, GError **error)
{
  GPtrArray *const ignored = rows->ignored;
  g_autofree char *where = g_strdup_printf ("%s:%u", file, line);
  g_autoptr (ScJson) json = sc_json_parse (where, text, length, error);
  if (json == NULL || !sc_fields_check_object (json, json->root, error) || !read_like (rows, json, error))
    return NULL;
  g_autoptr (ScRow) row = g_new0 (ScRow, 1);
  nothing_is_known (row);
  row->line = line;
  prune (json->root, &sc_row_table, "", ignored);
  if (!sc_fields_read (&sc_row_table, json, json->root, row, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      cJSON *const part = cJSON_GetObjectItemCaseSensitive (json->root, parts[i].key);
      g_autofree char *prefix = g_strdup_printf ("%s.", parts[i].key);
      if (part == NULL || cJSON_IsNull (part))
        continue;
      prune (part, parts[i].table, prefix, ignored);
      if (!sc_fields_check_object (json, part, error) || !sc_fields_read (parts[i].table, json, part, row, error))
        return NULL;
    }
  const cJSON *const measured = sc_row_at (json->root, "measured");
  if (!sc_fields_check_object (json, sc_row_at (json->root, "model"), error) || !sc_fields_check_object (json, sc_row_at (json->root, "plan"), error)
      || !read_ranks (json, measured, "peak_allocated_by_rank_gib", &row->measured.allocated_by_rank_gib, &row->measured.n_ranks, error)
      || !read_ranks (json, measured, "peak_reserved_by_rank_gib", &row->measured.reserved_by_rank_gib, &row->measured.n_reserved_ranks, error)
      || !read_missing (json, row, error))
    return NULL;
  if (row->id == NULL)
    row->id = g_strdup_printf ("line %u", line);
  row->json = g_steal_pointer (&json);
  if (!(row->step_s > 0))
    row->step_s = measured_step_s (row);
  return g_steal_pointer (&row);
}

gboolean
sc_rows_parse (ScRows *rows, const char *file, const char *text, gsize length, GError **error)
{
  guint line = 1, n = 0;
  for (const char *p = text, *const stop = text + length; p < stop; line++)
    {
      const char *const newline = memchr (p, '\n', (gsize) (stop - p));
      const char *const end = newline != NULL ? newline : stop;
      const char *first = p;
      while (first < end && (*first == ' ' || *first == '\t' || *first == '\r'))
        first++;
      p = newline != NULL ? newline + 1 : stop;
      if (first == end)
        continue;
      if (rows->rows->len == MAX_ROWS)
        {
          g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: found more than %u rows, expected at most that many", file, line, MAX_ROWS);
          return FALSE;
        }
      ScRow *const row = read_row (rows, file, line, first, (gsize) (end - first), error);
      if (row == NULL)
        return FALSE;
      g_ptr_array_add (rows->rows, row);
      n++;
    }
  if (n > 0)
    return TRUE;
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: found no rows, expected one JSON object a line", file);
  return FALSE;
}

gboolean
sc_rows_load (ScRows *rows, const char *argument, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_MEASUREMENTS, argument, &file, &length, error);
  return text != NULL && sc_rows_parse (rows, file, text, length, error);
}
