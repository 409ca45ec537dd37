/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit.h - does a plan fit, what would make it fit at which price, and how far it can be stretched.
 * Layer: src.  A change is written as --set writes it and read like any workload, so that all defaults follow and all rules hold: what
 * is said of it is what stepcast run says of it. */
#pragma once
#include "models/forecast.h"

/* Reads the workload again with @set (NULL-ended) on top of what the user gave; NULL and an error where that cannot be. */
typedef ScWorkload *(*ScFitRead) (gpointer data, char **set, GError **error);

typedef struct
{
  const ScTopology *topology;
  const ScWorkload *workload; /* as given */
  ScFitRead read;
  gpointer  data;             /* for it */
  ScVerdict worst;            /* that counts as fitting: SC_VERDICT_AT_RISK, or SC_VERDICT_FITS to be strict */
  gboolean  quick;            /* the verdict alone */
} ScFitInput;

/* One change of the plan, or two at once. */
typedef struct
{
  char  *text;   /* in words: "full recompute", "TP 8 + SP" */
  char **set;    /* the keys: NULL-ended "plan.recompute=full" */
  const char *row, *other; /* names of the rows that it is from, static; @other NULL: it is one change */
  gboolean in_pairs; /* may be one of two */
  guint  ladder; /* neighbours in the list with the same number, other than 0, go from little to much: the least that does is wanted */

  /* What it comes to; device_bytes 0: was not tried. */
  guint64   device_bytes, capacity_bytes; /* of the fullest GPU ... */
  guint     stage;                        /* ... which has this stage */
  ScVerdict verdict;
  double    step_s; /* at --detail stage; NAN: not simulated */
  double    cost;   /* step_s over that of the plan as given, - 1 */
  gboolean  best;   /* of those of its rows that make the plan fit, the cheapest */
} ScFitChange;

void sc_fit_change_free (ScFitChange *change);

/* A kind of change: one row of fit-changes.c. */
typedef struct
{
  const char *name;    /* "micro-batch" */
  const char *summary; /* one line for people */
  /* Appends to @changes (ScFitChange *) all that is worth trying with @workload, from little to much. */
  void (*propose) (const ScFitInput *input, GPtrArray *changes);
} ScFitRow;

const ScFitRow *const *sc_fit_rows (void); /* NULL-ended */

/* How far one number of the plan goes while all others stay. */
typedef struct
{
  gboolean found;
  guint64  value;        /* the last that fits; without @found undefined, like the next line */
  guint64  device_bytes, capacity_bytes;
  guint64  beyond;       /* the next one, which does not fit; 0: there is none */
  guint64  beyond_bytes; /* what its fullest GPU would need; 0: it cannot be for another reason ... */
  char    *why;          /* ... this one; NULL */
  char   **set;          /* the keys of @value */
} ScFitLimit;

typedef struct
{
  ScSummary *memory;    /* of the plan as given, without time; the verdict is that of stepcast run */
  gboolean   fits;      /* its verdict is not beyond ScFitInput.worst */

  /* Where it does not: what makes it fit, cheapest first; two at once where no one does. */
  double     step_s;    /* of the plan as given, at --detail stage; NAN: not simulated */
  GPtrArray *changes;   /* ScFitChange, owned */
  GPtrArray *short_of;  /* ScFitChange, owned: single changes that do not do */
  GPtrArray *refused;   /* char *, owned: "TP 16 + SP: /plan/tp: ...", changes that cannot be with this plan */

  ScFitLimit micro_batch; /* global batch stays */
  ScFitLimit seq;         /* sequences of a step stay */
  ScFitLimit gpus;        /* the fewest: replicas, global batch stays */
  guint      replica_gpus;
  guint      least_gpus, most_gpus; /* that were tried, with whole replicas; 0: none */
} ScFit;

/* NULL and an error where the plan as given cannot be forecast. */
ScFit *sc_fit (const ScFitInput *input, GError **error);
void   sc_fit_free (ScFit *fit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScFit, sc_fit_free)

void sc_fit_write_text (const ScFit *fit, gboolean verbose, GString *out);
void sc_fit_write_json (const ScFit *fit, GString *out);
