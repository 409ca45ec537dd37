/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tape-play.c - each change of a tape becomes requests to the allocator.
 *
 * A tensor that a layer has a name for is freed by that name, in the same micro-batch and layer.  Any other free takes the latest tensor of
 * its kind that has just its size, of the same pass if there is one; where none has (sums of several), it takes the latest ones
 * until it has its bytes, and what is left of the last one stays. */
#include "models/tape-play.h"
#include "models/layer.h"
#include "models/summary.h"
#include <string.h>

#define NONE G_MAXUINT32
#define PASS_OF_INFO 0x3fffffffu /* micro-batch, chunk and layer */

typedef struct
{
  ScLiveTensor tensor;
  guint32 handle;
  guint32 older;  /* named: another one of that name, or NONE */
  guint8  stream;
  gboolean used;
} Live;

typedef struct
{
  const ScTape *tape;
  const ScPlayOptions *options;
  ScTapePlay *ret;
  ScAllocator *allocator;
  GArray *live;                /* Live */
  GArray *spare;               /* guint32: of no use */
  GHashTable *named;           /* guint64 * -> index + 1 */
  GArray *others[SC_N_MEMS];   /* guint32: those without a name, in order of birth */
  GArray *inside;              /* guint32: by item of the list that is played, what lives no longer than it: index */
  guint64 by_kind[SC_N_MEMS], now;
  guint64 highest_by_kind[SC_N_MEMS], highest; /* of the entry, so far */
  ScTapePeak peak;             /* of the second step */
  GArray *sent;                /* Sent, in order of their ends */
  gboolean sending;            /* what is freed now was sent */
  guint64 issued;              /* ops so far */
  guint step;
  gboolean backward;           /* has begun, in the first step */
  gboolean seen;               /* the second step's peak */
  guint32 entry;
  gboolean periodic;
  ScTapePeriod period;
  GArray *signatures;          /* guint64: at the beginning of each period of the step, so far */
} Play;

static Live *
live_at (const Play *p, guint32 i)
{
  return &g_array_index (p->live, Live, i);
}

/* Of a named tensor in Play.named. */
static gpointer
name_key (guint8 tensor, guint32 info)
{
  G_STATIC_ASSERT (sizeof (gpointer) == sizeof (guint64));
  return GSIZE_TO_POINTER ((guint64) tensor << 32 | (info & PASS_OF_INFO));
}

/* ---- what is alive at the peak ---- */

static int
larger_first (gconstpointer a, gconstpointer b)
{
  const ScLiveTensor *const x = a, *const y = b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  if (x->mem != y->mem)
    return x->mem < y->mem ? -1 : 1;
  return (x->info > y->info) - (x->info < y->info);
}

static void
note_peak (Play *p)
{
  ScTapePlay *const r = p->ret;
  r->allocated[p->step] = MAX (r->allocated[p->step], p->now);
  if (r->curve != NULL && p->now > p->highest)
    {
      p->highest = p->now;
      memcpy (p->highest_by_kind, p->by_kind, sizeof p->by_kind);
    }
  if (p->step == 0 || p->seen || p->now < p->peak.bytes)
    return;
  p->seen = TRUE;
  r->reserved_at_peak = sc_allocator_stats (p->allocator).reserved;
  if (!p->options->live)
    return;
  for (guint i = 0; i < p->live->len; i++)
    if (live_at (p, i)->used)
      g_array_append_val (r->live, live_at (p, i)->tensor);
  g_array_sort (r->live, larger_first);
}

/* ---- births and deaths ---- */

/* A block that is free for the host, but not for the GPU. */
typedef struct
{
  guint32 handle;
  guint64 issued; /* ops, when it was freed */
} Sent;

/* Gives back what the GPU has passed; @all: the host waits for it. */
static void
give_sent (Play *p, gboolean all)
{
  guint n = 0;
  for (; n < p->sent->len; n++)
    {
      const Sent *const s = &g_array_index (p->sent, Sent, n);
      if (!all && s->issued + p->options->ahead > p->issued)
        break;
      sc_allocator_give (p->allocator, s->handle);
    }
  if (n > 0)
    g_array_remove_range (p->sent, 0, n);
}

/* Without memory the allocator waits for all streams before it gives up. */
static guint32
take (Play *p, guint8 stream, guint64 bytes)
{
  give_sent (p, FALSE);
  const guint32 handle = sc_allocator_take (p->allocator, stream, bytes);
  if (handle != SC_ALLOCATOR_FAILED || p->sent->len == 0)
    return handle;
  give_sent (p, TRUE);
  return sc_allocator_take (p->allocator, stream, bytes);
}

/* Index of a new tensor, or NONE: out of memory. */
static guint32
born (Play *p, guint8 stream, ScLiveTensor tensor)
{
  const guint32 handle = take (p, stream, (guint64) tensor.bytes);
  if (handle == SC_ALLOCATOR_FAILED)
    {
      p->ret->out_of_memory = TRUE;
      p->ret->failed = p->entry;
      return NONE;
    }
  guint32 i = p->live->len;
  if (p->spare->len > 0)
    {
      i = g_array_index (p->spare, guint32, p->spare->len - 1);
      g_array_set_size (p->spare, p->spare->len - 1);
    }
  else
    g_array_set_size (p->live, i + 1);
  *live_at (p, i) = (Live) { tensor, handle, NONE, stream, TRUE };
  p->by_kind[tensor.mem] += (guint64) tensor.bytes;
  p->now += (guint64) tensor.bytes;
  note_peak (p);
  return i;
}

static gboolean
allocate (Play *p, guint8 stream, ScLiveTensor tensor, guint8 name)
{
  const guint32 i = born (p, stream, tensor);
  if (i == NONE)
    return FALSE;
  if (name > 0)
    {
      const gpointer key = name_key (name, tensor.info);
      const guint before = GPOINTER_TO_UINT (g_hash_table_lookup (p->named, key));
      live_at (p, i)->older = before > 0 ? before - 1 : NONE;
      g_hash_table_insert (p->named, key, GUINT_TO_POINTER (i + 1));
    }
  else
    g_array_append_val (p->others[tensor.mem], i);
  return TRUE;
}

static void
bury (Play *p, guint32 i)
{
  Live *const l = live_at (p, i);
  const Sent sent = { l->handle, p->issued };
  if (p->sending && p->options->ahead > 0)
    g_array_append_val (p->sent, sent);
  else
    sc_allocator_give (p->allocator, l->handle);
  p->by_kind[l->tensor.mem] -= (guint64) l->tensor.bytes;
  p->now -= (guint64) l->tensor.bytes;
  l->used = FALSE;
  g_array_append_val (p->spare, i);
}

/* Frees the tensor of that name; FALSE: it is not there with that size. */
static gboolean
free_named (Play *p, guint8 name, guint32 info, guint8 mem, gint64 bytes)
{
  const gpointer key = name_key (name, info);
  const guint found = GPOINTER_TO_UINT (g_hash_table_lookup (p->named, key));
  if (found == 0)
    return FALSE;
  const Live *const l = live_at (p, found - 1);
  if (l->tensor.bytes != bytes || l->tensor.mem != mem)
    return FALSE;
  if (l->older == NONE)
    g_hash_table_remove (p->named, key);
  else
    g_hash_table_insert (p->named, key, GUINT_TO_POINTER (l->older + 1));
  bury (p, found - 1);
  return TRUE;
}

/* Frees the latest other one of that kind and size, of the pass @info if there is one. */
static gboolean
free_alike (Play *p, guint8 mem, gint64 bytes, guint32 info)
{
  GArray *const others = p->others[mem];
  guint latest = NONE;
  for (guint k = others->len; k-- > 0;)
    {
      const ScLiveTensor *const t = &live_at (p, g_array_index (others, guint32, k))->tensor;
      if (t->bytes != bytes)
        continue;
      const gboolean same = ((t->info ^ info) & PASS_OF_INFO) == 0;
      if (latest == NONE || same)
        latest = k;
      if (same)
        break;
    }
  if (latest == NONE)
    return FALSE;
  bury (p, g_array_index (others, guint32, latest));
  g_array_remove_index (others, latest);
  return TRUE;
}

static void
free_loose (Play *p, guint8 mem, gint64 bytes)
{
  GArray *const others = p->others[mem];
  p->ret->n_loose++;
  while (bytes > 0 && others->len > 0)
    {
      const guint32 i = g_array_index (others, guint32, others->len - 1);
      const Live l = *live_at (p, i);
      g_array_set_size (others, others->len - 1);
      bury (p, i);
      if (l.tensor.bytes > bytes)
        {
          ScLiveTensor rest = l.tensor;
          rest.bytes -= bytes;
          allocate (p, l.stream, rest, 0); /* fits where it was */
        }
      bytes -= MIN (l.tensor.bytes, bytes);
    }
}

static gboolean
change (Play *p, guint8 stream, ScLiveTensor tensor, guint8 name)
{
  if (tensor.bytes >= 0)
    return tensor.bytes == 0 || allocate (p, stream, tensor, name);
  const gint64 bytes = -tensor.bytes;
  if (!(name > 0 && free_named (p, name, tensor.info, tensor.mem, bytes)) && !free_alike (p, tensor.mem, bytes, tensor.info))
    free_loose (p, tensor.mem, bytes);
  return TRUE;
}

/* ---- entries ---- */

/* What the item at @i, which allocates, is for: the next kernel or collective writes it. */
static const char *
writer (const GArray *items, guint i)
{
  for (; i < items->len; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind == SC_ITEM_KERNEL)
        return item->kernel.name;
      if (item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START)
        return item->name;
    }
  return "";
}

static gboolean
play_list (Play *p, const ScTapeEntry *e)
{
  const GArray *const items = g_ptr_array_index (p->tape->lists, e->list);
  const guint32 *const inside = e->from == 0 && e->to == items->len ? g_ptr_array_index (p->tape->inside, e->list) : NULL;
  g_array_set_size (p->inside, items->len);
  for (guint i = e->from; i < e->to; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      const gboolean is_inside = inside != NULL && inside[i] != SC_TAPE_OUTSIDE;
      p->issued += item->kind == SC_ITEM_KERNEL || item->kind == SC_ITEM_COLLECTIVE || item->kind == SC_ITEM_COLLECTIVE_START ? 1 : 0;
      if (item->kind != SC_ITEM_MEM)
        continue;
      p->sending = item->sent;
      if (is_inside && item->mem_bytes < 0)
        {
          bury (p, g_array_index (p->inside, guint32, inside[i]));
          continue;
        }
      const gboolean named = item->tensor > 0;
      const ScLiveTensor tensor = { item->mem_bytes, named || item->mem_bytes < 0 ? sc_tensor_name (item->tensor) : writer (items, i), !named, e->info, (guint8) item->mem };
      if (is_inside)
        g_array_index (p->inside, guint32, i) = born (p, SC_STREAM_COMPUTE, tensor);
      if (is_inside ? g_array_index (p->inside, guint32, i) == NONE : !change (p, SC_STREAM_COMPUTE, tensor, item->tensor))
        return FALSE;
    }
  p->sending = FALSE;
  return TRUE;
}

static gboolean
play_tensor (Play *p, const ScTapeEntry *e)
{
  const ScLiveTensor tensor = { e->bytes, e->name != NULL ? e->name : "", FALSE, e->info, e->mem };
  return change (p, e->stream, tensor, 0);
}

/* What is made now, in the first step. */
static gboolean
play_births (Play *p, ScTapeKind kind)
{
  for (guint i = 0; i < p->tape->entries->len; i++)
    {
      const ScTapeEntry *const e = &g_array_index (p->tape->entries, ScTapeEntry, i);
      if (e->kind == kind && !play_tensor (p, e))
        return FALSE;
    }
  return TRUE;
}

static gboolean
play_entry (Play *p, const ScTapeEntry *e)
{
  switch ((ScTapeKind) e->kind)
    {
    case SC_TAPE_LIST:
      if (p->step == 0 && !p->backward && sc_info_unpack (e->info).phase == 1)
        {
          p->backward = TRUE;
          if (!play_births (p, SC_TAPE_LATE))
            return FALSE;
        }
      return play_list (p, e);
    case SC_TAPE_CHANGE:
      return play_tensor (p, e);
    case SC_TAPE_STATE:
      return p->step > 0 || play_tensor (p, e);
    case SC_TAPE_OPTIMIZER:
      if (p->step == 0)
        p->ret->n_early_retries = sc_allocator_stats (p->allocator).n_retries;
      return p->step > 0 || play_births (p, SC_TAPE_LAZY);
    case SC_TAPE_LAZY:
    case SC_TAPE_LATE:
    case SC_TAPE_MARK:
      return TRUE;
    default:
      g_return_val_if_reached (TRUE);
    }
}

static void
put_point (Play *p)
{
  if (p->step == 0 || p->ret->curve == NULL)
    return;
  ScTapePoint point = { .reserved = sc_allocator_stats (p->allocator).reserved, .entry = p->entry };
  memcpy (point.highest, p->highest_by_kind, sizeof point.highest);
  memcpy (point.after, p->by_kind, sizeof point.after);
  g_array_append_val (p->ret->curve, point);
}

/* ---- periods ---- */

/* Belongs to a micro-batch; gradients and weights are there for all. */
static gboolean
comes_again (const ScLiveTensor *t)
{
  return t->mem != SC_MEM_WEIGHTS && t->mem != SC_MEM_GRADS && t->mem != SC_MEM_OPTIMIZER
         && sc_info_unpack (t->info).microbatch != SC_INFO_NO_MICROBATCH;
}

static guint32
shifted (const ScLiveTensor *t, guint shift)
{
  ScOpInfo info = sc_info_unpack (t->info);
  info.microbatch += comes_again (t) ? shift : 0;
  return sc_info_pack (info);
}

/* The state of everything, micro-batches counted from that of the current period. */
static guint64
signature_of (const Play *p, guint shift)
{
  guint64 sum = sc_allocator_signature (p->allocator), order = 0;
  for (guint i = 0; i < p->live->len; i++)
    {
      const Live *const l = live_at (p, i);
      if (l->used)
        sum += (sc_allocator_address (p->allocator, l->handle) ^ (guint64) shifted (&l->tensor, SC_INFO_NO_MICROBATCH - shift) << 17)
               * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
    }
  for (guint k = 0; k < SC_N_MEMS; k++)
    for (guint i = 0; i < p->others[k]->len; i++)
      order = (order ^ sc_allocator_address (p->allocator, live_at (p, g_array_index (p->others[k], guint32, i))->handle))
              * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  for (guint i = 0; i < p->sent->len; i++)
    {
      const Sent *const t = &g_array_index (p->sent, Sent, i);
      order = (order ^ sc_allocator_address (p->allocator, t->handle) ^ (p->issued - t->issued) << 40) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
    }
  return sum ^ order;
}

/* All that is alive becomes that of micro-batches @shift later. */
static void
rename_live (Play *p, guint shift)
{
  GHashTable *const named = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  gpointer key, first;
  g_hash_table_iter_init (&iter, p->named);
  while (g_hash_table_iter_next (&iter, &key, &first))
    {
      const guint8 name = (guint8) (GPOINTER_TO_SIZE (key) >> 32);
      const ScLiveTensor *const t = &live_at (p, GPOINTER_TO_UINT (first) - 1)->tensor;
      g_hash_table_insert (named, name_key (name, shifted (t, shift)), first);
    }
  g_hash_table_unref (p->named);
  p->named = named;
  for (guint i = 0; i < p->live->len; i++)
    live_at (p, i)->tensor.info = shifted (&live_at (p, i)->tensor, shift);
}

/* Points of @n entries that are not played: as @length entries before. */
static void
repeat_points (Play *p, guint32 n, guint32 length)
{
  GArray *const curve = p->ret->curve;
  if (p->step == 0 || curve == NULL)
    return;
  for (guint32 i = 0; i < n; i++)
    {
      ScTapePoint point = g_array_index (curve, ScTapePoint, curve->len - length);
      point.entry += length;
      g_array_append_val (curve, point);
    }
}

/* Where a period begins as an earlier one began (micro-batches in flight take their turns in as many places), all that follows comes in the same
 * turns, up to the end of the stretch. */
static void
skip_periods (Play *p)
{
  const ScTapePeriod *const r = &p->period;
  if (!p->periodic || p->entry < r->first || p->entry + r->length > r->end || (p->entry - r->first) % r->length != 0)
    return;
  const guint shift = (p->entry - r->first) / r->length * r->shift;
  const guint64 signature = signature_of (p, shift);
  guint cycle = 1;
  while (cycle <= p->signatures->len && g_array_index (p->signatures, guint64, p->signatures->len - cycle) != signature)
    cycle++;
  const gboolean again = cycle <= p->signatures->len;
  g_array_append_val (p->signatures, signature);
  if (!again)
    return;
  const guint32 n = (r->end - p->entry) / (cycle * r->length) * cycle;
  rename_live (p, n * r->shift);
  repeat_points (p, n * r->length, cycle * r->length);
  p->entry += n * r->length;
}

static gboolean
play_step (Play *p)
{
  g_array_set_size (p->signatures, 0);
  for (p->entry = 0; p->entry < p->tape->entries->len; p->entry++)
    {
      skip_periods (p);
      p->highest = p->now;
      memcpy (p->highest_by_kind, p->by_kind, sizeof p->by_kind);
      if (!play_entry (p, &g_array_index (p->tape->entries, ScTapeEntry, p->entry)))
        return FALSE;
      put_point (p);
    }
  give_sent (p, TRUE); /* the loss is read */
  p->ret->reserved[p->step] = sc_allocator_stats (p->allocator).peak_reserved;
  p->ret->step_reserved = sc_allocator_peak_reserved (p->allocator);
  return TRUE;
}

ScTapePlay *
sc_tape_play (const ScTape *tape, const ScPlayOptions *options)
{
  ScTapePlay *const r = g_new0 (ScTapePlay, 1);
  g_autoptr (ScAllocator) allocator = sc_allocator_new (&options->allocator);
  Play p = { .tape = tape, .options = options, .ret = r, .allocator = allocator, .live = g_array_new (FALSE, TRUE, sizeof (Live)), .sent = g_array_new (FALSE, FALSE, sizeof (Sent)),
             .spare = g_array_new (FALSE, FALSE, sizeof (guint32)), .named = g_hash_table_new (NULL, NULL),
             .inside = g_array_new (FALSE, FALSE, sizeof (guint32)), .signatures = g_array_new (FALSE, FALSE, sizeof (guint64)), .peak = sc_tape_peak (tape) };
  for (guint k = 0; k < SC_N_MEMS; k++)
    p.others[k] = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (options->live)
    r->live = g_array_new (FALSE, FALSE, sizeof (ScLiveTensor));
  if (options->curve)
    r->curve = g_array_new (FALSE, FALSE, sizeof (ScTapePoint));
  p.periodic = !options->whole && sc_tape_period (tape, &p.period);
  for (p.step = 0; p.step < 2; p.step++)
    if (!play_step (&p))
      break;
  const ScAllocatorStats stats = sc_allocator_stats (allocator);
  r->rounded = stats.peak_allocated;
  r->n_retries = stats.n_retries;
  for (guint k = 0; k < SC_N_MEMS; k++)
    g_array_unref (p.others[k]);
  g_array_unref (p.live);
  g_array_unref (p.sent);
  g_array_unref (p.spare);
  g_array_unref (p.inside);
  g_array_unref (p.signatures);
  g_hash_table_unref (p.named);
  return r;
}

void
sc_tape_play_free (ScTapePlay *r)
{
  if (r == NULL)
    return;
  g_clear_pointer (&r->live, g_array_unref);
  g_clear_pointer (&r->curve, g_array_unref);
  g_free (r);
}
