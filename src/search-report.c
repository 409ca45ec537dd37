/* SPDX-License-Identifier: GPL-3.0-or-later */
/* search-report.c - what a search found, for people and for programs. */
#include "search.h"
#include "describe.h"
#include "json-out.h"
#include "models/sharding.h"
#include "text-table.h"
#include "units.h"
#include <math.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)
#define WIDTH 100
#define SHOWN_FRONT 12
#define NEAR 0.002 /* of the step: differences below are not worth a word */

static double
final_s (const ScSearchFound *f)
{
  return isfinite (f->confirmed_s) ? f->confirmed_s : f->step_s;
}

static double
free_share (const ScSearchFound *f)
{
  return 1 - (double) f->device_bytes / (double) f->capacity_bytes;
}

/* Where @f is slower than @best, most first: "+1.2 s exposed TP, +0.3 s bubble". */
static char *
why_slower (const ScSearchFound *f, const ScSearchFound *best)
{
  GString *const text = g_string_new (NULL);
  gboolean told[SC_N_TIMES] = { FALSE };
  for (guint n = 0; n < 2; n++)
    {
      guint most = 0;
      for (guint kind = 1; kind < SC_N_TIMES; kind++)
        if (!told[kind] && (told[most] || f->time_s[kind] - best->time_s[kind] > f->time_s[most] - best->time_s[most]))
          most = kind;
      const double more = f->time_s[most] - best->time_s[most];
      if (told[most] || more < NEAR * best->step_s)
        break;
      told[most] = TRUE;
      g_string_append_printf (text, "%s+%.3g s %s", text->len > 0 ? ", " : "", more, sc_time_kind_label ((ScTimeKind) most));
    }
  if (text->len == 0)
    g_string_append (text, f == best ? "" : "about as fast");
  return g_string_free (text, FALSE);
}

static ScTextTable
table_begin (gboolean why)
{
  static const char *const titles[] = { "  ", "recompute", "sharding", "schedule", "TP", "PP", "VPP", "DP", "CP", "EP", "micro", "step, s", "MFU", "device, GiB", "free", "why slower", NULL };
  const char *some[G_N_ELEMENTS (titles)];
  memcpy (some, titles, sizeof titles);
  if (!why)
    some[G_N_ELEMENTS (titles) - 2] = NULL;
  return sc_text_table_new (some, 4);
}

static void
table_row (ScTextTable *t, const char *name, const ScSearchFound *f, const ScSearchFound *best)
{
  const ScSearchPlan *const p = &f->plan;
  sc_text_table_words (t, name);
  sc_text_table_words (t, f->set != NULL ? sc_search_recomputes[p->recompute] : "its own");
  sc_text_table_words (t, sc_sharding_row ((ScSharding) p->sharding)->name);
  sc_text_table_words (t, f->schedule);
  sc_text_table_cell (t, g_strdup_printf ("%u%s", p->tp, p->sequence_parallel ? "+SP" : ""));
  const guint sizes[] = { p->pp, p->vpp, f->dp, p->cp, p->ep, p->micro_batch };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    sc_text_table_cell (t, g_strdup_printf ("%u", sizes[i]));
  sc_text_table_cell (t, g_strdup_printf ("%.4g", final_s (f)));
  sc_text_table_cell (t, sc_text_percent (f->mfu * f->step_s / final_s (f), FALSE));
  sc_text_table_cell (t, g_strdup_printf ("%.2f", (double) f->device_bytes / GIB));
  sc_text_table_cell (t, sc_text_percent (free_share (f), FALSE));
  if (best != NULL)
    sc_text_table_cell (t, why_slower (f, best));
}

static void
write_counts (const ScSearch *s, GString *out)
{
  g_autofree char *text = g_strdup_printf (
      "%" G_GUINT64_FORMAT " plans: %" G_GUINT64_FORMAT " cannot be, %" G_GUINT64_FORMAT " cannot fit by their states and activations alone, %" G_GUINT64_FORMAT
      " %s, %" G_GUINT64_FORMAT " were simulated, of which %" G_GUINT64_FORMAT " do not fit, %" G_GUINT64_FORMAT " kernel by kernel.",
      s->n_plans, s->n_refused, s->n_memory, s->n_time, s->stopped ? "were left when --max-plans was reached: a better one may be among them" : "cannot be faster than those shown by their schedule alone",
      s->n_simulated, s->n_unfit, s->n_confirmed);
  sc_append_wrapped (out, text, 0, 2, WIDTH);
  g_string_append_c (out, '\n');
}

static void
write_beside (const ScSearch *s, GString *out)
{
  const ScSearchFound *const best = g_ptr_array_index (s->best, 0);
  g_string_append (out, "\nBeside it\n");
  ScTextTable t = table_begin (TRUE);
  if (s->thumb != NULL)
    table_row (&t, "  rule of thumb", s->thumb, best);
  if (s->given != NULL)
    table_row (&t, "  as given", s->given, best);
  sc_text_table_end (&t, FALSE, out);
  if (s->thumb == NULL)
    g_string_append (out, "  The rule of thumb finds no plan that fits.\n");
  sc_append_wrapped (out, "  Rule of thumb: micro-batches of one sequence, tensor parallelism inside a node until it fits, then states shared out, then a pipeline, then recompute; data "
                          "parallelism with what is left.", 0, 2, WIDTH);
  g_string_append_c (out, '\n');
}

static void
write_front (const ScSearch *s, GString *out)
{
  if (s->front->len < 2)
    return;
  g_string_append (out, "\nFaster or leaner: of the plans simulated, no other is both than these (steps at stage detail)\n");
  ScTextTable t = table_begin (FALSE);
  for (guint i = 0; i < MIN (s->front->len, SHOWN_FRONT); i++)
    {
      ScSearchFound f = *(const ScSearchFound *) g_ptr_array_index (s->front, i);
      f.confirmed_s = NAN;
      table_row (&t, "  ", &f, NULL);
    }
  sc_text_table_end (&t, FALSE, out);
}

void
sc_search_write_text (const ScSearch *s, const ScSearchInput *in, GString *out)
{
  g_string_append_printf (out, "%s: %u GPUs of %s, %u sequences of %u a step\n", in->workload->name != NULL ? in->workload->name : "workload", in->gpus,
                          in->topology->name != NULL ? in->topology->name : "topology", in->global_batch, in->workload->seq);
  g_string_append (out, "  The workload's own plan is only where the search starts: what its parallel sizes, schedule, sharding, recompute and micro-batch are, it decides.\n\n");
  if (s->best->len == 0)
    {
      g_string_append (out, "No plan fits.\n");
      write_counts (s, out);
      return;
    }
  const ScSearchFound *const best = g_ptr_array_index (s->best, 0);
  ScTextTable t = table_begin (TRUE);
  for (guint i = 0; i < s->best->len; i++)
    {
      g_autofree char *name = g_strdup_printf ("  %u", i + 1);
      table_row (&t, name, g_ptr_array_index (s->best, i), best);
    }
  sc_text_table_end (&t, FALSE, out);
  write_counts (s, out);
  write_beside (s, out);
  write_front (s, out);
  g_autofree char *set = g_strjoinv (" --set ", best->set);
  g_string_append (out, "\nThe first one: ");
  g_string_append_printf (out, "--set %s\n", set);
}

/* ---- JSON ---- */

static cJSON *
found_json (const ScSearchFound *f)
{
  cJSON *const o = cJSON_CreateObject ();
  sc_json_add_number (o, "step_time_s", f->step_s);
  sc_json_add_number (o, "confirmed_step_time_s", f->confirmed_s);
  sc_json_add_number (o, "bound_s", f->bound_s);
  sc_json_add_number (o, "mfu_half_causal", f->mfu);
  sc_json_add_number (o, "bubble_fraction", f->bubble);
  sc_json_add_number (o, "peak_device_bytes", (double) f->device_bytes);
  sc_json_add_number (o, "capacity_bytes", (double) f->capacity_bytes);
  sc_json_add_text (o, "verdict", sc_verdict_name (f->verdict));
  const struct
  {
    const char *key;
    guint value;
  } sizes[] = { { "tp", f->plan.tp }, { "pp", f->plan.pp }, { "vpp", f->plan.vpp }, { "dp", f->dp }, { "cp", f->plan.cp }, { "ep", f->plan.ep }, { "micro_batch", f->plan.micro_batch },
                { "microbatches", f->microbatches } };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    sc_json_add_number (o, sizes[i].key, sizes[i].value);
  sc_json_add_text (o, "sharding", sc_sharding_row ((ScSharding) f->plan.sharding)->name);
  sc_json_add_text (o, "schedule", f->schedule);
  cJSON_AddBoolToObject (o, "sequence_parallel", f->plan.sequence_parallel);
  if (f->set != NULL)
    sc_json_add_text (o, "recompute", sc_search_recomputes[f->plan.recompute]);
  cJSON *const time = cJSON_AddObjectToObject (o, "time_s");
  for (guint kind = 0; kind < SC_N_TIMES; kind++)
    sc_json_add_number (time, sc_time_kind_name ((ScTimeKind) kind), f->time_s[kind]);
  if (f->set != NULL)
    {
      cJSON *const set = cJSON_AddArrayToObject (o, "set");
      for (char **one = f->set; *one != NULL; one++)
        cJSON_AddItemToArray (set, cJSON_CreateString (*one));
    }
  return o;
}

static void
add_all (cJSON *root, const char *key, const GPtrArray *found)
{
  cJSON *const array = cJSON_AddArrayToObject (root, key);
  for (guint i = 0; i < found->len; i++)
    cJSON_AddItemToArray (array, found_json (g_ptr_array_index (found, i)));
}

gboolean
sc_search_write_json (const ScSearch *s, const ScSearchInput *in, GString *out, GError **error)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", 1);
  sc_json_add_text (root, "topology", in->topology->name);
  sc_json_add_text (root, "workload_name", in->workload->name);
  cJSON_AddNumberToObject (root, "gpus", in->gpus);
  cJSON_AddNumberToObject (root, "global_batch", in->global_batch);
  cJSON_AddNumberToObject (root, "plans_evaluated", (double) s->n_plans);
  cJSON *const pruned = cJSON_AddObjectToObject (root, "pruned");
  cJSON_AddNumberToObject (pruned, "refused", (double) s->n_refused);
  cJSON_AddNumberToObject (pruned, "memory_bound", (double) s->n_memory);
  cJSON_AddNumberToObject (pruned, "time_bound", (double) s->n_time);
  cJSON_AddNumberToObject (root, "plans_simulated", (double) s->n_simulated);
  cJSON_AddNumberToObject (root, "plans_that_do_not_fit", (double) s->n_unfit);
  cJSON_AddNumberToObject (root, "plans_confirmed", (double) s->n_confirmed);
  cJSON_AddBoolToObject (root, "stopped", s->stopped);
  add_all (root, "best", s->best);
  add_all (root, "front", s->front);
  cJSON_AddItemToObject (root, "rule_of_thumb", s->thumb != NULL ? found_json (s->thumb) : cJSON_CreateNull ());
  cJSON_AddItemToObject (root, "as_given", s->given != NULL ? found_json (s->given) : cJSON_CreateNull ());
  g_autofree char *workload = s->best->len > 0 ? sc_search_workload (in, g_ptr_array_index (s->best, 0), error) : NULL;
  if (s->best->len > 0 && workload == NULL)
    return FALSE;
  cJSON_AddItemToObject (root, "workload", workload != NULL ? cJSON_Parse (workload) : cJSON_CreateNull ());
  sc_json_print (root, out);
  return TRUE;
}
