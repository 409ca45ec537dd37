/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-comm.c - stepcast comm: collectives on their own, one size after the other, as nccl-tests runs them. */
#include "cmd.h"
#include "override.h"
#include "json-in.h"
#include "models/nccl.h"
#include "nccl-log.h"
#include "report-comm.h"
#include "topology-json.h"
#include <math.h>
#include <string.h>

#define DEFAULT_MIN "8"
#define DEFAULT_MAX "8G"
#define MAX_FACTOR  1048576.0

typedef struct
{
  ScInputs inputs;
  char *ranks, *per_node, *min, *max, *factor, *step, *algo, *proto, *nccl, *measured, *format;
  char **groups;
  gboolean unfolded;
  /* what they say */
  gboolean   has_kind;
  ScCollKind kind;
  guint      n_ranks, n_per_node; /* 0: not said */
  double     min_bytes, max_bytes, times, step_bytes;
  const ScCollective *row;        /* NULL: not said */
  ScProtocol protocol;            /* SC_N_PROTOS: not said */
  gboolean   has_library;
  guint      library;
} CommOptions;

static void
comm_options_clear (CommOptions *o)
{
  char *const texts[] = { o->ranks, o->per_node, o->min, o->max, o->factor, o->step, o->algo, o->proto, o->nccl, o->measured, o->format };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_free (texts[i]);
  g_strfreev (o->groups);
  sc_inputs_clear (&o->inputs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CommOptions, comm_options_clear)

/* ---- Options ---- */

/* Letters and digits only, in lower case: "NVLSTree" is "nvls-tree". */
static char *
bare (const char *name)
{
  GString *const s = g_string_new (NULL);
  for (const char *p = name; *p != '\0'; p++)
    if (g_ascii_isalnum (*p))
      g_string_append_c (s, g_ascii_tolower (*p));
  return g_string_free (s, FALSE);
}

/* A row by our name or by NCCL's; NULL: none. */
static const ScCollective *
find_row (const char *name)
{
  g_autofree char *want = bare (name);
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    {
      g_autofree char *have = bare ((*row)->name);
      if (strcmp (have, want) == 0)
        return *row;
    }
  return g_str_has_prefix (want, "collnet") ? sc_collective_find ("collnet") : NULL;
}

static gboolean
parse_library (CommOptions *o, GError **error)
{
  if (o->nccl == NULL)
    return TRUE;
  o->has_library = TRUE;
  o->library = SC_TEXTBOOK;
  if (strcmp (o->nccl, "textbook") == 0)
    return TRUE;
  const char *const release = g_str_has_prefix (o->nccl, "nccl-") ? o->nccl + strlen ("nccl-") : o->nccl;
  const ScNcclVersion *const version = g_ascii_isdigit (*release) ? sc_nccl_version_of (release) : NULL;
  if (version == NULL || !g_str_has_prefix (release, "2."))
    return sc_cmd_fail_usage ("comm", error, "--nccl: found \"%s\", expected a release such as 2.26.2, or textbook", o->nccl);
  o->library = sc_nccl_version_number (version);
  return TRUE;
}

static gboolean
parse_forced (CommOptions *o, GError **error)
{
  o->protocol = SC_N_PROTOS;
  if (o->algo != NULL && (o->row = find_row (o->algo)) == NULL)
    {
      g_autoptr (GString) names = g_string_new (NULL);
      for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
        g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "", (*row)->name);
      return sc_cmd_fail_usage ("comm", error, "--algo: found \"%s\", expected one of %s", o->algo, names->str);
    }
  if (o->proto != NULL && !sc_protocol_find (o->proto, &o->protocol))
    return sc_cmd_fail_usage ("comm", error, "--proto: found \"%s\", expected LL, LL128 or Simple", o->proto);
  return TRUE;
}

static gboolean
parse_sizes (CommOptions *o, GError **error)
{
  if (!sc_comm_size_parse ("--minbytes", o->min != NULL ? o->min : DEFAULT_MIN, &o->min_bytes, error)
      || !sc_comm_size_parse ("--maxbytes", o->max != NULL ? o->max : DEFAULT_MAX, &o->max_bytes, error)
      || (o->step != NULL && !sc_comm_size_parse ("--stepbytes", o->step, &o->step_bytes, error)))
    return FALSE;
  /* One of them alone: the other one does not stand in its way. */
  if (o->max == NULL)
    o->max_bytes = MAX (o->max_bytes, o->min_bytes);
  if (o->min == NULL)
    o->min_bytes = MIN (o->max_bytes, o->min_bytes);
  if (o->max_bytes < o->min_bytes)
    return sc_cmd_fail_usage ("comm", error, "--maxbytes: found %s, expected no less than --minbytes (%s)", o->max, o->min);
  o->times = 2;
  if (o->factor != NULL)
    {
      char *end;
      o->times = g_ascii_strtod (o->factor, &end);
      if (end == o->factor || *end != '\0' || !(o->times > 1 && o->times <= MAX_FACTOR))
        return sc_cmd_fail_usage ("comm", error, "--stepfactor: found \"%s\", expected a number above 1, to 1048576", o->factor);
      if (o->step != NULL)
        return sc_cmd_fail_usage ("comm", error, "--stepfactor and --stepbytes: found both, expected one");
    }
  return TRUE;
}

static gboolean
parse_options (CommOptions *o, GError **error)
{
  if ((o->ranks != NULL && !sc_comm_number_parse ("--ranks", o->ranks, 2, SC_COMM_MAX_MEMBERS, &o->n_ranks, error))
      || (o->per_node != NULL && !sc_comm_number_parse ("--per-node", o->per_node, 1, 1024, &o->n_per_node, error))
      || !parse_sizes (o, error) || !parse_forced (o, error) || !parse_library (o, error))
    return FALSE;
  if (o->measured != NULL && (o->groups != NULL || o->factor != NULL || o->step != NULL))
    return sc_cmd_fail_usage ("comm", error, "--measured runs what the log has: found %s as well",
                       o->groups != NULL ? "--group" : o->factor != NULL ? "--stepfactor" : "--stepbytes");
  for (char **set = o->inputs.set; set != NULL && *set != NULL; set++)
    if (!sc_override_is_topology (*set))
      return sc_cmd_fail_usage ("comm", error, "--set %s: found no workload here, expected topology.KEY or device.KEY", *set);
  return TRUE;
}

static const ScCommFormat *
find_format (const char *name, GError **error)
{
  guint n;
  const ScCommFormat *const all = sc_comm_format_all (&n);
  for (guint i = 0; i < n; i++)
    if (name == NULL || strcmp (all[i].name, name) == 0)
      return &all[i];
  sc_cmd_fail_usage ("comm", error, "--format: found \"%s\", expected text, csv or json", name);
  return NULL;
}

/* COLLECTIVE TOPOLOGY, or TOPOLOGY alone beside a log that says what it measured. */
static gboolean
read_arguments (CommOptions *o, int argc, char **argv, GError **error)
{
  if (argc != 3 && !(argc == 2 && o->measured != NULL))
    return sc_cmd_fail_usage ("comm", error, "found %d argument%s, expected COLLECTIVE and TOPOLOGY", argc - 1, argc == 2 ? "" : "s");
  o->has_kind = argc == 3;
  if (o->has_kind && !sc_coll_kind_find (argv[1], &o->kind))
    {
      const char *known[SC_N_COLLS + 1] = { NULL };
      for (guint k = 0; k < SC_N_COLLS; k++)
        known[k] = sc_coll_kind_name ((ScCollKind) k);
      const char *const nearest = sc_nearest (argv[1], known);
      return sc_cmd_fail_usage ("comm", error, "unknown collective \"%s\", %s%s%s", argv[1], nearest != NULL ? "did you mean \"" : "expected one such as \"",
                         nearest != NULL ? nearest : "all-reduce", nearest != NULL ? "\"?" : "\"");
    }
  o->inputs.topology = sc_topology_load (argv[argc - 1], o->inputs.set, o->inputs.device, error);
  if (o->inputs.topology == NULL)
    return FALSE;
  if (o->has_library)
    o->inputs.topology->collectives = o->library;
  if (o->measured == NULL && o->proto != NULL && o->inputs.topology->collectives == SC_TEXTBOOK)
    return sc_cmd_fail_usage ("comm", error, "--proto: found closed forms as the library (textbook), expected a release (--nccl)");
  return TRUE;
}

/* ---- Runs ---- */

static ScCommRun *
run_new (const ScTopology *topology, ScCollKind kind, ScCommPlaces *places)
{
  ScCommRun *const run = g_new0 (ScCommRun, 1);
  run->library = topology->collectives;
  run->kind = kind;
  run->places = places;
  run->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_spec_free);
  run->rows = g_array_new (FALSE, TRUE, sizeof (ScCommRow));
  return run;
}

/* The groups asked for, or one of all ranks; and the fabric up to their last GPU. */
static gboolean
prepare (const CommOptions *o, ScCommRun *run, GError **error)
{
  static const char *const all[] = { "all", NULL };
  if (o->groups == NULL && run->kind == SC_COLL_SEND && run->places->n != 2)
    return sc_cmd_fail_usage ("comm", error, "send: found %u ranks, expected 2: --ranks 2, or --group FROM,TO", run->places->n);
  const char *const *const texts = o->groups != NULL ? (const char *const *) o->groups : all;
  for (guint i = 0; texts[i] != NULL; i++)
    if (!sc_comm_spec_add (run->groups, texts[i], run->kind, run->places, error)
        || !sc_comm_specs_check (run->groups, run->places, error))
      return FALSE;
  guint32 last = 0;
  for (guint g = 0; g < run->groups->len; g++)
    {
      const ScCommSpec *const spec = g_ptr_array_index (run->groups, g);
      for (guint i = 0; i < spec->n; i++)
        last = MAX (last, spec->gpus[i]);
    }
  run->comms = sc_comms_new (o->inputs.topology, last + 1, o->unfolded, error);
  return run->comms != NULL;
}

/* What a call is forced to. */
typedef struct
{
  const ScCollective *row;
  ScProtocol protocol;
} Forced;

/* All groups once, those that sweep with @bytes; rows are added.  Nothing happens where some group is left without bytes. */
static gboolean
run_size (ScCommRun *run, Forced force, double bytes, double measured_s, GError **error)
{
  const guint n = run->groups->len;
  g_autofree ScCommGroup *groups = g_new (ScCommGroup, n);
  g_autofree ScCommResult *results = g_new0 (ScCommResult, n);
  for (guint g = 0; g < n; g++)
    {
      const ScCommSpec *const spec = g_ptr_array_index (run->groups, g);
      const double asked = spec->bytes > 0 ? spec->bytes : bytes;
      const double here = run->line > 0 ? asked : sc_comm_size_round (spec->kind, spec->n, asked);
      if (here == 0)
        return TRUE;
      const gboolean forced = spec->kind == run->kind;
      groups[g] = (ScCommGroup) { .kind = spec->kind, .gpus = spec->gpus, .n = spec->n, .bytes = here,
                                  .row = forced ? force.row : NULL, .protocol = forced ? force.protocol : SC_N_PROTOS };
    }
  if (!sc_comms_run (run->comms, groups, n, results, &run->stats, error))
    return FALSE;
  for (guint g = 0; g < n; g++)
    {
      const ScCommRow made = { .group = g, .bytes = groups[g].bytes, .result = results[g], .measured_s = measured_s };
      g_array_append_val (run->rows, made);
    }
  return TRUE;
}

static gboolean
run_sweep (const CommOptions *o, GPtrArray *runs, GError **error)
{
  ScCommPlaces *const places = sc_comm_places_new (o->inputs.topology, o->n_ranks, o->n_per_node, error);
  if (places == NULL)
    return FALSE;
  ScCommRun *const run = run_new (o->inputs.topology, o->kind, places);
  g_ptr_array_add (runs, run);
  g_autoptr (GArray) sizes = sc_comm_sizes (o->min_bytes, o->max_bytes, o->times, o->step_bytes, error);
  if (sizes == NULL || !prepare (o, run, error))
    return FALSE;
  if ((guint64) sizes->len * run->groups->len > SC_COMM_MAX_ROWS)
    return sc_cmd_fail_usage ("comm", error, "found %u groups at %u sizes, expected no more than %u rows", run->groups->len, sizes->len, SC_COMM_MAX_ROWS);
  for (guint i = 0; i < sizes->len; i++)
    if (!run_size (run, (Forced) { o->row, o->protocol }, g_array_index (sizes, double, i), 0, error))
      return FALSE;
  if (run->rows->len == 0)
    return sc_cmd_fail_usage ("comm", error, "found no size from %.0f to %.0f bytes of which every rank gets 16 bytes", o->min_bytes, o->max_bytes);
  return TRUE;
}

/* ---- Logs ---- */

static gboolean G_GNUC_PRINTF (4, 5) fail_log (const CommOptions *o, const ScNcclLog *log, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: %s", o->measured, log->line, message);
  return FALSE;
}

static gboolean
kind_of_log (const CommOptions *o, const ScNcclLog *log, ScCollKind *ret, GError **error)
{
  *ret = o->kind;
  if (log->collective == NULL)
    {
      if (!o->has_kind)
        return fail_log (o, log, error, "found no word which collective this is, expected it before TOPOLOGY");
      const char *const name = sc_coll_kind_name (o->kind);
      return sc_nccl_log_fits (log, name)
             || fail_log (o, log, error, "found busbw / algbw, redop and root of another collective, expected those of %s, the COLLECTIVE asked for", name);
    }
  if (!sc_coll_kind_find (log->collective, ret))
    return fail_log (o, log, error, "found %s, which is not modelled", log->collective);
  if (o->has_kind && *ret != o->kind)
    return fail_log (o, log, error, "found %s, expected %s, the COLLECTIVE asked for", log->collective, sc_coll_kind_name (o->kind));
  return TRUE;
}

/* Ranks and how many on a node: what the command line says, else the log. */
static ScCommPlaces *
places_of_log (const CommOptions *o, const ScNcclLog *log, GError **error)
{
  const guint n = o->n_ranks > 0 ? o->n_ranks : log->ranks;
  if (o->n_ranks > 0 && log->ranks > 0 && o->n_ranks != log->ranks)
    {
      fail_log (o, log, error, "found a run of %u ranks, --ranks says %u", log->ranks, o->n_ranks);
      return NULL;
    }
  guint per_node = o->n_per_node;
  if (n == 0)
    fail_log (o, log, error, "found no list of ranks, expected --ranks");
  else if (n < 2)
    fail_log (o, log, error, "found 1 rank, expected two or more");
  else if (o->n_ranks == 0 && log->groups > 1)
    fail_log (o, log, error, "found %u communicators at once, expected one", log->groups);
  else
    {
      if (o->n_ranks == 0 && per_node == 0 && log->nodes > 0)
        per_node = (n + log->nodes - 1) / log->nodes;
      ScCommPlaces *const places = sc_comm_places_new (o->inputs.topology, n, per_node, error);
      if (places == NULL)
        g_prefix_error (error, "%s:%u: ", o->measured, log->line);
      return places;
    }
  return NULL;
}

/* What the command line forces, else the environment there, where it names one algorithm or protocol that we know. */
static Forced
forced_by_log (const CommOptions *o, const ScNcclLog *log, const ScCommRun *run)
{
  Forced force = { o->row, o->protocol };
  if (run->library == SC_TEXTBOOK)
    return force;
  if (force.row == NULL && log->algo != NULL)
    force.row = find_row (log->algo);
  if (force.protocol == SC_N_PROTOS && log->proto != NULL)
    (void) sc_protocol_find (log->proto, &force.protocol);
  return force;
}

/* A library told to use what cannot be uses something else: first another algorithm, then another protocol as well. */
static gboolean
run_measured (const CommOptions *o, ScCommRun *run, Forced force, const ScNcclRow *measured, GError **error)
{
  const Forced tries[] = { force, { o->row, force.protocol }, { o->row, o->protocol } };
  for (guint i = 0; i < G_N_ELEMENTS (tries); i++)
    {
      g_autoptr (GError) why = NULL;
      if (run_size (run, tries[i], measured->bytes, measured->time_s, &why))
        return TRUE;
      if (i + 1 < G_N_ELEMENTS (tries) && g_error_matches (why, SC_COMM_ERROR, SC_COMM_ERROR_IMPOSSIBLE))
        continue;
      g_propagate_error (error, g_steal_pointer (&why));
      return FALSE;
    }
  return FALSE;
}

static gboolean
run_log (const CommOptions *o, const ScNcclLog *log, GPtrArray *runs, GError **error)
{
  ScCollKind kind;
  if (!kind_of_log (o, log, &kind, error))
    return FALSE;
  ScCommPlaces *const places = places_of_log (o, log, error);
  if (places == NULL)
    return FALSE;
  const ScNcclVersion *const version = sc_nccl_version_of (log->nccl_version);
  if (!o->has_library && version != NULL)
    o->inputs.topology->collectives = sc_nccl_version_number (version);
  ScCommRun *const run = run_new (o->inputs.topology, kind, places);
  g_ptr_array_add (runs, run);
  run->line = log->line;
  run->measured_with = g_strdup (log->nccl_version);
  if (!prepare (o, run, error))
    return FALSE;
  const Forced force = forced_by_log (o, log, run);
  const GArray *const rows = log->rows->len > 0 ? log->rows : log->in_place;
  for (guint i = 0; i < rows->len; i++)
    {
      const ScNcclRow *const measured = &g_array_index (rows, ScNcclRow, i);
      if (measured->bytes >= MAX (o->min_bytes, 1) && measured->bytes <= o->max_bytes
          && !run_measured (o, run, force, measured, error))
        {
          g_prefix_error (error, "%s:%u: ", o->measured, log->line);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
run_logs (CommOptions *o, GPtrArray *runs, GError **error)
{
  g_autoptr (GPtrArray) logs = sc_nccl_log_read (o->measured, error);
  if (logs == NULL)
    return FALSE;
  const guint textbook = o->inputs.topology->collectives;
  if (o->min == NULL)
    o->min_bytes = 1;
  if (o->max == NULL)
    o->max_bytes = SC_COMM_MAX_BYTES;
  guint n_rows = 0;
  for (guint i = 0; i < logs->len; i++)
    {
      o->inputs.topology->collectives = textbook; /* until the log names a library */
      if (!run_log (o, g_ptr_array_index (logs, i), runs, error))
        return FALSE;
      n_rows += ((const ScCommRun *) g_ptr_array_index (runs, i))->rows->len;
    }
  if (n_rows == 0)
    return sc_cmd_fail_usage ("comm", error, "%s: found no size from %.0f to %.0f bytes", o->measured, o->min_bytes, o->max_bytes);
  return TRUE;
}

/* ---- The command ---- */

/* As other commands' usage errors begin. */
static void
name_command (GError **error)
{
  if (error != NULL && g_error_matches (*error, SC_COMM_SPEC_ERROR, SC_COMM_SPEC_ERROR_SYNTAX))
    g_prefix_error (error, "comm: ");
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (CommOptions) o = { .ranks = NULL };
  const GOptionEntry entries[] = {
    { "ranks", 'n', 0, G_OPTION_ARG_FILENAME, &o.ranks, "Take this many GPUs, in order; default: all of the topology", "N" },
    { "per-node", 0, 0, G_OPTION_ARG_FILENAME, &o.per_node, "Take the first G GPUs of each node; default: all", "G" },
    { "minbytes", 'b', 0, G_OPTION_ARG_FILENAME, &o.min, "Smallest size: 8, 4K, 128M, 8G (powers of 1024); default: " DEFAULT_MIN, "SIZE" },
    { "maxbytes", 'e', 0, G_OPTION_ARG_FILENAME, &o.max, "Largest size; default: " DEFAULT_MAX, "SIZE" },
    { "stepfactor", 'f', 0, G_OPTION_ARG_FILENAME, &o.factor, "From one size to the next, times this; default: 2", "FACTOR" },
    { "stepbytes", 'i', 0, G_OPTION_ARG_FILENAME, &o.step, "From one size to the next, this much more", "SIZE" },
    { "algo", 0, 0, G_OPTION_ARG_FILENAME, &o.algo, "Force this algorithm (stepcast list collectives, or NCCL's name)", "NAME" },
    { "proto", 0, 0, G_OPTION_ARG_FILENAME, &o.proto, "Force this protocol: LL, LL128 or Simple", "NAME" },
    { "nccl", 0, 0, G_OPTION_ARG_FILENAME, &o.nccl, "Library that runs them: a release such as 2.26.2, or textbook; default: the topology's", "RELEASE" },
    { "group", 'g', 0, G_OPTION_ARG_FILENAME_ARRAY, &o.groups, "Run this group of ranks beside the others (repeatable), see below", "SPEC" },
    { "measured", 0, 0, G_OPTION_ARG_FILENAME, &o.measured, "Run what this output of nccl-tests has, and compare", "LOG" },
    { "format", 0, 0, G_OPTION_ARG_FILENAME, &o.format, "text, csv or json", "NAME" },
    { "unfolded", 0, 0, G_OPTION_ARG_NONE, &o.unfolded, "Simulate every rank and link on its own: slow, the same times", NULL },
    SC_INPUT_OPTIONS (&o.inputs),
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  const ScCommFormat *const format = find_format (o.format, error);
  if (format == NULL || !parse_options (&o, error) || !read_arguments (&o, argc, argv, error))
    {
      name_command (error);
      return SC_STATUS_USAGE;
    }
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_comm_run_free);
  if (!(o.measured != NULL ? run_logs (&o, runs, error) : run_sweep (&o, runs, error)))
    {
      name_command (error);
      return SC_STATUS_DATA;
    }
  const ScCommReport report = { .topology = o.inputs.topology, .log = o.measured, .runs = runs };
  return sc_comm_report_write (&report, format, out, error) ? SC_STATUS_OK : SC_STATUS_INTERNAL;
}

const ScCommand sc_cmd_comm = {
  .name = "comm",
  .summary = "Time collectives on their own, as nccl-tests does, alone or several groups at once",
  .usage = "COLLECTIVE TOPOLOGY",
  .help = "COLLECTIVE is all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-receive (or\n"
          "nccl-tests' name of it, all_reduce_perf, sendrecv, ...), or send from one GPU to another.  TOPOLOGY is a\n"
          "JSON file, the name of a shipped one, or - for standard input.\n"
          "\n"
          "Sizes are whole buffers, as nccl-tests counts them; those of all-gather, reduce-scatter and all-to-all\n"
          "are cut to whole multiples of 16 bytes for every rank, and left out where nothing remains.\n"
          "\"bound\" is the share of the time that the narrowest link alone needs, \"by\" is that link.\n"
          "\n"
          "SPEC is [COLLECTIVE:]RANKS[:SIZE].  RANKS is rails (a group for GPU i of every node), nodes (a group per\n"
          "node), halves, all, or a list of GPUs and nodes: 7, 0-63, 0-511/8 (every 8th), node2, node0-3.  A group\n"
          "with a SIZE runs that size beside every size of the others.  \"slower\" is a group's time over what it\n"
          "takes alone.  --ranks and --per-node say which GPUs rails, nodes, halves, all and nodeN have;\n"
          "--algo and --proto are for the groups that run COLLECTIVE.\n"
          "\n"
          "--measured takes ranks, nodes, sizes, version and forced algorithms from the log where the command line\n"
          "does not say them; COLLECTIVE may be left out where the log names it.",
  .run = run,
};
