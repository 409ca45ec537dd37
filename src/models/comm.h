/* SPDX-License-Identifier: GPL-3.0-or-later */
/* comm.h - collectives on their own, without a training step: one call of each of several groups, all at once.
 * Layer: models.  The same walk, choice, fold and engine as a forecast's: what `stepcast comm` and `validate collectives` run. */
#pragma once
#include "models/collective.h"

/* One group and what it calls. */
typedef struct
{
  ScCollKind     kind;
  const guint32 *gpus;      /* [n] ranks in order, as GPU numbers of the job; SEND: sender, receiver */
  guint          n;         /* 2 or more */
  double         bytes;     /* whole buffer, as nccl-tests counts it */
  const ScCollective *row;  /* forced, or NULL: the library chooses */
  ScProtocol     protocol;  /* forced, or SC_N_PROTOS */
} ScCommGroup;

typedef struct
{
  ScCollChoice choice;
  double  seconds;          /* from the common start to its end, among the other groups */
  double  bound_s;          /* what its narrowest link alone needs for its bytes; seconds is never below */
  guint32 bound_link;       /* that link, of sc_comms_fabric(); SC_NONE: it loads none */
} ScCommResult;

/* What was simulated. */
typedef struct
{
  guint32  n_classes, n_families, n_used_links, n_link_classes;
  gboolean approximate;     /* the fold's budget was passed (FOLDING S7) */
} ScCommStats;

#define SC_COMM_ERROR (sc_comm_error_quark ())
GQuark sc_comm_error_quark (void);
typedef enum
{
  SC_COMM_ERROR_IMPOSSIBLE, /* a forced algorithm or protocol cannot do a call */
  SC_COMM_ERROR_TOO_LARGE,  /* more connections than can be walked: everyone with everyone among very many */
  SC_COMM_ERROR_INTERNAL,
} ScCommError;

typedef struct _ScComms ScComms;

/* Builds the fabric of the first @n_gpus GPUs of @topology (borrowed).  @unfolded: every rank and link on its own. */
ScComms *sc_comms_new (const ScTopology *topology, guint n_gpus, gboolean unfolded, GError **error);
void     sc_comms_free (ScComms *comms);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScComms, sc_comms_free)

const ScFabric *sc_comms_fabric (const ScComms *comms);

/* Runs @groups: [n_groups] together.  What the groups' members share with the last call (walks, fold) is kept, so sizes in
 * a row are cheap.  @ret: [n_groups]; @ret_stats may be NULL. */
gboolean sc_comms_run (ScComms *comms, const ScCommGroup *groups, guint n_groups, ScCommResult *ret, ScCommStats *ret_stats,
                       GError **error);
