/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draw.h - topologies, plans and devices as drawings and tables in text. */
#pragma once
#include "models/topology.h"
#include "models/workload.h"

/* The network from the core down to the nodes with counts and rates, one drawing per node type, and the faults. */
gboolean sc_draw_topology (const ScTopology *topology, GString *out, GError **error);

/* Which ranks form which groups and on which nodes they sit, and the layers of each stage.  The two go together
 * (enough GPUs), as the caller has checked. */
void sc_draw_plan (const ScTopology *topology, const ScWorkload *workload, GString *out);

/* Every number of a device with its grade and source, what was measured on it, and its roofline (draw-device.c). */
void sc_draw_device (const ScDevice *device, GString *out);
