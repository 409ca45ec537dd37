/* SPDX-License-Identifier: GPL-3.0-or-later */
/* allocator.c - segments are chains of blocks; free blocks stand in a list for each stream and pool, by size and address. */
#include "models/allocator.h"
#include <string.h>

#define KIB G_GUINT64_CONSTANT (1024)
#define MIB (KIB * KIB)

#define MIN_BLOCK     512         /* requests are multiples of it */
#define SMALL_REQUEST MIB         /* largest of the small pool */
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_SEGMENT (20 * MIB)  /* of requests below ... */
#define LARGE_REQUEST (10 * MIB)  /* ... this */
#define SEGMENT_ROUND (2 * MIB)   /* of larger ones */

/* Where in the device's memory a segment begins, as if each had 1 TiB to itself. */
#define SEGMENT_SPACE (MIB * MIB)

typedef struct
{
  guint64 address, size, requested;
  guint32 before, behind; /* neighbours in the segment, or NONE */
  guint32 pool;
  gboolean is_free;
} Block;

#define NONE G_MAXUINT32

typedef struct
{
  guint64 size, address;
  guint32 block;
} Free;

/* Free blocks of one stream and pool. */
typedef struct
{
  guint stream;
  gboolean small;
  Free *free;       /* [n of room] by size and address: few at a time, so that moving them costs less than a tree */
  guint n, room;
  guint32 tail;     /* expandable: the last block of the pool's segment, or NONE */
} Pool;

struct _ScAllocator
{
  ScAllocatorOptions options;
  GArray *blocks;   /* Block */
  guint32 spare;    /* a block of no use, or NONE; its Block.behind is the next one */
  GArray *pools;    /* Pool */
  guint64 n_spaces; /* segments begun so far */
  ScAllocatorStats stats;
  guint64 peak_since; /* of what is reserved, since it was last asked for */
};

static void
pool_clear (gpointer data)
{
  g_free (((Pool *) data)->free);
}

static gboolean
is_before (const Free *f, guint64 size, guint64 address)
{
  return f->size < size || (f->size == size && f->address < address);
}

/* First free block of @size or more, and of that size at @address or above. */
static guint
lower_bound (const Pool *pool, guint64 size, guint64 address)
{
  guint from = 0, to = pool->n;
  while (from < to)
    {
      const guint middle = from + (to - from) / 2;
      if (is_before (&pool->free[middle], size, address))
        from = middle + 1;
      else
        to = middle;
    }
  return from;
}

ScAllocator *
sc_allocator_new (const ScAllocatorOptions *options)
{
  ScAllocator *const a = g_new0 (ScAllocator, 1);
  if (options != NULL)
    a->options = *options;
  a->blocks = g_array_new (FALSE, FALSE, sizeof (Block));
  a->spare = NONE;
  a->pools = g_array_new (FALSE, FALSE, sizeof (Pool));
  g_array_set_clear_func (a->pools, pool_clear);
  return a;
}

void
sc_allocator_free (ScAllocator *a)
{
  if (a == NULL)
    return;
  g_array_unref (a->blocks);
  g_array_unref (a->pools);
  g_free (a);
}

ScAllocatorStats
sc_allocator_stats (const ScAllocator *a)
{
  return a->stats;
}

guint64
sc_allocator_peak_reserved (ScAllocator *a)
{
  const guint64 ret = a->peak_since;
  a->peak_since = a->stats.reserved;
  return ret;
}

static Block *
block_at (const ScAllocator *a, guint32 block)
{
  return &g_array_index (a->blocks, Block, block);
}

static guint32
block_new (ScAllocator *a, Block block)
{
  const guint32 ret = a->spare;
  if (ret == NONE)
    {
      g_array_append_val (a->blocks, block);
      return a->blocks->len - 1;
    }
  a->spare = block_at (a, ret)->behind;
  *block_at (a, ret) = block;
  return ret;
}

static void
block_free (ScAllocator *a, guint32 block)
{
  *block_at (a, block) = (Block) { .before = NONE, .behind = a->spare };
  a->spare = block;
}

static Pool *
pool_at (const ScAllocator *a, guint32 pool)
{
  return &g_array_index (a->pools, Pool, pool);
}

static guint32
pool_of (ScAllocator *a, guint stream, gboolean small)
{
  for (guint32 i = 0; i < a->pools->len; i++)
    if (pool_at (a, i)->stream == stream && pool_at (a, i)->small == small)
      return i;
  const Pool pool = { .stream = stream, .small = small, .tail = NONE };
  g_array_append_val (a->pools, pool);
  return a->pools->len - 1;
}

static void
put_free (ScAllocator *a, guint32 block)
{
  Block *const b = block_at (a, block);
  Pool *const pool = pool_at (a, b->pool);
  const guint i = lower_bound (pool, b->size, b->address);
  if (pool->n == pool->room)
    pool->free = g_renew (Free, pool->free, pool->room = MAX (2 * pool->room, 64));
  memmove (&pool->free[i + 1], &pool->free[i], (pool->n - i) * sizeof *pool->free);
  pool->free[i] = (Free) { b->size, b->address, block };
  pool->n++;
  b->is_free = TRUE;
}

static void
take_free_at (Pool *pool, guint i)
{
  pool->n--;
  memmove (&pool->free[i], &pool->free[i + 1], (pool->n - i) * sizeof *pool->free);
}

static void
take_free (ScAllocator *a, guint32 block)
{
  Block *const b = block_at (a, block);
  Pool *const pool = pool_at (a, b->pool);
  b->is_free = FALSE;
  take_free_at (pool, lower_bound (pool, b->size, b->address));
}

/* The free block at @i becomes @block, of @size at @address. */
static void
replace_free_at (Pool *pool, guint i, guint32 block, guint64 size, guint64 address)
{
  const guint to = lower_bound (pool, size, address);
  if (to <= i)
    {
      memmove (&pool->free[to + 1], &pool->free[to], (i - to) * sizeof *pool->free);
      pool->free[to] = (Free) { size, address, block };
    }
  else
    {
      memmove (&pool->free[i], &pool->free[i + 1], (to - 1 - i) * sizeof *pool->free);
      pool->free[to - 1] = (Free) { size, address, block };
    }
}

/* The smallest free block of @size or more: its place, or NONE. */
static guint
best_fit (const ScAllocator *a, guint32 pool, guint64 size)
{
  const Pool *const p = pool_at (a, pool);
  const guint i = lower_bound (p, size, 0);
  return i < p->n ? i : NONE;
}

static gboolean
reserve (ScAllocator *a, guint64 bytes)
{
  if (a->options.capacity > 0 && a->stats.reserved + bytes > a->options.capacity)
    return FALSE;
  a->stats.reserved += bytes;
  a->stats.peak_reserved = MAX (a->stats.peak_reserved, a->stats.reserved);
  a->peak_since = MAX (a->peak_since, a->stats.reserved);
  return TRUE;
}

static guint64
round_up (guint64 bytes, guint64 unit)
{
  return (bytes + unit - 1) / unit * unit;
}

/* A free block of a new segment, or NONE. */
static guint32
new_segment (ScAllocator *a, guint32 pool, guint64 size)
{
  const guint64 bytes = pool_at (a, pool)->small ? SMALL_SEGMENT : size < LARGE_REQUEST ? LARGE_SEGMENT : round_up (size, SEGMENT_ROUND);
  if (!reserve (a, bytes))
    return NONE;
  a->stats.n_segments++;
  const guint32 block = block_new (a, (Block) { a->n_spaces++ * SEGMENT_SPACE, bytes, 0, NONE, NONE, pool, FALSE });
  put_free (a, block);
  return block;
}

/* Expandable segments: maps pages behind the last block until it is free and holds @size.  NONE: there are not as many. */
static guint32
grow (ScAllocator *a, guint32 pool, guint64 size)
{
  Pool *const p = pool_at (a, pool);
  const guint64 page = p->small ? SMALL_SEGMENT : LARGE_SEGMENT;
  const gboolean ends_free = p->tail != NONE && block_at (a, p->tail)->is_free;
  const guint64 has = ends_free ? block_at (a, p->tail)->size : 0;
  const guint64 bytes = round_up (size - has, page);
  if (!reserve (a, bytes))
    return NONE;
  if (p->tail == NONE)
    {
      a->stats.n_segments++;
      p->tail = block_new (a, (Block) { a->n_spaces++ * SEGMENT_SPACE, bytes, 0, NONE, NONE, pool, FALSE });
    }
  else if (ends_free)
    {
      take_free (a, p->tail);
      block_at (a, p->tail)->size += bytes;
    }
  else
    {
      const Block last = *block_at (a, p->tail);
      const guint32 block = block_new (a, (Block) { last.address + last.size, bytes, 0, p->tail, NONE, pool, FALSE });
      block_at (a, p->tail)->behind = block;
      pool_at (a, pool)->tail = block;
    }
  put_free (a, pool_at (a, pool)->tail);
  return pool_at (a, pool)->tail;
}

/* Segments (or pages at the end of them) that nobody uses go back to the device. */
static void
give_back_cached (ScAllocator *a)
{
  a->stats.n_retries++;
  for (guint32 i = 0; i < a->blocks->len; i++)
    {
      Block *const b = block_at (a, i);
      if (!b->is_free || b->size == 0)
        continue;
      Pool *const p = pool_at (a, b->pool);
      const guint64 page = p->small ? SMALL_SEGMENT : LARGE_SEGMENT;
      const gboolean whole = b->before == NONE && b->behind == NONE;
      const guint64 bytes = !a->options.expandable ? (whole ? b->size : 0) : p->tail == i ? b->size / page * page : 0;
      if (bytes == 0)
        continue;
      take_free (a, i);
      a->stats.reserved -= bytes;
      b->size -= bytes;
      if (b->size > 0)
        {
          put_free (a, i);
          continue;
        }
      a->stats.n_segments -= whole ? 1 : 0;
      if (p->tail == i)
        p->tail = b->before;
      if (b->before != NONE)
        block_at (a, b->before)->behind = NONE;
      block_free (a, i);
    }
}

/* Takes the free block at @i of its pool for @size, and leaves what it does not need of it free, where that is worth it. */
static guint32
take_and_split (ScAllocator *a, guint32 pool, guint i, guint64 size)
{
  const guint32 block = pool_at (a, pool)->free[i].block;
  const Block b = *block_at (a, block);
  const guint64 rest = b.size - size;
  block_at (a, block)->is_free = FALSE;
  if (pool_at (a, pool)->small || a->options.expandable ? rest < MIN_BLOCK : rest <= SMALL_REQUEST)
    {
      take_free_at (pool_at (a, pool), i);
      return block;
    }
  const guint32 other = block_new (a, (Block) { b.address + size, rest, 0, block, b.behind, pool, TRUE });
  block_at (a, block)->size = size;
  block_at (a, block)->behind = other;
  if (b.behind != NONE)
    block_at (a, b.behind)->before = other;
  if (pool_at (a, pool)->tail == block)
    pool_at (a, pool)->tail = other;
  replace_free_at (pool_at (a, pool), i, other, rest, b.address + size);
  return block;
}

guint32
sc_allocator_take (ScAllocator *a, guint stream, guint64 bytes)
{
  const guint64 size = round_up (MAX (bytes, 1), MIN_BLOCK);
  const guint32 pool = pool_of (a, stream, size <= SMALL_REQUEST);
  guint at = best_fit (a, pool, size);
  for (guint tries = 0; at == NONE && tries < 2; tries++)
    {
      if (tries > 0)
        give_back_cached (a);
      if ((a->options.expandable ? grow (a, pool, size) : new_segment (a, pool, size)) != NONE)
        at = best_fit (a, pool, size);
    }
  if (at == NONE)
    return SC_ALLOCATOR_FAILED;
  const guint32 block = take_and_split (a, pool, at, size);
  Block *const b = block_at (a, block);
  b->requested = bytes;
  a->stats.requested += bytes;
  a->stats.allocated += b->size;
  a->stats.peak_allocated = MAX (a->stats.peak_allocated, a->stats.allocated);
  return block;
}

/* Joins @from to @into, which stands before it. */
static void
join (ScAllocator *a, guint32 into, guint32 from)
{
  const Block f = *block_at (a, from);
  Block *const b = block_at (a, into);
  b->size += f.size;
  b->behind = f.behind;
  if (f.behind != NONE)
    block_at (a, f.behind)->before = into;
  if (pool_at (a, f.pool)->tail == from)
    pool_at (a, f.pool)->tail = into;
  block_free (a, from);
}

/* The free @neighbour has become @block, which is larger. */
static void
replace_free (ScAllocator *a, const Block *neighbour, guint32 block)
{
  Pool *const pool = pool_at (a, neighbour->pool);
  Block *const b = block_at (a, block);
  b->is_free = TRUE;
  replace_free_at (pool, lower_bound (pool, neighbour->size, neighbour->address), block, b->size, b->address);
}

void
sc_allocator_give (ScAllocator *a, guint32 handle)
{
  Block *const b = block_at (a, handle);
  g_return_if_fail (handle < a->blocks->len && !b->is_free && b->size > 0);
  a->stats.requested -= b->requested;
  a->stats.allocated -= b->size;
  b->requested = 0;
  const guint32 behind = b->behind, before = b->before;
  const gboolean ends_free = behind != NONE && block_at (a, behind)->is_free;
  const Block after = ends_free ? *block_at (a, behind) : (Block) { 0 };
  if (ends_free)
    join (a, handle, behind);
  if (before != NONE && block_at (a, before)->is_free)
    {
      if (ends_free)
        take_free_at (pool_at (a, after.pool), lower_bound (pool_at (a, after.pool), after.size, after.address));
      const Block was = *block_at (a, before);
      join (a, before, handle);
      replace_free (a, &was, before);
    }
  else if (ends_free)
    replace_free (a, &after, handle);
  else
    put_free (a, handle);
}

guint64
sc_allocator_address (const ScAllocator *a, guint32 handle)
{
  return block_at (a, handle)->address;
}

/* Of splitmix64 (Steele et al., Fast splittable pseudorandom number generators, OOPSLA 2014): any bit changes half of the others. */
static guint64
mixed (guint64 x)
{
  x += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ x >> 31;
}

guint64
sc_allocator_signature (const ScAllocator *a)
{
  guint64 sum = 0;
  for (guint32 i = 0; i < a->blocks->len; i++)
    {
      const Block *const b = block_at (a, i);
      if (b->size > 0)
        sum += mixed (mixed (b->address) ^ (b->size << 9 | (guint64) b->pool << 1 | (b->is_free ? 1 : 0)));
    }
  return sum;
}
