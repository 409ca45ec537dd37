/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-file.c - appends lines with write(2) alone: what the kernel has, a kill does not take back. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "grid-file.h"
#include "cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE (16u << 20)
#define PIPE_BYTES 4096 /* that a pipe takes at once when poll(2) says that it takes some */
#define TICK_MS 100

struct _ScGridFile
{
  int      fd;
  char    *path; /* for messages */
  gboolean regular;
};

static gboolean
fail (const char *path, const char *what, int why, GError **error)
{
  const gboolean create = strcmp (what, "open") == 0;
  g_set_error (error, SC_CMD_ERROR, create ? SC_CMD_ERROR_CANNOT_CREATE : SC_CMD_ERROR_IO, "%s: cannot %s: %s", path, what, g_strerror (why));
  return FALSE;
}

static void
file_free (ScGridFile *file)
{
  if (file->fd > STDERR_FILENO)
    close (file->fd);
  g_free (file->path);
  g_free (file);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScGridFile, file_free)

/* Two writers would mix their lines.  Where a file system has no locks, nothing is said. */
static gboolean
lock (ScGridFile *file, GError **error)
{
  if (!file->regular || flock (file->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return TRUE;
  g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_CANNOT_CREATE, "%s: another process is writing it", file->path);
  return FALSE;
}

static ScGridFile *
open_file (const char *path, GError **error)
{
  g_autoptr (ScGridFile) file = g_new0 (ScGridFile, 1);
  const gboolean standard = strcmp (path, "-") == 0;
  struct stat st;
  file->path = g_strdup (standard ? "standard output" : path);
  file->fd = standard ? STDOUT_FILENO : open (path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file->fd < 0 && errno == EACCES) /* a device or pipe that can only be written */
    file->fd = open (path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file->fd < 0 || fstat (file->fd, &st) != 0)
    {
      fail (file->path, "open", errno, error);
      return NULL;
    }
  file->regular = S_ISREG (st.st_mode) && !standard;
  return lock (file, error) ? g_steal_pointer (&file) : NULL;
}

ScGridFile *
sc_grid_file_create (const char *path, GError **error)
{
  g_autoptr (ScGridFile) file = open_file (path, error);
  if (file == NULL)
    return NULL;
  if (file->regular && lseek (file->fd, 0, SEEK_END) > 0)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "%s: is there already; --resume goes on with it, else remove it", path);
      return NULL;
    }
  return g_steal_pointer (&file);
}

/* ---- Going on ---- */

/* Lines of a file, one after the other, with constant memory. */
typedef struct
{
  int      fd;
  GString *bytes; /* read, from @begin on not looked at yet */
  gsize    begin;
  goffset  good;  /* end of the last whole line */
} Reader;

/* The next line without its end, borrowed; NULL: the end, or an error; *ret_why errno then, else 0. */
static const char *
next_line (Reader *r, gsize *ret_length, int *ret_why)
{
  *ret_why = 0;
  gsize looked = r->begin;
  for (;;)
    {
      char *const newline = memchr (r->bytes->str + looked, '\n', r->bytes->len - looked);
      if (newline != NULL)
        {
          const char *const line = r->bytes->str + r->begin;
          *ret_length = (gsize) (newline - line);
          *newline = '\0';
          r->begin += *ret_length + 1;
          return line;
        }
      looked = r->bytes->len - r->begin;
      g_string_erase (r->bytes, 0, (gssize) r->begin);
      r->begin = 0;
      char buffer[1 << 16];
      ssize_t n;
      do
        n = read (r->fd, buffer, sizeof buffer);
      while (n < 0 && errno == EINTR);
      if (n < 0)
        *ret_why = errno;
      if (n <= 0)
        return NULL;
      g_string_append_len (r->bytes, buffer, n);
      if (r->bytes->len > MAX_LINE)
        {
          *ret_why = EFBIG;
          return NULL;
        }
    }
}

/* A crash of the machine may leave zeros where a line was to be. */
static gboolean
is_torn (const char *line, gsize length)
{
  return memchr (line, '\0', length) != NULL;
}

static gboolean
read_lines (ScGridFile *file, const char *header, ScGridFileCheck check, gpointer data, Reader *r, guint64 *ret_lines, GError **error)
{
  gsize length;
  int why;
  guint64 n = 0;
  gboolean expect_header = header != NULL;
  for (const char *line; (line = next_line (r, &length, &why)) != NULL && !is_torn (line, length);)
    {
      if (expect_header && strcmp (line, header) != 0)
        {
          g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "--resume %s: its first line has other column names than this sweep", file->path);
          return FALSE;
        }
      if (!expect_header && !check (data, n, line, length, error))
        {
          g_prefix_error (error, "--resume %s: line %" G_GUINT64_FORMAT ": ", file->path, n + (header != NULL ? 2 : 1));
          return FALSE;
        }
      n += expect_header ? 0 : 1;
      expect_header = FALSE;
      r->good += (goffset) length + 1;
    }
  *ret_lines = n;
  return why == 0 ? TRUE : fail (file->path, "read", why, error);
}

ScGridFile *
sc_grid_file_resume (const char *path, const char *header, ScGridFileCheck check, gpointer data, guint64 *ret_lines, GError **error)
{
  g_autoptr (ScGridFile) file = open_file (path, error);
  if (file == NULL)
    return NULL;
  if (!file->regular)
    {
      g_set_error (error, SC_CMD_ERROR, SC_CMD_ERROR_USAGE, "--resume %s: expected a regular file", path);
      return NULL;
    }
  g_autoptr (GString) bytes = g_string_new (NULL);
  Reader reader = { .fd = file->fd, .bytes = bytes };
  if (lseek (file->fd, 0, SEEK_SET) < 0 || !read_lines (file, header, check, data, &reader, ret_lines, error))
    return NULL;
  const goffset size = lseek (file->fd, 0, SEEK_END);
  if (size > reader.good && ftruncate (file->fd, reader.good) != 0)
    {
      fail (path, "cut off its torn last line", errno, error);
      return NULL;
    }
  if (header != NULL && reader.good == 0)
    {
      g_autofree char *line = g_strconcat (header, "\n", NULL);
      if (!sc_grid_file_append (file, line, strlen (line), NULL, NULL, error))
        return NULL;
    }
  return g_steal_pointer (&file);
}

/* ---- Writing ---- */

gboolean
sc_grid_file_append (ScGridFile *file, const char *text, gsize length, gboolean (*may_wait) (gpointer data), gpointer data, GError **error)
{
  while (length > 0)
    {
      if (!file->regular && may_wait != NULL)
        {
          struct pollfd ready = { .fd = file->fd, .events = POLLOUT };
          if (poll (&ready, 1, TICK_MS) == 0)
            {
              if (!may_wait (data))
                return FALSE;
              continue;
            }
        }
      const ssize_t n = write (file->fd, text, file->regular ? length : MIN (length, PIPE_BYTES));
      if (n < 0 && errno != EINTR && errno != EAGAIN)
        return fail (file->path, "write", errno, error);
      if (n > 0)
        {
          text += n;
          length -= (gsize) n;
        }
    }
  return TRUE;
}

gboolean
sc_grid_file_close (ScGridFile *file, GError **error)
{
  g_autoptr (ScGridFile) own = file;
  if (own->regular && fsync (own->fd) != 0 && errno != EINVAL && errno != EROFS)
    return fail (own->path, "write", errno, error);
  return TRUE;
}
