/* SPDX-License-Identifier: GPL-3.0-or-later */
/* samples.h - measured kernels of one GPU, by class, data type and software, as residuals on the forms.
 * Layer: models.  Kept as times in the device file; the residuals are taken when the device is prepared, on the device as it was
 * measured, so that a what-if moves measured kernels as it moves the formula (MODELLING 4.2.2). */
#pragma once
#include "models/kernel.h"
#include "models/residuals.h"

struct ScSampleTable
{
  ScKernelClass class;  /* memory-bound tables: the class of @op */
  ScDtype       dtype;
  ScMemoryOp    op;     /* memory-bound */
  char         *stack;  /* the software: "trtllm 1.3.0rc20", "cuDNN 9.7" */
  char         *source;
  gboolean      training; /* forecasts use it; else it only judges rows of its own stack */
  ScCited       efficiency; /* of the form; value 0: the device's gemm_tile_efficiency */
  guint         n;
  ScKernel     *kernels;    /* [n] owned */
  double       *seconds;    /* [n] owned */
  guint64     **rows;       /* [n] grouped: rows of each group, owned; NULL: no such table */
  guint        *n_rows;     /* [n] groups, those without rows too */
  gboolean      by_layout;  /* products: samples tell TN, NN, NT apart */

  /* found by sc_device_prepare() */
  gboolean      accumulates; /* some samples add into fp32: those that do are told apart from those that do not */
  double        usual_row;  /* of norms and softmax, where a kernel does not say; 0: no sample says */
  ScResiduals   residuals;
};

void sc_sample_table_free (ScSampleTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSampleTable, sc_sample_table_free)

/* Takes the residuals of all tables.  Once, before anything is scaled. */
void sc_device_prepare (ScDevice *device);

/* The table a forecast of @kernel rests on: of this device, else of its relative (*ret_relative); NULL: none.  Rates of bf16 and
 * fp16 products are alike and stand in for one another; memory-bound kernels only move bytes, so any data type may. */
const ScSampleTable *sc_device_samples (const ScDevice *device, const ScKernel *kernel, gboolean *ret_relative);

/* Burst time of @kernel as @table predicts it on @device, which need not be the one it was measured on, without the samples held
 * out.  *ret_distance as in ScResidual. */
double sc_samples_predict (const ScDevice *device, const ScSampleTable *table, const ScKernel *kernel, ScHoldOut hold_out,
                           double *ret_distance);

/* The efficiency that the form under @table runs at on @device. */
const ScCited *sc_samples_efficiency (const ScDevice *device, const ScSampleTable *table);

/* Up to this distance a prediction counts as interpolated. */
#define SC_SAMPLES_NEAR 1.0
