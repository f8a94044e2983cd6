/** \file ct_format.h  Which of several formats a file has.  Layer 0.  All functions are local.
 *
 * Lists of what reads or writes files (readers of samples, stores of checkpoints) have one of these
 * in each row. */
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
  /** 1 if a file, which is at its beginning, is of the format.  Leaves it anywhere, and an error of
   * reading in ferror().  NULL: has no files. */
  int (*probe)(FILE *f);
} ct_format_t;

/** 1 if \a path ends in one of the suffixes. */
int ct_format_has_suffix(const ct_format_t *f, const char *path);
/** *out is the number of the format of \a path among \a n: the one that has its suffix, and the
 * file is not touched then; else the first one that knows it by what is in it.  CT_ERR_IO: it
 * cannot be read; CT_ERR_FORMAT names the file and the formats that there are. */
int ct_format_find(const ct_format_t *const formats[], int n, const char *path, int *out);

/** Checks the number of a format of this program's own.  \a text is what the file says: \a kind, a
 * blank and a number ("ctrain-hpc checkpoint 1"); numbers up to \a known can be read.  \a by: what
 * wrote the file, as far as that is known ("ctrain-hpc 0.1.0"), else NULL.  CT_ERR_NEWER names the
 * file, both numbers and both versions; CT_ERR_FORMAT: \a text is something else. */
int ct_format_number(const char *path, const char *text, const char *kind, int known,
                     const char *by);
/** Numbers of the files of JSON lines: what is written, and the highest that is read. */
enum { CT_FORMAT_METRICS = 1, CT_FORMAT_STUDY = 1, CT_FORMAT_SWEEP = 1 };
/** The same of a file of JSON lines, whose lines say the number as `format`; 0: they say none, as
 * before there were numbers. */
int ct_format_line(const char *path, int64_t number, const char *kind, int known, const char *by);

#endif
