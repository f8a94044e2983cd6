/** \file one_way.h  Tests one algorithm of the CPU backend, pass by pass. */
#ifndef CONFORM_ONE_WAY_H
#define CONFORM_ONE_WAY_H
#include "cpu/gemm/passes.h"
#include "tests/conform/check.h"

/** Number of runs of an algorithm per pass. */
typedef struct tally {
  int jobs[CPU__PASSES];
} tally_t;

/** Tests an algorithm in all passes and pairs of layouts; one that cannot compute the case must
 * give a reason.  The reference results are computed when first needed: then *known becomes 1, and
 * the caller closes t. */
void try_algo(const cpu__algos_t *algos, const cpu__algo_t *algo, const op_case_t *c, truth_t *t,
              int *known, tally_t *tally);
/** Tests all algorithms on a case, without its ReLU if an algorithm has none; counts into tally[].
 */
void try_all(const cpu__algos_t *algos, const op_case_t *c, tally_t tally[CPU__ALGOS_MAX]);
/** Reshapes a linear layer's input to rows, as the op does before it chooses an algorithm. */
void flatten(op_case_t *c);

#endif
