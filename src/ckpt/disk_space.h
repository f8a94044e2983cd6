/** \file disk_space.h  Disk space check for checkpoints, with advice. Internal; pure. */
#ifndef CT_CKPT_DISK_SPACE_H
#define CT_CKPT_DISK_SPACE_H
#include "ckpt/ct_ckpt.h"

/** Returns the minimum size in bytes of a checkpoint file with these items. */
int64_t ct__space_needed(const ct_ckpt_item_t *item, int items, const ct_ckpt_text_t *text,
                         int texts);
/** Returns advice for an error, chosen by the operating system's message in its text; "" for an
 * error without known advice. */
const char *ct__space_cure(const char *error);
/** Writes an error message for the user to buf and returns it: the error, bytes needed and free
 * (-1: unknown), and advice. */
const char *ct__space_explain(const char *error, int64_t needed, int64_t free, char *buf,
                              size_t cap);

#endif
