/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory-groups.h - the memory of one stage as reports show it: its curve in columns, and tensors of one name together.
 * Layer: src. */
#pragma once
#include "models/summary.h"

/* Tensors of one name and size that live at the peak. */
typedef struct
{
  ScLiveTensor tensor; /* the first of them */
  guint   n;
  guint64 bytes;       /* of all */
  guint   first_layer, last_layer; /* SC_INFO_NO_LAYER: of none */
  guint   first_microbatch, last_microbatch; /* SC_INFO_NO_MICROBATCH: of none */
} ScMemoryGroup;

/* ScMemoryGroup, largest first; caller unrefs. */
GArray *sc_memory_groups (const ScTapePlay *play);

/* "fc1 output", "output of qkv dgrad"; caller frees. */
char *sc_memory_group_name (const ScLiveTensor *tensor);

/* The highest instant of each of @n_columns equal parts of the step. */
typedef struct
{
  guint64 by_kind[SC_N_MEMS];
  guint64 allocated; /* sum */
  guint64 reserved;
} ScMemoryColumn;

ScMemoryColumn *sc_memory_columns (const ScSummary *summary, guint stage, guint n_columns); /* caller frees */

/* The stages a picture shows: the first, the fullest, the last; @ret [3]; returns how many. */
guint sc_memory_stages (const ScSummary *summary, guint *ret);
