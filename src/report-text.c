/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-text.c - a summary for people: the answer first, then where it comes from; at most 100 columns. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "describe.h"
#include "models/packing.h"
#include "models/precision.h"
#include "report.h"
#include "units.h"

#define WIDTH    100
#define MAX_ROWS 16
#define MAX_LINKS 10
#define GIB      (1024.0 * 1024 * 1024)

static double
percent (double part, double whole)
{
  return whole > 0 ? 100 * part / whole : 0;
}

/* ---- The answer ---- */

/* Appends "72.1 % forward and backward, 12.4 % bubble, ...": mean over stages, largest first, down to @least percent.
 * Blanks inside of an entry are tabs, so that lines break between entries. */
static void
append_shares (const ScSummary *s, double least, GString *out)
{
  double share[SC_N_TIMES] = { 0 };
  for (guint i = 0; i < s->n_stages; i++)
    for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
      share[k] += percent ((double) s->stages[i].time[k], (double) s->step) / s->n_stages;
  share[SC_TIME_FORWARD] += share[SC_TIME_BACKWARD] + share[SC_TIME_WEIGHT];
  share[SC_TIME_BACKWARD] = share[SC_TIME_WEIGHT] = 0;
  for (gboolean first = TRUE;; first = FALSE)
    {
      ScTimeKind best = 0;
      for (ScTimeKind k = 1; k < SC_N_TIMES; k++)
        if (share[k] > share[best])
          best = k;
      if (share[best] < least)
        break;
      g_autofree char *name = g_strdup (best == SC_TIME_FORWARD ? "forward and backward" : sc_time_kind_label (best));
      g_string_append_printf (out, "%s%.1f\t%%\t%s", first ? "" : ", ", share[best], g_strdelimit (name, " ", '\t'));
      share[best] = 0;
    }
  double rest = 0;
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    rest += share[k];
  if (rest >= 0.05)
    g_string_append_printf (out, ", %.1f\t%%\tother", rest);
}

static void
append_verdict (const ScSummary *s, GString *out)
{
  const ScClassSummary *c = &s->classes[s->memory_class];
  const double device = (double) c->peak_device_bytes, capacity = (double) c->capacity_bytes;
  g_autofree char *need = sc_format_bytes (device), *have = sc_format_bytes (capacity);
  g_string_append_printf (out, "%s: %s of %s", sc_verdict_name (s->verdict), need, have);
  if (device <= capacity)
    g_string_append_printf (out, ", %.1f %% free", percent (capacity - device, capacity));
  else
    {
      g_autofree char *missing = sc_format_bytes (device - capacity);
      g_string_append_printf (out, ", %s too much", missing);
    }
}

static void
write_answer (const ScSummary *s, GString *out)
{
  sc_describe_job (s, WIDTH, out);
  g_autofree char *step = sc_format_seconds (sc_time_to_s (s->step));
  g_autofree char *tokens = sc_format_count (s->tokens_per_s), *each = sc_format_count (s->tokens_per_s_per_gpu);
  g_string_append_printf (out, "\n\n  Step    %-12s%s tokens/s, %s tokens/s per GPU\n", step, tokens, each);
  g_autofree char *rate = g_strdup_printf ("%.1f %%", 100 * s->mfu_half_causal);
  g_string_append_printf (out, "  MFU     %-12s%.1f TFLOP/s per GPU, causal attention counted half; HFU %.1f %%\n", rate,
                          s->model_tflops_per_gpu, 100 * s->hfu);
  g_string_append (out, "  Memory  ");
  append_verdict (s, out);
  g_string_append (out, "\n  Time    ");
  g_autoptr (GString) shares = g_string_new (NULL);
  append_shares (s, 0.5, shares);
  const gsize start = out->len;
  sc_append_wrapped (out, shares->str, 10, 10, WIDTH);
  g_strdelimit (out->str + start, "\t", ' ');
  g_string_append_c (out, '\n');
}

/* ---- Rows: all stages, or the first, the last and ranges between them ---- */

typedef struct
{
  guint first, last;
} Range;

static guint
stage_ranges (guint n_stages, Range ranges[MAX_ROWS])
{
  if (n_stages <= MAX_ROWS)
    {
      for (guint i = 0; i < n_stages; i++)
        ranges[i] = (Range) { i, i };
      return n_stages;
    }
  const guint inner = n_stages - 2, n = MAX_ROWS - 2;
  ranges[0] = (Range) { 0, 0 };
  for (guint i = 0; i < n; i++)
    ranges[1 + i] = (Range) { 1 + inner * i / n, inner * (i + 1) / n };
  ranges[MAX_ROWS - 1] = (Range) { n_stages - 1, n_stages - 1 };
  return MAX_ROWS;
}

static void
append_range (const Range *range, GString *out)
{
  g_autofree char *text = range->first == range->last ? g_strdup_printf ("%u", range->first)
                                                      : g_strdup_printf ("%u-%u", range->first, range->last);
  g_string_append_printf (out, "  %-6s", text);
}

/* ---- Where the time goes ---- */

static const struct
{
  const char *wide, *narrow;
} time_headings[SC_N_TIMES] = {
  [SC_TIME_FORWARD] = { "forward", "fwd" },
  [SC_TIME_BACKWARD] = { "backward", "bwd" },
  [SC_TIME_WEIGHT] = { "weights", "wgrad" },
  [SC_TIME_RECOMPUTE] = { "recompute", "recomp" },
  [SC_TIME_OPTIMIZER] = { "optimizer", "optim" },
  [SC_TIME_COMM_TP] = { "TP comm", "TP" },
  [SC_TIME_COMM_CP] = { "CP comm", "CP" },
  [SC_TIME_COMM_EP] = { "EP comm", "EP" },
  [SC_TIME_COMM_PP] = { "PP comm", "PP" },
  [SC_TIME_COMM_DP] = { "DP comm", "DP" },
  [SC_TIME_BUBBLE] = { "bubble", "bubble" },
  [SC_TIME_LATE_PEER] = { "late peer", "late" },
  [SC_TIME_HOST] = { "host", "host" },
};

typedef struct
{
  double      ps;   /* picoseconds of one unit */
  const char *name;
  int         decimals;
} TimeUnit;

/* So that no number of a step needs more than six characters. */
static TimeUnit
time_unit (ScTime step)
{
  const double s = sc_time_to_s (step);
  if (s < 10e-3)
    return (TimeUnit) { 1e6, "us", 1 };
  if (s < 10)
    return (TimeUnit) { 1e9, "ms", 1 };
  return (TimeUnit) { 1e12, "s", s < 100 ? 3 : s < 1000 ? 2 : 1 };
}

static void
write_time (const ScSummary *s, GString *out)
{
  gboolean shown[SC_N_TIMES] = { FALSE };
  guint columns = 1;
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    {
      for (guint i = 0; i < s->n_stages; i++)
        shown[k] |= s->stages[i].time[k] != 0;
      columns += shown[k];
    }
  const gboolean wide = 14 + 10 * columns <= WIDTH;
  const int width = wide ? 10 : 14 + 8 * columns <= WIDTH ? 8 : 7;
  const TimeUnit unit = time_unit (s->step);

  g_string_append_printf (out, "\nWhere the time goes, in %s (communication: what is not hidden", unit.name);
  if (s->n_stages > MAX_ROWS)
    g_string_append (out, "; ranges of stages: their mean");
  g_string_append (out, ")\n  stage layers");
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    if (shown[k])
      g_string_append_printf (out, "%*s", width, wide ? time_headings[k].wide : time_headings[k].narrow);
  g_string_append_printf (out, "%*s\n", width, "step");

  Range ranges[MAX_ROWS];
  const guint n = stage_ranges (s->n_stages, ranges);
  double sum[SC_N_TIMES] = { 0 };
  for (guint r = 0; r < n; r++)
    {
      double time[SC_N_TIMES] = { 0 };
      guint layers = 0;
      for (guint i = ranges[r].first; i <= ranges[r].last; i++)
        {
          layers += s->stages[i].layers;
          for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
            {
              time[k] += (double) s->stages[i].time[k];
              sum[k] += (double) s->stages[i].time[k];
            }
        }
      const guint stages = ranges[r].last - ranges[r].first + 1;
      append_range (&ranges[r], out);
      g_string_append_printf (out, "%6u", layers);
      for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
        if (shown[k])
          g_string_append_printf (out, "%*.*f", width, unit.decimals, time[k] / stages / unit.ps);
      g_string_append_printf (out, "%*.*f\n", width, unit.decimals, (double) s->step / unit.ps);
    }
  if (n > 1)
    {
      g_string_append (out, "  mean        ");
      for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
        if (shown[k])
          g_string_append_printf (out, "%*.*f", width, unit.decimals, sum[k] / s->n_stages / unit.ps);
      g_string_append_printf (out, "%*.*f\n", width, unit.decimals, (double) s->step / unit.ps);
    }
  g_string_append (out, "  % of step   ");
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    if (shown[k])
      g_string_append_printf (out, "%*.1f", width, percent (sum[k] / s->n_stages, (double) s->step));
  g_string_append_printf (out, "%*.1f\n", width, 100.0);
}

static void
write_rates (const ScSummary *s, GString *out)
{
  if (s->n_stages > 1)
    {
      const gboolean closed = sc_schedule_find (s->workload->plan.schedule)->exchanges && !s->workload->plan.post_validation; /* for any costs */
      g_string_append_printf (out, "  bubble / step            %5.1f %%   ideal %s %5.1f %%\n", 100 * s->bubble_fraction,
                              closed ? "(p-1)/(v m + p-1):" : "where F = I = W:", 100 * s->bubble_fraction_ideal);
      g_string_append_printf (out, "  bubble / (step - bubble) %5.1f %%   ideal %s %5.1f %%\n", 100 * s->bubble_over_ideal,
                              closed ? "(p-1)/(v m):      " : "where F = I = W:", 100 * s->bubble_over_ideal_ideal);
    }
  g_autofree char *peak = sc_format_flops (s->peak_flops_per_gpu);
  g_string_append_printf (out, "\nUtilisation, of %s dense %s per GPU\n", peak, sc_dtype_name (sc_plan_gemm_dtype (&s->workload->plan)));
  const struct
  {
    const char *name;
    double      share, flops;
    const char *convention;
  } rows[] = {
    { "MFU", s->mfu_half_causal, s->model_flops_half, "forward and backward, causal attention counted half" },
    { "MFU", s->mfu_full, s->model_flops_full, "the same, attention counted in full" },
    { "MFU", s->mfu_6n, s->model_flops_6n, "6 FLOPs per parameter and token" },
    { "HFU", s->hfu, s->hardware_flops,
      s->workload->plan.attention == SC_ATTENTION_FLASH ? "what is executed, recompute included, attention counted half"
                                                        : "what is executed, recompute included, attention in full" },
  };
  const gboolean exa = s->model_flops_half >= 1e18;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_string_append_printf (out, "  %s %5.1f %%   %9.4g %s a step: %s\n", rows[i].name, 100 * rows[i].share,
                            rows[i].flops / (exa ? 1e18 : 1e15), exa ? "EFLOP" : "PFLOP", rows[i].convention);
}

/* ---- Memory ---- */

/* The class of stage @stage that fills its GPU most; NULL: no class has that stage. */
static const ScClassSummary *
fullest_class (const ScSummary *s, const Range *range)
{
  const ScClassSummary *best = NULL;
  double most = -1;
  for (guint i = 0; i < s->n_classes; i++)
    {
      const ScClassSummary *c = &s->classes[i];
      if (c->stage < range->first || c->stage > range->last)
        continue;
      const double share = c->capacity_bytes > 0 ? (double) c->peak_device_bytes / (double) c->capacity_bytes : 0;
      if (share > most)
        {
          most = share;
          best = c;
        }
    }
  return best;
}

static const char *const mem_headings[SC_N_MEMS] = {
  [SC_MEM_WEIGHTS] = "weight", [SC_MEM_GRADS] = "grads", [SC_MEM_OPTIMIZER] = "optim", [SC_MEM_ACTIVATIONS] = "activ",
  [SC_MEM_LOGITS] = "logits",  [SC_MEM_TRANSIENT] = "temp", [SC_MEM_COMM] = "comm",
};

/* What ran at the peaks of the rows: the first, the last and the one that decides; rows that say the same are one. */
static void
write_peaks (const ScSummary *s, const Range *ranges, guint n, GString *out)
{
  const ScClassSummary *deciding = &s->classes[s->memory_class], *before = NULL;
  for (guint r = 0; r < n; r++)
    {
      const ScClassSummary *c = fullest_class (s, &ranges[r]);
      if (c == NULL || (n > 4 && r > 0 && r + 1 < n && c != deciding)
          || (before != NULL && g_strcmp0 (before->peak_op, c->peak_op) == 0 && c != deciding))
        continue;
      g_string_append_printf (out, "  The peak of stage %u%s is in %s.\n", c->stage, c == deciding ? ", the fullest," : "",
                              c->peak_op != NULL ? c->peak_op : "no micro-batch");
      before = c;
    }
}

static void
write_memory (const ScSummary *s, GString *out)
{
  gboolean shown[SC_N_MEMS] = { FALSE };
  for (ScMemKind k = 0; k < SC_N_MEMS; k++)
    for (guint i = 0; i < s->n_classes; i++)
      shown[k] |= s->classes[i].at_peak[k] != 0;
  const TimeUnit unit = time_unit (s->step);
  g_autofree char *at = g_strdup_printf ("at, %s", unit.name);
  g_string_append_printf (out, "\nMemory at the peak of the fullest GPU of each stage%s, in GiB\n  stage ",
                          s->n_stages > MAX_ROWS ? " or range" : "");
  for (ScMemKind k = 0; k < SC_N_MEMS; k++)
    if (shown[k])
      g_string_append_printf (out, "%7s", mem_headings[k]);
  g_string_append_printf (out, "   alloc reserved device    free%9s\n", at);
  Range ranges[MAX_ROWS];
  const guint n = stage_ranges (s->n_stages, ranges);
  for (guint r = 0; r < n; r++)
    {
      const ScClassSummary *c = fullest_class (s, &ranges[r]);
      if (c == NULL)
        continue;
      append_range (&ranges[r], out);
      for (ScMemKind k = 0; k < SC_N_MEMS; k++)
        if (shown[k])
          g_string_append_printf (out, "%7.2f", (double) c->at_peak[k] / GIB);
      g_string_append_printf (out, "%8.2f%9.2f%7.2f%8.2f%9.*f\n", (double) c->peak_allocated_bytes / GIB,
                              (double) c->peak_reserved_bytes / GIB, (double) c->peak_device_bytes / GIB,
                              ((double) c->capacity_bytes - (double) c->peak_device_bytes) / GIB, unit.decimals,
                              (double) c->peak_time / unit.ps);
    }
  write_peaks (s, ranges, n, out);
  const ScClassSummary *c = &s->classes[s->memory_class];
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (text,
                          "On rank %u (stage %u, node %u, GPU %u) device is reserved + CUDA context %.2f + NCCL %.2f"
                          " + workspace %.2f. Verdict ",
                          c->representative, c->stage, c->node, c->gpu, (double) c->context_bytes / GIB,
                          (double) c->nccl_bytes / GIB, (double) c->workspace_bytes / GIB);
  append_verdict (s, text);
  g_string_append_printf (text, "; below %.1f %% free would be at risk.", 100 * s->memory_margin);
  g_string_append (out, "  ");
  sc_append_wrapped (out, text->str, 2, 2, WIDTH);
  g_string_append_c (out, '\n');
}

/* ---- Links ---- */

/* "TP 71, DP 29": the kinds of communication that carry most of a link's bytes, in percent. */
static void
append_users (const ScLinkSummary *row, GString *out)
{
  double share[SC_N_TIMES], all = 0;
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    all += row->bytes[k];
  for (ScTimeKind k = 0; k < SC_N_TIMES; k++)
    share[k] = percent (row->bytes[k], all);
  for (guint n = 0; n < 3; n++)
    {
      ScTimeKind best = 0;
      for (ScTimeKind k = 1; k < SC_N_TIMES; k++)
        if (share[k] > share[best])
          best = k;
      if (share[best] < 0.5)
        return;
      g_autofree char *name = g_ascii_strup (sc_time_kind_group (best), -1);
      g_string_append_printf (out, "%s%s %.0f", n == 0 ? "" : ", ", name, share[best]);
      share[best] = 0;
    }
}

/* Rows of links that read the same. */
typedef struct
{
  const ScLinkSummary *first;
  guint64 n_links;
  char   *cells; /* behind the number of links */
} LinkLine;

static void
link_line_clear (gpointer data)
{
  g_free (((LinkLine *) data)->cells);
}

static gboolean
are_alike (const ScLinkSummary *a, const ScLinkSummary *b)
{
  for (guint k = 0; k < SC_N_LINK_KINDS; k++)
    if ((a->of_kind[k] > 0) != (b->of_kind[k] > 0))
      return FALSE;
  return TRUE;
}

static char *
link_cells (const ScLinkSummary *row, TimeUnit unit)
{
  g_autofree char *capacity = sc_format_rate (row->capacity_bytes_per_s);
  g_autoptr (GString) cells = g_string_new (NULL);
  g_string_append_printf (cells, "%11s%8.1f%8.1f%10.*f  ", capacity, 100 * row->mean, 100 * row->peak, unit.decimals,
                          (double) row->full / unit.ps);
  append_users (row, cells);
  return g_string_free (g_steal_pointer (&cells), FALSE);
}

/* At most MAX_LINKS lines, the hottest first; *ret_n_more links have none. */
static GArray *
link_lines (const ScLinksSummary *links, TimeUnit unit, guint64 *ret_n_more)
{
  GArray *lines = g_array_new (FALSE, FALSE, sizeof (LinkLine));
  g_array_set_clear_func (lines, link_line_clear);
  *ret_n_more = 0;
  for (guint i = 0; i < links->n_rows; i++)
    {
      const ScLinkSummary *row = &links->rows[i];
      LinkLine line = { row, row->n_links, link_cells (row, unit) };
      LinkLine *same = NULL;
      for (guint k = 0; k < lines->len && same == NULL; k++)
        {
          LinkLine *other = &g_array_index (lines, LinkLine, k);
          if (strcmp (other->cells, line.cells) == 0 && are_alike (other->first, row))
            same = other;
        }
      if (same == NULL && lines->len < MAX_LINKS && row->mean > 0)
        {
          g_array_append_val (lines, line);
          continue;
        }
      *(same != NULL ? &same->n_links : ret_n_more) += row->n_links;
      g_free (line.cells);
    }
  return lines;
}

static void
append_links (guint64 n, const char *what, GString *out)
{
  g_string_append_printf (out, "  %" G_GUINT64_FORMAT " more %s%s.", n, n == 1 ? "link " : "links ", what);
}

static void
write_links (const ScSummary *s, GString *out)
{
  const TimeUnit unit = time_unit (s->step);
  const char *first = "the first of";
  guint64 n_more;
  g_autoptr (GArray) lines = link_lines (s->links, unit, &n_more);
  g_string_append (out, "\nHottest links, by mean utilisation over the step");
  if (lines->len == 0)
    {
      g_string_append (out, ": none carries anything\n");
      return;
    }
  int name_width = (int) strlen (first);
  for (guint i = 0; i < lines->len; i++)
    name_width = MAX (name_width, (int) strlen (g_array_index (lines, LinkLine, i).first->name));
  g_autofree char *full = g_strdup_printf ("full, %s", unit.name);
  g_string_append_printf (out, "\n  %-*s  links   capacity mean, %% peak, %%%10s  used by, %%\n", name_width, first, full);
  for (guint i = 0; i < lines->len; i++)
    {
      const LinkLine *line = &g_array_index (lines, LinkLine, i);
      g_string_append_printf (out, "  %-*s%7" G_GUINT64_FORMAT "%s\n", name_width, line->first->name, line->n_links, line->cells);
    }
  g_autoptr (GString) text = g_string_new ("Full: at 99.9 % of the capacity or more.");
  if (n_more > 0)
    append_links (n_more, "carried less", text);
  if (s->links->n_left_out > 0)
    append_links (s->links->n_left_out, "can never be fuller than the fullest of these", text);
  g_string_append (out, "  ");
  sc_append_wrapped (out, text->str, 2, 2, WIDTH);
  g_string_append_c (out, '\n');
}

/* ---- What it rests on ---- */

static void
write_evidence (const ScSummary *s, GString *out)
{
  g_autoptr (GString) line = g_string_new (NULL);
  g_string_append_printf (line, "%u ranks in %u class%s, %u groups in %u famil%s, %u links in %u class%s: ", s->gpus,
                          s->n_rank_classes, s->n_rank_classes == 1 ? "" : "es", s->n_groups, s->n_families,
                          s->n_families == 1 ? "y" : "ies", s->n_links, s->n_link_classes,
                          s->n_link_classes == 1 ? "" : "es");
  if (s->fold_approximate)
    g_string_append_printf (line, "approximate, %s.", s->fold_note != NULL ? s->fold_note : "the class budget was reached");
  else
    g_string_append (line, "exact.");
  g_string_append (out, "\nFolding     ");
  sc_append_wrapped (out, line->str, 12, 12, WIDTH);

  g_string_truncate (line, 0);
  for (ScGrade g = 0; g < SC_N_GRADES; g++)
    if (s->grade_share[g] > 0)
      g_string_append_printf (line, "%s%.1f %% %s", line->len > 0 ? ", " : "", 100 * s->grade_share[g], sc_grade_name (g));
  g_string_append (line, " (of the slowest stage's compute time, by its weakest number).");
  g_string_append (out, "\nEvidence    ");
  sc_append_wrapped (out, line->str, 12, 12, WIDTH);
  g_string_append_c (out, '\n');

  if (s->assumptions == NULL || s->assumptions->len == 0)
    return;
  g_string_append (out, "Assumed     ");
  for (guint i = 0; i < s->assumptions->len; i++)
    {
      if (i > 0)
        g_string_append (out, "            ");
      g_string_append (out, "- ");
      sc_append_wrapped (out, g_ptr_array_index (s->assumptions, i), 14, 14, WIDTH);
      g_string_append_c (out, '\n');
    }
}

static void
write_documents (const ScWorkload *w, GString *out)
{
  const ScPacking *const p = w->packing;
  if (p == NULL)
    return;
  g_autofree char *n = sc_format_count ((double) p->documents), *mean = sc_format_count (p->mean_length);
  const guint sequences = p->microbatches * w->plan.micro_batch * p->ranks;
  g_autoptr (GString) line = g_string_new (NULL);
  g_string_append_printf (line, "%s of %s tokens in the mean, packed into %u sequences, %.1f %% full; %.3g %% of the attention of whole sequences", n, mean,
                          sequences, 100 * p->fill, 100 * p->share[0]);
  g_string_append_printf (line, "; micro-batches from %.2f to %.2f of the mean, in %u kind%s", p->least, p->most, p->n_kinds, p->n_kinds == 1 ? "" : "s");
  if (p->ranks > 1)
    g_string_append_printf (line, "; every data-parallel rank as the busiest, %.1f %% above the mean", 100 * (p->rank - 1));
  g_string_append (out, "\nDocuments   ");
  sc_append_wrapped (out, line->str, 12, 12, WIDTH);
}

static void
write_model (const ScSummary *s, GString *out)
{
  g_autofree char *params = sc_format_count ((double) s->params);
  g_autoptr (GString) line = g_string_new (NULL);
  g_string_append_printf (line, "%s parameters: ", params);
  sc_describe_model (s->workload, line);
  g_string_append (out, "\nModel       ");
  sc_append_wrapped (out, line->str, 12, 12, WIDTH);
  write_documents (s->workload, out);
  if (s->workload->framework != NULL)
    g_string_append_printf (out, "\nFramework   %s %s, %s attention", s->workload->framework->name,
                            s->workload->framework->version, sc_attention_word (s->workload->plan.attention));
}

static gboolean
text_write (const ScSummary *summary, GString *out, GError **error)
{
  (void) error;
  write_answer (summary, out);
  write_time (summary, out);
  write_rates (summary, out);
  write_memory (summary, out);
  if (summary->links != NULL)
    write_links (summary, out);
  write_model (summary, out);
  write_evidence (summary, out);
  return TRUE;
}

const ScReport sc_report_text = { .name = "text", .summary = "for people", .write = text_write };
