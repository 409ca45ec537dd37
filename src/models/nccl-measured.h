/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-measured.h - data of nccl.c: what was measured.  Layer: models. */
#pragma once
static const ScNcclGpu measured_gpus[] = {
  { .family = "ampere", .source = "x", .generation = AMPERE, .channels = 12, .channel_bytes_per_s = 20e9, .kernels = 24, .link_bytes_per_s = 246e9, .link_latency_s = .95e-6,
    .base_us = { 8, 21, 24 }, .step_us = { .85, .55, 5 }, .share = { .5, .65, 1 }, .extra = { 1, .4, .4 }, .fill_us = 4, .fill_bytes = 2e6,
    .nvls_base_us = 25, .nvls_share = .7, .nvls_fill_us = 50, .nvls_fill_bytes = 3e7, .pair_base_us = 8, .pair_peer_us = .2, .pair_share = .9, .pair_extra = .4, .pair_fill_us = 6, .pair_fill_bytes = 5e5 },
};
static const ScNcclGpu measured_pcie = { .family = "pcie", .source = "x", .generation = AMPERE, .channels = 2, .channel_bytes_per_s = 12e9, .kernels = 2, .link_bytes_per_s = 24e9, .link_latency_s = 1.4e-6,
    .base_us = { 4, 12, 24 }, .step_us = { 1.4, 2, 5 }, .share = { .4, .6, 1 }, .extra = { 1, .4, .4 }, .fill_us = 4, .fill_bytes = 2e6,
    .nvls_base_us = 25, .nvls_share = .7, .nvls_fill_us = 50, .nvls_fill_bytes = 3e7, .pair_base_us = 8, .pair_peer_us = .2, .pair_share = .9, .pair_extra = .4, .pair_fill_us = 6, .pair_fill_bytes = 5e5 };
static const ScNcclNet measured_nets[] = {
  { .transport = SC_TRANSPORT_INFINIBAND, .source = "x", .tree_hop = { 1, 1.7, 2.8 }, .ring_hop = { .54, .8, 2.8 }, .share = { .3, .9, 1 }, .many_rails = .9,
    .ring_fill_us = 2, .tree_fill_us = 60, .tree_fill_bytes = 2e7, .nvls_tree_base_us = 10, .nvls_tree_hop = 4, .pair_base_us = 10, .pair_peer_us = 3, .pair_share = .9 },
};
