/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layout.h - who is where: rank <-> (dp, pp, cp, tp) <-> GPU, and the groups that communicate.
 * Layer: models. */
#pragma once
#include "models/comm-kind.h"
#include "models/fabric.h"
#include "models/workload.h"

typedef struct
{
  guint tp, cp, dp, pp; /* coordinates, each below its size */
} ScCoord;

/* One communicator. */
typedef struct
{
  ScCommKind kind;
  guint32 stage;  /* of its members; of the sender for PP_*; 0 for EMBEDDING, VOCAB and WORLD */
  guint32 first;  /* its members: ScLayout.members[first .. first + n), ranks in order; PP_*: sender, receiver */
  guint32 n;
} ScComm;

typedef struct
{
  const ScWorkload *workload; /* borrowed */
  guint32  n_ranks;
  ScComm  *comms;   /* [n_comms], kind by kind; only groups of two or more */
  guint32  n_comms;
  guint32 *members; /* ranks */
  guint32  n_members;
  /* What a rank belongs to: its comms, ascending: of_rank[rank_first[r] .. rank_first[r + 1]) */
  guint32 *rank_first; /* [n_ranks + 1] */
  guint32 *of_rank;    /* comm ids */
} ScLayout;

ScCoord sc_layout_coord (const ScPlan *plan, guint32 rank);
guint32 sc_layout_rank (const ScPlan *plan, ScCoord coord);

ScLayout *sc_layout_new (const ScWorkload *workload);
void      sc_layout_free (ScLayout *layout);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScLayout, sc_layout_free)

/* The comm of @kind that @rank is a member of; for PP_* @as_sender picks the one it sends on, else receives on.
 * SC_NONE: there is none. */
guint32 sc_layout_comm_of (const ScLayout *layout, guint32 rank, ScCommKind kind, gboolean as_sender);
