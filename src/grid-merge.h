/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-merge.h - the lines of a sweep's shards, put together in the order of the grid.
 * Layer: src.  Files stay where they are (mapped); of each line its place is kept, 24 bytes. */
#pragma once
#include "grid-row.h"

typedef struct _ScMerge ScMerge;

ScMerge *sc_merge_new (void);
void     sc_merge_free (ScMerge *merge);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScMerge, sc_merge_free)

/* Adds the lines of the file @path.  All files have one format and are of one sweep; a torn last line counts as missing.  Errors name file and line. */
gboolean sc_merge_add (ScMerge *merge, const char *path, GError **error);

/* Once all are added: sorts them.  Lines that say the same of one point are one; FALSE where they differ. */
gboolean sc_merge_settle (ScMerge *merge, GError **error);

guint64 sc_merge_n_points (const ScMerge *merge);    /* of the sweep */
guint64 sc_merge_n_lines (const ScMerge *merge);     /* different ones, of as many points */
guint64 sc_merge_n_duplicates (const ScMerge *merge);
guint64 sc_merge_n_torn (const ScMerge *merge);      /* files that end in the middle of a line */

/* "3, 7-12, 20, ..." of the points without a line, or with @duplicates those with several; at most @most ranges; yours. */
char *sc_merge_list (const ScMerge *merge, gboolean duplicates, guint most);

/* Hands out the header (where there is one) and the lines, with their line ends.  FALSE: @put returned FALSE. */
typedef gboolean (*ScMergePut) (gpointer data, const char *text, gsize length);
gboolean sc_merge_write (const ScMerge *merge, ScMergePut put, gpointer data);
