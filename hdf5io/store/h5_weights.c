/* The checkpoint container as a weight file: format table entry. */
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"
#include "weights/ct_weights_store.h"

static int weights_open_file(const char *path, const char *key, ct_weights_t **out)
{
  return ct_weights_store_open(&ct_store_hdf5, path, key, out);
}

static int create_file(const char *path, const ct_tensor_t *list, int n,
                       const ct_weights_text_t *text, int texts, ct_weights_out_t **out)
{
  return ct_weights_store_create(&ct_store_hdf5, path, list, n, text, texts, out);
}

const ct_weights_ops_t ct_weights_hdf5 = {
    .format = CT__H5_FORMAT,
    .open = weights_open_file,
    .count = ct_weights_store_count,
    .tensor = ct_weights_store_tensor,
    .read = ct_weights_store_read,
    .text = ct_weights_store_text,
    .remark = ct_weights_store_remark,
    .close = ct_weights_store_close,
    .create = create_file,
    .put = ct_weights_store_put,
    .commit = ct_weights_store_commit,
    .discard = ct_weights_store_discard,
};
