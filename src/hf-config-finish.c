/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config-finish.c - what no single key of a config.json says, type by type. */
#include "hf-config-parts.h"
#include "workload-json.h"
#include <string.h>

/* layer_types: which layers have a window must be a rule; layers of another kind are another model. */
static gboolean
finish_layer_types (HfReader *reader, GError **error)
{
  const cJSON *array = sc_hf_look_up_value (reader, "layer_types");
  if (array == NULL)
    return TRUE;
  if (!sc_fields_check_array (reader->config->json, array, 1000, error))
    return FALSE;
  const guint n = (guint) cJSON_GetArraySize (array), layers = (guint) sc_hf_value_of (reader, "layers");
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
        return sc_hf_refuse (reader, item, error, "no layer of attention; hybrid models are not described yet");
      n_full += full ? 1 : 0;
      if (full && every == 0)
        every = i + 1;
    }
  gboolean regular = every == 0 || n_full == n / every;
  i = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next, i++)
    regular = regular && (every > 0 && (i + 1) % every == 0) == (strcmp (item->valuestring, "full_attention") == 0);
  if (!regular)
    return sc_hf_refuse (reader, array, error, "which layers attend all tokens is no rule of every n-th layer");
  if (every == 1)
    {
      sc_hf_drop (reader, "window");
      sc_hf_drop (reader, "global_every");
      return TRUE;
    }
  return sc_hf_derive (reader, "global_every", every, array, "from layer_types");
}

/* Without a window, which layers have it says nothing. */
gboolean
sc_hf_finish_window (HfReader *reader, GError **error)
{
  if (!finish_layer_types (reader, error))
    return FALSE;
  if (sc_hf_value_of (reader, "window") == 0)
    {
      sc_hf_drop (reader, "window");
      sc_hf_drop (reader, "global_every");
      sc_hf_drop (reader, "chunked_window");
    }
  return TRUE;
}

/* Qwen: sliding_window counts only with use_sliding_window, and from layer max_window_layers on. */
gboolean
sc_hf_finish_qwen (HfReader *reader, GError **error)
{
  gboolean windows;
  guint first;
  if (!sc_hf_read_flag (reader, "use_sliding_window", FALSE, &windows, error)
      || !sc_hf_read_count (reader, "max_window_layers", 28, &first, error))
    return FALSE;
  if (!windows || first >= sc_hf_value_of (reader, "layers"))
    {
      sc_hf_drop (reader, "window");
      sc_hf_drop (reader, "global_every");
      return TRUE;
    }
  const cJSON *item = sc_hf_member (reader->config->object, "max_window_layers");
  if (first > 0 && sc_hf_look_up_value (reader, "layer_types") == NULL)
    return sc_hf_refuse (reader, item != NULL ? item : reader->config->object, error,
                         "a window from one layer on is no rule of every n-th layer");
  return sc_hf_finish_window (reader, error);
}

/* Qwen's mixtures: every n-th layer has experts, but for a list. */
gboolean
sc_hf_finish_qwen_moe (HfReader *reader, GError **error)
{
  const cJSON *list = sc_hf_look_up_value (reader, "mlp_only_layers");
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
            return sc_hf_refuse (reader, list, error,
                                 "layers without experts that are not the first ones are not described yet");
        }
      if (dense > 0)
        sc_hf_derive (reader, "dense_layers", dense, list, "from mlp_only_layers");
    }
  guint shared;
  if (!sc_hf_read_count (reader, "shared_expert_intermediate_size",
                         strstr (reader->type->types, "qwen2_moe") != NULL ? 5632 : 0, &shared, error))
    return FALSE;
  const double width = sc_hf_value_of (reader, "expert_ffn");
  const cJSON *item = sc_hf_member (reader->config->object, "shared_expert_intermediate_size");
  if (shared > 0 && width > 0)
    {
      if (shared / width != (guint) (shared / width))
        return sc_hf_refuse (reader, item != NULL ? item : reader->config->object, error,
                             "no multiple of moe_intermediate_size is not described yet");
      sc_hf_derive (reader, "shared_experts", shared / width, item,
                    "from shared_expert_intermediate_size / moe_intermediate_size");
      sc_hf_derive (reader, "shared_gate", 1, NULL, "all of this type");
    }
  return sc_hf_finish_qwen (reader, error);
}

/* DeepSeek and those after it. */
gboolean
sc_hf_finish_deepseek (HfReader *reader, GError **error)
{
  guint every;
  if (!sc_hf_read_count (reader, "moe_layer_freq", 1, &every, error))
    return FALSE;
  if (every != 1)
    return sc_hf_refuse (reader, sc_hf_member (reader->config->object, "moe_layer_freq"), error,
                         "expected 1, the only one that models have");
  sc_hf_look_up (reader, "num_key_value_heads"); /* says nothing: each head has keys of its own */
  sc_hf_look_up (reader, "head_dim");
  sc_hf_look_up (reader, "qk_head_dim");
  if (sc_hf_value_of (reader, "experts") == 0)
    for (guint i = 0; i < 6; i++)
      {
        static const char *const fields[] = { "experts",        "top_k",        "expert_ffn",
                                              "shared_experts", "dense_layers", "router_bias" };
        sc_hf_drop (reader, fields[i]);
      }
  return TRUE;
}

/* GPT-NeoX: all biases, or all but those of attention. */
gboolean
sc_hf_finish_neox (HfReader *reader, GError **error)
{
  gboolean bias;
  if (!sc_hf_read_flag (reader, "attention_bias", TRUE, &bias, error))
    return FALSE;
  const cJSON *item = sc_hf_member (reader->config->object, "attention_bias");
  if (bias)
    sc_hf_derive (reader, "linear_bias", 1, item, item != NULL ? "from attention_bias" : "default of transformers");
  else
    sc_hf_derive (reader, "mlp_bias", 1, NULL, "all of this type");
  sc_hf_derive (reader, "norm_bias", 1, NULL, "all of this type");
  return TRUE;
}

/* OPT: two rows of positions more than it says; the smallest has a narrow embedding and its norms behind. */
gboolean
sc_hf_finish_opt (HfReader *reader, GError **error)
{
  guint positions;
  gboolean norm_before, bias;
  if (!sc_hf_read_count (reader, "max_position_embeddings", 2048, &positions, error)
      || !sc_hf_read_flag (reader, "do_layer_norm_before", TRUE, &norm_before, error)
      || !sc_hf_read_flag (reader, "enable_bias", TRUE, &bias, error))
    return FALSE;
  const cJSON *item = sc_hf_member (reader->config->object, "max_position_embeddings");
  sc_hf_derive (reader, "max_positions", positions + 2.0, item, "from max_position_embeddings + 2");
  if (!norm_before)
    sc_hf_derive (reader, "no_final_norm", 1, sc_hf_member (reader->config->object, "do_layer_norm_before"),
                  "from do_layer_norm_before");
  if (!bias)
    return sc_hf_refuse (reader, sc_hf_member (reader->config->object, "enable_bias"), error,
                         "OPT without biases is not described yet");
  return TRUE;
}

/* Falcon: how many key heads and norms there are depends on the generation. */
gboolean
sc_hf_finish_falcon (HfReader *reader, GError **error)
{
  gboolean new_kind, multi_query, parallel, alibi;
  if (!sc_hf_read_flag (reader, "new_decoder_architecture", FALSE, &new_kind, error)
      || !sc_hf_read_flag (reader, "multi_query", TRUE, &multi_query, error)
      || !sc_hf_read_flag (reader, "parallel_attn", TRUE, &parallel, error)
      || !sc_hf_read_flag (reader, "alibi", FALSE, &alibi, error))
    return FALSE;
  sc_hf_look_up (reader, "num_kv_heads");
  sc_hf_look_up (reader, "n_head_kv");
  if (!new_kind)
    {
      sc_hf_drop (reader, "kv_heads"); /* files say it all the same */
      if (multi_query)
        sc_hf_derive (reader, "kv_heads", 1, sc_hf_member (reader->config->object, "multi_query"), "from multi_query");
    }
  guint norms;
  if (!sc_hf_read_count (reader, "num_ln_in_parallel_attn", new_kind ? 2 : 1, &norms, error))
    return FALSE;
  if (parallel && norms == 1)
    sc_hf_derive (reader, "layer_norms", 1, sc_hf_member (reader->config->object, "num_ln_in_parallel_attn"),
                  "one before both parts");
  sc_hf_derive (reader, "parallel_attention", parallel, sc_hf_member (reader->config->object, "parallel_attn"),
                sc_hf_member (reader->config->object, "parallel_attn") != NULL ? "from parallel_attn" : "default of transformers");
  if (alibi)
    return sc_hf_put (reader, "positions", cJSON_CreateString ("alibi"), NULL, g_strdup ("from alibi"), error);
  return TRUE;
}

/* MPT: sizes by ratio, and no_bias. */
gboolean
sc_hf_finish_mpt (HfReader *reader, GError **error)
{
  guint ratio;
  gboolean no_bias, alibi;
  if (!sc_hf_read_count (reader, "expansion_ratio", 4, &ratio, error) || !sc_hf_read_flag (reader, "no_bias", TRUE, &no_bias, error)
      || !sc_hf_read_flag (reader, "attn_config/alibi", TRUE, &alibi, error))
    return FALSE;
  const cJSON *item = sc_hf_member (reader->config->object, "expansion_ratio");
  const double ffn = ratio * sc_hf_value_of (reader, "hidden");
  if (ffn < 1 || ffn > 1e7)
    return sc_hf_refuse (reader, item != NULL ? item : reader->config->object, error, "expected a width of 1 to 10000000");
  sc_hf_derive (reader, "ffn", ffn, item, "from expansion_ratio x d_model");
  sc_hf_derive (reader, "linear_bias", !no_bias, sc_hf_member (reader->config->object, "no_bias"), "from no_bias");
  if (!alibi)
    return sc_hf_put (reader, "positions", cJSON_CreateString ("learned"), NULL, g_strdup ("from attn_config/alibi"), error);
  sc_hf_drop (reader, "max_positions");
  return TRUE;
}

/* ChatGLM: Megatron's names, and grouped keys as a switch. */
gboolean
sc_hf_finish_chatglm (HfReader *reader, GError **error)
{
  gboolean grouped, rms, final_norm;
  if (!sc_hf_read_flag (reader, "multi_query_attention", FALSE, &grouped, error)
      || !sc_hf_read_flag (reader, "rmsnorm", TRUE, &rms, error)
      || !sc_hf_read_flag (reader, "post_layer_norm", TRUE, &final_norm, error))
    return FALSE;
  sc_hf_look_up (reader, "multi_query_group_num");
  if (!grouped)
    sc_hf_drop (reader, "kv_heads");
  if (!final_norm)
    sc_hf_derive (reader, "no_final_norm", 1, sc_hf_member (reader->config->object, "post_layer_norm"), "from post_layer_norm");
  return rms || sc_hf_put (reader, "norm", cJSON_CreateString ("layernorm"), NULL, g_strdup ("from rmsnorm"), error);
}

/* Norms of queries and keys, where there are any, have a scale for each head. */
gboolean
sc_hf_finish_full_qk_norm (HfReader *reader, GError **error)
{
  if (sc_hf_value_of (reader, "qk_norm") != 0)
    sc_hf_derive (reader, "qk_norm_full", 1, NULL, "all of this type");
  return sc_hf_finish_window (reader, error);
}

/* MiniMax-M2: three modules of one layer each, if it says so. */
gboolean
sc_hf_finish_minimax (HfReader *reader, GError **error)
{
  gboolean mtp;
  guint modules, shared;
  if (!sc_hf_read_flag (reader, "use_mtp", FALSE, &mtp, error) || !sc_hf_read_count (reader, "num_mtp_modules", 0, &modules, error)
      || !sc_hf_read_count (reader, "shared_intermediate_size", 0, &shared, error))
    return FALSE;
  if (shared > 0)
    return sc_hf_refuse (reader, sc_hf_member (reader->config->object, "shared_intermediate_size"), error,
                         "shared experts of this type are not described yet");
  if (modules > 64)
    return sc_hf_refuse (reader, sc_hf_member (reader->config->object, "num_mtp_modules"), error, "expected at most 64");
  if (mtp && modules > 0)
    sc_hf_derive (reader, "mtp_layers", modules, sc_hf_member (reader->config->object, "num_mtp_modules"), "from num_mtp_modules");
  const cJSON *kind = sc_hf_look_up_value (reader, "qk_norm_type");
  if (kind == NULL || (cJSON_IsString (kind) && strcmp (kind->valuestring, "per_layer") == 0))
    return sc_hf_finish_full_qk_norm (reader, error);
  return sc_hf_refuse (reader, kind, error, "expected \"per_layer\"");
}

/* Llama 4: a list of the layers with experts may stand beside their distance. */
gboolean
sc_hf_finish_llama4 (HfReader *reader, GError **error)
{
  const cJSON *list = sc_hf_look_up_value (reader, "moe_layers");
  if (list != NULL)
    {
      if (!sc_fields_check_array (reader->config->json, list, 1000, error))
        return FALSE;
      const guint every = (guint) MAX (sc_hf_value_of (reader, "moe_every"), 1);
      guint i = 1;
      for (const cJSON *item = list->child; item != NULL; item = item->next, i++)
        if (!cJSON_IsNumber (item) || item->valuedouble != (double) i * every - 1)
          return sc_hf_refuse (reader, item, error, "not the layer that interleave_moe_layer_step says");
    }
  return sc_hf_finish_window (reader, error);
}
