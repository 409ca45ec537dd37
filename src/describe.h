/* SPDX-License-Identifier: GPL-3.0-or-later */
/* describe.h - models, plans and jobs in one line each, and the words for their choices. */
#pragma once
#include "models/summary.h"

/* The words of workload files. */
const char *sc_sharding_word (ScSharding sharding);    /* "none", "zero1", "distributed-optimizer" */
char *sc_recompute_text (const ScPlan *plan); /* "none", "selective", "full", "full block:4", "every:2", "modules:core_attn,mlp", ...; caller frees */
const char *sc_attention_word (ScAttention attention); /* "flash", "unfused" */
const char *sc_cp_comm_word (ScCpComm comm);           /* "p2p", "all-gather", "a2a", "a2a+p2p" */
const char *sc_rank_order_word (ScRankOrder order);    /* "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp" */

/* And of topology files. */
const char *sc_transport_word (ScTransport transport); /* "infiniband", "roce", ... */
const char *sc_routing_word (ScRouting routing);       /* "ideal", "adaptive", "ecmp" */

/* Each appends to @out, without a line end. */
void sc_describe_model (const ScWorkload *workload, GString *out);   /* "80 layers, hidden 8192, ..." */
void sc_describe_plan (const ScWorkload *workload, GString *out);    /* "TP 8 + SP, PP 4 x 5 chunks (interleaved), ..." */
void sc_describe_batch (const ScSummary *summary, GString *out);     /* "128 sequences of 8192 tokens ..." */
void sc_describe_hardware (const ScSummary *summary, GString *out);  /* "64 x h100-sxm-80gb, 8 of the 2048 nodes of ..." */

/* The three lines that reports begin with: model and hardware, plan, batch; the last one without a line end. */
void sc_describe_job (const ScSummary *summary, guint width, GString *out);

/* Appends @text, broken at blanks so that no line passes @width columns (where words allow it); continuation lines
 * begin with @indent blanks.  The first line begins at column @column. */
void sc_append_wrapped (GString *out, const char *text, guint column, guint indent, guint width);

/* Ends a line, without blanks before its end. */
void sc_trim_line (GString *out);
