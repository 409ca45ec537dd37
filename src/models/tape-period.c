/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tape-period.c - where a tape repeats itself with later micro-batches. */
#include "models/summary.h"
#include "models/tape.h"

#define MOST_SLOTS 1024 /* of one period: an interleaved group of 64 micro-batches in 8 chunks, both ways */
#define FEWEST_PERIODS 4

static const ScTapeEntry *
entry_at (const ScTape *t, guint32 i)
{
  return &g_array_index (t->entries, ScTapeEntry, i);
}

static gboolean
of_microbatch (const ScTapeEntry *e, guint *ret)
{
  *ret = sc_info_unpack (e->info).microbatch;
  return e->kind == SC_TAPE_LIST && *ret != SC_INFO_NO_MICROBATCH;
}

/* The same, of a micro-batch @shift later.  Marks say nothing of their own. */
static gboolean
repeats (const ScTapeEntry *a, const ScTapeEntry *b, guint shift)
{
  if (a->kind != b->kind)
    return FALSE;
  if (a->kind == SC_TAPE_MARK)
    return TRUE;
  const ScOpInfo x = sc_info_unpack (a->info), y = sc_info_unpack (b->info);
  const guint expected = x.microbatch == SC_INFO_NO_MICROBATCH ? x.microbatch : x.microbatch + shift;
  return a->bytes == b->bytes && a->name == b->name && a->list == b->list && a->from == b->from && a->to == b->to && a->mem == b->mem
         && a->stream == b->stream && x.chunk == y.chunk && x.layer == y.layer && x.phase == y.phase && y.microbatch == expected;
}

/* The longest stretch around @middle in which every entry comes again @length later. */
static void
stretch (const ScTape *t, guint32 middle, ScTapePeriod *p)
{
  const guint32 n = t->entries->len;
  guint32 from = middle, to = middle;
  while (from > 0 && from - 1 + p->length < n && repeats (entry_at (t, from - 1), entry_at (t, from - 1 + p->length), p->shift))
    from--;
  while (to + p->length < n && repeats (entry_at (t, to), entry_at (t, to + p->length), p->shift))
    to++;
  p->first = from;
  p->end = to + p->length;
}

static guint32
next_mark (const ScTape *t, guint32 i)
{
  while (i < t->entries->len && entry_at (t, i)->kind != SC_TAPE_MARK)
    i++;
  return i;
}

static guint32
next_pass (const ScTape *t, guint32 i)
{
  guint microbatch;
  while (i < t->entries->len && !of_microbatch (entry_at (t, i), &microbatch))
    i++;
  return i;
}

gboolean
sc_tape_period (const ScTape *t, ScTapePeriod *ret)
{
  const guint32 n = t->entries->len, middle = next_mark (t, n / 2);
  guint first, later;
  const guint32 pass = next_pass (t, middle);
  if (pass >= n || !of_microbatch (entry_at (t, pass), &first))
    return FALSE;
  guint32 mark = middle;
  for (guint slots = 1; slots <= MOST_SLOTS; slots++)
    {
      mark = next_mark (t, mark + 1);
      const guint32 again = next_pass (t, mark);
      if (again >= n || !of_microbatch (entry_at (t, again), &later))
        return FALSE;
      *ret = (ScTapePeriod) { .length = mark - middle, .shift = later - first };
      if (later <= first || !repeats (entry_at (t, pass), entry_at (t, again), ret->shift))
        continue;
      stretch (t, middle, ret);
      if (ret->end - ret->first >= FEWEST_PERIODS * ret->length)
        return TRUE;
    }
  return FALSE;
}
