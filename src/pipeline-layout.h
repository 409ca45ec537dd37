/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pipeline-layout.h - Megatron's --pipeline-model-parallel-layout: which parts of the model each virtual stage holds.
 * Layer: src. */
#pragma once
#include <glib.h>

#define SC_PIPELINE_LAYOUT_MAX_STAGES 64000u

/* What the string says, in the order of the model. */
typedef struct
{
  guint  n;       /* virtual stages */
  guint *layers;  /* [n] transformer layers */
  guint *mtp;     /* [n] modules that predict further tokens */
} ScPipelineLayout;

void sc_pipeline_layout_free (ScPipelineLayout *layout);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScPipelineLayout, sc_pipeline_layout_free)

/* "Et*3|(tt|)*29,m|L": E embedding, t layer, m MTP, L loss, in this order; | ends a stage, *n repeats the symbol or the bracket before it,
 * commas and blanks are for the eye.  Errors name the column, from 1. */
ScPipelineLayout *sc_pipeline_layout_parse (const char *text, GError **error);
