/* SPDX-License-Identifier: GPL-3.0-or-later */
/* profile.c - a pass of known length in place of its kernels. */
#include "models/profile.h"

/* Layers of the rank that holds most: of all its chunks, of which one micro-batch passes through each (where two pipelines run
 * against each other, through one of the two). */
static guint
most_layers (const ScPlan *plan, const guint *layers)
{
  const gboolean both = sc_plan_placement (plan) == SC_PLACE_BOTH;
  guint most = 0;
  for (guint rank = 0; rank < plan->pp; rank++)
    {
      guint sum = 0;
      for (guint chunk = 0; chunk < sc_plan_chunks (plan); chunk++)
        sum += both && chunk % 2 == 1 ? 0 : layers[sc_plan_stage (plan, rank, chunk)];
      most = MAX (most, sum);
    }
  return most;
}

double
sc_profile_part_s (const ScPlan *plan, const guint *layers, guint stage, ScPass pass)
{
  const ScProfile *const p = &plan->profile;
  if (!p->by_stage)
    return p->seconds[pass][0] / MAX (most_layers (plan, layers), 1);
  const guint parts = layers[stage] + (stage == 0) + (stage == p->n - 1);
  return p->seconds[pass][stage] / parts;
}

/* Items up to the fullest one. */
static guint
fullest (const GArray *items)
{
  gint64 now = 0, peak = 0;
  guint ret = 0;
  for (guint i = 0; i < items->len; i++)
    {
      now += g_array_index (items, ScItem, i).mem_bytes;
      if (now <= peak)
        continue;
      peak = now;
      ret = i + 1;
    }
  return ret;
}

/* Memory stays as it is, in order; all up to the peak comes before the one kernel, the rest behind it. */
void
sc_profile_replace (GArray *items, ScPass pass, double seconds)
{
  static const char *const names[SC_N_PASSES] = { "forward pass", "backward pass", "input gradients", "weight gradients" };
  guint n = 0;
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem item = g_array_index (items, ScItem, i);
      if (item.kind == SC_ITEM_MEM)
        g_array_index (items, ScItem, n++) = item;
    }
  g_array_set_size (items, n);
  const ScTimeKind time = pass == SC_PASS_FORWARD ? SC_TIME_FORWARD : pass == SC_PASS_WEIGHT ? SC_TIME_WEIGHT : SC_TIME_BACKWARD;
  const ScItem kernel = { .kind = SC_ITEM_KERNEL, .time = time,
                          .kernel = { .name = names[pass], .class = SC_KERNEL_ELEMENTWISE, .seconds = seconds } };
  if (seconds > 0)
    g_array_insert_val (items, fullest (items), kernel);
}
