/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-collectives.c - simulates each row of each sweep and sums up how far off it is. */
#include "validate-collectives.h"
#include "models/comm.h"
#include "models/nccl.h"
#include <math.h>
#include <string.h>

#define MAX_JOBS 256
#define LAUNCH_MAX_BYTES 4096 /* rows that show a launch */
#define LAUNCH_ROWS 4
#define LAUNCH_RATIO 1.25     /* of measured over simulated, from where on it is one */

static const struct
{
  double large, small;
} targets[SC_N_FAMILIES] = {
  [SC_FAMILY_NVSWITCH] = { 0.08, 0.20 },  [SC_FAMILY_INFINIBAND] = { 0.12, 0.25 }, [SC_FAMILY_NVL72] = { 0.25, 0.35 },
  [SC_FAMILY_SLINGSHOT] = { 0.25, 0.35 }, [SC_FAMILY_CLOUD] = { 0.25, 0.35 },      [SC_FAMILY_PCIE] = { 0.15, 0.30 },
  [SC_FAMILY_MESH] = { INFINITY, INFINITY }, [SC_FAMILY_OTHER] = { INFINITY, INFINITY },
};

static const struct
{
  const char *name;
  double end;
} bands[SC_N_BANDS] = {
  { "< 16 KiB", 16384 }, { "16-256 KiB", 262144 }, { "256 KiB-4 MiB", 4194304 }, { "4-64 MiB", 67108864 }, { ">= 64 MiB", INFINITY },
};

const char *
sc_band_name (guint band)
{
  return bands[band].name;
}

guint
sc_band_of (double bytes)
{
  guint band = 0;
  while (bytes >= bands[band].end)
    band++;
  return band;
}

static void
errors_add (ScSweepErrors *errors, double bytes, double predicted, double measured)
{
  sc_error_stat_add (&errors->all, predicted, measured);
  sc_error_stat_add (bytes < SC_LARGE_BYTES ? &errors->small : &errors->large, predicted, measured);
  sc_error_stat_add (&errors->bands[sc_band_of (bytes)], predicted, measured);
}

static void
errors_merge (ScSweepErrors *errors, const ScSweepErrors *other)
{
  sc_error_stat_merge (&errors->all, &other->all);
  sc_error_stat_merge (&errors->small, &other->small);
  sc_error_stat_merge (&errors->large, &other->large);
  for (guint b = 0; b < SC_N_BANDS; b++)
    sc_error_stat_merge (&errors->bands[b], &other->bands[b]);
}

/* ---- What a sweep asks for ---- */

gboolean
sc_forced_algo (const char *algo, const ScCollective **ret_row, ScProtocol *ret_protocol)
{
  static const struct
  {
    const char *word, *row;
  } other_names[] = { { "nvlstree", "nvls-tree" }, { "nvls_tree", "nvls-tree" }, { "collnetdirect", "collnet" }, { "collnetchain", "collnet" } };
  static const char *const plain[] = { "algo", "proto", "protocol", "nccl_algo", "nccl_proto", "forced", "default", "auto", NULL };
  *ret_row = NULL;
  *ret_protocol = SC_N_PROTOS;
  g_autofree char *lower = g_ascii_strdown (algo != NULL ? algo : "", -1);
  g_auto (GStrv) words = g_strsplit_set (lower, " \t,;:=/+()", -1);
  gboolean known = FALSE, unknown = FALSE;
  for (char **word = words; *word != NULL; word++)
    {
      /* numbers of channels and queue pairs force no algorithm */
      if (**word == '\0' || g_strv_contains (plain, *word) || g_ascii_isdigit (**word) || strstr (*word, "cta") != NULL
          || strstr (*word, "qps") != NULL || strstr (*word, "channels") != NULL)
        continue;
      const char *name = *word;
      for (guint i = 0; i < G_N_ELEMENTS (other_names); i++)
        if (strcmp (name, other_names[i].word) == 0)
          name = other_names[i].row;
      const ScCollective *row = sc_collective_find (name);
      if (row != NULL)
        *ret_row = row;
      const gboolean found = row != NULL || sc_protocol_find (name, ret_protocol);
      known |= found;
      unknown |= !found;
    }
  return known || !unknown;
}

static gboolean
has_algorithm (ScCollKind kind)
{
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    if (((*row)->kinds & 1u << kind) != 0)
      return TRUE;
  return FALSE;
}

/* What is called, or why it cannot be. */
static char *
read_call (const ScSweep *sweep, ScCommGroup *ret)
{
  if (sweep->algo != NULL && g_str_has_prefix (sweep->algo, "contended"))
    return g_strdup ("contended: measured beside a compute load that is not described");
  if (!sc_coll_kind_find (sweep->collective, &ret->kind))
    return g_strdup_printf ("no collective is called %s", sweep->collective);
  if (ret->kind == SC_COLL_SEND_RECEIVE && sweep->gpus == 2 && sweep->note != NULL
      && g_regex_match_simple ("\\bone-way\\b", sweep->note, G_REGEX_CASELESS, (GRegexMatchFlags) 0))
    ret->kind = SC_COLL_SEND; /* a send without the way back, which some call the same */
  if (!has_algorithm (ret->kind))
    return g_strdup_printf ("no algorithm for %s", sc_coll_kind_name (ret->kind));
  if (!sc_forced_algo (sweep->algo, &ret->row, &ret->protocol))
    return g_strdup_printf ("forced algorithm \"%s\" is not known", sweep->algo);
  if (sweep->nccl != NULL && sc_nccl_version_of (sweep->nccl) == NULL)
    return g_strdup_printf ("version of NCCL \"%s\" is not known, expected one such as 2.26.2", sweep->nccl);
  if (sweep->gpus < 2)
    return g_strdup ("one GPU alone");
  if ((guint64) sweep->nodes * sweep->gpus_per_node != sweep->gpus)
    return g_strdup_printf ("%u GPUs are not %u nodes of %u", sweep->gpus, sweep->nodes, sweep->gpus_per_node);
  if (ret->kind == SC_COLL_SEND && sweep->gpus != 2)
    return g_strdup ("a single send over more than two GPUs");
  return NULL;
}

/* GPUs of the fabric that take part: the first of each node; all in order where nodes are smaller than the sweep's. */
static guint32 *
members (const ScTopology *topology, const ScSweep *sweep, guint *ret_n_gpus)
{
  guint32 *const gpus = g_new (guint32, sweep->gpus);
  const guint per_node = topology->types[topology->runs[0].type].gpus;
  const guint stride = MAX (per_node, sweep->gpus_per_node);
  for (guint i = 0; i < sweep->gpus; i++)
    gpus[i] = i / sweep->gpus_per_node * stride + i % sweep->gpus_per_node;
  *ret_n_gpus = gpus[sweep->gpus - 1] + 1;
  return gpus;
}

/* ---- One sweep ---- */

/* The model's time of each row.  FALSE: why not. */
static gboolean
simulate (ScSweepResult *r, const ScTopology *topology, ScCommGroup *group, GError **error)
{
  const ScSweep *const sweep = r->sweep;
  guint n_gpus;
  g_autofree guint32 *gpus = members (topology, sweep, &n_gpus);
  if (n_gpus > sc_topology_job_gpus (topology))
    {
      g_set_error (error, SC_FABRIC_ERROR, SC_FABRIC_ERROR_TOO_SMALL, "the system has %u GPUs, the sweep needs %u",
                   sc_topology_job_gpus (topology), n_gpus);
      return FALSE;
    }
  g_autoptr (ScComms) comms = sc_comms_new (topology, n_gpus, FALSE, error);
  if (comms == NULL)
    return FALSE;
  group->gpus = gpus;
  group->n = sweep->gpus;
  for (guint i = 0; i < sweep->n_rows; i++)
    {
      ScSweepPoint *const p = &r->points[i];
      *p = (ScSweepPoint) { .bytes = sweep->rows[i].bytes, .measured_s = sweep->rows[i].time_s };
      if (p->bytes <= 0 || p->measured_s <= 0)
        {
          p->state = SC_POINT_NO_FIGURE;
          continue;
        }
      group->bytes = p->bytes;
      ScCommResult result;
      g_autoptr (GError) why = NULL;
      if (sc_comms_run (comms, group, 1, &result, NULL, &why))
        {
          p->model_s = p->predicted_s = result.seconds;
          p->algorithm = result.choice.row->name;
          p->protocol = sc_protocol_name (result.choice.protocol);
          p->state = p->model_s > 0 ? SC_POINT_JUDGED : SC_POINT_IMPOSSIBLE;
          continue;
        }
      if (!g_error_matches (why, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE))
        {
          g_propagate_error (error, g_steal_pointer (&why));
          return FALSE;
        }
      p->state = SC_POINT_IMPOSSIBLE;
    }
  return TRUE;
}

/* The launch of the measuring program: stated, or estimated from the smallest rows. */
static void
find_launch (ScSweepResult *r)
{
  const ScSweep *const sweep = r->sweep;
  r->launch_s = sweep->launch_us * 1e-6;
  if (sweep->launch_us > 0)
    return;
  double measured[LAUNCH_ROWS], model[LAUNCH_ROWS];
  guint rows[LAUNCH_ROWS], n = 0;
  for (guint i = 0; i < sweep->n_rows && n < LAUNCH_ROWS; i++)
    if (r->points[i].state == SC_POINT_JUDGED && r->points[i].bytes <= LAUNCH_MAX_BYTES)
      {
        measured[n] = r->points[i].measured_s;
        model[n] = r->points[i].model_s;
        rows[n++] = i;
      }
  double least = sc_median (measured, n), fastest = INFINITY;
  for (guint i = 0, k = 0; i < sweep->n_rows; i++)
    if (k < n && rows[k] == i)
      k++;
    else if (r->points[i].state == SC_POINT_JUDGED)
      fastest = MIN (fastest, r->points[i].measured_s);
  if (LAUNCH_RATIO * fastest < least) /* no call is that much faster than the launch: the small rows are noise */
    least = fastest;
  if (n == 0 || least <= LAUNCH_RATIO * sc_median (model, n))
    return;
  r->launch_s = least;
  r->launch_estimated = TRUE;
  for (guint i = 0; i < n; i++)
    r->points[rows[i]].state = SC_POINT_LAUNCH;
}

static void
judge (ScSweepResult *r)
{
  double worst = 0;
  for (guint i = 0; i < r->sweep->n_rows; i++)
    {
      ScSweepPoint *const p = &r->points[i];
      r->n_states[p->state]++;
      p->predicted_s = MAX (p->model_s, r->launch_s);
      if (p->state != SC_POINT_JUDGED)
        continue;
      errors_add (&r->errors, p->bytes, p->predicted_s, p->measured_s);
      const double far = fabs (log (p->predicted_s / p->measured_s));
      if (far >= worst)
        {
          worst = far;
          r->worst_bytes = p->bytes;
        }
    }
}

static void
validate_sweep (gpointer data, gpointer user_data)
{
  ScSweepResult *const r = data;
  const ScSystems *const systems = user_data;
  ScCommGroup group = { .protocol = SC_N_PROTOS };
  g_auto (ScSystem) system = { .topology = NULL };
  g_autoptr (GError) error = NULL;
  const gboolean found = sc_systems_find_sweep (systems, r->sweep, &system, &error);
  if (found)
    {
      r->family = system.family;
      r->topology = g_strdup (system.topology_name);
      r->set = g_strdupv (system.set);
      r->nccl = system.topology->collectives == SC_TEXTBOOK ? "textbook"
                                                            : sc_nccl_version_name (sc_nccl_version_of_number (system.topology->collectives));
    }
  r->skipped = read_call (r->sweep, &group);
  if (r->skipped == NULL && !found)
    r->skipped = g_strdup (error->message);
  if (r->skipped != NULL)
    return;
  r->points = g_new0 (ScSweepPoint, r->sweep->n_rows + 1);
  if (!simulate (r, system.topology, &group, &error))
    {
      r->skipped = g_strdup (error->message);
      g_clear_pointer (&r->points, g_free);
      return;
    }
  find_launch (r);
  judge (r);
  if (r->errors.all.n == 0)
    r->skipped = g_strdup (r->n_states[SC_POINT_IMPOSSIBLE] > 0 ? "the forced algorithm cannot do this call"
                           : r->n_states[SC_POINT_LAUNCH] > 0   ? "all rows show the launch only"
                                                                : "no row has a size and a time");
}

/* ---- All of them ---- */

static void
sweep_result_free (ScSweepResult *r)
{
  g_free (r->skipped);
  g_free (r->topology);
  g_strfreev (r->set);
  g_free (r->points);
  g_free (r);
}

void
sc_collectives_result_free (ScCollectivesResult *result)
{
  if (result == NULL)
    return;
  g_ptr_array_unref (result->sweeps);
  g_free (result);
}

/* Sweeps do not know of each other, so the order in which they run does not matter. */
static void
run_all (const ScSystems *systems, GPtrArray *sweeps, guint jobs)
{
  union
  {
    const ScSystems *in;
    gpointer out;
  } shared = { .in = systems }; /* GLib's threads take no const */
  if (jobs == 0)
    jobs = g_get_num_processors ();
  jobs = MIN (MIN (jobs, sweeps->len), MAX_JOBS);
  GThreadPool *const pool = jobs > 1 ? g_thread_pool_new (validate_sweep, shared.out, (gint) jobs, TRUE, NULL) : NULL;
  for (guint i = 0; i < sweeps->len; i++)
    if (pool != NULL)
      g_thread_pool_push (pool, g_ptr_array_index (sweeps, i), NULL);
    else
      validate_sweep (g_ptr_array_index (sweeps, i), shared.out);
  if (pool != NULL)
    g_thread_pool_free (pool, FALSE, TRUE);
}

static gboolean
meets (const ScErrorStat *stat, double target)
{
  return stat->n == 0 || sc_error_stat_geomean (stat) <= target;
}

ScCollectivesResult *
sc_validate_collectives (const ScSystems *systems, GPtrArray *sweeps, guint jobs)
{
  ScCollectivesResult *const all = g_new0 (ScCollectivesResult, 1);
  all->sweeps = g_ptr_array_new_with_free_func ((GDestroyNotify) sweep_result_free);
  for (guint i = 0; i < sweeps->len; i++)
    {
      ScSweepResult *const r = g_new0 (ScSweepResult, 1);
      r->sweep = g_ptr_array_index (sweeps, i);
      r->family = SC_FAMILY_OTHER;
      g_ptr_array_add (all->sweeps, r);
    }
  run_all (systems, all->sweeps, jobs);

  for (guint f = 0; f < SC_N_FAMILIES; f++)
    {
      all->families[f].family = (ScFamily) f;
      all->families[f].target_large = targets[f].large;
      all->families[f].target_small = targets[f].small;
    }
  for (guint i = 0; i < all->sweeps->len; i++)
    {
      const ScSweepResult *const r = g_ptr_array_index (all->sweeps, i);
      ScFamilyResult *const family = &all->families[r->family];
      family->n_sweeps++;
      family->n_rows += r->sweep->n_rows;
      all->n_rows += r->sweep->n_rows;
      if (r->skipped != NULL)
        {
          family->n_skipped++;
          family->n_rows_skipped += r->sweep->n_rows;
          all->n_sweeps_skipped++;
          all->n_rows_skipped += r->sweep->n_rows;
          continue;
        }
      for (guint s = 0; s < SC_N_POINT_STATES; s++)
        all->n_states[s] += r->n_states[s];
      family->n_rows_skipped += r->n_states[SC_POINT_NO_FIGURE] + r->n_states[SC_POINT_IMPOSSIBLE];
      errors_merge (&family->errors, &r->errors);
      errors_merge (&family->of_use[r->sweep->use], &r->errors);
      errors_merge (&all->errors, &r->errors);
      errors_merge (&all->of_use[r->sweep->use], &r->errors);
    }
  all->passes = all->errors.all.n > 0;
  for (guint f = 0; f < SC_N_FAMILIES; f++)
    {
      ScFamilyResult *const family = &all->families[f];
      family->passes = meets (&family->errors.large, family->target_large) && meets (&family->errors.small, family->target_small);
      all->passes = all->passes && family->passes;
    }
  return all;
}
