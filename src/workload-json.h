/* SPDX-License-Identifier: GPL-3.0-or-later */
/* workload-json.h - workload files: what is trained, and by which plan, in the vocabulary of published tables.
 * Layer: src. */
#pragma once
#include "fields.h"
#include "hf-config.h"
#include "models/workload.h"

extern const ScFieldTable sc_workload_table;
extern const ScFieldTable sc_software_table, sc_model_table, sc_plan_table; /* objects of it */
extern const ScFieldTable sc_mla_table, sc_indexer_table;                     /* objects of the model */
extern const ScFieldTable sc_zero_table;                                      /* object of the plan */

/* Reads, completes and checks the file @argument, or the shipped workload of that name, with the overrides of @set
 * (NULL-ended, may be NULL) that are not for the topology.
 * Where one of plan.dp and plan.gpus is overridden, the other one of the file gives way and follows; where only tp, pp
 * or cp are and the file has both, the file's gpus stay and dp follows. */
ScWorkload *sc_workload_load (const char *argument, char **set, GError **error);

/* The same of a file that was read: @file is what messages call it. */
ScWorkload *sc_workload_from_text (const char *file, const char *text, gsize length, char **set, GError **error);

ScWorkload *sc_workload_from_json (ScJson *json, GError **error);

/* The same.  *ret_hf (may be NULL): the file that "hf_config" of the model names, NULL where there is none; yours. */
ScWorkload *sc_workload_from_json_hf (ScJson *json, ScHfConfig **ret_hf, GError **error);
