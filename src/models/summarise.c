/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summarise.c - step time, where it goes, memory peaks, and on what evidence the answer rests. */
#include "models/summarise.h"
#include "models/summarise-memory.h"
#include "models/contention.h"
#include "models/links.h"
#include "models/packing.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/schedule.h"
#include "models/segments.h"
#include "models/sharding.h"

/* Where no rank waits for all others at the end of a step, each begins its next one behind its own last op, and steps follow one another
 * staggered as they are: the longest of the ranks sets the pace (Qi et al., arXiv 2401.10241, section 4).  Receives stand
 * ready before that. */
static ScTime
begin_of_class (const ScSummary *s, guint k)
{
  const ScActor *const actor = &g_array_index (s->program->actors, ScActor, k);
  ScTime begin = s->trace->end;
  for (guint32 i = actor->first_op; i < actor->first_op + actor->n_ops; i++)
    {
      const ScOp op = sc_program_op (s->program, actor, i);
      const gboolean receives = op.stream == SC_STREAM_PP_RECV_F || op.stream == SC_STREAM_PP_RECV_B;
      if (op.kind == SC_OP_WORK || (op.kind == SC_OP_CALL && !receives))
        begin = MIN (begin, s->trace->spans[i].start);
    }
  return begin;
}

static ScTime
end_of_class (const ScSummary *s, guint k)
{
  const ScActor *const actor = &g_array_index (s->program->actors, ScActor, k);
  ScTime end = 0;
  for (guint32 i = actor->first_op; i < actor->first_op + actor->n_ops; i++)
    end = MAX (end, s->trace->spans[i].end);
  return end;
}

/* When the step begins and ends for each class, and how long one is. */
static void
find_step (ScSummary *s, const ScPlan *plan)
{
  for (guint k = 0; k < s->n_classes; k++)
    {
      ScClassSummary *const c = &s->classes[k];
      c->begin = plan->post_validation ? begin_of_class (s, k) : 0;
      c->end = end_of_class (s, k);
      s->step = MAX (s->step, c->end - c->begin);
    }
  if (!plan->post_validation)
    s->step = s->trace->end;
}

/* Who is in the class. */
static void
describe_class (ScSummary *s, const ScLowerInput *in, guint k)
{
  ScClassSummary *const c = &s->classes[k];
  const guint32 rank = in->fold->representative[k];
  const ScGpu *const gpu = &in->fabric->gpus[rank];
  c->representative = rank;
  c->n_ranks = in->fold->class_size[k];
  c->stage = sc_layout_coord (&in->workload->plan, rank).pp;
  c->node = gpu->node;
  c->gpu = gpu->index;
  c->device = sc_fabric_node_type (in->fabric, rank)->device;
  c->params = in->sizes->params[c->stage] + in->sizes->experts[c->stage];
}

static void
summarise_class (ScSummary *s, const ScLowerInput *in, const ScSegments *segments, const ScRepeat *repeat, guint k)
{
  ScClassSummary *const c = &s->classes[k];
  const ScLeftOut *const left_out = repeat != NULL ? &repeat->classes[k] : NULL;
  const ScTime end = c->begin + s->step;
  describe_class (s, in, k);
  if (left_out == NULL)
    sc_segments_sum (segments, k, c->begin, end, c->time);
  else
    {
      ScTime again[SC_N_TIMES] = { 0 };
      sc_segments_sum (segments, k, c->begin, left_out->at, c->time);
      sc_segments_sum (segments, k, left_out->at - left_out->period, left_out->at, again);
      sc_segments_sum (segments, k, left_out->at + left_out->period * repeat->times, end, c->time);
      for (guint i = 0; i < SC_N_TIMES; i++)
        c->time[i] += again[i] * repeat->times;
    }
  c->time[SC_TIME_BUBBLE] += MAX (end - s->trace->end, 0);
}

/* Does @a say more about its stage than @b?  It finishes later, or, as all do behind the gradient norm, waits less. */
static gboolean
tells_more (const ScClassSummary *a, const ScClassSummary *b)
{
  if (a->end != b->end)
    return a->end > b->end;
  return a->time[SC_TIME_BUBBLE] + a->time[SC_TIME_LATE_PEER] < b->time[SC_TIME_BUBBLE] + b->time[SC_TIME_LATE_PEER];
}

static void
count_layers (ScSummary *s, const ScLowerInput *in)
{
  const ScPlan *const p = &in->workload->plan;
  s->n_stages = p->pp;
  s->stages = g_new0 (ScStageSummary, p->pp);
  for (guint z = 0; z < p->pp; z++)
    {
      s->stages[z].stage = z;
      s->stages[z].class_id = SC_NONE;
      for (guint chunk = 0; chunk < sc_plan_chunks (p); chunk++)
        s->stages[z].layers += in->sizes->layers[sc_plan_stage (p, z, chunk)];
    }
}

/* Each stage as the class of it shows it that finishes last. */
static void
summarise_stages (ScSummary *s, const ScLowerInput *in)
{
  const ScPlan *const p = &in->workload->plan;
  count_layers (s, in);
  for (guint z = 0; z < p->pp; z++)
    {
      ScStageSummary *const stage = &s->stages[z];
      for (guint k = 0; k < s->n_classes; k++)
        if (s->classes[k].stage == z && (stage->class_id == SC_NONE || tells_more (&s->classes[k], &s->classes[stage->class_id])))
          stage->class_id = k;
      for (guint i = 0; i < SC_N_TIMES; i++)
        stage->time[i] = s->classes[stage->class_id].time[i];
      const double bubble = (double) stage->time[SC_TIME_BUBBLE], step = (double) s->step;
      s->bubble_fraction += bubble / step / p->pp;
      s->bubble_over_ideal += bubble / (step - bubble) / p->pp;
    }
  const ScScheduleShape shape = sc_workload_schedule_shape (in->workload);
  s->bubble_over_ideal_ideal = sc_orders_ideal_bubble (s->orders, sc_schedule_find (p->schedule), &shape, p->post_validation);
  s->bubble_fraction_ideal = s->bubble_over_ideal_ideal / (1 + s->bubble_over_ideal_ideal);
}

static void
summarise_rates (ScSummary *s, const ScLowerInput *in)
{
  const ScWorkload *const w = in->workload;
  const double step_s = sc_time_to_s (s->step), sequences = w->plan.global_batch;
  s->tokens_per_s = s->tokens_per_step / step_s;
  s->tokens_per_s_per_gpu = s->tokens_per_s / s->gpus;
  s->model_flops_half = sc_packed_train_flops (w, sequences, SC_FLOPS_HALF);
  s->model_flops_full = sc_packed_train_flops (w, sequences, SC_FLOPS_FULL);
  s->model_flops_6n = sc_packed_train_flops (w, sequences, SC_FLOPS_6N);
  s->hardware_flops = sc_recompute_hardware_flops (w, w->plan.attention == SC_ATTENTION_FLASH ? SC_FLOPS_HALF : SC_FLOPS_FULL,
                                                   sc_recompute_spared_share (&w->plan, s->orders));
  double peak = 0; /* of the whole job: GPUs may differ */
  for (guint32 g = 0; g < in->fabric->n_gpus; g++)
    peak += sc_fabric_node_type (in->fabric, g)->device->peak_flops[sc_plan_gemm_dtype (&w->plan)].value;
  s->peak_flops_per_gpu = peak / s->gpus;
  s->model_tflops_per_gpu = s->model_flops_half / step_s / s->gpus / 1e12;
  s->mfu_half_causal = s->model_flops_half / step_s / peak;
  s->mfu_full = s->model_flops_full / step_s / peak;
  s->mfu_6n = s->model_flops_6n / step_s / peak;
  s->hfu = s->hardware_flops / step_s / peak;
}

static void
summarise_evidence (ScSummary *s, ScLowered *lowered, const ScRepeat *repeat)
{
  for (guint i = 0; i < s->n_classes * SC_N_GRADES && repeat != NULL; i++)
    {
      const guint k = i / SC_N_GRADES, g = i % SC_N_GRADES;
      lowered->grade_ps[i] += (repeat->classes[k].end.grade_ps[g] - repeat->classes[k].begin.grade_ps[g]) * repeat->times;
    }
  guint busiest = 0;
  ScTime most = -1;
  for (guint k = 0; k < s->n_classes; k++)
    {
      ScTime sum = 0;
      for (guint g = 0; g < SC_N_GRADES; g++)
        sum += lowered->grade_ps[k * SC_N_GRADES + g];
      if (sum > most)
        {
          most = sum;
          busiest = k;
        }
    }
  for (guint g = 0; g < SC_N_GRADES; g++)
    s->grade_share[g] = most > 0 ? (double) lowered->grade_ps[busiest * SC_N_GRADES + g] / (double) most : 0;
}

typedef struct
{
  const char    *name;
  const ScCited *cited;
} NamedCited;

/* "NAME: assumed a, b, c", or nothing. */
static void
add_assumed (GPtrArray *lines, const char *name, const NamedCited *numbers, guint n)
{
  g_autoptr (GString) line = g_string_new (NULL);
  for (guint i = 0; i < n; i++)
    if (numbers[i].cited != NULL && numbers[i].cited->grade == SC_GRADE_ASSUMED && numbers[i].cited->value > 0)
      g_string_append_printf (line, "%s%s", line->len > 0 ? ", " : "", numbers[i].name);
  if (line->len > 0)
    g_ptr_array_add (lines, g_strdup_printf ("%s: %s", name, line->str));
}

/* Does the job use a node of this type, or of any type with this device? */
static gboolean
is_used (const ScFabric *f, const ScNodeType *type, const ScDevice *device)
{
  const ScTopology *const t = f->topology;
  guint first = 0;
  for (guint run = 0; run < t->n_runs; first += t->runs[run++].count)
    {
      const ScNodeType *const here = &t->types[t->runs[run].type];
      if ((here == type || here->device == device) && first < f->first_node + f->n_nodes
          && first + t->runs[run].count > f->first_node)
        return TRUE;
    }
  return FALSE;
}

/* What was set on purpose stands first: the answer is about another machine. */
static void
add_what_if (GPtrArray *assumptions, const ScTopology *t)
{
  const struct
  {
    const char *name;
    double factor;
  } factors[] = { { "matrix", t->what_if.matrix }, { "hbm", t->what_if.hbm },         { "nvlink", t->what_if.nvlink },
                  { "pcie", t->what_if.pcie },     { "nic", t->what_if.nic },       { "latency", t->what_if.latency }, { "launch", t->what_if.launch } };
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (factors); i++)
    if (factors[i].factor > 0 && factors[i].factor != 1) /* 0: the topology was made without any */
      g_string_append_printf (text, "%s%s x %g", text->len > 0 ? ", " : "what-if: ", factors[i].name, factors[i].factor);
  if (text->len > 0)
    g_ptr_array_add (assumptions, g_strdup (text->str));
  if (t->burst)
    g_ptr_array_add (assumptions, g_strdup ("burst clocks: products as fast as in a short measurement"));
}

/* Does any call take something from the kernels beside it? */
static gboolean
any_holds (const ScProgram *p)
{
  for (guint i = 0; i < p->calls->len; i++)
    for (guint k = 0; k < SC_N_HOLDS; k++)
      if (g_array_index (p->calls, ScCall, i).hold[k] > 0)
        return TRUE;
  return FALSE;
}

/* Does the order overlap any two passes, outside of Megatron's exchanges between steps? */
static gboolean
any_paired (const ScSummary *s)
{
  for (guint rank = 0; rank < s->orders->p; rank++)
    for (guint i = 0; i < s->orders->ranks[rank]->len; i++)
      if (g_array_index (s->orders->ranks[rank], ScSlot, i).paired)
        return TRUE;
  return FALSE;
}

static void
summarise_assumptions (ScSummary *s, const ScLowerInput *in)
{
  const ScTopology *const t = in->fabric->topology;
  s->assumptions = g_ptr_array_new_with_free_func (g_free);
  add_what_if (s->assumptions, t);
  for (guint i = 0; i < t->devices->len; i++)
    {
      const ScDevice *const d = g_ptr_array_index (t->devices, i);
      const NamedCited numbers[] = {
        { "tile efficiency", &d->gemm_tile_efficiency }, { "sustained rate", &d->gemm_sustained },
        { "accumulating GEMMs", &d->gemm_accumulate }, { "batched GEMMs", &d->batched_gemm_efficiency },
        { "elementwise bandwidth", &d->elementwise_bytes_per_s }, { "reduction bandwidth", &d->reduction_bytes_per_s },
        { "optimizer bandwidth", &d->optimizer_bytes_per_s }, { "half size", &d->half_bytes },
        { "launch latency", &d->launch_s }, { "context memory", &d->context_bytes }, { "workspace memory", &d->workspace_bytes },
        { "slow-down under communication", t->collectives == SC_TEXTBOOK ? &d->hidden_slowdown : NULL },
      };
      if (!is_used (in->fabric, NULL, d))
        continue;
      add_assumed (s->assumptions, d->name, numbers, G_N_ELEMENTS (numbers));
      if (t->collectives != SC_TEXTBOOK && any_holds (s->program) && sc_contention_text (d) != NULL)
        g_ptr_array_add (s->assumptions, g_strdup_printf ("%s: %s", d->name, sc_contention_text (d)));
    }
  for (guint i = 0; i < t->n_types; i++)
    {
      const ScNodeType *const n = &t->types[i];
      const NamedCited numbers[] = {
        { "NVLink bandwidth", &n->nvlink_bytes_per_s }, { "NVLink latency", &n->nvlink_latency_s },
        { "PCIe bandwidth", &n->pcie_bytes_per_s }, { "PCIe latency", &n->pcie_latency_s },
        { "PCIe uplink bandwidth", &n->pcie_uplink_bytes_per_s }, { "NIC bandwidth", &n->nic_bytes_per_s },
        { "NIC latency", &n->nic_latency_s },
      };
      if (is_used (in->fabric, n, NULL))
        add_assumed (s->assumptions, n->name, numbers, G_N_ELEMENTS (numbers));
    }
  const ScFramework *const fw = in->workload->framework;
  g_ptr_array_add (s->assumptions, g_strdup_printf ("host pace of %s %s: %s", fw->name, fw->version,
                                                    fw->host_assumed ? "assumed, as of Megatron's modules" : "fitted on small single-node runs"));
  const ScPlan *const plan = &in->workload->plan;
  if (plan->profile.n > 0)
    g_ptr_array_add (s->assumptions, g_strdup_printf ("passes%s last as the workload says; %soptimizer and communication are ours",
                                                      plan->profile.transfer_s > 0 ? " and transfers" : "",
                                                      plan->profile.by_stage ? "" : "embedding, head and loss, "));
  const char *const in_turn = any_paired (s) ? sc_sharding_pairs_in_turn (in->workload) : NULL;
  if (in_turn != NULL)
    g_ptr_array_add (s->assumptions, g_strdup_printf ("pairs of passes of %s run one after the other: %s", plan->schedule, in_turn));
  if (plan->post_validation)
    g_ptr_array_add (s->assumptions, g_strdup ("steps follow one another staggered, none of them has to be taken back"));
  g_ptr_array_add (s->assumptions, g_strdup ("memory in the order of the program; reserved: PyTorch's caching allocator; NCCL buffers: estimated from channel counts"));
}

/* Sizes, and the tapes. */
static ScSummary *
summary_new (const ScLowerInput *in, ScLowered *lowered, double memory_margin)
{
  ScSummary *const s = g_new0 (ScSummary, 1);
  s->topology = in->fabric->topology;
  s->workload = in->workload;
  s->gpus = in->fabric->n_gpus;
  s->nodes = in->fabric->n_nodes;
  s->params = sc_model_params (&in->workload->model, in->workload->seq);
  s->microbatches = sc_workload_microbatches (in->workload);
  s->tokens_per_step = (double) in->workload->plan.global_batch * in->workload->seq;
  s->memory_margin = memory_margin;
  s->tapes = g_steal_pointer (&lowered->tapes);
  s->ranks = g_new (ScRankPlace, s->gpus);
  for (guint rank = 0; rank < s->gpus; rank++)
    s->ranks[rank] = (ScRankPlace) { in->fold->class_of[rank], in->fabric->gpus[rank].node, in->fabric->gpus[rank].index };
  s->n_classes = in->fold->n_classes;
  s->classes = g_new0 (ScClassSummary, s->n_classes);
  return s;
}

ScSummary *
sc_summarise_space (const ScLowerInput *in, ScLowered *lowered, double memory_margin, ScMemoryDepth depth)
{
  ScSummary *const s = summary_new (in, lowered, memory_margin);
  for (guint k = 0; k < s->n_classes; k++)
    describe_class (s, in, k);
  count_layers (s, in);
  sc_summarise_memory (s, in, NULL, depth);
  return s;
}

ScSummary *
sc_summarise (const ScLowerInput *in, ScLowered *lowered, ScTrace *trace, const ScRepeat *repeat, double memory_margin, ScMemoryDepth depth)
{
  ScSummary *const s = summary_new (in, lowered, memory_margin);
  s->program = g_steal_pointer (&lowered->program);
  s->labels = g_steal_pointer (&lowered->labels);
  s->orders = g_steal_pointer (&lowered->orders);
  s->trace = trace;
  find_step (s, &in->workload->plan);
  g_autoptr (ScSegments) segments = sc_segments_new (s->program, trace, trace->end);
  for (guint k = 0; k < s->n_classes; k++)
    summarise_class (s, in, segments, repeat, k);
  summarise_stages (s, in);
  sc_summarise_memory (s, in, repeat, depth);
  summarise_rates (s, in);
  summarise_evidence (s, lowered, repeat);
  summarise_assumptions (s, in);

  s->n_rank_classes = in->fold->n_classes;
  s->n_families = in->fold->n_families;
  s->n_link_classes = in->fold->n_link_classes;
  s->n_links = in->fold->n_used_links;
  if (trace->usage != NULL)
    s->links = sc_links_summarise (in, trace->usage);
  s->n_groups = in->layout->n_comms;
  s->fold_approximate = in->fold->approximate;
  if (in->fold->approximate)
    s->fold_note = g_strdup_printf ("no symmetry left below %u classes: the fold keeps the last complete round of the refinement",
                                    in->fold->n_classes);
  return s;
}
