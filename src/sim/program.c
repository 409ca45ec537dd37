/* SPDX-License-Identifier: GPL-3.0-or-later */
/* program.c - builds programs: plain arrays, append only. */
#include "sim/program.h"

ScProgram *
sc_program_new (void)
{
  ScProgram *p = g_new0 (ScProgram, 1);
  p->actors = g_array_new (FALSE, FALSE, sizeof (ScActor));
  p->ops = g_array_new (FALSE, FALSE, sizeof (ScOp));
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
  GArray *const arrays[] = { p->actors, p->ops, p->calls, p->parts, p->uses, p->groups, p->links,
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
  const ScActor actor = { .first_op = p->ops->len, .n_streams = n_streams, .first_stream = p->n_streams,
                          .one_queue = one_queue };
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
  if (n_ops <= n)
    return;
  g_array_set_size (p->ops, n_ops);
  g_array_set_size (p->ops, n);
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
  const ScOp op = { .value = value, .arg = arg, .next = SC_NONE, .tag = tag, .kind = (guint) kind & 15u, .stream = stream };
  const guint32 id = p->ops->len;
  g_array_append_val (p->ops, op);
  actor->n_ops++;
  if (kind != SC_OP_HOST_WAIT) /* the host's own; it is on no stream */
    {
      guint32 *const last = &g_array_index (p->last_on_stream, guint32, actor->first_stream + stream);
      if (*last == SC_NONE)
        g_array_index (p->stream_first, guint32, actor->first_stream + stream) = id;
      else
        g_array_index (p->ops, ScOp, *last).next = id;
      *last = id;
    }
  return &g_array_index (p->ops, ScOp, id);
}
