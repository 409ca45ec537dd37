/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-comm.c - collectives on their own as text, CSV and JSON.  doc/report-json.md describes the keys. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "report-comm.h"
#include "json-out.h"
#include "models/nccl.h"
#include "report.h"
#include "units.h"
#include <math.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

void
sc_comm_run_free (ScCommRun *run)
{
  if (run == NULL)
    return;
  g_free (run->measured_with);
  sc_comm_places_free (run->places);
  g_clear_pointer (&run->groups, g_ptr_array_unref);
  sc_comms_free (run->comms);
  g_clear_pointer (&run->rows, g_array_unref);
  g_free (run);
}

/* ---- what all formats say ---- */

static const ScCommSpec *
group_of (const ScCommRun *run, const ScCommRow *row)
{
  return g_ptr_array_index (run->groups, row->group);
}

static double
algbw (const ScCommRow *row)
{
  return row->bytes / row->result.seconds;
}

static double
busbw (const ScCommRun *run, const ScCommRow *row)
{
  const ScCommSpec *const group = group_of (run, row);
  return algbw (row) * sc_coll_bus_factor (group->kind, group->n);
}

static double
measured_busbw (const ScCommRun *run, const ScCommRow *row)
{
  const ScCommSpec *const group = group_of (run, row);
  return row->bytes / row->measured_s * sc_coll_bus_factor (group->kind, group->n);
}

/* Share of the time that the narrowest link alone needs. */
static double
bound_share (const ScCommRow *row)
{
  return row->result.bound_s / row->result.seconds;
}

static const char *
library_name (const ScCommRun *run)
{
  return run->library == SC_TEXTBOOK ? "textbook" : sc_nccl_version_name (sc_nccl_version_of_number (run->library));
}

/* Closed forms know no protocol. */
static const char *
protocol_name (const ScCommRun *run, const ScCommRow *row)
{
  return run->library == SC_TEXTBOOK ? NULL : sc_protocol_name (row->result.choice.protocol);
}

/* NULL: it loads no link.  Caller frees. */
static char *
link_name (const ScCommRun *run, const ScCommRow *row)
{
  return row->result.bound_link == SC_NONE ? NULL : sc_fabric_link_name (sc_comms_fabric (run->comms), row->result.bound_link);
}

/* Mean bus bandwidth of a group's rows; every size has one row of each group. */
static double
mean_busbw (const ScCommRun *run, guint group)
{
  double sum = 0;
  guint n = 0;
  for (guint i = group; i < run->rows->len; i += run->groups->len, n++)
    sum += busbw (run, &g_array_index (run->rows, ScCommRow, i));
  return n > 0 ? sum / n : 0;
}

ScCommAccuracy
sc_comm_accuracy (const ScCommReport *report, double min, double max)
{
  double sum = 0, distance = 0;
  guint n = 0;
  for (guint k = 0; k < report->runs->len; k++)
    {
      const ScCommRun *const run = g_ptr_array_index (report->runs, k);
      for (guint i = 0; i < run->rows->len; i++)
        {
          const ScCommRow *const row = &g_array_index (run->rows, ScCommRow, i);
          if (row->measured_s <= 0 || row->bytes < min || row->bytes >= max)
            continue;
          const double ratio = log (row->result.seconds / row->measured_s);
          sum += ratio;
          distance += fabs (ratio);
          n++;
        }
    }
  return (ScCommAccuracy) { n, n > 0 ? exp (sum / n) : 1, n > 0 ? expm1 (distance / n) : 0 };
}

static gboolean
is_finite (const ScCommReport *report, GError **error)
{
  for (guint k = 0; k < report->runs->len; k++)
    {
      const ScCommRun *const run = g_ptr_array_index (report->runs, k);
      for (guint i = 0; i < run->rows->len; i++)
        {
          const ScCommRow *const row = &g_array_index (run->rows, ScCommRow, i);
          if (isfinite (row->result.seconds) && row->result.seconds > 0 && isfinite (row->result.bound_s)
              && isfinite (row->result.choice.alone_s))
            continue;
          g_set_error (error, SC_REPORT_ERROR, SC_REPORT_ERROR_NOT_FINITE, "report: the time of %.0f bytes is not a positive number", row->bytes);
          return FALSE;
        }
    }
  return TRUE;
}

/* ---- text ---- */

static guint
widest_group (const ScCommRun *run)
{
  gsize width = strlen ("group");
  for (guint g = 0; g < run->groups->len; g++)
    {
      const ScCommSpec *const group = g_ptr_array_index (run->groups, g);
      width = MAX (width, strlen (group->name));
    }
  return (guint) MIN (width, 200);
}

static void
text_header (const ScCommReport *report, const ScCommRun *run, GString *out)
{
  guint ranks = 0;
  for (guint g = 0; g < run->groups->len; g++)
    ranks = MAX (ranks, ((const ScCommSpec *) g_ptr_array_index (run->groups, g))->n);
  g_string_append_printf (out, "# %s on %s, simulated\n", sc_coll_kind_name (run->kind), report->topology->name);
  if (run->groups->len == 1)
    g_string_append_printf (out, "# Ranks    %u on %u node%s, up to %u a node\n", ranks, run->places->n_nodes,
                            run->places->n_nodes == 1 ? "" : "s", run->places->per_node);
  else
    g_string_append_printf (out, "# Groups   %u at once, up to %u ranks each\n", run->groups->len, ranks);
  g_string_append_printf (out, "# Library  %s%s\n", library_name (run),
                          run->library == SC_TEXTBOOK ? ": closed forms over the links" : "");
  if (run->line > 0)
    g_string_append_printf (out, "# Measured %s:%u, with %s\n", report->log, run->line,
                            run->measured_with != NULL ? run->measured_with : "a library it does not name");
  const ScCommStats *const s = &run->stats;
  g_string_append_printf (out, "# Folding  %u GPUs in %u class%s, %u group%s in %u famil%s, %u links in %u class%s: %s\n#\n",
                          sc_comms_fabric (run->comms)->n_gpus, s->n_classes, s->n_classes == 1 ? "" : "es", run->groups->len,
                          run->groups->len == 1 ? "" : "s", s->n_families, s->n_families == 1 ? "y" : "ies", s->n_used_links,
                          s->n_link_classes, s->n_link_classes == 1 ? "" : "es", s->approximate ? "approximate" : "exact");
}

static void
text_columns (const ScCommRun *run, guint group_width, GString *out)
{
  const gboolean groups = group_width > 0, measured = run->line > 0;
  g_string_append_printf (out, "# %12s  ", "size");
  if (groups)
    g_string_append_printf (out, "%-*s  ", (int) group_width, "group");
  g_string_append_printf (out, "%11s%s %8s %8s%s%s  %-12s %-6s %4s %7s  %s\n", "time", measured ? "    measured  ratio" : "", "algbw", "busbw",
                          measured ? " measured" : "", groups ? "  slower" : "", "algo", "proto", "chan", "bound", "by");
  g_string_append_printf (out, "# %12s  ", "(B)");
  if (groups)
    g_string_append_printf (out, "%-*s  ", (int) group_width, "");
  g_string_append_printf (out, "%11s%s %8s %8s%s%s  %-12s %-6s %4s %7s\n", "(us)", measured ? "        (us)       " : "", "(GB/s)", "(GB/s)",
                          measured ? "   (GB/s)" : "", groups ? "     (x)" : "", "", "", "", "(%)");
}

static void
text_row (const ScCommRun *run, const ScCommRow *row, guint group_width, GString *out)
{
  const gboolean measured = row->measured_s > 0;
  const ScCommResult *const r = &row->result;
  g_string_append_printf (out, "  %12.0f  ", row->bytes);
  if (group_width > 0)
    g_string_append_printf (out, "%-*s  ", (int) group_width, group_of (run, row)->name);
  g_string_append_printf (out, "%11.2f", r->seconds * 1e6);
  if (measured)
    g_string_append_printf (out, " %11.2f %6.3f", row->measured_s * 1e6, r->seconds / row->measured_s);
  g_string_append_printf (out, " %8.2f %8.2f", algbw (row) / 1e9, busbw (run, row) / 1e9);
  if (measured)
    g_string_append_printf (out, " %8.2f", measured_busbw (run, row) / 1e9);
  if (group_width > 0)
    g_string_append_printf (out, " %7.3f", r->seconds / r->choice.alone_s);
  const char *const protocol = protocol_name (run, row);
  g_autofree char *channels = r->choice.channels > 0 ? g_strdup_printf ("%u", r->choice.channels) : g_strdup ("-");
  g_autofree char *link = link_name (run, row);
  g_string_append_printf (out, "  %-12s %-6s %4s %7.1f  %s\n", r->choice.row->name, protocol != NULL ? protocol : "-", channels,
                          bound_share (row) * 100, link != NULL ? link : "-");
}

/* One line where one says it all. */
static void
text_means (const ScCommRun *run, GString *out)
{
  gboolean alike = TRUE;
  for (guint g = 1; g < run->groups->len; g++)
    alike &= fabs (mean_busbw (run, g) - mean_busbw (run, 0)) < 5e6;
  for (guint g = 0; g < (alike ? 1 : run->groups->len); g++)
    {
      const ScCommSpec *const group = g_ptr_array_index (run->groups, g);
      g_string_append_printf (out, "# Avg bus bandwidth%s%s : %.2f\n", alike ? "" : " of ", alike ? "" : group->name, mean_busbw (run, g) / 1e9);
    }
}

static void
text_accuracy (const ScCommReport *report, const char *sizes, double min, double max, GString *out)
{
  const ScCommAccuracy a = sc_comm_accuracy (report, min, max);
  if (a.n > 0)
    g_string_append_printf (out, "# Simulated / measured, %-14s : %.3f, error %.1f %% (geometric means of %u rows)\n", sizes, a.ratio,
                            a.error * 100, a.n);
}

static void
write_text (const ScCommReport *report, GString *out)
{
  for (guint k = 0; k < report->runs->len; k++)
    {
      const ScCommRun *const run = g_ptr_array_index (report->runs, k);
      const guint group_width = run->groups->len > 1 ? widest_group (run) : 0;
      if (k > 0)
        g_string_append_c (out, '\n');
      text_header (report, run, out);
      text_columns (run, group_width, out);
      for (guint i = 0; i < run->rows->len; i++)
        text_row (run, &g_array_index (run->rows, ScCommRow, i), group_width, out);
      text_means (run, out);
    }
  text_accuracy (report, "below 1 MiB", 0, SC_COMM_SMALL_BYTES, out);
  text_accuracy (report, "from 1 MiB on", SC_COMM_SMALL_BYTES, INFINITY, out);
}

/* ---- CSV (RFC 4180) ---- */

static void
csv_number (GString *out, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append (out, g_ascii_formatd (text, sizeof text, "%.12g", value));
}

static void
csv_row (const ScCommReport *report, const ScCommRun *run, const ScCommRow *row, GString *out)
{
  const ScCommSpec *const group = group_of (run, row);
  const ScCommResult *const r = &row->result;
  if (report->log != NULL)
    g_string_append_printf (out, "%u,", run->line);
  sc_append_csv (out, group->name);
  g_string_append_printf (out, ",%s,%u,%.0f,", sc_coll_kind_name (group->kind), group->n, row->bytes);
  const double numbers[] = { r->seconds, algbw (row), busbw (run, row), r->choice.alone_s, r->seconds / r->choice.alone_s };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      csv_number (out, numbers[i]);
      g_string_append_c (out, ',');
    }
  const char *const protocol = protocol_name (run, row);
  g_string_append_printf (out, "%s,%s,%s,%u,", library_name (run), r->choice.row->name, protocol != NULL ? protocol : "", r->choice.channels);
  csv_number (out, r->bound_s);
  g_string_append_c (out, ',');
  g_autofree char *link = link_name (run, row);
  sc_append_csv (out, link);
  if (report->log != NULL)
    {
      const double measured[] = { row->measured_s, measured_busbw (run, row), r->seconds / row->measured_s };
      for (guint i = 0; i < G_N_ELEMENTS (measured); i++)
        {
          g_string_append_c (out, ',');
          csv_number (out, measured[i]);
        }
    }
  g_string_append_c (out, '\n');
}

static void
write_csv (const ScCommReport *report, GString *out)
{
  g_string_append_printf (out, "%sgroup,collective,ranks,size_bytes,time_s,algbw_bytes_per_s,busbw_bytes_per_s,alone_s,slowdown,library,"
                               "algorithm,protocol,channels,bound_s,bound_link%s\n",
                          report->log != NULL ? "log_line," : "",
                          report->log != NULL ? ",measured_time_s,measured_busbw_bytes_per_s,time_ratio" : "");
  for (guint k = 0; k < report->runs->len; k++)
    {
      const ScCommRun *const run = g_ptr_array_index (report->runs, k);
      for (guint i = 0; i < run->rows->len; i++)
        csv_row (report, run, &g_array_index (run->rows, ScCommRow, i), out);
    }
}

/* ---- JSON ---- */

static void
json_row (const ScCommRun *run, const ScCommRow *row, cJSON *rows)
{
  const ScCommSpec *const group = group_of (run, row);
  const ScCommResult *const r = &row->result;
  cJSON *const o = cJSON_CreateObject ();
  cJSON_AddItemToArray (rows, o);
  sc_json_add_text (o, "group", group->name);
  cJSON_AddNumberToObject (o, "size_bytes", row->bytes);
  cJSON_AddNumberToObject (o, "time_s", r->seconds);
  cJSON_AddNumberToObject (o, "algbw_bytes_per_s", algbw (row));
  cJSON_AddNumberToObject (o, "busbw_bytes_per_s", busbw (run, row));
  cJSON_AddNumberToObject (o, "alone_s", r->choice.alone_s);
  cJSON_AddNumberToObject (o, "slowdown", r->seconds / r->choice.alone_s);
  sc_json_add_text (o, "algorithm", r->choice.row->name);
  sc_json_add_text (o, "protocol", protocol_name (run, row));
  cJSON_AddNumberToObject (o, "channels", r->choice.channels);
  cJSON_AddNumberToObject (o, "bound_s", r->bound_s);
  g_autofree char *link = link_name (run, row);
  sc_json_add_text (o, "bound_link", link);
  if (row->measured_s <= 0)
    return;
  cJSON_AddNumberToObject (o, "measured_time_s", row->measured_s);
  cJSON_AddNumberToObject (o, "measured_busbw_bytes_per_s", measured_busbw (run, row));
  cJSON_AddNumberToObject (o, "time_ratio", r->seconds / row->measured_s);
}

static void
json_run (const ScCommRun *run, cJSON *o)
{
  sc_json_add_text (o, "collective", sc_coll_kind_name (run->kind));
  cJSON_AddNumberToObject (o, "ranks", run->places->n);
  cJSON_AddNumberToObject (o, "nodes", run->places->n_nodes);
  sc_json_add_text (o, "library", library_name (run));
  cJSON *const fold = cJSON_AddObjectToObject (o, "fold");
  cJSON_AddNumberToObject (fold, "gpus", sc_comms_fabric (run->comms)->n_gpus);
  cJSON_AddNumberToObject (fold, "rank_classes", run->stats.n_classes);
  cJSON_AddNumberToObject (fold, "groups", run->groups->len);
  cJSON_AddNumberToObject (fold, "families", run->stats.n_families);
  cJSON_AddNumberToObject (fold, "links", run->stats.n_used_links);
  cJSON_AddNumberToObject (fold, "link_classes", run->stats.n_link_classes);
  cJSON_AddBoolToObject (fold, "approximate", run->stats.approximate);
  cJSON *const groups = cJSON_AddArrayToObject (o, "groups");
  for (guint g = 0; g < run->groups->len; g++)
    {
      const ScCommSpec *const group = g_ptr_array_index (run->groups, g);
      cJSON *const item = cJSON_CreateObject ();
      cJSON_AddItemToArray (groups, item);
      sc_json_add_text (item, "name", group->name);
      sc_json_add_text (item, "collective", sc_coll_kind_name (group->kind));
      cJSON_AddNumberToObject (item, "ranks", group->n);
      cJSON_AddBoolToObject (item, "sweeps", group->bytes == 0);
      cJSON_AddNumberToObject (item, "mean_busbw_bytes_per_s", mean_busbw (run, g));
    }
  cJSON *const rows = cJSON_AddArrayToObject (o, "rows");
  for (guint i = 0; i < run->rows->len; i++)
    json_row (run, &g_array_index (run->rows, ScCommRow, i), rows);
}

static void
json_accuracy (const ScCommReport *report, const char *key, double min, double max, cJSON *object)
{
  const ScCommAccuracy a = sc_comm_accuracy (report, min, max);
  cJSON *const o = cJSON_AddObjectToObject (object, key);
  cJSON_AddNumberToObject (o, "rows", a.n);
  cJSON_AddNumberToObject (o, "time_ratio", a.ratio);
  cJSON_AddNumberToObject (o, "error", a.error);
}

static void
write_json (const ScCommReport *report, GString *out)
{
  g_autoptr (cJSON) root = cJSON_CreateObject ();
  cJSON_AddNumberToObject (root, "schema_version", 1);
  sc_json_add_text (root, "stepcast_version", PACKAGE_VERSION);
  cJSON *const topology = cJSON_AddObjectToObject (root, "topology");
  sc_json_add_text (topology, "name", report->topology->name);
  cJSON_AddNumberToObject (topology, "nodes", report->topology->n_nodes);
  cJSON_AddNumberToObject (topology, "gpus", report->topology->n_gpus);
  if (report->log == NULL)
    json_run (g_ptr_array_index (report->runs, 0), root);
  else
    {
      sc_json_add_text (root, "log", report->log);
      cJSON *const runs = cJSON_AddArrayToObject (root, "runs");
      for (guint k = 0; k < report->runs->len; k++)
        {
          const ScCommRun *const run = g_ptr_array_index (report->runs, k);
          cJSON *const o = cJSON_CreateObject ();
          cJSON_AddItemToArray (runs, o);
          cJSON_AddNumberToObject (o, "log_line", run->line);
          sc_json_add_text (o, "measured_with", run->measured_with);
          json_run (run, o);
        }
      cJSON *const accuracy = cJSON_AddObjectToObject (root, "accuracy");
      json_accuracy (report, "below_1_mib", 0, SC_COMM_SMALL_BYTES, accuracy);
      json_accuracy (report, "from_1_mib_on", SC_COMM_SMALL_BYTES, INFINITY, accuracy);
    }
  sc_json_print (root, out);
}

/* ---- the table ---- */

const ScCommFormat *
sc_comm_format_all (guint *ret_n)
{
  static const ScCommFormat formats[] = { { "text", write_text }, { "csv", write_csv }, { "json", write_json } };
  *ret_n = G_N_ELEMENTS (formats);
  return formats;
}

gboolean
sc_comm_report_write (const ScCommReport *report, const ScCommFormat *format, GString *out, GError **error)
{
  if (!is_finite (report, error))
    return FALSE;
  format->write (report, out);
  return TRUE;
}
