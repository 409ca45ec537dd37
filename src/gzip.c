/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gzip.c - zlib behind a stdio stream. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie() */
#endif
#include "gzip.h"
#include <errno.h>
#include <zlib.h>

#define BUFFER_BYTES (1 << 16)
#define WINDOW_BITS (15 + 16) /* the largest window, with gzip's header */
#define MEMORY_LEVEL 8        /* zlib's default */

typedef struct
{
  FILE    *to;
  z_stream z;
  guchar   out[BUFFER_BYTES];
} Gzip;

/* Compresses what is in @g->z, and writes what comes of it. */
static gboolean
pump (Gzip *g, int flush)
{
  int status = Z_OK;
  do
    {
      g->z.next_out = g->out;
      g->z.avail_out = sizeof g->out;
      status = deflate (&g->z, flush);
      const gsize n = sizeof g->out - g->z.avail_out;
      if (status == Z_STREAM_ERROR || fwrite (g->out, 1, n, g->to) != n)
        return FALSE;
    }
  while (g->z.avail_out == 0 || (flush == Z_FINISH && status != Z_STREAM_END));
  return TRUE;
}

static ssize_t
put (void *cookie, const char *bytes, size_t n)
{
  Gzip *const g = cookie;
  g->z.next_in = (z_const Bytef *) (gpointer) (gsize) bytes; /* zlib only reads it */
  g->z.avail_in = (uInt) n;
  return pump (g, Z_NO_FLUSH) ? (ssize_t) n : 0;
}

static int
end (void *cookie)
{
  Gzip *const g = cookie;
  g->z.avail_in = 0;
  const gboolean done = pump (g, Z_FINISH);
  const int why = errno;
  deflateEnd (&g->z);
  g_free (g);
  errno = why;
  return done ? 0 : EOF;
}

FILE *
sc_gzip_open (FILE *to)
{
  Gzip *const g = g_new0 (Gzip, 1);
  g->to = to;
  if (deflateInit2 (&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK)
    {
      FILE *const file = fopencookie (g, "w", (cookie_io_functions_t) { .write = put, .close = end });
      if (file != NULL)
        return file;
      deflateEnd (&g->z);
    }
  g_free (g);
  errno = ENOMEM;
  return NULL;
}
