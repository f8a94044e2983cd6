/** \file draw.h  Random test cases: any small op that ct_op_check() accepts.
 *
 * Case i of a seed is a pure function of both on every machine, so a failure's output is enough to
 * repeat it alone. */
#ifndef CONFORM_DRAW_H
#define CONFORM_DRAW_H
#include "tests/conform/cases.h"

/** Random number stream of one case. */
typedef struct dice {
  uint64_t seed, index;
  uint32_t thrown;
} dice_t;

/** Returns a random integer from lo to hi. */
int64_t dice_throw(dice_t *d, int64_t lo, int64_t hi);
/** Returns 1 with a probability of \a percent. */
int dice_is(dice_t *d, int percent);

typedef struct draw {
  op_case_t c; /**< valid descriptor, which a backend may still not support */
  int way;     /**< how it is prepared and run: any number from 0 (see check_trial()) */
  ct_layout_t offered;
  uint64_t data; /**< seed of its data */
} draw_t;

/** Draws the next case, of \a kind, or of any kind if it is CT_OP_COUNT. */
void draw_case(dice_t *dice, ct_op_kind_t kind, draw_t *out);

/** A range of cases, from the options `--draw N`, `--seed S` or `--draw-one S:I`. */
typedef struct draws {
  uint64_t seed;
  int64_t first, count;
  int asked; /**< 1: such an option was given */
} draws_t;

/** Removes these options from the arguments.  Returns 0 if one is invalid. */
int draws_options(draws_t *out, int *argc, char **argv);
/** Starts the draws: if one crashes or runs for minutes, its number is printed. */
void draws_begin(const char *program);
/** Starts the next draw; \a text is copied.  Returns the number of failed assertions so far, for
 * draws_done(). */
unsigned draws_next(uint64_t seed, int64_t i, const char *text);
/** Prints how to repeat the draw alone if an assertion has failed in it. */
void draws_done(unsigned failed_before);
void draws_end(void);

#endif
