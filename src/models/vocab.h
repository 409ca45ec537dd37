/* SPDX-License-Identifier: GPL-3.0-or-later */
/* vocab.h - vocabulary layers that all ranks of a pipeline share out (Yeung et al., arXiv 2411.05288).
 * Layer: models.
 *
 * Each rank holds V / pp rows of both tables.  What a stage at the end of the pipeline has goes to all ranks, and what they make of it is summed for
 * it, so that passes over the vocabulary stand between those of any schedule, at about the same time on all ranks. */
#pragma once
#include <glib.h>

typedef enum
{
  SC_VOCAB_ENDS,       /* at the ends of the pipeline */
  SC_VOCAB_1,          /* algorithm 1: a pass to the loss, one to the gradients: two barriers */
  SC_VOCAB_2,          /* algorithm 2: the first makes both parts of the input's gradient: one barrier */
  SC_VOCAB_INTERLACED, /* as tensor parallelism: all ranks wait for each other (nnScaler, OSDI 2024) */
  SC_N_VOCABS
} ScVocab;

const char *sc_vocab_name (ScVocab vocab); /* "none", "vocab-1", ... */

/* Micro-batches in flight beyond a schedule's own (arXiv 2411.05288, section 5; interlaced: appendix B). */
guint sc_vocab_ahead (ScVocab vocab, guint pp);
