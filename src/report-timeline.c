/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-timeline.c - the pipeline of one step as a drawing in ASCII.
 *
 * As in the figures of papers: a row is a stage, a block is what one micro-batch does on it, the block begins with its
 * number, and what fills it says in which direction.  A cell shows what takes most of its time.  Where a micro-batch is
 * narrower than a cell the numbers would be noise: then a cell says only forward, backward or both. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "report-timeline.h"
#include "timeline-blocks.h"

/* What a cell can show. */
typedef enum
{
  INK_FORWARD = SC_BLOCK_FORWARD,
  INK_BACKWARD = SC_BLOCK_BACKWARD,
  INK_WEIGHT = SC_BLOCK_WEIGHT,
  INK_RECOMPUTE,
  INK_OPTIMIZER,
  INK_COMM,
  INK_BUBBLE,
  INK_LATE,
  INK_HOST,
  N_INKS
} Ink;

/* Colours of ECMA-48 terminals: blue, vermilion and green of Okabe and Ito's palette, which colour-blind readers tell apart, as near as 256 colours have them. */
static const struct
{
  char        fill;
  const char *meaning;
  const char *colour;
} inks[N_INKS] = {
  [INK_FORWARD] = { '-', "forward", "97;48;5;25" },
  [INK_BACKWARD] = { '=', "backward", "97;48;5;166" },
  [INK_WEIGHT] = { '%', "weight gradients", "97;48;5;29" },
  [INK_RECOMPUTE] = { '+', "recompute", "30;48;5;216" },
  [INK_OPTIMIZER] = { '#', "optimizer", "97;48;5;240" },
  [INK_COMM] = { '~', "exposed communication", "30;48;5;178" },
  [INK_BUBBLE] = { '.', "bubble", "2" },
  [INK_LATE] = { ':', "late peer", "2" },
  [INK_HOST] = { '_', "host", "2" },
};

#define NO_BLOCK G_MAXUINT

typedef struct
{
  ScTime time[N_INKS];
  guint  block;      /* that takes most of the cell, or NO_BLOCK */
  ScTime block_time; /* its time in the cell, whatever it did */
} Cell;

typedef struct
{
  guint   stage;
  GArray *segments; /* ScSegment, ascending */
  GArray *blocks;   /* ScBlock, ascending */
  Cell   *cells;    /* [n_cells] */
} Row;

static Ink
ink_of (const ScSegment *segment)
{
  switch (segment->kind)
    {
    case SC_TIME_FORWARD: return INK_FORWARD;
    case SC_TIME_BACKWARD: return INK_BACKWARD;
    case SC_TIME_WEIGHT: return INK_WEIGHT;
    case SC_TIME_RECOMPUTE: return INK_RECOMPUTE;
    case SC_TIME_OPTIMIZER: return INK_OPTIMIZER;
    case SC_TIME_COMM_TP:
    case SC_TIME_COMM_CP:
    case SC_TIME_COMM_EP:
    case SC_TIME_COMM_PP:
    case SC_TIME_COMM_DP: return INK_COMM;
    case SC_TIME_BUBBLE: return INK_BUBBLE;
    case SC_TIME_LATE_PEER: return INK_LATE;
    case SC_TIME_HOST: return INK_HOST;
    case SC_N_TIMES:
    default: g_return_val_if_reached (INK_HOST);
    }
}

static ScTime
overlap (ScTime a_from, ScTime a_to, ScTime b_from, ScTime b_to)
{
  return MAX (0, MIN (a_to, b_to) - MAX (a_from, b_from));
}

/* Where cell @i of @n begins; exact, so that cells tile the step. */
static ScTime
cell_edge (ScTime step, guint i, guint n)
{
  return step / n * i + step % n * i / n;
}

static Row
row_new (const ScSummary *summary, const ScSegments *segments, const ScStageSummary *stage)
{
  Row row = { .stage = stage->stage, .segments = sc_segments_of_class (segments, stage->class_id) };
  row.blocks = sc_timeline_blocks (summary, row.segments);
  return row;
}

static void
row_fill_cells (const ScSummary *summary, Row *row, guint n_cells)
{
  const ScTime step = summary->trace->end;
  row->cells = g_new0 (Cell, n_cells);
  guint s = 0, b = 0;
  for (guint i = 0; i < n_cells; i++)
    {
      const ScTime from = cell_edge (step, i, n_cells), to = cell_edge (step, i + 1, n_cells);
      Cell *const cell = &row->cells[i];
      while (s < row->segments->len && g_array_index (row->segments, ScSegment, s).to <= from)
        s++;
      for (guint k = s; k < row->segments->len && g_array_index (row->segments, ScSegment, k).from < to; k++)
        {
          const ScSegment *segment = &g_array_index (row->segments, ScSegment, k);
          cell->time[ink_of (segment)] += overlap (segment->from, segment->to, from, to);
        }
      cell->block = NO_BLOCK;
      while (b < row->blocks->len && g_array_index (row->blocks, ScBlock, b).to <= from)
        b++;
      for (guint k = b; k < row->blocks->len && g_array_index (row->blocks, ScBlock, k).from < to; k++)
        {
          const ScBlock *block = &g_array_index (row->blocks, ScBlock, k);
          const ScTime t = overlap (block->from, block->to, from, to);
          if (t > cell->block_time)
            {
              cell->block_time = t;
              cell->block = k;
            }
        }
    }
}

static void
row_clear (Row *row)
{
  g_array_unref (row->segments);
  g_array_unref (row->blocks);
  g_free (row->cells);
}

/* What takes most of the cell, of @from and later. */
static Ink
cell_ink (const Cell *cell, Ink from)
{
  Ink best = from;
  for (Ink i = from + 1; i < N_INKS; i++)
    if (cell->time[i] > cell->time[best])
      best = i;
  return best;
}

/* Whether the cell is part of its block: nothing but other blocks takes more of it. */
static gboolean
cell_in_block (const Cell *cell)
{
  if (cell->block == NO_BLOCK)
    return FALSE;
  for (Ink i = INK_OPTIMIZER; i < N_INKS; i++)
    if (cell->time[i] > cell->block_time)
      return FALSE;
  return TRUE;
}

/* Time of the cell in which nothing ran. */
static ScTime
cell_idle (const Cell *cell)
{
  return cell->time[INK_BUBBLE] + cell->time[INK_LATE] + cell->time[INK_HOST];
}

static void
mark (gboolean *used, Ink ink)
{
  used[ink] = TRUE;
}

/* The row with numbered blocks into @text, the chunks of the blocks into @chunks: [n_cells] characters each. */
static void
row_draw_blocks (const Row *row, guint n_cells, char *text, guint8 *ink_at, char *chunks, gboolean *used)
{
  for (guint i = 0; i < n_cells;)
    {
      const Cell *cell = &row->cells[i];
      if (!cell_in_block (cell))
        {
          const Ink ink = cell_ink (cell, INK_FORWARD);
          mark (used, ink);
          text[i] = inks[ink].fill;
          ink_at[i] = (guint8) ink;
          chunks[i++] = ' ';
          continue;
        }
      const ScBlock *block = &g_array_index (row->blocks, ScBlock, cell->block);
      guint end = i;
      while (end < n_cells && row->cells[end].block == cell->block && cell_in_block (&row->cells[end]))
        {
          Ink ink = cell_ink (&row->cells[end], INK_FORWARD);
          if (ink <= INK_WEIGHT || ink >= INK_BUBBLE)
            ink = (Ink) block->pass;
          mark (used, ink);
          text[end] = inks[ink].fill;
          ink_at[end] = (guint8) ink;
          chunks[end++] = ' ';
        }
      /* The whole number where some fill is left behind it, else the last digit; one cell of backward keeps its fill,
       * as a digit alone would read as forward. */
      char number[16];
      const guint n = (guint) g_snprintf (number, sizeof number, "%u", block->microbatch);
      const guint shown = n < end - i ? n : (Ink) block->pass == INK_FORWARD || end - i > 1 ? 1 : 0;
      memcpy (text + i, number + n - shown, shown);
      chunks[i] = (char) (block->chunk < 26 ? 'a' + block->chunk : '?');
      i = end;
    }
}

/* The row where blocks are narrower than cells. */
static void
row_draw_density (const Row *row, ScTime cell_time, guint n_cells, char *text, guint8 *ink_at, gboolean *used)
{
  for (guint i = 0; i < n_cells; i++)
    {
      const Cell *cell = &row->cells[i];
      const ScTime forward = cell->time[INK_FORWARD];
      const ScTime backward = cell->time[INK_BACKWARD] + cell->time[INK_WEIGHT] + cell->time[INK_RECOMPUTE];
      const ScTime busy = forward + backward, idle = cell_idle (cell);
      const gboolean idles = 2 * idle >= cell_time;
      if (idles || busy < MAX (cell->time[INK_COMM], cell->time[INK_OPTIMIZER]))
        {
          const Ink ink = cell_ink (cell, idles ? INK_BUBBLE : INK_OPTIMIZER);
          mark (used, ink);
          text[i] = inks[ink].fill;
          ink_at[i] = (guint8) ink;
          continue;
        }
      const gboolean weights = 2 * cell->time[INK_WEIGHT] > busy;
      const char c = 10 * forward < busy ? (weights ? 'w' : 'b') : 10 * backward < busy ? 'f' : 'x';
      if (c == 'w')
        mark (used, INK_WEIGHT);
      ink_at[i] = c == 'f' ? INK_FORWARD : c == 'w' ? INK_WEIGHT : c == 'b' ? INK_BACKWARD : N_INKS; /* both: plain */
      text[i] = 5 * idle >= cell_time ? c : g_ascii_toupper (c);
    }
}

/* Cells, in colour where they change it. */
static void
put_cells (GString *out, const char *text, const guint8 *ink_at, guint n_cells, gboolean colour)
{
  for (guint i = 0; i < n_cells; i++)
    {
      if (colour && (i == 0 || ink_at[i] != ink_at[i - 1]))
        g_string_append_printf (out, "\x1b[0%s%sm", ink_at[i] < N_INKS ? ";" : "", ink_at[i] < N_INKS ? inks[ink_at[i]].colour : "");
      g_string_append_c (out, text[i]);
    }
  if (colour)
    g_string_append (out, "\x1b[0m");
}

static int
compare_times (gconstpointer a, gconstpointer b)
{
  const ScTime x = *(const ScTime *) a, y = *(const ScTime *) b;
  return x < y ? -1 : x > y;
}

/* Cells for a step: @most, or somewhat fewer where that makes a block of @forward a whole number of cells, 2 or more. */
static guint
choose_cells (ScTime step, ScTime forward, guint most)
{
  const ScTime whole = (ScTime) ((double) forward / (double) step * most + 1e-9);
  if (forward == 0 || whole < 2)
    return most;
  return CLAMP ((guint) ((double) step / (double) forward * (double) whole + 0.5), 1, most);
}

/* Median length of the blocks of one direction over all rows; 0 without any. */
static ScTime
median_block (const Row *rows, guint n_rows, Ink ink)
{
  g_autoptr (GArray) lengths = g_array_new (FALSE, FALSE, sizeof (ScTime));
  for (guint r = 0; r < n_rows; r++)
    for (guint i = 0; i < rows[r].blocks->len; i++)
      {
        const ScBlock *block = &g_array_index (rows[r].blocks, ScBlock, i);
        const ScTime t = block->to - block->from;
        if ((Ink) block->pass == ink)
          g_array_append_val (lengths, t);
      }
  if (lengths->len == 0)
    return 0;
  g_array_sort (lengths, compare_times);
  return g_array_index (lengths, ScTime, lengths->len / 2);
}

static void
append_time (GString *out, ScTime t, ScTime unit_of)
{
  static const struct { ScTime ps; const char *name; } units[] = {
    { G_GINT64_CONSTANT (1000000000000), "s" }, { 1000000000, "ms" }, { 1000000, "us" }, { 1000, "ns" }, { 1, "ps" },
  };
  guint u = 0;
  while (u + 1 < G_N_ELEMENTS (units) && unit_of < units[u].ps)
    u++;
  g_string_append_printf (out, "%.4g %s", (double) t / (double) units[u].ps, units[u].name);
}

static void
draw_axis (const ScSummary *summary, GString *out, guint label_width, guint n_cells)
{
  const ScTime tick = sc_timeline_tick (MAX (1, summary->trace->end / n_cells * 12));
  g_autoptr (GString) line = g_string_new (NULL), times = g_string_new (NULL);
  for (guint i = 0; i < n_cells; i++)
    g_string_append_c (line, '-');
  for (ScTime t = 0; t <= summary->trace->end; t += tick)
    {
      const guint at = (guint) ((double) t / (double) summary->trace->end * n_cells);
      if (at >= n_cells)
        break;
      line->str[at] = '+';
      g_autoptr (GString) label = g_string_new (t == 0 ? "0" : NULL);
      if (t > 0)
        append_time (label, t, summary->trace->end);
      if (at + label->len > n_cells + 1)
        break;
      while (times->len < at)
        g_string_append_c (times, ' ');
      g_string_append (times, label->str);
    }
  g_string_append_printf (out, "%*s|%s|\n", label_width, "", line->str);
  g_string_append_printf (out, "%*s %s\n", label_width, "", times->str);
}

static void
draw_legend (const ScSummary *summary, GString *out, gboolean numbered, gboolean chunks, const gboolean *used,
             guint n_cells)
{
  g_autoptr (GString) legend = g_string_new ("   step ");
  append_time (legend, summary->step, summary->trace->end);
  g_string_append (legend, "   one cell ");
  append_time (legend, summary->trace->end / n_cells, summary->trace->end / n_cells);
  if (numbered)
    g_string_append_printf (legend, "   7-- forward of micro-batch 7%s   7== its backward%s",
                            summary->microbatches > 10 ? " (or 17, ...)" : "",
                            used[INK_WEIGHT] ? " for the input   7%% for the weights" : "");
  else
    g_string_append_printf (legend, "   F forward   B backward%s   X both   f b x: with up to half of it idle",
                            used[INK_WEIGHT] ? "   W mostly gradients of weights" : "");
  for (Ink i = numbered ? INK_RECOMPUTE : INK_OPTIMIZER; i < N_INKS; i++)
    if (used[i])
      g_string_append_printf (legend, "   %c %s", inks[i].fill, inks[i].meaning);
  /* Broken at entries, which stand three blanks apart. */
  guint column = 0;
  g_auto (GStrv) entries = g_strsplit (legend->str + 3, "   ", -1);
  for (char **e = entries; *e != NULL; e++)
    {
      const guint n = (guint) strlen (*e);
      if (column > 0 && column + 3 + n > SC_TIMELINE_WIDTH)
        {
          g_string_append_c (out, '\n');
          column = 0;
        }
      g_string_append_printf (out, "%s%s", column > 0 ? "   " : "", *e);
      column += (column > 0 ? 3 : 0) + n;
    }
  g_string_append_c (out, '\n');
  if (numbered && chunks)
    g_string_append (out, "Below a stage: the chunk of its layers that the block above belongs to, a = the first.\n");
  if (!numbered)
    g_string_append (out, "Micro-batches are narrower than a cell here: a trace (--trace FILE) shows them one by one.\n");
}

void
sc_timeline_draw (const ScSummary *summary, GString *out, guint width, gboolean colour)
{
  if (summary->trace->end <= 0 || summary->n_stages == 0)
    {
      g_string_append (out, "Nothing to draw: the step takes no time.\n");
      return;
    }
  width = CLAMP (width > 0 ? width : SC_TIMELINE_WIDTH, SC_TIMELINE_WIDTH_MIN, SC_TIMELINE_WIDTH_MAX);
  char number[16];
  const guint digits = (guint) g_snprintf (number, sizeof number, "%u", summary->n_stages - 1);
  const guint label_width = 6 + digits + 1;
  g_autoptr (ScSegments) segments = sc_segments_new (summary->program, summary->trace, summary->trace->end);
  g_autofree Row *rows = g_new (Row, summary->n_stages);
  gboolean chunks = FALSE, used[N_INKS] = { FALSE };
  for (guint i = 0; i < summary->n_stages; i++)
    {
      rows[i] = row_new (summary, segments, &summary->stages[i]);
      for (guint k = 0; k < rows[i].blocks->len; k++)
        chunks |= g_array_index (rows[i].blocks, ScBlock, k).chunk > 0;
    }
  const ScTime forward = median_block (rows, summary->n_stages, INK_FORWARD);
  const ScTime backward = median_block (rows, summary->n_stages, INK_BACKWARD);
  const guint n_cells = choose_cells (summary->trace->end, forward,
                                      (guint) MAX (1, MIN ((ScTime) (width - label_width - 2), summary->trace->end)));
  const ScTime cell_time = summary->trace->end / n_cells;
  const gboolean numbered = forward >= cell_time && (backward == 0 || backward >= 2 * cell_time);

  g_autofree char *text = g_new0 (char, n_cells + 1), *below = g_new0 (char, n_cells + 1);
  g_autofree guint8 *ink_at = g_new0 (guint8, n_cells);
  for (guint i = 0; i < summary->n_stages; i++)
    {
      row_fill_cells (summary, &rows[i], n_cells);
      if (numbered)
        row_draw_blocks (&rows[i], n_cells, text, ink_at, below, used);
      else
        row_draw_density (&rows[i], cell_time, n_cells, text, ink_at, used);
      g_string_append_printf (out, "stage %*u |", digits, rows[i].stage);
      put_cells (out, text, ink_at, n_cells, colour);
      g_string_append (out, "|\n");
      if (numbered && chunks)
        g_string_append_printf (out, "%*s %s\n", label_width, "", g_strchomp (below));
      row_clear (&rows[i]);
    }
  draw_axis (summary, out, label_width, n_cells);
  draw_legend (summary, out, numbered, chunks, used, n_cells);
}
