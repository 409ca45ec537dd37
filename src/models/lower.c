/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower.c - plan + fold -> program, class by class: its states, its slots, the end of its step. */
#include "models/lower-parts.h"
#include "models/optimizer.h"
#include "models/precision.h"
#include "models/model.h"
#include <math.h>

const char *
sc_detail_name (ScDetail detail)
{
  static const char *const names[] = { "kernel", "layer", "stage" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_DETAILS);
  return names[detail];
}

/* ---- the end of the step ---- */

/* Gradients that every tensor-parallel rank holds a partial sum of: norms (and biases behind row-parallel products) under
 * sequence parallelism (MODELLING 5.8); without it those of queries and keys, whose heads are split (Megatron-LM
 * core/distributed/finalize_model_grads.py). */
static double
replicated_grad_bytes (const Lower *l)
{
  const ScModel *const m = &l->in->workload->model;
  guint64 params = 0, layers = 0;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    {
      const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (l->in->sizes, j);
      layers += l->in->sizes->layers[j];
      for (guint i = first; i < first + l->in->sizes->layers[j]; i++)
        params += sc_model_layer_replicated_params (m, sc_model_layer_has_experts (m, i));
      if (j != l->in->sizes->n_virtual - 1)
        continue;
      layers += m->mtp_layers;
      params += m->no_final_norm ? 0 : sc_model_norm_params (m);
      params += m->mtp_layers * (sc_model_layer_replicated_params (m, m->experts > 0) + 3 * sc_model_norm_params (m));
    }
  if (!l->plan->sequence_parallel)
    params = m->qk_norm && !m->qk_norm_full ? layers * 2 * m->head_dim : 0;
  return (double) params * sc_dtype_bytes (l->plan->grad_dtype);
}

/* Bytes of gradients that are summed behind data parallelism's own sums: where a strategy has shared gradients out, a rank holds its part. */
static double
held_gradients (const Lower *l, double bytes)
{
  return l->sharding->grads ? bytes / sc_plan_shard_ranks (l->plan) : bytes;
}

/* Where there are fewer KV heads than tensor-parallel ranks, those that hold the same one have each a part of its gradient: that of
 * their own queries. */
static void
put_kv_gradients (Lower *l, guint32 host)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_KV, FALSE);
  if (comm == SC_NONE)
    return;
  guint layers = 0;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    layers += l->in->sizes->layers[sc_plan_stage (l->plan, l->at.pp, chunk)];
  const double bytes = (double) layers * (double) sc_model_kv_params (&l->in->workload->model, 1) * sc_dtype_bytes (l->plan->grad_dtype);
  if (bytes > 0)
    sc_lower_put_call (l, SC_STREAM_COMPUTE, sc_lower_call_of (l, comm, SC_COLL_ALL_REDUCE, held_gradients (l, bytes)), sc_lower_label (l, "KV gradients"), host);
}

/* Weights of this rank's linear layers, where the optimizer looks at whole matrices; else NULL. */
static GArray *
list_matrices (const Lower *l)
{
  if (sc_optimizer_row (l->plan->optimizer)->newton_schulz == 0)
    return NULL;
  const ScLayerKinds *const kinds = l->in->items->kinds;
  GArray *const matrices = g_array_new (FALSE, FALSE, sizeof (ScMatrix));
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    {
      const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (l->in->sizes, j);
      for (guint i = first; i < first + l->in->sizes->layers[j]; i++)
        {
          const ScLayerShape shape = sc_layer_shape (l->in->workload, &kinds->kinds[kinds->of_layer[i]]);
          sc_optimizer_matrices (&shape, matrices);
        }
    }
  return matrices;
}

static void
put_finish (Lower *l)
{
  const ScWorkload *const w = l->in->workload;
  const ScLayout *const layout = l->in->layout;
  const guint32 host = sc_lower_issue_ns (l, SC_TIME_OPTIMIZER);
  sc_lower_before_optimizer (l);
  const guint32 tp = sc_layout_comm_of (layout, l->rank, SC_COMM_TP, FALSE);
  if (tp != SC_NONE && replicated_grad_bytes (l) > 0)
    sc_lower_put_call (l, SC_STREAM_COMPUTE, sc_lower_call_of (l, tp, SC_COLL_ALL_REDUCE, held_gradients (l, replicated_grad_bytes (l))),
                       sc_lower_label (l, "norm gradients"), host);
  put_kv_gradients (l, host);
  const guint32 embedding = sc_layout_comm_of (layout, l->rank, SC_COMM_EMBEDDING, FALSE);
  if (embedding != SC_NONE)
    sc_lower_put_call (l, SC_STREAM_COMPUTE,
              sc_lower_call_of (l, embedding, SC_COLL_ALL_REDUCE,
                       held_gradients (l, (double) w->model.vocab / l->plan->tp * (w->model.embedding_dim > 0 ? w->model.embedding_dim : w->model.hidden)
                                              * sc_dtype_bytes (l->plan->grad_dtype))),
              sc_lower_label (l, w->model.tied_embeddings ? "tied embedding gradients" : "embedding gradients"), host);

  const double dense = (double) l->in->sizes->params[l->at.pp], experts = (double) l->in->sizes->experts[l->at.pp];
  const double held = dense + experts;
  g_autoptr (GArray) matrices = list_matrices (l);
  if (matrices != NULL && l->sharding->optimizer)
    sc_matrices_deal (matrices, sc_plan_shard_ranks (l->plan), sc_plan_expert_data_ranks (l->plan));
  const double owned = l->sharding->optimizer ? dense / sc_plan_shard_ranks (l->plan) + experts / sc_plan_expert_data_ranks (l->plan) : held;
  const ScLayerShape shape = sc_layer_shape (w, &l->in->items->kinds->kinds[0]);
  g_autoptr (GArray) items = sc_item_list_new ();
  sc_optimizer_step (&shape, l->sharding->grads ? owned : held, owned, matrices, items);
  Priced priced = sc_lower_price_list (l, items, l->price->device, l->price->speed, l->price->host_factor, 1);
  sc_lower_tape_mark (l, SC_TAPE_OPTIMIZER);
  sc_lower_put_step_copies (l, 1);
  sc_lower_tape_list (l, &priced, 0, G_MAXUINT);
  const guint32 world = sc_layout_comm_of (layout, l->rank, SC_COMM_WORLD, FALSE);
  gboolean norm_known = world == SC_NONE || l->plan->post_validation;
  for (guint i = 0; i < priced.n; i++)
    {
      const PricedItem *const item = &priced.items[i];
      if (item->kind != SC_ITEM_KERNEL)
        {
          sc_lower_put_item (l, item, 3);
          continue;
        }
      sc_lower_put_work (l, item);
      if (norm_known)
        continue;
      /* behind the first kernel, which sums this rank's gradients: the norm over all ranks, which the host reads */
      sc_lower_put_call (l, SC_STREAM_COMPUTE, sc_lower_call_of (l, world, SC_COLL_ALL_REDUCE, 4), sc_lower_label (l, "gradient norm"), host);
      if (w->framework->host_backward_s > 0)
        sc_lower_host_wait (l, sc_lower_put_record (l, SC_STREAM_COMPUTE));
      norm_known = TRUE;
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_ps[g] += priced.grade_ps[g];
  g_free (priced.items);
  sc_lower_put_step_copies (l, -1);
  if (sc_lower_offloads_optimizer (l))
    sc_lower_put_host_step (l, owned);
  sc_lower_after_optimizer (l);
}

/* Parameters of this rank's layers, which linear layers are but for a thousandth. */
static double
cast_params (const Lower *l)
{
  double params = 0;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    {
      const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (l->in->sizes, j);
      for (guint i = first; i < first + l->in->sizes->layers[j]; i++)
        params += (double) (sc_lower_layer_params (l->in->workload, i) + sc_lower_layer_experts (l->in->workload, i));
    }
  return params;
}

static gboolean
caches_casts (const Lower *l)
{
  return l->plan->precision != NULL && !l->sharding->weights && !l->in->workload->framework->fp8_keeps_wide;
}

/* The weights that the next step's products read, for which Transformer Engine takes the time of the step's first micro-batch. */
static void
put_weight_casts (Lower *l)
{
  if (!caches_casts (l))
    return;
  const ScLayerShape shape = sc_layer_shape (l->in->workload, &l->in->items->kinds->kinds[0]);
  g_autoptr (GArray) items = sc_item_list_new ();
  sc_weights_cast (&shape, cast_params (l), items);
  Priced priced = sc_lower_price_list (l, items, l->price->device, l->price->speed, l->price->host_factor, 1);
  sc_lower_tape_list (l, &priced, 0, G_MAXUINT);
  for (guint i = 0; i < priced.n; i++)
    sc_lower_put_work (l, &priced.items[i]);
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_ps[g] += priced.grade_ps[g];
  g_free (priced.items);
}

/* What modules and libraries keep on the device besides, of frameworks in which it is looked after. */
static void
put_library_states (Lower *l, const ScLayerShape *shape)
{
  const ScFramework *const fw = l->in->workload->framework;
  const ScModel *const m = &l->in->workload->model;
  guint layers = 0;
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    layers += l->in->sizes->layers[sc_plan_stage (l->plan, l->at.pp, chunk)];
  const double table = shape->act_bytes * l->in->workload->seq * m->head_dim / 2;
  for (guint i = 0; i < 2 * layers && fw->rotary_tables && m->positions == SC_POSITIONS_ROPE; i++)
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, table, i % 2 == 0 ? "cosines" : "sines");
  for (guint i = 0; i < 2 && fw->gather_buffers && l->plan->sequence_parallel && l->plan->tp > 1; i++)
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, shape->act_bytes * shape->tokens * m->hidden, i == 0 ? "gathered input" : "gathered gradient");
  if (fw->pooled_workspaces)
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, (double) (guint64) l->price->device->workspace_bytes.value, "workspaces of products");
}

static void
put_states (Lower *l)
{
  const ScPlan *const p = l->plan;
  const double dense = (double) l->in->sizes->params[l->at.pp], experts = (double) l->in->sizes->experts[l->at.pp];
  g_autoptr (GArray) matrices = list_matrices (l);
  const double moments = sc_optimizer_state_bytes (p->optimizer, dense, matrices != NULL ? sc_matrices_params (matrices, FALSE) : 0);
  const double of_experts = sc_optimizer_state_bytes (p->optimizer, experts, experts);
  const ScStateBytes each = sc_sharding_states (l->sharding, moments, p->dtype, p->grad_dtype, sc_plan_shard_ranks (p));
  const ScStateBytes expert = sc_sharding_states (l->sharding, of_experts, p->dtype, p->grad_dtype, sc_plan_expert_data_ranks (p));
  const gboolean no_grads = sc_lower_offloads_optimizer (l) && l->sharding->grads;
  const gboolean by_tensor = sc_lower_put_states_by_tensor (l, each, expert);
  if (!by_tensor && !sc_lower_offloads_params (l))
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, dense * each.weights + experts * expert.weights, "weights");
  if (caches_casts (l))
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_WEIGHTS, cast_params (l) * sc_precision_weight_bytes (p->precision), "weights, cast");
  if (!by_tensor && ((l->sharding->grads && !no_grads) || l->in->workload->framework->fp32_main_grads)) /* else they come with the first backward */
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_GRADS, dense * each.grads + experts * expert.grads, "gradients");
  if (!by_tensor && !sc_lower_offloads_optimizer (l))
    sc_lower_put_state (l, SC_TAPE_LAZY, SC_MEM_OPTIMIZER, dense * each.optimizer + experts * expert.optimizer, "optimizer states");
  const ScLayerShape shape = sc_layer_shape (l->in->workload, &l->in->items->kinds->kinds[0]);
  sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_COMM, sc_user_buffer_bytes (&shape), "user buffers");
  if (sc_sharding_has_pipeline_engine (l->sharding, l->in->workload->framework) && l->at.pp == p->pp - 1) /* pipe_buffers['outputs'] of deepspeed/runtime/pipe/engine.py */
    sc_lower_put_state (l, SC_TAPE_STATE, SC_MEM_LOGITS, shape.tokens * l->in->workload->model.vocab / p->tp * shape.act_bytes, "logits of the micro-batch before");
  sc_lower_put_kept (l);
  put_library_states (l, &shape);
}

static void
enter_class (Lower *l, guint32 class_id)
{
  const ScLowerInput *const in = l->in;
  l->class_id = class_id;
  l->rank = in->fold->representative[class_id];
  l->at = sc_layout_coord (l->plan, l->rank);
  const ScNodeType *const type = sc_fabric_node_type (in->fabric, l->rank);
  const guint n_packed = MAX (in->items->kinds->n_packed, 1);
  for (guint i = 0; i < l->n_price_of; i++)
    l->price_of[i] = sc_lower_price_index (l, type->device, in->fabric->gpus[l->rank].speed, type->host_factor.value,
                                           l->plan->n_microbatch_factors > 0 ? l->plan->microbatch_factors[i / n_packed] : 1);
  sc_lower_enter_microbatch (l, 0);
}

/* ---- what a scheduler may know before there is a schedule ---- */

/* Of a pass over one list: its kernels, and the collectives that it waits for. */
static double
pass_ps (Lower *l, const Priced *priced)
{
  double sum = 0;
  for (guint i = 0; i < priced->n; i++)
    if (priced->items[i].kind == SC_ITEM_KERNEL)
      sum += (double) priced->items[i].value;
    else if (priced->items[i].kind == SC_ITEM_COLLECTIVE)
      sum += sc_lower_alone_ps (l, sc_lower_item_call (l, &priced->items[i]));
  return sum;
}

/* Of the layers and ends of virtual stage @stage, on the class that was entered. */
static double
stage_pass_ps (Lower *l, guint stage, ScPass pass)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint first = sc_stage_first_layer (sizes, stage);
  double cost = 0, of_kind = 0;
  guint32 kind = SC_NONE;
  for (guint layer = first; layer < first + sizes->layers[stage]; layer++)
    {
      if (l->in->items->kinds->of_layer[layer] != kind) /* neighbours are mostly alike */
        {
          kind = l->in->items->kinds->of_layer[layer];
          of_kind = pass_ps (l, sc_lower_layer_price (l, layer, pass));
        }
      cost += of_kind;
      if (pass == SC_PASS_INPUT || pass == SC_PASS_BACKWARD)
        cost += pass_ps (l, sc_lower_layer_rebuild (l, layer));
    }
  cost += stage == 0 ? pass_ps (l, &l->price->embedding[pass]) : 0;
  cost += stage == sizes->n_virtual - 1 ? pass_ps (l, &l->price->head[pass]) : 0;
  return cost;
}

/* Of a message over the boundary behind this class's rank, or 0: it has none. */
static double
boundary_ps (Lower *l)
{
  const guint32 comm = sc_layout_comm_of (l->in->layout, l->rank, SC_COMM_PP_FORWARD, TRUE);
  return comm != SC_NONE ? sc_lower_alone_ps (l, sc_lower_call_of (l, comm, SC_COLL_SEND, l->in->items->boundary_bytes)) : 0;
}

/* @class_id, at the costs of a micro-batch as any other. */
static void
enter_class_alike (Lower *l, guint32 class_id)
{
  enter_class (l, class_id);
  const guint price = sc_lower_price_index (l, l->price->device, l->price->speed, l->price->host_factor, 1); /* may move them */
  l->price = &g_array_index (l->prices, Prices, price);
}

/* Forward, input and weight gradients of every stage on the slowest of its classes, whole picoseconds: [3 * stages]; *ret_latency: of
 * the slowest transfer. */
static double *
stage_costs (Lower *l, double *ret_latency)
{
  static const ScPass passes[] = { SC_PASS_FORWARD, SC_PASS_INPUT, SC_PASS_WEIGHT };
  const ScStageSizes *const sizes = l->in->sizes;
  double *const costs = g_new0 (double, G_N_ELEMENTS (passes) * sizes->n_virtual);
  *ret_latency = 0;
  for (guint32 c = 0; c < l->in->fold->n_classes; c++)
    {
      enter_class_alike (l, c);
      for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
        for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
          {
            const guint j = sc_plan_stage (l->plan, l->at.pp, chunk);
            double *const cost = &costs[i * sizes->n_virtual + j];
            *cost = MAX (*cost, stage_pass_ps (l, j, passes[i]));
          }
      *ret_latency = MAX (*ret_latency, boundary_ps (l));
    }
  return costs;
}

static int
compare_costs (const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* The public scheduler knows one cost of each pass, the median over stages: its orders do not adapt to single ones
 * (sail-sg/zero-bubble-pipeline-parallelism, zb_schedules.py). */
static void
level_costs (double *costs, guint n)
{
  qsort (costs, n, sizeof *costs, compare_costs);
  for (guint i = 0; i < n; i++)
    costs[i] = costs[n / 2];
}

static void
make_orders (Lower *l)
{
  const ScSchedule *const row = sc_schedule_find (l->plan->schedule);
  const ScScheduleShape shape = sc_workload_schedule_shape (l->in->workload);
  if (row->orders == NULL)
    l->orders = sc_orders_new (row, &shape, NULL, l->plan->schedule_table);
  else
    {
      double latency;
      const guint n = l->in->sizes->n_virtual;
      g_autofree double *costs = stage_costs (l, &latency);
      for (guint pass = 0; pass < 3; pass++)
        level_costs (costs + pass * n, n);
      const ScScheduleCosts known = { .forward = costs, .input = costs + n, .weight = costs + 2 * n, .latency = latency,
                                      .held = sc_step_items_held (l->in->items, 0) };
      l->orders = sc_orders_new (row, &shape, &known, NULL);
    }
  if (l->plan->vocab_parallel != SC_VOCAB_ENDS && !sc_orders_add_vocabulary (l->orders, l->plan->vocab_parallel))
    g_assert_not_reached (); /* orders of our own replay */
  l->actions = row->exchanges && l->orders->vocab == SC_VOCAB_ENDS ? NULL : sc_orders_actions (l->orders, NULL);
}

/* ---- how far the host is ahead ---- */

/* What a stage does for one micro-batch. */
typedef struct
{
  double gpu_ps, host_ps;
  guint  ops;
} SlotLoad;

static void
add_load (Lower *l, const Priced *priced, SlotLoad *load)
{
  load->gpu_ps += pass_ps (l, priced);
  for (guint i = 0; i < priced->n; i++) /* started beside a product, of which the next one needs all */
    if (priced->items[i].kind == SC_ITEM_COLLECTIVE_START)
      load->gpu_ps += sc_lower_alone_ps (l, sc_lower_item_call (l, &priced->items[i]));
  for (guint i = 0; i < priced->n; i++)
    {
      const PricedItem *const item = &priced->items[i];
      const gboolean op = item->kind == SC_ITEM_KERNEL || item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START;
      load->host_ps += op ? (double) sc_time_from_s (1e-9 * item->issue_ns) : 0;
      load->ops += op ? 1 : 0;
    }
}

static SlotLoad
stage_load (Lower *l)
{
  static const ScPass passes[] = { SC_PASS_FORWARD, SC_PASS_BACKWARD };
  const ScStageSizes *const sizes = l->in->sizes;
  SlotLoad load = { 0 };
  for (guint chunk = 0; chunk < sc_plan_chunks (l->plan); chunk++)
    for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
      {
        const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (sizes, j);
        for (guint layer = first; layer < first + sizes->layers[j]; layer++)
          add_load (l, sc_lower_layer_price (l, layer, passes[i]), &load);
        if (j == 0)
          add_load (l, &l->price->embedding[passes[i]], &load);
        if (j == sizes->n_virtual - 1)
          add_load (l, &l->price->head[passes[i]], &load);
      }
  return load;
}

/* How many kernels CUDA takes from a host before it has it wait. */
#define LAUNCH_QUEUE 1024

/* Ops that the host of a rank has issued before its GPU has done them, at most: of a tensor-parallel group, whose calls matter.  Where the GPU takes longer than
 * the host, as many as CUDA takes.  Else the GPU keeps up, unless it waits for others: in a pipeline whose ranks send a gradient behind the
 * activation that they receive for the forward after it (src/nanotron/parallel/pipeline_parallel/state.py: run_communication), stage s of p is p - s - 2 slots behind its host. */
static guint
host_lead (Lower *l)
{
  const double launches = l->in->workload->framework->launches_per_op;
  if (launches == 0 || l->plan->tp == 1)
    return 0;
  const guint most = (guint) (LAUNCH_QUEUE / launches), behind = l->plan->pp > l->at.pp + 2u ? l->plan->pp - l->at.pp - 2u : 0;
  if (l->plan->pp == 1)
    return most;
  const SlotLoad load = stage_load (l);
  return load.gpu_ps >= load.host_ps ? most : MIN (most, load.ops * behind / 2);
}

static void
lower_class (Lower *l, guint32 class_id, GPtrArray *tapes)
{
  enter_class (l, class_id);
  l->grade_ps += class_id > 0 ? SC_N_GRADES : 0;
  l->info = (ScOpInfo) { SC_INFO_NO_MICROBATCH, 0, SC_INFO_NO_LAYER, 3 };
  l->tape = NULL;
  if (tapes->pdata[l->at.pp] == NULL)
    tapes->pdata[l->at.pp] = l->tape = sc_tape_new ();
  g_array_set_size (l->dp_done, 0);
  for (guint i = 0; i < SC_N_COMMS; i++)
    g_queue_clear (&l->started[i]);

  g_hash_table_remove_all (l->merged);
  g_hash_table_remove_all (l->pairs);
  for (guint i = 0; i < l->n_whole; i++)
    g_clear_pointer (&l->whole[i], sc_lower_merged_free);
  if (l->in->detail != SC_DETAIL_KERNEL)
    {
      l->self = sc_program_add_group (l->p, 1);
      g_array_set_size (l->delays, 0);
    }
  sc_program_add_actor (l->p, SC_N_STREAMS, l->plan->one_queue);
  if (l->tape != NULL)
    l->tape->ahead = host_lead (l);
  put_states (l);
  sc_lower_tape_mark (l, SC_TAPE_MARK);
  sc_lower_data_begin (l);
  sc_lower_activations_begin (l);
  sc_lower_vocab_begin (l);
  sc_lower_put_slots (l);
  sc_lower_vocab_end (l);
  put_finish (l);
  put_weight_casts (l);
  sc_lower_data_end (l);
  if (l->in->tapes_only)
    sc_program_drop_ops (l->p);
  else if (!l->in->apart)
    sc_program_share_ops (l->p);
}

static void
list_unref (gpointer data)
{
  if (data != NULL)
    g_array_unref (data);
}

/* What lowering goes through classes with; it fills @ret. */
static void
lower_begin (Lower *l, const ScLowerInput *in, ScLowered *ret)
{
  const guint32 n_classes = in->fold->n_classes, n_families = in->fold->n_families;
  ret->program = sc_program_new ();
  ret->labels = g_ptr_array_new_with_free_func (g_free);
  ret->grade_ps = g_new0 (ScTime, n_classes * SC_N_GRADES);
  ret->messages = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_collective_messages_free);
  ret->needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  ret->ranks = g_new (guint, n_classes);
  for (guint32 c = 0; c < n_classes; c++)
    ret->ranks[c] = sc_layout_coord (&in->workload->plan, in->fold->representative[c]).pp;
  ret->marks = in->marks ? g_array_new (FALSE, FALSE, sizeof (ScSlotMark)) : NULL;
  ret->tapes = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_tape_free);
  g_ptr_array_set_size (ret->tapes, (gint) in->workload->plan.pp);
  *l = (Lower) { .in = in, .plan = &in->workload->plan, .sharding = sc_sharding_of (in->workload->plan.sharding, in->workload->framework), .placement = sc_plan_placement (&in->workload->plan), .p = ret->program, .labels = ret->labels,
              .label_ids = g_hash_table_new (g_str_hash, g_str_equal),
              .prices = g_array_new (FALSE, FALSE, sizeof (Prices)), .known = g_new0 (GArray *, MAX (n_families, 1)),
              .messages = ret->messages, .needs = ret->needs, .marks = ret->marks, .grade_ps = ret->grade_ps,
              .buckets = g_array_new (FALSE, FALSE, sizeof (Bucket)), .dp_done = g_array_new (FALSE, FALSE, sizeof (guint32)),
              .born = g_array_new (FALSE, TRUE, sizeof (guint8)), .waiting = g_ptr_array_new_with_free_func (list_unref), .delays = g_array_new (FALSE, FALSE, sizeof (guint32)) };
  g_array_set_clear_func (l->prices, sc_lower_prices_clear);
  l->n_price_of = MAX (l->plan->n_microbatch_factors, 1) * MAX (in->items->kinds->n_packed, 1);
  l->price_of = g_new (guint, l->n_price_of);
  for (guint i = 0; i < SC_N_COMMS; i++)
    g_queue_init (&l->started[i]);
  sc_lower_label (l, ""); /* label 0: ops without a name */

  for (guint32 i = 0; i < in->fold->n_link_classes; i++)
    sc_program_add_link (l->p, 1);
  for (guint32 i = 0; i < n_families; i++)
    sc_program_add_group (l->p, MAX (in->fold->family_members[i], 1));
  g_array_append_vals (l->p->uses, in->fold->uses, in->fold->uses_first[n_families * in->fold->max_parts]);
  l->merged = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) sc_lower_merged_free);
  l->pairs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) sc_lower_merged_free);
  l->n_whole = l->n_price_of * 4 * sc_plan_chunks (l->plan) * SC_N_PASSES;
  l->whole = g_new0 (Merged *, l->n_whole);
  l->may_wait = sc_lower_find_may_wait (in->fold);
  l->may_wait_quiet = sc_lower_find_may_wait_quiet (in);
}

static void
lower_end (Lower *l)
{
  for (guint32 i = 0; i < l->in->fold->n_families; i++)
    g_clear_pointer (&l->known[i], g_array_unref);
  g_free (l->known);
  for (guint rank = 0; l->actions != NULL && rank < l->orders->p; rank++)
    g_array_unref (l->actions[rank]);
  g_free (l->actions);
  for (guint i = 0; i < l->n_whole; i++)
    sc_lower_merged_free (l->whole[i]);
  g_free (l->whole);
  g_hash_table_unref (l->merged);
  g_hash_table_unref (l->pairs);
  g_free (l->may_wait);
  g_free (l->may_wait_quiet);
  g_free (l->price_of);
  g_array_unref (l->prices);
  g_array_unref (l->buckets);
  g_array_unref (l->dp_done);
  g_array_unref (l->born);
  g_ptr_array_unref (l->waiting);
  g_array_unref (l->delays);
  for (guint i = 0; i < SC_N_COMMS; i++)
    g_queue_clear (&l->started[i]);
  g_hash_table_unref (l->label_ids);
  sc_needs_sort (l->needs);
}

ScLowered *
sc_lower (const ScLowerInput *in)
{
  ScLowered *const ret = g_new0 (ScLowered, 1);
  const guint32 n_classes = in->fold->n_classes;
  Lower l;
  lower_begin (&l, in, ret);
  make_orders (&l);
  ret->orders = l.orders;
  ScLowerInput coarse = *in;
  coarse.detail = SC_DETAIL_STAGE;
  for (guint32 c = 0; c < n_classes; c++)
    {
      if (in->tapes_only && ret->tapes->pdata[sc_layout_coord (l.plan, in->fold->representative[c]).pp] != NULL)
        continue;
      if (l.needs->len > 0) /* only these are asked for now: which algorithms calls take is the same at any level of detail */
        l.in = &coarse;
      lower_class (&l, c, ret->tapes);
      if (c == 0 && !in->tapes_only) /* the others are about as long, and those of one stage mostly share their ops */
        sc_program_reserve (l.p, (guint32) MIN ((guint64) l.p->ops->len * MIN (n_classes, l.plan->pp + 1) * 21 / 20, SC_NONE / 2));
    }
  lower_end (&l);
  return ret;
}

GArray *
sc_lower_least_times (const ScLowerInput *in, ScStageTimes *ret)
{
  const guint n = in->sizes->n_virtual;
  g_autoptr (ScLowered) lowered = g_new0 (ScLowered, 1);
  Lower l;
  lower_begin (&l, in, lowered);
  for (guint i = 0; i < SC_N_PASSES * n; i++)
    ret->pass_ps[i] = INFINITY;
  ret->transfer_ps = INFINITY;
  for (guint32 c = 0; c < in->fold->n_classes; c++)
    {
      enter_class_alike (&l, c);
      for (guint chunk = 0; chunk < sc_plan_chunks (l.plan); chunk++)
        for (guint pass = 0; pass < SC_N_PASSES; pass++)
          {
            const guint j = sc_plan_stage (l.plan, l.at.pp, chunk);
            double *const cost = &ret->pass_ps[pass * n + j];
            *cost = MIN (*cost, stage_pass_ps (&l, j, (ScPass) pass));
          }
      const double boundary = boundary_ps (&l);
      ret->transfer_ps = boundary > 0 ? MIN (ret->transfer_ps, boundary) : ret->transfer_ps;
    }
  ret->transfer_ps = isfinite (ret->transfer_ps) ? ret->transfer_ps : 0;
  lower_end (&l);
  return g_array_ref (lowered->needs);
}

void
sc_lowered_free (ScLowered *l)
{
  if (l == NULL)
    return;
  sc_program_free (l->program);
  g_clear_pointer (&l->labels, g_ptr_array_unref);
  g_free (l->grade_ps);
  g_free (l->ranks);
  g_ptr_array_unref (l->messages);
  g_array_unref (l->needs);
  g_clear_pointer (&l->marks, g_array_unref);
  g_clear_pointer (&l->tapes, g_ptr_array_unref);
  sc_orders_free (l->orders);
  g_free (l);
}
