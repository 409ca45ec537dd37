/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-pair.c - a forward and a backward pass in turns: the all-to-all of one hides behind compute of the other.
 *
 * DualPipe (arXiv 2412.19437, section 3.2.1) and Megatron's overlap_moe_expert_parallel_comm run two micro-batches in turns on one compute
 * stream.  Each pass goes on until it needs an all-to-all over the expert-parallel group; that is put beside compute, and the other
 * pass goes on behind its own, which by then has had the time in between.  Everything else keeps its order. */
#include "models/lower-parts.h"

/* One of the two passes. */
typedef struct
{
  const ScSlot *slot;
  const Priced **lists;
  guint *layers, n_lists;
  guint  list, item;      /* where it stands */
  gboolean waits;         /* for the all-to-all that it has put beside compute */
} Side;

typedef struct
{
  PricedItem item;
  guint side;
  guint layer;
} Step;

static void
side_init (Lower *l, const ScSlot *slot, Side *s)
{
  sc_lower_enter_slot (l, slot);
  const guint most = 2 * l->in->sizes->layers[sc_plan_stage (l->plan, l->at.pp, slot->chunk)] + 2;
  *s = (Side) { .slot = slot, .lists = g_new (const Priced *, most), .layers = g_new (guint, most) };
  s->n_lists = sc_lower_chunk_lists (l, slot->chunk, (ScPass) slot->pass, s->lists, s->layers);
}

static void
side_clear (Side *s)
{
  g_free (s->lists);
  g_free (s->layers);
}

/* What comes next, or NULL at the end. */
static const PricedItem *
side_item (Side *s)
{
  for (; s->list < s->n_lists; s->list++, s->item = 0)
    if (s->item < s->lists[s->list]->n)
      return &s->lists[s->list]->items[s->item];
  return NULL;
}

static void
put_step (GArray *steps, const Side *s, guint side, const PricedItem *item, ScItemKind kind)
{
  Step step = { *item, side, s->list < s->n_lists ? s->layers[s->list] : SC_INFO_NO_LAYER };
  step.item.kind = (guint8) kind;
  g_array_append_val (steps, step);
}

static void
put_wait (GArray *steps, Side *s, guint side)
{
  static const PricedItem wait = { .comm = SC_COMM_EP };
  if (s->waits)
    put_step (steps, s, side, &wait, SC_ITEM_COLLECTIVE_WAIT);
  s->waits = FALSE;
}

/* One side runs until it has to wait for an all-to-all, or to its end.  Its own all-to-alls that it already runs beside its compute (shared
 * experts) stay where they begin, and the other side gets its turn where they are waited for.  What else the group has to do on the compute
 * stream (row counts) stands behind the other side's all-to-all in the one communicator, so compute waits for that first. */
static void
run (GArray *steps, Side *sides, guint side)
{
  Side *const s = &sides[side];
  const PricedItem *item;
  put_wait (steps, s, side);
  while ((item = side_item (s)) != NULL)
    {
      s->item++;
      const gboolean exchange = item->comm == SC_COMM_EP && item->coll == SC_COLL_ALL_TO_ALL;
      if (exchange && item->kind == SC_ITEM_COLLECTIVE)
        put_step (steps, s, side, item, SC_ITEM_COLLECTIVE_START);
      else if (!(item->kind == SC_ITEM_COLLECTIVE_WAIT && item->comm == SC_COMM_EP))
        {
          if (item->kind == SC_ITEM_COLLECTIVE && item->comm == SC_COMM_EP)
            put_wait (steps, &sides[side ^ 1], side ^ 1);
          put_step (steps, s, side, item, (ScItemKind) item->kind);
          continue;
        }
      s->waits = TRUE;
      return;
    }
}

/* Step by step in turns. */
static GArray *
interleave (Side *sides)
{
  GArray *const steps = g_array_new (FALSE, FALSE, sizeof (Step));
  for (guint turn = 0; side_item (&sides[0]) != NULL || side_item (&sides[1]) != NULL || sides[0].waits || sides[1].waits; turn ^= 1)
    run (steps, sides, turn);
  return steps;
}

static guint
phase_of (const ScSlot *slot)
{
  return slot->pass == SC_PASS_FORWARD ? 0 : slot->pass == SC_PASS_WEIGHT ? 3 : 1;
}

static void
put_kernels (Lower *l, const GArray *steps, const Side *sides)
{
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *const step = &g_array_index (steps, Step, i);
      const ScSlot *const slot = sides[step->side].slot;
      l->info = (ScOpInfo) { slot->microbatch, slot->chunk, step->layer, phase_of (slot) };
      sc_lower_put_item (l, &step->item, phase_of (slot));
    }
  for (guint i = 0; i < 2; i++)
    for (guint k = 0; k < sides[i].n_lists; k++)
      for (guint g = 0; g < SC_N_GRADES; g++)
        l->grade_ps[g] += sides[i].lists[k]->grade_ps[g];
}

static Merged *
merge_pair (Lower *l, const GArray *steps, const Side *sides)
{
  Priced both = { .items = g_new (PricedItem, MAX (steps->len, 1)), .n = steps->len };
  for (guint i = 0; i < steps->len; i++)
    both.items[i] = g_array_index (steps, Step, i).item;
  for (guint i = 0; i < 2; i++)
    for (guint k = 0; k < sides[i].n_lists; k++)
      for (guint g = 0; g < SC_N_GRADES; g++)
        both.grade_ps[g] += sides[i].lists[k]->grade_ps[g];
  const Priced *const list = &both;
  Merged *const m = sc_lower_merge (l, &list, 1);
  g_free (both.items);
  return m;
}

/* The same for all pairs that are alike; freed by the caller. */
static char *
pair_key (Lower *l, const ScSlot *first, const ScSlot *second)
{
  const ScSlot *const slots[] = { first, second };
  GString *const key = g_string_new (NULL);
  for (guint i = 0; i < 2; i++)
    {
      sc_lower_enter_slot (l, slots[i]);
      g_string_append_printf (key, "%u %u %u %d;", slots[i]->chunk, slots[i]->pass, l->factor, l->partial);
    }
  return g_string_free (key, FALSE);
}

/* What both passes allocate, unit by unit: while one unit is fullest the other side's runs. */
static void
tape_pair (Lower *l, const Side *sides)
{
  for (guint i = 0; i < MAX (sides[0].n_lists, sides[1].n_lists); i++)
    {
      guint32 half = 0; /* of the first side's unit */
      for (guint part = 0; part < 3; part++)
        {
          const Side *const s = &sides[part % 2];
          if (i >= s->n_lists)
            continue;
          l->info = (ScOpInfo) { s->slot->microbatch, s->slot->chunk, s->layers[i], phase_of (s->slot) };
          half = part == 0 ? sc_tape_fullest_item (s->lists[i]->from) : half;
          sc_lower_tape_list (l, s->lists[i], part == 2 ? half : 0, part == 0 ? half : G_MAXUINT);
        }
    }
}

void
sc_lower_put_pair (Lower *l, const ScSlot *first, const ScSlot *second)
{
  Side sides[2];
  side_init (l, first, &sides[0]);
  side_init (l, second, &sides[1]);
  tape_pair (l, sides);
  g_autoptr (GArray) steps = NULL;
  if (l->in->detail == SC_DETAIL_KERNEL)
    {
      steps = interleave (sides);
      put_kernels (l, steps, sides);
    }
  else
    {
      g_autofree char *key = pair_key (l, first, second);
      Merged *m = g_hash_table_lookup (l->pairs, key);
      if (m == NULL)
        {
          steps = interleave (sides);
          m = merge_pair (l, steps, sides);
          g_hash_table_insert (l->pairs, g_steal_pointer (&key), m);
        }
      l->info = (ScOpInfo) { second->microbatch, second->chunk, SC_INFO_NO_LAYER, phase_of (second) };
      sc_lower_put_merged (l, m, phase_of (second));
    }
  side_clear (&sides[0]);
  side_clear (&sides[1]);
}
