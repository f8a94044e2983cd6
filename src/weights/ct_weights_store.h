/** \file ct_weights_store.h  A checkpoint as a weight file, by any store.  Layer 3.
 *
 * A row of operations (ct_weights_ops_t) has no room for a store: who has one makes a row of these
 * functions, with two of its own that name the store.  All are local, and do as ct_weights.h tells.
 */
#ifndef CT_WEIGHTS_STORE_H
#define CT_WEIGHTS_STORE_H
#include "ckpt/ct_store.h"
#include "weights/ct_weights.h"

/** key: the group whose arrays are meant, "optim/exp_avg"; NULL or "": "model"; "/": all, by their
 * whole names.  CT_ERR_FORMAT: there is no such array. */
int ct_weights_store_open(const ct_store_ops_t *ops, const char *path, const char *key,
                          ct_weights_t **out);
int ct_weights_store_count(const ct_weights_t *w);
void ct_weights_store_tensor(const ct_weights_t *w, int i, ct_tensor_t *out);
/** Keeps the tensor that was read last: it is read whole, with its checksum. */
int ct_weights_store_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
/** "config" is /meta/config. */
const char *ct_weights_store_text(const ct_weights_t *w, const char *name);
const char *ct_weights_store_remark(const ct_weights_t *w);
void ct_weights_store_close(ct_weights_t *w);

/** CT_ERR_FORMAT names a tensor whose type or dims a store does not know. */
int ct_weights_store_create(const ct_store_ops_t *ops, const char *path, const ct_tensor_t *list,
                            int n, const ct_weights_text_t *text, int texts,
                            ct_weights_out_t **out);
int ct_weights_store_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct_weights_store_commit(ct_weights_out_t *o);
void ct_weights_store_discard(ct_weights_out_t *o);

#endif
