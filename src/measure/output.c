/* SPDX-License-Identifier: MIT */
/* output.c - resume and append. */
#include "measure/output.h"
#include "measure/options.h"
#include "measure/plan.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum
{
  F_CLASS,
  F_SESSION,
  F_KEY,
  F_GPU,
  F_DRIVER,
  F_CUDA,
  F_POWER_LIMIT,
  F_CUBLASLT,
  F_CUDNN,
  F_NCCL,
  N_FIELDS
};

/* Sessions of the file that were of the same GPU, power limit, driver and CUDA, and which libraries were the same. */
typedef struct
{
  char *name;
  unsigned libraries;
} Session;

static bool
same (const ScmJsonField *field, const char *value)
{
  return field->type == SCM_JSON_STRING ? value != NULL && strcmp (field->text, value) == 0 : value == NULL;
}

static bool
same_limit (const ScmJsonField *field, int watts)
{
  return field->type == SCM_JSON_NUMBER ? watts > 0 && field->number > watts - 0.5 && field->number < watts + 0.5 : watts <= 0;
}

static void
add_done (ScmOutput *output, const char *key, ScmClass class_id)
{
  if (output->n_done == output->room)
    {
      output->room = output->room == 0 ? 256 : 2 * output->room;
      output->done = realloc (output->done, output->room * sizeof *output->done);
      if (output->done == NULL)
        abort ();
    }
  char *copy = strdup (key);
  if (copy == NULL)
    abort ();
  output->done[output->n_done++] = (ScmDone){ copy, 1u << class_id };
}

static int
compare_done (const void *a, const void *b)
{
  return strcmp (((const ScmDone *) a)->key, ((const ScmDone *) b)->key);
}

size_t
scm_output_read (ScmOutput *output, const char *text, size_t length, const ScmIdentity *identity)
{
  Session *sessions = NULL;
  size_t n_sessions = 0, at = 0;
  for (;;)
    {
      const char *end = at < length ? memchr (text + at, '\n', length - at) : NULL;
      if (end == NULL)
        break;
      const size_t line_length = (size_t) (end - text) - at;
      ScmJsonField fields[N_FIELDS] = {
        [F_CLASS] = { .name = "class" },   [F_SESSION] = { .name = "session" },   [F_KEY] = { .name = "key" },
        [F_GPU] = { .name = "gpu" },       [F_DRIVER] = { .name = "driver" },     [F_CUDA] = { .name = "cuda" },
        [F_POWER_LIMIT] = { .name = "power_limit_w" },
        [F_CUBLASLT] = { .name = "cublaslt" }, [F_CUDNN] = { .name = "cudnn" },   [F_NCCL] = { .name = "nccl" },
      };
      const bool ours = scm_json_read (text + at, line_length, fields, N_FIELDS) && fields[F_CLASS].type == SCM_JSON_STRING
                        && fields[F_SESSION].type == SCM_JSON_STRING;
      at += line_length + 1;
      if (!ours)
        {
          output->n_ignored += line_length > 0;
          continue;
        }
      if (strcmp (fields[F_CLASS].text, "session") == 0)
        {
          if (!same (&fields[F_GPU], identity->gpu) || !same (&fields[F_DRIVER], identity->driver)
              || !same (&fields[F_CUDA], identity->cuda) || !same_limit (&fields[F_POWER_LIMIT], identity->power_limit_w))
            continue;
          sessions = realloc (sessions, (n_sessions + 1) * sizeof *sessions);
          char *name = strdup (fields[F_SESSION].text);
          if (sessions == NULL || name == NULL)
            abort ();
          const unsigned libraries = (same (&fields[F_CUBLASLT], identity->cublaslt) ? SCM_CUBLASLT : 0u)
                                     | (same (&fields[F_CUDNN], identity->cudnn) ? SCM_CUDNN : 0u)
                                     | (same (&fields[F_NCCL], identity->nccl) ? SCM_NCCL : 0u);
          sessions[n_sessions++] = (Session){ name, libraries };
          continue;
        }
      output->n_samples++;
      const ScmClass class_id = scm_class_find (fields[F_CLASS].text);
      if (class_id == SCM_N_CLASSES || fields[F_KEY].type != SCM_JSON_STRING)
        continue;
      for (size_t i = n_sessions; i-- > 0;)
        if (strcmp (sessions[i].name, fields[F_SESSION].text) == 0)
          {
            if ((scm_classes[class_id].libraries & ~sessions[i].libraries) == 0)
              add_done (output, fields[F_KEY].text, class_id);
            break;
          }
    }
  for (size_t i = 0; i < n_sessions; i++)
    free (sessions[i].name);
  free (sessions);
  if (output->n_done > 0)
    qsort (output->done, output->n_done, sizeof *output->done, compare_done);
  return at;
}

bool
scm_output_has (const ScmOutput *output, const ScmItem *item)
{
  size_t low = 0, high = output->n_done;
  while (low < high)
    {
      const size_t middle = low + (high - low) / 2;
      const int order = strcmp (output->done[middle].key, item->key);
      if (order == 0)
        return true;
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
  return false;
}

/* All of the file; NULL with errno. */
static char *
read_all (int fd, size_t *ret_length)
{
  size_t room = 1 << 16, length = 0;
  char *text = malloc (room);
  for (;;)
    {
      if (text == NULL)
        abort ();
      const ssize_t n = pread (fd, text + length, room - length, (off_t) length);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          free (text);
          return NULL;
        }
      if (n == 0)
        break;
      length += (size_t) n;
      if (length == room)
        text = realloc (text, room *= 2);
    }
  *ret_length = length;
  return text;
}

int
scm_output_check (const char *path, ScmText *message)
{
  const int fd = open (path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (fd >= 0)
    {
      close (fd);
      return 0;
    }
  if (errno == ENOENT)
    {
      /* The folder must be there, and let us make a file. */
      const char *slash = strrchr (path, '/');
      char *folder = slash == NULL ? strdup (".") : slash == path ? strdup ("/") : strndup (path, (size_t) (slash - path));
      if (folder == NULL)
        abort ();
      const bool usable = access (folder, W_OK | X_OK) == 0;
      free (folder);
      if (usable && (slash == NULL || slash[1] != '\0'))
        return 0;
    }
  scm_text_add (message, "%s: cannot write: %s", path, strerror (errno));
  return SCM_STATUS_CANNOT_CREATE;
}

static int
fail (ScmOutput *output, int status)
{
  scm_output_close (output);
  return status;
}

int
scm_output_open (ScmOutput *output, const char *path, const ScmIdentity *identity, ScmText *message)
{
  *output = (ScmOutput){ .fd = -1 };
  output->fd = open (path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (output->fd < 0 && errno == ENOENT)
    {
      output->fd = open (path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
      output->created = output->fd >= 0;
    }
  if (output->fd < 0)
    {
      scm_text_add (message, "%s: cannot write: %s", path, strerror (errno));
      return SCM_STATUS_CANNOT_CREATE;
    }
  if (flock (output->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    {
      scm_text_add (message, "%s: another stepcast-measure writes to it", path);
      return fail (output, SCM_STATUS_CANNOT_CREATE);
    }
  struct stat status;
  if (fstat (output->fd, &status) != 0 || !S_ISREG (status.st_mode))
    return 0; /* a pipe or a device has nothing to read back */
  size_t length;
  char *text = read_all (output->fd, &length);
  if (text == NULL)
    {
      scm_text_add (message, "%s: cannot read: %s", path, strerror (errno));
      return fail (output, SCM_STATUS_IO);
    }
  const size_t whole = scm_output_read (output, text, length, identity);
  const bool cut_is_ours = length > whole && text[whole] == '{';
  free (text);
  if (output->n_ignored > 0 && output->n_samples == 0)
    {
      scm_text_add (message, "%s: holds something other than raw samples; give another file with -o", path);
      return fail (output, SCM_STATUS_DATA);
    }
  if (length > whole && whole == 0 && !cut_is_ours)
    {
      scm_text_add (message, "%s: holds something other than raw samples; give another file with -o", path);
      return fail (output, SCM_STATUS_DATA);
    }
  if (length > whole)
    {
      output->cut_bytes = length - whole;
      if (ftruncate (output->fd, (off_t) whole) != 0)
        {
          scm_text_add (message, "%s: cannot take away its cut last line: %s", path, strerror (errno));
          return fail (output, SCM_STATUS_IO);
        }
    }
  return 0;
}

bool
scm_output_append (ScmOutput *output, const char *line, size_t length)
{
  while (length > 0)
    {
      const ssize_t n = write (output->fd, line, length);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return false;
      line += n;
      length -= (size_t) n;
    }
  return true;
}

void
scm_output_close (ScmOutput *output)
{
  for (size_t i = 0; i < output->n_done; i++)
    free (output->done[i].key);
  free (output->done);
  if (output->fd >= 0)
    close (output->fd);
  *output = (ScmOutput){ .fd = -1 };
}
