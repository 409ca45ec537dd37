/* SPDX-License-Identifier: MIT */
/* search.c - where shared libraries are looked for. */
#include "measure/search.h"
#include "measure/json.h"
#include <stdlib.h>
#include <string.h>

static void *
try_folder (const char *folder, size_t length, const char *const *names, void *(*try) (const char *, void *), void *data)
{
  void *found = NULL;
  for (; *names != NULL && found == NULL && length > 0; names++)
    {
      ScmText path = { 0 };
      scm_text_add (&path, "%.*s/%s", (int) length, folder, *names);
      found = try (path.bytes, data);
      scm_text_clear (&path);
    }
  return found;
}

void *
scm_search (const char *const *names, const char *path, void *(*try) (const char *name, void *data), void *data)
{
  void *found = NULL;
  for (const char *p = path; p != NULL && found == NULL;)
    {
      const size_t length = strcspn (p, ":");
      found = try_folder (p, length, names, try, data);
      p = p[length] == ':' ? p + length + 1 : NULL;
    }
  for (const char *const *name = names; *name != NULL && found == NULL; name++)
    found = try (*name, data);
  static const char *const variables[] = { "CUDA_HOME", "CUDA_PATH" };
  for (int i = 0; i < 2 && found == NULL; i++)
    {
      const char *home = getenv (variables[i]);
      ScmText folder = { 0 };
      scm_text_add (&folder, "%s/lib64", home != NULL ? home : "");
      if (home != NULL && *home != '\0')
        found = try_folder (folder.bytes, folder.length, names, try, data);
      scm_text_clear (&folder);
    }
  static const char *const folders[] = {
    "/usr/local/cuda/lib64",        "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/local/cuda/targets/sbsa-linux/lib",
    "/usr/lib/x86_64-linux-gnu",    "/usr/lib/aarch64-linux-gnu",               "/usr/lib64",
    "/opt/cuda/lib64",
  };
  for (size_t i = 0; i < sizeof folders / sizeof *folders && found == NULL; i++)
    found = try_folder (folders[i], strlen (folders[i]), names, try, data);
  return found;
}
