/* SPDX-License-Identifier: MIT */
/* item.h - what can be measured: one table of classes, one of memory-bound operations, and a single thing to measure.
 * Knows no GPU.  A class is one row here, one function plan_NAME() in plan.c (its shapes) and one scm_run_NAME().  A
 * memory-bound operation is one row here and one function scm_op_NAME() in kernels.cu. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Libraries that a class cannot do without, and whose versions decide whether an old sample is still good. */
enum
{
  SCM_CUBLASLT = 1,
  SCM_CUDNN = 2,
  SCM_NCCL = 4,
};

/* ROW (name, libraries, seconds that one item takes about, summary) */
#define SCM_CLASSES(ROW)                                                                                               \
  ROW (gemm, SCM_CUBLASLT, 0.4, "matrix products of real layers and a grid of sizes (cuBLASLt)")                       \
  ROW (grouped_gemm, SCM_CUBLASLT, 0.5, "products of experts with uneven rows (a loop of cuBLASLt calls)")             \
  ROW (attention, SCM_CUBLASLT | SCM_CUDNN, 0.6, "attention forward and backward: cuDNN, and unfused")                 \
  ROW (memory, 0, 0.3, "memory-bound kernels of a layer, a loss and an optimizer")                                     \
  ROW (launch, 0, 0.3, "time between kernels, in a stream and in a graph; host time per call")                         \
  ROW (copy, 0, 0.4, "copies between host and GPU, and between GPUs")                                                  \
  ROW (collective, SCM_NCCL, 0.5, "collectives and send/recv of the node's GPUs (NCCL)")                               \
  ROW (slowdown, SCM_CUBLASLT | SCM_NCCL, 1.5, "kernels beside a copy, a collective, or a kernel that holds SMs")                 \
  ROW (power, SCM_CUBLASLT, 5, "matrix products in a burst of a second and over a minute")

typedef enum
{
#define ROW(name, libraries, seconds, summary) SCM_CLASS_##name,
  SCM_CLASSES (ROW)
#undef ROW
      SCM_N_CLASSES
} ScmClass;

typedef struct
{
  const char *name;
  const char *summary;
  unsigned libraries;
  double seconds;
} ScmClassRow;

extern const ScmClassRow scm_classes[SCM_N_CLASSES];

/* Families of shapes: FLAT is [elements]; ROWS [rows, hidden]; WIDE [rows, width of the MLP]; HEADS [tokens, heads,
 * head_dim]; SCORES [rows, columns]; LOGITS [tokens, vocabulary].
 * ROW (name, family, dtype, bytes of HBM read + written by element, by row, by column): each tensor counts once. */
#define SCM_MEMORY_OPS(ROW)                                                                                            \
  ROW (copy, FLAT, "bf16", 4, 0, 0)                                                                                    \
  ROW (add, FLAT, "bf16", 6, 0, 0)                                                                                     \
  ROW (residual_dropout, FLAT, "bf16", 7, 0, 0)                                                                        \
  ROW (gelu_fwd, FLAT, "bf16", 4, 0, 0)                                                                                \
  ROW (gelu_bwd, FLAT, "bf16", 6, 0, 0)                                                                                \
  ROW (swiglu_fwd, WIDE, "bf16", 6, 0, 0)                                                                              \
  ROW (swiglu_bwd, WIDE, "bf16", 10, 0, 0)                                                                             \
  ROW (rmsnorm_fwd, ROWS, "bf16", 4, 4, 2)                                                                             \
  ROW (rmsnorm_bwd, ROWS, "bf16", 6, 4, 6)                                                                             \
  ROW (layernorm_fwd, ROWS, "bf16", 4, 8, 4)                                                                           \
  ROW (layernorm_bwd, ROWS, "bf16", 6, 8, 10)                                                                          \
  ROW (rope, HEADS, "bf16", 4, 0, 0)                                                                                   \
  ROW (softmax_fwd, SCORES, "bf16", 4, 0, 0)                                                                           \
  ROW (softmax_bwd, SCORES, "bf16", 6, 0, 0)                                                                           \
  ROW (cross_entropy, LOGITS, "bf16", 4, 8, 0)                                                                         \
  ROW (embedding_fwd, ROWS, "bf16", 4, 4, 0)                                                                           \
  ROW (embedding_bwd, ROWS, "bf16", 10, 4, 0)                                                                          \
  ROW (permute, ROWS, "bf16", 4, 4, 0)                                                                                 \
  ROW (cast, FLAT, "fp32", 6, 0, 0)                                                                                    \
  ROW (fp8_quantise, FLAT, "bf16", 3, 0, 0)                                                                            \
  ROW (adam, FLAT, "fp32", 30, 0, 0)                                                                                   \
  ROW (grad_norm, FLAT, "fp32", 4, 0, 0)

typedef enum
{
  SCM_FAMILY_FLAT,
  SCM_FAMILY_ROWS,
  SCM_FAMILY_WIDE,
  SCM_FAMILY_HEADS,
  SCM_FAMILY_SCORES,
  SCM_FAMILY_LOGITS,
} ScmFamily;

typedef enum
{
#define ROW(name, family, dtype, element, row, column) SCM_OP_##name,
  SCM_MEMORY_OPS (ROW)
#undef ROW
      SCM_N_OPS
} ScmOp;

typedef struct
{
  const char *name;
  const char *dtype;
  ScmFamily family;
  unsigned element_bytes, row_bytes, column_bytes;
} ScmOpRow;

extern const ScmOpRow scm_ops[SCM_N_OPS];

#define SCM_MAX_EXPERTS 64
#define SCM_VOCABULARY 128256 /* rows of the table that embedding_* gathers from */

/* One thing to measure.  What a class does not use is zero; texts are static. */
typedef struct
{
  ScmClass class_id;
  int tier;       /* 0 is worth most */
  double order;   /* within the tier, so that classes take turns */
  double seconds; /* it takes about that long */
  char key[160];  /* says all of it; unique */

  const char *op;     /* memory, launch, copy, power; "kind" of attention; name of the collective */
  const char *beside; /* slowdown; "impl" of attention */
  const char *dtype;
  const char *layout;
  const char *out_dtype;
  bool accumulate;
  bool causal;
  ScmOp memory_op;
  int64_t m, n, k, batch;
  int64_t rows[SCM_MAX_EXPERTS]; /* grouped_gemm */
  int n_rows;
  int64_t seqlen, heads, kv_heads, head_dim; /* attention */
  int64_t shape[3];                          /* memory */
  int n_shape;
  int64_t bytes;
  int src, dst, gpus;
  int amount; /* SMs to hold, slowdown */
} ScmItem;

/* What came out.  NAN where it is not known. */
typedef struct
{
  double time_us; /* median of one execution */
  double spread;  /* (p90 - p10) / median */
  int repeats;
  double clock_mhz, power_w, temperature_c;
  double alone_us, amount; /* slowdown */
  double seconds, tflops;  /* power */
} ScmResult;
