/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_lower.c - steps with round numbers: bubbles, overlap and waits to the picosecond. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/memory.h"
#include "models/model.h"
#include "models/schedule.h"
#include "models/segments.h"
#include "pace.h"
#include "sim/engine.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */

/* ---- steps of which nothing but the passes and what a test asks for takes time ---- */

/* No gradient buffer to zero at the end. */
static const ScFramework bare = { .name = "bare", .version = "test", .fused_wgrad = TRUE };

/* The optimizer takes no time; a pass of fix_items() still does. */
static ScTopology *
bare_topology (FixFabric fabric)
{
  ScTopology *const t = fix_topology (fabric);
  ScDevice *const d = g_ptr_array_index (t->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = 1e30;
  return t;
}

static ScWorkload *
bare_workload (FixPlan plan)
{
  ScWorkload *const w = fix_workload (plan);
  w->framework = &bare;
  return w;
}

/* Times of one class by kind. */
typedef struct
{
  ScTime time[SC_N_TIMES];
} Parts;

static Parts
parts_of (const FixRun *r, guint32 class_id)
{
  Parts parts = { { 0 } };
  ScTime now = 0;
  g_autoptr (ScSegments) segments = sc_segments_new (r->lowered->program, r->trace, r->trace->end);
  g_autoptr (GArray) list = sc_segments_of_class (segments, class_id);
  for (guint i = 0; i < list->len; i++)
    {
      const ScSegment *const s = &g_array_index (list, ScSegment, i);
      if (s->from != now || s->to <= now) /* no gap, no overlap */
        ck_abort_msg ("segment %u: %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT, i, s->from, s->to);
      parts.time[s->kind] += s->to - s->from;
      now = s->to;
    }
  ck_assert_int_eq (now, r->trace->end);
  return parts;
}

static ScTime
total_of (const Parts *parts)
{
  ScTime sum = 0;
  for (guint k = 0; k < SC_N_TIMES; k++)
    sum += parts->time[k];
  return sum;
}

static guint
stage_of (const FixRun *r, guint32 class_id)
{
  return sc_layout_coord (&r->input.workload->plan, r->fold->representative[class_id]).pp;
}

/* ---- the bubble (MODELLING 7.3) ---- */

typedef struct
{
  guint p, v, m, g;
} Pipe;

/* Step of @pipe, one layer a chunk, F = 1 ms and B = 2 ms; a transfer takes @latency_s and has no bytes. */
static FixRun *
run_pipe (const Pipe *pipe, gboolean overlapped, double latency_s, ScTopology **ret_t, ScWorkload **ret_w,
          ScStepItems **ret_items)
{
  *ret_t = bare_topology ((FixFabric) { .nodes = 8, .gpus = 1, .nic_latency_s = latency_s });
  *ret_w = bare_workload ((FixPlan){
      .pp = pipe->p, .vpp = pipe->v, .layers = pipe->p * pipe->v, .microbatches = pipe->m, .overlap_p2p = overlapped });
  (*ret_w)->plan.microbatch_group = pipe->g;
  *ret_items = fix_items (1e-3, 2e-3, 0, 0);
  return fix_run (*ret_t, *ret_w, *ret_items, FALSE, 0);
}

static void
check_bubble (const Pipe *pipe, gboolean overlapped)
{
  g_autoptr (ScTopology) t = NULL;
  g_autoptr (ScWorkload) w = NULL;
  g_autoptr (ScStepItems) items = NULL;
  g_autoptr (FixRun) r = run_pipe (pipe, overlapped, 0, &t, &w, &items);
  const ScTime chunk = 3 * MS, bubble = chunk * (pipe->p - 1);
  ck_assert_msg (r->trace->end == chunk * pipe->v * pipe->m + bubble, "p=%u v=%u m=%u g=%u %s: %.6f ms", pipe->p,
                 pipe->v, pipe->m, pipe->g, overlapped ? "overlapped" : "blocking", (double) r->trace->end / MS);
  ck_assert_uint_eq (r->fold->n_classes, pipe->p);
  for (guint32 k = 0; k < r->fold->n_classes; k++)
    {
      const Parts parts = parts_of (r, k);
      ck_assert_int_eq (parts.time[SC_TIME_FORWARD], 1 * MS * pipe->v * pipe->m);
      ck_assert_int_eq (parts.time[SC_TIME_BACKWARD], 2 * MS * pipe->v * pipe->m);
      ck_assert_msg (parts.time[SC_TIME_BUBBLE] == bubble, "p=%u v=%u m=%u g=%u %s, stage %u: bubble %.6f ms", pipe->p,
                     pipe->v, pipe->m, pipe->g, overlapped ? "overlapped" : "blocking", stage_of (r, k),
                     (double) parts.time[SC_TIME_BUBBLE] / MS);
    }
}

START_TEST (equal_stages_have_the_bubble_of_the_closed_form)
{
  guint n = 0;
  for (guint p = 1; p <= 8; p++)
    for (guint v = 1; v <= 4; v++)
      for (guint m = 1; m <= 17; m++)
        for (guint g = p; g <= (v > 1 ? MAX (m, p) : p); g += 3)
          {
            const ScScheduleShape shape = { p, v, m, g, 0 };
            const ScSchedule *const row = p == 1   ? &sc_schedule_none
                                          : v == 1 ? &sc_schedule_1f1b
                                                   : &sc_schedule_interleaved;
            if (row->refuse (&shape) != NULL)
              continue;
            check_bubble (&(Pipe) { p, v, m, g }, _i > 0);
            n++;
          }
  ck_assert_uint_ge (n, 300);
}
END_TEST

/* MODELLING 7.3, `pipe.comm`: transfers of 0.25 ms that keep nobody busy. */
START_TEST (overlapped_transfers_add_the_latency_that_was_derived)
{
  static const struct { guint p, m; double plain, interleaved; } cases[] = {
    { 2, 2, 9.5, 16.5 },  { 2, 4, 16, 28.5 },    { 2, 8, 29, 52.5 },  { 4, 4, 23.5, 36.5 },  { 4, 8, 37, 60.5 },
    { 4, 16, 64, 108.5 }, { 8, 8, 51.5, 76.5 },  { 8, 16, 79, 124.5 }, { 8, 32, 134, 220.5 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint v = 1; v <= 2; v++)
      {
        g_autoptr (ScTopology) t = NULL;
        g_autoptr (ScWorkload) w = NULL;
        g_autoptr (ScStepItems) items = NULL;
        g_autoptr (FixRun) r =
            run_pipe (&(Pipe) { cases[i].p, v, cases[i].m, cases[i].p }, TRUE, 0.25e-3, &t, &w, &items);
        const double want = v == 1 ? cases[i].plain : cases[i].interleaved;
        /* the norm over all ranks is an all-reduce over a tree, up and down */
        const ScTime norm = (ScTime) (2 * ceil (log2 (cases[i].p)) * 0.25 * MS);
        ck_assert_msg (r->trace->end - norm == (ScTime) (want * MS), "p=%u v=%u m=%u: %.6f ms, expected %.3f",
                       cases[i].p, v, cases[i].m, (double) (r->trace->end - norm) / MS, want);
      }
}
END_TEST

START_TEST (blocking_transfers_cost_more_than_overlapped_ones)
{
  static const Pipe pipes[] = { { 4, 1, 8, 4 }, { 4, 2, 8, 4 }, { 2, 3, 6, 2 }, { 8, 2, 16, 8 },
                                { 3, 1, 7, 3 }, { 2, 2, 8, 4 }, { 4, 2, 10, 6 } };
  for (guint i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      ScTime before = 0;
      for (double latency_s = 0; latency_s < 2e-3; latency_s += 0.25e-3)
        {
          ScTime end[2];
          for (guint overlapped = 0; overlapped < 2; overlapped++)
            {
              g_autoptr (ScTopology) t = NULL;
              g_autoptr (ScWorkload) w = NULL;
              g_autoptr (ScStepItems) items = NULL;
              g_autoptr (FixRun) r = run_pipe (&pipes[i], overlapped > 0, latency_s, &t, &w, &items);
              end[overlapped] = r->trace->end;
              for (guint32 k = 0; k < r->fold->n_classes; k++)
                {
                  const Parts parts = parts_of (r, k);
                  ck_assert_int_eq (total_of (&parts), r->trace->end);
                }
            }
          ck_assert_int_ge (end[0], end[1]);
          ck_assert_int_ge (end[0], before);
          before = end[0];
        }
    }
}
END_TEST

/* ---- data parallelism under backward (MODELLING 6.5) ---- */

/* 4 layers, F = 1 ms, B = 2 ms, two ranks on NVLink so wide that a layer's gradients take @bucket_s. */
static FixRun *
run_buckets (gboolean overlap, double bucket_s, ScSharding sharding, double hidden_slowdown, ScTopology **ret_t,
             ScWorkload **ret_w, ScStepItems **ret_items, ScTime *ret_head)
{
  *ret_t = bare_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  *ret_w = bare_workload (
      (FixPlan) { .dp = 2, .layers = 4, .microbatches = 1, .overlap_grad = overlap, .sharding = sharding });
  ScModel *const m = &(*ret_w)->model;
  m->vocab = 0; /* no embedding and no output matrix: nothing but a norm beside the layers */
  m->ffn = 1 << 20;
  const double layer = (double) sc_model_layer_params_rank (m, 1);
  (*ret_w)->plan.bucket_params = (guint64) layer; /* the head's norm goes with the last layer */
  const double share = sharding == SC_SHARDING_NONE ? 1 : 0.5; /* 2 (n - 1) / n, or (n - 1) / n to scatter */
  (*ret_t)->types[0].nvlink_bytes_per_s.value = share * layer * 4 / bucket_s;
  *ret_head = sc_time_from_s (m->hidden / layer * bucket_s);
  ((ScDevice *) g_ptr_array_index ((*ret_t)->devices, 0))->hidden_slowdown.value = hidden_slowdown;
  *ret_items = fix_items (1e-3, 2e-3, 0, 0);
  return fix_run (*ret_t, *ret_w, *ret_items, FALSE, 0);
}

static const struct
{
  double   bucket_s;
  gboolean overlap;
  double   hidden_slowdown;
  double   step_ms;
  gboolean last_alone; /* only the last bucket shows, which is a layer and no more */
} bucket_cases[] = {
  { 1.5e-3, TRUE, 1, 13.5, TRUE },
  { 3e-3, TRUE, 1, 18, FALSE },
  { 1.5e-3, FALSE, 1, 18, FALSE },
  { 3e-3, FALSE, 1, 24, FALSE },
  /* compute at 0.8 of its rate beside a bucket: of the 2 ms of a backward 1.2 are done in the bucket's 1.5, so three of
   * the four last 2.3 ms: 4 + 2 + 3 x 2.3 + 1.5 */
  { 1.5e-3, TRUE, 1.25, 14.4, FALSE },
  /* buckets without a gap from 6 ms on: 4 x 3 ms, and all three backwards (2.5 ms each) end under them */
  { 3e-3, TRUE, 1.25, 18, FALSE },
  /* nothing runs beside the buckets: no slower */
  { 3e-3, FALSE, 1.25, 24, FALSE },
};

START_TEST (gradient_buckets_hide_under_backward)
{
  for (guint sharding = 0; sharding < 2; sharding++)
    {
      g_autoptr (ScTopology) t = NULL;
      g_autoptr (ScWorkload) w = NULL;
      g_autoptr (ScStepItems) items = NULL;
      ScTime head = 0;
      g_autoptr (FixRun) r = run_buckets (bucket_cases[_i].overlap, bucket_cases[_i].bucket_s,
                                          sharding == 0 ? SC_SHARDING_NONE : SC_SHARDING_ZERO1,
                                          bucket_cases[_i].hidden_slowdown, &t, &w, &items, &head);
      const ScTime want = (ScTime) llround (bucket_cases[_i].step_ms * MS);
      /* the sharded optimizer gathers what it has updated in 2-byte parameters: 4 layers and the head's norm */
      const ScTime gather = sharding == 0 ? 0 : 4 * sc_time_from_s (bucket_cases[_i].bucket_s) / 2 + head / 2;
      const ScTime got = r->trace->end - gather;
      ck_assert_msg (ABS (got - want) <= head + 4, "%s: %.9f ms, expected %.3f",
                     sharding == 0 ? "all-reduce" : "reduce-scatter", (double) got / MS, bucket_cases[_i].step_ms);
      if (bucket_cases[_i].last_alone)
        ck_assert_int_le (ABS (got - want), 2 + (sharding == 0 ? 0 : 2));
      const Parts parts = parts_of (r, 0);
      /* what does not show as compute shows as data parallel communication */
      if (bucket_cases[_i].hidden_slowdown == 1)
        ck_assert_int_le (ABS (parts.time[SC_TIME_COMM_DP] - (r->trace->end - 12 * MS)), 4);
      ck_assert_int_eq (parts.time[SC_TIME_FORWARD], 4 * MS); /* nothing runs beside forward */
      ck_assert_int_eq (parts.time[SC_TIME_LATE_PEER] + parts.time[SC_TIME_BUBBLE] + parts.time[SC_TIME_HOST], 0);
    }
}
END_TEST

/* ---- tensor parallelism, late peers, faults ---- */

START_TEST (an_exposed_all_reduce_stands_between_the_kernels)
{
  g_autoptr (ScTopology) t = bare_topology ((FixFabric) { .nodes = 1 });
  g_autoptr (ScWorkload) w = bare_workload ((FixPlan) { .tp = 8, .layers = 3, .microbatches = 2 });
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 450e6, 0); /* 2 x 7 / 8 of 1 ms each */
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  ck_assert_uint_eq (r->fold->n_classes, 1);
  const Parts parts = parts_of (r, 0);
  ck_assert_int_eq (parts.time[SC_TIME_COMM_TP], 2 * 3 * 2 * MS * 7 / 4);
  ck_assert_int_eq (r->trace->end, 2 * 3 * (3 * MS) + parts.time[SC_TIME_COMM_TP]);
}
END_TEST

/* Two ranks that meet nowhere but in the gradient norm; one is slow. */
START_TEST (waiting_in_the_gradient_norm_is_a_late_peer)
{
  g_autoptr (ScTopology) t = bare_topology ((FixFabric) { .nodes = 1, .gpus = 2 });
  fix_fault (t, SC_FAULT_GPU, 0, 1, 0.5);
  g_autoptr (ScWorkload) w = bare_workload ((FixPlan) { .tp = 2, .layers = 4, .microbatches = 3 });
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  ck_assert_uint_eq (r->fold->n_classes, 2);
  const Parts fast = parts_of (r, r->fold->class_of[0]), slow = parts_of (r, r->fold->class_of[1]);
  ck_assert_int_eq (r->trace->end, 72 * MS);
  ck_assert_int_eq (fast.time[SC_TIME_LATE_PEER], 36 * MS);
  ck_assert_int_eq (fast.time[SC_TIME_FORWARD] + fast.time[SC_TIME_BACKWARD], 36 * MS);
  ck_assert_int_eq (slow.time[SC_TIME_LATE_PEER], 0);
  ck_assert_int_eq (slow.time[SC_TIME_FORWARD] + slow.time[SC_TIME_BACKWARD], 72 * MS);
}
END_TEST

START_TEST (a_slow_gpu_slows_the_step_and_by_no_more_than_its_factor)
{
  static const FixPlan plans[] = {
    { .tp = 8, .dp = 2, .pp = 2, .layers = 4, .microbatches = 4, .overlap_grad = TRUE },
    { .tp = 4, .dp = 4, .pp = 2, .vpp = 2, .layers = 8, .microbatches = 4, .overlap_p2p = TRUE },
    { .tp = 1, .dp = 8, .pp = 4, .layers = 4, .microbatches = 8, .sharding = SC_SHARDING_DISTRIBUTED_OPTIMIZER,
      .overlap_param = TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (plans); i++)
    for (guint32 gpu = 0; gpu < 32; gpu += 13)
      {
        ScTime end[2];
        for (guint slow = 0; slow < 2; slow++)
          {
            g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4, .leaf = 2, .over = 2, .launch_s = 4e-6,
                                                                   .nvlink_latency_s = 1e-6, .nic_latency_s = 5e-6 });
            if (slow > 0)
              fix_fault (t, SC_FAULT_GPU, gpu / 8, gpu % 8, 0.8);
            g_autoptr (ScWorkload) w = fix_workload (plans[i]);
            g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, plans[i].tp > 1 ? 50e6 : 0, 10e6);
            g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
            end[slow] = r->trace->end;
          }
        ck_assert_int_gt (end[1], end[0]);
        ck_assert_double_le ((double) end[1], (double) end[0] / 0.8 * (1 + 1e-9));
      }
}
END_TEST

/* ---- what the program holds ---- */

/* Bytes of the call that ops named @label make; all alike. */
static double
call_bytes (const FixRun *r, const char *label, guint *ret_ops)
{
  const ScProgram *const p = r->lowered->program;
  double bytes = 0;
  *ret_ops = 0;
  for (guint32 i = 0; i < p->n_ops; i++)
    {
      const ScOp op_i = sc_program_find_op (p, i), *const op = &op_i;
      if (op->kind != SC_OP_CALL || strcmp (g_ptr_array_index (r->lowered->labels, op->label), label) != 0)
        continue;
      const ScCall *const call = &g_array_index (p->calls, ScCall, op->arg);
      ck_assert_uint_eq (call->n_parts, 1);
      bytes = g_array_index (p->parts, ScPart, call->first_part).bytes;
      ++*ret_ops;
    }
  return bytes;
}

/* MODELLING 5.8: GPT-3's tied table over tp 8 in fp32, between first and last stage: 314,572,800 bytes; a ring of two
 * sends all of it once each way. */
START_TEST (the_tied_table_of_gpt3)
{
  g_autoptr (ScTopology) t = bare_topology ((FixFabric) { .nodes = 4 });
  g_autoptr (ScWorkload) w = bare_workload ((FixPlan) { .tp = 8, .pp = 4, .layers = 4, .microbatches = 4 });
  w->model.hidden = 12288;
  w->model.vocab = 51200;
  w->model.tied_embeddings = TRUE;
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 1e6);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  guint ops;
  ck_assert_double_eq (call_bytes (r, "tied embedding gradients", &ops), 314572800);
  ck_assert_uint_eq (ops, 2); /* one class of the first stage, one of the last */
}
END_TEST

START_TEST (every_boundary_is_crossed_once_a_microbatch_and_pass)
{
  for (guint v = 1; v <= 4; v++)
    for (guint overlapped = 0; overlapped < 2; overlapped++)
      {
        g_autoptr (ScTopology) t = bare_topology ((FixFabric) { .nodes = 4, .gpus = 1 });
        g_autoptr (ScWorkload) w =
            bare_workload ((FixPlan) { .pp = 4, .vpp = v, .layers = 48, .microbatches = 8, .overlap_p2p = overlapped });
        if (v == 4)
          w->plan.microbatch_group = 8; /* tensors that wrap round arrive long before they are needed */
        g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 25e6);
        g_autoptr (FixRun) r = fix_run (t, w, items, TRUE, 0);
        static const char *const labels[] = { "send activations", "receive activations", "send gradients",
                                              "receive gradients" };
        for (guint i = 0; i < G_N_ELEMENTS (labels); i++)
          {
            guint ops;
            ck_assert_double_eq (call_bytes (r, labels[i], &ops), 25e6);
            ck_assert_uint_eq (ops, (4 * v - 1) * 8);
          }
        double out = 0; /* links have capacity 1 and carry shares of themselves */
        for (guint32 l = 0; l < r->fabric->n_links; l++)
          if (r->fabric->links[l].kind == SC_LINK_NIC_OUT && r->fold->link_class_of[l] != SC_NONE)
            out += r->trace->link_bytes[r->fold->link_class_of[l]] * r->fabric->links[l].capacity;
        ck_assert_double_eq_tol (out, 2 * (4 * v - 1) * 8 * 25e6, 1);
      }
}
END_TEST

START_TEST (gradients_and_parameters_are_exchanged_once_a_step)
{
  static const ScSharding shardings[] = { SC_SHARDING_NONE, SC_SHARDING_ZERO1, SC_SHARDING_DISTRIBUTED_OPTIMIZER };
  for (guint s = 0; s < G_N_ELEMENTS (shardings); s++)
    for (guint v = 1; v <= 2; v++)
      for (guint overlap = 0; overlap < 2; overlap++)
        {
          g_autoptr (ScTopology) t = bare_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
          g_autoptr (ScWorkload) w = bare_workload ((FixPlan) { .pp = 2, .vpp = v, .dp = 4, .layers = 8,
                                                               .microbatches = 4, .sharding = shardings[s],
                                                               .overlap_grad = overlap, .overlap_param = overlap,
                                                               .bucket_params = 30000 });
          g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 0);
          g_autoptr (FixRun) r = fix_run (t, w, items, TRUE, 0);
          double out = 0, want = 0;
          for (guint32 l = 0; l < r->fabric->n_links; l++)
            if (r->fabric->links[l].kind == SC_LINK_NIC_OUT && r->fold->link_class_of[l] != SC_NONE)
              out += r->trace->link_bytes[r->fold->link_class_of[l]] * r->fabric->links[l].capacity;
          for (guint32 rank = 0; rank < 8; rank++) /* fp32 gradients; bf16 parameters where they are sharded */
            want += (double) r->sizes->params[sc_layout_coord (&w->plan, rank).pp] * 0.75
                    * (shardings[s] == SC_SHARDING_NONE ? 2 * 4 : 4 + 2);
          ck_assert_double_eq_tol (out, want, 1e-9 * want);
        }
}
END_TEST

/* ---- memory ---- */

/* Sum of the changes of @kind of class @class_id, and the most it ever was. */
static gint64
level_of (const FixRun *r, guint32 class_id, ScMemKind kind, gint64 *ret_most)
{
  g_autoptr (GArray) changes = sc_memory_changes (r->lowered->program, r->trace, class_id);
  gint64 now = 0, most = 0;
  for (guint i = 0; i < changes->len; i++)
    if (g_array_index (changes, ScMemChange, i).kind == kind)
      {
        now += g_array_index (changes, ScMemChange, i).bytes;
        most = MAX (most, now);
      }
  *ret_most = most;
  return now;
}

/* Steps of real layers whose saved activations are known; the ends of the pipeline hold more. */
START_TEST (activations_pile_up_with_the_microbatches_in_flight)
{
  static const FixPlan plans[] = {
    { .pp = 4, .layers = 8, .microbatches = 8 },
    { .pp = 4, .layers = 8, .microbatches = 2 },
    { .pp = 8, .layers = 8, .microbatches = 32 },
    { .pp = 4, .vpp = 2, .layers = 16, .microbatches = 8, .overlap_p2p = TRUE },
    { .pp = 4, .vpp = 2, .layers = 8, .microbatches = 8 },
    { .pp = 4, .vpp = 3, .layers = 24, .microbatches = 12 },
  };
  const FixPlan *const plan = &plans[_i];
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 8, .gpus = 1 });
  g_autoptr (ScWorkload) w = fix_workload (*plan);
  w->plan.attention = SC_ATTENTION_UNFUSED; /* the test GPU has no curves of flash attention */
  g_autoptr (ScStepItems) items = sc_step_items_new (w);
  g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
  const ScLayerShape shape = sc_layer_shape (w, NULL);
  const guint v = MAX (plan->vpp, 1);
  const double chunk = sc_layer_saved_bytes (&shape) * plan->layers / plan->pp / v;
  const ScScheduleShape at = { plan->pp, v, plan->microbatches, plan->pp, 0 };
  ck_assert_double_gt (chunk, 0);
  for (guint32 k = 0; k < r->fold->n_classes; k++)
    {
      const guint stage = stage_of (r, k);
      const guint in_flight = sc_schedule_find (w->plan.schedule)->in_flight (&at, stage);
      gint64 most;
      ck_assert_int_eq (level_of (r, k, SC_MEM_ACTIVATIONS, &most), 0); /* all freed at the end */
      if (stage > 0 && stage + 1 < plan->pp)
        ck_assert_int_eq (most, llround (in_flight * chunk));
      else
        ck_assert_int_ge (most, llround (in_flight * chunk));
      static const ScMemKind passing[] = { SC_MEM_LOGITS, SC_MEM_TRANSIENT, SC_MEM_COMM };
      for (guint i = 0; i < G_N_ELEMENTS (passing); i++)
        ck_assert_int_eq (level_of (r, k, passing[i], &most), 0);
      ck_assert_int_gt (level_of (r, k, SC_MEM_WEIGHTS, &most), 0);
    }
}
END_TEST

START_TEST (model_states_stay_and_zero1_shards_the_optimizer)
{
  for (guint dp = 1; dp <= 8; dp *= 2)
    for (guint sharded = 0; sharded < 2; sharded++)
      {
        g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 2 });
        g_autoptr (ScWorkload) w =
            fix_workload ((FixPlan) { .pp = 2, .dp = dp, .layers = 4, .microbatches = 2,
                                     .sharding = sharded ? SC_SHARDING_ZERO1 : SC_SHARDING_NONE });
        w->plan.attention = SC_ATTENTION_UNFUSED;
        g_autoptr (ScStepItems) items = sc_step_items_new (w);
        g_autoptr (FixRun) r = fix_run (t, w, items, FALSE, 0);
        for (guint32 k = 0; k < r->fold->n_classes; k++)
          {
            const double params = (double) r->sizes->params[stage_of (r, k)];
            gint64 most;
            ck_assert_int_eq (level_of (r, k, SC_MEM_WEIGHTS, &most), llround (2 * params)); /* bf16 */
            ck_assert_int_eq (level_of (r, k, SC_MEM_GRADS, &most), llround (4 * params));   /* fp32 */
            ck_assert_int_eq (level_of (r, k, SC_MEM_OPTIMIZER, &most), llround (12 * params / (sharded ? dp : 1)));
          }
      }
}
END_TEST

/* Where chunks wrap round, a group above pp hands tensors on several slots before they are used. */
START_TEST (groups_above_pp_end_with_overlap_and_one_queue)
{
  static const guint shapes[][4] = { { 2, 2, 8, 4 }, { 2, 3, 6, 6 }, { 4, 2, 12, 6 }, { 4, 5, 16, 8 }, { 4, 2, 9, 9 }, { 3, 2, 8, 5 } };
  const guint *const shape = shapes[_i / 2]; /* p, v, m, g */
  g_autoptr (ScTopology) topology = fix_topology ((FixFabric) { .nodes = shape[0] });
  g_autoptr (ScWorkload) workload = fix_workload ((FixPlan) { .tp = 8, .pp = shape[0], .vpp = shape[1], .microbatches = shape[2],
                                                              .layers = shape[0] * shape[1], .overlap_p2p = TRUE,
                                                              .one_queue = _i % 2 == 1 });
  workload->plan.microbatch_group = shape[3];
  g_autoptr (ScStepItems) items = fix_items (1e-3, 2e-3, 0, 30e6);
  g_autoptr (FixRun) run = fix_run (topology, workload, items, FALSE, 0); /* stops the test on a deadlock */
  ck_assert_int_ge (run->trace->end, (gint64) shape[2] * shape[1] * 3000000000);
}
END_TEST

static Suite *
lower_suite (void)
{
  Suite *const s = suite_create ("lower");
  TCase *const pipe = tcase_create ("pipeline");
  tcase_set_timeout (pipe, 120);
  tcase_add_loop_test (pipe, groups_above_pp_end_with_overlap_and_one_queue, 0, 12);
  tcase_add_loop_test (heavy (s), equal_stages_have_the_bubble_of_the_closed_form, 0, 2);
  tcase_add_test (pipe, overlapped_transfers_add_the_latency_that_was_derived);
  tcase_add_test (pipe, blocking_transfers_cost_more_than_overlapped_ones);
  tcase_add_test (pipe, every_boundary_is_crossed_once_a_microbatch_and_pass);
  suite_add_tcase (s, pipe);
  TCase *const groups = tcase_create ("groups");
  tcase_set_timeout (groups, 60);
  tcase_add_loop_test (groups, gradient_buckets_hide_under_backward, 0, G_N_ELEMENTS (bucket_cases));
  tcase_add_test (groups, gradients_and_parameters_are_exchanged_once_a_step);
  tcase_add_test (groups, an_exposed_all_reduce_stands_between_the_kernels);
  tcase_add_test (groups, the_tied_table_of_gpt3);
  tcase_add_test (groups, waiting_in_the_gradient_norm_is_a_late_peer);
  tcase_add_test (groups, a_slow_gpu_slows_the_step_and_by_no_more_than_its_factor);
  suite_add_tcase (s, groups);
  TCase *const memory = tcase_create ("memory");
  tcase_set_timeout (memory, 60);
  tcase_add_loop_test (memory, activations_pile_up_with_the_microbatches_in_flight, 0, 6);
  tcase_add_test (memory, model_states_stay_and_zero1_shards_the_optimizer);
  suite_add_tcase (s, memory);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (lower_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
