/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain.c - the critical path in runs, what-ifs and changes, each forecast anew. */
#include "explain.h"
#include <math.h>
#include <string.h>

const ScResourceRow *
sc_resource_rows (void)
{
  static const ScResourceRow rows[] = {
    { "matrix units", "device.scale.matrix=2", "x 2" },  { "memory bandwidth", "device.scale.hbm=2", "x 2" },
    { "NVLink", "device.scale.nvlink=2", "x 2" },        { "NICs and network", "device.scale.nic=2", "x 2" },
    { "PCIe", "device.scale.pcie=2", "x 2" },
    { "latency of links", "device.scale.latency=0.5", "/ 2" }, { "kernel launch, host", "device.scale.launch=0.5", "/ 2" },
    { .name = NULL },
  };
  return rows;
}

void
sc_plan_change_free (ScPlanChange *c)
{
  if (c == NULL)
    return;
  g_free (c->text);
  g_strfreev (c->set);
  g_free (c);
}

void
sc_explain_free (ScExplain *e)
{
  if (e == NULL)
    return;
  sc_summary_free (e->summary);
  g_clear_pointer (&e->path, g_array_unref);
  g_clear_pointer (&e->runs, g_array_unref);
  g_free (e->what_ifs);
  g_clear_pointer (&e->changes, g_ptr_array_unref);
  g_clear_pointer (&e->findings, g_ptr_array_unref);
  g_free (e);
}

/* ---- The path ---- */

static void
add_to_run (ScExplainRun *run, const ScCriticalSegment *segment, guint microbatch)
{
  run->to = segment->to;
  run->time[segment->kind] += segment->to - segment->from;
  if (microbatch == SC_INFO_NO_MICROBATCH)
    return;
  run->first_microbatch = MIN (run->first_microbatch, microbatch);
  run->last_microbatch = MAX (run->last_microbatch, microbatch);
}

static guint
microbatch_of (const ScSummary *s, guint32 op)
{
  if (op == SC_NONE)
    return SC_INFO_NO_MICROBATCH;
  const guint32 info = sc_program_find_op (s->program, op).info;
  return info == SC_INFO_NONE ? SC_INFO_NO_MICROBATCH : sc_info_unpack (info).microbatch;
}

static void
follow_path (ScExplain *e)
{
  e->path = sc_critical_path (e->summary->program, e->summary->trace);
  e->runs = g_array_new (FALSE, FALSE, sizeof (ScExplainRun));
  for (guint i = 0; i < e->path->len; i++)
    {
      const ScCriticalSegment *const segment = &g_array_index (e->path, ScCriticalSegment, i);
      const guint stage = e->summary->classes[segment->class_id].stage;
      if (e->runs->len == 0 || g_array_index (e->runs, ScExplainRun, e->runs->len - 1).stage != stage)
        {
          const ScExplainRun fresh = { .stage = stage, .from = segment->from, .to = segment->from, .first_microbatch = G_MAXUINT };
          g_array_append_val (e->runs, fresh);
        }
      add_to_run (&g_array_index (e->runs, ScExplainRun, e->runs->len - 1), segment, microbatch_of (e->summary, segment->op));
      e->time[segment->kind] += segment->to - segment->from;
    }
}

/* ---- What each resource is worth ---- */

static gboolean
try_resources (ScExplain *e, const ScExplainInput *in, GError **error)
{
  const ScForecastOptions how = { .detail = in->detail, .memory = SC_MEMORY_NONE, .brief = TRUE };
  const ScResourceRow *const rows = sc_resource_rows ();
  while (rows[e->n_what_ifs].name != NULL)
    e->n_what_ifs++;
  e->what_ifs = g_new0 (ScResourceWorth, e->n_what_ifs);
  for (guint i = 0; i < e->n_what_ifs; i++)
    {
      g_autofree char *key = g_strdup (rows[i].set);
      char *set[] = { key, NULL };
      g_autoptr (ScTopology) t = in->read_topology (in->data, set, error);
      g_autoptr (ScSummary) s = t != NULL ? sc_forecast (t, in->workload, &how, error) : NULL;
      if (s == NULL)
        return FALSE;
      e->what_ifs[i] = (ScResourceWorth) { &rows[i], sc_time_to_s (s->step), 1 - (double) s->step / (double) e->summary->step };
    }
  return TRUE;
}

/* ---- Changes of the plan ---- */

static void
try_change (const ScExplain *e, const ScExplainInput *in, ScForecastContext *context, ScPlanChange *c)
{
  const ScForecastOptions how = { .detail = SC_DETAIL_STAGE, .memory = SC_MEMORY_FULLEST, .brief = TRUE, .context = context };
  g_autoptr (ScWorkload) w = in->read_workload (in->data, c->set, NULL);
  g_autoptr (ScSummary) s = w != NULL && sc_workload_check_modelled (w, NULL) ? sc_forecast (in->topology, w, &how, NULL) : NULL;
  c->step_s = c->gain = NAN;
  if (s == NULL)
    return;
  const ScClassSummary *const fullest = &s->classes[s->memory_class];
  c->step_s = sc_time_to_s (s->step);
  c->gain = 1 - c->step_s / e->stage_step_s;
  c->device_bytes = fullest->peak_device_bytes;
  c->capacity_bytes = fullest->capacity_bytes;
  c->verdict = s->verdict;
}

static int
by_gain (gconstpointer a, gconstpointer b)
{
  const ScPlanChange *const x = *(const ScPlanChange *const *) a, *const y = *(const ScPlanChange *const *) b;
  if (x->gain != y->gain)
    return x->gain > y->gain ? -1 : 1;
  return strcmp (x->text, y->text);
}

static gboolean
try_changes (ScExplain *e, const ScExplainInput *in, GError **error)
{
  g_autoptr (ScForecastContext) context = sc_forecast_context_new (in->topology);
  const ScForecastOptions how = { .detail = SC_DETAIL_STAGE, .memory = SC_MEMORY_NONE, .brief = TRUE, .context = context };
  g_autoptr (ScSummary) given = sc_forecast (in->topology, in->workload, &how, error);
  if (given == NULL)
    return FALSE;
  e->stage_step_s = sc_time_to_s (given->step);
  g_autoptr (GPtrArray) proposed = g_ptr_array_new ();
  for (const ScChangeRow *const *row = sc_change_rows (); *row != NULL; row++)
    (*row)->propose (in->workload, in->topology, proposed);
  e->changes = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_plan_change_free);
  for (guint i = 0; i < proposed->len; i++)
    {
      ScPlanChange *const c = g_ptr_array_index (proposed, i);
      try_change (e, in, context, c);
      if (isnan (c->gain))
        sc_plan_change_free (c);
      else
        g_ptr_array_add (e->changes, c);
    }
  g_ptr_array_sort (e->changes, by_gain);
  return TRUE;
}

ScExplain *
sc_explain (const ScExplainInput *in, GError **error)
{
  const ScForecastOptions how = { .detail = in->detail, .links = TRUE, .memory = SC_MEMORY_FULLEST };
  g_autoptr (ScExplain) e = g_new0 (ScExplain, 1);
  e->summary = sc_forecast (in->topology, in->workload, &how, error);
  if (e->summary == NULL)
    return NULL;
  follow_path (e);
  if (!try_resources (e, in, error) || !try_changes (e, in, error))
    return NULL;
  e->findings = sc_explain_findings (e);
  return g_steal_pointer (&e);
}
