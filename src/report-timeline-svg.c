/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-timeline-svg.c - the pipeline of one step as a picture: a row for each stage, its compute stream above, its other streams below.
 *
 * One path for each colour and row, so that 64 stages of 512 micro-batches stay small. */
#include "describe.h"
#include "report-timeline.h"
#include "timeline-blocks.h"
#include "units.h"

#define LEFT       76
#define RIGHT      24
#define TOP        58
#define FOOT       74
#define MIN_WIDTH  1100
#define MAX_WIDTH  4000
#define PER_BLOCK  16     /* wished width of one block */
#define NARROW     6
#define DIGIT      6.2    /* width of a digit in a block */
#define LEAST      0.05   /* narrower pieces are not drawn */
#define GAP        0.3    /* nearer pieces of one colour are drawn as one */

/* By Okabe and Ito (Color universal design, 2008), which colour-blind readers tell apart. */
static const struct
{
  const char *colour, *ink, *name;
} passes[] = {
  [SC_BLOCK_FORWARD] = { "#56b4e9", "#000", "forward" },
  [SC_BLOCK_BACKWARD] = { "#0072b2", "#fff", "backward" },
  [SC_BLOCK_WEIGHT] = { "#009e73", "#fff", "weight gradients" },
};

static const struct
{
  ScTimeKind  kind;
  const char *colour;
} others[] = {
  { SC_TIME_RECOMPUTE, "#f0e442" }, { SC_TIME_OPTIMIZER, "#cc79a7" }, { SC_TIME_COMM_TP, "#e69f00" }, { SC_TIME_COMM_CP, "#d0c000" },
  { SC_TIME_COMM_EP, "#a04080" },   { SC_TIME_COMM_PP, "#666666" },   { SC_TIME_COMM_DP, "#d55e00" }, { SC_TIME_HOST, "#bbbbbb" },
};

typedef struct
{
  const ScSummary *summary;
  double  width;      /* of the step */
  double  row, lane;  /* height of the compute stream, of the others below */
  gboolean dense;     /* blocks are so narrow that nothing is drawn inside them */
  gboolean used[G_N_ELEMENTS (others)], used_pass[G_N_ELEMENTS (passes)];
  GString *out;
} Picture;

static double
x_of (const Picture *p, ScTime t)
{
  return LEFT + p->width * (double) t / (double) p->summary->trace->end;
}

/* A piece of a path; pieces that touch the last one make it longer. */
typedef struct
{
  GString *path;
  double from, to, y, height; /* of the last piece, not written yet; from < 0: none */
} Pen;

static void
pen_lift (Pen *pen)
{
  if (pen->from >= 0 && pen->to - pen->from >= LEAST)
    g_string_append_printf (pen->path, "M%.1f %.1fH%.1fv%.1fH%.1fz", pen->from, pen->y, pen->to, pen->height, pen->from);
  pen->from = -1;
}

static void
pen_put (Pen *pen, double from, double to, double y, double height)
{
  if (pen->from >= 0 && pen->y == y && from - pen->to < GAP)
    {
      pen->to = MAX (pen->to, to);
      return;
    }
  pen_lift (pen);
  *pen = (Pen) { pen->path, from, to, y, height };
}

static void
pen_end (Pen *pen, const char *colour, const char *more, GString *out)
{
  pen_lift (pen);
  if (pen->path->len > 0)
    g_string_append_printf (out, "<path d=\"%s\" fill=\"%s\"%s/>\n", pen->path->str, colour, more);
  g_string_free (pen->path, TRUE);
}

static Pen
pen_new (void)
{
  return (Pen) { .path = g_string_new (NULL), .from = -1 };
}

/* ---- The compute stream ---- */

/* Blocks with their numbers; those of other chunks are paler. */
static void
draw_blocks (Picture *p, const GArray *blocks, double y)
{
  g_autoptr (GString) numbers = g_string_new (NULL);
  for (guint pass = 0; pass < G_N_ELEMENTS (passes); pass++)
    for (guint shade = 0; shade < 3; shade++)
      {
        Pen pen = pen_new ();
        for (guint i = 0; i < blocks->len; i++)
          {
            const ScBlock *const b = &g_array_index (blocks, ScBlock, i);
            if ((guint) b->pass != pass || b->chunk % 3 != shade)
              continue;
            const double from = x_of (p, b->from), to = x_of (p, b->to);
            p->used_pass[pass] = TRUE;
            pen_lift (&pen); /* each block by itself: a hair of white between them */
            pen_put (&pen, from, MAX (to - MIN (0.6, (to - from) / 4), from), y, p->row);
            char text[16];
            const int n = g_snprintf (text, sizeof text, "%u", b->microbatch);
            if (to - from > n * DIGIT + 3 && p->row >= 12)
              g_string_append_printf (numbers, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n", (from + to) / 2, y + p->row / 2 + 3.5, passes[pass].ink, text);
          }
        static const char *const paler[] = { "", " fill-opacity=\"0.72\"", " fill-opacity=\"0.5\"" };
        pen_end (&pen, passes[pass].colour, paler[shade], p->out);
      }
  if (numbers->len > 0)
    g_string_append_printf (p->out, "<g font-size=\"10\" text-anchor=\"middle\">\n%s</g>\n", numbers->str);
}

/* What the stream does or waits for beside passes: inside blocks along their lower edge, else as high as they. */
static void
draw_others (Picture *p, const GArray *segments, const GArray *blocks, double y)
{
  for (guint kind = 0; kind < G_N_ELEMENTS (others); kind++)
    {
      Pen pen = pen_new ();
      guint b = 0;
      for (guint i = 0; i < segments->len; i++)
        {
          const ScSegment *const s = &g_array_index (segments, ScSegment, i);
          if (s->kind != others[kind].kind)
            continue;
          while (b < blocks->len && g_array_index (blocks, ScBlock, b).to <= s->from)
            b++;
          const gboolean inside = b < blocks->len && g_array_index (blocks, ScBlock, b).from < s->to;
          if (inside && p->dense)
            continue;
          const double height = inside ? p->row * 0.25 : p->row;
          pen_put (&pen, x_of (p, s->from), x_of (p, s->to), inside ? y + p->row - height : y, height);
          p->used[kind] = TRUE;
        }
      pen_end (&pen, others[kind].colour, "", p->out);
    }
}

/* ---- The other streams ---- */

/* Transfers and collectives that run beside compute, of all other streams of the class in one lane. */
static void
draw_lane (Picture *p, guint32 class_id, double y)
{
  const ScProgram *const program = p->summary->program;
  const ScTrace *const trace = p->summary->trace;
  const ScActor *const actor = &g_array_index (program->actors, ScActor, class_id);
  for (guint kind = 0; kind < G_N_ELEMENTS (others); kind++)
    {
      Pen pen = pen_new ();
      for (guint32 id = actor->first_op; id < actor->first_op + actor->n_ops; id++)
        {
          const ScOp op = sc_program_op (program, actor, id);
          if (op.kind != SC_OP_CALL || op.stream == SC_STREAM_COMPUTE || g_array_index (program->calls, ScCall, op.arg).tag != others[kind].kind)
            continue;
          const double from = x_of (p, sc_trace_ready (trace, id, &op)), to = x_of (p, trace->spans[id].end);
          if (pen.from >= 0 && from < pen.from) /* another stream: its own way back */
            pen_lift (&pen);
          pen_put (&pen, from, to, y, p->lane);
          p->used[kind] = TRUE;
        }
      pen_end (&pen, others[kind].colour, " fill-opacity=\"0.8\"", p->out);
    }
}

/* ---- Around them ---- */

static void
draw_axis (const Picture *p, double y)
{
  const ScTime end = p->summary->trace->end, tick = sc_timeline_tick ((ScTime) ((double) end * 90 / p->width));
  for (ScTime t = 0; t <= end; t += tick)
    {
      g_autofree char *text = sc_format_seconds (sc_time_to_s (t));
      g_string_append_printf (p->out, "<path d=\"M%.1f %.1fv5\" stroke=\"#000\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x_of (p, t), y, x_of (p, t), y + 18, text);
    }
  g_string_append_printf (p->out, "<path d=\"M%d %.1fh%.1f\" stroke=\"#000\"/>\n", LEFT, y, p->width);
}

static double
legend_entry (const Picture *p, double x, double y, const char *colour, const char *name)
{
  g_string_append_printf (p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y, colour, x + 17, y + 10, name);
  return x + 32 + 6.6 * (double) g_utf8_strlen (name, -1);
}

static void
draw_legend (const Picture *p, double y)
{
  double x = LEFT;
  for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
    if (p->used_pass[i])
      x = legend_entry (p, x, y, passes[i].colour, passes[i].name);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (p->used[i])
      x = legend_entry (p, x, y, others[i].colour, sc_time_kind_group (others[i].kind) != NULL ? sc_time_kind_label (others[i].kind) + sizeof "exposed" : sc_time_kind_label (others[i].kind));
  x = legend_entry (p, x, y, "#eeeeee", "waiting");
  if (p->dense)
    g_string_append_printf (p->out, "<text x=\"%.1f\" y=\"%.1f\">what passes wait for inside is not drawn</text>\n", x + 10, y + 10);
}

static void
draw_stage (Picture *p, const ScSegments *all, const ScStageSummary *stage, double y)
{
  g_autoptr (GArray) segments = sc_segments_of_class (all, stage->class_id);
  g_autoptr (GArray) blocks = sc_timeline_blocks (p->summary, segments);
  g_string_append_printf (p->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#eee\"/>\n", LEFT, y, p->width, p->row);
  g_string_append_printf (p->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\"%s>%u</text>\n", LEFT - 8, y + p->row / 2 + 4, p->row < 12 ? " font-size=\"9\"" : "", stage->stage);
  draw_blocks (p, blocks, y);
  draw_others (p, segments, blocks, y);
  draw_lane (p, stage->class_id, y + p->row + 1);
}

/* Blocks of the busiest stage. */
static guint
most_blocks (const ScSummary *s, const ScSegments *all)
{
  guint most = 0;
  for (guint i = 0; i < s->n_stages; i++)
    {
      g_autoptr (GArray) segments = sc_segments_of_class (all, s->stages[i].class_id);
      g_autoptr (GArray) blocks = sc_timeline_blocks (s, segments);
      most = MAX (most, blocks->len);
    }
  return most;
}

void
sc_timeline_svg (const ScSummary *s, GString *out)
{
  g_autoptr (ScSegments) all = sc_segments_new (s->program, s->trace, s->trace->end);
  Picture p = { .summary = s, .out = out };
  const guint most = MAX (most_blocks (s, all), 1);
  p.width = CLAMP (most * PER_BLOCK, MIN_WIDTH, MAX_WIDTH);
  p.dense = p.width / most < NARROW;
  p.row = s->n_stages <= 8 ? 26 : s->n_stages <= 24 ? 18 : 11;
  p.lane = s->n_stages <= 24 ? 5 : 3;
  const double pitch = p.row + p.lane + (s->n_stages <= 24 ? 8 : 4), bottom = TOP + pitch * s->n_stages;
  g_autofree char *name = g_markup_escape_text (s->workload->name, -1), *step = sc_format_seconds (sc_time_to_s (s->step));
  g_autoptr (GString) plan = g_string_new (NULL);
  sc_describe_plan (s->workload, plan);
  g_autofree char *line = g_markup_escape_text (plan->str, -1);
  g_string_append_printf (out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", p.width + LEFT + RIGHT,
                          bottom + FOOT, p.width + LEFT + RIGHT, bottom + FOOT);
  g_string_append_printf (out, "<title>%s: one step</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", name);
  g_string_append_printf (out, "<text x=\"%d\" y=\"22\" font-size=\"15\">%s: %s a step, %.1f %% bubble</text>\n<text x=\"%d\" y=\"42\">%s</text>\n", LEFT, name, step, 100 * s->bubble_fraction, LEFT, line);
  g_string_append_printf (out, "<text x=\"%d\" y=\"42\" text-anchor=\"end\">stage</text>\n", LEFT - 8);
  for (guint i = 0; i < s->n_stages; i++)
    draw_stage (&p, all, &s->stages[i], TOP + pitch * i);
  draw_axis (&p, bottom);
  draw_legend (&p, bottom + 38);
  g_string_append (out, "</svg>\n");
}
