/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mesh.c - rings over direct links: depth-first search for disjoint Hamiltonian cycles, within a budget. */
#include "models/mesh.h"
#include <string.h>

#define N SC_MESH_MAX_MEMBERS
#define MAX_RINGS 255          /* lanes are counted in bytes */
#define MAX_STEPS 3000000      /* of one search: some 10 ms */

guint
sc_mesh_between (const guint8 *lanes, guint k, guint a, guint b)
{
  guint best = k, most = 0;
  for (guint c = 0; c < k; c++)
    {
      const guint here = c == a || c == b ? 0 : MIN (lanes[a * k + c], lanes[c * k + b]);
      if (here > most)
        {
          best = c;
          most = here;
        }
    }
  return best;
}

gboolean
sc_mesh_joins_all (const guint8 *lanes, guint k, guint *ret_a, guint *ret_b)
{
  for (guint a = 0; a < k; a++)
    for (guint b = 0; b < k; b++)
      if (a != b && lanes[a * k + b] == 0 && sc_mesh_between (lanes, k, a, b) == k)
        {
          *ret_a = a;
          *ret_b = b;
          return FALSE;
        }
  return TRUE;
}

typedef struct
{
  guint   k;
  guint   both;       /* 2: each ring is taken with its reverse; 1: alone */
  guint   want;       /* rings, or pairs of them */
  guint   steps;      /* left */
  gint16  free[N][N]; /* links not used yet */
  guint16 out[N], in[N];      /* sums of free */
  guint8  via[N][N];  /* member between, for steps that have no link; or k */
  guint8  order[MAX_RINGS][N]; /* rings so far; the last one may be unfinished */
  guint   n_best;
  guint8  best[MAX_RINGS][N];
} Search;

static void
use_link (Search *s, guint a, guint b, int n)
{
  s->free[a][b] = (gint16) (s->free[a][b] - n);
  s->out[a] = (guint16) (s->out[a] - n);
  s->in[b] = (guint16) (s->in[b] - n);
}

/* Takes (@n = 1) or gives back (-1) the step @a to @b, and the one back. */
static void
use_step (Search *s, guint a, guint b, int n)
{
  for (guint i = 0; i < s->both; i++)
    {
      const guint from = i == 0 ? a : b, to = i == 0 ? b : a, c = s->via[from][to];
      if (c == s->k)
        use_link (s, from, to, n);
      else
        {
          use_link (s, from, c, n);
          use_link (s, c, to, n);
        }
    }
}

static gboolean
can_step (const Search *s, guint a, guint b)
{
  for (guint i = 0; i < s->both; i++)
    {
      const guint from = i == 0 ? a : b, to = i == 0 ? b : a, c = s->via[from][to];
      if (c == s->k ? s->free[from][to] < 1 : s->free[from][c] < 1 || s->free[c][to] < 1)
        return FALSE;
    }
  return TRUE;
}

/* Whether every member still has links for all the rings that are wanted. */
static gboolean
enough_left (const Search *s, guint n_rings)
{
  for (guint i = 0; i < s->k; i++)
    if (MIN (s->out[i], s->in[i]) < (s->want - n_rings) * s->both)
      return FALSE;
  return TRUE;
}

static gboolean seek_ring (Search *s, guint ring);

/* Ring @ring has its first @n members; @seen says which. */
static gboolean
seek_member (Search *s, guint ring, guint n, guint seen)
{
  guint8 *const order = s->order[ring];
  if (s->steps == 0)
    return FALSE;
  s->steps--;
  if (n == s->k)
    {
      const guint last = order[n - 1];
      if ((s->both == 2 && order[1] > last) /* found the other way round already */
          || !can_step (s, last, 0))
        return FALSE;
      use_step (s, last, 0, 1);
      const gboolean found = enough_left (s, ring + 1) && seek_ring (s, ring + 1);
      use_step (s, last, 0, -1);
      return found;
    }
  /* Rings in the order of their second member; the search would else go through all orders of the same rings. */
  const guint first = n == 1 && ring > 0 ? s->order[ring - 1][1] : 1;
  for (guint i = 0; i < s->k - first; i++)
    {
      const guint next = n == 1 ? first + i : 1 + (order[n - 1] + i) % (s->k - 1);
      if ((seen & 1u << next) != 0 || !can_step (s, order[n - 1], next))
        continue;
      use_step (s, order[n - 1], next, 1);
      order[n] = (guint8) next;
      const gboolean found = seek_member (s, ring, n + 1, seen | 1u << next);
      use_step (s, order[n - 1], next, -1);
      if (found)
        return TRUE;
    }
  return FALSE;
}

/* The rings from number @ring on; TRUE once there are as many as wanted. */
static gboolean
seek_ring (Search *s, guint ring)
{
  if (ring > s->n_best)
    {
      s->n_best = ring;
      memcpy (s->best, s->order, ring * sizeof s->order[0]);
    }
  if (ring == s->want)
    return TRUE;
  s->order[ring][0] = 0;
  return seek_member (s, ring, 1, 1);
}

/* As many rings as the budget finds, but only if they are more than @n_known: from as many as the links of the poorest
 * member allow on down. */
static void
search (Search *s, const guint8 *lanes, guint k, guint both, guint max_rings, gboolean over_one, guint n_known)
{
  s->k = k;
  s->both = both;
  s->n_best = 0;
  memset (s->out, 0, sizeof s->out);
  memset (s->in, 0, sizeof s->in);
  for (guint a = 0; a < k; a++)
    for (guint b = 0; b < k; b++)
      {
        s->free[a][b] = a == b ? 0 : lanes[a * k + b];
        s->out[a] = (guint16) (s->out[a] + s->free[a][b]);
        s->in[b] = (guint16) (s->in[b] + s->free[a][b]);
        s->via[a][b] = (guint8) (over_one && a != b && s->free[a][b] == 0 ? sc_mesh_between (lanes, k, a, b) : k);
      }
  guint most = MAX_RINGS;
  for (guint i = 0; i < k; i++)
    most = MIN (most, MIN (s->out[i], s->in[i]));
  for (s->want = MIN (most, max_rings) / both; s->want > MAX (s->n_best, n_known); s->want--)
    {
      s->steps = MAX_STEPS;
      seek_ring (s, 0);
    }
}

guint
sc_mesh_rings (const guint8 *lanes, guint k, guint max_rings, guint32 *ret_order)
{
  g_return_val_if_fail (k >= 2 && k <= N, 0);
  Search pairs = { .both = 2 }, single;
  const Search *found = &pairs;
  for (guint over_one = 0; over_one < 2; over_one++)
    {
      if (k > 2) /* of two members the reverse is the ring itself */
        search (&pairs, lanes, k, 2, max_rings, over_one > 0, 0);
      search (&single, lanes, k, 1, max_rings, over_one > 0, 2 * pairs.n_best);
      found = single.n_best > 2 * pairs.n_best ? &single : &pairs;
      if (found->n_best > 0)
        break;
    }
  guint n = 0;
  for (guint ring = 0; ring < found->n_best; ring++)
    for (guint turned = 0; turned < found->both; turned++, n++)
      for (guint i = 0; i < k; i++)
        ret_order[n * k + i] = found->best[ring][turned == 0 ? i : (k - i) % k];
  return n;
}
