/* SPDX-License-Identifier: GPL-3.0-or-later */
/* comm-spec.c - sizes, ranks and groups from words. */
#include "comm-spec.h"
#include <math.h>
#include <string.h>

G_DEFINE_QUARK (sc-comm-spec-error-quark, sc_comm_spec_error)

/* ---- numbers and sizes ---- */

gboolean
sc_comm_number_parse (const char *what, const char *text, guint64 min, guint64 max, guint *ret, GError **error)
{
  guint64 value;
  if (!g_ascii_string_to_unsigned (text, 10, min, max, &value, NULL))
    {
      g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX,
                   "%s: found \"%s\", expected a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, what, text, min, max);
      return FALSE;
    }
  *ret = (guint) value;
  return TRUE;
}

/* Letters of powers of 1024. */
static const char powers[] = "KMGT";

gboolean
sc_comm_size_parse (const char *what, const char *text, double *ret_bytes, GError **error)
{
  const gsize digits = strspn (text, "0123456789.");
  char *end;
  double bytes = digits > 0 && digits < 32 ? g_ascii_strtod (text, &end) : NAN;
  const char *letter = text[digits] != '\0' ? strchr (powers, g_ascii_toupper (text[digits])) : NULL;
  if (digits == 0 || digits >= 32 || end != text + digits
      || (text[digits] != '\0' && (letter == NULL || text[digits + 1] != '\0')))
    bytes = NAN;
  else if (letter != NULL)
    bytes = ldexp (bytes, 10 * ((int) (letter - powers) + 1));
  bytes = floor (bytes);
  if (!(bytes >= 1 && bytes <= SC_COMM_MAX_BYTES))
    {
      g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX,
                   "%s: found \"%s\", expected a size from 1 to 1024T such as 8, 4K, 128M or 8G", what, text);
      return FALSE;
    }
  *ret_bytes = bytes;
  return TRUE;
}

GArray *
sc_comm_sizes (double min, double max, double factor, double step, GError **error)
{
  g_return_val_if_fail (min >= 1 && max >= min && (step > 0 || factor > 1), NULL);
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (double));
  for (double bytes = min; bytes <= max; bytes = step > 0 ? bytes + step : MAX (floor (bytes * factor), bytes + 1))
    {
      if (sizes->len == SC_COMM_MAX_SIZES)
        {
          g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX,
                       "found more than %u sizes from %.0f to %.0f bytes, expected a larger %s", SC_COMM_MAX_SIZES, min, max,
                       step > 0 ? "step (-i)" : "factor (-f)");
          return NULL;
        }
      g_array_append_val (sizes, bytes);
    }
  return g_steal_pointer (&sizes);
}

double
sc_comm_size_round (ScCollKind kind, guint n_ranks, double bytes)
{
  if (kind != SC_COLL_ALL_GATHER && kind != SC_COLL_REDUCE_SCATTER && kind != SC_COLL_ALL_TO_ALL)
    return bytes;
  const double grain = 16.0 * n_ranks;
  return floor (bytes / grain) * grain;
}

/* ---- places ---- */

void
sc_comm_places_free (ScCommPlaces *places)
{
  if (places == NULL)
    return;
  g_free (places->gpus);
  g_free (places->node);
  g_free (places->place);
  g_free (places);
}

ScCommPlaces *
sc_comm_places_new (const ScTopology *topology, guint n_ranks, guint per_node, GError **error)
{
  g_autoptr (ScCommPlaces) p = g_new0 (ScCommPlaces, 1);
  p->n_job_gpus = MIN (sc_topology_job_gpus (topology), SC_COMM_MAX_MEMBERS);
  const guint most = n_ranks > 0 ? MIN (n_ranks, p->n_job_gpus) : p->n_job_gpus;
  p->gpus = g_new (guint32, MAX (most, 1));
  p->node = g_new (guint32, MAX (most, 1));
  p->place = g_new (guint32, MAX (most, 1));
  guint node = 0, gpu = 0, skip = topology->first_node;
  for (guint run = 0; run < topology->n_runs && p->n < most; run++)
    {
      const guint gpus = topology->types[topology->runs[run].type].gpus;
      const guint skipped = MIN (skip, topology->runs[run].count);
      skip -= skipped;
      for (guint i = skipped; i < topology->runs[run].count && p->n < most; i++, node++, gpu += gpus)
        {
          const guint here = MIN (per_node > 0 ? MIN (gpus, per_node) : gpus, most - p->n);
          for (guint k = 0; k < here; k++, p->n++)
            {
              p->gpus[p->n] = gpu + k;
              p->node[p->n] = node;
              p->place[p->n] = k;
            }
          p->per_node = MAX (p->per_node, here);
        }
    }
  p->n_nodes = node;
  if (p->n < n_ranks)
    {
      g_autofree char *each = per_node > 0 ? g_strdup_printf ("%u on each node of ", per_node) : g_strdup ("");
      g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_TOPOLOGY, "found %u ranks, expected at most %u: %s%s has no more",
                   n_ranks, p->n, each, topology->name);
      return NULL;
    }
  return g_steal_pointer (&p);
}

/* ---- groups ---- */

void
sc_comm_spec_free (ScCommSpec *spec)
{
  g_free (spec->name);
  g_free (spec->gpus);
  g_free (spec);
}

static void
fail (const char *text, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

static void
fail (const char *text, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX, "--group %s: %s", text, message);
}

/* Digits at *at, which moves behind them. */
static gboolean
read_number (const char **at, guint32 *ret)
{
  guint64 n = 0;
  const char *p = *at;
  for (; g_ascii_isdigit (*p) && n < G_MAXUINT32; p++)
    n = n * 10 + (guint) (*p - '0');
  if (p == *at || g_ascii_isdigit (*p) || n >= G_MAXUINT32)
    return FALSE;
  *at = p;
  *ret = (guint32) n;
  return TRUE;
}

/* FIRST[-LAST[/STEP]] */
static gboolean
read_range (const char **at, guint32 *first, guint32 *last, guint32 *step)
{
  *step = 1;
  if (!read_number (at, first))
    return FALSE;
  *last = *first;
  if (**at != '-')
    return TRUE;
  ++*at;
  if (!read_number (at, last))
    return FALSE;
  if (**at != '/')
    return TRUE;
  ++*at;
  return read_number (at, step);
}

/* First rank of node @node, or where it would be. */
static guint
first_of_node (const ScCommPlaces *places, guint32 node)
{
  guint low = 0, high = places->n;
  while (low < high)
    {
      const guint middle = low + (high - low) / 2;
      if (places->node[middle] < node)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

/* One ITEM at *at, appended to @gpus; @seen: [n_job_gpus]. */
static gboolean
read_item (const char *text, const char **at, const ScCommPlaces *places, guint8 *seen, GArray *gpus, GError **error)
{
  const char *const start = *at;
  const gboolean nodes = g_str_has_prefix (*at, "node");
  if (nodes)
    *at += strlen ("node");
  guint32 first, last, step;
  if (!read_range (at, &first, &last, &step) || (**at != '\0' && **at != ','))
    {
      fail (text, error, "found \"%s\", expected GPUs (7, 0-63, 0-511/8), nodes (node2, node0-3), rails, nodes, halves or all", start);
      return FALSE;
    }
  const guint32 end = nodes ? (places->n > 0 ? places->node[places->n - 1] + 1 : 0) : places->n_job_gpus;
  if (last >= end)
    {
      g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_TOPOLOGY, "--group %s: found %s %u, expected one below %u", text,
                   nodes ? "node" : "GPU", last, end);
      return FALSE;
    }
  if (last < first || step == 0)
    {
      fail (text, error, "found \"%.*s\", expected the lower number first and a step of 1 or more", (int) (*at - start), start);
      return FALSE;
    }
  for (guint64 i = first; i <= last; i += step)
    for (guint r = nodes ? first_of_node (places, (guint32) i) : 0; nodes ? r < places->n && places->node[r] == i : r < 1; r++)
      {
        const guint32 gpu = nodes ? places->gpus[r] : (guint32) i;
        if (seen[gpu])
          {
            fail (text, error, "found GPU %u twice, expected once", gpu);
            return FALSE;
          }
        seen[gpu] = TRUE;
        g_array_append_val (gpus, gpu);
      }
  return TRUE;
}

/* Takes @name and what is in @gpus. */
static gboolean
add_group (GPtrArray *groups, const char *text, char *name, ScCollKind kind, double bytes, const GArray *gpus, GError **error)
{
  g_autofree char *owned = name;
  if (gpus->len < 2 || (kind == SC_COLL_SEND && gpus->len != 2))
    {
      fail (text, error, "found %u rank%s in %s, expected %s", gpus->len, gpus->len == 1 ? "" : "s", name,
            kind == SC_COLL_SEND ? "a sender and a receiver" : "two or more");
      return FALSE;
    }
  if (groups->len >= SC_COMM_MAX_GROUPS)
    {
      fail (text, error, "found more than %u groups", SC_COMM_MAX_GROUPS);
      return FALSE;
    }
  ScCommSpec *const spec = g_new (ScCommSpec, 1);
  *spec = (ScCommSpec) { .name = g_steal_pointer (&owned), .kind = kind, .n = gpus->len, .bytes = bytes,
                         .gpus = g_memdup2 (gpus->data, gpus->len * sizeof (guint32)) };
  g_ptr_array_add (groups, spec);
  return TRUE;
}

/* Ranks to groups by @key: [n], below @n_keys. */
static gboolean
add_by_key (GPtrArray *groups, const char *text, const char *word, const guint32 *key, guint n_keys, ScCollKind kind,
            double bytes, const ScCommPlaces *places, GError **error)
{
  g_autoptr (GPtrArray) members = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  for (guint k = 0; k < n_keys; k++)
    g_ptr_array_add (members, g_array_new (FALSE, FALSE, sizeof (guint32)));
  for (guint r = 0; r < places->n; r++)
    g_array_append_val ((GArray *) g_ptr_array_index (members, key[r]), places->gpus[r]);
  for (guint k = 0; k < n_keys; k++)
    {
      const GArray *const gpus = g_ptr_array_index (members, k);
      if (gpus->len > 0 && !add_group (groups, text, g_strdup_printf ("%s %u", word, k), kind, bytes, gpus, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
add_ranks (GPtrArray *groups, const char *text, const char *ranks, ScCollKind kind, double bytes, const ScCommPlaces *places,
           GError **error)
{
  if (strcmp (ranks, "rails") == 0)
    return add_by_key (groups, text, "rail", places->place, places->per_node, kind, bytes, places, error);
  if (strcmp (ranks, "nodes") == 0)
    return add_by_key (groups, text, "node", places->node, places->n_nodes, kind, bytes, places, error);
  if (strcmp (ranks, "halves") == 0)
    {
      g_autofree guint32 *half = g_new (guint32, MAX (places->n, 1));
      for (guint r = 0; r < places->n; r++)
        half[r] = r >= places->n / 2;
      return add_by_key (groups, text, "half", half, 2, kind, bytes, places, error);
    }
  g_autoptr (GArray) gpus = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (strcmp (ranks, "all") == 0)
    g_array_append_vals (gpus, places->gpus, places->n);
  else
    {
      g_autofree guint8 *seen = g_new0 (guint8, MAX (places->n_job_gpus, 1));
      for (const char *at = ranks;; at++)
        {
          if (!read_item (text, &at, places, seen, gpus, error))
            return FALSE;
          if (*at == '\0')
            break;
        }
    }
  return add_group (groups, text, g_strdup (ranks), kind, bytes, gpus, error);
}

gboolean
sc_comm_spec_add (GPtrArray *groups, const char *text, ScCollKind kind, const ScCommPlaces *places, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", 4);
  guint n = g_strv_length (parts), at = 0;
  if (n > 1 && sc_coll_kind_find (parts[0], &kind))
    at++;
  else if (n == 3)
    {
      fail (text, error, "found \"%s\", expected a collective such as all-reduce", parts[0]);
      return FALSE;
    }
  if (n - at < 1 || n - at > 2)
    {
      fail (text, error, "expected [COLLECTIVE:]RANKS[:SIZE]");
      return FALSE;
    }
  double bytes = 0;
  if (n - at == 2)
    {
      g_autofree char *what = g_strdup_printf ("--group %s", text);
      if (!sc_comm_size_parse (what, parts[at + 1], &bytes, error))
        return FALSE;
    }
  return add_ranks (groups, text, parts[at], kind, bytes, places, error);
}

gboolean
sc_comm_specs_check (const GPtrArray *groups, const ScCommPlaces *places, GError **error)
{
  g_autofree guint8 *count = g_new0 (guint8, MAX (places->n_job_gpus, 1));
  guint64 members = 0;
  for (guint g = 0; g < groups->len; g++)
    {
      const ScCommSpec *const spec = g_ptr_array_index (groups, g);
      members += spec->n;
      if (members > SC_COMM_MAX_MEMBERS)
        {
          g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX, "found more than %u ranks in all groups", SC_COMM_MAX_MEMBERS);
          return FALSE;
        }
      for (guint i = 0; i < spec->n; i++)
        if (++count[spec->gpus[i]] > SC_COMM_MAX_PER_GPU)
          {
            g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX, "found GPU %u in more than %u groups", spec->gpus[i],
                         SC_COMM_MAX_PER_GPU);
            return FALSE;
          }
      if (spec->bytes > 0 && sc_comm_size_round (spec->kind, spec->n, spec->bytes) == 0)
        {
          g_set_error (error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX,
                       "found %.0f bytes for %s over %u ranks, expected 16 bytes for each", spec->bytes, sc_coll_kind_name (spec->kind), spec->n);
          return FALSE;
        }
    }
  return TRUE;
}
