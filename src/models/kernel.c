/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel.c - describing a kernel, and its price: the form, what was measured on top, sustained rates, grades. */
#include <math.h>
#include <string.h>
#include "models/kernel-form.h"
#include "models/samples.h"

static const char *const class_names[] = {
  [SC_KERNEL_GEMM] = "gemm",
  [SC_KERNEL_BATCHED_GEMM] = "batched-gemm",
  [SC_KERNEL_GROUPED_GEMM] = "grouped-gemm",
  [SC_KERNEL_FLASH_FORWARD] = "attention-forward",
  [SC_KERNEL_FLASH_BACKWARD] = "attention-backward",
  [SC_KERNEL_ELEMENTWISE] = "elementwise",
  [SC_KERNEL_REDUCTION] = "reduction",
  [SC_KERNEL_OPTIMIZER] = "optimizer",
  [SC_KERNEL_HOST_COPY] = "host-copy",
};
G_STATIC_ASSERT (G_N_ELEMENTS (class_names) == SC_N_KERNEL_CLASSES);

static const char *const layout_names[] = { [SC_GEMM_TN] = "TN", [SC_GEMM_NN] = "NN", [SC_GEMM_NT] = "NT" };
G_STATIC_ASSERT (G_N_ELEMENTS (layout_names) == SC_N_GEMM_LAYOUTS);

static const struct
{
  const char *name;
  ScKernelClass class;
} ops[] = {
  [SC_OP_ANY] = { "any", SC_KERNEL_ELEMENTWISE },
  [SC_OP_COPY] = { "copy", SC_KERNEL_ELEMENTWISE },
  [SC_OP_READ] = { "read", SC_KERNEL_ELEMENTWISE },
  [SC_OP_ADD] = { "add", SC_KERNEL_ELEMENTWISE },
  [SC_OP_DROPOUT_ADD] = { "dropout-add", SC_KERNEL_ELEMENTWISE },
  [SC_OP_GELU] = { "gelu", SC_KERNEL_ELEMENTWISE },
  [SC_OP_GELU_BACKWARD] = { "gelu-backward", SC_KERNEL_ELEMENTWISE },
  [SC_OP_SWIGLU] = { "swiglu", SC_KERNEL_ELEMENTWISE },
  [SC_OP_SWIGLU_BACKWARD] = { "swiglu-backward", SC_KERNEL_ELEMENTWISE },
  [SC_OP_ROPE] = { "rope", SC_KERNEL_ELEMENTWISE },
  [SC_OP_CAST] = { "cast", SC_KERNEL_ELEMENTWISE },
  [SC_OP_QUANTISE] = { "quantise", SC_KERNEL_ELEMENTWISE },
  [SC_OP_TRANSPOSE] = { "transpose", SC_KERNEL_ELEMENTWISE },
  [SC_OP_EMBEDDING] = { "embedding", SC_KERNEL_ELEMENTWISE },
  [SC_OP_EMBEDDING_BACKWARD] = { "embedding-backward", SC_KERNEL_ELEMENTWISE },
  [SC_OP_PERMUTE] = { "permute", SC_KERNEL_ELEMENTWISE },
  [SC_OP_RMSNORM] = { "rmsnorm", SC_KERNEL_REDUCTION },
  [SC_OP_RMSNORM_BACKWARD] = { "rmsnorm-backward", SC_KERNEL_REDUCTION },
  [SC_OP_LAYERNORM] = { "layernorm", SC_KERNEL_REDUCTION },
  [SC_OP_LAYERNORM_BACKWARD] = { "layernorm-backward", SC_KERNEL_REDUCTION },
  [SC_OP_SOFTMAX] = { "softmax", SC_KERNEL_REDUCTION },
  [SC_OP_SOFTMAX_BACKWARD] = { "softmax-backward", SC_KERNEL_REDUCTION },
  [SC_OP_CROSS_ENTROPY] = { "cross-entropy", SC_KERNEL_REDUCTION },
  [SC_OP_ADAM] = { "adam", SC_KERNEL_OPTIMIZER },
  [SC_OP_GRADIENT_NORM] = { "gradient-norm", SC_KERNEL_OPTIMIZER },
  [SC_OP_HOST_TO_DEVICE] = { "host-to-device", SC_KERNEL_HOST_COPY },
  [SC_OP_DEVICE_TO_HOST] = { "device-to-host", SC_KERNEL_HOST_COPY },
};
G_STATIC_ASSERT (G_N_ELEMENTS (ops) == SC_N_OPS);

const char *
sc_kernel_class_name (ScKernelClass class)
{
  g_return_val_if_fail ((guint) class < SC_N_KERNEL_CLASSES, NULL);
  return class_names[class];
}

ScWorkKind
sc_kernel_class_work (ScKernelClass class)
{
  return class <= SC_KERNEL_FLASH_BACKWARD ? SC_WORK_PRODUCT : class == SC_KERNEL_HOST_COPY ? SC_WORK_COPY : SC_WORK_MEMORY;
}

const char *
sc_gemm_layout_name (ScGemmLayout layout)
{
  g_return_val_if_fail ((guint) layout < SC_N_GEMM_LAYOUTS, NULL);
  return layout_names[layout];
}

const char *
sc_op_name (ScMemoryOp op)
{
  g_return_val_if_fail ((guint) op < SC_N_OPS, NULL);
  return ops[op].name;
}

ScKernelClass
sc_op_class (ScMemoryOp op)
{
  g_return_val_if_fail ((guint) op < SC_N_OPS, SC_KERNEL_ELEMENTWISE);
  return ops[op].class;
}

/* --- describing --- */

/* What a product writes: narrow types only come in, a product leaves 16 bits. */
static double
output_bytes (ScDtype dtype)
{
  return MAX (sc_dtype_bytes (dtype), 2);
}

ScKernel
sc_kernel_gemm (const char *name, ScDtype dtype, guint64 m, guint64 n, guint64 k)
{
  ScKernel kernel = sc_kernel_batched_gemm (name, dtype, 1, m, n, k);
  kernel.class = SC_KERNEL_GEMM;
  return kernel;
}

ScKernel
sc_kernel_gemm_accumulate (const char *name, ScDtype dtype, ScDtype accumulator, guint64 m, guint64 n, guint64 k)
{
  ScKernel kernel = sc_kernel_gemm (name, dtype, m, n, k);
  const double c = (double) m * (double) n;
  kernel.layout = SC_GEMM_NT;
  kernel.accumulate = accumulator == SC_DTYPE_FP32 && dtype != SC_DTYPE_FP32;
  kernel.bytes += c * (2 * sc_dtype_bytes (accumulator) - output_bytes (dtype));
  return kernel;
}

ScKernel
sc_kernel_batched_gemm (const char *name, ScDtype dtype, guint64 batch, guint64 m, guint64 n, guint64 k)
{
  const double dm = (double) m, dn = (double) n, dk = (double) k, db = (double) batch;
  return (ScKernel){
    .name = name,
    .class = SC_KERNEL_BATCHED_GEMM,
    .dtype = dtype,
    .m = m,
    .n = n,
    .k = k,
    .batch = batch,
    .flops = 2 * db * dm * dn * dk,
    .bytes = db * (sc_dtype_bytes (dtype) * (dm * dk + dk * dn) + output_bytes (dtype) * dm * dn),
  };
}

ScKernel
sc_kernel_grouped_gemm (const char *name, ScDtype dtype, ScGemmLayout layout, const guint64 *rows, guint n_groups, guint64 n, guint64 k)
{
  static const guint64 heights[] = { 256, 128, 64 };
  ScKernel kernel = { .name = name, .class = SC_KERNEL_GROUPED_GEMM, .dtype = dtype, .layout = layout, .n = n, .k = k,
                      .accumulate = layout == SC_GEMM_NT && dtype != SC_DTYPE_FP32 };
  G_STATIC_ASSERT (G_N_ELEMENTS (heights) == G_N_ELEMENTS (kernel.row_tiles));
  guint64 total = 0, busy = 0;
  for (guint g = 0; g < n_groups; g++)
    {
      total += rows[g];
      busy += rows[g] > 0;
      kernel.largest = MAX (kernel.largest, rows[g]);
      for (guint i = 0; i < G_N_ELEMENTS (heights); i++)
        kernel.row_tiles[i] += (rows[g] + heights[i] - 1) / heights[i];
    }
  kernel.batch = busy; /* a group without rows has neither tiles nor operands */
  kernel.m = busy > 0 ? (total + busy - 1) / busy : 0;
  const double t = (double) total, w = (double) n * (double) k * (double) busy, e = sc_dtype_bytes (dtype);
  kernel.flops = 2 * t * (double) n * (double) k;
  switch (layout)
    {
    case SC_GEMM_TN: kernel.bytes = e * (t * (double) k + w) + output_bytes (dtype) * t * (double) n; break;
    case SC_GEMM_NN: kernel.bytes = e * (t * (double) n + w) + output_bytes (dtype) * t * (double) k; break;
    case SC_GEMM_NT: kernel.bytes = e * t * ((double) n + (double) k) + 8 * w; break; /* read and written */
    case SC_N_GEMM_LAYOUTS:
    default: g_return_val_if_reached (kernel);
    }
  return kernel;
}

double
sc_attention_pairs (guint seq, gboolean causal, guint window)
{
  const double s = seq, w = window;
  if (window == 0 || window >= seq)
    return causal ? s * s / 2 : s * s;
  return causal ? w * (s - w / 2) : MIN (2 * w * s - w * w, s * s);
}

ScKernel
sc_kernel_attention (const char *name, ScKernelClass class, ScDtype dtype, const ScAttentionShape *a)
{
  const guint v = a->v_head_dim > 0 ? a->v_head_dim : a->head_dim;
  const guint queries = a->queries > 0 ? a->queries : a->seq;
  const guint window = a->window < a->seq ? a->window : 0;
  const double e = sc_dtype_bytes (dtype), keys = (double) a->batch * a->seq, tokens = (double) a->batch * queries;
  const double pairs = a->pairs > 0 ? a->pairs : tokens / a->seq * sc_attention_pairs (a->seq, a->causal, window);
  const double h = a->heads, g = a->kv_heads, d = a->head_dim;
  const gboolean forward = class == SC_KERNEL_FLASH_FORWARD;
  return (ScKernel){
    .name = name,
    .class = class,
    .dtype = dtype,
    .k = a->head_dim,
    .batch = a->batch,
    .seq = a->seq,
    .queries = queries != a->seq ? queries : 0,
    .window = window,
    .heads = a->heads,
    .kv_heads = a->kv_heads,
    .v_head_dim = v,
    .causal = a->causal,
    /* forward: Q K^T, P V; backward: Q K^T again, dO V^T, P^T dO, dS K, dS^T Q */
    .flops = 2 * pairs * h * (forward ? d + v : 3 * d + 2 * v),
    /* forward: Q, K, V, output, log-sum-exp in fp32; backward: those and four gradients, dQ added up in fp32 */
    .bytes = forward ? e * (tokens * h * d + keys * g * (d + v)) + output_bytes (dtype) * tokens * h * v + 4 * tokens * h
                     : 2 * e * (tokens * h + keys * g) * (d + v) + tokens * h * (8 * d + 4),
  };
}

ScKernel
sc_kernel_memory (const char *name, ScKernelClass class, double bytes)
{
  return (ScKernel){ .name = name, .class = class, .batch = 1, .bytes = bytes };
}

ScKernel
sc_kernel_op (const char *name, ScMemoryOp op, double bytes)
{
  return (ScKernel){ .name = name, .class = sc_op_class (op), .batch = 1, .bytes = bytes, .op = op };
}

/* --- pricing --- */

/* By what a sustained rate lengthens the product, where arithmetic decides. */
static double
sustained_factor (const ScDevice *device, const ScSampleTable *table, const ScKernel *kernel, double sustained, ScGrade *grade)
{
  const ScCited *const efficiency = sc_samples_efficiency (device, table);
  const double slow = sc_kernel_form (device, kernel, efficiency, sustained).seconds, burst = sc_kernel_form (device, kernel, efficiency, 1).seconds;
  if (slow <= burst)
    return 1;
  *grade = sc_grade_weaker (*grade, device->gemm_sustained.grade);
  return slow / burst;
}

/* What the samples do not tell apart rests on the form. */
static ScGrade
measured_grade (const ScDevice *device, const ScSampleTable *table, gboolean relative, const ScKernel *kernel, double distance)
{
  const gboolean product = kernel->class == SC_KERNEL_GEMM || kernel->class == SC_KERNEL_GROUPED_GEMM;
  ScGrade grade = distance <= 0 ? SC_GRADE_MEASURED : distance <= SC_SAMPLES_NEAR ? SC_GRADE_INTERPOLATED : SC_GRADE_FITTED;
  if (relative || kernel->queries > 0 || (product && kernel->layout != SC_GEMM_TN && !table->by_layout))
    grade = sc_grade_weaker (grade, SC_GRADE_FITTED);
  if (product && kernel->accumulate && !table->accumulates)
    grade = sc_grade_weaker (grade, device->gemm_accumulate.grade);
  if (kernel->flops > 0 && kernel->seq == 0 && distance > 0 && !sc_form_aligned (kernel))
    grade = SC_GRADE_ASSUMED;
  return grade;
}

static ScForm
measured_form (const ScDevice *device, const ScSampleTable *table, gboolean relative, const ScKernel *kernel, double sustained)
{
  double distance;
  ScForm form = { sc_samples_predict (device, table, kernel, SC_HOLD_NOTHING, &distance), SC_GRADE_FITTED };
  form.grade = measured_grade (device, table, relative, kernel, distance);
  if (sustained < 1)
    form.seconds *= sustained_factor (device, table, kernel, sustained, &form.grade);
  if (kernel->flops > 0) /* a sample may have been lucky, no GPU beats its datasheet for hours */
    form.seconds = MAX (form.seconds, kernel->flops / device->peak_flops[kernel->dtype].value + device->launch_s.value);
  return form;
}

/* Grouped products that were not measured reach what plain ones of their type do: 8 bits less of the datasheet than 16. */
static const ScCited *
grouped_efficiency (const ScDevice *device, const ScKernel *kernel)
{
  const ScKernel plain = { .class = SC_KERNEL_GEMM, .dtype = kernel->dtype };
  gboolean relative;
  const ScSampleTable *const table = kernel->class == SC_KERNEL_GROUPED_GEMM ? sc_device_samples (device, &plain, &relative) : NULL;
  return table != NULL && !relative ? sc_samples_efficiency (device, table) : NULL;
}

ScCost
sc_kernel_cost (const ScDevice *device, const ScKernel *kernel, double speed)
{
  g_return_val_if_fail (speed > 0, ((ScCost) { 0, SC_GRADE_ASSUMED }));
  if (kernel->seconds > 0)
    return (ScCost) { kernel->seconds / speed, SC_GRADE_USER };
  const gboolean product = kernel->class == SC_KERNEL_GEMM || kernel->class == SC_KERNEL_GROUPED_GEMM;
  const double sustained = product && !device->burst ? MIN (device->gemm_sustained.value, 1) : 1;
  gboolean relative;
  const ScSampleTable *const table = sc_device_samples (device, kernel, &relative);
  const ScForm form = table != NULL ? measured_form (device, table, relative, kernel, sustained)
                                     : sc_kernel_form (device, kernel, grouped_efficiency (device, kernel), sustained);
  const double launch = MIN (device->launch_s.value, form.seconds);
  ScCost cost = { (form.seconds - launch) / speed * (kernel->slow > 0 ? kernel->slow : 1), form.grade };
  if (launch > cost.seconds) /* then the launch is most of it */
    cost.grade = sc_grade_weaker (device->launch_s.grade, SC_GRADE_MEASURED);
  cost.seconds += launch;
  return cost;
}

/* --- what was asked before --- */

#define KEY_WORDS 22

typedef struct
{
  guint64 word[KEY_WORDS];
} Key;

typedef struct
{
  Key key;
  ScCost cost;
} Entry;

struct ScCostCache
{
  GHashTable *entries; /* Entry by its key, owned */
};

static guint64
bits (double value)
{
  guint64 word;
  memcpy (&word, &value, sizeof word);
  return word;
}

/* All but the name. */
static Key
key_of (const ScDevice *device, const ScKernel *k, double speed)
{
  return (Key) { {
    (guint64) (gsize) device, bits (speed),
    (guint64) k->class | (guint64) k->dtype << 8 | (guint64) k->layout << 16 | (guint64) k->op << 24 | (guint64) (k->accumulate != 0) << 32
        | (guint64) (k->causal != 0) << 33,
    k->m, k->n, k->k, k->batch, k->row_tiles[0], k->row_tiles[1], k->row_tiles[2], bits (k->flops), bits (k->bytes), k->seq, k->heads,
    k->kv_heads, k->v_head_dim, k->row, k->queries, k->window, k->largest, bits (k->seconds), bits (k->slow),
  } };
}

static guint
key_hash (gconstpointer data)
{
  const Key *const key = data;
  guint64 h = 0;
  for (guint i = 0; i < KEY_WORDS; i++)
    h = (h ^ key->word[i]) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + (h >> 29);
  return (guint) (h >> 32);
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (Key)) == 0;
}

ScCostCache *
sc_cost_cache_new (void)
{
  ScCostCache *const cache = g_new (ScCostCache, 1);
  cache->entries = g_hash_table_new_full (key_hash, key_equal, NULL, g_free);
  return cache;
}

void
sc_cost_cache_free (ScCostCache *cache)
{
  if (cache == NULL)
    return;
  g_hash_table_unref (cache->entries);
  g_free (cache);
}

ScCost
sc_cost_cache_get (ScCostCache *cache, const ScDevice *device, const ScKernel *kernel, double speed)
{
  const Key key = key_of (device, kernel, speed);
  const Entry *known = g_hash_table_lookup (cache->entries, &key);
  if (known == NULL)
    {
      Entry *const entry = g_new (Entry, 1);
      *entry = (Entry) { key, sc_kernel_cost (device, kernel, speed) };
      g_hash_table_insert (cache->entries, &entry->key, entry);
      known = entry;
    }
  return known->cost;
}
