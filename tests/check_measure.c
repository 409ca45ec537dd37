/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_measure.c - the part of stepcast-measure that knows no GPU: the plan, the file, the command line, statistics. */
#include <check.h>
#include <cjson/cJSON.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "measure/json.h"
#include "measure/options.h"
#include "measure/output.h"
#include "measure/plan.h"
#include "measure/progress.h"
#include "measure/search.h"
#include "measure/stats.h"
#include "pace.h"

#define ALL_CLASSES ((1u << SCM_N_CLASSES) - 1)

/* --- plan --- */

START_TEST (every_class_is_planned_and_no_key_twice)
{
  for (int gpus = 1; gpus <= 8; gpus *= 2)
    {
      ScmPlan plan;
      guint n_of_class[SCM_N_CLASSES] = { 0 };
      g_autoptr (GHashTable) keys = g_hash_table_new (g_str_hash, g_str_equal);
      scm_plan_init (&plan, gpus, 0, ALL_CLASSES);
      for (size_t i = 0; i < plan.n_items; i++)
        {
          const ScmItem *item = &plan.items[i];
          n_of_class[item->class_id]++;
          ck_assert_msg (g_hash_table_add (keys, plan.items[i].key), "%s twice", item->key);
          ck_assert (g_str_has_prefix (item->key, scm_classes[item->class_id].name));
          ck_assert_uint_lt (strlen (item->key), sizeof item->key - 1); /* not cut */
          ck_assert_double_gt (item->seconds, 0);
        }
      for (int c = 0; c < SCM_N_CLASSES; c++)
        if (c != SCM_CLASS_collective || gpus > 1)
          ck_assert_uint_gt (n_of_class[c], 0);
        else
          ck_assert_uint_eq (n_of_class[c], 0);
      scm_plan_clear (&plan);
    }
}
END_TEST

START_TEST (every_memory_operation_is_planned_with_its_bytes)
{
  ScmPlan plan;
  guint n_of_op[SCM_N_OPS] = { 0 };
  scm_plan_init (&plan, 1, 0, 1u << SCM_CLASS_memory);
  for (size_t i = 0; i < plan.n_items; i++)
    {
      const ScmItem *item = &plan.items[i];
      n_of_op[item->memory_op]++;
      ck_assert_str_eq (item->op, scm_ops[item->memory_op].name);
      ck_assert_int_gt (item->bytes, 0);
      for (int d = 0; d < item->n_shape; d++)
        ck_assert_int_gt (item->shape[d], 0);
      ck_assert_int_eq (item->shape[item->n_shape - 1] % 8, 0); /* kernels load 16 bytes */
    }
  for (int i = 0; i < SCM_N_OPS; i++)
    ck_assert_uint_gt (n_of_op[i], 3);
  scm_plan_clear (&plan);
  ck_assert_int_eq (scm_memory_bytes (SCM_OP_add, (const int64_t[]){ 1000 }, 1), 6000);
  /* x and y of bf16, the weight, a statistic of fp32 a row */
  ck_assert_int_eq (scm_memory_bytes (SCM_OP_rmsnorm_fwd, (const int64_t[]){ 10, 64 }, 2), 4 * 640 + 10 * 4 + 64 * 2);
  ck_assert_int_eq (scm_memory_bytes (SCM_OP_rope, (const int64_t[]){ 16, 4, 128 }, 3), 4 * 16 * 4 * 128 + 16 * 64 * 8);
}
END_TEST

START_TEST (fp8_products_are_those_that_tensor_cores_take)
{
  ScmPlan plan;
  guint n = 0;
  scm_plan_init (&plan, 1, 0, 1u << SCM_CLASS_gemm | 1u << SCM_CLASS_grouped_gemm);
  for (size_t i = 0; i < plan.n_items; i++)
    {
      const ScmItem *item = &plan.items[i];
      int64_t rows = 0;
      for (int r = 0; r < item->n_rows; r++)
        rows += item->rows[r];
      if (item->class_id == SCM_CLASS_grouped_gemm)
        ck_assert_int_ge (rows, 4096);
      if (strcmp (item->dtype, "fp8") != 0)
        continue;
      n++;
      ck_assert_str_eq (item->layout, "TN");
      ck_assert_int_eq (item->n % 16, 0);
      ck_assert_int_eq (item->k % 16, 0);
      ck_assert_int_eq (item->m % 16, 0);
      for (int r = 0; r < item->n_rows; r++)
        ck_assert_int_eq (item->rows[r] % 16, 0);
    }
  ck_assert_uint_gt (n, 50);
  scm_plan_clear (&plan);
}
END_TEST

START_TEST (what_is_worth_most_comes_first_and_classes_take_turns)
{
  ScmPlan plan;
  scm_plan_init (&plan, 8, 0, ALL_CLASSES);
  guint n_tier0[SCM_N_CLASSES] = { 0 };
  for (size_t i = 0; i < plan.n_items; i++)
    {
      if (i > 0)
        ck_assert_int_ge (plan.items[i].tier, plan.items[i - 1].tier);
      if (plan.items[i].tier == 0)
        n_tier0[plan.items[i].class_id]++;
    }
  /* A quarter of the first tier has about a quarter of each of its classes. */
  guint n0 = 0, n_quarter[SCM_N_CLASSES] = { 0 };
  for (int c = 0; c < SCM_N_CLASSES; c++)
    n0 += n_tier0[c];
  for (guint i = 0; i < n0 / 4; i++)
    n_quarter[plan.items[i].class_id]++;
  for (int c = 0; c < SCM_N_CLASSES; c++)
    ck_assert_int_le (abs ((int) (4 * n_quarter[c]) - (int) n_tier0[c]), 8);
  scm_plan_clear (&plan);
}
END_TEST

START_TEST (only_the_classes_asked_for_are_planned)
{
  ScmPlan plan;
  for (int c = 0; c < SCM_N_CLASSES; c++)
    {
      scm_plan_init (&plan, 2, 0, 1u << c);
      ck_assert_uint_gt (plan.n_items, 0);
      for (size_t i = 0; i < plan.n_items; i++)
        ck_assert_int_eq (plan.items[i].class_id, c);
      for (size_t i = 0; i < plan.n_items; i++)
        ck_assert_uint_eq (scm_item_libraries (&plan.items[i]) & ~scm_classes[c].libraries, 0);
      scm_plan_clear (&plan);
      ck_assert_int_eq (scm_class_find (scm_classes[c].name), c);
    }
  ck_assert_int_eq (scm_class_find ("gem"), SCM_N_CLASSES);
}
END_TEST

static gboolean
is_planned (int gpus, const char *key)
{
  ScmPlan plan;
  gboolean found = FALSE;
  scm_plan_init (&plan, gpus, 0, ALL_CLASSES);
  for (size_t i = 0; i < plan.n_items; i++)
    found |= strcmp (plan.items[i].key, key) == 0;
  scm_plan_clear (&plan);
  return found;
}

START_TEST (what_depends_on_the_number_of_gpus_says_it)
{
  ck_assert (is_planned (8, "slowdown gemm 8192 beside collective 8 gpus"));
  ck_assert (is_planned (4, "slowdown gemm 8192 beside collective 4 gpus"));
  ck_assert (!is_planned (4, "slowdown gemm 8192 beside collective 8 gpus"));
  ck_assert (!is_planned (1, "slowdown gemm 8192 beside collective 1 gpus"));
  ck_assert (is_planned (1, "slowdown memory 67108864 beside copy h2d"));
  ck_assert (is_planned (1, "slowdown gemm 4096 beside held_sms 16"));
}
END_TEST

START_TEST (a_budget_passes_over_what_does_not_fit)
{
  ScmItem items[] = { { .seconds = 60 }, { .seconds = 1 }, { .seconds = 5 } };
  const ScmPlan plan = { items, G_N_ELEMENTS (items) };
  ck_assert_uint_eq (scm_plan_next (&plan, 0, INFINITY), 0);
  ck_assert_uint_eq (scm_plan_next (&plan, 0, 30), 1);
  ck_assert_uint_eq (scm_plan_next (&plan, 2, 4), 3);
  ck_assert_uint_eq (scm_plan_next (&plan, 0, -1), 3);
  ck_assert_uint_eq (scm_plan_next (&plan, 3, INFINITY), 3);
}
END_TEST

/* --- lines --- */

static const ScmResult a_result = { .time_us = 12.5, .spread = 0.01, .repeats = 20, .clock_mhz = 1980, .power_w = NAN,
                                    .temperature_c = 41, .alone_us = 10, .amount = 5.5e10, .seconds = 60, .tflops = 640.25 };

START_TEST (every_sample_is_one_line_of_json_with_its_class_keys)
{
  static const char *const keys[SCM_N_CLASSES] = {
    [SCM_CLASS_gemm] = "dtype layout m n k batch out_dtype accumulate",
    [SCM_CLASS_grouped_gemm] = "dtype layout rows n k accumulate how",
    [SCM_CLASS_attention] = "kind impl dtype causal batch seqlen heads kv_heads head_dim",
    [SCM_CLASS_memory] = "op dtype shape bytes",
    [SCM_CLASS_launch] = "op",
    [SCM_CLASS_copy] = "op bytes",
    [SCM_CLASS_collective] = "collective gpus bytes dtype",
    [SCM_CLASS_slowdown] = "victim beside amount alone_us factor",
    [SCM_CLASS_power] = "op dtype m n k seconds tflops",
  };
  ScmPlan plan;
  scm_plan_init (&plan, 8, 0, ALL_CLASSES);
  for (size_t i = 0; i < plan.n_items; i++)
    {
      ScmText text = { 0 };
      scm_sample_write (&text, "s\"1", "NVIDIA H200", &plan.items[i], &a_result);
      ck_assert_ptr_eq (strchr (text.bytes, '\n'), text.bytes + text.length - 1);
      cJSON *json = cJSON_Parse (text.bytes);
      ck_assert_msg (json != NULL, "%s", text.bytes);
      g_auto (GStrv) names = g_strsplit (keys[plan.items[i].class_id], " ", -1);
      for (guint k = 0; names[k] != NULL; k++)
        {
          const cJSON *value = cJSON_GetObjectItem (json, names[k]);
          ck_assert_msg (value != NULL && !cJSON_IsNull (value), "%s: no %s", text.bytes, names[k]);
        }
      ck_assert_str_eq (cJSON_GetObjectItem (json, "session")->valuestring, "s\"1");
      ck_assert_str_eq (cJSON_GetObjectItem (json, "key")->valuestring, plan.items[i].key);
      ck_assert_double_eq (cJSON_GetObjectItem (json, "time_us")->valuedouble, 12.5);
      ck_assert_ptr_null (cJSON_GetObjectItem (json, "power_w")); /* not known */
      ck_assert_int_eq (cJSON_GetObjectItem (json, "temperature_c")->valueint, 41);
      ck_assert_ptr_null (strstr (text.bytes, "nan"));
      cJSON_Delete (json);
      scm_text_clear (&text);
    }
  scm_plan_clear (&plan);
}
END_TEST

static const struct
{
  const char *line;
  gboolean good;
} lines[] = {
  { "{}", TRUE },
  { " { \"a\" : [1, 2.5e-3, {\"b\": null}], \"c\": true } ", TRUE },
  { "{\"a\":\"\\u0041\\n\\\"\"}", TRUE },
  { "{\"a\":-0.5E+10}", TRUE },
  { "", FALSE },
  { "[]", FALSE },
  { "null", FALSE },
  { "{\"a\":1", FALSE },
  { "{\"a\":1}}", FALSE },
  { "{\"a\":1,}", FALSE },
  { "{\"a\" 1}", FALSE },
  { "{a:1}", FALSE },
  { "{\"a\":nan}", FALSE },
  { "{\"a\":01}", FALSE },
  { "{\"a\":1.}", FALSE },
  { "{\"a\":+1}", FALSE },
  { "{\"a\":\"\t\"}", FALSE },
  { "{\"a\":\"\\x\"}", FALSE },
  { "{\"a\":\"\\u00", FALSE },
  { "{\"a\":\"\\", FALSE },
  { "{\"a\":[1}", FALSE },
  { "{\"a\":tru", FALSE },
};

START_TEST (json_is_read_strictly)
{
  ScmJsonField field = { .name = "a" };
  /* No byte behind the end is looked at. */
  g_autofree char *exact = g_memdup2 (lines[_i].line, strlen (lines[_i].line) + 1);
  ck_assert_msg (scm_json_read (exact, strlen (exact), &field, 1) == lines[_i].good, "%s", lines[_i].line);
}
END_TEST

START_TEST (deep_or_long_json_does_no_harm)
{
  g_autoptr (GString) deep = g_string_new ("{\"a\":");
  for (int i = 0; i < 100000; i++)
    g_string_append_c (deep, '[');
  ScmJsonField field = { .name = "a" };
  ck_assert (!scm_json_read (deep->str, deep->len, &field, 1));
  g_autoptr (GString) wide = g_string_new ("{\"a\":\"");
  for (int i = 0; i < 100000; i++)
    g_string_append_c (wide, 'x');
  g_string_append (wide, "\"}");
  ck_assert (scm_json_read (wide->str, wide->len, &field, 1));
  ck_assert_uint_eq (strlen (field.text), sizeof field.text - 1);
}
END_TEST

/* --- the file --- */

#define SESSION(name, gpu, driver, cudnn)                                                                              \
  "{\"class\":\"session\",\"format\":1,\"session\":\"" name "\",\"gpu\":\"" gpu "\",\"driver\":\"" driver            \
  "\",\"cuda\":\"13.0\",\"cublaslt\":\"13.1.0\",\"cudnn\":" cudnn ",\"nccl\":null}\n"
#define SAMPLE(class, session, key)                                                                                    \
  "{\"class\":\"" class "\",\"session\":\"" session "\",\"gpu\":\"X\",\"key\":\"" key "\",\"time_us\":1}\n"

static const ScmIdentity identity
    = { .gpu = "X", .driver = "570", .cuda = "13.0", .power_limit_w = 0, .cublaslt = "13.1.0", .cudnn = "9.19.0", .nccl = NULL };

static gboolean
has (const ScmOutput *output, const char *key)
{
  ScmItem item = { 0 };
  g_strlcpy (item.key, key, sizeof item.key);
  return scm_output_has (output, &item);
}

START_TEST (samples_of_the_same_machine_are_not_repeated)
{
  static const char text[] = SESSION ("a", "X", "570", "\"9.19.0\"") SAMPLE ("gemm", "a", "same") SAMPLE ("attention", "a", "fused")
      SESSION ("b", "X", "565", "\"9.19.0\"") SAMPLE ("gemm", "b", "older driver")
      SESSION ("c", "Y", "570", "\"9.19.0\"") SAMPLE ("gemm", "c", "other gpu")
      SESSION ("d", "X", "570", "\"9.1.0\"") SAMPLE ("gemm", "d", "cudnn does not matter")
      SAMPLE ("attention", "d", "cudnn matters") SAMPLE ("memory", "nobody", "no session")
      SESSION ("e", "X", "570", "null") SAMPLE ("memory", "e", "no library at all");
  ScmOutput output = { .fd = -1 };
  ck_assert_uint_eq (scm_output_read (&output, text, sizeof text - 1, &identity), sizeof text - 1);
  ck_assert (has (&output, "same"));
  ck_assert (has (&output, "fused"));
  ck_assert (!has (&output, "older driver"));
  ck_assert (!has (&output, "other gpu"));
  ck_assert (has (&output, "cudnn does not matter"));
  ck_assert (!has (&output, "cudnn matters"));
  ck_assert (!has (&output, "no session"));
  ck_assert (has (&output, "no library at all"));
  ck_assert_uint_eq (output.n_samples, 8);
  ck_assert_uint_eq (output.n_ignored, 0);
  scm_output_close (&output);
}
END_TEST

#define LIMITED(name, limit)                                                                                          \
  "{\"class\":\"session\",\"session\":\"" name "\",\"gpu\":\"X\",\"driver\":\"570\",\"cuda\":\"13.0\"" limit                 \
  ",\"cublaslt\":\"13.1.0\",\"cudnn\":null,\"nccl\":null}\n" SAMPLE ("gemm", name, name)

START_TEST (samples_under_another_power_limit_are_repeated)
{
  static const char text[] = LIMITED ("none", "") LIMITED ("all", ",\"power_limit_w\":700") LIMITED ("less", ",\"power_limit_w\":500")
      LIMITED ("odd", ",\"power_limit_w\":\"700\"") LIMITED ("null", ",\"power_limit_w\":null");
  static const struct
  {
    int watts;
    const char *has, *has_not[4];
  } cases[] = {
    { 0, "none", { "all", "less" } }, { 700, "all", { "none", "less", "odd", "null" } }, { 500, "less", { "none", "all", "odd", "null" } },
    { 600, NULL, { "none", "all", "less", "odd" } },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      ScmIdentity limited = identity;
      ScmOutput output = { .fd = -1 };
      limited.power_limit_w = cases[i].watts;
      scm_output_read (&output, text, sizeof text - 1, &limited);
      ck_assert (cases[i].has == NULL || has (&output, cases[i].has));
      for (guint j = 0; j < G_N_ELEMENTS (cases[i].has_not) && cases[i].has_not[j] != NULL; j++)
        ck_assert_msg (!has (&output, cases[i].has_not[j]), "%d W: %s", cases[i].watts, cases[i].has_not[j]);
      ck_assert_uint_eq (output.n_samples, 5);
      scm_output_close (&output);
    }
}
END_TEST

START_TEST (hostile_lines_are_counted_and_left)
{
  static const char text[] = SESSION ("a", "X", "570", "null") "\n\0\n"
      "not json\n[1]\n{\"class\":7}\n{\"class\":\"gemm\"}\n{\"class\":\"session\",\"session\":[]}\n"
      "{\"class\":\"gemm\",\"session\":\"a\"}\n{\"class\":\"unheard\",\"session\":\"a\",\"key\":\"k\"}\n" SAMPLE ("gemm", "a", "good")
      "{\"class\":\"gemm\",\"session\":\"a\",\"key\":\"cut";
  ScmOutput output = { .fd = -1 };
  const size_t whole = scm_output_read (&output, text, sizeof text - 1, &identity);
  ck_assert_uint_eq (whole, sizeof text - 1 - strlen ("{\"class\":\"gemm\",\"session\":\"a\",\"key\":\"cut"));
  ck_assert (has (&output, "good"));
  ck_assert (!has (&output, "cut"));
  ck_assert_uint_eq (output.n_done, 1);
  ck_assert_uint_eq (output.n_ignored, 6);
  scm_output_close (&output);
}
END_TEST

typedef struct
{
  char *folder, *path;
} Scratch;

static Scratch
scratch_new (const char *text)
{
  Scratch s = { .folder = g_dir_make_tmp ("stepcast-measure-XXXXXX", NULL) };
  ck_assert_ptr_nonnull (s.folder);
  s.path = g_build_filename (s.folder, "raw.jsonl", NULL);
  if (text != NULL)
    ck_assert (g_file_set_contents (s.path, text, -1, NULL));
  return s;
}

static void
scratch_free (Scratch *s)
{
  g_unlink (s->path);
  g_rmdir (s->folder);
  g_free (s->path);
  g_free (s->folder);
}

START_TEST (a_cut_last_line_is_taken_away_and_appending_goes_on)
{
  static const char whole[] = SESSION ("a", "X", "570", "null") SAMPLE ("memory", "a", "one");
  g_autofree char *cut = g_strconcat (whole, "{\"class\":\"memory\",\"sess", NULL);
  Scratch s = scratch_new (cut);
  ScmText message = { 0 };
  ScmOutput output;
  ck_assert_int_eq (scm_output_open (&output, s.path, &identity, &message), 0);
  ck_assert_uint_eq (output.cut_bytes, strlen (cut) - strlen (whole));
  ck_assert (has (&output, "one"));
  static const char more[] = SAMPLE ("memory", "a", "two");
  ck_assert (scm_output_append (&output, more, sizeof more - 1));
  scm_output_close (&output);
  g_autofree char *now = NULL;
  ck_assert (g_file_get_contents (s.path, &now, NULL, NULL));
  g_autofree char *expected = g_strconcat (whole, more, NULL);
  ck_assert_str_eq (now, expected);
  scratch_free (&s);
}
END_TEST

START_TEST (a_new_file_is_made_and_used_by_one_alone)
{
  Scratch s = scratch_new (NULL);
  ScmText message = { 0 };
  ScmOutput output, other;
  ck_assert_int_eq (scm_output_check (s.path, &message), 0);
  ck_assert (!g_file_test (s.path, G_FILE_TEST_EXISTS)); /* checking makes nothing */
  ck_assert_int_eq (scm_output_open (&output, s.path, &identity, &message), 0);
  ck_assert (output.created);
  ck_assert_int_eq (scm_output_open (&other, s.path, &identity, &message), SCM_STATUS_CANNOT_CREATE);
  ck_assert_ptr_nonnull (strstr (message.bytes, "another stepcast-measure"));
  scm_output_close (&output);
  scm_text_clear (&message);
  scratch_free (&s);
}
END_TEST

static const char *const foreign[] = { "# my notes\n", "{\"workload\": 1}\n", "\177ELF", "name,value\n1,2" };

START_TEST (a_file_of_something_else_is_left_alone)
{
  Scratch s = scratch_new (foreign[_i]);
  ScmText message = { 0 };
  ScmOutput output;
  ck_assert_int_eq (scm_output_open (&output, s.path, &identity, &message), SCM_STATUS_DATA);
  ck_assert_ptr_nonnull (strstr (message.bytes, "something other than raw samples"));
  g_autofree char *now = NULL;
  ck_assert (g_file_get_contents (s.path, &now, NULL, NULL));
  ck_assert_str_eq (now, foreign[_i]);
  scm_text_clear (&message);
  scratch_free (&s);
}
END_TEST

START_TEST (what_cannot_be_written_is_said_before_measuring)
{
  Scratch s = scratch_new (NULL);
  static const char *const names[] = { "no/such/raw.jsonl", "", "raw.jsonl/" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      ScmText message = { 0 };
      g_autofree char *path = g_strconcat (s.folder, "/", names[i], NULL);
      ck_assert_int_eq (scm_output_check (path, &message), SCM_STATUS_CANNOT_CREATE);
      ck_assert_ptr_nonnull (strstr (message.bytes, "cannot write"));
      scm_text_clear (&message);
    }
  scratch_free (&s);
}
END_TEST

/* --- statistics --- */

START_TEST (median_and_spread_are_those_of_the_sorted_values)
{
  double median, spread;
  double odd[] = { 3, 1, 2 };
  scm_median_spread (odd, 3, &median, &spread);
  ck_assert_double_eq (median, 2);
  double eleven[] = { 10, 0, 1, 9, 2, 8, 3, 7, 4, 6, 5 };
  scm_median_spread (eleven, 11, &median, &spread);
  ck_assert_double_eq (median, 5);
  ck_assert_double_eq_tol (spread, (9.0 - 1.0) / 5, 1e-12);
  double one[] = { 7 };
  scm_median_spread (one, 1, &median, &spread);
  ck_assert_double_eq (median, 7);
  ck_assert_double_eq (spread, 0);
  double zeros[] = { 0, 0 };
  scm_median_spread (zeros, 2, &median, &spread);
  ck_assert_double_eq (spread, 0);
  ck_assert (isnan (scm_quantile (one, 0, 0.5)));
  double four[] = { 4, 3, 2, 1 };
  ck_assert_double_eq (scm_quantile (four, 4, 0), 1);
  ck_assert_double_eq (scm_quantile (four, 4, 1), 4);
  ck_assert_double_eq (scm_quantile (four, 4, 0.5), 2.5);
}
END_TEST

/* --- the command line --- */

static const struct
{
  const char *text;
  double seconds; /* 0: refused */
} durations[] = {
  { "90", 90 }, { "90s", 90 }, { "5m", 300 }, { "1.5h", 5400 }, { "0", 0 },    { "-1", 0 },   { "", 0 },   { "m", 0 },
  { "5 m", 0 }, { "5d", 0 },   { "nan", 0 },  { "inf", 0 },     { "1e9", 0 },  { "0x10", 0 }, { "5mm", 0 },
};

START_TEST (durations_have_a_unit_or_are_seconds)
{
  double seconds = -7;
  ck_assert (scm_duration_read (durations[_i].text, &seconds) == (durations[_i].seconds > 0));
  ck_assert_double_eq (seconds, durations[_i].seconds > 0 ? durations[_i].seconds : -7);
}
END_TEST

static gboolean
read_line (ScmOptions *options, ScmText *message, const char *line)
{
  g_auto (GStrv) argv = g_strsplit (line, " ", -1);
  static char *kept[16]; /* options borrow from argv */
  const int argc = (int) g_strv_length (argv);
  for (int i = 0; i < argc; i++)
    {
      g_free (kept[i]);
      kept[i] = g_strdup (argv[i]);
    }
  return scm_options_read (options, argc, kept, message);
}

START_TEST (a_budget_ends_when_it_would_have_without_a_restart)
{
  ScmOptions options;
  ScmText message = { 0 };
  ck_assert (read_line (&options, &message, "x"));
  ck_assert_double_eq (scm_budget_end (&options, 100), INFINITY);
  ck_assert (read_line (&options, &message, "x --budget 60"));
  ck_assert_double_eq (scm_budget_end (&options, 100), 160);
  ck_assert (read_line (&options, &message, "x --budget 60 --avoid k --deadline=130.250"));
  ck_assert_double_eq (scm_budget_end (&options, 100), 130.25);
}
END_TEST

START_TEST (options_are_read_in_every_spelling)
{
  ScmOptions options;
  ScmText message = { 0 };
  ck_assert (read_line (&options, &message, "x"));
  ck_assert_str_eq (options.output, "raw.jsonl");
  ck_assert_uint_eq (options.classes, ALL_CLASSES);
  ck_assert_double_eq (options.budget_s, 0);
  ck_assert (read_line (&options, &message, "x -o a --budget 5m --only=gemm,power -g3 -v"));
  ck_assert_str_eq (options.output, "a");
  ck_assert_double_eq (options.budget_s, 300);
  ck_assert_uint_eq (options.classes, 1u << SCM_CLASS_gemm | 1u << SCM_CLASS_power);
  ck_assert_int_eq (options.gpu, 3);
  ck_assert (options.verbose);
  ck_assert (read_line (&options, &message, "x --budget=1h --budget=10 --avoid k1 --avoid=k2"));
  ck_assert_double_eq (options.budget_s, 10); /* the last counts */
  ck_assert_int_eq (options.n_avoided, 2);
  ck_assert_str_eq (options.avoided[1], "k2");
}
END_TEST

static const struct
{
  const char *line;
  const char *says;
} bad[] = {
  { "x --budget soon", "expected a time" },        { "x --gpu two", "number of a GPU" },
  { "x --only gemm,gem", "unknown class \"gem\"" }, { "x --only", "is missing" },
  { "x --help=1", "takes no value" },               { "x --outputs a", "unknown option" },
  { "x -z", "unknown option" },                     { "x a", "expected only options" },
  { "x --deadline now", "expected seconds" },       { "x --", "expected only options" },              { "x -", "expected only options" },
};

START_TEST (bad_command_lines_are_refused_in_one_line)
{
  ScmOptions options;
  ScmText message = { 0 };
  ck_assert (!read_line (&options, &message, bad[_i].line));
  ck_assert_msg (strstr (message.bytes, bad[_i].says) != NULL, "%s", message.bytes);
  ck_assert_ptr_null (strchr (message.bytes, '\n'));
  scm_text_clear (&message);
}
END_TEST

/* --- libraries --- */

static void *
note_name (const char *name, void *data)
{
  g_ptr_array_add (data, g_strdup (name));
  return strcmp (name, "/b/libx.so") == 0 ? data : NULL;
}

START_TEST (the_search_path_comes_before_the_loader)
{
  static const char *const names[] = { "libx.so.2", "libx.so", NULL };
  g_autoptr (GPtrArray) tried = g_ptr_array_new_with_free_func (g_free);
  ck_assert_ptr_eq (scm_search (names, "/a::/b:/c", note_name, tried), tried);
  static const char *const expected[] = { "/a/libx.so.2", "/a/libx.so", "/b/libx.so.2", "/b/libx.so" };
  ck_assert_uint_eq (tried->len, G_N_ELEMENTS (expected));
  for (guint i = 0; i < tried->len; i++)
    ck_assert_str_eq (tried->pdata[i], expected[i]);
  g_ptr_array_set_size (tried, 0);
  ck_assert_ptr_null (scm_search (names, NULL, note_name, tried));
  ck_assert_str_eq (tried->pdata[0], "libx.so.2"); /* the loader's */
  ck_assert_uint_gt (tried->len, 4);               /* then CUDA's folders */
}
END_TEST

static Suite *
measure_suite (void)
{
  Suite *suite = suite_create ("measure");
  TCase *tc = tcase_create ("measure");
  tcase_add_test (tc, every_class_is_planned_and_no_key_twice);
  tcase_add_test (tc, every_memory_operation_is_planned_with_its_bytes);
  tcase_add_test (tc, fp8_products_are_those_that_tensor_cores_take);
  tcase_add_test (tc, what_is_worth_most_comes_first_and_classes_take_turns);
  tcase_add_test (tc, only_the_classes_asked_for_are_planned);
  tcase_add_test (tc, what_depends_on_the_number_of_gpus_says_it);
  tcase_add_test (tc, a_budget_passes_over_what_does_not_fit);
  tcase_add_test (heavy (suite), every_sample_is_one_line_of_json_with_its_class_keys);
  tcase_add_loop_test (tc, json_is_read_strictly, 0, G_N_ELEMENTS (lines));
  tcase_add_test (tc, deep_or_long_json_does_no_harm);
  tcase_add_test (tc, samples_of_the_same_machine_are_not_repeated);
  tcase_add_test (tc, samples_under_another_power_limit_are_repeated);
  tcase_add_test (tc, hostile_lines_are_counted_and_left);
  tcase_add_test (tc, a_cut_last_line_is_taken_away_and_appending_goes_on);
  tcase_add_test (tc, a_new_file_is_made_and_used_by_one_alone);
  tcase_add_loop_test (tc, a_file_of_something_else_is_left_alone, 0, G_N_ELEMENTS (foreign));
  tcase_add_test (tc, what_cannot_be_written_is_said_before_measuring);
  tcase_add_test (tc, median_and_spread_are_those_of_the_sorted_values);
  tcase_add_loop_test (tc, durations_have_a_unit_or_are_seconds, 0, G_N_ELEMENTS (durations));
  tcase_add_test (tc, a_budget_ends_when_it_would_have_without_a_restart);
  tcase_add_test (tc, options_are_read_in_every_spelling);
  tcase_add_loop_test (tc, bad_command_lines_are_refused_in_one_line, 0, G_N_ELEMENTS (bad));
  tcase_add_test (tc, the_search_path_comes_before_the_loader);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (measure_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
