/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_contention.c - what collectives take from kernels beside them: channels of NCCL, bandwidth, and what was measured. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include "library.h"
#include "models/contention.h"
#include "models/nccl.h"
#include "topology-json.h"

#define GIB (1024.0 * 1024 * 1024)
#define KIB 1024.0

typedef struct
{
  ScTopology *topology;
  ScFabric   *fabric;
  ScDevice   *device; /* of the topology, to change */
} Gpus;

static Gpus
gpus_of (const char *name)
{
  g_autoptr (GError) error = NULL;
  Gpus g = { .topology = sc_topology_load (name, NULL, NULL, &error) };
  ck_assert_msg (g.topology != NULL, "%s: %s", name, error != NULL ? error->message : "no error");
  g.fabric = sc_fabric_new (g.topology, g.topology->types[0].gpus, NULL);
  g.device = g_ptr_array_index (g.topology->devices, 0);
  return g;
}

static void
gpus_clear (Gpus *g)
{
  sc_fabric_free (g->fabric);
  sc_topology_free (g->topology);
}

/* @n ranks on @nodes whole nodes, a rail each. */
static ScGroupShape
shape_of (const Gpus *g, guint n, guint nodes)
{
  const gboolean across = nodes > 1;
  ScGroupShape shape = { .n = n, .n_domains = nodes, .per_domain = n / nodes, .n_channels = across ? n / nodes : 1, .rails = across ? n / nodes : 1,
                         .hops_inter = across ? nodes : 0, .inter_bytes_per_s = across ? 48.9e9 : INFINITY,
                         .intra_bytes_per_s = n > nodes ? 395e9 : INFINITY, .inter_latency_s = 5e-6, .intra_latency_s = 0.82e-6,
                         .launch_s = 4.45e-6 };
  shape.library = sc_nccl_library (g->fabric, 0);
  return shape;
}

static const struct
{
  const char *topology;
  guint  n, nodes;
  const ScCollective *row;
  ScProtocol protocol;
  ScCollKind kind;
  double bytes, sms;
} blocks[] = {
  { "dgx-a100", 8, 1, &sc_collective_ring, SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, GIB, 24 },
  { "dgx-h100-8", 8, 1, &sc_collective_ring, SC_PROTO_SIMPLE, SC_COLL_ALL_GATHER, GIB, 24 },
  { "dgx-h100-8", 8, 1, &sc_collective_nvls, SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, GIB, 16 },
  { "dgx-h100-8", 64, 8, &sc_collective_nvls_tree, SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, GIB, 16 },
  { "dgx-b200", 8, 1, &sc_collective_nvls, SC_PROTO_SIMPLE, SC_COLL_ALL_REDUCE, GIB, 24 },
  { "dgx-h100-8", 64, 8, &sc_collective_ring, SC_PROTO_SIMPLE, SC_COLL_REDUCE_SCATTER, GIB, 16 },
  { "dgx-h100-8", 8, 1, &sc_collective_ring, SC_PROTO_LL, SC_COLL_ALL_GATHER, 64 * KIB, 2 }, /* 4 KiB of each of 8 ranks a channel */
  { "dgx-h100-8", 8, 1, &sc_collective_ring, SC_PROTO_SIMPLE, SC_COLL_ALL_GATHER, 100, 1 },
  { "dgx-h100-8", 2, 2, &sc_collective_send, SC_PROTO_SIMPLE, SC_COLL_SEND, GIB, 2 },
  { "dgx-h100-8", 64, 8, &sc_collective_all_to_all, SC_PROTO_SIMPLE, SC_COLL_ALL_TO_ALL, GIB, 32 },
  { "dgx-h100-8", 64, 8, &sc_collective_deepep, SC_PROTO_SIMPLE, SC_COLL_ALL_TO_ALL, GIB, 20 },
};

START_TEST (products_lose_the_sms_of_the_channels)
{
  Gpus g = gpus_of (blocks[_i].topology);
  const ScGroupShape shape = shape_of (&g, blocks[_i].n, blocks[_i].nodes);
  const ScCollChoice choice = { .row = blocks[_i].row, .protocol = blocks[_i].protocol, .channels = 12, .alone_s = 1e-2 };
  const ScContention c = sc_contention (g.device, &choice, blocks[_i].kind, &shape, blocks[_i].bytes);
  ck_assert_double_eq_tol (c.hold[SC_WORK_PRODUCT] * g.device->sms.value, blocks[_i].sms, 1e-9);
  ck_assert_double_eq (c.hold[SC_WORK_COPY], 0);
  ck_assert_int_eq (c.grade, SC_GRADE_ASSUMED);
  gpus_clear (&g);
}
END_TEST

/* arXiv 2205.05198, table 4: a layer's backward pass took 1.3 times as long beside gradients that are reduced. */
START_TEST (a_ring_on_a100_slows_products_as_published)
{
  Gpus g = gpus_of ("dgx-a100");
  const ScGroupShape shape = shape_of (&g, 8, 1);
  const ScCollChoice choice = { .row = &sc_collective_ring, .protocol = SC_PROTO_SIMPLE, .alone_s = 1e-2 };
  const ScContention c = sc_contention (g.device, &choice, SC_COLL_ALL_REDUCE, &shape, GIB);
  ck_assert_double_eq_tol (1 / (1 - c.hold[SC_WORK_PRODUCT]), 1.3, 0.02);
  gpus_clear (&g);
}
END_TEST

static const struct
{
  ScCollKind kind;
  const ScCollective *row;
  double traffic; /* bytes of memory per byte of the buffer */
} traffics[] = {
  { SC_COLL_ALL_GATHER, &sc_collective_ring, 2 * 7 / 8.0 },
  { SC_COLL_REDUCE_SCATTER, &sc_collective_ring, 3 * 7 / 8.0 },
  { SC_COLL_ALL_REDUCE, &sc_collective_ring, 3 * 2 * 7 / 8.0 },
  { SC_COLL_ALL_TO_ALL, &sc_collective_all_to_all, 2 * 7 / 8.0 },
  { SC_COLL_BROADCAST, &sc_collective_chain, 2 },
};

START_TEST (memory_bound_kernels_lose_the_bandwidth_that_a_call_moves)
{
  Gpus g = gpus_of ("dgx-h100-8");
  const ScGroupShape shape = shape_of (&g, 8, 1);
  for (double seconds = 1e-3; seconds < 1; seconds *= 3)
    {
      const ScCollChoice choice = { .row = traffics[_i].row, .protocol = SC_PROTO_SIMPLE, .alone_s = seconds };
      const ScContention c = sc_contention (g.device, &choice, traffics[_i].kind, &shape, GIB);
      const double share = traffics[_i].traffic * GIB / seconds / g.device->memory_bytes_per_s.value;
      ck_assert_double_eq_tol (c.hold[SC_WORK_MEMORY], MIN (share, 0.5), 1e-9); /* at most half */
    }
  gpus_clear (&g);
}
END_TEST

START_TEST (what_was_measured_beside_all_channels_counts_for_fewer)
{
  Gpus g = gpus_of ("dgx-h100-8");
  const ScGroupShape shape = shape_of (&g, 8, 1);
  const ScCollChoice nvls = { .row = &sc_collective_nvls, .protocol = SC_PROTO_SIMPLE, .alone_s = 1e-2 }, ring = { .row = &sc_collective_ring, .protocol = SC_PROTO_LL, .alone_s = 1e-5 };
  g.device->hidden_slowdown.value = 1.25;
  g.device->hidden_slowdown.grade = SC_GRADE_MEASURED;
  const ScContention whole = sc_contention (g.device, &nvls, SC_COLL_ALL_REDUCE, &shape, GIB);
  ck_assert_double_eq_tol (whole.hold[SC_WORK_PRODUCT], 0.2, 1e-12);
  ck_assert_int_eq (whole.grade, SC_GRADE_ASSUMED); /* memory-bound kernels are by bandwidth still */
  g.device->memory_slowdown.value = 1.5;
  g.device->memory_slowdown.grade = SC_GRADE_MEASURED;
  const ScContention part = sc_contention (g.device, &ring, SC_COLL_ALL_GATHER, &shape, 64 * KIB);
  ck_assert_double_eq_tol (part.hold[SC_WORK_PRODUCT], 0.2 * 2 / 16, 1e-12);
  ck_assert_double_eq_tol (part.hold[SC_WORK_MEMORY], (1 - 1 / 1.5) * 2 / 16, 1e-12);
  ck_assert_int_eq (part.grade, SC_GRADE_MEASURED);
  ck_assert_ptr_null (sc_contention_text (g.device));
  gpus_clear (&g);
}
END_TEST

START_TEST (textbook_forms_take_one_number_for_all)
{
  Gpus g = gpus_of ("dgx-h100-8");
  ScGroupShape shape = shape_of (&g, 8, 1);
  shape.library.version = NULL;
  const ScCollChoice choice = { .row = &sc_collective_ring, .protocol = SC_PROTO_SIMPLE, .alone_s = 1e-2 };
  g.device->hidden_slowdown.value = 1.25;
  const ScContention c = sc_contention (g.device, &choice, SC_COLL_ALL_REDUCE, &shape, GIB);
  ck_assert_double_eq_tol (c.hold[SC_WORK_PRODUCT], 0.2, 1e-12);
  ck_assert_double_eq_tol (c.hold[SC_WORK_MEMORY], 0.2, 1e-12);
  ck_assert_double_eq (c.hold[SC_WORK_COPY], 0);
  gpus_clear (&g);
}
END_TEST

START_TEST (user_buffers_copy_steps_of_a_ring_with_one_sm)
{
  Gpus g = gpus_of ("dgx-h100-8");
  const ScGroupShape shape = shape_of (&g, 8, 1);
  const ScCollChoice choice = { .row = &sc_collective_send_receive, .protocol = SC_PROTO_SIMPLE, .alone_s = 1e-2 };
  const ScContention step = sc_contention_user_buffers (g.device, &choice, SC_COLL_SEND_RECEIVE, &shape, GIB);
  const ScContention whole = sc_contention_user_buffers (g.device, &choice, SC_COLL_ALL_GATHER, &shape, GIB);
  ck_assert_double_eq_tol (step.hold[SC_WORK_PRODUCT], 1 / 132.0, 1e-12);
  ck_assert_double_eq_tol (whole.hold[SC_WORK_PRODUCT], 16 / 132.0, 1e-12);
  gpus_clear (&g);
}
END_TEST

START_TEST (nothing_takes_a_whole_gpu)
{
  static const char *const topologies[] = { "dgx-a100", "dgx-h100-8", "dgx-b200", "dgx1-v100", "pcie-l40s", "gb200-nvl72" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (20261130);
  for (guint t = 0; t < G_N_ELEMENTS (topologies); t++)
    {
      Gpus g = gpus_of (topologies[t]);
      for (guint i = 0; i < 400; i++)
        {
          const guint nodes = 1u << g_rand_int_range (rand, 0, 5);
          const ScGroupShape shape = shape_of (&g, nodes * (guint) g_rand_int_range (rand, nodes > 1 ? 1 : 2, 5), nodes);
          const ScCollKind kind = (ScCollKind) g_rand_int_range (rand, 0, SC_N_COLLS);
          const ScCollChoice choice = { .row = sc_collective_all ()[g_rand_int_range (rand, 0, 8)], .protocol = (ScProtocol) g_rand_int_range (rand, 0, SC_N_PROTOS),
                                        .alone_s = pow (10, g_rand_double_range (rand, -6, 0)) };
          const ScContention c = sc_contention (g.device, &choice, kind, &shape, pow (10, g_rand_double_range (rand, 0, 11)));
          for (guint w = 0; w < SC_N_WORKS; w++)
            ck_assert_msg (c.hold[w] >= 0 && c.hold[w] <= 0.5, "%s, %s: %g of %u", topologies[t], sc_coll_kind_name (kind), c.hold[w], w);
        }
      gpus_clear (&g);
    }
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("contention");
  TCase *const tcase = tcase_create ("contention");
  tcase_add_loop_test (tcase, products_lose_the_sms_of_the_channels, 0, G_N_ELEMENTS (blocks));
  tcase_add_test (tcase, a_ring_on_a100_slows_products_as_published);
  tcase_add_loop_test (tcase, memory_bound_kernels_lose_the_bandwidth_that_a_call_moves, 0, G_N_ELEMENTS (traffics));
  tcase_add_test (tcase, what_was_measured_beside_all_channels_counts_for_fewer);
  tcase_add_test (tcase, textbook_forms_take_one_number_for_all);
  tcase_add_test (tcase, user_buffers_copy_steps_of_a_ring_with_one_sm);
  tcase_add_test (tcase, nothing_takes_a_whole_gpu);
  suite_add_tcase (suite, tcase);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
