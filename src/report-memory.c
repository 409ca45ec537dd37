/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report-memory.c - one stage's memory in ASCII: a stack of kinds over the step, the peak, the largest tensors. */
#include "report-memory.h"
#include "memory-groups.h"
#include "units.h"

#define GIB        (1024.0 * 1024 * 1024)
#define N_ROWS     16
#define N_COLUMNS  84
#define MAX_GROUPS 14

/* From the bottom up: what is always there first. */
static const ScMemKind order[SC_N_MEMS] = { SC_MEM_WEIGHTS, SC_MEM_GRADS, SC_MEM_OPTIMIZER, SC_MEM_COMM, SC_MEM_ACTIVATIONS, SC_MEM_LOGITS, SC_MEM_TRANSIENT };
static const char letters[SC_N_MEMS] = {
  [SC_MEM_WEIGHTS] = 'w', [SC_MEM_GRADS] = 'g', [SC_MEM_OPTIMIZER] = 'o', [SC_MEM_COMM] = 'c',
  [SC_MEM_ACTIVATIONS] = 'a', [SC_MEM_LOGITS] = 'l', [SC_MEM_TRANSIENT] = 't',
};

/* What stands in a column at @bytes above the ground. */
static char
cell (const ScMemoryColumn *c, double bytes)
{
  double below = 0;
  for (guint i = 0; i < SC_N_MEMS; i++)
    {
      below += (double) c->by_kind[order[i]];
      if (bytes < below)
        return letters[order[i]];
    }
  return bytes < (double) c->reserved ? '.' : ' ';
}

static void
write_curve (const ScSummary *s, guint stage, double top, GString *out)
{
  g_autofree ScMemoryColumn *columns = sc_memory_columns (s, stage, N_COLUMNS);
  gboolean used[SC_N_MEMS] = { FALSE };
  for (guint row = N_ROWS; row-- > 0;)
    {
      g_string_append_printf (out, "  %7.2f |", top * (row + 1) / N_ROWS / GIB);
      for (guint i = 0; i < N_COLUMNS; i++)
        g_string_append_c (out, cell (&columns[i], top * (row + 0.5) / N_ROWS));
      while (g_ascii_isspace (out->str[out->len - 1]))
        g_string_truncate (out, out->len - 1);
      g_string_append_c (out, '\n');
    }
  for (guint i = 0; i < N_COLUMNS; i++)
    for (guint k = 0; k < SC_N_MEMS; k++)
      used[k] |= columns[i].by_kind[k] > 0;
  g_autofree char *end = sc_format_seconds (sc_time_to_s (s->trace->end));
  g_string_append (out, "        0 +");
  for (guint i = 0; i < N_COLUMNS; i++)
    g_string_append_c (out, '-');
  g_string_append_printf (out, "\n           0%*s\n ", N_COLUMNS - 1, end);
  for (guint i = 0; i < SC_N_MEMS; i++)
    if (used[order[i]])
      g_string_append_printf (out, " %c %s,", letters[order[i]], sc_mem_kind_name (order[i]));
  g_string_append (out, " . reserved and free\n");
}

static void
write_peak (const ScClassSummary *c, const ScTapePlay *play, GString *out)
{
  const double allocated = (double) play->allocated[1], reserved = (double) play->reserved[1];
  g_autofree char *when = sc_format_seconds (sc_time_to_s (c->peak_time));
  g_string_append_printf (out, "\n  Peak        %.2f GiB at %s, in %s\n", allocated / GIB, when, c->peak_op);
  g_string_append_printf (out, "  Reserved    %.2f GiB, %.1f %% of it in free pieces at the peak%s\n", reserved / GIB,
                          reserved > 0 ? 100 * (reserved - allocated) / reserved : 0,
                          play->n_retries > 0 ? "; had to give segments back" : "");
  g_string_append_printf (out, "  First step  %.2f GiB, %.2f GiB reserved: optimizer states are born at its end\n", (double) play->allocated[0] / GIB,
                          (double) play->reserved[0] / GIB);
  if (play->out_of_memory)
    g_string_append (out, "  Out of memory: not even giving back what is cached makes room\n");
}

static void
append_range (GString *out, const char *one, const char *many, guint first, guint last, guint none)
{
  if (last == none)
    return;
  if (first == last)
    g_string_append_printf (out, ", %s %u", one, first);
  else
    g_string_append_printf (out, ", %s %u-%u", many, first, last);
}

static void
write_groups (const ScTapePlay *play, GString *out)
{
  g_autoptr (GArray) groups = sc_memory_groups (play);
  double rest = 0;
  g_string_append (out, "\n  Largest tensors at the peak, GiB\n");
  for (guint i = 0; i < groups->len; i++)
    {
      const ScMemoryGroup *const g = &g_array_index (groups, ScMemoryGroup, i);
      if (i >= MAX_GROUPS)
        {
          rest += (double) g->bytes;
          continue;
        }
      g_autofree char *name = sc_memory_group_name (&g->tensor), *each = sc_format_bytes ((double) g->tensor.bytes);
      g_string_append_printf (out, "  %7.2f  %4u x %-10s  %c  %s", (double) g->bytes / GIB, g->n, each, letters[g->tensor.mem], name);
      append_range (out, "micro-batch", "micro-batches", g->first_microbatch, g->last_microbatch, SC_INFO_NO_MICROBATCH);
      append_range (out, "layer", "layers", g->first_layer, g->last_layer, SC_INFO_NO_LAYER);
      g_string_append_c (out, '\n');
    }
  if (rest > 0)
    g_string_append_printf (out, "  %7.2f  in %u more kinds of tensors\n", rest / GIB, groups->len - MAX_GROUPS);
}

void
sc_report_memory_text (const ScSummary *s, GString *out)
{
  const ScClassSummary *const c = &s->classes[s->memory_class];
  const ScTapePlay *const play = g_ptr_array_index (s->plays, c->stage);
  const double around = (double) (c->context_bytes + c->nccl_bytes + c->workspace_bytes);
  const double capacity = (double) c->capacity_bytes - around, most = (double) MAX (play->allocated[1], play->reserved[1]);
  g_string_append_printf (out, "\nMemory of stage %u, the fullest, over the step, GiB; %.2f of the GPU are outside of the allocator\n", c->stage, around / GIB);
  write_curve (s, c->stage, most < capacity / 2 ? most * 1.05 : MAX (capacity, most), out);
  write_peak (c, play, out);
  if (play->live != NULL && play->live->len > 0)
    write_groups (play, out);
}
