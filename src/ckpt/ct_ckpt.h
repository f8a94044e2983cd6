/** \file ct_ckpt.h  Checkpoints of a run: written in the background, rotated, found again. Layer 3.
 *
 * All functions are local; one rank calls them. The directory checkpoints/ of a run holds
 * step-00000120.h5 and so on (the suffix depends on the store's format) and two text files:
 * `latest` with the name of the newest checkpoint, `best` with that of the best one. */
#ifndef CT_CKPT_H
#define CT_CKPT_H
#include "conf/ct_opt.h"
#include "base/ct_text.h"
#include "ckpt/ct_score.h"
#include "ckpt/ct_store.h"

/** Choices of `checkpoint.on_error`, in their order. */
typedef enum { CT_CKPT_STOP, CT_CKPT_CONTINUE } ct_ckpt_on_error_t;

/** Options of the section `checkpoint`. */
typedef struct ct_ckpt_opts {
  int64_t every_epochs; /**< 0: never at epoch ends */
  int64_t every_steps;  /**< 0: never within epochs */
  int64_t keep;         /**< number of newest checkpoints kept; 0: all */
  int best;             /**< ct_score_kind_t: the score that selects the best checkpoint, which is
                           kept too */
  int on_error;         /**< ct_ckpt_on_error_t */
} ct_ckpt_opts_t;
extern const ct_opt_t ct_ckpt_rows[];

/** One array of a checkpoint; data is in host memory, plain layout. */
typedef struct ct_ckpt_item {
  char name[160]; /**< "/model/conv1.weight" */
  ct_shape_t shape;
  void *data; /**< borrowed */
} ct_ckpt_item_t;
typedef struct ct_ckpt_text {
  const char *name; /**< such as "/meta/config"; borrowed */
  const char *text; /**< borrowed */
} ct_ckpt_text_t;

/** Result of a successful write. */
typedef struct ct_ckpt_done {
  int64_t step;
  int64_t bytes;  /**< file size */
  int best;       /**< 1: it holds the best model so far (ct_ckpt_mark_best()) */
  double write_s; /**< seconds from ct_ckpt_save() until the file was durable */
  char name[64];  /**< "step-00000120.h5" */
} ct_ckpt_done_t;

typedef struct ct_ckpt ct_ckpt_t;

/** Creates \a dir and removes temporary files left by a crash. keep: number of newest checkpoints
 * kept, 0: all. *out is owned by the caller. */
int ct_ckpt_open(const char *dir, const ct_store_ops_t *ops, int64_t keep, ct_ckpt_t **out);
/** Starts to write step-%08d.SUFFIX in a background thread. The previous write must be complete
 * (ct_ckpt_wait). The two lists are copied; the data and texts that they point to are borrowed
 * until the write is complete. A directory that was removed meanwhile is created again, with a
 * warning. Insufficient disk space is reported before anything is written. Once the file is
 * durable, `latest` is updated and old checkpoints are removed: the newest \a keep of the
 * checkpoints up to this step remain, including this one; other files are never touched. After a
 * failure all earlier checkpoints remain, and the partial file is removed. */
int ct_ckpt_save(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                 const ct_ckpt_text_t *text, int texts);
/** Starts to write a checkpoint whose arrays nobody has in memory together: item[] has their names
 * and shapes; ct_ckpt_put() then writes each of them, in this order, and ct_ckpt_end() makes the
 * file durable in a background thread. A failure to write is returned by ct_ckpt_wait(), as that of
 * ct_ckpt_save(); a directory that is removed meanwhile is one. */
int ct_ckpt_begin(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                  const ct_ckpt_text_t *text, int texts);
void ct_ckpt_put(ct_ckpt_t *c, const ct_ckpt_item_t *item);
int ct_ckpt_end(ct_ckpt_t *c);
/** Removes the file of ct_ckpt_begin() instead of ct_ckpt_end(). */
void ct_ckpt_cancel(ct_ckpt_t *c);
/** Marks the next ct_ckpt_save() or ct_ckpt_begin() as the best model so far: once it is durable,
 * `best` names it, and it is kept, whatever \a keep is, until `best` names another one. */
void ct_ckpt_mark_best(ct_ckpt_t *c);
/** Waits for the write in progress and returns its result; CT_OK if nothing is being written. The
 * text of a CT_ERR_IO states the bytes needed, the bytes free and what to do. *done (may be NULL):
 * the finished checkpoint, on the first call after its write, else NULL; borrowed until the next
 * call. */
int ct_ckpt_wait(ct_ckpt_t *c, const ct_ckpt_done_t **done);
/** Returns 1 if a write is in progress. */
int ct_ckpt_busy(const ct_ckpt_t *c);
/** Waits for the write in progress and frees \a c, which may be NULL. */
void ct_ckpt_close(ct_ckpt_t *c);

/** Opens the newest checkpoint in \a dir that passes verification; skips damaged ones with a
 * warning. If \a dir contains no checkpoints, returns CT_OK and sets *out to NULL. CT_ERR_FORMAT:
 * all checkpoints are damaged; CT_ERR_NEWER: the newest one was written by a newer version. \a path
 * receives the path of the opened checkpoint. */
int ct_ckpt_newest(const char *dir, const ct_store_ops_t *ops, ct_store_t **out, char *path,
                   size_t cap);
/** Resolves a file called `best` or `latest` to the checkpoint in the same directory that it names.
 * For any other file returns its own path. CT_ERR_USAGE: \a file is a directory. */
int ct_ckpt_follow(const char *file, char *path, size_t cap);
/** Which checkpoint of a run to use. */
typedef enum {
  CT_CKPT_USUAL, /**< the best one if checkpoint.best is on and it exists, else the newest */
  CT_CKPT_BEST,
  CT_CKPT_LATEST
} ct_ckpt_which_t;
/** Writes the path of the selected checkpoint in \a dir to \a path; "" if \a dir contains no
 * checkpoints. The newest one is the newest that passes verification (ct_ckpt_newest()).
 * CT_ERR_USAGE: \a which is CT_CKPT_BEST, but the run did not keep a best checkpoint. */
int ct_ckpt_of_run(const ct_store_ops_t *ops, const char *dir, ct_ckpt_which_t which,
                   int best_is_on, char *path, size_t cap);
/** A checkpoint that is open for reading. */
typedef struct ct_ckpt_found {
  const ct_store_ops_t *ops;
  ct_store_t *store; /**< owned; NULL: none */
  char path[CT_PATH_MAX];
} ct_ckpt_found_t;
/** Opens \a file, resolved by ct_ckpt_follow(), with the store of its format (ct_format_find()) in
 * \a stores, which end with NULL. If \a file is NULL, opens the newest checkpoint in \a dir
 * (ct_ckpt_newest()) with the first store. */
int ct_ckpt_find(const ct_store_ops_t *const stores[], const char *file, const char *dir,
                 ct_ckpt_found_t *out);
/** Closes the checkpoint; \a c may be all zero: nothing to free. */
void ct_ckpt_found_close(ct_ckpt_found_t *c);

/** Call when a run resumes from \a step: renames later checkpoints in \a dir (damaged ones, or from
 * a run that was restarted) to NAME.aside, or NAME.aside.2 and so on if that exists, so that no
 * later resume uses them. Nothing is overwritten. If `best` names a renamed checkpoint, `best` is
 * reset to the checkpoint of step \a best, or removed if \a best is 0. Does nothing if \a dir does
 * not exist. */
int ct_ckpt_set_aside(const char *dir, const ct_store_ops_t *ops, int64_t step, int64_t best);

#endif
