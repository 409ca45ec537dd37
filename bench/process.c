/* SPDX-License-Identifier: GPL-3.0-or-later */
/* process.c - whole runs of the program: start, read, fold, lower, simulate, report.
 * The program is $STEPCAST (make bench sets it), each case runs 1 + RUNS times, or as often as it says; the first is not counted. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "bench.h"

#define RUNS 7

typedef struct
{
  const char *what;
  const char *args[12];
  double      limit_ms, limit_mb; /* what the project promises; 0: nothing */
  guint       runs;               /* 0: RUNS */
} Case;

static const Case cases[] = {
  { "GPT-3 175B, 64 A100, full recompute", { "dgx-a100-superpod", "megatron-175b-full" }, 150, 60, 0 },
  { "GPT-3 175B, 64 A100, selective + SP", { "dgx-a100-superpod", "megatron-175b-seqsel" }, 150, 60, 0 },
  { "the same, --detail layer", { "dgx-a100-superpod", "megatron-175b-seqsel", "--detail", "layer" }, 50, 60, 0 },
  { "the same, --detail layer, 256 A100", { "dgx-a100-superpod", "megatron-175b-seqsel", "--detail", "layer", "--set", "plan.dp=4", "--set", "plan.global_batch=256" }, 0, 0, 0 },
  { "the same, --detail layer, 1,024 A100", { "dgx-a100-superpod", "megatron-175b-seqsel", "--detail", "layer", "--set", "plan.dp=16", "--set", "plan.global_batch=1024" }, 0, 0, 0 },
  { "on 64, --detail stage", { "dgx-a100-superpod", "megatron-175b-seqsel", "--detail", "stage" }, 0, 0, 0 },
  { "Llama 3 70B, 64 H100", { "dgx-h100-8", "llama3-70b" }, 0, 0, 0 },
  { "Llama 3 405B, 512 H100 (dp 4)", { "dgx-h100-superpod", "llama3-405b", "--set", "plan.dp=4", "--set", "plan.global_batch=64" }, 0, 0, 0 },
  { "Llama 3 405B, 2,048 H100 (dp 16)", { "dgx-h100-superpod", "llama3-405b", "--set", "plan.dp=16", "--set", "plan.global_batch=256" }, 0, 0, 0 },
  { "Llama 3 405B, 16,384 H100 (dp 128)", { "dgx-h100-superpod", "llama3-405b" }, 1000, 200, 0 },
  { "GPT 1T, 512 A100, full recompute", { "dgx-a100-superpod", "megatron-1t-full" }, 0, 0, 3 },
  { "GPT 1T, 3,072 A100 (SC'21)", { "dgx-a100-superpod", "sc21-1t" }, 0, 0, 3 },
  { "GPT 530B, 2,520 A100 (SC'21)", { "dgx-a100-superpod", "sc21-530b" }, 5000, 1000, 3 }, /* the largest that is shipped */
  { "the same, --detail stage", { "dgx-a100-superpod", "sc21-530b", "--detail", "stage" }, 0, 0, 3 },
};

typedef struct
{
  double wall_ms, user_ms, peak_mb;
} Taken;

static int
compare (gconstpointer a, gconstpointer b)
{
  const double x = ((const Taken *) a)->wall_ms, y = ((const Taken *) b)->wall_ms;
  return (x > y) - (x < y);
}

static gboolean
run_once (const char *program, const Case *c, Taken *ret)
{
  const char *argv[20] = { program, "run" };
  guint n = 2;
  for (guint i = 0; i < G_N_ELEMENTS (c->args) && c->args[i] != NULL; i++)
    argv[n++] = c->args[i];
  const gint64 begin = g_get_monotonic_time ();
  fflush (NULL); /* the child must not print it again */
  const pid_t child = fork ();
  if (child == 0)
    {
      if (freopen ("/dev/null", "w", stdout) != NULL)
        execv (program, (char *const *) (gconstpointer) argv);
      _exit (127);
    }
  int status;
  struct rusage usage;
  if (child < 0 || wait4 (child, &status, 0, &usage) != child || !WIFEXITED (status) || WEXITSTATUS (status) != 0)
    return FALSE;
  *ret = (Taken) { (double) (g_get_monotonic_time () - begin) / 1e3,
                   (double) usage.ru_utime.tv_sec * 1e3 + (double) usage.ru_utime.tv_usec / 1e3, (double) usage.ru_maxrss * 1024 / 1e6 };
  return TRUE;
}

int
main (void)
{
  const char *const program = g_getenv ("STEPCAST");
  if (program == NULL)
    {
      fprintf (stderr, "process: set STEPCAST to the program, or use make bench\n");
      return 2;
    }
  printf ("%-40s %26s %10s %10s   %s\n", "stepcast run, whole process", "wall ms, min / median", "user ms", "peak MB", "promised");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const guint runs = cases[i].runs > 0 ? cases[i].runs : RUNS;
      Taken taken[RUNS + 1];
      for (guint k = 0; k <= runs; k++)
        if (!run_once (program, &cases[i], &taken[k]))
          {
            fprintf (stderr, "process: %s failed\n", cases[i].what);
            return 1;
          }
      qsort (taken + 1, runs, sizeof *taken, compare);
      const Taken *const median = &taken[1 + runs / 2];
      printf ("%-40s %14.0f / %9.0f %10.0f %10.1f", cases[i].what, taken[1].wall_ms, median->wall_ms, median->user_ms, median->peak_mb);
      if (cases[i].limit_ms > 0)
        printf ("   %.0f ms, %.0f MB", cases[i].limit_ms, cases[i].limit_mb);
      putchar ('\n');
    }
  return 0;
}
