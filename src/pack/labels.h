/** \file labels.h  The interpretation of labels that are written as text, common to all sources.
 * Internal.
 *
 * If all labels are integers, they are class numbers: 7, +7, 7.0, "7", also between blanks or after
 * a byte order mark. -100, PyTorch's ignore_index, marks a sample without a class.  If no label is
 * a number, they are class names, numbered in natural order ("cat2" before "cat10").  Errors, which
 * name the position: a mixture of names and numbers, other negative numbers, numbers that are not
 * integers (0.5, nan, 0x10), an empty label. */
#ifndef CT_PACK_LABELS_H
#define CT_PACK_LABELS_H
#include <stddef.h>
#include <stdint.h>

#define CT__PACK_IGNORED (-100)

typedef struct ct__pack_labels {
  int only_names; /**< set before the first label; 1: all labels are names, even if they look like
                     numbers */
  int64_t n;
  int32_t *number; /**< [n] class numbers; for names set by ct__pack_labels_finish() */
  int64_t classes; /**< highest number + 1, or the number of names */
  char *text;      /**< concatenated names, each with its NUL */
  int64_t class_names;
  int64_t *class_name; /**< [class_names] offsets in \a text, set by ct__pack_labels_finish() */
  /* the rest is internal */
  int64_t cap, text_bytes, text_cap, name_cap;
  int64_t *name;   /**< [n] the name of each label, as an offset in \a text; NULL: numbers */
  char first[320]; /**< the first label and its position */
} ct__pack_labels_t;

/** The kind of a label's text.  *text becomes the label without blanks, quotes and byte order mark,
 * trimmed in place. */
typedef enum {
  CT__LABEL_NAME,
  CT__LABEL_NUMBER,
  CT__LABEL_EMPTY,
  CT__LABEL_OTHER_NUMBER /**< 0.5, nan, 0x10, -1, 1e20: neither a class number nor a name */
} ct__label_kind_t;
ct__label_kind_t ct__pack_label_kind(char **text, int64_t *number);

/** Adds a label; its text is trimmed in place.  \a where is the prefix of errors:
 * "labels.csv:3". */
int ct__pack_labels_add(ct__pack_labels_t *l, char *text, const char *where);
/** Numbers the class names, and logs a line about them that begins with \a of.  CT_ERR_FORMAT:
 * every label is -100. */
int ct__pack_labels_finish(ct__pack_labels_t *l, const char *of);
void ct__pack_labels_clear(ct__pack_labels_t *l);

/** Compares two texts as strcmp() does, but runs of digits as numbers; different texts are never
 * equal. */
int ct__pack_natural(const char *a, const char *b);

#endif
