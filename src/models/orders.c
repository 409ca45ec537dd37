/* SPDX-License-Identifier: GPL-3.0-or-later */
/* orders.c - what all ranks of a pipeline do, and how long that takes when each does it as soon as it can. */
#include "models/schedule.h"

ScOrders *
sc_orders_empty (ScPlacement placement, guint p, guint v, guint m)
{
  ScOrders *const o = g_new0 (ScOrders, 1);
  o->placement = placement;
  o->p = p;
  o->v = v;
  o->m = m;
  o->ranks = g_new (GArray *, p);
  for (guint rank = 0; rank < p; rank++)
    o->ranks[rank] = g_array_new (FALSE, FALSE, sizeof (ScSlot));
  return o;
}

ScOrders *
sc_orders_copy (const ScOrders *from)
{
  ScOrders *const o = sc_orders_empty (from->placement, from->p, from->v, from->m);
  o->vocab = from->vocab;
  for (guint rank = 0; rank < o->p; rank++)
    g_array_append_vals (o->ranks[rank], from->ranks[rank]->data, from->ranks[rank]->len);
  return o;
}

ScOrders *
sc_orders_new (const ScSchedule *row, const ScScheduleShape *shape, const ScScheduleCosts *costs, const ScOrders *table)
{
  if (table != NULL)
    return sc_orders_copy (table);
  ScOrders *const o = sc_orders_empty (row->placement, shape->p, shape->v, shape->m);
  if (row->orders != NULL)
    {
      const guint stages = shape->p * shape->v;
      g_autofree double *ones = g_new (double, stages);
      for (guint i = 0; i < stages; i++)
        ones[i] = 1;
      const ScScheduleCosts equal = { .forward = ones, .input = ones, .weight = ones };
      row->orders (shape, costs != NULL ? costs : &equal, o->ranks);
    }
  else
    for (guint rank = 0; rank < shape->p; rank++)
      row->order (shape, rank, o->ranks[rank]);
  return o;
}

void
sc_orders_free (ScOrders *o)
{
  if (o == NULL)
    return;
  for (guint rank = 0; rank < o->p; rank++)
    g_array_unref (o->ranks[rank]);
  g_free (o->ranks);
  g_free (o);
}

guint
sc_orders_stages (const ScOrders *o)
{
  return o->p * o->v;
}

gboolean
sc_orders_split (const ScOrders *o)
{
  for (guint rank = 0; rank < o->p; rank++)
    for (guint i = 0; i < o->ranks[rank]->len; i++)
      {
        const guint pass = g_array_index (o->ranks[rank], ScSlot, i).pass;
        if (pass == SC_PASS_INPUT || pass == SC_PASS_WEIGHT)
          return TRUE;
      }
  return FALSE;
}

guint
sc_orders_in_flight (const ScOrders *o, guint rank)
{
  guint held = 0, most = 0;
  for (guint i = 0; i < o->ranks[rank]->len; i++)
    {
      const guint pass = g_array_index (o->ranks[rank], ScSlot, i).pass;
      held += pass == SC_PASS_FORWARD ? 1 : 0;
      most = MAX (most, held);
      held -= pass == SC_PASS_BACKWARD || pass == SC_PASS_WEIGHT ? 1 : 0;
    }
  return most;
}

gboolean
sc_orders_runs (const ScOrders *o, guint chunk, guint microbatch)
{
  return o->placement != SC_PLACE_BOTH || (chunk % 2 == 0) == (microbatch < o->m / 2);
}

static gboolean
comes_again (const GArray *slots, guint i, guint length, guint microbatches)
{
  const ScSlot *const a = &g_array_index (slots, ScSlot, i), *const b = &g_array_index (slots, ScSlot, i + length);
  return a->pass == b->pass && a->joined == b->joined && a->paired == b->paired && a->chunk == b->chunk
         && a->microbatch + microbatches == b->microbatch;
}

gboolean
sc_orders_period (const ScOrders *o, guint rank, guint microbatches, ScOrderPeriod *ret)
{
  const GArray *const slots = o->ranks[rank];
  const guint length = o->m > 0 ? (guint) ((guint64) slots->len * microbatches / o->m) : 0;
  if (length == 0 || slots->len < 2 * length)
    return FALSE;
  guint from = (slots->len - length) / 2, to = from; /* compared with what stands as far behind the middle */
  while (from > 0 && comes_again (slots, from - 1, length, microbatches))
    from--;
  while (to + length < slots->len && comes_again (slots, to, length, microbatches))
    to++;
  *ret = (ScOrderPeriod) { from, to + length, length };
  return to - from >= length;
}

/* ---- as soon as possible ---- */

typedef struct
{
  const ScOrders *o;
  const ScScheduleCosts *costs; /* or NULL */
  double *end[2]; /* [stages * m] of forwards; of what hands a gradient on: negative: not yet */
  double *vocab;  /* [passes of the vocabulary * m] the latest end so far ... */
  guint  *ended;  /* ... and of how many ranks */
} Replay;

static gsize
vocab_index (const ScOrders *o, guint pass, guint microbatch)
{
  return (pass - SC_N_PASSES) * (gsize) o->m + microbatch;
}

/* When all ranks have run @pass over the vocabulary; negative: not yet. */
static double
vocab_end (const Replay *r, guint pass, guint microbatch)
{
  const gsize i = vocab_index (r->o, pass, microbatch);
  return r->ended[i] == r->o->p ? r->vocab[i] : -1;
}

gboolean
sc_orders_sums (const ScOrders *o, guint pass)
{
  return pass == SC_PASS_TABLE || (pass == SC_PASS_LOGITS && o->vocab != SC_VOCAB_INTERLACED) || (pass == SC_PASS_LOGITS_WEIGHT && o->vocab == SC_VOCAB_1);
}

static double
cost_of (const Replay *r, const ScSlot *slot, guint stage)
{
  const ScScheduleCosts *const c = r->costs;
  if (sc_pass_of_vocabulary (slot->pass)) /* short beside a stage's */
    return 0;
  if (c == NULL)
    return slot->pass == SC_PASS_BACKWARD ? 2 : 1;
  const guint i = c->microbatches > 0 ? stage * c->microbatches + slot->microbatch : stage;
  switch ((ScPass) slot->pass)
    {
    case SC_PASS_FORWARD: return c->forward[i];
    case SC_PASS_BACKWARD: return c->input[i] + c->weight[i];
    case SC_PASS_INPUT: return c->input[i];
    case SC_PASS_WEIGHT: return c->weight[i];
    case SC_PASS_TABLE:
    case SC_PASS_LOGITS:
    case SC_PASS_LOGITS_WEIGHT:
    case SC_PASS_TABLE_WEIGHT:
    case SC_N_SLOT_PASSES:
    default: g_return_val_if_reached (0);
    }
}

/* The same of a pass over the vocabulary: it waits for one end of the pipeline, or for what all ranks had before. */
static double
vocab_ready (const Replay *r, const ScSlot *slot)
{
  const ScOrders *const o = r->o;
  const guint last = sc_orders_stages (o) - 1;
  if (slot->pass == SC_PASS_LOGITS)
    return r->end[0][last * o->m + slot->microbatch];
  if (slot->pass == SC_PASS_LOGITS_WEIGHT)
    return vocab_end (r, SC_PASS_LOGITS, slot->microbatch);
  return slot->pass == SC_PASS_TABLE_WEIGHT ? r->end[1][slot->microbatch] : 0;
}

/* What a pass of a stage at an end of the pipeline has from the vocabulary. */
static double
vocab_before (const Replay *r, gboolean forward, guint microbatch)
{
  return vocab_end (r, forward ? SC_PASS_TABLE : r->o->vocab == SC_VOCAB_1 ? SC_PASS_LOGITS_WEIGHT : SC_PASS_LOGITS, microbatch);
}

/* When @slot of @rank has its input; negative: not known yet. */
static double
ready_of (const Replay *r, const ScSlot *slot, guint rank)
{
  const ScOrders *const o = r->o;
  if (sc_pass_of_vocabulary (slot->pass))
    return vocab_ready (r, slot);
  const guint stages = sc_orders_stages (o), stage = sc_placement_stage (o->placement, o->p, rank, slot->chunk);
  const guint i = stage * o->m + slot->microbatch;
  const double latency = r->costs != NULL ? r->costs->latency : 0;
  if (slot->pass == SC_PASS_WEIGHT)
    return r->end[1][i];
  const gboolean forward = slot->pass == SC_PASS_FORWARD;
  const double own = forward ? 0 : r->end[0][i];
  if (own < 0 || (stage == (forward ? 0 : stages - 1) && o->vocab == SC_VOCAB_ENDS))
    return own;
  if (stage == (forward ? 0 : stages - 1))
    {
      const double shared = vocab_before (r, forward, slot->microbatch);
      return shared < 0 ? -1 : MAX (own, shared);
    }
  const guint from = forward ? stage - 1 : stage + 1;
  const double before = r->end[forward ? 0 : 1][from * o->m + slot->microbatch];
  if (before < 0)
    return -1;
  const gboolean here = sc_placement_rank (o->placement, o->p, from, slot->chunk) == rank;
  return MAX (own, before + (here ? 0 : latency));
}

/* Slots of @rank from @at on that run together; *ret_start: from when on they can, no earlier than @now; negative: not known yet. */
static guint
next_group (const Replay *r, guint rank, guint at, double now, double *ret_start, double *ret_took)
{
  const ScOrders *const o = r->o;
  const ScSlot *const slots = &g_array_index (o->ranks[rank], ScSlot, at);
  guint size = 0;
  *ret_start = now;
  *ret_took = 0;
  do
    {
      const double ready = ready_of (r, &slots[size], rank);
      *ret_start = ready < 0 || *ret_start < 0 ? -1 : MAX (*ret_start, ready);
      *ret_took += cost_of (r, &slots[size], sc_placement_stage (o->placement, o->p, rank, slots[size].chunk));
      size++;
    }
  while (at + size < o->ranks[rank]->len && slots[size].paired);
  return size;
}

static void
note_end (const Replay *r, guint rank, const ScSlot *slots, guint n, double end)
{
  const ScOrders *const o = r->o;
  for (guint i = 0; i < n; i++)
    if (sc_pass_of_vocabulary (slots[i].pass))
      {
        const gsize at = vocab_index (o, slots[i].pass, slots[i].microbatch);
        r->vocab[at] = MAX (r->vocab[at], end);
        r->ended[at]++;
      }
    else if (slots[i].pass != SC_PASS_WEIGHT)
      r->end[slots[i].pass == SC_PASS_FORWARD ? 0 : 1]
            [sc_placement_stage (o->placement, o->p, rank, slots[i].chunk) * o->m + slots[i].microbatch] = end;
}

static Replay
replay_new (const ScOrders *o, const ScScheduleCosts *costs)
{
  const gsize n = (gsize) sc_orders_stages (o) * o->m;
  const gsize n_vocab = o->vocab != SC_VOCAB_ENDS ? (SC_N_SLOT_PASSES - SC_N_PASSES) * (gsize) o->m : 0;
  Replay r = { o, costs, { g_new (double, n), g_new (double, n) }, g_new0 (double, n_vocab), g_new0 (guint, n_vocab) };
  for (gsize i = 0; i < n; i++)
    r.end[0][i] = r.end[1][i] = -1;
  return r;
}

static void
replay_clear (Replay *r)
{
  g_free (r->end[0]);
  g_free (r->end[1]);
  g_free (r->vocab);
  g_free (r->ended);
}

/* Of each rank when it began, when it ended, and how many slots it could run: [p]; @begins: NULL, or [p] when each slot began. */
static void
run_ranks (const ScOrders *o, const ScScheduleCosts *costs, double *begin, double *now, guint *at, double **begins)
{
  Replay r = replay_new (o, costs);
  for (gboolean moved = TRUE; moved;)
    {
      moved = FALSE;
      for (guint rank = 0; rank < o->p; rank++)
        while (at[rank] < o->ranks[rank]->len)
          {
            double start, took;
            const guint size = next_group (&r, rank, at[rank], now[rank], &start, &took);
            if (start < 0)
              break;
            if (at[rank] == 0)
              begin[rank] = start;
            for (guint i = 0; begins != NULL && i < size; i++)
              begins[rank][at[rank] + i] = start;
            now[rank] = start + took;
            note_end (&r, rank, &g_array_index (o->ranks[rank], ScSlot, at[rank]), size, now[rank]);
            at[rank] += size;
            moved = TRUE;
          }
    }
  replay_clear (&r);
}

double
sc_orders_replay (const ScOrders *o, const ScScheduleCosts *costs, guint *ret_rank, guint *ret_slot)
{
  g_autofree double *begin = g_new0 (double, o->p), *now = g_new0 (double, o->p);
  g_autofree guint *at = g_new0 (guint, o->p);
  run_ranks (o, costs, begin, now, at, NULL);
  double makespan = 0;
  for (guint rank = 0; rank < o->p; rank++)
    {
      if (at[rank] < o->ranks[rank]->len)
        {
          if (ret_rank != NULL)
            *ret_rank = rank;
          if (ret_slot != NULL)
            *ret_slot = at[rank];
          return -1;
        }
      makespan = MAX (makespan, now[rank]);
    }
  return makespan;
}

double **
sc_orders_begins (const ScOrders *o, const ScScheduleCosts *costs)
{
  g_autofree double *begin = g_new0 (double, o->p), *now = g_new0 (double, o->p);
  g_autofree guint *at = g_new0 (guint, o->p);
  double **const begins = g_new (double *, o->p);
  gboolean whole = TRUE;
  for (guint rank = 0; rank < o->p; rank++)
    begins[rank] = g_new0 (double, o->ranks[rank]->len);
  run_ranks (o, costs, begin, now, at, begins);
  for (guint rank = 0; rank < o->p; rank++)
    whole &= at[rank] == o->ranks[rank]->len;
  if (whole)
    return begins;
  for (guint rank = 0; rank < o->p; rank++)
    g_free (begins[rank]);
  g_free (begins);
  return NULL;
}

double
sc_orders_span (const ScOrders *o, const ScScheduleCosts *costs)
{
  g_autofree double *begin = g_new0 (double, o->p), *now = g_new0 (double, o->p);
  g_autofree guint *at = g_new0 (guint, o->p);
  run_ranks (o, costs, begin, now, at, NULL);
  double longest = 0;
  for (guint rank = 0; rank < o->p; rank++)
    longest = MAX (longest, now[rank] - begin[rank]);
  return longest;
}

gboolean
sc_orders_hands_on (const ScOrders *o, guint rank, const ScSlot *slot, gboolean output, guint *ret_rank)
{
  const guint stage = sc_placement_stage (o->placement, o->p, rank, slot->chunk);
  const gboolean up = (slot->pass == SC_PASS_FORWARD) == output; /* to or from the stage behind this one */
  if (slot->pass == SC_PASS_WEIGHT || sc_pass_of_vocabulary (slot->pass) || stage == (up ? sc_orders_stages (o) - 1 : 0))
    return FALSE;
  *ret_rank = sc_placement_rank (o->placement, o->p, up ? stage + 1 : stage - 1, slot->chunk);
  return TRUE;
}

/* Where in its rank's order a slot stands that takes an input: by pass (two), chunk, micro-batch. */
static guint32 **
find_takers (const ScOrders *o)
{
  const guint n_chunks = sc_placement_chunks (o->placement, o->v);
  guint32 **const of_rank = g_new (guint32 *, o->p);
  for (guint rank = 0; rank < o->p; rank++)
    {
      of_rank[rank] = g_new0 (guint32, (gsize) 2 * n_chunks * o->m);
      for (guint i = 0; i < o->ranks[rank]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
          if (slot->pass != SC_PASS_WEIGHT && !sc_pass_of_vocabulary (slot->pass))
            of_rank[rank][((slot->pass == SC_PASS_FORWARD ? 0 : n_chunks) + slot->chunk) * o->m + slot->microbatch] = i;
        }
    }
  return of_rank;
}

static void
put_action (GArray *actions, ScActionKind kind, guint slot, guint n)
{
  const ScAction action = { (guint8) kind, slot, n };
  g_array_append_val (actions, action);
}

/* The output of slot @at of @rank, where it goes to another rank. */
static void
put_transfers (const ScOrders *o, guint32 *const *takers, guint rank, guint at, GArray **actions)
{
  const guint n_chunks = sc_placement_chunks (o->placement, o->v);
  const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, at);
  guint to;
  if (!sc_orders_hands_on (o, rank, slot, TRUE, &to) || to == rank)
    return;
  const guint stage = sc_placement_stage (o->placement, o->p, rank, slot->chunk);
  const gboolean forward = slot->pass == SC_PASS_FORWARD;
  const guint chunk = sc_placement_chunk (o->placement, o->p, forward ? stage + 1 : stage - 1, slot->chunk);
  put_action (actions[rank], SC_ACTION_SEND, at, 1);
  put_action (actions[to], SC_ACTION_RECEIVE, takers[to][((forward ? 0 : n_chunks) + chunk) * o->m + slot->microbatch], 1);
}

/* Where in each rank's order its passes over the vocabulary stand: [p] arrays [passes of the vocabulary * m]; NULL: there are none. */
static guint32 **
find_vocabulary (const ScOrders *o)
{
  if (o->vocab == SC_VOCAB_ENDS)
    return NULL;
  guint32 **const of_rank = g_new (guint32 *, o->p);
  for (guint rank = 0; rank < o->p; rank++)
    {
      of_rank[rank] = g_new0 (guint32, (SC_N_SLOT_PASSES - SC_N_PASSES) * (gsize) o->m);
      for (guint i = 0; i < o->ranks[rank]->len; i++)
        {
          const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, i);
          if (sc_pass_of_vocabulary (slot->pass))
            of_rank[rank][vocab_index (o, slot->pass, slot->microbatch)] = i;
        }
    }
  return of_rank;
}

/* What all ranks do together once slot @at of @rank has ended, each in its turn. */
static void
put_shared (const ScOrders *o, guint32 *const *vocabulary, guint *left, guint rank, guint at, GArray **actions)
{
  const ScSlot *const slot = &g_array_index (o->ranks[rank], ScSlot, at);
  const guint stage = sc_placement_stage (o->placement, o->p, rank, slot->chunk);
  ScActionKind kind = SC_ACTION_BROADCAST;
  guint pass;
  if (vocabulary == NULL)
    return;
  if (sc_pass_of_vocabulary (slot->pass))
    {
      kind = SC_ACTION_SUM;
      pass = slot->pass;
      if (!sc_orders_sums (o, pass) || --left[vocab_index (o, pass, slot->microbatch)] > 0)
        return;
    }
  else if (slot->pass == SC_PASS_FORWARD && stage == sc_orders_stages (o) - 1 && o->vocab != SC_VOCAB_INTERLACED)
    pass = SC_PASS_LOGITS;
  else if ((slot->pass == SC_PASS_BACKWARD || slot->pass == SC_PASS_INPUT) && stage == 0)
    pass = SC_PASS_TABLE_WEIGHT;
  else
    return;
  for (guint r = 0; r < o->p; r++)
    put_action (actions[r], kind, vocabulary[r][vocab_index (o, pass, slot->microbatch)], 1);
}

/* A group of slots that has begun. */
typedef struct
{
  double end;
  guint  rank, slot, n;
} Running;

/* The one that ends first, of those that end first the one that began first; or NULL. */
static const Running *
first_to_end (const GArray *running, guint *ret_index)
{
  const Running *first = NULL;
  for (guint i = 0; i < running->len; i++)
    {
      const Running *const r = &g_array_index (running, Running, i);
      if (first != NULL && r->end >= first->end)
        continue;
      first = r;
      *ret_index = i;
    }
  return first;
}

GArray **
sc_orders_actions (const ScOrders *o, const ScScheduleCosts *costs)
{
  Replay r = replay_new (o, costs);
  GArray **const actions = g_new (GArray *, o->p);
  guint32 **const takers = find_takers (o), **const vocabulary = find_vocabulary (o);
  const gsize n_vocab = vocabulary != NULL ? (SC_N_SLOT_PASSES - SC_N_PASSES) * (gsize) o->m : 0;
  g_autofree guint *left = g_new (guint, n_vocab); /* ranks that have not run a pass over the vocabulary */
  for (gsize i = 0; i < n_vocab; i++)
    left[i] = o->p;
  g_autoptr (GArray) running = g_array_new (FALSE, FALSE, sizeof (Running));
  g_autofree double *now = g_new0 (double, o->p);
  g_autofree guint *at = g_new0 (guint, o->p);
  for (guint rank = 0; rank < o->p; rank++)
    actions[rank] = g_array_new (FALSE, FALSE, sizeof (ScAction));
  for (;;)
    {
      Running best = { .rank = o->p }; /* that begins first */
      double begin = 0;
      for (guint rank = 0; rank < o->p; rank++)
        {
          double start, took;
          if (at[rank] == o->ranks[rank]->len)
            continue;
          const guint size = next_group (&r, rank, at[rank], now[rank], &start, &took);
          if (start < 0 || (best.rank < o->p && start >= begin))
            continue;
          best = (Running) { start + took, rank, at[rank], size };
          begin = start;
        }
      guint index = 0;
      const Running *const ended = first_to_end (running, &index);
      if (ended != NULL && (best.rank == o->p || ended->end <= begin))
        {
          for (guint i = 0; i < ended->n; i++)
            {
              put_transfers (o, takers, ended->rank, ended->slot + i, actions);
              put_shared (o, vocabulary, left, ended->rank, ended->slot + i, actions);
            }
          g_array_remove_index (running, index);
          continue;
        }
      if (best.rank == o->p)
        break;
      now[best.rank] = best.end;
      note_end (&r, best.rank, &g_array_index (o->ranks[best.rank], ScSlot, best.slot), best.n, best.end);
      put_action (actions[best.rank], SC_ACTION_RUN, best.slot, best.n);
      g_array_append_val (running, best);
      at[best.rank] += best.n;
    }
  for (guint rank = 0; rank < o->p; rank++)
    {
      g_assert (at[rank] == o->ranks[rank]->len);
      g_free (takers[rank]);
      if (vocabulary != NULL)
        g_free (vocabulary[rank]);
    }
  g_free (takers);
  g_free (vocabulary);
  replay_clear (&r);
  return actions;
}

double
sc_orders_ideal_bubble (const ScOrders *o, const ScSchedule *row, const ScScheduleShape *shape, gboolean staggered)
{
  if (row->ideal_bubble != NULL && !staggered && o->vocab == SC_VOCAB_ENDS)
    return row->ideal_bubble (shape);
  const double busy = 3.0 * o->v * o->m; /* of a rank: two directions have half of the micro-batches each */
  g_autoptr (ScOrders) equal = row->orders != NULL && o->vocab == SC_VOCAB_ENDS ? sc_orders_new (row, shape, NULL, NULL) : NULL; /* another order for other costs */
  const ScOrders *const orders = equal != NULL ? equal : o;
  return (staggered ? sc_orders_span (orders, NULL) : sc_orders_replay (orders, NULL, NULL, NULL)) / busy - 1;
}
