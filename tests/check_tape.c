/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_tape.c - what ranks allocate in a step: every byte comes back, every free finds its tensor, and the same at any detail. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "models/forecast.h"
#include "models/tape-play.h"
#include "pace.h"
#include "topology-json.h"
#include "workload-json.h"

#define MIB (G_GINT64_CONSTANT (1) << 20)

/* ---- tapes drawn by hand ---- */

static void
put_mem (GArray *items, ScMemKind kind, gint64 bytes, guint8 tensor)
{
  const ScItem item = { .kind = SC_ITEM_MEM, .mem = kind, .mem_bytes = bytes, .tensor = tensor };
  g_array_append_val (items, item);
}

static guint32
info_of (guint microbatch)
{
  return sc_info_pack ((ScOpInfo) { microbatch, 0, 0, 0 });
}

/* Forwards and backwards of @n micro-batches with @ahead in flight: forward leaves 30 MiB of 80 at its peak, backward takes them back, with
 * 50 more on the way. */
static ScTape *
pipeline_tape (guint n, guint ahead)
{
  ScTape *const t = sc_tape_new ();
  g_autoptr (GArray) forward = g_array_new (FALSE, FALSE, sizeof (ScItem)), backward = g_array_new (FALSE, FALSE, sizeof (ScItem));
  put_mem (forward, SC_MEM_ACTIVATIONS, 20 * MIB, 1);
  put_mem (forward, SC_MEM_TRANSIENT, 50 * MIB, 0);
  put_mem (forward, SC_MEM_ACTIVATIONS, 10 * MIB, 2);
  put_mem (forward, SC_MEM_TRANSIENT, -50 * MIB, 0);
  put_mem (backward, SC_MEM_TRANSIENT, 50 * MIB, 0);
  put_mem (backward, SC_MEM_ACTIVATIONS, -10 * MIB, 2);
  put_mem (backward, SC_MEM_ACTIVATIONS, -20 * MIB, 1);
  put_mem (backward, SC_MEM_TRANSIENT, -50 * MIB, 0);
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_STATE, .mem = SC_MEM_WEIGHTS, .bytes = 100 * MIB, .name = "weights", .info = info_of (SC_INFO_NO_MICROBATCH) });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_LAZY, .mem = SC_MEM_OPTIMIZER, .bytes = 200 * MIB, .name = "moments", .info = info_of (SC_INFO_NO_MICROBATCH) });
  for (guint i = 0; i < n + ahead; i++)
    {
      sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
      if (i < n)
        sc_tape_put_list (t, forward, 0, G_MAXUINT32, info_of (i), 0);
      sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
      if (i >= ahead)
        sc_tape_put_list (t, backward, 0, G_MAXUINT32, info_of (i - ahead), 0);
    }
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_OPTIMIZER });
  return t;
}

/* Backward-like lists of @n micro-batches: 30 MiB come and go, read by another stream, and @ops kernels stand behind each. */
static ScTape *
sending_tape (guint n, guint ops)
{
  ScTape *const t = sc_tape_new ();
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  const ScItem kernel = { .kind = SC_ITEM_KERNEL, .kernel = { .name = "work" } };
  put_mem (items, SC_MEM_TRANSIENT, 30 * MIB, 0);
  put_mem (items, SC_MEM_TRANSIENT, -30 * MIB, 0);
  g_array_index (items, ScItem, 1).sent = TRUE;
  for (guint i = 0; i < ops; i++)
    g_array_append_val (items, kernel);
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
  for (guint i = 0; i < n; i++)
    sc_tape_put_list (t, items, 0, G_MAXUINT32, info_of (i), 0);
  return t;
}

/* A host that is 100 ops ahead needs a block for each 10 of them, but no more than there are; what is allocated does not change.  Out of memory, it
 * waits for the GPU. */
START_TEST (what_was_sent_comes_back_when_the_gpu_has_passed)
{
  static const struct
  {
    guint ahead, n;
    guint64 blocks;
  } cases[] = { { 0, 20, 1 }, { 1, 20, 1 }, { 10, 20, 1 }, { 11, 20, 2 }, { 100, 20, 10 }, { 100, 5, 5 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint short_of = 0; short_of < 2; short_of++)
      {
        const guint64 most = cases[i].blocks * 30 * MIB;
        const ScPlayOptions options = { .ahead = cases[i].ahead, .allocator = { .capacity = short_of ? 70 * MIB : 0 } };
        g_autoptr (ScTape) t = sending_tape (cases[i].n, 10);
        g_autoptr (ScTapePlay) play = sc_tape_play (t, &options);
        ck_assert (!play->out_of_memory);
        ck_assert_uint_eq (play->allocated[1], 30 * MIB);
        ck_assert_uint_eq (play->reserved[1], short_of ? MIN (most, 60 * MIB) : most);
        ck_assert_int_eq (play->n_retries > 0, short_of && most > 70 * MIB);
      }
}
END_TEST

/* Behind the last backward there are states; a tensor that the optimizer brings counts, those of passes do not. */
START_TEST (the_late_peak_begins_behind_the_last_pass)
{
  g_autoptr (ScTape) t = pipeline_tape (8, 3);
  ck_assert_uint_eq (sc_tape_late_peak (t).bytes, 300 * MIB);
  for (int sign = 1; sign >= -1; sign -= 2)
    sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_CHANGE, .mem = SC_MEM_COMM, .bytes = sign * 7 * MIB, .info = info_of (SC_INFO_NO_MICROBATCH) });
  ck_assert_uint_eq (sc_tape_late_peak (t).bytes, 307 * MIB);
  ck_assert_uint_gt (sc_tape_peak (t).bytes, 307 * MIB);
}
END_TEST

START_TEST (the_peak_is_the_highest_item_of_the_highest_pass)
{
  g_autoptr (ScTape) t = pipeline_tape (8, 3);
  const ScTapePeak peak = sc_tape_peak (t);
  ck_assert_uint_eq (peak.bytes, (guint64) ((300 + 3 * 30 + 80) * MIB)); /* the fourth forward */
  ck_assert_uint_eq (peak.by_kind[SC_MEM_ACTIVATIONS], (guint64) (4 * 30 * MIB));
  ck_assert_uint_eq (peak.by_kind[SC_MEM_TRANSIENT], (guint64) (50 * MIB));
  ck_assert_uint_eq (peak.by_kind[SC_MEM_OPTIMIZER], (guint64) (200 * MIB));
}
END_TEST

START_TEST (an_empty_tape_has_no_peak)
{
  g_autoptr (ScTape) t = sc_tape_new ();
  ck_assert_uint_eq (sc_tape_peak (t).entry, G_MAXUINT32);
  ck_assert_uint_eq (sc_tape_peak (t).bytes, 0);
}
END_TEST

START_TEST (changes_before_the_first_mark_are_states)
{
  g_autoptr (ScTape) t = sc_tape_new ();
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_CHANGE, .bytes = 5 });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_CHANGE, .bytes = 7 });
  gint64 rest[SC_N_MEMS];
  sc_tape_rest (t, rest);
  ck_assert_int_eq (rest[0], 7);
  ck_assert_uint_eq (sc_tape_peak (t).bytes, 12);
}
END_TEST

/* Weights of 100 are copied and let go; 50 come with the first backward: peaks of steps are above what is left of both, reserved memory is not. */
START_TEST (states_come_and_go_before_the_step_and_in_the_first_one)
{
  g_autoptr (ScTape) t = sc_tape_new ();
  g_autoptr (GArray) backward = g_array_new (FALSE, FALSE, sizeof (ScItem));
  put_mem (backward, SC_MEM_TRANSIENT, 10 * MIB, 0);
  put_mem (backward, SC_MEM_TRANSIENT, -10 * MIB, 0);
  const gint64 weights[] = { 100 * MIB, 100 * MIB, 200 * MIB, -100 * MIB };
  for (guint i = 0; i < G_N_ELEMENTS (weights); i++)
    sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_STATE, .mem = SC_MEM_WEIGHTS, .bytes = weights[i], .name = "weights", .info = info_of (SC_INFO_NO_MICROBATCH) });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_LATE, .mem = SC_MEM_GRADS, .bytes = 50 * MIB, .name = "late", .info = info_of (SC_INFO_NO_MICROBATCH) });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
  sc_tape_put_list (t, backward, 0, G_MAXUINT32, sc_info_pack ((ScOpInfo) { 0, 0, 0, 1 }), 0);
  ck_assert_uint_eq (sc_tape_peak (t).bytes, (guint64) (360 * MIB));
  ck_assert_uint_eq (sc_tape_peak (t).by_kind[SC_MEM_GRADS], (guint64) (50 * MIB));
  g_autoptr (ScTapePlay) play = sc_tape_play (t, &(ScPlayOptions) { .live = TRUE });
  ck_assert_uint_eq (play->allocated[0], (guint64) (400 * MIB));
  ck_assert_uint_eq (play->allocated[1], (guint64) (360 * MIB));
  ck_assert_uint_eq (play->reserved[1], (guint64) (400 * MIB)); /* where the first weights were is room for all that comes */
  gint64 rest[SC_N_MEMS];
  sc_tape_rest (t, rest);
  for (guint k = 0; k < SC_N_MEMS; k++)
    ck_assert_int_eq (rest[k], 0);
}
END_TEST

START_TEST (the_first_step_makes_optimizer_states_at_its_end)
{
  g_autoptr (ScTape) t = pipeline_tape (8, 3);
  g_autoptr (ScTapePlay) play = sc_tape_play (t, &(ScPlayOptions) { .live = TRUE });
  ck_assert_uint_eq (play->allocated[0], (guint64) MAX (100 + 3 * 30 + 80, 300) * MIB);
  ck_assert_uint_eq (play->allocated[1], sc_tape_peak (t).bytes);
  ck_assert_uint_eq (play->n_loose, 0);
  guint64 sum = 0;
  for (guint i = 0; i < play->live->len; i++)
    {
      const ScLiveTensor *const tensor = &g_array_index (play->live, ScLiveTensor, i);
      sum += (guint64) tensor->bytes;
      ck_assert (i == 0 || tensor->bytes <= g_array_index (play->live, ScLiveTensor, i - 1).bytes);
    }
  ck_assert_uint_eq (sum, play->allocated[1]);
  ck_assert_str_eq (g_array_index (play->live, ScLiveTensor, 0).name, "moments");
}
END_TEST

/* What was made and let go lies cached; the optimizer's tensors are another stream's, so that it has to be given back: the second step begins without it. */
START_TEST (a_step_behind_a_retry_reserves_less)
{
  g_autoptr (ScTape) t = sc_tape_new ();
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (ScItem));
  put_mem (items, SC_MEM_TRANSIENT, 20 * MIB, 0);
  put_mem (items, SC_MEM_TRANSIENT, -20 * MIB, 0);
  for (int sign = 1; sign >= -1; sign -= 2)
    sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_STATE, .mem = SC_MEM_WEIGHTS, .bytes = sign * 120 * MIB, .info = info_of (SC_INFO_NO_MICROBATCH) });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_LAZY, .mem = SC_MEM_OPTIMIZER, .bytes = 50 * MIB, .stream = 1, .info = info_of (SC_INFO_NO_MICROBATCH) });
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_MARK });
  sc_tape_put_list (t, items, 0, G_MAXUINT32, info_of (0), 0);
  sc_tape_put (t, (ScTapeEntry) { .kind = SC_TAPE_OPTIMIZER });
  static const guint64 capacities[] = { 0, 130 * MIB };
  for (guint i = 0; i < G_N_ELEMENTS (capacities); i++)
    {
      g_autoptr (ScTapePlay) play = sc_tape_play (t, &(ScPlayOptions) { .allocator = { .capacity = capacities[i] } });
      ck_assert (!play->out_of_memory);
      ck_assert_uint_eq (play->reserved[1], (guint64) (i == 0 ? 170 : 120) * MIB);
      ck_assert_uint_eq (play->step_reserved, (guint64) (i == 0 ? 170 : 70) * MIB);
      ck_assert_uint_eq (play->n_retries, i);
      ck_assert_uint_eq (play->n_early_retries, 0);
    }
}
END_TEST

/* 100 + 200 of states; 4 x 20, 4 x 10 and 50: all multiples of 2 MiB, so nothing is lost but where sizes do not fit into one another. */
START_TEST (memory_that_runs_out_is_said)
{
  g_autoptr (ScTape) t = pipeline_tape (8, 3);
  const guint64 peak = sc_tape_peak (t).bytes;
  g_autoptr (ScTapePlay) enough = sc_tape_play (t, &(ScPlayOptions) { .allocator = { .capacity = 2 * peak } });
  g_autoptr (ScTapePlay) little = sc_tape_play (t, &(ScPlayOptions) { .allocator = { .capacity = peak - 1 } });
  ck_assert (!enough->out_of_memory);
  ck_assert (little->out_of_memory);
  ck_assert_uint_lt (little->failed, t->entries->len);
}
END_TEST

START_TEST (a_steady_state_is_found_and_played_once)
{
  for (guint ahead = 0; ahead < 6; ahead++)
    {
      g_autoptr (ScTape) t = pipeline_tape (100, ahead);
      ScTapePeriod p;
      ck_assert (sc_tape_period (t, &p));
      ck_assert_uint_eq (p.shift, 1);
      ck_assert_uint_eq (p.length, 4); /* two marks, two passes */
      ck_assert_uint_ge (p.end - p.first, 4 * (100 - ahead - 2));
      g_autoptr (ScTapePlay) quick = sc_tape_play (t, &(ScPlayOptions) { .live = TRUE, .curve = TRUE });
      g_autoptr (ScTapePlay) whole = sc_tape_play (t, &(ScPlayOptions) { .live = TRUE, .curve = TRUE, .whole = TRUE });
      ck_assert_mem_eq (quick, whole, G_STRUCT_OFFSET (ScTapePlay, live));
      ck_assert_uint_eq (quick->curve->len, t->entries->len);
      ck_assert_mem_eq (quick->curve->data, whole->curve->data, quick->curve->len * sizeof (ScTapePoint));
    }
}
END_TEST

/* ---- of shipped workloads ---- */

static const struct
{
  const char *topology, *workload;
  const char *set[4];
} cases[] = {
  { "dgx-h100-8", "llama3-8b", { NULL } },
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=32" } },
  { "dgx-h100-8", "llama3-8b-fsdp2", { NULL } },
  { "dgx-h100-8", "llama3-8b-128k", { NULL } },
  { "dgx-h100-8", "llama3-8b-fsdp2", { "plan.offload=activations", "plan.recompute=full" } },
  { "dgx-h100-8", "mixtral-8x7b", { NULL } },
  { "deepseek-h800", "deepseek-v3", { "plan.global_batch=5120" } },
  { "deepseek-h800", "deepseek-v3", { "plan.global_batch=5120", "software.version=\"2026\"" } },
  { "dgx-h100-8", "mixtral-8x7b", { "software.version=\"2026\"", "plan.recompute=modules:moe" } },
  { "dgx-h100-8", "llama3-8b-128k", { "software.version=\"2026\"", "plan.cp_comm=a2a", "plan.cp=2" } },
  { "dgx-h100-8", "llama3-70b", { "plan.global_batch=32", "software.version=\"2026\"" } },
  { "azure-nd-h100-v5", "qwen3-235b", { "plan.global_batch=512" } },
  { "dgx-a100-superpod", "megatron-22b-full", { NULL } },
  { "dgx-a100-superpod", "megatron-22b-seqsel", { NULL } },
  { "dgx-a100-superpod", "megatron-175b-seqsel", { NULL } },
  { "dgx-a100-superpod", "zero-bubble-1.5b", { NULL } },
  { "dgx-a100-superpod", "vocab-4b", { NULL } },
  { "dgx-a100-superpod", "vocab-4b", { "plan.vocab_parallel=vocab-2", "plan.dp=2", "plan.sharding=distributed-optimizer" } },
  { "dgx-a100-superpod", "vocab-4b", { "plan.vocab_parallel=interlaced" } },
  { "dgx-a100-superpod", "vocab-4b", { "plan.schedule=v-half", "plan.vpp=2" } },
  { "dgx-a100-superpod", "gpt-7.5b-zero", { NULL } },
  { "dgx-a100-superpod", "gpt-7.5b-zero2", { NULL } },
  { "dgx-a100-superpod", "gpt-7.5b-zero3", { NULL } },
  { "dgx-a100-superpod", "olmo-7b-fsdp", { NULL } },
  { "dgx-h100-superpod", "llama3-405b-128k", { "plan.gpus=2048", "plan.global_batch=16" } },
};

static ScSummary *
forecast (const ScTopology *topology, const ScWorkload *workload, ScDetail detail)
{
  g_autoptr (GError) error = NULL;
  const ScForecastOptions options = { .detail = detail, .memory = SC_MEMORY_ALL };
  ScSummary *const s = sc_forecast (topology, workload, &options, &error);
  ck_assert_msg (s != NULL, "%s", error != NULL ? error->message : "");
  return s;
}

/* Member by member: what lies between them may be anything. */
static void
check_alike (const GArray *a, const GArray *b)
{
  ck_assert_uint_eq (a->len, b->len);
  for (guint i = 0; i < a->len; i++)
    {
      const ScLiveTensor *const x = &g_array_index (a, ScLiveTensor, i), *const y = &g_array_index (b, ScLiveTensor, i);
      ck_assert (x->bytes == y->bytes && x->output == y->output && x->info == y->info && x->mem == y->mem);
      ck_assert_str_eq (x->name, y->name);
    }
}

static void
check_stage (const char *name, const ScTape *tape)
{
  gint64 rest[SC_N_MEMS];
  sc_tape_rest (tape, rest);
  for (guint k = 0; k < SC_N_MEMS; k++)
    ck_assert_msg (rest[k] == 0, "%s: %.0f bytes of %s are left", name, (double) rest[k], sc_mem_kind_name ((ScMemKind) k));
  g_autoptr (ScTapePlay) quick = sc_tape_play (tape, &(ScPlayOptions) { .live = TRUE });
  g_autoptr (ScTapePlay) whole = sc_tape_play (tape, &(ScPlayOptions) { .live = TRUE, .whole = TRUE });
  ck_assert_msg (memcmp (quick, whole, G_STRUCT_OFFSET (ScTapePlay, n_loose)) == 0, "%s", name);
  ck_assert_msg (quick->n_loose == 0, "%s: %u frees without a tensor", name, quick->n_loose);
  ck_assert_uint_eq (quick->live->len, whole->live->len);
  ck_assert_uint_eq (quick->allocated[1], sc_tape_peak (tape).bytes);
  ck_assert_uint_le (quick->allocated[0], quick->rounded);
  ck_assert_uint_le (quick->allocated[1], quick->rounded);
  ck_assert_uint_le (quick->rounded, quick->reserved[1]);
  ck_assert_uint_le (quick->reserved[0], quick->reserved[1]);
}

START_TEST (every_byte_of_a_step_comes_back_and_every_free_finds_its_tensor)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) set = g_new0 (char *, G_N_ELEMENTS (cases[_i].set) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (cases[_i].set) && cases[_i].set[i] != NULL; i++)
    set[i] = g_strdup (cases[_i].set[i]);
  ScTopology *const topology = sc_topology_load (cases[_i].topology, NULL, NULL, &error);
  ck_assert_msg (topology != NULL, "%s", error != NULL ? error->message : "");
  ScWorkload *const workload = sc_workload_load (cases[_i].workload, set, &error);
  ck_assert_msg (workload != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr (ScSummary) layer = forecast (topology, workload, SC_DETAIL_LAYER), stage = forecast (topology, workload, SC_DETAIL_STAGE);
  ck_assert_uint_eq (layer->n_stages, stage->n_stages);
  for (guint i = 0; i < layer->n_stages; i++)
    {
      const ScTapePlay *const a = g_ptr_array_index (layer->plays, i), *const b = g_ptr_array_index (stage->plays, i);
      check_stage (cases[_i].workload, g_ptr_array_index (layer->tapes, i));
      ck_assert_mem_eq (a, b, G_STRUCT_OFFSET (ScTapePlay, live));
      check_alike (a->live, b->live);
    }
  sc_topology_free (topology);
  sc_workload_free (workload);
}
END_TEST

int
main (void)
{
  Suite *const suite = suite_create ("tape");
  TCase *const tapes = tcase_create ("tapes"), *const shipped = tcase_create ("shipped workloads");
  tcase_add_test (tapes, the_peak_is_the_highest_item_of_the_highest_pass);
  tcase_add_test (tapes, the_late_peak_begins_behind_the_last_pass);
  tcase_add_test (tapes, what_was_sent_comes_back_when_the_gpu_has_passed);
  tcase_add_test (tapes, an_empty_tape_has_no_peak);
  tcase_add_test (tapes, changes_before_the_first_mark_are_states);
  tcase_add_test (tapes, states_come_and_go_before_the_step_and_in_the_first_one);
  tcase_add_test (tapes, the_first_step_makes_optimizer_states_at_its_end);
  tcase_add_test (tapes, memory_that_runs_out_is_said);
  tcase_add_test (tapes, a_steady_state_is_found_and_played_once);
  tcase_add_test (tapes, a_step_behind_a_retry_reserves_less);
  suite_add_tcase (suite, tapes);
  tcase_set_timeout (shipped, 300);
  tcase_add_loop_test (slow (suite), every_byte_of_a_step_comes_back_and_every_free_finds_its_tensor, 0, G_N_ELEMENTS (cases));
  suite_add_tcase (suite, shipped);
  SRunner *const runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
