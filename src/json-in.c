/* SPDX-License-Identifier: GPL-3.0-or-later */
/* json-in.c - strict JSON: text to a cJSON tree, and errors that say where. */
#include "json-in.h"
#include <math.h>
#include <string.h>

G_DEFINE_QUARK (sc - input - error - quark, sc_input_error)

/* cJSON copies a number into 64 bytes before it converts it. */
#define MAX_NUMBER_LENGTH 60

/* Messages about unknown keys show all known ones up to this many. */
#define MAX_KEYS_SHOWN 12

/* ---- Syntax ----
 * cJSON accepts 01, 1., raw control characters, invalid UTF-8 and trailing text, and recurses into nested values.  So
 * one pass without recursion checks the text first; cJSON then builds the tree. */

typedef struct
{
  const char *text, *p, *end;
  char closers[SC_JSON_MAX_DEPTH]; /* what closes the open objects and arrays, innermost last */
  guint depth;
  guint n_values;
  char *message; /* what is wrong at @p, owned */
} Scan;

static gboolean G_GNUC_PRINTF (2, 3) scan_fail (Scan *scan, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  scan->message = g_strdup_vprintf (format, args);
  va_end (args);
  return FALSE;
}

/* What stands at @p, for messages. */
static char *
scan_found (const Scan *scan)
{
  if (scan->p >= scan->end)
    return g_strdup ("the end of the text");
  const guchar c = (guchar) *scan->p;
  if (g_ascii_isalpha (c))
    {
      gsize n = 1;
      while (n < 20 && scan->p + n < scan->end && g_ascii_isalnum (scan->p[n]))
        n++;
      return g_strdup_printf ("%.*s", (int) n, scan->p);
    }
  if (g_ascii_isgraph (c))
    return g_strdup_printf ("'%c'", c);
  const gunichar wide = g_utf8_get_char_validated (scan->p, scan->end - scan->p);
  if (c >= 0x80 && wide < (gunichar) -2 && g_unichar_isgraph (wide))
    return g_strdup_printf ("'%.*s'", (int) g_unichar_to_utf8 (wide, NULL), scan->p);
  return g_strdup_printf ("byte 0x%02x", c);
}

static gboolean
scan_fail_expected (Scan *scan, const char *expected)
{
  g_autofree char *found = scan_found (scan);
  const char *hint = "";
  const char *word = *found == '\'' ? found + 1 : found;
  if (g_ascii_strncasecmp (word, "nan", 3) == 0 || g_ascii_strncasecmp (word, "inf", 3) == 0)
    hint = " (JSON has no NaN and no infinity)";
  else if (*word == '/' || *word == '#')
    hint = " (JSON has no comments; use a key \"comment\")";
  else if (strcmp (found, "'''") == 0)
    hint = " (strings are written in double quotes)";
  else if (*word == '}' || *word == ']')
    hint = " (no comma before a closing bracket)";
  return scan_fail (scan, "found %s, expected %s%s", found, expected, hint);
}

static void
scan_blanks (Scan *scan)
{
  while (scan->p < scan->end && (*scan->p == ' ' || *scan->p == '\t' || *scan->p == '\n' || *scan->p == '\r'))
    scan->p++;
}

static gsize
scan_digits (Scan *scan)
{
  const char *start = scan->p;
  while (scan->p < scan->end && g_ascii_isdigit (*scan->p))
    scan->p++;
  return (gsize) (scan->p - start);
}

static gboolean
scan_number (Scan *scan)
{
  const char *start = scan->p;
  if (*scan->p == '-')
    scan->p++;
  const char *whole = scan->p;
  if (scan_digits (scan) == 0)
    return scan_fail_expected (scan, "a digit");
  if (*whole == '0' && scan->p - whole > 1)
    {
      scan->p = start;
      return scan_fail (scan, "found a number that starts with 0, expected none or a decimal point behind it");
    }
  if (scan->p < scan->end && *scan->p == '.')
    {
      scan->p++;
      if (scan_digits (scan) == 0)
        return scan_fail_expected (scan, "a digit behind the decimal point");
    }
  if (scan->p < scan->end && (*scan->p == 'e' || *scan->p == 'E'))
    {
      scan->p++;
      if (scan->p < scan->end && (*scan->p == '+' || *scan->p == '-'))
        scan->p++;
      if (scan_digits (scan) == 0)
        return scan_fail_expected (scan, "a digit in the exponent");
    }
  const gsize length = (gsize) (scan->p - start);
  if (length > MAX_NUMBER_LENGTH)
    {
      scan->p = start;
      return scan_fail (scan, "found a number of %" G_GSIZE_FORMAT " characters, expected at most %u", length,
                        MAX_NUMBER_LENGTH);
    }
  char digits[MAX_NUMBER_LENGTH + 1];
  memcpy (digits, start, length);
  digits[length] = '\0';
  if (!isfinite (g_ascii_strtod (digits, NULL)))
    {
      scan->p = start;
      return scan_fail (scan, "found %s, expected a number below 1.8e308", digits);
    }
  return TRUE;
}

/* Four hexadecimal digits at @p, or -1. */
static int
scan_hex4 (const Scan *scan, const char *p)
{
  int value = 0;
  for (guint i = 0; i < 4; i++)
    {
      const int digit = p + i < scan->end ? g_ascii_xdigit_value (p[i]) : -1;
      if (digit < 0)
        return -1;
      value = value * 16 + digit;
    }
  return value;
}

static gboolean
scan_escape (Scan *scan)
{
  const char kind = scan->p + 1 < scan->end ? scan->p[1] : '\0';
  if (kind != 'u')
    {
      if (kind == '\0' || strchr ("\"\\/bfnrt", kind) == NULL)
        return scan_fail (scan, "found an unknown escape, expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
      scan->p += 2;
      return TRUE;
    }
  const int code = scan_hex4 (scan, scan->p + 2);
  if (code < 0)
    return scan_fail (scan, "found \\u, expected four hexadecimal digits behind it");
  if (code == 0)
    return scan_fail (scan, "found \\u0000, expected no NUL in a string");
  if (code >= 0xd800 && code < 0xe000)
    {
      const gboolean pair = code < 0xdc00 && scan->end - scan->p >= 12 && scan->p[6] == '\\' && scan->p[7] == 'u';
      const int low = pair ? scan_hex4 (scan, scan->p + 8) : -1;
      if (low < 0xdc00 || low >= 0xe000)
        return scan_fail (scan, "found half of a surrogate pair, expected both");
      scan->p += 6;
    }
  scan->p += 6;
  return TRUE;
}

static gboolean
scan_string (Scan *scan)
{
  scan->p++;
  for (;;)
    {
      if (scan->p >= scan->end)
        return scan_fail_expected (scan, "'\"' at the end of the string");
      const guchar c = (guchar) *scan->p;
      if (c == '"')
        {
          scan->p++;
          return TRUE;
        }
      if (c == '\\')
        {
          if (!scan_escape (scan))
            return FALSE;
        }
      else if (c < 0x20 || c == 0x7f)
        return scan_fail (scan, "found a control character (0x%02x) in a string, expected none", c);
      else if (c < 0x80)
        scan->p++;
      else
        {
          const gunichar wide = g_utf8_get_char_validated (scan->p, scan->end - scan->p);
          if (wide >= (gunichar) -2)
            return scan_fail (scan, "found byte 0x%02x, expected valid UTF-8", c);
          scan->p += g_utf8_skip[c];
        }
    }
}

/* One value; of an object or array only the opening bracket. */
static gboolean
scan_value (Scan *scan, gboolean *ret_open)
{
  static const char *const literals[] = { "true", "false", "null" };

  *ret_open = FALSE;
  if (++scan->n_values > SC_JSON_MAX_VALUES)
    return scan_fail (scan, "found more than %u values, expected at most that many", SC_JSON_MAX_VALUES);
  const char c = scan->p < scan->end ? *scan->p : '\0';
  if (c == '"')
    return scan_string (scan);
  if (c == '-' || g_ascii_isdigit (c))
    return scan_number (scan);
  if (c == '{' || c == '[')
    {
      if (scan->depth == SC_JSON_MAX_DEPTH)
        return scan_fail (scan, "found more than %u nested objects and arrays, expected at most that many",
                          SC_JSON_MAX_DEPTH);
      scan->closers[scan->depth++] = c == '{' ? '}' : ']';
      scan->p++;
      *ret_open = TRUE;
      return TRUE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (literals); i++)
    {
      const gsize length = strlen (literals[i]);
      if ((gsize) (scan->end - scan->p) >= length && memcmp (scan->p, literals[i], length) == 0
          && (scan->p + length == scan->end || !g_ascii_isalnum (scan->p[length])))
        {
          scan->p += length;
          return TRUE;
        }
    }
  return scan_fail_expected (scan, "a value");
}

/* "key": */
static gboolean
scan_key (Scan *scan)
{
  if (scan->p >= scan->end || *scan->p != '"')
    return scan_fail_expected (scan, "a key in double quotes");
  if (!scan_string (scan))
    return FALSE;
  scan_blanks (scan);
  if (scan->p >= scan->end || *scan->p != ':')
    return scan_fail_expected (scan, "':' behind the key");
  scan->p++;
  scan_blanks (scan);
  return TRUE;
}

static gboolean
scan_document (Scan *scan)
{
  for (;;)
    {
      /* At the start of a value (and its key). */
      scan_blanks (scan);
      if (scan->depth > 0 && scan->closers[scan->depth - 1] == '}' && !scan_key (scan))
        return FALSE;
      gboolean open;
      if (!scan_value (scan, &open))
        return FALSE;
      scan_blanks (scan);
      if (open && (scan->p >= scan->end || *scan->p != scan->closers[scan->depth - 1]))
        continue;

      /* Behind a value: close what ends here, up to the next comma. */
      while (scan->depth > 0 && scan->p < scan->end && *scan->p == scan->closers[scan->depth - 1])
        {
          scan->depth--;
          scan->p++;
          scan_blanks (scan);
        }
      if (scan->depth == 0)
        return scan->p == scan->end ? TRUE : scan_fail_expected (scan, "the end of the text");
      if (scan->p >= scan->end || *scan->p != ',')
        return scan_fail_expected (scan, scan->closers[scan->depth - 1] == '}' ? "',' or '}'" : "',' or ']'");
      scan->p++;
    }
}

/* Tree of @text, or NULL and *ret_why; *ret_at: the place. */
static cJSON *
parse_text (const char *text, gsize length, const char **ret_at, char **ret_why)
{
  Scan scan = { .text = text, .p = text, .end = text + length };
  if (length >= 3 && memcmp (text, "\357\273\277", 3) == 0)
    scan.p += 3; /* byte-order mark, which cJSON skips as well */
  if (!scan_document (&scan))
    {
      *ret_at = scan.p;
      *ret_why = scan.message;
      return NULL;
    }
  cJSON *root = cJSON_ParseWithLengthOpts (text, length, NULL, FALSE);
  if (root == NULL)
    {
      const char *at = cJSON_GetErrorPtr ();
      *ret_at = at >= text && at <= text + length ? at : text;
      *ret_why = g_strdup ("not valid JSON");
    }
  return root;
}

/* ---- Content ---- */

void
sc_json_free (ScJson *json)
{
  if (json == NULL)
    return;
  g_free (json->file);
  cJSON_Delete (json->root);
  g_ptr_array_unref (json->overrides);
  g_free (json);
}

static void
override_free (gpointer data)
{
  ScJsonOverride *override = data;
  g_free (override->pointer);
  g_free (override->text);
  g_free (override);
}

void
sc_json_note_override (ScJson *json, const char *pointer, const char *text)
{
  ScJsonOverride *override = g_new (ScJsonOverride, 1);
  *override = (ScJsonOverride){ g_strdup (pointer), g_strdup (text) };
  g_ptr_array_add (json->overrides, override);
}

/* @key as a reference token of RFC 6901. */
static void
append_token (GString *pointer, const char *key)
{
  g_string_append_c (pointer, '/');
  for (const char *p = key; *p != '\0'; p++)
    if (*p == '~')
      g_string_append (pointer, "~0");
    else if (*p == '/')
      g_string_append (pointer, "~1");
    else
      g_string_append_c (pointer, *p);
}

/* Appends the way from @from down to @item; FALSE and @pointer as before if it is not below. */
static gboolean
append_way (const cJSON *from, const cJSON *item, GString *pointer)
{
  if (from == item)
    return TRUE;
  const gsize length = pointer->len;
  guint index = 0;
  for (const cJSON *child = from->child; child != NULL; child = child->next, index++)
    {
      if (child != item && child->child == NULL)
        continue;
      if (cJSON_IsObject (from))
        append_token (pointer, child->string);
      else
        g_string_append_printf (pointer, "/%u", index);
      if (append_way (child, item, pointer))
        return TRUE;
      g_string_truncate (pointer, length);
    }
  return FALSE;
}

char *
sc_json_pointer (const ScJson *json, const cJSON *item, const char *key)
{
  GString *pointer = g_string_new (NULL);
  append_way (json->root, item, pointer);
  if (key != NULL)
    append_token (pointer, key);
  return g_string_free (pointer, FALSE);
}

char *
sc_json_found (const cJSON *item)
{
  if (item == NULL)
    return g_strdup ("nothing");
  if (cJSON_IsString (item))
    {
      if (g_utf8_strlen (item->valuestring, -1) <= 60)
        return g_strdup_printf ("\"%s\"", item->valuestring);
      g_autofree char *head = g_utf8_substring (item->valuestring, 0, 57);
      return g_strdup_printf ("\"%s...\"", head);
    }
  if (cJSON_IsNumber (item))
    {
      if (item->valuedouble == floor (item->valuedouble) && fabs (item->valuedouble) < 1e15)
        return g_strdup_printf ("%.0f", item->valuedouble);
      char buffer[32];
      for (int digits = 6; digits <= 17; digits++)
        {
          g_snprintf (buffer, sizeof buffer, "%.*g", digits, item->valuedouble);
          if (g_ascii_strtod (buffer, NULL) == item->valuedouble)
            break;
        }
      return g_strdup (buffer);
    }
  return g_strdup (cJSON_IsTrue (item)    ? "true"
                   : cJSON_IsFalse (item) ? "false"
                   : cJSON_IsNull (item)  ? "null"
                   : cJSON_IsArray (item) ? "an array"
                                          : "an object");
}

/* The override that @pointer lies in, or NULL. */
static const ScJsonOverride *
find_override (const ScJson *json, const char *pointer, gsize length)
{
  for (guint i = json->overrides->len; i-- > 0;)
    {
      const ScJsonOverride *override = g_ptr_array_index (json->overrides, i);
      const gsize n = strlen (override->pointer);
      if (n <= length && memcmp (override->pointer, pointer, n) == 0 && (n == length || pointer[n] == '/'))
        return override;
    }
  return NULL;
}

/* @length: of the pointer at the start of @message; @code: of the error if the value there is from --set. */
static void
set_error_at (const ScJson *json, ScInputError code, GError **error, const char *message, gsize length)
{
  const ScJsonOverride *override = find_override (json, message, length);
  if (override != NULL)
    g_set_error (error, SC_INPUT_ERROR, (int) code, "--set %s: %s: %s", override->text, json->file, message);
  else
    g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s: %s", json->file, message);
}

void
sc_json_fail (const ScJson *json, const cJSON *item, const char *key, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *pointer = sc_json_pointer (json, item, key);
  g_autofree char *text = g_strdup_printf ("%s: %s", *pointer == '\0' ? "/" : pointer, message);
  set_error_at (json, SC_INPUT_ERROR_CONTENT, error, text, strlen (pointer));
}

void
sc_json_fail_key (const ScJson *json, const cJSON *object, const char *key, const char *const *known, GError **error)
{
  g_autofree char *pointer = sc_json_pointer (json, object, key);
  g_autoptr (GString) text = g_string_new (pointer);
  const char *nearest = sc_nearest (key, known);
  if (nearest != NULL)
    g_string_append_printf (text, ": unknown key, did you mean \"%s\"?", nearest);
  else if (g_strv_length ((char **) (gsize) known) > MAX_KEYS_SHOWN)
    g_string_append (text, ": unknown key, expected one that \"stepcast list fields\" shows");
  else
    {
      g_string_append (text, ": unknown key, expected one of ");
      for (guint i = 0; known[i] != NULL; i++)
        g_string_append_printf (text, "%s%s", i == 0 ? "" : ", ", known[i]);
    }
  set_error_at (json, SC_INPUT_ERROR_OVERRIDE, error, text->str, strlen (pointer));
}

void
sc_json_fail_at (const ScJson *json, GError **error, const char *pointer_and_message)
{
  set_error_at (json, SC_INPUT_ERROR_CONTENT, error, pointer_and_message, strcspn (pointer_and_message, ": "));
}

static gboolean
has_control_character (const char *text)
{
  for (const char *p = text; *p != '\0'; p += g_utf8_skip[(guchar) *p])
    if (g_unichar_iscntrl (g_utf8_get_char (p)))
      return TRUE;
  return FALSE;
}

/* Depth is bounded by the scan. */
static gboolean
check_tree (const ScJson *json, const cJSON *item, GError **error)
{
  if (cJSON_IsString (item) && has_control_character (item->valuestring))
    {
      sc_json_fail (json, item, NULL, error, "found a string with a control character, expected none");
      return FALSE;
    }
  const gboolean is_object = cJSON_IsObject (item);
  g_autoptr (GHashTable) seen = is_object && item->child != NULL ? g_hash_table_new (g_str_hash, g_str_equal) : NULL;
  for (const cJSON *child = item->child; child != NULL; child = child->next)
    {
      if (is_object && has_control_character (child->string))
        {
          sc_json_fail (json, item, NULL, error, "found a key with a control character, expected none");
          return FALSE;
        }
      if (is_object && !g_hash_table_add (seen, child->string))
        {
          sc_json_fail (json, item, child->string, error, "found this key twice, expected it once");
          return FALSE;
        }
      if (!check_tree (json, child, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sc_json_check (const ScJson *json, GError **error)
{
  return check_tree (json, json->root, error);
}

ScJson *
sc_json_parse (const char *file, const char *text, gsize length, GError **error)
{
  const char *at = text;
  g_autofree char *why = NULL;
  g_autoptr (cJSON) root = parse_text (text, length, &at, &why);
  if (root == NULL)
    {
      guint line = 1, column = 1;
      for (const char *p = text; p < at; p++)
        if (*p == '\n')
          {
            line++;
            column = 1;
          }
        else if (((guchar) *p & 0xc0) != 0x80) /* count characters, not bytes */
          column++;
      g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_SYNTAX, "%s:%u:%u: %s", file, line, column, why);
      return NULL;
    }
  g_autoptr (ScJson) json = g_new (ScJson, 1);
  *json = (ScJson){ g_strdup (file), g_steal_pointer (&root), g_ptr_array_new_with_free_func (override_free) };
  if (!sc_json_check (json, error))
    return NULL;
  if (!cJSON_IsObject (json->root))
    {
      g_autofree char *found = sc_json_found (json->root);
      sc_json_fail (json, json->root, NULL, error, "found %s, expected an object", found);
      return NULL;
    }
  return g_steal_pointer (&json);
}

cJSON *
sc_json_parse_value (const char *text, char **ret_why)
{
  const char *at = text;
  g_autofree char *why = NULL;
  cJSON *value = parse_text (text, strlen (text), &at, &why);
  if (value == NULL && ret_why != NULL)
    *ret_why = g_steal_pointer (&why);
  return value;
}

/* ---- Nearest word ---- */

/* Insertions, deletions, substitutions and swaps of neighbours that lead from @a to @b, without regard to case. */
static guint
distance (const char *a, const char *b)
{
  const gsize n = strlen (a), m = strlen (b), width = m + 1;
  g_autofree guint *d = g_new (guint, (n + 1) * width);
  for (gsize i = 0; i <= n; i++)
    for (gsize j = 0; j <= m; j++)
      {
        guint *cell = &d[i * width + j];
        if (i == 0 || j == 0)
          {
            *cell = (guint) (i + j);
            continue;
          }
        const gboolean same = g_ascii_tolower (a[i - 1]) == g_ascii_tolower (b[j - 1]);
        *cell = MIN (d[(i - 1) * width + j] + 1, d[i * width + j - 1] + 1);
        *cell = MIN (*cell, d[(i - 1) * width + j - 1] + (same ? 0 : 1));
        if (i > 1 && j > 1 && g_ascii_tolower (a[i - 1]) == g_ascii_tolower (b[j - 2])
            && g_ascii_tolower (a[i - 2]) == g_ascii_tolower (b[j - 1]))
          *cell = MIN (*cell, d[(i - 2) * width + j - 2] + 1);
      }
  return d[n * width + m];
}

const char *
sc_nearest (const char *word, const char *const *known)
{
  const gsize length = strlen (word);
  const char *best = NULL;
  guint best_distance = 0;
  if (length > 64)
    return NULL;
  for (; *known != NULL; known++)
    {
      /* A slip changes at most a third of the word; a word that starts the same way is near as well. */
      guint far = distance (word, *known);
      const guint most = (guint) MAX (1, (MAX (length, strlen (*known)) + 1) / 3);
      if (far > most && length >= 3 && g_ascii_strncasecmp (word, *known, length) == 0)
        far = most;
      if (far <= most && (best == NULL || far < best_distance))
        {
          best = *known;
          best_distance = far;
        }
    }
  return best;
}
