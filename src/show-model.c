/* SPDX-License-Identifier: GPL-3.0-or-later */
/* show-model.c - a model in numbers: each field with where it is from, and its parameters. */
#include "show-model.h"
#include "cmd.h"
#include "describe.h"
#include "hf-config.h"
#include "library.h"
#include "models/model.h"
#include "override.h"
#include "units.h"
#include "workload-json.h"
#include <string.h>

#define WIDTH 100
#define COLUMN 40

/* What is shown: a workload's model, or one that only its own file describes. */
typedef struct
{
  const ScModel *model;
  guint seq;            /* 0: not known */
  const ScHfConfig *hf; /* NULL: none */
  GHashTable *said;     /* char *: keys of the workload's model, "mla.q_lora_rank"; owned by the caller */
} Shown;

/* ---- Fields ---- */

/* Value of @row in @model, as a workload would say it; NULL where that is nowhere. */
static char *
value_text (const ScField *row, const ScModel *model)
{
  if (row->offset == SC_FIELD_NOWHERE)
    return NULL;
  const void *at = (const char *) model + row->offset;
  switch (row->kind)
    {
    case SC_FIELD_BOOL:
      return g_strdup (*(const gboolean *) at ? "true" : "false");
    case SC_FIELD_COUNT:
      return g_strdup_printf ("%u", *(const guint *) at);
    case SC_FIELD_NUMBER:
      return g_strdup_printf ("%g", *(const double *) at);
    case SC_FIELD_CHOICE:
      for (const ScChoice *choice = row->choices; choice->name != NULL; choice++)
        if (choice->value == *(const int *) at)
          return g_strdup (choice->name);
      return NULL;
    case SC_FIELD_COUNT64:
    case SC_FIELD_STRING:
    case SC_FIELD_NAME:
    case SC_FIELD_CITED:
    case SC_FIELD_CURVE:
    case SC_FIELD_OBJECT:
    case SC_FIELD_OTHER:
    case SC_FIELD_LATER:
    default:
      return NULL;
    }
}

/* Where the value is from; NULL: it is what every model has that says nothing. */
static char *
origin_text (const Shown *shown, const ScField *row, const char *object, const char *value)
{
  g_autofree char *name = object != NULL ? g_strdup_printf ("%s.%s", object, row->key) : g_strdup (row->key);
  if (g_hash_table_contains (shown->said, name))
    return g_strdup_printf ("from %s of the workload", name);
  for (guint i = 0; shown->hf != NULL && i < shown->hf->fields->len; i++)
    {
      const ScHfField *field = g_ptr_array_index (shown->hf->fields, i);
      if (field->field == row && g_strcmp0 (field->object, object) == 0 && field->taken)
        return g_strdup (field->origin);
    }
  if (shown->model->mla.kv_lora_rank > 0 && strcmp (name, "head_dim") == 0)
    return g_strdup ("qk_nope_head_dim + qk_rope_head_dim");
  if (shown->model->positions != SC_POSITIONS_LEARNED && strcmp (name, "max_positions") == 0)
    return NULL; /* no table */
  if (row->fallback != NULL)
    return strcmp (row->fallback, value) == 0 ? NULL : g_strdup ("follows from other keys");
  return strcmp (value, "0") == 0 ? NULL : g_strdup (row->derived);
}

static void
append_fields (const Shown *shown, const ScFieldTable *table, const char *object, GString *out)
{
  for (const ScField *row = table->fields; row->key != NULL; row++)
    {
      if (row->kind == SC_FIELD_OBJECT)
        append_fields (shown, row->table, row->key, out);
      g_autofree char *value = value_text (row, shown->model);
      g_autofree char *origin = value != NULL ? origin_text (shown, row, object, value) : NULL;
      if (origin == NULL)
        continue;
      g_autofree char *name = object != NULL ? g_strdup_printf ("%s.%s", object, row->key) : g_strdup (row->key);
      g_string_append_printf (out, "  %-22s %10s    %s\n", name, value, origin);
    }
}

/* ---- Counts ---- */

static void
append_count (GString *out, const char *what, guint64 n, guint times)
{
  g_string_append_printf (out, "  %-18s %18" G_GUINT64_FORMAT, what, n);
  if (times > 0)
    g_string_append_printf (out, "  x %u", times);
  g_string_append_c (out, '\n');
}

static void
append_total (GString *out, const char *what, guint64 n, const char *note)
{
  g_autofree char *text = sc_format_count ((double) n);
  g_string_append_printf (out, "  %-18s %18" G_GUINT64_FORMAT "  = %s%s\n", what, n, text, note);
}

static void
append_counts (const Shown *shown, GString *out)
{
  const ScModel *m = shown->model;
  const guint moe = sc_model_moe_layers (m);
  g_string_append (out, "\nParameters\n");
  append_count (out, "embedding", sc_model_embedding_params (m, shown->seq), 0);
  if (moe < m->layers)
    append_count (out, moe > 0 ? "dense layer" : "layer", sc_model_layer_params (m), m->layers - moe);
  if (moe > 0)
    append_count (out, "layer of experts", sc_model_moe_layer_params (m), moe);
  append_count (out, m->tied_embeddings ? "head, table tied" : "head", sc_model_head_params (m), 0);
  append_total (out, "total", sc_model_params (m, shown->seq), "");
  if (moe > 0)
    append_total (out, "active", sc_model_active_params (m, shown->seq), " for one token");
  if (m->mtp_layers > 0)
    append_total (out, "prediction", sc_model_mtp_params (m), " beside the total");
}

static void
append_notes (const Shown *shown, GString *out)
{
  ScWorkload workload = { .model = *shown->model, .seq = shown->seq };
  g_autoptr (GError) later = NULL;
  if (!sc_workload_check_modelled (&workload, &later))
    {
      g_string_append_c (out, '\n');
      g_autofree char *text =
          g_strdup_printf ("No step can be run yet: %.*s.", (int) (strcspn (later->message, "(") - 1), later->message);
      sc_append_wrapped (out, text, 0, 2, WIDTH);
      g_string_append_c (out, '\n');
    }
  if (shown->hf == NULL || shown->hf->unused->len == 0)
    return;
  g_ptr_array_add (shown->hf->unused, NULL);
  g_autofree char *keys = g_strjoinv (", ", (char **) shown->hf->unused->pdata);
  g_ptr_array_set_size (shown->hf->unused, (int) shown->hf->unused->len - 1);
  g_autofree char *text = g_strdup_printf ("Not used of %s: %s.", shown->hf->json->file, keys);
  g_string_append_c (out, '\n');
  sc_append_wrapped (out, text, 0, 2, WIDTH);
  g_string_append_c (out, '\n');
}

static void
append_model (const Shown *shown, const char *title, GString *out)
{
  g_string_append_printf (out, "%s\n", title);
  append_fields (shown, &sc_model_table, NULL, out);
  append_counts (shown, out);
  append_notes (shown, out);
}

/* ---- Inputs ---- */

/* Keys that the object has now, before its file adds others. */
static void
note_said (GHashTable *said, const cJSON *object, const char *prefix)
{
  for (const cJSON *item = object != NULL ? object->child : NULL; item != NULL; item = item->next)
    if (cJSON_IsObject (item))
      {
        g_autofree char *below = g_strdup_printf ("%s.", item->string);
        note_said (said, item, below);
      }
    else if (!cJSON_IsNull (item))
      g_hash_table_add (said, g_strconcat (prefix, item->string, NULL));
}

static gboolean
show_workload (ScJson *json, GHashTable *said, GString *out, GError **error)
{
  note_said (said, cJSON_GetObjectItemCaseSensitive (json->root, "model"), "");
  g_autoptr (ScHfConfig) hf = NULL;
  g_autoptr (ScWorkload) workload = sc_workload_from_json_hf (json, &hf, error);
  if (workload == NULL)
    return FALSE;
  const Shown shown = { &workload->model, workload->seq, hf, said };
  g_autofree char *of = hf != NULL ? g_strdup_printf (", %s of %s", hf->type, hf->json->file) : g_strdup ("");
  g_autofree char *title = g_strdup_printf ("%s%s", workload->name, of);
  append_model (&shown, title, out);
  return TRUE;
}

static gboolean
show_config (ScJson *json, GHashTable *said, GString *out, GError **error)
{
  g_autoptr (ScHfConfig) hf = sc_hf_config_take_json (json, error);
  if (hf == NULL)
    return FALSE;
  ScModel model;
  if (!sc_hf_config_model (hf, &model, error))
    return FALSE;
  const Shown shown = { &model, 0, hf, said };
  g_autofree char *title = g_strdup_printf ("%s of %s", hf->type, json->file);
  append_model (&shown, title, out);
  return TRUE;
}

gboolean
sc_show_model (const char *argument, char **set, GString *out, GError **error)
{
  g_autoptr (GHashTable) said = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (ScJson) json = sc_library_load_json (SC_KIND_WORKLOAD, argument, error);
  if (json == NULL)
    return FALSE;
  if (sc_hf_config_is (json) && set != NULL)
    return sc_cmd_fail_usage (
        "show", error, "--set changes a workload, and %s is config.json of a model (name it as hf_config of one)",
        json->file);
  if (sc_hf_config_is (json))
    return show_config (g_steal_pointer (&json), said, out, error);
  return sc_override_apply (json, SC_OVERRIDE_WORKLOAD, set, error) && show_workload (json, said, out, error);
}
