/** \file ct_text.h  Bounded text and paths.  Layer 0. */
#ifndef CT_TEXT_H
#define CT_TEXT_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define CT_PATH_MAX 4096

/** A growing string.  {0} is empty; data is NULL or NUL-terminated; freed by ct_str_clear(). */
typedef struct ct_str {
  char *data;
  size_t len, cap;
} ct_str_t;
/** Appends formatted text; CT_OK or CT_ERR_NOMEM. */
int ct_str_add(ct_str_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ct_str_clear(ct_str_t *s);

/** snprintf that checks the size: CT_OK, or CT_ERR_USAGE ("name too long"), since names come from
 * the user. */
int ct_text_format(char *buf, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** vsnprintf for messages: a text that does not fit is shortened in the middle of its longest words
 * ("/very/long/…/tail.h5"), so that both ends and all short words stay.  UTF-8 characters stay
 * whole.  \a cap is at least 1; below 41 the end is cut off. */
void ct_text_vfit(char *buf, size_t cap, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));
void ct_text_fit(char *buf, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Length in bytes of the UTF-8 character at \a text, and its code point; 0: not valid UTF-8, or
 * end of the text. */
int ct_text_utf8(const char *text, uint32_t *code);
/** 1 if the whole text is UTF-8. */
int ct_text_is_utf8(const char *text);
/** 1 if the text is valid as the name of a file or directory on any file system: UTF-8 of 1 to 255
 * bytes without '/' and control characters, not "." or "..". */
int ct_text_is_name(const char *text);
/** A copy (free with ct_mem_free()) with '?' for bytes that are not UTF-8, as JSON requires.  NULL:
 * no memory. */
char *ct_text_utf8_copy(const char *text);
/** Appends a field of a csv line, quoted where RFC 4180 asks for it. */
int ct_text_csv(const char *field, ct_str_t *out);
/** Appends the bytes of a text in base64 (RFC 4648). */
int ct_text_base64(const char *text, ct_str_t *out);
/** Decodes base64 in place, ignoring blanks and line ends; *len is the number of bytes, and a NUL
 * follows.  CT_ERR_ARG (nothing recorded): not base64. */
int ct_text_unbase64(char *text, size_t *len);
/** For "did you mean": the one of n candidates closest to \a word (Levenshtein distance ≤ 1/2 of
 * its length), or NULL. */
const char *ct_text_nearest(const char *word, const char *const *candidates, int n);
/** Parses a text that is a number as a whole: CT_OK, or CT_ERR_ARG (nothing recorded). */
int ct_text_int(const char *text, int64_t *out);
int ct_text_double(const char *text, double *out);
/** The shortest text that parses to the same number, into buf (returned). */
const char *ct_text_number(double value, char *buf, size_t cap);
/** "1.5 GiB", "12 KiB" into buf (returned). */
const char *ct_text_bytes(double bytes, char *buf, size_t cap);
/** "1h02m", "3m10s", "12.3 s" into buf (returned). */
const char *ct_text_seconds(double s, char *buf, size_t cap);
/** dir/name, or name if it is absolute. */
int ct_path_join(char *buf, size_t cap, const char *dir, const char *name);
/** Directory part ("." if none) into buf. */
int ct_path_dir(char *buf, size_t cap, const char *path);
/** Expands a path: $NAME and ${NAME} are environment variables, a leading ~ is $HOME, $$ is a
 * dollar.  CT_ERR_USAGE: a variable is not set or has a syntax error. */
int ct_path_expand(const char *text, char *out, size_t cap);
/** Appends a path, escaped so that ct_path_expand() returns it unchanged. */
int ct_path_escape(const char *path, ct_str_t *text);

#endif
