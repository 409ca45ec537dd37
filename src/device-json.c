/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device-json.c - device files: one type of GPU, every number with its grade and source. */
#include "device-json.h"
#include "library.h"
#include "samples-json.h"
#include <string.h>

#define MAX_ALIASES 100
#define PCIE4_BYTES_PER_S 24e9 /* what large pinned copies reach of 31.5 GB/s */

#define CITED(member) .kind = SC_FIELD_CITED, .offset = offsetof (ScDevice, member)
#define PEAK(dtype)                                                                                                    \
  CITED (peak_flops[dtype]), .unit = SC_UNIT_FLOPS, .min = 1e9, .max = 1e18, .derived = "not supported"
#define SPEED(member) CITED (member), .unit = SC_UNIT_BYTES_PER_S, .min = 1e6, .max = 1e16
#define SHARE(member) CITED (member), .unit = SC_UNIT_NONE, .min = 0.01, .max = 1

static const ScField peak_fields[] = {
  { "bf16", PEAK (SC_DTYPE_BF16), .help = "Dense bf16 rate" },
  { "fp16", PEAK (SC_DTYPE_FP16), .help = "Dense fp16 rate" },
  { "fp32", PEAK (SC_DTYPE_FP32), .help = "Dense fp32 rate of matrix work (TF32 where it exists)" },
  { "fp8", PEAK (SC_DTYPE_FP8), .help = "Dense fp8 rate" },
  { "fp4", PEAK (SC_DTYPE_FP4), .help = "Dense rate of 4-bit formats with scales (NVFP4, MXFP4)" },
  { .key = NULL },
};

const ScFieldTable sc_device_peak_table = { .title = "device: peak_flops", .fields = peak_fields };

static const ScField device_fields[] = {
  { "name", SC_FIELD_STRING, .offset = offsetof (ScDevice, name), .help = "Name, as topologies call it" },
  { "aliases", SC_FIELD_OTHER, .derived = "none",
    .help = "Other names, an array of texts; case, blanks, - and _ do not matter" },
  { "summary", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScDevice, summary),
    .help = "One line for people" },
  { "family", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScDevice, family),
    .help = "Architecture: volta, ampere, hopper, blackwell" },
  { "sms", CITED (sms), .whole = TRUE, .min = 1, .max = 10000, .help = "Streaming multiprocessors" },
  { "peak_flops", SC_FIELD_OBJECT, .table = &sc_device_peak_table,
    .help = "Dense peak rate by data type, as the datasheet prints it; MFU divides by it" },
  { "memory", CITED (memory_bytes), .unit = SC_UNIT_BYTES, .min = 0x1p20, .max = 0x1p50,
    .help = "Capacity that the driver shows" },
  { "memory_bandwidth", SPEED (memory_bytes_per_s), .help = "Peak memory bandwidth" },
  { "l2", CITED (l2_bytes), .unit = SC_UNIT_BYTES, .min = 0, .max = 0x1p40, .help = "Second-level cache" },
  { "gemm_tile_efficiency", SHARE (gemm_tile_efficiency), .help = "Share of peak inside a full wave of matrix tiles" },
  { "gemm_sustained", SHARE (gemm_sustained), .help = "Factor of that under a training step's heat and power" },
  { "gemm_accumulate", CITED (gemm_accumulate), .min = 1, .max = 10,
    .help = "Time factor of weight-gradient products that add into fp32" },
  { "batched_gemm_efficiency", SHARE (batched_gemm_efficiency),
    .help = "Share of peak of unfused attention's products" },
  { "elementwise_bandwidth", SPEED (elementwise_bytes_per_s), .help = "Reached by copies, adds, GELU, dropout" },
  { "reduction_bandwidth", SPEED (reduction_bytes_per_s), .help = "Reached by norms, softmax, cross entropy" },
  { "optimizer_bandwidth", SPEED (optimizer_bytes_per_s), .help = "Reached by multi-tensor Adam" },
  { "half_size", CITED (half_bytes), .unit = SC_UNIT_BYTES, .min = 0, .max = 0x1p40,
    .help = "Bytes at which a memory-bound kernel reaches half of its rate" },
  { "flash_forward", SC_FIELD_CURVE, .unit = SC_UNIT_FLOPS, .min = 1e9, .max = 1e18, .derived = "no flash attention",
    .offset = offsetof (ScDevice, flash_forward),
    .help = "Flash attention forward over sequence length, causal FLOPs" },
  { "flash_backward", SC_FIELD_CURVE, .unit = SC_UNIT_FLOPS, .min = 1e9, .max = 1e18, .derived = "no flash attention",
    .offset = offsetof (ScDevice, flash_backward), .help = "The same for backward" },
  { "h2d_bandwidth", SPEED (h2d_bytes_per_s), .derived = "24 GB/s, PCIe 4 x16", .help = "Reached from pinned host memory to the GPU" },
  { "d2h_bandwidth", SPEED (d2h_bytes_per_s), .derived = "24 GB/s, PCIe 4 x16", .help = "Reached from the GPU to pinned host memory" },
  { "launch_latency", CITED (launch_s), .unit = SC_UNIT_SECONDS, .min = 0, .max = 1,
    .help = "From the end of one kernel to the start of the next in a full queue" },
  { "hidden_slowdown", CITED (hidden_slowdown), .min = 1, .max = 10,
    .help = "A product takes this much longer beside a collective; counts where it was measured, and where textbook forms say nothing of SMs" },
  { "memory_slowdown", CITED (memory_slowdown), .min = 1, .max = 10, .derived = "by the bandwidth that a collective moves",
    .help = "A memory-bound kernel takes this much longer beside a collective" },
  { "context_memory", CITED (context_bytes), .unit = SC_UNIT_BYTES, .min = 0, .max = 0x1p50,
    .help = "CUDA context and loaded kernels" },
  { "workspace_memory", CITED (workspace_bytes), .unit = SC_UNIT_BYTES, .min = 0, .max = 0x1p50,
    .help = "Library workspaces outside of the framework's counters" },
  { "samples", SC_FIELD_OTHER, .derived = "none", .table = &sc_samples_table,
    .help = "Measured kernels: an array of tables, or the name of a file in calibrations/ that holds one" },
  { "reference", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScDevice, reference_name),
    .help = "The name of a file in calibrations/ with further tables, that only judge measurements of their own software" },
  { "relative", SC_FIELD_STRING, .derived = "none", .offset = offsetof (ScDevice, relative_name),
    .help = "A device whose measured kernels stand in where forecasts have none of this one" },
  { .key = NULL },
};

const ScFieldTable sc_device_table = { .title = "device", .fields = device_fields };

static gboolean
read_aliases (ScDevice *device, const ScJson *json, GError **error)
{
  static const ScField alias = { .key = "alias", .kind = SC_FIELD_STRING };

  const cJSON *array = sc_fields_get (&sc_device_table, json->root, "aliases");
  if (array != NULL && !sc_fields_check_array (json, array, MAX_ALIASES, error))
    return FALSE;
  device->aliases = g_new0 (char *, (array != NULL ? (gsize) cJSON_GetArraySize (array) : 0) + 1);
  guint i = 0;
  for (const cJSON *item = array != NULL ? array->child : NULL; item != NULL; item = item->next)
    if (!sc_fields_read_value (&alias, &sc_device_table, json, item, &device->aliases[i++], error))
      return FALSE;
  return TRUE;
}

/* What of a device's file is read beside its numbers. */
typedef enum
{
  READ_NUMBERS,
  READ_SAMPLES, /* its own */
  READ_ALL,     /* and, where forecasts can rest on none of its products, its relative's */
} Extent;

static ScDevice *read_device (const ScJson *json, Extent extent, GError **error);

#define MOST_OF_PEAK 1.1 /* clocks may pass the datasheet's a little */

/* A table that this GPU cannot have produced is a slip of units or of the file. */
static gboolean
check_table (const ScDevice *device, const ScSampleTable *table, const ScJson *json, const cJSON *samples, GError **error)
{
  const double peak = device->peak_flops[table->dtype].value;
  if (table->class >= SC_KERNEL_ELEMENTWISE)
    return TRUE;
  if (peak <= 0)
    {
      sc_json_fail (json, samples, NULL, error, "found %s kernels in %s, which the %s cannot do", sc_kernel_class_name (table->class),
                    sc_dtype_name (table->dtype), device->name);
      return FALSE;
    }
  for (guint i = 0; i < table->n; i++)
    if (table->kernels[i].flops > MOST_OF_PEAK * peak * table->seconds[i])
      {
        sc_json_fail (json, samples, NULL, error, "found a %s of %g FLOP in %g us, more than %g times the %s peak of the %s",
                      sc_kernel_class_name (table->class), table->kernels[i].flops, table->seconds[i] * 1e6, MOST_OF_PEAK,
                      sc_dtype_name (table->dtype), device->name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
read_samples (ScDevice *device, const ScJson *json, Extent extent, GError **error)
{
  const cJSON *const samples = sc_fields_get (&sc_device_table, json->root, "samples");
  gboolean own = FALSE;
  if (samples != NULL)
    {
      device->tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
      if (!sc_samples_read (json, samples, device->tables, error))
        return FALSE;
      for (guint i = 0; i < device->tables->len; i++)
        {
          const ScSampleTable *const table = g_ptr_array_index (device->tables, i);
          if (!check_table (device, table, json, samples, error))
            return FALSE;
          own |= table->training && table->class == SC_KERNEL_GEMM;
        }
    }
  return own || extent < READ_ALL || device->relative_name == NULL || sc_device_read_relative (device, json, error);
}

gboolean
sc_device_read_reference (ScDevice *device, GError **error)
{
  if (device->reference_name == NULL)
    return TRUE;
  g_autoptr (ScJson) file = sc_library_load_json (SC_KIND_CALIBRATION, device->reference_name, error);
  if (file == NULL)
    return FALSE;
  if (device->tables == NULL)
    device->tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
  const guint before = device->tables->len;
  if (!sc_samples_read_file (file, device->tables, error))
    return FALSE;
  for (guint i = before; i < device->tables->len; i++)
    {
      ScSampleTable *const table = g_ptr_array_index (device->tables, i);
      table->training = FALSE;
      if (!check_table (device, table, file, file->root, error))
        return FALSE;
    }
  sc_device_prepare (device);
  return TRUE;
}

gboolean
sc_device_read_relative (ScDevice *device, const ScJson *json, GError **error)
{
  g_autoptr (GError) why = NULL;
  g_autofree char *path = g_strdup_printf ("topologies/devices/%s.json", device->relative_name);
  g_autoptr (ScJson) other = sc_library_load_json (SC_KIND_DEVICE, path, &why);
  g_autoptr (ScDevice) relative = NULL;
  if (other != NULL && cJSON_GetObjectItemCaseSensitive (other->root, "samples") == NULL)
    g_set_error (&why, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s has no samples to lend", device->relative_name);
  else if (other != NULL)
    relative = read_device (other, READ_SAMPLES, &why); /* it lends what is its own: relatives may go in a circle */
  if (relative == NULL && json != NULL)
    sc_json_fail (json, json->root, "relative", error, "%s", why->message);
  else if (relative == NULL)
    g_propagate_error (error, g_steal_pointer (&why));
  device->relative = g_steal_pointer (&relative);
  return device->relative != NULL;
}

static ScDevice *
read_device (const ScJson *json, Extent extent, GError **error)
{
  g_autoptr (ScDevice) device = g_new0 (ScDevice, 1);
  if (!sc_fields_read (&sc_device_table, json, json->root, device, error) || !read_aliases (device, json, error))
    return NULL;
  const cJSON *peak = sc_fields_get (&sc_device_table, json->root, "peak_flops");
  double fastest = 0;
  for (guint i = 0; i < SC_N_DTYPES; i++)
    fastest = MAX (fastest, device->peak_flops[i].value);
  if (fastest <= 0)
    {
      sc_json_fail (json, peak, NULL, error, "found no data type, expected at least one of bf16, fp16, fp32, fp8, fp4");
      return NULL;
    }
  if ((device->flash_forward.n == 0) != (device->flash_backward.n == 0))
    {
      const char *missing = device->flash_forward.n == 0 ? "flash_forward" : "flash_backward";
      sc_json_fail (json, json->root, missing, error, "missing, expected both flash curves or none");
      return NULL;
    }
  ScCited *const host[] = { &device->h2d_bytes_per_s, &device->d2h_bytes_per_s };
  for (guint i = 0; i < G_N_ELEMENTS (host); i++)
    if (host[i]->value <= 0)
      *host[i] = (ScCited) { PCIE4_BYTES_PER_S, SC_GRADE_ASSUMED, g_strdup ("PCIe 4 x16; not measured on this GPU") };
  if (extent > READ_NUMBERS && !read_samples (device, json, extent, error))
    return NULL;
  sc_device_prepare (device);
  return g_steal_pointer (&device);
}

ScDevice *
sc_device_from_json (const ScJson *json, GError **error)
{
  return read_device (json, READ_ALL, error);
}

ScDevice *
sc_device_load_numbers (const char *argument, GError **error)
{
  g_autoptr (ScJson) json = sc_library_load_json (SC_KIND_DEVICE, argument, error);
  return json != NULL ? read_device (json, READ_NUMBERS, error) : NULL;
}

ScDevice *
sc_device_load (const char *argument, GError **error)
{
  g_autoptr (ScJson) json = sc_library_load_json (SC_KIND_DEVICE, argument, error);
  return json != NULL ? sc_device_from_json (json, error) : NULL;
}

/* @name in lower case without what does not matter. */
static char *
bare_name (const char *name)
{
  GString *bare = g_string_new (NULL);
  for (; *name != '\0'; name++)
    if (strchr (" -_", *name) == NULL)
      g_string_append_c (bare, g_ascii_tolower (*name));
  return g_string_free (bare, FALSE);
}

static gboolean
same_name (const char *a, const char *b)
{
  g_autofree char *bare_a = bare_name (a);
  g_autofree char *bare_b = bare_name (b);
  return strcmp (bare_a, bare_b) == 0;
}

gboolean
sc_device_is_called (const ScDevice *device, const char *name)
{
  if (same_name (device->name, name))
    return TRUE;
  for (char **alias = device->aliases; alias != NULL && *alias != NULL; alias++)
    if (same_name (*alias, name))
      return TRUE;
  return FALSE;
}

/* The shipped @row as it stands on this machine: in the folder of installed data, or inside the program. */
static ScDevice *
load_row (const ScLibraryRow *row, gboolean with_samples, GError **error)
{
  g_autofree char *path = g_strdup_printf ("topologies/devices/%s.json", row->name);
  return with_samples ? sc_device_load (path, error) : sc_device_load_numbers (path, error);
}

ScDevice *
sc_device_find (const char *name, GError **error)
{
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_DEVICE)) != NULL)
    if (same_name (row->name, name))
      return load_row (row, TRUE, error);
  while ((row = sc_library_next (row, SC_KIND_DEVICE)) != NULL)
    {
      g_autoptr (ScDevice) device = load_row (row, FALSE, error);
      if (device == NULL)
        return NULL;
      if (sc_device_is_called (device, name))
        return load_row (row, TRUE, error);
    }
  return NULL;
}

char *
sc_device_nearest (const char *name)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new_with_free_func (g_free);
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_DEVICE)) != NULL)
    {
      g_ptr_array_add (known, g_strdup (row->name));
      g_autoptr (ScDevice) device = load_row (row, FALSE, NULL);
      for (char **alias = device != NULL ? device->aliases : NULL; alias != NULL && *alias != NULL; alias++)
        g_ptr_array_add (known, g_strdup (*alias));
    }
  g_ptr_array_add (known, NULL);
  return g_strdup (sc_nearest (name, (const char *const *) known->pdata));
}
