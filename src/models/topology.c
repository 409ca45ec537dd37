/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topology.c - owning and looking up the description of a cluster. */
#include "models/topology.h"

static void
node_type_clear (ScNodeType *type)
{
  g_free (type->name);
  g_free (type->device_name);
  sc_cited_clear (&type->nvlink_bytes_per_s);
  sc_cited_clear (&type->nvlink_latency_s);
  g_free (type->nvlink_lanes);
  sc_cited_clear (&type->pcie_bytes_per_s);
  sc_cited_clear (&type->pcie_latency_s);
  sc_cited_clear (&type->pcie_uplink_bytes_per_s);
  sc_cited_clear (&type->pcie_socket_bytes_per_s);
  sc_cited_clear (&type->pcie_socket_pair_bytes_per_s);
  sc_cited_clear (&type->nic_bytes_per_s);
  sc_cited_clear (&type->nic_latency_s);
  sc_cited_clear (&type->host_memory_bytes_per_s);
  sc_cited_clear (&type->host_factor);
}

void
sc_topology_free (ScTopology *topology)
{
  if (topology == NULL)
    return;
  g_free (topology->name);
  g_free (topology->summary);
  g_free (topology->source);
  g_clear_pointer (&topology->files, g_ptr_array_unref);
  for (guint i = 0; i < topology->n_types; i++)
    node_type_clear (&topology->types[i]);
  g_free (topology->types);
  g_free (topology->runs);
  for (guint i = 0; i < topology->n_tiers; i++)
    sc_cited_clear (&topology->tiers[i].latency_s);
  g_free (topology->tiers);
  sc_cited_clear (&topology->collective_launch_s);
  g_free (topology->faults);
  g_free (topology->tier_faults);
  for (guint i = 0; i < topology->n_backgrounds; i++)
    sc_cited_clear (&topology->backgrounds[i].bytes_per_s);
  g_free (topology->backgrounds);
  g_clear_pointer (&topology->devices, g_ptr_array_unref);
  g_free (topology);
}

const ScNodeType *
sc_topology_node_type (const ScTopology *topology, guint node)
{
  g_return_val_if_fail (node < topology->n_nodes, NULL);
  guint run = 0;
  while (node >= topology->runs[run].count)
    node -= topology->runs[run++].count;
  return &topology->types[topology->runs[run].type];
}

void
sc_topology_what_if (ScTopology *topology)
{
  const ScWhatIf *const w = &topology->what_if;
  const ScDeviceScale scale = { .matrix = w->matrix, .hbm = w->hbm, .pcie = w->pcie, .launch = w->launch };
  for (guint i = 0; i < topology->devices->len; i++)
    {
      ScDevice *const device = g_ptr_array_index (topology->devices, i);
      device->burst = topology->burst;
      sc_device_scale (device, &scale);
    }
  for (guint i = 0; i < topology->n_types; i++)
    {
      ScNodeType *const type = &topology->types[i];
      type->nvlink_bytes_per_s.value *= w->nvlink;
      type->nic_bytes_per_s.value *= w->nic;
      type->pcie_bytes_per_s.value *= w->pcie;
      type->pcie_uplink_bytes_per_s.value *= w->pcie;
      type->nvlink_latency_s.value *= w->latency;
      type->pcie_latency_s.value *= w->latency;
      type->nic_latency_s.value *= w->latency;
      type->host_factor.value *= w->launch;
    }
  for (guint i = 0; i < topology->n_tiers; i++)
    topology->tiers[i].latency_s.value *= w->latency;
  topology->collective_launch_s.value *= w->latency;
}

guint
sc_topology_job_gpus (const ScTopology *topology)
{
  guint gpus = topology->n_gpus, skip = topology->first_node;
  for (guint run = 0; run < topology->n_runs && skip > 0; run++)
    {
      const guint here = MIN (skip, topology->runs[run].count);
      gpus -= here * topology->types[topology->runs[run].type].gpus;
      skip -= here;
    }
  return gpus;
}
