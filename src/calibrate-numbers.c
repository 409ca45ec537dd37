/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate-numbers.c - the numbers of a device, one by one, taken in the order in which one rests on another. */
#include "calibrate-parts.h"
#include "models/kernel-form.h"
#include <math.h>
#include <string.h>

#define MOST_LAUNCH_S 1e-3

/* Below 0 by so many standard errors and seconds, an intercept is nonsense, not noise. */
#define SIGNIFICANT 3.0
#define LEAST_NEGATIVE_S 0.3e-6

/* Where arithmetic takes a smaller share of a batched product's memory time, noise of the whole is many times as much of it. */
#define LEAST_MATH 0.5

/* A line with a larger cross-validated error is none. */
#define POOR 0.15

/* Products that spread over fewer waves of blocks of 128 queries measure the tail, not the rate. */
#define FLASH_BLOCK 128
#define FLASH_WAVES 4
#define FLASH_HEAD 128

/* ---- Lines of memory-bound kernels ---- */

/* Rows of @used whose times say what memory does: buffers of stepcast-measure are always cold; of others, only those that no cache
 * holds, where there are enough. */
static guint
cold_points (const Calibrating *w, GPtrArray *used, ScLinePoint *points)
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
      points[n++] = (ScLinePoint) { row->kernel.bytes, row->seconds, sc_calibrate_weight_of (row) };
    }
  const gboolean enough = sc_line_has_range (points, n);
  if (enough)
    g_ptr_array_set_size (used, 0);
  for (guint i = 0; enough && i < large->len; i++)
    g_ptr_array_add (used, g_ptr_array_index (large, i));
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      points[i] = (ScLinePoint) { row->kernel.bytes, row->seconds, sc_calibrate_weight_of (row) };
    }
  return all - used->len;
}

static gboolean
check_rate (const Calibrating *w, const ScFit *fit, const ScLine *line)
{
  const double most = w->device->memory_bytes_per_s.value;
  g_autofree char *datasheet = sc_format_rate (most);
  if (line->slope_s <= 0)
    return sc_calibrate_refuse (w, fit->key,
                                "found times that fall as bytes grow over %u rows, expected a rate of at most %s", fit->n, datasheet);
  g_autofree char *rate = sc_format_rate (1 / line->slope_s);
  if (1 / line->slope_s < BELOW_DATASHEET * most)
    return sc_calibrate_refuse (w, fit->key, "found %s over %u rows, expected at least %g of the datasheet's %s (are times in microseconds?)",
                                rate, fit->n, BELOW_DATASHEET, datasheet);
  return 1 / line->slope_s <= ABOVE_DATASHEET * most
         || sc_calibrate_refuse (w, fit->key, "found %s over %u rows, expected at most %g x the datasheet's %s", rate,
                                 fit->n, ABOVE_DATASHEET, datasheet);
}

/* TRUE: the intercept makes sense, and is 0 or more then.  @least_s: the shortest of the times; below its error nothing is known. */
static gboolean
check_latency (const Calibrating *w, ScFit *fit, ScLine *line, double least_s)
{
  if (line->intercept_s >= 0)
    return TRUE;
  const double unsure = fit->errors.n > 0 ? fit->errors.median * least_s : 0;
  const double below = MAX (MAX (SIGNIFICANT * line->intercept_error_s, unsure), LEAST_NEGATIVE_S);
  g_autofree char *found = sc_format_seconds (-line->intercept_s);
  g_autofree char *sure = sc_format_seconds (line->intercept_error_s);
  if (line->intercept_s < -below)
    return sc_calibrate_refuse (w, fit->key, "found a negative latency of %s (standard error %s) over %u rows, expected 0 or more",
                                found, sure, fit->n);
  sc_calibrate_note (fit, "latency of -%s (standard error %s) taken as 0", found, sure);
  line->intercept_s = 0;
  return TRUE;
}

/* Rate of one class, and its line for the size of half a rate.  *ret_line: slope 0 where there is none. */
static gboolean
fit_bandwidth (const Calibrating *w, const char *key, ScKernelClass class, const char *what, ScCited *cited, ScLine *ret_line, char **ret_source)
{
  g_autoptr (GPtrArray) used = sc_calibrate_rows_of (w, SC_ROW_KERNEL, class);
  g_autofree ScLinePoint *points = g_new (ScLinePoint, MAX (used->len, 1));
  const guint left_out = cold_points (w, used, points);
  ScFit *const fit = sc_calibrate_add_fit (w, key, SC_UNIT_BYTES_PER_S, cited->value, used);
  fit->n_left_out = left_out;
  *ret_line = (ScLine) { .slope_s = 0 };
  if (left_out > 0)
    sc_calibrate_note (fit, "%u row%s that a cache may have served left out", left_out, left_out == 1 ? "" : "s");
  if (used->len < SC_FIT_LEAST_POINTS)
    {
      sc_calibrate_note_too_few (fit, what);
      return TRUE;
    }
  ScLine line;
  if (!sc_line_fit (points, used->len, &line))
    {
      sc_calibrate_note (fit, "%u %s, all of about one size", fit->n, what);
      return TRUE;
    }
  fit->errors = sc_line_cross_validate (points, used->len);
  if (!check_rate (w, fit, &line))
    return FALSE;
  if (fit->errors.median > POOR)
    {
      sc_calibrate_note (fit, "these kernels differ by more than one line can say");
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
      sc_calibrate_note (fit, "%s taken as the datasheet's rate", found);
      rate = w->device->memory_bytes_per_s.value;
    }
  *ret_source = sc_calibrate_cite (used, "robust fit of t = a + bytes/rate", &fit->errors);
  sc_calibrate_set_fit (fit, cited, rate, SC_GRADE_FITTED, g_strdup (*ret_source));
  *ret_line = line;
  return TRUE;
}

/* What the line of a class has beyond the launch, as bytes at its rate. */
static void
fit_half_size (const Calibrating *w, const ScLine lines[3], char *const sources[3])
{
  static const char *const names[] = { "elementwise", "reduction", "optimizer" };
  ScCited *const cited = &w->device->half_bytes;
  g_autoptr (GPtrArray) none = g_ptr_array_new ();
  ScFit *const fit = sc_calibrate_add_fit (w, "half_size", SC_UNIT_BYTES, cited->value, none);
  guint i = 0;
  while (i < 2 && lines[i].slope_s <= 0)
    i++;
  if (i == 2)
    {
      sc_calibrate_note (fit, "no line of elementwise kernels or reductions");
      return;
    }
  const ScFit *const line_fit = &g_array_index (w->c->fits, ScFit, i + 1); /* behind the launch */
  fit->n = line_fit->n;
  const double beyond = lines[i].intercept_s - w->device->launch_s.value;
  if (beyond < 0)
    sc_calibrate_note (fit, "the line of %s kernels begins below the launch latency", names[i]);
  sc_calibrate_set_fit (fit, cited, MAX (beyond, 0) / lines[i].slope_s, SC_GRADE_FITTED,
                        g_strdup_printf ("intercept of the %s line less the launch latency, as bytes; %s", names[i], sources[i]));
}

static gboolean
fit_memory (const Calibrating *w)
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

/* ---- Medians ---- */

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

static gboolean
fit_launch (const Calibrating *w)
{
  g_autoptr (GPtrArray) used = sc_calibrate_rows_that (w, SC_ROW_LAUNCH, "launch");
  ScFit *const fit = sc_calibrate_add_fit (w, "launch_latency", SC_UNIT_SECONDS, w->device->launch_s.value, used);
  if (used->len == 0)
    {
      sc_calibrate_note (fit, "no launches");
      return TRUE;
    }
  const double median = sc_calibrate_median_of (used, sc_calibrate_seconds_of);
  if (!(median > 0 && median <= MOST_LAUNCH_S))
    return sc_calibrate_refuse (w, fit->key, "found %g s over %u rows, expected more than 0 and at most %g s", median, used->len, MOST_LAUNCH_S);
  sc_calibrate_set_fit (fit, &w->device->launch_s, median, SC_GRADE_MEASURED,
                        sc_calibrate_cite (used, "an empty kernel in a full queue, median", NULL));
  return TRUE;
}

/* Sustained over burst rate, data type by data type: their median. */
static gboolean
fit_sustained (const Calibrating *w)
{
  g_autoptr (GPtrArray) sustained = sc_calibrate_rows_that (w, SC_ROW_POWER, "sustained");
  g_autoptr (GPtrArray) used = g_ptr_array_new ();
  g_autofree double *ratios = g_new (double, MAX (sustained->len, 1)), *weights = g_new (double, MAX (sustained->len, 1));
  guint n = 0;
  for (guint i = 0; i < sustained->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (sustained, i);
      g_autoptr (GPtrArray) burst = sc_calibrate_rows_that (w, SC_ROW_POWER, "burst");
      for (guint j = burst->len; j-- > 0;)
        {
          const ScKernelRow *const other = g_ptr_array_index (burst, j);
          if (other->kernel.dtype != row->kernel.dtype || other->kernel.flops != row->kernel.flops || !(other->flops_per_s > 0))
            g_ptr_array_remove_index (burst, j);
        }
      if (burst->len == 0)
        continue;
      const double most = w->device->peak_flops[row->kernel.dtype].value, rate = sc_calibrate_median_of (burst, flops_of);
      if (most > 0 && MAX (rate, row->flops_per_s) > ABOVE_DATASHEET * most)
        {
          g_autofree char *found = sc_format_flops (MAX (rate, row->flops_per_s)), *datasheet = sc_format_flops (most);
          return sc_calibrate_refuse (w, "gemm_sustained", "found %s of %s, expected at most %g x the datasheet's %s", found,
                                      sc_dtype_name (row->kernel.dtype), ABOVE_DATASHEET, datasheet);
        }
      ratios[n] = row->flops_per_s / rate;
      weights[n++] = sc_calibrate_weight_of (row);
      g_ptr_array_add (used, row);
    }
  ScFit *const fit = sc_calibrate_add_fit (w, "gemm_sustained", SC_UNIT_NONE, w->device->gemm_sustained.value, used);
  if (n == 0)
    {
      sc_calibrate_note (fit, "no sustained rate beside a burst rate of the same product");
      return TRUE;
    }
  double ratio = sc_weighted_median (ratios, weights, n);
  if (!(ratio >= 0.01 && ratio <= ABOVE_DATASHEET))
    return sc_calibrate_refuse (w, fit->key, "found a sustained rate of %.4g x the burst rate over %u rows, expected 0.01 to 1", ratio, n);
  if (ratio > 1)
    sc_calibrate_note (fit, "%.4g taken as 1", ratio);
  sc_calibrate_set_fit (fit, &w->device->gemm_sustained, MIN (ratio, 1), SC_GRADE_MEASURED,
                        sc_calibrate_cite (used, "sustained over burst rate, median", NULL));
  return TRUE;
}

/* Weight gradients that add into fp32, over the plain product of the same size. */
static gboolean
fit_accumulate (const Calibrating *w)
{
  g_autoptr (GPtrArray) all = sc_calibrate_rows_of (w, SC_ROW_KERNEL, SC_KERNEL_GEMM);
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
          weights[n++] = MIN (sc_calibrate_weight_of (row), sc_calibrate_weight_of (plain));
          g_ptr_array_add (used, row);
          break;
        }
    }
  ScFit *const fit = sc_calibrate_add_fit (w, "gemm_accumulate", SC_UNIT_NONE, w->device->gemm_accumulate.value, used);
  if (n < SC_FIT_LEAST_POINTS)
    {
      sc_calibrate_note_too_few (fit, "accumulating NT products beside a plain TN one of the same size");
      return TRUE;
    }
  const double ratio = sc_weighted_median (ratios, weights, n);
  if (!(ratio >= 0.5 && ratio <= 10))
    return sc_calibrate_refuse (w, fit->key, "found %.4g x the time of the plain product over %u pairs, expected 1 to 10", ratio, n);
  if (ratio < 1)
    sc_calibrate_note (fit, "%.4g taken as 1", ratio);
  sc_calibrate_set_fit (fit, &w->device->gemm_accumulate, MAX (ratio, 1), SC_GRADE_MEASURED,
                        sc_calibrate_cite (used, "accumulating NT product over plain TN product, median", NULL));
  return TRUE;
}

/* What the form of batched products leaves for arithmetic. */
static gboolean
fit_batched (const Calibrating *w)
{
  const ScDevice *const d = w->device;
  g_autoptr (GPtrArray) used = sc_calibrate_rows_of (w, SC_ROW_KERNEL, SC_KERNEL_BATCHED_GEMM);
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
      weights[n++] = sc_calibrate_weight_of (row);
      i++;
    }
  ScFit *const fit = sc_calibrate_add_fit (w, "batched_gemm_efficiency", SC_UNIT_NONE, d->batched_gemm_efficiency.value, used);
  fit->n_left_out = all - n;
  if (n < all)
    sc_calibrate_note (fit, "%u row%s bound by memory left out", all - n, all - n == 1 ? "" : "s");
  if (n < SC_FIT_LEAST_POINTS)
    {
      sc_calibrate_note_too_few (fit, "batched products bound by arithmetic");
      return TRUE;
    }
  const double share = sc_weighted_median (shares, weights, n);
  if (!(share >= 0.01 && share <= 1))
    return sc_calibrate_refuse (w, fit->key, "found %.4g of the datasheet's rate over %u rows, expected 0.01 to 1", share, n);
  sc_calibrate_set_fit (fit, &w->device->batched_gemm_efficiency, share, SC_GRADE_FITTED,
                        sc_calibrate_cite (used, "share of peak, median", NULL));
  return TRUE;
}

/* Rows of @victim beside @beside that say by how much it slows. */
static GPtrArray *
slowed (const Calibrating *w, const char *victim, const char *beside)
{
  GPtrArray *const used = sc_calibrate_rows_that (w, SC_ROW_SLOWDOWN, victim);
  for (guint i = used->len; i-- > 0;)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      if (g_strcmp0 (row->beside, beside) != 0 || !(row->factor > 0))
        g_ptr_array_remove_index (used, i);
    }
  return used;
}

/* SMs of NCCL's channels over NVLink on A100 and H100, which a collective holds. */
#define COLLECTIVE_SMS 24.0

/* A product beside SMs that are held, as if so many were. */
static double
held_factor_of (const ScKernelRow *row)
{
  const double share = row->amount > 0 ? (1 - 1 / row->factor) * COLLECTIVE_SMS / row->amount : 0;
  return 1 / (1 - CLAMP (share, 0, 0.999));
}

static gboolean
set_slowdown (const Calibrating *w, ScFit *fit, GPtrArray *used, double (*of) (const ScKernelRow *row), ScCited *number, const char *how)
{
  const double factor = sc_calibrate_median_of (used, of);
  if (!(factor >= 0.5 && factor <= 10))
    return sc_calibrate_refuse (w, fit->key, "found a factor of %.4g over %u rows, expected 1 to 10", factor, used->len);
  if (factor < 1)
    sc_calibrate_note (fit, "%.4g taken as 1", factor);
  sc_calibrate_set_fit (fit, number, MAX (factor, 1), SC_GRADE_MEASURED, sc_calibrate_cite (used, how, NULL));
  return TRUE;
}

/* A product beside a collective, else beside a kernel that keeps SMs to itself. */
static gboolean
fit_product_slowdown (const Calibrating *w)
{
  ScCited *const number = &w->device->hidden_slowdown;
  g_autoptr (GPtrArray) collective = slowed (w, "gemm", "collective");
  g_autoptr (GPtrArray) held = slowed (w, "gemm", "held_sms");
  GPtrArray *const used = collective->len > 0 ? collective : held;
  ScFit *const fit = sc_calibrate_add_fit (w, "hidden_slowdown", SC_UNIT_NONE, number->value, used);
  if (used->len == 0)
    {
      sc_calibrate_note (fit, "no products beside a collective or beside held SMs");
      return TRUE;
    }
  if (used == collective)
    return set_slowdown (w, fit, used, factor_of, number, "a product beside a collective over the product alone, median");
  sc_calibrate_note (fit, "beside held SMs, as of %.0f: no collective was measured", COLLECTIVE_SMS);
  return set_slowdown (w, fit, used, held_factor_of, number, "a product beside a kernel that holds SMs, for as many as NCCL's channels take, median");
}

static gboolean
fit_memory_slowdown (const Calibrating *w)
{
  ScCited *const number = &w->device->memory_slowdown;
  g_autoptr (GPtrArray) used = slowed (w, "memory", "collective");
  if (used->len == 0)
    return TRUE;
  ScFit *const fit = sc_calibrate_add_fit (w, "memory_slowdown", SC_UNIT_NONE, number->value, used);
  return set_slowdown (w, fit, used, factor_of, number, "a memory-bound kernel beside a collective over the kernel alone, median");
}

/* ---- Copies to and from the host ---- */

/* Both ways of saying it: raw copies, and published ones. */
static GPtrArray *
host_copies (const Calibrating *w, ScMemoryOp op, const char *word)
{
  GPtrArray *const found = sc_calibrate_rows_that (w, SC_ROW_COPY, word);
  g_autoptr (GPtrArray) published = sc_calibrate_rows_of (w, SC_ROW_KERNEL, SC_KERNEL_HOST_COPY);
  for (guint i = 0; i < published->len; i++)
    if (((const ScKernelRow *) g_ptr_array_index (published, i))->kernel.op == op)
      g_ptr_array_add (found, g_ptr_array_index (published, i));
  return found;
}

/* The rate of a line, or, of too few copies for one, that of the largest. */
static gboolean
fit_host_copy (const Calibrating *w, const char *key, ScMemoryOp op, const char *word, ScCited *cited)
{
  g_autoptr (GPtrArray) used = host_copies (w, op, word);
  for (guint i = used->len; i-- > 0;)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      if (row->seconds <= 0 || sc_calibrate_bytes_of (row) < 1)
        g_ptr_array_remove_index (used, i);
    }
  g_autofree ScLinePoint *points = g_new (ScLinePoint, MAX (used->len, 1));
  double most = 0;
  for (guint i = 0; i < used->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (used, i);
      points[i] = (ScLinePoint) { sc_calibrate_bytes_of (row), row->seconds, sc_calibrate_weight_of (row) };
      most = MAX (most, points[i].bytes);
    }
  ScLine line;
  const gboolean has_line = sc_line_fit (points, used->len, &line);
  if (!has_line)
    for (guint i = used->len; i-- > 0;)
      if (sc_calibrate_bytes_of (g_ptr_array_index (used, i)) < most)
        g_ptr_array_remove_index (used, i);
  ScFit *const fit = sc_calibrate_add_fit (w, key, SC_UNIT_BYTES_PER_S, cited->value, used);
  if (used->len == 0)
    {
      sc_calibrate_note (fit, "no copies");
      return TRUE;
    }
  if (has_line)
    fit->errors = sc_line_cross_validate (points, used->len);
  const double rate = has_line ? 1 / line.slope_s : sc_calibrate_median_of (used, sc_calibrate_copy_rate_of);
  g_autofree char *found = sc_format_rate (rate), *memory = sc_format_rate (w->device->memory_bytes_per_s.value);
  if (!(rate >= 1e6 && rate <= w->device->memory_bytes_per_s.value))
    return sc_calibrate_refuse (w, key, "found %s over %u rows, expected at most the memory's %s",
                                rate > 0 ? found : "times that fall as bytes grow", used->len, memory);
  sc_calibrate_set_fit (fit, cited, rate, has_line ? SC_GRADE_FITTED : SC_GRADE_MEASURED,
                        sc_calibrate_cite (used, has_line ? "robust fit of t = a + bytes/rate" : "largest copy", has_line ? &fit->errors : NULL));
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
rate_at_length (const Calibrating *w, const GPtrArray *used, guint from, guint to)
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
        weights[n++] = sc_calibrate_weight_of (row);
      }
  return sc_weighted_median (rates, weights, n);
}

static gboolean
fit_curve (const Calibrating *w, const char *key, ScKernelClass class, ScCurve *curve)
{
  g_autoptr (GPtrArray) used = sc_calibrate_rows_of (w, SC_ROW_KERNEL, class);
  for (guint i = used->len; i-- > 0;)
    if (!on_curve (g_ptr_array_index (used, i)))
      g_ptr_array_remove_index (used, i);
  g_ptr_array_sort (used, compare_lengths);
  ScFit *const fit = sc_calibrate_add_fit (w, key, SC_UNIT_FLOPS, NAN, used);
  g_autoptr (GArray) x = g_array_new (FALSE, FALSE, sizeof (double)), y = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint from = 0, to = 0; from < used->len; from = to)
    {
      const ScKernel *const k = &((const ScKernelRow *) g_ptr_array_index (used, from))->kernel;
      while (to < used->len && ((const ScKernelRow *) g_ptr_array_index (used, to))->kernel.seq == k->seq)
        to++;
      const double length = k->seq, rate = sc_calibrate_rounded (rate_at_length (w, used, from, to));
      g_array_append_val (x, length);
      g_array_append_val (y, rate);
    }
  if (x->len < SC_FIT_LEAST_POINTS)
    {
      sc_calibrate_note (fit, "causal heads of %d at %u length%s, a curve takes %d and more",
                         FLASH_HEAD, x->len, x->len == 1 ? "" : "s", SC_FIT_LEAST_POINTS);
      return TRUE;
    }
  const double least = BELOW_DATASHEET * w->device->peak_flops[((const ScKernelRow *) g_ptr_array_index (used, 0))->kernel.dtype].value;
  for (guint i = 0; i < y->len; i++)
    if (g_array_index (y, double, i) < least)
      {
        g_autofree char *found = sc_format_flops (g_array_index (y, double, i)), *expected = sc_format_flops (least);
        return sc_calibrate_refuse (w, key, "found %s at %.0f tokens, expected at least %s (are times in microseconds?)", found,
                                    g_array_index (x, double, i), expected);
      }
  sc_curve_clear (curve);
  *curve = (ScCurve) { .n = x->len, .grade = SC_GRADE_MEASURED };
  curve->x = (double *) (void *) g_array_free (g_steal_pointer (&x), FALSE);
  curve->y = (double *) (void *) g_array_free (g_steal_pointer (&y), FALSE);
  curve->source = sc_calibrate_cite (used, "causal, head size 128, median per length", NULL);
  fit->fitted = TRUE;
  g_autofree double *rates = g_memdup2 (curve->y, curve->n * sizeof *curve->y);
  fit->value = sc_median (rates, curve->n);
  sc_calibrate_note (fit, "%u lengths of %.0f to %.0f tokens", curve->n, curve->x[0], curve->x[curve->n - 1]);
  return TRUE;
}

static gboolean
fit_curves (const Calibrating *w)
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
        sc_calibrate_note (fit, "left out: the other direction is missing");
      fit->fitted = FALSE;
    }
  sc_curve_clear (&d->flash_forward);
  sc_curve_clear (&d->flash_backward);
  return TRUE;
}

/* ---- All of them ---- */

gboolean
sc_calibrate_numbers (const Calibrating *w)
{
  ScDevice *const d = w->device;
  return fit_launch (w) && fit_memory (w) && fit_sustained (w) && fit_accumulate (w) && fit_batched (w) && fit_product_slowdown (w) && fit_memory_slowdown (w)
         && fit_host_copy (w, "h2d_bandwidth", SC_OP_HOST_TO_DEVICE, "h2d", &d->h2d_bytes_per_s)
         && fit_host_copy (w, "d2h_bandwidth", SC_OP_DEVICE_TO_HOST, "d2h", &d->d2h_bytes_per_s) && fit_curves (w);
}

/* The efficiency under bf16 products, else fp16 ones, becomes the device's. */
void
sc_calibrate_tile_efficiency (const Calibrating *w)
{
  static const ScDtype dtypes[] = { SC_DTYPE_BF16, SC_DTYPE_FP16 };
  const ScSampleTable *best = NULL;
  for (guint d = 0; d < G_N_ELEMENTS (dtypes) && best == NULL; d++)
    for (guint i = 0; i < w->c->tables->len && best == NULL; i++)
      {
        const ScSampleTable *const table = g_ptr_array_index (w->c->tables, i);
        if (table->training && table->class == SC_KERNEL_GEMM && table->dtype == dtypes[d] && table->n >= SC_FIT_LEAST_POINTS)
          best = table;
      }
  g_autoptr (GPtrArray) used = g_ptr_array_new ();
  for (guint i = 0; best != NULL && i < w->numbers->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (w->numbers, i);
      if (row->kind == SC_ROW_KERNEL && row->kernel.class == best->class && row->kernel.dtype == best->dtype && strcmp (row->stack, best->stack) == 0)
        g_ptr_array_add (used, row);
    }
  ScFit *const fit = sc_calibrate_add_fit (w, "gemm_tile_efficiency", SC_UNIT_NONE, w->device->gemm_tile_efficiency.value, used);
  if (best == NULL)
    {
      sc_calibrate_note (fit, "no table of %d and more products in bf16 or fp16", SC_FIT_LEAST_POINTS);
      return;
    }
  sc_calibrate_set_fit (fit, &w->device->gemm_tile_efficiency, best->efficiency.value, SC_GRADE_FITTED,
                        sc_calibrate_cite (used, "the wave model meets the median of the larger half", NULL));
}
