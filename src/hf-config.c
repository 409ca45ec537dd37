/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config.c - reads a config.json by the rules of its type (hf-config-rules.c), and gives its fields to a workload. */
#include "hf-config-parts.h"
#include "library.h"
#include "workload-json.h"
#include <string.h>

/* ---- Fields ---- */

static void
field_free (gpointer data)
{
  ScHfField *field = data;
  cJSON_Delete (field->value);
  g_free (field->origin);
  g_free (field);
}

void
sc_hf_config_free (ScHfConfig *config)
{
  if (config == NULL)
    return;
  sc_json_free (config->json);
  g_ptr_array_unref (config->fields);
  g_ptr_array_unref (config->unused);
  g_free (config);
}

/* Row of the model's table for "hidden" or "mla.q_lora_rank". */
static const ScField *
model_row (const char *name, const ScFieldTable **ret_table, const char **ret_object)
{
  const ScFieldTable *table = &sc_model_table;
  const char *dot = strchr (name, '.');
  *ret_object = NULL;
  for (const ScField *row = table->fields; row->key != NULL; row++)
    {
      if (dot != NULL && strncmp (row->key, name, (gsize) (dot - name)) == 0 && row->key[dot - name] == '\0')
        {
          table = row->table;
          *ret_object = row->key;
          break;
        }
    }
  *ret_table = table;
  for (const ScField *row = table->fields; row->key != NULL; row++)
    if (strcmp (row->key, dot != NULL ? dot + 1 : name) == 0)
      return row;
  g_return_val_if_reached (NULL);
}

static gboolean
is_field (const ScHfField *field, const char *name)
{
  const gsize n = field->object != NULL ? strlen (field->object) : 0;
  if (n > 0 && (strncmp (name, field->object, n) != 0 || name[n] != '.'))
    return FALSE;
  return strcmp (field->field->key, n > 0 ? name + n + 1 : name) == 0;
}

static const ScHfField *
find_field (const ScHfConfig *config, const char *name)
{
  for (guint i = 0; i < config->fields->len; i++)
    if (is_field (g_ptr_array_index (config->fields, i), name))
      return g_ptr_array_index (config->fields, i);
  return NULL;
}

void
sc_hf_drop (HfReader *reader, const char *name)
{
  for (guint i = 0; i < reader->config->fields->len; i++)
    if (is_field (g_ptr_array_index (reader->config->fields, i), name))
      g_ptr_array_remove_index (reader->config->fields, i--);
}

/* @value (taken) becomes @name, if the row of the workload's table accepts it. */
gboolean
sc_hf_put (HfReader *reader, const char *name, cJSON *value, const cJSON *item, char *origin, GError **error)
{
  const ScFieldTable *table;
  const char *object;
  ScHfField *field = g_new0 (ScHfField, 1);
  field->field = model_row (name, &table, &object);
  field->object = object;
  field->value = value;
  field->origin = origin;
  field->item = item;
  sc_hf_drop (reader, name);
  g_ptr_array_add (reader->config->fields, field);

  ScModel scratch = { .name = NULL };
  return sc_fields_read_value (field->field, table, reader->config->json, item != NULL ? item : value, &scratch, error);
}

/* What follows from several keys; @item (may be NULL) is the one to blame. */
gboolean
sc_hf_derive (HfReader *reader, const char *name, double value, const cJSON *item, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  char *origin = g_strdup_vprintf (format, args);
  va_end (args);
  const ScFieldTable *table;
  const char *object;
  const ScField *row = model_row (name, &table, &object);
  cJSON *json = row->kind == SC_FIELD_BOOL ? cJSON_CreateBool (value != 0) : cJSON_CreateNumber (value);
  ScHfField *field = g_new0 (ScHfField, 1);
  *field = (ScHfField){ .field = row, .object = object, .value = json, .origin = origin, .item = item };
  sc_hf_drop (reader, name);
  g_ptr_array_add (reader->config->fields, field);
  return TRUE;
}

/* Value of a field so far, 0 where it has none. */
double
sc_hf_value_of (const HfReader *reader, const char *name)
{
  const ScHfField *field = find_field (reader->config, name);
  if (field == NULL)
    return 0;
  return cJSON_IsBool (field->value) ? cJSON_IsTrue (field->value) : field->value->valuedouble;
}

/* ---- Keys of the file ---- */

/* Member @path ("ffn_config/moe_top_k") of @object. */
const cJSON *
sc_hf_member (const cJSON *object, const char *path)
{
  g_auto (GStrv) names = g_strsplit (path, "/", -1);
  for (char **name = names; *name != NULL && object != NULL; name++)
    object = cJSON_IsObject (object) ? cJSON_GetObjectItemCaseSensitive (object, *name) : NULL;
  return object;
}

/* The key, marked as used; NULL if it is not there.  Files of several parts say beside them whether tables are tied. */
const cJSON *
sc_hf_look_up (HfReader *reader, const char *path)
{
  const cJSON *item = sc_hf_member (reader->config->object, path);
  if (item == NULL && strcmp (path, "tie_word_embeddings") == 0)
    item = sc_hf_member (reader->config->json->root, path);
  if (item != NULL)
    g_hash_table_add (reader->used, (gpointer) (gsize) item);
  return item;
}

/* The same, where null is nothing. */
const cJSON *
sc_hf_look_up_value (HfReader *reader, const char *path)
{
  const cJSON *item = sc_hf_look_up (reader, path);
  return item == NULL || cJSON_IsNull (item) ? NULL : item;
}

static gboolean
fail_found (const HfReader *reader, const cJSON *item, const char *expected, GError **error)
{
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (reader->config->json, item, NULL, error, "found %s, expected %s", found, expected);
  return FALSE;
}

/* @path is not there. */
static gboolean
fail_missing (const HfReader *reader, const char *path, const char *expected, GError **error)
{
  const cJSON *object = reader->config->object;
  const char *slash;
  for (; (slash = strchr (path, '/')) != NULL; path = slash + 1)
    {
      g_autofree char *name = g_strndup (path, (gsize) (slash - path));
      const cJSON *below = cJSON_GetObjectItemCaseSensitive (object, name);
      if (!cJSON_IsObject (below))
        {
          g_autofree char *found = below != NULL ? sc_json_found (below) : NULL;
          sc_json_fail (reader->config->json, object, name, error, "%s%s, expected an object",
                        below != NULL ? "found " : "missing", below != NULL ? found : "");
          return FALSE;
        }
      object = below;
    }
  sc_json_fail (reader->config->json, object, path, error, "missing, expected %s", expected);
  return FALSE;
}

/* A flag that is no field. */
gboolean
sc_hf_read_flag (HfReader *reader, const char *path, gboolean fallback, gboolean *ret_flag, GError **error)
{
  const cJSON *item = sc_hf_look_up_value (reader, path);
  if (item != NULL && !cJSON_IsBool (item))
    return fail_found (reader, item, "true or false", error);
  *ret_flag = item != NULL ? cJSON_IsTrue (item) : fallback;
  return TRUE;
}

/* A count that is no field. */
gboolean
sc_hf_read_count (HfReader *reader, const char *path, guint fallback, guint *ret_count, GError **error)
{
  static const ScField count = { .key = "count", .kind = SC_FIELD_COUNT, .min = 0, .max = 1e7 };
  const cJSON *item = sc_hf_look_up_value (reader, path);
  *ret_count = fallback;
  return item == NULL || sc_fields_read_value (&count, &sc_model_table, reader->config->json, item, ret_count, error);
}

gboolean
sc_hf_refuse (const HfReader *reader, const cJSON *item, GError **error, const char *why)
{
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (reader->config->json, item, NULL, error, "found %s: %s", found, why);
  return FALSE;
}

static gboolean
apply_rule (HfReader *reader, const HfRule *rule, GError **error)
{
  const ScFieldTable *table;
  const char *object;
  const ScField *row = model_row (rule->field, &table, &object);
  const gboolean needed = row->fallback == NULL && row->derived == NULL;
  g_auto (GStrv) keys = g_strsplit (rule->keys != NULL ? rule->keys : "", " ", -1);
  const cJSON *item = NULL;
  const char *key = NULL;
  for (char **k = keys; *k != NULL; k++)
    {
      const cJSON *found = **k != '\0' ? sc_hf_look_up (reader, *k) : NULL;
      if (item == NULL || (cJSON_IsNull (item) && found != NULL))
        {
          item = found;
          key = *k;
        }
    }
  if (item != NULL && cJSON_IsNull (item) && !needed)
    return TRUE; /* null: nothing, or what follows from other fields */
  if (item != NULL)
    return sc_hf_put (reader, rule->field, cJSON_Duplicate (item, TRUE), item, g_strdup_printf ("from %s", key), error);
  if (rule->fallback != NULL && *rule->fallback != '\0')
    return sc_hf_put (reader, rule->field, cJSON_Parse (rule->fallback), NULL,
                      g_strdup (rule->keys == NULL ? "all of this type" : "default of transformers"), error);
  if (rule->fallback == NULL && !needed)
    return TRUE;
  return fail_missing (reader, keys[0], row->kind == SC_FIELD_BOOL ? "true or false" : "a whole number", error);
}

/* ---- Which type ---- */

/* "Qwen2MoeForCausalLM" and "qwen2_moe" are one word. */
static char *
plain_word (const char *name)
{
  static const char *const ends[] = { "ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model" };
  g_autofree char *word = g_strdup (name);
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    if (g_str_has_suffix (word, ends[i]))
      {
        word[strlen (word) - strlen (ends[i])] = '\0';
        break;
      }
  GString *out = g_string_new (NULL);
  for (const char *p = word; *p != '\0'; p++)
    if (g_ascii_isalnum (*p))
      g_string_append_c (out, g_ascii_tolower (*p));
  return g_string_free (out, FALSE);
}

static const HfType *
find_type (const char *name, gboolean is_architecture)
{
  g_autofree char *wanted = is_architecture ? plain_word (name) : g_strdup (name);
  for (guint i = 0; i < sc_hf_n_types (); i++)
    {
      g_auto (GStrv) words = g_strsplit (sc_hf_types[i].types, " ", -1);
      for (char **word = words; *word != NULL; word++)
        {
          g_autofree char *here = is_architecture ? plain_word (*word) : g_strdup (*word);
          if (strcmp (here, wanted) == 0)
            return &sc_hf_types[i];
        }
    }
  return NULL;
}

static gboolean
fail_type (const ScJson *json, const cJSON *item, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < sc_hf_n_types (); i++)
    {
      g_auto (GStrv) words = g_strsplit (sc_hf_types[i].types, " ", -1);
      for (char **word = words; *word != NULL && !sc_hf_types[i].refused; word++)
        g_ptr_array_add (known, g_strdup (*word));
    }
  g_ptr_array_add (known, NULL);
  g_autofree char *found = sc_json_found (item);
  const char *nearest = sc_nearest (item->valuestring, (const char *const *) known->pdata);
  sc_json_fail (json, item, NULL, error, "found %s, which is not a known type of model%s%s%s", found,
                nearest != NULL ? "; the nearest is \"" : " (see stepcast list model-types)",
                nearest != NULL ? nearest : "", nearest != NULL ? "\"" : "");
  return FALSE;
}

/* Models of several parts keep the language model in one of them. */
static const cJSON *
find_part (const cJSON *root)
{
  static const char *const parts[] = { "text_config", "llm_config", "language_config" };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      const cJSON *part = cJSON_GetObjectItemCaseSensitive (root, parts[i]);
      if (cJSON_IsObject (part))
        return part;
    }
  return root;
}

static const HfType *
choose_type (ScHfConfig *config, GError **error)
{
  const ScJson *json = config->json;
  const cJSON *objects[] = { config->object, json->root };
  for (guint i = 0; i < G_N_ELEMENTS (objects); i++)
    {
      const cJSON *item = cJSON_GetObjectItemCaseSensitive (objects[i], "model_type");
      const cJSON *array = cJSON_GetObjectItemCaseSensitive (objects[i], "architectures");
      const gboolean by_name = item != NULL && !cJSON_IsNull (item);
      if (!by_name)
        item = cJSON_IsArray (array) ? array->child : NULL;
      if (item == NULL)
        continue;
      const HfType *type = cJSON_IsString (item) ? find_type (item->valuestring, !by_name) : NULL;
      config->type = item->valuestring;
      if (type != NULL && !type->refused)
        return type;
      if (type != NULL)
        sc_json_fail (json, item, NULL, error, "found \"%s\": %s", item->valuestring, type->summary);
      else if (cJSON_IsString (item))
        fail_type (json, item, error);
      else
        {
          g_autofree char *found = sc_json_found (item);
          sc_json_fail (json, item, NULL, error, "found %s, expected a text in double quotes", found);
        }
      return NULL;
    }
  sc_json_fail (json, json->root, "model_type", error,
                "missing, expected the type of a model (see stepcast list model-types)");
  return NULL;
}

/* ---- Reading ---- */

static void
note_unused (HfReader *reader, const cJSON *object)
{
  static const char *const names[] = { "model_type", "architectures", NULL };
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    if (item != reader->config->object && !g_hash_table_contains (reader->used, item)
        && !g_strv_contains (names, item->string))
      {
        gboolean below = FALSE; /* ffn_config: parts of it are */
        for (const cJSON *child = item->child; child != NULL; child = child->next)
          below |= g_hash_table_contains (reader->used, child);
        if (!below)
          g_ptr_array_add (reader->config->unused, g_strdup (item->string));
      }
}

static int
compare_fields (gconstpointer a, gconstpointer b)
{
  const ScHfField *fields[] = { *(const ScHfField *const *) a, *(const ScHfField *const *) b };
  guint place[2] = { 0, 0 };
  for (guint i = 0; i < 2; i++)
    {
      const char *key = fields[i]->object != NULL ? fields[i]->object : fields[i]->field->key;
      while (strcmp (sc_model_table.fields[place[i]].key, key) != 0)
        place[i]++;
    }
  if (place[0] != place[1])
    return place[0] < place[1] ? -1 : 1;
  return fields[0]->field < fields[1]->field ? -1 : fields[0]->field > fields[1]->field ? 1 : 0; /* rows of one table */
}

/* The last rule of @rules for the field of @rule is the one that holds. */
static gboolean
is_replaced (const HfType *type, guint list, const HfRule *rule)
{
  for (guint i = list; i < G_N_ELEMENTS (type->rules) && type->rules[i] != NULL; i++)
    for (const HfRule *other = i == list ? rule + 1 : type->rules[i]; other->field != NULL; other++)
      if (strcmp (other->field, rule->field) == 0)
        return TRUE;
  return FALSE;
}

static gboolean
read_fields (HfReader *reader, GError **error)
{
  const HfType *type = reader->type;
  for (guint i = 0; i < G_N_ELEMENTS (type->rules) && type->rules[i] != NULL; i++)
    for (const HfRule *rule = type->rules[i]; rule->field != NULL; rule++)
      if (!is_replaced (type, i, rule) && (rule->keys != NULL || rule->fallback != NULL)
          && !apply_rule (reader, rule, error))
        return FALSE;
  return type->finish == NULL || type->finish (reader, error);
}

ScHfConfig *
sc_hf_config_take_json (ScJson *json, GError **error)
{
  g_autoptr (ScHfConfig) config = g_new0 (ScHfConfig, 1);
  config->json = json;
  config->fields = g_ptr_array_new_with_free_func (field_free);
  config->unused = g_ptr_array_new_with_free_func (g_free);
  config->object = find_part (json->root);
  const HfType *type = choose_type (config, error);
  if (type == NULL)
    return NULL;

  g_autoptr (GHashTable) used = g_hash_table_new (NULL, NULL);
  HfReader reader = { config, type, used };
  if (!read_fields (&reader, error))
    return NULL;
  g_ptr_array_sort (config->fields, compare_fields);
  note_unused (&reader, config->object);
  if (config->object != json->root)
    note_unused (&reader, json->root);
  return g_steal_pointer (&config);
}

ScHfConfig *
sc_hf_config_load (const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "config.json of a model", SC_LIBRARY_MAX_BYTES, &length, error);
  ScJson *json = text != NULL ? sc_json_parse (path, text, length, error) : NULL;
  return json != NULL ? sc_hf_config_take_json (json, error) : NULL;
}

gboolean
sc_hf_config_is (const ScJson *json)
{
  static const char *const keys[] = { "model_type", "architectures", "text_config" };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (cJSON_GetObjectItemCaseSensitive (json->root, keys[i]) != NULL)
      return TRUE;
  return FALSE;
}

/* ---- Use ---- */

void
sc_hf_config_add (ScHfConfig *config, cJSON *model)
{
  for (guint i = 0; i < config->fields->len; i++)
    {
      ScHfField *field = g_ptr_array_index (config->fields, i);
      cJSON *object = model;
      if (field->object != NULL)
        {
          object = cJSON_GetObjectItemCaseSensitive (model, field->object);
          if (object == NULL)
            object = cJSON_AddObjectToObject (model, field->object);
          if (!cJSON_IsObject (object))
            continue; /* null: none; anything else is refused by the table */
        }
      field->taken = cJSON_GetObjectItemCaseSensitive (object, field->field->key) == NULL;
      if (field->taken)
        cJSON_AddItemToObject (object, field->field->key, cJSON_Duplicate (field->value, TRUE));
    }
}

gboolean
sc_hf_config_fail (const ScHfConfig *config, const char *message, GError **error)
{
  const gsize skip = strlen ("/model/");
  const char *rest = strstr (message, ": ");
  if (!g_str_has_prefix (message, "/model/") || rest == NULL)
    return FALSE;
  g_autofree char *name = g_strndup (message + skip, (gsize) (rest - message) - skip);
  g_strdelimit (name, "/", '.');
  const ScHfField *field = find_field (config, name);
  if (field == NULL || !field->taken || field->item == NULL)
    return FALSE;
  sc_json_fail (config->json, field->item, NULL, error, "%s", rest + 2);
  return TRUE;
}

gboolean
sc_hf_config_model (ScHfConfig *config, ScModel *ret_model, GError **error)
{
  g_autoptr (ScJson) alone = sc_json_parse (config->json->file, "{}", 2, error);
  g_autoptr (GError) why = NULL;
  ScModel model = { .name = NULL };
  sc_hf_config_add (config, alone->root);
  if (!sc_fields_read (&sc_model_table, alone, alone->root, &model, error))
    return FALSE;
  if (!sc_model_complete (&model, 0, &why) || !sc_model_check (&model, &why))
    {
      const char *rest = strstr (why->message, ": ");
      if (!sc_hf_config_fail (config, why->message, error))
        sc_json_fail (config->json, config->object, NULL, error, "%s", rest != NULL ? rest + 2 : why->message);
      return FALSE;
    }
  *ret_model = model;
  return TRUE;
}
