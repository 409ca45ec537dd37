/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate-parts.h - what the files of calibration share; nobody else includes it.
 * Layer: src. */
#pragma once
#include "calibrate.h"
#include "line-fit.h"

/* What a clock above the datasheet's and rounding can do; more is a mistake in the file. */
#define ABOVE_DATASHEET 1.1
#define BELOW_DATASHEET 0.01 /* no fit of a working GPU is slower: milliseconds for microseconds */

/* A calibration under way. */
typedef struct
{
  ScCalibration *c;
  ScDevice      *device;
  ScKernelRows   kept;    /* rows of this GPU that can be; borrowed */
  GPtrArray     *numbers; /* of them, those that numbers may rest on; borrowed */
  const char *const *training;
  const ScMeasureSession *session;
  GError       **error;
} Calibrating;

/* calibrate.c: rows */
gboolean sc_calibrate_is_training (const Calibrating *w, const ScKernelRow *row);
double sc_calibrate_weight_of (const ScKernelRow *row);
double sc_calibrate_seconds_of (const ScKernelRow *row);
double sc_calibrate_bytes_of (const ScKernelRow *row);     /* of a copy */
double sc_calibrate_copy_rate_of (const ScKernelRow *row);
char *sc_calibrate_kind_name (const ScKernel *kernel);
GPtrArray *sc_calibrate_rows_of (const Calibrating *w, ScRowKind kind, ScKernelClass class);
GPtrArray *sc_calibrate_rows_that (const Calibrating *w, ScRowKind kind, const char *op);
double sc_calibrate_median_of (const GPtrArray *used, double (*value) (const ScKernelRow *row));

/* calibrate.c: what becomes of a fit */
gboolean sc_calibrate_refuse (const Calibrating *w, const char *key, const char *format, ...) G_GNUC_PRINTF (3, 4);
ScFit *sc_calibrate_add_fit (const Calibrating *w, const char *key, ScUnit unit, double base, const GPtrArray *used);
void sc_calibrate_note (ScFit *fit, const char *format, ...) G_GNUC_PRINTF (2, 3);
void sc_calibrate_note_too_few (ScFit *fit, const char *what);
char *sc_calibrate_cite (const GPtrArray *used, const char *how, const ScErrors *errors);
double sc_calibrate_rounded (double value);
void sc_calibrate_set_fit (ScFit *fit, ScCited *cited, double value, ScGrade grade, char *source);

/* calibrate-numbers.c: FALSE and an error where one makes no sense */
gboolean sc_calibrate_numbers (const Calibrating *w);
void sc_calibrate_tile_efficiency (const Calibrating *w); /* rests on the tables */

/* calibrate-tables.c */
gboolean sc_calibrate_tables (const Calibrating *w);
void sc_calibrate_judge_tables (const Calibrating *w); /* of a device that is prepared */
