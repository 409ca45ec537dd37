/* SPDX-License-Identifier: MIT */
/* kernels.cu - our own kernels: what frameworks' fused kernels do, written plainly and vectorised to 16 bytes.  What they
 * compute is right up to rounding, so that no load or store can be optimised away. */
#include "measure/kernels.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

#define THREADS 256
#define ROW_BLOCKS_MAX 65535 /* rows go round */
#define SMALL 0x7fffffff     /* most vectors where indices are divided: 32 bits are several times faster */

/* 8 values of bf16 or fp16, one load. */
struct __align__ (16) Eight
{
  __nv_bfloat162 v[4];
};

static __device__ __forceinline__ void
unpack (const Eight &e, float *x)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const float2 two = __bfloat1622float2 (e.v[i]);
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
}

static __device__ __forceinline__ Eight
pack (const float *x)
{
  Eight e;
#pragma unroll
  for (int i = 0; i < 4; i++)
    e.v[i] = __floats2bfloat162_rn (x[2 * i], x[2 * i + 1]);
  return e;
}

static __device__ __forceinline__ uint32_t
mix (uint64_t x)
{
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return (uint32_t) x;
}

struct Sum
{
  static __device__ __forceinline__ float
  join (float a, float b)
  {
    return a + b;
  }
  static __device__ __forceinline__ float
  none ()
  {
    return 0;
  }
};

struct Max
{
  static __device__ __forceinline__ float
  join (float a, float b)
  {
    return fmaxf (a, b);
  }
  static __device__ __forceinline__ float
  none ()
  {
    return -INFINITY;
  }
};

/* Over the threads of the warp, which all get it. */
template <typename Op>
static __device__ __forceinline__ float
warp_all (float x)
{
#pragma unroll
  for (int d = 16; d > 0; d /= 2)
    x = Op::join (x, __shfl_xor_sync (0xffffffffu, x, d));
  return x;
}

/* Over all threads of the block, likewise.  Blocks have whole warps. */
template <typename Op>
static __device__ __forceinline__ float
block_all (float x)
{
  __shared__ float part[32];
  x = warp_all<Op> (x);
  __syncthreads (); /* the last use of part[] is over */
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = x;
  __syncthreads ();
  return warp_all<Op> (threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : Op::none ());
}

/* Over the @SPAN threads of a row: a warp or the block. */
template <typename Op, int SPAN>
static __device__ __forceinline__ float
row_all (float x)
{
  return SPAN == 32 ? warp_all<Op> (x) : block_all<Op> (x);
}

static int
blocks_for (int64_t n, int per_block)
{
  const int64_t blocks = (n + per_block - 1) / per_block;
  return blocks < 1 ? 1 : blocks > 1 << 30 ? 1 << 30 : (int) blocks;
}

/* --- elements; all sizes are multiples of 8 --- */

struct Copy
{
  static const bool two = false;
  static __device__ __forceinline__ void
  apply (float *x, const float *)
  {
    (void) x;
  }
};

struct Add
{
  static const bool two = true;
  static __device__ __forceinline__ void
  apply (float *x, const float *y)
  {
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] += y[i];
  }
};

struct GeluForward
{
  static const bool two = false;
  static __device__ __forceinline__ void
  apply (float *x, const float *)
  {
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = 0.5f * x[i] * (1 + tanhf (0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
  }
};

struct GeluBackward /* x, dy */
{
  static const bool two = true;
  static __device__ __forceinline__ void
  apply (float *x, const float *dy)
  {
#pragma unroll
    for (int i = 0; i < 8; i++)
      {
        const float t = tanhf (0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
        const float dt = (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x[i] * x[i]);
        x[i] = dy[i] * (0.5f * (1 + t) + 0.5f * x[i] * dt);
      }
  }
};

template <typename Op>
__global__ void __launch_bounds__ (THREADS) elements (const Eight *a, const Eight *b, Eight *out, int64_t n)
{
  const int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  float x[8], y[8];
  unpack (a[i], x);
  if (Op::two)
    unpack (b[i], y);
  Op::apply (x, y);
  out[i] = pack (x);
}

template <typename Op>
static cudaError_t
run_elements (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 8;
  elements<Op><<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], (const Eight *) t->in[1],
                                                                 (Eight *) t->out[0], n);
  return cudaGetLastError ();
}

extern "C" cudaError_t
scm_op_copy (const ScmTensors *t, cudaStream_t stream)
{
  return run_elements<Copy> (t, stream);
}

extern "C" cudaError_t
scm_op_add (const ScmTensors *t, cudaStream_t stream)
{
  return run_elements<Add> (t, stream);
}

extern "C" cudaError_t
scm_op_gelu_fwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_elements<GeluForward> (t, stream);
}

extern "C" cudaError_t
scm_op_gelu_bwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_elements<GeluBackward> (t, stream);
}

/* in: x, residual.  out: sum, mask (a byte each). */
__global__ void __launch_bounds__ (THREADS)
residual_dropout (const Eight *a, const Eight *residual, Eight *out, uint2 *mask, int64_t n)
{
  const int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  float x[8], y[8];
  union
  {
    unsigned char byte[8];
    uint2 all;
  } keep;
  unpack (a[i], x);
  unpack (residual[i], y);
  const uint64_t random = (uint64_t) mix (2 * i) << 32 | mix (2 * i + 1);
#pragma unroll
  for (int j = 0; j < 8; j++)
    {
      keep.byte[j] = (random >> 8 * j & 255) >= 26;
      x[j] = y[j] + (keep.byte[j] ? x[j] * (256.0f / 230) : 0);
    }
  out[i] = pack (x);
  mask[i] = keep.all;
}

extern "C" cudaError_t
scm_op_residual_dropout (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 8;
  residual_dropout<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], (const Eight *) t->in[1],
                                                                     (Eight *) t->out[0], (uint2 *) t->out[1], n);
  return cudaGetLastError ();
}

/* in: fp32.  out: bf16. */
__global__ void __launch_bounds__ (THREADS) cast (const float4 *in, Eight *out, int64_t n)
{
  const int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  const float4 low = in[2 * i], high = in[2 * i + 1];
  const float x[8] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
  out[i] = pack (x);
}

extern "C" cudaError_t
scm_op_cast (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 8;
  cast<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const float4 *) t->in[0], (Eight *) t->out[0], n);
  return cudaGetLastError ();
}

/* in: bf16.  out: e4m3, and the largest magnitude in scratch[0], for the next step's scale. */
__global__ void __launch_bounds__ (THREADS) fp8_quantise (const Eight *in, uint2 *out, float *amax, int64_t n)
{
  float largest = 0;
  for (int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t) gridDim.x * THREADS)
    {
      float x[8];
      union
      {
        __nv_fp8_storage_t byte[8];
        uint2 all;
      } q;
      unpack (in[i], x);
#pragma unroll
      for (int j = 0; j < 8; j++)
        {
          largest = fmaxf (largest, fabsf (x[j]));
          q.byte[j] = __nv_cvt_float_to_fp8 (16 * x[j], __NV_SATFINITE, __NV_E4M3);
        }
      out[i] = q.all;
    }
  largest = block_all<Max> (largest);
  if (threadIdx.x == 0)
    atomicMax ((int *) amax, __float_as_int (largest)); /* order of non-negative floats */
}

extern "C" cudaError_t
scm_op_fp8_quantise (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 8;
  const int blocks = blocks_for (n, THREADS), most = 16 * t->sms;
  fp8_quantise<<<blocks < most ? blocks : most, THREADS, 0, stream>>> ((const Eight *) t->in[0], (uint2 *) t->out[0],
                                                                       t->scratch, n);
  return cudaGetLastError ();
}

/* in: gradient fp32.  out: weight fp32, both moments fp32 (read and written), weight bf16. */
__global__ void __launch_bounds__ (THREADS)
adam (const float4 *gradient, float4 *weight, float4 *first, float4 *second, uint2 *half, int64_t n)
{
  const int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  union
  {
    float4 all;
    float x[4];
  } g, w, m, v;
  union
  {
    __nv_bfloat162 x[2];
    uint2 all;
  } h;
  g.all = gradient[i];
  w.all = weight[i];
  m.all = first[i];
  v.all = second[i];
#pragma unroll
  for (int j = 0; j < 4; j++)
    {
      m.x[j] = 0.9f * m.x[j] + 0.1f * g.x[j];
      v.x[j] = 0.95f * fabsf (v.x[j]) + 0.05f * g.x[j] * g.x[j];
      w.x[j] -= 1e-4f * (m.x[j] / (sqrtf (v.x[j]) + 1e-8f) + 0.1f * w.x[j]);
    }
  h.x[0] = __floats2bfloat162_rn (w.x[0], w.x[1]);
  h.x[1] = __floats2bfloat162_rn (w.x[2], w.x[3]);
  weight[i] = w.all;
  first[i] = m.all;
  second[i] = v.all;
  half[i] = h.all;
}

extern "C" cudaError_t
scm_op_adam (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 4;
  adam<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const float4 *) t->in[0], (float4 *) t->out[0],
                                                         (float4 *) t->out[1], (float4 *) t->out[2], (uint2 *) t->out[3], n);
  return cudaGetLastError ();
}

/* in: gradient fp32.  Sum of squares into scratch[0]. */
__global__ void __launch_bounds__ (THREADS) grad_norm (const float4 *in, float *sum, int64_t n)
{
  float mine = 0;
  for (int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t) gridDim.x * THREADS)
    {
      const float4 x = in[i];
      mine += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
  mine = block_all<Sum> (mine);
  if (threadIdx.x == 0)
    atomicAdd (sum, mine);
}

extern "C" cudaError_t
scm_op_grad_norm (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] / 4;
  const int blocks = blocks_for (n, THREADS), most = 16 * t->sms;
  grad_norm<<<blocks < most ? blocks : most, THREADS, 0, stream>>> ((const float4 *) t->in[0], t->scratch, n);
  return cudaGetLastError ();
}

/* --- gated MLP: in [rows][2 width], gate first; out [rows][width] --- */

__global__ void __launch_bounds__ (THREADS) swiglu_fwd (const Eight *in, Eight *out, unsigned n, unsigned width)
{
  const unsigned i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  const int64_t row = i / width, column = i % width;
  float gate[8], up[8];
  unpack (in[2 * row * width + column], gate);
  unpack (in[(2 * row + 1) * width + column], up);
#pragma unroll
  for (int j = 0; j < 8; j++)
    up[j] *= gate[j] / (1 + __expf (-gate[j]));
  out[i] = pack (up);
}

extern "C" cudaError_t
scm_op_swiglu_fwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t width = t->shape[1] / 8, n = t->shape[0] * width;
  if (n > SMALL)
    return cudaErrorInvalidValue;
  swiglu_fwd<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], (Eight *) t->out[0],
                                                               (unsigned) n, (unsigned) width);
  return cudaGetLastError ();
}

/* in: x [rows][2 width], dy [rows][width].  out: dx [rows][2 width]. */
__global__ void __launch_bounds__ (THREADS)
swiglu_bwd (const Eight *in, const Eight *dy, Eight *dx, unsigned n, unsigned width)
{
  const unsigned i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  const int64_t row = i / width, column = i % width;
  float gate[8], up[8], d[8];
  unpack (in[2 * row * width + column], gate);
  unpack (in[(2 * row + 1) * width + column], up);
  unpack (dy[i], d);
#pragma unroll
  for (int j = 0; j < 8; j++)
    {
      const float s = 1 / (1 + __expf (-gate[j])), silu = gate[j] * s;
      const float d_gate = d[j] * up[j] * (s + silu * (1 - s));
      up[j] = d[j] * silu;
      gate[j] = d_gate;
    }
  dx[2 * row * width + column] = pack (gate);
  dx[(2 * row + 1) * width + column] = pack (up);
}

extern "C" cudaError_t
scm_op_swiglu_bwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t width = t->shape[1] / 8, n = t->shape[0] * width;
  if (n > SMALL)
    return cudaErrorInvalidValue;
  swiglu_bwd<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], (const Eight *) t->in[1],
                                                               (Eight *) t->out[0], (unsigned) n, (unsigned) width);
  return cudaGetLastError ();
}

/* --- rows that a warp or a block keeps in registers ---
 *
 * Short rows have a warp each, longer ones a block; a thread keeps @CHUNKS vectors of its row, no more than the row needs,
 * so that as many rows as possible are under way in an SM. */

#define MOST_COLUMNS (8 * THREADS * 8)

/* LAUNCH (threads of a row, vectors of a thread) for rows of @n vectors. */
#define BY_ROW(n, LAUNCH)                                                                                              \
  ((n) <= 32            ? LAUNCH (32, 1)                                                                               \
   : (n) <= 2 * 32      ? LAUNCH (32, 2)                                                                               \
   : (n) <= 4 * 32      ? LAUNCH (32, 4)                                                                               \
   : (n) <= THREADS     ? LAUNCH (THREADS, 1)                                                                          \
   : (n) <= 2 * THREADS ? LAUNCH (THREADS, 2)                                                                          \
   : (n) <= 4 * THREADS ? LAUNCH (THREADS, 4)                                                                          \
                        : LAUNCH (THREADS, 8))

/* Blocks for @rows rows of @span threads each. */
static int
row_blocks (int64_t rows, int span)
{
  const int64_t blocks = (rows + THREADS / span - 1) / (THREADS / span);
  return blocks < ROW_BLOCKS_MAX ? (int) blocks : ROW_BLOCKS_MAX;
}

/* All rows of this thread, one after the other. */
#define FOR_ROWS(row, rows, SPAN)                                                                                      \
  for (int64_t row = (int64_t) blockIdx.x * (THREADS / SPAN) + threadIdx.x / SPAN; row < rows;                         \
       row += (int64_t) gridDim.x * (THREADS / SPAN))

/* in: x, weight, bias (layernorm).  out: y, statistics fp32 (mean and reciprocal deviation by row). */
template <bool CENTRED, int SPAN, int CHUNKS>
__global__ void __launch_bounds__ (THREADS)
norm_fwd (const Eight *x, const Eight *weight, const Eight *bias, Eight *y, float *stats, int64_t rows, int columns)
{
  const int n = columns / 8, lane = threadIdx.x % SPAN;
  FOR_ROWS (row, rows, SPAN)
    {
      Eight kept[CHUNKS];
      float sum = 0, squares = 0;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        if (c * SPAN + lane < n)
          kept[c] = x[row * n + c * SPAN + lane];
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        if (c * SPAN + lane < n)
          {
            float v[8];
            unpack (kept[c], v);
#pragma unroll
            for (int j = 0; j < 8; j++)
              {
                sum += v[j];
                squares += v[j] * v[j];
              }
          }
      const float mean = CENTRED ? row_all<Sum, SPAN> (sum) / columns : 0;
      const float variance = row_all<Sum, SPAN> (squares) / columns - mean * mean;
      const float scale = rsqrtf (fmaxf (variance, 0) + 1e-5f);
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n)
            {
              float v[8], w[8], b[8];
              unpack (kept[c], v);
              unpack (weight[i], w);
              if (CENTRED)
                unpack (bias[i], b);
#pragma unroll
              for (int j = 0; j < 8; j++)
                v[j] = (v[j] - mean) * scale * w[j] + (CENTRED ? b[j] : 0);
              y[row * n + i] = pack (v);
            }
        }
      if (lane == 0)
        {
          stats[CENTRED ? 2 * row : row] = CENTRED ? mean : scale;
          if (CENTRED)
            stats[2 * row + 1] = scale;
        }
    }
}

template <bool CENTRED, int SPAN, int CHUNKS>
static cudaError_t
launch_norm_fwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t rows = t->shape[0];
  norm_fwd<CENTRED, SPAN, CHUNKS><<<row_blocks (rows, SPAN), THREADS, 0, stream>>> (
      (const Eight *) t->in[0], (const Eight *) t->in[1], (const Eight *) t->in[2], (Eight *) t->out[0],
      (float *) t->out[1], rows, (int) t->shape[1]);
  return cudaGetLastError ();
}

template <bool CENTRED>
static cudaError_t
run_norm_fwd (const ScmTensors *t, cudaStream_t stream)
{
  if (t->shape[1] > MOST_COLUMNS)
    return cudaErrorInvalidValue;
#define LAUNCH(SPAN, CHUNKS) launch_norm_fwd<CENTRED, SPAN, CHUNKS> (t, stream)
  return BY_ROW (t->shape[1] / 8, LAUNCH);
#undef LAUNCH
}

extern "C" cudaError_t
scm_op_rmsnorm_fwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_norm_fwd<false> (t, stream);
}

extern "C" cudaError_t
scm_op_layernorm_fwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_norm_fwd<true> (t, stream);
}

/* in: x, dy, weight, statistics.  out: dx; gradients of weight (and bias) by block into scratch [blocks][1 or 2][columns].
 * The statistics are random here: any values take the same time.  A block per row, as its sums have the whole row. */
template <bool CENTRED, int CHUNKS>
__global__ void __launch_bounds__ (THREADS)
norm_bwd (const Eight *x, const Eight *dy, const Eight *weight, const float *stats, Eight *dx, float *partial, int64_t rows,
          int columns)
{
  const int n = columns / 8;
  extern __shared__ float own[]; /* [CENTRED ? 2 : 1][columns] */
  for (int i = threadIdx.x; i < (CENTRED ? 2 : 1) * columns; i += THREADS)
    own[i] = 0;
  __syncthreads ();
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    {
      Eight kept_x[CHUNKS], kept_d[CHUNKS];
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * THREADS + threadIdx.x;
          if (i < n)
            {
              kept_x[c] = x[row * n + i];
              kept_d[c] = dy[row * n + i];
            }
        }
      const float mean = CENTRED ? stats[2 * row] : 0, scale = CENTRED ? stats[2 * row + 1] : stats[row];
      float s1 = 0, s2 = 0;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * THREADS + threadIdx.x;
          if (i < n)
            {
              float v[8], d[8], w[8];
              unpack (kept_x[c], v);
              unpack (kept_d[c], d);
              unpack (weight[i], w);
#pragma unroll
              for (int j = 0; j < 8; j++)
                {
                  const float normal = (v[j] - mean) * scale;
                  own[j * n + i] += d[j] * normal; /* each thread its own columns, neighbours in other banks */
                  if (CENTRED)
                    {
                      own[columns + j * n + i] += d[j];
                      s1 += d[j] * w[j];
                    }
                  s2 += d[j] * w[j] * normal;
                }
            }
        }
      s1 = CENTRED ? block_all<Sum> (s1) / columns : 0;
      s2 = block_all<Sum> (s2) / columns;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * THREADS + threadIdx.x;
          if (i < n)
            {
              float v[8], d[8], w[8];
              unpack (kept_x[c], v);
              unpack (kept_d[c], d);
              unpack (weight[i], w);
#pragma unroll
              for (int j = 0; j < 8; j++)
                v[j] = (d[j] * w[j] - s1 - (v[j] - mean) * scale * s2) * scale;
              dx[row * n + i] = pack (v);
            }
        }
    }
  __syncthreads ();
  for (int i = threadIdx.x; i < (CENTRED ? 2 : 1) * columns; i += THREADS)
    {
      const int half = i / columns * columns, column = i - half;
      partial[(int64_t) blockIdx.x * (CENTRED ? 2 : 1) * columns + i] = own[half + column % 8 * n + column / 8];
    }
}

/* out[column] = sum over blocks. */
__global__ void __launch_bounds__ (THREADS) sum_columns (const float *partial, float *out, int blocks, int columns)
{
  const int column = blockIdx.x * 32 + threadIdx.x % 32;
  __shared__ float part[THREADS / 32][33];
  float sum = 0;
  if (column < columns)
    for (int i = threadIdx.x / 32; i < blocks; i += THREADS / 32)
      sum += partial[(int64_t) i * columns + column];
  part[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads ();
  if (threadIdx.x < 32 && column < columns)
    {
      for (int i = 1; i < THREADS / 32; i++)
        sum += part[i][threadIdx.x];
      out[column] = sum;
    }
}

extern "C" size_t
scm_op_shared (ScmOp op, const int64_t *shape)
{
  const size_t columns = (size_t) shape[1];
  return op == SCM_OP_rmsnorm_bwd ? 4 * columns : op == SCM_OP_layernorm_bwd ? 8 * columns : 0;
}

/* As many blocks as run at once, but no more than keep memory busy: each adds a row of sums. */
#define IN_FLIGHT (96 * 1024)

template <bool CENTRED, int CHUNKS>
static cudaError_t
launch_norm_bwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t rows = t->shape[0];
  const int columns = (int) t->shape[1], all = (CENTRED ? 2 : 1) * columns;
  const size_t shared = scm_op_shared (CENTRED ? SCM_OP_layernorm_bwd : SCM_OP_rmsnorm_bwd, t->shape);
  int per_sm = 0;
  cudaError_t error
      = cudaFuncSetAttribute (norm_bwd<CENTRED, CHUNKS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) shared);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor (&per_sm, norm_bwd<CENTRED, CHUNKS>, THREADS, shared);
  if (error != cudaSuccess || per_sm < 1)
    return error != cudaSuccess ? error : cudaErrorInvalidConfiguration;
  const int busy = (IN_FLIGHT + 4 * columns - 1) / (4 * columns);
  per_sm = per_sm < busy ? per_sm : busy;
  per_sm = per_sm < SCM_NORM_BLOCKS ? per_sm : SCM_NORM_BLOCKS;
  const int most = t->sms * per_sm, blocks = rows < most ? (int) rows : most;
  norm_bwd<CENTRED, CHUNKS><<<blocks, THREADS, shared, stream>>> (
      (const Eight *) t->in[0], (const Eight *) t->in[1], (const Eight *) t->in[2], (const float *) t->in[3],
      (Eight *) t->out[0], t->scratch, rows, columns);
  sum_columns<<<(all + 31) / 32, THREADS, 0, stream>>> (t->scratch, (float *) t->out[1], blocks, all);
  return cudaGetLastError ();
}

template <bool CENTRED>
static cudaError_t
run_norm_bwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[1] / 8;
  return n <= THREADS       ? launch_norm_bwd<CENTRED, 1> (t, stream)
         : n <= 2 * THREADS ? launch_norm_bwd<CENTRED, 2> (t, stream)
         : n <= 4 * THREADS ? launch_norm_bwd<CENTRED, 4> (t, stream)
         : n <= 8 * THREADS ? launch_norm_bwd<CENTRED, 8> (t, stream)
                            : cudaErrorInvalidValue;
}

extern "C" cudaError_t
scm_op_rmsnorm_bwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_norm_bwd<false> (t, stream);
}

extern "C" cudaError_t
scm_op_layernorm_bwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_norm_bwd<true> (t, stream);
}

/* --- rope: in x [tokens][heads][head_dim], angles [tokens][head_dim / 2] (cosine, sine) fp32.  out: x turned. --- */

__global__ void __launch_bounds__ (THREADS)
rope (const Eight *in, const float4 *angles, Eight *out, unsigned n, unsigned heads, unsigned head_dim)
{
  const unsigned i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n)
    return;
  const unsigned per_head = head_dim / 8;
  const int64_t token = i / per_head / heads;
  const unsigned part = i % per_head;
  float x[8];
  unpack (in[i], x);
#pragma unroll
  for (int j = 0; j < 2; j++)
    {
      const float4 a = angles[token * (head_dim / 4) + 2 * part + j];
      const float x0 = x[4 * j], x1 = x[4 * j + 1], x2 = x[4 * j + 2], x3 = x[4 * j + 3];
      x[4 * j] = x0 * a.x - x1 * a.y;
      x[4 * j + 1] = x0 * a.y + x1 * a.x;
      x[4 * j + 2] = x2 * a.z - x3 * a.w;
      x[4 * j + 3] = x2 * a.w + x3 * a.z;
    }
  out[i] = pack (x);
}

extern "C" cudaError_t
scm_op_rope (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] * t->shape[1] * t->shape[2] / 8;
  if (n > SMALL)
    return cudaErrorInvalidValue;
  rope<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], (const float4 *) t->in[1],
                                                         (Eight *) t->out[0], (unsigned) n, (unsigned) t->shape[1],
                                                         (unsigned) t->shape[2]);
  return cudaGetLastError ();
}

/* --- softmax of scores --- */

/* Row i of @seqlen sees columns 0..i when @seqlen > 0; the rest of the row is written as zeros. */
template <int SPAN, int CHUNKS>
__global__ void __launch_bounds__ (THREADS)
softmax_fwd (const Eight *x, Eight *y, int64_t rows, int columns, int64_t seqlen)
{
  const int n = columns / 8, lane = threadIdx.x % SPAN;
  FOR_ROWS (row, rows, SPAN)
    {
      const int seen = seqlen > 0 ? (int) (row % seqlen) + 1 : columns;
      Eight kept[CHUNKS];
      float v[CHUNKS][8], largest = -INFINITY, sum = 0;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n && 8 * i < seen)
            kept[c] = x[row * n + i];
        }
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n && 8 * i < seen)
            {
              unpack (kept[c], v[c]);
#pragma unroll
              for (int j = 0; j < 8; j++)
                {
                  if (8 * i + j >= seen)
                    v[c][j] = -INFINITY;
                  largest = fmaxf (largest, v[c][j]);
                }
            }
        }
      largest = row_all<Max, SPAN> (largest);
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n && 8 * i < seen)
#pragma unroll
            for (int j = 0; j < 8; j++)
              sum += v[c][j] = __expf (v[c][j] - largest);
        }
      const float inverse = 1 / row_all<Sum, SPAN> (sum);
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n)
            {
#pragma unroll
              for (int j = 0; j < 8; j++)
                v[c][j] = 8 * i < seen ? v[c][j] * inverse : 0;
              y[row * n + i] = pack (v[c]);
            }
        }
    }
}

/* dx = scale * y * (dy - sum (y dy)). */
template <int SPAN, int CHUNKS>
__global__ void __launch_bounds__ (THREADS)
softmax_bwd (const Eight *y, const Eight *dy, Eight *dx, int64_t rows, int columns, float scale)
{
  const int n = columns / 8, lane = threadIdx.x % SPAN;
  FOR_ROWS (row, rows, SPAN)
    {
      Eight kept_y[CHUNKS], kept_d[CHUNKS];
      float sum = 0;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n)
            {
              kept_y[c] = y[row * n + i];
              kept_d[c] = dy[row * n + i];
            }
        }
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        if (c * SPAN + lane < n)
          {
            float a[8], d[8];
            unpack (kept_y[c], a);
            unpack (kept_d[c], d);
#pragma unroll
            for (int j = 0; j < 8; j++)
              sum += a[j] * d[j];
          }
      sum = row_all<Sum, SPAN> (sum);
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
        {
          const int i = c * SPAN + lane;
          if (i < n)
            {
              float a[8], d[8];
              unpack (kept_y[c], a);
              unpack (kept_d[c], d);
#pragma unroll
              for (int j = 0; j < 8; j++)
                a[j] *= scale * (d[j] - sum);
              dx[row * n + i] = pack (a);
            }
        }
    }
}

template <int SPAN, int CHUNKS>
static cudaError_t
launch_softmax_fwd (const void *x, void *y, int64_t rows, int64_t columns, int64_t seqlen, cudaStream_t stream)
{
  softmax_fwd<SPAN, CHUNKS><<<row_blocks (rows, SPAN), THREADS, 0, stream>>> ((const Eight *) x, (Eight *) y, rows,
                                                                              (int) columns, seqlen);
  return cudaGetLastError ();
}

template <int SPAN, int CHUNKS>
static cudaError_t
launch_softmax_bwd (const void *y, const void *dy, void *dx, int64_t rows, int64_t columns, float scale, cudaStream_t stream)
{
  softmax_bwd<SPAN, CHUNKS><<<row_blocks (rows, SPAN), THREADS, 0, stream>>> (
      (const Eight *) y, (const Eight *) dy, (Eight *) dx, rows, (int) columns, scale);
  return cudaGetLastError ();
}

extern "C" cudaError_t
scm_softmax_fwd (const void *x, void *y, int64_t rows, int64_t columns, int64_t causal_seqlen, cudaStream_t stream)
{
  if (columns > MOST_COLUMNS || columns % 8 != 0)
    return cudaErrorInvalidValue;
#define LAUNCH(SPAN, CHUNKS) launch_softmax_fwd<SPAN, CHUNKS> (x, y, rows, columns, causal_seqlen, stream)
  return BY_ROW (columns / 8, LAUNCH);
#undef LAUNCH
}

extern "C" cudaError_t
scm_softmax_bwd (const void *y, const void *dy, void *dx, int64_t rows, int64_t columns, float scale, cudaStream_t stream)
{
  if (columns > MOST_COLUMNS || columns % 8 != 0)
    return cudaErrorInvalidValue;
#define LAUNCH(SPAN, CHUNKS) launch_softmax_bwd<SPAN, CHUNKS> (y, dy, dx, rows, columns, scale, stream)
  return BY_ROW (columns / 8, LAUNCH);
#undef LAUNCH
}

extern "C" cudaError_t
scm_op_softmax_fwd (const ScmTensors *t, cudaStream_t stream)
{
  return scm_softmax_fwd (t->in[0], t->out[0], t->shape[0], t->shape[1], 0, stream);
}

extern "C" cudaError_t
scm_op_softmax_bwd (const ScmTensors *t, cudaStream_t stream)
{
  return scm_softmax_bwd (t->in[0], t->in[1], t->out[0], t->shape[0], t->shape[1], 1, stream);
}

/* --- cross-entropy: in logits, targets (index).  out: gradient; loss fp32.  The second reading of a row comes from L2. --- */

__global__ void __launch_bounds__ (1024)
cross_entropy (const Eight *logits, const int *target, Eight *gradient, float *loss, int64_t rows, int columns)
{
  const int n = columns / 8;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    {
      float largest = -INFINITY, sum = 0, x[8];
      for (int i = threadIdx.x; i < n; i += blockDim.x)
        {
          unpack (logits[row * n + i], x);
          float here = x[0];
#pragma unroll
          for (int j = 1; j < 8; j++)
            here = fmaxf (here, x[j]);
          if (here > largest)
            {
              sum *= __expf (largest - here);
              largest = here;
            }
#pragma unroll
          for (int j = 0; j < 8; j++)
            sum += __expf (x[j] - largest);
        }
      const float top = block_all<Max> (largest);
      sum = block_all<Sum> (sum > 0 ? sum * __expf (largest - top) : 0);
      const float inverse = 1 / sum;
      const int right = target[row];
      for (int i = threadIdx.x; i < n; i += blockDim.x)
        {
          unpack (logits[row * n + i], x);
#pragma unroll
          for (int j = 0; j < 8; j++)
            {
              if (8 * i + j == right)
                loss[row] = logf (sum) + top - x[j];
              x[j] = __expf (x[j] - top) * inverse - (8 * i + j == right ? 1.0f : 0.0f);
            }
          gradient[row * n + i] = pack (x);
        }
    }
}

extern "C" cudaError_t
scm_op_cross_entropy (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t rows = t->shape[0];
  cross_entropy<<<rows < ROW_BLOCKS_MAX ? (int) rows : ROW_BLOCKS_MAX, 1024, 0, stream>>> (
      (const Eight *) t->in[0], t->index, (Eight *) t->out[0], (float *) t->out[1], rows, (int) t->shape[1]);
  return cudaGetLastError ();
}

/* --- rows by index: embeddings, tokens of experts --- */

__global__ void __launch_bounds__ (THREADS) gather (const Eight *in, const int *index, Eight *out, unsigned n, unsigned width)
{
  const unsigned i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n)
    out[i] = in[(int64_t) index[i / width] * width + i % width];
}

static cudaError_t
run_gather (const ScmTensors *t, cudaStream_t stream)
{
  const unsigned width = (unsigned) (t->shape[1] / 8);
  const int64_t n = t->shape[0] * width;
  if (n > SMALL)
    return cudaErrorInvalidValue;
  gather<<<blocks_for (n, THREADS), THREADS, 0, stream>>> ((const Eight *) t->in[0], t->index, (Eight *) t->out[0],
                                                           (unsigned) n, width);
  return cudaGetLastError ();
}

extern "C" cudaError_t
scm_op_embedding_fwd (const ScmTensors *t, cudaStream_t stream)
{
  return run_gather (t, stream);
}

extern "C" cudaError_t
scm_op_permute (const ScmTensors *t, cudaStream_t stream)
{
  return run_gather (t, stream);
}

/* in: dy, ids.  out: gradient of the table, fp32, added to.  A warp adds to consecutive addresses: four values a thread at
 * once where the GPU can, one a thread in turn elsewhere.  @n: values. */
__global__ void __launch_bounds__ (THREADS)
scatter_add (const __nv_bfloat16 *dy, const int *index, float *table, unsigned n, unsigned columns)
{
  const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1201
  const unsigned i = 4 * thread;
  if (i >= n)
    return;
  union
  {
    uint2 all;
    __nv_bfloat162 v[2];
  } x;
  x.all = *(const uint2 *) (dy + i);
  const float2 low = __bfloat1622float2 (x.v[0]), high = __bfloat1622float2 (x.v[1]);
  atomicAdd ((float4 *) (table + (int64_t) index[i / columns] * columns + i % columns),
             make_float4 (low.x, low.y, high.x, high.y));
#else
  const unsigned first = thread / 32 * 128 + thread % 32;
#pragma unroll
  for (int j = 0; j < 4; j++)
    {
      const unsigned i = first + 32 * j;
      if (i < n)
        atomicAdd (table + (int64_t) index[i / columns] * columns + i % columns, __bfloat162float (dy[i]));
    }
#endif
}

extern "C" cudaError_t
scm_op_embedding_bwd (const ScmTensors *t, cudaStream_t stream)
{
  const int64_t n = t->shape[0] * t->shape[1];
  if (n > SMALL)
    return cudaErrorInvalidValue;
  scatter_add<<<blocks_for (n, 4 * THREADS), THREADS, 0, stream>>> ((const __nv_bfloat16 *) t->in[0], t->index,
                                                                    (float *) t->out[0], (unsigned) n,
                                                                    (unsigned) t->shape[1]);
  return cudaGetLastError ();
}

/* --- operands --- */

template <typename T>
static __device__ __forceinline__ T from_float (float x);
template <>
__device__ __forceinline__ float
from_float<float> (float x)
{
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16
from_float<__nv_bfloat16> (float x)
{
  return __float2bfloat16 (x);
}
template <>
__device__ __forceinline__ __half
from_float<__half> (float x)
{
  return __float2half (x);
}
template <>
__device__ __forceinline__ __nv_fp8_e4m3
from_float<__nv_fp8_e4m3> (float x)
{
  return __nv_fp8_e4m3 (x);
}

/* The sum of four uniforms: near enough to a normal, of variance @scale squared. */
template <typename T>
__global__ void __launch_bounds__ (THREADS) fill (T *at, int64_t n, float scale, unsigned seed)
{
  for (int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t) gridDim.x * THREADS)
    {
      const uint32_t a = mix ((uint64_t) seed << 40 ^ (uint64_t) i);
      const float sum = (float) (a & 255) + (float) (a >> 8 & 255) + (float) (a >> 16 & 255) + (float) (a >> 24);
      at[i] = from_float<T> ((sum - 510) * (1 / 147.8f) * scale);
    }
}

extern "C" cudaError_t
scm_fill_random (void *at, ScmFill type, int64_t n, float scale, unsigned seed, cudaStream_t stream)
{
  const int wanted = blocks_for (n, 4 * THREADS), blocks = wanted < 16384 ? wanted : 16384;
  switch (type)
    {
    case SCM_FILL_BF16:
      fill<<<blocks, THREADS, 0, stream>>> ((__nv_bfloat16 *) at, n, scale, seed);
      break;
    case SCM_FILL_FP16:
      fill<<<blocks, THREADS, 0, stream>>> ((__half *) at, n, scale, seed);
      break;
    case SCM_FILL_FP32:
      fill<<<blocks, THREADS, 0, stream>>> ((float *) at, n, scale, seed);
      break;
    case SCM_FILL_FP8:
      fill<<<blocks, THREADS, 0, stream>>> ((__nv_fp8_e4m3 *) at, n, scale, seed);
      break;
    }
  return cudaGetLastError ();
}

/* Random indices below @below; or, with @odd > 0, a permutation of 0..n-1 (n a power of 2): i times an odd number. */
__global__ void __launch_bounds__ (THREADS) indices (int *at, int64_t n, int64_t below, int64_t odd, unsigned seed)
{
  const int64_t i = (int64_t) blockIdx.x * THREADS + threadIdx.x;
  if (i < n)
    at[i] = odd > 0 ? (int) (i * odd % n) : (int) (mix ((uint64_t) seed << 40 ^ (uint64_t) i) % (uint64_t) below);
}

extern "C" cudaError_t
scm_fill_indices (int *at, int64_t n, int64_t below, int permutation, unsigned seed, cudaStream_t stream)
{
  indices<<<blocks_for (n, THREADS), THREADS, 0, stream>>> (at, n, below, permutation ? 2654435761ll % n | 1 : 0, seed);
  return cudaGetLastError ();
}

/* --- time and room --- */

static __device__ __forceinline__ unsigned long long
clock_ns ()
{
  unsigned long long ns;
  asm volatile ("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void
delay (unsigned long long ns)
{
  const unsigned long long from = clock_ns ();
  while (clock_ns () - from < ns)
    __nanosleep (200);
}

extern "C" cudaError_t
scm_delay (int64_t ns, cudaStream_t stream)
{
  delay<<<1, 1, 0, stream>>> ((unsigned long long) ns);
  return cudaGetLastError ();
}

__global__ void
nothing ()
{
}

extern "C" cudaError_t
scm_nothing (cudaStream_t stream)
{
  nothing<<<1, 1, 0, stream>>> ();
  return cudaGetLastError ();
}

/* 1024 threads with 64 registers each: the whole register file of an SM, so that no other block runs there. */
#define HELD 52

__global__ void __launch_bounds__ (1024, 1) hold_sms (ScmHold *hold, unsigned long long limit_ns, float *never)
{
  float v[HELD];
#pragma unroll
  for (int i = 0; i < HELD; i++)
    v[i] = (float) (threadIdx.x * (i + 1));
  __shared__ int stop;
  const unsigned long long from = clock_ns ();
  if (threadIdx.x == 0)
    {
      hold->arrived[blockIdx.x] = 1; /* no atomics: host memory may have none */
      __threadfence_system ();
    }
  do
    {
      __syncthreads ();
      if (threadIdx.x == 0)
        stop = hold->stop != 0 || clock_ns () - from > limit_ns;
#pragma unroll
      for (int i = 0; i < HELD; i++)
        v[i] = v[i] * 0.999f + v[(i + 1) % HELD];
      __nanosleep (2000);
      __syncthreads ();
    }
  while (!stop);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < HELD; i++)
    sum += v[i];
  if (sum == 1.2345e-30f)
    *never = sum;
}

extern "C" cudaError_t
scm_hold_sms (int n, ScmHold *hold, int64_t limit_ns, cudaStream_t stream)
{
  if (n > SCM_MAX_HELD)
    return cudaErrorInvalidValue;
  hold_sms<<<n, 1024, 0, stream>>> (hold, (unsigned long long) limit_ns, (float *) hold);
  return cudaGetLastError ();
}
