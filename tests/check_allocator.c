/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_allocator.c - what PyTorch's caching allocator reserves, request by request. */
#include <check.h>
#include <stdlib.h>
#include "models/allocator.h"
#include "pace.h"

#define KIB G_GUINT64_CONSTANT (1024)
#define MIB (KIB * KIB)

static guint64
reserved (const ScAllocator *a)
{
  return sc_allocator_stats (a).reserved;
}

START_TEST (requests_are_rounded_and_come_from_segments_of_their_size)
{
  static const struct
  {
    guint64 bytes, allocated, reserved;
  } rows[] = {
    { 1, 512, 2 * MIB },
    { 513, 1024, 2 * MIB },
    { MIB, MIB, 2 * MIB },
    { MIB + 1, MIB + 512, 20 * MIB },
    { 10 * MIB - 512, 10 * MIB - 512, 20 * MIB },
    { 10 * MIB, 10 * MIB, 10 * MIB },
    { 11 * MIB, 12 * MIB, 12 * MIB }, /* 1 MiB is not worth splitting off */
    { 12 * MIB + 512, 12 * MIB + 512, 14 * MIB },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (ScAllocator) a = sc_allocator_new (NULL);
      const guint32 block = sc_allocator_take (a, 0, rows[i].bytes);
      const ScAllocatorStats s = sc_allocator_stats (a);
      ck_assert_uint_eq (sc_allocator_peak_reserved (a), rows[i].reserved);
      ck_assert_uint_eq (s.requested, rows[i].bytes);
      ck_assert_uint_eq (s.allocated, rows[i].allocated);
      ck_assert_uint_eq (s.reserved, rows[i].reserved);
      sc_allocator_give (a, block);
      ck_assert_uint_eq (sc_allocator_stats (a).allocated, 0);
      ck_assert_uint_eq (reserved (a), rows[i].reserved); /* cached */
    }
}
END_TEST

START_TEST (the_smallest_block_that_holds_a_request_is_taken)
{
  g_autoptr (ScAllocator) a = sc_allocator_new (NULL);
  const guint32 large = sc_allocator_take (a, 0, 64 * MIB), middle = sc_allocator_take (a, 0, 32 * MIB);
  sc_allocator_give (a, large);
  sc_allocator_give (a, middle);
  sc_allocator_take (a, 0, 30 * MIB); /* of the 32 */
  sc_allocator_take (a, 0, 64 * MIB);
  ck_assert_uint_eq (reserved (a), 96 * MIB);
}
END_TEST

START_TEST (freed_neighbours_become_one_block)
{
  g_autoptr (ScAllocator) a = sc_allocator_new (NULL);
  guint32 parts[4];
  const guint32 whole = sc_allocator_take (a, 0, 64 * MIB);
  sc_allocator_give (a, whole);
  for (guint i = 0; i < 4; i++)
    parts[i] = sc_allocator_take (a, 0, 16 * MIB);
  ck_assert_uint_eq (reserved (a), 64 * MIB);
  for (guint i = 0; i < 4; i++)
    sc_allocator_give (a, parts[(i * 3 + 1) % 4]); /* 1, 0, 3, 2 */
  sc_allocator_take (a, 0, 64 * MIB);
  ck_assert_uint_eq (reserved (a), 64 * MIB);
}
END_TEST

START_TEST (pieces_that_are_too_small_stay_and_make_reserved_more_than_allocated)
{
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      const ScAllocatorOptions options = { .expandable = expandable > 0 };
      g_autoptr (ScAllocator) a = sc_allocator_new (&options);
      guint32 blocks[8];
      for (guint i = 0; i < 8; i++)
        blocks[i] = sc_allocator_take (a, 0, 40 * MIB);
      for (guint i = 0; i < 8; i += 2)
        sc_allocator_give (a, blocks[i]);
      for (guint i = 0; i < 4; i++) /* 20 MiB larger than what is free */
        sc_allocator_take (a, 0, 60 * MIB);
      const ScAllocatorStats s = sc_allocator_stats (a);
      ck_assert_uint_eq (s.allocated, (4 * 40 + 4 * 60) * MIB);
      ck_assert_uint_eq (s.reserved, (8 * 40 + 4 * 60) * MIB); /* the holes lie between live blocks either way */
    }
}
END_TEST

START_TEST (expandable_segments_grow_where_others_cannot)
{
  guint64 after[2];
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      const ScAllocatorOptions options = { .expandable = expandable > 0 };
      g_autoptr (ScAllocator) a = sc_allocator_new (&options);
      for (guint i = 1; i <= 10; i++) /* longer and longer sequences */
        sc_allocator_give (a, sc_allocator_take (a, 0, i * 40 * MIB));
      after[expandable] = reserved (a);
    }
  ck_assert_uint_eq (after[0], 55 * 40 * MIB); /* 1 + 2 + ... + 10 */
  ck_assert_uint_eq (after[1], 10 * 40 * MIB);
}
END_TEST

START_TEST (streams_do_not_share_what_they_free)
{
  g_autoptr (ScAllocator) a = sc_allocator_new (NULL);
  sc_allocator_give (a, sc_allocator_take (a, 0, 64 * MIB));
  sc_allocator_take (a, 1, 64 * MIB);
  ck_assert_uint_eq (reserved (a), 128 * MIB);
}
END_TEST

START_TEST (a_full_device_gives_cached_segments_back_and_then_fails)
{
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      const ScAllocatorOptions options = { .capacity = 100 * MIB, .expandable = expandable > 0 };
      g_autoptr (ScAllocator) a = sc_allocator_new (&options);
      const guint32 first = sc_allocator_take (a, 0, 60 * MIB);
      sc_allocator_give (a, first);
      ck_assert_uint_ne (sc_allocator_take (a, 1, 80 * MIB), SC_ALLOCATOR_FAILED);
      ck_assert_uint_eq (sc_allocator_stats (a).n_retries, 1);
      ck_assert_uint_eq (reserved (a), 80 * MIB);
      ck_assert_uint_eq (sc_allocator_take (a, 0, 40 * MIB), SC_ALLOCATOR_FAILED);
      ck_assert_uint_ne (sc_allocator_take (a, 0, 20 * MIB), SC_ALLOCATOR_FAILED);
      ck_assert_uint_eq (sc_allocator_stats (a).peak_reserved, 100 * MIB);
    }
}
END_TEST

/* Random requests: sums are right, nothing overlaps in size, and the same list takes no new memory when it comes again. */
START_TEST (the_same_requests_again_reserve_nothing_more)
{
  for (guint expandable = 0; expandable < 2; expandable++)
    {
      const ScAllocatorOptions options = { .expandable = expandable > 0 };
      g_autoptr (ScAllocator) a = sc_allocator_new (&options);
      g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (guint32));
      guint64 after[3] = { 0 };
      for (guint round = 0; round < 3; round++)
        {
          guint32 seed = 12345 + (guint32) _i;
          guint64 sum = 0;
          for (guint i = 0; i < 2000; i++)
            {
              seed = seed * 1664525u + 1013904223u;
              if (live->len > 0 && (seed >> 16) % 5 < 2)
                {
                  const guint at = (seed >> 8) % live->len;
                  sc_allocator_give (a, g_array_index (live, guint32, at));
                  g_array_remove_index_fast (live, at);
                }
              else
                {
                  const guint64 bytes = (guint64) 1 << (seed >> 27) % 26;
                  const guint32 block = sc_allocator_take (a, seed >> 20 & 1, bytes + (seed >> 12 & 511));
                  g_array_append_val (live, block);
                }
              const ScAllocatorStats s = sc_allocator_stats (a);
              ck_assert_uint_le (s.requested, s.allocated);
              ck_assert_uint_le (s.allocated, s.reserved);
              sum = MAX (sum, s.allocated);
            }
          for (guint i = live->len; i-- > 0;)
            sc_allocator_give (a, g_array_index (live, guint32, i));
          g_array_set_size (live, 0);
          ck_assert_uint_eq (sc_allocator_stats (a).allocated, 0);
          ck_assert_uint_eq (sc_allocator_stats (a).requested, 0);
          after[round] = reserved (a);
        }
      ck_assert_uint_eq (after[2], after[1]);
    }
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("allocator");
  TCase *const all = tcase_create ("blocks");
  tcase_add_test (all, requests_are_rounded_and_come_from_segments_of_their_size);
  tcase_add_test (all, the_smallest_block_that_holds_a_request_is_taken);
  tcase_add_test (all, freed_neighbours_become_one_block);
  tcase_add_test (all, pieces_that_are_too_small_stay_and_make_reserved_more_than_allocated);
  tcase_add_test (all, expandable_segments_grow_where_others_cannot);
  tcase_add_test (all, streams_do_not_share_what_they_free);
  tcase_add_test (all, a_full_device_gives_cached_segments_back_and_then_fails);
  tcase_add_loop_test (heavy (suite), the_same_requests_again_reserve_nothing_more, 0, 8);
  suite_add_tcase (suite, all);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
