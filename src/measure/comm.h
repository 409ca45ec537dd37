/* SPDX-License-Identifier: MIT */
/* comm.h - communicators over the first GPUs of the node, all in this process. */
#pragma once
#include "measure/gpu.h"

typedef struct
{
  int n;
  ncclComm_t comm[SCM_MAX_GPUS];
  cudaStream_t stream[SCM_MAX_GPUS];
  void *send[SCM_MAX_GPUS], *receive[SCM_MAX_GPUS];
} ScmRanks;

/* The communicators of @n GPUs, kept, and buffers of at least @bytes, shared by all numbers of GPUs.  What was in the
 * pool may be gone. */
ScmOutcome scm_ranks_get (ScmGpu *gpu, int n, size_t bytes, ScmRanks **ret_ranks);

/* Enqueues one @collective of nccl-tests' size @bytes on all of them. */
ScmOutcome scm_ranks_issue (ScmGpu *gpu, ScmRanks *ranks, const char *collective, int64_t bytes);
