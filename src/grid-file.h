/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-file.h - files that grow line by line, and go on where a kill left them.
 * Layer: src.  Each line is written at once when it is known, so that a kill at any moment loses no whole line and leaves at most one torn
 * one, at the end. */
#pragma once
#include <glib.h>

typedef struct _ScGridFile ScGridFile;

/* @path: a new file, or "-" for standard output.  What stands there already is refused, since it may be hours of work, unless it is empty or no
 * regular file.  NULL and SC_CMD_ERROR. */
ScGridFile *sc_grid_file_create (const char *path, GError **error);

/* Opens @path to go on with it, or to begin where it is not there or empty.  Reads what is in it: @header (NULL: none), then lines of which @check says
 * whether each is the right one, the first being 0.  A torn last line is cut off.  *ret_lines: good ones, without the header.
 * @check: FALSE and an error where @line is another sweep's. */
typedef gboolean (*ScGridFileCheck) (gpointer data, guint64 index, const char *line, gsize length, GError **error);
ScGridFile *sc_grid_file_resume (const char *path, const char *header, ScGridFileCheck check, gpointer data, guint64 *ret_lines, GError **error);

/* Appends whole lines.  @may_wait (may be NULL) is asked ten times a second while a pipe takes nothing; FALSE: give up, without an error. */
gboolean sc_grid_file_append (ScGridFile *file, const char *text, gsize length, gboolean (*may_wait) (gpointer data), gpointer data, GError **error);

/* What was appended reaches the disk.  Frees @file. */
gboolean sc_grid_file_close (ScGridFile *file, GError **error);
