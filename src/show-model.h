/* SPDX-License-Identifier: GPL-3.0-or-later */
/* show-model.h - a model in numbers: each field with where it is from, and its parameters.
 * Layer: src. */
#pragma once
#include <glib.h>

/* Of a workload (with the overrides of @set), or of config.json of a published model. */
gboolean sc_show_model (const char *argument, char **set, GString *out, GError **error);
