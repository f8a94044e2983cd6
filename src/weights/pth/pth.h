/** \file pth.h  A .pth file that is open: what its source files share. */
#ifndef CT__WEIGHTS_PTH_H
#define CT__WEIGHTS_PTH_H
#include "weights/ct_weights.h"
#include "weights/pth/ct_pickle.h"
#include "weights/pth/ct_zip.h"

enum { CT__PTH_DIMS = 64 /**< of a tensor, at most; as in PyTorch */ };
/** Records of texts of this program, below the archive's folder. */
#define CT__PTH_TEXTS "ctrain-hpc/"

/** A tensor: a way through the elements of a storage. */
typedef struct ct__pth_tensor {
  const char *name;
  ct_elem_t type;
  int ndim;
  int64_t *dim, *stride; /**< [ndim] each, in one allocation; in elements */
  int64_t count, offset; /**< elements; where the first one is */
  int64_t span;          /**< elements from the first to the last one in memory */
  int contiguous;        /**< row-major without gaps */
  int64_t storage;       /**< number of the record */
} ct__pth_tensor_t;

/** What of a record was checked against its checksum: its first bytes, one after another. */
typedef struct ct__pth_sum {
  int64_t bytes;
  uint32_t crc;
} ct__pth_sum_t;

struct ct_weights {
  char *path;
  int fd;
  int64_t bytes;      /* of the file */
  ct_zip_t zip;       /* records; those of the older format have the names of the newer one */
  char *prefix;       /* "archive/data/" */
  ct_pickle_t pickle; /* while it is opened, and for the names */
  ct__pth_tensor_t *tensor;
  int64_t n, cap;
  ct_str_t remark;
  ct_str_t unread_list; /* tensors of kinds that only PyTorch has, and why they are left out */
  int64_t unread;
  ct_weights_text_t *text; /* [texts] of this program */
  int64_t texts, text_cap;
  ct__pth_sum_t *sum;  /* [zip.n] */
  unsigned char *held; /* what tensor `holder` spans; holder -1: nothing */
  int64_t held_cap;
  int holder;
};

/** Local.  Fills zip, prefix and pickle from the older format, pickles in a row; the object is the
 * pickle at \a at. */
int ct__pth_open_old(ct_weights_t *w);
/** Whether a file with these first bytes is of the older format. */
int ct__pth_is_old(const unsigned char *head, int64_t bytes);

/** Of a dict's list of keys and values: the value behind a key, and the next key. */
static inline int ct__pth_value(const ct_pickle_t *p, int cell)
{
  return p->cell[p->cell[cell].next].node;
}

static inline int ct__pth_next(const ct_pickle_t *p, int cell)
{
  return p->cell[p->cell[cell].next].next;
}

/** A key that can be shown, and be a tensor's name; else NULL. */
const char *ct__pth_key(const ct_pickle_t *p, int cell);
/** Local.  The dict that is meant, which has tensors; the remark may tell.  CT_ERR_FORMAT */
int ct__pth_choose(ct_weights_t *w, const char *key, int *out);
/** Local.  The dicts that have tensors. */
int ct__pth_parts(ct_weights_t *w, ct_weights_parts_t *out);

/** 1 if a node is a tensor, also of a kind that cannot be read. */
int ct__pth_is_tensor(const ct_pickle_t *p, int node);
/** Local.  Appends what a node is to the tensors, or to unread_list if it is of a kind that only
 * PyTorch has.  CT_ERR_FORMAT names file and tensor. */
int ct__pth_add(ct_weights_t *w, int node, const char *name);
/** The parts of a storage's persistent id: key and element type.  0: it is none. */
int ct__pth_storage(const ct_pickle_t *p, int node, const char **key, const char **type,
                    int64_t *count);
/** 1: the class of a storage ("torch.FloatStorage") is one of PyTorch's, its elements have this
 * type (CT_ELEMS: one that only PyTorch has) and so many bytes. */
int ct__pth_storage_type(const char *name, ct_elem_t *out, int *bytes);

/** Local.  The rows of the table of operations. */
int ct__pth_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
int ct__pth_create(const char *path, const ct_tensor_t *list, int n, const ct_weights_text_t *text,
                   int texts, ct_weights_out_t **out);
int ct__pth_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct__pth_commit(ct_weights_out_t *o);
void ct__pth_discard(ct_weights_out_t *o);

/** Storage class of PyTorch for a type, "FloatStorage"; NULL: it has none, and such tensors are
 * bytes with a type beside (_rebuild_tensor_v3). */
const char *ct__pth_class_of(ct_elem_t e);

#endif
