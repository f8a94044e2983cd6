/** \file choices.h  Choices of autotuning: for each op, as text, the fastest algorithm.
 * Module-internal.
 *
 * A device has one table (dev->choices). It is read from a file of cuda.cache when the device is
 * opened, and new choices are written there, so that the next run computes with the same algorithms
 * and gets the same bits. The table of rank 0 is sent to the other ranks before they prepare their
 * ops. File and message have the same format:
 *
 *     ctrain-hpc: choices of autotuning, 1
 *     <environment>
 *     <hash> <bytes>            of the rest
 *     <length of key> <length of value>
 *     <key><value>              and so on
 */
#ifndef GPU_CHOICES_H
#define GPU_CHOICES_H
#include "base/ct_text.h"

typedef struct gpu__choices gpu__choices_t;

/** Pure. Returns the index of the fastest of \a n candidates, by their times ms[n]; INFINITY: the
 * candidate failed; -1: all failed. The first one, which is the library's choice, stays unless
 * another needs 3% less time: smaller differences are within the noise of timings. */
int gpu__choices_fastest(const float *ms, int n);

/** Local. Makes a table. \a environment: one line with everything besides the op that choices
 * depend on: the model of the GPU and the versions of driver and libraries. \a dir: directory of
 * the file; "": none. A file that is damaged or of another environment is ignored with a
 * warning. */
int gpu__choices_open(const char *environment, const char *dir, gpu__choices_t **out);
/** Frees a table, which may be NULL, as in all functions here: an empty table. */
void gpu__choices_close(gpu__choices_t *c);

/** Returns the choice for \a key, valid until the table changes; NULL: none. */
const char *gpu__choices_find(const gpu__choices_t *c, const char *key);
/** Local. Adds a choice, or replaces it. \a timed 0: there was no memory to time candidates in; the
 * choice holds for all ranks of this run, but is not stored. */
int gpu__choices_add(gpu__choices_t *c, const char *key, const char *value, int timed);
/** Local. Writes the choices added since the last call to the file, together with those that other
 * processes have written there. Only warns, once, if that fails. */
void gpu__choices_save(gpu__choices_t *c);

/** Local. Appends the whole table as text. */
int gpu__choices_text(const gpu__choices_t *c, ct_str_t *out);
/** Local. Adds the choices of such a text, which replace those of the table. CT_ERR_DIFFER: the
 * text is of another environment; CT_ERR_FORMAT: it is damaged. */
int gpu__choices_take(gpu__choices_t *c, const char *text, size_t bytes);

#endif
