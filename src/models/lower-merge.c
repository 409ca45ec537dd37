/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-merge.c - runs of items that nothing can come between become few ops (DESIGN 3.4).
 *
 * What a pass does on one rank is known before the step is simulated: its kernels run one after the other, and its collectives
 * begin when all members are there, which, of ranks of one class, is at once.  It is played here once per class, and put as
 *   - work by category, which is slowed by what runs beside it, as its kernels would be;
 *   - communication by category that nobody shares links with: delays;
 *   - calls where they stand, where somebody may share links or come late; a pass over several layers then stays one of each.
 *
 * The host: a pass ends at max (g + S, h + M) if compute is free at g and its host at h, with S the time of its items and M = max
 * over k of (time to issue items 0..k + time from the beginning of k on).  The first op takes M - S to issue, the last one
 * the rest.  Where the host waits for numbers on the GPU, its time begins anew.  Memory: the highest sum on the way is allocated at the beginning, and what does not stay freed at the end. */
#include "models/lower-parts.h"
#include <math.h>

/* What lasts as long as it would alone, and what stands behind it because it may not. */
typedef struct
{
  ScTime work[SC_N_TIMES][SC_N_WORKS], comm[SC_N_TIMES];
  gboolean ends;   /* with this: */
  PricedItem item; /* a collective, or the beginning or the end of one beside compute */
} Segment;

/* A collective beside compute. */
typedef struct
{
  ScTime start, end;
  double hold[SC_N_HOLDS];
  guint8 comm;
  gboolean shared; /* it is put as it is */
  gboolean waited;
} Beside;

/* Segments that the host issues without waiting; the last one ends with its wait, or the list with it. */
typedef struct
{
  guint  n;           /* segments */
  ScTime lead, issue; /* host time of the first op, of all */
  ScTime start;       /* of compute, as the list is played */
} Run;

struct _Merged
{
  GArray *segments; /* Segment */
  GArray *runs;     /* Run */
  guint32 peak, after; /* memory sets, or SC_NONE */
  ScTime grade_ps[SC_N_GRADES];
};

/* Playing a list. */
typedef struct
{
  Lower *l;
  struct _Merged *m;
  ScTime now;       /* of compute */
  GArray *beside;   /* Beside */
  gint64 bytes[SC_N_MEMS], most[SC_N_MEMS], sum, most_sum;
} Play;

static Segment *
segment (const Play *p)
{
  return &g_array_index (p->m->segments, Segment, p->m->segments->len - 1);
}

static Run *
run_of (const Play *p)
{
  return &g_array_index (p->m->runs, Run, p->m->runs->len - 1);
}

static void
play_memory (Play *p, ScMemKind kind, gint64 bytes)
{
  p->bytes[kind] += bytes;
  p->sum += bytes;
  if (p->sum <= p->most_sum)
    return;
  p->most_sum = p->sum;
  memcpy (p->most, p->bytes, sizeof p->most);
}

static void
play_memory_set (Play *p, guint32 set)
{
  const ScProgram *const program = p->l->p;
  if (set == SC_NONE)
    return;
  const guint32 end = g_array_index (program->mem_sets, guint32, set + 1);
  gint64 sum = 0; /* one instant: only the outcome counts */
  for (guint32 i = g_array_index (program->mem_sets, guint32, set); i < end; i++)
    {
      const ScMemDelta *const d = &g_array_index (program->mem_deltas, ScMemDelta, i);
      p->bytes[d->tag] += d->bytes;
      sum += d->bytes;
    }
  p->sum += sum;
  play_memory (p, SC_MEM_WEIGHTS, 0);
}

static void
play_issue (Play *p, const PricedItem *item)
{
  Run *const run = run_of (p);
  run->issue += (ScTime) item->issue_ns * 1000;
  run->lead = MAX (run->lead, run->issue - (p->now - run->start));
}

/* Work of @ps at full rate, which collectives beside it slow. */
static ScTime
play_work (Play *p, ScTime ps, guint work)
{
  const ScTime from = p->now;
  double left = (double) ps;
  while (left > 0)
    {
      double hold = 0;
      ScTime change = G_MAXINT64;
      for (guint i = 0; i < p->beside->len; i++)
        {
          const Beside *const b = &g_array_index (p->beside, Beside, i);
          if (b->start > p->now)
            change = MIN (change, b->start);
          else if (b->end > p->now)
            {
              hold += b->hold[work];
              change = MIN (change, b->end);
            }
        }
      const double rate = 1 - MIN (hold, 0.99);
      if (change == G_MAXINT64 || left / rate <= (double) (change - p->now))
        {
          p->now += (ScTime) llround (left / rate);
          break;
        }
      left -= (double) (change - p->now) * rate;
      p->now = change;
    }
  return p->now - from;
}

static ScTime
play_alone (Play *p, const PricedItem *item, const ScCall **ret_call)
{
  const guint32 call = sc_lower_item_call (p->l, item);
  *ret_call = &g_array_index (p->l->p->calls, ScCall, call);
  return (ScTime) llround (sc_lower_alone_ps (p->l, call));
}

/* Ends the segment with @item, whose time to issue is counted already. */
static void
play_as_it_is (Play *p, const PricedItem *item)
{
  static const Segment next = { .ends = FALSE };
  Segment *const now = segment (p);
  now->ends = TRUE;
  now->item = *item;
  now->item.issue_ns = 0;
  g_array_append_val (p->m->segments, next);
  run_of (p)->n++;
}

/* What the host reads, and where it waits for that. */
static void
play_host (Play *p, const PricedItem *item)
{
  if (!sc_lower_has_host (p->l))
    return;
  play_as_it_is (p, item);
  if (item->kind != SC_ITEM_HOST_WAIT)
    return;
  const Run next = { .n = 1, .start = p->now };
  run_of (p)->n--;
  g_array_append_val (p->m->runs, next);
}

static void
play_collective (Play *p, const PricedItem *item)
{
  const ScCall *call;
  const ScTime alone = play_alone (p, item, &call);
  p->now += alone;
  if (sc_lower_may_wait (p->l, (ScCommKind) item->comm))
    play_as_it_is (p, item);
  else
    segment (p)->comm[call->tag] += alone;
}

static void
play_start (Play *p, const PricedItem *item)
{
  const ScCall *call;
  Beside b = { .start = p->now, .comm = item->comm, .shared = sc_lower_may_wait (p->l, (ScCommKind) item->comm) };
  b.end = play_alone (p, item, &call);
  if (!b.shared) /* what is put as it is slows compute by itself */
    memcpy (b.hold, call->hold, sizeof b.hold);
  for (guint i = 0; i < p->beside->len; i++) /* one after the other on their stream */
    {
      const Beside *const before = &g_array_index (p->beside, Beside, i);
      if (sc_lower_stream_beside ((ScCommKind) before->comm) == sc_lower_stream_beside ((ScCommKind) item->comm))
        b.start = MAX (b.start, before->end);
    }
  b.end += b.start;
  g_array_append_val (p->beside, b);
  if (b.shared)
    play_as_it_is (p, item);
}

static void
play_wait (Play *p, const PricedItem *item)
{
  for (guint i = 0; i < p->beside->len; i++)
    {
      Beside *const b = &g_array_index (p->beside, Beside, i);
      if (b->comm != item->comm || b->waited)
        continue;
      b->waited = TRUE;
      if (b->shared)
        play_as_it_is (p, item);
      else if (b->end > p->now)
        segment (p)->comm[sc_lower_comm_time ((ScCommKind) b->comm)] += b->end - p->now;
      p->now = MAX (p->now, b->end);
      return;
    }
  g_assert_not_reached ();
}

static void
play (Play *p, const Priced *priced)
{
  for (guint i = 0; i < priced->n; i++)
    {
      const PricedItem *const item = &priced->items[i];
      switch ((ScItemKind) item->kind)
        {
        case SC_ITEM_KERNEL:
          play_issue (p, item);
          play_memory_set (p, item->memory);
          {
            const ScTime took = play_work (p, item->value, item->work);
            segment (p)->work[item->time][item->work] += took;
          }
          break;
        case SC_ITEM_COLLECTIVE:
          play_issue (p, item);
          play_collective (p, item);
          break;
        case SC_ITEM_COLLECTIVE_START:
          play_issue (p, item);
          play_start (p, item);
          break;
        case SC_ITEM_COLLECTIVE_WAIT:
          play_wait (p, item);
          break;
        case SC_ITEM_MEM:
          play_memory (p, (ScMemKind) item->time, item->value);
          break;
        case SC_ITEM_HOST_MARK:
        case SC_ITEM_HOST_WAIT:
          play_host (p, item);
          break;
        default:
          g_assert_not_reached ();
        }
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    p->m->grade_ps[g] += priced->grade_ps[g];
}

/* Nothing is under way beside compute, so that what is played next does not hang on what was. */
static gboolean
is_clear (Play *p)
{
  for (guint i = 0; i < p->beside->len; i++)
    {
      const Beside *const b = &g_array_index (p->beside, Beside, i);
      if (!b->waited || b->end > p->now)
        return FALSE;
    }
  g_array_set_size (p->beside, 0);
  return TRUE;
}

/* What was played since @before, which began and ended clear and left nothing as it is, @times more. */
static void
play_again (Play *p, const Play *before, const Segment *segment_before, const Run *run_before, const Priced *priced, guint times)
{
  Segment *const s = segment (p);
  Run *const run = run_of (p);
  for (guint i = 0; i < SC_N_TIMES; i++)
    {
      for (guint k = 0; k < SC_N_WORKS; k++)
        s->work[i][k] += times * (s->work[i][k] - segment_before->work[i][k]);
      s->comm[i] += times * (s->comm[i] - segment_before->comm[i]);
    }
  for (guint i = 0; i < SC_N_MEMS; i++)
    p->bytes[i] += times * (p->bytes[i] - before->bytes[i]);
  for (guint g = 0; g < SC_N_GRADES; g++)
    p->m->grade_ps[g] += times * priced->grade_ps[g];
  p->sum += times * (p->sum - before->sum);
  p->now += times * (p->now - before->now);
  run->issue += times * (run->issue - run_before->issue);
}

/* Plays @priced @n times.  Whatever is highest or longest on the way, as it goes up or down from one time to the next, is so the first or the last
 * time; those between are counted. */
static void
play_times (Play *p, const Priced *priced, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const Play before = *p;
      const Segment segment_before = *segment (p);
      const Run run_before = *run_of (p);
      const guint segments = p->m->segments->len, runs = p->m->runs->len;
      const gboolean clear = is_clear (p);
      play (p, priced);
      if (i + 2 < n && clear && is_clear (p) && p->m->segments->len == segments && p->m->runs->len == runs)
        {
          play_again (p, &before, &segment_before, &run_before, priced, n - i - 2);
          i = n - 2;
        }
    }
}

/* A set of these changes: one that there is, if there is one, so that classes which do the same name the same. */
static guint32
find_mem_set (ScProgram *program, const ScMemDelta *deltas, guint n)
{
  const guint32 *const first = (const guint32 *) (gconstpointer) program->mem_sets->data;
  for (guint32 set = 0; set + 1 < program->mem_sets->len; set++)
    {
      const ScMemDelta *const there = &g_array_index (program->mem_deltas, ScMemDelta, first[set]);
      gboolean same = first[set + 1] - first[set] == n;
      for (guint i = 0; i < n && same; i++)
        same = there[i].bytes == deltas[i].bytes && there[i].tag == deltas[i].tag;
      if (same)
        return set;
    }
  return sc_program_add_mem_set (program, deltas, n);
}

static guint32
memory_set (ScProgram *program, const gint64 *bytes, const gint64 *less)
{
  ScMemDelta deltas[SC_N_MEMS];
  guint n = 0;
  for (guint k = 0; k < SC_N_MEMS; k++)
    if (bytes[k] != less[k])
      deltas[n++] = (ScMemDelta) { bytes[k] - less[k], (guint16) k };
  return n > 0 ? find_mem_set (program, deltas, n) : SC_NONE;
}

Merged *
sc_lower_merge (Lower *l, const Priced *const *lists, guint n)
{
  static const gint64 none[SC_N_MEMS] = { 0 };
  Merged *const m = g_new0 (Merged, 1);
  g_autoptr (GArray) beside = g_array_new (FALSE, FALSE, sizeof (Beside));
  m->segments = g_array_new (FALSE, TRUE, sizeof (Segment));
  g_array_set_size (m->segments, 1);
  m->runs = g_array_new (FALSE, TRUE, sizeof (Run));
  g_array_set_size (m->runs, 1);
  g_array_index (m->runs, Run, 0).n = 1;
  Play p = { .l = l, .m = m, .beside = beside };
  for (guint i = 0, times; i < n; i += times)
    {
      for (times = 1; i + times < n && lists[i + times] == lists[i];)
        times++;
      play_times (&p, lists[i], times);
    }
  m->peak = memory_set (l->p, p.most, none);
  m->after = memory_set (l->p, p.bytes, p.most);
  return m;
}

void
sc_lower_merged_free (Merged *m)
{
  if (m == NULL)
    return;
  g_array_unref (m->segments);
  g_array_unref (m->runs);
  g_free (m);
}

/* What every op of a merged pass has. */
static void
dress (Lower *l, ScOp *op, ScTime issue, const char *label)
{
  op->issue_ns = (guint32) MIN (issue / 1000, (ScTime) G_MAXUINT32);
  op->label = sc_lower_label (l, label);
  op->info = sc_info_pack (l->info);
}

/* What the first op of a merged pass has and the others have not. */
typedef struct
{
  ScTime  issue;
  guint32 memory;
} Lead;

/* The call of the class's group of its own that lasts @delay. */
static guint32
delay_call (Lower *l, ScTimeKind time, ScTime delay)
{
  for (guint i = 0; i < l->delays->len; i++)
    {
      const guint32 id = g_array_index (l->delays, guint32, i);
      const ScCall *const call = &g_array_index (l->p->calls, ScCall, id);
      if (call->tag == time && call->delay == delay)
        return id;
    }
  const guint32 id = sc_program_add_call (l->p, l->self, (guint16) time, delay, 0, 0);
  g_array_append_val (l->delays, id);
  return id;
}

static void
put_segment (Lower *l, const Segment *s, guint phase, Lead *lead)
{
  /* What is repeated comes before what needs it. */
  static const ScTimeKind order[] = { SC_TIME_RECOMPUTE, SC_TIME_FORWARD, SC_TIME_WEIGHT, SC_TIME_BACKWARD };
  for (guint i = 0; i < G_N_ELEMENTS (order); i++)
    {
      const ScTimeKind time = order[i];
      for (guint work = 0; work < SC_N_WORKS; work++)
        {
          const gboolean owes = i + 1 == G_N_ELEMENTS (order) && work + 1 == SC_N_WORKS && (lead->issue > 0 || lead->memory != SC_NONE);
          if (s->work[time][work] == 0 && !owes)
            continue;
          ScOp *const op = sc_program_work (l->p, SC_STREAM_COMPUTE, (guint16) time, s->work[time][work]);
          op->held = work & 15u;
          op->arg = lead->memory;
          l->info.phase = time == SC_TIME_RECOMPUTE ? 2 : phase;
          dress (l, op, lead->issue, sc_time_kind_name (time));
          *lead = (Lead) { 0, SC_NONE };
        }
    }
  l->info.phase = phase;
  for (guint time = 0; time < SC_N_TIMES; time++)
    if (s->comm[time] > 0)
      {
        ScOp *const op = sc_program_call (l->p, SC_STREAM_COMPUTE, delay_call (l, (ScTimeKind) time, s->comm[time]));
        op->tag = (guint16) time;
        dress (l, op, 0, sc_time_kind_group ((ScTimeKind) time));
      }
  if (s->ends && s->item.kind != SC_ITEM_HOST_WAIT)
    sc_lower_put_item (l, &s->item, phase);
}

/* @memory: set of its first op; @after: of its last. */
static void
put_run (Lower *l, const Run *run, const Segment *segments, guint phase, guint32 memory, guint32 after)
{
  const Segment *const end = &segments[run->n - 1];
  Lead lead = { run->lead, memory };
  for (const Segment *s = segments; s <= end; s++)
    put_segment (l, s, phase, &lead);
  if (run->issue > run->lead || after != SC_NONE)
    {
      ScOp *const op = sc_program_work (l->p, SC_STREAM_COMPUTE, SC_TIME_FORWARD, 0);
      op->arg = after;
      dress (l, op, run->issue - run->lead, "");
    }
  if (end->ends && end->item.kind == SC_ITEM_HOST_WAIT)
    sc_lower_put_item (l, &end->item, phase);
}

void
sc_lower_put_merged (Lower *l, const Merged *m, guint phase)
{
  const guint outer = l->info.phase;
  for (guint i = 0, first = 0; i < m->runs->len; i++)
    {
      const Run *const run = &g_array_index (m->runs, Run, i);
      put_run (l, run, &g_array_index (m->segments, Segment, first), phase, i == 0 ? m->peak : SC_NONE, i + 1 == m->runs->len ? m->after : SC_NONE);
      first += run->n;
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    l->grade_ps[g] += m->grade_ps[g];
  l->info.phase = outer;
}

/* ---- what is merged ---- */

/* Passes over one part of the model. */
void
sc_lower_put_unit (Lower *l, const Priced *priced, guint phase)
{
  if (l->in->detail == SC_DETAIL_KERNEL)
    {
      sc_lower_put_pass (l, priced, phase);
      return;
    }
  const gpointer key = GSIZE_TO_POINTER ((gsize) priced + (l->quiet ? 1 : 0));
  Merged *m = g_hash_table_lookup (l->merged, key);
  if (m == NULL)
    {
      m = sc_lower_merge (l, &priced, 1);
      g_hash_table_insert (l->merged, key, m);
    }
  sc_lower_tape_list (l, priced, 0, G_MAXUINT);
  sc_lower_put_merged (l, m, phase);
}

/* The lists of a pass over @chunk, in order: up to twice its layers, which may be rebuilt in groups, and two, and their layers (or SC_INFO_NO_LAYER); returns how many. */
guint
sc_lower_chunk_lists (const Lower *l, guint chunk, ScPass pass, const Priced **ret, guint *ret_layers)
{
  const ScStageSizes *const sizes = l->in->sizes;
  const guint j = sc_plan_stage (l->plan, l->at.pp, chunk), first = sc_stage_first_layer (sizes, j), n = sizes->layers[j];
  const gboolean forward = pass == SC_PASS_FORWARD, embeds = j == 0, ends = j == sizes->n_virtual - 1;
  guint k = 0;
  if (forward ? embeds : ends)
    {
      ret_layers[k] = SC_INFO_NO_LAYER;
      ret[k++] = forward ? &l->price->embedding[pass] : &l->price->head[pass];
    }
  for (guint i = 0; i < n; i++)
    {
      const guint layer = forward ? first + i : first + n - 1 - i;
      if (!forward && pass != SC_PASS_WEIGHT)
        for (guint again = sc_lower_rebuilt_from (l, layer); again < layer; again++)
          {
            ret_layers[k] = again;
            ret[k++] = sc_lower_layer_rebuild (l, again);
          }
      ret_layers[k] = layer;
      ret[k++] = sc_lower_layer_price (l, layer, pass);
    }
  if (forward ? ends : embeds)
    {
      ret_layers[k] = SC_INFO_NO_LAYER;
      ret[k++] = forward ? &l->price->head[pass] : &l->price->embedding[pass];
    }
  return k;
}

/* A pass over all of @chunk at once, where nothing waits or is reduced between its layers. */
gboolean
sc_lower_put_whole (Lower *l, guint chunk, ScPass pass, guint phase)
{
  if (l->in->detail != SC_DETAIL_STAGE)
    return FALSE;
  const guint most = 2 * l->in->sizes->layers[sc_plan_stage (l->plan, l->at.pp, chunk)] + 2;
  g_autofree const Priced **lists = g_new (const Priced *, most);
  g_autofree guint *layers = g_new (guint, most);
  const guint n = sc_lower_chunk_lists (l, chunk, pass, lists, layers);
  Merged **const m = &l->whole[((4 * l->factor + (l->quiet ? 2 : 0) + (l->partial ? 1 : 0)) * sc_plan_chunks (l->plan) + chunk) * SC_N_PASSES + pass];
  if (*m == NULL)
    *m = sc_lower_merge (l, lists, n);
  if ((*m)->segments->len > 1) /* what others have a part in stays where it stands */
    return FALSE;
  const guint layer = l->info.layer;
  for (guint i = 0; i < n; i++)
    {
      l->info.layer = layers[i];
      sc_lower_tape_list (l, lists[i], 0, G_MAXUINT);
    }
  l->info.layer = layer;
  sc_lower_put_merged (l, *m, phase);
  return TRUE;
}
