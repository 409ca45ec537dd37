/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-host.c - what lives in host memory: copies over the GPU's link to its host, and the optimizer's step there (arXiv 2101.06840). */
#include "models/lower-parts.h"

/* Adam on the host reads gradient, weight and two moments in fp32 and writes three of them and the 16-bit weight (MODELLING 4.5); of the memory's
 * bandwidth a loop over four arrays reaches about so much (assumed, as STREAM does). */
#define HOST_ADAM_BYTES 30
#define HOST_MEMORY_SHARE 0.8

gboolean
sc_lower_offloads_optimizer (const Lower *l)
{
  return (l->plan->offload & SC_OFFLOAD_OPTIMIZER) != 0;
}

gboolean
sc_lower_offloads_params (const Lower *l)
{
  return (l->plan->offload & SC_OFFLOAD_PARAMS) != 0;
}

/* GPUs of this rank's node that the job has, from the node's first GPU on. */
static guint
ranks_on_node (const Lower *l)
{
  const ScFabric *const fabric = l->in->fabric;
  const guint32 first = l->rank - fabric->gpus[l->rank].index;
  return MIN (sc_fabric_node_type (fabric, l->rank)->gpus, fabric->n_gpus - first);
}

/* GPUs behind one PCIe switch copy at the same time: each has its part of the switch's link to the host. */
static double
crowding (const Lower *l)
{
  const ScNodeType *const type = sc_fabric_node_type (l->in->fabric, l->rank);
  const guint each = MAX (type->pcie_gpus_per_switch, 1), first = l->in->fabric->gpus[l->rank].index / each * each; /* of this switch */
  const double all = MIN (each, ranks_on_node (l) - first) * type->device->h2d_bytes_per_s.value, uplink = type->pcie_uplink_bytes_per_s.value;
  return uplink > 0 ? MAX (all / uplink, 1) : 1;
}

void
sc_lower_put_host_copy (Lower *l, gboolean in, const char *name, double bytes)
{
  if (bytes <= 0)
    return;
  const ScKernel kernel = sc_kernel_op (name, in ? SC_OP_HOST_TO_DEVICE : SC_OP_DEVICE_TO_HOST, bytes * crowding (l));
  const ScCost cost = sc_kernel_cost (l->price->device, &kernel, 1);
  ScOp *const op = sc_program_work (l->p, in ? SC_STREAM_COPY_IN : SC_STREAM_COPY_OUT, SC_TIME_HOST, sc_time_from_s (cost.seconds));
  op->held = SC_WORK_COPY;
  op->arg = SC_NONE;
  op->issue_ns = sc_lower_issue_ns (l, SC_TIME_OPTIMIZER);
  op->label = sc_lower_label (l, name);
  op->info = sc_info_pack (l->info);
}

void
sc_lower_put_out (Lower *l, ScStreamKind after, const char *name, double bytes)
{
  sc_lower_put_order (l, after, SC_STREAM_COPY_OUT);
  sc_lower_put_host_copy (l, FALSE, name, bytes);
  l->copied_out = sc_lower_put_record (l, SC_STREAM_COPY_OUT);
}

/* Adam over @owned parameters, all ranks of the node at once, then the weights back to the GPU, if they live there. */
void
sc_lower_put_host_step (Lower *l, double owned)
{
  const ScNodeType *const type = sc_fabric_node_type (l->in->fabric, l->rank);
  const double seconds = HOST_ADAM_BYTES * owned * ranks_on_node (l) / (HOST_MEMORY_SHARE * type->host_memory_bytes_per_s.value);
  ScOp *const op = sc_program_work (l->p, SC_STREAM_COMPUTE, SC_TIME_OPTIMIZER, sc_time_from_s (seconds));
  op->held = SC_WORK_COPY;
  op->arg = SC_NONE;
  op->label = sc_lower_label (l, "adam on the host");
  op->info = sc_info_pack (l->info);
  if (sc_lower_offloads_params (l))
    return;
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_COPY_IN);
  sc_lower_put_host_copy (l, TRUE, "weights to the GPU", owned * sc_dtype_bytes (l->plan->dtype));
  sc_lower_put_order (l, SC_STREAM_COPY_IN, SC_STREAM_COMPUTE);
}
