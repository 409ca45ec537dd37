/* SPDX-License-Identifier: GPL-3.0-or-later */
/* check_input.c - devices, topologies and workloads: what follows, what is refused, and what --set changes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <glib/gstdio.h>
#include "cmd.h"
#include "device-json.h"
#include "library.h"
#include "override.h"
#include "kernel-rows.h"
#include "pace.h"
#include "samples-json.h"
#include "systems-json.h"
#include "topology-json.h"
#include "rows-json.h"
#include "validate-schedules.h"
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

static ScWorkload *
workload_set (const char *text, const char *set, GError **error)
{
  g_autoptr (ScJson) json = parse ("w.json", text);
  g_auto (GStrv) all = g_strsplit (set, " ", -1);
  return sc_override_apply (json, SC_OVERRIDE_WORKLOAD, all, error) ? sc_workload_from_json (json, error) : NULL;
}

static ScTopology *
topology_set (const char *text, const char *set, const char *device, GError **error)
{
  g_autoptr (ScJson) json = parse ("t.json", text);
  g_auto (GStrv) all = g_strsplit (set, " ", -1);
  return sc_override_apply (json, SC_OVERRIDE_TOPOLOGY, all, error) ? sc_topology_from_json (json, NULL, device, error)
                                                                    : NULL;
}

/* ---- Workloads ---- */

#define WORKLOAD                                                                                                       \
  "{'name': 'w', 'model': {'hidden': 1024, 'layers': 24, 'heads': 16, 'vocab': 51200, 'norm': 'layernorm',"            \
  " 'positions': 'learned'}, 'seq': 2048, 'plan': {'tp': 4, 'pp': 2, 'dp': 3, 'micro_batch': 2, 'global_batch': 48}}"

START_TEST (what_is_left_out_follows)
{
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, "", NULL);
  ck_assert_ptr_nonnull (w);
  ck_assert_str_eq (w->model.name, "w");
  ck_assert_uint_eq (w->model.kv_heads, 16);
  ck_assert_uint_eq (w->model.head_dim, 64);
  ck_assert_uint_eq (w->model.ffn, 4096);
  ck_assert_uint_eq (w->model.max_positions, 2048);
  ck_assert_uint_eq (w->plan.gpus, 24);
  ck_assert_uint_eq (w->plan.vpp, 1);
  ck_assert_str_eq (w->plan.schedule, "1f1b");
  ck_assert_int_eq (w->plan.dtype, SC_DTYPE_BF16);
  ck_assert_int_eq (w->plan.grad_dtype, SC_DTYPE_FP32);
  ck_assert_uint_eq (w->plan.bucket_params, 40000000);
  ck_assert_uint_eq (sc_workload_microbatches (w), 8);
  ck_assert_str_eq (w->framework->name, "megatron-core");
}
END_TEST

static const struct
{
  const char *set;
  guint tp, pp, dp, gpus;
} worlds[] = {
  { "", 4, 2, 3, 24 },
  { "plan.dp=6", 4, 2, 6, 48 },
  { "plan.gpus=32", 4, 2, 4, 32 }, /* the file's dp gives way */
  { "plan.tp=8", 8, 2, 3, 48 },
  { "plan.gpus=24 plan.dp=3", 4, 2, 3, 24 },
  { "plan.gpus=null plan.dp=1", 4, 2, 1, 8 },
};

START_TEST (world_size_follows_from_dp_or_dp_from_it)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, worlds[_i].set, &error);
  ck_assert_msg (w != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (w->plan.tp, worlds[_i].tp);
  ck_assert_uint_eq (w->plan.pp, worlds[_i].pp);
  ck_assert_uint_eq (w->plan.dp, worlds[_i].dp);
  ck_assert_uint_eq (w->plan.gpus, worlds[_i].gpus);
}
END_TEST

/* A file that gives both keeps its gpus when only tp changes. */
START_TEST (a_file_with_both_keeps_its_gpus)
{
  g_autoptr (ScJson) json = parse ("w.json", WORKLOAD);
  cJSON_AddNumberToObject (cJSON_GetObjectItemCaseSensitive (json->root, "plan"), "gpus", 24);
  char text[] = "plan.tp=1";
  char *set[] = { text, NULL };
  ck_assert (sc_override_apply (json, SC_OVERRIDE_WORKLOAD, set, NULL));
  g_autoptr (ScWorkload) w = sc_workload_from_json (json, NULL);
  ck_assert_ptr_nonnull (w);
  ck_assert_uint_eq (w->plan.gpus, 24);
  ck_assert_uint_eq (w->plan.dp, 12);
}
END_TEST

#define EXPERTS "model.experts=8 model.top_k=2 plan.sequence_parallel=true "
#define MLA "model.mla.kv_lora_rank=512 model.mla.qk_nope_head_dim=128 model.mla.qk_rope_head_dim=64 model.mla.v_head_dim=128"

static const struct
{
  const char *set;
  const char *message; /* the error has this */
} refused[] = {
  { "plan.tp=6", "/plan/tp: 6 does not divide 16 heads (try 4 or 8)" },
  { "model.kv_heads=3", "/model/kv_heads: 3 does not divide 16 heads (try 2 or 4)" },
  { "model.heads=12 model.kv_heads=6 model.head_dim=64",
    "/plan/tp: 4 neither divides 6 KV heads nor is a multiple of them" },
  { "model.ffn=1022", "/plan/tp: 4 does not divide ffn 1022 (try 2 or 7)" },
  { "model.vocab=50257",
    "/model/vocab: 50257 is not a multiple of tp 4; give it padded as the run pads it (try 50688" },
  { "model.heads=28", "/model/heads: 28 does not divide hidden 1024 (try 16 or 32), or give head_dim" },
  { "model.max_positions=1024", "/model/max_positions: found 1024, expected at least seq 2048" },
  { "plan.global_batch=50", "/plan/global_batch: 50 is not a multiple of dp 3 x micro_batch 2 = 6 (try 48 or 54)" },
  { "plan.global_batch=5", "(try 6)" },
  { "plan.gpus=25", "/plan/gpus: 25 is not a multiple of tp 4 x pp 2 x cp 1 = 8 (try 24 or 32)" },
  { "plan.gpus=32 plan.dp=3",
    "/plan/gpus: found 32, but tp 4 x pp 2 x cp 1 x dp 3 = 24 (give dp or gpus, the other follows)" },
  { "plan.dp=null", "/plan/dp: missing, expected dp or gpus" },
  { "plan.dp=8000000", "GPUs, expected at most 8000000" },
  { "plan.pp=32", "/plan/pp: pp 32 x vpp 1 = 32 stages, but the model has 24 layers" },
  { "plan.schedule=none", "/plan/schedule: found none with pp 2, expected 1f1b or interleaved" },
  { "plan.vpp=2 plan.schedule=1f1b", "/plan/schedule: found 1f1b with vpp 2, expected interleaved" },
  { "plan.schedule=interleaved", "/plan/schedule: found interleaved with vpp 1, expected vpp > 1 (or 1f1b)" },
  { "plan.pp=1 plan.vpp=2", "/plan/vpp: found 2 with pp 1, expected 1" },
  { "plan.vpp=2 plan.global_batch=6", "/plan/global_batch: found 1 micro-batches per step, expected at least pp 2" },
  { "plan.vpp=2 plan.microbatch_group=1",
    "/plan/microbatch_group: found 1, expected 2 (pp) to 8 (micro-batches per step)" },
  { "plan.vpp=2 plan.microbatch_group=9", "/plan/microbatch_group: found 9, expected 2" },
  { "plan.vpp=2 plan.microbatch_group=7", "/plan/microbatch_group: 7 leaves a last group of 1 micro-batches (of 8)" },
  { "plan.tp=1 plan.sequence_parallel=true", "/plan/sequence_parallel: found true with tp 1, expected tp > 1" },
  { "plan.sequence_parallel=true seq=2046",
    "/seq: 2046 is not a multiple of tp 4, as sequence parallelism needs (try 2044 or 2048)" },
  { "plan.sequence_parallel=true plan.scatter_gather=true", "/plan/scatter_gather: found true with sequence_parallel" },
  { "plan.tp=1 plan.scatter_gather=true", "/plan/scatter_gather: found true with tp 1, expected tp > 1" },
  { "plan.overlap_param=true", "/plan/overlap_param: found true with sharding none" },
  { "plan.overlap_p2p=true", "/plan/overlap_p2p: found true with schedule 1f1b, expected interleaved" },
  { "plan.grad_dtype=fp16", "/plan/grad_dtype: found fp16 with dtype bf16, expected fp32 or bf16" },
  { "plan.stage_layers=[12]", "/plan/stage_layers: found 1 elements, expected one for each of pp 2 x vpp 1 stages" },
  { "plan.stage_layers=[12,11]", "/plan/stage_layers: the stages have 23 layers, the model 24" },
  { "plan.stage_layers=[12,1.5]", "/plan/stage_layers/1: found 1.5, expected a whole number" },
  { "plan.pp=3 plan.stage_layers=[12,0,12]", "/plan/stage_layers/1: found 0, expected at least 1 but on the first" },
  { "plan.stage_layers=[12,12] plan.account_for_loss=true",
    "/plan/stage_layers: found with account_for_embedding or account_for_loss" },
  { "plan.cp=2 plan.attention=unfused", "/plan/attention: found unfused with cp 2, expected flash" },
  { "plan.cp=3", "/seq: 2048 is not a multiple of 6, as two chunks for each of cp 3 need (try 2046 or 2052)" },
  { "plan.cp_comm=a2a", "/plan/cp_comm: found with cp 1, expected cp > 1" },
  { "plan.cp=2 plan.cp_a2a=2", "/plan/cp_a2a: found 2 with another cp_comm than a2a+p2p" },
  { "plan.cp=4 plan.cp_comm=a2a+p2p", "/plan/cp_a2a: found 0, expected a divisor of cp 4" },
  { "plan.cp=8 plan.cp_comm=a2a", "/plan/cp: 8 does not divide the 4 heads of a tensor-parallel rank" },
  { "plan.cp=2 model.window=512", "/plan/cp_comm: found a ring for layers with a window of 512 tokens" },
  { "plan.tp_overlap=true", "/plan/tp_overlap: found true without sequence_parallel, expected both" },
  { "plan.tp=2 plan.sequence_parallel=true plan.tp_overlap=true plan.micro_batch=1 plan.global_batch=48 seq=2046",
    "/plan/tp_overlap: found true with 2046 tokens of a micro-batch, expected a multiple of the 4 chunks" },
  { "plan.sharding=zero2", "/plan/sharding: found zero2 with pp 2, expected zero1" },
  { "plan.sharding=zero3", "/plan/sharding: found zero3 with pp 2, expected zero1" },
  { "plan.pp=1 plan.sharding=zero3 plan.grad_sync=last", "/plan/grad_sync: found last with sharding zero3, expected every" },
  { "plan.pp=1 plan.sharding=zero2 plan.grad_sync=last", "/plan/grad_sync: found last with sharding zero2, expected every" },
  { "plan.sharding=zero1 plan.grad_sync=every", "/plan/grad_sync: found every with sharding zero1, expected last" },
  { "plan.sharding=fsdp-full plan.recompute=full plan.recompute_layers=2", "/plan/recompute_layers: found 2 with sharding fsdp-full, expected 1" },
  { "plan.sharding=zero4", "/plan/sharding: found \"zero4\", expected none, zero1, distributed-optimizer" },
  { "plan.dp=4 plan.global_batch=64 plan.sharding=hsdp", "/plan/shard_group: found 0 with sharding hsdp, expected a part of the 4 data-parallel ranks" },
  { "plan.dp=4 plan.global_batch=64 plan.sharding=hsdp plan.shard_group=3", "/plan/shard_group: found 3, expected a part of the 4 data-parallel ranks" },
  { "plan.dp=4 plan.global_batch=64 plan.sharding=hsdp plan.shard_group=4", "/plan/shard_group: found 4 with sharding hsdp" },
  { "plan.shard_group=1", "/plan/shard_group: found 1, expected 2 to 8000000" },
  { "plan.sharding=fsdp-full plan.schedule=dualpipe", "/plan/sharding: found fsdp-full with schedule dualpipe" },
  { "plan.dp=4 plan.global_batch=64 plan.sharding=hsdp plan.shard_group=2 plan.schedule=dualpipe", "/plan/shard_group: found 2 with schedule dualpipe" },
  { "plan.reshard_after_forward=2", "/plan/reshard_after_forward: found 2 with sharding none, expected fsdp-full" },
  { "plan.zero={\"hpz\":2}", "/plan/zero/hpz: found with sharding none, expected zero3" },
  { "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.sharding=zero3 plan.zero={\"hpz\":3}", "/plan/zero/hpz: found 3, expected a part of the 4 data-parallel ranks" },
  { "plan.zero={\"quantized_weights\":true}", "/plan/zero/quantized_weights: found with sharding none, expected zero3" },
  { "plan.zero={\"quantized_gradients\":2}", "/plan/zero/quantized_gradients: found with sharding none, expected zero3" },
  { "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.sharding=zero3 plan.zero={\"quantized_gradients\":2}", "/plan/zero/quantized_gradients: found 2 with tp 4, expected tp 1" },
  { "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.tp=1 plan.sharding=zero3 plan.zero={\"quantized_gradients\":4}",
    "/plan/zero/quantized_gradients: found 4, expected a part of the 4 data-parallel ranks" },
  { "plan.dp=8 plan.global_batch=64 plan.pp=1 plan.tp=1 plan.sharding=zero3 plan.zero={\"quantized_gradients\":2,\"hpz\":4}",
    "/plan/zero/hpz: found 4 with quantized_gradients 2, expected as many" },
  { "plan.dtype=fp8 plan.fp8_recipe=tensorwise plan.fp8_param_gather=true", "/plan/fp8_param_gather: found true with sharding none, expected FSDP" },
  { "plan.dtype=fp8 plan.sharding=fsdp-full plan.fp8_param_gather=true", "/plan/fp8_param_gather: found true with dtype fp8 delayed, expected fp8 with fp8_recipe tensorwise" },
  { "plan.sharding=fsdp-full plan.fp8_param_gather=true", "/plan/fp8_param_gather: found true with dtype bf16, expected fp8" },
  { "plan.dtype=fp8 plan.fp8_recipe=tensorwise plan.sharding=fsdp-full plan.fp8_param_gather=true", "/plan/fp8_param_gather: found true with megatron-core, expected torchtitan" },
  { "plan.offload_layers=2", "/plan/offload_layers: found 2 with offload none, expected activations" },
  { "plan.offload=activations", "/plan/offload: found activations with pp 2, expected pp 1" },
  { "plan.pp=1 plan.offload=activations plan.offload_layers=24", "/plan/offload_layers: found 24, expected 1 to 23" },
  { "plan.pp=1 plan.offload=activations plan.recompute=full", "/plan/recompute: found with offload activations, expected none: Megatron-LM does one or the other" },
  { "plan.pp=1 plan.offload=activations plan.recompute=selective software={\"framework\":\"pytorch\"}", "/plan/recompute: found with offload activations, expected none or full" },
  { "plan.pp=1 plan.offload=activations plan.offload_layers=3 software={\"framework\":\"pytorch\"}", "/plan/offload_layers: found 3 with pytorch, expected none" },
  { "plan.pp=1 plan.offload=activations plan.cuda_graphs=true", "/plan/cuda_graphs: found true with offload activations, expected false" },
  { "plan.pp=1 plan.offload=activations software={\"framework\":\"deepspeed\"}", "/plan/offload: found activations with deepspeed 2023, which cannot" },
  { "plan.pp=1 plan.offload=activations plan.schedule=gpipe", "/plan/schedule: " },
  { "plan.zero={\"allgather_bucket\":0}", "/plan/zero/allgather_bucket: found 0, expected 1 to" },
  { "plan.zero={\"allgather_bucket\":1000}", "/plan/zero/allgather_bucket: found with sharding none, expected zero1 or zero2 of DeepSpeed" },
  { "plan.sharding=zero1 plan.zero={\"prefetch_bucket\":1000}", "/plan/zero/prefetch_bucket: found with sharding zero1, expected zero3" },
  { "plan.zero={\"max_live\":1000}", "/plan/zero/max_live: found with sharding none, expected zero3" },
  { "plan.zero={\"max_reuse_distance\":1000}", "/plan/zero/max_reuse_distance: found with sharding none, expected zero3" },
  { "plan.zero={\"persistence_threshold\":1000}", "/plan/zero/persistence_threshold: found with sharding none, expected zero3" },
  { "plan.pp=1 plan.sharding=zero3 plan.zero={\"all_reduce\":true}", "/plan/zero/all_reduce: found with sharding zero3, expected zero1 or zero2" },
  { "plan.sharding=fsdp-full plan.bucket_params=1000", "/plan/bucket_params: found with sharding fsdp-full, expected a strategy with buckets" },
  /* what changes nothing is refused even where it says what is the default */
  { "plan.microbatch_group=2", "/plan/microbatch_group: found 2 with schedule 1f1b, expected interleaved" },
  { "plan.sharding=fsdp-full plan.bucket_params=40000000", "/plan/bucket_params: found with sharding fsdp-full, expected a strategy with buckets" },
  { "plan.zero={\"max_live\":1000000000}", "/plan/zero/max_live: found with sharding none, expected zero3" },
  { "plan.zero={\"prefetch_bucket\":50000000}", "/plan/zero/prefetch_bucket: found with sharding none, expected zero3" },
  { "plan.zero={\"quantized_weights\":false}", "/plan/zero/quantized_weights: found with sharding none, expected zero3" },
  { "plan.pp=1 plan.sharding=zero3 plan.zero={\"all_reduce\":false}", "/plan/zero/all_reduce: found with sharding zero3, expected zero1 or zero2" },
  { "plan.sharding=zero1 plan.zero={\"allgather_bucket\":500000000}", "/plan/zero/allgather_bucket: found with sharding zero1, expected zero1 or zero2 of DeepSpeed" },
  { "plan.pp=1 plan.sharding=zero3 plan.schedule=gpipe", "/plan/schedule: found gpipe with sharding zero3, expected none" },
  { EXPERTS "plan.pp=1 plan.sharding=zero3 plan.etp=1", "/plan/etp: found 1 with sharding zero3, expected tp 4" },
  { EXPERTS "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.sharding=fsdp-full plan.shard_group=4 plan.reshard_after_forward=2",
    "/plan/reshard_after_forward: found with a mixture of experts" },
  { EXPERTS "plan.vpp=2 plan.schedule=interleaved-a2a", "/plan/schedule: found interleaved-a2a with ep 1, expected interleaved or ep > 1" },
  { EXPERTS "plan.ep=2 plan.etp=1 plan.vpp=2 plan.schedule=interleaved-a2a plan.sharding=fsdp-full",
    "/plan/schedule: found interleaved-a2a with sharding fsdp-full, expected interleaved" },
  { "plan.vpp=2 plan.schedule=interleaved-rounds plan.microbatch_group=4", "/plan/microbatch_group: found 4 with schedule interleaved-rounds" },
  { "plan.ep=2", "/plan/ep: found with a model that has no experts" },
  { "plan.etp=2", "/plan/etp: found with a model that has no experts" },
  { "plan.moe_capacity_factor=1", "/plan/moe_capacity_factor: found with a model that has no experts" },
  { "plan.moe_histogram=[1]", "/plan/moe_histogram: found numbers for 1 experts, the model has 0" },
  { "model.experts=8 model.top_k=2", "/plan/sequence_parallel: found false with experts and tp 4, expected true" },
  { EXPERTS "plan.ep=3", "/plan/ep: 3 does not divide 8 experts (try 2 or 4)" },
  { EXPERTS "plan.ep=4 plan.etp=2", "/plan/ep: ep 4 x etp 2 = 8 ranks share out the experts, which does not divide the 12 ranks of a stage (tp 4 x cp 1 x dp 3)" },
  { EXPERTS "model.shared_experts=1 model.expert_ffn=1022 plan.etp=1", "/plan/tp: 4 does not divide the width of the shared experts, 1 x expert_ffn 1022" },
  { EXPERTS "plan.moe_node_limit=2", "/plan/moe_node_limit: found 2 with moe_dispatcher all-to-all, expected deepep" },
  { EXPERTS "plan.moe_dispatcher=allgather", "/plan/moe_dispatcher: found \"allgather\"" },
  { EXPERTS "plan.moe_shared_overlap=true", "/plan/moe_shared_overlap: found true with a model that has no shared experts" },
  { EXPERTS "model.shared_experts=1 plan.etp=1 plan.moe_shared_overlap=true", "/plan/moe_shared_overlap: found true with ep 1" },
  { EXPERTS "plan.etp=1 plan.ep=2 plan.moe_imbalance=2.5", "/plan/moe_imbalance: found 2.5, expected at most 2: each of 2 ranks has 4 experts" },
  { EXPERTS "plan.moe_imbalance=0.5", "/plan/moe_imbalance: found 0.5, expected 1 to 1e+06" },
  { EXPERTS "plan.moe_histogram=[1,1,1]", "/plan/moe_histogram: found numbers for 3 experts, the model has 8" },
  { EXPERTS "plan.moe_histogram=[0,0,0,0,0,0,0,0]", "/plan/moe_histogram: line 1 has no tokens" },
  { EXPERTS "plan.moe_histogram=[9,1,1,1,1,1,1,1]", "/plan/moe_histogram: line 1 gives one expert 9 of 16, more than every token once (top_k is 2)" },
  { EXPERTS "plan.moe_histogram=[1,1,1,1,1,1,1,1] plan.moe_imbalance=1.5", "/plan/moe_imbalance: found with recorded tokens" },
  { EXPERTS "plan.moe_histogram=[1,1,1,1,1,1,1,1] plan.moe_routing=x.csv", "/plan/moe_routing: found with moe_histogram" },
  { "plan.schedule=zbh1", "/plan/schedule: found \"zbh1\", expected none, 1f1b, interleaved" },
  { "plan.schedule=zb-v", "/plan/schedule: zb-v needs at least two pipeline ranks and two chunks per rank (vpp 2); found pp 2, vpp 1" },
  { "plan.schedule=csv", "/plan/schedule: found \"csv\" without schedule_csv" },
  { "plan.schedule_csv=none.csv", "/plan/schedule_csv: found with schedule" },
  { "plan.schedule=gpipe plan.vpp=2", "/plan/schedule: gpipe has one chunk per rank (use looped-bfs); found pp 2, vpp 2" },
  { "plan.recompute=policy:minimal", "/plan/recompute: found \"policy:minimal\", but what a policy saves is not modelled yet" },
  { "plan.dtype=fp9", "/plan/dtype: found \"fp9\", expected bf16, fp16, fp32, fp8, mxfp8 or nvfp4" },
  { "plan.optimizer=adamw", "/plan/optimizer: found \"adamw\", expected adam, adam-8bit, sgd-momentum, lion or muon" },
  { "plan.optimizer=muon plan.sharding=zero1", "/plan/optimizer: found muon with sharding zero1, expected none or distributed-optimizer" },
  { "plan.optimizer=muon plan.dtype=fp16", "/plan/optimizer: found muon with dtype fp16, expected bf16" },
  { "plan.optimizer=lion plan.sharding=zero1 plan.offload=optimizer", "/plan/optimizer: found lion with offload optimizer, expected adam" },
  { "plan.offload=optimizer", "/plan/offload: found optimizer with sharding none, expected a strategy that shares the optimizer out" },
  { "plan.sharding=zero1 plan.offload=params", "/plan/offload: found params with sharding zero1, expected optimizer" },
  { "plan.sharding=fsdp-full plan.offload=params", "/plan/offload: found params with sharding fsdp-full, expected both" },
  { "plan.pp=1 plan.sharding=zero1 plan.offload=optimizer+params+activations", "/plan/offload: found optimizer+params+activations with sharding zero1, expected optimizer" },
  { "seq_lengths=[[2048,1],[2049,7]]", "/seq_lengths/1/0: found 2049, expected at most seq 2048: cut longer documents first" },
  { "seq_lengths=[[2048]]", "/seq_lengths/0: found an array, expected [length, count]" },
  { "seq_lengths=[]", "/seq_lengths: found an empty array" },
  { "seq_lengths=3", "/seq_lengths: found 3, expected an array of [length, count] or the path of a file" },
  { "seq_lengths=[[100,0]]", "/seq_lengths/0/1: found 0, expected 1 to" },
  { "seq_lengths=[[1024,1]] plan.attention=unfused", "/seq_lengths: found with attention unfused, expected flash" },
  { EXPERTS "plan.cuda_graphs=true", "/plan/cuda_graphs: found true with experts, expected false" },
  { "plan.shard_group=2", "/plan/shard_group: found 2 with sharding none, expected hsdp or distributed-optimizer" },
  { "model.experts=8", "/model/top_k: found 0, expected 1 to 8 (experts)" },
  { "model.experts=8 model.top_k=9", "/model/top_k: found 9, expected 1 to 8 (experts)" },
  { "model.top_k=2", "/model/experts: found 0 with top_k, expected both or none" },
  { "model.shared_experts=1", "/model/experts: found 0 with shared_experts, expected both or none" },
  { EXPERTS "model.expert_ffn=1022", "/plan/etp: 4 does not divide expert_ffn 1022 (try 2 or 7)" },
  { "model.qk_norm=true " MLA, "/model/qk_norm: found with mla" },
  { "model.experts=65536 model.top_k=1 model.expert_ffn=10000000", "/model: found about" },
  { "model.mla={\"q_lora_rank\":1536}", "/model/mla/kv_lora_rank: missing, expected a whole number" },
  { "model.mla.kv_lora_rank=512 model.mla.qk_nope_head_dim=128 model.mla.qk_rope_head_dim=64 model.mla.v_head_dim=128 model.head_dim=64",
    "/model/head_dim: found 64, but with MLA it is qk_nope_head_dim + qk_rope_head_dim = 192" },
  { "model.indexer={\"heads\":64,\"head_dim\":128,\"top_k\":2048}", "/model/indexer: found without mla/q_lora_rank" },
  { "model.layer_norms=5", "/model/layer_norms: found 5, expected 1 to 4" },
  { "model.layer_norms=3", "/model/layer_norms: found 3, expected 1, 2 or 4" },
  { "model.layer_norms=1", "/model/layer_norms: found 1, expected 2 or 4" },
  { "model.family=mixtrale", "(did you mean \"mixtral\"?)" },
  { "model.extra={\"activation\":\"squared-relu\"}", "/model/extra: found an object, but this key is not modelled yet" },
  { "model.params_b=0.5", "/model/params_b: found 0.5, but the model has 0.409 billion" },
  { "software.framework=internevo", "/software/framework: found \"internevo\", which is not modelled yet" },
  { "software.framework=megatron-ml", "/software/framework: found \"megatron-ml\", did you mean \"megatron-lm\"?" },
  { "software.framework=megatron-lm software.version=\"2019\"",
    "/software/version: found \"2019\", expected one of 2021, 2022" },
  { "plan.dp=1 plan.micro_batch=1 plan.global_batch=20000",
    "/plan/global_batch: found 20000 micro-batches per step, expected at most 16383" },
  { "model.hidden=1000000 model.heads=16384 model.head_dim=4096 model.ffn=10000000 model.layers=1000",
    "/model: found about" },
  { "seq=10000000 plan.micro_batch=65536 plan.dp=1 plan.global_batch=65536 plan.attention=unfused",
    "bytes of activations per step, expected at most" },
};

START_TEST (plans_that_cannot_be_are_refused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, refused[_i].set, &error);
  ck_assert_msg (w == NULL, "%s", refused[_i].set);
  ck_assert_msg (strstr (error->message, refused[_i].message) != NULL, "%s", error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
  ck_assert_int_eq (sc_status_of_error (error), SC_STATUS_DATA);
}
END_TEST

/* What is counted, but not simulated yet. */
static const struct
{
  const char *set;
  const char *message; /* the refusal begins so; NULL: none */
} counted[] = {
  { "", NULL },
  { EXPERTS "plan.dp=3", NULL },
  { EXPERTS "plan.ep=4 plan.etp=1", NULL },
  { MLA, NULL },
  { MLA " model.mla.q_lora_rank=1536 model.indexer.heads=64 model.indexer.head_dim=128 model.indexer.top_k=2048", "/model/indexer: " },
  { "model.mtp_layers=1", NULL },
  { "model.window=2047", NULL },
  { "model.window=2047 model.global_every=2", NULL },
  { "model.window=2048", NULL },
  { "model.window=1024 model.global_every=1", NULL },
  { "model.attention_sinks=true", NULL },
  { "model.attention_bias=true", NULL },
  { "model.mlp_bias=true", NULL },
  { "model.norm_bias=true", NULL },
  { "model.head_bias=true", NULL },
  { "model.qk_norm=true model.qk_norm_full=true", NULL },
  { "model.layer_norms=4", NULL },
  { "model.parallel_attention=true", NULL },
  { "model.parallel_attention=true model.layer_norms=1", NULL },
  { "model.embedding_dim=512", NULL },
  { "model.no_final_norm=true", NULL },
};

START_TEST (models_that_are_only_counted_say_so_before_a_run)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, counted[_i].set, &error);
  ck_assert_msg (w != NULL, "%s: %s", counted[_i].set, error != NULL ? error->message : "");
  ck_assert_msg (sc_workload_check_modelled (w, &error) == (counted[_i].message == NULL), "%s", counted[_i].set);
  if (counted[_i].message != NULL)
    ck_assert_msg (g_str_has_prefix (error->message, counted[_i].message), "%s", error->message);
}
END_TEST

static const char *const accepted[] = {
  "model.kv_heads=2", /* tp over KV heads: two ranks hold each */
  "model.kv_heads=1 plan.tp=16",
  "plan.pp=1 plan.schedule=none",
  "plan.pp=1 plan.schedule=1f1b",
  "plan.vpp=2 plan.microbatch_group=6", /* a last group of 2 >= pp */
  "plan.vpp=2 plan.microbatch_group=8",
  "plan.sequence_parallel=true",
  "plan.scatter_gather=true",
  "plan.stage_layers=[24,0]",
  EXPERTS "plan.ep=2 plan.etp=1 plan.moe_imbalance=2 plan.moe_dispatcher=deepep plan.moe_node_limit=4",
  EXPERTS "plan.moe_histogram=[3,1,1,1,1,1,1,1] plan.moe_capacity_factor=1.25 plan.moe_pad_to_capacity=false",
  EXPERTS "model.shared_experts=1 plan.ep=4 plan.etp=1 plan.moe_shared_overlap=true",
  "plan.offload=null plan.cuda_graphs=false plan.shard_group=null plan.etp=1 plan.extra={}",
  "plan.sharding=zero1 plan.overlap_param=true",
  "plan.sharding=fsdp-full",
  "plan.sharding=fsdp-grad-op plan.grad_sync=every",
  "plan.dp=4 plan.global_batch=64 plan.sharding=hsdp plan.shard_group=2",
  "plan.dp=4 plan.global_batch=64 plan.sharding=distributed-optimizer plan.shard_group=2 plan.overlap_param=true",
  "plan.pp=1 plan.sharding=zero2",
  "plan.pp=1 plan.sharding=zero3 plan.schedule=1f1b",
  "plan.vpp=2 plan.schedule=interleaved-rounds",
  EXPERTS "plan.ep=2 plan.etp=1 plan.vpp=2 plan.schedule=interleaved-a2a",
  "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.sharding=zero3 plan.zero={\"hpz\":2,\"max_live\":100000000,\"quantized_weights\":true}",
  "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.sharding=fsdp-full plan.reshard_after_forward=2",
  "plan.pp=1 plan.offload=activations",
  "plan.pp=1 plan.sharding=zero1 plan.offload=optimizer+activations plan.offload_layers=3",
  "plan.pp=1 plan.sharding=fsdp-full plan.offload=optimizer+params+activations plan.recompute=full software={\"framework\":\"pytorch\"}",
  "plan.dtype=fp8 plan.fp8_recipe=tensorwise plan.sharding=fsdp-full plan.fp8_param_gather=true software={\"framework\":\"torchtitan\"}",
  "plan.dp=4 plan.global_batch=64 plan.pp=1 plan.tp=1 plan.sharding=zero3 plan.zero={\"quantized_gradients\":2,\"hpz\":2}",
  "model.params_b=0.4 model.family=gpt",
  "model.positions=rope model.max_positions=1",
};

START_TEST (plans_that_can_be_are_accepted)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, accepted[_i], &error);
  ck_assert_msg (w != NULL, "%s: %s", accepted[_i], error != NULL ? error->message : "");
}
END_TEST

static const struct
{
  guint layers, pp, vpp;
  gboolean embedding, loss;
  const char *stages;
} splits[] = {
  { 24, 4, 1, FALSE, FALSE, "6 6 6 6" },
  { 7, 4, 1, FALSE, FALSE, "2 2 2 1" }, /* one stage to spare: the last, it has the head */
  { 5, 4, 1, FALSE, FALSE, "1 2 1 1" },
  { 6, 4, 1, FALSE, FALSE, "1 2 2 1" },
  { 70, 12, 1, TRUE, TRUE, "5 6 6 6 6 6 6 6 6 6 6 5" },            /* BLOOM, arXiv 2211.05100 */
  { 126, 16, 1, FALSE, FALSE, "7 8 8 8 8 8 8 8 8 8 8 8 8 8 8 7" }, /* Llama 3 405B, arXiv 2407.21783 */
  { 126, 16, 1, TRUE, TRUE, "7 8 8 8 8 8 8 8 8 8 8 8 8 8 8 7" },
  { 6, 2, 4, TRUE, TRUE, "0 1 1 1 1 1 1 0" },
  { 8, 2, 2, FALSE, FALSE, "2 2 2 2" },
  { 5, 1, 1, TRUE, TRUE, "5" },
  { 7, 2, 1, TRUE, FALSE, "3 4" },
};

START_TEST (layers_are_balanced_over_stages)
{
  ScWorkload w = { .model = { .layers = splits[_i].layers },
                   .plan = { .pp = splits[_i].pp,
                             .vpp = splits[_i].vpp,
                             .account_for_embedding = splits[_i].embedding,
                             .account_for_loss = splits[_i].loss } };
  g_autofree guint *layers = sc_workload_stage_layers (&w);
  g_autoptr (GString) text = g_string_new (NULL);
  guint sum = 0;
  for (guint i = 0; i < w.plan.pp * w.plan.vpp; i++)
    {
      g_string_append_printf (text, "%s%u", i > 0 ? " " : "", layers[i]);
      sum += layers[i];
    }
  ck_assert_str_eq (text->str, splits[_i].stages);
  ck_assert_uint_eq (sum, w.model.layers);
}
END_TEST

START_TEST (given_stages_stay_as_they_are)
{
  guint given[] = { 3, 9 };
  const ScWorkload w = { .model = { .layers = 12 }, .plan = { .pp = 2, .vpp = 1, .stage_layers = given } };
  g_autofree guint *layers = sc_workload_stage_layers (&w);
  ck_assert_uint_eq (layers[0], 3);
  ck_assert_uint_eq (layers[1], 9);
}
END_TEST

/* ---- Topologies ---- */

#define TOPOLOGY                                                                                                       \
  "{'name': 't', 'node_types': {'a.b': {'gpu': 'H100', 'gpus': 8, 'nvlink': {'bandwidth': '366 GB/s', 'latency': '1 "  \
  "us'},"                                                                                                              \
  " 'nics': {'count': 8, 'bandwidth': '400 Gb/s', 'latency': '10 us'}}}, 'nodes': [{'type': 'a.b', 'count': 4}],"      \
  " 'fabric': {'rail_optimised': true, 'tiers': [{'radix': 64}]}, 'collective_launch': '4 us'}"

START_TEST (a_topology_is_read)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, "", NULL, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (t->n_nodes, 4);
  ck_assert_uint_eq (t->n_gpus, 32);
  const ScNodeType *type = sc_topology_node_type (t, 3);
  ck_assert_str_eq (type->device->name, "h100-sxm-80gb");
  ck_assert (type->has_nvlink);
  ck_assert_uint_eq (type->nvlink_domain_nodes, 1);
  ck_assert_double_eq (type->nvlink_bytes_per_s.value, 366e9);
  ck_assert_int_eq (type->nvlink_bytes_per_s.grade, SC_GRADE_ASSUMED);
  ck_assert_double_eq (type->nic_bytes_per_s.value, 50e9);
  ck_assert_double_eq (type->host_factor.value, 1);
  ck_assert_double_eq (type->pcie_bytes_per_s.value, 0);
  ck_assert_uint_eq (t->tiers[0].children, 32);
  ck_assert_double_eq (t->tiers[0].oversubscription, 1);
  ck_assert_double_eq (t->collective_launch_s.value, 4e-6);
}
END_TEST

#define NODE "topology.node_types.a.b."

START_TEST (what_a_topology_leaves_out_is_plain)
{
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, "", NULL, NULL);
  const ScNodeType *type = &t->types[0];
  ck_assert_ptr_null (type->nvlink_lanes);
  ck_assert (!type->nvls && !type->pcie_through_host && type->pcie_switches_per_socket == 0);
  ck_assert_int_eq (type->transport, SC_TRANSPORT_INFINIBAND);
  ck_assert_int_eq (t->routing, SC_ROUTING_IDEAL);
  ck_assert_double_eq (t->routing_efficiency, 1);
  ck_assert (t->flows_per_connection == 1 && !t->sharp && t->n_tier_faults == 0 && t->n_backgrounds == 0);
  ck_assert_uint_eq (t->tiers[0].paths, 32);
}
END_TEST

START_TEST (a_node_is_read_with_its_links_and_host)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY,
                                           NODE "nvlink.links=[[0,1],[3,2,4]] "
                                           NODE "pcie={\"bandwidth\":\"20GB/s\",\"latency\":\"1us\",\"gpus_per_switch\":2,"
                                           "\"switches_per_socket\":2,\"socket_bandwidth\":\"15GB/s\",\"peer_to_peer\":false} "
                                           NODE "nics.transport=tcpx",
                                           NULL, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  const ScNodeType *type = &t->types[0];
  for (guint i = 0; i < 64; i++)
    ck_assert_uint_eq (type->nvlink_lanes[i], i == 1 || i == 8 ? 1 : i == 2 * 8 + 3 || i == 3 * 8 + 2 ? 4 : 0);
  ck_assert (type->pcie_through_host && type->pcie_switches_per_socket == 2);
  ck_assert_double_eq (type->pcie_socket_bytes_per_s.value, 15e9);
  ck_assert_int_eq (type->transport, SC_TRANSPORT_TCPX);

  g_autoptr (ScTopology) all = topology_set (TOPOLOGY, NODE "nvlink.links=all", NULL, NULL);
  for (guint i = 0; i < 64; i++)
    ck_assert_uint_eq (all->types[0].nvlink_lanes[i], i / 8 != i % 8);
  g_autoptr (ScTopology) reducing = topology_set (TOPOLOGY, NODE "nvlink.nvls=true", NULL, NULL);
  ck_assert (reducing->types[0].nvls);
}
END_TEST

START_TEST (a_fabric_is_read_with_its_routing_faults_and_neighbours)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY,
                                           "topology.fabric.routing=ecmp topology.fabric.flows_per_connection=16 "
                                           "topology.fabric.efficiency=0.9 topology.fabric.sharp=true "
                                           "topology.faults=[{\"gpu\":{\"node\":1,\"index\":2},\"factor\":0.5},"
                                           "{\"uplink\":{\"unit\":0,\"rail\":7},\"factor\":0.25}] "
                                           "topology.background=[{\"first_node\":1,\"nodes\":3,\"bandwidth\":\"2GB/s\"}]",
                                           NULL, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_int_eq (t->routing, SC_ROUTING_ECMP);
  ck_assert (t->flows_per_connection == 16 && t->sharp);
  ck_assert_double_eq (t->routing_efficiency, 0.9);
  ck_assert (t->n_faults == 1 && t->faults[0].kind == SC_FAULT_GPU && t->faults[0].node == 1 && t->faults[0].index == 2);
  ck_assert_double_eq (t->faults[0].factor, 0.5);
  ck_assert (t->n_tier_faults == 1 && t->tier_faults[0].tier == 0 && t->tier_faults[0].unit == 0 && t->tier_faults[0].rail == 7);
  ck_assert_double_eq (t->tier_faults[0].factor, 0.25);
  ck_assert (t->n_backgrounds == 1 && t->backgrounds[0].first_node == 1 && t->backgrounds[0].nodes == 3);
  ck_assert_double_eq (t->backgrounds[0].bytes_per_s.value, 2e9);
}
END_TEST

/* radix / (1 + o), but of a leaf no more than its ports down / o. */
static const struct
{
  const char *set;
  guint paths;
} path_counts[] = {
  { "topology.fabric.tiers.0.oversubscription=3", 16 },
  { "topology.fabric.tiers.0.children=8", 8 },
  { "topology.fabric.tiers.0.children=8 topology.fabric.tiers.0.oversubscription=2", 4 },
  { "topology.fabric.tiers.0.children=4 topology.fabric.rail_optimised=false", 32 },
  { "topology.fabric.tiers.0.children=2 topology.fabric.rail_optimised=false", 16 },
  { "topology.fabric.tiers.0.paths=7 topology.fabric.tiers.0.children=40", 7 },
  { "topology.fabric.tiers=[{\"children\":4}]", 0 },
  { "topology.fabric.tiers=[{\"children\":4,\"paths\":2}]", 2 },
  { "topology.fabric.tiers=[{\"children\":4},{\"radix\":64,\"children\":2}]", 0 },
};

START_TEST (paths_follow_from_the_radix)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, path_counts[_i].set, NULL, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (t->tiers[0].paths, path_counts[_i].paths);
  if (t->n_tiers > 1)
    ck_assert_uint_eq (t->tiers[1].paths, 32);
}
END_TEST

static const struct
{
  const char *set;
  guint children;
} leaves[] = {
  { "topology.fabric.tiers.0.oversubscription=3", 48 },
  { "topology.fabric.tiers.0.radix=48 topology.fabric.tiers.0.oversubscription=2", 32 },
  { "topology.fabric.rail_optimised=false", 4 }, /* 32 ports down, 8 for each node */
  { "topology.fabric.tiers.0.children=20", 20 },
  { "topology.fabric.tiers.0.children=32", 32 },
};

START_TEST (children_follow_from_the_radix)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, leaves[_i].set, NULL, &error);
  ck_assert_msg (t != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_uint_eq (t->tiers[0].children, leaves[_i].children);
}
END_TEST

static const struct
{
  const char *set;
  const char *message;
} refused_topologies[] = {
  { "topology.fabric.tiers.0.children=33",
    "/fabric/tiers/0/children: 33 children of 1 port(s) need 66 ports with those up, the switch has 64" },
  { "topology.fabric.tiers.0.oversubscription=2",
    "/fabric/tiers/0/radix: 64 ports at oversubscription 2 make 42.67 children of 1 port(s)" },
  { "topology.fabric.tiers=[{}]", "/fabric/tiers/0/children: missing, expected radix or children" },
  { "topology.fabric.tiers.0.oversubscription=0.5", "/fabric/tiers/0/oversubscription: found 0.5, expected 1 to 1000" },
  { "topology.nodes=0", "/nodes/0/count: found 0, expected 1 to 1000000" },
  { "topology.nodes=1e7", "/nodes/0/count: found 10000000, expected 1 to 1000000" },
  { "topology.nodes=[]", "/nodes: found no nodes, expected at least one" },
  { "topology.nodes.0.type=a.c", "/nodes/0/type: found \"a.c\", expected a key of node_types such as \"a.b\"" },
  { "topology.node_types={}", "/node_types: found 0 node types, expected 1 to 100" },
  { "topology.node_types.a.b.gpus=1024 topology.nodes=10000",
    "/nodes: found 10000 nodes with 10240000 GPUs, expected at most" },
  { "topology.node_types.a.b.gpu=H1000",
    "/node_types/a.b/gpu: no shipped device is called \"H1000\", did you mean \"H100\"?" },
  { "topology.node_types.a.b.gpu=abacus", "/node_types/a.b/gpu: no shipped device is called \"abacus\" (see" },
  { "topology.node_types.a.b.device=none.json", "t.json: /node_types/a.b/device: none.json: no such file" },
  { "topology.node_types.a.b.nics.count=33",
    "/node_types/a.b/nics/count: found 33, expected at most four for each of 8 GPUs" },
  { "topology.node_types.a.b.pcie={\"bandwidth\":\"26\\u0020GB/s\",\"latency\":\"1\\u0020us\",\"gpus_per_switch\":3}",
    "/node_types/a.b/pcie/gpus_per_switch: 3 does not divide 8 GPUs" },
  { "topology.faults=[{\"factor\":0.5}]", "/faults/0: found 0 of gpu, nic, nvlink and uplink, expected one" },
  { "topology.faults=[{\"gpu\":{\"node\":4,\"index\":0},\"factor\":0.5}]",
    "/faults/0/gpu/node: found 4, expected less than 4 nodes" },
  { "topology.faults=[{\"gpu\":{\"node\":3,\"index\":8},\"factor\":0.5}]",
    "/faults/0/gpu/index: found 8, expected less than 8 GPUs" },
  { "topology.faults=[{\"nic\":{\"node\":3,\"index\":8},\"factor\":0.5}]",
    "/faults/0/nic/index: found 8, expected less than 8 NICs" },
  { "topology.faults=[{\"nic\":{\"node\":3,\"index\":7},\"factor\":1.5}]",
    "/faults/0/factor: found 1.5, expected 0 to 1" },
  { "topology.faults=[{\"nic\":{\"node\":3,\"index\":7},\"factor\":1e-300}]",
    "/faults/0/factor: found 1e-300, expected 0 (dead) or 1e-06 to 1" },
  { "topology.faults=[{\"nic\":{\"node\":3,\"index\":7},\"factor\":0},{\"nic\":{\"node\":3,\"index\":7},\"factor\":1}]",
    "/faults/1: found a second fault of the same part, expected one" },
};

START_TEST (topologies_that_cannot_be_are_refused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, refused_topologies[_i].set, NULL, &error);
  ck_assert_msg (t == NULL, "%s", refused_topologies[_i].set);
  ck_assert_msg (strstr (error->message, refused_topologies[_i].message) != NULL, "%s", error->message);
  ck_assert_ptr_null (strchr (error->message, '\n'));
}
END_TEST

START_TEST (gpus_of_a_node_must_have_a_way_to_talk)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set ("{'name': 't', 'node_types': {'a': {'gpu': 'A100', 'gpus': 8}}, 'nodes': "
                                           "[{'type': 'a'}], 'collective_launch': '4 us'}",
                                           "", NULL, &error);
  ck_assert_ptr_null (t);
  ck_assert_ptr_nonnull (strstr (error->message, "/node_types/a/nvlink: missing, expected nvlink or pcie"));
}
END_TEST

START_TEST (nodes_must_have_a_way_to_talk)
{
  static const char *const text =
      "{'name': 't', 'node_types': {'a': {'gpu': 'A100', 'gpus': 1}}, 'nodes': [{'type': 'a', 'count': 2}],"
      " 'collective_launch': '4 us'}";
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) t = topology_set (text, "", NULL, &error);
  ck_assert_ptr_null (t);
  ck_assert_ptr_nonnull (
      strstr (error->message, "/node_types/a/nics: missing, expected network ports, as there are 2"));
  g_autoptr (ScTopology) one = topology_set (text, "topology.nodes=1", NULL, NULL);
  ck_assert_ptr_nonnull (one);
}
END_TEST

/* A device file in place of the shipped one: of all node types, or of those that name it. */
START_TEST (a_users_device_stands_in)
{
  gsize length = 0;
  const char *shipped = sc_library_find (SC_KIND_DEVICE, "h100-sxm-80gb", &length);
  g_autofree char *folder = g_dir_make_tmp ("check-input-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "mine.json", NULL);
  ck_assert_ptr_nonnull (shipped);
  g_autoptr (cJSON) mine = cJSON_ParseWithLength (shipped, length);
  cJSON_ReplaceItemInObjectCaseSensitive (mine, "name", cJSON_CreateString ("mine"));
  cJSON_ReplaceItemInObjectCaseSensitive (mine, "aliases", cJSON_Parse ("[\"H100\"]"));
  g_autofree char *text = cJSON_Print (mine);
  ck_assert (g_file_set_contents (path, text, -1, NULL));

  g_autofree char *two = g_strdup (TOPOLOGY);
  g_autoptr (ScJson) json = parse ("t.json", two);
  cJSON *types = cJSON_GetObjectItemCaseSensitive (json->root, "node_types");
  cJSON *other = cJSON_Duplicate (types->child, TRUE);
  cJSON_ReplaceItemInObjectCaseSensitive (other, "gpu", cJSON_CreateString ("A100"));
  cJSON_AddItemToObject (types, "other", other);
  g_autoptr (ScTopology) named = sc_topology_from_json (json, NULL, path, NULL);
  ck_assert_str_eq (named->types[0].device->name, "mine");
  ck_assert_str_ne (named->types[1].device->name, "mine");

  cJSON_ReplaceItemInObjectCaseSensitive (mine, "aliases", cJSON_Parse ("[]"));
  g_autofree char *unnamed_text = cJSON_Print (mine);
  ck_assert (g_file_set_contents (path, unnamed_text, -1, NULL));
  g_autoptr (ScTopology) all = sc_topology_from_json (json, NULL, path, NULL);
  ck_assert_str_eq (all->types[0].device->name, "mine");
  ck_assert_str_eq (all->types[1].device->name, "mine");

  /* "device" in the topology, relative to it. */
  cJSON_AddStringToObject (types->child, "device", "mine.json");
  g_autoptr (ScTopology) relative = sc_topology_from_json (json, folder, NULL, NULL);
  ck_assert_str_eq (relative->types[0].device->name, "mine");
  ck_assert_str_ne (relative->types[1].device->name, "mine");
  g_unlink (path);
  g_rmdir (folder);
}
END_TEST

/* ---- Both ---- */

static const struct
{
  const char *workload_set, *topology_set;
  const char *message; /* NULL: they go together */
} pairs[] = {
  { "", "", NULL },
  { "plan.dp=6", "", "/plan/gpus: the plan needs 48 GPUs (tp 4 x pp 2 x dp 6), t has 32" },
  { "", "topology.faults=[{\"gpu\":{\"node\":0,\"index\":3},\"factor\":0}]",
    "/plan/gpus: the job takes 24 GPUs from node 0 on, but GPU 3 of node 0 is dead" },
  { "", "topology.faults=[{\"gpu\":{\"node\":2,\"index\":7},\"factor\":0}]", "GPU 7 of node 2 is dead" },
  { "", "topology.faults=[{\"gpu\":{\"node\":3,\"index\":0},\"factor\":0}]", NULL }, /* not in the job */
  { "", "topology.faults=[{\"gpu\":{\"node\":0,\"index\":0},\"factor\":0.1}]", NULL },
};

START_TEST (workload_and_topology_must_go_together)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, pairs[_i].workload_set, NULL);
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, pairs[_i].topology_set, NULL, NULL);
  const gboolean together = sc_workload_check_topology (w, t, &error);
  if (pairs[_i].message == NULL)
    ck_assert (together);
  else
    ck_assert_msg (!together && strstr (error->message, pairs[_i].message) != NULL, "%s", error->message);
}
END_TEST

/* ---- --set ---- */

static const struct
{
  const char *set;
  const char *message;
} refused_sets[] = {
  { "plan.tp", "--set plan.tp: expected KEY=VALUE, such as plan.tp=4" },
  { "=4", "--set =4: expected KEY=VALUE, such as plan.tp=4" },
  { "plan.tpp=4", "--set plan.tpp=4: w.json: /plan/tpp: unknown key, did you mean \"tp\"?" },
  { "plan.extras.x=4", "--set plan.extras.x=4: w.json: /plan/extras: unknown key, did you mean \"extra\"?" },
  { "plna.tp=4", "--set plna.tp=4: unknown key \"plna\", did you mean \"plan\"?" },
  { "zzz=4", "--set zzz=4: unknown key \"zzz\", expected seq, plan.KEY, model.KEY, software.KEY, topology.KEY or device.KEY" },
  { "topology=4", "--set topology=4: expected a key of the topology, such as topology.nodes" },
  { "plan.tp.x=4", "--set plan.tp.x=4: w.json: /plan/tp is 4 and has no keys" },
  { "plan..tp=4", "--set plan..tp=4: found an empty name, expected names joined by single dots" },
  { "plan.=4", "--set plan.=4: found an empty name, expected names joined by single dots" },
};

START_TEST (keys_that_cannot_be_set_are_wrong_usage)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (workload_set (WORKLOAD, refused_sets[_i].set, &error));
  ck_assert_str_eq (error->message, refused_sets[_i].message);
  ck_assert_int_eq (sc_status_of_error (error), SC_STATUS_USAGE);
}
END_TEST

START_TEST (a_value_that_cannot_be_is_bad_data_and_names_the_option)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (workload_set (WORKLOAD, "plan.tp=x", &error));
  ck_assert_str_eq (error->message, "--set plan.tp=x: w.json: /plan/tp: found \"x\", expected a whole number");
  ck_assert_int_eq (sc_status_of_error (error), SC_STATUS_DATA);
}
END_TEST

START_TEST (the_last_of_equal_keys_wins)
{
  g_autoptr (ScWorkload) w = workload_set (WORKLOAD, "plan.tp=8 plan.tp=2 seq=1024 model.name=\"12\"", NULL);
  ck_assert_uint_eq (w->plan.tp, 2);
  ck_assert_uint_eq (w->seq, 1024);
  ck_assert_str_eq (w->model.name, "12");
}
END_TEST

START_TEST (a_topology_is_resized)
{
  g_autoptr (ScTopology) t = topology_set (TOPOLOGY, "topology.nodes=16", NULL, NULL);
  ck_assert_uint_eq (t->n_nodes, 16);
  g_autoptr (ScTopology) u = topology_set (TOPOLOGY, "topology.nodes.0.count=3", NULL, NULL);
  ck_assert_uint_eq (u->n_nodes, 3);
  g_autoptr (GError) error = NULL;
  g_autoptr (ScTopology) two =
      topology_set (TOPOLOGY, "topology.nodes=[{\"type\":\"a.b\"},{\"type\":\"a.b\"}] topology.nodes=16", NULL, &error);
  ck_assert_ptr_null (two);
  ck_assert_str_eq (
      error->message,
      "--set topology.nodes=16: t.json: /nodes has 2 runs of nodes, expected one (try topology.nodes.0.count)");
}
END_TEST

/* ---- What is shipped ---- */

START_TEST (every_shipped_input_is_valid)
{
  for (const ScLibraryRow *row = sc_library_next (NULL, NULL); row != NULL; row = sc_library_next (row, NULL))
    {
      g_autoptr (GError) error = NULL;
      if (strcmp (row->kind, SC_KIND_MEASUREMENTS) == 0) /* no one document, but lines of them */
        {
          if (strcmp (row->name, "layers") == 0)
            {
              g_autoptr (ScKernelRows) rows = sc_kernel_rows_parse (row->name, row->text, row->length, &error);
              ck_assert_msg (rows != NULL, "%s", error != NULL ? error->message : "");
              continue;
            }
          if (strcmp (row->name, "runs") == 0)
            {
              g_autoptr (ScRows) rows = sc_rows_new ();
              ck_assert_msg (sc_rows_parse (rows, row->name, row->text, row->length, &error), "%s", error != NULL ? error->message : "");
              ck_assert_uint_eq (rows->ignored->len, 0);
              continue;
            }
          if (strcmp (row->name, "schedules") == 0)
            {
              g_autoptr (GRegex) none = g_regex_new ("(?!)", (GRegexCompileFlags) 0, (GRegexMatchFlags) 0, NULL); /* check_validate_schedules.c runs them */
              g_autoptr (ScSchedulesResult) runs = sc_validate_schedules (row->name, row->text, row->length, none, &error);
              ck_assert_msg (runs != NULL, "%s", error != NULL ? error->message : "");
              continue;
            }
          g_autoptr (GPtrArray) sweeps = sc_sweeps_parse (row->name, row->text, row->length, NULL, &error);
          ck_assert_msg (sweeps != NULL, "%s", error != NULL ? error->message : "");
          continue;
        }
      g_autoptr (ScJson) json = sc_json_parse (row->name, row->text, row->length, &error);
      ck_assert_msg (json != NULL, "%s", error != NULL ? error->message : "");
      g_autoptr (ScTopology) topology = NULL;
      g_autoptr (ScWorkload) workload = NULL;
      g_autoptr (ScDevice) device = NULL;
      g_autoptr (ScSystems) systems = NULL;
      if (strcmp (row->kind, SC_KIND_TOPOLOGY) == 0)
        topology = sc_topology_from_json (json, NULL, NULL, &error);
      else if (strcmp (row->kind, SC_KIND_WORKLOAD) == 0)
        workload = sc_workload_from_json (json, &error);
      else if (strcmp (row->kind, SC_KIND_RULES) == 0)
        systems = sc_systems_from_json (json, &error);
      else if (strcmp (row->kind, SC_KIND_CALIBRATION) == 0)
        {
          g_autoptr (GPtrArray) tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
          g_autoptr (cJSON) name = cJSON_CreateString (row->name);
          sc_samples_read (json, name, tables, &error);
          ck_assert_msg (error != NULL || tables->len > 0, "%s holds no table", row->name);
        }
      else
        device = sc_device_from_json (json, &error);
      ck_assert_msg (error == NULL, "%s", error != NULL ? error->message : "");
      if (device != NULL)
        ck_assert_msg (strcmp (device->name, row->name) == 0, "%s calls itself %s", row->name, device->name);
    }
}
END_TEST

START_TEST (devices_are_found_by_any_name)
{
  static const char *const names[] = { "h100-sxm-80gb", "H100 SXM 80GB", "h100_sxm_80gb", "H100" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (ScDevice) device = sc_device_find (names[i], NULL);
      ck_assert_ptr_nonnull (device);
      ck_assert_str_eq (device->name, "h100-sxm-80gb");
    }
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (sc_device_find ("abacus", &error));
  ck_assert_ptr_null (error);
}
END_TEST

/* No two devices share a name. */
START_TEST (device_names_are_unique)
{
  g_autoptr (GPtrArray) devices = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_device_free);
  for (const ScLibraryRow *row = sc_library_next (NULL, SC_KIND_DEVICE); row != NULL;
       row = sc_library_next (row, SC_KIND_DEVICE))
    g_ptr_array_add (devices, sc_device_find (row->name, NULL));
  for (guint i = 0; i < devices->len; i++)
    for (guint j = 0; j < devices->len; j++)
      {
        const ScDevice *a = g_ptr_array_index (devices, i), *b = g_ptr_array_index (devices, j);
        ck_assert_msg (i == j || !sc_device_is_called (a, b->name), "%s", b->name);
        for (char **alias = b->aliases; i != j && *alias != NULL; alias++)
          ck_assert_msg (!sc_device_is_called (a, *alias), "%s", *alias);
      }
}
END_TEST

static Suite *
input_suite (void)
{
  Suite *suite = suite_create ("input");
  TCase *tc = tcase_create ("workload");
  tcase_add_test (tc, what_is_left_out_follows);
  tcase_add_loop_test (tc, world_size_follows_from_dp_or_dp_from_it, 0, G_N_ELEMENTS (worlds));
  tcase_add_test (tc, a_file_with_both_keeps_its_gpus);
  tcase_add_loop_test (tc, plans_that_cannot_be_are_refused, 0, G_N_ELEMENTS (refused));
  tcase_add_loop_test (tc, models_that_are_only_counted_say_so_before_a_run, 0, G_N_ELEMENTS (counted));
  tcase_add_loop_test (tc, plans_that_can_be_are_accepted, 0, G_N_ELEMENTS (accepted));
  tcase_add_loop_test (tc, layers_are_balanced_over_stages, 0, G_N_ELEMENTS (splits));
  tcase_add_test (tc, given_stages_stay_as_they_are);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("topology");
  tcase_add_test (tc, a_topology_is_read);
  tcase_add_test (tc, what_a_topology_leaves_out_is_plain);
  tcase_add_test (tc, a_node_is_read_with_its_links_and_host);
  tcase_add_test (tc, a_fabric_is_read_with_its_routing_faults_and_neighbours);
  tcase_add_loop_test (tc, paths_follow_from_the_radix, 0, G_N_ELEMENTS (path_counts));
  tcase_add_loop_test (tc, children_follow_from_the_radix, 0, G_N_ELEMENTS (leaves));
  tcase_add_loop_test (heavy (suite), topologies_that_cannot_be_are_refused, 0, G_N_ELEMENTS (refused_topologies));
  tcase_add_test (tc, gpus_of_a_node_must_have_a_way_to_talk);
  tcase_add_test (tc, nodes_must_have_a_way_to_talk);
  tcase_add_test (tc, a_users_device_stands_in);
  tcase_add_loop_test (tc, workload_and_topology_must_go_together, 0, G_N_ELEMENTS (pairs));
  suite_add_tcase (suite, tc);
  tc = tcase_create ("set");
  tcase_add_loop_test (tc, keys_that_cannot_be_set_are_wrong_usage, 0, G_N_ELEMENTS (refused_sets));
  tcase_add_test (tc, a_value_that_cannot_be_is_bad_data_and_names_the_option);
  tcase_add_test (tc, the_last_of_equal_keys_wins);
  tcase_add_test (tc, a_topology_is_resized);
  suite_add_tcase (suite, tc);
  tc = tcase_create ("shipped");
  tcase_add_test (heavy (suite), every_shipped_input_is_valid);
  tcase_add_test (tc, devices_are_found_by_any_name);
  tcase_add_test (tc, device_names_are_unique);
  suite_add_tcase (suite, tc);
  return suite;
}

int
main (void)
{
  g_setenv ("STEPCAST_DATA_PATH", "", TRUE); /* what is inside the program, whatever is installed */
  SRunner *runner = srunner_create (input_suite ());
  srunner_run_all (runner, CK_NORMAL);
  const int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
