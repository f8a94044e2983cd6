/** \file ct_err.h  Error codes, the last-error record and the control-flow macros.  Layer 0.
 *
 * A function that can fail returns CT_OK or one of the negative codes.  The text is recorded once,
 * where the failure is first noticed; callers pass the code on.  Cleanup has one form in the whole
 * project: one local `int rc`, one label `out:`, one return.
 *
 * Three contracts, named in the header of every function that can fail:
 *  - Local: this rank may fail alone.
 *  - Collective: all ranks call it in the same order, and it returns the same code on all.
 *  - Hot: inside a training step; a failure is recorded in the step status, by which all ranks
 *    learn of it at the end of the step. */
#ifndef CT_ERR_H
#define CT_ERR_H
#include <stdarg.h>

#define CT_ERR_LIST(X)                                             \
  X(CT_ERR_USAGE, "wrong usage or configuration")                  \
  X(CT_ERR_ARG, "bad argument")                                    \
  X(CT_ERR_SHAPE, "shapes do not fit together")                    \
  X(CT_ERR_NOMEM, "out of memory")                                 \
  X(CT_ERR_IO, "file could not be read or written")                \
  X(CT_ERR_FORMAT, "file content is not what was expected")        \
  X(CT_ERR_NEWER, "file was made by a newer version")              \
  X(CT_ERR_DATA, "a sample or label is not valid")                 \
  X(CT_ERR_NONFINITE, "a loss or gradient is not finite")          \
  X(CT_ERR_UNSUP, "not supported by this backend or build")        \
  X(CT_ERR_DEVICE, "a device or its library failed")               \
  X(CT_ERR_COMM, "MPI or NCCL failed")                             \
  X(CT_ERR_DIFFER, "ranks disagree on a value that must be equal") \
  X(CT_ERR_FAULT, "injected fault")

enum ct_err_code {
  CT_OK = 0,
  CT_ERR_FIRST_ = -100, /* codes are negative and grow towards 0 */
#define X(name, text) name,
  CT_ERR_LIST(X)
#undef X
      CT_ERR_LAST_
};

/** An error, recorded where it was first noticed.  Fixed size: ranks exchange it as bytes. */
#define CT_ERR_TEXT 600

typedef struct ct_err_info {
  int code;
  int rank; /**< rank that failed first; -1 until the ranks have agreed on the error */
  int line;
  char file[44];
  char text[CT_ERR_TEXT];
} ct_err_info_t;

/** Local.  Record an error for this thread and return \a code.  The text names the file, the item
 * in the file and what was expected; the text is one sentence without a newline.  A text that does
 * not fit is shortened in the middle of its longest words, which are paths (ct_text_vfit()). */
int ct_err_set(int code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int ct_err_vset(int code, const char *file, int line, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));
/** Prepends to this thread's recorded text ("train.yaml:3: "); returns \a code. */
int ct_err_prefix(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Prepends the file and line of a key: "train.yaml:3: ", or "--set: " for line 0, which is the
 * command line; nothing if \a where is NULL.  Returns \a code. */
int ct_err_location(int code, const char *where, int line);
/** Appends to the recorded text (" (rank 3 on node7)"); the code stays. */
void ct_err_suffix(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Returns this thread's record, borrowed; it is valid until this thread's next ct_err_set(). */
const ct_err_info_t *ct_err_last(void);
/** Makes the record of another thread or rank this thread's own. */
void ct_err_put(const ct_err_info_t *info);
/** Returns the name of a code, such as "CT_ERR_IO"; never NULL. */
const char *ct_err_name(int code);
/** Returns the text of a code from CT_ERR_LIST; never NULL. */
const char *ct_err_meaning(int code);
/** Returns the exit status for a code: 0 for CT_OK, 2 for CT_ERR_USAGE, 1 for all other codes. */
int ct_err_exit_status(int code);

#define CT_FAIL(code, ...)                                    \
  do {                                                        \
    rc = ct_err_set((code), __FILE__, __LINE__, __VA_ARGS__); \
    goto out;                                                 \
  } while (0)
#define CT_TRY(call)                      \
  do {                                    \
    if ((rc = (call)) != CT_OK) goto out; \
  } while (0)

#endif
