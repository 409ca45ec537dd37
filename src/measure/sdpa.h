/* SPDX-License-Identifier: MIT */
/* sdpa.h - cuDNN's fused attention as an operation graph, the way NVIDIA's cudnn-frontend writes it down.  Builds without
 * a GPU too, from the description of one. */
#pragma once
#include "measure/libraries.h"
#include <stdbool.h>

typedef enum
{
  SCM_SDPA_Q,
  SCM_SDPA_K,
  SCM_SDPA_V,
  SCM_SDPA_O,
  SCM_SDPA_STATS, /* log of the sum of exponentials, fp32 */
  SCM_SDPA_D_O,   /* from here on backward only */
  SCM_SDPA_D_Q,
  SCM_SDPA_D_K,
  SCM_SDPA_D_V,
  SCM_SDPA_D_Q_SUM, /* fp32 */
  SCM_SDPA_ROW_SUM, /* fp32 */
  SCM_SDPA_N_TENSORS
} ScmSdpaTensor;

typedef struct
{
  bool backward, causal, fp16;
  int64_t batch, seqlen, heads, kv_heads, head_dim;
} ScmSdpaShape;

#define SCM_SDPA_MAX_DESCRIPTORS 320

typedef struct
{
  const ScmLibraries *l;
  ScmSdpaShape shape;
  cudnnBackendDescriptor_t all[SCM_SDPA_MAX_DESCRIPTORS]; /* to be destroyed */
  int n_all;
  cudnnBackendDescriptor_t operations[64];
  int n_operations;
  cudnnBackendDescriptor_t plan;
  size_t bytes[SCM_SDPA_N_TENSORS]; /* 0: not used */
  int64_t uid[SCM_SDPA_N_TENSORS];
  int64_t next_uid;
  float scale, lowest, one;                       /* by value */
  int64_t scale_uid, lowest_uid, one_uid;         /* 0: not used */
  int64_t workspace_bytes;
  cudnnStatus_t failed;  /* of the first call that went wrong */
  const char *failed_at; /* NULL: none did */
} ScmSdpa;

/* FALSE when cuDNN cannot do it; sdpa->failed and failed_at say where.  @handle, or without a GPU @device.  Clear it in
 * both cases. */
bool scm_sdpa_build (ScmSdpa *sdpa, const ScmLibraries *l, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                     const ScmSdpaShape *shape);

/* A set of pointers to run with; owned by @sdpa.  NULL when it failed. */
cudnnBackendDescriptor_t scm_sdpa_pack (ScmSdpa *sdpa, void *const tensors[SCM_SDPA_N_TENSORS], void *workspace);

void scm_sdpa_clear (ScmSdpa *sdpa);
