/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hf-config-rules.c - which keys of a config.json say what of a model, type by type.
 * Defaults are those of the library's configuration classes (configuration_TYPE.py), as files leave out what equals
 * them; where a class has none, or none that is known here, the key is required. */
#include "hf-config-parts.h"

#define REQUIRED "" /* a fallback: none that is known */
#define END { NULL, NULL, NULL }
#define FACT(field, value) { field, NULL, value }
#define LLAMA_NAMES(h, l, a, f, v)                                                                                     \
  { "hidden", "hidden_size", h }, { "layers", "num_hidden_layers", l }, { "heads", "num_attention_heads", a },         \
      { "ffn", "intermediate_size", f }, { "vocab", "vocab_size", v }
#define KV_HEADS(n) { "kv_heads", "num_key_value_heads", n }
#define HEAD_DIM(n) { "head_dim", "head_dim", n }
#define TIED(yes) { "tied_embeddings", "tie_word_embeddings", yes }
#define EXPERTS(keys, n, k, f)                                                                                         \
  { "experts", keys, n }, { "top_k", "num_experts_per_tok", k }, { "expert_ffn", "moe_intermediate_size", f }

/* What most have in common: a gated MLP, RMS norms, rotary positions. */
static const HfRule plain[] = {
  LLAMA_NAMES (REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED),
  KV_HEADS (NULL),
  HEAD_DIM (NULL),
  TIED ("false"),
  FACT ("gated_mlp", "true"),
  FACT ("norm", "\"rmsnorm\""),
  FACT ("positions", "\"rope\""),
  { "dropout", "attention_dropout", NULL },
  END,
};

static const HfRule llama[] = {
  LLAMA_NAMES ("4096", "32", "32", "11008", "32000"),
  { "attention_bias", "attention_bias", NULL },
  { "mlp_bias", "mlp_bias", NULL },
  END,
};

static const HfRule mistral[] = {
  LLAMA_NAMES ("4096", "32", "32", "14336", "32000"), KV_HEADS ("8"), { "window", "sliding_window", "4096" }, END,
};

static const HfRule mixtral[] = {
  LLAMA_NAMES ("4096", "32", "32", "14336", "32000"),
  KV_HEADS ("8"),
  { "window", "sliding_window", NULL },
  EXPERTS ("num_local_experts", "8", "2", NULL),
  { "expert_ffn", "intermediate_size", "14336" },
  END,
};

static const HfRule qwen2[] = {
  LLAMA_NAMES ("4096", "32", "32", "22016", "151936"),
  KV_HEADS ("32"),
  FACT ("qkv_bias", "true"),
  { "window", "sliding_window", "4096" },
  END,
};

static const HfRule qwen2_moe[] = {
  LLAMA_NAMES ("2048", "24", "16", "5632", "151936"),
  KV_HEADS ("16"),
  { "qkv_bias", "qkv_bias", "true" },
  { "window", "sliding_window", "4096" },
  EXPERTS ("num_experts", "60", "4", "1408"),
  { "moe_every", "decoder_sparse_step", "1" },
  END,
};

static const HfRule qwen3[] = {
  LLAMA_NAMES ("4096", "32", "32", "22016", "151936"),
  KV_HEADS ("32"),
  HEAD_DIM ("128"),
  FACT ("qk_norm", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "sliding_window", "4096" },
  END,
};

static const HfRule qwen3_moe[] = {
  LLAMA_NAMES ("2048", "24", "32", "6144", "151936"),
  KV_HEADS ("4"),
  FACT ("qk_norm", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "sliding_window", "4096" },
  EXPERTS ("num_experts num_local_experts", "128", "8", "768"),
  { "moe_every", "decoder_sparse_step", "1" },
  END,
};

static const HfRule gemma[] = {
  LLAMA_NAMES ("3072", "28", "16", "24576", "256000"),
  KV_HEADS ("16"),
  HEAD_DIM ("256"),
  TIED ("true"),
  { "attention_bias", "attention_bias", NULL },
  END,
};

static const HfRule gemma2[] = {
  LLAMA_NAMES ("2304", "26", "8", "9216", "256000"),
  KV_HEADS ("4"),
  HEAD_DIM ("256"),
  TIED ("true"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("layer_norms", "4"),
  { "window", "sliding_window", "4096" },
  FACT ("global_every", "2"),
  END,
};

static const HfRule gemma3[] = {
  { "vocab", "vocab_size", "262208" }, FACT ("qk_norm", "true"), { "global_every", "sliding_window_pattern", "6" }, END,
};

static const HfRule gpt2[] = {
  { "hidden", "n_embd", "768" },
  { "layers", "n_layer", "12" },
  { "heads", "n_head", "12" },
  { "ffn", "n_inner", NULL },
  { "vocab", "vocab_size", "50257" },
  { "max_positions", "n_positions", "1024" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"learned\""),
  FACT ("linear_bias", "true"),
  { "dropout", "resid_pdrop", "0.1" },
  END,
};

static const HfRule gptj[] = {
  { "hidden", "n_embd", "4096" },
  { "layers", "n_layer", "28" },
  { "heads", "n_head", "16" },
  { "ffn", "n_inner", NULL },
  { "vocab", "vocab_size", "50400" },
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  FACT ("mlp_bias", "true"),
  FACT ("norm_bias", "true"),
  FACT ("head_bias", "true"),
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule gpt_neox[] = {
  LLAMA_NAMES ("6144", "44", "64", "24576", "50432"),
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  { "parallel_attention", "use_parallel_residual", "true" },
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule bloom[] = {
  { "hidden", "n_embed hidden_size", REQUIRED },
  { "layers", "n_layer num_hidden_layers", REQUIRED },
  { "heads", "n_head num_attention_heads", REQUIRED },
  { "vocab", "vocab_size", "250880" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"alibi\""),
  FACT ("linear_bias", "true"),
  FACT ("embedding_norm", "true"),
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule opt[] = {
  { "hidden", "hidden_size", "768" },
  { "layers", "num_hidden_layers", "12" },
  { "heads", "num_attention_heads", "12" },
  { "ffn", "ffn_dim", "3072" },
  { "vocab", "vocab_size", "50272" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"learned\""),
  FACT ("linear_bias", "true"),
  { "embedding_dim", "word_embed_proj_dim", NULL },
  { "dropout", "dropout", "0.1" },
  END,
};

static const HfRule falcon[] = {
  { "hidden", "hidden_size", "4544" },
  { "layers", "num_hidden_layers n_layer", "32" },
  { "heads", "num_attention_heads n_head", "71" },
  { "kv_heads", "num_kv_heads n_head_kv", NULL },
  { "ffn", "ffn_hidden_size", NULL },
  { "vocab", "vocab_size", "65024" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  FACT ("positions", "\"rope\""),
  { "linear_bias", "bias", NULL },
  { "dropout", "hidden_dropout", "0" },
  END,
};

static const HfRule mpt[] = {
  { "hidden", "d_model", "2048" },
  { "layers", "n_layers", "24" },
  { "heads", "n_heads", "16" },
  { "vocab", "vocab_size", "50368" },
  { "max_positions", "max_seq_len", "2048" },
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"alibi\""),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phi[] = {
  LLAMA_NAMES ("2048", "24", "32", "8192", "51200"),
  KV_HEADS (NULL),
  TIED ("false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("positions", "\"rope\""),
  FACT ("linear_bias", "true"),
  FACT ("head_bias", "true"),
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phi3[] = {
  LLAMA_NAMES ("3072", "32", "32", "8192", "32064"),
  { "window", "sliding_window", NULL },
  { "dropout", "resid_pdrop", "0" },
  END,
};

static const HfRule phimoe[] = {
  LLAMA_NAMES ("4096", "32", "32", "6400", "32064"),
  KV_HEADS ("8"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "head_bias", "lm_head_bias", NULL },
  { "window", "sliding_window", NULL },
  EXPERTS ("num_local_experts", "16", "2", NULL),
  { "expert_ffn", "intermediate_size", "6400" },
  END,
};

static const HfRule latent_attention[] = {
  LLAMA_NAMES (REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED),
  { "kv_heads", NULL, NULL },
  { "head_dim", NULL, NULL },
  { "attention_bias", "attention_bias", NULL },
  EXPERTS ("n_routed_experts", REQUIRED, REQUIRED, REQUIRED),
  { "shared_experts", "n_shared_experts", NULL },
  { "dense_layers", "first_k_dense_replace", NULL },
  { "mla.q_lora_rank", "q_lora_rank", "1536" },
  { "mla.kv_lora_rank", "kv_lora_rank", "512" },
  { "mla.qk_nope_head_dim", "qk_nope_head_dim", "128" },
  { "mla.qk_rope_head_dim", "qk_rope_head_dim", "64" },
  { "mla.v_head_dim", "v_head_dim", "128" },
  { "mtp_layers", "num_nextn_predict_layers", NULL },
  END,
};

static const HfRule deepseek_v3[] = {
  LLAMA_NAMES ("7168", "61", "128", "18432", "129280"),
  EXPERTS ("n_routed_experts", "256", "8", "2048"),
  { "shared_experts", "n_shared_experts", "1" },
  { "dense_layers", "first_k_dense_replace", "3" },
  { "mla.q_lora_rank", "q_lora_rank", "1536" },
  FACT ("router_bias", "true"),
  END,
};

static const HfRule indexed_attention[] = {
  FACT ("router_bias", "true"),
  { "indexer.heads", "index_n_heads", REQUIRED },
  { "indexer.head_dim", "index_head_dim", REQUIRED },
  { "indexer.top_k", "index_topk", REQUIRED },
  END,
};

static const HfRule glm[] = {
  LLAMA_NAMES ("4096", "40", "32", "13696", "151552"),
  KV_HEADS ("2"),
  HEAD_DIM ("128"),
  { "qkv_bias", "attention_bias", "true" },
  END,
};

static const HfRule glm4[] = {
  LLAMA_NAMES ("4096", "40", "32", "13696", "151552"),
  KV_HEADS ("2"),
  HEAD_DIM ("128"),
  { "qkv_bias", "attention_bias", NULL },
  FACT ("layer_norms", "4"),
  END,
};

static const HfRule glm4_moe[] = {
  LLAMA_NAMES ("4096", "46", "96", "10944", "151552"),
  KV_HEADS ("8"),
  { "qkv_bias", "attention_bias", NULL },
  { "qk_norm", "use_qk_norm", NULL },
  EXPERTS ("n_routed_experts", "128", "8", "1408"),
  { "shared_experts", "n_shared_experts", "1" },
  { "dense_layers", "first_k_dense_replace", "1" },
  FACT ("router_bias", "true"),
  { "mtp_layers", "num_nextn_predict_layers", NULL },
  END,
};

static const HfRule chatglm[] = {
  { "hidden", "hidden_size", REQUIRED },
  { "layers", "num_layers num_hidden_layers", REQUIRED },
  { "heads", "num_attention_heads", REQUIRED },
  { "kv_heads", "multi_query_group_num", NULL },
  { "head_dim", "kv_channels", NULL },
  { "ffn", "ffn_hidden_size", REQUIRED },
  { "vocab", "padded_vocab_size vocab_size", REQUIRED },
  { "linear_bias", "add_bias_linear", NULL },
  { "qkv_bias", "add_qkv_bias", NULL },
  { "dropout", "hidden_dropout", NULL },
  END,
};

static const HfRule gpt_oss[] = {
  LLAMA_NAMES ("2880", "36", "64", "2880", "201088"),
  KV_HEADS ("8"),
  HEAD_DIM ("64"),
  { "attention_bias", "attention_bias", "true" },
  FACT ("mlp_bias", "true"),
  FACT ("attention_sinks", "true"),
  { "window", "sliding_window", "128" },
  FACT ("global_every", "2"),
  { "experts", "num_local_experts", "128" },
  { "top_k", "num_experts_per_tok experts_per_token", "4" },
  { "expert_ffn", "intermediate_size", "2880" },
  FACT ("router_bias", "true"),
  END,
};

static const HfRule llama4[] = {
  LLAMA_NAMES ("5120", "48", "40", "16384", "202048"),
  { "ffn", "intermediate_size_mlp", "16384" },
  KV_HEADS ("8"),
  HEAD_DIM ("128"),
  { "attention_bias", "attention_bias", NULL },
  { "window", "attention_chunk_size", "8192" },
  FACT ("chunked_window", "true"),
  { "global_every", "no_rope_layer_interval", "4" },
  { "experts", "num_local_experts", "16" },
  { "top_k", "num_experts_per_tok", "1" },
  { "expert_ffn", "intermediate_size", "8192" },
  FACT ("shared_experts", "1"),
  { "moe_every", "interleave_moe_layer_step", "1" },
  END,
};

static const HfRule minimax_m2[] = {
  { "qk_norm", "use_qk_norm", "true" },
  { "experts", "num_local_experts", REQUIRED },
  { "top_k", "num_experts_per_tok", REQUIRED },
  { "expert_ffn", "intermediate_size", REQUIRED },
  { "router_bias", "use_routing_bias", "true" },
  END,
};

static const HfRule olmo2[] = {
  LLAMA_NAMES ("4096", "32", "32", "11008", "50304"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("qk_norm", "true"),
  FACT ("qk_norm_full", "true"),
  END,
};

static const HfRule olmoe[] = {
  LLAMA_NAMES ("2048", "16", "16", "2048", "50304"),
  { "attention_bias", "attention_bias", NULL },
  FACT ("qk_norm", "true"),
  FACT ("qk_norm_full", "true"),
  EXPERTS ("num_experts", "64", "8", NULL),
  { "expert_ffn", "intermediate_size", "2048" },
  END,
};

static const HfRule cohere[] = {
  LLAMA_NAMES ("8192", "40", "64", "22528", "256000"),
  TIED ("true"),
  FACT ("norm", "\"layernorm\""),
  { "attention_bias", "attention_bias", NULL },
  { "qk_norm", "use_qk_norm", NULL },
  FACT ("layer_norms", "1"),
  FACT ("parallel_attention", "true"),
  END,
};

static const HfRule cohere2[] = {
  { "qk_norm", NULL, NULL },
  { "window", "sliding_window", "4096" },
  { "global_every", "sliding_window_pattern", "4" },
  END,
};

static const HfRule starcoder2[] = {
  LLAMA_NAMES ("3072", "30", "24", "12288", "49152"),
  KV_HEADS ("2"),
  TIED ("true"),
  FACT ("gated_mlp", "false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "linear_bias", "use_bias", "true" },
  { "window", "sliding_window", NULL },
  { "dropout", "residual_dropout", "0" },
  END,
};

static const HfRule nemotron[] = {
  LLAMA_NAMES ("6144", "32", "48", "24576", "256000"),
  FACT ("gated_mlp", "false"),
  FACT ("norm", "\"layernorm\""),
  FACT ("norm_bias", "true"),
  { "attention_bias", "attention_bias", NULL },
  { "mlp_bias", "mlp_bias", NULL },
  END,
};

static const HfRule dbrx[] = {
  { "hidden", "d_model", REQUIRED },
  { "layers", "n_layers", REQUIRED },
  { "heads", "n_heads", REQUIRED },
  { "kv_heads", "attn_config/kv_n_heads", "1" },
  { "ffn", "ffn_config/ffn_hidden_size", REQUIRED },
  { "vocab", "vocab_size", REQUIRED },
  FACT ("norm", "\"layernorm\""),
  { "experts", "ffn_config/moe_num_experts", REQUIRED },
  { "top_k", "ffn_config/moe_top_k", REQUIRED },
  { "expert_ffn", "ffn_config/ffn_hidden_size", REQUIRED },
  { "dropout", "resid_pdrop", "0" },
  END,
};

#define HYBRID "layers of attention and of state-space or linear attention in turns are not described yet"
#define REFUSED(types, why) { types, why, { NULL }, NULL, TRUE }

const HfType sc_hf_types[] = {
  { "llama granite seed_oss", "grouped queries, gated MLP", { plain, llama }, NULL, FALSE },
  { "mistral ministral", "a sliding window, which later models leave out", { plain, mistral }, sc_hf_finish_window, FALSE },
  { "mixtral", "every layer with experts", { plain, mixtral }, sc_hf_finish_window, FALSE },
  { "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", "biases on queries, keys and values", { plain, qwen2 }, sc_hf_finish_qwen, FALSE },
  { "qwen2_moe", "experts, and shared ones behind a gate", { plain, qwen2_moe }, sc_hf_finish_qwen_moe, FALSE },
  { "qwen3 qwen3_vl_text", "norms on queries and keys, heads of their own size", { plain, qwen3 }, sc_hf_finish_qwen, FALSE },
  { "qwen3_moe qwen3_vl_moe_text", "the same with experts", { plain, qwen3_moe }, sc_hf_finish_qwen_moe, FALSE },
  { "gemma", "tied tables, wide heads", { plain, gemma }, NULL, FALSE },
  { "gemma2", "four norms a layer, every other layer with a window", { plain, gemma2 }, sc_hf_finish_window, FALSE },
  { "gemma3_text gemma3", "norms on queries and keys, every sixth layer without a window", { plain, gemma2, gemma3 }, sc_hf_finish_window, FALSE },
  { "gpt2", "learned positions, biases, tied tables", { gpt2 }, NULL, FALSE },
  { "gptj", "attention beside the MLP behind one norm", { gptj }, NULL, FALSE },
  { "gpt_neox", "attention beside the MLP, biases", { gpt_neox }, sc_hf_finish_neox, FALSE },
  { "bloom", "ALiBi, a norm behind the embedding", { bloom }, NULL, FALSE },
  { "opt", "learned positions, two rows more than it says", { opt }, sc_hf_finish_opt, FALSE },
  { "falcon RefinedWeb RefinedWebModel", "attention beside the MLP, one key head or groups", { falcon }, sc_hf_finish_falcon, FALSE },
  { "mpt", "ALiBi, no biases", { mpt }, sc_hf_finish_mpt, FALSE },
  { "phi phi-msft", "attention beside the MLP behind one norm, biases", { phi }, NULL, FALSE },
  { "phi3", "as llama, matrices joined", { plain, phi3 }, sc_hf_finish_window, FALSE },
  { "phimoe", "experts without biases, all else with", { plain, phimoe }, sc_hf_finish_window, FALSE },
  { "deepseek_v2", "latent attention, experts and shared ones", { plain, latent_attention }, sc_hf_finish_deepseek, FALSE },
  { "deepseek_v3 kimi_k2", "the same, and a bias of the router", { plain, latent_attention, deepseek_v3 }, sc_hf_finish_deepseek, FALSE },
  { "deepseek_v32 glm_moe_dsa", "the same, and an indexer that chooses keys", { plain, latent_attention, indexed_attention },
    sc_hf_finish_deepseek, FALSE },
  { "glm", "biases on queries, keys and values", { plain, glm }, NULL, FALSE },
  { "glm4", "four norms a layer", { plain, glm4 }, NULL, FALSE },
  { "glm4_moe", "experts and shared ones, a bias of the router", { plain, glm4_moe }, NULL, FALSE },
  { "chatglm", "GLM under Megatron's names", { plain, chatglm }, sc_hf_finish_chatglm, FALSE },
  { "gpt_oss", "experts with biases, sinks, every other layer with a window", { plain, gpt_oss }, sc_hf_finish_window, FALSE },
  { "llama4_text llama4", "every n-th layer with experts, attention in chunks", { plain, llama4 }, sc_hf_finish_llama4, FALSE },
  { "minimax_m2", "every layer with experts, norms over all heads", { plain, minimax_m2 }, sc_hf_finish_minimax, FALSE },
  { "olmo2", "norms on all queries and all keys", { plain, olmo2 }, NULL, FALSE },
  { "olmoe", "the same with experts", { plain, olmoe }, NULL, FALSE },
  { "cohere", "attention beside the MLP behind one norm, tied tables", { plain, cohere }, sc_hf_finish_full_qk_norm, FALSE },
  { "cohere2", "the same, every fourth layer without a window", { plain, cohere, cohere2 }, sc_hf_finish_full_qk_norm, FALSE },
  { "starcoder2", "two matrices in the MLP, biases", { plain, starcoder2 }, sc_hf_finish_window, FALSE },
  { "nemotron", "two matrices in the MLP, no biases", { plain, nemotron }, NULL, FALSE },
  { "dbrx", "every layer with experts, nested keys", { plain, dbrx }, NULL, FALSE },
  REFUSED ("nemotron_h jamba bamba zamba zamba2 falcon_h1 granitemoehybrid", HYBRID),
  REFUSED ("qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text kimi_linear minimax minimax_text_01 recurrent_gemma lfm2", HYBRID),
  REFUSED ("mamba mamba2 falcon_mamba rwkv", "models without attention are not described yet"),
  REFUSED ("nemotron-nas deci", "layers that all differ are not described yet"),
  REFUSED ("gemma3n gemma3n_text", "layers with embeddings of their own are not described yet"),
  REFUSED ("t5 mt5 bart bert roberta whisper", "models with an encoder are not described"),
};

guint
sc_hf_n_types (void)
{
  return G_N_ELEMENTS (sc_hf_types);
}

ScHfTypeInfo
sc_hf_type_info (guint i)
{
  return (ScHfTypeInfo){ sc_hf_types[i].types, sc_hf_types[i].summary, sc_hf_types[i].refused };
}
