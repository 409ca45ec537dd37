/* SPDX-License-Identifier: GPL-3.0-or-later */
/* allocator.h - PyTorch's caching allocator, played on a list of requests: what is reserved beside what is allocated.
 * Layer: models.
 *
 * Rules and constants are those of c10/cuda/CUDACachingAllocator (PyTorch 2.x; MODELLING 3.10).  A request is rounded up to 512 bytes and
 * taken from the free blocks of its stream: of the small pool up to 1 MiB, else of the large one; the smallest block that holds it, at the
 * lowest address.  Where none does, a new segment comes from the device: 2 MiB for small requests, 20 MiB for those below 10 MiB, else
 * the request rounded up to 2 MiB.  What is left of a block is split off from 512 bytes on (small pool) or above 1 MiB (large pool).  Freed
 * blocks join their free neighbours in the segment.  Segments go back to the device only when it has no memory left. */
#pragma once
#include <glib.h>

typedef struct _ScAllocator ScAllocator;

typedef struct
{
  guint64  capacity;   /* bytes that segments may take in all; 0: no end */
  gboolean expandable; /* expandable_segments:True: one growing segment for each pool and stream, mapped in pages of 2 or 20 MiB */
} ScAllocatorOptions;

ScAllocator *sc_allocator_new (const ScAllocatorOptions *options); /* NULL: as PyTorch is by default, without end */
void         sc_allocator_free (ScAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ScAllocator, sc_allocator_free)

#define SC_ALLOCATOR_FAILED G_MAXUINT32

/* Bytes of a tensor, at least 1, on @stream.  Returns a handle for sc_allocator_give(), or SC_ALLOCATOR_FAILED where the device has no
 * memory left even after all that is cached was given back: out of memory.  Handles are used again. */
guint32 sc_allocator_take (ScAllocator *allocator, guint stream, guint64 bytes);
void    sc_allocator_give (ScAllocator *allocator, guint32 handle);

guint64 sc_allocator_address (const ScAllocator *allocator, guint32 handle);

/* The same for two states whose blocks, free or not, are the same: from there on both answer alike. */
guint64 sc_allocator_signature (const ScAllocator *allocator);

typedef struct
{
  guint64 requested;      /* bytes of live tensors as they were asked for (torch.cuda.memory_stats: requested_bytes) */
  guint64 allocated;      /* ... rounded to blocks (memory_allocated) */
  guint64 reserved;       /* of the device (memory_reserved) */
  guint64 peak_allocated; /* most so far, each (max_memory_*) */
  guint64 peak_reserved;
  guint64 n_segments;     /* live */
  guint64 n_retries;      /* times that cached segments were given back for want of memory (num_alloc_retries) */
} ScAllocatorStats;

ScAllocatorStats sc_allocator_stats (const ScAllocator *allocator);

/* Most that was reserved since it was last asked for (reset_peak_memory_stats()). */
guint64 sc_allocator_peak_reserved (ScAllocator *allocator);
