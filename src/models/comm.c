/* SPDX-License-Identifier: GPL-3.0-or-later */
/* comm.c - groups become a layout of their own; choose, walk, fold, simulate. */
#include "models/comm.h"
#include <string.h>
#include "models/fold.h"
#include "sim/engine.h"

/* Of everyone with everyone, each with a route of its own: 6 million a second. */
#define MAX_CONNECTIONS (G_GUINT64_CONSTANT (1) << 30)

G_DEFINE_QUARK (sc-comm-error-quark, sc_comm_error)

struct _ScComms
{
  ScFabric *fabric;
  gboolean  unfolded;
  /* of the groups run last */
  ScLayout *layout;
  ScLoads  *loads;
  ScFold   *fold;
  GArray   *needs; /* ScNeed */
};

ScComms *
sc_comms_new (const ScTopology *topology, guint n_gpus, gboolean unfolded, GError **error)
{
  ScFabric *const fabric = sc_fabric_new (topology, n_gpus, error);
  if (fabric == NULL)
    return NULL;
  ScComms *const c = g_new0 (ScComms, 1);
  c->fabric = fabric;
  c->unfolded = unfolded;
  c->needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  return c;
}

static void
forget (ScComms *c)
{
  g_clear_pointer (&c->fold, sc_fold_free);
  g_clear_pointer (&c->loads, sc_loads_free);
  g_clear_pointer (&c->layout, sc_layout_free);
  g_array_set_size (c->needs, 0);
}

void
sc_comms_free (ScComms *c)
{
  if (c == NULL)
    return;
  forget (c);
  g_array_unref (c->needs);
  sc_fabric_free (c->fabric);
  g_free (c);
}

const ScFabric *
sc_comms_fabric (const ScComms *c)
{
  return c->fabric;
}

/* A layout whose comms are the groups.  What a group calls sits in the comm's stage, so that only groups that call the
 * same can be one family. */
static ScLayout *
layout_of_groups (const ScFabric *fabric, const ScCommGroup *groups, guint n_groups, const guint32 *stage)
{
  ScLayout *const l = g_new0 (ScLayout, 1);
  l->n_ranks = fabric->n_gpus;
  l->n_comms = n_groups;
  l->comms = g_new0 (ScComm, n_groups);
  l->rank_first = g_new0 (guint32, l->n_ranks + 1);
  for (guint g = 0; g < n_groups; g++)
    {
      l->comms[g] = (ScComm) { .kind = groups[g].kind == SC_COLL_SEND ? SC_COMM_PP_FORWARD : SC_COMM_DP, .stage = stage[g],
                               .first = l->n_members, .n = groups[g].n };
      l->n_members += groups[g].n;
      for (guint i = 0; i < groups[g].n; i++)
        l->rank_first[groups[g].gpus[i] + 1]++;
    }
  for (guint32 r = 0; r < l->n_ranks; r++)
    l->rank_first[r + 1] += l->rank_first[r];
  l->members = g_new (guint32, MAX (l->n_members, 1));
  l->of_rank = g_new (guint32, MAX (l->n_members, 1));
  g_autofree guint32 *at = g_memdup2 (l->rank_first, (l->n_ranks + 1) * sizeof *at);
  for (guint g = 0; g < n_groups; g++)
    {
      memcpy (l->members + l->comms[g].first, groups[g].gpus, groups[g].n * sizeof (guint32));
      for (guint i = 0; i < groups[g].n; i++)
        l->of_rank[at[groups[g].gpus[i]]++] = g;
    }
  return l;
}

static gboolean
calls_alike (const ScCommGroup *a, const ScCommGroup *b)
{
  return a->kind == b->kind && a->bytes == b->bytes && a->row == b->row && a->protocol == b->protocol;
}

static gboolean
same_groups (const ScComms *c, const ScCommGroup *groups, guint n_groups, const guint32 *stage)
{
  if (c->layout == NULL || c->layout->n_comms != n_groups)
    return FALSE;
  for (guint g = 0; g < n_groups; g++)
    {
      const ScComm *const comm = &c->layout->comms[g];
      if (comm->n != groups[g].n || comm->stage != stage[g] || (comm->kind == SC_COMM_PP_FORWARD) != (groups[g].kind == SC_COLL_SEND)
          || memcmp (c->layout->members + comm->first, groups[g].gpus, groups[g].n * sizeof (guint32)) != 0)
        return FALSE;
    }
  return TRUE;
}

static void
walk_groups (ScComms *c)
{
  g_clear_pointer (&c->fold, sc_fold_free);
  g_clear_pointer (&c->loads, sc_loads_free);
  c->loads = sc_loads_new (c->layout, c->fabric, (const ScNeed *) (gconstpointer) c->needs->data, c->needs->len);
}

/* Ranks that no group has differ from those that one has; GPUs of different speed are alike here. */
static void
fold_groups (ScComms *c)
{
  g_autofree guint32 *colour = g_new0 (guint32, c->layout->n_ranks);
  for (guint32 r = 0; r < c->layout->n_ranks; r++)
    colour[r] = c->layout->rank_first[r] == c->layout->rank_first[r + 1];
  c->fold = sc_fold_new (c->layout, c->fabric, c->loads, colour, 0, c->unfolded);
}

/* Chooses for each group; TRUE if some row has to be walked first. */
static gboolean
choose_all (ScComms *c, const ScCommGroup *groups, guint n_groups, ScCommResult *ret, gboolean *ret_missing, GError **error)
{
  *ret_missing = FALSE;
  for (guint g = 0; g < n_groups; g++)
    {
      const char *why = NULL;
      if (!sc_collective_choose (groups[g].kind, &c->loads->shapes[g], groups[g].bytes, groups[g].row, groups[g].protocol,
                                 &ret[g].choice, &why))
        {
          g_set_error (error, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE, "%s%s%s%s%s over %u ranks: %s",
                       groups[g].row != NULL ? groups[g].row->name : "", groups[g].row != NULL ? " " : "",
                       groups[g].protocol < SC_N_PROTOS ? sc_protocol_name (groups[g].protocol) : "",
                       groups[g].protocol < SC_N_PROTOS ? " " : "", sc_coll_kind_name (groups[g].kind), groups[g].n, why);
          return FALSE;
        }
      const ScCollective *const row = ret[g].choice.row;
      if (row->walk == NULL || sc_loads_walk (c->loads, g, row, groups[g].kind) != NULL)
        continue;
      const guint64 connections = (guint64) groups[g].n * (groups[g].n - 1) * c->fabric->flows;
      if (row->walk == sc_pairs_walk && connections > MAX_CONNECTIONS)
        {
          g_set_error (error, SC_COMM_ERROR, SC_COMM_ERROR_TOO_LARGE,
                       "%s over %u ranks: found %" G_GUINT64_FORMAT " connections, expected at most %" G_GUINT64_FORMAT,
                       sc_coll_kind_name (groups[g].kind), groups[g].n, connections, MAX_CONNECTIONS);
          return FALSE;
        }
      const ScNeed need = { g, sc_collective_index (row), groups[g].kind };
      g_array_append_val (c->needs, need);
      *ret_missing = TRUE;
    }
  sc_needs_sort (c->needs);
  return TRUE;
}

/* What @g's own narrowest links need; a group alike may have others. */
static void
find_bound (const ScComms *c, guint32 g, const ScCommGroup *group, ScCommResult *ret, ScBound *ret_bound)
{
  const ScWalk *const walk = ret->choice.row->walk != NULL ? sc_loads_walk (c->loads, g, ret->choice.row, group->kind) : NULL;
  *ret_bound = walk != NULL ? sc_walk_bound (walk, group->kind, &c->loads->shapes[g]) : (ScBound) { 0, 0, SC_NONE, SC_NONE };
  ret->bound_s = group->bytes * MAX (ret_bound->intra_s_per_byte, ret_bound->inter_s_per_byte);
  ret->bound_link = ret_bound->inter_s_per_byte >= ret_bound->intra_s_per_byte ? ret_bound->inter_link : ret_bound->intra_link;
}

static void
add_call (ScProgram *p, const ScComms *c, guint32 family, guint32 g, const ScCommGroup *group, ScCommResult *ret)
{
  const ScGroupShape *const shape = &c->loads->shapes[g];
  const ScWalk *const walk = ret->choice.row->walk != NULL ? sc_loads_walk (c->loads, g, ret->choice.row, group->kind) : NULL;
  ScBound bound;
  find_bound (c, g, group, ret, &bound);
  sc_collective_time (&ret->choice, group->kind, shape, group->bytes, &bound);
  ScCallForm form;
  sc_collective_form (&ret->choice, group->kind, shape, group->bytes, &form);
  sc_program_add_call (p, family, 0, sc_time_from_s (form.delay_s), 0, 0);
  for (guint k = 0; k < form.n_parts && walk != NULL; k++)
    {
      guint32 n_uses;
      const guint32 first = sc_fold_uses (c->fold, c->loads, family, walk, k, &n_uses);
      sc_program_add_part (p, form.parts[k].bytes, form.parts[k].cap, c->fold->uses + first, n_uses);
    }
}

static gboolean
simulate (const ScComms *c, const ScCommGroup *groups, guint n_groups, ScCommResult *ret, GError **error)
{
  const ScFold *const fold = c->fold;
  g_autoptr (ScProgram) p = sc_program_new ();
  for (guint32 i = 0; i < fold->n_link_classes; i++)
    sc_program_add_link (p, 1);
  for (guint32 k = 0; k < fold->n_families; k++)
    {
      sc_program_add_group (p, MAX (fold->family_members[k], 1));
      const guint32 g = fold->family_comm[k];
      add_call (p, c, k, g, &groups[g], &ret[g]);
    }
  /* A rank's groups run beside each other, each on a stream of its own; streams are told apart by the rank's group's place. */
  g_autofree guint32 *ends = g_new (guint32, MAX (fold->n_families, 1));
  for (guint32 k = 0; k < fold->n_classes; k++)
    {
      const guint32 r = fold->representative[k], first = c->layout->rank_first[r], n = c->layout->rank_first[r + 1] - first;
      sc_program_add_actor (p, MAX (n, 1), FALSE);
      for (guint32 i = 0; i < n; i++)
        {
          const guint32 family = fold->family_of[c->layout->of_rank[first + i]];
          ends[family] = p->n_ops;
          sc_program_call (p, (guint8) i, family);
        }
    }
  g_autoptr (GError) inner = NULL;
  g_autoptr (ScTrace) trace = sc_engine_run (p, &inner);
  if (trace == NULL)
    {
      g_set_error (error, SC_COMM_ERROR, SC_COMM_ERROR_INTERNAL, "the simulation stopped: %s", inner->message);
      return FALSE;
    }
  for (guint g = 0; g < n_groups; g++)
    {
      const guint32 family = fold->family_of[g];
      ret[g] = ret[fold->family_comm[family]];
      ret[g].seconds = sc_time_to_s (trace->spans[ends[family]].end);
      ScBound bound;
      find_bound (c, g, &groups[g], &ret[g], &bound);
    }
  return TRUE;
}

gboolean
sc_comms_run (ScComms *c, const ScCommGroup *groups, guint n_groups, ScCommResult *ret, ScCommStats *ret_stats, GError **error)
{
  g_return_val_if_fail (n_groups > 0, FALSE);
  g_autofree guint32 *stage = g_new0 (guint32, n_groups);
  for (guint g = 0; g < n_groups; g++)
    {
      guint first = 0;
      while (!calls_alike (&groups[first], &groups[g]))
        first++;
      stage[g] = first;
    }
  if (!same_groups (c, groups, n_groups, stage))
    {
      forget (c);
      c->layout = layout_of_groups (c->fabric, groups, n_groups, stage);
      walk_groups (c);
    }
  gboolean missing;
  do
    {
      if (!choose_all (c, groups, n_groups, ret, &missing, error))
        return FALSE;
      if (missing)
        walk_groups (c);
    }
  while (missing);
  if (c->fold == NULL)
    fold_groups (c);
  if (!simulate (c, groups, n_groups, ret, error))
    return FALSE;
  if (ret_stats != NULL)
    *ret_stats = (ScCommStats) { c->fold->n_classes, c->fold->n_families, c->fold->n_used_links, c->fold->n_link_classes,
                                 c->fold->approximate };
  return TRUE;
}
