/* SPDX-License-Identifier: MIT */
/* progress.c - what the user sees while it measures. */
#include "measure/progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t
scm_plan_next (const ScmPlan *plan, size_t from, double left_s)
{
  while (from < plan->n_items && plan->items[from].seconds > left_s)
    from++;
  return from;
}

void
scm_progress_init (ScmProgress *progress, size_t n_all, bool verbose, double now_s)
{
  const char *term = getenv ("TERM");
  *progress = (ScmProgress){ .terminal = isatty (STDERR_FILENO) && (term == NULL || strcmp (term, "dumb") != 0),
                             .verbose = verbose,
                             .n_all = n_all,
                             .started_s = now_s,
                             .shown_s = now_s };
}

void
scm_progress_clear (ScmProgress *progress)
{
  if (progress->terminal)
    fputs ("\r\033[K", stderr);
}

void
scm_progress_show (ScmProgress *progress, const ScmItem *item, double now_s)
{
  const double done = progress->n_all > 0 ? (double) progress->n_done / (double) progress->n_all : 1;
  if (progress->terminal)
    {
      char bar[21];
      const int filled = (int) (done * 20);
      for (int i = 0; i < 20; i++)
        bar[i] = i < filled ? '#' : '.';
      bar[20] = '\0';
      fprintf (stderr, "\r\033[K[%s] %zu/%zu  %.60s", bar, progress->n_done, progress->n_all, item->key);
      fflush (stderr);
    }
  else if (!progress->verbose && now_s - progress->shown_s >= 15)
    {
      progress->shown_s = now_s;
      fprintf (stderr, "stepcast-measure: %zu of %zu after %.0f s\n", progress->n_done, progress->n_all,
               now_s - progress->started_s);
    }
}

void
scm_progress_note (ScmProgress *progress, const char *format, ...)
{
  va_list arguments;
  scm_progress_clear (progress);
  fputs ("stepcast-measure: ", stderr);
  va_start (arguments, format);
  vfprintf (stderr, format, arguments);
  va_end (arguments);
  fputc ('\n', stderr);
}
