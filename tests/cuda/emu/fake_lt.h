/* fake_lt.h A fake cuBLASLt with the functions that cuda/gemm_lt.c uses: plain loops over
 * column-major matrices, in the streams of the fake runtime.  It rejects calls that the library
 * would reject or that have undefined results. */
#ifndef FAKE_LT_H
#define FAKE_LT_H
#include <cublasLt.h>

#include "base/ct_types.h"

typedef struct fake_lt {
  /* settings of a test */
  int found;     /* number of algorithms that the heuristic finds */
  int fastest;   /* index of the fastest one */
  int no_bias;   /* 1: no algorithm can add a bias */
  int broken;    /* index of an algorithm that fails to run; -1: none */
  int unsound;   /* index of an algorithm that is returned as not supported; -1: none */
  int fail_call; /* the n-th call from now fails; 0: none */
  /* observed calls */
  int alive;          /* descriptors not destroyed */
  int asked;          /* number of algorithms requested in the last heuristic call; 0: none */
  int runs, ran;      /* number of GEMMs; algorithm of the last one */
  uint64_t workspace; /* workspace limit */
  uint32_t reduction; /* mask of reduction schemes */
  uint32_t align[4];  /* alignment of A, B, C, D as told to the heuristic */
  cublasComputeType_t compute;
} fake_lt_t;
extern fake_lt_t fake_lt;

/* Algorithm i needs i * FAKE_LT_WORKSPACE bytes. */
enum { FAKE_LT_WORKSPACE = 1000 };

/* Restores the initial state with one algorithm; keeps `alive`. */
void fake_lt_reset(void);
/* Reads or writes element i of a matrix of any type. */
double fake_lt_get(ct_dtype_t type, const void *p, int64_t i);
void fake_lt_set(ct_dtype_t type, void *p, int64_t i, double v);

#endif
