/* SPDX-License-Identifier: MIT */
/* output.h - the file of raw samples: what is in it already, and one whole line more at a time. */
#pragma once
#include "measure/item.h"
#include "measure/json.h"

/* What a sample depends on.  Texts may be NULL: the library was not there. */
typedef struct
{
  const char *gpu, *driver, *cuda;
  int power_limit_w; /* 0: not known */
  const char *cublaslt, *cudnn, *nccl;
} ScmIdentity;

typedef struct
{
  char *key;
  unsigned classes; /* bit per class */
} ScmDone;

typedef struct
{
  int fd; /* -1: not open */
  ScmDone *done;
  size_t n_done, room;
  size_t n_samples;  /* lines of samples, whoever made them */
  size_t n_ignored;  /* lines that are none of ours */
  size_t cut_bytes;  /* of a last line without end, taken away */
  bool created;      /* by scm_output_open() */
} ScmOutput;

/* Opens @path for appending, creating it; what is there is read: samples of the same identity count as done, a cut last
 * line is taken away.  Returns 0, or a status with one line in @message. */
int scm_output_open (ScmOutput *output, const char *path, const ScmIdentity *identity, ScmText *message);

/* Whether it could be opened, as far as that can be told without making it.  A status, as above. */
int scm_output_check (const char *path, ScmText *message);

bool scm_output_has (const ScmOutput *output, const ScmItem *item);

/* FALSE with errno set. */
bool scm_output_append (ScmOutput *output, const char *line, size_t length);

void scm_output_close (ScmOutput *output);

/* Does the part of reading: @text is what is in the file.  Returns the bytes that are whole lines. */
size_t scm_output_read (ScmOutput *output, const char *text, size_t length, const ScmIdentity *identity);
