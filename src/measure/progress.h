/* SPDX-License-Identifier: MIT */
/* progress.h - which items come next within a budget, and what the user sees meanwhile. */
#pragma once
#include "measure/plan.h"

/* The next item of @plan at or after @from that fits into @left_s seconds (INFINITY: any); n_items when none does. */
size_t scm_plan_next (const ScmPlan *plan, size_t from, double left_s);

typedef struct
{
  bool terminal, verbose;
  size_t n_all, n_done, n_failed;
  double started_s, shown_s;
} ScmProgress;

void scm_progress_init (ScmProgress *progress, size_t n_all, bool verbose, double now_s);

/* "@item is next"; a bar on a terminal, otherwise a line now and then. */
void scm_progress_show (ScmProgress *progress, const ScmItem *item, double now_s);

/* A line of its own, whatever the bar shows. */
void scm_progress_note (ScmProgress *progress, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* Takes the bar away. */
void scm_progress_clear (ScmProgress *progress);
