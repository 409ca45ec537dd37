/* SPDX-License-Identifier: MIT */
/* copy.c - copies between pinned host memory and the GPU, and between GPUs. */
#include "measure/gpu.h"
#include <string.h>

typedef struct
{
  void *to;
  const void *from;
  size_t bytes;
  int to_device, from_device; /* -1: the host */
} Copy;

static ScmOutcome
issue_copy (ScmGpu *gpu, void *data, int i)
{
  const Copy *copy = data;
  (void) i;
  if (copy->to_device >= 0 && copy->from_device >= 0)
    SCM_TRY_CUDA (gpu, cudaMemcpyPeerAsync (copy->to, copy->to_device, copy->from, copy->from_device, copy->bytes,
                                            gpu->stream));
  else
    SCM_TRY_CUDA (gpu, cudaMemcpyAsync (copy->to, copy->from, copy->bytes, cudaMemcpyDefault, gpu->stream));
  return SCM_DONE;
}

static ScmOutcome
run_host (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  char *pool;
  void *host;
  const size_t bytes = (size_t) item->bytes;
  SCM_TRY (scm_pool (gpu, bytes, &pool));
  SCM_TRY (scm_host_alloc (gpu, bytes, &host));
  const bool down = strcmp (item->op, "h2d") == 0;
  Copy copy = { .to = down ? pool : host, .from = down ? host : pool, .bytes = bytes,
                .to_device = down ? gpu->device : -1, .from_device = down ? -1 : gpu->device };
  const ScmOutcome outcome = scm_time (gpu, issue_copy, &copy, SCM_USUAL_S, result);
  cudaStreamSynchronize (gpu->stream);
  cudaFreeHost (host);
  return outcome;
}

/* Lets @device read @peer's memory where the machine can; a copy works without, by the host. */
static void
enable_peer (int device, int peer)
{
  int can = 0;
  if (cudaDeviceCanAccessPeer (&can, device, peer) == cudaSuccess && can && cudaSetDevice (device) == cudaSuccess)
    cudaDeviceEnablePeerAccess (peer, 0);
  cudaGetLastError (); /* enabled already is no error */
}

static ScmOutcome
run_peer (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  void *from = NULL, *to = NULL;
  ScmOutcome outcome;
  const size_t bytes = (size_t) item->bytes;
  const cudaStream_t stream = gpu->stream;
  const cudaEvent_t start = gpu->start, stop = gpu->stop;
  enable_peer (item->src, item->dst);
  enable_peer (item->dst, item->src);

  /* The source pushes, from a stream and events of its own. */
  outcome = scm_check_cuda (gpu, cudaSetDevice (item->dst), "cudaSetDevice");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaMalloc (&to, bytes), "cudaMalloc");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaSetDevice (item->src), "cudaSetDevice");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaMalloc (&from, bytes), "cudaMalloc");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaMemset (from, 0x5a, bytes), "cudaMemset");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaStreamCreateWithFlags (&gpu->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const bool own = outcome == SCM_DONE;
  if (own)
    {
      outcome = scm_check_cuda (gpu, cudaEventCreate (&gpu->start), "cudaEventCreate");
      if (outcome == SCM_DONE)
        outcome = scm_check_cuda (gpu, cudaEventCreate (&gpu->stop), "cudaEventCreate");
    }
  if (outcome == SCM_DONE)
    {
      Copy copy = { .to = to, .from = from, .bytes = bytes, .to_device = item->dst, .from_device = item->src };
      outcome = scm_time (gpu, issue_copy, &copy, SCM_USUAL_S, result);
    }
  if (own)
    {
      cudaStreamSynchronize (gpu->stream);
      cudaStreamDestroy (gpu->stream);
      if (gpu->start != start)
        cudaEventDestroy (gpu->start);
      if (gpu->stop != stop)
        cudaEventDestroy (gpu->stop);
    }
  gpu->stream = stream;
  gpu->start = start;
  gpu->stop = stop;
  cudaFree (from);
  if (cudaSetDevice (item->dst) == cudaSuccess)
    cudaFree (to);
  cudaSetDevice (gpu->device);
  cudaGetLastError ();
  return outcome;
}

ScmOutcome
scm_run_copy (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  return strcmp (item->op, "p2p") == 0 ? run_peer (gpu, item, result) : run_host (gpu, item, result);
}
