/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topology-json.h - topology files: what hardware, wired how.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "models/topology.h"

extern const ScFieldTable sc_topology_table;
extern const ScFieldTable sc_node_type_table; /* values of node_types */
extern const ScFieldTable sc_nvlink_table, sc_pcie_table, sc_nics_table; /* objects of a node type */
extern const ScFieldTable sc_node_run_table;  /* elements of nodes */
extern const ScFieldTable sc_fabric_table;
extern const ScFieldTable sc_tier_table;      /* elements of fabric.tiers */
extern const ScFieldTable sc_fault_table;     /* elements of faults */
extern const ScFieldTable sc_fault_place_table; /* gpu, nic or nvlink of a fault */
extern const ScFieldTable sc_uplink_table;    /* uplink of a fault */
extern const ScFieldTable sc_topology_device_table;
extern const ScFieldTable sc_what_if_table;
extern const ScFieldTable sc_background_table; /* elements of background */

/* Reads and checks the file @argument, or the shipped topology of that name, with the overrides of @set (NULL-ended,
 * may be NULL) whose key begins with "topology.".
 * @device_file (may be NULL): stands in for the GPU of the node types that name this device, or of all if none does. */
ScTopology *sc_topology_load (const char *argument, char **set, const char *device_file, GError **error);

/* The same of a file that was read: @file is what messages call it. */
ScTopology *sc_topology_from_text (const char *file, const char *text, gsize length, char **set, const char *device_file, GError **error);

/* The same from a document; @folder: what a "device" key is relative to. */
ScTopology *sc_topology_from_json (const ScJson *json, const char *folder, const char *device_file, GError **error);
