/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-row.h - what is said of one point of a sweep: one line, the same columns in every format.
 * Layer: src. */
#pragma once
#include "grid.h"
#include "models/summary.h"

typedef enum
{
  SC_POINT_FITS,
  SC_POINT_AT_RISK,
  SC_POINT_DOES_NOT_FIT,
  SC_POINT_REFUSED, /* the plan, or it on this topology, cannot be */
  SC_POINT_ERROR,   /* ours */
  SC_N_POINT_STATUSES
} ScPointStatus;

const char *sc_point_status_name (ScPointStatus status); /* "fits", "at_risk", "does_not_fit", "refused", "error" */

/* A number of a summary. */
typedef struct
{
  const char *name;  /* key and column: unit in the name, SI */
  gboolean    whole; /* written without a fraction */
  double    (*get) (const ScSummary *summary); /* NAN: does not apply */
  const char *help;  /* one line for people */
} ScGridColumn;

/* Without the times, which follow SC_GRID_TIMES_AFTER: "forward_s" and so on for every ScTimeKind, means over stages. */
const ScGridColumn *sc_grid_columns (guint *ret_n);
guint sc_grid_times_after (void); /* columns before the times */

/* Which point of which sweep a line is about. */
typedef struct
{
  const ScGrid *grid;
  const char   *id; /* of the sweep */
  guint64       point;
} ScGridPoint;

typedef struct
{
  const char *name;   /* "jsonl" */
  const char *header; /* names the row of column names that the file begins with; NULL: none */
  /* Appends the header and a line end; nothing where there is none. */
  void (*write_header) (const ScGrid *grid, GString *out);
  /* Appends what the line of @point begins with: enough to know it by. */
  void (*write_begin) (const ScGridPoint *point, GString *out);
  /* Appends the line.  @summary is NULL for refusals and errors, @why for all others. */
  void (*write) (const ScGridPoint *point, ScPointStatus status, const ScSummary *summary, const char *why, GString *out);
} ScGridFormat;

const ScGridFormat *sc_grid_format_find (const char *name); /* NULL: none of that name */
const ScGridFormat *const *sc_grid_format_all (void);        /* NULL-ended */
