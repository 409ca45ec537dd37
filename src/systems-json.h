/* SPDX-License-Identifier: GPL-3.0-or-later */
/* systems-json.h - from the words of a published sweep to the system it ran on: validation/systems.json.
 * Layer: src.  An ordered list of rules; the first one whose patterns and ranges all match is taken.  Never by id: what
 * was published elsewhere in the same words maps the same way. */
#pragma once
#include "models/topology.h"
#include "sweep-json.h"

/* Kinds of systems that a judgement is made for. */
typedef enum
{
  SC_FAMILY_NVSWITCH,
  SC_FAMILY_INFINIBAND,
  SC_FAMILY_NVL72,
  SC_FAMILY_SLINGSHOT,
  SC_FAMILY_CLOUD,
  SC_FAMILY_PCIE,
  SC_FAMILY_MESH,
  SC_FAMILY_OTHER, /* named by the sweep itself, in words no rule knows */
  SC_N_FAMILIES
} ScFamily;

const char *sc_family_name (ScFamily family);
const char *sc_family_summary (ScFamily family);

typedef struct _ScSystems ScSystems;

ScSystems *sc_systems_load (const char *argument, GError **error); /* a file, or the shipped rules of that name */
ScSystems *sc_systems_from_json (const ScJson *json, GError **error);
void       sc_systems_free (ScSystems *systems);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScSystems, sc_systems_free)

/* What stands for the system of a sweep. */
typedef struct
{
  ScFamily    family;
  char       *topology_name; /* as shipped, or as the sweep named it */
  char      **set;           /* [NULL-ended] overrides that were applied, "topology.KEY=VALUE" */
  ScTopology *topology;      /* with them */
} ScSystem;

void sc_system_clear (ScSystem *system);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ScSystem, sc_system_clear)

/* What is said of a system.  NULL: nothing, likewise 0. */
typedef struct
{
  const char *gpu, *fabric, *note; /* words, for the rules */
  guint       nodes, gpus_per_node;
  const char *nccl;                /* version of the library */
  const char *topology;            /* names the system, in place of the rules */
  char      **set;                 /* overrides with the last word */
  const char *device;              /* stands in for the topology's GPU, where that is called otherwise */
  gboolean    whole_nodes;         /* gpus_per_node is what a node has, not what a call uses of it */
} ScSystemWords;

/* FALSE: no rule fits, or the topology cannot be; @error says which.  *ret holds nothing then. */
gboolean sc_systems_find (const ScSystems *systems, const ScSystemWords *words, ScSystem *ret, GError **error);
gboolean sc_systems_find_sweep (const ScSystems *systems, const ScSweep *sweep, ScSystem *ret, GError **error);

/* Ports of the network that @words speak of: "8x NDR 400 Gb/s", "EFA 4x100 Gb/s per node", "one 400 Gb/s NIC per rank",
 * "IB HDR".  *ret_count 0: not said; *ret_gbit_per_s 0: not said.  FALSE: neither. */
gboolean sc_nics_of_words (const char *words, guint gpus_per_node, guint *ret_count, double *ret_gbit_per_s);
