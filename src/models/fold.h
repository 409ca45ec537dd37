/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fold.h - which ranks, groups and links are alike (FOLDING.md S5-S7).
 * Layer: models.
 *
 * Ranks that run the same program and see the same links form a class; groups of one kind whose members and links are
 * of the same classes form a family; links that carry the same load per capacity from the same families form a link class.
 * Classes are computed by partition refinement, never typed.  One copy per class is then simulated, one flow per
 * family, one link per link class, and every rank's times come out as if all had been simulated. */
#pragma once
#include "models/loads.h"
#include "sim/program.h"

typedef struct
{
  guint32  n_classes;
  guint32 *class_of;        /* [n_ranks] */
  guint32 *representative;  /* [n_classes] lowest rank of each */
  guint32 *class_size;      /* [n_classes] */
  guint32  n_families;
  guint32 *family_of;       /* [n_comms] */
  guint32 *family_comm;     /* [n_families] lowest comm of each */
  guint32 *family_members;  /* [n_families] classes that have a copy in it (one per role) */
  guint32  n_link_classes;  /* kept ones */
  guint32  n_used_links;
  guint32  max_parts;       /* parts of a family's walks, most */
  guint32 *uses_first;      /* [n_families * max_parts + 1]: see sc_fold_uses() */
  ScUse   *uses;            /* link = link class, streams = connections / capacity: every link class has capacity 1 */
  guint32 *link_class_of;   /* [n_links of the fabric] or SC_NONE: unused, implied or dominated */
  guint32 *link_bound_of;   /* [n_links of the fabric] of a dominated link: the class that is at least as full at any time; else SC_NONE */
  guint    rounds;
  gboolean approximate;     /* the class budget stopped the refinement (S7) */
} ScFold;

/* @colour: [n_ranks] initial colours: ranks with different programs must differ (stage, GPU type, speed).
 * @budget: most classes (S7).  @unfolded: everything its own class. */
ScFold *sc_fold_new (const ScLayout *layout, const ScFabric *fabric, const ScLoads *loads, const guint32 *colour, guint32 budget,
                     gboolean unfolded);
void    sc_fold_free (ScFold *fold);

/* Uses of part @part of @walk in @family: ScFold.uses[first .. first + n). */
static inline guint32
sc_fold_uses (const ScFold *fold, const ScLoads *loads, guint32 family, const ScWalk *walk, guint32 part, guint32 *ret_n)
{
  const guint32 base = loads->walks[loads->walk_first[fold->family_comm[family]]].first_part;
  const guint32 slot = family * fold->max_parts + walk->first_part - base + part;
  *ret_n = fold->uses_first[slot + 1] - fold->uses_first[slot];
  return fold->uses_first[slot];
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScFold, sc_fold_free)
