/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_validate.c - published sweeps are read, find the system that they ran on, and are judged as the closed forms say. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "pace.h"
#include "validate-collectives.h"

/* ---- Errors ---- */

START_TEST (twice_and_half_are_equally_far)
{
  ScErrorStat stat = { 0 };
  ck_assert (isnan (sc_error_stat_geomean (&stat)) && isnan (sc_error_stat_signed (&stat)) && isnan (sc_error_stat_worst (&stat)));
  sc_error_stat_add (&stat, 2, 1);
  sc_error_stat_add (&stat, 1, 2);
  ck_assert_double_eq_tol (sc_error_stat_geomean (&stat), 1, 1e-12);
  ck_assert_double_eq_tol (sc_error_stat_signed (&stat), 0, 1e-12);
  sc_error_stat_add (&stat, 1, 4);
  ck_assert_double_eq_tol (sc_error_stat_worst (&stat), -0.75, 1e-12);
  ck_assert_double_eq_tol (sc_error_stat_geomean (&stat), pow (16, 1.0 / 3) - 1, 1e-12);
  ck_assert_double_eq_tol (sc_error_stat_signed (&stat), pow (0.25, 1.0 / 3) - 1, 1e-12);
}
END_TEST

START_TEST (sums_of_parts_are_sums_of_all)
{
  ScErrorStat all = { 0 }, parts[2] = { { 0 } };
  for (guint i = 1; i <= 20; i++)
    {
      sc_error_stat_add (&all, i, 7);
      sc_error_stat_add (&parts[i % 2], i, 7);
    }
  sc_error_stat_merge (&parts[0], &parts[1]);
  ck_assert_uint_eq (parts[0].n, all.n);
  ck_assert_double_eq_tol (sc_error_stat_geomean (&parts[0]), sc_error_stat_geomean (&all), 1e-12);
  ck_assert_double_eq_tol (sc_error_stat_signed (&parts[0]), sc_error_stat_signed (&all), 1e-12);
  ck_assert_double_eq_tol (sc_error_stat_worst (&parts[0]), sc_error_stat_worst (&all), 1e-12);
}
END_TEST

START_TEST (ratios_beyond_double_are_counted)
{
  ScErrorStat stat = { 0 };
  sc_error_stat_add (&stat, 1e300, 1e-300);
  sc_error_stat_add (&stat, 1e-300, 1e300);
  ck_assert_double_eq_tol (sc_error_stat_signed (&stat), 0, 1e-9);
}
END_TEST

START_TEST (the_median_is_in_the_middle)
{
  double odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
  ck_assert_double_eq (sc_median (odd, 3), 5);
  ck_assert_double_eq (sc_median (even, 4), 2.5);
  ck_assert_double_eq (sc_median (one, 1), 7);
  ck_assert (isnan (sc_median (one, 0)));
}
END_TEST

START_TEST (every_size_has_one_band)
{
  ck_assert_uint_eq (sc_band_of (0), 0);
  ck_assert_uint_eq (sc_band_of (16383), 0);
  ck_assert_uint_eq (sc_band_of (16384), 1);
  ck_assert_uint_eq (sc_band_of (262144), 2);
  ck_assert_uint_eq (sc_band_of (4194304), 3);
  ck_assert_uint_eq (sc_band_of (67108864), 4);
  ck_assert_uint_eq (sc_band_of (1e15), 4);
}
END_TEST

/* ---- Reading ---- */

#define HEAD "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":8,"

static GPtrArray *
parse (const char *text, char ***ret_ignored, GError **error)
{
  return sc_sweeps_parse ("s.jsonl", text, strlen (text), ret_ignored, error);
}

START_TEST (a_line_is_read_with_what_others_wrote)
{
  g_auto (GStrv) ignored = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) sweeps =
      parse ("\r\n" HEAD "\"nodes\":null,\"fabric\":\"\",\"note\":null,\"dtype\":\"half\",\"colour\":[1],\"rows\":[[8,1.5,0.1,0.2],[16,null],[0,0]]}\r\n"
             " \t\n{\"id\":\"b\",\"collective\":\"alltoall\",\"gpu\":\"x\",\"gpus\":12,\"nodes\":4,\"launch_us\":7,\"use\":\"check\",\"colour\":1,"
             "\"set\":{\"nodes\":9,\"a.b\":\"c\"},\"rows\":[]}",
             &ignored, &error);
  ck_assert_msg (sweeps != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (sweeps->len, 2);
  const ScSweep *a = g_ptr_array_index (sweeps, 0), *b = g_ptr_array_index (sweeps, 1);
  ck_assert_str_eq (a->id, "line 2");
  ck_assert_ptr_null (a->fabric);
  ck_assert_uint_eq (a->nodes, 1);
  ck_assert_uint_eq (a->gpus_per_node, 8);
  ck_assert_uint_eq (a->n_rows, 3);
  ck_assert_double_eq_tol (a->rows[0].time_s, 1.5e-6, 1e-18);
  ck_assert_double_eq (a->rows[1].time_s, 0);
  ck_assert_int_eq (a->use, SC_USE_UNSAID);
  ck_assert_uint_eq (b->gpus_per_node, 3);
  ck_assert_double_eq (b->launch_us, 7);
  ck_assert_int_eq (b->use, SC_USE_CHECK);
  ck_assert_str_eq (b->set[0], "topology.nodes=9");
  ck_assert_str_eq (b->set[1], "topology.a.b=\"c\"");
  ck_assert_ptr_null (b->set[2]);
  ck_assert_str_eq (ignored[0], "colour");
  ck_assert_ptr_null (ignored[1]);
}
END_TEST

static const struct
{
  const char *text, *message;
} refused[] = {
  { "", "s.jsonl: found no sweeps, expected one JSON object a line" },
  { "\n\n", "s.jsonl: found no sweeps, expected one JSON object a line" },
  { "\n[1]", "s.jsonl:2: /: found an array, expected an object" },
  { HEAD "\"rows\":[[8,1]]", NULL },
  { HEAD "\"rows\":[[8,NaN]]}", NULL },
  { HEAD "\"rows\":[[8,1e999]]}", NULL },
  { HEAD "\"gpus\":9,\"rows\":[[8,1]]}", NULL }, /* twice */
  { HEAD "\"nodes\":1}", "s.jsonl:1: /rows: missing, expected an array of [bytes, microseconds] or [bytes, microseconds, algbw, busbw]" },
  { HEAD "\"rows\":[[8,-1]]}", "s.jsonl:1: /rows/0/1: found -1, expected 0 or a number from 0.001 to 1e+12" },
  { HEAD "\"rows\":[[8,1e-300]]}", "s.jsonl:1: /rows/0/1: found 1e-300, expected 0 or a number from 0.001 to 1e+12" },
  { HEAD "\"rows\":[[null,1]]}", "s.jsonl:1: /rows/0/0: found null, expected a number from 0 to 1e+15" },
  { HEAD "\"rows\":[[1e300,1]]}", "s.jsonl:1: /rows/0/0: found 1e+300, expected a number from 0 to 1e+15" },
  { HEAD "\"rows\":[[8]]}", NULL },
  { HEAD "\"rows\":[[8,1,2,3,4]]}", NULL },
  { HEAD "\"rows\":[8,1]}", NULL },
  { HEAD "\"rows\":{\"8\":1}}", NULL },
  { HEAD "\"nodes\":0,\"rows\":[[8,1]]}", "s.jsonl:1: /nodes: found 0, expected 1 to 1000000" },
  { HEAD "\"nodes\":1.5,\"rows\":[[8,1]]}", NULL },
  { HEAD "\"nodes\":1e18,\"rows\":[[8,1]]}", NULL },
  { HEAD "\"launch_us\":-5,\"rows\":[[8,1]]}", NULL },
  { HEAD "\"use\":\"maybe\",\"rows\":[[8,1]]}", NULL },
  { HEAD "\"set\":[\"nodes=4\"],\"rows\":[[8,1]]}", "s.jsonl:1: /set: found an array, expected an object" },
  { HEAD "\"set\":{\"\":4},\"rows\":[[8,1]]}", NULL },
  { "{\"gpu\":\"H100\",\"gpus\":8,\"rows\":[[8,1]]}", NULL },
  { "{\"collective\":7,\"gpu\":\"H100\",\"gpus\":8,\"rows\":[[8,1]]}", NULL },
};

START_TEST (what_is_no_sweep_is_refused_in_one_line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) sweeps = parse (refused[_i].text, NULL, &error);
  ck_assert_ptr_null (sweeps);
  ck_assert_ptr_nonnull (error);
  ck_assert_msg (g_str_has_prefix (error->message, "s.jsonl:"), "%s", error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
  if (refused[_i].message != NULL)
    ck_assert_str_eq (error->message, refused[_i].message);
}
END_TEST

/* ---- Words ---- */

static const struct
{
  const char *words;
  guint count;
  double gbit_per_s;
} ports[] = {
  { "NVLink4 18x25=450 GB/s/dir + 4 NVSwitch3", 0, 0 },
  { "NVLink4 18x25=450 GB/s/dir + 4 NVSwitch3; 8x NDR 400 Gb/s IB per node (1 per GPU)", 8, 400 },
  { "NVLink3 12x25=300 GB/s/dir; EFA 4x100 Gb/s per node (p4de.24xlarge)", 4, 100 },
  { "EFA v2 32x100 Gb/s per node", 32, 100 },
  { "one NIC ~400 Gb/s per GPU", 8, 400 },
  { "NIC ~400 Gb/s per GPU, kind not stated (peak 48.9 GB/s per NIC)", 8, 400 },
  { "one 400 Gb/s RoCE NIC per rank (GCP a4)", 8, 400 },
  { "NVLink3 4-GPU node; 2x Slingshot-11 200 Gb/s per node", 2, 200 },
  { "xGMI 7x64 GB/s/dir; OCI 8x400 Gb/s RoCE per node", 8, 400 },
  { "6 NVSwitch; IB HDR per node", 0, 200 },
  { "8x HDR InfiniBand", 8, 200 },
  { "2 x ConnectX-7 NDR", 2, 400 },
  { "25 Gbps Ethernet", 0, 25 },
  { "PCIe4 x16, no NVLink", 0, 0 },
};

START_TEST (ports_are_read_from_words)
{
  guint count;
  double gbit_per_s;
  const gboolean found = sc_nics_of_words (ports[_i].words, 8, &count, &gbit_per_s);
  ck_assert_msg (count == ports[_i].count, "%s: %u ports", ports[_i].words, count);
  ck_assert_msg (gbit_per_s == ports[_i].gbit_per_s, "%s: %g Gb/s", ports[_i].words, gbit_per_s);
  ck_assert_int_eq (found, count > 0 || gbit_per_s > 0);
}
END_TEST

static const struct
{
  const char *algo;
  gboolean known;
  const char *row;
  ScProtocol protocol;
} algos[] = {
  { NULL, TRUE, NULL, SC_N_PROTOS },
  { "algo Ring", TRUE, "ring", SC_N_PROTOS },
  { "Tree", TRUE, "tree", SC_N_PROTOS },
  { "proto LL128", TRUE, NULL, SC_PROTO_LL128 },
  { "NCCL_ALGO=Ring NCCL_PROTO=Simple", TRUE, "ring", SC_PROTO_SIMPLE },
  { "Ring (MIN_CTAS=24, QPS=2)", TRUE, "ring", SC_N_PROTOS },
  { "NVLSTree", TRUE, "nvls-tree", SC_N_PROTOS },
  { "NCCL_MIN_CTAS=24", TRUE, NULL, SC_N_PROTOS },
  { "contended-high", FALSE, NULL, SC_N_PROTOS },
  { "hypercube", FALSE, NULL, SC_N_PROTOS },
};

START_TEST (what_is_forced_is_read_from_words)
{
  const ScCollective *row;
  ScProtocol protocol;
  ck_assert_int_eq (sc_forced_algo (algos[_i].algo, &row, &protocol), algos[_i].known);
  ck_assert_int_eq (protocol, algos[_i].protocol);
  ck_assert_str_eq (row != NULL ? row->name : "-", algos[_i].row != NULL ? algos[_i].row : "-");
}
END_TEST

/* ---- Systems ---- */

static ScSystems *
shipped_systems (void)
{
  g_autoptr (GError) error = NULL;
  ScSystems *systems = sc_systems_load ("systems", &error);
  ck_assert_msg (systems != NULL, "%s", error != NULL ? error->message : "");
  return systems;
}

START_TEST (every_shipped_sweep_finds_its_system)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) sweeps = sc_sweeps_load ("collectives", NULL, &error);
  ck_assert_msg (sweeps != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr (GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < sweeps->len; i++)
    {
      const ScSweep *sweep = g_ptr_array_index (sweeps, i);
      g_auto (ScSystem) system = { .topology = NULL };
      ck_assert_msg (sc_systems_find_sweep (systems, sweep, &system, &error), "%s: %s", sweep->id, error != NULL ? error->message : "");
      ck_assert_msg (system.topology->n_nodes >= sweep->nodes, "%s: %u nodes", sweep->id, system.topology->n_nodes);
      ck_assert_msg (system.family != SC_FAMILY_OTHER, "%s", sweep->id);
      ck_assert_msg (sweep->source != NULL && sweep->use != SC_USE_UNSAID, "%s", sweep->id);
      ck_assert_msg (g_hash_table_add (ids, sweep->id), "%s: twice", sweep->id);
    }
}
END_TEST

/* Words that are in no shipped sweep too. */
static const struct
{
  const char *gpu, *fabric;
  guint nodes, per_node;
  ScFamily family;
  const char *topology;
  guint nics;
  double nic_gbytes_per_s;
  ScTransport transport;
} mapped[] = {
  { "H100", "NVLink + NVSwitch", 1, 8, SC_FAMILY_NVSWITCH, "dgx-h100-8", 0, 0, 0 },
  { "NVIDIA H100 80GB HBM3", NULL, 1, 4, SC_FAMILY_NVSWITCH, "dgx-h100-8", 0, 0, 0 },
  { "H100-SXM5-80GB", "NVSwitch; 4x NDR 400 Gb/s IB per node", 20, 8, SC_FAMILY_INFINIBAND, "dgx-h100-superpod", 4, 48.9, SC_TRANSPORT_INFINIBAND },
  { "H100-SXM5-80GB", "NVSwitch; GCP a3-high 4x200 Gb/s TCPX", 2, 8, SC_FAMILY_CLOUD, "gcp-a3-mega", 4, 23.6, SC_TRANSPORT_TCPX },
  { "H100-SXM5-80GB", "NVSwitch; 8x400 Gb/s InfiniBand (CoreWeave)", 8, 8, SC_FAMILY_INFINIBAND, "dgx-h100-superpod", 8, 48.9, SC_TRANSPORT_INFINIBAND },
  { "A100-SXM4-80GB", "NVSwitch; EFA 4x100 Gb/s per node (p4de.24xlarge)", 2, 8, SC_FAMILY_CLOUD, "aws-p4d", 4, 0, SC_TRANSPORT_EFA },
  { "A100-SXM4-40GB", "NVSwitch; OCI BM.GPU4.8 16x100 Gb/s RoCE per node", 4, 8, SC_FAMILY_CLOUD, "dgx-a100-superpod", 8, 23.75, SC_TRANSPORT_ROCE },
  { "H200-SXM", "NVSwitch; 8x400 Gb/s RoCE", 64, 8, SC_FAMILY_CLOUD, "dgx-h200", 8, 47.5, SC_TRANSPORT_ROCE },
  { "GB300", "NVLink5 900 GB/s/dir NVL72", 18, 4, SC_FAMILY_NVL72, "gb300-nvl72", 0, 0, 0 },
  { "GB200", "NVL72; 4x800 Gb/s IB per node between racks", 72, 4, SC_FAMILY_NVL72, "gb200-nvl72", 4, 97.8, SC_TRANSPORT_INFINIBAND },
  { "GH200-96GB", "NVLink4 4-GPU node; Slingshot-11 200 Gb/s per GPU (4 per node)", 300, 4, SC_FAMILY_SLINGSHOT, "alps-gh200", 4, 0, SC_TRANSPORT_SLINGSHOT },
  { "L40S", "PCIe4 x16, no NVLink", 1, 8, SC_FAMILY_PCIE, "pcie-l40s", 0, 0, 0 },
  { "B200-SXM", "NVSwitch; GCP a4 8x400 Gb/s RoCE per node", 2, 8, SC_FAMILY_CLOUD, "dgx-b200", 8, 42, SC_TRANSPORT_ROCE },
  { "Tesla V100-SXM2-32GB", "NVLink2", 1, 8, SC_FAMILY_MESH, "dgx1-v100", 0, 0, 0 },
};

START_TEST (words_lead_to_systems)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autoptr (ScSweep) sweep = g_new0 (ScSweep, 1);
  sweep->gpu = g_strdup (mapped[_i].gpu);
  sweep->fabric = g_strdup (mapped[_i].fabric);
  sweep->nodes = mapped[_i].nodes;
  sweep->gpus_per_node = mapped[_i].per_node;
  sweep->gpus = sweep->nodes * sweep->gpus_per_node;
  g_auto (ScSystem) system = { .topology = NULL };
  g_autoptr (GError) error = NULL;
  ck_assert_msg (sc_systems_find_sweep (systems, sweep, &system, &error), "%s", error != NULL ? error->message : "");
  ck_assert_str_eq (system.topology_name, mapped[_i].topology);
  ck_assert_int_eq (system.family, mapped[_i].family);
  ck_assert_uint_ge (system.topology->n_nodes, sweep->nodes);
  const ScNodeType *type = &system.topology->types[0];
  if (mapped[_i].nics > 0)
    {
      ck_assert_uint_eq (type->nics, mapped[_i].nics);
      ck_assert_int_eq (type->transport, mapped[_i].transport);
    }
  if (mapped[_i].nic_gbytes_per_s > 0)
    ck_assert_double_eq_tol (type->nic_bytes_per_s.value, mapped[_i].nic_gbytes_per_s * 1e9, 1e6);
}
END_TEST

START_TEST (what_no_rule_knows_is_skipped_with_its_words)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autoptr (GPtrArray) sweeps = parse ("{\"collective\":\"all_reduce\",\"gpu\":\"Abacus\",\"gpus\":8,\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"Abacus\",\"gpus\":8,\"topology\":\"dgx-h100-8\",\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":8,\"topology\":\"no-such\",\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":9,\"nodes\":2,\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"juggle\",\"gpu\":\"H100\",\"gpus\":8,\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":1,\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":8,\"nccl\":\"latest\",\"rows\":[[8,1]]}\n"
                                        "{\"collective\":\"all_reduce\",\"gpu\":\"H100\",\"gpus\":8,\"rows\":[[0,1],[8,0]]}",
                                        NULL, NULL);
  g_autoptr (ScCollectivesResult) result = sc_validate_collectives (systems, sweeps, 1);
  const char *const why[] = { "no system is known for Abacus", NULL, "no-such", "9 GPUs are not 2 nodes of 5", "no collective is called juggle",
                              "one GPU alone", "NCCL \"latest\" is not known", "no row has a size and a time" };
  ck_assert_uint_eq (result->sweeps->len, G_N_ELEMENTS (why));
  for (guint i = 0; i < G_N_ELEMENTS (why); i++)
    {
      const ScSweepResult *r = g_ptr_array_index (result->sweeps, i);
      ck_assert_msg (why[i] != NULL ? r->skipped != NULL && strstr (r->skipped, why[i]) != NULL : r->skipped == NULL, "%u: %s", i,
                     r->skipped != NULL ? r->skipped : "judged");
    }
  ck_assert_uint_eq (result->n_sweeps_skipped, G_N_ELEMENTS (why) - 1);
  ck_assert_uint_eq (result->families[SC_FAMILY_OTHER].errors.all.n, 1);
}
END_TEST

/* ---- Judgement ---- */

static ScCollectivesResult *
judged (const char *keys, const char *rows, GPtrArray **ret_sweeps)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autofree char *text = g_strdup_printf (HEAD "\"set\":{\"collectives\":\"textbook\"},%s\"rows\":%s}", keys, rows);
  *ret_sweeps = parse (text, NULL, NULL);
  ck_assert_ptr_nonnull (*ret_sweeps);
  return sc_validate_collectives (systems, *ret_sweeps, 1);
}

START_TEST (a_launch_is_a_floor)
{
  /* a textbook call of 8 B lasts some 16 us on one node */
  static const struct
  {
    const char *keys, *rows;
    double launch_us;
    gboolean estimated;
    guint n_launch;
  } cases[] = {
    { "", "[[8,17],[1024,16],[1048576,25]]", 0, FALSE, 0 },
    { "", "[[8,100],[16,90],[32,110],[64,120],[128,95],[1048576,200]]", 105, TRUE, 4 },
    { "", "[[8,100],[1048576,70]]", 70, TRUE, 1 },     /* a larger row was faster */
    { "", "[[8,100],[65536,12],[1048576,80]]", 0, FALSE, 0 }, /* the small row was noise */
    { "\"launch_us\":50,", "[[8,100],[16,90],[1048576,200]]", 50, FALSE, 0 },
  };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (GPtrArray) sweeps = NULL;
      g_autoptr (ScCollectivesResult) result = judged (cases[c].keys, cases[c].rows, &sweeps);
      const ScSweepResult *r = g_ptr_array_index (result->sweeps, 0);
      ck_assert_ptr_null (r->skipped);
      ck_assert_msg (fabs (r->launch_s * 1e6 - cases[c].launch_us) < 1e-6, "%u: %g us", c, r->launch_s * 1e6);
      ck_assert_int_eq (r->launch_estimated, cases[c].estimated);
      ck_assert_uint_eq (r->n_states[SC_POINT_LAUNCH], cases[c].n_launch);
      ck_assert_uint_eq (r->errors.all.n + cases[c].n_launch, r->sweep->n_rows);
      for (guint i = 0; i < r->sweep->n_rows; i++)
        ck_assert_double_ge (r->points[i].predicted_s, MAX (r->points[i].model_s, r->launch_s));
    }
}
END_TEST

START_TEST (a_send_without_the_way_back_is_a_single_message)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autoptr (GPtrArray) sweeps = parse ("{\"collective\":\"sendrecv\",\"gpu\":\"H100\",\"gpus\":2,\"note\":\"One-way\",\"rows\":[[65536,20]]}\n"
                                        "{\"collective\":\"sendrecv\",\"gpu\":\"H100\",\"gpus\":2,\"rows\":[[65536,20]]}",
                                        NULL, NULL);
  g_autoptr (ScCollectivesResult) result = sc_validate_collectives (systems, sweeps, 1);
  const char *const rows[] = { "send", "send-receive" };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    ck_assert_str_eq (((const ScSweepResult *) g_ptr_array_index (result->sweeps, i))->points[0].algorithm, rows[i]);
}
END_TEST

START_TEST (a_prediction_that_is_the_measurement_has_no_error)
{
  g_autoptr (GPtrArray) sweeps = NULL, again = NULL;
  g_autoptr (ScCollectivesResult) first = judged ("", "[[8,1e-3],[1048576,1e-3],[1073741824,1e-3]]", &sweeps);
  const ScSweepResult *r = g_ptr_array_index (first->sweeps, 0);
  ck_assert (!first->passes);
  g_autofree char *rows = g_strdup_printf ("[[8,%.17g],[1048576,%.17g],[1073741824,%.17g]]", r->points[0].model_s * 1e6,
                                           r->points[1].model_s * 1e6, r->points[2].model_s * 1e6);
  g_autoptr (ScCollectivesResult) second = judged ("", rows, &again);
  ck_assert_double_eq_tol (sc_error_stat_geomean (&second->errors.all), 0, 1e-9);
  ck_assert_uint_eq (second->errors.small.n, 1);
  ck_assert_uint_eq (second->errors.large.n, 2);
  ck_assert (second->passes);
}
END_TEST

START_TEST (threads_change_nothing)
{
  g_autoptr (ScSystems) systems = shipped_systems ();
  g_autoptr (GPtrArray) sweeps = sc_sweeps_load ("collectives", NULL, NULL);
  g_ptr_array_set_size (sweeps, 12);
  for (const ScCollectivesFormat *format = sc_collectives_formats (); format->name != NULL; format++)
    {
      g_autoptr (GString) alone = g_string_new (NULL);
      g_autoptr (GString) together = g_string_new (NULL);
      g_autoptr (ScCollectivesResult) one = sc_validate_collectives (systems, sweeps, 1);
      g_autoptr (ScCollectivesResult) three = sc_validate_collectives (systems, sweeps, 3);
      format->write (one, alone);
      format->write (three, together);
      ck_assert_str_eq (alone->str, together->str);
      ck_assert_uint_gt (alone->len, 0);
    }
}
END_TEST

static Suite *
validate_suite (void)
{
  Suite *suite = suite_create ("validate");
  TCase *tc = tcase_create ("errors");
  tcase_add_test (tc, twice_and_half_are_equally_far);
  tcase_add_test (tc, sums_of_parts_are_sums_of_all);
  tcase_add_test (tc, ratios_beyond_double_are_counted);
  tcase_add_test (tc, the_median_is_in_the_middle);
  tcase_add_test (tc, every_size_has_one_band);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("reading");
  tcase_add_test (tc, a_line_is_read_with_what_others_wrote);
  tcase_add_loop_test (tc, what_is_no_sweep_is_refused_in_one_line, 0, G_N_ELEMENTS (refused));
  suite_add_tcase (suite, tc);
  tc = tcase_create ("words");
  tcase_add_loop_test (tc, ports_are_read_from_words, 0, G_N_ELEMENTS (ports));
  tcase_add_loop_test (tc, what_is_forced_is_read_from_words, 0, G_N_ELEMENTS (algos));
  tcase_add_test (slow (suite), every_shipped_sweep_finds_its_system);
  tcase_add_loop_test (tc, words_lead_to_systems, 0, G_N_ELEMENTS (mapped));
  tcase_add_test (tc, what_no_rule_knows_is_skipped_with_its_words);
  tcase_set_timeout (tc, 300);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("judgement");
  tcase_add_test (tc, a_launch_is_a_floor);
  tcase_add_test (tc, a_send_without_the_way_back_is_a_single_message);
  tcase_add_test (tc, a_prediction_that_is_the_measurement_has_no_error);
  tcase_add_test (heavy (suite), threads_change_nothing);
  tcase_set_timeout (tc, 300);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (validate_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
