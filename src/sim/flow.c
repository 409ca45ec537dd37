/* SPDX-License-Identifier: GPL-3.0-or-later */
/* flow.c - progressive filling over the connected component that changed.
 *
 * Alone, a flow would run at its *limit*: its cap, or the capacity of its narrowest link for its connections there.  No
 * flow is ever faster than that, so a link on which all limits together fit holds nobody back and connects nobody: it
 * is not *crowded*, and only crowded links are looked at.  That is exact, as every rate keeps to its limit: a link
 * whose limits fit is full only when all its flows are at their limits.  Most links of a well-built fabric are not
 * crowded most of the time.
 *
 * Links know their flows by intrusive lists of elements, so a component is found without looking at the rest, and
 * nothing is allocated per solve.  SimGrid's lmm module is the model to read. */
#include "sim/flow.h"

#define FLOW_TIE (1 + 1e-12) /* constraints that bind within this ratio bind together (FOLDING.md 9) */

/* Demand on a link is counted in this part of its capacity, as an integer: it adds and subtracts exactly, whatever
 * flows came and went, and 4 million flows fit.  Rounded down, so that limits which fit exactly are seen to fit; a link
 * of n flows may so be overrun by n 2^-42 of its capacity, which is n/4 ps in a second. */
#define DEMAND_ONE ((double) (G_GUINT64_CONSTANT (1) << 42))

/* One flow on one link. */
typedef struct
{
  double  streams;
  guint32 flow, link;
  guint32 prev, next; /* elements of the same link, or SC_NONE; of a free run: `next` free run */
} Element;

typedef struct
{
  double  remaining; /* bytes of one connection at `since` */
  double  rate;
  double  limit;     /* rate alone */
  double  solved;    /* rate under construction; < 0: not frozen yet */
  double  bytes;
  ScTime  since;
  guint32 first_element, n_elements;
  guint32 owner, detail;
  guint32 version;
  guint32 mark;      /* solve in which it was last gathered */
  guint32 next_free; /* while not live */
  gboolean live;
  gboolean fresh;    /* in the list of fresh ones; survives the flow's end */
} Flow;

typedef struct
{
  double  capacity;
  double  demand_scale; /* DEMAND_ONE / capacity */
  guint64 demand;  /* of its flows at their limits */
  double  sum;     /* streams of unfrozen flows, in the current solve */
  double  left;    /* capacity that frozen flows leave */
  guint32 first;   /* its elements */
  guint32 mark;
  gboolean dirty;  /* in the list of links to look at */
  gboolean stale;  /* a flow has frozen since `sum` and `left` were made */
} Link;

#define N_SIZES 32

struct _ScFlows
{
  Link    *links;    /* [n_links] */
  guint32  n_links;
  Flow    *flows;    /* [n_flows] */
  guint32  n_flows, n_flows_allocated;
  guint32  free_flow; /* first of a chain */
  Element *elements; /* [n_elements] */
  guint32  n_elements, n_elements_allocated;
  guint32  free_runs[N_SIZES]; /* first elements of chains of free runs of 2^i */
  guint32 *fresh;    /* [n_fresh] flows that have no rate yet; room for all */
  guint32  n_fresh;
  guint32 *dirty;    /* [n_dirty] links which a flow has left while they were crowded; room for all */
  guint32  n_dirty;
  /* Work space of a solve: the component; room for all. */
  guint32 *component_links, n_component_links;
  guint32 *component_flows, n_component_flows;
  double  *link_bytes;
  guint32  mark;
  guint64  n_solves;
};

ScFlows *
sc_flows_new (const double *capacity, guint32 n_links)
{
  ScFlows *s = g_new0 (ScFlows, 1);
  s->n_links = n_links;
  s->links = g_new0 (Link, MAX (n_links, 1));
  for (guint32 l = 0; l < n_links; l++)
    s->links[l] = (Link) { .capacity = capacity[l], .demand_scale = DEMAND_ONE / capacity[l], .first = SC_NONE };
  s->link_bytes = g_new0 (double, MAX (n_links, 1));
  s->free_flow = SC_NONE;
  for (guint i = 0; i < N_SIZES; i++)
    s->free_runs[i] = SC_NONE;
  s->dirty = g_new (guint32, MAX (n_links, 1));
  s->component_links = g_new (guint32, MAX (n_links, 1));
  return s;
}

void
sc_flows_free (ScFlows *s)
{
  if (s == NULL)
    return;
  g_free (s->fresh);
  g_free (s->dirty);
  g_free (s->component_links);
  g_free (s->component_flows);
  g_free (s->links);
  g_free (s->flows);
  g_free (s->elements);
  g_free (s->link_bytes);
  g_free (s);
}

/* ---- flows come and go ---- */

static guint32
flow_take (ScFlows *s)
{
  const guint32 id = s->free_flow;
  if (id != SC_NONE)
    {
      s->free_flow = s->flows[id].next_free;
      return id;
    }
  if (s->n_flows == s->n_flows_allocated)
    {
      s->n_flows_allocated = MAX (64, 2 * s->n_flows_allocated);
      s->flows = g_renew (Flow, s->flows, s->n_flows_allocated);
      s->fresh = g_renew (guint32, s->fresh, s->n_flows_allocated);
      s->component_flows = g_renew (guint32, s->component_flows, s->n_flows_allocated);
    }
  s->flows[s->n_flows] = (Flow) { 0 };
  return s->n_flows++;
}

/* Power of two that holds @n elements. */
static inline guint
run_size (guint32 n)
{
  return n <= 1 ? 0 : (guint) g_bit_storage (n - 1);
}

static guint32
elements_take (ScFlows *s, guint32 n)
{
  const guint size = run_size (n);
  guint32 first = s->free_runs[size];
  if (first != SC_NONE)
    {
      s->free_runs[size] = s->elements[first].next;
      return first;
    }
  first = s->n_elements;
  s->n_elements += 1u << size;
  if (s->n_elements > s->n_elements_allocated)
    {
      s->n_elements_allocated = MAX (s->n_elements, MAX (256, 2 * s->n_elements_allocated));
      s->elements = g_renew (Element, s->elements, s->n_elements_allocated);
    }
  return first;
}

static inline gboolean
link_crowded (const Link *link)
{
  return link->demand > (guint64) DEMAND_ONE;
}

/* What a flow of @limit with @streams connections on @link adds to its demand; at most DEMAND_ONE, but for rounding. */
static inline guint64
link_share (const Link *link, double streams, double limit)
{
  return (guint64) (streams * limit * link->demand_scale);
}

guint32
sc_flows_start (ScFlows *s, ScTime now, const ScUse *uses, guint32 n_uses, double bytes, double cap, guint32 owner,
                guint32 detail)
{
  double limit = cap;
  for (guint32 i = 0; i < n_uses; i++)
    limit = MIN (limit, s->links[uses[i].link].capacity / uses[i].streams);

  const guint32 id = flow_take (s);
  const guint32 first = n_uses > 0 ? elements_take (s, n_uses) : SC_NONE;
  if (!s->flows[id].fresh)
    s->fresh[s->n_fresh++] = id;
  s->flows[id] = (Flow) { .remaining = bytes, .bytes = bytes, .limit = limit, .since = now, .first_element = first,
                          .n_elements = n_uses, .owner = owner, .detail = detail, .version = s->flows[id].version,
                          .live = TRUE, .fresh = TRUE };
  for (guint32 i = 0; i < n_uses; i++)
    {
      const guint32 e = first + i;
      Link *const link = &s->links[uses[i].link];
      s->elements[e] = (Element) { uses[i].streams, id, uses[i].link, SC_NONE, link->first };
      if (link->first != SC_NONE)
        s->elements[link->first].prev = e;
      link->first = e;
      link->demand += link_share (link, uses[i].streams, limit);
    }
  return id;
}

void
sc_flows_end (ScFlows *s, guint32 id)
{
  Flow *const f = &s->flows[id];
  for (guint32 i = 0; i < f->n_elements; i++)
    {
      const Element *const e = &s->elements[f->first_element + i];
      Link *const link = &s->links[e->link];
      if (e->prev != SC_NONE)
        s->elements[e->prev].next = e->next;
      else
        link->first = e->next;
      if (e->next != SC_NONE)
        s->elements[e->next].prev = e->prev;
      s->link_bytes[e->link] += e->streams * f->bytes;
      if (link_crowded (link) && !link->dirty)
        {
          link->dirty = TRUE;
          s->dirty[s->n_dirty++] = e->link;
        }
      link->demand -= link_share (link, e->streams, f->limit);
    }
  if (f->n_elements > 0)
    {
      guint32 *const free_run = &s->free_runs[run_size (f->n_elements)];
      s->elements[f->first_element].next = *free_run;
      *free_run = f->first_element;
    }
  f->live = FALSE;
  f->version++;
  f->next_free = s->free_flow;
  s->free_flow = id;
}

void
sc_flows_move (ScFlows *s, ScTime (*by) (gpointer data, guint32 owner), gpointer data)
{
  for (guint32 i = 0; i < s->n_flows; i++)
    if (s->flows[i].live)
      s->flows[i].since += by (data, s->flows[i].owner);
}

gboolean
sc_flows_dirty (const ScFlows *s)
{
  return s->n_dirty > 0 || s->n_fresh > 0;
}

/* ---- the solve ---- */

static inline void
gather_flow (ScFlows *s, guint32 id)
{
  if (s->flows[id].mark == s->mark)
    return;
  s->flows[id].mark = s->mark;
  s->component_flows[s->n_component_flows++] = id;
}

/* Everything connected to flow @id by crowded links. */
static void
gather (ScFlows *s, guint32 id)
{
  s->n_component_links = s->n_component_flows = 0;
  gather_flow (s, id);
  for (guint32 i = 0; i < s->n_component_flows; i++)
    {
      const Flow *const f = &s->flows[s->component_flows[i]];
      for (guint32 k = f->first_element; k < f->first_element + f->n_elements; k++)
        {
          const guint32 l = s->elements[k].link;
          Link *const link = &s->links[l];
          if (!link_crowded (link) || link->mark == s->mark)
            continue;
          link->mark = s->mark;
          link->stale = TRUE;
          s->component_links[s->n_component_links++] = l;
          for (guint32 e = link->first; e != SC_NONE; e = s->elements[e].next)
            gather_flow (s, s->elements[e].flow);
        }
    }
}

/* Sums of a link over its flows, from scratch: subtracting what froze would lose digits. */
static void
link_sum (const ScFlows *s, Link *link)
{
  double sum = 0, frozen = 0;
  for (guint32 e = link->first; e != SC_NONE; e = s->elements[e].next)
    {
      const Element *const element = &s->elements[e];
      const double solved = s->flows[element->flow].solved;
      if (solved < 0)
        sum += element->streams;
      else
        frozen += element->streams * solved;
    }
  link->sum = sum;
  link->left = MAX (link->capacity - frozen, 0);
  link->stale = FALSE;
}

static void
flow_freeze (ScFlows *s, Flow *f, double rate)
{
  f->solved = rate;
  for (guint32 k = f->first_element; k < f->first_element + f->n_elements; k++)
    s->links[s->elements[k].link].stale = TRUE;
}

/* Progressive filling over the gathered component: sets `solved` of its flows.  Reorders its lists. */
static void
fill (ScFlows *s)
{
  guint32 *const links = s->component_links, *const ids = s->component_flows;
  guint32 n_links = s->n_component_links, n_rising = s->n_component_flows;
  double reached = 0;
  for (guint32 i = 0; i < n_rising; i++)
    s->flows[ids[i]].solved = -1;
  while (n_rising > 0)
    {
      /* How far can all rise? */
      double phi = INFINITY;
      guint32 kept = 0;
      for (guint32 i = 0; i < n_links; i++)
        {
          Link *const link = &s->links[links[i]];
          if (link->stale)
            link_sum (s, link);
          if (link->sum == 0)
            continue;
          phi = MIN (phi, link->left / link->sum);
          links[kept++] = links[i];
        }
      n_links = kept;
      for (guint32 i = 0; i < n_rising; i++)
        phi = MIN (phi, s->flows[ids[i]].limit);
      phi = MAX (phi, reached); /* rates only rise, whatever `left` lost to rounding */
      reached = phi;

      /* Who stops there? */
      const double stop = phi * FLOW_TIE;
      for (guint32 i = 0; i < n_links; i++)
        {
          const Link *const link = &s->links[links[i]];
          if (link->left > stop * link->sum)
            continue;
          for (guint32 e = link->first; e != SC_NONE; e = s->elements[e].next)
            {
              Flow *const f = &s->flows[s->elements[e].flow];
              if (f->solved < 0)
                flow_freeze (s, f, phi);
            }
        }
      guint32 rising = 0;
      for (guint32 i = 0; i < n_rising; i++)
        {
          const guint32 id = ids[i];
          Flow *const f = &s->flows[id];
          if (f->solved < 0 && f->limit <= stop)
            flow_freeze (s, f, phi);
          if (f->solved < 0) /* to the front; all stay in the list */
            {
              ids[i] = ids[rising];
              ids[rising++] = id;
            }
        }
      n_rising = rising;
    }
}

/* Gives @f its new rate at @now; tells the caller if its end moved. */
static void
flow_set_rate (Flow *f, guint32 id, double rate, ScTime now, ScFlowMoved moved, gpointer data)
{
  if (rate == f->rate)
    return;
  if (f->rate > 0 && now > f->since)
    f->remaining = MAX (f->remaining - f->rate * sc_time_to_s (now - f->since), 0);
  f->since = now;
  f->rate = rate;
  f->version++;
  const ScTime left = isinf (rate) ? 0 : sc_time_from_s (f->remaining / rate);
  moved (data, id, f->version, now + left);
}

/* Solves the component of flow @id, unless it has been. */
static void
solve_around (ScFlows *s, guint32 id, ScTime now, ScFlowMoved moved, gpointer data)
{
  if (s->flows[id].mark == s->mark)
    return;
  gather (s, id);
  if (s->n_component_links == 0)
    {
      flow_set_rate (&s->flows[id], id, s->flows[id].limit, now, moved, data);
      return;
    }
  s->n_solves++;
  fill (s);
  for (guint32 k = 0; k < s->n_component_flows; k++)
    {
      const guint32 other = s->component_flows[k];
      flow_set_rate (&s->flows[other], other, s->flows[other].solved, now, moved, data);
    }
}

void
sc_flows_solve (ScFlows *s, ScTime now, ScFlowMoved moved, gpointer data)
{
  s->mark++;
  for (guint32 i = 0; i < s->n_fresh; i++)
    {
      const guint32 id = s->fresh[i];
      s->flows[id].fresh = FALSE;
      if (s->flows[id].live)
        solve_around (s, id, now, moved, data);
    }
  s->n_fresh = 0;

  for (guint32 i = 0; i < s->n_dirty; i++)
    {
      Link *const link = &s->links[s->dirty[i]];
      link->dirty = FALSE;
      for (guint32 e = link->first; e != SC_NONE; e = s->elements[e].next)
        solve_around (s, s->elements[e].flow, now, moved, data);
    }
  s->n_dirty = 0;
}

/* ---- what a flow knows ---- */

guint32
sc_flows_version (const ScFlows *s, guint32 id)
{
  return s->flows[id].version;
}

guint32
sc_flows_owner (const ScFlows *s, guint32 id)
{
  return s->flows[id].owner;
}

guint32
sc_flows_detail (const ScFlows *s, guint32 id)
{
  return s->flows[id].detail;
}

double
sc_flows_rate (const ScFlows *s, guint32 id)
{
  return s->flows[id].rate;
}

guint64
sc_flows_n_solves (const ScFlows *s)
{
  return s->n_solves;
}

const double *
sc_flows_link_bytes (const ScFlows *s)
{
  return s->link_bytes;
}
