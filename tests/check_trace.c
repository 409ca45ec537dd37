/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_trace.c - traces of real steps: the fields of every event, chosen ranks, files of each rank, compression. */
#include <check.h>
#include <cJSON.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "models/forecast.h"
#include "models/layout.h"
#include "report-trace.h"
#include "topology-json.h"
#include "workload-json.h"

#define MOST_BYTES (64 << 20)

typedef struct
{
  ScTopology *topology;
  ScWorkload *workload;
  ScSummary  *summary;
  char *folder;
} Step;

static void
step_clear (Step *s)
{
  sc_summary_free (s->summary);
  sc_workload_free (s->workload);
  sc_topology_free (s->topology);
  ck_assert_msg (g_rmdir (s->folder) == 0, "something was left in %s", s->folder);
  g_free (s->folder);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Step, step_clear)

/* TP 8, PP 4, DP 2. */
static Step
step_of (ScDetail detail)
{
  char batch[] = "plan.global_batch=16", *set[] = { batch, NULL };
  Step s = { .topology = sc_topology_load ("dgx-h100-8", NULL, NULL, NULL), .workload = sc_workload_load ("llama3-70b", set, NULL) };
  const ScForecastOptions how = { .detail = detail, .memory = SC_MEMORY_ALL };
  s.summary = sc_forecast (s.topology, s.workload, &how, NULL);
  s.folder = g_dir_make_tmp ("check-trace-XXXXXX", NULL);
  ck_assert (s.summary != NULL && s.folder != NULL);
  return s;
}

/* Reads a file, compressed or not, and removes it. */
static char *
read_file (const Step *s, const char *name)
{
  g_autofree char *path = g_build_filename (s->folder, name, NULL);
  const gzFile file = gzopen (path, "rb");
  ck_assert_msg (file != NULL, "no %s", path);
  char *const text = g_malloc0 (MOST_BYTES);
  ck_assert_int_gt (gzread (file, text, MOST_BYTES - 1), 0);
  ck_assert_int_eq (gzclose (file), Z_OK);
  ck_assert_int_eq (g_unlink (path), 0);
  return text;
}

static void
write_trace (const Step *s, const char *name, const ScTraceOptions *options)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (s->folder, name, NULL);
  ck_assert_msg (sc_trace_write (s->summary, path, options, &error), "%s", error != NULL ? error->message : "");
}

static cJSON *
parsed (const Step *s, const char *name)
{
  g_autofree char *text = read_file (s, name);
  cJSON *const root = cJSON_ParseWithOpts (text, NULL, TRUE);
  ck_assert_ptr_nonnull (root);
  return root;
}

static const cJSON *
member (const cJSON *object, const char *key)
{
  return cJSON_GetObjectItemCaseSensitive (object, key);
}

static const char *
text_of (const cJSON *object, const char *key)
{
  const char *const text = cJSON_GetStringValue (member (object, key));
  ck_assert_msg (text != NULL, "no text %s in %s", key, object->string);
  return text;
}

static double
number_of (const cJSON *object, const char *key)
{
  const cJSON *const item = member (object, key);
  ck_assert_msg (cJSON_IsNumber (item) && isfinite (item->valuedouble), "no number %s", key);
  return item->valuedouble;
}

/* ---- fields ---- */

static void
check_kernel (const cJSON *event, GHashTable *seen)
{
  const cJSON *const args = member (event, "args");
  ck_assert_double_eq (number_of (args, "stream"), number_of (event, "tid"));
  ck_assert_double_lt (number_of (args, "device"), 8);
  g_autofree char *key = g_strdup_printf ("%g %g", number_of (event, "pid"), number_of (args, "correlation"));
  ck_assert_msg (g_hash_table_add (seen, g_strdup (key)), "%s twice", key);
  const gboolean is_call = g_str_has_prefix (text_of (event, "name"), "ncclDevKernel");
  const char *const category = text_of (args, "category");
  ck_assert_msg (is_call == (strlen (category) == 2), "%s of %s", text_of (event, "name"), category); /* tp, dp, pp */
}

static void
check_event (const cJSON *event, GHashTable *kernels)
{
  const char *const phase = text_of (event, "ph");
  ck_assert_int_gt ((int) strlen (text_of (event, "name")), 0);
  ck_assert_double_ge (number_of (event, "pid"), 0);
  ck_assert_double_lt (number_of (event, "pid"), 64);
  if (strcmp (phase, "M") == 0)
    {
      ck_assert_ptr_nonnull (member (event, "args")->child);
      return;
    }
  ck_assert_double_ge (number_of (event, "ts"), 0);
  if (strcmp (phase, "C") == 0)
    {
      ck_assert_double_le (number_of (member (event, "args"), "allocated"), number_of (member (event, "args"), "reserved"));
      return;
    }
  const char *const category = text_of (event, "cat");
  ck_assert_double_ge (number_of (event, "tid"), 0);
  if (strcmp (phase, "s") == 0 || strcmp (phase, "f") == 0)
    {
      ck_assert_double_ge (number_of (event, "id"), 0);
      return;
    }
  ck_assert_str_eq (phase, "X");
  ck_assert_double_ge (number_of (event, "dur"), 0);
  if (strcmp (category, "kernel") == 0)
    check_kernel (event, kernels);
  else
    ck_assert_msg (strcmp (category, "wait") == 0 || strcmp (category, "user_annotation") == 0, "%s", category);
}

START_TEST (every_event_has_the_fields_of_its_kind)
{
  static const guint32 ranks[] = { 0, 9, 16, 25, 63 };
  g_auto (Step) s = step_of ((ScDetail) _i);
  write_trace (&s, "trace.json", &(ScTraceOptions) { .ranks = ranks, .n_ranks = G_N_ELEMENTS (ranks) });
  cJSON *const root = parsed (&s, "trace.json");
  ck_assert_double_eq (number_of (root, "schemaVersion"), 1);
  ck_assert_str_eq (text_of (cJSON_GetArrayItem (member (root, "deviceProperties"), 0), "name"), "h100-sxm-80gb");
  ck_assert_ptr_null (member (root, "distributedInfo")); /* of one rank only */
  g_autoptr (GHashTable) kernels = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) pids = g_hash_table_new (NULL, NULL);
  const cJSON *event;
  cJSON_ArrayForEach (event, member (root, "traceEvents"))
    {
      check_event (event, kernels);
      g_hash_table_add (pids, GUINT_TO_POINTER ((guint) number_of (event, "pid") + 1));
    }
  ck_assert_uint_eq (g_hash_table_size (pids), G_N_ELEMENTS (ranks));
  ck_assert_uint_gt (g_hash_table_size (kernels), 100);
  cJSON_Delete (root);
}
END_TEST

/* Counters add up, and their highest points are the report's. */
START_TEST (memory_peaks_where_the_report_says)
{
  g_auto (Step) s = step_of (SC_DETAIL_LAYER);
  write_trace (&s, "trace.json", NULL);
  cJSON *const root = parsed (&s, "trace.json");
  for (guint k = 0; k < s.summary->n_classes; k++)
    {
      const ScClassSummary *const c = &s.summary->classes[k];
      double allocated = 0, reserved = 0;
      const cJSON *event;
      cJSON_ArrayForEach (event, member (root, "traceEvents"))
        {
          if (strcmp (text_of (event, "ph"), "C") != 0 || (guint) number_of (event, "pid") != c->representative)
            continue;
          double kinds = 0;
          for (const cJSON *one = member (event, "args")->child; one != NULL; one = one->next)
            kinds += strcmp (one->string, "allocated") != 0 && strcmp (one->string, "reserved") != 0 ? one->valuedouble : 0;
          ck_assert_double_eq_tol (kinds, number_of (member (event, "args"), "allocated"), 0.01);
          allocated = MAX (allocated, number_of (member (event, "args"), "allocated"));
          reserved = MAX (reserved, number_of (member (event, "args"), "reserved"));
        }
      ck_assert_double_eq_tol (allocated, (double) c->peak_allocated_bytes / (1 << 20), 0.001);
      ck_assert_double_eq_tol (reserved, (double) c->peak_reserved_bytes / (1 << 20), 0.001);
    }
  cJSON_Delete (root);
}
END_TEST

/* ---- ranks ---- */

START_TEST (arrows_stay_in_a_pipeline)
{
  static const guint32 ranks[] = { 0, 1, 16, 17, 24, 33 }; /* of stages 0, 1, 1, 2 */
  g_auto (Step) s = step_of (SC_DETAIL_STAGE);
  write_trace (&s, "trace.json", &(ScTraceOptions) { .ranks = ranks, .n_ranks = G_N_ELEMENTS (ranks), .passes = TRUE });
  cJSON *const root = parsed (&s, "trace.json");
  g_autoptr (GHashTable) from = g_hash_table_new (NULL, NULL);
  guint n = 0;
  const cJSON *event;
  cJSON_ArrayForEach (event, member (root, "traceEvents"))
    {
      const char *const phase = text_of (event, "ph");
      if (strcmp (phase, "s") == 0)
        g_hash_table_insert (from, GUINT_TO_POINTER ((guint) number_of (event, "id")), GUINT_TO_POINTER ((guint) number_of (event, "pid")));
      if (strcmp (phase, "f") != 0)
        continue;
      const guint sender = GPOINTER_TO_UINT (g_hash_table_lookup (from, GUINT_TO_POINTER ((guint) number_of (event, "id"))));
      const ScCoord a = sc_layout_coord (&s.workload->plan, sender), b = sc_layout_coord (&s.workload->plan, (guint32) number_of (event, "pid"));
      ck_assert (a.tp == b.tp && a.dp == b.dp && a.pp != b.pp);
      n++;
    }
  ck_assert_uint_gt (n, 0);
  cJSON_Delete (root);
}
END_TEST

START_TEST (each_rank_has_a_file_that_says_which)
{
  static const guint32 ranks[] = { 3, 42 };
  g_auto (Step) s = step_of (SC_DETAIL_STAGE);
  write_trace (&s, "step-%r.json.gz", &(ScTraceOptions) { .ranks = ranks, .n_ranks = G_N_ELEMENTS (ranks) });
  for (guint i = 0; i < G_N_ELEMENTS (ranks); i++)
    {
      g_autofree char *name = g_strdup_printf ("step-%u.json.gz", ranks[i]);
      cJSON *const root = parsed (&s, name);
      ck_assert_double_eq (number_of (member (root, "distributedInfo"), "rank"), ranks[i]);
      ck_assert_double_eq (number_of (member (root, "distributedInfo"), "world_size"), 64);
      const cJSON *event;
      cJSON_ArrayForEach (event, member (root, "traceEvents"))
        ck_assert_double_eq (number_of (event, "pid"), ranks[i]);
      cJSON_Delete (root);
    }
}
END_TEST

START_TEST (compressed_it_is_the_same_and_much_smaller)
{
  g_auto (Step) s = step_of (SC_DETAIL_LAYER);
  write_trace (&s, "a.json", NULL);
  write_trace (&s, "b.json.gz", NULL);
  g_autofree char *path = g_build_filename (s.folder, "b.json.gz", NULL);
  GStatBuf compressed;
  ck_assert_int_eq (g_stat (path, &compressed), 0);
  g_autofree char *a = read_file (&s, "a.json"), *b = read_file (&s, "b.json.gz");
  ck_assert_str_eq (a, b);
  ck_assert_uint_lt ((guint64) compressed.st_size * 4, strlen (a));
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("trace");
  TCase *const all = tcase_create ("traces");
  tcase_set_timeout (all, 120);
  tcase_add_loop_test (all, every_event_has_the_fields_of_its_kind, SC_DETAIL_LAYER, SC_N_DETAILS);
  tcase_add_test (all, memory_peaks_where_the_report_says);
  tcase_add_test (all, arrows_stay_in_a_pipeline);
  tcase_add_test (all, each_rank_has_a_file_that_says_which);
  tcase_add_test (all, compressed_it_is_the_same_and_much_smaller);
  suite_add_tcase (suite, all);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
