/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tape-play.h - a tape played tensor by tensor on the caching allocator: what is reserved, and what lives at the peak.
 * Layer: models. */
#pragma once
#include "models/allocator.h"
#include "models/tape.h"

typedef struct
{
  gint64      bytes;
  const char *name;   /* static; of one that has none itself, of the kernel or collective behind its allocation */
  gboolean    output; /* ... which then probably writes it */
  guint32     info;   /* pass that allocated it: sc_info_pack() */
  guint8      mem;    /* ScMemKind */
} ScLiveTensor;

/* An entry of the tape, on the curve in program order. */
typedef struct
{
  guint64 highest[SC_N_MEMS]; /* by kind, at its highest instant ... */
  guint64 after[SC_N_MEMS];   /* ... and behind it */
  guint64 reserved; /* behind it */
  guint32 entry;
} ScTapePoint;

typedef struct
{
  ScAllocatorOptions allocator;
  guint    ahead;  /* ops that the host has issued before the GPU is done with one: until then a tensor that was sent stays with the allocator; 0: none */
  gboolean curve;  /* wanted: of the second step */
  gboolean live;   /* wanted */
  gboolean whole;  /* play every period, even where one is known to be as the one before */
} ScPlayOptions;

/* Two steps: optimizer states are born in the first one, so that it peaks elsewhere, and leaves other free blocks. */
typedef struct
{
  guint64 allocated[2];     /* peak of each step: bytes of tensors, as they were asked for ... */
  guint64 reserved[2];      /* ... and of all segments so far, at the end of it */
  guint64 step_reserved;    /* most of all segments in the second step alone: less, where the first one gave cached ones back */
  guint64 reserved_at_peak; /* when the second step's tensors peak */
  guint64 rounded;          /* peak of allocated blocks over both steps: tensors rounded up to 512 bytes */
  guint64 n_retries;        /* times that cached segments were given back for want of memory */
  guint64 n_early_retries;  /* ... before the first step's optimizer */
  gboolean out_of_memory;   /* the options' capacity did not do */
  guint32 failed;           /* ... and the tape's entry where */
  guint   n_loose;          /* frees that no tensor matched in kind and size */
  GArray *live;             /* ScLiveTensor at the second step's peak, largest first; NULL unless asked for */
  GArray *curve;            /* ScTapePoint; NULL unless asked for */
} ScTapePlay;

ScTapePlay *sc_tape_play (const ScTape *tape, const ScPlayOptions *options);
void        sc_tape_play_free (ScTapePlay *play);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScTapePlay, sc_tape_play_free)
