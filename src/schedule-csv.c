/* SPDX-License-Identifier: GPL-3.0-or-later */
/* schedule-csv.c - orders of pipeline passes, read and written in PyTorch's form. */
#include "schedule-csv.h"
#include "json-in.h"
#include "library.h"
#include <string.h>

#define MAX_BYTES (64u << 20)
#define MAX_STAGES 64000
#define MAX_MICROBATCHES 16383
#define OVERLAP "OVERLAP_F_B"

static const char letters[] = "FBIW"; /* by ScPass */

/* A cell's pass, before it is known which chunk of its rank the stage is. */
typedef struct
{
  guint stage, microbatch;
  guint row, cell; /* from 1, for messages */
  guint8 pass, paired;
} Step;

static gboolean
fail (GError **error, guint row, guint cell, const char *format, ...) G_GNUC_PRINTF (4, 5);

static gboolean
fail (GError **error, guint row, guint cell, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_autofree char *where = cell > 0 ? g_strdup_printf ("row %u, cell %u: ", row, cell) : row > 0 ? g_strdup_printf ("row %u: ", row) : g_strdup ("");
  g_set_error (error, SC_INPUT_ERROR, SC_INPUT_ERROR_CONTENT, "%s%s", where, message);
  return FALSE;
}

static gboolean
read_number (const char **text, guint most, guint *ret)
{
  guint64 n = 0;
  const char *c = *text;
  for (; g_ascii_isdigit (*c) && n <= most; c++)
    n = 10 * n + (guint64) (*c - '0');
  if (c == *text || n > most)
    return FALSE;
  *text = c;
  *ret = (guint) n;
  return TRUE;
}

/* "2F0", all of it. */
static gboolean
read_step (const char *text, Step *step, GError **error)
{
  const char *c = text;
  const char *letter = NULL;
  if (read_number (&c, MAX_STAGES - 1, &step->stage) && *c != '\0' && (letter = strchr (letters, *c)) != NULL)
    {
      c++;
      step->pass = (guint8) (letter - letters);
      if (read_number (&c, MAX_MICROBATCHES - 1, &step->microbatch) && *c == '\0')
        return TRUE;
    }
  g_autofree char *shown = g_strndup (text, 40);
  g_autofree char *printable = g_strescape (shown, NULL);
  return fail (error, step->row, step->cell, "found \"%s\", expected a stage, F, I, W or B, and a micro-batch, as 2F0", printable);
}

static gboolean
read_cell (const char *text, guint row, guint cell, GArray *steps, GError **error)
{
  Step first = { .row = row, .cell = cell };
  if (*text != '(')
    {
      if (!read_step (text, &first, error))
        return FALSE;
      g_array_append_val (steps, first);
      return TRUE;
    }
  const char *end = strchr (text, ')');
  g_autofree char *inner = end == NULL ? NULL : g_strndup (text + 1, (gsize) (end - text) - 1);
  g_auto (GStrv) parts = inner == NULL ? NULL : g_strsplit (inner, ";", 3);
  if (parts == NULL || g_strv_length (parts) != 2 || strcmp (end + 1, OVERLAP) != 0)
    return fail (error, row, cell, "expected two passes that overlap, as (0F4;3B1)" OVERLAP);
  Step second = first;
  if (!read_step (g_strstrip (parts[0]), &first, error) || !read_step (g_strstrip (parts[1]), &second, error))
    return FALSE;
  if (first.pass == SC_PASS_BACKWARD)
    {
      const Step swap = first;
      first = second;
      second = swap;
    }
  if (first.pass != SC_PASS_FORWARD || second.pass != SC_PASS_BACKWARD || (first.stage == second.stage && first.microbatch == second.microbatch))
    return fail (error, row, cell, "expected a forward and a whole backward of another stage or micro-batch to overlap");
  second.paired = TRUE;
  g_array_append_val (steps, first);
  g_array_append_val (steps, second);
  return TRUE;
}

/* Every cell of every row: Step; *ret_rows: lines but for empty ones at the end. */
static GArray *
read_steps (const char *text, guint *ret_rows, GError **error)
{
  g_autoptr (GArray) steps = g_array_new (FALSE, FALSE, sizeof (Step));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint rows = 0;
  for (guint i = 0; lines[i] != NULL; i++)
    if (*g_strstrip (lines[i]) != '\0')
      rows = i + 1;
  for (guint i = 0; i < rows; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);
      for (guint c = 0; cells[c] != NULL; c++)
        if (*g_strstrip (cells[c]) != '\0' && !read_cell (cells[c], i + 1, c + 1, steps, error))
          return NULL;
    }
  if (steps->len == 0)
    {
      fail (error, 0, 0, "found no passes, expected a row for each pipeline rank");
      return NULL;
    }
  *ret_rows = rows;
  return g_steal_pointer (&steps);
}

/* Where stages live, from where they are in the file. */
static gboolean
find_placement (const GArray *steps, guint p, guint n_stages, ScPlacement *ret, GError **error)
{
  gboolean loop = TRUE, v = TRUE;
  const Step *odd = NULL; /* that fits neither */
  for (guint i = 0; i < steps->len && odd == NULL; i++)
    {
      const Step *const s = &g_array_index (steps, Step, i);
      loop &= sc_placement_rank (SC_PLACE_LOOP, p, s->stage, 0) == s->row - 1;
      v &= sc_placement_rank (SC_PLACE_V, p, s->stage, 0) == s->row - 1;
      odd = loop || v ? NULL : s;
    }
  if (n_stages % p != 0)
    return fail (error, 0, 0, "found %u stages on %u ranks, expected as many on each", n_stages, p);
  if (odd != NULL)
    return fail (error, odd->row, odd->cell, "found stage %u, expected it on row %u (stages in turn) or %u (there and back), and all of one kind",
                 odd->stage, sc_placement_rank (SC_PLACE_LOOP, p, odd->stage, 0) + 1, sc_placement_rank (SC_PLACE_V, p, odd->stage, 0) + 1);
  *ret = loop ? SC_PLACE_LOOP : SC_PLACE_V;
  return TRUE;
}

/* MODELLING 7.8, 1: each micro-batch once through each stage, forward and then backward, at once or in parts. */
static gboolean
check_steps (const GArray *steps, guint n_stages, guint m, GError **error)
{
  static const char *const states[] = { "nothing", "a forward", "a forward and the gradient of the input", "all of its passes" };
  g_autofree guint8 *done = g_try_new0 (guint8, (gsize) n_stages * m);
  if (done == NULL || (gsize) n_stages * m > MAX_BYTES)
    return fail (error, 0, 0, "found %u stages and %u micro-batches, which are too many", n_stages, m);
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *const s = &g_array_index (steps, Step, i);
      guint8 *const at = &done[(gsize) s->stage * m + s->microbatch];
      if (*at != (s->pass == SC_PASS_FORWARD ? 0 : s->pass == SC_PASS_WEIGHT ? 2 : 1))
        return fail (error, s->row, s->cell, "found %u%c%u, but micro-batch %u has had %s of stage %u before", s->stage, letters[s->pass],
                     s->microbatch, s->microbatch, states[*at], s->stage);
      *at = s->pass == SC_PASS_FORWARD ? 1 : s->pass == SC_PASS_INPUT ? 2 : 3;
    }
  for (guint stage = 0; stage < n_stages; stage++)
    for (guint k = 0; k < m; k++)
      if (done[(gsize) stage * m + k] != 3)
        return fail (error, 0, 0, "stage %u gives micro-batch %u %s, expected forward and backward", stage, k, states[done[(gsize) stage * m + k]]);
  return TRUE;
}

ScOrders *
sc_schedule_csv_parse (const char *text, GError **error)
{
  guint p = 0, n_stages = 0, m = 0;
  g_autoptr (GArray) steps = read_steps (text, &p, error);
  if (steps == NULL)
    return NULL;
  for (guint i = 0; i < steps->len; i++)
    {
      n_stages = MAX (n_stages, g_array_index (steps, Step, i).stage + 1);
      m = MAX (m, g_array_index (steps, Step, i).microbatch + 1);
    }
  ScPlacement placement = SC_PLACE_LOOP;
  if (!find_placement (steps, p, n_stages, &placement, error) || !check_steps (steps, n_stages, m, error))
    return NULL;
  g_autoptr (ScOrders) o = sc_orders_empty (placement, p, n_stages / p, m);
  g_autoptr (GPtrArray) from = g_ptr_array_new (); /* Step of each slot, rank by rank, in order */
  for (guint i = 0; i < steps->len; i++)
    {
      Step *const s = &g_array_index (steps, Step, i);
      const ScSlot slot = { .pass = s->pass, .paired = s->paired, .chunk = (guint16) sc_placement_chunk (placement, p, s->stage, 0),
                            .microbatch = s->microbatch };
      g_array_append_val (o->ranks[s->row - 1], slot);
      g_ptr_array_add (from, s);
    }
  guint rank, at;
  if (sc_orders_replay (o, NULL, &rank, &at) < 0)
    {
      guint first = 0;
      for (guint r = 0; r < rank; r++)
        first += o->ranks[r]->len;
      const Step *const s = g_ptr_array_index (from, first + at);
      fail (error, s->row, s->cell, "%u%c%u waits for ever: the ranks wait for each other", s->stage, letters[s->pass], s->microbatch);
      return NULL;
    }
  return g_steal_pointer (&o);
}

ScOrders *
sc_schedule_csv_load (const char *path, GError **error)
{
  gsize length;
  g_autofree char *text = sc_library_read_file (path, "a schedule", MAX_BYTES, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen (text) != length)
    {
      fail (error, 0, 0, "%s: found a NUL byte, expected text", path);
      return NULL;
    }
  ScOrders *const orders = sc_schedule_csv_parse (text, error);
  if (orders == NULL)
    g_prefix_error (error, "%s: ", path);
  return orders;
}

static void
append_step (const ScOrders *o, guint rank, const ScSlot *slot, GString *out)
{
  g_string_append_printf (out, "%u%c%u", sc_placement_stage (o->placement, o->p, rank, slot->chunk), letters[slot->pass], slot->microbatch);
}

gboolean
sc_schedule_csv_write (const ScOrders *o, GString *out, GError **error)
{
  if (o->placement == SC_PLACE_BOTH)
    return fail (error, 0, 0, "with two pipelines against each other each stage lives on two ranks, which the form of --schedule-csv cannot say");
  if (o->vocab != SC_VOCAB_ENDS)
    return fail (error, 0, 0, "passes over a vocabulary that all ranks share out (vocab_parallel) have no letter in the form of --schedule-csv");
  for (guint rank = 0; rank < o->p; rank++)
    {
      const GArray *const slots = o->ranks[rank];
      for (guint i = 0; i < slots->len; i++)
        {
          const ScSlot *const slot = &g_array_index (slots, ScSlot, i);
          const gboolean pair = i + 1 < slots->len && slot[1].paired;
          g_string_append (out, i > 0 ? "," : "");
          g_string_append (out, pair ? "(" : "");
          append_step (o, rank, slot, out);
          if (pair)
            {
              g_string_append_c (out, ';');
              append_step (o, rank, &slot[1], out);
              g_string_append (out, ")" OVERLAP);
              i++;
            }
        }
      g_string_append_c (out, '\n');
    }
  return TRUE;
}
