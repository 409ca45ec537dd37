/* SPDX-License-Identifier: MIT */
/* gpu.c - the GPU under test, its memory, and the timing of one execution. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "measure/gpu.h"
#include "measure/options.h"
#include "measure/stats.h"
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool lost;

double
scm_now_s (void)
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

ScmOutcome
scm_say (ScmGpu *gpu, ScmOutcome outcome, const char *format, ...)
{
  char line[512];
  va_list arguments;
  va_start (arguments, format);
  vsnprintf (line, sizeof line, format, arguments);
  va_end (arguments);
  scm_text_clear (&gpu->message);
  scm_text_add (&gpu->message, "%s", line);
  return outcome;
}

/* Errors after which the context answers everything with the same error. */
static bool
is_sticky (cudaError_t error)
{
  switch ((int) error)
    {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
    }
}

ScmOutcome
scm_check_cuda (ScmGpu *gpu, cudaError_t error, const char *what)
{
  if (error == cudaSuccess)
    return SCM_DONE;
  cudaGetLastError (); /* the next call must not see it again */
  if (is_sticky (error))
    lost = true;
  return scm_say (gpu, SCM_FAILED, "%.*s: %s", (int) strcspn (what, " ("), what, cudaGetErrorString (error));
}

bool
scm_gpu_is_lost (void)
{
  return lost;
}

void
scm_gpu_probe (const ScmGpu *gpu, int device)
{
  /* The first answer may be an old error of a context that goes on; one that comes twice stays. */
  int n_failed = 0;
  for (int i = 0; i < 2; i++)
    {
      cudaError_t error = cudaSetDevice (device);
      if (error == cudaSuccess)
        error = cudaDeviceSynchronize ();
      cudaGetLastError ();
      n_failed += error != cudaSuccess;
      lost |= is_sticky (error);
    }
  lost |= n_failed == 2;
  if (device != gpu->device)
    cudaSetDevice (gpu->device);
}

int
scm_gpu_count (ScmText *message)
{
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount (&n);
  if (error == cudaSuccess && n > 0)
    return n;
  if (error == cudaErrorInsufficientDriver)
    scm_text_add (message, "no usable GPU: there is no NVIDIA driver, or it is older than CUDA %d.%d",
                  CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
  else if (error == cudaErrorNoDevice || error == cudaSuccess)
    scm_text_add (message, "no usable GPU: the driver sees none");
  else
    scm_text_add (message, "no usable GPU: %s", cudaGetErrorString (error));
  return 0;
}

static ScmOutcome
open_device (ScmGpu *gpu)
{
  struct cudaDeviceProp *prop = &(struct cudaDeviceProp){ 0 };
  SCM_TRY_CUDA (gpu, cudaSetDevice (gpu->device));
  SCM_TRY_CUDA (gpu, cudaGetDeviceProperties (prop, gpu->device));
  snprintf (gpu->name, sizeof gpu->name, "%.255s", prop->name);
  gpu->sms = prop->multiProcessorCount;
  gpu->major = prop->major;
  gpu->minor = prop->minor;
  gpu->memory_bytes = prop->totalGlobalMem;
  gpu->l2_bytes = (size_t) prop->l2CacheSize;
  gpu->threads_per_sm = prop->maxThreadsPerMultiProcessor;
  gpu->shared_bytes = prop->sharedMemPerBlockOptin;
  if (prop->major < 8)
    return scm_say (gpu, SCM_FAILED, "GPU %d (%s) is older than those this program is built for (compute capability 8.0)",
                    gpu->device, gpu->name);
  SCM_TRY_CUDA (gpu, cudaStreamCreateWithFlags (&gpu->stream, cudaStreamNonBlocking));
  SCM_TRY_CUDA (gpu, cudaStreamCreateWithFlags (&gpu->beside, cudaStreamNonBlocking));
  SCM_TRY_CUDA (gpu, cudaEventCreate (&gpu->start));
  SCM_TRY_CUDA (gpu, cudaEventCreate (&gpu->stop));
  SCM_TRY_CUDA (gpu, cudaMalloc (&gpu->workspace, SCM_WORKSPACE_BYTES));
  SCM_TRY_CUDA (gpu, cudaMalloc ((void **) &gpu->ones, 4096));
  const float one = 1;
  SCM_TRY_CUDA (gpu, cudaMemcpy (gpu->ones, &one, sizeof one, cudaMemcpyHostToDevice));
  SCM_TRY_CUDA (gpu, cudaHostAlloc ((void **) &gpu->hold, sizeof *gpu->hold, cudaHostAllocMapped));
  SCM_TRY_CUDA (gpu, scm_nothing (gpu->stream));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  return SCM_DONE;
}

static void
open_sensors (ScmGpu *gpu)
{
  ScmLibraries *l = &gpu->libraries;
  char bus[32];
  unsigned value;
  int driver = 0;
  if (cudaDriverGetVersion (&driver) == cudaSuccess)
    snprintf (gpu->driver, sizeof gpu->driver, "CUDA %d.%d", driver / 1000, driver / 10 % 100);
  int runtime = 0;
  if (cudaRuntimeGetVersion (&runtime) == cudaSuccess)
    snprintf (gpu->cuda, sizeof gpu->cuda, "%d.%d", runtime / 1000, runtime / 10 % 100);
  if (!l->nvml)
    return;
  l->nvmlSystemGetDriverVersion (gpu->driver, sizeof gpu->driver);
  if (cudaDeviceGetPCIBusId (bus, sizeof bus, gpu->device) != cudaSuccess
      || l->nvmlDeviceGetHandleByPciBusId_v2 (bus, &l->device) != 0)
    {
      l->nvml = false;
      return;
    }
  if (l->nvmlDeviceGetMaxClockInfo (l->device, NVML_CLOCK_SM, &value) == 0)
    gpu->clock_sm_max_mhz = (int) value;
  if (l->nvmlDeviceGetMaxClockInfo (l->device, NVML_CLOCK_MEM, &value) == 0)
    gpu->clock_memory_mhz = (int) value;
  if (l->nvmlDeviceGetEnforcedPowerLimit (l->device, &value) == 0)
    gpu->power_limit_w = (int) (value / 1000);
}

int
scm_gpu_open (ScmGpu *gpu, int device)
{
  ScmText why = { 0 };
  gpu->device = device;
  gpu->n_devices = scm_gpu_count (&why);
  if (gpu->n_devices == 0 || device >= gpu->n_devices)
    {
      if (gpu->n_devices == 0)
        scm_say (gpu, SCM_FAILED, "%s", why.bytes);
      else
        scm_say (gpu, SCM_FAILED, "no usable GPU %d: this node has %d", device, gpu->n_devices);
      scm_text_clear (&why);
      return SCM_STATUS_UNAVAILABLE;
    }
  if (gpu->n_devices > SCM_MAX_GPUS)
    gpu->n_devices = SCM_MAX_GPUS;
  if (open_device (gpu) != SCM_DONE)
    return SCM_STATUS_UNAVAILABLE;
  open_sensors (gpu);
  ScmLibraries *l = &gpu->libraries;
  if ((l->found & SCM_CUBLASLT) && l->cublasLtCreate (&l->cublaslt) != CUBLAS_STATUS_SUCCESS)
    {
      l->found &= ~(unsigned) SCM_CUBLASLT;
      l->cublaslt_version[0] = '\0';
    }
  if ((l->found & SCM_CUDNN)
      && (l->cudnnCreate (&l->cudnn) != 0 || l->cudnnSetStream (l->cudnn, gpu->stream) != 0))
    {
      l->found &= ~(unsigned) SCM_CUDNN;
      l->cudnn_version[0] = '\0';
    }
  return SCM_STATUS_OK;
}

void
scm_gpu_close (ScmGpu *gpu)
{
  /* The process ends: the driver takes the rest back. */
  scm_text_clear (&gpu->message);
}

ScmOutcome
scm_pool_free (ScmGpu *gpu)
{
  void *pool = gpu->pool;
  gpu->pool = NULL;
  gpu->pool_bytes = 0;
  SCM_TRY_CUDA (gpu, cudaFree (pool));
  return SCM_DONE;
}

ScmOutcome
scm_pool (ScmGpu *gpu, size_t bytes, char **ret_pool)
{
  if (bytes > gpu->pool_bytes)
    {
      size_t unused, all;
      SCM_TRY (scm_pool_free (gpu));
      SCM_TRY_CUDA (gpu, cudaMemGetInfo (&unused, &all));
      if (bytes > unused / 10 * 9)
        return scm_say (gpu, SCM_SKIPPED, "needs %.1f GiB, the GPU has %.1f GiB left", (double) bytes / (1 << 30),
                        (double) unused / (1 << 30));
      const cudaError_t error = cudaMalloc ((void **) &gpu->pool, bytes);
      if (error == cudaErrorMemoryAllocation)
        {
          cudaGetLastError ();
          gpu->pool = NULL;
          return scm_say (gpu, SCM_SKIPPED, "needs %.1f GiB in one piece", (double) bytes / (1 << 30));
        }
      SCM_TRY (scm_check_cuda (gpu, error, "cudaMalloc"));
      gpu->pool_bytes = bytes;
    }
  *ret_pool = gpu->pool;
  return SCM_DONE;
}

int
scm_rotation (const ScmGpu *gpu, size_t set_bytes)
{
  const size_t want = 2 * gpu->l2_bytes / (set_bytes > 0 ? set_bytes : 1) + 2;
  const size_t most = set_bytes > 0 ? gpu->memory_bytes / 4 / set_bytes : 64;
  const size_t n = want < 8192 ? want : 8192;
  return n < most ? (int) n : most > 1 ? (int) most : 1;
}

ScmOutcome
scm_fill (ScmGpu *gpu, void *at, const char *dtype, int64_t n, float scale)
{
  const ScmFill type = strcmp (dtype, "bf16") == 0   ? SCM_FILL_BF16
                       : strcmp (dtype, "fp16") == 0 ? SCM_FILL_FP16
                       : strcmp (dtype, "fp8") == 0  ? SCM_FILL_FP8
                                                     : SCM_FILL_FP32;
  SCM_TRY_CUDA (gpu, scm_fill_random (at, type, n, scale, (unsigned) ((uintptr_t) at >> 9), gpu->stream));
  return SCM_DONE;
}

ScmOutcome
scm_host_alloc (ScmGpu *gpu, size_t bytes, void **ret_host)
{
  /* Pages lie where the thread runs that asks for them. */
  const ScmLibraries *l = &gpu->libraries;
  cpu_set_t usual;
  const bool moved = l->nvml && l->nvmlDeviceSetCpuAffinity != NULL && sched_getaffinity (0, sizeof usual, &usual) == 0
                     && l->nvmlDeviceSetCpuAffinity (l->device) == 0;
  const ScmOutcome outcome = scm_check_cuda (gpu, cudaHostAlloc (ret_host, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  if (outcome == SCM_DONE)
    memset (*ret_host, 0x5a, bytes);
  if (moved)
    sched_setaffinity (0, sizeof usual, &usual);
  return outcome;
}

/* Milliwatts now, or of the last second. */
static bool
read_power (ScmLibraries *l, double loaded_s, double *ret_mw)
{
  unsigned mw;
  nvmlFieldValue_t field = { .field = NVML_FI_DEV_POWER_INSTANT };
  if (loaded_s >= 0.1 && l->nvmlDeviceGetFieldValues != NULL && l->nvmlDeviceGetFieldValues (l->device, 1, &field) == 0
      && field.status == 0)
    {
      *ret_mw = field.type == 0                              ? field.value.number
                : field.type == NVML_VALUE_TYPE_UNSIGNED_INT ? (double) field.value.u
                                                             : (double) field.value.ull;
      return true;
    }
  if (loaded_s < 1 || l->nvmlDeviceGetPowerUsage (l->device, &mw) != 0)
    return false;
  *ret_mw = mw;
  return true;
}

void
scm_read_sensors (ScmGpu *gpu, cudaStream_t stream, double loaded_s, ScmResult *result)
{
  ScmLibraries *l = &gpu->libraries;
  unsigned clock, temperature;
  double mw;
  int device;
  result->clock_mhz = result->power_w = result->temperature_c = NAN;
  if (!l->nvml || cudaGetDevice (&device) != cudaSuccess || device != gpu->device)
    return;
  /* What was read counts if the load had not ended by then. */
  if (l->nvmlDeviceGetClockInfo (l->device, NVML_CLOCK_SM, &clock) == 0 && cudaStreamQuery (stream) == cudaErrorNotReady)
    result->clock_mhz = clock;
  if (read_power (l, loaded_s, &mw) && cudaStreamQuery (stream) == cudaErrorNotReady)
    result->power_w = mw / 1000;
  if (l->nvmlDeviceGetTemperature (l->device, NVML_TEMPERATURE_GPU, &temperature) == 0)
    result->temperature_c = temperature;
  cudaGetLastError ();
}

/* Microseconds of @n executions from @first, behind a kernel that holds the stream until all of them are enqueued. */
static ScmOutcome
time_block (ScmGpu *gpu, ScmIssue issue, void *data, int first, int n, double host_us, double *ret_us)
{
  float ms;
  double wait_us = 20 + 1.5 * host_us * n;
  if (wait_us > 5000)
    wait_us = 5000;
  SCM_TRY_CUDA (gpu, scm_delay ((int64_t) (1000 * wait_us), gpu->stream));
  SCM_TRY_CUDA (gpu, cudaEventRecord (gpu->start, gpu->stream));
  for (int i = 0; i < n; i++)
    SCM_TRY (issue (gpu, data, first + i));
  SCM_TRY_CUDA (gpu, cudaEventRecord (gpu->stop, gpu->stream));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&ms, gpu->start, gpu->stop));
  *ret_us = 1000.0 * ms;
  return SCM_DONE;
}

static ScmOutcome
call_before (ScmGpu *gpu, const ScmCompany *company, void *data)
{
  return company->before != NULL ? company->before (gpu, data) : SCM_DONE;
}

ScmOutcome
scm_time (ScmGpu *gpu, ScmIssue issue, void *data, double limit_s, ScmResult *result)
{
  /* So long that the resolution of events, half a microsecond, does no harm. */
  return scm_time_company (gpu, issue, data, &(ScmCompany){ .block_us = 250 }, limit_s, result);
}

ScmOutcome
scm_time_company (ScmGpu *gpu, ScmIssue issue, void *data, const ScmCompany *company, double limit_s, ScmResult *result)
{
  const double started_s = scm_now_s ();
  double us;
  int next = 0;

  /* The first two load code and pick algorithms; the next three tell how long it takes here and on the host. */
  SCM_TRY (call_before (gpu, company, data));
  for (; next < 2; next++)
    SCM_TRY (issue (gpu, data, next));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  SCM_TRY (call_before (gpu, company, data));
  const double host_from_s = scm_now_s ();
  SCM_TRY_CUDA (gpu, cudaEventRecord (gpu->start, gpu->stream));
  for (int i = 0; i < 3; i++)
    SCM_TRY (issue (gpu, data, next++));
  SCM_TRY_CUDA (gpu, cudaEventRecord (gpu->stop, gpu->stream));
  double host_us = 1e6 * (scm_now_s () - host_from_s) / 3;
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  float ms;
  SCM_TRY_CUDA (gpu, cudaEventElapsedTime (&ms, gpu->start, gpu->stop));
  double once_us = 1000.0 * ms / 3;
  if (once_us < 1)
    once_us = 1;
  if (host_us > once_us)
    host_us = once_us; /* the host waited for the GPU */

  /* Warm: clocks up, some 20 ms. */
  const int n_warm = once_us * 200 > 20000 ? (int) (20000 / once_us) : 200;
  const double warm_from_s = scm_now_s ();
  SCM_TRY (call_before (gpu, company, data));
  for (int i = 0; i < n_warm; i++)
    SCM_TRY (issue (gpu, data, next++));
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  double busy_s = scm_now_s () - warm_from_s;

  /* Not more than the queue of a stream holds. */
  const double most = 0.16 * company->block_us < 400 ? 0.16 * company->block_us : 400, want = company->block_us / once_us;
  const int inner = want <= 1 ? 1 : want >= most ? (int) most : (int) want + 1;
  double values[SCM_MAX_REPEATS];
  int n = 0, n_tried = 0;
  double spread = 1;
  while (n < SCM_MAX_REPEATS)
    {
      bool counts = true;
      if (scm_is_stopped ())
        return SCM_STOPPED;
      SCM_TRY (call_before (gpu, company, data));
      SCM_TRY (time_block (gpu, issue, data, next, inner, host_us, &us));
      next += inner;
      n_tried++;
      busy_s += 1e-6 * us;
      if (company->after != NULL)
        SCM_TRY (company->after (gpu, data, us, &counts));
      if (counts)
        values[n++] = us / inner;
      if (counts && n >= 10 && n % 5 == 0)
        {
          scm_median_spread (values, (size_t) n, &us, &spread);
          if (spread < 0.02)
            break;
        }
      if (scm_now_s () - started_s > limit_s && n_tried >= 5)
        break;
    }
  if (n == 0)
    return scm_say (gpu, SCM_FAILED, "no repeat counts: what runs beside it ended too early");
  result->repeats = n;
  scm_median_spread (values, (size_t) n, &result->time_us, &result->spread);

  /* Sensors under the same load: some milliseconds of it, read while it runs. */
  const double n_more = 10000 / once_us;
  const double loaded_s = scm_now_s () - warm_from_s;
  SCM_TRY (call_before (gpu, company, data));
  for (int i = 0; i < (n_more > 500 ? 500 : n_more); i++)
    SCM_TRY (issue (gpu, data, next++));
  scm_read_sensors (gpu, gpu->stream, busy_s > 0.9 * loaded_s ? loaded_s : 0, result);
  SCM_TRY_CUDA (gpu, cudaStreamSynchronize (gpu->stream));
  if (!(result->time_us > 0))
    return scm_say (gpu, SCM_FAILED, "took no time at all");
  return SCM_DONE;
}
