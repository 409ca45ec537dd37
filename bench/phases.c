/* SPDX-License-Identifier: GPL-3.0-or-later */
/* phases.c - where the time of a forecast goes: place, walk, fold, list, lower, simulate, summarise, at each level of detail.
 * Least of RUNS runs in one process, in milliseconds, after the links of all calls are known. */
#include <stdio.h>
#include "bench.h"
#include "models/forecast.h"
#include "models/lower.h"
#include "models/memory.h"
#include "models/summarise.h"
#include "sim/engine.h"
#include "topology-json.h"
#include "workload-json.h"

#define RUNS 5

static const struct
{
  const char *what, *topology, *workload, *set[3];
  guint runs; /* 0: RUNS */
} cases[] = {
  { "175B, 64 GPUs", "dgx-h100-superpod", "megatron-175b-seqsel", { NULL }, 0 },
  { "175B, 256 GPUs", "dgx-h100-superpod", "megatron-175b-seqsel", { "plan.dp=4", "plan.global_batch=256" }, 0 },
  { "175B, 1,024 GPUs", "dgx-h100-superpod", "megatron-175b-seqsel", { "plan.dp=16", "plan.global_batch=1024" }, 0 },
  { "Llama 3 405B, 16,384 GPUs", "dgx-h100-superpod", "llama3-405b", { NULL }, 0 },
  { "530B, 2,520 GPUs", "dgx-a100-superpod", "sc21-530b", { NULL }, 1 }, /* the largest that is shipped: 26 million ops */
};

typedef enum { PLACE, WALK, FOLD, LIST, LOWER, SIMULATE, SUMMARISE, N_PHASES } Phase;
static const char *const names[N_PHASES] = { "place", "walk", "fold", "list", "lower", "simulate", "summarise" };

static void
lap (gint64 *last, double *least_ms)
{
  const gint64 now = g_get_monotonic_time ();
  *least_ms = MIN (*least_ms, (double) (now - *last) / 1e3);
  *last = now;
}

/* Ranks of a stage are alike: the benchmark's clusters have one type of node. */
static guint32 *
colours (const ScWorkload *w, const ScFabric *f)
{
  guint32 *const c = g_new (guint32, f->n_gpus);
  for (guint32 r = 0; r < f->n_gpus; r++)
    c[r] = sc_layout_coord (&w->plan, r).pp;
  return c;
}

/* *ret_needs: walks that calls turned out to take; run again with them. */
static gboolean
run_once (const ScTopology *t, const ScWorkload *w, ScDetail detail, GArray *needs, double *ms)
{
  g_autoptr (ScCostCache) costs = sc_cost_cache_new ();
  gint64 last = g_get_monotonic_time ();
  g_autoptr (ScFabric) fabric = sc_fabric_new (t, w->plan.gpus, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (w);
  g_autofree guint32 *colour = colours (w, fabric);
  lap (&last, &ms[PLACE]);
  g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
  lap (&last, &ms[WALK]);
  g_autoptr (ScFold) fold = sc_fold_new (layout, fabric, loads, colour, 0, FALSE);
  lap (&last, &ms[FOLD]);
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (ScStageSizes) sizes = sc_stage_sizes_new (w);
  lap (&last, &ms[LIST]);
  const ScLowerInput input = { .workload = w, .fabric = fabric, .layout = layout, .loads = loads, .fold = fold, .items = items, .sizes = sizes,
                               .detail = detail, .costs = costs };
  g_autoptr (ScLowered) lowered = sc_lower (&input);
  lap (&last, &ms[LOWER]);
  if (lowered->needs->len > 0)
    {
      g_array_append_vals (needs, lowered->needs->data, lowered->needs->len);
      sc_needs_sort (needs);
      return FALSE;
    }
  ScTrace *const trace = sc_engine_run (lowered->program, NULL);
  lap (&last, &ms[SIMULATE]);
  g_autoptr (ScSummary) summary = sc_summarise (&input, lowered, trace, NULL, SC_MEMORY_DEFAULT_MARGIN, SC_MEMORY_FULLEST);
  lap (&last, &ms[SUMMARISE]);
  return summary->step > 0;
}

int
main (void)
{
  printf ("%-28s %-7s", "forecast, ms", "detail");
  for (guint i = 0; i < N_PHASES; i++)
    printf (" %9s", names[i]);
  printf (" %9s\n", "all");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      char *set[4] = { NULL };
      for (guint k = 0; k < G_N_ELEMENTS (cases[i].set) && cases[i].set[k] != NULL; k++)
        set[k] = g_strdup (cases[i].set[k]);
      g_autoptr (ScTopology) t = sc_topology_load (cases[i].topology, NULL, NULL, &error);
      g_autoptr (ScWorkload) w = t != NULL ? sc_workload_load (cases[i].workload, set, &error) : NULL;
      for (guint k = 0; set[k] != NULL; k++)
        g_free (set[k]);
      if (w == NULL)
        {
          fprintf (stderr, "phases: %s\n", error->message);
          return 1;
        }
      for (guint detail = 0; detail < SC_N_DETAILS; detail++)
        {
          double ms[N_PHASES], all = 0;
          g_autoptr (GArray) needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
          while (!run_once (t, w, (ScDetail) detail, needs, ms))
            continue;
          for (guint k = 0; k < N_PHASES; k++)
            ms[k] = G_MAXDOUBLE;
          for (guint k = 0; k < (cases[i].runs > 0 ? cases[i].runs : RUNS); k++)
            run_once (t, w, (ScDetail) detail, needs, ms);
          printf ("%-28s %-7s", cases[i].what, sc_detail_name ((ScDetail) detail));
          for (guint k = 0; k < N_PHASES; k++)
            {
              printf (" %9.2f", ms[k]);
              all += ms[k];
            }
          printf (" %9.2f\n", all);
        }
    }
  return 0;
}
