/** \file one_way.h  One way of the CPU backend to compute a product, pass by pass. */
#ifndef CONFORM_ONE_WAY_H
#define CONFORM_ONE_WAY_H
#include "cpu/product/product.h"
#include "tests/conform/check.h"

/** How often a way did a pass. */
typedef struct tally {
  int jobs[CPU__PASSES];
} tally_t;

/** In all passes and pairs of layouts; one that cannot says why.  What is true is computed when it
 * is first needed: *known becomes 1, and t is the caller's to close. */
void try_way(const cpu__ways_t *ways, const cpu__way_t *way, const op_case_t *c, truth_t *t,
             int *known, tally_t *tally);
/** The same for a case whose ReLU the way need not have. */
void try_row(const cpu__ways_t *ways, const cpu__way_t *way, op_case_t c, tally_t *tally);
/** As a kind asks its ways: linear layers see rows, whatever they belong to. */
void flatten(op_case_t *c);

#endif
