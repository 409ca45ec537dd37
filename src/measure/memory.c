/* SPDX-License-Identifier: MIT */
/* memory.c - memory-bound operations: their operands, and the timing. */
#include "measure/gpu.h"

/* Bytes of each tensor of one set, as kernels.cu takes them.  A table is the same for all sets. */
typedef struct
{
  size_t in[5], out[4];
  bool table_in, table_out; /* in[0], out[0] */
  const char *in_dtype[5];
  int64_t index_n, index_below; /* 0: no index */
  int permutation;
  size_t scratch;
} Layout;

typedef struct
{
  cudaError_t (*launch) (const ScmTensors *, cudaStream_t);
  Layout layout;
  ScmTensors first; /* of set 0 */
  size_t set_bytes;
  int n_sets;
} Memory;

static Layout
lay_out (const ScmItem *item, int sms)
{
  int64_t e = 1;
  for (int i = 0; i < item->n_shape; i++)
    e *= item->shape[i];
  const size_t n = (size_t) e, rows = (size_t) item->shape[0], columns = (size_t) item->shape[1];
  Layout l = { .in_dtype = { "bf16", "bf16", "bf16", "fp32", "fp32" } };
  switch (item->memory_op)
    {
    case SCM_OP_copy:
    case SCM_OP_gelu_fwd:
    case SCM_OP_softmax_fwd:
      l.in[0] = l.out[0] = 2 * n;
      break;
    case SCM_OP_add:
    case SCM_OP_gelu_bwd:
    case SCM_OP_softmax_bwd:
      l.in[0] = l.in[1] = l.out[0] = 2 * n;
      break;
    case SCM_OP_residual_dropout:
      l.in[0] = l.in[1] = l.out[0] = 2 * n;
      l.out[1] = n;
      break;
    case SCM_OP_swiglu_fwd:
      l.in[0] = 4 * n;
      l.out[0] = 2 * n;
      break;
    case SCM_OP_swiglu_bwd:
      l.in[0] = l.out[0] = 4 * n;
      l.in[1] = 2 * n;
      break;
    case SCM_OP_rmsnorm_fwd:
    case SCM_OP_layernorm_fwd:
      l.in[0] = l.out[0] = 2 * n;
      l.in[1] = l.in[2] = 2 * columns;
      l.out[1] = 8 * rows;
      break;
    case SCM_OP_rmsnorm_bwd:
    case SCM_OP_layernorm_bwd:
      l.in[0] = l.in[1] = l.out[0] = 2 * n;
      l.in[2] = 2 * columns;
      l.in[3] = 8 * rows;
      l.out[1] = 8 * columns;
      l.scratch = (size_t) sms * SCM_NORM_BLOCKS * 8 * columns;
      break;
    case SCM_OP_rope:
      l.in[0] = l.out[0] = 2 * n;
      l.in[1] = rows * (size_t) item->shape[2] * 4;
      l.in_dtype[1] = "fp32";
      break;
    case SCM_OP_cross_entropy:
      l.in[0] = l.out[0] = 2 * n;
      l.out[1] = 4 * rows;
      l.index_n = item->shape[0];
      l.index_below = item->shape[1];
      break;
    case SCM_OP_embedding_fwd:
      l.in[0] = 2 * SCM_VOCABULARY * columns;
      l.table_in = true;
      l.out[0] = 2 * n;
      l.index_n = item->shape[0];
      l.index_below = SCM_VOCABULARY;
      break;
    case SCM_OP_embedding_bwd:
      l.in[0] = 2 * n;
      l.out[0] = 4 * SCM_VOCABULARY * columns;
      l.table_out = true;
      l.index_n = item->shape[0];
      l.index_below = SCM_VOCABULARY;
      break;
    case SCM_OP_permute:
      l.in[0] = l.out[0] = 2 * n;
      l.index_n = item->shape[0];
      l.index_below = item->shape[0];
      l.permutation = 1;
      break;
    case SCM_OP_cast:
      l.in[0] = 4 * n;
      l.in_dtype[0] = "fp32";
      l.out[0] = 2 * n;
      break;
    case SCM_OP_fp8_quantise:
      l.in[0] = 2 * n;
      l.out[0] = n;
      l.scratch = 512;
      break;
    case SCM_OP_adam:
      l.in[0] = 4 * n;
      l.in_dtype[0] = "fp32";
      l.out[0] = l.out[1] = l.out[2] = 4 * n;
      l.out[3] = 2 * n;
      break;
    case SCM_OP_grad_norm:
      l.in[0] = 4 * n;
      l.in_dtype[0] = "fp32";
      l.scratch = 512;
      break;
    case SCM_N_OPS:
    default:
      break;
    }
  return l;
}

#define MOVE(pointer) ((pointer) == NULL ? NULL : (void *) ((char *) (pointer) + offset))

static ScmOutcome
issue (ScmGpu *gpu, void *data, int i)
{
  const Memory *memory = data;
  const size_t offset = memory->set_bytes * (size_t) (i % memory->n_sets);
  ScmTensors t = memory->first;
  for (int j = memory->layout.table_in ? 1 : 0; j < 5; j++)
    t.in[j] = MOVE (t.in[j]);
  for (int j = memory->layout.table_out ? 1 : 0; j < 4; j++)
    t.out[j] = MOVE (t.out[j]);
  if (t.index != NULL)
    t.index = (const int *) ((const char *) t.index + offset);
  SCM_TRY (scm_check_cuda (gpu, memory->launch (&t, gpu->stream), "kernel"));
  return SCM_DONE;
}

/* The next @bytes of the set, or NULL for none. */
static void *
place (char *base, size_t *at, size_t bytes)
{
  if (bytes == 0)
    return NULL;
  void *here = base + *at;
  *at += SCM_ALIGN (bytes);
  return here;
}

static cudaError_t (*const launchers[SCM_N_OPS]) (const ScmTensors *, cudaStream_t) = {
#define ROW(name, family, dtype, element, row, column) scm_op_##name,
  SCM_MEMORY_OPS (ROW)
#undef ROW
};

/* Set @s at @base; a table at @table, filled with the first set. */
static ScmOutcome
make_set (ScmGpu *gpu, const ScmItem *item, const Layout *l, char *base, char *table, int s, ScmTensors *ret_tensors)
{
  ScmTensors t = { .sms = gpu->sms };
  size_t at = 0, at_table = 0;
  for (int i = 0; i < item->n_shape; i++)
    t.shape[i] = item->shape[i];
  for (int i = 0; i < 5; i++)
    {
      const bool is_table = i == 0 && l->table_in, wide = l->in_dtype[i][0] == 'f';
      t.in[i] = is_table ? place (table, &at_table, l->in[i]) : place (base, &at, l->in[i]);
      if (t.in[i] != NULL && (s == 0 || !is_table))
        SCM_TRY (scm_fill (gpu, t.in[i], l->in_dtype[i], (int64_t) (l->in[i] / (wide ? 4 : 2)), 1));
    }
  for (int i = 0; i < 4; i++)
    {
      /* adam reads what it writes; elsewhere it does no harm. */
      const bool is_table = i == 0 && l->table_out;
      t.out[i] = is_table ? place (table, &at_table, l->out[i]) : place (base, &at, l->out[i]);
      if (t.out[i] != NULL && (s == 0 || !is_table))
        SCM_TRY (scm_fill (gpu, t.out[i], "fp32", (int64_t) (l->out[i] / 4), 0.1f));
    }
  int *index = place (base, &at, 4 * (size_t) l->index_n);
  t.index = index;
  if (index != NULL)
    SCM_TRY_CUDA (gpu, scm_fill_indices (index, l->index_n, l->index_below, l->permutation, (unsigned) s, gpu->stream));
  *ret_tensors = t;
  return SCM_DONE;
}

ScmOutcome
scm_run_memory (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  Memory memory = { .launch = launchers[item->memory_op], .layout = lay_out (item, gpu->sms) };
  const Layout *l = &memory.layout;
  /* The kernel has a little of its own besides. */
  const size_t shared = scm_op_shared (item->memory_op, item->shape);
  if (shared > 0 && shared + 512 > gpu->shared_bytes)
    return scm_say (gpu, SCM_SKIPPED, "a block needs %zu KiB of shared memory, this GPU has %zu KiB", shared / 1024,
                    gpu->shared_bytes / 1024);
  size_t set = SCM_ALIGN (4 * (size_t) l->index_n), table = 0;
  for (int i = 0; i < 5; i++)
    *(i == 0 && l->table_in ? &table : &set) += SCM_ALIGN (l->in[i]);
  for (int i = 0; i < 4; i++)
    *(i == 0 && l->table_out ? &table : &set) += SCM_ALIGN (l->out[i]);
  /* Of a table only the rows that are touched count, others in every set. */
  memory.set_bytes = set;
  memory.n_sets = scm_rotation (gpu, (size_t) item->bytes < set || table > 0 ? (size_t) item->bytes : set);

  char *pool;
  const size_t all = set * (size_t) memory.n_sets;
  SCM_TRY (scm_pool (gpu, all + table + SCM_ALIGN (l->scratch), &pool));
  /* In the order of use: what is filled last is in L2 still, and used last. */
  for (int s = 0; s < memory.n_sets; s++)
    {
      ScmTensors t;
      SCM_TRY (make_set (gpu, item, l, pool + set * (size_t) s, pool + all, s, &t));
      if (s == 0)
        memory.first = t;
    }
  if (l->scratch > 0)
    {
      memory.first.scratch = (float *) (void *) (pool + all + table);
      SCM_TRY_CUDA (gpu, cudaMemsetAsync (memory.first.scratch, 0, l->scratch, gpu->stream));
    }
  return scm_time (gpu, issue, &memory, SCM_USUAL_S, result);
}
