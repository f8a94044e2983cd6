/** \file ct_format.h  Detects which of several formats a file has, and checks format versions.
 * Layer 0.  All functions are local.
 *
 * Each row of the table of sample readers or of checkpoint stores has one ct_format_t. */
#ifndef CT_FORMAT_H
#define CT_FORMAT_H
#include <stdint.h>
#include <stdio.h>

enum {
  CT_FORMAT_SUFFIXES = 5,
  CT_FORMATS = 16 /**< maximum number of formats in a list */
};

typedef struct ct_format {
  const char *name;                         /**< "HDF5" */
  const char *suffixes[CT_FORMAT_SUFFIXES]; /**< ".h5", …, NULL; new files get the first suffix */
  /** Returns 1 if a file, positioned at its beginning, has the format.  The position afterwards is
   * undefined; ferror() reports a read error.  NULL: the format does not use files. */
  int (*probe)(FILE *f);
} ct_format_t;

/** Returns 1 if \a path ends in one of the suffixes. */
int ct_format_has_suffix(const ct_format_t *f, const char *path);
/** Finds the format of \a path among \a n formats; *out is its index.  The suffix decides, without
 * opening the file; if none or several match, the first format whose probe recognizes the content
 * of the file, of those that match.  CT_ERR_IO: the file cannot be read; CT_ERR_FORMAT names the
 * file and the known formats. */
int ct_format_find(const ct_format_t *const formats[], int n, const char *path, int *out);

/** Returns advice for files of common types that are not supported, to append to a message; "":
 * none. */
const char *ct_format_cure(const char *path);

/** Checks the format version of a file that this program writes.  \a text is the file's version
 * string: \a kind, a blank and a number ("ctrain-hpc checkpoint 1").  Numbers up to \a known are
 * supported.  \a by: the program that wrote the file ("ctrain-hpc 0.1.0"), NULL if not known.
 * CT_ERR_NEWER names the file, both numbers and both programs; CT_ERR_FORMAT: \a text does not
 * have this form. */
int ct_format_number(const char *path, const char *text, const char *kind, int known,
                     const char *by);
/** Format versions of the JSON Lines files: the version that is written, which is also the highest
 * version that can be read. */
enum { CT_FORMAT_METRICS = 1, CT_FORMAT_STUDY = 1, CT_FORMAT_SWEEP = 1 };
/** Checks the format version of a JSON Lines file as ct_format_number() does.  \a number: the key
 * `format` of a line; 0: the line does not have this key, as in the first versions. */
int ct_format_line(const char *path, int64_t number, const char *kind, int known, const char *by);

#endif
