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

/* Hosts of tp 8 are slower than those of 2 and 4, which have the same pace: 5.0, 4.1 and 3.7 ms for a layer pass with 1, 2 and 4 sequences in the same 1,080
 * plans, where 2 and 4 take 3.0 to 3.6.  Their groups lie across both sockets of a node. */
#define HOST_WIDE_TP 1.35

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
  .host_wide_tp = HOST_WIDE_TP,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .optimizer_bytes_per_param = 64,
  .optimizer_unscales = TRUE,
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
  .host_wide_tp = HOST_WIDE_TP,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_wgrad = TRUE,
  .async_tp_backward = TRUE,
  .optimizer_bytes_per_param = 60,
  .optimizer_unscales = TRUE,
  .fp32_main_grads = TRUE,
};

/* A piece of a gather's or a reduction's list: a view of it in Python, then a copy that c10d launches into, or out of, the flat tensor.  Two
 * launches and a view (assumed); torch.cuda.synchronize() stands before each gather (github:microsoft/DeepSpeed pull request 1188, of July 2021:
 * "the async version is not async at all"; issue 1069: 0.4 ms of host time for a gather on 8 to 16 GPUs). */
#define ZERO3_PIECE_S 10e-6

static const ScFramework megatron_deepspeed_2021 = {
  .name = "megatron-deepspeed",
  .version = "2021",
  .summary = "Megatron-DeepSpeed before DeepSpeed 0.5: ZeRO 1 is a class of its own, which scatters a flat copy of all gradients",
  .source = "deepspeed/runtime/zero/stage1.py; the rest as 2022",
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_2021_S,
  .host_wide_tp = HOST_WIDE_TP,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .optimizer_bytes_per_param = 60,
  .optimizer_unscales = TRUE,
  .buckets = SC_BUCKETS_DEEPSPEED,
  .zero1_lays_out = TRUE,
  .zero3_piece_s = ZERO3_PIECE_S,
  .pipeline_engine = TRUE,
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
  .host_wide_tp = HOST_WIDE_TP,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .optimizer_bytes_per_param = 60,
  .optimizer_unscales = TRUE,
  .buckets = SC_BUCKETS_DEEPSPEED,
  .zero_all_reduces = TRUE, /* of its bf16 optimizer; that for fp16 of that time reduced to owners (plan.zero.all_reduce false) */
  .pipeline_engine = TRUE,
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
  .a2a_whole_heads = TRUE,
  .fused_wgrad = TRUE,
  .async_tp_backward = TRUE,
  .optimizer_bytes_per_param = 44,
  .fp32_main_grads = TRUE,
  .activations = SC_ACTIVATIONS_LAYERS,
};

/* Host pace with Transformer Engine 2.11: SimuMax's Llama-3 70B at tp 8 with one sequence of 4k takes 64 ms for a micro-batch of 12 layers and the head on B200,
 * 5 ms for a layer's forward and backward where its kernels need 4.1; at tp 4, where they need 7, kernels decide. */
#define CORE_2026_PASS_S 5.0e-3
#define CORE_2026_OPS_FORWARD 16
#define CORE_2026_OPS_BACKWARD 22
#define CORE_2026_BACKWARD_S (CORE_2026_PASS_S / (2 * CORE_2026_OPS_FORWARD + CORE_2026_OPS_BACKWARD))

/* What its libraries keep in memory is known by their sources and by SimuMax's 18 configurations on 8 B200 (SimuMax v1.2: peaks of each rank, to
 * 10 MiB): placeholders of linear layers came with Transformer Engine 2.3, those of grouped ones with 2.10, attention's output beside the
 * exchanged one with 2.8. */
static const ScFramework megatron_core_2026 = {
  .name = "megatron-core",
  .version = "2026",
  .summary = "The same with Transformer Engine 2.10 or later: loss in place of the logits, placeholders of gradients, workspaces in PyTorch's pool",
  .source = "as core; Transformer Engine 2.11 pytorch/module/base.py (get_dummy_wgrad), pytorch/cross_entropy.py, pytorch/attention/dot_product_attention/"
            "context_parallel.py; Megatron-LM core/tensor_parallel/layers.py, core/transformer/moe/moe_layer.py, core/distributed/param_and_grad_buffer.py "
            "of 2026",
  .host_forward_s = 2 * CORE_2026_BACKWARD_S,
  .host_backward_s = CORE_2026_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .fused_bias = TRUE,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_rope = TRUE,
  .fused_loss = TRUE,
  .loss_in_place = TRUE,
  .a2a_whole_heads = TRUE,
  .a2a_keeps_output = TRUE,
  .fused_wgrad = TRUE,
  .async_tp_backward = TRUE,
  .optimizer_bytes_per_param = 44,
  .fp32_main_grads = TRUE,
  .activations = SC_ACTIVATIONS_LAYERS,
  .placeholders = SC_PLACEHOLDERS_GROUPED,
  .moe_holds_rows = TRUE,
  .states_by_tensor = TRUE,
  .pool_workspaces = TRUE,
  .keeps_gathered = TRUE,
};

/* ---- PyTorch and what is built on it ---- */

/* HBM traffic of an owned parameter.  AdamW in multi-tensor kernels over fp32, one for each line of it: decay 8, first moment 12, second 8 + 16,
 * root 8, correction 8, epsilon 8, update 16; fused into one: 28.  Norm 4, clip 8. */
#define FOREACH_ADAMW_BYTES (84 + 12)
#define FUSED_ADAMW_BYTES   (28 + 12)

/* nanotron.  The Ultra-Scale Playbook's sweep on H100 shows 4.4 ms for a layer's forward and backward at tp up to 8, whatever its size. */
#define NANOTRON_PASS_S 4.4e-3
#define NANOTRON_OPS_FORWARD 15
#define NANOTRON_OPS_BACKWARD 34
#define NANOTRON_BACKWARD_S (NANOTRON_PASS_S / (2 * NANOTRON_OPS_FORWARD + NANOTRON_OPS_BACKWARD))

static const ScFramework pytorch_eager = {
  .name = "pytorch",
  .version = "eager",
  .summary = "PyTorch modules as transformers has them, a kernel for each operation: RMSNorm, rotary and SwiGLU written out, loss in fp32; "
             "DistributedDataParallel with autocast, or FSDP2",
  .source = "transformers models/llama/modeling_llama.py; torch/optim/adamw.py (foreach), bytes by counting its kernels; host's pace assumed",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .eager_norm = TRUE,
  .torch_loss = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = FOREACH_ADAMW_BYTES,
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 2,
  .activations = SC_ACTIVATIONS_HOOKS,
};

static const ScFramework fsdp1_eager = {
  .name = "fsdp1",
  .version = "eager",
  .summary = "The same with FSDP1: gathered in place, gradients flattened, at most two units ahead",
  .source = "torch/distributed/fsdp/_runtime_utils.py; the rest as pytorch eager",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .eager_norm = TRUE,
  .torch_loss = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = FOREACH_ADAMW_BYTES,
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 1,
  .activations = SC_ACTIVATIONS_HOOKS,
};

/* torchtitan of 2024: each step of a ring costs what a whole block of the last rank does, not half of one as zig-zag shares would: 8B from 32k tokens on one
 * GPU to 128k and 256k on four and eight takes 7.4 s more for each rank that joins, 405B 6.4 to 7.1 ms a thousand tokens, both 1.9 times attention over
 * 32k (benchmarks/llama3_h100_202412_torchtitan.md, tables 2 and 6).  PyTorch's code of then asks for balanced shares; why they did not help is not known. */
static const ScFramework torchtitan_eager = {
  .name = "torchtitan",
  .version = "eager",
  .summary = "torchtitan without torch.compile: eager modules, FSDP2 that keeps the last layer gathered",
  .source = "pytorch/torchtitan torchtitan/models/llama/model.py, torchtitan/parallelisms/parallelize_llama.py of 2024; host's pace assumed",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .eager_norm = TRUE,
  .ring_in_order = TRUE,
  .torch_loss = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .fp8_keeps_wide = TRUE,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = FOREACH_ADAMW_BYTES,
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 2,
  .fsdp_keeps_last = TRUE,
  .activations = SC_ACTIVATIONS_HOOKS,
};

static const ScFramework torchtitan_compiled_2025 = {
  .name = "torchtitan",
  .version = "compiled-2025",
  .summary = "torchtitan of 2025 with torch.compile on each block and on the loss, which reads the logits in 16 bits and writes their gradient beside them",
  .source = "pytorch/torchtitan torchtitan/components/loss.py; the rest as compiled",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .fused_bias = TRUE,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_rope = TRUE,
  .fused_loss = TRUE,
  .torch_loss = TRUE,
  .loss_apart = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .fp8_keeps_wide = TRUE,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = FOREACH_ADAMW_BYTES,
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 2,
  .fsdp_keeps_last = TRUE,
  .activations = SC_ACTIVATIONS_HOOKS,
};

static const ScFramework torchtitan_compiled = {
  .name = "torchtitan",
  .version = "compiled",
  .summary = "torchtitan of 2024 with torch.compile on each block: norms, rotary, SwiGLU and residuals fused, the loss as it is; FSDP2 that keeps the last "
             "layer gathered",
  .source = "pytorch/torchtitan docs/performance.md, benchmarks/llama3_h100_202412_torchtitan.md, torchtitan/parallelisms/parallelize_llama.py; "
            "host's pace assumed",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .fused_bias = TRUE,
  .fused_gelu = TRUE,
  .fused_dropout_add = TRUE,
  .fused_softmax = TRUE,
  .fused_rope = TRUE,
  .ring_in_order = TRUE,
  .torch_loss = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .fp8_keeps_wide = TRUE,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = FOREACH_ADAMW_BYTES,
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 2,
  .fsdp_keeps_last = TRUE,
  .activations = SC_ACTIVATIONS_HOOKS,
};

static const ScFramework llm_foundry = {
  .name = "llm-foundry",
  .version = "v0.0.4",
  .summary = "llm-foundry's MPT on Composer: FSDP1, Triton's flash attention, low-precision LayerNorm, GELU alone, cross entropy fused as "
             "FlashAttention has it",
  .source = "mosaicml/llm-foundry v0.0.4 llmfoundry/models/mpt, mosaicml/composer composer/optim/decoupled_weight_decay.py, bytes by counting its kernels; "
            "host's pace assumed",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .torch_products = TRUE,
  .flash = SC_FLASH_TRITON,
  .fused_loss = TRUE,
  .torch_loss = TRUE,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = 92 + 12, /* DecoupledAdamW: moments 20 and 24, root and epsilon 24, decay 8, update 16; norm, clip */
  .buckets = SC_BUCKETS_TORCH,
  .fsdp = 1,
};

static const ScFramework deepspeed_2023 = {
  .name = "deepspeed",
  .version = "2023",
  .summary = "transformers' eager modules under DeepSpeed: ZeRO 1 to 3, its fused Adam on fp32 copies",
  .source = "deepspeed/runtime/zero, deepspeed/ops/adam/fused_adam.py: gradients to fp32 6 bytes, norm 4, unscale and clip 8, Adam 28, weights to 16 bits "
            "6; modules as pytorch eager; host's pace assumed",
  .host_assumed = TRUE,
  .host_forward_s = HOST_FORWARD_S,
  .host_backward_s = HOST_BACKWARD_S,
  .host_p2p_s = HOST_P2P_CORE_S,
  .eager_norm = TRUE,
  .torch_loss = TRUE,
  .torch_products = TRUE,
  .flash = SC_FLASH_2,
  .recompute_stops_early = TRUE,
  .optimizer_bytes_per_param = 52,
  .optimizer_unscales = TRUE,
  .buckets = SC_BUCKETS_DEEPSPEED,
  .fsdp = 2,
  .zero_all_reduces = TRUE,
};

/* The same sweep, where GPUs lag behind: about 50 inputs of reduce-scatters, four to a layer's forward and backward, wait for their streams; CUDA lets a host launch
 * 1,024 kernels ahead. */
#define NANOTRON_LAUNCHES_PER_OP 1.67

/* Its rows of several nodes: the least time of a layer's forward and backward, ten collectives of a tensor-parallel group, whatever the width, the
 * micro-batch, the number of stages and of nodes.  With a pipeline 9.5 to 10.5, 14.5 to 16.5, 23 to 25, 48 to 53 and 128 ms at tp 2, 4, 8, 16 and 32 (403
 * rows); a step takes this or what its kernels take, whichever is longer, so it is the host's.  Without one 8.0 to 8.7 and 15.2 ms at tp 16 and 32,
 * over 2 and 4 nodes, as ever at less.  What the host does there is not known. */
#define NANOTRON_TP_PIPELINED_S  0.22e-3
#define NANOTRON_TP_OVER_NODES_S 0.03e-3

#define NANOTRON \
  .name = "nanotron", \
  .source = "huggingface/nanotron src/nanotron/models/llama.py, src/nanotron/parallel/tensor_parallel; the host's pace from the Ultra-Scale Playbook's sweep", \
  .host_forward_s = 2 * NANOTRON_BACKWARD_S, \
  .host_backward_s = NANOTRON_BACKWARD_S, \
  .host_p2p_s = HOST_P2P_2021_S, \
  .host_tp_over_nodes_s = NANOTRON_TP_OVER_NODES_S, \
  .host_tp_pipelined_s = NANOTRON_TP_PIPELINED_S, \
  .fused_rope = TRUE, \
  .async_tp_backward = TRUE, \
  .torch_products = TRUE, \
  .flash = SC_FLASH_2, \
  .recompute_stops_early = TRUE, \
  .optimizer_bytes_per_param = FUSED_ADAMW_BYTES + 6, \
  .fp32_main_grads = TRUE, \
  .states_by_tensor = TRUE, \
  .flat_copies = TRUE,        /* src/nanotron/optim/gradient_accumulator.py: FP32GradientAccumulator.__init__; src/nanotron/optim/zero.py: _partition_parameters */ \
  .waiting_grads = TRUE,      /* src/nanotron/optim/gradient_accumulator.py: FP32GradientAccumulator.backward */ \
  .ddp_buckets = TRUE,        /* ...: get_fp32_accum_hook; torch/csrc/distributed/c10d/reducer.cpp */ \
  .zero_gather_copies = TRUE, /* src/nanotron/distributed.py: all_gather_coalesced, on torch's all_gather into a list */ \
  .gather_buffers = TRUE,     /* src/nanotron/parallel/tensor_parallel/functional.py: MemoryBuffer, "allgather" and "allgather2" */ \
  .keeps_silu = TRUE,         /* src/nanotron/models/llama.py: GLUActivation */ \
  .varlen_flash = TRUE,       /* ...: CoreAttention.forward; flash-attention csrc/flash_attn/flash_api.cpp: mha_varlen_bwd, dq_accum */ \
  .copies_logits = TRUE,      /* src/nanotron/parallel/tensor_parallel/functional.py: _ShardedCrossEntropy */ \
  .rotary_tables = TRUE,      /* ...: flash_rotary_embedding of CausalSelfAttention */ \
  .model_groups = TRUE,       /* src/nanotron/parallel/context.py */ \
  .pooled_workspaces = TRUE,  /* aten/src/ATen/cuda/CublasHandlePool.cpp; one of the host's thread, one of autograd's */

static const ScFramework nanotron_2024 = {
  NANOTRON
  .version = "2024",
  .summary = "nanotron: Triton RMSNorm, FlashAttention's rotary, SwiGLU in two kernels, gradients added in fp32, backward collectives of tensor "
             "parallelism beside products",
  .copies_qkv = TRUE,   /* src/nanotron/models/llama.py: CausalSelfAttention.forward; flash_attn/layers/rotary.py: RotaryEmbedding.forward (inplace=True) */
  .names_output = TRUE, /* ...: LlamaDecoderLayer.forward */
  .launches_per_op = NANOTRON_LAUNCHES_PER_OP, /* torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp */
};

/* Runs of the sweep that are marked as before a fix of its pipelines: every layer took so long that nothing waited for its GPU.  In 276 of them reserved memory has
 * room for 4 inputs of reduce-scatters in the median, 40 to 50 in those behind the fix. */
static const ScFramework nanotron_2024_early = {
  NANOTRON
  .version = "2024-early",
  .summary = "The same before a fix of its pipelines: hosts that are never ahead of their GPUs",
  .copies_qkv = TRUE,
  .names_output = TRUE,
};

/* Of the time when PyTorch's collectives keep what they read themselves until they are waited for, in place of record_stream(): github:pytorch/pytorch pull
 * requests 148590 and 150398. */
static const ScFramework nanotron_2025 = {
  NANOTRON
  .version = "2025",
  .summary = "The same from release 0.5 on: attention of the product's output as it is (_use_qkv_packed, src/nanotron/config/models_config.py), collectives that hand back what they read when they "
             "are waited for",
};

/* The Triton kernel, which MPT needed for its biases (attn_impl: triton): FlashAttention-2 is 1.3 to 2.5 times as fast (arXiv 2307.08691,
 * section 4.1). */
#define TRITON_RATE 0.6

/* H100, causal, head dimension 128 (arXiv 2407.08608, figures 5 and 6): 335 of FlashAttention-3's 616 TFLOP/s forward, 322 of 561 backward. */
#define FLASH_2_ON_HOPPER          0.55
#define FLASH_2_ON_HOPPER_BACKWARD 0.57

double
sc_flash_rate (ScFlash flash, gboolean hopper, gboolean backward)
{
  const double second = !hopper ? 1 : backward ? FLASH_2_ON_HOPPER_BACKWARD : FLASH_2_ON_HOPPER;
  switch (flash)
    {
    case SC_FLASH_2: return second;
    case SC_FLASH_TRITON: return second * TRITON_RATE;
    case SC_FLASH_DEVICE:
    default: return 1;
    }
}

/* Products of Llama-2's MLP and attention as PyTorch 2.1 calls them take 1.078 times as long on H100, in the median over 191 shapes, as the best that
 * serving libraries find for the shape, which devices are calibrated by (github:microsoft/vidur data/profiling/compute/h100 @7d47513363ec). */
#define TORCH_PRODUCTS_ON_HOPPER 0.93

double
sc_torch_product_rate (gboolean hopper)
{
  return hopper ? TORCH_PRODUCTS_ON_HOPPER : 1;
}

#define KIB 1024.0
#define MIB (KIB * KIB)

double
sc_framework_workspaces (const ScFramework *framework, gboolean hopper, gboolean grouped, gboolean torch)
{
  /* get_cublas_workspace_size_bytes() of Transformer Engine's pytorch/module/base.py, and tex.get_num_cublas_streams() of them; aten's
   * CublasHandlePool.cpp: 4096 KiB times 8, before Hopper 4096 times 2 and 16 times 8 */
  const double engine = hopper ? 32 * MIB + 256 : 4 * MIB, cublas = hopper ? 32 * MIB : 8320 * KIB;
  const guint streams = 4;
  return framework->pool_workspaces ? engine + (grouped ? streams * engine : 0) + (torch ? cublas : 0) : 0;
}

static const ScFramework *const frameworks[] = {
  &megatron_lm_2021, &megatron_lm_2022, &megatron_deepspeed_2021, &megatron_deepspeed_2022, &megatron_core_2026, &megatron_core, &pytorch_eager,  &fsdp1_eager,
  &torchtitan_eager, &torchtitan_compiled_2025, &torchtitan_compiled, &llm_foundry,           &deepspeed_2023, &nanotron_2024_early, &nanotron_2025, &nanotron_2024, NULL,
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
