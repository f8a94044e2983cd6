/** \file ct_text.h  Bounded text and paths.  Layer 0. */
#ifndef CT_TEXT_H
#define CT_TEXT_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define CT_PATH_MAX 4096

/** A growing string.  {0} is an empty string; data is NULL or NUL-terminated; freed by
 * ct_str_clear(). */
typedef struct ct_str {
  char *data;
  size_t len, cap;
} ct_str_t;
/** Appends formatted text; CT_OK or CT_ERR_NOMEM. */
int ct_str_add(ct_str_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ct_str_clear(ct_str_t *s);

/** Formats text as snprintf does and checks its size.  CT_ERR_USAGE ("name too long"), since names
 * come from the user. */
int ct_text_format(char *buf, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Format a message as vsnprintf does.  A text that does not fit is shortened in the middle of its
 * longest words ("/very/long/…/tail.h5"), so that both ends and all short words stay.  UTF-8
 * characters stay whole.  \a cap is at least 1; if it is below 41, the end of the text is cut off.
 */
void ct_text_vfit(char *buf, size_t cap, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));
void ct_text_fit(char *buf, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Returns the length in bytes of the UTF-8 character at \a text, and sets *code to its code point;
 * 0: not valid UTF-8, or end of the text. */
int ct_text_utf8(const char *text, uint32_t *code);
/** Returns 1 if the whole text is UTF-8. */
int ct_text_is_utf8(const char *text);
/** Returns 1 if the text is valid as the name of a file or directory on any file system: UTF-8 of 1
 * to 255 bytes without '/' and control characters, not "." or "..". */
int ct_text_is_name(const char *text);
/** Returns a copy with '?' for bytes that are not UTF-8, as JSON requires; the caller frees it with
 * ct_mem_free().  NULL: out of memory. */
char *ct_text_utf8_copy(const char *text);
/** Appends a field of a csv line, quoted where RFC 4180 asks for it. */
int ct_text_csv(const char *field, ct_str_t *out);
/** Appends the bytes of a text in base64 (RFC 4648). */
int ct_text_base64(const char *text, ct_str_t *out);
/** Decodes base64 in place, ignoring blanks and line ends; *len is the number of bytes, and a NUL
 * follows.  CT_ERR_ARG (nothing recorded): not base64. */
int ct_text_unbase64(char *text, size_t *len);
/** Returns the most similar of n candidates to a misspelt word, for "did you mean": its Levenshtein
 * distance to \a word is at most half the length of \a word; NULL: none is that similar. */
const char *ct_text_nearest(const char *word, const char *const *candidates, int n);
/** Parse a text that must be one number from its first to its last character.  CT_ERR_ARG (nothing
 * recorded): the text is not a number. */
int ct_text_int(const char *text, int64_t *out);
int ct_text_double(const char *text, double *out);
/** Parses a size in bytes: a number above 0, with K, M, G or T for powers of 1024 (as in Slurm's
 * --mem), in either case, with or without B or iB after it: "8G", "1.5GiB".
 * CT_ERR_ARG (nothing recorded): the text is not a size. */
int ct_text_size(const char *text, size_t *out);
/** Writes the shortest text that parses to the same number to buf (returned). */
const char *ct_text_number(double value, char *buf, size_t cap);
/** Writes a number of bytes, such as "1.5 GiB" or "12 KiB", to buf (returned). */
const char *ct_text_bytes(double bytes, char *buf, size_t cap);
/** Writes a duration, such as "1h02m", "3m10s" or "12.3 s", to buf (returned). */
const char *ct_text_seconds(double s, char *buf, size_t cap);
/** Writes dir/name to buf, or \a name if it is an absolute path. */
int ct_path_join(char *buf, size_t cap, const char *dir, const char *name);
/** Writes the directory part of a path ("." if it has none) to buf. */
int ct_path_dir(char *buf, size_t cap, const char *path);
/** Expands a path: $NAME and ${NAME} are environment variables, a leading ~ is $HOME, $$ is a
 * dollar.  CT_ERR_USAGE: a variable is not set or has a syntax error. */
int ct_path_expand(const char *text, char *out, size_t cap);
/** Appends a path, escaped so that ct_path_expand() returns it unchanged. */
int ct_path_escape(const char *path, ct_str_t *text);

#endif
