/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid.h - a grid of overrides: axes with a few values each, and points that are never written down, only counted.
 * Layer: src.  Not to be confused with the measured sweeps of sweep-json.h. */
#pragma once
#include "json-in.h"

#define SC_GRID_MAX_AXES 64
#define SC_GRID_MAX_VALUES 100000     /* of one axis */
#define SC_GRID_MAX_POINTS 1e15       /* exact as a double, with room */

/* One or several keys that vary together. */
typedef struct
{
  char **keys;     /* [n_keys + NULL] as --set takes them: "plan.tp" */
  guint  n_keys;
  char **texts;    /* [n_values * n_keys] as --set takes them: JSON, or plain text */
  char **json;     /* the same, as JSON in one line, */
  char **plain;    /* and without the quotes of a JSON text */
  guint  n_values;
  gboolean topology; /* some key of it is one of the topology */
} ScGridAxis;

typedef struct
{
  GPtrArray *axes; /* ScGridAxis, owned; the last one varies fastest */
  guint64 n_points; /* product of the values; 1 without axes */
} ScGrid;

ScGrid *sc_grid_new (void);
void    sc_grid_free (ScGrid *grid);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScGrid, sc_grid_free)

/* Adds the axis of "KEYS=VALUES" as --vary takes it.  KEYS: one key, or several joined by commas.  VALUES: a list joined by commas, in
 * which a:b, a:b:+s and a:b:xk stand for numbers from a to at most b; for several keys a list joined by "/" of values joined by commas, one for each
 * key.  Brackets and double quotes protect commas, slashes and colons.  SC_CMD_ERROR_USAGE. */
gboolean sc_grid_add (ScGrid *grid, const char *text, GError **error);

/* Adds the axes of an array of one-member objects, as sweep files have it: {"plan.tp": [1, 2]}, {"plan.pp": "1:16:x2"} (a text is what
 * --vary takes), {"plan.tp,plan.pp": [[1, 8], [2, 4]]}. */
gboolean sc_grid_add_json (ScGrid *grid, const ScJson *json, const cJSON *array, GError **error);

/* Which value each axis has at @point: [n axes]. */
void sc_grid_choose (const ScGrid *grid, guint64 point, guint *ret_value);

/* Overrides of @point, "plan.tp=4" and so on; NULL-ended, yours. */
char **sc_grid_set (const ScGrid *grid, guint64 point);

/* One number for all points that have the same topology. */
guint64 sc_grid_topology (const ScGrid *grid, guint64 point);
