/** \file ct_stage.h  Copies of the files of data sets on a disk of this node.  Layer 2.  Everything
 * is local.
 *
 * One process of a node opens a stage and keeps it open while the ranks of the node read the
 * copies.  They lie in DIR/ctrain-stage-HASH, with the hash of the user and of the files' paths,
 * sizes and times; beside each copy lies NAME.sum with its length and checksum.  So a run that
 * comes back to a node takes over what is there and whole, and runs of one user with the same files
 * share it.
 *
 * Two files in the directory are locked with flock(), whose locks end with the process: `users` is
 * shared by all that have the stage open, and the last of them removes the directory; `copying` is
 * held by the one that copies, while others wait to take over what it has made. */
#ifndef CT_STAGE_H
#define CT_STAGE_H
#include <stddef.h>
#include <stdint.h>

/** A file as it is where it comes from. */
typedef struct ct_stage_file {
  const char *path; /**< borrowed */
  int64_t bytes;
  int64_t mtime_ns; /**< when it was changed last */
} ct_stage_file_t;

typedef struct ct_stage ct_stage_t;

/** Replaces $NAME and ${NAME} by variables of the environment and a first ~ by $HOME.  CT_ERR_USAGE
 * names the variable that is not set or empty; also if the result is no absolute path. */
int ct_stage_expand(const char *text, char *out, size_t cap);
/** Fills in size and time of f->path.  CT_ERR_IO */
int ct_stage_look(ct_stage_file_t *f);

/** Makes the copies below \a dir (which is made, if need be), and reads each again to check it.
 * Calls ct_beat_progress() as it goes; each half minute a line in rank 0's log.  CT_ERR_IO, before
 * anything is copied: not enough room, or the directory is not ours to write; later: a source that
 * is gone or has changed, a disk that fails.  After an error nothing of this process is left
 * there. */
int ct_stage_open(const char *dir, const ct_stage_file_t *files, int n, ct_stage_t **out);
/** Where the copies lie.  Borrowed. */
const char *ct_stage_dir(const ct_stage_t *s);
/** Bytes that had to be copied; those of files that were there already do not count. */
int64_t ct_stage_copied(const ct_stage_t *s);
/** The copy of \a path in \a stage_dir, into \a out. */
int ct_stage_path(const char *stage_dir, const char *path, char *out, size_t cap);
/** The copies are used no more: unless \a keep, the last user removes them, and a warning says what
 * stays in spite of that.  NULL is fine. */
void ct_stage_close(ct_stage_t *s, int keep);

#endif
