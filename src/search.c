/* SPDX-License-Identifier: GPL-3.0-or-later */
/* search.c - the space of plans, what prunes it, and the best of what is left. */
#include "search.h"
#include "models/memory.h"
#include "models/schedule.h"
#include "models/sharding.h"
#include "ordered.h"
#include "override.h"
#include "workload-json.h"
#include <math.h>
#include <string.h>

#define MOST_CHUNKS 16      /* of a pipeline rank */
#define LEAST_PART 1024     /* tokens of a sequence that a context-parallel rank has at least */
#define MOST_TP_NODES 2     /* nodes that a tensor-parallel group spans at most */
#define MOST_MICRO_BATCH 64
#define BATCH 32            /* plans that are simulated before the best are looked at again; no matter how many threads */
#define MOST_FRONT 64
#define RENEWED 4096        /* forecasts after which a context begins anew */

const char *const sc_search_recomputes[] = { "none", "selective", "full", NULL };

static void
found_free (ScSearchFound *f)
{
  if (f == NULL)
    return;
  g_strfreev (f->set);
  g_free (f->schedule);
  g_free (f);
}

void
sc_search_free (ScSearch *s)
{
  if (s == NULL)
    return;
  g_ptr_array_unref (s->best);
  g_ptr_array_unref (s->front);
  found_free (s->thumb);
  found_free (s->given);
  g_free (s);
}

/* ---- The space ---- */

/* What the code of a framework can share out among data-parallel ranks; the names begin so. */
static const struct
{
  const char *framework;
  ScSharding known[4];
  guint n;
} shardings_of[] = {
  { "megatron-deepspeed", { SC_SHARDING_NONE, SC_SHARDING_ZERO1, SC_SHARDING_ZERO2, SC_SHARDING_ZERO3 }, 4 },
  { "megatron", { SC_SHARDING_NONE, SC_SHARDING_DISTRIBUTED_OPTIMIZER }, 2 },
  { "deepspeed", { SC_SHARDING_NONE, SC_SHARDING_ZERO1, SC_SHARDING_ZERO2, SC_SHARDING_ZERO3 }, 4 },
  { "nanotron", { SC_SHARDING_NONE, SC_SHARDING_ZERO1 }, 2 },
  { "", { SC_SHARDING_NONE, SC_SHARDING_FSDP_GRAD_OP, SC_SHARDING_FSDP_FULL }, 3 },
};

static guint
gpus_of_node (const ScTopology *topology)
{
  return MAX (sc_topology_node_type (topology, topology->first_node)->gpus, 1);
}

/* Schedule @order of a plan with @chunks, or the one that it has by default. */
static const char *
schedule_name (const ScSearchInput *in, guint order, guint chunks)
{
  return order > 0 ? in->schedules[order - 1] : chunks > 1 ? sc_schedule_interleaved.name : sc_schedule_1f1b.name;
}

static guint
count (const char *const *names)
{
  guint n = 0;
  while (names[n] != NULL)
    n++;
  return n;
}

/* The rest of a plan whose sizes are known: what may go with them. */
static void
add_rest (const ScSearchInput *in, ScSearchPlan plan, guint dp, GArray *space)
{
  guint i = 0;
  while (!g_str_has_prefix (in->workload->framework->name, shardings_of[i].framework))
    i++;
  const guint each = in->global_batch / dp, n_schedules = plan.pp > 1 && in->schedules != NULL ? count (in->schedules) : 0;
  for (guint b = 1; b <= MIN (each, MOST_MICRO_BATCH); b++)
    for (guint s = 0; s < shardings_of[i].n && each % b == 0; s++)
      for (guint r = 0; sc_search_recomputes[r] != NULL; r++)
        for (guint sp = 0; sp < (plan.tp > 1 ? 2 : 1); sp++)
          for (guint order = 0; order <= n_schedules; order++)
            {
              plan.micro_batch = b;
              plan.sharding = (guint8) shardings_of[i].known[s];
              plan.recompute = (guint8) r;
              plan.sequence_parallel = sp == 0 && plan.tp > 1;
              plan.schedule = (guint8) order;
              const gboolean again = order > 0 && strcmp (schedule_name (in, order, plan.vpp), schedule_name (in, 0, plan.vpp)) == 0;
              if ((s == 0 || dp * plan.cp > 1) && !again)
                g_array_append_val (space, plan);
            }
}

/* Chunks, experts. */
static void
add_pipeline (const ScSearchInput *in, ScSearchPlan plan, guint dp, GArray *space)
{
  const ScModel *const m = &in->workload->model;
  for (guint v = 1; v <= MIN (MOST_CHUNKS, m->layers / plan.pp); v++)
    {
      if (v > 1 && (plan.pp == 1 || m->layers % (plan.pp * v) != 0))
        continue;
      for (guint ep = 1; ep <= MAX (m->experts, 1); ep++)
        {
          if (ep > 1 && (m->experts % ep != 0 || dp * plan.cp % ep != 0))
            continue;
          plan.vpp = (guint16) v;
          plan.ep = (guint16) ep;
          add_rest (in, plan, dp, space);
        }
    }
}

/* All that the sizes of the model and of the job let be; what else refuses plans is asked plan by plan. */
static GArray *
make_space (const ScSearchInput *in)
{
  GArray *const space = g_array_new (FALSE, TRUE, sizeof (ScSearchPlan));
  const ScModel *const m = &in->workload->model;
  const guint most_tp = MIN (m->heads, MOST_TP_NODES * gpus_of_node (in->topology));
  for (guint tp = 1; tp <= most_tp; tp++)
    for (guint pp = 1; in->gpus % tp == 0 && m->heads % tp == 0 && pp <= MIN (m->layers, in->gpus / tp); pp++)
      for (guint cp = 1; in->gpus / tp % pp == 0 && cp <= MAX (in->workload->seq / LEAST_PART, 1); cp *= 2)
        {
          const guint dp = in->gpus / tp / pp / cp;
          if (in->gpus / tp / pp % cp != 0 || in->global_batch % dp != 0)
            continue;
          add_pipeline (in, (ScSearchPlan) { .tp = (guint16) tp, .pp = (guint16) pp, .cp = (guint16) cp }, dp, space);
        }
  return space;
}

static void G_GNUC_PRINTF (2, 3)
put (GPtrArray *set, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_ptr_array_add (set, g_strdup_vprintf (format, args));
  va_end (args);
}

/* Keys that say something of sizes that a plan had. */
static const char *const of_sizes[] = { "schedule", "microbatch_group", "stage_layers", "pipeline_layout", "recompute_method", "recompute_layers",
                                        "partial_microbatches", "shard_group", "bucket_params", "etp", "cp_a2a" };

/* Those of them that the workload says: NULL-ended, in @ret. */
static gboolean
find_forgotten (const ScSearchInput *in, const char *ret[G_N_ELEMENTS (of_sizes) + 1], GError **error)
{
  g_autoptr (ScJson) json = sc_json_parse (in->workload_file, in->workload_text, in->workload_length, error);
  if (json == NULL || !sc_override_apply (json, SC_OVERRIDE_WORKLOAD, in->set, error))
    return FALSE;
  const cJSON *const plan = cJSON_GetObjectItemCaseSensitive (json->root, "plan");
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (of_sizes); i++)
    if (cJSON_GetObjectItemCaseSensitive (plan, of_sizes[i]) != NULL)
      ret[n++] = of_sizes[i];
  ret[n] = NULL;
  return TRUE;
}

/* @plan as --set has it.  What the workload says of sizes that it had, and is not said of these, gives way to the defaults. */
static char **
set_of (const ScSearchInput *in, const ScSearchPlan *plan)
{
  GPtrArray *const set = g_ptr_array_new ();
  const ScPlan *const own = &in->workload->plan;
  put (set, "plan.gpus=%u", in->gpus);
  put (set, "plan.global_batch=%u", in->global_batch);
  put (set, "plan.tp=%u", plan->tp);
  put (set, "plan.pp=%u", plan->pp);
  put (set, "plan.vpp=%u", plan->vpp);
  put (set, "plan.cp=%u", plan->cp);
  if (in->workload->model.experts > 0)
    put (set, "plan.ep=%u", plan->ep);
  put (set, "plan.micro_batch=%u", plan->micro_batch);
  put (set, "plan.sharding=%s", sc_sharding_row ((ScSharding) plan->sharding)->name);
  put (set, "plan.recompute=%s", sc_search_recomputes[plan->recompute]);
  put (set, "plan.sequence_parallel=%s", plan->sequence_parallel ? "true" : "false");
  for (const char *const *key = in->forgotten; key != NULL && *key != NULL; key++)
    put (set, "plan.%s=null", *key);
  if (plan->schedule > 0)
    put (set, "plan.schedule=%s", in->schedules[plan->schedule - 1]);
  if (plan->pp == 1 && own->post_validation)
    put (set, "plan.post_validation=null");
  if (plan->vpp == 1 && own->overlap_p2p && sc_schedule_find (schedule_name (in, plan->schedule, 1))->exchanges)
    put (set, "plan.overlap_p2p=null");
  if (!plan->sequence_parallel && own->tp_overlap)
    put (set, "plan.tp_overlap=null");
  if ((plan->sequence_parallel || plan->tp == 1 || plan->pp == 1) && own->scatter_gather)
    put (set, "plan.scatter_gather=null");
  if (plan->sharding == SC_SHARDING_NONE && own->overlap_param)
    put (set, "plan.overlap_param=null");
  if (plan->cp == 1 && own->cp > 1)
    put (set, "plan.cp_comm=null");
  g_ptr_array_add (set, NULL);
  return (char **) g_ptr_array_free (set, FALSE);
}

/* ---- One plan ---- */

/* What a thread keeps. */
typedef struct
{
  const ScSearchInput *in;
  ScForecastContext *context;
  guint n_forecasts;
} Worker;

static ScForecastContext *
context_of (Worker *w)
{
  if (w->n_forecasts++ % RENEWED == 0)
    {
      sc_forecast_context_free (w->context);
      w->context = sc_forecast_context_new (w->in->topology);
    }
  return w->context;
}

static void
worker_free (gpointer data)
{
  Worker *const w = data;
  sc_forecast_context_free (w->context);
  g_free (w);
}

static ScWorkload *
read_workload (const ScSearchInput *in, char **set, GError **error)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  for (char **one = in->set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (all, *one);
  for (char **one = set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (all, *one);
  g_ptr_array_add (all, NULL);
  g_autoptr (ScWorkload) w = sc_workload_from_text (in->workload_file, in->workload_text, in->workload_length, (char **) all->pdata, error);
  return w != NULL && sc_workload_check_topology (w, in->topology, error) && sc_workload_check_modelled (w, error) ? g_steal_pointer (&w) : NULL;
}

static ScWorkload *
read_plan (const ScSearchInput *in, const ScSearchPlan *plan, GError **error)
{
  g_auto (GStrv) set = set_of (in, plan);
  return read_workload (in, set, error);
}

static gboolean
does_fit (const ScSearchInput *in, ScVerdict verdict)
{
  return verdict <= (in->at_risk ? SC_VERDICT_AT_RISK : SC_VERDICT_FITS);
}

static gboolean
may_fit (const ScSearchInput *in, const ScBounds *b)
{
  return b->device_bytes <= b->capacity_bytes * (in->at_risk ? 1 : 1 - SC_MEMORY_DEFAULT_MARGIN);
}

/* At stage detail; NULL: it cannot be. */
static ScSearchFound *
simulate (Worker *worker, const ScWorkload *w, GError **error)
{
  const ScForecastOptions how = { .detail = SC_DETAIL_STAGE, .brief = TRUE, .context = context_of (worker) };
  g_autoptr (ScSummary) s = sc_forecast (worker->in->topology, w, &how, error);
  if (s == NULL)
    return NULL;
  ScSearchFound *const f = g_new0 (ScSearchFound, 1);
  const ScClassSummary *const fullest = &s->classes[s->memory_class];
  f->step_s = sc_time_to_s (s->step);
  f->confirmed_s = NAN;
  f->mfu = s->mfu_half_causal;
  f->bubble = s->bubble_fraction;
  f->device_bytes = fullest->peak_device_bytes;
  f->capacity_bytes = fullest->capacity_bytes;
  f->verdict = s->verdict;
  f->dp = w->plan.dp;
  f->microbatches = s->microbatches;
  f->schedule = g_strdup (w->plan.schedule);
  for (guint kind = 0; kind < SC_N_TIMES; kind++)
    for (guint i = 0; i < s->n_stages; i++)
      f->time_s[kind] += sc_time_to_s (s->stages[i].time[kind]) / s->n_stages;
  return f;
}

static double
confirm (Worker *worker, const ScWorkload *w)
{
  const ScForecastOptions how = { .detail = SC_DETAIL_KERNEL, .memory = SC_MEMORY_NONE, .brief = TRUE, .context = context_of (worker) };
  g_autoptr (ScSummary) s = sc_forecast (worker->in->topology, w, &how, NULL);
  return s != NULL ? sc_time_to_s (s->step) : NAN;
}

/* ---- Bounds of all ---- */

typedef struct
{
  guint64 number;
  double  step_s; /* bound; NAN: refused, INFINITY: memory */
} Bound;

typedef struct
{
  const ScSearchInput *in;
  ScSearch *search;
  const GArray *space; /* ScSearchPlan */
  GArray   *open;      /* Bound */
  guint64   from;      /* of a batch: index in open */
  guint64   n;
} Run;

static gpointer
start (gpointer shared)
{
  Worker *const w = g_new0 (Worker, 1);
  w->in = ((const Run *) shared)->in;
  return w;
}

static gpointer
bound_item (gpointer shared, gpointer own, guint64 item)
{
  const Run *const r = shared;
  Worker *const worker = own;
  Bound *const b = g_new (Bound, 1);
  g_autoptr (ScWorkload) w = read_plan (r->in, &g_array_index (r->space, ScSearchPlan, item), NULL);
  *b = (Bound) { item, NAN };
  if (w == NULL)
    return b;
  const ScForecastOptions how = { .context = context_of (worker) };
  const ScBounds bounds = sc_bounds (r->in->topology, w, sc_forecast_context_costs (how.context));
  double least = 0;
  if (!may_fit (r->in, &bounds) && !r->in->exhaustive)
    b->step_s = INFINITY;
  else if (sc_forecast_least (r->in->topology, w, &how, &least, NULL))
    b->step_s = MAX (bounds.step_s, least);
  return b;
}

static gboolean
take_bound (gpointer data, guint64 item, gpointer result)
{
  Run *const r = data;
  g_autofree Bound *b = result;
  if (isnan (b->step_s))
    r->search->n_refused++;
  else if (isinf (b->step_s))
    r->search->n_memory++;
  else
    g_array_append_val (r->open, *b);
  if (r->in->progress != NULL && item % 256 == 0)
    r->in->progress ("bounded", item, r->space->len, r->in->progress_data);
  return TRUE;
}

static int
by_bound (gconstpointer a, gconstpointer b)
{
  const Bound *const x = a, *const y = b;
  return x->step_s != y->step_s ? (x->step_s < y->step_s ? -1 : 1) : x->number < y->number ? -1 : x->number > y->number;
}

/* ---- The best ---- */

static int
by_step (gconstpointer a, gconstpointer b)
{
  const ScSearchFound *const x = *(const ScSearchFound *const *) a, *const y = *(const ScSearchFound *const *) b;
  const gboolean confirmed = isfinite (x->confirmed_s) && isfinite (y->confirmed_s);
  const double s = confirmed ? x->confirmed_s : x->step_s, t = confirmed ? y->confirmed_s : y->step_s;
  return s != t ? (s < t ? -1 : 1) : x->number < y->number ? -1 : x->number > y->number;
}

static ScSearchFound *
found_copy (const ScSearchFound *f)
{
  ScSearchFound *const copy = g_new (ScSearchFound, 1);
  *copy = *f;
  copy->set = g_strdupv (f->set);
  copy->schedule = g_strdup (f->schedule);
  return copy;
}

/* Keeps @found among the fronts where no other is both as fast and as lean. */
static void
offer_front (GPtrArray *front, const ScSearchFound *found)
{
  for (guint i = 0; i < front->len; i++)
    {
      const ScSearchFound *const other = g_ptr_array_index (front, i);
      if (other->step_s <= found->step_s && other->device_bytes <= found->device_bytes)
        return;
    }
  for (guint i = front->len; i-- > 0;)
    {
      const ScSearchFound *const other = g_ptr_array_index (front, i);
      if (found->step_s <= other->step_s && found->device_bytes <= other->device_bytes)
        g_ptr_array_remove_index (front, i);
    }
  g_ptr_array_add (front, found_copy (found));
}

static gpointer
simulate_item (gpointer shared, gpointer own, guint64 item)
{
  const Run *const r = shared;
  const Bound *const b = &g_array_index (r->open, Bound, r->from + item);
  const ScSearchPlan *const plan = &g_array_index (r->space, ScSearchPlan, b->number);
  g_autoptr (ScWorkload) w = read_plan (r->in, plan, NULL);
  ScSearchFound *const found = w != NULL ? simulate (own, w, NULL) : NULL;
  if (found == NULL)
    return NULL;
  found->plan = *plan;
  found->number = b->number;
  found->bound_s = b->step_s;
  return found;
}

static gboolean
take_found (gpointer data, guint64 item G_GNUC_UNUSED, gpointer result)
{
  Run *const r = data;
  ScSearchFound *const found = result;
  if (found == NULL)
    {
      r->search->n_refused++; /* by the topology's links, or too large to simulate */
      return TRUE;
    }
  r->search->n_simulated++;
  if (!does_fit (r->in, found->verdict))
    {
      r->search->n_unfit++;
      found_free (found);
      return TRUE;
    }
  found->set = set_of (r->in, &found->plan);
  offer_front (r->search->front, found);
  g_ptr_array_add (r->search->best, found);
  return TRUE;
}

/* Step of the last plan that is among the best wanted; INFINITY: there are not so many yet. */
static double
worst_of_best (Run *r)
{
  GPtrArray *const best = r->search->best;
  g_ptr_array_sort (best, by_step);
  if (best->len > r->in->top)
    g_ptr_array_set_size (best, (gint) r->in->top);
  return best->len == r->in->top ? ((const ScSearchFound *) g_ptr_array_index (best, best->len - 1))->step_s : INFINITY;
}

static void
run_batch (Run *r, guint n)
{
  const ScOrdered how = { .n = n, .jobs = r->in->jobs, .shared = r, .start = start, .finish = worker_free, .work = simulate_item, .take = take_found, .data = r };
  sc_ordered_run (&how);
}

static void
run_open (Run *r)
{
  for (r->from = 0; r->from < r->open->len;)
    {
      const double worst = worst_of_best (r);
      guint n = 0;
      while (n < BATCH && r->from + n < r->open->len && (r->in->exhaustive || g_array_index (r->open, Bound, r->from + n).step_s <= worst))
        n++;
      if (n == 0)
        break;
      if (r->in->most > 0 && r->from >= r->in->most)
        {
          r->search->stopped = TRUE;
          break;
        }
      run_batch (r, n);
      r->from += n;
      if (r->in->progress != NULL)
        r->in->progress ("simulated", r->from, r->open->len, r->in->progress_data);
    }
  r->search->n_time = r->open->len - r->from;
  worst_of_best (r);
}

static gpointer
confirm_item (gpointer shared, gpointer own, guint64 item)
{
  const Run *const r = shared;
  ScSearchFound *const found = g_ptr_array_index (r->search->best, item);
  g_autoptr (ScWorkload) w = read_plan (r->in, &found->plan, NULL);
  found->confirmed_s = w != NULL ? confirm (own, w) : NAN;
  return NULL;
}

static void
run_confirm (Run *r)
{
  const ScOrdered how = { .n = r->search->best->len, .jobs = r->in->jobs, .shared = r, .start = start, .finish = worker_free, .work = confirm_item };
  r->search->n_confirmed = sc_ordered_run (&how);
  g_ptr_array_sort (r->search->best, by_step);
}

/* ---- Beside it ---- */

/* The rule of thumb: micro-batches of one sequence, tensor parallelism inside a node until it fits, then states shared out, then a pipeline, then recompute. */
static ScSearchFound *
by_thumb (const ScSearchInput *in, Worker *worker)
{
  guint f = 0;
  while (!g_str_has_prefix (in->workload->framework->name, shardings_of[f].framework))
    f++;
  for (guint r = 0; sc_search_recomputes[r] != NULL; r++)
    for (guint pp = 1; pp <= MIN (in->workload->model.layers, in->gpus); pp *= 2)
      for (guint s = 0; s < shardings_of[f].n; s++)
        for (guint tp = pp > 1 ? gpus_of_node (in->topology) : 1; tp <= gpus_of_node (in->topology); tp *= 2)
          {
            const ScSearchPlan plan = { 1, (guint16) tp, (guint16) pp, 1, 1, 1, (guint8) shardings_of[f].known[s], (guint8) r, tp > 1, 0 };
            g_autoptr (ScWorkload) w = read_plan (in, &plan, NULL);
            const ScBounds b = w != NULL ? sc_bounds (in->topology, w, sc_forecast_context_costs (context_of (worker))) : (ScBounds) { 0 };
            if (w == NULL || !may_fit (in, &b))
              continue;
            ScSearchFound *const found = simulate (worker, w, NULL);
            if (found != NULL && does_fit (in, found->verdict))
              {
                found->plan = plan;
                found->bound_s = b.step_s;
                found->set = set_of (in, &plan);
                found->confirmed_s = confirm (worker, w);
                return found;
              }
            found_free (found);
          }
  return NULL;
}

static ScSearchFound *
as_given (const ScSearchInput *in, Worker *worker)
{
  const ScPlan *const p = &in->workload->plan;
  if (p->gpus != in->gpus || p->global_batch != in->global_batch || !sc_workload_check_topology (in->workload, in->topology, NULL))
    return NULL;
  ScSearchFound *const found = simulate (worker, in->workload, NULL);
  if (found == NULL)
    return NULL;
  found->plan = (ScSearchPlan) { p->micro_batch, (guint16) p->tp, (guint16) p->pp, (guint16) p->vpp, (guint16) p->cp, (guint16) p->ep, (guint8) p->sharding, 0, (guint8) p->sequence_parallel, 0 };
  found->confirmed_s = confirm (worker, in->workload);
  return found;
}

ScSearch *
sc_search (const ScSearchInput *input, GError **error)
{
  const char *forgotten[G_N_ELEMENTS (of_sizes) + 1];
  ScSearchInput known = *input;
  const ScSearchInput *const in = &known;
  known.forgotten = forgotten;
  g_autoptr (ScSearch) s = g_new0 (ScSearch, 1);
  s->best = g_ptr_array_new_with_free_func ((GDestroyNotify) found_free);
  s->front = g_ptr_array_new_with_free_func ((GDestroyNotify) found_free);
  g_autoptr (GArray) space = make_space (in), open = g_array_new (FALSE, FALSE, sizeof (Bound));
  Run run = { .in = in, .search = s, .space = space, .open = open };
  s->n_plans = space->len;
  if (in->workload->plan.profile.n > 0)
    {
      g_set_error_literal (error, SC_WORKLOAD_ERROR, SC_WORKLOAD_ERROR_INVALID, "search: /plan/profiled_ms: found times of passes, expected none: they are those of one plan");
      return NULL;
    }
  if (!sc_workload_check_modelled (in->workload, error) || !find_forgotten (input, forgotten, error))
    return NULL;
  const ScOrdered bounds = { .n = space->len, .jobs = in->jobs, .shared = &run, .start = start, .finish = worker_free, .work = bound_item, .drop = g_free,
                             .take = take_bound, .data = &run };
  sc_ordered_run (&bounds);
  g_array_sort (open, by_bound);
  run_open (&run);
  run_confirm (&run);
  g_ptr_array_sort (s->front, by_step);
  if (s->front->len > MOST_FRONT)
    g_ptr_array_set_size (s->front, MOST_FRONT);
  Worker *const worker = start (&run);
  s->thumb = by_thumb (in, worker);
  s->given = as_given (in, worker);
  worker_free (worker);
  return g_steal_pointer (&s);
}

char *
sc_search_workload (const ScSearchInput *in, const ScSearchFound *found, GError **error)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  for (char **one = in->set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (all, *one);
  for (char **one = found->set; one != NULL && *one != NULL; one++)
    g_ptr_array_add (all, *one);
  g_ptr_array_add (all, NULL);
  g_autoptr (ScJson) json = sc_json_parse (in->workload_file, in->workload_text, in->workload_length, error);
  if (json == NULL || !sc_override_apply (json, SC_OVERRIDE_WORKLOAD, (char **) all->pdata, error))
    return NULL;
  cJSON *const plan = cJSON_GetObjectItemCaseSensitive (json->root, "plan");
  cJSON_DeleteItemFromObjectCaseSensitive (plan, "dp"); /* follows from gpus */
  for (cJSON *item = plan->child, *next; item != NULL; item = next)
    {
      next = item->next;
      if (cJSON_IsNull (item))
        cJSON_Delete (cJSON_DetachItemViaPointer (plan, item));
    }
  char *const printed = cJSON_Print (json->root);
  char *const text = g_strdup (printed);
  cJSON_free (printed);
  return text;
}
