/* SPDX-License-Identifier: MIT */
/* power.c - the rate of matrix products in a burst of a second from a cool start, and over a minute. */
#include "measure/gpu.h"
#include "measure/stats.h"
#include <math.h>
#include <string.h>
#include <time.h>

#define BLOCK 20
#define MAX_BLOCKS 40000

/* Rests @seconds, or until a signal. */
static void
rest (double seconds)
{
  const double until_s = scm_now_s () + seconds;
  while (scm_now_s () < until_s && !scm_is_stopped ())
    nanosleep (&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static ScmOutcome
run_load (ScmGpu *gpu, ScmLoad *load, const ScmItem *item, double seconds, ScmResult *result)
{
  static double values[MAX_BLOCKS], late[MAX_BLOCKS];
  cudaEvent_t event[3] = { gpu->start, gpu->stop, NULL };
  float ms;
  int n = 0, next = 0;
  for (; next < 3; next++)
    SCM_TRY (scm_load_issue (gpu, load, next));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  rest (3);

  /* Blocks in a row without a gap: the next is enqueued before the last one's end is waited for. */
  const double from_s = scm_now_s ();
  SCM_TRY_CUDA (gpu, cudaEventRecord (event[0], gpu->stream));
  for (int i = 0; i < BLOCK; i++)
    SCM_TRY (scm_load_issue (gpu, load, next++));
  SCM_TRY_CUDA (gpu, cudaEventRecord (event[1], gpu->stream));
  SCM_TRY_CUDA (gpu, cudaEventCreate (&event[2]));
  ScmOutcome outcome = SCM_DONE;
  while (outcome == SCM_DONE && n < MAX_BLOCKS && scm_now_s () - from_s < seconds)
    {
      if (scm_is_stopped ())
        outcome = SCM_STOPPED;
      for (int i = 0; i < BLOCK && outcome == SCM_DONE; i++)
        outcome = scm_load_issue (gpu, load, next++);
      if (outcome == SCM_DONE)
        outcome = scm_check_cuda (gpu, cudaEventRecord (event[2], gpu->stream), "cudaEventRecord");
      if (outcome == SCM_DONE)
        outcome = scm_check_cuda (gpu, cudaEventSynchronize (event[1]), "cudaEventSynchronize");
      if (outcome == SCM_DONE)
        outcome = scm_check_cuda (gpu, cudaEventElapsedTime (&ms, event[0], event[1]), "cudaEventElapsedTime");
      if (outcome == SCM_DONE)
        values[n++] = 1000.0 * ms / BLOCK;
      const cudaEvent_t oldest = event[0];
      event[0] = event[1];
      event[1] = event[2];
      event[2] = oldest;
    }
  scm_read_sensors (gpu, gpu->stream, scm_now_s () - from_s, result); /* the last block still runs */
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaStreamSynchronize (gpu->stream), "cudaStreamSynchronize");
  else
    cudaStreamSynchronize (gpu->stream);
  for (int i = 0; i < 3; i++)
    if (event[i] != gpu->start && event[i] != gpu->stop)
      cudaEventDestroy (event[i]);
  SCM_TRY (outcome);

  /* A burst counts but for its first 50 ms, in which clocks rise; a sustained run by its second half, when they have
   * settled. */
  int first = 0;
  if (strcmp (item->op, "sustained") == 0)
    first = n / 2;
  else
    for (double ran_us = 0; ran_us < 50000 && first < n - 1; first++)
      ran_us += BLOCK * values[first];
  if (n == 0)
    return scm_say (gpu, SCM_FAILED, "no block ended in time");
  double sum = 0;
  for (int i = first; i < n; i++)
    sum += late[i - first] = values[i];
  result->repeats = n - first;
  scm_median_spread (late, (size_t) (n - first), &result->time_us, &result->spread);
  result->seconds = seconds;
  result->tflops = 2e-6 * (double) item->m * (double) item->n * (double) item->k / (sum / (n - first));
  return SCM_DONE;
}

ScmOutcome
scm_run_power (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  ScmLoad load;
  ScmOutcome outcome
      = scm_load_init (gpu, &load, item->dtype, item->layout, item->out_dtype, item->m, item->n, item->k, 1, false);
  if (outcome == SCM_DONE)
    outcome = run_load (gpu, &load, item, strcmp (item->op, "sustained") == 0 ? 60 : 1, result);
  scm_load_clear (gpu, &load);
  return outcome;
}
