/** \file onednn/prim.h  oneDNN types shared by the files of this folder.  Folder-private. */
#ifndef CT_DNNL_PRIM_H
#define CT_DNNL_PRIM_H
#include <dnnl.h>

#include "cpu/onednn/glue.h"

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t cpu__md_arg_t; /* a handle, created and destroyed by its owner */
#else
typedef const dnnl_memory_desc_t *cpu__md_arg_t; /* a plain struct */
#endif

struct cpu__dnnl {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
};

enum { CPU__EXTRA_ARGS = 2 };

struct cpu__prim {
  dnnl_primitive_desc_t pd;
  const cpu__md_t
      *md[CPU__ROLES]; /**< borrowed from pd; NULL: the primitive has no argument in this
                                        role */
  dnnl_primitive_t built;
  int count; /**< number of arguments; each has a memory object, a role and an address */
  int extra; /**< number of constant arguments, which follow the first `count` ones */
  dnnl_exec_arg_t arg[CPU__ROLES + CPU__EXTRA_ARGS];
  cpu__role_t role[CPU__ROLES];
  void *at[CPU__ROLES];
  float *scale; /**< owned; data of a constant argument */
  int32_t zero; /**< data of a constant argument */
};

static inline cpu__md_arg_t cpu__md_arg(const cpu__md_t *md)
{
  return (cpu__md_arg_t)md;
}

/** Converts a oneDNN status to CT_OK or an error. */
int cpu__dnnl_check(dnnl_status_t s, const char *what);
/** Creates primitive attributes that let the caller provide the scratchpad memory. */
int cpu__attr_create(dnnl_primitive_attr_t *out);
/** Creates a primitive that is not built yet.  Takes ownership of pd, also on failure. */
int cpu__prim_create(dnnl_primitive_desc_t pd, int pass, cpu__prim_t **out);

#endif
