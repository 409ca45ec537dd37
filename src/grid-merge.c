/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-merge.c - finds lines of shards by their points, and puts them in order. */
#include "grid-merge.h"
#include "cmd.h"
#include <errno.h>
#include <string.h>

#define MAX_LINE (16u << 20)

typedef struct
{
  guint64 point;
  const char *text; /* in a mapped file */
  guint32 length;   /* with its line end */
  guint32 copies;   /* lines that say the same */
} Line;

struct _ScMerge
{
  GPtrArray *files;  /* GMappedFile, owned */
  GArray    *lines;  /* Line */
  const char *header; gsize header_length; /* of the first CSV; NULL: JSON lines */
  char      *first_file; /* messages compare with it */
  gboolean   any;
  char       id[17];
  guint64    n_points;
  guint64    n_duplicates, n_torn;
};

ScMerge *
sc_merge_new (void)
{
  ScMerge *const merge = g_new0 (ScMerge, 1);
  merge->files = g_ptr_array_new_with_free_func ((GDestroyNotify) g_mapped_file_unref);
  merge->lines = g_array_new (FALSE, FALSE, sizeof (Line));
  return merge;
}

void
sc_merge_free (ScMerge *merge)
{
  if (merge == NULL)
    return;
  g_ptr_array_unref (merge->files);
  g_array_unref (merge->lines);
  g_free (merge->first_file);
  g_free (merge);
}

/* ---- Reading ---- */

static gboolean
skip (const char **p, const char *end, const char *word)
{
  const gsize length = strlen (word);
  if ((gsize) (end - *p) < length || memcmp (*p, word, length) != 0)
    return FALSE;
  *p += length;
  return TRUE;
}

static gboolean
skip_number (const char **p, const char *end, guint64 *ret)
{
  const char *const begin = *p;
  guint64 n = 0;
  for (; *p < end && g_ascii_isdigit (**p) && *p - begin < 16; (*p)++)
    n = 10 * n + (guint64) (**p - '0');
  *ret = n;
  return *p > begin;
}

static gboolean
skip_id (const char **p, const char *end, char *ret_id)
{
  if (end - *p < 16)
    return FALSE;
  for (guint i = 0; i < 16; i++)
    if (!g_ascii_isxdigit ((*p)[i]))
      return FALSE;
  memcpy (ret_id, *p, 16);
  ret_id[16] = '\0';
  *p += 16;
  return TRUE;
}

/* What the formats' write_begin() wrote. */
static gboolean
read_begin (gboolean csv, const char *line, gsize length, char *ret_id, guint64 *ret_points, guint64 *ret_point)
{
  const char *p = line;
  const char *const end = line + length;
  if (csv)
    return skip_id (&p, end, ret_id) && skip (&p, end, ",") && skip_number (&p, end, ret_points) && skip (&p, end, ",")
           && skip_number (&p, end, ret_point) && skip (&p, end, ",");
  return skip (&p, end, "{\"sweep\":\"") && skip_id (&p, end, ret_id) && skip (&p, end, "\",\"points\":") && skip_number (&p, end, ret_points)
         && skip (&p, end, ",\"point\":") && skip_number (&p, end, ret_point) && skip (&p, end, ",\"") && end[-1] == '}';
}

static gboolean G_GNUC_PRINTF (4, 5)
fail (const char *path, guint64 line, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%" G_GUINT64_FORMAT ": %s", path, line, message);
  return FALSE;
}

static gboolean
add_line (ScMerge *m, const char *path, guint64 number, const char *text, gsize length, GError **error)
{
  char id[17];
  guint64 points, point;
  if (length > MAX_LINE || !read_begin (m->header != NULL, text, length, id, &points, &point) || point >= points || points > SC_GRID_MAX_POINTS)
    return fail (path, number, error, "found no line of a sweep, expected what stepcast sweep writes (%s)", m->header != NULL ? "csv" : "jsonl");
  if (!m->any)
    {
      m->any = TRUE;
      m->n_points = points;
      memcpy (m->id, id, sizeof id);
    }
  if (strcmp (m->id, id) != 0 || m->n_points != points)
    return fail (path, number, error, "found sweep %s of %" G_GUINT64_FORMAT " points, expected %s of %" G_GUINT64_FORMAT " as in %s", id, points, m->id,
                 m->n_points, m->first_file);
  const Line line = { .point = point, .text = text, .length = (guint32) length + 1, .copies = 1 };
  g_array_append_val (m->lines, line);
  return TRUE;
}

/* The first line of a CSV is its header; all files have the same, or none. */
static gboolean
read_header (ScMerge *m, const char *path, const char *text, gsize length, gboolean *ret_is, GError **error)
{
  const gboolean first = m->first_file == NULL;
  *ret_is = g_str_has_prefix (text, "sweep,points,point,");
  if (first)
    {
      m->first_file = g_strdup (path);
      m->header = *ret_is ? text : NULL;
      m->header_length = *ret_is ? length + 1 : 0;
      return TRUE;
    }
  if (*ret_is != (m->header != NULL))
    return fail (path, 1, error, "found %s, expected %s as %s", *ret_is ? "csv" : "jsonl", *ret_is ? "jsonl" : "csv", m->first_file);
  if (*ret_is && (length + 1 != m->header_length || memcmp (text, m->header, length) != 0))
    return fail (path, 1, error, "found other column names than in %s", m->first_file);
  return TRUE;
}

gboolean
sc_merge_add (ScMerge *m, const char *path, GError **error)
{
  g_autoptr (GError) why = NULL;
  if (g_file_test (path, G_FILE_TEST_EXISTS) && !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: expected a regular file", path);
      return FALSE;
    }
  GMappedFile *const file = g_mapped_file_new (path, FALSE, &why);
  if (file == NULL)
    {
      const gboolean missing = g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_NOENT);
      g_set_error (error, SC_CMD_ERROR, missing ? SC_CMD_ERROR_NO_INPUT : SC_CMD_ERROR_IO, "%s: %s", path, missing ? "no such file" : why->message);
      return FALSE;
    }
  g_ptr_array_add (m->files, file);
  const char *p = g_mapped_file_get_contents (file);
  const char *const end = p + g_mapped_file_get_length (file);
  for (guint64 number = 1; p < end; number++)
    {
      const char *const newline = memchr (p, '\n', (gsize) (end - p));
      gboolean header = FALSE;
      if (newline == NULL || memchr (p, '\0', (gsize) (newline - p)) != NULL)
        {
          m->n_torn++;
          return TRUE;
        }
      const gsize length = (gsize) (newline - p);
      if ((number == 1 && !read_header (m, path, p, length, &header, error)) || (!header && !add_line (m, path, number, p, length, error)))
        return FALSE;
      p = newline + 1;
    }
  return TRUE;
}

/* ---- Order ---- */

static int
by_point (gconstpointer a, gconstpointer b)
{
  const Line *const x = a, *const y = b;
  return x->point < y->point ? -1 : x->point > y->point ? 1 : 0;
}

gboolean
sc_merge_settle (ScMerge *m, GError **error)
{
  Line *const lines = (Line *) (gpointer) m->lines->data;
  guint n = 0;
  if (!m->any)
    {
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "found no lines of a sweep in these files");
      return FALSE;
    }
  g_array_sort (m->lines, by_point);
  for (guint i = 0; i < m->lines->len; i++)
    {
      Line *const last = n > 0 ? &lines[n - 1] : NULL;
      if (last == NULL || last->point != lines[i].point)
        {
          lines[n++] = lines[i];
          continue;
        }
      if (last->length != lines[i].length || memcmp (last->text, lines[i].text, last->length) != 0)
        {
          g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "found two lines of point %" G_GUINT64_FORMAT " that differ", last->point);
          return FALSE;
        }
      m->n_duplicates += last->copies == 1 ? 1 : 0;
      last->copies++;
    }
  g_array_set_size (m->lines, n);
  return TRUE;
}

guint64
sc_merge_n_points (const ScMerge *m)
{
  return m->n_points;
}

guint64
sc_merge_n_lines (const ScMerge *m)
{
  return m->lines->len;
}

guint64
sc_merge_n_duplicates (const ScMerge *m)
{
  return m->n_duplicates;
}

guint64
sc_merge_n_torn (const ScMerge *m)
{
  return m->n_torn;
}

/* FALSE: there were @most already. */
static gboolean
append_range (GString *out, guint64 first, guint64 last, guint most, guint *n)
{
  if (++*n > most)
    {
      g_string_append (out, ", ...");
      return FALSE;
    }
  g_string_append_printf (out, "%s%" G_GUINT64_FORMAT, *n > 1 ? ", " : "", first);
  if (last > first)
    g_string_append_printf (out, "-%" G_GUINT64_FORMAT, last);
  return TRUE;
}

static void
list_missing (const ScMerge *m, guint most, GString *out)
{
  guint n = 0;
  guint64 next = 0;
  for (guint i = 0; i < m->lines->len; i++)
    {
      const guint64 point = g_array_index (m->lines, Line, i).point;
      if (point > next && !append_range (out, next, point - 1, most, &n))
        return;
      next = point + 1;
    }
  if (next < m->n_points)
    append_range (out, next, m->n_points - 1, most, &n);
}

static void
list_duplicates (const ScMerge *m, guint most, GString *out)
{
  guint n = 0;
  for (guint i = 0; i < m->lines->len;)
    {
      guint end = i;
      while (end < m->lines->len && g_array_index (m->lines, Line, end).copies > 1
             && (end == i || g_array_index (m->lines, Line, end).point == g_array_index (m->lines, Line, end - 1).point + 1))
        end++;
      if (end > i && !append_range (out, g_array_index (m->lines, Line, i).point, g_array_index (m->lines, Line, end - 1).point, most, &n))
        return;
      i = MAX (end, i + 1);
    }
}

char *
sc_merge_list (const ScMerge *m, gboolean duplicates, guint most)
{
  GString *const out = g_string_new (NULL);
  if (duplicates)
    list_duplicates (m, most, out);
  else
    list_missing (m, most, out);
  return g_string_free (out, FALSE);
}

gboolean
sc_merge_write (const ScMerge *m, ScMergePut put, gpointer data)
{
  if (m->header != NULL && !put (data, m->header, m->header_length))
    return FALSE;
  for (guint i = 0; i < m->lines->len; i++)
    {
      const Line *const line = &g_array_index (m->lines, Line, i);
      if (!put (data, line->text, line->length))
        return FALSE;
    }
  return TRUE;
}
