/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel-rows.c - reads measured kernels, a line each. */
#include "kernel-rows.h"
#include "library.h"
#include "samples-json.h"
#include <math.h>
#include <string.h>

#define MAX_ROWS 1000000
#define MAX_SIZE 1e9
#define MAX_BYTES 1e15
#define MIN_TIME_US 1e-3 /* no kernel is shorter: a slip of units */
#define MAX_TIME_US 1e12
#define MAX_GROUPS 4096

void
sc_kernel_row_free (ScKernelRow *row)
{
  if (row == NULL)
    return;
  g_free (row->why);
  g_free (row->gpu);
  g_free (row->source);
  g_free (row->stack);
  g_free (row->op);
  g_free (row->beside);
  g_free (row->rows);
  sc_json_free (row->json);
  g_free (row);
}

void
sc_kernel_rows_free (ScKernelRows *rows)
{
  if (rows == NULL)
    return;
  ScMeasureSession *const s = &rows->session;
  char *const texts[] = { s->gpu, s->driver, s->cuda, s->cublaslt, s->cudnn, s->nccl, s->started, s->program };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_free (texts[i]);
  g_clear_pointer (&rows->rows, g_ptr_array_unref);
  g_free (rows);
}

/* ---- Members ---- */

/* One line while it is read. */
typedef struct
{
  const ScJson *json;
  const cJSON  *root;
  ScKernelRow  *row;
  GError      **error;
} Line;

static const cJSON *
member (const Line *l, const char *key)
{
  const cJSON *const item = cJSON_GetObjectItemCaseSensitive (l->root, key);
  return item == NULL || cJSON_IsNull (item) ? NULL : item;
}

/* An empty text says nothing. */
static const char *
text_of (const Line *l, const char *key)
{
  const cJSON *const item = member (l, key);
  return cJSON_IsString (item) && item->valuestring[0] != '\0' ? item->valuestring : NULL;
}

/* FALSE: there is something that cannot be.  *ret 0: not said. */
static gboolean
number (const Line *l, const char *key, double max, gboolean whole, double *ret)
{
  const cJSON *const item = member (l, key);
  *ret = 0;
  if (item == NULL)
    return TRUE;
  const double value = cJSON_IsNumber (item) ? item->valuedouble : NAN;
  if (value >= 0 && value <= max && (!whole || value == floor (value)))
    {
      *ret = value;
      return TRUE;
    }
  g_autofree char *found = sc_json_found (item);
  sc_json_fail (l->json, item, NULL, l->error, "found %s, expected a %snumber from 0 to %g", found, whole ? "whole " : "", max);
  return FALSE;
}

/* true, "True": published tables write both. */
static gboolean
truth (const Line *l, const char *key)
{
  const cJSON *const item = member (l, key);
  return cJSON_IsTrue (item) || (cJSON_IsString (item) && g_ascii_strcasecmp (item->valuestring, "true") == 0);
}

static gboolean
said_truth (const Line *l, const char *key)
{
  const cJSON *const item = member (l, key);
  return cJSON_IsBool (item) || truth (l, key) || (cJSON_IsString (item) && g_ascii_strcasecmp (item->valuestring, "false") == 0);
}

static void G_GNUC_PRINTF (2, 3)
skip (const Line *l, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  l->row->kind = SC_ROW_SKIPPED;
  g_free (l->row->why);
  l->row->why = g_strdup_vprintf (format, args);
  va_end (args);
}

/* "bfloat16", "bf16", "fp16/bf16", "float16", "nvfp4", ... */
static gboolean
read_dtype (const Line *l, ScDtype *ret)
{
  static const struct
  {
    const char *word;
    ScDtype dtype;
  } words[] = {
    { "bfloat16", SC_DTYPE_BF16 }, { "bf16", SC_DTYPE_BF16 },   { "float16", SC_DTYPE_FP16 }, { "half", SC_DTYPE_FP16 },
    { "fp16", SC_DTYPE_FP16 },     { "fp16/bf16", SC_DTYPE_BF16 }, { "float32", SC_DTYPE_FP32 }, { "fp32", SC_DTYPE_FP32 },
    { "tf32", SC_DTYPE_FP32 },     { "fp8", SC_DTYPE_FP8 },     { "fp8_e4m3", SC_DTYPE_FP8 }, { "fp8_block", SC_DTYPE_FP8 },
    { "mxfp8", SC_DTYPE_FP8 },     { "nvfp4", SC_DTYPE_FP4 },   { "fp4", SC_DTYPE_FP4 },      { "bfloat16?", SC_DTYPE_BF16 },
  };
  const char *const text = text_of (l, "dtype");
  for (guint i = 0; text != NULL && i < G_N_ELEMENTS (words); i++)
    if (strcmp (words[i].word, text) == 0)
      {
        *ret = words[i].dtype;
        return TRUE;
      }
  skip (l, text != NULL ? "no model of products and attention in \"%s\"" : "the data type is not stated", text);
  return FALSE;
}

static void
check_time (const Line *l)
{
  if (l->row->seconds < MIN_TIME_US * 1e-6)
    skip (l, "found %g us, expected at least %g", l->row->seconds * 1e6, MIN_TIME_US);
}

/* Seconds of the row: printed, or from FLOPs over the printed rate. */
static gboolean
read_time (const Line *l, double flops)
{
  double us, tflops;
  if (!number (l, "time_us", MAX_TIME_US, FALSE, &us) || !number (l, "tflops", 1e9, FALSE, &tflops)
      || !number (l, "spread", 1e9, FALSE, &l->row->spread))
    return FALSE;
  l->row->seconds = us > 0 ? us * 1e-6 : tflops > 0 ? flops / (tflops * 1e12) : 0;
  if (l->row->seconds <= 0)
    skip (l, "neither a time nor a rate is stated");
  else
    check_time (l);
  return TRUE;
}

/* ---- Kinds ---- */

static gboolean
read_layout (const Line *l, ScGemmLayout *ret)
{
  static const struct
  {
    const char *word;
    ScGemmLayout layout;
  } words[] = { { "TN", SC_GEMM_TN },  { "NN", SC_GEMM_NN },           { "NT", SC_GEMM_NT },
                { "fwd", SC_GEMM_TN }, { "bwd_grad_act", SC_GEMM_NN }, { "bwd_grad_w", SC_GEMM_NT } };
  const char *text = text_of (l, "layout");
  if (text == NULL)
    text = text_of (l, "stage");
  *ret = SC_GEMM_TN;
  for (guint i = 0; text != NULL && i < G_N_ELEMENTS (words); i++)
    if (strcmp (words[i].word, text) == 0)
      {
        *ret = words[i].layout;
        return TRUE;
      }
  return text == NULL;
}

static gboolean
read_rows (const Line *l, double m, double groups, guint64 *rows, guint *ret_n)
{
  const cJSON *const array = member (l, "rows");
  guint n = 0;
  if (cJSON_IsArray (array))
    {
      for (const cJSON *item = array->child; item != NULL; item = item->next)
        {
          const double value = cJSON_IsNumber (item) ? item->valuedouble : NAN;
          if (!(value >= 0 && value <= MAX_SIZE) || value != floor (value))
            {
              g_autofree char *found = sc_json_found (item);
              sc_json_fail (l->json, item, NULL, l->error, "found %s, expected a whole number of rows of a group, from 0 to %g", found, MAX_SIZE);
              return FALSE;
            }
          if (n == MAX_GROUPS)
            {
              sc_json_fail (l->json, array, NULL, l->error, "found more than %u groups, expected at most that many", MAX_GROUPS);
              return FALSE;
            }
          rows[n++] = (guint64) value;
        }
    }
  else
    for (; n < groups && n < MAX_GROUPS; n++)
      rows[n] = (guint64) m;
  *ret_n = n;
  return TRUE;
}

static gboolean
read_gemm (const Line *l)
{
  ScDtype dtype;
  ScGemmLayout layout;
  double m, n, k, groups, batch;
  if (!number (l, "m", MAX_SIZE, TRUE, &m) || !number (l, "n", MAX_SIZE, TRUE, &n) || !number (l, "k", MAX_SIZE, TRUE, &k)
      || !number (l, "grouped", MAX_GROUPS, TRUE, &groups) || !number (l, "batch", MAX_SIZE, TRUE, &batch))
    return FALSE;
  if (!read_dtype (l, &dtype))
    return TRUE;
  if (!read_layout (l, &layout))
    {
      skip (l, "no model of layout \"%s\"", text_of (l, "layout") != NULL ? text_of (l, "layout") : text_of (l, "stage"));
      return TRUE;
    }
  const gboolean accumulate = truth (l, "accumulate");
  const gboolean grouped = groups > 0 || g_strcmp0 (text_of (l, "class"), "grouped_gemm") == 0;
  ScKernel *const kernel = &l->row->kernel;
  if (n < 1 || k < 1 || (m < 1 && !grouped))
    {
      skip (l, "m, n or k is not stated");
      return TRUE;
    }
  if (grouped)
    {
      g_autofree guint64 *rows = g_new0 (guint64, MAX_GROUPS);
      guint n_groups;
      if (!read_rows (l, m, groups, rows, &n_groups))
        return FALSE;
      *kernel = sc_kernel_grouped_gemm ("grouped gemm", dtype, layout, rows, n_groups, (guint64) n, (guint64) k);
      l->row->rows = g_memdup2 (rows, n_groups * sizeof rows[0]);
      l->row->n_rows = n_groups;
      if (kernel->flops <= 0)
        {
          skip (l, "the rows of the groups are not stated");
          return TRUE;
        }
    }
  else if (batch > 1)
    *kernel = sc_kernel_batched_gemm ("batched gemm", dtype, (guint64) batch, (guint64) m, (guint64) n, (guint64) k);
  else if (accumulate)
    *kernel = sc_kernel_gemm_accumulate ("gemm", dtype, SC_DTYPE_FP32, (guint64) m, (guint64) n, (guint64) k);
  else
    *kernel = sc_kernel_gemm ("gemm", dtype, (guint64) m, (guint64) n, (guint64) k);
  kernel->layout = layout;
  l->row->has_layout = text_of (l, "layout") != NULL || text_of (l, "stage") != NULL;
  l->row->kind = SC_ROW_KERNEL;
  return read_time (l, kernel->flops);
}

static gboolean
read_attention (const Line *l)
{
  const char *const kind = text_of (l, "kind"), *const quality = text_of (l, "quality");
  l->row->kernel.class = SC_KERNEL_FLASH_FORWARD; /* also of what is skipped */
  ScDtype dtype;
  double batch, seq, heads, kv_heads, head_dim, v_head_dim, window;
  if (!number (l, "batch", MAX_SIZE, TRUE, &batch) || !number (l, "seqlen", MAX_SIZE, TRUE, &seq)
      || !number (l, "heads", MAX_SIZE, TRUE, &heads) || !number (l, "kv_heads", MAX_SIZE, TRUE, &kv_heads)
      || !number (l, "head_dim", MAX_SIZE, TRUE, &head_dim) || !number (l, "v_head_dim", MAX_SIZE, TRUE, &v_head_dim)
      || !number (l, "window", MAX_SIZE, TRUE, &window))
    return FALSE;
  if (!read_dtype (l, &dtype))
    return TRUE;
  const gboolean forward = g_strcmp0 (kind, "fwd") == 0, backward = g_strcmp0 (kind, "bwd") == 0;
  if (!forward && !backward)
    skip (l, "whether it is forward or backward is not stated");
  else if (batch < 1 || seq < 1 || heads < 1 || head_dim < 1)
    skip (l, "batch, length, heads or head size is not stated");
  else if (!said_truth (l, "causal"))
    skip (l, "whether it is causal is not stated");
  else
    {
      const ScAttentionShape shape = {
        .batch = (guint) batch,
        .seq = (guint) seq,
        .heads = (guint) heads,
        .kv_heads = (guint) (kv_heads > 0 ? kv_heads : heads),
        .head_dim = (guint) head_dim,
        .v_head_dim = (guint) v_head_dim,
        .causal = truth (l, "causal"),
        .window = (guint) window,
      };
      const ScKernelClass class = forward ? SC_KERNEL_FLASH_FORWARD : SC_KERNEL_FLASH_BACKWARD;
      l->row->kernel = sc_kernel_attention ("attention", class, dtype, &shape);
      l->row->kind = SC_ROW_KERNEL;
      /* rates of some publications count causal work in full */
      const gboolean in_full = shape.causal && quality != NULL && strstr (quality, "counted in full") != NULL;
      const double forward_flops = forward ? l->row->kernel.flops : sc_kernel_attention ("attention", SC_KERNEL_FLASH_FORWARD, dtype, &shape).flops;
      return read_time (l, forward_flops * (forward ? 1 : 2.5) * (in_full ? 2 : 1)); /* as publications count backward */
    }
  return TRUE;
}

/* What published tables and stepcast-measure call an operation. */
static const struct
{
  const char *word;
  ScMemoryOp op;
} op_words[] = {
  { "copy", SC_OP_COPY },
  { "read, working set", SC_OP_READ },
  { "add", SC_OP_ADD },
  { "addu", SC_OP_ADD },
  { "mul", SC_OP_ADD },
  { "mulu", SC_OP_ADD },
  { "div", SC_OP_ADD },
  { "divu", SC_OP_ADD },
  { "pow", SC_OP_ADD },
  { "powu", SC_OP_ADD },
  { "relu", SC_OP_ADD },
  { "tanh", SC_OP_ADD },
  { "residual add", SC_OP_ADD },
  { "residual_dropout", SC_OP_DROPOUT_ADD },
  { "gelu", SC_OP_GELU },
  { "gelu_fwd", SC_OP_GELU },
  { "gelu_bwd", SC_OP_GELU_BACKWARD },
  { "silu*mul", SC_OP_SWIGLU },
  { "swiglu_fwd", SC_OP_SWIGLU },
  { "swiglu_bwd", SC_OP_SWIGLU_BACKWARD },
  { "rmsnorm fwd", SC_OP_RMSNORM },
  { "rmsnorm_fwd", SC_OP_RMSNORM },
  { "rmsnorm_bwd", SC_OP_RMSNORM_BACKWARD },
  { "layernorm", SC_OP_LAYERNORM },
  { "layernorm_fwd", SC_OP_LAYERNORM },
  { "layernorm_bwd", SC_OP_LAYERNORM_BACKWARD },
  { "rope", SC_OP_ROPE },
  { "softmax", SC_OP_SOFTMAX },
  { "softmax_fwd", SC_OP_SOFTMAX },
  { "softmax_bwd", SC_OP_SOFTMAX_BACKWARD },
  { "cross_entropy", SC_OP_CROSS_ENTROPY },
  { "embedding_fwd", SC_OP_EMBEDDING },
  { "embedding_bwd", SC_OP_EMBEDDING_BACKWARD },
  { "permute", SC_OP_PERMUTE },
  { "cast", SC_OP_CAST },
  { "bf16->fp8 scale/cast", SC_OP_QUANTISE },
  { "fp8_quantise", SC_OP_QUANTISE },
  { "adam", SC_OP_ADAM },
  { "grad_norm", SC_OP_GRADIENT_NORM },
  { "h2d", SC_OP_HOST_TO_DEVICE },
  { "d2h", SC_OP_DEVICE_TO_HOST },
};

static gboolean
read_memory (const Line *l)
{
  const char *const name = text_of (l, "op");
  l->row->kernel.class = SC_KERNEL_ELEMENTWISE; /* also of what is skipped */
  double bytes;
  if (!number (l, "bytes", MAX_BYTES, TRUE, &bytes))
    return FALSE;
  guint i = 0;
  while (i < G_N_ELEMENTS (op_words) && g_strcmp0 (op_words[i].word, name) != 0)
    i++;
  if (i == G_N_ELEMENTS (op_words))
    {
      skip (l, "no kernel of a training step: %s", name != NULL ? name : "no op");
      return TRUE;
    }
  ScKernel *const kernel = &l->row->kernel;
  *kernel = sc_kernel_op (sc_op_name (op_words[i].op), op_words[i].op, bytes);
  const char *const dtype = text_of (l, "dtype");
  const guint known = dtype != NULL ? sc_samples_dtype (dtype) : G_MAXUINT;
  kernel->dtype = known != G_MAXUINT                    ? (ScDtype) known
                  : g_strcmp0 (dtype, "float32") == 0 ? SC_DTYPE_FP32
                  : g_strcmp0 (dtype, "float16") == 0 ? SC_DTYPE_FP16
                                                      : SC_DTYPE_BF16;
  const cJSON *const shape = member (l, "shape");
  const cJSON *const last = cJSON_IsArray (shape) && cJSON_GetArraySize (shape) > 0
                                ? cJSON_GetArrayItem (shape, cJSON_GetArraySize (shape) - 1) : NULL;
  if (kernel->class == SC_KERNEL_REDUCTION && cJSON_IsNumber (last) && last->valuedouble >= 1 && last->valuedouble <= MAX_SIZE)
    kernel->row = (guint) last->valuedouble;
  double us, rate;
  if (!number (l, "time_us", MAX_TIME_US, FALSE, &us) || !number (l, "gbps", 1e9, FALSE, &rate)
      || !number (l, "spread", 1e9, FALSE, &l->row->spread))
    return FALSE;
  l->row->kind = SC_ROW_KERNEL;
  l->row->seconds = us > 0 ? us * 1e-6 : rate > 0 ? bytes / (rate * 1e9) : 0;
  if (bytes < 1 || l->row->seconds <= 0)
    skip (l, "bytes or time is not stated");
  else
    check_time (l);
  return TRUE;
}

/* The product whose rate was watched. */
static gboolean
read_power (const Line *l)
{
  ScDtype dtype;
  double m, n, k;
  if (!number (l, "m", MAX_SIZE, TRUE, &m) || !number (l, "n", MAX_SIZE, TRUE, &n) || !number (l, "k", MAX_SIZE, TRUE, &k))
    return FALSE;
  if (read_dtype (l, &dtype))
    l->row->kernel = sc_kernel_gemm ("gemm", dtype, (guint64) m, (guint64) n, (guint64) k);
  return TRUE;
}

/* Raw classes beside kernels. */
static gboolean
read_other (const Line *l, ScRowKind kind)
{
  double us, bytes, factor, amount, tflops;
  if (!number (l, "time_us", MAX_TIME_US, FALSE, &us) || !number (l, "bytes", MAX_BYTES, FALSE, &bytes)
      || !number (l, "factor", 1e6, FALSE, &factor) || !number (l, "amount", 1e15, FALSE, &amount) || !number (l, "tflops", 1e9, FALSE, &tflops)
      || !number (l, "spread", 1e9, FALSE, &l->row->spread))
    return FALSE;
  l->row->kind = kind;
  l->row->op = g_strdup (kind == SC_ROW_SLOWDOWN ? text_of (l, "victim") : kind == SC_ROW_COLLECTIVE ? text_of (l, "collective") : text_of (l, "op"));
  l->row->beside = g_strdup (text_of (l, "beside"));
  l->row->seconds = us * 1e-6;
  l->row->bytes = bytes;
  l->row->factor = factor;
  l->row->amount = amount;
  l->row->flops_per_s = tflops * 1e12;
  if (l->row->op == NULL)
    skip (l, "what was measured is not stated");
  return l->row->kind != SC_ROW_POWER || read_power (l);
}

static gboolean
read_session (const Line *l, ScMeasureSession *s)
{
  const struct
  {
    const char *key;
    char **to;
  } texts[] = { { "gpu", &s->gpu },     { "driver", &s->driver }, { "cuda", &s->cuda },       { "cublaslt", &s->cublaslt },
                { "cudnn", &s->cudnn }, { "nccl", &s->nccl },     { "started", &s->started }, { "program", &s->program } };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_free (*texts[i].to);
      *texts[i].to = g_strdup (text_of (l, texts[i].key));
    }
  return number (l, "sms", 1e5, TRUE, &s->sms) && number (l, "memory_bytes", MAX_BYTES, FALSE, &s->memory_bytes)
         && number (l, "l2_bytes", MAX_BYTES, FALSE, &s->l2_bytes) && number (l, "power_limit_w", 1e6, FALSE, &s->power_limit_w)
         && number (l, "clock_sm_max_mhz", 1e6, FALSE, &s->clock_sm_max_mhz);
}

static gboolean
read_raw (const Line *l, const char *class)
{
  static const struct
  {
    const char *class;
    gboolean (*read) (const Line *l);
  } kernels[] = { { "gemm", read_gemm }, { "grouped_gemm", read_gemm }, { "attention", read_attention }, { "memory", read_memory } };
  static const struct
  {
    const char *class;
    ScRowKind kind;
  } others[] = { { "launch", SC_ROW_LAUNCH }, { "copy", SC_ROW_COPY }, { "collective", SC_ROW_COLLECTIVE },
                 { "slowdown", SC_ROW_SLOWDOWN }, { "power", SC_ROW_POWER } };
  for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
    if (strcmp (kernels[i].class, class) == 0)
      return kernels[i].read (l);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (strcmp (others[i].class, class) == 0)
      return read_other (l, others[i].kind);
  skip (l, "class \"%s\" is not known", class);
  return TRUE;
}

/* ---- Software ---- */

static gboolean
looks_like_version (const char *text)
{
  return g_ascii_isdigit (text[0]) && strchr (text, '.') != NULL;
}

/* "github:OWNER/REPO path/BACKEND/VERSION/file @commit" -> "BACKEND VERSION", else "REPO"; a paper's title up to its comma. */
static char *
stack_of_source (const char *source)
{
  g_auto (GStrv) parts = g_strsplit_set (source, "/ ", 100);
  for (guint i = 1; parts[0] != NULL && parts[i] != NULL; i++)
    if (looks_like_version (parts[i]) && parts[i - 1][0] != '\0' && g_str_has_prefix (source, "github:"))
      return g_strdup_printf ("%s %s", parts[i - 1], parts[i]);
  if (g_str_has_prefix (source, "github:") && parts[0] != NULL && parts[1] != NULL)
    return g_strdup (parts[1]);
  return g_strndup (source, strcspn (source, ",("));
}

static char *
stack_of (const Line *l, const ScMeasureSession *session)
{
  const char *const impl = text_of (l, "impl"), *const source = text_of (l, "source"), *const class = text_of (l, "class");
  if (class != NULL && source == NULL)
    {
      const gboolean attention = strcmp (class, "attention") == 0;
      const char *const library = attention ? (impl != NULL ? impl : "cuDNN") : g_str_has_suffix (class, "gemm") ? "cuBLASLt" : "stepcast-measure";
      const char *const version = attention ? session->cudnn : g_str_has_suffix (class, "gemm") ? session->cublaslt : NULL;
      return version != NULL ? g_strdup_printf ("%s %s", library, version) : g_strdup (library);
    }
  if (impl != NULL)
    return g_strdup (impl);
  g_autofree char *short_name = source != NULL ? g_strstrip (stack_of_source (source)) : NULL;
  return short_name != NULL && short_name[0] != '\0' ? g_steal_pointer (&short_name) : g_strdup ("not stated");
}

/* ---- Lines ---- */

/* Of a layer the GPU and the software lie inside objects. */
static void
read_layer (const Line *l)
{
  const cJSON *const cluster = member (l, "cluster"), *const software = member (l, "software");
  const cJSON *const gpu = cJSON_GetObjectItemCaseSensitive (cluster, "gpu");
  const cJSON *const framework = cJSON_GetObjectItemCaseSensitive (software, "framework");
  const cJSON *const version = cJSON_GetObjectItemCaseSensitive (software, "version");
  l->row->kind = SC_ROW_LAYER;
  if (l->row->gpu == NULL && cJSON_IsString (gpu))
    l->row->gpu = g_strdup (gpu->valuestring);
  if (cJSON_IsString (framework))
    {
      g_free (l->row->stack);
      l->row->stack = cJSON_IsString (version) ? g_strdup_printf ("%s %s", framework->valuestring, version->valuestring)
                                               : g_strdup (framework->valuestring);
    }
}

static gboolean
read_line (const Line *l, ScKernelRows *rows)
{
  ScKernelRow *const row = l->row;
  const char *const class = text_of (l, "class"), *const kind = text_of (l, "kind");
  if (class != NULL && strcmp (class, "session") == 0)
    {
      rows->raw = TRUE;
      skip (l, "a session");
      row->is_session = TRUE;
      return read_session (l, &rows->session);
    }
  row->gpu = g_strdup (text_of (l, "gpu"));
  row->source = g_strdup (text_of (l, "source"));
  row->stack = stack_of (l, &rows->session);
  row->raw = class != NULL;
  if (class != NULL)
    return read_raw (l, class);
  if (kind != NULL && member (l, "model") != NULL)
    {
      read_layer (l);
      if (strcmp (kind, "layer") != 0)
        skip (l, "of kind \"%s\", expected \"layer\": whole runs are for validate runs", kind);
      return TRUE;
    }
  if (row->gpu == NULL)
    skip (l, "the GPU is not stated");
  else if (member (l, "seqlen") != NULL || member (l, "head_dim") != NULL)
    return read_attention (l);
  else if (member (l, "op") != NULL)
    return read_memory (l);
  else if (member (l, "n") != NULL)
    return read_gemm (l);
  else
    skip (l, "neither a product (m, n, k), nor attention (seqlen), nor a memory-bound kernel (op)");
  return TRUE;
}

ScKernelRows *
sc_kernel_rows_parse (const char *file, const char *text, gsize length, GError **error)
{
  g_autoptr (ScKernelRows) rows = g_new0 (ScKernelRows, 1);
  rows->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_kernel_row_free);
  guint line = 1;
  for (const char *p = text, *const stop = text + length; p < stop; line++)
    {
      const char *newline = memchr (p, '\n', (gsize) (stop - p));
      const char *const end = newline != NULL ? newline : stop;
      const char *first = p;
      while (first < end && g_ascii_isspace (*first))
        first++;
      p = newline != NULL ? newline + 1 : stop;
      if (first == end)
        continue;
      if (rows->rows->len == MAX_ROWS)
        {
          g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: found more than %u rows, expected at most that many", file, line,
                       MAX_ROWS);
          return NULL;
        }
      ScKernelRow *const row = g_new0 (ScKernelRow, 1);
      row->line = line;
      g_ptr_array_add (rows->rows, row);
      g_autofree char *where = g_strdup_printf ("%s:%u", file, line);
      g_autoptr (GError) why = NULL;
      g_autoptr (ScJson) json = sc_json_parse (where, first, (gsize) (end - first), &why);
      if (json == NULL && newline == NULL && rows->raw)
        {
          row->kind = SC_ROW_SKIPPED;
          row->why = g_strdup ("cut off");
          continue;
        }
      if (json == NULL)
        {
          g_propagate_error (error, g_steal_pointer (&why));
          return NULL;
        }
      const Line l = { json, json->root, row, error };
      if (!cJSON_IsObject (json->root))
        {
          sc_json_fail (json, json->root, NULL, error, "expected an object");
          return NULL;
        }
      if (!read_line (&l, rows))
        return NULL;
      if (row->kind == SC_ROW_LAYER)
        row->json = g_steal_pointer (&json);
    }
  if (rows->rows->len == 0)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: found no rows, expected one JSON object a line", file);
      return NULL;
    }
  return g_steal_pointer (&rows);
}

ScKernelRows *
sc_kernel_rows_load (const char *argument, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (SC_KIND_MEASUREMENTS, argument, &file, &length, error);
  return text != NULL ? sc_kernel_rows_parse (file, text, length, error) : NULL;
}

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
