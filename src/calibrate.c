/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate.c - fits the numbers of a device on measured rows. */
#include "calibrate.h"
#include "device-json.h"
#include "models/kernel-form.h"
#include "sample-tables.h"
#include <gsl/gsl_fit.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

/* Fewer points are no fit. */
#define LEAST_POINTS 3

/* Sizes of a line lie at least this far apart. */
#define LEAST_RANGE 2.0

/* What a clock above the datasheet's and rounding can do; more is a mistake in the file. */
#define ABOVE_DATASHEET 1.1
#define BELOW_DATASHEET 0.01 /* no fit of a working GPU is slower: milliseconds for microseconds */
#define MOST_LAUNCH_S 1e-3
#define MOST_SHAPES 20000   /* of a table, as its readers have it */

/* Caches move several times what memory does; no cache does this many times as much. */
#define ABOVE_CACHE 8.0

/* So many of a kind's rows above the datasheet are no accident. */
#define MOST_IMPOSSIBLE 0.1

/* Below 0 by so many standard errors and seconds, an intercept is nonsense, not noise. */
#define SIGNIFICANT 3.0
#define LEAST_NEGATIVE_S 0.3e-6

/* Where arithmetic takes a smaller share of a batched product's memory time, noise of the whole is many times as much of it. */
#define LEAST_MATH 0.5

/* Times of fewer launches than that do not tell an efficiency. */
#define LEAST_LAUNCHES 10

#define N_FOLDS 20
#define ROBUST_ITERATIONS 200

/* A line with a larger cross-validated error is none. */
#define POOR 0.15

#define DIGITS 5

/* Products that spread over fewer waves of blocks of 128 queries measure the tail, not the rate. */
#define FLASH_BLOCK 128
#define FLASH_WAVES 4
#define FLASH_HEAD 128

void
sc_calibration_free (ScCalibration *c)
{
  if (c == NULL)
    return;
  sc_device_free (c->device);
  g_clear_pointer (&c->tables, g_ptr_array_unref);
  g_clear_pointer (&c->fits, g_array_unref);
  g_clear_pointer (&c->table_fits, g_array_unref);
  g_clear_pointer (&c->reported, g_array_unref);
  g_clear_pointer (&c->warnings, g_ptr_array_unref);
  g_clear_pointer (&c->skipped, g_ptr_array_unref);
  g_free (c->base);
  g_free (c->provenance);
  g_free (c);
}

static void
fit_clear (gpointer data)
{
  g_free (((ScFit *) data)->note);
}

static void
reported_clear (gpointer data)
{
  g_free (((ScReported *) data)->what);
}

/* ---- Lines ---- */

static gboolean
has_range (const ScLinePoint *points, guint n)
{
  double least = G_MAXDOUBLE, most = 0;
  for (guint i = 0; i < n; i++)
    {
      least = MIN (least, points[i].bytes);
      most = MAX (most, points[i].bytes);
    }
  return n >= LEAST_POINTS && most >= LEAST_RANGE * least;
}

/* Relative errors count: each equation over the time that @line, the last fit, gives it.  (Over the measured time the left sides
 * would all be 1, by whose spread GSL scales its robust weights.) */
static gboolean
fit_robust (const ScLinePoint *points, guint n, double bytes, double seconds, ScLine *line)
{
  gsl_matrix *const x = gsl_matrix_alloc (n, 2), *const covariance = gsl_matrix_alloc (2, 2);
  gsl_vector *const y = gsl_vector_alloc (n), *const c = gsl_vector_alloc (2);
  gsl_multifit_robust_workspace *const work = gsl_multifit_robust_alloc (gsl_multifit_robust_bisquare, n, 2);
  gsl_multifit_robust_maxiter (ROBUST_ITERATIONS, work);
  for (guint i = 0; i < n; i++)
    {
      const double predicted = MAX (line->intercept_s + line->slope_s * points[i].bytes, points[i].seconds / 4);
      const double scale = seconds * sqrt (points[i].weight) / predicted;
      gsl_matrix_set (x, i, 0, scale);
      gsl_matrix_set (x, i, 1, scale * points[i].bytes / bytes);
      gsl_vector_set (y, i, scale * points[i].seconds / seconds);
    }
  const gboolean done = gsl_multifit_robust (x, y, c, covariance, work) == GSL_SUCCESS && isfinite (gsl_vector_get (c, 0))
                        && isfinite (gsl_vector_get (c, 1)) && isfinite (gsl_matrix_get (covariance, 0, 0));
  if (done)
    *line = (ScLine) { .intercept_s = gsl_vector_get (c, 0) * seconds,
                       .slope_s = gsl_vector_get (c, 1) * seconds / bytes,
                       .intercept_error_s = sqrt (MAX (gsl_matrix_get (covariance, 0, 0), 0)) * seconds };
  gsl_multifit_robust_free (work);
  gsl_matrix_free (x);
  gsl_matrix_free (covariance);
  gsl_vector_free (y);
  gsl_vector_free (c);
  return done;
}

gboolean
sc_line_fit (const ScLinePoint *points, guint n, ScLine *ret)
{
  if (!has_range (points, n))
    return FALSE;
  g_autofree double *x = g_new (double, 3 * (gsize) n);
  double *const y = x + n, *const w = y + n;
  double bytes = 0, seconds = 0; /* units in which both are about 1 */
  for (guint i = 0; i < n; i++)
    {
      bytes += points[i].bytes / n;
      seconds += points[i].seconds / n;
    }
  for (guint i = 0; i < n; i++)
    {
      x[i] = points[i].bytes / bytes;
      y[i] = points[i].seconds / seconds;
      w[i] = points[i].weight / (y[i] * y[i]);
    }
  double c0, c1, c00, c01, c11, chi2;
  if (gsl_fit_wlinear (x, 1, w, 1, y, 1, n, &c0, &c1, &c00, &c01, &c11, &chi2) != GSL_SUCCESS || !isfinite (c0) || !isfinite (c1))
    return FALSE;
  ScLine line = { .intercept_s = c0 * seconds,
                  .slope_s = c1 * seconds / bytes,
                  .intercept_error_s = sqrt (MAX (c00 * chi2 / MAX (n - 2, 1), 0)) * seconds };
  for (guint pass = 0; pass < 2; pass++)
    if (!fit_robust (points, n, bytes, seconds, &line))
      break; /* the weighted line then stands */
  *ret = line;
  return TRUE;
}

ScErrors
sc_line_cross_validate (const ScLinePoint *points, guint n)
{
  g_autofree ScLinePoint *seen = g_new (ScLinePoint, MAX (n, 1));
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (n, 1));
  const guint n_folds = MIN (n, N_FOLDS);
  guint n_judged = 0;
  for (guint fold = 0; fold < n_folds; fold++)
    {
      guint n_seen = 0;
      for (guint i = 0; i < n; i++)
        if (i % n_folds != fold)
          seen[n_seen++] = points[i];
      ScLine line;
      if (!sc_line_fit (seen, n_seen, &line))
        continue;
      for (guint i = fold; i < n; i += n_folds)
        {
          const double predicted = line.intercept_s + line.slope_s * points[i].bytes;
          if (predicted > 0)
            judged[n_judged++] = (ScPrediction) { predicted, points[i].seconds };
        }
    }
  return sc_errors_of (judged, n_judged);
}

/* ---- Rows ---- */

void
sc_kernel_rows_take (ScKernelRows *rows, ScKernelRows *more)
{
  ScMeasureSession *const to = &rows->session, *const from = &more->session;
  char **const texts[][2] = { { &to->gpu, &from->gpu },           { &to->driver, &from->driver }, { &to->cuda, &from->cuda },
                              { &to->cublaslt, &from->cublaslt }, { &to->cudnn, &from->cudnn },   { &to->nccl, &from->nccl },
                              { &to->started, &from->started },   { &to->program, &from->program } };
  if (more->raw)
    {
      for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
        {
          g_free (*texts[i][0]);
          *texts[i][0] = g_steal_pointer (texts[i][1]);
        }
      to->sms = from->sms;
      to->memory_bytes = from->memory_bytes;
      to->l2_bytes = from->l2_bytes;
      to->power_limit_w = from->power_limit_w;
      to->clock_sm_max_mhz = from->clock_sm_max_mhz;
      rows->raw = TRUE;
    }
  g_ptr_array_extend_and_steal (rows->rows, g_steal_pointer (&more->rows));
  sc_kernel_rows_free (more);
}

void
sc_kernel_rows_cite (ScKernelRows *rows)
{
  const ScMeasureSession *const s = &rows->session;
  g_autoptr (GString) text = g_string_new (s->program != NULL ? s->program : "stepcast-measure");
  if (s->gpu != NULL)
    g_string_append_printf (text, ", %s", s->gpu);
  if (s->driver != NULL)
    g_string_append_printf (text, ", driver %s", s->driver);
  if (s->cuda != NULL)
    g_string_append_printf (text, ", CUDA %s", s->cuda);
  if (s->started != NULL)
    g_string_append_printf (text, ", %.*s", (int) strcspn (s->started, "T"), s->started);
  for (guint i = 0; i < rows->rows->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (!row->raw)
        continue;
      if (row->source == NULL)
        row->source = g_strdup (text->str);
      if (row->gpu == NULL)
        row->gpu = g_strdup (s->gpu);
    }
}

static double
weight_of (const ScKernelRow *row)
{
  const double above = row->spread / SC_CALIBRATE_SPREAD;
  return above > 1 ? 1 / (above * above) : 1;
}

static gboolean
is_attention (const ScKernel *k)
{
  return k->class == SC_KERNEL_FLASH_FORWARD || k->class == SC_KERNEL_FLASH_BACKWARD;
}

/* ---- A calibration under way ---- */

typedef struct
{
  ScCalibration *c;
  ScDevice      *device;
  ScKernelRows   kept;    /* rows of this GPU that can be; borrowed */
  GPtrArray     *numbers; /* of them, those that numbers may rest on; borrowed */
  const char *const *training;
  const ScMeasureSession *session;
  GError       **error;
} Work;

static gboolean
is_training (const Work *w, const ScKernelRow *row)
{
  if (w->training == NULL)
    return row->raw && !(row->kind == SC_ROW_KERNEL && is_attention (&row->kernel) && g_str_has_prefix (row->stack, "unfused"));
  if (row->raw && row->kind != SC_ROW_KERNEL) /* launches, copies: of no library */
    return TRUE;
  for (guint i = 0; w->training[i] != NULL; i++)
    if (g_ascii_strcasecmp (w->training[i], row->stack) == 0 || strcmp (w->training[i], "all") == 0)
      return TRUE;
  return FALSE;
}

static double
rounded (double value)
{
  char text[64];
  g_snprintf (text, sizeof text, "%.*g", DIGITS, value);
  return g_ascii_strtod (text, NULL);
}

static gboolean G_GNUC_PRINTF (3, 4)
refuse (const Work *w, const char *key, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (w->error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: %s", key, message);
  return FALSE;
}

/* Where the rows of @used come from: one source, or how many more. */
static char *
provenance_of (const GPtrArray *used)
{
  g_autoptr (GPtrArray) sources = g_ptr_array_new ();
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      const char *const source = row->source != NULL ? row->source : row->stack;
      if (!g_ptr_array_find_with_equal_func (sources, source, g_str_equal, NULL))
        g_ptr_array_add (sources, (gpointer) (gsize) source);
    }
  if (sources->len == 0)
    return g_strdup ("");
  const char *const first = g_ptr_array_index (sources, 0);
  return sources->len == 1 ? g_strdup (first)
                           : g_strdup_printf ("%s and %u more source%s", first, sources->len - 1, sources->len == 2 ? "" : "s");
}

static void
append_error (GString *text, const ScErrors *errors)
{
  if (errors->n > 0)
    g_string_append_printf (text, ", cross-validated error %.1f %%", 100 * errors->median);
}

/* "SOURCES: 37 samples, robust fit, cross-validated error 3.1 %" */
static char *
cite (const GPtrArray *used, const char *how, const ScErrors *errors)
{
  g_autofree char *from = provenance_of (used);
  GString *const text = g_string_new (NULL);
  g_string_printf (text, "%s: %u sample%s, %s", from, used->len, used->len == 1 ? "" : "s", how);
  if (errors != NULL)
    append_error (text, errors);
  return g_string_free (text, FALSE);
}

static guint
count_wild (const GPtrArray *used)
{
  guint n = 0;
  for (guint i = 0; i < used->len; i++)
    n += ((const ScKernelRow *) g_ptr_array_index (used, i))->spread > SC_CALIBRATE_SPREAD;
  return n;
}

static ScFit *
add_fit (const Work *w, const char *key, ScUnit unit, double base, const GPtrArray *used)
{
  const ScFit fit = { .key = key, .unit = unit, .base = base, .value = NAN, .n = used->len, .n_wild = count_wild (used),
                      .errors = SC_NO_ERRORS };
  g_array_append_val (w->c->fits, fit);
  return &g_array_index (w->c->fits, ScFit, w->c->fits->len - 1);
}

static void G_GNUC_PRINTF (2, 3)
note (ScFit *fit, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  char *const all = fit->note != NULL ? g_strdup_printf ("%s; %s", fit->note, text) : g_strdup (text);
  g_free (fit->note);
  fit->note = all;
}

static void
note_too_few (ScFit *fit, const char *what)
{
  if (fit->n == 0 && fit->note != NULL)
    note (fit, "none is left");
  else if (fit->n == 0)
    note (fit, "no %s", what);
  else
    note (fit, "%u %s, a fit takes %d and more", fit->n, what, LEAST_POINTS);
}

static void
set_cited (ScCited *cited, double value, ScGrade grade, char *source)
{
  sc_cited_clear (cited);
  *cited = (ScCited) { .value = rounded (value), .grade = grade, .source = source };
}

/* @fit and @cited become @value. */
static void
set_fit (ScFit *fit, ScCited *cited, double value, ScGrade grade, char *source)
{
  set_cited (cited, value, grade, source);
  fit->fitted = TRUE;
  fit->value = cited->value;
}

/* Rows of one @kind (and, for kernels, one @class) on which numbers may rest; reads of a working set measure caches. */
static GPtrArray *
rows_of (const Work *w, ScRowKind kind, ScKernelClass class)
{
  GPtrArray *const found = g_ptr_array_new ();
  for (guint i = 0; i < w->numbers->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (w->numbers, i);
      if (row->kind == kind && (kind != SC_ROW_KERNEL || (row->kernel.class == class && row->kernel.op != SC_OP_READ)))
        g_ptr_array_add (found, row);
    }
  return found;
}

/* Weighted median of @value over @used. */
static double
median_of (const GPtrArray *used, double (*value) (const ScKernelRow *row))
{
  g_autofree double *values = g_new (double, MAX (used->len, 1)), *weights = g_new (double, MAX (used->len, 1));
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      values[i] = value (row);
      weights[i] = weight_of (row);
    }
  return sc_weighted_median (values, weights, used->len);
}

static double
seconds_of (const ScKernelRow *row)
{
  return row->seconds;
}

static double
factor_of (const ScKernelRow *row)
{
  return row->factor;
}

static double
flops_of (const ScKernelRow *row)
{
  return row->flops_per_s;
}

/* ---- Which rows ---- */

/* Faster than any GPU like it. */
static gboolean
is_impossible (const ScDevice *device, const ScKernelRow *row)
{
  const ScKernel *const k = &row->kernel;
  if (row->kind != SC_ROW_KERNEL || k->op == SC_OP_READ) /* a cache may serve it at any rate */
    return FALSE;
  if (k->flops > 0)
    return k->flops / row->seconds > ABOVE_DATASHEET * device->peak_flops[k->dtype].value;
  return k->bytes / row->seconds > ABOVE_CACHE * device->memory_bytes_per_s.value;
}

static void
count_why (GHashTable *why, char *text)
{
  const guint n = GPOINTER_TO_UINT (g_hash_table_lookup (why, text));
  g_hash_table_replace (why, text, GUINT_TO_POINTER (n + 1));
}

static int
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Counts of what was left out, in the order of the alphabet. */
static void
list_skipped (const Work *w, GHashTable *why)
{
  g_autoptr (GPtrArray) reasons = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer key;
  g_hash_table_iter_init (&iter, why);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    g_ptr_array_add (reasons, key);
  g_ptr_array_sort (reasons, compare_texts);
  for (guint i = 0; i < reasons->len; i++)
    {
      const char *const reason = g_ptr_array_index (reasons, i);
      const guint n = GPOINTER_TO_UINT (g_hash_table_lookup (why, reason));
      g_ptr_array_add (w->c->skipped, g_strdup_printf ("%u row%s: %s", n, n == 1 ? "" : "s", reason));
    }
}

static char *
kind_name (const ScKernel *k)
{
  return k->flops > 0 ? g_strdup_printf ("%s %s", sc_dtype_name (k->dtype), sc_kernel_class_name (k->class)) : g_strdup (sc_op_name (k->op));
}

/* Refuses a kind of kernel, and a stack of it, most of which runs faster than the datasheet. */
static gboolean
check_impossible (const Work *w, const ScKernelRows *rows, const ScKernelRow *first)
{
  guint n = 0, of = 0;
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind != SC_ROW_KERNEL || row->gpu == NULL || row->kernel.class != first->kernel.class || row->kernel.dtype != first->kernel.dtype
          || row->kernel.op != first->kernel.op || strcmp (row->stack, first->stack) != 0 || !sc_device_is_called (w->device, row->gpu))
        continue;
      of++;
      n += is_impossible (w->device, row);
    }
  if (n <= MOST_IMPOSSIBLE * of)
    return TRUE;
  g_autofree char *kind = kind_name (&first->kernel);
  const ScKernel *const k = &first->kernel;
  const gboolean product = k->flops > 0;
  g_autofree char *rate = product ? sc_format_flops (k->flops / first->seconds) : sc_format_rate (k->bytes / first->seconds);
  g_autofree char *most = product ? sc_format_flops (w->device->peak_flops[k->dtype].value) : sc_format_rate (w->device->memory_bytes_per_s.value);
  return refuse (w, kind, "found %u of %u rows (%s) above what the GPU can do (line %u: %s), expected at most %g x the datasheet's %s", n, of,
                 first->stack, first->line, rate, product ? ABOVE_DATASHEET : ABOVE_CACHE, most);
}

/* Fills kept and numbers. */
static gboolean
choose_rows (Work *w, const ScKernelRows *rows)
{
  g_autoptr (GHashTable) why = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < rows->rows->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind == SC_ROW_SKIPPED && row->is_session)
        continue;
      if (row->kind == SC_ROW_SKIPPED && (row->gpu == NULL || sc_device_is_called (w->device, row->gpu)))
        count_why (why, g_strdup (row->why));
      if (row->kind == SC_ROW_SKIPPED || row->kind == SC_ROW_LAYER || row->gpu == NULL || !sc_device_is_called (w->device, row->gpu))
        continue;
      if (row->kind == SC_ROW_KERNEL && row->kernel.flops > 0 && w->device->peak_flops[row->kernel.dtype].value <= 0)
        {
          count_why (why, g_strdup_printf ("%s has no %s rate", w->device->name, sc_dtype_name (row->kernel.dtype)));
          continue;
        }
      if (is_impossible (w->device, row))
        {
          if (!check_impossible (w, rows, row))
            return FALSE;
          g_autofree char *kind = kind_name (&row->kernel);
          count_why (why, g_strdup_printf ("%s faster than the GPU can", kind));
          continue;
        }
      g_ptr_array_add (w->kept.rows, row);
      if (is_training (w, row))
        g_ptr_array_add (w->numbers, row);
    }
  list_skipped (w, why);
  w->c->n_rows = w->kept.rows->len;
  w->c->n_numbers = w->numbers->len;
  w->c->n_wild = count_wild (w->kept.rows);
  w->c->provenance = provenance_of (w->kept.rows);
  if (w->kept.rows->len > 0)
    return TRUE;
  return refuse (w, w->device->name, "found no row that can be used, expected measured kernels of this GPU");
}

/* ---- Numbers ---- */

/* Rows of @used whose times say what memory does: buffers of stepcast-measure are always cold; of others, only those that no cache
 * holds, where there are enough. */
static guint
cold_points (const Work *w, GPtrArray *used, ScLinePoint *points)
{
  const double l2 = w->device->l2_bytes.value, most = w->device->memory_bytes_per_s.value;
  g_autoptr (GPtrArray) small = g_ptr_array_new ();
  const guint all = used->len;
  for (guint i = used->len; i-- > 0;)
    {
      ScKernelRow *const row = g_ptr_array_index (used, i);
      const double bytes = row->kernel.bytes;
      if (row->raw)
        continue;
      if (bytes / row->seconds > most && bytes < 4 * l2)
        g_ptr_array_remove_index (used, i);
      else if (bytes <= l2)
        g_ptr_array_add (small, row);
    }
  /* All of @used, or what no cache holds. */
  g_autoptr (GPtrArray) large = g_ptr_array_new ();
  guint n = 0;
  for (guint i = 0; i < used->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (used, i);
      if (g_ptr_array_find (small, row, NULL))
        continue;
      g_ptr_array_add (large, row);
      points[n++] = (ScLinePoint) { row->kernel.bytes, row->seconds, weight_of (row) };
    }
  const gboolean enough = has_range (points, n);
  if (enough)
    g_ptr_array_set_size (used, 0);
  for (guint i = 0; enough && i < large->len; i++)
    g_ptr_array_add (used, g_ptr_array_index (large, i));
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      points[i] = (ScLinePoint) { row->kernel.bytes, row->seconds, weight_of (row) };
    }
  return all - used->len;
}

static gboolean
check_rate (const Work *w, const ScFit *fit, const ScLine *line)
{
  const double most = w->device->memory_bytes_per_s.value;
  g_autofree char *datasheet = sc_format_rate (most);
  if (line->slope_s <= 0)
    return refuse (w, fit->key, "found times that fall as bytes grow over %u rows, expected a rate of at most %s", fit->n, datasheet);
  g_autofree char *rate = sc_format_rate (1 / line->slope_s);
  if (1 / line->slope_s < BELOW_DATASHEET * most)
    return refuse (w, fit->key, "found %s over %u rows, expected at least %g of the datasheet's %s (are times in microseconds?)", rate, fit->n,
                   BELOW_DATASHEET, datasheet);
  return 1 / line->slope_s <= ABOVE_DATASHEET * most
         || refuse (w, fit->key, "found %s over %u rows, expected at most %g x the datasheet's %s", rate, fit->n, ABOVE_DATASHEET, datasheet);
}

/* TRUE: the intercept makes sense, and is 0 or more then.  @least_s: the shortest of the times; below its error nothing is known. */
static gboolean
check_latency (const Work *w, ScFit *fit, ScLine *line, double least_s)
{
  if (line->intercept_s >= 0)
    return TRUE;
  const double unsure = fit->errors.n > 0 ? fit->errors.median * least_s : 0;
  const double below = MAX (MAX (SIGNIFICANT * line->intercept_error_s, unsure), LEAST_NEGATIVE_S);
  g_autofree char *found = sc_format_seconds (-line->intercept_s);
  g_autofree char *sure = sc_format_seconds (line->intercept_error_s);
  if (line->intercept_s < -below)
    return refuse (w, fit->key, "found a negative latency of %s (standard error %s) over %u rows, expected 0 or more", found, sure, fit->n);
  note (fit, "latency of -%s (standard error %s) taken as 0", found, sure);
  line->intercept_s = 0;
  return TRUE;
}

/* Rate of one class, and its line for the size of half a rate.  *ret_line: slope 0 where there is none. */
static gboolean
fit_bandwidth (const Work *w, const char *key, ScKernelClass class, const char *what, ScCited *cited, ScLine *ret_line, char **ret_source)
{
  g_autoptr (GPtrArray) used = rows_of (w, SC_ROW_KERNEL, class);
  g_autofree ScLinePoint *points = g_new (ScLinePoint, MAX (used->len, 1));
  const guint left_out = cold_points (w, used, points);
  ScFit *const fit = add_fit (w, key, SC_UNIT_BYTES_PER_S, cited->value, used);
  fit->n_left_out = left_out;
  *ret_line = (ScLine) { .slope_s = 0 };
  if (left_out > 0)
    note (fit, "%u row%s that a cache may have served left out", left_out, left_out == 1 ? "" : "s");
  if (used->len < LEAST_POINTS)
    {
      note_too_few (fit, what);
      return TRUE;
    }
  ScLine line;
  if (!sc_line_fit (points, used->len, &line))
    {
      note (fit, "%u %s, all of about one size", fit->n, what);
      return TRUE;
    }
  fit->errors = sc_line_cross_validate (points, used->len);
  if (!check_rate (w, fit, &line))
    return FALSE;
  if (fit->errors.median > POOR)
    {
      note (fit, "these kernels differ by more than one line can say");
      return TRUE;
    }
  double least_s = points[0].seconds;
  for (guint i = 1; i < used->len; i++)
    least_s = MIN (least_s, points[i].seconds);
  if (!check_latency (w, fit, &line, least_s))
    return FALSE;
  double rate = 1 / line.slope_s;
  if (rate > w->device->memory_bytes_per_s.value)
    {
      g_autofree char *found = sc_format_rate (rate);
      note (fit, "%s taken as the datasheet's rate", found);
      rate = w->device->memory_bytes_per_s.value;
    }
  *ret_source = cite (used, "robust fit of t = a + bytes/rate", &fit->errors);
  set_fit (fit, cited, rate, SC_GRADE_FITTED, g_strdup (*ret_source));
  *ret_line = line;
  return TRUE;
}

/* What the line of a class has beyond the launch, as bytes at its rate. */
static void
fit_half_size (const Work *w, const ScLine lines[3], char *const sources[3])
{
  static const char *const names[] = { "elementwise", "reduction", "optimizer" };
  ScCited *const cited = &w->device->half_bytes;
  g_autoptr (GPtrArray) none = g_ptr_array_new ();
  ScFit *const fit = add_fit (w, "half_size", SC_UNIT_BYTES, cited->value, none);
  guint i = 0;
  while (i < 2 && lines[i].slope_s <= 0)
    i++;
  if (i == 2)
    {
      note (fit, "no line of elementwise kernels or reductions");
      return;
    }
  const ScFit *const line_fit = &g_array_index (w->c->fits, ScFit, i + 1); /* behind the launch */
  fit->n = line_fit->n;
  const double beyond = lines[i].intercept_s - w->device->launch_s.value;
  if (beyond < 0)
    note (fit, "the line of %s kernels begins below the launch latency", names[i]);
  set_fit (fit, cited, MAX (beyond, 0) / lines[i].slope_s, SC_GRADE_FITTED,
           g_strdup_printf ("intercept of the %s line less the launch latency, as bytes; %s", names[i], sources[i]));
}

static gboolean
fit_memory (const Work *w)
{
  ScDevice *const d = w->device;
  static const char *const keys[] = { "elementwise_bandwidth", "reduction_bandwidth", "optimizer_bandwidth" };
  static const char *const what[] = { "elementwise kernels", "norms and softmax", "optimizer kernels" };
  ScCited *const cited[] = { &d->elementwise_bytes_per_s, &d->reduction_bytes_per_s, &d->optimizer_bytes_per_s };
  ScLine lines[3];
  char *sources[3] = { NULL, NULL, NULL };
  gboolean done = TRUE;
  for (guint i = 0; i < 3 && done; i++)
    done = fit_bandwidth (w, keys[i], (ScKernelClass) (SC_KERNEL_ELEMENTWISE + i), what[i], cited[i], &lines[i], &sources[i]);
  if (done)
    fit_half_size (w, lines, sources);
  for (guint i = 0; i < 3; i++)
    g_free (sources[i]);
  return done;
}

/* Rows of @kind that say @op. */
static GPtrArray *
rows_that (const Work *w, ScRowKind kind, const char *op)
{
  GPtrArray *const found = rows_of (w, kind, SC_N_KERNEL_CLASSES);
  for (guint i = found->len; i-- > 0;)
    if (strcmp (((const ScKernelRow *) g_ptr_array_index (found, i))->op, op) != 0)
      g_ptr_array_remove_index (found, i);
  return found;
}

static gboolean
fit_launch (const Work *w)
{
  g_autoptr (GPtrArray) used = rows_that (w, SC_ROW_LAUNCH, "launch");
  ScFit *const fit = add_fit (w, "launch_latency", SC_UNIT_SECONDS, w->device->launch_s.value, used);
  if (used->len == 0)
    {
      note (fit, "no launches");
      return TRUE;
    }
  const double median = median_of (used, seconds_of);
  if (!(median > 0 && median <= MOST_LAUNCH_S))
    return refuse (w, fit->key, "found %g s over %u rows, expected more than 0 and at most %g s", median, used->len, MOST_LAUNCH_S);
  set_fit (fit, &w->device->launch_s, median, SC_GRADE_MEASURED, cite (used, "an empty kernel in a full queue, median", NULL));
  return TRUE;
}

/* Sustained over burst rate, data type by data type: their median. */
static gboolean
fit_sustained (const Work *w)
{
  g_autoptr (GPtrArray) sustained = rows_that (w, SC_ROW_POWER, "sustained");
  g_autoptr (GPtrArray) used = g_ptr_array_new ();
  g_autofree double *ratios = g_new (double, MAX (sustained->len, 1)), *weights = g_new (double, MAX (sustained->len, 1));
  guint n = 0;
  for (guint i = 0; i < sustained->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (sustained, i);
      g_autoptr (GPtrArray) burst = rows_that (w, SC_ROW_POWER, "burst");
      for (guint j = burst->len; j-- > 0;)
        {
          const ScKernelRow *const other = g_ptr_array_index (burst, j);
          if (other->kernel.dtype != row->kernel.dtype || other->kernel.flops != row->kernel.flops || !(other->flops_per_s > 0))
            g_ptr_array_remove_index (burst, j);
        }
      if (burst->len == 0)
        continue;
      const double most = w->device->peak_flops[row->kernel.dtype].value, rate = median_of (burst, flops_of);
      if (most > 0 && MAX (rate, row->flops_per_s) > ABOVE_DATASHEET * most)
        {
          g_autofree char *found = sc_format_flops (MAX (rate, row->flops_per_s)), *datasheet = sc_format_flops (most);
          return refuse (w, "gemm_sustained", "found %s of %s, expected at most %g x the datasheet's %s", found,
                         sc_dtype_name (row->kernel.dtype), ABOVE_DATASHEET, datasheet);
        }
      ratios[n] = row->flops_per_s / rate;
      weights[n++] = weight_of (row);
      g_ptr_array_add (used, row);
    }
  ScFit *const fit = add_fit (w, "gemm_sustained", SC_UNIT_NONE, w->device->gemm_sustained.value, used);
  if (n == 0)
    {
      note (fit, "no sustained rate beside a burst rate of the same product");
      return TRUE;
    }
  double ratio = sc_weighted_median (ratios, weights, n);
  if (!(ratio >= 0.01 && ratio <= ABOVE_DATASHEET))
    return refuse (w, fit->key, "found a sustained rate of %.4g x the burst rate over %u rows, expected 0.01 to 1", ratio, n);
  if (ratio > 1)
    note (fit, "%.4g taken as 1", ratio);
  set_fit (fit, &w->device->gemm_sustained, MIN (ratio, 1), SC_GRADE_MEASURED, cite (used, "sustained over burst rate, median", NULL));
  return TRUE;
}

/* Weight gradients that add into fp32, over the plain product of the same size. */
static gboolean
fit_accumulate (const Work *w)
{
  g_autoptr (GPtrArray) all = rows_of (w, SC_ROW_KERNEL, SC_KERNEL_GEMM);
  g_autoptr (GPtrArray) used = g_ptr_array_new ();
  g_autofree double *ratios = g_new (double, MAX (all->len, 1)), *weights = g_new (double, MAX (all->len, 1));
  guint n = 0;
  for (guint i = 0; i < all->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (all, i);
      const ScKernel *const k = &row->kernel;
      for (guint j = 0; k->accumulate && k->layout == SC_GEMM_NT && j < all->len; j++)
        {
          const ScKernelRow *const plain = g_ptr_array_index (all, j);
          const ScKernel *const p = &plain->kernel;
          if (p->accumulate || p->layout != SC_GEMM_TN || p->dtype != k->dtype || p->m != k->m || p->n != k->n || p->k != k->k
              || strcmp (plain->stack, row->stack) != 0)
            continue;
          ratios[n] = row->seconds / plain->seconds;
          weights[n++] = MIN (weight_of (row), weight_of (plain));
          g_ptr_array_add (used, row);
          break;
        }
    }
  ScFit *const fit = add_fit (w, "gemm_accumulate", SC_UNIT_NONE, w->device->gemm_accumulate.value, used);
  if (n < LEAST_POINTS)
    {
      note_too_few (fit, "accumulating NT products beside a plain TN one of the same size");
      return TRUE;
    }
  const double ratio = sc_weighted_median (ratios, weights, n);
  if (!(ratio >= 0.5 && ratio <= 10))
    return refuse (w, fit->key, "found %.4g x the time of the plain product over %u pairs, expected 1 to 10", ratio, n);
  if (ratio < 1)
    note (fit, "%.4g taken as 1", ratio);
  set_fit (fit, &w->device->gemm_accumulate, MAX (ratio, 1), SC_GRADE_MEASURED,
           cite (used, "accumulating NT product over plain TN product, median", NULL));
  return TRUE;
}

/* What the form of batched products leaves for arithmetic. */
static gboolean
fit_batched (const Work *w)
{
  const ScDevice *const d = w->device;
  g_autoptr (GPtrArray) used = rows_of (w, SC_ROW_KERNEL, SC_KERNEL_BATCHED_GEMM);
  g_autofree double *shares = g_new (double, MAX (used->len, 1)), *weights = g_new (double, MAX (used->len, 1));
  const guint all = used->len;
  guint n = 0;
  for (guint i = 0; i < used->len;)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      const double memory_s = row->kernel.bytes / sc_form_memory_rate (d, &d->elementwise_bytes_per_s);
      const double busy_s = row->seconds - d->launch_s.value, math_s = sqrt (MAX (busy_s * busy_s - memory_s * memory_s, 0));
      if (busy_s <= 0 || math_s < LEAST_MATH * memory_s) /* it says little about arithmetic */
        {
          g_ptr_array_remove_index (used, i);
          continue;
        }
      shares[n] = row->kernel.flops / math_s / d->peak_flops[row->kernel.dtype].value;
      weights[n++] = weight_of (row);
      i++;
    }
  ScFit *const fit = add_fit (w, "batched_gemm_efficiency", SC_UNIT_NONE, d->batched_gemm_efficiency.value, used);
  fit->n_left_out = all - n;
  if (n < all)
    note (fit, "%u row%s bound by memory left out", all - n, all - n == 1 ? "" : "s");
  if (n < LEAST_POINTS)
    {
      note_too_few (fit, "batched products bound by arithmetic");
      return TRUE;
    }
  const double share = sc_weighted_median (shares, weights, n);
  if (!(share >= 0.01 && share <= 1))
    return refuse (w, fit->key, "found %.4g of the datasheet's rate over %u rows, expected 0.01 to 1", share, n);
  set_fit (fit, &w->device->batched_gemm_efficiency, share, SC_GRADE_FITTED, cite (used, "share of peak, median", NULL));
  return TRUE;
}

/* A product beside a collective, else beside a copy. */
static gboolean
fit_slowdown (const Work *w)
{
  static const char *const beside[] = { "collective", "copy" };
  g_autoptr (GPtrArray) used = NULL;
  guint b = 0;
  for (; b < G_N_ELEMENTS (beside); b++)
    {
      g_clear_pointer (&used, g_ptr_array_unref);
      used = rows_that (w, SC_ROW_SLOWDOWN, "gemm");
      for (guint i = used->len; i-- > 0;)
        {
          const ScKernelRow *const row = g_ptr_array_index (used, i);
          if (g_strcmp0 (row->beside, beside[b]) != 0 || !(row->factor > 0))
            g_ptr_array_remove_index (used, i);
        }
      if (used->len > 0)
        break;
    }
  ScFit *const fit = add_fit (w, "hidden_slowdown", SC_UNIT_NONE, w->device->hidden_slowdown.value, used);
  if (used->len == 0)
    {
      note (fit, "no products beside a collective or a copy");
      return TRUE;
    }
  const double factor = median_of (used, factor_of);
  if (!(factor >= 0.5 && factor <= 10))
    return refuse (w, fit->key, "found a factor of %.4g over %u rows, expected 1 to 10", factor, used->len);
  if (factor < 1)
    note (fit, "%.4g taken as 1", factor);
  if (b > 0)
    note (fit, "beside a copy: no collective was measured");
  g_autofree char *how = g_strdup_printf ("a product beside a %s over the product alone, median", beside[b]);
  set_fit (fit, &w->device->hidden_slowdown, MAX (factor, 1), SC_GRADE_MEASURED, cite (used, how, NULL));
  return TRUE;
}

/* ---- Copies to and from the host ---- */

/* Both ways of saying it: raw copies, and published ones. */
static GPtrArray *
host_copies (const Work *w, ScMemoryOp op, const char *word)
{
  GPtrArray *const found = rows_that (w, SC_ROW_COPY, word);
  g_autoptr (GPtrArray) published = rows_of (w, SC_ROW_KERNEL, SC_KERNEL_HOST_COPY);
  for (guint i = 0; i < published->len; i++)
    if (((const ScKernelRow *) g_ptr_array_index (published, i))->kernel.op == op)
      g_ptr_array_add (found, g_ptr_array_index (published, i));
  return found;
}

static double
bytes_of (const ScKernelRow *row)
{
  return row->kind == SC_ROW_COPY ? row->bytes : row->kernel.bytes;
}

static double
copy_rate_of (const ScKernelRow *row)
{
  return bytes_of (row) / row->seconds;
}

/* The rate of a line, or, of too few copies for one, that of the largest. */
static gboolean
fit_host_copy (const Work *w, const char *key, ScMemoryOp op, const char *word, ScCited *cited)
{
  g_autoptr (GPtrArray) used = host_copies (w, op, word);
  for (guint i = used->len; i-- > 0;)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      if (row->seconds <= 0 || bytes_of (row) < 1)
        g_ptr_array_remove_index (used, i);
    }
  g_autofree ScLinePoint *points = g_new (ScLinePoint, MAX (used->len, 1));
  double most = 0;
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      points[i] = (ScLinePoint) { bytes_of (row), row->seconds, weight_of (row) };
      most = MAX (most, points[i].bytes);
    }
  ScLine line;
  const gboolean has_line = sc_line_fit (points, used->len, &line);
  if (!has_line)
    for (guint i = used->len; i-- > 0;)
      if (bytes_of (g_ptr_array_index (used, i)) < most)
        g_ptr_array_remove_index (used, i);
  ScFit *const fit = add_fit (w, key, SC_UNIT_BYTES_PER_S, cited->value, used);
  if (used->len == 0)
    {
      note (fit, "no copies");
      return TRUE;
    }
  if (has_line)
    fit->errors = sc_line_cross_validate (points, used->len);
  const double rate = has_line ? 1 / line.slope_s : median_of (used, copy_rate_of);
  g_autofree char *found = sc_format_rate (rate), *memory = sc_format_rate (w->device->memory_bytes_per_s.value);
  if (!(rate >= 1e6 && rate <= w->device->memory_bytes_per_s.value))
    return refuse (w, key, "found %s over %u rows, expected at most the memory's %s", rate > 0 ? found : "times that fall as bytes grow", used->len, memory);
  set_fit (fit, cited, rate, has_line ? SC_GRADE_FITTED : SC_GRADE_MEASURED,
           cite (used, has_line ? "robust fit of t = a + bytes/rate" : "largest copy", has_line ? &fit->errors : NULL));
  return TRUE;
}

/* ---- Attention over length ---- */

static gboolean
on_curve (const ScKernelRow *row)
{
  const ScKernel *const k = &row->kernel;
  return k->causal && k->k == FLASH_HEAD && k->v_head_dim == FLASH_HEAD && (k->dtype == SC_DTYPE_BF16 || k->dtype == SC_DTYPE_FP16);
}

static int
compare_lengths (gconstpointer a, gconstpointer b)
{
  const guint x = (*(const ScKernelRow *const *) a)->kernel.seq, y = (*(const ScKernelRow *const *) b)->kernel.seq;
  return x < y ? -1 : x > y;
}

/* Median rate of rows [from, to), all of one length; of those that fill the GPU several times, where there are any. */
static double
rate_at_length (const Work *w, const GPtrArray *used, guint from, guint to)
{
  g_autofree double *rates = g_new (double, to - from), *weights = g_new (double, to - from);
  guint n = 0;
  for (guint pass = 0; pass < 2 && n == 0; pass++)
    for (guint i = from; i < to; i++)
      {
        const ScKernelRow *const row = g_ptr_array_index (used, i);
        const ScKernel *const k = &row->kernel;
        const double blocks = (double) k->batch * k->heads * ceil ((double) k->seq / FLASH_BLOCK);
        if (pass == 0 && blocks < FLASH_WAVES * w->device->sms.value)
          continue;
        rates[n] = k->flops / row->seconds;
        weights[n++] = weight_of (row);
      }
  return sc_weighted_median (rates, weights, n);
}

static gboolean
fit_curve (const Work *w, const char *key, ScKernelClass class, ScCurve *curve)
{
  g_autoptr (GPtrArray) used = rows_of (w, SC_ROW_KERNEL, class);
  for (guint i = used->len; i-- > 0;)
    if (!on_curve (g_ptr_array_index (used, i)))
      g_ptr_array_remove_index (used, i);
  g_ptr_array_sort (used, compare_lengths);
  ScFit *const fit = add_fit (w, key, SC_UNIT_FLOPS, NAN, used);
  g_autoptr (GArray) x = g_array_new (FALSE, FALSE, sizeof (double)), y = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint from = 0, to = 0; from < used->len; from = to)
    {
      const ScKernel *const k = &((const ScKernelRow *) g_ptr_array_index (used, from))->kernel;
      while (to < used->len && ((const ScKernelRow *) g_ptr_array_index (used, to))->kernel.seq == k->seq)
        to++;
      const double length = k->seq, rate = rounded (rate_at_length (w, used, from, to));
      g_array_append_val (x, length);
      g_array_append_val (y, rate);
    }
  if (x->len < LEAST_POINTS)
    {
      note (fit, "causal heads of %d at %u length%s, a curve takes %d and more", FLASH_HEAD, x->len, x->len == 1 ? "" : "s", LEAST_POINTS);
      return TRUE;
    }
  const double least = BELOW_DATASHEET * w->device->peak_flops[((const ScKernelRow *) g_ptr_array_index (used, 0))->kernel.dtype].value;
  for (guint i = 0; i < y->len; i++)
    if (g_array_index (y, double, i) < least)
      {
        g_autofree char *found = sc_format_flops (g_array_index (y, double, i)), *expected = sc_format_flops (least);
        return refuse (w, key, "found %s at %.0f tokens, expected at least %s (are times in microseconds?)", found, g_array_index (x, double, i), expected);
      }
  sc_curve_clear (curve);
  *curve = (ScCurve) { .n = x->len, .grade = SC_GRADE_MEASURED };
  curve->x = (double *) (void *) g_array_free (g_steal_pointer (&x), FALSE);
  curve->y = (double *) (void *) g_array_free (g_steal_pointer (&y), FALSE);
  curve->source = cite (used, "causal, head size 128, median per length", NULL);
  fit->fitted = TRUE;
  g_autofree double *rates = g_memdup2 (curve->y, curve->n * sizeof *curve->y);
  fit->value = sc_median (rates, curve->n);
  note (fit, "%u lengths of %.0f to %.0f tokens", curve->n, curve->x[0], curve->x[curve->n - 1]);
  return TRUE;
}

static gboolean
fit_curves (const Work *w)
{
  ScDevice *const d = w->device;
  const gboolean had = d->flash_forward.n > 0;
  if (!fit_curve (w, "flash_forward", SC_KERNEL_FLASH_FORWARD, &d->flash_forward)
      || !fit_curve (w, "flash_backward", SC_KERNEL_FLASH_BACKWARD, &d->flash_backward))
    return FALSE;
  if (had || (d->flash_forward.n > 0) == (d->flash_backward.n > 0))
    return TRUE;
  /* A file has both or none. */
  for (guint i = w->c->fits->len - 2; i < w->c->fits->len; i++)
    {
      ScFit *const fit = &g_array_index (w->c->fits, ScFit, i);
      if (fit->fitted)
        note (fit, "left out: the other direction is missing");
      fit->fitted = FALSE;
    }
  sc_curve_clear (&d->flash_forward);
  sc_curve_clear (&d->flash_backward);
  return TRUE;
}

/* ---- Tables ---- */

/* At the lowest efficiency, much slower still. */
static gboolean
check_not_slow (const Work *w, const ScSampleTable *table)
{
  const ScCited low = { .value = table->efficiency.value, .grade = SC_GRADE_FITTED };
  g_autofree double *ratios = g_new (double, MAX (table->n, 1));
  for (guint i = 0; i < table->n; i++)
    ratios[i] = table->seconds[i] / sc_kernel_form (w->device, &table->kernels[i], &low, 1).seconds;
  const double slower = sc_median (ratios, table->n);
  if (slower <= ABOVE_DATASHEET * 2)
    return TRUE;
  g_autofree char *key = g_strdup_printf ("%s table of %s (%s)", sc_kernel_class_name (table->class), sc_dtype_name (table->dtype), table->stack);
  return refuse (w, key, "found times of %.3g times those at %g of the datasheet's rate over %u row%s (are they in microseconds?)", slower,
                 table->efficiency.value, table->n, table->n == 1 ? "" : "s");
}

/* Refuses a table most of whose larger rows are faster than the form at an efficiency of 1.  Where launches are a good part of the
 * time, or memory decides, times say nothing about that. */
static gboolean
check_efficiency (const Work *w, const ScSampleTable *table)
{
  if (table->efficiency.value <= 0 || (table->efficiency.value < 1 && table->efficiency.value > 2 * BELOW_DATASHEET))
    return TRUE;
  if (table->efficiency.value < 1)
    return check_not_slow (w, table);
  const ScCited one = { .value = 1, .grade = SC_GRADE_FITTED }, half = { .value = 0.5, .grade = SC_GRADE_FITTED };
  g_autofree double *ratios = g_new (double, MAX (table->n, 1));
  guint n = 0;
  for (guint i = 0; i < table->n; i++)
    {
      const ScKernel *const k = &table->kernels[i];
      const double s = sc_kernel_form (w->device, k, &one, 1).seconds, slow = sc_kernel_form (w->device, k, &half, 1).seconds;
      if (s >= LEAST_LAUNCHES * w->device->launch_s.value && slow >= 1.5 * s)
        ratios[n++] = s / table->seconds[i];
    }
  g_autofree char *key = g_strdup_printf ("%s table of %s (%s)", sc_kernel_class_name (table->class), sc_dtype_name (table->dtype), table->stack);
  const double over = sc_median (ratios, n);
  if (n > 0 && over > ABOVE_DATASHEET)
    return refuse (w, key, "found an efficiency of %.3g over %u row%s, expected at most 1", over, n, n == 1 ? "" : "s");
  g_ptr_array_add (w->c->warnings, g_strdup_printf ("%s: faster than the formula at an efficiency of 1, which it takes", key));
  return TRUE;
}

static const ScKernelRow *
first_row_of (const Work *w, const ScSampleTable *table)
{
  for (guint i = 0; i < w->kept.rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (w->kept.rows, i);
      if (row->kind == SC_ROW_KERNEL && row->kernel.class == table->class && row->kernel.dtype == table->dtype && row->kernel.op == table->op
          && strcmp (row->stack, table->stack) == 0)
        return row;
    }
  g_return_val_if_reached (NULL);
}

static guint
wild_of (const Work *w, const ScSampleTable *table)
{
  guint n = 0;
  for (guint i = 0; i < w->kept.rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (w->kept.rows, i);
      n += row->kind == SC_ROW_KERNEL && row->kernel.class == table->class && row->kernel.dtype == table->dtype
           && row->kernel.op == table->op && strcmp (row->stack, table->stack) == 0 && row->spread > SC_CALIBRATE_SPREAD;
    }
  return n;
}

/* Forecasts rest on the first training table of a kind: it stands for those of the base. */
static gboolean
stands_for (const GPtrArray *tables, const ScSampleTable *other)
{
  for (guint i = 0; i < tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (tables, i);
      if (table->training && table->class == other->class && table->dtype == other->dtype && table->op == other->op)
        return TRUE;
    }
  return FALSE;
}

/* Tables of the rows, in front of those of the base that forecasts rest on where nothing stands for them. */
static void
warn_of_second_tables (const Work *w, const GPtrArray *tables)
{
  for (guint i = 0; i < tables->len; i++)
    {
      const ScSampleTable *const second = g_ptr_array_index (tables, i);
      for (guint j = 0; j < i && second->training; j++)
        {
          const ScSampleTable *const first = g_ptr_array_index (tables, j);
          const gboolean halves = first->dtype <= SC_DTYPE_FP16 && second->dtype <= SC_DTYPE_FP16;
          if (!first->training || first->class != second->class || first->op != second->op || (first->dtype != second->dtype && !halves))
            continue;
          g_ptr_array_add (w->c->warnings,
                           g_strdup_printf ("%s %s of %s and of %s: forecasts take %s; --training names one", sc_kernel_class_name (first->class),
                                            sc_dtype_name (second->dtype), first->stack, second->stack,
                                            first->dtype == second->dtype ? first->stack : "each for its own type"));
          break;
        }
    }
}

static gboolean
make_tables (const Work *w)
{
  ScDevice *const d = w->device;
  g_autoptr (GPtrArray) tables = sc_sample_tables_new (d, &w->kept);
  for (guint i = 0; i < tables->len; i++)
    {
      ScSampleTable *const table = g_ptr_array_index (tables, i);
      const ScKernelRow *const row = first_row_of (w, table);
      table->training = is_training (w, row);
      if (table->n > MOST_SHAPES)
        return refuse (w, sc_kernel_class_name (table->class), "found %u rows of %s, expected at most %u", table->n, table->stack, MOST_SHAPES);
      if (!check_efficiency (w, table))
        return FALSE;
      if (table->efficiency.value > 0)
        table->efficiency.source = g_strdup ("median of the larger half");
      g_ptr_array_add (w->c->tables, table);
    }
  warn_of_second_tables (w, tables);
  GPtrArray *const base = g_steal_pointer (&d->tables);
  d->tables = g_steal_pointer (&tables);
  for (guint i = 0; base != NULL && i < base->len;)
    if (!((const ScSampleTable *) g_ptr_array_index (base, i))->training || stands_for (w->c->tables, g_ptr_array_index (base, i)))
      i++;
    else
      {
        g_ptr_array_add (d->tables, g_ptr_array_steal_index (base, i));
        w->c->n_kept_tables++;
      }
  if (base != NULL)
    g_ptr_array_unref (base);
  if (d->tables->len == 0)
    g_clear_pointer (&d->tables, g_ptr_array_unref);
  return TRUE;
}

/* The efficiency under bf16 products, else fp16 ones, becomes the device's. */
static void
fit_tile_efficiency (const Work *w)
{
  static const ScDtype dtypes[] = { SC_DTYPE_BF16, SC_DTYPE_FP16 };
  const ScSampleTable *best = NULL;
  for (guint d = 0; d < G_N_ELEMENTS (dtypes) && best == NULL; d++)
    for (guint i = 0; i < w->c->tables->len && best == NULL; i++)
      {
        const ScSampleTable *const table = g_ptr_array_index (w->c->tables, i);
        if (table->training && table->class == SC_KERNEL_GEMM && table->dtype == dtypes[d] && table->n >= LEAST_POINTS)
          best = table;
      }
  g_autoptr (GPtrArray) used = g_ptr_array_new ();
  for (guint i = 0; best != NULL && i < w->numbers->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (w->numbers, i);
      if (row->kind == SC_ROW_KERNEL && row->kernel.class == best->class && row->kernel.dtype == best->dtype && strcmp (row->stack, best->stack) == 0)
        g_ptr_array_add (used, row);
    }
  ScFit *const fit = add_fit (w, "gemm_tile_efficiency", SC_UNIT_NONE, w->device->gemm_tile_efficiency.value, used);
  if (best == NULL)
    {
      note (fit, "no table of %d and more products in bf16 or fp16", LEAST_POINTS);
      return;
    }
  set_fit (fit, &w->device->gemm_tile_efficiency, best->efficiency.value, SC_GRADE_FITTED,
           cite (used, "the wave model meets the median of the larger half", NULL));
}

/* ---- Errors of tables ---- */

static ScErrors
table_errors (const ScDevice *device, const ScSampleTable *table, ScHoldOut hold_out)
{
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (table->n, 1));
  guint n = 0;
  for (guint i = 0; i < table->n; i++)
    {
      double distance;
      const double predicted = sc_samples_predict (device, table, &table->kernels[i], hold_out, &distance);
      if (isfinite (distance)) /* else nothing is left to predict from */
        judged[n++] = (ScPrediction) { predicted, table->seconds[i] };
    }
  return sc_errors_of (judged, n);
}

/* What the formula alone says about sample @i.  (Residuals are of places, several samples of a shape have one.) */
static double
form_s (const ScDevice *device, const ScSampleTable *table, guint i)
{
  return sc_kernel_form (device, &table->kernels[i], sc_samples_efficiency (device, table), 1).seconds;
}

static ScErrors
form_errors (const ScDevice *device, const ScSampleTable *table)
{
  g_autofree ScPrediction *judged = g_new (ScPrediction, MAX (table->n, 1));
  for (guint i = 0; i < table->n; i++)
    judged[i] = (ScPrediction) { form_s (device, table, i), table->seconds[i] };
  return sc_errors_of (judged, table->n);
}

static void
judge_tables (const Work *w)
{
  for (guint i = 0; i < w->c->tables->len; i++)
    {
      const ScSampleTable *const table = g_ptr_array_index (w->c->tables, i);
      ScTableFit fit = { .table = table, .raw = first_row_of (w, table)->raw, .n_wild = wild_of (w, table) };
      fit.form = form_errors (w->device, table);
      fit.point = table_errors (w->device, table, SC_HOLD_POINT);
      fit.shape = table->class == SC_KERNEL_GEMM ? table_errors (w->device, table, SC_HOLD_SHAPE) : SC_NO_ERRORS;
      g_array_append_val (w->c->table_fits, fit);
      if (2 * fit.n_wild > table->n)
        {
          g_autofree char *kind = kind_name (&table->kernels[0]);
          g_ptr_array_add (w->c->warnings, g_strdup_printf ("%s (%s): %u of %u rows spread over more than %g of their median: measure again",
                                                            kind, table->stack, fit.n_wild, table->n, SC_CALIBRATE_SPREAD));
        }
    }
}

void
sc_calibration_write_points (const ScCalibration *c, GString *out)
{
  g_string_append (out, "class\tdtype\top\tstack\tamount\tmeasured_us\tform_us\theld_out_us\n");
  for (guint t = 0; t < c->tables->len; t++)
    {
      const ScSampleTable *const table = g_ptr_array_index (c->tables, t);
      for (guint i = 0; i < table->n; i++)
        {
          const ScKernel *const k = &table->kernels[i];
          double distance;
          const double held_out = sc_samples_predict (c->device, table, k, SC_HOLD_POINT, &distance);
          g_autofree char *stack = g_strdelimit (g_strdup (table->stack), "\t\n\r", ' ');
          g_string_append_printf (out, "%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\n", sc_kernel_class_name (table->class),
                                  sc_dtype_name (table->dtype), k->flops > 0 ? "-" : sc_op_name (table->op), stack,
                                  k->flops > 0 ? k->flops : k->bytes, table->seconds[i] * 1e6,
                                  form_s (c->device, table, i) * 1e6, held_out * 1e6);
        }
    }
}

/* ---- What has no number, and what looks odd ---- */

static void
report_rows (const Work *w, ScRowKind kind, const char *op, const char *what, ScUnit unit, double (*value) (const ScKernelRow *row))
{
  g_autoptr (GPtrArray) used = rows_that (w, kind, op);
  /* a rate is that of the largest transfers */
  double most = 0;
  for (guint i = 0; i < used->len; i++)
    most = MAX (most, ((const ScKernelRow *) g_ptr_array_index (used, i))->bytes);
  for (guint i = used->len; i-- > 0;)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      if (row->seconds <= 0 || (unit == SC_UNIT_BYTES_PER_S && row->bytes < most))
        g_ptr_array_remove_index (used, i);
    }
  if (used->len == 0)
    return;
  const ScReported reported = { .what = g_strdup (what), .unit = unit, .value = rounded (median_of (used, value)), .n = used->len };
  g_array_append_val (w->c->reported, reported);
}

static void
report_others (const Work *w)
{
  report_rows (w, SC_ROW_LAUNCH, "graph", "a kernel in a graph", SC_UNIT_SECONDS, seconds_of);
  report_rows (w, SC_ROW_LAUNCH, "issue", "host time of a launch", SC_UNIT_SECONDS, seconds_of);
  report_rows (w, SC_ROW_LAUNCH, "issue_gemm", "host time of a product", SC_UNIT_SECONDS, seconds_of);
  report_rows (w, SC_ROW_COPY, "p2p", "largest copies between GPUs", SC_UNIT_BYTES_PER_S, copy_rate_of);
  guint n = 0;
  for (guint i = 0; i < w->kept.rows->len; i++)
    n += ((const ScKernelRow *) g_ptr_array_index (w->kept.rows, i))->kind == SC_ROW_COLLECTIVE;
  if (n > 0)
    g_ptr_array_add (w->c->skipped, g_strdup_printf ("%u row%s: collectives, which a device file does not describe", n, n == 1 ? "" : "s"));
}

static void
warn_session (const Work *w)
{
  const ScMeasureSession *const s = w->session;
  if (s->gpu == NULL || !sc_device_is_called (w->device, s->gpu))
    return;
  const struct
  {
    const char *what;
    double said, base, tolerance;
    gboolean bytes;
  } rows[] = { { "SMs", s->sms, w->device->sms.value, 0, FALSE },
               { "memory", s->memory_bytes, w->device->memory_bytes.value, 0.02, TRUE },
               { "L2", s->l2_bytes, w->device->l2_bytes.value, 0.01, TRUE } };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      if (rows[i].said <= 0 || fabs (rows[i].said / rows[i].base - 1) <= rows[i].tolerance)
        continue;
      g_autofree char *said = rows[i].bytes ? sc_format_bytes (rows[i].said) : g_strdup_printf ("%.0f", rows[i].said);
      g_autofree char *base = rows[i].bytes ? sc_format_bytes (rows[i].base) : g_strdup_printf ("%.0f", rows[i].base);
      g_ptr_array_add (w->c->warnings, g_strdup_printf ("the file says %s of %s, the base %s: the base's stays", said, rows[i].what, base));
    }
}

/* ---- All of it ---- */

ScCalibration *
sc_calibrate_take (ScDevice *base, const ScKernelRows *rows, const char *const *training, gboolean samples_only, GError **error)
{
  g_autoptr (ScCalibration) c = g_new0 (ScCalibration, 1);
  c->device = base;
  c->base = g_strdup (base->name);
  c->tables = g_ptr_array_new ();
  c->fits = g_array_new (FALSE, FALSE, sizeof (ScFit));
  g_array_set_clear_func (c->fits, fit_clear);
  c->table_fits = g_array_new (FALSE, FALSE, sizeof (ScTableFit));
  c->reported = g_array_new (FALSE, FALSE, sizeof (ScReported));
  g_array_set_clear_func (c->reported, reported_clear);
  c->warnings = g_ptr_array_new_with_free_func (g_free);
  c->skipped = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) kept = g_ptr_array_new (), numbers = g_ptr_array_new ();
  Work w = { .c = c, .device = base, .kept = { .rows = kept, .raw = rows->raw }, .numbers = numbers, .training = training,
             .session = &rows->session, .error = error };
  if (!choose_rows (&w, rows))
    return NULL;
  c->samples_only = samples_only;
  if (!samples_only
      && (!fit_launch (&w) || !fit_memory (&w) || !fit_sustained (&w) || !fit_accumulate (&w) || !fit_batched (&w) || !fit_slowdown (&w)
          || !fit_host_copy (&w, "h2d_bandwidth", SC_OP_HOST_TO_DEVICE, "h2d", &base->h2d_bytes_per_s)
          || !fit_host_copy (&w, "d2h_bandwidth", SC_OP_DEVICE_TO_HOST, "d2h", &base->d2h_bytes_per_s) || !fit_curves (&w)))
    return NULL;
  if (!make_tables (&w))
    return NULL;
  if (!samples_only)
    fit_tile_efficiency (&w);
  sc_device_prepare (base);
  judge_tables (&w);
  report_others (&w);
  warn_session (&w);
  return g_steal_pointer (&c);
}
