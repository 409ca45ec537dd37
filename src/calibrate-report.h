/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate-report.h - what a calibration found, and how well it holds.
 * Layer: src. */
#pragma once
#include "calibrate.h"

typedef struct
{
  const char *name; /* of --format */
  void (*write) (const ScCalibration *calibration, GString *out);
} ScCalibrateFormat;

/* text, json, tsv; ends with a row whose name is NULL. */
const ScCalibrateFormat *sc_calibrate_formats (void);
