/* SPDX-License-Identifier: GPL-3.0-or-later */
/* train-log.c - lines of Megatron and torchtitan, by regular expressions. */
#include "train-log.h"
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "json-in.h"
#include "library.h"

#define MIB (1024.0 * 1024)
#define LONGEST 65536 /* bytes of a line; longer ones are none of these */
#define MOST 1e15 /* no run prints larger numbers */
#define NUMBER "([0-9][0-9,]*\\.?[0-9]*(?:[eE][-+]?[0-9]+)?)"

/* What is read of a line, in the order of the matches. */
typedef enum { VALUE_STEP_MS, VALUE_BATCH, VALUE_TFLOPS, VALUE_TPS, VALUE_ALLOCATED_MB, VALUE_RESERVED_MB, VALUE_RESERVED_GIB, N_VALUES } Value;

static const struct
{
  Value value;
  const char *framework;
  const char *pattern; /* one group: the number */
  gboolean by_rank;    /* each rank may print it */
} rows[] = {
  { VALUE_STEP_MS, "Megatron", "elapsed time per iteration \\(ms\\): *" NUMBER, FALSE },
  { VALUE_BATCH, "Megatron", "global batch size: *" NUMBER, FALSE },
  { VALUE_TFLOPS, "Megatron", "(?:TFLOPs:|throughput per GPU \\(TFLOP/s/GPU\\):) *" NUMBER, FALSE },
  { VALUE_ALLOCATED_MB, "Megatron", "memory \\(MB\\).*max allocated: *" NUMBER, TRUE },
  { VALUE_RESERVED_MB, "Megatron", "memory \\(MB\\).*max reserved: *" NUMBER, TRUE },
  { VALUE_TPS, "torchtitan", "step: *[0-9]+ .*tps: *" NUMBER, TRUE },
  { VALUE_TFLOPS, "torchtitan", "step: *[0-9]+ .*tflops: *" NUMBER, TRUE },
  { VALUE_RESERVED_GIB, "torchtitan", "step: *[0-9]+ .*memory: *" NUMBER " *GiB", TRUE },
};

typedef struct
{
  GRegex *regex[G_N_ELEMENTS (rows)];
  GRegex *rank, *colour;
  GArray *found[N_VALUES]; /* double */
  guint   least_rank;      /* of lines of memory; G_MAXUINT: none yet */
} Reader;

static void
reader_init (Reader *r)
{
  *r = (Reader) { .least_rank = G_MAXUINT };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    r->regex[i] = g_regex_new (rows[i].pattern, G_REGEX_RAW, 0, NULL);
  r->rank = g_regex_new ("\\[[Rr]ank *([0-9]{1,18})\\]", G_REGEX_RAW, 0, NULL);
  r->colour = g_regex_new ("\x1b\\[[0-9;]*m", G_REGEX_RAW, 0, NULL);
  for (guint i = 0; i < N_VALUES; i++)
    r->found[i] = g_array_new (FALSE, FALSE, sizeof (double));
}

static void
reader_clear (Reader *r)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_regex_unref (r->regex[i]);
  g_regex_unref (r->rank);
  g_regex_unref (r->colour);
  for (guint i = 0; i < N_VALUES; i++)
    g_array_unref (r->found[i]);
}

/* Group 1 as a number without commas; FALSE: no match, or none that is above 0. */
static gboolean
match (const GRegex *regex, const char *line, double *ret)
{
  g_autoptr (GMatchInfo) info = NULL;
  if (!g_regex_match (regex, line, 0, &info))
    return FALSE;
  g_autofree char *text = g_match_info_fetch (info, 1);
  char *to = text;
  for (const char *from = text; *from != '\0'; from++)
    if (*from != ',')
      *to++ = *from;
  *to = '\0';
  *ret = g_ascii_strtod (text, NULL);
  return *ret > 0 && *ret <= MOST;
}

/* Memory, and torchtitan's steps, are those of the lowest rank that prints any. */
static gboolean
is_other_rank (Reader *r, const char *line)
{
  double rank;
  g_autoptr (GMatchInfo) info = NULL;
  if (!g_regex_match (r->rank, line, 0, &info))
    return FALSE;
  g_autofree char *text = g_match_info_fetch (info, 1);
  rank = CLAMP (g_ascii_strtod (text, NULL), 0, G_MAXUINT - 1);
  if ((guint) rank < r->least_rank)
    {
      r->least_rank = (guint) rank;
      g_array_set_size (r->found[VALUE_ALLOCATED_MB], 0);
      g_array_set_size (r->found[VALUE_RESERVED_MB], 0);
      g_array_set_size (r->found[VALUE_RESERVED_GIB], 0);
      g_array_set_size (r->found[VALUE_TPS], 0);
    }
  return (guint) rank > r->least_rank;
}

static void
read_line (Reader *r, const char *coloured)
{
  g_autofree char *line = g_regex_replace_literal (r->colour, coloured, -1, 0, "", 0, NULL);
  if (line == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      double value;
      if (!match (r->regex[i], line, &value))
        continue;
      if (rows[i].by_rank && is_other_rank (r, line))
        continue;
      g_array_append_val (r->found[rows[i].value], value);
    }
}

static double
largest (const GArray *values)
{
  double most = NAN;
  for (guint i = 0; i < values->len; i++)
    most = fmax (most, g_array_index (values, double, i));
  return most;
}

/* Of those from @first on; they are put in order. */
static double
median (GArray *values, guint first)
{
  if (values->len <= first)
    return NAN;
  return gsl_stats_median (&g_array_index (values, double, first), 1, values->len - first);
}

gboolean
sc_train_log_parse (const char *file, const char *text, ScTrainLog *ret, GError **error)
{
  Reader r;
  reader_init (&r);
  for (const char *line = text; *line != '\0';)
    {
      const gsize length = strcspn (line, "\n");
      g_autofree char *one = length <= LONGEST ? g_strndup (line, length) : NULL;
      if (one != NULL && (strstr (one, "iteration") != NULL || strstr (one, "step:") != NULL || strstr (one, "memory") != NULL))
        read_line (&r, one);
      line += length + (line[length] != '\0');
    }
  const gboolean titan = r.found[VALUE_STEP_MS]->len == 0;
  GArray *const steps = r.found[titan ? VALUE_TPS : VALUE_STEP_MS];
  *ret = (ScTrainLog) { .framework = titan ? "torchtitan" : "Megatron", .steps = steps->len, .step_s = NAN, .tokens_per_s_per_gpu = NAN };
  ret->first = steps->len > 1 ? MAX (steps->len / 10, 1) : 0;
  if (titan)
    ret->tokens_per_s_per_gpu = median (steps, ret->first);
  else
    ret->step_s = median (steps, ret->first) / 1e3;
  ret->tflops_per_gpu = median (r.found[VALUE_TFLOPS], MIN (ret->first, r.found[VALUE_TFLOPS]->len));
  const GArray *const batches = r.found[VALUE_BATCH];
  const double batch = batches->len > 0 ? g_array_index (batches, double, batches->len - 1) : 0;
  ret->global_batch = batch <= 1e9 ? (guint) batch : 0;
  ret->rank = r.least_rank == G_MAXUINT ? 0 : r.least_rank;
  ret->max_allocated_bytes = largest (r.found[VALUE_ALLOCATED_MB]) * MIB;
  ret->max_reserved_bytes = titan ? largest (r.found[VALUE_RESERVED_GIB]) * 1024 * MIB : largest (r.found[VALUE_RESERVED_MB]) * MIB;
  const gboolean found = steps->len > 0;
  reader_clear (&r);
  if (!found)
    g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT,
                 "%s: found no step, expected lines of Megatron (\"elapsed time per iteration (ms): ...\") or torchtitan (\"step: ... tps: ...\")", file);
  return found;
}

gboolean
sc_train_log_read (const char *path, ScTrainLog *ret, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "a log", SC_TRAIN_LOG_MAX_BYTES, &length, error);
  return text != NULL && sc_train_log_parse (path, text, ret, error);
}
