/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sample-tables.h - rows of measured kernels become the tables of a device.
 * Layer: src. */
#pragma once
#include "kernel-rows.h"
#include "models/samples.h"

/* The kernels of @rows that ran on @device, one table for each class, data type, operation and software, in the order of their
 * first rows (ScSampleTable, owned).  Each has the efficiency at which the form meets the median of its larger products. */
GPtrArray *sc_sample_tables_new (const ScDevice *device, const ScKernelRows *rows);

/* Efficiency at which the form, on @device, meets the median of the larger half of @table; 0 for memory-bound and batched ones. */
double sc_sample_table_efficiency (const ScDevice *device, const ScSampleTable *table);
