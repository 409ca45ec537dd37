/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-messages.c - numbers the messages of rings and chains, so that none has to be stored. */
#include "models/collective-messages.h"

/* Ring:  id = ((channel * blocks + block) * steps + step) * hops + position
 * Chain: the same with one step. */
typedef struct
{
  ScMessages base;
  guint   channels, hops, blocks, steps;
  double  bytes;      /* of one message */
  GArray *uses;       /* ScUse of all hops */
  guint32 *first_use; /* [channels * hops + 1] */
} Script;

static void
describe (const ScMessages *script, guint32 id, ScMessage *ret)
{
  const Script *const s = (const Script *) script;
  const guint hop = id / (s->hops * s->steps * s->blocks) * s->hops + id % s->hops;
  ret->bytes = s->bytes;
  ret->uses = (const ScUse *) (gconstpointer) s->uses->data + s->first_use[hop];
  ret->n_uses = s->first_use[hop + 1] - s->first_use[hop];
}

static guint8
rounds_n_before (const ScMessages *script, guint32 id)
{
  const Script *const s = (const Script *) script;
  const guint32 step = id / s->hops % s->steps, block = id / (s->hops * s->steps) % s->blocks;
  return (guint8) ((step > 0) + (step > 0 || block > 0)); /* what it passes on; its sender's previous message */
}

static guint
rounds_after_delivery (const ScMessages *script, guint32 id, guint32 *ret)
{
  const Script *const s = (const Script *) script;
  const guint32 position = id % s->hops, step = id / s->hops % s->steps;
  if (step + 1 == s->steps)
    return 0;
  ret[0] = position + 1 == s->hops ? id + 1 : id + s->hops + 1; /* the right neighbour's next step */
  return 1;
}

static guint
rounds_after_drain (const ScMessages *script, guint32 id, guint32 *ret)
{
  const Script *const s = (const Script *) script;
  const guint32 step = id / s->hops % s->steps, block = id / (s->hops * s->steps) % s->blocks;
  if (step + 1 == s->steps && block + 1 == s->blocks)
    return 0;
  ret[0] = id + s->hops; /* the same sender's next message: blocks follow one another in the numbering */
  return 1;
}

static guint8
chain_n_before (const ScMessages *script, guint32 id)
{
  const Script *const s = (const Script *) script;
  return (guint8) ((id % s->hops > 0) + (id / s->hops % s->blocks > 0));
}

static guint
chain_after_delivery (const ScMessages *script, guint32 id, guint32 *ret)
{
  const Script *const s = (const Script *) script;
  ret[0] = id + 1; /* the same block's next hop */
  return id % s->hops + 1 < s->hops;
}

static guint
chain_after_drain (const ScMessages *script, guint32 id, guint32 *ret)
{
  const Script *const s = (const Script *) script;
  ret[0] = id + s->hops; /* the next block on this hop */
  return id / s->hops % s->blocks + 1 < s->blocks;
}

typedef struct
{
  Script         *script;
  const ScHopMap *map;
} Collect;

static void
collect (gpointer data, guint part G_GNUC_UNUSED, guint channel, guint position, const ScRoute *route)
{
  const Collect *const c = data;
  for (guint i = 0; i < route->n; i++)
    {
      const guint32 l = route->links[i];
      const ScUse use = { c->map->unit_links ? 1 / c->map->fabric->links[l].capacity : 1, c->map->link_map[l] };
      if (use.link != SC_NONE)
        g_array_append_val (c->script->uses, use);
    }
  c->script->first_use[channel * c->script->hops + position + 1] = c->script->uses->len;
}

static Script *
script_new (const ScHopMap *map, guint channels, guint hops, guint steps, guint blocks, double bytes, ScTime latency)
{
  g_assert ((guint64) channels * hops * steps * blocks < SC_NONE);
  Script *const s = g_new0 (Script, 1);
  s->channels = channels;
  s->hops = hops;
  s->steps = steps;
  s->blocks = blocks;
  s->bytes = bytes;
  s->uses = g_array_new (FALSE, FALSE, sizeof (ScUse));
  s->first_use = g_new0 (guint32, channels * hops + 1);
  map->walk (map->fabric, map->gpus, map->n, map->kind, collect, &(Collect) { s, map });
  s->base = (ScMessages) { .n = channels * hops * steps * blocks, .latency = latency, .cap = INFINITY, .describe = describe };
  return s;
}

ScMessages *
sc_messages_rounds (const ScHopMap *map, guint channels, guint n, guint steps, guint blocks, double bytes, ScTime latency)
{
  Script *const s = script_new (map, channels, n, steps, blocks, bytes, latency);
  s->base.n_before = rounds_n_before;
  s->base.after_delivery = rounds_after_delivery;
  s->base.after_drain = rounds_after_drain;
  return &s->base;
}

ScMessages *
sc_messages_chain (const ScHopMap *map, guint channels, guint hops, guint blocks, double bytes, ScTime latency)
{
  Script *const s = script_new (map, channels, hops, 1, blocks, bytes, latency);
  s->base.n_before = chain_n_before;
  s->base.after_delivery = chain_after_delivery;
  s->base.after_drain = chain_after_drain;
  return &s->base;
}

void
sc_collective_messages_free (ScMessages *messages)
{
  if (messages == NULL)
    return;
  Script *const s = (Script *) messages;
  g_array_unref (s->uses);
  g_free (s->first_use);
  g_free (s);
}
