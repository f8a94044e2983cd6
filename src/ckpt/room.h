/** \file room.h  Is there room for a checkpoint, and what to do if not.  Internal; pure. */
#ifndef CT_CKPT_ROOM_H
#define CT_CKPT_ROOM_H
#include "ckpt/ct_ckpt.h"

/** Bytes that a file of these items has at least. */
int64_t ct__room_needed(const ct_ckpt_item_t *item, int items, const ct_ckpt_text_t *text,
                        int texts);
/** What to do about an error, by the operating system's words in its text; "" if that is not
 * known. */
const char *ct__room_cure(const char *error);
/** The sentence for the user into buf (returned): the error, bytes needed and free (-1: unknown),
 * the cure. */
const char *ct__room_explain(const char *error, int64_t needed, int64_t free, char *buf,
                             size_t cap);

#endif
