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

/* One for each class.  @efficiency: share of the datasheet's matrix rate inside a full wave, of this data type and library;
 * @sustained: factor on it, 1 for burst. */
ScForm sc_form_gemm (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency, double sustained);
ScForm sc_form_batched (const ScDevice *device, const ScKernel *kernel);

/* Blocks of 128 queries over the SMs.  The forms of tables take @efficiency; without one the device's curve over sequence
 * length stands in. */
ScForm sc_form_attention (const ScDevice *device, const ScKernel *kernel, const ScCited *efficiency);
ScForm sc_form_memory (const ScDevice *device, const ScKernel *kernel);

/* Alone on its link: launch and bytes over the rate. */
ScForm sc_form_host_copy (const ScDevice *device, const ScKernel *kernel);

/* Whether tensor cores read and write whole vectors of it; else it is priced as slow (assumed). */
gboolean sc_form_aligned (const ScKernel *kernel);

/* Bandwidth that @rate may claim: a cache's rate is no memory's. */
double sc_form_memory_rate (const ScDevice *device, const ScCited *rate);

static inline ScGrade
sc_grade_weaker (ScGrade a, ScGrade b)
{
  return MAX (a, b); /* the enum goes from the strongest to the weakest */
}
