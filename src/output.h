/* SPDX-License-Identifier: GPL-3.0-or-later */
/* output.h - files that appear whole or not at all.
 * Layer: src.  What is written goes to a file without a name in the target's folder; sc_output_close() gives it its name, in
 * place of what stood there.  An error, a kill or a full disk leaves the old file, and no other. */
#pragma once
#include <glib.h>
#include <stdio.h>

typedef struct _ScOutput ScOutput;

/* @path: "-" is standard output; what is no regular file (a device, a pipe) is written in place; what a link points to
 * is replaced, not the link.  NULL and SC_CMD_ERROR (CANNOT_CREATE, IO). */
ScOutput *sc_output_open (const char *path, GError **error);
FILE     *sc_output_file (const ScOutput *output);

/* Ends the output, with @commit under its name, else without a trace.  Frees it. */
gboolean sc_output_close (ScOutput *output, gboolean commit, GError **error);

/* Do both paths name the same regular file, or, where there is none yet, the same place? */
gboolean sc_output_is_same (const char *a, const char *b);
