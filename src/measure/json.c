/* SPDX-License-Identifier: MIT */
/* json.c - writing members, and reading one line back. */
#include "measure/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32

/* --- writing --- */

void
scm_text_clear (ScmText *text)
{
  free (text->bytes);
  *text = (ScmText){ 0 };
}

static void
reserve (ScmText *text, size_t more)
{
  if (text->length + more + 1 <= text->room)
    return;
  text->room = 2 * (text->length + more + 1);
  text->bytes = realloc (text->bytes, text->room);
  if (text->bytes == NULL)
    abort ();
}

void
scm_text_add (ScmText *text, const char *format, ...)
{
  va_list arguments, again;
  va_start (arguments, format);
  va_copy (again, arguments);
  const int length = vsnprintf (NULL, 0, format, arguments);
  va_end (arguments);
  if (length >= 0)
    {
      reserve (text, (size_t) length);
      vsnprintf (text->bytes + text->length, (size_t) length + 1, format, again);
      text->length += (size_t) length;
    }
  va_end (again);
}

static void
add_string (ScmText *text, const char *value)
{
  scm_text_add (text, "\"");
  for (const unsigned char *p = (const unsigned char *) value; *p != '\0'; p++)
    if (*p == '"' || *p == '\\')
      scm_text_add (text, "\\%c", *p);
    else if (*p < 0x20 || *p >= 0x7f)
      scm_text_add (text, "\\u%04x", *p);
    else
      scm_text_add (text, "%c", *p);
  scm_text_add (text, "\"");
}

static void
add_name (ScmText *text, const char *name)
{
  if (text->length > 0 && text->bytes[text->length - 1] != '{')
    scm_text_add (text, ",");
  add_string (text, name);
  scm_text_add (text, ":");
}

void
scm_json_begin (ScmText *text)
{
  scm_text_add (text, "{");
}

void
scm_json_end (ScmText *text)
{
  scm_text_add (text, "}\n");
}

void
scm_json_string (ScmText *text, const char *name, const char *value)
{
  add_name (text, name);
  if (value == NULL)
    scm_text_add (text, "null");
  else
    add_string (text, value);
}

void
scm_json_integer (ScmText *text, const char *name, int64_t value)
{
  add_name (text, name);
  scm_text_add (text, "%lld", (long long) value);
}

void
scm_json_number (ScmText *text, const char *name, double value)
{
  if (!isfinite (value))
    return;
  add_name (text, name);
  scm_text_add (text, "%.6g", value);
}

void
scm_json_boolean (ScmText *text, const char *name, bool value)
{
  add_name (text, name);
  scm_text_add (text, value ? "true" : "false");
}

void
scm_json_integers (ScmText *text, const char *name, const int64_t *values, int n)
{
  add_name (text, name);
  for (int i = 0; i < n; i++)
    scm_text_add (text, "%s%lld", i == 0 ? "[" : ",", (long long) values[i]);
  scm_text_add (text, n == 0 ? "[]" : "]");
}

/* --- reading --- */

typedef struct
{
  const char *at, *end;
} Reader;

static void
skip_blanks (Reader *reader)
{
  while (reader->at < reader->end
         && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r' || *reader->at == '\n'))
    reader->at++;
}

static bool
take (Reader *reader, char c)
{
  if (reader->at == reader->end || *reader->at != c)
    return false;
  reader->at++;
  return true;
}

static bool
take_word (Reader *reader, const char *word)
{
  const size_t length = strlen (word);
  if ((size_t) (reader->end - reader->at) < length || memcmp (reader->at, word, length) != 0)
    return false;
  reader->at += length;
  return true;
}

static int
hex_value (char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

/* A string into @out (NULL: nowhere), cut at @room bytes with the final NUL.  \u above 0xff is kept as '?': no key of
 * ours has any. */
static bool
read_string (Reader *reader, char *out, size_t room)
{
  size_t n = 0;
  if (!take (reader, '"'))
    return false;
  while (reader->at < reader->end && *reader->at != '"')
    {
      unsigned char c = (unsigned char) *reader->at++;
      if (c < 0x20)
        return false;
      if (c == '\\')
        {
          static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
          if (reader->at == reader->end)
            return false;
          c = (unsigned char) *reader->at++;
          if (c == 'u')
            {
              int code = 0;
              for (int i = 0; i < 4; i++)
                {
                  const int digit = reader->at < reader->end ? hex_value (*reader->at++) : -1;
                  if (digit < 0)
                    return false;
                  code = 16 * code + digit;
                }
              c = code == 0 || code > 0xff ? '?' : (unsigned char) code;
            }
          else
            {
              const char *found = c == '\0' ? NULL : strchr (from, c);
              if (found == NULL)
                return false;
              c = (unsigned char) to[found - from];
            }
        }
      if (out != NULL && n + 1 < room)
        out[n++] = (char) c;
    }
  if (out != NULL)
    out[n] = '\0';
  return take (reader, '"');
}

static bool
read_digits (Reader *reader)
{
  const char *from = reader->at;
  while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
    reader->at++;
  return reader->at > from;
}

static bool
read_number (Reader *reader, double *ret_number)
{
  const char *from = reader->at;
  take (reader, '-');
  if (!take (reader, '0') && !read_digits (reader))
    return false;
  if (take (reader, '.') && !read_digits (reader))
    return false;
  if (take (reader, 'e') || take (reader, 'E'))
    {
      if (!take (reader, '+'))
        take (reader, '-');
      if (!read_digits (reader))
        return false;
    }
  char digits[64];
  const size_t length = (size_t) (reader->at - from);
  if (length >= sizeof digits)
    return false;
  memcpy (digits, from, length);
  digits[length] = '\0';
  *ret_number = strtod (digits, NULL);
  return true;
}

static bool read_value (Reader *reader, int depth, ScmJsonField *field);

/* An array, or an object whose members are not looked at unless there are @fields. */
static bool
read_members (Reader *reader, int depth, bool named, ScmJsonField *fields, size_t n_fields)
{
  const char close = named ? '}' : ']';
  reader->at++;
  skip_blanks (reader);
  if (depth > MAX_DEPTH)
    return false;
  if (take (reader, close))
    return true;
  for (;;)
    {
      ScmJsonField *field = NULL;
      if (named)
        {
          char name[64];
          if (!read_string (reader, name, sizeof name))
            return false;
          for (size_t i = 0; i < n_fields; i++)
            if (strcmp (fields[i].name, name) == 0)
              field = &fields[i];
          skip_blanks (reader);
          if (!take (reader, ':'))
            return false;
        }
      skip_blanks (reader);
      if (!read_value (reader, depth + 1, field))
        return false;
      skip_blanks (reader);
      if (take (reader, close))
        return true;
      if (!take (reader, ','))
        return false;
      skip_blanks (reader);
    }
}

static bool
read_value (Reader *reader, int depth, ScmJsonField *field)
{
  ScmJsonField unused;
  if (field == NULL)
    field = &unused;
  if (reader->at == reader->end)
    return false;
  switch (*reader->at)
    {
    case '{':
      field->type = SCM_JSON_OBJECT;
      return read_members (reader, depth, true, NULL, 0);
    case '[':
      field->type = SCM_JSON_ARRAY;
      return read_members (reader, depth, false, NULL, 0);
    case '"':
      field->type = SCM_JSON_STRING;
      return read_string (reader, field->text, sizeof field->text);
    case 't':
      field->type = SCM_JSON_TRUE;
      return take_word (reader, "true");
    case 'f':
      field->type = SCM_JSON_FALSE;
      return take_word (reader, "false");
    case 'n':
      field->type = SCM_JSON_NULL;
      return take_word (reader, "null");
    default:
      field->type = SCM_JSON_NUMBER;
      return read_number (reader, &field->number);
    }
}

bool
scm_json_read (const char *line, size_t length, ScmJsonField *fields, size_t n_fields)
{
  Reader reader = { line, line + length };
  for (size_t i = 0; i < n_fields; i++)
    {
      fields[i].type = SCM_JSON_ABSENT;
      fields[i].text[0] = '\0';
    }
  skip_blanks (&reader);
  if (reader.at == reader.end || *reader.at != '{' || !read_members (&reader, 0, true, fields, n_fields))
    return false;
  skip_blanks (&reader);
  return reader.at == reader.end;
}
