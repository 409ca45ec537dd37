/* SPDX-License-Identifier: GPL-3.0-or-later */
/* json-in.h - strict JSON: text to a cJSON tree, and errors that say where.
 * Layer: src.  RFC 8259 to the letter, no duplicate keys, no control characters, bounded depth and size.  Errors name
 * the file and line:column for syntax, the file and the JSON pointer for content, always in one line. */
#pragma once
#include <cjson/cJSON.h>
#include <glib.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC (cJSON, cJSON_Delete)

#define SC_JSON_MAX_DEPTH 64
#define SC_JSON_MAX_VALUES 1000000

#define SC_INPUT_ERROR (sc_input_error_quark ())
GQuark sc_input_error_quark (void);
typedef enum
{
  SC_INPUT_ERROR_SYNTAX,   /* not JSON */
  SC_INPUT_ERROR_CONTENT,  /* JSON, but not what is expected there */
  SC_INPUT_ERROR_OVERRIDE, /* --set names what nobody reads: the command line is wrong, not the data */
} ScInputError;

/* One document. */
typedef struct
{
  char      *file; /* as messages call it */
  cJSON     *root;
  GPtrArray *overrides; /* ScJsonOverride, owned */
} ScJson;

/* A value that did not come from the file. */
typedef struct
{
  char    *pointer; /* JSON pointer of the value, or of a parent that had to be made for it */
  char    *text;    /* as written: "plan.tp=4" */
} ScJsonOverride;

ScJson *sc_json_parse (const char *file, const char *text, gsize length, GError **error);
void    sc_json_free (ScJson *json);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScJson, sc_json_free)

/* Parses one value, as --set writes it; NULL if @text is not JSON.  *ret_why (optional) says why. */
cJSON *sc_json_parse_value (const char *text, char **ret_why);

/* Duplicate keys and control characters anywhere in the tree; sc_json_parse() has done this. */
gboolean sc_json_check (const ScJson *json, GError **error);

void sc_json_note_override (ScJson *json, const char *pointer, const char *text);

/* JSON pointer of @item, an item of @json; @key (optional) is appended.  Found by search: for messages only. */
char *sc_json_pointer (const ScJson *json, const cJSON *item, const char *key);

/* What stands there, for messages: "\"450\"", "4.5", "an array".  Caller frees. */
char *sc_json_found (const cJSON *item);

/* Sets an error "FILE: POINTER: message" about @item, or about its member @key where @key is not NULL; where the value
 * is from --set, "--set KEY=VALUE: FILE: ...". */
void sc_json_fail (const ScJson *json, const cJSON *item, const char *key, GError **error, const char *format, ...)
    G_GNUC_PRINTF (5, 6);

/* The same about a key that nobody reads. */
void sc_json_fail_key (const ScJson *json, const cJSON *object, const char *key, const char *const *known,
                       GError **error);

/* The same for a message that begins with its own pointer, as sc_workload_check() writes them. */
void sc_json_fail_at (const ScJson *json, GError **error, const char *pointer_and_message);

/* Word of @known (NULL-ended) that @word is most likely a slip of, or NULL if none is near. */
const char *sc_nearest (const char *word, const char *const *known);
