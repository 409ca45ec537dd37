/* SPDX-License-Identifier: GPL-3.0-or-later */
/* packing.h - documents of varying length in sequences of one length: what attention then has to do, micro-batch by micro-batch.
 * Layer: models.
 *
 * Documents come in the order of their file, round and round, or are drawn from a histogram by a fixed row of pseudo-random numbers, so
 * that the same input gives the same step.  Each goes into the first sequence that still has room for it (first fit); one that
 * finds none is left for the next step.  Micro-batch k of data-parallel rank r of d takes the sequences from (k d + r) b on.
 *
 * Queries see keys of their own document only, so a micro-batch costs by the sum of the squares of its lengths.  All
 * data-parallel ranks are simulated as the one with most to do, which the others wait for; its micro-batches fall into a few kinds by
 * pairs, each as the mean of its members.  Linear layers, and tokens in reports, have whole sequences, what is left empty included. */
#pragma once
#include "models/model.h"

#define SC_PACKING_MAX_KINDS 8

struct _ScPacking
{
  guint   n_kinds;
  double  pairs[SC_PACKING_MAX_KINDS][2]; /* query-key pairs of one head over a micro-batch, causal halves (MODELLING 1.3): in layers that attend all; with the model's window */
  guint8 *of_microbatch; /* [microbatches] */
  guint   microbatches;

  double  share[2];      /* pairs over those of whole sequences, mean of all that were packed: without and with a window */
  double  least, most;   /* micro-batches of the rank that is simulated: pairs over the mean of all ranks' */
  double  rank;          /* pairs of that rank over the mean of all */
  guint   ranks;         /* that were packed: dp, or as many as make 65,536 sequences */
  double  fill;          /* share of the sequences' tokens that are documents' */
  guint64 documents;     /* packed */
  double  mean_length;
};

/* NULL where workload->documents is. */
ScPacking *sc_packing_new (const ScWorkload *workload);
void       sc_packing_free (ScPacking *packing);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScPacking, sc_packing_free)

/* Of one sequence in the mean: as their namesakes of model.h, with the pairs that documents leave. */
double sc_packed_core_flops (const ScWorkload *workload, guint layer, ScFlopsConvention convention);
double sc_packed_train_flops (const ScWorkload *workload, double sequences, ScFlopsConvention convention);
