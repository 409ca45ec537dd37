/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate.c - which rows a calibration rests on, and what it says beside its fits (calibrate-numbers.c, calibrate-tables.c). */
#include "calibrate-parts.h"
#include "device-json.h"
#include <math.h>
#include <string.h>

/* Caches move several times what memory does; no cache does this many times as much. */
#define ABOVE_CACHE 8.0

/* So many of a kind's rows above the datasheet are no accident. */
#define MOST_IMPOSSIBLE 0.1

#define DIGITS 5

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

/* ---- Rows ---- */

double
sc_calibrate_weight_of (const ScKernelRow *row)
{
  const double above = row->spread / SC_CALIBRATE_SPREAD;
  return above > 1 ? 1 / (above * above) : 1;
}

static gboolean
is_attention (const ScKernel *k)
{
  return k->class == SC_KERNEL_FLASH_FORWARD || k->class == SC_KERNEL_FLASH_BACKWARD;
}

gboolean
sc_calibrate_is_training (const Calibrating *w, const ScKernelRow *row)
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

double
sc_calibrate_seconds_of (const ScKernelRow *row)
{
  return row->seconds;
}

double
sc_calibrate_bytes_of (const ScKernelRow *row)
{
  return row->kind == SC_ROW_COPY ? row->bytes : row->kernel.bytes;
}

double
sc_calibrate_copy_rate_of (const ScKernelRow *row)
{
  return sc_calibrate_bytes_of (row) / row->seconds;
}

char *
sc_calibrate_kind_name (const ScKernel *k)
{
  return k->flops > 0 ? g_strdup_printf ("%s %s", sc_dtype_name (k->dtype), sc_kernel_class_name (k->class)) : g_strdup (sc_op_name (k->op));
}

/* Rows of one @kind (and, for kernels, one @class) on which numbers may rest; reads of a working set measure caches. */
GPtrArray *
sc_calibrate_rows_of (const Calibrating *w, ScRowKind kind, ScKernelClass class)
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

/* Rows of @kind that say @op. */
GPtrArray *
sc_calibrate_rows_that (const Calibrating *w, ScRowKind kind, const char *op)
{
  GPtrArray *const found = sc_calibrate_rows_of (w, kind, SC_N_KERNEL_CLASSES);
  for (guint i = found->len; i-- > 0;)
    if (strcmp (((const ScKernelRow *) g_ptr_array_index (found, i))->op, op) != 0)
      g_ptr_array_remove_index (found, i);
  return found;
}

/* Weighted median of @value over @used. */
double
sc_calibrate_median_of (const GPtrArray *used, double (*value) (const ScKernelRow *row))
{
  g_autofree double *values = g_new (double, MAX (used->len, 1)), *weights = g_new (double, MAX (used->len, 1));
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      values[i] = value (row);
      weights[i] = sc_calibrate_weight_of (row);
    }
  return sc_weighted_median (values, weights, used->len);
}

/* ---- What becomes of a fit ---- */

gboolean
sc_calibrate_refuse (const Calibrating *w, const char *key, const char *format, ...)
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
char *
sc_calibrate_cite (const GPtrArray *used, const char *how, const ScErrors *errors)
{
  g_autofree char *from = provenance_of (used);
  GString *const text = g_string_new (NULL);
  g_string_printf (text, "%s: %u sample%s, %s", from, used->len, used->len == 1 ? "" : "s", how);
  if (errors != NULL)
    append_error (text, errors);
  return g_string_free (text, FALSE);
}

double
sc_calibrate_rounded (double value)
{
  char text[64];
  g_snprintf (text, sizeof text, "%.*g", DIGITS, value);
  return g_ascii_strtod (text, NULL);
}

static guint
count_wild (const GPtrArray *used)
{
  guint n = 0;
  for (guint i = 0; i < used->len; i++)
    n += ((const ScKernelRow *) g_ptr_array_index (used, i))->spread > SC_CALIBRATE_SPREAD;
  return n;
}

ScFit *
sc_calibrate_add_fit (const Calibrating *w, const char *key, ScUnit unit, double base, const GPtrArray *used)
{
  const ScFit fit = { .key = key, .unit = unit, .base = base, .value = NAN, .n = used->len, .n_wild = count_wild (used),
                      .errors = SC_NO_ERRORS };
  g_array_append_val (w->c->fits, fit);
  return &g_array_index (w->c->fits, ScFit, w->c->fits->len - 1);
}

void
sc_calibrate_note (ScFit *fit, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  char *const all = fit->note != NULL ? g_strdup_printf ("%s; %s", fit->note, text) : g_strdup (text);
  g_free (fit->note);
  fit->note = all;
}

void
sc_calibrate_note_too_few (ScFit *fit, const char *what)
{
  if (fit->n == 0 && fit->note != NULL)
    sc_calibrate_note (fit, "none is left");
  else if (fit->n == 0)
    sc_calibrate_note (fit, "no %s", what);
  else
    sc_calibrate_note (fit, "%u %s, a fit takes %d and more", fit->n, what, SC_FIT_LEAST_POINTS);
}

static void
set_cited (ScCited *cited, double value, ScGrade grade, char *source)
{
  sc_cited_clear (cited);
  *cited = (ScCited) { .value = sc_calibrate_rounded (value), .grade = grade, .source = source };
}

/* @fit and @cited become @value. */
void
sc_calibrate_set_fit (ScFit *fit, ScCited *cited, double value, ScGrade grade, char *source)
{
  set_cited (cited, value, grade, source);
  fit->fitted = TRUE;
  fit->value = cited->value;
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
list_skipped (const Calibrating *w, GHashTable *why)
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

/* Refuses a kind of kernel, and a stack of it, most of which runs faster than the datasheet. */
static gboolean
check_impossible (const Calibrating *w, const ScKernelRows *rows, const ScKernelRow *first)
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
  g_autofree char *kind = sc_calibrate_kind_name (&first->kernel);
  const ScKernel *const k = &first->kernel;
  const gboolean product = k->flops > 0;
  g_autofree char *rate = product ? sc_format_flops (k->flops / first->seconds) : sc_format_rate (k->bytes / first->seconds);
  g_autofree char *most = product ? sc_format_flops (w->device->peak_flops[k->dtype].value) : sc_format_rate (w->device->memory_bytes_per_s.value);
  return sc_calibrate_refuse (w, kind,
                              "found %u of %u rows (%s) above what the GPU can do (line %u: %s), expected at most %g x the datasheet's %s",
                              n, of, first->stack, first->line, rate, product ? ABOVE_DATASHEET : ABOVE_CACHE, most);
}

/* Fills kept and numbers. */
static gboolean
choose_rows (Calibrating *w, const ScKernelRows *rows)
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
          g_autofree char *kind = sc_calibrate_kind_name (&row->kernel);
          count_why (why, g_strdup_printf ("%s faster than the GPU can", kind));
          continue;
        }
      g_ptr_array_add (w->kept.rows, row);
      if (sc_calibrate_is_training (w, row))
        g_ptr_array_add (w->numbers, row);
    }
  list_skipped (w, why);
  w->c->n_rows = w->kept.rows->len;
  w->c->n_numbers = w->numbers->len;
  w->c->n_wild = count_wild (w->kept.rows);
  w->c->provenance = provenance_of (w->kept.rows);
  if (w->kept.rows->len > 0)
    return TRUE;
  return sc_calibrate_refuse (w, w->device->name, "found no row that can be used, expected measured kernels of this GPU");
}

/* ---- What has no number, and what looks odd ---- */

static void
report_rows (const Calibrating *w, ScRowKind kind, const char *op, const char *what, ScUnit unit, double (*value) (const ScKernelRow *row))
{
  g_autoptr (GPtrArray) used = sc_calibrate_rows_that (w, kind, op);
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
  const ScReported reported = { .what = g_strdup (what), .unit = unit,
                                .value = sc_calibrate_rounded (sc_calibrate_median_of (used, value)), .n = used->len };
  g_array_append_val (w->c->reported, reported);
}

static void
report_others (const Calibrating *w)
{
  report_rows (w, SC_ROW_LAUNCH, "graph", "a kernel in a graph", SC_UNIT_SECONDS, sc_calibrate_seconds_of);
  report_rows (w, SC_ROW_LAUNCH, "issue", "host time of a launch", SC_UNIT_SECONDS, sc_calibrate_seconds_of);
  report_rows (w, SC_ROW_LAUNCH, "issue_gemm", "host time of a product", SC_UNIT_SECONDS, sc_calibrate_seconds_of);
  report_rows (w, SC_ROW_COPY, "p2p", "largest copies between GPUs", SC_UNIT_BYTES_PER_S, sc_calibrate_copy_rate_of);
  guint n = 0;
  for (guint i = 0; i < w->kept.rows->len; i++)
    n += ((const ScKernelRow *) g_ptr_array_index (w->kept.rows, i))->kind == SC_ROW_COLLECTIVE;
  if (n > 0)
    g_ptr_array_add (w->c->skipped, g_strdup_printf ("%u row%s: collectives, which a device file does not describe", n, n == 1 ? "" : "s"));
}

static void
warn_session (const Calibrating *w)
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
  Calibrating w = { .c = c, .device = base, .kept = { .rows = kept, .raw = rows->raw }, .numbers = numbers, .training = training,
                    .session = &rows->session, .error = error };
  if (!choose_rows (&w, rows))
    return NULL;
  c->samples_only = samples_only;
  if ((!samples_only && !sc_calibrate_numbers (&w)) || !sc_calibrate_tables (&w))
    return NULL;
  if (!samples_only)
    sc_calibrate_tile_efficiency (&w);
  sc_device_prepare (base);
  sc_calibrate_judge_tables (&w);
  report_others (&w);
  warn_session (&w);
  return g_steal_pointer (&c);
}
