/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summarise.h - a trace becomes the numbers people ask for.
 * Layer: models. */
#pragma once
#include "models/brief.h"
#include "models/summarise-memory.h"
#include "models/summary.h"

/* Takes program, tapes and labels out of @lowered, and @trace.  @repeat: what of the step of @input they lack, or NULL.  @memory_margin: see ScSummary. */
ScSummary *sc_summarise (const ScLowerInput *input, ScLowered *lowered, ScTrace *trace, const ScRepeat *repeat, double memory_margin, ScMemoryDepth depth);

/* Sizes and memory alone, of a step that was lowered and not simulated: sc_forecast_memory().  Takes the tapes out of @lowered. */
ScSummary *sc_summarise_space (const ScLowerInput *input, ScLowered *lowered, double memory_margin, ScMemoryDepth depth);
