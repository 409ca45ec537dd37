/* SPDX-License-Identifier: GPL-3.0-or-later */
/* framework.c - what generations of training frameworks do around the matrix products, row by row. */
#include <string.h>
#include "models/framework.h"

/* Host pace.  Published single-node runs of Megatron-DeepSpeed with full recompute (vTrain, A100, 1,080 plans) show
 * that a layer pass, forward + repeated forward + backward, never takes less than 3.3 ms (3.9 at TP 8), whatever its
 * size.  Our lists issue OPS_FORWARD ops in each of the two Python forwards and OPS_BACKWARD in the backward, which
 * autograd runs in C++ at about twice the pace (assumed).  The whole Megatron lineage gets this pace: the same
 * modules, the same launches; other rows have no measurement of their own. */
#define PASS_S 3.3e-3
#define OPS_FORWARD 17
#define OPS_BACKWARD 32
#define HOST_BACKWARD_S (PASS_S / (2 * 2 * OPS_FORWARD + OPS_BACKWARD))
#define HOST_FORWARD_S (2 * HOST_BACKWARD_S)

/* Blocking host time of one pipeline send or receive on top of its transfer: 0.4 +- 0.3 ms in the interleaved runs
 * of arXiv 2104.04473 (table 1) and arXiv 2205.05198; Megatron-core posts them in the background. */
#define HOST_P2P_2021_S 0.4e-3
#define HOST_P2P_CORE_S 0.05e-3 /* assumed */

static const ScFramework megatron_lm_2021 = {
  .name = "megatron-lm",
  .version = "2021",
  .summary = "Megatron-LM of arXiv 2104.04473: fused softmax, GELU and dropout, synchronous tensor parallelism",
  .source = "arXiv 2104.04473; optimizer bytes and gradient additions by counting kernels of that version",
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_2021_S,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .optimizer_bytes_per_param = 64,
  .fp32_main_grads = TRUE,
};

static const ScFramework megatron_lm_2022 = {
  .name = "megatron-lm",
  .version = "2022",
  .summary = "Megatron-LM of arXiv 2205.05198: sequence parallelism, weight gradients fused into the product, "
             "backward collectives under it",
  .source = "arXiv 2205.05198; optimizer bytes by counting kernels (22B: 0.10 s of a 1.42 s step)",
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_2021_S,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_wgrad = TRUE,
  .async_tp_backward = TRUE,
  .optimizer_bytes_per_param = 60,
  .fp32_main_grads = TRUE,
};

static const ScFramework megatron_deepspeed_2022 = {
  .name = "megatron-deepspeed",
  .version = "2022",
  .summary = "Megatron-DeepSpeed as BLOOM and vTrain ran it: Megatron 2021 kernels with DeepSpeed's ZeRO",
  .source = "bigscience-workshop/Megatron-DeepSpeed megatron/mpu/layers.py (backward all-reduces wait, gradients are "
            "added by autograd); vTrain's single-node runs for the host's pace",
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_2021_S,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .optimizer_bytes_per_param = 60,
  .buckets = SC_BUCKETS_DEEPSPEED,
  .zero_all_reduces = TRUE, /* of its bf16 optimizer; that for fp16 of that time reduced to owners (plan.zero.all_reduce false) */
  .fp32_main_grads = TRUE,
};

static const ScFramework megatron_core = {
  .name = "megatron-core",
  .version = "core",
  .summary = "Megatron-core with Transformer Engine: biases, rotary, SwiGLU and loss fused, weight gradients "
             "accumulated in place",
  .source = "Megatron-LM core and Transformer Engine sources; optimizer bytes: fused Adam 30, norm 4, clip 8, rest 2",
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .fused_bias = TRUE,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_rope = TRUE,
  .fused_loss = TRUE,
  .fused_wgrad = TRUE,
  .async_tp_backward = TRUE,
  .optimizer_bytes_per_param = 44,
  .fp32_main_grads = TRUE,
};

static const ScFramework *const frameworks[] = {
  &megatron_lm_2021, &megatron_lm_2022, &megatron_deepspeed_2022, &megatron_core, NULL,
};

const ScFramework *const *
sc_framework_all (void)
{
  return frameworks;
}

const ScFramework *
sc_framework_find (const char *name, const char *version)
{
  const ScFramework *found = NULL;
  for (const ScFramework *const *row = frameworks; *row != NULL; row++)
    {
      if (strcmp ((*row)->name, name) != 0)
        continue;
      if (version == NULL || strcmp ((*row)->version, version) == 0)
        found = *row; /* the last row of a name is its default */
    }
  return found;
}
