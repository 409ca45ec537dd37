/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernel-form.h - the formulas behind kernel costs: tiles and waves, roofline, ramps (MODELLING 4.1, 4.3, 4.4).
 * Layer: models.  A form knows the datasheet and a few efficiencies; what a library makes of one shape is a residual on it. */
#pragma once
#include "models/kernel.h"

typedef struct
{
  double  seconds; /* burst, launch gap included */
  ScGrade grade;   /* of the weakest number that decides */
} ScForm;

/* The form of the kernel's class.
 * @efficiency: of products but the batched, and of attention: share of the datasheet's matrix rate inside a full wave, of this data
 * type and library.  NULL: of products the device's gemm_tile_efficiency; of attention its curve over sequence length stands in,
 * which it then must have.
 * @sustained: factor on it, for the same products; 1: burst. */
ScForm sc_kernel_form (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency, double sustained);

/* Whether tensor cores read and write whole vectors of it; else it is priced as slow (assumed). */
gboolean sc_form_aligned (const ScKernel *kernel);

/* Bandwidth that @rate may claim: a cache's rate is no memory's. */
double sc_form_memory_rate (const ScDevice *device, const ScCited *rate);

static inline ScGrade
sc_grade_weaker (ScGrade a, ScGrade b)
{
  return MAX (a, b); /* the enum goes from the strongest to the weakest */
}
