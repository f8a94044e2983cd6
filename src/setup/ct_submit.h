/** \file ct_submit.h  A command of a login node that hands its work to Slurm: the templates of
 * jobs/ begin the job and know what a site needs; here is which command that is.  Layer 5.  All
 * functions are local. */
#ifndef CT_SUBMIT_H
#define CT_SUBMIT_H
#include "setup/ct_command.h"

enum { CT_SUBMIT_WORDS = 256 };

/** The command; its text lies in a pool.  It is large: static. */
typedef struct ct_submit {
  const ct_args_t *a;
  char *word[CT_SUBMIT_WORDS + 1];
  int n;
  char pool[1 << 16];
  size_t used;
  char jobs[CT_PATH_MAX]; /**< directory of the templates */
  char self[CT_PATH_MAX]; /**< this program's file */
} ct_submit_t;

/** Whether --submit N is given, N into *out, else 0.  CT_ERR_USAGE: no such number, or --sbatch or
 * --dry-run without it. */
int ct_submit_wanted(const ct_args_t *a, int64_t *out);
/** Begins a command, and finds the directory with the template \a name: of CTRAIN_JOBS, beside the
 * program, or where `make install` puts it.  CT_ERR_USAGE: it is nowhere. */
int ct_submit_begin(const ct_args_t *a, const char *name, ct_submit_t *c);
int ct_submit_add(ct_submit_t *c, const char *text);
/** A file of the templates' directory. */
int ct_submit_add_file(ct_submit_t *c, const char *name);
/** The options for sbatch: those of --sbatch. */
int ct_submit_add_sbatch(ct_submit_t *c);
/** What the job's command is told: all that this one was told, but for what submits it. */
int ct_submit_add_own(ct_submit_t *c);
/** Becomes the command, and does not come back; with --dry-run prints it, as a shell would take it.
 */
int ct_submit_run(ct_submit_t *c);

#endif
