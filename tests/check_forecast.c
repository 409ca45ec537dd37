/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_forecast.c - whole forecasts of shipped topologies and workloads: what must hold whatever the numbers are. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "models/forecast.h"
#include "models/lower.h"
#include "models/memory.h"
#include "models/model.h"
#include "models/sharding.h"
#include "models/schedule.h"
#include "models/segments.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"

#define MAX_SET 6

typedef struct
{
  const char *topology, *workload;
  const char *set[MAX_SET + 1];      /* overrides, NULL-ended */
  ScFault fault;                     /* factor 0: none */
  guint   most_classes;              /* the fold finds at most so many */
} Case;

#define CASE(topology, workload, ...) { topology, workload, { __VA_ARGS__ }, .most_classes = G_MAXUINT }

/* Small enough to simulate every rank of. */
static const Case cases[] = {
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=16" }, .most_classes = 4 },
  { "dgx-h100-8", "llama3-70b",
    { "plan.global_batch=16", "plan.overlap_p2p=false", "plan.one_queue=false" }, .most_classes = 4 },
  { "dgx-h100-8", "llama3-70b",
    { "plan.global_batch=24", "plan.microbatch_group=6", "plan.overlap_p2p=false" }, .most_classes = 4 },
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=8" }, { SC_FAULT_GPU, 2, 5, 0.8 }, 16 },
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=8" }, { SC_FAULT_NIC, 3, 1, 0.25 }, 16 },
  { "dgx-a100-superpod", "megatron-22b-full", { NULL }, .most_classes = 1 },
  { "dgx-a100-superpod", "megatron-22b-seqsel", { "plan.global_batch=8" }, .most_classes = 1 },
  { "dgx-h100-8", "llama3-8b",
    { "plan.tp=16", "plan.gpus=32", "plan.global_batch=4" }, .most_classes = 1 }, /* tp across nodes */
  { "dgx-h100-8", "llama3-8b", { "plan.tp=4", "plan.gpus=32", "plan.global_batch=16" }, .most_classes = 1 },
  { "dgx-h100-8", "llama3-8b-128k", { "plan.gpus=32", "plan.global_batch=2" }, .most_classes = 2 },
  { "dgx-h100-8", "llama3-8b-128k", { "plan.tp=1", "plan.sequence_parallel=false", "plan.cp=16", "plan.cp_comm=all-gather", "plan.gpus=32", "plan.global_batch=2" },
    .most_classes = 2 },
  { "dgx-h100-8", "llama3-8b-128k", { "plan.tp=1", "plan.sequence_parallel=false", "plan.cp_comm=a2a", "plan.gpus=32", "plan.global_batch=4" }, .most_classes = 2 },
  { "dgx-h100-8", "llama3-8b-128k", { "plan.tp=2", "plan.cp_comm=a2a+p2p", "plan.cp_a2a=2", "plan.gpus=32", "plan.global_batch=2" }, .most_classes = 2 },
  { "pcie-25gbe", "sc21-1.7b", { "plan.gpus=32", "plan.micro_batch=2", "plan.global_batch=64" }, .most_classes = 1 },
  { "dgx1-v100", "gpt-7.5b-zero", { "plan.gpus=16", "plan.global_batch=64" }, .most_classes = 1 },
};

/* Larger ones, folded only. */
static const Case large_cases[] = {
  { "dgx-h100-superpod", "llama3-405b", { "plan.gpus=2048", "plan.global_batch=256" }, .most_classes = 16 },
  { "dgx-a100-superpod", "megatron-175b-seqsel", { "plan.global_batch=16" }, .most_classes = 8 },
  { "dgx-a100-superpod", "megatron-530b-full", { "plan.global_batch=70" }, .most_classes = 35 },
  { "jean-zay-a100", "bloom-176b", { "plan.global_batch=64" }, .most_classes = 24 },
  { "dgx-a100-superpod", "sc21-39b", { NULL }, .most_classes = 2 },
};

typedef struct
{
  ScTopology *topology;
  ScWorkload *workload;
} Input;

static Input
input_of (const Case *c)
{
  Input in;
  g_autoptr (GError) error = NULL;
  in.topology = sc_topology_load (c->topology, NULL, NULL, &error);
  ck_assert_msg (in.topology != NULL, "%s: %s", c->topology, error != NULL ? error->message : "");
  g_auto (GStrv) set = g_new0 (char *, MAX_SET + 1);
  for (guint i = 0; c->set[i] != NULL; i++)
    set[i] = g_strdup (c->set[i]);
  in.workload = sc_workload_load (c->workload, set, &error);
  ck_assert_msg (in.workload != NULL, "%s: %s", c->workload, error != NULL ? error->message : "");
  if (c->fault.factor > 0)
    {
      in.topology->faults = g_renew (ScFault, in.topology->faults, in.topology->n_faults + 1);
      in.topology->faults[in.topology->n_faults++] = c->fault;
    }
  return in;
}

static void
input_clear (Input *in)
{
  sc_topology_free (in->topology);
  sc_workload_free (in->workload);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Input, input_clear)

static ScSummary *
forecast (const Input *in, gboolean unfolded)
{
  g_autoptr (GError) error = NULL;
  const ScForecastOptions options = { .unfolded = unfolded };
  ScSummary *const s = sc_forecast (in->topology, in->workload, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  return s;
}

/* ---- what holds of every summary ---- */

static void
check_times (const ScSummary *s)
{
  ck_assert_int_gt (s->step, 0);
  ScTime last = 0;
  guint ranks = 0;
  for (guint k = 0; k < s->n_classes; k++)
    {
      const ScClassSummary *const c = &s->classes[k];
      ScTime sum = 0;
      for (guint i = 0; i < SC_N_TIMES; i++)
        {
          ck_assert_int_ge (c->time[i], 0);
          sum += c->time[i];
        }
      ck_assert_int_eq (sum, s->step); /* to the last picosecond */
      ck_assert_int_le (c->end, s->step);
      last = MAX (last, c->end);
      ranks += c->n_ranks;
    }
  ck_assert_int_eq (last, s->step);
  ck_assert_uint_eq (ranks, s->gpus);
  double bubble = 0;
  for (guint z = 0; z < s->n_stages; z++)
    {
      const ScStageSummary *const stage = &s->stages[z];
      ScTime sum = 0;
      for (guint i = 0; i < SC_N_TIMES; i++)
        sum += stage->time[i];
      ck_assert_int_eq (sum, s->step);
      ck_assert_uint_eq (s->classes[stage->class_id].stage, z);
      bubble += (double) stage->time[SC_TIME_BUBBLE] / (double) s->step / s->n_stages;
      for (guint k = 0; k < s->n_classes; k++)
        if (s->classes[k].stage == z)
          ck_assert_int_le (s->classes[k].end, s->classes[stage->class_id].end);
    }
  ck_assert_double_eq_tol (s->bubble_fraction, bubble, 1e-12);
  double grades = 0;
  for (guint g = 0; g < SC_N_GRADES; g++)
    grades += s->grade_share[g];
  ck_assert_double_eq_tol (grades, 1, 1e-9);
}

/* Segments cover the step without gap, and no op of a stream begins before the one before it has ended. */
static void
check_order (const ScSummary *s)
{
  g_autoptr (ScSegments) segments = sc_segments_new (s->program, s->trace, s->step);
  for (guint k = 0; k < s->n_classes; k++)
    {
      g_autoptr (GArray) list = sc_segments_of_class (segments, k);
      ScTime now = 0, listed[SC_N_TIMES] = { 0 }, sum[SC_N_TIMES] = { 0 };
      const ScTime begin = s->step / 7, end = s->step / 7 * 5;
      sc_segments_sum (segments, k, begin, end, sum);
      for (guint i = 0; i < list->len; i++)
        {
          const ScSegment *const part = &g_array_index (list, ScSegment, i);
          listed[part->kind] += MAX (MIN (part->to, end) - MAX (part->from, begin), 0);
          if (part->from != now || part->to <= now)
            ck_abort_msg ("class %u, segment %u: %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT, k, i, part->from,
                          part->to);
          now = part->to;
        }
      ck_assert_int_eq (now, s->step);
      ck_assert_mem_eq (sum, listed, sizeof sum);
    }
  for (guint32 i = 0; i < s->program->n_ops; i++)
    {
      const ScOp found = sc_program_find_op (s->program, i), *const op = &found;
      const ScTime ready = sc_trace_ready (s->trace, i, op);
      if (op->kind == SC_OP_HOST_WAIT)
        continue;
      const ScSpan *const span = &s->trace->spans[i];
      if (!(span->start >= 0 && span->end >= span->start && ready >= span->start && ready <= span->end))
        ck_abort_msg ("op %u: %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT, i, span->start, span->end);
      if (op->next != SC_NONE && sc_program_find_op (s->program, op->next).kind != SC_OP_HOST_WAIT
          && s->trace->spans[op->next].start < span->end)
        ck_abort_msg ("op %u begins before op %u has ended", op->next, i);
    }
}

/* No link carries more in the step than it can: every link class is as wide as 1. */
static void
check_links (const ScSummary *s)
{
  for (guint32 l = 0; l < s->program->links->len; l++)
    ck_assert_double_le (s->trace->link_bytes[l],
                         sc_time_to_s (s->step) * g_array_index (s->program->links, double, l) * (1 + 1e-9));
}

static void
check_memory (const ScSummary *s)
{
  const ScPlan *const p = &s->workload->plan;
  const ScShardingRow *const row = sc_sharding_of (p->sharding, s->workload->framework);
  const gboolean engine = sc_sharding_has_pipeline_engine (row, s->workload->framework);
  const double logits = 2.0 * p->micro_batch * s->workload->seq / p->cp * s->workload->model.vocab / p->tp; /* in buffers of the last stage */
  const double narrow = sc_sharding_keeps_narrow (row, p, s->workload->framework) ? 2 : 0;
  const ScStateBytes each = sc_sharding_states (row, 8, p->dtype, p->grad_dtype, p->dp * p->cp);
  for (guint k = 0; k < s->n_classes; k++)
    {
      const ScClassSummary *const c = &s->classes[k];
      guint64 sum = 0;
      for (guint i = 0; i < SC_N_MEMS; i++)
        sum += c->at_peak[i];
      ck_assert_uint_eq (sum, c->peak_allocated_bytes);
      ck_assert_uint_ge (c->peak_reserved_bytes, c->peak_allocated_bytes);
      ck_assert_uint_eq (c->peak_device_bytes,
                         c->peak_reserved_bytes + c->context_bytes + c->nccl_bytes + c->workspace_bytes);
      ck_assert_int_le (c->peak_time, s->step);
      ck_assert (strlen (c->peak_op) > 0);
      /* what is left at the end: the model states, nothing else */
      g_autoptr (GArray) changes = sc_memory_changes (s->program, s->trace, k);
      gint64 left[SC_N_MEMS] = { 0 }, now = 0, highest = 0;
      for (guint i = 0; i < changes->len; i++)
        {
          const ScMemChange *const change = &g_array_index (changes, ScMemChange, i);
          left[change->kind] += change->bytes;
          now += change->bytes;
          if (now < 0)
            ck_abort_msg ("class %u: less than nothing allocated at op %u", k, change->op);
          highest = MAX (highest, now);
        }
      /* as the GPU's time goes by rather than in the order of the program: about the same, since few buffers live beside compute */
      ck_assert_double_eq_tol ((double) c->peak_allocated_bytes, (double) highest, 0.02 * (double) highest);
      for (guint i = 0; i < SC_N_MEMS; i++)
        {
          const double params = (double) c->params;
          const double want = i == SC_MEM_WEIGHTS ? params * each.weights
                              : i == SC_MEM_GRADS ? params * (each.grads + narrow)
                              : i == SC_MEM_LOGITS ? (engine && c->stage == p->pp - 1 ? logits : 0)
                              : i == SC_MEM_OPTIMIZER ? params * each.optimizer : 0;
          ck_assert_msg (left[i] == llround (want), "class %u: %" G_GINT64_FORMAT " bytes of %s left, expected %.0f", k,
                         left[i], sc_mem_kind_name ((ScMemKind) i), want);
        }
    }
}

static void
check_summary (const ScSummary *s, guint most_classes)
{
  ck_assert (!s->fold_approximate);
  ck_assert_uint_le (s->n_classes, most_classes);
  check_times (s);
  check_order (s);
  check_links (s);
  check_memory (s);
  ck_assert_double_gt (s->mfu_half_causal, 0);
  ck_assert_double_lt (s->hfu, 1);
  ck_assert_double_ge (s->mfu_full, s->mfu_half_causal);
  ck_assert_double_ge (s->hfu, s->mfu_half_causal * (1 - 1e-12));
  ck_assert_double_eq_tol (s->tokens_per_s * sc_time_to_s (s->step), s->tokens_per_step, 1e-9 * s->tokens_per_step);
}

START_TEST (parts_bytes_and_order_add_up)
{
  g_auto (Input) in = input_of (&cases[_i]);
  g_autoptr (ScSummary) s = forecast (&in, FALSE);
  check_summary (s, cases[_i].most_classes);
}
END_TEST

START_TEST (parts_bytes_and_order_add_up_on_large_jobs)
{
  g_auto (Input) in = input_of (&large_cases[_i]);
  g_autoptr (ScSummary) s = forecast (&in, FALSE);
  check_summary (s, large_cases[_i].most_classes);
}
END_TEST

/* ---- folded against unfolded ---- */

START_TEST (folded_forecasts_equal_unfolded_ones)
{
  g_auto (Input) in = input_of (&cases[_i]);
  g_autoptr (ScSummary) folded = forecast (&in, FALSE), every = forecast (&in, TRUE);
  const double tolerance = 1e-9 * (double) every->step;
  ck_assert_uint_eq (every->n_classes, every->gpus);
  ck_assert_msg (fabs ((double) (folded->step - every->step)) <= tolerance, "%s: folded %.9f s, unfolded %.9f s",
                 in.workload->name, sc_time_to_s (folded->step), sc_time_to_s (every->step));
  for (guint k = 0; k < folded->n_classes; k++)
    {
      const ScClassSummary *const a = &folded->classes[k], *const b = &every->classes[a->representative];
      ck_assert_uint_eq (b->representative, a->representative);
      ck_assert_double_le (fabs ((double) (a->end - b->end)), tolerance);
      for (guint i = 0; i < SC_N_TIMES; i++)
        ck_assert_msg (fabs ((double) (a->time[i] - b->time[i])) <= tolerance, "%s, rank %u: %s %.9f s against %.9f s",
                       in.workload->name, a->representative, sc_time_kind_name ((ScTimeKind) i),
                       sc_time_to_s (a->time[i]), sc_time_to_s (b->time[i]));
      ck_assert_uint_eq (a->peak_allocated_bytes, b->peak_allocated_bytes);
      ck_assert_uint_eq (a->peak_device_bytes, b->peak_device_bytes);
    }
}
END_TEST

static ScSummary *
forecast_apart (const Input *in, ScDetail detail, gboolean apart)
{
  g_autoptr (GError) error = NULL;
  const ScForecastOptions options = { .unfolded = TRUE, .detail = detail, .apart = apart };
  ScSummary *const s = sc_forecast (in->topology, in->workload, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  return s;
}

/* Ranks of a stage share their ops, and nobody can tell. */
START_TEST (shared_ops_are_those_that_each_class_would_have)
{
  g_auto (Input) in = input_of (&cases[_i]);
  for (guint detail = 0; detail < SC_N_DETAILS; detail++)
    {
      g_autoptr (ScSummary) a = forecast_apart (&in, (ScDetail) detail, FALSE), b = forecast_apart (&in, (ScDetail) detail, TRUE);
      ck_assert_uint_eq (b->program->ops->len, b->program->n_ops);
      ck_assert_uint_lt (2 * a->program->ops->len, b->program->ops->len);
      ck_assert_uint_eq (a->program->n_ops, b->program->n_ops);
      guint n_differ = 0;
      for (guint k = 0; k < a->program->actors->len; k++)
        {
          const ScActor *const mine = &g_array_index (a->program->actors, ScActor, k), *const theirs = &g_array_index (b->program->actors, ScActor, k);
          ck_assert_uint_eq (mine->first_op, theirs->first_op);
          ck_assert_uint_eq (mine->n_ops, theirs->n_ops);
          for (guint32 id = mine->first_op; id < mine->first_op + mine->n_ops; id++)
            {
              const ScOp x = sc_program_op (a->program, mine, id), y = sc_program_op (b->program, theirs, id);
              n_differ += memcmp (&x, &y, sizeof x) != 0;
            }
        }
      ck_assert_uint_eq (n_differ, 0);
      ck_assert_mem_eq (a->trace->spans, b->trace->spans, a->trace->n_ops * sizeof (ScSpan));
      ck_assert_uint_eq (a->trace->n_call_ops, b->trace->n_call_ops);
      ck_assert_mem_eq (a->trace->ready, b->trace->ready, a->trace->n_call_ops * sizeof (ScTime));
      ck_assert_mem_eq (a->trace->link_bytes, b->trace->link_bytes, a->program->links->len * sizeof (double));
      for (guint k = 0; k < a->n_classes; k++)
        {
          ck_assert_mem_eq (a->classes[k].time, b->classes[k].time, sizeof a->classes[k].time);
          ck_assert_mem_eq (a->classes[k].at_peak, b->classes[k].at_peak, sizeof a->classes[k].at_peak);
          ck_assert_str_eq (a->classes[k].peak_op, b->classes[k].peak_op);
        }
    }
}
END_TEST

START_TEST (the_same_input_gives_the_same_trace_byte_for_byte)
{
  g_auto (Input) in = input_of (&cases[_i]);
  g_autoptr (ScSummary) a = forecast (&in, FALSE), b = forecast (&in, FALSE);
  ck_assert_uint_eq (a->program->ops->len, b->program->ops->len);
  ck_assert_mem_eq (a->program->ops->data, b->program->ops->data, a->program->ops->len * sizeof (ScOp));
  ck_assert_uint_eq (a->trace->n_ops, b->trace->n_ops);
  ck_assert_mem_eq (a->trace->spans, b->trace->spans, a->trace->n_ops * sizeof (ScSpan));
  ck_assert_mem_eq (a->trace->ready, b->trace->ready, a->trace->n_call_ops * sizeof (ScTime));
  ck_assert_mem_eq (a->trace->link_bytes, b->trace->link_bytes, a->program->links->len * sizeof (double));
  ck_assert_uint_eq (a->trace->n_events, b->trace->n_events);
  for (guint k = 0; k < a->n_classes; k++)
    ck_assert_mem_eq (a->classes[k].time, b->classes[k].time, sizeof a->classes[k].time);
}
END_TEST

/* ---- what moves what ---- */

static ScTime
step_of (const Case *c)
{
  g_auto (Input) in = input_of (c);
  g_autoptr (ScSummary) s = forecast (&in, FALSE);
  return s->step;
}

START_TEST (a_slow_gpu_slows_the_step_by_at_most_its_factor)
{
  static const Case healthy[] = {
    CASE ("dgx-h100-8", "llama3-70b", "plan.global_batch=8"),
    CASE ("dgx-a100-superpod", "megatron-22b-full", NULL),
    CASE ("dgx-h100-8", "llama3-8b", "plan.gpus=16", "plan.global_batch=16"),
  };
  for (guint i = 0; i < G_N_ELEMENTS (healthy); i++)
    {
      Case slow = healthy[i];
      slow.fault = (ScFault) { SC_FAULT_GPU, 0, 3, 0.75 };
      const double factor = (double) step_of (&slow) / (double) step_of (&healthy[i]);
      ck_assert_double_gt (factor, 1);
      ck_assert_double_le (factor, 1 / 0.75 * (1 + 1e-9));
    }
}
END_TEST

START_TEST (a_slow_nic_never_helps_and_hiding_never_costs_more_than_it_hides)
{
  const Case healthy = CASE ("dgx-h100-8", "llama3-8b", "plan.tp=2", "plan.gpus=32", "plan.global_batch=64");
  Case slow = healthy, exposed = healthy;
  slow.fault = (ScFault) { SC_FAULT_NIC, 1, 2, 0.05 };
  exposed.set[3] = "plan.overlap_grad=false";
  exposed.set[4] = "plan.overlap_param=false";
  const ScTime step = step_of (&healthy);
  ck_assert_int_gt (step_of (&slow), step);
  ck_assert_int_gt (step_of (&exposed), step);
}
END_TEST

/* Kernels of a few microseconds at a pace of tens: the host decides, unless passes are captured. */
START_TEST (graphs_take_the_host_out_of_the_way)
{
  const Case plain = CASE ("dgx-h100-8", "llama3-8b", "plan.gpus=8", "plan.tp=8", "seq=512", "plan.global_batch=4");
  const Case graphs = CASE ("dgx-h100-8", "llama3-8b", "plan.gpus=8", "plan.tp=8", "seq=512", "plan.global_batch=4", "plan.cuda_graphs=true");
  g_auto (Input) a = input_of (&plain), b = input_of (&graphs);
  g_autoptr (ScSummary) slow = forecast (&a, FALSE), fast = forecast (&b, FALSE);
  ck_assert_int_gt (slow->stages[0].time[SC_TIME_HOST] * 3, slow->step);
  ck_assert_int_lt (fast->stages[0].time[SC_TIME_HOST] * 20, fast->step);
  ck_assert_int_lt (fast->step * 3, slow->step * 2);
}
END_TEST

/* What the host hides behind the GPU shows where it waits for each kernel: some of its pace, and no more than all of it. */
START_TEST (launches_that_block_add_the_hosts_pace)
{
  const Case plain = CASE ("dgx-a100-superpod", "megatron-22b-full", NULL);
  const Case blocking = CASE ("dgx-a100-superpod", "megatron-22b-full", "plan.launch_blocking=true");
  g_auto (Input) a = input_of (&plain), b = input_of (&blocking);
  g_autoptr (ScSummary) hidden = forecast (&a, FALSE), shown = forecast (&b, FALSE);
  const double added = (double) (shown->step - hidden->step) / SC_PS_PER_S / a.workload->model.layers;
  ck_assert (added > 3e-3 && added < 8e-3);
}
END_TEST

/* Gathers by lists of all ranks' pieces leave nothing hidden, and take longer the more ranks there are. */
START_TEST (early_zero_3_waits_for_what_it_gathers)
{
  const char *const gpus[] = { "plan.gpus=16", "plan.gpus=64" };
  ScTime excess[2];
  for (guint i = 0; i < 2; i++)
    {
      const Case early = CASE ("dgx-a100-superpod", "gpt-7.5b-zero3", gpus[i], "plan.global_batch=256", "software.version=\"2021\"");
      const Case later = CASE ("dgx-a100-superpod", "gpt-7.5b-zero3", gpus[i], "plan.global_batch=256");
      g_auto (Input) a = input_of (&early), b = input_of (&later);
      g_autoptr (ScSummary) listed = forecast (&a, FALSE), ahead = forecast (&b, FALSE);
      excess[i] = (listed->step - ahead->step) / listed->microbatches;
    }
  ck_assert_int_gt (excess[0], 0);
  ck_assert_int_gt (excess[1], excess[0]);
}
END_TEST

/* Activations at the peak grow with the micro-batches that a stage holds (MODELLING 3.7). */
START_TEST (earlier_stages_hold_more_activations)
{
  const Case c = CASE ("dgx-a100-superpod", "megatron-530b-full", "plan.global_batch=70");
  g_auto (Input) in = input_of (&c);
  g_autoptr (ScSummary) s = forecast (&in, FALSE);
  const ScPlan *const p = &in.workload->plan;
  const ScScheduleShape shape = { p->pp, p->vpp, s->microbatches, p->microbatch_group, 0 };
  const ScSchedule *const row = sc_schedule_find (p->schedule);
  const guint layers = in.workload->model.layers / p->pp / p->vpp;
  /* all that full recompute keeps of a layer */
  const double input = 2.0 * in.workload->seq * p->micro_batch * in.workload->model.hidden;
  for (guint z = 2; z + 1 < s->n_stages; z++) /* the first and the last have an end of the model each */
    {
      const ScClassSummary *const before = &s->classes[s->stages[z - 1].class_id],
                                  *const here = &s->classes[s->stages[z].class_id];
      const guint fewer = row->in_flight (&shape, z - 1) - row->in_flight (&shape, z);
      ck_assert_double_eq ((double) before->at_peak[SC_MEM_ACTIVATIONS] - (double) here->at_peak[SC_MEM_ACTIVATIONS],
                           fewer * layers * input);
    }
  ck_assert_uint_gt (row->in_flight (&shape, 1), row->in_flight (&shape, p->pp - 2));
}
END_TEST

START_TEST (sharding_divides_the_optimizer_and_nothing_else)
{
  const Case plain = CASE ("dgx-h100-8", "llama3-8b", "plan.tp=2", "plan.gpus=16", "plan.global_batch=16",
                           "plan.sharding=none", "plan.overlap_param=false");
  Case sharded = plain;
  sharded.set[3] = "plan.sharding=zero1";
  g_auto (Input) in = input_of (&plain);
  g_auto (Input) in_sharded = input_of (&sharded);
  g_autoptr (ScSummary) a = forecast (&in, FALSE), b = forecast (&in_sharded, FALSE);
  ck_assert_double_eq_tol ((double) a->classes[0].at_peak[SC_MEM_OPTIMIZER],
                           8.0 * (double) b->classes[0].at_peak[SC_MEM_OPTIMIZER], 8);
  ck_assert_uint_eq (a->classes[0].at_peak[SC_MEM_WEIGHTS], b->classes[0].at_peak[SC_MEM_WEIGHTS]);
  ck_assert_uint_eq (a->classes[0].at_peak[SC_MEM_GRADS], b->classes[0].at_peak[SC_MEM_GRADS]);
}
END_TEST

/* MODELLING 5.8: Llama-3-405B at s = 8192, tp 8 with sequence parallelism sends 33,554,432 bytes a rank over a
 * boundary. */
START_TEST (boundary_of_llama3_405b)
{
  const Case c = CASE ("dgx-h100-superpod", "llama3-405b", NULL);
  g_auto (Input) in = input_of (&c);
  g_autoptr (ScStepItems) items = sc_step_items_new (in.workload);
  ck_assert_uint_eq (in.workload->seq, 8192);
  ck_assert_double_eq (items->boundary_bytes, 33554432);
}
END_TEST

/* ---- refusals ---- */

static void
assert_refused (const Case *c, const char *start, const char *part)
{
  g_auto (Input) in = input_of (c);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScSummary) s = sc_forecast (in.topology, in.workload, NULL, &error);
  ck_assert_ptr_null (s);
  ck_assert (g_error_matches (error, SC_FORECAST_ERROR, SC_FORECAST_ERROR_MISMATCH));
  ck_assert_msg (g_str_has_prefix (error->message, start) && strstr (error->message, part) != NULL, "%s",
                 error->message);
}

START_TEST (what_does_not_go_together_is_refused)
{
  assert_refused (&(Case) CASE ("dgx-h100-8", "llama3-405b", NULL), "topology: ", "64");
  assert_refused (&(Case) CASE ("dgx1-v100", "llama3-8b", "plan.gpus=16", "plan.global_batch=16"), "/plan/dtype",
                  "bf16");
}
END_TEST

/* What the size of a forecast is judged by; @simulated: hold it against the program itself. */
static const struct
{
  const char *topology, *workload;
  gboolean simulated;
} sizes[] = {
  { "dgx-h100-8", "llama3-70b", TRUE },          { "dgx-h100-superpod", "llama3-405b", TRUE },
  { "dgx-h100-8", "llama3-8b-128k", TRUE },      { "dgx-h100-superpod", "llama3-405b-128k", TRUE },
  { "dgx-a100-superpod", "megatron-22b-full", TRUE }, { "dgx-a100-superpod", "megatron-175b-seqsel", TRUE },
  { "jean-zay-a100", "bloom-176b", TRUE },       { "dgx-a100-superpod", "sc21-310b", FALSE },
  { "dgx-a100-superpod", "sc21-530b", FALSE },   { "dgx-a100-superpod", "sc21-1t", FALSE },
};

START_TEST (the_size_is_known_before_and_every_shipped_workload_is_small_enough)
{
  g_autoptr (ScTopology) topology = sc_topology_load (sizes[_i].topology, NULL, NULL, NULL);
  g_autoptr (ScWorkload) workload = sc_workload_load (sizes[_i].workload, NULL, NULL);
  g_autoptr (ScFabric) fabric = sc_fabric_new (topology, workload->plan.gpus, NULL);
  g_autoptr (ScLayout) layout = sc_layout_new (workload);
  g_autofree guint32 *colour = g_new (guint32, layout->n_ranks);
  for (guint32 r = 0; r < layout->n_ranks; r++)
    colour[r] = sc_layout_coord (&workload->plan, r).pp;
  g_autoptr (ScStepItems) items = sc_step_items_new (workload);
  g_autoptr (ScStageSizes) stages = sc_stage_sizes_new (workload);
  g_autoptr (GArray) needs = g_array_new (FALSE, FALSE, sizeof (ScNeed));
  for (gboolean known = FALSE; !known;) /* which walks calls take */
    {
      g_autoptr (ScLoads) loads = sc_loads_new (layout, fabric, (const ScNeed *) (gconstpointer) needs->data, needs->len);
      g_autoptr (ScFold) fold = sc_fold_new (layout, fabric, loads, colour, 0, FALSE);
      const ScLowerInput input = {
        .workload = workload, .fabric = fabric, .layout = layout, .loads = loads, .fold = fold, .items = items, .sizes = stages,
      };
      const double estimate = sc_lower_estimate (&input);
      ck_assert_double_lt (estimate, SC_FORECAST_MAX_OPS);
      if (!sizes[_i].simulated)
        return;
      g_autoptr (ScLowered) lowered = sc_lower (&input);
      known = lowered->needs->len == 0;
      if (known)
        ck_assert_double_eq_tol (estimate / lowered->program->n_ops, 1, 0.15); /* buckets and the end of the step are left out */
      g_array_append_vals (needs, lowered->needs->data, lowered->needs->len);
      sc_needs_sort (needs);
    }
}
END_TEST

static Suite *
forecast_suite (void)
{
  Suite *const s = suite_create ("forecast");
  TCase *const every = tcase_create ("every forecast");
  tcase_set_timeout (every, 300);
  tcase_add_loop_test (heavy (s), parts_bytes_and_order_add_up, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (s), parts_bytes_and_order_add_up_on_large_jobs, 0, G_N_ELEMENTS (large_cases));
  tcase_add_loop_test (slow (s), folded_forecasts_equal_unfolded_ones, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (slow (s), shared_ops_are_those_that_each_class_would_have, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (s), the_same_input_gives_the_same_trace_byte_for_byte, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (s), the_size_is_known_before_and_every_shipped_workload_is_small_enough, 0, G_N_ELEMENTS (sizes));
  suite_add_tcase (s, every);
  TCase *const moves = tcase_create ("what moves what");
  tcase_set_timeout (moves, 120);
  tcase_add_test (moves, a_slow_gpu_slows_the_step_by_at_most_its_factor);
  tcase_add_test (moves, a_slow_nic_never_helps_and_hiding_never_costs_more_than_it_hides);
  tcase_add_test (moves, graphs_take_the_host_out_of_the_way);
  tcase_add_test (moves, launches_that_block_add_the_hosts_pace);
  tcase_add_test (moves, early_zero_3_waits_for_what_it_gathers);
  tcase_add_test (heavy (s), earlier_stages_hold_more_activations);
  tcase_add_test (moves, sharding_divides_the_optimizer_and_nothing_else);
  tcase_add_test (moves, boundary_of_llama3_405b);
  tcase_add_test (moves, what_does_not_go_together_is_refused);
  suite_add_tcase (s, moves);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (forecast_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
