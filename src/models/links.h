/* SPDX-License-Identifier: GPL-3.0-or-later */
/* links.h - the usage of the program's links becomes what people ask of the fabric's: how full, when, and who used them.
 * Layer: models. */
#pragma once
#include "models/lower.h"
#include "models/summary.h"

/* @usage: of the program that @input was lowered to. */
ScLinksSummary *sc_links_summarise (const ScLowerInput *input, const ScUsage *usage);
