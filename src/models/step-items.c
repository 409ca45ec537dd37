/* SPDX-License-Identifier: GPL-3.0-or-later */
/* step-items.c - what passes over the parts of a model consist of, and how large its stages are. */
#include "models/lower-parts.h"
#include "models/profile.h"
#include <math.h>

typedef void (*Lister) (const ScLayerShape *shape, GArray *items);

static void
list_passes (const ScLayerShape *shape, const Lister *listers, ScPassItems *ret)
{
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    listers[pass](shape, ret->pass[pass] = sc_item_list_new ());
}

/* Passes are as long as the user says. */
static void
replace_passes (const ScWorkload *workload, ScStepItems *s)
{
  const ScPlan *const p = &workload->plan;
  g_autofree guint *layers = sc_workload_stage_layers (workload);
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    {
      for (guint k = 0; k < s->kinds->n; k++)
        sc_profile_replace (s->layers[k].pass[pass], (ScPass) pass, sc_profile_part_s (p, layers, s->kinds->kinds[k].stage, (ScPass) pass));
      for (guint k = 0; pass == SC_PASS_BACKWARD && k < s->kinds->n; k++)
        if (s->layers[k].rebuild != NULL) /* what was measured has it */
          sc_profile_replace (s->layers[k].rebuild, (ScPass) pass, 0);
      if (!p->profile.by_stage)
        continue;
      sc_profile_replace (s->embedding.pass[pass], (ScPass) pass, sc_profile_part_s (p, layers, 0, (ScPass) pass));
      sc_profile_replace (s->head.pass[pass], (ScPass) pass, sc_profile_part_s (p, layers, p->profile.n - 1, (ScPass) pass));
    }
}

/* Modules that predict further tokens belong to the head: before it in forward, behind it in backward. */
static void
add_mtp (const ScLayerShape *last, ScPassItems *head)
{
  static const Lister listers[SC_N_PASSES] = { sc_mtp_forward, sc_mtp_backward, sc_mtp_backward_input, sc_mtp_backward_weight };
  for (guint pass = 0; pass < SC_N_PASSES && last->model->mtp_layers > 0; pass++)
    {
      GArray *const items = sc_item_list_new ();
      listers[pass](last, items);
      if (pass == SC_PASS_FORWARD)
        g_array_prepend_vals (head->pass[pass], items->data, items->len);
      else
        g_array_append_vals (head->pass[pass], items->data, items->len);
      g_array_unref (items);
    }
}

/* The tensors that a forward saves, gone (@sign -1) or here again. */
static GArray *
list_saved (const GArray *forward, gint64 sign)
{
  GArray *const ret = sc_item_list_new ();
  for (guint i = 0; i < forward->len; i++)
    {
      ScItem item = g_array_index (forward, ScItem, i);
      item.mem_bytes *= sign;
      if (item.kind == SC_ITEM_MEM && item.mem == SC_MEM_ACTIVATIONS)
        g_array_append_val (ret, item);
    }
  return ret;
}

ScStepItems *
sc_step_items_new (const ScWorkload *workload)
{
  static const Lister layer[SC_N_PASSES] = { sc_layer_forward, sc_layer_backward, sc_layer_backward_input, sc_layer_backward_weight };
  static const Lister embedding[SC_N_PASSES] = { sc_embedding_forward, sc_embedding_backward, sc_embedding_backward_input,
                                                 sc_embedding_backward_weight };
  static const Lister head[SC_N_PASSES] = { sc_head_forward, sc_head_backward, sc_head_backward_input, sc_head_backward_weight };
  ScStepItems *const s = g_new0 (ScStepItems, 1);
  s->kinds = sc_layer_kinds_new (workload);
  s->layers = g_new0 (ScPassItems, s->kinds->n);
  for (guint k = 0; k < s->kinds->n; k++)
    {
      const ScLayerShape shape = sc_layer_shape (workload, &s->kinds->kinds[k]);
      list_passes (&shape, layer, &s->layers[k]);
      if (shape.kind.recompute.full && !shape.kind.recompute.last)
        sc_layer_rebuild (&shape, s->layers[k].rebuild = sc_item_list_new ());
    }
  const ScLayerShape shape = sc_layer_shape (workload, &s->kinds->kinds[0]), last = sc_layer_shape (workload, &s->kinds->kinds[s->kinds->of_layer[workload->model.layers - 1]]);
  list_passes (&shape, embedding, &s->embedding);
  list_passes (&shape, head, &s->head);
  add_mtp (&last, &s->head);
  for (guint i = 0; i < G_N_ELEMENTS (s->vocab) && workload->plan.vocab_parallel != SC_VOCAB_ENDS; i++)
    sc_vocab_list (&shape, (ScPass) (SC_N_PASSES + i), s->vocab[i] = sc_item_list_new ());
  for (guint k = 0; k < s->kinds->n && sc_lower_offloads_activations (&workload->plan); k++)
    for (guint i = 0; i < 2; i++)
      s->layers[k].away[i] = list_saved (s->layers[k].pass[SC_PASS_FORWARD], i == 0 ? -1 : 1);
  if (workload->plan.profile.n > 0)
    replace_passes (workload, s);
  s->boundary_bytes = sc_boundary_bytes (&shape);
  s->tensor_bytes = shape.act_bytes * shape.tokens_sp * shape.model->hidden;
  return s;
}

static double
activations_of (const GArray *items)
{
  double bytes = 0;
  for (guint i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      bytes += item->kind == SC_ITEM_MEM && item->mem == SC_MEM_ACTIVATIONS ? (double) item->mem_bytes : 0;
    }
  return bytes;
}

double
sc_step_items_saved (const ScStepItems *s, guint kind)
{
  return activations_of (s->layers[kind].pass[SC_PASS_FORWARD]);
}

double
sc_step_items_held (const ScStepItems *s, guint kind)
{
  const double saved = activations_of (s->layers[kind].pass[SC_PASS_FORWARD]);
  return saved > 0 ? CLAMP (1 + activations_of (s->layers[kind].pass[SC_PASS_INPUT]) / saved, 0.01, 1) : 1;
}

static void
clear_passes (ScPassItems *p)
{
  for (guint pass = 0; pass < SC_N_PASSES; pass++)
    g_array_unref (p->pass[pass]);
  g_clear_pointer (&p->rebuild, g_array_unref);
  for (guint i = 0; i < G_N_ELEMENTS (p->away); i++)
    g_clear_pointer (&p->away[i], g_array_unref);
}

void
sc_step_items_free (ScStepItems *s)
{
  if (s == NULL)
    return;
  for (guint k = 0; k < s->kinds->n; k++)
    clear_passes (&s->layers[k]);
  clear_passes (&s->embedding);
  clear_passes (&s->head);
  for (guint i = 0; i < G_N_ELEMENTS (s->vocab); i++)
    g_clear_pointer (&s->vocab[i], g_array_unref);
  g_free (s->layers);
  sc_layer_kinds_free (s->kinds);
  g_free (s);
}

guint
sc_stage_first_layer (const ScStageSizes *sizes, guint stage)
{
  guint layer = 0;
  for (guint i = 0; i < stage; i++)
    layer += sizes->layers[i];
  return layer;
}

ScStageSizes *
sc_stage_sizes_new (const ScWorkload *workload)
{
  const ScPlan *const p = &workload->plan;
  ScStageSizes *const s = g_new0 (ScStageSizes, 1);
  s->n_virtual = p->pp * p->vpp;
  s->layers = sc_workload_stage_layers (workload);
  s->params = g_new0 (guint64, p->pp);
  s->experts = g_new0 (guint64, p->pp);
  for (guint rank = 0; rank < p->pp; rank++)
    s->params[rank] = sc_lower_vocab_params (workload);
  for (guint rank = 0; rank < p->pp; rank++)
    for (guint chunk = 0; chunk < sc_plan_chunks (p); chunk++)
      {
        const guint j = sc_plan_stage (p, rank, chunk), first = sc_stage_first_layer (s, j);
        for (guint i = first; i < first + s->layers[j]; i++)
          {
            s->params[rank] += sc_lower_layer_params (workload, i);
            s->experts[rank] += sc_lower_layer_experts (workload, i);
          }
        if (j == 0)
          s->params[rank] += sc_lower_embedding_params (workload);
        if (j == s->n_virtual - 1)
          {
            s->params[rank] += sc_lower_head_params (workload);
            s->experts[rank] += sc_lower_head_experts (workload);
          }
      }
  return s;
}

void
sc_stage_sizes_free (ScStageSizes *s)
{
  if (s == NULL)
    return;
  g_free (s->layers);
  g_free (s->params);
  g_free (s->experts);
  g_free (s);
}
