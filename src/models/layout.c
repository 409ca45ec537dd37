/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layout.c - coordinates of ranks by arithmetic, groups by counting. */
#include "models/layout.h"
#include "sim/types.h"
#include <stdlib.h>

const char *
sc_comm_kind_name (ScCommKind kind)
{
  static const char *const names[] = { "tp", "dp", "pp-forward", "pp-backward", "embedding", "world", "cp", "ep", "etp", "expert-dp", "shard", "replica", "cp-a2a", "cp-ring", "kv", "vocab", "vocab-sync" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_COMMS);
  return names[kind];
}

ScCoord
sc_layout_coord (const ScPlan *plan, guint32 rank)
{
  ScCoord c = { .tp = rank % plan->tp, .cp = rank / plan->tp % plan->cp };
  const guint32 outer = rank / plan->tp / plan->cp;
  if (plan->rank_order == SC_ORDER_TP_CP_EP_PP_DP)
    {
      c.pp = outer % plan->pp;
      c.dp = outer / plan->pp;
    }
  else
    {
      c.dp = outer % plan->dp;
      c.pp = outer / plan->dp;
    }
  return c;
}

guint32
sc_layout_rank (const ScPlan *plan, ScCoord c)
{
  const guint32 outer = plan->rank_order == SC_ORDER_TP_CP_EP_PP_DP ? c.pp + plan->pp * c.dp : c.dp + plan->dp * c.pp;
  return c.tp + plan->tp * (c.cp + plan->cp * outer);
}

typedef struct
{
  const ScPlan *plan;
  GArray *comms, *members;
} Builder;

static void
comm_begin (Builder *b, ScCommKind kind, guint32 stage)
{
  const ScComm comm = { .kind = kind, .stage = stage, .first = b->members->len };
  g_array_append_val (b->comms, comm);
}

static void
comm_member (Builder *b, ScCoord c)
{
  const guint32 rank = sc_layout_rank (b->plan, c);
  g_array_append_val (b->members, rank);
  g_array_index (b->comms, ScComm, b->comms->len - 1).n++;
}

static void
comm_pair (Builder *b, ScCommKind kind, guint32 stage, ScCoord from, ScCoord to)
{
  comm_begin (b, kind, stage);
  comm_member (b, from);
  comm_member (b, to);
}

static void
build_tp (Builder *b)
{
  const ScPlan *const p = b->plan;
  for (guint pp = 0; p->tp > 1 && pp < p->pp; pp++)
    for (guint dp = 0; dp < p->dp; dp++)
      for (guint cp = 0; cp < p->cp; cp++)
        {
          comm_begin (b, SC_COMM_TP, pp);
          for (guint tp = 0; tp < p->tp; tp++)
            comm_member (b, (ScCoord) { tp, cp, dp, pp });
        }
}

static int
compare_ranks (gconstpointer a, gconstpointer b)
{
  const guint32 x = *(const guint32 *) a, y = *(const guint32 *) b;
  return (x > y) - (x < y);
}

static void
build_dp (Builder *b)
{
  const ScPlan *const p = b->plan;
  const gboolean both = sc_plan_placement (p) == SC_PLACE_BOTH; /* ranks pp and p - 1 - pp hold the same two stages */
  for (guint pp = 0; sc_plan_data_ranks (p) > 1 && pp < (both ? p->pp / 2 : p->pp); pp++)
    for (guint tp = 0; tp < p->tp; tp++)
      {
        comm_begin (b, SC_COMM_DP, pp);
        for (guint copy = 0; copy < (both ? 2 : 1); copy++)
          for (guint dp = 0; dp < p->dp; dp++)
            for (guint cp = 0; cp < p->cp; cp++)
              comm_member (b, (ScCoord) { tp, cp, dp, copy > 0 ? p->pp - 1 - pp : pp });
        const ScComm *const comm = &g_array_index (b->comms, ScComm, b->comms->len - 1);
        if (both)
          qsort (&g_array_index (b->members, guint32, comm->first), comm->n, sizeof (guint32), compare_ranks);
      }
}

/* Groups over the ranks of each stage that the dense part of a layer splits into dp, cp and tp, and experts into others: rank y of
 * a stage counts tp fastest, then cp, then dp.  Members are y = inner + stride (i + n outer), i = 0..n-1. */
static void
build_regular (Builder *b, ScCommKind kind, guint stride, guint n)
{
  const ScPlan *const p = b->plan;
  const guint stage_ranks = p->tp * p->cp * p->dp;
  for (guint pp = 0; n > 1 && pp < p->pp; pp++)
    for (guint outer = 0; outer < stage_ranks / (stride * n); outer++)
      for (guint inner = 0; inner < stride; inner++)
        {
          comm_begin (b, kind, pp);
          for (guint i = 0; i < n; i++)
            {
              const guint y = inner + stride * (i + n * outer);
              comm_member (b, (ScCoord) { y % p->tp, y / p->tp % p->cp, y / p->tp / p->cp, pp });
            }
        }
}

static void
build_expert_dp (Builder *b)
{
  const ScPlan *const p = b->plan;
  const gboolean both = sc_plan_placement (p) == SC_PLACE_BOTH;
  const guint held = p->etp * p->ep, copies = p->tp * p->cp * p->dp / held; /* ranks of a stage that share out the experts, and how often */
  for (guint pp = 0; copies * (both ? 2 : 1) > 1 && pp < (both ? p->pp / 2 : p->pp); pp++)
    for (guint part = 0; part < held; part++)
      {
        comm_begin (b, SC_COMM_EXPERT_DP, pp);
        for (guint i = 0; i < copies * (both ? 2 : 1); i++)
          {
            const guint y = part + held * (i % copies);
            comm_member (b, (ScCoord) { y % p->tp, y / p->tp % p->cp, y / p->tp / p->cp, i < copies ? pp : p->pp - 1 - pp });
          }
        const ScComm *const comm = &g_array_index (b->comms, ScComm, b->comms->len - 1);
        qsort (&g_array_index (b->members, guint32, comm->first), comm->n, sizeof (guint32), compare_ranks);
      }
}

static void
build_pp (Builder *b)
{
  const ScPlan *const p = b->plan;
  if (p->pp == 1)
    return;
  for (guint back = 0; back < 2; back++)
    for (guint pp = 0; pp < p->pp; pp++)
      {
        const guint to = back ? (pp + p->pp - 1) % p->pp : (pp + 1) % p->pp;
        const gboolean wraps = back ? pp == 0 : pp == p->pp - 1;
        if (wraps && (p->vpp == 1 || sc_plan_placement (p) != SC_PLACE_LOOP))
          continue; /* only chunks wrap round, and not those that turn back */
        for (guint dp = 0; dp < p->dp; dp++)
          for (guint cp = 0; cp < p->cp; cp++)
            for (guint tp = 0; tp < p->tp; tp++)
              comm_pair (b, back ? SC_COMM_PP_BACKWARD : SC_COMM_PP_FORWARD, pp, (ScCoord) { tp, cp, dp, pp },
                         (ScCoord) { tp, cp, dp, to });
      }
}

static void
build_embedding (Builder *b, const ScModel *model)
{
  const ScPlan *const p = b->plan;
  const gboolean copies = (model->tied_embeddings || model->mtp_layers > 0) && p->vocab_parallel == SC_VOCAB_ENDS;
  for (guint dp = 0; copies && !sc_plan_ends_meet (p) && dp < p->dp; dp++)
    for (guint cp = 0; cp < p->cp; cp++)
      for (guint tp = 0; tp < p->tp; tp++)
        comm_pair (b, SC_COMM_EMBEDDING, 0, (ScCoord) { tp, cp, dp, 0 }, (ScCoord) { tp, cp, dp, p->pp - 1 });
}

static void
build_vocab (Builder *b, ScCommKind kind)
{
  const ScPlan *const p = b->plan;
  for (guint dp = 0; dp < p->dp; dp++)
    for (guint cp = 0; cp < p->cp; cp++)
      for (guint tp = 0; tp < p->tp; tp++)
        {
          comm_begin (b, kind, 0);
          for (guint pp = 0; pp < p->pp; pp++)
            comm_member (b, (ScCoord) { tp, cp, dp, pp });
        }
}

static void
build_world (Builder *b, guint32 n_ranks)
{
  if (n_ranks == 1)
    return;
  comm_begin (b, SC_COMM_WORLD, 0);
  for (guint32 r = 0; r < n_ranks; r++)
    comm_member (b, sc_layout_coord (b->plan, r));
}

ScLayout *
sc_layout_new (const ScWorkload *workload)
{
  const ScPlan *const p = &workload->plan;
  ScLayout *const l = g_new0 (ScLayout, 1);
  l->workload = workload;
  l->n_ranks = p->tp * p->cp * p->dp * p->pp;
  Builder b = { p, g_array_new (FALSE, FALSE, sizeof (ScComm)), g_array_new (FALSE, FALSE, sizeof (guint32)) };
  build_tp (&b);
  build_dp (&b);
  build_pp (&b);
  build_embedding (&b, &workload->model);
  build_world (&b, l->n_ranks);
  build_regular (&b, SC_COMM_CP, p->tp, p->cp);
  if (workload->model.experts > 0)
    {
      build_regular (&b, SC_COMM_EP, p->etp, p->ep);
      build_regular (&b, SC_COMM_ETP, 1, p->etp);
      build_expert_dp (&b);
    }
  const guint inner = sc_plan_inner_ranks (p);
  if (inner > 0)
    build_regular (&b, SC_COMM_SHARD, p->tp, inner);
  if (inner > 0 && (inner == p->shard_group || p->zero.quantized_gradients > 0))
    build_regular (&b, SC_COMM_REPLICA, p->tp * inner, p->dp * p->cp / inner);
  if (p->cp > 1 && p->cp_comm == SC_CP_HIERARCHICAL)
    {
      build_regular (&b, SC_COMM_CP_A2A, p->tp, p->cp_a2a);
      build_regular (&b, SC_COMM_CP_RING, p->tp * p->cp_a2a, p->cp / p->cp_a2a);
    }
  if (p->tp > workload->model.kv_heads)
    build_regular (&b, SC_COMM_KV, 1, p->tp / workload->model.kv_heads);
  if (p->vocab_parallel != SC_VOCAB_ENDS)
    build_vocab (&b, SC_COMM_VOCAB);
  if (p->vocab_parallel == SC_VOCAB_INTERLACED)
    build_vocab (&b, SC_COMM_VOCAB_SYNC);
  l->n_comms = b.comms->len;
  l->n_members = b.members->len;
  l->comms = (ScComm *) (gpointer) g_array_free (b.comms, FALSE);
  l->members = (guint32 *) (gpointer) g_array_free (b.members, FALSE);

  l->rank_first = g_new0 (guint32, l->n_ranks + 1);
  l->of_rank = g_new (guint32, MAX (l->n_members, 1));
  for (guint32 i = 0; i < l->n_members; i++)
    l->rank_first[l->members[i] + 1]++;
  for (guint32 r = 0; r < l->n_ranks; r++)
    l->rank_first[r + 1] += l->rank_first[r];
  g_autofree guint32 *at = g_memdup2 (l->rank_first, (l->n_ranks + 1) * sizeof *at);
  for (guint32 c = 0; c < l->n_comms; c++)
    for (guint32 i = 0; i < l->comms[c].n; i++)
      l->of_rank[at[l->members[l->comms[c].first + i]]++] = c;
  return l;
}

void
sc_layout_free (ScLayout *l)
{
  if (l == NULL)
    return;
  g_free (l->comms);
  g_free (l->members);
  g_free (l->rank_first);
  g_free (l->of_rank);
  g_free (l);
}

guint32
sc_layout_comm_of (const ScLayout *l, guint32 rank, ScCommKind kind, gboolean as_sender)
{
  const gboolean pair = kind == SC_COMM_PP_FORWARD || kind == SC_COMM_PP_BACKWARD;
  for (guint32 i = l->rank_first[rank]; i < l->rank_first[rank + 1]; i++)
    {
      const ScComm *const c = &l->comms[l->of_rank[i]];
      if (c->kind == kind && (!pair || (l->members[c->first] == rank) == as_sender))
        return l->of_rank[i];
    }
  return SC_NONE;
}
