/** \file ct_ckpt.h  Checkpoints of a run: written behind the next steps, kept, found again.
 * Layer 3.
 *
 * One rank calls these functions; all are local.  A run directory's checkpoints/ holds
 * step-00000120.h5 … (the suffix is that of the store's format), and two texts: `latest` with the
 * newest one's name, `best` with that of the best one. */
#ifndef CT_CKPT_H
#define CT_CKPT_H
#include "conf/ct_opt.h"
#include "base/ct_text.h"
#include "ckpt/ct_score.h"
#include "ckpt/ct_store.h"

/** Words of `checkpoint.on_error`, in the order of its choices. */
typedef enum { CT_CKPT_STOP, CT_CKPT_CONTINUE } ct_ckpt_on_error_t;

/** Section `checkpoint`. */
typedef struct ct_ckpt_opts {
  int64_t every_epochs; /**< 0: never at epoch ends */
  int64_t every_steps;  /**< 0: never within epochs */
  int64_t keep;         /**< newest ones kept; 0: all */
  int best;             /**< ct_score_kind_t: by which evaluations the best one is kept too */
  int on_error;         /**< ct_ckpt_on_error_t */
} ct_ckpt_opts_t;
extern const ct_opt_t ct_ckpt_rows[];

/** One array of a checkpoint; data is plain, host. */
typedef struct ct_ckpt_item {
  char name[160]; /**< "/model/conv1.weight" */
  ct_shape_t shape;
  void *data; /**< borrowed */
} ct_ckpt_item_t;
typedef struct ct_ckpt_text {
  const char *name, *text; /**< "/meta/config"; borrowed */
} ct_ckpt_text_t;

/** What a write that ended well has made. */
typedef struct ct_ckpt_done {
  int64_t step;
  int64_t bytes;  /**< of the file */
  int best;       /**< 1: ct_ckpt_mark_best() */
  double write_s; /**< from ct_ckpt_save() until it was durable */
  char name[64];  /**< "step-00000120.h5" */
} ct_ckpt_done_t;

typedef struct ct_ckpt ct_ckpt_t;

/** Makes \a dir; removes temporaries that a crash left.  keep: newest ones kept, 0: all. */
int ct_ckpt_open(const char *dir, const ct_store_ops_t *ops, int64_t keep, ct_ckpt_t **out);
/** Begins to write step-%08d.SUFFIX in a thread of its own.  The write before must be over
 * (ct_ckpt_wait). The two lists are copied; the data and texts they point to are borrowed until the
 * write is over. A directory that was removed meanwhile is made anew, with a warning; too little
 * room for the file is told before anything is written.  When it is durable, `latest` is rewritten
 * and old ones go: of those up to this step the newest \a keep stay, this one among them; files of
 * other names are never touched.  After a failure all that was there stays, and nothing
 * half-written does. */
int ct_ckpt_save(ct_ckpt_t *c, int64_t step, const ct_ckpt_item_t *item, int items,
                 const ct_ckpt_text_t *text, int texts);
/** The next ct_ckpt_save() is of the best model so far: when it is durable `best` names it, and it
 * stays, whatever \a keep says, until `best` names another. */
void ct_ckpt_mark_best(ct_ckpt_t *c);
/** Waits for the write in progress; its result.  The text of a CT_ERR_IO says what is needed, what
 * is free and what to do.  CT_OK if there is none.  *done (may be NULL): the finished checkpoint
 * the first time it is asked for after the write, else NULL; borrowed until the next one. */
int ct_ckpt_wait(ct_ckpt_t *c, const ct_ckpt_done_t **done);
/** 1 if a write is still going on. */
int ct_ckpt_busy(const ct_ckpt_t *c);
/** Waits, frees; NULL is fine. */
void ct_ckpt_close(ct_ckpt_t *c);

/** The newest checkpoint in \a dir that opens and verifies; damaged ones are warned about and
 * passed over. *out is NULL (and CT_OK) if there is none at all; CT_ERR_FORMAT if there are some
 * but none is good; CT_ERR_NEWER: a newer version made it.  \a path gets its path. */
int ct_ckpt_newest(const char *dir, const ct_store_ops_t *ops, ct_store_t **out, char *path,
                   size_t cap);
/** The file that is meant: a file called `best` or `latest` stands for the one beside it that it
 * names, any other for itself.  CT_ERR_USAGE: a directory. */
int ct_ckpt_follow(const char *file, char *path, size_t cap);
/** Which checkpoint of a run. */
typedef enum {
  CT_CKPT_USUAL, /**< the best where checkpoint.best is on and there is one, else the newest */
  CT_CKPT_BEST,
  CT_CKPT_LATEST
} ct_ckpt_which_t;
/** That one of the checkpoints in \a dir; the newest is the newest good one (ct_ckpt_newest()).
 * *path is "" if there is none at all.  CT_ERR_USAGE: CT_CKPT_BEST, and there is no best one. */
int ct_ckpt_of_run(const ct_store_ops_t *ops, const char *dir, ct_ckpt_which_t which,
                   int best_is_on, char *path, size_t cap);
/** A checkpoint that is open for reading. */
typedef struct ct_ckpt_found {
  const ct_store_ops_t *ops;
  ct_store_t *store; /**< owned; NULL: there is none */
  char path[CT_PATH_MAX];
} ct_ckpt_found_t;
/** Opens \a file in its format (ct_format_find()), by one of \a stores, which end in NULL; without
 * a file (NULL) the newest of \a dir (ct_ckpt_newest()), where the first of them writes.  The
 * file is followed (ct_ckpt_follow()). */
int ct_ckpt_find(const ct_store_ops_t *const stores[], const char *file, const char *dir,
                 ct_ckpt_found_t *out);
/** A zeroed one is fine. */
void ct_ckpt_found_close(ct_ckpt_found_t *c);

/** A run goes on from \a step: later checkpoints in \a dir (damaged ones, or of a run that was
 * begun anew) become NAME.aside, so that no later resume takes them for this run's; if there is
 * one, NAME.aside.2 and so on: none is ever written over.  If `best` names one of those it names
 * that of step \a best again (0: there is none), or goes.  A missing \a dir is fine. */
int ct_ckpt_set_aside(const char *dir, const ct_store_ops_t *ops, int64_t step, int64_t best);

#endif
