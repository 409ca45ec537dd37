/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lower-activations.c - what layers save for their backward is in host memory meanwhile (MODELLING 3.12).
 *
 * As Transformer Engine does it (AsyncDoubleBufferGroupOffloadHandler in cpu_offload.py): the copies of n layers are spread over the forward of all L, one
 * at a time.  Layer i's begins where that of layer i - 1 had to be done, and must be done, and is freed, behind layer
 * (i + 1) L / n - 1: of all but the last layer each goes beside the next one.  Backward mirrors it: behind which copy out compute waited, there the copy
 * in begins.  PyTorch's hooks on saved tensors, which take all layers, keep a stash of a few tensors before they wait: about the same.  Of
 * recomputed layers it is their checkpoints that travel.  There are no pipelines (sharding.c refuses them), so unit 0 is the
 * embedding and unit i + 1 layer i. */
#include "models/lower-parts.h"

gboolean
sc_lower_offloads_activations (const ScPlan *plan)
{
  return (plan->offload & SC_OFFLOAD_ACTIVATIONS) != 0;
}

void
sc_lower_activations_begin (Lower *l)
{
  l->away = 0;
  l->trip = SC_NONE;
}

/* Behind which layer's forward the saved tensors of the @i-th one must have left. */
static guint
window (const Lower *l, guint i)
{
  const guint layers = l->in->workload->model.layers, n = l->plan->offload_layers;
  return layers / n * (i + 1) - 1 + MIN (i + 1, layers % n);
}

static double
saved_bytes (const Lower *l, guint layer)
{
  return sc_step_items_saved (l->in->items, sc_lower_layer_kind (l, layer));
}

/* The tensors of @layer leave the GPU, or are born there again. */
static void
put_saved (Lower *l, ScStreamKind stream, guint layer, gboolean back)
{
  const guint outer = l->info.layer;
  l->info.layer = layer;
  sc_lower_put_listed (l, stream, SC_MEM_ACTIVATIONS, l->in->items->layers[sc_lower_layer_kind (l, layer)].away[back ? 1 : 0], (back ? 1 : -1) * saved_bytes (l, layer));
  l->info.layer = outer;
}

static void
copy_out (Lower *l, guint layer)
{
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_COPY_OUT);
  sc_lower_put_host_copy (l, FALSE, "activations to the host", saved_bytes (l, layer));
  l->trip = sc_lower_put_record (l, SC_STREAM_COPY_OUT);
}

static void
copy_in (Lower *l, guint layer)
{
  sc_lower_put_order (l, SC_STREAM_COMPUTE, SC_STREAM_COPY_IN);
  put_saved (l, SC_STREAM_COPY_IN, layer, TRUE);
  sc_lower_put_host_copy (l, TRUE, "activations to the GPU", saved_bytes (l, layer));
  l->trip = sc_lower_put_record (l, SC_STREAM_COPY_IN);
}

static void
wait_trip (Lower *l)
{
  if (l->trip != SC_NONE)
    sc_program_wait (l->p, SC_STREAM_COMPUTE, l->trip);
  l->trip = SC_NONE;
}

void
sc_lower_activations_after_unit (Lower *l, const ScSlot *slot, guint unit)
{
  const guint n = l->plan->offload_layers;
  if (!sc_lower_offloads_activations (l->plan) || slot->pass != SC_PASS_FORWARD || unit == 0)
    return;
  if (unit == 1)
    copy_out (l, 0);
  if (l->away == n || window (l, l->away) != unit - 1)
    return;
  wait_trip (l);
  put_saved (l, SC_STREAM_COMPUTE, l->away, FALSE);
  l->away++;
  if (l->away < n)
    copy_out (l, l->away);
}

void
sc_lower_activations_before_unit (Lower *l, const ScSlot *slot, guint unit)
{
  if (!sc_lower_offloads_activations (l->plan) || slot->pass == SC_PASS_FORWARD || unit == 0)
    return;
  if (l->away > 0 && window (l, l->away - 1) == unit - 1)
    {
      wait_trip (l);
      l->away--;
      copy_in (l, l->away);
    }
  if (unit == 1)
    wait_trip (l);
}
