/* SPDX-License-Identifier: GPL-3.0-or-later */
/* eventq.c - hold operations per second: take the earliest event, put one back at a later random time. */
#include <stdio.h>
#include "bench.h"
#include "sim/eventq.h"

/* xorshift64*: cheap beside the queue, and the same everywhere. */
static guint64
draw (guint64 *state)
{
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * G_GUINT64_CONSTANT (2685821657736338717);
}

static void
hold (guint n_held, guint n_holds)
{
  ScEventQueue queue;
  guint64 state = 88172645463325252u;
  sc_eventq_init (&queue);
  for (guint i = 0; i < n_held; i++)
    sc_eventq_push (&queue, (ScTime) (draw (&state) >> 34), i, 0);
  guint64 check = 0;
  const ScBench bench = sc_bench_begin ();
  for (guint i = 0; i < n_holds; i++)
    {
      const ScEvent event = sc_eventq_pop (&queue);
      check = check * 31 + event.id;
      sc_eventq_push (&queue, event.time + (ScTime) (draw (&state) >> 34), event.id, 0);
    }
  const ScBenchTaken taken = sc_bench_end (bench);
  sc_eventq_clear (&queue);
  g_autofree char *instructions = sc_bench_instructions (taken, n_holds);
  printf ("%9u held %10.2f M holds/s %8.1f ns %8s instructions each   (check %08x)\n", n_held,
          n_holds / taken.seconds / 1e6, taken.seconds / n_holds * 1e9, instructions, (guint) check);
}

int
main (void)
{
  hold (100, 5000000);
  hold (10000, 5000000);
  hold (1000000, 3000000);
  printf ("peak memory %.1f MB\n", sc_bench_peak_mb ());
  return 0;
}
