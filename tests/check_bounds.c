/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_bounds.c - no plan is faster, or leaner, than its bounds say; and they are near enough to be of use. */
#include <check.h>
#include <stdlib.h>
#include "models/bounds.h"
#include "models/forecast.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"

/* Plans of every kind: the last words are overrides. */
static const char *const plans[] = {
  "dgx-h100-8 llama3-8b plan.gpus=8 plan.global_batch=32",
  "dgx-h100-8 llama3-8b plan.gpus=8 plan.global_batch=32 plan.tp=1 plan.sequence_parallel=false plan.recompute=full",
  "dgx-h100-8 llama3-70b",
  "dgx-h100-8 llama3-70b plan.vpp=1 plan.schedule=1f1b plan.overlap_p2p=false plan.recompute=selective plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=1 plan.schedule=zb-h1 plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=2 plan.schedule=zb-v plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=1 plan.schedule=zb-h2 plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=2 plan.schedule=v-half plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=2 plan.schedule=v-min plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=2 plan.schedule=dualpipev plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=2 plan.schedule=looped-bfs plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=1 plan.schedule=gpipe plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.vpp=1 plan.schedule=dualpipe plan.global_batch=32",
  "dgx-h100-8 llama3-70b plan.cp=2 plan.pp=2 plan.global_batch=32",
  "dgx-h100-8 llama3-8b-fsdp2",
  "dgx-a100-superpod gpt3-175b-3d plan.global_batch=192",
  "dgx-a100-superpod gpt3-175b-3d plan.global_batch=192 plan.recompute=none plan.pp=16",
  "dgx-a100-superpod gpt3-175b-3d plan.global_batch=192 plan.tp=4 plan.micro_batch=1",
  "dgx-a100-superpod gpt-7.5b-zero3",
  "dgx-a100-superpod gpt-7.5b-zero2",
  "dgx-h100-superpod mixtral-8x7b plan.global_batch=128",
  "dgx-h100-superpod qwen3-235b plan.schedule=dualpipev plan.vpp=2 plan.global_batch=512",
  "dgx-h100-superpod qwen3-235b plan.schedule=interleaved-a2a plan.global_batch=512",
  "dgx-a100-superpod zero-bubble-1.5b plan.schedule=zb-h2 plan.vpp=1 plan.profiled_ms=null plan.global_batch=90",
  "dgx-a100-superpod bloom-176b plan.global_batch=96",
};

static ScSummary *
forecast (const char *plan, ScTopology **ret_topology, ScWorkload **ret_workload)
{
  g_auto (GStrv) words = g_strsplit (plan, " ", -1);
  g_autoptr (GError) error = NULL;
  *ret_topology = sc_topology_load (words[0], words + 2, NULL, &error);
  *ret_workload = *ret_topology != NULL ? sc_workload_load (words[1], words + 2, &error) : NULL;
  const ScForecastOptions how = { .detail = SC_DETAIL_STAGE };
  ScSummary *const summary = *ret_workload != NULL ? sc_forecast (*ret_topology, *ret_workload, &how, &error) : NULL;
  ck_assert_msg (summary != NULL, "%s: %s", plan, error != NULL ? error->message : "");
  return summary;
}

START_TEST (bounds_hold_and_are_of_use)
{
  g_autoptr (ScTopology) topology = NULL;
  g_autoptr (ScWorkload) workload = NULL;
  g_autoptr (ScSummary) s = forecast (plans[_i], &topology, &workload);
  const ScBounds b = sc_bounds (topology, workload, NULL);
  const double step = sc_time_to_s (s->step);
  double most = 0;
  for (guint i = 0; i < s->n_classes; i++)
    most = MAX (most, (double) s->classes[i].peak_device_bytes);
  double least = 0;
  ck_assert (sc_forecast_least (topology, workload, NULL, &least, NULL));
  ck_assert_msg (least <= step, "%s: replayed %g s, step %g s", plans[_i], least, step);
  ck_assert_msg (least == 0 || least > 0.85 * step, "%s: replayed %g s, step %g s", plans[_i], least, step);
  ck_assert_msg (b.step_s <= step, "%s: bound %g s, step %g s", plans[_i], b.step_s, step);
  ck_assert_msg (b.device_bytes <= most, "%s: bound %g, peak %g", plans[_i], b.device_bytes, most);
  ck_assert_msg (b.step_s > 0.3 * step, "%s: bound %g s, step %g s", plans[_i], b.step_s, step);
  ck_assert_msg (b.device_bytes > 0.2 * most, "%s: bound %g, peak %g", plans[_i], b.device_bytes, most);
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("bounds");
  tcase_add_loop_test (heavy (suite), bounds_hold_and_are_of_use, 0, G_N_ELEMENTS (plans));
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
