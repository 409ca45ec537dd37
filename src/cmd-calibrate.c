/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd-calibrate.c - stepcast calibrate: measured kernels become a device file. */
#include "calibrate-report.h"
#include "cmd.h"
#include "device-json.h"
#include "device-write.h"
#include "library.h"
#include "output.h"
#include "samples-json.h"
#include <stdio.h>
#include <string.h>

typedef struct
{
  char *base, *gpu, *output, *name, *training, *format;
  gboolean samples_only;
} CalibrateOptions;

static void
calibrate_options_clear (CalibrateOptions *o)
{
  char *const texts[] = { o->base, o->gpu, o->output, o->name, o->training, o->format };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_free (texts[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CalibrateOptions, calibrate_options_clear)

/* ---- Inputs ---- */

static ScKernelRows *
read_rows (int n, char **files, GError **error)
{
  g_autoptr (ScKernelRows) all = NULL;
  guint n_stdin = 0;
  for (int i = 0; i < n; i++)
    n_stdin += strcmp (files[i], "-") == 0;
  if (n_stdin > 1)
    {
      sc_cmd_fail_usage ("calibrate", error, "found \"-\" %u times, expected standard input once", n_stdin);
      return NULL;
    }
  for (int i = 0; i < n; i++)
    {
      ScKernelRows *const rows = sc_kernel_rows_load (files[i], error);
      if (rows == NULL)
        return NULL;
      sc_kernel_rows_cite (rows);
      if (all == NULL)
        all = rows;
      else
        sc_kernel_rows_take (all, rows);
    }
  return g_steal_pointer (&all);
}

/* One GPU of the files. */
typedef struct
{
  char     *name;   /* the first name that a row calls it */
  ScDevice *device; /* shipped; NULL: unknown */
  guint     n_rows;
} Gpu;

static void
gpu_free (Gpu *gpu)
{
  g_free (gpu->name);
  sc_device_free (gpu->device);
  g_free (gpu);
}

static gboolean
is_usable (const ScKernelRow *row)
{
  return row->kind != SC_ROW_SKIPPED && row->kind != SC_ROW_LAYER && row->gpu != NULL;
}

static gboolean
is_gpu (const Gpu *gpu, const char *name)
{
  return strcmp (gpu->name, name) == 0 || (gpu->device != NULL && sc_device_is_called (gpu->device, name));
}

/* The GPUs that rows which can be used name; names of the same shipped device are one. */
static GPtrArray *
list_gpus (const ScKernelRows *rows, GError **error)
{
  g_autoptr (GPtrArray) gpus = g_ptr_array_new_with_free_func ((GDestroyNotify) gpu_free);
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (!is_usable (row))
        continue;
      guint g = 0;
      while (g < gpus->len && !is_gpu (g_ptr_array_index (gpus, g), row->gpu))
        g++;
      if (g == gpus->len)
        {
          g_autoptr (GError) why = NULL;
          Gpu *const gpu = g_new0 (Gpu, 1);
          gpu->name = g_strdup (row->gpu);
          gpu->device = sc_device_find (row->gpu, &why);
          g_ptr_array_add (gpus, gpu);
          if (why != NULL)
            {
              g_propagate_error (error, g_steal_pointer (&why));
              return NULL;
            }
        }
      ((Gpu *) g_ptr_array_index (gpus, g))->n_rows++;
    }
  if (gpus->len == 0)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "found no row that can be used%s, expected measured kernels",
                   rows->rows->len > 0 && ((const ScKernelRow *) g_ptr_array_index (rows->rows, 0))->kind == SC_ROW_SKIPPED
                       ? " (the first is skipped)" : "");
      return NULL;
    }
  return g_steal_pointer (&gpus);
}

static const Gpu *
choose_gpu (const GPtrArray *gpus, const char *asked, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);
  for (guint i = 0; i < gpus->len; i++)
    {
      const Gpu *const gpu = g_ptr_array_index (gpus, i);
      if (asked != NULL ? is_gpu (gpu, asked) || g_ascii_strcasecmp (gpu->name, asked) == 0 : gpus->len == 1)
        return gpu;
      g_string_append_printf (names, "%s%s (%u row%s)", names->len > 0 ? ", " : "", gpu->name, gpu->n_rows, gpu->n_rows == 1 ? "" : "s");
    }
  if (asked != NULL)
    sc_cmd_fail_usage ("calibrate", error, "--gpu: found \"%s\", expected one of %s", asked, names->str);
  else
    sc_cmd_fail_usage ("calibrate", error, "found rows of %u GPUs, expected --gpu with one of %s", gpus->len, names->str);
  return NULL;
}

/* The device whose numbers stand where nothing was measured, called as the rows call it. */
static ScDevice *
load_base (const CalibrateOptions *o, const Gpu *gpu, GError **error)
{
  g_autoptr (ScDevice) base = NULL;
  if (o->base != NULL)
    {
      g_autoptr (GError) why = NULL;
      base = sc_device_find (o->base, &why);
      if (base == NULL && why == NULL)
        base = sc_device_load (o->base, &why);
      if (base == NULL)
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&why), "--base: ");
          return NULL;
        }
    }
  else if (gpu->device != NULL)
    base = sc_device_load (gpu->device->name, error);
  else
    {
      sc_cmd_fail_usage ("calibrate", error, "no shipped device is called \"%s\", expected --base with the device whose numbers stand where "
                         "nothing was measured (see stepcast list devices)", gpu->name);
      return NULL;
    }
  return g_steal_pointer (&base);
}

static void
add_alias (ScDevice *device, const char *name)
{
  const guint n = device->aliases != NULL ? g_strv_length (device->aliases) : 0;
  device->aliases = g_renew (char *, device->aliases, n + 2);
  device->aliases[n] = g_strdup (name);
  device->aliases[n + 1] = NULL;
}

/* Every name by which rows call @gpu becomes a name of @base; with a base of another kind, its own rows do not. */
static void
name_base (ScDevice *base, const Gpu *gpu, ScKernelRows *rows)
{
  for (guint i = 0; i < rows->rows->len; i++)
    {
      ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->gpu == NULL)
        continue;
      if (is_gpu (gpu, row->gpu) && !sc_device_is_called (base, row->gpu))
        add_alias (base, row->gpu);
      else if (!is_gpu (gpu, row->gpu) && sc_device_is_called (base, row->gpu))
        g_clear_pointer (&row->gpu, g_free);
    }
}

/* Names of --training; each must be that of a row. */
static gboolean
parse_training (const CalibrateOptions *o, const Gpu *gpu, const ScKernelRows *rows, char ***ret, GError **error)
{
  *ret = NULL;
  if (o->training == NULL)
    return TRUE;
  g_auto (GStrv) names = g_strsplit (o->training, ",", -1);
  g_autoptr (GPtrArray) stacks = g_ptr_array_new ();
  for (guint i = 0; i < rows->rows->len; i++)
    {
      const ScKernelRow *const row = g_ptr_array_index (rows->rows, i);
      if (row->kind == SC_ROW_KERNEL && row->gpu != NULL && is_gpu (gpu, row->gpu)
          && !g_ptr_array_find_with_equal_func (stacks, row->stack, g_str_equal, NULL))
        g_ptr_array_add (stacks, row->stack);
    }
  for (guint n = 0; names[n] != NULL; n++)
    {
      g_strstrip (names[n]);
      guint i = 0;
      while (i < stacks->len && g_ascii_strcasecmp (g_ptr_array_index (stacks, i), names[n]) != 0)
        i++;
      if (i < stacks->len || strcmp (names[n], "all") == 0)
        continue;
      g_autoptr (GString) known = g_string_new ("all");
      for (i = 0; i < stacks->len; i++)
        g_string_append_printf (known, ", %s", (const char *) g_ptr_array_index (stacks, i));
      return sc_cmd_fail_usage ("calibrate", error, "--training: found \"%s\", expected one of %s", names[n], known->str);
    }
  *ret = g_steal_pointer (&names);
  return TRUE;
}

/* ---- Output ---- */

/* What was measured and has no key of its own. */
static char *
comment_of (const ScCalibration *c)
{
  g_autoptr (GString) text = g_string_new ("written by stepcast calibrate");
  for (guint i = 0; i < c->reported->len; i++)
    {
      const ScReported *const r = &g_array_index (c->reported, ScReported, i);
      g_autofree char *value = r->unit == SC_UNIT_SECONDS ? sc_format_seconds (r->value) : sc_format_rate (r->value);
      g_string_append_printf (text, "%s%s %s", i > 0 ? ", " : "; measured besides: ", r->what, value);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* What stands in the file is read as it will be. */
static gboolean
check_readable (const CalibrateOptions *o, const GString *file, GError **error)
{
  g_autoptr (GError) why = NULL;
  g_autoptr (ScJson) json = sc_json_parse ("the result", file->str, file->len, &why);
  if (json != NULL && o->samples_only)
    {
      g_autoptr (GPtrArray) tables = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_sample_table_free);
      if (sc_samples_read (json, cJSON_GetObjectItemCaseSensitive (json->root, "samples"), tables, &why))
        return TRUE;
    }
  else if (json != NULL)
    {
      g_autoptr (ScDevice) device = sc_device_from_json (json, &why);
      if (device != NULL)
        return TRUE;
    }
  g_propagate_prefixed_error (error, g_steal_pointer (&why), "these rows give a file that cannot be read: ");
  return FALSE;
}

static gboolean
write_results (const CalibrateOptions *o, const ScCalibration *c, const ScCalibrateFormat *format, GString *out, GError **error)
{
  g_autoptr (GString) file = g_string_new (NULL), report = g_string_new (NULL);
  g_autofree char *comment = comment_of (c);
  if (o->samples_only)
    sc_device_write_samples (c->tables, NULL, file);
  else
    sc_device_write (c->device, comment, file);
  if (!check_readable (o, file, error))
    return FALSE;
  format->write (c, report);
  if (o->output != NULL && strcmp (o->output, "-") != 0)
    {
      g_string_append_len (out, report->str, (gssize) report->len);
      return sc_write_file (o->output, file->str, file->len, error);
    }
  g_string_append_len (out, file->str, (gssize) file->len);
  fputs (report->str, stderr); /* standard output is the file's */
  return TRUE;
}

static gboolean
calibrate (const CalibrateOptions *o, int n, char **files, const ScCalibrateFormat *format, GString *out, GError **error)
{
  g_autoptr (ScKernelRows) rows = read_rows (n, files, error);
  if (rows == NULL)
    return FALSE;
  g_autofree char *shown = n == 1 ? g_strdup (strcmp (files[0], "-") == 0 ? "(stdin)" : files[0])
                                  : g_strdup_printf ("%s and %d more", files[0], n - 1);
  g_autoptr (GPtrArray) gpus = list_gpus (rows, error);
  if (gpus == NULL)
    {
      g_prefix_error (error, "%s: ", shown);
      return FALSE;
    }
  const Gpu *const gpu = choose_gpu (gpus, o->gpu, error);
  if (gpu == NULL)
    return FALSE;
  g_auto (GStrv) training = NULL;
  if (!parse_training (o, gpu, rows, &training, error))
    return FALSE;
  ScDevice *const base = load_base (o, gpu, error);
  if (base == NULL)
    return FALSE;
  name_base (base, gpu, rows);
  g_autoptr (ScCalibration) c = sc_calibrate_take (base, rows, (const char *const *) training, o->samples_only, error);
  if (c == NULL)
    {
      g_prefix_error (error, "%s: ", shown);
      return FALSE;
    }
  if (!o->samples_only)
    {
      g_free (c->device->name);
      c->device->name = o->name != NULL ? g_strdup (o->name) : g_strdup_printf ("%s-calibrated", c->base);
    }
  return write_results (o, c, format, out, error);
}

static ScStatus
run (const ScCommand *command, int argc, char **argv, GString *out, GError **error)
{
  g_auto (CalibrateOptions) o = { .base = NULL };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &o.output, "Write the device there; default: to standard output", "FILE" },
    { "base", 0, 0, G_OPTION_ARG_FILENAME, &o.base,
      "Device whose numbers stand where nothing was measured; default: the shipped one of the GPU's name", "NAME" },
    { "gpu", 0, 0, G_OPTION_ARG_FILENAME, &o.gpu, "Take the rows of this GPU, where there are several", "NAME" },
    { "name", 0, 0, G_OPTION_ARG_FILENAME, &o.name, "Name of the new device; default: the base's with -calibrated", "NAME" },
    { "samples-only", 0, 0, G_OPTION_ARG_NONE, &o.samples_only, "Write only the tables of measured kernels, made on the base's numbers, as calibrations/NAME.json holds them", NULL },
    { "training", 0, 0, G_OPTION_ARG_FILENAME, &o.training,
      "Let forecasts rest on the rows of this software, or all; default: on raw samples but for unfused attention", "STACK,..." },
    { "format", 'f', 0, G_OPTION_ARG_FILENAME, &o.format, "Report as text (the default), json, or tsv (every point, for plots)", "NAME" },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  gboolean done;
  if (!sc_cmd_parse (command, entries, &argc, &argv, out, &done, error))
    return SC_STATUS_USAGE;
  if (done)
    return SC_STATUS_OK;
  const ScCalibrateFormat *format = sc_calibrate_formats ();
  while (o.format != NULL && format->name != NULL && strcmp (format->name, o.format) != 0)
    format++;
  if (format->name == NULL)
    {
      sc_cmd_fail_usage ("calibrate", error, "--format: found \"%s\", expected text, json or tsv", o.format);
      return SC_STATUS_USAGE;
    }
  if (argc < 2)
    {
      sc_cmd_fail_usage ("calibrate", error, "found no arguments, expected files of measured kernels");
      return SC_STATUS_USAGE;
    }
  if (o.name != NULL && (o.name[0] == '\0' || o.samples_only))
    {
      if (o.samples_only)
        sc_cmd_fail_usage ("calibrate", error, "--name and --samples-only: found both, expected one: tables have no name");
      else
        sc_cmd_fail_usage ("calibrate", error, "--name: found \"\", expected a name");
      return SC_STATUS_USAGE;
    }
  for (int i = 1; o.output != NULL && strcmp (o.output, "-") != 0 && i < argc; i++)
    if (strcmp (argv[i], "-") != 0 && sc_output_is_same (o.output, argv[i]))
      {
        sc_cmd_fail_usage ("calibrate", error, "--output: found %s, which is read as well", o.output);
        return SC_STATUS_USAGE;
      }
  return calibrate (&o, argc - 1, argv + 1, format, out, error) ? SC_STATUS_OK : SC_STATUS_DATA;
}

const ScCommand sc_cmd_calibrate = {
  .name = "calibrate",
  .summary = "Turn measured kernels into a device file, and say how well it holds",
  .usage = "FILE...",
  .help = "FILE is what stepcast-measure wrote, or published measurements, a JSON object a line (doc/device-files.md), or - for\n"
          "standard input.  It needs no GPU.\n"
          "\n"
          "Numbers of the device are fitted on the rows: memory-bound kernels as lines over bytes, robustly; ratios and\n"
          "rates as medians.  Products and attention become tables of samples.  What was not measured keeps the\n"
          "number of the base.  Errors in the report are those at points that the fit has not seen.  The report goes to\n"
          "standard output, or, where the device goes there, to standard error.  A fit that makes no sense is refused.\n"
          "\n"
          "Published rows become tables that only judge measurements of the same software, until --training names it.\n"
          "Use the file with stepcast run --device FILE.",
  .run = run,
};
