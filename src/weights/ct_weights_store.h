/** \file ct_weights_store.h  A checkpoint as a weight file, for any store. Layer 3.
 *
 * The entries of ct_weights_ops_t have no argument for a store, so each store builds its own table
 * from these functions, plus two wrappers for open and create that pass the store. All are local
 * and behave as described in ct_weights.h. */
#ifndef CT_WEIGHTS_STORE_H
#define CT_WEIGHTS_STORE_H
#include "ckpt/ct_store.h"
#include "weights/ct_weights.h"

/** Opens a checkpoint. key: group of the arrays, such as "optim/exp_avg"; NULL or "": "model"; "/":
 * all arrays, under their full names. CT_ERR_FORMAT: the group has no arrays. */
int ct_weights_store_open(const ct_store_ops_t *ops, const char *path, const char *key,
                          ct_weights_t **out);
int ct_weights_store_count(const ct_weights_t *w);
void ct_weights_store_tensor(const ct_weights_t *w, int i, ct_tensor_t *out);
/** Reads whole tensors, verifies their checksum, and caches the last one. */
int ct_weights_store_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
/** Returns a text; "config" is the text /meta/config. */
const char *ct_weights_store_text(const ct_weights_t *w, const char *name);
const char *ct_weights_store_remark(const ct_weights_t *w);
void ct_weights_store_close(ct_weights_t *w);

/** Starts to write. CT_ERR_FORMAT names a tensor whose type or number of dims the store does not
 * support. */
int ct_weights_store_create(const ct_store_ops_t *ops, const char *path, const ct_tensor_t *list,
                            int n, const ct_weights_text_t *text, int texts,
                            ct_weights_out_t **out);
int ct_weights_store_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct_weights_store_commit(ct_weights_out_t *o);
void ct_weights_store_discard(ct_weights_out_t *o);

#endif
