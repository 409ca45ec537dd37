/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast-context.c - a few of the last fabrics and folds, and all costs of kernels. */
#include "models/forecast-context.h"

#define MOST_FABRICS 4 /* a large one takes tens of megabytes */
#define MOST_FOLDS 16

/* All that a fold follows from, but for the fabric: compared, not assumed to be alike. */
typedef struct
{
  GArray  *words; /* guint32 */
  guint32  n_gpus;
} FoldKey;

typedef struct
{
  FoldKey  key;
  ScLoads *loads;
  ScFold  *fold;
} Fold;

struct _ScForecastContext
{
  const ScTopology *topology;
  ScCostCache *costs;
  GQueue fabrics; /* ScFabric, the last asked for first */
  GQueue folds;   /* Fold, likewise */
};

static void
fold_free (gpointer data)
{
  Fold *const f = data;
  g_array_unref (f->key.words);
  sc_loads_free (f->loads);
  sc_fold_free (f->fold);
  g_free (f);
}

static void
fabric_free (gpointer data)
{
  sc_fabric_free (data);
}

ScForecastContext *
sc_forecast_context_new (const ScTopology *topology)
{
  ScForecastContext *const c = g_new0 (ScForecastContext, 1);
  c->topology = topology;
  c->costs = sc_cost_cache_new ();
  g_queue_init (&c->fabrics);
  g_queue_init (&c->folds);
  return c;
}

void
sc_forecast_context_free (ScForecastContext *c)
{
  if (c == NULL)
    return;
  g_queue_clear_full (&c->folds, fold_free);
  g_queue_clear_full (&c->fabrics, fabric_free);
  sc_cost_cache_free (c->costs);
  g_free (c);
}

const ScTopology *
sc_forecast_context_topology (const ScForecastContext *c)
{
  return c->topology;
}

ScCostCache *
sc_forecast_context_costs (ScForecastContext *c)
{
  return c->costs;
}

/* Puts @data, which may be in it, at the head of @queue, and drops the last beyond @most. */
static void
keep_first (GQueue *queue, gpointer data, guint most, GDestroyNotify destroy)
{
  g_queue_remove (queue, data);
  g_queue_push_head (queue, data);
  if (queue->length > most)
    destroy (g_queue_pop_tail (queue));
}

const ScFabric *
sc_forecast_context_fabric (ScForecastContext *c, guint n_gpus, GError **error)
{
  ScFabric *fabric = NULL;
  for (GList *i = c->fabrics.head; i != NULL && fabric == NULL; i = i->next)
    fabric = ((ScFabric *) i->data)->n_gpus == n_gpus ? i->data : NULL;
  if (fabric == NULL)
    fabric = sc_fabric_new (c->topology, n_gpus, error);
  if (fabric != NULL)
    keep_first (&c->fabrics, fabric, MOST_FABRICS, fabric_free);
  return fabric;
}

static void
put_words (GArray *words, gconstpointer data, gsize bytes)
{
  g_assert (bytes % sizeof (guint32) == 0);
  const guint32 n = (guint32) (bytes / sizeof (guint32));
  g_array_append_val (words, n);
  g_array_append_vals (words, data, n);
}

static FoldKey
fold_key (const ScLayout *layout, const GArray *needs, const guint32 *colour, guint32 budget, gboolean unfolded)
{
  G_STATIC_ASSERT (sizeof (ScComm) == 4 * sizeof (guint32) && sizeof (ScNeed) == 3 * sizeof (guint32)); /* without holes */
  const ScModel *const m = &layout->workload->model;
  const ScPlan *const p = &layout->workload->plan;
  const guint32 how[] = { budget, unfolded ? 1 : 0, m->experts, m->top_k, (guint32) p->moe_dispatcher, p->moe_node_limit }; /* the last ones: whom tokens go to */
  FoldKey key = { g_array_new (FALSE, FALSE, sizeof (guint32)), layout->n_ranks };
  put_words (key.words, how, sizeof how);
  put_words (key.words, needs->data, needs->len * sizeof (ScNeed));
  put_words (key.words, layout->comms, layout->n_comms * sizeof (ScComm));
  put_words (key.words, layout->members, layout->n_members * sizeof (guint32));
  put_words (key.words, colour, layout->n_ranks * sizeof (guint32));
  return key;
}

static gboolean
same_key (const FoldKey *a, const FoldKey *b)
{
  return a->n_gpus == b->n_gpus && a->words->len == b->words->len
         && memcmp (a->words->data, b->words->data, a->words->len * sizeof (guint32)) == 0;
}

ScFolded
sc_forecast_context_fold (ScForecastContext *c, const ScFabric *fabric, const ScLayout *layout, const GArray *needs, const guint32 *colour,
                          guint32 budget, gboolean unfolded)
{
  const FoldKey key = fold_key (layout, needs, colour, budget, unfolded);
  Fold *f = NULL;
  for (GList *i = c->folds.head; i != NULL && f == NULL; i = i->next)
    f = same_key (&((Fold *) i->data)->key, &key) ? i->data : NULL;
  if (f != NULL)
    g_array_unref (key.words);
  else
    {
      f = g_new (Fold, 1);
      *f = (Fold) { .key = key };
      f->loads = sc_loads_new (layout, fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
      f->fold = sc_fold_new (layout, fabric, f->loads, colour, budget, unfolded);
    }
  keep_first (&c->folds, f, MOST_FOLDS, fold_free);
  return (ScFolded) { f->loads, f->fold };
}
