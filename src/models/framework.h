/* SPDX-License-Identifier: GPL-3.0-or-later */
/* framework.h - what a generation of a training framework does around the matrix products.
 * Layer: models.  One row per generation; what lies between the GEMMs decides as much as they do (ACCURACY 2, 3). */
#pragma once
#include <glib.h>

/* What a framework's flash attention is.  Devices have that of FlashAttention-3 or cuDNN on Hopper and later, of FlashAttention-2 before. */
typedef enum
{
  SC_FLASH_DEVICE, /* as good as the device's */
  SC_FLASH_2,      /* FlashAttention-2, also where there is a better one */
  SC_FLASH_TRITON, /* FlashAttention in Triton, of 2023 */
} ScFlash;

/* Rate of its kernels relative to the device's, @hopper: of that generation or later. */
double sc_flash_rate (ScFlash flash, gboolean hopper, gboolean backward);

/* Rate of PyTorch's products relative to what serving libraries choose, @hopper: of that generation. */
double sc_torch_product_rate (gboolean hopper);

/* How gradients are put together for their reduction. */
typedef enum
{
  SC_BUCKETS_MEGATRON,  /* whole layers, on the first pipeline rank only (MODELLING 5.8) */
  SC_BUCKETS_TORCH,     /* tensor by tensor until a bucket is full; the first is small (DistributedDataParallel) */
  SC_BUCKETS_DEEPSPEED, /* tensor by tensor as long as they fit */
} ScBuckets;

/* Who takes what layers save to the host, if anybody. */
typedef enum
{
  SC_ACTIVATIONS_STAY,
  SC_ACTIVATIONS_LAYERS, /* Transformer Engine, behind each layer (get_cpu_offload_context()) */
  SC_ACTIVATIONS_HOOKS,  /* PyTorch's hooks on saved tensors (torchtune's OffloadActivations) */
} ScActivations;

/* Whose weights have a gradient of their own size that nobody writes, where products add to a buffer and autograd wants a tensor to hand
 * on: kept for the whole run, one for all weights of a shape (get_dummy_wgrad() in Transformer Engine's pytorch/module/base.py). */
typedef enum
{
  SC_PLACEHOLDERS_NONE,
  SC_PLACEHOLDERS_LINEAR,  /* of linear layers */
  SC_PLACEHOLDERS_GROUPED, /* ... of grouped ones as well */
} ScPlaceholders;

/* GPUs of one socket of a node of 8. */
#define SC_NARROW_TP 4

typedef struct
{
  const char *name;    /* "megatron-lm" */
  const char *version; /* "2021", "2022", "core", "2026"; the last row of a name is its default */
  const char *summary; /* one line for people */
  const char *source;

  /* host */
  gboolean host_assumed;  /* nothing of its own was measured */
  double host_forward_s;  /* host time to issue one op of forward */
  double host_backward_s; /* ... of backward, which autograd runs in C++ */
  double host_p2p_s;      /* extra host time of one pipeline send or receive */
  double host_wide_tp;    /* host times of passes with tp above SC_NARROW_TP, relative to those below; 0: the same */
  double host_tp_over_nodes_s; /* ... of one collective of a tensor-parallel group, for each rank of it, where it spans nodes ... */
  double host_tp_pipelined_s;  /* ... and, on more nodes than one, beside a pipeline */

  /* kernels */
  gboolean fused_bias;         /* biases of column-parallel layers, and their gradients, inside the GEMM */
  gboolean fused_gelu;         /* bias + GELU (or SwiGLU) in one kernel */
  gboolean fused_dropout_add;  /* bias + dropout + residual in one kernel */
  gboolean fused_softmax;      /* scale + mask + softmax in one kernel (unfused attention only) */
  gboolean fused_rope;
  gboolean fused_loss;         /* cross entropy in few passes, two small all-reduces instead of three */
  ScFlash  flash;              /* generation of its flash attention */
  gboolean torch_products;     /* linear layers are PyTorch's own calls of cuBLAS (sc_torch_product_rate()) */
  gboolean eager_norm;         /* an RMSNorm is written out in tensor operations, each a kernel */
  gboolean loss_in_place;      /* a fused loss reads 16-bit logits and leaves their gradient in their place (Transformer Engine) */
  gboolean ring_in_order;      /* context parallelism hands out a sequence in order, so the last rank sees every block of a ring whole */
  gboolean torch_loss;         /* PyTorch's cross entropy: in fp32, or, if fused, on the 16-bit logits in place */
  gboolean loss_apart;         /* ... which then gets its gradient beside the logits, not in their place */
  gboolean fused_wgrad;        /* weight gradients accumulate inside the GEMM; else a separate add per micro-batch */
  gboolean async_tp_backward;  /* the backward TP collective runs under the weight-gradient GEMM */
  gboolean fp8_keeps_wide;     /* linear layers in 8 bits keep their inputs in 16 and cast them, and weights, at every product (torchao); else weights are cast once a step */
  gboolean a2a_whole_heads;    /* ranks that exchange heads for tokens have a KV head each: none is repeated (Transformer Engine) */
  gboolean a2a_keeps_output;   /* attention keeps its output as it was before heads are exchanged back, beside what the projection reads */
  gboolean recompute_stops_early; /* recompute skips what only the layer's output needs (PyTorch's non-reentrant checkpoint) */
  double   optimizer_bytes_per_param; /* HBM traffic of clip, unscale and Adam per owned parameter ... */
  gboolean optimizer_unscales; /* ... division by the loss scale of fp16 is in it */

  /* data parallelism */
  ScBuckets buckets;
  guint    fsdp;               /* generation of PyTorch's FSDP: 1, or 2 (also where there is none) */
  gboolean fsdp_keeps_last;    /* the last layer stays gathered between forward and backward, which would gather it at once */
  gboolean zero_all_reduces;   /* ZeRO 1 and 2 sum gradients whole on every rank */
  gboolean zero1_lays_out;     /* ZeRO 1 lays out a flat copy of all gradients before it scatters them */
  double   zero3_piece_s;      /* ZeRO 3 gathers a tensor when it is needed, with the GPU empty behind and before it, from a list of all ranks' pieces, each of which
                                  costs the host this; 0: ahead of use, of one buffer */

  /* memory */
  ScActivations activations;   /* saved tensors can live in host memory until backward */
  gboolean pipeline_engine;    /* DeepSpeed's: groups of its own beside Megatron's; logits stay in a buffer until the next micro-batch's take their place */
  gboolean fp32_main_grads;    /* a contiguous gradient buffer lives for the whole run */
  ScPlaceholders placeholders;
  gboolean moe_holds_rows;     /* a layer's forward names its rows as they were before and behind each exchange, so that they stay until it ends (MoELayer.forward() in parts) */
  gboolean states_by_tensor;   /* weights are made one by one and copied into a buffer; optimizer states are tensors of their own */
  gboolean flat_copies;        /* ... where fp32 copies of weights are one buffer, and data-parallel ranks own a part of every tensor */
  gboolean pool_workspaces;    /* workspaces of its libraries are tensors of PyTorch's allocator (sc_framework_workspaces()) */
  gboolean keeps_gathered;     /* the input of the logits is gathered into one buffer that stays (Megatron's GlobalMemoryBuffer) */
  gboolean waiting_grads;      /* ... to which the gradients of a whole backward are added when it has ended */
  gboolean ddp_buckets;        /* ... beside which DistributedDataParallel has buckets in the type of weights */
  gboolean zero_gather_copies; /* ZeRO 1 gathers weights into copies: what it owns, of each rank, and all of them in a row */
  gboolean gather_buffers;     /* with sequence parallelism, gathered inputs and output gradients lie in two buffers that live for the whole run */
  gboolean keeps_silu;         /* SwiGLU in two operations, the second of which saves the first one's output */
  gboolean copies_qkv;         /* Q, K and V are copied out of the product's output, which lives until the half is done; Q is rotated in that copy, of which it keeps all,
                                  K and V side by side in another one.  So are their gradients */
  gboolean varlen_flash;       /* flash attention takes sequences of any lengths, so that its backward adds up dQ in 128 rows more for each */
  gboolean names_output;       /* a layer has a name for its attention's output, so that it stays until the layer's forward ends */
  gboolean copies_logits;      /* the maximum is taken off into a second copy of the logits in fp32 */
  gboolean rotary_tables;      /* each layer has its own cosines and sines */
  double   launches_per_op;    /* kernels that are launched for each that is listed, where what collectives of tensor parallelism have read comes back to the
                                  allocator as soon as the GPU, not the host, is done with it (record_stream()); 0: as the host frees it */
  gboolean model_groups;       /* communicators of all ranks, and of a model's, beside those of layers */
  gboolean pooled_workspaces;  /* those of products alone are (as the device has them) */
} ScFramework;

const ScFramework *const *sc_framework_all (void); /* NULL-ended */

/* Bytes of workspaces in PyTorch's pool: Transformer Engine's, on one stream or, with @grouped products, on more as well, and with products of
 * PyTorch itself (@torch) its cuBLAS handle's. */
double sc_framework_workspaces (const ScFramework *framework, gboolean hopper, gboolean grouped, gboolean torch);

/* @version NULL: the name's default.  NULL if there is no such row. */
const ScFramework *sc_framework_find (const char *name, const char *version);
