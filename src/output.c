/* SPDX-License-Identifier: GPL-3.0-or-later */
/* output.c - writes beside the target and renames. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#include "output.h"
#include "cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct _ScOutput
{
  FILE *file;
  char *path;      /* as given, for messages */
  char *target;    /* NULL: written in place */
  char *temporary; /* NULL: in place, or a file that has no name yet */
};

static gboolean
fail (const char *path, int why, GError **error)
{
  const gboolean io = why == ENOSPC || why == EIO || why == EDQUOT || why == EFBIG || why == EPIPE;
  g_set_error (error, SC_CMD_ERROR, io ? SC_CMD_ERROR_IO : SC_CMD_ERROR_CANNOT_CREATE, "%s: cannot %s: %s", path,
               io ? "write" : "create", g_strerror (why));
  return FALSE;
}

static void
output_free (ScOutput *o)
{
  g_free (o->path);
  g_free (o->target);
  g_free (o->temporary);
  g_free (o);
}

/* A file without a name where the system knows such, so that a kill leaves nothing; else a temporary one. */
static int
open_beside (ScOutput *o)
{
#ifdef O_TMPFILE
  g_autofree char *folder = g_path_get_dirname (o->target);
  const int nameless = access ("/proc/self/fd", X_OK) == 0 ? open (folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
  if (nameless >= 0)
    return nameless;
#endif
  o->temporary = g_strdup_printf ("%s.XXXXXX", o->target);
  return g_mkstemp_full (o->temporary, O_WRONLY | O_CLOEXEC, 0666);
}

/* Gives the nameless file a name that rename() can take. */
static gboolean
give_name (ScOutput *o)
{
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", fileno (o->file));
  for (guint i = 0; i < 1000; i++)
    {
      g_autofree char *name = g_strdup_printf ("%s.%d-%u", o->target, (int) getpid (), i);
      if (linkat (AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0)
        {
          o->temporary = g_steal_pointer (&name);
          return TRUE;
        }
      if (errno != EEXIST)
        return FALSE;
    }
  return FALSE;
}

ScOutput *
sc_output_open (const char *path, GError **error)
{
  ScOutput *const o = g_new0 (ScOutput, 1);
  o->path = g_strdup (path);
  if (strcmp (path, "-") == 0)
    {
      o->file = stdout;
      return o;
    }
  char *const real = realpath (path, NULL);
  struct stat info;
  const gboolean exists = stat (path, &info) == 0, special = exists && !S_ISREG (info.st_mode);
  int fd = -1;
  if (exists && S_ISDIR (info.st_mode))
    errno = EISDIR;
  else if (special)
    fd = open (path, O_WRONLY | O_CLOEXEC);
  else
    {
      o->target = g_strdup (real != NULL ? real : path);
      fd = open_beside (o);
      if (fd >= 0 && exists)
        (void) fchmod (fd, info.st_mode & 0777); /* a file that is replaced keeps its permissions, as far as we may */
    }
  const int why = errno;
  free (real);
  o->file = fd >= 0 ? fdopen (fd, "w") : NULL;
  if (o->file != NULL)
    return o;
  if (fd >= 0)
    close (fd);
  fail (path, why, error);
  output_free (o);
  return NULL;
}

FILE *
sc_output_file (const ScOutput *output)
{
  return output->file;
}

gboolean
sc_output_close (ScOutput *o, gboolean commit, GError **error)
{
  int why = 0;
  if (commit && (fflush (o->file) != 0 || ferror (o->file)))
    why = errno != 0 ? errno : EIO;
  if (commit && why == 0 && o->target != NULL && o->temporary == NULL && !give_name (o))
    why = errno;
  if (o->file != stdout && fclose (o->file) != 0 && commit && why == 0)
    why = errno;
  if (commit && why == 0 && o->temporary != NULL && g_rename (o->temporary, o->target) != 0)
    why = errno;
  if ((!commit || why != 0) && o->temporary != NULL)
    g_unlink (o->temporary);
  const gboolean ret = why == 0 || fail (o->path, why, error);
  output_free (o);
  return ret;
}

gboolean
sc_output_is_same (const char *a, const char *b)
{
  struct stat x, y;
  if (stat (a, &x) == 0 && stat (b, &y) == 0)
    return S_ISREG (x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  g_autofree char *full_a = g_canonicalize_filename (a, NULL), *full_b = g_canonicalize_filename (b, NULL);
  return strcmp (full_a, full_b) == 0;
}
