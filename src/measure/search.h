/* SPDX-License-Identifier: MIT */
/* search.h - where shared libraries are looked for. */
#pragma once
#include <stddef.h>

/* Calls @try with one path after another until it returns something, and returns that, or NULL.  @names: NULL-ended,
 * best first.  The folders of @path (colons between, may be NULL) come first, then the bare names, then CUDA's folders. */
void *scm_search (const char *const *names, const char *path, void *(*try) (const char *name, void *data), void *data);
