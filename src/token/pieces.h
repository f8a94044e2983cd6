/** \file pieces.h  Cuts text into the pieces that byte-pair encodings merge in.  Pure. */
#ifndef CT__TOKEN_PIECES_H
#define CT__TOKEN_PIECES_H
#include <stdint.h>

typedef enum { CT__GPT2, CT__CL100K, CT__LLAMA3, CT__O200K, CT__PATTERNS } ct__pattern_t;
extern const char *const ct__pattern_names[];

/** Classes of characters, as in unicode_ranges.h. */
enum ct__class {
  CT__SYMBOL,
  CT__UPPER, /**< upper or title case */
  CT__LOWER,
  CT__LETTER, /**< without case */
  CT__MARK,
  CT__NUMBER,
  CT__SPACE,
  CT__END /**< of the text */
};
/** Returns the class of a code point. */
int ct__class_of(uint32_t code);

/** Returns the length of the UTF-8 character at the beginning of a text of n > 0 bytes, and its
 * code point; 0: not valid; -1: the text ends in a character. */
int ct__utf8(const unsigned char *p, int64_t n, uint32_t *code);

/** Returns the end of the piece that begins at \a at < n.  *open is set to 1 if text behind the end
 * could change it, and stays otherwise. */
int64_t ct__piece_end(ct__pattern_t pattern, const char *text, int64_t n, int64_t at, int *open);

#endif
