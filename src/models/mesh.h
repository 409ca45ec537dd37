/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mesh.h - GPUs joined by direct links of their own, without a switch: who reaches whom, and rings over the links.
 * Layer: models.  @lanes is [k x k]: lanes[i * k + j] parallel links from i to j, 0 for none and on the diagonal. */
#pragma once
#include <glib.h>

#define SC_MESH_MAX_GPUS 64    /* that one mesh joins */
#define SC_MESH_MAX_MEMBERS 16 /* of a group that rings are sought for */

/* The GPU that passes on what @a sends to @b where they share no link: joined to both, by as many links as can be
 * (the fewer of the two sides), then the lowest.  @k if there is none. */
guint sc_mesh_between (const guint8 *lanes, guint k, guint a, guint b);

/* TRUE if every two GPUs share a link or have one between them; else *ret_a and *ret_b are two that do not. */
gboolean sc_mesh_joins_all (const guint8 *lanes, guint k, guint *ret_a, guint *ret_b);

/* A large set of directed rings over all @k members, 2 to SC_MESH_MAX_MEMBERS, that together use no link more than once:
 * one member follows another ret_order[ring * k + i], i = 0..k-1.  A ring and its reverse come one after the other where
 * they can.  Where the links make no ring at all, a step may go over the member between (sc_mesh_between()) and uses
 * up a link of both legs.  Returns the number of rings, at most @max_rings; 0 if there is none.
 * Always the same for the same links.  The search is bounded, but may take some milliseconds: ask once for each kind of
 * group, not for each group. */
guint sc_mesh_rings (const guint8 *lanes, guint k, guint max_rings, guint32 *ret_order);
