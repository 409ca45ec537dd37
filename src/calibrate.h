/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate.h - measured rows become the numbers and tables of a device, each with what is known about its error.
 * Layer: src.  Pure: rows and a base in, a device and a result out.
 *
 * Times over bytes are straight lines (line-fit.h); ratios and rates are weighted medians; products and attention are tables of
 * samples with the efficiency of their form. */
#pragma once
#include "error-stat.h"
#include "kernel-rows.h"
#include "models/samples.h"
#include "units.h"

/* One number of the device file. */
typedef struct
{
  const char *key;
  ScUnit   unit;
  double   base;       /* NAN: a curve, or not in the base */
  gboolean fitted;     /* else the base's number stays, and @note says why */
  double   value;      /* of a curve: the median of its points */
  guint    n;          /* rows it rests on */
  guint    n_wild;     /* of them, those that count less for their spread */
  guint    n_left_out; /* rows of its kind that could not take part */
  ScErrors errors;     /* cross-validated */
  char    *note;       /* NULL: nothing to say */
} ScFit;

/* One table of measured kernels. */
typedef struct
{
  const ScSampleTable *table; /* of ScCalibration.device or .tables */
  gboolean raw;
  guint    n_wild;
  ScErrors form;  /* of the formula alone, at the table's efficiency */
  ScErrors point; /* each shape predicted from the others */
  ScErrors shape; /* GEMM: a whole (n, k, layout) held out, at any m */
} ScTableFit;

/* What has no number in a device file. */
typedef struct
{
  char  *what;   /* "h2d copies", "launch in a graph" */
  ScUnit unit;
  double value;
  guint  n;
} ScReported;

typedef struct
{
  ScDevice  *device;   /* calibrated; owned */
  GPtrArray *tables;   /* ScSampleTable of these rows alone; owned by @device */
  GArray    *fits;     /* ScFit, in the order in which one rests on another */
  GArray    *table_fits; /* ScTableFit, as @tables */
  GArray    *reported; /* ScReported */
  GPtrArray *warnings; /* char * */
  GPtrArray *skipped;  /* char *: "12 rows: why" */
  guint      n_rows;   /* that were used */
  guint      n_numbers; /* of them, those that numbers may rest on */
  gboolean   samples_only;
  guint      n_wild;
  guint      n_kept_tables; /* of the base, where nothing was measured */
  char      *base;     /* name */
  char      *provenance; /* of the rows, in short */
} ScCalibration;

void sc_calibration_free (ScCalibration *calibration);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScCalibration, sc_calibration_free)

/* Rows whose spread is above this count less, and are counted. */
#define SC_CALIBRATE_SPREAD 0.25

/* Calibrates @base, which is taken (freed on error as well), by the rows of a GPU it is called.  @training: stacks whose tables and
 * numbers forecasts rest on (NULL-ended; "all"), NULL: all that was measured raw but for attention without fusion.  @samples_only: the
 * numbers of @base stay, and tables are made on them.
 * SC_INPUT_ERROR where a fit makes no sense: its name, what was found, what was expected. */
ScCalibration *sc_calibrate_take (ScDevice *base, const ScKernelRows *rows, const char *const *training, gboolean samples_only, GError **error);

/* As points of plots: class, dtype, op, stack, FLOPs or bytes, measured, form, held out; a line each, tabs between. */
void sc_calibration_write_points (const ScCalibration *calibration, GString *out);
