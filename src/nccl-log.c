/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nccl-log.c - finds the tables of nccl-tests in the output of a job. */
#include "nccl-log.h"
#include <math.h>
#include <string.h>
#include "json-in.h"
#include "library.h"
#include "nccl-run.h"

/* nccl-tests writes lines of 150 characters; what is longer comes from elsewhere. */
#define MAX_LINE_BYTES 65536

/* Columns that one side of a table may have: time, algbw, busbw, #wrong, and what options add. */
#define MAX_SIDE_COLUMNS 16

/* The table of a run that is only run in place has this many blanks in place of the out-of-place columns. */
#define MIN_EMPTY_SIDE 30

/* Columns as the table's header names them. */
typedef struct
{
  gboolean has_redop, has_root;
  guint n_side; /* columns of one side, the first three time, algbw, busbw */
  guint n_sides;
  int wrong;         /* index of #wrong in a side, or -1 */
  gboolean has_more; /* columns behind the sides, such as a timestamp */
} Columns;

/* What is known of a run before its first line. */
typedef struct
{
  char *program; /* said by nccl-tests */
  char *command; /* on a command line */
  char *version, *algo, *proto;
} Ahead;

typedef struct
{
  const char *file;
  GPtrArray *logs;
  ScNcclRun *run;               /* the last one, or NULL */
  gboolean in_table, has_table; /* between header and footer; header seen */
  guint table_line;             /* of the last header of any run; 0: none */
  Columns columns;
  Ahead ahead;
  char *algo, *proto; /* exported: for all runs to come */

  GPtrArray *row; /* columns of a row that NCCL's messages have cut in pieces, or empty */
  guint row_line;

  GRegex *ansi, *tag, *label, *message, *rank, *setting, *version;
} Reader;

static GRegex *
regex (const char *pattern)
{
  /* RAW: a log may hold bytes that are not UTF-8. */
  GRegex *compiled = g_regex_new (pattern, G_REGEX_RAW, 0, NULL);
  g_assert (compiled != NULL);
  return compiled;
}

static void
reader_init (Reader *reader, const char *file)
{
  *reader = (Reader){ .file = file };
  reader->logs = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_nccl_log_free);
  reader->row = g_ptr_array_new_with_free_func (g_free);
  reader->ansi = regex ("\\x1b\\[[0-9;?]*[A-Za-z]");
  /* [1,0]<stdout>: of Open MPI, [prterun-host-1@1,0]<stderr>: of PRRTE; also inside a line, where its blocks met. */
  reader->tag = regex ("\\[[^][\\s]{1,200}\\]<std(?:out|err)>:");
  /* "0: " of srun -l, "host: " of pdsh, "[pod/name] " of kubectl, "name | " of docker compose, a time of day. */
  reader->label = regex ("^\\s*(?:\\[[^][\\s]{1,200}\\]\\s|\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d\\S{0,40}\\s"
                         "|[A-Za-z0-9_.-]{1,200}:\\s|[A-Za-z0-9_.-]{1,200}\\s{1,40}\\|\\s)+");
  reader->message = regex (":\\d+:\\d+ \\[\\d+\\].{0,200}NCCL (?:INFO|WARN|TRACE|VERSION).*$");
  reader->rank =
      regex ("^#\\s*Rank\\s+(\\d{1,9})\\s+(?:Group\\s+(\\d{1,9})\\s+)?Pid\\s+\\d+\\s+on\\s+(\\S+)\\s+device\\s+\\d+"
             "\\s+\\[[^]]*\\]\\s*(.*)$");
  reader->setting =
      regex ("NCCL_(ALGO|PROTO)(?:=| set by environment to )[\"']?(\\^?[A-Za-z0-9][A-Za-z0-9_,;:^/+*-]*)");
  reader->version = regex ("\\b[NR]CCL version\\s*:?\\s*(\\d\\S*)");
}

static void
ahead_clear (Ahead *ahead)
{
  g_free (ahead->program);
  g_free (ahead->command);
  g_free (ahead->version);
  g_free (ahead->algo);
  g_free (ahead->proto);
  *ahead = (Ahead){ NULL };
}

static void
reader_clear (Reader *reader)
{
  g_clear_pointer (&reader->logs, g_ptr_array_unref);
  g_clear_pointer (&reader->run, sc_nccl_run_free);
  ahead_clear (&reader->ahead);
  g_free (reader->algo);
  g_free (reader->proto);
  g_ptr_array_unref (reader->row);
  GRegex *const all[] = { reader->ansi, reader->tag,     reader->label,  reader->message,
                          reader->rank, reader->setting, reader->version };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_regex_unref (all[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reader, reader_clear)

static gboolean G_GNUC_PRINTF (4, 5)
    reader_fail (const Reader *reader, guint line, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s:%u: %s", reader->file, line, message);
  return FALSE;
}

/* @token for a message. */
static char *
quote (const char *token)
{
  g_autofree char *head = g_strndup (token, 40);
  g_autofree char *escaped = g_strescape (head, NULL);
  return g_strdup_printf ("\"%s%s\"", escaped, strlen (token) > 40 ? "..." : "");
}

/* ---- Tokens ---- */

static GPtrArray *
split (const char *text)
{
  GPtrArray *tokens = g_ptr_array_new_with_free_func (g_free);
  for (const char *p = text; *p != '\0';)
    {
      p += strspn (p, " \t\r\v\f");
      const gsize n = strcspn (p, " \t\r\v\f");
      if (n > 0)
        g_ptr_array_add (tokens, g_strndup (p, n));
      p += n;
    }
  return tokens;
}

static const char *
token (const GPtrArray *tokens, guint i)
{
  return i < tokens->len ? g_ptr_array_index (tokens, i) : "";
}

static gboolean
is_whole (const char *text)
{
  text += *text == '-' ? 1 : 0;
  return *text != '\0' && text[strspn (text, "0123456789")] == '\0';
}

/* Decimal numbers only: no hexadecimal, infinity, NaN.  @ret_error (optional): half a unit of the last digit. */
static gboolean
parse_number (const char *text, double *ret_value, double *ret_error)
{
  char *end;
  if (*text == '\0' || text[strspn (text, "0123456789+-.eE")] != '\0')
    return FALSE;
  *ret_value = g_ascii_strtod (text, &end);
  if (*end != '\0' || !isfinite (*ret_value))
    return FALSE;
  if (ret_error != NULL)
    {
      const char *point = strchr (text, '.'), *power = strpbrk (text, "eE");
      const gsize decimals = point == NULL ? 0 : strspn (point + 1, "0123456789");
      const double exponent = power == NULL ? 0 : g_ascii_strtod (power + 1, NULL);
      *ret_error = 0.5 * pow (10, exponent - (double) decimals);
    }
  return TRUE;
}

static gboolean
is_measured (const char *text)
{
  double value;
  return strcmp (text, "N/A") == 0 || parse_number (text, &value, NULL);
}

/* ---- Runs ---- */

static void
set_once (char **place, char **value)
{
  if (*place == NULL)
    *place = g_steal_pointer (value);
  g_clear_pointer (value, g_free);
}

static void
end_run (Reader *reader)
{
  ScNcclLog *log = reader->run == NULL ? NULL : sc_nccl_run_end (g_steal_pointer (&reader->run));
  if (log != NULL)
    g_ptr_array_add (reader->logs, log);
  g_ptr_array_set_size (reader->row, 0); /* a run that was cut short */
  reader->in_table = reader->has_table = FALSE;
}

static void
begin_run (Reader *reader, guint line)
{
  end_run (reader);
  reader->run = sc_nccl_run_new (line);
  ScNcclLog *log = reader->run->log;
  Ahead *ahead = &reader->ahead;
  reader->run->program_is_guess = ahead->program == NULL;
  set_once (&log->program, &ahead->program);
  if (log->program == NULL && ahead->command != NULL)
    log->program = g_steal_pointer (&ahead->command);
  set_once (&log->nccl_version, &ahead->version);
  set_once (&log->algo, &ahead->algo);
  set_once (&log->proto, &ahead->proto);
  if (log->algo == NULL)
    log->algo = g_strdup (reader->algo);
  if (log->proto == NULL)
    log->proto = g_strdup (reader->proto);
  ahead_clear (ahead);
}

/* Where a fact about a run goes: to the run whose rows are still to come, else to the next one. */
static gboolean
is_open (const Reader *reader)
{
  return reader->run != NULL && (reader->in_table || !reader->has_table);
}

/* ---- Rows ---- */

static gboolean
add_side (Reader *reader, const GPtrArray *tokens, guint first, gboolean is_in_place, double bytes, ScNcclHints *hints,
          GError **error)
{
  static const char *const expected[] = { "a time in us", "a bandwidth in GB/s", "a bandwidth in GB/s" };
  double values[3], errors[3];
  for (guint i = 0; i < 3; i++)
    if (!parse_number (token (tokens, first + i), &values[i], &errors[i]))
      {
        g_autofree char *found = quote (token (tokens, first + i));
        return reader_fail (reader, reader->row_line, error, "found %s, expected %s", found, expected[i]);
      }
  const ScNcclRow row = { bytes, values[0] * 1e-6, values[1] * 1e9, values[2] * 1e9 };
  double value;
  const char *why = sc_nccl_row_expected (&row, &value);
  if (why != NULL)
    return reader_fail (reader, reader->row_line, error, "found %g, expected %s", value, why);
  const char *wrong = reader->columns.wrong < 0 ? "N/A" : token (tokens, first + (guint) reader->columns.wrong);
  if (strcmp (wrong, "N/A") != 0)
    {
      if (!parse_number (wrong, &value, NULL) || value < 0)
        {
          g_autofree char *found = quote (wrong);
          return reader_fail (reader, reader->row_line, error, "found %s, expected a count of wrong values or N/A",
                              found);
        }
      reader->run->log->wrong += value;
    }
  hints->algbw_error = errors[1] * 1e9;
  hints->busbw_error = errors[2] * 1e9;
  sc_nccl_run_add_row (reader->run, is_in_place, &row, hints);
  return TRUE;
}

/* Index of the first measured column in the row, hints from those before it. */
static guint
left_columns (const Columns *columns, const GPtrArray *tokens, ScNcclHints *hints)
{
  guint i = 3;
  *hints = (ScNcclHints){ .known = TRUE };
  /* Programs without a reduction leave the column blank or write "none". */
  if (columns->has_redop && g_ascii_isalpha (*token (tokens, i)) && strcmp (token (tokens, i), "N/A") != 0)
    hints->has_redop = strcmp (token (tokens, i++), "none") != 0;
  if (columns->has_root && is_whole (token (tokens, i)))
    hints->has_root = *token (tokens, i++) != '-';
  return i;
}

static gboolean
fail_columns (Reader *reader, guint n_found, GError **error)
{
  const Columns *columns = &reader->columns;
  return reader_fail (reader, reader->row_line, error,
                      "found a row with %u measured columns, expected %u as the header in line %u has", n_found,
                      columns->n_side * columns->n_sides, reader->table_line);
}

/* @is_whole_row: the columns came in one line. */
static gboolean
add_row (Reader *reader, const GPtrArray *tokens, gboolean is_whole_row, GError **error)
{
  const Columns *columns = &reader->columns;
  double bytes;
  if (!parse_number (token (tokens, 0), &bytes, NULL) || bytes < 0)
    {
      g_autofree char *found = quote (token (tokens, 0));
      return reader_fail (reader, reader->row_line, error, "found %s, expected a size of 0 bytes or more", found);
    }
  ScNcclHints hints;
  const guint first = left_columns (columns, tokens, &hints);
  hints.known = is_whole_row;
  const guint n_measured = tokens->len - first;
  for (guint side = 0; side < columns->n_sides; side++)
    {
      if (n_measured < (side + 1) * columns->n_side)
        break;
      const gboolean is_in_place = side == 1 || (columns->n_sides == 2 && n_measured == columns->n_side);
      if (!add_side (reader, tokens, first + side * columns->n_side, is_in_place, bytes, &hints, error))
        return FALSE;
    }
  return TRUE;
}

/* Are the columns of the out-of-place side blank in @line? */
static gboolean
has_empty_side (const char *line)
{
  guint blanks = 0, longest = 0;
  line += strspn (line, " ");
  for (; *line != '\0'; line++)
    {
      blanks = *line == ' ' ? blanks + 1 : 0;
      longest = MAX (longest, blanks);
    }
  return longest >= MIN_EMPTY_SIDE;
}

/* A line of the table that is no comment. */
static gboolean
read_table_line (Reader *reader, const char *line, gboolean is_cut, guint number, GError **error)
{
  const Columns *columns = &reader->columns;
  const guint n_all = columns->n_side * columns->n_sides;
  g_autoptr (GPtrArray) tokens = split (line);
  const gboolean starts =
      tokens->len >= (is_cut ? 3 : 2) && is_whole (token (tokens, 0)) && is_whole (token (tokens, 1));
  if (starts && reader->row->len > 0)
    {
      ScNcclHints hints;
      return fail_columns (reader, reader->row->len - left_columns (columns, reader->row, &hints), error);
    }
  if (!starts)
    {
      /* The rest of a row, or what others print. */
      if (reader->row->len == 0 || tokens->len == 0)
        return TRUE;
      for (guint i = 0; i < tokens->len; i++)
        if (!is_measured (token (tokens, i)))
          return TRUE;
      g_ptr_array_extend_and_steal (reader->row, g_steal_pointer (&tokens));
    }
  else
    {
      reader->row_line = number;
      if (!g_ascii_isalpha (*token (tokens, 2)))
        {
          g_autofree char *found = quote (token (tokens, 2));
          return reader_fail (reader, number, error, "found %s, expected a data type such as \"float\"", found);
        }
      g_ptr_array_extend_and_steal (reader->row, g_steal_pointer (&tokens));
    }
  ScNcclHints hints;
  const guint first = left_columns (columns, reader->row, &hints);
  for (guint i = first; i < MIN (first + n_all, reader->row->len); i++)
    if (!is_measured (token (reader->row, i)))
      {
        g_autofree char *found = quote (token (reader->row, i));
        return reader_fail (reader, reader->row_line, error, "found %s, expected a number", found);
      }
  const guint n_measured = reader->row->len - first;
  const gboolean half = columns->n_sides == 2 && n_measured == columns->n_side && starts && !is_cut;
  if (n_measured < n_all && !(half && has_empty_side (line)))
    return TRUE; /* the rest is in a later line */
  if (n_measured > n_all && !columns->has_more)
    return fail_columns (reader, n_measured, error);
  const gboolean ok = add_row (reader, reader->row, starts && !is_cut, error);
  g_ptr_array_set_size (reader->row, 0);
  return ok;
}

/* ---- Comments: the lines of nccl-tests that start with # ---- */

/* size count type [redop] [root] then once or twice: time algbw busbw ... */
static gboolean
read_columns (Reader *reader, const GPtrArray *tokens, guint line, GError **error)
{
  Columns *columns = &reader->columns;
  *columns = (Columns){ .wrong = -1 };
  guint i = 3;
  if (strcmp (token (tokens, i), "redop") == 0)
    columns->has_redop = i++ > 0;
  if (strcmp (token (tokens, i), "root") == 0)
    columns->has_root = i++ > 0;
  const guint first = i;
  static const char *const side[] = { "time", "algbw", "busbw" };
  for (guint k = 0; k < G_N_ELEMENTS (side); k++, i++)
    if (strcmp (token (tokens, i), side[k]) != 0)
      {
        g_autofree char *found = quote (token (tokens, i));
        return reader_fail (reader, line, error, "found column %s, expected \"%s\"%s", found, side[k],
                            strcmp (token (tokens, i), "cputime") == 0 ? " (a run without -C)" : "");
      }
  while (i < tokens->len && strcmp (token (tokens, i), "time") != 0 && strcmp (token (tokens, i), "timestamp") != 0)
    i++;
  columns->n_side = i - first;
  if (columns->n_side > MAX_SIDE_COLUMNS)
    return reader_fail (reader, line, error, "found %u columns on one side of the table, expected at most %u",
                        columns->n_side, MAX_SIDE_COLUMNS);
  for (guint k = 0; k < columns->n_side; k++)
    if (strcmp (token (tokens, first + k), "#wrong") == 0)
      columns->wrong = (int) k;
  columns->n_sides = 1;
  if (strcmp (token (tokens, i), "time") == 0)
    {
      columns->n_sides = 2;
      for (guint k = 0; k < columns->n_side; k++)
        if (strcmp (token (tokens, first + k), token (tokens, i + k)) != 0)
          {
            g_autofree char *found = quote (token (tokens, i + k));
            return reader_fail (reader, line, error, "found column %s, expected \"%s\" as on the left side", found,
                                token (tokens, first + k));
          }
      i += columns->n_side;
    }
  columns->has_more = i < tokens->len;
  return TRUE;
}

static gboolean
read_table_header (Reader *reader, const GPtrArray *tokens, guint line, GError **error)
{
  if (reader->in_table)
    return reader_fail (reader, line, error,
                        "found a second table inside the one of line %u, expected the output of one process at a time",
                        reader->table_line);
  if (!is_open (reader))
    begin_run (reader, line);
  reader->in_table = reader->has_table = TRUE;
  reader->table_line = line;
  return read_columns (reader, tokens, line, error);
}

static gboolean
read_rank (Reader *reader, const char *text, guint line, GError **error)
{
  g_autoptr (GMatchInfo) match = NULL;
  if (!g_regex_match (reader->rank, text, 0, &match) || !is_open (reader) || reader->has_table)
    return TRUE;
  guint numbers[2];
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autofree char *digits = g_match_info_fetch (match, (int) i + 1);
      numbers[i] = (guint) g_ascii_strtoull (digits, NULL, 10); /* 9 digits at most; no group: 0 */
      if (numbers[i] >= SC_NCCL_MAX_RANKS)
        return reader_fail (reader, line, error, "found rank or group %u, expected one below %u", numbers[i],
                            SC_NCCL_MAX_RANKS);
    }
  g_autofree char *host = g_match_info_fetch (match, 3);
  g_autofree char *gpu = g_match_info_fetch (match, 4);
  if (!sc_nccl_run_add_device (reader->run, numbers[0], numbers[1], host, gpu))
    return reader_fail (reader, line, error,
                        "found rank %u a second time, expected the output of one process at a time "
                        "(is nccl-tests built with MPI?)",
                        numbers[0]);
  return TRUE;
}

/* The number behind @key in @text, or 0. */
static guint64
number_after (const char *text, const char *key)
{
  const char *at = strstr (text, key);
  if (at == NULL)
    return 0;
  at += strlen (key);
  return g_ascii_strtoull (at + strspn (at, " "), NULL, 10);
}

static void
read_run_header (Reader *reader, const char *text, guint line)
{
  /* Devices and no table yet: that run failed.  Nothing at all yet: it began with another line of the same header. */
  if (!is_open (reader) || reader->has_table || g_hash_table_size (reader->run->ranks) > 0)
    begin_run (reader, line);
  const guint64 threads = number_after (text, "nThread "), gpus = number_after (text, "nGpus ");
  if (threads > 0 && gpus > 0 && threads < SC_NCCL_MAX_RANKS && gpus < SC_NCCL_MAX_RANKS / threads)
    reader->run->ranks_per_process = (guint) (threads * gpus);
}

static gboolean
read_comment (Reader *reader, const char *text, guint line, GError **error)
{
  const char *body = text + 1 + strspn (text + 1, " \t");
  if (g_str_has_prefix (body, "Rank"))
    return read_rank (reader, text, line, error);
  if (g_str_has_prefix (body, "nThread "))
    read_run_header (reader, body, line);
  else if (g_str_has_prefix (body, "Using devices"))
    {
      if (!is_open (reader) || reader->has_table)
        begin_run (reader, line);
    }
  else if (g_str_has_prefix (body, "Collective test starting:"))
    {
      g_free (reader->ahead.program);
      g_autofree char *name = sc_nccl_keep (strchr (body, ':') + 1);
      reader->ahead.program = name == NULL ? NULL : g_path_get_basename (name);
    }
  else if (g_str_has_prefix (body, "nccl-tests version"))
    {
      g_free (reader->ahead.version);
      reader->ahead.version = sc_nccl_version_from_code (number_after (body, "nccl-library="));
    }
  else if (g_str_has_prefix (body, "Out of bounds values") || g_str_has_prefix (body, "Avg bus bandwidth"))
    {
      if (reader->row->len > 0)
        {
          ScNcclHints hints;
          return fail_columns (reader, reader->row->len - left_columns (&reader->columns, reader->row, &hints), error);
        }
      reader->in_table = FALSE;
      const char *colon = strchr (body, ':');
      if (*body == 'A' && colon != NULL && reader->run != NULL && reader->has_table)
        {
          g_autoptr (GPtrArray) tokens = split (colon + 1);
          double value;
          if (!parse_number (token (tokens, 0), &value, NULL) || value < 0)
            {
              g_autofree char *found = quote (token (tokens, 0));
              return reader_fail (reader, line, error, "found %s, expected an average bandwidth in GB/s", found);
            }
          reader->run->log->avg_busbw_bytes_per_s = value * 1e9;
          reader->run->log->complete = TRUE;
        }
    }
  else if (g_str_has_prefix (body, "size"))
    {
      g_autoptr (GPtrArray) tokens = split (body);
      if (strcmp (token (tokens, 0), "size") == 0 && strcmp (token (tokens, 1), "count") == 0
          && strcmp (token (tokens, 2), "type") == 0)
        return read_table_header (reader, tokens, line, error);
    }
  return TRUE;
}

/* ---- Lines ---- */

/* The last program of nccl-tests in @text that has options behind it, or NULL.  Without options it may be what a compiler
 * makes. */
static char *
find_command (const char *text)
{
  char *found = NULL;
  for (const char *at = text; (at = strstr (at, "_perf")) != NULL;)
    {
      const char *start = at;
      at += strlen ("_perf");
      const char *end = g_str_has_prefix (at, "_mpi") ? at + strlen ("_mpi") : at;
      const char *behind = end + (*end == '"' || *end == '\'' ? 1 : 0);
      const gsize blanks = strspn (behind, " \t");
      if (blanks == 0 || (behind[blanks] != '-' && behind[blanks] != '\\'))
        continue;
      while (start > text && (g_ascii_isalnum (start[-1]) || start[-1] == '_'))
        start--;
      g_autofree char *name = g_strndup (start, (gsize) (end - start));
      if (!sc_nccl_program_is_known (name))
        continue;
      g_free (found);
      found = g_steal_pointer (&name);
    }
  return found;
}

/* Commands and NCCL's own messages: what they say about this run or the next. */
static void
read_facts (Reader *reader, const char *text)
{
  g_autoptr (GMatchInfo) match = NULL;
  ScNcclLog *open = is_open (reader) ? reader->run->log : NULL;
  if (strstr (text, "CCL version") != NULL && g_regex_match (reader->version, text, 0, &match))
    {
      g_autofree char *version = g_match_info_fetch (match, 1);
      char *kept = sc_nccl_keep (version);
      char **place = open != NULL ? &open->nccl_version : &reader->ahead.version;
      g_free (*place); /* NCCL knows better than the header, which rounds to numbers */
      *place = kept;
    }
  g_clear_pointer (&match, g_match_info_unref);
  if (strstr (text, "NCCL_") != NULL)
    {
      const char *start = text + strspn (text, " \t+");
      const gboolean is_export = g_str_has_prefix (start, "export ");
      const gboolean is_listing = g_str_has_prefix (start, "NCCL_") && strpbrk (start, " \t\\") == NULL;
      g_regex_match (reader->setting, text, 0, &match);
      for (; g_match_info_matches (match); g_match_info_next (match, NULL))
        {
          g_autofree char *key = g_match_info_fetch (match, 1);
          g_autofree char *value = g_match_info_fetch (match, 2);
          const gboolean is_algo = strcmp (key, "ALGO") == 0;
          char **place = is_export || is_listing ? (is_algo ? &reader->algo : &reader->proto)
                         : open != NULL          ? (is_algo ? &open->algo : &open->proto)
                                                 : (is_algo ? &reader->ahead.algo : &reader->ahead.proto);
          g_free (*place);
          *place = sc_nccl_keep (value);
        }
      g_clear_pointer (&match, g_match_info_unref);
    }
  g_autofree char *command = find_command (text);
  if (command != NULL)
    {
      g_free (reader->ahead.command);
      reader->ahead.command = g_steal_pointer (&command);
    }
}

static char *
replace (const GRegex *pattern, char *text)
{
  char *replaced = g_regex_replace_literal (pattern, text, -1, 0, "", 0, NULL);
  if (replaced == NULL) /* too hard to match: as it is */
    return text;
  g_free (text);
  return replaced;
}

/* @text without a message of NCCL at its end.  NCCL writes into the same buffer as nccl-tests, so the message may start
 * right behind a column: "sum      -1host:42:43 [0] NCCL INFO ...". */
static gboolean
cut_message (const Reader *reader, char *text)
{
  g_autoptr (GMatchInfo) match = NULL;
  int start;
  if (strstr (text, "NCCL ") == NULL || !g_regex_match (reader->message, text, 0, &match)
      || !g_match_info_fetch_pos (match, 0, &start, NULL))
    return FALSE;
  text[start] = '\0';
  char *last = text + start;
  while (last > text && !g_ascii_isspace (last[-1]))
    last--;
  /* What the last column was, if anything of it is left. */
  static const char *const words[] = { "N/A", "none", "sum", "prod", "min", "max", "avg", "mulsum" };
  gsize keep = *last == '-' ? 1 + strspn (last + 1, "0123456789") : strspn (last, "0123456789");
  keep = keep == 1 && *last == '-' ? 0 : keep;
  for (guint i = 0; i < G_N_ELEMENTS (words) && keep == 0; i++)
    if (g_str_has_prefix (last, words[i]))
      keep = strlen (words[i]);
  /* A host alone is no column, whatever it starts with. */
  if (text + strspn (text, " \t") == last)
    keep = 0;
  last[keep] = '\0';
  return TRUE;
}

static gboolean
read_line (Reader *reader, const char *start, gsize length, guint number, GError **error)
{
  const gboolean is_empty = length == 0 || (length == 1 && *start == '\r');
  if (is_empty || length > MAX_LINE_BYTES)
    return TRUE;
  g_autofree char *text = g_strndup (start, length);
  if (strchr (text, '\033') != NULL)
    text = replace (reader->ansi, text);
  if (strstr (text, "<std") != NULL)
    text = replace (reader->tag, text);
  g_strchomp (text);
  if (*text != '#' && strpbrk (text, ":|]") != NULL)
    {
      read_facts (reader, text);
      text = replace (reader->label, text);
    }
  else if (*text != '#')
    read_facts (reader, text);
  const char *body = text + strspn (text, " \t");
  if (*body == '#')
    return read_comment (reader, body, number, error);
  if (!reader->in_table)
    return TRUE;
  const gboolean is_cut = cut_message (reader, text);
  return read_table_line (reader, text, is_cut, number, error);
}

static gboolean
fail_empty (const Reader *reader, GError **error)
{
  if (reader->table_line > 0)
    return reader_fail (reader, reader->table_line, error, "found a table without rows, expected one row at least");
  g_set_error (
      error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT,
      "%s: found no table of nccl-tests, expected one whose header is \"# size count type ... time algbw busbw\"",
      reader->file);
  return FALSE;
}

static GPtrArray *
parse_text (const char *file, const char *text, gsize length, GError **error)
{
  g_auto (Reader) reader;
  reader_init (&reader, file);
  guint number = 1;
  const char *end = text + length;
  for (const char *start = text; start < end; number++)
    {
      const char *newline = memchr (start, '\n', (gsize) (end - start));
      const char *stop = newline == NULL ? end : newline;
      if (memchr (start, '\0', (gsize) (stop - start)) != NULL)
        {
          reader_fail (&reader, number, error, "found a NUL byte, expected text or JSON (UTF-16 is not read)");
          return NULL;
        }
      if (!read_line (&reader, start, (gsize) (stop - start), number, error))
        return NULL;
      start = stop + 1;
    }
  end_run (&reader);
  if (reader.logs->len == 0)
    {
      fail_empty (&reader, error);
      return NULL;
    }
  return g_steal_pointer (&reader.logs);
}

/* ---- The door ---- */

GPtrArray *
sc_nccl_log_parse (const char *file, const char *text, gsize length, GError **error)
{
  const char *start = text;
  if (length >= 3 && memcmp (text, "\357\273\277", 3) == 0)
    start += 3;
  const gsize blanks = strspn (start, " \t\r\n");
  /* A job may print JSON of its own before the table. */
  if (start[blanks] != '{' || strstr (text, " algbw ") != NULL)
    return parse_text (file, start, length - (gsize) (start - text), error);
  ScNcclLog *log = sc_nccl_log_from_json (file, text, length, error);
  if (log == NULL)
    return NULL;
  GPtrArray *logs = g_ptr_array_new_with_free_func ((GDestroyNotify) sc_nccl_log_free);
  g_ptr_array_add (logs, log);
  return logs;
}

GPtrArray *
sc_nccl_log_read (const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "a log of nccl-tests", SC_NCCL_LOG_MAX_BYTES, &length, error);
  return text == NULL ? NULL : sc_nccl_log_parse (path, text, length, error);
}
