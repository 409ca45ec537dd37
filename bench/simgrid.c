/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simgrid.c - the same messages on the same fat-trees in SimGrid: do they end at the same time, and how fast is either?
 *   bench/simgrid [--long]     --long: SimGrid runs the ring of 4,096 hosts too: 20 minutes or more
 *   bench/simgrid ring N       (for itself) our half of a ring: its end, and the seconds it took
 * SimGrid's half is bench/simgrid-peer, built where configure finds SimGrid.
 *
 * What makes the two comparable: SimGrid's model CM02 with no factor on latency or bandwidth, no window, no weight by link and
 * no cross-traffic is max-min sharing, but that a flow's share is weighed with 1 / latency of its route.  All routes have
 * one latency here, that of the sender's NIC, so the weights are equal.  Both pay it before the first byte of a flow.  The
 * platform spells out every route link by link as ScFabric has it; a link of either direction is one of its own.
 *
 * SimGrid's half is the fastest form found: two calls a message from one actor a host.  Its activities without actors, each started by
 * the two before it, took six times as long for 64 hosts; waited-for puts, direct sends with semaphores, a new actor every 64 steps,
 * other context sizes, threads and update schemes gained no more than noise.
 *
 * A ring is timed inside the processes: ours from laying the fabric out on, SimGrid's from simgrid_run() on, its platform loaded
 * and its actors created. */
#include "config.h"
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "bench.h"
#include "models/collective.h"
#include "sim/engine.h"

#define MAX_DIFFERENCE 1e-3
#define PROMISED_RATIO 5.0
#define SEED    20240229
#define NIC_BYTES_S 50e9
#define ALPHA_S 1e-6
#define RUNS    3

#define RING_BYTES 1.024e9 /* in whole bytes a message for all sizes below */
#define RING_LEAF  32
#define RING_LONG  4096

static const char *const simgrid_options[] = {
  "--cfg=network/model:CM02", "--cfg=network/crosstraffic:no", "--cfg=network/latency-factor:1",
  "--cfg=network/bandwidth-factor:1", "--cfg=network/weight-S:0", "--cfg=network/TCP-gamma:1e20", /* a window beyond all rates */
  "--cfg=contexts/stack-size:64", /* KiB; 8 MiB else */ "--log=root.thresh:error",
};

/* ---- the fat-tree, and the platform file that says the same ---- */

typedef struct
{
  ScTopology topology;
  ScNodeType types[2];
  ScNodeRun  runs[2];
  ScTier     tiers[2];
} Tree;

/* The last @n_slow hosts have half the rate. */
static void
tree_init (Tree *t, guint n_hosts, guint n_slow, guint n_tiers, const guint *children, const double *oversubscription)
{
  *t = (Tree) { .runs = { { 0, n_hosts - n_slow }, { 1, n_slow } } };
  for (guint i = 0; i < 2; i++)
    {
      t->types[i] = (ScNodeType) { .gpus = 1, .nics = 1, .nvlink_domain_nodes = 1 };
      t->types[i].nic_bytes_per_s.value = NIC_BYTES_S / (i + 1);
      t->types[i].nic_latency_s.value = ALPHA_S;
    }
  for (guint i = 0; i < n_tiers; i++)
    t->tiers[i] = (ScTier) { .children = children[i], .oversubscription = oversubscription[i] };
  t->topology = (ScTopology) { .types = t->types, .n_types = 2, .runs = t->runs, .n_runs = n_slow > 0 ? 2 : 1, .n_nodes = n_hosts,
                               .n_gpus = n_hosts, .tiers = t->tiers, .n_tiers = n_tiers };
}

typedef struct
{
  guint32 source, destination;
} Pair;

static int
compare_pairs (gconstpointer a, gconstpointer b)
{
  const Pair *const x = a, *const y = b;
  return x->source != y->source ? (x->source < y->source ? -1 : 1)
                                : (x->destination > y->destination) - (x->destination < y->destination);
}

/* @pairs: those that talk; sorted here. */
static gboolean
write_platform (const char *path, const ScFabric *fabric, Pair *pairs, guint n_pairs, GError **error)
{
  g_autoptr (GString) s = g_string_new ("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                                        "<platform version=\"4.1\"><zone id=\"tree\" routing=\"Full\">\n");
  for (guint i = 0; i < fabric->n_gpus; i++)
    g_string_append_printf (s, "<host id=\"h%u\" speed=\"1f\"/>\n", i);
  for (guint32 l = 0; l < fabric->n_links; l++)
    g_string_append_printf (s, "<link id=\"%u\" bandwidth=\"%.17gBps\" latency=\"%gs\" sharing_policy=\"SHARED\"/>\n", l,
                            fabric->links[l].capacity, fabric->links[l].kind == SC_LINK_NIC_OUT ? ALPHA_S : 0);
  qsort (pairs, n_pairs, sizeof *pairs, compare_pairs);
  for (guint i = 0; i < n_pairs; i++)
    {
      if (i > 0 && compare_pairs (&pairs[i - 1], &pairs[i]) == 0)
        continue;
      ScRoute route;
      sc_fabric_route (fabric, pairs[i].source, pairs[i].destination, &route);
      g_assert (route.latency_s == ALPHA_S);
      g_string_append_printf (s, "<route src=\"h%u\" dst=\"h%u\" symmetrical=\"NO\">", pairs[i].source, pairs[i].destination);
      for (guint k = 0; k < route.n; k++)
        g_string_append_printf (s, "<link_ctn id=\"%u\"/>", route.links[k]);
      g_string_append (s, "</route>\n");
    }
  g_string_append (s, "</zone></platform>\n");
  return g_file_set_contents (path, s->str, (gssize) s->len, error);
}

/* ---- children ---- */

/* Runs @argv and returns what it printed, or NULL and a line on stderr. */
static char *
run_child (const char *const *argv, double *ret_peak_mb)
{
  int ends[2];
  fflush (NULL); /* the child must not print it again */
  if (pipe (ends) != 0)
    return NULL;
  const pid_t child = fork ();
  if (child == 0)
    {
      dup2 (ends[1], STDOUT_FILENO);
      close (ends[0]);
      close (ends[1]);
      execv (argv[0], (char *const *) (gconstpointer) argv);
      _exit (127);
    }
  close (ends[1]);
  g_autoptr (GString) output = g_string_new (NULL);
  char buffer[4096];
  for (ssize_t n; (n = read (ends[0], buffer, sizeof buffer)) > 0;)
    g_string_append_len (output, buffer, n);
  close (ends[0]);
  int status;
  struct rusage usage;
  if (child < 0 || wait4 (child, &status, 0, &usage) != child || !WIFEXITED (status) || WEXITSTATUS (status) != 0)
    {
      fprintf (stderr, "simgrid: %s failed\n", argv[0]);
      return NULL;
    }
  *ret_peak_mb = (double) usage.ru_maxrss * 1024 / 1e6;
  return g_string_free (g_steal_pointer (&output), FALSE);
}

/* SimGrid's half; @args: NULL-ended. */
static char *
run_peer (const char *self, const char *const *args, double *ret_peak_mb)
{
  g_autofree char *peer = g_strconcat (self, "-peer", NULL);
  const char *argv[32] = { peer };
  guint n = 1;
  for (guint i = 0; args[i] != NULL; i++)
    argv[n++] = args[i];
  for (guint i = 0; i < G_N_ELEMENTS (simgrid_options); i++)
    argv[n++] = simgrid_options[i];
  g_assert (n < G_N_ELEMENTS (argv));
  return run_child (argv, ret_peak_mb);
}

/* ---- flows that come and go ---- */

typedef struct
{
  const char *what;
  guint  n_hosts, n_slow, n_tiers, children[2];
  double oversubscription[2];
  guint  n_flows;
  double within_s; /* all start */
} FlowCase;

static const FlowCase flow_cases[] = {
  { "two tiers, 1:1", 64, 16, 1, { 8 }, { 1 }, 500, 0.02 },
  { "two tiers, 4:1", 64, 16, 1, { 8 }, { 4 }, 500, 0.05 },
  { "three tiers, 1:1 and 1:1", 128, 32, 2, { 8, 4 }, { 1, 1 }, 800, 0.02 },
  { "three tiers, 2:1 and 3:1", 128, 32, 2, { 8, 4 }, { 2, 3 }, 800, 0.05 },
};

typedef struct
{
  Pair   pair;
  ScTime start;
  double bytes, alone_s, end_s;
} Flow;

/* 1 MB to 1 GB, log-uniform, whole bytes. */
static void
draw_flows (const FlowCase *c, GRand *rand, Flow *flows)
{
  for (guint i = 0; i < c->n_flows; i++)
    {
      const guint32 a = (guint32) g_rand_int_range (rand, 0, (gint32) c->n_hosts);
      const guint32 b = (a + (guint32) g_rand_int_range (rand, 1, (gint32) c->n_hosts)) % c->n_hosts;
      flows[i] = (Flow) { .pair = { a, b }, .start = sc_time_from_s (g_rand_double_range (rand, 0, c->within_s)),
                          .bytes = round (1e6 * pow (1000, g_rand_double (rand))) };
    }
}

/* Sets each flow's end, and how long it would last alone. */
static gboolean
simulate_flows (const ScFabric *fabric, Flow *flows, guint n, GError **error)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  for (guint32 l = 0; l < fabric->n_links; l++)
    sc_program_add_link (p, fabric->links[l].capacity);
  for (guint i = 0; i < n; i++)
    {
      ScRoute route;
      ScUse uses[SC_MAX_ROUTE];
      double rate = INFINITY;
      sc_fabric_route (fabric, flows[i].pair.source, flows[i].pair.destination, &route);
      for (guint k = 0; k < route.n; k++)
        {
          uses[k] = (ScUse) { 1, route.links[k] };
          rate = MIN (rate, fabric->links[route.links[k]].capacity);
        }
      const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), 0, sc_time_from_s (route.latency_s), 0, 0);
      sc_program_add_part (p, flows[i].bytes, INFINITY, uses, route.n);
      sc_program_add_actor (p, 1, FALSE);
      sc_program_work (p, 0, 0, flows[i].start);
      sc_program_call (p, 0, call);
      flows[i].alone_s = route.latency_s + flows[i].bytes / rate;
    }
  g_autoptr (ScTrace) trace = sc_engine_run (p, error);
  if (trace == NULL)
    return FALSE;
  for (guint i = 0; i < n; i++)
    flows[i].end_s = sc_time_to_s (trace->spans[2 * i + 1].end);
  return TRUE;
}

/* FALSE: it does not run, or the two differ. */
static gboolean
compare_flows (const char *self, const char *platform, const char *list, const FlowCase *c, GRand *rand)
{
  g_autofree Flow *flows = g_new (Flow, c->n_flows);
  draw_flows (c, rand, flows);
  Tree tree;
  tree_init (&tree, c->n_hosts, c->n_slow, c->n_tiers, c->children, c->oversubscription);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScFabric) fabric = sc_fabric_new (&tree.topology, c->n_hosts, &error);
  g_autofree Pair *pairs = g_new (Pair, c->n_flows);
  g_autoptr (GString) lines = g_string_new (NULL);
  for (guint i = 0; i < c->n_flows; i++)
    {
      pairs[i] = flows[i].pair;
      g_string_append_printf (lines, "%.17g %u %u %.17g\n", sc_time_to_s (flows[i].start), flows[i].pair.source,
                              flows[i].pair.destination, flows[i].bytes);
    }
  if (fabric == NULL || !simulate_flows (fabric, flows, c->n_flows, &error)
      || !write_platform (platform, fabric, pairs, c->n_flows, &error)
      || !g_file_set_contents (list, lines->str, (gssize) lines->len, &error))
    {
      fprintf (stderr, "simgrid: %s: %s\n", c->what, error->message);
      return FALSE;
    }
  double peak_mb;
  const char *const args[] = { "flows", platform, list, NULL };
  g_autofree char *output = run_peer (self, args, &peak_mb);
  if (output == NULL)
    return FALSE;
  g_auto (GStrv) ends = g_strsplit (output, "\n", 0);
  if (g_strv_length (ends) != c->n_flows + 1)
    {
      fprintf (stderr, "simgrid: %s: %u flows of %u ended\n", c->what, g_strv_length (ends) - 1, c->n_flows);
      return FALSE;
    }
  double worst = 0, sum = 0, slower = 0;
  for (guint i = 0; i < c->n_flows; i++)
    {
      const double theirs = g_ascii_strtod (ends[i], NULL), lasted_s = theirs - sc_time_to_s (flows[i].start);
      const double difference = fabs (flows[i].end_s - theirs) / lasted_s;
      worst = difference <= worst ? worst : difference; /* NaN stays */
      sum += difference;
      slower += lasted_s / flows[i].alone_s;
    }
  const gboolean same = worst <= MAX_DIFFERENCE;
  printf ("%-26s %5u flows, %3u hosts, on average %5.2f times as long as alone: differ by %.1e at worst, %.1e on average%s\n", c->what,
          c->n_flows, c->n_hosts, slower / c->n_flows, worst, sum / c->n_flows, same ? "" : "  (more than 0.1 %)");
  return same;
}

/* ---- ring all-reduce, one message a step ---- */

static ScFabric *
ring_fabric (Tree *tree, guint n)
{
  tree_init (tree, n, 0, 1, (const guint[]) { RING_LEAF }, (const double[]) { 1 });
  return sc_fabric_new (&tree->topology, n, NULL);
}

/* Our half, in a process of its own. */
static int
run_ring (guint n)
{
  const ScBench bench = sc_bench_begin ();
  Tree tree;
  g_autoptr (ScFabric) fabric = ring_fabric (&tree, n);
  g_autoptr (ScProgram) program = sc_program_new ();
  g_autofree guint32 *link_map = g_new (guint32, fabric->n_links);
  g_autofree guint32 *hosts = g_new (guint32, n);
  for (guint32 l = 0; l < fabric->n_links; l++)
    link_map[l] = sc_program_add_link (program, fabric->links[l].capacity);
  for (guint32 i = 0; i < n; i++)
    hosts[i] = i;
  ScMessages *const messages = sc_collective_ring.expand (fabric, hosts, n, SC_COLL_ALL_REDUCE, RING_BYTES, 1,
                                                          sc_time_from_s (ALPHA_S), link_map, FALSE);
  const guint32 call = sc_program_add_call (program, sc_program_add_group (program, 1), 0, 0, 0, 0);
  g_array_index (program->calls, ScCall, call).messages = messages;
  sc_program_add_actor (program, 1, FALSE);
  sc_program_call (program, 0, call);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTrace) trace = sc_engine_run (program, &error);
  if (trace == NULL)
    fprintf (stderr, "simgrid: %s\n", error->message);
  else
    printf ("%.17g %.9g\n", sc_time_to_s (trace->end), sc_bench_end (bench).seconds);
  sc_collective_messages_free (messages);
  return trace != NULL ? 0 : 1;
}

typedef struct
{
  double end_s, seconds, peak_mb;
} Taken;

/* Reads what a ring printed; keeps the fastest one. */
static gboolean
keep (const char *output, double peak_mb, Taken *best)
{
  double end_s, seconds;
  if (output == NULL || sscanf (output, "%lf %lf", &end_s, &seconds) != 2)
    return FALSE;
  if (best->seconds == 0 || seconds < best->seconds)
    *best = (Taken) { end_s, seconds, peak_mb };
  return TRUE;
}

static gboolean
compare_rings (const char *self, const char *platform, guint n, guint runs, gboolean theirs)
{
  g_autofree char *hosts = g_strdup_printf ("%u", n);
  g_autofree char *steps = g_strdup_printf ("%u", 2 * (n - 1));
  g_autofree char *bytes = g_strdup_printf ("%.0f", RING_BYTES / n);
  const char *const ours_argv[] = { self, "ring", hosts, NULL };
  const char *const peer_args[] = { "ring", platform, hosts, steps, bytes, NULL };
  if (theirs)
    {
      Tree tree;
      g_autoptr (ScFabric) fabric = ring_fabric (&tree, n);
      g_autofree Pair *pairs = g_new (Pair, n);
      for (guint i = 0; i < n; i++)
        pairs[i] = (Pair) { i, (i + 1) % n };
      g_autoptr (GError) error = NULL;
      if (!write_platform (platform, fabric, pairs, n, &error))
        {
          fprintf (stderr, "simgrid: %s\n", error->message);
          return FALSE;
        }
    }
  Taken us = { 0 }, peer = { 0 };
  for (guint i = 0; i < runs; i++) /* by turns, so that a busy machine slows both */
    {
      double our_mb = 0, peer_mb = 0;
      g_autofree char *our_output = run_child (ours_argv, &our_mb);
      g_autofree char *peer_output = theirs ? run_peer (self, peer_args, &peer_mb) : NULL;
      if (!keep (our_output, our_mb, &us) || (theirs && !keep (peer_output, peer_mb, &peer)))
        return FALSE;
    }
  printf ("ring, %4u hosts, %8.0f messages: %6.3f s, %5.1f MB", n, 2. * n * (n - 1), us.seconds, us.peak_mb);
  if (!theirs)
    {
      printf ("; SimGrid only with --long (20 minutes or more)\n");
      return TRUE;
    }
  const double ratio = peer.seconds / us.seconds, difference = fabs (us.end_s - peer.end_s) / peer.end_s;
  printf ("; SimGrid %8.3f s, %5.1f MB: %5.1f times as long%s, simulated times differ by %.1e%s\n", peer.seconds, peer.peak_mb, ratio,
          ratio < PROMISED_RATIO ? " (less than the 5 promised)" : "", difference,
          difference > MAX_DIFFERENCE ? "  (more than 0.1 %)" : "");
  return difference <= MAX_DIFFERENCE;
}

int
main (int argc, char **argv)
{
  if (argc == 3 && strcmp (argv[1], "ring") == 0)
    return run_ring ((guint) CLAMP (strtoul (argv[2], NULL, 10), 2, RING_LONG));
  const gboolean full = argc == 2 && strcmp (argv[1], "--long") == 0;
  if (argc > 1 && !full)
    {
      fprintf (stderr, "usage: %s [--long]\n", argv[0]);
      return 2;
    }
  if (!HAVE_SIMGRID)
    {
      printf ("skipped: configured without SimGrid (on Debian: apt install libsimgrid-dev)\n");
      return 0;
    }
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("stepcast-XXXXXX", &error);
  if (folder == NULL)
    {
      fprintf (stderr, "simgrid: %s\n", error->message);
      return 1;
    }
  g_autofree char *platform = g_build_filename (folder, "platform.xml", NULL);
  g_autofree char *list = g_build_filename (folder, "flows", NULL);
  gboolean ok = TRUE;
  for (guint n = 64; n <= 512; n *= 2) /* first, while this process is small: a child's peak is never below it */
    ok &= compare_rings (argv[0], platform, n, RUNS, TRUE);
  ok &= compare_rings (argv[0], platform, RING_LONG, 1, full);
  printf ("  best of %u by turns, 4,096 hosts once; SimGrid with two calls a message and its platform already loaded\n", RUNS);

  GRand *const rand = g_rand_new_with_seed (SEED);
  for (guint i = 0; i < G_N_ELEMENTS (flow_cases); i++)
    ok &= compare_flows (argv[0], platform, list, &flow_cases[i], rand);
  printf ("  differences of how long a flow takes, from its start to its end; a quarter of the hosts has half the rate\n");
  g_rand_free (rand);
  g_unlink (platform);
  g_unlink (list);
  g_rmdir (folder);
  return ok ? 0 : 1;
}
