/* SPDX-License-Identifier: GPL-3.0-or-later */
/* samples-json.c - tables of measured kernels: reading and writing. */
#include "samples-json.h"
#include "library.h"
#include <math.h>
#include <string.h>

#define MAX_TABLES 1000
#define MAX_POINTS 20000
#define MAX_GROUPS 4096

/* What a column of "points" holds. */
typedef enum
{
  COLUMN_M,
  COLUMN_N,
  COLUMN_K,
  COLUMN_BATCH,
  COLUMN_GROUPS,
  COLUMN_ROWS, /* of each group: a number or an array */
  COLUMN_LAYOUT,
  COLUMN_ACCUMULATE,
  COLUMN_SEQ,
  COLUMN_HEADS,
  COLUMN_KV_HEADS,
  COLUMN_HEAD_DIM,
  COLUMN_V_HEAD_DIM,
  COLUMN_CAUSAL,
  COLUMN_WINDOW,
  COLUMN_BYTES,
  COLUMN_ROW,
  COLUMN_US,
  N_COLUMNS
} Column;

static const char *const column_names[] = { "m",     "n",        "k",        "batch",      "groups", "rows",  "layout", "accumulate", "seq",
                                            "heads", "kv_heads", "head_dim", "v_head_dim", "causal", "window", "bytes", "row",    "us" };
G_STATIC_ASSERT (G_N_ELEMENTS (column_names) == N_COLUMNS);

#define BIT(column) (1u << (column))
#define GEMM_COLUMNS (BIT (COLUMN_M) | BIT (COLUMN_N) | BIT (COLUMN_K))
#define LAYOUT_COLUMNS (BIT (COLUMN_LAYOUT) | BIT (COLUMN_ACCUMULATE))
#define ATTENTION_COLUMNS (BIT (COLUMN_BATCH) | BIT (COLUMN_SEQ) | BIT (COLUMN_HEADS) | BIT (COLUMN_KV_HEADS) | BIT (COLUMN_HEAD_DIM))

/* The columns a class must and may have; US besides. */
static const struct
{
  guint needed, allowed;
} class_columns[] = {
  [SC_KERNEL_GEMM] = { GEMM_COLUMNS, LAYOUT_COLUMNS },
  [SC_KERNEL_BATCHED_GEMM] = { GEMM_COLUMNS | BIT (COLUMN_BATCH), BIT (COLUMN_LAYOUT) },
  [SC_KERNEL_GROUPED_GEMM] = { BIT (COLUMN_ROWS) | BIT (COLUMN_N) | BIT (COLUMN_K), BIT (COLUMN_GROUPS) | BIT (COLUMN_LAYOUT) },
  [SC_KERNEL_FLASH_FORWARD] = { ATTENTION_COLUMNS, BIT (COLUMN_V_HEAD_DIM) | BIT (COLUMN_CAUSAL) | BIT (COLUMN_WINDOW) },
  [SC_KERNEL_FLASH_BACKWARD] = { ATTENTION_COLUMNS, BIT (COLUMN_V_HEAD_DIM) | BIT (COLUMN_CAUSAL) | BIT (COLUMN_WINDOW) },
  [SC_KERNEL_ELEMENTWISE] = { BIT (COLUMN_BYTES), BIT (COLUMN_ROW) },
  [SC_KERNEL_REDUCTION] = { BIT (COLUMN_BYTES), BIT (COLUMN_ROW) },
  [SC_KERNEL_OPTIMIZER] = { BIT (COLUMN_BYTES), BIT (COLUMN_ROW) },
  [SC_KERNEL_HOST_COPY] = { BIT (COLUMN_BYTES), BIT (COLUMN_ROW) },
};
G_STATIC_ASSERT (G_N_ELEMENTS (class_columns) == SC_N_KERNEL_CLASSES);

/* Memory-bound tables say their operation; its class follows. */
#define MEMORY_CLASS "memory"

static const ScChoice class_choices[] = {
  { "gemm", SC_KERNEL_GEMM, FALSE },
  { "batched-gemm", SC_KERNEL_BATCHED_GEMM, FALSE },
  { "grouped-gemm", SC_KERNEL_GROUPED_GEMM, FALSE },
  { "attention-forward", SC_KERNEL_FLASH_FORWARD, FALSE },
  { "attention-backward", SC_KERNEL_FLASH_BACKWARD, FALSE },
  { MEMORY_CLASS, SC_KERNEL_ELEMENTWISE, FALSE },
  { NULL, 0, FALSE },
};

static const ScChoice dtype_choices[] = {
  { "bf16", SC_DTYPE_BF16, FALSE }, { "fp16", SC_DTYPE_FP16, FALSE }, { "fp32", SC_DTYPE_FP32, FALSE },
  { "fp8", SC_DTYPE_FP8, FALSE },   { "fp4", SC_DTYPE_FP4, FALSE },   { NULL, 0, FALSE },
};

static const ScChoice op_choices[] = {
  { "copy", SC_OP_COPY, FALSE },
  { "read", SC_OP_READ, FALSE },
  { "add", SC_OP_ADD, FALSE },
  { "dropout-add", SC_OP_DROPOUT_ADD, FALSE },
  { "gelu", SC_OP_GELU, FALSE },
  { "gelu-backward", SC_OP_GELU_BACKWARD, FALSE },
  { "swiglu", SC_OP_SWIGLU, FALSE },
  { "swiglu-backward", SC_OP_SWIGLU_BACKWARD, FALSE },
  { "rope", SC_OP_ROPE, FALSE },
  { "cast", SC_OP_CAST, FALSE },
  { "quantise", SC_OP_QUANTISE, FALSE },
  { "transpose", SC_OP_TRANSPOSE, FALSE },
  { "embedding", SC_OP_EMBEDDING, FALSE },
  { "embedding-backward", SC_OP_EMBEDDING_BACKWARD, FALSE },
  { "permute", SC_OP_PERMUTE, FALSE },
  { "rmsnorm", SC_OP_RMSNORM, FALSE },
  { "rmsnorm-backward", SC_OP_RMSNORM_BACKWARD, FALSE },
  { "layernorm", SC_OP_LAYERNORM, FALSE },
  { "layernorm-backward", SC_OP_LAYERNORM_BACKWARD, FALSE },
  { "softmax", SC_OP_SOFTMAX, FALSE },
  { "softmax-backward", SC_OP_SOFTMAX_BACKWARD, FALSE },
  { "cross-entropy", SC_OP_CROSS_ENTROPY, FALSE },
  { "adam", SC_OP_ADAM, FALSE },
  { "gradient-norm", SC_OP_GRADIENT_NORM, FALSE },
  { "host-to-device", SC_OP_HOST_TO_DEVICE, FALSE },
  { "device-to-host", SC_OP_DEVICE_TO_HOST, FALSE },
  { NULL, 0, FALSE },
};

#define AT(member) .offset = offsetof (ScSampleTable, member)

static const ScField table_fields[] = {
  { "class", SC_FIELD_CHOICE, .choices = class_choices, AT (class), .help = "Kind of kernel" },
  { "dtype", SC_FIELD_CHOICE, .choices = dtype_choices, AT (dtype), .help = "Type of the operands" },
  { "op", SC_FIELD_CHOICE, .choices = op_choices, .derived = "none", AT (op), .help = "What a memory-bound kernel does" },
  { "stack", SC_FIELD_STRING, .derived = "none", AT (stack), .help = "The software that ran it" },
  { "source", SC_FIELD_STRING, AT (source), .help = "Where the times are published, or who measured them when" },
  { "training", SC_FIELD_BOOL, .fallback = "true", AT (training),
    .help = "Forecasts rest on it; false: it only judges measurements of the same software" },
  { "efficiency", SC_FIELD_CITED, .min = 0.01, .max = 1, .derived = "gemm_tile_efficiency", AT (efficiency),
    .help = "Share of peak inside a full wave of tiles, by which the formula under the samples runs" },
  { "columns", SC_FIELD_OTHER, .help = "Names of what each point holds: m, n, k, layout, ..., us" },
  { "points", SC_FIELD_OTHER, .help = "One array for each measured shape; us: microseconds, median" },
  { .key = NULL },
};

const ScFieldTable sc_samples_table = { .title = "samples", .fields = table_fields, .plain_cited = TRUE };

static guint
find_word (const ScChoice *choices, const char *word)
{
  for (; choices->name != NULL; choices++)
    if (strcmp (choices->name, word) == 0)
      return (guint) choices->value;
  return G_MAXUINT;
}

guint
sc_samples_class (const char *word)
{
  return find_word (class_choices, word);
}

guint
sc_samples_dtype (const char *word)
{
  return find_word (dtype_choices, word);
}

guint
sc_samples_op (const char *word)
{
  return find_word (op_choices, word);
}

/* ---- Reading ---- */

static gboolean
fail_found (const ScJson *json, const cJSON *item, GError **error, const char *expected)
{
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (json, item, NULL, error, "found %s, expected %s", found, expected);
  return FALSE;
}

/* Names into *ret_columns[*ret_n]. */
static gboolean
read_columns (const ScJson *json, const cJSON *array, ScKernelClass class, Column *columns, guint *ret_n, GError **error)
{
  const guint needed = class_columns[class].needed | BIT (COLUMN_US), allowed = needed | class_columns[class].allowed;
  if (!sc_fields_check_array (json, array, N_COLUMNS, error))
    return FALSE;
  guint seen = 0, n = 0;
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    {
      guint c = 0;
      while (c < N_COLUMNS && (!cJSON_IsString (item) || strcmp (column_names[c], item->valuestring) != 0))
        c++;
      if (c == N_COLUMNS || (allowed & BIT (c)) == 0 || (seen & BIT (c)) != 0)
        {
          g_autoptr (GString) names = g_string_new (NULL);
          for (guint i = 0; i < N_COLUMNS; i++)
            if ((allowed & ~seen & BIT (i)) != 0)
              g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "one of ", column_names[i]);
          return fail_found (json, item, error, names->len > 0 ? names->str : "no more columns");
        }
      seen |= BIT (c);
      columns[n++] = (Column) c;
    }
  for (guint c = 0; c < N_COLUMNS; c++)
    if ((needed & ~seen & BIT (c)) != 0)
      {
        sc_json_fail (json, array, NULL, error, "has no column \"%s\", which this class needs", column_names[c]);
        return FALSE;
      }
  *ret_n = n;
  return TRUE;
}

typedef struct
{
  double  value[N_COLUMNS];
  guint64 rows[MAX_GROUPS];
  guint   n_rows; /* 0: not an array */
} Point;

static gboolean
read_whole (const ScJson *json, const cJSON *item, double min, double max, double *ret, GError **error)
{
  if (!cJSON_IsNumber (item) || item->valuedouble != floor (item->valuedouble) || item->valuedouble < min || item->valuedouble > max)
    {
      g_autofree char *expected = g_strdup_printf ("a whole number of %.0f to %.0f", min, max);
      return fail_found (json, item, error, expected);
    }
  *ret = item->valuedouble;
  return TRUE;
}

static gboolean
read_rows (const ScJson *json, const cJSON *item, Point *p, GError **error)
{
  if (!cJSON_IsArray (item))
    return read_whole (json, item, 1, 1e9, &p->value[COLUMN_ROWS], error);
  if (!sc_fields_check_array (json, item, MAX_GROUPS, error))
    return FALSE;
  for (const cJSON *row = item->child; row != NULL; row = row->next)
    {
      double value;
      if (!read_whole (json, row, 0, 1e9, &value, error))
        return FALSE;
      p->rows[p->n_rows++] = (guint64) value;
    }
  return p->n_rows > 0 ? TRUE : fail_found (json, item, error, "the rows of at least one group");
}

static gboolean
read_cell (const ScJson *json, const cJSON *item, Column column, Point *p, GError **error)
{
  switch (column)
    {
    case COLUMN_US:
      if (!cJSON_IsNumber (item) || !(item->valuedouble >= 1e-3 && item->valuedouble <= 1e9))
        return fail_found (json, item, error, "microseconds from 0.001 to 1e9");
      p->value[column] = item->valuedouble;
      return TRUE;
    case COLUMN_LAYOUT:
      for (guint l = 0; cJSON_IsString (item) && l < SC_N_GEMM_LAYOUTS; l++)
        if (strcmp (sc_gemm_layout_name ((ScGemmLayout) l), item->valuestring) == 0)
          {
            p->value[column] = l;
            return TRUE;
          }
      return fail_found (json, item, error, "\"TN\", \"NN\" or \"NT\"");
    case COLUMN_CAUSAL:
    case COLUMN_ACCUMULATE: return read_whole (json, item, 0, 1, &p->value[column], error);
    case COLUMN_ROWS: return read_rows (json, item, p, error);
    case COLUMN_ROW:
    case COLUMN_WINDOW: return read_whole (json, item, 0, 1e9, &p->value[column], error);
    case COLUMN_BYTES: return read_whole (json, item, 1, 1e15, &p->value[column], error);
    case COLUMN_GROUPS: return read_whole (json, item, 1, MAX_GROUPS, &p->value[column], error);
    case COLUMN_M:
    case COLUMN_N:
    case COLUMN_K:
    case COLUMN_BATCH:
    case COLUMN_SEQ:
    case COLUMN_HEADS:
    case COLUMN_KV_HEADS:
    case COLUMN_HEAD_DIM:
    case COLUMN_V_HEAD_DIM: return read_whole (json, item, 1, 1e9, &p->value[column], error);
    case N_COLUMNS:
    default: g_return_val_if_reached (FALSE);
    }
}

static ScKernel
kernel_of (const ScSampleTable *table, Point *p)
{
  const double *const v = p->value;
  const char *const name = sc_kernel_class_name (table->class);
  ScKernel kernel = { .name = name };
  switch (table->class)
    {
    case SC_KERNEL_GEMM:
      kernel = v[COLUMN_ACCUMULATE] > 0
                   ? sc_kernel_gemm_accumulate (name, table->dtype, SC_DTYPE_FP32, (guint64) v[COLUMN_M], (guint64) v[COLUMN_N],
                                                (guint64) v[COLUMN_K])
                   : sc_kernel_gemm (name, table->dtype, (guint64) v[COLUMN_M], (guint64) v[COLUMN_N], (guint64) v[COLUMN_K]);
      kernel.layout = (ScGemmLayout) v[COLUMN_LAYOUT];
      return kernel;
    case SC_KERNEL_BATCHED_GEMM:
      kernel = sc_kernel_batched_gemm (name, table->dtype, (guint64) v[COLUMN_BATCH], (guint64) v[COLUMN_M], (guint64) v[COLUMN_N],
                                       (guint64) v[COLUMN_K]);
      kernel.layout = (ScGemmLayout) v[COLUMN_LAYOUT];
      return kernel;
    case SC_KERNEL_GROUPED_GEMM:
      if (p->n_rows == 0) /* as many in each */
        for (p->n_rows = 0; p->n_rows < MAX (v[COLUMN_GROUPS], 1); p->n_rows++)
          p->rows[p->n_rows] = (guint64) v[COLUMN_ROWS];
      return sc_kernel_grouped_gemm (name, table->dtype, (ScGemmLayout) v[COLUMN_LAYOUT], p->rows, p->n_rows, (guint64) v[COLUMN_N],
                                     (guint64) v[COLUMN_K]);
    case SC_KERNEL_FLASH_FORWARD:
    case SC_KERNEL_FLASH_BACKWARD:
      {
        const ScAttentionShape shape = {
          .batch = (guint) v[COLUMN_BATCH],
          .seq = (guint) v[COLUMN_SEQ],
          .heads = (guint) v[COLUMN_HEADS],
          .kv_heads = (guint) v[COLUMN_KV_HEADS],
          .head_dim = (guint) v[COLUMN_HEAD_DIM],
          .v_head_dim = (guint) v[COLUMN_V_HEAD_DIM],
          .causal = v[COLUMN_CAUSAL] > 0,
          .window = (guint) v[COLUMN_WINDOW],
        };
        return sc_kernel_attention (name, table->class, table->dtype, &shape);
      }
    case SC_KERNEL_ELEMENTWISE:
    case SC_KERNEL_REDUCTION:
    case SC_KERNEL_OPTIMIZER:
    case SC_KERNEL_HOST_COPY:
      kernel = sc_kernel_op (name, table->op, v[COLUMN_BYTES]);
      kernel.dtype = table->dtype;
      kernel.row = (guint) v[COLUMN_ROW];
      return kernel;
    case SC_N_KERNEL_CLASSES:
    default: g_return_val_if_reached (kernel);
    }
}

/* What cells say together. */
static gboolean
check_point (const ScJson *json, const cJSON *item, ScKernelClass class, const Point *p, GError **error)
{
  const double *const v = p->value;
  if ((class == SC_KERNEL_FLASH_FORWARD || class == SC_KERNEL_FLASH_BACKWARD) && fmod (v[COLUMN_HEADS], v[COLUMN_KV_HEADS]) != 0)
    {
      sc_json_fail (json, item, NULL, error, "found %.0f heads over %.0f KV heads, expected a multiple", v[COLUMN_HEADS], v[COLUMN_KV_HEADS]);
      return FALSE;
    }
  if (class != SC_KERNEL_GROUPED_GEMM || p->n_rows == 0)
    return TRUE;
  guint64 total = 0;
  for (guint g = 0; g < p->n_rows; g++)
    total += p->rows[g];
  if (total == 0 || (v[COLUMN_GROUPS] > 0 && v[COLUMN_GROUPS] != p->n_rows))
    {
      if (total == 0)
        sc_json_fail (json, item, NULL, error, "found groups without a row, expected at least one row");
      else
        sc_json_fail (json, item, NULL, error, "found %.0f groups and the rows of %u, expected as many", v[COLUMN_GROUPS], p->n_rows);
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_points (const ScJson *json, const cJSON *array, const Column *columns, guint n_columns, ScSampleTable *table, GError **error)
{
  if (!sc_fields_check_array (json, array, MAX_POINTS, error))
    return FALSE;
  const guint n = (guint) cJSON_GetArraySize (array);
  table->kernels = g_new0 (ScKernel, MAX (n, 1));
  table->seconds = g_new0 (double, MAX (n, 1));
  if (table->class == SC_KERNEL_GROUPED_GEMM)
    {
      table->rows = g_new0 (guint64 *, MAX (n, 1));
      table->n_rows = g_new0 (guint, MAX (n, 1));
    }
  g_autofree Point *point = g_new (Point, 1);
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    {
      if (!cJSON_IsArray (item) || (guint) cJSON_GetArraySize (item) != n_columns)
        {
          g_autofree char *expected = g_strdup_printf ("an array of %u, one for each column", n_columns);
          return fail_found (json, item, error, expected);
        }
      memset (point->value, 0, sizeof point->value); /* not the rows, which are many and seldom used */
      point->value[COLUMN_CAUSAL] = 1;
      point->n_rows = 0;
      const cJSON *cell = item->child;
      for (guint c = 0; c < n_columns; c++, cell = cell->next)
        if (!read_cell (json, cell, columns[c], point, error))
          return FALSE;
      if (!check_point (json, item, table->class, point, error))
        return FALSE;
      table->kernels[table->n] = kernel_of (table, point);
      if (table->rows != NULL)
        {
          table->rows[table->n] = g_memdup2 (point->rows, point->n_rows * sizeof point->rows[0]);
          table->n_rows[table->n] = point->n_rows;
        }
      table->seconds[table->n++] = point->value[COLUMN_US] * 1e-6;
    }
  return TRUE;
}

static ScSampleTable *
read_table (const ScJson *json, const cJSON *item, GError **error)
{
  g_autoptr (ScSampleTable) table = g_new0 (ScSampleTable, 1);
  if (!sc_fields_check_object (json, item, error) || !sc_fields_read (&sc_samples_table, json, item, table, error))
    return NULL;
  const cJSON *const op = cJSON_GetObjectItemCaseSensitive (item, "op");
  const gboolean memory = table->class == SC_KERNEL_ELEMENTWISE;
  if (memory != (op != NULL))
    {
      sc_json_fail (json, item, "op", error, memory ? "missing, expected what these kernels do" : "only tables of class \"memory\" have one");
      return NULL;
    }
  if (memory)
    table->class = sc_op_class (table->op);
  const cJSON *const names = cJSON_GetObjectItemCaseSensitive (item, "columns");
  const cJSON *const points = cJSON_GetObjectItemCaseSensitive (item, "points");
  if (names == NULL || points == NULL)
    {
      sc_json_fail (json, item, names == NULL ? "columns" : "points", error, "missing");
      return NULL;
    }
  Column columns[N_COLUMNS];
  guint n_columns = 0;
  if (!read_columns (json, names, table->class, columns, &n_columns, error))
    return NULL;
  for (guint c = 0; c < n_columns; c++)
    table->by_layout |= columns[c] == COLUMN_LAYOUT;
  if (!read_points (json, points, columns, n_columns, table, error))
    return NULL;
  return g_steal_pointer (&table);
}

static gboolean
read_tables (const ScJson *json, const cJSON *array, GPtrArray *tables, GError **error)
{
  if (!sc_fields_check_array (json, array, MAX_TABLES, error))
    return FALSE;
  for (const cJSON *item = array->child; item != NULL; item = item->next)
    {
      ScSampleTable *const table = read_table (json, item, error);
      if (table == NULL)
        return FALSE;
      g_ptr_array_add (tables, table);
    }
  return TRUE;
}

gboolean
sc_samples_read (const ScJson *json, const cJSON *item, GPtrArray *tables, GError **error)
{
  if (!cJSON_IsString (item))
    return cJSON_IsArray (item) ? read_tables (json, item, tables, error)
                                : fail_found (json, item, error, "an array of tables, or the name of a file in calibrations/");
  g_autoptr (GError) why = NULL;
  g_autoptr (ScJson) file = sc_library_load_json (SC_KIND_CALIBRATION, item->valuestring, &why);
  if (file == NULL)
    {
      sc_json_fail (json, item, NULL, error, "%s", why->message);
      return FALSE;
    }
  return sc_samples_read_file (file, tables, error);
}

gboolean
sc_samples_read_file (const ScJson *file, GPtrArray *tables, GError **error)
{
  static const char *const known[] = { "comment", "samples", NULL };
  for (const cJSON *key = file->root->child; key != NULL; key = key->next)
    if (!g_strv_contains (known, key->string))
      {
        sc_json_fail_key (file, file->root, key->string, known, error);
        return FALSE;
      }
  const cJSON *const array = cJSON_GetObjectItemCaseSensitive (file->root, "samples");
  if (array == NULL)
    {
      sc_json_fail (file, file->root, "samples", error, "missing, expected an array of tables");
      return FALSE;
    }
  return read_tables (file, array, tables, error);
}

/* ---- Writing ---- */

static void
append_text (GString *out, const char *text)
{
  g_autoptr (cJSON) item = cJSON_CreateString (text);
  char *const quoted = cJSON_PrintUnformatted (item);
  g_string_append (out, quoted);
  cJSON_free (quoted);
}

static const char *
choice_name (const ScChoice *choices, int value)
{
  for (; choices->name != NULL; choices++)
    if (choices->value == value)
      return choices->name;
  g_return_val_if_reached ("");
}

static void
append_number (GString *out, double value, const char *format)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append (out, g_ascii_formatd (text, sizeof text, format, value));
}

/* One number where all groups have as many. */
static void
append_rows (const guint64 *rows, guint n, GString *out)
{
  gboolean even = TRUE;
  for (guint g = 1; g < n; g++)
    even &= rows[g] == rows[0];
  if (even)
    {
      g_string_append_printf (out, "%" G_GUINT64_FORMAT ", ", rows[0]);
      return;
    }
  g_string_append_c (out, '[');
  for (guint g = 0; g < n; g++)
    g_string_append_printf (out, "%s%" G_GUINT64_FORMAT, g > 0 ? ", " : "", rows[g]);
  g_string_append (out, "], ");
}

void
sc_samples_write (const ScSampleTable *table, GString *out)
{
  const gboolean memory = table->class >= SC_KERNEL_ELEMENTWISE;
  g_string_append_printf (out, "{ \"class\": \"%s\", \"dtype\": \"%s\"", memory ? MEMORY_CLASS : sc_kernel_class_name (table->class),
                          choice_name (dtype_choices, table->dtype));
  if (memory)
    g_string_append_printf (out, ", \"op\": \"%s\"", choice_name (op_choices, table->op));
  if (table->stack != NULL)
    {
      g_string_append (out, ", \"stack\": ");
      append_text (out, table->stack);
    }
  g_string_append (out, ",\n  \"source\": ");
  append_text (out, table->source);
  if (!table->training)
    g_string_append (out, ",\n  \"training\": false");
  if (table->efficiency.value > 0)
    {
      g_string_append (out, ",\n  \"efficiency\": { \"value\": ");
      append_number (out, table->efficiency.value, "%.4g");
      g_string_append_printf (out, ", \"grade\": \"%s\", \"source\": ", sc_grade_name (table->efficiency.grade));
      append_text (out, table->efficiency.source != NULL ? table->efficiency.source : table->source); /* readers want one */
      g_string_append (out, " }");
    }
  gboolean v_head = FALSE, all_causal = TRUE, rows = FALSE, window = FALSE;
  for (guint i = 0; i < table->n; i++)
    {
      v_head |= table->kernels[i].v_head_dim != table->kernels[i].k;
      all_causal &= table->kernels[i].causal;
      rows |= table->kernels[i].row > 0;
      window |= table->kernels[i].window > 0;
    }
  guint columns = class_columns[table->class].needed;
  if (table->by_layout)
    columns |= BIT (COLUMN_LAYOUT) | (table->class == SC_KERNEL_GEMM ? BIT (COLUMN_ACCUMULATE) : 0);
  if (table->class == SC_KERNEL_GROUPED_GEMM)
    columns |= BIT (COLUMN_GROUPS);
  if (table->class == SC_KERNEL_FLASH_FORWARD || table->class == SC_KERNEL_FLASH_BACKWARD)
    columns |= (v_head ? BIT (COLUMN_V_HEAD_DIM) : 0) | (all_causal ? 0 : BIT (COLUMN_CAUSAL)) | (window ? BIT (COLUMN_WINDOW) : 0);
  if (memory && rows)
    columns |= BIT (COLUMN_ROW);
  g_string_append (out, ",\n  \"columns\": [");
  for (guint c = 0; c < N_COLUMNS; c++)
    if ((columns & BIT (c)) != 0 || c == COLUMN_US)
      g_string_append_printf (out, "%s\"%s\"", c == COLUMN_US ? ", " : out->str[out->len - 1] == '[' ? "" : ", ", column_names[c]);
  g_string_append (out, "],\n  \"points\": [");
  for (guint i = 0; i < table->n; i++)
    {
      const ScKernel *const k = &table->kernels[i];
      const double value[N_COLUMNS] = {
        [COLUMN_M] = (double) k->m,       [COLUMN_N] = (double) k->n,
        [COLUMN_K] = (double) k->k,       [COLUMN_BATCH] = (double) k->batch,
        [COLUMN_GROUPS] = table->rows != NULL ? table->n_rows[i] : 0, [COLUMN_ROWS] = (double) k->m,
        [COLUMN_ACCUMULATE] = k->accumulate, [COLUMN_SEQ] = k->seq,
        [COLUMN_HEADS] = k->heads,        [COLUMN_KV_HEADS] = k->kv_heads,
        [COLUMN_HEAD_DIM] = (double) k->k, [COLUMN_V_HEAD_DIM] = k->v_head_dim,
        [COLUMN_CAUSAL] = k->causal,      [COLUMN_BYTES] = k->bytes,
        [COLUMN_ROW] = k->row,            [COLUMN_WINDOW] = k->window,
      };
      g_string_append (out, i > 0 ? ",\n    [" : "\n    [");
      for (guint c = 0; c < N_COLUMNS; c++)
        if (c == COLUMN_LAYOUT && (columns & BIT (c)) != 0)
          g_string_append_printf (out, "\"%s\", ", sc_gemm_layout_name (k->layout));
        else if (c == COLUMN_ROWS && (columns & BIT (c)) != 0)
          append_rows (table->rows[i], table->n_rows[i], out);
        else if ((columns & BIT (c)) != 0)
          g_string_append_printf (out, "%.0f, ", value[c]);
      append_number (out, table->seconds[i] * 1e6, "%.6g");
      g_string_append_c (out, ']');
    }
  g_string_append (out, "\n  ] }");
}
