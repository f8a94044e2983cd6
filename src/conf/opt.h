/** \file opt.h  What the files of option tables share: opt.c reads a section, opt_value.c one
 * value, opt_out.c writes. */
#ifndef CT_BASE_OPT_H
#define CT_BASE_OPT_H
#include "conf/ct_opt.h"

/** Where a value stands, for the beginning of a message, and the row that it is for. */
typedef struct ct__opt_place {
  const char *where;
  const char *section;
  const char *key;
  const ct_opt_t *row;
} ct__opt_place_t;

/** What is done with the values of a type. */
typedef struct ct__opt_type {
  const char *help;
  size_t bytes;
  int (*take)(const ct__opt_place_t *at, const ct_yaml_t *n, void *to);
  void (*clear)(void *at); /**< NULL: it owns nothing */
} ct__opt_type_t;
extern const ct__opt_type_t ct__opt_types[];

/** The row's member of the struct. */
static inline void *ct__opt_slot(const ct_opt_t *row, const void *values)
{
  return (char *)(uintptr_t)values + row->offset;
}

/** 1 for "", ~ and null. */
int ct__opt_is_null(const char *text);
/** 1, 0, or -1 for a word that is no bool. */
int ct__opt_bool(const char *text);
/** 1 for a scalar without quotes. */
int ct__opt_is_plain(const ct_yaml_t *n);
/** Start of the i-th word of "auto|cpu|ref" and its length, or NULL. */
const char *ct__opt_choice(const char *choices, int i, int *len);
/** 1 for one of the words of the row's `choices`. */
int ct__opt_is_word(const ct_opt_t *row, const char *text);
/** How many integers a row of type PAIR or TRIPLE has. */
int ct__opt_numbers(const ct_opt_t *row);
int ct__opt_has_range(const ct_opt_t *row);
/** "between 0 and 1", "at least 1", into buf (returned). */
const char *ct__opt_range(const ct_opt_t *row, char *buf, size_t cap);

/** CT_ERR_USAGE with "file:line: section.key: text"; \a n, where it stands, may be NULL. */
int ct__opt_fail(const ct__opt_place_t *at, const ct_yaml_t *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int ct__opt_wrong_type(const ct__opt_place_t *at, const ct_yaml_t *n, const char *expected);

#endif
