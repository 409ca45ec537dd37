/* SPDX-License-Identifier: GPL-3.0-or-later */
/* json-out.h - members of JSON reports that may have nothing to say.
 * Layer: src. */
#pragma once
#include "json-in.h"

/* null where @value is not finite: nothing was judged, or nothing bounds it. */
void sc_json_add_number (cJSON *object, const char *key, double value);

/* NULL becomes null; what is not UTF-8 is repaired. */
void sc_json_add_text (cJSON *object, const char *key, const char *text);

/* The tree and a line end. */
void sc_json_print (const cJSON *root, GString *out);
