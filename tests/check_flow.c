/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_flow.c - rates are the max-min fair ones, whatever came and went before, and only what changed is solved. */
#include <check.h>
#include <stdlib.h>
#include "pace.h"
#include "sim/flow.h"

/* Why: sums of a handful of doubles in another order. */
#define TOLERANCE 1e-9

static gboolean
is_close (double got, double expected)
{
  return fabs (got - expected) <= TOLERANCE * fabs (expected);
}

static void
assert_close (double got, double expected)
{
  ck_assert_msg (is_close (got, expected), "got %.17g, expected %.17g", got, expected);
}

/* ---- the textbook solver: all flows, all links, from scratch, in each round ---- */

#define MAX_USES   6
#define MAX_FLOWS 40

typedef struct
{
  ScUse    uses[MAX_USES];
  guint32  n_uses;
  double   cap, bytes;
  double   rate;  /* by the textbook */
  guint32  id;    /* in the flows under test */
  ScTime   end;
  gboolean live, frozen;
} Flow;

typedef struct
{
  double  capacity[32];
  guint32 n_links;
  Flow    flows[MAX_FLOWS];
  guint   n_moved; /* calls of on_moved() */
} World;

static double
streams_on (const Flow *f, guint32 link)
{
  double streams = 0;
  for (guint32 u = 0; u < f->n_uses; u++)
    if (f->uses[u].link == link)
      streams += f->uses[u].streams;
  return streams;
}

static void
textbook (World *w)
{
  guint n_rising = 0;
  for (guint i = 0; i < MAX_FLOWS; i++)
    {
      w->flows[i].frozen = !w->flows[i].live;
      w->flows[i].rate = 0;
      n_rising += w->flows[i].live;
    }
  while (n_rising > 0)
    {
      double phi = INFINITY;
      double full_at[32];
      for (guint32 l = 0; l < w->n_links; l++)
        {
          double left = w->capacity[l], rising = 0;
          for (guint i = 0; i < MAX_FLOWS; i++)
            if (w->flows[i].frozen)
              left -= streams_on (&w->flows[i], l) * w->flows[i].rate;
            else
              rising += streams_on (&w->flows[i], l);
          full_at[l] = rising > 0 ? left / rising : INFINITY;
          phi = MIN (phi, full_at[l]);
        }
      for (guint i = 0; i < MAX_FLOWS; i++)
        if (!w->flows[i].frozen)
          phi = MIN (phi, w->flows[i].cap);
      for (guint i = 0; i < MAX_FLOWS; i++)
        {
          Flow *const f = &w->flows[i];
          if (f->frozen)
            continue;
          gboolean stops = f->cap <= phi * (1 + 1e-12);
          for (guint32 u = 0; u < f->n_uses; u++)
            stops |= full_at[f->uses[u].link] <= phi * (1 + 1e-12);
          if (!stops)
            continue;
          f->rate = phi;
          f->frozen = TRUE;
          n_rising--;
        }
    }
}

static void
on_moved (gpointer data, guint32 id, guint32 version, ScTime end)
{
  World *const w = data;
  (void) version;
  w->n_moved++;
  for (guint i = 0; i < MAX_FLOWS; i++)
    if (w->flows[i].live && w->flows[i].id == id)
      w->flows[i].end = end;
}

static void
start (World *w, ScFlows *flows, guint i, ScTime now)
{
  Flow *const f = &w->flows[i];
  f->live = TRUE;
  f->id = sc_flows_start (flows, now, f->uses, f->n_uses, f->bytes, f->cap, i, 2 * i);
}

static void
end (World *w, ScFlows *flows, guint i)
{
  w->flows[i].live = FALSE;
  sc_flows_end (flows, w->flows[i].id);
}

/* ---- worked examples ---- */

typedef struct
{
  const char *name;
  double capacity[3];
  struct { guint32 links[2]; guint32 n; double streams, cap, rate; } flows[5];
} Example;

/* The first two: MODELLING 5.6, comm.maxmin and comm.maxmin2, by progressive filling. */
static const Example examples[] = {
  { "one flow over both links", { 10, 4, 1 },
    { { { 0 }, 1, 1, INFINITY, 8 }, { { 0, 1 }, 2, 1, INFINITY, 2 }, { { 1 }, 1, 1, INFINITY, 2 } } },
  { "three links, five flows", { 100, 50, 200 },
    { { { 0, 1 }, 2, 1, INFINITY, 25 }, { { 1, 2 }, 2, 1, INFINITY, 25 }, { { 0 }, 1, 1, INFINITY, 37.5 },
      { { 2 }, 1, 1, INFINITY, 137.5 }, { { 0, 2 }, 2, 1, INFINITY, 37.5 } } },
  { "sharing is by connections", { 90, 1, 1 }, { { { 0 }, 1, 8, INFINITY, 10 }, { { 0 }, 1, 1, INFINITY, 10 } } },
  { "what a cap leaves others get", { 50, 1, 1 }, { { { 0 }, 1, 1, 20, 20 }, { { 0 }, 1, 1, INFINITY, 30 } } },
  { "a fraction of a connection", { 30, 1, 1 }, { { { 0 }, 1, 0.5, INFINITY, 20 }, { { 0 }, 1, 1, INFINITY, 20 } } },
  { "caps that just fit", { 50, 1, 1 }, { { { 0 }, 1, 1, 20, 20 }, { { 0 }, 1, 1, 30, 30 } } },
  { "a link as wide as those that feed it", { 10, 20, 10 },
    { { { 0, 1 }, 2, 1, INFINITY, 10 }, { { 2, 1 }, 2, 1, INFINITY, 10 } } },
  { "one link, listed twice, counts twice", { 10, 1, 1 }, { { { 0, 0 }, 2, 1, INFINITY, 5 } } },
  { "a flow over no link keeps to its cap", { 1, 1, 1 }, { { { 0 }, 0, 1, 7, 7 } } },
};

START_TEST (worked_examples_come_out)
{
  const Example *const example = &examples[_i];
  ScFlows *flows = sc_flows_new (example->capacity, 3);
  World w = { .n_links = 3 };
  for (guint i = 0; i < G_N_ELEMENTS (example->flows) && example->flows[i].rate > 0; i++)
    {
      Flow *const f = &w.flows[i];
      *f = (Flow) { .n_uses = example->flows[i].n, .cap = example->flows[i].cap, .bytes = 1000 };
      for (guint32 u = 0; u < f->n_uses; u++)
        f->uses[u] = (ScUse) { example->flows[i].streams, example->flows[i].links[u] };
      start (&w, flows, i, 0);
    }
  ck_assert (sc_flows_dirty (flows));
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert (!sc_flows_dirty (flows));
  for (guint i = 0; w.flows[i].live; i++)
    {
      ck_assert_msg (fabs (sc_flows_rate (flows, w.flows[i].id) / example->flows[i].rate - 1) < 1e-12, "%s: flow %u",
                     example->name, i);
      ck_assert_int_eq (w.flows[i].end, sc_time_from_s (1000 / example->flows[i].rate));
      ck_assert_uint_eq (sc_flows_owner (flows, w.flows[i].id), i);
      ck_assert_uint_eq (sc_flows_detail (flows, w.flows[i].id), 2 * i);
    }
  sc_flows_free (flows);
}
END_TEST

/* ---- random worlds ---- */

typedef enum { ANY, FAT_TREE } Shape;

/* Each row: a kind of world.  Equal capacities make many ties; a fat-tree's wide links hold nobody back as long as its
 * hosts do not send twice. */
static const struct
{
  const char *name;
  Shape   shape;
  guint32 n_links;
  guint   n_flows;
  gboolean equal;    /* capacities, connections */
  double  share_capped;
} worlds[] = {
  { "few flows, many links", ANY, 24, 8, FALSE, 0.3 },
  { "many flows, few links", ANY, 3, 40, FALSE, 0.3 },
  { "many flows, many links", ANY, 16, 40, FALSE, 0.5 },
  { "ties", ANY, 8, 20, TRUE, 0 },
  { "ties and caps", ANY, 8, 20, TRUE, 0.5 },
  { "all capped", ANY, 6, 12, FALSE, 1 },
  { "fat-tree, 1:1", FAT_TREE, 24, 12, TRUE, 0.2 },
  { "fat-tree, crowded", FAT_TREE, 24, 40, TRUE, 0.2 },
};

/* Fat-tree: links 0-7 and 8-15 leave and enter 8 hosts, 16-19 and 20-23 leave and enter 4 leaves of 2. */
static void
draw_route (World *w, Flow *f, GRand *rand)
{
  const guint32 from = g_rand_int_range (rand, 0, 8), to = (from + (guint32) g_rand_int_range (rand, 1, 8)) % 8;
  (void) w;
  f->n_uses = 0;
  f->uses[f->n_uses++] = (ScUse) { 1, from };
  if (from / 2 != to / 2)
    {
      f->uses[f->n_uses++] = (ScUse) { 1, 16 + from / 2 };
      f->uses[f->n_uses++] = (ScUse) { 1, 20 + to / 2 };
    }
  f->uses[f->n_uses++] = (ScUse) { 1, 8 + to };
}

static void
draw_flow (World *w, Flow *f, guint row, GRand *rand)
{
  *f = (Flow) { .cap = INFINITY, .bytes = g_rand_double_range (rand, 1, 100) };
  if (worlds[row].shape == FAT_TREE)
    draw_route (w, f, rand);
  else
    {
      f->n_uses = (guint32) g_rand_int_range (rand, 1, 1 + (gint32) MIN (MAX_USES, w->n_links));
      const guint32 first = g_rand_int_range (rand, 0, (gint32) w->n_links);
      const guint32 stride = w->n_links % 5 == 0 ? 1 : 5; /* visits n_uses different links */
      for (guint32 u = 0; u < f->n_uses; u++)
        f->uses[u] = (ScUse) { worlds[row].equal ? 1 : g_rand_double_range (rand, 0.1, 4),
                               (first + u * stride) % w->n_links };
    }
  if (g_rand_double (rand) < worlds[row].share_capped)
    f->cap = worlds[row].equal ? 2 : g_rand_double_range (rand, 0.1, 8);
}

static void
draw_world (World *w, guint row, GRand *rand)
{
  *w = (World) { .n_links = worlds[row].n_links };
  for (guint32 l = 0; l < w->n_links; l++)
    w->capacity[l] = worlds[row].shape == FAT_TREE ? (l < 16 ? 10 : 20)
                     : worlds[row].equal           ? 12
                                                   : g_rand_double_range (rand, 1, 20);
}

/* One answer for all, as each assertion of Check is a system call. */
static gboolean
is_feasible_and_fair (const World *w, const ScFlows *flows)
{
  gboolean ok = TRUE;
  double load[32] = { 0 }, fastest[32] = { 0 };
  for (guint i = 0; i < MAX_FLOWS; i++)
    for (guint32 u = 0; w->flows[i].live && u < w->flows[i].n_uses; u++)
      {
        const ScUse *const use = &w->flows[i].uses[u];
        const double rate = sc_flows_rate (flows, w->flows[i].id);
        load[use->link] += use->streams * rate;
        fastest[use->link] = MAX (fastest[use->link], rate);
      }
  for (guint32 l = 0; l < w->n_links; l++)
    ok &= load[l] <= w->capacity[l] * (1 + TOLERANCE);
  for (guint i = 0; i < MAX_FLOWS; i++)
    {
      const Flow *const f = &w->flows[i];
      if (!f->live)
        continue;
      /* The certificate of max-min: its cap, or a full link on which nobody is faster. */
      const double rate = sc_flows_rate (flows, f->id);
      gboolean stopped = rate >= f->cap * (1 - TOLERANCE);
      for (guint32 u = 0; u < f->n_uses; u++)
        {
          const guint32 l = f->uses[u].link;
          stopped |= load[l] >= w->capacity[l] * (1 - TOLERANCE) && rate >= fastest[l] * (1 - TOLERANCE);
        }
      ok &= stopped && rate > 0;
    }
  return ok;
}

START_TEST (rates_agree_with_the_textbook_after_any_starts_and_ends)
{
  for (guint32 seed = 0; seed < 30; seed++)
    {
      g_autoptr (GRand) rand = g_rand_new_with_seed (seed * 100 + _i);
      World w;
      draw_world (&w, _i, rand);
      ScFlows *flows = sc_flows_new (w.capacity, w.n_links);
      double crossed[32] = { 0 };
      for (guint step = 0; step < 120; step++)
        {
          const guint n_changes = g_rand_int_range (rand, 1, 4); /* of one instant */
          for (guint k = 0; k < n_changes; k++)
            {
              const guint i = g_rand_int_range (rand, 0, (gint32) worlds[_i].n_flows);
              Flow *const f = &w.flows[i];
              if (f->live)
                {
                  end (&w, flows, i);
                  for (guint32 u = 0; u < f->n_uses; u++)
                    crossed[f->uses[u].link] += f->uses[u].streams * f->bytes;
                }
              else
                {
                  draw_flow (&w, f, _i, rand);
                  start (&w, flows, i, step);
                }
            }
          sc_flows_solve (flows, step, on_moved, &w);
          textbook (&w);
          ck_assert (is_feasible_and_fair (&w, flows));

          World again = w; /* the same flows, all new */
          ScFlows *scratch = sc_flows_new (w.capacity, w.n_links);
          for (guint i = 0; i < MAX_FLOWS; i++)
            if (w.flows[i].live)
              start (&again, scratch, i, step);
          sc_flows_solve (scratch, step, on_moved, &again);
          gboolean ok = TRUE;
          for (guint i = 0; i < MAX_FLOWS; i++)
            if (w.flows[i].live)
              ok &= is_close (sc_flows_rate (flows, w.flows[i].id), w.flows[i].rate)
                    && is_close (sc_flows_rate (scratch, again.flows[i].id), w.flows[i].rate);
          ck_assert_msg (ok, "%s: seed %u, step %u", worlds[_i].name, seed, step);
          sc_flows_free (scratch);
        }
      for (guint32 l = 0; l < w.n_links; l++)
        assert_close (sc_flows_link_bytes (flows)[l], crossed[l]);
      sc_flows_free (flows);
    }
}
END_TEST

/* Runs all flows of a world to their ends, and sums what each carried from its rates over time. */
START_TEST (every_flow_carries_its_bytes_and_links_count_them)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1000 + _i);
  World w;
  draw_world (&w, _i, rand);
  ScFlows *flows = sc_flows_new (w.capacity, w.n_links);
  double carried[MAX_FLOWS] = { 0 }, crossed[32] = { 0 };
  for (guint i = 0; i < worlds[_i].n_flows; i++)
    {
      draw_flow (&w, &w.flows[i], _i, rand);
      start (&w, flows, i, 0);
    }
  ScTime now = 0;
  for (guint n_live = worlds[_i].n_flows; n_live > 0;)
    {
      sc_flows_solve (flows, now, on_moved, &w);
      ScTime next = G_MAXINT64;
      for (guint i = 0; i < worlds[_i].n_flows; i++)
        if (w.flows[i].live)
          next = MIN (next, w.flows[i].end);
      ck_assert_int_ge (next, now);
      for (guint i = 0; i < worlds[_i].n_flows; i++)
        if (w.flows[i].live)
          carried[i] += sc_flows_rate (flows, w.flows[i].id) * sc_time_to_s (next - now);
      now = next;
      for (guint i = 0; i < worlds[_i].n_flows; i++)
        if (w.flows[i].live && w.flows[i].end == now)
          {
            end (&w, flows, i);
            n_live--;
          }
    }
  for (guint i = 0; i < worlds[_i].n_flows; i++)
    {
      assert_close (carried[i], w.flows[i].bytes);
      for (guint32 u = 0; u < w.flows[i].n_uses; u++)
        crossed[w.flows[i].uses[u].link] += w.flows[i].uses[u].streams * w.flows[i].bytes;
    }
  for (guint32 l = 0; l < w.n_links; l++)
    assert_close (sc_flows_link_bytes (flows)[l], crossed[l]);
  sc_flows_free (flows);
}
END_TEST

/* ---- only what changed ---- */

static void
start_one (World *w, ScFlows *flows, guint i, guint32 link_a, guint32 link_b, double cap)
{
  w->flows[i] = (Flow) { .uses = { { 1, link_a }, { 1, link_b } }, .n_uses = 2, .cap = cap, .bytes = 100 };
  start (w, flows, i, 0);
}

START_TEST (what_is_not_connected_is_not_solved_again)
{
  static const double capacity[] = { 10, 10, 10, 10 };
  World w = { .n_links = 4 };
  ScFlows *flows = sc_flows_new (capacity, 4);
  start_one (&w, flows, 0, 0, 1, INFINITY); /* two pairs: 0 and 1 over links 0 and 1, 2 and 3 over links 2 and 3 */
  start_one (&w, flows, 1, 0, 1, INFINITY);
  start_one (&w, flows, 2, 2, 3, INFINITY);
  start_one (&w, flows, 3, 2, 3, INFINITY);
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (sc_flows_n_solves (flows), 2);
  ck_assert_uint_eq (w.n_moved, 4);

  const guint32 version = sc_flows_version (flows, w.flows[2].id);
  start_one (&w, flows, 4, 0, 1, INFINITY);
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (sc_flows_n_solves (flows), 3);
  ck_assert_uint_eq (w.n_moved, 7);
  ck_assert_uint_eq (sc_flows_version (flows, w.flows[2].id), version);

  end (&w, flows, 3);
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (w.n_moved, 8);
  assert_close (sc_flows_rate (flows, w.flows[2].id), 10);
  assert_close (sc_flows_rate (flows, w.flows[0].id), 10. / 3);
  sc_flows_free (flows);
}
END_TEST

START_TEST (a_link_that_cannot_fill_connects_nobody)
{
  static const double capacity[] = { 10, 10, 10, 20 }; /* three hosts on a link for two */
  World w = { .n_links = 4 };
  ScFlows *flows = sc_flows_new (capacity, 4);
  start_one (&w, flows, 0, 0, 3, INFINITY);
  start_one (&w, flows, 1, 1, 3, INFINITY);
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (sc_flows_n_solves (flows), 0); /* both at their limits: nothing to solve */
  ck_assert_uint_eq (w.n_moved, 2);

  start_one (&w, flows, 2, 2, 3, INFINITY); /* now it is crowded */
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (sc_flows_n_solves (flows), 1);
  for (guint i = 0; i < 3; i++)
    assert_close (sc_flows_rate (flows, w.flows[i].id), 20. / 3);

  end (&w, flows, 1); /* and now not any more: the others go back to their limits */
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (sc_flows_n_solves (flows), 1);
  ck_assert_uint_eq (w.n_moved, 7);
  assert_close (sc_flows_rate (flows, w.flows[0].id), 10);
  assert_close (sc_flows_rate (flows, w.flows[2].id), 10);
  sc_flows_free (flows);
}
END_TEST

START_TEST (equal_links_in_a_row_do_not_excuse_each_other)
{
  static const double capacity[] = { 10, 10, 10, 10 };
  World w = { .n_links = 4 };
  ScFlows *flows = sc_flows_new (capacity, 4);
  w.flows[0] = (Flow) { .uses = { { 1, 0 }, { 1, 1 }, { 1, 2 }, { 1, 3 } }, .n_uses = 4, .cap = INFINITY, .bytes = 1 };
  start (&w, flows, 0, 0);
  sc_flows_solve (flows, 0, on_moved, &w);
  assert_close (sc_flows_rate (flows, w.flows[0].id), 10);
  sc_flows_free (flows);
}
END_TEST

START_TEST (a_flow_that_ends_before_it_was_ever_solved_leaves_no_trace)
{
  static const double capacity[] = { 10, 10 };
  World w = { .n_links = 2 };
  ScFlows *flows = sc_flows_new (capacity, 2);
  for (guint i = 0; i < 200; i++) /* again and again in the same place */
    {
      start_one (&w, flows, 0, 0, 1, INFINITY);
      end (&w, flows, 0);
    }
  start_one (&w, flows, 1, 0, 1, INFINITY);
  sc_flows_solve (flows, 0, on_moved, &w);
  ck_assert_uint_eq (w.n_moved, 1);
  assert_close (sc_flows_rate (flows, w.flows[1].id), 10);
  sc_flows_free (flows);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("flow");
  TCase *tcase = tcase_create ("rates");
  tcase_add_loop_test (tcase, worked_examples_come_out, 0, G_N_ELEMENTS (examples));
  tcase_add_loop_test (heavy (suite), rates_agree_with_the_textbook_after_any_starts_and_ends, 0, G_N_ELEMENTS (worlds));
  tcase_add_loop_test (tcase, every_flow_carries_its_bytes_and_links_count_them, 0, G_N_ELEMENTS (worlds));
  tcase_set_timeout (tcase, 120); /* under valgrind */
  suite_add_tcase (suite, tcase);
  TCase *changes = tcase_create ("only what changed");
  tcase_add_test (changes, what_is_not_connected_is_not_solved_again);
  tcase_add_test (changes, a_link_that_cannot_fill_connects_nobody);
  tcase_add_test (changes, equal_links_in_a_row_do_not_excuse_each_other);
  tcase_add_test (changes, a_flow_that_ends_before_it_was_ever_solved_leaves_no_trace);
  suite_add_tcase (suite, changes);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
