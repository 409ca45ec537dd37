/* SPDX-License-Identifier: GPL-3.0-or-later */
/* vocab.c - where in the order of a pipeline the passes over the vocabulary stand. */
#include "models/vocab.h"
#include "models/schedule.h"

const char *
sc_vocab_name (ScVocab vocab)
{
  static const char *const names[] = { "none", "vocab-1", "vocab-2", "interlaced" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_VOCABS);
  return names[vocab];
}

guint
sc_vocab_ahead (ScVocab vocab, guint pp)
{
  switch (vocab)
    {
    case SC_VOCAB_1: return 2;
    case SC_VOCAB_2: return 1;
    case SC_VOCAB_INTERLACED: return pp / 2;
    case SC_VOCAB_ENDS:
    case SC_N_VOCABS:
    default: return 0;
    }
}

/* A slot, and when it is to stand; of slots at one time those of the vocabulary come first, of them those of earlier micro-batches. */
typedef struct
{
  double time;
  ScSlot slot;
  guint  at; /* in the order so far */
} Timed;

static int
compare_timed (gconstpointer a, gconstpointer b)
{
  const Timed *const x = a, *const y = b;
  const gboolean vx = sc_pass_of_vocabulary (x->slot.pass), vy = sc_pass_of_vocabulary (y->slot.pass);
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if (vx != vy)
    return vx ? -1 : 1;
  if (!vx)
    return (x->at > y->at) - (x->at < y->at);
  if (x->slot.microbatch != y->slot.microbatch)
    return x->slot.microbatch < y->slot.microbatch ? -1 : 1;
  return (int) x->slot.pass - (int) y->slot.pass;
}

/* When the ends of the pipeline run micro-batches, by the schedule alone. */
typedef struct
{
  double *first_forward, *last_forward, *last_backward, *first_backward; /* [m] begins ... */
} Ends;

static void
note (const ScOrders *o, double **begins, Ends *ends)
{
  const guint last = sc_orders_stages (o) - 1;
  for (guint rank = 0; rank < o->p; rank++)
    for (guint i = 0; i < o->ranks[rank]->len; i++)
      {
        const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
        const guint stage = sc_placement_stage (o->placement, o->p, rank, slot->chunk), k = slot->microbatch;
        const gboolean forward = slot->pass == SC_PASS_FORWARD;
        if (slot->pass == SC_PASS_WEIGHT)
          continue;
        if (stage == 0)
          (forward ? ends->first_forward : ends->first_backward)[k] = begins[rank][i];
        if (stage == last)
          (forward ? ends->last_forward : ends->last_backward)[k] = begins[rank][i];
      }
}

/* Of 1F1B with all ranks at the logits at once, so that no pass of a stage is under way then: one forward and one backward of each rank from one to the
 * next, which even ranks run in this order, odd ones in the other.  A micro-batch takes one such period for two stages up and one for each stage
 * down, and 1.5 p are in flight. */
#define INTERLACED_PERIOD 3.0

static double
interlaced_logits (const ScOrders *o, guint microbatch)
{
  return INTERLACED_PERIOD * (microbatch + (o->p - 1) / 2 + 1);
}

static double **
interlaced_begins (const ScOrders *o)
{
  double **const begins = g_new (double *, o->p);
  for (guint rank = 0; rank < o->p; rank++)
    {
      begins[rank] = g_new (double, o->ranks[rank]->len);
      for (guint i = 0; i < o->ranks[rank]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
          begins[rank][i] = slot->pass == SC_PASS_FORWARD ? INTERLACED_PERIOD * (slot->microbatch + rank / 2) + (rank % 2 == 1 ? 2 : 0)
                                                          : interlaced_logits (o, slot->microbatch) + INTERLACED_PERIOD * (o->p - 1 - rank) + (rank % 2 == 0 ? 1 : 0);
        }
    }
  return begins;
}

static void
put (GArray *all, double time, ScPass pass, guint microbatch)
{
  const Timed timed = { time, { .pass = (guint8) pass, .microbatch = microbatch }, 0 };
  g_array_append_val (all, timed);
}

/* Times of passes over the vocabulary, in units of a forward pass (a backward is two).  Rows of the table are summed while the micro-batch before
 * goes through the first stage; logits begin a forward behind the last stage's, in which its output is on its way, and no later than its backward;
 * gradients come with the logits of the next micro-batch (sail-sg/VocabularyParallelism, 1F1B). */
static void
put_vocabulary (const ScOrders *o, const Ends *e, GArray *all)
{
  g_autofree double *logits = g_new (double, o->m);
  for (guint k = 0; k < o->m; k++)
    logits[k] = o->vocab == SC_VOCAB_INTERLACED ? interlaced_logits (o, k) : MIN (e->last_forward[k] + 2, e->last_backward[k]);
  for (guint k = 0; k < o->m; k++)
    {
      const double next = k + 1 < o->m ? logits[k + 1] : logits[k] + 2;
      put (all, k > 0 ? e->first_forward[k - 1] : -1, SC_PASS_TABLE, k);
      put (all, logits[k], SC_PASS_LOGITS, k);
      if (o->vocab != SC_VOCAB_INTERLACED)
        put (all, o->vocab == SC_VOCAB_1 ? MIN (next, e->last_backward[k]) : MAX (next, logits[k]), SC_PASS_LOGITS_WEIGHT, k);
      put (all, e->first_backward[k] + 3, SC_PASS_TABLE_WEIGHT, k);
    }
}

gboolean
sc_orders_add_vocabulary (ScOrders *o, ScVocab vocab)
{
  double **const begins = vocab == SC_VOCAB_INTERLACED ? interlaced_begins (o) : sc_orders_begins (o, NULL);
  if (begins == NULL)
    return FALSE;
  o->vocab = (guint8) vocab;
  g_autofree double *times = g_new0 (double, 4 * (gsize) o->m);
  Ends ends = { times, times + o->m, times + 2 * (gsize) o->m, times + 3 * (gsize) o->m };
  note (o, begins, &ends);
  for (guint rank = 0; rank < o->p; rank++)
    {
      g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Timed));
      GArray *const slots = o->ranks[rank];
      for (guint i = 0; i < slots->len; i++)
        {
          const Timed timed = { begins[rank][i], g_array_index (slots, ScSlot, i), i };
          g_array_append_val (all, timed);
        }
      put_vocabulary (o, &ends, all);
      g_array_sort (all, compare_timed);
      g_array_set_size (slots, 0);
      for (guint i = 0; i < all->len; i++)
        g_array_append_val (slots, g_array_index (all, Timed, i).slot);
      g_free (begins[rank]);
    }
  g_free (begins);
  return TRUE;
}
