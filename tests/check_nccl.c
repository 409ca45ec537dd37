/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_nccl.c - what NCCL chooses, by its own figures and by published sweeps; what it takes, against the links it uses. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "models/comm.h"
#include "models/loads.h"
#include "models/nccl.h"
#include "pace.h"
#include "topology-json.h"

#define KIB 1024.0
#define MIB (1024.0 * 1024)
#define GIB (1024.0 * 1024 * 1024)
#define TICK_S 3e-12 /* the simulation counts picoseconds */

static ScTopology *
load (const char *name, const char *collectives)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = collectives != NULL ? g_strdup_printf ("topology.collectives=%s", collectives) : NULL;
  char *set[] = { text, NULL };
  ScTopology *const topology = sc_topology_load (name, set, NULL, &error);
  ck_assert_msg (topology != NULL, "%s: %s", name, error != NULL ? error->message : "no error");
  return topology;
}

/* ---- versions ---- */

START_TEST (a_topology_can_name_every_version_and_no_other)
{
  const ScField *field = sc_topology_table.fields;
  while (strcmp (field->key, "collectives") != 0)
    field++;
  const ScChoice *choice = field->choices;
  ck_assert_str_eq (choice->name, "textbook");
  for (const ScNcclVersion *const *v = sc_nccl_versions (); *v != NULL; v++)
    {
      const char *const name = sc_nccl_version_name (*v);
      choice++;
      ck_assert_str_eq (choice->name, name);
      ck_assert_uint_eq ((guint) choice->value, sc_nccl_version_number (*v));
      ck_assert (!choice->later);
      g_autoptr (ScTopology) topology = load ("dgx-h100-8", name);
      ck_assert_uint_eq (topology->collectives, sc_nccl_version_number (*v));
      g_autoptr (ScFabric) fabric = sc_fabric_new (topology, 8, NULL);
      ck_assert_ptr_eq (sc_nccl_library (fabric, 0).version, *v);
      ck_assert_ptr_eq (sc_nccl_version_of_number (sc_nccl_version_number (*v)), *v);
      ck_assert (strlen (sc_nccl_version_source (*v)) > 0);
      if (v[1] != NULL)
        ck_assert_uint_gt (sc_nccl_version_number (v[0]), sc_nccl_version_number (v[1])); /* newest first */
    }
  ck_assert_ptr_null (choice[1].name);
  g_autoptr (ScTopology) textbook = load ("dgx-h100-8", "textbook");
  g_autoptr (ScFabric) fabric = sc_fabric_new (textbook, 8, NULL);
  ck_assert_ptr_null (sc_nccl_library (fabric, 0).version);
}
END_TEST

static const struct
{
  const char *release;
  const char *name; /* NULL: no release */
} releases[] = {
  { "2.26.2", "nccl-2.25" },
  { "2.19.3+cuda12.2", "nccl-2.19" },
  { "2.20.3 printed (file name says 2.22.3)", "nccl-2.19" },
  { "NCCL version 2.8.4", "nccl-2.8" },
  { "libnccl.so.2.18.5", "nccl-2.18" },
  { "v2.5.7-1", "nccl-2.5" },
  { "2.30.7", "nccl-2.29" },
  { "2.28.9", "nccl-2.28" },
  { "2.24", "nccl-2.23" },
  { "2.4.8", "nccl-2.5" }, /* the oldest there is */
  { "2.99999999999999999999", "nccl-2.29" },
  { "CUDA 12.2.1, NCCL 2.14.3", "nccl-2.14" },
  { "", NULL },
  { NULL, NULL },
  { "12.4", NULL },
  { "CUDA 12.2.1", NULL },
  { "535.2.18", NULL },
  { "2", NULL },
  { "2.", NULL },
  { "2.x", NULL },
};

START_TEST (a_release_is_found_in_the_text_around_it)
{
  const ScNcclVersion *const got = sc_nccl_version_of (releases[_i].release);
  const char *const name = got != NULL ? sc_nccl_version_name (got) : "none", *const want = releases[_i].name != NULL ? releases[_i].name : "none";
  ck_assert_msg (strcmp (name, want) == 0, "\"%s\": found %s, expected %s", releases[_i].release, name, want);
}
END_TEST

/* ---- NCCL's own latencies ---- */

/* Microseconds for no bytes, of nodes of H100, one microsecond to post to a NIC, no latency of NICs: values of NCCL's
 * src/graph/tuning.cc.  Ring and tree have the same constants from 2.23 on; before, tree Simple paid 28 us a hop (2.19 and
 * before 2.18) and nothing at the start, and NVLS took 23 us; before 2.18 the base was lower and a hop of LL cheaper. */
static const struct
{
  guint since, until; /* versions' numbers */
  const ScCollective *row;
  ScCollKind kind;
  guint  ranks, nodes;
  double us[SC_N_PROTOS]; /* 0: not in this protocol */
} latencies[] = {
  { 2023, 2029, &sc_collective_ring, SC_COLL_ALL_REDUCE, 8, 1, { 15.0, 40.6, 56.0 } },
  { 2023, 2029, &sc_collective_ring, SC_COLL_ALL_GATHER, 8, 1, { 10.8, 27.3, 32.2 } },
  { 2023, 2029, &sc_collective_ring, SC_COLL_REDUCE_SCATTER, 8, 1, { 10.8, 27.3, 32.2 } },
  { 2023, 2029, &sc_collective_ring, SC_COLL_ALL_REDUCE, 16, 2, { 40.0, 75.2, 131.6 } },
  { 2023, 2029, &sc_collective_ring, SC_COLL_ALL_REDUCE, 64, 8, { 156.4, 282.8, 585.2 } },
  { 2023, 2029, &sc_collective_tree, SC_COLL_ALL_REDUCE, 8, 1, { 15.2, 31.5, 64.4 } },
  { 2023, 2029, &sc_collective_tree, SC_COLL_ALL_REDUCE, 64, 8, { 45.2, 82.5, 148.4 } },
  { 2023, 2029, &sc_collective_tree, SC_COLL_ALL_REDUCE, 1024, 128, { 85.2, 150.5, 260.4 } },
  { 2023, 2029, &sc_collective_nvls, SC_COLL_ALL_REDUCE, 8, 1, { 0, 0, 25.0 } },
  { 2023, 2029, &sc_collective_chain, SC_COLL_BROADCAST, 8, 1, { 7.2, 15.9, 11.8 } },
  { 2023, 2029, &sc_collective_pat, SC_COLL_ALL_GATHER, 8, 8, { 0, 0, 42.4 } }, /* 8 + 3 x 14 / 3.5 + 2.8 x 8 */
  { 2028, 2029, &sc_collective_nvls_tree, SC_COLL_ALL_REDUCE, 64, 8, { 0, 0, 150.4 } },
  { 2023, 2025, &sc_collective_nvls_tree, SC_COLL_ALL_REDUCE, 64, 8, { 0, 0, 109 } },
  { 2019, 2019, &sc_collective_nvls_tree, SC_COLL_ALL_REDUCE, 64, 8, { 0, 0, 107 } },
  { 2018, 2029, &sc_collective_ring, SC_COLL_ALL_REDUCE, 8, 1, { 15.0, 40.6, 56.0 } },
  { 2019, 2019, &sc_collective_tree, SC_COLL_ALL_REDUCE, 8, 1, { 15.2, 31.5, 392 } },
  { 2018, 2018, &sc_collective_tree, SC_COLL_ALL_REDUCE, 8, 1, { 15.2, 31.5, 56 } },
  { 2018, 2019, &sc_collective_nvls, SC_COLL_ALL_REDUCE, 8, 1, { 0, 0, 23 } },
  { 2008, 2014, &sc_collective_ring, SC_COLL_ALL_REDUCE, 8, 1, { 10.18, 36.6, 56.0 } },
  { 2008, 2014, &sc_collective_ring, SC_COLL_ALL_REDUCE, 16, 2, { 32.7, 71.2, 122.8 } },
  { 2008, 2014, &sc_collective_tree, SC_COLL_ALL_REDUCE, 8, 1, { 11.68, 21.9, 392 } },
  { 2005, 2005, &sc_collective_ring, SC_COLL_ALL_REDUCE, 8, 1, { 9.2, 38.6, 88.2 } },
  { 2005, 2005, &sc_collective_tree, SC_COLL_ALL_REDUCE, 8, 1, { 11.4, 31.0, 392 } },
};

/* Groups of whole nodes of 8 H100, or of one GPU of each. */
static ScGroupShape
h100_shape (ScFabric *fabric, const ScNcclVersion *version, guint ranks, guint nodes)
{
  ScGroupShape shape = { .n = ranks, .n_domains = nodes, .per_domain = ranks / nodes, .n_channels = nodes > 1 ? ranks / nodes : 1, .rails = nodes > 1 ? ranks / nodes : 1,
                         .hops_inter = nodes > 1 ? nodes : 0, .inter_bytes_per_s = nodes > 1 ? 48.9e9 : INFINITY,
                         .intra_bytes_per_s = ranks > nodes ? 395e9 : INFINITY, .inter_latency_s = 5e-6, .intra_latency_s = 0.82e-6,
                         .launch_s = 4.45e-6 };
  shape.library = sc_nccl_library (fabric, 0);
  shape.library.version = version;
  return shape;
}

START_TEST (latencies_are_those_of_the_tuner)
{
  g_autoptr (ScTopology) topology = load ("dgx-h100-8", NULL);
  g_autoptr (ScFabric) fabric = sc_fabric_new (topology, 8, NULL);
  guint n_versions = 0;
  for (const ScNcclVersion *const *v = sc_nccl_versions (); *v != NULL; v++)
    {
      if (sc_nccl_version_number (*v) < latencies[_i].since || sc_nccl_version_number (*v) > latencies[_i].until)
        continue;
      n_versions++;
      const ScGroupShape shape = h100_shape (fabric, *v, latencies[_i].ranks, latencies[_i].nodes);
      for (guint p = 0; p < SC_N_PROTOS; p++)
        {
          const double us = 1e6 * sc_nccl_estimate_s (latencies[_i].row, (ScProtocol) p, latencies[_i].kind, &shape, 0);
          const double want = latencies[_i].us[p] > 0 ? latencies[_i].us[p] : INFINITY;
          ck_assert_msg (us == want || fabs (us - want) <= 0.05, "%s, %s %s %s over %u on %u: %g us, expected %g us",
                         sc_nccl_version_name (*v), latencies[_i].row->name, sc_protocol_name ((ScProtocol) p),
                         sc_coll_kind_name (latencies[_i].kind), shape.n, shape.n_domains, us, want);
        }
    }
  ck_assert_uint_gt (n_versions, 0);
}
END_TEST

START_TEST (large_messages_of_a_simple_ring_over_nodes_pay_a_plateau)
{
  static const struct
  {
    ScProtocol protocol;
    ScCollKind kind;
    guint  ranks, nodes;
    double factor; /* of the latency, from 64 bytes per channel and rank on */
  } rows[] = {
    { SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, 64, 8, 1.4 },     { SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, 16, 2, 1.4 },
    { SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, 8, 1, 1 },        { SC_PROTO_SIMPLE, SC_COLL_ALL_GATHER, 64, 8, 1 },
    { SC_PROTO_SIMPLE, SC_COLL_REDUCE_SCATTER, 16, 2, 1 },   { SC_PROTO_LL, SC_COLL_ALL_REDUCE, 64, 8, 1 },
    { SC_PROTO_LL128, SC_COLL_ALL_REDUCE, 64, 8, 1 },
  };
  g_autoptr (ScTopology) topology = load ("dgx-h100-8", NULL);
  g_autoptr (ScFabric) fabric = sc_fabric_new (topology, 8, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (const ScNcclVersion *const *v = sc_nccl_versions (); *v != NULL; v++)
      {
        const ScGroupShape shape = h100_shape (fabric, *v, rows[i].ranks, rows[i].nodes);
        double s[4];
        const double large = 64.0 * 8 * rows[i].ranks, bytes[] = { 0, large - 64, large, 2 * large - 64 };
        for (guint k = 0; k < 4; k++)
          s[k] = sc_nccl_estimate_s (&sc_collective_ring, rows[i].protocol, rows[i].kind, &shape, bytes[k]);
        const double of_byte = (s[1] - s[0]) / bytes[1];
        ck_assert_double_gt (of_byte, 0);
        for (guint k = 2; k < 4; k++) /* twice: with the step, the slope stays */
          ck_assert_double_eq_tol (s[k] - of_byte * bytes[k], rows[i].factor * s[0], 1e-9 * s[0]);
      }
}
END_TEST

/* ---- choices ---- */

typedef struct
{
  ScTopology *topology;
  ScComms *comms;
  guint32 *gpus;
  guint    n;
} Ranks;

/* The first @n GPUs, @per_node of each node; 0: all of its own. */
static Ranks
ranks_new (const char *name, const char *collectives, guint n, guint per_node)
{
  Ranks r = { .topology = load (name, collectives), .gpus = g_new (guint32, n), .n = n };
  const guint each = r.topology->types[0].gpus, most = per_node > 0 ? per_node : each;
  for (guint i = 0; i < n; i++)
    r.gpus[i] = i / most * each + i % most;
  g_autoptr (GError) error = NULL;
  r.comms = sc_comms_new (r.topology, r.gpus[n - 1] + 1, FALSE, &error);
  ck_assert_msg (r.comms != NULL, "%s: %s", name, error != NULL ? error->message : "no error");
  return r;
}

static void
ranks_clear (Ranks *r)
{
  sc_comms_free (r->comms);
  sc_topology_free (r->topology);
  g_free (r->gpus);
}

static ScCollChoice
choice_of (const Ranks *r, ScCollKind kind, double bytes)
{
  const ScCommGroup group = { .kind = kind, .gpus = r->gpus, .n = r->n, .bytes = bytes, .protocol = SC_N_PROTOS };
  ScCommResult result = { 0 };
  ck_assert (sc_comms_run (r->comms, &group, 1, &result, NULL, NULL));
  return result.choice;
}

/* What sweeps were seen to use, and its sizes. */
static const struct
{
  const char *topology, *collectives;
  guint  n, per_node;
  ScCollKind kind;
  double from, to;
  const ScCollective *row;
  ScProtocol protocol;
} seen[] = {
  { "dgx-h100-8", NULL, 8, 0, SC_COLL_ALL_REDUCE, 8, MIB, &sc_collective_ring, SC_PROTO_LL },
  { "dgx-h100-8", NULL, 8, 0, SC_COLL_ALL_REDUCE, 2 * MIB, 16 * GIB, &sc_collective_nvls, SC_PROTO_SIMPLE },
  { "dgx-h200", NULL, 8, 0, SC_COLL_ALL_REDUCE, 8, MIB, &sc_collective_ring, SC_PROTO_LL },
  { "dgx-h200", NULL, 8, 0, SC_COLL_ALL_REDUCE, 2 * MIB, 16 * GIB, &sc_collective_nvls, SC_PROTO_SIMPLE },
  { "dgx-h200", NULL, 5, 0, SC_COLL_ALL_REDUCE, 8 * GIB, 8 * GIB, &sc_collective_nvls, SC_PROTO_SIMPLE },
  { "dgx-h200", NULL, 4, 0, SC_COLL_ALL_REDUCE, 8 * GIB, 8 * GIB, &sc_collective_ring, SC_PROTO_SIMPLE },
  { "dgx-b200", "nccl-2.29", 8, 0, SC_COLL_ALL_REDUCE, 4 * MIB, 16 * GIB, &sc_collective_nvls, SC_PROTO_SIMPLE },
  { "dgx-a100", NULL, 8, 0, SC_COLL_ALL_REDUCE, 8, 64 * KIB, &sc_collective_ring, SC_PROTO_LL },
  { "dgx-a100", NULL, 8, 0, SC_COLL_ALL_REDUCE, 256 * MIB, 16 * GIB, &sc_collective_ring, SC_PROTO_SIMPLE },
  { "dgx-h100-8", NULL, 16, 0, SC_COLL_ALL_REDUCE, 8, 8, &sc_collective_tree, SC_PROTO_LL },
  { "dgx-h100-8", NULL, 32, 0, SC_COLL_ALL_REDUCE, 8, 8, &sc_collective_tree, SC_PROTO_LL },
  { "dgx-h100-8", NULL, 64, 0, SC_COLL_ALL_REDUCE, 8, 8, &sc_collective_tree, SC_PROTO_LL },
  { "dgx-a100-superpod", NULL, 64, 0, SC_COLL_ALL_REDUCE, 8, 8, &sc_collective_tree, SC_PROTO_LL },
  { "alps-gh200", NULL, 32, 0, SC_COLL_ALL_REDUCE, 8, 8, &sc_collective_tree, SC_PROTO_LL },
};

START_TEST (choices_are_those_seen_in_sweeps)
{
  Ranks r = ranks_new (seen[_i].topology, seen[_i].collectives, seen[_i].n, seen[_i].per_node);
  for (double bytes = seen[_i].from; bytes <= seen[_i].to; bytes *= 2)
    {
      const ScCollChoice got = choice_of (&r, seen[_i].kind, bytes);
      ck_assert_msg (got.row == seen[_i].row && got.protocol == seen[_i].protocol, "%u of %s, %s of %.0f B: found %s %s, expected %s %s",
                     r.n, seen[_i].topology, sc_coll_kind_name (seen[_i].kind), bytes, got.row->name, sc_protocol_name (got.protocol),
                     seen[_i].row->name, sc_protocol_name (seen[_i].protocol));
    }
  ranks_clear (&r);
}
END_TEST

START_TEST (a_ring_of_a100_takes_ll_then_ll128_then_simple)
{
  static const ScCollKind kinds[] = { SC_COLL_ALL_GATHER, SC_COLL_REDUCE_SCATTER };
  Ranks r = ranks_new ("dgx-a100", NULL, 8, 0);
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      guint n_sizes[SC_N_PROTOS] = { 0 };
      ScProtocol before = SC_PROTO_LL;
      for (double bytes = 8; bytes <= 8 * GIB; bytes *= 2)
        {
          const ScCollChoice got = choice_of (&r, kinds[k], bytes);
          ck_assert_ptr_eq (got.row, &sc_collective_ring);
          ck_assert_uint_ge (got.protocol, before);
          before = got.protocol;
          n_sizes[before]++;
        }
      for (guint p = 0; p < SC_N_PROTOS; p++)
        ck_assert_uint_ge (n_sizes[p], 2);
    }
  ranks_clear (&r);
}
END_TEST

/* Who has an algorithm: from some version on, from some number of ranks on. */
static const struct
{
  const char *topology;
  guint  n, per_node;
  ScCollKind kind;
  const ScCollective *row;
  guint  since; /* version's number; 0: none has it here */
} first_had[] = {
  { "dgx-h100-8", 8, 0, SC_COLL_ALL_REDUCE, &sc_collective_nvls, 2018 },
  { "dgx-h100-8", 4, 0, SC_COLL_ALL_REDUCE, &sc_collective_nvls, 0 },
  { "dgx-a100", 8, 0, SC_COLL_ALL_REDUCE, &sc_collective_nvls, 0 },
  { "dgx-h100-8", 64, 0, SC_COLL_ALL_REDUCE, &sc_collective_nvls, 0 },
  { "dgx-h100-8", 8, 1, SC_COLL_ALL_GATHER, &sc_collective_pat, 2023 },
  { "dgx-h100-8", 8, 1, SC_COLL_REDUCE_SCATTER, &sc_collective_pat, 2023 },
  { "dgx-h100-8", 16, 2, SC_COLL_ALL_GATHER, &sc_collective_pat, 0 },
  { "dgx-h100-8", 64, 0, SC_COLL_ALL_REDUCE, &sc_collective_nvls_tree, 2018 },
  { "dgx-h100-8", 64, 0, SC_COLL_ALL_REDUCE, &sc_collective_collnet, 0 },
};

START_TEST (versions_take_only_what_they_have)
{
  for (const ScNcclVersion *const *v = sc_nccl_versions (); *v != NULL; v++)
    {
      const char *const name = sc_nccl_version_name (*v);
      const gboolean has = first_had[_i].since > 0 && sc_nccl_version_number (*v) >= first_had[_i].since;
      Ranks r = ranks_new (first_had[_i].topology, name, first_had[_i].n, first_had[_i].per_node);
      for (double bytes = 8; bytes <= 8 * GIB; bytes *= 4)
        ck_assert_msg (has || choice_of (&r, first_had[_i].kind, bytes).row != first_had[_i].row, "%s takes %s for %.0f B over %u of %s",
                       name, first_had[_i].row->name, bytes, r.n, first_had[_i].topology);
      const ScCommGroup group = { .kind = first_had[_i].kind, .gpus = r.gpus, .n = r.n, .bytes = GIB, .row = first_had[_i].row,
                                  .protocol = SC_N_PROTOS };
      ScCommResult result = { 0 };
      g_autoptr (GError) error = NULL;
      ck_assert_msg (sc_comms_run (r.comms, &group, 1, &result, NULL, &error) == has, "%s, %s forced over %u of %s", name,
                     first_had[_i].row->name, r.n, first_had[_i].topology);
      ck_assert (has || g_error_matches (error, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE));
      ranks_clear (&r);
    }
}
END_TEST

/* ---- every shipped topology ---- */

#define MAX_GPUS 80 /* more than one domain of 72 */
#define MAX_GROUP 64

static const ScLibraryRow *
shipped (guint i)
{
  const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_TOPOLOGY);
  while (i-- > 0)
    row = sc_library_next (row, SC_KIND_TOPOLOGY);
  return row;
}

static guint
n_shipped (void)
{
  guint n = 0;
  for (const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_TOPOLOGY); row != NULL; row = sc_library_next (row, SC_KIND_TOPOLOGY))
    n++;
  return n;
}

typedef enum { HALF_NODE, ONE_NODE, TWO_NODES, ALL, ONE_OF_EACH_NODE, TWO_DOMAINS, N_GROUPS } GroupKind;
static const char *const group_names[] = { "half a node", "one node", "two nodes", "all", "one of each node", "a node of each of two domains" };
G_STATIC_ASSERT (G_N_ELEMENTS (group_names) == N_GROUPS);

static guint
group_fill (const ScFabric *f, GroupKind kind, guint32 *ret_gpus)
{
  const guint32 node_0 = f->gpus[0].node, domain_0 = f->domain[node_0];
  guint first = f->n_gpus, n = 0; /* node that begins the second domain */
  for (guint32 g = 0; g < f->n_gpus && first == f->n_gpus; g++)
    if (f->domain[f->gpus[g].node] != domain_0)
      first = f->gpus[g].node;
  for (guint32 g = 0; g < f->n_gpus && n < MAX_GROUP; g++)
    {
      const guint node = f->gpus[g].node, of_job = node - node_0, index = f->gpus[g].index;
      const gboolean in = kind == HALF_NODE     ? of_job == 0 && index < sc_fabric_node_type (f, g)->gpus / 2
                          : kind == ONE_NODE    ? of_job == 0
                          : kind == TWO_NODES   ? of_job < 2
                          : kind == TWO_DOMAINS ? first != node_0 + 1 && (of_job == 0 || node == first)
                                                : kind == ALL || index == 0;
      if (in)
        ret_gpus[n++] = g;
    }
  return n;
}

/* Calls of one group, all kinds, each by every algorithm and protocol. */
typedef struct
{
  const char *topology;
  const ScFabric *fabric;
  ScComms *comms;
  GroupKind group_kind;
  guint32  gpus[MAX_GROUP];
  guint    n;
} Group;

typedef void (*CallFunc) (const Group *g, const ScCommGroup *call, gpointer data);

static gboolean
run_call (const Group *g, const ScCommGroup *call, double bytes, ScCommResult *ret)
{
  ScCommGroup group = *call;
  group.bytes = bytes;
  g_autoptr (GError) error = NULL;
  if (sc_comms_run (g->comms, &group, 1, ret, NULL, &error))
    return TRUE;
  ck_assert_msg (call->row != NULL && g_error_matches (error, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE), "%s, %s: %s", g->topology,
                 group_names[g->group_kind], error->message);
  return FALSE;
}

static char *
call_text (const Group *g, const ScCommGroup *call, double bytes)
{
  return g_strdup_printf ("%s, %s (%u), %s %s %s of %.0f B", g->topology, group_names[g->group_kind], call->n,
                          call->row != NULL ? call->row->name : "any", call->protocol < SC_N_PROTOS ? sc_protocol_name (call->protocol) : "any",
                          sc_coll_kind_name (call->kind), bytes);
}

/* @forced: also what each row and protocol makes of it. */
static void
for_each_call (ScTopology *topology, const char *name, gboolean forced, CallFunc func, gpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScComms) comms = sc_comms_new (topology, MIN (sc_topology_job_gpus (topology), MAX_GPUS), FALSE, &error);
  ck_assert_msg (comms != NULL, "%s: %s", name, error != NULL ? error->message : "no error");
  Group g = { .topology = name, .fabric = sc_comms_fabric (comms), .comms = comms };
  guint before = 0;
  for (guint k = 0; k < N_GROUPS; k++)
    {
      g.group_kind = (GroupKind) k;
      g.n = group_fill (g.fabric, g.group_kind, g.gpus);
      if (g.n < 2 || (k > HALF_NODE && k < ONE_OF_EACH_NODE && g.n == before)) /* as large as the last: the same */
        continue;
      before = g.n;
      for (guint kind = 0; kind < SC_N_COLLS; kind++)
        {
          const guint32 ends[] = { g.gpus[0], g.gpus[g.n - 1] };
          const gboolean send = kind == SC_COLL_SEND;
          ScCommGroup call = { .kind = (ScCollKind) kind, .gpus = send ? ends : g.gpus, .n = send ? 2 : g.n, .protocol = SC_N_PROTOS };
          func (&g, &call, data);
          for (const ScCollective *const *row = sc_collective_all (); forced && *row != NULL; row++)
            for (guint p = 0; p < SC_N_PROTOS; p++)
              {
                call.row = *row;
                call.protocol = (ScProtocol) p;
                ScCommResult result;
                if (((*row)->kinds & 1u << kind) != 0 && run_call (&g, &call, 8, &result))
                  func (&g, &call, data);
              }
        }
    }
}

static void
check_sizes (const Group *g, const ScCommGroup *call, gpointer data)
{
  guint *const n_calls = data;
  ScCommResult before = { .seconds = 0 };
  for (double bytes = 8; bytes <= 8 * GIB; bytes *= call->row == NULL ? 2 : 8)
    {
      ScCommResult now;
      if (!run_call (g, call, bytes, &now))
        {
          ck_assert (bytes > call->row->max_bytes); /* it could 8 B */
          break;
        }
      g_autofree char *text = call_text (g, call, bytes);
      ck_assert_msg (isfinite (now.seconds) && now.seconds > 0, "%s: %g s", text, now.seconds);
      ck_assert_msg (now.seconds >= now.bound_s * (1 - 1e-9), "%s: %.12g s, its narrowest link needs %.12g s", text, now.seconds, now.bound_s);
      ck_assert_msg (now.choice.row != before.choice.row || now.choice.protocol != before.choice.protocol
                       || now.seconds >= before.seconds * (1 - 1e-12), "%s: %.12g s, less bytes took %.12g s", text, now.seconds, before.seconds);
      before = now;
      ++*n_calls;
    }
}

/* Every row and protocol on every sixth cluster, on all with STEPCAST_LONG; what is chosen is tried on all. */
static gboolean
forces (guint i)
{
  return i % 6 == 0 || g_getenv ("STEPCAST_LONG") != NULL;
}

START_TEST (no_call_beats_its_links_and_larger_ones_take_longer)
{
  g_autoptr (ScTopology) topology = load (shipped ((guint) _i)->name, NULL);
  guint n_calls = 0;
  for_each_call (topology, shipped ((guint) _i)->name, forces ((guint) _i), check_sizes, &n_calls);
  ck_assert_uint_gt (n_calls, forces ((guint) _i) ? 1000 : 100);
}
END_TEST

/* Bytes that a call puts on each link, summed here over its connections. */
typedef struct
{
  const ScCommGroup *call;
  const ScGroupShape *shape;
  const ScCollective *row;
  double  factor; /* on the wire per byte of data */
  double *bytes;  /* [n_links] */
} Sum;

static void
add_hop (gpointer data, guint part, guint channel G_GNUC_UNUSED, guint position G_GNUC_UNUSED, const ScRoute *route)
{
  const Sum *const sum = data;
  for (guint i = 0; i < route->n; i++)
    sum->bytes[route->links[i]] += sum->factor * sum->row->connection_bytes (sum->call->kind, sum->shape, part, sum->call->bytes);
}

static ScLayout *
layout_of (const ScFabric *fabric, const ScCommGroup *call)
{
  ScLayout *const l = g_new0 (ScLayout, 1);
  l->n_ranks = fabric->n_gpus;
  l->n_comms = 1;
  l->comms = g_new (ScComm, 1);
  l->comms[0] = (ScComm) { .kind = call->kind == SC_COLL_SEND ? SC_COMM_PP_FORWARD : SC_COMM_DP, .n = call->n };
  l->n_members = call->n;
  l->members = g_memdup2 (call->gpus, call->n * sizeof *call->gpus);
  l->rank_first = g_new0 (guint32, l->n_ranks + 1);
  l->of_rank = g_new0 (guint32, call->n);
  for (guint i = 0; i < call->n; i++)
    l->rank_first[call->gpus[i] + 1] = 1;
  for (guint r = 0; r < l->n_ranks; r++)
    l->rank_first[r + 1] += l->rank_first[r];
  return l;
}

static void
check_protocol (const Group *g, const ScCommGroup *call, gpointer data)
{
  guint *const n_calls = data; /* [SC_N_PROTOS] */
  g_autoptr (ScLayout) layout = layout_of (g->fabric, call);
  g_autoptr (ScLoads) loads = sc_loads_new (layout, g->fabric, NULL, 0);
  for (double bytes = 8; bytes <= 8 * GIB; bytes *= 1024)
    {
      ScCommResult got;
      if (!run_call (g, call, bytes, &got))
        continue;
      g_autofree char *text = call_text (g, call, bytes);
      ck_assert (call->protocol == SC_N_PROTOS || got.choice.protocol == call->protocol);
      ck_assert (call->row == NULL || got.choice.row == call->row);
      ck_assert_msg (fabs (got.seconds - got.choice.alone_s) <= 1e-9 * got.choice.alone_s + TICK_S, "%s: %.12g s, alone %.12g s", text,
                     got.seconds, got.choice.alone_s);
      if (got.choice.row->walk == NULL)
        continue;
      g_autofree double *of_link = g_new0 (double, g->fabric->n_links);
      ScCommGroup sized = *call;
      sized.bytes = bytes;
      ScFabric view = *g->fabric;
      Sum sum = { &sized, &loads->shapes[0], got.choice.row, sc_protocol_wire (got.choice.protocol) / MAX (view.flows, 1), of_link };
      for (view.flow = 0; view.flow < MAX (view.flows, 1); view.flow++)
        got.choice.row->walk (&view, call->gpus, call->n, call->kind, add_hop, &sum);
      double carried = 0;
      for (guint32 l = 0; l < g->fabric->n_links; l++)
        {
          carried += of_link[l];
          ck_assert_msg (of_link[l] <= g->fabric->links[l].capacity * (got.seconds + TICK_S) * (1 + 1e-9),
                         "%s: %g B in %.12g s over a link of %g B/s", text, of_link[l], got.seconds, g->fabric->links[l].capacity);
        }
      ck_assert_msg (carried > 0, "%s: on no link", text);
      n_calls[got.choice.protocol]++;
    }
}

START_TEST (alone_a_call_takes_its_time_and_fills_no_link_beyond_its_capacity)
{
  if (!forces ((guint) _i))
    return;
  g_autoptr (ScTopology) topology = load (shipped ((guint) _i)->name, NULL);
  guint n_calls[SC_N_PROTOS] = { 0 };
  for_each_call (topology, shipped ((guint) _i)->name, TRUE, check_protocol, n_calls);
  for (guint p = 0; p < SC_N_PROTOS; p++)
    ck_assert_uint_gt (n_calls[p], 10);
}
END_TEST

/* ---- what if ---- */

static void
scale (ScCited *cited, double factor)
{
  cited->value *= factor;
}

static void
faster_nvlink (ScTopology *t)
{
  for (guint i = 0; i < t->n_types; i++)
    scale (&t->types[i].nvlink_bytes_per_s, 2);
}

static void
faster_pcie (ScTopology *t)
{
  for (guint i = 0; i < t->n_types; i++)
    {
      scale (&t->types[i].pcie_bytes_per_s, 2);
      scale (&t->types[i].pcie_uplink_bytes_per_s, 2);
      scale (&t->types[i].pcie_socket_bytes_per_s, 2);
      scale (&t->types[i].pcie_socket_pair_bytes_per_s, 2);
    }
}

static void
faster_nics (ScTopology *t)
{
  for (guint i = 0; i < t->n_types; i++)
    scale (&t->types[i].nic_bytes_per_s, 2);
}

static void
shorter_latencies (ScTopology *t)
{
  for (guint i = 0; i < t->n_types; i++)
    {
      scale (&t->types[i].nvlink_latency_s, 0.5);
      scale (&t->types[i].pcie_latency_s, 0.5);
      scale (&t->types[i].nic_latency_s, 0.5);
    }
  for (guint i = 0; i < t->n_tiers; i++)
    scale (&t->tiers[i].latency_s, 0.5);
}

static void
shorter_launch (ScTopology *t)
{
  scale (&t->collective_launch_s, 0.5);
}

static gboolean
has_nvlink (const ScTopology *t)
{
  return t->types[0].has_nvlink;
}

static gboolean
has_pcie (const ScTopology *t)
{
  return !t->types[0].has_nvlink;
}

/* And is not starved by what leads to its NICs. */
static gboolean
has_network (const ScTopology *t)
{
  const ScNodeType *const type = &t->types[0];
  return t->n_nodes > 1 && (type->pcie_uplink_bytes_per_s.value <= 0 || type->pcie_uplink_bytes_per_s.value > type->nic_bytes_per_s.value);
}

static gboolean
always (const ScTopology *t G_GNUC_UNUSED)
{
  return TRUE;
}

static const struct
{
  const char *name;
  void (*change) (ScTopology *topology);
  double bytes;                                     /* a call of this size gains by it, */
  gboolean (*matters) (const ScTopology *topology); /* where there is such a link */
} changes[] = {
  { "NVLink twice as fast", faster_nvlink, GIB, has_nvlink },       { "PCIe twice as fast", faster_pcie, GIB, has_pcie },
  { "NICs twice as fast", faster_nics, GIB, has_network },          { "half the latencies", shorter_latencies, 8, always },
  { "half the launch", shorter_launch, 8, always },
};

static const double what_if_sizes[] = { 8, 64 * KIB, 4 * MIB, GIB };

static void
keep_times (const Group *g, const ScCommGroup *call, gpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (what_if_sizes); i++)
    {
      ScCommResult result = { .seconds = NAN }; /* the row takes no such message */
      run_call (g, call, what_if_sizes[i], &result);
      g_array_append_val ((GArray *) data, result);
    }
}

typedef struct
{
  const GArray *before; /* ScCommResult, in the same order */
  guint at;
  const char *name;
  double bytes;
  double most; /* times as fast */
} Compare;

static void
compare_times (const Group *g, const ScCommGroup *call, gpointer data)
{
  Compare *const c = data;
  for (guint i = 0; i < G_N_ELEMENTS (what_if_sizes); i++)
    {
      const ScCommResult *const before = &g_array_index (c->before, ScCommResult, c->at++);
      ScCommResult now = { .seconds = NAN };
      ck_assert (run_call (g, call, what_if_sizes[i], &now) == !isnan (before->seconds));
      g_autofree char *text = call_text (g, call, what_if_sizes[i]);
      const gboolean same = now.choice.row == before->choice.row && now.choice.protocol == before->choice.protocol;
      ck_assert_msg (same || call->row == NULL, "%s: another choice", text);
      ck_assert_msg (isnan (now.seconds) || !same || now.seconds <= before->seconds * (1 + 1e-9) + TICK_S,
                     "%s, %s: %.12g s, before %.12g s", text, c->name,
                     now.seconds, before->seconds);
      if (what_if_sizes[i] == c->bytes && same && !isnan (now.seconds))
        c->most = MAX (c->most, before->seconds / now.seconds);
    }
}

START_TEST (faster_parts_slow_no_call)
{
  if (!forces ((guint) _i))
    return;
  const char *const name = shipped ((guint) _i)->name;
  g_autoptr (ScTopology) topology = load (name, NULL);
  g_autoptr (GArray) before = g_array_new (FALSE, FALSE, sizeof (ScCommResult));
  for_each_call (topology, name, TRUE, keep_times, before);
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      g_autoptr (ScTopology) changed = load (name, NULL);
      changes[i].change (changed);
      Compare c = { .before = before, .name = changes[i].name, .bytes = changes[i].bytes };
      for_each_call (changed, name, TRUE, compare_times, &c);
      ck_assert_uint_eq (c.at, before->len);
      ck_assert_msg (!changes[i].matters (topology) || c.most > 1.01, "%s, %s: at most %g times as fast", name, changes[i].name, c.most);
    }
}
END_TEST

static Suite *
nccl_suite (void)
{
  Suite *const s = suite_create ("nccl");
  TCase *const versions = tcase_create ("versions");
  tcase_add_test (versions, a_topology_can_name_every_version_and_no_other);
  tcase_add_loop_test (versions, a_release_is_found_in_the_text_around_it, 0, G_N_ELEMENTS (releases));
  suite_add_tcase (s, versions);
  TCase *const choices = tcase_create ("choices");
  tcase_add_loop_test (choices, latencies_are_those_of_the_tuner, 0, G_N_ELEMENTS (latencies));
  tcase_add_test (choices, large_messages_of_a_simple_ring_over_nodes_pay_a_plateau);
  tcase_add_loop_test (choices, choices_are_those_seen_in_sweeps, 0, G_N_ELEMENTS (seen));
  tcase_add_test (choices, a_ring_of_a100_takes_ll_then_ll128_then_simple);
  tcase_add_loop_test (heavy (s), versions_take_only_what_they_have, 0, G_N_ELEMENTS (first_had));
  suite_add_tcase (s, choices);
  TCase *const times = tcase_create ("times");
  tcase_set_timeout (times, 300);
  tcase_add_loop_test (heavy (s), no_call_beats_its_links_and_larger_ones_take_longer, 0, (int) n_shipped ());
  tcase_add_loop_test (slow (s), alone_a_call_takes_its_time_and_fills_no_link_beyond_its_capacity, 0, (int) n_shipped ());
  tcase_add_loop_test (slow (s), faster_parts_slow_no_call, 0, (int) n_shipped ());
  suite_add_tcase (s, times);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (nccl_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
