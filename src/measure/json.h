/* SPDX-License-Identifier: MIT */
/* json.h - a growing text to write JSON into, and a strict reader of the top keys of one object.  No library, so that
 * the program runs wherever a driver is. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct
{
  char *bytes; /* NUL-ended, or NULL while empty */
  size_t length, room;
} ScmText;

void scm_text_clear (ScmText *text);
void scm_text_add (ScmText *text, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* Members of an object: scm_json_begin(), members, scm_json_end().  A NULL string is null; a number that is not finite
 * leaves its member out. */
void scm_json_begin (ScmText *text);
void scm_json_end (ScmText *text); /* with the end of the line */
void scm_json_string (ScmText *text, const char *name, const char *value);
void scm_json_integer (ScmText *text, const char *name, int64_t value);
void scm_json_number (ScmText *text, const char *name, double value);
void scm_json_boolean (ScmText *text, const char *name, bool value);
void scm_json_integers (ScmText *text, const char *name, const int64_t *values, int n);

typedef enum
{
  SCM_JSON_ABSENT,
  SCM_JSON_NULL,
  SCM_JSON_FALSE,
  SCM_JSON_TRUE,
  SCM_JSON_NUMBER,
  SCM_JSON_STRING,
  SCM_JSON_ARRAY,
  SCM_JSON_OBJECT,
} ScmJsonType;

typedef struct
{
  const char *name; /* what to look for */
  ScmJsonType type; /* what was found; the last one counts */
  char text[512];   /* a string, cut at that length */
  double number;
} ScmJsonField;

/* FALSE unless @line is exactly one JSON object. */
bool scm_json_read (const char *line, size_t length, ScmJsonField *fields, size_t n_fields);
