/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report.c - the table of report formats. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "report.h"

G_DEFINE_QUARK (sc-report-error-quark, sc_report_error)

const ScReport *const *
sc_report_all (void)
{
  static const ScReport *const reports[] = { &sc_report_text, &sc_report_json, NULL };
  return reports;
}

const ScReport *
sc_report_find (const char *name)
{
  for (const ScReport *const *r = sc_report_all (); *r != NULL; r++)
    if (strcmp ((*r)->name, name) == 0)
      return *r;
  return NULL;
}
