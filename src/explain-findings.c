/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain-findings.c - what the numbers say, in sentences: one function for each thing that slows steps or fills memory. */
#include "explain.h"
#include "models/sharding.h"
#include "units.h"
#include <math.h>
#include <string.h>

#define WORTH 0.03 /* share of the step below which nothing is said of time */

/* Share of the step, mean over the stages. */
static double
share (const ScSummary *s, ScTimeKind kind)
{
  double sum = 0;
  for (guint i = 0; i < s->n_stages; i++)
    sum += (double) s->stages[i].time[kind];
  return sum / (double) s->n_stages / (double) s->step;
}

/* Whether bytes of @kind crossed NICs. */
static gboolean
crosses_nodes (const ScSummary *s, ScTimeKind kind)
{
  for (guint i = 0; s->links != NULL && i < s->links->n_rows; i++)
    {
      const ScLinkSummary *const l = &s->links->rows[i];
      if (l->bytes[kind] > 0 && (l->of_kind[SC_LINK_NIC_OUT] > 0 || l->of_kind[SC_LINK_NIC_IN] > 0))
        return TRUE;
    }
  return FALSE;
}

/* Whether all nodes of the job have NVLink. */
static gboolean
has_nvlink (const ScSummary *s)
{
  for (guint i = 0; i < s->n_classes; i++)
    if (!sc_topology_node_type (s->topology, s->classes[i].node)->has_nvlink)
      return FALSE;
  return TRUE;
}

static double
worth_of (const ScExplain *e, const char *set)
{
  for (guint i = 0; i < e->n_what_ifs; i++)
    if (g_str_has_prefix (e->what_ifs[i].row->set, set))
      return e->what_ifs[i].gain;
  return 0;
}

static void G_GNUC_PRINTF (2, 3)
say (GPtrArray *out, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_ptr_array_add (out, g_strdup_vprintf (format, args));
  va_end (args);
}

/* ---- Time ---- */

static void
find_communication (const ScExplain *e, GPtrArray *out)
{
  static const struct
  {
    ScTimeKind kind;
    const char *what; /* is waited for */
  } rows[] = {
    { SC_TIME_COMM_TP, "tensor-parallel collectives of every layer" },
    { SC_TIME_COMM_CP, "what attention needs of the other context-parallel ranks" },
    { SC_TIME_COMM_EP, "tokens sent to experts and back" },
    { SC_TIME_COMM_PP, "boundary tensors between stages" },
    { SC_TIME_COMM_DP, "gradients or weights of the data-parallel ranks" },
  };
  const ScSummary *const s = e->summary;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const double part = share (s, rows[i].kind);
      if (part < WORTH)
        continue;
      const gboolean network = crosses_nodes (s, rows[i].kind);
      g_autofree char *group = g_ascii_strup (sc_time_kind_group (rows[i].kind), -1);
      if (!network && !has_nvlink (s))
        {
          say (out, "%.1f %% of the step is exposed %s, waiting for %s. They stay inside the nodes, on PCIe.", 100 * part, group, rows[i].what);
          continue;
        }
      say (out, "%.1f %% of the step is exposed %s, waiting for %s. They %s; %s twice as fast would save %.1f %% of the step.", 100 * part,
           group, rows[i].what, network ? "go through NICs to other nodes" : "stay inside the nodes",
           network ? "NICs and network" : "NVLink", 100 * worth_of (e, network ? "device.scale.nic" : "device.scale.nvlink"));
    }
}

/* Why there is so much of it, where weights are shared out. */
static void
find_gathers (const ScExplain *e, GPtrArray *out)
{
  const ScSummary *const s = e->summary;
  const ScPlan *const p = &s->workload->plan;
  const ScShardingRow *const row = sc_sharding_row (p->sharding);
  if (!row->weights || share (s, SC_TIME_COMM_DP) < WORTH)
    return;
  const gboolean twice = p->sharding == SC_SHARDING_FSDP_FULL || p->sharding == SC_SHARDING_ZERO3, each = p->grad_sync == SC_GRAD_SYNC_EVERY;
  say (out, "With %s each layer's weights are gathered for forward%s, and its gradients reduced%s: %s what a rank's layers weigh, through the slowest link of the group. "
            "Fewer and larger micro-batches, %s or weaker sharding move less.",
       row->name, twice ? " and again for backward" : "", each ? "" : " at the end of the step",
       twice && each ? "for every micro-batch three times" : twice ? "for every micro-batch twice, and once a step," : "once or twice a micro-batch",
       p->sharding == SC_SHARDING_ZERO3 ? "a second copy shared inside a node (plan.zero.hpz)" : "shards inside a node (plan.shard_group)");
}

static void
find_bubble (const ScExplain *e, GPtrArray *out)
{
  const ScSummary *const s = e->summary;
  const ScPlan *const p = &s->workload->plan;
  const double part = share (s, SC_TIME_BUBBLE);
  if (part < WORTH || s->n_stages == 1)
    return;
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (text, "%.1f %% of the step is bubble: %u stages%s with %u micro-batches", 100 * part, p->pp, p->vpp > 1 ? " of several chunks" : "", s->microbatches);
  if (s->bubble_fraction_ideal > 0)
    g_string_append_printf (text, "; equal stages without communication would have %.1f %%", 100 * s->bubble_fraction_ideal);
  ScTime busiest = 0, sum = 0;
  guint slowest = 0;
  for (guint i = 0; i < s->n_stages; i++)
    {
      const ScTime *const t = s->stages[i].time;
      const ScTime busy = t[SC_TIME_FORWARD] + t[SC_TIME_BACKWARD] + t[SC_TIME_WEIGHT] + t[SC_TIME_RECOMPUTE];
      slowest = busy > busiest ? i : slowest;
      busiest = MAX (busiest, busy);
      sum += busy;
    }
  const double excess = (double) busiest * s->n_stages / (double) sum - 1;
  if (excess >= WORTH)
    g_string_append_printf (text, ". Stage %u works %.1f %% longer than the mean, and the others wait for it with every micro-batch", slowest, 100 * excess);
  say (out, "%s.", text->str);
}

/* What recompute is for, by what the plan without it comes to. */
static const char *
recompute_reason (const ScExplain *e)
{
  if (e->summary->verdict == SC_VERDICT_DOES_NOT_FIT)
    return ", and yet the plan does not fit";
  for (guint i = 0; i < e->changes->len; i++)
    {
      const ScPlanChange *const c = g_ptr_array_index (e->changes, i);
      if (g_strv_contains ((const char *const *) c->set, "plan.recompute=none"))
        return c->verdict == SC_VERDICT_DOES_NOT_FIT ? "; without that the plan would not fit" : "; the plan would fit without it";
    }
  return "";
}

static void
find_rest (const ScExplain *e, GPtrArray *out)
{
  const ScSummary *const s = e->summary;
  const double host = share (s, SC_TIME_HOST), recompute = share (s, SC_TIME_RECOMPUTE), late = share (s, SC_TIME_LATE_PEER), optimizer = share (s, SC_TIME_OPTIMIZER);
  if (host >= WORTH)
    say (out, "For %.1f %% of the step GPUs wait for the host to issue kernels: work between launches is short. Larger micro-batches%s help.",
         100 * host, s->workload->plan.cuda_graphs ? "" : " or captured passes (plan.cuda_graphs)");
  if (recompute >= WORTH)
    say (out, "%.1f %% of the step recomputes activations%s.", 100 * recompute, recompute_reason (e));
  if (late >= WORTH)
    say (out, "%.1f %% of the step waits for peers that come late to collectives: ranks differ in work or hardware.", 100 * late);
  if (optimizer >= WORTH)
    say (out, "%.1f %% of the step is the optimizer: the states of %s parameters on each rank go through memory once a step, so a small batch feels them.", 100 * optimizer,
         s->workload->plan.sharding == SC_SHARDING_NONE ? "all its" : "its share of");
}

/* ---- Memory ---- */

static double
in_gib (guint64 bytes)
{
  return (double) bytes / (1024.0 * 1024 * 1024);
}

/* What more replicas take away, and what they leave. */
static void
find_memory (const ScExplain *e, GPtrArray *out)
{
  const ScSummary *const s = e->summary;
  const ScClassSummary *const c = &s->classes[s->memory_class];
  const guint64 states = c->at_peak[SC_MEM_WEIGHTS] + c->at_peak[SC_MEM_GRADS] + c->at_peak[SC_MEM_OPTIMIZER];
  const guint64 rest = c->peak_allocated_bytes - states;
  const gboolean shared = s->workload->plan.sharding != SC_SHARDING_NONE;
  say (out, "At the peak of stage %u, the fullest, %.1f GiB are weights, gradients and optimizer states, %.1f GiB activations and what else micro-batches need. More replicas %s "
            "the first; the second hangs on micro-batch, sequence, TP, CP, PP and recompute%s.",
       c->stage, in_gib (states), in_gib (rest), shared ? "can only share out" : "take nothing away; with sharding (stepcast list shardings) they would share out",
       s->n_stages > 1 && s->microbatches <= 2 * s->n_stages ? ", and on how many micro-batches are in flight" : ", not on them");
}

static void
find_uneven_memory (const ScExplain *e, GPtrArray *out)
{
  const ScSummary *const s = e->summary;
  const char *const schedule = s->workload->plan.schedule;
  if (s->n_stages < 2 || s->stages[0].layers > s->stages[s->n_stages - 1].layers || (strcmp (schedule, "1f1b") != 0 && strcmp (schedule, "interleaved") != 0))
    return;
  const ScClassSummary *const a = &s->classes[s->stages[0].class_id], *const b = &s->classes[s->stages[s->n_stages - 1].class_id];
  const double first = in_gib (a->at_peak[SC_MEM_ACTIVATIONS]), last = in_gib (b->at_peak[SC_MEM_ACTIVATIONS]);
  if (first > 1.1 * last && first - last > 0.01 * in_gib (a->capacity_bytes))
    say (out, "Stage 0 keeps %.1f GiB of activations, stage %u %.1f GiB: the first stage has the most micro-batches in flight before its first backward, the last one the fewest.",
         first, s->n_stages - 1, last);
}

GPtrArray *
sc_explain_findings (const ScExplain *e)
{
  GPtrArray *const out = g_ptr_array_new_with_free_func (g_free);
  find_communication (e, out);
  find_gathers (e, out);
  find_bubble (e, out);
  find_rest (e, out);
  find_memory (e, out);
  find_uneven_memory (e, out);
  return out;
}
