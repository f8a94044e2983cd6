/* fake_lt.h  A fake cuBLASLt: what cuda/gemm_lt.c uses of it, as plain loops over column-major
 * matrices, in the streams of the fake runtime.  It refuses what the library would refuse, or be
 * undefined with. */
#ifndef FAKE_LT_H
#define FAKE_LT_H
#include <cublasLt.h>

#include "base/ct_types.h"

typedef struct fake_lt {
  /* set by a test */
  int found;     /* algorithms that the heuristics find */
  int fastest;   /* of them */
  int no_bias;   /* 1: none of them adds a bias */
  int broken;    /* this one does not run; -1: none */
  int unsound;   /* this one is found, but marked as not supported; -1: none */
  int fail_call; /* the n-th call from now fails; 0: none */
  /* what was seen */
  int alive;          /* descriptors not destroyed */
  int asked;          /* algorithms wanted of the heuristics, the last time; 0: never */
  int runs, ran;      /* products; algorithm of the last one */
  uint64_t workspace; /* limit */
  uint32_t reduction; /* mask of schemes */
  uint32_t align[4];  /* of A, B, C, D, promised to the heuristics */
  cublasComputeType_t compute;
} fake_lt_t;
extern fake_lt_t fake_lt;

/* Algorithm i wants i * FAKE_LT_WORKSPACE bytes. */
enum { FAKE_LT_WORKSPACE = 1000 };

/* As at the start, with one algorithm; `alive` goes on. */
void fake_lt_reset(void);
/* Element i of a matrix of any type. */
double fake_lt_get(ct_dtype_t type, const void *p, int64_t i);
void fake_lt_set(ct_dtype_t type, void *p, int64_t i, double v);

#endif
