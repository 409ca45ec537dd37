/* SPDX-License-Identifier: MIT */
/* sdpa.c - the operation graphs of fused attention.  All tensors are [batch, heads, length, head_dim]; in memory the heads of
 * a token lie together, as projections leave them.  Once a call fails, the rest does nothing. */
#include "measure/sdpa.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef cudnnBackendDescriptor_t Descriptor;

static bool
check (ScmSdpa *g, cudnnStatus_t status, const char *what)
{
  if (status != 0 && g->failed_at == NULL)
    {
      g->failed = status;
      g->failed_at = what;
    }
  return g->failed_at == NULL;
}

static Descriptor
create (ScmSdpa *g, int type, const char *what)
{
  Descriptor d = NULL;
  if (g->failed_at != NULL)
    return NULL;
  if (g->n_all == SCM_SDPA_MAX_DESCRIPTORS)
    {
      check (g, -1, "too many descriptors");
      return NULL;
    }
  if (check (g, g->l->cudnnBackendCreateDescriptor (type, &d), what))
    g->all[g->n_all++] = d;
  return d;
}

static void
set (ScmSdpa *g, Descriptor d, int attribute, int type, int64_t n, const void *elements, const char *what)
{
  if (g->failed_at == NULL)
    check (g, g->l->cudnnBackendSetAttribute (d, attribute, type, n, elements), what);
}

static void
set_descriptor (ScmSdpa *g, Descriptor d, int attribute, Descriptor value, const char *what)
{
  set (g, d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

static void
finalize (ScmSdpa *g, Descriptor d, const char *what)
{
  if (g->failed_at == NULL)
    check (g, g->l->cudnnBackendFinalize (d), what);
}

/* --- tensors --- */

typedef struct
{
  int64_t size[4], stride[4];
} Shape;

/* Packed in that order. */
static Shape
packed (int64_t a, int64_t b, int64_t c, int64_t d)
{
  return (Shape){ { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}

/* [batch, heads, length, dim] with the heads of a token together. */
static Shape
tokens (int64_t batch, int64_t heads, int64_t length, int64_t dim)
{
  return (Shape){ { batch, heads, length, dim }, { length * heads * dim, dim, heads * dim, 1 } };
}

static Shape
transposed (Shape shape)
{
  return (Shape){ { shape.size[0], shape.size[1], shape.size[3], shape.size[2] },
                  { shape.stride[0], shape.stride[1], shape.stride[3], shape.stride[2] } };
}

typedef enum
{
  REAL,
  VIRTUAL,
  BY_VALUE,
} Kind;

static Descriptor
tensor (ScmSdpa *g, int type, Shape shape, Kind kind, int64_t *ret_uid)
{
  const int64_t uid = ++g->next_uid, alignment = 16;
  const bool is_virtual = kind == VIRTUAL, by_value = kind == BY_VALUE;
  Descriptor d = create (g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  set (g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "type of a tensor");
  set (g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.size, "dimensions of a tensor");
  set (g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.stride, "strides of a tensor");
  set (g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid, "id of a tensor");
  set (g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "alignment of a tensor");
  set (g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, "a tensor's being virtual");
  if (by_value)
    set (g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, "a tensor's being by value");
  finalize (g, d, "a tensor");
  if (ret_uid != NULL)
    *ret_uid = uid;
  return d;
}

static Descriptor
real (ScmSdpa *g, ScmSdpaTensor which, int type, Shape shape)
{
  const int64_t elements = shape.size[0] * shape.size[1] * shape.size[2] * shape.size[3];
  g->bytes[which] = (size_t) elements * (type == CUDNN_DATA_FLOAT ? 4 : 2);
  return tensor (g, type, shape, REAL, &g->uid[which]);
}

static Descriptor
temporary (ScmSdpa *g, int type, Shape shape)
{
  return tensor (g, type, shape, VIRTUAL, NULL);
}

static Descriptor
by_value (ScmSdpa *g, int64_t *ret_uid)
{
  return tensor (g, CUDNN_DATA_FLOAT, packed (1, 1, 1, 1), BY_VALUE, ret_uid);
}

/* --- operations; each returns its output --- */

static void
add_operation (ScmSdpa *g, Descriptor operation, const char *what)
{
  finalize (g, operation, what);
  if (g->failed_at == NULL)
    g->operations[g->n_operations++] = operation;
}

static Descriptor
pointwise (ScmSdpa *g, int mode, int math, int64_t axis, Descriptor x, Descriptor b, Descriptor t, Descriptor y)
{
  Descriptor how = create (g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
  set (g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, "pointwise mode");
  set (g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math, "pointwise precision");
  if (axis >= 0)
    set (g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, "pointwise axis");
  finalize (g, how, "pointwise");
  Descriptor op = create (g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise operation");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how, "pointwise how");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, "pointwise x");
  if (b != NULL)
    set_descriptor (g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, "pointwise b");
  if (t != NULL)
    set_descriptor (g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t, "pointwise t");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, "pointwise y");
  add_operation (g, op, "pointwise operation");
  return y;
}

static Descriptor
pointwise_float (ScmSdpa *g, int mode, Descriptor x, Descriptor b, Descriptor y)
{
  return pointwise (g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static Descriptor
reduce (ScmSdpa *g, int operator_type, Descriptor x, Descriptor y)
{
  const int math = CUDNN_DATA_FLOAT;
  Descriptor how = create (g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
  set (g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator_type, "reduction operator");
  set (g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, "reduction precision");
  finalize (g, how, "reduction");
  Descriptor op = create (g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction operation");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, "reduction x");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, "reduction y");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how, "reduction how");
  add_operation (g, op, "reduction operation");
  return y;
}

static Descriptor
matmul (ScmSdpa *g, Descriptor a, Descriptor b, Descriptor c)
{
  const int math = CUDNN_DATA_FLOAT;
  Descriptor how = create (g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul");
  set (g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math, "matmul precision");
  finalize (g, how, "matmul");
  Descriptor op = create (g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul operation");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, "matmul a");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, "matmul b");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, "matmul c");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how, "matmul how");
  add_operation (g, op, "matmul operation");
  return c;
}

static Descriptor
reshape (ScmSdpa *g, Descriptor x, Descriptor y)
{
  Descriptor op = create (g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape operation");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, "reshape x");
  set_descriptor (g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, "reshape y");
  add_operation (g, op, "reshape operation");
  return y;
}

/* Scores where the row is not before the column, the least float elsewhere. */
static Descriptor
mask (ScmSdpa *g, Descriptor scores, Shape shape)
{
  Descriptor row = pointwise (g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2, scores, NULL, NULL,
                              temporary (g, CUDNN_DATA_INT32, shape));
  Descriptor column = pointwise (g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 3, scores, NULL, NULL,
                                 temporary (g, CUDNN_DATA_INT32, shape));
  Descriptor seen = pointwise (g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, column, NULL,
                               temporary (g, CUDNN_DATA_BOOLEAN, shape));
  return pointwise (g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores, by_value (g, &g->lowest_uid), seen,
                    temporary (g, CUDNN_DATA_FLOAT, shape));
}

static void
forward (ScmSdpa *g)
{
  const ScmSdpaShape *s = &g->shape;
  const int half = s->fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16, full = CUDNN_DATA_FLOAT;
  const Shape q_shape = tokens (s->batch, s->heads, s->seqlen, s->head_dim);
  const Shape kv_shape = tokens (s->batch, s->kv_heads, s->seqlen, s->head_dim);
  const Shape scores = packed (s->batch, s->heads, s->seqlen, s->seqlen);
  const Shape rows = packed (s->batch, s->heads, s->seqlen, 1);
  Descriptor q = real (g, SCM_SDPA_Q, half, q_shape);
  Descriptor k = real (g, SCM_SDPA_K, half, transposed (kv_shape));
  Descriptor v = real (g, SCM_SDPA_V, half, kv_shape);
  Descriptor o = real (g, SCM_SDPA_O, half, q_shape);
  Descriptor stats = real (g, SCM_SDPA_STATS, full, rows);

  Descriptor x = matmul (g, q, k, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_MUL, x, by_value (g, &g->scale_uid), temporary (g, full, scores));
  if (s->causal)
    x = mask (g, x, scores);
  Descriptor largest = reduce (g, CUDNN_REDUCE_TENSOR_MAX, x, temporary (g, full, rows));
  x = pointwise_float (g, CUDNN_POINTWISE_SUB, x, largest, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_EXP, x, NULL, temporary (g, full, scores));
  Descriptor sum = reduce (g, CUDNN_REDUCE_TENSOR_ADD, x, temporary (g, full, rows));
  Descriptor log_sum = pointwise_float (g, CUDNN_POINTWISE_LOG, sum, NULL, temporary (g, full, rows));
  pointwise_float (g, CUDNN_POINTWISE_ADD, largest, log_sum, stats);
  x = pointwise_float (g, CUDNN_POINTWISE_DIV, x, sum, temporary (g, half, scores));
  matmul (g, x, v, o);
}

static void
backward (ScmSdpa *g)
{
  const ScmSdpaShape *s = &g->shape;
  const int half = s->fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16, full = CUDNN_DATA_FLOAT;
  const Shape q_shape = tokens (s->batch, s->heads, s->seqlen, s->head_dim);
  const Shape kv_shape = tokens (s->batch, s->kv_heads, s->seqlen, s->head_dim);
  const Shape scores = packed (s->batch, s->heads, s->seqlen, s->seqlen);
  const Shape turned = { { s->batch, s->heads, s->seqlen, s->seqlen },
                         { s->heads * s->seqlen * s->seqlen, s->seqlen * s->seqlen, 1, s->seqlen } };
  const Shape rows = packed (s->batch, s->heads, s->seqlen, 1);
  const Shape all_heads = packed (s->batch, s->heads, s->seqlen, s->head_dim);
  Descriptor q = real (g, SCM_SDPA_Q, half, q_shape);
  Descriptor k = real (g, SCM_SDPA_K, half, transposed (kv_shape));
  Descriptor v = real (g, SCM_SDPA_V, half, transposed (kv_shape));
  Descriptor o = real (g, SCM_SDPA_O, half, q_shape);
  Descriptor stats = real (g, SCM_SDPA_STATS, full, rows);
  Descriptor d_o = real (g, SCM_SDPA_D_O, half, q_shape);
  Descriptor d_q = real (g, SCM_SDPA_D_Q, half, q_shape);
  Descriptor d_k = real (g, SCM_SDPA_D_K, half, kv_shape);
  Descriptor d_v = real (g, SCM_SDPA_D_V, half, kv_shape);
  Descriptor d_q_sum = real (g, SCM_SDPA_D_Q_SUM, full, all_heads);
  Descriptor row_sum = real (g, SCM_SDPA_ROW_SUM, full, rows);
  Descriptor scale = by_value (g, &g->scale_uid);
  const bool grouped = s->heads != s->kv_heads;

  /* Sums of dO * O by row. */
  Descriptor x = pointwise_float (g, CUDNN_POINTWISE_MUL, d_o, o, temporary (g, full, q_shape));
  x = reduce (g, CUDNN_REDUCE_TENSOR_ADD, x, temporary (g, full, rows));
  pointwise_float (g, CUDNN_POINTWISE_MUL, x, by_value (g, &g->one_uid), row_sum);

  /* The probabilities again, and dV. */
  x = matmul (g, q, k, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_MUL, x, scale, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_SUB, x, stats, temporary (g, full, scores));
  if (s->causal)
    x = mask (g, x, scores);
  Descriptor p = pointwise_float (g, CUDNN_POINTWISE_EXP, x, NULL, temporary (g, full, scores));
  x = reshape (g, p, temporary (g, half, turned));
  if (grouped)
    reduce (g, CUDNN_REDUCE_TENSOR_ADD, matmul (g, x, d_o, temporary (g, half, all_heads)), d_v);
  else
    matmul (g, x, d_o, d_v);

  /* dS, dK. */
  x = matmul (g, d_o, v, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_SUB, x, row_sum, temporary (g, full, scores));
  x = pointwise_float (g, CUDNN_POINTWISE_MUL, x, p, temporary (g, full, scores));
  Descriptor d_s = pointwise_float (g, CUDNN_POINTWISE_MUL, x, scale, temporary (g, half, scores));
  x = reshape (g, d_s, temporary (g, half, turned));
  if (grouped)
    reduce (g, CUDNN_REDUCE_TENSOR_ADD, matmul (g, x, q, temporary (g, half, all_heads)), d_k);
  else
    matmul (g, x, q, d_k);

  /* dQ, summed in fp32. */
  matmul (g, d_s, reshape (g, k, temporary (g, half, kv_shape)), d_q_sum);
  pointwise_float (g, CUDNN_POINTWISE_IDENTITY, d_q_sum, NULL, d_q);
}

/* --- a plan --- */

#define N_CONFIGS 8

/* The first engine of @mode's that takes the graph. */
static bool
find_plan (ScmSdpa *g, cudnnHandle_t handle, Descriptor device, Descriptor graph, int mode)
{
  Descriptor configs[N_CONFIGS];
  int64_t n = 0;
  Descriptor heuristics = create (g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
  set_descriptor (g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, "graph of the heuristics");
  set (g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "mode of the heuristics");
  if (device != NULL)
    set_descriptor (g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device, "device of the heuristics");
  finalize (g, heuristics, "heuristics");
  for (int i = 0; i < N_CONFIGS; i++)
    configs[i] = create (g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine");
  if (g->failed_at == NULL)
    check (g,
           g->l->cudnnBackendGetAttribute (heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, N_CONFIGS,
                                           &n, configs),
           "engines");
  for (int i = 0; i < n && i < N_CONFIGS && g->failed_at == NULL; i++)
    {
      Descriptor plan = create (g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan");
      if (device != NULL)
        set_descriptor (g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device, "device of a plan");
      else
        set (g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, "handle of a plan");
      set_descriptor (g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i], "engine of a plan");
      finalize (g, plan, "a plan");
      if (g->failed_at == NULL)
        {
          g->plan = plan;
          check (g,
                 g->l->cudnnBackendGetAttribute (plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, NULL,
                                                 &g->workspace_bytes),
                 "workspace of a plan");
          return g->failed_at == NULL;
        }
      if (i + 1 < n && i + 1 < N_CONFIGS)
        g->failed_at = NULL; /* the next one may do */
    }
  return false;
}

bool
scm_sdpa_build (ScmSdpa *g, const ScmLibraries *l, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                const ScmSdpaShape *shape)
{
  *g = (ScmSdpa){ .l = l, .shape = *shape, .lowest = -FLT_MAX, .one = 1 };
  g->scale = (float) (1 / sqrt ((double) shape->head_dim));
  if (shape->backward)
    backward (g);
  else
    forward (g);
  Descriptor graph = create (g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph");
  if (handle != NULL)
    set (g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, "handle of the graph");
  set (g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations, g->operations,
       "operations of the graph");
  finalize (g, graph, "operation graph");
  if (g->failed_at != NULL)
    return false;
  if (find_plan (g, handle, device, graph, CUDNN_HEUR_MODE_A))
    return true;
  g->failed_at = NULL;
  if (find_plan (g, handle, device, graph, CUDNN_HEUR_MODE_FALLBACK))
    return true;
  check (g, -1, "no engine takes the graph");
  return false;
}

cudnnBackendDescriptor_t
scm_sdpa_pack (ScmSdpa *g, void *const tensors[SCM_SDPA_N_TENSORS], void *workspace)
{
  int64_t uids[SCM_SDPA_N_TENSORS + 3];
  void *pointers[SCM_SDPA_N_TENSORS + 3];
  int64_t n = 0;
  for (int i = 0; i < SCM_SDPA_N_TENSORS; i++)
    if (g->uid[i] != 0)
      {
        uids[n] = g->uid[i];
        pointers[n++] = tensors[i];
      }
  const int64_t value_uids[] = { g->scale_uid, g->lowest_uid, g->one_uid };
  float *const values[] = { &g->scale, &g->lowest, &g->one };
  for (int i = 0; i < 3; i++)
    if (value_uids[i] != 0)
      {
        uids[n] = value_uids[i];
        pointers[n++] = values[i];
      }
  Descriptor pack = create (g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "pointers");
  set (g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids, "ids of pointers");
  set (g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers, "pointers");
  set (g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, "workspace");
  finalize (g, pack, "pointers");
  return g->failed_at == NULL ? pack : NULL;
}

void
scm_sdpa_clear (ScmSdpa *g)
{
  for (int i = g->n_all; i-- > 0;)
    g->l->cudnnBackendDestroyDescriptor (g->all[i]);
  *g = (ScmSdpa){ 0 };
}
