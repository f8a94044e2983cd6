/* Writes weights as torch.save() writes an OrderedDict: first the pickle, which does not depend on
 * the values, then one record per tensor. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/pth/pth.h"
#include "weights/pth/zip_write.h"

#define FOLDER "archive/"

struct ct_weights_out {
  char *path;
  ct__zip_out_t *zip;
  int64_t *bytes; /* [n] size of each tensor */
  int *element;   /* [n] bytes per element */
  int n;
  int begun; /* tensor records started so far */
};

/* ---- the pickle ---- */

typedef struct bytes {
  unsigned char *data;
  int64_t n, cap;
} bytes_t;

static int write_add(bytes_t *b, const void *from, size_t n)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&b->data, &b->cap, b->n + (int64_t)n, 1));
  memcpy(b->data + b->n, from, n);
  b->n += (int64_t)n;
out:
  return rc;
}

/* Adds printable opcodes and newline-terminated arguments. */
static int write_add_line(bytes_t *b, const char *text)
{
  return write_add(b, text, strlen(text));
}

static int add_number(bytes_t *b, unsigned char op, int size, uint64_t value)
{
  unsigned char line[16] = {op};
  for (int i = 0; i < size; i++)
    line[1 + i] = (unsigned char)(value >> (8 * i));
  return write_add(b, line, (size_t)size + 1);
}

/* BINUNICODE */
static int write_add_text(bytes_t *b, const char *text)
{
  int rc = CT_OK;
  CT_TRY(add_number(b, 'X', 4, strlen(text)));
  CT_TRY(write_add_line(b, text));
out:
  return rc;
}

/* Integers in the smallest encoding, as Python does: BININT1, BININT, LONG1. */
static int add_int(bytes_t *b, int64_t value)
{
  int rc = CT_OK;
  if (value <= 0xff) return add_number(b, 'K', 1, (uint64_t)value);
  if (value <= 0xffff) return add_number(b, 'M', 2, (uint64_t)value);
  if (value <= INT32_MAX) return add_number(b, 'J', 4, (uint64_t)value);
  CT_TRY(add_number(b, 0x8a, 1, 8));
  CT_TRY(write_add(b, &value, sizeof value));
out:
  return rc;
}

/* Adds row-major strides if `strides`, else the dims. */
static int add_dims(bytes_t *b, const ct_tensor_t *t, int strides)
{
  int rc = CT_OK;
  CT_TRY(write_add_line(b, "("));
  for (int d = 0; d < t->ndim; d++) {
    int64_t value = strides ? 1 : t->dim[d];
    for (int k = d + 1; k < t->ndim && strides; k++)
      value *= t->dim[k] > 0 ? t->dim[k] : 1;
    CT_TRY(add_int(b, value));
  }
  CT_TRY(write_add_line(b, "t"));
out:
  return rc;
}

/* ('storage', class, '3', 'cpu', elements) and BINPERSID */
static int add_storage(bytes_t *b, const ct_tensor_t *t, int i)
{
  int rc = CT_OK;
  char line[80], key[16];
  const char *class = ct__pth_class_of(t->type);
  snprintf(line, sizeof line, "ctorch%s\n%s\n", class ? "" : ".storage",
           class ? class : "UntypedStorage");
  snprintf(key, sizeof key, "%d", i);
  CT_TRY(write_add_line(b, "("));
  CT_TRY(write_add_text(b, "storage"));
  CT_TRY(write_add_line(b, line));
  CT_TRY(write_add_text(b, key));
  CT_TRY(write_add_text(b, "cpu"));
  CT_TRY(add_int(b, class ? t->count : t->count * (ct_elem_bits(t->type) / 8)));
  CT_TRY(write_add_line(b, "tQ"));
out:
  return rc;
}

/* _rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()); _v3 appends the dtype */
static int add_tensor(bytes_t *b, const ct_tensor_t *t, int i)
{
  int rc = CT_OK;
  char type[64];
  int untyped = ct__pth_class_of(t->type) == NULL;
  CT_TRY(write_add_text(b, t->name));
  CT_TRY(write_add_line(b, untyped ? "ctorch._utils\n_rebuild_tensor_v3\n("
                                   : "ctorch._utils\n_rebuild_tensor_v2\n("));
  CT_TRY(add_storage(b, t, i));
  CT_TRY(add_int(b, 0));
  CT_TRY(add_dims(b, t, 0));
  CT_TRY(add_dims(b, t, 1));
  CT_TRY(write_add_line(b, "\x89"
                           "ccollections\nOrderedDict\n)R"));
  snprintf(type, sizeof type, "ctorch\n%s\n", ct_elem_name(t->type));
  if (untyped) CT_TRY(write_add_line(b, type));
  CT_TRY(write_add_line(b, "tR"));
out:
  return rc;
}

static int make_pickle(const ct_tensor_t *list, int n, bytes_t *b)
{
  int rc = CT_OK;
  CT_TRY(write_add_line(b, "\x80\x02"
                           "ccollections\nOrderedDict\n)R("));
  for (int i = 0; i < n; i++)
    CT_TRY(add_tensor(b, &list[i], i));
  CT_TRY(write_add_line(b, "u."));
out:
  return rc;
}

/* ---- the file ---- */

static void free_out(ct_weights_out_t *o)
{
  ct_mem_free(o->bytes);
  ct_mem_free(o->element);
  ct_mem_free(o->path);
  ct_mem_free(o);
}

static int copy_list(ct_weights_out_t *o, const ct_tensor_t *list, int n)
{
  int rc = CT_OK;
  o->n = n;
  o->bytes = ct_mem_array((int64_t)n + 1, sizeof *o->bytes, "sizes of tensors");
  o->element = ct_mem_array((int64_t)n + 1, sizeof *o->element, "sizes of tensors");
  if (!o->bytes || !o->element) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < n; i++) {
    if (ct_elem_bits(list[i].type) < 8)
      CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' is of %s, which a .pth file does not hold", o->path,
              list[i].name, ct_elem_name(list[i].type));
    o->element[i] = ct_elem_bits(list[i].type) / 8;
    o->bytes[i] = list[i].count * o->element[i];
  }
out:
  return rc;
}

static int put_texts(ct_weights_out_t *o, const ct_weights_text_t *text, int n)
{
  int rc = CT_OK;
  char name[300];
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_text_format(name, sizeof name, FOLDER CT__PTH_TEXTS "%s", text[i].name));
    CT_TRY(ct__zip_put(o->zip, name, text[i].text, (int64_t)strlen(text[i].text)));
  }
out:
  return rc;
}

int ct__pth_create(const char *path, const ct_tensor_t *list, int n, const ct_weights_text_t *text,
                   int texts, ct_weights_out_t **out)
{
  int rc = CT_OK;
  bytes_t pickle = {0};
  *out = NULL;
  const char *suffix = strrchr(path, '.');
  if (suffix && strcmp(suffix, ".pt2") == 0)
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "%s: a .pt2 file has a program, which only torch.export writes; write the "
                      "weights as .pth or .safetensors",
                      path);
  ct_weights_out_t *o = ct_mem_alloc(sizeof *o, "a .pth file");
  if (!o) return CT_ERR_NOMEM;
  o->path = ct_mem_strdup(path);
  if (!o->path) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(copy_list(o, list, n));
  CT_TRY(make_pickle(list, n, &pickle));
  CT_TRY(ct__zip_create(path, &o->zip));
  CT_TRY(ct__zip_put(o->zip, FOLDER "data.pkl", pickle.data, pickle.n));
  CT_TRY(ct__zip_put(o->zip, FOLDER "byteorder", "little", strlen("little")));
  CT_TRY(put_texts(o, text, texts));
  *out = o;
  o = NULL;
out:
  ct__pth_discard(o);
  ct_mem_free(pickle.data);
  return rc;
}

/* Starts records up to tensor i; skipped ones are empty. */
static int begin_up_to(ct_weights_out_t *o, int i)
{
  int rc = CT_OK;
  char name[40];
  while (o->begun <= i) {
    snprintf(name, sizeof name, FOLDER "data/%d", o->begun);
    CT_TRY(ct__zip_begin(o->zip, name, o->bytes[o->begun]));
    o->begun++;
  }
out:
  return rc;
}

int ct__pth_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from)
{
  int rc = CT_OK;
  CT_TRY(begin_up_to(o, i));
  if (i != o->begun - 1 || first * o->element[i] != o->bytes[i] - ct__zip_left(o->zip))
    CT_FAIL(CT_ERR_ARG, "%s: tensors are not put in their order", o->path);
  CT_TRY(ct__zip_write(o->zip, from, n * o->element[i]));
out:
  return rc;
}

int ct__pth_commit(ct_weights_out_t *o)
{
  int rc = CT_OK;
  CT_TRY(begin_up_to(o, o->n - 1));
  CT_TRY(ct__zip_put(o->zip, FOLDER "version", "3\n", 2));
  ct__zip_out_t *zip = o->zip;
  o->zip = NULL;
  CT_TRY(ct__zip_commit(zip));
out:
  ct__pth_discard(o);
  return rc;
}

void ct__pth_discard(ct_weights_out_t *o)
{
  if (!o) return;
  ct__zip_discard(o->zip);
  free_out(o);
}
