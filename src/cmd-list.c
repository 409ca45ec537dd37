/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-list.c - stepcast list: every table of the program and every shipped input, with sources. */
#include "cmd.h"
#include "describe.h"
#include "device-json.h"
#include "fit.h"
#include "grid-json.h"
#include "hf-config.h"
#include "json-in.h"
#include "library.h"
#include "models/collective.h"
#include "models/framework.h"
#include "models/optimizer.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "models/schedule.h"
#include "models/sharding.h"
#include "profile-json.h"
#include "samples-json.h"
#include "topology-json.h"
#include "workload-json.h"
#include <string.h>

#define WIDTH 100

/* "text", wrapped, on lines of its own. */
static void
append_paragraph (GString *out, guint indent, const char *text)
{
  if (text == NULL)
    return;
  g_string_append_printf (out, "%*s", (int) indent, "");
  sc_append_wrapped (out, text, indent, indent, WIDTH);
  g_string_append_c (out, '\n');
}

/* A row of most tables: name, summary, source. */
static void
append_row (GString *out, const char *name, const char *summary, const char *source)
{
  g_string_append_printf (out, "  %s\n", name);
  append_paragraph (out, 6, summary);
  g_autofree char *text = source != NULL ? g_strdup_printf ("Source: %s", source) : NULL;
  append_paragraph (out, 6, text);
}

/* ---- Fields ---- */

static void
append_table (GString *out, const ScFieldTable *table)
{
  g_string_append_printf (out, "\n  %s\n", table->title);
  for (const ScField *field = table->fields; field->key != NULL; field++)
    {
      g_autofree char *type = sc_field_type_text (field);
      g_autofree char *range = sc_field_range_text (field);
      g_autofree char *fallback = sc_field_default_text (field);
      const gboolean required = strcmp (fallback, "required") == 0;
      g_autofree char *line = g_strdup_printf ("%s%s%s; %s%s", type, *range != '\0' ? ", " : "", range,
                                               required ? "" : "default: ", fallback);
      g_string_append_printf (out, "    %-24s ", field->key);
      sc_append_wrapped (out, line, 29, 31, WIDTH);
      g_string_append_c (out, '\n');
      g_autofree char *help = g_strdup_printf ("%c%s.", g_ascii_toupper (*field->help), field->help + 1);
      append_paragraph (out, 31, help);
    }
}

static gboolean
list_fields (GString *out, GError **error)
{
  static const ScFieldTable *const tables[] = {
    &sc_workload_table, &sc_software_table,    &sc_model_table,  &sc_mla_table,       &sc_indexer_table, &sc_plan_table, &sc_zero_table,
    &sc_profile_table,
    &sc_topology_table, &sc_node_type_table,   &sc_nvlink_table, &sc_pcie_table,
    &sc_nics_table,     &sc_node_run_table,    &sc_fabric_table, &sc_tier_table,
    &sc_fault_table,    &sc_fault_place_table, &sc_uplink_table, &sc_background_table,
    &sc_topology_device_table, &sc_what_if_table,
    &sc_device_table,   &sc_device_peak_table, &sc_samples_table,
    &sc_grid_table,
  };
  (void) error;
  append_paragraph (
      out, 2,
      "A cited number is {\"value\": ..., \"grade\": \"measured\", \"datasheet\", \"fitted\" or "
      "\"assumed\", \"source\": \"...\"}; in topology files a plain value may stand for it (assumed). A "
      "curve is {\"points\": [[x, value], ...], \"grade\": ..., \"source\": ...}. Rates are per direction; "
      "GB are 10^9 and GiB 2^30 bytes, Gb are bits. Any object may have a \"comment\". In software, model "
      "and plan, null means not stated.");
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    append_table (out, tables[i]);
  return TRUE;
}

/* ---- Shipped inputs ---- */

static void
append_value (GString *out, const char *key, const char *value, ScGrade grade, const char *source)
{
  g_autofree char *text =
      g_strdup_printf ("%s (%s: %s)", value, sc_grade_name (grade), source != NULL ? source : "no source");
  g_string_append_printf (out, "      %-24s ", key);
  sc_append_wrapped (out, text, 31, 33, WIDTH);
  g_string_append_c (out, '\n');
}

static void
append_device_values (GString *out, const ScFieldTable *table, const ScDevice *device)
{
  for (const ScField *field = table->fields; field->key != NULL; field++)
    {
      const void *member = (const char *) device + field->offset;
      if (field->kind == SC_FIELD_OBJECT)
        append_device_values (out, field->table, device);
      else if (field->kind == SC_FIELD_CITED)
        {
          const ScCited *cited = member;
          if (cited->value <= 0 && field->min > 0)
            continue; /* not supported */
          g_autofree char *value = sc_unit_format (cited->value, field->unit);
          append_value (out, field->key, value, cited->grade, cited->source);
        }
      else if (field->kind == SC_FIELD_CURVE)
        {
          const ScCurve *curve = member;
          g_autoptr (GString) points = g_string_new (NULL);
          for (guint i = 0; i < curve->n; i++)
            {
              g_autofree char *y = sc_unit_format (curve->y[i], field->unit);
              g_string_append_printf (points, "%s%g: %s", i == 0 ? "" : ", ", curve->x[i], y);
            }
          if (curve->n > 0)
            append_value (out, field->key, points->str, curve->grade, curve->source);
        }
    }
}

static gboolean
list_devices (GString *out, GError **error)
{
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_DEVICE)) != NULL)
    {
      g_autoptr (ScDevice) device = sc_device_load_numbers (row->name, error);
      if (device == NULL)
        return FALSE;
      append_row (out, device->name, device->summary, NULL);
      g_autofree char *aliases = g_strjoinv (", ", device->aliases);
      g_autofree char *text = g_strdup_printf ("Also called: %s", aliases);
      append_paragraph (out, 6, *aliases != '\0' ? text : NULL);
      append_device_values (out, &sc_device_table, device);
    }
  return TRUE;
}

static gboolean
list_topologies (GString *out, GError **error)
{
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_TOPOLOGY)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("topologies/%s.json", row->name);
      g_autoptr (ScTopology) topology = sc_topology_load (path, NULL, NULL, error);
      if (topology == NULL)
        return FALSE;
      append_row (out, row->name, topology->summary, topology->source);
    }
  return TRUE;
}

static gboolean
list_workloads (GString *out, GError **error)
{
  const ScLibraryRow *row = NULL;
  while ((row = sc_library_next (row, SC_KIND_WORKLOAD)) != NULL)
    {
      g_autofree char *path = g_strdup_printf ("workloads/%s.json", row->name);
      g_autoptr (ScWorkload) workload = sc_workload_load (path, NULL, error);
      if (workload == NULL)
        return FALSE;
      g_autoptr (GString) summary = g_string_new (NULL);
      g_string_append_printf (summary, "%s: ", workload->name);
      sc_describe_model (workload, summary);
      g_string_append (summary, "; ");
      sc_describe_plan (workload, summary);
      append_row (out, row->name, summary->str, workload->source);
    }
  return TRUE;
}

/* ---- Tables of the program ---- */

static gboolean
list_frameworks (GString *out, GError **error)
{
  (void) error;
  for (const ScFramework *const *row = sc_framework_all (); *row != NULL; row++)
    {
      g_autofree char *name = g_strdup_printf ("%s %s", (*row)->name, (*row)->version);
      append_row (out, name, (*row)->summary, (*row)->source);
    }
  return TRUE;
}

static gboolean
list_schedules (GString *out, GError **error)
{
  (void) error;
  for (const ScSchedule *const *row = sc_schedule_all (); *row != NULL; row++)
    append_row (out, (*row)->name, (*row)->summary, (*row)->source);
  return TRUE;
}

static gboolean
list_shardings (GString *out, GError **error)
{
  (void) error;
  for (const ScShardingRow *const *row = sc_sharding_all (); *row != NULL; row++)
    append_row (out, (*row)->name, (*row)->summary, (*row)->source);
  return TRUE;
}

static gboolean
list_collectives (GString *out, GError **error)
{
  (void) error;
  for (const ScCollective *const *row = sc_collective_all (); *row != NULL; row++)
    append_row (out, (*row)->name, (*row)->summary, (*row)->source);
  return TRUE;
}

static gboolean
list_modules (GString *out, GError **error)
{
  (void) error;
  for (guint i = 0; i < SC_N_MODULES; i++)
    {
      const ScModuleRow *const row = sc_module_row ((ScModule) i);
      append_row (out, row->name, row->summary, row->source);
    }
  return TRUE;
}

static gboolean
list_precisions (GString *out, GError **error)
{
  (void) error;
  for (const ScPrecision *const *row = sc_precision_all (); *row != NULL; row++)
    {
      const gboolean alone = strcmp ((*row)->dtype, (*row)->recipe) == 0;
      g_autofree char *name = alone ? g_strdup ((*row)->dtype) : g_strdup_printf ("%s %s", (*row)->dtype, (*row)->recipe);
      append_row (out, name, (*row)->summary, (*row)->source);
    }
  return TRUE;
}

static gboolean
list_optimizers (GString *out, GError **error)
{
  (void) error;
  for (guint i = 0; i < SC_N_OPTIMIZERS; i++)
    {
      const ScOptimizerRow *const row = sc_optimizer_row ((ScOptimizer) i);
      append_row (out, row->name, row->summary, row->source);
    }
  return TRUE;
}

static gboolean
list_changes (GString *out, GError **error)
{
  (void) error;
  for (const ScFitRow *const *row = sc_fit_rows (); *row != NULL; row++)
    append_row (out, (*row)->name, (*row)->summary, NULL);
  return TRUE;
}

static gboolean
list_model_types (GString *out, GError **error)
{
  (void) error;
  for (guint i = 0; i < sc_hf_n_types (); i++)
    {
      const ScHfTypeInfo type = sc_hf_type_info (i);
      g_autofree char *refused = g_strdup_printf ("Refused: %s", type.summary);
      append_row (out, type.types, type.refused ? refused : type.summary, NULL);
    }
  return TRUE;
}

static gboolean
list_statuses (GString *out, GError **error)
{
  guint n;
  const ScStatusRow *rows = sc_status_all (&n);
  (void) error;
  for (guint i = 0; i < n; i++)
    g_string_append_printf (out, "  %3d  %s\n", (int) rows[i].status, rows[i].text);
  return TRUE;
}

static const struct
{
  const char *name;
  gboolean (*append) (GString *out, GError **error);
} lists[] = {
  { "devices", list_devices },       { "topologies", list_topologies },  { "workloads", list_workloads },
  { "frameworks", list_frameworks }, { "schedules", list_schedules },    { "shardings", list_shardings },
  { "modules", list_modules },       { "precisions", list_precisions },
  { "optimizers", list_optimizers },
  { "collectives", list_collectives }, { "changes", list_changes },
  { "fields", list_fields },         { "model-types", list_model_types }, { "exit-statuses", list_statuses },
  { "models", NULL },
};

/* Was @list asked for?  Models are listed with the workloads that train them. */
static gboolean
is_asked_for (char **names, const char *list)
{
  const char *const *const asked = (const char *const *) names;
  return g_strv_contains (asked, list) || (strcmp (list, "workloads") == 0 && g_strv_contains (asked, "models"));
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  gboolean done;
  if (!sc_cmd_parse (command, NULL, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  for (int a = 1; a < argc; a++)
    {
      const char *known[G_N_ELEMENTS (lists) + 1] = { NULL };
      gboolean found = FALSE;
      for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
        {
          known[i] = lists[i].name;
          found |= strcmp (lists[i].name, argv[a]) == 0;
        }
      if (found)
        continue;
      const char *nearest = sc_nearest (argv[a], known);
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "list: unknown table \"%s\"%s%s%s", argv[a],
                   nearest != NULL ? ", did you mean \"" : " (see stepcast list --help)",
                   nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
      return SC_STATUS_USAGE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      if (lists[i].append == NULL || (argc > 1 && !is_asked_for (argv + 1, lists[i].name)))
        continue;
      g_string_append_printf (out, "%s%s\n", out->len > 0 ? "\n" : "", lists[i].name);
      if (!lists[i].append (out, error))
        return SC_STATUS_DATA;
    }
  return SC_STATUS_OK;
}

const ScCommand sc_cmd_list = {
  .name = "list",
  .summary = "Print the tables: devices, topologies, workloads, input fields, and more, with sources",
  .usage = "[TABLE...]",
  .help = "Tables: devices, topologies, workloads (or models), frameworks, schedules, shardings, modules (of a layer, that\n"
          "plan.recompute may name), precisions (of linear layers), optimizers, collectives, changes (that stepcast fit\n"
          "tries), fields (every input key with unit, range and default), model-types (that hf_config of a model reads), exit-statuses.  Without a name all of them.",
  .run = run,
};
