/* A checkpoint as a weight file: the arrays below "/model/" of a store, under their state dict
 * names.
 *
 * A store reads and writes whole arrays, each with a checksum; one array is buffered here, so that
 * memory use stays near the largest tensor. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "weights/ct_weights_store.h"

/* ---- reading ---- */

/* Optional texts of a checkpoint: "config" is /meta/config. */
static const char *const texts[] = {"config", "versions", "conv1d"};
enum { TEXTS = sizeof texts / sizeof *texts };

typedef struct entry {
  const char *name; /* full name in the store */
  ct_shape_t shape;
} entry_t;

struct ct_weights {
  const ct_store_ops_t *ops;
  ct_store_t *store;
  char *group; /* "/model/" */
  entry_t *entry;
  int n;
  char *remark, *text[TEXTS];
  char *array; /* buffered array of entry `kept` ... */
  int kept;    /* ... or -1: none */
};

static int find_group(ct_weights_t *w, const char *key)
{
  int rc = CT_OK;
  ct_str_t group = {0}, remark = {0};
  const char *inside = key && *key ? key : "model";
  while (*inside == '/')
    inside++;
  CT_TRY(ct_str_add(&group, "/%s%s", inside, *inside ? "/" : ""));
  if (key && *key && *inside) CT_TRY(ct_str_add(&remark, "takes the arrays below '/%s'", inside));
out:
  w->group = group.data;
  w->remark = remark.data;
  return rc;
}

static int list_items(ct_weights_t *w, const char *path)
{
  int rc = CT_OK, all = w->ops->count(w->store);
  ct_shape_t shape;
  w->entry = ct_mem_array(all, sizeof *w->entry, "the tensors of a checkpoint");
  CT_TRY(w->entry ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < all; i++) {
    const char *name = w->ops->item(w->store, i, &shape);
    if (strncmp(name, w->group, strlen(w->group)) == 0) w->entry[w->n++] = (entry_t){name, shape};
  }
  if (w->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: no array found below '%s'", path, w->group);
out:
  return rc;
}

/* Reads the texts; ignores missing ones. */
static int read_texts(ct_weights_t *w)
{
  int rc = CT_OK;
  char name[64];
  for (int i = 0; i < TEXTS; i++) {
    CT_TRY(ct_text_format(name, sizeof name, "/meta/%s", texts[i]));
    if (w->ops->get_text(w->store, name, &w->text[i]) != CT_OK) w->text[i] = NULL;
  }
out:
  return rc;
}

void ct_weights_store_close(ct_weights_t *w)
{
  if (!w) return;
  if (w->store) w->ops->close(w->store);
  ct_mem_free(w->group);
  ct_mem_free(w->entry);
  ct_mem_free(w->remark);
  for (int i = 0; i < TEXTS; i++)
    ct_mem_free(w->text[i]);
  ct_mem_free(w->array);
  ct_mem_free(w);
}

int ct_weights_store_open(const ct_store_ops_t *ops, const char *path, const char *key,
                          ct_weights_t **out)
{
  int rc = CT_OK;
  ct_weights_t *w = ct_mem_alloc(sizeof *w, "a checkpoint");
  *out = NULL;
  if (!w) return CT_ERR_NOMEM;
  w->ops = ops;
  w->kept = -1;
  CT_TRY(find_group(w, key));
  CT_TRY(ops->open(path, &w->store));
  CT_TRY(list_items(w, path));
  CT_TRY(read_texts(w));
  *out = w;
  w = NULL;
out:
  ct_weights_store_close(w);
  return rc;
}

int ct_weights_store_count(const ct_weights_t *w)
{
  return w->n;
}

void ct_weights_store_tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  const entry_t *e = &w->entry[i];
  out->name = strcmp(w->group, "/") == 0 ? e->name : e->name + strlen(w->group);
  out->type = ct_elem_of_dtype(e->shape.dtype);
  out->ndim = e->shape.ndim;
  out->dim = e->shape.dim;
  out->count = ct_shape_count(&e->shape);
}

static int checkpoint_keep(ct_weights_t *w, int i)
{
  int rc = CT_OK;
  const entry_t *e = &w->entry[i];
  if (w->kept == i) return CT_OK;
  ct_mem_free(w->array);
  w->kept = -1;
  w->array = ct_mem_array(ct_shape_count(&e->shape), ct_dtype_size(e->shape.dtype), e->name);
  CT_TRY(w->array ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(w->ops->get(w->store, e->name, &e->shape, w->array));
  w->kept = i;
out:
  return rc;
}

int ct_weights_store_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  int rc = CT_OK;
  size_t size = ct_dtype_size(w->entry[i].shape.dtype);
  CT_TRY(checkpoint_keep(w, i));
  if (n > 0) memcpy(to, w->array + (size_t)first * size, (size_t)n * size);
out:
  return rc;
}

const char *ct_weights_store_text(const ct_weights_t *w, const char *name)
{
  for (int i = 0; i < TEXTS; i++)
    if (strcmp(texts[i], name) == 0) return w->text[i];
  return NULL;
}

const char *ct_weights_store_remark(const ct_weights_t *w)
{
  return w->remark;
}

/* ---- writing ---- */

struct ct_weights_out {
  const ct_store_ops_t *ops;
  ct_store_t *store;
  struct {
    char *name; /* owned */
    ct_shape_t shape;
  } * item;
  int n;
  char *array; /* the tensor being written ... */
  int64_t got; /* ... and the number of its elements received so far */
};

/* Converts a tensor's type and dims to the store's; fails if the store does not support them. */
static int checkpoint_describe(const char *path, const ct_tensor_t *t, ct_shape_t *out)
{
  int rc = CT_OK;
  *out = (ct_shape_t){.ndim = t->ndim};
  if (t->ndim > CT_MAX_DIMS || !ct_elem_dtype(t->type, &out->dtype))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: a checkpoint cannot hold '%s', %s of %d dims: expected up to %d dims of float32, "
            "float16, bfloat16, float64, uint8, int8, int16, int32 or int64",
            path, t->name, ct_elem_name(t->type), t->ndim, CT_MAX_DIMS);
  for (int k = 0; k < CT_MAX_DIMS; k++)
    out->dim[k] = k < t->ndim ? t->dim[k] : 1;
out:
  return rc;
}

static int take_item(ct_weights_out_t *o, const char *path, const ct_tensor_t *t)
{
  int rc = CT_OK;
  ct_str_t name = {0};
  CT_TRY(checkpoint_describe(path, t, &o->item[o->n].shape));
  CT_TRY(ct_str_add(&name, "/model/%s", t->name));
  o->item[o->n++].name = name.data;
out:
  return rc;
}

static int put_texts(ct_weights_out_t *o, const ct_weights_text_t *text, int n)
{
  int rc = CT_OK;
  char name[200];
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_text_format(name, sizeof name, "/meta/%s", text[i].name));
    CT_TRY(o->ops->put_text(o->store, name, text[i].text));
  }
out:
  return rc;
}

static void out_free(ct_weights_out_t *o)
{
  for (int i = 0; i < o->n; i++)
    ct_mem_free(o->item[i].name);
  ct_mem_free(o->item);
  ct_mem_free(o->array);
  ct_mem_free(o);
}

void ct_weights_store_discard(ct_weights_out_t *o)
{
  if (!o) return;
  if (o->store) o->ops->discard(o->store);
  out_free(o);
}

int ct_weights_store_create(const ct_store_ops_t *ops, const char *path, const ct_tensor_t *list,
                            int n, const ct_weights_text_t *text, int texts_given,
                            ct_weights_out_t **out)
{
  int rc = CT_OK;
  ct_weights_out_t *o = ct_mem_alloc(sizeof *o, "a checkpoint");
  *out = NULL;
  if (!o) return CT_ERR_NOMEM;
  o->ops = ops;
  o->item = ct_mem_array(n, sizeof *o->item, "the tensors of a checkpoint");
  CT_TRY(o->item ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < n; i++)
    CT_TRY(take_item(o, path, &list[i]));
  CT_TRY(ops->create(path, &o->store));
  CT_TRY(put_texts(o, text, texts_given));
  *out = o;
  o = NULL;
out:
  ct_weights_store_discard(o);
  return rc;
}

int ct_weights_store_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from)
{
  int rc = CT_OK;
  const ct_shape_t *shape = &o->item[i].shape;
  int64_t count = ct_shape_count(shape);
  size_t size = ct_dtype_size(shape->dtype);
  if (n == count) return o->ops->put(o->store, o->item[i].name, shape, from);
  if (!o->array) o->array = ct_mem_array(count, size, o->item[i].name);
  CT_TRY(o->array ? CT_OK : CT_ERR_NOMEM);
  memcpy(o->array + (size_t)first * size, from, (size_t)n * size);
  o->got += n;
  if (o->got < count) return CT_OK;
  CT_TRY(o->ops->put(o->store, o->item[i].name, shape, o->array));
  ct_mem_free(o->array);
  o->array = NULL;
  o->got = 0;
out:
  return rc;
}

int ct_weights_store_commit(ct_weights_out_t *o)
{
  int rc = o->ops->commit(o->store);
  out_free(o);
  return rc;
}
