/* SPDX-License-Identifier: GPL-3.0-or-later */
/* override.h - --set KEY=VALUE: changes in the JSON tree before it is read.
 * Layer: src.  A key is a path of member names and array indices joined by dots: topology.fabric.tiers.0.radix=64 and what-ifs
 * on GPUs and links, device.scale.hbm=2, go to the topology file, everything else (plan.tp=4, model.layers=80, seq=4096) to the workload file.  The value is JSON
 * if it parses as JSON, else a text.  topology.nodes=16 resizes a topology of one run of nodes.
 * Keys need not be in the file; those that nobody reads are refused as they would be in the file. */
#pragma once
#include "json-in.h"

typedef enum
{
  SC_OVERRIDE_TOPOLOGY,
  SC_OVERRIDE_WORKLOAD,
} ScOverrideTarget;

/* Whether "KEY=VALUE" is for the topology: topology.KEY or device.KEY. */
gboolean sc_override_is_topology (const char *text);

/* Applies those of @set (NULL-ended, may be NULL) that are meant for @target, in order.
 * A key that cannot be is SC_INPUT_ERROR_OVERRIDE: the command line is wrong; bad values are bad data like a file's. */
gboolean sc_override_apply (ScJson *json, ScOverrideTarget target, char **set, GError **error);
