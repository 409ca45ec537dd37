/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gzip.h - a stream that compresses what is written to it.
 * Layer: src. */
#pragma once
#include <glib.h>
#include <stdio.h>

/* Writes gzip to @to, which it does not close; the same bytes for the same text.  fclose() ends it: an error of that, or of @to, means that not all is there.
 * NULL and errno. */
FILE *sc_gzip_open (FILE *to);
