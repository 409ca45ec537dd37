/* SPDX-License-Identifier: GPL-3.0-or-later */
/* precision.h - recipes for linear layers in 8 and 4 bits: what is cast, how, and at what cost.
 * Layer: models.  Everything else of a step (attention, norms, activations, embedding and head, gradients) stays in plan.dtype. */
#pragma once
#include "models/workload.h"

struct ScPrecision
{
  const char *dtype;   /* in plan.dtype: "fp8", "mxfp8", "nvfp4" */
  const char *recipe;  /* in plan.fp8_recipe: "delayed", ... */
  const char *also;    /* what else the recipe is called, or NULL */
  const char *summary; /* one line for people */
  const char *source;
  ScDtype  gemm;       /* of the products of linear layers */
  double   gemm_rate;  /* their rate over that of products with one scale per tensor, which were measured */
  guint    reads;      /* of a tensor before it is written: 2 where its scale must be known first */
  double   cast_bytes; /* written per element and layout, scales included */
  guint    layouts;    /* by rows, and, for the products of backward, by columns */
  gboolean transposes; /* by columns it is what it is by rows, transposed (one scale for all): rows alone are gathered; else both are, where both are read */
  double   effort;     /* time of a cast over that of its bytes */
  gboolean fused;      /* norms and activations write the narrow tensor themselves */
  gboolean keeps_projection; /* the output projection keeps its input narrow beside attention's own copy; else it casts that once more */
};

const ScPrecision *const *sc_precision_all (void); /* NULL-ended */

/* @recipe NULL: the data type's first row.  NULL if there is no such row. */
const ScPrecision *sc_precision_find (const char *dtype, const char *recipe);

/* Of the linear layers' products, for rates; and "bf16", "fp8", ... as plan.dtype says it. */
ScDtype     sc_plan_gemm_dtype (const ScPlan *plan);
const char *sc_plan_dtype_name (const ScPlan *plan);

/* Sizes that products in few bits need.  Messages start with the pointer of the key. */
gboolean sc_precision_check (const ScWorkload *workload, GError **error);

/* HBM bytes that casting one element of @bytes costs, as time counts them; and what of them is written. */
double sc_precision_cast_traffic (const ScPrecision *precision, double bytes);

/* Bytes of the narrow copies of a weight that the products of one step read. */
double sc_precision_weight_bytes (const ScPrecision *precision);

/* Elements that a row or a block of scales holds at least: 16 bytes, or 32 elements with a scale for each 32. */
guint sc_precision_unit (const ScPrecision *precision);
