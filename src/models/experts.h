/* SPDX-License-Identifier: GPL-3.0-or-later */
/* experts.h - how many rows of a micro-batch reach the experts of a rank, and how many nodes a token goes to (MODELLING 1.2, 3.5,
 * 4.2.5, 5.8).
 * Layer: models.
 *
 * All ranks of a stage are given the rows of the most loaded expert-parallel rank.  Every layer waits for that rank twice, in the
 * dispatch and in the combine, so its time is the layer's; one program for all keeps them foldable, where colours by rank would
 * multiply the classes by ep.  What it costs: the other ranks' waiting counts as their compute, and where the most loaded rank
 * changes from layer to layer, memory is that of a rank which is it in all of them. */
#pragma once
#include "models/workload.h"

typedef struct
{
  guint    n;        /* experts of a rank */
  guint64 *rows;     /* [n] that each of them gets, of the tokens of all ranks of its EP and ETP groups */
  guint64  total;    /* their sum */
  guint64  sent;     /* rows that a rank hands to the dispatch */
  guint64  arrived;  /* ... and that the dispatch brings to the most loaded one: total / etp */
} ScExpertRows;

/* @tokens: of one rank.  @line: of the recorded routing, 0 where there is none. */
ScExpertRows *sc_expert_rows_new (const ScModel *model, const ScPlan *plan, guint64 tokens, guint line);
void       sc_expert_rows_free (ScExpertRows *routing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScExpertRows, sc_expert_rows_free)

/* Lines of the recorded routing: one for all layers, or one for each layer with experts.  Which of them a layer has. */
guint sc_experts_line (const ScModel *model, const ScPlan *plan, guint layer);

/* Parts of @parts, equal in experts, that the experts of one token are expected in, top_k of them drawn evenly without
 * replacement (hypergeometric). */
double sc_experts_distinct (const ScModel *model, guint parts);

/* Of the bytes that an all-to-all of tokens carries (one copy for each expert of a token), what is left between @nodes nodes, or to
 * @ranks ranks, when each gets a token once for all its experts there.  1 where the dispatcher does not know of nodes. */
double sc_experts_node_share (const ScModel *model, const ScPlan *plan, guint nodes);
double sc_experts_rank_share (const ScModel *model, const ScPlan *plan, guint ranks);

/* Bytes of an element that goes to the experts, a row in forward, its gradient in backward. */
double sc_experts_dispatch_bytes (const ScPlan *plan);
