/* SPDX-License-Identifier: MIT */
/* plan.h - everything there is to measure, in order of value; and a measured item as one line of JSON. */
#pragma once
#include "measure/item.h"
#include "measure/json.h"

typedef struct
{
  ScmItem *items;
  size_t n_items;
} ScmPlan;

/* @gpus: of the node (>= 1); @gpu: the one that is measured; @classes: bit per class.  Sorted: tier by tier, and within
 * a tier the classes take turns. */
void scm_plan_init (ScmPlan *plan, int gpus, int gpu, unsigned classes);
void scm_plan_clear (ScmPlan *plan);

/* The class of that name, or SCM_N_CLASSES. */
ScmClass scm_class_find (const char *name);

/* The libraries that this item cannot do without. */
unsigned scm_item_libraries (const ScmItem *item);

/* Bytes of one execution, each tensor once. */
int64_t scm_memory_bytes (ScmOp op, const int64_t *shape, int n_shape);

/* One line of the output file. */
void scm_sample_write (ScmText *text, const char *session, const char *gpu, const ScmItem *item, const ScmResult *result);
