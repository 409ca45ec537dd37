/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl.h - how NCCL (and RCCL, which follows it) executes a collective: which algorithm and protocol it takes, and how long
 * that lasts alone.
 * Layer: models.
 *
 * Two things that are easily confused are kept apart.  *What it chooses* follows its own tuner: for each algorithm and
 * protocol a latency and a bandwidth, by version (ScNcclVersion); the least time + bytes / bandwidth wins.  *How long the
 * choice lasts* is another matter, since the tuner is off by 7 to 46 % and knows no fill: measured by generation of GPU
 * (ScNcclGpu) and by kind of network (ScNcclNet).
 *
 *   time = base(protocol) + intra hops x step(protocol) + inter hops x hop(protocol)
 *        + (bytes over the narrowest link + extra copies) / (share of it that the protocol reaches)
 *        + fill, which grows with the message and saturates
 *
 * Nothing here beats the narrowest link: shares are at most what the protocol's flags leave. */
#pragma once
#include "models/collective.h"

typedef enum
{
  SC_ALGO_TREE,
  SC_ALGO_RING,
  SC_ALGO_COLLNET,
  SC_ALGO_NVLS,
  SC_ALGO_NVLS_TREE,
  SC_ALGO_PAT,
  SC_N_ALGOS
} ScAlgo;

typedef struct _ScNcclVersion ScNcclVersion;
typedef struct _ScNcclGpu     ScNcclGpu;
typedef struct _ScNcclNet     ScNcclNet;

/* "nccl-2.29", newest first; NULL-ended. */
const ScNcclVersion *const *sc_nccl_versions (void);
const ScNcclVersion *sc_nccl_version_of_number (guint number);         /* the row of release 2 x 1000 + minor */
const ScNcclVersion *sc_nccl_version_of (const char *release);         /* the row of release "2.26.2" (or text around it); NULL: none named */
const char          *sc_nccl_version_name (const ScNcclVersion *version);
const char          *sc_nccl_version_source (const ScNcclVersion *version);
guint                sc_nccl_version_number (const ScNcclVersion *version);

/* What executes calls of groups that @gpu belongs to. */
ScLibrary sc_nccl_library (const ScFabric *fabric, guint32 gpu);

/* What NCCL takes for this call among what @row and @protocol (SC_N_PROTOS: any) leave.  FALSE: it has no tuned algorithm
 * for the call, and *ret_why stays NULL, or none of the forced ones can, and *ret_why says why. */
gboolean sc_nccl_choose (ScCollKind kind, const ScGroupShape *shape, double bytes, const ScCollective *row, ScProtocol protocol,
                         ScCollChoice *ret, const char **ret_why);

/* The tuner's own estimate for @row in @protocol, the least of which it chooses; no forecast.  INFINITY: its version has no such
 * algorithm for @kind, or not in this protocol. */
double sc_nccl_estimate_s (const ScCollective *row, ScProtocol protocol, ScCollKind kind, const ScGroupShape *shape, double bytes);

/* How long it lasts; see sc_collective_time(). */
void sc_nccl_time (ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes, const ScBound *bound);

/* Thread blocks that a call runs as, one for each channel, each on an SM of its own; 0: no library.  And of an all-reduce of any size
 * over GPUs of one node. */
double sc_nccl_blocks (const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes);
double sc_nccl_most_blocks (const ScGroupShape *shape);

/* Channels that a communicator opens over GPUs of one node; 0: no library. */
double sc_nccl_channels (const ScLibrary *library);
