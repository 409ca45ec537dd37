/* SPDX-License-Identifier: GPL-3.0-or-later */
/* describe.c - models, plans and jobs in one line each, and the words for their choices. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "describe.h"
#include "models/optimizer.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/sharding.h"
#include "units.h"

const char *
sc_sharding_word (ScSharding sharding)
{
  return sc_sharding_row (sharding)->name;
}

static void
append_modules (GString *out, guint modules)
{
  const char *sep = "modules:";
  for (guint i = 0; i < SC_N_MODULES; i++)
    if (modules & 1u << i)
      {
        g_string_append_printf (out, "%s%s", sep, sc_module_row ((ScModule) i)->name);
        sep = ",";
      }
}

static void
append_full (GString *out, const ScPlan *plan)
{
  if (plan->recompute_method == SC_RECOMPUTE_EVERY)
    g_string_append_printf (out, "every:%u", plan->recompute_layers);
  else if (plan->partial_microbatches == 0 && plan->recompute_method == SC_RECOMPUTE_BLOCK)
    g_string_append_printf (out, "full block:%u", plan->recompute_layers);
  else if (plan->partial_microbatches == 0 && plan->recompute_layers > 1)
    g_string_append_printf (out, "full uniform:%u", plan->recompute_layers);
  else
    g_string_append (out, "full");
}

char *
sc_recompute_text (const ScPlan *plan)
{
  GString *const out = g_string_new (NULL);
  switch (plan->recompute)
    {
    case SC_RECOMPUTE_NONE: g_string_append (out, "none"); break;
    case SC_RECOMPUTE_SELECTIVE: g_string_append (out, "selective"); break;
    case SC_RECOMPUTE_FULL: append_full (out, plan); break;
    case SC_RECOMPUTE_MODULES: append_modules (out, plan->recompute_modules); break;
    case SC_RECOMPUTE_OPS: g_string_append (out, "selective-op"); break;
    default: g_assert_not_reached ();
    }
  if (plan->partial_microbatches > 0)
    g_string_append_printf (out, " but for %u micro-batch%s in flight (%u layers a stage)", plan->partial_microbatches,
                            plan->partial_microbatches == 1 ? "" : "es", plan->recompute_layers);
  return g_string_free (out, FALSE);
}

const char *
sc_attention_word (ScAttention attention)
{
  switch (attention)
    {
    case SC_ATTENTION_FLASH: return "flash";
    case SC_ATTENTION_UNFUSED: return "unfused";
    default: g_return_val_if_reached ("");
    }
}

const char *
sc_cp_comm_word (ScCpComm comm)
{
  switch (comm)
    {
    case SC_CP_RING: return "p2p";
    case SC_CP_ALL_GATHER: return "all-gather";
    case SC_CP_A2A: return "a2a";
    case SC_CP_HIERARCHICAL: return "a2a+p2p";
    default: g_return_val_if_reached ("");
    }
}

const char *
sc_rank_order_word (ScRankOrder order)
{
  switch (order)
    {
    case SC_ORDER_TP_CP_EP_DP_PP: return "tp-cp-ep-dp-pp";
    case SC_ORDER_TP_CP_EP_PP_DP: return "tp-cp-ep-pp-dp";
    default: g_return_val_if_reached ("");
    }
}

const char *
sc_transport_word (ScTransport transport)
{
  static const char *const words[] = { "infiniband", "roce", "efa", "slingshot", "tcpx", "tcp" };
  G_STATIC_ASSERT (G_N_ELEMENTS (words) == SC_N_TRANSPORTS);
  g_return_val_if_fail (transport < SC_N_TRANSPORTS, "");
  return words[transport];
}

const char *
sc_routing_word (ScRouting routing)
{
  switch (routing)
    {
    case SC_ROUTING_IDEAL: return "ideal";
    case SC_ROUTING_ADAPTIVE: return "adaptive";
    case SC_ROUTING_ECMP: return "ecmp";
    default: g_return_val_if_reached ("");
    }
}

void
sc_describe_model (const ScWorkload *workload, GString *out)
{
  const ScModel *m = &workload->model;
  g_string_append_printf (out, "%u layers, hidden %u, %u heads", m->layers, m->hidden, m->heads);
  if (m->kv_heads != m->heads)
    g_string_append_printf (out, " (%u KV)", m->kv_heads);
  g_string_append_printf (out, " of %u, ffn %u%s, vocabulary %u%s", m->head_dim, m->ffn, m->gated_mlp ? " gated" : "",
                          m->vocab, m->tied_embeddings ? " tied" : "");
  if (m->experts == 0)
    return;
  g_string_append_printf (out, ", %u of %u experts", m->top_k, m->experts);
  if (m->shared_experts > 0)
    g_string_append_printf (out, " and %u shared", m->shared_experts);
  g_string_append_printf (out, " of %u", m->expert_ffn);
}

void
sc_describe_plan (const ScWorkload *workload, GString *out)
{
  const ScPlan *p = &workload->plan;
  g_string_append_printf (out, "TP %u%s", p->tp, p->sequence_parallel ? " + SP" : "");
  if (p->tp > workload->model.kv_heads)
    g_string_append_printf (out, " (each KV head on %u ranks)", p->tp / workload->model.kv_heads);
  if (p->pp > 1 && p->vpp > 1)
    g_string_append_printf (out, ", PP %u x %u chunks (%s)", p->pp, p->vpp, p->schedule);
  else if (p->pp > 1)
    g_string_append_printf (out, ", PP %u (%s)", p->pp, p->schedule);
  else
    g_string_append (out, ", PP 1");
  if (p->cp > 1 && p->cp_comm == SC_CP_HIERARCHICAL)
    g_string_append_printf (out, ", CP %u (a2a %u x p2p %u)", p->cp, p->cp_a2a, p->cp / p->cp_a2a);
  else if (p->cp > 1)
    g_string_append_printf (out, ", CP %u (%s)", p->cp, sc_cp_comm_word (p->cp_comm));
  if (p->ep > 1)
    g_string_append_printf (out, ", EP %u", p->ep);
  if (workload->model.experts > 0 && p->etp != p->tp)
    g_string_append_printf (out, ", ETP %u", p->etp);
  if (p->moe_dispatcher == SC_DISPATCHER_DEEPEP)
    g_string_append (out, " (DeepEP)");
  g_string_append_printf (out, ", DP %u", p->dp);
  if (p->sharding != SC_SHARDING_NONE)
    g_string_append_printf (out, " (%s%s%s)", sc_sharding_word (p->sharding), p->offload != SC_OFFLOAD_NONE ? ", offload " : "",
                            p->offload != SC_OFFLOAD_NONE ? sc_offload_word (p->offload) : "");
  g_autofree char *recompute = sc_recompute_text (p);
  g_string_append_printf (out, ", recompute %s, %s", recompute, sc_plan_dtype_name (p));
  if (p->precision != NULL && strcmp (p->precision->dtype, p->precision->recipe) != 0)
    g_string_append_printf (out, " (%s)", p->precision->recipe);
  if (p->fp8_param_gather)
    g_string_append (out, ", weights kept so");
  if (p->optimizer != SC_OPTIMIZER_ADAM)
    g_string_append_printf (out, ", %s", sc_optimizer_row (p->optimizer)->name);
}

void
sc_describe_batch (const ScSummary *summary, GString *out)
{
  const ScWorkload *w = summary->workload;
  g_autofree char *tokens = sc_format_count (summary->tokens_per_step);
  g_string_append_printf (out, "%u sequences of %u = %s tokens a step, %u micro-batch%s of %u per pipeline",
                          w->plan.global_batch, w->seq, tokens, summary->microbatches,
                          summary->microbatches == 1 ? "" : "es", w->plan.micro_batch);
}

void
sc_describe_hardware (const ScSummary *summary, GString *out)
{
  /* The kinds of GPU in the job, with how many ranks sit on each, in the order in which they turn up. */
  gboolean first = TRUE;
  for (guint i = 0; i < summary->n_classes; i++)
    {
      const ScDevice *device = summary->classes[i].device;
      guint ranks = 0;
      gboolean seen = FALSE;
      for (guint k = 0; k < summary->n_classes; k++)
        {
          seen |= k < i && summary->classes[k].device == device;
          ranks += summary->classes[k].device == device ? summary->classes[k].n_ranks : 0;
        }
      if (seen)
        continue;
      g_string_append_printf (out, "%s%u x %s", first ? "" : " + ", ranks, device != NULL ? device->name : "GPU");
      first = FALSE;
    }
  const ScTopology *t = summary->topology;
  if (summary->nodes == t->n_nodes)
    g_string_append_printf (out, ", %s%u node%s of %s", t->n_nodes == 1 ? "the " : "all ", t->n_nodes, t->n_nodes == 1 ? "" : "s", t->name);
  else
    g_string_append_printf (out, ", %u of the %u nodes of %s", summary->nodes, t->n_nodes, t->name);
}

void
sc_append_wrapped (GString *out, const char *text, guint column, guint indent, guint width)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  gboolean fresh = TRUE;
  for (char **word = words; *word != NULL; word++)
    {
      const guint n = (guint) g_utf8_strlen (*word, -1);
      if (!fresh && column + 1 + n > width)
        {
          g_string_append_printf (out, "\n%*s", (int) indent, "");
          column = indent;
          fresh = TRUE;
        }
      g_string_append_printf (out, "%s%s", fresh ? "" : " ", *word);
      column += n + (fresh ? 0 : 1);
      fresh = FALSE;
    }
}

void
sc_describe_job (const ScSummary *s, guint width, GString *out)
{
  g_autoptr (GString) line = g_string_new (s->workload->name);
  g_string_append (line, ": ");
  sc_describe_hardware (s, line);
  sc_append_wrapped (out, line->str, 0, 2, width);
  g_string_append (out, "\n  ");
  g_string_truncate (line, 0);
  sc_describe_plan (s->workload, line);
  sc_append_wrapped (out, line->str, 2, 2, width);
  g_string_append (out, "\n  ");
  g_string_truncate (line, 0);
  sc_describe_batch (s, line);
  sc_append_wrapped (out, line->str, 2, 2, width);
}

void
sc_trim_line (GString *out)
{
  while (out->len > 0 && out->str[out->len - 1] == ' ')
    g_string_truncate (out, out->len - 1);
  g_string_append_c (out, '\n');
}
