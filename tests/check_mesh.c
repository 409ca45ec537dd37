/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_mesh.c - rings over direct links: real ones, disjoint, and as many as are known to exist. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "models/mesh.h"

#define MAX_RINGS 64

typedef struct
{
  const char *name;
  guint       k;
  guint       rings;
  gboolean    over_one; /* only with steps over a member between */
  const char *links;    /* "a-b" or "a-b*n", both ways; "all" or "all*n" */
} Case;

/* DGX-1 with V100: two squares with diagonals, joined by four doubled or single links. */
#define CUBE_MESH "0-1 0-2 0-3*2 0-4*2 1-2*2 1-3 1-5*2 2-3 2-6*2 3-7*2 4-5 4-6 4-7*2 5-6*2 5-7 6-7"

static const Case cases[] = {
  { "a pair with one link", 2, 1, FALSE, "0-1" },
  { "a pair with a bridge of three links", 2, 3, FALSE, "0-1*3" },
  { "a pair without a link", 2, 0, FALSE, "" },
  { "a triangle", 3, 2, FALSE, "all" },
  { "four in a square", 4, 2, FALSE, "0-1 1-2 2-3 3-0" },
  { "four, each joined to each", 4, 2, FALSE, "all" }, /* three do not exist: Tillson, J. Comb. Theory B 29, 1980 */
  { "four, each joined to each twice", 4, 6, FALSE, "all*2" },
  { "five, each joined to each", 5, 4, FALSE, "all" },
  { "six, each joined to each", 6, 4, FALSE, "all" }, /* nor five: the same */
  { "eight, each joined to each", 8, 7, FALSE, "all" },
  { "eight, each joined to each twice", 8, 14, FALSE, "all*2" },
  { "sixteen, each joined to each", 16, 15, FALSE, "all" },
  { "the cube mesh", 8, 6, FALSE, CUBE_MESH },
  { "GPUs 0 to 3 of the cube mesh", 4, 4, FALSE, "0-1 0-2 0-3*2 1-2*2 1-3 2-3" },
  { "GPUs 0 to 2 of the cube mesh", 3, 2, FALSE, "0-1 0-2 1-2*2" },
  { "a chain of three, doubled", 3, 2, TRUE, "0-1*2 1-2*2" },
  { "two triangles that share a member", 5, 2, TRUE, "0-1 1-2 2-0 2-3 3-4 4-2" },
  { "two pairs apart", 4, 0, FALSE, "0-1 2-3" },
  { "a member without links", 3, 0, FALSE, "0-1" },
};

static void
lanes_of (const Case *c, guint8 *lanes)
{
  memset (lanes, 0, c->k * c->k);
  g_auto (GStrv) words = g_strsplit (c->links, " ", -1);
  for (char **word = words; *word != NULL; word++)
    {
      const char *const star = strchr (*word, '*');
      const guint8 n = star != NULL ? (guint8) atoi (star + 1) : 1;
      for (guint a = 0; a < c->k; a++)
        for (guint b = 0; b < c->k; b++)
          {
            g_autofree char *there = g_strdup_printf ("%u-%u", a, b), *back = g_strdup_printf ("%u-%u", b, a);
            const gsize length = star != NULL ? (gsize) (star - *word) : strlen (*word);
            const gboolean named = (strlen (there) == length && strncmp (*word, there, length) == 0)
                                   || (strlen (back) == length && strncmp (*word, back, length) == 0);
            if (a != b && (named || g_str_has_prefix (*word, "all")))
              lanes[a * c->k + b] = n;
          }
    }
}

START_TEST (rings_are_cycles_over_all_members_and_share_no_link)
{
  const Case *const c = &cases[_i];
  const guint k = c->k;
  guint8 lanes[SC_MESH_MAX_MEMBERS * SC_MESH_MAX_MEMBERS];
  guint32 order[MAX_RINGS * SC_MESH_MAX_MEMBERS];
  lanes_of (c, lanes);
  const guint n = sc_mesh_rings (lanes, k, MAX_RINGS, order);
  ck_assert_msg (n == c->rings, "%s: %u rings, expected %u", c->name, n, c->rings);

  guint used[SC_MESH_MAX_MEMBERS * SC_MESH_MAX_MEMBERS] = { 0 };
  gboolean over_one = FALSE;
  for (guint ring = 0; ring < n; ring++)
    {
      guint seen = 0;
      for (guint i = 0; i < k; i++)
        {
          const guint a = order[ring * k + i], b = order[ring * k + (i + 1) % k];
          ck_assert_uint_lt (a, k);
          seen |= 1u << a;
          if (lanes[a * k + b] > 0)
            {
              used[a * k + b]++;
              continue;
            }
          const guint between = sc_mesh_between (lanes, k, a, b);
          ck_assert_uint_lt (between, k);
          over_one = TRUE;
          used[a * k + between]++;
          used[between * k + b]++;
        }
      ck_assert_msg (seen == (1u << k) - 1, "%s: ring %u misses a member", c->name, ring);
    }
  for (guint i = 0; i < k * k; i++)
    ck_assert_msg (used[i] <= lanes[i], "%s: link %u to %u is used %u times", c->name, i / k, i % k, used[i]);
  ck_assert_int_eq (over_one, c->over_one);
}
END_TEST

START_TEST (a_limit_is_kept_and_the_same_links_give_the_same_rings)
{
  const Case *const c = &cases[_i];
  guint8 lanes[SC_MESH_MAX_MEMBERS * SC_MESH_MAX_MEMBERS];
  guint32 first[MAX_RINGS * SC_MESH_MAX_MEMBERS], second[MAX_RINGS * SC_MESH_MAX_MEMBERS];
  lanes_of (c, lanes);
  const guint n = sc_mesh_rings (lanes, c->k, MAX_RINGS, first);
  ck_assert_uint_eq (sc_mesh_rings (lanes, c->k, MAX_RINGS, second), n);
  ck_assert_int_eq (memcmp (first, second, n * c->k * sizeof *first), 0);
  for (guint most = 0; most <= 3; most++)
    ck_assert_uint_eq (sc_mesh_rings (lanes, c->k, most, second), MIN (n, most));
}
END_TEST

/* Links of one direction only, as no file describes them: 0 to 1 to 2 to 0. */
START_TEST (links_of_one_direction_make_a_ring_of_one_direction)
{
  const guint8 lanes[] = { 0, 2, 0, 0, 0, 2, 2, 0, 0 };
  guint32 order[3 * 3];
  ck_assert_uint_eq (sc_mesh_rings (lanes, 3, 3, order), 2);
  for (guint i = 0; i < 6; i++)
    ck_assert_uint_eq (order[i], i % 3);
}
END_TEST

START_TEST (the_widest_and_then_the_lowest_member_passes_on)
{
  const Case cube = { "cube mesh", 8, 0, FALSE, CUBE_MESH };
  guint8 lanes[64];
  guint a, b;
  lanes_of (&cube, lanes);
  ck_assert_uint_eq (sc_mesh_between (lanes, 8, 0, 5), 1); /* 1 and 4: one link on the narrower side */
  ck_assert_uint_eq (sc_mesh_between (lanes, 8, 0, 7), 3); /* 3 and 4: two links */
  ck_assert_uint_eq (sc_mesh_between (lanes, 8, 7, 0), 3);
  ck_assert (sc_mesh_joins_all (lanes, 8, &a, &b));
  const Case chain = { "chain", 4, 0, FALSE, "0-1 1-2 2-3" };
  lanes_of (&chain, lanes);
  ck_assert_uint_eq (sc_mesh_between (lanes, 4, 0, 3), 4);
  ck_assert (!sc_mesh_joins_all (lanes, 4, &a, &b));
  ck_assert (a == 0 && b == 3);
}
END_TEST

static Suite *
mesh_suite (void)
{
  Suite *const s = suite_create ("mesh");
  TCase *const rings = tcase_create ("rings");
  tcase_add_loop_test (rings, rings_are_cycles_over_all_members_and_share_no_link, 0, G_N_ELEMENTS (cases));
  tcase_add_loop_test (rings, a_limit_is_kept_and_the_same_links_give_the_same_rings, 0, G_N_ELEMENTS (cases));
  tcase_add_test (rings, links_of_one_direction_make_a_ring_of_one_direction);
  tcase_add_test (rings, the_widest_and_then_the_lowest_member_passes_on);
  suite_add_tcase (s, rings);
  return s;
}

int
main (void)
{
  SRunner *const runner = srunner_create (mesh_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
