/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_report.c - what people read: drawings, traces, reports of steps made by hand. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "describe.h"
#include "draw.h"
#include "json-in.h"
#include "models/segments.h"
#include "pace.h"
#include "report.h"
#include "report-timeline.h"
#include "report-trace.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

/* ---- A step made by hand: schedules of MODELLING 7.4, two layers a chunk, transfers and an optimizer at will ---- */

typedef struct
{
  guint  p, v, m;
  ScTime forward, backward; /* of one chunk */
  ScTime tp;                /* exposed all-reduce at the end of each chunk's forward and backward */
  ScTime transfer;          /* between stages */
  ScTime reduce, optimizer; /* at the end */
} Fake;

typedef struct
{
  const Fake *fake;
  ScProgram  *program;
  guint32    *send_f, *send_b; /* [m * p * v] calls by micro-batch and virtual stage that sends */
} Builder;

static char fake_device_name[] = "h99-sxm", fake_topology_name[] = "two-boxes", fake_workload_name[] = "tiny-1f1b";
static const ScDevice fake_device = { .name = fake_device_name };
static const ScTopology fake_topology = { .name = fake_topology_name, .n_nodes = 16, .n_gpus = 64 };
static const ScWorkload fake_workload = {
  .name = fake_workload_name,
  .seq = 1024,
  .model = { .name = fake_workload_name, .hidden = 1024, .heads = 16, .kv_heads = 4, .head_dim = 64, .ffn = 4096,
             .gated_mlp = TRUE, .vocab = 32000 },
  .plan = { .tp = 2, .dp = 1, .cp = 1, .ep = 1, .sequence_parallel = TRUE, .micro_batch = 1,
            .sharding = SC_SHARDING_DISTRIBUTED_OPTIMIZER, .bucket_params = 40000000 },
};

enum { LABEL_FORWARD, LABEL_BACKWARD, LABEL_TP, LABEL_PP, LABEL_DP, LABEL_ADAM, LABEL_MEMORY, N_LABELS };
static const char *const label_texts[N_LABELS] = { "layer forward", "layer backward", "all-reduce", "send",
                                                   "reduce-scatter", "adam", "memory" };

static guint32
fake_info (guint microbatch, guint chunk, guint layer, guint phase)
{
  return sc_info_pack ((ScOpInfo) { microbatch, chunk, layer, phase });
}

/* The k-th forward (or backward) of a rank: which micro-batch of which chunk. */
static void
fake_kth (const Fake *f, guint k, gboolean backward, guint *ret_microbatch, guint *ret_chunk)
{
  const guint turn = k / (f->p * f->v), in_turn = k % (f->p * f->v);
  *ret_chunk = backward ? f->v - 1 - in_turn / f->p : in_turn / f->p;
  *ret_microbatch = turn * f->p + in_turn % f->p;
  if (f->v == 1)
    *ret_microbatch = k;
}

static void
fake_receive (Builder *b, guint8 stream, guint32 call, guint32 info)
{
  const guint32 event = sc_program_add_event (b->program);
  ScOp *op = sc_program_call (b->program, stream, call);
  op->info = info;
  op->label = LABEL_PP;
  sc_program_record (b->program, stream, event);
  sc_program_wait (b->program, SC_STREAM_COMPUTE, event);
}

static void
fake_send (Builder *b, guint8 stream, guint32 call, guint32 info)
{
  const guint32 event = sc_program_add_event (b->program);
  sc_program_record (b->program, SC_STREAM_COMPUTE, event);
  sc_program_wait (b->program, stream, event);
  ScOp *op = sc_program_call (b->program, stream, call);
  op->info = info;
  op->label = LABEL_PP;
}

static void
fake_tp (Builder *b, guint32 info)
{
  if (b->fake->tp == 0)
    return;
  const guint32 call = sc_program_add_call (b->program, sc_program_add_group (b->program, 1), SC_TIME_COMM_TP, 0,
                                            b->fake->tp, 0);
  ScOp *op = sc_program_call (b->program, SC_STREAM_COMPUTE, call);
  op->info = info;
  op->label = LABEL_TP;
}

static void
fake_chunk (Builder *b, guint rank, guint microbatch, guint chunk, gboolean backward)
{
  const Fake *f = b->fake;
  const guint last = f->p * f->v - 1, at = chunk * f->p + rank;
  const guint32 info = fake_info (microbatch, chunk, SC_INFO_NO_LAYER, backward);
  if (!backward && at > 0)
    fake_receive (b, SC_STREAM_PP_RECV_F, b->send_f[microbatch * (last + 1) + at - 1], info);
  if (backward && at < last)
    fake_receive (b, SC_STREAM_PP_RECV_B, b->send_b[microbatch * (last + 1) + at + 1], info);
  for (guint i = 0; i < 2; i++)
    {
      const guint layer = 2 * at + (backward ? 1 - i : i);
      ScOp *op = sc_program_work (b->program, SC_STREAM_COMPUTE, backward ? SC_TIME_BACKWARD : SC_TIME_FORWARD,
                                  (backward ? f->backward : f->forward) / 2);
      op->info = fake_info (microbatch, chunk, layer, backward);
      op->label = backward ? LABEL_BACKWARD : LABEL_FORWARD;
      op = sc_program_mem (b->program, SC_STREAM_COMPUTE, SC_MEM_ACTIVATIONS, backward ? -(1 << 28) : 1 << 28);
      op->info = fake_info (microbatch, chunk, layer, backward);
      op->label = LABEL_MEMORY;
    }
  fake_tp (b, info);
  if (!backward && at < last)
    fake_send (b, SC_STREAM_PP_SEND_F, b->send_f[microbatch * (last + 1) + at], info);
  if (backward && at > 0)
    fake_send (b, SC_STREAM_PP_SEND_B, b->send_b[microbatch * (last + 1) + at], info);
}

static void
fake_rank (Builder *b, guint rank)
{
  const Fake *f = b->fake;
  ScProgram *p = b->program;
  sc_program_add_actor (p, SC_N_STREAMS, FALSE);
  const guint32 outside = fake_info (SC_INFO_NO_MICROBATCH, 0, SC_INFO_NO_LAYER, 3);
  for (ScMemKind kind = SC_MEM_WEIGHTS; kind <= SC_MEM_OPTIMIZER; kind++)
    sc_program_mem (p, SC_STREAM_COMPUTE, kind, G_GINT64_CONSTANT (1) << 30)->info = outside;
  const guint total = f->m * f->v;
  const guint warm = MIN (total, f->v == 1 ? f->p - 1 - rank : 2 * (f->p - 1 - rank) + (f->v - 1) * f->p);
  for (guint k = 0; k < total + warm; k++)
    {
      guint microbatch, chunk;
      if (k < total)
        {
          fake_kth (f, k, FALSE, &microbatch, &chunk);
          fake_chunk (b, rank, microbatch, chunk, FALSE);
        }
      if (k >= warm)
        {
          fake_kth (f, k - warm, TRUE, &microbatch, &chunk);
          fake_chunk (b, rank, microbatch, chunk, TRUE);
        }
    }
  if (f->reduce > 0)
    {
      const guint32 call = sc_program_add_call (p, sc_program_add_group (p, 1), SC_TIME_COMM_DP, 0, f->reduce, 0);
      const guint32 ready = sc_program_add_event (p), done = sc_program_add_event (p);
      sc_program_record (p, SC_STREAM_COMPUTE, ready);
      sc_program_wait (p, SC_STREAM_DP, ready);
      ScOp *op = sc_program_call (p, SC_STREAM_DP, call);
      op->info = outside;
      op->label = LABEL_DP;
      sc_program_record (p, SC_STREAM_DP, done);
      sc_program_wait (p, SC_STREAM_COMPUTE, done);
    }
  if (f->optimizer > 0)
    {
      ScOp *op = sc_program_work (p, SC_STREAM_COMPUTE, SC_TIME_OPTIMIZER, f->optimizer);
      op->info = outside;
      op->label = LABEL_ADAM;
    }
}

/* Times by going round the streams until nothing moves: slow, short, and not the engine. */
static ScTrace *
fake_solve (const Fake *f, const ScProgram *p)
{
  ScTrace *trace = g_new0 (ScTrace, 1);
  trace->n_ops = p->ops->len;
  trace->spans = g_new (ScSpan, p->ops->len);
  trace->n_call_ops = p->n_call_ops;
  trace->ready = g_new (ScTime, p->n_call_ops);
  trace->link_bytes = g_new0 (double, 1);
  g_autofree guint32 *at = g_memdup2 (p->stream_first->data, p->n_streams * sizeof (guint32));
  g_autofree ScTime *now = g_new0 (ScTime, p->n_streams);
  g_autofree ScTime *fired = g_new (ScTime, p->n_events);
  for (guint32 e = 0; e < p->n_events; e++)
    fired[e] = SC_TIME_NONE;
  g_autofree guint32 *waiting = g_new (guint32, p->calls->len * 2); /* [2] streams that have joined */
  g_autofree guint8 *joined = g_new0 (guint8, p->calls->len);
  gboolean moved = TRUE;
  while (moved)
    {
      moved = FALSE;
      for (guint32 s = 0; s < p->n_streams; s++)
        while (at[s] != SC_NONE)
          {
            const guint32 i = at[s];
            const ScOp *op = &g_array_index (p->ops, ScOp, i);
            ScTime end = now[s];
            if (op->kind == SC_OP_WORK)
              end += op->value;
            else if (op->kind == SC_OP_WAIT)
              {
                if (fired[op->arg] == SC_TIME_NONE)
                  break;
                end = MAX (end, fired[op->arg]);
              }
            else if (op->kind == SC_OP_RECORD)
              fired[op->arg] = end;
            else if (op->kind == SC_OP_CALL)
              {
                const ScCall *call = &g_array_index (p->calls, ScCall, op->arg);
                const guint32 members = g_array_index (p->groups, guint32, call->group);
                gboolean known = FALSE;
                for (guint8 k = 0; k < joined[op->arg]; k++)
                  known |= waiting[2 * op->arg + k] == s;
                if (!known)
                  {
                    waiting[2 * op->arg + joined[op->arg]++] = s;
                    moved = TRUE;
                  }
                if (joined[op->arg] < members)
                  break;
                ScTime ready = 0;
                for (guint8 k = 0; k < members; k++)
                  ready = MAX (ready, now[waiting[2 * op->arg + k]]);
                for (guint8 k = 0; k < members; k++)
                  {
                    const guint32 member = waiting[2 * op->arg + k];
                    trace->spans[at[member]] = (ScSpan) { now[member], ready + call->delay + call->tail };
                    trace->ready[sc_program_find_op (p, at[member]).value] = ready;
                    now[member] = ready + call->delay + call->tail;
                    at[member] = g_array_index (p->ops, ScOp, at[member]).next;
                  }
                moved = TRUE;
                continue;
              }
            trace->spans[i] = (ScSpan) { now[s], end };
            now[s] = end;
            at[s] = op->next;
            moved = TRUE;
          }
    }
  for (guint32 s = 0; s < p->n_streams; s++)
    {
      ck_assert_msg (at[s] == SC_NONE, "stream %u stands at op %u (p %u, m %u)", s, at[s], f->p, f->m);
      trace->end = MAX (trace->end, now[s]);
    }
  return trace;
}

static ScSummary *
fake_summary_new (const Fake *f)
{
  ScProgram *p = sc_program_new ();
  const guint n = f->p * f->v;
  Builder b = { f, p, g_new (guint32, n * f->m), g_new (guint32, n * f->m) };
  for (guint i = 0; i < n * f->m; i++)
    {
      b.send_f[i] = sc_program_add_call (p, sc_program_add_group (p, 2), SC_TIME_COMM_PP, 0, f->transfer, 0);
      b.send_b[i] = sc_program_add_call (p, sc_program_add_group (p, 2), SC_TIME_COMM_PP, 0, f->transfer, 0);
    }
  for (guint r = 0; r < f->p; r++)
    fake_rank (&b, r);
  g_free (b.send_f);
  g_free (b.send_b);

  ScSummary *s = g_new0 (ScSummary, 1);
  s->program = p;
  s->trace = fake_solve (f, p);
  s->step = s->trace->end;
  s->labels = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < N_LABELS; i++)
    g_ptr_array_add (s->labels, g_strdup (label_texts[i]));
  s->n_stages = s->n_classes = f->p;
  s->stages = g_new0 (ScStageSummary, f->p);
  s->classes = g_new0 (ScClassSummary, f->p);
  g_autoptr (ScSegments) segments = sc_segments_new (s->program, s->trace, s->step);
  for (guint r = 0; r < f->p; r++)
    {
      ScStageSummary *stage = &s->stages[r];
      ScClassSummary *c = &s->classes[r];
      *stage = (ScStageSummary) { .stage = r, .class_id = r, .layers = 2 * f->v };
      *c = (ScClassSummary) { .stage = r, .representative = 2 * r, .n_ranks = 2, .node = r / 2, .gpu = 2 * r % 4,
                              .device = &fake_device, .end = s->step, .params = 1000000 };
      g_autoptr (GArray) list = sc_segments_of_class (segments, r);
      for (guint i = 0; i < list->len; i++)
        {
          const ScSegment *segment = &g_array_index (list, ScSegment, i);
          stage->time[segment->kind] += segment->to - segment->from;
        }
      memcpy (c->time, stage->time, sizeof c->time);
      for (ScMemKind k = SC_MEM_WEIGHTS; k <= SC_MEM_OPTIMIZER; k++)
        c->at_peak[k] = G_GUINT64_CONSTANT (1) << 30;
      c->at_peak[SC_MEM_ACTIVATIONS] = (guint64) (f->p - r) * 2 << 28;
      for (ScMemKind k = 0; k < SC_N_MEMS; k++)
        c->peak_allocated_bytes += c->at_peak[k];
      c->peak_reserved_bytes = c->peak_allocated_bytes + (1 << 28);
      c->context_bytes = 1 << 29;
      c->nccl_bytes = 1 << 28;
      c->workspace_bytes = 1 << 25;
      c->peak_device_bytes = c->peak_reserved_bytes + c->context_bytes + c->nccl_bytes + c->workspace_bytes;
      c->capacity_bytes = G_GUINT64_CONSTANT (8) << 30;
      c->verdict = c->peak_device_bytes > c->capacity_bytes ? SC_VERDICT_DOES_NOT_FIT : SC_VERDICT_FITS;
      c->peak_time = (f->p - 1) * f->forward;
      c->peak_op = g_strdup_printf ("backward of micro-batch 0, layer %u", 2 * r + 1);
      s->bubble_fraction += (double) stage->time[SC_TIME_BUBBLE] / (double) s->step / f->p;
      s->bubble_over_ideal += (double) stage->time[SC_TIME_BUBBLE]
                              / (double) (s->step - stage->time[SC_TIME_BUBBLE]) / f->p;
    }
  s->topology = &fake_topology;
  ScWorkload *w = g_new0 (ScWorkload, 1); /* freed by fake_summary_free() */
  *w = fake_workload;
  w->plan.pp = f->p;
  w->plan.vpp = f->v;
  w->plan.gpus = 2 * f->p;
  w->plan.schedule = f->p == 1 ? "none" : f->v == 1 ? "1f1b" : "interleaved";
  w->plan.microbatch_group = f->p;
  w->plan.global_batch = f->m;
  w->model.layers = 2 * f->p * f->v;
  s->workload = w;
  s->gpus = 2 * f->p;
  s->nodes = (2 * f->p + 3) / 4;
  s->params = 4000000;
  s->microbatches = f->m;
  s->tokens_per_step = 1024.0 * f->m;
  s->tokens_per_s = s->tokens_per_step / sc_time_to_s (s->step);
  s->tokens_per_s_per_gpu = s->tokens_per_s / s->gpus;
  s->peak_flops_per_gpu = 312e12;
  const double all = s->peak_flops_per_gpu * s->gpus * sc_time_to_s (s->step);
  s->model_flops_half = 0.45 * all;
  s->model_flops_full = 0.5 * all;
  s->model_flops_6n = 0.4 * all;
  s->hardware_flops = 0.55 * all;
  s->mfu_half_causal = s->model_flops_half / all;
  s->mfu_full = s->model_flops_full / all;
  s->mfu_6n = s->model_flops_6n / all;
  s->hfu = s->hardware_flops / all;
  s->model_tflops_per_gpu = s->model_flops_half / s->gpus / sc_time_to_s (s->step) / 1e12;
  s->bubble_fraction_ideal = (f->p - 1.0) / (f->v * f->m + f->p - 1.0);
  s->bubble_over_ideal_ideal = (f->p - 1.0) / (f->v * f->m);
  s->verdict = s->classes[0].verdict;
  s->memory_margin = 0.08;
  s->grade_share[SC_GRADE_MEASURED] = 0.25;
  s->grade_share[SC_GRADE_FITTED] = 0.625;
  s->grade_share[SC_GRADE_ASSUMED] = 0.125;
  s->assumptions = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (s->assumptions, g_strdup ("the launch latency of collectives, 12 us, is carried over from a relative of this "
                                             "fabric and was not measured on it"));
  g_ptr_array_add (s->assumptions, g_strdup ("no jitter: every rank of a class is as fast as the others"));
  s->n_rank_classes = f->p;
  s->n_families = 5;
  s->n_groups = 12;
  s->n_links = 40;
  s->n_link_classes = 8;
  return s;
}

/* Five classes of links; the third and fourth read the same. */
static void
fake_links (ScSummary *s)
{
  ScLinksSummary *links = s->links = g_new0 (ScLinksSummary, 1);
  links->n_rows = 5;
  links->rows = g_new0 (ScLinkSummary, links->n_rows);
  links->n_left_out = 3;
  links->bin = s->step / 4;
  links->n_bins = 4;
  for (guint i = 0; i < links->n_rows; i++)
    {
      static const double means[] = { 0.75, 0.5, 0.25, 0.2500001, 0 };
      ScLinkSummary *row = &links->rows[i];
      *row = (ScLinkSummary) { .link = i, .name = g_strdup_printf ("NIC %u out of node %u", i, 10 * i), .n_links = 4 + i, .n_below = i == 1 ? 2 : 0,
                               .capacity_bytes_per_s = 48.9e9, .mean = means[i], .peak = means[i] > 0, .full = s->step / 8 * (i == 0),
                               .utilisation = g_new (double, links->n_bins) };
      row->of_kind[SC_LINK_NIC_OUT] = row->n_links;
      const double bytes = row->mean * row->capacity_bytes_per_s * sc_time_to_s (s->step);
      row->bytes[SC_TIME_COMM_DP] = bytes * (i == 0 ? 0.625 : 1);
      row->bytes[SC_TIME_COMM_PP] = bytes * (i == 0 ? 0.375 : 0);
      for (guint k = 0; k < links->n_bins; k++)
        row->utilisation[k] = k == 1 ? 1 / 3.0 : row->mean;
    }
}

static void
fake_summary_free (ScSummary *s)
{
  ScWorkload *w = (ScWorkload *) (gsize) s->workload;
  sc_summary_free (s);
  g_free (w);
}

/* ---- Tests ---- */

enum { PLAIN, CHUNKS, COMM, SINGLE, TINY, CHUNKS_16, STAGES_64, LARGE, N_FAKES };
static const Fake fakes[N_FAKES] = {
  [PLAIN] = { .p = 4, .v = 1, .m = 8, .forward = 10 * MS, .backward = 20 * MS },
  [CHUNKS] = { .p = 4, .v = 2, .m = 8, .forward = 10 * MS, .backward = 20 * MS },
  [COMM] = { .p = 4, .v = 1, .m = 8, .forward = 10 * MS, .backward = 20 * MS, .tp = 4 * MS, .transfer = MS,
             .reduce = 25 * MS, .optimizer = 15 * MS },
  [SINGLE] = { .p = 1, .v = 1, .m = 1, .forward = 10 * MS, .backward = 20 * MS },
  [TINY] = { .p = 1, .v = 1, .m = 12, .forward = 3001, .backward = 7003, .optimizer = 11 }, /* picoseconds */
  [CHUNKS_16] = { .p = 16, .v = 4, .m = 32, .forward = 100 * MS, .backward = 200 * MS, .transfer = 3 * MS },
  [STAGES_64] = { .p = 64, .v = 1, .m = 4, .forward = 10 * MS, .backward = 20 * MS },
  [LARGE] = { .p = 64, .v = 1, .m = 512, .forward = 10 * MS, .backward = 20 * MS },
};

static ScSummary *
make (guint row)
{
  return fake_summary_new (&fakes[row]);
}

static void
assert_drawing (guint row, guint width, const char *expected)
{
  ScSummary *s = make (row);
  g_autoptr (GString) out = g_string_new (NULL);
  sc_timeline_draw (s, out, width, FALSE);
  ck_assert_str_eq (out->str, expected);
  fake_summary_free (s);
}

START_TEST (a_1f1b_timeline_is_the_figure_of_the_papers)
{
  assert_drawing (PLAIN, 0,
                  "stage 0 |0-1-2-3-............0===4-1===5-2===6-3===7-4===..5===..6===..7===|\n"
                  "stage 1 |..0-1-2-........0===3-1===4-2===5-3===6-4===7-5===..6===..7===....|\n"
                  "stage 2 |....0-1-....0===2-1===3-2===4-3===5-4===6-5===7-6===..7===........|\n"
                  "stage 3 |......0-0===1-1===2-2===3-3===4-4===5-5===6-6===7-7===............|\n"
                  "        |+-------------------+-------------------+-------------------+-----|\n"
                  "         0                   100 ms              200 ms              300 ms\n"
                  "step 330 ms   one cell 5 ms   7-- forward of micro-batch 7   7== its backward   . bubble\n");
}
END_TEST

START_TEST (an_interleaved_timeline_names_the_chunks)
{
  assert_drawing (
      CHUNKS, 0,
      "stage 0 |0-12-30-12-3-45-6.....0==7-1==..42==5-3==6-0==71===2==.3==..4==..5==.6===.7==4===5==6==7==|\n"
      "         a aa ab bb b aa a     b  a b    bb  b b  b a  ba   a   a    b    b   b    b  a   a  a  a\n"
      "stage 1 |..01-23-01-2-34-...0==5-1==62===73==4-0==5-1==62===73==..4==..5==.6==..7==4==5===6==7==...|\n"
      "           aa aa bb b ba    b  a b  ab   ab  b a  b a  ba   ba    b    b   b    b  a  a   a  a\n"
      "stage 2 |...0-12-30-1-2..0==3-1==42==5-3==6-0==71===42==5-3==6-4==75===.6==..7==4==5==6===7==......|\n"
      "            a aa ab b b  b  b b  ab  a b  a a  aa   ba  b a  b b  bb    b    b  a  a  a   a\n"
      "stage 3 |.....01-23-0-0==11===22==3-3==4-0==51==6-2==7-3==4-4==55==6-6==7-7==4==5==6==7===.........|\n"
      "              aa aa b b  bb   bb  b b  a a  aa  a a  a a  b b  bb  b b  b b  a  a  a  a\n"
      "        |+--------------+---------------+---------------+---------------+--------------+-----------|\n"
      "         0              100 ms          200 ms          300 ms          400 ms         500 ms\n"
      "step 570 ms   one cell 6.333 ms   7-- forward of micro-batch 7   7== its backward   . bubble\n"
      "Below a stage: the chunk of its layers that the block above belongs to, a = the first.\n");
}
END_TEST

START_TEST (a_narrow_timeline_shows_directions_instead_of_numbers)
{
  assert_drawing (PLAIN, 40,
                  "stage 0 |FFFf.....BBXBXXBXXBFBB.BbbB.BB|\n"
                  "stage 1 |.FFf...bBFBXXBXXBXXBFBb.B.bB..|\n"
                  "stage 2 |..Ff.bBXXBFBXXBXXBXBBXBb.B....|\n"
                  "stage 3 |...XBXXBXBBXBXXBXXBFBXXBb.....|\n"
                  "        |+-----------------+-----------|\n"
                  "         0                 200 ms\n"
                  "step 330 ms   one cell 11 ms   F forward   B backward   X both   f b x: with up to half of it idle\n"
                  ". bubble\n"
                  "Micro-batches are narrower than a cell here: a trace (--trace FILE) shows them one by one.\n");
}
END_TEST

START_TEST (a_timeline_marks_communication_and_the_optimizer)
{
  ScSummary *s = make (COMM);
  g_autoptr (GString) out = g_string_new (NULL);
  sc_timeline_draw (s, out, 0, FALSE);
  g_auto (GStrv) lines = g_strsplit (out->str, "\n", 2);
  ck_assert_msg (g_str_has_suffix (lines[0], "7===~~~~~~###|") || g_str_has_suffix (lines[0], "7===~~~~~###|"), "%s", lines[0]);
  ck_assert_ptr_nonnull (strstr (out->str, "~ exposed communication"));
  ck_assert_ptr_nonnull (strstr (out->str, "# optimizer"));
  fake_summary_free (s);
}
END_TEST

static void
assert_lines_fit (const char *text, gsize width)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++)
    {
      ck_assert_msg (strlen (*line) <= width, "%zu columns: %s", strlen (*line), *line);
      ck_assert_msg (!g_str_has_suffix (*line, " "), "blank at the end of: %s", *line);
      ck_assert (g_str_is_ascii (*line));
    }
}

/* What is left of a drawing in colour without its escapes is the drawing; forward, backward and weight gradients are of three colours. */
START_TEST (colour_changes_nothing_but_colour)
{
  ScSummary *s = make (_i);
  g_autoptr (GString) plain = g_string_new (NULL);
  g_autoptr (GString) bare = g_string_new (NULL);
  g_autoptr (GString) coloured = g_string_new (NULL);
  sc_timeline_draw (s, plain, 0, FALSE);
  sc_timeline_draw (s, coloured, 0, TRUE);
  for (const char *c = coloured->str; *c != '\0'; c++)
    if (*c == '\x1b')
      c = strchr (c, 'm');
    else
      g_string_append_c (bare, *c);
  ck_assert_str_eq (bare->str, plain->str);
  ck_assert_ptr_nonnull (strstr (coloured->str, "\x1b[0m|"));
  fake_summary_free (s);
}
END_TEST

START_TEST (timelines_keep_their_width_and_have_a_row_per_stage)
{
  static const guint widths[] = { 0, 1, 40, 79, 100, 160, 1000 };
  ScSummary *s = make (_i);
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      sc_timeline_draw (s, out, widths[i], FALSE);
      assert_lines_fit (out->str, MAX (100, widths[i]));
      guint rows = 0;
      g_auto (GStrv) lines = g_strsplit (out->str, "\n", -1);
      for (char **line = lines; *line != NULL; line++)
        rows += g_str_has_prefix (*line, "stage ");
      ck_assert_uint_eq (rows, fakes[_i].p);
    }
  fake_summary_free (s);
}
END_TEST

START_TEST (segments_tile_the_step)
{
  ScSummary *s = make (_i);
  g_autoptr (ScSegments) segments = sc_segments_new (s->program, s->trace, s->step);
  for (guint c = 0; c < s->n_classes; c++)
    {
      g_autoptr (GArray) list = sc_segments_of_class (segments, c);
      ScTime now = 0, sum[SC_N_TIMES] = { 0 };
      for (guint i = 0; i < list->len; i++)
        {
          const ScSegment *segment = &g_array_index (list, ScSegment, i);
          ck_assert_int_eq (segment->from, now);
          ck_assert_int_gt (segment->to, now);
          now = segment->to;
          sum[segment->kind] += segment->to - segment->from;
        }
      ck_assert_int_eq (now, s->step);
      const Fake *f = &fakes[_i];
      ck_assert_int_eq (sum[SC_TIME_FORWARD], f->m * f->v * (f->forward / 2 * 2));
      ck_assert_int_eq (sum[SC_TIME_BACKWARD], f->m * f->v * (f->backward / 2 * 2));
      ck_assert_int_eq (sum[SC_TIME_OPTIMIZER], f->optimizer);
      ck_assert_int_eq (sum[SC_TIME_COMM_TP], 2 * f->m * f->v * f->tp);
      ck_assert_int_eq (sum[SC_TIME_COMM_DP], f->reduce);
      ck_assert_int_eq (sum[SC_TIME_HOST], 0);
      if (f->tp == 0 && f->transfer == 0) /* MODELLING 7.3: (p - 1)(F + B) whatever v */
        ck_assert_int_eq (sum[SC_TIME_BUBBLE], (f->p - 1) * (f->forward + f->backward));
    }
  fake_summary_free (s);
}
END_TEST

/* ---- Traces ---- */

/* Writes a trace to a fresh file and reads it back, parsed. */
static cJSON *
trace_of (const ScSummary *s)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("check-report-XXXXXX", &error);
  ck_assert_ptr_nonnull (folder);
  g_autofree char *path = g_build_filename (folder, "trace.json", NULL), *text = NULL;
  gsize length;
  ck_assert_msg (sc_trace_write (s, path, NULL, &error), "%s", error != NULL ? error->message : "");
  ck_assert (g_file_get_contents (path, &text, &length, NULL));
  ck_assert_int_eq (g_unlink (path), 0);
  ck_assert_msg (g_rmdir (folder) == 0, "something else was left in %s", folder);
  cJSON *json = cJSON_ParseWithLengthOpts (text, length + 1, NULL, TRUE);
  ck_assert_ptr_nonnull (json);
  return json;
}

static const char *
text_of (const cJSON *event, const char *key)
{
  const char *text = cJSON_GetStringValue (cJSON_GetObjectItemCaseSensitive (event, key));
  return text != NULL ? text : "";
}

static double
number_of (const cJSON *event, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive (event, key);
  ck_assert_msg (cJSON_IsNumber (item), "no number %s", key);
  return item->valuedouble;
}

START_TEST (a_trace_has_names_first_and_slices_that_do_not_overlap)
{
  ScSummary *s = make (_i);
  g_autoptr (cJSON) root = trace_of (s);
  ck_assert_str_eq (text_of (root, "displayTimeUnit"), "ms");
  g_autoptr (GHashTable) ends = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  gboolean after_names = FALSE;
  double forward = 0;
  const cJSON *event;
  cJSON_ArrayForEach (event, cJSON_GetObjectItemCaseSensitive (root, "traceEvents"))
    {
      const char *phase = text_of (event, "ph");
      if (strcmp (phase, "M") == 0)
        ck_assert (!after_names);
      else
        after_names = TRUE;
      if (strcmp (phase, "X") != 0)
        continue;
      const double ts = number_of (event, "ts"), duration = number_of (event, "dur");
      ck_assert_double_ge (duration, 0);
      char *key = g_strdup_printf ("%g %g", number_of (event, "pid"), number_of (event, "tid"));
      const double *end = g_hash_table_lookup (ends, key);
      /* Half a nanosecond: both are printed with three decimals of a microsecond. */
      ck_assert_msg (end == NULL || ts >= *end - 5e-4, "%s: %s at %g begins before %g", key, text_of (event, "name"), ts, *end);
      const double now = ts + duration;
      g_hash_table_insert (ends, key, g_memdup2 (&now, sizeof now));
      if (number_of (event, "pid") == 0 && strcmp (text_of (cJSON_GetObjectItemCaseSensitive (event, "args"), "category"), "forward") == 0)
        forward += duration;
    }
  const Fake *f = &fakes[_i];
  if (f->forward >= MS) /* shorter than a nanosecond leaves rounding only */
    ck_assert_double_eq_tol (forward, f->m * f->v * (double) f->forward / 1e6, 1e-3 * f->m * f->v);
  fake_summary_free (s);
}
END_TEST

START_TEST (a_trace_keeps_exposed_communication_apart_from_compute)
{
  ScSummary *s = make (COMM);
  g_autoptr (cJSON) root = trace_of (s);
  g_autoptr (GHashTable) threads = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  guint all_reduces = 0, flows = 0;
  const cJSON *event;
  cJSON_ArrayForEach (event, cJSON_GetObjectItemCaseSensitive (root, "traceEvents"))
    {
      const cJSON *args = cJSON_GetObjectItemCaseSensitive (event, "args");
      if (strcmp (text_of (event, "name"), "thread_name") == 0)
        g_hash_table_insert (threads, g_strdup_printf ("%g %g", number_of (event, "pid"), number_of (event, "tid")),
                             (gpointer) (gsize) text_of (args, "name"));
      if (strcmp (text_of (event, "name"), "ncclDevKernel: all-reduce") == 0)
        {
          g_autofree char *key = g_strdup_printf ("%g %g", number_of (event, "pid"), number_of (event, "tid"));
          ck_assert_str_eq (g_hash_table_lookup (threads, key), "exposed TP");
          ck_assert_str_eq (text_of (event, "cat"), "kernel");
          ck_assert_str_eq (text_of (args, "category"), "tp");
          ck_assert_double_lt (number_of (args, "microbatch"), 8);
          all_reduces++;
        }
      flows += strcmp (text_of (event, "ph"), "s") == 0;
    }
  ck_assert_uint_eq (all_reduces, 4 * 8 * 2);
  ck_assert_uint_eq (flows, 3 * 8 * 2);
  fake_summary_free (s);
}
END_TEST

START_TEST (a_trace_of_many_classes_says_what_it_left_out)
{
  ScSummary *s = make (STAGES_64);
  g_autoptr (cJSON) root = trace_of (s);
  const cJSON *other = cJSON_GetObjectItemCaseSensitive (root, "otherData");
  ck_assert_double_eq (number_of (other, "classes"), 64);
  ck_assert_double_eq (number_of (other, "classes_written"), SC_TRACE_MAX_CLASSES);
  ck_assert_ptr_nonnull (strstr (text_of (other, "note"), "32 of 64"));
  g_autoptr (GHashTable) pids = g_hash_table_new (g_direct_hash, g_direct_equal);
  const cJSON *event;
  cJSON_ArrayForEach (event, cJSON_GetObjectItemCaseSensitive (root, "traceEvents"))
    g_hash_table_add (pids, GUINT_TO_POINTER ((guint) number_of (event, "pid") + 1));
  ck_assert_uint_eq (g_hash_table_size (pids), SC_TRACE_MAX_CLASSES);
  ck_assert (g_hash_table_contains (pids, GUINT_TO_POINTER (1)));
  ck_assert (g_hash_table_contains (pids, GUINT_TO_POINTER (2 * 63 + 1)));
  fake_summary_free (s);
}
END_TEST

START_TEST (a_trace_that_cannot_be_written_is_an_error)
{
  static const struct { const char *path; ScCmdError code; } rows[] = {
    { "/nonexistent/trace.json", SC_CMD_ERROR_CANNOT_CREATE },
    { "/dev/full", SC_CMD_ERROR_IO },
    { "/", SC_CMD_ERROR_CANNOT_CREATE },
  };
  ScSummary *s = make (SINGLE);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      ck_assert (!sc_trace_write (s, rows[i].path, NULL, &error));
      ck_assert_msg (g_error_matches (error, SC_CMD_ERROR, rows[i].code), "%s", error->message);
      ck_assert_ptr_nonnull (strstr (error->message, rows[i].path));
    }
  fake_summary_free (s);
}
END_TEST

/* ---- Reports ---- */

static char *
report_text (const ScSummary *s, const char *format)
{
  const ScReport *report = sc_report_find (format);
  ck_assert_ptr_nonnull (report);
  GString *out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert_msg (report->write (s, out, &error), "%s", error != NULL ? error->message : "");
  return g_string_free (out, FALSE);
}

START_TEST (every_report_is_found_by_its_name)
{
  for (const ScReport *const *r = sc_report_all (); *r != NULL; r++)
    {
      ck_assert_ptr_eq (sc_report_find ((*r)->name), *r);
      ck_assert_ptr_nonnull ((*r)->summary);
    }
  ck_assert_str_eq (sc_report_all ()[0]->name, "text");
  ck_assert_ptr_null (sc_report_find ("tex"));
}
END_TEST

START_TEST (the_text_report_fits_100_columns_and_begins_with_the_answer)
{
  ScSummary *s = make (_i);
  g_autofree char *text = report_text (s, "text");
  assert_lines_fit (text, 100);
  g_auto (GStrv) lines = g_strsplit (text, "\n", 9);
  g_autofree char *rest = g_steal_pointer (&lines[8]);
  g_autofree char *head = g_strjoinv ("\n", lines);
  static const char *const answers[] = { "Step ", "tokens/s", "MFU ", "HFU ", "TFLOP/s", "Memory ", "Time ", "TP 2 + SP" };
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    ck_assert_msg (strstr (head, answers[i]) != NULL, "no \"%s\" in:\n%s", answers[i], head);
  /* Columns that are zero everywhere are left out. */
  ck_assert_ptr_null (strstr (text, "recomp "));
  ck_assert_ptr_null (strstr (text, "EP comm"));
  ck_assert_int_eq (strstr (text, "DP comm") != NULL, fakes[_i].reduce > 0);
  fake_summary_free (s);
}
END_TEST

START_TEST (the_text_report_shows_at_most_sixteen_rows_of_stages)
{
  ScSummary *s = make (STAGES_64);
  g_autofree char *text = report_text (s, "text");
  ck_assert_ptr_nonnull (strstr (text, "\n  0          2"));
  ck_assert_ptr_nonnull (strstr (text, "\n  1-4        8"));
  ck_assert_ptr_nonnull (strstr (text, "\n  58-62     10"));
  ck_assert_ptr_nonnull (strstr (text, "\n  63         2"));
  ck_assert_ptr_null (strstr (text, "\n  2 "));
  fake_summary_free (s);
}
END_TEST

START_TEST (the_text_report_of_a_small_step_reads_as_it_should)
{
  ScSummary *s = make (COMM);
  g_autofree char *text = report_text (s, "text");
  ck_assert_ptr_nonnull (strstr (text,
      "Where the time goes, in ms (communication: what is not hidden)\n"
      "  stage layers   forward  backward optimizer   TP comm   PP comm   DP comm    bubble      step\n"
      "  0          2      80.0     160.0      15.0      64.0"));
  ck_assert_ptr_nonnull (strstr (text, "\n  % of step "));
  ck_assert_ptr_nonnull (strstr (text, "ideal (p-1)/(v m + p-1):  27.3 %"));
  ck_assert_ptr_nonnull (strstr (text,
      "  stage  weight  grads  optim  activ   alloc reserved device    free   at, ms\n"
      "  0        1.00   1.00   1.00   2.00    5.00     5.25   6.03    1.97     30.0\n"));
  ck_assert_ptr_nonnull (strstr (text, "8 ranks in 4 classes, 12 groups in 5 families, 40 links in 8 classes: exact."));
  ck_assert_ptr_nonnull (strstr (text, "25.0 % measured, 62.5 % fitted, 12.5 % assumed"));
  ck_assert_ptr_nonnull (strstr (text, "- no jitter: every rank of a class is as fast as the others\n"));
  fake_summary_free (s);
}
END_TEST

START_TEST (the_json_report_adds_up_to_the_picosecond)
{
  ScSummary *s = make (_i);
  g_autofree char *text = report_text (s, "json");
  ck_assert (g_str_has_suffix (text, "}\n"));
  g_autoptr (cJSON) root = cJSON_ParseWithOpts (text, NULL, TRUE);
  ck_assert_ptr_nonnull (root);
  ck_assert_double_eq (number_of (root, "schema_version"), 1);
  ck_assert_double_eq (number_of (root, "step_time_ps"), (double) s->step);
  static const char *const arrays[] = { "stages", "classes" };
  for (guint a = 0; a < G_N_ELEMENTS (arrays); a++)
    {
      const cJSON *array = cJSON_GetObjectItemCaseSensitive (root, arrays[a]), *item;
      ck_assert_int_eq (cJSON_GetArraySize (array), fakes[_i].p);
      cJSON_ArrayForEach (item, array)
        {
          gint64 sum = 0;
          const cJSON *part;
          cJSON_ArrayForEach (part, cJSON_GetObjectItemCaseSensitive (item, "time_ps"))
            sum += (gint64) part->valuedouble;
          ck_assert_int_eq (sum, s->step);
        }
    }
  const cJSON *memory = cJSON_GetObjectItemCaseSensitive (root, "memory"), *kind;
  double bytes = 0;
  cJSON_ArrayForEach (kind, cJSON_GetObjectItemCaseSensitive (memory, "at_peak_bytes"))
    bytes += kind->valuedouble;
  ck_assert_double_eq (bytes, number_of (memory, "peak_allocated_bytes"));
  fake_summary_free (s);
}
END_TEST

START_TEST (the_json_report_keeps_every_digit_of_large_integers)
{
  ScSummary *s = make (SINGLE);
  s->step = G_GINT64_CONSTANT (9000000000000000001); /* 104 days; a double would print ...000 */
  s->params = G_GUINT64_CONSTANT (18446744073709551615);
  g_autofree char *text = report_text (s, "json");
  ck_assert_ptr_nonnull (strstr (text, "\"step_time_ps\":\t9000000000000000001,"));
  ck_assert_ptr_nonnull (strstr (text, "\"params\":\t18446744073709551615,"));
  fake_summary_free (s);
}
END_TEST

START_TEST (the_json_report_refuses_what_is_not_finite)
{
  ScSummary *s = make (SINGLE);
  s->mfu_full = NAN;
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_report_find ("json")->write (s, out, &error));
  ck_assert (g_error_matches (error, SC_REPORT_ERROR, SC_REPORT_ERROR_NOT_FINITE));
  ck_assert_str_eq (error->message, "report: mfu_full is not a finite number");
  ck_assert_uint_eq (out->len, 0);
  fake_summary_free (s);
}
END_TEST

/* Every key of @item stands in @documentation as `key`. */
static void
assert_documented (const cJSON *item, const char *documentation)
{
  for (const cJSON *child = item->child; child != NULL; child = child->next)
    {
      if (child->string != NULL)
        {
          g_autofree char *key = g_strdup_printf ("`%s`", child->string);
          ck_assert_msg (strstr (documentation, key) != NULL, "%s is not in doc/report-json.md", key);
        }
      assert_documented (child, documentation);
    }
}

START_TEST (the_text_report_names_the_hottest_links)
{
  ScSummary *s = make (COMM);
  g_autofree char *without = report_text (s, "text");
  ck_assert_ptr_null (strstr (without, "Hottest links"));
  fake_links (s);
  g_autofree char *text = report_text (s, "text");
  const char *at = strstr (text, "Hottest links");
  ck_assert_ptr_nonnull (at);
  g_autofree char *shown = g_strndup (at, (gsize) (strstr (at, "\n\n") - at));
  ck_assert_str_eq (shown, "Hottest links, by mean utilisation over the step\n"
                           "  the first of          links   capacity mean, % peak, %  full, ms  used by, %\n"
                           "  NIC 0 out of node 0       4 48.90 GB/s    75.0   100.0      59.2  DP 62, PP 38\n"
                           "  NIC 1 out of node 10      5 48.90 GB/s    50.0   100.0       0.0  DP 100\n"
                           "  NIC 2 out of node 20     13 48.90 GB/s    25.0   100.0       0.0  DP 100\n"
                           "  Full: at 99.9 % of the capacity or more.  8 more links carried less.  3 more links can never be\n"
                           "  fuller than the fullest of these.");
  fake_summary_free (s);
}
END_TEST

START_TEST (the_json_report_has_links_over_time)
{
  ScSummary *s = make (COMM);
  g_autofree char *without = report_text (s, "json");
  g_autoptr (cJSON) plain = cJSON_Parse (without);
  ck_assert (cJSON_IsNull (cJSON_GetObjectItem (plain, "links")));
  fake_links (s);
  g_autofree char *text = report_text (s, "json");
  g_autoptr (cJSON) root = cJSON_Parse (text);
  const cJSON *links = cJSON_GetObjectItem (root, "links"), *classes = cJSON_GetObjectItem (links, "classes");
  ck_assert_double_eq (cJSON_GetObjectItem (links, "bin_s")->valuedouble, sc_time_to_s (s->links->bin));
  ck_assert_int_eq (cJSON_GetObjectItem (links, "left_out")->valueint, 3);
  ck_assert_int_eq (cJSON_GetArraySize (classes), 5);
  const cJSON *second = cJSON_GetArrayItem (classes, 1), *shares = cJSON_GetObjectItem (second, "utilisation");
  ck_assert_str_eq (cJSON_GetObjectItem (second, "link")->valuestring, "NIC 1 out of node 10");
  ck_assert_int_eq (cJSON_GetObjectItem (cJSON_GetObjectItem (second, "kinds"), "nic_out")->valueint, 5);
  ck_assert_int_eq (cJSON_GetArraySize (cJSON_GetObjectItem (second, "kinds")), 1);
  ck_assert_int_eq (cJSON_GetArraySize (shares), 4);
  ck_assert_double_eq (cJSON_GetArrayItem (shares, 0)->valuedouble, 0.5);
  ck_assert_double_eq (cJSON_GetArrayItem (shares, 1)->valuedouble, 0.333333); /* to a millionth */
  double bytes = 0;
  for (const cJSON *kind = cJSON_GetObjectItem (second, "bytes")->child; kind != NULL; kind = kind->next)
    bytes += kind->valuedouble;
  ck_assert_double_eq_tol (bytes / 48.9e9 / sc_time_to_s (s->step), 0.5, 1e-12);
  s->links->rows[4].utilisation[3] = NAN;
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (!sc_report_json.write (s, out, &error));
  ck_assert_str_eq (error->message, "report: utilisation is not a finite number");
  fake_summary_free (s);
}
END_TEST

START_TEST (every_key_of_the_json_report_is_documented)
{
  const char *folder = g_getenv ("abs_srcdir");
  g_autofree char *path = g_build_filename (folder != NULL ? folder : ".", "doc", "report-json.md", NULL);
  g_autofree char *documentation = NULL;
  ck_assert_msg (g_file_get_contents (path, &documentation, NULL, NULL), "%s", path);
  ScSummary *s = make (COMM);
  fake_links (s);
  g_autofree char *text = report_text (s, "json");
  g_autoptr (cJSON) root = cJSON_Parse (text);
  assert_documented (root, documentation);
  fake_summary_free (s);
}
END_TEST

START_TEST (long_text_is_broken_at_blanks)
{
  g_autoptr (GString) out = g_string_new ("ab: ");
  sc_append_wrapped (out, "one two three four incomprehensibilities five", 4, 2, 14);
  ck_assert_str_eq (out->str, "ab: one two\n  three four\n  incomprehensibilities\n  five");
}
END_TEST

/* ---- Topologies and plans ---- */

static char type_name[] = "box", type_name_2[] = "old", summary_text[] = "Two kinds of box for tests.";
static ScDevice draw_device = { .name = fake_device_name, .family = type_name,
                                .memory_bytes = { .value = 80.0 * (1 << 30), .grade = SC_GRADE_DATASHEET },
                                .memory_bytes_per_s = { .value = 2e12 }, .peak_flops = { { .value = 312e12 } } };

START_TEST (a_topology_is_drawn_from_the_core_down)
{
  ScNodeType types[] = {
    { .name = type_name, .device = &draw_device, .gpus = 4, .has_nvlink = TRUE, .nvlink_bytes_per_s = { .value = 235e9 },
      .nvlink_latency_s = { .value = 2e-6 }, .nvlink_domain_nodes = 1, .nics = 2, .nic_bytes_per_s = { .value = 24e9 },
      .nic_latency_s = { .value = 5e-6 } },
    { .name = type_name_2, .device = &draw_device, .gpus = 16, .nvlink_domain_nodes = 1, .pcie_bytes_per_s = { .value = 12e9 },
      .pcie_latency_s = { .value = 4e-6 }, .pcie_gpus_per_switch = 4, .pcie_uplink_bytes_per_s = { .value = 24e9 }, .nics = 1,
      .nic_bytes_per_s = { .value = 3e9 }, .nic_latency_s = { .value = 9e-6 } },
  };
  ScNodeRun runs[] = { { 0, 6 }, { 1, 2 } };
  ScTier tiers[] = { { .children = 4, .oversubscription = 1 }, { .children = 2, .oversubscription = 2 } };
  ScFault faults[] = { { SC_FAULT_GPU, 1, 3, 0.6 }, { SC_FAULT_NIC, 2, 0, 0 } };
  const ScTopology t = { .name = fake_topology_name, .summary = summary_text, .types = types, .n_types = 2, .runs = runs, .n_runs = 2,
                         .n_nodes = 8, .n_gpus = 56, .tiers = tiers, .n_tiers = 2, .faults = faults, .n_faults = 2 };
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert_msg (sc_draw_topology (&t, out, &error), "%s", error != NULL ? error->message : "");
  ck_assert_str_eq (out->str,
                     "two-boxes: 8 nodes, 56 GPUs\n"
                     "  Two kinds of box for tests.\n"
                     "\n"
                     "Network, rates per direction\n"
                     "    core    non-blocking\n"
                     "      |\n"
                     "    tier 2  1 group of up to 2 of tier 1: 147.0 GB/s up each, 2:1\n"
                     "      |\n"
                     "    tier 1  2 leaf switches of up to 4 nodes: 102.0 GB/s to 192.0 GB/s up each, 1:1\n"
                     "      |\n"
                     "    nodes   6 x box (2 x 24.00 GB/s), 2 x old (1 x 3.000 GB/s)\n"
                     "\n"
                     "Node box, 6 of it: 4 x h99-sxm (80.00 GiB, 2.000 TB/s, 312.0 TFLOP/s bf16)\n"
                     "    ============================  NVLink 235.0 GB/s per GPU, 2.000 us a hop\n"
                     "      |       |       |       |\n"
                     "    GPU0    GPU1    GPU2    GPU3\n"
                     "      |       |       |       |\n"
                     "    NIC0------'     NIC1------'\n"
                     "    2 NICs of 24.00 GB/s, 5.000 us a hop that leaves the node\n"
                     "\n"
                     "Node old, 2 of it: 16 x h99-sxm (80.00 GiB, 2.000 TB/s, 312.0 TFLOP/s bf16)\n"
                     "    GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6     ...    GPU15\n"
                     "      |       |       |       |       |       |       |               |\n"
                     "    [switch 0                    ]  [switch 1            ]   ...    [sw3 ]\n"
                     "      |       |       |       |       |       |       |               |\n"
                     "    ------------- PCIe 12.00 GB/s per GPU, 4.000 us a hop --------------\n"
                     "    4 GPUs share each switch's 24.00 GB/s to the host\n"
                     "      |       |       |       |       |       |       |               |\n"
                     "    NIC0------+-------+-------+-------+-------+-------'      ...    NIC0\n"
                     "    1 NIC of 3.000 GB/s, 9.000 us a hop that leaves the node\n"
                     "\n"
                     "Faults\n"
                     "    GPU 3 of node 1 runs at 60 % of its rate\n"
                     "    NIC 0 of node 2 is dead\n");
}
END_TEST

START_TEST (a_plan_is_drawn_by_groups_nodes_and_stages)
{
  ScNodeType types[] = { { .name = type_name, .device = &draw_device, .gpus = 4 } };
  ScNodeRun runs[] = { { 0, 6 } };
  const ScTopology t = { .name = fake_topology_name, .types = types, .n_types = 1, .runs = runs, .n_runs = 1, .n_nodes = 6, .n_gpus = 24 };
  ScWorkload w = fake_workload;
  w.plan.pp = 4;
  w.plan.vpp = 2;
  w.plan.dp = 2;
  w.plan.gpus = 16;
  w.plan.schedule = "interleaved";
  w.model.layers = 20;
  guint layers[] = { 2, 3, 3, 2, 3, 3, 3, 1 };
  w.plan.stage_layers = layers;
  g_autoptr (GString) out = g_string_new (NULL);
  sc_draw_plan (&t, &w, out);
  ck_assert_str_eq (out->str,
                     "tiny-1f1b: 16 ranks on 4 nodes\n"
                     "  20 layers, hidden 1024, 16 heads (4 KV) of 64, ffn 4096 gated, vocabulary 32000\n"
                     "  TP 2 + SP, PP 4 x 2 chunks (interleaved), DP 2 (distributed-optimizer), recompute none, bf16;\n"
                     "  ranks in order tp-cp-ep-dp-pp\n"
                     "\n"
                     "  group  size   count  stride  that of rank 0, and its nodes\n"
                     "  TP        2       8       1  ranks 0 1 on node 0\n"
                     "  DP        2       8       2  ranks 0 2 on node 0\n"
                     "  PP        4       4       4  ranks 0 4 8 12 on nodes 0 1 2 3\n"
                     "\n"
                     "  node   ranks          stage    dp       tp\n"
                     "  0      0-3            0        0-1      0-1\n"
                     "  1      4-7            1        0-1      0-1\n"
                     "  2      8-11           2        0-1      0-1\n"
                     "  3      12-15          3        0-1      0-1\n"
                     "\n"
                     "  stage    layers   by chunk\n"
                     "  0             5   2 + 3   with the embedding\n"
                     "  1-2           6   3 + 3   each\n"
                     "  3             3   2 + 1   with the head and loss\n");
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("report");
  TCase *timeline = tcase_create ("timeline");
  tcase_add_test (timeline, a_1f1b_timeline_is_the_figure_of_the_papers);
  tcase_add_test (timeline, an_interleaved_timeline_names_the_chunks);
  tcase_add_test (timeline, a_narrow_timeline_shows_directions_instead_of_numbers);
  tcase_add_test (timeline, a_timeline_marks_communication_and_the_optimizer);
  tcase_add_loop_test (timeline, colour_changes_nothing_but_colour, 0, LARGE);
  tcase_add_loop_test (heavy (suite), timelines_keep_their_width_and_have_a_row_per_stage, 0, N_FAKES);
  tcase_add_loop_test (timeline, segments_tile_the_step, 0, LARGE);
  suite_add_tcase (suite, timeline);
  TCase *trace = tcase_create ("trace");
  tcase_add_loop_test (heavy (suite), a_trace_has_names_first_and_slices_that_do_not_overlap, 0, LARGE);
  tcase_add_test (trace, a_trace_keeps_exposed_communication_apart_from_compute);
  tcase_add_test (trace, a_trace_of_many_classes_says_what_it_left_out);
  tcase_add_test (trace, a_trace_that_cannot_be_written_is_an_error);
  suite_add_tcase (suite, trace);
  TCase *report = tcase_create ("report");
  tcase_add_test (report, every_report_is_found_by_its_name);
  tcase_add_loop_test (report, the_text_report_fits_100_columns_and_begins_with_the_answer, 0, LARGE);
  tcase_add_test (report, the_text_report_shows_at_most_sixteen_rows_of_stages);
  tcase_add_test (report, the_text_report_of_a_small_step_reads_as_it_should);
  tcase_add_loop_test (report, the_json_report_adds_up_to_the_picosecond, 0, LARGE);
  tcase_add_test (report, the_json_report_keeps_every_digit_of_large_integers);
  tcase_add_test (report, the_json_report_refuses_what_is_not_finite);
  tcase_add_test (report, the_text_report_names_the_hottest_links);
  tcase_add_test (report, the_json_report_has_links_over_time);
  tcase_add_test (report, every_key_of_the_json_report_is_documented);
  tcase_add_test (report, long_text_is_broken_at_blanks);
  suite_add_tcase (suite, report);
  TCase *drawings = tcase_create ("drawings");
  tcase_add_test (drawings, a_topology_is_drawn_from_the_core_down);
  tcase_add_test (drawings, a_plan_is_drawn_by_groups_nodes_and_stages);
  suite_add_tcase (suite, drawings);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
