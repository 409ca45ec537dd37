/* SPDX-License-Identifier: GPL-3.0-or-later */
/* train-log.h - reads what a training run printed of its steps: Megatron's lines of iterations and memory, torchtitan's of steps.
 * Layer: src.  Lines are found in whatever a job prints around them: labels of srun and mpirun, colours, CRLF.  Of the steps the first
 * tenth, at least one where there are more, is left out (compilation, allocation), and the median of the rest is taken. */
#pragma once
#include <glib.h>

#define SC_TRAIN_LOG_MAX_BYTES (256u << 20)

typedef struct
{
  const char *framework; /* "Megatron" or "torchtitan", static */
  guint  steps, first;   /* lines found; the first that counts, from 0 */
  double step_s;         /* Megatron; NAN */
  double tokens_per_s_per_gpu; /* torchtitan; NAN */
  double tflops_per_gpu; /* NAN: not printed */
  guint  global_batch;   /* 0: not printed */
  guint  rank;           /* whose memory it is: the lowest that is printed */
  double max_allocated_bytes, max_reserved_bytes; /* NAN: not printed */
} ScTrainLog;

/* FALSE and SC_LIBRARY_ERROR (the file cannot be read) or SC_INPUT_ERROR (no such line is in it). */
gboolean sc_train_log_read (const char *path, ScTrainLog *ret_log, GError **error);
gboolean sc_train_log_parse (const char *file, const char *text, ScTrainLog *ret_log, GError **error);
