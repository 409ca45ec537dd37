/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid-shard.h - which part of a sweep this process does.
 * Layer: src.  Shard i of n has the points i, i + n, i + 2 n, ...: interleaved, so that dear corners of the grid are spread. */
#pragma once
#include <glib.h>

typedef struct
{
  guint64 index, n; /* index < n */
} ScShard;

typedef const char *(*ScGetenv) (const char *name);

/* "I/N" with 0 <= I < N; "auto": from what a launcher put into the environment; "auto/N": the same where it does not say how many.
 * @get: g_getenv.  SC_CMD_ERROR_USAGE. */
gboolean sc_shard_parse (const char *text, ScGetenv get, ScShard *ret, GError **error);

/* Points of @shard in a grid of @n_points, and the @k-th of them. */
guint64 sc_shard_n_points (const ScShard *shard, guint64 n_points);
guint64 sc_shard_point (const ScShard *shard, guint64 k);

/* @path with "%i" as the shard's index, "%n" as the number of shards and "%%" as "%"; yours. */
char *sc_shard_path (const ScShard *shard, const char *path);
