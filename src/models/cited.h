/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cited.h - a number with where it comes from.
 * Layer: models.  Every hardware constant carries its source and its grade, and reports say which share of an answer
 * rests on which grade. */
#pragma once
#include <glib.h>

typedef enum
{
  SC_GRADE_MEASURED,  /* measured on this GPU or fabric, by us or in the cited publication */
  SC_GRADE_INTERPOLATED, /* between measurements of this GPU */
  SC_GRADE_DATASHEET, /* printed by the vendor */
  SC_GRADE_FITTED,    /* fitted on measurements of this GPU or its family */
  SC_GRADE_ASSUMED,   /* general knowledge or carried over from a relative */
  SC_GRADE_USER,      /* the workload gives it: its user measured it */
  SC_N_GRADES
} ScGrade;

const char *sc_grade_name (ScGrade grade); /* "measured", "interpolated", "datasheet", "fitted", "assumed", "user" */

typedef struct
{
  double  value;
  ScGrade grade;
  char   *source; /* owned by the struct that holds it; NULL: not given */
} ScCited;

/* y over x, ascending x, n >= 1 points; between points monotone (Steffen) over log x, clamped outside. */
typedef struct
{
  guint   n;
  double *x; /* [n] owned */
  double *y; /* [n] owned */
  ScGrade grade;
  char   *source;
} ScCurve;

/* Free what they own; both may be called again. */
void sc_cited_clear (ScCited *cited);
void sc_curve_clear (ScCurve *curve);
