/** \file one_way.h  One way of the CPU backend to compute a product, pass by pass. */
#ifndef CONFORM_ONE_WAY_H
#define CONFORM_ONE_WAY_H
#include "cpu/gemm/passes.h"
#include "tests/conform/check.h"

/** How often a way did a pass. */
typedef struct tally {
  int jobs[CPU__PASSES];
} tally_t;

/** In all passes and pairs of layouts; one that cannot says why.  What is true is computed when it
 * is first needed: *known becomes 1, and t is the caller's to close. */
void try_algo(const cpu__algos_t *algos, const cpu__algo_t *algo, const op_case_t *c, truth_t *t,
              int *known, tally_t *tally);
/** All ways on a case, without its ReLU where a way has none, with one tally[] each. */
void try_all(const cpu__algos_t *algos, const op_case_t *c, tally_t tally[CPU__ALGOS_MAX]);
/** As a kind asks its ways: linear layers see rows, whatever they belong to. */
void flatten(op_case_t *c);

#endif
