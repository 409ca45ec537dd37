/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_validate_runs.c - published runs: read strictly, filled in by rule, forecast and judged, in any number of threads. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "pace.h"
#include "validate-runs.h"

/* With " for '. */
static ScRows *
parse (const char *text)
{
  g_autofree char *json = g_strdup (text);
  g_strdelimit (json, "'", '"');
  g_autoptr (ScRows) rows = sc_rows_new ();
  g_autoptr (GError) error = NULL;
  ck_assert_msg (sc_rows_parse (rows, "rows", json, strlen (json), &error), "%s", error != NULL ? error->message : "");
  return g_steal_pointer (&rows);
}

static ScRunsResult *
validate (const ScRows *rows, guint jobs, gboolean memory)
{
  g_autoptr (ScSystems) systems = sc_systems_load ("systems", NULL);
  const ScRunsOptions options = { .jobs = jobs, .memory = memory };
  return sc_validate_runs (rows, systems, &options);
}

static char *
fixture (void)
{
  const char *const srcdir = g_getenv ("abs_srcdir");
  return g_build_filename (srcdir != NULL ? srcdir : ".", "tests", "data", "rows", "runs.jsonl", NULL);
}

static ScRows *
load_fixture (void)
{
  g_autofree char *path = fixture ();
  g_autoptr (ScRows) rows = sc_rows_new ();
  ck_assert (sc_rows_load (rows, path, NULL));
  return g_steal_pointer (&rows);
}

#define MODEL "'model': {'family': 'gpt', 'hidden': 1024, 'layers': 8, 'heads': 16, 'vocab': 50257}, 'seq': 1024, "
#define A100(gpus) "'cluster': {'gpu': 'a100-sxm-80gb', 'gpus': " gpus ", 'gpus_per_node': 8, 'intra': 'nvswitch', 'nic_gbps_per_gpu': 200, 'fabric': 'ib'}, "
#define MEGATRON "'software': {'framework': 'megatron-lm'}, "

/* ---- Reading ---- */

START_TEST (null_is_not_stated_and_derived_time_comes_before_printed_ones)
{
  g_autoptr (ScRows) rows = parse ("{'id': 'a', " MODEL A100 ("8") MEGATRON "'plan': {'dp': 8, 'micro_batch': 4, 'global_batch': 32}, "
                                   "'measured': {'step_s': 2, 'peak_allocated_gib': null, 'oom': null}, 'derived': {'step_s': 1.5}}\n"
                                   "\n"
                                   "{" MODEL A100 ("8") MEGATRON "'plan': {'dp': 8, 'micro_batch': 4, 'global_batch': 32}, 'measured': {'oom': true}}\n");
  ck_assert_uint_eq (rows->rows->len, 2);
  const ScRow *const a = g_ptr_array_index (rows->rows, 0), *const b = g_ptr_array_index (rows->rows, 1);
  ck_assert_double_eq (a->step_s, 1.5);
  ck_assert_double_nan (a->measured.allocated_gib);
  ck_assert_int_eq (a->measured.oom, -1);
  ck_assert_int_eq (a->complete_time, -1);
  ck_assert_str_eq (b->id, "line 3");
  ck_assert_double_nan (b->step_s);
  ck_assert_int_eq (b->measured.oom, 1);
}
END_TEST

START_TEST (step_times_follow_from_what_is_printed)
{
  /* 32 sequences of 1024 tokens on 8 GPUs */
  static const struct
  {
    const char *measured;
    double step_s;
  } cases[] = {
    { "'tokens_per_s_per_gpu': 2048", 2 }, { "'samples_per_s': 8", 4 }, { "'samples_per_s_per_gpu': 8", 0.5 },
    { "'step_s': 3, 'samples_per_s': 8", 3 }, { "'samples_per_s': 0", NAN },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{" MODEL A100 ("8") "'plan': {'global_batch': 32}, 'measured': {%s}}", cases[i].measured);
      g_autoptr (ScRows) rows = parse (text);
      const ScRow *const row = g_ptr_array_index (rows->rows, 0);
      if (isnan (cases[i].step_s))
        ck_assert_double_nan (row->step_s);
      else
        ck_assert_double_eq_tol (row->step_s, cases[i].step_s, 1e-12);
    }
}
END_TEST

START_TEST (a_row_like_another_says_what_differs_and_null_is_not_as_there)
{
  g_autoptr (ScRows) rows = parse ("{'id': 'a', 'group': 'g', " MODEL A100 ("8") MEGATRON "'plan': {'dp': 8, 'tp': 1, 'micro_batch': 4, 'global_batch': 32}, "
                                   "'measured': {'step_s': 2}}\n"
                                   "{'id': 'b', 'like': 'a', 'cluster': {'gpus': 16}, 'plan': {'dp': 16, 'tp': null}, 'measured': {'oom': true}}\n"
                                   "{'id': 'c', 'like': 'b', 'plan': {'global_batch': 64}}\n");
  const ScRow *const b = g_ptr_array_index (rows->rows, 1), *const c = g_ptr_array_index (rows->rows, 2);
  ck_assert_str_eq (b->group, "g");
  ck_assert_str_eq (b->framework, "megatron-lm");
  ck_assert_uint_eq (b->cluster.gpus, 16);
  ck_assert_uint_eq (b->cluster.gpus_per_node, 8);
  ck_assert (isnan (b->step_s)); /* what was measured there was not measured here */
  ck_assert_int_eq (b->measured.oom, 1);
  ck_assert_int_eq (c->measured.oom, -1);
  const cJSON *const plan = sc_row_at (c->json->root, "plan");
  ck_assert_uint_eq (sc_row_count_at (plan, "dp", 0), 16);
  ck_assert_uint_eq (sc_row_count_at (plan, "micro_batch", 0), 4);
  ck_assert_uint_eq (sc_row_count_at (plan, "global_batch", 0), 64);
  ck_assert_ptr_null (sc_row_at (plan, "tp"));
}
END_TEST

START_TEST (keys_of_others_are_listed_once)
{
  g_autoptr (ScRows) rows = parse ("{'weather': 1, " MODEL "'plan': {}, 'measured': {'smell': 2, 'mfu': 0.4}, 'source': {'key': 'x', 'colour': 3}}\n"
                                   "{'weather': 1, " MODEL "'plan': {}}\n");
  ck_assert_uint_eq (rows->ignored->len, 3);
  ck_assert_str_eq (g_ptr_array_index (rows->ignored, 0), "weather");
  ck_assert_str_eq (g_ptr_array_index (rows->ignored, 1), "source.colour");
  ck_assert_str_eq (g_ptr_array_index (rows->ignored, 2), "measured.smell");
}
END_TEST

/* ---- Rows as workloads ---- */

/* Of the only row of @text.  NULL: *ret_why. */
static ScRowRun *
build (ScRowSystems *systems, const char *text, ScRows **ret_rows, char **ret_why)
{
  *ret_rows = parse (text);
  *ret_why = NULL;
  return sc_row_run_new (systems, g_ptr_array_index ((*ret_rows)->rows, 0), ret_why);
}

START_TEST (frameworks_follow_from_words_date_and_attention)
{
  static const struct
  {
    const char *software, *attention, *ref, *framework;
  } cases[] = {
    { "megatron-lm", "unfused", "arXiv 2104.04473", "megatron-lm 2021" }, { "megatron-lm", "unfused", "arXiv 2205.05198 table 5", "megatron-lm 2022" },
    { "megatron-lm", "unfused", "", "megatron-lm 2021" },                 { "megatron-lm", "flash", "arXiv 2104.04473", "megatron-core core" },
    { "megatron-lm', 'version': '23e00ed, TransformerEngine 2.11", "flash", "", "megatron-core 2026" },
    { "megatron-lm', 'version': 'TransformerEngine 2.9", "flash", "", "megatron-core core" },
    { "nemo", "flash", "", "megatron-core core" },                        { "deepspeed", "unfused", "", "megatron-deepspeed 2022" },
    { "deepspeed", "flash", "", "deepspeed 2023" },                       { "Nanotron", "flash", "", "nanotron 2024" },
    { "nanotron', 'version': 'v0.5", "flash", "", "nanotron 2025" },      { "nanotron'}, 'notes': 'run before a pipeline-parallel fix of nanotron', 'x': {'y': '", "flash", "", "nanotron 2024-early" },
    { "megatron-deepspeed", "unfused", "", "megatron-deepspeed 2022" },   { "megatron-deepspeed", "unfused", "of 2021", "megatron-deepspeed 2021" },
  };
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{" MODEL A100 ("8") "'software': {'framework': '%s'}, 'source': {'ref': '%s'}, "
                                               "'plan': {'dp': 8, 'micro_batch': 4, 'global_batch': 32, 'attention': '%s'}}",
                                               cases[i].software, cases[i].ref, cases[i].attention);
      g_autoptr (ScRows) rows = NULL;
      g_autofree char *why = NULL;
      g_autoptr (ScRowRun) run = build (systems, text, &rows, &why);
      ck_assert_msg (run != NULL, "%s", why);
      g_autofree char *framework = g_strdup_printf ("%s %s", run->framework->name, run->framework->version);
      ck_assert_str_eq (framework, cases[i].framework);
    }
}
END_TEST

START_TEST (every_rule_names_a_framework_that_there_is)
{
  guint n;
  const ScRowFramework *const all = sc_row_framework_all (&n);
  for (guint i = 0; i < n; i++)
    ck_assert_msg (sc_framework_find (all[i].name, all[i].version) != NULL, "%s: %s %s", all[i].framework, all[i].name, all[i].version);
}
END_TEST

START_TEST (years_are_read_off_versions_papers_and_titles)
{
  static const struct
  {
    const char *version, *ref, *title;
    guint year;
  } cases[] = {
    { "v2023.4", "", "", 2023 }, { "recipe tag v25.01.1", "", "", 2025 },      { "", "arXiv 2104.04473; x", "README 2020", 2021 },
    { "", "", "README 2020", 2020 }, { "d98e8a64ddf3", "repo@123456789012", "", 0 }, { "v0.0.4", "", "V100 experiments", 0 },
    { "NGC 23.09", "", "", 2023 },  { "", "repo@123456789012:benchmarks/model_h200_202506_lab.md", "", 2025 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{" MODEL "'plan': {}, 'software': {'framework': 'x', 'version': '%s'}, 'source': {'ref': '%s', 'title': '%s'}}",
                                               cases[i].version, cases[i].ref, cases[i].title);
      g_autoptr (ScRows) rows = parse (text);
      ck_assert_uint_eq (sc_row_year (g_ptr_array_index (rows->rows, 0)), cases[i].year);
    }
}
END_TEST

START_TEST (what_a_row_says_is_kept_and_what_it_leaves_out_is_filled_in)
{
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  g_autoptr (ScRows) rows = NULL;
  g_autofree char *why = NULL;
  g_autoptr (ScRowRun) run = build (systems,
                                    "{" MODEL A100 ("16") "'software': {'framework': 'megatron-lm'}, 'source': {'ref': 'arXiv 2104.04473'}, "
                                    "'plan': {'tp': 2, 'pp': 2, 'dp': 4, 'micro_batch': 2, 'global_batch': 32, 'attention': 'unfused', 'dtype': 'fp16', "
                                    "'scatter_gather': false, 'grad_dtype': null, 'extra': {'mood': 'fine', 'stage_layers': 'first and last stage hold one layer fewer'}}}",
                                    &rows, &why);
  ck_assert_msg (run != NULL, "%s", why);
  const ScWorkload *const w = run->workload;
  ck_assert_int_eq (w->model.norm, SC_NORM_LAYERNORM);
  ck_assert_int_eq (w->model.positions, SC_POSITIONS_LEARNED);
  ck_assert (w->model.linear_bias);
  ck_assert_double_eq (w->model.dropout, 0.1);
  ck_assert_uint_eq (w->model.vocab, 50432); /* the next multiple of 256 */
  ck_assert (!w->plan.scatter_gather);
  ck_assert (w->plan.account_for_embedding && w->plan.account_for_loss);
  ck_assert_int_eq (w->plan.grad_dtype, SC_DTYPE_FP16);
  ck_assert_uint_eq (run->ignored->len, 1);
  ck_assert_str_eq (g_ptr_array_index (run->ignored, 0), "plan.extra.mood");
  ck_assert_uint_eq (run->topology->types[0].gpus, 8);
  ck_assert_double_eq_tol (run->topology->types[0].nic_bytes_per_s.value, 200e9 / 8 * 0.978, 1e3);
}
END_TEST

START_TEST (reasons_name_what_is_missing_or_not_modelled)
{
  static const struct
  {
    const char *text, *why;
  } cases[] = {
    { "{'model': {'layers': 4}, 'plan': {}}", "missing: model.hidden, model.heads, model.vocab, seq, cluster.gpu, cluster.gpus, plan.micro_batch, software.framework" },
    { "{" MODEL A100 ("8") "'software': {'framework': 'abacus'}, 'plan': {'dp': 8, 'micro_batch': 1}}", "no framework stands for \"abacus\"" },
    { "{" MODEL A100 ("8") MEGATRON "'plan': {'dp': 4, 'micro_batch': 1, 'global_batch': 8}}", "the plan has 4 GPUs, the cluster 8" },
    { "{" MODEL A100 ("8") MEGATRON "'plan': {'dp': 8, 'micro_batch': 1, 'global_batch': 8, 'extra': {'task': 'lora'}}}",
      "lora trains a part of the weights only, which is not modelled" },
    { "{" MODEL A100 ("8") MEGATRON "'plan': {'dp': 8, 'micro_batch': 1, 'global_batch': 8, 'glue': 1}}", "/plan/glue: unknown key" },
  };
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (ScRows) rows = NULL;
      g_autofree char *why = NULL;
      g_autoptr (ScRowRun) run = build (systems, cases[i].text, &rows, &why);
      ck_assert_ptr_null (run);
      ck_assert_msg (g_str_has_prefix (why, cases[i].why), "%s", why);
    }
}
END_TEST

START_TEST (stages_are_as_the_row_tells_them)
{
  /* h 1024, s 1024: a layer is 72 x 1024 + 12 x 1024, a head of 28,672 words 2 layers; 8 layers on 4 stages are 2 2 3 1 */
  static const struct
  {
    const char *framework, *plan;
    guint layers, of[4];
  } cases[] = {
    { "megatron-lm", "'extra': {'vocab_method': 'transformer layers redistributed to balance compute'}", 8, { 2, 2, 3, 1 } },
    { "megatron-lm", "'extra': {'vocab_method': 'output and input layers sit on the last / first stage'}", 8, { 2, 2, 2, 2 } },
    { "megatron-lm", "'extra': {'stage_layers': [1, 3, 3, 1]}", 8, { 1, 3, 3, 1 } },
    { "megatron-lm", "'extra': {'stage_layers': 'embeddings take one slot each at both ends'}", 6, { 1, 2, 2, 1 } },
    { "nemo", "'attention': 'flash'", 7, { 2, 2, 2, 1 } }, /* the core needs slots that divide: the head is one */
    { "nemo", "'attention': 'flash'", 6, { 1, 2, 2, 1 } },
  };
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{'model': {'family': 'gpt', 'hidden': 1024, 'layers': %u, 'heads': 16, 'vocab': 28672}, 'seq': 1024, " A100 ("4")
                                               "'software': {'framework': '%s'}, 'plan': {'pp': 4, 'dp': 1, 'micro_batch': 1, 'global_batch': 8, %s}}",
                                               cases[i].layers, cases[i].framework, cases[i].plan);
      g_autoptr (ScRows) rows = NULL;
      g_autofree char *why = NULL;
      g_autoptr (ScRowRun) run = build (systems, text, &rows, &why);
      ck_assert_msg (run != NULL, "%s", why);
      g_autofree guint *layers = sc_workload_stage_layers (run->workload);
      for (guint stage = 0; stage < 4; stage++)
        ck_assert_msg (layers[stage] == cases[i].of[stage], "case %u: stage %u has %u layers", i, stage, layers[stage]);
    }
}
END_TEST

START_TEST (tables_at_both_ends_of_one_rank_are_two)
{
  static const char *const plans[] = { "'pp': 4, 'schedule': '1f1b'", "'pp': 4, 'vpp': 2, 'schedule': 'v-half'", "'pp': 4, 'vpp': 2, 'schedule': 'v-min'" };
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  for (guint i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      g_autofree char *text = g_strdup_printf ("{'model': {'family': 'gpt', 'hidden': 1024, 'layers': 8, 'heads': 16, 'vocab': 28672, 'tied_embeddings': true}, 'seq': 1024, " A100 ("4")
                                               MEGATRON "'plan': {'dp': 1, 'micro_batch': 1, 'global_batch': 8, 'attention': 'flash', %s}}", plans[i]);
      g_autoptr (ScRows) rows = NULL;
      g_autofree char *why = NULL;
      g_autoptr (ScRowRun) run = build (systems, text, &rows, &why);
      ck_assert_msg (run != NULL, "%s", why);
      ck_assert_int_eq (run->workload->model.tied_embeddings, i == 0);
    }
}
END_TEST

/* The public collection that the rules were made on, where it is at hand. */
START_TEST (at_most_two_of_a_hundred_complete_rows_become_no_workload)
{
  static const char *const files[] = { "rows.jsonl", "rows-nanotron.jsonl", "rows-vtrain.jsonl", "rows-golden.jsonl" };
  const char *const srcdir = g_getenv ("abs_srcdir");
  g_autoptr (ScRows) rows = sc_rows_new ();
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *path = g_build_filename (srcdir != NULL ? srcdir : ".", "..", "shared", "published", files[i], NULL);
      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        return;
      ck_assert (sc_rows_load (rows, path, NULL));
    }
  g_autoptr (ScSystems) rules = sc_systems_load ("systems", NULL);
  g_autoptr (ScRowSystems) systems = sc_row_systems_new (rules);
  guint complete = 0, skipped = 0;
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind != SC_PUBLISHED_TRAINING || (row->complete_time != 1 && row->complete_memory != 1))
        continue;
      g_autofree char *why = NULL;
      g_autoptr (ScRowRun) run = sc_row_run_new (systems, row, &why);
      ck_assert ((run == NULL) == (why != NULL));
      complete++;
      skipped += run == NULL;
    }
  ck_assert_msg (skipped * 50 <= complete, "%u of %u", skipped, complete);
}
END_TEST

/* ---- Judging ---- */

/* Peaks behind the last backward as rank 0 printed them in the Ultra-Scale Playbook's sweep (nanotron, H100, 4,096 tokens, vocabulary of 131,072, SwiGLU):
 * 20 bytes of a parameter with DistributedDataParallel's buckets, 18 without, 10 + 14 / dp where ZeRO gathers weights through copies; buffers that hold
 * gathered inputs and gradients; stages of about equal cost. */
START_TEST (nanotrons_allocated_memory_is_what_is_held_behind_the_last_backward)
{
  static const struct
  {
    guint hidden, layers, heads, ffn;
    gboolean tied;
    const char *sharding;
    guint tp, pp, dp, micro_batch;
    double gib;
  } cases[] = {
    { 2048, 16, 32, 8192, TRUE, "none", 1, 1, 8, 1, 25.07 },  { 2048, 16, 32, 8192, TRUE, "none", 1, 1, 8, 2, 25.07 },
    { 2048, 16, 32, 8192, TRUE, "none", 4, 1, 2, 16, 6.82 },  { 2048, 16, 32, 8192, TRUE, "none", 8, 1, 1, 16, 3.39 },
    { 2048, 16, 32, 8192, TRUE, "zero1", 1, 1, 16, 1, 13.66 }, { 2048, 16, 32, 8192, TRUE, "none", 1, 2, 4, 1, 17.57 },
    { 2048, 16, 32, 8192, TRUE, "none", 1, 8, 1, 1, 7.94 },   { 3072, 28, 32, 8192, TRUE, "zero1", 2, 4, 4, 1, 8.34 },
    { 4096, 32, 32, 14336, FALSE, "zero1", 1, 16, 2, 1, 20.12 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf (
          "{'model': {'family': 'llama', 'hidden': %u, 'layers': %u, 'heads': %u, 'ffn': %u, 'vocab': 131072, 'gated_mlp': true, 'tied_embeddings': %s}, 'seq': 4096, "
          "'cluster': {'gpu': 'h100-sxm-80gb', 'gpus': %u, 'gpus_per_node': 8, 'intra': 'nvswitch', 'nic_gbps_per_gpu': 400, 'fabric': 'efa'}, "
          "'software': {'framework': 'nanotron'}, 'plan': {'tp': %u, 'pp': %u, 'dp': %u, 'sharding': '%s', 'sequence_parallel': %s, 'micro_batch': %u, "
          "'global_batch': %u, 'dtype': 'bf16', 'grad_dtype': 'fp32'}, 'measured': {'peak_allocated_gib': %g, 'peak_reserved_gib': 80}}",
          cases[i].hidden, cases[i].layers, cases[i].heads, cases[i].ffn, cases[i].tied ? "true" : "false", cases[i].tp * cases[i].pp * cases[i].dp, cases[i].tp, cases[i].pp,
          cases[i].dp, cases[i].sharding, cases[i].tp > 1 ? "true" : "false", cases[i].micro_batch, cases[i].dp * cases[i].micro_batch * 16, cases[i].gib);
      g_autoptr (ScRows) rows = parse (text);
      g_autoptr (ScRunsResult) r = validate (rows, 1, TRUE);
      const ScRunResult *const run = g_ptr_array_index (r->runs, 0);
      ck_assert_msg (run->why == NULL, "%s", run->why);
      ck_assert_msg (fabs (sc_run_peak_error (run, SC_PEAK_ALLOCATED)) < 0.003, "%u: %+.4f", i, sc_run_peak_error (run, SC_PEAK_ALLOCATED));
      ck_assert_double_gt (run->peak_gib[SC_PEAK_RESERVED], 1.1 * run->peak_gib[SC_PEAK_ALLOCATED]);
    }
}
END_TEST

/* Reserved memory of the same sweep: what autograd keeps (queries in a copy with keys and values), moments in what the first step's activations leave, inputs of
 * reduce-scatters that wait for their GPU, the second step alone where the first gave cached segments back. */
START_TEST (nanotrons_reserved_memory_is_what_its_tensors_leave_room_for)
{
  static const struct
  {
    guint hidden, layers, heads, ffn;
    gboolean tied;
    const char *sharding;
    guint tp, pp, dp, micro_batch, n;
    double gib;
  } cases[] = {
    { 2048, 16, 32, 8192, TRUE, "none", 1, 2, 4, 1, 64, 26.78 },     { 3072, 28, 32, 8192, TRUE, "none", 1, 2, 4, 1, 64, 59.66 },
    { 3072, 28, 32, 8192, TRUE, "none", 1, 8, 4, 1, 64, 33.53 },     { 4096, 32, 32, 14336, FALSE, "none", 1, 8, 4, 1, 64, 65.76 },
    { 4096, 32, 32, 14336, FALSE, "zero1", 1, 8, 4, 2, 32, 77.06 },  { 2048, 16, 32, 8192, TRUE, "none", 4, 1, 4, 4, 16, 21.59 },
    { 8192, 80, 64, 28672, FALSE, "zero1", 8, 2, 16, 2, 8, 64.31 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf (
          "{'model': {'family': 'llama', 'hidden': %u, 'layers': %u, 'heads': %u, 'ffn': %u, 'vocab': 131072, 'gated_mlp': true, 'tied_embeddings': %s}, 'seq': 4096, "
          "'cluster': {'gpu': 'h100-sxm-80gb', 'gpus': %u, 'gpus_per_node': 8, 'intra': 'nvswitch', 'nic_gbps_per_gpu': 400, 'fabric': 'efa'}, "
          "'software': {'framework': 'nanotron'}, 'plan': {'tp': %u, 'pp': %u, 'dp': %u, 'sharding': '%s', 'sequence_parallel': %s, 'micro_batch': %u, "
          "'global_batch': %u, 'dtype': 'bf16', 'grad_dtype': 'fp32'}, 'measured': {'peak_reserved_gib': %g}}",
          cases[i].hidden, cases[i].layers, cases[i].heads, cases[i].ffn, cases[i].tied ? "true" : "false", cases[i].tp * cases[i].pp * cases[i].dp, cases[i].tp, cases[i].pp,
          cases[i].dp, cases[i].sharding, cases[i].tp > 1 ? "true" : "false", cases[i].micro_batch, cases[i].dp * cases[i].micro_batch * cases[i].n, cases[i].gib);
      g_autoptr (ScRows) rows = parse (text);
      g_autoptr (ScRunsResult) r = validate (rows, 1, TRUE);
      const ScRunResult *const run = g_ptr_array_index (r->runs, 0);
      ck_assert_msg (run->why == NULL, "%s", run->why);
      ck_assert_msg (fabs (sc_run_peak_error (run, SC_PEAK_RESERVED)) < 0.05, "%u: %+.4f", i, sc_run_peak_error (run, SC_PEAK_RESERVED));
    }
}
END_TEST

/* arXiv 1910.02054, table 1. */
START_TEST (model_states_are_as_zero_counts_them)
{
  static const struct
  {
    const char *sharding;
    guint dp;
    double params_b, gb;
  } cases[] = { { "zero1", 64, 7.5, 31.4 }, { "zero2", 64, 7.5, 16.6 }, { "zero3", 64, 7.5, 1.88 }, { "zero3", 1024, 1000, 15.6 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{'kind': 'analytic-memory', 'model': {'params_b': %g}, 'plan': {'dp': %u, 'sharding': '%s', 'dtype': 'fp16'}, "
                                               "'measured': {'model_state_gb': %g}}",
                                               cases[i].params_b, cases[i].dp, cases[i].sharding, cases[i].gb);
      g_autoptr (ScRows) rows = parse (text);
      g_autoptr (ScRunsResult) r = validate (rows, 1, TRUE);
      const ScRunResult *const run = g_ptr_array_index (r->runs, 0);

      ck_assert_double_eq_tol (sc_run_peak_error (run, SC_PEAK_STATES), 0, 0.005);
    }
}
END_TEST

START_TEST (errors_of_five_are_as_by_hand)
{
  double errors[] = { 0.1, -0.4, 0.2, 0, -0.1 };
  const ScRowErrors e = sc_row_errors_of (errors, 5);
  ck_assert_uint_eq (e.n, 5);
  ck_assert_double_eq_tol (e.mean_abs, 0.16, 1e-12);
  ck_assert_double_eq_tol (e.median_abs, 0.1, 1e-12);
  ck_assert_double_eq_tol (e.p90_abs, 0.2 + 0.6 * 0.2, 1e-12);
  ck_assert_double_eq_tol (e.signed_mean, -0.04, 1e-12);
  ck_assert_double_eq_tol (e.signed_median, 0, 1e-12);
  ck_assert_double_eq (e.worst, -0.4);
  ck_assert_double_nan (sc_row_errors_of (NULL, 0).mean_abs);
}
END_TEST

START_TEST (threads_do_not_change_a_byte)
{
  g_autoptr (ScRows) rows = load_fixture ();
  for (guint memory = 0; memory < 2; memory++)
    for (const ScRunsFormat *format = sc_runs_formats (); format->name != NULL; format++)
      {
        g_autoptr (ScRunsResult) one = validate (rows, 1, memory);
        g_autoptr (ScRunsResult) five = validate (rows, 5, memory);
        g_autoptr (GString) a = g_string_new (NULL);
        g_autoptr (GString) b = g_string_new (NULL);
        format->write (one, memory, a);
        format->write (five, memory, b);
        ck_assert_str_eq (a->str, b->str);
      }
}
END_TEST

START_TEST (a_row_alone_is_forecast_as_among_others)
{
  g_autoptr (ScRows) rows = load_fixture ();
  g_autoptr (ScSystems) systems = sc_systems_load ("systems", NULL);
  g_autoptr (ScRunsResult) all = validate (rows, 1, FALSE);
  for (guint i = 0; i < all->runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (all->runs, i);
      const ScRunsOptions options = { .jobs = 1, .filter = run->row->id };
      g_autoptr (ScRunsResult) alone = sc_validate_runs (rows, systems, &options);
      const ScRunResult *const same = g_ptr_array_index (alone->runs, 0);
      ck_assert_str_eq (same->row->id, run->row->id);
      ck_assert_str_eq (same->why != NULL ? same->why : "", run->why != NULL ? run->why : "");
      ck_assert (same->step_s == run->step_s || (isnan (same->step_s) && isnan (run->step_s)));
      ck_assert (same->fill == run->fill || (isnan (same->fill) && isnan (run->fill)));
    }
}
END_TEST

START_TEST (every_row_is_judged_or_has_a_reason_and_the_counts_add_up)
{
  g_autoptr (ScRows) rows = load_fixture ();
  for (guint memory = 0; memory < 2; memory++)
    {
      g_autoptr (ScRunsResult) r = validate (rows, 2, memory);
      ck_assert_uint_eq (r->runs->len, rows->rows->len);
      guint judged = 0, in_sources = 0;
      for (guint i = 0; i < r->runs->len; i++)
        {
          const ScRunResult *const run = g_ptr_array_index (r->runs, i);
          ck_assert ((run->why == NULL) == ((isfinite (run->step_s) && isfinite (run->fill)) || isfinite (run->peak_gib[SC_PEAK_STATES])));
          judged += run->why == NULL;
        }
      for (guint i = 0; i < r->sources->len; i++)
        in_sources += ((const ScSourceResult *) g_ptr_array_index (r->sources, i))->rows;
      ck_assert_uint_eq (in_sources, r->all.rows);
      ck_assert_uint_eq (judged + r->all.skipped, r->all.asked);
      ck_assert_uint_eq (r->all.asked + r->all.incomplete + r->all.out_of_scope, r->all.rows);
      g_autoptr (GArray) reasons = sc_runs_skip_reasons (r);
      guint skipped = 0;
      for (guint i = 0; i < reasons->len; i++)
        skipped += g_array_index (reasons, ScSkipReason, i).n;
      ck_assert_uint_eq (skipped, r->all.skipped);
    }
}
END_TEST

START_TEST (ranks_are_held_against_their_own_stage)
{
  g_autoptr (ScRows) rows = load_fixture ();
  g_autoptr (ScRunsResult) r = validate (rows, 1, TRUE);
  for (guint i = 0; i < r->runs->len; i++)
    {
      const ScRunResult *const run = g_ptr_array_index (r->runs, i);
      if (run->row->measured.n_ranks == 0)
        continue;
      double most = 0;
      for (guint k = 0; k < run->row->measured.n_ranks; k++)
        most = MAX (most, run->allocated_gib[k]);
      ck_assert_double_eq (most, run->peak_gib[SC_PEAK_ALLOCATED]);
      ck_assert_double_ne (run->allocated_gib[0], run->allocated_gib[7]); /* two stages */
      return;
    }
  ck_abort_msg ("no row has ranks");
}
END_TEST

START_TEST (groups_are_ranked_by_pairs_that_differ)
{
  g_autoptr (ScRows) rows = load_fixture ();
  g_autoptr (ScRunsResult) r = validate (rows, 1, FALSE);
  ck_assert_uint_eq (r->groups->len, 1);
  const ScGroupResult *const g = g_ptr_array_index (r->groups, 0);
  guint pairs = 0;
  double order = 0;
  for (guint i = 0; i < r->runs->len; i++)
    for (guint j = 0; j < i; j++)
      {
        const ScRunResult *const a = g_ptr_array_index (r->runs, i), *const b = g_ptr_array_index (r->runs, j);
        if (g_strcmp0 (a->row->group, g->name) != 0 || g_strcmp0 (b->row->group, g->name) != 0
            || MAX (a->row->step_s, b->row->step_s) <= (1 + SC_GROUP_DIFFERENCE) * MIN (a->row->step_s, b->row->step_s))
          continue;
        pairs++;
        order += (a->row->step_s < b->row->step_s) == (a->step_s < b->step_s) ? 1 : -1;
      }
  ck_assert_uint_eq (g->n_pairs, pairs);
  ck_assert_double_eq_tol (g->tau, order / pairs, 1e-12);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("validate-runs");
  TCase *reading = tcase_create ("reading"), *plans = tcase_create ("plans"), *judging = tcase_create ("judging");
  tcase_set_timeout (judging, 300);
  tcase_add_test (reading, null_is_not_stated_and_derived_time_comes_before_printed_ones);
  tcase_add_test (reading, step_times_follow_from_what_is_printed);
  tcase_add_test (reading, keys_of_others_are_listed_once);
  tcase_add_test (reading, a_row_like_another_says_what_differs_and_null_is_not_as_there);
  tcase_add_test (plans, frameworks_follow_from_words_date_and_attention);
  tcase_add_test (plans, every_rule_names_a_framework_that_there_is);
  tcase_add_test (plans, years_are_read_off_versions_papers_and_titles);
  tcase_add_test (plans, what_a_row_says_is_kept_and_what_it_leaves_out_is_filled_in);
  tcase_add_test (plans, reasons_name_what_is_missing_or_not_modelled);
  tcase_set_timeout (plans, 300);
  tcase_add_test (plans, at_most_two_of_a_hundred_complete_rows_become_no_workload);
  tcase_add_test (plans, stages_are_as_the_row_tells_them);
  tcase_add_test (plans, tables_at_both_ends_of_one_rank_are_two);
  tcase_add_test (heavy (s), nanotrons_allocated_memory_is_what_is_held_behind_the_last_backward);
  tcase_add_test (heavy (s), nanotrons_reserved_memory_is_what_its_tensors_leave_room_for);
  tcase_add_test (judging, model_states_are_as_zero_counts_them);
  tcase_add_test (judging, errors_of_five_are_as_by_hand);
  tcase_add_test (slow (s), threads_do_not_change_a_byte);
  tcase_add_test (heavy (s), a_row_alone_is_forecast_as_among_others);
  tcase_add_test (heavy (s), every_row_is_judged_or_has_a_reason_and_the_counts_add_up);
  tcase_add_test (judging, ranks_are_held_against_their_own_stage);
  tcase_add_test (heavy (s), groups_are_ranked_by_pairs_that_differ);
  suite_add_tcase (s, reading);
  suite_add_tcase (s, plans);
  suite_add_tcase (s, judging);
  SRunner *runner = srunner_create (s);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
