/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine.c - the whole engine on three kinds of program.
 * An *op* is one instruction of a program executed (work, call, record, wait), with its start and end recorded; an
 * *event* is one entry of the event queue that came due and was acted upon (stale ones are not counted).  Time is that
 * of sc_engine_run(), set-up and tear-down of its arrays included, building the program not. */
#include <stdio.h>
#include "bench.h"
#include "sim/engine.h"

#define N_REPEATS 5

/* Three serial streams an actor, short kernels of unequal length, each stream waits for the one before it. */
static ScProgram *
build_streams (guint n_actors, guint n_rounds)
{
  ScProgram *p = sc_program_new ();
  for (guint a = 0; a < n_actors; a++)
    {
      sc_program_add_actor (p, 3, FALSE);
      guint32 event = sc_program_add_event (p);
      sc_program_record (p, 2, event);
      for (guint r = 0; r < n_rounds; r++)
        for (guint8 s = 0; s < 3; s++)
          {
            sc_program_work (p, s, 0, 1000 + (a * 7919u + r * 104729u + s * 1299709u) % 1000);
            sc_program_wait (p, s, event);
            sc_program_work (p, s, 0, 1000 + (a * 6007u + r * 91193u + s * 15485863u) % 1000);
            event = sc_program_add_event (p);
            sc_program_record (p, s, event);
          }
    }
  return p;
}

/* Actors in groups of four, each with a kernel stream and a stream of calls: a call over the group's own link and one
 * that eight groups share, which is too narrow for all of them. */
static ScProgram *
build_calls (guint n_groups, guint n_rounds)
{
  ScProgram *p = sc_program_new ();
  g_autofree guint32 *groups = g_new (guint32, n_groups);
  g_autofree guint32 *calls = g_new (guint32, n_groups);
  guint32 shared = 0;
  for (guint g = 0; g < n_groups; g++)
    {
      if (g % 8 == 0)
        shared = sc_program_add_link (p, 100e9);
      groups[g] = sc_program_add_group (p, 4);
      const ScUse uses[] = { { 1, sc_program_add_link (p, 50e9) }, { 1, shared } };
      calls[g] = sc_program_add_call (p, groups[g], 0, 0, 0, 0.1);
      sc_program_add_part (p, 1e6 + 1e4 * (g % 13), 45e9, uses, 2);
    }
  for (guint g = 0; g < n_groups; g++)
    for (guint m = 0; m < 4; m++)
      {
        sc_program_add_actor (p, 2, FALSE);
        for (guint r = 0; r < n_rounds; r++)
          {
            const guint32 done = sc_program_add_event (p);
            sc_program_work (p, 0, 0, 20000000 + (g * 7919u + m * 104729u + r * 1299709u) % 1000000);
            sc_program_record (p, 0, done);
            sc_program_work (p, 0, 0, 5000000);
            sc_program_wait (p, 1, done);
            sc_program_call (p, 1, calls[g]);
          }
      }
  return p;
}

/* Two streams an actor whose kernels are shorter than the time the host takes to launch one; now and then the host
 * waits for the first stream, as a data-dependent step of a framework does. */
static ScProgram *
build_host (guint n_actors, guint n_rounds)
{
  ScProgram *p = sc_program_new ();
  for (guint a = 0; a < n_actors; a++)
    {
      sc_program_add_actor (p, 2, FALSE);
      for (guint r = 0; r < n_rounds; r++)
        {
          for (guint k = 0; k < 4; k++)
            for (guint8 s = 0; s < 2; s++)
              sc_program_work (p, s, 0, 1500000 + (a * 7919u + r * 104729u + k * 1299709u) % 1500000)->issue_ns = 2000;
          if (r % 8 != 7)
            continue;
          const guint32 event = sc_program_add_event (p);
          sc_program_record (p, 0, event);
          sc_program_add_op (p, SC_OP_HOST_WAIT, 0, 0, event, 0)->issue_ns = 1000;
        }
    }
  return p;
}

/* FALSE: it does not run. */
static gboolean
measure (const char *name, ScProgram *program)
{
  double best_s = G_MAXDOUBLE;
  g_autofree char *instructions = NULL;
  g_autoptr (ScTrace) trace = NULL;
  for (guint i = 0; i < N_REPEATS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_clear_pointer (&trace, sc_trace_free);
      const ScBench bench = sc_bench_begin ();
      trace = sc_engine_run (program, &error);
      const ScBenchTaken taken = sc_bench_end (bench);
      if (trace == NULL)
        {
          printf ("%s: %s\n", name, error->message);
          return FALSE;
        }
      best_s = MIN (best_s, taken.seconds);
      g_free (instructions);
      instructions = sc_bench_instructions (taken, (double) trace->n_tasks);
    }
  printf ("%-34s %8.0f ops %6.2f M ops/s %8.0f events %6.2f M events/s %7.0f solves %6s instructions an op\n", name,
          (double) trace->n_tasks, (double) trace->n_tasks / best_s / 1e6, (double) trace->n_events,
          (double) trace->n_events / best_s / 1e6, (double) trace->n_solves, instructions);
  return TRUE;
}

int
main (void)
{
  struct
  {
    const char *name;
    ScProgram  *program;
  } const rows[] = {
    { "streams and events, 64 actors", build_streams (64, 1000) },
    { "streams and events, 4096 actors", build_streams (4096, 16) },
    { "calls over shared links, 16 groups", build_calls (16, 1000) },
    { "calls over shared links, 1024 groups", build_calls (1024, 16) },
    { "host-paced, 64 actors", build_host (64, 1000) },
  };
  gboolean ok = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      ok &= measure (rows[i].name, rows[i].program);
      sc_program_free (rows[i].program);
    }
  printf ("best of %u runs each; peak memory %.1f MB\n", N_REPEATS, sc_bench_peak_mb ());
  return ok ? 0 : 1;
}
