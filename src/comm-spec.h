/* SPDX-License-Identifier: GPL-3.0-or-later */
/* comm-spec.h - what `stepcast comm` is asked for, in words: sizes as nccl-tests writes them, ranks, groups.
 * Layer: src.  Everything here comes from a command line: counts are bounded before anything is allocated. */
#pragma once
#include "models/collective.h"

#define SC_COMM_MAX_BYTES     1125899906842624.0 /* 1024T */
#define SC_COMM_MAX_SIZES     10000u   /* of a sweep */
#define SC_COMM_MAX_GROUPS    65536u
#define SC_COMM_MAX_MEMBERS   16777216u /* of all groups */
#define SC_COMM_MAX_ROWS      1000000u  /* groups x sizes */
#define SC_COMM_MAX_PER_GPU   64u       /* groups that one GPU is in */

#define SC_COMM_SPEC_ERROR (sc_comm_spec_error_quark ())
GQuark sc_comm_spec_error_quark (void);
typedef enum
{
  SC_COMM_SPEC_ERROR_SYNTAX,   /* not in the grammar, or a number out of its range */
  SC_COMM_SPEC_ERROR_TOPOLOGY, /* the topology has no such ranks */
} ScCommSpecError;

/* A whole number in [min, max]; @what is for messages: "--ranks". */
gboolean sc_comm_number_parse (const char *what, const char *text, guint64 min, guint64 max, guint *ret, GError **error);

/* "8", "4K", "1.5M", "128m", "8G", "1T" in powers of 1024, whole bytes from 1 to SC_COMM_MAX_BYTES. */
gboolean sc_comm_size_parse (const char *what, const char *text, double *ret_bytes, GError **error);

/* Sizes from @min to @max bytes, each @factor (> 1) times the one before or, where @step is above 0, @step bytes more.
 * Doubles, ascending, at least one.  NULL and SC_COMM_SPEC_ERROR_SYNTAX: more than SC_COMM_MAX_SIZES. */
GArray *sc_comm_sizes (double min, double max, double factor, double step, GError **error);

/* The part of @bytes that nccl-tests calls with: all-gather, reduce-scatter and all-to-all take whole multiples of 16 bytes per
 * rank.  0: nothing is left. */
double sc_comm_size_round (ScCollKind kind, guint n_ranks, double bytes);

/* Where ranks sit.  GPUs are numbered as the job's: those of the topology's first_node come first. */
typedef struct
{
  guint32 *gpus;      /* [n] GPU of each rank, ascending */
  guint32 *node;      /* [n] node of each rank, counted from the job's first */
  guint32 *place;     /* [n] of its GPU in the node */
  guint    n;
  guint    n_nodes;   /* that hold ranks */
  guint    per_node;  /* most ranks of one of them */
  guint    n_job_gpus; /* that groups may name */
} ScCommPlaces;

/* @n_ranks GPUs (0: all there are) in order, taking the first @per_node (0: all) of each node. */
ScCommPlaces *sc_comm_places_new (const ScTopology *topology, guint n_ranks, guint per_node, GError **error);
void          sc_comm_places_free (ScCommPlaces *places);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScCommPlaces, sc_comm_places_free)

/* One group of ranks. */
typedef struct
{
  char      *name;  /* "0-63", "rail 3" */
  ScCollKind kind;
  guint32   *gpus;  /* [n] in rank order, GPU numbers of the job, each once */
  guint      n;     /* 2 or more */
  double     bytes; /* of its call at every size of the sweep; 0: the size of the sweep */
} ScCommSpec;

void sc_comm_spec_free (ScCommSpec *spec);

/* Adds the groups that @text means to @groups (ScCommSpec, owned; with sc_comm_spec_free):
 *
 *   [COLLECTIVE:]RANKS[:SIZE]   COLLECTIVE: else @kind; SIZE: of every call, while the others sweep
 *   RANKS   rails               one group per place in the node: GPU i of every node of @places
 *           nodes               one group per node of @places
 *           halves              the first half of the ranks of @places, and the second
 *           all                 the ranks of @places
 *           ITEM[,ITEM...]      one group, in this order; "send": the sender, the receiver
 *   ITEM    7 | 0-63 | 0-511/8 (every 8th) | node2 | node0-3 | node0-31/2: GPUs; ranks of nodes of @places
 */
gboolean sc_comm_spec_add (GPtrArray *groups, const char *text, ScCollKind kind, const ScCommPlaces *places, GError **error);

/* No GPU is in more groups than can run beside each other. */
gboolean sc_comm_specs_check (const GPtrArray *groups, const ScCommPlaces *places, GError **error);
