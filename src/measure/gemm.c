/* SPDX-License-Identifier: MIT */
/* gemm.c - matrix products by cuBLASLt, alone and in groups.
 *
 * cuBLAS is column-major: Y[m,n] of rows is D of n x m columns.  The letters are those of Transformer Engine:
 *   TN  Y[m,n]  = X[m,k] W[n,k]^T   A = W, k x n in columns, transposed; B = X, k x m
 *   NN  Y[m,n]  = X[m,k] W[k,n]     A = W, n x k in columns;             B = X, k x m
 *   NT  Y[m,n]  = G[k,m]^T X[k,n]   A = X, n x k in columns;             B = G, m x k, transposed */
#include "measure/gpu.h"
#include <string.h>

static ScmOutcome
check_cublas (ScmGpu *gpu, cublasStatus_t status, const char *what)
{
  static const char *const names[] = {
    [1] = "not initialised", [3] = "allocation failed", [7] = "invalid value",  [8] = "not on this architecture",
    [11] = "mapping error",  [13] = "execution failed", [14] = "internal error", [15] = "not supported",
  };
  if (status == CUBLAS_STATUS_SUCCESS)
    return SCM_DONE;
  const char *name = (size_t) status < sizeof names / sizeof *names ? names[status] : NULL;
  return scm_say (gpu, status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ? SCM_SKIPPED : SCM_FAILED,
                  "%s: %s (%d)", what, name != NULL ? name : "error", (int) status);
}

#define TRY_CUBLAS(gpu, function, ...)                                                                                 \
  SCM_TRY (check_cublas ((gpu), (gpu)->libraries.function (__VA_ARGS__), #function))

static cudaDataType_t
data_type (const char *dtype)
{
  return strcmp (dtype, "bf16") == 0   ? CUDA_R_16BF
         : strcmp (dtype, "fp16") == 0 ? CUDA_R_16F
         : strcmp (dtype, "fp8") == 0  ? CUDA_R_8F_E4M3
                                       : CUDA_R_32F;
}

static size_t
element_bytes (const char *dtype)
{
  return strcmp (dtype, "fp8") == 0 ? 1 : strcmp (dtype, "bf16") == 0 || strcmp (dtype, "fp16") == 0 ? 2 : 4;
}

/* @rows x @columns in columns, @batch of them one behind the other. */
static ScmOutcome
make_layout (ScmGpu *gpu, cublasLtMatrixLayout_t *ret_layout, cudaDataType_t type, int64_t rows, int64_t columns, int64_t batch)
{
  TRY_CUBLAS (gpu, cublasLtMatrixLayoutCreate, ret_layout, type, (uint64_t) rows, (uint64_t) columns, rows);
  if (batch > 1)
    {
      const int32_t count = (int32_t) batch;
      const int64_t stride = rows * columns;
      TRY_CUBLAS (gpu, cublasLtMatrixLayoutSetAttribute, *ret_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                  sizeof count);
      TRY_CUBLAS (gpu, cublasLtMatrixLayoutSetAttribute, *ret_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                  sizeof stride);
    }
  return SCM_DONE;
}

static ScmOutcome
find_algorithm (ScmGpu *gpu, ScmMatmul *matmul, cublasLtMatmulPreference_t preference)
{
  const size_t room = SCM_WORKSPACE_BYTES;
  cublasLtMatmulHeuristicResult_t found;
  int n = 0;
  TRY_CUBLAS (gpu, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
              sizeof room);
  TRY_CUBLAS (gpu, cublasLtMatmulAlgoGetHeuristic, gpu->libraries.cublaslt, matmul->desc, matmul->a, matmul->b, matmul->c,
              matmul->c, preference, 1, &found, &n);
  if (n == 0)
    return scm_say (gpu, SCM_SKIPPED, "cuBLASLt has no algorithm for it on this GPU");
  SCM_TRY (check_cublas (gpu, found.state, "cublasLtMatmulAlgoGetHeuristic"));
  matmul->algo = found.algo;
  matmul->workspace_bytes = found.workspaceSize;
  return SCM_DONE;
}

ScmOutcome
scm_matmul_init (ScmGpu *gpu, ScmMatmul *matmul, const char *dtype, const char *layout, const char *out_dtype, int64_t m,
                 int64_t n, int64_t k, int64_t batch, bool accumulate)
{
  *matmul = (ScmMatmul){ .alpha = 1, .beta = accumulate ? 1 : 0 };
  if ((gpu->libraries.found & SCM_CUBLASLT) == 0)
    return scm_say (gpu, SCM_SKIPPED, "cuBLASLt is missing");
  const bool fp8 = strcmp (dtype, "fp8") == 0;
  if (fp8 && gpu->major * 10 + gpu->minor < 89)
    return scm_say (gpu, SCM_SKIPPED, "this GPU has no fp8");

  const cudaDataType_t type = data_type (dtype), out_type = data_type (out_dtype);
  const cublasComputeType_t compute = strcmp (dtype, "tf32") == 0 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const bool a_transposed = layout[0] == 'T', b_transposed = layout[1] == 'T';
  const int32_t op_a = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  TRY_CUBLAS (gpu, cublasLtMatmulDescCreate, &matmul->desc, compute, CUDA_R_32F);
  TRY_CUBLAS (gpu, cublasLtMatmulDescSetAttribute, matmul->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
  TRY_CUBLAS (gpu, cublasLtMatmulDescSetAttribute, matmul->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
  if (fp8)
    {
      /* Forward accumulates in the tensor core's own precision, weight gradients do not, as Transformer Engine has it. */
      const int8_t fast = accumulate ? 0 : 1;
      const void *scale = gpu->ones;
      TRY_CUBLAS (gpu, cublasLtMatmulDescSetAttribute, matmul->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale,
                  sizeof scale);
      TRY_CUBLAS (gpu, cublasLtMatmulDescSetAttribute, matmul->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale,
                  sizeof scale);
      TRY_CUBLAS (gpu, cublasLtMatmulDescSetAttribute, matmul->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    }
  if (a_transposed)
    SCM_TRY (make_layout (gpu, &matmul->a, type, k, n, batch));
  else
    SCM_TRY (make_layout (gpu, &matmul->a, type, n, k, batch));
  if (b_transposed)
    SCM_TRY (make_layout (gpu, &matmul->b, type, m, k, batch));
  else
    SCM_TRY (make_layout (gpu, &matmul->b, type, k, m, batch));
  SCM_TRY (make_layout (gpu, &matmul->c, out_type, n, m, batch));
  matmul->a_elements = batch * n * k;
  matmul->b_elements = batch * m * k;
  matmul->c_elements = batch * m * n;
  matmul->a_bytes = (size_t) matmul->a_elements * element_bytes (dtype);
  matmul->b_bytes = (size_t) matmul->b_elements * element_bytes (dtype);
  matmul->c_bytes = (size_t) matmul->c_elements * element_bytes (out_dtype);

  cublasLtMatmulPreference_t preference;
  TRY_CUBLAS (gpu, cublasLtMatmulPreferenceCreate, &preference);
  const ScmOutcome outcome = find_algorithm (gpu, matmul, preference);
  gpu->libraries.cublasLtMatmulPreferenceDestroy (preference);
  return outcome;
}

ScmOutcome
scm_matmul_run (ScmGpu *gpu, const ScmMatmul *matmul, const void *a, const void *b, void *c, cudaStream_t stream)
{
  TRY_CUBLAS (gpu, cublasLtMatmul, gpu->libraries.cublaslt, matmul->desc, &matmul->alpha, a, matmul->a, b, matmul->b,
              &matmul->beta, c, matmul->c, c, matmul->c, &matmul->algo, gpu->workspace, matmul->workspace_bytes, stream);
  return SCM_DONE;
}

void
scm_matmul_clear (ScmGpu *gpu, ScmMatmul *matmul)
{
  if (matmul->a != NULL)
    gpu->libraries.cublasLtMatrixLayoutDestroy (matmul->a);
  if (matmul->b != NULL)
    gpu->libraries.cublasLtMatrixLayoutDestroy (matmul->b);
  if (matmul->c != NULL)
    gpu->libraries.cublasLtMatrixLayoutDestroy (matmul->c);
  if (matmul->desc != NULL)
    gpu->libraries.cublasLtMatmulDescDestroy (matmul->desc);
  *matmul = (ScmMatmul){ 0 };
}

ScmOutcome
scm_load_init (ScmGpu *gpu, ScmLoad *load, const char *dtype, const char *layout, const char *out_dtype, int64_t m,
               int64_t n, int64_t k, int64_t batch, bool accumulate)
{
  *load = (ScmLoad){ 0 };
  SCM_TRY (scm_matmul_init (gpu, &load->matmul, dtype, layout, out_dtype, m, n, k, batch, accumulate));
  const ScmMatmul *matmul = &load->matmul;
  load->set_bytes = SCM_ALIGN (matmul->a_bytes) + SCM_ALIGN (matmul->b_bytes) + SCM_ALIGN (matmul->c_bytes);
  load->n_sets = scm_rotation (gpu, load->set_bytes);
  SCM_TRY (scm_pool (gpu, load->set_bytes * (size_t) load->n_sets, &load->pool));
  for (int i = 0; i < load->n_sets; i++)
    {
      char *a = load->pool + load->set_bytes * (size_t) i, *b = a + SCM_ALIGN (matmul->a_bytes);
      char *c = b + SCM_ALIGN (matmul->b_bytes);
      SCM_TRY (scm_fill (gpu, a, dtype, matmul->a_elements, 0.5f));
      SCM_TRY (scm_fill (gpu, b, dtype, matmul->b_elements, 0.5f));
      SCM_TRY (scm_fill (gpu, c, out_dtype, matmul->c_elements, 0.5f));
    }
  return SCM_DONE;
}

ScmOutcome
scm_load_issue (ScmGpu *gpu, void *data, int i)
{
  const ScmLoad *load = data;
  char *a = load->pool + load->set_bytes * (size_t) (i % load->n_sets);
  char *b = a + SCM_ALIGN (load->matmul.a_bytes), *c = b + SCM_ALIGN (load->matmul.b_bytes);
  return scm_matmul_run (gpu, &load->matmul, a, b, c, gpu->stream);
}

void
scm_load_clear (ScmGpu *gpu, ScmLoad *load)
{
  scm_matmul_clear (gpu, &load->matmul);
}

ScmOutcome
scm_run_gemm (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  ScmLoad load;
  ScmOutcome outcome = scm_load_init (gpu, &load, item->dtype, item->layout, item->out_dtype, item->m, item->n, item->k,
                                      item->batch, item->accumulate);
  if (outcome == SCM_DONE)
    outcome = scm_time (gpu, scm_load_issue, &load, SCM_USUAL_S, result);
  scm_load_clear (gpu, &load);
  return outcome;
}

/* --- grouped --- */

typedef struct
{
  ScmMatmul expert[SCM_MAX_EXPERTS];
  char *a[SCM_MAX_EXPERTS], *b[SCM_MAX_EXPERTS], *c[SCM_MAX_EXPERTS]; /* in the first set */
  int n;
  size_t set_bytes;
  int n_sets;
} Group;

static ScmOutcome
issue_group (ScmGpu *gpu, void *data, int i)
{
  const Group *group = data;
  const size_t offset = group->set_bytes * (size_t) (i % group->n_sets);
  for (int e = 0; e < group->n; e++)
    SCM_TRY (scm_matmul_run (gpu, &group->expert[e], group->a[e] + offset, group->b[e] + offset, group->c[e] + offset,
                             gpu->stream));
  return SCM_DONE;
}

static ScmOutcome
run_group (ScmGpu *gpu, Group *group, const ScmItem *item, ScmResult *result)
{
  char *pool;
  group->n = item->n_rows;
  for (int e = 0; e < group->n; e++)
    {
      ScmMatmul *matmul = &group->expert[e];
      SCM_TRY (scm_matmul_init (gpu, matmul, item->dtype, item->layout, item->out_dtype, item->rows[e], item->n, item->k, 1,
                                item->accumulate));
      group->set_bytes += SCM_ALIGN (matmul->a_bytes) + SCM_ALIGN (matmul->b_bytes) + SCM_ALIGN (matmul->c_bytes);
    }
  group->n_sets = scm_rotation (gpu, group->set_bytes);
  SCM_TRY (scm_pool (gpu, group->set_bytes * (size_t) group->n_sets, &pool));
  for (int e = 0; e < group->n; e++)
    {
      const ScmMatmul *matmul = &group->expert[e];
      group->a[e] = pool;
      group->b[e] = group->a[e] + SCM_ALIGN (matmul->a_bytes);
      group->c[e] = group->b[e] + SCM_ALIGN (matmul->b_bytes);
      pool = group->c[e] + SCM_ALIGN (matmul->c_bytes);
      for (int set = 0; set < group->n_sets; set++)
        {
          SCM_TRY (scm_fill (gpu, group->a[e] + group->set_bytes * (size_t) set, item->dtype, matmul->a_elements, 0.5f));
          SCM_TRY (scm_fill (gpu, group->b[e] + group->set_bytes * (size_t) set, item->dtype, matmul->b_elements, 0.5f));
        }
    }
  return scm_time (gpu, issue_group, group, SCM_USUAL_S, result);
}

ScmOutcome
scm_run_grouped_gemm (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  static Group group; /* too large for the stack */
  group = (Group){ 0 };
  const ScmOutcome outcome = run_group (gpu, &group, item, result);
  for (int e = 0; e < group.n; e++)
    scm_matmul_clear (gpu, &group.expert[e]);
  return outcome;
}
