/* SPDX-License-Identifier: MIT */
/* memory.c - memory-bound operations: their operands, and the timing. */
#include "measure/gpu.h"

/* Bytes of each tensor of one set, as kernels.cu takes them. */
typedef struct
{
  size_t in[5], out[4];
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
      l.out[0] = 2 * n;
      l.index_n = item->shape[0];
      l.index_below = SCM_VOCABULARY;
      break;
    case SCM_OP_embedding_bwd:
      l.in[0] = 2 * n;
      l.out[0] = 4 * SCM_VOCABULARY * columns;
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
  for (int j = 0; j < 5; j++)
    t.in[j] = MOVE (t.in[j]);
  for (int j = 0; j < 4; j++)
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

ScmOutcome
scm_run_memory (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  Memory memory = { .launch = launchers[item->memory_op], .layout = lay_out (item, gpu->sms) };
  const Layout *l = &memory.layout;
  /* Tables count by the rows that are touched: the set must be larger than L2 by those alone. */
  size_t index_bytes = 4 * (size_t) l->index_n, set = SCM_ALIGN (index_bytes);
  for (int i = 0; i < 5; i++)
    set += SCM_ALIGN (l->in[i]);
  for (int i = 0; i < 4; i++)
    set += SCM_ALIGN (l->out[i]);
  memory.set_bytes = set;
  memory.n_sets = scm_rotation (gpu, (size_t) item->bytes < set ? (size_t) item->bytes : set);
  const bool table = item->memory_op == SCM_OP_embedding_fwd || item->memory_op == SCM_OP_embedding_bwd;
  if (table) /* one is a gigabyte or so, and its rows are random */
    memory.n_sets = scm_rotation (gpu, set);

  char *pool;
  SCM_TRY (scm_pool (gpu, set * (size_t) memory.n_sets + SCM_ALIGN (l->scratch), &pool));
  for (int s = memory.n_sets - 1; s >= 0; s--)
    {
      char *base = pool + set * (size_t) s;
      size_t at = 0;
      ScmTensors *t = &memory.first;
      *t = (ScmTensors){ .sms = gpu->sms };
      for (int i = 0; i < item->n_shape; i++)
        t->shape[i] = item->shape[i];
      for (int i = 0; i < 5; i++)
        {
          t->in[i] = place (base, &at, l->in[i]);
          const bool wide = l->in_dtype[i][0] == 'f';
          if (t->in[i] != NULL)
            SCM_TRY (scm_fill (gpu, t->in[i], l->in_dtype[i], (int64_t) (l->in[i] / (wide ? 4 : 2)), 1));
        }
      for (int i = 0; i < 4; i++)
        {
          /* adam reads what it writes; elsewhere it does no harm. */
          t->out[i] = place (base, &at, l->out[i]);
          if (t->out[i] != NULL)
            SCM_TRY (scm_fill (gpu, t->out[i], "fp32", (int64_t) (l->out[i] / 4), 0.1f));
        }
      int *index = place (base, &at, index_bytes);
      t->index = index;
      if (index != NULL)
        SCM_TRY_CUDA (gpu, scm_fill_indices (index, l->index_n, l->index_below, l->permutation, (unsigned) s, gpu->stream));
    }
  if (l->scratch > 0)
    {
      memory.first.scratch = (float *) (void *) (pool + set * (size_t) memory.n_sets);
      SCM_TRY_CUDA (gpu, cudaMemsetAsync (memory.first.scratch, 0, l->scratch, gpu->stream));
    }
  return scm_time (gpu, issue, &memory, SCM_USUAL_S, result);
}
