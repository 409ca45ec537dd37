/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory-groups.c - curve and tensors of one stage, for reports. */
#include "memory-groups.h"
#include "models/summarise-memory.h"
#include <string.h>

static int
larger_first (gconstpointer a, gconstpointer b)
{
  const ScMemoryGroup *const x = a, *const y = b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return g_strcmp0 (x->tensor.name, y->tensor.name);
}

static ScMemoryGroup *
find_group (GArray *groups, const ScLiveTensor *t)
{
  for (guint i = 0; i < groups->len; i++)
    {
      ScMemoryGroup *const g = &g_array_index (groups, ScMemoryGroup, i);
      if (g->tensor.bytes == t->bytes && g->tensor.mem == t->mem && g->tensor.output == t->output && g_strcmp0 (g->tensor.name, t->name) == 0)
        return g;
    }
  const ScOpInfo info = sc_info_unpack (t->info);
  const ScMemoryGroup group = { .tensor = *t, .first_layer = info.layer, .last_layer = info.layer, .first_microbatch = info.microbatch,
                                .last_microbatch = info.microbatch };
  g_array_append_val (groups, group);
  return &g_array_index (groups, ScMemoryGroup, groups->len - 1);
}

GArray *
sc_memory_groups (const ScTapePlay *play)
{
  GArray *const groups = g_array_new (FALSE, FALSE, sizeof (ScMemoryGroup));
  for (guint i = 0; play->live != NULL && i < play->live->len; i++)
    {
      const ScLiveTensor *const t = &g_array_index (play->live, ScLiveTensor, i);
      const ScOpInfo info = sc_info_unpack (t->info);
      ScMemoryGroup *const g = find_group (groups, t);
      g->n++;
      g->bytes += (guint64) t->bytes;
      g->first_layer = MIN (g->first_layer, info.layer);
      g->last_layer = MAX (g->last_layer, info.layer);
      g->first_microbatch = MIN (g->first_microbatch, info.microbatch);
      g->last_microbatch = MAX (g->last_microbatch, info.microbatch);
    }
  g_array_sort (groups, larger_first);
  return groups;
}

char *
sc_memory_group_name (const ScLiveTensor *t)
{
  if (t->name == NULL || *t->name == '\0')
    return g_strdup (t->mem == SC_MEM_COMM ? "buffer of a transfer" : sc_mem_kind_name ((ScMemKind) t->mem));
  return t->output ? g_strdup_printf ("output of %s", t->name) : g_strdup (t->name);
}

static ScMemoryColumn
column_of (const guint64 *by_kind, guint64 reserved)
{
  ScMemoryColumn c = { .reserved = reserved };
  memcpy (c.by_kind, by_kind, sizeof c.by_kind);
  for (guint k = 0; k < SC_N_MEMS; k++)
    c.allocated += by_kind[k];
  return c;
}

static void
raise_column (ScMemoryColumn *c, ScMemoryColumn to)
{
  const guint64 reserved = MAX (c->reserved, to.reserved);
  if (to.allocated > c->allocated)
    *c = to;
  c->reserved = reserved;
}

/* A column begins as the one before it ended. */
ScMemoryColumn *
sc_memory_columns (const ScSummary *s, guint stage, guint n_columns)
{
  const ScTapePlay *const play = g_ptr_array_index (s->plays, stage);
  g_autofree ScTime *times = sc_memory_times (s, stage);
  ScMemoryColumn *const columns = g_new0 (ScMemoryColumn, n_columns);
  ScMemoryColumn now = { .allocated = 0 };
  guint begun = 0; /* columns */
  for (guint i = 0; i < play->curve->len; i++)
    {
      const ScTapePoint *const point = &g_array_index (play->curve, ScTapePoint, i);
      const guint at = (guint) MIN ((double) n_columns - 1, (double) times[point->entry] / (double) MAX (s->trace->end, 1) * n_columns);
      while (begun <= at)
        columns[begun++] = now;
      raise_column (&columns[at], column_of (point->highest, point->reserved));
      now = column_of (point->after, point->reserved);
    }
  while (begun < n_columns)
    columns[begun++] = now;
  return columns;
}

guint
sc_memory_stages (const ScSummary *s, guint *ret)
{
  const guint fullest = s->classes[s->memory_class].stage, last = s->n_stages - 1;
  guint n = 0;
  ret[n++] = 0;
  if (fullest != 0)
    ret[n++] = fullest;
  if (last != fullest && last != 0)
    ret[n++] = last;
  return n;
}
