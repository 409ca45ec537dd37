/* SPDX-License-Identifier: GPL-3.0-or-later */
/* experts.c - rows of experts: balanced, by an imbalance, or as recorded; capacity; copies of a token. */
#include <math.h>
#include "models/model.h"
#include "models/experts.h"
#include "models/precision.h"

/* Shares @total out over @n, as evenly as whole numbers can. */
static void
spread (guint64 total, guint n, guint64 *ret)
{
  for (guint i = 0; i < n; i++)
    ret[i] = total / n + (total % n * (i + 1) / n - total % n * i / n);
}

/* Rows of all experts by recorded weights; they sum up to about @total. */
static guint64 *
recorded_rows (const ScModel *model, const double *weights, guint64 total)
{
  guint64 *const rows = g_new (guint64, model->experts);
  double sum = 0;
  for (guint i = 0; i < model->experts; i++)
    sum += weights[i];
  for (guint i = 0; i < model->experts; i++)
    rows[i] = (guint64) llround (weights[i] / sum * (double) total);
  return rows;
}

static guint64
sum_of (const guint64 *rows, guint n)
{
  guint64 sum = 0;
  for (guint i = 0; i < n; i++)
    sum += rows[i];
  return sum;
}

/* First expert of the expert-parallel rank that gets the most. */
static guint
most_loaded (const guint64 *rows, guint experts, guint each)
{
  guint first = 0;
  for (guint i = each; i < experts; i += each)
    if (sum_of (rows + i, each) > sum_of (rows + first, each))
      first = i;
  return first;
}

/* Megatron's get_capacity(): rows of one expert that one rank may send, rounded up. */
static guint64
capacity_of (const ScModel *model, const ScPlan *plan, guint64 tokens)
{
  return (guint64) ceil ((double) (tokens * model->top_k) / model->experts * plan->moe_capacity_factor);
}

ScExpertRows *
sc_expert_rows_new (const ScModel *m, const ScPlan *p, guint64 tokens, guint line)
{
  const guint each = m->experts / p->ep, senders = p->ep * p->etp;
  ScExpertRows *const r = g_new0 (ScExpertRows, 1);
  r->n = each;
  r->rows = g_new (guint64, each);
  r->sent = tokens * m->top_k;
  if (p->moe_tokens != NULL)
    {
      g_autofree guint64 *rows = recorded_rows (m, p->moe_tokens + (gsize) line * m->experts, r->sent * senders);
      const guint first = most_loaded (rows, m->experts, each);
      for (guint i = 0; i < each; i++)
        r->rows[i] = rows[first + i];
    }
  else
    spread ((guint64) llround ((double) (r->sent * p->etp) * MAX (p->moe_imbalance, 1)), each, r->rows);
  if (p->moe_capacity_factor > 0)
    {
      const guint64 capacity = capacity_of (m, p, tokens);
      for (guint i = 0; i < each; i++)
        r->rows[i] = p->moe_pad_to_capacity ? capacity * senders : MIN (r->rows[i], capacity * senders);
      r->sent = p->moe_pad_to_capacity ? capacity * m->experts : MIN (r->sent, capacity * m->experts);
    }
  r->total = sum_of (r->rows, each);
  r->arrived = (r->total + p->etp - 1) / p->etp;
  if (p->ep == 1) /* nobody else hands it any: what is dropped is not handed out */
    r->sent = r->arrived;
  return r;
}

void
sc_expert_rows_free (ScExpertRows *routing)
{
  if (routing == NULL)
    return;
  g_free (routing->rows);
  g_free (routing);
}

guint
sc_experts_line (const ScModel *model, const ScPlan *plan, guint layer)
{
  guint line = 0;
  if (plan->moe_lines <= 1)
    return 0;
  for (guint i = 0; i < layer; i++)
    line += sc_model_layer_has_experts (model, i);
  return MIN (line, plan->moe_lines - 1);
}

double
sc_experts_distinct (const ScModel *model, guint parts)
{
  const double elsewhere = model->experts - (double) model->experts / parts; /* experts outside of one part */
  double none = 1;
  for (guint i = 0; i < model->top_k; i++)
    none *= MAX (elsewhere - i, 0) / (model->experts - i);
  return parts * (1 - none);
}

double
sc_experts_node_share (const ScModel *m, const ScPlan *p, guint nodes)
{
  if (p->moe_dispatcher != SC_DISPATCHER_DEEPEP || m->experts == 0)
    return 1;
  const double limit = p->moe_node_limit > 0 ? p->moe_node_limit : nodes;
  return MIN (MIN (sc_experts_distinct (m, nodes), limit), m->top_k) / m->top_k;
}

double
sc_experts_rank_share (const ScModel *m, const ScPlan *p, guint ranks)
{
  if (p->moe_dispatcher != SC_DISPATCHER_DEEPEP || m->experts == 0)
    return 1;
  return MIN (sc_experts_distinct (m, ranks), m->top_k) / m->top_k;
}

double
sc_experts_dispatch_bytes (const ScPlan *plan)
{
  return plan->moe_fp8_dispatch && plan->precision != NULL ? plan->precision->cast_bytes : sc_dtype_bytes (plan->dtype);
}
