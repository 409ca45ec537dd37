/* SPDX-License-Identifier: GPL-3.0-or-later */
/* plans.c - how many plans a second and core: GPT-3 175B over 512 A100, 1,536 sequences a step, all plans of a grid that are valid and fit.
 * Bounds, replay and simulation in one run, and how near they come; processor time of this process. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "models/bounds.h"
#include "models/forecast.h"
#include "topology-json.h"
#include "workload-json.h"

#define GPUS 512
#define SAMPLE 8 /* plans that are simulated whole */

static const guint widths[] = { 4, 8 }, depths[] = { 4, 8, 16, 32 }, chunks[] = { 1, 2, 3 }, sizes[] = { 1, 2 };
static const char *const recompute[] = { "selective", "full" };

static ScWorkload *
plan_new (guint tp, guint pp, guint vpp, guint size, const char *again)
{
  char *set[] = { g_strdup_printf ("plan.tp=%u", tp), g_strdup_printf ("plan.pp=%u", pp), g_strdup_printf ("plan.gpus=%u", GPUS),
                  g_strdup_printf ("plan.vpp=%u", vpp), g_strdup_printf ("plan.schedule=%s", pp == 1 ? "none" : vpp > 1 ? "interleaved" : "1f1b"),
                  g_strdup_printf ("plan.micro_batch=%u", size), g_strdup_printf ("plan.recompute=%s", again),
                  g_strdup ("plan.global_batch=1536"), g_strdup_printf ("plan.sequence_parallel=%s", tp > 1 ? "true" : "false"),
                  g_strdup ("plan.sharding=distributed-optimizer"), NULL };
  ScWorkload *const w = sc_workload_load ("megatron-175b-seqsel", set, NULL); /* NULL: it does not divide */
  for (guint i = 0; set[i] != NULL; i++)
    g_free (set[i]);
  return w;
}

static void
workload_free (gpointer data)
{
  sc_workload_free (data);
}

static gboolean
fits (const ScTopology *t, const ScWorkload *w, ScForecastContext *context)
{
  const ScForecastOptions options = { .detail = SC_DETAIL_STAGE, .memory = SC_MEMORY_NONE, .brief = TRUE, .context = context };
  g_autoptr (ScSummary) s = sc_forecast (t, w, &options, NULL);
  return s != NULL && s->verdict != SC_VERDICT_DOES_NOT_FIT;
}

/* All that fit; *ret_n: of how many. */
static GPtrArray *
plans_new (const ScTopology *t, guint *ret_n)
{
  GPtrArray *const plans = g_ptr_array_new_with_free_func (workload_free);
  g_autoptr (ScForecastContext) context = sc_forecast_context_new (t);
  *ret_n = 0;
  for (guint tp = 0; tp < G_N_ELEMENTS (widths); tp++)
    for (guint pp = 0; pp < G_N_ELEMENTS (depths); pp++)
      for (guint v = 0; v < G_N_ELEMENTS (chunks); v++)
        for (guint b = 0; b < G_N_ELEMENTS (sizes); b++)
          for (guint r = 0; r < G_N_ELEMENTS (recompute); r++)
            {
              ScWorkload *const w = plan_new (widths[tp], depths[pp], chunks[v], sizes[b], recompute[r]);
              *ret_n += w != NULL ? 1 : 0;
              if (w != NULL && fits (t, w, context))
                g_ptr_array_add (plans, w);
              else
                sc_workload_free (w);
            }
  return plans;
}

static double
cpu_s (void)
{
  return (double) clock () / CLOCKS_PER_SEC;
}

/* What is asked of a plan, cheapest first. */
static const char *const questions[] = { "bounds on memory and kernels", "schedule replayed", "stage detail, brief", "... with its reserved memory", "stage detail, whole" };

/* Seconds of the step as question @q answers it. */
static double
ask (guint q, const ScTopology *t, const ScWorkload *w, ScForecastContext *context)
{
  const ScForecastOptions how = { .detail = SC_DETAIL_STAGE, .memory = q == 3 ? SC_MEMORY_FULLEST : SC_MEMORY_NONE, .brief = q < 4, .context = context };
  double step = 0;
  if (q == 0)
    return sc_bounds (t, w, sc_forecast_context_costs (context)).step_s;
  if (q == 1)
    return sc_forecast_least (t, w, &how, &step, NULL) ? step : 0;
  g_autoptr (ScSummary) s = sc_forecast (t, w, &how, NULL);
  return sc_time_to_s (s->step);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = sc_topology_load ("dgx-a100-superpod", NULL, NULL, &error);
  if (t == NULL)
    {
      fprintf (stderr, "plans: %s\n", error->message);
      return 1;
    }
  guint n;
  setvbuf (stdout, NULL, _IOLBF, 0);
  g_autoptr (GPtrArray) plans = plans_new (t, &n);
  g_autofree double *step = g_new0 (double, plans->len);
  printf ("GPT-3 175B on 512 A100, 1,536 sequences: %u valid plans, %u fit\n%-32s %10s %8s   %s\n", n, plans->len, "", "plans/s", "ratio", "of the simulated step");
  double slowest = 0;
  for (guint q = G_N_ELEMENTS (questions); q-- > 0;)
    {
      const guint stride = q + 1 == G_N_ELEMENTS (questions) ? MAX (plans->len / SAMPLE, 1) : 1;
      g_autoptr (ScForecastContext) context = sc_forecast_context_new (t);
      double least = INFINITY, most = 0;
      guint asked = 0;
      const double begin = cpu_s ();
      for (guint i = 0; i < plans->len; i += stride, asked++)
        {
          const double answer = ask (q, t, g_ptr_array_index (plans, i), context);
          step[i] = step[i] > 0 && q < 2 ? step[i] : answer;
          least = MIN (least, answer / step[i]);
          most = MAX (most, answer / step[i]);
        }
      const double rate = asked / (cpu_s () - begin);
      slowest = slowest > 0 ? slowest : rate;
      printf ("%-32s %10.1f %8.1f   %.3f to %.3f\n", questions[q], rate, rate / slowest, least, most);
    }
  return 0;
}
