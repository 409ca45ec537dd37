/* SPDX-License-Identifier: MIT */
/* nccl-api.h - the few functions of NCCL 2 that are used (>= 2.10, for bf16), so that no header of it is needed. */
#pragma once
#include <cuda_runtime_api.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef int ncclResult_t; /* 0: success */
typedef int ncclDataType_t;
typedef int ncclRedOp_t;

enum
{
  NCCL_SUM = 0,
  NCCL_BFLOAT16 = 9,
};

ncclResult_t ncclGetVersion (int *version);
const char *ncclGetErrorString (ncclResult_t result);
ncclResult_t ncclCommInitAll (ncclComm_t *comms, int n, const int *devices);
ncclResult_t ncclCommDestroy (ncclComm_t comm);
ncclResult_t ncclGroupStart (void);
ncclResult_t ncclGroupEnd (void);
ncclResult_t ncclAllReduce (const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather (const void *send, void *receive, size_t send_count, ncclDataType_t type, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t ncclReduceScatter (const void *send, void *receive, size_t receive_count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast (const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclRecv (void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
