/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-measured.h - data of nccl.c: what was measured, by generation of GPU and by kind of network.
 * Layer: models.  Least squares in log time over the sweeps named, all sizes and group sizes of one row together; none is
 * for a single sweep.  LL's share is at most one half, LL128's at most 120 / 128: what their flags leave.  The share of LL between nodes
 * over InfiniBand is badly determined (0.04 to 0.12 fit alike); it is set to 0.12.  Which sweeps were looked at is the key "use"
 * of validation/collectives.jsonl. */
#pragma once

/* Times are of nodes whose links have link_latency_s; others scale. */
static const ScNcclGpu measured_gpus[] = {
  {
    .family = "ampere",
    .source = "8 A100, 512 B to 512 MiB, 2, 4 and 8 GPUs, NCCL 2.27.3: github:ai-dynamo/aiconfigurator aic-core/src/aiconfigurator_core/systems/data/a100_sxm/comm/nccl @095f58a51c4c",
    .generation = AMPERE, .channels = 12, .channel_bytes_per_s = 20e9, .kernels = 24,
    .link_bytes_per_s = 246e9, .link_latency_s = 0.95e-6,
    .base_us = { 8.097, 17.45, 24.05 }, .step_us = { 0.7872, 0.9572, 5.31 }, .share = { 0.5, 0.7043, 1 }, .extra = { 1.934, 1.575, 0.5475 },
    .fill_us = 11.77, .fill_bytes = 2e+07,
    .nvls_base_us = 25, .nvls_share = 0.7875, .nvls_fill_us = 50, .nvls_fill_bytes = 3e+07,
    .pair_base_us = 12.2, .pair_peer_us = 0.1694, .pair_share = 0.9109, .pair_extra = 0.5242, .pair_fill_us = 6.625, .pair_fill_bytes = 5.355e+05,
  },
  {
    .family = "hopper",
    .source = "8 H100 and 8 H200, 512 B to 512 MiB, NCCL 2.29.2: github:ai-dynamo/aiconfigurator aic-core/src/aiconfigurator_core/systems/data/h100_sxm and h200_sxm, comm/nccl @095f58a51c4c; 4 H100 up to 16 GiB: github:xxrjun/nccl-tests-cluster benchmarks @455de4f8dee2",
    .generation = HOPPER, .channels = 12, .channel_bytes_per_s = 30e9, .kernels = 24,
    .link_bytes_per_s = 395e9, .link_latency_s = 0.82e-6,
    .base_us = { 4.45, 19.75, 15.11 }, .step_us = { 0.7635, 0.04176, 1.92 }, .share = { 0.5, 0.7676, 1 }, .extra = { 1.057, 0.01, 0.5879 },
    .fill_us = 7.384, .fill_bytes = 2e+07,
    .nvls_base_us = 22.78, .nvls_share = 0.7691, .nvls_fill_us = 54.25, .nvls_fill_bytes = 1.437e+07,
    .pair_base_us = 8.25, .pair_peer_us = 0.1525, .pair_share = 0.968, .pair_extra = 0.3916, .pair_fill_us = 9.743, .pair_fill_bytes = 4.132e+06,
  },
  {
    .family = "blackwell",
    .source = "8 B200 and 8 B300, 512 B to 512 MiB, NCCL 2.27.5 to 2.29.2: github:ai-dynamo/aiconfigurator aic-core/src/aiconfigurator_core/systems/data/b200_sxm and b300_sxm, comm/nccl @095f58a51c4c",
    .generation = BLACKWELL, .channels = 16, .channel_bytes_per_s = 45e9, .kernels = 32,
    .link_bytes_per_s = 725e9, .link_latency_s = 1.32e-6,
    .base_us = { 7.408, 11.76, 12.84 }, .step_us = { 1.211, 1.305, 6.287 }, .share = { 0.5, 0.903, 1 }, .extra = { 1.548, 3, 0.6494 },
    .fill_us = 0.6113, .fill_bytes = 5.191e+04,
    .nvls_base_us = 33.97, .nvls_share = 0.6943, .nvls_fill_us = 93.26, .nvls_fill_bytes = 3.678e+07,
    .pair_base_us = 10.41, .pair_peer_us = 0.1125, .pair_share = 0.8941, .pair_extra = 1.174, .pair_fill_us = 2.283, .pair_fill_bytes = 2.388e+05,
  },
  {
    .family = "volta",
    .source = "V100 cube mesh, all-reduce over 2 to 8 GPUs: github:VIA-Research/vTrain @f8dda847 (bandwidth by its links); LL and LL128 as Ampere, assumed",
    .generation = VOLTA, .channels = 12, .channel_bytes_per_s = 11.2e9, .kernels = 24,
    .link_bytes_per_s = 135e9, .link_latency_s = 1.9e-6,
    .base_us = { 8.097, 17.45, 24.05 }, .step_us = { 0.7872, 0.9572, 5.31 }, .share = { 0.5, 0.7043, 1 }, .extra = { 1.934, 1.575, 0.5475 },
    .fill_us = 11.77, .fill_bytes = 2e+07,
    .nvls_base_us = 25, .nvls_share = 0.7875, .nvls_fill_us = 50, .nvls_fill_bytes = 3e+07,
    .pair_base_us = 12.2, .pair_peer_us = 0.1694, .pair_share = 0.9109, .pair_extra = 0.5242, .pair_fill_us = 6.625, .pair_fill_bytes = 5.355e+05,
  },
  {
    .family = "cdna3",
    .source = "as Hopper, assumed; bandwidth by its links",
    .generation = HOPPER, .channels = 12, .channel_bytes_per_s = 30e9, .kernels = 24,
    .link_bytes_per_s = 340e9, .link_latency_s = 0.82e-6,
    .base_us = { 4.45, 19.75, 15.11 }, .step_us = { 0.7635, 0.04176, 1.92 }, .share = { 0.5, 0.7676, 1 }, .extra = { 1.057, 0.01, 0.5879 },
    .fill_us = 7.384, .fill_bytes = 2e+07,
    .nvls_base_us = 22.78, .nvls_share = 0.7691, .nvls_fill_us = 54.25, .nvls_fill_bytes = 1.437e+07,
    .pair_base_us = 8.25, .pair_peer_us = 0.1525, .pair_share = 0.968, .pair_extra = 0.3916, .pair_fill_us = 9.743, .pair_fill_bytes = 4.132e+06,
  },
};

static const ScNcclGpu measured_pcie =
  {
    .family = "pcie",
    .source = "L40S and RTX PRO 6000 servers, 512 B to 512 MiB, 2, 4 and 8 GPUs: github:ai-dynamo/aiconfigurator aic-core/src/aiconfigurator_core/systems/data, comm/nccl @095f58a51c4c; L40S with forced protocols, NCCL 2.29.2",
    .generation = AMPERE, .channels = 2, .channel_bytes_per_s = 10e9, .kernels = 1,
    .link_bytes_per_s = 20e9, .link_latency_s = 1.4e-6,
    .base_us = { 4.816, 11.34, 12.28 }, .step_us = { 1.569, 2.132, 4.606 }, .share = { 0.4802, 0.81, 1 }, .extra = { 0.1669, 1.017, 0.2592 },
    .fill_us = 0.4104, .fill_bytes = 1.218e+07,
    .nvls_base_us = 25, .nvls_share = 0.7875, .nvls_fill_us = 50, .nvls_fill_bytes = 3e+07,
    .pair_base_us = 7.003, .pair_peer_us = 0.7078, .pair_share = 1, .pair_extra = 0.02, .pair_fill_us = 5, .pair_fill_bytes = 1e+06,
  };

static const ScNcclNet measured_nets[] = {
  {
    .transport = SC_TRANSPORT_INFINIBAND,
    .source = "10 nodes of 8 H100, 1 to 8 GPUs of each, 32 MiB to 16 GiB: github:xxrjun/nccl-tests-cluster benchmarks @455de4f8dee2; 2 and 4 nodes of 8 H100, 8 B to 16 GiB: https://github.com/NVIDIA/nccl-tests/issues/309; 2 nodes of 8 A100 over HDR: github:argonne-lcf/alcf-nccl-tests results_sophia @385be33604cc",
    .tree_hop = { 1, 1.927, 1.597 }, .ring_hop = { 1.629, 3.976, 0.8441 }, .share = { 0.12, 0.9375, 1 }, .many_rails = 0.9087, .ll128 = TRUE,
    .large_bytes = 256, .large_hop = 0.3743,
    .ring_fill_us = 0.4104, .tree_fill_us = 101.6, .tree_fill_bytes = 2.52e+07, .tree_store_us_per_mb = 4.5, .nvls_tree_base_us = 2.052, .nvls_tree_hop = 6.072,
    .pair_base_us = 6.523, .pair_peer_us = 3.853, .pair_share = 0.91,
  },
  {
    .transport = SC_TRANSPORT_ROCE,
    .source = "2 nodes of 8 H200 and 2 GPUs on GCP a3-ultra, 2 GPUs on a4 (github:GoogleCloudPlatform/cluster-toolkit @1047080375af, github:google/dranet @7b7661a153a6), 2 nodes of 8 H100 and A100 on OCI (github:oracle-quickstart/oci-hpc @b5285a68fa0a, oci-hpc-oke @61d210acc37f)",
    .tree_hop = { 1, 2.979, 2.763 }, .ring_hop = { 3.205, 3.77, 0.2298 }, .share = { 0.1739, 0.8667, 1 }, .many_rails = 1, .ll128 = TRUE,
    .large_bytes = 0, .large_hop = 0,
    .ring_fill_us = 0.4104, .tree_fill_us = 9.019, .tree_fill_bytes = 1.391e+07, .tree_store_us_per_mb = 4.5, .nvls_tree_base_us = 18.76, .nvls_tree_hop = 3.159,
    .pair_base_us = 20, .pair_peer_us = 1, .pair_share = 0.92,
  },
  {
    .transport = SC_TRANSPORT_EFA,
    .source = "2 nodes of 8 H100 on AWS p5 (github:KeitaW/p5-nccl-test-2024-07-19 @1c78584b9f4c), of 8 A100 on p4de (github:aws-samples/awsome-distributed-training @7217859f67bc)",
    .tree_hop = { 1, 1.7, 2.467 }, .ring_hop = { 1.061, 0.8, 2.8 }, .share = { 0.5, 0.9375, 1 }, .many_rails = 0.75, .ll128 = FALSE,
    .large_bytes = 4096, .large_hop = 0.5757,
    .ring_fill_us = 60.91, .tree_fill_us = 487.3, .tree_fill_bytes = 4.793e+07, .nvls_tree_base_us = 7.881, .nvls_tree_hop = 2.136,
    .pair_base_us = 20, .pair_peer_us = 1, .pair_share = 0.92,
  },
  {
    .transport = SC_TRANSPORT_SLINGSHOT,
    .source = "2 to 32 nodes of 4 GH200: github:boeschf/nccl-benchmark-on-alps-2025 @897cff446b5e; 2 to 540 nodes of 4 A100: github:argonne-lcf/alcf-nccl-tests results_polaris @385be33604cc",
    .tree_hop = { 1, 3.328, 34.11 }, .ring_hop = { 1.355, 3.743, 4.703 }, .share = { 0.02054, 0.563, 1 }, .many_rails = 0.9, .ll128 = TRUE,
    .large_bytes = 4096, .large_hop = 1.409,
    .ring_fill_us = 0.4104, .tree_fill_us = 487.3, .tree_fill_bytes = 1.869e+08, .nvls_tree_base_us = 25, .nvls_tree_hop = 4,
    .pair_base_us = 1.642, .pair_peer_us = 11.88, .pair_share = 0.5356,
  },
  {
    .transport = SC_TRANSPORT_TCPX,
    .source = "2 nodes of 8 H100 on GCP a3-mega: github:GoogleCloudPlatform/cluster-toolkit examples/gke-a3-megagpu/README.md @1047080375af",
    .tree_hop = { 1, 1.7, 2.8 }, .ring_hop = { 2.053, 0.8, 2.174 }, .share = { 0.1416, 0.9375, 1 }, .many_rails = 1, .ll128 = FALSE,
    .large_bytes = 0, .large_hop = 0,
    .ring_fill_us = 0.4104, .tree_fill_us = 40, .tree_fill_bytes = 9.353e+06, .nvls_tree_base_us = 25, .nvls_tree_hop = 4,
    .pair_base_us = 20, .pair_peer_us = 1, .pair_share = 0.92,
  },
  {
    .transport = SC_TRANSPORT_TCP,
    .source = "as TCPX, assumed",
    .tree_hop = { 1, 1.7, 2.8 }, .ring_hop = { 2.053, 0.8, 2.174 }, .share = { 0.1416, 0.9375, 1 }, .many_rails = 1, .ll128 = FALSE,
    .large_bytes = 0, .large_hop = 0,
    .ring_fill_us = 0.4104, .tree_fill_us = 40, .tree_fill_bytes = 9.353e+06, .nvls_tree_base_us = 25, .nvls_tree_hop = 4,
    .pair_base_us = 20, .pair_peer_us = 1, .pair_share = 0.92,
  },
};
