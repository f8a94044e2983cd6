/** \file opt.h  Declarations that the files of option tables share: opt.c reads a section,
 * opt_value.c reads one value, opt_out.c writes. */
#ifndef CT_BASE_OPT_H
#define CT_BASE_OPT_H
#include "conf/ct_opt.h"

/** File, section and key of a value, for messages, and the row of the key. */
typedef struct ct__opt_location {
  const char *where;
  const char *section;
  const char *key;
  const ct_opt_t *row;
} ct__opt_location_t;

/** Operations on the values of a type. */
typedef struct ct__opt_type {
  const char *help;
  size_t bytes;
  int (*take)(const ct__opt_location_t *at, const ct_yaml_t *n, void *to);
  void (*clear)(void *at); /**< NULL: the type owns nothing */
} ct__opt_type_t;
extern const ct__opt_type_t ct__opt_types[];

/** Returns the address of the struct member that the row describes. */
static inline void *ct__opt_slot(const ct_opt_t *row, const void *values)
{
  return (char *)(uintptr_t)values + row->offset;
}

/** Returns 1 for "", ~ and null. */
int ct__opt_is_null(const char *text);
/** Returns the value of a bool, 1 or 0, or -1 if the word is not a bool. */
int ct__opt_bool(const char *text);
/** Returns 1 for a scalar without quotes. */
int ct__opt_is_plain(const ct_yaml_t *n);
/** Returns the beginning of the i-th word of "auto|cpu|ref", and sets *len to its length; NULL:
 * there are fewer words. */
const char *ct__opt_choice(const char *choices, int i, int *len);
/** Returns 1 if the text is one of the words of the row's `choices`. */
int ct__opt_is_word(const ct_opt_t *row, const char *text);
/** Returns the number of integers of a row of type SINGLE, PAIR or TRIPLE. */
int ct__opt_numbers(const ct_opt_t *row);
int ct__opt_has_range(const ct_opt_t *row);
/** Writes the range of a row, "between 0 and 1" or "at least 1", to buf (returned). */
const char *ct__opt_range(const ct_opt_t *row, char *buf, size_t cap);

/** Records CT_ERR_USAGE with "file:line: section.key: text".  \a n: the value, whose line is
 * reported; may be NULL. */
int ct__opt_fail(const ct__opt_location_t *at, const ct_yaml_t *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int ct__opt_wrong_type(const ct__opt_location_t *at, const ct_yaml_t *n, const char *expected);

#endif
