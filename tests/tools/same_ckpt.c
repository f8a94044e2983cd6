/* same_ckpt A B: exit 0 if every array of two checkpoints is the same to the bit. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include <stdio.h>
#include <string.h>

static int same_item(ct_store_t *a, ct_store_t *b, const char *name, const ct_shape_t *shape)
{
  int rc = CT_OK;
  ct_shape_t other;
  size_t bytes = ct_shape_bytes(shape);
  char *x = ct_mem_alloc(bytes, name), *y = ct_mem_alloc(bytes, name);
  CT_TRY(ct_store_hdf5.find(b, name, &other));
  if (other.dtype != shape->dtype || !ct_shape_same(shape, &other))
    CT_FAIL(CT_ERR_DIFFER, "%s has another shape", name);
  CT_TRY(ct_store_hdf5.get(a, name, shape, x));
  CT_TRY(ct_store_hdf5.get(b, name, shape, y));
  if (memcmp(x, y, bytes) != 0) CT_FAIL(CT_ERR_DIFFER, "%s has other values", name);
out:
  ct_mem_free(x);
  ct_mem_free(y);
  return rc;
}

int main(int argc, char **argv)
{
  int rc = CT_OK;
  ct_store_t *a = NULL, *b = NULL;
  if (argc != 3) return 2;
  CT_TRY(ct_store_hdf5.open(argv[1], &a));
  CT_TRY(ct_store_hdf5.open(argv[2], &b));
  if (ct_store_hdf5.count(a) != ct_store_hdf5.count(b))
    CT_FAIL(CT_ERR_DIFFER, "%d and %d arrays", ct_store_hdf5.count(a), ct_store_hdf5.count(b));
  for (int i = 0; i < ct_store_hdf5.count(a); i++) {
    ct_shape_t shape;
    const char *name = ct_store_hdf5.item(a, i, &shape);
    CT_TRY(same_item(a, b, name, &shape));
  }
out:
  if (rc != CT_OK) printf("%s\n", ct_err_last()->text);
  ct_store_hdf5.close(a);
  ct_store_hdf5.close(b);
  return rc != CT_OK;
}
