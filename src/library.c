/* SPDX-License-Identifier: GPL-3.0-or-later */
/* library.c - finds topologies, devices, workloads and measurements: files, installed data, and the copies inside the program. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <glib/gstdio.h>
#include "library.h"

#ifndef SC_PKGDATADIR
#define SC_PKGDATADIR "/usr/local/share/stepcast"
#endif

#define N_SUGGESTIONS 3

G_DEFINE_QUARK (sc-library-error-quark, sc_library_error)

typedef struct
{
  const char *kind;
  const char *folder;    /* below the source tree and below each folder of data */
  const char *suffix;
  const char *prefix[3]; /* what a user may write before the name, NULL-ended */
} LibraryKind;

static const LibraryKind library_kinds[] = {
  { SC_KIND_TOPOLOGY, "topologies", ".json", { "topologies/", NULL } },
  { SC_KIND_DEVICE, "topologies/devices", ".json", { "topologies/devices/", "devices/", NULL } },
  { SC_KIND_CALIBRATION, "calibrations", ".json", { "calibrations/", NULL } },
  { SC_KIND_WORKLOAD, "workloads", ".json", { "workloads/", NULL } },
  { SC_KIND_MEASUREMENTS, "validation", ".jsonl", { "validation/", NULL } },
  { SC_KIND_RULES, "validation", ".json", { "validation/", NULL } },
};

static const LibraryKind *
library_kind (const char *kind)
{
  for (guint i = 0; i < G_N_ELEMENTS (library_kinds); i++)
    if (strcmp (library_kinds[i].kind, kind) == 0)
      return &library_kinds[i];
  g_return_val_if_reached (NULL);
}

/* "topologies/dgx.json" -> "dgx"; NULL where @argument can only be a path. */
static char *
library_bare_name (const LibraryKind *kind, const char *argument)
{
  for (guint i = 0; kind->prefix[i] != NULL; i++)
    if (g_str_has_prefix (argument, kind->prefix[i]))
      {
        argument += strlen (kind->prefix[i]);
        break;
      }
  const gsize length = strlen (argument) - (g_str_has_suffix (argument, kind->suffix) ? strlen (kind->suffix) : 0);
  if (length == 0 || strchr (argument, '/') != NULL)
    return NULL;
  return g_strndup (argument, length);
}

const ScLibraryRow *
sc_library_next (const ScLibraryRow *row, const char *kind)
{
  row = row == NULL ? sc_library_table : row + 1;
  while (row->kind != NULL && kind != NULL && strcmp (row->kind, kind) != 0)
    row++;
  return row->kind == NULL ? NULL : row;
}

static const ScLibraryRow *
library_row (const char *kind, const char *name)
{
  for (const ScLibraryRow *row = sc_library_next (NULL, kind); row != NULL; row = sc_library_next (row, kind))
    if (strcmp (row->name, name) == 0)
      return row;
  return NULL;
}

const char *
sc_library_find (const char *kind, const char *name, gsize *ret_length)
{
  const LibraryKind *k = library_kind (kind);
  g_autofree char *bare = k == NULL ? NULL : library_bare_name (k, name);
  const ScLibraryRow *row = bare == NULL ? NULL : library_row (kind, bare);
  if (row == NULL)
    return NULL;
  if (ret_length != NULL)
    *ret_length = row->length;
  return row->text;
}

/* --- suggestions -------------------------------------------------------------------------------------------------- */

/* Single-character edits that turn @a into @b. */
static guint
library_distance (const char *a, const char *b)
{
  const guint n = (guint) strlen (b);
  g_autofree guint *row = g_new (guint, n + 1); /* [n + 1] edits from the part of @a so far to each start of @b */
  for (guint j = 0; j <= n; j++)
    row[j] = j;
  for (guint i = 0; a[i] != '\0'; i++)
    {
      guint diagonal = row[0];
      row[0] = i + 1;
      for (guint j = 0; j < n; j++)
        {
          const guint replaced = diagonal + (a[i] != b[j]);
          diagonal = row[j + 1];
          row[j + 1] = MIN (replaced, 1 + MIN (row[j], row[j + 1]));
        }
    }
  return row[n];
}

/* How far @name is from @wanted; G_MAXUINT where nobody would take one for the other. */
static guint
library_far (const char *wanted, const char *name)
{
  g_autofree char *a = g_ascii_strdown (wanted, -1);
  if (strlen (a) >= 2 && strstr (name, a) != NULL)
    return 0;
  const guint distance = library_distance (a, name);
  return distance <= MAX (2, strlen (a) / 3) ? distance : G_MAXUINT;
}

/* ": did you mean ..." or where to find all names; nearest first, then in table order. */
static char *
library_suggest (const char *kind, const char *wanted)
{
  GString *text = g_string_new (NULL);
  guint n = 0;
  const guint farthest = (guint) strlen (wanted) + 2;
  for (guint distance = 0; distance <= farthest && n < N_SUGGESTIONS; distance++)
    for (const ScLibraryRow *row = sc_library_next (NULL, kind); row != NULL; row = sc_library_next (row, kind))
      if (n < N_SUGGESTIONS && library_far (wanted, row->name) == distance)
        g_string_append_printf (text, "%s%s", n++ == 0 ? "; did you mean " : ", ", row->name);
  if (n > 0)
    {
      g_string_append_c (text, '?');
      return g_string_free (text, FALSE);
    }
  for (guint i = 0; i < G_N_ELEMENTS (library_kinds); i++)
    if (library_row (library_kinds[i].kind, wanted) != NULL)
      {
        g_string_append_printf (text, "; it is the name of a %s", library_kinds[i].kind);
        return g_string_free (text, FALSE);
      }
  g_string_append (text, "; 'stepcast list' prints all names");
  return g_string_free (text, FALSE);
}

static void
library_set_not_found (const LibraryKind *kind, const char *argument, GError **error)
{
  if (argument[0] == '\0')
    {
      g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_FOUND, "the name of a %s is empty", kind->kind);
      return;
    }
  g_autofree char *base = g_path_get_basename (argument);
  g_autofree char *bare = library_bare_name (kind, base);
  g_autofree char *hint = library_suggest (kind->kind, bare == NULL ? base : bare);
  g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_FOUND,
               "%s: no such file and no built-in %s of that name%s", argument, kind->kind, hint);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* All of @fd up to the limit, NUL-ended.  Pipes and the like have no size beforehand. */
static char *
library_read (int fd, const char *display_name, guint max_bytes, gsize *ret_length, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  for (;;)
    {
      guint8 block[65536];
      const gssize n = read (fd, block, sizeof block);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_IO, "%s: cannot read: %s", display_name,
                       g_strerror (errno));
          return NULL;
        }
      if (n == 0)
        break;
      g_byte_array_append (bytes, block, (guint) n);
      if (bytes->len > max_bytes)
        {
          g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_TOO_LARGE, "%s: has more than %u bytes",
                       display_name, max_bytes);
          return NULL;
        }
    }
  *ret_length = bytes->len;
  g_byte_array_append (bytes, (const guint8 *) "", 1);
  return (char *) g_byte_array_free (g_steal_pointer (&bytes), FALSE);
}

static gboolean
library_check_file (int fd, const char *display_name, const char *expected, guint max_bytes, GError **error)
{
  struct stat info;
  if (fstat (fd, &info) != 0)
    {
      g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_IO, "%s: cannot read: %s", display_name,
                   g_strerror (errno));
      return FALSE;
    }
  if (S_ISDIR (info.st_mode) || S_ISBLK (info.st_mode))
    {
      g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_A_FILE, "%s: is a %s, expected %s",
                   display_name, S_ISDIR (info.st_mode) ? "directory" : "disk", expected);
      return FALSE;
    }
  if (S_ISREG (info.st_mode) && info.st_size > max_bytes)
    {
      g_set_error (error, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_TOO_LARGE,
                   "%s: has %" G_GINT64_FORMAT " bytes, expected at most %u", display_name, (gint64) info.st_size,
                   max_bytes);
      return FALSE;
    }
  return TRUE;
}

char *
sc_library_read_file (const char *path, const char *expected, guint max_bytes, gsize *ret_length, GError **error)
{
  const int fd = g_open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
  if (fd < 0)
    {
      const int why = errno;
      const gboolean absent = why == ENOENT || why == ENOTDIR || why == ENAMETOOLONG;
      const ScLibraryError code = absent         ? SC_LIBRARY_ERROR_NOT_FOUND
                                  : why == ENXIO ? SC_LIBRARY_ERROR_NOT_A_FILE /* a socket */
                                                 : SC_LIBRARY_ERROR_IO;
      g_set_error (error, SC_LIBRARY_ERROR, code, "%s: cannot open: %s", path, g_strerror (why));
      return NULL;
    }
  char *text = library_check_file (fd, path, expected, max_bytes, error)
                   ? library_read (fd, path, max_bytes, ret_length, error)
                   : NULL;
  close (fd);
  return text;
}

/* The JSON file @path.  Where there is none, NOT_FOUND: the caller looks further. */
static char *
library_read_json (const char *path, gsize *ret_length, GError **error)
{
  return sc_library_read_file (path, "a JSON file", SC_LIBRARY_MAX_BYTES, ret_length, error);
}

/* @name below the folders of data; *@ret_text is NULL where it is in none of them. */
static gboolean
library_read_installed (const LibraryKind *kind, const char *name, char **ret_text, char **ret_path, gsize *ret_length,
                        GError **error)
{
  const char *list = g_getenv ("STEPCAST_DATA_PATH");
  g_auto (GStrv) folders = g_strsplit (list == NULL ? SC_PKGDATADIR : list, G_SEARCHPATH_SEPARATOR_S, -1);
  g_autofree char *file = g_strconcat (name, kind->suffix, NULL);
  *ret_text = NULL;
  for (guint i = 0; folders[i] != NULL; i++)
    {
      if (folders[i][0] == '\0')
        continue;
      g_autofree char *path = g_build_filename (folders[i], kind->folder, file, NULL);
      g_autoptr (GError) why = NULL;
      *ret_text = library_read_json (path, ret_length, &why);
      if (*ret_text != NULL)
        {
          *ret_path = g_steal_pointer (&path);
          return TRUE;
        }
      if (!g_error_matches (why, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_FOUND))
        {
          g_propagate_error (error, g_steal_pointer (&why));
          return FALSE;
        }
    }
  return TRUE;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static char *
library_copy_row (const LibraryKind *kind, const ScLibraryRow *row, char **ret_display_name, gsize *ret_length)
{
  char *text = g_malloc (row->length + 1);
  memcpy (text, row->text, row->length + 1);
  *ret_display_name = g_strdup_printf ("%s/%s%s", kind->folder, row->name, kind->suffix);
  *ret_length = row->length;
  return text;
}

static char *
library_search (const LibraryKind *kind, const char *argument, char **ret_display_name, gsize *ret_length,
                GError **error)
{
  g_autoptr (GError) no_file = NULL;
  char *text = library_read_json (argument, ret_length, &no_file);
  if (text != NULL)
    {
      *ret_display_name = g_strdup (argument);
      return text;
    }

  /* A folder does not hide a shipped name: people keep results in folders called after what they ran. */
  const gboolean not_a_file = g_error_matches (no_file, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_A_FILE);
  if (!not_a_file && !g_error_matches (no_file, SC_LIBRARY_ERROR, SC_LIBRARY_ERROR_NOT_FOUND))
    {
      g_propagate_error (error, g_steal_pointer (&no_file));
      return NULL;
    }

  g_autofree char *name = library_bare_name (kind, argument);
  if (name != NULL)
    {
      if (!library_read_installed (kind, name, &text, ret_display_name, ret_length, error))
        return NULL;
      if (text != NULL)
        return text;
      const ScLibraryRow *row = library_row (kind->kind, name);
      if (row != NULL)
        return library_copy_row (kind, row, ret_display_name, ret_length);
    }

  if (not_a_file)
    g_propagate_error (error, g_steal_pointer (&no_file));
  else
    library_set_not_found (kind, argument, error);
  return NULL;
}

char *
sc_library_load (const char *kind, const char *argument, char **ret_display_name, gsize *ret_length, GError **error)
{
  const LibraryKind *k = library_kind (kind);
  g_return_val_if_fail (k != NULL && argument != NULL, NULL);
  g_autofree char *display_name = NULL;
  gsize length = 0;
  char *text;
  if (strcmp (argument, "-") == 0)
    {
      display_name = g_strdup ("(stdin)");
      text = library_read (STDIN_FILENO, display_name, SC_LIBRARY_MAX_BYTES, &length, error);
    }
  else
    text = library_search (k, argument, &display_name, &length, error);
  if (text == NULL)
    return NULL;
  if (ret_display_name != NULL)
    *ret_display_name = g_steal_pointer (&display_name);
  if (ret_length != NULL)
    *ret_length = length;
  return text;
}

ScJson *
sc_library_load_json (const char *kind, const char *argument, GError **error)
{
  g_autofree char *file = NULL;
  gsize length = 0;
  g_autofree char *text = sc_library_load (kind, argument, &file, &length, error);
  return text != NULL ? sc_json_parse (file, text, length, error) : NULL;
}
