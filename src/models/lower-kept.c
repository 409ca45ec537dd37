/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-kept.c - what libraries keep for the whole run beside the model's states: placeholders of gradients, workspaces, the buffer of
 * gathered inputs, the table of rotations (data of framework.c). */
#include "models/lower-parts.h"
#include <string.h>

/* A linear layer's weights, as the products of a forward have them. */
typedef struct
{
  guint64 rows, columns;
} WeightShape;

static void
add_shape (GArray *shapes, WeightShape shape)
{
  for (guint i = 0; i < shapes->len; i++)
    if (memcmp (&g_array_index (shapes, WeightShape, i), &shape, sizeof shape) == 0)
      return;
  g_array_append_val (shapes, shape);
}

/* What the stage's forward passes say. */
typedef struct
{
  GArray  *shapes;  /* WeightShape, each once */
  gboolean grouped; /* has grouped products */
  gboolean torch;   /* has products that PyTorch itself calls: the logits', and a router's */
} Weights;

/* @own: products of the framework's, not of its library. */
static void
look_at (const GArray *forward, ScPlaceholders of, gboolean own, Weights *ret)
{
  for (guint i = 0; i < forward->len; i++)
    {
      const ScItem *const item = &g_array_index (forward, ScItem, i);
      const ScKernel *const k = &item->kernel;
      const gboolean grouped = item->kind == SC_ITEM_KERNEL && k->class == SC_KERNEL_GROUPED_GEMM;
      if (item->kind != SC_ITEM_KERNEL || (k->class != SC_KERNEL_GEMM && !grouped))
        continue;
      const gboolean router = strcmp (k->name, "router") == 0; /* its weight's gradient is autograd's own */
      ret->grouped |= grouped;
      ret->torch |= own || router;
      if (!router && of >= (grouped ? SC_PLACEHOLDERS_GROUPED : SC_PLACEHOLDERS_LINEAR))
        add_shape (ret->shapes, (WeightShape) { k->n, k->k });
    }
}

static void
look_at_stage (const Lower *l, ScPlaceholders of, Weights *ret)
{
  const ScStepItems *const items = l->in->items;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    {
      const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (l->in->sizes, j);
      for (guint i = first; i < first + l->in->sizes->layers[j]; i++)
        if (i == first || items->kinds->of_layer[i] != items->kinds->of_layer[i - 1])
          look_at (items->layers[items->kinds->of_layer[i]].pass[SC_PASS_FORWARD], of, FALSE, ret);
      if (j == l->in->sizes->n_virtual - 1)
        look_at (items->head.pass[SC_PASS_FORWARD], of, TRUE, ret);
    }
}

static gboolean
is_hopper_or_later (const ScDevice *device)
{
  return g_strcmp0 (device->family, "hopper") == 0 || g_strcmp0 (device->family, "blackwell") == 0;
}

static gboolean
has_head (const Lower *l)
{
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    if (sc_plan_stage (l->plan, l->at.pp, chunk) == l->in->sizes->n_virtual - 1)
      return TRUE;
  return FALSE;
}

void
sc_lower_put_kept (Lower *l)
{
  const ScWorkload *const w = l->in->workload;
  const ScFramework *const fw = w->framework;
  const ScLayerShape shape = sc_layer_shape (w, NULL);
  g_autoptr (GArray) shapes = g_array_new (FALSE, FALSE, sizeof (WeightShape));
  Weights weights = { .shapes = shapes };
  look_at_stage (l, fw->placeholders, &weights);
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_TRANSIENT, sc_framework_workspaces (fw, is_hopper_or_later (l->price->device), weights.grouped, weights.torch),
                      "workspaces");
  for (guint i = 0; i < shapes->len; i++)
    {
      const WeightShape *const s = &g_array_index (shapes, WeightShape, i);
      sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_GRADS, shape.act_bytes * (double) s->rows * (double) s->columns, "placeholder of gradients");
    }
  if (fw->keeps_gathered && l->plan->tp > 1 && l->plan->sequence_parallel && has_head (l))
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, shape.act_bytes * shape.tokens * w->model.hidden, "gathered input of the logits");
}
