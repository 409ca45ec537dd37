/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config-parts.h - what the files of hf-config share; nobody else includes it.
 * Layer: src. */
#pragma once
#include "hf-config.h"

/* One field of the model. */
typedef struct
{
  const char *field;    /* key of "model" in a workload; NULL ends the rules */
  const char *keys;     /* of the file, the first that is there: "n_embd hidden_size"; NULL: the type says it */
  const char *fallback; /* without the key, as JSON; NULL: what a workload has by default; "": none that is known */
} HfRule;

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

/* hf-config-rules.c: one row for each type, or several types of the same keys */
extern const HfType sc_hf_types[]; /* [sc_hf_n_types ()] */

/* hf-config-finish.c: what no single key says */
gboolean sc_hf_finish_window (HfReader *reader, GError **error);
gboolean sc_hf_finish_qwen (HfReader *reader, GError **error);
gboolean sc_hf_finish_qwen_moe (HfReader *reader, GError **error);
gboolean sc_hf_finish_deepseek (HfReader *reader, GError **error);
gboolean sc_hf_finish_neox (HfReader *reader, GError **error);
gboolean sc_hf_finish_opt (HfReader *reader, GError **error);
gboolean sc_hf_finish_falcon (HfReader *reader, GError **error);
gboolean sc_hf_finish_mpt (HfReader *reader, GError **error);
gboolean sc_hf_finish_chatglm (HfReader *reader, GError **error);
gboolean sc_hf_finish_full_qk_norm (HfReader *reader, GError **error);
gboolean sc_hf_finish_minimax (HfReader *reader, GError **error);
gboolean sc_hf_finish_llama4 (HfReader *reader, GError **error);

/* hf-config.c: keys of the file; paths as "ffn_config/moe_top_k" */
const cJSON *sc_hf_member (const cJSON *object, const char *path);
const cJSON *sc_hf_look_up (HfReader *reader, const char *path);       /* the key, marked as used; NULL if it is not there */
const cJSON *sc_hf_look_up_value (HfReader *reader, const char *path); /* the same, where null is nothing */
gboolean sc_hf_read_flag (HfReader *reader, const char *path, gboolean fallback, gboolean *ret_flag, GError **error);
gboolean sc_hf_read_count (HfReader *reader, const char *path, guint fallback, guint *ret_count, GError **error);
gboolean sc_hf_refuse (const HfReader *reader, const cJSON *item, GError **error, const char *why); /* FALSE, always */

/* hf-config.c: fields of the model, as "hidden" or "mla.q_lora_rank" */
double sc_hf_value_of (const HfReader *reader, const char *name);
void sc_hf_drop (HfReader *reader, const char *name);
gboolean sc_hf_put (HfReader *reader, const char *name, cJSON *value, const cJSON *item, char *origin, GError **error);
gboolean sc_hf_derive (HfReader *reader, const char *name, double value, const cJSON *item, const char *format, ...) G_GNUC_PRINTF (5, 6);
