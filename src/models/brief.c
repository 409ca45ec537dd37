/* SPDX-License-Identifier: GPL-3.0-or-later */
/* brief.c - how few micro-batches to try, and where the blocks of their step stand. */
#include "models/brief.h"
#include "models/schedule.h"
#include "sim/engine.h"

void
sc_repeat_free (ScRepeat *r)
{
  if (r == NULL)
    return;
  g_free (r->classes);
  g_free (r);
}

/* Micro-batches after which all is as before; 0: they are not all alike, or nobody knows. */
static guint
period_of (const ScWorkload *w)
{
  const ScPlan *const p = &w->plan;
  const ScSchedule *const row = sc_schedule_find (p->schedule);
  const ScScheduleShape shape = sc_workload_schedule_shape (w);
  const gboolean alike = p->n_microbatch_factors <= 1 && w->packing == NULL && p->partial_microbatches == 0 && !p->post_validation && p->vocab_parallel == SC_VOCAB_ENDS;
  return alike && row->exchanges && row->period != NULL ? row->period (&shape) : 0;
}

/* A pipeline is full after as many micro-batches as it has ranks, and interleaved after a period more; three periods are as few as can tell whether it is
 * steady, and most often do. */
static guint
fewest (const ScPlan *p, guint period)
{
  return p->pp + (p->vpp > 1 ? 4 : 3) * period;
}

guint
sc_brief_microbatches (const ScWorkload *w, guint tried)
{
  const guint m = sc_workload_microbatches (w), period = period_of (w);
  if (period == 0)
    return m;
  const guint least = tried == 0 ? fewest (&w->plan, period) : tried + MAX (tried / 2, period);
  return least < m ? m - (m - least) / period * period : m;
}

guint
sc_brief_least (const ScWorkload *w)
{
  const guint m = sc_workload_microbatches (w), period = period_of (w), least = MAX (period, 2);
  return period > 0 && m > least ? m - (m - least) / period * period : m;
}

ScWorkload
sc_brief_workload (const ScWorkload *w, guint microbatches)
{
  ScWorkload brief = *w;
  brief.plan.global_batch = microbatches * w->plan.dp * w->plan.micro_batch;
  return brief;
}

static const ScSlotMark *
mark_at (const ScLowered *l, guint class_id, guint n_marks, guint slot)
{
  return &g_array_index (l->marks, ScSlotMark, class_id * n_marks + slot);
}

/* Blocks of the class that is @rank of the pipeline: a period of its order each.  *ret_first: its first slot. */
static gboolean
blocks_of (const ScLowered *l, guint class_id, guint rank, guint n_marks, guint period, ScBlocks *ret, ScOrderPeriod *ret_order)
{
  if (!sc_orders_period (l->orders, rank, period, ret_order))
    return FALSE;
  const guint n = (ret_order->end - ret_order->first - 1) / ret_order->length; /* the last one ends where a slot begins */
  guint32 *const start = g_new (guint32, n + 1);
  for (guint i = 0; i <= n; i++)
    start[i] = mark_at (l, class_id, n_marks, ret_order->first + i * ret_order->length)->op;
  *ret = (ScBlocks) { start, n };
  return TRUE;
}

static void
free_blocks (ScBlocks *blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    g_free (blocks[i].start);
  g_free (blocks);
}

static ScRepeat *
repeat_new (const ScSteady *steady, const ScLowered *l, const ScOrderPeriod *orders, guint n_classes, guint n_marks)
{
  ScRepeat *const r = g_new0 (ScRepeat, 1);
  r->n_classes = n_classes;
  r->classes = g_new (ScLeftOut, n_classes);
  for (guint k = 0; k < n_classes; k++)
    {
      const guint slot = orders[k].first + steady[k].last * orders[k].length;
      r->classes[k] = (ScLeftOut) { steady[k].at, steady[k].period, steady[k].issue, *mark_at (l, k, n_marks, slot),
                                    *mark_at (l, k, n_marks, slot + orders[k].length) };
    }
  return r;
}

/* The longest period of all, so often, fits in what may be simulated. */
static gboolean
is_short_enough (const ScTrace *trace, const ScSteady *steady, guint n, guint times)
{
  ScTime longest = 0;
  for (guint k = 0; k < n; k++)
    longest = MAX (longest, steady[k].period);
  return sc_time_to_s (trace->end) + times * sc_time_to_s (longest) < SC_TIME_MAX_S;
}

ScRepeat *
sc_brief_find (const ScWorkload *w, const ScLowered *l, const ScTrace *trace)
{
  const guint period = period_of (w), n_classes = l->program->actors->len, n_marks = l->marks->len / n_classes;
  const guint times = (sc_workload_microbatches (w) - l->orders->m) / period;
  g_autofree ScOrderPeriod *orders = g_new0 (ScOrderPeriod, n_classes);
  g_autofree ScSteady *steady = g_new0 (ScSteady, n_classes);
  ScBlocks *const blocks = g_new0 (ScBlocks, n_classes);
  ScRepeat *ret = NULL;
  gboolean regular = TRUE;
  for (guint k = 0; k < n_classes && regular; k++)
    regular = blocks_of (l, k, l->ranks[k], n_marks, period, &blocks[k], &orders[k]);
  if (regular && sc_steady_find (l->program, trace, blocks, steady) && is_short_enough (trace, steady, n_classes, times))
    {
      ret = repeat_new (steady, l, orders, n_classes, n_marks);
      ret->microbatches = period;
      ret->times = times;
    }
  free_blocks (blocks, n_classes);
  return ret;
}

ScTrace *
sc_brief_run (const ScLowered *l, const ScRepeat *r, GError **error)
{
  g_autofree ScJump *jumps = g_new (ScJump, r->n_classes);
  for (guint k = 0; k < r->n_classes; k++)
    jumps[k] = (ScJump) { r->classes[k].at, r->times * r->classes[k].period, r->times * r->classes[k].issue };
  return sc_engine_run_jumping (l->program, jumps, error);
}
