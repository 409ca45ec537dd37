/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ring.c - one ring all-reduce of 1 GB over 512 hosts of a fat-tree: as its 523,264 single messages, and as the load on
 * link classes that it folds to.  16 leaves of 32 hosts, 1:1; 50 GB/s and 1 us a host, so a step is 1 us + 1 GB / 512 / 50 GB/s. */
#include <stdio.h>
#include "bench.h"
#include "models/fold.h"
#include "sim/engine.h"

#define N_HOSTS 512
#define N_LEAF  32
#define N_BYTES 1e9
#define BYTES_S 50e9
#define ALPHA_S 1e-6
#define N_STEPS (2 * (N_HOSTS - 1))

static void
build (ScTopology *t, ScNodeType *type, ScNodeRun *run, ScTier *tier, ScWorkload *w)
{
  *type = (ScNodeType) { .gpus = 1, .nics = 1, .nvlink_domain_nodes = 1 };
  type->nic_bytes_per_s.value = BYTES_S;
  type->nic_latency_s.value = ALPHA_S;
  *run = (ScNodeRun) { 0, N_HOSTS };
  *tier = (ScTier) { .children = N_LEAF, .oversubscription = 1 };
  *t = (ScTopology) { .types = type, .n_types = 1, .runs = run, .n_runs = 1, .n_nodes = N_HOSTS, .n_gpus = N_HOSTS,
                      .tiers = tier, .n_tiers = 1 };
  *w = (ScWorkload) { .plan = { .tp = 1, .pp = 1, .vpp = 1, .dp = N_HOSTS, .cp = 1, .ep = 1, .gpus = N_HOSTS } };
}

static double
simulate (const ScProgram *p, const char *what, const ScBench *bench, double n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTrace) trace = sc_engine_run (p, &error);
  if (trace == NULL)
    g_error ("%s", error->message);
  const ScBenchTaken taken = sc_bench_end (*bench);
  g_autofree char *instructions = sc_bench_instructions (taken, n);
  printf ("%-34s %.9f s simulated in %8.3f ms, %s instructions each, peak memory %.1f MB\n", what, sc_time_to_s (trace->end),
          1e3 * taken.seconds, instructions, sc_bench_peak_mb ());
  return sc_time_to_s (trace->end);
}

int
main (void)
{
  ScTopology topology;
  ScNodeType type;
  ScNodeRun nodes;
  ScTier tier;
  ScWorkload workload;
  build (&topology, &type, &nodes, &tier, &workload);
  guint32 hosts[N_HOSTS];
  for (guint32 i = 0; i < N_HOSTS; i++)
    hosts[i] = i;

  const ScBench folded_bench = sc_bench_begin ();
  g_autoptr (ScFabric) fabric = sc_fabric_new (&topology, N_HOSTS, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (&workload);
  g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, NULL, 0);
  g_autofree guint32 *colour = g_new0 (guint32, N_HOSTS);
  g_autoptr (ScFold) fold = sc_fold_new (layout, fabric, loads, colour, 0, FALSE);
  const guint32 family = fold->family_of[0]; /* the data-parallel group: all hosts */
  ScCollChoice choice;
  if (!sc_collective_choose (SC_COLL_ALL_REDUCE, &loads->shapes[0], N_BYTES, &sc_collective_ring, SC_N_PROTOS, &choice, NULL))
    return 1;
  sc_collective_time (&choice, SC_COLL_ALL_REDUCE, &loads->shapes[0], N_BYTES, &(ScBound) { 0, 0, SC_NONE, SC_NONE });
  ScCallForm form;
  sc_collective_form (&choice, SC_COLL_ALL_REDUCE, &loads->shapes[0], N_BYTES, &form);
  g_autoptr (ScProgram) folded = sc_program_new ();
  for (guint32 i = 0; i < fold->n_link_classes; i++)
    sc_program_add_link (folded, 1);
  sc_program_add_call (folded, sc_program_add_group (folded, fold->family_members[family]), 0, 0, 0, 0);
  guint32 n_uses;
  const guint32 first = sc_fold_uses (fold, loads, family, &loads->walks[0], 0, &n_uses);
  sc_program_add_part (folded, form.parts[0].bytes, form.parts[0].cap, fold->uses + first, n_uses);
  sc_program_add_actor (folded, 1, FALSE);
  sc_program_call (folded, 0, 0);
  const double as_load = simulate (folded, "folded, with placing and folding", &folded_bench, 1);
  printf ("  %u hosts in %u class, %u links in %u classes\n", N_HOSTS, fold->n_classes, loads->n_used, fold->n_link_classes);

  const ScBench bench = sc_bench_begin ();
  g_autoptr (ScProgram) program = sc_program_new ();
  g_autofree guint32 *link_map = g_new (guint32, fabric->n_links);
  for (guint32 l = 0; l < fabric->n_links; l++)
    link_map[l] = sc_program_add_link (program, fabric->links[l].capacity);
  ScMessages *const messages = sc_collective_ring.expand (fabric, hosts, N_HOSTS, SC_COLL_ALL_REDUCE, N_BYTES, 1,
                                                          sc_time_from_s (ALPHA_S), link_map, FALSE);
  const guint32 call = sc_program_add_call (program, sc_program_add_group (program, 1), 0, 0, 0, 0);
  g_array_index (program->calls, ScCall, call).messages = messages;
  sc_program_add_actor (program, 1, FALSE);
  sc_program_call (program, 0, call);
  g_autofree char *what = g_strdup_printf ("%u single messages", messages->n);
  const double as_messages = simulate (program, what, &bench, messages->n);
  sc_collective_messages_free (messages);
  printf ("  closed form, a message a step: %.9f s; loads / messages %.6f (loads cut a chunk in two slices)\n",
          N_STEPS * (ALPHA_S + N_BYTES / N_HOSTS / BYTES_S), as_load / as_messages);
  return 0;
}
