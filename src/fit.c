/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit.c - the verdict, the changes that turn it, and how far batch, sequence and GPUs can be stretched. */
#include "fit.h"
#include <math.h>
#include <string.h>

#define MOST_PAIRS   8    /* that fit, simulated */
#define MOST_TRIED   200  /* pairs whose memory is looked at */
#define PAIR_SLACK   1.1  /* two changes may do better together than the product of what each leaves */
#define SEQ_UNIT     256  /* tokens: sequences are looked for in steps of so many */
#define MOST_SEQ     10000000 /* as the workload's key has it, */
#define MOST_MICRO_BATCH 65536 /* and this one */

typedef struct
{
  const ScFitInput *in;
  ScForecastContext *context;
  ScFit *fit;
} Search;

static const ScClassSummary *
fullest (const ScSummary *s)
{
  return &s->classes[s->memory_class];
}

static ScSummary *
memory_of (const Search *f, const ScWorkload *w, ScMemoryDepth depth, GError **error)
{
  const ScForecastOptions how = { .memory = depth, .context = f->context };
  return sc_forecast_memory (f->in->topology, w, &how, error);
}

/* As stepcast run --detail stage has it; NAN: it cannot be simulated. */
static double
step_of (const Search *f, const ScWorkload *w)
{
  const ScForecastOptions how = { .memory = SC_MEMORY_NONE, .detail = SC_DETAIL_STAGE, .brief = TRUE, .context = f->context };
  g_autoptr (ScSummary) s = sc_forecast (f->in->topology, w, &how, NULL);
  return s != NULL ? sc_time_to_s (s->step) : NAN;
}

static gboolean
does_fit (const Search *f, ScVerdict verdict)
{
  return verdict <= f->in->worst;
}

/* "/plan/tp: ...", without the file and the --set before it. */
static const char *
reason_of (const GError *error)
{
  const char *const pointer = strstr (error->message, ": /");
  return pointer != NULL ? pointer + 2 : error->message;
}

/* ---- Changes ---- */

static void
refuse (Search *f, const char *text, const GError *why)
{
  g_ptr_array_add (f->fit->refused, g_strdup_printf ("%s: %s", text, reason_of (why)));
}

/* Fills what the change comes to in memory; FALSE: the plan cannot be. */
static gboolean
try_memory (Search *f, ScFitChange *c)
{
  g_autoptr (GError) why = NULL;
  g_autoptr (ScWorkload) w = f->in->read (f->in->data, c->set, &why);
  g_autoptr (ScSummary) s = w != NULL ? memory_of (f, w, SC_MEMORY_FULLEST, &why) : NULL;
  if (s == NULL)
    {
      if (c->other == NULL)
        refuse (f, c->text, why);
      return FALSE;
    }
  c->device_bytes = fullest (s)->peak_device_bytes;
  c->capacity_bytes = fullest (s)->capacity_bytes;
  c->stage = fullest (s)->stage;
  c->verdict = s->verdict;
  return TRUE;
}

static void
try_time (Search *f, ScFitChange *c)
{
  g_autoptr (ScWorkload) w = f->in->read (f->in->data, c->set, NULL);
  c->step_s = w != NULL ? step_of (f, w) : NAN;
  c->cost = c->step_s / f->fit->step_s - 1;
}

/* Share of the GPU that the change leaves in use, over that of the plan as given. */
static double
left_by (const Search *f, const ScFitChange *c)
{
  const ScClassSummary *const given = fullest (f->fit->memory);
  return (double) c->device_bytes / (double) c->capacity_bytes / ((double) given->peak_device_bytes / (double) given->capacity_bytes);
}

static int
by_cost (gconstpointer a, gconstpointer b)
{
  const ScFitChange *const x = *(const ScFitChange *const *) a, *const y = *(const ScFitChange *const *) b;
  if (isnan (x->cost) != isnan (y->cost))
    return isnan (x->cost) ? 1 : -1;
  if (!isnan (x->cost) && x->cost != y->cost)
    return x->cost < y->cost ? -1 : 1;
  if (x->device_bytes != y->device_bytes)
    return x->device_bytes < y->device_bytes ? -1 : 1;
  return strcmp (x->text, y->text);
}

static gboolean
is_tried (const ScFitChange *c)
{
  return c->device_bytes > 0;
}

/* From @first on, changes of one ladder: the least that does, and those that pairs are made of. */
static guint
climb (Search *f, GPtrArray *all, guint first)
{
  const guint ladder = ((const ScFitChange *) g_ptr_array_index (all, first))->ladder;
  guint end = first, below = first, above;
  while (end < all->len && ((const ScFitChange *) g_ptr_array_index (all, end))->ladder == ladder)
    end++;
  above = end; /* all before below are too little, above does or is the end */
  while (below < above)
    {
      const guint middle = below + (above - below) / 2;
      ScFitChange *const c = g_ptr_array_index (all, middle);
      if (try_memory (f, c) && does_fit (f, c->verdict))
        above = middle;
      else
        below = middle + 1;
    }
  for (guint i = first; i < end; i++)
    {
      ScFitChange *const c = g_ptr_array_index (all, i);
      if (c->in_pairs && !is_tried (c) && above == end)
        try_memory (f, c);
      else if (i > above) /* more than is needed */
        c->device_bytes = 0;
    }
  return end;
}

/* All single changes, tried. */
static GPtrArray *
try_singles (Search *f)
{
  GPtrArray *const all = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_fit_change_free);
  for (const ScFitRow *const *row = sc_fit_rows (); *row != NULL; row++)
    (*row)->propose (f->in, all);
  for (guint i = 0; i < all->len;)
    {
      ScFitChange *const c = g_ptr_array_index (all, i);
      if (c->ladder != 0)
        i = climb (f, all, i);
      else
        {
          try_memory (f, c);
          i++;
        }
    }
  return all;
}

/* Sorts them and marks the cheapest of each row. */
static void
mark_best (GPtrArray *changes)
{
  g_ptr_array_sort (changes, by_cost);
  for (guint i = 0; i < changes->len; i++)
    {
      ScFitChange *const c = g_ptr_array_index (changes, i);
      c->best = TRUE;
      for (guint k = 0; k < i && c->best; k++)
        {
          const ScFitChange *const before = g_ptr_array_index (changes, k);
          c->best = before->row != c->row || before->other != c->other;
        }
    }
}

/* ---- Two changes at once ---- */

typedef struct
{
  const ScFitChange *a, *b;
  double cost; /* expected */
} Pair;

static int
by_expected_cost (gconstpointer a, gconstpointer b)
{
  const Pair *const x = a, *const y = b;
  return (x->cost > y->cost) - (x->cost < y->cost);
}

/* Both ways of cutting up the GPUs say what is left for DP: their own would win. */
static gboolean
go_together (const ScFitChange *a, const ScFitChange *b)
{
  if (a->row == b->row)
    return FALSE;
  for (char **x = a->set; *x != NULL; x++)
    for (char **y = b->set; *y != NULL; y++)
      if (strcspn (*x, "=") == strcspn (*y, "=") && strncmp (*x, *y, strcspn (*x, "=")) == 0)
        return FALSE;
  return TRUE;
}

static ScFitChange *
both (const Pair *p)
{
  ScFitChange *const c = g_new0 (ScFitChange, 1);
  g_autoptr (GPtrArray) set = g_ptr_array_new ();
  for (char **one = p->a->set; *one != NULL; one++)
    g_ptr_array_add (set, *one);
  for (char **one = p->b->set; *one != NULL; one++)
    g_ptr_array_add (set, *one);
  g_ptr_array_add (set, NULL);
  c->text = g_strdup_printf ("%s; %s", p->a->text, p->b->text);
  c->set = g_strdupv ((char **) set->pdata);
  c->row = p->a->row;
  c->other = p->b->row;
  c->step_s = c->cost = NAN;
  return c;
}

/* Of single changes that help, those that should do together, the cheapest ones first. */
static GArray *
list_pairs (const Search *f, const GPtrArray *singles)
{
  const ScClassSummary *const given = fullest (f->fit->memory);
  const double needed = (double) given->capacity_bytes / (double) given->peak_device_bytes * PAIR_SLACK;
  GArray *const pairs = g_array_new (FALSE, FALSE, sizeof (Pair));
  for (guint i = 0; i < singles->len; i++)
    for (guint k = i + 1; k < singles->len; k++)
      {
        const Pair p = { g_ptr_array_index (singles, i), g_ptr_array_index (singles, k),
                         (1 + ((const ScFitChange *) g_ptr_array_index (singles, i))->cost) * (1 + ((const ScFitChange *) g_ptr_array_index (singles, k))->cost) };
        if (!isnan (p.cost) && go_together (p.a, p.b) && left_by (f, p.a) * left_by (f, p.b) <= needed)
          g_array_append_val (pairs, p);
      }
  g_array_sort (pairs, by_expected_cost);
  return pairs;
}

/* Is there one of the same two rows already? */
static gboolean
has_kind (const GPtrArray *changes, const Pair *p)
{
  for (guint i = 0; i < changes->len; i++)
    {
      const ScFitChange *const c = g_ptr_array_index (changes, i);
      if (c->row == p->a->row && c->other == p->b->row)
        return TRUE;
    }
  return FALSE;
}

static void
try_pairs (Search *f, const GPtrArray *all)
{
  g_autoptr (GPtrArray) helpful = g_ptr_array_new ();
  for (guint i = 0; i < all->len; i++)
    {
      ScFitChange *const c = g_ptr_array_index (all, i);
      if (!is_tried (c) || !c->in_pairs || left_by (f, c) >= 1)
        continue;
      try_time (f, c);
      g_ptr_array_add (helpful, c);
    }
  g_autoptr (GArray) pairs = list_pairs (f, helpful);
  guint tried = 0;
  for (guint i = 0; i < pairs->len && tried < MOST_TRIED && f->fit->changes->len < MOST_PAIRS; i++)
    {
      if (has_kind (f->fit->changes, &g_array_index (pairs, Pair, i)))
        continue;
      tried++;
      ScFitChange *const c = both (&g_array_index (pairs, Pair, i));
      if (!try_memory (f, c) || !does_fit (f, c->verdict))
        {
          sc_fit_change_free (c);
          continue;
        }
      try_time (f, c);
      g_ptr_array_add (f->fit->changes, c);
    }
}

static void
find_changes (Search *f)
{
  ScFit *const fit = f->fit;
  g_autoptr (GPtrArray) all = try_singles (f);
  fit->step_s = step_of (f, f->in->workload);
  for (guint i = 0; i < all->len; i++)
    {
      ScFitChange *const c = g_ptr_array_index (all, i);
      if (!is_tried (c) || !does_fit (f, c->verdict))
        continue;
      try_time (f, c);
      g_ptr_array_add (fit->changes, c);
      all->pdata[i] = NULL;
    }
  while (g_ptr_array_remove (all, NULL))
    ;
  if (fit->changes->len == 0)
    try_pairs (f, all);
  mark_best (fit->changes);
  for (guint i = 0; i < all->len; i++)
    if (is_tried (g_ptr_array_index (all, i)))
      {
        g_ptr_array_add (fit->short_of, g_ptr_array_index (all, i));
        all->pdata[i] = NULL;
      }
}

/* ---- Limits ---- */

/* One number of the plan at a value. */
typedef struct
{
  gboolean fits;
  guint64  device_bytes, capacity_bytes;
  char    *why; /* it cannot be; owned */
} Probe;

/* Which number that is. */
typedef struct
{
  char **(*keys) (const Search *f, guint64 value);
  guint64 given; /* what the plan has */
} Axis;

static Probe
probe (const Search *f, const Axis *axis, guint64 value)
{
  Probe p = { FALSE, 0, 0, NULL };
  g_autoptr (GError) why = NULL;
  g_auto (GStrv) set = axis->keys (f, value);
  g_autoptr (ScWorkload) w = value != axis->given ? f->in->read (f->in->data, set, &why) : NULL;
  g_autoptr (ScSummary) changed = w != NULL ? memory_of (f, w, SC_MEMORY_FULLEST, &why) : NULL;
  const ScSummary *const s = value != axis->given ? changed : f->fit->memory;
  if (s == NULL)
    {
      p.why = g_strdup (reason_of (why));
      return p;
    }
  p.fits = does_fit (f, s->verdict);
  p.device_bytes = fullest (s)->peak_device_bytes;
  p.capacity_bytes = fullest (s)->capacity_bytes;
  return p;
}

/* Looks at @value: it becomes the last that fits, or the next beyond.  @limit->set is filled by finish_limit(). */
static gboolean
look (const Search *f, ScFitLimit *limit, const Axis *axis, guint64 value)
{
  Probe p = probe (f, axis, value);
  if (p.fits)
    {
      limit->found = TRUE;
      limit->value = value;
      limit->device_bytes = p.device_bytes;
      limit->capacity_bytes = p.capacity_bytes;
      return TRUE;
    }
  g_free (limit->why);
  limit->why = p.why;
  limit->beyond = value;
  limit->beyond_bytes = p.device_bytes;
  limit->capacity_bytes = limit->found ? limit->capacity_bytes : p.capacity_bytes;
  return FALSE;
}

static void
finish_limit (const Search *f, ScFitLimit *limit, const Axis *axis)
{
  if (limit->found)
    limit->set = axis->keys (f, limit->value);
}

/* Can the plan be with this value at all? */
static gboolean
can_be (const Search *f, const Axis *axis, guint64 value)
{
  g_auto (GStrv) set = axis->keys (f, value);
  g_autoptr (ScWorkload) w = f->in->read (f->in->data, set, NULL);
  return w != NULL;
}

/* Divisors of @n from 1 to @most with which the plan can be, ascending. */
static GArray *
divisors (const Search *f, const Axis *axis, guint n, guint most)
{
  GArray *const ret = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint d = 1; d <= MIN (n, most); d++)
    if (n % d == 0 && can_be (f, axis, d))
      g_array_append_val (ret, d);
  return ret;
}

/* @values ascending, of which the first ones fit; @up FALSE: the last ones, and the first of those is wanted. */
static void
bisect (const Search *f, ScFitLimit *limit, const Axis *axis, const GArray *values, gboolean up)
{
  guint low = 0, high = values->len; /* up: all before low fit, none from high on; else the other way round */
  while (low < high)
    {
      const guint middle = low + (high - low) / 2;
      if (look (f, limit, axis, g_array_index (values, guint, middle)) == up)
        low = middle + 1;
      else
        high = middle;
    }
  finish_limit (f, limit, axis);
}

static char **
keys_of (const char *first, const char *second)
{
  const char *const all[] = { first, second, NULL };
  return g_strdupv ((char **) (gsize) all);
}

static char **
micro_batch_keys (const Search *f, guint64 value)
{
  g_autofree char *key = g_strdup_printf ("plan.micro_batch=%" G_GUINT64_FORMAT, value);
  (void) f;
  return keys_of (key, NULL);
}

static void
find_micro_batch (Search *f)
{
  const ScPlan *const p = &f->in->workload->plan;
  const Axis axis = { micro_batch_keys, p->micro_batch };
  g_autoptr (GArray) values = divisors (f, &axis, p->global_batch / p->dp, MOST_MICRO_BATCH);
  bisect (f, &f->fit->micro_batch, &axis, values, TRUE);
}

static char **
seq_keys (const Search *f, guint64 value)
{
  g_autofree char *key = g_strdup_printf ("seq=%" G_GUINT64_FORMAT, value);
  (void) f;
  return keys_of (key, NULL);
}

/* What context and sequence parallelism can share out. */
static guint64
seq_unit (const ScPlan *p)
{
  const guint64 parts = 2 * (guint64) p->cp * p->tp;
  guint64 unit = SEQ_UNIT;
  while (unit % parts != 0)
    unit += SEQ_UNIT;
  return unit;
}

/* Between the last that fits and the next that does not, where a straight line through both fills the GPU; halfway, if that one is not known. */
static double
where_full (const Search *f, const ScFitLimit *l)
{
  const double margin = f->in->worst == SC_VERDICT_FITS ? f->fit->memory->memory_margin : 0;
  const double from = (double) l->value, to = (double) l->beyond, at = (double) l->device_bytes, over = (double) l->beyond_bytes;
  if (l->why != NULL || over <= at)
    return (from + to) / 2;
  return from + ((double) l->capacity_bytes * (1 - margin) - at) / (over - at) * (to - from);
}

/* Doubles, or halves, from what the plan has, then closes in.  Memory goes about straight with the length, so that few looks do. */
static void
find_seq (Search *f)
{
  ScFitLimit *const limit = &f->fit->seq;
  const Axis axis = { seq_keys, f->in->workload->seq };
  const guint64 unit = seq_unit (&f->in->workload->plan);
  guint64 low, high;
  if (look (f, limit, &axis, f->in->workload->seq))
    for (high = MAX (2 * (guint64) f->in->workload->seq / unit, 1) * unit; high <= MOST_SEQ && look (f, limit, &axis, high); high *= 2)
      ;
  else
    for (low = f->in->workload->seq / 2 / unit * unit; low >= unit && !look (f, limit, &axis, low); low = low / 2 / unit * unit)
      ;
  while (limit->found && limit->beyond > limit->value + unit)
    {
      const guint64 first = limit->value / unit + 1, last = (limit->beyond - 1) / unit; /* between the two, in units */
      const guint64 middle = CLAMP ((guint64) (where_full (f, limit) / (double) unit), first, last);
      if (first > last)
        break;
      look (f, limit, &axis, middle * unit);
    }
  finish_limit (f, limit, &axis);
}

static guint
replica_gpus (const ScPlan *p)
{
  return p->gpus / p->dp;
}

/* Both, since the user may have given either. */
static char **
replicas_keys (const Search *f, guint64 value)
{
  g_autofree char *dp = g_strdup_printf ("plan.dp=%" G_GUINT64_FORMAT, value);
  g_autofree char *gpus = g_strdup_printf ("plan.gpus=%" G_GUINT64_FORMAT, value * replica_gpus (&f->in->workload->plan));
  return keys_of (dp, gpus);
}

static void
find_gpus (Search *f)
{
  const ScPlan *const p = &f->in->workload->plan;
  ScFitLimit *const limit = &f->fit->gpus;
  const Axis axis = { replicas_keys, p->dp };
  const guint each = replica_gpus (p);
  g_autoptr (GArray) values = divisors (f, &axis, p->global_batch / p->micro_batch, sc_topology_job_gpus (f->in->topology) / each);
  f->fit->replica_gpus = each;
  if (values->len > 0)
    {
      f->fit->least_gpus = g_array_index (values, guint, 0) * each;
      f->fit->most_gpus = g_array_index (values, guint, values->len - 1) * each;
    }
  bisect (f, limit, &axis, values, FALSE);
  limit->value *= each;
  limit->beyond *= each;
}

/* ---- All of it ---- */

void
sc_fit_free (ScFit *fit)
{
  if (fit == NULL)
    return;
  ScFitLimit *const limits[] = { &fit->micro_batch, &fit->seq, &fit->gpus };
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      g_free (limits[i]->why);
      g_strfreev (limits[i]->set);
    }
  sc_summary_free (fit->memory);
  g_ptr_array_unref (fit->changes);
  g_ptr_array_unref (fit->short_of);
  g_ptr_array_unref (fit->refused);
  g_free (fit);
}

ScFit *
sc_fit (const ScFitInput *in, GError **error)
{
  g_autoptr (ScForecastContext) context = sc_forecast_context_new (in->topology);
  g_autoptr (ScFit) fit = g_new0 (ScFit, 1);
  Search f = { in, context, fit };
  fit->changes = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_fit_change_free);
  fit->short_of = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_fit_change_free);
  fit->refused = g_ptr_array_new_with_free_func (g_free);
  fit->step_s = NAN;
  fit->memory = memory_of (&f, in->workload, SC_MEMORY_FULLEST, error);
  if (fit->memory == NULL)
    return NULL;
  fit->fits = does_fit (&f, fit->memory->verdict);
  if (!in->quick && !fit->fits)
    find_changes (&f);
  if (!in->quick)
    {
      find_micro_batch (&f);
      find_seq (&f);
      find_gpus (&f);
    }
  return g_steal_pointer (&fit);
}
