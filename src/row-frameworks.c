/* SPDX-License-Identifier: GPL-3.0-or-later */
/* row-frameworks.c - software of published runs, rule by rule. */
#include "row-frameworks.h"
#include "rows-json.h"
#include <string.h>

#define ANY -1
#define UNFUSED .unfused = 1, .compiled = ANY
#define WHATEVER .unfused = ANY, .compiled = ANY

static const ScRowFramework frameworks[] = {
  { "megatron-lm", .engine_since = 210, WHATEVER, .name = "megatron-core", .version = "2026", .year = 2026, .why = "Transformer Engine 2.10 or later" },
  { "megatron-core", .engine_since = 210, WHATEVER, .name = "megatron-core", .version = "2026", .year = 2026, .why = "the same" },
  { "megatron-lm", .until = 2021, UNFUSED, .name = "megatron-lm", .version = "2021", .year = 2021, .why = "the code of 2019 to 2021" },
  { "megatron-lm", .since = 2022, UNFUSED, .name = "megatron-lm", .version = "2022", .year = 2022,
    .why = "layers with unfused attention did not change behind 2022" },
  { "megatron-lm", UNFUSED, .name = "megatron-lm", .version = "2021", .year = 2021, .why = "unfused attention, without a date" },
  { "megatron-lm", WHATEVER, .name = "megatron-core", .version = "core", .year = 2024, .why = "flash attention came with the core" },
  { "megatron-core", WHATEVER, .name = "megatron-core", .version = "core", .year = 2025, .why = "" },
  { "nemo", WHATEVER, .name = "megatron-core", .version = "core", .year = 2024, .why = "NeMo's layers are the core's" },
  { "megatron-bridge", WHATEVER, .name = "megatron-core", .version = "core", .year = 2025, .why = "its layers are the core's" },
  { "megatron-deepspeed", .until = 2021, WHATEVER, .name = "megatron-deepspeed", .version = "2021", .year = 2021, .why = "DeepSpeed before 0.5" },
  { "megatron-deepspeed", .gpu = "v100-", WHATEVER, .name = "megatron-deepspeed", .version = "2021", .year = 2021,
    .why = "V100, without a date: DeepSpeed before 0.5 (August 2021), when such clusters were being replaced" },
  { "megatron-deepspeed", WHATEVER, .name = "megatron-deepspeed", .version = "2022", .year = 2022, .why = "" },
  { "deepspeed", .until = 2021, UNFUSED, .name = "megatron-deepspeed", .version = "2021", .year = 2021,
    .why = "DeepSpeed's examples of then train Megatron's layers" },
  { "deepspeed", .gpu = "v100-", UNFUSED, .name = "megatron-deepspeed", .version = "2021", .year = 2021, .why = "the same" },
  { "deepspeed", UNFUSED, .name = "megatron-deepspeed", .version = "2022", .year = 2021, .why = "DeepSpeed's examples of then train Megatron's layers" },
  { "deepspeed", WHATEVER, .name = "deepspeed", .version = "2023", .year = 2023, .why = "" },
  { "nanotron", WHATEVER, .release = "v0.5", .name = "nanotron", .version = "2025", .year = 2025, .logs_first = TRUE, .allocated_late = TRUE, .retries_fail = TRUE, .last_step = TRUE,
    .why = "attention of one tensor of queries, keys and values" },
  { "nanotron", WHATEVER, .notes = "before a pipeline-parallel fix of nanotron", .name = "nanotron", .version = "2024-early", .year = 2024, .logs_first = TRUE, .allocated_late = TRUE, .retries_fail = TRUE, .last_step = TRUE,
    .why = "pipelines whose hosts never were ahead of their GPUs" },
  { "nanotron", WHATEVER, .name = "nanotron", .version = "2024", .year = 2024, .logs_first = TRUE, .allocated_late = TRUE, .retries_fail = TRUE, .last_step = TRUE,
    .why = "src/nanotron/helpers.py: rank 0 writes (log_throughput()); src/nanotron/trainer.py: log_memory() resets the peaks behind the last backward" },
  { "torchtitan", .since = 2025, .unfused = ANY, .compiled = 1, .name = "torchtitan", .version = "compiled-2025", .year = 2025, .why = "the loss is compiled as well" },
  { "torchtitan", .unfused = ANY, .compiled = 1, .name = "torchtitan", .version = "compiled", .year = 2024, .why = "" },
  { "torchtitan", WHATEVER, .name = "torchtitan", .version = "eager", .year = 2024, .why = "torch.compile is off unless the run says so" },
  { "llm-foundry", WHATEVER, .name = "llm-foundry", .version = "v0.0.4", .year = 2023, .why = "" },
  { "fsdp1", WHATEVER, .name = "fsdp1", .version = "eager", .year = 2024, .why = "" },
  { "fsdp", WHATEVER, .name = "fsdp1", .version = "eager", .year = 2023, .why = "" },
  { "fsdp2", WHATEVER, .name = "pytorch", .version = "eager", .year = 2024, .why = "" },
  { "pytorch", WHATEVER, .name = "pytorch", .version = "eager", .year = 2024, .why = "" },
  { "torchtune", .unfused = ANY, .compiled = 1, .name = "torchtitan", .version = "compiled", .year = 2024,
    .why = "the nearest: blocks compiled one by one, as torchtitan does" },
  { "torchtune", WHATEVER, .name = "pytorch", .version = "eager", .year = 2024, .why = "the nearest: PyTorch modules, an operation each" },
  { "litgpt", WHATEVER, .name = "pytorch", .version = "eager", .year = 2023, .why = "the nearest: PyTorch modules, an operation each" },
  { "xtuner", WHATEVER, .name = "deepspeed", .version = "2023", .year = 2024, .why = "transformers' modules under DeepSpeed" },
  { "internevo", WHATEVER, .name = "nanotron", .version = "2024", .year = 2023,
    .why = "the nearest: RMSNorm and rotary as kernels, SwiGLU in two, FlashAttention's loss, gradients added by themselves (internlm/model)" },
  { "llm.c", WHATEVER, .name = "megatron-core", .version = "core", .year = 2024, .why = "the nearest: everything fused" },
  { "nanogpt", WHATEVER, .name = "pytorch", .version = "eager", .year = 2023, .why = "the nearest" },
  { "gpt-neox", WHATEVER, .name = "megatron-deepspeed", .version = "2022", .year = 2022, .why = "Megatron's layers under DeepSpeed" },
  { "metaseq", WHATEVER, .name = "megatron-lm", .version = "2022", .year = 2022, .why = "the nearest: Megatron's layers" },
  { "colossalai", WHATEVER, .name = "deepspeed", .version = "2023", .year = 2023, .why = "the nearest: PyTorch modules and ZeRO" },
  { "picotron", WHATEVER, .name = "nanotron", .version = "2024", .year = 2024, .why = "the nearest: nanotron's smaller sister" },
  { "megatron-llama", WHATEVER, .name = "megatron-core", .version = "core", .year = 2023, .why = "the nearest: a branch of Megatron-LM" },
};

const ScRowFramework *
sc_row_framework_all (guint *ret_n)
{
  *ret_n = G_N_ELEMENTS (frameworks);
  return frameworks;
}

static gboolean
fits (const ScRowFramework *rule, const ScRowSoftware *software)
{
  const gboolean dated = rule->since > 0 || rule->until > 0;
  return g_ascii_strcasecmp (rule->framework, software->framework) == 0 && (rule->gpu == NULL || (software->gpu != NULL && g_str_has_prefix (software->gpu, rule->gpu)))
         && software->engine >= rule->engine_since && (rule->release == NULL || (software->version != NULL && g_str_has_prefix (software->version, rule->release)))
         && (rule->notes == NULL || (software->notes != NULL && strstr (software->notes, rule->notes) != NULL))
         && (!dated || (software->year > 0 && software->year >= rule->since && (rule->until == 0 || software->year <= rule->until)))
         && (rule->unfused == ANY || rule->unfused == software->unfused) && (rule->compiled == ANY || rule->compiled == software->compiled);
}

const ScRowFramework *
sc_row_framework_find (const ScRowSoftware *software)
{
  for (guint i = 0; i < G_N_ELEMENTS (frameworks); i++)
    if (fits (&frameworks[i], software))
      return &frameworks[i];
  return NULL;
}

/* Releases of NCCL by year: 2.5 of 2019, 2.8 of 2020/21, 2.14 of 2022, 2.18 and 2.19 of 2023, 2.23 of 2024, 2.25 to 2.29 of 2025. */
const char *
sc_row_nccl_of (guint year)
{
  static const struct
  {
    guint until;
    const char *version;
  } years[] = { { 2020, "2.5" }, { 2021, "2.8" }, { 2022, "2.14" }, { 2023, "2.18" }, { 2024, "2.23" } };
  for (guint i = 0; i < G_N_ELEMENTS (years); i++)
    if (year > 0 && year <= years[i].until)
      return years[i].version;
  return NULL; /* by the GPU */
}

/* ---- Defaults ---- */

enum
{
  WITH_TP = 1 << 0,
  WITH_PP = 1 << 1,
  WITH_CHUNKS = 1 << 2,
  WITH_SP = 1 << 3,
  WITHOUT_SP = 1 << 4,
  WITH_OWNERS = 1 << 5, /* an optimizer that is shared out */
  WITH_GPT = 1 << 6,    /* family gpt or bloom */
  WITHOUT_GPT = 1 << 7,
  WITH_BF16 = 1 << 8,   /* or narrower */
  WITH_UNFUSED = 1 << 9,
  WITH_ZERO1 = 1 << 10,
  WITH_OPA = 1 << 11,
};

static const struct
{
  const char *framework, *version; /* of ours; NULL: any */
  guint       when;
  gboolean    model;  /* else of the plan */
  const char *key, *value;
  const char *why;
} defaults[] = {
  /* architecture */
  { NULL, NULL, WITH_GPT, TRUE, "norm", "\"layernorm\"", "GPT-2's" },
  { NULL, NULL, WITHOUT_GPT, TRUE, "norm", "\"rmsnorm\"", "Llama's and those behind it" },
  { NULL, NULL, WITH_GPT, TRUE, "positions", "\"learned\"", "GPT-2's" },
  { NULL, NULL, WITHOUT_GPT, TRUE, "positions", "\"rope\"", "Llama's and those behind it" },
  { NULL, NULL, WITH_GPT, TRUE, "linear_bias", "true", "GPT-2's" },
  { "megatron-lm", NULL, WITH_GPT | WITH_UNFUSED, TRUE, "dropout", "0.1", "Megatron-LM megatron/arguments.py: hidden_dropout, attention_dropout" },
  { "megatron-deepspeed", NULL, WITH_GPT | WITH_UNFUSED, TRUE, "dropout", "0.1", "the same arguments" },
  /* Megatron */
  { "megatron-lm", "2021", WITH_TP | WITH_PP | WITHOUT_SP, FALSE, "scatter_gather", "true", "arXiv 2104.04473, section 4.1" },
  { "megatron-lm", "2022", WITH_TP | WITH_PP | WITHOUT_SP, FALSE, "scatter_gather", "true", "arXiv 2104.04473, section 4.1; on by default" },
  { "megatron-deepspeed", NULL, WITH_TP | WITH_PP | WITHOUT_SP, FALSE, "scatter_gather", "true",
    "deepspeed/runtime/pipe/engine.py: is_pipe_partitioned and is_grad_partitioned with model parallelism" },
  { "megatron-lm", "2022", WITH_TP, FALSE, "one_queue", "true", "arXiv 2205.05198's code asks for CUDA_DEVICE_MAX_CONNECTIONS=1" },
  { "megatron-core", NULL, WITH_TP, FALSE, "one_queue", "true", "the core asks for CUDA_DEVICE_MAX_CONNECTIONS=1" },
  { "nanotron", NULL, 0, FALSE, "one_queue", "true", "nanotron README: CUDA_DEVICE_MAX_CONNECTIONS=1" },
  { "megatron-deepspeed", "2022", WITH_OPA, FALSE, "launch_blocking", "true",
    "NCCL hung over Omni-Path without CUDA_LAUNCH_BLOCKING=1 (github:bigscience-workshop/bigscience train/tr11-176B-ml/chronicles-prequel.md, tr11-176B-ml.slurm)" },
  { "megatron-lm", "2022", 0, FALSE, "grad_dtype", "\"fp32\"", "arXiv 2205.05198 counts 18 bytes per parameter" },
  { "megatron-core", NULL, WITH_CHUNKS, FALSE, "overlap_p2p", "true", "on unless --no-overlap-p2p-communication" },
  { "megatron-core", NULL, WITH_OWNERS, FALSE, "overlap_grad", "true", "as recipes that are measured have it" },
  { "megatron-core", NULL, WITH_OWNERS, FALSE, "overlap_param", "true", "as recipes that are measured have it" },
  { "torchtitan", NULL, 0, FALSE, "expandable_segments", "true", "run_llama_train.sh, run_train.sh: PYTORCH_CUDA_ALLOC_CONF" },
  /* nanotron: with ZeRO there is no DistributedDataParallel, and fp32 gradients are summed whole behind the last backward */
  { "nanotron", NULL, WITH_ZERO1, FALSE, "overlap_grad", "false", "src/nanotron/trainer.py: make_ddp, sync_gradients_across_dp" },
  { "nanotron", NULL, WITH_ZERO1, FALSE, "zero", "{\"all_reduce\": true}", "src/nanotron/trainer.py: sync_gradients_across_dp (reduce_scatter=False)" },
  { "nanotron", NULL, 0, FALSE, "overlap_grad", "true", "src/nanotron/optim/gradient_accumulator.py: a hook of DistributedDataParallel" },
};

static gboolean
says (const cJSON *object, const char *key)
{
  return sc_row_at (object, key) != NULL;
}

static guint
conditions (const char *fabric, const cJSON *model, const cJSON *plan)
{
  const char *const family = sc_row_text_at (model, "family"), *const sharding = sc_row_text_at (plan, "sharding"), *const dtype = sc_row_text_at (plan, "dtype");
  const gboolean gpt = g_strcmp0 (family, "gpt") == 0 || g_strcmp0 (family, "bloom") == 0;
  const gboolean sp = cJSON_IsTrue (sc_row_at (plan, "sequence_parallel"));
  guint c = gpt ? WITH_GPT : WITHOUT_GPT;
  c |= sp ? WITH_SP : WITHOUT_SP;
  if (sc_row_count_at (plan, "tp", 1) > 1)
    c |= WITH_TP;
  if (sc_row_count_at (plan, "pp", 1) > 1)
    c |= WITH_PP;
  if (sc_row_count_at (plan, "pp", 1) > 1 && sc_row_count_at (plan, "vpp", 1) > 1)
    c |= WITH_CHUNKS;
  if (g_strcmp0 (sharding, "distributed-optimizer") == 0)
    c |= WITH_OWNERS;
  if (g_strcmp0 (sharding, "zero1") == 0)
    c |= WITH_ZERO1;
  if (g_strcmp0 (dtype, "fp16") != 0)
    c |= WITH_BF16;
  if (g_strcmp0 (sc_row_text_at (plan, "attention"), "unfused") == 0)
    c |= WITH_UNFUSED;
  if (g_strcmp0 (fabric, "opa") == 0)
    c |= WITH_OPA;
  return c;
}

void
sc_row_defaults_add (const ScRowFramework *framework, const char *fabric, cJSON *model, cJSON *plan, GPtrArray *notes)
{
  const guint held = conditions (fabric, model, plan);
  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    {
      cJSON *const object = defaults[i].model ? model : plan;
      if ((defaults[i].framework != NULL && strcmp (defaults[i].framework, framework->name) != 0)
          || (defaults[i].version != NULL && strcmp (defaults[i].version, framework->version) != 0) || (defaults[i].when & ~held) != 0
          || says (object, defaults[i].key))
        continue;
      cJSON_DeleteItemFromObjectCaseSensitive (object, defaults[i].key);
      cJSON_AddItemToObject (object, defaults[i].key, cJSON_Parse (defaults[i].value));
      g_ptr_array_add (notes, g_strdup_printf ("%s.%s = %s", defaults[i].model ? "model" : "plan", defaults[i].key, defaults[i].value));
    }
}
