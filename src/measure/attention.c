/* SPDX-License-Identifier: MIT */
/* attention.c - fused by cuDNN, and unfused: products of heads with our softmax between them. */
#include "measure/gpu.h"
#include "measure/sdpa.h"
#include <math.h>
#include <string.h>

/* --- cuDNN --- */

#define MAX_SETS 16

typedef struct
{
  ScmSdpa sdpa;
  ScmSdpa forward; /* makes the output and the statistics that backward needs */
  cudnnBackendDescriptor_t pack[MAX_SETS];
  void *d_q_sum[MAX_SETS];
  size_t cleared_bytes; /* of d_q_sum, before each execution */
  int n_sets;
} Fused;

static ScmOutcome
check_cudnn (ScmGpu *gpu, cudnnStatus_t status, const char *what)
{
  return status == 0 ? SCM_DONE
                     : scm_say (gpu, SCM_FAILED, "cuDNN, %s: %s (%d)", what, gpu->libraries.cudnnGetErrorString (status), status);
}

static ScmOutcome
issue_fused (ScmGpu *gpu, void *data, int i)
{
  const Fused *fused = data;
  const int set = i % fused->n_sets;
  if (fused->cleared_bytes > 0)
    SCM_TRY_CUDA (gpu, cudaMemsetAsync (fused->d_q_sum[set], 0, fused->cleared_bytes, gpu->stream));
  return check_cudnn (gpu, gpu->libraries.cudnnBackendExecute (gpu->libraries.cudnn, fused->sdpa.plan, fused->pack[set]),
                      "execution");
}

static ScmOutcome
build_failed (ScmGpu *gpu, const ScmSdpa *sdpa)
{
  return scm_say (gpu, SCM_FAILED, "cuDNN, %s: %s (%d)", sdpa->failed_at,
                  sdpa->failed > 0 ? gpu->libraries.cudnnGetErrorString (sdpa->failed) : "not supported", sdpa->failed);
}

/* Forward once over @tensors, so that what backward reads belongs together: from statistics that are made up the
 * probabilities overflow. */
static ScmOutcome
run_forward (ScmGpu *gpu, Fused *fused, void *const tensors[SCM_SDPA_N_TENSORS], void *workspace)
{
  const cudnnBackendDescriptor_t pack = scm_sdpa_pack (&fused->forward, tensors, workspace);
  if (pack == NULL)
    return build_failed (gpu, &fused->forward);
  return check_cudnn (gpu, gpu->libraries.cudnnBackendExecute (gpu->libraries.cudnn, fused->forward.plan, pack),
                      "execution of forward");
}

static ScmOutcome
run_fused (ScmGpu *gpu, const ScmItem *item, Fused *fused, ScmResult *result)
{
  const ScmSdpaShape shape = { .backward = strcmp (item->op, "bwd") == 0,
                               .causal = item->causal,
                               .fp16 = strcmp (item->dtype, "fp16") == 0,
                               .batch = item->batch,
                               .seqlen = item->seqlen,
                               .heads = item->heads,
                               .kv_heads = item->kv_heads,
                               .head_dim = item->head_dim };
  ScmSdpa *sdpa = &fused->sdpa;
  if ((gpu->libraries.found & SCM_CUDNN) == 0)
    return scm_say (gpu, SCM_SKIPPED, "cuDNN is missing");
  if (!scm_sdpa_build (sdpa, &gpu->libraries, gpu->libraries.cudnn, NULL, &shape))
    return build_failed (gpu, sdpa);
  if (shape.backward)
    {
      ScmSdpaShape forward = shape;
      forward.backward = false;
      if (!scm_sdpa_build (&fused->forward, &gpu->libraries, gpu->libraries.cudnn, NULL, &forward))
        return build_failed (gpu, &fused->forward);
      /* Before 9.6 frameworks clear it, and the kernel adds to it; since then cuDNN does. */
      if (gpu->libraries.cudnnGetVersion () < 90600)
        fused->cleared_bytes = sdpa->bytes[SCM_SDPA_D_Q_SUM];
    }

  size_t set = 0;
  char *pool;
  for (int t = 0; t < SCM_SDPA_N_TENSORS; t++)
    set += SCM_ALIGN (sdpa->bytes[t]);
  fused->n_sets = scm_rotation (gpu, set);
  if (fused->n_sets > MAX_SETS)
    fused->n_sets = MAX_SETS;
  const int64_t wanted
      = sdpa->workspace_bytes > fused->forward.workspace_bytes ? sdpa->workspace_bytes : fused->forward.workspace_bytes;
  const size_t workspace = SCM_ALIGN ((size_t) wanted + 1);
  SCM_TRY (scm_pool (gpu, set * (size_t) fused->n_sets + workspace, &pool));
  for (int s = 0; s < fused->n_sets; s++)
    {
      void *tensors[SCM_SDPA_N_TENSORS] = { NULL };
      char *at = pool + workspace + set * (size_t) s;
      for (int t = 0; t < SCM_SDPA_N_TENSORS; t++)
        {
          if (sdpa->bytes[t] == 0)
            continue;
          tensors[t] = at;
          at += SCM_ALIGN (sdpa->bytes[t]);
          if (t >= SCM_SDPA_D_Q || t == SCM_SDPA_STATS)
            SCM_TRY_CUDA (gpu, cudaMemsetAsync (tensors[t], 0, sdpa->bytes[t], gpu->stream));
          else
            SCM_TRY (scm_fill (gpu, tensors[t], item->dtype, (int64_t) (sdpa->bytes[t] / 2), 1));
        }
      if (shape.backward)
        SCM_TRY (run_forward (gpu, fused, tensors, pool));
      fused->d_q_sum[s] = tensors[SCM_SDPA_D_Q_SUM];
      fused->pack[s] = scm_sdpa_pack (sdpa, tensors, pool);
      if (fused->pack[s] == NULL)
        return build_failed (gpu, sdpa);
    }
  return scm_time (gpu, issue_fused, fused, SCM_USUAL_S, result);
}

/* --- unfused --- */

typedef struct
{
  const ScmItem *item;
  ScmMatmul scores, output, d_v, d_p, d_q, d_k;
  /* of one set; q, k, v, o and their gradients [batch * heads][length][head_dim], p and its gradient [...][length][length] */
  char *q, *k, *v, *o, *d_o, *d_q_at, *d_k_at, *d_v_at;
  char *p, *s, *d_p_at;
} Unfused;

static ScmOutcome
issue_forward (ScmGpu *gpu, void *data, int i)
{
  const Unfused *u = data;
  const ScmItem *item = u->item;
  (void) i; /* the scores alone are larger than L2 */
  SCM_TRY (scm_matmul_run (gpu, &u->scores, u->k, u->q, u->s, gpu->stream));
  SCM_TRY_CUDA (gpu, scm_softmax_fwd (u->s, u->p, item->batch * item->heads * item->seqlen, item->seqlen,
                                      item->causal ? item->seqlen : 0, gpu->stream));
  return scm_matmul_run (gpu, &u->output, u->v, u->p, u->o, gpu->stream);
}

static ScmOutcome
issue_backward (ScmGpu *gpu, void *data, int i)
{
  const Unfused *u = data;
  const ScmItem *item = u->item;
  (void) i;
  SCM_TRY (scm_matmul_run (gpu, &u->d_v, u->d_o, u->p, u->d_v_at, gpu->stream));
  SCM_TRY (scm_matmul_run (gpu, &u->d_p, u->v, u->d_o, u->d_p_at, gpu->stream));
  SCM_TRY_CUDA (gpu, scm_softmax_bwd (u->p, u->d_p_at, u->s, item->batch * item->heads * item->seqlen, item->seqlen,
                                      (float) (1 / sqrt ((double) item->head_dim)), gpu->stream));
  SCM_TRY (scm_matmul_run (gpu, &u->d_q, u->k, u->s, u->d_q_at, gpu->stream));
  return scm_matmul_run (gpu, &u->d_k, u->q, u->s, u->d_k_at, gpu->stream);
}

static ScmOutcome
run_unfused (ScmGpu *gpu, const ScmItem *item, Unfused *u, ScmResult *result)
{
  const int64_t n = item->batch * item->heads, s = item->seqlen, d = item->head_dim;
  SCM_TRY (scm_matmul_init (gpu, &u->scores, item->dtype, "TN", item->dtype, s, s, d, n, false));
  u->scores.alpha = (float) (1 / sqrt ((double) d));
  SCM_TRY (scm_matmul_init (gpu, &u->output, item->dtype, "NN", item->dtype, s, d, s, n, false));
  SCM_TRY (scm_matmul_init (gpu, &u->d_v, item->dtype, "NT", item->dtype, s, d, s, n, false));
  SCM_TRY (scm_matmul_init (gpu, &u->d_p, item->dtype, "TN", item->dtype, s, s, d, n, false));
  SCM_TRY (scm_matmul_init (gpu, &u->d_q, item->dtype, "NN", item->dtype, s, d, s, n, false));
  SCM_TRY (scm_matmul_init (gpu, &u->d_k, item->dtype, "NT", item->dtype, s, d, s, n, false));
  const size_t small = SCM_ALIGN (2 * (size_t) (n * s * d)), large = SCM_ALIGN (2 * (size_t) (n * s * s));
  char *pool;
  SCM_TRY (scm_pool (gpu, 8 * small + 3 * large, &pool));
  char **const tokens[] = { &u->q, &u->k, &u->v, &u->o, &u->d_o, &u->d_q_at, &u->d_k_at, &u->d_v_at };
  char **const scores[] = { &u->p, &u->s, &u->d_p_at };
  for (int i = 0; i < 8; i++, pool += small)
    {
      *tokens[i] = pool;
      SCM_TRY (scm_fill (gpu, pool, item->dtype, n * s * d, 1));
    }
  for (int i = 0; i < 3; i++, pool += large)
    {
      *scores[i] = pool;
      SCM_TRY (scm_fill (gpu, pool, item->dtype, n * s * s, 0.05f));
    }
  return scm_time (gpu, strcmp (item->op, "bwd") == 0 ? issue_backward : issue_forward, u, SCM_USUAL_S, result);
}

ScmOutcome
scm_run_attention (ScmGpu *gpu, const ScmItem *item, ScmResult *result)
{
  ScmOutcome outcome;
  if (strcmp (item->beside, "cudnn") == 0)
    {
      static Fused fused;
      fused = (Fused){ .sdpa = { .l = &gpu->libraries } };
      outcome = run_fused (gpu, item, &fused, result);
      cudaStreamSynchronize (gpu->stream);
      scm_sdpa_clear (&fused.sdpa);
      scm_sdpa_clear (&fused.forward);
      return outcome;
    }
  Unfused u = { .item = item };
  outcome = run_unfused (gpu, item, &u, result);
  scm_matmul_clear (gpu, &u.scores);
  scm_matmul_clear (gpu, &u.output);
  scm_matmul_clear (gpu, &u.d_v);
  scm_matmul_clear (gpu, &u.d_p);
  scm_matmul_clear (gpu, &u.d_q);
  scm_matmul_clear (gpu, &u.d_k);
  return outcome;
}
