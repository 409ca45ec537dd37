/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_memory.c - peaks of allocation curves drawn by hand, and what lies around them on the device. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "fixtures.h"
#include "models/memory.h"
#include "sim/engine.h"

static ScMemPeak
peak_of (const ScProgram *p, guint32 actor)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTrace) t = sc_engine_run (p, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  return sc_memory_peak (p, t, actor);
}

static guint64
sum_of (const ScMemPeak *peak)
{
  guint64 sum = 0;
  for (guint k = 0; k < SC_N_MEMS; k++)
    sum += peak->by_kind[k];
  return sum;
}

START_TEST (nothing_allocated_has_no_peak)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  sc_program_work (p, 0, 0, 1000);
  const ScMemPeak peak = peak_of (p, 0);
  ck_assert_uint_eq (peak.bytes, 0);
  ck_assert_uint_eq (peak.op, SC_NONE);
}
END_TEST

/* weights 100 | 5 ps | activations 40 | 7 ps | transient 30 | 2 ps | -30 | 4 ps | -40: top of 170 at 12 ps */
START_TEST (the_top_stands_inside_a_run_of_work)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  sc_program_mem (p, 0, SC_MEM_WEIGHTS, 100);
  sc_program_work (p, 0, 0, 5);
  sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, 40);
  sc_program_work (p, 0, 0, 7);
  sc_program_mem (p, 0, SC_MEM_TRANSIENT, 30);
  sc_program_work (p, 0, 0, 2);
  sc_program_mem (p, 0, SC_MEM_TRANSIENT, -30);
  sc_program_work (p, 0, 0, 4);
  sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, -40);
  const ScMemPeak peak = peak_of (p, 0);
  ck_assert_uint_eq (peak.bytes, 170);
  ck_assert_int_eq (peak.time, 12);
  ck_assert_uint_eq (peak.op, 4);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_WEIGHTS], 100);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_ACTIVATIONS], 40);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_TRANSIENT], 30);
  ck_assert_uint_eq (sum_of (&peak), 170);
}
END_TEST

START_TEST (at_one_instant_frees_come_first)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, 100);
  sc_program_work (p, 0, 0, 10);
  sc_program_mem (p, 0, SC_MEM_LOGITS, 90); /* issued before the free, at the same time */
  sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, -100);
  sc_program_work (p, 0, 0, 10);
  sc_program_mem (p, 0, SC_MEM_LOGITS, -90);
  const ScMemPeak peak = peak_of (p, 0);
  ck_assert_uint_eq (peak.bytes, 100);
  ck_assert_int_eq (peak.time, 0);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_LOGITS], 0);
}
END_TEST

START_TEST (of_equal_tops_the_first_counts)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 1, FALSE);
  for (guint i = 0; i < 3; i++)
    {
      sc_program_work (p, 0, 0, 10);
      sc_program_mem (p, 0, SC_MEM_COMM, 50);
      sc_program_work (p, 0, 0, 10);
      sc_program_mem (p, 0, SC_MEM_COMM, -50);
    }
  const ScMemPeak peak = peak_of (p, 0);
  ck_assert_uint_eq (peak.bytes, 50);
  ck_assert_int_eq (peak.time, 10);
  ck_assert_uint_eq (peak.op, 1);
}
END_TEST

/* Stream 0 allocates at 0 and 20 and frees at 30; stream 1 holds a send buffer from 0 to 25, behind an event. */
START_TEST (streams_share_one_curve_and_actors_do_not)
{
  g_autoptr (ScProgram) p = sc_program_new ();
  for (guint actor = 0; actor < 2; actor++)
    {
      sc_program_add_actor (p, 2, FALSE);
      sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, 10);
      sc_program_mem (p, 1, SC_MEM_COMM, 7 * (1 + actor));
      sc_program_work (p, 0, 0, 20);
      sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, 10);
      sc_program_work (p, 1, 0, 25);
      sc_program_mem (p, 1, SC_MEM_COMM, -7 * (1 + (gint64) actor));
      sc_program_work (p, 0, 0, 10);
      sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, -20);
    }
  for (guint32 actor = 0; actor < 2; actor++)
    {
      const ScMemPeak peak = peak_of (p, actor);
      ck_assert_uint_eq (peak.bytes, 20 + 7 * (1 + actor));
      ck_assert_int_eq (peak.time, 20);
      ck_assert_uint_eq (peak.by_kind[SC_MEM_COMM], 7 * (1 + actor));
      ck_assert_uint_eq (sum_of (&peak), peak.bytes);
    }
}
END_TEST

/* A buffer that is freed on one stream before another one needs it: the wait keeps the order. */
START_TEST (a_wait_moves_an_allocation_behind_a_free)
{
  for (guint wait = 0; wait < 2; wait++)
    {
      g_autoptr (ScProgram) p = sc_program_new ();
      sc_program_add_actor (p, 2, FALSE);
      const guint32 event = sc_program_add_event (p);
      sc_program_mem (p, 1, SC_MEM_COMM, 64);
      sc_program_work (p, 1, 0, 100);
      sc_program_mem (p, 1, SC_MEM_COMM, -64);
      sc_program_record (p, 1, event);
      if (wait > 0)
        sc_program_wait (p, 0, event);
      sc_program_mem (p, 0, SC_MEM_ACTIVATIONS, 64);
      sc_program_work (p, 0, 0, 10);
      const ScMemPeak peak = peak_of (p, 0);
      ck_assert_uint_eq (peak.bytes, wait > 0 ? 64 : 128);
    }
}
END_TEST

/* What a kernel allocates and frees hangs on the kernel, many of which may share one set. */
START_TEST (kernels_bring_sets_of_changes)
{
  static const ScMemDelta take[] = { { 30, SC_MEM_TRANSIENT }, { 20, SC_MEM_ACTIVATIONS } };
  static const ScMemDelta give[] = { { -30, SC_MEM_TRANSIENT }, { 5, SC_MEM_LOGITS } };
  g_autoptr (ScProgram) p = sc_program_new ();
  const guint32 first = sc_program_add_mem_set (p, take, 2), second = sc_program_add_mem_set (p, give, 2);
  sc_program_add_actor (p, 1, FALSE);
  for (guint i = 0; i < 3; i++)
    {
      sc_program_work (p, 0, 0, 10)->arg = first;
      sc_program_work (p, 0, 0, 10)->arg = second;
    }
  sc_program_work (p, 0, 0, 10);
  const ScMemPeak peak = peak_of (p, 0); /* each pair leaves 25; the third one's first kernel stands on 50 */
  ck_assert_uint_eq (peak.bytes, 100);
  ck_assert_int_eq (peak.time, 40);
  ck_assert_uint_eq (peak.op, 4);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_TRANSIENT], 30);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_ACTIVATIONS], 60);
  ck_assert_uint_eq (peak.by_kind[SC_MEM_LOGITS], 10);
  g_autoptr (ScTrace) t = sc_engine_run (p, NULL);
  g_autoptr (GArray) changes = sc_memory_changes (p, t, 0);
  ck_assert_uint_eq (changes->len, 12);
}
END_TEST

/* ---- any program: as if every instant were looked at ---- */

static guint64
next_random (guint64 *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

/* Bytes alive at the end of instant @time; of one kind, or of all (-1). */
static gint64
level_at (const ScProgram *p, const ScTrace *t, ScTime time, gint kind)
{
  gint64 sum = 0;
  for (guint32 i = 0; i < p->ops->len; i++)
    {
      const ScOp *const op = &g_array_index (p->ops, ScOp, i);
      if (t->spans[i].start > time)
        continue;
      if (op->kind == SC_OP_MEM && (kind < 0 || op->tag == kind))
        sum += op->value;
      if (op->kind != SC_OP_WORK || op->arg == SC_NONE)
        continue;
      for (guint32 k = g_array_index (p->mem_sets, guint32, op->arg);
           k < g_array_index (p->mem_sets, guint32, op->arg + 1); k++)
        {
          const ScMemDelta *const d = &g_array_index (p->mem_deltas, ScMemDelta, k);
          sum += kind < 0 || d->tag == kind ? d->bytes : 0;
        }
    }
  return sum;
}

START_TEST (any_curve_peaks_where_its_highest_instant_is)
{
  guint64 x = 88172645463325252u + (guint64) _i;
  g_autoptr (ScProgram) p = sc_program_new ();
  sc_program_add_actor (p, 3, FALSE);
  gint64 held[3][SC_N_MEMS] = { { 0 } };
  for (guint i = 0; i < 120; i++)
    {
      const guint8 stream = (guint8) (next_random (&x) % 3);
      const guint kind = (guint) (next_random (&x) % SC_N_MEMS);
      switch (next_random (&x) % 3)
        {
        case 0:
          {
            ScOp *const op = sc_program_work (p, stream, 0, (ScTime) (next_random (&x) % 4));
            const ScMemDelta change[] = { { (gint64) (1 + next_random (&x) % 50), (guint16) kind },
                                          { -held[stream][kind], (guint16) kind } };
            if (next_random (&x) % 2 == 0)
              break;
            op->arg = sc_program_add_mem_set (p, change, held[stream][kind] > 0 ? 2 : 1);
            held[stream][kind] = change[0].bytes;
            break;
          }
        case 1:
          {
            const gint64 bytes = (gint64) (1 + next_random (&x) % 100);
            held[stream][kind] += bytes;
            sc_program_mem (p, stream, (guint16) kind, bytes);
            break;
          }
        default:
          if (held[stream][kind] > 0)
            sc_program_mem (p, stream, (guint16) kind, -held[stream][kind]);
          held[stream][kind] = 0;
        }
    }
  g_autoptr (ScTrace) t = sc_engine_run (p, NULL);
  const ScMemPeak peak = sc_memory_peak (p, t, 0);
  g_autoptr (GArray) changes = sc_memory_changes (p, t, 0);
  guint32 reached = SC_NONE; /* by the list of changes: by its last one that goes higher */
  gint64 level_so_far = 0, most = 0;
  for (guint i = 0; i < changes->len; i++)
    {
      level_so_far += g_array_index (changes, ScMemChange, i).bytes;
      if (level_so_far <= most)
        continue;
      most = level_so_far;
      reached = g_array_index (changes, ScMemChange, i).op;
    }
  ck_assert_uint_eq (peak.op, reached);
  gint64 highest = 0;
  ScTime when = 0;
  for (ScTime now = 0; now <= t->end; now++)
    {
      const gint64 level = level_at (p, t, now, -1);
      if (level > highest)
        {
          highest = level;
          when = now;
        }
    }
  ck_assert_uint_eq (peak.bytes, (guint64) highest);
  ck_assert_int_eq (peak.time, when);
  ck_assert_uint_eq (sum_of (&peak), peak.bytes);
  for (guint k = 0; k < SC_N_MEMS; k++)
    ck_assert_int_eq ((gint64) peak.by_kind[k], level_at (p, t, when, (gint) k));
  ck_assert_int_eq (t->spans[peak.op].start, when);
}
END_TEST

/* ---- around the curve ---- */

#define MIB G_GUINT64_CONSTANT (1048576)

START_TEST (reserved_memory_is_a_little_more_in_whole_segments)
{
  ck_assert_uint_eq (sc_memory_reserved (0), 0);
  ck_assert_uint_eq (sc_memory_reserved (1), 2 * MIB);
  ck_assert_uint_eq (sc_memory_reserved (2 * MIB), 4 * MIB);
  ck_assert_uint_eq (sc_memory_reserved (200 * MIB), 206 * MIB); /* 3 %, exactly */
  guint64 before = 0;
  for (guint64 bytes = 1; bytes < 200000 * MIB; bytes = bytes * 3 / 2 + 1)
    {
      const guint64 reserved = sc_memory_reserved (bytes);
      ck_assert_uint_eq (reserved % (2 * MIB), 0);
      ck_assert_uint_ge (reserved, bytes);
      ck_assert_uint_ge (reserved, before);
      ck_assert_uint_le (reserved, (guint64) ((double) bytes * 1.03) + 2 * MIB);
      before = reserved;
    }
}
END_TEST

START_TEST (verdicts_turn_at_the_margin_and_at_the_capacity)
{
  ck_assert_int_eq (sc_memory_verdict (950, 1000, 0.05), SC_VERDICT_FITS);
  ck_assert_int_eq (sc_memory_verdict (951, 1000, 0.05), SC_VERDICT_AT_RISK);
  ck_assert_int_eq (sc_memory_verdict (1000, 1000, 0.05), SC_VERDICT_AT_RISK);
  ck_assert_int_eq (sc_memory_verdict (1001, 1000, 0.05), SC_VERDICT_DOES_NOT_FIT);
  ck_assert_int_eq (sc_memory_verdict (1000, 1000, 0), SC_VERDICT_FITS);
  ck_assert_str_eq (sc_verdict_name (SC_VERDICT_FITS), "fits");
  ck_assert_str_eq (sc_verdict_name (SC_VERDICT_AT_RISK), "at risk");
  ck_assert_str_eq (sc_verdict_name (SC_VERDICT_DOES_NOT_FIT), "does not fit");
}
END_TEST

/* MODELLING 3.9: 524,288 + 4,915,200 + 4,194,304 = 9,633,792 bytes a channel and peer. */
START_TEST (nccl_buffers_grow_with_the_communicators_of_a_rank)
{
  const guint64 channel = 9633792;
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4 });
  g_autoptr (ScWorkload) alone = fix_workload ((FixPlan) { .layers = 1 });
  g_autoptr (ScFabric) f1 = sc_fabric_new (t, 1, NULL);
  g_autoptr (ScLayout) l1 = sc_layout_new (alone);
  ck_assert_uint_eq (sc_memory_nccl (l1, f1, 0), 0);

  g_autoptr (ScWorkload) tp =
      fix_workload ((FixPlan) { .tp = 8, .layers = 1 }); /* tensor parallel and world, inside a node */
  g_autoptr (ScFabric) f8 = sc_fabric_new (t, 8, NULL);
  g_autoptr (ScLayout) l8 = sc_layout_new (tp);
  const guint64 inside = sc_memory_nccl (l8, f8, 3);
  ck_assert_uint_eq (inside % channel, 0);
  ck_assert_uint_ge (inside, 2 * 12 * channel);
  ck_assert_uint_le (inside, 2 * 24 * channel);

  g_autoptr (ScWorkload) wide = fix_workload ((FixPlan) { .tp = 8, .dp = 2, .pp = 2, .layers = 2 });
  g_autoptr (ScFabric) f32 = sc_fabric_new (t, 32, NULL);
  g_autoptr (ScLayout) l32 = sc_layout_new (wide);
  const guint64 more = sc_memory_nccl (l32, f32, 3); /* tp inside; dp, world and two pipeline pairs across */
  ck_assert_uint_eq (more % channel, 0);
  ck_assert_uint_ge (more, inside / 2 + 4 * channel);
  for (guint32 rank = 0; rank < 32; rank++) /* two stages: every rank has one neighbour, both ways */
    ck_assert_uint_eq (sc_memory_nccl (l32, f32, rank), more);
}
END_TEST

/* Until release 2.21 all algorithms were connected at once: ring and tree of all 24 channels, two peers each; over the network six buffers. */
START_TEST (communicators_of_old_releases_hold_more)
{
  const guint64 channel = 9633792;
  g_autoptr (ScTopology) t = fix_topology ((FixFabric) { .nodes = 4 });
  g_autoptr (ScWorkload) w = fix_workload ((FixPlan) { .tp = 8, .layers = 1 });
  g_autoptr (ScLayout) l = sc_layout_new (w);
  guint64 late = 0;
  static const guint releases[] = { 2022, 2023, 2021, 2014 };
  for (guint i = 0; i < G_N_ELEMENTS (releases); i++)
    {
      t->collectives = releases[i];
      g_autoptr (ScFabric) f = sc_fabric_new (t, 8, NULL);
      const guint64 bytes = sc_memory_nccl (l, f, 3);
      ck_assert_uint_eq (bytes % channel, 0);
      if (releases[i] >= 2022)
        late = bytes;
      else
        ck_assert_uint_eq (bytes, late / 16 * 48); /* of as many communicators */
    }
  /* DeepSpeed's pipelines: as many again of tensor-parallel ranks, of pipelines and of models */
  g_autoptr (ScWorkload) pipelines = fix_workload ((FixPlan) { .tp = 8, .pp = 2, .layers = 2 });
  t->collectives = 2014;
  g_autoptr (ScFabric) f16 = sc_fabric_new (t, 16, NULL);
  ck_assert_uint_eq (sc_memory_nccl_grid (pipelines, f16, 3), 0);
  pipelines->framework = sc_framework_find ("megatron-deepspeed", NULL);
  ck_assert_uint_eq (sc_memory_nccl_grid (pipelines, f16, 3), (48 + 24 + 24) * channel);
}
END_TEST

static Suite *
memory_suite (void)
{
  Suite *const s = suite_create ("memory");
  TCase *const curve = tcase_create ("curve");
  tcase_add_test (curve, nothing_allocated_has_no_peak);
  tcase_add_test (curve, the_top_stands_inside_a_run_of_work);
  tcase_add_test (curve, at_one_instant_frees_come_first);
  tcase_add_test (curve, of_equal_tops_the_first_counts);
  tcase_add_test (curve, streams_share_one_curve_and_actors_do_not);
  tcase_add_test (curve, a_wait_moves_an_allocation_behind_a_free);
  tcase_add_test (curve, kernels_bring_sets_of_changes);
  tcase_add_loop_test (curve, any_curve_peaks_where_its_highest_instant_is, 0, 40);
  suite_add_tcase (s, curve);
  TCase *const device = tcase_create ("device");
  tcase_add_test (device, reserved_memory_is_a_little_more_in_whole_segments);
  tcase_add_test (device, verdicts_turn_at_the_margin_and_at_the_capacity);
  tcase_add_test (device, nccl_buffers_grow_with_the_communicators_of_a_rank);
  tcase_add_test (device, communicators_of_old_releases_hold_more);
  suite_add_tcase (s, device);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (memory_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
