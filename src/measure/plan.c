/* SPDX-License-Identifier: MIT */
/* plan.c - the shapes of every class.  Tier 0 is what every model needs, the later ones refine it. */
#include "measure/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ScmClassRow scm_classes[SCM_N_CLASSES] = {
#define ROW(name, libraries, seconds, summary) { #name, summary, libraries, seconds },
  SCM_CLASSES (ROW)
#undef ROW
};

const ScmOpRow scm_ops[SCM_N_OPS] = {
#define ROW(name, family, dtype, element, row, column) { #name, dtype, SCM_FAMILY_##family, element, row, column },
  SCM_MEMORY_OPS (ROW)
#undef ROW
};

typedef struct
{
  ScmPlan *plan;
  size_t room;
  int gpus, gpu;
} Builder;

#define N_OF(array) ((int) (sizeof (array) / sizeof *(array)))
#define KEY(item, ...) snprintf ((item)->key, sizeof (item)->key, __VA_ARGS__)

/* A new last item.  The pointer holds until the next one is added. */
static ScmItem *
add (Builder *builder, ScmClass class_id, int tier)
{
  ScmPlan *plan = builder->plan;
  if (plan->n_items == builder->room)
    {
      builder->room = builder->room == 0 ? 256 : 2 * builder->room;
      plan->items = realloc (plan->items, builder->room * sizeof *plan->items);
      if (plan->items == NULL)
        abort ();
    }
  ScmItem *item = &plan->items[plan->n_items++];
  *item = (ScmItem){ .class_id = class_id, .tier = tier, .seconds = scm_classes[class_id].seconds, .batch = 1 };
  return item;
}

/* --- gemm --- */

static void
add_gemm (Builder *builder, int tier, const char *dtype, const char *layout, int64_t m, int64_t n, int64_t k,
          int64_t batch, bool accumulate)
{
  const bool fp8 = strcmp (dtype, "fp8") == 0;
  /* fp8 tensor cores before Blackwell take TN alone; frameworks transpose for the other two. */
  if (fp8 && strcmp (layout, "TN") != 0)
    return;
  if (fp8 && (m % 16 != 0 || n % 16 != 0 || k % 16 != 0))
    return;
  const char *out = accumulate || strcmp (dtype, "tf32") == 0 ? "fp32" : fp8 ? "bf16" : dtype;
  char key[sizeof ((ScmItem *) NULL)->key];
  snprintf (key, sizeof key, "gemm %s %s %lldx%lldx%lld batch %lld to %s%s", dtype, layout, (long long) m, (long long) n,
            (long long) k, (long long) batch, out, accumulate ? " accumulate" : "");
  /* Layers of different models share shapes; the first has the lowest tier. */
  for (size_t i = 0; i < builder->plan->n_items; i++)
    if (strcmp (builder->plan->items[i].key, key) == 0)
      return;
  ScmItem *item = add (builder, SCM_CLASS_gemm, tier);
  item->dtype = dtype;
  item->layout = layout;
  item->out_dtype = out;
  item->m = m;
  item->n = n;
  item->k = k;
  item->batch = batch;
  item->accumulate = accumulate;
  strcpy (item->key, key);
}

/* The three products of a linear layer that maps @in to @out features. */
static void
add_linear (Builder *builder, int tier, const char *dtype, int64_t tokens, int64_t out, int64_t in)
{
  add_gemm (builder, tier, dtype, "TN", tokens, out, in, 1, false);
  add_gemm (builder, tier, dtype, "NN", tokens, in, out, 1, false);
  add_gemm (builder, tier, dtype, "NT", out, in, tokens, 1, true);
  if (strcmp (dtype, "fp8") == 0)
    {
      add_gemm (builder, tier, dtype, "TN", tokens, in, out, 1, false);
      add_gemm (builder, tier, dtype, "TN", out, in, tokens, 1, true);
    }
}

static const struct
{
  int tier; /* of its bf16 and fp8 layers without tensor parallelism */
  int64_t hidden, kv, ffn, gates, vocabulary;
} models[] = {
  { 0, 4096, 1024, 14336, 2, 128256 },  /* Llama 3 8B */
  { 0, 8192, 1024, 28672, 2, 128256 },  /* Llama 3 70B */
  { 1, 16384, 1024, 53248, 2, 128256 }, /* Llama 3 405B */
  { 1, 12288, 12288, 49152, 1, 51200 }, /* GPT-3 175B */
  { 2, 2048, 2048, 8192, 1, 50304 },    /* GPT 1.3B */
  { 2, 5120, 5120, 13824, 2, 32000 },   /* Llama 2 13B */
  { 2, 6144, 6144, 24576, 1, 51200 },   /* GPT 20B */
  { 2, 3072, 1024, 8192, 2, 128256 },   /* Llama 3.2 3B */
};

static void
add_layers (Builder *builder, const char *dtype, int64_t tokens, int tensor_parallel, int raise)
{
  const int64_t tp = tensor_parallel;
  for (int i = 0; i < N_OF (models); i++)
    {
      const int64_t h = models[i].hidden, qkv = h + 2 * models[i].kv, ffn = models[i].ffn;
      const int tier = models[i].tier + raise;
      if (h < 4096 && tp > 2)
        continue;
      add_linear (builder, tier, dtype, tokens, qkv / tp, h);
      add_linear (builder, tier, dtype, tokens, h, h / tp);
      add_linear (builder, tier, dtype, tokens, models[i].gates * ffn / tp, h);
      add_linear (builder, tier, dtype, tokens, h, ffn / tp);
      if (strcmp (dtype, "bf16") == 0)
        add_linear (builder, tier + 1, dtype, tokens, models[i].vocabulary / tp, h);
    }
}

static void
plan_gemm (Builder *builder)
{
  static const char *const dtypes[] = { "bf16", "fp8", "fp16", "tf32" };
  static const char *const layouts[] = { "TN", "NN", "NT" };

  /* Cubes: the rate against the size, for every type. */
  for (int i = 0; i < N_OF (dtypes); i++)
    for (int j = 0; j < N_OF (layouts); j++)
      for (int64_t size = 256; size <= 16384; size *= 2)
        {
          const int tier = i < 2 && j == 0 ? 0 : i < 2 ? 1 : 2;
          if (size < 16384 || i < 2)
            add_gemm (builder, tier, dtypes[i], layouts[j], size, size, size, 1, false);
        }

  add_layers (builder, "bf16", 8192, 1, 0);
  add_layers (builder, "fp8", 8192, 1, 0);
  add_layers (builder, "bf16", 8192, 8, 1);
  add_layers (builder, "bf16", 4096, 1, 1);
  add_layers (builder, "bf16", 8192, 2, 2);
  add_layers (builder, "bf16", 8192, 4, 2);
  add_layers (builder, "fp8", 8192, 8, 2);
  add_layers (builder, "bf16", 2048, 1, 2);
  add_layers (builder, "bf16", 2048, 8, 3);
  add_layers (builder, "fp16", 8192, 1, 3);

  /* Each dimension alone against two large ones, where tiles and waves are cut. */
  for (int i = 0; i < 2; i++)
    for (int64_t size = 64; size <= 65536; size *= 2)
      {
        add_gemm (builder, 1, dtypes[i], "TN", size, 8192, 8192, 1, false);
        add_gemm (builder, 2, dtypes[i], "TN", 8192, size, 8192, 1, false);
        add_gemm (builder, 1, dtypes[i], "TN", 8192, 8192, size, 1, false);
      }
  /* A row of blocks more or less: waves of tiles. */
  for (int64_t m = 3584; m <= 6656; m += 256)
    add_gemm (builder, 3, "bf16", "TN", m, 4096, 4096, 1, false);

  /* Batched: heads of unfused attention, and experts of equal size. */
  for (int64_t s = 512; s <= 8192; s *= 2)
    {
      add_gemm (builder, 1, "bf16", "TN", s, s, 128, 32, false);
      add_gemm (builder, 1, "bf16", "NN", s, 128, s, 32, false);
      add_gemm (builder, 2, "bf16", "NT", s, 128, s, 32, false);
      add_gemm (builder, 2, "bf16", "TN", s, 2048, 2048, 8, false);
    }
}

/* --- grouped_gemm --- */

/* @tokens over @n experts, unevenly as routers do: a fixed pattern between about half and twice the mean.  Multiples of
 * 16, which fp8 asks for. */
static void
spread_rows (ScmItem *item, int64_t tokens, int n)
{
  int64_t weight_sum = 0, left = tokens;
  for (int i = 0; i < n; i++)
    weight_sum += 8 + (i * 7) % 13;
  for (int i = 0; i < n; i++)
    {
      const int64_t share = tokens * (8 + (i * 7) % 13) / weight_sum / 16 * 16;
      item->rows[i] = share < 16 ? 16 : share;
      left -= item->rows[i];
    }
  if (left > 0)
    item->rows[0] += left / 16 * 16;
  item->n_rows = n;
}

static void
add_grouped (Builder *builder, int tier, const char *dtype, const char *layout, int64_t tokens, int experts, int64_t n,
             int64_t k)
{
  if (strcmp (dtype, "fp8") == 0 && strcmp (layout, "TN") != 0)
    return;
  ScmItem *item = add (builder, SCM_CLASS_grouped_gemm, tier);
  item->dtype = dtype;
  item->layout = layout;
  item->out_dtype = "bf16";
  item->n = n;
  item->k = k;
  spread_rows (item, tokens, experts);
  KEY (item, "grouped_gemm %s %s %lld rows in %d experts, %lldx%lld", dtype, layout, (long long) tokens, experts,
       (long long) n, (long long) k);
}

static void
plan_grouped_gemm (Builder *builder)
{
  static const struct
  {
    int experts; /* on this GPU */
    int64_t hidden, ffn;
  } moes[] = {
    { 8, 4096, 14336 },  /* Mixtral 8x7B */
    { 8, 6144, 16384 },  /* Mixtral 8x22B */
    { 1, 4096, 14336 },  /* the same with an expert each */
    { 32, 7168, 2048 },  /* DeepSeek-V3, 8 GPUs */
    { 8, 7168, 2048 },   /* 32 GPUs */
    { 64, 2048, 1024 },  /* small and many */
    { 16, 4096, 1536 },  /* Qwen3 235B, 8 GPUs */
  };
  static const char *const dtypes[] = { "bf16", "fp8" };
  for (int d = 0; d < N_OF (dtypes); d++)
    for (int i = 0; i < N_OF (moes); i++)
      for (int64_t tokens = 4096; tokens <= 65536; tokens *= 4)
        {
          const int tier = 1 + d + (tokens != 16384);
          add_grouped (builder, tier, dtypes[d], "TN", tokens, moes[i].experts, 2 * moes[i].ffn, moes[i].hidden);
          add_grouped (builder, tier, dtypes[d], "TN", tokens, moes[i].experts, moes[i].hidden, moes[i].ffn);
          add_grouped (builder, tier + 1, dtypes[d], "NN", tokens, moes[i].experts, moes[i].hidden, 2 * moes[i].ffn);
        }
}

/* --- attention --- */

static void
add_attention (Builder *builder, int tier, const char *impl, const char *dtype, bool causal, int64_t batch, int64_t seqlen,
               int64_t heads, int64_t kv_heads, int64_t head_dim)
{
  static const char *const kinds[] = { "fwd", "bwd" };
  for (int i = 0; i < 2; i++)
    {
      ScmItem *item = add (builder, SCM_CLASS_attention, tier);
      item->op = kinds[i];
      item->beside = impl;
      item->dtype = dtype;
      item->causal = causal;
      item->batch = batch;
      item->seqlen = seqlen;
      item->heads = heads;
      item->kv_heads = kv_heads;
      item->head_dim = head_dim;
      KEY (item, "attention %s %s %s%s b%lld s%lld h%lld kv%lld d%lld", impl, kinds[i], dtype, causal ? " causal" : "",
           (long long) batch, (long long) seqlen, (long long) heads, (long long) kv_heads, (long long) head_dim);
    }
}

static void
plan_attention (Builder *builder)
{
  for (int64_t seqlen = 512; seqlen <= 65536; seqlen *= 2)
    for (int causal = 1; causal >= 0; causal--)
      {
        const int64_t batch = seqlen < 8192 ? 8192 / seqlen : 1;
        const bool usual = seqlen == 2048 || seqlen == 4096 || seqlen == 8192;
        const int tier = (causal ? 0 : 1) + (usual ? 0 : 1) + (seqlen > 32768);
        add_attention (builder, tier, "cudnn", "bf16", causal, batch, seqlen, 32, 8, 128);
        add_attention (builder, tier + 1, "cudnn", "bf16", causal, batch, seqlen, 32, 32, 128);
        add_attention (builder, tier + 1, "cudnn", "bf16", causal, batch, seqlen, 32, 32, 64);
        add_attention (builder, tier + 2, "cudnn", "bf16", causal, batch, seqlen, 8, 1, 128); /* 64 heads, 8 GPUs */
        add_attention (builder, tier + 3, "cudnn", "fp16", causal, batch, seqlen, 32, 32, 128);
      }
  for (int64_t batch = 1; batch <= 16; batch *= 4)
    add_attention (builder, 2, "cudnn", "bf16", true, batch, 4096, 16, 2, 128);
  for (int64_t seqlen = 512; seqlen <= 8192; seqlen *= 2)
    for (int causal = 1; causal >= 0; causal--)
      add_attention (builder, causal ? 2 : 3, "unfused", "bf16", causal, 8192 / seqlen, seqlen, 32, 32, 128);
  for (int64_t seqlen = 512; seqlen <= 8192; seqlen *= 4)
    add_attention (builder, 3, "unfused", "bf16", true, 8192 / seqlen, seqlen, 32, 32, 64);
}

/* --- memory --- */

int64_t
scm_memory_bytes (ScmOp op, const int64_t *shape, int n_shape)
{
  int64_t elements = 1;
  for (int i = 0; i < n_shape; i++)
    elements *= shape[i];
  int64_t bytes = elements * scm_ops[op].element_bytes;
  if (n_shape == 2)
    bytes += shape[0] * scm_ops[op].row_bytes + shape[1] * scm_ops[op].column_bytes;
  if (scm_ops[op].family == SCM_FAMILY_HEADS)
    bytes += shape[0] * shape[2] / 2 * 8; /* a cosine and a sine, fp32 */
  return bytes;
}

static void
add_memory (Builder *builder, int tier, ScmOp op, int n_shape, int64_t d0, int64_t d1, int64_t d2)
{
  ScmItem *item = add (builder, SCM_CLASS_memory, tier);
  item->memory_op = op;
  item->op = scm_ops[op].name;
  item->dtype = scm_ops[op].dtype;
  item->n_shape = n_shape;
  item->shape[0] = d0;
  item->shape[1] = d1;
  item->shape[2] = d2;
  item->bytes = scm_memory_bytes (op, item->shape, n_shape);
  KEY (item, "memory %s %s", item->op, item->dtype);
  for (int i = 0; i < n_shape; i++)
    {
      const size_t length = strlen (item->key);
      snprintf (item->key + length, sizeof item->key - length, "%s%lld", i == 0 ? " " : "x", (long long) item->shape[i]);
    }
}

static void
plan_memory (Builder *builder)
{
  static const int64_t hidden[] = { 4096, 8192, 2048, 12288, 16384 };
  static const int64_t wide[] = { 14336, 28672, 3584, 53248 };
  for (int i = 0; i < SCM_N_OPS; i++)
    {
      const ScmOp op = (ScmOp) i;
      switch (scm_ops[i].family)
        {
        case SCM_FAMILY_FLAT:
          for (int64_t n = 1 << 12; n <= 1 << 28; n *= 4)
            add_memory (builder, n == 1 << 26 || n == 1 << 20 ? 0 : 1, op, 1, n, 0, 0);
          break;
        case SCM_FAMILY_ROWS:
          for (int j = 0; j < N_OF (hidden); j++)
            for (int64_t rows = 128; rows <= 32768; rows *= 4)
              add_memory (builder, j < 2 && rows == 8192 ? 0 : j < 2 ? 1 : 2, op, 2, rows, hidden[j], 0);
          break;
        case SCM_FAMILY_WIDE:
          for (int j = 0; j < N_OF (wide); j++)
            for (int64_t rows = 128; rows <= 8192; rows *= 4)
              add_memory (builder, j < 2 && rows == 8192 ? 0 : j < 2 ? 1 : 2, op, 2, rows, wide[j], 0);
          break;
        case SCM_FAMILY_HEADS:
          for (int64_t heads = 8; heads <= 128; heads *= 4)
            for (int64_t tokens = 128; tokens <= 32768; tokens *= 4)
              add_memory (builder, heads == 32 && tokens == 8192 ? 0 : 1, op, 3, tokens, heads, 128);
          break;
        case SCM_FAMILY_SCORES:
          for (int64_t columns = 512; columns <= 8192; columns *= 2)
            for (int64_t rows = 2048; rows <= 131072; rows *= 8)
              add_memory (builder, columns == 2048 ? 1 : 2, op, 2, rows, columns, 0);
          break;
        case SCM_FAMILY_LOGITS:
          for (int64_t tokens = 512; tokens <= 8192; tokens *= 4)
            {
              add_memory (builder, tokens == 8192 ? 0 : 1, op, 2, tokens, SCM_VOCABULARY, 0);
              add_memory (builder, 1, op, 2, tokens, SCM_VOCABULARY / 8, 0);
              add_memory (builder, 2, op, 2, tokens, 32000, 0);
            }
          break;
        }
    }
}

/* --- launch, copy, collective --- */

static void
plan_launch (Builder *builder)
{
  static const char *const ops[] = { "launch", "graph", "issue", "issue_gemm" };
  for (int i = 0; i < N_OF (ops); i++)
    {
      ScmItem *item = add (builder, SCM_CLASS_launch, 0);
      item->op = ops[i];
      KEY (item, "launch %s", ops[i]);
    }
}

static void
plan_copy (Builder *builder)
{
  static const char *const ops[] = { "h2d", "d2h" };
  for (int i = 0; i < N_OF (ops); i++)
    for (int64_t bytes = 4096; bytes <= 1 << 30; bytes *= 4)
      {
        ScmItem *item = add (builder, SCM_CLASS_copy, bytes == 1 << 28 || bytes == 1 << 20 ? 0 : 1);
        item->op = ops[i];
        item->bytes = bytes;
        KEY (item, "copy %s %lld", ops[i], (long long) bytes);
      }
  /* Every pair at one size; the first pair at all. */
  for (int src = 0; src < builder->gpus; src++)
    for (int dst = 0; dst < builder->gpus; dst++)
      for (int64_t bytes = 4096; bytes <= 1 << 30; bytes *= 4)
        {
          const bool whole = bytes == 1 << 28;
          if (src == dst || (!whole && (src != 0 || dst != 1)))
            continue;
          ScmItem *item = add (builder, SCM_CLASS_copy, src == 0 && whole ? 0 : 1);
          item->op = "p2p";
          item->bytes = bytes;
          item->src = src;
          item->dst = dst;
          KEY (item, "copy p2p %d to %d %lld", src, dst, (long long) bytes);
        }
}

static void
plan_collective (Builder *builder)
{
  static const char *const names[] = { "all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast" };
  for (int i = 0; i < N_OF (names); i++)
    for (int gpus = builder->gpus; gpus >= 2; gpus /= 2)
      for (int64_t bytes = 4096; bytes <= (int64_t) 1 << 32; bytes *= 4)
        {
          ScmItem *item = add (builder, SCM_CLASS_collective,
                               (i < 3 ? 0 : 1) + (gpus == builder->gpus ? 0 : 2) + (bytes > 1 << 30));
          item->op = names[i];
          item->dtype = "bf16";
          item->gpus = gpus;
          item->bytes = bytes;
          KEY (item, "collective %s %d gpus %lld", names[i], gpus, (long long) bytes);
        }
}

/* --- slowdown, power --- */

static void
add_slowdown (Builder *builder, int tier, const char *victim, int64_t size, const char *beside, const char *how, int amount)
{
  ScmItem *item = add (builder, SCM_CLASS_slowdown, tier);
  item->op = victim;
  item->beside = beside;
  item->dtype = "bf16";
  item->layout = how;
  item->m = size;
  item->amount = amount;
  const size_t length = (size_t) KEY (item, "slowdown %s %lld beside %s", victim, (long long) size, beside);
  if (strcmp (beside, "collective") == 0)
    {
      item->gpus = builder->gpus;
      snprintf (item->key + length, sizeof item->key - length, " %d gpus", item->gpus);
    }
  else
    snprintf (item->key + length, sizeof item->key - length, " %s", how);
}

static void
plan_slowdown (Builder *builder)
{
  static const struct
  {
    const char *victim;
    int64_t size; /* edge of a cube, or elements that are added */
  } victims[] = { { "gemm", 8192 }, { "gemm", 4096 }, { "memory", 1 << 26 }, { "memory", 1 << 23 } };
  static const char *const copies[] = { "h2d", "d2h", "p2p" };
  static const char *const held[] = { "8", "16", "24", "32" };
  for (int i = 0; i < N_OF (victims); i++)
    {
      const int tier = 1 + i % 2;
      for (int j = 0; j < (builder->gpus > 1 ? 3 : 2); j++)
        add_slowdown (builder, tier, victims[i].victim, victims[i].size, "copy", copies[j], 0);
      for (int j = 0; j < N_OF (held); j++)
        add_slowdown (builder, tier, victims[i].victim, victims[i].size, "held_sms", held[j], 8 * (j + 1));
      if (builder->gpus > 1)
        add_slowdown (builder, tier, victims[i].victim, victims[i].size, "collective", "", 0);
    }
}

static void
plan_power (Builder *builder)
{
  static const char *const dtypes[] = { "bf16", "fp8" };
  for (int i = 0; i < N_OF (dtypes); i++)
    for (int sustained = 0; sustained < 2; sustained++)
      {
        ScmItem *item = add (builder, SCM_CLASS_power, i + 2 * sustained);
        item->op = sustained ? "sustained" : "burst";
        item->dtype = dtypes[i];
        item->layout = "TN";
        item->out_dtype = "bf16";
        item->m = item->n = item->k = 8192;
        item->seconds = sustained ? 64 : 5;
        KEY (item, "power %s %s", item->op, dtypes[i]);
      }
}

/* --- the plan --- */

static int
compare_items (const void *a, const void *b)
{
  const ScmItem *x = a, *y = b;
  if (x->tier != y->tier)
    return x->tier - y->tier;
  if (x->order < y->order)
    return -1;
  if (x->order > y->order)
    return 1;
  return (int) x->class_id - (int) y->class_id;
}

/* Within a tier every class is spread evenly, so that a budget cuts all of them alike. */
static void
set_order (ScmPlan *plan)
{
  for (int tier = 0;; tier++)
    {
      bool later = false;
      for (int c = 0; c < SCM_N_CLASSES; c++)
        {
          int n = 0, i_in_class = 0;
          for (size_t i = 0; i < plan->n_items; i++)
            {
              n += plan->items[i].tier == tier && (int) plan->items[i].class_id == c;
              later |= plan->items[i].tier > tier;
            }
          for (size_t i = 0; i < plan->n_items; i++)
            if (plan->items[i].tier == tier && (int) plan->items[i].class_id == c)
              plan->items[i].order = (i_in_class++ + 0.5) / n;
        }
      if (!later)
        break;
    }
}

void
scm_plan_init (ScmPlan *plan, int gpus, int gpu, unsigned classes)
{
  *plan = (ScmPlan){ 0 };
  Builder builder = { .plan = plan, .gpus = gpus, .gpu = gpu };
#define ROW(name, libraries, seconds, summary)                                                                         \
  if ((classes & 1u << SCM_CLASS_##name) != 0)                                                                         \
    plan_##name (&builder);
  SCM_CLASSES (ROW)
#undef ROW
  set_order (plan);
  if (plan->n_items > 0)
    qsort (plan->items, plan->n_items, sizeof *plan->items, compare_items);
}

void
scm_plan_clear (ScmPlan *plan)
{
  free (plan->items);
  *plan = (ScmPlan){ 0 };
}

ScmClass
scm_class_find (const char *name)
{
  int i = 0;
  while (i < SCM_N_CLASSES && strcmp (scm_classes[i].name, name) != 0)
    i++;
  return (ScmClass) i;
}

unsigned
scm_item_libraries (const ScmItem *item)
{
  if (item->class_id == SCM_CLASS_attention)
    return strcmp (item->beside, "cudnn") == 0 ? SCM_CUDNN : SCM_CUBLASLT;
  if (item->class_id == SCM_CLASS_slowdown && strcmp (item->op, "memory") == 0)
    return strcmp (item->beside, "collective") == 0 ? SCM_NCCL : 0;
  if (item->class_id == SCM_CLASS_slowdown && strcmp (item->beside, "collective") == 0)
    return SCM_CUBLASLT | SCM_NCCL;
  return scm_classes[item->class_id].libraries;
}

/* --- a line --- */

void
scm_sample_write (ScmText *text, const char *session, const char *gpu, const ScmItem *item, const ScmResult *result)
{
  scm_json_begin (text);
  scm_json_string (text, "class", scm_classes[item->class_id].name);
  scm_json_string (text, "session", session);
  scm_json_string (text, "gpu", gpu);
  scm_json_string (text, "key", item->key);
  switch (item->class_id)
    {
    case SCM_CLASS_gemm:
      scm_json_string (text, "dtype", item->dtype);
      scm_json_string (text, "layout", item->layout);
      scm_json_integer (text, "m", item->m);
      scm_json_integer (text, "n", item->n);
      scm_json_integer (text, "k", item->k);
      scm_json_integer (text, "batch", item->batch);
      scm_json_string (text, "out_dtype", item->out_dtype);
      scm_json_boolean (text, "accumulate", item->accumulate);
      break;
    case SCM_CLASS_grouped_gemm:
      scm_json_string (text, "dtype", item->dtype);
      scm_json_string (text, "layout", item->layout);
      scm_json_integers (text, "rows", item->rows, item->n_rows);
      scm_json_integer (text, "n", item->n);
      scm_json_integer (text, "k", item->k);
      scm_json_boolean (text, "accumulate", item->accumulate);
      scm_json_string (text, "how", "loop of cublasLtMatmul");
      break;
    case SCM_CLASS_attention:
      scm_json_string (text, "kind", item->op);
      scm_json_string (text, "impl", item->beside);
      scm_json_string (text, "dtype", item->dtype);
      scm_json_boolean (text, "causal", item->causal);
      scm_json_integer (text, "batch", item->batch);
      scm_json_integer (text, "seqlen", item->seqlen);
      scm_json_integer (text, "heads", item->heads);
      scm_json_integer (text, "kv_heads", item->kv_heads);
      scm_json_integer (text, "head_dim", item->head_dim);
      break;
    case SCM_CLASS_memory:
      scm_json_string (text, "op", item->op);
      scm_json_string (text, "dtype", item->dtype);
      scm_json_integers (text, "shape", item->shape, item->n_shape);
      scm_json_integer (text, "bytes", item->bytes);
      break;
    case SCM_CLASS_launch:
      scm_json_string (text, "op", item->op);
      break;
    case SCM_CLASS_copy:
      scm_json_string (text, "op", item->op);
      scm_json_integer (text, "bytes", item->bytes);
      if (strcmp (item->op, "p2p") == 0)
        {
          scm_json_integer (text, "src", item->src);
          scm_json_integer (text, "dst", item->dst);
        }
      break;
    case SCM_CLASS_collective:
      scm_json_string (text, "collective", item->op);
      scm_json_integer (text, "gpus", item->gpus);
      scm_json_integer (text, "bytes", item->bytes);
      scm_json_string (text, "dtype", item->dtype);
      break;
    case SCM_CLASS_slowdown:
      scm_json_string (text, "victim", item->op);
      scm_json_string (text, "beside", item->beside);
      if (item->gpus > 0)
        scm_json_integer (text, "gpus", item->gpus);
      scm_json_number (text, "amount", result->amount);
      scm_json_number (text, "alone_us", result->alone_us);
      scm_json_number (text, "factor", result->time_us / result->alone_us);
      break;
    case SCM_CLASS_power:
      scm_json_string (text, "op", item->op);
      scm_json_string (text, "dtype", item->dtype);
      scm_json_integer (text, "m", item->m);
      scm_json_integer (text, "n", item->n);
      scm_json_integer (text, "k", item->k);
      scm_json_number (text, "seconds", result->seconds);
      scm_json_number (text, "tflops", result->tflops);
      break;
    case SCM_N_CLASSES:
    default:
      break;
    }
  scm_json_number (text, "time_us", result->time_us);
  scm_json_number (text, "spread", result->spread);
  scm_json_integer (text, "repeats", result->repeats);
  scm_json_number (text, "clock_mhz", result->clock_mhz);
  scm_json_number (text, "power_w", result->power_w);
  scm_json_number (text, "temperature_c", result->temperature_c);
  scm_json_end (text);
}
