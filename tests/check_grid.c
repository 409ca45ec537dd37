/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_grid.c - grids and their points, shards, files that are gone on with, and what merge makes of them. */
#include <check.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "grid.h"
#include "grid-file.h"
#include "grid-merge.h"
#include "grid-shard.h"
#include "pace.h"

/* ---- Axes ---- */

static char *
values_of (const ScGridAxis *axis)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < axis->n_values * axis->n_keys; i++)
    g_string_append_printf (text, "%s%s", i == 0 ? "" : " ", axis->json[i]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static const struct
{
  const char *text, *keys, *values;
} good[] = {
  { "plan.tp=1,2,4", "plan.tp", "1 2 4" },
  { "plan.tp=8", "plan.tp", "8" },
  { "plan.pp=1:4", "plan.pp", "1 2 3 4" },
  { "plan.pp=1:16:x2", "plan.pp", "1 2 4 8 16" },
  { "plan.pp=3:20:x2", "plan.pp", "3 6 12" }, /* at most the end */
  { "plan.pp=2:11:+3", "plan.pp", "2 5 8 11" },
  { "plan.pp=1,4:8:x2,32", "plan.pp", "1 4 8 32" },
  { "device.scale.hbm=0.5:1.1:+0.2", "device.scale.hbm", "0.5 0.7 0.9 1.1" }, /* the end in spite of binary fractions */
  { "device.scale.hbm=0.5:8:x4", "device.scale.hbm", "0.5 2 8" },
  { "x.y=-2:0", "x.y", "-2 -1 0" },
  { "plan.recompute=none,full", "plan.recompute", "\"none\" \"full\"" },
  { "plan.recompute=\"modules:core_attn,mlp\",every:2", "plan.recompute", "\"modules:core_attn,mlp\" \"every:2\"" },
  { "a.b=\"1:3\"", "a.b", "\"1:3\"" }, /* a text, no range */
  { "a.b=[1,2],{\"c\":[3,4]},true,null", "a.b", "[1,2] {\"c\":[3,4]} true null" },
  { "plan.tp,plan.pp=1,8/2,4/4,2", "plan.tp plan.pp", "1 8 2 4 4 2" },
  { "plan.tp,plan.recompute=8,\"a,b/c\"/1,none", "plan.tp plan.recompute", "8 \"a,b/c\" 1 \"none\"" },
  { "a.b=x=y", "a.b", "\"x=y\"" },
};

START_TEST (an_axis_is_read)
{
  g_autoptr (ScGrid) grid = sc_grid_new ();
  g_autoptr (GError) error = NULL;
  ck_assert_msg (sc_grid_add (grid, good[_i].text, &error), "%s", error != NULL ? error->message : "");
  const ScGridAxis *const axis = g_ptr_array_index (grid->axes, 0);
  g_autofree char *keys = g_strjoinv (" ", axis->keys), *values = values_of (axis);
  ck_assert_str_eq (keys, good[_i].keys);
  ck_assert_str_eq (values, good[_i].values);
  ck_assert_uint_eq (grid->n_points, axis->n_values);
}
END_TEST

static const struct
{
  const char *text, *message;
} bad[] = {
  { "plan.tp", "expected KEY=VALUE" },
  { "=1", "expected KEY=VALUE" },
  { "plan.tp=", "expected KEY=VALUE" },
  { "plan.tp=1,,2", "empty value" },
  { "plan.tp=1,2,1", "found 1 twice" },
  { "plan.tp=1:3,2", "found 2 twice" },
  { "plan.tp=5:1", "no values" },
  { "plan.tp=1:5:2", "FROM:TO:+STEP" },
  { "plan.tp=1:5:+0", "step above 0" },
  { "plan.tp=1:5:x1", "factor above 1" },
  { "plan.tp=0:5:x2", "factor above 1 and a start above 0" },
  { "plan.tp=1:1000000", "more than 100000 values" },
  { "plan.tp,plan.tp=1,2", "found plan.tp twice" },
  { "plan.tp,=1,2", "found \"\" for a key" },
  { "plan.tp,plan.pp=1,2/3", "found 1 values in \"3\", expected one for each of 2 keys" },
  { "plan.tp,plan.pp=1,2/1,2", "found 1,2 twice" },
  { "seq=1", "in two of them" },
};

START_TEST (what_is_no_axis_is_refused_in_words)
{
  g_autoptr (ScGrid) grid = sc_grid_new ();
  g_autoptr (GError) error = NULL;
  ck_assert (sc_grid_add (grid, "seq=1024", NULL));
  ck_assert (!sc_grid_add (grid, bad[_i].text, &error));
  ck_assert_msg (strstr (error->message, bad[_i].message) != NULL, "%s", error->message);
}
END_TEST

START_TEST (the_last_axis_is_the_fastest_and_points_are_arithmetic)
{
  g_autoptr (ScGrid) grid = sc_grid_new ();
  ck_assert (sc_grid_add (grid, "plan.tp,plan.pp=1,8/2,4", NULL));
  ck_assert (sc_grid_add (grid, "topology.nodes=8,16,32", NULL));
  ck_assert (sc_grid_add (grid, "plan.recompute=none,full", NULL));
  ck_assert_uint_eq (grid->n_points, 12);
  static const char *const sets[] = {
    [0] = "plan.tp=1 plan.pp=8 topology.nodes=8 plan.recompute=none", [1] = "plan.tp=1 plan.pp=8 topology.nodes=8 plan.recompute=full",
    [2] = "plan.tp=1 plan.pp=8 topology.nodes=16 plan.recompute=none", [6] = "plan.tp=2 plan.pp=4 topology.nodes=8 plan.recompute=none",
    [11] = "plan.tp=2 plan.pp=4 topology.nodes=32 plan.recompute=full",
  };
  for (guint64 point = 0; point < 12; point++)
    {
      g_auto (GStrv) set = sc_grid_set (grid, point);
      g_autofree char *words = g_strjoinv (" ", set);
      if (sets[point] != NULL)
        ck_assert_str_eq (words, sets[point]);
      ck_assert_uint_eq (sc_grid_topology (grid, point), point / 2 % 3);
    }
}
END_TEST

START_TEST (a_grid_of_a_million_million_points_costs_nothing)
{
  g_autoptr (ScGrid) grid = sc_grid_new ();
  ck_assert (sc_grid_add (grid, "a.a=1:10000", NULL));
  ck_assert (sc_grid_add (grid, "b.b=1:10000", NULL));
  ck_assert (sc_grid_add (grid, "c.c=1:10000", NULL));
  ck_assert_uint_eq (grid->n_points, 1000000000000);
  g_auto (GStrv) set = sc_grid_set (grid, 123456789012);
  g_autofree char *words = g_strjoinv (" ", set);
  ck_assert_str_eq (words, "a.a=1235 b.b=5679 c.c=9013");
  ck_assert (!sc_grid_add (grid, "d.d=1:10000", NULL)); /* 10^16: not exact any more */
}
END_TEST

/* ---- Shards ---- */

START_TEST (shards_share_out_every_point_once)
{
  for (guint64 n_points = 0; n_points < 30; n_points++)
    for (guint64 n = 1; n < 9; n++)
      {
        guint8 seen[30] = { 0 };
        for (guint64 i = 0; i < n; i++)
          for (guint64 k = 0; k < sc_shard_n_points (&(ScShard) { i, n }, n_points); k++)
            {
              const guint64 point = sc_shard_point (&(ScShard) { i, n }, k);
              ck_assert_uint_lt (point, n_points);
              seen[point]++;
            }
        for (guint64 point = 0; point < n_points; point++)
          ck_assert_uint_eq (seen[point], 1);
      }
}
END_TEST

/* "NAME=VALUE NAME=VALUE" stands for the environment. */
static const char *environment;

static const char *
get_variable (const char *name)
{
  static char value[64];
  g_auto (GStrv) words = g_strsplit (environment, " ", -1);
  for (char **word = words; *word != NULL; word++)
    if (g_str_has_prefix (*word, name) && (*word)[strlen (name)] == '=')
      {
        g_strlcpy (value, *word + strlen (name) + 1, sizeof value);
        return value;
      }
  return NULL;
}

#define ARRAY(id) "SLURM_ARRAY_TASK_ID=" id " SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_STEP=2"
static const struct
{
  const char *text, *environment;
  guint64 index, n;    /* n 0: refused, */
  const char *message; /* with this */
} shards[] = {
  { "0/1", "", 0, 1, NULL },
  { "2/7", "SLURM_ARRAY_TASK_ID=5", 2, 7, NULL }, /* said is said */
  { "7/7", "", 0, 0, "expected 0 to 6" },
  { "1/0", "", 0, 0, "expected I/N" },
  { "-1/3", "", 0, 0, "expected I/N" },
  { "1", "", 0, 0, "expected I/N" },
  { "auto", "", 0, 0, "found no variables" },
  { "auto", ARRAY ("1"), 0, 4, NULL },
  { "auto", ARRAY ("5"), 2, 4, NULL },
  { "auto", ARRAY ("2"), 0, 0, "without gaps" },
  { "auto", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=2", 0, 0, "without gaps" }, /* --array=3,7 */
  { "auto", "SLURM_ARRAY_TASK_ID=3", 0, 0, "SLURM_ARRAY_TASK_MIN is not set" },
  { "auto", "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=16", 3, 16, NULL },
  { "auto", "PMI_RANK=0 PMI_SIZE=2", 0, 2, NULL },
  { "auto", "SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3", 2, 3, NULL },
  { "auto", "SLURM_PROCID=0", 0, 0, "found no variables" }, /* a batch script is no step */
  { "auto", ARRAY ("5") " SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3", 7, 12, NULL }, /* srun in a task of an array */
  { "auto", "PMI_RANK=2 PMI_SIZE=2", 0, 0, "PMI_RANK=2" },
  { "auto", "PMI_RANK=x PMI_SIZE=2", 0, 0, "expected a whole number" },
  { "auto", "JOB_COMPLETION_INDEX=3", 0, 0, "auto/N" },
  { "auto/5", "JOB_COMPLETION_INDEX=3", 3, 5, NULL },
  { "auto/3", "JOB_COMPLETION_INDEX=3", 0, 0, "expected 0 to 2" },
  { "auto/3", "", 0, 0, "found no variable" },
};

START_TEST (a_shard_is_as_said_or_as_the_launcher_has_it)
{
  ScShard shard = { 77, 99 };
  g_autoptr (GError) error = NULL;
  environment = shards[_i].environment;
  const gboolean ok = sc_shard_parse (shards[_i].text, get_variable, &shard, &error);
  ck_assert_msg (ok == (shards[_i].n > 0), "%s", error != NULL ? error->message : "read");
  if (ok)
    ck_assert (shard.index == shards[_i].index && shard.n == shards[_i].n);
  else
    ck_assert_msg (strstr (error->message, shards[_i].message) != NULL, "%s", error->message);
}
END_TEST

START_TEST (a_path_takes_the_numbers_of_its_shard)
{
  g_autofree char *path = sc_shard_path (&(ScShard) { 3, 16 }, "out/%i-of-%n_100%%_%x%");
  ck_assert_str_eq (path, "out/3-of-16_100%_%x%");
}
END_TEST

/* ---- Files ---- */

static gboolean
begins_with_its_number (gpointer data G_GNUC_UNUSED, guint64 index, const char *line, gsize length G_GNUC_UNUSED, GError **error)
{
  if (g_ascii_strtoull (line, NULL, 10) == index && g_ascii_isdigit (*line))
    return TRUE;
  g_set_error (error, g_quark_from_static_string ("test"), 0, "another line");
  return FALSE;
}

static char *
temporary (void)
{
  char *const path = g_build_filename (g_get_tmp_dir (), "check-grid-XXXXXX", NULL);
  const int fd = g_mkstemp (path);
  ck_assert_int_ge (fd, 0);
  close (fd);
  return path;
}

static const char complete[] = "h\n0 zero\n1 one\n2 two\n";

/* Wherever a kill cuts a file, what stands before the torn line stays, and what is appended makes it whole. */
START_TEST (a_file_that_was_cut_anywhere_is_gone_on_with)
{
  static const char *const lines[] = { "0 zero\n", "1 one\n", "2 two\n" };
  g_autofree char *path = temporary ();
  for (gsize cut = 0; cut < sizeof complete; cut++)
    for (guint zeros = 0; zeros < 2; zeros++) /* a crash of the machine */
      {
        g_autoptr (GString) text = g_string_new_len (complete, (gssize) cut);
        if (zeros)
          g_string_append_len (text, "\0\0\0\n", 4);
        ck_assert (g_file_set_contents (path, text->str, (gssize) text->len, NULL));
        guint64 n = 99;
        g_autoptr (GError) error = NULL;
        ScGridFile *const file = sc_grid_file_resume (path, "h", begins_with_its_number, NULL, &n, &error);
        ck_assert_msg (file != NULL, "%s", error != NULL ? error->message : "");
        ck_assert_uint_le (n, 3);
        for (; n < 3; n++)
          ck_assert (sc_grid_file_append (file, lines[n], strlen (lines[n]), NULL, NULL, NULL));
        ck_assert (sc_grid_file_close (file, NULL));
        g_autofree char *now = NULL;
        ck_assert (g_file_get_contents (path, &now, NULL, NULL));
        ck_assert_str_eq (now, complete);
      }
  g_unlink (path);
}
END_TEST

START_TEST (another_file_is_left_as_it_is)
{
  static const char *const others[] = { "x\n0 zero\n", "h\n0 zero\n2 two\n", "h\nzero\n", "h\n0 zero\nzz\n1 on" };
  g_autofree char *path = temporary ();
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      guint64 n;
      g_autofree char *now = NULL;
      ck_assert (g_file_set_contents (path, others[i], -1, NULL));
      ck_assert_ptr_null (sc_grid_file_resume (path, "h", begins_with_its_number, NULL, &n, NULL));
      ck_assert_ptr_null (sc_grid_file_create (path, NULL));
      ck_assert (g_file_get_contents (path, &now, NULL, NULL));
      ck_assert_str_eq (now, others[i]);
    }
  g_unlink (path);
}
END_TEST

START_TEST (two_at_once_are_refused)
{
  g_autofree char *path = temporary ();
  guint64 n;
  g_autoptr (GError) error = NULL;
  ScGridFile *const first = sc_grid_file_resume (path, NULL, begins_with_its_number, NULL, &n, NULL);
  ck_assert_ptr_nonnull (first);
  ck_assert_ptr_null (sc_grid_file_resume (path, NULL, begins_with_its_number, NULL, &n, &error));
  ck_assert_msg (strstr (error->message, "another process") != NULL, "%s", error->message);
  ck_assert (sc_grid_file_close (first, NULL));
  g_unlink (path);
}
END_TEST

/* ---- Merging ---- */

#define LINE(point, rest) "{\"sweep\":\"0123456789abcdef\",\"points\":5,\"point\":" point ",\"x\":" rest "}\n"
#define CSV(point, rest) "0123456789abcdef,5," point "," rest "\n"
#define HEADER "sweep,points,point,x\n"

static const struct
{
  const char *files[3];
  const char *merged; /* NULL: refused, */
  const char *message; /* with this */
  const char *missing, *duplicates;
} merges[] = {
  { { LINE ("0", "1") LINE ("3", "4"), LINE ("1", "2") LINE ("4", "5"), LINE ("2", "3") },
    LINE ("0", "1") LINE ("1", "2") LINE ("2", "3") LINE ("3", "4") LINE ("4", "5"), NULL, "", "" },
  { { LINE ("4", "5") LINE ("2", "3"), LINE ("2", "3") LINE ("0", "1"), "" }, LINE ("0", "1") LINE ("2", "3") LINE ("4", "5"), NULL, "1, 3", "2" },
  { { LINE ("0", "1"), LINE ("0", "1") LINE ("1", "2"), LINE ("0", "1") LINE ("1", "2") "{\"sweep\":" }, LINE ("0", "1") LINE ("1", "2"), NULL, "2-4", "0-1" },
  { { HEADER CSV ("1", "a"), HEADER CSV ("0", "b"), HEADER }, HEADER CSV ("0", "b") CSV ("1", "a"), NULL, "2-4", "" },
  { { LINE ("0", "1"), LINE ("0", "2"), "" }, NULL, "two lines of point 0 that differ", NULL, NULL },
  { { LINE ("0", "1"), HEADER CSV ("1", "2"), "" }, NULL, "found csv, expected jsonl", NULL, NULL },
  { { HEADER CSV ("1", "2"), "sweep,points,point,y\n", "" }, NULL, "other column names", NULL, NULL },
  { { LINE ("0", "1"), "{\"sweep\":\"0123456789abcdff\",\"points\":5,\"point\":1,\"x\":1}\n", "" }, NULL, "found sweep 0123456789abcdff", NULL, NULL },
  { { LINE ("5", "1"), "", "" }, NULL, "no line of a sweep", NULL, NULL },
  { { LINE ("0", "1") "{}\n", "", "" }, NULL, ":2: found no line of a sweep", NULL, NULL },
  { { "", "", "" }, NULL, "found no lines", NULL, NULL },
};

static gboolean
append (gpointer out, const char *text, gsize length)
{
  g_string_append_len (out, text, (gssize) length);
  return TRUE;
}

START_TEST (files_of_one_sweep_become_one)
{
  g_autoptr (ScMerge) merge = sc_merge_new ();
  g_autoptr (GError) error = NULL;
  gboolean ok = TRUE;
  for (guint i = 0; ok && i < 3; i++)
    {
      g_autofree char *path = temporary ();
      ck_assert (g_file_set_contents (path, merges[_i].files[i], -1, NULL));
      ok = sc_merge_add (merge, path, &error);
      g_unlink (path);
    }
  ok = ok && sc_merge_settle (merge, &error);
  ck_assert_msg (ok == (merges[_i].merged != NULL), "%s", error != NULL ? error->message : "merged");
  if (!ok)
    {
      ck_assert_msg (strstr (error->message, merges[_i].message) != NULL, "%s", error->message);
      return;
    }
  g_autoptr (GString) merged = g_string_new (NULL);
  g_autofree char *missing = sc_merge_list (merge, FALSE, 9), *duplicates = sc_merge_list (merge, TRUE, 9);
  ck_assert (sc_merge_write (merge, append, merged));
  ck_assert_str_eq (merged->str, merges[_i].merged);
  ck_assert_str_eq (missing, merges[_i].missing);
  ck_assert_str_eq (duplicates, merges[_i].duplicates);
  g_autofree char *one = sc_merge_list (merge, FALSE, 1);
  if (strchr (missing, ',') != NULL)
    ck_assert (g_str_has_suffix (one, ", ..."));
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("grid");
  TCase *const tcase = tcase_create ("grid");
  tcase_add_loop_test (tcase, an_axis_is_read, 0, G_N_ELEMENTS (good));
  tcase_add_loop_test (tcase, what_is_no_axis_is_refused_in_words, 0, G_N_ELEMENTS (bad));
  tcase_add_test (tcase, the_last_axis_is_the_fastest_and_points_are_arithmetic);
  tcase_add_test (heavy (suite), a_grid_of_a_million_million_points_costs_nothing);
  tcase_add_test (tcase, shards_share_out_every_point_once);
  tcase_add_loop_test (tcase, a_shard_is_as_said_or_as_the_launcher_has_it, 0, G_N_ELEMENTS (shards));
  tcase_add_test (tcase, a_path_takes_the_numbers_of_its_shard);
  tcase_add_test (tcase, a_file_that_was_cut_anywhere_is_gone_on_with);
  tcase_add_test (tcase, another_file_is_left_as_it_is);
  tcase_add_test (tcase, two_at_once_are_refused);
  tcase_add_loop_test (tcase, files_of_one_sweep_become_one, 0, G_N_ELEMENTS (merges));
  suite_add_tcase (suite, tcase);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
