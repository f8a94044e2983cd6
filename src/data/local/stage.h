/** \file stage.h  One file of a stage.  Internal. */
#ifndef CT_DATA_STAGE_H
#define CT_DATA_STAGE_H
#include "data/local/ct_stage.h"

#define CT__STAGE_CURE "name another directory in data.stage, or unset it"
#define CT__STAGE_PART ".ctrain-part" /* how the names of copies end that are not whole yet */

/** How far the copying is. */
typedef struct ct__stage_pace {
  int64_t done, all; /**< bytes read or written; of all files, twice */
  double told_s;     /**< ct_clock() of the last line in the log */
  int copying; /**< the lock file, which shows those who wait that something moves; -1: none */
} ct__stage_pace_t;

/** 1 if \a copy seems to be one of \a f: of its length, with a checksum on record.  Nothing of it
 * is read. */
int ct__stage_has(const ct_stage_file_t *f, const char *copy);
/** Reads \a copy.  CT_ERR_IO unless it is what the record says. */
int ct__stage_check(const ct_stage_file_t *f, const char *copy, ct__stage_pace_t *pace);
/** Copies under another name, checks, writes the record, gives the name.  CT_ERR_IO */
int ct__stage_copy(const ct_stage_file_t *f, const char *copy, ct__stage_pace_t *pace);

#endif
