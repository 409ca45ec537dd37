/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config.c - config.json of a published model (Hugging Face transformers) becomes the "model" of a workload.
 * Defaults are those of the library's configuration classes (configuration_TYPE.py), as files leave out what equals
 * them; where a class has none, or none that is known here, the key is required. */
#include "hf-config.h"
#include "library.h"
#include "workload-json.h"
#include <string.h>

/* ---- The table ---- */

/* One field of the model. */
typedef struct
{
  const char *field;    /* key of "model" in a workload; NULL ends the rules */
  const char *keys;     /* of the file, the first that is there: "n_embd hidden_size"; NULL: the type says it */
  const char *fallback; /* without the key, as JSON; NULL: what a workload has by default */
} HfRule;

#define REQUIRED "" /* a fallback: none that is known */
#define END { NULL, NULL, NULL }

typedef struct HfReader HfReader;

typedef struct
{
  const char   *types;
  const char   *summary;
  const HfRule *rules[3]; /* of the same field the last rule holds; NULL-ended */
  gboolean (*finish) (HfReader *reader, GError **error); /* what no single key says; NULL: nothing */
  gboolean      refused;
} HfType;

struct HfReader
{
  ScHfConfig   *config;
  const HfType *type;
  GHashTable   *used; /* const cJSON * */
};

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

static void
drop (HfReader *reader, const char *name)
{
  for (guint i = 0; i < reader->config->fields->len; i++)
    if (is_field (g_ptr_array_index (reader->config->fields, i), name))
      g_ptr_array_remove_index (reader->config->fields, i--);
}

/* @value (taken) becomes @name, if the row of the workload's table accepts it. */
static gboolean
put (HfReader *reader, const char *name, cJSON *value, const cJSON *item, char *origin, GError **error)
{
  const ScFieldTable *table;
  const char *object;
  ScHfField *field = g_new0 (ScHfField, 1);
  field->field = model_row (name, &table, &object);
  field->object = object;
  field->value = value;
  field->origin = origin;
  field->item = item;
  drop (reader, name);
  g_ptr_array_add (reader->config->fields, field);

  ScModel scratch = { .name = NULL };
  return sc_fields_read_value (field->field, table, reader->config->json, item != NULL ? item : value, &scratch, error);
}

/* What follows from several keys; @item (may be NULL) is the one to blame. */
static gboolean G_GNUC_PRINTF (5, 6)
    derive (HfReader *reader, const char *name, double value, const cJSON *item, const char *format, ...)
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
  drop (reader, name);
  g_ptr_array_add (reader->config->fields, field);
  return TRUE;
}

/* Value of a field so far, 0 where it has none. */
static double
value_of (const HfReader *reader, const char *name)
{
  const ScHfField *field = find_field (reader->config, name);
  if (field == NULL)
    return 0;
  return cJSON_IsBool (field->value) ? cJSON_IsTrue (field->value) : field->value->valuedouble;
}

/* ---- Keys of the file ---- */

/* Member @path ("ffn_config/moe_top_k") of @object. */
static const cJSON *
member (const cJSON *object, const char *path)
{
  g_auto (GStrv) names = g_strsplit (path, "/", -1);
  for (char **name = names; *name != NULL && object != NULL; name++)
    object = cJSON_IsObject (object) ? cJSON_GetObjectItemCaseSensitive (object, *name) : NULL;
  return object;
}

/* The key, marked as used; NULL if it is not there.  Files of several parts say beside them whether tables are tied. */
static const cJSON *
look_up (HfReader *reader, const char *path)
{
  const cJSON *item = member (reader->config->object, path);
  if (item == NULL && strcmp (path, "tie_word_embeddings") == 0)
    item = member (reader->config->json->root, path);
  if (item != NULL)
    g_hash_table_add (reader->used, (gpointer) (gsize) item);
  return item;
}

/* The same, where null is nothing. */
static const cJSON *
look_up_value (HfReader *reader, const char *path)
{
  const cJSON *item = look_up (reader, path);
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
static gboolean
read_flag (HfReader *reader, const char *path, gboolean fallback, gboolean *ret_flag, GError **error)
{
  const cJSON *item = look_up_value (reader, path);
  if (item != NULL && !cJSON_IsBool (item))
    return fail_found (reader, item, "true or false", error);
  *ret_flag = item != NULL ? cJSON_IsTrue (item) : fallback;
  return TRUE;
}

/* A count that is no field. */
static gboolean
read_count (HfReader *reader, const char *path, guint fallback, guint *ret_count, GError **error)
{
  static const ScField count = { .key = "count", .kind = SC_FIELD_COUNT, .min = 0, .max = 1e7 };
  const cJSON *item = look_up_value (reader, path);
  *ret_count = fallback;
  return item == NULL || sc_fields_read_value (&count, &sc_model_table, reader->config->json, item, ret_count, error);
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
      const cJSON *found = **k != '\0' ? look_up (reader, *k) : NULL;
      if (item == NULL || (cJSON_IsNull (item) && found != NULL))
        {
          item = found;
          key = *k;
        }
    }
  if (item != NULL && cJSON_IsNull (item) && !needed)
    return TRUE; /* null: nothing, or what follows from other fields */
  if (item != NULL)
    return put (reader, rule->field, cJSON_Duplicate (item, TRUE), item, g_strdup_printf ("from %s", key), error);
  if (rule->fallback != NULL && *rule->fallback != '\0')
    return put (reader, rule->field, cJSON_Parse (rule->fallback), NULL,
                g_strdup (rule->keys == NULL ? "all of this type" : "default of transformers"), error);
  if (rule->fallback == NULL && !needed)
    return TRUE;
  return fail_missing (reader, keys[0], row->kind == SC_FIELD_BOOL ? "true or false" : "a whole number", error);
}

/* ---- What no single key says ---- */

static gboolean
refuse (const HfReader *reader, const cJSON *item, GError **error, const char *why)
{
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (reader->config->json, item, NULL, error, "found %s: %s", found, why);
  return FALSE;
}

/* layer_types: which layers have a window must be a rule; layers of another kind are another model. */
static gboolean
finish_layer_types (HfReader *reader, GError **error)
{
  const cJSON *array = look_up_value (reader, "layer_types");
  if (array == NULL)
    return TRUE;
  if (!sc_fields_check_array (reader->config->json, array, 1000, error))
    return FALSE;
  const guint n = (guint) cJSON_GetArraySize (array), layers = (guint) value_of (reader, "layers");
  if (n != layers)
    {
      sc_json_fail (reader->config->json, array, NULL, error, "found %u elements, expected one for each of %u layers",
                    n, layers);
      return FALSE;
    }
  guint every = 0, i = 0, n_full = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next, i++)
    {
      const char *kind = cJSON_IsString (item) ? item->valuestring : "";
      const gboolean full = strcmp (kind, "full_attention") == 0;
      if (!full && strcmp (kind, "sliding_attention") != 0 && strcmp (kind, "chunked_attention") != 0)
        return refuse (reader, item, error, "no layer of attention; hybrid models are not described yet");
      n_full += full ? 1 : 0;
      if (full && every == 0)
        every = i + 1;
    }
  gboolean regular = every == 0 || n_full == n / every;
  i = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next, i++)
    regular = regular && (every > 0 && (i + 1) % every == 0) == (strcmp (item->valuestring, "full_attention") == 0);
  if (!regular)
    return refuse (reader, array, error, "which layers attend all tokens is no rule of every n-th layer");
  if (every == 1)
    {
      drop (reader, "window");
      drop (reader, "global_every");
      return TRUE;
    }
  return derive (reader, "global_every", every, array, "from layer_types");
}

/* Without a window, which layers have it says nothing. */
static gboolean
finish_window (HfReader *reader, GError **error)
{
  if (!finish_layer_types (reader, error))
    return FALSE;
  if (value_of (reader, "window") == 0)
    {
      drop (reader, "window");
      drop (reader, "global_every");
      drop (reader, "chunked_window");
    }
  return TRUE;
}

/* Qwen: sliding_window counts only with use_sliding_window, and from layer max_window_layers on. */
static gboolean
finish_qwen (HfReader *reader, GError **error)
{
  gboolean windows;
  guint first;
  if (!read_flag (reader, "use_sliding_window", FALSE, &windows, error)
      || !read_count (reader, "max_window_layers", 28, &first, error))
    return FALSE;
  if (!windows || first >= value_of (reader, "layers"))
    {
      drop (reader, "window");
      drop (reader, "global_every");
      return TRUE;
    }
  const cJSON *item = member (reader->config->object, "max_window_layers");
  if (first > 0 && look_up_value (reader, "layer_types") == NULL)
    return refuse (reader, item != NULL ? item : reader->config->object, error,
                   "a window from one layer on is no rule of every n-th layer");
  return finish_window (reader, error);
}

/* Qwen's mixtures: every n-th layer has experts, but for a list. */
static gboolean
finish_qwen_moe (HfReader *reader, GError **error)
{
  const cJSON *list = look_up_value (reader, "mlp_only_layers");
  if (list != NULL)
    {
      static const ScField index = { .key = "index", .kind = SC_FIELD_COUNT, .min = 0, .max = 999 };
      if (!sc_fields_check_array (reader->config->json, list, 1000, error))
        return FALSE;
      guint dense = 0;
      for (const cJSON *item = list->child; item != NULL; item = item->next)
        {
          guint layer;
          if (!sc_fields_read_value (&index, &sc_model_table, reader->config->json, item, &layer, error))
            return FALSE;
          if (layer != dense++)
            return refuse (reader, list, error,
                           "layers without experts that are not the first ones are not described yet");
        }
      if (dense > 0)
        derive (reader, "dense_layers", dense, list, "from mlp_only_layers");
    }
  guint shared;
  if (!read_count (reader, "shared_expert_intermediate_size",
                   strstr (reader->type->types, "qwen2_moe") != NULL ? 5632 : 0, &shared, error))
    return FALSE;
  const double width = value_of (reader, "expert_ffn");
  const cJSON *item = member (reader->config->object, "shared_expert_intermediate_size");
  if (shared > 0 && width > 0)
    {
      if (shared / width != (guint) (shared / width))
        return refuse (reader, item != NULL ? item : reader->config->object, error,
                       "no multiple of moe_intermediate_size is not described yet");
      derive (reader, "shared_experts", shared / width, item,
              "from shared_expert_intermediate_size / moe_intermediate_size");
      derive (reader, "shared_gate", 1, NULL, "all of this type");
    }
  return finish_qwen (reader, error);
}

/* DeepSeek and those after it. */
static gboolean
finish_deepseek (HfReader *reader, GError **error)
{
  guint every;
  if (!read_count (reader, "moe_layer_freq", 1, &every, error))
    return FALSE;
  if (every != 1)
    return refuse (reader, member (reader->config->object, "moe_layer_freq"), error,
                   "expected 1, the only one that models have");
  look_up (reader, "num_key_value_heads"); /* says nothing: each head has keys of its own */
  look_up (reader, "head_dim");
  look_up (reader, "qk_head_dim");
  if (value_of (reader, "experts") == 0)
    for (guint i = 0; i < 6; i++)
      {
        static const char *const fields[] = { "experts",        "top_k",        "expert_ffn",
                                              "shared_experts", "dense_layers", "router_bias" };
        drop (reader, fields[i]);
      }
  return TRUE;
}

/* GPT-NeoX: all biases, or all but those of attention. */
static gboolean
finish_neox (HfReader *reader, GError **error)
{
  gboolean bias;
  if (!read_flag (reader, "attention_bias", TRUE, &bias, error))
    return FALSE;
  const cJSON *item = member (reader->config->object, "attention_bias");
  if (bias)
    derive (reader, "linear_bias", 1, item, item != NULL ? "from attention_bias" : "default of transformers");
  else
    derive (reader, "mlp_bias", 1, NULL, "all of this type");
  derive (reader, "norm_bias", 1, NULL, "all of this type");
  return TRUE;
}

/* OPT: two rows of positions more than it says; the smallest has a narrow embedding and its norms behind. */
static gboolean
finish_opt (HfReader *reader, GError **error)
{
  guint positions;
  gboolean norm_before, bias;
  if (!read_count (reader, "max_position_embeddings", 2048, &positions, error)
      || !read_flag (reader, "do_layer_norm_before", TRUE, &norm_before, error)
      || !read_flag (reader, "enable_bias", TRUE, &bias, error))
    return FALSE;
  const cJSON *item = member (reader->config->object, "max_position_embeddings");
  derive (reader, "max_positions", positions + 2.0, item, "from max_position_embeddings + 2");
  if (!norm_before)
    derive (reader, "no_final_norm", 1, member (reader->config->object, "do_layer_norm_before"),
            "from do_layer_norm_before");
  if (!bias)
    return refuse (reader, member (reader->config->object, "enable_bias"), error,
                   "OPT without biases is not described yet");
  return TRUE;
}

/* Falcon: how many key heads and norms there are depends on the generation. */
static gboolean
finish_falcon (HfReader *reader, GError **error)
{
  gboolean new_kind, multi_query, parallel, alibi;
  if (!read_flag (reader, "new_decoder_architecture", FALSE, &new_kind, error)
      || !read_flag (reader, "multi_query", TRUE, &multi_query, error)
      || !read_flag (reader, "parallel_attn", TRUE, &parallel, error)
      || !read_flag (reader, "alibi", FALSE, &alibi, error))
    return FALSE;
  look_up (reader, "num_kv_heads");
  look_up (reader, "n_head_kv");
  if (!new_kind)
    {
      drop (reader, "kv_heads"); /* files say it all the same */
      if (multi_query)
        derive (reader, "kv_heads", 1, member (reader->config->object, "multi_query"), "from multi_query");
    }
  guint norms;
  if (!read_count (reader, "num_ln_in_parallel_attn", new_kind ? 2 : 1, &norms, error))
    return FALSE;
  if (parallel && norms == 1)
    derive (reader, "layer_norms", 1, member (reader->config->object, "num_ln_in_parallel_attn"),
            "one before both parts");
  derive (reader, "parallel_attention", parallel, member (reader->config->object, "parallel_attn"),
          member (reader->config->object, "parallel_attn") != NULL ? "from parallel_attn" : "default of transformers");
  if (alibi)
    return put (reader, "positions", cJSON_CreateString ("alibi"), NULL, g_strdup ("from alibi"), error);
  return TRUE;
}

/* MPT: sizes by ratio, and no_bias. */
static gboolean
finish_mpt (HfReader *reader, GError **error)
{
  guint ratio;
  gboolean no_bias, alibi;
  if (!read_count (reader, "expansion_ratio", 4, &ratio, error) || !read_flag (reader, "no_bias", TRUE, &no_bias, error)
      || !read_flag (reader, "attn_config/alibi", TRUE, &alibi, error))
    return FALSE;
  const cJSON *item = member (reader->config->object, "expansion_ratio");
  const double ffn = ratio * value_of (reader, "hidden");
  if (ffn < 1 || ffn > 1e7)
    return refuse (reader, item != NULL ? item : reader->config->object, error, "expected a width of 1 to 10000000");
  derive (reader, "ffn", ffn, item, "from expansion_ratio x d_model");
  derive (reader, "linear_bias", !no_bias, member (reader->config->object, "no_bias"), "from no_bias");
  if (!alibi)
    return put (reader, "positions", cJSON_CreateString ("learned"), NULL, g_strdup ("from attn_config/alibi"), error);
  drop (reader, "max_positions");
  return TRUE;
}

/* ChatGLM: Megatron's names, and grouped keys as a switch. */
static gboolean
finish_chatglm (HfReader *reader, GError **error)
{
  gboolean grouped, rms, final_norm;
  if (!read_flag (reader, "multi_query_attention", FALSE, &grouped, error)
      || !read_flag (reader, "rmsnorm", TRUE, &rms, error)
      || !read_flag (reader, "post_layer_norm", TRUE, &final_norm, error))
    return FALSE;
  look_up (reader, "multi_query_group_num");
  if (!grouped)
    drop (reader, "kv_heads");
  if (!final_norm)
    derive (reader, "no_final_norm", 1, member (reader->config->object, "post_layer_norm"), "from post_layer_norm");
  return rms || put (reader, "norm", cJSON_CreateString ("layernorm"), NULL, g_strdup ("from rmsnorm"), error);
}

/* Norms of queries and keys, where there are any, have a scale for each head. */
static gboolean
finish_full_qk_norm (HfReader *reader, GError **error)
{
  if (value_of (reader, "qk_norm") != 0)
    derive (reader, "qk_norm_full", 1, NULL, "all of this type");
  return finish_window (reader, error);
}

/* MiniMax-M2: three modules of one layer each, if it says so. */
static gboolean
finish_minimax (HfReader *reader, GError **error)
{
  gboolean mtp;
  guint modules, shared;
  if (!read_flag (reader, "use_mtp", FALSE, &mtp, error) || !read_count (reader, "num_mtp_modules", 0, &modules, error)
      || !read_count (reader, "shared_intermediate_size", 0, &shared, error))
    return FALSE;
  if (shared > 0)
    return refuse (reader, member (reader->config->object, "shared_intermediate_size"), error,
                   "shared experts of this type are not described yet");
  if (modules > 64)
    return refuse (reader, member (reader->config->object, "num_mtp_modules"), error, "expected at most 64");
  if (mtp && modules > 0)
    derive (reader, "mtp_layers", modules, member (reader->config->object, "num_mtp_modules"), "from num_mtp_modules");
  const cJSON *kind = look_up_value (reader, "qk_norm_type");
  if (kind == NULL || (cJSON_IsString (kind) && strcmp (kind->valuestring, "per_layer") == 0))
    return finish_full_qk_norm (reader, error);
  return refuse (reader, kind, error, "expected \"per_layer\"");
}

/* Llama 4: a list of the layers with experts may stand beside their distance. */
static gboolean
finish_llama4 (HfReader *reader, GError **error)
{
  const cJSON *list = look_up_value (reader, "moe_layers");
  if (list != NULL)
    {
      if (!sc_fields_check_array (reader->config->json, list, 1000, error))
        return FALSE;
      const guint every = (guint) MAX (value_of (reader, "moe_every"), 1);
      guint i = 1;
      for (const cJSON *item = list->child; item != NULL; item = item->next, i++)
        if (!cJSON_IsNumber (item) || item->valuedouble != (double) i * every - 1)
          return refuse (reader, item, error, "not the layer that interleave_moe_layer_step says");
    }
  return finish_window (reader, error);
}

/* ---- Rules ---- */

#define FACT(field, value) { field, NULL, value }
#define LLAMA_NAMES(h, l, a, f, v)                                                                                     \
  { "hidden", "hidden_size", h }, { "layers", "num_hidden_layers", l }, { "heads", "num_attention_heads", a },         \
      { "ffn", "intermediate_size", f }, { "vocab", "vocab_size", v }
#define KV_HEADS(n) { "kv_heads", "num_key_value_heads", n }
#define HEAD_DIM(n) { "head_dim", "head_dim", n }
#define TIED(yes) { "tied_embeddings", "tie_word_embeddings", yes }
#define EXPERTS(keys, n, k, f)                                                                                         \
  { "experts", keys, n }, { "top_k", "num_experts_per_tok", k }, { "expert_ffn", "moe_intermediate_size", f }

/* What most have in common: a gated MLP, RMS norms, rotary positions. */
static const HfRule plain[] = {
  LLAMA_NAMES (REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED),
  KV_HEADS (NULL),
  HEAD_DIM (NULL),
  TIED ("false"),
  FACT ("gated_mlp", "true"),
  FACT ("norm", "\"rmsnorm\""),
  FACT ("positions", "\"rope\""),
  { "dropout", "attention_dropout", NULL },
  END,
};

static const HfRule llama[] = {
  LLAMA_NAMES ("4096", "32", "32", "11008", "32000"),
  { "attention_bias", "attention_bias", NULL },
  { "mlp_bias", "mlp_bias", NULL },
  END,
};

static const HfRule mistral[] = {
  LLAMA_NAMES ("4096", "32", "32", "14336", "32000"), KV_HEADS ("8"), { "window", "sliding_window", "4096" }, END,
};

static const HfRule mixtral[] = {
  LLAMA_NAMES ("4096", "32", "32", "14336", "32000"),
  KV_HEADS ("8"),
  { "window", "sliding_window", NULL },
  EXPERTS ("num_local_experts", "8", "2", NULL),
  { "expert_ffn", "intermediate_size", "14336" },
  END,
};

static const HfRule qwen2[] = {
  LLAMA_NAMES ("4096", "32", "32", "22016", "151936"),
  KV_HEADS ("32"),
  FACT ("qkv_bias", "true"),
  { "window", "sliding_window", "4096" },
  END,
};

static const HfRule qwen2_moe[] = {
  LLAMA_NAMES ("2048", "24", "16", "5632", "151936"),
  KV_HEADS ("16"),
  { "qkv_bias", "qkv_bias", "true" },
  { "window", "sliding_window", "4096" },
  EXPERTS ("num_experts", "60", "4", "1408"),
  { "moe_every", "decoder_sparse_step", "1" },
  END,
};

static const HfRule qwen3[] = {
  LLAMA_NAMES ("4096", "32", "32", "22016", "151936"),
  KV_HEADS ("32"),
  HEAD_DIM ("128"),
  FACT ("qk_norm", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "sliding_window", "4096" },
  END,
};

static const HfRule qwen3_moe[] = {
  LLAMA_NAMES ("2048", "24", "32", "6144", "151936"),
  KV_HEADS ("4"),
  FACT ("qk_norm", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "sliding_window", "4096" },
  EXPERTS ("num_experts num_local_experts", "128", "8", "768"),
  { "moe_every", "decoder_sparse_step", "1" },
  END,
};

static const HfRule gemma[] = {
  LLAMA_NAMES ("3072", "28", "16", "24576", "256000"),
  KV_HEADS ("16"),
  HEAD_DIM ("256"),
  TIED ("true"),
  { "attention_bias", "attention_bias", NULL },
  END,
};

static const HfRule gemma2[] = {
  LLAMA_NAMES ("2304", "26", "8", "9216", "256000"),
  KV_HEADS ("4"),
  HEAD_DIM ("256"),
  TIED ("true"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("layer_norms", "4"),
  { "window", "sliding_window", "4096" },
  FACT ("global_every", "2"),
  END,
};

static const HfRule gemma3[] = {
  { "vocab", "vocab_size", "262208" }, FACT ("qk_norm", "true"), { "global_every", "sliding_window_pattern", "6" }, END,
};

static const HfRule gpt2[] = {
  { "hidden", "n_embd", "768" },
  { "layers", "n_layer", "12" },
  { "heads", "n_head", "12" },
  { "ffn", "n_inner", NULL },
  { "vocab", "vocab_size", "50257" },
  { "max_positions", "n_positions", "1024" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"learned\""),
  FACT ("linear_bias", "true"),
  { "dropout", "resid_pdrop", "0.1" },
  END,
};

static const HfRule gptj[] = {
  { "hidden", "n_embd", "4096" },
  { "layers", "n_layer", "28" },
  { "heads", "n_head", "16" },
  { "ffn", "n_inner", NULL },
  { "vocab", "vocab_size", "50400" },
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  FACT ("mlp_bias", "true"),
  FACT ("norm_bias", "true"),
  FACT ("head_bias", "true"),
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule gpt_neox[] = {
  LLAMA_NAMES ("6144", "44", "64", "24576", "50432"),
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  { "parallel_attention", "use_parallel_residual", "true" },
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule bloom[] = {
  { "hidden", "n_embed hidden_size", REQUIRED },
  { "layers", "n_layer num_hidden_layers", REQUIRED },
  { "heads", "n_head num_attention_heads", REQUIRED },
  { "vocab", "vocab_size", "250880" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"alibi\""),
  FACT ("linear_bias", "true"),
  FACT ("embedding_norm", "true"),
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule opt[] = {
  { "hidden", "hidden_size", "768" },
  { "layers", "num_hidden_layers", "12" },
  { "heads", "num_attention_heads", "12" },
  { "ffn", "ffn_dim", "3072" },
  { "vocab", "vocab_size", "50272" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"learned\""),
  FACT ("linear_bias", "true"),
  { "embedding_dim", "word_embed_proj_dim", NULL },
  { "dropout", "dropout", "0.1" },
  END,
};

static const HfRule falcon[] = {
  { "hidden", "hidden_size", "4544" },
  { "layers", "num_hidden_layers n_layer", "32" },
  { "heads", "num_attention_heads n_head", "71" },
  { "kv_heads", "num_kv_heads n_head_kv", NULL },
  { "ffn", "ffn_hidden_size", NULL },
  { "vocab", "vocab_size", "65024" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  FACT ("positions", "\"rope\""),
  { "linear_bias", "bias", NULL },
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule mpt[] = {
  { "hidden", "d_model", "2048" },
  { "layers", "n_layers", "24" },
  { "heads", "n_heads", "16" },
  { "vocab", "vocab_size", "50368" },
  { "max_positions", "max_seq_len", "2048" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"alibi\""),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phi[] = {
  LLAMA_NAMES ("2048", "24", "32", "8192", "51200"),
  KV_HEADS (NULL),
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  FACT ("linear_bias", "true"),
  FACT ("head_bias", "true"),
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phi3[] = {
  LLAMA_NAMES ("3072", "32", "32", "8192", "32064"),
  { "window", "sliding_window", NULL },
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phimoe[] = {
  LLAMA_NAMES ("4096", "32", "32", "6400", "32064"),
  KV_HEADS ("8"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "head_bias", "lm_head_bias", NULL },
  { "window", "sliding_window", NULL },
  EXPERTS ("num_local_experts", "16", "2", NULL),
  { "expert_ffn", "intermediate_size", "6400" },
  END,
};

static const HfRule latent_attention[] = {
  LLAMA_NAMES (REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED),
  { "kv_heads", NULL, NULL },
  { "head_dim", NULL, NULL },
  { "attention_bias", "attention_bias", NULL },
  EXPERTS ("n_routed_experts", REQUIRED, REQUIRED, REQUIRED),
  { "shared_experts", "n_shared_experts", NULL },
  { "dense_layers", "first_k_dense_replace", NULL },
  { "mla.q_lora_rank", "q_lora_rank", "1536" },
  { "mla.kv_lora_rank", "kv_lora_rank", "512" },
  { "mla.qk_nope_head_dim", "qk_nope_head_dim", "128" },
  { "mla.qk_rope_head_dim", "qk_rope_head_dim", "64" },
  { "mla.v_head_dim", "v_head_dim", "128" },
  { "mtp_layers", "num_nextn_predict_layers", NULL },
  END,
};

static const HfRule deepseek_v3[] = {
  LLAMA_NAMES ("7168", "61", "128", "18432", "129280"),
  EXPERTS ("n_routed_experts", "256", "8", "2048"),
  { "shared_experts", "n_shared_experts", "1" },
  { "dense_layers", "first_k_dense_replace", "3" },
  { "mla.q_lora_rank", "q_lora_rank", "1536" },
  FACT ("router_bias", "true"),
  END,
};

static const HfRule indexed_attention[] = {
  FACT ("router_bias", "true"),
  { "indexer.heads", "index_n_heads", REQUIRED },
  { "indexer.head_dim", "index_head_dim", REQUIRED },
  { "indexer.top_k", "index_topk", REQUIRED },
  END,
};

static const HfRule glm[] = {
  LLAMA_NAMES ("4096", "40", "32", "13696", "151552"),
  KV_HEADS ("2"),
  HEAD_DIM ("128"),
  { "qkv_bias", "attention_bias", "true" },
  END,
};

static const HfRule glm4[] = {
  LLAMA_NAMES ("4096", "40", "32", "13696", "151552"),
  KV_HEADS ("2"),
  HEAD_DIM ("128"),
  { "qkv_bias", "attention_bias", NULL },
  FACT ("layer_norms", "4"),
  END,
};

static const HfRule glm4_moe[] = {
  LLAMA_NAMES ("4096", "46", "96", "10944", "151552"),
  KV_HEADS ("8"),
  { "qkv_bias", "attention_bias", NULL },
  { "qk_norm", "use_qk_norm", NULL },
  EXPERTS ("n_routed_experts", "128", "8", "1408"),
  { "shared_experts", "n_shared_experts", "1" },
  { "dense_layers", "first_k_dense_replace", "1" },
  FACT ("router_bias", "true"),
  { "mtp_layers", "num_nextn_predict_layers", NULL },
  END,
};

static const HfRule chatglm[] = {
  { "hidden", "hidden_size", REQUIRED },
  { "layers", "num_layers num_hidden_layers", REQUIRED },
  { "heads", "num_attention_heads", REQUIRED },
  { "kv_heads", "multi_query_group_num", NULL },
  { "head_dim", "kv_channels", NULL },
  { "ffn", "ffn_hidden_size", REQUIRED },
  { "vocab", "padded_vocab_size vocab_size", REQUIRED },
  { "linear_bias", "add_bias_linear", NULL },
  { "qkv_bias", "add_qkv_bias", NULL },
  { "dropout", "hidden_dropout", NULL },
  END,
};

static const HfRule gpt_oss[] = {
  LLAMA_NAMES ("2880", "36", "64", "2880", "201088"),
  KV_HEADS ("8"),
  HEAD_DIM ("64"),
  { "attention_bias", "attention_bias", "true" },
  FACT ("mlp_bias", "true"),
  FACT ("attention_sinks", "true"),
  { "window", "sliding_window", "128" },
  FACT ("global_every", "2"),
  { "experts", "num_local_experts", "128" },
  { "top_k", "num_experts_per_tok experts_per_token", "4" },
  { "expert_ffn", "intermediate_size", "2880" },
  FACT ("router_bias", "true"),
  END,
};

static const HfRule llama4[] = {
  LLAMA_NAMES ("5120", "48", "40", "16384", "202048"),
  { "ffn", "intermediate_size_mlp", "16384" },
  KV_HEADS ("8"),
  HEAD_DIM ("128"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "attention_chunk_size", "8192" },
  FACT ("chunked_window", "true"),
  { "global_every", "no_rope_layer_interval", "4" },
  { "experts", "num_local_experts", "16" },
  { "top_k", "num_experts_per_tok", "1" },
  { "expert_ffn", "intermediate_size", "8192" },
  FACT ("shared_experts", "1"),
  { "moe_every", "interleave_moe_layer_step", "1" },
  END,
};

static const HfRule minimax_m2[] = {
  { "qk_norm", "use_qk_norm", "true" },
  { "experts", "num_local_experts", REQUIRED },
  { "top_k", "num_experts_per_tok", REQUIRED },
  { "expert_ffn", "intermediate_size", REQUIRED },
  { "router_bias", "use_routing_bias", "true" },
  END,
};

static const HfRule olmo2[] = {
  LLAMA_NAMES ("4096", "32", "32", "11008", "50304"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("qk_norm", "true"),
  FACT ("qk_norm_full", "true"),
  END,
};

static const HfRule olmoe[] = {
  LLAMA_NAMES ("2048", "16", "16", "2048", "50304"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("qk_norm", "true"),
  FACT ("qk_norm_full", "true"),
  EXPERTS ("num_experts", "64", "8", NULL),
  { "expert_ffn", "intermediate_size", "2048" },
  END,
};

static const HfRule cohere[] = {
  LLAMA_NAMES ("8192", "40", "64", "22528", "256000"),
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  { "attention_bias", "attention_bias", NULL },
  { "qk_norm", "use_qk_norm", NULL },
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  END,
};

static const HfRule cohere2[] = {
  { "qk_norm", NULL, NULL },
  { "window", "sliding_window", "4096" },
  { "global_every", "sliding_window_pattern", "4" },
  END,
};

static const HfRule starcoder2[] = {
  LLAMA_NAMES ("3072", "30", "24", "12288", "49152"),
  KV_HEADS ("2"),
  TIED ("true"),
  FACT ("gated_mlp", "false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "linear_bias", "use_bias", "true" },
  { "window", "sliding_window", NULL },
  { "dropout", "residual_dropout", "0" },
  END,
};

static const HfRule nemotron[] = {
  LLAMA_NAMES ("6144", "32", "48", "24576", "256000"),
  FACT ("gated_mlp", "false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "mlp_bias", "mlp_bias", NULL },
  END,
};

static const HfRule dbrx[] = {
  { "hidden", "d_model", REQUIRED },
  { "layers", "n_layers", REQUIRED },
  { "heads", "n_heads", REQUIRED },
  { "kv_heads", "attn_config/kv_n_heads", "1" },
  { "ffn", "ffn_config/ffn_hidden_size", REQUIRED },
  { "vocab", "vocab_size", REQUIRED },
  FACT ("norm", "\"layernorm\""),
  { "experts", "ffn_config/moe_num_experts", REQUIRED },
  { "top_k", "ffn_config/moe_top_k", REQUIRED },
  { "expert_ffn", "ffn_config/ffn_hidden_size", REQUIRED },
  { "dropout", "resid_pdrop", "0" },
  END,
};

#define HYBRID "layers of attention and of state-space or linear attention in turns are not described yet"
#define REFUSED(types, why) { types, why, { NULL }, NULL, TRUE }

static const HfType types[] = {
  { "llama granite seed_oss", "grouped queries, gated MLP", { plain, llama }, NULL, FALSE },
  { "mistral ministral", "a sliding window, which later models leave out", { plain, mistral }, finish_window, FALSE },
  { "mixtral", "every layer with experts", { plain, mixtral }, finish_window, FALSE },
  { "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", "biases on queries, keys and values", { plain, qwen2 }, finish_qwen, FALSE },
  { "qwen2_moe", "experts, and shared ones behind a gate", { plain, qwen2_moe }, finish_qwen_moe, FALSE },
  { "qwen3 qwen3_vl_text", "norms on queries and keys, heads of their own size", { plain, qwen3 }, finish_qwen, FALSE },
  { "qwen3_moe qwen3_vl_moe_text", "the same with experts", { plain, qwen3_moe }, finish_qwen_moe, FALSE },
  { "gemma", "tied tables, wide heads", { plain, gemma }, NULL, FALSE },
  { "gemma2", "four norms a layer, every other layer with a window", { plain, gemma2 }, finish_window, FALSE },
  { "gemma3_text gemma3", "norms on queries and keys, every sixth layer without a window", { plain, gemma2, gemma3 }, finish_window, FALSE },
  { "gpt2", "learned positions, biases, tied tables", { gpt2 }, NULL, FALSE },
  { "gptj", "attention beside the MLP behind one norm", { gptj }, NULL, FALSE },
  { "gpt_neox", "attention beside the MLP, biases", { gpt_neox }, finish_neox, FALSE },
  { "bloom", "ALiBi, a norm behind the embedding", { bloom }, NULL, FALSE },
  { "opt", "learned positions, two rows more than it says", { opt }, finish_opt, FALSE },
  { "falcon RefinedWeb RefinedWebModel", "attention beside the MLP, one key head or groups", { falcon }, finish_falcon, FALSE },
  { "mpt", "ALiBi, no biases", { mpt }, finish_mpt, FALSE },
  { "phi phi-msft", "attention beside the MLP behind one norm, biases", { phi }, NULL, FALSE },
  { "phi3", "as llama, matrices joined", { plain, phi3 }, finish_window, FALSE },
  { "phimoe", "experts without biases, all else with", { plain, phimoe }, finish_window, FALSE },
  { "deepseek_v2", "latent attention, experts and shared ones", { plain, latent_attention }, finish_deepseek, FALSE },
  { "deepseek_v3 kimi_k2", "the same, and a bias of the router", { plain, latent_attention, deepseek_v3 }, finish_deepseek, FALSE },
  { "deepseek_v32 glm_moe_dsa", "the same, and an indexer that chooses keys", { plain, latent_attention, indexed_attention },
    finish_deepseek, FALSE },
  { "glm", "biases on queries, keys and values", { plain, glm }, NULL, FALSE },
  { "glm4", "four norms a layer", { plain, glm4 }, NULL, FALSE },
  { "glm4_moe", "experts and shared ones, a bias of the router", { plain, glm4_moe }, NULL, FALSE },
  { "chatglm", "GLM under Megatron's names", { plain, chatglm }, finish_chatglm, FALSE },
  { "gpt_oss", "experts with biases, sinks, every other layer with a window", { plain, gpt_oss }, finish_window, FALSE },
  { "llama4_text llama4", "every n-th layer with experts, attention in chunks", { plain, llama4 }, finish_llama4, FALSE },
  { "minimax_m2", "every layer with experts, norms over all heads", { plain, minimax_m2 }, finish_minimax, FALSE },
  { "olmo2", "norms on all queries and all keys", { plain, olmo2 }, NULL, FALSE },
  { "olmoe", "the same with experts", { plain, olmoe }, NULL, FALSE },
  { "cohere", "attention beside the MLP behind one norm, tied tables", { plain, cohere }, finish_full_qk_norm, FALSE },
  { "cohere2", "the same, every fourth layer without a window", { plain, cohere, cohere2 }, finish_full_qk_norm, FALSE },
  { "starcoder2", "two matrices in the MLP, biases", { plain, starcoder2 }, finish_window, FALSE },
  { "nemotron", "two matrices in the MLP, no biases", { plain, nemotron }, NULL, FALSE },
  { "dbrx", "every layer with experts, nested keys", { plain, dbrx }, NULL, FALSE },
  REFUSED ("nemotron_h jamba bamba zamba zamba2 falcon_h1 granitemoehybrid", HYBRID),
  REFUSED ("qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text kimi_linear minimax minimax_text_01 recurrent_gemma lfm2", HYBRID),
  REFUSED ("mamba mamba2 falcon_mamba rwkv", "models without attention are not described yet"),
  REFUSED ("nemotron-nas deci", "layers that all differ are not described yet"),
  REFUSED ("gemma3n gemma3n_text", "layers with embeddings of their own are not described yet"),
  REFUSED ("t5 mt5 bart bert roberta whisper", "models with an encoder are not described"),
};

guint
sc_hf_n_types (void)
{
  return G_N_ELEMENTS (types);
}

ScHfTypeInfo
sc_hf_type_info (guint i)
{
  return (ScHfTypeInfo){ types[i].types, types[i].summary, types[i].refused };
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
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_auto (GStrv) words = g_strsplit (types[i].types, " ", -1);
      for (char **word = words; *word != NULL; word++)
        {
          g_autofree char *here = is_architecture ? plain_word (*word) : g_strdup (*word);
          if (strcmp (here, wanted) == 0)
            return &types[i];
        }
    }
  return NULL;
}

static gboolean
fail_type (const ScJson *json, const cJSON *item, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_auto (GStrv) words = g_strsplit (types[i].types, " ", -1);
      for (char **word = words; *word != NULL && !types[i].refused; word++)
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
