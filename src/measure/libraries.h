/* SPDX-License-Identifier: MIT */
/* libraries.h - cuBLASLt, cuDNN, NCCL and NVML, taken with dlopen so that the program starts without them. */
#pragma once
#include "measure/cudnn-api.h"
#include "measure/json.h"
#include "measure/nccl-api.h"
#include "measure/nvml-api.h"
#include <cublasLt.h>

/* ROW (function): member of the same name in ScmLibraries. */
#define SCM_CUBLASLT_FUNCTIONS(ROW)                                                                                    \
  ROW (cublasLtCreate)                                                                                                 \
  ROW (cublasLtGetVersion)                                                                                             \
  ROW (cublasLtMatmul)                                                                                                 \
  ROW (cublasLtMatmulDescCreate)                                                                                       \
  ROW (cublasLtMatmulDescDestroy)                                                                                      \
  ROW (cublasLtMatmulDescSetAttribute)                                                                                 \
  ROW (cublasLtMatrixLayoutCreate)                                                                                     \
  ROW (cublasLtMatrixLayoutDestroy)                                                                                    \
  ROW (cublasLtMatrixLayoutSetAttribute)                                                                               \
  ROW (cublasLtMatmulPreferenceCreate)                                                                                 \
  ROW (cublasLtMatmulPreferenceDestroy)                                                                                \
  ROW (cublasLtMatmulPreferenceSetAttribute)                                                                           \
  ROW (cublasLtMatmulAlgoGetHeuristic)
#define SCM_CUDNN_FUNCTIONS(ROW)                                                                                       \
  ROW (cudnnCreate)                                                                                                    \
  ROW (cudnnDestroy)                                                                                                   \
  ROW (cudnnSetStream)                                                                                                 \
  ROW (cudnnGetVersion)                                                                                                \
  ROW (cudnnGetErrorString)                                                                                            \
  ROW (cudnnBackendCreateDescriptor)                                                                                   \
  ROW (cudnnBackendDestroyDescriptor)                                                                                  \
  ROW (cudnnBackendSetAttribute)                                                                                       \
  ROW (cudnnBackendGetAttribute)                                                                                       \
  ROW (cudnnBackendFinalize)                                                                                           \
  ROW (cudnnBackendExecute)
#define SCM_NCCL_FUNCTIONS(ROW)                                                                                        \
  ROW (ncclGetVersion)                                                                                                 \
  ROW (ncclGetErrorString)                                                                                             \
  ROW (ncclCommInitAll)                                                                                                \
  ROW (ncclCommDestroy)                                                                                                \
  ROW (ncclGroupStart)                                                                                                 \
  ROW (ncclGroupEnd)                                                                                                   \
  ROW (ncclAllReduce)                                                                                                  \
  ROW (ncclAllGather)                                                                                                  \
  ROW (ncclReduceScatter)                                                                                              \
  ROW (ncclBroadcast)                                                                                                  \
  ROW (ncclSend)                                                                                                       \
  ROW (ncclRecv)
#define SCM_NVML_FUNCTIONS(ROW)                                                                                        \
  ROW (nvmlInit_v2)                                                                                                    \
  ROW (nvmlSystemGetDriverVersion)                                                                                     \
  ROW (nvmlDeviceGetHandleByPciBusId_v2)                                                                               \
  ROW (nvmlDeviceGetClockInfo)                                                                                         \
  ROW (nvmlDeviceGetMaxClockInfo)                                                                                      \
  ROW (nvmlDeviceGetPowerUsage)                                                                                        \
  ROW (nvmlDeviceGetEnforcedPowerLimit)                                                                                \
  ROW (nvmlDeviceGetTemperature)
#define SCM_NVML_OPTIONAL_FUNCTIONS(ROW)                                                                               \
  ROW (nvmlDeviceGetFieldValues)                                                                                       \
  ROW (nvmlDeviceSetCpuAffinity)

typedef struct
{
#define ROW(function) __typeof__ (&function) function;
  SCM_CUBLASLT_FUNCTIONS (ROW)
  SCM_CUDNN_FUNCTIONS (ROW)
  SCM_NCCL_FUNCTIONS (ROW)
  SCM_NVML_FUNCTIONS (ROW)
  SCM_NVML_OPTIONAL_FUNCTIONS (ROW) /* NULL: not there */
#undef ROW
  unsigned found; /* SCM_CUBLASLT | SCM_CUDNN | SCM_NCCL */
  bool nvml;
  char cublaslt_version[32], cudnn_version[32], nccl_version[32]; /* empty: not there */
  cublasLtHandle_t cublaslt; /* made by scm_gpu_open() */
  cudnnHandle_t cudnn;
  nvmlDevice_t device;
} ScmLibraries;

/* Loads what there is.  One line for each that is missing goes to @notes. */
void scm_libraries_load (ScmLibraries *libraries, ScmText *notes);
