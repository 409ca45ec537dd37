/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report.h - a summary as text: one row per format. */
#pragma once
#include "models/summary.h"

#define SC_REPORT_ERROR (sc_report_error_quark ())
GQuark sc_report_error_quark (void);
typedef enum
{
  SC_REPORT_ERROR_NOT_FINITE, /* a number that JSON cannot hold: our mistake, not the user's */
} ScReportError;

typedef struct
{
  const char *name;    /* of --format and of the file's extension */
  const char *summary; /* one line for people */
  /* Appends to @out; FALSE and an error leave it undefined. */
  gboolean (*write) (const ScSummary *summary, GString *out, GError **error);
} ScReport;

extern const ScReport sc_report_text;
extern const ScReport sc_report_json;

const ScReport *const *sc_report_all (void); /* NULL-ended, the default first */
const ScReport        *sc_report_find (const char *name); /* NULL: no such row */
