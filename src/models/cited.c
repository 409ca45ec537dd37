/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cited.c - owning a number with where it comes from; names of the grades of evidence. */
#include "models/cited.h"

static const char *const grades[] = {
  [SC_GRADE_MEASURED] = "measured",
  [SC_GRADE_INTERPOLATED] = "interpolated",
  [SC_GRADE_DATASHEET] = "datasheet",
  [SC_GRADE_FITTED] = "fitted",
  [SC_GRADE_ASSUMED] = "assumed",
  [SC_GRADE_USER] = "user",
};
G_STATIC_ASSERT (G_N_ELEMENTS (grades) == SC_N_GRADES);

const char *
sc_grade_name (ScGrade grade)
{
  g_return_val_if_fail ((guint) grade < SC_N_GRADES, NULL);
  return grades[grade];
}

void
sc_cited_clear (ScCited *cited)
{
  g_clear_pointer (&cited->source, g_free);
}

void
sc_curve_clear (ScCurve *curve)
{
  g_clear_pointer (&curve->x, g_free);
  g_clear_pointer (&curve->y, g_free);
  g_clear_pointer (&curve->source, g_free);
  curve->n = 0;
}
