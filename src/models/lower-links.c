/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-links.c - whose calls may meet others on their links. */
#include "models/lower-parts.h"

/* Whether calls of a family may last longer than alone: another family's calls cross a link that theirs cross, or members of
 * several classes meet in them. */
guint8 *
sc_lower_find_may_wait (const ScFold *fold)
{
  guint8 *const ret = g_new0 (guint8, MAX (fold->n_families, 1));
  g_autofree guint32 *user = g_new (guint32, MAX (fold->n_link_classes, 1)); /* family, or SC_NONE */
  for (guint32 i = 0; i < fold->n_link_classes; i++)
    user[i] = SC_NONE;
  for (guint32 f = 0; f < fold->n_families; f++)
    {
      ret[f] |= fold->family_members[f] > 1;
      for (guint32 u = fold->uses_first[f * fold->max_parts]; u < fold->uses_first[(f + 1) * fold->max_parts]; u++)
        {
          guint32 *const first = &user[fold->uses[u].link];
          if (*first != SC_NONE && *first != f)
            ret[f] = ret[*first] = TRUE;
          *first = f;
        }
    }
  return ret;
}

/* Runs only where gradients are reduced, parameters gathered and the step ends. */
static gboolean
is_late (const ScLowerInput *in, guint32 family)
{
  switch ((ScCommKind) in->layout->comms[in->fold->family_comm[family]].kind)
    {
    case SC_COMM_DP:
    case SC_COMM_EXPERT_DP:
    case SC_COMM_SHARD:
    case SC_COMM_REPLICA:
    case SC_COMM_EMBEDDING:
    case SC_COMM_WORLD:
    case SC_COMM_KV:
      return TRUE;
    case SC_COMM_TP:
    case SC_COMM_PP_FORWARD:
    case SC_COMM_PP_BACKWARD:
    case SC_COMM_CP:
    case SC_COMM_EP:
    case SC_COMM_ETP:
    case SC_COMM_CP_A2A:
    case SC_COMM_CP_RING:
    case SC_COMM_VOCAB:
    case SC_COMM_VOCAB_SYNC:
    case SC_N_COMMS:
    default:
      return FALSE;
    }
}

#define SEVERAL (SC_NONE - 1)

/* The class whose ranks alone the family's groups are of, or SEVERAL. */
static guint32
class_of_family (const ScLowerInput *in, guint32 family)
{
  const ScFold *const fold = in->fold;
  if (fold->family_members[family] != 1 || fold->approximate)
    return SEVERAL;
  return fold->class_of[in->layout->members[in->layout->comms[fold->family_comm[family]].first]];
}

/* The same in slots in which a class has none of its late calls under way (sc_lower_put_slots()): calls that share links with no others than those of their own
 * class.  Who is of one class does all at the same times, so none of these is under way on any of its ranks. */
guint8 *
sc_lower_find_may_wait_quiet (const ScLowerInput *in)
{
  const ScFold *const fold = in->fold;
  guint8 *const ret = g_new0 (guint8, MAX (fold->n_families, 1));
  g_autofree guint32 *user = g_new (guint32, MAX (fold->n_link_classes, 1)), *late = g_new (guint32, MAX (fold->n_link_classes, 1));
  for (guint32 i = 0; i < fold->n_link_classes; i++)
    user[i] = late[i] = SC_NONE;
  for (guint32 f = 0; f < fold->n_families; f++)
    for (guint32 u = fold->uses_first[f * fold->max_parts]; u < fold->uses_first[(f + 1) * fold->max_parts]; u++)
      {
        guint32 *const first = is_late (in, f) ? &late[fold->uses[u].link] : &user[fold->uses[u].link];
        const guint32 now = is_late (in, f) ? class_of_family (in, f) : f;
        *first = *first == SC_NONE || *first == now ? now : SEVERAL;
      }
  for (guint32 f = 0; f < fold->n_families; f++)
    {
      ret[f] |= fold->family_members[f] > 1;
      for (guint32 u = fold->uses_first[f * fold->max_parts]; u < fold->uses_first[(f + 1) * fold->max_parts]; u++)
        {
          const guint32 link = fold->uses[u].link;
          ret[f] |= user[link] == SEVERAL || (late[link] != SC_NONE && (late[link] == SEVERAL || late[link] != class_of_family (in, f)));
        }
    }
  return ret;
}
