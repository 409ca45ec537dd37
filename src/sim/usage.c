/* SPDX-License-Identifier: GPL-3.0-or-later */
/* usage.c - meters on links: the share in use is a step function; each step is added up when it ends.
 *
 * Shares are counted in 2^-42 of a capacity, as integers: what a flow adds it takes away again to the last digit, so an
 * idle link reads 0 after any number of flows. */
#include "sim/usage.h"

#define SHARE_ONE ((double) (G_GUINT64_CONSTANT (1) << 42))
#define SHARE_FULL ((guint64) (SC_USAGE_FULL * SHARE_ONE))
#define FIRST_BIN G_GINT64_CONSTANT (1000000) /* 1 us */

typedef struct
{
  const ScUse *uses; /* borrowed */
  guint32 n_uses;
  guint16 tag;
  double  bytes;
  double  rate;
} MeteredFlow;

typedef struct
{
  double  scale; /* SHARE_ONE / capacity */
  guint64 share; /* in use since `since` */
  ScTime  since;
} MeteredLink;

struct _ScMeter
{
  ScUsage     *usage; /* its shares have SC_USAGE_BINS a link, in ps, until the end */
  MeteredLink *links;
  GArray      *flows; /* MeteredFlow by id */
};

void
sc_usage_free (ScUsage *usage)
{
  if (usage == NULL)
    return;
  g_free (usage->busy);
  g_free (usage->full);
  g_free (usage->peak);
  g_free (usage->bytes);
  g_free (usage->shares);
  g_free (usage);
}

ScMeter *
sc_meter_new (const ScProgram *program)
{
  ScMeter *const m = g_new0 (ScMeter, 1);
  ScUsage *const u = m->usage = g_new0 (ScUsage, 1);
  u->n_links = program->links->len;
  for (guint i = 0; i < program->calls->len; i++)
    u->n_tags = MAX (u->n_tags, g_array_index (program->calls, ScCall, i).tag + 1u);
  const gsize n = MAX (u->n_links, 1);
  u->bin = FIRST_BIN;
  u->busy = g_new0 (double, n);
  u->full = g_new0 (ScTime, n);
  u->peak = g_new0 (double, n);
  u->bytes = g_new0 (double, n * MAX (u->n_tags, 1));
  u->shares = g_new0 (double, n * SC_USAGE_BINS);
  m->links = g_new0 (MeteredLink, n);
  for (guint32 l = 0; l < u->n_links; l++)
    m->links[l].scale = SHARE_ONE / g_array_index (program->links, double, l);
  m->flows = g_array_new (FALSE, FALSE, sizeof (MeteredFlow));
  return m;
}

void
sc_meter_free (ScMeter *m)
{
  if (m == NULL)
    return;
  sc_usage_free (m->usage);
  g_free (m->links);
  g_array_unref (m->flows);
  g_free (m);
}

/* Makes the bins wide enough to hold @end. */
static void
bins_reach (ScUsage *u, ScTime end)
{
  while (end > u->bin * SC_USAGE_BINS)
    {
      for (gsize l = 0; l < u->n_links; l++)
        {
          double *const bins = u->shares + l * SC_USAGE_BINS;
          for (guint i = 0; i < SC_USAGE_BINS / 2; i++)
            bins[i] = bins[2 * i] + bins[2 * i + 1];
          for (guint i = SC_USAGE_BINS / 2; i < SC_USAGE_BINS; i++)
            bins[i] = 0;
        }
      u->bin *= 2;
    }
}

/* Adds up what @l has done since it was looked at last. */
static void
link_settle (ScMeter *m, guint32 l, ScTime now)
{
  MeteredLink *const link = &m->links[l];
  ScUsage *const u = m->usage;
  const ScTime since = link->since;
  link->since = now;
  if (link->share == 0 || now == since)
    return;
  const double share = (double) link->share / SHARE_ONE;
  u->busy[l] += share * (double) (now - since);
  u->peak[l] = MAX (u->peak[l], share);
  if (link->share >= SHARE_FULL)
    u->full[l] += now - since;
  bins_reach (u, now);
  double *const bins = u->shares + (gsize) l * SC_USAGE_BINS;
  for (ScTime at = since; at < now;)
    {
      const ScTime i = at / u->bin, to = MIN (now, (i + 1) * u->bin);
      bins[i] += share * (double) (to - at);
      at = to;
    }
}

static inline guint64
share_of (const MeteredLink *link, const ScUse *use, double rate)
{
  return (guint64) llround (use->streams * rate * link->scale);
}

static MeteredFlow *
flow_of (ScMeter *m, guint32 id)
{
  if (id >= m->flows->len)
    g_array_set_size (m->flows, id + 1);
  return &g_array_index (m->flows, MeteredFlow, id);
}

void
sc_meter_flow_starts (ScMeter *m, guint32 flow, const ScUse *uses, guint32 n_uses, double bytes, guint16 tag)
{
  *flow_of (m, flow) = (MeteredFlow) { .uses = uses, .n_uses = n_uses, .tag = tag, .bytes = bytes };
}

void
sc_meter_flow_moves (ScMeter *m, guint32 flow, double rate, ScTime now)
{
  MeteredFlow *const f = flow_of (m, flow);
  for (guint32 i = 0; i < f->n_uses; i++)
    {
      MeteredLink *const link = &m->links[f->uses[i].link];
      link_settle (m, f->uses[i].link, now);
      link->share += share_of (link, &f->uses[i], rate) - share_of (link, &f->uses[i], f->rate);
    }
  f->rate = rate;
}

void
sc_meter_flow_ends (ScMeter *m, guint32 flow, ScTime now)
{
  const MeteredFlow *const f = flow_of (m, flow);
  for (guint32 i = 0; i < f->n_uses; i++)
    m->usage->bytes[(gsize) f->uses[i].link * m->usage->n_tags + f->tag] += f->uses[i].streams * f->bytes;
  sc_meter_flow_moves (m, flow, 0, now);
}

ScUsage *
sc_meter_finish (ScMeter *m, ScTime end)
{
  ScUsage *const u = g_steal_pointer (&m->usage);
  bins_reach (u, end);
  u->end = end;
  u->n_bins = (guint) ((end + u->bin - 1) / u->bin);
  for (gsize l = 0; l < u->n_links; l++)
    for (guint i = 0; i < u->n_bins; i++) /* in place: rows only move down */
      u->shares[l * u->n_bins + i] = u->shares[l * SC_USAGE_BINS + i] / (double) MIN (u->bin, end - i * u->bin);
  sc_meter_free (m);
  return u;
}
