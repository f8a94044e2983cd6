/** \file draw.h  Cases that are drawn: any op that ct_op_check() accepts may come, of small size.
 *
 * Case i of a seed is a pure function of both, on every machine: what a failure prints is enough
 * to run it alone. */
#ifndef CONFORM_DRAW_H
#define CONFORM_DRAW_H
#include "tests/conform/cases.h"

/** Random numbers of one draw, one after the other. */
typedef struct dice {
  uint64_t seed, index;
  uint32_t thrown;
} dice_t;

/** From lo to hi. */
int64_t dice_throw(dice_t *d, int64_t lo, int64_t hi);
/** 1 in so many percent of all throws. */
int dice_is(dice_t *d, int percent);

typedef struct draw {
  op_case_t c; /**< the descriptor is sound; a backend may refuse it all the same */
  int way;     /**< how it is prepared and run: any number from 0 (check_trial()) */
  ct_layout_t offered;
  uint64_t data; /**< seed of its numbers */
} draw_t;

/** What comes next of these dice, of \a kind or, with CT_OP_COUNT, of any. */
void draw_case(dice_t *dice, ct_op_kind_t kind, draw_t *out);

/** A range of draws, from `--draw N`, `--seed S`, `--draw-one S:I` on a command line. */
typedef struct draws {
  uint64_t seed;
  int64_t first, count;
  int asked; /**< 1: by such an option */
} draws_t;

/** Takes these options out of the arguments.  0: one of them is not understood. */
int draws_options(draws_t *out, int *argc, char **argv);
/** Around the draws: a crash, or a draw that runs for minutes, says which draw it was. */
void draws_begin(const char *program);
/** \a text: copied.  Returns how many assertions have failed so far, for draws_done(). */
unsigned draws_next(uint64_t seed, int64_t i, const char *text);
/** Says how to run the draw alone if an assertion has failed since. */
void draws_done(unsigned failed_before);
void draws_end(void);

#endif
