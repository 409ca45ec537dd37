/* SPDX-License-Identifier: GPL-3.0-or-later */
/* row-frameworks.h - which framework description stands for a published run's software, and what such software does where the row
 * says nothing.
 * Layer: src.  Two tables; never by source or id. */
#pragma once
#include "json-in.h"
#include "models/workload.h"

/* What a rule may ask of a run. */
typedef struct
{
  const char *framework;    /* word of the row, not NULL */
  guint       year;         /* of the software: of its version, its paper, its title; 0: not known */
  const char *gpu;          /* or NULL */
  guint       engine;       /* release of Transformer Engine: 211 of 2.11; 0: not said */
  gboolean    unfused;      /* attention is stated to be unfused */
  gboolean    hopper;       /* Hopper or later */
  int         compiled;     /* torch.compile: 1, 0, -1: not said */
  const char *version;      /* as written, or NULL */
  const char *notes;        /* or NULL */
} ScRowSoftware;

typedef struct
{
  const char *framework;    /* word of rows */
  const char *gpu;          /* how its name begins; NULL: any */
  guint       since, until; /* years; 0: any.  A row whose year is not known fits no rule that asks for one */
  guint       engine_since; /* release of Transformer Engine, likewise */
  int         unfused;      /* 1, 0, -1: any */
  int         compiled;
  const char *release;      /* how its version begins; NULL: any */
  const char *notes;        /* what a row's notes say; NULL: whatever */
  const char *name, *version; /* row of sc_framework_all() */
  guint       year;         /* when it is from, where the run does not say: for the version of NCCL */
  gboolean    logs_first;   /* the rank that prints memory is one of the first stage */
  gboolean    allocated_late; /* its peak of allocated memory counts from the end of the last backward on, that of reserved memory from the start */
  gboolean    retries_fail; /* communicators come with the first gradients and their norm, so that runs fail where the allocator has taken all of the memory before */
  gboolean    last_step;    /* ... and both peaks are of the last step alone */
  const char *why;          /* what stands for it, and why that */
} ScRowFramework;

/* The first rule that fits; NULL: nothing is known of such software. */
const ScRowFramework *sc_row_framework_find (const ScRowSoftware *software);
const ScRowFramework *sc_row_framework_all (guint *ret_n);

/* "nccl-2.14": what such years ran. */
const char *sc_row_nccl_of (guint year);

/* Fills keys of @model and @plan of which the row says nothing, by the first default whose conditions hold.
 * @notes: "plan.one_queue = true", owned, appended. */
void sc_row_defaults_add (const ScRowFramework *framework, const char *fabric, cJSON *model, cJSON *plan, GPtrArray *notes);
