/** \file labels.h  The one rule for labels that are written as text, whatever they come from.
 * Internal.
 *
 * Labels that are all integers are class numbers as they are: 7, +7, 7.0, "7", between blanks or
 * behind a byte order mark.  -100, PyTorch's ignore_index, is a label that no class has.  Labels of
 * which none is a number are names of classes, numbered in natural order ("cat2" before "cat10").
 * An error, which names the place: names and numbers together, other negative numbers, numbers that
 * are no integers (0.5, nan, 0x10), nothing at all. */
#ifndef CT_PACK_LABELS_H
#define CT_PACK_LABELS_H
#include <stddef.h>
#include <stdint.h>

#define CT__PACK_IGNORED (-100)

typedef struct ct__pack_labels {
  int only_names; /**< set before the first label: they are names, whatever they look like */
  int64_t n;
  int32_t *number; /**< [n] class numbers; of names only after ct__pack_labels_finish() */
  int64_t classes; /**< highest number + 1, or how many names there are */
  char *text;      /**< names one after the other, each with its NUL */
  int64_t class_names;
  int64_t *class_name; /**< [class_names] places in \a text, after ct__pack_labels_finish() */
  /* the rest is internal */
  int64_t cap, text_bytes, text_cap, name_cap;
  int64_t *name;   /**< [n] the name of each label, as a place in \a text; NULL: numbers */
  char first[320]; /**< the first label, and where it stands */
} ct__pack_labels_t;

/** What a label's text is.  *text becomes the label without blanks, quotes and byte order mark, cut
 * in place. */
typedef enum {
  CT__LABEL_NAME,
  CT__LABEL_NUMBER,
  CT__LABEL_EMPTY,
  CT__LABEL_OTHER_NUMBER /**< 0.5, nan, 0x10, -1, 1e20: no class number, and no name */
} ct__label_kind_t;
ct__label_kind_t ct__pack_label_kind(char **text, int64_t *number);

/** One more label; its text is cut in place.  \a where begins the error: "labels.csv:3". */
int ct__pack_labels_add(ct__pack_labels_t *l, char *text, const char *where);
/** Numbers the names, and says so in a line that begins with \a of.  CT_ERR_FORMAT: no label is
 * that of a class. */
int ct__pack_labels_finish(ct__pack_labels_t *l, const char *of);
void ct__pack_labels_clear(ct__pack_labels_t *l);

/** strcmp() in which runs of digits are compared as numbers; texts that differ are never equal. */
int ct__pack_natural(const char *a, const char *b);

#endif
