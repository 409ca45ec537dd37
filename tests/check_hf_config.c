/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_hf_config.c - config.json of published models: each type's count, where numbers are from, what is refused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "hf-config.h"
#include "library.h"
#include "models/model.h"
#include "override.h"
#include "show-model.h"
#include "workload-json.h"

/* @text with ' for ". */
static ScJson *
parse (const char *file, const char *text)
{
  g_autofree char *quoted = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  ScJson *json = sc_json_parse (file, quoted, strlen (quoted), &error);
  ck_assert_msg (json != NULL, "%s", error != NULL ? error->message : "");
  return json;
}

/* A workload around the model of @config, "model" beside it as @more says ("'layers': 4"). */
static ScWorkload *
workload_of (const char *config, const char *more, const char *set, GError **error)
{
  g_autofree char *text = g_strdup_printf ("{'name': 'w', 'model': {'hf_config': '%s'%s}, 'seq': 16,"
                                           " 'plan': {'tp': 1, 'dp': 1, 'micro_batch': 1, 'global_batch': 1}}",
                                           config, more);
  g_autoptr (ScJson) json = parse ("w.json", text);
  g_auto (GStrv) all = g_strsplit (set, " ", -1);
  return sc_override_apply (json, SC_OVERRIDE_WORKLOAD, all, error) ? sc_workload_from_json (json, error) : NULL;
}

static char *
fixture (const char *name)
{
  return g_strdup_printf ("%s/tests/data/hf/%s.json", g_getenv ("abs_srcdir"), name);
}

/* ---- Counts by hand ---- */

/* Most have hidden 64, 3 layers, 4 heads of 16 or 32 on 2 key heads, ffn 96 and vocabulary 100. */
#define ATT 12288  /* 64 x (4 + 2 x 2) x 16 + 4 x 16 x 64 */
#define WIDE 24576 /* the same with heads of 32 */
#define FULL 16384 /* 4 x 64 x 64: a key head for each */
#define MLP 18432  /* 3 x 64 x 96 */
#define BIAS 128   /* (4 + 2 x 2) x 16 */
#define EXPERT 6144 /* 3 x 64 x 32 */
#define NORMS 128  /* 2 x 64 */
#define SHIFTED 256 /* two norms with a shift */
#define TABLE 6400 /* 100 x 64 */
#define ENDS 12864 /* two tables and a norm */
/* 64 x 4 x 24, down 64 x (32 + 8), norm 32, up 32 x 4 x 32, projection 4 x 16 x 64 */
#define LATENT (6144 + 2560 + 32 + 4096 + 4096)
/* queries through a waist of 48 instead: 64 x 48, norm 48, 48 x 4 x 24 */
#define LATENT_Q (LATENT - 6144 + 3072 + 48 + 4608)
/* 48 x 2 x 16, 64 x 16, 64 x 2, a norm with a shift */
#define INDEXER (1536 + 1024 + 128 + 32)

static const struct
{
  const char *name;
  guint64 total, active; /* active 0: the total */
} fixtures[] = {
  { "llama", 3 * (ATT + MLP + NORMS) + ENDS, 0 },
  { "mistral", 3 * (WIDE + MLP + NORMS) + ENDS, 0 },
  { "mixtral", 3 * (ATT + 4 * MLP + 4 * 64 + NORMS) + ENDS, 3 * (ATT + 2 * MLP + 4 * 64 + NORMS) + ENDS },
  { "qwen2", 3 * (ATT + BIAS + MLP + NORMS) + TABLE + 64, 0 },
  { "qwen2_moe", 2 * (ATT + BIAS + MLP + NORMS) + ATT + BIAS + (4 + 2) * EXPERT + 64 + 4 * 64 + NORMS + ENDS,
    2 * (ATT + BIAS + MLP + NORMS) + ATT + BIAS + (2 + 2) * EXPERT + 64 + 4 * 64 + NORMS + ENDS },
  { "qwen3", 3 * (WIDE + 64 + MLP + NORMS) + ENDS, 0 },
  { "qwen3_moe", 3 * (WIDE + 64 + NORMS) + MLP + 2 * (8 * EXPERT + 8 * 64) + ENDS,
    3 * (WIDE + 64 + NORMS) + MLP + 2 * (2 * EXPERT + 8 * 64) + ENDS },
  { "gemma", 3 * (WIDE + MLP + NORMS) + TABLE + 64, 0 },
  { "gemma2", 3 * (WIDE + MLP + 2 * NORMS) + TABLE + 64, 0 },
  { "gemma3_text", 12 * (WIDE + 64 + MLP + 2 * NORMS) + TABLE + 64, 0 },
  { "gpt2", 3 * (FULL + 4 * 64 + 2 * 64 * 256 + 256 + 64 + SHIFTED) + TABLE + 50 * 64 + 128, 0 },
  { "gptj", 3 * (FULL + 2 * 64 * 256 + 256 + 64 + 128) + 2 * TABLE + 100 + 128, 0 },
  { "gpt_neox", 3 * (FULL + 4 * 64 + 2 * 64 * 128 + 128 + 64 + SHIFTED) + 2 * TABLE + 128, 0 },
  { "bloom", 3 * (FULL + 4 * 64 + 2 * 64 * 256 + 256 + 64 + SHIFTED) + TABLE + 128 + 128, 0 },
  { "opt", 3 * (FULL + 4 * 64 + 2 * 64 * 128 + 128 + 64 + SHIFTED) + 100 * 32 + 2 * 32 * 64 + 32 * 64, 0 },
  { "falcon", 3 * (ATT + 2 * 64 * 256 + SHIFTED) + TABLE + 128, 0 },
  { "falcon-one-key-head", 3 * (64 * (4 + 2) * 16 + 64 * 64 + 2 * 64 * 256 + 128) + TABLE + 128, 0 },
  { "mpt", 3 * (FULL + 2 * 64 * 256 + NORMS) + TABLE + 64, 0 },
  { "phi", 3 * (FULL + 4 * 64 + 2 * 64 * 128 + 128 + 64 + 128) + 2 * TABLE + 100 + 128, 0 },
  { "phi3", 3 * (ATT + MLP + NORMS) + ENDS, 0 },
  { "phimoe", 3 * (ATT + BIAS + 64 + 4 * MLP + 4 * 64 + SHIFTED) + 2 * TABLE + 100 + 128,
    3 * (ATT + BIAS + 64 + 2 * MLP + 4 * 64 + SHIFTED) + 2 * TABLE + 100 + 128 },
  { "deepseek_v2", 3 * (LATENT + NORMS) + MLP + 2 * ((4 + 2) * EXPERT + 4 * 64) + ENDS,
    3 * (LATENT + NORMS) + MLP + 2 * ((2 + 2) * EXPERT + 4 * 64) + ENDS },
  { "deepseek_v3", 3 * (LATENT_Q + NORMS) + MLP + 2 * ((4 + 1) * EXPERT + 4 * 64 + 4) + ENDS,
    3 * (LATENT_Q + NORMS) + MLP + 2 * ((2 + 1) * EXPERT + 4 * 64 + 4) + ENDS },
  { "deepseek_v32", 3 * (LATENT_Q + INDEXER + NORMS) + MLP + 2 * ((4 + 1) * EXPERT + 4 * 64 + 4) + ENDS,
    3 * (LATENT_Q + INDEXER + NORMS) + MLP + 2 * ((2 + 1) * EXPERT + 4 * 64 + 4) + ENDS },
  { "glm", 3 * (ATT + BIAS + MLP + NORMS) + ENDS, 0 },
  { "glm4", 3 * (ATT + MLP + 2 * NORMS) + ENDS, 0 },
  { "glm4_moe", 3 * (ATT + BIAS + 32 + NORMS) + MLP + 2 * ((4 + 1) * EXPERT + 4 * 64 + 4) + ENDS,
    3 * (ATT + BIAS + 32 + NORMS) + MLP + 2 * ((2 + 1) * EXPERT + 4 * 64 + 4) + ENDS },
  { "chatglm", 3 * (ATT + BIAS + MLP + NORMS) + ENDS, 0 },
  { "gpt_oss", 4 * (WIDE + 256 + 64 + 4 + 4 * (MLP + 192 + 64) + 4 * 64 + 4 + NORMS) + ENDS,
    4 * (WIDE + 256 + 64 + 4 + 2 * (MLP + 192 + 64) + 4 * 64 + 4 + NORMS) + ENDS },
  { "llama4_text", 4 * (WIDE + NORMS) + 2 * 3 * 64 * 128 + 2 * ((4 + 1) * MLP + 4 * 64) + ENDS,
    4 * (WIDE + NORMS) + 2 * 3 * 64 * 128 + 2 * ((1 + 1) * MLP + 4 * 64) + ENDS },
  { "minimax_m2", 3 * (ATT + (4 + 2) * 16 + 4 * MLP + 4 * 64 + 4 + NORMS) + ENDS,
    3 * (ATT + (4 + 2) * 16 + 2 * MLP + 4 * 64 + 4 + NORMS) + ENDS },
  { "olmo2", 3 * (ATT + (4 + 2) * 16 + MLP + NORMS) + ENDS, 0 },
  { "olmoe", 3 * (ATT + (4 + 2) * 16 + 4 * MLP + 4 * 64 + NORMS) + ENDS,
    3 * (ATT + (4 + 2) * 16 + 2 * MLP + 4 * 64 + NORMS) + ENDS },
  { "cohere", 3 * (ATT + MLP + 64) + TABLE + 64, 0 },
  { "cohere2", 8 * (ATT + MLP + 64) + TABLE + 64, 0 },
  { "starcoder2", 3 * (ATT + BIAS + 64 + 2 * 64 * 96 + 96 + 64 + SHIFTED) + TABLE + 128, 0 },
  { "nemotron", 3 * (ATT + 2 * 64 * 96 + SHIFTED) + 2 * TABLE + 128, 0 },
  { "dbrx", 3 * (ATT + 4 * MLP + 4 * 64 + NORMS) + ENDS, 3 * (ATT + 2 * MLP + 4 * 64 + NORMS) + ENDS },
};

START_TEST (each_type_has_the_count_done_by_hand)
{
  g_autofree char *path = fixture (fixtures[_i].name);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_of (path, "", "", &error);
  ck_assert_msg (w != NULL, "%s: %s", fixtures[_i].name, error != NULL ? error->message : "");
  const guint64 active = fixtures[_i].active != 0 ? fixtures[_i].active : fixtures[_i].total;
  ck_assert_msg (sc_model_params (&w->model, w->seq) == fixtures[_i].total, "%s: %" G_GUINT64_FORMAT " for %" G_GUINT64_FORMAT,
                 fixtures[_i].name, sc_model_params (&w->model, w->seq), fixtures[_i].total);
  ck_assert_msg (sc_model_active_params (&w->model, w->seq) == active, "%s: %" G_GUINT64_FORMAT, fixtures[_i].name,
                 sc_model_active_params (&w->model, w->seq));
}
END_TEST

START_TEST (each_type_has_a_fixture_or_is_refused)
{
  const ScHfTypeInfo info = sc_hf_type_info ((guint) _i);
  g_auto (GStrv) words = g_strsplit (info.types, " ", -1);
  gboolean found = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (fixtures); i++)
    found |= strcmp (fixtures[i].name, words[0]) == 0;
  ck_assert_msg (found != info.refused, "%s", words[0]);
  for (char **word = words; *word != NULL; word++)
    {
      g_autofree char *text = g_strdup_printf ("{'model_type': '%s'}", *word);
      g_autoptr (GError) error = NULL;
      g_autoptr (ScHfConfig) config = sc_hf_config_take_json (parse ("c.json", text), &error);
      /* Sizes may be missing, but the type is known. */
      ck_assert_msg (config != NULL || info.refused == (strstr (error->message, info.summary) != NULL), "%s", error->message);
      ck_assert_msg (config != NULL || info.refused == g_str_has_prefix (error->message, "c.json: /model_type: found"), "%s",
                     error->message);
    }
}
END_TEST

/* ---- Published counts ---- */

/* Files that others may not copy: next to the source tree, or where the environment says. */
static char *
samples_folder (void)
{
  const char *set = g_getenv ("STEPCAST_HF_SAMPLES");
  if (set != NULL && *set != '\0')
    return g_strdup (set);
  return g_build_filename (g_getenv ("abs_srcdir"), "..", "shared", "samples", "hf", NULL);
}

START_TEST (published_models_have_their_published_counts)
{
  g_autofree char *folder = samples_folder ();
  g_autofree char *list = g_build_filename (folder, "PARAMS.tsv", NULL);
  g_autofree char *text = NULL;
  if (!g_file_get_contents (list, &text, NULL, NULL))
    return; /* not here */
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint n = 0;
  for (char **line = lines + 1; *line != NULL; line++)
    {
      g_auto (GStrv) columns = g_strsplit (*line, "\t", -1);
      g_autofree char *name = g_strdup_printf ("%s.config.json", columns[0] != NULL ? columns[0] : "");
      g_autofree char *path = g_build_filename (folder, name, NULL);
      if (g_strv_length (columns) < 4 || !g_file_test (path, G_FILE_TEST_EXISTS) || *columns[2] == '-')
        continue;
      g_autoptr (GError) error = NULL;
      g_autoptr (ScWorkload) w = workload_of (path, "", "", &error);
      ck_assert_msg (w != NULL, "%s: %s", columns[0], error != NULL ? error->message : "");
      ck_assert_msg (sc_model_params (&w->model, w->seq) == g_ascii_strtoull (columns[2], NULL, 10), "%s", columns[0]);
      ck_assert_msg (sc_model_active_params (&w->model, w->seq) == g_ascii_strtoull (columns[3], NULL, 10), "%s", columns[0]);
      ck_assert_msg (*columns[4] == '-' || strcmp (columns[4], columns[2]) == 0, "%s", columns[0]);
      n++;
    }
  ck_assert_uint_gt (n, 0);
}
END_TEST

/* Sizes of published models as their papers and cards say them; what is not said is the class's default. */
static const struct
{
  const char *config;
  guint64 total;
} published[] = {
  { "{'model_type': 'llama'}", 6738415616 }, /* Llama 2 7B */
  { "{'model_type': 'llama', 'hidden_size': 5120, 'num_hidden_layers': 40, 'num_attention_heads': 40, 'intermediate_size': 13824}", 13015864320 },
  { "{'model_type': 'llama', 'hidden_size': 8192, 'num_hidden_layers': 80, 'num_attention_heads': 64, 'num_key_value_heads': 8,"
    " 'intermediate_size': 28672}", 68976648192 },
  { "{'model_type': 'mistral'}", 7241732096 },
  { "{'model_type': 'mixtral'}", 46702792704 },
  { "{'model_type': 'gemma2'}", 2614341888 }, /* 2B */
  { "{'model_type': 'gpt2'}", 124439808 },
  { "{'model_type': 'gptj'}", 6050882784 },
  { "{'model_type': 'gpt_neox'}", 20554567680 },
  { "{'model_type': 'bloom', 'n_embed': 14336, 'n_layer': 70, 'num_attention_heads': 112}", 176247271424 },
  { "{'model_type': 'bloom', 'hidden_size': 4096, 'n_layer': 30, 'n_head': 32}", 7069016064 },
  { "{'model_type': 'opt', 'hidden_size': 1024, 'num_hidden_layers': 24, 'num_attention_heads': 16, 'ffn_dim': 4096,"
    " 'word_embed_proj_dim': 512, 'do_layer_norm_before': false}", 331196416 },
  { "{'model_type': 'opt', 'hidden_size': 12288, 'num_hidden_layers': 96, 'num_attention_heads': 96, 'ffn_dim': 49152}", 174604468224 },
  { "{'model_type': 'opt', 'hidden_size': 9216, 'num_hidden_layers': 64, 'num_attention_heads': 72, 'ffn_dim': 36864}", 65719701504 },
  { "{'model_type': 'falcon'}", 6921720704 }, /* 7B */
  { "{'model_type': 'falcon', 'hidden_size': 8192, 'num_hidden_layers': 60, 'num_attention_heads': 128, 'num_kv_heads': 8,"
    " 'new_decoder_architecture': true}", 41303293952 },
  { "{'model_type': 'falcon', 'hidden_size': 14848, 'num_hidden_layers': 80, 'num_attention_heads': 232, 'num_kv_heads': 8,"
    " 'new_decoder_architecture': true, 'tie_word_embeddings': false}", 179522565120 },
  { "{'model_type': 'mpt', 'd_model': 4096, 'n_layers': 32, 'n_heads': 32, 'vocab_size': 50432}", 6649286656 },
  { "{'model_type': 'phi', 'hidden_size': 2560, 'num_hidden_layers': 32, 'intermediate_size': 10240}", 2779683840 },
  { "{'model_type': 'phi3'}", 3821079552 },
  { "{'model_type': 'phimoe', 'attention_bias': true, 'lm_head_bias': true}", 41873153344 },
  { "{'model_type': 'qwen2_moe', 'moe_intermediate_size': 1408}", 14315784192 }, /* Qwen1.5-MoE-A2.7B */
  { "{'model_type': 'deepseek_v2', 'hidden_size': 2048, 'num_hidden_layers': 27, 'num_attention_heads': 16, 'intermediate_size': 10944,"
    " 'vocab_size': 102400, 'n_routed_experts': 64, 'n_shared_experts': 2, 'num_experts_per_tok': 6, 'moe_intermediate_size': 1408,"
    " 'first_k_dense_replace': 1, 'q_lora_rank': null}", 15706484224 },
  { "{'model_type': 'deepseek_v2', 'hidden_size': 5120, 'num_hidden_layers': 60, 'num_attention_heads': 128, 'intermediate_size': 12288,"
    " 'vocab_size': 102400, 'n_routed_experts': 160, 'n_shared_experts': 2, 'num_experts_per_tok': 6, 'moe_intermediate_size': 1536,"
    " 'first_k_dense_replace': 1}", 235741434880 },
  { "{'model_type': 'deepseek_v3'}", 671026419200 },
  { "{'model_type': 'glm4_moe', 'head_dim': 128, 'attention_bias': true}", 106852251264 }, /* GLM-4.5-Air */
  { "{'model_type': 'glm4_moe', 'hidden_size': 5120, 'num_hidden_layers': 92, 'intermediate_size': 12288, 'n_routed_experts': 160,"
    " 'moe_intermediate_size': 1536, 'first_k_dense_replace': 3, 'head_dim': 128, 'attention_bias': true, 'use_qk_norm': true}",
    352797829024 }, /* GLM-4.5 */
  { "{'model_type': 'glm'}", 9399951360 }, /* GLM-4-9B */
  { "{'model_type': 'chatglm', 'hidden_size': 4096, 'num_layers': 28, 'num_attention_heads': 32, 'multi_query_attention': true,"
    " 'multi_query_group_num': 2, 'kv_channels': 128, 'ffn_hidden_size': 13696, 'padded_vocab_size': 65024, 'add_qkv_bias': true,"
    " 'add_bias_linear': false}", 6243584000 }, /* ChatGLM3-6B */
  { "{'model_type': 'gpt_oss'}", 116829156672 },
  { "{'model_type': 'llama4_text'}", 107769861120 }, /* Scout */
  { "{'model_type': 'olmo2', 'vocab_size': 100352}", 7298617344 },
  { "{'model_type': 'olmoe', 'intermediate_size': 1024}", 6919161856 },
  { "{'model_type': 'cohere'}", 34980831232 }, /* Command R */
  { "{'model_type': 'starcoder2'}", 3030371328 }, /* 3B */
  { "{'model_type': 'dbrx', 'd_model': 6144, 'n_layers': 40, 'n_heads': 48, 'vocab_size': 100352, 'attn_config': {'kv_n_heads': 8},"
    " 'ffn_config': {'ffn_hidden_size': 10752, 'moe_num_experts': 16, 'moe_top_k': 4}}", 131596523520 },
};

static gboolean
model_of (const char *text, ScModel *model, GError **error)
{
  g_autoptr (ScHfConfig) config = sc_hf_config_take_json (parse ("c.json", text), error);
  return config != NULL && sc_hf_config_model (config, model, error);
}

START_TEST (defaults_of_the_classes_are_published_models)
{
  g_autoptr (GError) error = NULL;
  ScModel model;
  ck_assert_msg (model_of (published[_i].config, &model, &error), "%s", error != NULL ? error->message : "");
  ck_assert_msg (sc_model_params (&model, 0) == published[_i].total, "%s: %" G_GUINT64_FORMAT, published[_i].config,
                 sc_model_params (&model, 0));
}
END_TEST

/* ---- In a workload ---- */

/* Both models alike in each field of @table. */
static void
assert_same_fields (const ScFieldTable *table, const ScModel *a, const ScModel *b)
{
  for (const ScField *row = table->fields; row->key != NULL; row++)
    {
      const char *pa = (const char *) a + row->offset, *pb = (const char *) b + row->offset;
      if (row->kind == SC_FIELD_OBJECT)
        assert_same_fields (row->table, a, b);
      else if (row->kind == SC_FIELD_NUMBER && row->offset != SC_FIELD_NOWHERE)
        ck_assert_msg (memcmp (pa, pb, sizeof (double)) == 0, "%s", row->key);
      else if ((row->kind == SC_FIELD_BOOL || row->kind == SC_FIELD_COUNT || row->kind == SC_FIELD_CHOICE) && row->offset != SC_FIELD_NOWHERE)
        ck_assert_msg (memcmp (pa, pb, sizeof (guint)) == 0, "%s", row->key);
    }
}

START_TEST (a_published_file_is_the_shipped_model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) shipped = sc_workload_load ("llama3-70b", NULL, &error);
  ck_assert_ptr_nonnull (shipped);
  g_autofree char *path = fixture ("llama3-70b");
  g_autoptr (ScWorkload) w = workload_of (path, "", "seq=8192", &error);
  ck_assert_msg (w != NULL, "%s", error != NULL ? error->message : "");
  assert_same_fields (&sc_model_table, &w->model, &shipped->model);
}
END_TEST

START_TEST (keys_beside_it_and_on_the_command_line_hold)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = fixture ("deepseek_v3");
  g_autoptr (ScWorkload) w = workload_of (path, ", 'vocab': 128, 'mtp_layers': null, 'mla': {'q_lora_rank': 0}",
                                          "model.layers=2 model.mla.v_head_dim=8", &error);
  ck_assert_msg (w != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (w->model.vocab, 128);
  ck_assert_uint_eq (w->model.layers, 2);
  ck_assert_uint_eq (w->model.mtp_layers, 0); /* null: the workload's default, not the file's */
  ck_assert_uint_eq (w->model.mla.q_lora_rank, 0);
  ck_assert_uint_eq (w->model.mla.v_head_dim, 8);
  ck_assert_uint_eq (w->model.mla.kv_lora_rank, 32);
  ck_assert_uint_eq (w->model.hidden, 64);
  g_autoptr (ScWorkload) dense = workload_of (path, ", 'mla': null, 'head_dim': 16", "", &error);
  ck_assert_msg (dense != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (dense->model.mla.kv_lora_rank, 0);
}
END_TEST

START_TEST (windows_follow_layer_types)
{
  static const struct
  {
    const char *config;
    guint window, global_every, n;
  } cases[] = {
    { "{'model_type': 'mistral'}", 4096, 0, 32 },
    { "{'model_type': 'mistral', 'sliding_window': null}", 0, 0, 0 },
    { "{'model_type': 'gemma2'}", 4096, 2, 13 },
    { "{'model_type': 'gemma3_text'}", 4096, 6, 22 },
    { "{'model_type': 'gemma3_text', 'sliding_window_pattern': 2}", 4096, 2, 13 },
    { "{'model_type': 'cohere2'}", 4096, 4, 30 },
    { "{'model_type': 'llama4_text'}", 8192, 4, 36 },
    { "{'model_type': 'qwen2'}", 0, 0, 0 },
    { "{'model_type': 'qwen2', 'use_sliding_window': true, 'max_window_layers': 0}", 4096, 0, 32 },
    { "{'model_type': 'gpt_oss', 'num_hidden_layers': 2, 'layer_types': ['full_attention', 'full_attention']}", 0, 0, 0 },
    { "{'model_type': 'gpt_oss', 'num_hidden_layers': 2, 'layer_types': ['sliding_attention', 'sliding_attention']}", 128, 0, 2 },
    { "{'model_type': 'gpt_oss', 'num_hidden_layers': 3, 'layer_types': ['sliding_attention', 'sliding_attention', 'full_attention']}", 128, 3, 2 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      ScModel model;
      ck_assert_msg (model_of (cases[i].config, &model, &error), "%s", error != NULL ? error->message : "");
      ck_assert_msg (model.window == cases[i].window && model.global_every == cases[i].global_every, "%s: %u %u", cases[i].config,
                     model.window, model.global_every);
      ck_assert_uint_eq (sc_model_window_layers (&model), cases[i].n);
    }
}
END_TEST

/* ---- Where numbers are from ---- */

static const char *
origin_of (const ScHfConfig *config, const char *key)
{
  for (guint i = 0; i < config->fields->len; i++)
    {
      const ScHfField *field = g_ptr_array_index (config->fields, i);
      if (strcmp (field->field->key, key) == 0)
        return field->origin;
    }
  return "";
}

START_TEST (each_number_says_its_key_and_the_rest_is_listed_once)
{
  g_autofree char *path = fixture ("gemma3_text");
  g_autoptr (ScHfConfig) config = sc_hf_config_load (path, NULL);
  ck_assert_ptr_nonnull (config);
  ck_assert_str_eq (config->type, "gemma3_text");
  ck_assert_str_eq (origin_of (config, "layers"), "from num_hidden_layers");
  ck_assert_str_eq (origin_of (config, "global_every"), "default of transformers");
  ck_assert_str_eq (origin_of (config, "layer_norms"), "all of this type");
  ck_assert_uint_eq (config->unused->len, 1);
  ck_assert_str_eq (g_ptr_array_index (config->unused, 0), "vision_config");
  for (guint i = 1; i < config->fields->len; i++) /* once each */
    for (guint k = 0; k < i; k++)
      ck_assert_ptr_ne (((const ScHfField *) g_ptr_array_index (config->fields, i))->field,
                        ((const ScHfField *) g_ptr_array_index (config->fields, k))->field);
}
END_TEST

START_TEST (architectures_name_the_type_where_model_type_does_not)
{
  static const char *const names[][2] = {
    { "LlamaForCausalLM", "llama" },       { "Qwen2MoeForCausalLM", "qwen2_moe" }, { "GPTNeoXForCausalLM", "gpt_neox" },
    { "GPT2LMHeadModel", "gpt2" },         { "DeepseekV3ForCausalLM", "deepseek_v3" }, { "Gemma3ForCausalLM", "gemma3_text" },
    { "PhiMoEForCausalLM", "phimoe" },     { "GptOssForCausalLM", "gpt_oss" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *by_name = g_strdup_printf ("{'model_type': '%s'}", names[i][1]);
      g_autofree char *by_architecture = g_strdup_printf ("{'architectures': ['%s']}", names[i][0]);
      ScModel a, b;
      ck_assert_msg (model_of (by_name, &a, NULL) && model_of (by_architecture, &b, NULL), "%s", names[i][0]);
      assert_same_fields (&sc_model_table, &a, &b);
    }
}
END_TEST

/* ---- What is refused ---- */

static const struct
{
  const char *config;
  const char *message; /* the error, behind the file's name */
} refused[] = {
  { "{}", "/model_type: missing, expected the type of a model (see stepcast list model-types)" },
  { "{'model_type': 'lama'}", "/model_type: found \"lama\", which is not a known type of model; the nearest is \"llama\"" },
  { "{'model_type': 'xyzzy'}", "/model_type: found \"xyzzy\", which is not a known type of model (see stepcast list model-types)" },
  { "{'model_type': 3}", "/model_type: found 3, expected a text in double quotes" },
  { "{'model_type': ''}", "/model_type: found \"\", which is not a known type of model (see stepcast list model-types)" },
  { "{'architectures': ['LamaForCausalLM']}", "/architectures/0: found \"LamaForCausalLM\", which is not a known type of model" },
  { "{'architectures': [[]]}", "/architectures/0: found an array, expected a text in double quotes" },
  { "{'model_type': 'qwen3_next'}", "/model_type: found \"qwen3_next\": layers of attention and of state-space or linear attention in turns" },
  { "{'model_type': 'nemotron-nas'}", "/model_type: found \"nemotron-nas\": layers that all differ are not described yet" },
  { "{'model_type': 'llava', 'text_config': {'model_type': 'mamba'}}", "/text_config/model_type: found \"mamba\": models without attention" },
  { "{'model_type': 'llama', 'hidden_size': 'wide'}", "/hidden_size: found \"wide\", expected a whole number" },
  { "{'model_type': 'llama', 'hidden_size': null}", "/hidden_size: found null, expected a whole number" },
  { "{'model_type': 'llama', 'hidden_size': 4096.5}", "/hidden_size: found 4096.5, expected a whole number" },
  { "{'model_type': 'llama', 'hidden_size': 1e9}", "/hidden_size: found 1000000000, expected 1 to 1000000" },
  { "{'model_type': 'llama', 'hidden_size': -1}", "/hidden_size: found -1, expected 1 to 1000000" },
  { "{'model_type': 'llama', 'hidden_size': [4096]}", "/hidden_size: found an array, expected a whole number" },
  { "{'model_type': 'llama', 'num_hidden_layers': 0}", "/num_hidden_layers: found 0, expected 1 to 1000" },
  { "{'model_type': 'llama', 'num_attention_heads': 30}", "/num_attention_heads: 30 does not divide hidden 4096" },
  { "{'model_type': 'llama', 'num_key_value_heads': 5}", "/num_key_value_heads: 5 does not divide 32 heads" },
  { "{'model_type': 'llama', 'tie_word_embeddings': 'yes'}", "/tie_word_embeddings: found \"yes\", expected true or false" },
  { "{'model_type': 'llama', 'attention_dropout': 2}", "/attention_dropout: found 2, expected 0 to 0.999" },
  { "{'model_type': 'mistral', 'sliding_window': 1e8}", "/sliding_window: found 100000000, expected 0 to 10000000" },
  { "{'model_type': 'mixtral', 'num_experts_per_tok': 9}", "/num_experts_per_tok: found 9, expected 1 to 8 (experts)" },
  { "{'model_type': 'mixtral', 'num_local_experts': 65536, 'intermediate_size': 10000000}", "/: found about" },
  { "{'model_type': 'deepseek_v3', 'moe_layer_freq': 2}", "/moe_layer_freq: found 2: expected 1, the only one that models have" },
  { "{'model_type': 'deepseek_v3', 'kv_lora_rank': 0}", "/kv_lora_rank: found 0, expected 1 to 1000000" },
  { "{'model_type': 'deepseek_v2'}", "/hidden_size: missing, expected a whole number" },
  { "{'model_type': 'minimax_m2', 'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'intermediate_size': 8, 'vocab_size': 9}",
    "/num_local_experts: missing, expected a whole number" },
  { "{'model_type': 'qwen2_moe', 'shared_expert_intermediate_size': 2000}", "/shared_expert_intermediate_size: found 2000: no multiple of" },
  { "{'model_type': 'qwen3_moe', 'mlp_only_layers': [3]}", "/mlp_only_layers: found an array: layers without experts that are not the first" },
  { "{'model_type': 'qwen3_moe', 'mlp_only_layers': ['a']}", "/mlp_only_layers/0: found \"a\", expected a whole number" },
  { "{'model_type': 'qwen2', 'use_sliding_window': true, 'max_window_layers': 3}", "/max_window_layers: found 3: a window from one layer on" },
  { "{'model_type': 'qwen2', 'use_sliding_window': 1}", "/use_sliding_window: found 1, expected true or false" },
  { "{'model_type': 'gpt_oss', 'layer_types': 'full'}", "/layer_types: found \"full\", expected an array" },
  { "{'model_type': 'gpt_oss', 'layer_types': ['full_attention']}", "/layer_types: found 1 elements, expected one for each of 36 layers" },
  { "{'model_type': 'gpt_oss', 'num_hidden_layers': 2, 'layer_types': ['full_attention', 'linear_attention']}",
    "/layer_types/1: found \"linear_attention\": no layer of attention; hybrid models are not described yet" },
  { "{'model_type': 'gpt_oss', 'num_hidden_layers': 2, 'layer_types': [1, 2]}", "/layer_types/0: found 1: no layer of attention" },
  { "{'model_type': 'gpt_oss', 'num_hidden_layers': 3, 'layer_types': ['full_attention', 'sliding_attention', 'full_attention']}",
    "/layer_types: found an array: which layers attend all tokens is no rule" },
  { "{'model_type': 'llama4_text', 'interleave_moe_layer_step': 2, 'moe_layers': [0]}", "/moe_layers/0: found 0: not the layer that" },
  { "{'model_type': 'mpt', 'expansion_ratio': 10000000}", "/expansion_ratio: found 10000000: expected a width" },
  { "{'model_type': 'dbrx', 'd_model': 64, 'n_layers': 2, 'n_heads': 4, 'vocab_size': 9, 'ffn_config': 3}", "/ffn_config: found 3, expected an object" },
  { "{'model_type': 'dbrx', 'd_model': 64, 'n_layers': 2, 'n_heads': 4}", "/ffn_config: missing, expected an object" },
  { "{'model_type': 'dbrx', 'd_model': 64, 'n_layers': 2, 'n_heads': 4, 'ffn_config': {}}", "/ffn_config/ffn_hidden_size: missing, expected a whole number" },
};

START_TEST (files_that_cannot_be_are_refused)
{
  g_autoptr (GError) error = NULL;
  ScModel model;
  ck_assert_msg (!model_of (refused[_i].config, &model, &error), "%s", refused[_i].config);
  g_autofree char *expected = g_strconcat ("c.json: ", refused[_i].message, NULL);
  ck_assert_msg (g_str_has_prefix (error->message, expected), "%s", error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
  ck_assert_int_eq (sc_status_of_error (error), SC_STATUS_DATA);
}
END_TEST

START_TEST (broken_rules_are_about_the_key_of_the_file_that_says_it)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = fixture ("llama");
  ck_assert_ptr_null (workload_of (path, "", "plan.tp=3 plan.dp=1", &error));
  ck_assert_str_eq (error->message, "--set plan.tp=3: w.json: /plan/tp: 3 does not divide 4 heads (try 2 or 4)");
  g_clear_error (&error);
  ck_assert_ptr_null (workload_of (path, ", 'heads': 3", "", &error));
  ck_assert_str_eq (error->message, "w.json: /model/heads: 3 does not divide hidden 64 (try 2 or 4), or give head_dim");
  g_clear_error (&error);
  ck_assert_ptr_null (workload_of (path, ", 'heads': 8, 'kv_heads': 3", "", &error));
  ck_assert (g_str_has_prefix (error->message, "w.json: /model/kv_heads: 3 does not divide 8 heads"));
  g_clear_error (&error);
  ck_assert_ptr_null (workload_of (path, ", 'heads': 1", "", &error)); /* now the file's 2 key heads are wrong */
  g_autofree char *blamed = g_strdup_printf ("%s: /num_key_value_heads: 2 does not divide 1 heads (try 1)", path);
  ck_assert_str_eq (error->message, blamed);
  g_clear_error (&error);
  ck_assert_ptr_null (workload_of ("gone.json", "", "", &error));
  ck_assert_str_eq (error->message, "w.json: /model/hf_config: gone.json: cannot open: No such file or directory");
  ck_assert_int_eq (sc_status_of_error (error), SC_STATUS_NO_INPUT);
  g_clear_error (&error);
  ck_assert_ptr_null (workload_of ("", "", "", &error));
  ck_assert_str_eq (error->message, "w.json: /model/hf_config: found a text of 0 bytes, expected 1 to 4000");
}
END_TEST

START_TEST (a_model_is_shown_with_and_without_a_workload)
{
  g_autofree char *path = fixture ("mixtral");
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (sc_show_model (path, NULL, out, &error));
  ck_assert_ptr_nonnull (strstr (out->str, "from num_local_experts"));
  g_string_truncate (out, 0);
  ck_assert (sc_show_model ("llama3-70b", NULL, out, &error));
  ck_assert_ptr_nonnull (strstr (out->str, "from hidden of the workload"));
  ck_assert_ptr_nonnull (strstr (out->str, "70553706496"));
  char text[] = "model.layers=4";
  char *set[] = { text, NULL };
  ck_assert (!sc_show_model (path, set, out, &error)); /* a config alone has no keys to set */
  g_clear_error (&error);
  g_string_truncate (out, 0);
  char one[] = "plan.pp=1", two[] = "plan.vpp=1", three[] = "plan.schedule=none", four[] = "plan.overlap_p2p=false";
  char *cut[] = { text, one, two, three, four, NULL };
  ck_assert_msg (sc_show_model ("llama3-70b", cut, out, &error), "%s", error != NULL ? error->message : "");
  ck_assert_ptr_nonnull (strstr (out->str, "  x 4\n"));
}
END_TEST

static Suite *
hf_config_suite (void)
{
  Suite *suite = suite_create ("hf-config");
  TCase *tc = tcase_create ("types");
  tcase_add_loop_test (tc, each_type_has_the_count_done_by_hand, 0, G_N_ELEMENTS (fixtures));
  tcase_add_loop_test (tc, each_type_has_a_fixture_or_is_refused, 0, (int) sc_hf_n_types ());
  tcase_add_test (tc, published_models_have_their_published_counts);
  tcase_add_loop_test (tc, defaults_of_the_classes_are_published_models, 0, G_N_ELEMENTS (published));
  tcase_add_test (tc, a_published_file_is_the_shipped_model);
  tcase_add_test (tc, keys_beside_it_and_on_the_command_line_hold);
  tcase_add_test (tc, windows_follow_layer_types);
  tcase_add_test (tc, each_number_says_its_key_and_the_rest_is_listed_once);
  tcase_add_test (tc, architectures_name_the_type_where_model_type_does_not);
  tcase_add_loop_test (tc, files_that_cannot_be_are_refused, 0, G_N_ELEMENTS (refused));
  tcase_add_test (tc, broken_rules_are_about_the_key_of_the_file_that_says_it);
  tcase_add_test (tc, a_model_is_shown_with_and_without_a_workload);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  SRunner *runner = srunner_create (hf_config_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
