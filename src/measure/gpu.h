/* SPDX-License-Identifier: MIT */
/* gpu.h - the GPU under test, memory for operands, and how one execution is timed.  Everything that runs on the GPU goes
 * through here: a function that measures returns an outcome, and says what went wrong in gpu->message. */
#pragma once
#include "measure/item.h"
#include "measure/json.h"
#include "measure/kernels.h"
#include "measure/libraries.h"
#include <cuda_runtime_api.h>

typedef enum
{
  SCM_DONE,
  SCM_SKIPPED, /* this GPU or this library cannot do it */
  SCM_FAILED,  /* it should have worked */
  SCM_STOPPED, /* by a signal; drop what was measured */
} ScmOutcome;

#define SCM_MAX_GPUS 16

typedef struct
{
  int device, n_devices;
  char name[256];
  char driver[80], cuda[24];
  int sms, major, minor;
  size_t memory_bytes, l2_bytes;
  int clock_sm_max_mhz, clock_memory_mhz, power_limit_w; /* 0: not known */
  int threads_per_sm;
  size_t shared_bytes; /* most that a block may ask for */

  cudaStream_t stream; /* what is measured runs here */
  cudaStream_t beside; /* what runs at the same time */
  cudaEvent_t start, stop;
  char *pool; /* operands of the item; grows */
  size_t pool_bytes;
  void *workspace; /* of cuBLASLt */
  float *ones;     /* a scale of 1 on the GPU */
  ScmHold *hold;   /* pinned: blocks of the kernel that holds SMs, and its flag */

  ScmLibraries libraries;
  ScmText message;
} ScmGpu;

#define SCM_WORKSPACE_BYTES ((size_t) 64 << 20)

/* 0, or a status with one line in gpu->message.  Libraries come first: scm_libraries_load(). */
int scm_gpu_open (ScmGpu *gpu, int device);
void scm_gpu_close (ScmGpu *gpu);

/* How many GPUs there are; 0 and the reason in @message when none can be used. */
int scm_gpu_count (ScmText *message);

/* Sets gpu->message and returns @outcome. */
ScmOutcome scm_say (ScmGpu *gpu, ScmOutcome outcome, const char *format, ...) __attribute__ ((format (printf, 3, 4)));

ScmOutcome scm_check_cuda (ScmGpu *gpu, cudaError_t error, const char *what);

/* Returns from the function unless the call went well. */
#define SCM_TRY(expression)                                                                                            \
  do                                                                                                                   \
    {                                                                                                                  \
      const ScmOutcome outcome_ = (expression);                                                                        \
      if (outcome_ != SCM_DONE)                                                                                        \
        return outcome_;                                                                                               \
    }                                                                                                                  \
  while (0)
#define SCM_TRY_CUDA(gpu, call) SCM_TRY (scm_check_cuda (gpu, (call), #call))

/* True once an error made the context useless: only a new process can go on. */
bool scm_gpu_is_lost (void);

/* After a failure of whatever kind: finds out whether @device is lost.  gpu->message stays. */
void scm_gpu_probe (const ScmGpu *gpu, int device);

/* At least @bytes at *ret_pool, aligned; what was there before is gone.  SKIPPED when the GPU has less. */
ScmOutcome scm_pool (ScmGpu *gpu, size_t bytes, char **ret_pool);

/* Gives it back, for those who need memory of their own. */
ScmOutcome scm_pool_free (ScmGpu *gpu);

/* How many sets of operands of @set_bytes to go round, so that none is in L2 when its turn comes. */
int scm_rotation (const ScmGpu *gpu, size_t set_bytes);

/* Operands are at multiples of this. */
#define SCM_ALIGN(bytes) (((bytes) + 511) / 512 * 512)

/* Fills @n elements at @at with random values of about unit variance times @scale. */
ScmOutcome scm_fill (ScmGpu *gpu, void *at, const char *dtype, int64_t n, float scale);

/* Enqueues execution @i on gpu->stream; operands rotate with @i. */
typedef ScmOutcome (*ScmIssue) (ScmGpu *gpu, void *data, int i);

/* Warms up, repeats until the spread is small or @limit_s seconds are over, and reads clock, power and temperature
 * under the same load. */
ScmOutcome scm_time (ScmGpu *gpu, ScmIssue issue, void *data, double limit_s, ScmResult *result);
#define SCM_USUAL_S 0.4

/* The same with company.  A block is as many executions as are timed together. */
typedef struct
{
  double block_us;                                /* about; one execution when that is longer */
  ScmOutcome (*before) (ScmGpu *gpu, void *data); /* before a block is enqueued, not timed; or NULL */
  /* When it is over; gpu->start is where it began.  Whether it counts.  Or NULL. */
  ScmOutcome (*after) (ScmGpu *gpu, void *data, double block_us, bool *ret_counts);
} ScmCompany;

ScmOutcome scm_time_company (ScmGpu *gpu, ScmIssue issue, void *data, const ScmCompany *company, double limit_s,
                             ScmResult *result);

/* Clock, power and temperature of gpu->device under the load on @stream, which has lasted @loaded_s without a pause.
 * NAN: what NVML does not tell, what is shorter than a sensor sees, and all where another GPU is the current one. */
void scm_read_sensors (ScmGpu *gpu, cudaStream_t stream, double loaded_s, ScmResult *result);

/* Pinned memory next to the GPU, filled; for cudaFreeHost(). */
ScmOutcome scm_host_alloc (ScmGpu *gpu, size_t bytes, void **ret_host);

double scm_now_s (void); /* monotonic */

/* Set by a signal: measuring functions look at it between repeats. */
bool scm_is_stopped (void);

/* --- matrix products, gemm.c --- */

typedef struct
{
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  size_t workspace_bytes;
  float alpha, beta;
  size_t a_bytes, b_bytes, c_bytes; /* of all batches */
  int64_t a_elements, b_elements, c_elements;
} ScmMatmul;

/* Row-major Y[m,n], see item.h; scm_matmul_clear() also after a failure. */
ScmOutcome scm_matmul_init (ScmGpu *gpu, ScmMatmul *matmul, const char *dtype, const char *layout, const char *out_dtype,
                            int64_t m, int64_t n, int64_t k, int64_t batch, bool accumulate);
ScmOutcome scm_matmul_run (ScmGpu *gpu, const ScmMatmul *matmul, const void *a, const void *b, void *c, cudaStream_t stream);
void scm_matmul_clear (ScmGpu *gpu, ScmMatmul *matmul);

/* One product with operands in the pool, for those who want some load. */
typedef struct
{
  ScmMatmul matmul;
  char *pool;
  size_t set_bytes;
  int n_sets;
} ScmLoad;

ScmOutcome scm_load_init (ScmGpu *gpu, ScmLoad *load, const char *dtype, const char *layout, const char *out_dtype, int64_t m,
                          int64_t n, int64_t k, int64_t batch, bool accumulate);
ScmOutcome scm_load_issue (ScmGpu *gpu, void *load, int i); /* an ScmIssue */
void scm_load_clear (ScmGpu *gpu, ScmLoad *load);

/* --- classes: one function each --- */
#define ROW(name, libraries, seconds, summary)                                                                         \
  ScmOutcome scm_run_##name (ScmGpu *gpu, const ScmItem *item, ScmResult *result);
SCM_CLASSES (ROW)
#undef ROW
