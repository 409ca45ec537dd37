/* SPDX-License-Identifier: MIT */
/* libraries.c - loads the libraries that are there. */
#include "measure/libraries.h"
#include "measure/item.h"
#include "measure/search.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
try_open (const char *name, void *data)
{
  (void) data;
  return dlopen (name, RTLD_NOW | RTLD_LOCAL);
}

/* The library, or NULL and a note. */
static void *
open_library (const char *title, const char *consequence, const char *const *names, ScmText *notes)
{
  void *library = scm_search (names, getenv ("STEPCAST_LIBRARY_PATH"), try_open, NULL);
  if (library == NULL)
    scm_text_add (notes, "%s (%s) is missing: %s\n", title, names[0], consequence);
  return library;
}

/* Function pointers from object pointers, as POSIX has it. */
static bool
resolve_quietly (void *library, const char *name, void *ret_function)
{
  void *symbol = library != NULL ? dlsym (library, name) : NULL;
  memcpy (ret_function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool
resolve (void *library, const char *name, void *ret_function, const char *title, ScmText *notes)
{
  const bool found = resolve_quietly (library, name, ret_function);
  if (library != NULL && !found)
    scm_text_add (notes, "%s has no function %s: too old, left out\n", title, name);
  return found;
}

/* The library of this program's CUDA release comes first, then its neighbours. */
static const char *const cublaslt_names[] = {
#if CUDART_VERSION >= 13000
  "libcublasLt.so.13", "libcublasLt.so.12",
#else
  "libcublasLt.so.12", "libcublasLt.so.13",
#endif
  "libcublasLt.so.11", "libcublasLt.so", NULL
};
static const char *const cudnn_names[] = { "libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", NULL };
static const char *const nccl_names[] = { "libnccl.so.2", "libnccl.so", NULL };
static const char *const nvml_names[] = { "libnvidia-ml.so.1", "libnvidia-ml.so", NULL };

void
scm_libraries_load (ScmLibraries *l, ScmText *notes)
{
  *l = (ScmLibraries){ 0 };
  void *cublaslt = open_library ("cuBLASLt", "no gemm, grouped_gemm, slowdown, power and unfused attention", cublaslt_names,
                                 notes);
  void *cudnn = open_library ("cuDNN", "no attention but unfused", cudnn_names, notes);
  void *nccl = open_library ("NCCL", "no collectives", nccl_names, notes);
  void *nvml = open_library ("NVML", "no clocks, power and temperature", nvml_names, notes);
  bool all;
#define ROW(function) all = resolve (library, #function, &l->function, title, notes) && all;
  {
    const char *title = "cuBLASLt";
    void *library = cublaslt;
    all = library != NULL;
    SCM_CUBLASLT_FUNCTIONS (ROW)
    l->found |= all ? SCM_CUBLASLT : 0;
  }
  {
    const char *title = "cuDNN";
    void *library = cudnn;
    all = library != NULL;
    SCM_CUDNN_FUNCTIONS (ROW)
    l->found |= all ? SCM_CUDNN : 0;
  }
  {
    const char *title = "NCCL";
    void *library = nccl;
    all = library != NULL;
    SCM_NCCL_FUNCTIONS (ROW)
    l->found |= all ? SCM_NCCL : 0;
  }
  {
    const char *title = "NVML";
    void *library = nvml;
    all = library != NULL;
    SCM_NVML_FUNCTIONS (ROW)
    l->nvml = all && l->nvmlInit_v2 () == 0;
    if (all && !l->nvml)
      scm_text_add (notes, "NVML does not start: no clocks, power and temperature\n");
  }
#undef ROW
#define ROW(function) resolve_quietly (nvml, #function, &l->function);
  SCM_NVML_OPTIONAL_FUNCTIONS (ROW)
#undef ROW

  if (l->found & SCM_CUBLASLT)
    {
      const size_t v = l->cublasLtGetVersion ();
      if (v >= 100000)
        snprintf (l->cublaslt_version, sizeof l->cublaslt_version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
      else
        snprintf (l->cublaslt_version, sizeof l->cublaslt_version, "%zu.%zu.%zu", v / 1000, v / 100 % 10, v % 100);
    }
  if (l->found & SCM_CUDNN)
    {
      const size_t v = l->cudnnGetVersion ();
      if (v >= 90000)
        snprintf (l->cudnn_version, sizeof l->cudnn_version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
      else
        snprintf (l->cudnn_version, sizeof l->cudnn_version, "%zu.%zu.%zu", v / 1000, v / 100 % 10, v % 100);
    }
  int v;
  if ((l->found & SCM_NCCL) && l->ncclGetVersion (&v) == 0)
    {
      if (v >= 10000)
        snprintf (l->nccl_version, sizeof l->nccl_version, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
      else
        snprintf (l->nccl_version, sizeof l->nccl_version, "%d.%d.%d", v / 1000, v / 100 % 10, v % 100);
    }
}
