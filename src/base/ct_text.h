/** \file ct_text.h  Bounded text and paths.  Layer 0. */
#ifndef CT_TEXT_H
#define CT_TEXT_H
#include <stddef.h>
#include <stdint.h>

#define CT_PATH_MAX 4096

/** A growing string.  {0} is empty; data is NULL or NUL-terminated; freed by ct_str_clear(). */
typedef struct ct_str {
  char *data;
  size_t len, cap;
} ct_str_t;
/** Append; CT_OK or CT_ERR_NOMEM. */
int ct_str_add(ct_str_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ct_str_clear(ct_str_t *s);

/** snprintf that says if it fitted: CT_OK or CT_ERR_ARG ("name too long"). */
int ct_text_format(char *buf, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** The candidate closest to \a word (Levenshtein distance ≤ 1/2 of its length), or NULL: for "did you
 * mean".  n candidates. */
const char *ct_text_nearest(const char *word, const char *const *candidates, int n);
/** Shell-style match of a whole name: `*` any run (also over dots), `?` one character. */
int ct_text_match(const char *pattern, const char *name);
/** Whole text is a number: CT_OK and the value, or CT_ERR_ARG (nothing recorded). */
int ct_text_int(const char *text, int64_t *out);
int ct_text_double(const char *text, double *out);
/** "1.5 GiB", "12 KiB" into buf (returned). */
const char *ct_text_bytes(double bytes, char *buf, size_t cap);
/** "1h02m", "3m10s", "12.3 s" into buf (returned). */
const char *ct_text_seconds(double s, char *buf, size_t cap);
/** dir/name, or name if it is absolute. */
int ct_path_join(char *buf, size_t cap, const char *dir, const char *name);
/** Directory part ("." if none) into buf. */
int ct_path_dir(char *buf, size_t cap, const char *path);

#endif
