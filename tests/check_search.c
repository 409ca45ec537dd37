/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_search.c - a search finds what looking at every plan finds, and its bounds save most of the work. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "pace.h"
#include "search.h"
#include "topology-json.h"
#include "workload-json.h"

#define TOP 5

static const struct
{
  const char *topology, *workload;
  guint gpus, global_batch;
  const char *schedules[4];
} spaces[] = {
  { "dgx-h100-8", "llama3-8b", 4, 4, { NULL } },
  { "dgx-h100-8", "llama3-8b", 8, 4, { NULL } },
  { "dgx-a100", "gpt-7.5b-zero2", 4, 8, { NULL } },
  { "dgx-a100", "sc21-7.5b", 4, 16, { "zb-h1", "zb-v", "gpipe", NULL } },
};

typedef struct
{
  ScTopology *topology;
  ScWorkload *workload;
  char *file, *text;
  gsize length;
} Inputs;

static void
inputs_clear (Inputs *in)
{
  sc_topology_free (in->topology);
  sc_workload_free (in->workload);
  g_free (in->file);
  g_free (in->text);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Inputs, inputs_clear)

static ScSearch *
search (const Inputs *in, guint gpus, guint global_batch, const char *const *schedules, guint jobs, gboolean exhaustive)
{
  const ScSearchInput how = { .topology = in->topology, .workload = in->workload, .workload_file = in->file, .workload_text = in->text, .workload_length = in->length,
                              .gpus = gpus, .global_batch = global_batch, .schedules = schedules, .top = TOP, .jobs = jobs, .exhaustive = exhaustive };
  g_autoptr (GError) error = NULL;
  ScSearch *const s = sc_search (&how, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (s->n_plans, s->n_refused + s->n_memory + s->n_time + s->n_simulated);
  return s;
}

static void
assert_same_best (const ScSearch *a, const ScSearch *b)
{
  ck_assert_uint_eq (a->best->len, b->best->len);
  for (guint i = 0; i < a->best->len; i++)
    {
      const ScSearchFound *const x = g_ptr_array_index (a->best, i), *const y = g_ptr_array_index (b->best, i);
      ck_assert_uint_eq (x->number, y->number);
      ck_assert_double_eq (x->step_s, y->step_s);
      ck_assert_double_eq (x->confirmed_s, y->confirmed_s);
      ck_assert_double_le (x->bound_s, x->step_s);
    }
}

START_TEST (bounds_hide_none_of_the_best)
{
  g_auto (Inputs) in = { .topology = sc_topology_load (spaces[_i].topology, NULL, NULL, NULL), .workload = sc_workload_load (spaces[_i].workload, NULL, NULL) };
  in.text = sc_library_load (SC_KIND_WORKLOAD, spaces[_i].workload, &in.file, &in.length, NULL);
  ck_assert (in.topology != NULL && in.workload != NULL && in.text != NULL);
  g_autoptr (ScSearch) all = search (&in, spaces[_i].gpus, spaces[_i].global_batch, spaces[_i].schedules, 1, TRUE);
  g_autoptr (ScSearch) one = search (&in, spaces[_i].gpus, spaces[_i].global_batch, spaces[_i].schedules, 1, FALSE);
  g_autoptr (ScSearch) many = search (&in, spaces[_i].gpus, spaces[_i].global_batch, spaces[_i].schedules, 3, FALSE);
  ck_assert_uint_eq (all->n_simulated, all->n_plans - all->n_refused);
  ck_assert_uint_gt (all->best->len, 0);
  assert_same_best (all, one);
  assert_same_best (one, many);
  ck_assert_uint_eq (one->n_simulated, many->n_simulated); /* threads change nothing */
  ck_assert_uint_lt (one->n_simulated, all->n_simulated);
  /* The front is made of plans that fit, faster ones first, leaner ones last. */
  for (guint i = 1; i < one->front->len; i++)
    {
      const ScSearchFound *const x = g_ptr_array_index (one->front, i - 1), *const y = g_ptr_array_index (one->front, i);
      ck_assert_double_le (x->step_s, y->step_s);
      ck_assert_uint_gt (x->device_bytes, y->device_bytes);
    }
}
END_TEST

/* The workload that it prints is one that runs, and as fast as it says. */
START_TEST (the_workload_of_the_best_is_a_file)
{
  g_auto (Inputs) in = { .topology = sc_topology_load ("dgx-h100-8", NULL, NULL, NULL), .workload = sc_workload_load ("llama3-8b", NULL, NULL) };
  in.text = sc_library_load (SC_KIND_WORKLOAD, "llama3-8b", &in.file, &in.length, NULL);
  const ScSearchInput how = { .topology = in.topology, .workload = in.workload, .workload_file = in.file, .workload_text = in.text, .workload_length = in.length,
                              .gpus = 4, .global_batch = 4, .top = 1, .jobs = 1 };
  g_autoptr (ScSearch) s = sc_search (&how, NULL);
  ck_assert_ptr_nonnull (s);
  const ScSearchFound *const best = g_ptr_array_index (s->best, 0);
  g_autofree char *text = sc_search_workload (&how, best, NULL);
  g_autoptr (ScWorkload) w = sc_workload_from_text ("best.json", text, strlen (text), NULL, NULL);
  ck_assert_ptr_nonnull (w);
  g_autoptr (ScSummary) summary = sc_forecast (in.topology, w, NULL, NULL);
  ck_assert_ptr_nonnull (summary);
  ck_assert_double_eq (sc_time_to_s (summary->step), best->confirmed_s);
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("search");
  tcase_add_loop_test (slow (suite), bounds_hide_none_of_the_best, 0, G_N_ELEMENTS (spaces));
  tcase_add_test (heavy (suite), the_workload_of_the_best_is_a_file);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
