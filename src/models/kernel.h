/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel.h - one GPU kernel and what it costs.
 * Layer: models.  Lowering describes kernels, sc_kernel_cost() prices them: a formula on the device's datasheet (kernel-form.h),
 * and on top of it what measurements of this GPU say (samples.h). */
#pragma once
#include "models/device.h"

typedef enum
{
  SC_KERNEL_GEMM,           /* m x n x k */
  SC_KERNEL_BATCHED_GEMM,   /* batch x (m x n x k): unfused attention */
  SC_KERNEL_GROUPED_GEMM,   /* batch groups in one launch, each with rows of its own: experts */
  SC_KERNEL_FLASH_FORWARD,  /* flops (causal = half), seq, bytes */
  SC_KERNEL_FLASH_BACKWARD, /* same; flops = 2.5 x forward (MODELLING 4.3), of V of another width 3 products with Q's and 2 with V's */
  SC_KERNEL_ELEMENTWISE,    /* bytes read + written */
  SC_KERNEL_REDUCTION,      /* bytes; norms, softmax, cross entropy */
  SC_KERNEL_OPTIMIZER,      /* bytes */
  SC_KERNEL_HOST_COPY,      /* bytes, between the GPU and pinned memory of its host */
  SC_N_KERNEL_CLASSES
} ScKernelClass;

/* What a kernel loses to a collective beside it (contention.h): SMs, or bandwidth of the memory. */
typedef enum
{
  SC_WORK_PRODUCT, /* products and attention */
  SC_WORK_MEMORY,
  SC_WORK_COPY, /* nothing: copy engines, or the host, do it */
  SC_N_WORKS
} ScWorkKind;
ScWorkKind  sc_kernel_class_work (ScKernelClass class);

const char *sc_kernel_class_name (ScKernelClass class); /* "gemm", "batched-gemm", "grouped-gemm", "attention-forward", ... */

/* Which operands of a product are transposed, in the letters of cuBLAS and Transformer Engine: Y = X W^T is TN. */
typedef enum
{
  SC_GEMM_TN, /* forward */
  SC_GEMM_NN, /* gradient of the input */
  SC_GEMM_NT, /* gradient of the weight */
  SC_N_GEMM_LAYOUTS
} ScGemmLayout;

const char *sc_gemm_layout_name (ScGemmLayout layout); /* "TN", "NN", "NT" */

/* What a memory-bound kernel does, as far as its rate depends on it.  Measurements are kept by operation; an operation without
 * any runs at its class's rate. */
typedef enum
{
  SC_OP_ANY, /* none of the others: the class's rate */
  SC_OP_COPY,
  SC_OP_READ, /* of a working set, again and again: small ones stay in the cache */
  SC_OP_ADD,
  SC_OP_DROPOUT_ADD, /* bias + dropout + residual */
  SC_OP_GELU,
  SC_OP_GELU_BACKWARD,
  SC_OP_SWIGLU,
  SC_OP_SWIGLU_BACKWARD,
  SC_OP_ROPE,
  SC_OP_CAST,
  SC_OP_QUANTISE, /* to fp8, with the largest magnitude */
  SC_OP_TRANSPOSE, /* of what is cast, for products that read rows of both operands alone (Hopper's; later GPUs need none) */
  SC_OP_EMBEDDING,
  SC_OP_EMBEDDING_BACKWARD,
  SC_OP_PERMUTE,
  SC_OP_RMSNORM,
  SC_OP_RMSNORM_BACKWARD,
  SC_OP_LAYERNORM,
  SC_OP_LAYERNORM_BACKWARD,
  SC_OP_SOFTMAX,
  SC_OP_SOFTMAX_BACKWARD,
  SC_OP_CROSS_ENTROPY,
  SC_OP_ADAM,
  SC_OP_GRADIENT_NORM,
  SC_OP_HOST_TO_DEVICE,
  SC_OP_DEVICE_TO_HOST,
  SC_N_OPS
} ScMemoryOp;

const char   *sc_op_name (ScMemoryOp op);  /* "copy", "rmsnorm", ... */
ScKernelClass sc_op_class (ScMemoryOp op); /* ELEMENTWISE, REDUCTION, OPTIMIZER or HOST_COPY; ANY: ELEMENTWISE */

typedef struct
{
  const char   *name;  /* static: "qkv", "qkv dgrad", "flash attention", "norm 1", ... */
  ScKernelClass class;
  ScDtype       dtype;
  guint64       m, n, k, batch; /* GEMM: C[m,n] = A[m,k] B[k,n]; grouped: batch groups of m rows in the mean, the empty left out; flash: k = head size, batch = sequences */
  ScGemmLayout  layout;         /* GEMM */
  gboolean      accumulate;     /* adds into an fp32 buffer (weight gradients) */
  double        slow;           /* time over that of a plain product (scales by block); 0: 1 */
  guint64       row_tiles[3];   /* grouped: tiles of 256, 128, 64 rows over all groups */
  guint64       largest;        /* grouped: rows of the largest group */
  double        flops;          /* executed FLOPs, 2 m n k batch for GEMMs; 0 for memory-bound kernels */
  double        bytes;          /* HBM traffic, read + written */
  guint         seq;            /* flash: sequence length, of the keys */
  guint         queries;        /* flash: of each sequence on this GPU (context parallelism), not causal also more than keys; 0: as many */
  guint         window;         /* flash: keys that a query sees at most; 0: all */
  guint         heads, kv_heads, v_head_dim; /* flash, of this GPU; heads 0: not said */
  gboolean      causal;         /* flash */
  ScMemoryOp    op;             /* memory-bound */
  guint         row;            /* memory-bound: elements that one norm or softmax covers; 0: not said */
  double        seconds;        /* not 0: the user measured it; then nothing else counts */
} ScKernel;

typedef struct
{
  double  seconds; /* on an idle GPU, launch gap included */
  ScGrade grade;   /* the weakest grade of a number that decides this time */
} ScCost;

/* Constructors: fill flops and bytes from the shape (MODELLING 4.1, 4.3, 4.4).  Bytes count every operand once. */
ScKernel sc_kernel_gemm (const char *name, ScDtype dtype, guint64 m, guint64 n, guint64 k);

/* A product added into a buffer of @accumulator's width (weight gradients): read and written, not only written. */
ScKernel sc_kernel_gemm_accumulate (const char *name, ScDtype dtype, ScDtype accumulator, guint64 m, guint64 n,
                                    guint64 k);
ScKernel sc_kernel_batched_gemm (const char *name, ScDtype dtype, guint64 batch, guint64 m, guint64 n, guint64 k);

/* Experts in one launch (MODELLING 4.2.5): @rows[@n_groups] tokens of each, some may be 0.  TN: rows x n x k; NN: rows x k x n,
 * the gradient of the input; NT: n x k over the rows, the gradient of the weights, added into fp32. */
ScKernel sc_kernel_grouped_gemm (const char *name, ScDtype dtype, ScGemmLayout layout, const guint64 *rows, guint n_groups,
                                 guint64 n, guint64 k);

/* Attention without a score matrix in memory.  Causal: query i sees keys up to i, and with @window > 0 at most so many. */
typedef struct
{
  guint    batch, seq, heads, kv_heads, head_dim, v_head_dim; /* v_head_dim 0: as head_dim */
  guint    queries; /* of each sequence on this GPU, not causal also more than seq; 0: seq */
  gboolean causal;
  guint    window; /* 0: all */
  double   pairs;  /* query-key pairs of one head over the whole batch; 0: batch equal sequences of seq (MODELLING 1.3) */
} ScAttentionShape;
ScKernel sc_kernel_attention (const char *name, ScKernelClass class, ScDtype dtype, const ScAttentionShape *shape);

/* Query-key pairs of one sequence: s^2, causal s^2/2 (as the field counts), a causal window w of fewer: w (s - w/2). */
double sc_attention_pairs (guint seq, gboolean causal, guint window);

ScKernel sc_kernel_memory (const char *name, ScKernelClass class, double bytes);
ScKernel sc_kernel_op (const char *name, ScMemoryOp op, double bytes);

/* Time of @kernel on @device running at @speed (1 = as its file says; a slow GPU less).  @speed slows arithmetic and
 * memory alike, not the launch.
 * Matrix products run at the device's sustained rate, as in a training step that repeats for hours under the board's power
 * limit; a device whose clocks are set to burst runs them as short measurements do. Memory-bound and attention kernels do not
 * reach that limit (ACCURACY 3.2) and always run as measured.
 * Some microseconds where samples are asked: callers that ask often keep a ScCostCache. */
ScCost sc_kernel_cost (const ScDevice *device, const ScKernel *kernel, double speed);

/* Costs asked before, by device, speed and shape.  Not for several threads at once. */
typedef struct ScCostCache ScCostCache;
ScCostCache *sc_cost_cache_new (void);
void         sc_cost_cache_free (ScCostCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScCostCache, sc_cost_cache_free)
ScCost       sc_cost_cache_get (ScCostCache *cache, const ScDevice *device, const ScKernel *kernel, double speed);

/* The parts of the matrix model, for tests: waves of m x n over @sms SMs with tiles t_m x t_n, and the share of the
 * last wave that is used (MODELLING 4.1). */
guint64 sc_gemm_waves (guint64 m, guint64 n, guint tile_m, guint tile_n, guint sms, double *ret_efficiency);
