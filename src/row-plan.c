/* SPDX-License-Identifier: GPL-3.0-or-later */
/* row-plan.c - what a published row says in words becomes keys; machines become topologies. */
#include "row-plan.h"
#include <math.h>
#include <string.h>
#include "device-json.h"
#include "workload-json.h"

/* ---- Keys ---- */

static void
put (cJSON *object, const char *key, cJSON *taken)
{
  cJSON_DeleteItemFromObjectCaseSensitive (object, key);
  cJSON_AddItemToObject (object, key, taken);
}

static void
put_bool (cJSON *object, const char *key, gboolean value)
{
  put (object, key, cJSON_CreateBool (value));
}

static void
put_text (cJSON *object, const char *key, const char *value)
{
  put (object, key, cJSON_CreateString (value));
}

static gboolean
has_word (const char *text, const char *pattern)
{
  return text != NULL && g_regex_match_simple (pattern, text, G_REGEX_CASELESS, (GRegexMatchFlags) 0);
}

/* ---- "extra" ---- */

/* One key of it: changes the row's plan and model, or returns why not (yours). */
typedef char *(*ReadExtra) (const cJSON *value, cJSON *plan, cJSON *model);

static char *
read_profile (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  static const struct
  {
    const char *published, *key;
  } times[] = { { "T_F", "forward" }, { "T_B", "input" }, { "T_W", "weight" }, { "T_comm", "transfer" } };
  if (sc_row_at (plan, "profiled_ms") != NULL)
    return NULL;
  cJSON *const o = cJSON_CreateObject ();
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    if (sc_row_at (value, times[i].published) != NULL)
      cJSON_AddNumberToObject (o, times[i].key, sc_row_number_at (value, times[i].published, 0));
  put (plan, "profiled_ms", o);
  return NULL;
}

static char *
read_stage_layers (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  if (cJSON_IsArray (value))
    put (plan, "stage_layers", cJSON_Duplicate (value, TRUE));
  else if (cJSON_IsString (value) && has_word (value->valuestring, "first and last stage hold one layer (fewer|less)|embeddings take one slot each at both ends"))
    {
      put_bool (plan, "account_for_embedding", TRUE);
      put_bool (plan, "account_for_loss", TRUE);
    }
  else
    return g_strdup ("layers of stages are told in words that are not known");
  return NULL;
}

static char *
read_overlap (const cJSON *value, cJSON *plan, cJSON *model)
{
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  const char *const schedule = sc_row_text_at (plan, "schedule");
  if (has_word (text, "post-validation"))
    {
      if (schedule != NULL && g_str_has_prefix (schedule, "zb-"))
        put_bool (plan, "post_validation", TRUE);
      put_bool (model, "tied_embeddings", FALSE); /* the code that has it asserts it (sail-sg/zero-bubble-pipeline-parallelism): else the ends would wait for each other */
    }
  if (has_word (text, "\\bno p2p overlap"))
    put_bool (plan, "overlap_p2p", FALSE);
  else if (has_word (text, "p2p overlap") && sc_row_count_at (plan, "vpp", 1) > 1)
    put_bool (plan, "overlap_p2p", TRUE);
  return NULL;
}

/* Layers moved off the last stage until the longest one is as short as whole layers allow: what the head costs in layers is
 * 6 V / (72 h + 12 s) (arXiv 2411.05288, section 2).  The later stages take what is over: they hold fewer micro-batches, and the paper's
 * peaks, of its first stages, do not grow. */
static void
redistribute (const cJSON *row, cJSON *plan, const cJSON *model)
{
  const guint layers = sc_row_count_at (model, "layers", 1), n = sc_row_count_at (plan, "pp", 1) * sc_row_count_at (plan, "vpp", 1);
  const double h = sc_row_number_at (model, "hidden", 1), seq = sc_row_number_at (row, "seq", 1);
  const double head = 6 * sc_row_number_at (model, "vocab", 0) / (72 * h + 12 * seq);
  if (n < 2 || n > 1000 || layers > 1000)
    return;
  guint last = 0;
  double least = INFINITY;
  for (guint k = 0; k <= layers / n; k++)
    {
      const double longest = MAX ((layers - k + n - 2) / (n - 1), k + head);
      if (longest <= least)
        {
          least = longest;
          last = k;
        }
    }
  const guint others = layers - last;
  cJSON *const array = cJSON_CreateArray ();
  for (guint i = 0; i + 1 < n; i++)
    cJSON_AddItemToArray (array, cJSON_CreateNumber (others / (n - 1) + (i + others % (n - 1) >= n - 1)));
  cJSON_AddItemToArray (array, cJSON_CreateNumber (last));
  put (plan, "stage_layers", array);
}

/* Methods of sail-sg/VocabularyParallelism.  Its passes over the vocabulary multiply the softmax, cast to the type of gradients, with the weights
 * (megatron/core/tensor_parallel/vocab_output.py), so gradients are of 16 bits in all its runs; its tables are modules of their own, and not tied; its
 * scripts leave Megatron-LM's dropout as it is (megatron/training/arguments.py: 0.1). */
static char *
read_vocab_method (const cJSON *value, cJSON *plan, cJSON *model)
{
  static const struct
  {
    const char *words, *method;
  } methods[] = { { "algorithm 1", "vocab-1" }, { "algorithm 2", "vocab-2" }, { "interlaced", "interlaced" } };
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  const char *const dtype = sc_row_text_at (plan, "dtype");
  if (dtype != NULL && sc_row_at (plan, "grad_dtype") == NULL)
    put_text (plan, "grad_dtype", dtype);
  if (text != NULL && sc_row_at (model, "dropout") == NULL)
    put (model, "dropout", cJSON_CreateNumber (0.1));
  for (guint i = 0; i < G_N_ELEMENTS (methods); i++)
    if (has_word (text, methods[i].words))
      {
        put_text (plan, "vocab_parallel", methods[i].method);
        put_bool (model, "tied_embeddings", FALSE);
        return NULL;
      }
  if (has_word (text, "sit on the (last|first)"))
    return NULL;
  if (has_word (text, "layers redistributed"))
    {
      put_bool (plan, "redistributed", TRUE); /* with the rest of the row, behind all of extra */
      return NULL;
    }
  return g_strdup_printf ("%s is not modelled", text != NULL ? text : "its vocabulary layers");
}

static char *
read_recipe (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  static const struct
  {
    const char *words, *recipe;
  } recipes[] = { { "rowwise", "rowwise" },   { "tensorwise|float8 linear|current", "tensorwise" },
                  { "block|128", "blockwise" }, { "delayed|amp_fp8|hybrid|DEFAULT", "delayed" } };
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  if (g_strcmp0 (sc_row_text_at (plan, "dtype"), "fp8") != 0)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (recipes); i++)
    if (has_word (text, recipes[i].words))
      {
        put_text (plan, "fp8_recipe", recipes[i].recipe);
        break;
      }
  return NULL;
}

static char *
read_task (const cJSON *value, cJSON *plan G_GNUC_UNUSED, cJSON *model G_GNUC_UNUSED)
{
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  if (has_word (text, "lora|adapter|frozen"))
    return g_strdup_printf ("%s trains a part of the weights only, which is not modelled", text);
  if (has_word (text, "full fine-tuning|^\\+ (compile|activation checkpointing)"))
    return g_strdup ("weights and moments in 16 bits, without fp32 ones (full fine-tuning of that library), are not modelled");
  if (has_word (text, "optimizer in backward"))
    return g_strdup ("an optimizer that steps in backward is not modelled");
  if (has_word (text, "chunked cross entropy"))
    return g_strdup ("cross entropy in chunks is not modelled");
  return NULL;
}

static char *
read_in_backward (const cJSON *value, cJSON *plan G_GNUC_UNUSED, cJSON *model G_GNUC_UNUSED)
{
  return cJSON_IsTrue (value) ? g_strdup ("an optimizer that steps in backward is not modelled") : NULL;
}

static char *
read_dispatcher (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  if (has_word (cJSON_IsString (value) ? value->valuestring : NULL, "deepep|flex"))
    put_text (plan, "moe_dispatcher", "deepep");
  return NULL;
}

static char *
read_context_kind (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  if (sc_row_count_at (plan, "cp", 1) <= 1)
    return NULL;
  if (has_word (text, "ulysses|all-to-all"))
    put_text (plan, "cp_comm", "a2a");
  else if (has_word (text, "all-gather"))
    put_text (plan, "cp_comm", "all-gather");
  return NULL;
}

static char *
read_notes (const cJSON *value, cJSON *plan, cJSON *model)
{
  const char *const text = cJSON_IsString (value) ? value->valuestring : NULL;
  return has_word (text, "\\bCP uses") ? read_context_kind (value, plan, model) : NULL;
}

static char *
read_flags (const cJSON *value, cJSON *plan, cJSON *model G_GNUC_UNUSED)
{
  for (const cJSON *flag = cJSON_IsArray (value) ? value->child : NULL; flag != NULL; flag = flag->next)
    if (cJSON_IsString (flag) && strcmp (flag->valuestring, "tp-comm-overlap") == 0)
      put_bool (plan, "tp_overlap", TRUE);
  return NULL;
}

static char *
read_nothing (const cJSON *value G_GNUC_UNUSED, cJSON *plan G_GNUC_UNUSED, cJSON *model G_GNUC_UNUSED)
{
  return NULL;
}

static const struct
{
  const char *key;
  ReadExtra read;
} extras[] = {
  { "profiled_ms", read_profile },
  { "stage_layers", read_stage_layers },
  { "overlap_text", read_overlap },
  { "overlap_flags", read_flags },
  { "vocab_method", read_vocab_method },
  { "fp8_recipe", read_recipe },
  { "task", read_task },
  { "optimizer_in_backward", read_in_backward },
  { "moe_dispatcher", read_dispatcher },
  { "context_parallel_kind", read_context_kind },
  { "plan_notes", read_notes },
  /* read elsewhere, or for people */
  { "torch_compile", read_nothing },
  { "predicted_by", read_nothing },
  { "in_job_GBps", read_nothing },
  { "config_file", read_nothing },
  { "run_minutes", read_nothing },
  { "lora_rank", read_nothing },
  { "lora_targets", read_nothing },
  { "flags", read_nothing },
  { "grad_accum", read_nothing },
  { "fwd_s", read_nothing },
  { "bwd_s", read_nothing },
  { "update_s", read_nothing },
};

char *
sc_row_settle_extra (cJSON *row, GPtrArray *ignored)
{
  cJSON *const plan = cJSON_GetObjectItemCaseSensitive (row, "plan"), *const model = cJSON_GetObjectItemCaseSensitive (row, "model");
  if (!cJSON_IsObject (plan))
    return NULL;
  g_autoptr (cJSON) extra = cJSON_DetachItemFromObjectCaseSensitive (plan, "extra");
  g_autofree char *why = NULL;
  for (const cJSON *value = cJSON_IsObject (extra) ? extra->child : NULL; value != NULL; value = value->next)
    {
      guint i = 0;
      while (i < G_N_ELEMENTS (extras) && strcmp (extras[i].key, value->string) != 0)
        i++;
      if (i == G_N_ELEMENTS (extras))
        {
          if (ignored != NULL)
            g_ptr_array_add (ignored, g_strdup_printf ("plan.extra.%s", value->string));
          continue;
        }
      if (cJSON_IsNull (value) || !cJSON_IsObject (model))
        continue;
      g_autofree char *one = extras[i].read (value, plan, model);
      if (why == NULL)
        why = g_steal_pointer (&one);
    }
  if (sc_row_at (plan, "redistributed") != NULL)
    redistribute (row, plan, model);
  cJSON_DeleteItemFromObjectCaseSensitive (plan, "redistributed");
  return g_steal_pointer (&why);
}

/* ---- Software ---- */

/* A year that @pattern finds in @text as its first group; two digits are of this century. */
static guint
year_in (const char *pattern, const char *text)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_CASELESS, (GRegexMatchFlags) 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  if (text == NULL || !g_regex_match (regex, text, (GRegexMatchFlags) 0, &match))
    return 0;
  g_autofree char *digits = g_match_info_fetch (match, 1);
  const guint year = (guint) g_ascii_strtoull (digits, NULL, 10);
  return year < 100 ? 2000 + year : year;
}

guint
sc_row_year (const ScRow *row)
{
  const char *const patterns[] = { "\\bv?(20[12]\\d)\\b", "\\bv?(2\\d)\\.(?:0[1-9]|1[0-2])\\b", "_(20[12]\\d)(?:0[1-9]|1[0-2])_", "arXiv[: ](\\d\\d)(?:0[1-9]|1[0-2])\\.\\d" };
  const char *const texts[] = { row->version, row->ref, row->title };
  for (guint t = 0; t < G_N_ELEMENTS (texts); t++)
    for (guint p = 0; p < G_N_ELEMENTS (patterns); p++)
      {
        const guint year = year_in (patterns[p], texts[t]);
        if (year != 0)
          return year;
      }
  return 0;
}

/* Release of Transformer Engine that is named beside the framework's, 211 of "TransformerEngine 2.11"; 0: none is. */
static guint
engine_of (const char *version)
{
  g_autoptr (GRegex) regex = g_regex_new ("\\bTransformer ?Engine v?(\\d)\\.(\\d\\d?)\\b", G_REGEX_CASELESS, (GRegexMatchFlags) 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  if (version == NULL || !g_regex_match (regex, version, (GRegexMatchFlags) 0, &match))
    return 0;
  g_autofree char *major = g_match_info_fetch (match, 1), *minor = g_match_info_fetch (match, 2);
  return (guint) (100 * g_ascii_strtoull (major, NULL, 10) + g_ascii_strtoull (minor, NULL, 10));
}

static const ScRowFramework *
framework_of (const ScRow *row, const cJSON *plan, guint *ret_year)
{
  const cJSON *const compiled = sc_row_at (sc_row_at (plan, "extra"), "torch_compile");
  *ret_year = sc_row_year (row);
  const ScRowSoftware software = { .framework = row->framework, .year = *ret_year, .gpu = row->cluster.gpu, .engine = engine_of (row->version),
                                   .unfused = g_strcmp0 (sc_row_text_at (plan, "attention"), "unfused") == 0,
                                   .version = row->version,
                                   .notes = sc_row_text_at (row->json->root, "notes"),
                                   .compiled = cJSON_IsBool (compiled) ? cJSON_IsTrue (compiled) : -1 };
  const ScRowFramework *const found = row->framework != NULL ? sc_row_framework_find (&software) : NULL;
  if (found != NULL && *ret_year == 0)
    *ret_year = found->year;
  return found;
}

/* ---- The workload ---- */

/* What no default can stand for. */
static char *
missing (const ScRow *row, const cJSON *model, const cJSON *plan)
{
  static const char *const of_model[] = { "hidden", "layers", "heads", "vocab" };
  g_autoptr (GString) words = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (of_model); i++)
    if (sc_row_at (model, of_model[i]) == NULL)
      g_string_append_printf (words, "%smodel.%s", words->len > 0 ? ", " : "", of_model[i]);
  const struct
  {
    gboolean there;
    const char *word;
  } others[] = {
    { sc_row_at (row->json->root, "seq") != NULL, "seq" },
    { row->cluster.gpu != NULL, "cluster.gpu" },
    { row->cluster.gpus > 0 || sc_row_at (plan, "dp") != NULL, "cluster.gpus" },
    { sc_row_at (plan, "micro_batch") != NULL, "plan.micro_batch" },
    { row->framework != NULL, "software.framework" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (!others[i].there)
      g_string_append_printf (words, "%s%s", words->len > 0 ? ", " : "", others[i].word);
  return words->len > 0 ? g_strdup_printf ("missing: %s", words->str) : NULL;
}

/* Where both ends of a pipeline are on one rank, they are chunks with a table each; the code that has such schedules asserts that they are not tied
 * (sail-sg/zero-bubble-pipeline-parallelism megatron/training/arguments.py). */
static void
settle_ends (const ScRowFramework *framework, cJSON *model, const cJSON *plan, GPtrArray *notes)
{
  static const char *const folded[] = { "zb-v", "v-half", "v-min", NULL };
  const char *const schedule = sc_row_text_at (plan, "schedule");
  if (!g_str_has_prefix (framework->name, "megatron-") || schedule == NULL || !g_strv_contains (folded, schedule) || !cJSON_IsTrue (sc_row_at (model, "tied_embeddings")))
    return;
  put_bool (model, "tied_embeddings", FALSE);
  g_ptr_array_add (notes, g_strdup ("model.tied_embeddings = false"));
}

static void
settle_model (const ScRowFramework *framework, cJSON *model, const cJSON *plan, GPtrArray *notes)
{
  settle_ends (framework, model, plan, notes);
  static const char *const for_people[] = { "params_b", "extra", "family" };
  for (guint i = 0; i < G_N_ELEMENTS (for_people); i++)
    cJSON_DeleteItemFromObjectCaseSensitive (model, for_people[i]);
  /* Megatron pads to 128 x tp (--make-vocab-size-divisible-by), nanotron to tp */
  const guint tp = sc_row_count_at (plan, "tp", 1), vocab = sc_row_count_at (model, "vocab", 0);
  const guint unit = strcmp (framework->name, "nanotron") == 0 ? tp : 128 * tp;
  if (tp <= 1024 && vocab > 0 && vocab <= 1000000000 && vocab % tp != 0)
    {
      const guint64 padded = ((guint64) vocab + unit - 1) / unit * unit;
      put (model, "vocab", cJSON_CreateNumber ((double) padded));
      g_ptr_array_add (notes, g_strdup_printf ("model.vocab = %" G_GUINT64_FORMAT, padded));
    }
}

/* Words that other frameworks have for the modules of stepcast list modules. */
static void
settle_recompute (cJSON *plan, const cJSON *model)
{
  const char *const text = sc_row_text_at (plan, "recompute");
  if (text == NULL || !g_str_has_prefix (text, "modules:"))
    return;
  const gboolean moe = sc_row_count_at (model, "experts", 0) > 0;
  g_auto (GStrv) each = g_strsplit (text + strlen ("modules:"), ",", -1);
  for (char **word = each; *word != NULL; word++)
    {
      const char *const w = g_strstrip (*word);
      const char *const name = strcmp (w, "norm") == 0                             ? "layernorm"
                               : strcmp (w, "act") == 0 || strcmp (w, "gelu") == 0 ? moe ? "moe_act" : "mlp_act"
                                                                                   : w;
      char *const copy = g_strdup (name);
      g_free (*word);
      *word = copy;
    }
  g_autofree char *joined = g_strjoinv (",", each);
  g_autofree char *settled = g_strdup_printf ("modules:%s", joined);
  put_text (plan, "recompute", settled);
}

static void
settle_plan (const ScRow *row, const ScRowFramework *framework, cJSON *plan, GPtrArray *notes)
{
  const guint micro_batch = sc_row_count_at (plan, "micro_batch", 1), dp = sc_row_count_at (plan, "dp", 0);
  /* asynchronous products of nanotron are part of its description; chunks are Transformer Engine's */
  if (strcmp (framework->name, "nanotron") == 0 || !cJSON_IsTrue (sc_row_at (plan, "sequence_parallel")))
    cJSON_DeleteItemFromObjectCaseSensitive (plan, "tp_overlap");
  if (sc_row_at (plan, "dp") == NULL)
    put (plan, "gpus", cJSON_CreateNumber (row->cluster.gpus));
  if (sc_row_at (plan, "global_batch") == NULL && dp > 0)
    {
      put (plan, "global_batch", cJSON_CreateNumber ((double) micro_batch * dp));
      g_ptr_array_add (notes, g_strdup_printf ("plan.global_batch = %.0f", (double) micro_batch * dp));
    }
  if (sc_row_count_at (plan, "tp", 1) == 1)
    cJSON_DeleteItemFromObjectCaseSensitive (plan, "sequence_parallel");
  if (sc_row_count_at (plan, "pp", 1) == 1 && g_strcmp0 (sc_row_text_at (plan, "schedule"), "none") != 0)
    put_text (plan, "schedule", "none");
  /* a copy of the optimizer's states in each group, gathered and reduced inside, summed between */
  if (sc_row_at (plan, "shard_group") != NULL && g_strcmp0 (sc_row_text_at (plan, "sharding"), "zero1") == 0)
    put_text (plan, "sharding", "distributed-optimizer");
  cJSON_DeleteItemFromObjectCaseSensitive (plan, "profiled_ms"); /* forecasts are ours */
  if (g_strcmp0 (sc_row_text_at (plan, "offload"), "optimizer+params") == 0)
    put_text (plan, "offload", "both");
  /* 16 bits, which tables call half precision, are the weights' own */
  if (g_strcmp0 (sc_row_text_at (plan, "grad_dtype"), "fp16") == 0 && g_strcmp0 (sc_row_text_at (plan, "dtype"), "bf16") == 0)
    {
      put_text (plan, "grad_dtype", "bf16");
      g_ptr_array_add (notes, g_strdup ("plan.grad_dtype = \"bf16\""));
    }
}

/* nanotron deals out blocks by their cost, that of a layer and of the head in parameters of their products (get_block_compute_costs()): a stage is full with the
 * block that takes the sum of all so far to its part of the whole (build_model()).  It keeps all blocks behind its layers
 * together here, on the last stage: there are stages without layers, which only a layout string has. */
static void
settle_nanotron_stages (cJSON *plan, const cJSON *model, guint stages, GPtrArray *notes)
{
  const guint layers = sc_row_count_at (model, "layers", 0);
  const double h = sc_row_number_at (model, "hidden", 0);
  const double layer = (4 * h + 3 * sc_row_number_at (model, "ffn", 0)) * h, head = sc_row_number_at (model, "vocab", 0) * h;
  if (layers > 1000 || sc_row_at (plan, "stage_layers") != NULL || sc_row_at (plan, "pipeline_layout") != NULL)
    return;
  g_autoptr (GString) layout = g_string_new ("E");
  guint stage = 0;
  for (guint i = 1; i <= layers; i++)
    {
      g_string_append_c (layout, 't');
      if (stage + 1 < stages && i * layer >= (layers * layer + head) * (stage + 1) / stages)
        {
          g_string_append_c (layout, '|');
          stage++;
        }
    }
  while (++stage < stages)
    g_string_append_c (layout, '|');
  g_string_append_c (layout, 'L');
  put_text (plan, "pipeline_layout", layout->str);
  g_ptr_array_add (notes, g_strdup ("plan.pipeline_layout: stages of about equal cost"));
}

/* Megatron's core asks for as many layers in each stage; where they are short of that by one or two, the embedding or the head
 * stands for them (account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split). */
static void
settle_stages (const ScRowFramework *framework, cJSON *plan, const cJSON *model, GPtrArray *notes)
{
  const guint64 stages = (guint64) sc_row_count_at (plan, "pp", 1) * sc_row_count_at (plan, "vpp", 1);
  const guint layers = sc_row_count_at (model, "layers", 0);
  if (strcmp (framework->framework, "nanotron") == 0 && stages > 1 && sc_row_count_at (plan, "vpp", 1) == 1)
    settle_nanotron_stages (plan, model, (guint) stages, notes);
  if (strcmp (framework->name, "megatron-core") != 0 || stages == 1 || layers % stages == 0 || sc_row_at (plan, "stage_layers") != NULL
      || sc_row_at (plan, "account_for_loss") != NULL || sc_row_at (plan, "account_for_embedding") != NULL)
    return;
  const guint lacking = (guint) (stages - layers % stages);
  if (lacking > 2)
    return;
  put_bool (plan, "account_for_loss", TRUE);
  g_ptr_array_add (notes, g_strdup ("plan.account_for_loss = true"));
  if (lacking < 2)
    return;
  put_bool (plan, "account_for_embedding", TRUE);
  g_ptr_array_add (notes, g_strdup ("plan.account_for_embedding = true"));
}

static ScWorkload *
workload_of (const ScRow *row, ScRowRun *run, guint *ret_year, char **ret_why)
{
  static const char *const kept[] = { "model", "seq", "plan", NULL };
  g_autoptr (ScJson) json = g_new0 (ScJson, 1);
  json->file = g_strdup (row->id);
  json->overrides = g_ptr_array_new ();
  json->root = cJSON_CreateObject ();
  cJSON_AddStringToObject (json->root, "name", "run");
  for (guint i = 0; kept[i] != NULL; i++)
    if (sc_row_at (row->json->root, kept[i]) != NULL)
      cJSON_AddItemToObject (json->root, kept[i], cJSON_Duplicate (sc_row_at (row->json->root, kept[i]), TRUE));
  cJSON *const model = cJSON_GetObjectItemCaseSensitive (json->root, "model"), *const plan = cJSON_GetObjectItemCaseSensitive (json->root, "plan");
  if ((*ret_why = missing (row, model, plan)) != NULL)
    return NULL;
  run->framework = framework_of (row, plan, ret_year);
  if (run->framework == NULL)
    {
      *ret_why = g_strdup_printf ("no framework stands for \"%s\"", row->framework);
      return NULL;
    }
  if ((*ret_why = sc_row_settle_extra (json->root, run->ignored)) != NULL)
    return NULL;
  settle_recompute (plan, model);
  settle_plan (row, run->framework, plan, run->notes);
  settle_stages (run->framework, plan, model, run->notes);
  sc_row_defaults_add (run->framework, row->cluster.fabric, model, plan, run->notes);
  settle_model (run->framework, model, plan, run->notes);
  cJSON *const software = cJSON_AddObjectToObject (json->root, "software");
  cJSON_AddStringToObject (software, "framework", run->framework->name);
  cJSON_AddStringToObject (software, "version", run->framework->version);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) workload = sc_workload_from_json (json, &error);
  if (workload == NULL)
    {
      const gsize named = strlen (row->id) + 2; /* "ID: " */
      *ret_why = g_strdup (g_str_has_prefix (error->message, row->id) && strlen (error->message) > named ? error->message + named : error->message);
      return NULL;
    }
  if (row->cluster.gpus > 0 && row->cluster.gpus != workload->plan.gpus)
    {
      *ret_why = g_strdup_printf ("the plan has %u GPUs, the cluster %u", workload->plan.gpus, row->cluster.gpus);
      return NULL;
    }
  return g_steal_pointer (&workload);
}

/* ---- The machines ---- */

struct _ScRowSystems
{
  const ScSystems *rules;
  GMutex lock;
  GHashTable *found; /* char * -> Found */
};

typedef struct
{
  ScSystem system; /* topology NULL: ... */
  char    *why;    /* ... why not */
} Found;

static void
found_free (gpointer data)
{
  Found *const found = data;
  sc_system_clear (&found->system);
  g_free (found->why);
  g_free (found);
}

ScRowSystems *
sc_row_systems_new (const ScSystems *rules)
{
  ScRowSystems *const systems = g_new0 (ScRowSystems, 1);
  systems->rules = rules;
  g_mutex_init (&systems->lock);
  systems->found = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, found_free);
  return systems;
}

void
sc_row_systems_free (ScRowSystems *systems)
{
  if (systems == NULL)
    return;
  g_mutex_clear (&systems->lock);
  g_hash_table_unref (systems->found);
  g_free (systems);
}

/* The words that validation/systems.json knows. */
static char *
fabric_words (const ScRowCluster *c)
{
  static const struct
  {
    const char *fabric, *words;
  } fabrics[] = { { "ib", "InfiniBand" }, { "roce", "RoCE" }, { "efa", "EFA" }, { "opa", "Omni-Path" }, { "gpudirect-tcpx", "TCPX" } };
  g_autoptr (GString) words = g_string_new (NULL);
  if (c->intra == SC_INTRA_NVSWITCH)
    g_string_append (words, "NVSwitch; ");
  else if (c->intra == SC_INTRA_NVLINK_MESH)
    g_string_append (words, c->gpus_per_node == 4 ? "4-GPU node, NVLink mesh; " : "NVLink mesh; ");
  else if (c->intra == SC_INTRA_PCIE)
    g_string_append (words, "PCIe; ");
  else if (c->intra == SC_INTRA_NVL72)
    g_string_append (words, "NVL72; ");
  const char *name = c->fabric != NULL ? c->fabric : "";
  for (guint i = 0; i < G_N_ELEMENTS (fabrics); i++)
    if (strcmp (fabrics[i].fabric, name) == 0)
      name = fabrics[i].words;
  g_string_append (words, *name != '\0' ? name : "network");
  if (c->nic_gbit_per_s > 0)
    g_string_append_printf (words, " %.6g Gb/s per GPU", c->nic_gbit_per_s);
  return g_string_free (g_steal_pointer (&words), FALSE);
}

static const Found *
find_system (ScRowSystems *systems, const ScRow *row, guint gpus, guint year)
{
  const ScRowCluster *const c = &row->cluster;
  const guint per_node = c->gpus_per_node > 0 ? c->gpus_per_node : MIN (gpus, 8), nodes = (gpus + per_node - 1) / per_node;
  g_autofree char *fabric = fabric_words (c);
  const char *const nccl = sc_row_nccl_of (year);
  char *const key = g_strdup_printf ("%s|%u|%u|%s|%s", c->gpu, per_node, nodes, fabric, nccl != NULL ? nccl : "");
  g_mutex_lock (&systems->lock);
  Found *found = g_hash_table_lookup (systems->found, key);
  if (found == NULL)
    {
      found = g_new0 (Found, 1);
      g_autoptr (ScDevice) device = sc_device_find (c->gpu, NULL);
      const gboolean later = device != NULL && g_strcmp0 (device->family, "blackwell") == 0; /* than any release that years before 2025 stand for */
      const ScSystemWords words = { .gpu = c->gpu, .fabric = fabric, .nodes = nodes, .gpus_per_node = per_node, .nccl = later ? NULL : nccl, .device = c->gpu, .whole_nodes = TRUE };
      g_autoptr (GError) error = NULL;
      if (!sc_systems_find (systems->rules, &words, &found->system, &error))
        found->why = g_strdup (error->message);
      g_hash_table_insert (systems->found, g_strdup (key), found);
    }
  g_mutex_unlock (&systems->lock);
  g_free (key);
  return found;
}

/* ---- Both ---- */

void
sc_row_run_free (ScRowRun *run)
{
  if (run == NULL)
    return;
  sc_workload_free (run->workload);
  g_ptr_array_unref (run->notes);
  g_ptr_array_unref (run->ignored);
  g_free (run);
}

ScRowRun *
sc_row_run_new (ScRowSystems *systems, const ScRow *row, char **ret_why)
{
  g_autoptr (ScRowRun) run = g_new0 (ScRowRun, 1);
  run->notes = g_ptr_array_new_with_free_func (g_free);
  run->ignored = g_ptr_array_new_with_free_func (g_free);
  guint year = 0;
  run->workload = workload_of (row, run, &year, ret_why);
  if (run->workload == NULL)
    return NULL;
  const Found *const found = find_system (systems, row, run->workload->plan.gpus, year);
  if (found->system.topology == NULL)
    {
      *ret_why = g_strdup (found->why);
      return NULL;
    }
  run->topology = found->system.topology;
  run->topology_name = found->system.topology_name;
  return g_steal_pointer (&run);
}
