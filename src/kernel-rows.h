/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel-rows.h - measured kernels, a JSON object a line: published ones, and the raw samples of stepcast-measure.
 * Layer: src.
 *
 * Published: {gpu, dtype, m, n, k, ...} is a product, {gpu, kind, seqlen, ...} attention, {gpu, op, bytes, ...} a memory-bound
 * kernel or a link, {kind: "layer", model, plan, measured, ...} one layer.  Raw (doc/raw-samples.md): "class" says what it is. */
#pragma once
#include "json-in.h"
#include "models/kernel.h"

typedef enum
{
  SC_ROW_KERNEL,   /* kernel and seconds are there */
  SC_ROW_LAYER,    /* json: one transformer layer */
  SC_ROW_LAUNCH,   /* raw: op, seconds */
  SC_ROW_COPY,     /* raw: op, bytes, seconds */
  SC_ROW_COLLECTIVE,
  SC_ROW_SLOWDOWN, /* raw: op (victim), beside, amount of it, factor */
  SC_ROW_POWER,    /* raw: op (burst or sustained), flops_per_s, the product in kernel */
  SC_ROW_SKIPPED,  /* why */
} ScRowKind;

typedef struct
{
  guint     line;
  ScRowKind kind;
  gboolean  raw;     /* of stepcast-measure */
  char     *why;     /* SKIPPED */
  char     *gpu;
  char     *source;  /* as printed, or who measured it */
  char     *stack;   /* the software, in short: "trtllm 1.3.0rc20", "FA3", "SimuMax" */
  ScKernel  kernel;
  gboolean  has_layout; /* of a product: TN, NN or NT is stated */
  gboolean  is_session; /* of SKIPPED: no measurement at all */
  double    seconds;
  double    spread;  /* (p90 - p10) / median; 0: not said */
  char     *op, *beside;
  double    bytes, factor, amount, flops_per_s;
  guint64  *rows;    /* grouped: of each group, owned; NULL: none */
  guint     n_rows;
  ScJson   *json;    /* LAYER: the row, owned */
} ScKernelRow;

void sc_kernel_row_free (ScKernelRow *row);

/* What stepcast-measure says about the machine: the last session line. */
typedef struct
{
  char  *gpu, *driver, *cuda, *cublaslt, *cudnn, *nccl, *started, *program; /* NULL: not said */
  double sms, memory_bytes, l2_bytes, power_limit_w, clock_sm_max_mhz;
} ScMeasureSession;

typedef struct
{
  GPtrArray       *rows; /* ScKernelRow, owned, in the order of the file */
  gboolean         raw;  /* it has session lines */
  ScMeasureSession session;
} ScKernelRows;

void sc_kernel_rows_free (ScKernelRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScKernelRows, sc_kernel_rows_free)

/* A file, "-", or shipped measurements of that name.  A line that is not JSON or has a number that cannot be is an error; one that
 * only lacks what a prediction needs is a skipped row that says so.  A last line without its end is skipped: the writer was cut. */
ScKernelRows *sc_kernel_rows_load (const char *argument, GError **error);
ScKernelRows *sc_kernel_rows_parse (const char *file, const char *text, gsize length, GError **error);

/* Puts the rows of @more behind those of @rows; @more is taken.  The session is the last one said. */
void sc_kernel_rows_take (ScKernelRows *rows, ScKernelRows *more);

/* Says in each raw row who measured it where and when, as a source. */
void sc_kernel_rows_cite (ScKernelRows *rows);
