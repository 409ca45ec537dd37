/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config.h - config.json of a published model (Hugging Face transformers) becomes the "model" of a workload.
 * Layer: src.  Tolerant in what it skips, strict in what it takes: each number says which key it is from, or that the
 * library or the type has it so; a type that is not in the table is refused, never guessed. */
#pragma once
#include "fields.h"
#include "models/workload.h"

/* One field of the model. */
typedef struct
{
  const ScField *field;
  const char    *object; /* "mla", "indexer": the object of "model" that has it; NULL: "model" itself */
  cJSON         *value;  /* as a workload would say it; owned */
  char          *origin; /* "from num_hidden_layers", "default of transformers", "all of this type"; owned */
  const cJSON   *item;   /* where it stands in the file; NULL: nowhere */
  gboolean       taken;  /* the workload's model does not say it itself */
} ScHfField;

typedef struct
{
  ScJson      *json;
  const cJSON *object; /* of the file: what has the sizes, the root or a part of it ("text_config") */
  const char  *type;   /* as the file says it; of @json */
  GPtrArray   *fields; /* ScHfField, in the order of the model's table; owned */
  GPtrArray   *unused; /* char *: keys that nothing follows from; owned */
} ScHfConfig;

ScHfConfig *sc_hf_config_load (const char *path, GError **error);
ScHfConfig *sc_hf_config_take_json (ScJson *json, GError **error); /* @json is the config's, or freed */
void        sc_hf_config_free (ScHfConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScHfConfig, sc_hf_config_free)

/* Whether @json looks like such a file rather than a workload. */
gboolean sc_hf_config_is (const ScJson *json);

/* Adds to @model, the object of a workload, the fields that it does not have itself. */
void sc_hf_config_add (ScHfConfig *config, cJSON *model);

/* @message of sc_workload_check(), "/model/KEY: ...", about a key that was taken from the file becomes an error about
 * the file's key.  FALSE, and no error, where it is about anything else. */
gboolean sc_hf_config_fail (const ScHfConfig *config, const char *message, GError **error);

/* The model without a workload; it has no name. */
gboolean sc_hf_config_model (ScHfConfig *config, ScModel *ret_model, GError **error);

/* One model_type, or several of the same keys. */
typedef struct
{
  const char *types;   /* "llama granite": as files say them; the first names the row */
  const char *summary; /* what sets it apart, or why it is refused */
  gboolean    refused;
} ScHfTypeInfo;
guint        sc_hf_n_types (void);
ScHfTypeInfo sc_hf_type_info (guint i);
