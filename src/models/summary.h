/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summary.h - the numbers people ask for, of one simulated step.
 * Layer: models.  Filled by sc_forecast(); reports only read it. */
#pragma once
#include "models/category.h"
#include "models/tape-play.h"
#include "models/fabric.h"
#include "models/workload.h"
#include "sim/program.h"
#include "sim/trace.h"

typedef enum { SC_VERDICT_FITS, SC_VERDICT_AT_RISK, SC_VERDICT_DOES_NOT_FIT } ScVerdict;
const char *sc_verdict_name (ScVerdict verdict); /* "fits", "at risk", "does not fit" */

/* One pipeline stage, as its class that finishes last shows it. */
typedef struct
{
  guint   stage;
  guint   class_id;              /* index in ScSummary.classes */
  guint   layers;                /* transformer layers on this stage, all chunks */
  ScTime  time[SC_N_TIMES];      /* parts of the step; sum == step */
} ScStageSummary;

/* One class of ranks that run the same program and see the same links. */
typedef struct
{
  guint   stage;
  guint   representative;        /* lowest rank of the class */
  guint   n_ranks;
  guint   node, gpu;             /* where the representative sits */
  const ScDevice *device;
  ScTime  begin, end;            /* its first op, if the step does not begin for all at once (plan.post_validation), else 0; its last op */
  ScTime  time[SC_N_TIMES];      /* parts of the step; sum == step */
  guint64 params;                /* parameters held (after TP, PP) */
  guint n_early_retries;         /* of n_retries those before the first step's optimizer */
  guint64 step_reserved_bytes;   /* most that the allocator holds in a step that is not the first */
  guint64 late_allocated_bytes;  /* most that is allocated from the end of the last pass on */
  guint64 peak_allocated_bytes, peak_reserved_bytes, peak_device_bytes;
  guint64 capacity_bytes;
  guint64 at_peak[SC_N_MEMS];    /* bytes by kind at the allocated peak; sum == peak_allocated_bytes */
  guint64 context_bytes, nccl_bytes, workspace_bytes; /* device = reserved + these */
  guint64 n_retries;             /* times that the allocator, played, had to give cached segments back for want of memory */
  gboolean reserved_played;      /* by the allocator; else in the ratio of a stage that was */
  ScTime  peak_time;             /* when */
  char   *peak_op;               /* what was running then: "backward of micro-batch 3, layer 17" */
  ScVerdict verdict;
} ScClassSummary;

/* One class of links that carry the same at the same time. */
typedef struct
{
  guint32 link;                  /* of the fabric: the first of the class */
  char   *name;                  /* of that link */
  guint   n_links;
  guint   of_kind[SC_N_LINK_KINDS]; /* sum == n_links */
  guint   n_below;               /* other links that can never be fuller than these, and are in no class */
  double  capacity_bytes_per_s;  /* of one link */
  double  mean, peak;            /* share of the capacity in use: over the step; at any time */
  ScTime  full;                  /* time at SC_USAGE_FULL or more of the capacity */
  double  bytes[SC_N_TIMES];     /* over one link, by kind of communication; 0 for other kinds */
  double *utilisation;           /* [n_bins] owned: mean share in use over each bin */
} ScLinkSummary;

typedef struct
{
  ScLinkSummary *rows;           /* [n_rows], largest mean first */
  guint   n_rows;
  guint   n_left_out;            /* used links that can never be fuller than all of these (FOLDING S5) */
  ScTime  bin;                   /* width of one bin; the last one ends with the step */
  guint   n_bins;
} ScLinksSummary;

void sc_links_summary_free (ScLinksSummary *links);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLinksSummary, sc_links_summary_free)

/* Where a rank is. */
typedef struct
{
  guint32 class_id;
  guint32 node;
  guint32 gpu; /* of the node */
} ScRankPlace;

typedef struct
{
  const ScTopology *topology; /* borrowed */
  const ScWorkload *workload; /* borrowed */

  /* sizes */
  guint   gpus, nodes;           /* used by the job */
  guint64 params;                /* of the model */
  guint   microbatches;
  double  tokens_per_step;

  /* time */
  ScTime  step;                  /* from one step's begin to the next one's; less than the trace where ranks begin one after another */
  double  tokens_per_s, tokens_per_s_per_gpu;
  double  model_flops_half, model_flops_full, model_flops_6n, hardware_flops; /* per step, whole job (MODELLING 1.4; hardware: 1.5, physical, on the half convention's causal count for flash, full for unfused attention) */
  double  peak_flops_per_gpu;
  double  model_tflops_per_gpu;  /* half convention */
  double  mfu_half_causal, mfu_full, mfu_6n, hfu;
  double  bubble_fraction;       /* bubble / step, mean over stages */
  double  bubble_over_ideal;     /* bubble / (step - bubble), mean over stages: the lecture's (p-1)/m */
  double  bubble_fraction_ideal; /* (p-1)/(v m + p-1): equal stages, no communication */
  double  bubble_over_ideal_ideal; /* (p-1)/(v m) */

  ScStageSummary *stages;  guint n_stages;
  ScClassSummary *classes; guint n_classes;
  ScRankPlace *ranks;            /* [gpus] */

  /* memory: the class with the largest device bytes relative to its capacity */
  guint     memory_class;
  ScVerdict verdict;
  double    memory_margin;       /* below this share of the capacity left free: at risk */

  /* evidence: share of the slowest stage's compute time by grade of the numbers it rests on */
  double    grade_share[SC_N_GRADES];
  GPtrArray *assumptions;        /* char *, owned: one line each: what is assumed rather than measured */

  /* folding */
  guint   n_rank_classes, n_families, n_link_classes, n_links, n_groups;
  gboolean fold_approximate;     /* the class budget stopped the refinement (FOLDING S7) */
  char   *fold_note;             /* why; NULL when exact */

  ScLinksSummary *links;         /* owned; NULL unless asked for */

  /* the run itself, for timelines and traces */
  ScOrders  *orders;             /* owned; of the pipeline's ranks */
  ScProgram *program;            /* owned; actor i is class i; labels and info by models/label.h */
  ScTrace   *trace;              /* owned */
  GPtrArray *tapes;              /* ScTape, owned: [n_stages] what the ranks of each stage allocate */
  GPtrArray *plays;              /* ScTapePlay, owned: [n_stages] that on the allocator, or NULL */
  GPtrArray *labels;             /* char *, owned: text of ScOp.label, as sc_label_text() indexes it */
} ScSummary;

void sc_summary_free (ScSummary *summary);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSummary, sc_summary_free)

/* ScOp.info of a step: which micro-batch, chunk and layer an op belongs to. */
#define SC_INFO_NONE 0xffffffffu
typedef struct
{
  guint microbatch; /* 0..16383, or SC_INFO_NO_MICROBATCH */
  guint chunk;      /* 0..63 */
  guint layer;      /* global layer index 0..1022, or SC_INFO_NO_LAYER */
  guint phase;      /* 0 forward, 1 backward (or its input gradients), 2 recompute, 3 weight gradients; without micro-batch: none of them */
} ScOpInfo;
#define SC_INFO_NO_MICROBATCH 0x3fffu
#define SC_INFO_NO_LAYER 0x3ffu

static inline guint32
sc_info_pack (ScOpInfo i)
{
  return (i.microbatch & 0x3fffu) | (i.chunk & 0x3fu) << 14 | (i.layer & 0x3ffu) << 20 | (i.phase & 3u) << 30;
}

static inline ScOpInfo
sc_info_unpack (guint32 info)
{
  return (ScOpInfo) { info & 0x3fffu, info >> 14 & 0x3fu, info >> 20 & 0x3ffu, info >> 30 };
}

/* Streams of a rank, in every step. */
typedef enum
{
  SC_STREAM_COMPUTE,
  SC_STREAM_TP,       /* TP collectives that run beside compute; exposed ones sit on the compute stream */
  SC_STREAM_DP,       /* gradient reduction */
  SC_STREAM_DP_GATHER,/* parameter gather */
  SC_STREAM_PP_SEND_F, SC_STREAM_PP_RECV_F, SC_STREAM_PP_SEND_B, SC_STREAM_PP_RECV_B,
  SC_STREAM_CP, SC_STREAM_EP, /* their collectives beside compute */
  SC_STREAM_COPY_OUT, SC_STREAM_COPY_IN, /* to host memory and back */
  SC_STREAM_DP_REPLICA, /* gradients summed over replicas of a sharded copy */
  SC_STREAM_VOCAB, /* what pipeline ranks that share out the vocabulary hand to all, and sum */
  SC_N_STREAMS
} ScStreamKind;

const char *sc_stream_name (ScStreamKind stream); /* "compute", "tp", "dp", "dp-gather", "pp-send-f", ... */
