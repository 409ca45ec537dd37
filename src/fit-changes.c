/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit-changes.c - what can be changed in a plan so that it needs less memory: one row for each kind of change. */
#include "fit.h"
#include "models/recompute.h"
#include "models/sharding.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

void
sc_fit_change_free (ScFitChange *c)
{
  if (c == NULL)
    return;
  g_free (c->text);
  g_strfreev (c->set);
  g_free (c);
}

/* Makes the changes of one row. */
typedef struct
{
  GPtrArray *changes;
  const char *row;
  GPtrArray *set; /* of the change that is being made */
} Maker;

static void G_GNUC_PRINTF (2, 3)
put (Maker *m, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  if (m->set == NULL)
    m->set = g_ptr_array_new ();
  g_ptr_array_add (m->set, g_strdup_vprintf (format, args));
  va_end (args);
}

/* Ends the change whose keys were put.  @text: taken. */
static void
propose (Maker *m, char *text, guint ladder, gboolean in_pairs)
{
  ScFitChange *const c = g_new0 (ScFitChange, 1);
  g_ptr_array_add (m->set, NULL);
  c->text = text;
  c->set = (char **) g_ptr_array_free (g_steal_pointer (&m->set), FALSE);
  c->row = m->row;
  c->ladder = ladder;
  c->in_pairs = in_pairs;
  c->step_s = c->cost = NAN;
  g_ptr_array_add (m->changes, c);
}

static gboolean
is_framework (const ScWorkload *w, const char *prefix)
{
  return g_str_has_prefix (w->framework->name, prefix);
}

/* ---- The allocator ---- */

static void
propose_allocator (const ScFitInput *in, GPtrArray *changes)
{
  Maker m = { changes, "allocator", NULL };
  if (in->workload->plan.expandable_segments)
    return;
  put (&m, "plan.expandable_segments=true");
  propose (&m, g_strdup ("expandable segments"), 0, TRUE);
}

/* ---- Attention and norms ---- */

static void
propose_attention (const ScFitInput *in, GPtrArray *changes)
{
  Maker m = { changes, "attention", NULL };
  if (in->workload->plan.attention == SC_ATTENTION_FLASH)
    return;
  put (&m, "plan.attention=flash");
  propose (&m, g_strdup ("flash attention"), 0, TRUE);
}

static void
propose_sequence_parallel (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  Maker m = { changes, "sequence parallelism", NULL };
  if (p->sequence_parallel || p->tp == 1)
    return;
  put (&m, "plan.sequence_parallel=true");
  if (p->scatter_gather)
    put (&m, "plan.scatter_gather=false");
  propose (&m, g_strdup ("sequence parallelism"), 0, TRUE);
}

/* ---- Recompute ---- */

/* Keys that belong to the mode before. */
static void
drop_recompute_keys (Maker *m, const ScPlan *p)
{
  if (p->recompute_layers > 0 && p->recompute_method != SC_RECOMPUTE_EVERY)
    put (m, "plan.recompute_layers=null");
  if (p->recompute_method == SC_RECOMPUTE_BLOCK)
    put (m, "plan.recompute_method=null");
  if (p->partial_microbatches > 0)
    put (m, "plan.partial_microbatches=null");
}

static void
propose_mode (Maker *m, const ScPlan *p, const char *value, const char *text)
{
  put (m, "plan.recompute=%s", value);
  drop_recompute_keys (m, p);
  propose (m, g_strdup (text), 0, TRUE);
}

/* Parts of a layer by Megatron's names, on top of those that are recomputed already. */
static void
propose_modules (Maker *m, const ScPlan *p, guint modules)
{
  const guint now = p->recompute == SC_RECOMPUTE_MODULES ? p->recompute_modules : p->recompute == SC_RECOMPUTE_SELECTIVE ? 1u << SC_MODULE_CORE_ATTN : 0;
  const guint then = now | modules;
  g_autoptr (GString) names = g_string_new (NULL);
  if (then == now)
    return;
  for (guint i = 0; i < SC_N_MODULES; i++)
    if (then & 1u << i)
      g_string_append_printf (names, "%s%s", names->len > 0 ? "," : "", sc_module_row ((ScModule) i)->name);
  put (m, "plan.recompute=modules:%s", names->str);
  drop_recompute_keys (m, p);
  for (char *at = strchr (names->str, ','); at != NULL; at = strchr (at, ','))
    g_string_insert_c (names, ++at - names->str, ' ');
  propose (m, g_strdup_printf ("recompute of %s", names->str), 0, TRUE);
}

static void
propose_all_modules (Maker *m, const ScWorkload *w)
{
  const ScModel *const model = &w->model;
  const guint core = 1u << SC_MODULE_CORE_ATTN, norm = 1u << SC_MODULE_LAYERNORM, mla = 1u << SC_MODULE_MLA_UP_PROJ;
  const guint act = 1u << (model->experts > 0 ? SC_MODULE_MOE_ACT : SC_MODULE_MLP_ACT), mlp = 1u << (model->experts > 0 ? SC_MODULE_MOE : SC_MODULE_MLP);
  const guint cheap = model->mla.kv_lora_rank > 0 ? norm | act | mla : norm | act;
  propose_modules (m, &w->plan, act);
  propose_modules (m, &w->plan, cheap);
  propose_modules (m, &w->plan, cheap | core);
  propose_modules (m, &w->plan, norm | mlp);
  propose_modules (m, &w->plan, norm | mlp | core);
}

/* All of the first layers of each virtual stage. */
static void
propose_blocks (Maker *m, const ScWorkload *w)
{
  const ScPlan *const p = &w->plan;
  const guint from = p->recompute == SC_RECOMPUTE_FULL && p->recompute_method == SC_RECOMPUTE_BLOCK ? p->recompute_layers + 1 : 1;
  g_autofree guint *layers = sc_workload_stage_layers (w);
  guint most = 0;
  for (guint i = 0; i < p->pp * p->vpp; i++)
    most = MAX (most, layers[i]);
  for (guint n = from; n < most; n++)
    {
      put (m, "plan.recompute=full");
      put (m, "plan.recompute_method=block");
      put (m, "plan.recompute_layers=%u", n);
      if (p->partial_microbatches > 0)
        put (m, "plan.partial_microbatches=null");
      propose (m, g_strdup_printf ("full recompute of %u of %u layers%s", n, most, p->vpp > 1 ? " of each chunk" : p->pp > 1 ? " of each stage" : ""), 1, n == (from + most) / 2);
    }
}

static void
propose_recompute (const ScFitInput *in, GPtrArray *changes)
{
  const ScWorkload *const w = in->workload;
  const ScPlan *const p = &w->plan;
  const gboolean megatron = is_framework (w, "megatron");
  Maker m = { changes, "recompute", NULL };
  if (p->recompute == SC_RECOMPUTE_FULL && p->recompute_method == SC_RECOMPUTE_UNIFORM && p->partial_microbatches == 0)
    return;
  if (p->recompute == SC_RECOMPUTE_NONE)
    propose_mode (&m, p, "selective", "selective recompute (attention core)");
  if (p->recompute != SC_RECOMPUTE_OPS && p->recompute != SC_RECOMPUTE_FULL && is_framework (w, "torchtitan"))
    propose_mode (&m, p, "selective-op", "selective recompute by operator");
  if (p->recompute != SC_RECOMPUTE_FULL && p->recompute != SC_RECOMPUTE_OPS && is_framework (w, "megatron-core"))
    propose_all_modules (&m, w);
  if (megatron && (p->recompute != SC_RECOMPUTE_FULL || p->recompute_method == SC_RECOMPUTE_BLOCK))
    propose_blocks (&m, w);
  if (!megatron && p->recompute != SC_RECOMPUTE_FULL)
    propose_mode (&m, p, "every:2", "full recompute of every second layer");
  propose_mode (&m, p, "full", "full recompute");
}

/* ---- Micro-batch ---- */

static void
propose_micro_batch (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  const guint each = p->global_batch / p->dp; /* sequences of one replica */
  Maker m = { changes, "micro-batch", NULL };
  for (guint b = p->micro_batch - 1; b >= 1; b--)
    {
      if (each % b != 0)
        continue;
      put (&m, "plan.micro_batch=%u", b);
      propose (&m, g_strdup_printf ("micro-batch %u", b), 2, b == 1 || b == p->micro_batch / 2);
    }
}

/* ---- Data-parallel sharding ---- */

/* What the code of a framework can do; the names begin so. */
static const struct
{
  const char *framework;
  ScSharding known[4]; /* NONE-ended, from little to much */
} shardings_of[] = {
  { "megatron-deepspeed", { SC_SHARDING_ZERO1, SC_SHARDING_ZERO2, SC_SHARDING_ZERO3 } },
  { "megatron", { SC_SHARDING_DISTRIBUTED_OPTIMIZER } },
  { "deepspeed", { SC_SHARDING_ZERO1, SC_SHARDING_ZERO2, SC_SHARDING_ZERO3 } },
  { "nanotron", { SC_SHARDING_ZERO1 } },
  { "", { SC_SHARDING_FSDP_GRAD_OP, SC_SHARDING_FSDP_FULL } },
};

/* What data-parallel ranks share out: nothing, optimizer states, gradients too, weights too. */
static guint
strength (ScSharding sharding)
{
  const ScShardingRow *const row = sc_sharding_row (sharding);
  return row->weights ? 3 : row->grads ? 2 : row->optimizer ? 1 : 0;
}

static void
propose_sharding (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  guint i = 0;
  Maker m = { changes, "sharding", NULL };
  while (!is_framework (in->workload, shardings_of[i].framework))
    i++;
  for (const ScSharding *s = shardings_of[i].known; *s != SC_SHARDING_NONE; s++)
    {
      if (strength (*s) <= strength (p->sharding))
        continue;
      put (&m, "plan.sharding=%s", sc_sharding_row (*s)->name);
      propose (&m, g_strdup_printf ("sharding %s", sc_sharding_row (*s)->name), 0, TRUE);
    }
}

/* ---- Ways to split the model ---- */

#define MOST_TIMES 4 /* how far sizes but TP may grow at once */

/* DP follows, so that the GPUs stay; FALSE: they do not divide. */
static gboolean
put_replicas (Maker *m, const ScPlan *p, guint times)
{
  if (p->dp % times != 0)
    return FALSE;
  put (m, "plan.dp=%u", p->dp / times);
  return TRUE;
}

static void
propose_tp (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  const ScNodeType *const node = sc_topology_node_type (in->topology, in->topology->first_node);
  const guint most = node->gpus * MAX (node->nvlink_domain_nodes, 1); /* beyond, TP crosses the network */
  Maker m = { changes, "tensor parallelism", NULL };
  for (guint times = 2; times <= 8 && p->tp * times <= most; times *= 2)
    {
      if (!put_replicas (&m, p, times))
        continue;
      put (&m, "plan.tp=%u", p->tp * times);
      if (p->tp == 1)
        put (&m, "plan.sequence_parallel=true");
      propose (&m, g_strdup_printf ("TP %u%s, DP %u", p->tp * times, p->sequence_parallel || p->tp == 1 ? " + SP" : "", p->dp / times), 0, TRUE);
    }
}

/* Stages get shorter: of @vpp chunks each. */
static void
propose_stages (Maker *m, const ScPlan *p, guint times, guint vpp)
{
  if (!put_replicas (m, p, times))
    return;
  put (m, "plan.pp=%u", p->pp * times);
  if (vpp != p->vpp)
    put (m, "plan.vpp=%u", vpp);
  if (p->pp == 1 || (vpp == 1 && p->vpp > 1))
    put (m, "plan.schedule=1f1b");
  if (vpp * times != p->vpp && p->stage_layers != NULL)
    put (m, p->pipeline_layout != NULL ? "plan.pipeline_layout=null" : "plan.stage_layers=null");
  g_autofree char *chunks = vpp > 1 ? g_strdup_printf (" x %u chunks", vpp) : g_strdup ("");
  propose (m, g_strdup_printf ("PP %u%s, DP %u", p->pp * times, chunks, p->dp / times), 0, TRUE);
}

static void
propose_pp (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  Maker m = { changes, "pipeline parallelism", NULL };
  for (guint times = 2; times <= MOST_TIMES; times *= 2)
    {
      if (p->vpp > 1 && p->vpp % times == 0) /* the same virtual stages on more ranks */
        propose_stages (&m, p, times, p->vpp / times);
      propose_stages (&m, p, times, p->vpp);
    }
}

static void
propose_cp (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  Maker m = { changes, "context parallelism", NULL };
  for (guint times = 2; times <= MOST_TIMES; times *= 2)
    {
      if (!put_replicas (&m, p, times))
        continue;
      put (&m, "plan.cp=%u", p->cp * times);
      propose (&m, g_strdup_printf ("CP %u, DP %u", p->cp * times, p->dp / times), 0, TRUE);
    }
}

static void
propose_ep (const ScFitInput *in, GPtrArray *changes)
{
  const ScPlan *const p = &in->workload->plan;
  Maker m = { changes, "expert parallelism", NULL };
  for (guint times = 2; times <= MOST_TIMES && p->ep * times <= in->workload->model.experts; times *= 2)
    {
      put (&m, "plan.ep=%u", p->ep * times);
      propose (&m, g_strdup_printf ("EP %u", p->ep * times), 0, TRUE);
    }
}

/* ---- Host memory ---- */

static void
propose_offload (const ScFitInput *in, GPtrArray *changes)
{
  static const struct
  {
    ScOffload what;
    const char *text;
  } all[] = {
    { SC_OFFLOAD_OPTIMIZER, "optimizer states in host memory" },
    { SC_OFFLOAD_PARAMS, "weights in host memory" },
    { SC_OFFLOAD_BOTH, "optimizer states and weights in host memory" },
    { SC_OFFLOAD_ACTIVATIONS, "activations in host memory" },
  };
  const ScPlan *const p = &in->workload->plan;
  Maker m = { changes, "offload", NULL };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      const guint then = p->offload | all[i].what;
      if (then == p->offload)
        continue;
      put (&m, "plan.offload=%s", sc_offload_word ((ScOffload) then));
      propose (&m, g_strdup (all[i].text), 0, TRUE);
    }
}

/* ---- The table ---- */

const ScFitRow *const *
sc_fit_rows (void)
{
  static const ScFitRow rows[] = {
    { "allocator", "PyTorch's allocator with expandable segments", propose_allocator },
    { "attention", "flash attention in place of attention that keeps its scores", propose_attention },
    { "sequence parallelism", "norms and residuals split over the tensor-parallel ranks", propose_sequence_parallel },
    { "recompute", "more of a layer, or more layers, computed again in backward", propose_recompute },
    { "micro-batch", "fewer sequences at once, the global batch stays", propose_micro_batch },
    { "sharding", "the next ZeRO stage, a distributed optimizer, FSDP", propose_sharding },
    { "tensor parallelism", "inside of an NVLink domain, the GPUs stay", propose_tp },
    { "pipeline parallelism", "the same virtual stages on more ranks, or more of them; the GPUs stay", propose_pp },
    { "context parallelism", "the GPUs stay", propose_cp },
    { "expert parallelism", "the GPUs stay", propose_ep },
    { "offload", "optimizer states, weights or activations in host memory", propose_offload },
  };
  static const ScFitRow *const all[] = { &rows[0], &rows[1], &rows[2], &rows[3], &rows[4], &rows[5], &rows[6], &rows[7], &rows[8], &rows[9], &rows[10], NULL };
  return all;
}
