/* SPDX-License-Identifier: GPL-3.0-or-later */
/* packing.c - documents into sequences, first fit; sequences into micro-batches; micro-batches into kinds. */
#include <string.h>
#include "models/kernel.h"
#include "models/packing.h"

/* Packed at most, but for what one data-parallel rank needs: ranks beyond are like those before. */
#define MOST_SEQUENCES 65536
#define MOST_DOCUMENTS 4e6
#define MOST_MISSES 64       /* documents in a row that find no room before the step counts as full */

/* ---- where documents come from ---- */

double
sc_documents_mean_length (const ScDocuments *documents)
{
  double tokens = 0, n = 0;
  for (guint i = 0; i < documents->n; i++)
    {
      const double count = documents->counts != NULL ? (double) documents->counts[i] : 1;
      tokens += count * documents->lengths[i];
      n += count;
    }
  return tokens / n;
}

typedef struct
{
  const ScDocuments *documents;
  guint64 *until; /* histogram: [n] documents up to this length */
  guint64 next;
} Source;

static void
source_init (Source *s, const ScDocuments *documents)
{
  *s = (Source) { .documents = documents };
  if (documents->counts == NULL)
    return;
  s->until = g_new (guint64, documents->n);
  guint64 sum = 0;
  for (guint i = 0; i < documents->n; i++)
    s->until[i] = sum += documents->counts[i];
}

/* splitmix64 (Steele et al., OOPSLA 2014) of a place in the row. */
static guint64
pseudo_random (guint64 place)
{
  guint64 z = (place + 1) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ z >> 31;
}

static guint
source_next (Source *s)
{
  const ScDocuments *const d = s->documents;
  const guint64 place = s->next++;
  if (s->until == NULL)
    return d->lengths[place % d->n];
  const guint64 at = pseudo_random (place) % s->until[d->n - 1];
  guint low = 0, high = d->n - 1;
  while (low < high)
    {
      const guint middle = (low + high) / 2;
      if (at < s->until[middle])
        high = middle;
      else
        low = middle + 1;
    }
  return d->lengths[low];
}

/* ---- first fit ---- */

/* Room in sequences: a tree of maxima over leaves [size .. 2 size). */
typedef struct
{
  guint *room;
  guint  size, n;
} Rooms;

static void
rooms_init (Rooms *r, guint n, guint seq)
{
  r->n = n;
  for (r->size = 1; r->size < n;)
    r->size *= 2;
  r->room = g_new0 (guint, 2 * (gsize) r->size);
  for (guint i = 0; i < n; i++)
    r->room[r->size + i] = seq;
  for (guint i = r->size - 1; i > 0; i--)
    r->room[i] = MAX (r->room[2 * i], r->room[2 * i + 1]);
}

/* The first sequence with room for @length, which it then takes; @n where there is none. */
static guint
rooms_take (Rooms *r, guint length)
{
  if (r->room[1] < length)
    return r->n;
  guint i = 1;
  while (i < r->size)
    i = r->room[2 * i] >= length ? 2 * i : 2 * i + 1;
  const guint found = i - r->size;
  r->room[i] -= length;
  while (i > 1)
    {
      i /= 2;
      r->room[i] = MAX (r->room[2 * i], r->room[2 * i + 1]);
    }
  return found;
}

/* Pairs of one document: causal halves, all or inside the model's window. */
static double
document_pairs (const ScModel *model, guint length, gboolean window)
{
  if (!window || model->window == 0 || model->window >= length)
    return sc_attention_pairs (length, TRUE, 0);
  if (!model->chunked_window)
    return sc_attention_pairs (length, TRUE, model->window);
  return length / model->window * sc_attention_pairs (model->window, TRUE, 0) + sc_attention_pairs (length % model->window, TRUE, 0);
}

typedef double Pairs[2]; /* without and with a window */

/* Fills @n sequences: pairs of each. */
static void
pack (const ScWorkload *workload, guint n, Pairs *pairs, ScPacking *ret)
{
  Source source;
  Rooms rooms;
  source_init (&source, workload->documents);
  rooms_init (&rooms, n, workload->seq);
  double tokens = 0;
  for (guint misses = 0; misses < MOST_MISSES && rooms.room[1] > 0;)
    {
      const guint length = source_next (&source), at = rooms_take (&rooms, length);
      if (at == n)
        {
          misses++;
          continue;
        }
      misses = 0;
      ret->documents++;
      tokens += length;
      for (guint window = 0; window < 2; window++)
        pairs[at][window] += document_pairs (&workload->model, length, window > 0);
    }
  ret->fill = tokens / n / workload->seq;
  ret->mean_length = tokens / (double) MAX (ret->documents, 1);
  g_free (source.until);
  g_free (rooms.room);
}

/* ---- micro-batches ---- */

/* Which of them cost alike: @pairs[@m] into at most SC_PACKING_MAX_KINDS ranges of equal width, each as its mean. */
static void
sort_into_kinds (ScPacking *p, const Pairs *pairs, guint m)
{
  double least = pairs[0][0], most = pairs[0][0];
  for (guint i = 0; i < m; i++)
    {
      least = MIN (least, pairs[i][0]);
      most = MAX (most, pairs[i][0]);
    }
  guint members[SC_PACKING_MAX_KINDS] = { 0 }, number[SC_PACKING_MAX_KINDS];
  Pairs sums[SC_PACKING_MAX_KINDS] = { { 0 } };
  p->of_microbatch = g_new (guint8, m);
  for (guint i = 0; i < m; i++)
    {
      const double at = most > least ? (pairs[i][0] - least) / (most - least) * SC_PACKING_MAX_KINDS : 0;
      const guint k = MIN ((guint) at, SC_PACKING_MAX_KINDS - 1);
      p->of_microbatch[i] = (guint8) k;
      members[k]++;
      sums[k][0] += pairs[i][0];
      sums[k][1] += pairs[i][1];
    }
  for (guint k = 0; k < SC_PACKING_MAX_KINDS; k++)
    {
      number[k] = p->n_kinds;
      if (members[k] == 0)
        continue;
      p->pairs[p->n_kinds][0] = sums[k][0] / members[k];
      p->pairs[p->n_kinds][1] = sums[k][1] / members[k];
      p->n_kinds++;
    }
  for (guint i = 0; i < m; i++)
    p->of_microbatch[i] = (guint8) number[p->of_microbatch[i]];
}

/* Pairs of the micro-batches of data-parallel rank @rank: [m].  Returns those of all layers of the model together. */
static double
rank_pairs (const ScWorkload *w, const ScPacking *p, const Pairs *sequences, guint rank, Pairs *ret)
{
  const guint b = w->plan.micro_batch, windows = sc_model_window_layers (&w->model);
  double all = 0;
  for (guint k = 0; k < p->microbatches; k++)
    {
      ret[k][0] = ret[k][1] = 0;
      for (guint j = 0; j < b; j++)
        for (guint window = 0; window < 2; window++)
          ret[k][window] += sequences[((gsize) k * p->ranks + rank) * b + j][window];
      all += (w->model.layers - windows) * ret[k][0] + windows * ret[k][1];
    }
  return all;
}

ScPacking *
sc_packing_new (const ScWorkload *workload)
{
  if (workload->documents == NULL)
    return NULL;
  const ScPlan *const plan = &workload->plan;
  const guint m = sc_workload_microbatches (workload);
  ScPacking *const p = g_new0 (ScPacking, 1);
  p->microbatches = m;
  const double each = (double) m * plan->micro_batch; /* sequences of a rank */
  const double ranks = MIN (MOST_SEQUENCES / each, MOST_DOCUMENTS / (each * workload->seq / sc_documents_mean_length (workload->documents)));
  p->ranks = (guint) CLAMP (ranks, 1, plan->dp);
  const guint n = m * plan->micro_batch * p->ranks;
  g_autofree Pairs *sequences = g_new0 (Pairs, n);
  pack (workload, n, sequences, p);

  g_autofree Pairs *pairs = g_new (Pairs, m), *busiest = g_new (Pairs, m);
  double most = -1, all = 0;
  for (guint r = 0; r < p->ranks; r++)
    {
      const double sum = rank_pairs (workload, p, sequences, r, pairs);
      all += sum;
      if (sum <= most)
        continue;
      most = sum;
      memcpy (busiest, pairs, m * sizeof *pairs);
    }
  p->rank = most / (all / p->ranks);
  Pairs sum = { 0, 0 };
  for (guint i = 0; i < n; i++)
    for (guint window = 0; window < 2; window++)
      sum[window] += sequences[i][window];
  for (guint window = 0; window < 2; window++)
    p->share[window] = sum[window] / n / document_pairs (&workload->model, workload->seq, window > 0);
  const double mean = sum[0] / n * plan->micro_batch;
  p->least = p->most = busiest[0][0] / mean;
  for (guint k = 0; k < m; k++)
    {
      p->least = MIN (p->least, busiest[k][0] / mean);
      p->most = MAX (p->most, busiest[k][0] / mean);
    }
  sort_into_kinds (p, (const Pairs *) busiest, m);
  return p;
}

void
sc_packing_free (ScPacking *packing)
{
  if (packing == NULL)
    return;
  g_free (packing->of_microbatch);
  g_free (packing);
}

/* ---- FLOPs ---- */

static double
share_of (const ScWorkload *w, guint layer)
{
  return w->packing == NULL ? 1 : w->packing->share[sc_model_layer_window (&w->model, layer, w->seq) > 0 ? 1 : 0];
}

double
sc_packed_core_flops (const ScWorkload *w, guint layer, ScFlopsConvention convention)
{
  return share_of (w, layer) * sc_model_layer_core_flops (&w->model, layer, w->seq, convention);
}

double
sc_packed_train_flops (const ScWorkload *w, double sequences, ScFlopsConvention convention)
{
  const double whole = sc_model_train_flops (&w->model, w->seq, sequences, convention);
  if (w->packing == NULL || convention == SC_FLOPS_6N)
    return whole;
  const double pairs = (double) w->seq * w->seq / (convention == SC_FLOPS_HALF ? 2 : 1);
  double spared = w->model.mtp_layers * (1 - w->packing->share[0]) * sc_model_core_attention_flops (&w->model, pairs);
  for (guint i = 0; i < w->model.layers; i++)
    spared += (1 - share_of (w, i)) * sc_model_layer_core_flops (&w->model, i, w->seq, convention);
  return whole - 3 * spared * sequences;
}
