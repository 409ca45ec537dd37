/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-kernels.h - measured kernels against the cost models, row by row.
 * Layer: src.
 *
 * A row is predicted from the measurements of its own software on its GPU, if there are any, and else as a forecast would.  The
 * shape that is asked is left out of the measurements, so a row never predicts itself. */
#pragma once
#include "error-stat.h"
#include "kernel-rows.h"
#include "models/samples.h"

/* What is judged together. */
typedef enum
{
  SC_GROUP_GEMM,          /* products whose layout is not stated: forward */
  SC_GROUP_GEMM_TRAINING, /* layouts stated: forward, and both gradients, added up in fp32 */
  SC_GROUP_BATCHED_GEMM,
  SC_GROUP_GROUPED_GEMM,
  SC_GROUP_ATTENTION_FORWARD,
  SC_GROUP_ATTENTION_BACKWARD,
  SC_GROUP_MEMORY,       /* from 10 MB on */
  SC_GROUP_MEMORY_SMALL,
  SC_GROUP_LAYER,        /* one transformer layer, forward or backward */
  SC_N_GROUPS
} ScKernelGroup;

const char *sc_kernel_group_name (ScKernelGroup group); /* "gemm", "gemm_training", ... as keys of the JSON */

/* Greatest median and 90th percentile of the error; NAN: none. */
void sc_kernel_group_targets (ScKernelGroup group, double *ret_median, double *ret_p90);

/* What is kept from the model beside the row itself. */
typedef enum
{
  SC_KEEP_POINT, /* the same shape */
  SC_KEEP_SHAPE, /* the same n and k at any number of rows; attention of any length, all else alike */
  SC_KEEP_STACK, /* all of its software: the row is predicted from another's measurements on the GPU, or as a forecast would */
  SC_KEEP_GPU,   /* all measurements of its GPU: it is predicted from a relative's, whose efficiencies it takes on its own datasheet */
  SC_KEEP_NONE,  /* nothing: a row that was measured predicts itself */
} ScHoldOutRule;

const char *sc_hold_out_name (ScHoldOutRule rule); /* "point", "shape", "software", "gpu", "none"; NULL for others */

typedef enum
{
  SC_BY_STACK,    /* measurements of the same software on the same GPU */
  SC_BY_OTHER,    /* of other software on the same GPU */
  SC_BY_RELATIVE, /* of another GPU */
  SC_BY_FORM,     /* none: the formula and the device's numbers */
  SC_N_BASES
} ScBasis;
const char *sc_basis_name (ScBasis basis);

typedef struct
{
  const ScKernelRow *row; /* borrowed; NULL for a layer's second figure: see name */
  guint          line;
  ScKernelGroup  group;
  char          *name;    /* "gemm bf16 TN 8192 x 4096 x 4096" */
  const char    *gpu;     /* device that stands for it; borrowed, NULL: none */
  const char    *stack;   /* borrowed */
  char          *why;     /* skipped; NULL: judged */
  ScBasis        basis;
  double         measured_s, predicted_s;
} ScKernelJudged;

/* One line of the table by GPU. */
typedef struct
{
  ScKernelGroup group;
  const char   *gpu, *stack, *dtype;
  ScBasis       basis;
  ScErrors      errors;
} ScKernelSet;

#define SC_N_TIME_BANDS 5
const char *sc_time_band_name (guint band); /* "< 10 us", ... */

typedef struct
{
  GPtrArray     *judged;  /* ScKernelJudged, in the order of the rows */
  ScErrors       all, groups[SC_N_GROUPS], bands[SC_N_GROUPS][SC_N_TIME_BANDS];
  GArray        *sets;    /* ScKernelSet, in the order of first rows */
  GPtrArray     *devices; /* owned, what gpu is borrowed from */
  guint          n_rows, n_skipped, skipped[SC_N_GROUPS];
  gboolean       passes;
  ScHoldOutRule  rule;
} ScKernelsResult;

void sc_kernels_result_free (ScKernelsResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScKernelsResult, sc_kernels_result_free)

/* @rows: borrowed as long as the result lives. */
ScKernelsResult *sc_validate_kernels (const ScKernelRows *rows, ScHoldOutRule rule, GError **error);

/* validation/layers.jsonl, and the measurements that the shipped devices rest on as rows. */
ScKernelRows *sc_kernel_rows_shipped (GError **error);

/* One row of the table of formats. */
typedef struct
{
  const char *name;
  void (*write) (const ScKernelsResult *result, GString *out);
} ScKernelsFormat;
const ScKernelsFormat *sc_kernels_formats (void); /* the first is the default; ends with a row whose name is NULL */
