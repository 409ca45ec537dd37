/* SPDX-License-Identifier: GPL-3.0-or-later */
/* describe.c - models, plans and jobs in one line each, and the words for their choices. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "describe.h"
#include "units.h"

const char *
sc_sharding_word (ScSharding sharding)
{
  switch (sharding)
    {
    case SC_SHARDING_NONE: return "none";
    case SC_SHARDING_ZERO1: return "zero1";
    case SC_SHARDING_DISTRIBUTED_OPTIMIZER: return "distributed-optimizer";
    default: g_return_val_if_reached ("");
    }
}

const char *
sc_recompute_word (ScRecompute recompute)
{
  switch (recompute)
    {
    case SC_RECOMPUTE_NONE: return "none";
    case SC_RECOMPUTE_SELECTIVE: return "selective";
    case SC_RECOMPUTE_FULL: return "full";
    default: g_return_val_if_reached ("");
    }
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
  if (p->cp > 1)
    g_string_append_printf (out, ", CP %u", p->cp);
  if (p->ep > 1)
    g_string_append_printf (out, ", EP %u", p->ep);
  g_string_append_printf (out, ", DP %u", p->dp);
  if (p->sharding != SC_SHARDING_NONE)
    g_string_append_printf (out, " (%s)", sc_sharding_word (p->sharding));
  g_string_append_printf (out, ", recompute %s, %s", sc_recompute_word (p->recompute), sc_dtype_name (p->dtype));
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
sc_trim_line (GString *out)
{
  while (out->len > 0 && out->str[out->len - 1] == ' ')
    g_string_truncate (out, out->len - 1);
  g_string_append_c (out, '\n');
}
