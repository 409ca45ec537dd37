/* SPDX-License-Identifier: GPL-3.0-or-later */
/* workload.h - what is trained, and by which plan.
 * Layer: models.  Filled by src/workload-json.c in the vocabulary of published training tables, checked by
 * sc_workload_check(), const from then on. */
#pragma once
#include "models/device.h"
#include "models/framework.h"
#include "models/schedule.h"
#include "models/topology.h"

typedef enum { SC_NORM_LAYERNORM, SC_NORM_RMSNORM } ScNorm;
typedef enum { SC_POSITIONS_LEARNED, SC_POSITIONS_ROPE, SC_POSITIONS_ALIBI, SC_POSITIONS_NONE } ScPositions;
typedef enum { SC_ATTENTION_FLASH, SC_ATTENTION_UNFUSED } ScAttention;
typedef enum { SC_RECOMPUTE_NONE, SC_RECOMPUTE_SELECTIVE, SC_RECOMPUTE_FULL, SC_RECOMPUTE_MODULES, SC_RECOMPUTE_OPS } ScRecompute;
typedef enum { SC_RECOMPUTE_UNIFORM, SC_RECOMPUTE_BLOCK, SC_RECOMPUTE_EVERY } ScRecomputeMethod;
typedef enum
{
  SC_SHARDING_NONE,
  SC_SHARDING_ZERO1,
  SC_SHARDING_DISTRIBUTED_OPTIMIZER,
  SC_SHARDING_ZERO2,
  SC_SHARDING_ZERO3,
  SC_SHARDING_FSDP_FULL,
  SC_SHARDING_FSDP_GRAD_OP,
  SC_SHARDING_HSDP,
  SC_N_SHARDINGS
} ScSharding; /* rows of models/sharding.h */
typedef enum /* what lives in host memory: bits */
{
  SC_OFFLOAD_NONE,
  SC_OFFLOAD_OPTIMIZER,
  SC_OFFLOAD_PARAMS,
  SC_OFFLOAD_BOTH,
  SC_OFFLOAD_ACTIVATIONS, /* between forward and backward */
  SC_N_OFFLOADS = 2 * SC_OFFLOAD_ACTIVATIONS
} ScOffload;
typedef enum { SC_GRAD_SYNC_LAST, SC_GRAD_SYNC_EVERY, SC_N_GRAD_SYNCS } ScGradSync; /* micro-batches whose gradients are reduced */
typedef enum { SC_CP_RING, SC_CP_ALL_GATHER, SC_CP_A2A, SC_CP_HIERARCHICAL } ScCpComm;
typedef struct ScPrecision ScPrecision; /* models/precision.h */

/* models/optimizer.h */
typedef enum
{
  SC_OPTIMIZER_ADAM,
  SC_OPTIMIZER_ADAM_8BIT,
  SC_OPTIMIZER_SGD_MOMENTUM,
  SC_OPTIMIZER_LION,
  SC_OPTIMIZER_MUON,
  SC_N_OPTIMIZERS
} ScOptimizer;
typedef enum { SC_ORDER_TP_CP_EP_DP_PP, SC_ORDER_TP_CP_EP_PP_DP } ScRankOrder;

typedef enum { SC_DISPATCHER_ALL_TO_ALL, SC_DISPATCHER_DEEPEP } ScDispatcher;

/* Multi-head latent attention (DeepSeek-V2); kv_lora_rank 0: none. */
typedef struct
{
  guint q_lora_rank;      /* 0: queries are not compressed */
  guint kv_lora_rank;
  guint qk_nope_head_dim; /* of queries and keys, without positions ... */
  guint qk_rope_head_dim; /* ... and with; keys share it */
  guint v_head_dim;
} ScMla;

/* Which keys a query attends, chosen by a small attention of its own (DeepSeek-V3.2); heads 0: none. */
typedef struct
{
  guint heads, head_dim, top_k;
} ScIndexer;

/* Symbols of MODELLING 0.2 in brackets.  What is counted (models/model.h), but not simulated: sc_workload_check_modelled(). */
typedef struct
{
  char       *name;
  guint       hidden;    /* [h] */
  guint       layers;    /* [L] */
  guint       heads;     /* [a] */
  guint       kv_heads;  /* [g] default heads */
  guint       head_dim;  /* [d] default hidden / heads; with MLA the width of queries and keys */
  guint       ffn;       /* [f] width of one branch; default 4 x hidden */
  gboolean    gated_mlp; /* SwiGLU: three matrices */
  guint       vocab;     /* [V] as the run pads it */
  gboolean    tied_embeddings;
  ScNorm      norm;
  ScPositions positions;
  guint       max_positions;  /* rows of a learned position table; default seq */
  gboolean    linear_bias;    /* biases on all linear layers and, with LayerNorm, on the norms */
  gboolean    qkv_bias;       /* biases on Q, K, V only (Qwen2) */
  gboolean    norm_bias;      /* LayerNorm has a shift, whatever the linear layers have */
  gboolean    qk_norm;        /* norm of 2 x head_dim per layer (Qwen3) */
  gboolean    embedding_norm; /* BLOOM: a norm behind the embedding */
  double      dropout;        /* 0: no dropout kernels and masks */

  /* Mixture of experts; experts 0: none. */
  guint       experts;        /* [E] routed ones of a layer */
  guint       top_k;          /* [k] of them for each token */
  guint       expert_ffn;     /* [f_e] width of one branch of an expert; default ffn */
  guint       shared_experts; /* [E_s] for all tokens, in units of expert_ffn */
  gboolean    shared_gate;    /* a gate on what the shared ones say (Qwen2-MoE) */
  guint       dense_layers;   /* the first layers, without experts */
  guint       moe_every;      /* behind them, layers n, 2n, ... of the model have experts (Llama 4); default 1 */
  gboolean    router_bias;    /* one number per expert */

  ScMla       mla;
  ScIndexer   indexer;
  guint       mtp_layers;     /* multi-token prediction modules (DeepSeek-V3) */
  guint       window;         /* tokens that a query attends in windowed layers; 0: all */
  guint       global_every;   /* layers n, 2n, ... attend all; 0: every layer has the window */
  gboolean    chunked_window; /* fixed blocks instead of a sliding window (Llama 4) */
  gboolean    attention_sinks; /* a learned logit per head (gpt-oss) */
  gboolean    attention_bias; /* biases on Q, K, V and the output projection */
  gboolean    mlp_bias;       /* biases in MLPs and experts */
  gboolean    head_bias;      /* a bias on the logits */
  gboolean    qk_norm_full;   /* qk_norm has a scale for each head (OLMo 2) */
  guint       layer_norms;    /* of a layer: 1, 2 or 4 (Gemma 2); 0: 2 */
  gboolean    parallel_attention; /* attention and MLP side by side */
  guint       embedding_dim;  /* width of the tables, where matrices lead to hidden and back (OPT-350m); 0: hidden */
  gboolean    no_final_norm;  /* none between the last layer and the head */
} ScModel;

/* Times of passes that the user measured (plan.profiled_ms); n 0: none. */
typedef struct
{
  guint    n;
  gboolean by_stage; /* n is pp * vpp: of all that each virtual stage does; else 1: of the layers of a full pipeline rank */
  gboolean whole;    /* backward passes were not measured in parts: all of it counts as input gradients' */
  double  *seconds[SC_N_PASSES]; /* [n] of one micro-batch, owned; BACKWARD: INPUT + WEIGHT */
  double   transfer_s; /* of a boundary tensor to a neighbour, nothing beside it; 0: ours */
} ScProfile;

/* What DeepSpeed's zero_optimization says beside the bucket of the reduction, which is plan.bucket_params; in elements. */
typedef struct
{
  gboolean all_reduce;            /* gradients are summed whole on every rank, which keeps its share */
  guint64  allgather_bucket;      /* stages 1, 2: parameters gathered at once behind the optimizer */
  guint64  prefetch_bucket;       /* stage 3: gathered ahead at each module */
  guint64  max_live;              /* stage 3: gathered at any time */
  guint64  max_reuse_distance;    /* stage 3: what is used again within so many stays */
  guint64  persistence_threshold; /* stage 3: smaller tensors are not shared out */
  guint    hpz;                   /* stage 3: ranks that share a second copy, for all gathers of a step but the first; 0: none */
  gboolean quantized_weights;     /* stage 3: gathered in 8 bits */
  guint    quantized_gradients;   /* stage 3: ranks of a node, over which gradients are reduced first, in 4 bits, then across nodes; 0: as they are */
} ScZero;

typedef struct
{
  guint       tp, pp, vpp, dp, cp, ep;
  ScCpComm    cp_comm;           /* how ranks that have parts of a sequence see the rest of it (layer-context.c) */
  guint       cp_a2a;            /* HIERARCHICAL: ranks that exchange heads; cp / cp_a2a are in a ring */
  guint       etp;               /* tensor parallelism of experts; default tp */
  guint       shard_group;       /* ranks of dp x cp that share one sharded copy; 0: all of them */
  guint       gpus;              /* tp * pp * dp * cp */
  gboolean    sequence_parallel; /* default tp > 1 where the workload says nothing: false */
  ScSharding  sharding;
  const char *schedule;          /* row of models/schedule.h: "none" (pp == 1), "1f1b", "interleaved", ... */
  char       *schedule_csv;      /* schedule "csv": where its order was read from; else NULL */
  ScOrders   *schedule_table;    /* ... and the order, owned */
  ScVocab     vocab_parallel;    /* who holds the vocabulary's layers (models/vocab.h) */
  guint       microbatch_group;  /* interleaved: micro-batches per chunk and turn [G]; default pp */
  guint      *stage_layers;      /* [pp * vpp] layers of virtual stage j, owned; NULL: balanced */
  char       *pipeline_layout;   /* where they are from, owned; NULL: given as they are, or not */
  guint      *stage_mtp;         /* [pp * vpp] multi-token prediction modules of virtual stage j, as the layout says, owned; or NULL */
  gboolean    account_for_embedding; /* balanced split: the embedding counts as a layer's slot */
  gboolean    account_for_loss;      /* balanced split: the head and loss count as a layer's slot */
  ScRecompute recompute;         /* models/recompute.h */
  guint       recompute_modules; /* MODULES: bits 1 << ScModule */
  ScRecomputeMethod recompute_method; /* FULL: which layers */
  guint       recompute_layers;  /* n: UNIFORM: of a group that keeps one input, 0: 1; BLOCK: the first ones of each virtual stage; EVERY: every n-th */
  guint       partial_microbatches; /* of each window of those in flight, micro-batches that recompute the first recompute_layers layers only */
  guint       micro_batch;       /* [b] sequences */
  guint       global_batch;      /* [B] sequences */
  ScDtype     dtype;             /* bf16, fp16, fp32 */
  const ScPrecision *precision;  /* of the linear layers' products, static row; NULL: dtype */
  gboolean    fp8_param_gather;  /* FSDP: weights of linear layers are gathered cast */
  ScDtype     grad_dtype;        /* width of the gradient buffer and of its reduction; default fp32 for bf16, fp16 for fp16 */
  ScOptimizer optimizer;
  ScAttention attention;
  gboolean    overlap_grad;      /* reduce buckets under the last backward */
  gboolean    overlap_param;     /* gather parameters under the first forward (distributed optimizer) */
  gboolean    overlap_p2p;       /* interleaved: sends and receives under compute */
  gboolean    tp_overlap;        /* TP collectives under the GEMMs they feed, in chunks (layer-overlap.c) */
  gboolean    scatter_gather;    /* without SP: send 1/tp of the boundary tensor and all-gather it */
  guint64     bucket_params;     /* parameters per gradient bucket; default: what the framework does */
  ScGradSync  grad_sync;         /* default: what the sharding does */
  guint       reshard_after_forward; /* FSDP: ranks that share what forward gathered; 0: all of the shard group */
  ScZero      zero;
  ScOffload   offload;
  guint       offload_layers;    /* ACTIVATIONS: of the first layers; default all but the last */
  ScRankOrder rank_order;
  gboolean    post_validation;   /* no rank waits for the gradient norm before its optimizer step */
  gboolean    one_queue;         /* CUDA_DEVICE_MAX_CONNECTIONS=1 */
  gboolean    launch_blocking;   /* CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel before it issues the next */
  gboolean    expandable_segments; /* of PyTorch's allocator */
  gboolean    cuda_graphs;       /* passes are captured: their kernels do not wait for the host; memory that graphs hold is not counted */
  ScProfile   profile;
  double     *microbatch_factors; /* [n_microbatch_factors] time of micro-batches 0, 1, ... over the mean, round and round, owned; NULL: alike */
  guint       n_microbatch_factors;

  /* Experts: who sends what to whom. */
  ScDispatcher moe_dispatcher;      /* a copy for each expert of a token, or one for each node (DeepEP) */
  guint       moe_node_limit;       /* nodes that a token's experts are on, most; 0: any */
  gboolean    moe_fp8_dispatch;     /* rows, and their gradients, go to the experts cast */
  gboolean    moe_shared_overlap;   /* shared experts beside the exchanges of the routed ones */
  double      moe_capacity_factor;  /* rows of an expert over their mean, most; 0: none is dropped */
  gboolean    moe_pad_to_capacity;  /* ... and all have so many */
  double      moe_imbalance;        /* rows of the most loaded expert-parallel rank over their mean; 0: 1 */
  char       *moe_routing;          /* where recorded tokens were read from; else NULL */
  double     *moe_tokens;           /* [moe_lines * experts] recorded tokens of each expert, owned; NULL: balanced */
  guint       moe_lines;            /* 0 or 1: all layers alike, else one for each layer with experts */
} ScPlan;

/* Documents that are packed into sequences. */
typedef struct
{
  guint   *lengths; /* [n] tokens, at most seq */
  guint64 *counts;  /* [n] how often each, or NULL: one after the other, in this order */
  guint    n;
} ScDocuments;

void   sc_documents_free (ScDocuments *documents);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScDocuments, sc_documents_free)
double sc_documents_mean_length (const ScDocuments *documents);

typedef struct _ScPacking ScPacking; /* packing.h */

typedef struct
{
  char   *name;
  char   *source;  /* where model and plan are published; NULL: own */
  ScModel model;
  guint   seq;     /* [s] tokens per sequence */
  ScDocuments *documents; /* in it, owned; NULL: one that fills it */
  ScPacking   *packing;   /* of them, owned; made once the workload has been checked */
  ScPlan  plan;
  const ScFramework *framework; /* static row */
  GPtrArray *files; /* char *, owned: read beside the workload's own file; NULL: none */
} ScWorkload;

void sc_workload_free (ScWorkload *workload);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScWorkload, sc_workload_free)

#define SC_WORKLOAD_ERROR (sc_workload_error_quark ())
GQuark sc_workload_error_quark (void);
typedef enum
{
  SC_WORKLOAD_ERROR_INVALID, /* sizes that cannot be; the message starts with the JSON pointer of the key */
} ScWorkloadError;

/* Fills what was left out (0, NULL, dtype SC_N_DTYPES) and follows from other keys: kv_heads, head_dim, ffn,
 * max_positions, schedule, microbatch_group, grad_dtype, bucket_params, and dp from gpus or gpus from dp. */
gboolean sc_workload_complete (ScWorkload *workload, GError **error);

/* The part of it that needs no plan.  @seq 0: not known. */
gboolean sc_model_complete (ScModel *model, guint seq, GError **error);

/* Whether the sizes of a model go together.  Messages start with "/model/KEY". */
gboolean sc_model_check (const ScModel *model, GError **error);

/* Whether a step of the model can be simulated, or its parameters can be counted only. */
gboolean sc_workload_check_modelled (const ScWorkload *workload, GError **error);

/* Whatever no single key shows: divisions, world size, schedule against pp and vpp, layers against stages.
 * Messages start with the JSON pointer of the key to change: "/plan/tp: 6 does not divide 64 heads (try 4 or 8)". */
gboolean sc_workload_check (const ScWorkload *workload, GError **error);

/* Whether @key of the plan ("microbatch_group", "zero/max_live"), which somebody gave, has an effect with the rest of the plan, even if it says
 * what is the default anyway.  Of a checked workload. */
gboolean sc_workload_check_given (const ScWorkload *workload, const char *key, GError **error);

/* Whether the two go together: enough living GPUs, a data type and an attention that they can do.  Messages start with
 * the pointer of the workload's key. */
gboolean sc_workload_check_topology (const ScWorkload *workload, const ScTopology *topology, GError **error);

ScScheduleShape   sc_workload_schedule_shape (const ScWorkload *workload);
ScPlacement       sc_plan_placement (const ScPlan *plan);
guint             sc_plan_chunks (const ScPlan *plan); /* local ones of a pipeline rank */

/* Virtual stage that @chunk of pipeline rank @rank is; do the first and the last one live on the same rank? */
static inline guint
sc_plan_stage (const ScPlan *plan, guint rank, guint chunk)
{
  return sc_placement_stage (sc_plan_placement (plan), plan->pp, rank, chunk);
}
gboolean          sc_plan_ends_meet (const ScPlan *plan);

/* Ranks that hold the same parameters and reduce their gradients together: dp x cp, twice as many where two pipelines run against
 * each other. */
guint sc_plan_data_ranks (const ScPlan *plan);

/* Of them, those that share out one copy of what is sharded: the shard group, or all. */
guint sc_plan_shard_ranks (const ScPlan *plan);

/* Ranks of the group inside the data-parallel one (SC_COMM_SHARD); 0: there is none. */
guint sc_plan_inner_ranks (const ScPlan *plan);

/* Ranks that hold the same experts (MODELLING 5.8): stage ranks / (ep x etp). */
guint sc_plan_expert_data_ranks (const ScPlan *plan);

guint sc_workload_microbatches (const ScWorkload *workload); /* [m] per pipeline and step */

/* Layers of each virtual stage (which chunk of which rank it is: sc_plan_stage()): [pp * vpp], caller frees.
 * Given ones as they are.  Else the layers, plus a slot each for the embedding (first stage) and the loss (last stage)
 * where the plan accounts for them, are spread evenly; where they do not divide, the stages in the middle take one
 * more, as the first and the last also have the embedding and the head: 126 layers on 16 stages are 7, 14 x 8, 7. */
guint *sc_workload_stage_layers (const ScWorkload *workload);
