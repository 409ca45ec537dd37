/* SPDX-License-Identifier: MIT */
/* comm.c - NCCL's collectives over the GPUs of this node. */
#include "measure/comm.h"
#include "measure/stats.h"
#include <string.h>

static ScmOutcome
check_nccl (ScmGpu *gpu, ncclResult_t result, const char *what)
{
  return result == 0 ? SCM_DONE : scm_say (gpu, SCM_FAILED, "%s: %s", what, gpu->libraries.ncclGetErrorString (result));
}

#define TRY_NCCL(gpu, function, ...) SCM_TRY (check_nccl ((gpu), (gpu)->libraries.function (__VA_ARGS__), #function))

/* Communicators by number of GPUs, since making one takes seconds; buffers are shared by all. */
static ScmRanks kept[SCM_MAX_GPUS + 1];
static struct
{
  void *send, *receive;
  size_t bytes;
} buffers[SCM_MAX_GPUS];

static void
drop_ranks (ScmGpu *gpu, ScmRanks *ranks)
{
  for (int i = 0; i < ranks->n; i++)
    {
      cudaSetDevice (i);
      if (ranks->stream[i] != NULL)
        cudaStreamSynchronize (ranks->stream[i]);
      if (ranks->comm[i] != NULL)
        gpu->libraries.ncclCommDestroy (ranks->comm[i]);
      if (ranks->stream[i] != NULL)
        cudaStreamDestroy (ranks->stream[i]);
    }
  *ranks = (ScmRanks){ 0 };
  cudaSetDevice (gpu->device);
  cudaGetLastError ();
}

static ScmOutcome
make_ranks (ScmGpu *gpu, ScmRanks *ranks, int n)
{
  int devices[SCM_MAX_GPUS];
  for (int i = 0; i < n; i++)
    devices[i] = i;
  ranks->n = n;
  TRY_NCCL (gpu, ncclCommInitAll, ranks->comm, n, devices);
  for (int i = 0; i < n; i++)
    {
      SCM_TRY_CUDA (gpu, cudaSetDevice (i));
      SCM_TRY_CUDA (gpu, cudaStreamCreateWithFlags (&ranks->stream[i], cudaStreamNonBlocking));
    }
  return SCM_DONE;
}

static ScmOutcome
make_buffer (ScmGpu *gpu, int i, size_t bytes, cudaStream_t stream)
{
  SCM_TRY_CUDA (gpu, cudaSetDevice (i));
  SCM_TRY_CUDA (gpu, cudaFree (buffers[i].send));
  buffers[i].send = NULL;
  buffers[i].bytes = 0;
  SCM_TRY_CUDA (gpu, cudaFree (buffers[i].receive));
  buffers[i].receive = NULL;
  if (cudaMalloc (&buffers[i].send, bytes) != cudaSuccess || cudaMalloc (&buffers[i].receive, bytes) != cudaSuccess)
    {
      cudaGetLastError ();
      return scm_say (gpu, SCM_SKIPPED, "GPU %d has no two buffers of %.2f GiB left", i, (double) bytes / (1 << 30));
    }
  buffers[i].bytes = bytes;
  SCM_TRY_CUDA (gpu, scm_fill_random (buffers[i].send, SCM_FILL_BF16, (int64_t) (bytes / 2), 1, (unsigned) i, stream));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (stream));
  return SCM_DONE;
}

ScmOutcome
scm_ranks_get (ScmGpu *gpu, int n, size_t bytes, ScmRanks **ret_ranks)
{
  if ((gpu->libraries.found & SCM_NCCL) == 0)
    return scm_say (gpu, SCM_SKIPPED, "NCCL is missing");
  if (n < 2 || n > gpu->n_devices)
    return scm_say (gpu, SCM_SKIPPED, "needs %d GPUs, this node has %d", n < 2 ? 2 : n, gpu->n_devices);
  ScmRanks *ranks = &kept[n];
  ScmOutcome outcome = SCM_DONE;
  if (ranks->n == 0)
    {
      outcome = make_ranks (gpu, ranks, n);
      if (outcome != SCM_DONE)
        drop_ranks (gpu, ranks);
    }
  for (int i = 0; i < n && outcome == SCM_DONE; i++)
    {
      if (buffers[i].bytes < bytes)
        outcome = make_buffer (gpu, i, bytes, ranks->stream[i]);
      if (outcome == SCM_SKIPPED && i == gpu->device && gpu->pool_bytes > 0)
        {
          cudaSetDevice (gpu->device);
          outcome = scm_pool_free (gpu);
          if (outcome == SCM_DONE)
            outcome = make_buffer (gpu, i, bytes, ranks->stream[i]);
        }
      ranks->send[i] = buffers[i].send;
      ranks->receive[i] = buffers[i].receive;
    }
  cudaSetDevice (gpu->device);
  *ret_ranks = ranks;
  return outcome;
}

/* One rank's part. */
static ScmOutcome
issue_rank (ScmGpu *gpu, ScmRanks *ranks, const char *collective, size_t count, int i)
{
  const int n = ranks->n;
  const ncclComm_t comm = ranks->comm[i];
  const cudaStream_t stream = ranks->stream[i];
  char *send = ranks->send[i], *receive = ranks->receive[i];
  if (strcmp (collective, "all_reduce") == 0)
    TRY_NCCL (gpu, ncclAllReduce, send, receive, count, NCCL_BFLOAT16, NCCL_SUM, comm, stream);
  else if (strcmp (collective, "all_gather") == 0)
    TRY_NCCL (gpu, ncclAllGather, send, receive, count / (size_t) n, NCCL_BFLOAT16, comm, stream);
  else if (strcmp (collective, "reduce_scatter") == 0)
    TRY_NCCL (gpu, ncclReduceScatter, send, receive, count / (size_t) n, NCCL_BFLOAT16, NCCL_SUM, comm, stream);
  else if (strcmp (collective, "broadcast") == 0)
    TRY_NCCL (gpu, ncclBroadcast, send, receive, count, NCCL_BFLOAT16, 0, comm, stream);
  else if (strcmp (collective, "sendrecv") == 0)
    {
      TRY_NCCL (gpu, ncclSend, send, count, NCCL_BFLOAT16, (i + 1) % n, comm, stream);
      TRY_NCCL (gpu, ncclRecv, receive, count, NCCL_BFLOAT16, (i + n - 1) % n, comm, stream);
    }
  else
    {
      const size_t part = count / (size_t) n;
      for (int peer = 0; peer < n; peer++)
        {
          TRY_NCCL (gpu, ncclSend, send + 2 * part * (size_t) peer, part, NCCL_BFLOAT16, peer, comm, stream);
          TRY_NCCL (gpu, ncclRecv, receive + 2 * part * (size_t) peer, part, NCCL_BFLOAT16, peer, comm, stream);
        }
    }
  return SCM_DONE;
}

ScmOutcome
scm_ranks_issue (ScmGpu *gpu, ScmRanks *ranks, const char *collective, int64_t bytes)
{
  ScmOutcome outcome = SCM_DONE;
  TRY_NCCL (gpu, ncclGroupStart);
  for (int i = 0; i < ranks->n && outcome == SCM_DONE; i++)
    outcome = issue_rank (gpu, ranks, collective, (size_t) bytes / 2, i);
  const ScmOutcome ended = check_nccl (gpu, gpu->libraries.ncclGroupEnd (), "ncclGroupEnd");
  return outcome != SCM_DONE ? outcome : ended;
}

static ScmOutcome
wait_all (ScmGpu *gpu, ScmRanks *ranks)
{
  for (int i = 0; i < ranks->n; i++)
    SCM_TRY_CUDA (gpu, cudaStreamSynchronize (ranks->stream[i]));
  return SCM_DONE;
}

#define ENOUGH_US 5000 /* to hold the ranks back, when fewer calls do */
#define MOST_US 50000
#define TINY_BYTES 4096

/* How long to hold the ranks back while the host enqueues @n calls that take it @host_us each. */
static double
delay_us (double host_us, int n)
{
  const double us = 50 + 1.5 * host_us * n;
  return us < MOST_US ? us : MOST_US;
}

/* Microseconds of @n calls in a row on rank 0, all ranks held back until the calls are enqueued. */
static ScmOutcome
time_calls (ScmGpu *gpu, ScmRanks *ranks, const ScmItem *item, int n, double host_us, cudaEvent_t start, cudaEvent_t stop,
            double *ret_us)
{
  float ms;
  /* Rank 0 is held last, so until the end; a small call makes all ranks wait for it before the clock starts. */
  for (int i = ranks->n - 1; i >= 0; i--)
    {
      SCM_TRY_CUDA (gpu, cudaSetDevice (i));
      SCM_TRY_CUDA (gpu, scm_delay ((int64_t) (1000 * delay_us (host_us, n + 1)), ranks->stream[i]));
    }
  SCM_TRY (scm_ranks_issue (gpu, ranks, "all_reduce", TINY_BYTES));
  SCM_TRY_CUDA (gpu, cudaSetDevice (0));
  SCM_TRY_CUDA (gpu, cudaEventRecord (start, ranks->stream[0]));
  for (int i = 0; i < n; i++)
    SCM_TRY (scm_ranks_issue (gpu, ranks, item->op, item->bytes));
  SCM_TRY_CUDA (gpu, cudaSetDevice (0));
  SCM_TRY_CUDA (gpu, cudaEventRecord (stop, ranks->stream[0]));
  SCM_TRY (wait_all (gpu, ranks));
  SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&ms, start, stop));
  *ret_us = 1000.0 * ms / n;
  return SCM_DONE;
}

static ScmOutcome
time_collective (ScmGpu *gpu, ScmRanks *ranks, const ScmItem *item, cudaEvent_t start, cudaEvent_t stop, ScmResult *result)
{
  const double from_s = scm_now_s ();
  double values[SCM_MAX_REPEATS], once_us, unused;
  int n = 0;
  /* The first make connections; the next tell what a call takes on the host. */
  for (int i = 0; i < 2; i++)
    SCM_TRY (scm_ranks_issue (gpu, ranks, item->op, item->bytes));
  SCM_TRY (scm_ranks_issue (gpu, ranks, "all_reduce", TINY_BYTES));
  SCM_TRY (wait_all (gpu, ranks));
  const double host_from_s = scm_now_s ();
  for (int i = 0; i < 3; i++)
    SCM_TRY (scm_ranks_issue (gpu, ranks, item->op, item->bytes));
  const double host_us = 1e6 * (scm_now_s () - host_from_s) / 3;
  SCM_TRY (wait_all (gpu, ranks));
  SCM_TRY (time_calls (gpu, ranks, item, 3, host_us, start, stop, &once_us));
  int inner = once_us > 1000 ? 1 : once_us < 50 ? 20 : (int) (1000 / once_us);
  while (inner > 1 && delay_us (host_us, inner + 1) > ENOUGH_US)
    inner--;
  const double blocks_from_s = scm_now_s ();
  double busy_s = 0;
  while (n < 100)
    {
      if (scm_is_stopped ())
        return SCM_STOPPED;
      SCM_TRY (time_calls (gpu, ranks, item, inner, host_us, start, stop, &values[n]));
      busy_s += 1e-6 * inner * values[n];
      n++;
      if (n >= 10)
        {
          scm_median_spread (values, (size_t) n, &unused, &result->spread);
          if (result->spread < 0.03)
            break;
        }
      if (scm_now_s () - from_s > 2 * SCM_USUAL_S && n >= 5)
        break;
    }
  result->repeats = n;
  scm_median_spread (values, (size_t) n, &result->time_us, &result->spread);

  /* Sensors while some more run. */
  const double loaded_s = scm_now_s () - blocks_from_s, n_more = 10000 / once_us;
  for (int i = 0; i < (n_more > 200 ? 200 : n_more); i++)
    SCM_TRY (scm_ranks_issue (gpu, ranks, item->op, item->bytes));
  if (gpu->device < ranks->n)
    {
      SCM_TRY_CUDA (gpu, cudaSetDevice (gpu->device));
      scm_read_sensors (gpu, ranks->stream[gpu->device], busy_s > 0.9 * loaded_s ? loaded_s : 0, result);
    }
  return wait_all (gpu, ranks);
}

ScmOutcome
scm_run_collective (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  ScmRanks *ranks;
  cudaEvent_t start = NULL, stop = NULL;
  SCM_TRY (scm_ranks_get (gpu, item->gpus, (size_t) item->bytes, &ranks));
  SCM_TRY_CUDA (gpu, cudaSetDevice (0));
  ScmOutcome outcome = scm_check_cuda (gpu, cudaEventCreate (&start), "cudaEventCreate");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaEventCreate (&stop), "cudaEventCreate");
  if (outcome == SCM_DONE)
    outcome = time_collective (gpu, ranks, item, start, stop, result);
  if (start != NULL)
    cudaEventDestroy (start);
  if (stop != NULL)
    cudaEventDestroy (stop);
  if (outcome == SCM_FAILED)
    drop_ranks (gpu, ranks);
  cudaSetDevice (gpu->device);
  return outcome;
}
