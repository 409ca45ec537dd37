/* SPDX-License-Identifier: GPL-3.0-or-later */
/* optimizer.c - the optimizer step of one rank. */
#include "models/layer-pass.h"
#include "models/sharding.h"

/* Adam, fused: reads gradient, master weight and two moments in fp32, writes the three and the 16-bit weight
 * (MODELLING 4.5); of fp32 weights there is no copy. */
static double
adam_bytes (const Pass *p)
{
  return p->plan->dtype == SC_DTYPE_FP32 || sc_sharding_of (p->plan->sharding, p->fw)->fp32_weights ? 28 : 30;
}

void
sc_optimizer_step (const ScLayerShape *shape, double held, double owned, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_OPTIMIZER);
  const double norm = 4, adam = adam_bytes (&p);
  const double rest = p.fw->optimizer_bytes_per_param - norm - adam;
  sc_pass_operation (&p, "gradient norm", SC_OP_GRADIENT_NORM, norm * owned, 0);
  const gboolean here = p.plan->offload != SC_OFFLOAD_OPTIMIZER && p.plan->offload != SC_OFFLOAD_BOTH; /* not on the host */
  if (rest > 0 && here)
    {
      ScKernel k = sc_kernel_memory ("unscale and clip", SC_KERNEL_OPTIMIZER, rest * owned);
      k.dtype = p.plan->dtype;
      sc_pass_kernel (&p, k);
    }
  if (here)
    sc_pass_operation (&p, "adam", SC_OP_ADAM, adam * owned, 0);
  if (p.fw->fp32_main_grads)
    sc_pass_elementwise (&p, "zero gradients", p.grad * held);
}

void
sc_weights_cast (const ScLayerShape *shape, double params, GArray *items)
{
  Pass p = sc_pass_new (shape, items, SC_TIME_OPTIMIZER);
  sc_pass_cast (&p, "cast of weights", params);
}
