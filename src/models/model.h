/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model.h - parameter and FLOP counts of a transformer (MODELLING 1, 2).
 * Layer: models. */
#pragma once
#include "models/workload.h"

guint64 sc_model_norm_params (const ScModel *model);      /* one norm: its scale, with LayerNorm and biases its shift */
guint64 sc_model_layer_params (const ScModel *model);     /* one transformer layer, with an MLP */
guint64 sc_model_moe_layer_params (const ScModel *model); /* one with experts, all of them */
guint64 sc_model_embedding_params (const ScModel *model, guint seq); /* table + learned positions + embedding norm */
guint64 sc_model_head_params (const ScModel *model);      /* final norm + untied output matrix */
guint64 sc_model_params (const ScModel *model, guint seq); /* whole model, tied table counted once, without MTP */
guint64 sc_model_active_params (const ScModel *model, guint seq); /* those that one token meets: top_k of the experts */
guint64 sc_model_mtp_params (const ScModel *model); /* what multi-token prediction adds; its tables are the model's */

gboolean sc_model_layer_has_experts (const ScModel *model, guint layer);
guint sc_model_layer_window (const ScModel *model, guint layer, guint seq); /* tokens that a query attends in it; 0: all */
guint sc_model_moe_layers (const ScModel *model);    /* layers with experts */
guint sc_model_window_layers (const ScModel *model); /* layers whose attention has the window */

guint64 sc_model_mtp_params_rank (const ScModel *model, guint tp); /* of it on one of @tp ranks, but routed experts */

/* Parameters of one layer that one of @tp tensor-parallel ranks holds: matrices split, norms and row-parallel biases
 * replicated, KV heads replicated where tp exceeds them (MODELLING 2). */
guint64 sc_model_kv_params (const ScModel *model, guint heads); /* of one layer that make the keys and values of so many KV heads; not with MLA */
guint64 sc_model_layer_params_rank (const ScModel *model, guint tp);

/* The same of a layer with experts: what every rank of the TP group has, but its routed experts; and those, of @ep ranks that
 * share out the experts and @etp that share each of them. */
guint64 sc_model_moe_layer_params_rank (const ScModel *model, guint tp);
guint64 sc_model_experts_params_rank (const ScModel *model, guint ep, guint etp);

/* What of a layer every rank of the TP group holds whole: norms, biases behind row-parallel products, ways down to latents, routers.  Their
 * gradients are partial sums under sequence parallelism (MODELLING 5.8). */
guint64 sc_model_layer_replicated_params (const ScModel *model, gboolean experts);
guint64 sc_model_embedding_params_rank (const ScModel *model, guint seq, guint tp);
guint64 sc_model_head_params_rank (const ScModel *model, guint tp, gboolean with_table); /* @with_table: the stage holds the output matrix (untied, or the tied copy of a last stage that is not the first) */

typedef enum { SC_FLOPS_HALF, SC_FLOPS_FULL, SC_FLOPS_6N } ScFlopsConvention;

/* Forward FLOPs of one layer for one sequence: linear layers, and attention with @pairs attended (query, key) pairs. */
double sc_model_layer_linear_flops (const ScModel *model, guint seq);
double sc_model_layer_mlp_flops (const ScModel *model, guint seq); /* the MLP's part of the above is separate: linear = attention projections only */
double sc_model_layer_experts_flops (const ScModel *model, guint seq); /* of a layer with experts: routed and shared */
double sc_model_core_attention_flops (const ScModel *model, double pairs);
double sc_model_layer_core_flops (const ScModel *model, guint layer, guint seq, ScFlopsConvention convention); /* ... as the convention counts those of layer @layer: HALF or FULL */
double sc_model_logits_flops (const ScModel *model, guint seq);

/* Model FLOPs (forward + backward, no recompute) of @sequences sequences under a convention (MODELLING 1.4). */
double sc_model_train_flops (const ScModel *model, guint seq, double sequences, ScFlopsConvention convention);

/* Bytes per parameter of the model states, nothing of them shared out (MODELLING 3.2).  @fp32_weights: the weights are fp32, with
 * fp32 gradients and no copy in the optimizer; @copies_grads: the optimizer makes a copy of 16-bit gradients in fp32 (step), and lets go of it with them.  @moments: what the
 * optimizer keeps besides (models/optimizer.h; Adam 8). */
typedef struct { double weights, grads, optimizer, step; } ScStateBytes;
ScStateBytes sc_state_bytes (double moments, ScDtype dtype, ScDtype grad_dtype, gboolean fp32_weights, gboolean copies_grads);
