/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.h - one type of GPU: what it can do, with a source beside each number.
 * Layer: models.  Filled by src/device-json.c from topologies/devices/NAME.json, const from then on. */
#pragma once
#include "models/cited.h"

typedef enum
{
  SC_DTYPE_BF16,
  SC_DTYPE_FP16,
  SC_DTYPE_FP32,
  SC_DTYPE_FP8,
  SC_DTYPE_FP4,
  SC_N_DTYPES
} ScDtype;

const char *sc_dtype_name (ScDtype dtype);  /* "bf16", "fp16", "fp32", "fp8", "fp4" */
double      sc_dtype_bytes (ScDtype dtype); /* 2, 2, 4, 1, and 9/16: four bits and a scale of eight for every 16 (NVFP4) */

typedef struct ScSampleTable ScSampleTable; /* models/samples.h */
typedef struct ScDevice ScDevice;

/* What-if factors on the numbers of the datasheet and on what was measured alike; 1: as it is. */
typedef struct
{
  double matrix; /* rate of matrix units */
  double hbm;    /* bandwidth of the GPU's memory */
  double launch; /* time from one kernel to the next */
  double pcie;   /* copies to and from the host */
} ScDeviceScale;

struct ScDevice
{
  char  *name;    /* as the published rows call it: "a100-sxm-80gb" */
  char **aliases; /* NULL-ended: "A100", "a100-80gb", ... matched without regard to case, blanks, '-' and '_' */
  char  *summary; /* one line for people */
  char  *family;  /* "volta", "ampere", "hopper", "blackwell" */

  ScCited sms;                 /* streaming multiprocessors */
  ScCited peak_flops[SC_N_DTYPES]; /* dense FLOP/s, datasheet; fp32 is the rate of fp32 matrix work (TF32 where it exists).  MFU divides by this */
  ScCited memory_bytes;        /* usable capacity as the driver shows it (nvidia-smi total), bytes */
  ScCited memory_bytes_per_s;  /* peak HBM bandwidth, datasheet */
  ScCited l2_bytes;

  /* Matrix kernels (MODELLING 4.1): time = waves x tile time / (tile_efficiency x peak) x 1/sustained. */
  ScCited gemm_tile_efficiency; /* share of peak inside a full wave, burst; <= 1 */
  ScCited gemm_sustained;       /* further factor under a real training step's heat and power (ACCURACY 4); <= 1 */
  ScCited gemm_accumulate;      /* time factor of weight-gradient GEMMs that add into fp32 (ACCURACY 4), >= 1 */
  ScCited batched_gemm_efficiency; /* share of peak of the unfused attention's batched GEMMs */

  /* Memory-bound kernels: t = launch + bytes / rate x (1 + half_bytes/bytes). */
  ScCited elementwise_bytes_per_s; /* copies, adds, GELU, dropout, SwiGLU */
  ScCited reduction_bytes_per_s;   /* norms, softmax, cross entropy */
  ScCited optimizer_bytes_per_s;   /* multi-tensor Adam */
  ScCited half_bytes;              /* working set at which a memory-bound kernel reaches half of its rate */

  /* Flash attention, FLOP/s over sequence length, FLOPs counted causal = half. */
  ScCurve flash_forward, flash_backward;

  /* Between the GPU and pinned memory of its host, alone on the link. */
  ScCited h2d_bytes_per_s, d2h_bytes_per_s;

  ScCited launch_s;         /* from the end of one kernel to the start of the next in a full queue */
  ScCited hidden_slowdown;  /* a product takes this much longer beside an all-reduce over the node; used where it was measured, and for textbook collectives (contention.h) */
  ScCited memory_slowdown;  /* the same of a memory-bound kernel; 0: not measured */
  ScCited context_bytes;    /* CUDA context and loaded kernels */
  ScCited workspace_bytes;  /* cuBLAS and friends, outside of the framework's counters */

  GPtrArray *tables;   /* ScSampleTable, owned; NULL: no measurements of its own */
  char      *reference_name; /* calibrations/NAME.json with tables that only judge others' rows; NULL: none */
  char      *relative_name; /* NULL: none */
  ScDevice  *relative; /* whose measurements stand in where this one has none; owned, NULL: none */
  gboolean   burst;    /* matrix products run as in short measurements, not at the sustained rate */
};

void sc_device_free (ScDevice *device);

/* Multiplies rates and times.  After sc_device_prepare(), so that measured kernels move like the others. */
void sc_device_scale (ScDevice *device, const ScDeviceScale *scale);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScDevice, sc_device_free)

/* Curve at @x: Steffen over log x, clamped outside the points. */
double sc_curve_at (const ScCurve *curve, double x);
