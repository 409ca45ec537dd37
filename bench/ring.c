/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ring.c - a 1 GB ring all-reduce of 512 hosts as its 523,264 single messages over a two-tier fat-tree: 16 leaves of 32
 * hosts, 50 GB/s a host, bundles of up-links and down-links as wide as their hosts together. */
#include <stdio.h>
#include "bench.h"
#include "sim/engine.h"
#include "sim/messages.h"

#define N_HOSTS  512u
#define N_LEAF    32u
#define N_STEPS  (2 * (N_HOSTS - 1))
#define N_BYTES  1e9
#define BYTES_S  50e9

typedef struct
{
  ScMessages script;
  ScUse   uses[N_HOSTS][4]; /* route of each host to its right neighbour */
  guint32 n_uses[N_HOSTS];
} Ring;

/* Message i is sent by host i % N_HOSTS in step i / N_HOSTS. */
static void
ring_describe (const ScMessages *script, guint32 id, ScMessage *ret)
{
  const Ring *const ring = (const Ring *) script;
  const guint32 host = id % N_HOSTS;
  *ret = (ScMessage) { N_BYTES / N_HOSTS, ring->uses[host], ring->n_uses[host] };
}

/* The chunk from the left, and the host's own last send. */
static guint8
ring_n_before (const ScMessages *script, guint32 id)
{
  (void) script;
  return id < N_HOSTS ? 0 : 2;
}

static guint
ring_after_delivery (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT])
{
  (void) script;
  const guint32 host = id % N_HOSTS, step = id / N_HOSTS;
  if (step + 1 == N_STEPS)
    return 0;
  ret_next[0] = (step + 1) * N_HOSTS + (host + 1) % N_HOSTS;
  return 1;
}

static guint
ring_after_drain (const ScMessages *script, guint32 id, guint32 ret_next[SC_MESSAGES_MAX_NEXT])
{
  (void) script;
  if (id / N_HOSTS + 1 == N_STEPS)
    return 0;
  ret_next[0] = id + N_HOSTS;
  return 1;
}

static Ring *
ring_new (ScProgram *p)
{
  Ring *ring = g_new0 (Ring, 1);
  ring->script = (ScMessages) { .n = N_STEPS * N_HOSTS, .latency = 1000000, .cap = INFINITY, .describe = ring_describe,
                                .n_before = ring_n_before, .after_delivery = ring_after_delivery,
                                .after_drain = ring_after_drain };
  guint32 out[N_HOSTS], in[N_HOSTS], up[N_HOSTS / N_LEAF], down[N_HOSTS / N_LEAF];
  for (guint h = 0; h < N_HOSTS; h++)
    {
      out[h] = sc_program_add_link (p, BYTES_S);
      in[h] = sc_program_add_link (p, BYTES_S);
    }
  for (guint l = 0; l < N_HOSTS / N_LEAF; l++)
    {
      up[l] = sc_program_add_link (p, N_LEAF * BYTES_S);
      down[l] = sc_program_add_link (p, N_LEAF * BYTES_S);
    }
  for (guint h = 0; h < N_HOSTS; h++)
    {
      const guint right = (h + 1) % N_HOSTS;
      guint32 n = 0;
      ring->uses[h][n++] = (ScUse) { 1, out[h] };
      if (h / N_LEAF != right / N_LEAF)
        {
          ring->uses[h][n++] = (ScUse) { 1, up[h / N_LEAF] };
          ring->uses[h][n++] = (ScUse) { 1, down[right / N_LEAF] };
        }
      ring->uses[h][n++] = (ScUse) { 1, in[right] };
      ring->n_uses[h] = n;
    }
  return ring;
}

int
main (void)
{
  const ScBench bench = sc_bench_begin ();
  g_autoptr (ScProgram) program = sc_program_new ();
  g_autofree Ring *ring = ring_new (program);
  const guint32 group = sc_program_add_group (program, 1);
  const guint32 call = sc_program_add_call (program, group, 0, 0, 0, 0);
  g_array_index (program->calls, ScCall, call).messages = &ring->script;
  sc_program_add_actor (program, 1, FALSE);
  sc_program_call (program, 0, call);

  g_autoptr (GError) error = NULL;
  g_autoptr (ScTrace) trace = sc_engine_run (program, &error);
  if (trace == NULL)
    {
      printf ("%s\n", error->message);
      return 1;
    }
  const ScBenchTaken taken = sc_bench_end (bench);
  const double expected_s = N_STEPS * (N_BYTES / N_HOSTS / BYTES_S + sc_time_to_s (ring->script.latency));
  g_autofree char *instructions = sc_bench_instructions (taken, ring->script.n);
  printf ("%u messages: %.9f s simulated (closed form %.9f s), %.3f s, %.2f M messages/s, %s instructions each\n",
          ring->script.n, sc_time_to_s (trace->end), expected_s, taken.seconds, ring->script.n / taken.seconds / 1e6,
          instructions);
  printf ("%.0f events, %.0f solves; peak memory %.1f MB\n", (double) trace->n_events, (double) trace->n_solves,
          sc_bench_peak_mb ());
  return 0;
}
