/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-kept.c - what libraries keep for the whole run beside the model's states: placeholders of gradients, workspaces, the buffer of
 * gathered inputs; and the states themselves, tensor by tensor (data of framework.c). */
#include "models/lower-parts.h"
#include <math.h>
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
  const ScLayerShape shape = sc_layer_shape (w, &l->in->items->kinds->kinds[0]);
  g_autoptr (GArray) shapes = g_array_new (FALSE, FALSE, sizeof (WeightShape));
  Weights weights = { .shapes = shapes };
  look_at_stage (l, fw->placeholders, &weights);
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_TRANSIENT, sc_framework_workspaces (fw, is_hopper_or_later (l->price->device), weights.grouped, weights.torch),
                      "workspaces");
  for (guint i = 0; i < shapes->len; i++)
    {
      const WeightShape *const s = &g_array_index (shapes, WeightShape, i);
      sc_lower_put_state (l, SC_TAPE_LATE, SC_MEM_GRADS, shape.act_bytes * (double) s->rows * (double) s->columns, "placeholder of gradients");
    }
  if (fw->keeps_gathered && l->plan->tp > 1 && l->plan->sequence_parallel && has_head (l))
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, shape.act_bytes * shape.tokens * w->model.hidden, "gathered input of the logits");
}

/* ---- states, tensor by tensor ---- */

/* Elements of the weights of a forward list, each tensor by itself: those of one expert are two tensors. */
static void
add_tensors (const GArray *forward, GArray *dense, GArray *experts)
{
  for (guint i = 0; i < forward->len; i++)
    {
      const ScItem *const item = &g_array_index (forward, ScItem, i);
      const ScKernel *const k = &item->kernel;
      const gboolean grouped = item->kind == SC_ITEM_KERNEL && k->class == SC_KERNEL_GROUPED_GEMM;
      if (item->kind != SC_ITEM_KERNEL || (k->class != SC_KERNEL_GEMM && !grouped))
        continue;
      const double elements = (double) k->n * (double) k->k;
      for (guint64 g = 0; g < (grouped ? k->batch : 1); g++)
        g_array_append_val (grouped ? experts : dense, elements);
    }
}

/* Those of the stage, in the order of the model; what @params say beyond them (norms, biases) is one more. */
static void
list_tensors (const Lower *l, double params, double expert_params, GArray *dense, GArray *experts)
{
  const ScStepItems *const items = l->in->items;
  const ScWorkload *const w = l->in->workload;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    {
      const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (l->in->sizes, j);
      const double table = (double) sc_lower_embedding_params (w), shared = (double) sc_lower_vocab_params (w);
      if (shared > 0 && chunk == 0)
        g_array_append_val (dense, shared);
      if (j == 0)
        g_array_append_val (dense, table);
      for (guint i = first; i < first + l->in->sizes->layers[j]; i++)
        add_tensors (items->layers[items->kinds->of_layer[i]].pass[SC_PASS_FORWARD], dense, experts);
      if (j == l->in->sizes->n_virtual - 1 && !(j == 0 && w->model.tied_embeddings))
        add_tensors (items->head.pass[SC_PASS_FORWARD], dense, experts);
    }
  for (guint i = 0; i < dense->len; i++)
    params -= g_array_index (dense, double, i);
  for (guint i = 0; i < experts->len; i++)
    expert_params -= g_array_index (experts, double, i);
  if (params > 0)
    g_array_append_val (dense, params);
  if (expert_params > 0)
    g_array_append_val (experts, expert_params);
}

static GArray *
doubles (void)
{
  return g_array_new (FALSE, FALSE, sizeof (double));
}

/* Appends @bytes of each element of @tensors. */
static void
add_sizes (const GArray *tensors, double bytes, GArray *parts)
{
  for (guint i = 0; i < tensors->len; i++)
    {
      const double size = bytes * g_array_index (tensors, double, i);
      g_array_append_val (parts, size);
    }
}

/* The first of the @ranks that share out a buffer end to end has whole tensors from its beginning on, the last of them in part. */
static void
add_shard (const GArray *tensors, guint ranks, double bytes, GArray *parts)
{
  double left = 0;
  for (guint i = 0; i < tensors->len; i++)
    left += g_array_index (tensors, double, i) / ranks;
  for (guint i = 0; i < tensors->len && left > 0; i++)
    {
      const double elements = MIN (g_array_index (tensors, double, i), left), size = bytes * elements;
      g_array_append_val (parts, size);
      left -= elements;
    }
}

/* Weights are made one by one and stay; gradients and fp32 copies are a buffer each, the latter of a part of every weight.  Moments come with the first step, the
 * two of a weight behind one another: they take what its activations have left, so that the second step's find it in pieces. */
static void
put_states_beside_buffers (Lower *l, const GArray *tensors, double params, ScStateBytes each)
{
  const double ranks = l->sharding->optimizer ? sc_plan_shard_ranks (l->plan) : 1, moments = each.optimizer * ranks - 4;
  for (guint i = 0; i < tensors->len; i++)
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, g_array_index (tensors, double, i) * each.weights, "weights");
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_GRADS, params * each.grads, "gradients");
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_OPTIMIZER, params / ranks * 4, "weights in fp32");
  for (guint i = 0; i < 2 * tensors->len; i++)
    sc_lower_put_state (l, SC_TAPE_LAZY, SC_MEM_OPTIMIZER, ceil (g_array_index (tensors, double, i / 2) / ranks) * moments / 2, "optimizer states");
}

/* Weights are made one by one, then, where the optimizer is shared out, copied into a buffer, and let go behind that of their gradients; behind that fp32
 * copies of what the rank owns.  Moments come with the first step. (Megatron-LM core/distributed/param_and_grad_buffer.py, core/optimizer/distrib_optimizer.py) */
gboolean
sc_lower_put_states_by_tensor (Lower *l, ScStateBytes each, ScStateBytes expert)
{
  const ScFramework *const fw = l->in->workload->framework;
  if (!fw->states_by_tensor || l->sharding->weights || l->sharding->grads || sc_lower_offloads_params (l) || sc_lower_offloads_optimizer (l)
      || l->plan->optimizer != SC_OPTIMIZER_ADAM || l->plan->dtype == SC_DTYPE_FP32)
    return FALSE;
  g_autoptr (GArray) dense = doubles (), experts = doubles (), made = doubles (), copies = doubles (), moments = doubles (), weights = doubles (), grads = doubles ();
  const double params = (double) l->in->sizes->params[l->at.pp], expert_params = (double) l->in->sizes->experts[l->at.pp];
  list_tensors (l, params, expert_params, dense, experts);
  if (fw->flat_copies && experts->len == 0)
    {
      put_states_beside_buffers (l, dense, params, each);
      return TRUE;
    }
  add_sizes (dense, each.weights, made);
  add_sizes (experts, expert.weights, made);
  const double of[2][2] = { { params * each.weights, expert_params * expert.weights }, { params * each.grads, expert_params * expert.grads } };
  for (guint i = 0; i < 2; i++)
    {
      g_array_append_val (weights, of[0][i]);
      g_array_append_val (grads, of[1][i]);
    }
  const guint ranks = l->sharding->optimizer ? sc_plan_shard_ranks (l->plan) : 1, expert_ranks = l->sharding->optimizer ? sc_plan_expert_data_ranks (l->plan) : 1;
  add_shard (dense, ranks, 4, copies);
  add_shard (experts, expert_ranks, 4, copies);
  add_shard (dense, ranks, each.optimizer * ranks - 4, moments);
  add_shard (experts, expert_ranks, expert.optimizer * expert_ranks - 4, moments);
  for (guint i = 0; i < moments->len; i++)
    g_array_index (moments, double, i) /= 2;
  sc_lower_put_state_parts (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, made, 1, "weights, as they are made");
  if (l->sharding->optimizer)
    sc_lower_put_state_parts (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, weights, 1, "weights");
  sc_lower_put_state_parts (l, SC_TAPE_STATE, SC_MEM_GRADS, grads, 1, "gradients");
  if (l->sharding->optimizer)
    sc_lower_put_state_parts (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, made, -1, "weights, as they are made");
  sc_lower_put_state_parts (l, SC_TAPE_STATE, SC_MEM_OPTIMIZER, copies, 1, "weights in fp32");
  sc_lower_put_state_parts (l, SC_TAPE_LAZY, SC_MEM_OPTIMIZER, moments, 1, "optimizer states");
  sc_lower_put_state_parts (l, SC_TAPE_LAZY, SC_MEM_OPTIMIZER, moments, 1, "optimizer states");
  return TRUE;
}

void
sc_lower_put_step_copies (Lower *l, double sign)
{
  const ScPlan *const p = l->plan;
  const guint ranks = sc_plan_shard_ranks (p), expert_ranks = sc_plan_expert_data_ranks (p);
  const double each = sc_sharding_states (l->sharding, 0, p->dtype, p->grad_dtype, 1).step;
  if (each == 0 || sc_lower_offloads_optimizer (l))
    return;
  g_autoptr (GArray) dense = doubles (), experts = doubles (), copies = doubles ();
  list_tensors (l, (double) l->in->sizes->params[l->at.pp], (double) l->in->sizes->experts[l->at.pp], dense, experts);
  add_shard (dense, l->sharding->optimizer ? ranks : 1, each, copies);
  add_shard (experts, l->sharding->optimizer ? expert_ranks : 1, each, copies);
  for (guint i = 0; i < copies->len; i++)
    sc_lower_put_tensor (l, SC_STREAM_COMPUTE, SC_MEM_OPTIMIZER, sign * g_array_index (copies, double, i), sign > 0 ? "gradient in fp32" : NULL);
}
