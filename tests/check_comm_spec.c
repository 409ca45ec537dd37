/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_comm_spec.c - sizes, ranks and groups of `stepcast comm` are read as they are written, or refused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "comm-spec.h"
#include "models/comm.h"
#include "pace.h"
#include "topology-json.h"

/* ---- sizes ---- */

static const struct
{
  const char *text;
  double bytes; /* 0: refused */
} sizes[] = {
  { "8", 8 }, { "4K", 4096 }, { "4k", 4096 }, { "128M", 134217728 }, { "8G", 8589934592.0 }, { "1T", 1099511627776.0 }, { "1024T", SC_COMM_MAX_BYTES },
  { "1.5M", 1572864 }, { "1.9", 1 }, { ".5K", 512 }, { "00012", 12 }, { "1125899906842624", SC_COMM_MAX_BYTES },
  { "", 0 }, { "0", 0 }, { "0.5", 0 }, { "-8", 0 }, { "+8", 0 }, { " 8", 0 }, { "8 ", 0 }, { "K", 0 }, { "8KB", 0 }, { "8KiB", 0 }, { "8P", 0 }, { "1.2.3", 0 },
  { ".", 0 }, { "..", 0 }, { "1e9", 0 }, { "0x10", 0 }, { "nan", 0 }, { "inf", 0 }, { "infinity", 0 }, { "1025T", 0 }, { "1125899906842625", 0 },
  { "99999999999999999999999999999999999999999999999", 0 }, { "8,5", 0 }, { "8\n", 0 }, { "\xff", 0 }, { "8\xc2\xa0K", 0 },
};

START_TEST (a_size_is_a_number_and_a_power_of_1024)
{
  g_autoptr (GError) error = NULL;
  double bytes = -1;
  const gboolean ok = sc_comm_size_parse ("-b", sizes[_i].text, &bytes, &error);
  ck_assert_msg (ok == (sizes[_i].bytes > 0), "\"%s\"", sizes[_i].text);
  ck_assert (ok == (error == NULL));
  ck_assert_double_eq (bytes, ok ? sizes[_i].bytes : -1); /* untouched where refused */
  if (!ok)
    ck_assert (g_error_matches (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX));
}
END_TEST

START_TEST (sizes_are_spaced_by_a_factor_or_a_step)
{
  static const struct
  {
    double min, max, factor, step;
    guint  n;
    double second, last;
  } rows[] = {
    { 8, 8589934592.0, 2, 0, 31, 16, 8589934592.0 }, { 8, 8, 2, 0, 1, 0, 8 },       { 8, 100, 3, 0, 3, 24, 72 },      { 1, 4, 1.01, 0, 4, 2, 4 },
    { 1024, 5120, 2, 1024, 5, 2048, 5120 },         { 10, 19, 2, 10, 1, 0, 10 },   { 1, SC_COMM_MAX_BYTES, 1048576, 0, 3, 1048576, 1099511627776.0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GArray) got = sc_comm_sizes (rows[i].min, rows[i].max, rows[i].factor, rows[i].step, &error);
      ck_assert_ptr_nonnull (got);
      ck_assert_uint_eq (got->len, rows[i].n);
      ck_assert_double_eq (g_array_index (got, double, 0), rows[i].min);
      if (got->len > 1)
        ck_assert_double_eq (g_array_index (got, double, 1), rows[i].second);
      ck_assert_double_eq (g_array_index (got, double, got->len - 1), rows[i].last);
    }
}
END_TEST

START_TEST (a_sweep_has_a_bounded_number_of_sizes)
{
  static const double spacing[][2] = { { 2, 1 }, { 1.0000001, 0 } };
  for (guint i = 0; i < G_N_ELEMENTS (spacing); i++)
    {
      g_autoptr (GError) error = NULL;
      ck_assert_ptr_null (sc_comm_sizes (1, SC_COMM_MAX_BYTES, spacing[i][0], spacing[i][1], &error));
      ck_assert (g_error_matches (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX));
    }
}
END_TEST

START_TEST (what_is_gathered_or_scattered_is_whole_16_bytes_of_every_rank)
{
  for (guint k = 0; k < SC_N_COLLS; k++)
    {
      const gboolean cut = k == SC_COLL_ALL_GATHER || k == SC_COLL_REDUCE_SCATTER || k == SC_COLL_ALL_TO_ALL;
      ck_assert_double_eq (sc_comm_size_round ((ScCollKind) k, 6, 1000), cut ? 960 : 1000);
      ck_assert_double_eq (sc_comm_size_round ((ScCollKind) k, 64, 1000), cut ? 0 : 1000);
      ck_assert_double_eq (sc_comm_size_round ((ScCollKind) k, 64, 65536), 65536);
    }
}
END_TEST

/* ---- ranks and groups ---- */

static ScTopology *
load (const char *a, const char *b)
{
  char *set[] = { (char *) (gsize) a, (char *) (gsize) b, NULL };
  g_autoptr (GError) error = NULL;
  ScTopology *const topology = sc_topology_load ("dgx-h100-superpod", a != NULL ? set : NULL, NULL, &error);
  ck_assert_msg (topology != NULL, "%s", error != NULL ? error->message : "");
  return topology;
}

START_TEST (ranks_are_gpus_in_order_the_first_of_each_node)
{
  static const struct
  {
    const char *first_node;
    guint n, per_node;
    guint n_got, nodes, most; /* 0: refused */
    guint32 last;
  } rows[] = {
    { NULL, 0, 0, 16384, 2048, 8, 16383 }, { NULL, 0, 3, 6144, 2048, 3, 16378 }, { NULL, 12, 0, 12, 2, 8, 11 },        { NULL, 5, 2, 5, 3, 2, 16 },
    { NULL, 4096, 2, 4096, 2048, 2, 16377 }, { NULL, 4097, 2, 0, 0, 0, 0 },       { NULL, 16385, 0, 0, 0, 0, 0 },       { NULL, 16, 1024, 16, 2, 8, 15 },
    { "topology.first_node=2046", 0, 0, 16, 2, 8, 15 }, { "topology.first_node=2046", 17, 0, 0, 0, 0, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ScTopology) topology = load (rows[i].first_node, NULL);
      g_autoptr (GError) error = NULL;
      g_autoptr (ScCommPlaces) p = sc_comm_places_new (topology, rows[i].n, rows[i].per_node, &error);
      ck_assert_msg ((p != NULL) == (rows[i].n_got > 0), "row %u", i);
      if (p == NULL)
        {
          ck_assert (g_error_matches (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_TOPOLOGY));
          continue;
        }
      ck_assert_uint_eq (p->n, rows[i].n_got);
      ck_assert_uint_eq (p->n_nodes, rows[i].nodes);
      ck_assert_uint_eq (p->per_node, rows[i].most);
      ck_assert_uint_eq (p->gpus[p->n - 1], rows[i].last);
      for (guint r = 0; r < p->n; r++)
        ck_assert_uint_eq (p->gpus[r], 8 * p->node[r] + p->place[r]);
    }
}
END_TEST

/* Over 32 ranks, 4 on each of 8 nodes. */
static const struct
{
  const char *text;
  const char *groups; /* "NAME COLLECTIVE BYTES: GPU GPU ...; ...", the first two groups; NULL: refused */
  guint n;
} specs[] = {
  { "0-3", "0-3 all-reduce 0: 0 1 2 3", 1 },
  { "0-16/8", "0-16/8 all-reduce 0: 0 8 16", 1 },
  { "0-15/8", "0-15/8 all-reduce 0: 0 8", 1 },
  { "9,2,16383", "9,2,16383 all-reduce 0: 9 2 16383", 1 }, /* of the job, not of the ranks; in this order */
  { "node1", "node1 all-reduce 0: 8 9 10 11", 1 },
  { "node0-7/7", "node0-7/7 all-reduce 0: 0 1 2 3 56 57 58 59", 1 },
  { "node2,5", "node2,5 all-reduce 0: 16 17 18 19 5", 1 },
  { "0-3:1K", "0-3 all-reduce 1024: 0 1 2 3", 1 },
  { "all_gather_perf:0-3", "0-3 all-gather 0: 0 1 2 3", 1 },
  { "broadcast:0-1:8M", "0-1 broadcast 8388608: 0 1", 1 },
  { "send:7,1", "7,1 send 0: 7 1", 1 },
  { "rails", "rail 0 all-reduce 0: 0 8 16 24 32 40 48 56; rail 1 all-reduce 0: 1 9 17 25 33 41 49 57", 4 },
  { "nodes", "node 0 all-reduce 0: 0 1 2 3; node 1 all-reduce 0: 8 9 10 11", 8 },
  { "reduce:nodes:64", "node 0 reduce 64: 0 1 2 3; node 1 reduce 64: 8 9 10 11", 8 },
  { "halves", "half 0 all-reduce 0: 0 1 2 3 8 9 10 11 16 17 18 19 24 25 26 27; half 1 all-reduce 0: 32 33 34 35 40 41 42 43 48 49 50 51 56 57 58 59", 2 },
  { "0-18446744073709551615", NULL, 0 }, { "0-4294967295", NULL, 0 }, { "0-4294967296", NULL, 0 }, { "16384", NULL, 0 }, { "0-1,16384", NULL, 0 },
  { "node8", NULL, 0 }, { "node0-4294967294", NULL, 0 }, { "0", NULL, 0 }, { "", NULL, 0 }, { ":", NULL, 0 }, { "::", NULL, 0 }, { ":::", NULL, 0 },
  { "0-1:", NULL, 0 }, { ":0-1", NULL, 0 }, { "0,0", NULL, 0 }, { "0-3,3", NULL, 0 }, { "node0,3", NULL, 0 }, { "3-0", NULL, 0 }, { "0-3/0", NULL, 0 },
  { "0-3/", NULL, 0 }, { "0/3", NULL, 0 }, { "0-", NULL, 0 }, { "-3", NULL, 0 }, { "0--3", NULL, 0 }, { "0,", NULL, 0 }, { ",0", NULL, 0 }, { "0,,1", NULL, 0 },
  { "0-1 ", NULL, 0 }, { " 0-1", NULL, 0 }, { "+0-1", NULL, 0 }, { "node", NULL, 0 }, { "nodes-3", NULL, 0 }, { "rail", NULL, 0 }, { "rails,0", NULL, 0 },
  { "all-reduce:0-3:8:8", NULL, 0 }, { "allreduce:", NULL, 0 }, { "gather:0-3:8", NULL, 0 }, { "send:0-2", NULL, 0 }, { "send:rails", NULL, 0 },
  { "0-3:0", NULL, 0 }, { "0-3:-1", NULL, 0 }, { "0-3:9999T", NULL, 0 }, { "0-3:%s%n", NULL, 0 }, { "\xff\xfe", NULL, 0 },
};

static char *
describe (const GPtrArray *groups)
{
  GString *const s = g_string_new (NULL);
  for (guint g = 0; g < MIN (groups->len, 2); g++)
    {
      const ScCommSpec *const spec = g_ptr_array_index (groups, g);
      g_string_append_printf (s, "%s%s %s %.0f:", g > 0 ? "; " : "", spec->name, sc_coll_kind_name (spec->kind), spec->bytes);
      for (guint i = 0; i < spec->n; i++)
        g_string_append_printf (s, " %u", spec->gpus[i]);
    }
  return g_string_free (s, FALSE);
}

START_TEST (a_group_is_read_as_it_is_written)
{
  g_autoptr (ScTopology) topology = load (NULL, NULL);
  g_autoptr (ScCommPlaces) places = sc_comm_places_new (topology, 32, 4, NULL);
  g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_spec_free);
  g_autoptr (GError) error = NULL;
  const gboolean ok = sc_comm_spec_add (groups, specs[_i].text, SC_COLL_ALL_REDUCE, places, &error);
  ck_assert_msg (ok == (specs[_i].groups != NULL), "\"%s\": %s", specs[_i].text, error != NULL ? error->message : "was read");
  if (!ok)
    {
      ck_assert (error->domain == SC_COMM_SPEC_ERROR);
      return;
    }
  g_autofree char *got = describe (groups);
  ck_assert_str_eq (got, specs[_i].groups);
  ck_assert_uint_eq (groups->len, specs[_i].n);
  ck_assert (sc_comm_specs_check (groups, places, NULL));
}
END_TEST

START_TEST (a_gpu_is_in_a_bounded_number_of_groups)
{
  g_autoptr (ScTopology) topology = load (NULL, NULL);
  g_autoptr (ScCommPlaces) places = sc_comm_places_new (topology, 32, 4, NULL);
  g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_spec_free);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < SC_COMM_MAX_PER_GPU; i++)
    ck_assert (sc_comm_spec_add (groups, "0-1", SC_COLL_ALL_REDUCE, places, &error));
  ck_assert (sc_comm_specs_check (groups, places, &error));
  ck_assert (sc_comm_spec_add (groups, "1-2", SC_COLL_ALL_REDUCE, places, &error));
  ck_assert (!sc_comm_specs_check (groups, places, &error));
  ck_assert (g_error_matches (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX));
}
END_TEST

START_TEST (a_fixed_size_leaves_something_for_every_rank)
{
  g_autoptr (ScTopology) topology = load (NULL, NULL);
  g_autoptr (ScCommPlaces) places = sc_comm_places_new (topology, 32, 4, NULL);
  static const struct
  {
    const char *text;
    gboolean ok;
  } rows[] = { { "all-gather:all:512", TRUE }, { "all-gather:all:511", FALSE }, { "all-reduce:all:1", TRUE } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_spec_free);
      ck_assert (sc_comm_spec_add (groups, rows[i].text, SC_COLL_ALL_REDUCE, places, NULL));
      ck_assert_msg (sc_comm_specs_check (groups, places, NULL) == rows[i].ok, "%s", rows[i].text);
    }
}
END_TEST

/* ---- what runs ---- */

/* Groups on an uneven place, on a narrow fabric with a slow NIC: nothing is alike that should not be. */
static const char *const mixes[] = { "rails", "nodes", "halves", "halves;0,63:4M", "rails;all-gather:node0-3:1M", "0-15;8-31;16-47:2M", "send:0,8;send:1,8;send:2,24:1M",
                                     "all-to-all:halves", "send-receive:all;nodes:32M", "broadcast:rails;all-to-all:halves:8M" };

START_TEST (folded_and_unfolded_runs_take_equally_long)
{
  g_autoptr (ScTopology) topology = load ("topology.fabric.tiers.0={\"children\":3,\"oversubscription\":4}",
                                          "topology.faults=[{\"nic\":{\"node\":2,\"index\":1},\"factor\":0.5}]");
  g_autoptr (ScCommPlaces) places = sc_comm_places_new (topology, 64, 0, NULL);
  g_autoptr (GPtrArray) specs_of = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_spec_free);
  g_auto (GStrv) texts = g_strsplit (mixes[_i], ";", -1);
  for (guint i = 0; texts[i] != NULL; i++)
    ck_assert (sc_comm_spec_add (specs_of, texts[i], SC_COLL_ALL_REDUCE, places, NULL));
  g_autoptr (ScComms) folded = sc_comms_new (topology, 64, FALSE, NULL), unfolded = sc_comms_new (topology, 64, TRUE, NULL);
  const guint n = specs_of->len;
  g_autofree ScCommGroup *groups = g_new0 (ScCommGroup, n);
  g_autofree ScCommResult *a = g_new0 (ScCommResult, n), *b = g_new0 (ScCommResult, n);
  for (double bytes = 256; bytes < 1e9; bytes *= 64)
    {
      for (guint g = 0; g < n; g++)
        {
          const ScCommSpec *const spec = g_ptr_array_index (specs_of, g);
          groups[g] = (ScCommGroup) { spec->kind, spec->gpus, spec->n, spec->bytes > 0 ? spec->bytes : bytes, NULL, SC_N_PROTOS };
        }
      ck_assert (sc_comms_run (folded, groups, n, a, NULL, NULL));
      ck_assert (sc_comms_run (unfolded, groups, n, b, NULL, NULL));
      for (guint g = 0; g < n; g++)
        {
          ck_assert_double_eq_tol (a[g].seconds, b[g].seconds, 1e-9 * b[g].seconds + 2e-12);
          ck_assert_uint_eq (a[g].bound_link, b[g].bound_link);
          ck_assert_double_ge (a[g].seconds, a[g].bound_s * (1 - 1e-9));
          ck_assert_double_ge (a[g].seconds, a[g].choice.alone_s * (1 - 1e-6));
        }
    }
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("comm-spec");
  TCase *const words = tcase_create ("sizes");
  tcase_add_loop_test (words, a_size_is_a_number_and_a_power_of_1024, 0, G_N_ELEMENTS (sizes));
  tcase_add_test (words, sizes_are_spaced_by_a_factor_or_a_step);
  tcase_add_test (words, a_sweep_has_a_bounded_number_of_sizes);
  tcase_add_test (words, what_is_gathered_or_scattered_is_whole_16_bytes_of_every_rank);
  suite_add_tcase (suite, words);
  TCase *const groups = tcase_create ("groups");
  tcase_add_test (groups, ranks_are_gpus_in_order_the_first_of_each_node);
  tcase_add_loop_test (heavy (suite), a_group_is_read_as_it_is_written, 0, G_N_ELEMENTS (specs));
  tcase_add_test (groups, a_gpu_is_in_a_bounded_number_of_groups);
  tcase_add_test (groups, a_fixed_size_leaves_something_for_every_rank);
  suite_add_tcase (suite, groups);
  TCase *const runs = tcase_create ("runs");
  tcase_add_loop_test (runs, folded_and_unfolded_runs_take_equally_long, 0, G_N_ELEMENTS (mixes));
  suite_add_tcase (suite, runs);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
