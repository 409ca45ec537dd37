/* SPDX-License-Identifier: MIT */
/* slowdown.c - a kernel alone, and the same kernel while something else uses the GPU. */
#include "measure/comm.h"
#include "measure/gpu.h"
#include <math.h>
#include <string.h>

#define HOST_CHUNK ((size_t) 32 << 20) /* a copy takes about a millisecond, so that several end inside a block */
#define PEER_CHUNK ((size_t) 256 << 20)
#define COLLECTIVE_BYTES ((int64_t) 256 << 20)
#define HOLD_LIMIT_S 10
#define N_STEPS 64
#define BLOCK_US 4000

struct Beside;

/* What is measured. */
typedef struct
{
  ScmIssue issue;
  ScmLoad load; /* gemm */
  char *pool;   /* memory */
  int64_t elements;
  size_t set_bytes;
  int n_sets;
  struct Beside *beside; /* while there is one */
} Victim;

static ScmOutcome
issue_add (ScmGpu *gpu, void *data, int i)
{
  const Victim *victim = data;
  const size_t bytes = SCM_ALIGN (2 * (size_t) victim->elements);
  char *a = victim->pool + victim->set_bytes * (size_t) (i % victim->n_sets);
  const ScmTensors t = { .in = { a, a + bytes }, .out = { a + 2 * bytes }, .shape = { victim->elements }, .sms = gpu->sms };
  SCM_TRY_CUDA (gpu, scm_op_add (&t, gpu->stream));
  return SCM_DONE;
}

static ScmOutcome
issue_gemm (ScmGpu *gpu, void *data, int i)
{
  return scm_load_issue (gpu, &((Victim *) data)->load, i);
}

static ScmOutcome
make_victim (ScmGpu *gpu, const ScmItem *item, Victim *victim)
{
  if (strcmp (item->op, "gemm") == 0)
    {
      victim->issue = issue_gemm;
      return scm_load_init (gpu, &victim->load, "bf16", "TN", "bf16", item->m, item->m, item->m, 1, false);
    }
  victim->issue = issue_add;
  victim->elements = item->m;
  victim->set_bytes = 3 * SCM_ALIGN (2 * (size_t) item->m);
  victim->n_sets = scm_rotation (gpu, victim->set_bytes);
  SCM_TRY (scm_pool (gpu, victim->set_bytes * (size_t) victim->n_sets, &victim->pool));
  return scm_fill (gpu, victim->pool, "bf16", (int64_t) (victim->set_bytes / 2) * victim->n_sets, 1);
}

/* What runs beside, step by step: enqueued in advance for longer than a block of the victim takes. */
typedef struct Beside
{
  Victim *victim;
  const ScmItem *item;
  void *to, *from; /* of a copy */
  size_t bytes;    /* of a step */
  int to_device, from_device;
  ScmRanks *ranks;
  cudaEvent_t first, last;
  cudaEvent_t done[N_STEPS]; /* the end of each step, a ring; the one before the oldest is kept too */
  bool follows[N_STEPS];     /* it began when the one before it ended */
  int oldest, n_pending;     /* under way, as far as is known */
  int n_wanted;
  double inside_bytes, inside_us; /* of steps that began and ended while the victim ran */
  double row_bytes, row_us;       /* of all that followed another */
} Beside;

static ScmOutcome
enqueue_beside (ScmGpu *gpu, Beside *beside)
{
  if (beside->ranks != NULL)
    SCM_TRY (scm_ranks_issue (gpu, beside->ranks, "all_reduce", COLLECTIVE_BYTES));
  else if (beside->to_device >= 0 && beside->from_device >= 0)
    SCM_TRY_CUDA (gpu, cudaMemcpyPeerAsync (beside->to, beside->to_device, beside->from, beside->from_device, beside->bytes,
                                            gpu->beside));
  else
    SCM_TRY_CUDA (gpu, cudaMemcpyAsync (beside->to, beside->from, beside->bytes, cudaMemcpyDefault, gpu->beside));
  return SCM_DONE;
}

static cudaStream_t
beside_stream (const ScmGpu *gpu, const Beside *beside)
{
  return beside->ranks != NULL ? beside->ranks->stream[gpu->device < beside->ranks->n ? gpu->device : 0] : gpu->beside;
}

/* Takes notice of steps that have ended.  @block_us: of the victim's block from gpu->start on; 0: between blocks. */
static ScmOutcome
settle (ScmGpu *gpu, Beside *beside, double block_us)
{
  float ms, from_ms, to_ms;
  for (; beside->n_pending > 0; beside->n_pending--)
    {
      const int this = beside->oldest, before = (this + N_STEPS - 1) % N_STEPS;
      const cudaError_t error = cudaEventQuery (beside->done[this]);
      if (error == cudaErrorNotReady)
        {
          cudaGetLastError ();
          break;
        }
      SCM_TRY (scm_check_cuda (gpu, error, "cudaEventQuery"));
      beside->oldest = (this + 1) % N_STEPS;
      if (!beside->follows[this])
        continue;
      SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&ms, beside->done[before], beside->done[this]));
      beside->row_us += 1000.0 * ms;
      beside->row_bytes += (double) beside->bytes;
      if (block_us <= 0)
        continue;
      SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&from_ms, gpu->start, beside->done[before]));
      SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&to_ms, gpu->start, beside->done[this]));
      if (from_ms >= 0 && 1000.0 * to_ms <= block_us)
        {
          beside->inside_us += 1000.0 * ms;
          beside->inside_bytes += (double) beside->bytes;
        }
    }
  return SCM_DONE;
}

/* Before each block of the victim, so that the host does not do it inside. */
static ScmOutcome
fill_up (ScmGpu *gpu, void *data)
{
  Beside *beside = ((Victim *) data)->beside;
  SCM_TRY (settle (gpu, beside, 0));
  while (beside->n_pending < beside->n_wanted)
    {
      const int newest = (beside->oldest + beside->n_pending) % N_STEPS, before = (newest + N_STEPS - 1) % N_STEPS;
      SCM_TRY (enqueue_beside (gpu, beside));
      beside->follows[newest] = beside->n_pending > 0 && cudaEventQuery (beside->done[before]) == cudaErrorNotReady;
      cudaGetLastError ();
      SCM_TRY_CUDA (gpu, cudaEventRecord (beside->done[newest], beside_stream (gpu, beside)));
      beside->n_pending++;
    }
  SCM_TRY_CUDA (gpu, cudaSetDevice (gpu->device));
  return SCM_DONE;
}

/* A block counts if there was company until its end; if not, there is more next time. */
static ScmOutcome
look_back (ScmGpu *gpu, void *data, double block_us, bool *ret_counts)
{
  Beside *beside = ((Victim *) data)->beside;
  SCM_TRY (settle (gpu, beside, block_us));
  *ret_counts = beside->n_pending > 0;
  if (!*ret_counts)
    beside->n_wanted = 2 * beside->n_wanted < N_STEPS ? 2 * beside->n_wanted : N_STEPS - 1;
  return SCM_DONE;
}

static ScmOutcome
wait_beside (ScmGpu *gpu, const Beside *beside)
{
  SCM_TRY_CUDA (gpu, cudaSetDevice (gpu->device)); /* whatever NCCL left */
  if (beside->ranks != NULL)
    for (int i = 0; i < beside->ranks->n; i++)
      SCM_TRY_CUDA (gpu, cudaStreamSynchronize (beside->ranks->stream[i]));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->beside));
  return SCM_DONE;
}

/* Both at once. */
static ScmOutcome
time_pair (ScmGpu *gpu, Beside *beside, double alone_us, ScmResult *result)
{
  const cudaStream_t stream = beside_stream (gpu, beside);
  float ms;
  SCM_TRY (enqueue_beside (gpu, beside));
  SCM_TRY (wait_beside (gpu, beside));
  SCM_TRY_CUDA (gpu, cudaEventRecord (beside->first, stream));
  for (int i = 0; i < 4; i++)
    SCM_TRY (enqueue_beside (gpu, beside));
  SCM_TRY_CUDA (gpu, cudaEventRecord (beside->last, stream));
  SCM_TRY (wait_beside (gpu, beside));
  SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&ms, beside->first, beside->last));

  /* For a block at half its pace, behind the longest delay. */
  const double step_us = 1000.0 * ms / 4, ahead_us = 2 * (alone_us > BLOCK_US ? alone_us : BLOCK_US) + 7000;
  if (!(step_us > 1))
    return scm_say (gpu, SCM_FAILED, "what runs beside took no time");
  beside->n_wanted = ahead_us / step_us < N_STEPS - 3 ? (int) (ahead_us / step_us) + 2 : N_STEPS - 1;
  for (int i = 0; i < N_STEPS; i++)
    if (beside->done[i] == NULL)
      SCM_TRY_CUDA (gpu, cudaEventCreate (&beside->done[i]));
  beside->victim->beside = beside;
  const ScmCompany company = { .block_us = BLOCK_US, .before = fill_up, .after = look_back };
  const ScmOutcome outcome = scm_time_company (gpu, beside->victim->issue, beside->victim, &company, 1, result);
  SCM_TRY (wait_beside (gpu, beside));
  SCM_TRY (outcome);
  SCM_TRY (settle (gpu, beside, 0));
  /* Steps longer than a block: the victim paused during some of them, shortly. */
  result->amount = beside->inside_us > 0 ? beside->inside_bytes / (1e-6 * beside->inside_us)
                                         : beside->row_bytes / (1e-6 * beside->row_us);
  if (!(result->amount > 0) || isinf (result->amount))
    return scm_say (gpu, SCM_FAILED, "no step of what runs beside followed another");
  return SCM_DONE;
}

static ScmOutcome
run_copy_beside (ScmGpu *gpu, Victim *victim, const ScmItem *item, ScmResult *result)
{
  const bool peer = strcmp (item->layout, "p2p") == 0;
  const size_t bytes = peer ? PEER_CHUNK : HOST_CHUNK;
  Beside beside = { .victim = victim, .item = item, .bytes = bytes, .to_device = gpu->device, .from_device = gpu->device };
  void *host = NULL, *near = NULL, *far = NULL;
  ScmOutcome outcome = scm_check_cuda (gpu, cudaMalloc (&near, bytes), "cudaMalloc");
  const int other = gpu->device == 0 ? 1 : 0;
  if (outcome == SCM_DONE && peer)
    {
      outcome = scm_check_cuda (gpu, cudaSetDevice (other), "cudaSetDevice");
      if (outcome == SCM_DONE)
        outcome = scm_check_cuda (gpu, cudaMalloc (&far, bytes), "cudaMalloc");
      cudaSetDevice (gpu->device);
      int can = 0;
      if (cudaDeviceCanAccessPeer (&can, gpu->device, other) == cudaSuccess && can)
        cudaDeviceEnablePeerAccess (other, 0);
      cudaGetLastError ();
      beside.from = near;
      beside.to = far;
      beside.to_device = other;
    }
  else if (outcome == SCM_DONE)
    {
      const bool down = strcmp (item->layout, "h2d") == 0;
      outcome = scm_host_alloc (gpu, bytes, &host);
      beside.to = down ? near : host;
      beside.from = down ? host : near;
      beside.to_device = down ? gpu->device : -1;
      beside.from_device = down ? -1 : gpu->device;
    }
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaEventCreate (&beside.first), "cudaEventCreate");
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaEventCreate (&beside.last), "cudaEventCreate");
  if (outcome == SCM_DONE)
    outcome = time_pair (gpu, &beside, result->alone_us, result);
  cudaStreamSynchronize (gpu->stream);
  cudaStreamSynchronize (gpu->beside);
  if (beside.first != NULL)
    cudaEventDestroy (beside.first);
  if (beside.last != NULL)
    cudaEventDestroy (beside.last);
  for (int i = 0; i < N_STEPS; i++)
    if (beside.done[i] != NULL)
      cudaEventDestroy (beside.done[i]);
  cudaFreeHost (host);
  cudaFree (near);
  cudaFree (far);
  return outcome;
}

static ScmOutcome
run_collective_beside (ScmGpu *gpu, Victim *victim, const ScmItem *item, ScmResult *result)
{
  Beside beside = { .victim = victim, .item = item, .bytes = (size_t) COLLECTIVE_BYTES };
  SCM_TRY (scm_ranks_get (gpu, item->gpus, (size_t) COLLECTIVE_BYTES, &beside.ranks));
  ScmOutcome outcome = gpu->device < item->gpus
                           ? scm_check_cuda (gpu, cudaEventCreate (&beside.first), "cudaEventCreate")
                           : scm_say (gpu, SCM_SKIPPED, "GPU %d is not one of the ranks", gpu->device);
  if (outcome == SCM_DONE)
    outcome = scm_check_cuda (gpu, cudaEventCreate (&beside.last), "cudaEventCreate");
  if (outcome == SCM_DONE)
    outcome = time_pair (gpu, &beside, result->alone_us, result);
  for (int i = 0; i < beside.ranks->n; i++)
    cudaStreamSynchronize (beside.ranks->stream[i]);
  cudaStreamSynchronize (gpu->stream);
  if (beside.first != NULL)
    cudaEventDestroy (beside.first);
  if (beside.last != NULL)
    cudaEventDestroy (beside.last);
  for (int i = 0; i < N_STEPS; i++)
    if (beside.done[i] != NULL)
      cudaEventDestroy (beside.done[i]);
  cudaSetDevice (gpu->device);
  return outcome;
}

/* While SMs are held nothing may be allocated, freed or loaded: that would wait for the kernel that holds them.  The
 * victim has run alone before, so its code is there; what is left is launches and events. */
static ScmOutcome
run_held (ScmGpu *gpu, Victim *victim, const ScmItem *item, ScmResult *result)
{
  if (item->amount >= gpu->sms)
    return scm_say (gpu, SCM_SKIPPED, "the GPU has only %d SMs", gpu->sms);
  /* One block first, so that its code is there too. */
  gpu->hold->stop = 1;
  SCM_TRY_CUDA (gpu, scm_hold_sms (1, gpu->hold, 1000000, gpu->beside));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->beside));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));

  gpu->hold->stop = 0;
  for (int i = 0; i < SCM_MAX_HELD; i++)
    gpu->hold->arrived[i] = 0;
  SCM_TRY_CUDA (gpu, scm_hold_sms (item->amount, gpu->hold, (int64_t) HOLD_LIMIT_S * 1000000000, gpu->beside));
  const double until_s = scm_now_s () + 1;
  int n_held = 0;
  while (n_held < item->amount && scm_now_s () < until_s)
    n_held += gpu->hold->arrived[n_held];
  ScmOutcome outcome = n_held == item->amount
                           ? scm_time_company (gpu, victim->issue, victim, &(ScmCompany){ .block_us = BLOCK_US }, 1, result)
                           : scm_say (gpu, SCM_FAILED, "only %d of %d SMs could be held", n_held, item->amount);
  /* Had the limit been reached, the victim would have run alone for the rest. */
  const bool whole = cudaStreamQuery (gpu->beside) == cudaErrorNotReady;
  cudaGetLastError ();
  gpu->hold->stop = 1;
  const ScmOutcome ended = scm_check_cuda (gpu, cudaStreamSynchronize (gpu->beside), "cudaStreamSynchronize");
  if (outcome == SCM_DONE && ended != SCM_DONE)
    outcome = ended;
  if (outcome == SCM_DONE && !whole)
    outcome = scm_say (gpu, SCM_FAILED, "the SMs were not held long enough");
  result->amount = item->amount;
  return outcome;
}

ScmOutcome
scm_run_slowdown (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  Victim victim = { 0 };
  ScmOutcome outcome = SCM_DONE;
  if (strcmp (item->beside, "collective") == 0)
    { /* before the victim has its operands in the pool */
      ScmRanks *ranks;
      outcome = scm_ranks_get (gpu, item->gpus, (size_t) COLLECTIVE_BYTES, &ranks);
    }
  if (outcome == SCM_DONE)
    outcome = make_victim (gpu, item, &victim);
  if (outcome == SCM_DONE)
    outcome = scm_time_company (gpu, victim.issue, &victim, &(ScmCompany){ .block_us = BLOCK_US }, SCM_USUAL_S, result);
  result->alone_us = result->time_us;
  if (outcome == SCM_DONE)
    outcome = strcmp (item->beside, "copy") == 0         ? run_copy_beside (gpu, &victim, item, result)
              : strcmp (item->beside, "collective") == 0 ? run_collective_beside (gpu, &victim, item, result)
                                                         : run_held (gpu, &victim, item, result);
  scm_load_clear (gpu, &victim.load);
  return outcome;
}
