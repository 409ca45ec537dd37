/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-run.c - devices and rows of a run; which collective they fit. */
#include "nccl-run.h"
#include <math.h>
#include <string.h>

#define MAX_KEPT_BYTES 200

/* busbw / algbw over n ranks. */
typedef enum
{
  FACTOR_ONE,
  FACTOR_OTHERS,       /* (n-1)/n */
  FACTOR_TWICE_OTHERS, /* 2(n-1)/n */
  FACTOR_UNKNOWN,
} Factor;

/* Factors: doc/PERFORMANCE.md of nccl-tests.  Reductions and roots: what each program writes into its columns. */
static const struct
{
  const char *program; /* without "_perf" */
  const char *collective;
  Factor factor;
  gboolean has_redop, has_root;
} collectives[] = {
  { "all_reduce", "all-reduce", FACTOR_TWICE_OTHERS, TRUE, FALSE },
  { "reduce_scatter", "reduce-scatter", FACTOR_OTHERS, TRUE, FALSE },
  { "all_gather", "all-gather", FACTOR_OTHERS, FALSE, FALSE },
  { "alltoall", "all-to-all", FACTOR_OTHERS, FALSE, FALSE },
  { "alltoallv", "all-to-all-v", FACTOR_UNKNOWN, FALSE, FALSE },
  { "broadcast", "broadcast", FACTOR_ONE, FALSE, TRUE },
  { "reduce", "reduce", FACTOR_ONE, TRUE, TRUE },
  { "gather", "gather", FACTOR_OTHERS, FALSE, TRUE },
  { "scatter", "scatter", FACTOR_OTHERS, FALSE, TRUE },
  { "sendrecv", "send-recv", FACTOR_ONE, TRUE, FALSE },
  { "hypercube", "hypercube", FACTOR_ONE, FALSE, FALSE },
};
G_STATIC_ASSERT (G_N_ELEMENTS (collectives) < 32);

/* Index into the table, or -1. */
static int
find_collective (const char *program)
{
  g_autofree char *name = g_path_get_basename (program);
  for (guint i = 0; i < G_N_ELEMENTS (collectives); i++)
    {
      const gsize length = strlen (collectives[i].program);
      if (strncmp (name, collectives[i].program, length) == 0 && g_str_has_prefix (name + length, "_perf")
          && !g_ascii_isalnum (name[length + strlen ("_perf")]))
        return (int) i;
    }
  return -1;
}

gboolean
sc_nccl_program_is_known (const char *program)
{
  return find_collective (program) >= 0;
}

char *
sc_nccl_version_from_code (guint64 code)
{
  if (code < 1000 || code >= 10000000)
    return NULL;
  const guint scale = code < 10000 ? 1000 : 10000; /* from 2.9 on, two digits for the minor version */
  return g_strdup_printf ("%u.%u.%u", (guint) (code / scale), (guint) (code % scale / 100), (guint) (code % 100));
}

char *
sc_nccl_keep (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, (gssize) strnlen (text, MAX_KEPT_BYTES));
  for (char *p = valid; *p != '\0'; p++)
    if (g_ascii_iscntrl (*p))
      *p = ' ';
  g_strstrip (valid);
  return *valid == '\0' ? NULL : g_steal_pointer (&valid);
}

const char *
sc_nccl_row_expected (const ScNcclRow *row, double *ret_found)
{
  if (!isfinite (row->bytes) || row->bytes < 0)
    {
      *ret_found = row->bytes;
      return "a size of 0 bytes or more";
    }
  if (!isfinite (row->time_s) || row->time_s <= 0)
    {
      *ret_found = row->time_s * 1e6;
      return "a time above 0 us";
    }
  const double bandwidths[] = { row->algbw_bytes_per_s, row->busbw_bytes_per_s };
  for (guint i = 0; i < G_N_ELEMENTS (bandwidths); i++)
    if (!isfinite (bandwidths[i]) || bandwidths[i] < 0)
      {
        *ret_found = bandwidths[i] / 1e9;
        return "a bandwidth of 0 GB/s or more";
      }
  return NULL;
}

void
sc_nccl_log_free (ScNcclLog *log)
{
  if (log == NULL)
    return;
  g_free (log->program);
  g_free (log->collective);
  g_free (log->gpu);
  g_free (log->nccl_version);
  g_free (log->algo);
  g_free (log->proto);
  g_array_unref (log->rows);
  g_array_unref (log->in_place);
  g_free (log);
}

ScNcclRun *
sc_nccl_run_new (guint line)
{
  ScNcclRun *run = g_new0 (ScNcclRun, 1);
  run->log = g_new0 (ScNcclLog, 1);
  run->log->line = line;
  run->log->rows = g_array_new (FALSE, FALSE, sizeof (ScNcclRow));
  run->log->in_place = g_array_new (FALSE, FALSE, sizeof (ScNcclRow));
  run->ranks = g_hash_table_new (NULL, NULL);
  run->hosts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  run->group_sizes = g_hash_table_new (NULL, NULL);
  run->ranks_per_process = 1;
  run->fits = (1u << G_N_ELEMENTS (collectives)) - 1;
  return run;
}

void
sc_nccl_run_free (ScNcclRun *run)
{
  if (run == NULL)
    return;
  sc_nccl_log_free (run->log);
  g_hash_table_unref (run->ranks);
  g_hash_table_unref (run->hosts);
  g_hash_table_unref (run->group_sizes);
  g_free (run);
}

gboolean
sc_nccl_run_add_device (ScNcclRun *run, guint rank, guint group, const char *host, const char *gpu)
{
  g_assert (rank < SC_NCCL_MAX_RANKS && group < SC_NCCL_MAX_RANKS);
  if (g_hash_table_size (run->ranks) == 0)
    run->first_group = group;
  if (!g_hash_table_add (run->ranks, GUINT_TO_POINTER (rank + 1)))
    return FALSE;
  run->max_rank = MAX (run->max_rank, rank);
  gpointer key = GUINT_TO_POINTER (group + 1);
  const guint size = GPOINTER_TO_UINT (g_hash_table_lookup (run->group_sizes, key));
  g_hash_table_insert (run->group_sizes, key, GUINT_TO_POINTER (size + 1));
  g_hash_table_add (run->hosts, g_strdup (host));
  g_autofree char *name = sc_nccl_keep (gpu);
  if (run->log->gpu == NULL && g_hash_table_size (run->ranks) == 1)
    run->log->gpu = g_steal_pointer (&name);
  else if (g_strcmp0 (run->log->gpu, name) != 0)
    run->gpus_differ = TRUE;
  return TRUE;
}

/* Ranks of the first communicator.  A process lists all its ranks, or (in JSON) the first only, or as many as have room
 * in 2 kB; so the ranks of the last process are counted by what each process has. */
static guint
count_ranks (const ScNcclRun *run)
{
  const guint n_listed = g_hash_table_size (run->ranks);
  if (n_listed == 0)
    return 0;
  const guint64 n = ((guint64) run->max_rank / run->ranks_per_process + 1) * run->ranks_per_process;
  if (n > SC_NCCL_MAX_RANKS)
    return 0;
  gpointer key = GUINT_TO_POINTER (run->first_group + 1);
  const guint64 n_first = GPOINTER_TO_UINT (g_hash_table_lookup (run->group_sizes, key));
  return (guint) (n * n_first / n_listed);
}

static double
factor_of (Factor factor, guint n_ranks)
{
  const double others = (n_ranks - 1.0) / n_ranks;
  return factor == FACTOR_ONE ? 1 : factor == FACTOR_OTHERS ? others : 2 * others;
}

void
sc_nccl_run_add_row (ScNcclRun *run, gboolean is_in_place, const ScNcclRow *row, const ScNcclHints *hints)
{
  g_array_append_vals (is_in_place ? run->log->in_place : run->log->rows, row, 1);
  const guint n_ranks = count_ranks (run);
  if (!hints->known || n_ranks == 0)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (collectives); i++)
    {
      gboolean fits = collectives[i].has_redop == hints->has_redop && collectives[i].has_root == hints->has_root;
      if (collectives[i].factor != FACTOR_UNKNOWN)
        {
          const double factor = factor_of (collectives[i].factor, n_ranks);
          const double error = hints->busbw_error + factor * hints->algbw_error + 1e-9 * fabs (row->busbw_bytes_per_s);
          fits = fits && fabs (row->busbw_bytes_per_s - factor * row->algbw_bytes_per_s) <= error;
        }
      if (!fits)
        run->fits &= ~(1u << i);
    }
}

ScNcclLog *
sc_nccl_run_end (ScNcclRun *run)
{
  g_autoptr (ScNcclRun) owned = run;
  ScNcclLog *log = run->log;
  if (log->rows->len == 0 && log->in_place->len == 0)
    return NULL;
  log->ranks = count_ranks (run);
  log->fits = run->fits;
  log->groups = g_hash_table_size (run->group_sizes);
  log->nodes = g_hash_table_size (run->hosts);
  if (run->gpus_differ)
    g_clear_pointer (&log->gpu, g_free);
  int i = log->program == NULL ? -1 : find_collective (log->program);
  if (i >= 0 && run->program_is_guess && (run->fits & 1u << i) == 0)
    {
      g_clear_pointer (&log->program, g_free);
      i = -1;
    }
  /* Where the program is unknown: the one collective that fits.  An unknown program measures something else. */
  if (i < 0 && log->program == NULL && log->ranks > 0 && run->fits != 0 && (run->fits & (run->fits - 1)) == 0)
    i = g_bit_nth_lsf (run->fits, -1);
  if (i >= 0)
    log->collective = g_strdup (collectives[i].collective);
  return g_steal_pointer (&run->log);
}

gboolean
sc_nccl_log_fits (const ScNcclLog *log, const char *collective)
{
  for (guint i = 0; i < G_N_ELEMENTS (collectives); i++)
    if (strcmp (collectives[i].collective, collective) == 0)
      return log->fits == 0 || (log->fits & 1u << i) != 0;
  return TRUE;
}
