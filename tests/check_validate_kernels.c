/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_validate_kernels.c - measured kernels and layers are judged by what was left to the model, and errors add up. */
#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "device-json.h"
#include "json-in.h"
#include "library.h"
#include "models/kernel-form.h"
#include "pace.h"
#include "samples-json.h"
#include "validate-kernels.h"

static const ScHoldOutRule rules[] = { SC_KEEP_POINT, SC_KEEP_SHAPE, SC_KEEP_STACK, SC_KEEP_GPU, SC_KEEP_NONE };

static ScKernelRows *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  ScKernelRows *const rows = sc_kernel_rows_parse ("k.jsonl", text, strlen (text), &error);
  ck_assert_msg (rows != NULL, "%s", error != NULL ? error->message : "");
  return rows;
}

/* A file of tests/data. */
static ScKernelRows *
load (const char *name)
{
  const char *const folder = g_getenv ("abs_srcdir");
  g_autofree char *path = g_build_filename (folder != NULL ? folder : ".", "tests", "data", name, NULL);
  g_autoptr (GError) error = NULL;
  ScKernelRows *const rows = sc_kernel_rows_load (path, &error);
  ck_assert_msg (rows != NULL, "%s", error != NULL ? error->message : "");
  return rows;
}

static ScKernelsResult *
judge (const ScKernelRows *rows, ScHoldOutRule rule)
{
  g_autoptr (GError) error = NULL;
  ScKernelsResult *const result = sc_validate_kernels (rows, rule, &error);
  ck_assert_msg (result != NULL, "%s", error != NULL ? error->message : "");
  return result;
}

static const ScKernelJudged *
judged_at (const ScKernelsResult *result, guint i)
{
  ck_assert_uint_lt (i, result->judged->len);
  return g_ptr_array_index (result->judged, i);
}

static void
set_seconds (ScKernelRows *rows, guint i, double seconds)
{
  ((ScKernelRow *) g_ptr_array_index (rows->rows, i))->seconds = seconds;
}

/* ---- A GPU of our own: the shipped numbers of one, and tables that are made up ---- */

#define DEVICE "h100-sxm-80gb"
#define N_SHAPES 40
#define FACTOR 1.3 /* times are so much above the form */

static char *old_folder, *own_folder;

/* Device files are looked for in the current folder first. */
static void
enter_own_folder (const char *text)
{
  g_autoptr (GError) error = NULL;
  old_folder = g_get_current_dir ();
  own_folder = g_dir_make_tmp ("stepcast-kernels-XXXXXX", &error);
  ck_assert_msg (own_folder != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_int_eq (g_chdir (own_folder), 0);
  ck_assert_int_eq (g_mkdir_with_parents ("topologies/devices", 0700), 0);
  ck_assert_msg (g_file_set_contents ("topologies/devices/" DEVICE ".json", text, -1, &error), "%s", error != NULL ? error->message : "");
}

static void
leave_own_folder (void)
{
  g_remove ("topologies/devices/" DEVICE ".json");
  g_rmdir ("topologies/devices");
  g_rmdir ("topologies");
  ck_assert_int_eq (g_chdir (old_folder), 0);
  g_rmdir (own_folder);
  g_clear_pointer (&own_folder, g_free);
  g_clear_pointer (&old_folder, g_free);
}

/* Product number @i: forty different ones, eight to a width. */
static ScKernel
shape (guint i)
{
  return sc_kernel_gemm ("x", SC_DTYPE_BF16, 512u << i % 8, 1024 * (1 + i / 8), 4096);
}

/* Rows of those, by @stack, at @factor of the form at 0.75 of peak. */
static ScKernelRows *
made_up_rows (const ScDevice *device, const char *stack, double factor)
{
  const ScCited efficiency = { .value = 0.75 };
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < N_SHAPES; i++)
    {
      const ScKernel k = shape (i);
      g_string_append_printf (text, "{\"gpu\":\"H100\",\"dtype\":\"bf16\",\"m\":%u,\"n\":%u,\"k\":%u,\"time_us\":1,\"impl\":\"%s\"}\n", (guint) k.m,
                              (guint) k.n, (guint) k.k, stack);
    }
  ScKernelRows *const rows = parse (text->str);
  for (guint i = 0; i < N_SHAPES; i++)
    {
      const ScKernel k = shape (i);
      set_seconds (rows, i, factor * sc_kernel_form (device, &k, &efficiency, 1).seconds);
    }
  return rows;
}

/* The shipped H100 with one table: the products above by "ours", made of @rows. */
static char *
own_device_text (const ScKernelRows *rows)
{
  g_autoptr (cJSON) root = cJSON_Parse (sc_library_find (SC_KIND_DEVICE, DEVICE, NULL));
  ck_assert_ptr_nonnull (root);
  g_autoptr (ScSampleTable) table = g_new0 (ScSampleTable, 1);
  table->class = SC_KERNEL_GEMM;
  table->stack = g_strdup ("ours 1.0");
  table->source = g_strdup ("made up");
  table->training = TRUE;
  table->efficiency = (ScCited) { .value = 0.75, .grade = SC_GRADE_FITTED };
  table->n = rows->rows->len;
  table->kernels = g_new (ScKernel, table->n);
  table->seconds = g_new (double, table->n);
  for (guint i = 0; i < table->n; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      table->kernels[i] = row->kernel;
      table->seconds[i] = row->seconds;
    }
  g_autoptr (GString) samples = g_string_new ("[");
  sc_samples_write (table, samples);
  g_string_append_c (samples, ']');
  cJSON_ReplaceItemInObjectCaseSensitive (root, "samples", cJSON_Parse (samples->str));
  cJSON_DeleteItemFromObjectCaseSensitive (root, "reference");
  char *const printed = cJSON_Print (root), *const text = g_strdup (printed);
  cJSON_free (printed);
  return text;
}

static ScDevice *
shipped_numbers (void)
{
  g_autoptr (GError) error = NULL;
  ScDevice *const device = sc_device_load_numbers (DEVICE, &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  return device;
}

START_TEST (times_that_are_the_form_times_a_constant_have_no_error)
{
  g_autoptr (ScDevice) device = shipped_numbers ();
  g_autoptr (ScKernelRows) rows = made_up_rows (device, "ours 1.0", FACTOR);
  g_autoptr (ScKernelRows) next = made_up_rows (device, "ours 2.0", FACTOR); /* of another release */
  g_autoptr (ScKernelRows) others = made_up_rows (device, "theirs", FACTOR);
  g_autofree char *text = own_device_text (rows);
  enter_own_folder (text);
  const ScHoldOutRule seen[] = { SC_KEEP_POINT, SC_KEEP_SHAPE, SC_KEEP_NONE };
  const ScKernelRows *const files[] = { rows, next, others };
  const ScBasis bases[] = { SC_BY_STACK, SC_BY_STACK, SC_BY_OTHER };
  for (guint f = 0; f < G_N_ELEMENTS (files); f++)
    for (guint s = 0; s < G_N_ELEMENTS (seen); s++)
      {
        g_autoptr (ScKernelsResult) result = judge (files[f], seen[s]);
        ck_assert_uint_eq (result->all.n, N_SHAPES);
        ck_assert_double_lt (fabs (result->all.worst), 1e-5); /* the file has six digits */
        ck_assert (result->passes);
        for (guint i = 0; i < N_SHAPES; i++)
          ck_assert_int_eq (judged_at (result, i)->basis, bases[f]);
      }
  /* without its software there is nothing else on this GPU: the form at the device's own efficiency */
  g_autoptr (ScKernelsResult) form = judge (rows, SC_KEEP_STACK);
  for (guint i = 0; i < N_SHAPES; i++)
    {
      const ScKernel k = shape (i);
      ck_assert_int_eq (judged_at (form, i)->basis, SC_BY_FORM);
      ck_assert_double_eq_tol (judged_at (form, i)->predicted_s, sc_kernel_form (device, &k, NULL, 1).seconds, 1e-15);
    }
  leave_own_folder ();
}
END_TEST

START_TEST (a_constant_on_top_is_the_error_of_all)
{
  g_autoptr (ScDevice) device = shipped_numbers ();
  g_autoptr (ScKernelRows) table = made_up_rows (device, "ours 1.0", FACTOR);
  g_autoptr (ScKernelRows) rows = made_up_rows (device, "ours 1.0", FACTOR * 0.8); /* faster than the table says */
  g_autofree char *text = own_device_text (table);
  enter_own_folder (text);
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  const ScErrors *const e[] = { &result->all, &result->groups[SC_GROUP_GEMM], &g_array_index (result->sets, ScKernelSet, 0).errors };
  for (guint i = 0; i < G_N_ELEMENTS (e); i++)
    {
      ck_assert_uint_eq (e[i]->n, N_SHAPES);
      ck_assert_double_eq_tol (e[i]->median, 0.25, 1e-5);
      ck_assert_double_eq_tol (e[i]->p90, 0.25, 1e-5);
      ck_assert_double_eq_tol (e[i]->signed_error, 0.25, 1e-5);
      ck_assert_double_eq_tol (e[i]->worst, 0.25, 1e-5);
    }
  ck_assert (!result->passes);
  leave_own_folder ();
}
END_TEST

START_TEST (a_point_or_a_shape_held_out_is_not_seen)
{
  g_autoptr (ScDevice) device = shipped_numbers ();
  g_autoptr (ScKernelRows) rows = made_up_rows (device, "ours 1.0", FACTOR);
  set_seconds (rows, 19, 2 * ((const ScKernelRow *) g_ptr_array_index (rows->rows, 19))->seconds); /* one that is odd */
  g_autofree char *text = own_device_text (rows);
  enter_own_folder (text);
  g_autoptr (ScKernelsResult) none = judge (rows, SC_KEEP_NONE), point = judge (rows, SC_KEEP_POINT), by_shape = judge (rows, SC_KEEP_SHAPE);
  ck_assert_double_lt (fabs (none->all.worst), 1e-5);
  ck_assert_double_eq_tol (judged_at (point, 19)->predicted_s / judged_at (point, 19)->measured_s, 0.5, 1e-5); /* its neighbours are all alike */
  ck_assert_double_gt (fabs (judged_at (point, 18)->predicted_s / judged_at (point, 18)->measured_s - 1), 1e-3); /* which it misleads */
  for (guint i = 16; i < 24; i++) /* of one width: it is held out with all of them */
    ck_assert_double_eq_tol (judged_at (by_shape, i)->predicted_s / judged_at (by_shape, i)->measured_s, i == 19 ? 0.5 : 1, 1e-5);
  leave_own_folder ();
}
END_TEST

/* ---- Sums ---- */

static void
assert_adds_up (const ScKernelsResult *r)
{
  guint n = 0, skipped = 0, rows = 0;
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      guint banded = 0, of_group = 0, without = 0;
      for (guint b = 0; b < SC_N_TIME_BANDS; b++)
        banded += r->bands[g][b].n;
      for (guint i = 0; i < r->judged->len; i++)
        {
          const ScKernelJudged *const j = judged_at (r, i);
          of_group += j->group == g && j->why == NULL;
          without += j->group == g && j->why != NULL;
        }
      ck_assert_uint_eq (r->groups[g].n, of_group);
      ck_assert_uint_eq (r->skipped[g], without);
      ck_assert_uint_eq (banded, of_group);
      ck_assert_int_eq (isnan (r->groups[g].median), of_group == 0);
      if (of_group > 0)
        {
          ck_assert (r->groups[g].median <= r->groups[g].p90 && r->groups[g].p90 <= fabs (r->groups[g].worst));
          ck_assert (r->groups[g].signed_error <= fabs (r->groups[g].worst) + 1e-12);
        }
      n += of_group;
      skipped += without;
    }
  ck_assert_uint_eq (r->all.n, n);
  ck_assert_uint_eq (r->n_skipped, skipped);
  ck_assert_uint_eq (n + skipped, r->judged->len);
  guint in_sets = 0;
  for (guint s = 0; s < r->sets->len; s++)
    in_sets += g_array_index (r->sets, ScKernelSet, s).errors.n;
  ck_assert_uint_eq (in_sets, n);
  for (guint i = 0; i < r->judged->len; i++)
    rows += i == 0 || judged_at (r, i)->row != judged_at (r, i - 1)->row;
  ck_assert_uint_eq (rows, r->n_rows);
}

START_TEST (rows_are_judged_or_skipped_in_each_class_and_in_all)
{
  g_autoptr (ScKernelRows) rows = load ("kernels.jsonl");
  for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
    {
      g_autoptr (ScKernelsResult) result = judge (rows, rules[i]);
      ck_assert_uint_eq (result->n_rows, 16);
      ck_assert_uint_eq (result->all.n, 12);
      ck_assert_uint_eq (result->n_skipped, 5);
      assert_adds_up (result);
    }
}
END_TEST

START_TEST (what_was_measured_predicts_itself_unless_it_is_held_out)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDevice) device = sc_device_load ("a40", &error);
  ck_assert_msg (device != NULL && device->tables != NULL, "%s", error != NULL ? error->message : "no samples");
  g_autoptr (ScKernelRows) rows = g_new0 (ScKernelRows, 1);
  rows->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_kernel_row_free);
  for (guint t = 0; t < device->tables->len; t++)
    {
      const ScSampleTable *const table = g_ptr_array_index (device->tables, t);
      for (guint i = 0; i < table->n; i += 3)
        {
          ScKernelRow *const row = g_new0 (ScKernelRow, 1);
          *row = (ScKernelRow) { .line = rows->rows->len + 1, .kind = SC_ROW_KERNEL, .gpu = g_strdup (device->name), .stack = g_strdup (table->stack),
                                 .kernel = table->kernels[i], .seconds = table->seconds[i] };
          g_ptr_array_add (rows->rows, row);
        }
    }
  g_autoptr (ScKernelsResult) none = judge (rows, SC_KEEP_NONE), point = judge (rows, SC_KEEP_POINT), gpu = judge (rows, SC_KEEP_GPU);
  ck_assert_uint_gt (none->all.n, 30);
  ck_assert_double_lt (none->all.median, 1e-9);
  ck_assert (none->all.median <= point->all.median && none->all.p90 <= point->all.p90);
  ck_assert (none->all.median < gpu->all.median);
  assert_adds_up (point);
  for (guint i = 0; i < rows->rows->len; i++)
    {
      ck_assert_int_eq (judged_at (none, i)->basis, SC_BY_STACK);
      ck_assert (judged_at (gpu, i)->basis == SC_BY_RELATIVE || judged_at (gpu, i)->basis == SC_BY_FORM);
    }
}
END_TEST

/* ---- What rows are predicted from ---- */

#define PRODUCT(gpu, stack) "{\"gpu\":\"" gpu "\",\"dtype\":\"bf16\",\"m\":4096,\"n\":4096,\"k\":4096,\"time_us\":500,\"impl\":\"" stack "\"}\n"

START_TEST (without_its_gpu_a_row_is_predicted_by_the_relative)
{
  g_autoptr (ScKernelRows) rows = parse (PRODUCT ("A100", "someone"));
  g_autoptr (ScKernelsResult) with = judge (rows, SC_KEEP_NONE), without = judge (rows, SC_KEEP_GPU);
  ck_assert_int_eq (judged_at (with, 0)->basis, SC_BY_OTHER);
  ck_assert_int_eq (judged_at (without, 0)->basis, SC_BY_RELATIVE);
  ck_assert_double_ne (judged_at (with, 0)->predicted_s, judged_at (without, 0)->predicted_s);

  /* the relative's residual, on this GPU's numbers and the relative's efficiency */
  g_autoptr (GError) error = NULL;
  g_autoptr (ScDevice) device = sc_device_load ("a100-sxm-80gb", &error);
  ck_assert_msg (device != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_ptr_nonnull (device->relative_name);
  g_autoptr (ScDevice) relative = sc_device_load (device->relative_name, &error);
  ck_assert_msg (relative != NULL, "%s", error != NULL ? error->message : "");
  g_clear_pointer (&device->tables, g_ptr_array_unref);
  const double bandwidth = device->memory_bytes_per_s.value / relative->memory_bytes_per_s.value;
  device->gemm_tile_efficiency.value = relative->gemm_tile_efficiency.value;
  device->elementwise_bytes_per_s.value = relative->elementwise_bytes_per_s.value * bandwidth;
  device->half_bytes.value = relative->half_bytes.value * bandwidth;
  device->launch_s.value = relative->launch_s.value;
  const ScKernel *const k = &judged_at (without, 0)->row->kernel;
  gboolean lent;
  const ScSampleTable *const table = sc_device_samples (relative, k, &lent);
  ck_assert_ptr_nonnull (table);
  double distance;
  ck_assert_double_eq_tol (judged_at (without, 0)->predicted_s, sc_samples_predict (device, table, k, SC_HOLD_NOTHING, &distance), 1e-15);
}
END_TEST

START_TEST (a_gpu_without_measurements_borrows_those_of_its_relative)
{
  g_autoptr (ScKernelRows) rows = parse (PRODUCT ("H800", "someone") PRODUCT ("V100-SXM2-32GB", "someone"));
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  ck_assert_int_eq (judged_at (result, 0)->basis, SC_BY_RELATIVE);
  ck_assert_str_eq (judged_at (result, 0)->gpu, "h800-sxm");
  ck_assert_ptr_nonnull (judged_at (result, 1)->why); /* Volta has no bf16 */
}
END_TEST

START_TEST (what_cannot_be_predicted_says_why)
{
  static const struct
  {
    const char *text, *why;
  } cases[] = {
    { PRODUCT ("Abacus", "x"), "no shipped device is called \"Abacus\"" },
    { "{\"gpu\":\"V100-SXM2-32GB\",\"dtype\":\"fp8\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":5}", "v100-sxm-32gb has no fp8 rate" },
    { "{\"class\":\"gemm\",\"dtype\":\"fp8\",\"m\":8,\"n\":8,\"k\":8,\"time_us\":5}", "no shipped device is called \"\"" },
    { "{\"class\":\"copy\",\"gpu\":\"H100\",\"op\":\"h2d\",\"bytes\":8,\"time_us\":5}", "no kernel" },
    { "{\"gpu\":\"H100\",\"op\":\"juggle\",\"bytes\":8,\"time_us\":5}", "no kernel of a training step: juggle" },
    { "{\"kind\":\"layer\",\"model\":{},\"measured\":{\"layer_forward_ms\":1}}", "the GPU is not stated" },
    { "{\"kind\":\"layer\",\"model\":{},\"cluster\":7,\"measured\":[1]}", "the GPU is not stated" },
    { "{\"kind\":\"layer\",\"model\":{},\"cluster\":{\"gpu\":\"H100\"},\"measured\":{\"layer_forward_ms\":-1,\"layer_backward_ms\":\"2\"}}",
      "no time of a layer is stated" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (ScKernelRows) rows = parse (cases[i].text);
      g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
      ck_assert_uint_eq (result->judged->len, 1);
      ck_assert_str_eq (judged_at (result, 0)->why, cases[i].why);
      ck_assert (!result->passes);
      assert_adds_up (result);
    }
}
END_TEST

START_TEST (sessions_are_no_rows)
{
  g_autoptr (ScKernelRows) rows = parse ("{\"class\":\"session\",\"gpu\":\"H100\",\"cublaslt\":\"12.8\"}\n"
                                         "{\"class\":\"gemm\",\"gpu\":\"NVIDIA H100 80GB HBM3\",\"dtype\":\"bf16\",\"layout\":\"NT\",\"accumulate\":true,"
                                         "\"m\":4096,\"n\":4096,\"k\":4096,\"time_us\":250}\n{\"class\":\"ge");
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  ck_assert_uint_eq (result->n_rows, 2);
  ck_assert_uint_eq (result->all.n, 1);
  ck_assert_int_eq (judged_at (result, 0)->group, SC_GROUP_GEMM_TRAINING);
  ck_assert_str_eq (judged_at (result, 0)->stack, "cuBLASLt 12.8");
  ck_assert_str_eq (judged_at (result, 0)->name, "gemm bf16 NT += 4096 x 4096 x 4096");
  ck_assert_str_eq (judged_at (result, 1)->why, "cut off");
  assert_adds_up (result);
}
END_TEST

START_TEST (groups_bands_and_bases_have_names)
{
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      double median, p90;
      sc_kernel_group_targets ((ScKernelGroup) g, &median, &p90);
      ck_assert_ptr_nonnull (sc_kernel_group_name ((ScKernelGroup) g));
      ck_assert (isnan (median) || (median > 0 && median < 0.2));
      ck_assert (isnan (p90) || p90 > median);
    }
  for (guint b = 0; b < SC_N_TIME_BANDS; b++)
    ck_assert_ptr_nonnull (sc_time_band_name (b));
  for (guint b = 0; b < SC_N_BASES; b++)
    ck_assert_ptr_nonnull (sc_basis_name ((ScBasis) b));
}
END_TEST

START_TEST (a_time_falls_into_the_band_that_it_begins)
{
  static const double edges_us[] = { 10, 100, 1000, 10000 };
  for (guint e = 0; e < G_N_ELEMENTS (edges_us); e++)
    {
      g_autoptr (ScKernelRows) rows = parse (PRODUCT ("H100", "x") PRODUCT ("H100", "x"));
      set_seconds (rows, 0, edges_us[e] * 1e-6 * (1 - 1e-12));
      set_seconds (rows, 1, edges_us[e] / 1e6);
      g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
      ck_assert_uint_eq (result->bands[SC_GROUP_GEMM][e].n, 1);
      ck_assert_uint_eq (result->bands[SC_GROUP_GEMM][e + 1].n, 1);
    }
}
END_TEST

/* ---- Layers ---- */

START_TEST (the_layers_of_a_22b_model_are_within_five_percent)
{
  g_autoptr (ScKernelRows) rows = load ("layers.jsonl");
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  /* arXiv 2205.05198, table 4: forward and backward; nothing, SP, full recompute, selective, both */
  static const double ms[] = { 7.7, 11.9, 7.2, 11.8, 7.7, 19.5, 7.7, 13.2, 7.2, 13.1 };
  ck_assert_uint_eq (result->judged->len, G_N_ELEMENTS (ms));
  for (guint i = 0; i < G_N_ELEMENTS (ms); i++)
    {
      const ScKernelJudged *const j = judged_at (result, i);
      ck_assert_msg (j->why == NULL, "%s", j->why);
      ck_assert_double_eq_tol (j->measured_s, ms[i] * 1e-3, 1e-12);
      ck_assert_msg (fabs (j->predicted_s / j->measured_s - 1) < 0.05, "%s: %g ms, measured %g", j->name, 1e3 * j->predicted_s, ms[i]);
      ck_assert (g_str_has_prefix (j->name, i % 2 == 0 ? "layer forward gpt-22b-" : "layer backward gpt-22b-"));
    }
  ck_assert_uint_eq (result->n_rows, 5);
  ck_assert (result->passes);
  assert_adds_up (result);
  /* recomputing costs about a forward more, sequence parallelism saves time */
  const double forward = judged_at (result, 0)->predicted_s, backward = judged_at (result, 1)->predicted_s;
  ck_assert_double_eq_tol (judged_at (result, 5)->predicted_s / (forward + backward), 1, 0.02);
  ck_assert_double_eq (judged_at (result, 4)->predicted_s, forward);
  ck_assert_double_lt (judged_at (result, 2)->predicted_s, forward);
  ck_assert (judged_at (result, 7)->predicted_s > backward && judged_at (result, 7)->predicted_s < judged_at (result, 5)->predicted_s);
}
END_TEST

START_TEST (the_number_of_layers_in_a_row_does_not_matter)
{
  g_autoptr (ScKernelRows) rows = load ("layers.jsonl");
  const ScKernelRow *const first = g_ptr_array_index (rows->rows, 0);
  ScKernelRow *const second = g_ptr_array_index (rows->rows, 1);
  g_autofree char *text = cJSON_PrintUnformatted (first->json->root);
  g_clear_pointer (&second->json, sc_json_free);
  second->json = sc_json_parse ("x", text, strlen (text), NULL);
  cJSON *const model = cJSON_GetObjectItem (second->json->root, "model"), *const plan = cJSON_GetObjectItem (second->json->root, "plan");
  cJSON_SetNumberValue (cJSON_GetObjectItem (model, "layers"), 48);
  cJSON_SetNumberValue (cJSON_GetObjectItem (plan, "global_batch"), 64);
  g_ptr_array_set_size (rows->rows, 2);
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  for (guint i = 0; i < 2; i++)
    ck_assert_double_eq (judged_at (result, i)->predicted_s, judged_at (result, i + 2)->predicted_s);
}
END_TEST

#define LAYER_END "\"cluster\":{\"gpu\":\"a100-sxm-80gb\"},\"measured\":{\"layer_forward_ms\":7.7}}"

START_TEST (hostile_layers_are_skipped_with_a_reason)
{
  static const char *const texts[] = {
    "{\"kind\":\"layer\",\"model\":{},\"plan\":{}," LAYER_END,
    "{\"kind\":\"layer\",\"model\":[]," LAYER_END,
    "{\"kind\":\"layer\",\"model\":7,\"plan\":\"x\"," LAYER_END,
    "{\"kind\":\"layer\",\"model\":{\"hidden\":-1},\"plan\":{\"tp\":8}," LAYER_END,
    "{\"kind\":\"layer\",\"model\":{\"hidden\":1e300,\"family\":7},\"plan\":{\"tp\":1e9,\"micro_batch\":-3}," LAYER_END,
    "{\"kind\":\"layer\",\"model\":{\"xyzzy\":1},\"plan\":{},\"seq\":\"long\"," LAYER_END,
    "{\"kind\":\"layer\",\"model\":{\"hidden\":64,\"heads\":1,\"ffn\":64,\"vocab\":64},\"seq\":64,\"plan\":{\"tp\":1,\"dp\":1,\"micro_batch\":1,\"dtype\":"
    "\"bf16\"},\"cluster\":{\"gpu\":\"Abacus\"},\"measured\":{\"layer_forward_ms\":1}}",
    "{\"kind\":\"layer\",\"model\":{\"hidden\":64,\"heads\":1,\"ffn\":64,\"vocab\":64},\"seq\":64,\"plan\":{\"tp\":1,\"dp\":1000000,\"micro_batch\":1000000,"
    "\"dtype\":\"bf16\"}," LAYER_END,
  };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (ScKernelRows) rows = parse (texts[i]);
      g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
      ck_assert_uint_eq (result->judged->len, 1);
      const ScKernelJudged *const j = judged_at (result, 0);
      ck_assert_msg (j->why != NULL, "%s", texts[i]);
      ck_assert_ptr_null (strchr (j->why, '\n'));
    }
}
END_TEST

/* ---- Reports ---- */

START_TEST (figures_beyond_reason_break_no_report)
{
  g_autoptr (ScKernelRows) rows = parse ("{\"gpu\":\"H100\",\"dtype\":\"bf16\",\"m\":1e9,\"n\":1e9,\"k\":1e9,\"time_us\":1e-300}\n"
                                         "{\"gpu\":\"H100\",\"dtype\":\"bf16\",\"m\":1e9,\"n\":1e9,\"k\":1e9,\"grouped\":4096,\"time_us\":1e12}\n"
                                         "{\"gpu\":\"H100\",\"dtype\":\"bf16\",\"m\":1,\"n\":1,\"k\":1,\"batch\":1e9,\"time_us\":1e12}\n"
                                         "{\"gpu\":\"H100\",\"kind\":\"fwd\",\"causal\":true,\"dtype\":\"bf16\",\"batch\":1e9,\"seqlen\":1e9,\"heads\":1e9,"
                                         "\"head_dim\":1e9,\"time_us\":1e-300}\n"
                                         "{\"gpu\":\"H100\",\"kind\":\"bwd\",\"causal\":true,\"dtype\":\"bf16\",\"batch\":1,\"seqlen\":1,\"heads\":1,"
                                         "\"kv_heads\":1e9,\"head_dim\":1,\"time_us\":1e12,\"impl\":\"a \\\"b\\\", c|d\"}\n"
                                         "{\"gpu\":\"H100\",\"op\":\"add\",\"bytes\":1e15,\"time_us\":1e-300}\n");
  for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
    {
      g_autoptr (ScKernelsResult) result = judge (rows, rules[i]);
      ck_assert_uint_eq (result->judged->len, 6);
      ck_assert (!result->passes);
      for (const ScKernelsFormat *format = sc_kernels_formats (); format->name != NULL; format++)
        {
          g_autoptr (GString) out = g_string_new (NULL);
          format->write (result, out);
          ck_assert_uint_gt (out->len, 100);
          if (strcmp (format->name, "json") != 0)
            continue;
          g_autoptr (cJSON) root = cJSON_Parse (out->str);
          ck_assert_ptr_nonnull (root);
        }
    }
}
END_TEST

static double
number_of (const cJSON *object, const char *key)
{
  const cJSON *const item = cJSON_GetObjectItemCaseSensitive (object, key);
  ck_assert_msg (cJSON_IsNumber (item), "%s", key);
  return item->valuedouble;
}

/* Every key of @item stands in @documentation as `key`; classes are named there too. */
static void
assert_documented (const cJSON *item, const char *documentation)
{
  for (const cJSON *child = item->child; child != NULL; child = child->next)
    {
      if (child->string != NULL)
        {
          g_autofree char *key = g_strdup_printf ("`%s`", child->string);
          ck_assert_msg (strstr (documentation, key) != NULL, "%s is not in doc/validate-json.md", key);
        }
      assert_documented (child, documentation);
    }
}

START_TEST (the_json_says_what_the_result_does_and_is_documented)
{
  const char *const folder = g_getenv ("abs_srcdir");
  g_autofree char *path = g_build_filename (folder != NULL ? folder : ".", "doc", "validate-json.md", NULL);
  g_autofree char *whole = NULL;
  ck_assert_msg (g_file_get_contents (path, &whole, NULL, NULL), "%s", path);
  const char *const documentation = strstr (whole, "`stepcast validate kernels`");
  ck_assert_ptr_nonnull (documentation);
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      g_autofree char *key = g_strdup_printf ("`%s`", sc_kernel_group_name ((ScKernelGroup) g));
      ck_assert_msg (strstr (documentation, key) != NULL, "%s", key);
    }
  for (guint b = 0; b < SC_N_BASES; b++)
    ck_assert_msg (strstr (documentation, sc_basis_name ((ScBasis) b)) != NULL, "%s", sc_basis_name ((ScBasis) b));

  g_autoptr (ScKernelRows) rows = load ("kernels.jsonl");
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  const ScKernelsFormat *format = sc_kernels_formats ();
  while (strcmp (format->name, "json") != 0)
    format++;
  g_autoptr (GString) out = g_string_new (NULL);
  format->write (result, out);
  g_autoptr (cJSON) root = cJSON_Parse (out->str);
  ck_assert_ptr_nonnull (root);
  assert_documented (root, documentation);
  const cJSON *const summary = cJSON_GetObjectItemCaseSensitive (root, "summary"), *const list = cJSON_GetObjectItemCaseSensitive (root, "rows");
  ck_assert_uint_eq ((guint) cJSON_GetArraySize (list), result->judged->len);
  ck_assert_uint_eq ((guint) cJSON_GetArraySize (cJSON_GetObjectItemCaseSensitive (root, "sets")), result->sets->len);
  double n_rows = 0, n_judged = 0, n_skipped = 0;
  for (const cJSON *group = summary->child; group != NULL; group = group->next)
    {
      ck_assert_double_eq (number_of (group, "rows"), number_of (group, "judged") + number_of (group, "skipped"));
      if (strcmp (group->string, "all") == 0)
        continue;
      n_rows += number_of (group, "rows");
      n_judged += number_of (group, "judged");
      n_skipped += number_of (group, "skipped");
    }
  const cJSON *const all = cJSON_GetObjectItemCaseSensitive (summary, "all");
  ck_assert_double_eq (number_of (all, "rows"), n_rows);
  ck_assert_double_eq (number_of (all, "judged"), n_judged);
  ck_assert_double_eq (number_of (all, "skipped"), n_skipped);
  guint i = 0;
  for (const cJSON *row = list->child; row != NULL; row = row->next, i++)
    {
      const ScKernelJudged *const j = judged_at (result, i);
      ck_assert_double_eq (number_of (row, "line"), j->line);
      ck_assert_int_eq (cJSON_IsNull (cJSON_GetObjectItemCaseSensitive (row, "skipped")), j->why == NULL);
      if (j->why == NULL)
        ck_assert_double_eq_tol (number_of (row, "predicted_us") / number_of (row, "measured_us"), j->predicted_s / j->measured_s, 1e-9);
    }
}
END_TEST

START_TEST (csv_has_a_line_for_each_figure)
{
  g_autoptr (ScKernelRows) rows = load ("kernels.jsonl");
  g_autoptr (ScKernelsResult) result = judge (rows, SC_KEEP_POINT);
  const ScKernelsFormat *format = sc_kernels_formats ();
  while (strcmp (format->name, "csv") != 0)
    format++;
  g_autoptr (GString) out = g_string_new (NULL);
  format->write (result, out);
  g_auto (GStrv) lines = g_strsplit (out->str, "\n", -1);
  ck_assert_uint_eq (g_strv_length (lines), result->judged->len + 2);
  for (guint i = 0; lines[i][0] != '\0'; i++)
    {
      guint commas = 0;
      gboolean quoted = FALSE;
      for (const char *c = lines[i]; *c != '\0'; c++)
        {
          quoted ^= *c == '"';
          commas += *c == ',' && !quoted;
        }
      ck_assert_msg (commas == 9 && !quoted, "%s", lines[i]);
    }
}
END_TEST

static Suite *
validate_kernels_suite (void)
{
  Suite *suite = suite_create ("validate kernels");
  TCase *tc = tcase_create ("made up");
  tcase_add_test (tc, times_that_are_the_form_times_a_constant_have_no_error);
  tcase_add_test (tc, a_constant_on_top_is_the_error_of_all);
  tcase_add_test (tc, a_point_or_a_shape_held_out_is_not_seen);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("sums");
  tcase_add_test (heavy (suite), rows_are_judged_or_skipped_in_each_class_and_in_all);
  tcase_add_test (tc, what_was_measured_predicts_itself_unless_it_is_held_out);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("bases");
  tcase_add_test (tc, without_its_gpu_a_row_is_predicted_by_the_relative);
  tcase_add_test (tc, a_gpu_without_measurements_borrows_those_of_its_relative);
  tcase_add_test (tc, what_cannot_be_predicted_says_why);
  tcase_add_test (tc, sessions_are_no_rows);
  tcase_add_test (tc, groups_bands_and_bases_have_names);
  tcase_add_test (tc, a_time_falls_into_the_band_that_it_begins);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("layers");
  tcase_add_test (tc, the_layers_of_a_22b_model_are_within_five_percent);
  tcase_add_test (tc, the_number_of_layers_in_a_row_does_not_matter);
  tcase_add_test (tc, hostile_layers_are_skipped_with_a_reason);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("reports");
  tcase_add_test (tc, figures_beyond_reason_break_no_report);
  tcase_add_test (tc, the_json_says_what_the_result_does_and_is_documented);
  tcase_add_test (tc, csv_has_a_line_for_each_figure);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (validate_kernels_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
