/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fold.c - partition refinement over ranks, groups and links (FOLDING S6).
 *
 * Colours are small integers, numbered in order of first appearance; a new colour is the number of a 128-bit hash of
 * what distinguishes it.  A link's key is the sum over its loads of count x hash(colour of the group): a sum of integers,
 * so it does not hang on the order of the walk, and equal load vectors have equal keys. */
#include "models/fold.h"
#include <stdlib.h>
#include <string.h>

#define FOLD_DEFAULT_BUDGET 4096

typedef struct
{
  guint64 a, b;
} Key;

static inline guint64
mix (guint64 x)
{
  x ^= x >> 31;
  x *= G_GUINT64_CONSTANT (0x7fb5d329728ea185);
  x ^= x >> 27;
  x *= G_GUINT64_CONSTANT (0x81dadef4bc2dd44d);
  return x ^ x >> 33;
}

static inline Key
key_of (guint64 x)
{
  return (Key) { mix (x + G_GUINT64_CONSTANT (0x9e3779b97f4a7c15)), mix (x ^ G_GUINT64_CONSTANT (0xc2b2ae3d27d4eb4f)) };
}

/* Appends @x to an ordered key. */
static inline void
key_add (Key *key, guint64 x)
{
  const Key k = key_of (x);
  key->a = mix (key->a * 31 + k.a);
  key->b = mix (key->b * 37 + k.b);
}

static inline void
key_add_double (Key *key, double x)
{
  guint64 bits;
  memcpy (&bits, &x, sizeof bits);
  key_add (key, bits);
}

/* ---- numbering: key -> 0, 1, 2, ... in order of first appearance ---- */

typedef struct
{
  Key     *keys;  /* [1 << bits] */
  guint32 *ids;   /* SC_NONE: free */
  guint    bits;
  guint32  n;
} Numbering;

static void
numbering_init (Numbering *t, guint32 expected)
{
  t->bits = MAX (4, (guint) g_bit_storage (expected) + 1);
  t->keys = g_new (Key, 1u << t->bits);
  t->ids = g_new (guint32, 1u << t->bits);
  memset (t->ids, 0xff, sizeof (guint32) << t->bits);
  t->n = 0;
}

static void
numbering_clear (Numbering *t)
{
  g_free (t->keys);
  g_free (t->ids);
}

static guint32
number (Numbering *t, Key key)
{
  const guint32 mask = (1u << t->bits) - 1;
  guint32 slot = (guint32) (key.a ^ key.b >> 32) & mask;
  while (t->ids[slot] != SC_NONE && (t->keys[slot].a != key.a || t->keys[slot].b != key.b))
    slot = (slot + 1) & mask;
  if (t->ids[slot] == SC_NONE)
    {
      t->keys[slot] = key;
      t->ids[slot] = t->n++;
    }
  return t->ids[slot];
}

/* ---- link classes under the current group colours ---- */

typedef struct
{
  guint32 link_class;
  guint32 slot; /* colour of the groups that load it x most parts + the part */
  guint64 count;
} Entry;

typedef struct
{
  guint32 *class_of;   /* [n_links]: class, or SC_NONE for unused and implied links */
  guint32  n;          /* classes */
  GArray  *entries;    /* Entry, sorted by class and colour: the load of one link of each class */
  guint32 *first;      /* [n + 1] into entries */
  double  *capacity;   /* [n] */
  guint8  *dominated;  /* [n] */
  guint32 *bound;      /* [n] dominated: the class that implies it, which may be dominated in turn */
} LinkClasses;

static void
link_classes_clear (LinkClasses *c)
{
  g_free (c->class_of);
  if (c->entries != NULL)
    g_array_unref (c->entries);
  g_free (c->first);
  g_free (c->capacity);
  g_free (c->dominated);
  g_free (c->bound);
  memset (c, 0, sizeof *c);
}

/* Parts of all walks of a comm. */
typedef struct
{
  guint32 first, end;
} PartRange;

static inline PartRange
parts_of (const ScLoads *loads, guint32 comm)
{
  const guint32 first = loads->walk_first[comm], end = loads->walk_first[comm + 1];
  if (first == end)
    return (PartRange) { 0, 0 };
  return (PartRange) { loads->walks[first].first_part, loads->walks[end - 1].first_part + loads->walks[end - 1].n_parts };
}

static guint32
most_parts (const ScLayout *layout, const ScLoads *loads)
{
  guint32 most = 1;
  for (guint32 c = 0; c < layout->n_comms; c++)
    most = MAX (most, parts_of (loads, c).end - parts_of (loads, c).first);
  return most;
}

static int
compare_entries (gconstpointer a, gconstpointer b)
{
  const Entry *const x = a, *const y = b;
  if (x->link_class != y->link_class)
    return x->link_class < y->link_class ? -1 : 1;
  return x->slot == y->slot ? 0 : x->slot < y->slot ? -1 : 1;
}

/* Is the load per capacity of class @i at most that of class @j, family by family? */
static gboolean
is_below (const LinkClasses *c, guint32 i, guint32 j)
{
  const Entry *const e = (const Entry *) (gconstpointer) c->entries->data;
  guint32 at = c->first[j];
  for (guint32 k = c->first[i]; k < c->first[i + 1]; k++)
    {
      while (at < c->first[j + 1] && e[at].slot < e[k].slot)
        at++;
      if (at == c->first[j + 1] || e[at].slot != e[k].slot
          || (double) e[at].count / c->capacity[j] < (double) e[k].count / c->capacity[i])
        return FALSE;
    }
  return TRUE;
}

/* Drops each class whose constraint another one implies (S5 c). */
static void
find_dominated (LinkClasses *c, guint32 n_slots)
{
  const Entry *const e = (const Entry *) (gconstpointer) c->entries->data;
  /* classes by slot: a dominating class has all slots of the dominated one, so look only along its rarest */
  g_autofree guint32 *first = g_new0 (guint32, n_slots + 1);
  for (guint i = 0; i < c->entries->len; i++)
    first[e[i].slot + 1]++;
  for (guint32 f = 0; f < n_slots; f++)
    first[f + 1] += first[f];
  g_autofree guint32 *by_slot = g_new (guint32, MAX (c->entries->len, 1));
  g_autofree guint32 *at = g_memdup2 (first, (n_slots + 1) * sizeof *at);
  for (guint i = 0; i < c->entries->len; i++)
    by_slot[at[e[i].slot]++] = e[i].link_class;
  for (guint32 i = 0; i < c->n; i++)
    {
      guint32 rarest = e[c->first[i]].slot;
      for (guint32 k = c->first[i]; k < c->first[i + 1]; k++)
        if (first[e[k].slot + 1] - first[e[k].slot] < first[rarest + 1] - first[rarest])
          rarest = e[k].slot;
      for (guint32 k = first[rarest]; k < first[rarest + 1] && !c->dominated[i]; k++)
        {
          const guint32 j = by_slot[k];
          c->dominated[i] = j != i && !c->dominated[j] && is_below (c, i, j);
          c->bound[i] = j;
        }
    }
}

static void
link_classes_find (LinkClasses *c, const ScLayout *layout, const ScFabric *fabric, const ScLoads *loads, const guint32 *colour,
                   guint32 n_colours, guint32 max_parts, gboolean unfolded)
{
  g_autofree Key *sum = g_new0 (Key, MAX (fabric->n_links, 1));
  const guint32 n_slots = n_colours * max_parts;
  g_autofree Key *of_slot = g_new (Key, MAX (n_slots, 1));
  for (guint32 i = 0; i < n_slots; i++)
    of_slot[i] = key_of (i);
  for (guint32 comm = 0; comm < layout->n_comms; comm++)
    {
      const PartRange parts = parts_of (loads, comm);
      for (guint32 p = parts.first; p < parts.end; p++)
        {
          const Key slot = of_slot[colour[comm] * max_parts + p - parts.first];
          for (guint32 i = loads->part_first[p]; i < loads->part_first[p + 1]; i++)
            {
              Key *const s = &sum[loads->loads[i].link];
              s->a += slot.a * loads->loads[i].count;
              s->b += slot.b * loads->loads[i].count;
            }
        }
    }

  c->class_of = g_new (guint32, MAX (fabric->n_links, 1));
  g_autoptr (GArray) representative = g_array_new (FALSE, FALSE, sizeof (guint32));
  Numbering numbers;
  numbering_init (&numbers, MAX (loads->n_used, 1));
  for (guint32 l = 0; l < fabric->n_links; l++)
    {
      c->class_of[l] = SC_NONE;
      if ((sum[l].a == 0 && sum[l].b == 0) || (!unfolded && loads->implied[l]))
        continue;
      Key key = sum[l];
      key_add_double (&key, fabric->links[l].capacity);
      if (unfolded)
        key_add (&key, l);
      c->class_of[l] = number (&numbers, key);
      if (c->class_of[l] == representative->len)
        g_array_append_val (representative, l);
    }
  c->n = numbers.n;
  numbering_clear (&numbers);

  c->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  c->capacity = g_new0 (double, MAX (c->n, 1));
  c->dominated = g_new0 (guint8, MAX (c->n, 1));
  c->bound = g_new (guint32, MAX (c->n, 1));
  c->first = g_new0 (guint32, c->n + 1);
  for (guint32 i = 0; i < c->n; i++)
    c->capacity[i] = fabric->links[g_array_index (representative, guint32, i)].capacity;
  for (guint32 comm = 0; comm < layout->n_comms; comm++)
    {
      const PartRange parts = parts_of (loads, comm);
      for (guint32 p = parts.first; p < parts.end; p++)
        for (guint32 i = loads->part_first[p]; i < loads->part_first[p + 1]; i++)
          {
            const guint32 l = loads->loads[i].link, class = c->class_of[l];
            if (class == SC_NONE || g_array_index (representative, guint32, class) != l)
              continue;
            const Entry entry = { class, colour[comm] * max_parts + p - parts.first, loads->loads[i].count };
            g_array_append_val (c->entries, entry);
          }
    }
  if (c->entries->len > 0)
    qsort (c->entries->data, c->entries->len, sizeof (Entry), compare_entries);
  guint n = 0;
  for (guint i = 0; i < c->entries->len; i++)
    {
      const Entry e = g_array_index (c->entries, Entry, i);
      if (n > 0 && compare_entries (&g_array_index (c->entries, Entry, n - 1), &e) == 0)
        g_array_index (c->entries, Entry, n - 1).count += e.count;
      else
        g_array_index (c->entries, Entry, n++) = e;
    }
  g_array_set_size (c->entries, n);
  for (guint i = 0; i < n; i++)
    c->first[g_array_index (c->entries, Entry, i).link_class + 1]++;
  for (guint32 i = 0; i < c->n; i++)
    c->first[i + 1] += c->first[i];
  if (!unfolded)
    find_dominated (c, n_slots);
}

/* ---- refinement ---- */

static int
compare_u64 (gconstpointer a, gconstpointer b)
{
  const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;
  return (x > y) - (x < y);
}

/* Adds the *set* of @values to @key (FOLDING S6: sets suffice). */
static void
key_add_set (Key *key, GArray *values)
{
  if (values->len > 0)
    qsort (values->data, values->len, sizeof (guint64), compare_u64);
  for (guint i = 0; i < values->len; i++)
    if (i == 0 || g_array_index (values, guint64, i) != g_array_index (values, guint64, i - 1))
      key_add (key, g_array_index (values, guint64, i));
}

/* 1: the sender of a pair; 0: the receiver, or a member like the others. */
static inline guint
role_of (const ScLayout *layout, const ScComm *comm, guint32 rank)
{
  return (comm->kind == SC_COMM_PP_FORWARD || comm->kind == SC_COMM_PP_BACKWARD) && layout->members[comm->first] == rank;
}

static guint32
first_comm_colours (const ScLayout *layout, const ScLoads *loads, guint32 *ret_colour)
{
  Numbering numbers;
  numbering_init (&numbers, MAX (layout->n_comms, 1));
  for (guint32 c = 0; c < layout->n_comms; c++)
    {
      const ScComm *const comm = &layout->comms[c];
      const ScGroupShape *const s = &loads->shapes[c];
      Key key = key_of (comm->kind);
      key_add (&key, comm->stage);
      key_add (&key, s->n);
      key_add (&key, s->n_domains);
      key_add (&key, s->n_channels);
      key_add (&key, s->hops_inter);
      key_add_double (&key, s->inter_bytes_per_s);
      key_add_double (&key, s->intra_bytes_per_s);
      key_add_double (&key, s->inter_latency_s);
      key_add_double (&key, s->intra_latency_s);
      key_add (&key, s->per_domain);
      key_add (&key, GPOINTER_TO_SIZE (s->library.gpu)); /* told apart only, never ordered */
      key_add (&key, GPOINTER_TO_SIZE (s->library.net));
      key_add (&key, s->library.nvls);
      key_add (&key, s->ragged);
      key_add_double (&key, s->pair_bytes_per_s);
      for (guint32 w = loads->walk_first[c]; w < loads->walk_first[c + 1]; w++)
        {
          key_add (&key, sc_collective_index (loads->walks[w].row));
          key_add (&key, loads->walks[w].kind);
          key_add (&key, loads->walks[w].n_parts);
          key_add_double (&key, loads->walks[w].bound.intra_s_per_byte);
          key_add_double (&key, loads->walks[w].bound.inter_s_per_byte);
        }
      ret_colour[c] = number (&numbers, key);
    }
  numbering_clear (&numbers);
  return numbers.n;
}

static guint32
next_comm_colours (const ScLayout *layout, const ScLoads *loads, const LinkClasses *links, const guint32 *comm_colour,
                   const guint32 *rank_colour, guint32 *ret_colour)
{
  Numbering numbers;
  numbering_init (&numbers, MAX (layout->n_comms, 1));
  g_autoptr (GArray) set = g_array_new (FALSE, FALSE, sizeof (guint64));
  for (guint32 c = 0; c < layout->n_comms; c++)
    {
      const ScComm *const comm = &layout->comms[c];
      Key key = key_of (comm_colour[c]);
      g_array_set_size (set, 0);
      for (guint32 i = 0; i < comm->n; i++)
        {
          const guint32 rank = layout->members[comm->first + i];
          const guint64 member = (guint64) rank_colour[rank] << 1 | role_of (layout, comm, rank);
          g_array_append_val (set, member);
        }
      key_add_set (&key, set);
      key_add (&key, G_MAXUINT64); /* between the two sets */
      g_array_set_size (set, 0);
      const PartRange parts = parts_of (loads, c);
      for (guint32 p = parts.first; p < parts.end; p++)
        for (guint32 i = loads->part_first[p]; i < loads->part_first[p + 1]; i++)
          {
            const guint32 class = links->class_of[loads->loads[i].link];
            if (class == SC_NONE || links->dominated[class])
              continue;
            const guint64 touched = (guint64) (p - parts.first) << 32 | class;
            g_array_append_val (set, touched);
          }
      key_add_set (&key, set);
      ret_colour[c] = number (&numbers, key);
    }
  numbering_clear (&numbers);
  return numbers.n;
}

static guint32
next_rank_colours (const ScLayout *layout, const guint32 *comm_colour, const guint32 *rank_colour, guint32 *ret_colour)
{
  Numbering numbers;
  numbering_init (&numbers, MAX (layout->n_ranks, 1));
  guint64 list[64];
  for (guint32 r = 0; r < layout->n_ranks; r++)
    {
      const guint32 n = layout->rank_first[r + 1] - layout->rank_first[r];
      g_assert (n <= G_N_ELEMENTS (list));
      for (guint32 i = 0; i < n; i++)
        {
          const guint32 c = layout->of_rank[layout->rank_first[r] + i];
          list[i] = (guint64) comm_colour[c] << 1 | role_of (layout, &layout->comms[c], r);
        }
      qsort (list, n, sizeof *list, compare_u64);
      Key key = key_of (rank_colour[r]);
      for (guint32 i = 0; i < n; i++)
        key_add (&key, list[i]);
      ret_colour[r] = number (&numbers, key);
    }
  numbering_clear (&numbers);
  return numbers.n;
}

static guint32
canonical (const guint32 *colour, guint32 n, guint32 *ret)
{
  Numbering numbers;
  numbering_init (&numbers, MAX (n, 1));
  for (guint32 i = 0; i < n; i++)
    ret[i] = number (&numbers, key_of (colour[i]));
  numbering_clear (&numbers);
  return numbers.n;
}

/* The fold that the final colours describe. */
static void
fold_fill (ScFold *f, const ScLayout *layout, const LinkClasses *links, guint32 n_links)
{
  f->representative = g_new (guint32, MAX (f->n_classes, 1));
  f->class_size = g_new0 (guint32, MAX (f->n_classes, 1));
  f->family_comm = g_new (guint32, MAX (f->n_families, 1));
  f->family_members = g_new0 (guint32, MAX (f->n_families, 1));
  for (guint32 r = layout->n_ranks; r-- > 0;)
    {
      f->representative[f->class_of[r]] = r;
      f->class_size[f->class_of[r]]++;
    }
  for (guint32 c = layout->n_comms; c-- > 0;)
    f->family_comm[f->family_of[c]] = c;
  for (guint32 k = 0; k < f->n_classes; k++)
    {
      const guint32 r = f->representative[k];
      for (guint32 i = layout->rank_first[r]; i < layout->rank_first[r + 1]; i++)
        f->family_members[f->family_of[layout->of_rank[i]]]++;
    }

  g_autofree guint32 *kept = g_new (guint32, MAX (links->n, 1));
  for (guint32 i = 0; i < links->n; i++)
    kept[i] = links->dominated[i] ? SC_NONE : f->n_link_classes++;
  f->link_class_of = g_new (guint32, MAX (n_links, 1));
  f->link_bound_of = g_new (guint32, MAX (n_links, 1));
  for (guint32 l = 0; l < n_links; l++)
    {
      guint32 class = links->class_of[l];
      f->link_class_of[l] = class == SC_NONE ? SC_NONE : kept[class];
      f->link_bound_of[l] = SC_NONE;
      if (class == SC_NONE || kept[class] != SC_NONE)
        continue;
      while (kept[class] == SC_NONE) /* ends: a class was kept when it became a bound */
        class = links->bound[class];
      f->link_bound_of[l] = kept[class];
    }
  const Entry *const e = (const Entry *) (gconstpointer) links->entries->data;
  const guint32 n_slots = f->n_families * f->max_parts;
  f->uses_first = g_new0 (guint32, n_slots + 1);
  for (guint i = 0; i < links->entries->len; i++)
    if (kept[e[i].link_class] != SC_NONE)
      f->uses_first[e[i].slot + 1]++;
  for (guint32 k = 0; k < n_slots; k++)
    f->uses_first[k + 1] += f->uses_first[k];
  f->uses = g_new (ScUse, MAX (f->uses_first[n_slots], 1));
  g_autofree guint32 *at = g_memdup2 (f->uses_first, (n_slots + 1) * sizeof *at);
  for (guint i = 0; i < links->entries->len; i++)
    if (kept[e[i].link_class] != SC_NONE)
      f->uses[at[e[i].slot]++] = (ScUse) { (double) e[i].count / links->capacity[e[i].link_class], kept[e[i].link_class] };
}

ScFold *
sc_fold_new (const ScLayout *layout, const ScFabric *fabric, const ScLoads *loads, const guint32 *colour, guint32 budget,
             gboolean unfolded)
{
  ScFold *const f = g_new0 (ScFold, 1);
  const guint32 n_ranks = layout->n_ranks, n_comms = layout->n_comms;
  if (budget == 0)
    budget = FOLD_DEFAULT_BUDGET;
  f->n_used_links = loads->n_used;
  f->class_of = g_new (guint32, n_ranks);
  f->family_of = g_new (guint32, MAX (n_comms, 1));
  f->max_parts = most_parts (layout, loads);
  LinkClasses links = { 0 };
  if (unfolded)
    {
      for (guint32 r = 0; r < n_ranks; r++)
        f->class_of[r] = r;
      for (guint32 c = 0; c < n_comms; c++)
        f->family_of[c] = c;
      f->n_classes = n_ranks;
      f->n_families = n_comms;
      link_classes_find (&links, layout, fabric, loads, f->family_of, f->n_families, f->max_parts, TRUE);
    }
  else
    {
      g_autofree guint32 *next_rank = g_new (guint32, n_ranks), *next_comm = g_new (guint32, MAX (n_comms, 1));
      f->n_classes = canonical (colour, n_ranks, f->class_of);
      f->n_families = first_comm_colours (layout, loads, f->family_of);
      for (;;)
        {
          link_classes_clear (&links);
          link_classes_find (&links, layout, fabric, loads, f->family_of, f->n_families, f->max_parts, FALSE);
          const guint32 families = next_comm_colours (layout, loads, &links, f->family_of, f->class_of, next_comm);
          const guint32 classes = next_rank_colours (layout, next_comm, f->class_of, next_rank);
          f->rounds++;
          if (families == f->n_families && classes == f->n_classes)
            break;
          if (classes > budget && classes > f->n_classes)
            {
              f->approximate = TRUE;
              break;
            }
          f->n_families = families;
          f->n_classes = classes;
          memcpy (f->family_of, next_comm, n_comms * sizeof *next_comm);
          memcpy (f->class_of, next_rank, n_ranks * sizeof *next_rank);
        }
    }
  fold_fill (f, layout, &links, fabric->n_links);
  link_classes_clear (&links);
  return f;
}

void
sc_fold_free (ScFold *f)
{
  if (f == NULL)
    return;
  g_free (f->class_of);
  g_free (f->representative);
  g_free (f->class_size);
  g_free (f->family_of);
  g_free (f->family_comm);
  g_free (f->family_members);
  g_free (f->uses_first);
  g_free (f->uses);
  g_free (f->link_class_of);
  g_free (f->link_bound_of);
  g_free (f);
}
