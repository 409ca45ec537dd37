/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain-report.c - what stepcast explain says: text for people, json for programs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "describe.h"
#include "explain.h"
#include "json-out.h"
#include "text-table.h"
#include "units.h"
#include <math.h>

#define WIDTH    100
#define MAX_RUNS 16   /* lines of the path */
#define CHANGES  3
#define LINKS    3
#define LEAST    5e-4 /* share of the step: smaller gains are none */
#define SCHEMA_VERSION 1

/* ---- Text ---- */

/* Kinds of time by length, "forward 1.2 s, exposed TP 0.3 s", as far as they are a hundredth of it. */
static char *
parts_text (const ScTime time[SC_N_TIMES], ScTime all)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gboolean said[SC_N_TIMES] = { FALSE };
  for (;;)
    {
      guint most = SC_N_TIMES;
      for (guint k = 0; k < SC_N_TIMES; k++)
        if (!said[k] && time[k] * 100 >= all && time[k] > 0 && (most == SC_N_TIMES || time[k] > time[most]))
          most = k;
      if (most == SC_N_TIMES)
        break;
      said[most] = TRUE;
      g_string_append_printf (text, "%s%s %.0f %%", text->len > 0 ? ", " : "", sc_time_kind_label ((ScTimeKind) most), 100.0 * (double) time[most] / (double) all);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Runs @first[0..n) as one. */
static ScExplainRun
sum_of (const ScExplainRun *first, guint n)
{
  ScExplainRun sum = *first;
  sum.to = first[n - 1].to;
  for (guint i = 1; i < n; i++)
    {
      for (guint k = 0; k < SC_N_TIMES; k++)
        sum.time[k] += first[i].time[k];
      sum.first_microbatch = MIN (sum.first_microbatch, first[i].first_microbatch);
      sum.last_microbatch = MAX (sum.last_microbatch, first[i].last_microbatch);
    }
  return sum;
}

static void
write_run (const ScExplainRun *r, guint n, GString *out)
{
  g_autofree char *stage = n == 1 ? g_strdup_printf ("%u", r->stage) : g_strdup_printf ("%u turns", n);
  g_autofree char *from = sc_format_seconds (sc_time_to_s (r->from)), *length = sc_format_seconds (sc_time_to_s (r->to - r->from));
  g_autofree char *batches = r->first_microbatch == G_MAXUINT              ? g_strdup ("-")
                             : r->first_microbatch == r->last_microbatch ? g_strdup_printf ("%u", r->first_microbatch)
                                                                            : g_strdup_printf ("%u-%u", r->first_microbatch, r->last_microbatch);
  g_autofree char *parts = parts_text (r->time, r->to - r->from);
  const gsize start = out->len;
  g_string_append_printf (out, "  %-9s %10s %10s  %-13s ", stage, from, length, batches);
  const guint column = (guint) (out->len - start);
  sc_append_wrapped (out, parts, column, column, WIDTH);
  g_string_append_c (out, '\n');
}

static void
write_path (const ScExplain *e, GString *out)
{
  const ScExplainRun *const runs = (const ScExplainRun *) (gconstpointer) e->runs->data;
  const guint n = e->runs->len, head = n <= MAX_RUNS ? n : MAX_RUNS / 2;
  g_autofree char *all = parts_text (e->time, e->summary->trace->end);
  g_string_append (out, "What its end waited for: the critical path\n  ");
  sc_append_wrapped (out, all, 2, 2, WIDTH);
  g_string_append_c (out, '\n');
  if (e->summary->trace->end != e->summary->step)
    {
      g_autofree char *length = sc_format_seconds (sc_time_to_s (e->summary->trace->end)), *step = sc_format_seconds (sc_time_to_s (e->summary->step));
      g_string_append_printf (out, "  Ranks begin one after another: from the first begin to the last end it is %s, of which a step begins every %s.\n", length, step);
    }
  g_string_append_c (out, '\n');
  g_string_append_printf (out, "  %-9s %10s %10s  %-13s of which\n", "stage", "from", "for", "micro-batches");
  for (guint i = 0; i < n;)
    {
      const guint take = i == head && n > MAX_RUNS ? n - MAX_RUNS + 1 : 1;
      const ScExplainRun run = sum_of (&runs[i], take);
      write_run (&run, take, out);
      i += take;
    }
  g_string_append_c (out, '\n');
}

static void
write_findings (const ScExplain *e, GString *out)
{
  g_string_append (out, "What that means\n");
  for (guint i = 0; i < e->findings->len; i++)
    {
      g_string_append (out, "  - ");
      sc_append_wrapped (out, g_ptr_array_index (e->findings, i), 4, 4, WIDTH);
      g_string_append_c (out, '\n');
    }
  g_string_append_c (out, '\n');
}

static void
write_resources (const ScExplain *e, GString *out)
{
  static const char *const titles[] = { "  resource", "", "--set", "step", "saves", NULL };
  g_string_append (out, "What each resource is worth, simulated anew\n");
  ScTextTable t = sc_text_table_new (titles, 3);
  for (guint i = 0; i < e->n_what_ifs; i++)
    {
      const ScResourceWorth *const w = &e->what_ifs[i];
      sc_text_table_cell (&t, g_strdup_printf ("  %s", w->row->name));
      sc_text_table_words (&t, w->row->times);
      sc_text_table_words (&t, w->row->set);
      sc_text_table_cell (&t, sc_format_seconds (w->step_s));
      sc_text_table_cell (&t, sc_text_percent (w->gain, FALSE));
    }
  sc_text_table_end (&t, FALSE, out);
}

static void
write_links (const ScExplain *e, GString *out)
{
  const ScLinksSummary *const links = e->summary->links;
  g_string_append (out, "\nHottest links, by mean utilisation over the step\n");
  guint n = 0;
  for (guint i = 0; i < links->n_rows && n < LINKS && links->rows[i].mean > 0; i++, n++)
    {
      g_autofree char *rate = sc_format_rate (links->rows[i].capacity_bytes_per_s);
      g_string_append_printf (out, "  %-36s %s, %u alike: %4.1f %%, at most %.1f %%\n", links->rows[i].name, rate, links->rows[i].n_links, 100 * links->rows[i].mean,
                              100 * links->rows[i].peak);
    }
  if (n == 0)
    g_string_append (out, "  none carries anything\n");
}

static gboolean
does_help (const ScPlanChange *c)
{
  return c->gain > LEAST && c->verdict != SC_VERDICT_DOES_NOT_FIT;
}

static void
write_changes (const ScExplain *e, GString *out)
{
  static const char *const titles[] = { "  change", "--set", "step", "saves", "device", NULL };
  g_autofree char *step = sc_format_seconds (e->stage_step_s);
  guint n = 0, too_large = 0;
  ScTextTable t = sc_text_table_new (titles, 2);
  for (guint i = 0; i < e->changes->len; i++)
    {
      const ScPlanChange *const c = g_ptr_array_index (e->changes, i);
      too_large += c->gain > LEAST && c->verdict == SC_VERDICT_DOES_NOT_FIT;
      if (!does_help (c) || n == CHANGES)
        continue;
      n++;
      g_autofree char *keys = g_strjoinv (" ", c->set);
      sc_text_table_cell (&t, g_strdup_printf ("  %s", c->text));
      sc_text_table_words (&t, keys);
      sc_text_table_cell (&t, sc_format_seconds (c->step_s));
      sc_text_table_cell (&t, sc_text_percent (c->gain, FALSE));
      sc_text_table_cell (&t, sc_format_bytes ((double) c->device_bytes));
    }
  g_string_append_printf (out, "\nWhat of the plan to change first (%s as it is)\n", step);
  g_autoptr (GString) table = g_string_new (NULL);
  sc_text_table_end (&t, FALSE, table);
  if (n > 0)
    g_string_append (out, table->str);
  g_string_append_printf (out, "  Of %u single changes that can be, %s%s", e->changes->len, n == 0 ? "none is faster and fits" : n < CHANGES ? "no other is faster and fits" : "these save most and fit",
                          too_large > 0 ? "" : ".\n");
  if (too_large > 0)
    g_string_append_printf (out, "; %u would be faster, but do%s not fit.\n", too_large, too_large == 1 ? "es" : "");
}

void
sc_explain_write_text (const ScExplain *e, GString *out)
{
  const ScSummary *const s = e->summary;
  g_autofree char *step = sc_format_seconds (sc_time_to_s (s->step)), *needs = sc_format_bytes ((double) s->classes[s->memory_class].peak_device_bytes);
  sc_describe_job (s, WIDTH, out);
  g_string_append_printf (out, "\n\n  Step %s, MFU %.1f %%; %s: %s on the fullest GPU\n\n", step, 100 * s->mfu_half_causal, sc_verdict_name (s->verdict), needs);
  write_path (e, out);
  write_findings (e, out);
  write_resources (e, out);
  write_links (e, out);
  write_changes (e, out);
}

/* ---- JSON ---- */

static void
add_time (cJSON *object, const char *key, ScTime time)
{
  char text[24];
  g_snprintf (text, sizeof text, "%" G_GINT64_FORMAT, time);
  cJSON_AddRawToObject (object, key, text);
}

static void
add_parts (cJSON *object, const ScTime time[SC_N_TIMES])
{
  cJSON *const parts = cJSON_AddObjectToObject (object, "time_ps");
  for (guint k = 0; k < SC_N_TIMES; k++)
    if (time[k] > 0)
      add_time (parts, sc_time_kind_name ((ScTimeKind) k), time[k]);
}

static void
add_path (const ScExplain *e, cJSON *root)
{
  cJSON *const path = cJSON_AddObjectToObject (root, "critical_path");
  add_time (path, "length_ps", e->summary->trace->end);
  cJSON_AddNumberToObject (path, "segments", e->path->len);
  add_parts (path, e->time);
  cJSON *const runs = cJSON_AddArrayToObject (path, "runs");
  for (guint i = 0; i < e->runs->len; i++)
    {
      const ScExplainRun *const r = &g_array_index (e->runs, ScExplainRun, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (runs, o);
      cJSON_AddNumberToObject (o, "stage", r->stage);
      add_time (o, "from_ps", r->from);
      add_time (o, "to_ps", r->to);
      sc_json_add_number (o, "first_microbatch", r->first_microbatch == G_MAXUINT ? (double) NAN : (double) r->first_microbatch);
      sc_json_add_number (o, "last_microbatch", r->first_microbatch == G_MAXUINT ? (double) NAN : (double) r->last_microbatch);
      add_parts (o, r->time);
    }
}

void
sc_explain_write_json (const ScExplain *e, GString *out)
{
  const ScSummary *const s = e->summary;
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", SCHEMA_VERSION);
  sc_json_add_text (root, "stepcast_version", PACKAGE_VERSION);
  sc_json_add_text (root, "topology", s->topology->name);
  sc_json_add_text (root, "workload", s->workload->name);
  cJSON_AddNumberToObject (root, "step_time_s", sc_time_to_s (s->step));
  add_time (root, "step_time_ps", s->step);
  add_path (e, root);
  cJSON *const findings = cJSON_AddArrayToObject (root, "findings");
  for (guint i = 0; i < e->findings->len; i++)
    cJSON_AddItemToArray (findings, cJSON_CreateString (g_ptr_array_index (e->findings, i)));
  cJSON *const resources = cJSON_AddArrayToObject (root, "resources");
  for (guint i = 0; i < e->n_what_ifs; i++)
    {
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (resources, o);
      sc_json_add_text (o, "resource", e->what_ifs[i].row->name);
      sc_json_add_text (o, "set", e->what_ifs[i].row->set);
      cJSON_AddNumberToObject (o, "step_time_s", e->what_ifs[i].step_s);
      cJSON_AddNumberToObject (o, "saved_share", e->what_ifs[i].gain);
    }
  cJSON_AddNumberToObject (root, "stage_detail_step_time_s", e->stage_step_s);
  cJSON *const changes = cJSON_AddArrayToObject (root, "changes");
  for (guint i = 0; i < e->changes->len; i++)
    {
      const ScPlanChange *const c = g_ptr_array_index (e->changes, i);
      cJSON *const o = cJSON_CreateObject ();
      cJSON_AddItemToArray (changes, o);
      sc_json_add_text (o, "change", c->text);
      cJSON_AddItemToObject (o, "set", cJSON_CreateStringArray ((const char *const *) c->set, (int) g_strv_length (c->set)));
      cJSON_AddNumberToObject (o, "step_time_s", c->step_s);
      cJSON_AddNumberToObject (o, "saved_share", c->gain);
      cJSON_AddNumberToObject (o, "peak_device_bytes", (double) c->device_bytes);
      cJSON_AddNumberToObject (o, "capacity_bytes", (double) c->capacity_bytes);
      sc_json_add_text (o, "verdict", sc_verdict_name (c->verdict));
    }
  sc_json_print (root, out);
}
