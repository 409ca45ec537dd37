/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device-json.h - device files: one type of GPU, every number with its grade and source.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "models/device.h"

extern const ScFieldTable sc_device_table;
extern const ScFieldTable sc_device_peak_table; /* peak_flops of sc_device_table */

/* Appends the tables of the reference that @device names: for what judges measurements, or shows them. */
gboolean sc_device_read_reference (ScDevice *device, GError **error);

/* Loads the relative that @device names, which must have samples, in place of none. @json: what errors are about, or NULL. */
gboolean sc_device_read_relative (ScDevice *device, const ScJson *json, GError **error);

ScDevice *sc_device_from_json (const ScJson *json, GError **error);

/* A device file by path, or a shipped one by name. */
ScDevice *sc_device_load (const char *argument, GError **error);

/* The same without its measured kernels: quicker, for what only asks for names and numbers. */
ScDevice *sc_device_load_numbers (const char *argument, GError **error);

/* A shipped device by name or alias; NULL without an error if there is none. */
ScDevice *sc_device_find (const char *name, GError **error);

/* Name or alias of a shipped device that @name is most likely a slip of; caller frees. */
char *sc_device_nearest (const char *name);

/* Whether @device is called @name, without regard to case, blanks, '-' and '_'. */
gboolean sc_device_is_called (const ScDevice *device, const char *name);
