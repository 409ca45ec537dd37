/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draw-device.c - a GPU's numbers, what was measured on it, and its roofline. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <math.h>
#include "describe.h"
#include "draw.h"
#include "models/samples.h"
#include "text-table.h"
#include "units.h"

#define WIDTH 100

/* ---- Numbers ---- */

static void
draw_number (const char *name, const char *value, ScGrade grade, const char *source, GString *out)
{
  g_string_append_printf (out, "  %-29s%-16s%-11s", name, value, sc_grade_name (grade));
  if (source != NULL)
    sc_append_wrapped (out, source, 58, 58, WIDTH);
  sc_trim_line (out);
}

static void
draw_curve (const char *name, const ScCurve *curve, GString *out)
{
  for (guint i = 0; i < curve->n; i++)
    {
      g_autofree char *label = g_strdup_printf ("%s, %g tokens", name, curve->x[i]);
      g_autofree char *value = sc_format_flops (curve->y[i]);
      draw_number (label, value, curve->grade, i == 0 ? curve->source : "as above", out);
    }
}

static void
draw_numbers (const ScDevice *d, GString *out)
{
  const struct
  {
    const char    *name;
    ScUnit         unit;
    const ScCited *number;
  } rows[] = {
    { "SMs", SC_UNIT_NONE, &d->sms },
    { "peak bf16", SC_UNIT_FLOPS, &d->peak_flops[SC_DTYPE_BF16] },
    { "peak fp16", SC_UNIT_FLOPS, &d->peak_flops[SC_DTYPE_FP16] },
    { "peak fp32 (matrix)", SC_UNIT_FLOPS, &d->peak_flops[SC_DTYPE_FP32] },
    { "peak fp8", SC_UNIT_FLOPS, &d->peak_flops[SC_DTYPE_FP8] },
    { "peak fp4", SC_UNIT_FLOPS, &d->peak_flops[SC_DTYPE_FP4] },
    { "memory", SC_UNIT_BYTES, &d->memory_bytes },
    { "memory bandwidth", SC_UNIT_BYTES_PER_S, &d->memory_bytes_per_s },
    { "L2 cache", SC_UNIT_BYTES, &d->l2_bytes },
    { "GEMM tile efficiency", SC_UNIT_NONE, &d->gemm_tile_efficiency },
    { "GEMM sustained share", SC_UNIT_NONE, &d->gemm_sustained },
    { "GEMM accumulation factor", SC_UNIT_NONE, &d->gemm_accumulate },
    { "batched GEMM efficiency", SC_UNIT_NONE, &d->batched_gemm_efficiency },
    { "elementwise rate", SC_UNIT_BYTES_PER_S, &d->elementwise_bytes_per_s },
    { "reduction rate", SC_UNIT_BYTES_PER_S, &d->reduction_bytes_per_s },
    { "optimizer rate", SC_UNIT_BYTES_PER_S, &d->optimizer_bytes_per_s },
    { "half-rate working set", SC_UNIT_BYTES, &d->half_bytes },
    { "host to device", SC_UNIT_BYTES_PER_S, &d->h2d_bytes_per_s },
    { "device to host", SC_UNIT_BYTES_PER_S, &d->d2h_bytes_per_s },
    { "kernel launch gap", SC_UNIT_SECONDS, &d->launch_s },
    { "slowdown beside collectives", SC_UNIT_NONE, &d->hidden_slowdown },
    { "of memory-bound kernels", SC_UNIT_NONE, &d->memory_slowdown },
    { "CUDA context", SC_UNIT_BYTES, &d->context_bytes },
    { "library workspace", SC_UNIT_BYTES, &d->workspace_bytes },
  };
  g_string_append_printf (out, "%s (%s): %s\n", d->name, d->family, d->summary != NULL ? d->summary : "");
  if (d->aliases != NULL && d->aliases[0] != NULL)
    {
      g_autofree char *aliases = g_strjoinv (", ", d->aliases);
      g_string_append (out, "  also called ");
      sc_append_wrapped (out, aliases, 14, 14, WIDTH);
      g_string_append_c (out, '\n');
    }
  g_string_append_printf (out, "\n  %-29s%-16s%-11s%s\n", "number", "value", "grade", "source");
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      if ((rows[i].unit == SC_UNIT_FLOPS || rows[i].number == &d->memory_slowdown) && rows[i].number->value <= 0)
        continue; /* a data type that this GPU has not; not measured */
      g_autofree char *value = rows[i].unit == SC_UNIT_NONE ? g_strdup_printf ("%.6g", rows[i].number->value)
                               : rows[i].unit == SC_UNIT_BYTES ? sc_format_bytes (rows[i].number->value)
                               : rows[i].unit == SC_UNIT_BYTES_PER_S ? sc_format_rate (rows[i].number->value)
                               : rows[i].unit == SC_UNIT_SECONDS ? sc_format_seconds (rows[i].number->value)
                                                                 : sc_format_flops (rows[i].number->value);
      draw_number (rows[i].name, value, rows[i].number->grade, rows[i].number->source, out);
    }
  draw_curve ("flash forward", &d->flash_forward, out);
  draw_curve ("flash backward", &d->flash_backward, out);
}

/* ---- Measured kernels ---- */

static void
draw_samples (const ScDevice *d, GString *out)
{
  if (d->tables == NULL || d->tables->len == 0)
    {
      if (d->relative != NULL)
        g_string_append_printf (out, "\nno measured kernels: products are priced by those of %s, on this GPU's numbers\n", d->relative->name);
      return;
    }
  g_string_append (out, "\nmeasured kernels (forecasts: whether they rest on them, or they only judge rows of that software)\n");
  static const char *const titles[] = { "class", "operation", "type", "software", "forecasts", "shapes", "of peak", NULL };
  ScTextTable t = sc_text_table_new (titles, 5);
  for (guint i = 0; i < d->tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (d->tables, i);
      const gboolean memory = table->class >= SC_KERNEL_ELEMENTWISE;
      sc_text_table_words (&t, sc_kernel_class_name (table->class));
      sc_text_table_words (&t, memory ? sc_op_name (table->op) : "-");
      sc_text_table_words (&t, sc_dtype_name (table->dtype));
      sc_text_table_words (&t, table->stack != NULL ? table->stack : "-");
      sc_text_table_words (&t, table->training ? "yes" : "no");
      sc_text_table_cell (&t, g_strdup_printf ("%u", table->n));
      sc_text_table_cell (&t, table->efficiency.value > 0 ? g_strdup_printf ("%.2f", table->efficiency.value) : g_strdup ("-"));
    }
  sc_text_table_end (&t, FALSE, out);
}

/* ---- The roofline ---- */

#define ROOF_SIDE    8192 /* of the square weight that products have */
#define ROOF_OCTAVES 10   /* of the chart's height */
#define ROOF_COLUMNS 4    /* characters of one octave of FLOP per byte */
#define ROOF_WIDTH   (13 * ROOF_COLUMNS)

static double
intensity_of (const ScKernel *k)
{
  return k->flops / k->bytes;
}

/* Row of the chart, from the top, of @flops_per_s; G_MAXUINT below it. */
static guint
chart_row (double peak, double flops_per_s)
{
  const double below = log2 (peak / flops_per_s);
  return below < 0 ? 0 : below > ROOF_OCTAVES - 1 ? G_MAXUINT : (guint) lround (below);
}

static void
draw_chart (const ScDevice *d, ScDtype dtype, GString *out)
{
  const double peak = d->peak_flops[dtype].value, bandwidth = d->memory_bytes_per_s.value;
  char chart[ROOF_OCTAVES][ROOF_WIDTH + 1];
  for (guint r = 0; r < ROOF_OCTAVES; r++)
    {
      for (guint c = 0; c < ROOF_WIDTH; c++)
        chart[r][c] = ' ';
      chart[r][ROOF_WIDTH] = '\0';
    }
  for (guint c = 0; c < ROOF_WIDTH; c++)
    {
      const guint r = chart_row (peak, MIN (peak, bandwidth * exp2 ((double) c / ROOF_COLUMNS)));
      if (r < ROOF_OCTAVES)
        chart[r][c] = '.';
    }
  for (guint64 m = 1; m <= 32768; m *= 2)
    {
      const ScKernel k = sc_kernel_gemm ("x", dtype, m, ROOF_SIDE, ROOF_SIDE);
      const guint r = chart_row (peak, k.flops / sc_kernel_cost (d, &k, 1).seconds);
      const double column = log2 (intensity_of (&k)) * ROOF_COLUMNS;
      if (r < ROOF_OCTAVES && column >= 0 && column < ROOF_WIDTH)
        chart[r][(guint) column] = 'o';
    }
  for (guint r = 0; r < ROOF_OCTAVES; r++)
    {
      g_autofree char *rate = sc_format_flops (peak / exp2 (r));
      g_string_append_printf (out, "  %16s |%s", r % 2 == 0 ? rate : "", chart[r]);
      sc_trim_line (out);
    }
  g_string_append_printf (out, "  %16s ", "");
  for (guint c = 0; c < ROOF_WIDTH; c++)
    g_string_append_c (out, c % (2 * ROOF_COLUMNS) == 0 ? '+' : '-');
  g_string_append_printf (out, "\n  %16s ", "FLOP per byte");
  for (guint octave = 0; octave < 13; octave += 2)
    g_string_append_printf (out, "%-*.0f", 2 * ROOF_COLUMNS, exp2 (octave));
  sc_trim_line (out);
}

static void
draw_roofline (const ScDevice *d, GString *out)
{
  /* Before Ampere bf16 is no faster than fp32. */
  const ScDtype dtype = d->peak_flops[SC_DTYPE_FP16].value > d->peak_flops[SC_DTYPE_BF16].value ? SC_DTYPE_FP16 : SC_DTYPE_BF16;
  const double peak = d->peak_flops[dtype].value, bandwidth = d->memory_bytes_per_s.value;
  if (peak <= 0)
    return;
  g_autofree char *peak_text = sc_format_flops (peak), *rate_text = sc_format_rate (bandwidth);
  g_string_append_printf (out, "\nroofline of %s: %s over %s, ridge at %.0f FLOP per byte\n"
                               "  . datasheet; o products of M rows with a weight of %u x %u, at the sustained rate\n",
                          sc_dtype_name (dtype), peak_text, rate_text, peak / bandwidth, ROOF_SIDE, ROOF_SIDE);
  draw_chart (d, dtype, out);
  g_string_append_c (out, '\n');
  ScTextTable t = sc_text_table_new ((const char *const[]) { "  rows M", "FLOP/B", "time", "rate", "of the roof", "grade", NULL }, 0);
  for (guint64 m = 16; m <= 32768; m *= 8)
    {
      const ScKernel k = sc_kernel_gemm ("x", dtype, m, ROOF_SIDE, ROOF_SIDE);
      const ScCost cost = sc_kernel_cost (d, &k, 1);
      const double rate = k.flops / cost.seconds, roof = MIN (peak, bandwidth * intensity_of (&k));
      sc_text_table_cell (&t, g_strdup_printf ("%" G_GUINT64_FORMAT, m));
      sc_text_table_cell (&t, g_strdup_printf ("%.0f", intensity_of (&k)));
      sc_text_table_cell (&t, sc_format_seconds (cost.seconds));
      sc_text_table_cell (&t, sc_format_flops (rate));
      sc_text_table_cell (&t, sc_text_percent (rate / roof, FALSE));
      sc_text_table_words (&t, sc_grade_name (cost.grade));
    }
  sc_text_table_end (&t, FALSE, out);
}

void
sc_draw_device (const ScDevice *d, GString *out)
{
  draw_numbers (d, out);
  draw_samples (d, out);
  draw_roofline (d, out);
}
