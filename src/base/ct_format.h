/** \file ct_format.h  Detects which of several formats a file has, and checks format versions.
 * Layer 0.  All functions are local.
 *
 * Each row of the table of sample readers or of checkpoint stores has one ct_format_t. */
#ifndef CT_FORMAT_H
#define CT_FORMAT_H
#include <stdint.h>
#include <stdio.h>

enum {
  CT_FORMAT_SUFFIXES = 4,
  CT_FORMATS = 16 /**< in a list, at most */
};

typedef struct ct_format {
  const char *name;                         /**< "HDF5" */
  const char *suffixes[CT_FORMAT_SUFFIXES]; /**< ".h5", …, NULL; new files get the first one */
  /** Returns 1 if a file, positioned at its beginning, has the format.  The position afterwards is
   * undefined; a read error shows in ferror().  NULL: the format has no files. */
  int (*probe)(FILE *f);
} ct_format_t;

/** 1 if \a path ends in one of the suffixes. */
int ct_format_has_suffix(const ct_format_t *f, const char *path);
/** *out is the index of the format of \a path among \a n formats: by its suffix, without opening
 * the file, else the first format whose probe recognizes its content.  CT_ERR_IO: it cannot be
 * read; CT_ERR_FORMAT names the file and the known formats. */
int ct_format_find(const ct_format_t *const formats[], int n, const char *path, int *out);

/** Checks the format version of a file that this program writes.  \a text is the file's version
 * string: \a kind, a blank and a number ("ctrain-hpc checkpoint 1").  Numbers up to \a known are
 * supported.  \a by: the program that wrote the file ("ctrain-hpc 0.1.0"), NULL if not known.
 * CT_ERR_NEWER names the file, both numbers and both programs; CT_ERR_FORMAT: \a text has another
 * form. */
int ct_format_number(const char *path, const char *text, const char *kind, int known,
                     const char *by);
/** Format versions of the JSON Lines files: the one written and the highest one read. */
enum { CT_FORMAT_METRICS = 1, CT_FORMAT_STUDY = 1, CT_FORMAT_SWEEP = 1 };
/** The same for a JSON Lines file, whose lines have the number as `format`; 0: they have none, as
 * in the first versions. */
int ct_format_line(const char *path, int64_t number, const char *kind, int known, const char *by);

#endif
