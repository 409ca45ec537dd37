/* SPDX-License-Identifier: GPL-3.0-or-later */
/* program.c - builds programs: plain arrays, append only. */
#include <string.h>
#include "sim/program.h"

ScProgram *
sc_program_new (void)
{
  ScProgram *p = g_new0 (ScProgram, 1);
  p->actors = g_array_new (FALSE, FALSE, sizeof (ScActor));
  p->ops = g_array_new (FALSE, FALSE, sizeof (ScOp));
  p->call_ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  p->call_guess = g_array_new (FALSE, TRUE, sizeof (guint32));
  p->calls = g_array_new (FALSE, FALSE, sizeof (ScCall));
  p->parts = g_array_new (FALSE, FALSE, sizeof (ScPart));
  p->uses = g_array_new (FALSE, FALSE, sizeof (ScUse));
  p->groups = g_array_new (FALSE, FALSE, sizeof (guint32));
  p->links = g_array_new (FALSE, FALSE, sizeof (double));
  p->mem_deltas = g_array_new (FALSE, FALSE, sizeof (ScMemDelta));
  p->mem_sets = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (p->mem_sets, p->mem_deltas->len);
  p->last_on_stream = g_array_new (FALSE, FALSE, sizeof (guint32));
  p->stream_first = g_array_new (FALSE, FALSE, sizeof (guint32));
  return p;
}

void
sc_program_free (ScProgram *p)
{
  if (p == NULL)
    return;
  GArray *const arrays[] = { p->actors, p->ops, p->call_ids, p->call_guess, p->calls, p->parts, p->uses, p->groups, p->links,
                             p->mem_deltas, p->mem_sets, p->last_on_stream, p->stream_first };
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_array_unref (arrays[i]);
  g_free (p);
}

guint32
sc_program_add_link (ScProgram *p, double capacity)
{
  g_assert (capacity > 0);
  g_array_append_val (p->links, capacity);
  return p->links->len - 1;
}

guint32
sc_program_add_group (ScProgram *p, guint32 n_members)
{
  g_assert (n_members > 0);
  g_array_append_val (p->groups, n_members);
  return p->groups->len - 1;
}

guint32
sc_program_add_call (ScProgram *p, guint32 group, guint16 tag, ScTime delay, ScTime tail, double hold)
{
  g_assert (group < p->groups->len && delay >= 0 && tail >= 0 && hold >= 0 && hold < 1);
  ScCall call = { .group = group, .first_part = p->parts->len, .delay = delay, .tail = tail, .tag = tag, .wait_tag = tag };
  for (guint i = 0; i < SC_N_HOLDS; i++)
    call.hold[i] = hold;
  g_array_append_val (p->calls, call);
  return p->calls->len - 1;
}

void
sc_program_set_holds (ScProgram *p, const double hold[SC_N_HOLDS])
{
  ScCall *const call = &g_array_index (p->calls, ScCall, p->calls->len - 1);
  for (guint i = 0; i < SC_N_HOLDS; i++)
    {
      g_assert (hold[i] >= 0 && hold[i] < 1);
      call->hold[i] = hold[i];
    }
}

void
sc_program_add_part (ScProgram *p, double bytes, double cap, const ScUse *uses, guint32 n_uses)
{
  g_assert (p->calls->len > 0 && bytes >= 0 && cap > 0);
  const ScPart part = { .first_use = p->uses->len, .n_uses = n_uses, .bytes = bytes, .cap = cap };
  g_array_append_val (p->parts, part);
  if (n_uses > 0)
    g_array_append_vals (p->uses, uses, n_uses);
  g_array_index (p->calls, ScCall, p->calls->len - 1).n_parts++;
}

void
sc_program_share_part (ScProgram *p, double bytes, double cap, guint32 first_use, guint32 n_uses)
{
  g_assert (p->calls->len > 0 && bytes >= 0 && cap > 0 && first_use + n_uses <= p->uses->len);
  const ScPart part = { .first_use = first_use, .n_uses = n_uses, .bytes = bytes, .cap = cap };
  g_array_append_val (p->parts, part);
  g_array_index (p->calls, ScCall, p->calls->len - 1).n_parts++;
}

guint32
sc_program_add_mem_set (ScProgram *p, const ScMemDelta *deltas, guint n)
{
  g_array_append_vals (p->mem_deltas, deltas, n);
  g_array_append_val (p->mem_sets, p->mem_deltas->len);
  return p->mem_sets->len - 2;
}

guint32
sc_program_add_actor (ScProgram *p, guint32 n_streams, gboolean one_queue)
{
  g_assert (n_streams > 0 && n_streams <= 255);
  const ScActor actor = { .first_op = p->n_ops, .first_stored = p->ops->len, .model = p->actors->len, .n_streams = n_streams, .first_stream = p->n_streams,
                          .first_event = p->n_events, .first_call = SC_NONE, .first_ready = p->n_call_ops, .one_queue = one_queue };
  const guint32 none = SC_NONE;
  for (guint32 s = 0; s < n_streams; s++)
    {
      g_array_append_val (p->last_on_stream, none);
      g_array_append_val (p->stream_first, none);
    }
  p->n_streams += n_streams;
  g_array_append_val (p->actors, actor);
  return p->actors->len - 1;
}

void
sc_program_reserve (ScProgram *p, guint32 n_ops)
{
  const guint32 n = p->ops->len;
  if (n_ops <= p->room)
    return;
  g_array_set_size (p->ops, n_ops);
  g_array_set_size (p->ops, n);
  p->room = n_ops;
}

/* A new op at the end of the stored ones, to be filled in where it stands: a large step has millions. */
static inline ScOp *
new_op (ScProgram *p)
{
  if (G_UNLIKELY (p->ops->len >= p->room))
    sc_program_reserve (p, (guint32) MIN (MAX ((guint64) p->room * 2, 64), SC_NONE));
  return &g_array_index (p->ops, ScOp, p->ops->len++);
}

guint32
sc_program_add_event (ScProgram *p)
{
  return p->n_events++;
}

ScOp *
sc_program_add_op (ScProgram *p, ScOpKind kind, guint8 stream, guint16 tag, guint32 arg, gint64 value)
{
  g_assert (p->actors->len > 0);
  ScActor *const actor = &g_array_index (p->actors, ScActor, p->actors->len - 1);
  g_assert (stream < actor->n_streams);
  const guint32 at = p->ops->len;
  ScOp *const op = new_op (p);
  op->value = value;
  op->arg = arg;
  op->next = SC_NONE;
  op->issue_ns = op->label = op->info = 0;
  op->tag = tag;
  op->kind = (guint) kind & 15u;
  op->held = 0;
  op->stream = stream;
  actor->n_ops++;
  p->n_ops++;
  if (kind == SC_OP_CALL)
    {
      op->value = actor->n_calls++;
      p->n_call_ops++;
    }
  if (kind == SC_OP_HOST_WAIT) /* the host's own; it is on no stream */
    return op;
  guint32 *const last = &g_array_index (p->last_on_stream, guint32, actor->first_stream + stream);
  if (*last == SC_NONE)
    g_array_index (p->stream_first, guint32, actor->first_stream + stream) = at;
  else
    g_array_index (p->ops, ScOp, *last).next = at;
  *last = at;
  return op;
}

void
sc_program_drop_ops (ScProgram *p)
{
  g_assert (p->actors->len > 0);
  g_array_set_size (p->ops, g_array_index (p->actors, ScActor, p->actors->len - 1).first_stored);
}

/* ---- actors that do the same share their ops ---- */

static gboolean
names_event (const ScOp *op)
{
  return op->kind == SC_OP_RECORD || op->kind == SC_OP_WAIT || op->kind == SC_OP_HOST_WAIT;
}

/* Number of @call among those of @actor, which it joins if it is new.  @guess: [calls] where each stood last time, of any actor; what
 * it says is checked. */
static guint32
local_call (ScProgram *p, const ScActor *actor, guint32 *guess, guint32 call)
{
  const guint32 n = p->call_ids->len - actor->first_call;
  if (guess[call] < n && g_array_index (p->call_ids, guint32, actor->first_call + guess[call]) == call)
    return guess[call];
  g_array_append_val (p->call_ids, call);
  return guess[call] = n;
}

/* Numbers the calls of @actor in the order in which it first makes them: actors that do the same then name them alike. */
static void
number_calls (ScProgram *p, ScActor *actor)
{
  actor->first_call = p->call_ids->len;
  if (p->call_guess->len < p->calls->len)
    g_array_set_size (p->call_guess, p->calls->len);
  guint32 *const guess = (guint32 *) (gpointer) p->call_guess->data;
  for (guint32 i = actor->first_stored; i < actor->first_stored + actor->n_ops; i++)
    {
      ScOp *const op = &g_array_index (p->ops, ScOp, i);
      if (op->kind == SC_OP_CALL)
        op->arg = local_call (p, actor, guess, op->arg);
      else
        g_assert (!names_event (op) || op->arg >= actor->first_event);
    }
}

/* Is stored op @a of @actor what @b is of @model? */
static inline gboolean
same_op (const ScOp *a, const ScActor *actor, const ScOp *b, const ScActor *model)
{
  const gsize rest = G_STRUCT_OFFSET (ScOp, issue_ns); /* from here on nothing depends on the actor, and there is no padding */
  if (a->value != b->value || memcmp ((const char *) a + rest, (const char *) b + rest, sizeof *a - rest) != 0)
    return FALSE;
  if (a->next != SC_NONE ? b->next == SC_NONE || a->next - actor->first_stored != b->next - model->first_stored : b->next != SC_NONE)
    return FALSE;
  return names_event (a) ? a->arg - actor->first_event == b->arg - model->first_event : a->arg == b->arg;
}

static gboolean
same_ops (const ScProgram *p, const ScActor *actor, const ScActor *model)
{
  if (model->first_call == SC_NONE || model->n_ops != actor->n_ops || model->n_streams != actor->n_streams)
    return FALSE;
  const ScOp *const ops = (const ScOp *) (gconstpointer) p->ops->data;
  for (guint32 i = 0; i < actor->n_ops; i++)
    if (!same_op (&ops[actor->first_stored + i], actor, &ops[model->first_stored + i], model))
      return FALSE;
  return TRUE;
}

gboolean
sc_program_share_ops (ScProgram *p)
{
  ScActor *const actors = (ScActor *) (gpointer) p->actors->data, *const actor = &actors[p->actors->len - 1];
  number_calls (p, actor);
  for (guint32 i = p->actors->len - 1; i-- > 0;)
    {
      const ScActor *const model = &actors[i];
      if (model->model != i || !same_ops (p, actor, model))
        continue;
      g_array_set_size (p->ops, actor->first_stored);
      actor->model = i;
      actor->first_stored = model->first_stored;
      actor->event_shift = actor->first_event - model->first_event;
      for (guint32 s = 0; s < actor->n_streams; s++)
        {
          g_array_index (p->stream_first, guint32, actor->first_stream + s) = g_array_index (p->stream_first, guint32, model->first_stream + s);
          g_array_index (p->last_on_stream, guint32, actor->first_stream + s) = g_array_index (p->last_on_stream, guint32, model->first_stream + s);
        }
      return TRUE;
    }
  return FALSE;
}

/* ---- reading ---- */

ScOp
sc_program_op (const ScProgram *p, const ScActor *actor, guint32 id)
{
  g_assert (id - actor->first_op < actor->n_ops);
  const guint32 shift = sc_actor_shift (actor);
  ScOp op = g_array_index (p->ops, ScOp, id - shift);
  op.next += op.next != SC_NONE ? shift : 0;
  if (op.kind == SC_OP_CALL)
    {
      op.value += actor->first_ready;
      op.arg = actor->first_call != SC_NONE ? g_array_index (p->call_ids, guint32, actor->first_call + op.arg) : op.arg;
    }
  else if (names_event (&op))
    op.arg += actor->event_shift;
  return op;
}

const ScActor *
sc_program_actor_of (const ScProgram *p, guint32 id)
{
  const ScActor *const actors = (const ScActor *) (gconstpointer) p->actors->data;
  guint32 low = 0, high = p->actors->len;
  g_assert (id < p->n_ops);
  while (high - low > 1) /* it is in low .. high - 1 */
    {
      const guint32 middle = low + (high - low) / 2;
      if (actors[middle].first_op <= id)
        low = middle;
      else
        high = middle;
    }
  return &actors[low];
}
