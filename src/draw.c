/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draw.c - topologies, plans and devices as drawings and tables in text. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <string.h>
#include "describe.h"
#include "draw.h"
#include "models/fabric.h"
#include "models/layout.h"
#include "units.h"

#define WIDTH       100
#define MAX_COLUMNS 9  /* GPUs side by side */
#define COLUMN      8  /* characters of one */
#define MAX_NODES   16 /* rows of a plan */

/* ---- One node ---- */

/* The GPUs that get a column: all, or the first ones and the last with a gap before it. */
typedef struct
{
  guint gpu[MAX_COLUMNS]; /* SC_NONE: the gap */
  guint n;
} Columns;

static Columns
columns_of (guint gpus)
{
  Columns c = { .n = MIN (gpus, MAX_COLUMNS) };
  for (guint i = 0; i < c.n; i++)
    c.gpu[i] = i;
  if (gpus > MAX_COLUMNS)
    {
      c.gpu[MAX_COLUMNS - 2] = SC_NONE;
      c.gpu[MAX_COLUMNS - 1] = gpus - 1;
    }
  return c;
}

static void
draw_wires (const Columns *c, GString *out)
{
  g_string_append (out, "    ");
  for (guint i = 0; i < c->n; i++)
    g_string_append_printf (out, "%-*s", COLUMN, c->gpu[i] == SC_NONE ? "" : "  |");
  sc_trim_line (out);
}

/* A bar of @fill over all columns with @text in its middle. */
static void
draw_bar (const Columns *c, char fill, const char *text, GString *out)
{
  const guint width = c->n * COLUMN - (COLUMN - 4), n = (guint) strlen (text) + 2;
  g_string_append (out, "    ");
  if (n + 4 > width)
    {
      for (guint i = 0; i < width; i++)
        g_string_append_c (out, fill);
      g_string_append_printf (out, "  %s\n", text);
      return;
    }
  const guint left = (width - n) / 2;
  for (guint i = 0; i < left; i++)
    g_string_append_c (out, fill);
  g_string_append_printf (out, " %s ", text);
  for (guint i = left + n; i < width; i++)
    g_string_append_c (out, fill);
  g_string_append_c (out, '\n');
}

static guint
nic_of (const ScNodeType *type, guint gpu)
{
  return (guint) ((guint64) gpu * type->nics / type->gpus);
}

/* Each NIC below the first GPU that uses it, with a line to the others: "NIC0----'". */
static void
draw_nics (const ScNodeType *type, const Columns *c, GString *out)
{
  draw_wires (c, out);
  g_string_append (out, "    ");
  for (guint i = 0; i < c->n; i++)
    {
      if (c->gpu[i] == SC_NONE)
        {
          g_string_append_printf (out, "%-*s", COLUMN, " ...");
          continue;
        }
      const guint nic = nic_of (type, c->gpu[i]);
      const gboolean again = i > 0 && c->gpu[i - 1] != SC_NONE && nic_of (type, c->gpu[i - 1]) == nic;
      const gboolean more = i + 1 < c->n && c->gpu[i + 1] != SC_NONE && nic_of (type, c->gpu[i + 1]) == nic;
      g_autofree char *name = g_strdup_printf ("NIC%u", nic);
      g_autofree char *cell = again ? g_strdup (more ? "--+" : "--'") : g_steal_pointer (&name);
      g_string_append (out, cell);
      for (guint k = (guint) strlen (cell); k < COLUMN; k++)
        g_string_append_c (out, more ? '-' : ' ');
    }
  sc_trim_line (out);
}

/* PCIe switches as brackets below their GPUs. */
static void
draw_switches (const ScNodeType *type, const Columns *c, GString *out)
{
  const guint per = type->pcie_gpus_per_switch;
  g_string_append (out, "    ");
  for (guint i = 0; i < c->n;)
    {
      guint end = i + 1;
      if (c->gpu[i] != SC_NONE)
        while (end < c->n && c->gpu[end] != SC_NONE && c->gpu[end] / per == c->gpu[i] / per)
          end++;
      if (c->gpu[i] == SC_NONE)
        g_string_append_printf (out, "%-*s", COLUMN, " ...");
      else
        {
          const guint width = (end - i) * COLUMN - 3;
          g_autofree char *name = g_strdup_printf (end - i > 1 ? "switch %u" : "sw%u", c->gpu[i] / per);
          g_string_append_printf (out, "[%-*s]%s", (int) width - 1, name, "  ");
        }
      i = end;
    }
  sc_trim_line (out);
}

/* "links: 0-1, 0-3x2, ...", or that all are alike. */
static void
draw_lanes (const ScNodeType *type, GString *out)
{
  const guint k = type->gpus;
  gboolean all = TRUE;
  g_autoptr (GString) list = g_string_new ("links:");
  for (guint a = 0; a < k; a++)
    for (guint b = a + 1; b < k; b++)
      {
        const guint n = type->nvlink_lanes[a * k + b];
        all = all && n == type->nvlink_lanes[1];
        if (n > 0)
          g_string_append_printf (list, n > 1 ? "%s %u-%ux%u" : "%s %u-%u", list->len > 6 ? "," : "", a, b, n);
      }
  if (all)
    g_string_printf (list, "links: %u between every two GPUs", type->nvlink_lanes[1]);
  g_string_append (out, "    ");
  sc_append_wrapped (out, list->str, 4, 11, WIDTH);
  g_string_append_c (out, '\n');
}

static void
draw_node (const ScTopology *t, guint index, GString *out)
{
  const ScNodeType *type = &t->types[index];
  guint count = 0;
  for (guint r = 0; r < t->n_runs; r++)
    count += t->runs[r].type == index ? t->runs[r].count : 0;
  g_autofree char *memory = sc_format_bytes (type->device->memory_bytes.value);
  g_autofree char *hbm = sc_format_rate (type->device->memory_bytes_per_s.value);
  /* Before Ampere bf16 is no faster than fp32. */
  const ScCited *peaks = type->device->peak_flops;
  const ScDtype dtype = peaks[SC_DTYPE_FP16].value > peaks[SC_DTYPE_BF16].value ? SC_DTYPE_FP16 : SC_DTYPE_BF16;
  g_autofree char *flops = sc_format_flops (peaks[dtype].value);
  g_string_append_printf (out, "\nNode %s, %u of it: %u x %s (%s, %s, %s %s)\n", type->name, count, type->gpus,
                          type->device->name, memory, hbm, flops, sc_dtype_name (dtype));

  const Columns c = columns_of (type->gpus);
  if (type->has_nvlink)
    {
      g_autofree char *rate = sc_format_rate (type->nvlink_bytes_per_s.value);
      g_autofree char *latency = sc_format_seconds (type->nvlink_latency_s.value);
      g_autofree char *domain = type->nvlink_domain_nodes > 1 ? g_strdup_printf (", %u nodes a domain", type->nvlink_domain_nodes)
                                                              : g_strdup ("");
      g_autofree char *text = type->nvlink_lanes != NULL
                                  ? g_strdup_printf ("NVLink mesh, %s a link, %s a hop", rate, latency)
                                  : g_strdup_printf ("NVLink %s per GPU, %s a hop%s%s", rate, latency, domain, type->nvls ? ", NVLS" : "");
      draw_bar (&c, '=', text, out);
      draw_wires (&c, out);
    }
  g_string_append (out, "    ");
  for (guint i = 0; i < c.n; i++)
    {
      g_autofree char *name = c.gpu[i] == SC_NONE ? g_strdup (" ...") : g_strdup_printf ("GPU%u", c.gpu[i]);
      g_string_append_printf (out, "%-*s", COLUMN, name);
    }
  sc_trim_line (out);

  if (type->has_nvlink && type->nvlink_lanes != NULL)
    draw_lanes (type, out);
  if (type->pcie_bytes_per_s.value > 0)
    {
      g_autofree char *rate = sc_format_rate (type->pcie_bytes_per_s.value);
      g_autofree char *latency = sc_format_seconds (type->pcie_latency_s.value);
      g_autofree char *text = g_strdup_printf ("PCIe %s per GPU, %s a hop", rate, latency);
      draw_wires (&c, out);
      if (type->pcie_gpus_per_switch > 0)
        {
          draw_switches (type, &c, out);
          draw_wires (&c, out);
        }
      draw_bar (&c, '-', text, out);
      if (type->pcie_gpus_per_switch > 0 && type->pcie_uplink_bytes_per_s.value > 0)
        {
          g_autofree char *up = sc_format_rate (type->pcie_uplink_bytes_per_s.value);
          g_string_append_printf (out, "    %u GPUs share each switch's %s to the host\n", type->pcie_gpus_per_switch, up);
        }
      if (type->pcie_switches_per_socket > 0 && type->pcie_socket_bytes_per_s.value > 0)
        {
          g_autofree char *between = sc_format_rate (type->pcie_socket_bytes_per_s.value);
          g_string_append_printf (out, "    %u switch%s a socket, %s between sockets\n", type->pcie_switches_per_socket,
                                  type->pcie_switches_per_socket == 1 ? "" : "es", between);
        }
      if (type->pcie_through_host)
        g_string_append (out, "    no peer-to-peer: every copy climbs to the host\n");
    }
  if (type->nics > 0)
    {
      draw_nics (type, &c, out);
      g_autofree char *rate = sc_format_rate (type->nic_bytes_per_s.value);
      g_autofree char *latency = sc_format_seconds (type->nic_latency_s.value);
      g_string_append_printf (out, "    %u NIC%s of %s, %s a hop that leaves the node", type->nics,
                              type->nics == 1 ? "" : "s", rate, latency);
      if (type->transport != SC_TRANSPORT_INFINIBAND)
        g_string_append_printf (out, ", %s", sc_transport_word (type->transport));
      g_string_append_c (out, '\n');
    }
  else
    g_string_append (out, "    no NIC: no traffic leaves the node\n");
}

/* ---- The network ---- */

/* "1.600 TB/s" or "0.8 to 1.6 TB/s" of the up-links of tier @tier. */
static char *
up_rate (const ScFabric *fabric, guint tier)
{
  double least = 0, most = 0;
  for (guint32 i = 0; i < fabric->n_links; i++)
    {
      const ScLink *link = &fabric->links[i];
      if (link->kind != SC_LINK_UP || link->tier != tier)
        continue;
      const double whole = link->capacity * fabric->n_paths[tier];
      least = most > 0 ? MIN (least, whole) : whole;
      most = MAX (most, whole);
    }
  g_autofree char *a = sc_format_rate (least), *b = sc_format_rate (most);
  return least < most ? g_strdup_printf ("%s to %s", a, b) : g_strdup (b);
}

/* What is not as ideal, or cleverer, than by default. */
static void
append_routing (const ScTopology *t, GString *out)
{
  if (t->routing != SC_ROUTING_IDEAL)
    g_string_append_printf (out, "; %s routing", sc_routing_word (t->routing));
  if (t->routing == SC_ROUTING_ADAPTIVE)
    g_string_append_printf (out, ", %g of the up-links", t->routing_efficiency);
  if (t->routing == SC_ROUTING_ECMP)
    g_string_append_printf (out, ", %u flow%s a connection", MAX (t->flows_per_connection, 1),
                            t->flows_per_connection > 1 ? "s" : "");
  if (t->sharp)
    g_string_append (out, "; SHARP");
}

static gboolean
draw_network (const ScTopology *t, GString *out, GError **error)
{
  if (t->n_nodes < 2)
    return TRUE;
  ScTopology healthy = *t; /* as it is built; what is slow or dead is listed apart */
  healthy.n_faults = healthy.n_tier_faults = healthy.n_backgrounds = healthy.first_node = 0;
  g_autoptr (ScFabric) fabric = sc_fabric_new (&healthy, t->n_gpus, error);
  if (fabric == NULL)
    return FALSE;
  g_autoptr (GString) title = g_string_new ("Network, rates per direction");
  if (t->rail_optimised)
    g_string_append (title, "; NIC r of every node hangs on leaf r of its group");
  append_routing (t, title);
  g_string_append_c (out, '\n');
  sc_append_wrapped (out, title->str, 0, 2, WIDTH);
  g_string_append_printf (out, "\n    %-8s%s\n", t->n_tiers > 0 ? "core" : "switch", "non-blocking");
  guint units[8] = { 0 };
  guint below = t->n_nodes;
  for (guint i = 0; i < t->n_tiers && i < G_N_ELEMENTS (units); i++)
    below = units[i] = (below + t->tiers[i].children - 1) / t->tiers[i].children;
  for (guint i = MIN (t->n_tiers, G_N_ELEMENTS (units)); i-- > 0;)
    {
      const ScTier *tier = &t->tiers[i];
      g_autofree char *rate = up_rate (fabric, i);
      g_autofree char *latency = sc_format_seconds (tier->latency_s.value);
      g_autofree char *name = g_strdup_printf ("tier %u", i + 1);
      g_autofree char *paths = fabric->n_paths[i] > 1 ? g_strdup_printf (" over %u paths", fabric->n_paths[i]) : g_strdup ("");
      g_autofree char *of = i > 0 ? g_strdup_printf ("of up to %u of tier %u", tier->children, i)
                            : t->rail_optimised ? g_strdup_printf ("of up to %u nodes, a leaf per rail", tier->children)
                                                : g_strdup_printf ("of up to %u nodes", tier->children);
      g_string_append_printf (out, "      |\n    %-8s%u %s%s %s: %s up %s%s, %g:1%s%s\n", name, units[i],
                              i > 0 || t->rail_optimised ? "group" : "leaf switch", units[i] == 1 ? "" : i > 0 || t->rail_optimised ? "s" : "es",
                              of, rate, fabric->n_rails[i] > 1 ? "per rail" : "each", paths, tier->oversubscription,
                              tier->latency_s.value > 0 ? ", + " : "", tier->latency_s.value > 0 ? latency : "");
    }
  g_string_append_printf (out, "      |\n    %-8s", "nodes");
  for (guint i = 0; i < t->n_runs; i++)
    {
      const ScNodeType *type = &t->types[t->runs[i].type];
      g_autofree char *nic = sc_format_rate (type->nic_bytes_per_s.value);
      g_string_append_printf (out, "%s%u x %s (%u x %s)", i > 0 ? ", " : "", t->runs[i].count, type->name, type->nics, nic);
    }
  g_string_append_c (out, '\n');
  return TRUE;
}

static void
draw_factor (double factor, const char *plural, GString *out)
{
  if (factor > 0)
    g_string_append_printf (out, " run%s at %g %% of %s rate\n", plural == NULL ? "s" : "", 100 * factor, plural == NULL ? "its" : plural);
  else
    g_string_append (out, plural == NULL ? " is dead\n" : " are dead\n");
}

static void
draw_faults (const ScTopology *t, GString *out)
{
  static const char *const names[] = { [SC_FAULT_GPU] = "GPU", [SC_FAULT_NIC] = "NIC", [SC_FAULT_NVLINK] = "NVLink of GPU" };
  if (t->n_faults + t->n_tier_faults > 0)
    g_string_append (out, "\nFaults\n");
  for (guint i = 0; i < t->n_faults; i++)
    {
      const ScFault *f = &t->faults[i];
      g_string_append_printf (out, "    %s %u of node %u", names[f->kind], f->index, f->node);
      draw_factor (f->factor, NULL, out);
    }
  for (guint i = 0; i < t->n_tier_faults; i++)
    {
      const ScTierFault *f = &t->tier_faults[i];
      g_string_append_printf (out, "    up-links of unit %u of tier %u", f->unit, f->tier + 1);
      if (f->tier == 0 && t->rail_optimised)
        g_string_append_printf (out, ", rail %u,", f->rail);
      draw_factor (f->factor, "their", out);
    }
}

static void
draw_backgrounds (const ScTopology *t, GString *out)
{
  if (t->n_backgrounds > 0)
    g_string_append (out, "\nTraffic of others\n");
  for (guint i = 0; i < t->n_backgrounds; i++)
    {
      const ScBackground *b = &t->backgrounds[i];
      g_autofree char *rate = sc_format_rate (b->bytes_per_s.value);
      g_string_append_printf (out, "    nodes %u to %u: each NIC sends %s to the next node\n", b->first_node,
                              b->first_node + b->nodes - 1, rate);
    }
}

gboolean
sc_draw_topology (const ScTopology *t, GString *out, GError **error)
{
  g_string_append_printf (out, "%s: %u node%s, %u GPU%s\n", t->name, t->n_nodes, t->n_nodes == 1 ? "" : "s", t->n_gpus,
                          t->n_gpus == 1 ? "" : "s");
  for (guint i = 0; i < 2; i++)
    {
      const char *text = i == 0 ? t->summary : t->source;
      if (text == NULL)
        continue;
      g_string_append (out, i == 0 ? "  " : "  source: ");
      sc_append_wrapped (out, text, i == 0 ? 2 : 10, i == 0 ? 2 : 10, WIDTH);
      g_string_append_c (out, '\n');
    }
  if (!draw_network (t, out, error))
    return FALSE;
  for (guint i = 0; i < t->n_types; i++)
    draw_node (t, i, out);
  draw_faults (t, out);
  draw_backgrounds (t, out);
  return TRUE;
}

/* ---- A plan ---- */

/* The node of each rank: the job takes GPUs in order from its first node on. */
static guint *
nodes_of_ranks (const ScTopology *t, guint n_ranks)
{
  guint *nodes = g_new (guint, MAX (n_ranks, 1));
  guint node = t->first_node, gpu = 0;
  for (guint r = 0; r < n_ranks; r++)
    {
      while (node + 1 < t->n_nodes && gpu >= sc_topology_node_type (t, node)->gpus)
        {
          node++;
          gpu = 0;
        }
      nodes[r] = node;
      gpu++;
    }
  return nodes;
}

/* "0 8 16 ... 120" of an ascending or descending list. */
static char *
list_text (const guint *values, guint n)
{
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < n; i++)
    {
      if (n > 8 && i == 6)
        {
          g_string_append (text, " ...");
          i = n - 1;
        }
      g_string_append_printf (text, "%s%u", i > 0 ? " " : "", values[i]);
    }
  return g_string_free (text, FALSE);
}

/* "3" or "0-7" */
static char *
range_text (guint first, guint last)
{
  return first == last ? g_strdup_printf ("%u", first) : g_strdup_printf ("%u-%u", first, last);
}

typedef enum { AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP, N_AXES } Axis;

static guint
axis_size (const ScPlan *p, Axis axis)
{
  const guint sizes[N_AXES] = { p->tp, p->cp, p->dp, p->pp };
  return sizes[axis];
}

static ScCoord
axis_coord (Axis axis, guint i)
{
  ScCoord c = { 0 };
  switch (axis)
    {
    case AXIS_TP: c.tp = i; break;
    case AXIS_CP: c.cp = i; break;
    case AXIS_DP: c.dp = i; break;
    case AXIS_PP: c.pp = i; break;
    case N_AXES:
    default: g_assert_not_reached ();
    }
  return c;
}

/* Groups of the first stage's experts: rank y of it counts tp fastest, then cp, then dp (models/layout.c). */
static ScCoord
stage_coord (const ScPlan *p, guint y)
{
  return (ScCoord) { .tp = y % p->tp, .cp = y / p->tp % p->cp, .dp = y / p->tp / p->cp };
}

/* @ranks: [n] of the group that rank 0 is in. */
static void
draw_group (const char *name, const guint *ranks, guint n, const guint *nodes, guint n_ranks, GString *out)
{
  g_autofree guint *on = g_new (guint, n);
  guint n_on = 0;
  for (guint i = 0; i < n; i++)
    if (n_on == 0 || on[n_on - 1] != nodes[ranks[i]])
      on[n_on++] = nodes[ranks[i]];
  g_autofree char *rank_text = list_text (ranks, n), *node_text = list_text (on, n_on);
  g_string_append_printf (out, "  %-5s%6u%8u%8u  ranks %s on node%s %s\n", name, n, n_ranks / n, ranks[1] - ranks[0], rank_text,
                          n_on == 1 ? "" : "s", node_text);
}

/* @ranks: room for [n_ranks]. */
static void
draw_expert_groups (const ScPlan *p, guint *ranks, const guint *nodes, guint n_ranks, GString *out)
{
  const struct
  {
    const char *name;
    guint n, stride;
  } groups[] = { { "ETP", p->etp, 1 }, { "EP", p->ep, p->etp }, { "EDP", p->tp * p->cp * p->dp / (p->ep * p->etp), p->ep * p->etp } };
  for (guint k = 0; k < G_N_ELEMENTS (groups); k++)
    {
      for (guint i = 0; i < groups[k].n; i++)
        ranks[i] = sc_layout_rank (p, stage_coord (p, i * groups[k].stride));
      if (groups[k].n > 1)
        draw_group (groups[k].name, ranks, groups[k].n, nodes, n_ranks, out);
    }
}

static void
draw_groups (const ScWorkload *w, const guint *nodes, guint n_ranks, GString *out)
{
  static const char *const names[N_AXES] = { "TP", "CP", "DP", "PP" };
  const ScPlan *const p = &w->plan;
  g_autofree guint *ranks = g_new (guint, n_ranks);
  g_string_append (out, "\n  group  size   count  stride  that of rank 0, and its nodes\n");
  for (Axis axis = 0; axis < N_AXES; axis++)
    {
      const guint n = axis_size (p, axis);
      for (guint i = 0; i < n; i++)
        ranks[i] = sc_layout_rank (p, axis_coord (axis, i));
      if (n > 1)
        draw_group (names[axis], ranks, n, nodes, n_ranks, out);
    }
  if (w->model.experts > 0)
    draw_expert_groups (p, ranks, nodes, n_ranks, out);
}

static void
widen (guint *least, guint *most, guint value)
{
  *least = MIN (*least, value);
  *most = MAX (*most, value);
}

static void
draw_nodes (const ScPlan *p, const guint *nodes, guint n_ranks, GString *out)
{
  const guint first_node = nodes[0], n_nodes = nodes[n_ranks - 1] + 1 - first_node;
  g_string_append_printf (out, "\n  node   ranks          stage    dp       %stp\n", p->cp > 1 ? "cp       " : "");
  guint r = 0;
  for (guint i = 0; i < n_nodes; i++)
    {
      const guint node = first_node + i;
      guint least[N_AXES] = { G_MAXUINT, G_MAXUINT, G_MAXUINT, G_MAXUINT }, most[N_AXES] = { 0 };
      const guint first = r;
      for (; r < n_ranks && nodes[r] == node; r++)
        {
          const ScCoord c = sc_layout_coord (p, r);
          widen (&least[AXIS_TP], &most[AXIS_TP], c.tp);
          widen (&least[AXIS_CP], &most[AXIS_CP], c.cp);
          widen (&least[AXIS_DP], &most[AXIS_DP], c.dp);
          widen (&least[AXIS_PP], &most[AXIS_PP], c.pp);
        }
      if (n_nodes > MAX_NODES && i >= MAX_NODES - 2 && i + 1 < n_nodes)
        {
          if (i == MAX_NODES - 2)
            g_string_append_printf (out, "  ...    (%u more nodes)\n", n_nodes - MAX_NODES + 1);
          continue;
        }
      g_autofree char *ranks = range_text (first, r - 1), *stage = range_text (least[AXIS_PP], most[AXIS_PP]);
      g_autofree char *dp = range_text (least[AXIS_DP], most[AXIS_DP]), *tp = range_text (least[AXIS_TP], most[AXIS_TP]);
      g_autofree char *cp = range_text (least[AXIS_CP], most[AXIS_CP]);
      g_string_append_printf (out, "  %-6u %-14s %-8s %-8s ", node, ranks, stage, dp);
      if (p->cp > 1)
        g_string_append_printf (out, "%-8s ", cp);
      g_string_append_printf (out, "%s\n", tp);
    }
}

/* Stages that hold the same share one row. */
static void
draw_stages (const ScWorkload *w, GString *out)
{
  const ScPlan *p = &w->plan;
  g_autofree guint *layers = sc_workload_stage_layers (w);
  const guint n_chunks = sc_plan_chunks (p), last = p->pp * p->vpp - 1;
  g_string_append_printf (out, "\n  stage    layers%s\n", n_chunks > 1 ? "   by chunk" : "");
  for (guint s = 0; s < p->pp;)
    {
      guint end = s + 1;
      const gboolean ends = s == 0 || s + 1 == p->pp; /* the embedding and the head stand alone */
      for (; !ends && end + 1 < p->pp; end++)
        {
          gboolean same = TRUE;
          for (guint c = 0; c < n_chunks; c++)
            same &= layers[sc_plan_stage (p, end, c)] == layers[sc_plan_stage (p, s, c)];
          if (!same)
            break;
        }
      guint sum = 0;
      g_autoptr (GString) chunks = g_string_new (NULL);
      for (guint c = 0; c < n_chunks; c++)
        {
          sum += layers[sc_plan_stage (p, s, c)];
          g_string_append_printf (chunks, "%s%u", c > 0 ? " + " : "", layers[sc_plan_stage (p, s, c)]);
        }
      g_autofree char *stages = range_text (s, end - 1);
      g_string_append_printf (out, "  %-8s %6u", stages, sum);
      if (n_chunks > 1)
        g_string_append_printf (out, "   %s", chunks->str);
      gboolean embeds = FALSE, heads = FALSE;
      for (guint c = 0; c < n_chunks; c++)
        {
          embeds |= sc_plan_stage (p, s, c) == 0;
          heads |= sc_plan_stage (p, end - 1, c) == last;
        }
      if (embeds)
        g_string_append (out, "   with the embedding");
      if (heads)
        g_string_append (out, embeds ? " and the head and loss" : "   with the head and loss");
      if (end - s > 1)
        g_string_append (out, "   each");
      g_string_append_c (out, '\n');
      s = end;
    }
}

void
sc_draw_plan (const ScTopology *topology, const ScWorkload *workload, GString *out)
{
  const ScPlan *p = &workload->plan;
  const guint n_ranks = p->tp * p->cp * p->dp * p->pp;
  g_autofree guint *nodes = nodes_of_ranks (topology, n_ranks);
  g_string_append_printf (out, "%s: %u ranks on %u node%s\n  ", workload->name, n_ranks, nodes[n_ranks - 1] + 1,
                          nodes[n_ranks - 1] == 0 ? "" : "s");
  g_autoptr (GString) line = g_string_new (NULL);
  sc_describe_model (workload, line);
  sc_append_wrapped (out, line->str, 2, 2, WIDTH);
  g_string_append (out, "\n  ");
  g_string_truncate (line, 0);
  sc_describe_plan (workload, line);
  g_string_append_printf (line, "; ranks in order %s", sc_rank_order_word (p->rank_order));
  sc_append_wrapped (out, line->str, 2, 2, WIDTH);
  g_string_append_c (out, '\n');
  if (n_ranks > 1)
    draw_groups (workload, nodes, n_ranks, out);
  draw_nodes (p, nodes, n_ranks, out);
  draw_stages (workload, out);
}
