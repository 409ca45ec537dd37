/* SPDX-License-Identifier: GPL-3.0-or-later */
/* validate-kernels.c - predicts each row from what is not itself, and counts errors. */
#include "validate-kernels.h"
#include "device-json.h"
#include "library.h"
#include "models/kernel-form.h"
#include "samples-json.h"
#include "validate-layer.h"
#include <math.h>
#include <string.h>

#define LARGE_BYTES 10e6 /* memory-bound kernels below are mostly start-up, and cache */

static const struct
{
  const char *name;
  double median, p90;
} groups[] = {
  [SC_GROUP_GEMM] = { "gemm", 0.05, 0.12 },
  [SC_GROUP_GEMM_TRAINING] = { "gemm_training", 0.05, NAN },
  [SC_GROUP_BATCHED_GEMM] = { "batched_gemm", NAN, NAN },
  [SC_GROUP_GROUPED_GEMM] = { "grouped_gemm", NAN, NAN },
  [SC_GROUP_ATTENTION_FORWARD] = { "attention_forward", 0.07, NAN },
  [SC_GROUP_ATTENTION_BACKWARD] = { "attention_backward", 0.10, NAN },
  [SC_GROUP_MEMORY] = { "memory", 0.10, NAN },
  [SC_GROUP_MEMORY_SMALL] = { "memory_small", NAN, NAN },
  [SC_GROUP_LAYER] = { "layer", 0.05, NAN },
};
G_STATIC_ASSERT (G_N_ELEMENTS (groups) == SC_N_GROUPS);

static const struct
{
  const char *name;
  double below_s;
} bands[] = { { "< 10 us", 10e-6 }, { "10-100 us", 100e-6 }, { "0.1-1 ms", 1e-3 }, { "1-10 ms", 10e-3 }, { "> 10 ms", INFINITY } };
G_STATIC_ASSERT (G_N_ELEMENTS (bands) == SC_N_TIME_BANDS);

const char *
sc_kernel_group_name (ScKernelGroup group)
{
  g_return_val_if_fail (group < SC_N_GROUPS, NULL);
  return groups[group].name;
}

void
sc_kernel_group_targets (ScKernelGroup group, double *ret_median, double *ret_p90)
{
  *ret_median = groups[group].median;
  *ret_p90 = groups[group].p90;
}

const char *
sc_time_band_name (guint band)
{
  return bands[band].name;
}

const char *
sc_hold_out_name (ScHoldOutRule rule)
{
  static const char *const names[] = { [SC_KEEP_POINT] = "point", [SC_KEEP_SHAPE] = "shape", [SC_KEEP_STACK] = "software",
                                       [SC_KEEP_GPU] = "gpu", [SC_KEEP_NONE] = "none" };
  return (guint) rule < G_N_ELEMENTS (names) ? names[rule] : NULL;
}

const char *
sc_basis_name (ScBasis basis)
{
  static const char *const names[] = {
    [SC_BY_STACK] = "same software", [SC_BY_OTHER] = "other software", [SC_BY_RELATIVE] = "another GPU", [SC_BY_FORM] = "formula"
  };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == SC_N_BASES);
  return names[basis];
}

static void
judged_free (gpointer data)
{
  ScKernelJudged *const judged = data;
  g_free (judged->name);
  g_free (judged->why);
  g_free (judged);
}

void
sc_kernels_result_free (ScKernelsResult *result)
{
  if (result == NULL)
    return;
  g_ptr_array_unref (result->judged);
  g_array_unref (result->sets);
  g_ptr_array_unref (result->devices);
  g_free (result);
}

/* ---- Devices by the names of rows ---- */

typedef struct
{
  ScKernelsResult *result;
  ScHoldOutRule    rule;
  GHashTable      *by_name; /* GPU as written -> ScDevice, or NULL: there is none */
} Run;

static void
take_curve (ScCurve *to, const ScCurve *from, double factor)
{
  sc_curve_clear (to);
  to->n = from->n;
  to->x = g_memdup2 (from->x, from->n * sizeof from->x[0]);
  to->y = g_memdup2 (from->y, from->n * sizeof from->y[0]);
  to->grade = SC_GRADE_FITTED;
  for (guint i = 0; i < to->n; i++)
    to->y[i] *= factor;
}

/* Efficiencies of @from on the datasheet of @to. */
static void
take_numbers (ScDevice *to, const ScDevice *from)
{
  const ScDtype dtype = SC_DTYPE_FP16; /* all GPUs have it */
  const double peak = to->peak_flops[dtype].value / from->peak_flops[dtype].value;
  const double bandwidth = to->memory_bytes_per_s.value / from->memory_bytes_per_s.value;
  const struct
  {
    ScCited *to;
    const ScCited *from;
    double factor;
  } numbers[] = {
    { &to->gemm_tile_efficiency, &from->gemm_tile_efficiency, 1 },
    { &to->gemm_accumulate, &from->gemm_accumulate, 1 },
    { &to->batched_gemm_efficiency, &from->batched_gemm_efficiency, 1 },
    { &to->elementwise_bytes_per_s, &from->elementwise_bytes_per_s, bandwidth },
    { &to->reduction_bytes_per_s, &from->reduction_bytes_per_s, bandwidth },
    { &to->optimizer_bytes_per_s, &from->optimizer_bytes_per_s, bandwidth },
    { &to->half_bytes, &from->half_bytes, bandwidth },
    { &to->launch_s, &from->launch_s, 1 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    numbers[i].to->value = numbers[i].from->value * numbers[i].factor;
  take_curve (&to->flash_forward, &from->flash_forward, peak);
  take_curve (&to->flash_backward, &from->flash_backward, peak);
}

/* As forecasts would have it if nobody had measured this GPU: its relative lends samples and efficiencies. */
static gboolean
forget_measurements (ScDevice *device, GError **error)
{
  g_clear_pointer (&device->tables, g_ptr_array_unref);
  if (device->relative == NULL && device->relative_name != NULL && !sc_device_read_relative (device, NULL, error))
    return FALSE;
  if (device->relative != NULL)
    take_numbers (device, device->relative);
  return TRUE;
}

static gboolean
device_of (Run *run, const char *gpu, const ScDevice **ret, GError **error)
{
  gpointer known;
  *ret = NULL;
  if (g_hash_table_lookup_extended (run->by_name, gpu, NULL, &known))
    {
      *ret = known;
      return TRUE;
    }
  g_autoptr (GError) why = NULL;
  ScDevice *const device = sc_device_find (gpu, &why);
  if (why != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&why));
      return FALSE;
    }
  if (device != NULL)
    {
      g_ptr_array_add (run->result->devices, device);
      if (run->rule == SC_KEEP_GPU ? !forget_measurements (device, error) : !sc_device_read_reference (device, error))
        return FALSE;
    }
  g_hash_table_insert (run->by_name, g_strdup (gpu), device);
  *ret = device;
  return TRUE;
}

/* ---- One row ---- */

static ScKernelGroup
group_of (const ScKernelRow *row)
{
  switch (row->kernel.class)
    {
    case SC_KERNEL_GEMM: return row->has_layout ? SC_GROUP_GEMM_TRAINING : SC_GROUP_GEMM;
    case SC_KERNEL_BATCHED_GEMM: return SC_GROUP_BATCHED_GEMM;
    case SC_KERNEL_GROUPED_GEMM: return SC_GROUP_GROUPED_GEMM;
    case SC_KERNEL_FLASH_FORWARD: return SC_GROUP_ATTENTION_FORWARD;
    case SC_KERNEL_FLASH_BACKWARD: return SC_GROUP_ATTENTION_BACKWARD;
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER:
    case SC_KERNEL_HOST_COPY: return row->kernel.bytes >= LARGE_BYTES ? SC_GROUP_MEMORY : SC_GROUP_MEMORY_SMALL;
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (SC_GROUP_GEMM);
    }
}

static char *
name_of (const ScKernel *k)
{
  const char *const class = sc_kernel_class_name (k->class), *const dtype = sc_dtype_name (k->dtype);
  switch (k->class)
    {
    case SC_KERNEL_GEMM:
      return g_strdup_printf ("%s %s %s%s %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT, class, dtype,
                              sc_gemm_layout_name (k->layout), k->accumulate ? " +=" : "", k->m, k->n, k->k);
    case SC_KERNEL_BATCHED_GEMM:
    case SC_KERNEL_GROUPED_GEMM:
      return g_strdup_printf ("%s %s %s %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT, class, dtype,
                              sc_gemm_layout_name (k->layout), k->batch, k->m, k->n, k->k);
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD:
      return g_strdup_printf ("%s %s%s %" G_GUINT64_FORMAT " x %u, %u/%u heads of %" G_GUINT64_FORMAT, class, dtype, k->causal ? " causal" : "",
                              k->batch, k->seq, k->heads, k->kv_heads, k->k);
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER:
    case SC_KERNEL_HOST_COPY: return g_strdup_printf ("%s %s %.0f bytes", sc_op_name (k->op), dtype, k->bytes);
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (NULL);
    }
}

/* The software without its release: "trtllm 1.3.0rc20" -> 6. */
static gsize
library_length (const char *stack)
{
  return strcspn (stack, " ");
}

/* Measurements of the row's software: of its release, else of another. */
static const ScSampleTable *
stack_table (const ScDevice *device, const ScKernelRow *row)
{
  const ScSampleTable *other = NULL;
  for (guint i = 0; device->tables != NULL && i < device->tables->len; i++)
    {
      const ScSampleTable *const t = g_ptr_array_index (device->tables, i);
      if (t->class != row->kernel.class || t->op != row->kernel.op || t->dtype != row->kernel.dtype || t->stack == NULL)
        continue;
      if (strcmp (t->stack, row->stack) == 0)
        return t;
      const gsize length = library_length (row->stack);
      if (other == NULL && length == library_length (t->stack) && strncmp (t->stack, row->stack, length) == 0)
        other = t;
    }
  return other;
}

/* Measurements of the same work by anybody else on this GPU: those that forecasts rest on, else the largest table. */
static const ScSampleTable *
other_table (const ScDevice *device, const ScKernelRow *row, const ScSampleTable *own)
{
  const ScSampleTable *best = NULL;
  for (guint i = 0; device->tables != NULL && i < device->tables->len; i++)
    {
      const ScSampleTable *const t = g_ptr_array_index (device->tables, i);
      const gboolean halves = t->dtype <= SC_DTYPE_FP16 && row->kernel.dtype <= SC_DTYPE_FP16;
      if (t == own || t->class != row->kernel.class || t->op != row->kernel.op || (t->dtype != row->kernel.dtype && !halves))
        continue;
      if (best == NULL || t->training > best->training || (t->training == best->training && t->n > best->n))
        best = t;
    }
  return best;
}

/* 0: the device has no attention. */
static double
form_s (const ScDevice *device, const ScKernel *kernel)
{
  const gboolean attention = kernel->class == SC_KERNEL_FLASH_FORWARD || kernel->class == SC_KERNEL_FLASH_BACKWARD;
  return attention && device->flash_forward.n == 0 ? 0 : sc_kernel_form (device, kernel, NULL, 1).seconds;
}

static double
predict (const Run *run, const ScDevice *device, const ScKernelRow *row, ScBasis *basis)
{
  static const ScHoldOut hold[] = {
    [SC_KEEP_POINT] = SC_HOLD_POINT, [SC_KEEP_SHAPE] = SC_HOLD_SHAPE, [SC_KEEP_STACK] = SC_HOLD_NOTHING,
    [SC_KEEP_GPU] = SC_HOLD_NOTHING, [SC_KEEP_NONE] = SC_HOLD_NOTHING,
  };
  double distance = INFINITY, s = 0;
  const ScSampleTable *const own = stack_table (device, row);
  if (own != NULL && run->rule != SC_KEEP_STACK)
    {
      *basis = SC_BY_STACK;
      /* bytes are all the shape that a memory-bound kernel has */
      const gboolean memory = row->kernel.class >= SC_KERNEL_ELEMENTWISE;
      const ScHoldOut without = memory && hold[run->rule] == SC_HOLD_SHAPE ? SC_HOLD_POINT : hold[run->rule];
      s = sc_samples_predict (device, own, &row->kernel, without, &distance);
    }
  if (!isfinite (distance))
    {
      const ScSampleTable *const other = other_table (device, row, own);
      *basis = SC_BY_OTHER;
      if (other != NULL)
        s = sc_samples_predict (device, other, &row->kernel, SC_HOLD_NOTHING, &distance);
    }
  gboolean relative;
  const ScSampleTable *const lent = isfinite (distance) ? NULL : sc_device_samples (device, &row->kernel, &relative);
  if (lent != NULL && relative)
    {
      *basis = SC_BY_RELATIVE;
      s = sc_samples_predict (device, lent, &row->kernel, SC_HOLD_NOTHING, &distance);
    }
  if (isfinite (distance))
    return s;
  *basis = SC_BY_FORM;
  return form_s (device, &row->kernel);
}

static ScKernelJudged *
new_judged (Run *run, const ScKernelRow *row, ScKernelGroup group)
{
  ScKernelJudged *const judged = g_new0 (ScKernelJudged, 1);
  judged->row = row;
  judged->line = row->line;
  judged->group = group;
  judged->stack = row->stack;
  judged->basis = SC_BY_FORM;
  g_ptr_array_add (run->result->judged, judged);
  return judged;
}

static gboolean
judge_kernel (Run *run, const ScKernelRow *row, GError **error)
{
  ScKernelJudged *const judged = new_judged (run, row, group_of (row));
  judged->name = name_of (&row->kernel);
  judged->measured_s = row->seconds;
  const ScDevice *device;
  if (!device_of (run, row->gpu != NULL ? row->gpu : "", &device, error))
    return FALSE;
  if (device == NULL)
    {
      judged->why = g_strdup_printf ("no shipped device is called \"%s\"", row->gpu != NULL ? row->gpu : "");
      return TRUE;
    }
  judged->gpu = device->name;
  const gboolean memory = row->kernel.class >= SC_KERNEL_ELEMENTWISE;
  if (!memory && device->peak_flops[row->kernel.dtype].value <= 0)
    judged->why = g_strdup_printf ("%s has no %s rate", device->name, sc_dtype_name (row->kernel.dtype));
  else
    judged->predicted_s = predict (run, device, row, &judged->basis);
  if (judged->why == NULL && judged->predicted_s <= 0)
    judged->why = g_strdup_printf ("%s has no flash attention", device->name);
  return TRUE;
}

static gboolean
judge_layer (Run *run, const ScKernelRow *row, GError **error)
{
  ScLayerTimes times;
  char *why = NULL;
  (void) error;
  sc_layer_times (row->json, &times, &why);
  const struct
  {
    const char *name;
    double measured_s, predicted_s;
  } parts[] = { { "layer forward", times.measured_forward_s, times.forward_s }, { "layer backward", times.measured_backward_s, times.backward_s } };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      if (why == NULL && parts[i].measured_s <= 0)
        continue;
      const cJSON *const id = cJSON_GetObjectItemCaseSensitive (row->json->root, "id");
      ScKernelJudged *const judged = new_judged (run, row, SC_GROUP_LAYER);
      judged->name = g_strdup_printf ("%s%s%s", parts[i].name, cJSON_IsString (id) ? " " : "", cJSON_IsString (id) ? id->valuestring : "");
      judged->gpu = row->gpu;
      judged->measured_s = parts[i].measured_s;
      judged->predicted_s = parts[i].predicted_s;
      judged->why = g_strdup (why);
      if (why != NULL)
        break; /* one row, skipped once */
    }
  g_free (why);
  return TRUE;
}

static void
skip_row (Run *run, const ScKernelRow *row)
{
  ScKernelJudged *const judged = new_judged (run, row, group_of (row));
  judged->name = g_strdup (row->stack);
  judged->why = g_strdup (row->kind == SC_ROW_SKIPPED ? row->why : "no kernel");
}

/* ---- Errors ---- */

typedef gboolean (*Chooser) (const ScKernelJudged *judged, gconstpointer of);

static ScErrors
errors_of (const GPtrArray *all, Chooser chosen, gconstpointer of)
{
  g_autofree ScPrediction *predictions = g_new (ScPrediction, MAX (all->len, 1));
  guint n = 0;
  for (guint i = 0; i < all->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (all, i);
      if (j->why == NULL && chosen (j, of))
        predictions[n++] = (ScPrediction) { j->predicted_s, j->measured_s };
    }
  return sc_errors_of (predictions, n);
}

static void
count_skipped (ScKernelsResult *result)
{
  for (guint i = 0; i < result->judged->len; i++)
    {
      const ScKernelJudged *const j = g_ptr_array_index (result->judged, i);
      result->n_skipped += j->why != NULL;
      result->skipped[j->group] += j->why != NULL;
    }
}

static gboolean
choose_all (const ScKernelJudged *judged, gconstpointer of)
{
  (void) judged;
  (void) of;
  return TRUE;
}

typedef struct
{
  ScKernelGroup group;
  guint         band;
} BandOf;

static gboolean
choose_group (const ScKernelJudged *judged, gconstpointer of)
{
  return judged->group == ((const BandOf *) of)->group;
}

static guint
band_of (double seconds)
{
  guint b = 0;
  while (seconds >= bands[b].below_s)
    b++;
  return b;
}

static gboolean
choose_band (const ScKernelJudged *judged, gconstpointer of)
{
  const BandOf *const band = of;
  return judged->group == band->group && band_of (judged->measured_s) == band->band;
}

static const char *
dtype_of (const ScKernelJudged *judged)
{
  return judged->group == SC_GROUP_LAYER ? "" : sc_dtype_name (judged->row->kernel.dtype);
}

static char *
set_key (const ScKernelJudged *j)
{
  return g_strdup_printf ("%u %u %s/%s/%s", j->group, j->basis, j->gpu != NULL ? j->gpu : "", j->stack != NULL ? j->stack : "", dtype_of (j));
}

static int
compare_sets (gconstpointer a, gconstpointer b)
{
  const ScKernelSet *const x = a, *const y = b;
  if (x->group != y->group)
    return x->group < y->group ? -1 : 1;
  int order = g_strcmp0 (x->gpu, y->gpu);
  if (order == 0)
    order = strcmp (x->dtype, y->dtype);
  if (order == 0)
    order = g_strcmp0 (x->stack, y->stack);
  return order != 0 ? order : (int) x->basis - (int) y->basis;
}

static void
find_sets (ScKernelsResult *result)
{
  g_autoptr (GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_ptr_array_unref); /* key -> rows */
  g_autoptr (GPtrArray) all = g_ptr_array_new (); /* their rows, in the order of first rows */
  for (guint i = 0; i < result->judged->len; i++)
    {
      ScKernelJudged *const j = g_ptr_array_index (result->judged, i);
      if (j->why != NULL)
        continue;
      g_autofree char *key = set_key (j);
      GPtrArray *rows = g_hash_table_lookup (known, key);
      if (rows == NULL)
        {
          rows = g_ptr_array_new ();
          g_hash_table_insert (known, g_steal_pointer (&key), rows);
          g_ptr_array_add (all, rows);
        }
      g_ptr_array_add (rows, j);
    }
  for (guint s = 0; s < all->len; s++)
    {
      const GPtrArray *const rows = g_ptr_array_index (all, s);
      const ScKernelJudged *const j = g_ptr_array_index (rows, 0);
      const ScKernelSet set = { .group = j->group, .gpu = j->gpu, .stack = j->stack, .dtype = dtype_of (j), .basis = j->basis,
                                .errors = errors_of (rows, choose_all, NULL) };
      g_array_append_val (result->sets, set);
    }
  g_array_sort (result->sets, compare_sets);
}

static gboolean
within (double value, double target)
{
  return isnan (target) || isnan (value) || value <= target;
}

ScKernelsResult *
sc_validate_kernels (const ScKernelRows *rows, ScHoldOutRule rule, GError **error)
{
  g_autoptr (ScKernelsResult) result = g_new0 (ScKernelsResult, 1);
  result->judged = g_ptr_array_new_with_free_func (judged_free);
  result->sets = g_array_new (FALSE, FALSE, sizeof (ScKernelSet));
  result->devices = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_device_free);
  g_autoptr (GHashTable) by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Run run = { result, rule, by_name };
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->is_session)
        continue;
      result->n_rows++;
      if (row->kind == SC_ROW_KERNEL)
        {
          if (!judge_kernel (&run, row, error))
            return NULL;
        }
      else if (row->kind == SC_ROW_LAYER)
        {
          if (!judge_layer (&run, row, error))
            return NULL;
        }
      else
        skip_row (&run, row);
    }
  result->all = errors_of (result->judged, choose_all, NULL);
  count_skipped (result);
  result->passes = result->all.n > 0;
  result->rule = rule;
  for (guint g = 0; g < SC_N_GROUPS; g++)
    {
      BandOf of = { (ScKernelGroup) g, 0 };
      result->groups[g] = errors_of (result->judged, choose_group, &of);
      for (; of.band < SC_N_TIME_BANDS; of.band++)
        result->bands[g][of.band] = errors_of (result->judged, choose_band, &of);
      result->passes &= within (result->groups[g].median, groups[g].median) && within (result->groups[g].p90, groups[g].p90);
    }
  find_sets (result);
  return g_steal_pointer (&result);
}

/* ---- What is shipped ---- */

ScKernelRows *
sc_kernel_rows_shipped (GError **error)
{
  g_autoptr (ScKernelRows) rows = sc_kernel_rows_load ("layers", error);
  if (rows == NULL)
    return NULL;
  const ScLibraryRow *shipped = NULL;
  while ((shipped = sc_library_next (shipped, SC_KIND_DEVICE)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("topologies/devices/%s.json", shipped->name);
      g_autoptr (ScDevice) device = sc_device_load (path, error);
      if (device == NULL || !sc_device_read_reference (device, error))
        return NULL;
      for (guint t = 0; device->tables != NULL && t < device->tables->len; t++)
        {
          const ScSampleTable *const table = g_ptr_array_index (device->tables, t);
          for (guint i = 0; i < table->n; i++)
            {
              ScKernelRow *const row = g_new0 (ScKernelRow, 1);
              row->line = rows->rows->len + 1;
              row->kind = SC_ROW_KERNEL;
              row->gpu = g_strdup (device->name);
              row->source = g_strdup (table->source);
              row->stack = g_strdup (table->stack != NULL ? table->stack : "not stated");
              row->kernel = table->kernels[i];
              row->has_layout = table->by_layout;
              row->seconds = table->seconds[i];
              g_ptr_array_add (rows->rows, row);
            }
        }
    }
  return g_steal_pointer (&rows);
}
