/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare.h - two reports side by side, and where their difference comes from; or a report beside what a run printed.
 * Layer: src. */
#pragma once
#include "models/category.h"
#include "train-log.h"

/* A leaf of topology, model or plan. */
typedef struct
{
  char *key, *value; /* "plan.tp", "8" */
} ScReportSetting;

/* What is compared of a report of stepcast run --format json. */
typedef struct
{
  char  *file;     /* as messages call it */
  char  *name;     /* "Llama 3 70B on dgx-h100-8" */
  double step_s, tokens_per_s_per_gpu, tokens_per_step, mfu, tflops_per_gpu;
  guint  gpus, global_batch;
  double time_s[SC_N_TIMES];  /* parts of the step, mean over the stages; sum == step_s */
  double bytes[SC_N_MEMS];    /* of the fullest GPU at its peak, by kind */
  double allocated_bytes, reserved_bytes, device_bytes, capacity_bytes;
  char  *verdict;
  GPtrArray *settings; /* ScReportSetting, owned, in the order of the report */
  double rank0_allocated_bytes, rank0_reserved_bytes; /* of the class that has rank 0 */
} ScReportRead;

ScReportRead *sc_report_read (const char *path, GError **error);
void          sc_report_read_free (ScReportRead *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScReportRead, sc_report_read_free)

void sc_compare_write_text (const ScReportRead *a, const ScReportRead *b, GString *out);
void sc_compare_write_json (const ScReportRead *a, const ScReportRead *b, GString *out);
void sc_compare_log_write_text (const ScReportRead *report, const char *file, const ScTrainLog *log, GString *out);
void sc_compare_log_write_json (const ScReportRead *report, const char *file, const ScTrainLog *log, GString *out);
