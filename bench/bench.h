/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bench.h - wall time, instructions retired and peak memory of a piece of a benchmark.
 * Instructions come from the processor's own counter through perf_event_open(2); where the machine or its settings do
 * not give it, they are printed as n/a, and `valgrind --tool=callgrind` counts them instead. */
#pragma once
#include <glib.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct
{
  int    counter; /* file of the instruction counter, or -1 */
  gint64 begin_us;
} ScBench;

typedef struct
{
  double seconds;
  double instructions; /* in user space, or -1 */
} ScBenchTaken;

static inline ScBench
sc_bench_begin (void)
{
  struct perf_event_attr attr;
  memset (&attr, 0, sizeof attr);
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_HARDWARE;
  attr.config = PERF_COUNT_HW_INSTRUCTIONS;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  const ScBench ret = { (int) syscall (SYS_perf_event_open, &attr, 0, -1, -1, 0), g_get_monotonic_time () };
  return ret;
}

static inline ScBenchTaken
sc_bench_end (ScBench bench)
{
  ScBenchTaken ret = { (double) (g_get_monotonic_time () - bench.begin_us) / 1e6, -1 };
  guint64 count;
  if (bench.counter >= 0 && read (bench.counter, &count, sizeof count) == sizeof count)
    ret.instructions = (double) count;
  if (bench.counter >= 0)
    close (bench.counter);
  return ret;
}

/* Of the whole process so far, MB (10^6 bytes). */
static inline double
sc_bench_peak_mb (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  return (double) usage.ru_maxrss * 1024 / 1e6;
}

/* "1234 instructions each", or "n/a". */
static inline char *
sc_bench_instructions (ScBenchTaken taken, double n)
{
  return taken.instructions < 0 ? g_strdup ("n/a") : g_strdup_printf ("%.0f", taken.instructions / n);
}
