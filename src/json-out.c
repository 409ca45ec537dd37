/* SPDX-License-Identifier: GPL-3.0-or-later */
/* json-out.c - null where there is no value. */
#include "json-out.h"
#include <math.h>

void
sc_json_add_number (cJSON *object, const char *key, double value)
{
  if (isfinite (value))
    cJSON_AddNumberToObject (object, key, value);
  else
    cJSON_AddNullToObject (object, key);
}

void
sc_json_add_text (cJSON *object, const char *key, const char *text)
{
  if (text == NULL)
    {
      cJSON_AddNullToObject (object, key);
      return;
    }
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  cJSON_AddStringToObject (object, key, valid);
}

void
sc_json_print (const cJSON *root, GString *out)
{
  char *const text = cJSON_Print (root);
  g_assert (text != NULL);
  g_string_append (out, text);
  g_string_append_c (out, '\n');
  cJSON_free (text);
}
