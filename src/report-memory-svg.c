/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-memory-svg.c - memory over the step as a picture: a panel for the first, the fullest and the last stage. */
#include "memory-groups.h"
#include "report-memory.h"
#include "units.h"

#define GIB     (1024.0 * 1024 * 1024)
#define WIDTH   960
#define PANEL   240 /* height of one, with its title */
#define LEFT    64
#define RIGHT   150
#define TOP     44
#define BOTTOM  34
#define COLUMNS 720

/* From the bottom up.  Colours by Okabe and Ito (Color universal design, 2008), which colour-blind readers tell apart. */
static const struct
{
  ScMemKind kind;
  const char *colour;
} layers[SC_N_MEMS] = {
  { SC_MEM_WEIGHTS, "#0072b2" }, { SC_MEM_GRADS, "#56b4e9" },  { SC_MEM_OPTIMIZER, "#009e73" }, { SC_MEM_COMM, "#999999" },
  { SC_MEM_ACTIVATIONS, "#e69f00" }, { SC_MEM_LOGITS, "#cc79a7" }, { SC_MEM_TRANSIENT, "#d55e00" },
};

typedef struct
{
  double x, y, width, height; /* of the plot */
  double most; /* bytes at its top */
} Panel;

static double
y_of (const Panel *p, double bytes)
{
  return p->y + p->height * (1 - MIN (bytes / p->most, 1));
}

/* The area between two curves of the stack, as one path: there above, back below. */
static void
put_area (const Panel *p, const double *below, const double *above, const char *colour, GString *out)
{
  g_string_append (out, "<path d=\"");
  for (guint i = 0; i < COLUMNS; i++)
    g_string_append_printf (out, "%s%.1f %.1fh%.2f", i == 0 ? "M" : "L", p->x + p->width * i / COLUMNS, y_of (p, above[i]), p->width / COLUMNS);
  for (guint i = COLUMNS; i-- > 0;)
    g_string_append_printf (out, "L%.1f %.1fh%.2f", p->x + p->width * (i + 1) / COLUMNS, y_of (p, below[i]), -p->width / COLUMNS);
  g_string_append_printf (out, "Z\" fill=\"%s\"/>\n", colour);
}

static void
put_line (const Panel *p, double bytes, const char *text, const char *dash, GString *out)
{
  const double y = y_of (p, bytes);
  g_string_append_printf (out, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#000\" stroke-dasharray=\"%s\" fill=\"none\"/>\n", p->x, y, p->width, dash);
  g_string_append_printf (out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", p->x + p->width + 6, y + 4, text);
}

/* 1, 2 or 5 times a power of ten, about a fifth of @range. */
static double
step_of (double range)
{
  double step = 1e-3;
  for (guint i = 0; step * 5 < range; i++)
    step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

static void
put_axes (const Panel *p, double seconds, GString *out)
{
  const gboolean long_step = seconds >= 2;
  const double gib = p->most / GIB, rise = step_of (gib), end = long_step ? seconds : seconds * 1e3, run = step_of (end);
  for (double v = 0; v <= gib; v += rise)
    g_string_append_printf (out, "<path d=\"M%.1f %.1fh-5\" stroke=\"#000\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", p->x,
                            y_of (p, v * GIB), p->x - 8, y_of (p, v * GIB) + 4, v);
  for (double v = 0; v <= end; v += run)
    g_string_append_printf (out, "<path d=\"M%.1f %.1fv5\" stroke=\"#000\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                            p->x + p->width * v / end, p->y + p->height, p->x + p->width * v / end, p->y + p->height + 18, v);
  g_string_append_printf (out, "<path d=\"M%.1f %.1fv%.1fh%.1f\" stroke=\"#000\" fill=\"none\"/>\n", p->x, p->y, p->height, p->width);
  g_string_append_printf (out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", p->x + p->width, p->y + p->height + 32, long_step ? "s" : "ms");
}

static void
put_panel (const ScSummary *s, guint stage, Panel p, GString *out)
{
  const ScTapePlay *const play = g_ptr_array_index (s->plays, stage);
  g_autofree ScMemoryColumn *columns = sc_memory_columns (s, stage, COLUMNS);
  g_autofree double *below = g_new0 (double, COLUMNS), *above = g_new0 (double, COLUMNS);
  for (guint i = 0; i < SC_N_MEMS; i++)
    {
      gboolean any = FALSE;
      for (guint k = 0; k < COLUMNS; k++)
        {
          above[k] = below[k] + (double) columns[k].by_kind[layers[i].kind];
          any |= above[k] > below[k];
        }
      if (any)
        put_area (&p, below, above, layers[i].colour, out);
      for (guint k = 0; k < COLUMNS; k++)
        below[k] = above[k];
    }
  const double reserved = (double) play->reserved[1];
  g_autofree char *text = g_strdup_printf ("reserved %.1f", reserved / GIB);
  put_line (&p, reserved, text, "4 3", out);
  put_axes (&p, sc_time_to_s (s->trace->end), out);
  g_string_append_printf (out, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">Stage %u%s: peak %.2f GiB allocated, %.2f GiB reserved</text>\n", p.x, p.y - 10, stage,
                          stage == s->classes[s->memory_class].stage ? ", the fullest" : "", (double) play->allocated[1] / GIB, reserved / GIB);
}

static void
put_legend (double x, double y, GString *out)
{
  for (guint i = SC_N_MEMS; i-- > 0; y += 18)
    g_string_append_printf (out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y, layers[i].colour,
                            x + 18, y + 10, sc_mem_kind_name (layers[i].kind));
}

void
sc_report_memory_svg (const ScSummary *s, GString *out)
{
  guint stages[3];
  const guint n = sc_memory_stages (s, stages);
  double most = 0;
  for (guint i = 0; i < n; i++)
    most = MAX (most, (double) ((const ScTapePlay *) g_ptr_array_index (s->plays, stages[i]))->reserved[1]);
  const guint height = TOP + n * PANEL;
  g_autofree char *name = g_markup_escape_text (s->workload->name, -1);
  g_string_append_printf (out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"12\">\n",
                          WIDTH, height, WIDTH, height);
  g_string_append_printf (out, "<title>%s: memory over one step</title>\n<rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n", name, WIDTH, height);
  g_string_append_printf (out, "<text x=\"%u\" y=\"22\" font-size=\"15\">%s: memory over one step, GiB</text>\n", LEFT, name);
  for (guint i = 0; i < n; i++)
    put_panel (s, stages[i], (Panel) { LEFT, TOP + i * PANEL + 24, WIDTH - LEFT - RIGHT, PANEL - 24 - BOTTOM - 10, most * 1.08 }, out);
  put_legend (WIDTH - RIGHT + 24, TOP + 70, out);
  g_string_append (out, "</svg>\n");
}
