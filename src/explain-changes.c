/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain-changes.c - what of a plan can be changed so that a step takes less time: one row for each kind of change.  Batch and GPUs stay.
 * What cannot be is refused by the workload's own rules, so nothing is checked here that they check. */
#include "explain.h"
#include <stdarg.h>
#include <string.h>

#define MOST_CHUNKS 12

/* Appends a change: @text, taken, and its keys, NULL-ended strings, taken. */
static void
propose_keys (GPtrArray *changes, char *text, GPtrArray *keys)
{
  ScPlanChange *const c = g_new0 (ScPlanChange, 1);
  g_ptr_array_add (keys, NULL);
  c->text = text;
  c->set = (char **) g_ptr_array_free (keys, FALSE);
  g_ptr_array_add (changes, c);
}

/* The same with one key. */
static void
propose (GPtrArray *changes, char *text, const char *key)
{
  GPtrArray *const keys = g_ptr_array_new ();
  g_ptr_array_add (keys, g_strdup (key));
  propose_keys (changes, text, keys);
}

static void G_GNUC_PRINTF (2, 3)
put (GPtrArray *keys, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_ptr_array_add (keys, g_strdup_vprintf (format, args));
  va_end (args);
}

/* ---- Overlap ---- */

static void
propose_overlap (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (!p->overlap_grad && p->dp > 1)
    propose (changes, g_strdup ("gradients reduced under the backward"), "plan.overlap_grad=true");
  if (!p->overlap_param && p->dp > 1)
    propose (changes, g_strdup ("parameters gathered under the forward"), "plan.overlap_param=true");
  if (!p->overlap_p2p && p->pp > 1)
    propose (changes, g_strdup ("transfers between stages under compute"), "plan.overlap_p2p=true");
  if (!p->tp_overlap && p->tp > 1)
    propose (changes, g_strdup ("TP collectives under their products, in chunks"), "plan.tp_overlap=true");
}

/* ---- Memory spent on time ---- */

static void
propose_attention (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  if (w->plan.attention != SC_ATTENTION_FLASH)
    propose (changes, g_strdup ("flash attention"), "plan.attention=flash");
  if (w->plan.sequence_parallel || w->plan.tp == 1)
    return;
  GPtrArray *const keys = g_ptr_array_new ();
  put (keys, "plan.sequence_parallel=true");
  put (keys, "plan.scatter_gather=false");
  propose_keys (changes, g_strdup ("sequence parallelism"), keys);
}

/* Keys of the mode before give way. */
static void
propose_recompute (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  static const char *const modes[] = { "none", "selective" }, *const words[] = { "no recompute", "selective recompute (attention core)" };
  if (p->recompute == SC_RECOMPUTE_NONE)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.recompute=%s", modes[i]);
      if (p->recompute_layers > 0)
        put (keys, "plan.recompute_layers=null");
      if (p->recompute_method == SC_RECOMPUTE_BLOCK)
        put (keys, "plan.recompute_method=null");
      if (p->partial_microbatches > 0)
        put (keys, "plan.partial_microbatches=null");
      propose_keys (changes, g_strdup (words[i]), keys);
    }
}

/* ---- Batch ---- */

static void
propose_micro_batch (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  const guint each = p->global_batch / p->dp; /* sequences of one replica */
  for (guint b = 1; b <= 4 * p->micro_batch && b <= each; b++)
    if (b != p->micro_batch && each % b == 0 && (b % p->micro_batch == 0 || p->micro_batch % b == 0))
      {
        GPtrArray *const keys = g_ptr_array_new ();
        put (keys, "plan.micro_batch=%u", b);
        propose_keys (changes, g_strdup_printf ("micro-batch %u", b), keys);
      }
}

/* ---- The pipeline ---- */

static void
propose_chunks (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (p->pp == 1 || (strcmp (p->schedule, "1f1b") != 0 && strcmp (p->schedule, "interleaved") != 0) || p->stage_layers != NULL)
    return;
  for (guint v = 1; v * p->pp <= w->model.layers && v <= MOST_CHUNKS; v++)
    {
      if (v == p->vpp || w->model.layers % (v * p->pp) != 0)
        continue;
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.vpp=%u", v);
      put (keys, "plan.schedule=%s", v == 1 ? "1f1b" : "interleaved");
      if (v == 1 && p->overlap_p2p)
        put (keys, "plan.overlap_p2p=false");
      propose_keys (changes, v == 1 ? g_strdup ("1F1B, one chunk a stage") : g_strdup_printf ("interleaved, %u chunks a stage", v), keys);
    }
}

static void
propose_schedule (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  static const char *const rows[] = { "zb-h1", "zb-1p", "zb-2p" };
  for (guint i = 0; i < G_N_ELEMENTS (rows) && p->pp > 1 && p->vpp == 1; i++)
    {
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.schedule=%s", rows[i]);
      propose_keys (changes, g_strdup_printf ("schedule %s: weight gradients in the bubble", rows[i]), keys);
    }
}

/* ---- Degrees: replicas take what is left ---- */

static guint64
ranks_of (const ScPlan *p)
{
  return (guint64) p->dp * p->cp * p->tp * p->pp;
}

/* TP @tp, PP @pp, CP @cp and as many replicas as the GPUs are enough for.  @text: taken. */
static void
propose_degrees (const ScWorkload *w, guint tp, guint pp, guint cp, char *text, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  const guint64 one = (guint64) tp * pp * cp;
  if (ranks_of (p) % one != 0 || p->stage_layers != NULL)
    {
      g_free (text);
      return;
    }
  GPtrArray *const keys = g_ptr_array_new ();
  put (keys, "plan.dp=%" G_GUINT64_FORMAT, ranks_of (p) / one);
  if (tp != p->tp)
    put (keys, "plan.tp=%u", tp);
  if (pp != p->pp)
    put (keys, "plan.pp=%u", pp);
  if (cp != p->cp)
    put (keys, "plan.cp=%u", cp);
  if (tp == 1 && p->sequence_parallel)
    put (keys, "plan.sequence_parallel=false");
  if (pp == 1 && p->pp > 1)
    {
      put (keys, "plan.schedule=none");
      put (keys, "plan.vpp=1");
      if (p->overlap_p2p)
        put (keys, "plan.overlap_p2p=false");
    }
  propose_keys (changes, text, keys);
}

static void
propose_tp (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (p->tp % 2 == 0)
    propose_degrees (w, p->tp / 2, p->pp, p->cp, g_strdup_printf ("TP %u, twice the replicas", p->tp / 2), changes);
  propose_degrees (w, p->tp * 2, p->pp, p->cp, g_strdup_printf ("TP %u, half the replicas", p->tp * 2), changes);
  if (p->tp % 2 == 0)
    propose_degrees (w, p->tp / 2, p->pp * 2, p->cp, g_strdup_printf ("TP %u, PP %u", p->tp / 2, p->pp * 2), changes);
  if (p->pp % 2 == 0)
    propose_degrees (w, p->tp * 2, p->pp / 2, p->cp, g_strdup_printf ("TP %u, PP %u", p->tp * 2, p->pp / 2), changes);
}

static void
propose_pp (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (p->pp % 2 == 0)
    propose_degrees (w, p->tp, p->pp / 2, p->cp, g_strdup_printf ("PP %u, twice the replicas", p->pp / 2), changes);
  if (p->pp > 1)
    propose_degrees (w, p->tp, p->pp * 2, p->cp, g_strdup_printf ("PP %u, half the replicas", p->pp * 2), changes);
}

static void
propose_cp (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (p->cp > 1 && p->cp % 2 == 0)
    propose_degrees (w, p->tp, p->pp, p->cp / 2, g_strdup_printf ("CP %u, twice the replicas", p->cp / 2), changes);
}

static void
propose_ep (const ScWorkload *w, const ScTopology *t G_GNUC_UNUSED, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  if (w->model.experts == 0)
    return;
  for (guint half = 0; half < 2; half++)
    {
      if (half == 1 && p->ep % 2 != 0)
        continue;
      const guint ep = half == 1 ? p->ep / 2 : p->ep * 2;
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.ep=%u", ep);
      propose_keys (changes, g_strdup_printf ("EP %u", ep), keys);
    }
}

static void
propose_sharding (const ScWorkload *w, const ScTopology *t, GPtrArray *changes)
{
  const ScPlan *const p = &w->plan;
  const guint node = t->types[0].gpus;
  if (p->sharding == SC_SHARDING_FSDP_FULL && p->shard_group == 0 && p->dp > node && node > 1)
    {
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.shard_group=%u", node);
      propose_keys (changes, g_strdup ("shards inside a node, replicas across (HSDP)"), keys);
    }
  if (p->sharding == SC_SHARDING_ZERO3 && p->zero.hpz == 0 && p->dp > node && node > 1)
    {
      GPtrArray *const keys = g_ptr_array_new ();
      put (keys, "plan.zero.hpz=%u", node);
      propose_keys (changes, g_strdup ("a second copy shared inside a node (hpZ)"), keys);
    }
  const gboolean megatron = g_str_has_prefix (w->framework->name, "megatron-core");
  if (p->sharding == SC_SHARDING_FSDP_FULL)
    propose (changes, g_strdup ("layers stay gathered between forward and backward"), "plan.sharding=fsdp-grad-op");
  if (p->sharding == SC_SHARDING_ZERO3)
    propose (changes, g_strdup ("weights on every rank (ZeRO-2)"), "plan.sharding=zero2");
  if (p->sharding == SC_SHARDING_ZERO2 || p->sharding == SC_SHARDING_ZERO3)
    propose (changes, g_strdup ("weights and gradients on every rank (ZeRO-1)"), "plan.sharding=zero1");
  if (p->sharding == SC_SHARDING_NONE && megatron && p->dp > 1)
    propose (changes, g_strdup ("distributed optimizer"), "plan.sharding=distributed-optimizer");
  if (p->offload != SC_OFFLOAD_NONE)
    propose (changes, g_strdup ("nothing in host memory"), "plan.offload=none");
}

const ScChangeRow *const *
sc_change_rows (void)
{
  static const ScChangeRow overlap = { "overlap", "Communication under compute", propose_overlap };
  static const ScChangeRow attention = { "attention", "Flash attention, sequence parallelism", propose_attention };
  static const ScChangeRow recompute = { "recompute", "Less of it", propose_recompute };
  static const ScChangeRow micro_batch = { "micro-batch", "Half, twice, up to four times as many sequences at once", propose_micro_batch };
  static const ScChangeRow chunks = { "chunks", "Interleaving: chunks that divide the layers", propose_chunks };
  static const ScChangeRow schedule = { "schedule", "Zero-bubble schedules", propose_schedule };
  static const ScChangeRow tp = { "TP", "Half or twice as much, for replicas or stages", propose_tp };
  static const ScChangeRow pp = { "PP", "Half or twice as many stages, for replicas", propose_pp };
  static const ScChangeRow cp = { "CP", "Half as much, for replicas", propose_cp };
  static const ScChangeRow ep = { "EP", "Half or twice as much", propose_ep };
  static const ScChangeRow sharding = { "sharding", "Less gathered, nothing offloaded", propose_sharding };
  static const ScChangeRow *const rows[] = { &overlap, &attention, &recompute, &micro_batch, &chunks, &schedule, &tp, &pp, &cp, &ep, &sharding, NULL };
  return rows;
}
