/* SPDX-License-Identifier: GPL-3.0-or-later */
/* documents-json.h - lengths of documents that are packed into sequences: seq_lengths of a workload.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "models/workload.h"

/* @item: of seq_lengths: an array of [length, count], or the path of a text file with a length in each line (empty lines and those that
 * begin with '#' are none), found from the workload's folder unless @here.  Lengths above @seq are refused.  Appends what was read to @files.
 * Caller frees; NULL on error. */
ScDocuments *sc_documents_read (const ScJson *json, const cJSON *item, guint seq, gboolean here, GPtrArray *files, GError **error);

/* The text of such a file; errors begin with the line. */
ScDocuments *sc_documents_parse (const char *text, guint seq, GError **error);
