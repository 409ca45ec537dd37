/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_brief.c - steps told from fewer micro-batches, and forecasts that share a context, say what whole and single ones say: byte for byte. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "models/forecast.h"
#include "pace.h"
#include "report.h"
#include "topology-json.h"
#include "workload-json.h"

#define MAX_SET 8

typedef struct
{
  const char *topology, *workload;
  const char *set[MAX_SET + 1]; /* NULL-ended */
  gboolean whole; /* nothing is left out: too few micro-batches, or they are not alike */
} Case;

static const Case cases[] = {
  { "dgx-a100-superpod", "gpt3-175b-3d", { NULL }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.micro_batch=1" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.tp=4", "plan.pp=16", "plan.micro_batch=1" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.pp=64", "plan.global_batch=192" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.vpp=3", "plan.schedule=interleaved", "plan.micro_batch=1" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.vpp=3", "plan.schedule=interleaved", "plan.overlap_p2p=true" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.recompute=none", "plan.tp=8", "plan.sequence_parallel=true", "plan.scatter_gather=false" }, FALSE },
  { "dgx-a100-superpod", "gpt3-175b-3d", { "plan.overlap_grad=true", "plan.sharding=distributed-optimizer", "plan.overlap_param=true" }, FALSE },
  { "dgx-a100-superpod", "sc21-530b", { "plan.pp=7", "plan.gpus=504", "plan.micro_batch=1", "plan.global_batch=504" }, FALSE },
  { "dgx-a100-superpod", "megatron-175b-seqsel", { NULL }, FALSE },
  { "jean-zay-a100", "bloom-176b", { NULL }, FALSE },
  { "dgx-h100-superpod", "llama3-405b", { "plan.gpus=2048", "plan.global_batch=2048" }, FALSE },
  { "dgx-h100-8", "llama3-70b", { NULL }, FALSE },
  { "dgx-h100-8", "llama3-8b", { "plan.global_batch=1024" }, FALSE },
  { "dgx-h100-8", "mixtral-8x7b", { NULL }, TRUE },
  { "dgx-a100-superpod", "zero-bubble-1.5b", { NULL }, TRUE },
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
forecast (const Input *in, ScForecastOptions options)
{
  g_autoptr (GError) error = NULL;
  ScSummary *const s = sc_forecast (in->topology, in->workload, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  return s;
}

static char *
json_of (const ScSummary *s)
{
  GString *const text = g_string_new (NULL);
  ck_assert (sc_report_json.write (s, text, NULL));
  return g_string_free (text, FALSE);
}

static void
check_same (const Case *c, const char *what, const ScSummary *a, const ScSummary *b)
{
  g_autofree char *x = json_of (a), *y = json_of (b);
  if (strcmp (x, y) == 0)
    return;
  guint line = 0;
  g_auto (GStrv) xs = g_strsplit (x, "\n", -1), ys = g_strsplit (y, "\n", -1);
  while (strcmp (xs[line], ys[line]) == 0)
    line++;
  ck_abort_msg ("%s %s, %s: line %u: %s, not %s", c->workload, c->set[0] != NULL ? c->set[0] : "", what, line + 1, ys[line], xs[line]);
}

START_TEST (a_brief_step_says_what_the_whole_one_says)
{
  const Case *const c = &cases[_i];
  g_auto (Input) in = input_of (c);
  g_autoptr (ScSummary) whole = forecast (&in, (ScForecastOptions) { .detail = SC_DETAIL_STAGE });
  g_autoptr (ScSummary) brief = forecast (&in, (ScForecastOptions) { .detail = SC_DETAIL_STAGE, .brief = TRUE });
  check_same (c, "brief", whole, brief);
  ck_assert_msg ((brief->trace->n_ops == whole->trace->n_ops) == c->whole, "%s %s: %u of %u micro-batches", c->workload, c->set[0] != NULL ? c->set[0] : "",
                 brief->orders->m, whole->orders->m);
}
END_TEST

START_TEST (so_it_does_kernel_by_kernel)
{
  static const Case kernels[] = {
    { "dgx-a100-superpod", "gpt3-175b-3d", { "model.layers=8", "plan.global_batch=512" }, FALSE },
    { "dgx-a100-superpod", "gpt3-175b-3d", { "model.layers=16", "plan.vpp=2", "plan.schedule=interleaved", "plan.overlap_grad=true", "plan.global_batch=1024" }, FALSE },
    { "dgx-h100-8", "llama3-8b", { "model.layers=4", "plan.global_batch=512" }, FALSE },
  };
  const Case *const c = &kernels[_i / 2];
  const ScDetail detail = _i % 2 == 0 ? SC_DETAIL_KERNEL : SC_DETAIL_LAYER;
  g_auto (Input) in = input_of (c);
  g_autoptr (ScSummary) whole = forecast (&in, (ScForecastOptions) { .detail = detail });
  g_autoptr (ScSummary) brief = forecast (&in, (ScForecastOptions) { .detail = detail, .brief = TRUE });
  check_same (c, sc_detail_name (detail), whole, brief);
  ck_assert_uint_lt (brief->trace->n_ops, whole->trace->n_ops);
}
END_TEST

/* Twice, since what was kept of all others is there the second time. */
START_TEST (forecasts_that_share_a_context_say_what_single_ones_say)
{
  g_autofree char **texts = g_new0 (char *, G_N_ELEMENTS (cases));
  g_autoptr (ScTopology) topology = sc_topology_load ("dgx-a100-superpod", NULL, NULL, NULL);
  g_autoptr (ScForecastContext) context = sc_forecast_context_new (topology);
  const ScForecastOptions options = { .detail = SC_DETAIL_STAGE, .memory = SC_MEMORY_NONE, .brief = TRUE };
  ScForecastOptions sharing = options;
  sharing.context = context;
  for (guint i = 0; i < 2 * G_N_ELEMENTS (cases); i++)
    {
      const Case *const c = &cases[i % G_N_ELEMENTS (cases)];
      char **const text = &texts[i % G_N_ELEMENTS (cases)];
      if (strcmp (c->topology, "dgx-a100-superpod") != 0)
        continue;
      g_auto (Input) in = input_of (c);
      const Input shared = { topology, in.workload };
      g_autoptr (ScSummary) with = forecast (&shared, sharing);
      g_autoptr (ScSummary) without = *text == NULL ? forecast (&in, options) : NULL;
      g_autofree char *said = json_of (with);
      if (*text == NULL)
        *text = json_of (without);
      ck_assert_str_eq (said, *text);
    }
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_free (texts[i]);
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("brief");
  TCase *const tc = tcase_create ("cases");
  tcase_set_timeout (tc, 300);
  tcase_add_loop_test (slow (suite), a_brief_step_says_what_the_whole_one_says, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (heavy (suite), so_it_does_kernel_by_kernel, 0, 6);
  tcase_add_test (heavy (suite), forecasts_that_share_a_context_say_what_single_ones_say);
  suite_add_tcase (suite, tc);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
