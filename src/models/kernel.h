/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel.h - one GPU kernel and what it costs.
 * Layer: models.  The seam behind which calibration will sit: lowering describes kernels, sc_kernel_cost() prices them. */
#pragma once
#include "models/device.h"

typedef enum
{
  SC_KERNEL_GEMM,           /* m x n x k */
  SC_KERNEL_BATCHED_GEMM,   /* batch x (m x n x k): unfused attention */
  SC_KERNEL_FLASH_FORWARD,  /* flops (causal = half), seq, bytes */
  SC_KERNEL_FLASH_BACKWARD, /* same; flops = 2.5 x forward (MODELLING 4.3) */
  SC_KERNEL_ELEMENTWISE,    /* bytes read + written */
  SC_KERNEL_REDUCTION,      /* bytes; norms, softmax, cross entropy */
  SC_KERNEL_OPTIMIZER,      /* bytes */
  SC_N_KERNEL_CLASSES
} ScKernelClass;

typedef struct
{
  const char   *name;  /* static: "qkv", "qkv dgrad", "flash attention", "norm 1", ... */
  ScKernelClass class;
  ScDtype       dtype;
  guint64       m, n, k, batch; /* GEMM: C[m,n] = A[m,k] B[k,n]; flash: k = head size */
  gboolean      accumulate;     /* adds into an fp32 buffer (weight gradients) */
  double        flops;          /* executed FLOPs, 2 m n k batch for GEMMs; 0 for memory-bound kernels */
  double        bytes;          /* HBM traffic, read + written */
  guint         seq;            /* flash: sequence length, for the efficiency curve */
} ScKernel;

typedef struct
{
  double  seconds; /* on an idle GPU, launch gap included */
  ScGrade grade;   /* the weakest grade of a number that decides this time */
} ScCost;

/* Constructors: fill flops and bytes from the shape (MODELLING 4.1, 4.3, 4.4).  Bytes count every operand once. */
ScKernel sc_kernel_gemm (const char *name, ScDtype dtype, guint64 m, guint64 n, guint64 k);

/* A product added into a buffer of @accumulator's width (weight gradients): read and written, not only written. */
ScKernel sc_kernel_gemm_accumulate (const char *name, ScDtype dtype, ScDtype accumulator, guint64 m, guint64 n,
                                    guint64 k);
ScKernel sc_kernel_batched_gemm (const char *name, ScDtype dtype, guint64 batch, guint64 m, guint64 n, guint64 k);
ScKernel sc_kernel_flash (const char *name, ScKernelClass class, ScDtype dtype, guint seq, guint head_dim, double flops,
                          double bytes);
ScKernel sc_kernel_memory (const char *name, ScKernelClass class, double bytes);

/* Time of @kernel on @device running at @speed (1 = as its file says; a slow GPU less).  @speed slows arithmetic and
 * memory alike, not the launch.  About 0.2 us a call: callers memoise what they ask often. */
ScCost sc_kernel_cost (const ScDevice *device, const ScKernel *kernel, double speed);

/* The parts of the matrix model, for tests: waves of m x n over @sms SMs with tiles t_m x t_n, and the share of the
 * last wave that is used (MODELLING 4.1). */
guint64 sc_gemm_waves (guint64 m, guint64 n, guint tile_m, guint tile_n, guint sms, double *ret_efficiency);
