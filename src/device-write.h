/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device-write.h - a device as the text of a file that device-json.h reads back.
 * Layer: src. */
#pragma once
#include "models/device.h"

/* All of @device but what follows from other files: samples stand in the file itself.  @comment: NULL for none. */
void sc_device_write (const ScDevice *device, const char *comment, GString *out);

/* Tables of measured kernels (ScSampleTable) as calibrations/NAME.json holds them. */
void sc_device_write_samples (const GPtrArray *tables, const char *comment, GString *out);
