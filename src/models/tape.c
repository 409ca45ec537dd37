/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tape.c - lists of items are summed once, so that reading a tape costs one look at each entry. */
#include "models/tape.h"
#include "models/layer.h"
#include "models/summary.h"
#include <string.h>

/* A list from its beginning to its end. */
typedef struct
{
  gint64 peak;                /* most above what was there before, at least 0 ... */
  gint64 at_peak[SC_N_MEMS];  /* ... and what it is then */
  gint64 net[SC_N_MEMS], sum; /* what it leaves */
} Shape;

static Shape
shape_of (const GArray *items, guint32 from, guint32 to)
{
  Shape s = { 0 };
  for (guint32 i = from; i < MIN (to, items->len); i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind != SC_ITEM_MEM)
        continue;
      s.net[item->mem] += item->mem_bytes;
      s.sum += item->mem_bytes;
      if (s.sum <= s.peak)
        continue;
      s.peak = s.sum;
      memcpy (s.at_peak, s.net, sizeof s.at_peak);
    }
  return s;
}

guint32
sc_tape_fullest_item (const GArray *items)
{
  gint64 sum = 0, most = 0;
  guint32 ret = 0;
  for (guint32 i = 0; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      sum += item->kind == SC_ITEM_MEM ? item->mem_bytes : 0;
      if (sum <= most)
        continue;
      most = sum;
      ret = i + 1;
    }
  return ret;
}

/* Do items @i, which allocates, and @k, which frees, speak of one tensor? */
static gboolean
is_freed_by (const ScItem *i, const ScItem *k)
{
  return i->kind == SC_ITEM_MEM && i->mem_bytes == -k->mem_bytes && i->mem == k->mem && i->tensor == k->tensor;
}

/* Tensors that live and die in one list: each free takes the latest of them that fits. */
static guint32 *
pair_inside (const GArray *items)
{
  guint32 *const ret = g_new (guint32, MAX (items->len, 1));
  for (guint32 k = 0; k < items->len; k++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, k);
      ret[k] = SC_TAPE_OUTSIDE;
      if (item->kind != SC_ITEM_MEM || item->mem_bytes >= 0)
        continue;
      for (guint32 i = k; i-- > 0;)
        if (ret[i] == SC_TAPE_OUTSIDE && is_freed_by (&g_array_index (items, ScItem, i), item))
          {
            ret[k] = i;
            ret[i] = k;
            break;
          }
    }
  return ret;
}

static void
list_unref (gpointer data)
{
  g_array_unref (data);
}

ScTape *
sc_tape_new (void)
{
  ScTape *const t = g_new0 (ScTape, 1);
  t->entries = g_array_new (FALSE, FALSE, sizeof (ScTapeEntry));
  t->lists = g_ptr_array_new_with_free_func (list_unref);
  t->shapes = g_array_new (FALSE, FALSE, sizeof (Shape));
  t->inside = g_ptr_array_new_with_free_func (g_free);
  t->known = g_hash_table_new (NULL, NULL);
  return t;
}

void
sc_tape_free (ScTape *t)
{
  if (t == NULL)
    return;
  g_array_unref (t->entries);
  g_ptr_array_unref (t->lists);
  g_array_unref (t->shapes);
  g_ptr_array_unref (t->inside);
  g_hash_table_unref (t->known);
  g_free (t);
}

static guint32
list_index (ScTape *t, GArray *items)
{
  const guint known = GPOINTER_TO_UINT (g_hash_table_lookup (t->known, items));
  if (known > 0)
    return known - 1;
  const Shape shape = shape_of (items, 0, items->len);
  g_ptr_array_add (t->lists, g_array_ref (items));
  g_array_append_val (t->shapes, shape);
  g_ptr_array_add (t->inside, pair_inside (items));
  g_hash_table_insert (t->known, items, GUINT_TO_POINTER (t->lists->len));
  return t->lists->len - 1;
}

void
sc_tape_put_list (ScTape *t, GArray *items, guint32 from, guint32 to, guint32 info, guint32 op)
{
  const ScTapeEntry entry = { .kind = SC_TAPE_LIST, .list = list_index (t, items), .from = from, .to = MIN (to, items->len), .info = info, .op = op };
  if (entry.from < entry.to)
    g_array_append_val (t->entries, entry);
}

void
sc_tape_put (ScTape *t, ScTapeEntry entry)
{
  t->begun |= entry.kind == SC_TAPE_MARK;
  if (entry.kind == SC_TAPE_CHANGE && !t->begun)
    entry.kind = SC_TAPE_STATE;
  g_array_append_val (t->entries, entry);
}

static void
shift_entries (ScTape *t, guint32 first, guint32 end, guint shift)
{
  for (guint32 i = first; i < end; i++)
    {
      ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, i);
      ScOpInfo info = sc_info_unpack (e->info);
      info.microbatch += info.microbatch != SC_INFO_NO_MICROBATCH ? shift : 0;
      e->info = sc_info_pack (info);
    }
}

void
sc_tape_repeat (ScTape *t, guint32 first, guint32 end, guint times, guint shift)
{
  const guint32 length = end - first, behind = t->entries->len - end;
  ScTapeEntry *const rest = g_memdup2 (&g_array_index (t->entries, ScTapeEntry, end), behind * sizeof *rest);
  g_array_set_size (t->entries, t->entries->len + times * length);
  ScTapeEntry *const entries = (ScTapeEntry *) (gpointer) t->entries->data;
  for (guint i = 0; i < times; i++)
    {
      const guint32 at = end + i * length;
      memcpy (entries + at, entries + at - length, length * sizeof *entries);
      shift_entries (t, at, at + length, shift);
    }
  memcpy (entries + end + times * length, rest, behind * sizeof *rest);
  shift_entries (t, end + times * length, t->entries->len, times * shift);
  g_free (rest);
}

/* What an entry does to a curve. */
static Shape
entry_shape (const ScTape *t, const ScTapeEntry *e)
{
  Shape s = { 0 };
  if (e->kind == SC_TAPE_OPTIMIZER || e->kind == SC_TAPE_MARK)
    return s;
  if (e->kind == SC_TAPE_LIST)
    {
      const GArray *const items = g_ptr_array_index (t->lists, e->list);
      return e->from == 0 && e->to == items->len ? g_array_index (t->shapes, Shape, e->list) : shape_of (items, e->from, e->to);
    }
  s.net[e->mem] = s.sum = e->bytes;
  s.peak = MAX (e->bytes, 0);
  s.at_peak[e->mem] = s.peak;
  return s;
}

/* Is there before the step begins, in all steps but the first? */
static gboolean
is_state (const ScTapeEntry *e)
{
  return e->kind == SC_TAPE_STATE || e->kind == SC_TAPE_LAZY || e->kind == SC_TAPE_LATE;
}

/* Highest from entry @from on.  States alone count as they are when the step begins: what came and went before is no part of it. */
static ScTapePeak
peak_from (const ScTape *t, guint32 from)
{
  ScTapePeak peak = { .entry = G_MAXUINT32 };
  gint64 now = 0, by_kind[SC_N_MEMS] = { 0 };
  for (guint32 i = 0; i < t->entries->len; i++)
    {
      const ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, i);
      const Shape s = entry_shape (t, e);
      const gboolean states = is_state (e), higher = i >= from && now + s.peak > (gint64) peak.bytes;
      for (guint k = 0; k < SC_N_MEMS; k++)
        {
          if (!states && higher)
            peak.by_kind[k] = (guint64) (by_kind[k] + s.at_peak[k]);
          by_kind[k] += s.net[k];
          if (states && from == 0)
            peak.by_kind[k] = (guint64) MAX (by_kind[k], 0);
        }
      now += s.sum;
      if (higher || (states && from == 0))
        {
          peak.bytes = (guint64) (states ? now : now - s.sum + s.peak);
          peak.entry = i;
        }
    }
  return peak;
}

ScTapePeak
sc_tape_peak (const ScTape *t)
{
  return peak_from (t, 0);
}

ScTapePeak
sc_tape_late_peak (const ScTape *t)
{
  guint32 from = t->entries->len;
  while (from > 0)
    {
      const ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, from - 1);
      if (e->kind == SC_TAPE_LIST && sc_info_unpack (e->info).microbatch != SC_INFO_NO_MICROBATCH)
        break;
      from--;
    }
  return peak_from (t, from);
}

void
sc_tape_rest (const ScTape *t, gint64 *ret_by_kind)
{
  memset (ret_by_kind, 0, SC_N_MEMS * sizeof *ret_by_kind);
  for (guint32 i = 0; i < t->entries->len; i++)
    {
      const ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, i);
      const Shape s = entry_shape (t, e);
      for (guint k = 0; k < SC_N_MEMS && !is_state (e); k++)
        ret_by_kind[k] += s.net[k];
    }
}
