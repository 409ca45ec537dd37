/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-shard.c - shards from the command line or from the variables of launchers. */
#include "grid-shard.h"
#include "cmd.h"
#include <string.h>

#define MAX_SHARDS 1000000000

/* Launchers whose variables say which of how many tasks this is.  The first that is there counts. */
static const struct
{
  const char *index, *n;
} launchers[] = {
  { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" }, /* Open MPI */
  { "PMI_RANK", "PMI_SIZE" },                         /* MPICH, Intel MPI */
  { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" },         /* srun; in a batch script itself there is no step */
};

static gboolean G_GNUC_PRINTF (2, 3)
fail (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "--shard: %s", message);
  return FALSE;
}

static gboolean
read_count (const char *text, guint64 *ret)
{
  return text != NULL && g_ascii_string_to_unsigned (text, 10, 0, MAX_SHARDS, ret, NULL);
}

static gboolean
read_variable (ScGetenv get, const char *name, guint64 *ret, GError **error)
{
  const char *const text = get (name);
  if (text == NULL)
    return fail (error, "auto: %s is not set", name);
  return read_count (text, ret) ? TRUE : fail (error, "auto: %s is \"%s\", expected a whole number", name, text);
}

/* A SLURM job array.  Ids that were left out would be points that nobody does. */
static gboolean
read_array (ScGetenv get, ScShard *ret, GError **error)
{
  guint64 id, first, last, step = 1, count;
  if (!read_variable (get, "SLURM_ARRAY_TASK_ID", &id, error) || !read_variable (get, "SLURM_ARRAY_TASK_MIN", &first, error)
      || !read_variable (get, "SLURM_ARRAY_TASK_MAX", &last, error) || !read_variable (get, "SLURM_ARRAY_TASK_COUNT", &count, error))
    return FALSE;
  if (get ("SLURM_ARRAY_TASK_STEP") != NULL && !read_variable (get, "SLURM_ARRAY_TASK_STEP", &step, error))
    return FALSE;
  if (step == 0 || id < first || id > last || (id - first) % step != 0 || (last - first) / step + 1 != count)
    return fail (error,
                 "auto: found task %" G_GUINT64_FORMAT " of an array of %" G_GUINT64_FORMAT " from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
                 ", expected an array without gaps, such as --array=0-7 (to repeat some tasks say which of how many: --shard I/N)",
                 id, count, first, last);
  *ret = (ScShard) { (id - first) / step, count };
  return TRUE;
}

static gboolean
read_launcher (ScGetenv get, ScShard *ret, gboolean *ret_any, GError **error)
{
  *ret_any = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (launchers) && !*ret_any; i++)
    if (get (launchers[i].index) != NULL && get (launchers[i].n) != NULL)
      {
        *ret_any = TRUE;
        if (!read_variable (get, launchers[i].index, &ret->index, error) || !read_variable (get, launchers[i].n, &ret->n, error))
          return FALSE;
        if (ret->index >= ret->n)
          return fail (error, "auto: found %s=%s of %s=%s", launchers[i].index, get (launchers[i].index), launchers[i].n, get (launchers[i].n));
      }
  return TRUE;
}

/* Tasks of a parallel launcher inside an array's task are parts of its part. */
static gboolean
read_environment (ScGetenv get, ScShard *ret, GError **error)
{
  ScShard outer = { 0, 1 }, inner = { 0, 1 };
  const gboolean array = get ("SLURM_ARRAY_TASK_ID") != NULL;
  gboolean launcher;
  if ((array && !read_array (get, &outer, error)) || !read_launcher (get, &inner, &launcher, error))
    return FALSE;
  if (!array && !launcher && get ("JOB_COMPLETION_INDEX") != NULL)
    return fail (error, "auto: Kubernetes does not tell a job how many completions it has; give them: --shard auto/N");
  if (!array && !launcher)
    return fail (error, "auto: found no variables of SLURM (array or srun), Open MPI, PMI or Kubernetes; give it: --shard I/N");
  *ret = (ScShard) { outer.index * inner.n + inner.index, outer.n * inner.n };
  return TRUE;
}

/* "auto/N" */
static gboolean
read_index (ScGetenv get, guint64 n, ScShard *ret, GError **error)
{
  static const char *const names[] = { "JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (get (names[i]) != NULL)
      {
        ret->n = n;
        if (!read_variable (get, names[i], &ret->index, error))
          return FALSE;
        return ret->index < n ? TRUE : fail (error, "auto/%" G_GUINT64_FORMAT ": found %s=%s, expected 0 to %" G_GUINT64_FORMAT, n, names[i], get (names[i]), n - 1);
      }
  return fail (error, "auto/%" G_GUINT64_FORMAT ": found no variable of Kubernetes, SLURM, Open MPI or PMI; give it: --shard I/N", n);
}

gboolean
sc_shard_parse (const char *text, ScGetenv get, ScShard *ret, GError **error)
{
  if (strcmp (text, "auto") == 0)
    return read_environment (get, ret, error);
  const char *const slash = strchr (text, '/');
  g_autofree char *before = slash != NULL ? g_strndup (text, (gsize) (slash - text)) : NULL;
  ScShard shard = { 0, 0 };
  if (slash == NULL || !read_count (slash + 1, &shard.n) || shard.n == 0 || (strcmp (before, "auto") != 0 && !read_count (before, &shard.index)))
    return fail (error, "found \"%s\", expected I/N, auto or auto/N", text);
  if (strcmp (before, "auto") == 0)
    return read_index (get, shard.n, ret, error);
  if (shard.index >= shard.n)
    return fail (error, "found \"%s\", expected 0 to %" G_GUINT64_FORMAT " before the slash", text, shard.n - 1);
  *ret = shard;
  return TRUE;
}

guint64
sc_shard_n_points (const ScShard *shard, guint64 n_points)
{
  return shard->index < n_points ? (n_points - shard->index - 1) / shard->n + 1 : 0;
}

guint64
sc_shard_point (const ScShard *shard, guint64 k)
{
  return shard->index + k * shard->n;
}

char *
sc_shard_path (const ScShard *shard, const char *path)
{
  GString *const text = g_string_new (NULL);
  for (; *path != '\0'; path++)
    if (*path == '%' && (path[1] == 'i' || path[1] == 'n' || path[1] == '%'))
      switch (*++path)
        {
        case 'i':
          g_string_append_printf (text, "%" G_GUINT64_FORMAT, shard->index);
          break;
        case 'n':
          g_string_append_printf (text, "%" G_GUINT64_FORMAT, shard->n);
          break;
        default:
          g_string_append_c (text, '%');
        }
    else
      g_string_append_c (text, *path);
  return g_string_free (text, FALSE);
}
