/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-json.h - sweep files: two inputs and what varies, in one JSON object.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "grid.h"

extern const ScFieldTable sc_grid_table;

typedef struct
{
  char  *topology, *workload; /* as on the command line; paths that lie beside the file are made relative to the working folder */
  char  *detail;              /* NULL: not stated */
  char **set;                 /* NULL-ended "KEY=VALUE", or NULL */
  ScGrid *grid;
} ScGridSpec;

void sc_grid_spec_clear (ScGridSpec *spec);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ScGridSpec, sc_grid_spec_clear)

/* Reads the file @path. */
gboolean sc_grid_spec_load (const char *path, ScGridSpec *ret, GError **error);
