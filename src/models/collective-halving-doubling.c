/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-halving-doubling.c - all-reduce in log2 n exchanges of halves, and as many of doubles.
 * Ranks beyond the largest power of two first hand their data to a partner, and get the result from it in the end.  Halving
 * and doubling at one distance are one part: the same pairs, the same bytes. */
#include "models/collective-messages.h"

/* Largest power of two up to @n, and its logarithm. */
static guint
core_of (guint n, guint *ret_log2)
{
  *ret_log2 = g_bit_storage (n) - 1;
  return 1u << *ret_log2;
}

static guint
halving_n_parts (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape)
{
  guint rounds;
  return (core_of (shape->n, &rounds) < shape->n) + rounds;
}

static void
halving_walk (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, ScHopFunc hop, gpointer data)
{
  guint rounds, part = 0;
  const guint core = core_of (n, &rounds);
  ScRoute route;
  for (guint i = core; i < n; i++)
    for (guint back = 0; back < 2; back++)
      {
        part = 1;
        sc_fabric_route (fabric, gpus[back ? i - core : i], gpus[back ? i : i - core], &route);
        hop (data, 0, 0, back ? i - core : i, &route);
      }
  for (guint distance = core / 2; distance > 0; distance /= 2, part++)
    for (guint i = 0; i < core; i++)
      {
        sc_fabric_route (fabric, gpus[i], gpus[i ^ distance], &route);
        hop (data, part, 0, i, &route);
      }
}

static double
halving_connection_bytes (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, guint part, double bytes)
{
  guint rounds;
  if (core_of (shape->n, &rounds) < shape->n && part-- == 0)
    return bytes; /* there by one connection, back by another */
  return 2 * bytes / (2u << part);
}

/* Exchanges at @distance leave the domain, for some ranks at least. */
static gboolean
leaves_domain (const ScGroupShape *s, guint distance)
{
  return s->n_domains > 1 && (distance >= s->per_domain || (s->per_domain & (s->per_domain - 1)) != 0 || !sc_shape_is_even (s));
}

static void
halving_path (ScCollKind kind G_GNUC_UNUSED, const ScGroupShape *shape, double *ret_intra, double *ret_inter)
{
  guint rounds;
  const guint core = core_of (shape->n, &rounds);
  *ret_intra = *ret_inter = 0;
  for (guint distance = core < shape->n ? core : core / 2; distance > 0; distance /= 2)
    *(leaves_domain (shape, distance) ? ret_inter : ret_intra) += 2;
}

/* Round after round, each at the pace of its links. */
static double
halving_alone_s (ScCollKind kind, const ScGroupShape *shape, double bytes)
{
  double intra, inter;
  halving_path (kind, shape, &intra, &inter);
  guint rounds;
  const guint core = core_of (shape->n, &rounds);
  const gboolean extra = core < shape->n;
  double wire = 0;
  for (guint part = 0, distance = extra ? core : core / 2; distance > 0; distance /= 2, part++)
    wire += (extra && part == 0 ? 2 : 1) * halving_connection_bytes (kind, shape, part, bytes)
            / (leaves_domain (shape, distance) ? sc_rank_inter_bytes_per_s (shape) : sc_pair_intra_bytes_per_s (shape));
  return shape->launch_s + intra * shape->intra_latency_s + inter * shape->inter_latency_s + wire;
}

/* In one block: the rounds follow one another, as the algorithm is written. */
static ScMessages *
halving_expand (const ScFabric *fabric, const guint32 *gpus, guint n, ScCollKind kind G_GNUC_UNUSED, double bytes,
                guint blocks G_GNUC_UNUSED, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  ScDag *const dag = sc_dag_new (fabric, latency, link_map, unit_links);
  guint rounds;
  const guint core = core_of (n, &rounds);
  g_autofree guint32 *sent = g_new (guint32, core), *now = g_new (guint32, core), *held = g_new (guint32, core);
  for (guint i = 0; i < core; i++) /* held: what has been delivered to rank i last */
    {
      sent[i] = SC_NONE;
      held[i] = core + i < n ? sc_dag_add (dag, sc_dag_between (dag, gpus[core + i], gpus[i]), bytes, SC_NONE) : SC_NONE;
    }
  for (guint round = 0; round < 2 * rounds; round++)
    {
      const guint step = round < rounds ? round : 2 * rounds - 1 - round, distance = core >> (step + 1);
      for (guint i = 0; i < core; i++)
        {
          now[i] = sc_dag_add (dag, sc_dag_between (dag, gpus[i], gpus[i ^ distance]), bytes / (2u << step), sent[i]);
          if (held[i] != SC_NONE)
            sc_dag_after (dag, now[i], held[i]);
        }
      for (guint i = 0; i < core; i++)
        {
          sent[i] = now[i];
          held[i] = now[i ^ distance];
        }
    }
  for (guint i = core; i < n; i++)
    {
      const guint32 back = sc_dag_add (dag, sc_dag_between (dag, gpus[i - core], gpus[i]), bytes, sent[i - core]);
      sc_dag_after (dag, back, held[i - core]);
    }
  return sc_dag_finish (dag);
}

const ScCollective sc_collective_halving_doubling = {
  .name = "halving-doubling",
  .summary = "all-reduce in log2 n rounds of halved buffers and log2 n of doubled ones",
  .source = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005",
  .kinds = 1u << SC_COLL_ALL_REDUCE,
  .max_bytes = INFINITY,
  .min_ranks = 2,
  .on_request = TRUE,
  .n_parts = halving_n_parts,
  .walk = halving_walk,
  .connection_bytes = halving_connection_bytes,
  .alone_s = halving_alone_s,
  .path = halving_path,
  .expand = halving_expand,
};
