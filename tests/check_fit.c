/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_fit.c - what stepcast fit says is what stepcast run says: of the plan, of every change, on both sides of every limit. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "fit.h"
#include "models/memory.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"

#define MAX_SET 6

typedef struct
{
  const char *topology, *workload;
  const char *set[MAX_SET + 1]; /* overrides, NULL-ended */
  guint changes;                /* at once, that make it fit; 0: it does fit, or nothing makes it */
} Case;

static const Case cases[] = {
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=16" }, 0 },
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=32", "plan.micro_batch=4" }, 1 },
  { "dgx-h100-8", "llama3-8b-fsdp2", { "plan.micro_batch=16", "plan.global_batch=128" }, 1 },
  { "dgx-h100-8", "llama3-8b-fsdp2", { "plan.sharding=none" }, 1 },
  { "dgx-a100-superpod", "megatron-22b-full", { "plan.micro_batch=1", "plan.tp=4", "plan.gpus=16" }, 1 },
  { "dgx-a100-superpod", "gpt-7.5b-zero", { "plan.gpus=8", "plan.sharding=none", "plan.zero=null", "plan.bucket_params=null" }, 1 },
  { "dgx-h100-8", "llama3-8b", { "plan.gpus=16", "plan.global_batch=16", "seq=65536", "plan.tp=1", "plan.sequence_parallel=false" }, 1 },
  { "dgx-h100-8", "mixtral-8x7b", { "plan.gpus=64", "plan.micro_batch=4", "plan.global_batch=256" }, 1 },
  { "dgx-h100-8", "llama3-70b", { "plan.gpus=16", "plan.pp=2", "plan.vpp=1", "plan.schedule=1f1b", "plan.overlap_p2p=false" }, 1 },
  { "dgx-h100-8", "llama3-70b", { "plan.gpus=32", "plan.dp=1", "plan.micro_batch=8", "seq=32768", "plan.global_batch=32" }, 2 },
  { "dgx-a100", "llama3-70b", { "plan.gpus=8", "plan.pp=1", "plan.vpp=1", "plan.schedule=none", "plan.overlap_p2p=false", "seq=65536" }, 0 },
};

/* A case read as the command reads it. */
typedef struct
{
  ScInputs inputs;
  ScFitInput how;
} Given;

static void
given_clear (Given *g)
{
  sc_inputs_clear (&g->inputs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Given, given_clear)

static ScWorkload *
read_changed (gpointer inputs, char **set, GError **error)
{
  return sc_inputs_read_changed (inputs, set, error);
}

static void
read_case (Given *g, const Case *c)
{
  g_autoptr (GError) error = NULL;
  char name[] = "fit";
  g_autofree char *topology = g_strdup (c->topology), *workload = g_strdup (c->workload);
  char *argv[] = { name, topology, workload, NULL };
  g->inputs.set = g_strdupv ((char **) (gsize) c->set);
  ck_assert_msg (sc_inputs_read (&g->inputs, 3, argv, &error), "%s", error != NULL ? error->message : "");
  g->how = (ScFitInput) { .topology = g->inputs.topology, .workload = g->inputs.workload, .read = read_changed, .data = &g->inputs, .worst = SC_VERDICT_AT_RISK };
}

static ScSummary *
run_of (const ScTopology *topology, const ScWorkload *workload, ScDetail detail)
{
  g_autoptr (GError) error = NULL;
  const ScForecastOptions how = { .detail = detail };
  ScSummary *const s = sc_forecast (topology, workload, &how, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  return s;
}

/* What stepcast run --detail stage says with @set on top. */
static ScSummary *
run_changed (Given *g, char **set, ScWorkload **ret_workload)
{
  g_autoptr (GError) error = NULL;
  *ret_workload = sc_inputs_read_changed (&g->inputs, set, &error);
  ck_assert_msg (*ret_workload != NULL, "%s", error != NULL ? error->message : "");
  return run_of (g->inputs.topology, *ret_workload, SC_DETAIL_STAGE);
}

static const ScClassSummary *
fullest (const ScSummary *s)
{
  return &s->classes[s->memory_class];
}

static ScFit *
fit_of (const Given *g)
{
  g_autoptr (GError) error = NULL;
  ScFit *const fit = sc_fit (&g->how, &error);
  ck_assert_msg (fit != NULL, "%s", error != NULL ? error->message : "");
  return fit;
}

/* Everything shipped that is simulated in well under a second. */
static const struct
{
  const char *topology, *workload;
} shipped[] = {
  { "dgx-a100-superpod", "megatron-22b-full" }, { "dgx-a100-superpod", "megatron-22b-seqsel" }, { "dgx-a100-superpod", "megatron-175b-full" },
  { "dgx-a100-superpod", "megatron-175b-seqsel" }, { "dgx-a100-superpod", "sc21-1.7b" }, { "dgx-a100-superpod", "sc21-3.6b" },
  { "dgx-a100-superpod", "sc21-7.5b" }, { "dgx-a100-superpod", "sc21-18b" }, { "dgx-a100-superpod", "sc21-39b" }, { "dgx-a100-superpod", "sc21-76b" },
  { "dgx-a100-superpod", "gpt-7.5b-zero" }, { "dgx-a100-superpod", "gpt-7.5b-zero2" }, { "dgx-a100-superpod", "gpt-7.5b-zero3" },
  { "dgx-a100-superpod", "zero-bubble-1.5b" }, { "dgx-a100-superpod", "olmo-7b-fsdp" }, { "dgx-h100-8", "llama3-8b" }, { "dgx-h100-8", "llama3-8b-128k" },
  { "dgx-h100-8", "llama3-8b-fsdp2" }, { "dgx-h100-8", "llama3-70b" }, { "dgx-h100-8", "mixtral-8x7b" }, { "jean-zay-a100", "bloom-176b" },
  { "dgx-h100-superpod", "llama3-405b" }, { "dgx-h100-superpod", "llama3-405b-128k" }, { "azure-nd-h100-v5", "qwen3-235b" }, { "deepseek-h800", "deepseek-v3" },
};

START_TEST (memory_is_the_same_without_a_simulation)
{
  const Case c = { shipped[_i].topology, shipped[_i].workload, { NULL }, 0 };
  g_auto (Given) g = { 0 };
  g_autoptr (GError) error = NULL;
  read_case (&g, &c);
  g_autoptr (ScSummary) with = run_of (g.inputs.topology, g.inputs.workload, SC_DETAIL_STAGE);
  g_autoptr (ScSummary) without = sc_forecast_memory (g.inputs.topology, g.inputs.workload, NULL, &error);
  ck_assert_msg (without != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_int_eq (with->verdict, without->verdict);
  ck_assert_uint_eq (with->n_stages, without->n_stages);
  for (guint z = 0; z < with->n_stages; z++)
    ck_assert_uint_eq (with->stages[z].layers, without->stages[z].layers);
  ck_assert_uint_eq (fullest (with)->stage, fullest (without)->stage);
  ck_assert_uint_eq (fullest (with)->peak_device_bytes, fullest (without)->peak_device_bytes);
  for (guint i = 0; i < without->n_classes; i++) /* classes may be more once all collectives are known, but not of more kinds */
    {
      const ScClassSummary *const a = &without->classes[i];
      gboolean found = FALSE;
      for (guint k = 0; k < with->n_classes && !found; k++)
        {
          const ScClassSummary *const b = &with->classes[k];
          found = a->stage == b->stage && a->peak_allocated_bytes == b->peak_allocated_bytes && a->peak_device_bytes == b->peak_device_bytes
                  && a->verdict == b->verdict && memcmp (a->at_peak, b->at_peak, sizeof a->at_peak) == 0 && strcmp (a->peak_op, b->peak_op) == 0;
        }
      ck_assert_msg (found, "%s: class %u of stage %u", c.workload, i, a->stage);
    }
}
END_TEST

START_TEST (every_change_has_the_memory_and_the_step_that_a_run_with_its_keys_has)
{
  const Case *const c = &cases[_i];
  g_auto (Given) g = { 0 };
  read_case (&g, c);
  g_autoptr (ScFit) fit = fit_of (&g);
  g_autoptr (ScSummary) given = run_of (g.inputs.topology, g.inputs.workload, SC_DETAIL_STAGE);
  double before = -INFINITY;
  ck_assert_int_eq (fit->memory->verdict, given->verdict);
  ck_assert_int_eq (fit->fits, given->verdict != SC_VERDICT_DOES_NOT_FIT);
  ck_assert_int_eq (fit->changes->len > 0, c->changes > 0);
  for (guint i = 0; i < fit->changes->len; i++)
    {
      const ScFitChange *const change = g_ptr_array_index (fit->changes, i);
      g_autoptr (ScWorkload) w = NULL;
      g_autoptr (ScSummary) s = run_changed (&g, change->set, &w);
      ck_assert_int_ne (s->verdict, SC_VERDICT_DOES_NOT_FIT);
      ck_assert_int_eq (s->verdict, change->verdict);
      ck_assert_uint_eq (fullest (s)->peak_device_bytes, change->device_bytes);
      ck_assert_double_eq (sc_time_to_s (s->step), change->step_s);
      ck_assert_double_eq_tol (change->cost, (double) s->step / (double) given->step - 1, 1e-9);
      ck_assert_uint_eq (w->plan.gpus, g.inputs.workload->plan.gpus);
      ck_assert_uint_eq (w->plan.global_batch, g.inputs.workload->plan.global_batch);
      ck_assert_uint_eq (change->other != NULL ? 2 : 1, c->changes);
      ck_assert_double_ge (change->cost, before);
      before = change->cost;
    }
  for (guint i = 0; i < fit->short_of->len; i++)
    {
      const ScFitChange *const change = g_ptr_array_index (fit->short_of, i);
      ck_assert_int_eq (change->verdict, SC_VERDICT_DOES_NOT_FIT);
    }
}
END_TEST

/* Of a sequence, batch or number of GPUs. */
static void
check_limit (Given *g, const ScFitLimit *l, const char *beyond)
{
  g_autoptr (ScWorkload) w = NULL, next = NULL;
  ck_assert_int_eq (l->found, l->set != NULL);
  if (l->found)
    {
      g_autoptr (ScSummary) s = run_changed (g, l->set, &w);
      ck_assert_int_ne (s->verdict, SC_VERDICT_DOES_NOT_FIT);
      ck_assert_uint_eq (fullest (s)->peak_device_bytes, l->device_bytes);
    }
  if (beyond == NULL)
    return;
  g_autofree char *key = g_strdup (beyond);
  char *set[] = { key, NULL };
  g_autoptr (GError) error = NULL;
  if (l->why != NULL)
    {
      ck_assert_ptr_null (sc_inputs_read_changed (&g->inputs, set, &error));
      return;
    }
  g_autoptr (ScSummary) s = run_changed (g, set, &next);
  ck_assert_int_eq (s->verdict, SC_VERDICT_DOES_NOT_FIT);
  ck_assert_uint_eq (fullest (s)->peak_device_bytes, l->beyond_bytes);
}

START_TEST (each_limit_fits_and_the_next_one_does_not)
{
  g_auto (Given) g = { 0 };
  read_case (&g, &cases[_i]);
  g_autoptr (ScFit) fit = fit_of (&g);
  const ScPlan *const p = &g.inputs.workload->plan;
  const ScFitLimit *const b = &fit->micro_batch, *const s = &fit->seq, *const n = &fit->gpus;
  g_autofree char *batch = b->beyond > 0 ? g_strdup_printf ("plan.micro_batch=%" G_GUINT64_FORMAT, b->beyond) : NULL;
  g_autofree char *seq = s->beyond > 0 ? g_strdup_printf ("seq=%" G_GUINT64_FORMAT, s->beyond) : NULL;
  check_limit (&g, b, batch);
  check_limit (&g, s, seq);
  check_limit (&g, n, NULL);
  if (b->found && b->beyond > 0)
    ck_assert_uint_gt (b->beyond, b->value);
  if (s->found && s->beyond > 0)
    ck_assert_uint_le (s->beyond - s->value, 256 * 2 * p->cp * p->tp);
  if (n->found && n->beyond > 0)
    ck_assert_uint_lt (n->beyond, n->value);
  if (fit->fits)
    {
      ck_assert_uint_ge (b->value, p->micro_batch);
      ck_assert_uint_ge (s->value, g.inputs.workload->seq);
      ck_assert_uint_le (n->value, p->gpus);
    }
}
END_TEST

START_TEST (to_be_strict_leaves_the_margin_free)
{
  g_auto (Given) g = { 0 };
  read_case (&g, &cases[1]);
  g.how.worst = SC_VERDICT_FITS;
  g_autoptr (ScFit) fit = fit_of (&g);
  ck_assert_uint_gt (fit->changes->len, 0);
  for (guint i = 0; i < fit->changes->len; i++)
    ck_assert_int_eq (((const ScFitChange *) g_ptr_array_index (fit->changes, i))->verdict, SC_VERDICT_FITS);
  ck_assert (fit->seq.found);
  ck_assert_double_le ((double) fit->seq.device_bytes, (double) fit->seq.capacity_bytes * (1 - SC_MEMORY_DEFAULT_MARGIN));
}
END_TEST

START_TEST (a_quick_verdict_tries_nothing)
{
  g_auto (Given) g = { 0 };
  read_case (&g, &cases[1]);
  g.how.quick = TRUE;
  g_autoptr (ScFit) fit = fit_of (&g);
  ck_assert (!fit->fits);
  ck_assert_uint_eq (fit->changes->len + fit->short_of->len + fit->refused->len, 0);
  ck_assert (!fit->seq.found && fit->seq.beyond == 0);
}
END_TEST

static Suite *
fit_suite (void)
{
  Suite *const s = suite_create ("fit");
  TCase *const t = tcase_create ("fit");
  tcase_set_timeout (t, 300);
  tcase_add_loop_test (slow (s), memory_is_the_same_without_a_simulation, 0, G_N_ELEMENTS (shipped));
  tcase_add_loop_test (slow (s), every_change_has_the_memory_and_the_step_that_a_run_with_its_keys_has, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (slow (s), each_limit_fits_and_the_next_one_does_not, 0, G_N_ELEMENTS (cases));
  tcase_add_test (heavy (s), to_be_strict_leaves_the_margin_free);
  tcase_add_test (t, a_quick_verdict_tries_nothing);
  suite_add_tcase (s, t);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (fit_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
