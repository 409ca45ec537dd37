/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summarise-memory.c - memory of the classes, stage by stage: ranks of one stage allocate the same. */
#include "models/summarise-memory.h"
#include "models/memory.h"

/* One stage. */
typedef struct
{
  ScTape *tape;
  ScTapePeak peak;
  guint64 least;       /* bytes that the allocator may have, on the fullest of its ranks */
  guint64 outside;     /* on that rank, outside of the allocator */
  ScTapePlay *play;    /* NULL: not played */
  guint class_id;      /* whose program the tape goes with */
  ScTime time;
  char *op;
} Stage;

static const char *
phase_name (guint phase)
{
  static const char *const names[] = { "forward", "backward", "recompute", "weight gradients" };
  return names[phase & 3];
}

/* The item at which a pass's part of the tape is highest. */
static const ScItem *
fullest_item (const ScTape *t, const ScTapeEntry *e)
{
  const GArray *const items = g_ptr_array_index (t->lists, e->list);
  const guint32 n = sc_tape_fullest_item (items);
  return n > 0 ? &g_array_index (items, ScItem, n - 1) : NULL;
}

/* @later: micro-batches that come before it, and are not on the tape. */
static char *
describe_peak (const ScTape *t, guint32 entry, guint later)
{
  if (entry == G_MAXUINT32)
    return g_strdup ("nothing");
  const ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, entry);
  const ScOpInfo info = sc_info_unpack (e->info);
  if (info.microbatch == SC_INFO_NO_MICROBATCH)
    return g_strdup (e->kind == SC_TAPE_STATE || e->kind == SC_TAPE_LAZY || e->kind == SC_TAPE_LATE ? "model states" : "the optimizer");
  const ScItem *const item = e->kind == SC_TAPE_LIST ? fullest_item (t, e) : NULL;
  const guint phase = item != NULL && item->time == SC_TIME_RECOMPUTE ? 2 : info.phase;
  g_autofree char *where = info.layer == SC_INFO_NO_LAYER ? g_strdup (info.phase == 0 ? "its ends" : "head or embedding")
                                                          : g_strdup_printf ("layer %u", info.layer);
  return g_strdup_printf ("%s of micro-batch %u, %s", phase_name (phase), info.microbatch + later, where);
}

/* The op of the class that runs at the peak: where kernels are ops, the one behind the highest item. */
static guint32
op_at_peak (const ScSummary *s, const ScActor *actor, const ScTape *t, guint32 entry)
{
  const ScTapeEntry *const e = &g_array_index (t->entries, ScTapeEntry, entry);
  guint32 op = e->op, found = e->op;
  if (e->kind != SC_TAPE_LIST)
    return op;
  const GArray *const items = g_ptr_array_index (t->lists, e->list);
  const guint32 end = MIN (op + items->len, actor->n_ops), n = sc_tape_fullest_item (items);
  for (guint32 i = e->from, left = 1; i < e->to && left > 0; i++)
    {
      const ScItem *const item = &g_array_index (items, ScItem, i);
      if (item->kind != SC_ITEM_KERNEL)
        continue;
      left = i < n ? 1 : 0;
      while (op < end
             && g_strcmp0 (g_ptr_array_index (s->labels, sc_program_op (s->program, actor, actor->first_op + op).label), item->kernel.name) != 0)
        op++;
      if (op == end)
        return found;
      found = op++;
    }
  return found;
}

static void
find_peak (const ScSummary *s, const ScRepeat *repeat, Stage *z)
{
  z->peak = sc_tape_peak (z->tape);
  const gboolean behind = repeat != NULL && z->peak.entry >= repeat->classes[z->class_id].end.entry; /* else it is as high the first time */
  z->op = describe_peak (z->tape, z->peak.entry, behind ? repeat->times * repeat->microbatches : 0);
  if (z->peak.entry == G_MAXUINT32 || s->trace == NULL)
    return;
  const ScActor *const actor = &g_array_index (s->program->actors, ScActor, z->class_id);
  const guint32 op = op_at_peak (s, actor, z->tape, z->peak.entry);
  z->time = op < actor->n_ops ? s->trace->spans[actor->first_op + op].start : s->trace->end;
}

guint
sc_memory_class_of (const ScSummary *s, guint stage)
{
  for (guint k = 0; k < s->n_classes; k++)
    if (s->classes[k].stage == stage)
      return k;
  g_return_val_if_reached (0);
}

ScTime *
sc_memory_times (const ScSummary *s, guint stage)
{
  const ScTape *const t = g_ptr_array_index (s->tapes, stage);
  const ScActor *const actor = &g_array_index (s->program->actors, ScActor, sc_memory_class_of (s, stage));
  ScTime *const times = g_new (ScTime, MAX (t->entries->len, 1));
  ScTime now = 0;
  for (guint32 i = 0; i < t->entries->len; i++)
    {
      const guint32 op = g_array_index (t->entries, ScTapeEntry, i).op;
      now = MAX (now, op < actor->n_ops ? s->trace->spans[actor->first_op + op].start : s->trace->end);
      times[i] = now;
    }
  return times;
}

/* What is on a rank's device but for the allocator's. */
static guint64
around (const ScClassSummary *c)
{
  return c->context_bytes + c->workspace_bytes + c->nccl_bytes;
}

static void
add_class (ScSummary *s, const ScLowerInput *in, const ScRepeat *repeat, guint k, Stage *stages)
{
  ScClassSummary *const c = &s->classes[k];
  Stage *const z = &stages[c->stage];
  c->context_bytes = (guint64) c->device->context_bytes.value;
  const ScFramework *const fw = in->workload->framework;
  c->workspace_bytes = fw->pool_workspaces || fw->pooled_workspaces ? 0 : (guint64) c->device->workspace_bytes.value; /* else the allocator has them */
  c->nccl_bytes = sc_memory_nccl (in->layout, in->fabric, c->representative) + sc_memory_nccl_grid (in->workload, in->fabric, c->representative);
  c->capacity_bytes = (guint64) c->device->memory_bytes.value;
  const guint64 left = c->capacity_bytes > around (c) ? c->capacity_bytes - around (c) : 1;
  if (z->tape != NULL && z->least <= left)
    return;
  if (z->tape == NULL)
    {
      z->tape = g_ptr_array_index (s->tapes, c->stage);
      z->class_id = k;
      find_peak (s, repeat, z);
    }
  z->least = left;
  z->outside = around (c);
}

static void
play_stage (const ScSummary *s, const ScRepeat *repeat, Stage *z, gboolean all)
{
  if (z->play != NULL)
    return;
  if (repeat != NULL)
    sc_tape_repeat (z->tape, repeat->classes[z->class_id].begin.entry, repeat->classes[z->class_id].end.entry, repeat->times, repeat->microbatches);

  const ScPlayOptions options = { .allocator = { .capacity = z->least, .expandable = s->workload->plan.expandable_segments }, .ahead = z->tape->ahead, .curve = all, .live = all };
  z->play = sc_tape_play (z->tape, &options);
}

/* The stage that has least left over its tensors. */
static Stage *
fullest (Stage *stages, guint n)
{
  Stage *ret = &stages[0];
  for (guint i = 1; i < n; i++)
    if ((double) stages[i].peak.bytes / (double) stages[i].least > (double) ret->peak.bytes / (double) ret->least)
      ret = &stages[i];
  return ret;
}

/* What segments hold for a peak of allocated bytes, in the ratio of a stage that was played. */
static guint64
reserved_alike (guint64 bytes, const Stage *played)
{
  return played->play == NULL || played->play->out_of_memory || played->peak.bytes == 0
             ? sc_memory_reserved (bytes)
             : (guint64) ((double) bytes * ((double) played->play->reserved[1] / (double) played->peak.bytes));
}

static guint64
reserved_by (const Stage *z, const Stage *fullest)
{
  if (z->play == NULL)
    return reserved_alike (z->peak.bytes, fullest);
  return z->play->out_of_memory ? MAX (sc_memory_reserved (z->peak.bytes), z->least + 1) : z->play->reserved[1];
}

static void
play_stages (ScSummary *s, const ScRepeat *repeat, Stage *stages, ScMemoryDepth depth)
{
  Stage *const first = fullest (stages, s->n_stages);
  if (depth == SC_MEMORY_NONE)
    return;
  play_stage (s, repeat, first, depth == SC_MEMORY_ALL);
  for (guint i = 0; i < s->n_stages; i++)
    {
      Stage *const z = &stages[i];
      const double total = (double) (z->least + z->outside);
      if (depth == SC_MEMORY_ALL || depth == SC_MEMORY_STAGES || (double) (reserved_alike (z->peak.bytes, first) + z->outside) > total * (1 - s->memory_margin))
        play_stage (s, repeat, z, depth == SC_MEMORY_ALL);
    }
}

static void
finish_class (const ScSummary *s, ScClassSummary *c, const Stage *z, const Stage *fullest)
{
  c->peak_allocated_bytes = z->peak.bytes;
  c->late_allocated_bytes = sc_tape_late_peak (z->tape).bytes;
  for (guint i = 0; i < SC_N_MEMS; i++)
    c->at_peak[i] = z->peak.by_kind[i];
  c->peak_time = z->time;
  c->peak_op = g_strdup (z->op);
  c->peak_reserved_bytes = reserved_by (z, fullest);
  c->step_reserved_bytes = z->play != NULL && !z->play->out_of_memory ? z->play->step_reserved : c->peak_reserved_bytes;
  c->reserved_played = z->play != NULL;
  c->n_early_retries = z->play != NULL ? (guint) z->play->n_early_retries : 0;
  c->n_retries = z->play != NULL ? z->play->n_retries : 0;
  c->peak_device_bytes = c->peak_reserved_bytes + around (c);
  c->verdict = sc_memory_verdict (c->peak_device_bytes, c->capacity_bytes, s->memory_margin);
  if (z->play != NULL && z->play->n_retries > 0 && c->verdict == SC_VERDICT_FITS)
    c->verdict = SC_VERDICT_AT_RISK;
}

void
sc_summarise_memory (ScSummary *s, const ScLowerInput *in, const ScRepeat *repeat, ScMemoryDepth depth)
{
  g_autofree Stage *stages = g_new0 (Stage, s->n_stages);
  for (guint k = 0; k < s->n_classes; k++)
    add_class (s, in, repeat, k, stages);
  play_stages (s, repeat, stages, depth);
  const Stage *const first = fullest (stages, s->n_stages);
  for (guint k = 0; k < s->n_classes; k++)
    {
      ScClassSummary *const c = &s->classes[k], *const worst = &s->classes[s->memory_class];
      finish_class (s, c, &stages[c->stage], first);
      if ((double) c->peak_device_bytes / (double) c->capacity_bytes > (double) worst->peak_device_bytes / (double) worst->capacity_bytes)
        s->memory_class = k;
    }
  s->verdict = s->classes[s->memory_class].verdict;
  s->plays = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_tape_play_free);
  for (guint i = 0; i < s->n_stages; i++)
    {
      g_ptr_array_add (s->plays, stages[i].play);
      g_free (stages[i].op);
    }
}
