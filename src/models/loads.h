/* SPDX-License-Identifier: GPL-3.0-or-later */
/* loads.h - every group walked over the real routes: which links its connections cross, and which links can never bind.
 * Layer: models.
 *
 * Each comm is walked by its default row (a ring; for stage boundaries a send), which also gives its shape, and by every
 * further row that some call of it needs (ScNeed).  A walk has parts (FOLDING S2); a part's connections advance in lockstep. */
#pragma once
#include "models/collective.h"
#include "models/layout.h"

/* Connections of one part that cross a link. */
typedef struct
{
  guint32 link;
  guint32 count;
} ScLoad;

/* One row's connections over one comm. */
typedef struct
{
  const ScCollective *row;
  ScCollKind kind;
  guint32 first_part, n_parts; /* range of ScLoads.part_first */
  ScBound bound;               /* what the narrowest links need per byte of the call's buffer */
} ScWalk;

typedef struct
{
  ScGroupShape *shapes;     /* [n_comms] */
  guint32 *walk_first;      /* [n_comms + 1] walks of comm c: walks[walk_first[c] .. walk_first[c + 1]), the default one first; none: scalars only */
  ScWalk  *walks;
  guint32  n_parts;         /* of all walks; the parts of one comm follow one another */
  guint32 *part_first;      /* [n_parts + 1] loads of part p: loads[part_first[p] .. part_first[p + 1]) */
  ScLoad  *loads;
  guint8  *implied;         /* [n_links] TRUE: can never bind (S5 a) */
  guint32  n_used;          /* links that any comm loads */
} ScLoads;

/* A walk that a call of @comm needs besides the default one. */
typedef struct
{
  guint32 comm;
  guint32 row;  /* index in sc_collective_all() */
  guint32 kind; /* ScCollKind */
} ScNeed;

/* @needs: [n_needs], sorted by comm, row, kind, without duplicates; NULL with 0. */
ScLoads *sc_loads_new (const ScLayout *layout, const ScFabric *fabric, const ScNeed *needs, guint n_needs);
void     sc_loads_free (ScLoads *loads);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLoads, sc_loads_free)

/* The walk of @comm by @row for @kind, or NULL.  Rings and sends have one walk for all kinds. */
const ScWalk *sc_loads_walk (const ScLoads *loads, guint32 comm, const ScCollective *row, ScCollKind kind);

/* What @walk's narrowest links need for a call of @kind: a walk for all kinds was measured with one of them. */
static inline ScBound
sc_walk_bound (const ScWalk *walk, ScCollKind kind, const ScGroupShape *shape)
{
  ScBound bound = walk->bound;
  const double scale = kind == walk->kind ? 1
                       : walk->row->connection_bytes (kind, shape, 0, 1) / walk->row->connection_bytes (walk->kind, shape, 0, 1);
  bound.intra_s_per_byte *= scale;
  bound.inter_s_per_byte *= scale;
  return bound;
}

/* Sorts @needs (GArray of ScNeed) and drops duplicates. */
void sc_needs_sort (GArray *needs);
