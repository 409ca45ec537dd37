/* SPDX-License-Identifier: GPL-3.0-or-later */
/* workload-json.c - workload files: what is trained, and by which plan, in the vocabulary of published tables. */
#include "workload-json.h"
#include "documents-json.h"
#include "library.h"
#include "models/packing.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/sharding.h"
#include "override.h"
#include "pipeline-layout.h"
#include "profile-json.h"
#include "routing-csv.h"
#include "schedule-csv.h"
#include <math.h>
#include <string.h>

#define MAX_STAGES 64000
#define MAX_EXPERTS 65536
#define MAX_CHUNKS 64
#define PARAMS_TOLERANCE 0.05

/* ---- Vocabulary ---- */

static const ScChoice norms[] = { { "layernorm", SC_NORM_LAYERNORM, FALSE },
                                  { "rmsnorm", SC_NORM_RMSNORM, FALSE },
                                  { NULL, 0, FALSE } };

static const ScChoice positions[] = {
  { "learned", SC_POSITIONS_LEARNED, FALSE },
  { "rope", SC_POSITIONS_ROPE, FALSE },
  { "alibi", SC_POSITIONS_ALIBI, FALSE },
  { "none", SC_POSITIONS_NONE, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice families[] = {
  { "gpt", 0, FALSE },       { "llama", 0, FALSE },    { "bloom", 0, FALSE },    { "mpt", 0, FALSE },
  { "qwen", 0, FALSE },      { "nemotron", 0, FALSE }, { "gpt-neox", 0, FALSE }, { "gpt-moe", 0, FALSE },
  { "mixtral", 0, FALSE },   { "qwen-moe", 0, FALSE }, { "deepseek", 0, FALSE }, { "grok", 0, FALSE },
  { "llama4", 0, FALSE },    { "gpt-oss", 0, FALSE },  { "other", 0, FALSE },    { NULL, 0, FALSE },
};

static const ScChoice shardings[] = {
  { "none", SC_SHARDING_NONE, FALSE },
  { "zero1", SC_SHARDING_ZERO1, FALSE },
  { "distributed-optimizer", SC_SHARDING_DISTRIBUTED_OPTIMIZER, FALSE },
  { "zero2", SC_SHARDING_ZERO2, FALSE },
  { "zero3", SC_SHARDING_ZERO3, FALSE },
  { "fsdp-full", SC_SHARDING_FSDP_FULL, FALSE },
  { "fsdp-grad-op", SC_SHARDING_FSDP_GRAD_OP, FALSE },
  { "hsdp", SC_SHARDING_HSDP, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice offloads[] = { { "none", SC_OFFLOAD_NONE, FALSE },
                                    { "optimizer", SC_OFFLOAD_OPTIMIZER, FALSE },
                                    { "params", SC_OFFLOAD_PARAMS, FALSE },
                                    { "both", SC_OFFLOAD_BOTH, FALSE },
                                    { "activations", SC_OFFLOAD_ACTIVATIONS, FALSE },
                                    { "optimizer+activations", SC_OFFLOAD_OPTIMIZER | SC_OFFLOAD_ACTIVATIONS, FALSE },
                                    { "params+activations", SC_OFFLOAD_PARAMS | SC_OFFLOAD_ACTIVATIONS, FALSE },
                                    { "optimizer+params+activations", SC_OFFLOAD_BOTH | SC_OFFLOAD_ACTIVATIONS, FALSE },
                                    { NULL, 0, FALSE } };

static const ScChoice grad_syncs[] = { { "last", SC_GRAD_SYNC_LAST, FALSE }, { "every", SC_GRAD_SYNC_EVERY, FALSE }, { NULL, 0, FALSE } };

static const ScChoice schedules[] = {
  { "none", 0, FALSE },
  { "1f1b", 0, FALSE },
  { "interleaved", 0, FALSE },
  { "interleaved-rounds", 0, FALSE },
  { "interleaved-a2a", 0, FALSE },
  { "gpipe", 0, FALSE },
  { "looped-bfs", 0, FALSE },
  { "zb-h1", 0, FALSE },
  { "zb-h2", 0, FALSE },
  { "zb-1p", 0, FALSE },
  { "zb-2p", 0, FALSE },
  { "zb-v", 0, FALSE },
  { "v-half", 0, FALSE },
  { "v-min", 0, FALSE },
  { "dualpipe", 0, FALSE },
  { "dualpipev", 0, FALSE },
  { "csv", 0, FALSE },
  { NULL, 0, FALSE },
};

/* "every:N" and "modules:A,B" are read by read_recompute(). */
static const ScChoice recomputes[] = {
  { "none", SC_RECOMPUTE_NONE, FALSE },
  { "selective", SC_RECOMPUTE_SELECTIVE, FALSE },
  { "full", SC_RECOMPUTE_FULL, FALSE },
  { "selective-op", SC_RECOMPUTE_OPS, FALSE },
  { "every:N", SC_RECOMPUTE_FULL, FALSE },
  { "modules:A,B", SC_RECOMPUTE_MODULES, FALSE },
  { "selective:some-microbatches", SC_RECOMPUTE_SELECTIVE, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice recompute_methods[] = { { "uniform", SC_RECOMPUTE_UNIFORM, FALSE }, { "block", SC_RECOMPUTE_BLOCK, FALSE }, { NULL, 0, FALSE } };

/* The narrow ones are of the linear layers alone: read_precision(). */
static const ScChoice dtypes[] = {
  { "bf16", SC_DTYPE_BF16, FALSE }, { "fp16", SC_DTYPE_FP16, FALSE },  { "fp32", SC_DTYPE_FP32, FALSE },  { "fp8", SC_DTYPE_BF16, FALSE },
  { "mxfp8", SC_DTYPE_BF16, FALSE }, { "nvfp4", SC_DTYPE_BF16, FALSE }, { NULL, 0, FALSE },
};

static const ScChoice grad_dtypes[] = {
  { "bf16", SC_DTYPE_BF16, FALSE }, { "fp16", SC_DTYPE_FP16, FALSE }, { "fp32", SC_DTYPE_FP32, FALSE }, { NULL, 0, FALSE },
};

static const ScChoice attentions[] = { { "flash", SC_ATTENTION_FLASH, FALSE },
                                       { "unfused", SC_ATTENTION_UNFUSED, FALSE },
                                       { NULL, 0, FALSE } };

static const ScChoice cp_comms[] = {
  { "p2p", SC_CP_RING, FALSE },
  { "all-gather", SC_CP_ALL_GATHER, FALSE },
  { "a2a", SC_CP_A2A, FALSE },
  { "a2a+p2p", SC_CP_HIERARCHICAL, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice vocabs[] = {
  { "none", SC_VOCAB_ENDS, FALSE }, { "vocab-1", SC_VOCAB_1, FALSE }, { "vocab-2", SC_VOCAB_2, FALSE }, { "interlaced", SC_VOCAB_INTERLACED, FALSE }, { NULL, 0, FALSE },
};

static const ScChoice rank_orders[] = {
  { "tp-cp-ep-dp-pp", SC_ORDER_TP_CP_EP_DP_PP, FALSE },
  { "tp-cp-ep-pp-dp", SC_ORDER_TP_CP_EP_PP_DP, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice dispatchers[] = { { "all-to-all", SC_DISPATCHER_ALL_TO_ALL, FALSE },
                                        { "deepep", SC_DISPATCHER_DEEPEP, FALSE },
                                        { NULL, 0, FALSE } };

static const ScChoice optimizers[] = {
  { "adam", SC_OPTIMIZER_ADAM, FALSE }, { "adam-8bit", SC_OPTIMIZER_ADAM_8BIT, FALSE }, { "sgd-momentum", SC_OPTIMIZER_SGD_MOMENTUM, FALSE },
  { "lion", SC_OPTIMIZER_LION, FALSE }, { "muon", SC_OPTIMIZER_MUON, FALSE },           { NULL, 0, FALSE },
};

/* ---- Tables ---- */

/* "software" is looked up once both words are known. */
typedef struct
{
  char *framework, *version;
} Software;

static const ScField software_fields[] = {
  { "framework", SC_FIELD_STRING, .fallback = "megatron-core", .offset = offsetof (Software, framework),
    .help = "Framework (see stepcast list frameworks)" },
  { "version", SC_FIELD_STRING, .derived = "the framework's last", .offset = offsetof (Software, version),
    .help = "Its generation" },
  { .key = NULL },
};

#define MLA(member) .offset = offsetof (ScModel, mla.member)
#define INDEXER(member) .offset = offsetof (ScModel, indexer.member)

static const ScField mla_fields[] = {
  { "q_lora_rank", SC_FIELD_COUNT, .min = 0, .max = 1000000, .fallback = "0", MLA (q_lora_rank),
    .help = "Width to which queries are compressed; 0: they are not" },
  { "kv_lora_rank", SC_FIELD_COUNT, .min = 1, .max = 1000000, MLA (kv_lora_rank),
    .help = "Width to which keys and values are compressed" },
  { "qk_nope_head_dim", SC_FIELD_COUNT, .min = 1, .max = 4096, MLA (qk_nope_head_dim),
    .help = "Size of a query or key without positions" },
  { "qk_rope_head_dim", SC_FIELD_COUNT, .min = 0, .max = 4096, MLA (qk_rope_head_dim),
    .help = "Size of its part with positions, which all keys share" },
  { "v_head_dim", SC_FIELD_COUNT, .min = 1, .max = 4096, MLA (v_head_dim), .help = "Size of a value" },
  { .key = NULL },
};

static const ScField indexer_fields[] = {
  { "heads", SC_FIELD_COUNT, .min = 1, .max = 65536, INDEXER (heads), .help = "Heads that choose" },
  { "head_dim", SC_FIELD_COUNT, .min = 1, .max = 4096, INDEXER (head_dim), .help = "Size of one" },
  { "top_k", SC_FIELD_COUNT, .min = 1, .max = 10000000, INDEXER (top_k), .help = "Keys that a query then attends" },
  { .key = NULL },
};

#define MODEL(member) .offset = offsetof (ScModel, member)
#define FLAG SC_FIELD_BOOL, .fallback = "false"
#define COUNTED(member, most) SC_FIELD_COUNT, .min = 0, .max = most, .fallback = "0", MODEL (member)

static const ScField model_fields[] = {
  { "name", SC_FIELD_STRING, .derived = "the workload's name", MODEL (name), .help = "Name of the model" },
  { "hf_config", SC_FIELD_OTHER, .derived = "none",
    .help = "config.json of a published model, found from the workload's folder: whatever of the keys below is not given "
            "here is from there" },
  { "family", SC_FIELD_CHOICE, .choices = families, .derived = "not stated", .offset = SC_FIELD_NOWHERE,
    .help = "For people; every figure comes from the keys below" },
  { "params_b", SC_FIELD_NUMBER, .min = 0, .max = 1e6, .derived = "counted", .offset = SC_FIELD_NOWHERE,
    .help = "Parameters in billions as people call the model; must agree with the count within 5 %" },
  { "hidden", SC_FIELD_COUNT, .min = 1, .max = 1000000, MODEL (hidden), .help = "Hidden size" },
  { "layers", SC_FIELD_COUNT, .min = 1, .max = 1000, MODEL (layers), .help = "Transformer layers" },
  { "heads", SC_FIELD_COUNT, .min = 1, .max = 65536, MODEL (heads), .help = "Query heads" },
  { "kv_heads", SC_FIELD_COUNT, .min = 1, .max = 65536, .derived = "heads", MODEL (kv_heads),
    .help = "Key and value heads; tp may exceed them, each is then held by tp / kv_heads ranks" },
  { "head_dim", SC_FIELD_COUNT, .min = 1, .max = 4096, .derived = "hidden / heads", MODEL (head_dim),
    .help = "Size of one head" },
  { "ffn", SC_FIELD_COUNT, .min = 1, .max = 10000000, .derived = "4 x hidden", MODEL (ffn),
    .help = "Width of one MLP branch" },
  { "gated_mlp", FLAG, MODEL (gated_mlp), .help = "SwiGLU: three matrices instead of two" },
  { "vocab", SC_FIELD_COUNT, .min = 1, .max = 10000000, MODEL (vocab), .help = "Vocabulary as the run pads it" },
  { "tied_embeddings", FLAG, MODEL (tied_embeddings), .help = "Embedding and output matrix are one" },
  { "norm", SC_FIELD_CHOICE, .choices = norms, MODEL (norm), .help = "Normalisation" },
  { "positions", SC_FIELD_CHOICE, .choices = positions, MODEL (positions), .help = "Position encoding" },
  { "max_positions", SC_FIELD_COUNT, .min = 1, .max = 10000000, .derived = "seq", MODEL (max_positions),
    .help = "Rows of a learned position table" },
  { "linear_bias", FLAG, MODEL (linear_bias), .help = "Biases on all linear layers, and on LayerNorms" },
  { "qkv_bias", FLAG, MODEL (qkv_bias), .help = "Biases on Q, K and V only" },
  { "qk_norm", FLAG, MODEL (qk_norm), .help = "A norm on queries and keys" },
  { "embedding_norm", FLAG, MODEL (embedding_norm), .help = "A norm behind the embedding" },
  { "dropout", SC_FIELD_NUMBER, .min = 0, .max = 0.999, .fallback = "0", MODEL (dropout),
    .help = "Share dropped; 0: no dropout kernels and masks" },
  { "experts", COUNTED (experts, 65536), .help = "Routed experts of a layer; 0: a dense model" },
  { "top_k", COUNTED (top_k, 65536), .help = "Of them, experts for each token" },
  { "expert_ffn", SC_FIELD_COUNT, .min = 0, .max = 10000000, .derived = "ffn", MODEL (expert_ffn),
    .help = "Width of one branch of an expert" },
  { "shared_experts", COUNTED (shared_experts, 65536), .help = "Experts of all tokens, in units of expert_ffn" },
  { "shared_gate", FLAG, MODEL (shared_gate), .help = "A gate on the shared experts (Qwen2-MoE)" },
  { "dense_layers", COUNTED (dense_layers, 1000), .help = "The first layers, without experts" },
  { "moe_every", SC_FIELD_COUNT, .min = 1, .max = 1000, .fallback = "1", MODEL (moe_every),
    .help = "Behind them every n-th layer has experts (Llama 4: 2)" },
  { "router_bias", FLAG, MODEL (router_bias), .help = "One number per expert beside the router" },
  { "mla", SC_FIELD_OBJECT, .table = &sc_mla_table, .derived = "none", .help = "Multi-head latent attention" },
  { "indexer", SC_FIELD_OBJECT, .table = &sc_indexer_table, .derived = "none",
    .help = "Attention to keys that a small attention chooses (DeepSeek-V3.2)" },
  { "mtp_layers", COUNTED (mtp_layers, 64),
    .help = "Modules that predict further tokens; beside the parameters of the model" },
  { "window", COUNTED (window, 10000000), .help = "Tokens that a query attends in layers with a window; 0: all" },
  { "global_every", COUNTED (global_every, 1000), .help = "Every n-th layer attends all tokens; 0: none does" },
  { "chunked_window", FLAG, MODEL (chunked_window), .help = "The window is a fixed block (Llama 4), it does not slide" },
  { "attention_sinks", FLAG, MODEL (attention_sinks), .help = "A learned logit for each head (gpt-oss)" },
  { "attention_bias", FLAG, MODEL (attention_bias), .help = "Biases on Q, K, V and the output projection" },
  { "mlp_bias", FLAG, MODEL (mlp_bias), .help = "Biases in MLPs and experts" },
  { "norm_bias", FLAG, MODEL (norm_bias), .help = "Biases on LayerNorms, whatever the linear layers have" },
  { "head_bias", FLAG, MODEL (head_bias), .help = "A bias on the logits" },
  { "qk_norm_full", FLAG, MODEL (qk_norm_full), .help = "qk_norm has a scale for each head, not one for all" },
  { "layer_norms", SC_FIELD_COUNT, .min = 1, .max = 4, .fallback = "2", MODEL (layer_norms),
    .help = "Norms of hidden size in a layer: 1 where attention and MLP share one, 4 where both have one behind as well" },
  { "parallel_attention", FLAG, MODEL (parallel_attention), .help = "Attention and MLP side by side" },
  { "embedding_dim", SC_FIELD_COUNT, .min = 1, .max = 1000000, .derived = "hidden", MODEL (embedding_dim),
    .help = "Width of the embedding, where matrices lead to hidden and back (OPT-350m)" },
  { "no_final_norm", FLAG, MODEL (no_final_norm), .help = "No norm between the last layer and the head" },
  { "extra", SC_FIELD_LATER, .help = "Whatever else a published row says" },
  { .key = NULL },
};

#define PLAN(member) .offset = offsetof (ScPlan, member)
#define ELEMENTS(member) SC_FIELD_COUNT64, .min = 0, .max = 1e15, .offset = offsetof (ScPlan, zero.member)

static const ScField zero_fields[] = {
  { "all_reduce", SC_FIELD_BOOL, .derived = "as the framework has it", .offset = offsetof (ScPlan, zero.all_reduce),
    .help = "Stages 1 and 2: gradients are summed whole on every rank instead of scattered (DeepSpeed's "
            "use_multi_rank_bucket_allreduce, its default)" },
  { "allgather_bucket", SC_FIELD_COUNT64, .min = 1, .max = 1e15, .offset = offsetof (ScPlan, zero.allgather_bucket), .derived = "500000000",
    .help = "Stages 1 and 2: elements gathered at once behind the optimizer (allgather_bucket_size)" },
  { "prefetch_bucket", ELEMENTS (prefetch_bucket), .derived = "50000000",
    .help = "Stage 3: elements gathered ahead at each module (stage3_prefetch_bucket_size)" },
  { "max_live", ELEMENTS (max_live), .derived = "1000000000",
    .help = "Stage 3: elements gathered at any time (stage3_max_live_parameters)" },
  { "max_reuse_distance", ELEMENTS (max_reuse_distance), .derived = "1000000000",
    .help = "Stage 3: what is used again within so many elements stays (stage3_max_reuse_distance)" },
  { "persistence_threshold", ELEMENTS (persistence_threshold), .derived = "100000",
    .help = "Stage 3: smaller tensors stay on every rank (stage3_param_persistence_threshold)" },
  { "hpz", SC_FIELD_COUNT, .min = 2, .max = 65536, .derived = "none", .offset = offsetof (ScPlan, zero.hpz),
    .help = "Stage 3: ranks that share a second copy, for all gathers of a step but the first (zero_hpz_partition_size)" },
  { "quantized_weights", SC_FIELD_BOOL, .fallback = "false", .offset = offsetof (ScPlan, zero.quantized_weights),
    .help = "Stage 3: weights are gathered in 8 bits (zero_quantized_weights)" },
  { "quantized_gradients", SC_FIELD_COUNT, .min = 2, .max = 65536, .derived = "none", .offset = offsetof (ScPlan, zero.quantized_gradients),
    .help = "Stage 3: ranks of a node; gradients are exchanged in 4 bits, first over them, then their sums across nodes (zero_quantized_gradients)" },
  { .key = NULL },
};
#define SIZE(member, most) SC_FIELD_COUNT, .min = 1, .max = most, .fallback = "1", PLAN (member)

static const ScField plan_fields[] = {
  { "tp", SIZE (tp, 1024), .help = "Tensor-parallel size" },
  { "pp", SIZE (pp, 1000), .help = "Pipeline stages" },
  { "vpp", SIZE (vpp, MAX_CHUNKS), .help = "Chunks per stage (virtual stages); 1: not interleaved" },
  { "dp", SC_FIELD_COUNT, .min = 1, .max = 8000000, .derived = "gpus / (tp x pp x cp)", PLAN (dp),
    .help = "Data-parallel size" },
  { "cp", SIZE (cp, 1024), .help = "Context-parallel size: ranks that share out each sequence, two chunks each (zig-zag)" },
  { "cp_comm", SC_FIELD_CHOICE, .choices = cp_comms, .fallback = "p2p", PLAN (cp_comm),
    .help = "How they see all of it: a ring of keys and values under attention, their all-gather, exchanged heads (Ulysses), or heads "
            "inside groups and a ring over them" },
  { "cp_a2a", SC_FIELD_COUNT, .min = 0, .max = 1024, .fallback = "0", PLAN (cp_a2a),
    .help = "cp_comm a2a+p2p: ranks that exchange heads, neighbours; the other cp / cp_a2a are a ring" },
  { "ep", SIZE (ep, 1024), .help = "Expert-parallel size: ranks of a stage that share out the experts" },
  { "etp", SC_FIELD_COUNT, .min = 1, .max = 1024, .derived = "tp", PLAN (etp), .help = "Tensor parallelism of each expert" },
  { "gpus", SC_FIELD_COUNT, .min = 1, .max = 8000000, .derived = "tp x pp x cp x dp", PLAN (gpus),
    .help = "World size; give dp or gpus" },
  { "sequence_parallel", FLAG, PLAN (sequence_parallel),
    .help = "Norms and residuals split along the sequence, with tp > 1" },
  { "sharding", SC_FIELD_CHOICE, .choices = shardings, .fallback = "none", PLAN (sharding),
    .help = "What data-parallel ranks share out" },
  { "schedule", SC_FIELD_NAME, .choices = schedules, .derived = "none if pp is 1, 1f1b if vpp is 1, else interleaved",
    PLAN (schedule), .help = "Order of the pipeline" },
  { "schedule_csv", SC_FIELD_STRING, .derived = "none", PLAN (schedule_csv),
    .help = "Schedule csv: a file with a row per pipeline rank, cells like 2F0, 0I1, 1W3, 3B2 (stage, pass, micro-batch)" },
  { "vocab_parallel", SC_FIELD_CHOICE, .choices = vocabs, .fallback = "none", PLAN (vocab_parallel),
    .help = "All pipeline ranks share out both tables, and their passes stand between those of the schedule (arXiv 2411.05288): with two barriers, with one, "
            "or with all ranks at once" },
  { "microbatch_group", SC_FIELD_COUNT, .min = 1, .max = 16383, .derived = "pp", PLAN (microbatch_group),
    .help = "Interleaved: micro-batches that a chunk runs before the next one's turn" },
  { "stage_layers", SC_FIELD_OTHER, .derived = "balanced; where they do not divide, the middle stages take one more",
    .help = "Layers of each of the pp x vpp virtual stages, an array" },
  { "pipeline_layout", SC_FIELD_STRING, .derived = "none", PLAN (pipeline_layout),
    .help = "The same as Megatron's --pipeline-model-parallel-layout, \"Et*3|(tt|)*29L\": E embedding, t layer, m MTP, L loss, | ends a stage, "
            "*n repeats a symbol or a bracket; vpp follows" },
  { "profiled_ms", SC_FIELD_OTHER, .table = &sc_profile_table, .derived = "our own costs",
    .help = "Times of passes as measured, TP collectives and recomputing included, in place of ours" },
  { "microbatch_factors", SC_FIELD_OTHER, .derived = "all alike",
    .help = "Compute time of micro-batches 0, 1, ... over that of an even one, an array, again from its start where it ends" },
  { "account_for_embedding", FLAG, PLAN (account_for_embedding), .help = "Balancing counts the embedding as a layer" },
  { "account_for_loss", FLAG, PLAN (account_for_loss), .help = "Balancing counts head and loss as a layer" },
  { "recompute", SC_FIELD_STRING, .fallback = "none", .offset = SC_FIELD_NOWHERE,
    .help = "What the backward pass computes again: nothing, selective (the attention core), full (the layer), every:N (each N-th layer), "
            "selective-op (what torchtitan does not save), modules:A,B (stepcast list modules)" },
  { "recompute_method", SC_FIELD_CHOICE, .choices = recompute_methods, .fallback = "uniform", PLAN (recompute_method),
    .help = "Of recompute full: groups of recompute_layers neighbours keep one input, or the first recompute_layers of each virtual stage theirs" },
  { "recompute_layers", SC_FIELD_COUNT, .min = 0, .max = 1000, .derived = "uniform: 1; with partial_microbatches 0", PLAN (recompute_layers),
    .help = "Layers of a group, or, block, of each virtual stage that are recomputed" },
  { "partial_microbatches", SC_FIELD_COUNT, .min = 0, .max = 16383, .fallback = "0", PLAN (partial_microbatches),
    .help = "Of each window of micro-batches in flight, those that recompute the first recompute_layers layers of a stage only" },
  { "micro_batch", SC_FIELD_COUNT, .min = 1, .max = 65536, PLAN (micro_batch), .help = "Sequences of a micro-batch" },
  { "global_batch", SC_FIELD_COUNT, .min = 1, .max = 1000000000, PLAN (global_batch), .help = "Sequences of a step" },
  { "dtype", SC_FIELD_CHOICE, .choices = dtypes, .fallback = "bf16", PLAN (dtype),
    .help = "Data type of weights and activations; fp8, mxfp8, nvfp4: of the linear layers' products, all else is bf16" },
  { "fp8_recipe", SC_FIELD_STRING, .derived = "fp8: delayed", .offset = SC_FIELD_NOWHERE,
    .help = "How tensors are scaled: with dtype fp8 delayed, tensorwise, rowwise or blockwise (stepcast list precisions)" },
  { "fp8_param_gather", FLAG, PLAN (fp8_param_gather),
    .help = "FSDP2 with dtype fp8, tensorwise: weights of linear layers are cast before their gather, with scales of the whole model made once a step "
            "(torchao's enable_fsdp_float8_all_gather and precomputed scales)" },
  { "grad_dtype", SC_FIELD_CHOICE, .choices = grad_dtypes, .derived = "fp16 with fp16, else fp32", PLAN (grad_dtype),
    .help = "Data type of the gradient buffer and its reduction" },
  { "optimizer", SC_FIELD_CHOICE, .choices = optimizers, .fallback = "adam", PLAN (optimizer),
    .help = "What it keeps and moves for each parameter: stepcast list optimizers" },
  { "attention", SC_FIELD_CHOICE, .choices = attentions, .fallback = "flash", PLAN (attention),
    .help = "Attention kernels" },
  { "overlap_grad", SC_FIELD_BOOL, .derived = "true with zero3, FSDP and PyTorch's DDP, else false", PLAN (overlap_grad),
    .help = "Reduce gradients under backward (DeepSpeed's overlap_comm)" },
  { "overlap_param", SC_FIELD_BOOL, .derived = "true with zero3 and FSDP, else false", PLAN (overlap_param),
    .help = "Gather parameters under compute, with optimizers shared out under the first forward; needs sharding" },
  { "overlap_p2p", FLAG, PLAN (overlap_p2p), .help = "Send and receive under compute (1f1b cannot)" },
  { "tp_overlap", FLAG, PLAN (tp_overlap), .help = "TP collectives in chunks beside their products (Transformer Engine's user buffers); needs sequence_parallel" },
  { "scatter_gather", FLAG, PLAN (scatter_gather),
    .help = "Without sequence parallelism: send 1/tp of the tensor between stages and gather it" },
  { "bucket_params", SC_FIELD_COUNT64, .min = 1, .max = 1e15, 
    .derived = "DeepSpeed: 5e8; PyTorch's DDP: 25 MiB of gradients; else the larger of 40e6 and 1e6 x dp", PLAN (bucket_params),
    .help = "Parameters of a gradient bucket" },
  { "grad_sync", SC_FIELD_CHOICE, .choices = grad_syncs, .derived = "every with zero2, zero3 and, without stages, FSDP; else last", PLAN (grad_sync),
    .help = "Micro-batches whose gradients are reduced: all, or the last of a step (no_sync in the others)" },
  { "reshard_after_forward", SC_FIELD_COUNT, .min = 2, .max = 65536, .derived = "the shard group", PLAN (reshard_after_forward),
    .help = "fsdp-full: ranks that share what forward gathered, for backward to gather from (FSDP2's reshard_after_forward: N)" },
  { "zero", SC_FIELD_OBJECT, .table = &sc_zero_table, .derived = "DeepSpeed's defaults", .help = "What else DeepSpeed's zero_optimization says" },
  { "rank_order", SC_FIELD_CHOICE, .choices = rank_orders, .fallback = "tp-cp-ep-dp-pp", PLAN (rank_order),
    .help = "Which neighbours in rank number are near, fastest first" },
  { "post_validation", FLAG, PLAN (post_validation),
    .help = "Each stage steps its optimizer as soon as it has its gradients; norm and overflow are checked afterwards (zero bubble)" },
  { "one_queue", FLAG, PLAN (one_queue), .help = "CUDA_DEVICE_MAX_CONNECTIONS=1: one hardware queue for all streams" },
  { "launch_blocking", FLAG, PLAN (launch_blocking), .help = "CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel of a pass before it issues the next" },
  { "moe_dispatcher", SC_FIELD_CHOICE, .choices = dispatchers, .fallback = "all-to-all", PLAN (moe_dispatcher),
    .help = "How tokens reach their experts: a copy for each expert, or once to each node and rank (DeepEP)" },
  { "moe_node_limit", SC_FIELD_COUNT, .min = 0, .max = 65536, .fallback = "0", PLAN (moe_node_limit),
    .help = "Nodes that the experts of a token are on, at most; 0: any. Needs deepep" },
  { "moe_fp8_dispatch", FLAG, PLAN (moe_fp8_dispatch),
    .help = "With a narrow dtype: rows, and in backward their gradients, go to the experts cast; what comes back is not" },
  { "moe_shared_overlap", FLAG, PLAN (moe_shared_overlap), .help = "Shared experts run beside the exchanges of the routed ones" },
  { "moe_capacity_factor", SC_FIELD_NUMBER, .min = 0, .max = 1000, .fallback = "0", PLAN (moe_capacity_factor),
    .help = "Tokens of an expert over their mean, at most; others are dropped. 0: none is" },
  { "moe_pad_to_capacity", SC_FIELD_BOOL, .fallback = "true", PLAN (moe_pad_to_capacity),
    .help = "With a capacity every expert works on so many rows, whatever it got" },
  { "moe_imbalance", SC_FIELD_NUMBER, .min = 1, .max = 1e6, .derived = "1", PLAN (moe_imbalance),
    .help = "Rows of the most loaded expert-parallel rank over their mean; that rank's time and memory are the forecast's" },
  { "moe_histogram", SC_FIELD_OTHER, .derived = "balanced", .help = "Tokens of each expert, an array; relative to their sum" },
  { "moe_routing", SC_FIELD_STRING, .derived = "balanced", PLAN (moe_routing),
    .help = "A file of such lines, numbers split by commas: one line, or one for each layer with experts" },
  { "cuda_graphs", FLAG, PLAN (cuda_graphs),
    .help = "Forward and backward passes are replayed as CUDA graphs, without the host's pace; what graphs hold in memory is not counted" },
  { "expandable_segments", FLAG, PLAN (expandable_segments),
    .help = "PyTorch's allocator lets segments grow (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True): less is reserved that nobody has" },
  { "shard_group", SC_FIELD_COUNT, .min = 2, .max = 8000000, .derived = "all data-parallel ranks", PLAN (shard_group),
    .help = "Ranks that share one sharded copy: hsdp, or an instance of the distributed optimizer" },
  { "offload", SC_FIELD_CHOICE, .choices = offloads, .fallback = "none", PLAN (offload),
    .help = "What lives in host memory: optimizer states, whose step is then taken there, weights, or both; and what layers save, between their forward and "
            "their backward" },
  { "offload_layers", SC_FIELD_COUNT, .min = 1, .max = 1000, .derived = "all but the last", PLAN (offload_layers),
    .help = "With activations offloaded: of the first layers (Megatron's cpu_offloading_num_layers)" },
  { "extra", SC_FIELD_LATER, .help = "Whatever else a published row says" },
  { .key = NULL },
};

static const ScField workload_fields[] = {
  { "name", SC_FIELD_STRING, .offset = offsetof (ScWorkload, name), .help = "Name" },
  { "source", SC_FIELD_STRING, .derived = "own", .offset = offsetof (ScWorkload, source),
    .help = "Where model and plan are published" },
  { "software", SC_FIELD_OTHER, .table = &sc_software_table, .derived = "megatron-core", .help = "Training framework" },
  { "model", SC_FIELD_OTHER, .table = &sc_model_table, .help = "an object, the model" },
  { "seq", SC_FIELD_COUNT, .min = 1, .max = 10000000, .offset = offsetof (ScWorkload, seq),
    .help = "Tokens per sequence" },
  { "seq_lengths", SC_FIELD_OTHER, .derived = "one document fills each sequence",
    .help = "Lengths of documents that are packed into sequences: an array of [length, count], or a text file with one in each line" },
  { "plan", SC_FIELD_OTHER, .table = &sc_plan_table, .help = "an object, the plan" },
  { .key = NULL },
};

#define NULLABLE .null_is_absent = TRUE
const ScFieldTable sc_software_table = { .title = "workload: software", .fields = software_fields, NULLABLE };
const ScFieldTable sc_mla_table = { .title = "workload: model: mla", .fields = mla_fields, NULLABLE };
const ScFieldTable sc_indexer_table = { .title = "workload: model: indexer", .fields = indexer_fields, NULLABLE };
const ScFieldTable sc_zero_table = { .title = "workload: plan: zero", .fields = zero_fields, NULLABLE };
const ScFieldTable sc_model_table = { .title = "workload: model", .fields = model_fields, NULLABLE };
const ScFieldTable sc_plan_table = { .title = "workload: plan", .fields = plan_fields, NULLABLE };
const ScFieldTable sc_workload_table = { .title = "workload", .fields = workload_fields };

/* ---- Parts ---- */

static gboolean
fail_framework (const ScJson *json, const cJSON *object, const Software *software, GError **error)
{
  /* Frameworks of the published vocabulary. */
  static const char *const later[] = { "nemo", "internevo", "litgpt", "torchtune", "llm.c", "colossalai", "xtuner", NULL };

  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GString) all = g_string_new (NULL);
  g_autoptr (GString) versions = g_string_new (NULL);
  for (const ScFramework *const *row = sc_framework_all (); *row != NULL; row++)
    {
      if (strcmp ((*row)->name, software->framework) == 0)
        g_string_append_printf (versions, "%s%s", versions->len > 0 ? ", " : "", (*row)->version);
      if (g_ptr_array_find_with_equal_func (names, (*row)->name, g_str_equal, NULL))
        continue;
      g_ptr_array_add (names, (gpointer) (gsize) (*row)->name);
      g_string_append_printf (all, "%s%s", all->len > 0 ? ", " : "", (*row)->name);
    }
  g_ptr_array_add (names, NULL);
  const char *nearest = sc_nearest (software->framework, (const char *const *) names->pdata);
  if (versions->len > 0)
    sc_json_fail (json, object, "version", error, "found \"%s\", expected one of %s", software->version, versions->str);
  else if (g_strv_contains (later, software->framework))
    sc_json_fail (json, object, "framework", error, "found \"%s\", which is not modelled yet, expected one of %s",
                  software->framework, all->str);
  else if (nearest != NULL)
    sc_json_fail (json, object, "framework", error, "found \"%s\", did you mean \"%s\"?", software->framework, nearest);
  else
    sc_json_fail (json, object, "framework", error, "found \"%s\", expected one of %s", software->framework, all->str);
  return FALSE;
}

static gboolean
read_software (ScWorkload *workload, const ScJson *json, GError **error)
{
  const cJSON *object = sc_fields_get (&sc_workload_table, json->root, "software");
  g_autoptr (cJSON) none = object == NULL ? cJSON_CreateObject () : NULL;
  if (object == NULL)
    object = none;
  Software software = { NULL, NULL };
  const gboolean read = sc_fields_check_object (json, object, error)
                        && sc_fields_read (&sc_software_table, json, object, &software, error);
  g_autofree char *framework = software.framework;
  g_autofree char *version = software.version;
  if (!read)
    return FALSE;
  workload->framework = sc_framework_find (framework, version);
  return workload->framework != NULL || fail_framework (json, object, &software, error);
}

static gboolean
read_stage_layers (ScPlan *plan, const ScJson *json, const cJSON *array, GError **error)
{
  static const ScField layers = { .key = "layers", .kind = SC_FIELD_COUNT, .min = 0, .max = 1000 };

  if (!sc_fields_check_array (json, array, MAX_STAGES, error))
    return FALSE;
  const guint n = (guint) cJSON_GetArraySize (array);
  if (n != plan->pp * plan->vpp)
    {
      sc_json_fail (json, array, NULL, error, "found %u elements, expected one for each of pp %u x vpp %u stages", n,
                    plan->pp, plan->vpp);
      return FALSE;
    }
  plan->stage_layers = g_new0 (guint, n);
  guint i = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    if (!sc_fields_read_value (&layers, &sc_plan_table, json, item, &plan->stage_layers[i++], error))
      return FALSE;
  return TRUE;
}

/* The stages of a layout string; chunks per rank follow from their number where the file does not say. */
static gboolean
read_layout (ScPlan *plan, const ScJson *json, const cJSON *object, GError **error)
{
  if (plan->pipeline_layout == NULL)
    return TRUE;
  g_autoptr (GError) why = NULL;
  g_autoptr (ScPipelineLayout) layout = sc_pipeline_layout_parse (plan->pipeline_layout, &why);
  if (layout == NULL)
    {
      sc_json_fail (json, object, "pipeline_layout", error, "%s", why->message);
      return FALSE;
    }
  if (sc_fields_get (&sc_plan_table, object, "stage_layers") != NULL)
    {
      sc_json_fail (json, object, "pipeline_layout", error, "found with stage_layers, expected one or the other");
      return FALSE;
    }
  if (sc_fields_get (&sc_plan_table, object, "vpp") == NULL && layout->n % plan->pp == 0)
    plan->vpp = layout->n / plan->pp;
  if (layout->n != plan->pp * plan->vpp)
    {
      sc_json_fail (json, object, "pipeline_layout", error, "found %u stages, expected %s pp %u%s", layout->n,
                    sc_fields_get (&sc_plan_table, object, "vpp") == NULL ? "a multiple of" : "as many as", plan->pp,
                    sc_fields_get (&sc_plan_table, object, "vpp") == NULL ? "" : " x vpp");
      return FALSE;
    }
  if (plan->vpp > MAX_CHUNKS)
    {
      sc_json_fail (json, object, "pipeline_layout", error, "found %u stages, which are %u for each of pp %u, expected at most %d", layout->n, plan->vpp,
                    plan->pp, MAX_CHUNKS);
      return FALSE;
    }
  plan->stage_layers = g_steal_pointer (&layout->layers);
  plan->stage_mtp = g_steal_pointer (&layout->mtp);
  return TRUE;
}

static gboolean
is_overridden (const ScJson *json, const char *pointer)
{
  for (guint i = 0; i < json->overrides->len; i++)
    if (strcmp (((const ScJsonOverride *) g_ptr_array_index (json->overrides, i))->pointer, pointer) == 0)
      return TRUE;
  return FALSE;
}

static gboolean
fail_recompute (const ScJson *json, const cJSON *item, const char *text, GError **error)
{
  const char *known[G_N_ELEMENTS (recomputes)] = { NULL };
  for (guint i = 0; recomputes[i].name != NULL; i++)
    known[i] = recomputes[i].name;
  const char *nearest = sc_nearest (text, known);
  if (g_str_has_prefix (text, "policy:"))
    sc_json_fail (json, item, NULL, error, "found \"%s\", but what a policy saves is not modelled yet, expected none, full or modules:...", text);
  else if (nearest != NULL)
    sc_json_fail (json, item, NULL, error, "found \"%s\", did you mean \"%s\"?", text, nearest);
  else
    sc_json_fail (json, item, NULL, error, "found \"%s\", expected none, selective, full, selective-op, every:N or modules:A,B", text);
  return FALSE;
}

static gboolean
fail_module (const ScJson *json, const cJSON *item, const char *name, GError **error)
{
  const char *known[SC_N_MODULES + 1] = { NULL };
  for (guint i = 0; i < SC_N_MODULES; i++)
    known[i] = sc_module_row ((ScModule) i)->name;
  const char *nearest = sc_nearest (name, known);
  if (nearest != NULL)
    sc_json_fail (json, item, NULL, error, "found module \"%s\", did you mean \"%s\"?", name, nearest);
  else
    sc_json_fail (json, item, NULL, error, "found module \"%s\", expected some of stepcast list modules", name);
  return FALSE;
}

static gboolean
read_modules (ScPlan *plan, const ScJson *json, const cJSON *item, const char *names, GError **error)
{
  g_auto (GStrv) each = g_strsplit (names, ",", -1);
  plan->recompute = SC_RECOMPUTE_MODULES;
  if (each[0] == NULL)
    return fail_module (json, item, "", error);
  for (char **name = each; *name != NULL; name++)
    {
      ScModule module;
      if (!sc_module_find (g_strstrip (*name), &module))
        return fail_module (json, item, *name, error);
      plan->recompute_modules |= 1u << module;
    }
  return TRUE;
}

static gboolean
read_every (ScPlan *plan, const ScJson *json, const cJSON *item, const char *number, GError **error)
{
  guint64 n;
  if (!g_ascii_string_to_unsigned (number, 10, 1, 1000, &n, NULL))
    {
      sc_json_fail (json, item, NULL, error, "found \"every:%s\", expected a number of layers from 1 to 1000 behind the colon", number);
      return FALSE;
    }
  plan->recompute = SC_RECOMPUTE_FULL;
  plan->recompute_method = SC_RECOMPUTE_EVERY;
  plan->recompute_layers = (guint) n;
  return TRUE;
}

/* Behind the table: what else it says of recompute is in @plan. */
static gboolean
read_recompute (ScPlan *plan, const ScJson *json, const cJSON *object, GError **error)
{
  static const ScField text_field = { .key = "recompute", .kind = SC_FIELD_STRING };

  const cJSON *item = sc_fields_get (&sc_plan_table, object, "recompute");
  g_autofree char *text = NULL;
  if (item == NULL)
    return TRUE;
  if (!sc_fields_read_value (&text_field, &sc_plan_table, json, item, &text, error))
    return FALSE;
  if (g_str_has_prefix (text, "modules:"))
    return read_modules (plan, json, item, text + strlen ("modules:"), error);
  if (g_str_has_prefix (text, "every:") && (plan->recompute_layers > 0 || plan->recompute_method != SC_RECOMPUTE_UNIFORM))
    {
      sc_json_fail (json, item, NULL, error, "found \"%s\" with recompute_%s, expected one or the other", text, plan->recompute_layers > 0 ? "layers" : "method");
      return FALSE;
    }
  if (g_str_has_prefix (text, "every:"))
    return read_every (plan, json, item, text + strlen ("every:"), error);
  if (strcmp (text, "selective:some-microbatches") == 0 && plan->partial_microbatches == 0)
    {
      sc_json_fail (json, item, NULL, error, "found \"%s\" without partial_microbatches, how many of those in flight are spared", text);
      return FALSE;
    }
  for (const ScChoice *choice = recomputes; choice->name != NULL; choice++)
    if (strcmp (choice->name, text) == 0)
      {
        plan->recompute = (ScRecompute) choice->value;
        return TRUE;
      }
  return fail_recompute (json, item, text, error);
}

/* Which recipe a narrow data type stands for. */
static gboolean
read_precision (ScPlan *plan, const ScJson *json, const cJSON *object, GError **error)
{
  static const ScField text_field = { .key = "fp8_recipe", .kind = SC_FIELD_STRING };

  const cJSON *dtype = sc_fields_get (&sc_plan_table, object, "dtype"), *item = sc_fields_get (&sc_plan_table, object, "fp8_recipe");
  const char *word = dtype != NULL ? dtype->valuestring : "bf16";
  g_autofree char *recipe = NULL;
  if (item != NULL && !sc_fields_read_value (&text_field, &sc_plan_table, json, item, &recipe, error))
    return FALSE;
  plan->precision = sc_precision_find (word, recipe);
  if (recipe == NULL || plan->precision != NULL)
    return TRUE;
  const char *known[8] = { NULL };
  g_autoptr (GString) all = g_string_new (NULL);
  guint n = 0;
  for (const ScPrecision *const *row = sc_precision_all (); *row != NULL; row++)
    if (strcmp ((*row)->dtype, word) == 0)
      {
        g_string_append_printf (all, "%s%s", n > 0 ? ", " : "", (*row)->recipe);
        known[n++] = (*row)->recipe;
      }
  const char *nearest = sc_nearest (recipe, known);
  if (n == 0)
    sc_json_fail (json, item, NULL, error, "found \"%s\" with dtype %s, expected dtype fp8, mxfp8 or nvfp4 with it", recipe, word);
  else if (nearest != NULL)
    sc_json_fail (json, item, NULL, error, "found \"%s\", did you mean \"%s\"?", recipe, nearest);
  else
    sc_json_fail (json, item, NULL, error, "found \"%s\" with dtype %s, expected %s", recipe, word, all->str);
  return FALSE;
}

/* The command line may change one of the sizes whose product is the world; what follows from it gives way. */
static void
settle_world (ScJson *json, cJSON *plan)
{
  const gboolean dp = is_overridden (json, "/plan/dp"), gpus = is_overridden (json, "/plan/gpus");
  const gboolean other =
      is_overridden (json, "/plan/tp") || is_overridden (json, "/plan/pp") || is_overridden (json, "/plan/cp");
  const gboolean both =
      sc_fields_get (&sc_plan_table, plan, "dp") != NULL && sc_fields_get (&sc_plan_table, plan, "gpus") != NULL;
  if (dp && !gpus)
    cJSON_DeleteItemFromObjectCaseSensitive (plan, "gpus");
  else if ((gpus && !dp) || (other && !gpus && both && !dp))
    cJSON_DeleteItemFromObjectCaseSensitive (plan, "dp");
}

/* Where a file that @key of @object names is: a path in a workload is relative to it, one on the command line is not. */
static char *
named_path (const ScJson *json, const char *pointer, const char *name)
{
  g_autofree char *folder = g_path_get_dirname (json->file);
  const gboolean beside = strcmp (folder, ".") != 0 && !g_path_is_absolute (name) && !is_overridden (json, pointer);
  return beside ? g_build_filename (folder, name, NULL) : g_strdup (name);
}

static gboolean
read_schedule_csv (ScPlan *plan, GPtrArray *files, const ScJson *json, const cJSON *object, GError **error)
{
  const gboolean csv = g_strcmp0 (plan->schedule, sc_schedule_csv.name) == 0;
  if (csv != (plan->schedule_csv != NULL))
    {
      if (csv)
        sc_json_fail (json, object, "schedule", error, "found \"csv\" without schedule_csv, the file with the order");
      else
        sc_json_fail (json, object, "schedule_csv", error, "found with schedule \"%s\", expected \"csv\"",
                      plan->schedule != NULL ? plan->schedule : "none");
      return FALSE;
    }
  if (!csv)
    return TRUE;
  g_autofree char *path = named_path (json, "/plan/schedule_csv", plan->schedule_csv);
  plan->schedule_table = sc_schedule_csv_load (path, error);
  g_ptr_array_add (files, g_strdup (path));
  if (plan->schedule_table == NULL)
    {
      g_autofree char *pointer = sc_json_pointer (json, object, "schedule_csv");
      g_prefix_error (error, "%s: %s: ", json->file, pointer);
    }
  return plan->schedule_table != NULL;
}

static gboolean
read_histogram (ScPlan *plan, const ScJson *json, const cJSON *array, GError **error)
{
  static const ScField tokens = { .key = "tokens", .kind = SC_FIELD_NUMBER, .min = 0, .max = 1e15 };
  if (!sc_fields_check_array (json, array, MAX_EXPERTS, error))
    return FALSE;
  plan->moe_tokens = g_new0 (double, MAX (cJSON_GetArraySize (array), 1));
  guint i = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    if (!sc_fields_read_value (&tokens, &sc_plan_table, json, item, &plan->moe_tokens[i++], error))
      return FALSE;
  plan->moe_lines = 1;
  return TRUE;
}

static gboolean
read_routing (ScPlan *plan, const ScModel *model, GPtrArray *files, const ScJson *json, const cJSON *object, GError **error)
{
  const cJSON *const histogram = sc_fields_get (&sc_plan_table, object, "moe_histogram");
  const char *const key = histogram != NULL ? "moe_histogram" : "moe_routing";
  guint experts;
  if (histogram == NULL && plan->moe_routing == NULL)
    return TRUE;
  if (histogram != NULL && plan->moe_routing != NULL)
    {
      sc_json_fail (json, object, "moe_routing", error, "found with moe_histogram, expected one or the other");
      return FALSE;
    }
  if (histogram != NULL)
    {
      if (!read_histogram (plan, json, histogram, error))
        return FALSE;
      experts = (guint) cJSON_GetArraySize (histogram);
    }
  else
    {
      g_autofree char *path = named_path (json, "/plan/moe_routing", plan->moe_routing);
      g_ptr_array_add (files, g_strdup (path));
      plan->moe_tokens = sc_routing_csv_load (path, &plan->moe_lines, &experts, error);
      if (plan->moe_tokens == NULL)
        {
          g_prefix_error (error, "%s: /plan/moe_routing: ", json->file);
          return FALSE;
        }
    }
  if (experts == model->experts)
    return TRUE;
  sc_json_fail (json, object, key, error, "found numbers for %u experts, the model has %u", experts, model->experts);
  return FALSE;
}

static gboolean
read_plan (ScPlan *plan, const ScModel *model, const ScFramework *framework, GPtrArray *files, ScJson *json, GError **error)
{
  cJSON *object = cJSON_GetObjectItemCaseSensitive (json->root, "plan");
  if (!sc_fields_check_object (json, object, error))
    return FALSE;
  settle_world (json, object);
  plan->grad_dtype = SC_N_DTYPES;
  sc_zero_defaults (&plan->zero, framework);
  if (!sc_fields_read (&sc_plan_table, json, object, plan, error))
    return FALSE;
  const ScShardingRow *row = sc_sharding_of (plan->sharding, framework);
  if (sc_fields_get (&sc_plan_table, object, "overlap_grad") == NULL)
    plan->overlap_grad = row->overlap_grad;
  if (sc_fields_get (&sc_plan_table, object, "overlap_param") == NULL)
    plan->overlap_param = row->overlap_param;
  if (sc_fields_get (&sc_plan_table, object, "grad_sync") == NULL)
    plan->grad_sync = row->weights && plan->pp > 1 ? SC_GRAD_SYNC_LAST : row->grad_sync;
  if (!read_layout (plan, json, object, error) || !read_schedule_csv (plan, files, json, object, error) || !read_recompute (plan, json, object, error) || !read_precision (plan, json, object, error)
      || !read_routing (plan, model, files, json, object, error))
    return FALSE;
  const cJSON *stage_layers = sc_fields_get (&sc_plan_table, object, "stage_layers");
  const cJSON *profile = sc_fields_get (&sc_plan_table, object, "profiled_ms");
  const cJSON *factors = sc_fields_get (&sc_plan_table, object, "microbatch_factors");
  return (stage_layers == NULL || read_stage_layers (plan, json, stage_layers, error))
         && (profile == NULL || sc_profile_read (plan, json, profile, error))
         && (factors == NULL || sc_microbatch_factors_read (plan, json, factors, error));
}

/* Whatever "model" does not say itself is from the file that it names. */
static gboolean
add_hf_config (ScJson *json, GPtrArray *files, ScHfConfig **ret_hf, GError **error)
{
  static const ScField path_field = { .key = "hf_config", .kind = SC_FIELD_STRING };

  cJSON *model = cJSON_GetObjectItemCaseSensitive (json->root, "model");
  const cJSON *item = cJSON_IsObject (model) ? sc_fields_get (&sc_model_table, model, "hf_config") : NULL;
  if (item == NULL)
    return TRUE;
  g_autofree char *path = NULL;
  if (!sc_fields_read_value (&path_field, &sc_model_table, json, item, &path, error))
    return FALSE;
  g_autofree char *folder = g_path_get_dirname (json->file);
  const gboolean here =
      g_path_is_absolute (path) || strcmp (folder, ".") == 0 || is_overridden (json, "/model/hf_config");
  g_autofree char *full = here ? g_strdup (path) : g_build_filename (folder, path, NULL);
  ScHfConfig *hf = sc_hf_config_load (full, error);
  if (hf == NULL)
    {
      if (error != NULL && *error != NULL && (*error)->domain == SC_LIBRARY_ERROR)
        g_prefix_error (error, "%s: /model/hf_config: ", json->file);
      return FALSE;
    }
  sc_hf_config_add (hf, model);
  g_ptr_array_add (files, g_steal_pointer (&full));
  *ret_hf = hf;
  return TRUE;
}

/* A rule between keys is broken; the key may be one of the model's own file. */
static void
fail_rule (const ScJson *json, const ScHfConfig *hf, const char *message, GError **error)
{
  if (hf == NULL || !sc_hf_config_fail (hf, message, error))
    sc_json_fail_at (json, error, message);
}

/* "70" for a model of 70.55e9 parameters is fine, for one of 65e9 it is not. */
static gboolean
check_params_b (const ScWorkload *workload, const ScJson *json, const cJSON *model, GError **error)
{
  const cJSON *params_b = sc_fields_get (&sc_model_table, model, "params_b");
  if (params_b == NULL)
    return TRUE;
  const double counted = (double) sc_model_params (&workload->model, workload->seq) / 1e9;
  if (fabs (params_b->valuedouble - counted) <= PARAMS_TOLERANCE * counted)
    return TRUE;
  sc_json_fail (json, params_b, NULL, error, "found %g, but the model has %.4g billion parameters",
                params_b->valuedouble, counted);
  return FALSE;
}

/* A key that changes nothing would be taken for one that does, even where it says what is the default. */
static gboolean
check_given (const ScWorkload *workload, const cJSON *plan, GError **error)
{
  static const char *const keys[] = { "microbatch_group", "bucket_params", NULL };
  for (const char *const *key = keys; *key != NULL; key++)
    if (sc_fields_get (&sc_plan_table, plan, *key) != NULL && !sc_workload_check_given (workload, *key, error))
      return FALSE;
  const cJSON *const zero = sc_fields_get (&sc_plan_table, plan, "zero");
  for (const ScField *field = zero_fields; zero != NULL && field->key != NULL; field++)
    {
      g_autofree char *key = g_strconcat ("zero/", field->key, NULL);
      if (sc_fields_get (&sc_zero_table, zero, field->key) != NULL && !sc_workload_check_given (workload, key, error))
        return FALSE;
    }
  return TRUE;
}

ScWorkload *
sc_workload_from_json (ScJson *json, GError **error)
{
  return sc_workload_from_json_hf (json, NULL, error);
}

ScWorkload *
sc_workload_from_json_hf (ScJson *json, ScHfConfig **ret_hf, GError **error)
{
  g_autoptr (ScWorkload) workload = g_new0 (ScWorkload, 1);
  if (!sc_fields_read (&sc_workload_table, json, json->root, workload, error) || !read_software (workload, json, error))
    return NULL;
  workload->files = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (ScHfConfig) hf = NULL;
  const cJSON *model = sc_fields_get (&sc_workload_table, json->root, "model");
  if (!add_hf_config (json, workload->files, &hf, error) || !sc_fields_check_object (json, model, error)
      || !sc_fields_read (&sc_model_table, json, model, &workload->model, error)
      || !read_plan (&workload->plan, &workload->model, workload->framework, workload->files, json, error))
    return NULL;
  if (workload->model.name == NULL)
    workload->model.name = g_strdup (workload->name);

  const cJSON *lengths = sc_fields_get (&sc_workload_table, json->root, "seq_lengths");
  if (lengths != NULL)
    workload->documents = sc_documents_read (json, lengths, workload->seq, is_overridden (json, "/seq_lengths"), workload->files, error);
  if (lengths != NULL && workload->documents == NULL)
    return NULL;

  g_autoptr (GError) why = NULL;
  if (!sc_workload_complete (workload, &why) || !sc_workload_check (workload, &why)
      || !check_given (workload, sc_fields_get (&sc_workload_table, json->root, "plan"), &why))
    {
      fail_rule (json, hf, why->message, error);
      return NULL;
    }
  if (!check_params_b (workload, json, model, error))
    return NULL;
  workload->packing = sc_packing_new (workload);
  if (ret_hf != NULL)
    *ret_hf = g_steal_pointer (&hf);
  return g_steal_pointer (&workload);
}

ScWorkload *
sc_workload_from_text (const char *file, const char *text, gsize length, char **set, GError **error)
{
  g_autoptr (ScJson) json = sc_json_parse (file, text, length, error);
  if (json == NULL)
    return NULL;
  if (sc_hf_config_is (json))
    {
      sc_json_fail (json, json->root, NULL, error,
                    "found a model alone, expected a workload; in one, \"model\": {\"hf_config\": \"...\"} takes it");
      return NULL;
    }
  if (!sc_override_apply (json, SC_OVERRIDE_WORKLOAD, set, error))
    return NULL;
  return sc_workload_from_json (json, error);
}

ScWorkload *
sc_workload_load (const char *argument, char **set, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_WORKLOAD, argument, &file, &length, error);
  return text != NULL ? sc_workload_from_text (file, text, length, set, error) : NULL;
}
