/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_activations.c - what layers save goes to the host and comes back: when, and what is left of it on the GPU. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "library.h"
#include "models/memory.h"
#include "workload-json.h"
#include "topology-json.h"

#define MS G_GINT64_CONSTANT (1000000000) /* ps */
#define HOST_BYTES_PER_S 50e9

typedef struct
{
  guint layers, offloaded, microbatches;
  double forward_ms, backward_ms, copy_ms;
} Case;

static const Case cases[] = {
  { 3, 2, 1, 2, 4, 1 }, { 3, 2, 1, 2, 4, 3 }, { 3, 2, 2, 2, 4, 5 }, { 6, 5, 2, 1, 2, 1 }, { 6, 5, 1, 1, 2, 4 }, { 8, 3, 2, 2, 4, 3 }, { 8, 3, 2, 2, 4, 7 }, { 8, 4, 1, 1, 2, 3 },
  { 9, 5, 2, 1, 2, 2 }, { 2, 1, 3, 1, 1, 9 },
};

static void
add_saved (GArray *items, double bytes)
{
  const ScItem item = { .kind = SC_ITEM_MEM, .mem = SC_MEM_ACTIVATIONS, .mem_bytes = (gint64) bytes };
  g_array_append_val (items, item);
}

static FixRun *
run (const Case *c, ScTopology **ret_t, ScWorkload **ret_w, ScStepItems **ret_items)
{
  *ret_t = fix_topology ((FixFabric) { .nodes = 1, .gpus = 1 });
  ScDevice *const d = g_ptr_array_index ((*ret_t)->devices, 0);
  d->memory_bytes_per_s.value = d->optimizer_bytes_per_s.value = d->reduction_bytes_per_s.value = 1e30;
  *ret_w = fix_workload ((FixPlan) { .layers = c->layers, .microbatches = c->microbatches });
  (*ret_w)->plan.offload = c->offloaded > 0 ? SC_OFFLOAD_ACTIVATIONS : SC_OFFLOAD_NONE;
  (*ret_w)->plan.offload_layers = c->offloaded;
  *ret_items = fix_items (c->forward_ms * 1e-3, c->backward_ms * 1e-3, 0, 0);
  add_saved ((*ret_items)->layers->pass[SC_PASS_FORWARD], c->copy_ms * 1e-3 * HOST_BYTES_PER_S);
  add_saved ((*ret_items)->layers->pass[SC_PASS_BACKWARD], -c->copy_ms * 1e-3 * HOST_BYTES_PER_S);
  return fix_run (*ret_t, *ret_w, *ret_items, FALSE, 0);
}

/* Behind which layer layer @i's tensors must be gone: as many layers for each copy, the first copies take one more. */
static guint
window (const Case *c, guint i)
{
  guint end = 0;
  for (guint k = 0; k <= i; k++)
    end += c->layers / c->offloaded + (k < c->layers % c->offloaded);
  return end - 1;
}

/* When the last backward of the last micro-batch ends.  Copies are made one by one: out from the end of the window before (the first layer's: from its
 * end), in from the beginning of the backward of the layer that ends its window; each must be done where the next one begins. */
static double
end_on_paper_ms (const Case *c)
{
  double t = 0;
  for (guint m = 0; m < c->microbatches; m++)
    {
      double done = 0;
      for (guint i = 0, at = 0; i < c->layers; i++)
        {
          t += c->forward_ms;
          if (i == 0)
            done = t + c->copy_ms;
          if (at == c->offloaded || i != window (c, at))
            continue;
          t = MAX (t, done);
          if (++at < c->offloaded)
            done = t + c->copy_ms;
        }
      for (guint i = c->layers, at = c->offloaded; i-- > 0;)
        {
          if (at > 0 && i == window (c, at - 1))
            {
              t = at < c->offloaded ? MAX (t, done) : t;
              done = t + c->copy_ms;
              at--;
            }
          if (i == 0)
            t = MAX (t, done);
          t += c->backward_ms;
        }
    }
  return t;
}

/* Most layers whose tensors are on the GPU: those that a forward has left so far but what is gone, or that a backward has before it and what has come. */
static guint
most_on_paper (const Case *c)
{
  guint most = 0;
  for (guint i = 0; i < c->layers; i++)
    {
      guint gone = 0, back = 0;
      for (guint g = 0; g < c->offloaded; g++)
        {
          gone += window (c, g) < i;
          back += window (c, g) >= i;
        }
      most = MAX (most, MAX (i + 1 - gone, i + 1 - (c->offloaded - back)));
    }
  return most;
}

START_TEST (copies_run_beside_the_next_layer)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = NULL;
  g_autoptr (ScWorkload) w = NULL;
  g_autoptr (ScStepItems) items = NULL;
  g_autoptr (FixRun) r = run (c, &t, &w, &items);
  ScTime end = 0;
  for (guint32 i = 0; i < r->lowered->program->n_ops; i++)
    if (strcmp (g_ptr_array_index (r->lowered->labels, sc_program_find_op (r->lowered->program, i).label), "layer backward") == 0)
      end = MAX (end, r->trace->spans[i].end);
  ck_assert_msg (ABS (end - (ScTime) (end_on_paper_ms (c) * MS)) <= 100, "case %d: %.9f ms, expected %.9f", _i, (double) end / MS, end_on_paper_ms (c));
}
END_TEST

START_TEST (what_is_on_the_host_is_not_on_the_gpu)
{
  const Case *const c = &cases[_i];
  g_autoptr (ScTopology) t = NULL;
  g_autoptr (ScWorkload) w = NULL;
  g_autoptr (ScStepItems) items = NULL;
  g_autoptr (FixRun) r = run (c, &t, &w, &items);
  g_autoptr (GArray) changes = sc_memory_changes (r->lowered->program, r->trace, 0);
  gint64 now = 0, most = 0;
  const gint64 each = (gint64) (c->copy_ms * 1e-3 * HOST_BYTES_PER_S);
  for (guint i = 0; i < changes->len; i++)
    {
      const ScMemChange *const change = &g_array_index (changes, ScMemChange, i);
      now += change->kind == SC_MEM_ACTIVATIONS ? change->bytes : 0;
      ck_assert_int_ge (now, 0);
      most = MAX (most, now);
    }
  ck_assert_int_eq (now, 0);
  ck_assert_int_eq (most, each * (gint64) most_on_paper (c));
}
END_TEST

/* Whole forecasts: no time where copies hide, less memory, levels of detail agree. */
static const struct
{
  const char *topology, *workload, *set[6];
} whole[] = {
  { "dgx-h100-8", "llama3-8b", { "plan.offload=activations", "plan.gpus=8", "plan.global_batch=16" } },
  { "dgx-h100-8", "llama3-8b", { "plan.offload=activations", "plan.offload_layers=16", "plan.gpus=8", "plan.global_batch=16" } },
  { "dgx-h100-8", "llama3-8b-fsdp2", { "plan.offload=activations", "plan.recompute=full" } },
  { "dgx-h100-8", "llama3-8b-fsdp2", { "plan.offload=optimizer+params+activations", "plan.recompute=none" } },
};

typedef struct
{
  ScTime step;
  double peak; /* bytes */
} Outcome;

static Outcome
forecast (guint row, gboolean offload, ScDetail detail)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) set = g_ptr_array_new ();
  for (guint i = 0; whole[row].set[i] != NULL; i++)
    if (offload || !g_str_has_prefix (whole[row].set[i], "plan.offload"))
      g_ptr_array_add (set, (gpointer) (gsize) whole[row].set[i]);
  g_ptr_array_add (set, NULL);
  g_autoptr (ScTopology) t = sc_topology_load (whole[row].topology, NULL, NULL, &error);
  g_autoptr (ScWorkload) w = sc_workload_load (whole[row].workload, (char **) set->pdata, &error);
  ck_assert_msg (w != NULL, "row %u: %s", row, error != NULL ? error->message : "");
  g_autoptr (ScSummary) s = sc_forecast (t, w, &(ScForecastOptions) { .detail = detail }, &error);
  ck_assert_msg (s != NULL, "row %u: %s", row, error != NULL ? error->message : "");
  return (Outcome) { s->step, (double) s->classes[s->memory_class].peak_device_bytes };
}

START_TEST (offloading_takes_memory_and_levels_of_detail_agree)
{
  const guint row = (guint) _i;
  const Outcome before = forecast (row, FALSE, SC_DETAIL_KERNEL), fine = forecast (row, TRUE, SC_DETAIL_KERNEL);
  ck_assert_double_lt (fine.peak, before.peak);
  ck_assert_int_ge (fine.step, before.step);
  for (guint detail = SC_DETAIL_LAYER; detail < SC_N_DETAILS; detail++)
    {
      const Outcome coarse = forecast (row, TRUE, (ScDetail) detail);
      ck_assert_double_eq_tol ((double) coarse.step / (double) fine.step, 1, 0.005);
      ck_assert_double_eq_tol (coarse.peak / fine.peak, 1, 0.02);
    }
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("activations");
  TCase *const small = tcase_create ("small"), *const large = tcase_create ("whole");
  tcase_add_loop_test (small, copies_run_beside_the_next_layer, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (small, what_is_on_the_host_is_not_on_the_gpu, 0, G_N_ELEMENTS (cases));
  suite_add_tcase (suite, small);
  tcase_set_timeout (large, 300);
  tcase_add_loop_test (large, offloading_takes_memory_and_levels_of_detail_agree, 0, G_N_ELEMENTS (whole));
  suite_add_tcase (suite, large);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
