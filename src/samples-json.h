/* SPDX-License-Identifier: GPL-3.0-or-later */
/* samples-json.h - tables of measured kernels: "samples" of a device file, or calibrations/NAME.json.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "models/samples.h"

extern const ScFieldTable sc_samples_table; /* one table of measured kernels */

/* "samples": an array of tables, or the name of a file below calibrations/ that is {"samples": [table, ...]}.  Appends to @tables
 * (ScSampleTable). */
gboolean sc_samples_read (const ScJson *json, const cJSON *item, GPtrArray *tables, GError **error);

/* Such a file. */
gboolean sc_samples_read_file (const ScJson *file, GPtrArray *tables, GError **error);

/* The words of "class", "dtype" and "op": G_MAXUINT for another word. */
guint sc_samples_class (const char *word);
guint sc_samples_dtype (const char *word);
guint sc_samples_op (const char *word);

/* The table as it stands in a file: one line for each point. */
void sc_samples_write (const ScSampleTable *table, GString *out);
