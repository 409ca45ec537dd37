/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simgrid-peer.c - SimGrid's half of bench/simgrid, which says what is compared; built only where SimGrid is.
 *   simgrid-peer flows PLATFORM FLOWS      a line of FLOWS is "start_s source destination bytes"; prints the end of each
 *   simgrid-peer ring PLATFORM N STEPS BYTES  prints the end and the seconds that simgrid_run() took
 * Hosts of the platform are named h0, h1, ...  The other options are SimGrid's own. */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include "bench.h"

typedef struct
{
  double start_s, bytes, end_s;
  guint  source, destination;
} Flow;

/* SimGrid hands an actor strings only; the rest it finds here.  All actors run on one thread. */
static GArray *flows;
static guint   n_ranks, n_steps;
static long    message_bytes;

static sg_host_t
host (guint i)
{
  char name[16];
  g_snprintf (name, sizeof name, "h%u", i);
  return sg_host_by_name (name);
}

static void
start_actor (guint i, sg_host_t where, void (*code) (int, char **))
{
  char index[16];
  g_snprintf (index, sizeof index, "%u", i);
  char *const argv[] = { index };
  sg_actor_start (sg_actor_init (index, where), code, 1, argv);
}

static void
run_flow (G_GNUC_UNUSED int argc, char **argv)
{
  const guint i = (guint) strtoul (argv[0], NULL, 10);
  const Flow f = g_array_index (flows, Flow, i);
  sg_actor_sleep_until (f.start_s);
  sg_host_sendto (host (f.source), host (f.destination), f.bytes);
  g_array_index (flows, Flow, i).end_s = simgrid_get_clock ();
}

static int
run_flows (const char *path)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  if (!g_file_get_contents (path, &text, NULL, &error))
    {
      fprintf (stderr, "simgrid-peer: %s\n", error->message);
      return 1;
    }
  flows = g_array_new (FALSE, TRUE, sizeof (Flow));
  g_auto (GStrv) lines = g_strsplit (text, "\n", 0);
  for (guint i = 0; lines[i] != NULL && lines[i][0] != '\0'; i++)
    {
      Flow f = { .end_s = -1 };
      if (sscanf (lines[i], "%lf %u %u %lf", &f.start_s, &f.source, &f.destination, &f.bytes) != 4)
        {
          fprintf (stderr, "simgrid-peer: %s: line %u is no flow\n", path, i + 1);
          return 1;
        }
      g_array_append_val (flows, f);
    }
  for (guint i = 0; i < flows->len; i++)
    start_actor (i, host (g_array_index (flows, Flow, i).source), run_flow);
  simgrid_run ();
  for (guint i = 0; i < flows->len; i++)
    printf ("%.17g\n", g_array_index (flows, Flow, i).end_s);
  g_array_free (flows, TRUE);
  return 0;
}

/* Two calls of SimGrid a step, the fewest there are: a put that nobody waits for, and a get.  The neighbour takes message
 * k + 1 only after message k, so a message still waits for the one before it. */
static void
run_rank (G_GNUC_UNUSED int argc, char **argv)
{
  const guint i = (guint) strtoul (argv[0], NULL, 10);
  char name[16];
  g_snprintf (name, sizeof name, "%u", i);
  const sg_mailbox_t mine = sg_mailbox_by_name (name);
  g_snprintf (name, sizeof name, "%u", (i + 1) % n_ranks);
  const sg_mailbox_t next = sg_mailbox_by_name (name);
  for (guint step = 0; step < n_steps; step++)
    {
      sg_comm_detach (sg_mailbox_put_init (next, name, message_bytes), NULL);
      sg_mailbox_get (mine);
    }
}

static int
run_ring (void)
{
  for (guint i = 0; i < n_ranks; i++)
    start_actor (i, host (i), run_rank);
  const ScBench bench = sc_bench_begin ();
  simgrid_run ();
  printf ("%.17g %.9g\n", simgrid_get_clock (), sc_bench_end (bench).seconds);
  return 0;
}

int
main (int argc, char **argv)
{
  simgrid_init (&argc, argv);
  const gboolean ring = argc == 6 && strcmp (argv[1], "ring") == 0;
  if (!ring && !(argc == 4 && strcmp (argv[1], "flows") == 0))
    {
      fprintf (stderr, "usage: simgrid-peer flows PLATFORM FLOWS | simgrid-peer ring PLATFORM N STEPS BYTES\n");
      return 2;
    }
  simgrid_load_platform (argv[2]);
  if (!ring)
    return run_flows (argv[3]);
  n_ranks = (guint) strtoul (argv[3], NULL, 10);
  n_steps = (guint) strtoul (argv[4], NULL, 10);
  message_bytes = strtol (argv[5], NULL, 10);
  return run_ring ();
}
