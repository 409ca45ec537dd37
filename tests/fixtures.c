/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fixtures.c - small clusters and plans with round numbers. */
#include "fixtures.h"
#include "models/sharding.h"
#include "sim/engine.h"

static ScDevice *
fix_device (void)
{
  ScDevice *const d = g_new0 (ScDevice, 1);
  d->name = g_strdup ("test-gpu");
  d->sms.value = 100;
  for (guint i = 0; i < SC_N_DTYPES; i++)
    d->peak_flops[i].value = 100e12;
  d->memory_bytes.value = 80e9;
  d->memory_bytes_per_s.value = 1e9;
  d->gemm_tile_efficiency.value = d->gemm_sustained.value = d->gemm_accumulate.value = d->batched_gemm_efficiency.value = 1;
  d->elementwise_bytes_per_s.value = d->reduction_bytes_per_s.value = d->optimizer_bytes_per_s.value = 1e9;
  d->hidden_slowdown.value = 1;
  d->h2d_bytes_per_s.value = d->d2h_bytes_per_s.value = 50e9;
  return d;
}

ScTopology *
fix_topology (FixFabric f)
{
  ScTopology *const t = g_new0 (ScTopology, 1);
  t->name = g_strdup ("test");
  t->devices = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_device_free);
  g_ptr_array_add (t->devices, fix_device ());
  t->types = g_new0 (ScNodeType, 1);
  t->n_types = 1;
  ScNodeType *const n = &t->types[0];
  n->name = g_strdup ("node");
  n->device = g_ptr_array_index (t->devices, 0);
  n->gpus = n->nics = f.gpus > 0 ? f.gpus : 8;
  n->has_nvlink = TRUE;
  n->nvlink_bytes_per_s.value = 450e9;
  n->nvlink_latency_s.value = f.nvlink_latency_s;
  n->nvlink_domain_nodes = 1;
  n->nic_bytes_per_s.value = 50e9;
  n->nic_latency_s.value = f.nic_latency_s;
  n->host_factor.value = 1;
  n->host_memory_bytes_per_s.value = 400e9;
  t->runs = g_new0 (ScNodeRun, 1);
  t->runs[0].count = f.nodes;
  t->n_runs = 1;
  t->n_nodes = f.nodes;
  t->n_gpus = f.nodes * n->gpus;
  t->rail_optimised = !f.classic;
  t->n_tiers = f.leaf == 0 ? 0 : f.pod == 0 ? 1 : 2;
  t->tiers = g_new0 (ScTier, 2);
  t->tiers[0] = (ScTier) { .children = f.leaf, .oversubscription = f.over > 0 ? f.over : 1 };
  t->tiers[1] = (ScTier) { .children = f.pod, .oversubscription = f.pod_over > 0 ? f.pod_over : 1 };
  t->collective_launch_s.value = f.launch_s;
  return t;
}

void
fix_fault (ScTopology *t, ScFaultKind kind, guint node, guint index, double factor)
{
  t->faults = g_renew (ScFault, t->faults, t->n_faults + 1);
  t->faults[t->n_faults++] = (ScFault) { kind, node, index, factor };
}

void
fix_tier_fault (ScTopology *t, guint tier, guint unit, guint rail, double factor)
{
  t->tier_faults = g_renew (ScTierFault, t->tier_faults, t->n_tier_faults + 1);
  t->tier_faults[t->n_tier_faults++] = (ScTierFault) { tier, unit, rail, factor };
}

void
fix_join (ScTopology *t, const char *links)
{
  ScNodeType *const n = &t->types[0];
  n->nvlink_lanes = g_new0 (guint8, n->gpus * n->gpus);
  g_auto (GStrv) words = g_strsplit (links, " ", -1);
  for (char **w = words; *w != NULL; w++)
    {
      const guint a = (guint) ((*w)[0] - '0'), b = (guint) ((*w)[1] - '0');
      n->nvlink_lanes[a * n->gpus + b] = n->nvlink_lanes[b * n->gpus + a] = (guint8) ((*w)[2] != '\0' ? (*w)[2] - '0' : 1);
    }
}

void
fix_background (ScTopology *t, guint first_node, guint nodes, double bytes_per_s)
{
  t->backgrounds = g_renew (ScBackground, t->backgrounds, t->n_backgrounds + 1);
  t->backgrounds[t->n_backgrounds++] = (ScBackground) { first_node, nodes, { .value = bytes_per_s } };
}

static const ScFramework instant = { .name = "instant", .version = "test", .fused_wgrad = TRUE, .fp32_main_grads = TRUE };

ScWorkload *
fix_workload (FixPlan p)
{
  ScWorkload *const w = g_new0 (ScWorkload, 1);
  w->name = g_strdup ("test");
  w->framework = &instant;
  w->seq = 64;
  w->model = (ScModel) { .name = g_strdup ("test"), .hidden = 64, .layers = p.layers, .heads = 8, .kv_heads = 8, .head_dim = 8,
                         .ffn = 256, .vocab = 64, .norm = SC_NORM_RMSNORM, .positions = SC_POSITIONS_ROPE };
  ScPlan *const plan = &w->plan;
  plan->tp = MAX (p.tp, 1);
  plan->pp = MAX (p.pp, 1);
  plan->vpp = MAX (p.vpp, 1);
  plan->dp = MAX (p.dp, 1);
  plan->cp = plan->ep = 1;
  plan->etp = plan->tp;
  plan->gpus = plan->tp * plan->pp * plan->dp;
  plan->schedule = plan->pp == 1 ? "none" : plan->vpp == 1 ? "1f1b" : "interleaved";
  plan->microbatch_group = plan->pp;
  plan->micro_batch = 1;
  plan->global_batch = MAX (p.microbatches, 1) * plan->dp;
  plan->dtype = SC_DTYPE_BF16;
  plan->grad_dtype = SC_DTYPE_FP32;
  plan->sharding = p.sharding;
  plan->overlap_grad = p.overlap_grad;
  plan->overlap_param = p.overlap_param;
  plan->overlap_p2p = p.overlap_p2p;
  plan->sequence_parallel = p.sequence_parallel;
  plan->one_queue = p.one_queue;
  plan->bucket_params = p.bucket_params > 0 ? p.bucket_params : 40000000;
  plan->grad_sync = sc_sharding_row (p.sharding)->grad_sync;
  sc_zero_defaults (&plan->zero, w->framework);
  plan->rank_order = p.rank_order;
  return w;
}

static GArray *
pass (double seconds, double tp_bytes, ScTimeKind time, const char *name)
{
  GArray *const items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  if (seconds > 0)
    {
      const ScItem kernel = { .kind = SC_ITEM_KERNEL, .time = time,
                              .kernel = sc_kernel_memory (name, SC_KERNEL_ELEMENTWISE, seconds * 1e9) };
      g_array_append_val (items, kernel);
    }
  if (tp_bytes > 0)
    {
      const ScItem coll = { .kind = SC_ITEM_COLLECTIVE, .time = time, .coll = SC_COLL_ALL_REDUCE, .name = "tp", .bytes = tp_bytes };
      g_array_append_val (items, coll);
    }
  return items;
}

ScStepItems *
fix_items (double forward_s, double backward_s, double tp_bytes, double boundary_bytes)
{
  ScStepItems *const s = g_new0 (ScStepItems, 1);
  s->kinds = g_new0 (ScLayerKinds, 1); /* all layers are alike, whatever the model */
  s->kinds->n = 1;
  s->kinds->kinds = g_new0 (ScLayerKind, 1);
  s->kinds->of_layer = g_new0 (guint16, SC_INFO_NO_LAYER);
  s->layers = g_new0 (ScPassItems, 1);
  s->layers->pass[SC_PASS_FORWARD] = pass (forward_s, tp_bytes, SC_TIME_FORWARD, "layer");
  s->layers->pass[SC_PASS_BACKWARD] = pass (backward_s, tp_bytes, SC_TIME_BACKWARD, "layer backward");
  s->layers->pass[SC_PASS_INPUT] = pass (backward_s / 2, tp_bytes, SC_TIME_BACKWARD, "layer input gradient");
  s->layers->pass[SC_PASS_WEIGHT] = pass (backward_s / 2, 0, SC_TIME_BACKWARD, "layer weight gradient");
  for (guint i = 0; i < SC_N_PASSES; i++)
    {
      const ScTimeKind time = i == SC_PASS_FORWARD ? SC_TIME_FORWARD : SC_TIME_BACKWARD;
      s->embedding.pass[i] = pass (0, 0, time, "");
      s->head.pass[i] = pass (0, 0, time, "");
    }
  s->boundary_bytes = s->tensor_bytes = boundary_bytes;
  return s;
}

/* Stage, type and speed decide the program. */
static guint32 *
colours (const ScWorkload *w, const ScFabric *f)
{
  guint32 *const c = g_new (guint32, f->n_gpus);
  for (guint32 r = 0; r < f->n_gpus; r++)
    c[r] = sc_layout_coord (&w->plan, r).pp * 1000 + (guint32) (f->gpus[r].speed * 100);
  return c;
}

FixRun *
fix_run (const ScTopology *t, const ScWorkload *w, const ScStepItems *items, gboolean unfolded, guint blocks)
{
  FixRun *const r = g_new0 (FixRun, 1);
  r->fabric = sc_fabric_new (t, w->plan.gpus, NULL);
  g_assert (r->fabric != NULL);
  r->layout = sc_layout_new (w);
  r->sizes = sc_stage_sizes_new (w);
  g_autofree guint32 *colour = colours (w, r->fabric);
  g_autoptr (GArray) needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  do
    {
      if (r->lowered != NULL)
        g_array_append_vals (needs, r->lowered->needs->data, r->lowered->needs->len);
      sc_needs_sort (needs);
      g_clear_pointer (&r->lowered, sc_lowered_free);
      g_clear_pointer (&r->fold, sc_fold_free);
      g_clear_pointer (&r->loads, sc_loads_free);
      r->loads = sc_loads_new (r->layout, r->fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
      r->fold = sc_fold_new (r->layout, r->fabric, r->loads, colour, 0, unfolded);
      r->input = (ScLowerInput) { .workload = w, .fabric = r->fabric, .layout = r->layout, .loads = r->loads, .fold = r->fold, .items = items, .sizes = r->sizes,
                                  .blocks = blocks, .detail = SC_DETAIL_KERNEL };
      r->lowered = sc_lower (&r->input);
    }
  while (r->lowered->needs->len > 0);
  g_autoptr (GError) error = NULL;
  r->trace = sc_engine_run (r->lowered->program, &error);
  if (r->trace == NULL)
    g_error ("%s", error->message);
  return r;
}

void
fix_run_free (FixRun *r)
{
  if (r == NULL)
    return;
  sc_trace_free (r->trace);
  sc_lowered_free (r->lowered);
  sc_stage_sizes_free (r->sizes);
  sc_fold_free (r->fold);
  sc_loads_free (r->loads);
  sc_layout_free (r->layout);
  sc_fabric_free (r->fabric);
  g_free (r);
}

ScTime
fix_stream_end (const FixRun *r, guint32 actor, guint stream)
{
  const ScProgram *const p = r->lowered->program;
  const ScActor *const a = &g_array_index (p->actors, ScActor, actor);
  const guint32 last = g_array_index (p->last_on_stream, guint32, a->first_stream + stream);
  return last == SC_NONE ? 0 : r->trace->spans[last + sc_actor_shift (a)].end;
}
