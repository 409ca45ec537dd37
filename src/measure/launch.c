/* SPDX-License-Identifier: MIT */
/* launch.c - what a launch costs on the GPU and on the host. */
#include "measure/gpu.h"
#include "measure/stats.h"
#include <string.h>

#define N_NODES 200
#define N_REPEATS 50

static ScmOutcome
issue_nothing (ScmGpu *gpu, void *data, int i)
{
  (void) data;
  (void) i;
  SCM_TRY_CUDA (gpu, scm_nothing (gpu->stream));
  return SCM_DONE;
}

static ScmOutcome
issue_graph (ScmGpu *gpu, void *data, int i)
{
  (void) i;
  SCM_TRY_CUDA (gpu, cudaGraphLaunch (*(cudaGraphExec_t *) data, gpu->stream));
  return SCM_DONE;
}

/* A graph of N_NODES kernels one after the other; the time of one is that of the graph over N_NODES. */
static ScmOutcome
run_graph (ScmGpu *gpu, ScmResult *result)
{
  cudaGraph_t graph;
  cudaGraphExec_t run;
  SCM_TRY_CUDA (gpu, cudaStreamBeginCapture (gpu->stream, cudaStreamCaptureModeThreadLocal));
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < N_NODES && error == cudaSuccess; i++)
    error = scm_nothing (gpu->stream);
  const cudaError_t ended = cudaStreamEndCapture (gpu->stream, &graph);
  SCM_TRY (scm_check_cuda (gpu, error, "launch in a capture"));
  SCM_TRY (scm_check_cuda (gpu, ended, "cudaStreamEndCapture"));
  error = cudaGraphInstantiate (&run, graph, 0);
  cudaGraphDestroy (graph);
  SCM_TRY (scm_check_cuda (gpu, error, "cudaGraphInstantiate"));
  const ScmOutcome outcome = scm_time (gpu, issue_graph, &run, SCM_USUAL_S, result);
  cudaGraphExecDestroy (run);
  result->time_us /= N_NODES;
  return outcome;
}

/* Host time of one call, while the GPU is held so that the call never waits for it. */
static ScmOutcome
time_host (ScmGpu *gpu, ScmIssue issue, void *data, ScmResult *result)
{
  double values[N_REPEATS];
  for (int i = 0; i < 20; i++)
    SCM_TRY (issue (gpu, data, i));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  for (int r = 0; r < N_REPEATS; r++)
    {
      if (scm_is_stopped ())
        return SCM_STOPPED;
      SCM_TRY_CUDA (gpu, scm_delay (3000000, gpu->stream));
      const double from_s = scm_now_s ();
      for (int i = 0; i < N_NODES; i++)
        SCM_TRY (issue (gpu, data, i));
      values[r] = 1e6 * (scm_now_s () - from_s) / N_NODES;
      SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
    }
  result->repeats = N_REPEATS;
  scm_median_spread (values, N_REPEATS, &result->time_us, &result->spread);
  return SCM_DONE;
}

ScmOutcome
scm_run_launch (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  if (strcmp (item->op, "launch") == 0)
    return scm_time (gpu, issue_nothing, NULL, SCM_USUAL_S, result);
  if (strcmp (item->op, "graph") == 0)
    return run_graph (gpu, result);
  if (strcmp (item->op, "issue") == 0)
    return time_host (gpu, issue_nothing, NULL, result);
  ScmLoad load;
  ScmOutcome outcome = scm_load_init (gpu, &load, "bf16", "TN", "bf16", 128, 128, 128, 1, false);
  if (outcome == SCM_DONE)
    outcome = time_host (gpu, scm_load_issue, &load, result);
  scm_load_clear (gpu, &load);
  return outcome;
}
