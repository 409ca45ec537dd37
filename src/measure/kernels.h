/* SPDX-License-Identifier: MIT */
/* kernels.h - our own kernels, as plain C functions that enqueue one execution. */
#pragma once
#include "measure/item.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C"
{
#endif

#define SCM_MAX_HELD 64
#define SCM_NORM_BLOCKS 8 /* most per SM in the backward of a norm; each has partial sums in scratch */

/* Shared by the host and the kernel that holds SMs; pinned memory. */
typedef struct
{
  volatile int stop;
  volatile int arrived[SCM_MAX_HELD]; /* by each block once it runs */
} ScmHold;

/* Tensors of a memory-bound operation: what each is for stands beside its function. */
typedef struct
{
  void *in[5];
  void *out[4];
  const int *index;  /* permutation of rows, or token ids */
  float *scratch;    /* partial sums */
  int64_t shape[3];
  int sms;
} ScmTensors;

#define ROW(name, family, dtype, element, row, column) cudaError_t scm_op_##name (const ScmTensors *t, cudaStream_t stream);
SCM_MEMORY_OPS (ROW)
#undef ROW

/* Shared memory that a block of it asks for, where that may be more than the GPU has; else 0. */
size_t scm_op_shared (ScmOp op, const int64_t *shape);

/* Softmax of attention scores [rows][columns] of bf16, in place of the fused one; causal: row i of @seqlen sees
 * columns 0..i. */
cudaError_t scm_softmax_fwd (const void *x, void *y, int64_t rows, int64_t columns, int64_t causal_seqlen,
                             cudaStream_t stream);
cudaError_t scm_softmax_bwd (const void *y, const void *dy, void *dx, int64_t rows, int64_t columns, float scale,
                             cudaStream_t stream);

typedef enum
{
  SCM_FILL_BF16,
  SCM_FILL_FP16,
  SCM_FILL_FP32,
  SCM_FILL_FP8,
} ScmFill;

cudaError_t scm_fill_random (void *at, ScmFill type, int64_t n, float scale, unsigned seed, cudaStream_t stream);
cudaError_t scm_fill_indices (int *at, int64_t n, int64_t below, int permutation, unsigned seed, cudaStream_t stream);

/* One block that waits for @ns, so that the host can enqueue what is measured behind it. */
cudaError_t scm_delay (int64_t ns, cudaStream_t stream);

/* A kernel of one thread that does nothing. */
cudaError_t scm_nothing (cudaStream_t stream);

/* One block that leaves no room on its SM, @n of them, until hold->stop or @limit_ns. */
cudaError_t scm_hold_sms (int n, ScmHold *hold, int64_t limit_ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
