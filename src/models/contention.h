/* SPDX-License-Identifier: GPL-3.0-or-later */
/* contention.h - what a running collective takes from the kernels beside it (MODELLING 6.5).
 * Layer: models.
 *
 * A collective is a kernel of as many blocks as the library opens channels for it, each of which keeps an SM.  Products lose that share
 * of their SMs: 24 of A100's 108 make them 1.29 times as long, where layers of arXiv 2205.05198 (table 4) say 1.3.  Memory-bound kernels
 * fill the memory's bandwidth from fewer SMs, and lose the share of it that the collective moves.  Where both were measured on the
 * GPU (device file: hidden_slowdown, memory_slowdown), beside an all-reduce of all channels, fewer channels take as much less.
 * Steps of waves are not modelled: one product loses more or less, many lose the share in the mean.  Copies between GPU and host, which
 * copy engines make, hold no SM. */
#pragma once
#include "models/collective.h"
#include "models/kernel.h"

typedef struct
{
  double  hold[SC_N_WORKS]; /* share of the rate taken */
  ScGrade grade;
} ScContention;

/* Of a call of @bytes that @choice executes, on @device; @choice has its times. */
ScContention sc_contention (const ScDevice *device, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes);

/* The same of a call with user buffers (Transformer Engine): whole, or one step of a ring, which is copied. */
ScContention sc_contention_user_buffers (const ScDevice *device, const ScCollChoice *choice, ScCollKind kind, const ScGroupShape *shape, double bytes);

/* How a forecast on @device says where its numbers are from. */
const char *sc_contention_text (const ScDevice *device);
