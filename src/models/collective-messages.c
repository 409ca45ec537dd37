/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collective-messages.c - numbers the messages of rings and chains, so that none has to be stored; stores those of others. */
#include "models/collective-messages.h"
#include <string.h>

typedef struct
{
  ScMessages base;
  void (*free) (ScMessages *script);
} Owned;

static void
append_uses (GArray *uses, const ScRoute *route, const ScFabric *fabric, const guint32 *link_map, gboolean unit_links)
{
  for (guint i = 0; i < route->n; i++)
    {
      const guint32 l = route->links[i];
      const ScUse use = { unit_links ? 1 / fabric->links[l].capacity : 1, link_map[l] };
      if (use.link != SC_NONE)
        g_array_append_val (uses, use);
    }
}

/* ---- rings and chains ---- */

/* Ring:  id = ((channel * blocks + block) * steps + step) * hops + position
 * Chain: the same with one step. */
typedef struct
{
  Owned   owned;
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
  append_uses (c->script->uses, route, c->map->fabric, c->map->link_map, c->map->unit_links);
  c->script->first_use[channel * c->script->hops + position + 1] = c->script->uses->len;
}

static void
script_free (ScMessages *messages)
{
  Script *const s = (Script *) messages;
  g_array_unref (s->uses);
  g_free (s->first_use);
  g_free (s);
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
  s->owned.free = script_free;
  s->owned.base = (ScMessages) { .n = channels * hops * steps * blocks, .latency = latency, .cap = INFINITY, .describe = describe };
  return s;
}

ScMessages *
sc_messages_rounds (const ScHopMap *map, guint channels, guint n, guint steps, guint blocks, double bytes, ScTime latency)
{
  Script *const s = script_new (map, channels, n, steps, blocks, bytes, latency);
  s->owned.base.n_before = rounds_n_before;
  s->owned.base.after_delivery = rounds_after_delivery;
  s->owned.base.after_drain = rounds_after_drain;
  return &s->owned.base;
}

ScMessages *
sc_messages_chain (const ScHopMap *map, guint channels, guint hops, guint blocks, double bytes, ScTime latency)
{
  Script *const s = script_new (map, channels, hops, 1, blocks, bytes, latency);
  s->owned.base.n_before = chain_n_before;
  s->owned.base.after_delivery = chain_after_delivery;
  s->owned.base.after_drain = chain_after_drain;
  return &s->owned.base;
}

/* ---- any shape ---- */

typedef struct
{
  double  bytes;
  guint32 route;
} DagMessage;

typedef struct
{
  guint32 before, after;
} DagEdge;

enum
{
  DELIVERY,
  DRAIN,
  N_EDGES
};

struct _ScDag
{
  Owned           owned;
  const ScFabric *fabric;
  const guint32  *link_map;
  gboolean    unit_links;
  GHashTable *between;        /* gint64 a << 32 | b -> route + 1 */
  GArray     *uses;           /* ScUse of all routes */
  GArray     *first_use;      /* guint32 [routes + 1] */
  GArray     *messages;       /* DagMessage */
  GArray     *edges[N_EDGES]; /* DagEdge */
  guint8     *n_before;       /* [messages] */
  guint32    *first[N_EDGES]; /* [messages + 1] */
  guint32    *next[N_EDGES];
};

static void
dag_free (ScMessages *messages)
{
  ScDag *const d = (ScDag *) messages;
  g_hash_table_unref (d->between);
  g_array_unref (d->uses);
  g_array_unref (d->first_use);
  g_array_unref (d->messages);
  for (guint k = 0; k < N_EDGES; k++)
    {
      g_clear_pointer (&d->edges[k], g_array_unref);
      g_free (d->first[k]);
      g_free (d->next[k]);
    }
  g_free (d->n_before);
  g_free (d);
}

ScDag *
sc_dag_new (const ScFabric *fabric, ScTime latency, const guint32 *link_map, gboolean unit_links)
{
  ScDag *const d = g_new0 (ScDag, 1);
  d->owned = (Owned) { { .latency = latency, .cap = INFINITY }, dag_free };
  d->fabric = fabric;
  d->link_map = link_map;
  d->unit_links = unit_links;
  d->between = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  d->uses = g_array_new (FALSE, FALSE, sizeof (ScUse));
  d->first_use = g_array_new (FALSE, TRUE, sizeof (guint32));
  g_array_set_size (d->first_use, 1);
  d->messages = g_array_new (FALSE, FALSE, sizeof (DagMessage));
  for (guint k = 0; k < N_EDGES; k++)
    d->edges[k] = g_array_new (FALSE, FALSE, sizeof (DagEdge));
  return d;
}

guint32
sc_dag_route (ScDag *d, const ScRoute *route)
{
  append_uses (d->uses, route, d->fabric, d->link_map, d->unit_links);
  g_array_append_val (d->first_use, d->uses->len);
  return d->first_use->len - 2;
}

guint32
sc_dag_between (ScDag *d, guint32 a, guint32 b)
{
  const gint64 pair = (gint64) ((guint64) a << 32 | b);
  const guint known = GPOINTER_TO_UINT (g_hash_table_lookup (d->between, &pair));
  if (known > 0)
    return known - 1;
  ScRoute route;
  sc_fabric_route (d->fabric, a, b, &route);
  const guint32 ret = sc_dag_route (d, &route);
  g_hash_table_insert (d->between, g_memdup2 (&pair, sizeof pair), GUINT_TO_POINTER (ret + 1));
  return ret;
}

guint32
sc_dag_add (ScDag *d, guint32 route, double bytes, guint32 previous)
{
  const DagMessage m = { bytes, route };
  const guint32 id = d->messages->len;
  g_array_append_val (d->messages, m);
  const DagEdge edge = { previous, id };
  if (previous != SC_NONE)
    g_array_append_val (d->edges[DRAIN], edge);
  return id;
}

void
sc_dag_after (ScDag *d, guint32 message, guint32 before)
{
  const DagEdge edge = { before, message };
  g_array_append_val (d->edges[DELIVERY], edge);
}

static void
dag_describe (const ScMessages *script, guint32 id, ScMessage *ret)
{
  const ScDag *const d = (const ScDag *) script;
  const DagMessage *const m = &g_array_index (d->messages, DagMessage, id);
  const guint32 *const first = (const guint32 *) (gconstpointer) d->first_use->data;
  ret->bytes = m->bytes;
  ret->uses = NULL;
  ret->n_uses = 0;
  if (m->route == SC_DAG_NOWHERE)
    return;
  ret->uses = (const ScUse *) (gconstpointer) d->uses->data + first[m->route];
  ret->n_uses = first[m->route + 1] - first[m->route];
}

static guint8
dag_n_before (const ScMessages *script, guint32 id)
{
  return ((const ScDag *) script)->n_before[id];
}

static guint
dag_next (const ScMessages *script, guint kind, guint32 id, guint32 *ret)
{
  const ScDag *const d = (const ScDag *) script;
  const guint n = d->first[kind][id + 1] - d->first[kind][id];
  if (n > 0)
    memcpy (ret, d->next[kind] + d->first[kind][id], n * sizeof *ret);
  return n;
}

static guint
dag_after_delivery (const ScMessages *script, guint32 id, guint32 *ret)
{
  return dag_next (script, DELIVERY, id, ret);
}

static guint
dag_after_drain (const ScMessages *script, guint32 id, guint32 *ret)
{
  return dag_next (script, DRAIN, id, ret);
}

ScMessages *
sc_dag_finish (ScDag *d)
{
  const guint n = d->messages->len;
  ScMessages *const m = &d->owned.base;
  m->n = n;
  m->describe = dag_describe;
  m->n_before = dag_n_before;
  m->after_delivery = dag_after_delivery;
  m->after_drain = dag_after_drain;
  d->n_before = g_new0 (guint8, MAX (n, 1));
  for (guint k = 0; k < N_EDGES; k++)
    {
      const DagEdge *const edges = (const DagEdge *) (gconstpointer) d->edges[k]->data;
      const guint n_edges = d->edges[k]->len;
      d->first[k] = g_new0 (guint32, n + 1);
      d->next[k] = g_new (guint32, MAX (n_edges, 1));
      for (guint i = 0; i < n_edges; i++)
        {
          g_assert (d->n_before[edges[i].after] < G_MAXUINT8);
          d->n_before[edges[i].after]++;
          d->first[k][edges[i].before + 1]++;
        }
      for (guint i = 0; i < n; i++)
        {
          g_assert (d->first[k][i + 1] <= SC_MESSAGES_MAX_NEXT);
          d->first[k][i + 1] += d->first[k][i];
        }
      g_autofree guint32 *at = g_memdup2 (d->first[k], (n + 1) * sizeof *at);
      for (guint i = 0; i < n_edges; i++)
        d->next[k][at[edges[i].before]++] = edges[i].after;
      g_clear_pointer (&d->edges[k], g_array_unref);
    }
  return m;
}

void
sc_collective_messages_free (ScMessages *messages)
{
  if (messages != NULL)
    ((Owned *) messages)->free (messages);
}
