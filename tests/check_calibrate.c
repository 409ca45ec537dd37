/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_calibrate.c - fits find the truth under noise and outliers, errors are those of points not seen, nonsense is refused, and
 * the file that is written is read back. */
#include <check.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate-report.h"
#include "device-json.h"
#include "device-write.h"
#include "library.h"
#include "line-fit.h"
#include "models/kernel-form.h"
#include "pace.h"
#include "sample-tables.h"
#include "samples-json.h"

#define BASE "h200-sxm"

/* ---- Rows with a known truth ---- */

typedef struct
{
  GString *text;
  guint    n;
  double   noise;     /* of the median */
  guint    outliers;  /* every so many rows is three times too long; 0: none */
} Rows;

/* The same on every machine: +-1 by a multiplicative hash. */
static double
wobble (guint i)
{
  return (double) ((i * 2654435761u) >> 8 & 0xffff) / 32767.5 - 1;
}

static void
begin (Rows *r, double noise, guint outliers)
{
  *r = (Rows) { .text = g_string_new (NULL), .noise = noise, .outliers = outliers };
  g_string_append (r->text, "{\"class\":\"session\",\"format\":1,\"started\":\"2026-11-30T10:00:00Z\",\"gpu\":\"NVIDIA H200\",\"sms\":132,"
                            "\"l2_bytes\":62914560,\"driver\":\"570.86\",\"cuda\":\"12.8\",\"cublaslt\":\"12.8.3\",\"cudnn\":\"9.7\","
                            "\"program\":\"stepcast-measure 0.1.0\"}\n");
}

/* A row of @class that took @seconds, give or take; @members: what else it says. */
static void G_GNUC_PRINTF (4, 5)
add (Rows *r, const char *class, double seconds, const char *members, ...)
{
  va_list args;
  va_start (args, members);
  g_autofree char *more = g_strdup_vprintf (members, args);
  va_end (args);
  double us = seconds * 1e6 * (1 + r->noise * wobble (r->n));
  if (r->outliers > 0 && r->n % r->outliers == r->outliers - 1)
    us *= 3;
  r->n++;
  g_string_append_printf (r->text, "{\"class\":\"%s\",\"gpu\":\"NVIDIA H200\",%s,\"time_us\":%.9g,\"spread\":0.01}\n", class, more, us);
}

static ScKernelRows *
parse (Rows *r)
{
  GError *error = NULL;
  ScKernelRows *const rows = sc_kernel_rows_parse ("raw.jsonl", r->text->str, r->text->len, &error);
  ck_assert_msg (rows != NULL, "%s", error != NULL ? error->message : "");
  sc_kernel_rows_cite (rows);
  g_string_free (r->text, TRUE);
  return rows;
}

static ScDevice *
load (const char *name)
{
  GError *error = NULL;
  ScDevice *const device = sc_device_find (name, &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : name);
  return device;
}

static ScCalibration *
calibrate (ScKernelRows *rows, const char *const *training)
{
  GError *error = NULL;
  ScCalibration *const c = sc_calibrate_take (load (BASE), rows, training, FALSE, &error);
  ck_assert_msg (c != NULL, "%s", error != NULL ? error->message : "");
  sc_kernel_rows_free (rows);
  return c;
}

static const ScFit *
find (const ScCalibration *c, const char *key)
{
  for (guint i = 0; i < c->fits->len; i++)
    if (strcmp (g_array_index (c->fits, ScFit, i).key, key) == 0)
      return &g_array_index (c->fits, ScFit, i);
  ck_abort_msg ("no fit of %s", key);
}

static void
assert_near (const char *what, double found, double truth, double tolerance)
{
  ck_assert_msg (fabs (found / truth - 1) <= tolerance, "%s: found %.6g, expected %.6g", what, found, truth);
}

static void
assert_same (const ScFieldTable *table, const ScDevice *a, const ScDevice *b)
{
  for (const ScField *field = table->fields; field->key != NULL; field++)
    {
      const void *const x = (const char *) a + field->offset, *const y = (const char *) b + field->offset;
      if (field->kind == SC_FIELD_CITED)
        {
          const ScCited *const p = x, *const q = y;
          ck_assert_msg (p->value == q->value, "%s: %.17g and %.17g", field->key, p->value, q->value);
          ck_assert_int_eq (p->grade, q->grade);
          ck_assert_int_eq (g_strcmp0 (p->source, q->source), 0);
        }
      else if (field->kind == SC_FIELD_STRING)
        ck_assert_int_eq (g_strcmp0 (*(char *const *) x, *(char *const *) y), 0);
      else if (field->kind == SC_FIELD_CURVE)
        {
          const ScCurve *const p = x, *const q = y;
          ck_assert_uint_eq (p->n, q->n);
          for (guint i = 0; i < p->n; i++)
            ck_assert (p->x[i] == q->x[i] && p->y[i] == q->y[i]);
          ck_assert_int_eq (g_strcmp0 (p->source, q->source), 0);
        }
      else if (field->kind == SC_FIELD_OBJECT)
        assert_same (field->table, a, b);
    }
}

/* A GPU unlike its datasheet in every number that is fitted. */
static ScDevice *
true_device (void)
{
  ScDevice *const d = load (BASE);
  d->launch_s.value = 1.9e-6;
  d->elementwise_bytes_per_s.value = 3.6e12;
  d->reduction_bytes_per_s.value = 2.9e12;
  d->optimizer_bytes_per_s.value = 3.8e12;
  d->half_bytes.value = 6e6;
  d->gemm_tile_efficiency.value = 0.71;
  d->gemm_accumulate.value = 1.12;
  d->batched_gemm_efficiency.value = 0.5;
  return d;
}

static void
add_memory (Rows *r, const ScDevice *truth, ScMemoryOp op, const char *word)
{
  for (double bytes = 2e6; bytes < 4e9; bytes *= 1.9)
    {
      const double whole = floor (bytes);
      const ScKernel kernel = sc_kernel_op (word, op, whole);
      add (r, "memory", sc_kernel_form (truth, &kernel, NULL, 1).seconds, "\"op\":\"%s\",\"dtype\":\"bf16\",\"bytes\":%.0f", word, whole);
    }
}

static void
add_products (Rows *r, const ScDevice *truth)
{
  static const guint sizes[] = { 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 2; j < G_N_ELEMENTS (sizes); j += 2)
      {
        const guint m = sizes[i], n = sizes[j], k = sizes[(i + j) % G_N_ELEMENTS (sizes)];
        for (guint accumulate = 0; accumulate < 2; accumulate++)
          {
            const ScKernel kernel = accumulate ? sc_kernel_gemm_accumulate ("gemm", SC_DTYPE_BF16, SC_DTYPE_FP32, m, n, k)
                                               : sc_kernel_gemm ("gemm", SC_DTYPE_BF16, m, n, k);
            add (r, "gemm", sc_kernel_form (truth, &kernel, NULL, 1).seconds,
                 "\"dtype\":\"bf16\",\"layout\":\"%s\",\"m\":%u,\"n\":%u,\"k\":%u,\"batch\":1,\"accumulate\":%s", accumulate ? "NT" : "TN", m, n, k,
                 accumulate ? "true" : "false");
          }
      }
}

static void
add_batched (Rows *r, const ScDevice *truth)
{
  for (guint s = 512; s <= 8192; s *= 2)
    for (guint batch = 16; batch <= 64; batch *= 2)
      {
        const ScKernel kernel = sc_kernel_batched_gemm ("gemm", SC_DTYPE_BF16, batch, s, s, 256);
        add (r, "gemm", sc_kernel_form (truth, &kernel, NULL, 1).seconds, "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":%u,\"n\":%u,\"k\":256,\"batch\":%u", s, s,
             batch);
      }
}

static void
add_attention (Rows *r, double forward_flops_per_s)
{
  for (guint seq = 1024; seq <= 16384; seq *= 2)
    for (guint backward = 0; backward < 2; backward++)
      {
        const ScAttentionShape shape = { .batch = 32768 / seq, .seq = seq, .heads = 32, .kv_heads = 8, .head_dim = 128, .causal = TRUE };
        const ScKernel kernel = sc_kernel_attention ("attention", backward ? SC_KERNEL_FLASH_BACKWARD : SC_KERNEL_FLASH_FORWARD, SC_DTYPE_BF16, &shape);
        add (r, "attention", kernel.flops / (forward_flops_per_s * (backward ? 0.8 : 1)),
             "\"kind\":\"%s\",\"impl\":\"cudnn\",\"dtype\":\"bf16\",\"causal\":true,\"batch\":%u,\"seqlen\":%u,\"heads\":32,\"kv_heads\":8,\"head_dim\":128",
             backward ? "bwd" : "fwd", shape.batch, seq);
      }
}

static void
add_all (Rows *r)
{
  g_autoptr (ScDevice) truth = true_device ();
  add_memory (r, truth, SC_OP_COPY, "copy");
  add_memory (r, truth, SC_OP_ADD, "add");
  add_memory (r, truth, SC_OP_RMSNORM, "rmsnorm_fwd");
  add_memory (r, truth, SC_OP_ADAM, "adam");
  add_products (r, truth);
  add_batched (r, truth);
  add_attention (r, 500e12);
  const double noise = r->noise;
  const guint outliers = r->outliers;
  r->noise = r->outliers = 0;
  add (r, "launch", truth->launch_s.value, "\"op\":\"launch\"");
  add (r, "launch", 1e-6, "\"op\":\"graph\"");
  for (guint i = 1; i <= 4; i++)
    add (r, "copy", 5e-6 + 1e8 * i / 50e9, "\"op\":\"h2d\",\"bytes\":%.0f", 1e8 * i);
  add (r, "copy", 1e9 / 45e9, "\"op\":\"d2h\",\"bytes\":1000000000");
  add (r, "copy", 1e-5, "\"op\":\"d2h\",\"bytes\":1000");
  for (guint i = 0; i < 3; i++)
    add (r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"collective\",\"amount\":1,\"alone_us\":800,\"factor\":%g", 1.2 + 0.05 * i);
  add (r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"copy\",\"amount\":1,\"alone_us\":990,\"factor\":1.01");
  add (r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"held_sms\",\"amount\":16,\"alone_us\":990,\"factor\":1.5");
  for (guint i = 0; i < 3; i++)
    add (r, "slowdown", 1e-3, "\"victim\":\"memory\",\"beside\":\"collective\",\"amount\":1,\"alone_us\":800,\"factor\":%g", 1.1 + 0.3 * i);
  add (r, "power", 1e-3, "\"op\":\"burst\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"seconds\":1,\"tflops\":700");
  add (r, "power", 1e-3, "\"op\":\"sustained\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"seconds\":60,\"tflops\":595");
  r->noise = noise;
  r->outliers = outliers;
}

static const struct
{
  double noise;
  guint outliers;
  double tolerance, half_tolerance;
} truths[] = { { 0, 0, 1e-3, 2e-3 }, { 0.01, 0, 0.01, 0.15 }, { 0.01, 11, 0.015, 0.2 } };

START_TEST (fits_find_the_truth_under_noise_and_outliers)
{
  Rows r;
  begin (&r, truths[_i].noise, truths[_i].outliers);
  add_all (&r);
  g_autoptr (ScDevice) truth = true_device ();
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  const ScDevice *const d = c->device;
  const double near = truths[_i].tolerance;
  assert_near ("launch", d->launch_s.value, truth->launch_s.value, 1e-9);
  assert_near ("elementwise", d->elementwise_bytes_per_s.value, truth->elementwise_bytes_per_s.value, near);
  assert_near ("reduction", d->reduction_bytes_per_s.value, truth->reduction_bytes_per_s.value, near);
  assert_near ("optimizer", d->optimizer_bytes_per_s.value, truth->optimizer_bytes_per_s.value, near);
  assert_near ("half", d->half_bytes.value, truth->half_bytes.value, truths[_i].half_tolerance);
  assert_near ("tiles", d->gemm_tile_efficiency.value, truth->gemm_tile_efficiency.value, near);
  assert_near ("batched", d->batched_gemm_efficiency.value, truth->batched_gemm_efficiency.value, 2 * near);
  assert_near ("slowdown", d->hidden_slowdown.value, 1.25, 1e-9);
  assert_near ("slowdown of memory-bound kernels", d->memory_slowdown.value, 1.4, 1e-9);
  assert_near ("from the host", d->h2d_bytes_per_s.value, 50e9, 1e-4);
  assert_near ("to the host", d->d2h_bytes_per_s.value, 45e9, 1e-4);
  assert_near ("sustained", d->gemm_sustained.value, 0.85, 1e-9);
  /* small products wait for memory in both layouts: the factor on times is less than that on arithmetic */
  ck_assert_msg (d->gemm_accumulate.value > 1.05 && d->gemm_accumulate.value < 1.14, "accumulate: %g", d->gemm_accumulate.value);
  ck_assert_uint_eq (d->flash_forward.n, 5);
  for (guint i = 0; i < 5; i++)
    if (truths[_i].outliers == 0)
      assert_near ("flash", d->flash_forward.y[i], 500e12, near + 1e-4);
  ck_assert_int_eq (d->gemm_tile_efficiency.grade, SC_GRADE_FITTED);
  ck_assert_int_eq (d->launch_s.grade, SC_GRADE_MEASURED);
  ck_assert_ptr_nonnull (strstr (d->elementwise_bytes_per_s.source, "stepcast-measure 0.1.0, NVIDIA H200, driver 570.86, CUDA 12.8, 2026-11-30: "));
  ck_assert_ptr_nonnull (strstr (d->elementwise_bytes_per_s.source, "cross-validated error"));
  const ScFit *const fit = find (c, "elementwise_bandwidth");
  ck_assert (fit->errors.n > 10 && fit->errors.median <= 2 * truths[_i].noise + 1e-3);
  /* a report of all of it can be written */
  for (const ScCalibrateFormat *format = sc_calibrate_formats (); format->name != NULL; format++)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      format->write (c, out);
      ck_assert (out->len > 100 && strstr (out->str, "nan") == NULL);
    }
}
END_TEST

START_TEST (what_was_not_measured_keeps_the_number_of_the_base)
{
  Rows r;
  begin (&r, 0, 0);
  add (&r, "memory", 1e-4, "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":300000000");
  add (&r, "memory", 2e-4, "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":600000000");
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  g_autoptr (ScDevice) base = load (BASE);
  for (guint i = 0; i < c->fits->len; i++)
    {
      const ScFit *const fit = &g_array_index (c->fits, ScFit, i);
      ck_assert_msg (!fit->fitted && fit->note != NULL, "%s", fit->key);
    }
  ck_assert_uint_eq (find (c, "elementwise_bandwidth")->n, 2);
  ck_assert_double_eq (c->device->elementwise_bytes_per_s.value, base->elementwise_bytes_per_s.value);
  ck_assert_str_eq (c->device->elementwise_bytes_per_s.source, base->elementwise_bytes_per_s.source);
  ck_assert_uint_eq (c->tables->len, 1);
}
END_TEST

/* ---- Errors ---- */

/* Median and the rest from predictions of tables that lack the point. */
START_TEST (errors_of_a_table_are_those_of_points_left_out)
{
  Rows r;
  begin (&r, 0.1, 0);
  g_autoptr (ScDevice) truth = true_device ();
  add_products (&r, truth);
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  ck_assert_uint_eq (c->tables->len, 1);
  const ScSampleTable *const all = g_ptr_array_index (c->tables, 0);
  g_autofree ScPrediction *judged = g_new (ScPrediction, all->n);
  for (guint i = 0; i < all->n; i++)
    {
      ScSampleTable less = *all;
      less.residuals = (ScResiduals) { .n = 0 };
      less.kernels = g_memdup2 (all->kernels, all->n * sizeof *all->kernels);
      less.seconds = g_memdup2 (all->seconds, all->n * sizeof *all->seconds);
      less.n = all->n - 1;
      memmove (less.kernels + i, less.kernels + i + 1, (less.n - i) * sizeof *less.kernels);
      memmove (less.seconds + i, less.seconds + i + 1, (less.n - i) * sizeof *less.seconds);
      GPtrArray *const tables = c->device->tables;
      g_autoptr (GPtrArray) one = g_ptr_array_new ();
      g_ptr_array_add (one, &less);
      c->device->tables = one;
      sc_device_prepare (c->device);
      double distance;
      judged[i] = (ScPrediction) { sc_samples_predict (c->device, &less, &all->kernels[i], SC_HOLD_NOTHING, &distance), all->seconds[i] };
      c->device->tables = tables;
      sc_residuals_clear (&less.residuals);
      g_free (less.kernels);
      g_free (less.seconds);
    }
  const ScErrors direct = sc_errors_of (judged, all->n), said = g_array_index (c->table_fits, ScTableFit, 0).point;
  ck_assert_uint_eq (said.n, direct.n);
  ck_assert_double_eq_tol (said.median, direct.median, 1e-9);
  ck_assert_double_eq_tol (said.p90, direct.p90, 1e-9);
  ck_assert_double_eq_tol (said.signed_error, direct.signed_error, 1e-9);
  ck_assert_double_gt (said.median, 0.01);
}
END_TEST

START_TEST (errors_of_a_line_are_those_of_points_left_out)
{
  enum { N = 15 };
  ScLinePoint points[N], seen[N - 1];
  ScPrediction judged[N];
  for (guint i = 0; i < N; i++)
    points[i] = (ScLinePoint) { 1e6 * (i + 1), (2e-6 + (i + 1) * 1e-6) * (1 + 0.05 * wobble (i)), 1 };
  for (guint i = 0; i < N; i++)
    {
      guint n = 0;
      for (guint j = 0; j < N; j++)
        if (j != i)
          seen[n++] = points[j];
      ScLine line;
      ck_assert (sc_line_fit (seen, n, &line));
      judged[i] = (ScPrediction) { line.intercept_s + line.slope_s * points[i].bytes, points[i].seconds };
    }
  const ScErrors direct = sc_errors_of (judged, N), said = sc_line_cross_validate (points, N);
  ck_assert_uint_eq (said.n, N);
  ck_assert_double_eq (said.median, direct.median);
  ck_assert_double_eq (said.p90, direct.p90);
}
END_TEST

/* Several samples of a shape share a residual; the form is judged by each of them. */
START_TEST (repetitions_of_a_shape_are_judged_one_by_one)
{
  g_autoptr (ScDevice) base = load (BASE);
  static const double longer[] = { 1.5, 1.25, 2 }; /* the form, than measured */
  Rows r;
  begin (&r, 0, 0);
  for (guint i = 0; i < 6; i++)
    {
      const ScKernel kernel = sc_kernel_op ("copy", SC_OP_COPY, i < 3 ? 3e8 : 6e8);
      add (&r, "memory", sc_kernel_form (base, &kernel, NULL, 1).seconds / longer[i % 3], "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":%.0f", kernel.bytes);
    }
  g_autoptr (ScKernelRows) rows = parse (&r);
  GError *error = NULL;
  g_autoptr (ScCalibration) c = sc_calibrate_take (load (BASE), rows, NULL, TRUE, &error);
  ck_assert_ptr_nonnull (c);
  const ScTableFit *const fit = &g_array_index (c->table_fits, ScTableFit, 0);
  ck_assert_uint_eq (fit->table->residuals.n, 2);
  ck_assert_uint_eq (fit->form.n, 6);
  ck_assert_double_eq_tol (fit->form.median, 0.5, 1e-6);
  ck_assert_double_eq_tol (fit->form.p90, 1, 1e-6);
  g_autoptr (GString) out = g_string_new (NULL);
  sc_calibration_write_points (c, out);
  g_auto (GStrv) lines = g_strsplit (out->str, "\n", -1);
  for (guint i = 0; i < 6; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i + 1], "\t", -1);
      assert_near ("form", g_ascii_strtod (cells[6], NULL) / g_ascii_strtod (cells[5], NULL), longer[i % 3], 1e-5);
    }
}
END_TEST

START_TEST (one_wild_point_does_not_move_a_line)
{
  ScLinePoint points[12];
  for (guint i = 0; i < 12; i++)
    points[i] = (ScLinePoint) { 1e6 * (1u << i), (3e-6 + 1e6 * (1u << i) / 2e12) * (1 + 0.004 * wobble (i)), 1 };
  ScLine clean, wild;
  ck_assert (sc_line_fit (points, 12, &clean));
  points[7].seconds *= 5;
  ck_assert (sc_line_fit (points, 12, &wild));
  assert_near ("rate", 1 / wild.slope_s, 2e12, 0.01);
  assert_near ("intercept", wild.intercept_s, clean.intercept_s, 0.02);
  ck_assert (!sc_line_fit (points, 2, &wild));
  for (guint i = 0; i < 12; i++)
    points[i].bytes = 1e6;
  ck_assert (!sc_line_fit (points, 12, &wild));
}
END_TEST

START_TEST (half_of_the_weight_lies_on_either_side_of_the_median)
{
  const double values[] = { 5, 1, 3, 2, 4 }, even[] = { 1, 1, 1, 1, 1 }, heavy[] = { 10, 1, 1, 1, 1 };
  ck_assert_double_eq (sc_weighted_median (values, even, 5), 3);
  ck_assert_double_eq (sc_weighted_median (values, heavy, 5), 5);
  ck_assert_double_eq (sc_weighted_median (values, even, 4), 2.5);
  ck_assert (isnan (sc_weighted_median (values, even, 0)));
}
END_TEST

/* Half as long is half off, twice as long is wholly off; with sign, the two cancel. */
START_TEST (an_error_is_a_share_of_what_was_measured)
{
  const ScPrediction judged[] = { { 2, 4 }, { 8, 4 }, { 11, 10 } };
  const ScErrors e = sc_errors_of (judged, 3), none = sc_errors_of (judged, 0);
  ck_assert_uint_eq (e.n, 3);
  ck_assert_double_eq_tol (e.median, 0.5, 1e-12);
  ck_assert_double_eq_tol (e.p90, 0.9, 1e-12);
  ck_assert_double_eq_tol (e.signed_error, cbrt (1.1) - 1, 1e-12);
  ck_assert_double_eq_tol (e.worst, 1, 1e-12);
  ck_assert_double_eq (sc_errors_of (judged, 1).worst, -0.5);
  ck_assert (none.n == 0 && isnan (none.median) && isnan (none.p90) && isnan (none.signed_error) && isnan (none.worst));
}
END_TEST

/* ---- Rows of several kinds ---- */

START_TEST (wide_spreads_count_less_and_are_counted)
{
  Rows r;
  begin (&r, 0, 0);
  for (guint i = 1; i <= 4; i++)
    add (&r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"collective\",\"factor\":1.2");
  ScKernelRows *const rows = parse (&r);
  for (guint i = 1; i < 4; i++) /* the first is the session */
    {
      ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      row->factor = 3;
      row->spread = 0.6;
    }
  g_autoptr (ScCalibration) c = calibrate (rows, NULL);
  ck_assert_double_eq (c->device->hidden_slowdown.value, 1.2);
  ck_assert_uint_eq (find (c, "hidden_slowdown")->n_wild, 3);
  ck_assert_uint_eq (c->n_wild, 3);
}
END_TEST

/* Two published stacks, three shapes each. */
static ScKernelRows *
published_rows (void)
{
  Rows r = { .text = g_string_new (NULL) };
  for (guint i = 1; i <= 3; i++)
    for (guint s = 0; s < 2; s++)
      g_string_append_printf (r.text, "{\"gpu\":\"H200-SXM\",\"dtype\":\"bfloat16\",\"m\":%u,\"n\":8192,\"k\":8192,\"tflops\":%u,\"source\":\"github:a/%s x\"}\n",
                              4096 * i, s ? 600 : 700, s ? "slow" : "fast");
  return parse (&r);
}

START_TEST (published_rows_are_for_training_only_where_they_are_named)
{
  const char *const slow[] = { "slow", NULL }, *const all[] = { "all", NULL };
  const char *const *const choices[] = { NULL, slow, all };
  g_autoptr (ScCalibration) c = calibrate (published_rows (), choices[_i]);
  ck_assert_uint_eq (c->tables->len, 2);
  const ScSampleTable *const first = g_ptr_array_index (c->tables, 0), *const second = g_ptr_array_index (c->tables, 1);
  ck_assert_str_eq (first->stack, "fast");
  ck_assert_int_eq (first->training, _i == 2);
  ck_assert_int_eq (second->training, _i >= 1);
  const ScFit *const fit = find (c, "gemm_tile_efficiency");
  ck_assert_int_eq (fit->fitted, _i >= 1);
  if (_i >= 1)
    ck_assert_double_eq_tol (fit->value, (_i == 2 ? first : second)->efficiency.value, 1e-9);
}
END_TEST

START_TEST (tables_alone_are_made_on_the_numbers_of_the_base)
{
  Rows r;
  begin (&r, 0.01, 0);
  add_all (&r);
  g_autoptr (ScKernelRows) rows = parse (&r);
  GError *error = NULL;
  g_autoptr (ScCalibration) c = sc_calibrate_take (load (BASE), rows, NULL, TRUE, &error);
  ck_assert_ptr_nonnull (c);
  g_autoptr (ScDevice) base = load (BASE);
  assert_same (&sc_device_table, c->device, base);
  ck_assert_uint_eq (c->fits->len, 0);
  const ScSampleTable *const table = g_ptr_array_index (c->tables, 0);
  ck_assert_uint_gt (c->tables->len, 3);
  for (guint i = 0; i < table->n; i++)
    ck_assert_double_eq_tol (table->residuals.y[i], log (table->seconds[i] / sc_kernel_form (base, &table->kernels[i], NULL, 1).seconds), 1e-12);
}
END_TEST

START_TEST (attention_without_fusion_is_not_what_forecasts_rest_on)
{
  Rows r;
  begin (&r, 0, 0);
  add (&r, "attention", 1e-2, "\"kind\":\"fwd\",\"impl\":\"unfused\",\"dtype\":\"bf16\",\"causal\":true,\"batch\":1,\"seqlen\":4096,\"heads\":32,\"head_dim\":128");
  add (&r, "attention", 1e-3, "\"kind\":\"fwd\",\"impl\":\"cudnn\",\"dtype\":\"bf16\",\"causal\":true,\"batch\":1,\"seqlen\":4096,\"heads\":32,\"head_dim\":128");
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  ck_assert_uint_eq (c->tables->len, 2);
  ck_assert (!((const ScSampleTable *) g_ptr_array_index (c->tables, 0))->training);
  ck_assert (((const ScSampleTable *) g_ptr_array_index (c->tables, 1))->training);
}
END_TEST

START_TEST (tables_of_the_base_stay_where_nothing_was_measured)
{
  Rows r;
  begin (&r, 0, 0);
  g_autoptr (ScDevice) truth = true_device ();
  add_memory (&r, truth, SC_OP_COPY, "copy");
  add_products (&r, truth);
  ScKernelRows *const rows = parse (&r);
  ScDevice *const base = load (BASE);
  g_autoptr (GPtrArray) own = sc_sample_tables_new (base, rows);
  g_clear_pointer (&base->tables, g_ptr_array_unref);
  base->tables = g_steal_pointer (&own);
  sc_device_prepare (base);
  /* only products are measured again */
  for (guint i = 0; i < rows->rows->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind == SC_ROW_KERNEL && row->kernel.class != SC_KERNEL_GEMM)
        row->kind = SC_ROW_LAUNCH, row->op = g_strdup ("nothing");
    }
  GError *error = NULL;
  g_autoptr (ScCalibration) c = sc_calibrate_take (base, rows, NULL, FALSE, &error);
  ck_assert_ptr_nonnull (c);
  ck_assert_uint_eq (c->tables->len, 1);
  ck_assert_uint_eq (c->n_kept_tables, 1);
  ck_assert_uint_eq (c->device->tables->len, 2);
  sc_kernel_rows_free (rows);
}
END_TEST

START_TEST (files_put_together_are_one_and_the_machine_is_the_last_said)
{
  Rows r, s;
  begin (&r, 0, 0);
  add (&r, "launch", 1e-6, "\"op\":\"launch\"");
  begin (&s, 0, 0);
  add (&s, "launch", 3e-6, "\"op\":\"launch\"");
  add (&s, "launch", 2e-6, "\"op\":\"launch\"");
  ScKernelRows *const rows = parse (&r), *const more = parse (&s);
  more->session.sms = 78;
  sc_kernel_rows_take (rows, more);
  g_autoptr (ScCalibration) c = calibrate (rows, NULL);
  ck_assert_uint_eq (c->n_rows, 3);
  ck_assert_double_eq_tol (c->device->launch_s.value, 2e-6, 1e-15);
  ck_assert_uint_eq (c->warnings->len, 1);
  ck_assert_ptr_nonnull (strstr (g_ptr_array_index (c->warnings, 0), "78 of SMs"));
}
END_TEST

/* ---- Nonsense ---- */

static void
make_fast_memory (Rows *r)
{
  for (guint i = 1; i <= 6; i++)
    add (r, "memory", 1e9 * i / 6e12, "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":%.0f", 1e9 * i);
}

static void
make_negative_latency (Rows *r)
{
  for (guint i = 1; i <= 6; i++)
    add (r, "memory", 1e8 * i / 3e12 - 1.5e-5, "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":%.0f", 1e8 * i);
}

static void
make_falling_times (Rows *r)
{
  for (guint i = 1; i <= 6; i++)
    add (r, "memory", 1e-3 / i, "\"op\":\"adam\",\"dtype\":\"fp32\",\"bytes\":%.0f", 1e8 * i);
}

/* Without a collective, as NCCL's 24 channels would: 16 of 132 SMs that leave 7/8 of the rate leave 13/16 when they are 24. */
START_TEST (held_sms_stand_for_channels_where_no_collective_was_measured)
{
  Rows r;
  begin (&r, 0, 0);
  add (&r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"held_sms\",\"amount\":16,\"factor\":%.17g", 8 / 7.0);
  add (&r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"copy\",\"factor\":1.02");
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  assert_near ("slowdown", c->device->hidden_slowdown.value, 16 / 13.0, 1e-4);
  ck_assert_int_eq (c->device->hidden_slowdown.grade, SC_GRADE_MEASURED);
  ck_assert_double_eq (c->device->memory_slowdown.value, 0);
}
END_TEST

static void
make_efficient_products (Rows *r)
{
  for (guint i = 1; i <= 6; i++) /* whole waves nearly as fast as the datasheet: in the form, less than its fill and drain leave */
    add (r, "gemm", 2.0 * 4096 * 4224 * 512 * i / (1.05 * 989e12), "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":4096,\"n\":4224,\"k\":%u", 512 * i);
}

static void
make_impossible_products (Rows *r)
{
  for (guint i = 1; i <= 6; i++)
    add (r, "gemm", 1e-6, "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":8192,\"n\":8192,\"k\":%u", 512 * i);
}

static void
make_fast_sustained (Rows *r)
{
  add (r, "power", 1e-3, "\"op\":\"burst\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"tflops\":500");
  add (r, "power", 1e-3, "\"op\":\"sustained\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"tflops\":700");
}

static void
make_fast_burst (Rows *r)
{
  add (r, "power", 1e-3, "\"op\":\"burst\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"tflops\":1200");
  add (r, "power", 1e-3, "\"op\":\"sustained\",\"dtype\":\"bf16\",\"m\":8192,\"n\":8192,\"k\":8192,\"tflops\":700");
}

static void
make_fast_batched (Rows *r)
{
  for (guint i = 1; i <= 4; i++)
    add (r, "gemm", 2.0 * 64 * 4096 * 4096 * 1024 / (1.08 * 989e12), "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":4096,\"n\":4096,\"k\":1024,\"batch\":64");
}

static void
make_wild_slowdown (Rows *r)
{
  add (r, "slowdown", 1e-3, "\"victim\":\"gemm\",\"beside\":\"collective\",\"factor\":400");
}

static void
make_fast_copy (Rows *r)
{
  add (r, "copy", 1e-5, "\"op\":\"h2d\",\"bytes\":1000000000");
}

static void
make_nothing (Rows *r)
{
  add (r, "gemm", 0, "\"dtype\":\"bf16\",\"layout\":\"TN\",\"m\":8192,\"n\":8192,\"k\":8192");
}

static const struct
{
  void (*make) (Rows *r);
  const char *key, *found;
} nonsense[] = {
  { make_fast_memory, "elementwise_bandwidth: ", "expected at most 1.1 x the datasheet's 4.800 TB/s" },
  { make_negative_latency, "elementwise_bandwidth: ", "found a negative latency of 1" },
  { make_falling_times, "optimizer_bandwidth: ", "times that fall as bytes grow" },
  { make_efficient_products, "gemm table of bf16 (cuBLASLt 12.8.3): ", "expected at most 1" },
  { make_impossible_products, "bf16 gemm: ", "6 of 6 rows" },
  { make_fast_sustained, "gemm_sustained: ", "1.4 x the burst rate" },
  { make_fast_burst, "gemm_sustained: ", "found 1.200 PFLOP/s of bf16" },
  { make_fast_batched, "batched_gemm_efficiency: ", "expected 0.01 to 1" },
  { make_wild_slowdown, "hidden_slowdown: ", "found a factor of 400" },
  { make_fast_copy, "h2d_bandwidth: ", "expected at most the memory's 4.800 TB/s" },
  { make_nothing, BASE ": ", "found no row that can be used" },
};

START_TEST (a_fit_that_makes_no_sense_is_refused_by_name)
{
  Rows r;
  begin (&r, 0.001, 0);
  nonsense[_i].make (&r);
  g_autoptr (ScKernelRows) rows = parse (&r);
  GError *error = NULL;
  const ScCalibration *const c = sc_calibrate_take (load (BASE), rows, NULL, FALSE, &error);
  ck_assert_msg (c == NULL, "%s", nonsense[_i].found);
  ck_assert (g_error_matches (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT));
  ck_assert_msg (g_str_has_prefix (error->message, nonsense[_i].key) && strstr (error->message, nonsense[_i].found) != NULL, "%s", error->message);
  g_error_free (error);
}
END_TEST

START_TEST (a_latency_little_below_nothing_is_nothing)
{
  Rows r;
  begin (&r, 0, 0);
  for (guint i = 1; i <= 8; i++)
    add (&r, "memory", 1e8 * i / 3e12 - 1e-7, "\"op\":\"copy\",\"dtype\":\"bf16\",\"bytes\":%.0f", 1e8 * i);
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  const ScFit *const fit = find (c, "elementwise_bandwidth");
  ck_assert (fit->fitted && fit->note != NULL);
  ck_assert_ptr_nonnull (strstr (fit->note, "taken as 0"));
  ck_assert_double_eq (c->device->half_bytes.value, 0);
}
END_TEST

/* ---- Writing ---- */

static char *
written (const ScDevice *device)
{
  GString *const out = g_string_new (NULL);
  sc_device_write (device, "a comment", out);
  return g_string_free (out, FALSE);
}

static ScDevice *
read_back (const char *text)
{
  GError *error = NULL;
  g_autoptr (ScJson) json = sc_json_parse ("written", text, strlen (text), &error);
  ck_assert_msg (json != NULL, "%s", error != NULL ? error->message : "");
  ScDevice *const device = sc_device_from_json (json, &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  return device;
}

START_TEST (every_shipped_device_is_written_as_it_is_read)
{
  guint n = 0;
  for (const ScLibraryRow *row = NULL; (row = sc_library_next (row, SC_KIND_DEVICE)) != NULL; n++)
    {
      g_autoptr (ScDevice) device = load (row->name);
      g_autofree char *text = written (device);
      g_autoptr (ScDevice) again = read_back (text);
      assert_same (&sc_device_table, device, again);
      g_autofree char *twice = written (again);
      ck_assert_str_eq (text, twice);
    }
  ck_assert_uint_gt (n, 10);
}
END_TEST

START_TEST (a_calibrated_device_is_written_and_read_back)
{
  Rows r;
  begin (&r, 0.02, 13);
  add_all (&r);
  add (&r, "grouped_gemm", 1e-3, "\"dtype\":\"bf16\",\"layout\":\"TN\",\"rows\":[512,512,512,512],\"n\":4096,\"k\":7168");
  g_autoptr (ScCalibration) c = calibrate (parse (&r), NULL);
  g_autofree char *text = written (c->device);
  g_autoptr (ScDevice) again = read_back (text);
  assert_same (&sc_device_table, c->device, again);
  ck_assert_uint_eq (again->tables->len, c->device->tables->len);
  for (guint i = 0; i < again->tables->len; i++)
    {
      const ScSampleTable *const x = g_ptr_array_index (c->device->tables, i), *const y = g_ptr_array_index (again->tables, i);
      ck_assert_uint_eq (x->n, y->n);
      for (guint j = 0; j < x->n; j++)
        assert_near (x->stack, sc_kernel_cost (again, &x->kernels[j], 1).seconds, sc_kernel_cost (c->device, &x->kernels[j], 1).seconds, 1e-4);
    }
  /* and the tables alone */
  g_autoptr (GString) samples = g_string_new (NULL);
  sc_device_write_samples (c->tables, NULL, samples);
  GError *error = NULL;
  g_autoptr (ScJson) json = sc_json_parse ("samples", samples->str, samples->len, &error);
  ck_assert_ptr_nonnull (json);
  g_autoptr (GPtrArray) tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
  ck_assert (sc_samples_read (json, cJSON_GetObjectItemCaseSensitive (json->root, "samples"), tables, &error));
  ck_assert_uint_eq (tables->len, c->tables->len);
}
END_TEST

static Suite *
calibrate_suite (void)
{
  Suite *suite = suite_create ("calibrate");
  TCase *tc = tcase_create ("calibrate");
  tcase_add_loop_test (tc, fits_find_the_truth_under_noise_and_outliers, 0, G_N_ELEMENTS (truths));
  tcase_add_test (tc, what_was_not_measured_keeps_the_number_of_the_base);
  tcase_add_test (tc, errors_of_a_table_are_those_of_points_left_out);
  tcase_add_test (tc, errors_of_a_line_are_those_of_points_left_out);
  tcase_add_test (tc, repetitions_of_a_shape_are_judged_one_by_one);
  tcase_add_test (tc, one_wild_point_does_not_move_a_line);
  tcase_add_test (tc, half_of_the_weight_lies_on_either_side_of_the_median);
  tcase_add_test (tc, an_error_is_a_share_of_what_was_measured);
  tcase_add_test (tc, wide_spreads_count_less_and_are_counted);
  tcase_add_test (tc, held_sms_stand_for_channels_where_no_collective_was_measured);
  tcase_add_loop_test (tc, published_rows_are_for_training_only_where_they_are_named, 0, 3);
  tcase_add_test (tc, tables_alone_are_made_on_the_numbers_of_the_base);
  tcase_add_test (tc, attention_without_fusion_is_not_what_forecasts_rest_on);
  tcase_add_test (tc, tables_of_the_base_stay_where_nothing_was_measured);
  tcase_add_test (tc, files_put_together_are_one_and_the_machine_is_the_last_said);
  tcase_add_loop_test (tc, a_fit_that_makes_no_sense_is_refused_by_name, 0, G_N_ELEMENTS (nonsense));
  tcase_add_test (tc, a_latency_little_below_nothing_is_nothing);
  tcase_add_test (heavy (suite), every_shipped_device_is_written_as_it_is_read);
  tcase_add_test (tc, a_calibrated_device_is_written_and_read_back);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  gsl_set_error_handler_off ();
  SRunner *runner = srunner_create (calibrate_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
